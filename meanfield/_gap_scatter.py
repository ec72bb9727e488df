"""How much the isometry gap of one network scatters about that of infinite width, to first order in its entries.

With h = -G_L^(-1) off the diagonal, the gap of G_L + w is gap(G_L) + (1/n) sum of h_ij w_ij + O(w^2), over all i != j.
What layer l has scattered, Y_ij = x_i x_j - (G_ij/2)(x_i^2 + x_j^2) averaged over its neurons, reaches layer L times
P_ij, the product of the slopes of the maps between. So with A = h o P the gap at layer L receives from layer l

    (1/n) sum of A_ij Y_ij = (1/n)(x^T A x - sum over i of r_i x_i^2),    r = row sums of A o G_l,

averaged over width_l independent neurons: variances of these means, added over l. Entries of one layer are far from
independent unless G is near the identity: with correlations of 0.7 among six inputs the deviation is twice what
independent entries would have. The expectation over x, of as many Gaussians as there are inputs, is an average over
draws with a seed of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._conditional import factors
from ._layer import Layer
from ._pairs import packed, unpacked
from ._scatter import neurons

Floats: TypeAlias = NDArray[np.float64]
_FORGOTTEN = 1e-3  # of a variance: what is less of it after some layers is left out


def gap_scatter(layers: Sequence[Layer], gram: Sequence[Floats], widths: Sequence[int]) -> Floats:
    """(depth + 1,), the variance of what is linear in fluctuations.

    gram: (n, n) at layers 0..depth, of infinite width, none of them singular. Relative error of the root 1 to 3 %, more
    where outputs have heavy tails; 4096 draws, fewer for more than 16 inputs.
    """
    n = len(gram[0])
    off = 1.0 - np.eye(n)
    gradients = [off * np.linalg.inv(G) for G in gram]
    slopes = [unpacked(np.asarray(x.slope(packed(G))), n, 0.0) for x, G in zip(layers[1:], gram[1:-1], strict=True)]
    out = np.zeros(len(gram))
    for l, (layer, width) in enumerate(zip(layers, widths, strict=True), 1):
        x = _drawn(layer, gram[l - 1], l)
        P = off
        for L in range(l, len(gram)):
            P = P * slopes[L - 2] if l < L else P
            if np.max(P * P, initial=0.0) < _FORGOTTEN:
                break
            A = gradients[L] * P
            received = np.einsum("im,im->m", x, A @ x) - np.sum(A * gram[l], axis=1) @ (x * x)
            out[L] += np.var(received) / (n * n * width)
    return out


def _drawn(layer: Layer, G: Floats, index: int) -> Floats:
    """Normalised outputs of neurons on all inputs: (n, draws)."""
    n = len(G)
    draws = min(max((1 << 16) // n, 512), 4096)
    outputs, t = neurons(layer, G)
    rng = np.random.default_rng([index, n])
    u = factors(unpacked(t, n)[None])[0] @ rng.standard_normal((n, draws))
    return np.array([x(row) for x, row in zip(outputs, u, strict=True)])
