"""Pictures of trajectories, maps and phases: axes in, axes out, and nothing drawn that is no number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import meanfield
from hermite.errors import MissingDependencyError
from meanfield import Layer, Trajectory, edge_of_chaos, fixed_points, phase, plotting, trajectory

HALF = np.array([[1.0, 0.5], [0.5, 1.0]])


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def path() -> Trajectory:
    return trajectory(Layer("tanh", gain=2), HALF, 6)


def texts(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_the_axes_that_go_in_come_out(path: Trajectory) -> None:
    ax = Figure().subplots()
    assert plotting.plot_trajectory(path, ax=ax) is ax
    assert path.plot(ax) is ax
    assert len(ax.lines) == 2


def test_without_axes_there_is_a_new_figure_each_time(path: Trajectory) -> None:
    first, second = path.plot(), plotting.plot_trajectory(path)
    assert first.figure is not second.figure
    assert len(plt.get_fignums()) == 2


def test_the_line_is_the_gap_against_the_layer_on_a_log_scale(path: Trajectory) -> None:
    ax = path.plot(Figure().subplots())
    (line,) = ax.lines
    assert np.array_equal(line.get_xdata(), path.layer)
    assert np.array_equal(line.get_ydata(), path.isometry_gap)
    assert (ax.get_yscale(), ax.get_xscale()) == ("log", "linear")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("layer", "isometry gap")
    assert texts(ax) == ["tanh(2*x)"]


def test_style_goes_to_matplotlib_and_may_name_the_line(path: Trajectory) -> None:
    ax = plotting.plot_trajectory(path, ax=Figure().subplots(), label="steep", color="red", linestyle="--")
    (line,) = ax.lines
    assert (line.get_color(), line.get_linestyle()) == ("red", "--")
    assert texts(ax) == ["steep"]


def test_two_trajectories_share_axes(path: Trajectory) -> None:
    ax = path.plot(Figure().subplots())
    trajectory(Layer("relu"), HALF, 9).plot(ax)
    assert texts(ax) == ["tanh(2*x)", "relu"]


def test_what_is_no_positive_number_is_left_out() -> None:
    partial = trajectory(Layer("relu"), HALF, 6, gap_layers=[0, 3, 6])
    (line,) = partial.plot(Figure().subplots()).lines
    drawn = np.asarray(line.get_ydata(), dtype=np.float64)
    assert np.flatnonzero(np.isfinite(drawn)).tolist() == [0, 3, 6]
    separated = trajectory(Layer("relu"), [[1.0, -1.0], [-1.0, 1.0]], 3)
    (line,) = separated.plot(Figure().subplots()).lines
    assert np.isfinite(np.asarray(line.get_ydata(), dtype=np.float64)).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    "silent",
    [
        trajectory(Layer("relu"), np.ones((3, 3)), 4),
        trajectory(Layer("relu"), np.eye(3), 4),
        trajectory(Layer("abs"), HALF, 40),
        trajectory(Layer("relu"), HALF, 4, gap_layers=[]),
        trajectory([], HALF),
        trajectory(Layer("relu"), [[1.0]], 0),
    ],
    ids=["duplicates", "orthogonal", "underflow", "no gaps", "no layers", "one input"],
)
def test_nothing_to_draw_is_no_warning(silent: Trajectory, tmp_path: Path) -> None:
    ax = silent.plot()
    assert isinstance(ax.figure, Figure)
    ax.figure.savefig(tmp_path / "gap.png")
    assert (tmp_path / "gap.png").stat().st_size > 0


# ---- maps of correlations -------------------------------------------------------------------------------------


def test_a_map_is_drawn_with_all_its_fixed_points() -> None:
    layer, ax = Layer("gelu", normalization="rms"), Figure().subplots()
    assert plotting.plot_map(layer, ax=ax) is ax
    diagonal, curve, *points = ax.lines
    assert np.array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    rho = np.asarray(curve.get_xdata(), dtype=np.float64)
    assert (rho[0], rho[-1]) == (-1.0, 1.0)
    assert np.array_equal(curve.get_ydata(), layer.map(rho))
    found = fixed_points(layer)
    assert [float(p.get_xdata()[0]) for p in points] == [p.rho for p in found]  # type: ignore[index]
    faces = [p.get_markerfacecolor() == curve.get_color() for p in points]
    assert faces == [p.stability == "attracting" for p in found] == [True, False]
    assert texts(ax) == ["gelu (rms)"]


@pytest.mark.parametrize(
    ("layer", "markers"),
    [(Layer("relu", normalization="rms"), "s"), (Layer("identity"), "sss"), (Layer("cos"), "oo")],
    ids=str,
)
def test_what_neither_attracts_nor_repels_is_a_square(layer: Layer, markers: str) -> None:
    ax = plotting.plot_map(layer, ax=Figure().subplots())
    assert "".join(str(line.get_marker()) for line in ax.lines[2:]) == markers


def test_many_maps_share_axes_and_too_many_have_no_legend() -> None:
    ax = Figure().subplots()
    for gain in range(1, 13):
        plotting.plot_map(Layer("sin", gain=gain), ax=ax)
    assert len(texts(ax)) == 12
    plotting.plot_map(Layer("sin", gain=13), ax=ax, linestyle="--")
    assert texts(ax) == []
    assert sum(line.get_linestyle() == "--" for line in ax.lines) == 1


# ---- phases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
def test_phases_are_drawn_where_they_are(name: str) -> None:
    weights, biases, ax = [0.5, 1.5, 2.5, 3.5], [0.0, 0.1, 0.3], Figure().subplots()
    assert plotting.plot_phases(name, weights, biases, ax=ax) is ax
    (mesh,) = ax.collections
    drawn = np.asarray(mesh.get_array()).reshape(3, 4)
    names = ("ordered", "chaotic", "unbounded")
    for i, b in enumerate(biases):
        for j, w in enumerate(weights):
            assert names[int(drawn[i, j])] == phase(name, w, b).name
    shown = [n for k, n in enumerate(names) if np.any(drawn == k)]
    assert texts(ax) == [*shown, "edge of chaos"]
    edge = ax.lines[-1]
    along = np.asarray(edge.get_ydata(), dtype=np.float64)
    assert np.array_equal(np.asarray(edge.get_xdata()), edge_of_chaos(name, along), equal_nan=True)
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.5, 3.5), (0.0, 0.3))


def test_what_is_critical_belongs_to_no_side() -> None:
    ax = plotting.plot_phases("tanh", [1.0, 2.0], [0.0, 0.1], ax=Figure().subplots())
    assert np.ma.getmaskarray(ax.collections[0].get_array()).ravel().tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("weights", "biases", "message"),
    [
        ([1.0], [0.0, 1.0], "weight_variances must be at least two increasing numbers"),
        ([1.0, 2.0], [1.0, 0.0], "bias_variances must be at least two increasing numbers"),
        ([[1.0, 2.0]], [0.0, 1.0], "weight_variances must be at least two increasing numbers"),
    ],
)
def test_wrong_axes_of_a_phase_diagram_are_named(weights: list[float], biases: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plotting.plot_phases("tanh", weights, biases)


@pytest.mark.parametrize("draw", ["map", "phases", "trajectory"])
def test_axes_must_be_axes(draw: str, path: Trajectory) -> None:
    calls = {
        "map": lambda: plotting.plot_map(Layer("tanh"), ax="here"),  # type: ignore[arg-type]
        "phases": lambda: plotting.plot_phases("tanh", [1, 2], [0, 1], ax=3),  # type: ignore[arg-type]
        "trajectory": lambda: plotting.plot_trajectory(path, ax=3),  # type: ignore[arg-type]
    }
    with pytest.raises(ValueError, match="ax must be matplotlib axes or None"):
        calls[draw]()


@pytest.mark.parametrize("missing", ["matplotlib.pyplot", "matplotlib.figure"])
def test_without_matplotlib_the_error_says_what_to_install(
    missing: str, path: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=r"isogram\[plot\]"):
        path.plot()


def test_the_module_itself_loads_without_matplotlib() -> None:
    root = str(Path(meanfield.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {root!r}); import meanfield.plotting; assert 'matplotlib' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code]).returncode == 0
