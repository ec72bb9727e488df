"""torch's activations to entries of the catalogue and texts: known by the names of their modules and classes.

Nothing of torch is imported: an object of torch exists only where torch has been loaded already, and says by its
`__module__` that it is one. A module counts at the values that it has now. What is no function of one number (softmax),
random (dropout), or unknown here is refused, with the reason and what to write in its place.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias

from ._numbers import as_fraction

Stage: TypeAlias = tuple[str, dict[str, Any]]
"""A name or a text with its parameters, as `activation` takes them."""

# Classes of torch.nn.modules: the entry of the catalogue and the attributes that are its parameters.
_ACTIVATIONS = {
    "Threshold": ("threshold", "threshold value"), "ReLU": ("relu", ""), "Hardtanh": ("hardtanh", "min_val max_val"),
    "ReLU6": ("relu6", ""), "Sigmoid": ("sigmoid", ""), "Hardsigmoid": ("hardsigmoid", ""), "Tanh": ("tanh", ""),
    "SiLU": ("silu", ""), "Mish": ("mish", ""), "Hardswish": ("hardswish", ""), "ELU": ("elu", "alpha"),
    "CELU": ("celu", "alpha"), "SELU": ("selu", ""), "GELU": ("gelu", "approximate"),
    "Hardshrink": ("hardshrink", "lambd"), "LeakyReLU": ("leaky_relu", "negative_slope"),
    "LogSigmoid": ("logsigmoid", ""), "Softplus": ("softplus", "beta threshold"), "Softshrink": ("softshrink", "lambd"),
    "PReLU": ("prelu", "weight"), "Softsign": ("softsign", ""), "Tanhshrink": ("tanhshrink", ""),
}  # fmt: skip
_MODULES = {
    **{("activation", name): entry for name, entry in _ACTIVATIONS.items()},
    ("linear", "Identity"): ("identity", ""),
    ("container", "Sequential"): ("sequential", ""),
}

# Functions, by torch's name without `special_` and underscores: the same, or a text.
_FUNCTIONS = {
    **{entry: entry for entry, _ in _ACTIVATIONS.values()},
    **{name: name for name in ("abs", "sign", "erf", "arctan", "sin", "cos", "exp", "square")},
    **{name: f"{name}(x)" for name in ("expm1", "sinh", "cosh", "asinh", "arcsinh")},
    "log_sigmoid": "logsigmoid", "expit": "sigmoid", "absolute": "abs", "sgn": "sign", "atan": "arctan",
    "erfc": "1 - erf(x)", "ndtr": "Phi(x)", "log_ndtr": "log(Phi(x))",
    "neg": "-x", "negative": "-x", "positive": "identity",
}  # fmt: skip
_HOMES = frozenset({"torch", "torch._C", "torch._C._nn", "torch._C._special", "torch.nn.functional"})
_WITHOUT_DEFAULT = {"threshold": ("threshold", "value"), "prelu": ("weight",)}

_NORMALISES = "it normalises over a dimension, so that it is no function of one number"
_RANDOM_SLOPE = (
    "its slope is random while training; what it is in evaluation is leaky_relu with negative_slope = (lower + upper)/2"
)
_DROPS = "it is random while training, and the identity in evaluation; leave it out"
_GATES = "it multiplies one half of its input by a function of the other; pass the function alone, such as 'sigmoid'"
_REFUSED = {
    "rrelu": _RANDOM_SLOPE, "glu": _GATES,
    **dict.fromkeys(("softmax", "logsoftmax", "softmin", "softmax2d", "gumbelsoftmax", "logsumexp"), _NORMALISES),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _DROPS),
    **dict.fromkeys(("alphadropout", "featurealphadropout", "featuredropout"), _DROPS),
    "multiheadattention": "it mixes the rows of a matrix, so that it is no function of one number",
    "multiheadattentionforward": "it mixes the rows of a matrix, so that it is no function of one number",
}  # fmt: skip

_WRITE = (
    "write it as a text, such as 'x*sigmoid(x)', or as a callable on float64 arrays, "
    "lambda x: f(torch.from_numpy(x)).detach().numpy()"
)
_SMOOTH_FROM = 20  # torch's default threshold of softplus


def is_torch(spec: object) -> bool:
    """Whether this is a module or a function of torch, its class or a partial of one, or a user's own module."""
    if isinstance(spec, functools.partial):
        return is_torch(spec.func)
    return _is_torchs(_home(spec)) or _is_torchs(_home(type(spec))) or _is_module(spec)


def from_torch(spec: Any) -> tuple[Stage, ...]:
    """The names or texts, with parameters, whose composition a module or function of torch is; the innermost first.

    A Sequential is the composition of its parts, an empty one and Identity are x. The weight of a PReLU is the exact
    value that it has now; other parameters mean their decimals. Raises ValueError, with the reason, for the rest.
    """
    if isinstance(spec, type):
        _refuse(f"{spec.__module__}.{spec.__name__}", f"it is a class; pass an instance, such as {spec.__name__}()")
    if isinstance(spec, functools.partial):
        return (_function(spec.func, spec.args, spec.keywords),)
    return _module(spec) if _is_module(spec) else (_function(spec, (), {}),)


def _home(value: Any) -> str:
    """Where it is defined; the methods of a tensor know only their class."""
    home = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
    return home if isinstance(home, str) else ""


def _is_torchs(home: str) -> bool:
    return home == "torch" or home.startswith("torch.")


def _is_module(spec: object) -> bool:
    bases = type(spec).__mro__
    return any(base.__name__ == "Module" and base.__module__ == "torch.nn.modules.module" for base in bases) or (
        _home(type(spec)).startswith("torch.nn.modules.")
    )


def _refuse(shown: str, reason: str) -> NoReturn:
    raise ValueError(f"{shown} cannot be an activation: {reason}")


# ---- modules ----------------------------------------------------------------------------------------------


def _module(spec: Any) -> tuple[Stage, ...]:
    shown = " ".join(repr(spec).split())[:200]
    home, name = type(spec).__module__, type(spec).__name__
    if not _is_torchs(home):
        _refuse(shown, f"{home}.{name} is a module of your own, whose formula is not known; {_WRITE}")
    if name.lower() in _REFUSED:
        _refuse(shown, _REFUSED[name.lower()])
    entry, attributes = _MODULES.get((home.removeprefix("torch.nn.modules."), name), (None, ""))
    if entry is None:
        _refuse(shown, f"{home}.{name} is no activation that is known here; {_WRITE}")
    changed = [each for each in ("_forward_hooks", "_forward_pre_hooks", "forward") if vars(spec).get(each)]
    if changed:
        _refuse(shown, f"its own {changed[0].strip('_').replace('_', ' ')} may change its values; {_WRITE}")
    if entry == "sequential":
        return tuple(stage for part in spec for stage in from_torch(part)) or (("identity", {}),)
    return (_stage(entry, {each: getattr(spec, each) for each in attributes.split()}, shown),)


# ---- functions --------------------------------------------------------------------------------------------


def _function(function: Any, arguments: tuple[Any, ...], given: dict[str, Any]) -> Stage:
    if not _is_torchs(_home(function)) or _is_module(function) or isinstance(function, type):
        _refuse(repr(function), f"it is no function of torch; {_WRITE}")
    torchs = str(getattr(function, "__name__", type(function).__name__))
    name = torchs.removeprefix("special_").strip("_")
    shown = f"torch's {name}"
    if (known := name.replace("_", "").lower()) in _REFUSED:
        _refuse(shown, _REFUSED[known])
    if arguments or "input" in given or _is_module(getattr(function, "__self__", None)):
        _refuse(shown, "its first argument is x; give the others by name, and pass a module itself, not a method of it")
    if name not in _FUNCTIONS or _home(function) not in _HOMES:
        _refuse(shown, f"{_home(function)}.{torchs} is no activation that is known here; {_WRITE}")
    missing = [each for each in _WITHOUT_DEFAULT.get(name, ()) if each not in given]
    if missing:
        _refuse(shown, f"it needs {' and '.join(missing)}; pass functools.partial({name}, {missing[0]}=...)")
    return _stage(_FUNCTIONS[name], {k: v for k, v in given.items() if k != "inplace"}, shown)


# ---- parameters -------------------------------------------------------------------------------------------


def _stage(entry: str, given: dict[str, Any], shown: str) -> Stage:
    values = {name: value if isinstance(value, str) else _number(value, name, shown) for name, value in given.items()}
    return _softplus(values) if entry == "softplus" else (entry, values)


def _number(value: Any, name: str, shown: str) -> Fraction:
    """An exact number; the one entry of a tensor is what it is in binary."""
    if not _is_torchs(_home(type(value))):
        return as_fraction(value, name)
    if value.numel() != 1:
        _refuse(shown, f"its {name} has {value.numel()} entries, one for each channel; pass each as an activation")
    number = value.item()
    as_fraction(number, name)  # refuses what is not finite
    return Fraction(number)


def _softplus(values: dict[str, Any]) -> Stage:
    """Softplus, which torch replaces by x where beta x > threshold.

    From the threshold 20 on, torch's default, that is a device against overflow: it leaves out
    log1p(exp(-beta x))/beta, below 2.1e-9/beta, and the smooth function is meant. Below 20 the jump is part of it.
    """
    threshold = values.pop("threshold", Fraction(_SMOOTH_FROM))
    if threshold >= _SMOOTH_FROM:
        return "softplus", values
    beta = values.get("beta", Fraction(1))
    if beta <= 0:
        return "softplus", values  # which says what beta has to be
    return f"x if x > {threshold / beta} else softplus(x, beta={beta})", {}
