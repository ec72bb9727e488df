"""Gauss-Legendre panels with a proven error: sigma once per node for every integral.

For f analytic with |f| <= M on the closed ellipse with foci -1, 1 and parameter rho > 1 (semi-axes (rho +- 1/rho)/2)
the n point Gauss-Legendre rule on [-1, 1], n >= 2, errs by at most 64 M/(15 (1 - rho^-2)) rho^(-2n). Proof: the
Chebyshev coefficients of f are at most 2 M rho^-k; the rule is exact up to degree 2n - 1 and for odd k; for even
k >= 2n >= 4 the integral of T_k is 2/(1 - k^2) and the rule's value at most 2, together 2 + 2/15; sum the geometric
series (Trefethen, SIAM Review 50 (2008), Theorem 4.5). A panel of half width h scales the error by h.
M comes from the tree on boxes that cover the upper half of the ellipse: a finite answer there proves that the tree is
analytic. M enters through its logarithm, so crude boxes cost a node or two. Where no box is finite, or too many nodes
would be needed, the panel is halved; an interval next to a singular point ends as a sliver, enclosed as a whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from .._tree import Node
from ..errors import PrecisionError
from ._balls import BoxFunction, RealFunction, complex_box, real
from ._boxes import interval_square
from ._cover import Sliver, Smooth
from ._flint import Ball, acb, arb, exact, precision

_RHO = tuple(Fraction(round(64 * 1.25 * 1.32**i), 64) for i in range(11))  # 1.25 to 20
_WIDEST = 4
_BOX_BITS = 64
_MOST_PANELS = 6_000
_DEPTH = 1  # how often a box is quartered before the ellipse is given up


@lru_cache(maxsize=512)
def gauss_legendre(n: int, bits: int) -> tuple[tuple[Ball, Ball], ...]:
    """Positive nodes of the n point rule (n even) with their weights, as balls."""
    with precision(bits):
        return tuple(arb.legendre_p_root(n, k, weight=True) for k in range(n // 2))


class Weight(Protocol):
    """What the integrands make of sigma: bounds of their modulus on a part of the complex plane."""

    def bounds(self, sigma: Ball, x: Ball, y: Ball) -> tuple[Ball, ...]:
        """Upper bounds where |sigma| <= sigma on Re z in x, 0 <= Im z <= y."""
        ...


@dataclass(frozen=True)
class Rule:
    """Nodes and weights of one panel and the proven error of each kind of integral."""

    low: Fraction
    high: Fraction
    expr: Node
    count: int
    errors: tuple[Ball, ...]
    reach: Fraction  # half of the ellipse on the real axis

    def nodes(self, bits: int) -> Iterator[tuple[Ball, Ball]]:
        """Nodes and weights as balls at the working precision."""
        middle, half = exact((self.low + self.high) / 2), exact((self.high - self.low) / 2)
        for t, w in gauss_legendre(self.count, bits):
            step, weight = half * t, half * w
            yield middle + step, weight
            yield middle - step, weight


class Panels:
    """The panels of one cover for given tolerances.

    rules: where the error is proven by ellipses; slivers: the rest, to be enclosed as a whole.
    """

    def __init__(
        self,
        parts: list[Smooth | Sliver],
        weight: Weight,
        tolerances: tuple[Ball, ...],
        bits: int,
        negligible: Callable[[Fraction, Fraction], bool],
        deadline: float = math.inf,
    ) -> None:
        self.rules: list[Rule] = []
        self.slivers: list[Sliver] = [p for p in parts if isinstance(p, Sliver)]
        self._weight, self._negligible, self._deadline = weight, negligible, deadline
        self._goals = tuple(_log(t) for t in tolerances)
        # on a panel as wide as the nearest pole is far, the rule needs bits log(2)/1.76 nodes
        self._limit = max(24, int(0.42 * bits))
        self._guess = 5
        self._boxes: dict[tuple[Node, int], BoxFunction] = {}
        for part in parts:
            if isinstance(part, Smooth):
                self._divide(part)

    def _divide(self, part: Smooth) -> None:
        count = max(1, math.ceil((part.high - part.low) / _WIDEST))
        step = (part.high - part.low) / count
        stack = [(part.low + i * step, part.low + (i + 1) * step) for i in range(count)][::-1]
        while stack:
            low, high = stack.pop()
            if time.monotonic() > self._deadline:
                raise TimeoutError
            rule = self._rule(low, high, part.expr)
            if rule is not None:
                self.rules.append(rule)
            elif high - low < Fraction(1, 2**12) and self._negligible(low, high):
                self.slivers.append(Sliver(low, high))
            elif high - low < Fraction(1, 2**4000) or len(self.rules) + len(self.slivers) > _MOST_PANELS:
                raise PrecisionError(
                    f"{part.expr} on ({float(part.low):.6g}, {float(part.high):.6g}) is not resolved near x = "
                    f"{float(low):.6g}: it is unbounded or steeper there than {_MOST_PANELS} panels can follow"
                )
            else:
                middle = (low + high) / 2
                stack += [(middle, high), (low, middle)]

    def _box(self, expr: Node, bits: int) -> BoxFunction:
        if (expr, bits) not in self._boxes:
            self._boxes[expr, bits] = complex_box(expr)
        return self._boxes[expr, bits]

    def _rule(self, low: Fraction, high: Fraction, expr: Node) -> Rule | None:
        """The cheapest rule over a few ellipses, searched from the one that served last."""
        # a narrow panel beside a singular point such as pi is told from it only with more bits
        narrow = (high - low).denominator.bit_length() - (high - low).numerator.bit_length()
        bits = _BOX_BITS * (1 + max(0, narrow + 40) // _BOX_BITS)
        tried: dict[int, tuple[int, tuple[Ball, ...]] | None] = {}

        def count(i: int) -> float:
            if not 0 <= i < len(_RHO):
                return math.inf
            if i not in tried:
                tried[i] = self._ellipse(middle, half, _RHO[i], self._box(expr, bits))
            found = tried[i]
            return math.inf if found is None else found[0]

        with precision(bits):
            middle, half = exact((low + high) / 2), exact((high - low) / 2)
            i = self._guess
            if count(i) == math.inf and count(0) == math.inf:
                return None
            while count(i) == math.inf:
                i -= 1
            while count(i + 1) < count(i):
                i += 1
            while i > 0 and count(i - 1) < count(i):
                i -= 1
        best = tried.get(i)
        if best is None or best[0] > self._limit:
            return None
        self._guess = i
        rho = _RHO[i]
        return Rule(low, high, expr, *best, (high - low) * (rho + 1 / rho) / 4)

    def _ellipse(
        self, middle: Ball, half: Ball, rho: Fraction, box: BoxFunction
    ) -> tuple[int, tuple[Ball, ...]] | None:
        """Number of nodes and errors with one ellipse, None if the tree is not bounded there."""
        r = exact(rho)
        a, b = half * (r + 1 / r) / 2, half * (r - 1 / r) / 2
        sizes = self._sizes(middle, a, b / 2, b / 2, box, _DEPTH)
        if sizes is None:
            return None
        factor = half * exact(Fraction(64, 15)) / (1 - r**-2)
        tops = [factor * m for m in sizes]
        need = max((_log(m) - g for m, g in zip(tops, self._goals, strict=True)), default=0.0)
        n = max(8, 4 * math.ceil(need / (2 * math.log(rho)) / 4))
        shrink = r ** (-2 * n)
        return n, tuple((m * shrink).upper() for m in tops)

    def _sizes(self, cx: Ball, rx: Ball, cy: Ball, ry: Ball, box: BoxFunction, depth: int) -> tuple[Ball, ...] | None:
        """Bounds of the integrands on cx +- rx, cy +- ry, from quarters where the whole is not finite."""
        x, y = cx + arb(0, rx.upper()), cy + arb(0, ry.upper())
        value = box(acb(x, y))
        if value.is_finite():
            sigma = value.abs_upper() if isinstance(value, acb) else abs(value).upper()
            return self._weight.bounds(sigma, x, y.upper())
        if depth == 0:
            return None
        rx, ry = rx / 2, ry / 2
        out: tuple[Ball, ...] | None = None
        # the quarters at the real line first: a singular point there ends the search at once
        for v in (cy - ry, cy + ry):
            for u in (cx - rx, cx + rx):
                part = self._sizes(u, rx, v, ry, box, depth - 1)
                if part is None:
                    return None
                out = part if out is None else tuple(p.max(q) for p, q in zip(out, part, strict=True))
        return out


def _log(x: Ball) -> float:
    """An upper bound of log x as a float, -1e6 for 0."""
    top = x.upper()
    return float(top.log().upper()) if top > 0 else -1e6


def gaussian(x: Ball) -> Ball:
    """exp(-x^2/2)/sqrt(2 pi)."""
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


class HermiteWeight:
    """Bounds of sigma He_k phi for all k <= degree and of sigma^2 phi, phi the Gaussian density.

    |phi(x + iy)| = exp((y^2 - x^2)/2)/sqrt(2 pi). |He_k(z)| <= 1.0865 exp(x^2/4 + sqrt(k) y), see `box_hermite`, or for
    small k (1 + |z|)^k, by induction over the recurrence.
    """

    def __init__(self, degree: int) -> None:
        self._degree = degree

    def bounds(self, sigma: Ball, x: Ball, y: Ball) -> tuple[Ball, ...]:
        square = interval_square(x)
        least, top = square.lower(), square.upper()
        if self._degree <= 4:
            polynomial = (1 + (top + y * y).sqrt()) ** self._degree
            linear = polynomial * ((y * y - least) / 2).exp()
        else:
            linear = exact(Fraction(10865, 10000)) * (y * y / 2 - least / 4 + arb(self._degree).sqrt() * y).exp()
        # 1/sqrt(2 pi) < 0.4
        return (linear * sigma * exact(Fraction(2, 5))).upper(), (
            sigma * sigma * ((y * y - least) / 2).exp() * exact(Fraction(2, 5))
        ).upper()


@dataclass(frozen=True)
class Sample:
    """One node: its place, sigma there, and sigma times density and weight."""

    x: Ball
    value: Ball
    mass: Ball


def samples(panels: Panels, bits: int, deadline: float = math.inf) -> list[Sample]:
    """sigma at every node, at the working precision."""
    functions: dict[Node, RealFunction] = {}
    norm = 1 / (2 * arb.pi()).sqrt()
    out = []
    for rule in panels.rules:
        if time.monotonic() > deadline:
            raise TimeoutError
        f = functions.get(rule.expr)
        if f is None:
            f = functions[rule.expr] = real(rule.expr)
        for x, w in rule.nodes(bits):
            value = f(x)
            out.append(Sample(x, value, value * w * (-x * x / 2).exp() * norm))
    return out
