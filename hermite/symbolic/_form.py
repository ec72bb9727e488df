"""From a correct expression to one that a paper would print: real, collected, and no longer than it must be.

Only rewriting that ends quickly is used; what comes out is checked against quadrature by the caller like any answer.
"""

from __future__ import annotations

import sympy as sp

from ._signs import Undetermined, sign_of
from ._terms import ONE, RHO, Expr

_SMALL = 60  # operations up to which sympy.simplify is worth its time


def real_part(expr: Expr) -> Expr:
    """The real part of an expression whose symbols are real; its terms come in conjugate pairs."""
    if not expr.has(sp.I):
        return expr
    polar = expr.replace(lambda e: isinstance(e, sp.exp) and e.has(sp.I), _polar)
    unit = sp.Dummy("i")
    try:
        poly = sp.Poly(sp.expand(polar.xreplace({sp.I: unit})), unit)
    except sp.PolynomialError:
        return sp.re(sp.expand(polar))
    return sp.Add(*((-1) ** (m // 2) * c for (m,), c in poly.terms() if m % 2 == 0))


def _polar(e: Expr) -> Expr:
    re, im = sp.expand(e.args[0]).as_real_imag()
    return sp.exp(re) * (sp.cos(im) + sp.I * sp.sin(im))


def tidy(expr: Expr) -> Expr:
    """The shortest of a few equivalent forms."""
    expr = real_part(expr)
    forms = _forms(expr)
    best = min(forms, key=_size)
    if _size(best)[0] <= _SMALL and not best.has(sp.Ei, sp.erfi, sp.hyper):  # there simplify is slow and finds nothing
        forms += [sp.simplify(best), sp.factor(sp.powsimp(best)), sp.factor(sp.together(best))]
    return _upright(min(forms, key=_size))


def _upright(expr: Expr) -> Expr:
    """(3 pi - 4)/(2 pi - 2) rather than (4 - 3 pi)/(2 - 2 pi)."""
    top, bottom = sp.fraction(expr)
    if not bottom.is_number or not bottom.is_negative or not expr.is_Mul:
        return expr
    return sp.factor_terms(-sp.expand(top)) / sp.factor_terms(-sp.expand(bottom))


def tidy_formula(expr: Expr) -> Expr:
    """The same for a formula in an index: without simplify, which turns double factorials into Gamma functions."""
    return min(_forms(real_part(expr)), key=_size)


def merged_roots(expr: Expr) -> Expr:
    """Products of square roots as one root, term by term: what stands under a root here is positive."""
    return _walk(expr.replace(_is_root, lambda e: sp.cancel(sp.together(e.base)) ** e.exp))


def _walk(expr: Expr) -> Expr:
    if expr.is_Add:
        return sp.Add(*map(_walk, expr.args))
    sums = [f for f in sp.Mul.make_args(expr) if f.is_Add]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(expr) if not f.is_Add))
    return sp.Mul(_merge(sp.factor(sp.together(rest))), *map(_walk, sums))


def _is_root(e: Expr) -> bool:
    return bool(e.is_Pow and e.exp.is_Rational and e.exp.q == 2 and e.base.free_symbols)


def _merge(term: Expr) -> Expr:
    inside, outside = ONE, []
    for factor in sp.Mul.make_args(term):
        if _is_root(factor):
            inside *= factor.base ** (2 * factor.exp)
        else:
            outside.append(factor)
    top, bottom = (_root(side) for side in sp.fraction(sp.cancel(sp.together(inside))))
    return term if top is None or bottom is None else sp.Mul(*outside) * top / bottom


def _root(square: Expr) -> Expr | None:
    """sqrt |polynomial| with even powers taken out; None where a sign is not known."""
    content, factors = sp.factor_list(square)
    out, left = sp.sqrt(abs(content)), ONE
    for base, power in factors:
        side = _sign_inside(base)
        if side == 0:
            return None
        out *= (side * base) ** (power // 2)
        left *= (side * base) ** (power % 2)
    return out * sp.sqrt(sp.expand(left))


def _sign_inside(base: Expr) -> int:
    """The sign of a factor that vanishes nowhere for |rho| < 1; 0 if the assumptions do not tell."""
    try:
        return sign_of(base.subs(RHO, sp.Rational(1, 3)))
    except Undetermined:
        return 0


def _forms(expr: Expr) -> list[Expr]:
    if any(map(_is_root, expr.atoms(sp.Pow))):
        expr = merged_roots(expr)
    plain = sp.expand(expr)
    if plain.has(sp.erf) and plain.has(sp.erfc):
        return [f for kind in (sp.erf, sp.erfc) for f in _shorter(expr, sp.expand(plain.rewrite(kind)))]
    if plain.has(sp.exp):
        return [*_shorter(expr, plain), *_shorter(*(_hyperbolic(e) for e in (expr, plain)))]
    return _shorter(expr, plain)


def _hyperbolic(expr: Expr) -> Expr:
    """exp(a + u) as exp(a)(cosh u + sinh u) for u with symbols, so that exp(u) - exp(-u) is seen."""

    def split(e: Expr) -> Expr:
        a, u = sp.expand(e.args[0]).as_independent(*e.free_symbols, as_Add=True)
        return sp.exp(a) * (sp.cosh(u) + sp.sinh(u))

    return sp.expand(expr.replace(lambda e: isinstance(e, sp.exp) and e.free_symbols, split))


def _shorter(expr: Expr, plain: Expr) -> list[Expr]:
    factored = sp.factor_terms(plain)
    return [expr, plain, factored, sp.powsimp(factored), sp.powsimp(plain), sp.factor(plain)]


def _size(expr: Expr) -> tuple[int, int, str]:
    """Operations, with a fine on fractions inside denominators."""
    below = sum(e.base.has(sp.Pow) and any(_is_fraction(p) for p in sp.Add.make_args(e.base)) for e in _fractions(expr))
    return (int(sp.count_ops(expr)) + 5 * below, len(str(expr)), str(expr))


def _fractions(expr: Expr) -> list[Expr]:
    return [e for e in sp.preorder_traversal(expr) if e.is_Pow and e.exp.is_Rational and e.exp < 0 and e.base.is_Add]


def _is_fraction(term: Expr) -> bool:
    return bool(sp.fraction(term)[1].has(sp.pi) or not sp.fraction(term)[1].is_number)
