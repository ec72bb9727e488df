"""1 - |cos| of the angles between rows, to relative accuracy where rows nearly coincide or are nearly opposite.

For rows a and b, t close to (a.b)/|a|^2 and r = b - t a, the part of r orthogonal to a is that of b, so

    sin^2 = |r_perp|^2 / |b|^2,    r_perp = r - a (a.r)/|a|^2,    1 - |cos| = sin^2 / (1 + sqrt(1 - sin^2)),

and nothing cancels but in r, which is formed from the rows as given: the product t a is split into a rounded value and
its error, and b minus the value is exact where the two are close. Rows that are centred first are differences from
their first feature, again a value and its error, and r is centred in their stead: centring commutes with all the rest.
Rows whose sin^2 is so small that r holds nothing but rounding are compared in integers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ._twofold import two_product, two_sum

__all__ = ["complements"]

Floats = NDArray[np.float64]

# farther apart, 1 - |C| has lost no more than three bits
CLOSE = 0.125
# numbers handled at once
BLOCK = 2**15
# below this r is of the size of rounding errors of t a, and integers decide
UNSURE = 1e-32
TINY = float(np.finfo(np.float64).tiny)


def complements(X: Floats, C: Floats, *, centred: bool) -> Floats:
    """1 - |cos| of all pairs of rows of X, whose cosines are C to a few ulps: 0 for parallel rows and no others.

    X: (n, d), no row zero, or constant if centred; C: (n, n). About 30 operations on d numbers for each pair with
    |C_ij| > 7/8; a complement below the normal numbers is replaced by the smallest of them.
    """
    near = 1.0 - np.abs(C)
    np.fill_diagonal(near, 0.0)
    high, low = _scaled(X, np.zeros_like(X))
    if centred:
        high, low = _scaled(*two_sum(high, -high[:, :1]))
    step = max(1, BLOCK // X.shape[1])
    for i in range(len(X) - 1):
        close = i + 1 + np.flatnonzero(near[i, i + 1 :] < CLOSE)
        for start in range(0, len(close), step):
            j = close[start : start + step]
            value = _complement_to(high[i], low[i], high[j], low[j], centred)
            for k in np.flatnonzero(value < UNSURE):
                same = _equal_or_opposite(high[i], high[j[k]]) and _equal_or_opposite(low[i], low[j[k]])
                value[k] = 0.0 if same else _exact_complement(X[i], X[j[k]], centred)
            near[i, j] = near[j, i] = value
    return near


def _scaled(high: Floats, low: Floats) -> tuple[Floats, Floats]:
    """Rows times the power of 2 that brings their largest entry into [1/2, 1)."""
    exponent = np.frexp(np.max(np.abs(high), axis=1, keepdims=True))[1]
    return np.ldexp(high, -exponent), np.ldexp(low, -exponent)


def _complement_to(a: Floats, a_low: Floats, b: Floats, b_low: Floats, centred: bool) -> Floats:
    """1 - |cos| between the row a and each row of b."""
    axis, others = (_centred(a), _centred(b)) if centred else (a, b)
    square = axis @ axis
    t = (others @ axis / square)[:, None]
    product, error = two_product(t, a)
    r = ((b - product) - error) + (b_low - t * a_low)
    r = _centred(r) if centred else r
    # t is rounded, and so r has kept a component along a; it is small, and so is what is lost here
    r -= (r @ axis / square)[:, None] * axis
    squared_sine = np.minimum(np.square(r).sum(axis=1) / np.square(others).sum(axis=1), 1.0)
    return np.asarray(squared_sine / (1.0 + np.sqrt(1.0 - squared_sine)))


def _centred(rows: Floats) -> Floats:
    return np.asarray(rows - rows.mean(axis=-1, keepdims=True))


def _equal_or_opposite(a: Floats, b: Floats) -> bool:
    return np.array_equal(a, b) or np.array_equal(a, -b)


def _exact_complement(a: Floats, b: Floats, centred: bool) -> float:
    """sin^2 / 2 in integers: 0 for parallel rows, and never less than the smallest normal number for others."""
    x, y = _integers(a), _integers(b)
    n = len(x) if centred else 1
    xx, xy, yy = (
        n * sum(p * q for p, q in zip(u, v, strict=True)) - (sum(u) * sum(v) if centred else 0)
        for u, v in ((x, x), (x, y), (y, y))
    )
    gram = xx * yy - xy * xy
    return max(float(Fraction(gram, 2 * xx * yy)), TINY) if gram else 0.0


def _integers(row: Floats) -> list[int]:
    """A row times the power of 2 that makes it one of integers."""
    ratios = [entry.as_integer_ratio() for entry in row.tolist()]
    common = max(denominator for _, denominator in ratios)
    return [numerator * (common // denominator) for numerator, denominator in ratios]
