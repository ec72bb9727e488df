"""Fixed points of every catalogue entry, and of nearly critical layers beside what is usually done about them.

Run by `make bench`. Duals are built before the clock starts. Beside ours: sixty steps of the map from 0, and a root of
the map by the Gauss-Hermite rule of degree 100 in two dimensions. The complement 1 - rho is what is compared: iteration
stops short of a fixed point it approaches slowly, and a fixed rule moves one of a kinked or nearly critical layer, or
finds one where there is none.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hermite import _chord, _excess, activation, catalogue
from hermite.multiprecision import _mean, _moments
from meanfield import Layer, fixed_points

Floats = NDArray[np.float64]
NODES, STEPS = 100, 60
NORMALIZATIONS: tuple[Any, ...] = ("layer", "rms")
LAYERS = {
    "relu6": Layer("relu6", normalization="rms"),
    "relu": Layer("relu", normalization="rms"),
    "exp": Layer("exp", normalization="rms"),
    "exp, gain 1.0001": Layer("exp", normalization="rms", gain="1.0001"),
    "gelu": Layer("gelu", normalization="rms"),
    "celu(2)": Layer("celu(x, alpha=2)", normalization="rms"),
    "step": Layer("step", normalization="rms"),
    "sqrt|x|": Layer("sqrt(abs(x))", normalization="rms"),
    "relu, bias .466": Layer("relu", bias_variance="0.466"),
}


def forget() -> None:
    """Drop everything but the duals."""
    for module in (_chord, _excess, _mean, _moments):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


@cache
def built() -> tuple[Layer, ...]:
    layers = tuple(Layer(sigma, normalization=n) for sigma in catalogue() for n in NORMALIZATIONS)
    for layer in layers:
        _ = layer.step
    fixed_points(Layer("celu(x, alpha=3)", normalization="rms"))  # loads multiprecision
    return layers


def bench_fixed_points_of_the_whole_catalogue(benchmark: Any) -> None:
    """Aim: under a second for 37 activations with two normalisations."""
    layers = built()
    benchmark.pedantic(lambda: [fixed_points(layer) for layer in layers], setup=forget, rounds=5)
    assert benchmark.stats["min"] < 1.0


def iterated(layer: Layer) -> float:
    rho = np.zeros(1)
    for _ in range(STEPS):
        rho = layer.step(rho)
    return 1.0 - float(rho[0])


def by_a_fixed_rule(layer: Layer) -> float:
    """1 - the smallest root in [0, 1] of the rule's map less rho; 0 where it has none below 1."""
    z, w = np.polynomial.hermite_e.hermegauss(NODES)
    w = w / math.sqrt(2 * math.pi)
    g, b = float(layer.gain) ** 2, float(layer.bias_variance)
    sigma = activation(layer.activation)
    x = math.sqrt(g + b) * z[:, None]
    mean = float(w @ sigma(x[:, 0])) if layer.is_centred else 0.0
    scale = float(w @ (sigma(x[:, 0]) - mean) ** 2)

    def excess(rho: float) -> float:
        t = (g * rho + b) / (g + b)
        y = t * x + math.sqrt((g + b) * (1 - t * t)) * z
        return float(w @ ((sigma(x) - mean) * (sigma(y) - mean)) @ w) / scale - rho

    from scipy.optimize import brentq

    grid = np.append(np.linspace(0, 0.99, 100), 1 - np.geomspace(1e-2, 1e-12, 60))
    signs = np.array([excess(r) for r in grid]) > 0
    below = int(np.argmin(signs))
    return 0.0 if signs.all() else 1.0 - float(brentq(excess, grid[below - 1], grid[below], xtol=1e-15))


@pytest.mark.parametrize("name", LAYERS)
def bench_nearly_critical(benchmark: Any, name: str) -> None:
    layer = LAYERS[name]
    _ = layer.step
    points = benchmark.pedantic(fixed_points, args=(layer,), setup=forget, rounds=5)
    ours = points[0].complement
    for way, found in ((f"{STEPS} steps", iterated(layer)), (f"Gauss-Hermite {NODES}", by_a_fixed_rule(layer))):
        wrong = abs(found - ours) / ours if ours else found
        benchmark.extra_info[way] = f"1 - rho* = {found:.3g}, off by {wrong:.1g}{'' if ours else ' (absolute)'}"
    benchmark.extra_info["ours"] = f"1 - rho* = {ours:.16g}, {points[0].stability}"


def bench_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints 1 - rho* by each way."""
    rows = [f"{'layer':>18} {'ours':>23} {f'{STEPS} steps':>12} {f'Gauss-Hermite {NODES}':>18}"]
    for name, layer in LAYERS.items():
        ours = fixed_points(layer)[0].complement
        rows.append(f"{name:>18} {ours:23.16g} {iterated(layer):12.3g} {by_a_fixed_rule(layer):18.3g}")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
