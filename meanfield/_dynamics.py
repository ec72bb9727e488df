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

from hermite._reduced import reduced_dual

from ._functionals import estimate_isometry_gap
from ._gap import EPS, SINGULAR, UNRESOLVED, Gap, gap_of, max_abs_offdiagonal, rms_offdiagonal
from ._gram import check_correlation
from ._layer import Layer, Layers, as_layers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
Progress: TypeAlias = Callable[[int, int], object] | bool | None

ALL_LAYERS_UP_TO = 512  # one Cholesky per layer is cheap up to this n
_SPACED = 32
_RELATIVE, _ABSOLUTE = 1e-15, 1e-14  # error of one map where its Hermite series is summed, and beyond


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Isometry gap, potential and largest correlation at layers 0..depth, entry 0 being the input.

    layer: 0..depth; isometry_gap (nan exactly at layers absent from gap_layers, inf where singular),
    isometry_gap_error, log_isometry_gap (no floor: follows gaps below 1e-308), potential and log_potential
    (inf where two inputs are parallel), max_correlation, max_correlation_error (0 where two inputs are exactly
    parallel, elsewhere no entry is further off); status: how each gap was had
    ("resolved", "exact", "singular", "unresolved" as in `estimate_isometry_gap`; "underflow": correlations have fallen
    below 5e-324, so gap 0 and its logarithm -inf are lost digits), "" where it was not asked; gap_layers;
    gram: the last Gram matrix; label: the activation(s).
    """

    layer: NDArray[np.int64]
    isometry_gap: Floats
    isometry_gap_error: Floats
    log_isometry_gap: Floats
    potential: Floats
    log_potential: Floats
    max_correlation: Floats
    max_correlation_error: Floats
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

    G0: (..., n, n), correlation matrices. What is yielded is read-only, since the next layer is computed from it.
    Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`).

    >>> from itertools import islice
    >>> [round(float(G[0, 1]), 6) for G in islice(grams(Layer("relu"), [[1, 0.5], [0.5, 1]]), 3)]
    [0.5, 0.426422, 0.355903]
    """
    C = check_correlation(G0, name="G0").copy()
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
    gap_layers: Iterable[int] | None = None,
    progress: Progress = None,
) -> Trajectory:
    """Iterate depth mean-field layers from G0 and record gap, potential and largest correlation.

    layer: a Layer, or a sequence of layers, which fixes the depth; G0: (n, n), a correlation matrix. gap_layers:
    where the gap, the costly part (one Cholesky each), is computed; by default everywhere for n <= 512, else at 32
    logarithmically spaced layers and the last. progress: True, False, a function of (done, total), or None for a line
    on a terminal once a run takes more than two seconds. One matrix is held at a time.

    Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`), a bad depth, gap_layers or progress. Inputs
    that coincide (an entry exactly 1) stay so: gap and potential are inf at every layer.

    Source: arXiv:2305.18399, equation (10). G0 is taken as exact. Each layer adds its rounding, about 1e-15 (counted as
    1e-14), and multiplies the errors of the layers before by the slope of its map: inputs that nearly coincide, at
    1 - rho = delta, keep no more than log10(delta/1e-15) digits of their distance. The error bar counts this and the
    factorisation; it is measured, not proven.

    >>> t = trajectory(Layer("sin"), [[1, 0.5], [0.5, 1]], 30)
    >>> round(float(t.isometry_gap[30] / t.isometry_gap[29]), 4)  # approaches (2 - beta)^2
    0.7241
    """
    C = check_correlation(G0, name="G0").copy()
    if C.ndim != 2:
        raise ValueError(f"G0 must be one matrix of shape (n, n), got shape {C.shape}; call once per matrix")
    layers = as_layers(layer, depth)
    wanted = _gap_layers(gap_layers, len(layers), len(C))
    report = _reporter(progress, len(layers))
    gaps: dict[int, Gap] = {}
    largest, error = np.empty((2, len(layers) + 1))
    for i, (G, most, off, parallel) in enumerate(_followed(layers, C)):
        C, largest[i], error[i] = G, most, 0.0 if parallel else off
        if i in wanted:
            gaps[i] = SINGULAR if parallel else _later_gap(G, off) if i else _first_gap(G)
            if largest[i] == 0.0 < largest[0]:
                gaps[i] = _UNDERFLOW
        report(i)
    return _record(layers, largest, error, gaps, C)


# all entries have fallen below 5e-324: the gap is not 0, but it and its logarithm are lost
_UNDERFLOW = Gap(0.0, math.ulp(0.0), -math.inf, "underflow")


def _followed(layers: tuple[Layer, ...], C: Floats) -> Iterator[tuple[Floats, float, float, bool]]:
    """Gram matrices with their largest entry, a bound on the error of all, and whether a pair is exactly parallel."""
    present = {1.0: np.count_nonzero(C == 1.0) > len(C), -1.0: np.any(C == -1.0)}
    ends = {end for end in present if present[end]}
    largest, error = float(max_abs_offdiagonal(C)), 0.0
    yield C, largest, error, bool(ends)
    for layer in layers:
        # an entry of 1 stays; one of -1 stays 1 in size only where sigma - c_0 is odd or sigma is even
        ends = {float(layer.map(end)) for end in ends} & {1.0, -1.0}
        error = _entry_error(layer, largest, error)
        C = layer.advance(C)
        largest = float(max_abs_offdiagonal(C))
        yield C, largest, error, bool(ends)


def _entry_error(layer: Layer, largest: float, error: float) -> float:
    """How far off an entry may be after one more layer, where all were off by at most `error`.

    f has no negative coefficients, so a chord of f that starts at the largest entry is steeper than f is anywhere on
    smaller entries of either sign; it is long enough for the rounding of f not to matter.
    """
    low = min(largest, 1.0 - error)
    high = min(low + max(error, low / 64), 1.0)
    at_low, at_high = np.asarray(layer.map([low, high]))
    slope = (at_high - at_low) / (high - low) if high > low else 0.0
    return float(slope * error + _rounding(layer, low, at_low) + math.ulp(0.0))


def _rounding(layer: Layer, largest: float, mapped: float) -> float:
    """The error of one map: w_k = c_k^2/variance has relative error eps/sqrt(w_k), and the first of them decides."""
    dual = reduced_dual(layer.sigma)
    if largest > dual.reach:
        return _ABSOLUTE
    s = dual.series
    _, leading = min((k, w) for k, w in ((s.odd_power, s.odd[0]), (s.even_power, s.even[0])) if w)
    return _RELATIVE * (1.0 + 1.0 / math.sqrt(leading)) * mapped


def _first_gap(G: Floats) -> Gap:
    first = estimate_isometry_gap(G)
    value, error = float(first.value), float(first.error)
    log_value = gap_of(G).log_value if first.status == "resolved" else math.log(value) if value > 0 else -math.inf
    return Gap(value, error, log_value, first.status)  # type: ignore[arg-type]  # one matrix: one status


def _later_gap(G: Floats, entry_error: float) -> Gap:
    """The gap with an error bar that counts the errors of the entries: |d gap| <= |C^-1 - I|_F |dC|_F / n."""
    gap, n = gap_of(G, rounded=True), len(G)
    if gap.status != "resolved" or gap.value == 0.0:
        return gap
    size = math.sqrt(n * (n - 1)) * float(rms_offdiagonal(G))
    # |C^-1 - I|_F costs a solve: where the series does not give it, it is read off the error bar of gap_of
    counted = (2.0 if n == 2 else 2.0 + 2.0 * math.sqrt(n)) * EPS * min(1.0, size)
    excess = size / (1.0 - size) if size < 0.5 else n * gap.error / counted
    relative = excess * math.sqrt(n * (n - 1)) * entry_error
    return UNRESOLVED if relative >= 0.5 else gap._replace(error=gap.error - math.log1p(-relative) / n)


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


def _record(layers: tuple[Layer, ...], largest: Floats, error: Floats, gaps: dict[int, Gap], C: Floats) -> Trajectory:
    count = len(largest)
    columns = np.full((3, count), math.nan)
    status = [""] * count
    for i, gap in gaps.items():
        columns[:, i], status[i] = gap[:3], gap.status
    with np.errstate(divide="ignore"):
        potential = largest / (1.0 - largest)
        log_potential = np.log(largest) - np.log1p(-largest)
    labels = list(dict.fromkeys(x.label for x in layers))
    value, gap_error, log_value = columns
    return Trajectory(
        layer=np.arange(count),
        isometry_gap=value,
        isometry_gap_error=gap_error,
        log_isometry_gap=log_value,
        potential=potential,
        log_potential=log_potential,
        max_correlation=largest,
        max_correlation_error=error,
        status=tuple(status),
        gap_layers=tuple(sorted(gaps)),
        gram=C,
        label=", ".join(labels),
    )


def _reporter(progress: Progress, total: int) -> Callable[[int], Any]:
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
