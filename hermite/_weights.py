"""Hermite weights w_k = c_k^2/variance with every digit that maps of small correlations need.

Read by `_build` only. Closed forms where quadrature cannot see a coefficient, exact sums for the first ones, and
multiprecision where they are still too small beside sigma.
"""

from __future__ import annotations

import math

import numpy as np

from ._activation import Activation
from ._extent import BULK
from ._numeric import Scaled, rule, scaled_coefficients
from ._recurrence import Array, hermite_sequence
from ._rotation import centred
from ._tree import Node
from .errors import PrecisionError

_EPS = 2.0**-52
_ROUNDING = 1e-30
_CAREFUL = 24  # coefficients that decide small correlations
_RELATIVE, _RELATIVE_CALLABLE = 5e-15, 1e-12  # accuracy of f on small correlations


def hermite_weights(sigma: Activation, low: Scaled, degree: int) -> Array:
    """w_0 = 0, w_1, ..., with coefficients at rounding level set to 0: parity is exact."""
    sizes = np.empty(degree + 1)
    c = scaled_coefficients(sigma, degree, sizes)
    error = 8 * _EPS * sizes
    first, error[:_CAREFUL] = _careful(sigma)
    c[:_CAREFUL] = first
    c[np.abs(c) <= error] = 0.0
    c[0] = 0.0
    even, odd = _parity(sigma, low)
    c[1::2] *= not even
    c[2::2] *= not odd
    weights = np.asarray(c * c / low.variance)
    for k in (1, 2):  # a power that stands alone among those of its parity, but for rounding, stands alone
        if np.count_nonzero(weights[k::2] > _ROUNDING) <= 1:
            weights[k::2] *= weights[k::2] > _ROUNDING
    relative = _uncertainty(sigma, c[:_CAREFUL], error[:_CAREFUL])
    if relative > _RELATIVE and not sigma.is_opaque:
        weights[1:_CAREFUL] = _exact_first(sigma, relative)
    elif relative > _RELATIVE_CALLABLE:
        raise _too_small(sigma, relative)
    return weights


def _careful(sigma: Activation) -> tuple[Array, Array]:
    """The first coefficients by exact summation, and their rounding: a random walk over the nodes."""
    nodes = rule(sigma, 64)
    data = nodes.weights * nodes.f * nodes.ground
    values, errors = np.empty(_CAREFUL), np.empty(_CAREFUL)
    for k, (he, _, power) in enumerate(hermite_sequence(nodes.x, _CAREFUL - 1)):
        terms = data * he * np.exp2(power)
        values[k], errors[k] = math.fsum(terms), 4 * _EPS * float(np.linalg.norm(terms))
    return values, errors


def _uncertainty(sigma: Activation, c: Array, error: Array) -> float:
    """The relative error of f on small correlations that the errors of the coefficients cause."""
    k = np.arange(len(c))
    worst = 0.0
    for rho in (1e-9, 1e-4, 1e-2, 0.1, 0.25):
        size = float(np.sum(c * c * rho**k))
        if size == 0:
            return math.inf
        hidden = 0.0 if _is_polynomial(sigma.expr) else float(np.sum(np.where(c == 0, error**2, 0)[2:] * rho ** k[2:]))
        worst = max(worst, (float(np.sum(2 * np.abs(c) * error * rho**k)) + hidden) / size)
    return worst


def _exact_first(sigma: Activation, relative: float) -> Array:
    """The first weights from multiprecision: they are too small to be seen beside sigma in float64."""
    from .multiprecision import moments

    try:
        found = moments(sigma, _CAREFUL - 1, digits=40)
    except PrecisionError as error:
        raise _too_small(sigma, relative) from error
    weights = [c * c / found.variance for c in found.coefficients[1:]]
    # below 1e-70 a weight of a function seen to 1e-40 is nothing but the rest of a cancellation
    return np.array([float(w) if w > 1e-70 else 0.0 for w in weights])


def _too_small(sigma: Activation, relative: float) -> PrecisionError:
    return PrecisionError(
        f"the dual of {sigma.name} is known to {relative:.0e} relative at small rho: its first Hermite coefficients "
        "are too small for float64"
    )


def _is_polynomial(node: Node) -> bool:
    """Then a coefficient at rounding level is 0."""
    if node.op == "pow" and (node.number.denominator != 1 or node.number < 0):
        return False
    known = node.constant or node.op in ("x", "add", "mul", "pow", "He")
    return known and all(_is_polynomial(a) for a in node.args)


def _parity(sigma: Activation, low: Scaled) -> tuple[bool, bool]:
    """Whether sigma is even, and whether sigma - c_0 is odd, to the last digit where the Gaussian has mass."""
    x = np.linspace(0.0, BULK, 1021)[1:]
    weight = np.exp(-x * x / 4)
    a, b = centred(sigma, low, x) * weight, centred(sigma, low, -x) * weight
    level = 8e-16 * max(float(np.abs(a).max()), float(np.abs(b).max()), abs(low.c0))
    return bool(np.abs(a - b).max() <= level), bool(np.abs(a + b).max() <= level)
