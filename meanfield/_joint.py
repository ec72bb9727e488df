"""Expectations of functions of two normalised outputs, E F(x, y), x = x(U) and y = y(V), U and V standard Gaussian of
correlation rho: for what is no product, and must keep its digits next to rho = 1.

With V = rho U + s Z, s = sqrt(1 - rho^2), the inner integral over Z is cut where rho U + s Z meets a kink of y. What it
leaves is y smoothed by a Gaussian of deviation s: as smooth as y itself, but for U within a few s/rho of a kink over
rho, where the outer integral over U has panels of that width. The others are those that resolve x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation
from hermite._interpreter import evaluate_scaled
from hermite._numeric import Rule, Scaled, gauss_legendre, varying, without_constant
from hermite._panels import panels
from hermite._rotation import cuts
from hermite._slope import sharp_kinks
from hermite._tree import power
from hermite.errors import NotSquareIntegrableError, PrecisionError

Floats: TypeAlias = NDArray[np.float64]
_POINTS = 16
_BULK = 9.5  # exp(-BULK^2/2) = 2e-20
_BLOCK = 64
_FLAT = 1e-3  # correlations below which no kink of y is seen by U


@dataclass(frozen=True, eq=False)
class Output:
    """x = (sigma - mean)/size in units of exp(low.log_scale), where its fourth power has its mass, and its panels."""

    sigma: Activation
    low: Scaled
    mean: float
    size: float
    kinks: Floats
    cuts: Floats
    edges: Floats
    peak: float

    def __call__(self, u: Floats) -> Floats:
        m, e = evaluate_scaled(self.sigma.expr, u)
        return np.asarray((m * np.exp(e - self.low.log_scale) - self.mean) / self.size)

    def rule(self) -> Rule:
        """Nodes that integrate powers of x up to the fourth, their f left 0."""
        reach = _BULK + self.peak
        u, weights = _nodes(*_adjacent(np.unique(np.concatenate([_grid(reach), self.edges]))))
        return Rule(u, np.zeros_like(u), np.exp(-0.25 * u * u), weights / math.sqrt(2.0 * math.pi), 0.0)


@lru_cache(maxsize=256)
def output(sigma: Activation, *, centred: bool) -> Output:
    """The normalised output of a neuron, E x^2 = 1; NotSquareIntegrableError where E x^4 is infinite."""
    sigma = without_constant(sigma) if centred else sigma
    low = varying(sigma)
    groups, peak = panels(sigma).groups, abs(_fourth_power(sigma))
    reach = _BULK + peak
    edges = np.unique(np.concatenate([end + g.anchor for g in groups for end in (g.lower, g.upper)]))
    mean, square = (low.c0, low.variance) if centred else (0.0, low.second)
    kinks = np.array(sharp_kinks(sigma) if sigma.is_opaque else sigma.breakpoints)
    return Output(sigma, low, mean, math.sqrt(square), kinks, cuts(sigma), edges[np.abs(edges) < reach], peak)


def _fourth_power(sigma: Activation) -> float:
    """Where sigma^4 exp(-x^2/2) is largest."""
    square = replace(sigma, expr=power(sigma.expr, Fraction(2)), name=f"({sigma.name})^2", declared_growth=None)
    try:
        return panels(square).peak
    except NotSquareIntegrableError as error:
        raise NotSquareIntegrableError(
            f"E sigma^4 is infinite for sigma = {sigma.name}: entries of a sample Gram matrix have no variance at any "
            "width"
        ) from error


def pair_mean(F: Callable[[Floats, Floats], Floats], x: Output, y: Output, root: float, *, mirrored: bool) -> float:
    """E F(x(U), y(V)), U and V of correlation 1 - root^2, or root^2 - 1 if mirrored, 0 < root <= 1.

    F acts on broadcast arrays, has no kinks of its own and grows as a polynomial of degree 4. Relative error about
    1e-13 of E |F|, and what x and y round to; 2 to 20 ms.
    """
    rho = (root - 1.0) * (root + 1.0) if mirrored else (1.0 - root) * (1.0 + root)
    s = root * math.sqrt((1.0 - root) * (1.0 + root) + 1.0)
    u, weights = _nodes(*_adjacent(_outer_edges(x, y, rho, s)))
    weights = weights * np.exp(-0.5 * u * u)
    reach = _BULK + y.peak * s
    grid = _grid(reach, 1.5)
    total = 0.0
    with np.errstate(all="ignore"):  # what leaves float64 is refused
        for start in range(0, len(u), _BLOCK):
            here = u[start : start + _BLOCK, None]
            kinks = np.clip((y.cuts - rho * here) / s, -reach, reach)
            edges = np.sort(np.concatenate([np.broadcast_to(grid, (len(here), len(grid))), kinks], axis=1))
            low, high = _adjacent(edges)
            wide = np.any(high > low, axis=0)  # kinks out of reach have left panels of no width
            z, inner = _nodes(low[:, wide], high[:, wide])
            inner *= np.exp(-0.5 * z * z)
            values = F(x(here), y(rho * here + s * z))
            total += float(weights[start : start + _BLOCK] @ np.sum(inner * values, axis=1))
    if not math.isfinite(total):
        raise PrecisionError(f"the fourth moments of {x.sigma.name} leave float64")
    return total / (2.0 * math.pi)


def _outer_edges(x: Output, y: Output, rho: float, s: float) -> Floats:
    reach = _BULK + max(x.peak, y.peak)
    marks = [_grid(reach), x.edges]
    if abs(rho) > _FLAT:
        marks += [y.cuts / rho, (y.kinks[:, None] / rho + np.arange(-9.0, 9.1, 1.5) * (s / rho)).ravel()]
    edges = np.unique(np.concatenate(marks))
    return np.asarray(edges[np.abs(edges) <= reach])


def _grid(reach: float, step: float = 1.0) -> Floats:
    return np.linspace(-reach, reach, math.ceil(2.0 * reach / step) + 1)


def _adjacent(edges: Floats) -> tuple[Floats, Floats]:
    return edges[..., :-1], edges[..., 1:]


def _nodes(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Gauss points and weights on each interval of the last axis, flattened into it."""
    t, w = gauss_legendre(_POINTS)
    half = 0.5 * (high - low)[..., None]
    shape = (*low.shape[:-1], -1)
    return (0.5 * (low + high)[..., None] + half * t).reshape(shape), (half * w).reshape(shape)
