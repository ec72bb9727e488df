"""Pictures of dynamics: axes in, axes out. Needs matplotlib (extra `plot`), loaded on first use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._dynamics import Trajectory

__all__ = ["plot_trajectory"]


def plot_trajectory(trajectory: Trajectory, *, ax: Axes | None = None, **style: Any) -> Axes:
    """The isometry gap against depth on a log scale; layers without a finite positive gap are left out.

    ax: where to draw, else a new figure; style: passed to `Axes.plot` (label defaults to the activation's name).
    Raises MissingDependencyError without matplotlib.

    >>> from meanfield import Layer, trajectory
    >>> import matplotlib; matplotlib.use("Agg")
    >>> plot_trajectory(trajectory(Layer("relu"), [[1, 0.5], [0.5, 1]], 5)).get_ylabel()
    'isometry gap'
    """
    if ax is not None and not hasattr(ax, "set_yscale"):
        raise ValueError(f"ax must be matplotlib axes or None, got {ax!r}")
    ax = _new_axes() if ax is None else ax
    gap = np.where(
        np.isfinite(trajectory.isometry_gap) & (trajectory.isometry_gap > 0), trajectory.isometry_gap, math.nan
    )
    ax.plot(trajectory.layer, gap, **{"label": trajectory.label, **style})
    ax.set_yscale("log")
    ax.set_xlabel("layer")
    ax.set_ylabel("isometry gap")
    if ax.get_legend_handles_labels()[1]:  # a network of no layers has no activation to name
        ax.legend()
    return ax


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
