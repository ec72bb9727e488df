"""How much the slope of an affine image of a map of correlations exceeds 1 at 1, to relative accuracy.

With sigma(A x) = tau(x), f'(1) = E tau'^2/V, and the image has the slope f'(1)/mu there,

    mu = ratio  (centred, ratio = A^2/gain^2: what a bias adds),      mu = ratio E tau^2/V  (not centred).

The sign of f'(1) - mu is the phase, and near 0 its size is the distance of a fixed point from 1. By multiprecision,

    V (f'(1) - mu) = E tau'^2 - ratio E (tau - c)^2,     c = c_0 or 0,

has digits for nearly critical layers, and is nothing for critical ones (relu, abs and exp without centring).

Read by meanfield's fixed points.
"""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

from . import _tree as t
from ._activation import Activation
from ._homogeneity import degree_of
from ._numeric import Scaled
from ._slope import derivative
from ._tree import Node
from .errors import ActivationParseError, PrecisionError

_DIGITS = (30, 45)  # of E tau^2 and E tau'^2
_KEPT = 15  # of their difference
_NOTHING = 1e-28
_SMALL_MEAN = 0.03  # of the deviation: where float64 has lost two digits of c_0
_FAR = 300.0  # logarithm of the size of sigma, beyond which its mean may leave float64
_ROUNDING_CALLABLE = 1e-13


def excess(sigma: Activation, slope: float, low: Scaled, ratio: Fraction, *, centred: bool) -> float:
    """f'(1) - mu, given a finite f'(1) and the moments of sigma in float64; exactly 0 where it is below 1e-28 mu.

    For a callable it is the difference of floats, and 0 below 1e-13. Costs 0.1 s, for gelu a second.
    """
    mean = low.second / low.variance
    mu = float(ratio) * (1.0 if centred else mean)
    if sigma.is_opaque:
        return 0.0 if abs(slope - mu) <= _ROUNDING_CALLABLE * mu else slope - mu
    if not centred and degree_of(sigma) == 1:
        return float(1 - ratio) * mean  # tau = x tau', so E tau^2 = E tau'^2
    try:
        share = _balance(sigma, ratio, centred)
    except (PrecisionError, ActivationParseError):  # the slope of a very long text is too long
        return slope - mu
    return 0.0 if abs(share) <= _NOTHING else share * slope


@lru_cache(maxsize=256)
def _balance(sigma: Activation, ratio: Fraction, centred: bool) -> float:
    """1 - ratio E (tau - c)^2/E tau'^2; two moments, since one integrand that cancels for all x would never settle."""
    from .multiprecision import second_moment, variance

    slope = Activation(derivative(sigma.expr), f"the slope of {sigma.name}", "derivative")
    spread = variance if centred else second_moment
    for digits in _DIGITS:
        rest = 1 - ratio * _exact(spread(sigma, digits=digits)) / _exact(second_moment(slope, digits=digits))
        if abs(rest) >= 10.0 ** (_KEPT - digits) or abs(rest) <= _NOTHING:
            break  # it has its digits, or is nothing
    return float(rest)


def _exact(value: Any) -> Fraction:
    """A positive mpf, whatever mpmath's precision is."""
    man, exp = value.man_exp
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def mean_ratio(sigma: Activation, low: Scaled) -> float:
    """c_0^2/V to relative accuracy, for a c_0 that is not 0; of a callable as float64 has it."""
    size = math.sqrt(low.variance)
    c_0 = low.c0
    if abs(c_0) < _SMALL_MEAN * size and abs(low.log_scale) < _FAR and not sigma.is_opaque:
        with contextlib.suppress(PrecisionError):
            c_0 = _mean(sigma) * math.exp(-low.log_scale)
    return (c_0 / size) ** 2


@lru_cache(maxsize=256)
def _mean(sigma: Activation) -> float:
    from .multiprecision import expectation

    return float(expectation(sigma, digits=17))


def at_deviation(sigma: Activation, variance: Fraction) -> Activation:
    """x -> sigma(sqrt(variance) x), the root exact."""
    root: Node = t.call("sqrt", t.num(variance))
    return Activation(t.substitute(sigma.expr, t.mul(root, t.X)), f"{sigma.name} at sqrt({variance})*x", "derivative")
