"""Symmetric matrices by the entries above their diagonal, row by row: half the memory, and one long array for loops."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def packed(C: Floats) -> Floats:
    """The entries above the diagonal, row by row."""
    n = len(C)
    out, start = np.empty(n * (n - 1) // 2), 0
    for i in range(n - 1):
        out[start : start + n - 1 - i] = C[i, i + 1 :]
        start += n - 1 - i
    return out


def unpacked(values: Floats, n: int, diagonal: float | Floats = 1.0) -> Floats:
    """The symmetric matrix of packed entries; diagonal: one number, or (n,)."""
    C = np.empty((n, n))
    start, ends = 0, np.broadcast_to(diagonal, (n,))
    for i in range(n):
        C[i, i] = ends[i]
        C[i, i + 1 :] = values[start : start + n - 1 - i]
        start += n - 1 - i
    for low in range(0, n, 256):  # in squares: a column at a time would read memory n times
        for left in range(0, low + 256, 256):
            rows, columns = slice(low, low + 256), slice(left, left + 256)
            block = C[columns, rows].T
            C[rows, columns] = np.tril(block, -1) + np.triu(C[rows, columns]) if low == left else block
    return C
