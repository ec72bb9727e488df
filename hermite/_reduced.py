"""The map of correlations f(rho) = sum over k >= 1 of w_k rho^k of one activation, as it is evaluated.

Made by `_build` from what its parts are good for: series in one variable for the middle, series of changes for the
ends, powers where f is small. Read by `_dual`, `_compiled` and, through `_build`, by meanfield.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ._apart import GapTail
from ._ends import REACH, End
from ._numeric import Scaled
from ._parts import Homogeneous, Long, Parts, evaluate
from ._power_law import PowerEnd
from ._recurrence import Array

_EPS = 2.0**-52
_SLACK = 1e-12  # |rho| may exceed 1 by this much from rounding upstream; beyond it is an error of the caller
_ALMOST = 2e-14  # of 1 - rho^2: where it is more, |f(rho)| <= |rho| stays below 1 for all its rounding
_TINY = 1e-290  # a float with all its digits, and so have the terms it is the sum of


@dataclass(frozen=True, eq=False)
class Reduced:
    """f on [-1, 1] and its derivative, by range of rho.

    main: everywhere, or for |rho| <= 1 - REACH^2 where it has a `lower`, the ends then serving the rest; near: on
    |rho| <= reach, where f is so small that main's absolute error would show; upper, lower: next to 1 and -1;
    slopes: f' between the ends; parity: 1 for even sigma, -1 for odd sigma - c_0, else 0; at_minus_one: f(-1);
    log_weights: log w_k, only where the first of them are below float64; tail: E sigma(X) sigma(Y) next to -1 where it
    falls faster than any power; weights: w_0 = 0, w_1, ..., each to its own digits; missing: the sum of those beyond,
    0 only for a series that has converged at 1.
    """

    name: str
    main: Parts
    closed: Homogeneous | None
    near: Parts | Long | None
    reach: float
    upper: End | PowerEnd
    lower: End | PowerEnd
    slopes: Parts
    parity: int
    at_minus_one: float
    moments: Scaled
    first: tuple[int, float, float]
    method: str
    log_weights: Array | None = None
    tail: GapTail | None = None
    weights: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    missing: float = 0.0

    def __call__(self, rho: Array) -> Array:
        """f(rho) for rho in [-1, 1], same shape, NaN for NaN."""
        return evaluate(self, np.asarray(rho))

    @property
    def needs_room(self) -> bool:
        return (self.closed or self.main).needs_room

    @property
    def mean_share(self) -> float:
        """c_0^2/E sigma^2, 0 where it is rounding: the mean of an odd sigma."""
        low = self.moments
        return low.c0**2 / low.second if low.c0**2 > (16 * _EPS) ** 2 * low.second else 0.0

    @property
    def shares(self) -> tuple[float, float]:
        """c_0^2/E sigma^2 and variance/E sigma^2, whose sum is exactly 1 and the smaller of which has its digits."""
        offset, low = self.mean_share, self.moments
        if offset <= 0.5:
            return offset, 1.0 - offset
        return 1.0 - low.variance / low.second, low.variance / low.second

    def into(self, rho: Array, out: Array, work: Array, scale: float = 1.0) -> None:
        """scale f over a block; |rho| beyond 1 by ulps is clipped, and more is a ValueError."""
        room = work[0, : len(rho)]
        if self.needs_room:
            careful = not room.min(initial=1.0) > _ALMOST  # or NaN
        else:
            careful = not (rho.max(initial=0.0) < 1 - _ALMOST and rho.min(initial=0.0) > _ALMOST - 1)
        if careful and np.any(np.abs(rho) > 1.0):
            rho = clipped(rho)
            if self.needs_room:
                np.maximum(room, 0.0, out=room)
        whole = self.near is None and not self.main.lower
        if self.closed is not None:
            self.closed.into(rho, out, work, scale if whole else 1.0)
        else:
            self.main.into(rho, out, work)
        if self.near is not None:
            inside = np.abs(rho) <= self.reach
            out[inside] = self.near(rho[inside])
        if self.main.lower:
            self._at_ends(rho, out)
        if scale != 1.0 and not (whole and self.closed):
            out *= scale
        if careful:  # 1 and, by parity, -1 are repelling fixed points: an ulp would grow layer by layer
            np.clip(out, -scale, scale, out=out)
            out[rho == 1.0] = scale
            out[rho == -1.0] = scale * self.at_minus_one

    def _at_ends(self, rho: Array, out: Array) -> None:
        r = np.abs(rho)
        far = r > 1 - REACH * REACH
        if not np.any(far):
            return
        s = np.sqrt(1 - r[far])
        above = rho[far] > 0
        value = np.empty_like(s)
        value[above] = 1 - self.upper.change(s[above])
        value[~above] = self.at_minus_one + self.lower.change(s[~above])
        out[far] = value

    def complement(self, delta: Array) -> Array:
        """1 - f(1 - delta) for delta in [0, 2], relative accuracy on [0, 1]."""
        out = np.empty_like(delta)
        close = delta <= REACH * REACH
        out[close] = self.upper.change(np.sqrt(delta[close]))
        out[~close] = 1 - self(1 - delta[~close])  # a NaN is not close, and stays one
        return out

    def slope(self, rho: Array) -> Array:
        """f'(rho)."""
        out = np.asarray(self.slopes(rho)) if self.slopes.in_square else np.empty_like(rho)
        r = np.abs(rho)
        far = r >= 1 - REACH * REACH
        if not self.slopes.in_square:
            out[~far] = self.slopes(rho[~far])
        s, above = np.sqrt(1 - r[far]), rho[far] > 0
        value = np.empty_like(s)
        value[above], value[~above] = self.upper.slope(s[above]), self.lower.slope(s[~above])
        out[far] = value
        return out

    def logarithm(self, log_rho: Array) -> Array:
        """log f(exp(log_rho)) for log_rho <= 0; relative accuracy of f, so absolute accuracy of its logarithm."""
        r = np.exp(log_rho)
        if self.log_weights is not None:
            plain = self(r)
            return np.asarray(np.where(plain > _TINY, np.log(plain), self._below_float64(log_rho)))
        p, value = (self.near or self.main).leading(r)
        result = p * log_rho + np.log(value)
        beyond = r > self.reach if self.near is not None else r > 1 - REACH * REACH if self.main.lower else r > 1
        if np.any(beyond):
            result[beyond] = np.log(self(r[beyond]))
        return np.asarray(result)

    def _below_float64(self, log_rho: Array) -> Array:
        assert self.log_weights is not None
        k = np.flatnonzero(self.log_weights > -math.inf)
        first = int(k[0])
        terms = self.log_weights[k] + (k - first) * np.maximum(log_rho, -1e300)[..., None]
        top = terms.max(axis=-1)
        return np.asarray(first * log_rho + top + np.log(np.sum(np.exp(terms - top[..., None]), axis=-1)))

    def first_weights(self) -> tuple[int, float, float]:
        """The first power p present, w_p and w_(p+1); w_p is the smallest float where it is below all."""
        if self.log_weights is not None:
            return int(np.flatnonzero(self.log_weights > -math.inf)[0]), math.ulp(0.0), 0.0
        return self.first


def clipped(values: Array, low: float = -1.0, high: float = 1.0, *, name: str = "rho", eps: float = _EPS) -> Array:
    """values in [low, high]; what lies outside by more than rounding is refused."""
    slack = max(_SLACK, 64 * eps)
    outside = (values < low - slack) | (values > high + slack)
    if np.any(outside):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {float(values[outside].flat[0])!r}")
    return np.clip(values, low, high)
