"""Growth of an expression tree: |sigma(x)| <= A exp(B|x| + Q x^2), derived by rules from the smooth pieces.

Internally a bound also carries a power (1 + |x|)^p, so that products of polynomials stay sharp; it is given up for a
little Q only at the end, which keeps B = 0 for everything of polynomial growth. None means that no rule applies (or
that sigma is unbounded at a singular point): then the growth has to be declared where it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._algebra import as_polynomial
from ._interpreter import constant_value
from ._pieces import Piece
from ._tree import Node

_POLYNOMIAL_Q = 1 / 32  # what a polynomial factor costs in Q


@dataclass(frozen=True)
class Bound:
    """|u(x)| <= a (1 + |x|)^p exp(b|x| + q x^2) on the domain."""

    a: float
    p: float = 0.0
    b: float = 0.0
    q: float = 0.0

    @property
    def bounded(self) -> bool:
        return self.p == self.b == self.q == 0

    def __add__(self, other: Bound) -> Bound:
        return Bound(self.a + other.a, max(self.p, other.p), max(self.b, other.b), max(self.q, other.q))

    def __mul__(self, other: Bound) -> Bound:
        return Bound(self.a * other.a, self.p + other.p, self.b + other.b, self.q + other.q)

    def power(self, k: float) -> Bound:
        return Bound(self.a**k, self.p * k, self.b * k, self.q * k)


Domain = tuple[float, float]


def growth(parts: tuple[Piece, ...]) -> tuple[float, float, float] | None:
    """(A, B, Q) for the whole line, or None; A is inf-free, B >= 0."""
    total: Bound | None = None
    for piece in parts:
        bound = _bound(piece.expr, (piece.lower.value, piece.upper.value))
        if bound is None:
            return None
        total = (
            bound
            if total is None
            else Bound(max(total.a, bound.a), max(total.p, bound.p), max(total.b, bound.b), max(total.q, bound.q))
        )
    assert total is not None
    return _public(total)


def _public(bound: Bound) -> tuple[float, float, float] | None:
    a, b, q = bound.a, max(bound.b, 0.0), bound.q
    if bound.p > 0:
        # (1 + r)^p <= C exp(eps r^2): the maximum of p log(1 + r) - eps r^2 is at r(1 + r) = p/(2 eps)
        eps = _POLYNOMIAL_Q
        r = 0.5 * (-1 + math.sqrt(1 + 2 * bound.p / eps))
        exponent = bound.p * math.log1p(r) - eps * r * r
        a, q = a * math.exp(exponent) if exponent < 700 else math.inf, q + eps
    return (a, b, q) if math.isfinite(a) else None


def _bound(u: Node, domain: Domain) -> Bound | None:
    try:
        return _rule(u, domain)
    except OverflowError:
        return None


def _rule(u: Node, domain: Domain) -> Bound | None:
    op, args = u.op, u.args
    if u.constant:
        return Bound(abs(constant_value(u)))
    if op == "x":
        reach = max(map(abs, domain))
        return Bound(reach) if math.isfinite(reach) else Bound(1.0, 1.0)
    if op in ("sin", "cos", "tanh", "erf", "sigmoid"):
        return Bound(1.0)
    if op == "arctan":
        return Bound(math.pi / 2)
    if op in ("exp", "expm1"):
        top = _exponent(args[0], domain)
        return None if top is None else top if op == "exp" else top + Bound(1.0)
    if op == "opaque":
        return _opaque_bound(u)
    inner = [_bound(a, domain) for a in args]
    if inner[0] is None or inner[-1] is None:
        return None
    first = inner[0]
    if op == "add":
        return first + inner[-1]
    if op == "mul":
        return first * inner[-1]
    if op == "sqrt":
        return first.power(0.5)
    if op == "He":
        # induction over the recurrence: |He_k(x)| <= (1 + |x|)^k
        return (first + Bound(1.0)).power(float(u.number))
    return _quotient_or_log(u, first, domain)


def _quotient_or_log(u: Node, first: Bound, domain: Domain) -> Bound | None:
    op, args = u.op, u.args
    if op == "pow" and u.number > 0:
        return first.power(float(u.number))
    below = _lower(args[-1], domain)
    if op == "log1p":
        return _log_bound(first + Bound(1.0)) if below is not None and below >= 0 else None
    if below is None or below <= 0:
        return None
    if op == "log":
        return _log_bound(first) + Bound(abs(math.log(below)))
    if op == "pow":
        return Bound(below ** float(u.number))
    return first * Bound(1 / below) if op == "div" else None


def _log_bound(bound: Bound) -> Bound:
    """log of a quantity of this size, from above: a quadratic in |x|."""
    value = Bound(max(math.log(max(bound.a, 1.0)), 0.0) + 1e-300)
    for size, p in ((bound.p, 1.0), (bound.b, 1.0), (bound.q, 2.0)):
        if size > 0:
            value = value + Bound(size, p)
    return value


def _exponent(u: Node, domain: Domain) -> Bound | None:
    """exp(u) for u = a2 x^2 + a1 x + a0 with the sign of a1 x on the domain, or for bounded u."""
    line = as_polynomial(u, limit=2)
    if line is None:
        bound = _bound(u, domain)
        return Bound(math.exp(bound.a)) if bound is not None and bound.bounded else None
    a0, a1, a2 = (float(c) for c in (*line, 0, 0)[:3])
    low, high = domain
    if low >= 0 or high <= 0:
        b = a1 if low >= 0 else -a1
    else:  # both signs: exact on the unbounded side, made up for on the bounded one
        side = a1 if high == math.inf else -a1
        b = abs(a1) if low == -math.inf and high == math.inf else side
        a0 += 2 * abs(a1) * min(-low, high) if b < abs(a1) else 0.0
    return Bound(math.exp(a0), 0.0, b, a2)


def _lower(u: Node, domain: Domain) -> float | None:
    """A lower bound of u on the domain, or None where no rule gives one."""
    op, args = u.op, u.args
    if u.constant:
        return constant_value(u)
    if op in ("exp", "sigmoid", "sqrt") or (op == "pow" and (u.number / 2).denominator == 1 and u.number > 0):
        return 0.0
    if op in ("sin", "cos", "tanh", "erf"):
        return -1.0
    line = as_polynomial(u, limit=1)
    if line is not None and len(line) == 2:
        end = domain[0] if line[1] > 0 else domain[1]
        return float(line[0]) + float(line[1]) * end if math.isfinite(end) else None
    if op == "add":
        parts = [_lower(a, domain) for a in args]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if op == "mul" and args[0].constant:
        k, rest = constant_value(args[0]), _lower(args[1], domain)
        return None if rest is None or k < 0 else k * rest
    return None


def _opaque_bound(u: Node) -> Bound | None:
    declared, line = u.opaque.growth, as_polynomial(u.args[0], limit=1)
    if declared is None or line is None or len(line) != 2:
        return None
    (a, b, q), shift, gain = declared, abs(float(line[0])), abs(float(line[1]))
    return Bound(a * math.exp(b * shift + q * shift**2), 0.0, b * gain + 2 * q * gain * shift, q * gain**2)
