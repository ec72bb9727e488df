"""Rows of rational numbers whose lengths are rational too, so that their Gram matrices are exact.

The sphere |x|^2 = |p|^2 around 0 has as many rational points as one likes, if p is one: for u orthogonal to p

    x = ((|p|^2 - |u|^2) p + 2 |p|^2 u) / (|p|^2 + |u|^2)

is another (stereographic projection from -p: |x|^2 (|p|^2 + |u|^2)^2 = |p|^2 ((|p|^2 - |u|^2)^2 + 4 |p|^2 |u|^2)),
and comes to p as u comes to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from bounds._recipes import Parallel, Table

__all__ = ["centred_row", "follow_on_sphere", "inner", "plain_rows", "rational_gram", "sphere_rows"]

Row: TypeAlias = list[Fraction]

_ZERO = Fraction(0)


def inner(x: Sequence[Fraction], y: Sequence[Fraction]) -> Fraction:
    return sum((a * b for a, b in zip(x, y, strict=True) if a and b), _ZERO)


def rational_gram(X: Sequence[Sequence[Fraction]]) -> list[Row]:
    """X X^T."""
    G = [[inner(x, y) for y in X[: i + 1]] for i, x in enumerate(X)]
    return [[G[max(i, j)][min(i, j)] for j in range(len(X))] for i in range(len(X))]


def plain_rows(table: Table) -> list[Row]:
    """The rows of a table as they are, with pivots 1."""
    return [_row(table, i, pivot=Fraction(1)) for i in range(len(table))]


def centred_row(x: Sequence[Fraction], pivot: int = 0) -> Row:
    """x less its mean; where that is 0, the unit vector of the pivot less its own."""
    mean = sum(x, _ZERO) / len(x)
    row = [entry - mean for entry in x]
    return row if any(row) else centred_row([Fraction(k == pivot % len(x)) for k in range(len(x))])


def sphere_rows(table: Table, *, centred: bool = False, low: int | None = None) -> list[Row]:
    """The directions of a table as rows of equal lengths: 1, or 1 - 1/d squared where each is to have mean 0.

    low: this row is put into the span of those before it, if it can be.
    """
    return [_on_sphere_of(table, i, centred, i == low) for i in range(len(table))]


def _on_sphere_of(table: Table, i: int, centred: bool, low: bool) -> Row:
    pivot, entries = table.entries(i)
    u = _row(table, i, pivot=_ZERO)
    if low and any(u):  # the last of the columns before becomes its pivot; far from that, lest two rows be parallel
        pivot = max(entries)
        u = [_ZERO if k == pivot else entry / table.scale * 2 for k, entry in enumerate(u)]
    p = [Fraction(k == pivot) for k in range(table.dimension)]
    if centred:
        p, u = centred_row(p, pivot), (centred_row(u, pivot) if len(set(u)) > 1 else [_ZERO] * len(u))
    return _on_sphere(p, [entry / 2 for entry in u])


def _on_sphere(p: Row, u: Row) -> Row:
    """The point of the sphere through p that the part of u orthogonal to p belongs to; never orthogonal to p."""
    s, along = inner(p, p), inner(p, u)
    if along:
        u = [b - along / s * a for a, b in zip(p, u, strict=True)]
    q = inner(u, u)
    if q == s:  # x would be orthogonal to p, and rows that are to be independent could be the same
        u, q = [b / 2 for b in u], q / 4
    return [((s - q) * a + 2 * s * b) / (s + q) for a, b in zip(p, u, strict=True)]


def follow_on_sphere(X: list[Row], parallel: Parallel, *, centred: bool = False) -> None:
    """One row becomes another or its opposite, or nearly: it then strays towards its own pivot, for short fractions."""
    if pair := parallel.pair(len(X)):
        i, j = pair
        d = len(X[j])
        stray = [parallel.stray if k == j % d else _ZERO for k in range(d)]
        if centred:
            stray = [entry - parallel.stray / d for entry in stray]
        X[j] = [parallel.sign * entry for entry in _on_sphere(X[i], stray)]


def _row(table: Table, i: int, pivot: Fraction) -> Row:
    row = [_ZERO] * table.dimension
    place, entries = table.entries(i)
    for column, k in entries.items():
        row[column] = table.scale * k / 16
    row[place] = pivot
    return row
