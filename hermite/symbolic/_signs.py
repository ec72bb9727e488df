"""Signs of SymPy expressions, decided or asked for: the order of kinks and the direction of a gain depend on them."""

from __future__ import annotations

from functools import cmp_to_key

import sympy as sp

from ._terms import Expr


class Undetermined(Exception):
    """The sign of an expression with free symbols is not known; `symbol` if it is that of one symbol."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(f"the sign of {expr} is not known")
        self.expr = expr
        bare = expr.as_independent(*expr.free_symbols, as_Add=False)[1] if expr.free_symbols else expr
        self.symbol: Expr | None = bare if bare.is_Symbol else None


def sign_of(expr: Expr) -> int:
    """-1, 0 or 1; raises Undetermined where the assumptions on the symbols do not decide it."""
    expr = sp.sympify(expr)
    if expr.is_positive or expr == sp.oo:
        return 1
    if expr.is_negative or expr == -sp.oo:
        return -1
    if expr.is_zero:
        return 0
    if expr.free_symbols:
        simpler = sp.factor(expr)
        if simpler != expr and (simpler.is_positive or simpler.is_negative or simpler.is_zero):
            return 1 if simpler.is_positive else -1 if simpler.is_negative else 0
        raise Undetermined(simpler)
    number = expr.evalf(30, chop=True)
    if not number.is_comparable or abs(number) < sp.Float("1e-20"):
        return 0 if sp.simplify(expr) == 0 else int(sp.sign(expr.evalf(200)))
    return 1 if number > 0 else -1


def is_zero(expr: Expr) -> bool:
    """Whether an expression vanishes identically."""
    return bool(expr == 0 or sp.expand(expr) == 0)


def vanishes(expr: Expr) -> bool:
    """Whether an expression is 0: SymPy is asked only where its value at numbers for the symbols may be.

    evalf raises its precision until digits are significant, so a tiny number is told from 0.
    """
    values = {s: sp.Rational(7 + i, 5 + 2 * i) * (-1 if s.is_negative else 1) for i, s in enumerate(_listed(expr))}
    at = expr.subs(values)
    number = at.evalf(15, maxn=2000)
    if at.is_comparable and number.is_comparable and number != 0:
        return False
    return bool(expr == 0 or sp.expand(expr) == 0 or sp.simplify(expr) == 0)


def _listed(expr: Expr) -> list[Expr]:
    return sorted(expr.free_symbols, key=str)


def in_order(places: list[Expr]) -> list[Expr]:
    """The distinct places in increasing order; raises Undetermined."""
    return sorted(dict.fromkeys(places), key=cmp_to_key(_compare))


def _compare(a: Expr, b: Expr) -> int:
    return sign_of(a - b)
