"""The chords of the map of correlations f to the point (1, 1): where affine images of f meet the diagonal.

With the weights w_k of f and their tails v_j = w_(j+1) + w_(j+2) + ..., v_0 = 1, the chord from t to 1 has the slope

    h(t) = (1 - f(t))/(1 - t) = sum over k >= 1 of w_k (1 + t + ... + t^(k-1)) = sum over j >= 0 of v_j t^j,

which increases from h(0) = 1 to h(1) = f'(1). An image offset + scale f((1 - share) + share rho) that maps 1 to 1 fixes
1 - u/share, too, where h(1 - u) = 1/(scale share). `rise` h(t) - 1 and `fall` f'(1) - h(1 - u) are sums of positive
terms: what is solved with them keeps relative accuracy however close to 0, or to 1, the solution is. Where the Hermite
series has not converged at 1,

    f'(1) - h(1 - s^2) = (1/s^2) integral over [0, s] of 2 t (f'(1) - f'(1 - t^2)) dt,

and f'(1) - f'(1 - t^2) is the change of the dual of sigma', which `_ends` has to relative accuracy.

Read by meanfield's fixed points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ._activation import Activation
from ._ends import REACH, End, end_from, oracle_source
from ._numeric import gauss_legendre, varying
from ._power_law import PowerEnd
from ._recurrence import Array
from ._reduced import Reduced
from ._slope import derivative

BORDER = 1.0 - REACH * REACH  # of the arguments t for which the series of a kinked sigma serves
_TERMS = 2000  # powers of t <= BORDER beyond which nothing is left


@dataclass(frozen=True, eq=False)
class Chords:
    """Slopes of chords of f, the map of sigma; each with its logarithmic derivative in the variable it is given."""

    f: Reduced
    sigma: Activation

    @property
    def steepest(self) -> float:
        """h(1) = f'(1), inf for a sigma with jumps."""
        return float(self.f.upper.slope(np.zeros(1))[0])

    @cached_property
    def _tails(self) -> Array:
        """v_1, v_2, ...; to relative accuracy, being sums of positive numbers."""
        w = self.f.weights
        return np.asarray(np.cumsum(w[:1:-1])[::-1] + self.f.missing) if len(w) > 2 else np.zeros(1)

    @property
    def rest(self) -> float:
        """h'(0) = v_1 = 1 - w_1, the part of f that is not linear; 0 if f(t) = t."""
        return float(self._tails[0])

    @property
    def bend(self) -> float:
        """h(1) - h(0) = f'(1) - 1 to relative accuracy, where the series has converged at 1."""
        return float(np.sum(self._tails))

    def rise(self, t: float) -> tuple[float, float]:
        """h(t) - 1, for t in [0, BORDER], and t h'(t)."""
        v = self._tails[:_TERMS]
        j = np.arange(1, len(v) + 1)
        terms = v * np.exp(j * math.log(t)) if t > 0 else np.zeros(1)
        return float(np.sum(terms)), float(np.sum(j[: len(terms)] * terms))

    def tangent(self, t: float) -> float:
        """f'(t), for t in [0, BORDER], to its own digits where it is small."""
        w = self.f.weights[1 : _TERMS + 1]
        return float(np.sum(w * np.arange(1, len(w) + 1) * t ** np.arange(len(w))))

    def fall(self, u: float) -> tuple[float, float]:
        """h(1) - h(1 - u), for u in [0, 1 - BORDER], and u h'(1 - u); h(1) must be finite."""
        if not self.f.missing:
            v = self._tails
            j = np.arange(1, len(v) + 1)
            log_t = math.log1p(-u)
            return float(np.sum(v * -np.expm1(j * log_t))), float(u * np.sum(v * j * np.exp((j - 1) * log_t)))
        bend = self._bend
        s = math.sqrt(u)
        if bend is None:
            return self._plain_fall(s)
        end, factor = bend
        mean, last = _mean_change(end, s), float(end.change(np.array([s]))[0])
        return factor * mean, factor * (last - mean)  # the derivative of u (fall) is f'(1) - f'(1 - u)

    def _plain_fall(self, s: float) -> tuple[float, float]:
        """By subtraction, which leaves the absolute accuracy of f'."""
        at = np.array([s])
        fall = self.steepest - self.slope(s)
        return fall, self.steepest - float(self.f.upper.slope(at)[0]) - fall

    def slope(self, s: float) -> float:
        """h(1 - s^2) by the change of f: the only way where h(1) is infinite."""
        return float(self.f.upper.change(np.array([s]))[0]) / (s * s)

    @cached_property
    def _bend(self) -> tuple[End, float] | None:
        """What `fall` is made of where the series has not converged; None where it is left to subtract."""
        return None if isinstance(self.f.upper, PowerEnd) else _bend_of(self.sigma, self.f)

    @property
    def curvature(self) -> tuple[float, float]:
        """(p, k) with h(1) - h(1 - s^2) ~ k s^p as s -> 0: p = 1 for a kink, 2 for a smooth sigma; nan if not known.

        Next to 1, f' contains J_i J_j times the density of two Gaussians at the kinks a_i and a_j of sigma, with J the
        jumps of sigma', integrated over rho; of this E sigma'(X) sigma'(Y) the change is s A(0) + s^2 B(0)/2 + ...,
        with A(0) = sum of J_i^2 exp(-a_i^2/2)/(pi sqrt(2) variance), and the mean of t over the weights 2 t dt/s^2 is
        2 s/3, that of t^2 is s^2/2.
        """
        if not self.f.missing:
            v = self._tails
            return 2.0, float(np.sum(v * np.arange(1, len(v) + 1)))
        if self._bend is None:
            return math.nan, math.nan
        end, factor = self._bend
        a, b = end.start
        return (1.0, 2 * factor * a / 3) if a else (2.0, factor * b / 4)


@lru_cache(maxsize=64)
def _bend_of(sigma: Activation, f: Reduced) -> tuple[End, float] | None:
    """The change of the dual of sigma' next to 1 over its variance, and that variance over the variance of sigma.

    None where there is no such dual: for a callable, or sigma' of infinite variance, or too steep.
    """
    try:
        slope = Activation(derivative(sigma.expr), f"the slope of {sigma.name}", "derivative")
        low = varying(slope)
        end = end_from(oracle_source(slope, low, lower=False), slope.name)
    except ValueError:
        return None
    return end, low.variance / f.moments.variance * math.exp(2 * (low.log_scale - f.moments.log_scale))


def _mean_change(end: End, s: float) -> float:
    """The mean of the change at t over [0, s] with weights 2 t/s^2, one rule for each stretch."""
    nodes, weights = gauss_legendre(40)
    total = 0.0
    for part in end.stretches:
        low, high = part.lower, min(part.upper, s)
        if low < high:
            half = 0.5 * (high - low)
            t = low + half * (1 + nodes)
            total += half / s * float(np.sum(weights * 2 * (t / s) * end.change(t)))
    return total
