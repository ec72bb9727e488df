"""Certified numbers: the time of one proof, and what more digits cost.

Run by `make bench`. The aim is 30 proven digits of an isometry strength in under 50 ms for every activation of the
catalogue, with the Gauss-Legendre nodes built (every program builds them once) and nothing else remembered. Times
depend on the machine and its neighbours, so the table at the end gives them beside a ball of FLINT's own integrator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import hermite

flint = pytest.importorskip("flint")
from hermite import certified  # noqa: E402
from hermite.certified import _growth, _moments  # noqa: E402

LIMIT = 0.05
DUALS = [("hardtanh", "0.5"), ("hardtanh", "0.999999"), ("elu", "0.9"), ("gelu", "0.99"), ("tanh", "0.99")]


def forget() -> None:
    """Drop everything cached but the nodes."""
    for module in (_moments, _growth):
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


@pytest.fixture(autouse=True)
def warm() -> None:
    for sigma in hermite.catalogue():
        certified.isometry_strength(sigma)


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def bench_thirty_digits(benchmark: Any, sigma: hermite.Activation) -> None:
    """Aim: under 50 ms each."""
    found = benchmark.pedantic(certified.isometry_strength, args=(sigma,), setup=forget, rounds=5)
    assert found.digits >= 30


@pytest.mark.parametrize(("text", "rho"), DUALS)
def bench_dual(benchmark: Any, text: str, rho: str) -> None:
    """Aim: milliseconds for pieces of polynomials and exponentials, about a second for tanh."""
    found = benchmark.pedantic(certified.dual, args=(text, rho), setup=forget, rounds=2)
    assert found.digits >= 30


def _best(call: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        forget()
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return min(times)


def _acb_integral() -> Any:
    """E tanh^2 by FLINT's adaptive integrator on [-14, 14], without its tails: one integral of the three."""
    acb = flint.acb
    with flint.ctx.workprec(140):
        return acb.integral(lambda z, _: z.tanh() ** 2 * (-z * z / 2).exp(), -14, 14)


def bench_limit_and_digits(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints milliseconds for 30 and 100 digits; fails if 30 digits take more than 50 ms anywhere."""
    rows, slow = [f"{'sigma':>20} {'30 digits':>10} {'100 digits':>11}"], []
    for sigma in hermite.catalogue():
        thirty = _best(lambda s=sigma: certified.isometry_strength(s), 5)
        hundred = _best(lambda s=sigma: certified.isometry_strength(s, digits=100), 2)
        rows.append(f"{sigma.name:>20} {1e3 * thirty:10.1f} {1e3 * hundred:11.1f}")
        slow += [sigma.name] if thirty > LIMIT else []
    rows.append(f"{'acb.integral, tanh':>20} {1e3 * _best(_acb_integral, 3):10.1f}")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
    assert not slow
