"""torch's modules are known by their names alone: classes that only bear those names are read as well.

These tests need no torch, and see that reading loads none.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hermite
from hermite import activation

HOME = "torch.nn.modules.activation"


class Module:
    """As torch.nn.Module presents itself."""


Module.__module__ = "torch.nn.modules.module"


def fake(name: str, home: str = HOME, base: type = Module, **attributes: Any) -> Any:
    """An instance of a class of that name which says that it comes from torch."""
    value = type(name, (base,), {"__module__": home, "__repr__": lambda self: f"{name}()"})()
    for attribute, each in attributes.items():
        setattr(value, attribute, each)
    return value


class Tensor:
    """One number, or several, as a parameter of a module holds them."""

    __module__ = "torch.nn.parameter"

    def __init__(self, *entries: float) -> None:
        self.entries = entries

    def numel(self) -> int:
        return len(self.entries)

    def item(self) -> float:
        (entry,) = self.entries
        return entry


def function(name: str, home: str = "torch.nn.functional") -> Any:
    def value(x: Any, **_: Any) -> Any:
        raise AssertionError("it is read, not called")

    value.__name__, value.__module__ = name, home
    return value


def label(value: Any) -> str:
    """The same in every process."""
    return getattr(getattr(value, "func", value), "__name__", str(value))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (fake("ReLU"), activation("relu")),
        (fake("LeakyReLU", negative_slope=0.2), activation("leaky_relu", negative_slope=0.2)),
        (fake("PReLU", weight=Tensor(0.75)), activation("prelu", weight=0.75)),
        (fake("GELU", approximate="tanh"), activation("gelu", approximate="tanh")),
        (fake("Hardtanh", min_val=-2, max_val=3), activation("hardtanh", min_val=-2, max_val=3)),
        (fake("Softplus", beta=2, threshold=20), activation("softplus", beta=2)),
        (fake("Identity", "torch.nn.modules.linear"), activation("identity")),
        (function("relu"), activation("relu")),
        (function("special_erf", "torch._C._special"), activation("erf")),
        (function("log_sigmoid", "torch._C._nn"), activation("logsigmoid")),
        (functools.partial(function("elu"), alpha=0.5), activation("elu", alpha=0.5)),
    ],
    ids=label,
)
def test_names_and_attributes_are_enough(spec: Any, named: hermite.Activation) -> None:
    assert activation(spec) == named


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (fake("Softmax"), "normalises over a dimension"),
        (fake("NewActivation"), "NewActivation is no activation that is known here; write it as a text"),
        (fake("ReLU", "torch.ao.nn.quantized"), "quantized.ReLU is no activation"),
        (fake("ReLU", "torchvision.ops"), "torchvision.ops.ReLU is a module of your own"),
        (fake("ReLU", "torches.nn.modules.activation"), "is a module of your own"),
        (fake("PReLU", weight=Tensor(1.0, 2.0)), "weight has 2 entries"),
        (fake("ReLU", _forward_hooks={1: abs}), "forward hooks may change"),
        (function("relu", "torch.my_functional"), "torch.my_functional.relu is no activation"),
    ],
    ids=label,
)
def test_names_are_enough_to_refuse(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        activation(spec)


@pytest.mark.parametrize("home", ["torches", "torchvision.ops", "mine"])
def test_a_callable_from_elsewhere_is_called(home: str) -> None:
    def value(x: Any) -> Any:
        return x + 1

    value.__module__, value.__name__ = home, "relu"
    assert activation(value)(2.0) == 3.0
    assert activation(fake("ReLU", home, base=Callable))(2.0) == 5.0


class Callable:
    def __call__(self, x: Any) -> Any:
        return 2 * x + 1


def test_reading_loads_no_torch() -> None:
    code = """
import sys, hermite
ReLU = type("ReLU", (), {"__module__": "torch.nn.modules.activation"})
RReLU = type("RReLU", (), {"__module__": "torch.nn.modules.activation"})
assert hermite.activation(ReLU()) == hermite.activation("relu")
try:
    hermite.activation(RReLU())
except ValueError as error:
    assert "random" in str(error), error
else:
    raise AssertionError
print([name for name in sys.modules if name.split(".")[0] == "torch"])
"""
    rooms = str(Path(hermite.__file__ or "").parent.parent)
    run = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys\nsys.path.insert(0, {rooms!r})\n{code}"],
        capture_output=True,
        text=True,
    )
    assert run.stdout == "[]\n", run.stderr
