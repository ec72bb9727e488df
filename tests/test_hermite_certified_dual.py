"""hermite.certified.dual: every route against closed forms, references and the other routes."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from _activations import DATA, SPECS
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite._build import reduced_dual
from hermite.errors import NotSquareIntegrableError, PrecisionError

pytest.importorskip("flint")
from hermite import certified
from hermite._tree import X
from hermite.certified import Enclosure, _dual
from hermite.certified._cover import Smooth
from hermite.certified._double import DoubleWeight, inner_error, tensor_sum
from hermite.certified._flint import arb, precision
from hermite.certified._moments import raw
from hermite.certified._quadrature import HermiteWeight, Panels, gaussian, samples

NEAR_ONE = "0.999999999999"


def _theta(r: Any) -> Any:
    return mp.acos(r)


CLOSED: dict[str, Callable[[Any], Any]] = {
    "relu": lambda r: (mp.sqrt(1 - r * r) + (mp.pi - _theta(r)) * r) / (2 * mp.pi),
    "heaviside(x)": lambda r: (mp.pi - _theta(r)) / (2 * mp.pi),
    "sign(x)": lambda r: 2 / mp.pi * mp.asin(r),
    "abs(x)": lambda r: 2 / mp.pi * (mp.sqrt(1 - r * r) + r * mp.asin(r)),
    "relu(x)**2": lambda r: (3 * mp.sqrt(1 - r * r) * r + (mp.pi - _theta(r)) * (1 + 2 * r * r)) / (2 * mp.pi),
    "exp(x/2)": lambda r: mp.exp((1 + r) / 4),
    "erf(x)": lambda r: 2 / mp.pi * mp.asin(2 * r / 3),
    "sin(2*x)": lambda r: mp.exp(-4) * mp.sinh(4 * r),
    "cos(x)": lambda r: mp.exp(-1) * mp.cosh(r),
    "He(3, x)": lambda r: r**3,
    "x**2 + x": lambda r: 1 + r + 2 * r * r,
}


def meets(found: Enclosure, value: Any, error: Any) -> bool:
    return bool(found.lower <= value + error and value - error <= found.upper)


@pytest.mark.parametrize(
    "rho", ["-1", f"-{NEAR_ONE}", "-3/4", "-0.1", "0", "1e-9", "1/3", "0.9", "0.999", NEAR_ONE, "1"]
)
@pytest.mark.parametrize("text", list(CLOSED))
def test_closed_forms(text: str, rho: str) -> None:
    with mp.workdps(60):
        q = Fraction(rho)
        exact = CLOSED[text](mp.mpf(q.numerator) / q.denominator)
        found = certified.dual(text, rho)
        assert meets(found, exact, mp.mpf("1e-50")), (found, exact)
        assert found.radius <= mp.mpf("1e-30") * max(abs(exact), 1)


@pytest.mark.parametrize("rho", ["-0.999999", "-0.5", "0.3", "0.9", "0.999"])
@pytest.mark.parametrize("name", DATA)
def test_references_lie_inside(name: str, rho: str) -> None:
    if name in ("softsign", "sqrt_abs") and abs(Fraction(rho)) >= Fraction(9, 10):
        rho = "-0.5"  # nearer to 1 the double integral takes many seconds: see test_double_integral
    with mp.workdps(40):
        text = DATA[name]["dual"][rho]
        found = certified.dual(hermite.activation(SPECS.get(name, name)), rho, digits=24)
        unit = mp.mpf(10) ** -(len(text.partition(".")[2])) if text != "0" else 0
        assert meets(found, mp.mpf(text), unit), (found, text)


def test_routes_are_named() -> None:
    half = Fraction(1, 2)
    for text, rho, how in (
        ("relu", half, "gaussian smoothing"),
        ("elu", half, "gaussian smoothing"),
        ("hardswish(x)*exp(x)", half, "gaussian smoothing"),
        ("tanh", Fraction(99, 100), "hermite series"),
        ("softsign", half, "hermite series"),
        ("softsign", Fraction(99, 100), "double integral"),
        ("relu", Fraction(1), "second moment"),
        ("relu", Fraction(-1), "mirrored second moment"),
        ("relu", Fraction(0), "square of the mean"),
        ("3", half, "constant"),
    ):
        assert _dual.route(hermite.activation(text), rho) == how


@pytest.mark.parametrize(("text", "rho"), [("relu(x - 1)", "0.4"), ("hardtanh(x)", "-0.6"), ("elu(x)", "0.7")])
def test_routes_agree(monkeypatch: pytest.MonkeyPatch, text: str, rho: str) -> None:
    """The same dual by smoothing, by the Hermite series and by the double integral."""
    sigma, found = hermite.activation(text), {}
    for how in ("gaussian smoothing", "hermite series", "double integral"):
        monkeypatch.setattr(_dual, "route", lambda *_, how=how: how)
        found[how] = certified.dual(sigma, rho, digits=20)
    values = list(found.values())
    for a in values:
        assert a.digits >= 20
        for b in values:
            assert a.lower <= b.upper


def test_double_integral() -> None:
    """softsign is neither made of exponentials nor analytic, and its series is long at 0.99."""
    with mp.workdps(30):
        found = certified.dual("softsign", "0.99", digits=20)
        assert meets(found, mp.mpf(DATA["softsign"]["dual"]["0.99"]), mp.mpf("1e-24"))
        steep = certified.dual("tanh(10*x)", "0.9", digits=12)
        assert steep.digits >= 12
    reduced = reduced_dual(hermite.activation("tanh(10*x)"))(np.array([0.9]))[0]  # float64, by rotated coordinates
    assert abs(float(steep) - hermite.variance("tanh(10*x)") * reduced) < 1e-12
    # pieces between roots that only a search finds
    found = certified.dual("max(x, sin(3*x))", "0.95", digits=15)
    reduced = reduced_dual(hermite.activation("max(x, sin(3*x))"))(np.array([0.95]))[0]
    low = hermite.moments("max(x, sin(3*x))", 0)
    assert abs(float(found) - low.coefficients[0] ** 2 - low.variance * reduced) < 1e-13


_NUMBERS = st.fractions(-2, 2, max_denominator=6)


@given(a=_NUMBERS, t=_NUMBERS, b=_NUMBERS, rho=st.fractions(Fraction(-1, 2), Fraction(1, 2), max_denominator=50))
def test_random_piecewise_sigma_against_float64(a: Fraction, t: Fraction, b: Fraction, rho: Fraction) -> None:
    text = f"max(x, {t}) + ({a})*abs(x - ({b})) + x**3"
    found = certified.dual(text, rho, digits=16)
    c = hermite.coefficients(text, 64)
    series = float(np.sum(c * c * float(rho) ** np.arange(65)))  # what is left out is below 2^-65
    assert abs(float(found) - series) <= 4e-15 * hermite.second_moment(text)


def test_dual_is_symmetric_where_sigma_is_odd() -> None:
    for text in ("tanh(x)", "hardtanh(x)", "x - tanh(x)"):
        a, b = certified.dual(text, "0.6"), -certified.dual(text, "-0.6")
        assert a.lower <= b.upper
        assert b.lower <= a.upper


def test_many_digits() -> None:
    with mp.workdps(120):
        found = certified.dual("relu", "1/3", digits=100)
        assert found.digits >= 100
        assert meets(found, CLOSED["relu"](mp.mpf(1) / 3), mp.mpf("1e-115"))
        found = certified.dual("erf(x)", "1/3", digits=60)
        assert found.digits >= 60
        assert meets(found, CLOSED["erf(x)"](mp.mpf(1) / 3), mp.mpf("1e-115"))


def test_parseval_tail_is_part_of_the_enclosure() -> None:
    """A short partial sum at rho = 0.9 must still hold the truth, on the right side."""
    rho = Fraction(9, 10)
    for text in ("relu", "sign(x)", "heaviside(x)"):
        for degree, sign in itertools.product((2, 3, 10, 40), (1, -1)):
            found = raw(hermite.activation(text), degree, 100)
            with precision(found.bits):
                value, rest = _dual._summed(found, sign * rho)
                assert float(rest) > 1e-8
                e = Enclosure.from_ball(value)
            with mp.workdps(40):
                assert meets(e, CLOSED[text](sign * mp.mpf(9) / 10), mp.mpf("1e-35"))


@pytest.mark.parametrize("reach", [None, 2, 4])
@pytest.mark.parametrize("how", ["gaussian smoothing", "hermite series", "double integral"])
def test_coarse_answers_hold_the_truth(monkeypatch: pytest.MonkeyPatch, how: str, reach: int | None) -> None:
    """With few bits, or tails cut far too early, what was left out has to be in the radius."""
    monkeypatch.setattr(_dual, "route", lambda *_: how)
    if reach is not None:
        monkeypatch.setattr(_dual, "reach_for", lambda *_: Fraction(reach))
    for text, rho, bits in itertools.product(("relu", "abs(x)", "relu(x)**2"), ("1/2", "-9/10"), (6, 12, 20)):
        q = Fraction(rho)
        value, _, work = _dual._value(hermite.activation(text), q, bits, time.monotonic() + 60)
        with precision(work):
            found = Enclosure.from_ball(value)
        with mp.workdps(40):
            assert meets(found, CLOSED[text](mp.mpf(q.numerator) / q.denominator), mp.mpf("1e-37")), (text, rho, bits)


def test_what_lies_outside_the_band_is_in_the_radius() -> None:
    rho = Fraction(1, 2)
    with precision(100):
        part = Smooth(Fraction(0), Fraction(6), X)
        panels = Panels([part], HermiteWeight(0), (arb((1, -40)), arb((1, -40))), 40, lambda a, b: False)
        nodes = samples(panels, 100)
        weights = [s.mass / gaussian(s.x) for s in nodes]
        sums = [tensor_sum(nodes, weights, rho, bits, math.inf) for bits in (1, 5, 20, 90)]
        assert all(a.contains(sums[-1].mid()) for a in sums[:-1])
        assert sums[0].rad() > sums[1].rad() > sums[2].rad()
        exact = CLOSED["relu"](mp.mpf(1) / 2)
        assert abs(float(sums[-1]) - float(exact)) < 1e-6
        # the errors of the rule inside are small, positive and grow when the nodes are fewer
        errors = []
        for bits in (10, 20, 40):
            goal = (arb((1, -bits)), arb((1, 100)))
            coarse = Panels([part], DoubleWeight((arb(1), arb(1), arb(0)), rho), goal, bits, lambda a, b: False)
            found = samples(coarse, 100)
            errors.append(inner_error(coarse, found, [s.mass / gaussian(s.x) for s in found], rho, bits, math.inf))
        assert errors[0] > errors[1] > errors[2] > 0


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1.0000001, "-1.5", 2, float("nan"), float("inf"), None, "x"])
def test_rho_is_checked(rho: Any) -> None:
    with pytest.raises(ValueError, match="rho"):
        certified.dual("relu", rho)


def test_time_limit() -> None:
    begun = time.monotonic()
    with pytest.raises(PrecisionError, match=r"time_limit=0\.3"):
        certified.dual("softsign", "0.9999", time_limit=0.3)
    with pytest.raises(PrecisionError, match=r"time_limit=0\.2"):
        certified.dual("tanh(3*x)", "0.999", time_limit=0.2)
    assert time.monotonic() - begun < 8
    with pytest.raises(ValueError, match="time_limit"):
        certified.dual("relu", 0.5, time_limit=0)


def test_divergence_and_singular_points() -> None:
    with pytest.raises(NotSquareIntegrableError):
        certified.dual("exp(x**2/3)", 0.5)
    found = certified.dual("log(abs(x))", 0, digits=10)
    assert meets(found, ((mp.euler + mp.log(2)) / 2) ** 2, mp.mpf("1e-12"))
    with pytest.raises(PrecisionError, match="unbounded at a point"):
        certified.dual("log(abs(x))", -1, digits=10)


def test_constant() -> None:
    assert certified.dual("3", "0.3") == Enclosure.of(9)
    assert 9 in certified.dual("3 if x > 0 else 3", -1)
