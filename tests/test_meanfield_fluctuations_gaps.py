"""Isometry gaps of sampled networks of finite width: their law on the floor, their mean and their scatter before it.

A comparison rejects a true claim with probability 1e-6 unless it says otherwise; the seeds are fixed, and wrong claims
are rejected by the very same comparisons.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from _networks import Spec
from _sampled import CLOSE, G5, LEVEL, NORMS, R, layers_of, networks, rejects_mean
from numpy.typing import NDArray
from scipy import stats

from meanfield import Layer, isometry_gap
from meanfield._fluctuations import Fluctuations, fluctuations

Floats: TypeAlias = NDArray[np.float64]


@cache
def floor() -> Floats:
    return np.asarray(isometry_gap(networks([Spec("relu")] * 6, np.eye(4), [2000] * 6, 400)[6]))


def p_value(scale: float, freedom: int) -> float:
    return float(stats.kstest(floor(), stats.chi2(freedom, scale=scale).cdf).pvalue)


def test_the_floor_has_the_law_of_f4() -> None:
    """n = 4, width 2000, 400 runs, Kolmogorov and Smirnov's test; the law is that of infinite width."""
    found = fluctuations([Layer("relu")] * 6, np.eye(4), [2000] * 6)
    scale = (1 - R**12) / (1 - R**2) / (4 * 2000)
    assert p_value(scale, 6) > 1e-3
    p = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(found.gap_quantiles(p)[:, 6], stats.chi2.ppf(p, 6) * scale, rtol=1e-9)


def test_other_laws_of_the_floor_are_rejected() -> None:
    scale = (1 - R**12) / (1 - R**2) / (4 * 2000)
    r_for_its_square = (1 - R**6) / (1 - R) / (4 * 2000)
    for name, wrong, freedom in (
        ("degrees of freedom more by n", scale, 10),
        ("degrees of freedom fewer by n", scale, 2),
        ("the same mean with n more", scale * 6 / 10, 10),
        ("r for r^2", r_for_its_square, 6),
        ("one layer", 1 / (4 * 2000), 6),
        ("not divided by n", 4 * scale, 6),
    ):
        assert p_value(wrong, freedom) < (LEVEL if "same mean" not in name else 1e-2), name


CASES: dict[str, tuple[list[Spec], Floats, list[int]]] = {
    "relu from close inputs": ([Spec("relu")] * 6, CLOSE, [1000] * 6),
    "tanh from mixed inputs": ([Spec("tanh")] * 6, G5, [1000] * 6),
    "uncentred": ([Spec("gelu", "rms", gain=1.5, bias_variance=0.3)] * 3, CLOSE, [2000] * 3),
    "unequal norms": ([Spec("tanh", gain=1.5)] * 2, G5 * np.outer(NORMS, NORMS), [1000] * 2),
    "layers of many kinds": (
        [Spec("relu"), Spec("square"), Spec("tanh"), Spec("step")],
        CLOSE,
        [500, 3000, 2000, 3000],
    ),
}


@cache
def gaps(name: str) -> tuple[Floats, Fluctuations]:
    specs, G0, widths = CASES[name]
    sample = np.asarray(isometry_gap(networks(specs, G0, widths, 1500)[1:]))
    return sample, fluctuations(layers_of(specs), G0, widths)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_gaps_scatter_as_predicted(name: str) -> None:
    """The deviation to 10 %: 1500 runs know it to 2 % or so, the rest is the next order in 1/width."""
    sample, found = gaps(name)
    deviation = sample.std(axis=1, ddof=1)
    np.testing.assert_allclose(np.sqrt(found.gap_variance[1:]), deviation, rtol=0.1)
    low, high = found.gap_quantiles((0.05, 0.95))[:, 1:]
    covered = np.mean((sample >= low[:, None]) & (sample <= high[:, None]), axis=1)
    assert np.all(np.abs(covered - 0.9) < 0.05), covered


@pytest.mark.slow
def test_independent_entries_would_not_scatter_enough() -> None:
    sample, found = gaps("relu from close inputs")
    deviation = sample.std(axis=1, ddof=1)
    for l in (1, 2, 3):
        W, h = found.variance[l], np.linalg.inv(found.gram[l])
        for gradient in (h, found.gram[l] - np.eye(6)):
            assert np.sum(W * (2 * gradient**2 + W)) / 36 < 0.6 * deviation[l - 1] ** 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_expected_gaps(name: str) -> None:
    """To a few 1/width of the gap where it is not small."""
    sample, found = gaps(name)
    assert np.all(np.abs(sample.mean(axis=1) - found.expected_gap[1:]) < 0.05 * sample.mean(axis=1))


def test_expected_gaps_on_the_floor() -> None:
    found = fluctuations([Layer("relu")] * 6, np.eye(4), [2000] * 6)
    assert not rejects_mean(floor(), float(found.expected_gap[6]))
    assert rejects_mean(floor(), float(found.expected_gap[6]) * 4 / 3)  # n for n - 1
    assert rejects_mean(floor(), float(found.expected_gap[1]))
