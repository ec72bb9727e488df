"""One layer as arithmetic on correlations: rho -> offset + scale f(rho), and what it does to errors.

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
_ROUNDING = 2e-15  # relative error of f on [0, 1]: 1e-15 was seen; of a callable with small coefficients 1e-12
_ROUNDING_CALLABLE = 1e-12


@dataclass(frozen=True, eq=False)
class Step:
    """rho -> offset + scale f(rho), offset = 1 - scale >= 0, known to offset_error: layer normalisation has 0."""

    f: Reduced
    offset: float
    scale: float
    offset_error: float
    callable: bool

    @property
    def parity(self) -> int:
        """1 if the map is even, -1 if it is odd, else 0."""
        return self.f.parity if self.f.parity == 1 or not self.offset else 0

    @property
    def rounding(self) -> float:
        """Relative error of the map at rho >= 0, and of its complement."""
        return _ROUNDING_CALLABLE if self.callable else _ROUNDING

    @cached_property
    def first(self) -> tuple[int, float, float]:
        """The first power p of rho and its coefficient w_p, and w_(p+1); (0, offset, ...) where 0 is not fixed."""
        return (0, self.offset, 0.0) if self.offset else self.f.first_weights()

    def __call__(self, rho: Floats) -> Floats:
        value = self.f(rho)
        return self.offset + self.scale * value if self.offset else value

    def log_map(self, log_rho: float) -> float:
        """log f(exp(log_rho)), for a map that fixes 0."""
        with np.errstate(divide="ignore", over="ignore"):
            return float(self.f.logarithm(np.array([log_rho]))[0])

    def complement(self, delta: Floats) -> Floats:
        """1 - (the map of 1 - delta), to the relative accuracy of delta."""
        out = np.empty_like(delta)
        for start in range(0, len(delta), _BLOCK):  # there may be as many as there are pairs
            part = slice(start, start + _BLOCK)
            np.multiply(self.scale, self.f.complement(delta[part]), out=out[part])
        return out

    def from_minus_one(self, delta: Floats) -> Floats:
        """The map of -1 + delta."""
        value = self.f(delta - 1.0)
        near = delta < 0.1
        value[near] = self.f.at_minus_one + self.f.lower.change(np.sqrt(delta[near]))
        return np.asarray(self.offset + self.scale * value)

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
