"""S(x) = E sigma(rho x + s Z), s^2 = 1 - rho^2, for sigma made of polynomials times exponentials.

With it the dual is one integral, E sigma(X) sigma(Y) = E sigma(X) S(X): Y given X = x is N(rho x, s^2). On a piece
[a, b] the term u^n e^(l u) gives exp(l m + l^2 s^2/2) I_n, m = rho x, where I_n is the n-th moment of N(mu, s^2),
mu = m + l s^2, restricted to [a, b]:
    I_0 = Phi((b - mu)/s) - Phi((a - mu)/s),    I_n = mu I_{n-1} + (n-1) s^2 I_{n-2} - s^2 [u^(n-1) g(u)]_a^b,
g the density of N(mu, s^2) (integrate u^(n-1) (u - mu) g = -s^2 u^(n-1) g' by parts). Without a and b the brackets drop
out and S is an entire exponential polynomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .. import _tree as t
from .._algebra import as_polynomial
from .._tree import Node
from ._balls import constant
from ._boxes import box_exp, interval_square
from ._cover import Smooth
from ._flint import Ball, acb, arb, exact, natural_power
from ._growth import Growth, without_power
from ._ray import Bound, size

_MOST_TERMS, _MOST_POWERS = 24, 64


@dataclass(frozen=True)
class Term:
    """(sum of coefficients[n] u^n) exp(rate u)."""

    coefficients: tuple[Ball, ...]
    rate: Ball


def terms(u: Node) -> tuple[Term, ...] | None:
    """A tree as a sum of such terms, or None if it is none; constants at the working precision."""
    found = _terms(u)
    return None if found is None or len(found) > _MOST_TERMS else tuple(found)


def _terms(u: Node) -> list[Term] | None:
    if u.constant:
        return [Term((constant(u),), arb(0))]
    polynomial = as_polynomial(u, limit=_MOST_POWERS)
    if polynomial is not None:
        return [Term(tuple(exact(c) for c in polynomial), arb(0))]
    op, args = u.op, u.args
    if op in ("exp", "expm1"):
        line = as_polynomial(args[0], limit=1)
        if line is None:
            return None
        term = Term((exact(line[0]).exp(),), exact(line[1]))
        return [term] if op == "exp" else [term, Term((arb(-1),), arb(0))]
    if op == "div" and args[1].constant:
        return _terms(t.mul(t.div(t.ONE, args[1]), args[0]))
    if op == "He" and args[0].op == "x" and u.number <= _MOST_POWERS:
        return [Term(_hermite_powers(int(u.number)), arb(0))]
    if op == "pow" and u.number.denominator == 1 and 0 < u.number <= 8:
        return _terms(t.Node("mul", (args[0], t.power(args[0], u.number - 1))))
    if op not in ("add", "mul"):
        return None
    left, right = _terms(args[0]), _terms(args[1])
    if left is None or right is None:
        return None
    if op == "add":
        return left + right
    if len(left) * len(right) > _MOST_TERMS:
        return None
    return [Term(_convolved(p.coefficients, q.coefficients), p.rate + q.rate) for p in left for q in right]


def _convolved(p: Sequence[Ball], q: Sequence[Ball]) -> tuple[Ball, ...]:
    out = [arb(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return tuple(out)


def _hermite_powers(degree: int) -> tuple[Ball, ...]:
    before, now = [0], [1]
    for k in range(degree):  # monic: h_{k+1} = x h_k - k h_{k-1}
        following = [0, *now]
        for i, c in enumerate(before):
            following[i] -= k * c
        before, now = now, following
    norm = arb(degree).fac().sqrt()
    return tuple(arb(c) / norm for c in now)


def entire(parts: Sequence[Term], m: Any, variance: Ball) -> Any:
    """E of the terms at m + sqrt(variance) Z, m a ball or a complex box."""
    total = None
    for term in parts:
        mu = m + term.rate * variance
        below, now = 0, 1
        value = term.coefficients[0]
        for n, c in enumerate(term.coefficients[1:], start=1):
            below, now = now, mu * now + (n - 1) * variance * below
            value = value + c * now
        if not term.rate.is_zero():
            exponent = term.rate * m + term.rate * term.rate * variance / 2
            value = value * (box_exp(exponent) if isinstance(exponent, acb) else exponent.exp())
        total = value if total is None else total + value
    return total


class Smoothed:
    """S for a list of smooth pieces with their terms, and bounds of it in the complex plane."""

    def __init__(self, pieces: Sequence[tuple[Smooth, tuple[Term, ...]]], rho: Fraction, bound: Growth) -> None:
        self.pieces, self.rho = pieces, exact(rho)
        self.variance = exact(1 - rho * rho)
        self._deviation = self.variance.sqrt()
        self._root = (2 * self.variance).sqrt()
        self._norm = 1 / (2 * arb.pi() * self.variance).sqrt()
        self._ends = [(exact(p.low), exact(p.high)) for p, _ in pieces]
        self._envelope = envelope_of(bound)
        self._differences = [_both_sides(p.expr) for p, _ in pieces]

    def __call__(self, x: Ball) -> Ball:
        """S(x)."""
        m, total = self.rho * x, arb(0)
        for (_, parts), (low, high) in zip(self.pieces, self._ends, strict=True):
            for term in parts:
                total += self._restricted(term, m, low, high)
        return total

    def _restricted(self, term: Term, m: Ball, low: Ball, high: Ball) -> Ball:
        mu = m + term.rate * self.variance
        a, b = (low - mu) / self._root, (high - mu) / self._root
        at_low, at_high = (-a * a).exp() * self._norm, (-b * b).exp() * self._norm
        below, now = arb(0), (b.erf() - a.erf()) / 2
        value = term.coefficients[0] * now
        for n, c in enumerate(term.coefficients[1:], start=1):
            edge = self.variance * (natural_power(high, n - 1) * at_high - natural_power(low, n - 1) * at_low)
            below, now = now, mu * now + (n - 1) * self.variance * below - edge
            value += c * now
        return value * (term.rate * m + term.rate * term.rate * self.variance / 2).exp()

    def bound(self, x: Ball, y: Ball) -> Ball:
        """An upper bound of |S(x + iv)| for x in the ball and |v| <= y.

        The density of N(rho z, s^2) at real u has modulus N(u; rho x, s^2) exp(rho^2 v^2/(2 s^2)), so that factor
        times E|sigma(rho x + s Z)| is a bound. Away from the ends of the pieces S differs from the entire function
        P(z) = E p(rho z + s Z) of the local piece p by E (sigma - p)(rho z + s Z), which only sees u outside the
        piece: at most the same factor times the root of P(u outside) E (sigma - p)^2, and the probability is at most
        exp(-d^2/(2 s^2)) for either end at distance d.
        """
        m = self.rho * x
        lift = (self.rho * self.rho * y * y / (2 * self.variance)).exp()
        best = (lift * mean_bound(self._envelope, m, self.variance)).upper()
        for (_, parts), (low, high), own in zip(self.pieces, self._ends, self._differences, strict=True):
            left, right = (m - low).lower(), (high - m).lower()
            if own is None or not (left > 0 and right > 0):
                continue
            outside = (-left * left / (2 * self.variance)).exp() + (-right * right / (2 * self.variance)).exp()
            squares = sum((2 * mean_bound(_squared(e), m, self.variance) for e in (self._envelope, own)), start=arb(0))
            inside = entire(parts, acb(m, self.rho * arb(0, y)), self.variance)
            inside = abs(inside).upper() if not isinstance(inside, acb) else inside.abs_upper()
            local = (inside + lift * (outside * squares).sqrt()).upper()
            best = best.min(local) if local.is_finite() else best
        return best


Envelope = tuple[Ball, Ball, Ball]
"""A, B, Q of a bound A exp(B|u| + Q u^2) on the whole line."""


def envelope_of(bound: Growth) -> Envelope:
    return exact(Fraction(bound.A)), exact(Fraction(bound.B)), exact(Fraction(bound.Q))


def _squared(e: Envelope) -> Envelope:
    return e[0] * e[0], 2 * e[1], 2 * e[2]


def _both_sides(expr: Node) -> Envelope | None:
    found: list[Bound | None] = [size(u, arb(0)) for u in (expr, t.substitute(expr, t.neg(t.X)))]
    if found[0] is None or found[1] is None:
        return None
    joined = without_power(found[0].join(found[1]))
    return joined.a, joined.b.max(arb(0)), joined.q


def mean_bound(e: Envelope, m: Ball, variance: Ball) -> Ball:
    """An upper bound of E A exp(B|u| + Q u^2) for u = m + s Z; not finite if 2 Q s^2 >= 1.

    E exp(b u + Q u^2) = (1 - 2 Q s^2)^(-1/2) exp((Q m^2 + b m + b^2 s^2/2)/(1 - 2 Q s^2)), and exp(B|u|) is at most
    exp(Bu) + exp(-Bu).
    """
    a, b, q = e
    rest = 1 - 2 * q * variance
    if not rest > 0:
        return arb.pos_inf()
    square = interval_square(m)
    size_of_m = square.upper().sqrt()
    top = (q * square).upper() + b * size_of_m + b * b * variance / 2
    return (2 * a * (top / rest).exp() / rest.sqrt()).upper()
