"""Networks of finite width: Gram matrices from their law against explicit weights, and against the generator alone.

Run by `make bench`. Goals: at n = 10, width 1000, depth 30, 10 runs the law is at least 40 times faster than weights;
at width 10^6 a normal variate takes at most 1.3 times as long, on all cores, as the generator alone takes for it on one
(blocks are drawn at once; on one core it is 1.4 to 1.6 times, which is printed, too), and ten layers take seconds.
Figures are ratios of the best of some rounds in one run. torch is compared where it is installed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meanfield import Layer, simulate
from meanfield._wide import NumpyArrays

RELU = Layer("relu")
X = np.random.default_rng(0).standard_normal((10, 50))
NARROW: dict[str, Any] = {"width": 1000, "depth": 30, "runs": 10, "rng": 1}
BACKENDS = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]


def best(call: Callable[[], Any], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return min(times)


def generator_alone(variates: int, dtype: str) -> float:
    """Seconds for so many normal variates, in pieces of 10 x 4096 that are used again."""
    generator, piece = np.random.Generator(np.random.SFC64(1)), np.empty((10, 4096), dtype=dtype)
    return best(lambda: [generator.standard_normal(out=piece, dtype=dtype) for _ in range(variates // piece.size)])


def bench_the_law_against_weights(benchmark: Any) -> None:
    """At least 40 times faster."""
    simulate(RELU, X, **NARROW)
    law = best(lambda: simulate(RELU, X, **NARROW), 20)
    weights = best(lambda: simulate(RELU, X, method="weights", **NARROW), 3)
    benchmark.extra_info |= {"law, ms": 1e3 * law, "weights, ms": 1e3 * weights, "ratio": weights / law}
    print(f"\nlaw {1e3 * law:.0f} ms, weights {1e3 * weights:.0f} ms: {weights / law:.0f} times")
    benchmark.pedantic(simulate, args=(RELU, X), kwargs=NARROW, rounds=5)
    assert weights / law >= 40


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def bench_a_normal_variate_of_a_wide_layer(benchmark: Any, dtype: str) -> None:
    """At most 1.3 times the generator alone."""
    width = 10**6
    ours = best(lambda: simulate(RELU, X, width=width, depth=1, rng=1, dtype=dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyArrays, "each", lambda self, function, starts: [function(start) for start in starts])
        one_core = best(lambda: simulate(RELU, X, width=width, depth=1, rng=1, dtype=dtype))
    alone = generator_alone(10 * width, dtype)
    benchmark.extra_info |= {"ns a variate": 1e8 * ours / width, "generator alone": 1e8 * alone / width}
    benchmark.extra_info["one core, ratio"] = one_core / alone
    print(f"\n{dtype}: {1e8 * ours / width:.1f} ns a variate, {ours / alone:.2f} of the generator alone")
    print(f"on one core {one_core / alone:.2f}")
    benchmark.pedantic(
        simulate, args=(RELU, X), kwargs={"width": width, "depth": 1, "rng": 1, "dtype": dtype}, rounds=3
    )
    assert ours / alone <= 1.3


def bench_a_million_neurons(benchmark: Any) -> None:
    """Ten layers of a million neurons."""
    benchmark.pedantic(simulate, args=(RELU, X), kwargs={"width": 10**6, "depth": 10, "rng": 1}, rounds=2)
    assert benchmark.stats.stats.min < 10


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sigma", ["relu", "tanh", "gelu"])
def bench_backends(benchmark: Any, sigma: str, dtype: str, backend: str) -> None:
    """Widths of 10^5, by backend and dtype."""
    options = {"width": 10**5, "depth": 3, "runs": 2, "rng": 1, "dtype": dtype, "backend": backend}
    benchmark.pedantic(simulate, args=(Layer(sigma), X), kwargs=options, rounds=3, warmup_rounds=1)
