"""Claims about one Gram matrix: reference values, independent engines, properties, and bounds that must fail.

eps = 2**-52.  Float values are compared at 1e-14 relative, some ten roundings, unless a comment says why not.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from random import Random
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, assume, event, find, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._certificate import Certificate, Verdict, certify
from bounds._matrix import (
    _determinant,
    _differ,
    _exact_gain_sides,
    _gain_sides,
    determinant_sandwich,
    isometry_properties,
    normalization_gain,
)
from bounds._matrix_strategies import correlation_matrices, psd_matrices
from meanfield._exact import exact_determinant

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict
EPS = float(np.finfo(float).eps)
F = Fraction

Rows = list[list[Fraction]]


def rows(text: str) -> Rows:
    return [[F(entry) for entry in row.split()] for row in text.split(";")]


def floats(exact: Rows) -> NDArray[np.float64]:
    return np.array(exact, dtype=float)


def equicorrelated(n: int, rho: Fraction) -> Rows:
    return [[F(1) if i == j else rho for j in range(n)] for i in range(n)]


# Isometry, and factor 1 + cv^2 of Theorem 4.1, to 25 digits by mpmath at 60 digits and, apart from that, by
# rational elimination: name, entries, isometry, isometry of the correlation, 1 + cv^2.
REFERENCE = {
    "hilbert5": (
        [[F(1, i + j + 1) for j in range(5)] for i in range(5)],
        "0.01450648151298476839253063",
        "0.02041156420077472876491787",
        "1.193931952870205974496832",
    ),
    "equicorrelated 4 at 1/2": (
        equicorrelated(4, F(1, 2)),
        "0.7476743906106102709559495",
        "0.7476743906106102709559495",
        "1",
    ),
    "equicorrelated 5 at -1/4, singular": (equicorrelated(5, F(-1, 4)), "0", "0", "1"),
    "toeplitz 6": (
        [[F(1, 2 ** abs(i - j)) for j in range(6)] for i in range(6)],
        "0.7868362975662361391456411",
        "0.7868362975662361391456411",
        "1",
    ),
    "equicorrelated 3 at 1/10": (
        equicorrelated(3, F(1, 10)),
        "0.9905781746683880051623830",
        "0.9905781746683880051623830",
        "1",
    ),
    "scalar": (rows("7/3"), "1", "1", "1"),
    "diagonal": (rows("1 0 0 0; 0 4 0 0; 0 0 9 0; 0 0 0 16"), "0.6531972647421808261859424", "1", "1.2"),
}

# Lemma A.4: entries, its lower bound, whether that applies, the determinant, the upper bound, all exact.
SANDWICHES = {
    "equicorrelated 4 at 1/2": (equicorrelated(4, F(1, 2)), "1/16", False, "5/16", "3/4"),
    "equicorrelated 5 at -1/4": (equicorrelated(5, F(-1, 4)), "0", True, "0", "15/16"),
    "toeplitz 6": (
        [[F(1, 2 ** abs(i - j)) for j in range(6)] for i in range(6)],
        "729/64",
        False,
        "243/1024",
        "3/4",
    ),
    "equicorrelated 3 at 1/10": (equicorrelated(3, F(1, 10)), "64/125", True, "243/250", "99/100"),
    "pair at 1 - 1e-12": (
        equicorrelated(2, 1 - F(1, 10**12)),
        "1/1000000000000000000000000",
        True,
        "1999999999999/1000000000000000000000000",
        "1999999999999/1000000000000000000000000",
    ),
    "one input": (rows("1"), "1", True, "1", "1"),
    "identity 5": (equicorrelated(5, F(0)), "1", True, "1", "1"),
    "two parallel, one between": (rows("1 1 1/2; 1 1 1/2; 1/2 1/2 1"), "-1", False, "0", "0"),
    "pair beside orthogonal ones": (
        rows("1 3/5 0 0; 3/5 1 0 0; 0 0 1 0; 0 0 0 1"),
        "256/625",
        False,
        "16/25",
        "16/25",
    ),
    "equicorrelated 3 at -1/2": (equicorrelated(3, F(-1, 2)), "0", True, "0", "3/4"),
    "gram-09": (equicorrelated(4, F(9, 10)), "83521/10000", False, "37/10000", "19/100"),
}
both = pytest.mark.parametrize("exact", [False, True])


# --- reference values ---------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", REFERENCE)
def test_isometry_properties_of_reference_matrices(name: str, exact: bool) -> None:
    entries, isometry, _, _ = REFERENCE[name]
    for M in (entries, floats(entries)):
        certificate = isometry_properties(M, exact=exact)
        assert certificate.verdicts == (HOLDS,) * 5, certificate
        n, shown = len(entries), certificate.rhs[0]  # type: ignore[index]
        # hilbert5 as floats is another matrix: its condition number, 5e5, multiplies eps
        rel = 1e-10 if name == "hilbert5" else 1e-14
        assert shown == pytest.approx(float(isometry) ** (n if exact else 1), rel=n * rel, abs=0)
        assert certificate.exact is exact


@both
@pytest.mark.parametrize("name", REFERENCE)
def test_normalization_gain_of_reference_matrices(name: str, exact: bool) -> None:
    entries, isometry, normalized, factor = REFERENCE[name]
    for G in (entries, floats(entries)):
        certificate = normalization_gain(G, exact=exact)
        assert certificate.holds, certificate
        if isometry == "0":
            assert (certificate.lhs, certificate.rhs, certificate.tolerance) == (0.0, 0.0, 0.0)
            assert "G is singular" in certificate.statement
            continue
        assert certificate.lhs == pytest.approx(math.log(float(factor)), rel=1e-14, abs=0)
        gain = mpmath.log(mpmath.mpf(normalized) / mpmath.mpf(isometry))
        assert certificate.rhs == pytest.approx(float(gain), rel=1e-14, abs=0)


@both
@pytest.mark.parametrize("name", SANDWICHES)
def test_determinant_sandwich_of_reference_matrices(name: str, exact: bool) -> None:
    entries, lower, applies, determinant, upper = SANDWICHES[name]
    for G in (entries, floats(entries)):
        certificate = determinant_sandwich(G, exact=exact)
        assert certificate.verdicts == (HOLDS if applies else NOT_APPLICABLE, HOLDS), certificate
        # as floats 1 - 1e-12 is off by 5.5e-17: 3e-5 of the distance from 1, squared on the lower side
        rel = 2e-4 if name == "pair at 1 - 1e-12" else 1e-14
        sides = [float(F(value)) for value in (lower, determinant, upper)]
        assert [*certificate.lhs, certificate.rhs[1]] == pytest.approx(sides, rel=rel, abs=0)  # type: ignore[index, misc]
        assert certificate.rhs[0] == certificate.lhs[1]  # type: ignore[index]


def test_norms_are_lengths_and_not_their_squares() -> None:
    """Read with a_i = G_ii, Theorem 4.1 would say 1.5733 <= 1.5309 at diag(1, 4, 9, 16)."""
    squares = np.array([1.0, 4.0, 9.0, 16.0])
    certificate = normalization_gain(np.diag(squares))
    misread = certify("misread", "", np.log1p(squares.var() / squares.mean() ** 2), certificate.rhs, tolerance=1e-14)
    assert misread.verdict is FAILS
    assert certificate.slack == pytest.approx(math.log(2.5 / math.sqrt(math.sqrt(24.0))) * 2, rel=1e-14)


# --- cases reported in the field ----------------------------------------------------------------------------


@both
def test_gram_09_the_lower_bound_needs_its_hypothesis(exact: bool) -> None:
    """gram-09, and erratum E3: n = 4, all .9, where the printed bound is 8.3521 and the determinant .0037."""
    G = equicorrelated(4, F(9, 10))
    certificate = determinant_sandwich(G if exact else floats(G), exact=exact)
    assert certificate.verdicts == (NOT_APPLICABLE, HOLDS)
    assert certificate.verdict is HOLDS
    assert certificate.false_hypotheses == ("(n-1) max|G_ij| <= 1",)
    assert certificate.lhs.tolist() == pytest.approx([8.3521, 0.0037], rel=1e-13)  # type: ignore[union-attr]
    assert "max|G_ij| = 0.9" in str(certificate)
    printed = as_printed_a4_lower(certificate)
    assert printed.verdict is FAILS


def test_gram_10_equality_at_two_inputs_is_no_matter_of_rounding() -> None:
    """gram-10: exp(slogdet) exceeds 1 - rho^2 in 82 of these 1999 cases."""
    for k in range(1999):
        rho = -0.99 + 0.99 * k / 999
        certificate = determinant_sandwich([[1.0, rho], [rho, 1.0]])
        assert certificate.verdicts == (HOLDS, HOLDS), certificate
        assert certificate.slack[1] == 0.0  # type: ignore[index]


@pytest.mark.parametrize("step", range(10))
def test_gram_10_exactly(step: int) -> None:
    for k in range(step, 1999, 10):
        rho = -0.99 + 0.99 * k / 999
        assert determinant_sandwich([[1.0, rho], [rho, 1.0]], exact=True).verdicts == (HOLDS, HOLDS)


@both
def test_gram_01_an_exactly_singular_gram_matrix(exact: bool) -> None:
    """gram-01: log-determinants in floats are finite here, and once showed Theorem 4.1 violated by 10 %."""
    X = np.array([[0.328125, 0.5, 0.5, 0.5], [0, 0.5, 0.5, 0.5], [0.5, 0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]])
    certificate = normalization_gain(X @ X.T, exact=exact)
    assert certificate.holds
    assert (certificate.lhs, certificate.rhs, certificate.tolerance) == (0.0, 0.0, 0.0)
    assert isometry_properties(X @ X.T, exact=exact).holds


def test_gram_03_no_determinant_is_formed() -> None:
    """gram-03: det(0.1 I_400)^(1/400) underflows to 0 where the isometry is 1."""
    certificate = isometry_properties(0.1 * np.eye(400))
    assert certificate.holds
    assert certificate.rhs[0] == 1.0  # type: ignore[index]
    for diagonal in (np.linspace(1e-300, 1e300, 300), [1e-300] * 7 + [1e300], [5e-324, 1e308]):
        assert normalization_gain(np.diag(diagonal)).holds
        # the isometry of the second underflows; the last can be multiplied neither by 4 nor by 1/4
        assert isometry_properties(np.diag(diagonal)).holds
    assert isometry_properties([[10**308, 0], [0, 1]]).holds


@pytest.mark.parametrize("claim", [isometry_properties, normalization_gain, determinant_sandwich])
@both
def test_gram_06_an_indefinite_matrix_is_refused(claim: Callable[..., Certificate], exact: bool) -> None:
    G = [[1, F(9, 10), F(9, 10)], [F(9, 10), 1, F(-9, 10)], [F(9, 10), F(-9, 10), 1]]
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.8"):
        claim(G, exact=exact)


# --- errata: the printed form fails, the corrected form holds -----------------------------------------------


@both
def test_erratum_e1_multiples_of_the_identity_have_isometry_1(exact: bool) -> None:
    """Printed: I(M) = 1 iff M = I_n.  At M = 2I the left side is true and the right side false."""
    M = 2.0 * np.eye(3)
    certificate = isometry_properties(M, exact=exact)
    assert certificate.holds
    isometry_is_one = certificate.rhs[0] == 1.0  # type: ignore[index]
    printed = certify(
        "A.1(3)", "as printed", float(isometry_is_one != np.array_equal(M, np.eye(3))), 0.0, tolerance=0.0
    )
    assert printed.verdict is FAILS


def as_printed_a4_lower(certificate: Certificate) -> Certificate:
    """Lemma A.4's lower half with its hypothesis taken away and all else kept."""
    lower, det = certificate.lhs  # type: ignore[misc]
    bar, slack = certificate.tolerance[0], certificate.slack[0]  # type: ignore[index]
    return certify("A.4 lower", "as printed", lower, det, tolerance=bar, slack=slack)


# --- independent engines ------------------------------------------------------------------------------------


def leibniz(A: Rows) -> Fraction:
    """Determinant by its definition, over permutations."""
    total = F(0)
    for order in permutations(range(len(A))):
        inversions = sum(order[i] > order[j] for j in range(len(A)) for i in range(j))
        total += (-1) ** inversions * math.prod(A[i][order[i]] for i in range(len(A)))
    return total


@given(correlation_matrices(max_n=5))
def test_determinant_sandwich_against_leibniz(G: NDArray[np.float64]) -> None:
    n, exact = len(G), [[F(float(entry)) for entry in row] for row in G]
    det = leibniz(exact)
    m = max((abs(exact[i][j]) for i in range(n) for j in range(i)), default=F(0))
    slacks = [det - (1 - (n - 1) * m) ** n, 1 - m * m - det]
    certificate, settled = determinant_sandwich(G), determinant_sandwich(G, exact=True)
    assert np.array_equal(settled.slack, [float(slack) for slack in slacks])
    if "positive semidefinite" in settled.false_hypotheses:
        return  # floats take |G_ij| = 1 for a proof of det = 0, which it is of semidefinite matrices alone
    for slack, shown, bar in zip(slacks, certificate.slack, certificate.tolerance, strict=True):  # type: ignore[arg-type]
        assert abs(F(float(shown)) - slack) <= F(float(bar)) + F(1, 10**300)


def gain_by_mpmath(diagonal: NDArray[np.float64]) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Both sides of Theorem 4.1 by their definitions, at 120 digits."""
    with mpmath.workdps(120):
        a = [mpmath.sqrt(mpmath.mpf(float(entry))) for entry in diagonal]
        mean, mean_square = mpmath.fsum(a) / len(a), mpmath.fsum(x * x for x in a) / len(a)
        variance = mpmath.fsum((x - mean) ** 2 for x in a) / len(a)
        logs = mpmath.fsum(map(mpmath.log, a)) / len(a)
        return mpmath.log(1 + variance / mean**2), mpmath.log(mean_square) - 2 * logs


def assert_gain_within_tolerance(diagonal: NDArray[np.float64]) -> None:
    left, right, bar = (float(side) for side in _gain_sides(diagonal)[:3])  # type: ignore[arg-type]
    lhs, rhs = gain_by_mpmath(diagonal)
    with mpmath.workdps(120):
        # the engine of 120 digits is itself off by 1e-118
        assert abs((mpmath.mpf(right) - mpmath.mpf(left)) - (rhs - lhs)) <= bar + mpmath.mpf("1e-118")
    assert left == pytest.approx(float(lhs), rel=1e-13, abs=bar + 1e-118)
    assert right == pytest.approx(float(rhs), rel=1e-13, abs=bar + 1e-118)


@given(psd_matrices(zero_diagonal=False))
def test_normalization_gain_against_mpmath(G: NDArray[np.float64]) -> None:
    assert_gain_within_tolerance(np.diagonal(G))


@pytest.mark.parametrize(
    "diagonal",
    [
        np.array([1.0, 1.0 + EPS]),
        np.array([1.0, 1.0 + 1e-13, 1.0 - 1e-13]),
        1.0 + 1e-7 * np.arange(1000) / 1000,
        np.array([1e-300] * 7 + [1e300]),
        np.array([1.0] * 999 + [1e6]),
        np.array([5e-324, 1e308]),
        np.geomspace(1e-12, 1e12, 200),
    ],
    ids=["an ulp", "1e-13", "many nearly equal", "one huge", "one of 1000", "whole range", "24 decades"],
)
def test_normalization_gain_at_the_edges_against_mpmath(diagonal: NDArray[np.float64]) -> None:
    assert_gain_within_tolerance(diagonal)


@given(st.lists(st.fractions(F(1, 1000), 1000, max_denominator=10**6), min_size=2, max_size=6))
def test_the_exact_gain_proves_its_digits(diagonal: list[Fraction]) -> None:
    left, right, bar = (F(side) for side in _exact_gain_sides(diagonal)[:3])  # type: ignore[arg-type]
    with mpmath.workdps(120):
        squares = [mpmath.mpf(q.numerator) / q.denominator for q in diagonal]
        # AM/GM of the lengths: the slack by another formula
        mean = mpmath.fsum(map(mpmath.sqrt, squares)) / len(squares)
        slack = 2 * mpmath.log(mean) - mpmath.fsum(map(mpmath.log, squares)) / len(squares)
        shown = right - left
        error = abs(mpmath.mpf(shown.numerator) / shown.denominator - slack)
        assert error <= mpmath.mpf(bar.numerator) / bar.denominator + mpmath.mpf("1e-115")
    assert bar <= shown / 10**17
    assert (shown > 0) == (len(set(diagonal)) > 1)


@given(psd_matrices(max_n=5, zero_diagonal=False))
def test_isometry_properties_against_leibniz(M: NDArray[np.float64]) -> None:
    """The exact route shows I^n = det(M) (n / tr M)^n."""
    exact = [[F(float(entry)) for entry in row] for row in M]
    n = len(M)
    power = leibniz(exact) * (n / sum(exact[i][i] for i in range(n))) ** n
    certificate = isometry_properties(M, exact=True)
    assert certificate.rhs[0] == float(power)  # type: ignore[index]
    assert certificate.slack[1] == float(1 - power)  # type: ignore[index]


@given(psd_matrices(max_n=5, zero_diagonal=False))
def test_isometry_is_within_its_tolerance(M: NDArray[np.float64]) -> None:
    certificate, settled = isometry_properties(M), isometry_properties(M, exact=True)
    assume(settled.holds)
    exact = [[F(float(entry)) for entry in row] for row in M]
    power = leibniz(exact) / (sum((exact[i][i] for i in range(len(M))), F(0)) / len(M)) ** len(M)
    with mpmath.workdps(60):
        isometry = mpmath.root(mpmath.mpf(power.numerator) / power.denominator, len(M))
        for slack, shown, bar in zip((isometry, 1 - isometry), certificate.slack, certificate.tolerance, strict=False):  # type: ignore[arg-type]
            assert abs(shown - slack) <= bar + mpmath.mpf("1e-57")


@given(correlation_matrices(min_n=2, max_n=6), st.lists(st.integers(-20, 20), min_size=6, max_size=6))
def test_the_gain_is_the_difference_of_two_gaps(C: NDArray[np.float64], exponents: list[int]) -> None:
    """The right side of Theorem 4.1 comes from the diagonal; determinants must give the same."""
    sign, logdet = np.linalg.slogdet(C)
    assume(sign > 0 and logdet > -12)
    lengths = np.ldexp(1.0, exponents[: len(C)])
    G = C * np.outer(lengths, lengths)
    gaps = [math.log(np.trace(A) / len(A)) - np.linalg.slogdet(A)[1] / len(A) for A in (G, C)]
    # slogdet of C loses the condition number, here up to 1e7
    assert normalization_gain(G).rhs == pytest.approx(gaps[0] - gaps[1], abs=1e-8)


# --- properties ---------------------------------------------------------------------------------------------


def settled(claim: Callable[..., Certificate], G: NDArray[np.float64]) -> Certificate:
    """The verdict in floats or, where they leave it open, by exact arithmetic."""
    certificate = claim(G)
    if certificate.verdict is UNDECIDED:
        certificate = claim(G, exact=True)
        event("went exact")
    event(certificate.verdict.name)
    return certificate


@given(psd_matrices())
def test_isometry_properties_hold(M: NDArray[np.float64]) -> None:
    certificate = settled(isometry_properties, M)
    if certificate.verdict is NOT_APPLICABLE:
        # nothing but 0 and matrices made indefinite by rounding may escape
        assert not M.any() or certificate.false_hypotheses == ("positive semidefinite",)
    else:
        assert certificate.verdicts == (HOLDS,) * 5, certificate


@given(psd_matrices(zero_diagonal=False))
def test_normalization_gain_holds(G: NDArray[np.float64]) -> None:
    certificate = normalization_gain(G)
    assert certificate.verdict in (HOLDS, UNDECIDED), certificate
    settled = normalization_gain(G, exact=True)
    assert settled.holds or settled.false_hypotheses == ("positive semidefinite",), settled
    if settled.holds:
        assert (settled.slack == 0) == (len(set(np.diagonal(G))) == 1 or "singular" in settled.statement)


@given(correlation_matrices())
def test_determinant_sandwich_holds(G: NDArray[np.float64]) -> None:
    certificate = settled(determinant_sandwich, G)
    if "positive semidefinite" not in certificate.false_hypotheses:
        assert certificate.verdicts[1] is HOLDS, certificate
    m = np.max(np.abs(G - np.eye(len(G))))
    if (len(G) - 1) * F(float(m)) <= 1:
        # diagonally dominant: positive semidefinite whatever rounding did
        assert certificate.verdicts == (HOLDS, HOLDS), certificate
    else:
        assert certificate.verdicts[0] is NOT_APPLICABLE


@given(correlation_matrices(min_n=3, max_correlation=0.125))
def test_the_lower_half_is_not_vacuous(G: NDArray[np.float64]) -> None:
    certificate = settled(determinant_sandwich, G)
    assert certificate.verdicts == (HOLDS, HOLDS), certificate


@given(psd_matrices(), st.permutations(range(8)))
def test_order_of_inputs_is_immaterial(G: NDArray[np.float64], order: list[int]) -> None:
    order = [i for i in order if i < len(G)]
    for claim in (isometry_properties, normalization_gain):
        one, other = claim(G, exact=True), claim(G[np.ix_(order, order)], exact=True)
        assert one.verdicts == other.verdicts
        assert np.array_equal(one.slack, other.slack, equal_nan=True)


def test_an_iff_is_decided_or_left_open() -> None:
    assert _differ(True, True) == _differ(False, False) == (0.0, 0.0)
    assert _differ(True, False) == _differ(False, True) == (1.0, 0.0)
    assert _differ(None, True) == (0.0, 1.0)


# --- equalities and near equalities -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 49])
@pytest.mark.parametrize("square", [2.0, 0.1, 1e-300, 3.0])
def test_equal_lengths_give_equality(n: int, square: float) -> None:
    certificate = normalization_gain(square * np.eye(n))
    assert (certificate.slack, certificate.tolerance, certificate.verdict) == (0.0, 0.0, HOLDS)


@pytest.mark.parametrize(
    ("spread", "verdict"), [(0.0, HOLDS), (1e-300, UNDECIDED), (EPS, UNDECIDED), (1e-12, HOLDS), (1e-8, HOLDS)]
)
def test_nearly_equal_lengths(spread: float, verdict: Verdict) -> None:
    """Two lengths whose squares differ relatively by `spread`; exact arithmetic decides what floats cannot."""
    G = [[F(1), F(0)], [F(0), 1 + F(spread)]]
    as_floats = floats(G)
    expected = verdict if as_floats[1, 1] != 1 else HOLDS  # 1 + 1e-300 is 1 in float64
    assert normalization_gain(as_floats).verdict is expected
    certificate = normalization_gain(G, exact=True)
    assert certificate.holds
    # 2 log(AM/GM) = u^2 / 4 with u the relative difference of the lengths, spread / 2; 1e-600 shows as 0.0
    assert certificate.slack == pytest.approx(spread**2 / 16, rel=2 * spread + 1e-14, abs=0)


def test_a_difference_of_1e_300_is_decided_exactly() -> None:
    lhs, rhs, bar, _ = _exact_gain_sides([F(1), 1 + F(1, 10**300)])
    assert 0 < bar < rhs - lhs  # type: ignore[operator]
    assert float((rhs - lhs) * 10**600) == pytest.approx(1 / 16, rel=1e-12)  # type: ignore[operator]


@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("rho", [1e-3, 1e-9, 1e-15, 1e-40])
def test_both_halves_are_decided_near_the_identity(n: int, rho: float) -> None:
    """The slacks are far below eps here: they come from 1 - det, not from det."""
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    certificate = determinant_sandwich(G)
    assert certificate.verdicts == (HOLDS, HOLDS), certificate
    m = F(rho)
    det = (1 - m) ** (n - 1) * (1 + (n - 1) * m)
    expected = [float(det - (1 - (n - 1) * m) ** n), float(1 - m * m - det)]
    assert certificate.slack.tolist() == pytest.approx(expected, rel=1e-13, abs=0)  # type: ignore[union-attr]


@pytest.mark.parametrize("rho", [1e-5, 1e-9, 1e-100])
def test_an_isometry_near_1_is_told_from_1(rho: float) -> None:
    """I itself rounds to 1, 1 - I = rho^2 / 2 does not."""
    certificate = isometry_properties([[4.0, 4 * rho], [4 * rho, 4.0]])
    assert certificate.verdicts == (HOLDS,) * 5
    assert certificate.slack[1] == pytest.approx(rho**2 / 2, rel=1e-9, abs=0)  # type: ignore[index]
    assert certificate.tolerance[1] <= 1e-14 * certificate.slack[1]  # type: ignore[index]


def test_exact_entries_are_scaled_exactly() -> None:
    """-1/7 is no float64, and the float matrix is not singular: its isometry is some 1e-2."""
    G = equicorrelated(8, F(-1, 7))
    certificate = isometry_properties(G)
    assert certificate.verdicts == (HOLDS,) * 5, certificate
    assert certificate.rhs[0] == 0.0  # type: ignore[index]
    assert normalization_gain([[4 * entry for entry in row] for row in G]).slack == 0.0


def test_the_hypothesis_is_decided_without_rounding() -> None:
    """3 m rounds to 1 for all three of these m; above 1/3 the lower half does not apply."""
    third = 1 / 3
    cases = [(third, True), (math.nextafter(third, 1), False), (math.nextafter(third, 0), True)]
    for m, applies in cases:
        assert 3 * m == 1.0 or m < third
        G = np.full((4, 4), m)
        np.fill_diagonal(G, 1.0)
        assert (determinant_sandwich(G).verdicts[0] is HOLDS) == applies


@pytest.mark.parametrize("n", [20, 40])
def test_singular_beyond_the_size_of_automatic_elimination(n: int) -> None:
    """Float64 cannot tell; the upper half is decided by an upper bound on the determinant all the same."""
    X = np.random.default_rng(7).standard_normal((n, n - 1))
    X /= np.linalg.norm(X, axis=1)[:, None]
    G = X @ X.T
    np.fill_diagonal(G, 1.0)
    assert determinant_sandwich(G).verdicts == (NOT_APPLICABLE, HOLDS)
    det, complement, error = _determinant(G)
    assert (det, complement) == (0.0, 1.0)
    assert 0 < abs(exact_determinant(G)) <= error < 1e-15
    certificate = isometry_properties(G)
    assert certificate.verdicts == (UNDECIDED, HOLDS, HOLDS, HOLDS, UNDECIDED)
    assert normalization_gain(G * 4.0).holds


def test_large_matrices() -> None:
    X = np.random.default_rng(3).standard_normal((300, 900))
    G = X @ X.T
    assert isometry_properties(G).holds
    assert normalization_gain(G).holds


# --- what is not applicable, and what is refused ------------------------------------------------------------


@both
def test_the_zero_matrix_has_no_isometry(exact: bool) -> None:
    certificate = isometry_properties(np.zeros((3, 3)), exact=exact)
    assert certificate.verdicts == (NOT_APPLICABLE,) * 5
    assert certificate.false_hypotheses == ("M is not zero",)


@both
def test_a_zero_input_has_no_direction(exact: bool) -> None:
    G = rows("2 1/2 0; 1/2 1 0; 0 0 0")
    certificate = normalization_gain(G, exact=exact)
    assert certificate.verdict is NOT_APPLICABLE
    assert certificate.false_hypotheses == ("no input is zero",)
    assert isometry_properties(G, exact=exact).holds  # singular, so of isometry 0
    assert normalization_gain(np.zeros((2, 2)), exact=exact).verdict is NOT_APPLICABLE


def test_a_matrix_made_indefinite_by_rounding_is_not_claimed_about_exactly() -> None:
    G = np.array([[1.0, 0.6, 0.8], [0.6, 1.0, 0.0], [0.8, 0.0, 1.0]])  # .36 + .64 = 1 but for rounding
    assert leibniz([[F(float(entry)) for entry in row] for row in G]) < 0
    for claim in (isometry_properties, normalization_gain, determinant_sandwich):
        certificate = claim(G, exact=True)
        assert certificate.verdict is NOT_APPLICABLE
        assert "positive semidefinite" in certificate.false_hypotheses
        assert "rounding has made it indefinite" in str(certificate)
    exact = rows("1 3/5 4/5; 3/5 1 0; 4/5 0 1")
    assert determinant_sandwich(exact, exact=True).verdicts == (NOT_APPLICABLE, HOLDS)
    assert isometry_properties(exact, exact=True).holds


@pytest.mark.parametrize("claim", [isometry_properties, normalization_gain, determinant_sandwich])
@both
@pytest.mark.parametrize(
    ("G", "message"),
    [
        (np.stack([np.eye(2)] * 3), r"must be one matrix \(n, n\), got shape=\(3, 2, 2\); pass each by itself"),
        ([[1.0, 0.5], [0.4, 1.0]], "must be symmetric"),
        ([[1.0, math.nan], [math.nan, 1.0]], "must be finite, got nan"),
        ([[-1.0, 0.0], [0.0, 1.0]], "negative|unit diagonal"),
        (np.ones((2, 3)), r"must .*\(n, n\).*got shape=\(2, 3\)"),
        ([1.0, 2.0], r"must .*\(n, n\).*got shape=\(2,\)"),
    ],
    ids=["batch", "asymmetric", "nan", "negative", "oblong", "vector"],
)
def test_bad_matrices_are_refused(claim: Callable[..., Certificate], exact: bool, G: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(G, exact=exact)


@both
def test_a_sandwich_needs_a_unit_diagonal(exact: bool) -> None:
    with pytest.raises(ValueError, match=r"unit diagonal, got the diagonal entry 4; pass correlation\(G\)"):
        determinant_sandwich([[4, 0], [0, 4]], exact=exact)


def test_exact_entries_must_be_exactly_right() -> None:
    tiny = F(1, 10**20)
    with pytest.raises(ValueError, match=r"G must have diagonal 1, exactly.*correlation"):
        determinant_sandwich([[1 + tiny, F(0)], [F(0), F(1)]], exact=True)
    with pytest.raises(ValueError, match="G must be symmetric, and exactly so"):
        normalization_gain([[F(1), tiny], [F(0), F(1)]], exact=True)


def test_a_matrix_that_is_nearly_symmetric_by_rounding_is_taken_as_symmetric() -> None:
    G = np.array([[1.0, 0.1 + EPS / 16], [0.1, 1.0]])
    for claim in (isometry_properties, normalization_gain, determinant_sandwich):
        assert claim(G).holds
        assert claim(G, exact=True).holds


# --- planted false bounds are caught by the same machinery --------------------------------------------------


def planted_gain(G: NDArray[np.float64]) -> Certificate:
    """Theorem 4.1 with 1.01 (1 + cv^2) for 1 + cv^2."""
    true = normalization_gain(G)
    return certify("planted", "", true.lhs + math.log(1.01), true.rhs, tolerance=true.tolerance)


def planted_lower(G: NDArray[np.float64]) -> Certificate:
    """Lemma A.4 with the lower half claimed everywhere."""
    return as_printed_a4_lower(determinant_sandwich(G))


def planted_upper(G: NDArray[np.float64]) -> Certificate:
    """Lemma A.4 with 1 - 1.01 m^2 for 1 - m^2."""
    true = determinant_sandwich(G)
    m = np.max(np.abs(G - np.eye(len(G))))
    return certify(
        "planted",
        "",
        true.lhs[1],  # type: ignore[index]
        true.rhs[1] - 0.01 * m**2,  # type: ignore[index]
        slack=true.slack[1] - 0.01 * m**2,  # type: ignore[index]
        tolerance=true.tolerance[1],  # type: ignore[index]
    )


def planted_isometry(M: NDArray[np.float64]) -> Certificate:
    """Lemma A.1 with I <= 1 - 1e-9 for I <= 1."""
    true = isometry_properties(M)
    slack = true.slack[1] - 1e-9  # type: ignore[index]
    return certify("planted", "", true.lhs[1], 1 - 1e-9, slack=slack, tolerance=true.tolerance[1])  # type: ignore[index]


def planted_unbiased(G: NDArray[np.float64]) -> Certificate:
    """Theorem 4.1 with twice cv^2: false for nearly equal lengths, though true for two."""
    true = normalization_gain(G)
    return certify("planted", "", math.log1p(2.1 * math.expm1(true.lhs)), true.rhs, tolerance=true.tolerance)


@pytest.mark.parametrize(
    ("planted", "strategy"),
    [
        (planted_gain, psd_matrices(zero_diagonal=False)),
        (planted_unbiased, psd_matrices(min_n=2, zero_diagonal=False)),
        (planted_lower, correlation_matrices()),
        (planted_upper, correlation_matrices()),
        (planted_isometry, psd_matrices(min_n=2, zero_diagonal=False)),
    ],
)
def test_a_planted_false_bound_is_found(planted: Callable[..., Certificate], strategy: Any) -> None:
    quick = settings(max_examples=2000, database=None, deadline=None, phases=[Phase.generate, Phase.shrink])
    G = find(strategy, lambda G: planted(G).verdict is FAILS, random=Random(0), settings=quick)
    assert len(G) <= 5  # and shrunk towards the least n at which it is false, which is 4 for one of them


@pytest.mark.parametrize("exact", [False, True])
def test_planted_fails_exactly_too(exact: bool) -> None:
    true = determinant_sandwich(rows("1 1/2; 1/2 1"), exact=exact)
    assert true.verdicts == (HOLDS, HOLDS)
    planted = certify("planted", "", F(3, 4), F(1) - F(101, 400), tolerance=0, exact=True)
    assert planted.verdict is FAILS


# --- what it loads ------------------------------------------------------------------------------------------


def test_only_numpy_is_loaded() -> None:
    code = (
        "import sys, bounds._matrix\n"
        "heavy = {'scipy', 'sympy', 'mpmath', 'flint', 'torch', 'hypothesis', 'hermite'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("rho", [1e-150, 1e-162, 1e-170, 1e-300])
def test_a_gap_below_float64_is_not_the_gap_of_the_identity(rho: float) -> None:
    """The gap rho^2/2 underflows to 0, but M is no multiple of I: judged by the gap alone, "I = 1 iff M = cI" fails."""
    M = np.array([[1.0, rho], [rho, 1.0]])
    assert isometry_properties(M).verdict is not FAILS
    assert isometry_properties(M, exact=True).holds
