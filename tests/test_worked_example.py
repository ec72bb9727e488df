"""The worked example of docs/property-testing.md, in a folder of its own, as a user of the distribution has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "property-testing.md"
FILES = dict(re.findall(r"^`(\w+\.py)`:\n\n```python\n(.*?)```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python there, with nothing of this run: no plugins' options, no paths, no profile of hypothesis."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHONPATH", "ISOGRAM", "CI"))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, check=False)


def pytest_in(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")


def test_the_example_passes_as_it_is_printed(tmp_path: Path) -> None:
    assert sorted(FILES) == ["test_one_layer.py", "test_regularised.py"]
    done = pytest_in(tmp_path, FILES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "right", "wrong", "told"),
    [
        ("test_regularised.py", "bound = (1 - t) *", "bound = (1 - t - t) *", "lhs > rhs by more than rounding"),
        ("test_regularised.py", "bound = (1 - t) *", "bound = (1 - t) ** 3 *", "lhs > rhs by more than rounding"),
        ("test_one_layer.py", "r + (1 - r) * rho", "r - (1 - r) * rho", "one-layer: FAILS"),
        ("test_one_layer.py", "r + (1 - r) * rho", "r + (1 - r) * rho**2", "one-layer: FAILS"),
    ],
)
def test_the_example_fails_where_the_inequality_is_wrong(
    name: str, right: str, wrong: str, told: str, tmp_path: Path
) -> None:
    assert FILES[name].count(right) == 1
    done = pytest_in(tmp_path, {name: FILES[name].replace(right, wrong)})
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    assert told in done.stdout


def test_own_claims_on_the_command_line(tmp_path: Path) -> None:
    script = GUIDE.read_text(encoding="utf-8").split("```python\n")[-1].split("```")[0]
    (tmp_path / "test_one_layer.py").write_text(FILES["test_one_layer.py"], encoding="utf-8")
    (tmp_path / "try_claims.py").write_text(script, encoding="utf-8")
    done = run(tmp_path, "try_claims.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("one-layer: HOLDS (1000 examples, seed 0: ")
    assert done.stdout.endswith("\n1 claim: 1 HOLDS\n")


def test_the_table_names_every_strategy_and_option() -> None:
    import inspect

    from bounds import strategies

    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", GUIDE.read_text(encoding="utf-8"), re.M))
    assert sorted(rows) == sorted(strategies.__all__)
    for name, options in rows.items():
        known = inspect.signature(getattr(strategies, name)).parameters
        assert set(re.findall(r"`(\w+)`", options)) <= set(known)
