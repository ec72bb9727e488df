"""The family of functions whose Gaussian integrals are elementary: sums of x^n exp(q x^2 + b x) products of erf.

A smooth piece of an activation, as a SymPy expression, is read into a `Terms` dictionary; products, derivatives and
values stay inside the family. What lies outside raises NoClosedFormError. Imported by the other files of the package.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import sympy as sp

from ..errors import NoClosedFormError

Expr: TypeAlias = Any
MAX_TERMS = 4000


class Key(NamedTuple):
    """x^power exp(q x^2 + b x) times erf(g x + h) for each (g, h) of erfs."""

    power: Expr
    q: Expr
    b: Expr
    erfs: tuple[tuple[Expr, Expr], ...] = ()

    @property
    def polynomial(self) -> bool:
        return self.q == 0 and self.b == 0 and not self.erfs and bool(self.power.is_Integer)


Terms: TypeAlias = dict[Key, Expr]

# the names of this package: they travel between processes, which a Dummy does not survive
X = sp.Symbol("_x", real=True)  # the variable of every activation
RHO = sp.Symbol("_rho", real=True)  # a correlation in [-1, 1]
K = sp.Symbol("_k", integer=True, nonnegative=True)  # an index
ZERO, ONE = sp.Integer(0), sp.Integer(1)
_UNIT = Key(ZERO, ZERO, ZERO)


def no_rule(what: str) -> NoClosedFormError:
    """The refusal of something outside the family."""
    return NoClosedFormError(
        f"no closed form: {what} is outside the family polynomial x exp(quadratic) x sin/cos x erf on intervals; "
        "hermite.multiprecision and hermite.certified compute it to any number of digits"
    )


def add_terms(*sums: Terms) -> Terms:
    """The sum; terms that cancel are dropped."""
    out: Terms = {}
    for terms in sums:
        for key, c in terms.items():
            out[key] = out[key] + c if key in out else c
    return {key: value for key, c in out.items() if (value := _constant(c)) != 0}


def _constant(c: Expr) -> Expr:
    return c if c.is_Rational else sp.expand(c)


def scale_terms(c: Expr, terms: Terms) -> Terms:
    """c times the sum."""
    return {key: c * value for key, value in terms.items()} if c != 0 else {}


def multiply(first: Terms, second: Terms) -> Terms:
    """The product of two sums."""
    if len(first) * len(second) > MAX_TERMS**2 // 16:
        raise no_rule("a product of so many terms")
    out: Terms = {}
    for k, c in first.items():
        for m, d in second.items():
            key = Key(
                k.power + m.power, _exponent(k.q + m.q), _exponent(k.b + m.b), _ordered((*k.erfs, *m.erfs))
            )  # fmt: skip
            out[key] = out.get(key, ZERO) + c * d
    return add_terms(out)


def _exponent(e: Expr) -> Expr:
    return sp.cancel(e) if e.has(RHO) else sp.expand(e)


def _ordered(erfs: tuple[tuple[Expr, Expr], ...]) -> tuple[tuple[Expr, Expr], ...]:
    return tuple(sorted(erfs, key=lambda pair: sp.default_sort_key(sp.Tuple(*pair))))


def derivative(terms: Terms) -> Terms:
    """d/dx, by the product rule; erf(gx + h)' = 2g/sqrt(pi) exp(-(gx + h)^2)."""
    parts: list[Terms] = []
    for key, c in terms.items():
        n, q, b, erfs = key
        if n != 0:
            parts.append({Key(n - 1, q, b, erfs): c * n})
        parts += [{Key(n + 1, q, b, erfs): 2 * c * q}, {Key(n, q, b, erfs): c * b}]
        for i, (g, h) in enumerate(erfs):
            rest = erfs[:i] + erfs[i + 1 :]
            key = Key(n, sp.expand(q - g**2), sp.expand(b - 2 * g * h), rest)
            parts.append({key: c * 2 * g / sp.sqrt(sp.pi) * sp.exp(-(h**2))})
    return add_terms(*parts)


def value(terms: Terms, x: Expr) -> Expr:
    """The sum at x."""
    return sp.Add(*(c * value_of(key, x) for key, c in terms.items()))


def value_of(key: Key, x: Expr) -> Expr:
    """x^n exp(q x^2 + b x) erf... at x."""
    power = ONE if key.power == 0 else x**key.power
    return power * sp.exp(key.q * x**2 + key.b * x) * sp.Mul(*(sp.erf(g * x + h) for g, h in key.erfs))


def read(expr: Expr, positive: bool = False) -> Terms:
    """The terms of a smooth expression in X; positive: whether x > 0 on the piece, so that real powers make sense."""
    if not expr.has(X):
        return add_terms({_UNIT: expr})
    if expr == X:
        return {Key(ONE, ZERO, ZERO): ONE}
    if expr.is_Add:
        return add_terms(*(read(a, positive) for a in expr.args))
    if expr.is_Mul:
        out: Terms = {_UNIT: ONE}
        for factor in expr.args:
            out = multiply(out, read(factor, positive))
        return out
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return _power(read(expr.base, positive), int(expr.exp))
    if expr.is_Pow and not expr.exp.has(X):
        return _real_power(expr.base, expr.exp, positive)
    if expr.is_Pow and not expr.base.has(X):
        return _exponential(expr.exp * sp.log(expr.base))
    return _function(expr, positive)


def _power(terms: Terms, n: int) -> Terms:
    out: Terms = {_UNIT: ONE}
    while n:
        if n & 1:
            out = multiply(out, terms)
        n >>= 1
        terms = multiply(terms, terms) if n else terms
    return out


def _real_power(base: Expr, exponent: Expr, positive: bool) -> Terms:
    """(c x)^p with x > 0 on the piece: c^p x^p."""
    c = sp.cancel(base / X)
    if c.has(X) or not positive:
        raise no_rule(f"({shown(base)})**({exponent})")
    return {Key(exponent, ZERO, ZERO): c**exponent}


def _function(expr: Expr, positive: bool) -> Terms:
    if isinstance(expr, sp.exp):
        return _exponential(expr.args[0])
    if isinstance(expr, (sp.sin, sp.cos)):
        up, down = (_exponential(s * sp.I * expr.args[0]) for s in (1, -1))
        if isinstance(expr, sp.cos):
            return scale_terms(sp.Rational(1, 2), add_terms(up, down))
        return scale_terms(-sp.I / 2, add_terms(up, scale_terms(sp.Integer(-1), down)))
    if isinstance(expr, (sp.sinh, sp.cosh)):
        return read(expr.rewrite(sp.exp), positive)
    if isinstance(expr, sp.erfc):
        return add_terms({_UNIT: ONE}, scale_terms(sp.Integer(-1), read(sp.erf(expr.args[0]), positive)))
    if isinstance(expr, sp.erf):
        line = quadratic(expr.args[0])
        if line is not None and line[2] == 0:
            return _error_function(line[1], line[0])
    raise no_rule(shown(expr))


def _error_function(g: Expr, h: Expr) -> Terms:
    if g.could_extract_minus_sign():  # erf is odd: one spelling for each pair
        return {Key(ZERO, ZERO, ZERO, ((-g, -h),)): sp.Integer(-1)}
    return {Key(ZERO, ZERO, ZERO, ((g, h),)): ONE}


def _exponential(exponent: Expr) -> Terms:
    parts = quadratic(exponent)
    if parts is None:
        raise no_rule(f"exp({shown(exponent)})")
    c, b, q = parts
    return {Key(ZERO, q, b): sp.exp(c)}


def quadratic(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    """(c, b, q) of q x^2 + b x + c, or None."""
    try:
        poly = sp.Poly(sp.expand(expr), X)
    except sp.PolynomialError:
        return None
    if poly.degree() > 2:
        return None
    c, b, q = (poly.coeff_monomial(X**k) for k in range(3))
    return c, b, q


def shown(expr: Expr) -> str:
    """An expression with its variable as x."""
    return str(expr.xreplace({X: sp.Symbol("x")}))
