"""From a correct expression to one that a paper would print: real, collected, and no longer than it must be.

Only rewriting that ends quickly is used; what comes out is checked against quadrature by the caller like any answer.
"""

from __future__ import annotations

import sympy as sp

from ._complex_erf import complex_erf
from ._signs import Undetermined, sign_of
from ._terms import ONE, RHO, ZERO, Expr

_SPECIAL = (sp.erf, sp.erfc, sp.erfi, sp.Ei, sp.hyper)
_POWERS = 8  # of one number exp(q) that may stand in a formula as powers
_LARGE = 90  # operations beyond which an expression is left as it is
_SMALL = 60  # operations up to which sympy.simplify is worth its time


def real_part(expr: Expr) -> Expr:
    """The real part of an expression whose symbols are real; its terms come in conjugate pairs."""
    if not expr.has(sp.I):
        return expr
    whole = _parts(sp.powsimp(sp.expand_mul(expr), combine="exp"))
    return sp.re(expr) if whole is None else whole[0]


def _parts(expr: Expr) -> tuple[Expr, Expr] | None:
    """(real part, imaginary part) as expressions without the imaginary unit, or None."""
    plain = expr.xreplace({e: _summed(e) for e in expr.atoms(sp.Sum)})
    plain = plain.replace(_is_complex_erf, _without_complex).replace(_is_complex_exp, _polar)
    sums = {e: sp.Dummy(real=True) for e in plain.atoms(sp.Sum)}
    unit = sp.Dummy("i")
    try:
        poly = sp.Poly(sp.expand(plain.xreplace(sums).xreplace({sp.I: unit})), unit)
    except sp.PolynomialError:
        return None
    sides = [ZERO, ZERO]
    for (m,), c in poly.terms():
        sides[m % 2] += (-1) ** (m // 2) * c
    if any(side.has(unit) for side in sides):
        return None
    back = {d: e for e, d in sums.items()}
    return sides[0].xreplace(back), sides[1].xreplace(back)


def _summed(total: Expr) -> Expr:
    """A sum as the sums of its real and its imaginary parts."""
    parts = _parts(total.function)
    if parts is None:
        return total
    return sp.Add(
        *(unit * sp.Sum(part, *total.limits) for unit, part in zip((1, sp.I), parts, strict=True) if part != 0)
    )


def _is_complex_exp(e: Expr) -> bool:
    return isinstance(e, sp.exp) and e.has(sp.I)


def _is_complex_erf(e: Expr) -> bool:
    return isinstance(e, (sp.erf, sp.erfc)) and e.has(sp.I)


def _without_complex(e: Expr) -> Expr:
    found = complex_erf(e.args[0])
    return found if isinstance(e, sp.erf) else 1 - found


def _polar(e: Expr) -> Expr:
    re, im = sp.expand(e.args[0]).as_real_imag()
    return sp.exp(re) * (sp.cos(im) + sp.I * sp.sin(im))


def tidy(expr: Expr) -> Expr:
    """The shortest of a few equivalent forms."""
    expr, found = real_part(expr), []
    if expr.has(RHO) and expr.has(sp.exp):
        expr = sp.powsimp(sp.expand_mul(expr), combine="exp").replace(
            lambda e: isinstance(e, sp.exp) and e.has(RHO),
            lambda e: sp.exp(sp.factor(sp.cancel(sp.together(e.args[0])))),
        )
    if any(map(_is_root, expr.atoms(sp.Pow))):
        expr = merged_roots(expr)
    if sp.count_ops(expr) > (_LARGE if expr.has(*_SPECIAL) else 3 * _LARGE):
        return expr
    for spelled in _spellings(expr):
        frozen, names = _frozen(spelled)
        forms = _forms(frozen)
        best = min(forms, key=_size)
        if _size(best)[0] <= _SMALL and not spelled.has(*_SPECIAL):  # there simplify is slow and finds nothing
            forms += [sp.simplify(best), sp.factor(sp.powsimp(best)), sp.factor(sp.together(best))]
        found += [form.xreplace(names) for form in forms]
    return _upright(min(found, key=_size))


def _spellings(expr: Expr) -> list[Expr]:
    """With erf alone and with erfc alone where both stand in it."""
    if not (expr.has(sp.erf) and expr.has(sp.erfc)):
        return [expr]
    return [sp.expand(expr.rewrite(kind)) for kind in (sp.erf, sp.erfc)]


def _frozen(expr: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """Numbers like erf(1/7) and exp(-289/162) as positive symbols, and the way back.

    SymPy evaluates the former again and again to learn signs. Of exp(-289/162) and exp(-25/162) its polynomials make
    powers of exp(1/162), of degrees in the hundreds, and do not come back.
    """
    numbers = [e for e in expr.atoms(sp.erf, sp.erfc) if e.is_number]
    powers = [e for e in expr.atoms(sp.exp) if e.args[0].is_Rational]
    unit = sp.gcd([e.args[0] for e in powers]) if powers else ONE
    if any(abs(e.args[0] / unit) > _POWERS for e in powers):
        numbers += powers
    names = {e: sp.Dummy(f"f{i}", positive=True) for i, e in enumerate(sorted(numbers, key=str))}
    return expr.xreplace(names), {d: e for e, d in names.items()}


def _upright(expr: Expr) -> Expr:
    """(3 pi - 4)/(2 pi - 2) rather than (4 - 3 pi)/(2 - 2 pi)."""
    top, bottom = sp.fraction(expr)
    if not bottom.is_number or not bottom.is_negative or not expr.is_Mul:
        return expr
    return sp.factor_terms(-sp.expand(top)) / sp.factor_terms(-sp.expand(bottom))


def tidy_formula(expr: Expr) -> Expr:
    """The same for a formula in an index: without simplify, which turns double factorials into Gamma functions."""
    found = []
    for spelled in _spellings(real_part(expr)):
        frozen, names = _frozen(spelled)
        found += [form.xreplace(names) for form in _forms(frozen)]
    return min(found, key=_size)


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
    if top is None or bottom is None:
        return term
    # what came out of the roots may cancel with what stood beside them
    factors = sp.Mul.make_args(sp.Mul(*outside) * top / bottom)
    rational = [f for f in factors if f.free_symbols and f.is_rational_function(*f.free_symbols)]
    return sp.Mul(*(f for f in factors if f not in rational)) * sp.factor(sp.cancel(sp.Mul(*rational)))


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
    plain = sp.expand(expr)
    if plain.has(sp.exp):
        waves = _hyperbolic(plain)
        return [*_shorter(expr, plain), *([] if waves.has(sp.exp) and waves.free_symbols else _shorter(waves, waves))]
    return _shorter(expr, plain)


def _hyperbolic(expr: Expr) -> Expr:
    """exp(a + u) as exp(a)(cosh u + sinh u) for u with symbols, so that exp(u) - exp(-u) is seen."""

    def split(e: Expr) -> Expr:
        a, u = sp.expand(e.args[0]).as_independent(*e.free_symbols, as_Add=True)
        return sp.exp(a) * (sp.cosh(u) + sp.sinh(u))

    return sp.expand(expr.replace(lambda e: isinstance(e, sp.exp) and e.free_symbols, split))


def _shorter(expr: Expr, plain: Expr) -> list[Expr]:
    factored = sp.factor_terms(plain)
    forms = [expr, plain, factored, sp.powsimp(factored), sp.powsimp(plain)]
    if sp.count_ops(plain) <= _SMALL:
        forms.append(sp.factor(plain))
    constant, rest = expr.as_independent(*expr.free_symbols, as_Add=True) if expr.free_symbols else (ZERO, expr)
    if not expr.free_symbols:
        constant, rest = expr.as_coeff_Add()
    if sp.count_ops(rest) <= _SMALL:
        forms.append(constant + sp.factor_terms(sp.together(rest)))  # 2 - c/d keeps its 2
    return forms


def _size(expr: Expr) -> tuple[int, int, str]:
    """Operations, with a fine on fractions inside denominators."""
    below = sum(any(sp.fraction(term)[1] != 1 for term in sp.Add.make_args(e.base)) for e in _denominators(expr))
    return (int(sp.count_ops(expr)) + 5 * below, len(str(expr)), str(expr))


def _denominators(expr: Expr) -> list[Expr]:
    return [e for e in sp.preorder_traversal(expr) if e.is_Pow and e.exp.is_Rational and e.exp < 0 and e.base.is_Add]
