"""Where an activation has its mass against a Gaussian: the interval that quadrature covers, and its scale.

Everything is found from log|sigma(x)| - rate x^2 on a grid widened until it has fallen far below its maximum; an
infinite second moment shows as a failure to fall. Read by `_panels` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import _tree as t
from ._activation import Activation
from ._algebra import as_polynomial
from ._interpreter import evaluate_scaled
from ._pieces import breakpoints
from ._points import Point, rational
from ._recurrence import Array
from ._roots import zeros
from ._tree import Node
from .errors import NotSquareIntegrableError, PrecisionError

SQUARE, MEAN = 0.25, 0.5  # rates of the Gaussian against which sigma is resolved
DROP = 40.5  # exp(-40.5) = 2.6e-18: what lies below the maximum of f by this factor is left out
BULK = 12.75  # exp(-BULK^2/4) = exp(-DROP)
_TOO_FAR = 1440.0


@dataclass(frozen=True)
class Extent:
    lower: float
    upper: float
    log_scale: float
    peak: float
    rate: float


def features(sigma: Activation) -> list[Point]:
    """Piece ends, and zeros and turning points of polynomial arguments: a narrow spike sits at one of them."""
    found = {rational(0), *breakpoints(sigma.pieces)}
    for piece in sigma.pieces:
        for u in _arguments(piece.expr):
            coefficients = as_polynomial(u)
            if coefficients is not None and 1 < len(coefficients) < 12:
                slope = t.ZERO
                for k, c in reversed(list(enumerate(coefficients))[1:]):
                    slope = t.add(t.mul(slope, t.X), t.num(k * c))
                found.update((*zeros(u), *zeros(slope)))
    return sorted(found)


def _arguments(node: Node) -> Iterator[Node]:
    if node.op in t.FUNCTIONS or node.op == "pow":
        yield node.args[0]
    elif node.op == "div":
        yield node.args[1]
    for a in node.args:
        yield from _arguments(a)


def _log_size(sigma: Activation, x: Array, rate: float) -> Array:
    """log |sigma(x) exp(-rate x^2)|, -inf where it vanishes."""
    m, e = evaluate_scaled(sigma.expr, x)
    with np.errstate(all="ignore"):
        if not sigma.is_opaque:  # overflow of a tree is kept in e, so this is a division by a rounded 0
            m = np.where(np.isinf(m), np.nan, m)
        return np.asarray(np.log(np.abs(m)) + e - rate * x * x)


def extent_of(sigma: Activation, places: list[Point], rate: float) -> Extent:
    reach, near = 45.0, [p.value for p in places if abs(p.value) < _TOO_FAR]
    while True:
        grid = [np.linspace(-reach, reach, 361), near, np.add(near, 1e-3), np.subtract(near, 1e-3)]
        x = np.unique(np.concatenate(grid))
        size = _log_size(sigma, x, rate)
        check_real(sigma, x, size)
        finite = np.where(np.isfinite(size), size, -np.inf)
        top = float(finite.max())
        if top == -np.inf:
            return Extent(-BULK, BULK, 0.0, 0.0, rate)
        live = np.flatnonzero(finite >= top - DROP)
        low, high = int(live[0]), int(live[-1])
        if low > 0 and high < len(x) - 1:
            peak = float(x[int(finite.argmax())])
            # the bulk of N(0, 1) is always covered: sigma - c_0 lives there even where sigma vanishes
            lower, upper = min(float(x[low - 1]), -BULK), max(float(x[high + 1]), BULK)
            return Extent(lower, upper, round(4 * top) / 4, peak, rate)
        if reach >= _TOO_FAR:
            raise _too_large(sigma, x, finite, rate)
        reach *= 2


def check_real(sigma: Activation, x: Array, size: Array) -> None:
    """Refuse nan and overflow; a tree is real by its pieces, so there they are float64's fault."""
    bad = np.flatnonzero(np.isnan(size))
    if len(bad) > 2 and np.any(np.diff(bad) == 1):
        raise not_finite(sigma, float(x[bad[0]]))
    over = np.flatnonzero(np.isposinf(size))
    if len(over) > 1 and np.any(np.diff(over) == 1):
        edge = float(np.min(np.abs(x[over])))
        if not sigma.is_opaque or _log_ratio(sigma, edge) > 3:
            raise NotSquareIntegrableError(
                f"{sigma.name} grows at least like exp(x^2/4): it is not square-integrable under N(0, 1)"
            )
        raise PrecisionError(f"{sigma.name} exceeds float64 at |x| = {edge:.3g}; give it as an expression text")


def not_finite(sigma: Activation, x: float) -> ValueError:
    if sigma.is_opaque:
        return NotSquareIntegrableError(
            f"{sigma.name} is not finite near x = {x:g}; sigma must be a real number almost everywhere"
        )
    return PrecisionError(f"{sigma.name} cannot be evaluated in float64 near x = {x:g}")


def _log_ratio(sigma: Activation, edge: float) -> float:
    """log|sigma| at 0.98 edge over that at half of it: 2 for exponential growth, 4 for exp(c x^2)."""
    with np.errstate(all="ignore"):
        values = np.log(np.abs(sigma(np.array([0.98, -0.98, 0.49, -0.49]) * edge)))
    return float(np.nanmax(values[:2]) / max(np.nanmax(values[2:]), 1.0))


def _too_large(sigma: Activation, x: Array, size: Array, rate: float) -> ValueError:
    """Still large at |x| = 1440: divergent unless the density decays faster than 1/|x|."""
    growth = sigma.growth
    if growth is not None and growth[2] < 0.25:
        return PrecisionError(f"{sigma.name} has its mass against the Gaussian beyond |x| = {_TOO_FAR:g}: out of reach")
    density = (2 * size if rate == SQUARE else size) + np.log(np.maximum(np.abs(x), 1))
    half = np.abs(x) < _TOO_FAR / 2
    if density[~half].max() > density[half].max() - 1.0 or density[~half].max() > 0:
        return NotSquareIntegrableError(
            f"{sigma.name} is not square-integrable under N(0, 1): its second moment is infinite"
        )
    return PrecisionError(
        f"{sigma.name} decays too slowly against the Gaussian to be integrated in float64; declare growth=(A, B, Q) "
        "with Q < 1/4 if it has one"
    )
