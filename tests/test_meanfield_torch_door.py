"""Who may import torch, and what is said where it is missing or broken. These tests need no torch."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meanfield
from hermite.errors import MissingDependencyError
from meanfield import Layer, simulate
from meanfield._torch import load

ROOMS = Path(meanfield.__file__ or "").parent.parent
ROOT = Path(__file__).resolve().parent.parent


def fresh(code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """The code in a new interpreter that sees those paths first, and then the rooms that this one sees."""
    prelude = f"import sys\nsys.path[:0] = {[str(path) for path in (*paths, ROOMS)]!r}\n"
    return subprocess.run([sys.executable, "-P", "-c", prelude + code], capture_output=True, text=True)


# ---- the door ---------------------------------------------------------------------------------------------


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as Python marks what is not there
    with pytest.raises(MissingDependencyError, match=r"needs torch: pip install 'isogram\[torch\]'"):
        load()
    with pytest.raises(MissingDependencyError, match=r"pip install 'isogram\[torch\]'"):
        simulate(Layer("relu"), np.eye(2), width=3, depth=1, backend="torch")


LOAD = """
from meanfield._torch import load
from hermite.errors import MissingDependencyError
try:
    load()
except MissingDependencyError as error:
    print(error)
    assert error.__cause__ is not None or "holds no library" in str(error)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('libtorch.so: file too short')", "(libtorch.so: file too short)"),
        ("raise OSError('libcudart.so.12: cannot open')", "(libcudart.so.12: cannot open)"),
        ("raise RuntimeError('built for another numpy')", "(built for another numpy)"),
        ("import torch_helper_that_is_not_there", "(No module named 'torch_helper_that_is_not_there')"),
        ("from torch.missing import x", "(No module named 'torch.missing')"),
        (None, "holds no library)"),
    ],
)
def test_what_a_broken_torch_says_is_passed_on(tmp_path: Path, text: str | None, said: str) -> None:
    (tmp_path / "torch").mkdir()
    if text is not None:
        (tmp_path / "torch" / "__init__.py").write_text(text)
    run = fresh(LOAD, tmp_path)
    if text is None and importlib.util.find_spec("torch") is not None:
        assert run.stdout == ""  # a library further down the path is found before a folder without one
        return
    assert run.stdout.startswith("torch is installed but cannot be imported ("), run.stderr
    assert said in run.stdout
    assert "pip install --force-reinstall 'isogram[torch]'" in run.stdout


def test_the_library_itself_is_handed_out(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("class Tensor: ...")
    run = fresh("from meanfield._torch import load\nprint(load().__name__)", tmp_path)
    assert run.stdout == "torch\n", run.stderr


def test_the_door_itself_loads_no_torch() -> None:
    run = fresh("import meanfield._torch, meanfield, hermite, bounds\nprint('torch' in sys.modules)")
    assert run.stdout == "False\n", run.stderr


# ---- the contract -----------------------------------------------------------------------------------------


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rooms and the contracts, to be planted in."""
    folder = tmp_path_factory.mktemp("planted")
    for room in ("hermite", "meanfield", "bounds"):
        shutil.copytree(ROOMS / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


PLANTED = [
    ("hermite/_dual.py", "import torch"),
    ("hermite/_from_torch.py", "def late():\n    from torch.nn import functional"),
    ("meanfield/_wide.py", "import torch"),
    ("meanfield/_torch_helpers.py", "import torch"),
    ("bounds/_matrix.py", "def late():\n    import torch"),
]


def test_nobody_but_the_one_package_imports_torch(copied: Path) -> None:
    """Planted all at once, one line each: every one is named, and what is planted in the package is not."""
    allowed = "meanfield/_torch/_planted.py"
    before: dict[str, Any] = {}
    for name, text in [*PLANTED, (allowed, "import torch")]:
        path = copied / name
        before[name] = path.read_text() if path.exists() else None
        path.write_text((before[name] or "") + f"\n{text}\n")
    run = contracts(copied)
    assert run.returncode == 1, run.stderr
    assert "Nobody but meanfield._torch imports torch BROKEN" in run.stdout
    report = run.stdout.split("Broken contracts", 1)[1]
    for name, _ in PLANTED:
        module = name.removesuffix(".py").replace("/", ".")
        assert f"{module} -> torch" in report, module
    assert "_planted" not in report
    for name, text in before.items():
        (copied / name).unlink() if text is None else (copied / name).write_text(text)


def test_the_contracts_are_kept_as_the_rooms_are(copied: Path) -> None:
    run = contracts(copied)
    assert run.returncode == 0, run.stdout
    assert "Nobody but meanfield._torch imports torch KEPT" in run.stdout
