"""What every test run shares: hypothesis profiles, the markers `torch` and `cuda`, and the report for CI.

ISOGRAM_HYPOTHESIS_PROFILE   dev (default), ci (default where CI is set), thorough
ISOGRAM_TEST_REPORT          a path: the node ids of this run by outcome are written there, for `.ci/skips.py`
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# a window would wait for somebody to close it
os.environ.setdefault("MPLBACKEND", "Agg")

# Time is no property of the code under test: a deadline, or the check that drawing is quick, would fail
# whichever test first loads sympy on a busy machine. Each profile says whether it is derandomized, since
# hypothesis starts from another default where CI is set.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", _UNTIMED, max_examples=50, derandomize=False)
settings.register_profile("ci", _UNTIMED, max_examples=200, derandomize=True, print_blob=True)
settings.register_profile("thorough", _UNTIMED, max_examples=5000, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("ISOGRAM_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


class Outcomes:
    """Node ids of one run by outcome; `cuda` lists the tests that carry that mark, whatever came of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[str, set[str]] = {name: set() for name in ("passed", "failed", "skipped", "cuda")}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":
            self.nodes[report.outcome].add(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # an expected failure is reported as a skip, yet its test has run
        expected = hasattr(report, "wasxfail")
        outcome = "passed" if expected and report.outcome == "skipped" else report.outcome
        if "cuda" in report.keywords:
            self.nodes["cuda"].add(report.nodeid)
        if report.when == "call" or outcome != "passed" or expected:
            self.nodes[outcome].add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.nodes["passed"] -= self.nodes["failed"]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({name: sorted(nodes) for name, nodes in self.nodes.items()}, indent=1))


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("ISOGRAM_TEST_REPORT")
    if path and not hasattr(config, "workerinput"):  # workers report to the process that started them
        config.pluginmanager.register(Outcomes(Path(path)), "isogram-outcomes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    cuda = item.get_closest_marker("cuda") is not None
    if not cuda and item.get_closest_marker("torch") is None:
        return
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if cuda and not importlib.import_module("torch").cuda.is_available():
        pytest.skip("no CUDA device")
