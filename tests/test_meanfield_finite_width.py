"""How far networks of finite width are from their mean field: rates in the width, and what depth does to the error.

The theory of section 7.2 of arXiv:2305.18399. Every test is seeded, has a level, and a control that fails it.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from meanfield import Layer, correlation, gram, simulate

X = np.random.default_rng(3).standard_normal((6, 40))
X /= np.linalg.norm(X, axis=1, keepdims=True) / math.sqrt(40)


def exponent(layer: Layer, widths: list[int], *, runs: int = 200) -> tuple[float, float]:
    """The slope of log distance in log width, and its standard error, by weighted least squares over means of runs."""
    log_width, mean, error = [], [], []
    for width in widths:
        values = np.log(simulate(layer, X, width=width, depth=5, runs=runs, rng=2).distance_frobenius[:, -1])
        log_width.append(math.log(width))
        mean.append(values.mean())
        error.append(values.std(ddof=1) / math.sqrt(runs))
    weights, x, y = 1 / np.array(error) ** 2, np.array(log_width), np.array(mean)
    x = x - np.average(x, weights=weights)
    spread = float(np.sum(weights * x * x))
    return float(np.sum(weights * x * y)) / spread, spread**-0.5


@pytest.mark.parametrize(
    "layer",
    [
        Layer("relu"),
        Layer("gelu", normalization="rms", bias_variance=0.2),
        Layer("tanh", order="normalization-first"),
        Layer("tanh", normalization="none", gain=1.5, skip=0.0),
    ],
    ids=repr,
)
def test_the_distance_falls_like_the_root_of_the_width(layer: Layer) -> None:
    """1/sqrt(width) from 512 on, where the next order is 1/512 of it: within 5 standard errors; 1/3 and 2/3 are not."""
    slope, error = exponent(layer, [512, 2048, 8192, 32768])
    assert error < 0.01
    assert abs(slope + 0.5) < 5 * error + 0.002
    assert abs(slope + 2 / 3) > 8 * error
    assert abs(slope + 1 / 3) > 8 * error


def test_errors_do_not_accumulate_with_layer_normalisation() -> None:
    """Layers 10 to 40 of relu at width 200: the mean distance stays within 5 %, its standard error being 1 %."""
    s = simulate(Layer("relu"), X, width=200, depth=40, runs=400, rng=1)
    distance = s.mean("distance_frobenius")
    assert np.all(s.standard_error("distance_frobenius")[10:] < 0.012 * distance[10])
    assert np.all(np.abs(distance[10:] / distance[10] - 1.0) < 0.05)


def test_errors_accumulate_where_constants_stand_for_statistics() -> None:
    """The control: with the constants of the mean field norms walk at random, and even the median distance doubles."""
    s = simulate(Layer("relu", normalization="constant"), X, width=200, depth=40, runs=400, rng=1)
    median = s.quantiles(0.5, "distance_frobenius")
    assert median[40] > 2 * median[10] > 2.5 * median[2]
    norms = np.einsum("rii->ri", s.gram).mean(axis=1)
    assert np.std(np.log(norms)) > 0.5  # of 1 in the mean field


def test_a_larger_batch_does_not_change_the_error_of_an_entry() -> None:
    """Neurons are independent whatever n is: entries of 2 of 6 inputs vary as those of 2 alone."""
    start = correlation(gram(X))
    few = simulate(Layer("relu"), X[:2], width=100, depth=1, runs=4000, rng=5).gram[:, 0, 1]
    many = simulate(Layer("relu"), X, width=100, depth=1, runs=4000, rng=6).gram[:, 0, 1]
    assert few.var() / many.var() == pytest.approx(1.0, abs=5 * math.sqrt(4 / 4000))
    assert abs(start[0, 1]) < 0.9


@pytest.mark.slow
def test_the_script_for_a_gpu_runs_without_one() -> None:
    """The same checks at small size, and exit code 0 where they agree."""
    script = Path(__file__).resolve().parent.parent / "benchmarks" / "cuda_width.py"
    if not script.exists():
        pytest.skip("these tests were copied away from the benchmarks")
    done = subprocess.run([sys.executable, script, "--device", "cpu"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "at small size" in done.stdout
    assert done.stdout.rstrip().endswith("agreement")
