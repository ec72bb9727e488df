"""Bounds on determinants: definitions by rationals and at 60 digits, equalities, and wrong forms that fail.

Exact verdicts on matrices of floats are about the rationals that these are.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bounds import (
    Certificate,
    Verdict,
    certify,
    determinant_products,
    determinant_sandwich,
    gap_from_rms,
    rms_determinant_sandwich,
    sharp_determinant_bound,
)
from bounds._determinants import _RMS_ERROR, _exact_gap_sides
from bounds._extremal_strategies import correlations, equal_correlations
from bounds._losses import CERTAIN, Loss, at_most, loss_of, loss_of_factors, loss_of_gamma, loss_of_gamma_minus
from bounds._proven import Between, gamma_between, gamma_minus_between, log_between, settled, sqrt_between
from bounds._sides import Sides, common_correlation
from bounds.strategies import correlation_matrices
from meanfield import correlation, gram, isometry_gap
from meanfield._functionals import rms_offdiagonal

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict
F = Fraction
Rows = list[list[Fraction]]
CLAIMS = [sharp_determinant_bound, rms_determinant_sandwich, gap_from_rms, determinant_products]
both = pytest.mark.parametrize("exact", [False, True])
each = pytest.mark.parametrize("claim", CLAIMS)


def equicorrelated(n: int, rho: Fraction) -> Rows:
    return [[F(1) if i == j else rho for j in range(n)] for i in range(n)]


def floats(exact: Rows) -> np.ndarray:
    return np.array(exact, dtype=float)


def fractions(G: Any) -> Rows:
    return [[F(entry) for entry in row] for row in (G.tolist() if isinstance(G, np.ndarray) else G)]


def leibniz(A: Rows) -> Fraction:
    """Determinant by its definition, over permutations."""
    total = F(0)
    for order in permutations(range(len(A))):
        inversions = sum(order[i] > order[j] for j in range(len(A)) for i in range(j))
        total += (-1) ** inversions * math.prod(A[i][order[i]] for i in range(len(A)))
    return total


def statistics(G: Rows) -> tuple[Fraction, Fraction]:
    """Largest entry and mean square off the diagonal."""
    off = [abs(G[i][j]) for i in range(len(G)) for j in range(i)]
    return max(off, default=F(0)), sum((x * x for x in off), F(0)) / max(len(off), 1)


def mpf(q: Fraction) -> mpmath.mpf:
    return mpmath.mpf(q.numerator) / q.denominator


# --- against definitions ------------------------------------------------------------------------------------

# Slacks, one for each side, by definition at 60 digits; nan where a side does not apply.
Definition = Callable[[Rows, mpmath.mpf], list[mpmath.mpf]]
NAN = mpmath.mpf("nan")


def sharp_by_definition(G: Rows, det: mpmath.mpf) -> list[mpmath.mpf]:
    n, m = len(G), mpf(statistics(G)[0])
    return [det - (1 - (n - 1) * m) * (1 + m) ** (n - 1)]


def rms_by_definition(G: Rows, det: mpmath.mpf) -> list[mpmath.mpf]:
    n, t = len(G), mpmath.sqrt(mpf(statistics(G)[1]))
    lower, upper = (1 - (n - 1) * t) * (1 + t) ** (n - 1), (1 - t) ** (n - 1) * (1 + (n - 1) * t)
    return [det - lower, upper - det]


def gap_by_definition(G: Rows, det: mpmath.mpf) -> list[mpmath.mpf]:
    n, m, t = len(G), mpf(statistics(G)[0]), mpmath.sqrt(mpf(statistics(G)[1]))
    x, gap = (n - 1) * t, -mpmath.log(det) / n if det > 0 else mpmath.inf
    return [x * x / (2 * max(n - 1, 1) * (1 - x)) - gap if x < 1 else NAN, (n - 1) * m * m - gap]


def products_by_definition(G: Rows, det: mpmath.mpf) -> list[mpmath.mpf]:
    n = len(G)
    R = [mpf(sum((abs(x) for j, x in enumerate(row) if j != i), F(0))) for i, row in enumerate(G)]
    fischer = mpmath.fprod(1 - max(mpf(x) ** 2 for x in row[:i]) for i, row in enumerate(G) if i)
    return [1 - det, fischer - det, det - (1 - max(R)) ** n, det - mpmath.fprod(1 - r for r in R)]


DEFINITIONS: list[tuple[Callable[..., Certificate], Definition]] = [
    (sharp_determinant_bound, sharp_by_definition),
    (rms_determinant_sandwich, rms_by_definition),
    (gap_from_rms, gap_by_definition),
    (determinant_products, products_by_definition),
]


@pytest.mark.parametrize(("claim", "definition"), DEFINITIONS, ids=lambda f: f.__name__)
@given(given_matrix=st.one_of(correlation_matrices(max_n=6), correlation_matrices(max_n=6, max_correlation=0.1)))
def test_slacks_are_those_of_the_definition(
    claim: Callable[..., Certificate], definition: Definition, given_matrix: np.ndarray
) -> None:
    G = fractions(given_matrix)
    certificate, settled_one = claim(given_matrix), claim(given_matrix, exact=True)
    if "positive semidefinite" in settled_one.false_hypotheses:
        return
    with mpmath.workdps(60):
        wanted = definition(G, mpf(leibniz(G)))
        for found, decided in ((certificate, False), (settled_one, True)):
            sides = zip(*map(np.ravel, (found.slack, found.tolerance, found.verdicts)), wanted, strict=True)
            for slack, bar, verdict, true in sides:
                if verdict is NOT_APPLICABLE or math.isinf(bar):
                    continue
                assert abs(mpmath.mpf(slack) - true) <= bar + 1e-15 * abs(true) + mpmath.mpf("1e-55"), found
                assert verdict is HOLDS or not decided, found
    assert certificate.verdict is not FAILS
    applies = [v is NOT_APPLICABLE for v in certificate.verdicts]
    assert applies == [v is NOT_APPLICABLE for v in settled_one.verdicts]


@each
@given(arguments=correlations())
def test_claims_hold(claim: Callable[..., Certificate], arguments: tuple[Any]) -> None:
    assert claim(*arguments).verdict in (HOLDS, UNDECIDED, NOT_APPLICABLE)
    settled_one = claim(*arguments, exact=True)
    assert settled_one.verdict in (HOLDS, NOT_APPLICABLE)
    if isinstance(arguments[0], list):  # exact entries are positive semidefinite
        assert "positive semidefinite" not in settled_one.false_hypotheses


def test_reference_values() -> None:
    """n = 3 with correlations 1/2, 1/4, 1/4: det = 11/16."""
    G = [[F(1), F(1, 2), F(1, 4)], [F(1, 2), F(1), F(1, 4)], [F(1, 4), F(1, 4), F(1)]]
    assert leibniz(G) == F(11, 16)
    for exact in (False, True):
        d1 = sharp_determinant_bound(G, exact=exact)
        assert (d1.lhs, d1.rhs) == (pytest.approx(0.0, abs=1e-15), pytest.approx(11 / 16, rel=1e-14, abs=0))
        d2 = rms_determinant_sandwich(G, exact=exact)
        t = math.sqrt(1 / 8)
        assert d2.lhs[0] == pytest.approx((1 - 2 * t) * (1 + t) ** 2, rel=1e-13, abs=0)  # type: ignore[index]
        assert d2.rhs[1] == pytest.approx((1 - t) ** 2 * (1 + 2 * t), rel=1e-13, abs=0)  # type: ignore[index]
        d3 = gap_from_rms(G, exact=exact)
        assert d3.verdicts == (HOLDS, NOT_APPLICABLE)
        assert d3.lhs[0] == pytest.approx(-math.log(11 / 16) / 3, rel=1e-13, abs=0)  # type: ignore[index]
        assert d3.rhs[0] == pytest.approx(4 / 8 / (4 * (1 - 2 * t)), rel=1e-13, abs=0)  # type: ignore[index]
        d4 = determinant_products(G, exact=exact)
        assert d4.lhs.tolist() == pytest.approx([11 / 16, 11 / 16, 1 / 64, 1 / 32], rel=1e-13, abs=0)  # type: ignore[union-attr]
        assert d4.rhs.tolist() == pytest.approx([1, 45 / 64, 11 / 16, 11 / 16], rel=1e-13, abs=0)  # type: ignore[union-attr]


# --- equalities ---------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("share", [F(1, 3), F(1, 2), F(7, 8), F(1)])
def test_opposed_correlations_attain_the_lower_bounds(n: int, share: Fraction, exact: bool) -> None:
    """Also where t = share/(n-1) is rational, but G is singular."""
    G = equicorrelated(n, -share / (n - 1))
    G = [
        [x * (-1) ** (i * j == 0 and i != j) for j, x in enumerate(row)] for i, row in enumerate(G)
    ]  # one sign changed
    for certificate in (sharp_determinant_bound(G, exact=exact), rms_determinant_sandwich(G, exact=exact)):
        assert certificate.verdicts[0] is HOLDS or not exact, certificate
        if certificate.verdicts[0] is not NOT_APPLICABLE:  # 1/7 as a float may be above 1/7
            assert np.ravel(certificate.slack)[0] == np.ravel(certificate.tolerance)[0] == 0.0


@both
@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("rho", [F(1, 3), F(7, 8), F(1), F(1, 10**30)])
def test_equal_correlations_attain_the_upper_bound(n: int, rho: Fraction, exact: bool) -> None:
    certificate = rms_determinant_sandwich(equicorrelated(n, rho), exact=exact)
    assert certificate.verdicts[1] is HOLDS
    assert (certificate.slack[1], certificate.tolerance[1]) == (0.0, 0.0)  # type: ignore[index]
    if n > 2 and exact:
        lower = rms_determinant_sandwich(equicorrelated(n, rho), exact=exact)
        assert lower.verdicts[0] is NOT_APPLICABLE or lower.slack[0] > lower.tolerance[0]  # type: ignore[index]


def test_an_irrational_rms_is_told_from_an_equality() -> None:
    """Correlations 1/2, 1/2, 1/2 + 1e-40: t is irrational, and the slack of the upper side some 1e-81."""
    G = equicorrelated(3, F(1, 2))
    G[0][1] = G[1][0] = F(1, 2) + F(1, 10**40)
    certificate = rms_determinant_sandwich(G, exact=True)
    assert certificate.verdicts == (HOLDS, HOLDS) or certificate.verdicts[0] is NOT_APPLICABLE
    assert 0 < certificate.slack[1] < 1e-79  # type: ignore[index]
    assert certificate.tolerance[1] < 1e-16 * certificate.slack[1]  # type: ignore[index]


@both
def test_gram_10_two_inputs_are_always_equalities(exact: bool) -> None:
    for k in range(1, 1000, 37):
        rho = -0.99 + 0.99 * k / 500
        G = [[1.0, rho], [rho, 1.0]]
        assert sharp_determinant_bound(G, exact=exact).slack == 0.0
        assert rms_determinant_sandwich(G, exact=exact).slack.tolist() == [0.0, 0.0]  # type: ignore[union-attr]
        assert determinant_products(G, exact=exact).slack[1] == 0.0  # type: ignore[index]
        assert determinant_products(G, exact=exact).holds


def test_chains_attain_fischer() -> None:
    """G_ij = q^|i-j|: det = (1 - q^2)^(n-1)."""
    G = [[F(3, 4) ** abs(i - j) for j in range(5)] for i in range(5)]
    certificate = determinant_products(G, exact=True)
    assert certificate.slack[1] == 0.0  # type: ignore[index]
    assert certificate.rhs[1] == float((1 - F(9, 16)) ** 4)  # type: ignore[index]
    assert determinant_products(floats(G)).verdicts[1] is UNDECIDED


@each
@both
@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_identity_is_an_equality(claim: Callable[..., Certificate], n: int, exact: bool) -> None:
    certificate = claim(np.eye(n), exact=exact)
    assert certificate.holds
    assert np.all(np.ravel(certificate.slack) == 0)
    assert np.all(np.ravel(certificate.tolerance) == 0)
    assert NOT_APPLICABLE not in certificate.verdicts


# --- near and far -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9, 1e-12])
def test_slacks_near_the_identity_are_decided(scale: float) -> None:
    """Determinants are 1 there but for 1e-24: the slack comes from their losses."""
    G = np.eye(4) + scale * np.array([[0, 3, 1, -2], [3, 0, 2, 1], [1, 2, 0, 1], [-2, 1, 1, 0]])
    for claim in CLAIMS:
        certificate = claim(G)
        assert certificate.holds, certificate
        slack, bar = np.ravel(certificate.slack), np.ravel(certificate.tolerance)
        assert np.all(slack > 0)
        assert np.all(bar <= 2e-2 * slack)  # of third order: 1e-12 of the losses, and their error is 1e-14
        settled_one = np.ravel(claim(G, exact=True).slack)
        assert np.all(np.abs(slack - settled_one) <= bar + 1e-15 * settled_one)


@each
@pytest.mark.parametrize("rho", [1e-150, 1e-170, 1e-300])
def test_correlations_whose_squares_underflow(claim: Callable[..., Certificate], rho: float) -> None:
    G = np.eye(3) + rho * np.array([[0, 1, 0.5], [1, 0, -1], [0.5, -1, 0]])
    certificate = claim(G)
    assert certificate.verdict in (HOLDS, UNDECIDED)
    # both sides round to one number, and that proves nothing
    assert np.all(np.ravel(certificate.tolerance) > 0)
    certificate = claim(G, exact=True)
    assert certificate.holds
    assert np.all(np.isfinite(np.ravel(certificate.slack)))


@each
@both
def test_singular_and_nearly_singular(claim: Callable[..., Certificate], exact: bool) -> None:
    ones = np.ones((3, 3))
    for G in (ones, ones * 0.999999999999 + 1e-12 * np.eye(3), np.array([[1.0, 1, 0.5], [1, 1, 0.5], [0.5, 0.5, 1]])):
        G = np.where(np.eye(3), 1.0, G)
        certificate = claim(G, exact=exact)
        assert certificate.verdict in (HOLDS, NOT_APPLICABLE) or not exact
        assert certificate.verdict is not FAILS
        assert not np.any(np.isnan(np.ravel(certificate.lhs)[[v is not NOT_APPLICABLE for v in certificate.verdicts]]))


@each
def test_many_inputs(claim: Callable[..., Certificate]) -> None:
    """gram-03: determinants of 300 inputs underflow, their losses do not."""
    X = np.random.default_rng(3).standard_normal((300, 900))
    X /= np.linalg.norm(X, axis=1)[:, None]
    G = X @ X.T
    np.fill_diagonal(G, 1.0)
    certificate = claim((G + G.T) / 2)
    assert certificate.verdict in (HOLDS, NOT_APPLICABLE)


@each
def test_a_matrix_made_indefinite_by_rounding_is_not_claimed_about(claim: Callable[..., Certificate]) -> None:
    G = np.array([[1.0, 0.6, 0.8], [0.6, 1.0, 0.0], [0.8, 0.0, 1.0]])  # .36 + .64 = 1 but for rounding
    assert leibniz(fractions(G)) < 0
    certificate = claim(G, exact=True)
    assert certificate.verdict is NOT_APPLICABLE
    assert "positive semidefinite" in certificate.false_hypotheses
    assert claim(G).verdict in (HOLDS, UNDECIDED, NOT_APPLICABLE)
    exact = [[F(1), F(3, 5), F(4, 5)], [F(3, 5), F(1), F(0)], [F(4, 5), F(0), F(1)]]
    assert "positive semidefinite" not in claim(exact, exact=True).false_hypotheses


# --- hypotheses ---------------------------------------------------------------------------------------------


@both
def test_hypotheses_are_decided_without_rounding(exact: bool) -> None:
    third, above = 1 / 3, math.nextafter(1 / 3, 1)
    for m, applies in ((third, True), (above, False)):
        G = np.where(np.eye(4), 1.0, -m)
        certificate = sharp_determinant_bound(np.abs(G) if exact else G, exact=exact)
        assert (certificate.verdict is not NOT_APPLICABLE) == applies
        assert (rms_determinant_sandwich(np.abs(G), exact=exact).verdicts[0] is not NOT_APPLICABLE) == applies
    for m, applies in ((0.25, True), (math.nextafter(0.25, 1), False)):
        G = np.where(np.eye(3), 1.0, m)
        assert (gap_from_rms(G, exact=exact).verdicts[1] is not NOT_APPLICABLE) == applies
    for m, applies in ((0.25, True), (math.nextafter(0.25, 1), False)):
        G = np.where(np.eye(5), 1.0, m)
        assert (determinant_products(G, exact=exact).verdicts[2] is not NOT_APPLICABLE) == applies
        # x = 1 is excluded from d3
        assert gap_from_rms(G, exact=exact).verdicts[0] is NOT_APPLICABLE


@both
def test_gram_09_a_side_whose_hypothesis_is_false(exact: bool) -> None:
    G = equicorrelated(4, F(9, 10))
    assert sharp_determinant_bound(G, exact=exact).verdict is NOT_APPLICABLE
    assert rms_determinant_sandwich(G, exact=exact).verdicts == (NOT_APPLICABLE, HOLDS)
    assert gap_from_rms(G, exact=exact).verdict is NOT_APPLICABLE
    certificate = determinant_products(G, exact=exact)
    assert certificate.verdicts == (HOLDS, HOLDS, NOT_APPLICABLE, NOT_APPLICABLE)
    assert "largest sum of |G_ij| over j = 2.7" in str(certificate)


# --- wrong forms fail ---------------------------------------------------------------------------------------


def wrong(lhs: Any, rhs: Any) -> Verdict:
    return certify("wrong", "", lhs, rhs, tolerance=0, exact=True).verdict


def test_erratum_e3_lemma_a_4_without_its_hypothesis() -> None:
    """n = 4, all .9: 8.3521 <= .0037; the sharp forms say nothing there, and hold where the hypothesis does."""
    n, m = 4, F(9, 10)
    det = leibniz(equicorrelated(n, m))
    assert (det, (1 - (n - 1) * m) ** n) == (F(37, 10000), F(83521, 10000))
    assert wrong((1 - (n - 1) * m) ** n, det) is FAILS
    small = equicorrelated(n, F(-3, 10))
    assert sharp_determinant_bound(small, exact=True).holds
    old, new = determinant_sandwich(small, exact=True).lhs[0], sharp_determinant_bound(small, exact=True).lhs  # type: ignore[index]
    assert old < new


def test_d1_with_plus_m() -> None:
    """n = 3, all -.4: .648 <= .392. Of the rms it is the upper bound."""
    n, m = 3, F(2, 5)
    G = equicorrelated(n, -m)
    assert leibniz(G) == F(49, 125)
    assert wrong((1 - m) ** (n - 1) * (1 + (n - 1) * m), leibniz(G)) is FAILS
    for exact in (False, True):
        assert sharp_determinant_bound(G, exact=exact).holds
        assert rms_determinant_sandwich(G, exact=exact).verdicts == (HOLDS, HOLDS)


def test_gershgorin_without_its_hypothesis() -> None:
    """n = 4, all .9: R = 2.7, and 8.3521 <= .0037, for both lower sides."""
    G = equicorrelated(4, F(9, 10))
    R = [sum(map(abs, row), F(0)) - 1 for row in G]
    assert wrong((1 - max(R)) ** 4, leibniz(G)) is FAILS
    assert wrong(math.prod(1 - r for r in R), leibniz(G)) is FAILS
    assert determinant_products(equicorrelated(4, F(3, 10)), exact=True).verdicts == (HOLDS,) * 4


def test_the_constants_of_d3_are_used_up() -> None:
    """gap -> x^2/(2(n-1)) as x -> 0, so no factor below 1 would do; and (n-1) m <= 1 is too much for the second."""
    G = np.where(np.eye(3), 1.0, -1e-6)
    certificate = gap_from_rms(G)
    assert certificate.lhs[0] > 0.99999 * certificate.rhs[0]  # type: ignore[index]
    G = np.where(np.eye(3), 1.0, -0.4999)
    assert isometry_gap(G) > 2 * 0.4999**2
    assert gap_from_rms(G).verdicts[1] is NOT_APPLICABLE


@each
@both
def test_gram_08_cosines_of_equal_inputs(claim: Callable[..., Certificate], exact: bool) -> None:
    """Normalised by hand they exceed 1 by an ulp; `correlation` gives a matrix of ones, which is singular."""
    X = np.ones((3, 3))
    certificate = claim(correlation(gram(X)), exact=exact)
    assert certificate.verdict in (HOLDS, NOT_APPLICABLE)


# --- what it loads ------------------------------------------------------------------------------------------


def test_claims_about_matrices_load_numbers_only() -> None:
    code = """
import sys, bounds
G = [[1.0, 0.5, 0.25], [0.5, 1.0, 0.25], [0.25, 0.25, 1.0]]
for name in ("sharp_determinant_bound", "rms_determinant_sandwich", "gap_from_rms", "determinant_products",
             "gap_from_smallest_eigenvalue", "sharp_normalization_gain", "layer_norm_gain", "batch_norm_gain"):
    getattr(bounds, name)(G)
bounds.schur_product_eigenvalue(G, G)
print(sorted({"sympy", "mpmath", "flint", "torch", "hypothesis", "hermite", "matplotlib"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- what is refused ----------------------------------------------------------------------------------------


@each
@both
@pytest.mark.parametrize(
    ("G", "message"),
    [
        (np.stack([np.eye(2)] * 3), r"must be one matrix \(n, n\), got shape=\(3, 2, 2\)"),
        ([[1.0, 0.5], [0.4, 1.0]], "must be symmetric"),
        ([[1.0, math.nan], [math.nan, 1.0]], "must be finite, got nan"),
        ([[4, 0], [0, 4]], r"unit diagonal, got the diagonal entry 4; pass correlation\(G\)"),
        ([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], r"smallest eigenvalue is -0\.8"),
    ],
    ids=["batch", "asymmetric", "nan", "diagonal", "gram-06"],
)
def test_bad_matrices_are_refused(claim: Callable[..., Certificate], exact: bool, G: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(G, exact=exact)


# --- the pieces ---------------------------------------------------------------------------------------------


@given(equal_correlations())
def test_common_correlations_are_found(G: Rows) -> None:
    c, n = common_correlation(G), len(G)
    assert c is not None
    assert leibniz(G) == (1 - c) ** (n - 1) * (1 + (n - 1) * c) if n <= 5 else True
    assert n > 2 or c >= 0
    changed = [row[:] for row in G]
    changed[0][1] = changed[1][0] = G[0][1] / 2 + F(1, 10**9)
    assert common_correlation(changed) is None or n == 2


def test_signs_that_no_change_of_inputs_makes_equal() -> None:
    h = F(1, 4)
    G = [[F(1), h, h, h], [h, F(1), h, -h], [h, h, F(1), h], [h, -h, h, F(1)]]
    assert common_correlation(G) is None
    assert common_correlation([[F(1)]]) == 0


@given(st.fractions(F(1, 10**6), 10**6), st.integers(20, 60))
def test_logarithms_and_roots_lie_between_their_ends(q: Fraction, digits: int) -> None:
    with mpmath.workdps(100):
        for found, true in (
            (log_between(q, digits), mpmath.log(mpf(q))),
            (sqrt_between(q, digits), mpmath.sqrt(mpf(q))),
        ):
            assert mpf(found.low) - mpmath.mpf("1e-95") <= true <= mpf(found.high) + mpmath.mpf("1e-95")
            assert found.radius <= (1 + abs(found.middle)) / F(10) ** (digits - 1)


@pytest.mark.parametrize("q", [F(10) ** 600, F(1, 10**600), F(2) ** 2001, F(3, 10**601)])
def test_roots_have_relative_digits(q: Fraction) -> None:
    found = sqrt_between(q, 40)
    assert found.low**2 <= q <= found.high**2
    assert found.radius <= found.low / F(10) ** 40
    assert sqrt_between(F(9, 16), 40) == Between.exactly(F(3, 4))


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("t", [F(0), F(1, 10**9), F(1, 5), F(24, 100)])
def test_gammas_in_three_arithmetics(n: int, t: Fraction) -> None:
    with mpmath.workdps(60):
        x = mpf(t)
        gamma = -((n - 1) * mpmath.log(1 - x) + mpmath.log(1 + (n - 1) * x)) / n
        minus = -((n - 1) * mpmath.log(1 + x) + mpmath.log(1 - (n - 1) * x)) / n
        for between, loss, exact_loss, true in (
            (gamma_between(n, t, 40), loss_of_gamma(n, float(t), 1e-15), None, gamma),
            (
                gamma_minus_between(n, t, 40),
                loss_of_gamma_minus(n, float(t), 1e-15),
                loss_of_gamma_minus(n, float(t), 0.0, 1 - (n - 1) * F(float(t))) if t else CERTAIN,
                minus,
            ),
        ):
            assert mpf(between.low) - mpmath.mpf("1e-50") <= true <= mpf(between.high) + mpmath.mpf("1e-50")
            assert loss.low - 1e-16 * loss.low <= n * true <= loss.high + 1e-16 * loss.high
            assert loss.value == pytest.approx(float(n * true), rel=1e-13, abs=0)
            assert exact_loss is None or exact_loss.value == pytest.approx(float(n * true), rel=1e-13, abs=0)


def test_losses_are_compared_by_their_difference() -> None:
    near, nearer = Loss(1e-20, 0.99e-20, 1.01e-20), Loss(1e-22, 0.99e-22, 1.01e-22)
    sides = at_most(near, nearer)
    assert sides.slack == pytest.approx(9.9e-21, rel=1e-12, abs=0)
    assert sides.tolerance == pytest.approx(1.01e-20 * 0.02, rel=0.01, abs=0)
    infinite, unknown = Loss(math.inf, math.inf, math.inf), Loss(math.inf, 3.0, math.inf)
    assert at_most(infinite, CERTAIN)[2:] == (0.0, 1.0)
    assert at_most(infinite, infinite)[2:] == (0.0, 0.0)
    assert at_most(unknown, infinite).tolerance == pytest.approx(math.exp(-3.0), rel=1e-12, abs=0)
    assert at_most(near, near, equal=True)[2:] == (0.0, 0.0)
    # what the larger number may be off by, and the rounding of the difference
    assert at_most(Loss(2e-20, 2e-20, 2e-20), near).tolerance == pytest.approx(2e-22, rel=0.01, abs=0)
    assert at_most(Loss(1.0, 1.0, math.nextafter(1.0, 2.0)), CERTAIN).tolerance > 1e-15  # type: ignore[operator]


@given(correlation_matrices(max_n=5))
def test_losses_bracket_the_determinant(G: np.ndarray) -> None:
    det, loss = leibniz(fractions(G)), loss_of(G)
    assume(det > 0)
    with mpmath.workdps(60):
        true = -mpmath.log(mpf(det))
        assert loss.low - mpmath.mpf("1e-58") <= true <= loss.high + mpmath.mpf("1e-58")


def test_losses_of_factors() -> None:
    assert loss_of_factors([]) == loss_of_factors([(0.0, 1.0)]) == CERTAIN
    assert loss_of_factors([(1.0, 0.0), (0.5, 0.5)]).value == math.inf
    assert loss_of_factors([(1e-20, 1.0), (0.75, 0.25)]).value == pytest.approx(math.log(4), rel=1e-15, abs=0)


def test_settling_ends_where_sides_are_equal() -> None:
    def sides(digits: int) -> tuple[Between, Between]:
        root = sqrt_between(F(2), digits)
        return root, Between(root.low, root.high)

    found = settled(sides, most_digits=100)
    assert found.slack == 0
    assert 0 < found.tolerance < 1e-60  # type: ignore[operator]
    asked: list[int] = []

    def known(digits: int) -> tuple[Between, Between]:
        asked.append(digits)
        return Between.exactly(1), Between.exactly(1)

    assert settled(known) == Sides(1, 1, 0, 0)
    assert len(asked) == 1


def test_settling_goes_on_until_the_slack_has_17_digits() -> None:
    tiny = F(1, 10**35)
    found = settled(lambda digits: (sqrt_between(F(2), digits), sqrt_between(F(2), 200) + tiny))
    assert 0 < found.tolerance < tiny / 10**17  # type: ignore[operator]
    assert abs(found.slack - tiny) <= found.tolerance  # type: ignore[operator]


@pytest.mark.parametrize("n", [3, 20, 300])
def test_the_rms_correlation_is_known_to_its_error(n: int) -> None:
    G = np.random.default_rng(n).uniform(-1, 1, (n, n)) / 3
    G = np.where(np.eye(n), 1.0, (G + G.T) / 2)
    off = [F(x) for x in G[~np.eye(n, dtype=bool)].tolist()]
    with mpmath.workdps(40):
        true = mpmath.sqrt(mpf(sum((x * x for x in off), F(0)) / len(off)))
        assert abs(float(rms_offdiagonal(G)) / true - 1) <= _RMS_ERROR / 2


@given(correlation_matrices(min_n=2, max_n=5, max_correlation=0.1, exact=True))
def test_exact_gaps_prove_their_digits(G: Rows) -> None:
    largest, square = statistics(G)
    sides = _exact_gap_sides(tuple(map(tuple, G)), largest, square)
    assume(largest > 0)
    slacks, bars = sides.slack, sides.tolerance
    with mpmath.workdps(400):
        for slack, bar, true in zip(slacks, bars, gap_by_definition(G, mpf(leibniz(G))), strict=True):  # type: ignore[arg-type]
            assert abs(mpf(F(slack)) - true) <= mpf(F(bar))
            assert slack > 10**17 * bar > 0
