"""Expectations over two correlated Gaussians as double integrals in rotated coordinates: any function with known kinks.

Slow (milliseconds a point) and accurate to 1e-15, they are the source of `_dual` near |rho| = 1, where the Hermite
series of a kinked sigma has not converged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ._activation import Activation
from ._extent import BULK
from ._interpreter import evaluate_scaled
from ._numeric import Scaled, gauss_legendre
from ._panels import panels
from ._recurrence import Array
from ._slope import sharp_kinks, smooth_edges

Function: TypeAlias = Callable[[Array], Array]
Places: TypeAlias = tuple[tuple[float, float], ...]
_BLOCK = 32
_NARROW = 0.45  # of panels: 24 points on one of width 1 no longer resolve what needs narrower ones


def centred(sigma: Activation, low: Scaled, x: Array) -> Array:
    """(sigma(x) - c_0) exp(-M)."""
    m, e = evaluate_scaled(sigma.expr, x)
    with np.errstate(over="ignore"):
        return np.asarray(m * np.exp(e - low.log_scale) - low.c0)


def _kinks(sigma: Activation) -> Array:
    """Where sigma is not smooth."""
    return _distinct(list(sharp_kinks(sigma) if sigma.is_opaque else sigma.breakpoints), sigma)


@lru_cache(maxsize=64)
def cuts(sigma: Activation) -> Array:
    """Kinks, and edges of narrow panels where sigma is steep: 24 points then resolve it between them."""
    if sigma.is_opaque:
        edges = np.array(smooth_edges(sigma))
        narrow = np.diff(edges) < _NARROW
        return _distinct([*_kinks(sigma), *edges[:-1][narrow], *edges[1:][narrow]], sigma)
    marks = list(_kinks(sigma))
    for group in panels(sigma).groups:
        width = group.upper - group.lower
        narrow = (width < _NARROW) & (width > 1e-3)
        marks += [*(group.lower[narrow] + group.anchor), *(group.upper[narrow] + group.anchor)]
    return _distinct(marks, sigma)


def _distinct(marks: list[float], sigma: Activation) -> Array:
    inside = sorted(float(m) for m in marks if abs(m) < BULK + 2 * abs(panels(sigma).peak))
    # where bisection had to find a kink, both ends of the panel that holds it are known
    apart = 1e-9 if sigma.is_opaque else 1e-13
    return np.array([m for i, m in enumerate(inside) if i == 0 or m - inside[i - 1] > apart])


def _composite(low: Array, high: Array) -> tuple[Array, Array]:
    """24 Gauss points on each interval of the last axis, flattened into it."""
    nodes, weights = gauss_legendre(24)
    half = 0.5 * (high - low)[..., None]
    x = 0.5 * (low + high)[..., None] + half * nodes
    shape = (*low.shape[:-1], -1)
    return x.reshape(shape), (half * weights).reshape(shape)


def at_minus_one(sigma: Activation, low: Scaled) -> float:
    """f(-1) = E (sigma(X) - c_0)(sigma(-X) - c_0)/variance, on the panels of both."""
    ends = {abs(float(e)) for g in panels(sigma).groups for e in np.append(g.lower, g.upper[-1:]) + g.anchor}
    edges = np.array(sorted({0.0, *ends}))
    x, w = _composite(edges[:-1], edges[1:])
    a, b = (centred(sigma, low, t) for t in (x, -x))
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return float(2 * np.sum(w * a * b * density) / low.variance)


def conditional(sigma: Activation, g: Function, mean: float, deviation: float) -> float:
    """E g(mean + deviation Z), Z ~ N(0, 1), for a g that is smooth between the cuts of sigma.

    At deviation 0 the two one-sided values of g are averaged.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        marks = (cuts(sigma) - mean) / deviation
    edges = np.unique(np.concatenate([np.arange(-9.0, 9.5), marks[np.abs(marks) < 9]]))
    z, weight = _composite(edges[:-1], edges[1:])
    nudge = 4 * np.spacing(abs(mean)) * np.sign(z) if deviation == 0 else 0.0
    values = g(mean + deviation * z + nudge)
    return float(np.sum(weight * values * np.exp(-0.5 * z * z))) / math.sqrt(2 * math.pi)


def pair(sigma: Activation, g: Function, s: float, *, mirrored: bool, start: float = 0.0) -> float:
    """E g(X) g(Y), or E g(X) g(-Y) if mirrored, where X and Y have correlation 1 - s^2, 0 <= s < 1.

    g is smooth between the cuts of sigma. With X = U cos + V sin and Y = U cos - V sin (angle arccos(rho)/2) a kink a
    lies at u = (a -+ v sin)/cos, and two kinks, or places where g is steep, meet at v = (a - b)/(2 sin). A joint
    density on a fixed grid would miss the ridge at rho near 1. Both integrands are even: in v for (X, Y), in u for
    (X, -Y).

    start: if mirrored, g(X) g(-Y) is known to vanish for |v| < start, and the result is times exp(start^2/2).
    """
    sine, cosine = s * math.sqrt(0.5), math.sqrt(1 - 0.5 * s * s)  # of half of arccos(1 - s^2)
    reach = BULK + 2 * abs(panels(sigma).peak)
    v_edges = _outer_edges(_meetings(sigma, sine, start + BULK, mirrored=mirrored), start, mirrored=mirrored)
    v, v_weight = _composite(v_edges[:-1], v_edges[1:])
    v_weight = v_weight * np.exp(-0.5 * np.maximum(np.abs(v) - start, 0.0) * (np.abs(v) + start))
    keep = (v_weight > 1e-19) & (np.abs(v) >= start)
    v, v_weight = v[keep], v_weight[keep]
    # both marginals decay at |x| = reach, so u ends at reach/cos
    u_low, u_high = 0.0 if mirrored else -reach / cosine, reach / cosine
    grid = np.linspace(u_low, u_high, max(2, math.ceil(u_high - u_low)))
    total = 0.0
    for block in range(0, len(v), _BLOCK):
        part = slice(block, block + _BLOCK)
        inner = _inner((cuts(sigma), cuts(sigma)), (g, g), (sine, cosine), grid, v[part], mirrored=mirrored)
        total += float(np.sum(v_weight[part] * inner))
    return 2 * total / (2 * math.pi)


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two functions of `covariance`: sigma, whose cuts it has, and its values."""

    sigma: Activation
    values: Function


def covariance(first: Side, second: Side, rho: float) -> float:
    """E g(X) h(Y) of two functions, X and Y of correlation rho in (-1, 1): as `pair`, without its symmetries."""
    mirrored = rho < 0
    sine, cosine = math.sqrt(0.5 * (1 - abs(rho))), math.sqrt(0.5 * (1 + abs(rho)))
    reach = BULK + 2 * max(abs(panels(side.sigma).peak) for side in (first, second))
    meet = _meetings_of(_places(first.sigma), _places(second.sigma), sine, BULK, mirrored=mirrored)
    edges = _outer_edges(meet, 0.0, mirrored=True)
    v, v_weight = _composite(edges[:-1], edges[1:])
    v_weight = v_weight * np.exp(-0.5 * v * v)
    keep = v_weight > 1e-19
    v, v_weight = v[keep], v_weight[keep]
    grid = np.linspace(-reach / cosine, reach / cosine, max(2, math.ceil(2 * reach / cosine)))
    total, marks, functions = 0.0, (cuts(first.sigma), cuts(second.sigma)), (first.values, second.values)
    for block in range(0, len(v), _BLOCK):
        part = slice(block, block + _BLOCK)
        total += float(
            np.sum(v_weight[part] * _inner(marks, functions, (sine, cosine), grid, v[part], mirrored=mirrored))
        )
    return total / (2 * math.pi)


def on_a_line(first: Side, second: Side, *, mirrored: bool) -> float:
    """E g(X) h(X), or E g(X) h(-X) if mirrored: what `covariance` tends to at rho = +-1."""
    reach = BULK + 2 * max(abs(panels(side.sigma).peak) for side in (first, second))
    other = -cuts(second.sigma) if mirrored else cuts(second.sigma)
    marks = np.concatenate([cuts(first.sigma), other])
    edges = np.unique(np.concatenate([np.linspace(-reach, reach, math.ceil(4 * reach)), marks[np.abs(marks) < reach]]))
    x, weight = _composite(edges[:-1], edges[1:])
    values = first.values(x) * second.values(-x if mirrored else x)
    return float(np.sum(weight * values * np.exp(-0.5 * x * x))) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=64)
def _places(sigma: Activation) -> Places:
    """Kinks, with width 0, and places where sigma is steep, with the width of the narrowest panel there."""
    found = [(float(k), 0.0) for k in _kinks(sigma)]
    marks = cuts(sigma)
    width = np.diff(marks)
    narrow = np.concatenate([[False], width < _NARROW, [False]])
    for first, last in zip(
        np.flatnonzero(narrow[1:] > narrow[:-1]), np.flatnonzero(narrow[1:] < narrow[:-1]), strict=True
    ):
        i = first + int(np.argmin(width[first:last]))
        found.append((float(0.5 * (marks[i] + marks[i + 1])), float(width[i])))
    return tuple(found)


def _meetings(sigma: Activation, sine: float, limit: float, *, mirrored: bool) -> Array:
    """Edges in v: where kinks meet, and geometrically away from where steep places do."""
    return _meetings_of(_places(sigma), _places(sigma), sine, limit, mirrored=mirrored)


def _meetings_of(first: Places, second: Places, sine: float, limit: float, *, mirrored: bool) -> Array:
    edges: list[float] = []
    for (a, w), (b, other) in itertools.product(first, second):
        between = a + b if mirrored else a - b
        if sine == 0 or abs(between) > 2 * sine * (limit + 1.5):
            continue
        meet = between / (2 * sine)
        edges.append(meet)
        step = max(w, other) if min(w, other) == 0 else min(w, other)
        step /= 4 * sine
        while 0 < step < 1.5:
            edges += [meet - step, meet + step]
            step *= 2
    return np.array(edges)


def _outer_edges(meet: Array, start: float, *, mirrored: bool) -> Array:
    """Panels in v: from 0 if the integrand is even in v, else on both sides; finer where the weight decays faster."""
    grid = start + np.arange(0.0, BULK + 1.0, 1.5) if start < 1 else start + np.geomspace(0.5 / start, BULK, 24)
    grid = np.append(start, grid)
    marks = meet[(np.abs(meet) > start) & (np.abs(meet) < start + BULK)]
    if not mirrored:
        return np.unique(np.concatenate([grid, marks[marks > 0]]))
    return np.unique(np.concatenate([grid, -grid, marks]))


def _inner(
    marks: tuple[Array, Array],
    functions: tuple[Function, Function],
    angle: tuple[float, float],
    grid: Array,
    v: Array,
    *,
    mirrored: bool,
) -> Array:
    """The integral over u for each v, on panels cut at every kink of both functions."""
    sine, cosine = angle
    (first, second), (g, h) = marks, functions
    second = -second if mirrored else second
    shift = (v * sine)[:, None]
    kinks = np.concatenate([(first - shift) / cosine, (second + shift) / cosine], axis=1)
    edges = np.concatenate([np.broadcast_to(grid, (len(v), len(grid))), np.clip(kinks, grid[0], grid[-1])], axis=1)
    edges.sort(axis=1)
    u, weight = _composite(edges[:, :-1], edges[:, 1:])
    x, y = u * cosine + shift, u * cosine - shift
    a, b = g(x), h(-y if mirrored else y)
    return np.asarray(np.sum(weight * a * b * np.exp(-0.5 * u * u), axis=1))
