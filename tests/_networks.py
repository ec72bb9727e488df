"""Networks of finite width with explicit weights, written from the definition of a layer and none of its formulas.

x has shape (n, width), rows are inputs. One layer draws W of N(0, 1/fan_in) entries and a bias per neuron that all
inputs share, takes z = W x, and applies sigma and the normalisation N with the statistics of the sample at hand:

    activation-first     y = N(sigma(gain z + b)),        normalization-first     y = sigma(gain N(z) + b),
    with a skip a        x' = a x + sqrt(1 - a^2) W_2 y,  W_2 drawn as W,         without x' = y.

A mean-field layer claims what x' x'^T/width tends to. Its expectation at finite width differs by a series in 1/width;
`estimates` takes (4 G(4 w) - G(w))/3, which is free of the first term, so that no allowance is needed for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special, stats

Floats: TypeAlias = NDArray[np.float64]
Function: TypeAlias = Callable[[Floats], Floats]

SIGMAS: dict[str, Function] = {
    "x": lambda u: u,
    "2*x + 1": lambda u: 2 * u + 1,
    "relu": lambda u: np.maximum(u, 0.0),
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "gelu": lambda u: u * special.ndtr(u),
    "step": lambda u: np.where(u >= 0, 1.0, 0.0),
    "elu": lambda u: np.where(u > 0, u, np.expm1(np.minimum(u, 0.0))),
    "square": lambda u: u * u,
}


@dataclass(frozen=True)
class Spec:
    """The options of a layer, in its own words."""

    activation: str
    normalization: str = "layer"
    order: str = "activation-first"
    gain: float = 1.0
    bias_variance: float = 0.0
    skip: float = 0.0

    @property
    def options(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "activation"}

    def __str__(self) -> str:
        return "-".join(str(v) for v in vars(self).values())


@cache
def constants(activation: str, variance: float) -> tuple[float, float]:
    """Mean and variance of sigma(sqrt(variance) X), by scipy's quadrature on either side of 0."""
    sigma, s = SIGMAS[activation], math.sqrt(variance)

    def average(power: int) -> float:
        def integrand(x: float) -> float:
            return float(sigma(np.array(s * x))) ** power * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

        return float(sum(integrate.quad(integrand, *ends, epsabs=1e-12)[0] for ends in ((-12, 0), (0, 12))))

    mean = average(1)
    return mean, average(2) - mean * mean


def normalised(y: Floats, spec: Spec) -> Floats:
    """N(y): statistics over the width for each input, over the batch for each neuron with "batch"."""
    kind = spec.normalization
    if kind == "layer":
        return np.asarray((y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True))
    if kind == "rms":
        return np.asarray(y / np.sqrt(np.mean(y * y, axis=1, keepdims=True)))
    if kind == "center":
        return np.asarray(y - y.mean(axis=1, keepdims=True))
    if kind == "batch":
        return np.asarray((y - y.mean(axis=0)) / y.std(axis=0))
    assert kind in ("constant", "none")
    if kind == "constant" and spec.order == "activation-first":
        mean, variance = constants(spec.activation, spec.gain**2 + spec.bias_variance)
        return np.asarray((y - mean) / math.sqrt(variance))
    return y  # z has mean 0 and, for unit inputs, variance 1


def product(x: Floats, width: int, rng: np.random.Generator) -> Floats:
    """W x for each row of x, (n, fan_in) -> (n, width); 24 bits of a weight are enough, and quicker."""
    fan_in = x.shape[1]
    W = rng.standard_normal((width, fan_in), dtype=np.float32)
    return np.asarray((x / math.sqrt(fan_in)).astype(np.float32) @ W.T, dtype=np.float64)


def layer(x: Floats, spec: Spec, width: int, rng: np.random.Generator) -> Floats:
    """One layer on x, (n, fan_in) -> (n, width); fan_in is the width where there is a skip."""
    sigma = SIGMAS[spec.activation]
    z = product(x, width, rng)
    b = math.sqrt(spec.bias_variance) * rng.standard_normal(width)
    if spec.order == "activation-first":
        y = normalised(sigma(spec.gain * z + b), spec)
    else:
        y = sigma(spec.gain * normalised(z, spec) + b)
    if not spec.skip:
        return y
    return np.asarray(spec.skip * x + math.sqrt(1 - spec.skip**2) * product(y, width, rng))


def inputs(K: Floats, d: int, rng: np.random.Generator) -> Floats:
    """Rows (n, d) with X X^T/d = K, in a random position."""
    values, vectors = np.linalg.eigh(K)
    Q, _ = np.linalg.qr(rng.standard_normal((d, len(K))))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0) * d)) @ Q.T)


def network(specs: Sequence[Spec], K: Floats, width: int, rng: np.random.Generator) -> Floats:
    """x' x'^T/width after the layers, from inputs with covariance K."""
    x = inputs(K, width if specs[0].skip else len(K) + 1, rng)
    for spec in specs:
        x = layer(x, spec, width, rng)
    return np.asarray(x @ x.T / width)


def estimates(specs: Sequence[Spec], K: Floats, *, width: int, seeds: int, first_seed: int = 0) -> Floats:
    """Estimates of the limit, one for each seed, from widths `width` and a quarter of it: (seeds, n, n)."""
    out = []
    for seed in range(first_seed, first_seed + seeds):
        narrow, wide = (
            network(specs, K, w, np.random.Generator(np.random.SFC64([seed, w]))) for w in (width // 4, width)
        )
        out.append((4 * wide - narrow) / 3)
    return np.array(out)


def disagreement(sample: Floats, claim: Floats, level: float = 1e-6) -> float:
    """How far a claim, (n, n), is from the mean of a sample, (seeds, n, n), over what chance allows: 1 rejects.

    The largest t statistic of an entry over its quantile, so that a true claim is rejected with probability `level` at
    most (Bonferroni over the entries). Entries that do not vary must agree to rounding.
    """
    seeds, n, _ = sample.shape
    upper = np.triu_indices(n)
    values, wanted = sample[:, *upper], claim[upper]
    off = np.abs(values.mean(axis=0) - wanted)
    spread = values.std(axis=0, ddof=1) / math.sqrt(seeds)
    fixed = spread < 1e-13
    if np.any(off[fixed] > 1e-11):
        return math.inf
    allowed = spread[~fixed] * float(stats.t.isf(level / (2 * len(wanted)), seeds - 1))
    return float(np.max(off[~fixed] / allowed, initial=0.0))
