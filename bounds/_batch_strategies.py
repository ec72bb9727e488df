"""Hypothesis strategy for batches of inputs, rows of an array: centred or not, of lengths as asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._lengths import Norms, check_norms, draw_lengths
from bounds._rational_rows import centred_row, follow_on_sphere, plain_rows, sphere_rows
from bounds._recipes import Parallel, Table, draw_parallel, draw_table, sizes_of

__all__ = ["batches"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = list[list[Fraction]]


class _Options(TypedDict, total=False):
    n: int | None
    d: int | None
    min_n: int
    max_n: int
    min_d: int
    max_d: int
    centred: bool
    norms: Norms


@overload
def batches(*, exact: Literal[False] = False, **options: Unpack[_Options]) -> st.SearchStrategy[Floats]: ...


@overload
def batches(*, exact: Literal[True], **options: Unpack[_Options]) -> st.SearchStrategy[Rows]: ...


def batches(
    *,
    n: int | None = None,
    d: int | None = None,
    min_n: int = 1,
    max_n: int = 8,
    min_d: int = 1,
    max_d: int = 8,
    centred: bool = False,
    norms: Norms = None,
    exact: bool = False,
) -> st.SearchStrategy[Any]:
    """Strategy for inputs X of shape (n, d): rows are inputs, none of them zero, of wildly different lengths.

    n, d: the shape; None draws it from min_n..max_n and min_d..max_d (from 2 on where centred).  centred: whether every
    row has mean 0 over its features.  norms: None draws lengths between 8e-19 and 1e20, often (nearly) the same factor
    for all; "equal" makes all rows of one length; "wild" draws each length from 1e-150 to 1e150.
    exact: nested lists of `Fraction`, with means and squared lengths as said without rounding.

    Reaches more inputs than features and rows that are parallel, antipodal or nearly so; shrinks to the rows of an
    identity matrix, centred if asked.  Raises ValueError, at the call, for an argument out of range.

    >>> from hypothesis import find
    >>> find(batches(n=2, d=3), lambda X: True)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    >>> find(batches(n=1, d=2, centred=True, exact=True), lambda X: True)
    [[Fraction(1, 2), Fraction(-1, 2)]]
    """
    features = sizes_of("d", d, max(min_d, 2) if centred and min_d == 1 else min_d, max_d)
    check_norms(norms)
    if centred and features[0] < 2:
        raise ValueError(f"d={d!r} and centred=True cannot be combined: one feature less its mean is 0; pass d >= 2")
    return _batches(sizes_of("n", n, min_n, max_n), features, centred, norms, exact)


@st.composite
def _batches(
    draw: st.DrawFn, sizes: tuple[int, int], features: tuple[int, int], centred: bool, norms: Norms, exact: bool
) -> Floats | Rows:
    lengths, parallel = draw_lengths(draw, sizes[1], norms), draw_parallel(draw, sizes[1])
    table = draw_table(draw, sizes, draw(st.integers(*features)), dense=True)
    if exact:
        rows = _exact_rows(table, parallel, centred, equal=norms == "equal")
        return [[length * entry for entry in row] for row, length in zip(rows, lengths, strict=False)]
    X = _float_rows(table, parallel, centred, equal=norms == "equal")
    scaled: Floats = X * np.array([[float(length)] for length in lengths[: len(X)]]) + 0.0
    return scaled


def _float_rows(table: Table, parallel: Parallel | None, centred: bool, equal: bool) -> Floats:
    X = table.floats()
    if centred:
        X -= X.mean(axis=1, keepdims=True)
        for i in np.flatnonzero(~X.any(axis=1)):  # all features the same
            X[i] = np.arange(table.dimension) == i % table.dimension
            X[i] -= 1 / table.dimension
    if parallel is not None:
        X = parallel.change(X)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if equal else X


def _exact_rows(table: Table, parallel: Parallel | None, centred: bool, equal: bool) -> Rows:
    if equal:
        X = sphere_rows(table, centred=centred)
        if parallel is not None:
            follow_on_sphere(X, parallel, centred=centred)
        return X
    X = plain_rows(table)
    if centred:
        X = [centred_row(row, i) for i, row in enumerate(X)]
    if parallel is not None and (pair := parallel.pair(len(X))):
        i, j = pair
        moved = [parallel.sign * a + parallel.stray * b for a, b in zip(X[i], X[j], strict=True)]
        X[j] = moved if any(moved) else X[i]
    return X
