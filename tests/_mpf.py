"""Comparison of mpmath numbers at a precision of its own."""

from __future__ import annotations

from typing import Any

import mpmath
from mpmath import mpf


def close(found: Any, wanted: Any, digits: float) -> None:
    """Relative agreement to so many digits, compared with more."""
    with mpmath.workdps(int(digits) + 30):
        exact = mpf(wanted)
        shown = (mpmath.nstr(found, int(digits) + 10), mpmath.nstr(exact, int(digits) + 10))
        assert abs(found - exact) <= mpf(10) ** -digits * abs(exact), shown
