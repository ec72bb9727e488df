"""Callables that compute in float64: their 15 digits, through the float64 engine and checked against what is asked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .. import _numeric
from .._activation import Activation
from .._build import reduced_dual
from .._moments import Moments
from .._tree import Node
from ..errors import PrecisionError
from ._callables import FLOAT64_DIGITS, carries
from ._raw import from_float, to_mpf


def rounds(sigma: Activation) -> bool:
    """Whether a callable inside carries float64 only."""
    return any(not carries(leaf.opaque) for leaf in _leaves(sigma.expr))


def _leaves(node: Node) -> list[Node]:
    inner = [leaf for a in node.args for leaf in _leaves(a)]
    return [node, *inner] if node.op == "opaque" else inner


def refuse(sigma: Activation, digits: int, reached: int = FLOAT64_DIGITS) -> None:
    """Refuse more digits than float64 values carry."""
    if digits > reached:
        raise PrecisionError(
            f"digits={digits}: {sigma.name} computes in float64, so only about {reached} digits can be had; "
            "write it for mpmath numbers without float literals, or give an expression text"
        )


def _check(sigma: Activation, digits: int, relative: float) -> None:
    """digits mean a relative error below 10^(1 - digits), one unit of the last of them."""
    refuse(sigma, digits)
    if not relative <= 10.0 ** (1 - digits):
        raise PrecisionError(f"digits={digits}: {sigma.name} gives a relative error of {relative:.1e} in float64")


def moments(sigma: Activation, degree: int, digits: int) -> Moments:
    """The record of the float64 engine as mpmath numbers."""
    found = _numeric.moments(sigma, degree)
    _check(sigma, digits, found.error)
    return Moments(
        tuple(_exact(c) for c in found.coefficients),
        _exact(found.second_moment),
        _exact(found.variance),
        _exact(found.residual),
        found.error,
        f"{found.method} in float64, as {sigma.name} computes in it",
    )


def moment(sigma: Activation, name: str, digits: int) -> Any:
    """second_moment or variance."""
    found = _numeric.moments(sigma, 1)
    value = float(getattr(found, name))
    _check(sigma, digits, found.error * found.second_moment / value if value else 0.0)
    return _exact(value)


def strength(sigma: Activation, digits: int) -> Any:
    """beta = 2 - r."""
    value = _numeric.isometry_strength(sigma)  # refuses constants
    _check(sigma, digits, _numeric.moments(sigma, 1).strength_error / value)
    return _exact(value)


def linearity(sigma: Activation, digits: int) -> Any:
    """r = 2 - beta."""
    value, found = _numeric.linearity(sigma), _numeric.moments(sigma, 1)
    _check(sigma, digits, found.strength_error / value if value else 0.0)
    return _exact(value)


def expectation(sigma: Activation, digits: int) -> Any:
    """E g, which the float64 engine promises to 4e-15 of E|g|."""
    refuse(sigma, digits)
    return _exact(_numeric.expectation(sigma))


def dual(sigma: Activation, rho: Fraction, digits: int) -> Any:
    """c_0^2 + variance f(rho); the reduced dual f is promised to 1e-14."""
    found = _numeric.moments(sigma, 1)
    value = found.coefficients[0] ** 2 + found.variance * float(reduced_dual(sigma)(np.array([float(rho)]))[0])
    _check(sigma, digits, 1e-14 * found.second_moment / abs(value) if value else 0.0)
    return _exact(value)


def _exact(value: float) -> Any:
    return to_mpf(from_float(float(value)))
