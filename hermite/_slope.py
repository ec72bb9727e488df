"""The derivative of an activation almost everywhere: as a tree where it is one, from its panels where it is a callable.

Jumps are left out: whoever needs them adds their Dirac terms. Read by `_ends`, which maps correlations near 1 and -1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from . import _tree as t
from ._activation import Activation
from ._interpreter import evaluate_scaled
from ._panels import panels
from ._recurrence import Array
from ._tree import Node
from .errors import ActivationParseError

_TWO_OVER_ROOT_PI = t.div(t.num(2), t.call("sqrt", t.PI))


@lru_cache(maxsize=1024)
def derivative(tree: Node) -> Node:
    """The tree of d sigma/dx where sigma is smooth; raises ValueError for a callable, ActivationParseError for size."""
    op, args = tree.op, tree.args
    if tree.constant or op == "sign":
        return t.ZERO
    if op == "x":
        return t.ONE
    if op == "add":
        return t.add(derivative(args[0]), derivative(args[1]))
    if op == "mul":
        u, v = args
        return t.add(t.mul(derivative(u), v), t.mul(u, derivative(v)))
    if op == "div":
        u, v = args
        return t.sub(t.div(derivative(u), v), t.div(t.mul(u, derivative(v)), t.mul(v, v)))
    if op in ("max", "min"):
        u, v = args
        return t.choose(u, ">=" if op == "max" else "<=", v, derivative(u), derivative(v))
    if op == "if":
        assert isinstance(tree.value, str)
        return t.choose(args[0], tree.value, args[1], derivative(args[2]), derivative(args[3]))
    if op == "opaque":
        raise ValueError("a callable has no derivative as a tree")
    return t.mul(_outer(tree, args[0]), derivative(args[0]))


def _outer(tree: Node, u: Node) -> Node:
    """The derivative of the operation at its argument u."""
    op = tree.op
    if op == "pow":
        return t.scale(tree.number, t.power(u, tree.number - 1))
    if op == "He":
        k = int(tree.number)
        return t.mul(t.call("sqrt", t.num(k)), t.hermite_polynomial(k - 1, u))
    return _OUTER[op](u)


_OUTER: dict[str, Callable[[Node], Node]] = {
    "abs": t.sign,
    "exp": lambda u: t.call("exp", u),
    "expm1": lambda u: t.call("exp", u),
    "log": lambda u: t.div(t.ONE, u),
    "log1p": lambda u: t.div(t.ONE, t.add(t.ONE, u)),
    "sqrt": lambda u: t.div(t.HALF, t.call("sqrt", u)),
    "sin": lambda u: t.call("cos", u),
    "cos": lambda u: t.neg(t.call("sin", u)),
    # products of two tails: neither 1 - tanh^2 nor 1 - sigmoid would keep the digits of a small slope
    "tanh": lambda u: t.scale(Fraction(4), _bell(t.scale(Fraction(2), u))),
    "sigmoid": lambda u: _bell(u),
    "arctan": lambda u: t.div(t.ONE, t.add(t.ONE, t.mul(u, u))),
    "erf": lambda u: t.mul(_TWO_OVER_ROOT_PI, t.call("exp", t.neg(t.mul(u, u)))),
}


def _bell(u: Node) -> Node:
    """sigmoid(u) sigmoid(-u)."""
    return t.mul(t.call("sigmoid", u), t.call("sigmoid", t.neg(u)))


def slope_of(sigma: Activation, log_scale: float) -> Callable[[Array], Array]:
    """sigma'(x) exp(-log_scale) as a function on arrays, without the jumps."""
    try:
        tree = derivative(sigma.expr)
    except (ValueError, ActivationParseError):
        return _numerical(sigma, log_scale)

    def slope(x: Array) -> Array:
        m, e = evaluate_scaled(tree, x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return np.asarray(np.where(m == 0, 0.0, m * np.exp(e - log_scale)))

    return slope


_ORDER = 20


def _numerical(sigma: Activation, log_scale: float) -> Callable[[Array], Array]:
    """The derivative of the Chebyshev interpolants on the panels of a callable: about 1e-13 of the largest slope."""
    groups = panels(sigma).groups
    low = np.concatenate([g.lower + g.anchor for g in groups])
    high = np.concatenate([g.upper + g.anchor for g in groups])
    order = np.argsort(low)
    low, high = low[order], high[order]
    # first-kind points stay inside: at a jump the value of the end belongs to one side only
    theta = np.pi * (np.arange(_ORDER) + 0.5) / _ORDER
    x = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * np.cos(theta)
    m, e = evaluate_scaled(sigma.expr, x.ravel())
    values = (m * np.exp(e - log_scale)).reshape(x.shape)
    k = np.arange(_ORDER)
    table = np.cos(np.outer(k, theta)) * (2.0 / _ORDER)
    table[0] *= 0.5
    coefficients = np.polynomial.chebyshev.chebder(table @ values.T) * (2.0 / (high - low))

    def slope(at: Array) -> Array:
        place = np.clip(np.searchsorted(low, at.ravel(), side="right") - 1, 0, len(low) - 1)
        y = np.clip((2 * at.ravel() - low[place] - high[place]) / (high - low)[place], -1.0, 1.0)
        b1, b2 = np.zeros_like(y), np.zeros_like(y)
        for row in coefficients[:0:-1]:
            b1, b2 = 2 * y * b1 - b2 + row[place], b1
        inside = (at.ravel() >= low[0]) & (at.ravel() <= high[-1])
        return np.asarray(np.where(inside, y * b1 - b2 + coefficients[0][place], 0.0).reshape(at.shape))

    return slope
