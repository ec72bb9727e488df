"""One mean-field layer on a covariance matrix, whatever its diagonal.

Where the diagonal is stationary this is the map of correlations, applied to every pair. Elsewhere inputs of different
norms meet different activations sigma(s_i x), and the moments of pairs come from `hermite._cross`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation
from hermite._cross import PairMoments, pair_moments
from hermite._numeric import moments, without_constant
from hermite.errors import ConstantActivationError, PrecisionError

from ._batch import batch_gram
from ._gram import unit_diagonal
from ._pairs import packed, unpacked

if TYPE_CHECKING:
    from ._layer import Layer

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]


def advance(layer: Layer, G: Floats) -> Floats:
    """The Gram matrix (n, n) after the layer, symmetric to the last bit; PrecisionError where it leaves float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = _advance(layer, G)
    if not np.isfinite(np.diagonal(out)).all():
        largest = float(np.diagonal(G).max())
        raise PrecisionError(
            f"the Gram matrix after {layer.label} leaves float64: its diagonal was {largest:.3g} before; take fewer "
            "layers, a smaller gain, or normalise"
        )
    return out


def _advance(layer: Layer, G: Floats) -> Floats:
    q = np.diagonal(G)
    first = layer.order == "normalization-first" and layer.forgets_norms
    if layer.normalization != "batch" and (first or np.all(q == q[0])):
        if layer.forgets_norms:
            _refuse_zeros(layer, q)
        C, y = unit_diagonal(G) if np.any(q != 1.0) and np.all(q) else G, float(q[0])
        if first and (not layer.keep or np.all(q == layer.variance)):
            return _scaled(unpacked(layer.step(packed(C)), len(G)), layer.variance)
        if not first and y > 0.0 and layer.is_stationary(y):
            return _scaled(unpacked(layer.step_at(y)(packed(C)), len(G)), y)
    Y = branch(layer, G)
    return Y if not layer.keep else layer.keep * G + (1.0 - layer.keep) * Y


def branch(layer: Layer, G: Floats) -> Floats:
    """The Gram matrix of the layer's output before the skip is added."""
    base = layer.activation
    assert isinstance(base, Activation)
    if layer.normalization == "batch":
        return batch_gram(base, G, order=layer.order, gain=layer.gain, bias_variance=float(layer.bias_variance))
    found = pair_moments(without_constant(base) if layer.is_centred else base, *arguments(layer, G))
    return normalised(layer, found)


def arguments(layer: Layer, G: Floats) -> tuple[Floats, Floats]:
    """Deviations (n,) of the arguments of sigma, and the packed correlations of their pairs."""
    if layer.forgets_norms:
        _refuse_zeros(layer, np.diagonal(G))
        if layer.order == "normalization-first":
            G = unit_diagonal(G)
    gain_squared, bias = float(layer.gain**2), float(layer.bias_variance)
    q = gain_squared * np.diagonal(G) + bias
    i, j = np.triu_indices(len(G), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (gain_squared * packed(G) + bias) / _geometric_means(q, i, j)
    return np.sqrt(q), np.clip(np.where(np.isfinite(t), t, 0.0), -1.0, 1.0)


def _refuse_zeros(layer: Layer, q: Floats) -> None:
    if not np.all(q > 0.0) and (layer.order == "normalization-first" or not layer.bias_variance):
        where = int(np.flatnonzero(q <= 0.0)[0])
        raise ValueError(
            f"G has the diagonal entry 0 at index {where}: an input of norm 0 cannot be normalised; leave it out"
        )


def normalised(layer: Layer, found: PairMoments) -> Floats:
    """The Gram matrix of sigma's values, from their moments."""
    n = len(found.mean)
    i, j = np.triu_indices(n, 1)
    kind = layer.normalization if layer.order == "activation-first" else "none"
    rho, mean, variance = found.correlation, found.mean, found.variance
    if kind in ("layer", "center") and np.any(found.hidden):
        raise PrecisionError(
            f"{layer.label} on input {int(np.flatnonzero(found.hidden)[0])}: the mean of sigma hides how it varies on "
            "so small an input; subtract sigma(0) in the formula, or scale the inputs"
        )
    if kind in ("layer", "rms"):  # each input in units of its own: what is beyond float64 cancels
        second = variance + mean * mean
        size = variance if kind == "layer" else second
        if not np.all(size > 0.0):
            where = int(np.flatnonzero(size <= 0.0)[0])
            raise ConstantActivationError(f"sigma is constant on input {where}, whose output cannot be normalised")
        if kind == "layer":
            return unpacked(rho, n)
        pairs = _geometric_means(variance, i, j) * rho + mean[i] * mean[j]
        return unpacked(np.clip(pairs / _geometric_means(second, i, j), -1.0, 1.0), n)
    mean, variance = found.plain_mean, found.plain_variance
    pairs = _geometric_means(variance, i, j) * rho
    if kind == "center":
        return unpacked(pairs, n, variance)
    if kind == "constant":
        c0, scale = constants(layer)
        shift = mean - c0
        return unpacked((pairs + shift[i] * shift[j]) / scale, n, (variance + shift * shift) / scale)
    return unpacked(pairs + mean[i] * mean[j], n, variance + mean * mean)


def _geometric_means(v: Floats, i: Indices, j: Indices) -> Floats:
    """sqrt(v_i v_j), v itself where they are equal: inputs that coincide stay so."""
    root = np.sqrt(v)
    return np.where(v[i] == v[j], v[i], root[i] * root[j])


def constants(layer: Layer) -> tuple[float, float]:
    """c_0 and the variance of sigma at unit inputs."""
    found = moments(without_constant(layer.unit_activation), 0)
    if not found.variance > 0.0:
        raise ConstantActivationError(f"{layer.label} divides by the variance of sigma, which is 0: it is constant")
    return float(found.coefficients[0]), found.variance


def _scaled(C: Floats, factor: float) -> Floats:
    return C if factor == 1.0 else C * factor
