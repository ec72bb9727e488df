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


_ORDER = 24
_RESOLVED, _NARROWEST = 1e-14, 1e-3


def _numerical(sigma: Activation, log_scale: float) -> Callable[[Array], Array]:
    """The derivative of Chebyshev interpolants between the kinks of a callable: about 1e-13 of the largest slope."""
    low, high, values = _smooth_panels(sigma, log_scale)
    slopes = np.polynomial.chebyshev.chebder(_TABLE @ values.T) * (2.0 / (high - low))

    def slope(at: Array) -> Array:
        x = at.ravel()
        place = np.clip(np.searchsorted(low, x, side="right") - 1, 0, len(low) - 1)
        y = np.clip((2 * x - low[place] - high[place]) / (high - low)[place], -1.0, 1.0)
        b1, b2 = np.zeros_like(y), np.zeros_like(y)
        for row in slopes[:0:-1]:
            b1, b2 = 2 * y * b1 - b2 + row[place], b1
        inside = (x >= low[0]) & (x <= high[-1])
        return np.asarray(np.where(inside, y * b1 - b2 + slopes[0][place], 0.0).reshape(at.shape))

    return slope


@lru_cache(maxsize=64)
def smooth_edges(sigma: Activation) -> tuple[float, ...]:
    """Ends of intervals, kinks among them, on which a callable is a polynomial to rounding."""
    low, high, _ = _smooth_panels(sigma, panels(sigma).log_scale)
    return (*low.tolist(), float(high[-1]))


def _smooth_panels(sigma: Activation, log_scale: float) -> tuple[Array, Array, Array]:
    """Intervals as wide as possible, and values at first-kind points: these stay off jumps at the ends.

    The panels of quadrature shrink towards a kink that bisection had to find, and in a narrow panel rounding is all
    that a difference of values sees.
    """
    groups = panels(sigma).groups
    ends = [min(float(g.lower[0] + g.anchor) for g in groups), max(float(g.upper[-1] + g.anchor) for g in groups)]
    marks = np.unique([*ends, *(k for k in sharp_kinks(sigma) if ends[0] < k < ends[1])])
    low, high = marks[:-1], marks[1:]
    kept: list[tuple[Array, Array, Array]] = []
    while len(low):
        x = 0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * _POINTS
        m, e = evaluate_scaled(sigma.expr, x.ravel())
        values = (m * np.exp(e - log_scale)).reshape(x.shape)
        c = np.abs(_TABLE @ values.T)
        # against the Gaussian, as quadrature sees it
        weight = np.exp(-0.25 * np.minimum(np.abs(low), np.abs(high)) ** 2) * (low * high > 0) + (low * high <= 0)
        done = (c[-3:].max(axis=0) * weight <= _RESOLVED * max(1.0, float(c.max()))) | (high - low < _NARROWEST)
        done &= high - low <= 2.0
        kept.append((low[done], high[done], values[done]))
        middle = 0.5 * (low + high)[~done]
        low, high = np.concatenate([low[~done], middle]), np.concatenate([middle, high[~done]])
    first, last, sampled = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    order = np.argsort(first)
    return first[order], last[order], sampled[order]


@lru_cache(maxsize=64)
def sharp_kinks(sigma: Activation) -> tuple[float, ...]:
    """The kinks of a callable, each where the smooth functions on both sides meet.

    Bisection stops when a kink has no more weight in an integral of sigma; for sigma' it must be known to the last
    digit. Both sides are continued from intervals that stay off it, and one step of Newton's method is exact enough: a
    kink so weak that it is not is too weak to be seen.
    """
    kinks: list[float] = []
    for k in sorted({*sigma.breakpoints, *panels(sigma).kinks}):
        if not kinks or k - kinks[-1] > _SAME:  # both ends of the panel that holds a kink are known
            kinks.append(k)
    declared = set(sigma.breakpoints)
    room = np.diff([-np.inf, *kinks, np.inf])
    return tuple(
        k if k in declared else _met(sigma, k, min(0.25, 0.5 * float(min(room[i], room[i + 1]))))
        for i, k in enumerate(kinks)
    )


def _met(sigma: Activation, k: float, width: float) -> float:
    off = min(1e-6, 0.01 * width)
    sides = []
    for low, high in ((k - off - width, k - off), (k + off, k + off + width)):
        m, e = evaluate_scaled(sigma.expr, 0.5 * (low + high) + 0.5 * (high - low) * _POINTS)
        c = _TABLE @ (m * np.exp(e))
        y = (2 * k - low - high) / (high - low)
        slope = np.polynomial.chebyshev.chebval(y, np.polynomial.chebyshev.chebder(c)) * 2.0 / (high - low)
        sides.append((float(np.polynomial.chebyshev.chebval(y, c)), float(slope), float(np.abs(c).max())))
    (left, left_slope, size), (right, right_slope, other) = sides
    bend, gap = right_slope - left_slope, right - left
    rounding = 1e-13 * max(size, other)
    if abs(gap) > 2 * abs(bend) * off + rounding:
        return _jump(sigma, k - off, k + off, 0.5 * (left + right))
    return k - gap / bend if abs(bend) * off > rounding else k


def _jump(sigma: Activation, low: float, high: float, level: float) -> float:
    """Where the values pass a level, to the last ulp."""
    around_zero = low < 0.0 < high and (_value(sigma, -1e-300) < level) != (_value(sigma, 1e-300) < level)
    if around_zero:  # where floats crowd
        return 0.0
    rising = _value(sigma, low) < level
    while low < (middle := 0.5 * (low + high)) < high:
        if (_value(sigma, middle) < level) == rising:
            low = middle
        else:
            high = middle
    return high


def _value(sigma: Activation, x: float) -> float:
    m, e = evaluate_scaled(sigma.expr, np.array([x]))
    return float(m[0] * np.exp(e[0]))


_SAME = 1e-7
_ANGLES = np.pi * (np.arange(_ORDER) + 0.5) / _ORDER
_POINTS = np.cos(_ANGLES)
_TABLE = np.cos(np.outer(np.arange(_ORDER), _ANGLES)) * (2.0 / _ORDER)
_TABLE[0] *= 0.5
