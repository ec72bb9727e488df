"""`python -m meanfield fixed-points|phase`, and the options of a layer: what is printed is what the library answers."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from _shell import Shell

from hermite import catalogue
from meanfield import Layer, correlation, edge_of_chaos, fixed_points, phase, trajectory
from meanfield import __main__ as cli

FIXED = ["activation", "rho", "1 - rho", "slope", "stability", "rate", "correlation_length"]


@pytest.fixture
def fixed(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m meanfield", capsys, "fixed-points")


@pytest.fixture
def phases(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m meanfield", capsys, "phase")


@pytest.fixture
def iterate(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m meanfield", capsys, "iterate")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# ---- fixed points ---------------------------------------------------------------------------------------------


def test_every_fixed_point_is_a_row(fixed: Shell) -> None:
    printed = rows(fixed.ok("relu6", "tanh", "--normalization", "rms", "--format", "csv"))
    assert list(printed[0]) == FIXED
    expected = [(n, p) for n in ("relu6", "tanh") for p in fixed_points(Layer(n, normalization="rms"))]
    assert len(printed) == len(expected) == 5
    for row, (name, point) in zip(printed, expected, strict=True):
        assert (row["activation"], row["stability"]) == (name, point.stability)
        assert float(row["rho"]) == pytest.approx(point.rho, rel=1e-12)
        assert float(row["1 - rho"]) == pytest.approx(point.complement, rel=1e-12)
        assert float(row["slope"]) == pytest.approx(point.slope, rel=1e-12)
        assert row["correlation_length"] == "" or float(row["correlation_length"]) == pytest.approx(
            point.correlation_length, rel=1e-12
        )


def test_options_of_the_layer_reach_it(fixed: Shell) -> None:
    argv = ["relu", "--gain", "2", "--bias-variance", "0.4", "--skip", "0.5", "--order", "normalization-first"]
    printed = rows(fixed.ok(*argv, "--format", "csv"))
    layer = Layer("relu", gain=2, bias_variance="0.4", skip="0.5", order="normalization-first")
    assert [float(row["slope"]) for row in printed] == pytest.approx([p.slope for p in fixed_points(layer)], rel=1e-12)


def test_without_activations_the_whole_catalogue_is_printed(fixed: Shell) -> None:
    printed = rows(fixed.ok("--normalization", "rms", "--format", "csv"))
    assert list(dict.fromkeys(row["activation"] for row in printed)) == [s.name for s in catalogue()]
    assert {row["slope"] for row in printed} >= {"inf"}


def test_json_has_no_infinities(fixed: Shell) -> None:
    found = json.loads(fixed.ok("step", "--format", "json"))
    assert "inf" in json.dumps(found)
    assert "Infinity" not in json.dumps(found)


def test_fixed_points_are_drawn(fixed: Shell, tmp_path: Path) -> None:
    fixed.ok("relu", "gelu", "--normalization", "rms", "--plot", str(tmp_path / "map.png"))
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["no_such"], "no activation named 'no_such'"),
        (["relu", "--normalization", "none", "--gain", "2"], "relu(2*x) (none) has no map of correlations"),
        (["relu", "--normalization", "batch"], "relu (batch) has no map of correlations"),
        (["relu", "--skip", "1"], "skip must lie in [0, 1)"),
        (["relu", "--bias-variance=-1"], "bias_variance must not be negative"),
    ],
)
def test_what_is_wrong_with_a_layer_is_one_line(argv: list[str], message: str, fixed: Shell) -> None:
    assert message in fixed.refused("fixed-points", *argv)


# ---- phases ---------------------------------------------------------------------------------------------------


def test_every_pair_of_variances_is_a_row(phases: Shell) -> None:
    argv = ["tanh", "--weight-variance", "1", "2.25", "--bias-variance", "0", "0.0025", "--format", "csv"]
    printed = rows(phases.ok(*argv))
    assert len(printed) == 4
    for row in printed:
        found = phase("tanh", row["weight_variance"], row["bias_variance"])
        assert row["phase"] == found.name
        for name in ("variance", "chi", "variance_slope", "correlation", "correlation_length", "variance_length"):
            assert float(row[name]) == pytest.approx(getattr(found, name), rel=1e-12), name


def test_without_a_weight_variance_the_edge_of_chaos_is_printed(phases: Shell) -> None:
    printed = rows(phases.ok("tanh", "--bias-variance", "0", "0.04", "1", "--format", "csv"))
    assert [float(row["weight_variance"]) for row in printed] == pytest.approx(
        edge_of_chaos("tanh", [0, 0.04, 1]), rel=1e-12
    )
    (row,) = rows(phases.ok("relu", "--bias-variance", "1", "--format", "csv"))
    assert row["weight_variance"] == ""  # there is none


def test_unbounded_networks_are_told(phases: Shell) -> None:
    (row,) = rows(phases.ok("relu", "--weight-variance", "3", "--format", "csv"))
    assert (row["phase"], row["variance"], row["chi"]) == ("unbounded", "inf", "")


def test_phases_are_drawn(phases: Shell, tmp_path: Path) -> None:
    phases.ok("tanh", "--weight-variance", "2", "--bias-variance", "0.1", "--plot", str(tmp_path / "phase.svg"))
    assert "svg" in (tmp_path / "phase.svg").read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["tanh", "--weight-variance", "0"], "weight_variance must be positive"),
        (["tanh", "--weight-variance", "1", "--bias-variance=-1"], "bias_variance must not be negative"),
        (["step"], "chi of step is infinite"),
    ],
)
def test_wrong_variances_are_one_line(argv: list[str], message: str, phases: Shell) -> None:
    assert message in phases.refused("phase", *argv)


# ---- iterate --------------------------------------------------------------------------------------------------


def test_iterate_takes_every_layer(iterate: Shell) -> None:
    argv = ["relu", "--normalization", "rms", "--skip", "0.5", "--bias-variance", "0.1", "--depth", "7"]
    printed = rows(iterate.ok(*argv, "--n", "4", "--format", "csv"))
    layer = Layer("relu", normalization="rms", skip="0.5", bias_variance="0.1")
    path = trajectory(layer, correlation(0.5 * np.ones((4, 4)) + 0.5 * np.eye(4)), 7)
    assert [float(row["isometry_gap"]) for row in printed] == pytest.approx(path.isometry_gap, rel=1e-12)
    unbounded = rows(iterate.ok("relu", "--normalization", "none", "--gain", "2", "--depth", "3", "--format", "csv"))
    assert all(math.isfinite(float(row["isometry_gap"])) for row in unbounded)
