"""The dual next to rho = -1 of a sigma that is 0 at x or at -x for every x, as relu(x - t) or step(x - t), t > 0.

If no two points of its support add up to less than D in size, E sigma(X) sigma(Y) falls there like
exp(-D^2/(4 (1 + rho))): faster than any power, and through all of float64's exponents. Its logarithm is interpolated.
Made by `_build`, read by `_dual`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ._activation import Activation
from ._ends import chebyshev, clenshaw
from ._extent import BULK
from ._interpreter import evaluate_scaled
from ._numeric import Scaled
from ._panels import panels
from ._recurrence import Array
from ._rotation import cuts, pair

_FAR = 0.75  # s = sqrt(1 + rho) up to which the logarithm is kept
_LOWEST = -740.0
_SIZES = (16, 32, 64)
_ACCEPTED = 2e-12  # of the logarithm: a relative error


@dataclass(frozen=True, eq=False)
class GapTail:
    """log (E sigma(X) sigma(Y)/variance) + (D/(2 s))^2 as a series in log s on [lower, upper]."""

    distance: float
    lower: float
    upper: float
    series: Array

    def __call__(self, s: Array) -> Array:
        """E sigma(X) sigma(Y)/variance at rho = -1 + s^2, s <= upper; 0 where it is below float64."""
        with np.errstate(divide="ignore", under="ignore"):
            w = np.log(np.maximum(s, self.lower))
            x = (w - math.log(self.lower)) / (math.log(self.upper) - math.log(self.lower))
            value = np.exp(clenshaw(self.series, x) - (0.5 * self.distance / np.maximum(s, self.lower)) ** 2)
        return np.where(s < self.lower, 0.0, value)


def is_apart(sigma: Activation) -> bool:
    """Whether sigma(x) sigma(-x) = 0 for all x."""
    x = np.concatenate([0.5 * (g.lower + g.upper) + g.anchor for g in panels(sigma).groups])
    m, n = (evaluate_scaled(sigma.expr, t)[0] for t in (x, -x))
    return not np.any((m != 0) & (n != 0))


def tail_of(sigma: Activation, low: Scaled) -> GapTail | None:
    """The tail, or None where the support touches its mirror image, so that powers serve, or is too far from it."""
    distance = _distance(sigma)
    lower = 0.5 * distance / math.sqrt(-_LOWEST)
    if distance == 0.0 or lower >= _FAR:
        return None

    def plain(x: Array) -> Array:
        m, e = evaluate_scaled(sigma.expr, x)
        return np.asarray(m * np.exp(e - low.log_scale))

    def value(s: float) -> float:
        found = pair(sigma, plain, s, mirrored=True, start=distance / (math.sqrt(2) * s))
        return math.log(found / low.variance) if found > 0 else math.nan

    for n in _SIZES:
        x = 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
        s = np.exp(math.log(lower) + x * (math.log(_FAR) - math.log(lower)))
        values = np.array([value(float(t)) for t in s])
        if np.any(np.isnan(values)):  # sigma changes its sign
            return None
        c = chebyshev(values)
        if np.abs(c[-3:]).max() <= _ACCEPTED:
            return GapTail(distance, lower, _FAR, c)
    return None


def _distance(sigma: Activation) -> float:
    """The smallest |x + y| for x, y in the support of sigma."""
    ends = np.unique(np.concatenate([[-BULK, BULK], cuts(sigma)]))
    low, high = ends[:-1], ends[1:]
    live = evaluate_scaled(sigma.expr, 0.5 * (low + high))[0] != 0
    least, most = np.add.outer(low[live], low[live]), np.add.outer(high[live], high[live])
    return float(np.maximum(np.maximum(least, -most), 0.0).min(initial=math.inf))
