"""Networks of finite width without weights: Gram matrices sampled from their exact law, layer after layer.

Given the outputs x of a layer, the neurons of the next are independent, and the values of one on the n inputs are
N(0, K), K = x x^T/fan_in (W has independent N(0, 1/fan_in) entries). So z = F Z with F F^T = K and Z of independent
N(0, 1) has the law of W x, and the next Gram matrix needs nothing but K: O(n width) normal variates a layer in place of
width^2, and memory for one block of columns.

A skip connection x' = a x + sqrt(1 - a^2) W_2 y keeps x itself, of which K is not all. But given x and y the columns of
V = W_2 y are independent N(0, Y), Y = y y^T/width, so V Q has the law of V for every rotation Q of the features; and y
depends on x through K alone. So x may be replaced by any x Q, by sqrt(width) [C, 0] with C C^T = K:

    x' = a sqrt(width) [C, 0] + sqrt(1 - a^2) V.

K of lower rank (more inputs than features, centred features, inputs that are opposite) has a factor of that rank, by
its correlations: an input may be ever so much shorter than another.
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
    """x' x'^T/width; what is summed is x'/sqrt(1 - a^2)."""
    a, b = float(layer.skip), float(1 - layer.skip**2) ** 0.5
    factor = site.arrays.wide(factors(Y))
    x = a / b * site.width**0.5 * (factors(K) if K.shape[-1] <= site.width else narrow(K, site.width))

    def block(start: int) -> Array:
        V = _columns(factor, site, SKIP_WEIGHTS, start)
        here = x[..., start : start + V.shape[-1]]
        if here.shape[-1]:
            V[..., : here.shape[-1]] += site.arrays.wide(here)
        return V

    return np.asarray(b * b * gathered(site.arrays, block, site.starts, about_mean=False).second)


def factors(K: Floats) -> Floats:
    """F (runs, n, n), lower triangular, with F F^T = K; of lower rank the last columns are 0."""
    try:
        L = np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        L = np.array([_factor(each) for each in K])
    return _without_rounding(L, K)


def _factor(K: Floats) -> Floats:
    """Cholesky's of one matrix, zeros where there is none: what another run is has no say in it."""
    try:
        return np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        return np.zeros_like(K)


def _without_rounding(L: Floats, K: Floats) -> Floats:
    """L, but a factor of lower rank where a pivot is no more than rounding."""
    pivots, diagonal = (np.einsum("...ii->...i", each) for each in (L, K))
    poor = np.any(pivots**2 <= 4 * K.shape[-1] * 2.0**-52 * diagonal, axis=-1)
    for run in np.flatnonzero(poor):
        L[run] = _in_order(K[run])
    return L


def _in_order(K: Floats) -> Floats:
    """A factor of one matrix of any rank: Cholesky's of its correlations, in which a pivot of rounding has no column.

    Rows are taken as they come. Pivoting would choose between equal pivots by their rounding, and so draw other
    networks where sums are taken in another order. What is dropped beside a dependent row is below the root of the
    tolerance.
    """
    n, lengths = len(K), np.sqrt(np.diagonal(K))
    out, rank = np.zeros((n, n)), 0
    for i in np.flatnonzero(lengths > 0.0):
        rest = np.where(lengths[i:] > 0.0, K[i:, i] / np.where(lengths[i:] > 0.0, lengths[i:], 1.0) / lengths[i], 0.0)
        rest -= out[i:, :rank] @ out[i, :rank]
        if rest[0] > 4 * n * 2.0**-52:
            out[i:, rank] = rest / rest[0] ** 0.5
            rank += 1
    return out * lengths[:, None]


def narrow(K: Floats, width: int) -> Floats:
    """(runs, n, width) with C C^T = K, for matrices of rank at most width < n; a row of zeros stays one."""
    return np.array([_in_order(each)[:, :width] for each in K])
