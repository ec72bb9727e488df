"""The one recurrence of normalised probabilists' Hermite polynomials over float64 arrays, kept in range.

sqrt(k+1) He_{k+1}(x) = x He_k(x) - sqrt(k) He_{k-1}(x). Values are pairs (m, p) meaning m * 2**p, since He_k(60) leaves
float64 long before k = 1000.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
_STEP = 500


def hermite_sequence(x: Array, degree: int) -> Iterator[tuple[Array, Array, Array]]:
    """(He_k, He_{k-1}, p) for k = 0..degree, both times 2**p."""
    before, now, power = np.zeros_like(x), np.where(np.isnan(x), np.nan, 1.0), np.zeros(x.shape)
    infinite = np.isinf(x)
    # after a step a value may have grown by |x|; whatever passes the limit is brought back to about 1
    limit = np.where(np.abs(x) > 2.0**_STEP, 1.0, 2.0**_STEP)
    yield now, before, power
    for k in range(degree):
        with np.errstate(invalid="ignore", over="ignore"):
            before, now = now, (x * now - np.sqrt(k) * before) / np.sqrt(k + 1)
            size = np.maximum(np.abs(now), np.abs(before))
            large = (size > limit) & ~infinite
        if np.any(infinite):  # the leading power decides; inf - inf would say nan
            now = np.where(infinite, x if k % 2 == 0 else np.inf, now)
        if np.any(large):
            shift = np.where(large, np.frexp(np.where(large, size, 1.0))[1], 0)
            before, now, power = np.ldexp(before, -shift), np.ldexp(now, -shift), power + shift
        yield now, before, power
