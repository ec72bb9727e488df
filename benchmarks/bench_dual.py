"""The dual over four million correlations, beside the textbook formula, a truncated series and a closed form in NumPy.

Run by `make bench`. Ratios of one run are what counts: times depend on the machine. Demanded: 1.5 times the speed of
`np.polyval` of a series of 100 terms with plain NumPy, 5 times with numba (extra `fast`; ISOGRAM_NO_NUMBA=1 switches
it off), where a map has at most 100 terms in all. Accuracy stands beside: a series of a hundred terms is no competitor.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _activations import DATA, SPECS

import hermite
from hermite import _build, _compiled, _ends, _numeric, _panels, _rotation

COUNT = 4_000_000
DEGREE = 100
DEMANDED = {False: 1.5, True: 5.0}
LONG = 100  # terms in all beyond which nothing is demanded
# tests/reference: correlation and dual, where the decimal of the correlation is as good as its float
KNOWN = {
    hermite.activation(SPECS.get(name, name)).name: [
        (float(r), float(v)) for r, v in entry["dual"].items() if abs(float(r)) <= 0.99 or abs(float(r)) == 1
    ]
    for name, entry in DATA.items()
}


@pytest.fixture(scope="module")
def rho() -> Any:
    return np.random.default_rng(0).uniform(-1, 1, COUNT)


def naive_relu(r: Any) -> Any:
    return (np.sqrt(1 - r * r) + r * (np.pi - np.arccos(r))) / (2 * np.pi)


def truncated(sigma: hermite.Activation) -> Callable[[Any], Any]:
    squares = hermite.coefficients(sigma, DEGREE) ** 2
    return lambda r: np.polyval(squares[::-1], r)


def best(f: Callable[[Any], Any], rho: Any, rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        f(rho)
        times.append(time.perf_counter() - begun)
    return min(times)


def terms(d: hermite.Dual) -> int:
    return d._map.main.odd.terms + d._map.main.even.terms


def forget() -> None:
    for module in (_build, _rotation, _panels, _numeric, _ends):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear") and cached is not _numeric.gauss_legendre:
                cached.cache_clear()


@pytest.mark.parametrize("spec", ["relu", "tanh", "hardtanh", "gelu", "threshold"])
def bench_dual(benchmark: Any, rho: Any, spec: str) -> None:
    d = hermite.Dual(spec)
    d(rho)  # builds, and compiles where there is numba
    benchmark.pedantic(d, args=(rho,), rounds=5)


@pytest.mark.parametrize("spec", ["relu", "tanh", "hardtanh", "elu"])
def bench_building(benchmark: Any, spec: str) -> None:
    """Aim: milliseconds for a smooth activation, half a second for a kinked one."""
    hermite.Dual(spec)
    benchmark.pedantic(lambda: hermite.Dual(hermite.activation(spec)), setup=forget, rounds=3)


def bench_ratios_to_formula_and_series(rho: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints every registered activation: terms, seconds to build, ns an element, ratio to polyval, errors of both.

    Errors are relative to E sigma^2, at the correlations of tests/reference.
    """
    fast = _compiled.available()
    rows = [
        f"{COUNT:.0e} correlations, {'numba' if fast else 'plain NumPy'}; demanded: {DEMANDED[fast]} times the others",
        f"{'sigma':>20} {'terms':>6} {'build s':>8} {'ns':>7} {'polyval':>8} {'formula':>8} {'error':>8} "
        f"{'its error':>10}",
    ]
    slow = []
    for sigma in hermite.catalogue():
        forget()
        begun = time.perf_counter()
        d = hermite.Dual(sigma)
        built = time.perf_counter() - begun
        series = truncated(sigma)
        d(rho)  # compiles
        ours = best(d, rho)
        ratios = [best(series, rho, 1) / ours]
        if sigma.name == "relu":
            ratios.append(best(naive_relu, rho) / ours)
        at, wanted = np.array(KNOWN.get(sigma.name, [(0.0, math.nan)])).T
        errors = [np.abs(np.asarray(f(at)) - wanted).max() / d(1.0) for f in (d, series)]
        rows.append(
            f"{sigma.name:>20} {terms(d):6} {built:8.3f} {1e9 * ours / COUNT:7.2f} {ratios[0]:8.2f} "
            f"{format(ratios[1], '8.2f') if ratios[1:] else '':8} {errors[0]:8.1e} {errors[1]:10.1e}"
        )
        if terms(d) <= LONG and min(ratios) < DEMANDED[fast]:
            slow.append(sigma.name)
    with capsys.disabled():
        print("\n" + "\n".join(rows) + f"\nslower than demanded: {', '.join(slow) or 'none'}")
