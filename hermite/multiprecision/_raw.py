"""Numbers of any precision without any state: mpmath's raw numbers, on which every operation is told its precision.

A raw number is the tuple (sign, mantissa, exponent, bits) behind an `mpmath.mpf`. A context such as `mpmath.mp` carries
its precision as a variable that every thread shares; here it is an argument, so there is nothing to set, to restore or
to leak. What mpmath does share are its cached constants, which are not safe to extend from two threads: `LOCK` is held
by every public verb while it computes.
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath
from mpmath import libmp

Raw: TypeAlias = tuple[int, int, int, int]

LOCK = threading.RLock()  # re-entrant: a callable may ask a verb itself
ZERO: Raw = libmp.fzero
ONE: Raw = libmp.fone
NAN: Raw = libmp.fnan
LOG2_10 = math.log2(10)
LOG_10 = math.log(10)


def bits_of(digits: float) -> int:
    """Binary digits behind a number of decimal digits."""
    return math.ceil(digits * LOG2_10)


def to_mpf(value: Raw) -> Any:
    """The `mpmath.mpf` with exactly this value: making one neither rounds nor reads the precision."""
    return mpmath.mp.make_mpf(value)


def from_fraction(q: Fraction, precision: int) -> Raw:
    """A rational number, rounded."""
    return libmp.from_rational(q.numerator, q.denominator, precision, "n")  # type: ignore[no-any-return]


def from_float(value: float) -> Raw:
    """A float64 number, exactly."""
    return libmp.from_float(value)  # type: ignore[no-any-return]


def to_float(value: Raw) -> float:
    """The nearest float64 number."""
    return float(libmp.to_float(value))


def fixed(value: Raw, bits: int) -> int:
    """value * 2**bits as an integer."""
    return int(libmp.to_fixed(value, bits))


def from_fixed(value: int, bits: int, precision: int) -> Raw:
    """The number value / 2**bits."""
    return libmp.from_man_exp(value, -bits, precision, "n")  # type: ignore[no-any-return]


def is_finite(value: Raw) -> bool:
    """Whether it is a number."""
    return value[1] != 0 or value == ZERO


def magnitude(value: Raw) -> int:
    """m with 2^(m-1) <= |value| < 2^m; far below everything for 0."""
    return value[2] + value[3] if value[1] else -(10**9)


def log_size(value: Raw) -> float:
    """log |value| to double precision, -inf for 0."""
    if not value[1]:
        return -math.inf if value == ZERO else math.nan if value == NAN else math.inf
    shift = max(value[3] - 60, 0)
    return math.log(int(value[1]) >> shift) + (value[2] + shift) * math.log(2)
