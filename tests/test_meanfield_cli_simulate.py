"""`python -m meanfield simulate`: finite width beside infinite width, as a table."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from _shell import Shell

from meanfield import Layer, simulate, trajectory
from meanfield import __main__ as cli

COLUMNS = ["layer", "mean", "standard_error", "mean_field", "z", "expected", "low", "high", "distance"]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m meanfield", capsys, "simulate")


def test_the_numbers_are_those_of_the_comparison(shell: Shell) -> None:
    options = ["--depth", "5", "--runs", "4", "--width", "50", "--random", "6", "9", "--rng", "3"]
    rows = shell.rows("relu", *options)
    assert list(rows[0]) == COLUMNS
    printed = {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}
    x = np.random.default_rng(0).standard_normal((6, 9))
    x -= x.mean(axis=1, keepdims=True)
    x /= x.std(axis=1, keepdims=True)
    # the same Gram matrix has the same networks, whatever inputs stand for it
    s = simulate(Layer("relu"), x, width=50, depth=5, runs=4, rng=3)
    c = s.compare(trajectory(Layer("relu"), s.initial_gram, 5))
    np.testing.assert_allclose(printed["mean"], c.mean, atol=0.05 * c.standard_error[1:].max())
    for name in ("standard_error", "mean_field", "expected"):
        np.testing.assert_allclose(printed[name][1:], getattr(c, name)[1:], rtol=1e-6)
    np.testing.assert_allclose(printed["low"][1:], c.band[0][1:], rtol=1e-6)
    np.testing.assert_allclose(printed["distance"][1:], c.distance_max[1:], rtol=1e-6)


def test_skip_connections_and_widths_of_each_layer(shell: Shell) -> None:
    rows = shell.rows("tanh", "--depth", "2", "--skip", "0.5", "--width", "40", "--n", "3")
    assert [row["expected"] for row in rows] == ["", "", ""]
    assert all(math.isfinite(float(row["mean"])) for row in rows)
    changing = shell.rows("tanh", "--depth", "2", "--width", "40", "80", "--method", "weights", "--dtype", "float32")
    assert len(changing) == 3


def test_wrong_options_are_one_line(shell: Shell) -> None:
    assert "width has 2 entries for 3" in shell.refused("simulate", "relu", "--depth", "3", "--width", "10", "20")
    assert "runs must be an integer >= 1, got 0" in shell.refused("simulate", "relu", "--runs", "0")
    assert "needs backend='torch'" in shell.refused("simulate", "relu", "--device", "cuda", "--depth", "1")
    assert "rng must be None, an integer >= 0" in shell.refused("simulate", "relu", "--rng=-1", "--depth", "1")


def test_a_plot(shell: Shell, tmp_path: Path) -> None:
    shell.ok("relu", "--depth", "3", "--runs", "2", "--plot", str(tmp_path / "band.svg"))
    assert (tmp_path / "band.svg").read_text().startswith("<?xml")
