"""Gram matrices of a batch of inputs, layer by layer, in wide random networks.

X has shape (n, d), rows are inputs; Gram matrices are (..., n, n) float64 arrays. `Layer` is one mean-field layer,
`trajectory` iterates it, and the functionals (`isometry_gap`, `potential`, ...) measure how orthogonal the batch is.
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
    from ._dynamics import Trajectory as Trajectory
    from ._dynamics import grams as grams
    from ._dynamics import trajectory as trajectory
    from ._layer import Layer as Layer

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
    "plotting",
]

# dynamics need an activation: whoever uses matrices only never loads hermite
_LAZY = {"Layer": "._layer", "Trajectory": "._dynamics", "grams": "._dynamics", "trajectory": "._dynamics"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    if name == "plotting":  # needs matplotlib, so only on first use
        return import_module(".plotting", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
