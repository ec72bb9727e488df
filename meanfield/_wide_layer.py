"""One layer of a network of finite width, on a batch of runs at once, block by block of its neurons.

Two kinds of network give the same distribution of Gram matrices, and share what is written here:

- `_explicit`: x (runs, n, fan_in) is kept, and z = W x with W of N(0, 1/fan_in) entries;
- `_conditional`: given the Gram matrix K = x x^T/fan_in, the columns of z (one a neuron) are independent N(0, K), so
  that z = F Z, F F^T = K, and W is never formed.

Then, as in `Layer`, u = gain z + b, y = N(sigma(u)) or u = gain N(z) + b, y = sigma(u), with the statistics of the
sample at hand. What does not vary is normalised to 0: an input that is constant over all features by "layer" and
"center", one that is 0 by "rms", a neuron that is constant over the batch by "batch".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation
from hermite._numeric import coefficients

from ._covariance import constants
from ._layer import Layer
from ._wide import BLOCK, Array, Arrays, Key
from ._wide_moments import Settled, gathered, scaled

Floats: TypeAlias = NDArray[np.float64]
Source: TypeAlias = Callable[[int], Array]  # the block of z that begins at a column, which may be overwritten

WEIGHTS, SKIP_WEIGHTS, BIAS = range(3)  # what random numbers are for
_OVER_FEATURES = ("layer", "rms", "center")


@dataclass(frozen=True)
class Site:
    """Where in which runs something is computed: one layer of some runs, and the inputs' multiplicities."""

    arrays: Arrays
    runs: tuple[int, ...]
    index: int  # of the layer, from 1
    width: int
    eps: float
    counts: Floats  # (n,): how often each input is in the batch
    blocks: int = 1  # of BLOCK columns, that are computed at once

    def keys(self, purpose: int, *place: int) -> list[Key]:
        """The seeds' keys of a piece, one for each run."""
        return [(run, self.index, purpose, *place) for run in self.runs]

    @property
    def starts(self) -> range:
        """The first of the columns that are computed at once."""
        return range(0, self.width, BLOCK * self.blocks)

    def columns(self, start: int) -> slice:
        """Those that are computed at once, from there on."""
        return slice(start, min(start + BLOCK * self.blocks, self.width))

    def normals(self, purpose: int, start: int, rows: int, *place: int) -> Array:
        """(runs, rows, these columns) of independent N(0, 1), each block of columns with a seed of its own."""
        here = self.columns(start)
        pieces = [
            self.arrays.normals(self.keys(purpose, at // BLOCK, *place), rows, min(BLOCK, here.stop - at))
            for at in range(here.start, here.stop, BLOCK)
        ]
        return pieces[0] if len(pieces) == 1 else self.arrays.beside(pieces)

    def bias(self, variance: float, start: int) -> Array:
        """(runs, 1, these columns): b of the neurons, which all inputs share."""
        return self.normals(BIAS, start, 1) * variance**0.5


@dataclass(frozen=True)
class Branch:
    """y = N(sigma(W x)) of one layer: its Gram matrix over the width, and y itself where it was asked for."""

    gram: Floats
    values: Array | None


def branch(layer: Layer, z: Source, site: Site, *, keep: bool) -> Branch:
    """The layer without its skip connection; keep: return y, too."""
    first = layer.order == "normalization-first"
    before = _statistics(z, site, layer.normalization) if first and layer.normalization in _OVER_FEATURES else None
    kept = site.arrays.empty(len(site.runs), len(site.counts), site.width) if keep else None

    def block(start: int) -> Array:
        y = _block(layer, z(start), before, site, start)
        if kept is not None:
            kept[..., site.columns(start)] = y
        return y

    raw = first or layer.normalization in ("rms", "none", "batch")
    found = gathered(site.arrays, block, site.starts, about_mean=not raw)
    if first or layer.normalization in ("none", "batch"):
        return Branch(found.second, kept)
    return _normalised(layer, found, kept, site)


def _block(layer: Layer, z: Array, before: tuple[Array, Array] | None, site: Site, start: int) -> Array:
    """sigma of one block, with what normalises each neuron, or comes before sigma."""
    if before is not None:
        z = (z - before[0]) * before[1]
    over_batch = layer.normalization == "batch"
    if over_batch and layer.order == "normalization-first":
        z = _over_batch(z, (_rounding(z, site) ** 2).sum(axis=-2, keepdims=True) ** 0.5, site)
    if layer.gain != 1:
        z = z * float(layer.gain)
    if layer.bias_variance:
        z = z + site.bias(float(layer.bias_variance), start)
    assert isinstance(layer.activation, Activation)
    sigma = site.arrays.sigma(layer.activation)
    if not over_batch or layer.order == "normalization-first":
        return sigma(z)
    moved = sigma(z + _rounding(z, site))
    y = sigma(z)
    return _over_batch(y, ((moved - y) ** 2).sum(axis=-2, keepdims=True) ** 0.5, site)


def _over_batch(y: Array, noise: Array, site: Site) -> Array:
    """Each neuron centred and scaled over the inputs of the batch; noise: how far off its values may be."""
    arrays, n = site.arrays, float(site.counts.sum())
    weights = arrays.wide(site.counts[:, None] / n)
    mean = (y * weights).sum(axis=-2, keepdims=True)
    y = y - mean
    variance = (y * y * weights).sum(axis=-2, keepdims=True)
    varies = variance > (16 * arrays.eps) ** 2 * mean * mean + noise * noise  # less is rounding
    return y * arrays.where(varies, arrays.where(varies, variance + site.eps, 1.0) ** -0.5, 0.0)


def _rounding(z: Array, site: Site) -> Array:
    """(runs, n, 1): what sums over the fan-in may be off by, a multiple of an ulp of their size."""
    return 4096 * site.arrays.eps * (z * z).mean(axis=-1, keepdims=True) ** 0.5


def _statistics(z: Source, site: Site, normalization: str) -> tuple[Array, Array]:
    """Shift and scale of z over all neurons, (runs, n, 1) each."""
    found = gathered(site.arrays, z, site.starts, about_mean=normalization != "rms")
    scale = found.scale(site.eps) if normalization != "center" else np.ones_like(found.mean)
    return site.arrays.wide(found.mean[..., None]), site.arrays.wide(scale[..., None])


def _normalised(layer: Layer, found: Settled, kept: Array | None, site: Site) -> Branch:
    """The output normalised over features after sigma, by its moments."""
    kind = layer.normalization
    if kind == "constant":
        mean, deviation = _constants(layer)
        shift, scale = np.full_like(found.mean, mean), np.full_like(found.mean, 1.0 / deviation)
        about = Settled(found.mean - mean, found.covariance)
        gram = about.second / deviation**2
    elif kind == "rms":
        shift, scale = np.zeros_like(found.mean), found.scale(site.eps)
        gram = scaled(found.second, scale)
    else:
        shift, scale = found.mean, found.scale(site.eps) if kind == "layer" else np.ones_like(found.mean)
        gram = scaled(found.covariance, scale) if kind == "layer" else found.covariance
    if kept is not None:
        kept -= site.arrays.wide(shift[..., None])
        kept *= site.arrays.wide(scale[..., None])
    return Branch(gram, kept)


def _constants(layer: Layer) -> tuple[float, float]:
    """Mean and deviation of sigma at unit inputs."""
    return float(coefficients(layer.unit_activation, 0)[0]), constants(layer)[1] ** 0.5
