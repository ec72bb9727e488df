"""What the command line prints, one table for each command, and what it draws."""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation, activation, catalogue
from hermite._table import Cell, Table
from hermite.errors import MissingDependencyError

from ._conditional import factors
from ._dynamics import Trajectory, trajectory
from ._finite_width import simulate
from ._fixed_points import FixedPoint, fixed_points
from ._layer import Layer, check_depth
from ._phase import edge_of_chaos, phase
from ._starts import start

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
_COLUMNS = ("layer", "isometry_gap", "error", "log_isometry_gap", "potential", "max_correlation", "status")
_FIXED = ("activation", "rho", "1 - rho", "slope", "stability", "rate", "correlation_length")
_KNOWN = 1e-13  # relative error of fixed points, slopes, and what is derived from them
_SMALLEST = 1e-290  # below it a gap has lost digits to the range of float64, its logarithm has not


def _digits(options: argparse.Namespace) -> int:
    short = options.format not in ("csv", "json")
    return (6 if short else 15) if options.digits is None else int(options.digits)


def _layer(activation: Any, options: argparse.Namespace) -> Layer:
    names = ("normalization", "order", "gain", "bias_variance", "skip")
    return Layer(activation, **{name: getattr(options, name) for name in names})


# ---- iterate --------------------------------------------------------------------------------------------------


def iterate_report(options: argparse.Namespace) -> Table:
    """The trajectory of one activation, one row a layer."""
    layer, depth, every = _layer(options.activation, options), check_depth(options.depth), options.every
    if every is not None and every < 1:
        raise ValueError(f"--every must be at least 1, got {every}")
    shown = range(depth + 1) if every is None else sorted({*range(0, depth + 1, every), depth})
    path = trajectory(layer, start(options), depth, gap_layers=None if every is None else shown)
    if options.plot is not None:
        _draw(options.plot, path.plot)
    return _table(path, shown, _digits(options))


def _table(path: Trajectory, shown: Sequence[int], digits: int) -> Table:
    rows, errors = zip(*(_row(path, l) for l in shown), strict=True)
    return Table(_COLUMNS, tuple(rows), tuple(errors), digits)


def _row(path: Trajectory, l: int) -> tuple[tuple[Cell, ...], tuple[float | None, ...]]:
    """One layer, and how far off each of its numbers may be."""
    gap, error, largest, off = (
        float(values[l])
        for values in (path.isometry_gap, path.isometry_gap_error, path.max_correlation, path.max_correlation_error)
    )
    odds, spread = float(path.potential[l]), float(path.log_potential_error[l])
    numbers = (gap, error, float(path.log_isometry_gap[l]), odds if spread < 0.5 else math.nan, largest)
    log_bar = float(path.log_isometry_gap_error[l])
    bars = (error, None, log_bar if math.isfinite(log_bar) else 0.0, odds * spread if math.isfinite(odds) else 0.0, off)
    cells = [_cell(number) for number in numbers]
    known = [bar if isinstance(cell, float) else None for cell, bar in zip(cells, bars, strict=True)]
    return (l, *cells, path.status[l] or None), (None, *known, None)


def _cell(number: float) -> float | str | None:
    """Infinities as text, since JSON has none; nothing where nothing was computed."""
    return None if math.isnan(number) else number if math.isfinite(number) else str(number)


# ---- simulate -------------------------------------------------------------------------------------------------

_SIMULATED = ("layer", "mean", "standard_error", "mean_field", "z", "expected", "low", "high", "distance")


def simulate_report(options: argparse.Namespace) -> Table:
    """Networks of finite width beside their mean field, one row a layer."""
    layer, depth, widths = _layer(options.activation, options), check_depth(options.depth), options.width
    names = ("runs", "method", "backend", "device", "dtype", "rng")
    asked = {name: getattr(options, name) for name in names}
    width = widths[0] if len(widths) == 1 else widths
    found = simulate(layer, _inputs(start(options), layer, widths[0]), width=width, depth=depth, **asked)
    beside = found.compare(trajectory(layer, found.initial_gram, depth))
    if options.plot is not None:
        _draw(options.plot, beside.plot)
    columns = (beside.mean, beside.standard_error, beside.mean_field, beside.z, beside.expected, *beside.band)
    numbers = np.array([*columns, beside.distance_max]).T.tolist()
    rows = [(l, *map(_cell, row)) for l, row in enumerate(numbers)]
    # two digits of a mean beyond its standard error would be none
    known = [(None, 0.01 * row[1] if math.isfinite(row[1]) else None, *[None] * 7) for row in numbers]
    return Table(_SIMULATED, tuple(rows), tuple(known), _digits(options))


def _inputs(G: Floats, layer: Layer, width: int) -> Floats:
    """Inputs X with X X^T/d = G; as many features as the first layer has, where a skip connection adds them to it.

    Else d is a power of 4, so that its root, and the Gram matrix of inputs that coincide, are exact.
    """
    n = len(G)
    d = max(width, n) if layer.skip else 4 ** math.ceil(math.log(n, 4))
    X = np.zeros((n, d))
    X[:, :n] = math.sqrt(d) * factors(G[None])[0]
    return X


# ---- fixed points ---------------------------------------------------------------------------------------------


def fixed_points_report(options: argparse.Namespace) -> Table:
    """All fixed points of each activation, one row a point."""
    layers = [_layer(spec, options) for spec in options.activation or catalogue()]
    rows = [_point(layer, point) for layer in layers for point in fixed_points(layer)]
    if options.plot is not None:
        from .plotting import plot_map

        _draw(options.plot, lambda ax: [plot_map(layer, ax=ax) for layer in layers])
    numbers = [tuple(_KNOWN * abs(x) if isinstance(x, float) else None for x in row) for row in rows]
    return Table(_FIXED, tuple(rows), tuple(numbers), _digits(options))


def _point(layer: Layer, point: FixedPoint) -> tuple[Cell, ...]:
    numbers = (point.rho, point.complement, point.slope)
    return (
        str(layer.activation),
        *map(_cell, numbers),
        point.stability,
        *map(_cell, (point.rate, point.correlation_length)),
    )


# ---- phase ----------------------------------------------------------------------------------------------------


_VARIANCES = ("activation", "weight_variance", "bias_variance")
_PHASE = (
    *_VARIANCES,
    "phase",
    "variance",
    "chi",
    "variance_slope",
    "correlation",
    "correlation_length",
    "variance_length",
)
_EDGE = ("activation", "bias_variance", "weight_variance")


def phase_report(options: argparse.Namespace) -> Table:
    """The phase at each pair of variances, one row each; without weight variances the edge of chaos."""
    sigma, biases = activation(options.activation), [float(b) for b in options.bias_variance]
    if options.plot is not None:
        _draw_phases(options, sigma, biases)
    if options.weight_variance is None:
        edge = edge_of_chaos(sigma, biases).tolist()
        rows: list[tuple[Cell, ...]] = [(str(sigma), b, _cell(w)) for b, w in zip(biases, edge, strict=True)]
    else:
        pairs = itertools.product(options.weight_variance, options.bias_variance)
        rows = [_phase_row(sigma, w, b) for w, b in pairs]
    errors = [tuple(_KNOWN * abs(x) if isinstance(x, float) else None for x in row) for row in rows]
    return Table(_EDGE if options.weight_variance is None else _PHASE, tuple(rows), tuple(errors), _digits(options))


def _phase_row(sigma: Activation, weight: Fraction, bias: Fraction) -> tuple[Cell, ...]:
    found = phase(sigma, weight, bias)
    numbers = (found.variance, found.chi, found.variance_slope, found.correlation)
    lengths = (found.correlation_length, found.variance_length)
    return (str(sigma), float(weight), float(bias), found.name, *map(_cell, numbers), *map(_cell, lengths))


def _draw_phases(options: argparse.Namespace, sigma: Activation, biases: list[float]) -> None:
    """The neighbourhood of what is asked, or what most people look at."""
    from .plotting import plot_phases

    weights = [float(w) for w in options.weight_variance or ()]
    high = (1.5 * max(weights, default=2.0), 1.5 * max(biases) or 0.3)
    axes = (np.linspace(end / 40, end, 40) if i == 0 else np.linspace(0.0, end, 30) for i, end in enumerate(high))
    _draw(options.plot, lambda ax: plot_phases(sigma, *axes, ax=ax))


def _draw(file: Path, draw: Callable[[Axes], object]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("--plot needs matplotlib: pip install 'isogram[plot]'") from error
    figure = Figure(layout="constrained")  # not by pyplot, which might open a window
    draw(figure.subplots())
    figure.savefig(file)
