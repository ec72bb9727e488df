"""Wide networks on a GPU, and whether they agree with the CPU: `python benchmarks/cuda_width.py [--device cuda:0]`.

Prints for each width, method and dtype the time, the mean isometry gap over runs, and its z-score against runs on the
CPU (numpy, float64, by the law of Gram matrices). Widths go to 10^5 with weights and to 10^7 without; under 3 minutes.
Where there is no GPU it says so, and runs the same checks on torch's CPU at small size. The exit code is 1 if a
z-score exceeds 5, which chance does once in ten million.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from meanfield import Layer, Simulation, simulate

Case: TypeAlias = tuple[str, int, int, int, int]

LIMIT = 5.0
X = np.random.default_rng(0).standard_normal((10, 50))
# method, width, depth, runs on the device, runs on the CPU
LARGE = [
    ("weights", 1000, 10, 64, 64),
    ("weights", 10_000, 3, 16, 32),
    ("weights", 100_000, 2, 4, 16),
    ("gram", 1000, 10, 256, 64),
    ("gram", 100_000, 5, 64, 32),
    ("gram", 1_000_000, 3, 16, 8),
    ("gram", 10_000_000, 2, 8, 4),
]
SMALL = [
    ("weights", 200, 3, 40, 40),
    ("weights", 5000, 2, 4, 16),
    ("gram", 200, 5, 100, 40),
    ("gram", 100_000, 2, 8, 8),
]
ACTIVATIONS = ("relu", "gelu")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ... or cpu; default cuda")
    options = parser.parse_args(argv)
    backend, device, cases = _found(options.device)
    print(f"{'method':8} {'sigma':6} {'dtype':8} {'width':>9} depth  runs  seconds         gap      z")
    worst = 0.0
    for case in cases:
        for name in ACTIVATIONS:
            worst = max(worst, *(abs(_compared(backend, device, name, dtype, *case)) for dtype in _dtypes(case)))
    print(f"largest |z| {worst:.2f}: " + ("agreement" if worst <= LIMIT else f"beyond {LIMIT:g}"))
    return int(not worst <= LIMIT)


def _found(device: str) -> tuple[str, str, list[Case]]:
    """Backend, device and cases."""
    try:
        import torch
    except ImportError:
        print("torch is not installed (pip install 'isogram[torch]'): the same checks with numpy at small size")
        return "numpy", "cpu", SMALL
    if device != "cpu" and torch.cuda.is_available():
        print(f"{torch.cuda.get_device_name(torch.device(device))}, torch {torch.__version__}")
        return "torch", device, LARGE
    print(f"no GPU is seen by torch {torch.__version__}: the same checks on the CPU at small size")
    return "torch", "cpu", SMALL


def _dtypes(case: Case) -> tuple[str, ...]:
    return ("float32",) if case[0] == "weights" and case[1] >= 100_000 else ("float32", "float64")


@lru_cache
def _on_cpu(name: str, width: int, depth: int, runs: int) -> Simulation:
    return simulate(Layer(name), X, width=width, depth=depth, runs=runs, rng=2)


def _compared(
    backend: Any, device: str, name: str, dtype: str, method: Any, width: int, depth: int, runs: int, control: int
) -> float:
    begun = time.perf_counter()
    options: dict[str, Any] = {"method": method, "backend": backend, "device": device, "dtype": dtype}
    found = simulate(Layer(name), X, width=width, depth=depth, runs=runs, rng=1, **options)
    took = time.perf_counter() - begun
    cpu = _on_cpu(name, width, depth, control)
    z = (found.mean()[-1] - cpu.mean()[-1]) / np.hypot(found.standard_error()[-1], cpu.standard_error()[-1])
    print(
        f"{method:8} {name:6} {dtype:8} {width:9d} {depth:5d} {runs:5d} {took:8.2f} {found.mean()[-1]:11.4e} {z:6.2f}",
        flush=True,
    )
    return float(z)


if __name__ == "__main__":
    sys.exit(main())
