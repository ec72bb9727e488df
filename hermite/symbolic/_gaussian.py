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
    try:
        return sp.Add(*(c * moment(key, lower, upper) for key, c in terms.items()))
    except NotSquareIntegrableError:
        _refuse_differences(terms)
        raise


def require_square_integrable(terms: Terms, lower: Expr, upper: Expr) -> None:
    """Refuse terms whose squares have no Gaussian integral; erf is bounded, so the exponents alone decide."""
    unbounded = oo in (upper, -lower)
    for key in terms:
        if unbounded and sign_of(1 - 4 * sp.re(key.q)) <= 0:
            _refuse_differences(terms)
            raise NotSquareIntegrableError("not square-integrable under N(0, 1): it grows like exp(x**2/4) or faster")
        if not key.power.is_Integer and sign_of(2 * key.power + 1) <= 0:
            raise NotSquareIntegrableError(f"not square-integrable under N(0, 1): x**({key.power}) is too large at 0")


def _refuse_differences(terms: Terms) -> None:
    """exp(x^2) (1 - erf x) is bounded although its terms are not."""
    if any(key.erfs for key in terms):
        raise NoClosedFormError("no closed form: terms that grow too fast one by one may cancel with erf")


@lru_cache(maxsize=4096)
def moment(key: Key, lower: Expr, upper: Expr) -> Expr:
    """E X^n exp(q X^2 + b X) erf(...)... on lower < X < upper."""
    p = sp.expand(1 - 2 * key.q)
    unbounded = oo in (upper, -lower)
    # in a dual E f(X) g(Y) is finite for every rho once E f^2 and E g^2 are, which the caller has seen to
    growth = sign_of(sp.re(p).subs(RHO, 0))
    if unbounded and growth <= 0:
        raise NotSquareIntegrableError("not square-integrable under N(0, 1): the integral diverges")
    if key.power.is_negative and sign_of(key.power + 1) <= 0:
        raise NotSquareIntegrableError(f"not square-integrable under N(0, 1): x**({key.power}) has a pole at 0")
    if not key.power.is_Integer:
        return _real_moment(key, p, lower, upper)
    n = int(key.power)
    if key.erfs:
        return _with_erf(n, key, lower, upper)
    if growth <= 0:
        return _growing(n, -p / 2, key.b, lower, upper) / _ROOT_2PI
    v, mu = 1 / p, key.b / p
    return _scale(key.b, p) * truncated(n, mu, v, lower, upper)


def _growing(n: int, a: Expr, b: Expr, lower: Expr, upper: Expr) -> Expr:
    """Integral of x^n exp(a x^2 + b x) over a bounded interval, a >= 0, by parts down to erfi or exp."""
    if a == 0 and b == 0:
        return (upper ** (n + 1) - lower ** (n + 1)) / (n + 1)

    def at(x: Expr, power: int) -> Expr:
        return (x**power if power else ONE) * sp.exp(a * x**2 + b * x)

    if a == 0:
        rest = n * _growing(n - 1, a, b, lower, upper) if n else 0
        return (at(upper, n) - at(lower, n) - rest) / b
    if n == 0:
        root = sp.sqrt(a)
        ends = [sp.erfi(root * x + b / (2 * root)) for x in (upper, lower)]
        return sp.sqrt(sp.pi) / (2 * root) * sp.exp(-(b**2) / (4 * a)) * (ends[0] - ends[1])
    rest = b * _growing(n - 1, a, b, lower, upper)
    rest += (n - 1) * _growing(n - 2, a, b, lower, upper) if n > 1 else 0
    return (at(upper, n - 1) - at(lower, n - 1) - rest) / (2 * a)


def _scale(b: Expr, p: Expr) -> Expr:
    square = sp.expand(b**2) / (2 * p)
    return sp.exp(sp.cancel(square) if square.has(RHO) else square) / sp.sqrt(p)


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
    if len(key.erfs) == 2 and centred and (lower, upper) in ((0, oo), (-oo, 0)):
        side = 1 if upper == oo else (-1) ** n
        return side * _half_two_erfs(n, key.q, key.erfs[0][0], key.erfs[1][0])
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


def _half_two_erfs(n: int, q: Expr, g: Expr, h: Expr) -> Expr:
    """On (0, oo), centred: half of the whole line for even n; odd n leave a bump and one erf by Stein."""
    if n % 2 == 0:
        return _two_erfs(n, q, g, h) / 2
    p = sp.expand(1 - 2 * q)
    out = (n - 1) / p * _half_two_erfs(n - 2, q, g, h) if n > 1 else sp.Integer(0)
    for first, second in ((g, h), (h, g)):
        out += 2 * first / (sp.sqrt(sp.pi) * p) * _half_erf(n - 1, sp.expand(q - first**2), second)
    return out


def arcsine(g: Expr, h: Expr, rho: Expr, p: Expr = ONE) -> Expr:
    """arcsin(2 g h rho/sqrt((p + 2g^2)(p + 2h^2))), simplified when g = h; p > 0, so the root is real."""
    if g == h:
        return sp.asin(sp.cancel(2 * g**2 / (p + 2 * g**2)) * rho)
    return sp.asin(2 * g * h * rho / (sp.sqrt(sp.expand(p + 2 * g**2)) * sp.sqrt(sp.expand(p + 2 * h**2))))
