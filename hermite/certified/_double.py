"""The dual as a double integral with proven error, for any sigma whose growth is proven; slower than the other routes.

With p the bivariate density of correlation r >= 0 and g_i = w_i sigma(x_i) on the nodes of one composite
Gauss-Legendre rule, the tensor rule is sum of g_i g_j p(x_i, +-x_j), the sign that of rho. Since
    (x^2 - 2 r x u + u^2)/(2 s^2) = (x^2 + u^2)/(2 (1 + r)) + r (x - u)^2/(2 s^2),    s^2 = 1 - r^2,
the matrix is a band |x - u| <= reach: what lies outside is bounded by the kernel at the edge.

Error: first the rule in x for sigma(x) S(x) phi(x) with the exact inner integral S, |S| bounded as in `_smoothing`;
then, at every node x_j, the rule in u for sigma(u) p(u, x_j): on an ellipse |p(u + iv, x)| = p(u, x) exp(v^2/(2 s^2)).
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from fractions import Fraction

from ._boxes import interval_square
from ._flint import Ball, arb, between, exact, precision
from ._quadrature import Panels, Sample
from ._smoothing import Envelope, mean_bound

_MARGIN = 1e-6  # of the float64 midpoints that choose the band, far above their rounding


class DoubleWeight:
    """Bounds of sigma S phi (the outer rule, and a guide for the inner one) and of sigma exp(v^2/(2 s^2))."""

    def __init__(self, envelope: Envelope, rho: Fraction) -> None:
        self._envelope, self._rho, self._variance = envelope, exact(rho), exact(1 - rho * rho)

    def bounds(self, sigma: Ball, x: Ball, y: Ball) -> tuple[Ball, ...]:
        square = interval_square(x).lower()
        mean = mean_bound(self._envelope, self._rho * x, self._variance)
        # phi(x + iy) and the lift of S together: exp(y^2/2 + rho^2 y^2/(2 s^2)) = exp(y^2/(2 s^2))
        lift = sigma * (y * y / (2 * self._variance)).exp()
        return (lift * mean * (-square / 2).exp() * exact(Fraction(2, 5))).upper(), lift.upper()


def tensor_sum(found: Sequence[Sample], weights: Sequence[Ball], rho: Fraction, bits: int, deadline: float) -> Ball:
    """Sum of g_i g_j p(x_i, sign(rho) x_j), a ball that holds the part outside the band too.

    weights: g_i, in the order of the nodes.
    """
    r, mirrored = abs(rho), rho < 0
    variance = exact(1 - r * r)
    decay, outer = exact(r) / (2 * variance), 1 / (2 * exact(1 + r))
    order = sorted(range(len(found)), key=lambda i: float(found[i].x))
    xs = [found[i].x for i in order]
    h = [weights[i] * (-xs[k] * xs[k] * outer).exp() for k, i in enumerate(order)]
    places = [float(x) for x in xs]
    total_size = sum((abs(v) for v in h), start=arb(0))
    edge = _band(total_size, decay, bits)
    total = arb(0)
    for k, x in enumerate(xs):
        if time.monotonic() > deadline:
            raise TimeoutError
        centre, z = (-places[k], -x) if mirrored else (places[k], x)
        first, last = (
            bisect.bisect_left(places, centre - edge - _MARGIN),
            bisect.bisect(places, centre + edge + _MARGIN),
        )
        row = arb(0)
        for i in range(first, last):
            d = xs[i] - z
            row += h[i] * (-decay * d * d).exp()
        total += row * h[k]
    outside = total_size * total_size * (-decay * exact(Fraction(edge) ** 2)).exp()
    norm = 2 * arb.pi() * variance.sqrt()
    return (total + arb(0, outside.upper())) / norm


def _band(total_size: Ball, decay: Ball, bits: int) -> float:
    """Half of a band outside of which the kernel is below 2^-bits of the sum's scale."""
    need = (total_size * total_size + 1).log() + bits * 0.6932
    return float((need / decay).sqrt().upper()) if decay > 0 else 1e3


def inner_error(
    panels: Panels, found: Sequence[Sample], weights: Sequence[Ball], rho: Fraction, bits: int, deadline: float
) -> Ball:
    """Sum over nodes x_j and panels of |g_j| times the error of the rule for sigma(u) p(u, x_j)."""
    r, mirrored = abs(rho), rho < 0
    with precision(64):
        variance = exact(1 - r * r)
        decay = exact(r) / (2 * variance)
        groups = _groups(found, weights, mirrored)
        everything = sum((size for _, _, size in groups), start=arb(0))
        edge = _band(everything, decay, bits)
        # outside the band the density is at most the kernel at its edge
        far = everything * (-decay * exact(Fraction(edge) ** 2)).exp()
        lows, highs = [low for low, _, _ in groups], [high for _, high, _ in groups]
        total = arb(0)
        for rule in panels.rules:
            if time.monotonic() > deadline:
                raise TimeoutError
            middle = (rule.low + rule.high) / 2
            u = between(middle - rule.reach, middle + rule.reach)
            first = bisect.bisect_left(highs, float(middle - rule.reach) - edge - _MARGIN)
            last = bisect.bisect(lows, float(middle + rule.reach) + edge + _MARGIN)
            density = far
            for low, high, size in groups[first:last]:
                z = between(Fraction(low - _MARGIN), Fraction(high + _MARGIN))
                exponent = (1 - exact(r)) * (interval_square(u) + interval_square(z)) + exact(r) * interval_square(
                    u - z
                )
                density += size * (-exponent.lower() / (2 * variance)).exp()
            total += rule.errors[1] * density
        return (total / (2 * arb.pi() * variance.sqrt())).upper()


def _groups(found: Sequence[Sample], weights: Sequence[Ball], mirrored: bool) -> list[tuple[float, float, Ball]]:
    """Neighbouring nodes +-x together, in increasing order: float64 ends (to the margin) and the sum of |g|."""
    sign = -1.0 if mirrored else 1.0
    nodes = sorted((sign * float(s.x), i) for i, s in enumerate(found))
    out = []
    for start in range(0, len(nodes), 16):
        block = nodes[start : start + 16]
        out.append((block[0][0], block[-1][0], sum((abs(weights[i]) for _, i in block), start=arb(0)).upper()))
    return out
