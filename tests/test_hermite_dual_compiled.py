"""The machine code of maps of correlations: its text as plain Python, and numba itself where it is installed.

Both say what the NumPy path says, to a few ulps. Without numba the text is run as it stands: what numba would compile
is tested on every machine.
"""

from __future__ import annotations

import importlib.util
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hermite
from hermite import _compiled, _threads
from hermite._build import reduced_dual
from hermite._parts import evaluate
from hermite._reduced import Reduced

HAS_NUMBA = importlib.util.find_spec("numba") is not None
EPS = 2.0**-52
# monomials and Chebyshev series; even, odd and mixed; series in rho^2 and in sqrt(1 - rho^2); high powers
SPECS = [
    "relu", "step", "abs", "hardtanh", "threshold", "elu", "tanh", "gelu", "mish", "exp", "identity", "relu(x)**2",
    "relu(x) + sign(x)/10", "He(1, x) + He(2, x)", "He(3, x)", "He(7, x) + He(8, x)", "He(11, x) + He(12, x)",
]  # fmt: skip
LONG = ["exp(3*x)", "sin(5*x)", "hardtanh(10*x)"]  # no single short formula


def mapped(spec: str) -> Reduced:
    return reduced_dual(hermite.activation(spec))


def correlations(count: int) -> Any:
    rng = np.random.default_rng(7)
    ends = 1 - np.logspace(-16, -1, count // 8)
    small = np.logspace(-300, -1, count // 8)
    edges = [1.0, -1.0, 0.0, -0.0, np.nan, 5e-324, 1 - 2.0**-53, -1 + 2.0**-53]
    rho = np.concatenate([rng.uniform(-1, 1, count), ends, -ends, small, -small, edges])
    rng.shuffle(rho)
    return rho


def agree(found: Any, wanted: Any, rho: Any, *, ulps: float = 4) -> None:
    """Relative on rho > 0, where nothing cancels, and to the size of the values elsewhere; NaN at the same places."""
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    seen = ~np.isnan(wanted)
    found, wanted, rho = found[seen], wanted[seen], rho[seen]
    scale = np.where(rho > 0, np.abs(wanted), np.abs(wanted).max())
    assert (np.abs(found - wanted) <= ulps * EPS * scale + 5e-324).all()


def plain_python(source: str, name: str, fastmath: set[str], **known: Any) -> Any:
    """In place of numba: the text as it stands."""
    scope: dict[str, Any] = {"math": math, "np": np, **known}
    exec(compile(source, name, "exec"), scope)
    return scope[name]


@pytest.fixture(params=["text", *(["numba"] if HAS_NUMBA else [])])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The text of every kernel as plain Python, and where there is numba compiled by it."""
    if request.param == "text":
        monkeypatch.setattr(_compiled, "compiled", plain_python)
        monkeypatch.setattr(_compiled, "_kernel", _compiled._kernel.__wrapped__)  # past the cache
    return str(request.param)


def filled(f: Reduced, rho: Any, *affine: float) -> tuple[Any, Any]:
    out = np.full(rho.shape, 9.0)
    return _compiled.fill(f, rho, out, *affine), out


@pytest.mark.parametrize("spec", SPECS)
def test_a_kernel_is_the_map(machine: str, spec: str) -> None:
    f, rho = mapped(spec), correlations(1500)
    assert _compiled.compilable(f)
    near, out = filled(f, rho, 0.0, 1.0, -1.0)
    assert near.tolist() == []
    agree(out, f(rho), rho)
    assert out[rho == 1.0].tolist() == [1.0]
    assert out[rho == -1.0].tolist() == [f.at_minus_one]
    assert out[rho == 0.0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("spec", ["relu", "tanh"])
def test_offset_scale_and_edge(machine: str, spec: str) -> None:
    """What lies below the edge is named, whatever chunk it is in."""
    f, rho = mapped(spec), correlations(5000)  # four chunks
    near, out = filled(f, rho, 0.25, 3.0, -0.9)
    agree(out, 0.25 + 3 * f(rho), rho)
    assert near.tolist() == np.flatnonzero(rho < -0.9).tolist()
    rho[:] = np.where(rho < -0.9, 0.5, rho)
    assert filled(f, rho, 0.25, 3.0, -0.9)[0].tolist() == []
    rho[[2047, 2048, -1]] = -0.95
    assert filled(f, rho, 0.25, 3.0, -0.9)[0].tolist() == [2047, 2048, len(rho) - 1]


def test_pieces(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What threads share: the chunks of one piece are not those of the next."""
    assert _threads.PIECE % _compiled._CHUNK == 0
    monkeypatch.setattr(_threads, "PIECE", 2 * _compiled._CHUNK)
    f, rho = mapped("relu"), correlations(8000)
    near, out = filled(f, rho, 0.0, 1.0, -0.99)
    agree(out, f(rho), rho)
    assert near.tolist() == np.flatnonzero(rho < -0.99).tolist()


def test_clamps() -> None:
    """Rounding takes no value beyond 1, or the dynamics would leave [-1, 1]: asked of a map too large."""
    f = mapped("tanh")
    assert f.main.odd.monomials is not None
    odd = replace(f.main.odd, monomials=f.main.odd.monomials * (1 + 1e-9))
    large = replace(f, main=replace(f.main, odd=odd))
    text = "\n".join(["def one(x):", *("    " + line for line in _compiled.formula(large)), "    return f"])
    one = plain_python(text, "one", set())
    below = 1 - 1e-12
    assert (one(below), one(-below)) == (1.0, -1.0)
    assert large(np.array([1 - 1e-15, -1 + 1e-15])).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("spec", SPECS)
def test_the_public_dual_by_machine_code(machine: str, monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """d, normalized and reduced of an array that is long enough, beside the same with numba switched off."""
    d, rho = hermite.Dual(spec), correlations(1000).reshape(2, -1)
    verbs = (d, d.normalized, d.reduced)
    monkeypatch.setattr(_compiled, "available", lambda: False)
    slow = [np.asarray(verb(rho)) for verb in verbs]
    monkeypatch.setattr(_compiled, "available", lambda: True)
    asked: list[Any] = []
    fill = _compiled.fill
    monkeypatch.setattr(_compiled, "fill", lambda *a: (asked.append(a), fill(*a))[1])
    assert [np.array_equal(verb(rho), s, equal_nan=True) for verb, s in zip(verbs, slow, strict=True)] == [True] * 3
    assert not asked  # too short to pay
    monkeypatch.setattr(_compiled, "WORTH", 1000)
    for verb, wanted in zip(verbs, slow, strict=True):
        found = np.asarray(verb(rho))
        assert found.shape == rho.shape
        agree(found.ravel(), wanted.ravel(), rho.ravel())
        if verb is d and d(-1.0) == 0:  # the digits next to -1
            low = (rho < -1 + 1e-6) & (rho > -1)
            assert found[low] == pytest.approx(wanted[low], rel=1e-12)
    assert len(asked) == 3


@pytest.mark.parametrize("spec", LONG)
def test_long_maps_are_left_to_numpy(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setattr(_compiled, "available", lambda: True)
    monkeypatch.setattr(_compiled, "fill", None)  # would raise
    f = mapped(spec)
    assert not _compiled.compilable(f)
    rho = np.linspace(-1, 1, _compiled.WORTH)
    assert np.array_equal(hermite.Dual(spec).reduced(rho), evaluate(f, rho))


def test_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    """ISOGRAM_NO_NUMBA=1 switches numba off, and no numba is no error."""
    available = _compiled.available.__wrapped__  # past the cache
    for found in (False, True):
        monkeypatch.setenv("ISOGRAM_NO_NUMBA", "1")
        monkeypatch.setitem(sys.modules, "numba", SimpleNamespace() if found else None)
        assert not available()
        monkeypatch.delenv("ISOGRAM_NO_NUMBA")
        assert available() == found


_SCRIPT = """
import sys
import numpy as np
import hermite
d = hermite.Dual("relu")
rho = np.linspace(-1, 1, 100_001)
found = np.stack([d(rho), d.reduced(rho)])
rho[[5, -5]] = 1 + 2.0**-52, -1 - 2.0**-52
clipped = d(rho)
assert clipped[5] == 0.5 and clipped[-5] == 0.0
rho[77] = 1.1
try:
    d(rho)
except ValueError as error:
    assert "got 1.1" in str(error)
else:
    raise AssertionError
np.save(sys.argv[1], found)
print("numba" in sys.modules)
"""


def test_processes_with_and_without(tmp_path: Path) -> None:
    """Two programs, one with ISOGRAM_NO_NUMBA; where numba is missing they agree to the bit."""
    results = []
    for switch in ("", "1"):
        path, environment = tmp_path / f"found{switch}.npy", {**os.environ, "ISOGRAM_NO_NUMBA": switch}
        run = subprocess.run(
            [sys.executable, "-c", _SCRIPT, str(path)], env=environment, capture_output=True, text=True, timeout=300
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.split() == [str(HAS_NUMBA and not switch)]
        results.append(np.load(path))
    rho = np.linspace(-1, 1, 100_001)
    for found, wanted in zip(*results, strict=True):
        agree(found, wanted, rho, ulps=4 if HAS_NUMBA else 0)
