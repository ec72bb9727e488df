"""chi - 1, the slope of the map of correlations at 1 less 1, with 30 digits: on which side of the edge a network is.

Read by `_phase`, where float64 cannot tell.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hermite._activation import Activation
from hermite._excess import at_deviation
from hermite._slope import derivative

_DIGITS = 30
_STEPS = 3
_SLOPE_ERROR = 1e-13


def chi_less_one(sigma: Activation, w: Fraction, b: Fraction, v: float, slope: float | None) -> float:
    """w E sigma'(sqrt(v) X)^2 - 1 at the fixed point of v' = w E sigma(sqrt(v) X)^2 + b next to v.

    slope: that of v' there, None where every variance is kept. v is corrected by Newton's method with the slope of
    float64: each step gains 14 digits, less those of 1 - slope.
    """
    from hermite import multiprecision

    at = Fraction(v)
    if v > 0 and slope is not None and slope != 1:
        for _ in range(_STEPS):
            second = _rational(multiprecision.second_moment(at_deviation(sigma, at), digits=_DIGITS))
            step = (w * second + b - at) / Fraction(1 - slope)
            at = (at + step).limit_denominator(10 ** (_DIGITS + 10))
            if abs(step) * _SLOPE_ERROR / abs(1 - slope) <= float(at) * 10.0 ** (5 - _DIGITS):
                break
    rate = replace(sigma, expr=derivative(sigma.expr), name=f"{sigma.name}'", declared_growth=None)
    if v == 0:  # the mean of both one-sided slopes, as at any small variance
        at = Fraction(1, 10**40)
    return float(w * _rational(multiprecision.second_moment(at_deviation(rate, at), digits=_DIGITS)) - 1)


def _rational(number: Any) -> Fraction:
    """An mpf exactly."""
    negative, mantissa, exponent, _ = number._mpf_
    size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -size if negative else size
