"""Moments of an activation on one grid of variances, computed once for all layers that use it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._by_variance import ByVariance
from hermite.errors import PrecisionError

Floats: TypeAlias = NDArray[np.float64]

# E sigma(sqrt(v) X)^2 is smooth over factors of v, whatever sigma: as a function of log v it is a convolution with the
# density of log X^2, and its Mellin transform falls like exp(-pi |w|/2)
_POINTS = 8
_REACH = 32  # from 4^-32 to 4^32
LARGEST = 4.0**_REACH


@lru_cache(maxsize=4096)
def _part(moments: ByVariance, verb: str, k: int) -> Floats | None:
    """A moment over v in [4^k, 4^(k+1)); None where sigma is not resolved."""
    try:
        return np.asarray(getattr(moments, verb)(_places(k)))
    except PrecisionError:
        return None


def _places(k: int) -> Floats:
    return np.exp2(2 * (k + np.arange(_POINTS) / _POINTS))


def on_grid(
    moments: ByVariance, verbs: tuple[str, ...], low: float = 0.0, high: float = math.inf
) -> tuple[Floats, ...]:
    """v in (low, high], and each moment there: where all are resolved and finite, at most from 4^-32 to 4^32."""
    first, last = (min(max(_octave(v), -_REACH), _REACH - 1) for v in (low, high))
    middle = min(max(first, 0), last)
    columns: list[list[Floats]] = []
    # both ways from where sigma varies: an octave that is not resolved costs more than all others
    for k in range(middle, first - 1, -1):
        column = _column(moments, verbs, k)
        if column is None:
            break
        columns.insert(0, column)
    for k in range(middle + 1, last + 1):
        column = _column(moments, verbs, k) if columns and np.all(np.isfinite(columns[-1])) else None
        if column is None:
            break
        columns.append(column)
    if not columns:
        return (np.empty(0),) * (1 + len(verbs))
    table = np.array([np.concatenate(column) for column in zip(*columns, strict=True)])
    return tuple(table[:, (table[0] > low) & np.isfinite(table).all(axis=0)])


def _column(moments: ByVariance, verbs: tuple[str, ...], k: int) -> list[Floats] | None:
    """v and each moment over one part, None where one is not resolved."""
    column = [_places(k)]
    for verb in verbs:
        part = _part(moments, verb, k)
        if part is None:
            return None
        column.append(part)
    return column


def _octave(v: float) -> int:
    return -_REACH if v <= 0 else _REACH if math.isinf(v) else math.floor(math.log2(v) / 2)
