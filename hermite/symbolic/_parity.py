"""Even and odd parts of an expression tree, proved by rules: f = even + odd with both as SymPy expressions in X.

sigmoid(u) = 1/2 + tanh(u/2)/2, log(1 + exp(u)) = u/2 + log(2 cosh(u/2)) and max(u, v) = (u + v)/2 + |u - v|/2 make
the odd parts of silu, softplus and relu visible as x/2.
"""

from __future__ import annotations

import sympy as sp

from .._tree import Node
from ._split import rational
from ._terms import ZERO, Expr, X

Parts = tuple[Expr, Expr]
_HALF = sp.Rational(1, 2)
_ODD = {"sin": sp.sin, "tanh": sp.tanh, "arctan": sp.atan, "erf": sp.erf, "sign": sp.sign}


def parts(node: Node) -> Parts | None:
    """(even, odd), or None where no rule applies."""
    leaves: dict[str, Parts] = {"pi": (sp.pi, ZERO), "x": (ZERO, X)}
    if node.op == "num":
        return rational(node.number), ZERO
    if node.op in leaves:
        return leaves[node.op]
    if node.op == "log1p" and node.args[0].op == "exp":
        u = parts(node.args[0].args[0])
        return None if u is None or u[0] != 0 else (sp.log(2 * sp.cosh(u[1] / 2)), u[1] / 2)
    inner = [p for a in node.args if (p := parts(a)) is not None]
    if len(inner) < len(node.args) or not inner:
        return None
    return (
        _binary(node, inner[0], inner[1]) if len(inner) == 2 else _unary(node, *inner[0]) if len(inner) == 1 else None
    )


def _binary(node: Node, first: Parts, second: Parts) -> Parts | None:
    op, (a, b), (c, d) = node.op, first, second
    if op == "add":
        return a + c, b + d
    if op == "mul":
        return a * c + b * d, a * d + b * c
    if op == "div" and 0 in second:
        return (a / c, b / c) if d == 0 else (b / d, a / d)
    if op in ("max", "min"):
        even, odd = sp.expand(a - c), sp.expand(b - d)
        if 0 in (even, odd):
            return (a + c) / 2 + (1 if op == "max" else -1) * sp.Abs(even + odd) / 2, (b + d) / 2
    return None


def _unary(node: Node, even: Expr, odd: Expr) -> Parts | None:
    op = node.op
    if op == "pow" and node.number.denominator == 1 and node.number > 0:
        power = sp.expand((even + odd * (unit := sp.Dummy())) ** int(node.number))
        flipped = power.subs(unit, -1)
        return (power.subs(unit, 1) + flipped) / 2, (power.subs(unit, 1) - flipped) / 2
    if odd == 0:
        return sp.Function(op)(even), ZERO  # whatever it is, it is even
    if even != 0:
        return None
    if op in _ODD:
        return ZERO, _ODD[op](odd)
    if op in ("exp", "expm1"):
        return sp.cosh(odd) - int(op == "expm1"), sp.sinh(odd)
    if op == "sigmoid":
        return _HALF, sp.tanh(odd / 2) / 2
    if op in ("cos", "abs"):
        return (sp.cos if op == "cos" else sp.Abs)(odd), ZERO
    return None
