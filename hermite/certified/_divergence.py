"""Provable divergence of E sigma^2: the leading term of a tree at infinity and at its singular points.

Near infinity, and near a singular point p in y = 1/(x - p), an elementary tree often is
c y^k exp(a y^2 + b y)(1 + o(1)) with c not 0. Where the rules below find this form the second moment is decided; None
means that they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .. import _tree as t
from .._activation import Activation
from .._algebra import as_polynomial, shifted
from .._tree import Node
from ._balls import constant
from ._flint import Ball, exact

_QUARTER = Fraction(1, 4)
_CONSTANT = (Fraction(0), Fraction(0), Fraction(0))  # the order of a function with a finite limit


@dataclass(frozen=True)
class Leading:
    """c y^k exp(a y^2 + b y)(1 + o(1)) for y -> infinity, the sign of c and its size known."""

    c: Ball
    k: Fraction = Fraction(0)
    b: Fraction = Fraction(0)
    a: Fraction = Fraction(0)

    @property
    def order(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.a, self.b, self.k

    def __mul__(self, other: Leading) -> Leading:
        return Leading(self.c * other.c, self.k + other.k, self.b + other.b, self.a + other.a)

    def power(self, p: Fraction) -> Leading | None:
        whole = p.denominator == 1
        if not whole and not self.c > 0:
            return None
        return Leading(self.c ** (int(p) if whole else exact(p)), self.k * p, self.b * p, self.a * p)


def leading(u: Node) -> Leading | None:
    """The leading term of a tree without splitting operations in x -> infinity."""
    op, args = u.op, u.args
    if op == "x":
        return Leading(exact(1), Fraction(1))
    if u.constant:
        value = constant(u)
        return Leading(value) if value > 0 or value < 0 else None
    if op == "exp":
        line = as_polynomial(args[0], limit=2)
        if line is not None:
            c, b, a = (*line, Fraction(0), Fraction(0))[:3]
            return Leading(exact(c).exp(), Fraction(0), b, a)
        inner = leading(args[0])
        return Leading(exact(1)) if inner is not None and inner.order < _CONSTANT else None
    parts = [leading(a) for a in args]
    if any(p is None for p in parts):
        return None
    first, last = parts[0], parts[-1]
    assert first is not None
    assert last is not None
    if op == "add":
        return _sum(first, last)
    if op == "mul":
        return first * last
    if op == "div":
        inverse = last.power(Fraction(-1))
        return None if inverse is None else first * inverse
    if op in ("pow", "sqrt"):
        return first.power(Fraction(1, 2) if op == "sqrt" else u.number)
    if first.order < _CONSTANT:  # the argument tends to 0
        if op in ("sin", "tanh", "arctan", "expm1", "log1p"):
            return first
        return Leading(exact(1)) if op == "cos" else Leading(exact(Fraction(1, 2))) if op == "sigmoid" else None
    if op in ("tanh", "sigmoid") and first.order > _CONSTANT and first.c > 0:
        return Leading(exact(1))
    return None


def _sum(p: Leading, q: Leading) -> Leading | None:
    if p.order != q.order:
        return p if p.order > q.order else q
    total = p.c + q.c
    return Leading(total, p.k, p.b, p.a) if total > 0 or total < 0 else None


def diverges(sigma: Activation) -> bool:
    """Whether E sigma^2 is proven infinite; the pieces are those that were derived."""
    pieces = sigma.pieces
    ends = [leading(pieces[-1].expr), leading(t.substitute(pieces[0].expr, t.neg(t.X)))]
    if any(e is not None and _too_large(e) for e in ends):
        return True
    for piece in pieces:
        for point, singular, side in (
            (piece.lower, piece.singular_lower, Fraction(1)),
            (piece.upper, piece.singular_upper, Fraction(-1)),
        ):
            if singular and isinstance(point.exact, Fraction):
                local = t.substitute(shifted(piece.expr, point.exact), t.div(t.num(side), t.X))
                term = leading(local)
                # the integral of |s|^(-2k) near 0 is infinite from k = 1/2 on
                if term is not None and term.order >= (0, 0, Fraction(1, 2)):
                    return True
    return False


def _too_large(term: Leading) -> bool:
    """c^2 y^(2k) exp(2b y + (2a - 1/2) y^2) is not integrable at infinity."""
    if term.a != _QUARTER:
        return term.a > _QUARTER
    return term.b > 0 or (term.b == 0 and 2 * term.k >= -1)
