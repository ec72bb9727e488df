"""The registered activations: each is a text in the expression grammar plus named parameters.

Names and parameters are torch's where torch has the function; jax's spellings are aliases. A new activation is one
entry here, and every test that runs over the catalogue picks it up.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ._numbers import as_fraction
from ._parse import parse
from ._tree import Node, substitute
from .errors import UnknownActivationError

Parameters = Mapping[str, Fraction | str]


@dataclass(frozen=True)
class Entry:
    """A registered activation: its formula, the defaults of its parameters, and what those must satisfy."""

    name: str
    formula: str
    defaults: Parameters = field(default_factory=dict)
    requirement: str = ""
    satisfied: Callable[..., bool] = lambda **_: True
    synonyms: Mapping[str, str] = field(default_factory=dict)


def _positive(**values: Fraction) -> bool:
    return all(v > 0 for v in values.values())


def _nonzero(**values: Fraction) -> bool:
    return all(v != 0 for v in values.values())


def _nonnegative(**values: Fraction) -> bool:
    return all(v >= 0 for v in values.values())


def _ordered(min_val: Fraction, max_val: Fraction) -> bool:
    return min_val < max_val


def _degree(degree: Fraction) -> bool:
    return degree.denominator == 1 and 0 <= degree <= 1000


_F = Fraction
_SELU_ALPHA = "1.6732632423543772848170429916717"
_SELU_SCALE = "1.0507009873554804934193349852946"
_GELU_TANH = "x*(1 + tanh((2/pi)**(1/2)*(x + 0.044715*x**3)))/2"

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("identity", "x"),
        Entry("relu", "max(x, 0)"),
        Entry("leaky_relu", "x if x > 0 else negative_slope*x", {"negative_slope": _F(1, 100)}),
        Entry("prelu", "x if x > 0 else weight*x", {"weight": _F(1, 4)}, synonyms={"init": "weight"}),
        Entry("relu6", "min(max(x, 0), 6)"),
        Entry("abs", "abs(x)"),
        Entry("step", "1 if x >= 0 else 0"),
        Entry("sign", "sign(x)"),
        Entry(
            "hardtanh", "min(max(x, min_val), max_val)", {"min_val": _F(-1), "max_val": _F(1)},
            "min_val < max_val", _ordered,
        ),
        Entry("hardsigmoid", "min(max(x/6 + 1/2, 0), 1)"),
        Entry("hardswish", "x*min(max(x/6 + 1/2, 0), 1)"),
        Entry("hardshrink", "x if abs(x) > lambd else 0", {"lambd": _F(1, 2)}, "lambd >= 0", _nonnegative),
        Entry(
            "softshrink", "x - lambd if x > lambd else (x + lambd if x < -lambd else 0)", {"lambd": _F(1, 2)},
            "lambd >= 0", _nonnegative,
        ),
        Entry("threshold", "x if x > threshold else value", {"threshold": _F(1), "value": _F(0)}),
        Entry("tanhshrink", "x - tanh(x)"),
        Entry("softsign", "x/(1 + abs(x))"),
        Entry("elu", "x if x > 0 else alpha*expm1(x)", {"alpha": _F(1)}),
        Entry("celu", "x if x > 0 else alpha*expm1(x/alpha)", {"alpha": _F(1)}, "alpha != 0", _nonzero),
        Entry("selu", f"{_SELU_SCALE}*(x if x > 0 else {_SELU_ALPHA}*expm1(x))"),
        Entry("sigmoid", "sigmoid(x)"),
        Entry("tanh", "tanh(x)"),
        Entry("erf", "erf(x)"),
        Entry("arctan", "arctan(x)"),
        Entry("gelu", "x*Phi(x)"),
        Entry("gelu_tanh", _GELU_TANH),
        Entry("silu", "x*sigmoid(x)"),
        Entry("mish", "x*tanh(log1p(exp(x)))"),
        Entry("softplus", "log1p(exp(beta*x))/beta", {"beta": _F(1)}, "beta > 0", _positive),
        Entry("logsigmoid", "-log1p(exp(-x))"),
        Entry("sin", "sin(x)"),
        Entry("cos", "cos(x)"),
        Entry("exp", "exp(x)"),
        Entry("gaussian", "exp(-x**2)"),
        Entry("square", "x**2"),
        Entry("cube", "x**3"),
        Entry(
            "hermite_polynomial", "He(degree, x)", {"degree": _F(2)}, "an integer degree from 0 to 1000", _degree
        ),
    )
}  # fmt: skip

_ALIASES = {
    "swish": "silu", "hardsilu": "hardswish", "logistic": "sigmoid", "atan": "arctan", "linear": "identity",
    "heaviside": "step", "he": "hermite_polynomial", "geluexact": "gelu",
}  # fmt: skip


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_BY_KEY = {**{_key(name): name for name in ENTRIES}, **_ALIASES}


def lookup(name: str) -> Entry | None:
    """The entry of a name in torch's, jax's or a class's spelling (hard_tanh, LeakyReLU), or None."""
    known = _BY_KEY.get(_key(name))
    return None if known is None else ENTRIES[known]


def unknown(name: str) -> UnknownActivationError:
    """The error for a name nobody registered, with the nearest known ones."""
    near = difflib.get_close_matches(_key(name), _BY_KEY, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(_BY_KEY[k] for k in near)}? " if near else ""
    return UnknownActivationError(
        f"no activation named {name!r}; {hint}known: {', '.join(ENTRIES)}; or write a formula in x"
    )


def build(entry: Entry, given: Mapping[str, object]) -> tuple[str, Node, dict[str, Fraction | str]]:
    """Name, tree and complete parameters of an entry."""
    given = dict(given)
    if entry.name == "gelu" and "approximate" in given:
        form = given.pop("approximate")
        if form not in ("none", "tanh", True, False):
            raise ValueError(f"approximate must be 'none' or 'tanh', got {form!r}")
        entry = ENTRIES["gelu_tanh"] if form in ("tanh", True) else entry
    values: dict[str, Fraction | str] = dict(entry.defaults)
    for name, value in given.items():
        known = entry.synonyms.get(name, name)
        if known not in values:
            takes = ", ".join(values) or "none"
            raise ValueError(f"{entry.name} has no parameter {name!r}; its parameters: {takes}")
        values[known] = as_fraction(value, known)
    if not entry.satisfied(**values):
        shown = ", ".join(f"{k}={v}" for k, v in values.items())
        raise ValueError(f"{entry.name} needs {entry.requirement}, got {shown}")
    constants = {k: v for k, v in values.items() if isinstance(v, Fraction)}
    return entry.name, parse(entry.formula, NAMED, constants), values


def _named(entry: Entry) -> Callable[[Node, Mapping[str, object]], Node]:
    return lambda u, given: substitute(build(entry, given)[1], u)


NAMED = {
    **{name: _named(entry) for name, entry in ENTRIES.items()},
    **{alias: _named(ENTRIES[name]) for alias, name in _ALIASES.items()},
}
