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

from ._functionals import checked_gap
from ._gap import Gap, gap_of_clusters
from ._gram import as_real, check_correlation, check_covariance, correlation, rounding
from ._layer import Layer, Layers, as_layers
from ._march import Largest
from ._run import GIVEN_ERROR, Run
from ._walk import Walk, stationary_steps

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
Progress: TypeAlias = Callable[[int, int], object] | bool | None

ALL_LAYERS_UP_TO = 512  # one Cholesky per layer is cheap up to this n
_SPACED = 32


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Isometry gap, potential and largest correlation at layers 0..depth, entry 0 being the input.

    layer: 0..depth; isometry_gap (nan exactly at layers absent from gap_layers, inf where singular or unresolved),
    isometry_gap_error, isometry_gap_lower (what the gap is at least, unresolved or not), log_isometry_gap and
    log_isometry_gap_error (no floor: they follow gaps far below 1e-308), potential (inf where two inputs are parallel),
    log_potential and log_potential_error, max_correlation and max_correlation_error (0 where two inputs are exactly
    parallel); status: how each gap was had ("resolved", "exact", "singular", "unresolved" as in
    `estimate_isometry_gap`; "underflow": even the logarithm, which falls doubly exponentially where c_1 = 0, has left
    float64), "" where it was not asked; gap_layers; gram: the last Gram matrix; label: the activation(s); layers: the
    network.
    """

    layer: NDArray[np.int64]
    isometry_gap: Floats
    isometry_gap_error: Floats
    isometry_gap_lower: Floats
    log_isometry_gap: Floats
    log_isometry_gap_error: Floats
    potential: Floats
    log_potential: Floats
    log_potential_error: Floats
    max_correlation: Floats
    max_correlation_error: Floats
    status: tuple[str, ...]
    gap_layers: tuple[int, ...]
    gram: Floats
    label: str
    layers: tuple[Layer, ...] = ()

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

    G0: (..., n, n), covariance matrices of any diagonal. What is yielded is read-only, since the next layer is computed
    from it. Raises ValueError for what is no Gram matrix, and as `Layer`.

    >>> from itertools import islice
    >>> [round(float(G[0, 1]), 6) for G in islice(grams(Layer("relu"), [[1, 0.5], [0.5, 1]]), 3)]
    [0.5, 0.426422, 0.355903]
    """
    C = check_covariance(G0, name="G0").copy()
    return _iterate(layer, C) if isinstance(layer, Layer) else _through(as_layers(layer, None), C)


def _iterate(layer: Layer, C: Floats) -> Iterator[Floats]:
    while True:
        C.setflags(write=False)
        yield C
        C = layer.advance(C)


def _through(layers: Iterable[Layer], C: Floats) -> Iterator[Floats]:
    C.setflags(write=False)
    yield C
    for layer in layers:
        C = layer.advance(C)
        C.setflags(write=False)
        yield C


def trajectory(
    layer: Layers,
    G0: ArrayLike,
    depth: int | None = None,
    *,
    complement: ArrayLike | None = None,
    gap_layers: Iterable[int] | None = None,
    progress: Progress = None,
) -> Trajectory:
    """Iterate depth mean-field layers from G0 and record gap, potential and largest correlation.

    layer: a Layer, or a sequence of layers, which fixes the depth; G0: (n, n), a covariance matrix, whose diagonal need
    not be 1: inputs of other norms are other inputs, and `correlation(G0)` those of norm 1. complement: (n, n),
    1 - |G0_ij| where it is known better than G0 can hold it, as from `input_complement(X)`: inputs at distance 1e-9
    have the correlation 1 in float64. gap_layers: where the gap, the costly part (one Cholesky each), is computed; by
    default everywhere for n <= 512, else at 32 logarithmically spaced layers and the last. progress: True, False, a
    function of (done, total), or None for a line on a terminal once a run takes more than two seconds.

    The gap is that of G, potential and largest correlation those of its cosines; with batch normalisation, where
    (1, ..., 1) may be in the kernel of G, the gap is that on its complement, at every layer.

    Raises ValueError for what is no Gram matrix, a bad depth, complement, gap_layers or progress, for a complement
    where the diagonal moves, and as `Layer`. Inputs that coincide exactly stay so: gap and potential are inf at every
    layer.

    Source: arXiv:2305.18399, equation (10). G0 is taken as exact. Each layer adds its rounding, 2e-15 relative, and
    multiplies the errors of the layers before by the slope of its map, except for inputs that nearly coincide, whose
    distance keeps its digits. The error bar counts this and the factorisation; it is measured, not proven. Once all
    correlations are below 1e-9 a layer costs a few operations, whatever n is, and logarithms go on below 1e-308. All
    this holds while the diagonal is one number that stays (1 with layer or rms normalisation); else layers are computed
    one after the other, with an absolute error of 4e-15 each.
    Beside G0 two and a half arrays of its size are held, three while the Gram matrix is nearly singular.

    >>> t = trajectory(Layer("sin"), [[1, 0.5], [0.5, 1]], 30)
    >>> round(float(t.isometry_gap[30] / t.isometry_gap[29]), 4)  # approaches (2 - beta)^2
    0.7241
    """
    if as_real(G0, "G0").ndim != 2:
        check_correlation(G0, name="G0")
        raise ValueError(f"G0 must be one matrix of shape (n, n), got shape {np.shape(G0)}; call once per matrix")
    layers = as_layers(layer, depth)
    wanted = _gap_layers(gap_layers, len(layers), len(np.asarray(G0)))
    report = reporter(progress, len(layers))
    run, factor = _start(layers, G0, wanted, complement)
    report(0)
    for done in run:
        report(done)
    return _record(layers, run, factor)


def _start(
    layers: tuple[Layer, ...], G0: ArrayLike, wanted: frozenset[int], complement: ArrayLike | None
) -> tuple[Run | Walk, float]:
    """What goes through the layers, and the diagonal at the end if that is the correlations alone."""
    q = np.diagonal(as_real(G0, "G0"))
    unit = bool(np.all(np.abs(q - 1.0) <= rounding(G0, len(q))))
    equal = unit or bool(np.all(q == q[0]) and q[0] > 0.0)
    found = stationary_steps(layers, 1.0 if unit else float(q[0])) if equal else None
    if found is None:
        if complement is not None:
            raise ValueError("complement needs a network in which the diagonal of G stays as it is; leave it out")
        return Walk(layers, check_covariance(G0, name="G0"), wanted), 1.0
    steps, factor = found
    C, first = _first(G0 if unit else correlation(G0), 0 in wanted and complement is None)
    near = None if complement is None else _checked_complement(complement, C)
    if near is not None and 0 in wanted:
        first = gap_of_clusters(C, near, entry_error=GIVEN_ERROR)
    # the run holds the pairs: half of the matrix
    return Run(steps, C, near, first, wanted), factor


def _first(G0: ArrayLike, wanted: bool) -> tuple[Floats, Gap | None]:
    """The matrix, and its gap if that is wanted: the factorisation that checks the one gives the other."""
    return checked_gap(G0, name="G0") if wanted else (check_correlation(G0, name="G0"), None)


def _checked_complement(given: ArrayLike, C: Floats) -> Floats:
    """1 - |C_ij| as its caller knows it: a symmetric matrix that C, as far as it goes, agrees with."""
    near = np.asarray(given, dtype=np.float64)
    if near.shape != C.shape:
        raise ValueError(f"complement must have the shape {C.shape} of G0, got {near.shape}")
    if not np.isfinite(near).all():
        i, j = (int(k) for k in np.argwhere(~np.isfinite(near))[0])
        raise ValueError(f"complement must be finite, got {float(near[i, j])!r} at index [{i}, {j}]")
    if np.diagonal(near).any():
        raise ValueError(f"complement must have the diagonal 0, got {float(np.abs(np.diagonal(near)).max())!r}")
    if not np.array_equal(near, near.T):
        i, j = (int(k) for k in np.argwhere(near != near.T)[0])
        raise ValueError(
            f"complement must be symmetric, got {float(near[i, j])!r} and {float(near[j, i])!r} at [{i}, {j}] and "
            f"[{j}, {i}]; for its symmetric part pass (complement + complement.T)/2"
        )
    tolerance = rounding(C, len(C))
    for i in range(len(C)):  # a row at a time: the matrices may be large
        off = np.abs((1.0 - np.abs(C[i])) - near[i])
        off[i] = 0.0
        j = int(np.argmax(off))
        if not off[j] <= tolerance:  # or NaN
            raise ValueError(
                f"complement must hold 1 - |G0_ij|, got {float(near[i, j])!r} beside G0 = {float(C[i, j])!r} at index "
                f"[{i}, {j}]; pass input_complement(X) of the inputs of G0"
            )
    if np.any(near < 0.0):
        raise ValueError(f"complement must not be negative, got {float(near.min())!r}")
    return near


def _gap_layers(given: Iterable[int] | None, depth: int, n: int) -> frozenset[int]:
    if given is None:
        if n <= ALL_LAYERS_UP_TO:
            return frozenset(range(depth + 1))
        spaced = np.unique(np.geomspace(1, max(depth, 1), _SPACED).astype(int))
        return frozenset({0, depth, *(int(i) for i in spaced if i <= depth)})
    try:
        chosen = list(given)
    except TypeError:
        raise ValueError(f"gap_layers must be a list of layers, or None, got {given!r}") from None
    for i in chosen:
        if isinstance(i, (bool, np.bool_)) or not isinstance(i, (int, np.integer)) or not 0 <= i <= depth:
            raise ValueError(f"gap_layers must be integers from 0 to depth={depth}, got {i!r}")
    return frozenset(int(i) for i in chosen)


def _record(layers: tuple[Layer, ...], run: Run | Walk, factor: float) -> Trajectory:
    count = len(run.tops)
    columns = np.full((5, count), math.nan)
    status = [""] * count
    for i, (gap, bar, least) in run.gaps.items():
        columns[:, i], status[i] = (*gap[:3], bar, least), gap.status
    value, gap_error, log_value, log_error, lower = columns
    top = {name: np.array([getattr(t, name) for t in run.tops]) for name in Largest._fields}
    with np.errstate(divide="ignore", over="ignore"):
        potential = top["value"] / top["complement"]
    return Trajectory(
        layer=np.arange(count),
        isometry_gap=value,
        isometry_gap_error=gap_error,
        isometry_gap_lower=lower,
        log_isometry_gap=log_value,
        log_isometry_gap_error=log_error,
        potential=potential,
        log_potential=top["log_odds"],
        log_potential_error=top["log_error"],
        max_correlation=top["value"],
        max_correlation_error=top["error"],
        status=tuple(status),
        gap_layers=tuple(sorted(run.gaps)),
        gram=run.gram if factor == 1.0 else run.gram * factor,
        label=", ".join(dict.fromkeys(x.label for x in layers)),
        layers=layers,
    )


def reporter(progress: Progress, total: int) -> Callable[[int], Any]:
    """What is called after each layer."""
    if not (progress is None or isinstance(progress, (bool, np.bool_)) or callable(progress)):
        raise ValueError(f"progress must be True, False, None or a function of (done, total), got {progress!r}")
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
