"""The variance of a correlation after one layer, beside layers of finite width: 500 and 2000, with wrong formulas, too.

A claim is compared with (4 V(2000) - V(500))/3, V(w) = w times the variance of an entry over 4000 and 8000 runs, which
is free of the first correction in 1/w. A true claim is rejected with probability 1e-6, and the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from _networks import SIGMAS, Spec, normalised
from numpy.typing import NDArray
from scipy import stats

import hermite
from meanfield import Layer
from meanfield import _joint as joint
from meanfield._one_step import one_step_variance

Floats: TypeAlias = NDArray[np.float64]

SAMPLED = SIGMAS | {"He(2, x)": lambda u: (u * u - 1) / np.sqrt(2)}
RHO = (-0.9, -0.3, 0.0, 0.5, 0.9, 0.99)
RUNS = {500: 8000, 2000: 4000}
LEVEL = 1e-6


@cache
def normals(width: int) -> Floats:
    return np.random.default_rng(width).standard_normal((2, RUNS[width], width), dtype=np.float32).astype(np.float64)


@cache
def entries(text: str, normalization: str, rho: float, bias: float, width: int) -> Floats:
    """Entries of sample correlation matrices of layers of this width, one a run."""
    u, z = normals(width)
    pair = np.sqrt(1 + bias), (rho + bias) / np.sqrt(1 + bias)  # u with the variance 1 + bias, v with the covariance
    v = pair[1] * u + np.sqrt(1 + bias - pair[1] ** 2) * z
    x, y = (SAMPLED[text](w) for w in (pair[0] * u, v))
    spec = Spec(text, normalization)
    found = np.empty(len(u))
    for start in range(0, len(u), 500):
        part = slice(start, start + 500)
        rows = np.concatenate([x[part], y[part]])
        a, b = np.split(normalised(rows, spec), 2)
        found[part] = np.mean(a * b, axis=1)
    return found


def rejected(claim: float, samples: dict[int, Floats]) -> bool:
    """Whether v is no claim for width times the variance, free of its first correction in 1/width.

    Variances have the standard error of a sample with its fourth moment; 4/3 and -1/3 of those of both widths.
    """
    estimate, error = 0.0, 0.0
    for width, factor in ((500, -1 / 3), (2000, 4 / 3)):
        sample = samples[width]
        variance = float(np.var(sample, ddof=1))
        spread = variance * math.sqrt((float(stats.kurtosis(sample, fisher=False)) - 1) / len(sample))
        estimate += factor * width * variance
        error += (factor * width * spread) ** 2
    return abs(estimate - claim) > float(stats.norm.isf(LEVEL / 2)) * math.sqrt(error)


CASES = [(text, "layer", 0.0) for text in ("relu", "tanh", "gelu", "He(2, x)")] + [
    ("relu", "rms", 0.0),
    ("gelu", "rms", 0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "normalization", "bias"), CASES)
def test_layers_of_finite_width_scatter_as_claimed(text: str, normalization: str, bias: float) -> None:
    layer = Layer(text, normalization=normalization, bias_variance=bias)
    for rho in RHO:
        samples = {width: entries(text, normalization, rho, bias, width) for width in RUNS}
        assert not rejected(one_step_variance(layer, rho), samples), rho


def parts(text: str, rho: float) -> tuple[float, float, float, float]:
    sigma = hermite.activation(text)
    x = joint.output(sigma, centred=True)
    root, mirrored = math.sqrt(1 - abs(rho)), rho < 0

    def mean(i: int, j: int) -> float:
        return joint.pair_mean(lambda a, b: a**i * b**j, x, x, root, mirrored=mirrored)

    return mean(1, 1), mean(2, 2), mean(3, 1), mean(4, 0)


def right(f: float, q: float, s: float, m4: float) -> float:
    return q - 2 * f * s + f * f / 2 * (m4 + q)


WRONG: dict[str, Callable[[float, float, float, float], float]] = {
    "without -2fs": lambda f, q, s, m4: q + f * f / 2 * (m4 + q),
    "f for f^2/2": lambda f, q, s, m4: q - 2 * f * s + f * (m4 + q),
    "constant": lambda f, q, s, m4: 1.0,
    "the variance of a product": lambda f, q, s, m4: q - f * f,
    "without m_4": lambda f, q, s, m4: q - 2 * f * s + f * f / 2 * q,
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("text", ["relu", "tanh", "gelu", "He(2, x)"])
def test_wrong_formulas_are_rejected(text: str, wrong: str) -> None:
    for rho in (0.5, 0.9) if wrong != "constant" else (0.9,):  # at 0.5 that of relu happens to be 1.07
        samples = {width: entries(text, "layer", rho, 0.0, width) for width in RUNS}
        moments = parts(text, rho)
        assert not rejected(right(*moments), samples)
        assert rejected(WRONG[wrong](*moments), samples), rho


@pytest.mark.slow
def test_another_sigma_or_normalisation_is_rejected() -> None:
    samples = {width: entries("relu", "rms", 0.5, 0.0, width) for width in RUNS}
    assert rejected(one_step_variance(Layer("relu"), 0.5), samples)
    samples = {width: entries("gelu", "rms", 0.5, 0.5, width) for width in RUNS}
    assert rejected(one_step_variance(Layer("gelu", normalization="rms"), 0.5), samples)
