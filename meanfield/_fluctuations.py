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

the floor that the gap reaches depends on sigma through r alone. The law for other G_l keeps two moments of
gap(G_l) + (1/n) sum of (2 h_ij w_ij + w_ij^2), with h = -G_l^(-1) off its diagonal (the gradient; h = g near I) and
independent normal w_ij, in a scaled chi-square, which is the one above where g = 0.

From where g_l ~ K(g_0) r^l (K the Koenigs function of f), the fluctuations exceed the mean-field gap once
r^(2l) mean K^2 < 1/((1 - r^2) width): the useful depth is log(width (1 - r^2) mean K(g_0)^2)/(2 log(1/r)) layers.

Source: arXiv:2305.18399, section 7.2, has the experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation
from hermite._homogeneity import degree_of

from ._covariance import arguments
from ._dynamics import grams
from ._functionals import isometry_gap
from ._joint import Output, output, pair_mean
from ._layer import Layer, as_layers
from ._one_step import check_derived, one_step, one_step_at, one_step_variance, squared
from ._pairs import packed, unpacked

Floats: TypeAlias = NDArray[np.float64]
_NEAREST = 1e-8  # root of the distance of a correlation from +-1 that a pair of unequal norms is integrated at
_NORMAL = 1e8  # degrees of freedom beyond which a chi-square is normal

__all__ = ["Fluctuations", "fluctuations", "one_step_variance"]


@dataclass(frozen=True, eq=False)
class Fluctuations:
    """Gram matrices and isometry gaps of networks of finite width, to leading order in 1/width; entry 0 is the input.

    gram: (depth + 1, n, n), those of infinite width; variance: (depth + 1, n, n), of the entries about them (0 on the
    diagonal, and for inputs that coincide); widths: (depth,); mean_field_gap: (depth + 1,).
    """

    gram: Floats
    variance: Floats
    widths: NDArray[np.int64]
    mean_field_gap: Floats

    @property
    def fluctuation_gap(self) -> Floats:
        """(depth + 1,), what fluctuations add to the gap: (n - 1)/2 times the mean variance of a pair."""
        return np.asarray(self.variance.sum(axis=(1, 2)) / (2 * self.variance.shape[-1]))

    @property
    def expected_gap(self) -> Floats:
        """(depth + 1,), the mean of the gap over networks: that of infinite width and `fluctuation_gap`.

        Its relative error is of order 1/width where the gap is not small, 1/sqrt(width) on the way, and 1/width again
        on the floor.
        """
        return np.asarray(self.mean_field_gap + self.fluctuation_gap)

    @property
    def gap_variance(self) -> Floats:
        """(depth + 1,), the variance of the gap over networks, with independent entries.

        Exact to leading order on the floor, where G_l is nearly the identity, and for n = 2; before that entries are
        correlated, and it is an estimate. nan where the gap is infinite.
        """
        W, n = self.variance, self.variance.shape[-1]
        out = np.zeros(len(W))
        for l in range(1, len(W)):
            if not math.isfinite(self.mean_field_gap[l]):
                out[l] = math.nan
                continue
            h = np.linalg.inv(self.gram[l])
            out[l] = np.sum(W[l] * (2.0 * h * h + W[l])) / n**2  # twice the sum over i < j of 2 h^2 W + W^2
        return out

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
        return np.clip(np.array([self.gram - width, self.gram + width]), -size, size)

    @property
    def useful_depth(self) -> float:
        """The first layer at which fluctuations exceed the mean-field gap, inf if there is none.

        From there on the gap says more about the width than about the inputs. From nearly orthogonal inputs it is about
        log(width (1 - r^2) mean g_0^2)/(2 log(1/r)).
        """
        beyond = np.flatnonzero(self.fluctuation_gap > self.mean_field_gap)
        return float(beyond[0]) if len(beyond) else math.inf


def fluctuations(layers: Iterable[Layer], G0: ArrayLike, widths: Sequence[int]) -> Fluctuations:
    """What the Gram matrices of random networks of these widths are to leading order: mean field, and variances.

    W_0 = 0, W_(l+1) = f'(g_l)^2 W_l + v(g_l)/width_(l+1) for each pair: see the module. layers: a sequence, each with
    normalization "layer" or "rms" after the activation and no skip, ValueError naming any other; G0: (n, n), the Gram
    matrix of the inputs divided by their number of features; widths: one for each layer. Raises as `grams` and
    `one_step_variance`.

    The first variance is exact for inputs of any norms (milliseconds for each pair of different norms, unless sigma is
    positively homogeneous). Later ones neglect what is of order 1/width beside them, and the curvature of f, which
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
    mean_field = [np.asarray(G) for G in grams(sequence, G0)]
    if mean_field[0].ndim != 2:
        raise ValueError(f"G0 must have shape (n, n), got {mean_field[0].shape}")
    n = len(mean_field[0])
    pairs = [unpacked(W, n, 0.0) for W in _variances(sequence, mean_field, counts)]
    gram = np.array(mean_field)
    return Fluctuations(gram, np.array(pairs), counts, np.asarray(isometry_gap(gram)))


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
        scatter = _scatter(layer, gram[l], gram[l + 1]) / width
        moving = W > 0.0  # inputs that coincide stay so, however steep the map
        slope = np.asarray(layer.slope(packed(gram[l])[moving]))
        carried = np.zeros_like(W)
        carried[moving] = slope * slope * W[moving]
        W = carried + scatter
        yield W


def _scatter(layer: Layer, G: Floats, after: Floats) -> Floats:
    """v of the pairs of one layer, from the Gram matrices before and after it."""
    if np.all(np.diagonal(G) == 1.0):
        return np.asarray(one_step_variance(layer, packed(G)))
    deviations, t = arguments(layer, G)
    base = layer.activation
    assert isinstance(base, Activation)
    if degree_of(base) is not None:  # x(s u) = x(u)
        return one_step(layer)(1.0 - t, 1.0 + t)
    if np.all(deviations == deviations[0]):
        return one_step_at(layer, float(deviations[0]))(1.0 - t, 1.0 + t)
    return _of_any_norms(base, layer.is_centred, deviations, t, packed(after))


def _of_any_norms(sigma: Activation, centred: bool, deviations: Floats, t: Floats, kappa: Floats) -> Floats:
    """v of pairs of different norms, integrated one by one: E Y^2 where x and y are sigma at different scales."""
    scales, of = np.unique(deviations, return_inverse=True)
    outputs = [output(sigma.scaled(Fraction(s)), centred=centred) for s in scales.tolist()]
    i, j = (of[k] for k in np.triu_indices(len(of), 1))
    cases = np.column_stack([np.minimum(i, j), np.maximum(i, j), t])
    different, place = np.unique(cases, axis=0, return_inverse=True)
    found = np.empty(len(different))
    first = np.full(len(different), -1)
    first[place[::-1]] = np.arange(len(place))[::-1]
    for k, (a, b, rho) in enumerate(different.tolist()):
        same = a == b and rho == 1.0
        found[k] = 0.0 if same else _pair(outputs[int(a)], outputs[int(b)], rho, float(kappa[first[k]]))
    return np.asarray(found[place.reshape(-1)])


def _pair(x: Output, y: Output, rho: float, kappa: float) -> float:
    root = max(math.sqrt(1.0 - abs(rho)), _NEAREST)
    return pair_mean(squared(kappa), x, y, root, mirrored=rho < 0)
