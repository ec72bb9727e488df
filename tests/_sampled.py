"""Networks of finite width sampled by their exact law, and comparisons of claims with them.

Given a layer, neurons of the next have z of N(0, G) on the inputs, G the Gram matrix of the layer by its width; nothing
of the library is used. A comparison rejects a true claim with probability LEVEL at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from _networks import SIGMAS, Spec, normalised
from numpy.typing import NDArray
from scipy import stats

from meanfield import Layer

Floats: TypeAlias = NDArray[np.float64]

LEVEL = 1e-6
R = math.pi / (2 * math.pi - 2)  # linearity of relu
G5 = np.array(
    [
        [1.0, 0.8, 0.3, -0.4, 0.0],
        [0.8, 1.0, 0.2, -0.5, 0.1],
        [0.3, 0.2, 1.0, 0.1, 0.6],
        [-0.4, -0.5, 0.1, 1.0, 0.25],
        [0.0, 0.1, 0.6, 0.25, 1.0],
    ]
)
UPPER = np.triu_indices(5, 1)
NORMS = np.sqrt([1.0, 0.3, 2.0, 1.3, 0.2])
CLOSE = 0.75 * np.ones((6, 6)) + 0.25 * np.eye(6)


def networks(specs: Sequence[Spec], G0: Floats, widths: Sequence[int], runs: int, seed: int = 0) -> Floats:
    """Gram matrices of independent networks, (depth + 1, runs, n, n): neurons are N(0, G) given the layer before."""
    rng = np.random.default_rng(seed)
    G = np.broadcast_to(G0, (runs, *G0.shape))
    found = [G]
    for spec, width in zip(specs, widths, strict=True):
        sigma, after = SIGMAS[spec.activation], np.empty_like(G)
        for run, each in enumerate(G):
            z = np.linalg.cholesky(each) @ rng.standard_normal((len(G0), width))
            b = math.sqrt(spec.bias_variance) * rng.standard_normal(width)
            x = normalised(sigma(spec.gain * z + b), spec)
            after[run] = x @ x.T / width
        G = after
        found.append(G)
    return np.array(found)


def layers_of(specs: Sequence[Spec]) -> list[Layer]:
    return [Layer(spec.activation, **spec.options) for spec in specs]


def rejects_variances(sample: Floats, claim: Floats, comparisons: int = 1) -> bool:
    """Whether variances (k,) are no claim for a sample (runs, k): normal to 1/sqrt(width), so their ratio is chi^2."""
    runs = len(sample)
    ratio = sample.var(axis=0, ddof=1) / claim
    # the fourth moment of the sample widens what a chi-square would allow
    spread = np.sqrt((stats.kurtosis(sample, axis=0, fisher=False) - 1) / runs)
    return bool(np.any(np.abs(ratio - 1) > float(stats.norm.isf(LEVEL / (2 * comparisons * len(claim)))) * spread))


def rejects_mean(sample: Floats, claim: float) -> bool:
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return abs(float(sample.mean()) - claim) > float(stats.t.isf(LEVEL / 2, len(sample) - 1)) * error
