"""Zeros of smooth expression trees: exact where algebra reaches, else bracketed and refined.

Used by the case split (`_pieces`), which must know where an argument changes sign. Three routes, in this order:
polynomials over the rationals (quadratics by radicals, higher degree by Sturm sequences), expressions with one x
(peeled from outside in by inverse functions), and a search on [-WINDOW, WINDOW] for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from . import _tree as t
from ._algebra import as_polynomial, polynomial_zeros
from ._interpreter import constant_value, evaluate
from ._points import Bracket, Point, constant_point, rational
from ._recurrence import Array
from ._tree import Node
from .errors import ActivationParseError

WINDOW = 40.0  # N(0, 1) has mass e^-800 outside
_SAMPLES = 16001
MAX_ZEROS = 256  # beyond it the pieces are too many anyway


@lru_cache(maxsize=4096)
def zeros(tree: Node) -> tuple[Point, ...]:
    """The zeros of a tree without splitting operations, in increasing order; none if it vanishes identically.

    Polynomials and expressions with a single x are searched on the whole line, the others on [-WINDOW, WINDOW].
    Zeros without a sign change count too: they are kinks of a square root and poles of a quotient.
    """
    if tree.constant:
        return ()
    coefficients = as_polynomial(tree)
    if coefficients is not None:
        return tuple(sorted(set(polynomial_zeros(coefficients))))
    if tree.op == "div" and not _has_pole_at_zero(tree):
        return zeros(tree.args[0])
    if tree.op == "mul":
        return tuple(sorted({p for a in tree.args for p in zeros(a)}))
    solutions = _peel(tree, t.ZERO)
    if solutions is not None:
        return tuple(sorted({constant_point(s) for s in solutions}))
    return tuple(sorted(set(_search(tree))))


def _has_pole_at_zero(tree: Node) -> bool:
    return bool(set(zeros(tree.args[0])) & set(zeros(tree.args[1])))


def _peel(tree: Node, c: Node) -> list[Node] | None:
    """Constants x with tree(x) = c, or None where this route does not apply."""
    if tree.op == "x":
        return [c]
    open_args = [a for a in tree.args if not a.constant]
    if len(open_args) != 1:
        return None
    u, op = open_args[0], tree.op
    if op == "add":
        return _peel(u, t.sub(c, next(a for a in tree.args if a.constant)))
    if op == "mul":
        return _peel(u, t.div(c, next(a for a in tree.args if a.constant)))
    if op == "div":
        if tree.args[0].constant:
            return [] if c == t.ZERO else _peel(u, t.div(tree.args[0], c))
        return _peel(u, t.mul(c, tree.args[1]))
    if op == "pow":
        return _peel_power(u, tree.number, c)
    if op in ("sin", "cos"):
        return _peel_wave(u, op) if c == t.ZERO else None
    return _peel_function(op, u, c)


def _peel_power(u: Node, p: Fraction, c: Node) -> list[Node] | None:
    value = constant_value(c)
    if c == t.ZERO:
        return _peel(u, t.ZERO) if p > 0 else []
    even, odd = p.denominator == 1 and p % 2 == 0, p.denominator == 1 and p % 2 == 1
    if value < 0:
        return _peel(u, t.neg(t.power(t.neg(c), 1 / p))) if odd else []
    root = t.power(c, 1 / p)
    first = _peel(u, root)
    second = _peel(u, t.neg(root)) if even else []
    return None if first is None or second is None else first + second


def _peel_function(op: str, u: Node, c: Node) -> list[Node] | None:
    value, one = constant_value(c), t.ONE
    inverses: dict[str, tuple[bool, Callable[[], Node]]] = {
        "exp": (value > 0, lambda: t.call("log", c)),
        "expm1": (value > -1, lambda: t.call("log1p", c)),
        "log": (True, lambda: t.call("exp", c)),
        "log1p": (True, lambda: t.call("expm1", c)),
        "sqrt": (value >= 0, lambda: t.power(c, Fraction(2))),
        "tanh": (abs(value) < 1, lambda: t.mul(t.HALF, t.call("log", t.div(t.add(one, c), t.sub(one, c))))),
        "sigmoid": (0 < value < 1, lambda: t.call("log", t.div(c, t.sub(one, c)))),
    }
    if op not in inverses:
        return _peel(u, t.ZERO) if op in ("erf", "arctan") and c == t.ZERO else None
    possible, inverse = inverses[op]
    return _peel(u, inverse()) if possible else []


def _peel_wave(u: Node, op: str) -> list[Node] | None:
    """Zeros of sin(u), cos(u) for affine u with |x| <= WINDOW: multiples of pi (shifted by pi/2)."""
    line = as_polynomial(u)
    if line is None or len(line) != 2:
        return None
    reach = float(abs(line[1])) * WINDOW + float(abs(line[0]))
    first = Fraction(0) if op == "sin" else Fraction(1, 2)
    count = int(reach / math.pi) + 1
    if count > 2000:
        return None
    roots = [t.div(t.sub(t.scale(k + first, t.PI), t.num(line[0])), t.num(line[1])) for k in range(-count, count)]
    return [r for r in roots if abs(constant_value(r)) <= WINDOW]


def _search(tree: Node) -> list[Point]:
    """Sign changes and touching zeros on a grid of [-WINDOW, WINDOW], refined by bisection.

    A run of zeros is no zero: that is a value rounded to 0 (erf(x) + 1 far to the left), or tree = 0 identically.
    """
    grid = np.linspace(-WINDOW, WINDOW, _SAMPLES)
    values = evaluate(tree, grid)
    known = ~np.isnan(values)
    x, v = grid[known], np.sign(values[known])
    if len(x) < 3:
        return []
    zero = v == 0
    alone = zero.copy()
    alone[1:] &= ~zero[:-1]
    alone[:-1] &= ~zero[1:]
    crossing = np.flatnonzero(v[:-1] * v[1:] < 0)
    size = np.abs(values[known])
    dips = np.flatnonzero((size[1:-1] < 0.3 * np.maximum(size[:-2], size[2:])) & (v[:-2] * v[1:-1] * v[2:] != 0)) + 1
    dips = dips[(v[dips - 1] == v[dips]) & (v[dips] == v[dips + 1])]
    dips = dips[(size[dips] <= size[dips - 1]) & (size[dips] <= size[dips + 1])]
    if len(crossing) + int(alone.sum()) > MAX_ZEROS:
        raise ActivationParseError(
            f"{tree} has {len(crossing)} sign changes on [-{WINDOW:g}, {WINDOW:g}]; too many pieces (the limit is 64)"
        )
    found = [_grid_zero(tree, x, int(i)) for i in np.flatnonzero(alone)]
    found += _bisect_all(tree, x[crossing], x[crossing + 1], v[crossing + 1])
    dips = dips[:MAX_ZEROS]
    near = np.array([size[max(i - 200, 0) : i + 201].max() for i in dips])
    return found + _touch_all(tree, x[dips - 1], x[dips + 1], near)


def _grid_zero(tree: Node, x: Array, i: int) -> Point:
    """A grid point where the tree is 0: exactly there if folding says so, else a value rounded to 0 beside a root."""
    here = Fraction(float(x[i]))
    if t.substitute(tree, t.num(here)) == t.ZERO:
        return rational(here)
    low, high = (Fraction(float(x[min(max(j, 0), len(x) - 1)])) for j in (i - 1, i + 1))
    return Point(float(x[i]), Bracket(tree, low, high))


def _bisect_all(tree: Node, low: Array, high: Array, above: Array) -> list[Point]:
    """One zero in each interval, all bisected together to neighbouring floats; above: the sign at the upper end."""
    if not len(low):
        return []
    for _ in range(1100):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        v = np.sign(evaluate(tree, middle))
        if np.any(np.isnan(v)):  # the middle met a 0/0
            middle = np.where(np.isnan(v), low + 0.4871 * (high - low), middle)
            v = np.sign(evaluate(tree, middle))
        right = v == above
        low, high = np.where(right, low, middle), np.where(right | (v == 0), middle, high)
    return [
        Point(float(b), Bracket(tree, Fraction(float(a)), Fraction(float(b)))) for a, b in zip(low, high, strict=True)
    ]


def _touch_all(tree: Node, low: Array, high: Array, near: Array) -> list[Point]:
    """Zeros without sign change, one in each interval at most: golden section on |tree|, accepted at rounding level.

    near: size of the tree nearby, as a measure of its rounding. A false zero costs a needless piece end, no accuracy.
    """
    if not len(low):
        return []
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - golden * (high - low), low + golden * (high - low)
        left = np.abs(evaluate(tree, a)) < np.abs(evaluate(tree, b))
        low, high = np.where(left, low, a), np.where(left, b, high)
    middle = 0.5 * (low + high)
    kept = np.abs(evaluate(tree, middle)) <= 1e-14 * near
    ends = zip(middle[kept].tolist(), low[kept].tolist(), high[kept].tolist(), strict=True)
    return [Point(m, Bracket(tree, Fraction(a), Fraction(b))) for m, a, b in ends]
