"""Python callables on mpmath numbers: called at a stated precision, and asked first whether they can carry it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from mpmath import libmp

from .._numbers import as_fraction
from .._tree import Opaque
from ..errors import PrecisionError
from ._raw import LOCK, Raw, from_fraction, to_mpf

FLOAT64_DIGITS = 15
_PROBE_BITS = 200


class Float64Value(PrecisionError):
    """A callable answered with a rounded float64 number, so that no more digits can be had from it."""


class Raised(ValueError):
    """A callable raised on an mpmath number."""


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    """mpmath's global precision while a callable runs: under the lock, and put back whatever happens."""
    with LOCK:
        before = mpmath.mp.prec
        try:
            mpmath.mp.prec = bits
            yield
        finally:
            mpmath.mp.prec = before


def call(leaf: Opaque, x: Sequence[Raw], precision: int) -> list[Raw]:
    """The callable at each x as mpmath numbers, mp.prec being the precision in bits."""
    with _precision(precision):
        return [_at(leaf, t, precision) for t in x]


def _at(leaf: Opaque, t: Raw, precision: int) -> Raw:
    argument = to_mpf(t)
    try:
        value = leaf.function(argument)
    except (ZeroDivisionError, ValueError):  # what Python's own functions say of a pole: nan, and the rules decide
        return libmp.fnan  # type: ignore[no-any-return]
    except Exception as error:
        raise Raised(f"sigma raised {error!r} at x = {mpmath.nstr(argument, 15)}") from error
    return _number(value, argument, precision)


def _number(value: Any, argument: Any, precision: int) -> Raw:
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    raw = getattr(value, "_mpf_", None)
    if isinstance(raw, tuple):
        return raw
    if isinstance(value, (float, np.floating)) and not float(value).is_integer():
        if math.isnan(value):
            return libmp.fnan  # type: ignore[no-any-return]
        raise Float64Value(f"sigma({mpmath.nstr(argument, 15)}) returned the float64 number {value!r}")
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    try:
        exact = as_fraction(value, "sigma(x)")
    except ValueError:
        raise ValueError(f"sigma({mpmath.nstr(argument, 15)}) returned {value!r}; it must be a real number") from None
    return from_fraction(exact, precision)


@lru_cache(maxsize=1024)
def carries(leaf: Opaque) -> bool:
    """Whether a callable computes beyond float64: it takes mpmath numbers and rounds neither them nor its values.

    A constant that was a float before it became an mpmath number cannot be seen: it is a number like another.
    """
    points = [_probe(k) for k in range(8)]
    shifts = [libmp.mpf_shift(libmp.fone, -100), libmp.mpf_shift(libmp.fone, -20)]
    try:
        values = call(leaf, points, _PROBE_BITS)
        near, far = (call(leaf, [libmp.mpf_add(x, shift) for x in points], _PROBE_BITS) for shift in shifts)
    except (Raised, Float64Value):
        return False
    # a change of the argument far below float64 that leaves a varying function as it is was rounded away, there or in
    # the value
    return sum(v == a and v != b for v, a, b in zip(values, near, far, strict=True)) < 2


_SCALE = (16, -27, 4, -11, 9, -5, 2, -13)


def _probe(k: int) -> Raw:
    """A point with a full mantissa between -3 and 3: a square root times a small fraction."""
    root = libmp.mpf_sqrt(libmp.from_int((2, 3, 5, 7, 11, 13, 17, 19)[k]), _PROBE_BITS, "n")
    return libmp.mpf_mul(root, libmp.from_rational(_SCALE[k], 20, 60, "n"), _PROBE_BITS, "n")  # type: ignore[no-any-return]
