"""Trajectories of thousands of inputs beside what they are made of, and beside the loop that anybody would write.

Run by `make bench`, on a quiet machine or with OPENBLAS_NUM_THREADS=1: BLAS threads that share cores with others spin,
and a factorisation then takes ten times as long. The floor is one Cholesky factorisation (scipy) for every gap and
1.3 ns for every pair and layer, which is what compiled maps of relu cost on one core; ratios to it are what counts. The
naive loop is NumPy's formula of relu and slogdet at every layer. ISOGRAM_NO_NUMBA=1 shows the same without numba.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest
import scipy.linalg
from numpy.typing import NDArray

from hermite import _compiled
from meanfield import Layer, input_gram, trajectory

Floats: TypeAlias = NDArray[np.float64]
RELU = Layer("relu")
DEPTH = 50
FEW = (0, 10, 20, 30, 50)
NANOSECONDS = 1.3  # a pair and a layer
SIZES = (512, 1024, 2048, 4096)
DEPTHS = (10, 20, 40, 80, 160)


@cache
def batch(n: int) -> Floats:
    """Gaussian inputs with a common part: correlations around one half, none near 1."""
    rng = np.random.default_rng(n)
    return input_gram(rng.standard_normal(2 * n) + rng.standard_normal((n, 2 * n)))


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Build the map, and compile it where there is numba."""
    trajectory(RELU, batch(512), DEPTH, gap_layers=[])


def seconds(run: Callable[[], Any], rounds: int = 1) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def cholesky(n: int) -> float:
    G = batch(n)
    return seconds(lambda: scipy.linalg.cholesky(G, lower=True, check_finite=False), rounds=2)


def maps(n: int, depth: int) -> float:
    return NANOSECONDS * 1e-9 * n * n / 2 * depth


def run(n: int, depth: int, asked: Iterable[int], rounds: int = 1) -> float:
    return seconds(lambda: trajectory(RELU, batch(n), depth, gap_layers=asked), rounds)


def naive(n: int, depth: int) -> float:
    """Every layer a new matrix, and its determinant by slogdet."""

    def loop() -> list[float]:
        G, gaps = batch(n), []
        for _ in range(depth):
            gaps.append(-float(np.linalg.slogdet(G)[1]) / n)
            dual = (np.sqrt(np.maximum(1 - G * G, 0)) + G * (np.pi - np.arccos(np.clip(G, -1, 1)))) / np.pi
            G = (dual - 1 / np.pi) / (1 - 1 / np.pi)
            np.fill_diagonal(G, 1.0)
        return gaps

    return seconds(loop)


def exponent(sizes: Iterable[int], times: Iterable[float]) -> float:
    """Slope of log time against log size, by least squares."""
    return float(np.polyfit(np.log(list(sizes)), np.log(list(times)), 1)[0])


def show(capsys: pytest.CaptureFixture[str], lines: list[str]) -> None:
    with capsys.disabled():
        print("\n" + "\n".join(lines))


def bench_ratio_to_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    """Five gaps of 4096 inputs, and all 51 gaps of 2048; the naive loop at 1024, scaled by n^3 and n^2 alike."""
    lines = [
        f"numba: {_compiled.available()}",
        f"{'n':>6} {'gaps':>5} {'s':>8} {'floor s':>8} {'ratio':>6} {'Cholesky s':>11}",
    ]
    for n, asked in ((4096, FEW), (2048, tuple(range(DEPTH + 1)))):
        one, ours = cholesky(n), run(n, DEPTH, asked)
        floor = one * len(asked) + maps(n, DEPTH)
        lines.append(f"{n:6} {len(asked):5} {ours:8.2f} {floor:8.2f} {ours / floor:6.2f} {one:11.3f}")
    loop, ours, n = naive(1024, DEPTH), run(1024, DEPTH, range(DEPTH + 1)), 1024
    lines.append(f"naive loop, n = {n}, {DEPTH + 1} gaps: {loop:.2f} s, ours {ours:.2f} s, {loop / ours:.1f} times")
    lines.append(f"  at 4096 it takes {16 * loop:.0f} (by n^2) to {64 * loop:.0f} s (by n^3)")
    show(capsys, lines)


def bench_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Aim: two and a half arrays of the size of G0, beside it."""
    lines = []
    for n in (1024, 2048):
        tracemalloc.start()
        trajectory(RELU, batch(n), 20, gap_layers=[0, 10, 20])
        peak = tracemalloc.get_traced_memory()[1] / batch(n).nbytes
        tracemalloc.stop()
        lines.append(f"n = {n}: {peak:.2f} arrays of n^2 doubles beside G0")
    show(capsys, lines)


def bench_growth(capsys: pytest.CaptureFixture[str]) -> None:
    """Without gaps time grows like n^2 and at most like depth (smallness ends the growth); a gap costs n^3."""
    without = [run(n, DEPTH, [], rounds=2) for n in SIZES]
    with_gaps = [run(n, DEPTH, (0, 25, 50)) for n in SIZES]
    deep = [run(1024, depth, [], rounds=2) for depth in DEPTHS]
    per_pair = 1e9 * without[-1] / (SIZES[-1] ** 2 / 2 * DEPTH)
    show(
        capsys,
        [
            f"n = {SIZES}: exponent {exponent(SIZES, without):.2f}, with three gaps {exponent(SIZES, with_gaps):.2f}",
            f"  without: {', '.join(f'{t:.3f}' for t in without)} s, {per_pair:.2f} ns a pair and layer at the last",
            f"depth = {DEPTHS}, n = 1024, no gaps: exponent {exponent(DEPTHS, deep):.2f}: "
            f"{', '.join(f'{t:.3f}' for t in deep)} s",
        ],
    )


def bench_ten_thousand_layers(capsys: pytest.CaptureFixture[str]) -> None:
    """Aim: seconds. Nearly all layers come after the pairs have become small."""
    ours = seconds(lambda: trajectory(RELU, batch(64), 10_000))
    t = trajectory(RELU, batch(64), 10_000)
    log_r = math.log(math.pi / (2 * (math.pi - 1)))
    fall = (t.log_isometry_gap[-1] - t.log_isometry_gap[200]) / (2 * 9800 * log_r)
    show(capsys, [f"n = 64, depth 10000, all gaps: {ours:.2f} s; slope over 2 log r: 1 {fall - 1:+.1e}"])
