"""The map of correlations of a layer on balls: f(rho) = sum over k >= 1 of w_k rho^k with every digit proven.

A series with a proven remainder where one of at most 400 terms is enough, else the certified dual of one rational
number and a bound on the slope: f has no negative coefficients, so on [-x, x] its slope is at most (1 - f(x))/(1 - x).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

from bounds._balls import as_fraction
from bounds._judge import PATIENCE
from bounds._polynomial import rational_weights
from bounds._strengths import degree
from hermite import certified
from hermite.certified._dual import route
from hermite.certified._flint import Ball, arb, exact, natural_power
from hermite.certified._moments import not_negative
from meanfield._layer import Layer

__all__ = ["BallMap"]

_TERMS = 400
_WAIT = 20.0


class BallMap:
    """bits: how many the values are meant to have; less where rho is wide."""

    def __init__(self, layer: Layer, bits: int) -> None:
        self.sigma, self.keep, self.bits = layer.sigma, exact(Fraction(layer.skip) ** 2), bits
        self.digits = math.ceil(bits * 0.30103)
        self.parity = layer.step.parity
        known = degree(layer)
        self.degree = known if known < 64 else None
        smooth = len(self.sigma.pieces) == 1 and not self.sigma.expr.splits
        self.is_series = self.degree is not None or (smooth and route(self.sigma, Fraction(1, 3)) == "hermite series")

    @cached_property
    def weights(self) -> tuple[list[Ball], Ball]:
        """w_1..w_K, and a ball around the sum of the rest."""
        known = rational_weights(self.sigma)
        if known is not None:
            return [exact(w) for w in known[1:]], arb(0)
        most = self.degree if self.degree is not None else _TERMS if self.bits > 200 else _TERMS // 2
        found = certified.moments(self.sigma, most, digits=min(self.digits + 10, 1000))
        squares = [natural_power(c.ball(), 2) for c in found.coefficients[1:]]
        if self.degree is not None:
            whole = sum(squares, start=arb(0))
            return [s / whole for s in squares], arb(0)
        whole = found.variance.ball()
        weights = [s / whole for s in squares]
        return weights, not_negative(1 - sum(weights, start=arb(0)))

    @property
    def r(self) -> Ball:
        """The linearity of the layer, its skip included."""
        first = self.weights[0][0] if self.is_series else certified.linearity(self.sigma, digits=self.digits).ball()
        if self.degree == 1:
            first = arb(1)
        return self.keep + (1 - self.keep) * first

    def __call__(self, rho: Ball) -> Ball:
        """A ball around the values on rho, which lies in [-1, 1]; 1 is mapped to 1."""
        if rho == 1 or (rho == 0 and rho.is_exact()):
            return rho
        if rho == -1 and self.parity:
            return arb(self.parity)
        value = rho if self.degree == 1 else self._series(rho) if self.is_series else self._dual(rho)
        return self.keep * rho + (1 - self.keep) * value

    def _series(self, rho: Ball) -> Ball:
        weights, rest = self.weights
        total = arb(0)
        for w in reversed(weights):
            total = (total + w) * rho
        if rest.is_zero():
            return total
        size = abs(rho).upper()
        left = (rest * natural_power(size, len(weights) + 1)).upper()
        if left > abs(total).upper() * arb((1, -self.bits // 2)):
            narrow = self._dual(rho)  # close to 1 the series is too short
            return narrow if narrow.rad() < left else total + arb(0, left)
        return total + arb(0, left)

    def _dual(self, rho: Ball) -> Ball:
        if not rho.is_finite():
            return arb.nan()
        middle = min(max(as_fraction(rho.mid()), Fraction(-1)), Fraction(1))  # rounding may leave [-1, 1]
        value = self._at(middle)
        if rho.is_exact():
            return value
        size = abs(rho).upper()
        above = 1 - (value if middle >= 0 else self._at(-middle))  # f(size) >= f(|middle|)
        reach = rho.rad() + abs(rho.mid() - exact(middle))
        return value + arb(0, (reach * above / (1 - size)).upper()) if size < 1 else arb.nan()

    def _at(self, rho: Fraction) -> Ball:
        """f at one rational number, the more digits the smaller it is: the mean is subtracted."""
        size = max(-math.floor(math.log10(abs(float(rho)) or 1e-300)), 0)
        digits = min(self.digits + 2 * size + 5, 1000)
        mean = certified.coefficients(self.sigma, 0, digits=digits)[0].ball()
        variance = certified.variance(self.sigma, digits=digits).ball()
        return (
            certified.dual(self.sigma, rho, digits=digits, time_limit=PATIENCE.get() or _WAIT).ball() - mean * mean
        ) / variance
