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
    columns: list[list[Floats]] = []
    for k in range(first, last + 1):
        parts = [_part(moments, verb, k) for verb in verbs]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            if k >= 0:
                break
            columns.clear()  # rounding of a sigma that hardly varies: start where it does
            continue
        columns.append([_places(k), *known])
        if not all(np.all(np.isfinite(part)) for part in known):
            break
    if not columns:
        return (np.empty(0),) * (1 + len(verbs))
    table = np.array([np.concatenate(column) for column in zip(*columns, strict=True)])
    return tuple(table[:, (table[0] > low) & np.isfinite(table).all(axis=0)])


def _octave(v: float) -> int:
    return -_REACH if v <= 0 else _REACH if math.isinf(v) else math.floor(math.log2(v) / 2)
