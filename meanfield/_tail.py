"""Correlations that have become small: one formula for all pairs, whatever the number of layers still to come.

Where f(rho) = r rho + w rho^2 + ..., a pair with |rho| < 1e-9 stays R (y + q y^2) with y its value at the start over
the largest one, and R, q the same for all pairs:

    R' = r R,    q' = q + w R/r,

off by |rho|^2 relative. Where c_1 = 0, f(rho) = w rho^p (1 + ...), and below 1e-17 log|rho| = A log|y| + B with

    A' = p A,    B' = p B + log w.

So a layer costs a few operations, log R and B never underflow, and the gap is -1/n log det of I + E by the first term
of its series, |E|_F^2/(2 n), off by at most (2/3)|E|_F/(1 - |E|_F) of itself; where that is too much, the pairs are
made explicit again for a factorisation. Read by `_run`.
"""

from __future__ import annotations

import math

import numpy as np

from ._gap import Gap
from ._march import Largest, Pairs
from ._step import Floats, Step

_EPS = 2.0**-52
_LINEAR, _POWER = 1e-9, 1e-17  # sizes below which second-order terms, and first-order ones, are below the last digit
_NEGLIGIBLE = 4 * _EPS
_LOST = -650.0  # logarithm of pairs that have begun to lose digits
_BEYOND = 10**308  # binary exponents whose product with log 2 leaves float64


class Tail:
    """All pairs from the layer on at which they had become small.

    R is mantissa 2^exponent, so that products of any number of layers keep their digits and have a logarithm.
    """

    def __init__(self, pairs: Pairs) -> None:
        top = pairs.largest_open
        self.n, self.fast = pairs.n, pairs.fast
        self.y = pairs.values / top
        self.mantissa, self.exponent = math.frexp(top)
        self.power, self.bend = 1, 0.0
        # of the logarithm of the largest pairs; no other pair is further off in absolute terms
        self.log_error = log1p_error(pairs.error / top)
        self.signed = True
        self.highest, self.lowest = float(self.y.max(initial=0.0)), float(self.y.min(initial=0.0))
        self.squares, self.cubes = float(np.sum(self.y**2)), float(np.sum(self.y**3))
        self.logs: Floats | None = None

    @staticmethod
    def takes(step: Step, size: float) -> bool:
        """Whether pairs of at most this size go through the step by their first terms."""
        p, first, second = step.first
        if p == 0:
            return False
        if p == 1:
            bend = second / (first * max(1.0 - first, _EPS)) if second else 0.0
            return size * max(1.0, bend, 1.0 / first) <= _LINEAR
        if size * max(1.0, second / first) <= _POWER:
            return True
        # or where the pairs themselves would leave float64 in one layer, and the first term is all there is
        log_size = math.log(size)
        mapped = p * log_size + math.log(first)
        return mapped < _LOST and step.log_map(log_size) - mapped <= 2.0 * _EPS * abs(mapped)

    def advance(self, step: Step) -> None:
        """Through one layer that `takes` pairs of this size."""
        p, first, second = step.first
        if p == 1 and self.power == 1:
            self.bend += second * self.scale / first
        elif p > 1:
            self._straighten()
            self.power *= p
            self.signed = self.signed and p % 2 == 1
        mantissa, shift = math.frexp(first)
        mantissa, more = math.frexp(self.mantissa**p * mantissa)
        self.mantissa, self.exponent = mantissa, p * self.exponent + shift + more
        self.log_error = p * (self.log_error + _EPS) + step.rounding

    def _straighten(self) -> None:
        """Put the bend into y, for a power of the pairs is to come."""
        if self.bend:
            self.y += self.bend * self.y**2
            top = float(np.abs(self.y).max())
            self.y /= top
            mantissa, shift = math.frexp(self.mantissa * top)
            self.mantissa, self.exponent, self.bend = mantissa, self.exponent + shift, 0.0

    @property
    def scale(self) -> float:
        """R, 0 where it leaves float64."""
        return math.ldexp(self.mantissa, self.exponent) if self.exponent > -1100 else 0.0

    @property
    def log_scale(self) -> float:
        """log R."""
        return math.log(self.mantissa) + self.exponent * math.log(2.0) if self.exponent > -_BEYOND else -math.inf

    @property
    def size(self) -> float:
        """The largest |rho|."""
        return self.scale * self._bent

    @property
    def _bent(self) -> float:
        """The largest |rho|/R."""
        return max(abs(y + self.bend * y * y) for y in (self.highest, self.lowest)) if self.power == 1 else 1.0

    @property
    def top(self) -> Largest:
        log_value, value = self.log_scale + math.log(self._bent), self.size
        log_error = self.log_error + 2 * _EPS * (1 + abs(log_value)) if log_value > -math.inf else math.inf
        return Largest(value, 1.0 - value, self._error, log_value - math.log1p(-value), log_error)

    @property
    def _error(self) -> float:
        """Of every pair."""
        relative = math.expm1(self.log_error) if self.log_error < 1.0 else math.inf
        return max(self.size * relative, math.ulp(0.0)) if self.size else math.ulp(0.0)

    def pairs(self) -> Pairs:
        """The pairs themselves."""
        with np.errstate(divide="ignore", under="ignore"):
            if self.log_scale == -math.inf:
                values = np.zeros_like(self.y)
            elif self.power == 1:
                values = self.scale * (self.y + self.bend * self.y**2)
            else:
                values = np.exp(float(self.power) * np.log(np.abs(self.y)) + self.log_scale)
                values = np.copysign(values, self.y) if self.signed else values
        return Pairs.of(self.n, values, error=self._error, fast=self.fast)

    def gap(self) -> tuple[Gap, float] | None:
        """The isometry gap and the error of its logarithm; None where the first term of the series is not all of it."""
        if self.log_scale == -math.inf:
            return Gap(0.0, math.ulp(0.0), -math.inf, "underflow"), math.inf
        total = self._sum_of_squares()  # over R^2
        norm = math.sqrt(2.0 * total) * self.scale
        left_out = 2.0 * norm / (3.0 * (1.0 - norm)) if norm < 0.5 else math.inf
        if left_out > _NEGLIGIBLE:
            return None
        # |E + dE|^2 against |E|^2, every pair off by at most what the largest is off by
        spread = self.log_error * math.sqrt(len(self.y) / max(total, 1.0))
        log_value = 2.0 * self.log_scale + math.log(total / self.n)
        log_error = spread * (2.0 + spread) + left_out + _NEGLIGIBLE * (1.0 + abs(log_value))
        value = self.scale * (total / self.n) * self.scale
        error = value * math.expm1(log_error) if log_error < 1.0 else math.inf if value else 0.0
        return Gap(value, max(error, math.ulp(0.0)), log_value, "resolved"), log_error

    def _sum_of_squares(self) -> float:
        """The sum of (rho/R)^2 over all pairs."""
        if self.power == 1:
            return self.squares + 2.0 * self.bend * self.cubes
        if self.logs is None:
            size = np.abs(self.y)
            self.logs = np.log(size[size > 0.0])
        power = float(self.power)
        self.logs = self.logs[self.logs * power > -25.0]  # exp(-50) is below the last digit, and only falls
        return float(np.sum(np.exp(2.0 * power * self.logs)))


def log1p_error(relative: float) -> float:
    return -math.log1p(-relative) if relative < 1.0 else math.inf
