"""Hypothesis strategies for Gram matrices: drawn by construction, never by filtering.

A random symmetric matrix is hardly ever positive semidefinite (1.9 % at n = 5, none at n = 8), so rows are
drawn and their Gram matrix is taken.  Rows alone avoid the edges, where bounds are attained or break; so the
strategies draw, each time, whether to visit one.  An edge that a failure does not need is dropped in
shrinking: every strategy shrinks to the identity of the smallest allowed size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._lengths import Norms, check_norms, draw_lengths
from bounds._rational_rows import follow_on_sphere, rational_gram, sphere_rows
from bounds._recipes import (
    Parallel,
    Table,
    Thin,
    check_rank,
    draw_parallel,
    draw_signs,
    draw_table,
    draw_thin,
    seldom,
    sizes_of,
)
from bounds._spectral_strategies import check_eigenvalues, with_eigenvalues
from meanfield._gram import gram, unit_diagonal

__all__ = ["correlation_matrices", "psd_matrices"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = list[list[Fraction]]
Matrices: TypeAlias = st.SearchStrategy[Floats]
ExactMatrices: TypeAlias = st.SearchStrategy[Rows]

# Equicorrelation, as a fraction of what is singular.
_STRENGTHS = st.sampled_from([Fraction(1, 8), Fraction(1, 2), Fraction(7, 8), Fraction(1)])
_FLAGS = st.booleans()


class _Correlations(TypedDict, total=False):
    n: int | None
    min_n: int
    max_n: int
    rank: int | None
    max_correlation: float | Fraction | None
    eigenvalues: Sequence[float] | None


class _Grams(TypedDict, total=False):
    n: int | None
    min_n: int
    max_n: int
    rank: int | None
    zero_diagonal: bool
    norms: Norms


@overload
def correlation_matrices(*, exact: Literal[False] = False, **options: Unpack[_Correlations]) -> Matrices: ...


@overload
def correlation_matrices(*, exact: Literal[True], **options: Unpack[_Correlations]) -> ExactMatrices: ...


def correlation_matrices(
    *,
    n: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    rank: int | None = None,
    max_correlation: float | Fraction | None = None,
    eigenvalues: Sequence[float] | None = None,
    exact: bool = False,
) -> st.SearchStrategy[Any]:
    """Strategy for correlation matrices: symmetric and positive semidefinite, diagonal exactly 1, float64.

    n: the size; None draws it from min_n..max_n.  rank: None draws from well conditioned through nearly
    singular (smallest eigenvalue around 1e-2, 1e-6, 1e-12) to singular; a number fixes it, well conditioned.
    max_correlation: bound on every |G_ij| with i != j, in [0, 1], attained by some draws.
    eigenvalues: the n eigenvalues, at least 0 and of sum n; then only the eigenvectors are drawn.
    exact: nested lists of `Fraction` in place of arrays, positive semidefinite without rounding.

    Reaches |G_ij| = 1 and nearly so with both signs, equicorrelation with both signs up to singularity, two
    blocks of inputs orthogonal to each other, and entries of 1e-6; shrinks to the identity (with rank < n: to
    n unit vectors in turn; with eigenvalues: to rotations of their diagonal matrix).  Float matrices are
    positive semidefinite, and have the given eigenvalues, up to rounding, some 1e-15 n.
    Raises ValueError, at the call, for an argument out of range, for eigenvalues whose sum is not n, and for
    those that cannot be combined: rank with max_correlation, eigenvalues with any other.

    >>> from hypothesis import find
    >>> find(correlation_matrices(n=2), lambda G: True)
    array([[1., 0.],
           [0., 1.]])
    >>> find(correlation_matrices(n=2, exact=True), lambda G: True)
    [[Fraction(1, 1), Fraction(0, 1)], [Fraction(0, 1), Fraction(1, 1)]]
    """
    if eigenvalues is not None:
        return _of_eigenvalues(eigenvalues, n, rank, max_correlation, exact)
    sizes = sizes_of("n", n, min_n, max_n)
    check_rank(rank, sizes[0])
    if max_correlation is not None and not 0 <= max_correlation <= 1:
        raise ValueError(f"max_correlation must lie in [0, 1], got {max_correlation!r}")
    if max_correlation is not None and rank is not None:
        raise ValueError(
            f"rank={rank!r} and max_correlation={max_correlation!r} cannot be combined: bounding the "
            "correlations mixes in the identity, which has full rank; leave one out"
        )
    return _correlations(sizes, rank, max_correlation, exact)


@overload
def psd_matrices(*, exact: Literal[False] = False, **options: Unpack[_Grams]) -> Matrices: ...


@overload
def psd_matrices(*, exact: Literal[True], **options: Unpack[_Grams]) -> ExactMatrices: ...


def psd_matrices(
    *,
    n: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    rank: int | None = None,
    zero_diagonal: bool = True,
    norms: Norms = None,
    exact: bool = False,
) -> st.SearchStrategy[Any]:
    """Strategy for Gram matrices of inputs of wildly different lengths: positive semidefinite, any diagonal.

    D C D with C from `correlation_matrices` and lengths D_ii: with norms=None between 8e-19 and 2e19 and often (nearly)
    equal, with norms="equal" all the same, with norms="wild" anywhere from 1e-150 to 1e150.
    n, min_n, max_n, rank, exact: as there.  zero_diagonal: whether some inputs may be 0 (the zero matrix included);
    False keeps the diagonal positive, and zero inputs are never drawn when `rank` is given.
    Shrinks to the identity.  Raises ValueError, at the call, for an argument out of range.

    >>> from hypothesis import find
    >>> find(psd_matrices(n=2), lambda G: G[1, 1] == 0)
    array([[1., 0.],
           [0., 0.]])
    """
    sizes = sizes_of("n", n, min_n, max_n)
    check_rank(rank, sizes[0])
    check_norms(norms)
    return _scaled(_correlations(sizes, rank, None, exact), sizes[1], zero_diagonal and rank is None, norms, exact)


@dataclass(frozen=True)
class _Edges:
    """What a correlation matrix is to be, beside the Gram matrix of drawn rows; None where that is not visited."""

    parallel: Parallel | None
    thin: Thin | None
    equal: tuple[Fraction, int] | None  # a fraction of what is singular, and a sign
    cut: int | None  # inputs from here on are orthogonal to those before
    signs: list[int]

    def block(self, n: int) -> int:
        """How many inputs are orthogonal to all others; of two inputs that would leave nothing."""
        return 0 if self.cut is None or n < 3 else self.cut % n


@st.composite
def _correlations(
    draw: st.DrawFn, sizes: tuple[int, int], rank: int | None, max_correlation: float | Fraction | None, exact: bool
) -> Floats | Rows:
    top = sizes[1]
    parallel = thin = equal = cut = None
    if rank is None:
        parallel, thin = draw_parallel(draw, top), draw_thin(draw, top)
        equal = (draw(_STRENGTHS), -1 if draw(_FLAGS) else 1) if seldom(draw) else None
        rank = draw(st.integers(1, top)) if seldom(draw) else None
        cut = draw(st.integers(0, top - 1)) if seldom(draw) else None
    edges = _Edges(parallel, thin, equal, cut, draw_signs(draw, top))
    table = draw_table(draw, sizes, top if rank is None else rank)
    if exact:
        return _exact_matrix(table, edges, None if max_correlation is None else Fraction(max_correlation))
    return _float_matrix(table, edges, max_correlation)


@st.composite
def _scaled(
    draw: st.DrawFn, matrices: st.SearchStrategy[Any], top: int, zeros: bool, norms: Norms, exact: bool
) -> Floats | Rows:
    lengths = draw_lengths(draw, top, norms)
    zero = draw(st.integers(0, top - 1)) if zeros and draw(_FLAGS) else None
    C = draw(matrices)
    if zero is not None:
        lengths[zero % len(C)] = Fraction(0)
    if exact:
        return [[c * a * b for c, b in zip(row, lengths, strict=False)] for row, a in zip(C, lengths, strict=False)]
    factors = np.array([float(length) for length in lengths[: len(C)]])
    scaled: Floats = C * np.outer(factors, factors) + 0.0
    return scaled


# ---- floats ----


def _float_matrix(table: Table, edges: _Edges, bound: float | Fraction | None) -> Floats:
    if edges.equal is None:
        X = table.floats()
        for edge in (edges.thin, edges.parallel):
            X = X if edge is None else edge.change(X)
        G = unit_diagonal(gram(X))
    else:
        G = _equicorrelation(len(table), *edges.equal)
    n, cut = len(G), edges.block(len(G))
    G[:cut, cut:] = G[cut:, :cut] = 0.0
    signs = np.array(edges.signs[:n], dtype=np.float64)
    G = G * np.outer(signs, signs) + 0.0  # no -0.0
    return G if bound is None else _limited(G, float(bound))


def _equicorrelation(n: int, strength: Fraction, sign: int) -> Floats:
    """All correlations equal, and singular at strength 1: there 1, or as negative as n of them can be."""
    G = np.full((n, n), float(_common(n, strength, sign)))
    np.fill_diagonal(G, 1.0)
    return G


def _common(n: int, strength: Fraction, sign: int) -> Fraction:
    return strength if sign > 0 else -strength / max(n - 1, 1)


def _limited(G: Floats, bound: float) -> Floats:
    """Mix in as much of the identity as brings every correlation within the bound."""
    largest = np.max(np.abs(G - np.eye(len(G))))
    if largest > bound:
        G = np.clip(G * (bound / largest), -bound, bound) + 0.0
        np.fill_diagonal(G, 1.0)
    return G


def _of_eigenvalues(
    eigenvalues: Sequence[float],
    n: int | None,
    rank: int | None,
    max_correlation: float | Fraction | None,
    exact: bool,
) -> Matrices:
    found = check_eigenvalues(eigenvalues)
    others = {"n": n, "rank": rank, "max_correlation": max_correlation, "exact": exact or None}
    for name, value in others.items():
        if value is not None and (name, value) != ("n", len(found)):
            raise ValueError(
                f"eigenvalues={eigenvalues!r} and {name}={value!r} cannot be combined: eigenvalues fix the size and "
                f"the rank, and their rotations are irrational; leave one out"
            )
    return with_eigenvalues(found)


# ---- fractions ----


def _exact_matrix(table: Table, edges: _Edges, bound: Fraction | None) -> Rows:
    n = len(table)
    if edges.equal is None:
        G = _exact_gram(table, edges)
    else:
        common = _common(n, *edges.equal)
        G = [[Fraction(1) if i == j else common for j in range(n)] for i in range(n)]
    cut = edges.block(n)
    largest = max((abs(G[i][j]) for i in range(n) for j in range(i)), default=Fraction(0))
    factor = Fraction(1) if bound is None or largest <= bound else bound / largest
    for i in range(n):
        for j in range(n):
            if i != j:
                G[i][j] *= 0 if (i < cut) != (j < cut) else factor * edges.signs[i] * edges.signs[j]
    return G


def _exact_gram(table: Table, edges: _Edges) -> Rows:
    """Of unit rows; a thin one is a mixture of them with rows of less than full rank, since both have diagonal 1."""

    def of(low: int | None) -> Rows:
        X = sphere_rows(table, low=low)
        if edges.parallel is not None:
            follow_on_sphere(X, edges.parallel)
        return rational_gram(X)

    G = of(None)
    if edges.thin is None or edges.thin.thickness == 1 or not 0 < (i := edges.thin.row % len(G)) < table.dimension:
        return G
    share = edges.thin.thickness**2
    return [[share * a + (1 - share) * b for a, b in zip(*rows, strict=True)] for rows in zip(G, of(i), strict=True)]
