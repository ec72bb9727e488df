"""Hypothesis strategies for Gram matrices and inputs: drawn by construction, never by filtering.

A random symmetric matrix is hardly ever positive semidefinite (1.9 % at n = 5, none at n = 8), so rows are
drawn and their Gram matrix is taken.  Rows alone avoid the edges, where bounds are attained or break; so the
strategies draw, each time, whether to visit one.  An edge that a failure does not need is dropped in
shrinking: every strategy shrinks to the identity of the smallest allowed size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from meanfield._gram import gram, unit_diagonal

__all__ = ["batches", "correlation_matrices", "psd_matrices"]

Floats: TypeAlias = NDArray[np.float64]
Matrices: TypeAlias = st.SearchStrategy[NDArray[np.float64]]
Change: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Sampled, simplest first: hypothesis draws 0 for an integer once in four times, and two rows are then orthogonal.
_SIXTEENTHS = sorted(range(-16, 17), key=lambda k: (abs(k), k < 0))
# Entries are multiples of 1/16 times one of these: a floor, since rows that meet at 1e-76 test nothing.
_SCALES = [1.0, 1e-1, 1e-3, 1e-6]
# How far a row stands out of the span of the rows before it: its square is about the smallest eigenvalue.
_THICKNESSES = [1.0, 1e-1, 1e-3, 1e-6, 0.0]
# How far a second row strays from the first when the two are made parallel.
_STRAYS = [1e-1, 1e-3, 1e-6, 0.0]
# Equicorrelation, as a fraction of what is singular.
_STRENGTHS = [0.125, 0.5, 0.875, 1.0]


def correlation_matrices(
    *,
    n: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    rank: int | None = None,
    max_correlation: float | None = None,
) -> Matrices:
    """Strategy for correlation matrices: symmetric and positive semidefinite, diagonal exactly 1, float64.

    n: the size; None draws it from min_n..max_n.  rank: None draws from well conditioned through nearly
    singular (smallest eigenvalue around 1e-2, 1e-6, 1e-12) to singular; a number fixes it, well conditioned.
    max_correlation: bound on every |G_ij| with i != j, in [0, 1], attained by some draws.
    Reaches |G_ij| = 1 and nearly so with both signs, equicorrelation with both signs up to singularity, and
    entries of 1e-6; shrinks to the identity (with rank < n: to n unit vectors in turn).  Positive
    semidefinite up to rounding, as every float64 Gram matrix.
    Raises ValueError, at the call, for an argument out of range or rank together with max_correlation.

    >>> from hypothesis import find
    >>> find(correlation_matrices(n=2), lambda G: True)
    array([[1., 0.],
           [0., 1.]])
    """
    sizes = _sizes("n", n, min_n, max_n)
    _check_rank(rank, sizes[0])
    if max_correlation is not None and not 0 <= max_correlation <= 1:
        raise ValueError(f"max_correlation must lie in [0, 1], got {max_correlation!r}")
    if max_correlation is not None and rank is not None:
        raise ValueError(
            f"rank={rank!r} and max_correlation={max_correlation!r} cannot be combined: bounding the "
            "correlations mixes in the identity, which has full rank; leave one out"
        )
    return _correlations(sizes, rank, max_correlation)


def psd_matrices(
    *,
    n: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    rank: int | None = None,
    zero_diagonal: bool = True,
) -> Matrices:
    """Strategy for Gram matrices of inputs of wildly different lengths: positive semidefinite, any diagonal.

    D C D with C from `correlation_matrices` and lengths D_ii between 8e-19 and 2e19, often (nearly) equal.
    n, min_n, max_n, rank: as there.  zero_diagonal: whether some inputs may be 0 (the zero matrix included);
    False keeps the diagonal positive, and zero inputs are never drawn when `rank` is given.
    Shrinks to the identity.  Raises ValueError, at the call, for an argument out of range.

    >>> from hypothesis import find
    >>> find(psd_matrices(n=2), lambda G: G[1, 1] == 0)
    array([[1., 0.],
           [0., 0.]])
    """
    sizes = _sizes("n", n, min_n, max_n)
    _check_rank(rank, sizes[0])
    return _scaled(_correlations(sizes, rank, None), sizes[1], zero_diagonal and rank is None)


def batches(
    *,
    n: int | None = None,
    d: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    min_d: int = 1,
    max_d: int = 8,
) -> Matrices:
    """Strategy for inputs X of shape (n, d): rows are inputs, none of them zero, of wildly different lengths.

    n, d: the shape; None draws it from min_n..max_n and min_d..max_d.  Reaches more inputs than features,
    rows that are parallel, antipodal or nearly so, and lengths between 8e-19 and 1e20; shrinks to the rows of
    an identity matrix.  Raises ValueError, at the call, for an argument out of range.

    >>> from hypothesis import find
    >>> find(batches(n=2, d=3), lambda X: True)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    return _batches(_sizes("n", n, min_n, max_n), _sizes("d", d, min_d, max_d))


# Shrinking leaves draws out and lowers the rest, and calls fewer draws simpler.  So the rows are one list, from
# which any may be left out; all else is drawn before, in a form that any n can use; and an edge only ever
# adds draws: else the identity would be reached from nowhere, and a failure at n = 8 would stay there.


@st.composite
def _correlations(draw: st.DrawFn, sizes: tuple[int, int], rank: int | None, max_correlation: float | None) -> Floats:
    top = sizes[1]
    changes: list[Change] = []
    equal = None
    if rank is None:
        changes = [_parallel(draw, top), _thin(draw, top)]
        equal = (draw(st.sampled_from(_STRENGTHS)), draw(st.booleans())) if _seldom(draw) else None
        rank = draw(st.integers(1, top)) if _seldom(draw) else None
    signs = _signs(draw, top)
    X = _rows(draw, sizes, top if rank is None else rank)
    for change in reversed(changes):
        X = change(X)
    G = unit_diagonal(gram(X)) if equal is None else _equicorrelation(len(X), *equal)
    G = G * np.outer(signs[: len(G)], signs[: len(G)]) + 0.0  # no -0.0
    return G if max_correlation is None else _limited(G, max_correlation)


@st.composite
def _scaled(draw: st.DrawFn, matrices: Matrices, top: int, zeros: bool) -> Floats:
    lengths = _lengths(draw, top)
    zero = draw(st.integers(0, top - 1)) if zeros and draw(st.booleans()) else None
    C = draw(matrices)
    lengths = lengths[: len(C)]
    if zero is not None:
        lengths[zero % len(C)] = 0.0
    return C * np.outer(lengths, lengths) + 0.0


@st.composite
def _batches(draw: st.DrawFn, sizes: tuple[int, int], features: tuple[int, int]) -> Floats:
    lengths, parallel = _lengths(draw, sizes[1]), _parallel(draw, sizes[1])
    X = parallel(_rows(draw, sizes, draw(st.integers(*features)), dense=True))
    return X * lengths[: len(X), None] + 0.0


def _rows(draw: st.DrawFn, sizes: tuple[int, int], dimension: int, *, dense: bool = False) -> Floats:
    """Nonzero rows: unit vectors in turn, plus entries elsewhere: below the pivots unless `dense`.

    Pivots of 1 make the first rows, as many as there are dimensions, independent, at worst as 2^-n, when not
    `dense`.  Entries count from the pivot to the left, the last one drawn first: shrinking sorts them, so what is
    not 0 moves next to the pivot, and stays there when an earlier row is left out.
    """
    scale = draw(st.sampled_from(_SCALES))
    width = (dimension if dense else sizes[1]) - 1  # not by the rank: few dimensions must not need fewer draws
    entries = st.lists(st.sampled_from(_SIXTEENTHS), min_size=width, max_size=width)
    # a list alone is of length 1 in half the draws; a least length below the greatest keeps its way of ending
    least = draw(st.integers(sizes[0], max(sizes[0], sizes[1] - 1)))
    drawn = draw(st.lists(entries, min_size=least, max_size=sizes[1]))
    k = dimension if dense else min(dimension, len(drawn))
    X = np.zeros((len(drawn), k))
    for i, row in enumerate(drawn):
        pivot = i % k
        columns = [(pivot - 1 - step) % k for step in range(k - 1 if dense or i >= k else pivot)]
        X[i, columns] = np.array(row[::-1][: len(columns)]) / 16 * scale
        X[i, pivot] = 1.0
    return X


def _thin(draw: st.DrawFn, top: int) -> Change:
    """Shorten the pivot of one triangular row, towards the span of the rows before it."""
    row, thickness = draw(st.integers(0, top - 1)), draw(st.sampled_from(_THICKNESSES))

    def change(X: Floats) -> Floats:
        i = row % len(X)
        if X[i, :i].any() and i < X.shape[1]:  # a row that is only its pivot keeps it: a zero row has no direction
            X[i, i] *= thickness
        return X

    return change


def _parallel(draw: st.DrawFn, top: int) -> Change:
    """The lucky branch, dropped in shrinking: one row becomes a multiple of another, or nearly."""
    if not draw(st.booleans()):
        return lambda X: X
    first, step = draw(st.integers(0, top - 1)), draw(st.integers(0, top - 1))
    sign, stray = draw(st.sampled_from([1.0, -1.0])), draw(st.sampled_from(_STRAYS))

    def change(X: Floats) -> Floats:
        if (n := len(X)) > 1:
            i, j = first % n, (first + 1 + step % (n - 1)) % n
            moved = sign * X[i] + stray * X[j]
            X[j] = moved if moved.any() else X[i]
        return X

    return change


def _signs(draw: st.DrawFn, top: int) -> Floats:
    bits = draw(st.integers(0, 2**top - 1)) if draw(st.booleans()) else 0
    return np.array([-1.0 if bits >> i & 1 else 1.0 for i in range(top)])


def _lengths(draw: st.DrawFn, top: int) -> Floats:
    """Positive lengths: all the same, or nearly so, or of the same order, or spread over 36 decades."""
    count = top if draw(st.booleans()) else 1
    reach, step = draw(st.sampled_from([(0, 0.0), (0, 1e-9), (0, 1e-3), (0, 1.0), (60, 1.0)]))
    exponents = draw(st.lists(st.integers(-reach, reach), min_size=count, max_size=count))
    mantissas = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    lengths: Floats = np.ldexp(1.0 + step * np.array(mantissas, dtype=np.float64), exponents)
    return np.resize(lengths, top)


def _seldom(draw: st.DrawFn) -> bool:
    return draw(st.booleans()) and draw(st.booleans())


def _equicorrelation(n: int, strength: float, negative: bool) -> Floats:
    """All correlations equal, and singular at strength 1: there 1, or as negative as n of them can be."""
    G = np.full((n, n), -strength / max(n - 1, 1) if negative else strength)
    np.fill_diagonal(G, 1.0)
    return G


def _limited(G: Floats, bound: float) -> Floats:
    """Mix in as much of the identity as brings every correlation within the bound."""
    largest = np.max(np.abs(G - np.eye(len(G))))
    if largest > bound:
        G = np.clip(G * (bound / largest), -bound, bound) + 0.0
        np.fill_diagonal(G, 1.0)
    return G


def _sizes(name: str, size: int | None, least: int, most: int) -> tuple[int, int]:
    if size is not None:
        _check_count(name, size)
        return size, size
    _check_count(f"min_{name}", least)
    _check_count(f"max_{name}", most)
    if least > most:
        raise ValueError(f"min_{name}={least!r} must not exceed max_{name}={most!r}")
    return least, most


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def _check_rank(rank: int | None, smallest: int) -> None:
    if rank is not None:
        _check_count("rank", rank)
        if rank > smallest:
            raise ValueError(f"rank={rank!r} must not exceed the smallest size, {smallest}; raise n or min_n")
