"""Duals that no series in sqrt(1 - |rho|) serves: powers of |x|, and tails that fall faster than any power at -1."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

import hermite
from hermite._build import reduced_dual
from hermite._power_law import power_law

HALF = mpf(1) / 2


def moment(q: Any) -> Any:
    return 2 ** (q / 2) * mp.gamma((q + 1) / 2) / mp.sqrt(mp.pi)


def even_part(a: Any, rho: Any) -> Any:
    """E |X|^a |Y|^a."""
    return moment(a) ** 2 * mp.hyp2f1(-a / 2, -a / 2, HALF, rho**2)


def odd_part(a: Any, rho: Any) -> Any:
    """E sign(X) |X|^a sign(Y) |Y|^a."""
    return moment(a + 1) ** 2 * rho * mp.hyp2f1((1 - a) / 2, (1 - a) / 2, 3 * HALF, rho**2)


# sigma, exponent, coefficients of |x|^a and sign(x) |x|^a
POWERS = {
    "sqrt(abs(x))": ("1/2", 1, 0),
    "3*sqrt(abs(2*x)) - 7": ("1/2", 3 * mp.sqrt(2), 0),
    "relu(x)**0.5": ("1/2", "1/2", "1/2"),
    "abs(x)**0.3": ("3/10", 1, 0),
    "abs(x)**(-1/5)": ("-1/5", 1, 0),
    "sign(x)*abs(x)**1.5": ("3/2", 0, 1),
    "relu(x)**2.5": ("5/2", "1/2", "1/2"),
    "2*sqrt(x) if x > 0 else -sqrt(-x)": ("1/2", "1/2", "3/2"),
}


@pytest.mark.parametrize("spec", POWERS)
def test_powers(spec: str) -> None:
    """Absolute 1e-15 of E sigma^2, and relative 1e-14 of distances from 1 down to 1e-300."""
    a, P, Q = (mpf(v.split("/")[0]) / mpf(v.split("/")[1]) if isinstance(v, str) else v for v in POWERS[spec])
    d = hermite.Dual(spec)
    constant = mpf(-7) if spec.endswith("- 7") else mpf(0)
    with mp.workdps(60):
        second = P**2 * moment(2 * a) + Q**2 * moment(2 * a) + 2 * constant * P * moment(a) + constant**2
        shift = constant**2 + 2 * constant * P * moment(a)
        for r in (-1, -0.999999, -0.9, -0.86, -0.3, -1e-9, 0, 1e-5, 0.2, 0.5, 0.859, 0.86, 0.99, 0.9999999, 1):
            wanted = P**2 * even_part(a, mpf(r)) + Q**2 * odd_part(a, mpf(r)) + shift
            assert abs(mpf(d(r)) - wanted) <= mpf("1e-15") * second, r
            if r in (-0.9, 0.2, 0.99):
                slope = mp.diff(lambda t: P**2 * even_part(a, t) + Q**2 * odd_part(a, t), mpf(r))
                assert d.derivative(r) == pytest.approx(float(slope), rel=1e-12)
    with mp.workdps(340):
        variance = P**2 * (moment(2 * a) - moment(a) ** 2) + Q**2 * moment(2 * a)
        for delta in (1e-300, 1e-40) if spec == "sqrt(abs(x))" else (1e-40,):
            _near(d, a, P, Q, variance, delta)
    with mp.workdps(80):
        for delta in (1e-27, 1e-25, 1e-16, 1e-6, 0.01, 0.1406, 0.1407, 0.5, 1.0):
            _near(d, a, P, Q, variance, delta)


def _near(d: hermite.Dual, a: Any, P: Any, Q: Any, variance: Any, delta: float) -> None:
    rho = 1 - mpf(delta)
    change = P**2 * (even_part(a, mpf(1)) - even_part(a, rho)) + Q**2 * (odd_part(a, mpf(1)) - odd_part(a, rho))
    assert abs(mpf(d.complement(delta)) / (change / variance) - 1) <= mpf("1e-14"), delta


def test_powers_at_the_ends() -> None:
    assert hermite.Dual("sqrt(abs(x))").derivative([-1.0, 1.0]).tolist() == [-math.inf, math.inf]
    assert hermite.Dual("abs(x)**0.3").derivative(1.0) == math.inf
    root = hermite.Dual("relu(x)**0.5")
    assert root.derivative(1.0) == math.inf
    # d(-1 + s^2) is a multiple of s^2: E of the root of (U + V)(U - V) over the wedge |U| < V, by its angle
    assert root(-1.0) == 0.0
    assert root(-1 + 2.0**-40) / 2.0**-40 == pytest.approx(root.derivative(-1.0), rel=1e-11)
    smooth = hermite.Dual("relu(x)**2.5")
    assert smooth.derivative(1.0) == pytest.approx(6.25 * float(moment(mpf(3))) / 2, rel=1e-14)
    assert smooth.derivative(-1.0) == 0.0
    assert smooth(-1 + 2.0**-52) / smooth(-1 + 2.0**-50) == pytest.approx(2.0**-6, rel=1e-12)  # s^6


@pytest.mark.parametrize(
    "spec", ["relu", "x**2", "sqrt(abs(x)) + x", "sqrt(abs(x - 1))", "log(abs(x))", "tanh", "sign"]
)
def test_what_is_no_power_law(spec: str) -> None:
    assert power_law(hermite.activation(spec)) is None


def test_one_power_law_however_it_is_written() -> None:
    laws = {power_law(hermite.activation(s)) for s in ("sqrt(abs(x))", "abs(x)**0.5", "sqrt(relu(x)) + sqrt(relu(-x))")}
    assert len(laws) == 1


# ---- tails at -1 ------------------------------------------------------------------------------------------------


def over_wedge(t: Any, rho: Any, inner: Any) -> Any:
    """E g over X > t, Y > t: with X, Y = V h +- U c the wedge is |U| c < V h - t, and inner integrates over U."""
    h, c = mp.sqrt((1 + mpf(rho)) / 2), mp.sqrt((1 - mpf(rho)) / 2)
    start = t / h
    ends = [start + k / max(start, 1) for k in (0, mpf(1) / 4, 1, 2, 4, 8, 16, 32, 64, 128)]
    return mp.quad(lambda v: mp.npdf(v) * inner((v * h - t) / c, c), ends)


def step_inner(z: Any, c: Any) -> Any:
    return mp.erf(z / mp.sqrt(2))


def relu_inner(z: Any, c: Any) -> Any:
    return c**2 * ((z * z - 1) * mp.erf(z / mp.sqrt(2)) + 2 * z * mp.npdf(z))


@pytest.mark.parametrize(("name", "inner"), [("step", step_inner), ("relu", relu_inner)])
@pytest.mark.parametrize("t", [0.25, 1.0, 2.5])
def test_tails(name: str, inner: Any, t: float) -> None:
    """Relative 1e-9 next to -1, where the dual falls like exp(-t^2/(1 + rho)) through all exponents of float64."""
    d = hermite.Dual(f"{name}(x - {t})")
    with mp.workdps(50):
        for rho in (-0.6, -0.8, -0.9, -0.95, -0.99, -0.999):
            wanted = over_wedge(mpf(t), rho, inner)
            if wanted > mpf("1e-300"):
                assert abs(mpf(d(rho)) / wanted - 1) <= mpf("1e-9"), rho
            else:
                assert d(rho) <= 1e-299
    assert d(-1.0) == d(-1 + 1e-6) == 0.0
    assert d.derivative(-1.0) == pytest.approx(0.0, abs=1e-18)


def test_support_that_touches_its_mirror_image_needs_no_tail() -> None:
    for spec in ("relu", "step", "relu(x)**2", "gelu", "hardtanh"):
        assert reduced_dual(hermite.activation(spec)).tail is None
    assert reduced_dual(hermite.activation("step(x - 1)")).tail is not None
    # (-4, -3) and (1, 2): the smallest sum of two points is -3 + 2
    tail = reduced_dual(
        hermite.activation("(1 if x > 1 else 0)*(1 if x < 2 else 0) + (1 if x > -4 else 0)*(1 if x < -3 else 0)")
    ).tail
    assert tail is not None
    assert tail.distance == pytest.approx(1.0)


def test_values_are_shared_with_normalised_ones() -> None:
    d, rho = hermite.Dual("step(x - 1)"), np.array([-0.99, -0.95, 0.2])
    assert np.allclose(d.normalized(rho), d(rho) / d(1.0), rtol=1e-14, atol=0)
