"""Normalisation layers of torch: which vectors each divides by their lengths, and what theorem 4.1 says of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase
from torch.nn.modules.instancenorm import _InstanceNorm

Array: TypeAlias = NDArray[Any]

BY_BATCH = _NormBase  # those that know running statistics, and so do another thing in training mode


@dataclass(frozen=True)
class Norm:
    """What one normalisation layer does to one input.

    vectors: the input as (m, d), a view or a copy, rows being what is divided by its length; theorem: "4.1", "4.2" or
    "4.3"; centred: whether the mean of each row is taken off first; eps: added to the variance, None if not known.
    reason: why the theorem has nothing to say of it, if so.
    """

    vectors: Callable[[Array], Array]
    theorem: str
    centred: bool
    eps: float | None
    reason: str = ""


def norm_of(module: nn.Module, kind: str, x: torch.Tensor) -> Norm:
    """What the layer does to x, as it stands now.

    kind: "layer" or "rms" for what its user knows to normalise the last axis, "" for what its class tells.
    """
    if kind:
        return Norm(_trailing(1), "4.2" if kind == "layer" else "4.1", kind == "layer", _own_eps(module))
    base = next((each for each in _KINDS if isinstance(module, each)), None)
    if base is None:
        return _nothing("no normalisation layer of torch")
    norm = _KINDS[base](module, x)
    if norm.reason or _is_own_forward(module, base):
        return norm
    kind = "rms" if norm.theorem == "4.1" else "layer"
    return _nothing(
        f"has a forward of its own; if it normalises the last axis, pass layers={{{type(module).__name__}: {kind!r}}}"
    )


def is_norm(module: nn.Module) -> bool:
    """Whether this is a normalisation layer of torch, or a subclass of one."""
    return isinstance(module, tuple(_KINDS))


def _nothing(reason: str) -> Norm:
    return Norm(lambda a: a, "", False, None, reason)


def _is_own_forward(module: nn.Module, base: type[nn.Module]) -> bool:
    """Whether the forward that runs is one that torch defines."""
    forward = next(each for each in type(module).__mro__ if "forward" in vars(each))
    return issubclass(forward, base) and forward.__module__.startswith("torch.nn.modules.")


def _own_eps(module: nn.Module) -> float | None:
    """The epsilon of a class that torch does not know, under the names in use."""
    values = [getattr(module, name, None) for name in ("eps", "epsilon", "variance_epsilon")]
    return next((float(v) for v in values if isinstance(v, (int, float)) and math.isfinite(v) and v >= 0), None)


def _layer(module: Any, x: torch.Tensor) -> Norm:
    return Norm(_trailing(len(module.normalized_shape)), "4.2", True, module.eps)


def _rms(module: Any, x: torch.Tensor) -> Norm:
    eps = module.eps
    if eps is None:
        # half precision is computed in float32, and the epsilon is that of the type computed in
        eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
    return Norm(_trailing(len(module.normalized_shape)), "4.1", False, eps)


def _group(module: Any, x: torch.Tensor) -> Norm:
    return Norm(lambda a: a.reshape(a.shape[0] * module.num_groups, -1), "4.2", True, module.eps)


def _instance(module: Any, x: torch.Tensor) -> Norm:
    if module.track_running_stats and not module.training:
        return _nothing("normalises by running statistics, not by those of this batch")
    space = next(k for k, each in enumerate(_SPACES, 1) if isinstance(module, each))
    return Norm(lambda a: a.reshape(math.prod(a.shape[:-space]), -1), "4.2", True, module.eps)


def _batch(module: Any, x: torch.Tensor) -> Norm:
    if not module.training and module.running_mean is not None:
        return _nothing("normalises by running statistics, not by those of this batch")
    return Norm(lambda a: np.moveaxis(a, 1, 0).reshape(a.shape[1], -1), "4.3", True, module.eps)


def _trailing(axes: int) -> Callable[[Array], Array]:
    return lambda a: a.reshape(-1, math.prod(a.shape[a.ndim - axes :]))


_SPACES = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_KINDS: dict[type[nn.Module], Callable[[Any, torch.Tensor], Norm]] = {
    nn.LayerNorm: _layer,
    nn.GroupNorm: _group,
    _InstanceNorm: _instance,
    _BatchNorm: _batch,
}
if hasattr(nn, "RMSNorm"):  # from torch 2.4 on
    _KINDS[nn.RMSNorm] = _rms
