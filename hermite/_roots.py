"""Zeros of smooth expression trees: exact where algebra reaches, else bracketed and refined.

Used by the case split (`_pieces`), which must know where an argument changes sign. Three routes, in this order:
polynomials over the rationals (quadratics by radicals, higher degree by Sturm sequences), expressions with one x
(peeled from outside in by inverse functions), and a search on [-WINDOW, WINDOW] for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from itertools import pairwise

import numpy as np

from . import _tree as t
from ._interpreter import constant_value, evaluate
from ._recurrence import Array
from ._tree import Node
from .errors import ActivationParseError

WINDOW = 40.0  # N(0, 1) has mass e^-800 outside
_SAMPLES = 16001
MAX_ZEROS = 256  # beyond it the pieces are too many anyway


@dataclass(frozen=True)
class Bracket:
    """A root known by a sign change: the tree changes sign once between lower and upper."""

    tree: Node
    lower: Fraction
    upper: Fraction


@total_ordering
@dataclass(frozen=True, eq=False)
class Point:
    """A place on the line: its float64 value and what it is exactly (None for the infinities)."""

    value: float
    exact: Fraction | Node | Bracket | None = None

    @property
    def _key(self) -> Fraction | float:
        if isinstance(self.exact, Fraction):
            return self.exact
        return self.value if math.isinf(self.value) else Fraction(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self._key == other._key

    def __lt__(self, other: Point) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return str(self.exact) if isinstance(self.exact, (Fraction, Node)) else repr(self.value)


MINUS_INFINITY, INFINITY = Point(-math.inf), Point(math.inf)


def rational(q: Fraction | int) -> Point:
    """An exactly rational point."""
    return Point(float(q), Fraction(q))


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
        return tuple(sorted(set(_polynomial_zeros(coefficients))))
    if tree.op == "div" and not _has_pole_at_zero(tree):
        return zeros(tree.args[0])
    if tree.op == "mul":
        return tuple(sorted({p for a in tree.args for p in zeros(a)}))
    solutions = _peel(tree, t.ZERO)
    if solutions is not None:
        return tuple(sorted({_constant_point(s) for s in solutions}))
    return tuple(sorted(set(_search(tree))))


def _has_pole_at_zero(tree: Node) -> bool:
    return bool(set(zeros(tree.args[0])) & set(zeros(tree.args[1])))


def _constant_point(node: Node) -> Point:
    if node.op == "num":
        return rational(node.number)
    return Point(constant_value(node), node)


# ---- polynomials over the rationals ---------------------------------------------------------------------------


def as_polynomial(tree: Node, limit: int = 64) -> list[Fraction] | None:
    """Coefficients from the constant term up, or None if the tree is not a polynomial of degree <= limit."""
    op, args = tree.op, tree.args
    if op == "num":
        return [tree.number]
    if op == "x":
        return [Fraction(0), Fraction(1)]
    if op not in ("add", "mul", "pow"):
        return None
    parts = [as_polynomial(a, limit) for a in args]
    if any(p is None for p in parts):
        return None
    first = parts[0]
    assert first is not None
    if op == "pow":
        exponent = tree.number
        if exponent.denominator != 1 or exponent < 0 or (len(first) - 1) * exponent > limit:
            return None
        result = [Fraction(1)]
        for _ in range(int(exponent)):
            result = _times(result, first)
        return _trim(result)
    second = parts[1]
    assert second is not None
    if op == "add":
        n = max(len(first), len(second))
        padded = [p + [Fraction(0)] * (n - len(p)) for p in (first, second)]
        return _trim([a + b for a, b in zip(*padded, strict=True)])
    return _trim(_times(first, second)) if len(first) + len(second) - 2 <= limit else None


def _times(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    out = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return out


def _trim(p: list[Fraction]) -> list[Fraction]:
    while len(p) > 1 and p[-1] == 0:
        p = p[:-1]
    return p


def _value(p: list[Fraction], x: Fraction) -> Fraction:
    out = Fraction(0)
    for c in reversed(p):
        out = out * x + c
    return out


def _polynomial_zeros(p: list[Fraction]) -> list[Point]:
    if len(p) > 1 and p[0] == 0:
        return [rational(0), *_polynomial_zeros(p[1:])]
    if len(p) <= 1:
        return []
    if len(p) == 2:
        return [rational(-p[0] / p[1])]
    if len(p) == 3:
        return _quadratic_zeros(*p)
    return _sturm_zeros(p)


def _quadratic_zeros(c: Fraction, b: Fraction, a: Fraction) -> list[Point]:
    square = (b / (2 * a)) ** 2 - c / a
    if square < 0:
        return []
    root = t.call("sqrt", t.num(square))
    centre = t.num(-b / (2 * a))
    pair = [_constant_point(t.sub(centre, root)), _constant_point(t.add(centre, root))]
    if root.op != "num" and b != 0:  # the difference cancels in float64: take the product of the roots instead
        small, large = sorted(pair, key=lambda z: abs(z.value))
        pair = [Point(float(c / a) / large.value if c else 0.0, small.exact), large]
    return pair


def _remainder(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    p = list(p)
    while len(p) >= len(q) and any(p):
        k = p[-1] / q[-1]
        for i in range(len(q)):
            p[len(p) - len(q) + i] -= k * q[i]
        p.pop()
    return _trim(p) if p else [Fraction(0)]


def _sturm_zeros(p: list[Fraction]) -> list[Point]:
    """Isolate by Sturm's theorem (which counts distinct zeros, whatever their order), then bisect exactly."""
    chain = [p, [k * c for k, c in enumerate(p)][1:]]
    while any(rest := _remainder(chain[-2], chain[-1])):
        chain.append([-c for c in rest])
        if len(chain[-1]) == 1:
            break
    simple = chain[0] if len(chain[-1]) == 1 else _quotient(p, chain[-1])
    bound = 1 + max(abs(c / p[-1]) for c in p[:-1])

    def changes(x: Fraction) -> int:
        signs = [v > 0 for q in chain if (v := _value(q, x)) != 0]
        return sum(a != b for a, b in pairwise(signs))

    found: list[Point] = []
    stack = [(-bound, bound, changes(-bound), changes(bound))]
    while stack:
        low, high, a, b = stack.pop()
        if a - b == 1:
            found.append(_bisect_exactly(simple, low, high))
        elif a - b > 1:
            middle = (low + high) / 2
            m = changes(middle)
            stack += [(low, middle, a, m), (middle, high, m, b)]
    return found


def _quotient(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    p, out = list(p), []
    while len(p) >= len(q):
        k = p[-1] / q[-1]
        out.append(k)
        for i in range(len(q)):
            p[len(p) - len(q) + i] -= k * q[i]
        p.pop()
    return list(reversed(out))


def _bisect_exactly(p: list[Fraction], low: Fraction, high: Fraction) -> Point:
    """The single zero of a square-free p in (low, high], to well under an ulp."""
    if _value(p, high) == 0:
        return rational(high)
    positive = _value(p, high) > 0
    guess = _rational_guess(p, low, high)
    if guess is not None:
        return rational(guess)
    while high - low > Fraction(1, 2**60) * max(abs(low), Fraction(1, 2**900)):
        middle = (low + high) / 2
        v = _value(p, middle)
        if v == 0:
            return rational(middle)
        low, high = (low, middle) if (v > 0) == positive else (middle, high)
    tree = t.ZERO
    for c in reversed(p):
        tree = t.add(t.mul(tree, t.X), t.num(c))
    return Point(float((low + high) / 2), Bracket(tree, low, high))


def _rational_guess(p: list[Fraction], low: Fraction, high: Fraction) -> Fraction | None:
    """A rational zero with a small denominator, as people write them."""
    roots = np.roots([float(c) for c in reversed(p)])
    for r in roots[np.abs(roots.imag) < 1e-6].real:
        q = Fraction(float(r)).limit_denominator(10000)
        if low < q <= high and _value(p, q) == 0:
            return q
    return None


# ---- one x: peel inverse functions ----------------------------------------------------------------------------


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


# ---- anything else: search ------------------------------------------------------------------------------------


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
    found = [rational(Fraction(float(a))) for a in x[alone]]
    found += _bisect_all(tree, x[crossing], x[crossing + 1], v[crossing + 1])
    around = [float(size[max(i - 200, 0) : i + 201].max()) for i in dips[:MAX_ZEROS]]
    touching = [_touch(tree, float(x[i - 1]), float(x[i + 1]), near) for i, near in zip(dips, around, strict=False)]
    return found + [p for p in touching if p is not None]


def _at(tree: Node, x: float) -> float:
    return float(evaluate(tree, np.array([x]))[0])


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


def _touch(tree: Node, low: float, high: float, scale: float) -> Point | None:
    """A zero without sign change between low and high: golden section on |tree|, accepted at rounding level.

    scale: size of the tree nearby, as a measure of its rounding. A false zero costs a needless piece end, no accuracy.
    """
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if abs(_at(tree, a)) < abs(_at(tree, b)) else (a, high)
    x = 0.5 * (low + high)
    return Point(x, Bracket(tree, Fraction(low), Fraction(high))) if abs(_at(tree, x)) <= 1e-14 * scale else None
