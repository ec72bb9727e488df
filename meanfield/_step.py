"""One layer as arithmetic on correlations, and what it does to errors.

    kappa(rho) = keep rho + (1 - keep)(offset + scale f(t)),    t = (1 - share) + share rho,

f the reduced dual of the activation, share the part of the weights in the variance of its arguments (the rest is the
bias), keep the square of the skip. All coefficients of kappa as a power series are non-negative, and kappa(1) = 1.

Made by `_layer`, run over all pairs of a batch by `_march`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._reduced import Reduced

Floats: TypeAlias = NDArray[np.float64]

_BLOCK = 1 << 16
_SMALLEST = 1e-290
_NEAR = 0.9
_ROUNDING = 2e-15  # relative error of f on [0, 1]: 1e-15 was seen; of a callable with small coefficients 1e-12
_ROUNDING_CALLABLE = 1e-12


@dataclass(frozen=True, eq=False)
class Step:
    """kappa of one layer; offset = 1 - scale >= 0, known to offset_error: layer normalisation has 0."""

    f: Reduced
    offset: float
    scale: float
    offset_error: float
    callable: bool
    share: float = 1.0
    shift: float = 0.0  # 1 - share, which may be below its last digit
    keep: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Whether it is offset + scale f(rho): neither bias nor skip."""
        return self.keep == 0.0 and self.shift == 0.0

    @property
    def parity(self) -> int:
        """1 if the map is even, -1 if it is odd, else 0."""
        spoilt = self.shift or (self.keep if self.f.parity == 1 else self.offset)
        return 0 if spoilt else self.f.parity

    @property
    def at_zero(self) -> float:
        """kappa(0): the correlation that orthogonal inputs get."""
        bias = float(self.f(np.array([self.shift]))[0]) if self.shift else 0.0
        return (1.0 - self.keep) * (self.offset + self.scale * bias)

    @property
    def rounding(self) -> float:
        """Relative error of the map at rho >= 0, and of its complement."""
        return _ROUNDING_CALLABLE if self.callable else _ROUNDING

    @cached_property
    def first(self) -> tuple[int, float, float]:
        """The first power p of rho and its coefficient w_p, and w_(p+1); (0, kappa(0), ...) where 0 is not fixed."""
        if self.offset or self.shift:
            return 0, self.at_zero, 0.0
        p, first, second = self.f.first_weights()
        if not self.keep:
            return p, first, second
        rest = 1.0 - self.keep
        return 1, self.keep + (rest * first if p == 1 else 0.0), rest * (second if p == 1 else first if p == 2 else 0.0)

    def __call__(self, rho: Floats) -> Floats:
        """kappa over an array; NaN stays NaN, and what exceeds 1 by more than rounding is a ValueError."""
        value = self.f(rho) if not self.shift else self._biased(rho)
        return value if self.is_plain and not self.offset else self.around(rho, value)

    def _biased(self, rho: Floats) -> Floats:
        """f(t); next to 1, where t would be rounded, by its distance."""
        value = self.f(self.shift + self.share * rho)
        near = (rho > _NEAR) & (rho <= 1.0)
        if np.any(near):
            value[near] = 1.0 - self.f.complement(self.share * (1.0 - rho[near]))
        return value

    def around(self, rho: Floats, value: Floats) -> Floats:
        """kappa from f(t), in place where it may be."""
        value *= self.scale
        value += self.offset
        if self.keep:
            value *= 1.0 - self.keep
            value += self.keep * rho
        np.clip(value, -1.0, 1.0, out=value)
        value[rho == 1.0] = 1.0  # offset + scale may miss it by an ulp
        return value

    def slope(self, rho: Floats) -> Floats:
        """kappa'(rho); inf at 1 for a sigma with jumps."""
        t = self.shift + self.share * rho if self.shift else rho
        return self.keep + (1.0 - self.keep) * self.scale * self.share * self.f.slope(t)

    def log_map(self, log_rho: float) -> float:
        """log kappa(exp(log_rho)), for a map without a linear term: it has neither bias nor skip."""
        with np.errstate(divide="ignore", over="ignore"):
            return float(self.f.logarithm(np.array([log_rho]))[0])

    def complement(self, delta: Floats) -> Floats:
        """1 - kappa(1 - delta), to the relative accuracy of delta."""
        out = np.empty_like(delta)
        for start in range(0, len(delta), _BLOCK):  # there may be as many as there are pairs
            part = slice(start, start + _BLOCK)
            here = delta[part]
            mapped = self.f.complement(self.share * here if self.shift else here)
            np.multiply((1.0 - self.keep) * self.scale, mapped, out=out[part])
            if self.keep:
                out[part] += self.keep * here
        return out

    def from_minus_one(self, delta: Floats) -> Floats:
        """kappa(-1 + delta)."""
        t = 2.0 * self.shift + self.share * delta if self.shift else delta  # the distance of arguments from -1
        value = self.f(t - 1.0)
        near = t < 0.1
        value[near] = self.f.at_minus_one + self.f.lower.change(np.sqrt(t[near]))
        return self.around(delta - 1.0, value)

    def spread(self, largest: float, error: float) -> float:
        """How far off a mapped entry may be, where |rho| <= largest and rho is off by at most error.

        The map has no negative coefficients, so a chord of it that starts at the largest entry is steeper than it is
        anywhere on smaller entries of either sign; it is long enough for rounding not to matter.
        """
        low = min(largest, 1.0 - error)
        high = min(low + max(error, low / 64), 1.0)
        at_low, at_high = self(np.array([low, high])).tolist()
        slope = (at_high - at_low) / (high - low) if high > low else 0.0
        spread = float(slope * error + self.rounding * at_low + self.offset_error)
        # what underflows is off by the smallest float
        lost = error > 0.0 or (at_low < _SMALLEST and low > 0.0)
        return max(spread, math.ulp(0.0)) if lost else spread
