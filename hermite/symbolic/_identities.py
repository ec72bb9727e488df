"""Identities that halve the work where there is no closed form; each is proved by the rule that finds it.

Parity: the c_k of the even part are those of even k. An odd part m x leaves c_1 = m and no other odd c_k.
Derivative (Stein): c_1 = E sigma'(X); with tanh' = 1 - tanh^2 and sigmoid' = sigmoid - sigmoid^2 this is E sigma^2.
"""

from __future__ import annotations

from typing import NamedTuple

import sympy as sp

from .._activation import Activation
from .._algebra import as_polynomial
from .._tree import Node
from ._parity import parts
from ._split import rational, tree_to_sympy
from ._terms import Expr, X

C = sp.IndexedBase("c")
S = sp.Symbol("S")  # E sigma(X)^2
_M = sp.Symbol("m", integer=True, nonnegative=True)


class Identity(NamedTuple):
    """An equation between the Hermite coefficients c[k] and the second moment S = E sigma^2, and why it holds."""

    equation: Expr
    reason: str

    def __str__(self) -> str:
        return f"{self.equation.lhs} = {self.equation.rhs} ({self.reason})"

    def _repr_latex_(self) -> str:
        return f"${sp.latex(self.equation)}$"


def found_identities(sigma: Activation) -> tuple[Identity, ...]:
    """All that the rules see."""
    if sigma.is_opaque:
        return ()
    return (*_of_parity(sigma.expr), *_of_equation(sigma.expr), *_of_derivative(sigma))


def _of_parity(tree: Node) -> list[Identity]:
    split = parts(tree)
    if split is None:
        return []
    even, odd = (sp.expand(e) for e in split)
    if odd == 0:
        return [Identity(sp.Eq(C[2 * _M + 1], 0), "sigma is even")]
    slope = sp.cancel(odd / X)
    out = []
    if not even.has(X):
        out += [Identity(sp.Eq(C[0], even), "sigma minus this constant is odd")]
        out += [Identity(sp.Eq(C[2 * _M + 2], 0), "sigma minus a constant is odd")]
    if not slope.has(X):
        why = f"the odd part of sigma is exactly {_shown(odd)}"
        out += [Identity(sp.Eq(C[1], slope), why), Identity(sp.Eq(C[2 * _M + 3], 0), why)]
    return out


def _of_equation(tree: Node) -> list[Identity]:
    """sigma' as a polynomial in sigma, for tanh and sigmoid of a line, and x - tanh x."""
    line = as_polynomial(tree.args[0], limit=1) if tree.op in ("tanh", "sigmoid") else None
    if line is not None and len(line) == 2:
        gain = rational(line[1])
        if tree.op == "tanh":
            return [Identity(sp.Eq(C[1], gain * (1 - S)), "c_1 = E sigma' and tanh' = 1 - tanh^2")]
        return [Identity(sp.Eq(C[1], gain * (C[0] - S)), "c_1 = E sigma' and sigmoid' = sigmoid - sigmoid^2")]
    if str(tree) in ("x - tanh(x)", "-tanh(x) + x"):
        why = "with T = E tanh^2: c_1 = 1 - E tanh' = T, and S = 1 - 2 (1 - T) + T"
        return [Identity(sp.Eq(S, 3 * C[1] - 1), why)]
    return []


def _of_derivative(sigma: Activation) -> list[Identity]:
    """c_1 = E sigma'(X) for a smooth sigma on one piece."""
    if len(sigma.pieces) != 1:
        return []
    slope = sp.diff(tree_to_sympy(sigma.pieces[0].expr), X)
    if not slope.has(X):
        return []
    mean = sp.Function("E")(sp.Symbol(_shown(slope)))
    return [Identity(sp.Eq(C[1], mean), "Stein's identity: c_1 = E sigma'(X)")]


def _shown(expr: Expr) -> str:
    return str(expr.xreplace({X: sp.Symbol("x")}))
