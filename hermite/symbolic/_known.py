"""Moments known in closed form that the rules of the family do not reach, with their source.

Softsign is c x/(a + |x|): division leaves g(a) = integral over (0, oo) of phi(x)/(x + a), the Goodwin-Staton integral,
    g = exp(-a^2/2) (pi erfi(a/sqrt 2) - Ei(a^2/2)) / (2 sqrt(2 pi)),     DLMF 7.2.12 and 7.5.13,
and by parts the integral of phi/(x + a)^2 is phi(0)/a - 1/2 + a g.
"""

from __future__ import annotations

import sympy as sp

from ._signs import sign_of
from ._split import Split
from ._terms import Expr, X


def known_moments(split: Split) -> tuple[Expr, Expr, Expr] | None:
    """(c_0, c_1, E sigma^2), or None."""
    found = _softsign(split)
    if found is None:
        return None
    a, c = found
    density = 1 / sp.sqrt(2 * sp.pi)
    g = sp.exp(-(a**2) / 2) * (sp.pi * sp.erfi(a / sp.sqrt(2)) - sp.Ei(a**2 / 2)) / (2 * sp.sqrt(2 * sp.pi))
    # x^2/(x + a) = x - a + a^2/(x + a);  x^2/(x + a)^2 = 1 - 2a/(x + a) + a^2/(x + a)^2
    first = 2 * c * (density - a / 2 + a**2 * g)
    second = 2 * c**2 * (sp.Rational(1, 2) - 2 * a * g + a**2 * (density / a - sp.Rational(1, 2) + a * g))
    return sp.Integer(0), sp.expand(first), sp.expand(second)


def _softsign(split: Split) -> tuple[Expr, Expr] | None:
    """(a, c) if sigma is c x/(a + |x|) with a > 0."""
    if split.places != (0,):
        return None
    left, right = (sp.cancel(piece / X) for piece in split.pieces)
    top, bottom = sp.fraction(right)
    linear = not top.has(X) and bottom.is_polynomial(X) and sp.degree(bottom, X) == 1
    if not linear or sp.cancel(left.subs(X, -X) - right) != 0:
        return None
    slope, constant = sp.Poly(bottom, X).all_coeffs()
    a = sp.cancel(constant / slope)
    return (a, sp.cancel(top / slope)) if sign_of(a) > 0 else None
