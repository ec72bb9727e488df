"""The map of correlations of a layer on balls: f(rho) = sum over k >= 1 of w_k rho^k with every digit proven.

A series with a proven remainder where one of at most 400 terms is enough, else the certified dual of one rational
number and a bound on the slope: f has no negative coefficients, so on [-x, x] its slope is at most (1 - f(x))/(1 - x).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

from bounds._balls import as_fraction
from bounds._strengths import degree
from hermite import certified
from hermite._algebra import as_polynomial
from hermite._tree import Node
from hermite.certified._dual import route
from hermite.certified._flint import Ball, arb, exact, natural_power
from hermite.certified._moments import not_negative
from meanfield._layer import Layer

__all__ = ["BallMap"]

_TERMS = 400


class BallMap:
    """bits: how many the values are meant to have; less where rho is wide."""

    def __init__(self, layer: Layer, bits: int) -> None:
        self.sigma, self.keep, self.bits = layer.sigma, exact(Fraction(layer.skip) ** 2), bits
        self.digits = math.ceil(bits * 0.30103)
        known = degree(layer)
        self.degree = known if known < 64 else None
        smooth = len(self.sigma.pieces) == 1 and not self.sigma.expr.splits
        self.is_series = self.degree is not None or (smooth and route(self.sigma, Fraction(1, 3)) == "hermite series")

    @cached_property
    def weights(self) -> tuple[list[Ball], Ball]:
        """w_1..w_K, and a ball around the sum of the rest."""
        known = _squares(self.sigma.expr)
        if known is not None:
            total = sum(known.values())
            top = max(k for k, square in known.items() if square)
            return [exact(known.get(k, Fraction(0)) / total) for k in range(1, top + 1)], arb(0)
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
        middle = as_fraction(rho.mid())
        value = self._at(middle)
        if rho.is_exact():
            return value
        size = abs(rho).upper()
        above = 1 - (value if middle >= 0 else self._at(-middle))  # f(size) >= f(|middle|)
        return value + arb(0, (rho.rad() * above / (1 - size)).upper()) if size < 1 else arb.nan()

    def _at(self, rho: Fraction) -> Ball:
        """f at one rational number, the more digits the smaller it is: the mean is subtracted."""
        size = max(-math.floor(math.log10(abs(float(rho)) or 1e-300)), 0)
        digits = min(self.digits + 2 * size + 5, 1000)
        mean = certified.coefficients(self.sigma, 0, digits=digits)[0].ball()
        variance = certified.variance(self.sigma, digits=digits).ball()
        return (certified.dual(self.sigma, rho, digits=digits).ball() - mean * mean) / variance


def _squares(tree: Node) -> dict[int, Fraction] | None:
    """c_k^2 for k >= 1 of a polynomial in exact numbers, else None: a sum of a He_k, or of powers, c_k = a_k sqrt(k!)
    where sum of a_k He_k is written with monic He_k: x^m = sum of m!/(2^j j! (m - 2j)!) He_(m-2j).
    """
    named = _combination(tree)
    if named is not None:
        return {k: a * a for k, a in named.items() if k}
    powers = as_polynomial(tree)
    if powers is None:
        return None
    monic: dict[int, Fraction] = {}
    for m, a in enumerate(powers):
        for j in range(m // 2 + 1):
            share = Fraction(math.factorial(m), 2**j * math.factorial(j) * math.factorial(m - 2 * j))
            monic[m - 2 * j] = monic.get(m - 2 * j, Fraction(0)) + a * share
    return {k: a * a * math.factorial(k) for k, a in monic.items() if k}


def _combination(tree: Node) -> dict[int, Fraction] | None:
    """a_k of a sum of a_k He(k, x) and a number."""
    if tree.op == "num":
        return {0: tree.number}
    if tree.op == "x":
        return {1: Fraction(1)}
    if tree.op == "He" and tree.args[0].op == "x":
        return {int(tree.number): Fraction(1)}
    parts = [_combination(each) for each in tree.args]
    if tree.op not in ("add", "mul") or any(part is None for part in parts):
        return None
    total: dict[int, Fraction] = parts[0] or {}
    for part in parts[1:]:
        assert part is not None
        if tree.op == "add":
            total = {k: total.get(k, Fraction(0)) + part.get(k, Fraction(0)) for k in total.keys() | part.keys()}
        elif set(total) <= {0} or set(part) <= {0}:
            number, rest = (total, part) if set(total) <= {0} else (part, total)
            total = {k: number.get(0, Fraction(0)) * a for k, a in rest.items()}
        else:
            return None
    return total
