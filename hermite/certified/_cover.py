"""The line up to the tails as intervals on which the tree is proven to be one smooth expression, and slivers.

The list of pieces is only a hint of where to cut. On every interval each splitting operation of the original tree is
decided by the sign of its argument over the whole interval in ball arithmetic; where no sign can be seen the interval
is cut again, geometrically towards the hints, down to slivers of width about 2^-bits. A sliver keeps the original
tree: there the integrand is enclosed with both branches, so neither a root that the hints missed nor a jump inside a
sliver can make an answer wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

from .. import _tree as t
from .._activation import Activation
from .._algebra import as_polynomial
from .._points import Bracket, Point
from .._roots import zeros
from .._tree import SPLITTING, Node
from ..errors import ActivationParseError, PrecisionError
from ._balls import RealFunction, constant, real
from ._flint import Ball, arb, between, dyadic, exact, fmpq, fmpq_poly

_MOST_STEPS = 12_000


@dataclass(frozen=True)
class Smooth:
    """The tree equals `expr`, free of splitting operations, on all of [low, high]."""

    low: Fraction
    high: Fraction
    expr: Node


@dataclass(frozen=True)
class Sliver:
    """An interval too narrow to matter, on which nothing but the original tree is known."""

    low: Fraction
    high: Fraction


@dataclass(frozen=True)
class Marks:
    """Dyadic numbers next to the ends of the pieces, and the half widths of the slivers around them."""

    widths: Mapping[Fraction, Fraction]

    def mirrored(self) -> Marks:
        """With their negatives."""
        out = dict(self.widths)
        for m, w in self.widths.items():
            out[-m] = min(w, out.get(-m, w))
        return Marks(out)


def hints(sigma: Activation, bits: int, fine: Mapping[Fraction, Fraction] | None = None) -> Marks:
    """Dyadic numbers within about 2^-bits of the ends of the pieces; nothing relies on their being right.

    fine: half widths of slivers for some rational ends, where 2^-bits is too wide.
    """
    out = {}
    for end in {p.upper for p in sigma.pieces[:-1]} | _inner_kinks(sigma.expr):
        width = (fine or {}).get(end.exact) if isinstance(end.exact, Fraction) else None
        enough = bits if width is None else max(bits, 32 + log2_inverse(width))
        out[_dyadic(end, enough)] = Fraction(1, 2**bits) if width is None else width
    return Marks(out)


def _inner_kinks(node: Node) -> set[Point]:
    """Zeros of the innermost splitting arguments: kinks that the operations around them may have hidden."""
    found = {z for a in node.args if a.splits for z in _inner_kinks(a)}
    if node.op in SPLITTING and not node.constant and not any(a.splits for a in node.args[:2]):
        u = node.args[0] if node.op in ("abs", "sign") else t.sub(*node.args[:2])
        with suppress(ActivationParseError):  # too many zeros, in a branch that is never taken
            found |= set(zeros(u))
    return found


def log2_inverse(q: Fraction) -> int:
    """-log2(q), rounded to an integer next to it."""
    return q.denominator.bit_length() - q.numerator.bit_length()


def _dyadic(point: Point, bits: int) -> Fraction:
    place = point.exact
    if isinstance(place, Bracket):
        return _refined(place, bits)
    ball = exact(place) if isinstance(place, Fraction) else constant(place) if place is not None else exact(0)
    return _rounded(ball.mid(), bits)


def _rounded(point: Ball, bits: int) -> Fraction:
    man, exp = dyadic(point)
    value = Fraction(man) * Fraction(2) ** exp
    # numbers such as 1/2 stay what they are
    return value if exp >= -bits - 8 else Fraction(round(value * 2 ** (bits + 8)), 2 ** (bits + 8))


def _refined(place: Bracket, bits: int) -> Fraction:
    """Bisection by proven signs; where they are not seen the bracket is left as it is."""
    f = real(place.tree)
    low, high = place.lower, place.upper
    sign = _sign(f(exact(high)))
    if sign == 0 or _sign(f(exact(low))) != -sign:
        return (low + high) / 2
    goal = Fraction(1, 2 ** (bits + 4))
    while high - low > goal:
        middle = Fraction(round((low + high) * 2 ** (bits + 8)), 2 ** (bits + 9))
        s = _sign(f(exact(middle)))
        if s == 0 or not low < middle < high:
            return middle
        low, high = (low, middle) if s == sign else (middle, high)
    return _rounded(exact((low + high) / 2).mid(), bits)


def _sign(x: Ball) -> int:
    """The sign of a ball, 0 where it is not certain."""
    return 1 if x > 0 else -1 if x < 0 else 0


class _Resolver:
    """Decides the splitting operations of one tree over intervals; compiled arguments are kept."""

    def __init__(self, tree: Node) -> None:
        self.tree = tree
        self._functions: dict[Node, RealFunction] = {}
        self._polynomials: dict[Node, fmpq_poly | None] = {}

    def on(self, low: Fraction, high: Fraction) -> Node | None:
        """The expression that the tree is on [low, high], or None if some sign is not decided."""
        return self._resolved(self.tree, low, high)

    def _resolved(self, node: Node, low: Fraction, high: Fraction) -> Node | None:
        if not node.splits:
            return node
        if node.op == "if":
            return self._if(node, low, high)
        args = []
        for a in node.args:
            b = self._resolved(a, low, high)
            if b is None:
                return None
            args.append(b)
        if node.op in ("abs", "sign"):
            s = self.sign(args[0], low, high)
            if s is None:
                return None
            return t.num(s) if node.op == "sign" else args[0] if s >= 0 else t.neg(args[0])
        if node.op in ("max", "min"):
            s = self.sign(t.sub(args[0], args[1]), low, high)
            return None if s is None else args[0] if (s >= 0) == (node.op == "max") else args[1]
        return t.rebuild(node, tuple(args))

    def _if(self, node: Node, low: Fraction, high: Fraction) -> Node | None:
        u, v = (self._resolved(a, low, high) for a in node.args[:2])
        if u is None or v is None:
            return None
        s = self.sign(t.sub(u, v), low, high)
        if s is None:
            return None
        assert isinstance(node.value, str)
        branch = node.args[2] if t.compare(Fraction(s), node.value, Fraction(0)) else node.args[3]
        return self._resolved(branch, low, high)

    def sign(self, u: Node, low: Fraction, high: Fraction) -> int | None:
        """The sign of a smooth tree that is the same on all of [low, high]; 0 only for the tree 0."""
        if u.op == "num":
            return (u.number > 0) - (u.number < 0)
        if u not in self._functions:
            self._functions[u] = real(u)
            p = as_polynomial(u)
            self._polynomials[u] = None if p is None else fmpq_poly([fmpq(c.numerator, c.denominator) for c in p])
        polynomial = self._polynomials[u]
        value = self._functions[u](between(low, high)) if polynomial is None else _taylor(polynomial, low, high)
        return _sign(value) or None


def _taylor(p: fmpq_poly, low: Fraction, high: Fraction) -> Ball:
    """A polynomial on an interval by its exact Taylor expansion at the middle.

    Horner's rule on the interval would never see that x^2 - (2x - 1) is positive beside its double zero.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    shifted = p(fmpq_poly([fmpq(middle.numerator, middle.denominator), 1]))
    step, total, power = arb(0, exact(half).upper()), arb(0), arb(1)
    for c in shifted.coeffs():
        total, power = total + power * arb(c), power * step
    return total


def cover(tree: Node, marks: Marks, reach: Fraction, bits: int) -> list[Smooth | Sliver]:
    """[-reach, reach] from left to right; raises PrecisionError where signs stay undecided."""
    around = marks.widths
    if not tree.splits and not around:
        return [Smooth(-reach, reach, tree)]
    # beside a narrower sliver signs are followed further down
    width = min([Fraction(1, 2**bits), *around.values()])
    inside = sorted(m for m, w in around.items() if -reach + 2 * w < m < reach - 2 * w)
    out: list[Smooth | Sliver] = []
    resolver, steps, start = _Resolver(tree), 0, -reach
    for i, mark in enumerate([*inside, None]):
        before = inside[i - 1] if i else None
        end = reach if mark is None else mark - around[mark]
        if start < end:
            found, used = _between(resolver, start, end, before, mark, width)
            out += found
            steps += used
        if mark is not None and start < mark + around[mark]:
            out.append(Sliver(max(mark - around[mark], start), mark + around[mark]))
            start = mark + around[mark]
    return out


def _between(
    resolver: _Resolver, low: Fraction, high: Fraction, left: Fraction | None, right: Fraction | None, width: Fraction
) -> tuple[list[Smooth | Sliver], int]:
    """One gap between two hints, cut until every interval is decided or a sliver."""
    out: list[Smooth | Sliver] = []
    stack, steps = [(low, high)], 0
    while stack:
        a, b = stack.pop()
        steps += 1
        if steps > _MOST_STEPS:
            raise PrecisionError(
                f"{resolver.tree}: the signs of its splitting arguments stay undecided near x = {float(a):.6g}; "
                "rewrite it so that they differ there, or use hermite.multiprecision"
            )
        expr = resolver.on(a, b)
        if expr is None and b - a > width:
            middle = _cut(a, b, left, right)
            stack += [(middle, b), (a, middle)]
        else:
            _append(out, Sliver(a, b) if expr is None else Smooth(a, b, expr))
    return out, steps


def _append(out: list[Smooth | Sliver], new: Smooth | Sliver) -> None:
    last = out[-1] if out else None
    if isinstance(last, Smooth) and isinstance(new, Smooth) and last.expr == new.expr:
        out[-1] = Smooth(last.low, new.high, new.expr)
    elif isinstance(last, Sliver) and isinstance(new, Sliver):
        out[-1] = Sliver(last.low, new.high)
    else:
        out.append(new)


def _cut(a: Fraction, b: Fraction, left: Fraction | None, right: Fraction | None) -> Fraction:
    """The geometric mean of the distances to the hint that is relatively near, else the middle."""
    from_left = (b - left) / (a - left) if left is not None else Fraction(0)
    from_right = (right - a) / (right - b) if right is not None else Fraction(0)
    if left is not None and from_left > 4 and from_left > from_right * from_right:
        return left + _mean(a - left, b - left)
    if right is not None and from_right > 4 and from_right > from_left * from_left:
        return right - _mean(right - b, right - a)
    return (a + b) / 2


def _mean(near: Fraction, far: Fraction) -> Fraction:
    """A power of two between near and far, for far > 4 near."""
    exponent = (1 - log2_inverse(near) - log2_inverse(far)) // 2
    return Fraction(2) ** exponent
