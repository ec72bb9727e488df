"""Where the nodes go: the range that carries the asked digits, cut at piece ends and at the edges of float64's panels.

This is a guide only. The range comes from log|sigma| on a grid, the first panels from the float64 engine; that the
result is right comes from the agreement of two rules on every panel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from mpmath import libmp

from .._activation import Activation
from .._extent import SQUARE, features
from .._panels import panels
from .._pieces import Piece
from .._points import Point, rational
from .._recurrence import Array, hermite_sequence
from .._roots import WINDOW
from .._tree import Node
from ..errors import NotSquareIntegrableError, PrecisionError
from ._check import check_ends
from ._interpreter import evaluate, reliable
from ._places import place
from ._raw import LOG_10, ONE, Raw, bits_of, from_float, log_size, magnitude, to_float

_GRID_BITS = 64
_TOO_FAR = 1440.0
_NARROW = 1e-9
_BULK = 12.75  # the guide knows nothing beyond
_MARGIN = 5.0  # in the logarithm: what is left out stays below the asked digits
_MAX_EXPONENT = 1e5  # a singularity is followed to distances of 2^-1e5


@dataclass(frozen=True)
class Segment:
    """A stretch where the integrand is smooth: x = t, or x = origin +- 2^-t towards a singular end."""

    expr: Node
    origin: Point | None = None
    direction: int = 0

    def function(self, x: Sequence[Raw], precision: int) -> list[Raw]:
        """sigma at each x."""
        return evaluate(self.expr, x, precision)

    def boost(self, t: float) -> int:
        """Bits that x and sigma(x) need beyond the others, so that the distance 2^-t from the end keeps them all."""
        if self.origin is None or self.origin == rational(0):
            return 0
        return math.ceil(max(t, 0.0) / 256) * 256  # in steps, since a root is refined anew for each precision

    def point(self, t: Raw, precision: int) -> tuple[Raw, Raw]:
        """x and dx/dt at t."""
        if self.origin is None:
            return t, ONE
        wp = precision + self.boost(to_float(t))
        log_2 = libmp.mpf_ln2(wp + 20, "n")
        distance = libmp.mpf_exp(libmp.mpf_neg(libmp.mpf_mul(t, log_2)), wp, "n")
        signed = distance if self.direction > 0 else libmp.mpf_neg(distance)
        x = libmp.mpf_add(place(self.origin, wp), signed, wp + 20, "n")
        return x, libmp.mpf_mul(distance, log_2, precision, "n")


@dataclass(frozen=True)
class Panel:
    """[low, high] in the coordinate of a segment."""

    segment: Segment
    low: Raw
    high: Raw


def layout(sigma: Activation, digits: float, degree: int, rate: float) -> list[Panel]:
    """The first panels: sigma against exp(-x^2/2), its square too with rate SQUARE, He_0..He_degree.

    Raises NotSquareIntegrableError where the float64 engine finds a divergent integral.
    """
    _guide(sigma, rate)  # first, for it knows divergent integrals
    check_ends(sigma, digits)
    reach = reach_of(sigma, digits, degree, rate)
    out: list[Panel] = []
    for piece in sigma.pieces:
        low, high = max(piece.lower.value, reach.lower), min(piece.upper.value, reach.upper)
        if piece.upper.value - piece.lower.value < _NARROW and reach.lower < piece.lower.value < reach.upper:
            out += _narrow(piece, digits)
        elif high > low:
            out += _piece_panels(sigma, piece, low, high, digits, reach.top, rate)
    return out


def _narrow(piece: Piece, digits: float) -> list[Panel]:
    """A piece whose ends float64 hardly tells apart: one panel, none if both ends are one root with two brackets."""
    low, high = (place(p, bits_of(digits) + 40) for p in (piece.lower, piece.upper))
    empty = magnitude(libmp.mpf_sub(high, low)) < -bits_of(digits) - 30
    return [] if empty else [Panel(Segment(piece.expr), low, high)]


def _piece_panels(
    sigma: Activation, piece: Piece, low: float, high: float, digits: float, top: float, rate: float
) -> list[Panel]:
    """Plain panels between the ends, which are taken at their exact places, and doubling ones at singular ends."""
    precision, out = bits_of(digits) + 40, list[Panel]()
    ends, halves = [], -math.floor(math.log2(min(1.0, 0.5 * (high - low))))
    for point, edge, singular, direction in (
        (piece.lower, low, piece.singular_lower, 1),
        (piece.upper, high, piece.singular_upper, -1),
    ):
        end = place(point, precision) if edge == point.value else from_float(edge)
        if singular and edge == point.value:
            segment = Segment(piece.expr, point, direction)
            last = _depth(sigma, segment, halves, digits, top, rate)
            count = max(1, math.ceil((last - halves) / max(6.0, 0.4 * digits)))
            edges = [from_float(float(t)) for t in np.round(np.linspace(halves, last, count + 1), 3)]
            out += [Panel(segment, a, b) for a, b in pairwise(edges)]
            end = libmp.mpf_add(end, libmp.mpf_shift(from_float(float(direction)), -halves))
        ends.append(end)
    guide, (a, b) = _guide(sigma, rate), map(to_float, ends)
    steps = np.linspace(a, b, math.ceil(b - a) + 1)[1:-1]
    outside = steps[(steps < guide[0]) | (steps > guide[-1])]
    segment = Segment(piece.expr)
    inner = list(map(from_float, _thinned(np.union1d(guide[(guide > a) & (guide < b)], outside), a, b)))
    if sigma.is_opaque:
        inner = _with_guards(segment, ends, inner, digits, top)
    return out + [Panel(segment, u, v) for u, v in pairwise([ends[0], *inner, ends[1]])]


def _with_guards(segment: Segment, ends: list[Raw], inner: list[Raw], digits: float, top: float) -> list[Raw]:
    """Edges at distances 4^-j from a declared end where a callable does not look smooth up to it.

    It may have its jump beside the declared place (1/3 declared as 0.3333333333333333), where no rule has a node, or a
    singularity. Smooth values change by a fourth of the last change with every step.
    """
    edges, bits = [ends[0], *inner, ends[1]], bits_of(digits) + 40
    out = list(inner)
    for end, neighbour in ((edges[0], edges[1]), (edges[-1], edges[-2])):
        width = libmp.mpf_sub(neighbour, end)
        count = bits_of(digits) // 2 + 8
        places = [libmp.mpf_add(end, libmp.mpf_shift(width, -2 * j)) for j in range(1, count + 1)]
        values = segment.function(places, bits + 2 * count)
        changes = [log_size(libmp.mpf_sub(u, v, 60, "n")) for u, v in pairwise(values)]
        for j in range(1, count - 1):
            share = changes[j] - top - j * math.log(4)
            if share > -(digits + 2) * LOG_10 and changes[j] > changes[j - 1] - 0.9:
                out += places[j : j + 2]
    ordered = sorted(set(out), key=cmp_to_key(lambda u, v: int(libmp.mpf_cmp(u, v))))
    return [e for e in ordered if libmp.mpf_cmp(edges[0], e) < 0 < libmp.mpf_cmp(edges[-1], e)]


def _thinned(edges: Array, low: float, high: float) -> list[float]:
    """Without edges that only repeat their neighbour, or an end, in other rounding."""
    kept = [low]
    for edge in edges:
        if edge - kept[-1] > 1e-13 * max(1.0, abs(edge)):
            kept.append(float(edge))
    return [e for e in kept[1:] if high - e > 1e-13 * max(1.0, abs(e))]


@lru_cache(maxsize=256)
def _guide(sigma: Activation, rate: float) -> Array:
    """Edges of the float64 engine's panels; half units and features where it gives up."""
    try:
        found = panels(sigma, rate)
        edges = [e + g.anchor for g in found.groups for e in (g.lower, g.upper)]
        return np.unique(np.concatenate(edges))
    except PrecisionError:
        marks = [p.value for p in features(sigma) if abs(p.value) < 40]
        return np.unique(np.concatenate([np.arange(-_BULK, _BULK + 0.5, 0.5), marks]))


def log_values(sigma: Activation, x: Array) -> Array:
    """log |sigma| at each x, by its pieces."""
    out = np.full(len(x), -math.inf)
    for piece in sigma.pieces:
        inside = (x > piece.lower.value) & (x < piece.upper.value)
        values = reliable(piece.expr, [from_float(float(t)) for t in x[inside]], _GRID_BITS)
        out[inside] = [log_size(v) for v in values]
    return out


class Reach(NamedTuple):
    """The range, and the logarithm of the scale: max |sigma| exp(-x^2/4), for a mean max |sigma| exp(-x^2/2)."""

    lower: float
    upper: float
    top: float


def reach_of(sigma: Activation, digits: float, degree: int, rate: float) -> Reach:
    """The range outside which nothing counts: for the square, for He_0..He_degree, and for a line."""
    drop = digits * LOG_10 + _MARGIN
    bulk = math.sqrt(2 * (drop + math.log(1 + 2 * drop)))
    reach, near = max(45.0, 1.5 * bulk), [p.value for p in features(sigma) if abs(p.value) < _TOO_FAR]
    while True:
        grid = np.linspace(-reach, reach, 8 * math.ceil(reach) + 1)
        x = np.unique(np.concatenate([grid, near, np.add(near, 1e-3), np.subtract(near, 1e-3)]))
        size, square = log_values(sigma, x), x * x / 2
        size[np.isnan(size) & (np.abs(x) > WINDOW)] = -math.inf  # pieces end there: see _check_window
        scale = size - (square / 2 if rate == SQUARE else square)
        top = float(np.max(scale[np.isfinite(scale)], initial=-math.inf))
        if top == -math.inf:
            return Reach(-bulk, bulk, 0.0)
        level = scale - top
        if rate == SQUARE:
            level = np.maximum(2 * level, size - square + _log_hermite(x, degree) - top)
        live = np.flatnonzero(~(level < -drop))  # nan and infinities count as alive
        low, high = int(live[0]), int(live[-1])
        if low > 0 and high < len(x) - 1:
            found = Reach(min(float(x[low - 1]), -bulk), max(float(x[high + 1]), bulk), top)
            _check_window(sigma, found, digits)
            return found
        if reach >= _TOO_FAR:
            raise PrecisionError(
                f"{sigma.name} has its mass against the Gaussian beyond |x| = {_TOO_FAR:g}, out of reach: rescale it"
            )
        reach *= 2


def _check_window(sigma: Activation, reach: Reach, digits: float) -> None:
    """Kinks are searched on [-WINDOW, WINDOW] only: one near its edge says that there are more outside."""
    for piece in sigma.pieces[:-1]:
        end = piece.upper
        if isinstance(end.exact, Fraction) or abs(end.value) < WINDOW - 8:
            continue
        if not -WINDOW < reach.lower < reach.upper < WINDOW:
            raise PrecisionError(
                f"{sigma.name} has kinks beyond |x| = {WINDOW:g}, which {digits:.0f} digits would need"
            )


def _log_hermite(x: Array, degree: int) -> Array:
    """log of the largest |He_k(x)|, k <= degree."""
    best = np.zeros(len(x))
    with np.errstate(divide="ignore"):
        for value, _, power in hermite_sequence(x, degree):
            best = np.maximum(best, np.log(np.abs(value)) + power * math.log(2))
    return best


def _depth(sigma: Activation, segment: Segment, start: int, digits: float, top: float, rate: float) -> float:
    """How far t has to go; a square whose share does not fall any more is not integrable."""
    drop, log_2 = digits * LOG_10 + _MARGIN, math.log(2)
    t, step, seen = float(start), 3.0, list[tuple[float, float]]()
    while t < _MAX_EXPONENT:
        bits = _GRID_BITS + math.ceil(max(t, 0.0)) + segment.boost(t)
        size = log_size(reliable(segment.expr, [segment.point(from_float(t), bits)[0]], bits)[0])
        share = (2 if rate == SQUARE else 1) * (size - top) - t * log_2
        seen.append((t, share))
        # sigma may vanish at the end, but sigma - c_0 does not: the length itself counts too
        left = max(share, size - top - t * log_2, -t * log_2 if rate == SQUARE else -math.inf)
        if left < -drop and len(seen) > 2:
            return math.ceil(t) + 2.0
        t, step = t + step, min(step * 1.1, 80.0)
    (t0, s0), (t1, s1) = seen[len(seen) // 2], seen[-1]
    if not (s1 - s0) / (t1 - t0) < -1e-5:
        raise NotSquareIntegrableError(
            f"{sigma.name} is not square-integrable under N(0, 1): its square has a pole at x = {segment.origin}"
        )
    raise PrecisionError(
        f"{sigma.name}: the singularity at x = {segment.origin} is too strong for {digits:.0f} digits "
        f"(a share exp({s1:.4g}) is left at distance 2^-{t1:.6g})"
    )
