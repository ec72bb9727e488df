"""Pictures of dynamics: axes in, axes out. Needs matplotlib (extra `plot`), loaded on first use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hermite._activation import ActivationLike

from ._fixed_points import fixed_points
from ._phase import edge_of_chaos, phase

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._comparison import Comparison
    from ._dynamics import Trajectory
    from ._layer import Layer
    from ._simulation import Simulation

__all__ = ["plot_comparison", "plot_map", "plot_phases", "plot_simulation", "plot_trajectory"]

# safe for colour-blind readers, and of different lightness, so that grey prints keep them apart (Okabe and Ito)
_COLOURS = {"ordered": "#56B4E9", "chaotic": "#E69F00", "unbounded": "#999999", "critical": "#000000"}
_PHASES = ("ordered", "chaotic", "unbounded")
_RUNS_SHOWN = 100
_IN_LEGEND = 12  # more names than this would hide the picture


def plot_trajectory(trajectory: Trajectory, *, ax: Axes | None = None, **style: Any) -> Axes:
    """The isometry gap against depth on a log scale; layers without a finite positive gap are left out.

    ax: where to draw, else a new figure; style: passed to `Axes.plot` (label defaults to the activation's name).
    Raises MissingDependencyError without matplotlib.

    >>> from meanfield import Layer, trajectory
    >>> import matplotlib; matplotlib.use("Agg")
    >>> plot_trajectory(trajectory(Layer("relu"), [[1, 0.5], [0.5, 1]], 5)).get_ylabel()
    'isometry gap'
    """
    ax = _axes(ax)
    ax.plot(trajectory.layer, _drawn(trajectory.isometry_gap), **{"label": trajectory.label, **style})
    return _gap_axes(ax)


def plot_simulation(simulation: Simulation, *, ax: Axes | None = None, **style: Any) -> Axes:
    """The isometry gap of finite networks against depth on a log scale: every run thin, their mean thick.

    Gaps that are 0 or inf are left out. ax: where to draw, else a new figure; style: passed to `Axes.plot` for the mean
    (label defaults to activation and width). Raises MissingDependencyError without matplotlib.

    >>> from meanfield import Layer, simulate
    >>> import matplotlib; matplotlib.use("Agg")
    >>> plot_simulation(simulate(Layer("relu"), np.eye(3), width=50, depth=3, runs=2, rng=0)).get_ylabel()
    'isometry gap'
    """
    ax = _axes(ax)
    widths = sorted(set(simulation.width.tolist()))
    named = str(widths[0]) if len(widths) == 1 else f"{widths[0]} to {widths[-1]}" if widths else "none"
    (line,) = ax.plot(
        simulation.layer,
        _drawn(simulation.mean()),
        **{"label": f"{simulation.label}, width {named}, mean of {simulation.runs}", "linewidth": 2.0, **style},
    )
    thin: dict[str, Any] = {"color": line.get_color(), "linewidth": 0.5, "alpha": 0.4, "zorder": 1}
    ax.plot(simulation.layer, _drawn(simulation.isometry_gap[:_RUNS_SHOWN]).T, **thin)
    return _gap_axes(ax)


def plot_comparison(comparison: Comparison, *, ax: Axes | None = None) -> Axes:
    """Finite networks against infinite width: the mean gap, the mean field, what is expected, and the band of one run.

    A dotted line stands where the mean field ceases to be trusted. ax: where to draw, else a new figure. Raises
    MissingDependencyError without matplotlib.

    >>> from meanfield import Layer, simulate, trajectory
    >>> import matplotlib; matplotlib.use("Agg")
    >>> s = simulate(Layer("relu"), [[1, 0, 0], [0.6, 0.8, 0]], width=100, depth=3, runs=5, rng=0)
    >>> ax = plot_comparison(s.compare(trajectory(Layer("relu"), s.initial_gram, 3)))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['infinite width', 'expected', '90 % of runs', 'mean of runs']
    """
    ax = _axes(ax)
    ax.plot(comparison.layer, _drawn(comparison.mean_field), "--", color="#000000", label="infinite width")
    if np.isfinite(comparison.expected).any():
        ax.plot(comparison.layer, _drawn(comparison.expected), color="#56B4E9", label="expected")
        low, high = (_drawn(edge) for edge in comparison.band)
        ax.fill_between(comparison.layer, low, high, color="#56B4E9", alpha=0.3, linewidth=0.0, label="90 % of runs")
    error = np.nan_to_num(comparison.standard_error, nan=0.0, posinf=0.0)
    ax.errorbar(
        comparison.layer,
        _drawn(comparison.mean),
        yerr=error,
        fmt="o",
        color="#D55E00",
        label="mean of runs",
        markersize=4,
    )
    if comparison.trusted_until < len(comparison.layer) - 1:
        ax.axvline(comparison.trusted_until + 0.5, color="0.5", linestyle=":", zorder=1)
    return _gap_axes(ax)


def plot_map(layer: Layer, *, ax: Axes | None = None, **style: Any) -> Axes:
    """The map of correlations of a layer, the diagonal it is iterated on, and its fixed points.

    Full circles attract, open ones repel; a square is marginal or one of many. ax: where to draw, else a new figure;
    style: passed to `Axes.plot` (label defaults to the layer's). Raises as `fixed_points`, and MissingDependencyError
    without matplotlib.

    >>> from meanfield import Layer
    >>> import matplotlib; matplotlib.use("Agg")
    >>> plot_map(Layer("gelu", normalization="rms")).get_xlabel()
    'correlation $\\\\rho$ before the layer'
    """
    ax = _axes(ax)
    points = fixed_points(layer)
    # denser towards the ends, where kinks and jumps of sigma bend the curve
    rho = -np.cos(np.linspace(0.0, math.pi, 401))
    ax.plot([-1.0, 1.0], [-1.0, 1.0], color="0.7", linewidth=0.8, zorder=1)
    (line,) = ax.plot(rho, layer.map(rho), **{"label": layer.label, **style})
    for point in points:
        attracts = point.stability in ("attracting", "superattracting")
        marker = "s" if point.stability in ("marginal", "neutral") else "o"
        face = line.get_color() if attracts else "white"
        ax.plot(point.rho, point.rho, marker, color=line.get_color(), markerfacecolor=face, zorder=3, clip_on=False)
    ax.set_xlabel(r"correlation $\rho$ before the layer")
    ax.set_ylabel(r"$\kappa(\rho)$ after the layer")
    ax.set_aspect("equal")
    old = ax.get_legend()
    if len(ax.get_legend_handles_labels()[1]) <= _IN_LEGEND:
        ax.legend()
    elif old is not None:
        old.remove()
    return ax


def plot_phases(
    activation: ActivationLike, weight_variances: ArrayLike, bias_variances: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """The phases of networks without normalisation over a grid of variances, with the edge of chaos between them.

    weight_variances, bias_variances: increasing numbers, the axes of the picture. The edge may be that of a variance
    which repels, as of gelu: networks beside it are ordered or unbounded. Raises as `phase`, ValueError for fewer than
    two numbers, and MissingDependencyError without matplotlib. About a millisecond for each point.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> plot_phases("tanh", [0.5, 1.5, 2.5], [0.0, 0.1]).get_xlabel()
    'weight variance $\\\\sigma_w^2$'
    """
    grids = [np.asarray(values, dtype=np.float64) for values in (weight_variances, bias_variances)]
    for name, grid in zip(("weight_variances", "bias_variances"), grids, strict=True):
        if grid.ndim != 1 or len(grid) < 2 or not np.all(np.diff(grid) > 0):
            raise ValueError(f"{name} must be at least two increasing numbers, got {grid.tolist()!r:.80}")
    ax = _axes(ax)
    weights, biases = grids
    names = [[phase(activation, w, b).name for w in weights.tolist()] for b in biases.tolist()]
    # what lies on the edge belongs to neither side: it is drawn as the line
    index = [[_PHASES.index(name) if name in _PHASES else math.nan for name in row] for row in names]
    from matplotlib.colors import ListedColormap

    colours = ListedColormap([_COLOURS[name] for name in _PHASES])
    ax.pcolormesh(weights, biases, np.array(index), cmap=colours, vmin=-0.5, vmax=2.5, shading="nearest", alpha=0.6)
    for name in _PHASES:
        if any(name in row for row in names):
            ax.plot([], [], "s", color=_COLOURS[name], alpha=0.6, label=name)
    along = biases[0] + (biases[-1] - biases[0]) * np.linspace(0.0, 1.0, 101) ** 3  # it is steep at 0
    edge = edge_of_chaos(activation, along)
    ax.plot(edge, along, color=_COLOURS["critical"], label="edge of chaos")
    ax.set_xlim(weights[0], weights[-1])
    ax.set_ylim(biases[0], biases[-1])
    ax.set_xlabel(r"weight variance $\sigma_w^2$")
    ax.set_ylabel(r"bias variance $\sigma_b^2$")
    ax.legend()
    return ax


def _drawn(gap: Any) -> Any:
    """Gaps that a log scale can show."""
    return np.where(np.isfinite(gap) & (gap > 0), gap, math.nan)


def _gap_axes(ax: Axes) -> Axes:
    ax.set_yscale("log")
    ax.set_xlabel("layer")
    ax.set_ylabel("isometry gap")
    if ax.get_legend_handles_labels()[1]:  # a network of no layers has no activation to name
        ax.legend()
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None and not hasattr(ax, "set_yscale"):
        raise ValueError(f"ax must be matplotlib axes or None, got {ax!r}")
    return _new_axes() if ax is None else ax


def _new_axes() -> Axes:
    try:
        from matplotlib.figure import Figure
        from matplotlib.pyplot import subplots
    except ImportError as error:
        from hermite.errors import MissingDependencyError

        raise MissingDependencyError("plots need matplotlib: pip install 'isogram[plot]'") from error
    figure, ax = subplots(layout="constrained")
    assert isinstance(figure, Figure)
    return ax
