"""Claims about smallest eigenvalues: mpmath at 60 digits, equalities exactly, and the analogue that fails."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounds import Verdict, certify, gap_from_smallest_eigenvalue, schur_product_eigenvalue
from bounds._eigenvalues import _distance, _gap_sides, _schur_sides
from bounds._extremal_strategies import correlations, equal_correlations, pairs
from bounds._largest_root import LargestRoot
from bounds._losses import Loss
from bounds._proven import sqrt_between
from bounds.strategies import correlation_matrices
from meanfield import GapEstimate, isometry, isometry_gap

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict
F = Fraction
Rows = list[list[Fraction]]
both = pytest.mark.parametrize("exact", [False, True])


def equicorrelated(n: int, rho: Fraction) -> Rows:
    return [[F(1) if i == j else rho for j in range(n)] for i in range(n)]


def mpf(q: Any) -> mpmath.mpf:
    return mpmath.mpf(q.numerator) / q.denominator if isinstance(q, Fraction) else mpmath.mpf(q)


def eigenvalues(G: Any) -> list[mpmath.mpf]:
    """All of G - I, from the smallest, at the precision that is set."""
    rows = G.tolist() if isinstance(G, np.ndarray) else G
    E = mpmath.matrix([[mpf(x) - (i == j) for j, x in enumerate(row)] for i, row in enumerate(rows)])
    return sorted(mpmath.eigsy(E, eigvals_only=True))


def product(A: Any, B: Any) -> Rows:
    return [[F(a) * F(b) for a, b in zip(*rows, strict=True)] for rows in zip(A, B, strict=True)]


def fractions(G: Any) -> Rows:
    return [[F(x) for x in row] for row in (G.tolist() if isinstance(G, np.ndarray) else G)]


# --- the product of two matrices ----------------------------------------------------------------------------


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(correlation_matrices(n=n), correlation_matrices(n=n))))
def test_the_slacks_of_a_product_by_mpmath(matrices: tuple[np.ndarray, np.ndarray]) -> None:
    A, B = map(fractions, matrices)
    certificate, settled = schur_product_eigenvalue(*matrices), schur_product_eigenvalue(*matrices, exact=True)
    assert certificate.verdict is not FAILS
    if settled.false_hypotheses:
        assert all("positive semidefinite" in name for name in settled.false_hypotheses)
        return
    with mpmath.workdps(60):
        spectra = [eigenvalues(G) for G in (A, B, product(A, B))]
        mu = [-s[0] for s in spectra]
        lost = [1 - mpmath.fprod(1 + e for e in s) for s in spectra]
        wanted = [mu[0] * mu[1] - mu[2], lost[0] * lost[1] - lost[2]]
        for found in (certificate, settled):
            for slack, bar, true in zip(found.slack, found.tolerance, wanted, strict=True):  # type: ignore[arg-type]
                assert abs(mpf(slack) - true) <= bar + 1e-15 * abs(true) + mpmath.mpf("1e-50"), found
    assert settled.verdicts == (HOLDS, HOLDS)


@given(pairs())
def test_products_hold(matrices: tuple[Any, Any]) -> None:
    assert schur_product_eigenvalue(*matrices).verdict in (HOLDS, UNDECIDED)
    settled = schur_product_eigenvalue(*matrices, exact=True)
    assert settled.verdict in (HOLDS, NOT_APPLICABLE), settled


@both
@given(data=st.data())
def test_equal_correlations_attain_it_whatever_the_other_matrix(exact: bool, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 6))
    A = data.draw(correlation_matrices(n=n, exact=True))
    B = [[abs(x) for x in row] for row in data.draw(equal_correlations(n))]
    for one, other in ((A, B), (B, A)):
        certificate = schur_product_eigenvalue(one, other, exact=exact)
        assert (certificate.slack[0], certificate.tolerance[0]) == (0.0, 0.0)  # type: ignore[index]
        assert certificate.verdicts[0] is HOLDS


def test_an_equality_of_irrational_eigenvalues_is_decided() -> None:
    """A chain of three inputs beside one: mu = 1/(2 sqrt(2)) 2 = sqrt(1/2); B is 1 within the chain and 0 beside."""
    h = F(1, 2)
    A = [[F(1), h, F(0), F(0)], [h, F(1), h, F(0)], [F(0), h, F(1), F(0)], [F(0), F(0), F(0), F(1)]]
    for c in (F(1), F(1, 3)):
        B = [[F(1) if i == j else c * (i < 3) * (j < 3) for j in range(4)] for i in range(4)]
        certificate = schur_product_eigenvalue(A, B, exact=True)
        assert certificate.verdicts == (HOLDS, HOLDS)
        assert (certificate.slack[0], certificate.tolerance[0]) == (0.0, 0.0)  # type: ignore[index]
        assert certificate.lhs[0] == pytest.approx(math.sqrt(0.5) * float(c), rel=1e-15, abs=0)  # type: ignore[index]
    near = [row[:] for row in B]
    near[0][1] = near[1][0] = F(1, 3) - F(1, 10**40)
    certificate = schur_product_eigenvalue(A, near, exact=True)
    assert certificate.verdicts[0] is HOLDS
    assert 0 < certificate.slack[0] < 1e-38  # type: ignore[index]


def test_other_irrational_eigenvalues_are_not_taken_for_equal() -> None:
    h = F(1, 2)
    A = [[F(1), h, F(0)], [h, F(1), h], [F(0), h, F(1)]]
    certificate = schur_product_eigenvalue(A, A, exact=True)
    assert certificate.lhs[0] == pytest.approx(math.sqrt(2) / 4, rel=1e-15, abs=0)  # type: ignore[index]
    assert certificate.rhs[0] == 0.5  # type: ignore[index]


@both
def test_the_analogue_for_the_isometry_fails(exact: bool) -> None:
    """n = 2, both correlations 1/2: 1 - I(A o A) = .0318, (1 - I(A))^2 = .0179; with det it is an equality."""
    A = equicorrelated(2, F(1, 2))
    lhs, rhs = 1 - float(isometry(equicorrelated(2, F(1, 4)))), (1 - float(isometry(A))) ** 2
    assert (lhs, rhs) == (pytest.approx(0.0317542, abs=1e-7), pytest.approx(0.0179492, abs=1e-7))
    assert certify("wrong", "", lhs, rhs, tolerance=1e-12).verdict is FAILS
    certificate = schur_product_eigenvalue(A, A, exact=exact)
    assert certificate.verdicts == (HOLDS, HOLDS)
    assert certificate.slack.tolist() == [0.0, 0.0]  # type: ignore[union-attr]


@both
@pytest.mark.parametrize("rho", [1e-9, 1e-80, 1e-150, 1e-300])
def test_products_of_small_correlations(rho: float, exact: bool) -> None:
    A = np.eye(3) + rho * np.array([[0, 1, 1], [1, 0, -1], [1, -1, 0]])
    B = np.eye(3) + rho * np.array([[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0]])
    certificate = schur_product_eigenvalue(A, B, exact=exact)
    assert certificate.verdict is HOLDS or (not exact and rho < 1e-70)
    assert np.all(np.isfinite(certificate.slack))
    if rho == 1e-9:
        assert np.all(certificate.tolerance <= 1e-9 * certificate.slack)


@both
@pytest.mark.parametrize("n", [1, 2, 6])
def test_identities_and_singular_matrices(n: int, exact: bool) -> None:
    A = np.array(equicorrelated(n, F(1, 3)), dtype=float)
    for B in (np.eye(n), np.ones((n, n))):
        certificate = schur_product_eigenvalue(A, B, exact=exact)
        assert certificate.verdicts[0] is HOLDS
        assert certificate.holds or (not exact and B[0].all())
        assert certificate.slack[0] == 0.0  # type: ignore[index]


@both
def test_what_products_refuse(exact: bool) -> None:
    with pytest.raises(ValueError, match=r"A and B must have the same size, got shapes \(2, 2\) and \(3, 3\)"):
        schur_product_eigenvalue(np.eye(2), np.eye(3), exact=exact)
    with pytest.raises(ValueError, match="B must have a unit diagonal, got the diagonal entry 2"):
        schur_product_eigenvalue(np.eye(2), 2 * np.eye(2), exact=exact)
    with pytest.raises(ValueError, match="A must be one matrix"):
        schur_product_eigenvalue(np.stack([np.eye(2)] * 2), np.eye(2), exact=exact)
    with pytest.raises(ValueError, match=r"A is no Gram matrix.*-0\.8"):
        schur_product_eigenvalue([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], np.eye(3), exact=exact)


def test_indefinite_by_rounding_names_the_matrix() -> None:
    G = np.array([[1.0, 0.6, 0.8], [0.6, 1.0, 0.0], [0.8, 0.0, 1.0]])
    certificate = schur_product_eigenvalue(np.eye(3), G, exact=True)
    assert certificate.verdict is NOT_APPLICABLE
    assert certificate.false_hypotheses == ("B positive semidefinite",)


# --- the gap from the smallest eigenvalue -------------------------------------------------------------------


def gap_sides(G: Any) -> list[mpmath.mpf]:
    """Slacks by definition; G nonsingular, not the identity."""
    n, spectrum = len(G), eigenvalues(G)
    mu, gap = -spectrum[0], -mpmath.fsum(map(mpmath.log1p, spectrum)) / n
    gamma = -((n - 1) * mpmath.log1p(-mu) + mpmath.log1p((n - 1) * mu)) / n
    lower, square = (n - 1) * mu**2 / (2 * (1 + (n - 2) * mu)), (n - 1) * mu**2 / (2 * (1 - mu))
    return [gamma - lower, gamma - gap, square - gamma, -mpmath.log1p(-mu) - gamma]


@given(st.one_of(correlation_matrices(min_n=2, max_n=6), correlation_matrices(min_n=2, max_n=6, max_correlation=0.01)))
def test_the_slacks_of_the_gap_by_mpmath(G: np.ndarray) -> None:
    certificate, settled = gap_from_smallest_eigenvalue(G), gap_from_smallest_eigenvalue(G, exact=True)
    assert certificate.verdict is not FAILS
    if settled.false_hypotheses:
        return
    assert settled.verdicts == (HOLDS,) * 4
    if not (G - np.eye(len(G))).any() or math.inf in settled.rhs:  # type: ignore[operator]
        return
    with mpmath.workdps(80):
        wanted = gap_sides(G)
        for slack, bar, true in zip(settled.slack, settled.tolerance, wanted, strict=True):  # type: ignore[arg-type]
            assert abs(mpf(slack) - true) <= bar + 1e-15 * abs(true) + mpmath.mpf("1e-60"), settled
        for slack, bar, true in zip(certificate.slack, certificate.tolerance, wanted, strict=True):  # type: ignore[arg-type]
            # tolerances count what could reverse the sign
            assert mpf(slack) - true <= bar + 1e-15 * abs(true) + mpmath.mpf("1e-60"), certificate
            assert slack >= -bar


@given(correlations())
def test_gaps_hold(arguments: tuple[Any]) -> None:
    assert gap_from_smallest_eigenvalue(*arguments).verdict in (HOLDS, UNDECIDED)
    settled = gap_from_smallest_eigenvalue(*arguments, exact=True)
    assert settled.holds or settled.false_hypotheses == ("positive semidefinite",)


@both
@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("rho", [F(1, 3), F(1, 10**9), F(999_999_999_999, 10**12)])
def test_equal_correlations_attain_the_gap(n: int, rho: Fraction, exact: bool) -> None:
    G = equicorrelated(n, rho)
    G = [[-x if (i == 0) != (j == 0) else x for j, x in enumerate(row)] for i, row in enumerate(G)]
    certificate = gap_from_smallest_eigenvalue(G, exact=exact)
    assert certificate.verdict is HOLDS or (certificate.verdict is UNDECIDED and not exact)
    assert (certificate.slack[1], certificate.tolerance[1]) == (0.0, 0.0)  # type: ignore[index]
    assert certificate.lhs[1] == pytest.approx(float(isometry_gap(G)), rel=1e-3 if rho > 0.9 else 1e-14)  # type: ignore[index]
    if exact:
        slack = np.delete(certificate.slack, 1)  # type: ignore[arg-type]
        assert np.all(slack > 0)


@both
def test_opposed_correlations_do_not(exact: bool) -> None:
    G = equicorrelated(3, F(-1, 4))
    certificate = gap_from_smallest_eigenvalue(G, exact=exact)
    assert certificate.holds
    assert certificate.lhs[0] == pytest.approx(0.25 / (2 * 1.5) * 2, rel=1e-13, abs=0)  # type: ignore[index]
    assert certificate.rhs[2:].tolist() == pytest.approx([0.5, math.log(2)], rel=1e-13, abs=0)  # type: ignore[index]
    assert certificate.slack[1] > 0.01  # type: ignore[index]


def test_an_irrational_eigenvalue_next_to_0() -> None:
    """A chain of correlations c has mu = sqrt(2) c, here 1 - 1e-60."""
    c = sqrt_between(F(1, 2), 60).low
    certificate = gap_from_smallest_eigenvalue([[1, c, 0], [c, 1, c], [0, c, 1]], exact=True)
    assert certificate.verdicts == (HOLDS,) * 4
    assert certificate.rhs[3] > 60 * math.log(10)  # type: ignore[index]


def test_errors_of_gaps_and_determinants_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the factorisation had lost most digits: a tenth of the loss of A, and a tenth of the gap of G."""
    A, B = np.where(np.eye(3), 1.0, [[0, 0.5, 0.25]] * 3), np.eye(3)
    A, B[0, 1], B[1, 0] = (A + A.T) / 2, 0.25, 0.25
    before = _schur_sides(A, B)
    losses = iter([Loss(1.0, 0.9, 1.1), Loss(0.5, 0.5, 0.5), Loss(0.1, 0.1, 0.1)])
    monkeypatch.setattr("bounds._eigenvalues.loss_of", lambda C: next(losses))
    sides = _schur_sides(A, B)
    assert sides.tolerance[1] > 0.2 * math.exp(-1) * -math.expm1(-0.5) > before.tolerance[1]  # type: ignore[index]
    rough = GapEstimate(0.1, 0.01, "resolved")
    monkeypatch.setattr("bounds._eigenvalues.estimate_isometry_gap", lambda C: rough)
    assert _gap_sides(A).tolerance[1] >= 0.01  # type: ignore[index]


@both
def test_singular_matrices_have_infinite_sides(exact: bool) -> None:
    for G in (np.ones((3, 3)), np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])):
        certificate = gap_from_smallest_eigenvalue(G, exact=exact)
        assert certificate.holds
        assert certificate.lhs.tolist() == [0.5, math.inf, math.inf, math.inf]  # type: ignore[union-attr]
        assert certificate.slack.tolist() == [math.inf, 0.0, 0.0, 0.0]  # type: ignore[union-attr]


@both
@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_identity_has_no_gap(n: int, exact: bool) -> None:
    certificate = gap_from_smallest_eigenvalue(np.eye(n), exact=exact)
    assert certificate.holds
    assert certificate.lhs.tolist() == certificate.rhs.tolist() == [0.0] * 4  # type: ignore[union-attr]
    assert np.all(certificate.tolerance == 0)


def test_nearly_singular_matrices() -> None:
    """1 - mu = 1e-12: float64 decides what is about mu alone; exact arithmetic the rest."""
    X = np.array([[1.0, 0.0, 0.0], [1.0, 1e-6, 0.0], [0.6, 0.0, 0.8]])
    X /= np.linalg.norm(X, axis=1)[:, None]
    G = X @ X.T
    np.fill_diagonal(G, 1.0)
    certificate = gap_from_smallest_eigenvalue(G)
    assert certificate.verdict in (HOLDS, UNDECIDED)
    assert certificate.verdicts[0] is HOLDS
    assert gap_from_smallest_eigenvalue(G, exact=True).holds


@pytest.mark.parametrize("rho", [1e-12, 1e-100, 1e-150, 1e-300])
def test_gaps_of_small_correlations(rho: float) -> None:
    """For n = 2 "lower" and "square" are mu^4/4 and mu^3/2 apart; at 1e-300 that is far below float64."""
    for G in (np.array([[1.0, rho], [rho, 1.0]]), np.where(np.eye(3), 1.0, -rho)):
        assert gap_from_smallest_eigenvalue(G).verdict in (HOLDS, UNDECIDED)
        # where both sides underflow, that proves nothing
        assert np.all(np.delete(gap_from_smallest_eigenvalue(G).tolerance, 1) > 0)  # type: ignore[arg-type]
        certificate = gap_from_smallest_eigenvalue(G, exact=True)
        assert certificate.holds
        assert np.all(np.isfinite(certificate.slack))


def test_float64_decides_generic_matrices() -> None:
    rng = np.random.default_rng(11)
    for n in (3, 10, 40):
        X = rng.standard_normal((n, 3 * n))
        X /= np.linalg.norm(X, axis=1)[:, None]
        G = X @ X.T
        G = np.where(np.eye(n), 1.0, (G + G.T) / 2)
        assert gap_from_smallest_eigenvalue(G).verdicts == (HOLDS,) * 4
        small = np.where(np.eye(n), 1.0, 1e-5 * G)
        assert gap_from_smallest_eigenvalue(small).verdicts == (HOLDS,) * 4
        assert schur_product_eigenvalue(G, G).verdicts == (HOLDS, HOLDS)
        assert schur_product_eigenvalue(small, G).verdicts == (HOLDS, HOLDS)


@both
def test_what_gaps_refuse(exact: bool) -> None:
    with pytest.raises(ValueError, match=r"unit diagonal, got the diagonal entry 4; pass correlation\(G\)"):
        gap_from_smallest_eigenvalue([[4, 0], [0, 4]], exact=exact)
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.8"):
        gap_from_smallest_eigenvalue([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], exact=exact)
    with pytest.raises(ValueError, match="must be one matrix"):
        gap_from_smallest_eigenvalue(np.stack([np.eye(2)] * 2), exact=exact)


# --- brackets -----------------------------------------------------------------------------------------------


@given(correlation_matrices(max_n=6))
def test_distances_in_floats_are_bracketed(G: np.ndarray) -> None:
    value, low, high = _distance(G)
    with mpmath.workdps(60):
        mu = max(-eigenvalues(G)[0], mpmath.mpf(0))
        assert low - mpmath.mpf("1e-50") <= mu <= high + mpmath.mpf("1e-50")
    assert float(np.abs(G - np.eye(len(G))).max()) <= low <= value <= high


def test_distances_of_equal_correlations_are_exact() -> None:
    for rho in (1e-200, 0.1, 1 - 1e-12):
        assert _distance(np.where(np.eye(5), 1.0, rho)) == (rho, rho, rho)
    assert _distance(np.array([[1.0, -0.1], [-0.1, 1.0]])) == (0.1, 0.1, 0.1)


@given(correlation_matrices(max_n=6), st.sampled_from([0, -30, -600]), st.sampled_from([5, 30, 100]))
def test_largest_roots_lie_between_their_ends(G: np.ndarray, exponent: int, digits: int) -> None:
    E = np.ldexp(np.eye(len(G)) - G, exponent)
    root = LargestRoot(fractions(E))
    found = root.between(digits)
    with mpmath.workdps(150):
        true = (
            max(eigenvalues(E + np.eye(len(G))))
            if exponent == 0
            else max(mpmath.eigsy(mpmath.matrix(E.tolist()), eigvals_only=True))
        )
        room = mpmath.mpf(10) ** -140
        assert mpf(found.low) - room <= true <= mpf(found.high) + room
    assert found.radius <= found.high / F(10) ** digits
    assert (found.radius == 0) == (root.exact is not None)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("c", [F(0), F(1, 3), F(1, 7), F(5, 10**30)])
def test_rational_roots_are_found_exactly(n: int, c: Fraction) -> None:
    E = [[F(0) if i == j else c for j in range(n)] for i in range(n)]
    assert LargestRoot(E).exact == (n - 1) * c
    assert LargestRoot([[-x for x in row] for row in E]).exact == (c if n > 1 else 0)


def test_multiples_of_irrational_roots() -> None:
    third = F(1, 3)
    E = [[F(0), third, F(0)], [third, F(0), third], [F(0), third, F(0)]]  # sqrt(2)/3
    root = LargestRoot(E)
    assert root.exact is None
    scaled = LargestRoot([[F(5, 7) * x for x in row] for row in E])
    assert scaled.is_times(F(5, 7), root)
    assert not scaled.is_times(F(5, 7) + F(1, 10**60), root)
    assert not scaled.is_times(F(2), root)
    # repeated, and beside roots of another size
    twice = [[*row, *[F(0)] * 3] for row in E] + [[*[F(0)] * 3, *row] for row in E]
    assert LargestRoot(twice).is_times(F(1), root)
    assert root.is_times(F(1), LargestRoot(twice))
    mixed = [[*row, *[F(0)] * 3] for row in E] + [[*[F(0)] * 3, *(2 * x for x in row)] for row in E]
    assert not LargestRoot(mixed).is_times(F(1), root)
    assert LargestRoot(mixed).is_times(F(2), root)
    assert not root.is_times(F(1), LargestRoot(mixed))
