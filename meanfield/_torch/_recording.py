"""From calls of layers to records of float64 numbers: the samples, and the vectors that a layer normalises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from .._gram import as_real
from .._measurement import Geometry, LayerMeasurement, Measurement, Normalization
from .._normalized import amplification, constant_vector, geometry, normalization
from ._capture import Call, run, unready
from ._choose import choose
from ._norms import Norm, norm_of

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """axis: that of the samples; mode, keep: as in `measure`."""

    axis: int
    mode: str
    keep: bool


def record(module: nn.Module, X: ArrayLike | torch.Tensor, layers: Any, settings: Settings) -> Measurement:
    """See `measure`."""
    _check_module(module)
    chosen = choose(module, layers)
    inputs = _inputs(module, X, settings.axis)
    rows: list[LayerMeasurement] = []

    def tell(call: Call) -> None:
        rows.extend(_rows(call, chosen[call.name][1], settings))

    run(module, inputs, {name: layer for name, (layer, _) in chosen.items()}, settings.mode, tell)
    called = {row.layer for row in rows}
    uncalled = tuple(name for name in chosen if name not in called)
    if not rows:
        raise ValueError(
            f"none of the chosen layers was called: {', '.join(map(repr, uncalled))}. The forward of this "
            f"{type(module).__name__} does not use them, or goes past them, as that of a compiled module does: pass "
            "the original"
        )
    rows.sort(key=lambda row: (row.call, row.sequence))
    return Measurement(tuple(rows), type(module).__name__, settings.mode, settings.axis, uncalled)


def _check_module(module: Any) -> None:
    if not isinstance(module, nn.Module):
        what = f"the class {module.__name__}; make one" if isinstance(module, type) else f"a {type(module).__name__}"
        raise ValueError(f"module must be a torch.nn.Module, got {what}")
    reason = unready((*module.parameters(), *module.buffers()))
    if reason:
        raise ValueError(f"module has {reason}")


def _inputs(module: nn.Module, X: ArrayLike | torch.Tensor, axis: int) -> torch.Tensor:
    """X as it is, if a tensor, else as a tensor of the module's dtype on its device."""
    given = X if isinstance(X, torch.Tensor) else _converted(module, as_real(X, "X"))
    if given.is_complex():
        raise ValueError(f"X must hold real numbers, got {given.dtype}")
    if not torch.isfinite(given).all():
        raise ValueError(f"X must be finite in {given.dtype}, got infinite entries or nan")
    if given.ndim == 0 or (axis == 0 and len(given) < 2):
        raise ValueError(f"X must hold at least 2 samples in its rows, got shape {tuple(given.shape)}")
    return given


def _converted(module: nn.Module, array: Floats) -> torch.Tensor:
    own = (t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point())
    like = next(own, torch.empty(0, dtype=torch.float64))
    return torch.tensor(array).to(device=like.device, dtype=like.dtype)


def _rows(call: Call, kind: str, settings: Settings) -> Iterator[LayerMeasurement]:
    x, y = _floats(call.x, call, "input"), _floats(call.y, call, "output")
    before, after = (_samples(a, call, place, settings.axis) for a, place in ((x, "input"), (y, "output")))
    if before.shape[:2] != after.shape[:2]:
        raise ValueError(
            f"{_named(call)} makes {_shape(after)} samples of {_shape(before)}: leave it out of layers, or name "
            f"another axis than samples={settings.axis}"
        )
    norm = norm_of(call.layer, kind, call.x)
    with _naming(call):
        theorem = _Theorem(norm, call, x, y, before)
    for i, (rows, outputs) in enumerate(zip(before, after, strict=True)):
        with _naming(call):
            first, last = geometry(rows, _unit(call.x)), geometry(outputs, theorem.unit)
            found, reason = theorem.about(rows, last)
        yield LayerMeasurement(
            call=call.index,
            layer=call.name,
            type=type(call.layer).__name__,
            sequence=i,
            samples=len(rows),
            features=rows.shape[1],
            output_features=outputs.shape[1],
            dtype=str(call.x.dtype).removeprefix("torch."),
            input=first,
            output=last,
            normalization=found,
            reason=reason,
            input_array=rows if settings.keep else None,
            output_array=outputs.copy() if settings.keep else None,  # the next layer may overwrite it
        )


class _Theorem:
    """What theorem 4.1 says of one call: of each batch of samples, or, under batch normalisation, of the features."""

    def __init__(self, norm: Norm, call: Call, x: Floats, y: Floats, samples: Floats) -> None:
        self.norm, self.reason = norm, norm.reason
        self.features: tuple[Normalization | None, str] | None = None
        # rounding error of what is normalised and of what comes out, relative to it
        self.unit = max(_unit(call.x) * (amplification(norm.vectors(x)) if norm.centred else 1.0), _unit(call.y))
        if norm.reason:
            return
        if norm.theorem == "4.3":
            self.features = self._found(norm.vectors(x), "feature", geometry(norm.vectors(y), self.unit))
        # both are blocks of consecutive entries, so equal shapes are equal blocks
        elif norm.vectors(x).shape != (math.prod(samples.shape[:2]), samples.shape[2]):
            self.reason = "a sample is not one of the vectors that it normalises; samples= may name another axis"

    def about(self, rows: Floats, outputs: Geometry) -> tuple[Normalization | None, str]:
        """The theorem for these samples, or why it says nothing."""
        if self.reason:
            return None, self.reason
        return self.features or self._found(rows, "sample", outputs)

    def _found(self, vectors: Floats, what: str, outputs: Geometry) -> tuple[Normalization | None, str]:
        norm = self.norm
        flat = constant_vector(vectors, centred=norm.centred)
        if flat is not None:
            return None, f"{what} {flat} is {'constant' if norm.centred else '0'}, so it has no direction"
        actual = outputs.isometry_gap
        return normalization(norm.theorem, vectors, actual, norm.eps, self.unit, centred=norm.centred), ""


def _floats(tensor: torch.Tensor, call: Call, place: str) -> Floats:
    array: Floats = tensor.to("cpu").to(torch.float64).numpy()
    bad = ~np.isfinite(array)
    if bad.any():
        where = [int(i) for i in np.argwhere(bad)[0]]
        raise ValueError(
            f"{_named(call)}: {int(bad.sum())} of {array.size} entries of its {place} ({tensor.dtype}) are not finite, "
            f"the first at {where}"
        )
    return array


def _samples(array: Floats, call: Call, place: str, axis: int) -> Floats:
    """(sequences, samples, features)."""
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(f"{_named(call)}: its {place} has shape {array.shape}, and no axis {axis} that holds samples")
    split = _split(array, axis)
    if split.shape[1] < 2 or not split.size:
        raise ValueError(
            f"{_named(call)}: its {place} of shape {array.shape} holds {split.shape[1]} samples on axis {axis}; at "
            "least 2 are needed"
        )
    return split


def _split(array: NDArray[Any], axis: int) -> NDArray[Any]:
    """Axes before that of the samples count batches, axes after it features."""
    axis %= array.ndim
    return array.reshape(math.prod(array.shape[:axis]), array.shape[axis], -1)


def _unit(tensor: torch.Tensor) -> float:
    """Largest relative error of rounding to the dtype."""
    return float(torch.finfo(tensor.dtype if tensor.is_floating_point() else torch.float64).eps) / 2.0


@contextmanager
def _naming(call: Call) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{_named(call)}: {error}") from error


def _named(call: Call) -> str:
    return f"layer {call.name!r} ({type(call.layer).__name__}, call {call.index})"


def _shape(samples: Floats) -> str:
    s, n = samples.shape[:2]
    return f"{n}" if s == 1 else f"{s} times {n}"
