"""Parseval, Mehler's kernel, the series of the dual: closed forms in mpmath, rationals, and false bounds caught."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from bounds import CLAIMS, Certificate, Verdict, certify, dual_series, mehler, parseval
from hermite.errors import ConstantActivationError, NotSquareIntegrableError

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

NAMES = ["identity", "relu", "tanh", "gelu", "exp", "sin", "sigmoid", "abs", "sign", "cos", "square", "cube"]


def names(certificate: Certificate) -> list[str]:
    return [verdict.name for verdict in certificate.verdicts]


# --- closed forms (H5) --------------------------------------------------------------------------------------


def he(k: int, x: Any) -> Any:
    """Normalised He_k by its own recurrence."""
    before, now = mpmath.mpf(0), mpmath.mpf(1)
    for j in range(k):
        before, now = now, (x * now - mpmath.sqrt(j) * before) / mpmath.sqrt(j + 1)
    return now


def of_relu(k: int) -> Any:
    phi = 1 / mpmath.sqrt(2 * mpmath.pi)
    return [phi, mpmath.mpf(1) / 2][k] if k < 2 else phi * he(k - 2, 0) / mpmath.sqrt(k * (k - 1))


def of_step(k: int) -> Any:
    return he(k - 1, 0) / mpmath.sqrt(2 * mpmath.pi * k) if k else mpmath.mpf(1) / 2


def of_exp(k: int) -> Any:
    return mpmath.exp(mpmath.mpf(1) / 2) / mpmath.sqrt(mpmath.factorial(k))


def of_sin(k: int) -> Any:
    return mpmath.exp(-mpmath.mpf(1) / 2) * (k % 2) / mpmath.sqrt(mpmath.factorial(k))


EXPANSIONS: dict[str, tuple[Callable[[int], Any], Callable[[], Any]]] = {
    "relu": (of_relu, lambda: mpmath.mpf(1) / 2),
    "step": (of_step, lambda: mpmath.mpf(1) / 2),
    "exp": (of_exp, lambda: mpmath.exp(2)),
    "sin": (of_sin, lambda: (1 - mpmath.exp(-2)) / 2),
}


# --- Parseval -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", EXPANSIONS)
def test_parseval_to_the_tolerance_that_is_claimed(sigma: str) -> None:
    coefficient, second = EXPANSIONS[sigma]
    certificate, proven = parseval(sigma, 40), parseval(sigma, 40, exact=True)
    assert proven.exact
    assert names(proven) == ["HOLDS"] * 41
    assert FAILS not in certificate.verdicts
    assert certificate.tolerance.max() < 2e-13
    with mpmath.workdps(80):
        total = mpmath.mpf(0)
        for k in range(41):
            total += coefficient(k) ** 2
            slack = 1 - total / second()
            assert abs(certificate.slack[k] - slack) <= certificate.tolerance[k]
            assert proven.slack[k] == pytest.approx(float(slack), rel=1e-14)


@pytest.mark.parametrize("scale", ["1", "1e150", "1e-150"])
@pytest.mark.parametrize("sigma", NAMES)
def test_parseval_falls_with_the_degree_at_every_scale(sigma: str, scale: str) -> None:
    certificate = parseval(f"({scale})*{sigma}(x)", 12)
    assert certificate.holds
    assert np.all(np.isfinite(certificate.slack))
    assert np.all(np.diff(certificate.slack) <= certificate.tolerance[1:])


@pytest.mark.parametrize(
    ("sigma", "degree"),
    [("2", 0), ("0*x", 0), ("identity", 1), ("x**2 - 1", 2), ("3 + He(1, x)/7 + He(5, x)", 5), ("sqrt(2)*x + x**3", 3)],
)
def test_parseval_is_an_equation_from_the_degree_of_a_polynomial_on(sigma: str, degree: int) -> None:
    for exact in (False, True):
        certificate = parseval(sigma, 8, exact=exact)
        assert names(certificate) == ["HOLDS"] * 9
        assert certificate.slack[degree:].tolist() == certificate.tolerance[degree:].tolist() == [0.0] * (9 - degree)
        assert np.all(certificate.slack[:degree] > 0.0)


def test_parseval_of_relu_and_its_tail() -> None:
    """The tail is .0423291 K^(-3/2) in the limit, at fixed parity of K."""
    certificate = parseval("relu", 400)
    assert certificate.holds
    assert certificate.rhs.tolist() == [1.0] * 401
    assert np.all(np.diff(certificate.slack) <= 0.0)
    assert certificate.slack[400] * 0.5 == pytest.approx(0.0423291 * 400**-1.5, rel=0.02)


def test_parseval_where_moments_overflow() -> None:
    """exp(20 x): E sigma^2 = e^800, and the shares are those of a Poisson law with mean 400."""
    certificate = parseval("exp(20*x)", 700)
    assert FAILS not in certificate.verdicts
    with mpmath.workdps(40):
        for k in (0, 3, 300, 400, 420):
            beyond = mpmath.gammainc(k + 1, 0, 400, regularized=True)
            assert certificate.slack[k] == pytest.approx(float(beyond), abs=certificate.tolerance[k] + 1e-16)
            assert certificate.verdicts[k] is HOLDS


def test_rounding_is_undecided_until_it_is_proven() -> None:
    """exp: 1/30! of the whole is beyond K = 29."""
    assert parseval("exp", 29).verdicts[29] is UNDECIDED
    assert parseval("exp", 29, exact=True).verdicts[29] is HOLDS


@given(
    st.sampled_from(NAMES),
    st.fractions(-8, 8, max_denominator=16).filter(bool),
    st.fractions(-3, 3, max_denominator=16),
)
def test_parseval_of_any_gain_and_bias(sigma: str, gain: Fraction, bias: Fraction) -> None:
    found = parseval(f"{sigma}(({gain})*x + ({bias}))", 12)
    assert FAILS not in found.verdicts
    # sign(x/4 + 3) jumps at 12 deviations
    assert found.verdicts[0] is HOLDS or found.slack[0] < 1e-13


def test_e5_coefficients_divided_by_k_factorial_miss_parseval() -> None:
    """E[sigma He_k]/k! with monic He_k: x^2 - 1 has 1 where c_2 is sqrt 2, and E sigma^2 = 2 > 1."""
    printed = Fraction(2, math.factorial(2)) ** 2
    assert certify("printed", "", 2, printed, tolerance=0).verdict is FAILS
    ours = float(hermite.coefficients("x**2 - 1", 2)[2]) ** 2
    assert ours == pytest.approx(2.0, rel=1e-14)
    certificate = parseval("x**2 - 1", 2)
    assert certificate.slack[2] == certificate.tolerance[2] == 0.0


def test_e5_the_normalisation_by_sqrt_2_pi_is_not_one() -> None:
    """He_k/sqrt(k!/sqrt(2 pi)) has the second moment sqrt(2 pi), not 1."""
    for k in (1, 2, 5):
        ours = hermite.second_moment(f"He({k}, x)")
        printed = ours * math.sqrt(2 * math.pi)
        assert certify("printed", "", printed, 1.0, tolerance=1e-13).verdict is FAILS
        assert certify("ours", "", ours, 1.0 + 1e-13, tolerance=1e-14).holds


@pytest.mark.parametrize("degree", [-1, 1.5, True, None])
def test_degrees_are_counts(degree: Any) -> None:
    for claim in (lambda: parseval("relu", degree), lambda: dual_series("relu", 0.5, degree)):
        with pytest.raises(ValueError, match="degree must be"):
            claim()
    with pytest.raises(ValueError, match="degree must be at least 1, got 0"):
        dual_series("relu", 0.5, 0)
    with pytest.raises(NotSquareIntegrableError):
        parseval("exp(x**2)", 3)


# --- Mehler -------------------------------------------------------------------------------------------------


def mehler_in_mpmath(rho: float, x: float, y: float, degree: int) -> tuple[Any, Any]:
    r, a, b = mpmath.mpf(rho), mpmath.mpf(x), mpmath.mpf(y)
    total = sum(r**k * he(k, a) * he(k, b) for k in range(degree + 1))
    joint = mpmath.exp(-(a * a - 2 * r * a * b + b * b) / (2 * (1 - r * r))) / mpmath.sqrt(1 - r * r)
    kernel = joint / mpmath.exp(-(a * a + b * b) / 2)
    bound = mpmath.mpf("1.0865") ** 2 * mpmath.exp((a * a + b * b) / 4) * abs(r) ** (degree + 1) / (1 - abs(r))
    return abs(kernel - total), bound


@pytest.mark.parametrize("rho", [0.5, -0.9, 0.999, 1 - 1e-12, -1 + 1e-6, 1e-3, 1e-9])
@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (1.0, -0.5), (3.0, 3.0), (-2.0, 5.0), (30.0, 30.0), (30.0, -29.0)])
def test_mehlers_remainder_to_the_tolerance_that_is_claimed(rho: float, x: float, y: float) -> None:
    for degree in (0, 1, 3, 20):
        plain, proven = mehler(rho, x, y, degree), mehler(rho, x, y, degree, exact=True)
        with mpmath.workdps(700):
            lhs, rhs = mehler_in_mpmath(rho, x, y, degree)
            assert abs(plain.slack - (rhs - lhs)) <= plain.tolerance
            assert proven.slack == pytest.approx(float(rhs - lhs), rel=1e-13)
        assert proven.holds
        assert plain.verdict in (HOLDS, UNDECIDED)


def test_mehler_is_decided_where_the_bound_is_not_below_rounding() -> None:
    for rho in (0.5, -0.9, 0.99):
        for x, y in ((0.0, 0.0), (1.0, -0.5), (3.0, 3.0)):
            assert mehler(rho, x, y, 8).holds


def test_mehlers_sum_is_the_kernel() -> None:
    certificate = mehler(0.5, 1.0, 1.0, 60, exact=True)
    assert 0.0 < certificate.lhs < 1e-15
    assert mehler(0.0, 1.0, 2.0, 3).holds
    for rho in (1.0, -1.0, 1.5):
        certificate = mehler(rho, 0.0, 0.0, 3)
        assert certificate.verdict is NOT_APPLICABLE
        assert certificate.false_hypotheses == ("|rho| < 1",)


def test_cramers_inequality_up_to_degree_200() -> None:
    """|He_k(x)| exp(-x^2/4) <= 1.0865: the only thing that the bound takes from elsewhere."""
    x = np.linspace(0.0, 30.0, 6001)
    sizes = np.abs(hermite.polynomials(x, 200)) * np.exp(-x * x / 4)[:, None]
    assert sizes.max() <= 1.0865
    assert sizes.max() == pytest.approx(1.0, abs=1e-12)  # k = 0 at 0: the constant is for all degrees and is not met


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, x, y, k: r * mehler(r, x, y, k).rhs,  # one power more
        lambda r, x, y, k: (1 - r) * mehler(r, x, y, k).rhs,  # the geometric series forgotten
        lambda r, x, y, k: math.exp(-(x * x + y * y) / 8) * mehler(r, x, y, k).rhs,  # half of the exponent
    ],
)
def test_smaller_remainders_fail(wrong: Callable[..., float]) -> None:
    found = []
    for arguments in ((1e-3, 2.0, 2.0, 0), (0.999, 0.0, 0.0, 0), (0.9, 5.0, 5.0, 2)):
        true = mehler(*arguments)
        assert true.holds
        found.append(certify("wrong", "", true.lhs, wrong(*arguments), tolerance=true.tolerance).verdict)
    assert FAILS in found


@given(st.floats(-1.0, 1.0), st.floats(-30.0, 30.0), st.floats(-30.0, 30.0), st.integers(0, 40))
def test_mehler_at_every_point(rho: float, x: float, y: float, degree: int) -> None:
    certificate = mehler(rho, x, y, degree)
    assert certificate.verdict is not FAILS
    assert math.isfinite(certificate.tolerance)


@pytest.mark.parametrize(
    ("name", "arguments"), [("rho", ("0.5", 0.0, 0.0)), ("x", (0.5, math.nan, 0.0)), ("y", (0.5, 0.0, 31.0))]
)
def test_what_is_no_point_is_named(name: str, arguments: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a"):
        mehler(*arguments, 3)


# --- the series of the dual ---------------------------------------------------------------------------------


def test_the_series_of_exp_against_its_closed_form() -> None:
    """f(rho) = expm1(rho)/expm1(1), w_k = 1/(k! expm1(1))."""
    points = [0.5, -0.5, 0.9, -0.99, 1.0, 1e-3]
    for degree in (1, 3, 6):
        plain, proven = dual_series("exp", points, degree), dual_series("exp", points, degree, exact=True)
        assert names(proven) == ["HOLDS"] * 18
        with mpmath.workdps(60):
            w = [1 / (mpmath.factorial(k) * mpmath.expm1(1)) for k in range(degree + 1)]
            for i, point in enumerate(points):
                rho = mpmath.mpf(point)
                value = mpmath.expm1(rho) / mpmath.expm1(1)
                left = abs(value - sum(w[k] * rho**k for k in range(1, degree + 1)))
                right = abs(rho) ** (degree + 1) * (1 - sum(w[1:]))
                top = mpmath.expm1(abs(rho)) / mpmath.expm1(1)
                slacks = [right - left, top - abs(value), 1 - top]
                for side, slack in enumerate(slacks):
                    assert abs(plain.slack[side, i] - slack) <= plain.tolerance[side, i]
                    assert proven.slack[side, i] == pytest.approx(float(slack), rel=1e-14, abs=1e-50)


@pytest.mark.parametrize("sigma", NAMES)
def test_the_series_is_decided_at_common_points(sigma: str) -> None:
    for degree in (1, 2, 4):
        certificate = dual_series(sigma, [0.0, 0.5, -0.5, 0.9, -0.9, 1.0], degree)
        assert names(certificate) == ["HOLDS"] * 18
        # 1, an equation: all terms beyond K are there
        assert certificate.slack[0, -1] == certificate.tolerance[0, -1] == 0.0


def test_polynomials_are_decided_by_rationals() -> None:
    points = [0.3, -0.7, 1.0, -1.0, 1e-12, -1 + 2.0**-50]
    one_beyond = dual_series("He(1, x) + He(5, x)", points, 4, exact=True)
    assert names(one_beyond) == ["HOLDS"] * 18
    assert one_beyond.slack[0].tolist() == one_beyond.tolerance.ravel().tolist()[:6] == [0.0] * 6
    assert dual_series("He(1, x) + He(5, x)", points, 5, exact=True).lhs[0].tolist() == [0.0] * 6
    two_beyond = dual_series("He(1, x) + He(4, x) + He(5, x)", points, 3, exact=True)
    assert [slack > 0.0 for slack in two_beyond.slack[0]] == [True, True, False, True, True, True]


def test_the_modulus_is_attained_by_odd_and_even_maps() -> None:
    for sigma in ("tanh", "abs", "He(3, x)"):
        certificate = dual_series(sigma, -0.7, 3)
        assert certificate.slack[1, 0] == certificate.tolerance[1, 0] == 0.0
    assert dual_series("relu", -0.7, 3).slack[1, 0] > 0.1


def test_at_minus_1_the_series_of_odd_and_even_maps_is_an_equation() -> None:
    for sigma in ("tanh", "sign", "abs", "cos"):
        certificate = dual_series(sigma, -1.0, 3)
        assert certificate.slack[0, 0] == certificate.tolerance[0, 0] == 0.0
    mixed = dual_series("exp", -1.0, 3)
    assert mixed.slack[0, 0] > mixed.tolerance[0, 0] > 0.0


def test_smaller_remainders_of_the_series_fail() -> None:
    """One term less in the tail, one power more, 1 % less; and the moduli in the other order."""
    certificate = dual_series("He(1, x) + He(3, x) + He(4, x)", [0.5, -0.5], 2, exact=True)
    assert certificate.holds
    left, tail = certificate.lhs[0, 0], certificate.rhs[0, 0]
    for wrong in (tail / 2, 0.5 * tail):
        assert certify("wrong", "", left, wrong, tolerance=1e-15).verdict is FAILS
    at_one = dual_series("relu", 1.0, 3)
    assert certify("wrong", "", at_one.lhs[0, 0], 0.99 * at_one.rhs[0, 0], tolerance=1e-15).verdict is FAILS
    relu = dual_series("relu", -0.5, 3)
    assert certify("wrong", "", relu.rhs[1], relu.lhs[1], tolerance=relu.tolerance[1]).verdict is FAILS


def test_a_constant_has_no_series() -> None:
    with pytest.raises(ConstantActivationError):
        dual_series("2", 0.5, 3)


@given(st.sampled_from(NAMES), st.floats(-1.0, 1.0), st.integers(1, 40))
def test_the_series_at_every_correlation(sigma: str, rho: float, degree: int) -> None:
    certificate = dual_series(sigma, rho, degree)
    assert FAILS not in certificate.verdicts
    assert np.all(np.isfinite(certificate.slack))


@pytest.mark.parametrize("label", ["h2", "lemma-a.6", "lemma-a.8"])
def test_drawn_examples_are_decided(label: str) -> None:
    found = CLAIMS[label].verify(examples=150)
    counts = dict(found.counts)
    assert counts[FAILS] == counts[UNDECIDED] == 0
    assert counts[HOLDS] >= 100
