"""Bounds of a tree on a ray x >= D, by rules in ball arithmetic: what the tails of the integrals rest on.

`span` bounds the values, `size` bounds |u(x)| <= a (1 + x)^p exp(b x + q x^2). Both read the original tree: a splitting
operation whose argument has one sign on the ray is replaced by its branch, otherwise both branches are covered, so no
list of pieces is trusted here. None means that no rule applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .. import _tree as t
from .._algebra import as_polynomial
from .._tree import Node
from ._balls import constant
from ._flint import Ball, arb, exact, fmpq, fmpq_poly, natural_power

Span = tuple[Ball | None, Ball | None]
"""Lower and upper bound of the values, None where there is none."""

_EVERYTHING: Span = (None, None)


@dataclass(frozen=True)
class Bound:
    """|u(x)| <= a (1 + x)^p exp(b x + q x^2) on the ray; a, p >= 0."""

    a: Ball
    p: Ball
    b: Ball
    q: Ball

    @staticmethod
    def of(a: Ball, p: Ball | int = 0, b: Ball | int = 0, q: Ball | int = 0) -> Bound:
        return Bound(*(arb(v) for v in (a, p, b, q)))

    def join(self, other: Bound) -> Bound:
        """A bound of both."""
        return Bound(*(_larger(u, v) for u, v in zip(self._parts, other._parts, strict=True)))

    @property
    def _parts(self) -> tuple[Ball, Ball, Ball, Ball]:
        return self.a, self.p, self.b, self.q

    def __add__(self, other: Bound) -> Bound:
        # x > 0 and 1 + x > 1, so every factor grows with its parameter
        top = self.join(other)
        return Bound(self.a + other.a, top.p, top.b, top.q)

    def __mul__(self, other: Bound) -> Bound:
        return Bound(*(u + v if i else u * v for i, (u, v) in enumerate(zip(self._parts, other._parts, strict=True))))

    def __str__(self) -> str:
        a, p, b, q = (f"{float(v):.6g}" for v in self._parts)
        powers = "" if self.p.is_zero() else f" (1 + |x|)^{p}"
        return f"{a}{powers}" + ("" if self.b.is_zero() and self.q.is_zero() else f" exp({b}|x| + {q} x^2)")

    def power(self, k: Ball) -> Bound:
        return Bound(self.a**k if self.a > 0 else arb(0), self.p * k, self.b * k, self.q * k)


def _larger(a: Ball, b: Ball) -> Ball:
    return a.max(b)


def _both(values: list[Ball | None], pick: str) -> Ball | None:
    """min or max of bounds, None as soon as one is missing."""
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return None
    out = known[0]
    for v in known[1:]:
        out = out.min(v) if pick == "min" else out.max(v)
    return out


def span(u: Node, start: Ball) -> Span:
    """Bounds of the values of u on x >= start > 0."""
    if u.constant and not u.splits:
        value = constant(u)
        return value.lower(), value.upper()
    p = as_polynomial(u)
    if p is not None:
        return _polynomial_span(p, start)
    op, args = u.op, u.args
    if op == "if":
        branches = [span(b, start) for b in _taken(u, start)]
        return _both([b[0] for b in branches], "min"), _both([b[1] for b in branches], "max")
    inner = [span(a, start) for a in args]
    low, high = inner[0]
    if op in _MONOTONE:
        return _monotone_span(op, low, high)
    if op in ("sin", "cos"):
        return arb(-1), arb(1)
    if op == "add":
        return _sum(low, inner[1][0]), _sum(high, inner[1][1])
    if op in ("mul", "div"):
        other = inner[1] if op == "mul" else _reciprocal(*inner[1])
        return _product_span((low, high), other)
    if op == "pow":
        return _power_span(low, high, u.number)
    return _splitting_span(op, inner)


def _polynomial_span(p: list[Fraction], start: Ball) -> Span:
    """With all Taylor coefficients at the start of one sign the polynomial is monotone from there on."""
    at = _taylor_at(p, start)
    value = exact(at[0])
    rising, falling = all(c >= 0 for c in at[1:]), all(c <= 0 for c in at[1:])
    return (value.lower() if rising else None), (value.upper() if falling else None)


def _taylor_at(p: list[Fraction], start: Ball) -> list[Fraction]:
    man, exp = start.man_exp()
    c = fmpq(int(man)) * fmpq(2) ** int(exp)
    shifted = fmpq_poly([fmpq(v.numerator, v.denominator) for v in p])(fmpq_poly([c, 1]))
    return [Fraction(int(c.p), int(c.q)) for c in shifted.coeffs()] or [Fraction(0)]


_MONOTONE: dict[str, tuple[Fraction | None, Fraction | None]] = {
    # bounds of the range where the argument has none
    "exp": (Fraction(0), None), "expm1": (Fraction(-1), None), "log": (None, None), "log1p": (None, None),
    "sqrt": (Fraction(0), None), "tanh": (Fraction(-1), Fraction(1)), "erf": (Fraction(-1), Fraction(1)),
    "arctan": (Fraction(-2), Fraction(2)), "sigmoid": (Fraction(0), Fraction(1)),
}  # fmt: skip


def _monotone_span(op: str, low: Ball | None, high: Ball | None) -> Span:
    floor, ceiling = _MONOTONE[op]
    below, above = _value(op, low), _value(op, high)
    return (
        below.lower() if below is not None else None if floor is None else exact(floor),
        above.upper() if above is not None else None if ceiling is None else exact(ceiling),
    )


def _value(op: str, x: Ball | None) -> Ball | None:
    if x is None:
        return None
    methods = {"arctan": "atan"}
    y = 1 / (1 + (-x).exp()) if op == "sigmoid" else getattr(x, methods.get(op, op))()
    return y if y.is_finite() else None


def _sum(a: Ball | None, b: Ball | None) -> Ball | None:
    return None if a is None or b is None else a + b


def _reciprocal(low: Ball | None, high: Ball | None) -> Span:
    if low is not None and low > 0:
        return (arb(0) if high is None else 1 / high), 1 / low
    if high is not None and high < 0:
        return 1 / high, (arb(0) if low is None else 1 / low)
    return _EVERYTHING


def _product_span(a: Span, b: Span) -> Span:
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        return a[0] * b[0], (None if a[1] is None or b[1] is None else a[1] * b[1])
    for x, y in ((a, b), (b, a)):
        if x[1] is not None and x[1] < 0:  # -x is positive
            low, high = _product_span((-x[1], None if x[0] is None else -x[0]), y)
            return (None if high is None else -high), (None if low is None else -low)
    if None in (*a, *b):
        return _EVERYTHING
    corners: list[Ball | None] = [u * v for u in a for v in b]  # type: ignore[operator]
    return _both(corners, "min"), _both(corners, "max")


def _power_span(low: Ball | None, high: Ball | None, p: Fraction) -> Span:
    if p < 0:
        return _reciprocal(*_power_span(low, high, -p))
    exponent = exact(p)
    if p.denominator == 1 and p % 2 == 0:
        low, high = _absolute_span(low, high)
    elif p.denominator == 1:
        return (None if low is None else natural_power(low, int(p))), (
            None if high is None else natural_power(high, int(p))
        )
    else:
        low = arb(0) if low is None or not low > 0 else low
    assert low is not None
    return (low**exponent if low > 0 else arb(0)), (None if high is None else high**exponent if high > 0 else arb(0))


def _absolute_span(low: Ball | None, high: Ball | None) -> Span:
    if low is not None and low >= 0:
        return low, high
    if high is not None and high <= 0:
        return -high, (None if low is None else -low)
    return arb(0), (None if low is None or high is None else _larger(-low, high))


def _splitting_span(op: str, inner: list[Span]) -> Span:
    low, high = inner[0]
    if op == "abs":
        return _absolute_span(low, high)
    if op == "sign":
        positive, negative = low is not None and low > 0, high is not None and high < 0
        return arb(1 if positive else -1), arb(-1 if negative else 1)
    if op in ("max", "min"):
        other = inner[1]
        near, far = (0, 1) if op == "max" else (1, 0)  # one side is bounded as soon as either argument is
        known = [v for v in (inner[0][near], other[near]) if v is not None]
        one = _both(list(known), op) if known else None
        two = _both([inner[0][far], other[far]], op)
        return (one, two) if op == "max" else (two, one)
    return _EVERYTHING  # He of a non-polynomial, opaque


def _taken(u: Node, start: Ball) -> list[Node]:
    """The branches of an `if`, max or min that may be taken on the ray."""
    if u.op == "if":
        a, b, yes, no = u.args
        above = u.value in (">", ">=")
    else:
        (a, b), above = u.args, u.op == "max"
        yes, no = a, b
    low, high = span(t.sub(a, b), start)
    if low is not None and low > 0:
        return [yes if above else no]
    if high is not None and high < 0:
        return [no if above else yes]
    return [yes, no]


# ---- size -------------------------------------------------------------------------------------------------------


def size(u: Node, start: Ball) -> Bound | None:
    """A bound of |u| on x >= start > 0."""
    op, args = u.op, u.args
    if op == "x":
        return Bound.of(1, 1)
    low, high = span(u, start)
    if low is not None and high is not None:
        return Bound.of(_larger(abs(low), abs(high)))
    if op in ("if", "max", "min"):
        return _joined([size(b, start) for b in _taken(u, start)])
    if op in ("exp", "expm1"):
        top = _exponential(args[0], start)
        return None if top is None else top if op == "exp" else top + Bound.of(1)
    if op == "log1p" and args[0].op == "exp":  # 0 <= log(1 + e^v) <= log 2 + |v|
        inside = size(args[0].args[0], start)
        return None if inside is None else inside + Bound.of(1)
    inner = [size(a, start) for a in args]
    first = inner[0] if inner else None
    if first is None or inner[-1] is None:
        return None
    return _combined(u, first, inner[-1], start)


def _combined(u: Node, first: Bound, last: Bound, start: Ball) -> Bound | None:
    op, args = u.op, u.args
    if op == "add":
        return first + last
    if op == "mul":
        return first * last
    if op == "abs":
        return first
    if op == "He":  # |He_k(x)| <= (1 + |x|)^k by induction over the recurrence
        return (first + Bound.of(1)).power(arb(int(u.number)))
    if op == "sqrt" or (op == "pow" and u.number > 0):
        return first.power(exact(Fraction(1, 2) if op == "sqrt" else u.number))
    if op in ("div", "pow"):
        below, _ = _absolute_span(*span(args[-1], start))
        if below is None or not below > 0:
            return None
        return first * Bound.of(1 / below) if op == "div" else Bound.of(below ** exact(u.number))
    if op in ("log", "log1p"):
        return _logarithm(first if op == "log" else first + Bound.of(1), args[0], op, start)
    return None


def _joined(bounds: list[Bound | None]) -> Bound | None:
    out = bounds[0]
    for b in bounds[1:]:
        out = None if out is None or b is None else out.join(b)
    return out


def _logarithm(top: Bound, u: Node, op: str, start: Ball) -> Bound | None:
    """|log v| <= |log low| + log of the bound, with log(1 + x) <= 8 (1 + x)^(1/8)."""
    low, _ = span(u if op == "log" else t.add(t.ONE, u), start)
    if low is None or not low > 0:
        return None
    value = Bound.of(abs(low.log()) + abs(_larger(top.a, arb(1)).log()))
    for part, factor, p in ((top.p, 8, Fraction(1, 8)), (top.b, 1, Fraction(1)), (top.q, 1, Fraction(2))):
        if not part <= 0:
            value = value + Bound.of(factor * part, exact(p))
    return value


def _exponential(u: Node, start: Ball) -> Bound | None:
    """exp(u): exactly for u of degree 2, factor by factor for a sum, else from an upper bound of u."""
    line = as_polynomial(u, limit=2)
    if line is not None:
        c, b, q = (exact(v) for v in (*line, Fraction(0), Fraction(0))[:3])
        return Bound.of(c.exp(), 0, b, q)
    _, high = span(u, start)
    if high is not None:
        return Bound.of(high.exp())
    if u.op == "add":
        parts = [_exponential(a, start) for a in u.args]
        return None if parts[0] is None or parts[1] is None else parts[0] * parts[1]
    if u.op == "mul" and u.args[0].constant and u.args[1].op == "x":  # a slope such as sqrt(2)
        return Bound.of(1, 0, constant(u.args[0]))
    return None
