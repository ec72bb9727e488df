"""Determinants of correlation matrices, and bounds on them, as e^-loss with a bracket of the loss.

A determinant near 1 has lost what tells it from 1, and one below 1e-308 everything; its loss n gap(G) has not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._gamma import excess
from bounds._sides import EPS, Sides
from meanfield._functionals import estimate_isometry_gap

__all__ = [
    "CERTAIN",
    "Loss",
    "at_most",
    "loss_of",
    "loss_of_factors",
    "loss_of_gamma",
    "loss_of_gamma_minus",
    "one_minus_square",
]

Floats: TypeAlias = NDArray[np.float64]

# what underflow may have taken from a loss
_TINY = 1e-307


@dataclass(frozen=True)
class Loss:
    """low <= true loss <= high; 0 <= low, and all three may be inf, for a determinant of 0."""

    value: float
    low: float
    high: float

    @property
    def number(self) -> float:
        return math.exp(-self.value)

    @property
    def complement(self) -> float:
        """1 - e^-loss."""
        return -math.expm1(-self.value)

    @property
    def error(self) -> float:
        """Of the number, and of the complement, before their last rounding."""
        if self.low == self.value == self.high:
            return 0.0
        if math.isinf(self.value):
            return math.exp(-self.low)
        return self.number * (math.expm1(self.value - self.low) - math.expm1(self.value - self.high))


CERTAIN = Loss(0.0, 0.0, 0.0)
"""Of the determinant 1."""


def around(value: float, relative: float) -> Loss:
    if math.isinf(value):
        return Loss(value, value, value)
    return Loss(value, max(value * (1.0 - relative) - _TINY, 0.0), value * (1.0 + relative) + _TINY)


def loss_of(C: Floats) -> Loss:
    """Of det C, C a correlation matrix."""
    n = len(C)
    if np.count_nonzero(C) == n:
        return CERTAIN
    gap = estimate_isometry_gap(C)
    if gap.status == "unresolved":
        # det C may have either sign, if rounding has made C indefinite
        return Loss(math.inf, n * float(gap.lower), math.inf)
    value, error = n * float(gap.value), n * float(gap.error)
    if math.isinf(value):
        return Loss(value, value, value)
    room = 2.0 * EPS * value + _TINY
    return Loss(value, max(value - error - room, 0.0), value + error + room)


def loss_of_factors(factors: Iterable[tuple[float, float]]) -> Loss:
    """Of the product of 1 - x, from pairs (x, 1 - x) with x in [0, 1], each known to a rounding or two of itself."""
    logs = [math.log1p(-x) if x < 0.5 else math.log(rest) if rest else -math.inf for x, rest in factors]
    return around(-math.fsum(logs), 6.0 * EPS) if any(logs) else CERTAIN


def one_minus_square(m: float) -> tuple[float, float]:
    """m^2 and 1 - m^2, both with all digits."""
    return m * m, (1.0 - m) * (1.0 + m)


def gamma(n: int, t: float) -> float:
    """Gamma_n(t), see `_gamma`, to 16 eps for t as it is."""
    return ((n - 1) * _excess(-t) + _excess((n - 1) * t)) / n


def loss_of_gamma(n: int, t: float, relative: float) -> Loss:
    """n Gamma_n(t): of (1 - t)^(n-1) (1 + (n-1) t), t known to `relative`."""
    return _increasing(lambda x: n * gamma(n, x), t, relative)


def loss_of_gamma_minus(n: int, t: float, relative: float, rest: Fraction | None = None) -> Loss:
    """n Gamma_n^-(t): of (1 + t)^(n-1) (1 - (n-1) t); rest: the last factor, where t is exact."""
    if rest is None:
        return _increasing(lambda x: (n - 1) * _excess(x) + _excess((1 - n) * x), t, relative)
    if rest > Fraction(1, 2):
        last = excess(-float(1 - rest))
    else:
        last = -float(1 - rest) - math.log(rest) if rest else math.inf
    return around((n - 1) * excess(t) + last, 16.0 * EPS)


def at_most(smaller: Loss, larger: Loss, *, equal: bool = False) -> Sides:
    """e^-smaller <= e^-larger, for the bound that says so; equal: whether both are known to be one number.

    The slack e^-larger (1 - e^(larger - smaller)) keeps the digits of a difference of losses, and an error of either
    loss moves it by what that does to either number.
    """
    low, high = smaller.number, larger.number
    if equal:
        return Sides(high, high, 0.0, 0.0)
    if math.isinf(smaller.value) or math.isinf(larger.value):
        slack = high - low
    else:
        slack = 0.0 - high * math.expm1(larger.value - smaller.value)
    error = smaller.error + larger.error
    return Sides(low, high, error + 8.0 * EPS * abs(slack) if error else 0.0, slack)


def _increasing(function: Callable[[float], float], t: float, relative: float) -> Loss:
    if t == 0.0:
        return CERTAIN
    value, low, high = (function(t * (1.0 + step)) for step in (0.0, -relative, relative))
    return Loss(value, around(low, 16.0 * EPS).low, around(high, 16.0 * EPS).high)


def _excess(x: float) -> float:
    return math.inf if x <= -1.0 else excess(x)
