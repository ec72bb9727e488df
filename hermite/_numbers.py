"""Numbers people write, as exact rationals: one rule for text, Python floats, NumPy, SymPy and mpmath numbers."""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np


def as_fraction(value: Any, argument: str) -> Fraction:
    """An exact rational; a float means its shortest decimal (0.1 is 1/10), other numbers mean themselves.

    Raises ValueError naming the argument for anything that is not a finite real number.
    """
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        raise ValueError(f"{argument} must be a real number, got {value!r}")
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise ValueError(f"{argument} must be finite, got {value!r}")
        return Fraction(str(value))
    if isinstance(value, (numbers.Rational, np.integer)):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal) and value.is_finite():
        return Fraction(value)
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "fiu":
        return as_fraction(value[()], argument)
    exact = _foreign(value)
    if exact is None:
        raise ValueError(f"{argument} must be a finite real number, got {value!r}")
    return exact


def _foreign(value: Any) -> Fraction | None:
    """SymPy rationals and floats, mpmath numbers: recognised by what they carry, without importing either."""
    if getattr(value, "is_Rational", False):
        return Fraction(int(value.p), int(value.q))
    raw = getattr(value, "_mpf_", None)
    if isinstance(raw, tuple) and len(raw) == 4 and int(raw[1]) != 0:
        negative, mantissa, exponent, _ = raw
        size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        return -size if negative else size
    if isinstance(raw, tuple) and raw[2] == 0:
        return Fraction(0)
    return None
