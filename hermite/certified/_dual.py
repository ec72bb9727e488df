"""The dual activation E sigma(X) sigma(Y) at correlation rho as an enclosure, by the cheapest proof that serves.

Routes: |rho| = 1 and rho = 0 are one-dimensional. A sigma whose pieces are polynomials times exponentials goes by
`_smoothing`, at every rho. Otherwise the Hermite series with the Parseval tail: sum over k > K of c_k^2 rho^k lies
between 0 (or its negative, for rho < 0) and |rho|^(K+1) (E sigma^2 - sum over k <= K of c_k^2). Where the series is
too long, the double integral of `_double`.
"""

from __future__ import annotations

import math
import numbers
import time
from fractions import Fraction
from typing import Any

from .. import _tree as t
from .._activation import Activation, ActivationLike, activation
from .._numbers import as_fraction
from ..errors import PrecisionError
from ._balls import constant, real
from ._cover import Smooth, cover, hints, log2_inverse
from ._digits import Goal, check_digits, tiny, to_digits
from ._double import DoubleWeight, inner_error, tensor_sum
from ._enclosure import Enclosure
from ._flint import Ball, arb, between, exact, natural_power, precision
from ._growth import forbid_opaque, growth, tails
from ._moments import Raw, integrals, raw, reach_for, rough_second_moment
from ._quadrature import Panels, gaussian, samples
from ._smoothing import Smoothed, envelope_of, terms
from ._verbs import constant_of

_SHORT, _LONGEST = 640, 4096
Answer = tuple[Any, list[Goal]]


def dual(sigma: ActivationLike, rho: Any, *, digits: int = 30, time_limit: float = 20) -> Enclosure:
    """Dual activation E sigma(X) sigma(Y) of standard normal X, Y with correlation rho, as a proven enclosure.

    sigma: anything `hermite.activation` accepts but callables; rho: an exact number in [-1, 1] (floats and text mean
    their decimal); digits: from 1 to 1000; time_limit: seconds. The radius is at most
    10^-digits max(|value|, 10^-4 E sigma^2).

    Piecewise polynomials times exponentials take milliseconds at every rho; the Hermite series of smooth sigma takes
    0.1 to 10 s, as does the double integral that serves the rest; near |rho| = 1 the latter may need more time than it
    is given. Raises PrecisionError then, else as `coefficients`. Source: arXiv:2305.18399, Lemma A.5.

    >>> print(dual("step", "1/2", digits=15), dual("hardtanh", 0.999, digits=15).decimal(15))  # 1/3
    0.33333333333333333333... 0.5153...
    """
    s, r, d = forbid_opaque(activation(sigma)), as_fraction(rho, "rho"), check_digits(digits)
    if abs(r) > 1:
        raise ValueError(f"rho must lie in [-1, 1], got {rho!r}")
    if isinstance(time_limit, bool) or not isinstance(time_limit, numbers.Real) or not time_limit > 0:
        raise ValueError(f"time_limit must be a positive number of seconds, got {time_limit!r}")
    deadline = time.monotonic() + time_limit

    def compute(bits: int) -> Answer:
        value, second, work = _value(s, r, bits, deadline)
        with precision(work):
            return Enclosure.from_ball(value) if value.is_finite() else None, [Goal(value, tiny(second))]

    try:
        found: Enclosure = to_digits(f"the dual of {s.name}", d, compute)
    except TimeoutError:
        raise PrecisionError(
            f"the dual of {s.name} at rho = {r} ({route(s, r)}) was not proven to {d} digits within time_limit="
            f"{time_limit!r} s; allow more time or ask for fewer digits"
        ) from None
    return found


def route(sigma: Activation, rho: Fraction) -> str:
    """How the dual is computed first."""
    if constant_of(sigma) is not None:
        return "constant"
    if rho in (0, 1, -1):
        return {0: "square of the mean", 1: "second moment", -1: "mirrored second moment"}[int(rho)]
    with precision(64):
        if all(terms(p.expr) is not None for p in sigma.pieces):
            return "gaussian smoothing"
    smooth = len(sigma.pieces) == 1 and not sigma.expr.splits
    return "hermite series" if smooth or _enough(rho, 115) <= _SHORT else "double integral"


def _enough(rho: Fraction, bits: int) -> int:
    """A degree K with |rho|^K <= 2^-bits: the series needs no more, whatever sigma is."""
    size = abs(rho)
    if size < Fraction(1, 2):  # the logarithm of an integer, however large: rho may be far below the floats
        rate = math.log(size.denominator) - math.log(size.numerator)
    else:
        rate = -math.log1p(float(size - 1))  # exact subtraction first: rho may be next to 1
    return math.ceil(bits * math.log(2) / rate) if rate > 0 else 10**9


def _value(sigma: Activation, rho: Fraction, bits: int, deadline: float) -> tuple[Ball, Ball, int]:
    """The dual, E sigma^2, and the bits in whose scope to read them."""
    how = route(sigma, rho)
    if how == "constant":
        with precision(bits + 32):
            value = constant(sigma.expr)
            return value * value, value * value, bits + 32
    if how == "hermite series":
        found = _series(sigma, rho, bits, deadline)
        if found is not None:
            return found
        how = "double integral"
    low = raw(sigma, 0, bits)
    if how == "second moment":
        return low.second, low.second, low.bits
    with precision(low.bits):
        if how == "square of the mean":
            return natural_power(low.coefficients[0], 2), low.second, low.bits
        if how == "mirrored second moment":
            return _mirrored(sigma, bits, low), low.second, low.bits
    work = bits + 96 + max(0, log2_inverse(1 - rho * rho))  # nodes are divided by s
    with precision(work):
        return _integrated(sigma, rho, bits, work, low, how, deadline), low.second, work


# ---- |rho| = 1 ----------------------------------------------------------------------------------------------------


class _MeanWeight:
    """Bounds of g phi."""

    def bounds(self, sigma: Ball, x: Ball, y: Ball) -> tuple[Ball, ...]:
        least = abs(x).lower() if (x > 0 or x < 0) else arb(0)
        return ((sigma * ((y * y - least * least) / 2).exp() * exact(Fraction(2, 5))).upper(),)


def _mirrored(sigma: Activation, bits: int, low: Raw) -> Ball:
    """E sigma(X) sigma(-X); the tail of the product is at most that of sigma^2 (Cauchy-Schwarz)."""
    tree = t.mul(sigma.expr, t.substitute(sigma.expr, t.neg(t.X)))
    parts = cover(tree, hints(sigma, bits + 16).mirrored(), low.reach, bits + 16)
    f, tolerance = real(tree), (low.second.mid() * exact(Fraction(1, 2 ** (bits + 8)))).upper()

    def negligible(a: Fraction, b: Fraction) -> bool:
        return bool(abs(f(between(a, b))) * exact(b - a) <= tolerance)

    panels = Panels(parts, _MeanWeight(), (tolerance,), bits, negligible)
    total = sum((s.mass for s in samples(panels, low.bits)), start=arb(0))
    for sliver in panels.slivers:
        x = between(sliver.low, sliver.high)
        total += f(x) * gaussian(x) * exact(sliver.high - sliver.low)
    if not total.is_finite():
        raise PrecisionError(f"the dual of {sigma.name} at rho = -1 is not enclosed: sigma is unbounded at a point")
    errors = sum((r.errors[0] for r in panels.rules), start=low.tails.second_moment(low.reach))
    return total + arb(0, errors.upper())


# ---- the Hermite series -------------------------------------------------------------------------------------------


def _series(sigma: Activation, rho: Fraction, bits: int, deadline: float) -> tuple[Ball, Ball, int] | None:
    """The Hermite series, None where it would need more than 4096 terms (or the double integral is cheaper)."""
    most = _enough(rho, bits + 2)
    degree, known = (most, []) if most <= _SHORT else (128, [])
    while True:
        begun = time.monotonic()
        found = integrals(sigma, degree, bits, deadline)
        with precision(found.bits):
            value, rest = _summed(found, rho)
            size = float((value.rad() / found.second).log().upper()) if value.rad() > 0 else -1e9
            if rest <= found.second * exact(Fraction(1, 2 ** (bits - 2))) or degree >= most:
                return value, found.second, found.bits
        known.append((degree, size))
        degree = _next_degree(known, bits, most)
        if degree > _LONGEST:
            return None
        if time.monotonic() + 2 * (time.monotonic() - begun) * (degree / known[-1][0]) > deadline:
            raise TimeoutError


def _summed(found: Raw, rho: Fraction) -> tuple[Ball, Ball]:
    """Partial sum with the tail as radius, and the bound of the tail."""
    r, power = exact(rho), arb(1)
    total, squares = arb(0), arb(0)
    for c in found.coefficients:
        total += c * c * power
        squares += c * c
        power *= r
    rest = (abs(power) * (found.second - squares)).upper()
    rest = rest if rest > 0 else arb(0)
    tail = arb(0).union(rest) if rho > 0 else arb(0, rest)
    return total + tail, rest


def _next_degree(known: list[tuple[int, float]], bits: int, most: int) -> int:
    """From the decay seen so far: the tail of a function with a pole at distance d falls like exp(-2 d sqrt(K))."""
    degree, size = known[-1]
    if len(known) == 1:
        return min(2 * degree, most)
    before, earlier = known[-2]
    rate = (earlier - size) / (math.sqrt(degree) - math.sqrt(before))
    if rate <= 0:
        return _LONGEST + 1
    missing = size + (bits - 2) * math.log(2)
    return min(max(math.ceil(1.05 * (math.sqrt(degree) + missing / rate) ** 2), degree + 32), most)


# ---- one integral over S, or two ----------------------------------------------------------------------------------


class _SmoothedWeight:
    """Bounds of sigma S phi."""

    def __init__(self, smoothed: Smoothed) -> None:
        self._smoothed = smoothed

    def bounds(self, sigma: Ball, x: Ball, y: Ball) -> tuple[Ball, ...]:
        least = abs(x).lower() if (x > 0 or x < 0) else arb(0)
        density = ((y * y - least * least) / 2).exp() * exact(Fraction(2, 5))
        return ((sigma * density * self._smoothed.bound(x, y)).upper(),)


def _integrated(sigma: Activation, rho: Fraction, bits: int, work: int, low: Raw, how: str, deadline: float) -> Ball:
    """E sigma(X) sigma(Y) from the part of sigma on the smooth pieces, with a bound of what that leaves out.

    With d = sigma - that part, |E sigma(X) sigma(Y) - E of the parts| <= 2 ||sigma|| ||d||: so slivers and tails must
    be small in the mean square, and are cut twice as fine as for a single integral.
    """
    scale = rough_second_moment(sigma.expr)
    unit = exact(Fraction(1, 2 ** (bits + 8)))
    reach = reach_for(tails(sigma), scale * unit * unit)
    with precision(max(work, 2 * bits + 96)):  # signs beside a root are seen as far down as the slivers are narrow
        parts = cover(sigma.expr, hints(sigma, 2 * bits + 32), reach, 2 * bits + 32)
    f = real(sigma.expr)

    def left_out(a: Fraction, b: Fraction) -> Ball:
        x = between(a, b)
        return (natural_power(f(x), 2) * gaussian(x) * exact(b - a)).upper()

    def negligible(a: Fraction, b: Fraction) -> bool:
        return bool(left_out(a, b) <= scale * unit * unit)

    pieces = [(p, terms(p.expr)) for p in parts if isinstance(p, Smooth)]
    known = [(p, found) for p, found in pieces if found is not None]
    if how == "gaussian smoothing" and len(known) == len(pieces):
        smoothed = Smoothed(known, rho, growth(sigma))
        panels = Panels(parts, _SmoothedWeight(smoothed), ((scale * unit).upper(),), bits, negligible, deadline)
        total = _outer_sum(panels, smoothed, work, deadline)
    else:
        bound = envelope_of(growth(sigma))
        loose = arb((1, 10**6))  # the second bound is only recorded
        panels = Panels(parts, DoubleWeight(bound, rho), ((scale * unit).upper(), loose), bits, negligible, deadline)
        found = samples(panels, work, deadline)
        weights = [s.mass / gaussian(s.x) for s in found]
        total = tensor_sum(found, weights, rho, bits + 8, deadline)
        total += arb(0, inner_error(panels, found, weights, rho, bits + 8, deadline))
    total += arb(0, sum((r.errors[0] for r in panels.rules), start=arb(0)).upper())
    omitted = sum((left_out(s.low, s.high) for s in panels.slivers), start=tails(sigma).second_moment(reach))
    return total + arb(0, (2 * (low.second.upper() * omitted).sqrt()).upper())


def _outer_sum(panels: Panels, smoothed: Smoothed, work: int, deadline: float) -> Ball:
    total = arb(0)
    for s in samples(panels, work, deadline):
        if time.monotonic() > deadline:
            raise TimeoutError
        total += s.mass * smoothed(s.x)
    return total
