"""The neural tangent kernel of a wide network, layer by layer beside the Gram matrix.

f(x) = v x_L/sqrt(width) is linear in the output of the last layer; trained are v, and the weights and biases of every
layer, w_ij and beta_i of N(0, 1) that enter as W = w/sqrt(fan_in) and b = sqrt(bias_variance) beta. The tangent kernel
<df/dparameters (x), df/dparameters (x')> is G_L for v alone, so that theta_0 = G_0. In a layer y = N(sigma(gain W x +
b)) the derivative by an argument u_k is v_k sigma'(u_k)/norm: what N's statistics answer is spread over all neurons,
and vanishes at infinite width. D, the mean of v_k^2 sigma'(u_k) sigma'(u'_k)/norms over the neurons, multiplies gain^2
x x'/width for w, bias_variance for beta, and gain^2 (theta_l - G_l) for all layers before. With a skip,
x' = a x + sqrt(1 - a^2) W_2 y, W_2^T v is independent of v, and the two paths add up:

    theta_{l+1} = a^2 theta_l + (1 - a^2) (Y_l + (gain^2 theta_l + bias_variance) D_l),
    D_l,ij = E sigma'(u_i) sigma'(u_j)/norms,

entrywise, Y_l the Gram matrix of y. In a layer that normalises first, u = gain N(W x) + b, gain^2 theta_l is divided by
the norms of x, bias_variance is not, and D has no norms. The kernel of pre-activations is gain^2 theta + bias_variance.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation
from hermite._by_variance import by_variance
from hermite._numeric import variance
from hermite._pair_slopes import pair_slopes

from ._covariance import arguments
from ._gram import check_covariance, unit_diagonal
from ._layer import Layer, Layers, as_layers
from ._pairs import unpacked

Floats: TypeAlias = NDArray[np.float64]


def ntk(layer: Layers, G0: ArrayLike, depth: int | None = None) -> Floats:
    """The neural tangent kernel after `depth` layers and a linear readout, from inputs with Gram matrix G0.

    theta_0 = G_0 and theta_{l+1} = a^2 theta_l + (1 - a^2) (Y_l + (gain^2 theta_l + bias_variance) D_l), where Y_l is
    the Gram matrix of the layer's output before the skip a, and D_l = E sigma'(u) sigma'(u)^T over the norms that the
    layer divides by. Trained are the weights and biases of each layer and the readout, in units of their deviations;
    the mixing matrix of a skip is not. With layer normalisation and unit inputs the diagonal is the sum of f'(1)^j.

    layer, depth: a Layer and how many of it, or a sequence of Layers, which fixes the depth. G0: (..., n, n), the Gram
    matrix of the inputs divided by their width -> (..., n, n), symmetric. A sigma that jumps (step, sign) has an
    infinite E sigma'^2: the diagonal is inf, and so are entries of inputs that coincide or, where they then jump
    together, are opposite; the others are finite, and inf only beyond float64 (relu: some 1800 layers). Accuracy 1e-13
    a layer, relative to the diagonal. A layer costs about twice what it costs without the kernel.

    Raises ValueError for batch normalisation, which has no such recursion, and what the layers raise.

    Source: arXiv:1806.07572, theorem 1; normalisation, skip and order as derived above.

    >>> from meanfield import Layer
    >>> ntk(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 2).round(6)  # 1 + r + r^2, r = pi/(pi - 1)
    array([[4.618862, 1.215627],
           [1.215627, 4.618862]])
    """
    G = check_covariance(G0, name="G0")
    layers = as_layers(layer, depth)
    if any(each.normalization == "batch" for each in layers):
        raise ValueError(
            "ntk has no recursion for normalization='batch', which ties all inputs of a batch together; use 'layer'"
        )
    out = np.empty_like(G)
    n = G.shape[-1]
    for start, target in zip(G.reshape(-1, n, n), out.reshape(-1, n, n), strict=True):
        theta, current = start, start
        for each in layers:
            theta, current = _next(each, theta, current)
        target[...] = theta
    return out


def _next(layer: Layer, theta: Floats, G: Floats) -> tuple[Floats, Floats]:
    """The kernel and the Gram matrix after one layer."""
    after = layer.advance(G)  # refuses what cannot be normalised
    moved = theta
    if _normalises_first(layer):
        norms = np.sqrt(np.diagonal(G))
        moved = theta / norms[:, None] / norms
    moved = float(layer.gain**2) * moved + float(layer.bias_variance)
    answers = _answers(layer, G)
    with np.errstate(invalid="ignore", over="ignore"):
        # 0 times infinity: a slope that vanishes, or an argument that no parameter moves
        branch = np.where((moved == 0) | (answers == 0), 0.0, moved * answers)
    if layer.keep:  # after = keep G + (1 - keep) Y
        return after + layer.keep * (theta - G) + (1.0 - layer.keep) * branch, after
    return after + branch, after


def _normalises_first(layer: Layer) -> bool:
    return layer.order == "normalization-first" and layer.forgets_norms


def _answers(layer: Layer, G: Floats) -> Floats:
    """D: E sigma'(u_i) sigma'(u_j) over the norms of sigma(u)."""
    q = np.diagonal(G)
    first, unit = _normalises_first(layer), float(q[0])
    if first or (np.all(q == unit) and unit > 0.0 and layer.is_stationary(unit)):
        # Y = factor (offset + scale f(t)), t = shift + share rho, and gain^2 D is the derivative of Y by gain^2 G
        step = layer.step if first else layer.step_at(unit)
        t = step.shift + step.share * unit_diagonal(G)
        factor = layer.variance if first else 1.0
        slope = step.f.slope(np.minimum(t, 1.0).ravel()).reshape(G.shape)
        return np.asarray(factor * step.scale * step.share / float(layer.gain**2) * slope)
    base = layer.activation
    assert isinstance(base, Activation)
    deviations, rho = arguments(layer, G)
    return pair_slopes(base, deviations, unpacked(rho, len(G))) / _norms(layer, base, deviations)


def _norms(layer: Layer, base: Activation, deviations: Floats) -> Floats:
    """What y_i y_j is divided by, (n, n)."""
    kind = layer.normalization if layer.order == "activation-first" else "none"
    if kind == "constant":
        return np.asarray(variance(layer.unit_activation))
    if kind not in ("layer", "rms"):
        return np.ones(1)
    moments = by_variance(base)
    size = np.sqrt((moments.variance if kind == "layer" else moments.second)(deviations**2))
    return np.asarray(size[:, None] * size)
