"""What the moments of sigma(sqrt(q) X) do at q = 0, from the values and slopes of sigma on both sides of 0.

With h smooth on either side, h(x) = h + h'_+- x + h''_+- x^2/2, and E|X| = sqrt(2/pi),

    E h(sqrt(q) X) = (h_+ + h_-)/2 + sqrt(q/(2 pi)) (h'_+ - h'_-) + q (h''_+ + h''_-)/4 + ...

Read by `_by_variance` only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._activation import Activation
from ._interpreter import evaluate
from ._slope import derivative, slope_of
from ._tree import Node
from .errors import ActivationParseError

_STEEP = 1e100  # what the slope of a root is next to 0
_STEP = 1e-5  # for the bend of a callable, a difference of slopes that are known to 1e-13
_ROUNDING = 1e-11
_BESIDE, _KINK = 1e-6, 1e-7  # where the slopes of a callable are taken, and what they then differ by at a kink


@dataclass(frozen=True)
class _Side:
    """sigma(0+-), sigma'(0+-), sigma''(0+-)."""

    value: float
    slope: float
    bend: float


@dataclass(frozen=True)
class AtZero:
    """sigma(0) and the slopes in q at 0 of the moments of sigma(sqrt(q) X); infinite at a jump or a steep end.

    derivative: the limit of E sigma'(sqrt(q) X)^2; slopes: sigma'(0-) and sigma'(0+).
    """

    value: float
    mean_slope: float
    second_slope: float
    variance_slope: float
    derivative: float
    slopes: tuple[float, float]

    @property
    def has_tangents(self) -> bool:
        """Whether sigma vanishes at 0 and is continuous there with finite slopes."""
        return self.value == 0 and math.isfinite(self.derivative)


def at_zero(sigma: Activation) -> AtZero:
    value = float(sigma(np.zeros(1))[0])
    low, high = _sides(sigma)
    with np.errstate(all="ignore"):
        mean = _slope(value, (low.value, low.slope, low.bend), (high.value, high.slope, high.bend))
        second = _slope(value * value, _square(low), _square(high))
        rate = 0.5 * (low.slope**2 + high.slope**2)
        if low.value != high.value or not math.isfinite(rate):
            return AtZero(value, mean, second, math.inf, math.inf, (low.slope, high.slope))
        # the mean is value + sqrt(q/(2 pi)) (h'_+ - h'_-): its square takes away a part of what the second moment gains
        spread = rate - (high.slope - low.slope) ** 2 / (2 * math.pi)
    return AtZero(value, mean, second, spread, rate, (low.slope, high.slope))


def _slope(value: float, low: tuple[float, float, float], high: tuple[float, float, float]) -> float:
    jump, kink = 0.5 * (low[0] + high[0]) - value, high[1] - low[1]
    if jump or kink:
        return math.copysign(math.inf, jump or kink)
    return 0.25 * (low[2] + high[2])


def _square(side: _Side) -> tuple[float, float, float]:
    """sigma^2 and its derivatives; a steep slope where sigma vanishes gives sigma^2 none."""
    v, a, b = side.value, side.slope, side.bend
    return v * v, 2 * v * a if v else 0.0, 2 * (a * a + (v * b if v else 0.0))


def _sides(sigma: Activation) -> tuple[_Side, _Side]:
    if sigma.is_opaque:
        return _opaque_sides(sigma)
    low = next(p.expr for p in sigma.pieces if p.lower.value < 0 <= p.upper.value)
    high = next(p.expr for p in sigma.pieces if p.lower.value <= 0 < p.upper.value)
    return _tree_side(low, -1.0), _tree_side(high, 1.0)


def _tree_side(tree: Node, sign: float) -> _Side:
    slope = derivative(tree)
    try:
        bend = _limit(derivative(slope), sign)
    except ActivationParseError:
        bend = math.nan
    return _Side(_limit(tree, sign), _limit(slope, sign), bend)


def _limit(tree: Node, sign: float) -> float:
    """The value at 0, or next to it where the tree has none there: x log x, or 0/0."""
    here, beside = evaluate(tree, np.array([0.0, sign * 1e-300])).tolist()
    value = beside if math.isnan(here) else here
    return math.copysign(math.inf, value) if abs(value) > _STEEP else value


def _opaque_sides(sigma: Activation) -> tuple[_Side, _Side]:
    """Values a step of 1e-300 off, slopes to their rounding: differences below it are no jump and no kink."""
    slope = slope_of(sigma, 0.0)
    left, here, right = sigma(np.array([-1e-300, 0.0, 1e-300])).tolist()
    left, right = (here if abs(v - here) < 1 / _STEEP else v for v in (left, right))
    further, low, high, beyond = slope(np.array([-_STEP, -1e-300, 1e-300, _STEP])).tolist()
    bends = (low - further) / _STEP, (beyond - high) / _STEP
    if abs(high - low) <= _ROUNDING * max(abs(low), abs(high), 1.0):
        low = high = 0.5 * (low + high)
    # a kink at 0 was found to some digits only: on either side of it slopes go on straight
    near = slope(np.array([-2, -1, 1, 2]) * _BESIDE)
    aside = float(2 * near[1] - near[0]), float(2 * near[2] - near[3])
    if abs(aside[1] - aside[0]) > _KINK * max(abs(aside[0]), abs(aside[1]), 1.0):
        low, high = aside
    return _Side(left, low, bends[0]), _Side(right, high, bends[1])
