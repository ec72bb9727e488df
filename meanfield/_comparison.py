"""A simulation beside its mean field: z-scores, what finite width is expected to add, and from where the two part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation

from ._fluctuations import Fluctuations, fluctuations
from ._layer import Layer

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ._dynamics import Trajectory
    from ._simulation import Simulation

Floats: TypeAlias = NDArray[np.float64]
_LEVEL = 0.9  # of the band: what a single run is within
_SIGNIFICANT = 4.0  # standard errors


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finite networks against infinite width, layer by layer; arrays have shape (depth + 1,).

    mean, standard_error: of the isometry gap over runs; mean_field: the gap at infinite width; z: their difference in
    standard errors (nan for one run, 0 where both agree to rounding). z_max_correlation: the same of the largest
    correlation, which is no test of the mean field where pairs tie: the largest of many scattered entries lies above
    the largest of equal ones at any width. distance_max, distance_frobenius: mean distance of Gram matrices to the mean
    field.

    expected: the gap that finite width is predicted to have, mean field and fluctuations; z_expected: the runs against
    it; band: (2, depth + 1), quantiles that hold a single run's gap with probability 0.9; z_entries: the root mean
    square over entries of (mean Gram entry - mean field) in predicted standard errors, about 1 where the prediction
    holds. These are of leading order: the expected gap is off by a relative n/width or so, which is little beside the
    band (a relative 1/n) only where n^2 is small beside the width, and which many runs see. All are nan where
    fluctuations are not derived, and prediction_reason says why. fluctuations: the record that they come from, with the
    predicted variance and band of every entry; None without a prediction.

    useful_depth: the first layer at which the predicted fluctuations exceed the mean-field gap, so that the gap says
    more about the width than about the activation; inf if there is none, nan without a prediction. departs_at: from
    that layer on, at every layer, the mean over runs differs from the mean field by more than 4 standard errors and by
    more than half of it; inf if there is none, nan for one run. trusted_until: the last layer before both.
    """

    layer: NDArray[np.int64]
    mean: Floats
    standard_error: Floats
    mean_field: Floats
    z: Floats
    z_max_correlation: Floats
    distance_max: Floats
    distance_frobenius: Floats
    expected: Floats
    z_expected: Floats
    band: Floats
    z_entries: Floats
    useful_depth: float
    departs_at: float
    prediction_reason: str
    fluctuations: Fluctuations | None
    label: str

    @property
    def trusted_until(self) -> int:
        """The last layer at which the mean field may be trusted."""
        ends = [at for at in (self.useful_depth, self.departs_at) if at == at]
        return int(min([len(self.layer), *ends])) - 1

    def to_pandas(self) -> pd.DataFrame:
        """One row per layer. Raises MissingDependencyError without pandas (extra `tables`)."""
        try:
            import pandas as pd
        except ImportError as error:
            from hermite.errors import MissingDependencyError

            raise MissingDependencyError("to_pandas needs pandas: pip install 'isogram[tables]'") from error
        names = ("layer", "mean", "standard_error", "mean_field", "z", "expected", "z_expected", "z_entries")
        data = {name: getattr(self, name) for name in names}
        return pd.DataFrame(data | {"low": self.band[0], "high": self.band[1], "distance_max": self.distance_max})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Mean over runs, mean field and the predicted band against depth."""
        from .plotting import plot_comparison

        return plot_comparison(self, ax=ax)

    def __str__(self) -> str:
        if np.all(np.isinf(self.mean)):
            return f"{self.label}: the isometry gap is infinite at every layer, of runs and mean field alike"
        last, depth = self.trusted_until, len(self.layer) - 1
        if not depth:
            return "no layers: nothing to compare"
        trusted = f"the mean field holds to layer {last}" + (" of " + str(depth) if last < depth else ", the last")
        reasons = []
        if self.useful_depth <= depth:
            reasons.append(f"fluctuations exceed its gap from layer {int(self.useful_depth)} on")
        if self.departs_at <= depth:
            reasons.append(f"the runs have left it from layer {int(self.departs_at)} on")
        if self.prediction_reason:
            reasons.append(f"no prediction: {self.prediction_reason}")
        return f"{self.label}: {trusted}" + (f" ({'; '.join(reasons)})" if reasons else "")


def compared(simulation: Simulation, trajectory: Trajectory) -> Comparison:
    """The record, of a simulation and a trajectory that start from one Gram matrix and have one depth."""
    _check(simulation, trajectory)
    predicted, reason = _predicted(simulation)
    mean, error = simulation.mean(), simulation.standard_error()
    blank = np.full(simulation.depth + 1, math.nan)
    expected = blank if predicted is None else np.where(_deficient(simulation), math.inf, predicted.expected_gap)
    band = np.array([blank, blank]) if predicted is None else _band(predicted)
    return Comparison(
        layer=simulation.layer,
        mean=mean,
        standard_error=error,
        mean_field=trajectory.isometry_gap,
        z=_z(mean, trajectory.isometry_gap, error),
        z_max_correlation=_z(
            simulation.mean("max_correlation"), trajectory.max_correlation, simulation.standard_error("max_correlation")
        ),
        distance_max=simulation.mean("distance_max"),
        distance_frobenius=simulation.mean("distance_frobenius"),
        expected=expected,
        z_expected=blank if predicted is None else _z(mean, expected, error),
        band=np.where(np.isinf(expected), math.inf, band),
        z_entries=blank if predicted is None else _entries(simulation, predicted),
        useful_depth=math.nan if predicted is None else float(predicted.useful_depth),
        departs_at=_departs_at(mean, trajectory.isometry_gap, error),
        prediction_reason=reason,
        fluctuations=predicted,
        label=simulation.label,
    )


def _check(simulation: Simulation, trajectory: Trajectory) -> None:
    if not hasattr(trajectory, "isometry_gap") or np.ndim(trajectory.isometry_gap) != 1:
        raise ValueError(f"trajectory must be what meanfield.trajectory returns, got {type(trajectory).__name__}")
    if trajectory.depth != simulation.depth:
        raise ValueError(
            f"trajectory has {trajectory.depth} layers, the simulation {simulation.depth}; give both one depth"
        )
    if [_function(x) for x in trajectory.layers] != [_function(x) for x in simulation.layers]:
        raise ValueError(
            f"trajectory is that of {trajectory.label!r}, and the simulation of other layers, {simulation.label!r}; "
            "give trajectory simulation.layers"
        )
    if len(trajectory.gram) != len(simulation.initial_gram):
        raise ValueError(
            f"trajectory is of {len(trajectory.gram)} inputs, the simulation of {len(simulation.initial_gram)}; start "
            "it from simulation.initial_gram"
        )
    for name in ("isometry_gap", "max_correlation"):
        ours, theirs = float(getattr(simulation, name)[0, 0]), float(getattr(trajectory, name)[0])
        # matrices that are nearly singular are rounded in two ways
        bars = getattr(simulation, name + "_error")[0, 0] + getattr(trajectory, name + "_error")[0]
        if theirs == theirs and ours != theirs and not abs(ours - theirs) <= 1e-9 * max(1.0, abs(ours)) + bars:
            raise ValueError(
                f"trajectory starts from another Gram matrix: its {name} at layer 0 is {theirs!r}, that of the "
                f"simulation {ours!r}; start it from simulation.initial_gram"
            )


def _function(layer: Layer) -> tuple[Any, dict[str, Any]]:
    """What a layer does, whatever its activation is called."""
    assert isinstance(layer.activation, Activation)
    return layer.activation.expr, layer.options


def _predicted(simulation: Simulation) -> tuple[Fluctuations | None, str]:
    if simulation.eps:
        return None, "eps > 0 is no part of the mean field"
    try:
        return fluctuations(simulation.layers, simulation.initial_gram, tuple(simulation.width.tolist())), ""
    except ValueError as error:
        return None, str(error)


def _deficient(simulation: Simulation) -> NDArray[np.bool_]:
    """Where a layer has fewer dimensions than inputs, one less if it is centred: the Gram matrix is singular."""
    pairs = zip(simulation.width.tolist(), simulation.layers, strict=True)
    dimensions = [math.inf, *(width - layer.is_centred for width, layer in pairs)]
    return len(simulation.initial_gram) > np.array(dimensions)


def _z(mean: Floats, target: Floats, error: Floats) -> Floats:
    """(mean - target)/error; 0 where mean and target are one number to rounding."""
    with np.errstate(invalid="ignore", divide="ignore"):
        off = mean - target
        same = (mean == target) | (np.abs(off) <= 1e-12 * np.abs(target))
        return np.asarray(np.where(same, 0.0, off / error))


def _band(predicted: Fluctuations) -> Floats:
    tail = 0.5 * (1.0 - _LEVEL)
    return np.asarray(predicted.gap_quantiles((tail, 1.0 - tail)))


def _entries(simulation: Simulation, predicted: Fluctuations) -> Floats:
    """Over pairs, the root mean square of (mean entry - mean field)/sqrt(variance/runs)."""
    i, j = np.triu_indices(len(simulation.initial_gram), 1)
    off = simulation.gram_mean[:, i, j] - predicted.gram[:, i, j]
    variance = predicted.variance[:, i, j] / simulation.runs
    varies = variance > 0.0
    z = np.where(varies, off / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
    return np.sqrt(np.mean(z * z, axis=1)) if len(i) else np.zeros(simulation.depth + 1)


def _departs_at(mean: Floats, target: Floats, error: Floats) -> float:
    if np.all(np.isnan(error)):
        return math.nan  # one run has no standard error
    with np.errstate(invalid="ignore"):
        off = np.abs(mean - target)
        parted = (off > 0.5 * target) & (off > _SIGNIFICANT * error)
    together = np.flatnonzero(~parted)
    first = int(together[-1]) + 1 if len(together) else 0
    return float(first) if first < len(mean) else math.inf
