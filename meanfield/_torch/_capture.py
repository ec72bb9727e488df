"""One run of a module of torch with hooks at some of its layers, after which the module is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ._norms import BY_BATCH

Told = Callable[["Call"], None]


@dataclass(frozen=True)
class Call:
    """One call of one layer: x, a copy of what went in, made before the layer could change it; y, what came out."""

    index: int
    name: str
    layer: nn.Module
    x: torch.Tensor
    y: torch.Tensor


def run(module: nn.Module, X: torch.Tensor, layers: dict[str, nn.Module], mode: str, tell: Told) -> None:
    """Call the module on X once, and tell of every call of the layers, in the order in which they end.

    Whatever happens, hooks are gone afterwards, and training flags, buffers and torch's random state as before.
    """
    devices = {t.device for t in (X, *module.parameters(), *module.buffers()) if t.device.type == "cuda"}
    with torch.no_grad(), torch.random.fork_rng([*devices]), _modes(module, mode), _buffers(module), _slow_path():
        hooks = _hooks(layers, tell)
        try:
            module(X)
        finally:
            for hook in hooks:
                hook.remove()


def _hooks(layers: dict[str, nn.Module], tell: Told) -> list[Any]:
    """Two for each layer: a layer may contain another, or itself, and may overwrite its input."""
    started: list[tuple[int, nn.Module, torch.Tensor]] = []
    count = 0

    def before(layer: nn.Module, args: Any, kwargs: Any) -> None:
        nonlocal count
        started.append((count, layer, _tensor([args, kwargs], names[layer], "input").clone()))
        count += 1

    def after(layer: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        index, begun, x = started.pop()
        while begun is not layer:  # calls that an exception has ended, and somebody has caught it
            index, begun, x = started.pop()
        tell(Call(index, names[layer], layer, x, _tensor(output, names[layer], "output")))

    names = {layer: name for name, layer in layers.items()}
    hooks: list[Any] = []
    for layer in names:
        hooks.append(layer.register_forward_pre_hook(before, with_kwargs=True))
        hooks.append(layer.register_forward_hook(after, with_kwargs=True))
    return hooks


def _tensor(values: Any, name: str, place: str) -> torch.Tensor:
    """The first tensor among arguments, or in what a layer returns: attention returns its weights, too."""
    found = next(_tensors(values), None)
    if found is None:
        raise ValueError(f"layer {name!r} has no tensor as its {place}: leave it out of layers")
    if found.is_nested or found.layout != torch.strided or found.is_quantized or found.is_complex() or found.is_meta:
        raise ValueError(f"layer {name!r}: its {place} is {_described(found)}; only dense real tensors can be measured")
    return found.detach()


def _described(tensor: torch.Tensor) -> str:
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout != torch.strided:
        return f"of layout {tensor.layout}"
    return "on the device 'meta'" if tensor.is_meta else f"of dtype {tensor.dtype}"


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value)


@contextmanager
def _modes(module: nn.Module, mode: str) -> Iterator[None]:
    """Training flags as the mode wants them. They are set one by one: `train` and `eval` may be overridden."""
    found = [(each, each.training) for each in module.modules()]
    try:
        for each, _ in found:
            each.training = mode == "train" or (mode == "batch" and isinstance(each, BY_BATCH))
        yield
    finally:
        for each, training in found:
            each.training = training


@contextmanager
def _buffers(module: nn.Module) -> Iterator[None]:
    """Running statistics and other buffers are the same tensors with the same content afterwards."""
    found = [(each, name, buffer) for each in module.modules() for name, buffer in each._buffers.items()]
    copies = [None if buffer is None else buffer.clone() for _, _, buffer in found]
    try:
        yield
    finally:
        for (each, name, buffer), copy in zip(found, copies, strict=True):
            # what shares memory with itself cannot be written, neither by the module
            if buffer is not None and copy is not None and not torch.equal(buffer, copy):
                buffer.copy_(copy)
            each._buffers[name] = buffer


@contextmanager
def _slow_path() -> Iterator[None]:
    """Transformer layers may compute all at once in evaluation, without a call of their parts; not here."""
    mha: Any = getattr(torch.backends, "mha", None)
    if mha is None:
        yield
        return
    enabled = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(enabled)


def unready(tensors: Iterable[torch.Tensor]) -> str:
    """Why parameters cannot be computed with, or ""."""
    for tensor in tensors:
        if nn.parameter.is_lazy(tensor):
            return "a lazy layer that has no weights yet; call it once on an input first"
        if tensor.is_meta:
            return "weights on the device 'meta', which hold no numbers"
    return ""
