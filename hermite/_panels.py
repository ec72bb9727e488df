"""Where to put quadrature nodes: panels on which sigma(x) exp(-x^2/4) is a polynomial to rounding.

Every sigma is treated alike, whatever its kinks: a panel is bisected until the Chebyshev coefficients of its samples
(end points included, so that a kink at an end is seen) have decayed, so the panels are found by the same test that
proves them good. Towards a singular end panels shrink geometrically, in a coordinate measured from that end.

All sizes are relative: f = sigma(x) exp(-x^2/4 - M) has maximum about 1, so that neither exp(20*x), whose second
moment exceeds float64, nor relu(x - 30), whose second moment is 1e-196, needs special care.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._activation import Activation
from ._algebra import shifted
from ._extent import SQUARE, Extent, extent_of, features, not_finite
from ._interpreter import evaluate_scaled
from ._pieces import Piece
from ._points import Point
from ._recurrence import Array
from ._tree import Node
from .errors import NotSquareIntegrableError, PrecisionError

ORDER = 25  # samples per panel in the resolution test
_NEGLIGIBLE = 1e-18
_MAX_PANELS = 20000
_RATIO = 0.25  # of consecutive panels at a singular end: 24 Gauss points then reach 1e-20 for any power or log


@dataclass(frozen=True)
class Group:
    """Panels [lower_i, upper_i] of one smooth tree in the coordinate x - anchor."""

    expr: Node
    anchor: float
    lower: Array
    upper: Array


@dataclass(frozen=True)
class Panels:
    """The panels of an activation, the scale M, and what was learnt on the way.

    peak: where f is largest; remainder: bound (relative to f = 1) of the integral left out; kinks: the kinks and
    jumps found in a callable.
    """

    groups: tuple[Group, ...]
    log_scale: float
    peak: float
    remainder: float
    kinks: tuple[float, ...]


def weighted(expr: Node, anchor: float, s: Array, log_scale: float, rate: float = SQUARE) -> Array:
    """f = sigma(x) exp(-rate x^2 - M) at x = anchor + s.

    Far out, or with a large M, the exponent is formed in extended precision: exp(10 x) exp(-x^2/4) is a small
    difference of large numbers. Near the bulk its rounding weighs x^2 exp(-x^2/4) and is harmless.
    """
    m, e = evaluate_scaled(expr, s)
    far = abs(log_scale) > 8 or abs(anchor) + float(np.abs(s).max(initial=0.0)) > 16
    x = (s.astype(np.longdouble) if far else s) + anchor
    with np.errstate(all="ignore"):
        factor = np.exp(e - rate * x * x - log_scale).astype(np.float64)
        return np.where(m == 0, 0.0, m * factor)


@lru_cache(maxsize=512)
def panels(sigma: Activation, rate: float = SQUARE) -> Panels:
    """The panels of an activation against exp(-rate x^2): 1/4 for squares and coefficients, 1/2 for a mean alone.

    Raises NotSquareIntegrableError for an infinite second moment or values that are not real, PrecisionError where
    bisection does not end.
    """
    places = features(sigma)
    extent = extent_of(sigma, places, rate)
    for _ in range(4):
        result, highest, peak = _adapt(sigma, places, extent)
        if highest < 1e3:  # the scale was right; a spike between the first samples corrects it and starts again
            return result
        extent = replace(extent, log_scale=extent.log_scale + round(4 * math.log(highest)) / 4, peak=peak)
    raise PrecisionError(f"{sigma.name}: its maximum against the Gaussian could not be located")


def _chebyshev_tail() -> tuple[Array, Array]:
    """Lobatto-Chebyshev points on [-1, 1] and the rows giving the last three coefficients of an interpolant."""
    n, j = ORDER - 1, np.arange(ORDER)
    # the index is reduced before the cosine: at 24 pi its argument would cost two digits
    rows = np.array([2.0 / n * np.cos(np.pi * ((k * j) % (2 * n)) / n) for k in (n - 2, n - 1, n)])
    rows[-1] *= 0.5
    rows[:, [0, -1]] *= 0.5
    return np.cos(np.pi * j / n)[::-1].copy(), rows[:, ::-1].copy()


_POINTS, _TAIL = _chebyshev_tail()


@dataclass
class _Search:
    """One pass over all pieces: what has been accepted and what was seen."""

    sigma: Activation
    extent: Extent
    tolerance: float
    groups: list[Group]
    highest: float = 0.0
    peak: float = 0.0
    remainder: float = 0.0
    count: int = 0

    def sample(self, expr: Node, anchor: float, low: Array, high: Array) -> tuple[Array, Array]:
        """Points and values of f on the panels."""
        s = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * _POINTS
        s[:, 0], s[:, -1] = low, high
        if self.sigma.is_opaque:  # the value at a jump belongs to one side only: step inside by a few ulps
            step = 4 * np.spacing(np.abs(s))
            s[:, 0] += step[:, 0]
            s[:, -1] -= step[:, -1]
        f = weighted(expr, anchor, s.ravel(), self.extent.log_scale, self.extent.rate).reshape(s.shape)
        bad = ~np.isfinite(f)
        if np.any(bad):
            self.mend(f, bad, s, anchor)
        return s, f

    def note_peak(self, s: Array, f: Array, anchor: float) -> None:
        size = np.abs(f)
        top = int(size.argmax())
        if size.flat[top] > self.highest:
            self.highest, self.peak = float(size.flat[top]), float(s.flat[top] + anchor)

    def mend(self, f: Array, bad: npt.NDArray[np.bool_], s: Array, anchor: float) -> None:
        """An isolated 0/0 or pole takes its neighbour's value: bisection then closes in on it."""
        if np.any(bad[:, 1:-1] & bad[:, :-2] & bad[:, 2:]):
            raise not_finite(self.sigma, float(s[bad][0] + anchor))
        for i, j in zip(*np.nonzero(bad), strict=True):
            near = j + 1 if j < ORDER - 1 and not bad[i, min(j + 1, ORDER - 1)] else j - 1
            f[i, j] = f[i, near]

    def refine(self, expr: Node, anchor: float, low: Array, high: Array, *, graded: bool = False) -> None:
        """Bisect until resolved; what cannot be resolved has shrunk to a place of no weight."""
        kept_low, kept_high = [low[:0]], [high[:0]]
        while len(low):
            self.count += len(low)
            if self.count > _MAX_PANELS:
                raise PrecisionError(
                    f"{self.sigma.name} is not resolved by {_MAX_PANELS} panels: it varies too fast for float64, "
                    "or its values carry too few digits (float32, or cancellation)"
                )
            s, f = self.sample(expr, anchor, low, high)
            width, size = high - low, np.abs(f).max(axis=1)
            tail = np.abs(f @ _TAIL.T).max(axis=1)
            resolved = tail <= np.maximum(self.tolerance * np.maximum(size, 1), _noise(s, f, anchor))
            position = np.maximum(np.abs(low), np.abs(high))
            stuck = ~resolved & (width <= 4e-16 * np.maximum(position, 1e-290))
            done = resolved | stuck | (tail * width <= _NEGLIGIBLE) | (size * width <= _NEGLIGIBLE)
            self.settle(width[stuck], size[stuck], anchor, low[stuck])
            if not graded:
                self.note_peak(s[~stuck], f[~stuck], anchor)
            kept_low.append(low[done])
            kept_high.append(high[done])
            low, high = _halves(low[~done], high[~done])
        order = np.argsort(np.concatenate(kept_low))
        a, b = np.concatenate(kept_low)[order], np.concatenate(kept_high)[order]
        if len(a):
            self.groups.append(Group(expr, anchor, a, b))

    def settle(self, width: Array, size: Array, anchor: float, low: Array) -> None:
        """Account for panels as narrow as float64 allows; a pole there is told by its share of the second moment."""
        with np.errstate(over="ignore"):
            share = width * (size * size if self.extent.rate == SQUARE else size)
        if np.any(share > 0.1):
            where = float(low[int(share.argmax())] + anchor)
            raise NotSquareIntegrableError(
                f"{self.sigma.name} is not square-integrable under N(0, 1): it has a pole near x = {where:g}"
            )
        self.remainder += float(np.sum(width * np.maximum(size, 1)))


def _found_kinks(search: _Search) -> Iterator[float]:
    """Where a callable is not smooth: a panel laid across the edge of two is not resolved there."""
    low = np.sort(np.concatenate([g.lower for g in search.groups]))
    high = np.sort(np.concatenate([g.upper for g in search.groups]))
    edges, width = low[1:], high - low
    reach = 0.75 * np.minimum(width[:-1], width[1:])
    s, f = search.sample(search.sigma.expr, 0.0, edges - reach, edges + reach)
    tail = np.abs(f @ _TAIL.T).max(axis=1)
    noise = 100 * np.maximum(search.tolerance, _noise(s, f, 0.0))
    rough = (tail > noise) | (width[:-1] < 1e-12)
    last = -math.inf
    for i in np.flatnonzero(rough):
        if edges[i] - last > 1e-6:  # bisection leaves a run of edges: its narrowest panel holds the kink
            run = np.flatnonzero(rough & (np.abs(edges - edges[i]) <= 1e-6))
            yield float(edges[run[np.argmin(reach[run])]])
        last = float(edges[i])


def _noise(s: Array, f: Array, anchor: float) -> Array:
    """What an ulp of x does to f on each panel: sin(50*x) cannot be smoother than that."""
    # mean slope, not the largest: a jump has one large slope, and must be closed in on to the last ulp
    variation = np.abs(np.diff(f, axis=1)).sum(axis=1)
    with np.errstate(all="ignore"):
        noise = 2e-16 * np.abs(s + anchor).max(axis=1) * variation / (s[:, -1] - s[:, 0])
    return np.where(np.isfinite(noise), noise, 0.0)


def _halves(low: Array, high: Array) -> tuple[Array, Array]:
    middle = 0.5 * (low + high)
    return np.concatenate([low, middle]), np.concatenate([middle, high])


def _adapt(sigma: Activation, places: list[Point], extent: Extent) -> tuple[Panels, float, float]:
    tolerance = 1e-15 * (1 + extent.rate * extent.peak**2)
    search = _Search(sigma, extent, tolerance, [])
    for piece in sigma.pieces:
        _refuse_far_poles(search, piece)
        low, high = max(piece.lower.value, extent.lower), min(piece.upper.value, extent.upper)
        if not high - low > 4 * np.spacing(max(abs(low), abs(high))):  # two brackets of one root
            continue
        if piece.singular_lower and low == piece.lower.value:
            low = _graded(search, piece, low, min(low + 1, 0.5 * (low + high)), lower_end=True)
        if piece.singular_upper and high == piece.upper.value:
            high = _graded(search, piece, high, max(high - 1, 0.5 * (low + high)), lower_end=False)
        width = 0.25 if sigma.is_opaque else 1.0
        for expr, anchor, edges in _blocks(piece, low, high, places, width, opaque=sigma.is_opaque):
            search.refine(expr, anchor, edges[:-1], edges[1:])
    kinks = tuple(_found_kinks(search)) if sigma.is_opaque else ()
    result = Panels(tuple(search.groups), extent.log_scale, search.peak, search.remainder, kinks)
    return result, search.highest, search.peak


def _blocks(
    piece: Piece, low: float, high: float, places: list[Point], width: float, *, opaque: bool
) -> Iterator[tuple[Node, float, Array]]:
    """Panel edges of a piece by neighbourhoods of the marks inside it, in the distance from a rational mark.

    So x/10 - 1 keeps its digits near x = 10, and a spike at 1/3 its shape.
    """
    marks = [p for p in places if low < p.value < high]
    ends = [low, *(p.value for p in marks), high]
    homes = [_home(p, low, high) for p in (piece.lower, *marks, piece.upper)]
    for (a, b), (left, right) in zip(pairwise(ends), pairwise(homes), strict=True):
        edges = np.linspace(a, b, max(1, math.ceil((b - a) / width)) + 1)
        if opaque or left == right:
            parts = [(Fraction(0) if opaque else left, edges)]
        else:
            half = len(edges) // 2
            edges = np.array([a, 0.5 * (a + b), b]) if len(edges) == 2 else edges
            half = max(1, half)
            parts = [(left, edges[: half + 1]), (right, edges[half:])]
        for home, part in parts:
            expr = piece.expr if home == 0 else shifted(piece.expr, home)
            yield expr, float(home), part - float(home)


def _home(point: Point, low: float, high: float) -> Fraction:
    """The rational place a panel is measured from: the mark, if it is one and lies in reach, else 0."""
    inside = low - 1 <= point.value <= high + 1
    return point.exact if isinstance(point.exact, Fraction) and inside else Fraction(0)


class _Approach(NamedTuple):
    """Panels [a_i, b_i] shrinking towards a singular end, in the coordinate x - anchor."""

    expr: Node
    anchor: float
    end: float
    a: Array
    b: Array
    distance: Array
    exact: bool


def _approach(piece: Piece, inner: float, *, lower_end: bool) -> _Approach:
    """At a rational end the tree is rewritten in the distance from it, so distances down to 1e-290 are exact."""
    point = piece.lower if lower_end else piece.upper
    end, direction = point.value, 1.0 if lower_end else -1.0
    if isinstance(point.exact, Fraction):
        expr, anchor, origin, smallest, exact = shifted(piece.expr, point.exact), end, 0.0, 1e-290, True
    else:
        expr, anchor, origin, smallest, exact = piece.expr, 0.0, end, float(64 * np.spacing(abs(end))), False
    first = abs(inner - end)
    levels = max(2, int(math.log(first / smallest) / -math.log(_RATIO)))
    distance = first * _RATIO ** np.arange(levels + 1.0)
    return _Approach(
        expr, anchor, origin, origin + direction * distance[1:], origin + direction * distance[:-1], distance, exact
    )


def _graded(search: _Search, piece: Piece, end: float, inner: float, *, lower_end: bool) -> float:
    """Panels shrinking towards a singular end until nothing is left; returns where they start."""
    way = _approach(piece, inner, lower_end=lower_end)
    direction = 1.0 if lower_end else -1.0
    count = _levels_needed(search, way)
    low, high = (way.a, way.b) if lower_end else (way.b, way.a)
    search.refine(way.expr, way.anchor, low[:count], high[:count], graded=True)
    # sigma is negligible on what is left, or smooth enough for its width, but sigma - c_0 is not: one panel closes it
    edge = way.end if way.exact else way.end + direction * 4 * np.spacing(abs(end))  # where the tree is surely real
    rest = sorted((edge, float(way.a[count - 1])))
    search.groups.append(Group(way.expr, way.anchor, np.array(rest[:1]), np.array(rest[1:])))
    return end + direction * float(way.distance[0])


def _refuse_far_poles(search: _Search, piece: Piece) -> None:
    """A pole of the square makes the moment infinite, however little weight the Gaussian gives its place."""
    for singular, point, lower_end in (
        (piece.singular_lower, piece.lower, True),
        (piece.singular_upper, piece.upper, False),
    ):
        if singular and not search.extent.lower < point.value < search.extent.upper:
            width = min(piece.upper.value - piece.lower.value, 2.0)
            if width > 1e-9 * abs(point.value):
                inner = point.value + 0.5 * width * (1 if lower_end else -1)
                _levels_needed(search, _approach(piece, inner, lower_end=lower_end))


def _levels_needed(search: _Search, way: _Approach) -> int:
    """How many graded panels carry weight; refuses a divergent second moment by the ratio of their shares."""
    name, extent, exact = search.sigma.name, search.extent, way.exact
    middle = 0.5 * (way.a + way.b)
    m, e = evaluate_scaled(way.expr, middle)
    where = way.anchor if exact else way.end
    lost = np.flatnonzero(~np.isfinite(m))  # at distances whose square underflows, say
    usable = int(lost[0]) if len(lost) else len(m)
    if usable < 3:
        raise not_finite(search.sigma, where)
    with np.errstate(divide="ignore", invalid="ignore"):  # sigma may be 0 on the piece
        size = np.log(np.abs(m)) + e - extent.rate * (way.anchor + middle) ** 2 - extent.log_scale
        square = 2 * size if extent.rate == SQUARE else size
        trend = np.diff((np.log(way.distance[:-1]) + square)[:usable][-12:])
    # at an irrational end rounding blurs the last panels, so only a clear rise proves a pole
    if np.all(trend >= (-1e-4 if exact else 0.1)):
        raise NotSquareIntegrableError(
            f"{name} is not square-integrable under N(0, 1): its square has a pole at x = {where:g}"
        )
    share = (np.log(way.distance[:-1]) + np.maximum(size, square))[:usable]
    live = np.flatnonzero(share > math.log(_NEGLIGIBLE))
    count = int(live[-1]) + 2 if len(live) else 1
    if count <= len(share):
        search.remainder += math.exp(share[count - 1])
        return count
    left = math.exp(min(float(share[-1]), 700.0))
    if not exact:
        search.remainder += left
        return len(share)
    raise PrecisionError(
        f"{name}: the singularity at x = {where:g} is too strong for float64 "
        f"(share {left:.1e} left at distance {way.distance[usable]:.0e})"
    )
