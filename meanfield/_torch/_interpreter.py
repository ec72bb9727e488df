"""The interpreter of expression trees over torch's tensors, in their own dtype and on their own device.

The forms that cancel or overflow as they are written are those of `hermite._forms`, with torch's functions for them.
Constants stay Python numbers, so that nothing is allocated or moved for them. A value beyond the dtype is inf, also on
the way (float64's interpreter carries exponents there): what depends on it is inf or nan, never a wrong number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.nn.functional import logsigmoid, softplus

from hermite import _interpreter as doubles
from hermite import _tree as t
from hermite._forms import log_tail_parts, tail_parts, tanh_shrink_part
from hermite._tree import Node, Opaque


def evaluate(node: Node, x: torch.Tensor) -> torch.Tensor:
    """The value of the tree at x: a new tensor of the shape, dtype and device of x.

    Errors are those of float64's interpreter in units of x's dtype, but for the normal cdf Phi(v), which loses v^2
    units in its left tail. In 16 bits there is what torch has functions for. Raises ValueError for a dtype without
    fractions, and for a Python callable off the CPU.
    """
    if not x.is_floating_point():
        raise ValueError(f"x must hold real numbers in floating point, got dtype {x.dtype}")
    value = _value(node, x)
    if not isinstance(value, torch.Tensor):
        return torch.full_like(x, value)
    return value.clone() if value is x else value


def _value(node: Node, x: torch.Tensor) -> Any:
    """A tensor, or a float for a tree without x."""
    op, args = node.op, node.args
    if node.constant:
        return _within(_constant(node), x.dtype)
    if op == "x":
        return x
    stable = _stable(node, x)
    if stable is not None:
        return stable
    values = [_value(each, x) for each in args]
    if op == "if":
        return _where(_COMPARISONS[str(node.value)](values[0], values[1]), values[2], values[3], x)
    if op == "pow":
        return _power(values[0], float(node.number))
    if op == "He":
        return _hermite(values[0], int(node.number))
    if op == "opaque":
        return _call(node.opaque, values[0])
    return _OPERATIONS[op](*values)


@lru_cache(maxsize=1024)
def _constant(node: Node) -> float:
    return doubles.constant_value(node)


def _within(value: float, dtype: torch.dtype) -> float:
    """The number as the dtype has it: torch refuses some constants that are beyond it."""
    return value if abs(value) <= torch.finfo(dtype).max or math.isnan(value) else math.copysign(math.inf, value)


# ---- operations -------------------------------------------------------------------------------------------


def _maximum(a: Any, b: Any) -> torch.Tensor:
    if isinstance(a, float):
        a, b = b, a
    return torch.clamp(a, min=b) if isinstance(b, float) else torch.maximum(a, b)


def _minimum(a: Any, b: Any) -> torch.Tensor:
    if isinstance(a, float):
        a, b = b, a
    return torch.clamp(a, max=b) if isinstance(b, float) else torch.minimum(a, b)


def _sign(u: torch.Tensor) -> torch.Tensor:
    """torch says 0 for nan, which would hide it."""
    return torch.where(torch.isnan(u), u, torch.sign(u))


def _power(u: torch.Tensor, p: float) -> torch.Tensor:
    return u * u if p == 2 else u * u * u if p == 3 else torch.pow(u, p)


def _where(chosen: Any, yes: Any, no: Any, x: torch.Tensor) -> torch.Tensor:
    if isinstance(chosen, bool):  # a comparison of constants that are no rational numbers, such as pi > 3
        yes = yes if chosen else no
        return torch.full_like(x, yes) if isinstance(yes, float) else yes
    if isinstance(yes, float) and isinstance(no, float):
        yes = torch.full((), yes, dtype=x.dtype, device=x.device)  # two numbers alone would have torch's default dtype
    return torch.where(chosen, yes, no)


def _call(leaf: Opaque, u: torch.Tensor) -> torch.Tensor:
    """A Python callable, through numpy's float64."""
    if u.device.type != "cpu":
        name = getattr(leaf.function, "__name__", type(leaf.function).__name__)
        raise ValueError(f"{name} is a Python callable, which runs on the CPU; write it as a text, or use device='cpu'")
    values = doubles.call_opaque(leaf, u.detach().to(torch.float64).numpy())
    return torch.from_numpy(np.ascontiguousarray(values)).to(u.dtype)


def _hermite(u: torch.Tensor, degree: int) -> torch.Tensor:
    """He_degree(u), normalised: sqrt(k+1) He_{k+1} = u He_k - sqrt(k) He_{k-1}.

    |He_k(u)| <= 1.09 exp(u^2/4) for every k (Cramer), so that nothing on the way overflows unless that does; the few
    entries further out take float64's recurrence, which is kept in range.
    """
    before, now = torch.ones_like(u), u
    for k in range(1, degree):
        scale = math.sqrt(k + 1)
        before, now = now, torch.addcmul(before * (-math.sqrt(k) / scale), u, now, value=1 / scale)
    far = torch.abs(u) > 2 * math.sqrt(math.log(torch.finfo(u.dtype).max) - 8)
    if bool(far.any()):
        places = u[far].detach().to(device="cpu", dtype=torch.float64).numpy()
        now[far] = torch.from_numpy(doubles.evaluate(t.hermite_polynomial(degree, t.X), places)).to(u)
    return now


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_OPERATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "add": operator.add, "mul": operator.mul, "div": operator.truediv, "abs": torch.abs, "sign": _sign,
    "max": _maximum, "min": _minimum, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log,
    "log1p": torch.log1p, "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "arctan": torch.atan, "erf": torch.erf, "sigmoid": torch.sigmoid,
}  # fmt: skip


# ---- what cancels or overflows as it is written -----------------------------------------------------------


def _stable(node: Node, x: torch.Tensor) -> torch.Tensor | None:
    if node.op == "add":
        return _tail(node, x) if node.args[0].op == "num" else _tanh_shrink(node, x)
    if node.op not in ("log", "log1p"):
        return None
    tail = _log_tail(node, x)
    if tail is None and node.op == "log1p" and node.args[0].op == "exp":
        # torch puts u for log1p(exp(u)) above the threshold, where they are the same number of any dtype
        return softplus(_value(node.args[0].args[0], x), threshold=40.0)
    return tail


def _tail(node: Node, x: torch.Tensor) -> torch.Tensor | None:
    """c (1 + erf(u)) as c erfc(-u), c (1 + tanh(u)) as 2c sigmoid(2u): relative accuracy where they are small."""
    parts = tail_parts(node)
    if parts is None:
        return None
    c, function, inner, same = parts
    u = _value(inner, x) * (1.0 if same else -1.0)
    if function == "sigmoid":
        return c * torch.sigmoid(u)
    return c * torch.erfc(-u) if function == "erf" else 2 * c * torch.sigmoid(2 * u)


def _log_tail(node: Node, x: torch.Tensor) -> torch.Tensor | None:
    """The logarithm of such a sum, also where it underflows."""
    parts = log_tail_parts(node)
    if parts is None:
        return None
    c, function, inner, same = parts
    u = _value(inner, x) * (1.0 if same else -1.0)
    if function == "sigmoid":
        return math.log(c) + logsigmoid(u)
    tail = math.log(2 * c) + (torch.special.log_ndtr(math.sqrt(2) * u) if function == "erf" else logsigmoid(2 * u))
    if node.op == "log":
        return tail
    return torch.where(u < -0.5, tail, torch.log1p(_OPERATIONS[function](u)))  # which has its zero at u = 0


def _tanh_shrink(node: Node, x: torch.Tensor) -> torch.Tensor | None:
    """u - tanh(u) = u w/(1 + w) with tanh's continued fraction w = u^2/(3 + u^2/(5 + ...)): no cancellation."""
    part = tanh_shrink_part(node)
    if part is None:
        return None
    u = _value(part, x)
    square = u * u
    w = torch.zeros_like(u)
    for odd in range(23, 2, -2):
        w = square / (odd + w)
    return torch.where(torch.abs(u) < 1, u * w / (1 + w), u - torch.tanh(u))
