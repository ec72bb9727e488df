"""Numbers with bounds on what they stand for, one for each layer, and the rule that compares two of them.

Every claim over depth is written once, over numbers that add, subtract and pass through increasing functions: these
brackets of float64, or the balls of `_balls`, which prove what brackets leave open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["EPS", "LOST", "Bracket", "Increasing", "around", "closest", "identical", "one", "settle"]

Floats: TypeAlias = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
LOST = -1e300  # what a logarithm that has left float64 is below, with room for a factor


class Increasing(NamedTuple):
    """An increasing function: on arrays of float64, to 8 eps (1 + |value|), and on one ball of python-flint."""

    of_floats: Callable[[Floats], Floats]
    of_ball: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Bracket:
    """low <= true value <= high, one each for layers 0, 1, ..., or one for all of them."""

    value: Floats
    low: Floats
    high: Floats

    def __add__(self, other: Bracket | float) -> Bracket:
        if not isinstance(other, Bracket | float | int):
            return NotImplemented  # balls know how
        right = other if isinstance(other, Bracket) else one(other)
        with np.errstate(invalid="ignore"):
            found = Bracket(self.value + right.value, self.low + right.low, self.high + right.high)
            # adding 0 does not round
            rounds = (self.value != 0) & (right.value != 0) & np.isfinite(found.value)
            room = np.where(rounds, EPS * (np.abs(self.value) + np.abs(right.value)), 0.0)
        return Bracket(found.value, _known(found.low - room, -math.inf), _known(found.high + room, math.inf))

    def __sub__(self, other: Bracket | float) -> Bracket:
        return self + (-1.0 * other)  # of balls too

    def __rsub__(self, other: float) -> Bracket:
        return (-1.0 * self) + other

    __radd__ = __add__

    def __rmul__(self, factor: float) -> Bracket:
        if factor == 0:
            return Bracket(*(np.zeros_like(self.value) for _ in range(3)))
        ends = [factor * self.low, factor * self.high]
        if factor < 0:
            ends.reverse()
        value = factor * self.value
        room = 0.0 if abs(factor) in (1.0, 2.0) else EPS * np.where(np.isfinite(value), np.abs(value), 0.0)
        return Bracket(value, ends[0] - room, ends[1] + room)

    def scaled(self, factors: Floats) -> Bracket:
        """One number times a factor >= 0 for each layer, 0 times infinity being 0."""
        value, low, high = (np.where(factors > 0, factors * end, 0.0) for end in (self.value, self.low, self.high))
        return Bracket(value, low, high).widened()

    def __getitem__(self, index: int) -> Bracket:
        """One layer, to be compared with all."""
        return Bracket(*(np.array([ends[index]]) for ends in (self.value, self.low, self.high)))

    def through(self, function: Increasing) -> Bracket:
        """Its values; the ends move out by the rounding inside the function, which matters next to a pole of it."""
        low, high = (np.where(np.isfinite(end), 2.0 * EPS * (1.0 + np.abs(end)), 0.0) for end in (self.low, self.high))
        return Bracket(*map(function.of_floats, (self.value, self.low - low, self.high + high))).widened()

    def widened(self, more: float = 0.0) -> Bracket:
        """Room for the rounding of the last few operations; infinities stay."""
        size = np.where(np.isfinite(self.value), np.abs(self.value), 0.0)
        room = 8.0 * EPS * (1.0 + size) + more
        return Bracket(self.value, self.low - room, self.high + room)

    def before(self) -> Bracket:
        """The layer before each; that of layer 0 is layer 0."""
        return Bracket(*(np.concatenate([ends[:1], ends[:-1]]) for ends in (self.value, self.low, self.high)))

    def same_as(self, other: Bracket, where: NDArray[np.bool_]) -> tuple[Bracket, Bracket]:
        """See `identical`."""
        value, others = np.broadcast_arrays(self.value, other.value)
        same = np.where(where, value, others)
        left = Bracket(value, np.where(where, value, self.low), np.where(where, value, self.high))
        return left, Bracket(same, np.where(where, value, other.low), np.where(where, value, other.high))

    def picked(self, others: Sequence[Bracket], best: NDArray[np.intp]) -> Bracket:
        """Of several brackets at each layer the one that is named."""
        at = np.arange(len(best))
        ends = ([getattr(each, end) for each in others] for end in ("value", "low", "high"))
        return Bracket(*(np.array([np.broadcast_to(x, len(best)) for x in columns])[best, at] for columns in ends))

    def settle(self, rhs: Bracket) -> tuple[Any, Any]:
        """Slack rhs - self and its tolerance, layer by layer.

        Of the errors only those count that could reverse the sign of the slack.  An infinite slack has no error bar, so
        there the brackets decide between tolerance 0 and inf.
        """
        with np.errstate(invalid="ignore"):
            slack = np.where(self.value == rhs.value, 0.0, rhs.value - self.value)
            against = (self.high - self.value) + (rhs.value - rhs.low)
            towards = (self.value - self.low) + (rhs.high - rhs.value)
            tolerance = np.where(slack >= 0, against, towards)
        certain = np.where(slack >= 0, rhs.low >= self.high, rhs.high < self.low)
        known = np.isfinite(slack) & ~np.isnan(tolerance)
        lost = np.isnan(slack)  # inf - inf on a side: nothing is known
        return np.where(lost, 0.0, slack), np.where(known, tolerance, np.where(certain & ~lost, 0.0, math.inf))


def one(value: float, low: float | None = None, high: float | None = None) -> Bracket:
    """The same number for all layers."""
    return Bracket(*(np.array([value if end is None else end]) for end in (value, low, high)))


def around(value: Floats, error: Floats) -> Bracket:
    """Logarithms with their error; where even the logarithm has left float64, it is below the smallest."""
    lost = (value == -math.inf) & (error > 0)
    with np.errstate(invalid="ignore"):
        low, high = np.where(error > 0, value - error, value), np.where(error > 0, value + error, value)
    # an unresolved gap, inf +- inf, may be anything
    low, high = _known(low, -math.inf), _known(high, math.inf)
    return Bracket(value, low, np.where(lost, LOST, high))


def identical(lhs: Bracket, rhs: Bracket, where: NDArray[np.bool_]) -> tuple[Bracket, Bracket]:
    """Both sides, of brackets or of balls, at layers where they are one number: no error can part them there."""
    return lhs.same_as(rhs, where)


def closest(pairs: Sequence[tuple[Bracket, Bracket]]) -> tuple[Bracket, Bracket]:
    """Of several inequalities the one that comes closest to failing, layer by layer."""
    gaps = np.broadcast_arrays(*(side for lhs, rhs in pairs for side in (rhs.low, lhs.high)))
    with np.errstate(invalid="ignore"):
        room = np.array([low - high for low, high in zip(gaps[::2], gaps[1::2], strict=True)])
    best = np.argmin(np.where(np.isnan(room), 0.0, room), axis=0)
    left, right = ([pair[which] for pair in pairs] for which in (0, 1))
    return left[0].picked(left, best), right[0].picked(right, best)


def settle(lhs: Bracket, rhs: Bracket) -> tuple[Any, Any]:
    """Slack and tolerance of lhs <= rhs, of brackets or of balls."""
    return lhs.settle(rhs)


def _known(end: Floats, otherwise: float) -> Floats:
    """inf - inf says nothing of where the number lies."""
    return np.asarray(np.where(np.isnan(end), otherwise, end))
