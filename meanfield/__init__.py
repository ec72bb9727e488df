"""Gram matrices of a batch of inputs, layer by layer, in wide random networks.

X has shape (n, d), rows are inputs; Gram matrices are (..., n, n) float64 arrays. `Layer` is one mean-field layer,
`trajectory` iterates it, and the functionals (`isometry_gap`, `potential`, ...) measure how orthogonal the batch is;
`fixed_points`, `variance_fixed_points` and `phase` say where deep networks end; `simulate` runs networks of finite
width, and `measure` looks into a given one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._functionals import GapEstimate as GapEstimate
from ._functionals import estimate_isometry_gap as estimate_isometry_gap
from ._functionals import isometry as isometry
from ._functionals import isometry_gap as isometry_gap
from ._functionals import max_correlation as max_correlation
from ._functionals import potential as potential
from ._functionals import rms_correlation as rms_correlation
from ._gram import correlation as correlation
from ._gram import gram as gram
from ._gram import input_complement as input_complement
from ._gram import input_gram as input_gram

if TYPE_CHECKING:
    from ._comparison import Comparison as Comparison
    from ._convergence import Convergence as Convergence
    from ._convergence import convergence as convergence
    from ._dynamics import Trajectory as Trajectory
    from ._dynamics import grams as grams
    from ._dynamics import trajectory as trajectory
    from ._finite_width import simulate as simulate
    from ._fixed_points import FixedPoint as FixedPoint
    from ._fixed_points import fixed_points as fixed_points
    from ._layer import Layer as Layer
    from ._measurement import Measurement as Measurement
    from ._ntk import ntk as ntk
    from ._phase import HalfStablePoint as HalfStablePoint
    from ._phase import Phase as Phase
    from ._phase import edge_of_chaos as edge_of_chaos
    from ._phase import half_stable_points as half_stable_points
    from ._phase import phase as phase
    from ._simulation import Simulation as Simulation
    from ._torch._measure import measure as measure
    from ._variances import VariancePoint as VariancePoint
    from ._variances import variance_fixed_points as variance_fixed_points
    from ._variances import variance_map as variance_map

__all__ = [
    "gram",
    "correlation",
    "input_gram",
    "input_complement",
    "isometry",
    "isometry_gap",
    "estimate_isometry_gap",
    "GapEstimate",
    "potential",
    "max_correlation",
    "rms_correlation",
    "Layer",
    "grams",
    "trajectory",
    "Trajectory",
    "fixed_points",
    "FixedPoint",
    "convergence",
    "Convergence",
    "variance_map",
    "variance_fixed_points",
    "VariancePoint",
    "phase",
    "Phase",
    "edge_of_chaos",
    "half_stable_points",
    "HalfStablePoint",
    "ntk",
    "simulate",
    "Simulation",
    "Comparison",
    "measure",
    "Measurement",
    "plotting",
]

# dynamics need an activation: whoever uses matrices only never loads hermite
_HOMES = {
    "_comparison": "Comparison",
    "_convergence": "convergence Convergence",
    "_dynamics": "grams trajectory Trajectory",
    "_finite_width": "simulate",
    "_fixed_points": "fixed_points FixedPoint",
    "_layer": "Layer",
    "_measurement": "Measurement",
    "_ntk": "ntk",
    "_phase": "phase Phase edge_of_chaos half_stable_points HalfStablePoint",
    "_simulation": "Simulation",
    "_torch._measure": "measure",
    "_variances": "variance_map variance_fixed_points VariancePoint",
}
_LAZY = {name: f".{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    if name == "plotting":  # needs matplotlib, so only on first use
        return import_module(".plotting", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
