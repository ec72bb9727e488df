"""The four number systems agree: float64, symbolic, multiprecision, certified. Each was derived by other means.

Enclosures are the measure: they are proven, so a number outside one is wrong.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from _activations import DATA, SPECS
from hypothesis import given, settings
from hypothesis import strategies as st

import hermite
from hermite import certified, multiprecision, symbolic
from hermite.errors import NoClosedFormError, PrecisionError

CATALOGUE = hermite.catalogue()
DIGITS = 30


def name_of(sigma: hermite.Activation) -> str:
    return sigma.name


def number(formula: sp.Expr) -> Any:
    return mp.mpf(sp.N(formula, DIGITS + 10))


def near(value: Any, enclosure: certified.Enclosure, error: Any) -> bool:
    """Whether a value lies in the enclosure widened by its own error."""
    return bool(enclosure.lower - error <= mp.mpf(value) <= enclosure.upper + error)


def check_all(sigma: hermite.Activation, degree: int, symbolically: bool = True) -> None:
    """All verbs of all engines on one activation."""
    with mp.workdps(DIGITS + 10):
        proven = certified.moments(sigma, degree, digits=DIGITS)
        fine = multiprecision.moments(sigma, degree, digits=DIGITS)
        coarse = hermite.moments(sigma, degree)
        second = proven.second_moment.upper
        tight, loose = mp.mpf(10) ** -DIGITS, mp.mpf("1e-14") * (1 + (sigma.growth or (0, 0, 0))[1] ** 2)
        for k in range(degree + 1):
            assert near(fine.coefficients[k], proven.coefficients[k], 2 * tight * mp.sqrt(second)), k
            assert near(float(coarse.coefficients[k]), proven.coefficients[k], loose * mp.sqrt(second)), k
        for field in ("second_moment", "variance", "residual"):
            enclosure = getattr(proven, field)
            assert near(getattr(fine, field), enclosure, 2 * tight * second), field
            assert near(getattr(coarse, field), enclosure, loose * second), field
        beta = certified.isometry_strength(sigma, digits=DIGITS)
        assert near(multiprecision.isometry_strength(sigma, digits=DIGITS), beta, 4 * tight)
        assert near(hermite.isometry_strength(sigma), beta, mp.mpf(coarse.strength_error) + mp.mpf("1e-15"))
        if symbolically:
            exact = symbolic.moments(sigma, degree)
            for k in range(degree + 1):
                assert near(number(exact.coefficients[k]), proven.coefficients[k], tight * mp.sqrt(second)), k
            assert near(number(exact.second_moment), proven.second_moment, tight * second)
            assert near(number(exact.variance), proven.variance, tight * second)
            assert near(number(symbolic.isometry_strength(sigma)), beta, 4 * tight)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", CATALOGUE, ids=name_of)
def test_the_catalogue(sigma: hermite.Activation) -> None:
    try:
        symbolic.expectation(sigma)
        closed = True
    except NoClosedFormError:
        closed = False
    degree = 1 if sigma.name == "softsign" else 5
    check_all(sigma, degree, symbolically=closed)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", CATALOGUE, ids=name_of)
def test_duals_of_the_catalogue(sigma: hermite.Activation) -> None:
    """At a negative, a small and a large correlation; closed forms where there are any."""
    with mp.workdps(DIGITS + 10):
        try:
            formula = symbolic.dual(sigma, sp.Symbol("rho"))
        except NoClosedFormError:
            formula = None
        for rho in (Fraction(-3, 4), Fraction(1, 5)):
            proven = certified.dual(sigma, rho, digits=20, time_limit=60)
            size = certified.second_moment(sigma, digits=20).upper
            fine = multiprecision.dual(sigma, rho, digits=20)
            assert near(fine, proven, mp.mpf("1e-19") * size), rho
            if formula is not None:
                exact = number(formula.subs(sp.Symbol("rho"), sp.Rational(rho.numerator, rho.denominator)))
                assert near(exact, proven, mp.mpf("1e-20") * size), rho


@pytest.mark.parametrize("name", DATA)
def test_enclosures_hold_the_reference(name: str) -> None:
    """To 30 digits, of which the last may be rounded: an enclosure and the decimal's own interval meet."""
    entry, sigma = DATA[name], SPECS.get(name, name)
    with mp.workdps(40):
        found = certified.moments(sigma, 12, digits=35)
        half = mp.mpf("1e-29")
        size = mp.sqrt(found.second_moment.upper)
        for value, wanted in zip(found.coefficients, entry["c"], strict=True):
            assert near(wanted, value, half * max(size, 1)), wanted
        assert near(entry["sum_ck2"], found.second_moment, half * max(size**2, 1))
        assert near(entry["beta"], certified.isometry_strength(sigma, digits=35), half)


def piecewise(places: list[Fraction], rows: list[list[Fraction]]) -> str:
    """A text of polynomials between rational places."""
    polynomials = [" + ".join(f"({c})*x**{k}" for k, c in enumerate(row)) for row in rows]
    text = polynomials[-1]
    for place, polynomial in zip(reversed(places), reversed(polynomials[:-1]), strict=True):
        text = f"({polynomial}) if x < {place} else ({text})"
    return text


fractions = st.fractions(min_value=-3, max_value=3, max_denominator=8)


@st.composite
def piecewise_polynomials(draw: st.DrawFn) -> hermite.Activation:
    places = sorted(draw(st.sets(fractions, min_size=1, max_size=3)))
    rows = draw(
        st.lists(st.lists(fractions, min_size=1, max_size=3), min_size=len(places) + 1, max_size=len(places) + 1)
    )
    sigma = hermite.activation(piecewise(places, rows))
    gain, shift = draw(st.fractions(min_value=-2, max_value=2, max_denominator=4)), draw(fractions)
    return hermite.activation(sigma, gain=gain or 1, shift=shift)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(piecewise_polynomials())
def test_random_piecewise_polynomials(sigma: hermite.Activation) -> None:
    """Random kinks, gains and shifts, all engines."""
    spread = hermite.variance(sigma)
    if spread <= 1e-9 * hermite.second_moment(sigma):  # constants are told apart elsewhere
        return
    check_all(sigma, 3)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["tanh(x)", "x*sigmoid(x)", "erf(x)*exp(x/3)", "elu(x)", "max(x, sin(3*x))", "log(1 + x**2)"]),
    st.fractions(min_value=Fraction(1, 4), max_value=2, max_denominator=4),
    fractions,
)
def test_gains_and_shifts(text: str, gain: Fraction, shift: Fraction) -> None:
    check_all(hermite.activation(text, gain=gain, shift=shift), 3, symbolically=False)


@pytest.mark.parametrize("digits", [15, 30, 60])
def test_enclosures_shrink_with_digits(digits: int) -> None:
    for text in ("tanh(x)", "hardtanh(x)", "exp(x/2)", "x*Phi(x)"):
        value = certified.isometry_strength(text, digits=digits)
        assert value.digits >= digits
        assert value.radius < mp.mpf(10) ** -digits * 2


def test_the_engines_see_a_planted_error() -> None:
    """The control: a number off in the 29th digit is outside."""
    with mp.workdps(40):
        beta = certified.isometry_strength("tanh", digits=DIGITS)
        assert near(DATA["tanh"]["beta"], beta, mp.mpf("1e-29"))
        assert not near(mp.mpf(DATA["tanh"]["beta"]) + mp.mpf("1e-27"), beta, mp.mpf("1e-29"))
        assert not near(np.nextafter(float(beta), 2), beta, mp.mpf("1e-17"))


@pytest.mark.parametrize("rho", [Fraction(1, 10**30), Fraction(-1, 10**40), Fraction(1, 10**400)])
def test_duals_at_correlations_far_below_the_floats(rho: Fraction) -> None:
    """relu and exp by their first terms; the next is rho^2 away."""
    with mp.workdps(60):
        r = mp.mpf(rho.numerator) / rho.denominator
        for sigma, value in (("relu", 1 / (2 * mp.pi) + r / 4), ("exp", mp.e * (1 + r)), ("tanh", 0)):
            assert near(value, certified.dual(sigma, rho), mp.mpf("1e-29") if sigma == "tanh" else mp.mpf("1e-50"))


def test_what_varies_too_fast_is_refused_by_name() -> None:
    with pytest.raises(PrecisionError, match=r"sin\(exp\(x\)\).*panels"):
        multiprecision.isometry_strength("sin(exp(x))")
