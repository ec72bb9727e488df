"""Integrals of the family against the standard normal density, over intervals: the only integration rules there are.

Completing the square turns exp(q x^2 + b x) phi(x) into K times the density of N(mu, v), with p = 1 - 2q,
v = 1/p, mu = b/p, K = exp(b^2/2p)/sqrt(p). Moments follow from Stein's identity E (Y - mu) F(Y) = v E F'(Y).
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from ..errors import NoClosedFormError, NotSquareIntegrableError
from ._signs import is_zero, sign_of
from ._terms import ONE, RHO, Expr, Key, Terms

oo = sp.oo
_ROOT_2PI = sp.sqrt(2 * sp.pi)


def integrate(terms: Terms, lower: Expr, upper: Expr) -> Expr:
    """E of the sum over lower < X < upper."""
    return sp.Add(*(c * moment(key, lower, upper) for key, c in terms.items()))


def require_square_integrable(terms: Terms, lower: Expr, upper: Expr) -> None:
    """Refuse terms whose squares have no Gaussian integral; erf is bounded, so the exponents alone decide."""
    unbounded = oo in (upper, -lower)
    for key in terms:
        if unbounded and sign_of(1 - 4 * sp.re(key.q)) <= 0:
            raise NotSquareIntegrableError("the activation grows like exp(x^2/4): it is not square-integrable")
        if not key.power.is_Integer and sign_of(2 * key.power + 1) <= 0:
            raise NotSquareIntegrableError(f"x**({key.power}) is not square-integrable at 0")


@lru_cache(maxsize=4096)
def moment(key: Key, lower: Expr, upper: Expr) -> Expr:
    """E X^n exp(q X^2 + b X) erf(...)... on lower < X < upper."""
    p = sp.expand(1 - 2 * key.q)
    # in a dual E f(X) g(Y) is finite for every rho once E f^2 and E g^2 are, which the caller has seen to
    if oo in (upper, -lower) and sign_of(sp.re(p).subs(RHO, 0)) <= 0:
        raise NotSquareIntegrableError("the activation grows too fast: its integral against N(0, 1) diverges")
    if not key.power.is_Integer:
        return _real_moment(key, p, lower, upper)
    n = int(key.power)
    if key.erfs:
        return _with_erf(n, key, lower, upper)
    v, mu = 1 / p, key.b / p
    return _scale(key.b, p) * truncated(n, mu, v, lower, upper)


def _scale(b: Expr, p: Expr) -> Expr:
    return sp.exp(sp.expand(b**2) / (2 * p)) / sp.sqrt(p)


@lru_cache(maxsize=4096)
def truncated(n: int, mu: Expr, v: Expr, lower: Expr, upper: Expr) -> Expr:
    """E Y^n 1[lower < Y < upper] for Y ~ N(mu, v): M_n = mu M_{n-1} + (n-1) v M_{n-2} - v [y^{n-1} density]."""
    if n == 0:
        return _mass(mu, v, lower, upper)
    out = mu * truncated(n - 1, mu, v, lower, upper)
    if n > 1:
        out += (n - 1) * v * truncated(n - 2, mu, v, lower, upper)
    for end, side in ((upper, 1), (lower, -1)):
        if end not in (oo, -oo) and not (end == 0 and n > 1):
            height = ONE if n == 1 else end ** (n - 1)
            out -= side * v * height * density(end, mu, v)
    return sp.expand(out)


def density(y: Expr, mu: Expr, v: Expr) -> Expr:
    """Density of N(mu, v) at y."""
    return sp.exp(-sp.expand((y - mu) ** 2) / (2 * v)) / (_ROOT_2PI * sp.sqrt(v))


def _mass(mu: Expr, v: Expr, lower: Expr, upper: Expr) -> Expr:
    """P(lower < Y < upper); tails as erfc, which keep their digits far out."""
    low, high = ((e - mu) / sp.sqrt(2 * v) if e not in (oo, -oo) else e for e in (lower, upper))
    if lower == -oo and upper == oo:
        return ONE
    if lower == -oo:
        return sp.erfc(-high) / 2 if high != 0 else sp.Rational(1, 2)
    if upper == oo:
        return sp.erfc(low) / 2 if low != 0 else sp.Rational(1, 2)
    return (sp.erf(high) - sp.erf(low)) / 2


def _real_moment(key: Key, p: Expr, lower: Expr, upper: Expr) -> Expr:
    """E X^r exp(q X^2) on (0, oo): 2^{r/2} Gamma((r+1)/2) / (2 sqrt(pi)) p^{-(r+1)/2}."""
    if key.b != 0 or key.erfs or (lower, upper) != (0, oo):
        raise NoClosedFormError("no closed form: a real power of |x| is integrated on half-lines from 0 only")
    r = key.power
    if sign_of(r + 1) <= 0:
        raise NotSquareIntegrableError(f"|x|**({r}) is not integrable at 0")
    return absolute_moment(r) / 2 * p ** (-(r + 1) / 2)


def absolute_moment(r: Expr) -> Expr:
    """E |X|^r."""
    return 2 ** (r / 2) * sp.gamma((r + 1) / 2) / sp.sqrt(sp.pi)


def _with_erf(n: int, key: Key, lower: Expr, upper: Expr) -> Expr:
    whole = lower == -oo and upper == oo
    centred = is_zero(key.b) and all(is_zero(h) for _, h in key.erfs)
    if len(key.erfs) == 1 and whole:
        return _one_erf(n, key.q, key.b, *key.erfs[0])
    if len(key.erfs) == 1 and centred and (lower, upper) in ((0, oo), (-oo, 0)):
        # y -> -y turns the left half into the right one
        side = 1 if upper == oo else (-1) ** (n + 1)
        return side * _half_erf(n, key.q, key.erfs[0][0])
    if len(key.erfs) == 2 and whole and centred:
        return _two_erfs(n, key.q, key.erfs[0][0], key.erfs[1][0])
    raise NoClosedFormError(
        "no closed form: products of erf with a shift, with another erf off the centre, or on an interval need the "
        "bivariate normal integral (Owen's T)"
    )


def _one_erf(n: int, q: Expr, b: Expr, g: Expr, h: Expr) -> Expr:
    """E Y^n erf(gY + h): W_0 = erf((g mu + h)/sqrt(1 + 2 g^2 v)); Stein for the powers."""
    p = sp.expand(1 - 2 * q)
    v, mu, scale = 1 / p, b / p, _scale(b, p)
    if n == 0:
        return scale * sp.erf(sp.together(g * mu + h) / sp.sqrt(sp.together(1 + 2 * g**2 * v)))
    out = mu * _one_erf(n - 1, q, b, g, h)
    if n > 1:
        out += (n - 1) * v * _one_erf(n - 2, q, b, g, h)
    bump = Key(sp.Integer(n - 1), sp.expand(q - g**2), sp.expand(b - 2 * g * h))
    return out + v * 2 * g / sp.sqrt(sp.pi) * sp.exp(-(h**2)) * moment(bump, -oo, oo)


def _half_erf(n: int, q: Expr, g: Expr) -> Expr:
    """On (0, oo), centred: P(0 < Y) share of erf is arctan(sqrt(2 v) g)/pi; the boundary term of Stein vanishes."""
    p = sp.expand(1 - 2 * q)
    if n == 0:
        return sp.atan(sp.sqrt(2 / p) * g) / (sp.pi * sp.sqrt(p))
    out = (n - 1) / p * _half_erf(n - 2, q, g) if n > 1 else sp.Integer(0)
    return out + 2 * g / (sp.sqrt(sp.pi) * p) * moment(
        Key(sp.Integer(n - 1), sp.expand(q - g**2), sp.Integer(0)), 0, oo
    )


def _two_erfs(n: int, q: Expr, g: Expr, h: Expr) -> Expr:
    """E Y^n erf(gY) erf(hY), centred: n = 0 is 2/pi arcsin(2ghv/sqrt((1 + 2g^2 v)(1 + 2h^2 v)))."""
    p = sp.expand(1 - 2 * q)
    if n % 2:
        return sp.Integer(0)
    if n == 0:
        return 2 * arcsine(g, h, ONE, p) / (sp.pi * sp.sqrt(p))
    out = (n - 1) / p * _two_erfs(n - 2, q, g, h)
    for first, second in ((g, h), (h, g)):
        out += 2 * first / (sp.sqrt(sp.pi) * p) * _one_erf(n - 1, sp.expand(q - first**2), ONE * 0, second, ONE * 0)
    return out


def arcsine(g: Expr, h: Expr, rho: Expr, p: Expr = ONE) -> Expr:
    """arcsin(2 g h rho/sqrt((p + 2g^2)(p + 2h^2))), simplified when g = h; p > 0, so the root is real."""
    if g == h:
        return sp.asin(sp.cancel(2 * g**2 / (p + 2 * g**2)) * rho)
    return sp.asin(2 * g * h * rho / (sp.sqrt(sp.expand(p + 2 * g**2)) * sp.sqrt(sp.expand(p + 2 * h**2))))
