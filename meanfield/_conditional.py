"""Networks of finite width without weights: Gram matrices sampled from their exact law, layer after layer.

Given the outputs x of a layer, the neurons of the next are independent, and the values of one on the n inputs are
N(0, K), K = x x^T/fan_in (W has independent N(0, 1/fan_in) entries). So z = F Z with F F^T = K and Z of independent
N(0, 1) has the law of W x, and the next Gram matrix needs nothing but K: O(n width) normal variates a layer in place of
width^2, and memory for one block of columns.

A skip connection x' = a x + sqrt(1 - a^2) W_2 y keeps x itself, of which K is not all. But given x and y the columns of
V = W_2 y are independent N(0, Y), Y = y y^T/width, so V Q has the law of V for every rotation Q of the features; and y
depends on x through K alone. So x may be replaced by any x Q, by sqrt(width) [C, 0] with C C^T = K, and

    x' x'^T/width = a^2 K + a sqrt(1 - a^2) (C V_n^T + V_n C^T)/sqrt(width) + (1 - a^2) V V^T/width,

V_n the first n columns of V.

K of lower rank (more inputs than features, centred features, inputs that are opposite) has a pivoted factor.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._layer import Layer
from ._wide import Array
from ._wide_layer import SKIP_WEIGHTS, WEIGHTS, Site, branch
from ._wide_moments import gathered

Floats: TypeAlias = NDArray[np.float64]


def advance(layer: Layer, K: Floats, site: Site) -> Floats:
    """The Gram matrices (runs, n, n) after the layer, from those before it."""
    factor = site.arrays.wide(factors(K))
    Y = branch(layer, lambda start: _columns(factor, site, WEIGHTS, start), site, keep=False).gram
    return Y if not layer.skip else _with_skip(layer, K, Y, site)


def _columns(factor: Array, site: Site, purpose: int, start: int) -> Array:
    """F Z for the block of columns that begins there."""
    return site.arrays.product(factor, site.normals(purpose, start, factor.shape[-1]))


def _with_skip(layer: Layer, K: Floats, Y: Floats, site: Site) -> Floats:
    factor, n = site.arrays.wide(factors(Y)), K.shape[-1]
    V_n = np.empty((*K.shape[:-1], min(n, site.width)))

    def block(start: int) -> Array:
        V = _columns(factor, site, SKIP_WEIGHTS, start)
        if start < n:
            V_n[..., site.columns(start)] = site.arrays.floats(V[..., : n - start])
        return V

    second = gathered(site.arrays, block, site.starts, about_mean=False).second
    C = narrow(K, site.width) if site.width < n else factors(K)
    cross = C @ V_n.swapaxes(-1, -2) / site.width**0.5
    a, b = float(layer.skip), float(1 - layer.skip**2) ** 0.5
    return np.asarray(layer.keep * K + a * b * (cross + cross.swapaxes(-1, -2)) + (1.0 - layer.keep) * second)


def factors(K: Floats) -> Floats:
    """F (runs, n, n), lower triangular but for the order of rows, with F F^T = K; columns beyond the rank are 0."""
    try:
        return np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        return np.array([_pivoted(each) for each in K])


def _pivoted(K: Floats) -> Floats:
    """A factor of one matrix of any rank: what is below n eps of the largest diagonal entry is rounding of K."""
    from scipy.linalg.lapack import dpstrf

    n = len(K)
    largest = float(np.diagonal(K).max())
    out = np.zeros((n, n))
    if not largest > 0.0:
        return out
    L, order, rank, _ = dpstrf(K, lower=1, tol=n * 2.0**-52 * largest)
    out[order - 1, :rank] = np.tril(L)[:, :rank]
    return out


def narrow(K: Floats, width: int) -> Floats:
    """(runs, n, width) with C C^T = K, for matrices of rank at most width < n."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(vectors[..., -width:] * np.sqrt(np.maximum(values[..., None, -width:], 0.0)))
