"""Pictures of trajectories: axes in, axes out, and nothing drawn that is no number."""

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
from meanfield import Layer, Trajectory, plotting, trajectory

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
