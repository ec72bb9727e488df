"""Isometry strengths and coefficients, beside Monte Carlo and a fixed Gauss-Hermite rule done in the same run.

Run by `make bench`. Times depend on the machine and its neighbours, so the ratios printed at the end are what counts;
accuracy stands beside them, because a rule that is fast and wrong is no competitor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hermite
from hermite import _activation, _numeric, _panels

KINKED = "relu(x - 1/2)"
ANALYTIC = "gelu"
DEGREE = 2000
SAMPLES = 1_000_000
NODES = 100
EXACT_RELU = (3 * math.pi - 4) / (2 * math.pi - 2)
EXACT_STEP = 2 - 2 / math.pi
EXACT_EXP3 = 2 - 9 / math.expm1(9)


def forget() -> None:
    """Drop everything cached but the Gauss-Legendre rules, which every program builds once."""
    for module in (_activation, _panels, _numeric):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear") and cached is not _numeric.gauss_legendre:
                cached.cache_clear()


@pytest.fixture(autouse=True)
def warm() -> None:
    hermite.isometry_strength("gelu")  # loads scipy.special, builds the rules
    hermite.coefficients(KINKED, DEGREE)


def bench_strength_of_the_whole_catalogue(benchmark: Any) -> None:
    """Aim: under 0.1 s."""
    sigmas = hermite.catalogue()
    benchmark.pedantic(lambda: [hermite.isometry_strength(s) for s in sigmas], setup=forget, rounds=10)


@pytest.mark.parametrize("sigma", [KINKED, ANALYTIC])
def bench_coefficients_to_degree_2000(benchmark: Any, sigma: str) -> None:
    """Aim: under 15 ms with plain NumPy."""
    s = hermite.activation(sigma)
    benchmark.pedantic(hermite.coefficients, args=(s, DEGREE), setup=forget, rounds=20)


def monte_carlo(f: Callable[[Any], Any]) -> float:
    x = np.random.default_rng(0).standard_normal(SAMPLES)
    y = f(x)
    return 2 - float(np.mean(x * y)) ** 2 / float(np.var(y))


RULE = hermite.gauss_hermite(NODES)  # built once, so only its use is timed


def fixed_rule(f: Callable[[Any], Any]) -> float:
    x, w = RULE
    y = f(x)
    mean = w @ y
    return float(2 - (w @ (x * y)) ** 2 / (w @ (y - mean) ** 2))


def _best(call: Callable[[], float], rounds: int) -> tuple[float, float]:
    times = []
    for _ in range(rounds):
        forget()
        begun = time.perf_counter()
        value = call()
        times.append(time.perf_counter() - begun)
    return min(times), value


def bench_ratios_against_sampling_and_a_fixed_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints seconds, ratio to ours, and error of the isometry strength for each way."""
    rows = [f"{'sigma':>8} {'way':>22} {'ms':>9} {'ratio':>8} {'error':>9}"]
    for name, sigma, exact in (
        ("relu", "relu", EXACT_RELU),
        ("step", "step", EXACT_STEP),
        ("exp(3x)", "exp(3*x)", EXACT_EXP3),
    ):
        s = hermite.activation(sigma)
        ways = {
            "adaptive panels (ours)": (lambda s=s: hermite.isometry_strength(s), 20),
            f"Gauss-Hermite {NODES}": (lambda s=s: fixed_rule(s), 20),
            f"Monte Carlo {SAMPLES:.0e}": (lambda s=s: monte_carlo(s), 3),
        }
        base = None
        for way, (call, rounds) in ways.items():
            seconds, value = _best(call, rounds)
            base = base or seconds
            rows.append(f"{name:>8} {way:>22} {1e3 * seconds:9.3f} {seconds / base:8.3g} {abs(value - exact):9.1e}")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
