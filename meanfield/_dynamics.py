"""Gram matrices layer by layer: the iteration, and what is recorded of it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._functionals import estimate_isometry_gap
from ._gap import Gap, gap_of, max_abs_offdiagonal
from ._gram import check_correlation
from ._layer import Layer, Layers, as_layers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
Progress: TypeAlias = Callable[[int, int], object] | bool | None

ALL_LAYERS_UP_TO = 512  # one Cholesky per layer is cheap up to this n
_SPACED = 32
_MAP_ERROR = 4e-15  # relative error of an entry per layer (measured 1e-15 against 60 digits)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Isometry gap, potential and largest correlation at layers 0..depth, entry 0 being the input.

    layer: 0..depth; isometry_gap (nan exactly at layers absent from gap_layers, inf where singular),
    isometry_gap_error, log_isometry_gap (no floor: follows gaps below 1e-308), potential and log_potential
    (inf where two inputs are parallel), max_correlation; status: how each gap was had, "" where it was not asked;
    gap_layers; gram: the last Gram matrix; label: the activation(s).
    """

    layer: NDArray[np.int64]
    isometry_gap: Floats
    isometry_gap_error: Floats
    log_isometry_gap: Floats
    potential: Floats
    log_potential: Floats
    max_correlation: Floats
    status: tuple[str, ...]
    gap_layers: tuple[int, ...]
    gram: Floats
    label: str

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layer) - 1

    def to_pandas(self) -> pd.DataFrame:
        """One row per layer. Raises MissingDependencyError without pandas (extra `tables`).

        >>> trajectory(Layer("tanh"), [[1, 0.5], [0.5, 1]], 2).to_pandas().shape
        (3, 8)
        """
        try:
            import pandas as pd
        except ImportError as error:
            from hermite.errors import MissingDependencyError

            raise MissingDependencyError("to_pandas needs pandas: pip install 'isogram[tables]'") from error
        columns = ("layer", "isometry_gap", "isometry_gap_error", "log_isometry_gap", "potential", "log_potential")
        data = {name: getattr(self, name) for name in (*columns, "max_correlation", "status")}
        return pd.DataFrame(data)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The isometry gap against depth on a log scale. Needs matplotlib (extra `plot`)."""
        from .plotting import plot_trajectory

        return plot_trajectory(self, ax=ax)


def grams(layer: Layers, G0: ArrayLike) -> Iterator[Floats]:
    """The Gram matrices of layers 0, 1, 2, ...: endless for one layer, finite for a sequence of layers.

    G0: (..., n, n), correlation matrices. Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`).

    >>> from itertools import islice
    >>> [round(float(G[0, 1]), 6) for G in islice(grams(Layer("relu"), [[1, 0.5], [0.5, 1]]), 3)]
    [0.5, 0.426692, 0.361129]
    """
    C = check_correlation(G0, name="G0")
    steps = None if isinstance(layer, Layer) else as_layers(layer, None)
    return _iterate(layer, C) if steps is None and isinstance(layer, Layer) else _through(steps or (), C)


def _iterate(layer: Layer, C: Floats) -> Iterator[Floats]:
    while True:
        yield C
        C = layer.advance(C)


def _through(layers: Iterable[Layer], C: Floats) -> Iterator[Floats]:
    yield C
    for layer in layers:
        C = layer.advance(C)
        yield C


def trajectory(
    layer: Layers,
    G0: ArrayLike,
    depth: int | None = None,
    *,
    gap_layers: Iterable[int] | None = None,
    progress: Progress = None,
) -> Trajectory:
    """Iterate depth mean-field layers from G0 and record gap, potential and largest correlation.

    layer: a Layer, or a sequence of layers, which fixes the depth; G0: (n, n), a correlation matrix. gap_layers:
    where the gap, the costly part (one Cholesky each), is computed; by default everywhere for n <= 512, else at 32
    logarithmically spaced layers and the last. progress: True, False, a function of (done, total), or None for a line
    on a terminal once a run takes more than two seconds. One matrix is held at a time.

    Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`), a bad depth or gap_layers. Inputs that
    coincide (an entry exactly 1) stay so: gap and potential are inf at every layer.

    Source: arXiv:2305.18399, equation (10). Entries are right to about 4e-15 relative per layer; the error bar
    counts that and the factorisation, and is measured, not proven.

    >>> t = trajectory(Layer("sin"), [[1, 0.5], [0.5, 1]], 30)
    >>> round(float(t.isometry_gap[30] / t.isometry_gap[29]), 4)  # approaches (2 - beta)^2
    0.7241
    """
    C = check_correlation(G0, name="G0")
    if C.ndim != 2:
        raise ValueError(f"G0 must be one matrix of shape (n, n), got shape {C.shape}; call once per matrix")
    layers = as_layers(layer, depth)
    wanted = _gap_layers(gap_layers, len(layers), len(C))
    report = _reporter(progress, len(layers))
    parallel = bool(np.any(C[np.triu_indices(len(C), 1)] == 1.0))
    gaps: dict[int, Gap] = {}
    largest = np.empty(len(layers) + 1)
    for i, G in enumerate(_through(layers, C)):
        C = G
        largest[i] = float(max_abs_offdiagonal(G))
        if i in wanted:
            gaps[i] = _gap_at(G, i, parallel=parallel)
        report(i)
    return _record(layers, largest, gaps, C)


def _gap_at(G: Floats, layer: int, *, parallel: bool) -> Gap:
    """The gap with an error bar that counts the rounding of the layers before."""
    if parallel:  # f(1) = 1: coincident inputs never separate
        return Gap(math.inf, 0.0, math.inf, "singular")
    if layer == 0:
        first = estimate_isometry_gap(G)
        value, error = float(first.value), float(first.error)
        log_value = gap_of(G).log_value if first.status == "resolved" else math.log(value) if value > 0 else -math.inf
        return Gap(value, error, log_value, first.status)  # type: ignore[arg-type]  # one matrix: one status
    gap = gap_of(G, rounded=True)
    if gap.status != "resolved":
        return gap
    return gap._replace(error=4 * gap.error + layer * _MAP_ERROR * gap.value)


def _gap_layers(given: Iterable[int] | None, depth: int, n: int) -> frozenset[int]:
    if given is None:
        if n <= ALL_LAYERS_UP_TO:
            return frozenset(range(depth + 1))
        spaced = np.unique(np.geomspace(1, max(depth, 1), _SPACED).astype(int))
        return frozenset({0, depth, *(int(i) for i in spaced if i <= depth)})
    chosen = list(given)
    for i in chosen:
        if isinstance(i, (bool, np.bool_)) or not isinstance(i, (int, np.integer)) or not 0 <= i <= depth:
            raise ValueError(f"gap_layers must be integers from 0 to depth={depth}, got {i!r}")
    return frozenset(int(i) for i in chosen)


def _record(layers: tuple[Layer, ...], largest: Floats, gaps: dict[int, Gap], C: Floats) -> Trajectory:
    count = len(largest)
    columns = np.full((3, count), math.nan)
    status = [""] * count
    for i, gap in gaps.items():
        columns[:, i], status[i] = gap[:3], gap.status
    with np.errstate(divide="ignore"):
        potential = largest / (1.0 - largest)
        log_potential = np.log(largest) - np.log1p(-largest)
    labels = list(dict.fromkeys(x.label for x in layers))
    value, error, log_value = columns
    return Trajectory(
        layer=np.arange(count),
        isometry_gap=value,
        isometry_gap_error=error,
        log_isometry_gap=log_value,
        potential=potential,
        log_potential=log_potential,
        max_correlation=largest,
        status=tuple(status),
        gap_layers=tuple(sorted(gaps)),
        gram=C,
        label=", ".join(labels),
    )


def _reporter(progress: Progress, total: int) -> Callable[[int], Any]:
    """What is called after each layer."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return lambda done: None
    if callable(progress):
        tell = progress
        return lambda done: tell(done, total)
    begun, shown = time.monotonic(), [0.0]

    def line(done: int) -> None:
        now = time.monotonic()
        late = progress is True or now - begun > 2.0
        if late and (now - shown[0] > 0.2 or done == total):
            shown[0] = now
            print(f"\rlayer {done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return line
