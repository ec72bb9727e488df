"""What finite width does to the Gram matrices of deep networks with layer normalisation, to leading order.

Given the correlation matrix G^ after l layers (which determines the law of all that follows), the one after the next is
map(G^) plus a scatter of variance v/width entry by entry, v the `one_step_variance`. So to leading order a pair that
has correlation g_l at infinite width has g_l + w_l, w_0 = 0,

    w_(l+1) = f'(g_l) w_l + scatter,        W_(l+1) = f'(g_l)^2 W_l + v(g_l)/width_(l+1),        W_l = Var w_l:

delta method and independence of the layers' weights, f the map of correlations. Errors are forgotten where |f'| < 1.

The gap of C = I + E is (1/n) sum over i < j of E_ij^2 to leading order, so that fluctuations about a nearly orthogonal
G_l add sum W_ij/n to it:

    expected gap = gap(G_l) + (n - 1)/2 mean of W_ij over i < j.

Where G_l is not nearly orthogonal the second term has other factors of order 1, but there it is of order 1/width beside
a gap that is not: either way the relative error vanishes with the width, whereas (n - 1)/2 mean(g^2 + W), of which the
above is the case of small g, is no gap of a G_l that is far from I.

From orthogonal inputs with layer normalisation and no bias g_l = 0, v = 1, f'(0) = r = 2 - isometry strength. Hence
W_l = (1 - r^(2l))/((1 - r^2) width). Entries are uncorrelated: for different pairs E x_i x_j x_k x_m = 0, for an input
in common E x_i^2 x_j x_k = 0. So the scatter of a layer, a mean over neurons, tends to independent normal entries, and

    width gap -> (1 - r^(2l))/(1 - r^2) chi^2_(n(n-1)/2)/n        in law:

the floor that the gap reaches depends on sigma through r alone. For other G_l the gap is gap(G_l) and, over i < j,
(1/n) sum of (2 h_ij w_ij + w_ij^2), with h = -G_l^(-1) off its diagonal (h = g near I). The variance of the linear part
is that of `_gap_scatter`, of the quadratic one that of independent normal entries, sum of 2 W^2/n^2: each is right
where it counts. A scaled chi-square with this variance and the expected gap as its mean is the law above where g = 0,
and nearly normal where the linear part counts.

Near there g_l ~ K(g_0) r^l, K the Koenigs function of f, and the fluctuations exceed the mean-field gap once
r^(2l) mean K^2 < (1 - r^(2l))/((1 - r^2) width), after log(1 + width (1 - r^2) mean K(g_0)^2)/(2 log(1/r)) layers.

Source: arXiv:2305.18399, section 7.2, has the experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._dynamics import grams
from ._functionals import isometry_gap
from ._gap_scatter import gap_scatter
from ._layer import Layer, as_layers
from ._one_step import check_derived, one_step_variance
from ._pairs import packed, unpacked
from ._scatter import scatter

Floats: TypeAlias = NDArray[np.float64]
_NORMAL = 1e8  # degrees of freedom beyond which a chi-square is normal

__all__ = ["Fluctuations", "fluctuations", "one_step_variance"]


@dataclass(frozen=True, eq=False)
class Fluctuations:
    """Gram matrices and isometry gaps of networks of finite width, to leading order in 1/width; entry 0 is the input.

    gram: (depth + 1, n, n), those of infinite width; variance: (depth + 1, n, n), of the entries about them (0 on the
    diagonal, and for inputs that coincide); widths: (depth,); mean_field_gap: (depth + 1,); gap_variance: (depth + 1,),
    of the gap over networks, nan where a G_l is singular.
    """

    gram: Floats
    variance: Floats
    widths: NDArray[np.int64]
    mean_field_gap: Floats
    gap_variance: Floats

    @property
    def fluctuation_gap(self) -> Floats:
        """(depth + 1,), what fluctuations add to the gap: (n - 1)/2 times the mean variance of a pair."""
        return np.asarray(self.variance.sum(axis=(1, 2)) / (2 * self.variance.shape[-1]))

    @property
    def expected_gap(self) -> Floats:
        """(depth + 1,), the mean of the gap over networks: that of infinite width and `fluctuation_gap`.

        Its relative error is of order n/width where the gap is not small and on the floor, 1/sqrt(width) on the way.
        """
        return np.asarray(self.mean_field_gap + self.fluctuation_gap)

    def gap_quantiles(self, p: ArrayLike) -> Floats:
        """(len(p), depth + 1), or (depth + 1,) for a single p: quantiles of the gap of one network.

        Of the scaled chi-square with the mean `expected_gap` and the variance `gap_variance`: the law in the limit of
        large width from orthogonal inputs. Raises ValueError for p outside [0, 1].
        """
        from scipy.special import gammaincinv, ndtri

        wanted = np.asarray(p, dtype=np.float64)
        if not np.all((wanted >= 0.0) & (wanted <= 1.0)):
            raise ValueError(f"p must lie in [0, 1], got {p!r}")
        mean, variance = self.expected_gap, self.gap_variance
        with np.errstate(invalid="ignore", divide="ignore"):
            shape = np.where(variance > 0.0, mean * mean / variance, math.inf)  # half the degrees of freedom
            near = mean + np.sqrt(variance) * ndtri(wanted[..., None])
            exact = mean * gammaincinv(np.minimum(shape, _NORMAL), wanted[..., None]) / shape
            value = np.where(shape < _NORMAL, exact, np.where(variance > 0.0, near, mean))
        return np.asarray(np.maximum(value, 0.0))

    def band(self, z: float = 2.0) -> Floats:
        """(2, depth + 1, n, n): entries of the Gram matrix less and plus z standard deviations, within [-1, 1]."""
        width = z * np.sqrt(self.variance)
        size = np.sqrt(np.einsum("li,lj->lij", *(2 * [np.einsum("lii->li", self.gram)])))
        return np.asarray(np.clip(np.array([self.gram - width, self.gram + width]), -size, size))

    @property
    def useful_depth(self) -> float:
        """The first layer at which fluctuations exceed the mean-field gap, inf if there is none.

        From there on the gap says more about the width than about the inputs. From nearly orthogonal inputs it is about
        log(1 + width (1 - r^2) mean g_0^2)/(2 log(1/r)).
        """
        beyond = np.flatnonzero(self.fluctuation_gap > self.mean_field_gap)
        return float(beyond[0]) if len(beyond) else math.inf


def fluctuations(layers: Iterable[Layer], G0: ArrayLike, widths: Sequence[int]) -> Fluctuations:
    """What the Gram matrices of random networks of these widths are to leading order: mean field, and variances.

    W_0 = 0, W_(l+1) = f'(g_l)^2 W_l + v(g_l)/width_(l+1) for each pair: see the module. layers: a sequence, each with
    normalization "layer" or "rms" after the activation and no skip, ValueError naming any other; G0: (n, n), the Gram
    matrix of the inputs divided by their number of features; widths: one for each layer. Raises as `grams` and
    `one_step_variance`.

    The first variance is exact for inputs of any norms (4 ms for each pair of different norms with a
    correlation above 0.8). Later ones neglect what is of order 1/width beside them, and the curvature of f, which
    counts where a standard deviation is not small beside the distance of g from +-1.

    Source: arXiv:2305.18399, section 7.2; derivation in the module.

    >>> found = fluctuations([Layer("relu")] * 3, np.eye(4), [1000] * 3)
    >>> found.expected_gap.round(6)  # (n - 1)/(2 width) (1, 1 + r^2, 1 + r^2 + r^4), r = pi/(2 pi - 2)
    array([0.      , 0.0015  , 0.002307, 0.002741])
    """
    sequence = as_layers(layers, None)
    for layer in sequence:
        check_derived(layer)
    counts = _checked_widths(widths, len(sequence))
    if np.ndim(G0) != 2:
        raise ValueError(f"G0 must have shape (n, n), got {np.shape(G0)}")
    mean_field = list(grams(sequence, G0))
    n = len(mean_field[0])
    pairs = [unpacked(each, n, 0.0) for each in _variances(sequence, mean_field, counts)]
    gram, W = np.array(mean_field), np.array(pairs)
    gap = np.asarray(isometry_gap(gram))
    spread = np.full(len(gap), math.nan)
    if np.all(np.isfinite(gap)):  # a singular matrix stays one
        spread = gap_scatter(sequence, mean_field, counts.tolist()) + np.sum(W * W, axis=(1, 2)) / n**2
    return Fluctuations(gram, W, counts, gap, spread)


def _checked_widths(widths: Sequence[int], depth: int) -> NDArray[np.int64]:
    given = np.asarray(widths)
    if given.shape != (depth,) or (depth and (given.dtype.kind not in "iu" or np.any(given < 1))):
        raise ValueError(f"widths must be {depth} integers >= 1, one for each layer, got {widths!r}")
    return given.astype(np.int64)


def _variances(layers: Sequence[Layer], gram: Sequence[Floats], widths: NDArray[np.int64]) -> Iterator[Floats]:
    """W of the pairs at layers 0, 1, ..."""
    n = len(gram[0])
    W = np.zeros(n * (n - 1) // 2)
    yield W
    for l, (layer, width) in enumerate(zip(layers, widths.tolist(), strict=True)):
        moving = W > 0.0  # inputs that coincide stay so, however steep the map
        slope = np.asarray(layer.slope(packed(gram[l])[moving]))
        carried = np.zeros_like(W)
        carried[moving] = slope * slope * W[moving]
        W = carried + scatter(layer, gram[l], gram[l + 1]) / width
        yield W
