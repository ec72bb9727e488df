"""Numbers people write, as exact rationals: one rule for text, Python floats, NumPy, SymPy and mpmath numbers."""

from __future__ import annotations

import math
import numbers
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

_MAX_EXPONENT = 1000  # decimal: larger ones would be written out digit by digit


def as_fraction(value: Any, argument: str) -> Fraction:
    """An exact rational; floats and text mean their decimal (0.1 and "1/10" are 1/10), other numbers themselves.

    Raises ValueError naming the argument for anything that is not a finite real number.
    """
    if isinstance(value, str):
        return text_fraction(value, argument)
    if isinstance(value, (bool, np.bool_, bytes)) or value is None:
        raise ValueError(f"{argument} must be a real number, got {value!r}")
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise ValueError(f"{argument} must be finite, got {value!r}")
        return Fraction(str(value))
    if isinstance(value, (numbers.Rational, np.integer)):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _MAX_EXPONENT:
        return Fraction(value)
    if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "fiu":
        return as_fraction(value[()], argument)
    exact = _foreign(value)
    if exact is None:
        raise ValueError(f"{argument} must be a finite real number, got {value!r}")
    return exact


def shown(value: Fraction) -> str:
    """A short text of any rational, also beyond float64."""
    try:
        return f"{float(value):g}"
    except OverflowError:
        digits = len(str(abs(value.numerator) // value.denominator))
        return f"{'-' if value < 0 else ''}1e{digits - 1} or more"


def text_fraction(text: str, argument: str) -> Fraction:
    """The exact number of a decimal or a fraction; exponents are short, for 1e1000000000 would be written out."""
    match = re.fullmatch(r"[+-]?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?)", text)
    with suppress(ZeroDivisionError):
        if match is not None and len(text) <= 400:
            return Fraction(text)
    raise ValueError(f"{argument} must be a decimal or a fraction such as 0.5 or 1/3, got {text[:60]!r}")


def _foreign(value: Any) -> Fraction | None:
    """SymPy rationals and floats, mpmath numbers: recognised by what they carry, without importing either."""
    if getattr(value, "is_Rational", False):
        return Fraction(int(value.p), int(value.q))
    raw = getattr(value, "_mpf_", None)
    if isinstance(raw, tuple) and len(raw) == 4 and int(raw[1]) != 0:
        negative, mantissa, exponent, _ = raw
        if abs(int(exponent)) > 4 * _MAX_EXPONENT:
            return None
        size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        return -size if negative else size
    if isinstance(raw, tuple) and raw[2] == 0:
        return Fraction(0)
    return None
