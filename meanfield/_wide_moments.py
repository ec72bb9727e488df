"""First and second moments over the features of a wide layer, summed in float64 block by block, and their uses.

Shapes: a block has (runs, n, columns), moments (runs, n) and (runs, n, n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._wide import Array, Arrays

Floats: TypeAlias = NDArray[np.float64]

_ROUNDING = 16 * 2.0**-52  # of a mean: a spread below it is that of a constant


class _Sums(NamedTuple):
    """Over some features: their number, the sum of y - pivot, and of the products of any two of them."""

    features: int
    total: Floats
    products: Floats


@dataclass(frozen=True)
class Settled:
    """mean (runs, n) and covariance (runs, n, n) over features, or with mean 0 the second moments."""

    mean: Floats
    covariance: Floats

    @property
    def second(self) -> Floats:
        """E y_i y_j."""
        return self.covariance + self.mean[..., :, None] * self.mean[..., None, :]

    def scale(self, eps: float) -> Floats:
        """1/sqrt(variance + eps) of each input, and 0 for one that is the same over all features."""
        variance = np.einsum("...ii->...i", self.covariance)
        varies = variance > (_ROUNDING * self.mean) ** 2
        return np.where(varies, 1.0 / np.sqrt(np.where(varies, variance + eps, 1.0)), 0.0)


def gathered(arrays: Arrays, block: Callable[[int], Array], starts: Sequence[int], *, about_mean: bool) -> Settled:
    """The moments of all blocks, each asked for once by its first column; what it returns may be overwritten.

    about_mean: covariances, summed about the means of the first block, so that no digit cancels; else second moments.
    Blocks may be computed at the same time, and are added in their order.
    """
    first = block(starts[0])
    pivot = arrays.double(first).mean(axis=-1, keepdims=True) if about_mean else None
    sums = [_sums(arrays, first, pivot)]
    sums += arrays.each(lambda start: _sums(arrays, block(start), pivot), starts[1:])
    count = sum(s.features for s in sums)
    products = np.sum([s.products for s in sums], axis=0) / count
    products = 0.5 * (products + products.swapaxes(-1, -2))
    if pivot is None:
        return Settled(np.zeros(products.shape[:-1]), products)
    off = np.sum([s.total for s in sums], axis=0) / count
    mean = arrays.floats(pivot)[..., 0] + off
    return Settled(mean, products - off[..., :, None] * off[..., None, :])


def _sums(arrays: Arrays, block: Array, pivot: Array | None) -> _Sums:
    values = arrays.double(block)
    if pivot is not None:
        values = arrays.subtract(values, pivot)
    total = np.zeros(()) if pivot is None else arrays.floats(values.sum(axis=-1))
    return _Sums(block.shape[-1], total, arrays.floats(values @ values.swapaxes(-1, -2)))


def scaled(matrix: Floats, scale: Floats) -> Floats:
    """D matrix D, D the diagonal of scale; a diagonal that should be 1 is 1."""
    out = matrix * scale[..., :, None] * scale[..., None, :]
    diagonal = np.einsum("...ii->...i", out)
    diagonal[np.abs(diagonal - 1.0) < 8 * 2.0**-52] = 1.0
    return out
