"""What the strategies for matrices draw: small integers and choices, of which floats and fractions are made alike.

Shrinking leaves draws out and lowers the rest, and calls fewer draws simpler.  So the rows are one list, from which any
may be left out; all else is drawn before, in a form that any n can use; and an edge only ever adds draws: else the
identity would be reached from nowhere, and a failure at n = 8 would stay there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

__all__ = [
    "Parallel",
    "Table",
    "Thin",
    "check_count",
    "check_rank",
    "draw_parallel",
    "draw_signs",
    "draw_table",
    "draw_thin",
    "seldom",
    "sizes_of",
]

Floats: TypeAlias = NDArray[np.float64]

# Sampled, simplest first: hypothesis draws 0 for an integer once in four times, and two rows are then orthogonal.
_SIXTEENTHS = st.sampled_from(sorted(range(-16, 17), key=lambda k: (abs(k), k < 0)))
# Entries are sixteenths times one of these: a floor, since rows that meet at 1e-76 test nothing.
_SCALES = st.sampled_from([Fraction(1), Fraction(1, 10), Fraction(1, 10**3), Fraction(1, 10**6)])
# How far a row stands out of the span of the rows before it: its square is about the smallest eigenvalue.
_THICKNESSES = st.sampled_from([*(Fraction(1, 10**k) for k in (0, 1, 3, 6)), Fraction(0)])
# How far a second row strays from the first when the two are made parallel.
_STRAYS = st.sampled_from([*(Fraction(1, 10**k) for k in (1, 3, 6)), Fraction(0)])
_SIGNS = st.sampled_from([1, -1])
_FLAGS = st.booleans()


@dataclass(frozen=True)
class Table:
    """Rows that are unit vectors in turn plus entries elsewhere: below the pivots (the ones) unless `dense`.

    Pivots make the first rows, as many as there are dimensions, independent, at worst as 2^-n, when not `dense`.
    """

    rows: tuple[tuple[int, ...], ...]
    scale: Fraction
    dimension: int
    dense: bool

    def __len__(self) -> int:
        return len(self.rows)

    def entries(self, i: int) -> tuple[int, dict[int, int]]:
        """The pivot of row i and the sixteenths in other columns.

        They count from the pivot to the left, the last one drawn first: shrinking sorts them, so what is not 0 moves
        next to the pivot, and stays there when an earlier row is left out.
        """
        k = self.dimension
        pivot = i % k
        columns = [(pivot - 1 - step) % k for step in range(k - 1 if self.dense or i >= k else pivot)]
        return pivot, dict(zip(columns, reversed(self.rows[i]), strict=False))

    def floats(self) -> Floats:
        """The rows, none of them zero."""
        X = np.zeros((len(self), self.dimension))
        scale = float(self.scale)
        for i in range(len(self)):
            pivot, entries = self.entries(i)
            X[i, list(entries)] = np.array(list(entries.values())) / 16 * scale
            X[i, pivot] = 1.0
        return X


def draw_table(draw: st.DrawFn, sizes: tuple[int, int], dimension: int, *, dense: bool = False) -> Table:
    """Between sizes[0] and sizes[1] rows with that many columns, fewer if there are fewer rows and not `dense`."""
    scale = draw(_SCALES)
    width = (dimension if dense else sizes[1]) - 1  # not by the rank: few dimensions must not need fewer draws
    # a list alone is of length 1 in half the draws; a least length below the greatest keeps its way of ending
    least = draw(st.integers(sizes[0], max(sizes[0], sizes[1] - 1)))
    rows = draw(st.lists(st.tuples(*[_SIXTEENTHS] * width), min_size=least, max_size=sizes[1]))
    return Table(tuple(rows), scale, dimension if dense else min(dimension, len(rows)), dense)


@dataclass(frozen=True)
class Thin:
    """One triangular row is to be shortened towards the span of the rows before it."""

    row: int
    thickness: Fraction

    def change(self, X: Floats) -> Floats:
        i = self.row % len(X)
        if X[i, :i].any() and i < X.shape[1]:  # a row that is only its pivot keeps it: a zero row has no direction
            X[i, i] *= float(self.thickness)
        return X


def draw_thin(draw: st.DrawFn, top: int) -> Thin:
    return Thin(draw(st.integers(0, top - 1)), draw(_THICKNESSES))


@dataclass(frozen=True)
class Parallel:
    """The lucky branch, dropped in shrinking: one row becomes a multiple of another, or nearly."""

    first: int
    step: int
    sign: int
    stray: Fraction

    def pair(self, n: int) -> tuple[int, int] | None:
        """The row that is followed and the row that follows."""
        i = self.first % n
        return (i, (i + 1 + self.step % (n - 1)) % n) if n > 1 else None

    def change(self, X: Floats) -> Floats:
        if pair := self.pair(len(X)):
            i, j = pair
            moved = self.sign * X[i] + float(self.stray) * X[j]
            X[j] = moved if moved.any() else X[i]
        return X


def draw_parallel(draw: st.DrawFn, top: int) -> Parallel | None:
    if not draw(_FLAGS):
        return None
    return Parallel(draw(st.integers(0, top - 1)), draw(st.integers(0, top - 1)), draw(_SIGNS), draw(_STRAYS))


def draw_signs(draw: st.DrawFn, top: int) -> list[int]:
    bits = draw(st.integers(0, 2**top - 1)) if draw(_FLAGS) else 0
    return [-1 if bits >> i & 1 else 1 for i in range(top)]


def seldom(draw: st.DrawFn) -> bool:
    return draw(_FLAGS) and draw(_FLAGS)


# ---- arguments ----


def sizes_of(name: str, size: int | None, least: int, most: int) -> tuple[int, int]:
    if size is not None:
        check_count(name, size)
        return size, size
    check_count(f"min_{name}", least)
    check_count(f"max_{name}", most)
    if least > most:
        raise ValueError(f"min_{name}={least!r} must not exceed max_{name}={most!r}")
    return least, most


def check_count(name: str, value: object, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def check_rank(rank: int | None, smallest: int) -> None:
    if rank is not None:
        check_count("rank", rank)
        if rank > smallest:
            raise ValueError(f"rank={rank!r} must not exceed the smallest size, {smallest}; raise n or min_n")
