"""The edge of chaos at a hundred bias variances, beside the two habits it replaces, and phases point by point.

Run by `make bench`. Goal: a hundred bias values of one activation in a second, from nothing. The habits are to iterate
the variance sixty times from 1, and to take moments by Gauss-Hermite with 100 nodes; extra_info and the printed table
say where they are wrong, as relative errors of the weight variance (nan: no answer). Ours are checked by chi = 1 with
20 digits at three bias values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import hermite
from hermite import _by_variance, _ends, _numeric, _panels, multiprecision
from hermite._slope import derivative
from meanfield import _phase, _variance_grid
from meanfield._phase import edge_of_chaos, phase
from meanfield._variances import variances_of

NAMES = [
    "tanh", "erf", "sin", "arctan", "softsign", "elu", "selu", "gelu", "silu", "mish", "hardtanh", "relu6",
]  # fmt: skip
BIASES = np.geomspace(1e-8, 4.0, 100)
CHECKED = (0, 50, 99)


def forget() -> None:
    """As in a new process, but for the imports."""
    for module in (_by_variance, _panels, _numeric, _ends, _variance_grid):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear") and cached is not _numeric.gauss_legendre:
                cached.cache_clear()
    _phase._Edge.of.cache_clear()


def slope_of(sigma: hermite.Activation) -> hermite.Activation:
    return replace(sigma, expr=derivative(sigma.expr), name=f"{sigma.name}'", declared_growth=None)


def gauss_hermite(sigma: hermite.Activation, degree: int) -> Callable[[float], float]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree)
    weights = weights / math.sqrt(2 * math.pi)
    return lambda v: float(weights @ sigma(math.sqrt(v) * nodes) ** 2)


def exact(sigma: hermite.Activation) -> Callable[[float], float]:
    m = _by_variance.by_variance(sigma)
    return lambda v: float(m.second(np.array([v]))[0])


def by_habit(second: Callable[[float], float], slope: Callable[[float], float], b: float, steps: int) -> float:
    """w with chi = 1 by bisection, at the variance that so many steps from 1 reach; nan where there is none."""

    def excess(w: float) -> float:
        v = 1.0
        for _ in range(steps):
            v = min(w * second(v) + b, 1e6)
        return w * slope(v) - 1

    low, high = 0.2, 20.0
    if not excess(low) < 0 < excess(high):
        return math.nan
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return 0.5 * (low + high)


def by_nodes(sigma: hermite.Activation, slope: hermite.Activation, w: float, b: float) -> float:
    """The edge as we define it, v - M(v)/D(v) = b, with moments by Gauss-Hermite; looked for near ours."""
    m = _by_variance.by_variance(sigma)
    second, square = gauss_hermite(sigma, 100), gauss_hermite(slope, 100)
    ours = np.geomspace(1e-4, 1e4, 2001)
    v = float(ours[np.argmin(np.abs(w * m.derivative(ours) - 1) + np.abs(w * m.second(ours) + b - ours) / ours)])

    def gap(v: float) -> float:
        return v - second(v) / square(v) - b

    low, high = v / 2, v * 2
    return 1 / square(brentq(gap, low, high, xtol=1e-14)) if gap(low) < 0 < gap(high) else math.nan


def residual(sigma: hermite.Activation, w: float, b: float) -> float:
    """chi - 1 with 20 digits at the variance kept that is nearest to critical, known to float64."""
    map_ = variances_of(
        sigma, normalization="none", order="activation-first", gain_squared=w, bias_variance=b, keep=0.0
    )
    deviations = [Fraction(math.sqrt(w * p.variance + b)) for p in map_.fixed_points()]
    slope = slope_of(sigma)
    chis = [w * multiprecision.second_moment(slope.scaled(s), digits=20) for s in deviations]
    return min((float(chi - 1) for chi in chis), key=abs)


@pytest.mark.parametrize("name", NAMES)
def bench_edge_from_nothing(benchmark: Any, name: str) -> None:
    sigma = hermite.activation(name)
    benchmark.pedantic(lambda: edge_of_chaos(sigma, BIASES), setup=forget, rounds=3)


@pytest.mark.parametrize("name", NAMES)
def bench_edge_again(benchmark: Any, name: str) -> None:
    sigma = hermite.activation(name)
    found = edge_of_chaos(sigma, BIASES)
    shown = [residual(sigma, found[i], BIASES[i]) for i in CHECKED]
    benchmark.extra_info["chi - 1"] = shown
    benchmark.pedantic(lambda: edge_of_chaos(sigma, BIASES), rounds=5)


@pytest.mark.parametrize("name", ["tanh", "gelu", "elu"])
def bench_phase(benchmark: Any, name: str) -> None:
    """One point of a phase diagram: a few milliseconds."""
    grid = [(w, b) for w in np.linspace(0.3, 3.0, 10).tolist() for b in (0.0, 0.05, 0.5)]
    benchmark.pedantic(lambda: [phase(name, w, b).name for w, b in grid], rounds=2)


def bench_habits(capsys: pytest.CaptureFixture[str], benchmark: Any) -> None:
    """Relative errors of both habits at five bias variances."""
    at = [0, 25, 50, 75, 99]
    rows = [f"{'sigma':>10} {'b':>9} {'w':>10} {'60 steps':>9} {'100 nodes':>10}"]
    for name in NAMES:
        sigma = hermite.activation(name)
        slope = slope_of(sigma)
        wanted = edge_of_chaos(sigma, BIASES)
        for i in at:
            b, w = float(BIASES[i]), float(wanted[i])
            steps = by_habit(exact(sigma), exact(slope), b, 60)
            errors = steps / w - 1, by_nodes(sigma, slope, w, b) / w - 1
            benchmark.extra_info[f"{name} at {b:.1e}: 60 steps, 100 nodes"] = errors
            rows.append(f"{name:>10} {b:9.1e} {w:10.6f} {errors[0]:9.1e} {errors[1]:10.1e}")
    benchmark.pedantic(lambda: edge_of_chaos("tanh", BIASES), rounds=1)
    with capsys.disabled():
        print("\n" + "\n".join(rows))
