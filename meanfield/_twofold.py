"""Sums and products of float64 arrays together with their rounding errors, which are float64 numbers themselves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["two_product", "two_sum"]

Floats = NDArray[np.float64]


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b = s + e exactly, s the rounded sum (Knuth), where nothing overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a b = p + e exactly, p the rounded product (Dekker, Veltkamp), far from the ends of the range."""
    p = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _split(x: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * x  # 2^27 + 1 leaves 26 bits in the high part
    high = scaled - (scaled - x)
    return high, x - high
