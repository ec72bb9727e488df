"""Expression trees on large arrays: plain float arithmetic in the dtype of x, made to be quick.

`_interpreter` carries exponents beside numbers and keeps every digit of tails. Here a value that exceeds its dtype is
inf, and accuracy is absolute, that of one operation after the other: enough for a network that is run, not analysed.
Constants stay Python floats, which leave the dtype of x alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ._interpreter import call_opaque, constant_value
from ._tree import FUNCTIONS, Node

Function: TypeAlias = Callable[[Any], Any]


@lru_cache(maxsize=256)
def compiled(node: Node) -> Function:
    """x -> the value of the tree at x, for an array of float32 or float64; of a constant tree a float."""
    if node.constant:
        value = constant_value(node)
        return lambda x: value
    op, args = node.op, [compiled(a) for a in node.args]
    if op == "x":
        return lambda x: x
    if op == "opaque":
        function = node.opaque
        return lambda x: call_opaque(function, np.asarray(args[0](x), dtype=np.float64))
    if op == "pow":
        return _power(args[0], float(node.number))
    if op == "He":
        return _hermite(args[0], int(node.number))
    if op == "if":
        (a, b, yes, no), holds = args, _COMPARISONS[str(node.value)]
        return lambda x: np.asarray(np.where(holds(a(x), b(x)), yes(x), no(x)), dtype=x.dtype)
    if op == "log1p" and node.args[0].op == "exp":
        inner = compiled(node.args[0].args[0])
        return lambda x: np.logaddexp(inner(x), _zero(x))
    if len(args) == 1:
        single, function_ = args[0], _single(op)
        return lambda x: function_(single(x))
    left, right, pair = args[0], args[1], _PAIRS[op]
    return lambda x: pair(left(x), right(x))


def overwriting(node: Node) -> Callable[[Any], Any]:
    """The same as a function that puts the values where x was; a single operation on x needs no copy."""
    if len(node.args) == 1 and node.args[0].op == "x" and (node.op in FUNCTIONS or node.op in ("abs", "sign")):
        single = _single(node.op)
        return lambda x: single(x, out=x)
    if node.op in ("max", "min") and node.args[0].op == "x" and node.args[1].constant:
        pair, bound = _PAIRS[node.op], constant_value(node.args[1])
        return lambda x: pair(x, bound, out=x)
    function = compiled(node)

    def put(x: Any) -> None:
        x[...] = function(x)

    return put


_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_PAIRS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
    "max": np.maximum,
    "min": np.minimum,
}


def _single(op: str) -> Callable[..., Any]:
    if op in ("erf", "sigmoid"):
        from scipy import special

        return {"erf": special.erf, "sigmoid": special.expit}[op]  # type: ignore[no-any-return]
    return {"arctan": np.arctan, "abs": np.abs, "sign": np.sign}.get(op) or getattr(np, op)


def _zero(x: Any) -> Any:
    return x.dtype.type(0)


def _power(base: Function, p: float) -> Function:
    if p == 2:
        return lambda x: np.square(base(x))
    if p == 3:

        def cube(x: Any) -> Any:
            u = base(x)
            return u * u * u

        return cube
    return lambda x: np.power(base(x), p)


def _hermite(inner: Function, degree: int) -> Function:
    """The normalised h_k by its recurrence, sqrt(k + 1) h_{k+1} = u h_k - sqrt(k) h_{k-1}, which stays in range."""

    def evaluate(x: Any) -> Any:
        u = inner(x)
        before, here = u * 0.0, u * 0.0 + 1.0
        for k in range(degree):
            before, here = here, (u * here - float(k) ** 0.5 * before) / float(k + 1) ** 0.5
        return here

    return evaluate
