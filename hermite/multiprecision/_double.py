"""The dual as a double integral in rotated coordinates, for sigma with kinks at correlations near 1 or -1.

With m = sqrt((1 - |rho|)/2), b = sqrt((1 + |rho|)/2) and independent standard normal z, w the pair
(z b + w m, z b - w m) has correlation |rho|; with the second negated it has -|rho|. The inner variable z is cut where
either argument meets a kink, so that every panel holds a smooth integrand; the outer w, whose factor m is small, is cut
where two kinks meet. The integrand is even in w for rho > 0, in z for rho < 0. A joint density on a fixed grid would
miss the ridge at rho near 1. Both integrals are composite Gauss rules, of two different lengths on different panels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import mul

import numpy as np
from mpmath import libmp

from .._activation import Activation
from .._extent import SQUARE
from .._panels import panels
from .._pieces import Piece
from .._recurrence import Array
from .._tree import ZERO as NOTHING
from ..errors import PrecisionError
from ._interpreter import evaluate
from ._layout import reach_of
from ._moments import advice, run, with_bits
from ._places import place
from ._quadrature import common_point, gaussian, inverse_root_two_pi
from ._raw import LOG_10, ZERO, Raw, fixed, from_fixed, from_float, from_fraction, log_size, to_float
from ._rules import gauss

_WIDTHS = (6.0, 3.0, 1.5, 0.75, 0.4)
_NARROW = 0.45  # panels of the float64 engine that show a steep place
TOO_LONG = 60.0  # seconds


@dataclass(frozen=True)
class _Plane:
    """sigma, its kinks and steep places, and the rotation, as integers over 2^bits."""

    sigma: Activation
    bits: int
    kinks: tuple[int, ...]
    marks: tuple[int, ...]
    big: int
    small: int
    negative: bool
    lower: int
    upper: int
    outer: int

    def piece(self, x: int) -> Piece:
        """The piece that holds a point inside."""
        return self.sigma.pieces[sum(k <= x for k in self.kinks)]


@dataclass(frozen=True)
class Plan:
    """How the double integral will be taken, and what it costs on one core."""

    sigma: Activation
    rho: Fraction
    need: float
    width: float
    seconds: float

    def value(self, digits: int) -> tuple[Raw, float]:
        """The dual and the logarithm of its error, to `need` digits of E sigma^2.

        Raises PrecisionError where two rules do not agree, or where it would take minutes.
        """
        if self.seconds > TOO_LONG:
            raise too_slow(self.sigma, self.rho, digits, singular=False)
        return with_bits(self.need, self._compute, self.sigma.name)

    def _compute(self, bits: int) -> tuple[Raw, float]:
        plane, scale = _plane(self.sigma, self.rho, self.need, bits), log_size(run(self.sigma, 1, self.need).second)
        n, values, miss = _points(self.need), list[Raw](), math.inf
        for level in range(4):
            values.append(_integral(plane, n, self.width * 0.85**level))
            if level:
                miss = log_size(libmp.mpf_sub(values[-1], values[-2], 60, "n"))
            if miss <= scale - self.need * LOG_10:
                return values[-1], scale - self.need * LOG_10
            n = math.ceil(1.12 * n) + 2
        raise PrecisionError(
            f"the dual of {self.sigma.name} at rho = {_shown(self.rho)}: two rules agree to "
            f"{max(0.0, (scale - miss) / LOG_10):.0f} digits only; {advice(self.sigma)}"
        )


def double_integral(sigma: Activation, rho: Fraction, need: float) -> Plan | None:
    """The plan of the double integral; None where sigma has a singular point, which its panels do not resolve."""
    if any(p.singular_lower or p.singular_upper for p in sigma.pieces):
        return None

    def plan(bits: int) -> Plan:
        plane, n = _plane(sigma, rho, need, bits), _points(need)
        width = _width(plane, need, run(sigma, 1, need).second)
        inner = len(_split(*_inner_range(plane, width), [])) + 2 * len(plane.marks)
        pairs = n * n * len(_outer_panels(plane, width)) * inner
        return Plan(sigma, rho, need, width, 2.7 * pairs * 1.2e-5 * (1 + need / 100))

    return with_bits(need, plan, sigma.name)


def too_slow(sigma: Activation, rho: Fraction, digits: int, *, singular: bool) -> PrecisionError:
    """The refusal of what would take minutes."""
    reason = "its Hermite series is long and it has a singular point" if singular else "that would take minutes"
    return PrecisionError(
        f"the dual of {sigma.name} at rho = {_shown(rho)} to {digits} digits is out of reach: {reason}; "
        "take a smaller |rho| or fewer digits"
    )


def _points(need: float) -> int:
    return math.ceil(0.95 * need) + 8


def _shown(rho: Fraction) -> str:
    return f"{float(rho):.17g}"


def _plane(sigma: Activation, rho: Fraction, need: float, bits: int) -> _Plane:
    reach = reach_of(sigma, need, 1, SQUARE)
    half = [from_fraction((1 + s * abs(rho)) / 2, bits + 20) for s in (1, -1)]
    big, small = (fixed(libmp.mpf_sqrt(v, bits + 20, "n"), bits) for v in half)
    kinks = [fixed(place(p.upper, bits + 20), bits) for p in sigma.pieces[:-1]]
    narrow = _NARROW / 2 if sigma.is_opaque else _NARROW
    edges = sorted({float(e) for g in panels(sigma).groups for e in _steep(g.lower, g.upper, narrow) + g.anchor})
    near = [_as_float(k, bits) for k in kinks]
    marks = [fixed(from_float(e), bits) for e in edges if all(abs(e - k) > 1e-9 for k in near)]
    bulk = math.sqrt(2 * (need * LOG_10 + 10))
    outer = bulk + 2 * max(0.0, reach.upper - bulk - 1, -reach.lower - bulk - 1)
    return _Plane(
        sigma,
        bits,
        tuple(kinks),
        tuple(sorted(kinks + marks)),
        big,
        small,
        rho < 0,
        *(fixed(from_float(v), bits) for v in (reach.lower, reach.upper, outer)),
    )


def _as_float(value: int, bits: int) -> float:
    return to_float(libmp.from_man_exp(value, -bits))


def _steep(low: Array, high: Array, width: float) -> Array:
    """Ends of the panels that are narrow, though not because of a kink."""
    narrow = (high - low < width) & (high - low > 1e-4)
    return np.concatenate([low[narrow], high[narrow]])


def _split(low: int, high: int, width: int, cuts: list[int]) -> list[tuple[int, int]]:
    """Panels between the cuts, none wider than the width."""
    edges = [low, *sorted({c for c in cuts if low < c < high}), high]
    out = []
    for a, b in pairwise(edges):
        count = max(1, -((a - b) // width))
        ends = [a + (b - a) * i // count for i in range(count + 1)]
        out += list(pairwise(ends))
    return out


def _width(plane: _Plane, need: float, second: Raw) -> float:
    """The widest panels on which E sigma^2 has the digits: sigma itself is then resolved."""
    n, bits = _points(need), plane.bits
    for width in _WIDTHS:
        total = []
        for a, b in _split(plane.lower, plane.upper, fixed(from_float(width), bits), list(plane.marks)):
            x, w = _nodes(a, b, n, bits)
            f = evaluate(plane.piece((a + b) // 2).expr, x, bits)
            total += [
                libmp.mpf_mul(libmp.mpf_mul(v, v), u, bits, "n") for v, u in zip(f, _weights(x, w, bits), strict=True)
            ]
        miss = libmp.mpf_sub(libmp.mpf_sum(total, bits, "n"), second, 60, "n")
        if log_size(miss) <= log_size(second) - (need + 3) * LOG_10:  # a margin, for products of two arguments
            return width
    return _WIDTHS[-1]


def _nodes(a: int, b: int, n: int, bits: int) -> tuple[list[Raw], list[Raw]]:
    """Nodes and weights of the Gauss rule on [a, b]."""
    nodes, weights = gauss(n, bits)
    middle, half = (a + b) >> 1, (b - a) >> 1
    x = [libmp.from_man_exp(middle + (half * t >> bits), -bits) for t in nodes]
    return x, [libmp.from_man_exp(half * w, -2 * bits, bits, "n") for w in weights]


def _weights(x: list[Raw], w: list[Raw], bits: int) -> list[Raw]:
    """Times the Gaussian density."""
    root = inverse_root_two_pi(bits)
    return [
        libmp.mpf_mul(libmp.mpf_mul(gaussian(t, bits), u, bits, "n"), root, bits, "n")
        for t, u in zip(x, w, strict=True)
    ]


def _outer_panels(plane: _Plane, width: float) -> list[tuple[int, int]]:
    """Panels of w, cut where two kinks meet; narrower where sigma is steep, since it sees w times a small factor."""
    kinks = plane.kinks
    other = [-k for k in kinks] if plane.negative else list(kinks)
    meet = [((a - b) << plane.bits) // (2 * plane.small) for a in kinks for b in other]
    small, gaps = _as_float(plane.small, plane.bits), [_as_float(b - a, plane.bits) for a, b in pairwise(plane.marks)]
    steep = min([6.0, *(g / small for g in gaps if g > 1e-3)])
    outer_width = max(min(6.0, width / small, 1.5 * steep), 0.4)
    low = -plane.outer if plane.negative else 0
    return _split(low, plane.outer, fixed(from_float(outer_width), plane.bits), meet)


def _inner_range(plane: _Plane, width: float) -> tuple[int, int, int]:
    """Ends of z, and the width of its panels."""
    low = 0 if plane.negative else (plane.lower << plane.bits) // plane.big
    high = max(plane.upper, -plane.lower) if plane.negative else plane.upper
    return low, (high << plane.bits) // plane.big, fixed(from_float(width), plane.bits)


def _integral(plane: _Plane, n: int, width: float) -> Raw:
    bits, inner, total = plane.bits, _inner_range(plane, width), list[Raw]()
    for a, b in _outer_panels(plane, width):
        w, weight = _nodes(a, b, n, bits)
        for t, u in zip(w, _weights(w, weight, bits), strict=True):
            total.append(libmp.mpf_mul(u, _inner(plane, fixed(t, bits), n, inner), bits, "n"))
    return libmp.mpf_shift(libmp.mpf_sum(total, bits, "n"), 1)  # type: ignore[no-any-return]


def _inner(plane: _Plane, w: int, n: int, inner: tuple[int, int, int]) -> Raw:
    """The integral over z at one w."""
    bits = plane.bits
    shift = w * plane.small >> bits
    second = [-k for k in plane.marks] if plane.negative else plane.marks
    cuts = [((k - shift) << bits) // plane.big for k in plane.marks]
    cuts += [((k + shift) << bits) // plane.big for k in second]
    total = ZERO
    for a, b in _split(*inner, cuts):
        if b - a < 4:  # two cuts in one place
            continue
        middle = (a + b >> 1) * plane.big >> bits
        first, sign = plane.piece(middle + shift), -1 if plane.negative else 1
        other = plane.piece(sign * (middle - shift))
        if NOTHING in (first.expr, other.expr):
            continue
        nodes, weights = gauss(n, bits)
        half, z = (b - a) >> 1, [(a + b >> 1) + ((b - a >> 1) * t >> bits) for t in nodes]
        zb = [t * plane.big >> bits for t in z]
        f = evaluate(first.expr, [libmp.from_man_exp(v + shift, -bits) for v in zb], bits)
        g = evaluate(other.expr, [libmp.from_man_exp(sign * (v - shift), -bits) for v in zb], bits)
        density = [gaussian(libmp.from_man_exp(t, -bits), bits) for t in z]
        parts, point = zip(*(_fixed_all(values, bits) for values in (f, g, density)), strict=True)
        products = ((u * v >> bits) * d for u, v, d in zip(*parts, strict=True))
        value = from_fixed(half * sum(map(mul, weights, products)), sum(point) + bits, bits)
        total = libmp.mpf_add(total, value, bits, "n")
    return libmp.mpf_mul(total, inverse_root_two_pi(bits), bits, "n")  # type: ignore[no-any-return]


def _fixed_all(values: list[Raw], bits: int) -> tuple[list[int], int]:
    """The values as integers over 2^point, the largest of so many bits."""
    point = common_point(values, bits)
    return [fixed(v, point) for v in values], point
