"""The gap of inputs that nearly coincide or are nearly opposite, against determinants in 260 digits.

`matrix` forms rows, cosines and the gap in mpmath, and rounds 1 - |C_ij| and C_ij once each: errors of eps/2, which is
what `entry_error` then says. Where only floats are given, rational arithmetic knows the gap that they mean. A bar must
cover the true error everywhere; where nothing but rounding stands against it, it is also asked to be small.
"""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from meanfield import _clusters
from meanfield._clusters import difference_basis, spanning_forest
from meanfield._exact import exact_determinant
from meanfield._functionals import estimate_isometry_gap
from meanfield._gap import EPS, Gap, gap_of, gap_of_clusters, gram_complement
from meanfield._gram import gram, input_complement, input_gram, unit_diagonal
from meanfield._twofold import two_sum

DIGITS = 260


def rows_around(centres: Any, offsets: Any, width: str) -> list[list[Any]]:
    """Rows centre + width * offset, in mpmath; centres are taken in turn."""
    w = mpmath.mpf(width)
    return [
        [mpmath.mpf(c) + w * mpmath.mpf(x) for c, x in zip(centres[i % len(centres)], offset, strict=True)]
        for i, offset in enumerate(offsets)
    ]


def matrix(rows: Any) -> tuple[Any, Any, Any]:
    """C and 1 - |C| of mpmath rows, each rounded once, and the gap."""
    n = len(rows)
    lengths = [mpmath.sqrt(mpmath.fdot(row, row)) for row in rows]
    M = mpmath.eye(n)
    for i in range(n):
        for j in range(i):
            M[i, j] = M[j, i] = mpmath.fdot(rows[i], rows[j]) / (lengths[i] * lengths[j])
    C = np.array([[float(M[i, j]) for j in range(n)] for i in range(n)])
    near = np.array([[float(1 - abs(M[i, j])) for j in range(n)] for i in range(n)])
    L = mpmath.cholesky(M)
    return C, near, -2 * mpmath.fsum(mpmath.log(L[i, i]) for i in range(n)) / n


def exact_gap(C: Any) -> Any:
    det = exact_determinant(C)
    with mpmath.workdps(100):
        return -mpmath.log(mpmath.mpf(det.numerator) / det.denominator) / len(C)


def clustered(kind: str, width: str, n: int) -> Any:
    rng = np.random.default_rng(n)
    d = n + 5
    normal = rng.standard_normal((n, d))
    if kind == "one":
        return rows_around(rng.standard_normal((1, d)), normal, width)
    if kind == "several":
        return rows_around(rng.standard_normal((max(n // 5, 2), d)), normal, width)
    if kind == "nested":
        inner = rows_around(rng.standard_normal((1, d)), rng.standard_normal((max(n // 4, 2), d)), "1e-4")
        return rows_around(inner, normal, width)
    if kind == "mixed signs":
        rows = rows_around(rng.standard_normal((1, d)), normal, width)
        return [[-x for x in row] if i % 3 else row for i, row in enumerate(rows)]
    if kind == "opposite pair":
        normal[-1] = 0.0
        rows = rows_around(normal[:-1], [*np.zeros((n - 1, d)), rng.standard_normal(d)], width)
        return [*rows[:-1], [-x for x in rows[-1]]]
    assert kind == "equal"
    w = mpmath.mpf(width)
    common, own = mpmath.sqrt(1 - w), mpmath.sqrt(w)
    return [[common] + [own * (i == j) for j in range(n)] for i in range(n)]


# kind, width, n, and the largest bar that rounding of the entries explains
CASES = [
    *[(kind, width, n, 1e-12) for kind in ("one", "mixed signs", "equal") for n in (3, 12)
      for width in ("1e-1", "1e-3", "1e-7", "1e-9", "1e-16", "1e-30", "1e-100")],
    *[("one", width, 60, 1e-11) for width in ("1e-3", "1e-9", "1e-30")],
    ("equal", "1e-12", 60, 1e-12),
    ("mixed signs", "1e-14", 60, 1e-11),
    ("several", "1e-1", 12, 1e-11), ("several", "1e-3", 12, 1e-6), ("several", "1e-5", 12, 1e-2),
    ("several", "1e-9", 3, 1e-6), ("several", "1e-9", 12, math.inf), ("several", "1e-3", 60, 1e-5),
    ("nested", "1e-5", 12, 1e-10), ("nested", "1e-7", 12, 1e-7), ("nested", "1e-9", 12, 1e-2),
    ("nested", "1e-9", 3, 1e-10), ("nested", "1e-9", 60, 1e-1), ("nested", "1e-14", 12, math.inf),
    ("opposite pair", "1e-3", 12, 1e-10), ("opposite pair", "1e-9", 12, 1e-4), ("opposite pair", "1e-9", 60, 1e-3),
    ("opposite pair", "1e-20", 12, math.inf),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "width", "n", "widest"), CASES)
def test_the_bar_covers_the_gap_in_260_digits(kind: str, width: str, n: int, widest: float) -> None:
    with mpmath.workdps(DIGITS):
        C, near, expected = matrix(clustered(kind, width, n))
        gap = gap_of_clusters(C, near, entry_error=EPS / 2)
        if widest < math.inf:
            assert gap.status == "resolved"
            assert abs(gap.value - expected) <= gap.error <= widest
            assert gap.log_value == pytest.approx(float(mpmath.log(expected)), abs=1e-15 + gap.error)
        else:
            assert gap == Gap(math.inf, math.inf, math.inf, "unresolved")


@pytest.mark.parametrize("kind", ["several", "nested", "opposite pair", "mixed signs", "one"])
def test_bars_are_not_much_wider_than_errors(kind: str) -> None:
    ratios = []
    with mpmath.workdps(DIGITS):
        for n in (4, 7, 10, 13, 16):
            C, near, expected = matrix(clustered(kind, "1e-5", n))
            gap = gap_of_clusters(C, near, entry_error=EPS / 2)
            ratios.append(float(gap.error / abs(gap.value - expected)))
    assert min(ratios) >= 1
    assert np.median(ratios) <= 1e3


@pytest.mark.parametrize("n", [3, 12, 30])
@pytest.mark.parametrize(
    ("kind", "width"), [("one", "1e-6"), ("several", "1e-5"), ("several", "1e-6"), ("nested", "1e-6"),
                        ("opposite pair", "1e-7"), ("mixed signs", "1e-7")],
)  # fmt: skip
def test_entries_that_are_exact_give_their_own_gap(kind: str, width: str, n: int) -> None:
    # floats closer than sqrt(eps) n cannot be told from an indefinite matrix; these can, once sums round to nothing
    with mpmath.workdps(DIGITS):
        C, _, _ = matrix(clustered(kind, width, n))
        if exact_determinant(C) <= 0:
            assert gap_of_clusters(C).status == "unresolved"
            return
        gap = gap_of_clusters(C)
        assert abs(gap.value - exact_gap(C)) <= gap.error <= 1e-9
        assert gap_of(C).error <= gap.error
        # 1 - |C| is what is read by default
        assert gap_of_clusters(C, 1 - np.abs(C)) == gap


def test_far_clusters_cost_no_digits_where_entries_are_exact() -> None:
    # differences between clusters are of size 1e-6 of entries of size 1: eps / 1e-12 if they were rounded
    tight = 2.0**-40
    A = np.full((6, 6), 1 - tight) + tight * np.eye(6)
    C = np.block([[A, np.full((6, 6), 0.3)], [np.full((6, 6), 0.3), A]])
    C[0, 7] = C[7, 0] = 0.3 + 2.0**-42
    gap = gap_of_clusters(C)
    assert abs(gap.value - exact_gap(C)) <= gap.error < 1e-13


def test_cosines_on_both_sides_of_a_half_cost_no_digits() -> None:
    # from 1/2 on the distance is read, below it the cosine, which has one bit more; the sum of both has yet another
    tight = 2.0**-42
    A = np.full((6, 6), 1 - tight) + tight * np.eye(6)
    B = 0.5 - np.ldexp(np.random.default_rng(1).integers(-5, 6, (6, 6)), -54)
    C = np.block([[A, B], [B.T, A]])
    assert np.any(B < 0.5)
    assert np.any(B >= 0.5)
    for signs in (1.0, np.repeat([1.0, -1.0], 6)):
        gap = gap_of_clusters(C * signs * np.reshape(signs, (-1, 1)))
        assert abs(gap.value - exact_gap(C)) <= gap.error < 1e-13


def test_the_diagonal_of_distances_is_not_read() -> None:
    with mpmath.workdps(DIGITS):
        C, near, _ = matrix(clustered("nested", "1e-6", 9))
    expected = gap_of_clusters(C, near, entry_error=1e-15)
    np.fill_diagonal(near, math.nan)
    assert gap_of_clusters(C, near, entry_error=1e-15) == expected


@pytest.mark.parametrize("kind", ["several", "nested", "mixed signs"])
def test_the_loss_is_four_errors_over_two_lengths(kind: str) -> None:
    with mpmath.workdps(DIGITS):
        C, near, _ = matrix(clustered(kind, "1e-3", 9))
    n, error = 9, 1e-7
    forest, basis = spanning_forest(C, near), difference_basis(C, near, error)
    assert basis is not None
    delta = np.zeros((n + 1, n + 1))  # the last row and column belong to the origin, whose distances are exact
    delta[:n, :n] = error * np.where(near < 0.5, near, 1.0)
    p, length = forest.parent, np.sqrt(2 * forest.edge)
    four = delta[:n, :n] + delta[p, :n] + delta[:n, p] + delta[np.ix_(p, p)]
    dA = four / length / length[:, None] + np.abs(basis.A) * (error + 4 * EPS)
    np.fill_diagonal(dA, 0.0)
    assert basis.loss == pytest.approx(np.linalg.norm(dA, axis=1), rel=1e-12)


@pytest.mark.parametrize("size", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize(("kind", "width"), [("one", "1e-7"), ("several", "1e-2"), ("nested", "1e-5")])
def test_errors_of_the_entries_are_counted(kind: str, width: str, size: float) -> None:
    rng = np.random.default_rng(8)
    with mpmath.workdps(DIGITS):
        C, near, expected = matrix(clustered(kind, width, 8))
    for _ in range(5):
        E = np.triu(rng.choice([-1.0, 1.0], C.shape), 1) * size
        E += E.T
        moved = gap_of_clusters(C + E * (near > 0.4), near * (1 + E), entry_error=size * (1 + 1e-6))
        if moved.status == "resolved":
            assert abs(moved.value - expected) <= moved.error
    if (kind, size) != ("several", 1e-4):
        assert moved.status == "resolved" or kind == "nested"


def test_a_common_error_of_a_cluster_is_counted_to_first_order() -> None:
    # all distances longer by 1e-6: log det moves by (n - 1) 1e-6, the bar says 4 sqrt(n (n - 1)) times as much at most
    with mpmath.workdps(DIGITS):
        C, near, expected = matrix(clustered("equal", "1e-20", 5))
    moved = gap_of_clusters(C, near * (1 + 1e-6), entry_error=1e-6)
    assert 0.7e-6 < abs(moved.value - expected) <= moved.error < 4e-5


def test_an_edge_carries_the_error_of_its_distance() -> None:
    # two inputs that nearly coincide beside an orthogonal one: A is all but I, and forgives everything else
    near = np.array([[0.0, 1e-4, 1.0], [1e-4, 0.0, 1.0], [1.0, 1.0, 0.0]])
    C = np.where(near < 0.5, 1 - near, 0.0)
    value, error, _, _ = gap_of_clusters(C, near, entry_error=1e-6)
    moved = gap_of_clusters(C, near * (1 - 1e-6)).value
    assert moved > value
    # once for the edge itself, once for its two cosines with the third input, over its length
    assert 0.9e-6 / 3 <= moved - value <= 1.9e-6 / 3 <= error < 3e-6 / 3


def test_errors_that_may_hide_a_singular_matrix_leave_it_unresolved() -> None:
    # nine cosines of -0.125 are singular, though C = I forgives small errors
    assert gap_of_clusters(np.eye(9), entry_error=0.05).status == "resolved"
    assert gap_of_clusters(np.eye(9), entry_error=0.13).status == "unresolved"


def test_the_factorisation_is_counted() -> None:
    # nothing else is uncertain here: no edges, exact entries
    n = 40
    C = np.full((n, n), -(1 - 1e-5) / (n - 1)) + (1 + (1 - 1e-5) / (n - 1)) * np.eye(n)
    np.fill_diagonal(C, 1.0)
    inverse = np.linalg.inv(C) - np.eye(n)
    counted = 2 * math.sqrt(n) * EPS * np.linalg.norm(inverse) * min(1.0, float(np.linalg.norm(C - np.eye(n)))) / n
    error = gap_of_clusters(C).error
    assert counted <= error < 4 * counted
    # plain factorisation counts that alone, and its bar is kept
    assert counted * 0.99 < gap_of(C).error < error
    for size in (1e-6, 1e-9):
        np.fill_diagonal(C, 0.0)
        C *= (1 - size) / (np.abs(C).max() * (n - 1))
        np.fill_diagonal(C, 1.0)
        assert gap_of(C).error < gap_of_clusters(C).error


# --- two inputs, and none ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("near", [0.9, 0.5, 0.3, 1e-5, 1e-30, 1e-300])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_inputs(near: float, sign: float) -> None:
    C = np.array([[1.0, sign * (1 - near)], [sign * (1 - near), 1.0]])
    D = np.array([[0.0, near], [near, 0.0]])
    with mpmath.workdps(400):
        distance = mpmath.mpf(near) if near < 0.5 else 1 - mpmath.mpf(1 - near)
        expected = -mpmath.log(distance * (2 - distance)) / 2
    gap = gap_of_clusters(C, D)
    assert gap.value == pytest.approx(float(expected), rel=4e-16, abs=0)
    assert abs(gap.value - expected) <= gap.error <= 4 * EPS * gap.value
    wide = gap_of_clusters(C, D, entry_error=1e-3)
    for e in (-1e-3, 1e-3):
        with mpmath.workdps(400):
            moved = distance * (1 + e) if near < 0.5 else distance + e
            assert abs(wide.value + mpmath.log(moved * (2 - moved)) / 2) <= wide.error < 0.01
    assert gap_of_clusters(C, D, entry_error=0.7).status == "unresolved"


def test_two_orthogonal_inputs_with_an_error() -> None:
    assert gap_of_clusters(np.eye(2)) == (0.0, 0.0, -math.inf, "resolved")
    value, error, _, _ = gap_of_clusters(np.eye(2), entry_error=1e-3)
    assert value == 0 < -math.log1p(-1e-6) / 2 <= error < 2e-6
    tiny = np.array([[1.0, 1e-200], [1e-200, 1.0]])
    assert gap_of_clusters(tiny).log_value == gap_of(tiny).log_value == pytest.approx(-921.7271843782, abs=1e-9)


def test_orthogonal_inputs_with_an_error() -> None:
    assert gap_of_clusters(np.eye(5)) == (0.0, 0.0, -math.inf, "resolved")
    value, error, _, _ = gap_of_clusters(np.eye(5), entry_error=1e-3)
    # all cosines 1e-3: -(4 log(1 - 1e-3) + log(1 + 4e-3)) / 5
    assert value == 0 < -(4 * math.log1p(-1e-3) + math.log1p(4e-3)) / 5 <= error < 1e-4


def test_one_input() -> None:
    assert gap_of_clusters(np.eye(1), np.zeros((1, 1)), entry_error=0.1) == (0.0, 0.0, -math.inf, "resolved")


@pytest.mark.parametrize("n", [2, 3, 20])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_distance_of_zero_is_singular(n: int, sign: float) -> None:
    C = input_gram(np.random.default_rng(n).standard_normal((n, n + 3)))
    near = 1 - np.abs(C)
    C[0, -1] = C[-1, 0] = sign
    near[0, -1] = near[-1, 0] = 0.0
    assert gap_of_clusters(C, near) == gap_of_clusters(C) == Gap(math.inf, 0.0, math.inf, "singular")


def test_an_indefinite_matrix_is_unresolved() -> None:
    C = np.array([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]])
    assert gap_of_clusters(C).status == "unresolved"
    beside_an_orthogonal_one = np.eye(4)
    beside_an_orthogonal_one[:3, :3] = C
    assert gap_of_clusters(beside_an_orthogonal_one).status == "unresolved"


def test_an_error_of_half_a_distance_and_more_is_unresolved() -> None:
    near = np.array([[0.0, 1e-8, 1.0], [1e-8, 0.0, 1.0], [1.0, 1.0, 0.0]])
    C = np.where(near < 0.5, 1 - near, 0.0)
    for error in (0.5, 1.0, 2.0):
        assert gap_of_clusters(C, near, entry_error=error).status == "unresolved"


# --- the basis ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["several", "nested", "mixed signs", "opposite pair"])
def test_the_forest_is_minimal_and_its_signs_bring_neighbours_together(kind: str) -> None:
    with mpmath.workdps(DIGITS):
        C, near, _ = matrix(clustered(kind, "1e-3", 15))
    forest = spanning_forest(C, near)
    n, child = len(C), np.flatnonzero(forest.parent < len(C))
    assert np.array_equal(forest.edge[child], near[child, forest.parent[child]])
    assert np.all(forest.edge[forest.parent == n] == 0.5)
    # shortest paths between trees are longer than the reach: count them as the reach itself
    capped = minimum_spanning_tree(np.minimum(near, 0.5)).toarray()
    assert forest.edge[child].sum() == pytest.approx(capped[(capped > 0) & (capped < 0.5)].sum(), rel=1e-12)
    signed = C * forest.sign * forest.sign[:, None]
    assert np.all(signed[child, forest.parent[child]] > 0.5)
    for i in child:  # every path ends at a root
        seen = 0
        while i < n:
            i, seen = forest.parent[i], seen + 1
            assert seen <= n


@pytest.mark.parametrize("kind", ["several", "nested", "mixed signs", "one"])
def test_the_basis_is_the_gram_matrix_of_differences(kind: str) -> None:
    with mpmath.workdps(DIGITS):
        rows = clustered(kind, "1e-4", 9)
        C, near, _ = matrix(rows)
        forest, basis = spanning_forest(C, near), difference_basis(C, near, EPS / 2)
        assert basis is not None
        unit = [[s * x / mpmath.norm(row) for x in row] for s, row in zip(forest.sign, rows, strict=True)]
        y = [
            row if p == 9 else [a - b for a, b in zip(row, unit[p], strict=True)]
            for row, p in zip(unit, forest.parent, strict=True)
        ]
        lengths = [mpmath.norm(row) for row in y]
        scaled = [[a / s for a in row] for row, s in zip(y, lengths, strict=True)]
        exact = np.array([[mpmath.fdot(a, b) for b in scaled] for a in scaled])
        assert basis.log_lengths == pytest.approx(float(2 * mpmath.fsum(map(mpmath.log, lengths))), rel=1e-14)
    error = (basis.A - exact).astype(np.float64)
    assert np.all(np.linalg.norm(error, axis=1) <= basis.loss)
    assert np.linalg.norm(basis.loss) < 1e-6
    assert basis.size == pytest.approx(np.linalg.norm(basis.A - np.eye(9)), rel=1e-14)
    assert np.all(np.diagonal(basis.A) == 1)


def test_nothing_is_done_to_inputs_that_are_far_apart() -> None:
    C = input_gram(np.random.default_rng(0).standard_normal((9, 300)))
    basis = difference_basis(C, None)
    assert basis is not None
    assert np.array_equal(basis.A, C)
    assert basis.log_lengths == 0


@pytest.mark.parametrize("block", [1, 7, 16, 10**6])
def test_blocks_change_nothing(block: int, monkeypatch: Any) -> None:
    with mpmath.workdps(DIGITS):
        C, near, _ = matrix(clustered("nested", "1e-6", 12))
    expected = gap_of_clusters(C, near, entry_error=1e-15)
    monkeypatch.setattr(_clusters, "BLOCK", block)
    gap = gap_of_clusters(C, near, entry_error=1e-15)
    assert gap.value == pytest.approx(expected.value, rel=1e-14)
    assert gap.error == pytest.approx(expected.error, rel=1e-6)


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
@example(1.0, -EPS / 2)
def test_sums_are_split_without_loss(a: float, b: float) -> None:
    s, e = two_sum(np.array(a), np.array(b))
    assert s == a + b
    assert Fraction(float(s)) + Fraction(float(e)) == Fraction(a) + Fraction(b)


# --- properties ---------------------------------------------------------------------------------------------------


@given(st.integers(3, 9), st.integers(0, 2**32 - 1), st.floats(1e-8, 1), st.randoms(use_true_random=False))
def test_the_gap_knows_no_order_and_no_sign_of_inputs(n: int, seed: int, width: float, random: Any) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1, n + 2)) + width * rng.standard_normal((n, n + 2))
    C, near = input_gram(X, "rms"), input_complement(X, "rms")
    order, signs = random.sample(range(n), n), np.array([random.choice([-1.0, 1.0]) for _ in range(n)])
    moved = (C * signs * signs[:, None])[np.ix_(order, order)], near[np.ix_(order, order)]
    before = C.copy(), near.copy(), moved[0].copy()
    gaps = gap_of_clusters(C, near, entry_error=1e-14), gap_of_clusters(*moved, entry_error=1e-14)
    event(f"{gaps[0].status}, {gaps[1].status}")
    if gaps[0].status == "resolved" == gaps[1].status:
        assert abs(gaps[0].value - gaps[1].value) <= gaps[0].error + gaps[1].error
    for given_matrix, copy in zip((C, near, moved[0]), before, strict=True):
        assert np.array_equal(given_matrix, copy)


@given(st.integers(3, 8), st.integers(0, 2**32 - 1), st.sampled_from([1e-1, 1e-4, 1e-8, 1e-12]))
def test_the_gap_of_float_rows_is_theirs(n: int, seed: int, width: float) -> None:
    # rows on a coarse grid plus a fine one: their Gram matrix is rational, and near is formed from them
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, (1, n + 2)) + np.ldexp(rng.integers(-64, 65, (n, n + 2)), int(math.log2(width)) - 6)
    rows = [[Fraction(float(x)) for x in row] for row in X]
    G = [[sum((a * b for a, b in zip(x, y, strict=True)), Fraction()) for y in rows] for x in rows]
    det = exact_determinant(G)
    if not X[0].any() or not X.any(axis=1).all() or not det:
        return
    with mpmath.workdps(100):
        q = det / math.prod(G[i][i] for i in range(n))
        expected = -mpmath.log(mpmath.mpf(q.numerator) / q.denominator) / n
    gap = gap_of_clusters(input_gram(X, "rms"), input_complement(X, "rms"), entry_error=1e-14)
    event(gap.status)
    if gap.status == "resolved":
        assert abs(gap.value - expected) <= gap.error


# --- what gap_of makes of it ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 20, 100, 400])
@pytest.mark.parametrize("width", [1e-3, 2.0**-20, 2.0**-40, 2.0**-52])
def test_equal_cosines_near_one(n: int, width: float) -> None:
    rho = 1 - width
    C = np.full((n, n), rho) + (1 - rho) * np.eye(n)
    np.fill_diagonal(C, 1.0)
    with mpmath.workdps(60):
        r = mpmath.mpf(rho)
        expected = -((n - 1) * mpmath.log(1 - r) + mpmath.log(1 + (n - 1) * r)) / n
    gap = gap_of(C)
    assert gap.status == "resolved"
    assert abs(gap.value - expected) <= gap.error <= 1e-10 * gap.value
    assert gap.value == pytest.approx(float(expected), rel=1e-13 if width < 1e-7 else 1e-11, abs=0)


def test_the_better_bar_is_kept() -> None:
    # a curve: every three inputs nearly dependent, which differences of two do not cure
    t = np.linspace(0, 1, 17)[:, None]
    C = unit_diagonal(gram(np.exp(-((t - np.linspace(-1, 2, 40)) ** 2) / 0.02)))
    assert gap_of(C).error <= gap_of(C, rounded=True).error
    assert gap_of(C).error <= gap_of_clusters(C).error


def test_a_raw_gram_matrix_is_read_before_it_is_normalised() -> None:
    n = 18
    G = np.full((n, n), 3.0) + 3.0 * np.ldexp(np.eye(n), -48)
    C = unit_diagonal(G)
    near = gram_complement(G, C)
    exact = 1 - 1 / (1 + Fraction(2) ** -48)
    assert near[0, 1] == pytest.approx(float(exact), rel=4 * EPS, abs=0)
    assert near[0, 1] != 1 - C[0, 1]
    with mpmath.workdps(60):
        ratio = 1 / (1 + mpmath.mpf(2) ** -48)
        expected = -((n - 1) * mpmath.log(1 - ratio) + mpmath.log(1 + (n - 1) * ratio)) / n
    estimate = estimate_isometry_gap(G)
    assert estimate.status == "resolved"
    assert abs(estimate.value - expected) <= estimate.error < 1e-12
    G[0, 1] = G[1, 0] = -0.5
    assert gram_complement(G, unit_diagonal(G))[0, 1] == pytest.approx(1 - 0.5 / 3, rel=1e-12)


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_near", [False, True])
def test_one_array_is_held_beside_the_matrix(given_near: bool) -> None:
    n = 1024
    C = input_gram(1.0 + 1e-4 * np.random.default_rng(0).standard_normal((n, 2 * n)), "rms")
    near = 1 - np.abs(C) if given_near else None
    gap_of_clusters(C[:5, :5].copy())  # what is imported on the way
    tracemalloc.start()
    try:
        assert gap_of_clusters(C, near, entry_error=0.0).status == "resolved"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 8192 numbers at a time in about 20 arrays, and 16 columns for the inverse
    assert peak <= 8 * (n * n + 40 * 8192)
