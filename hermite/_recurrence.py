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
    endless = bool(np.any(infinite))
    yield now, before, power
    for k in range(degree):
        with np.errstate(invalid="ignore"):
            before, now = now, (x * now - np.sqrt(k) * before) / np.sqrt(k + 1)
            large = np.maximum(np.abs(now), np.abs(before)) > 2.0**_STEP
        if endless:  # the leading power decides; inf - inf would say nan
            now, large = np.where(infinite, np.inf * np.sign(x) ** (k + 1), now), large & ~infinite
        if np.any(large):  # keep the pair in range, with a common power
            shrink = np.where(large, 2.0**-_STEP, 1.0)
            before, now, power = before * shrink, now * shrink, power + _STEP * large
        yield now, before, power
