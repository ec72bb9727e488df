"""Claims about one activation or one correlation: exact values, balls, equations, and the printed forms that fail."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from bounds import (
    Certificate,
    Verdict,
    certify,
    dual_contraction,
    gradient_tradeoff,
    potential_contraction,
    strength_range,
)
from bounds._strengths import strength
from hermite.errors import ConstantActivationError
from meanfield import Layer

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

POINTS = [0.0, 1e-12, 0.3, 0.9, 1 - 1e-9, -1e-12, -0.3, -0.999999, -3 / 7, 0.5]
SOME = ["relu", "exp", "abs", "identity", "He(1, x) + He(2, x)", "step", "gelu", "He(3, x)", "hardtanh", "selu"]


def names(certificate: Certificate) -> list[str]:
    return [verdict.name for verdict in certificate.verdicts]


def mp_map(sigma: str, rho: float) -> Any:
    """f(rho) to 40 digits, by closed forms."""
    with mpmath.workdps(60):
        x = mpmath.mpf(rho)
        if sigma == "relu":
            t = mpmath.acos(x)
            top = (mpmath.sin(t) + (mpmath.pi - t) * x - 1) / (2 * mpmath.pi)
            return top / ((mpmath.mpf(1) / 2) - 1 / (2 * mpmath.pi))
        if sigma == "sign":
            return 2 / mpmath.pi * mpmath.asin(x)
        if sigma == "exp":
            return mpmath.expm1(x) / mpmath.expm1(1)
        if sigma == "sin":
            return mpmath.sinh(x) / mpmath.sinh(1)
        if sigma == "nearly linear":  # He_1 + He_2/1000
            return (x + x**2 / 10**6) / (1 + mpmath.mpf(10) ** -6)
        return (x + 4 * x**2) / 5  # He_1 + 2 He_2


CLOSED = [("relu", "relu"), ("sign", "sign"), ("exp", "exp"), ("sin", "sin"), ("mixed", "He(1, x) + 2*He(2, x)")]
CLOSED += [("nearly linear", "He(1, x) + He(2, x)/1000")]
BETA = {
    "relu": lambda: (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2),
    "sign": lambda: 2 - 2 / mpmath.pi,
    "exp": lambda: 2 - 1 / mpmath.expm1(1),
    "sin": lambda: 2 - 1 / mpmath.sinh(1),
    "mixed": lambda: mpmath.mpf(9) / 5,
    "nearly linear": lambda: 2 - 1 / (1 + mpmath.mpf(10) ** -6),
}


# --- the contraction of one correlation -------------------------------------------------------------------


@pytest.mark.parametrize(("name", "sigma"), CLOSED)
def test_both_sides_are_those_of_40_digits(name: str, sigma: str) -> None:
    points = [0.25, 0.9, -0.5, -0.96, 1 - 2.0**-30, 2.0**-20, -1 + 2.0**-30]
    certificate = dual_contraction(sigma, points)
    assert FAILS not in certificate.verdicts
    assert certificate.holds or dual_contraction(sigma, points, exact=True).holds
    with mpmath.workdps(40):
        beta = BETA[name]()
        r = 2 - beta
        for k, point in enumerate(points):
            value, x = abs(mp_map(name, point)), abs(mpmath.mpf(point))
            odds = mpmath.log(value / (1 - value))
            start = mpmath.log(x / (1 - x))
            factor = mpmath.log((r + (1 - r) * x) / (1 + (1 - r) * x))
            sides = [(odds, start - mpmath.log(beta)), (odds, start + factor)]
            for side, (lhs, rhs) in enumerate(sides):
                error = abs(mpmath.mpf(float(certificate.slack[side, k])) - (rhs - lhs))
                assert error <= certificate.tolerance[side, k] + 1e-15 * abs(float(rhs - lhs)) + 1e-30
                assert certificate.lhs[side, k] == pytest.approx(float(lhs), abs=1e-12, rel=1e-12)
                assert certificate.rhs[side, k] == pytest.approx(float(rhs), abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("sigma", SOME)
def test_float64_and_balls_agree(sigma: str) -> None:
    plain, proven = dual_contraction(sigma, POINTS), dual_contraction(sigma, POINTS, exact=True)
    assert proven.exact
    assert not {FAILS} & {*plain.verdicts, *proven.verdicts}
    decided = [i for i, v in enumerate(plain.verdicts) if v is HOLDS]
    assert all(proven.verdicts[i] in (HOLDS, UNDECIDED) for i in decided)
    finite = np.isfinite(plain.lhs) & (np.abs(plain.lhs) < 30)
    assert np.allclose(plain.lhs[finite], proven.lhs[finite], rtol=1e-9, atol=1e-9)


def test_the_sharp_factor_is_attained_by_he_1_and_he_2() -> None:
    for sigma in ("He(1, x) + He(2, x)", "3*He(1, x) - He(2, x)/2", "He(2, x)", "identity"):
        certificate = dual_contraction(sigma, [0.5, 0.9, 0.0])
        assert certificate.slack[1].tolist() == [0.0] * 3
        assert certificate.tolerance[1].tolist() == [0.0] * 3
    assert dual_contraction("He(1, x) + He(2, x)", -0.5).slack[1, 0] > 0.1


def test_e4_strictly_larger_needs_rho_off_0_and_off_1() -> None:
    """Printed: the odds are divided by strictly more than beta. At rho = 0 both sides are 0."""
    printed = certify("printed", "", -dual_contraction("relu", 0.0).slack[0, 0], -1e-300, tolerance=0.0)
    assert printed.verdict is FAILS
    assert dual_contraction("relu", 0.0).holds
    assert dual_contraction("relu", [1.0, -1.0]).verdict is NOT_APPLICABLE
    assert names(dual_contraction("relu", [0.5, 1.0])) == ["HOLDS", "NOT_APPLICABLE"] * 2


@pytest.mark.parametrize("wrong", [1.0 + 1e-2, 1.5])
def test_beta_cannot_be_larger(wrong: float) -> None:
    """rho to 1: 1/beta is approached by He_1 + He_2."""
    certificate = dual_contraction("He(1, x) + He(2, x)", 1 - 1e-6)
    assert certify("wrong", "", -certificate.slack[0, 0], -math.log(wrong), tolerance=1e-9).verdict is FAILS


def test_h_cannot_be_r() -> None:
    certificate = dual_contraction("relu", 0.5)
    known = strength(Layer("relu"))
    wrong = math.log(0.5 / 0.5) + math.log(known.r)
    assert certify("wrong", "", certificate.lhs[1, 0], wrong, tolerance=1e-12).verdict is FAILS


@given(st.floats(-1.0, 1.0))
def test_every_correlation(rho: float) -> None:
    for sigma in ("relu", "exp", "He(2, x) + He(3, x)"):
        assert FAILS not in dual_contraction(sigma, rho).verdicts


@pytest.mark.parametrize("sigma", ["relu", "He(2, x)", "He(1, x) + He(2, x)", "step", "cube"])
def test_what_underflows_is_no_counterexample(sigma: str) -> None:
    certificate = dual_contraction(sigma, [5e-324, -5e-324, 1e-320, 1e-300, -1e-200])
    assert FAILS not in certificate.verdicts
    assert not np.isnan(certificate.slack).any()


@pytest.mark.parametrize("rho", [1.5, math.nan, "a", [[0.1]], [], None])
def test_what_is_no_correlation_is_named(rho: Any) -> None:
    with pytest.raises(ValueError, match="rho must"):
        dual_contraction("relu", rho)


# --- f'(1), the range of beta -----------------------------------------------------------------------------


def test_the_price_of_isometry_in_gradients() -> None:
    """Values of f'(1) that are known in closed form or to 6 digits."""
    known = {"relu": math.pi / (math.pi - 1), "tanh": 1.17781, "sin": 1.31304, "exp": math.e / (math.e - 1)}
    for sigma, value in known.items():
        certificate = gradient_tradeoff(sigma)
        assert certificate.holds
        assert certificate.rhs == pytest.approx(value, rel=5e-6)
    assert gradient_tradeoff("step").rhs == math.inf
    assert gradient_tradeoff("step").holds
    for sigma in ("He(1, x) + He(2, x)", "identity", "square"):
        assert gradient_tradeoff(sigma).slack == 0.0
        assert gradient_tradeoff(sigma).tolerance == 0.0
    assert gradient_tradeoff("He(2, x) + He(3, x)/100").slack > 0.0


def test_the_price_without_cancellation() -> None:
    """f'(1) - beta of sin(x/10000) is w_3 + 3 w_5 + ..., 1e-17: the difference of both would be rounding."""
    with mpmath.workdps(60):
        # sin(a x): w_k = a^(2k)/(k! sinh a^2), f'(1) = a^2 coth a^2, beta = 2 - a^2/sinh a^2
        for gain in ("1/10000", "1/100", "1", "2"):
            a2 = mpmath.mpf(Fraction(gain).numerator) ** 2 / Fraction(gain).denominator ** 2
            true = a2 / mpmath.tanh(a2) - 2 + a2 / mpmath.sinh(a2)
            certificate = gradient_tradeoff(f"sin(({gain})*x)")
            assert certificate.holds
            # terms of size 1e-18 are no part of the series, and would only add
            assert -certificate.tolerance <= true - certificate.slack <= certificate.tolerance + 1e-17
            assert certificate.tolerance < 1e-6 * true


@pytest.mark.parametrize("sigma", ["relu", "tanh", "exp", "sin", "sqrt(2)*x + x**3", "He(1, x) + He(3, x)/10**9"])
def test_the_price_by_a_proven_lower_bound(sigma: str) -> None:
    plain, proven = gradient_tradeoff(sigma), gradient_tradeoff(sigma, exact=True)
    assert proven.exact
    assert plain.holds
    assert proven.holds
    assert 0.0 < proven.slack <= plain.slack + plain.tolerance


@pytest.mark.parametrize("factor", [1.01, 1.5])
def test_the_price_cannot_be_larger(factor: float) -> None:
    certificate = gradient_tradeoff("He(1, x) + He(2, x)")
    assert certify("wrong", "", factor * certificate.lhs, certificate.rhs, tolerance=1e-14).verdict is FAILS
    # nor beta^2
    assert certify("wrong", "", certificate.lhs**2, certificate.rhs, tolerance=1e-14).verdict is FAILS


@pytest.mark.parametrize(
    "sigma", ["relu", "tanh", "abs", "identity", "He(3, x) + He(6, x)", "exp(3*x)", "1e-9*x + x**2"]
)
def test_beta_lies_between_1_and_2(sigma: str) -> None:
    certificate = strength_range(sigma)
    assert certificate.holds
    beta = hermite.certified.isometry_strength(sigma, digits=30)
    assert certificate.slack[0] == pytest.approx(float(beta) - 1.0, rel=1e-13, abs=1e-18)
    equal = {"identity": 0, "abs": 1, "He(3, x) + He(6, x)": 1}
    if sigma in equal:
        assert certificate.slack[equal[sigma]] == certificate.tolerance[equal[sigma]] == 0.0


def test_beta_next_to_the_ends_of_its_range() -> None:
    """tanh(x/10^5): beta - 1 = 6.67e-21, far below the rounding of beta. exp(20 x): 2 - beta = 400/expm1(400)."""
    certificate = strength_range("tanh(x/100000)")
    assert certificate.holds
    assert certificate.slack[0] == pytest.approx(2e-20 / 3, rel=1e-6, abs=0.0)
    assert strength_range("exp(20*x)").verdicts[1] is UNDECIDED
    proven = strength_range("exp(20*x)", exact=True)
    assert proven.holds
    assert proven.slack[1] == pytest.approx(400 / math.expm1(400), rel=1e-12, abs=0.0)


@pytest.mark.parametrize("sigma", ["relu", "identity", "abs", "He(3, x)", "x**2 + 1e-12*x", "3*x + 1"])
def test_beta_in_balls(sigma: str) -> None:
    plain, proven = strength_range(sigma), strength_range(sigma, exact=True)
    assert proven.holds
    assert proven.slack == pytest.approx(plain.slack, rel=1e-12, abs=1e-300)


def test_a_constant_has_no_strength() -> None:
    for claim in (strength_range, gradient_tradeoff, lambda s: dual_contraction(s, 0.5)):
        with pytest.raises(ConstantActivationError):
            claim("2")


# --- formulas of the authors' code (E5) -------------------------------------------------------------------


def test_e5_the_strength_without_2_minus_leaves_its_range() -> None:
    """README: beta_0 = c_1^2/sum of c_k^2: for relu .7335, which is not in [1, 2]."""
    printed = hermite.linearity("relu")
    assert certify("printed", "", 1.0, printed, tolerance=1e-14).verdict is FAILS
    assert strength_range("relu").holds


def test_e5_a_strength_that_ignores_the_gain_is_wrong() -> None:
    """beta of sin is 1.149, of sin(x/2) 1.0104: with the first, the second layer's bound is false."""
    G0 = [[1.0, 0.9], [0.9, 1.0]]
    layer = Layer("sin", gain="1/2")
    certificate = potential_contraction(layer, G0, 10)
    assert certificate.holds
    ignored = certificate.lhs[0] - np.arange(11) * math.log(hermite.isometry_strength("sin"))
    assert certify("printed", "", certificate.lhs, ignored, tolerance=1e-9).verdict is FAILS
