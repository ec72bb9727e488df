"""Which layers of a module are measured: by default those that normalise, else by name, class or predicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from torch import nn

from ._norms import is_norm

# the kind of a layer that is chosen ("" for what its class tells), None for one that is not
Choice: TypeAlias = Callable[[str, nn.Module], str | None]
_DEFAULT = "normalization"
_KINDS = ("layer", "rms")
_NAMES_SHOWN = 30


def choose(module: nn.Module, layers: Any) -> dict[str, tuple[nn.Module, str]]:
    """Name, in the order of the module, -> layer and kind; a layer with several names has the first of them."""
    named = list(module.named_modules(remove_duplicate=False))
    first: dict[nn.Module, str] = {}
    for name, layer in named:
        first.setdefault(layer, name)
    kinds: dict[str, str] = {}
    for choice, wanted in _choices(_DEFAULT if layers is None else layers):
        found = [(first[layer], kind) for name, layer in named if (kind := choice(name, layer)) is not None]
        if not found:
            raise ValueError(_nothing_found(module, wanted))
        for name, kind in found:
            kinds[name] = kind or kinds.get(name, "")
    return {name: (layer, kinds[name]) for layer, name in first.items() if name in kinds}


def _choices(layers: Any) -> list[tuple[Choice, object]]:
    if isinstance(layers, Mapping):
        return [(_of_kind(_choice(key), _kind(value)), key) for key, value in layers.items()]
    if isinstance(layers, (list, tuple, set, frozenset)):
        return [pair for each in layers for pair in _choices(each)]
    return [(_choice(layers), layers)]


def _choice(wanted: Any) -> Choice:
    if isinstance(wanted, str):
        if wanted == _DEFAULT:
            return lambda name, layer: "" if is_norm(layer) else None
        return lambda name, layer: "" if fnmatchcase(name, wanted) else None
    if isinstance(wanted, type):
        if not issubclass(wanted, nn.Module):
            raise ValueError(f"layers: {wanted.__name__} is no subclass of torch.nn.Module")
        return lambda name, layer: "" if isinstance(layer, wanted) else None
    if callable(wanted) and not isinstance(wanted, nn.Module):
        return lambda name, layer: "" if wanted(name, layer) else None
    raise ValueError(
        "layers must be 'normalization', a name or pattern of names, a class, a function of (name, layer), a mapping "
        f"of these to 'layer' or 'rms', or a list of them, got {type(wanted).__name__}"
    )


def _of_kind(choice: Choice, kind: str) -> Choice:
    return lambda name, layer: None if choice(name, layer) is None else kind


def _kind(value: Any) -> str:
    if value not in _KINDS:
        raise ValueError(f"layers: a layer normalises its last axis as 'layer' or 'rms', got {value!r}")
    return str(value)


def _nothing_found(module: nn.Module, wanted: object) -> str:
    if isinstance(wanted, str) and wanted != _DEFAULT:
        names = [name for name, _ in module.named_modules() if name]
        more = f", ... ({len(names)} in all)" if len(names) > _NAMES_SHOWN else ""
        return f"layers={wanted!r} is the name of no layer; there are {', '.join(names[:_NAMES_SHOWN]) or 'none'}{more}"
    counts = Counter(type(layer).__name__ for layer in module.modules())
    held = ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())
    what = "a normalisation layer of torch" if wanted == _DEFAULT else f"chosen by layers={_shown(wanted)}"
    return (
        f"no layer of this {type(module).__name__} is {what}; it holds {held}. Choose with layers=, by name, class or "
        "predicate; layers={MyNorm: 'layer'} says that MyNorm normalises its last axis. Functions called in a forward, "
        "and layers of a scripted module, cannot be seen"
    )


def _shown(wanted: object) -> str:
    return wanted.__name__ if isinstance(wanted, type) else repr(wanted)
