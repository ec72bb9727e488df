"""Dual activations to many digits: reference values, closed forms, agreement of the two routes, and refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from _activations import DATA, SPECS
from _mpf import close
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

import hermite
import hermite.multiprecision as hm
from hermite._build import reduced_dual
from hermite.errors import NotSquareIntegrableError, PrecisionError
from hermite.multiprecision._double import double_integral
from hermite.multiprecision._dual import dual_value
from hermite.multiprecision._raw import to_mpf


def check(name: str, rho: str, digits: int, agree: float) -> None:
    """Stored duals have 25 digits."""
    wanted = mpf(DATA[name]["dual"][rho])
    found = hm.dual(SPECS.get(name, name), rho, digits=digits)
    if wanted == 0:
        assert abs(found) <= mpf("1e-50")
    else:
        close(found, DATA[name]["dual"][rho], agree)


@pytest.mark.parametrize("rho", ["-1.0", "-0.5", "0.3", "1.0"])
@pytest.mark.parametrize("name", list(DATA)[::2])
def test_reference(name: str, rho: str) -> None:
    check(name, rho, 20, 20)


@pytest.mark.parametrize("rho", ["0.999999", "-0.999999"])
@pytest.mark.parametrize("name", ["relu", "step", "hard_tanh", "rect", "gaussian", "exp"])
def test_reference_near_one(name: str, rho: str) -> None:
    check(name, rho, 18, 18)


# a dual of a kinked function is a double integral, seconds each: everything is asked for under this profile only
EVERYTHING = os.environ.get("ISOGRAM_HYPOTHESIS_PROFILE") == "thorough"


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_reference_everywhere(name: str) -> None:
    stored, turn = list(DATA[name]["dual"]), list(DATA).index(name)
    for rho in stored if EVERYTHING else stored[turn % 15 : turn % 15 + 1]:
        if name == "sqrt_abs" and abs(float(rho)) in (0.999, 0.999999):  # a singular point: the series is long
            with pytest.raises(PrecisionError, match="singular point"):
                hm.dual(SPECS[name], rho, digits=26)
        else:
            check(name, rho, 26, 24.3)


# ---- closed forms -------------------------------------------------------------------------------------------------


def relu_dual(rho: Any) -> Any:
    theta = mpmath.acos(rho)
    return (mpmath.sin(theta) + (mpmath.pi - theta) * rho) / (2 * mpmath.pi)


CLOSED: dict[str, Callable[[Any], Any]] = {
    "relu": relu_dual,
    "step": lambda rho: (mpmath.pi - mpmath.acos(rho)) / (2 * mpmath.pi),
    "sign": lambda rho: 2 * mpmath.asin(rho) / mpmath.pi,
    "abs": lambda rho: 2 * (mpmath.sqrt(1 - rho**2) + rho * mpmath.asin(rho)) / mpmath.pi,
    "relu(x)**2": lambda rho: (
        (3 * mpmath.sqrt(1 - rho**2) * rho + (mpmath.pi - mpmath.acos(rho)) * (1 + 2 * rho**2)) / (2 * mpmath.pi)
    ),
    "exp": lambda rho: mpmath.exp(1 + rho),
    "sin": lambda rho: mpmath.exp(-1) * mpmath.sinh(rho),
    "erf": lambda rho: 2 * mpmath.asin(2 * rho / 3) / mpmath.pi,
    "He(5, x)": lambda rho: rho**5,
}
NEAR = ["0.9999999999", "-0.9999999999"]


def asked() -> list[Any]:
    """Every form at every correlation; kinks near one take seconds, so only two of them in quick runs."""
    pairs = [(t, r) for t in CLOSED for r in ("1/2", "-9/10", "1e-25", *NEAR)]
    slow = {"sign", "abs", "relu(x)**2"}
    return [pytest.param(t, r, marks=pytest.mark.slow) if t in slow and r in NEAR else (t, r) for t, r in pairs]


@pytest.mark.parametrize(("text", "rho"), asked())
def test_closed_forms(text: str, rho: str) -> None:
    """1 - rho is formed exactly: 1 - 1e-10 costs no digit, and 1e-25 keeps its own."""
    q = Fraction(rho)
    with mpmath.workdps(120):
        wanted = CLOSED[text](mpf(q.numerator) / q.denominator)
    found = hm.dual(text, rho, digits=25)
    if wanted and abs(wanted) > mpf("1e-50"):
        close(found, wanted, 25)
    else:
        assert abs(found) <= mpf("1e-48")


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("sin", 50), ("exp", 50), ("relu", 50),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("erf", 50), ("sin", 100), ("relu", 100))),
        *([pytest.param("erf", 100, marks=pytest.mark.slow)] if EVERYTHING else []),  # a minute
    ],
)  # fmt: skip
def test_many_digits(text: str, digits: int) -> None:
    rho = "1/4" if text == "relu" else "9/10"
    with mpmath.workdps(digits + 30):
        wanted = CLOSED[text](mpf(1) / 4 if text == "relu" else mpf(9) / 10)
    close(hm.dual(text, rho, digits=digits), wanted, digits)


@pytest.mark.slow
@pytest.mark.parametrize("name", [s.name for s in hermite.catalogue()] if EVERYTHING else ["relu", "gelu"])
def test_the_whole_catalogue_near_one(name: str) -> None:
    """30 digits against 33 at 1 - 1e-10, and against float64."""
    rho = Fraction(10**10 - 1, 10**10)
    found = hm.dual(name, rho, digits=30)
    close(found, hm.dual(name, rho, digits=33), 30)
    assert abs(found - hm.second_moment(name)) <= 1e-4 * hm.second_moment(name)


# ---- two routes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", ["7/10", "-7/10"])
@pytest.mark.parametrize("text", ["hardtanh", "softsign", "elu", "tanh", "relu(x - 1) - step(x + 1)"])
def test_series_and_double_integral_agree(text: str, rho: str) -> None:
    sigma, q = hermite.activation(text), Fraction(rho)
    plan = double_integral(sigma, q, 15.0)
    assert plan is not None
    value, error = plan.value(15)
    series = to_mpf(dual_value(sigma, q, 18))
    assert abs(to_mpf(value) - series) <= mpf("1e-15") * hm.second_moment(sigma)
    assert error < -34


def test_small_correlations_see_the_next_term() -> None:
    """At rho = 1e-6 the value is 1e-30, and the first term left out 1e-36."""
    with mpmath.workdps(60):
        close(hm.dual("He(5, x) + He(6, x)", "1e-6", digits=20), mpf(10) ** -30 + mpf(10) ** -36, 20)


def test_dual_at_zero_and_the_ends() -> None:
    for text in ("gelu_tanh", "hardswish", "exp(x/2)"):
        c, second = hm.coefficients(text, 0)[0], hm.second_moment(text)
        with mpmath.workdps(60):
            close(hm.dual(text, 0), c * c, 29.5)
            close(hm.dual(text, 1), second, 30)
    close(hm.dual("exp(x/2)", -1), mpf(1), 30)
    close(hm.dual("tanh", -1), -hm.second_moment("tanh"), 15)
    assert hm.dual("relu", -1) == 0
    assert hm.dual("tanh", 0) == 0


# ---- properties ---------------------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(st.fractions(-1, 1, max_denominator=40))
def test_relu_and_its_mirror_image_make_abs(rho: Fraction) -> None:
    """|x| = relu(x) + relu(-x): E |X||Y| = 2 relu^(rho) + 2 relu^(-rho)."""
    if abs(rho) > Fraction(9, 10) and abs(rho) < 1:
        rho = rho / 2
    with mpmath.workdps(60):
        total = 2 * hm.dual("relu", rho, digits=20) + 2 * hm.dual("relu", -rho, digits=20)
        close(total, hm.dual("abs", rho, digits=25), 20)


@settings(max_examples=6)
@given(st.sampled_from(["tanh", "hardtanh", "gaussian", "cos"]), st.fractions("1/20", "1/2", max_denominator=20))
def test_parity(name: str, rho: Fraction) -> None:
    sign = -1 if name in ("tanh", "hardtanh") else 1
    with mpmath.workdps(40):
        close(hm.dual(name, -rho, digits=20), sign * hm.dual(name, rho, digits=20), 20)


@pytest.mark.parametrize("name", ["tanh", "elu", "hardsigmoid", "mish"])
def test_float64_agrees(name: str) -> None:
    sigma, m = hermite.activation(name), hermite.moments(name, 1)
    for rho in (-0.6, 0.25, 0.75):
        wanted = m.coefficients[0] ** 2 + m.variance * float(reduced_dual(sigma)(np.array([rho]))[0])
        assert abs(float(hm.dual(sigma, rho, digits=18)) - wanted) <= 2e-14 * m.second_moment


# ---- arguments and refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.5, "1/2", "0.5", Fraction(1, 2), mpf("0.5"), sympy.Rational(1, 2)])
def test_ways_to_write_rho(rho: Any) -> None:
    with mpmath.workdps(40):
        close(hm.dual("step", rho, digits=20), mpf(1) / 3, 20)


def test_a_float_is_its_decimal() -> None:
    assert hm.dual("sign", 0.1, digits=25) == hm.dual("sign", "1/10", digits=25)


@pytest.mark.parametrize("rho", [1.0000001, "-2", "nan", float("nan"), float("inf"), None, "half", 1j])
def test_bad_rho(rho: Any) -> None:
    with pytest.raises(ValueError, match="rho"):
        hm.dual("relu", rho)


def test_refusals() -> None:
    for rho in (1, -1, 0, 0.5):
        with pytest.raises(NotSquareIntegrableError):
            hm.dual("exp(x**2/4)", rho)
    with pytest.raises(PrecisionError, match="singular point"):
        hm.dual("sqrt(abs(x))", "0.9999", digits=30)
    with pytest.raises(PrecisionError, match="take a smaller"):
        hm.dual("hardtanh", "0.999", digits=130)
    with pytest.raises(ValueError, match="digits"):
        hm.dual("relu", 0.5, digits=0)


def test_callables() -> None:
    """With its kink declared a callable goes through the double integral too."""
    declared = hermite.activation(lambda x: max(x, 0), breakpoints=[0])
    with mpmath.workdps(50):
        close(hm.dual(declared, "0.9999", digits=15), relu_dual(mpf("0.9999")), 15)
    close(hm.dual(mpmath.sin, "1/3", digits=25), hm.dual("sin", "1/3", digits=25), 25)
    assert mpmath.mp.dps == 15
