"""Hermite coefficients and moments of an activation as enclosures: quadrature, slivers and tails together."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .._activation import Activation
from .._tree import Node
from ..errors import PrecisionError
from ._balls import real
from ._cover import Sliver, cover, hints, log2_inverse
from ._flint import Ball, arb, between, exact, precision
from ._growth import Tails, tails
from ._quadrature import HermiteWeight, Panels, Sample, gaussian, samples
from ._singular import near_singular, singular_widths


@dataclass(frozen=True)
class Raw:
    """c_0..c_degree and E sigma^2 as balls, with what they were made of."""

    coefficients: tuple[Ball, ...]
    second: Ball
    panels: int
    reach: Fraction
    tails: Tails
    bits: int  # of the working precision: read the balls in its scope


def not_negative(x: Ball) -> Ball:
    """A ball around a number that is known to be >= 0, cut there."""
    low, high = x.lower(), x.upper()
    return x if low >= 0 or not high >= 0 else arb(0).union(high)


@lru_cache(maxsize=128)
def raw(sigma: Activation, degree: int, bits: int) -> Raw:
    """Coefficients to about 2^-bits sqrt(E sigma^2) and the second moment to 2^-bits E sigma^2, as proven balls."""
    return integrals(sigma, degree, bits, math.inf)


def integrals(sigma: Activation, degree: int, bits: int, deadline: float) -> Raw:
    """`raw`, not remembered; TimeoutError once time.monotonic() has passed the deadline."""
    bound = tails(sigma)
    with precision(96):
        scale = rough_second_moment(sigma.expr)
        target = scale * exact(Fraction(1, 2 ** (2 * bits + 8)))
        reach, fine = reach_for(bound, target), singular_widths(sigma, target)
    # nodes beside a singular point other than 0 are told from it with so many more bits
    closest = max([0, *(log2_inverse(w) for p, w in fine.items() if p != 0)])
    work = -(-(bits + 32 + recurrence_loss(degree, reach) + closest) // 32) * 32  # few precisions, so nodes are shared
    with precision(work):
        f, root = real(sigma.expr), scale.sqrt()
        unit = exact(Fraction(1, 2 ** (bits + 8)))
        linear, square = (root * unit).upper(), (scale * unit).upper()
        parts = cover(sigma.expr, hints(sigma, bits + 16, fine), reach, bits + 16)

        def negligible(low: Fraction, high: Fraction) -> bool:
            # |He_k| phi <= 1/2 and phi <= 1/2
            size = abs(f(between(low, high))) * exact(high - low) / 2
            return bool(size <= linear and size * abs(f(between(low, high))) <= square)

        panels = Panels(parts, HermiteWeight(degree), (linear, square), bits, negligible, deadline)
        around, hidden = sliver_samples(sigma, panels.slivers)
        c, second = project([*samples(panels, work, deadline), *around], degree, deadline)
        tail = bound.second_moment(reach) + hidden
        errors = [sum((r.errors[i] for r in panels.rules), start=arb(0)).upper() for i in (0, 1)]
        # |E sigma He_k over a set|^2 <= E sigma^2 over it, since E He_k^2 = 1 (Cauchy-Schwarz)
        blur = arb(0, (errors[0] + tail.sqrt()).upper())
        second = not_negative(second + arb(0, errors[1])) + arb(0, 1) * tail / 2 + tail / 2
        return Raw(tuple(v + blur for v in c), second, len(panels.rules), reach, bound, work)


def recurrence_loss(degree: int, reach: Fraction) -> int:
    """Bits lost by the recurrence in balls.

    It adds absolute values, so radii grow like He_k(i x)/i^k ~ exp(sqrt(k) x - x^2/4) beside He_k(x) ~ exp(x^2/4);
    with the density exp(-x^2/2) the worst is exp(sqrt(k) x - x^2/2) on [0, reach].
    """
    x = min(math.sqrt(degree), float(reach))
    return int(1.4427 * (math.sqrt(degree) * x - x * x / 2)) + 2 * max(degree, 1).bit_length()


def rough_second_moment(tree: Node) -> Ball:
    """E sigma^2 by a coarse sum, to steer tolerances; nothing that is proven rests on it."""
    f, total = real(tree), arb(0)
    for half in (80, 640):  # out to 40, and to 320 where nothing is found
        for i in range(-half, half):
            x = exact(Fraction(2 * i + 1, 4) + Fraction(1, 64))
            y = f(x)
            if y.is_finite():
                total += (y * y * gaussian(x) / 2).mid()
        if total > 0:
            return total.mid()
    return exact(Fraction(1, 2**64))


def reach_for(bound: Tails, target: Ball) -> Fraction:
    """The first R (on a grid) beyond which the second moment is below the target."""
    reach = max(bound.start, Fraction(4))
    while not bound.second_moment(reach) <= target:
        reach += Fraction(1, 4) if reach < 64 else reach / 64
        if reach > 20_000:
            raise PrecisionError(
                "the tails do not fall below the tolerance up to |x| = 20000; declare a smaller growth"
            )
    return Fraction(math.ceil(4 * reach), 4)


def sliver_samples(sigma: Activation, slivers: Sequence[Sliver]) -> tuple[list[Sample], Ball]:
    """The integral over an interval I of g sigma lies in |I| g(I) sigma(I), with the original tree on I.

    Where sigma(I) is not bounded, a bound of its mean square on I is added up instead.
    """
    f, out, hidden = real(sigma.expr), [], arb(0)
    for s in slivers:
        x = between(s.low, s.high)
        value = f(x)
        if not value.is_finite():
            bound = near_singular(sigma, s.low, s.high)
            if bound is not None:
                hidden += bound
                continue
            raise PrecisionError(
                f"{sigma.name} has no finite bound next to x = {float(s.low):.6g}, so an integral over it is not "
                "enclosed; use hermite.multiprecision"
            )
        out.append(Sample(x, value, value * gaussian(x) * exact(s.high - s.low)))
    return out, hidden


def project(found: Sequence[Sample], degree: int, deadline: float = math.inf) -> tuple[list[Ball], Ball]:
    """Sums of mass He_k(x) for k = 0..degree, and of sigma times mass."""
    totals = [arb(0)] * (degree + 1)
    second = arb(0)
    for s in found:
        if time.monotonic() > deadline:
            raise TimeoutError
        second += s.value * s.mass
        before, now = arb(0), s.mass
        for k in range(degree + 1):
            totals[k] += now
            # monic: h_{k+1} = x h_k - k h_{k-1}, He_k = h_k/sqrt(k!)
            before, now = now, s.x * now - k * before
    scale = arb(1)
    for k in range(1, degree + 1):
        scale /= arb(k).sqrt()
        totals[k] *= scale
    return totals, second
