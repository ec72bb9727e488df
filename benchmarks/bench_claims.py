"""Trying claims: examples a second for each of them, and what of that is drawing.

Run by `make bench`. Goal: fifty examples of every claim within 40 seconds on two cores, from a cold start, and 10 ms
for an example on average. Times depend on the machine and its neighbours, so the table gives each claim as a multiple
of a baseline of the same run: a claim about two integers, which is what hypothesis alone costs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from bounds import CLAIMS, Claim
from bounds._draws import draw_each

EXAMPLES = 50
GOAL = 40.0
PER_EXAMPLE = 0.010

BASELINE = Claim(
    label="baseline",
    statement=r"2xy \le x^2 + y^2",
    function=lambda x, y: (2 * x * y, x * x + y * y),
    strategy=lambda: st.tuples(st.integers(), st.integers()),
    source="school",
)


def best(call: Callable[[], Any], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return min(times)


def drawn(claim: Claim) -> None:
    draw_each(claim.strategy(), lambda arguments: None, EXAMPLES, 0, shrink=False)


@pytest.mark.parametrize("claim", [BASELINE, *CLAIMS.values()], ids=lambda claim: claim.label)
def bench_claim(benchmark: Any, claim: Claim) -> None:
    """Fifty examples, activations and duals built before."""
    found = benchmark.pedantic(claim.verify, kwargs={"examples": EXAMPLES}, warmup_rounds=1, rounds=3)
    assert found.examples == EXAMPLES
    benchmark.extra_info["examples a second"] = EXAMPLES / benchmark.stats.stats.min


def bench_a_cold_start() -> None:
    """`python -m bounds verify` in a new process: within the goal, and no claim fails."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "bounds", "verify"], capture_output=True, text=True, check=False)
    took = time.perf_counter() - begun
    assert done.returncode == 0, done.stderr
    assert took < GOAL, f"{took:.1f} s"


def bench_each_claim_beside_the_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints ms an example, the share of drawing, examples a second, and multiples of the baseline."""
    BASELINE.verify(examples=EXAMPLES)
    unit = best(lambda: BASELINE.verify(examples=EXAMPLES)) / EXAMPLES
    rows = [f"{'claim':>24} {'ms':>8} {'drawing':>8} {'a second':>9} {'of baseline':>11}"]
    total = 0.0
    for claim in (BASELINE, *CLAIMS.values()):
        claim.verify(examples=EXAMPLES)
        each = best(lambda c=claim: c.verify(examples=EXAMPLES)) / EXAMPLES
        share = best(lambda c=claim: drawn(c)) / EXAMPLES / each
        total += each if claim is not BASELINE else 0.0
        rows.append(f"{claim.label:>24} {1e3 * each:8.2f} {share:8.0%} {1 / each:9.0f} {each / unit:11.1f}")
    mean = total / len(CLAIMS)
    rows.append(f"{'mean':>24} {1e3 * mean:8.2f} {'':>8} {1 / mean:9.0f} {mean / unit:11.1f}")
    with capsys.disabled():
        print("\n" + "\n".join(rows))
    assert mean < PER_EXAMPLE
