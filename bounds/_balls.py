"""Numbers with proven bounds, one for each layer: the balls of python-flint behind the operators of `_bracket`.

All of it works at the precision of the caller's scope, and a ball that says nothing (nan, infinite radius) stays one:
then the claim is UNDECIDED at this precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import Bracket, Increasing
from hermite.certified._flint import Ball, arb, exact

__all__ = ["Balls", "as_fraction", "ball_log"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Balls:
    """One ball for each of layers 0, 1, ..., or one for all of them."""

    entries: tuple[Ball, ...]

    def __add__(self, other: Balls | Bracket | float) -> Balls:
        right = _as_balls(other)
        length = max(len(self.entries), len(right.entries))
        return Balls(tuple(a + b for a, b in zip(self._spread(length), right._spread(length), strict=True)))

    __radd__ = __add__

    def __sub__(self, other: Balls | Bracket | float) -> Balls:
        return self + -1.0 * _as_balls(other)

    def __rsub__(self, other: Bracket | float) -> Balls:
        return -1.0 * self + other

    def __rmul__(self, factor: float) -> Balls:
        return Balls(tuple(arb(0) if factor == 0 else arb(factor) * x for x in self.entries))

    def scaled(self, factors: Floats) -> Balls:
        """One ball times a factor for each layer."""
        return Balls(tuple(arb(factor) * self.entries[0] for factor in factors.tolist()))

    def __getitem__(self, index: int) -> Balls:
        return Balls((self.entries[index],))

    def through(self, function: Increasing) -> Balls:
        return self.each(function.of_ball)

    def each(self, function: Callable[[Ball], Ball]) -> Balls:
        return Balls(tuple(map(function, self.entries)))

    def before(self) -> Balls:
        return Balls((self.entries[0], *self.entries[:-1]))

    def same_as(self, other: Balls, where: NDArray[np.bool_]) -> tuple[Balls, Balls]:
        """Both, the second with the very balls of the first where they are one number."""
        left, right = self._spread(len(where)), other._spread(len(where))
        chosen = (a if same else b for a, b, same in zip(left, right, where.tolist(), strict=True))
        return Balls(left), Balls(tuple(chosen))

    def picked(self, others: Sequence[Balls], best: NDArray[np.intp]) -> Balls:
        columns = [each._spread(len(best)) for each in others]
        return Balls(tuple(columns[k][l] for l, k in enumerate(best.tolist())))

    def settle(self, rhs: Balls) -> tuple[Any, Any]:
        """Slack and tolerance as rationals, so that the verdict is proven; 0 where both sides are one ball."""
        length = max(len(self.entries), len(rhs.entries))
        found = [_settled(a, b) for a, b in zip(self._spread(length), rhs._spread(length), strict=True)]
        slack, tolerance = (np.array(column, dtype=object) for column in zip(*found, strict=True))
        return slack, tolerance

    def _spread(self, length: int) -> tuple[Ball, ...]:
        return self.entries * length if len(self.entries) == 1 else self.entries

    def widened(self, more: float = 0.0) -> Balls:
        """Balls need no room for rounding."""
        return self

    @property
    def value(self) -> Floats:
        return np.array([float(x) if x.is_finite() else _size(x) for x in self.entries])

    @property
    def low(self) -> Floats:
        return np.array([_end(x, -math.inf) for x in self.entries])

    @property
    def high(self) -> Floats:
        return np.array([_end(x, math.inf) for x in self.entries])


def _settled(lhs: Ball, rhs: Ball) -> tuple[Any, Any]:
    if lhs is rhs:
        return Fraction(0), Fraction(0)
    difference = rhs - lhs
    if difference.is_finite():
        return as_fraction(difference.mid()), as_fraction(difference.rad())
    left, right = _size(lhs), _size(rhs)
    if math.isnan(left) or math.isnan(right):
        return Fraction(0), math.inf
    return (Fraction(0) if left == right else right - left), Fraction(0)


def as_fraction(point: Ball) -> Fraction:
    """An exact ball as a rational."""
    man, exp = point.man_exp()
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def ball_log(x: Ball) -> Ball:
    """log of a number that is >= 0: -inf of an exact 0."""
    if x.is_zero():
        return arb.neg_inf()
    return x.log() if x > 0 else arb(0, math.inf)


def _as_balls(other: Balls | Bracket | float) -> Balls:
    if isinstance(other, Balls):
        return other
    if isinstance(other, Bracket):
        if np.any(other.low != other.high):
            raise AssertionError("internal error: rounded numbers among proven ones; please report")
        return Balls(tuple(arb(x) for x in other.value.tolist()))
    return Balls((exact(other) if isinstance(other, Fraction | int) else arb(other),))


def _size(x: Ball) -> float:
    """0.0 of a finite ball, an infinity, or nan of a ball that says nothing."""
    if x.is_finite():
        return 0.0
    return math.inf if x.lower() == arb.pos_inf() else -math.inf if x.upper() == arb.neg_inf() else math.nan


def _end(x: Ball, side: float) -> float:
    if x.is_finite():
        end = float(x.lower() if side < 0 else x.upper())
        return float(np.nextafter(end, side))
    found = _size(x)
    return side if math.isnan(found) else found
