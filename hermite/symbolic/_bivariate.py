"""E F(X) G(Y) for standard normal X, Y of correlation rho, as far as it is elementary (Price's theorem).

A factor without kinks and without erf is averaged over X given Y = y, X ~ N(rho y, s^2) with s^2 = 1 - rho^2: again a
member of the family in y, so one integral is left. Two factors with kinks at 0, or with erf, are differentiated down
to their kinks by Stein's identity E X F(X) G(Y) = E F'(X) G(Y) + rho E F(X) G'(Y); what is left at the bottom are
orthant probabilities and arcsines. Kinks elsewhere leave the bivariate normal integral, which has no closed form.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from ..errors import NoClosedFormError
from ._gaussian import absolute_moment, arcsine, integrate, moment
from ._split import Split, jumps
from ._terms import ONE, RHO, ZERO, Expr, Key, Terms, add_terms, multiply, scale_terms

oo = sp.oo
_S2 = 1 - RHO**2
_S = sp.sqrt(_S2)
_HEIGHT = 1 / sp.sqrt(2 * sp.pi)  # of the density at 0


def bivariate(first: Split, second: Split) -> Expr:
    """E first(X) second(Y) as an expression in RHO."""
    power = _power_pair(first, second)
    if power is not None:
        return power
    parts = []
    for place, f in _components(first):
        for other, g in _components(second):
            parts.append(_pair(place, f, other, g))
    return sp.Add(*parts)


def _components(split: Split) -> list[tuple[Expr | None, Terms]]:
    """Terms on the whole line (place None) and steps, those with erf apart from those without."""
    whole, steps = jumps(split)
    smooth = {key: c for key, c in whole.items() if not key.erfs}
    curved = {key: c for key, c in whole.items() if key.erfs}
    return [(None, part) for part in (smooth, curved) if part] + list(steps)


def _pair(place: Expr | None, f: Terms, other: Expr | None, g: Terms) -> Expr:
    for (p, u), (q, v) in (((place, f), (other, g)), ((other, g), (place, f))):
        if p is None and not any(key.erfs for key in u):
            low = -oo if q is None else q
            return sp.Add(*(c * integrate(multiply(_given(key), v), low, oo) for key, c in u.items()))
    return sp.Add(*(c * d * _kinked(place, k, other, m) for k, c in f.items() for m, d in g.items()))


@lru_cache(maxsize=512)
def _given(key: Key) -> Terms:
    """E[X^n exp(qX^2 + bX) | Y = y]: with D = 1 - 2 q s^2 the weighted X is normal of mean m = (rho y + b s^2)/D

    and variance s^2/D, and the weight is exp(q rho^2 y^2/D + b rho y/D + b^2 s^2/2D)/sqrt(D).
    """
    n, q, b, _ = key
    d = sp.expand(1 - 2 * q * _S2)
    mean = {Key(ONE, ZERO, ZERO): RHO / d, Key(ZERO, ZERO, ZERO): b * _S2 / d}
    before, now = dict[Key, Expr](), {Key(ZERO, ZERO, ZERO): ONE}
    for k in range(int(n)):
        before, now = now, add_terms(multiply(mean, now), scale_terms(k * _S2 / d, before))
    weight = Key(ZERO, q * RHO**2 / d, b * RHO / d)
    return multiply(now, {weight: sp.exp(sp.expand(b**2) * _S2 / (2 * d)) / sp.sqrt(d)})


def _kinked(place: Expr | None, k: Key, other: Expr | None, m: Key) -> Expr:
    """One term of each, both with a kink or an erf."""
    for where, key in ((place, k), (other, m)):
        simple = key.q == 0 and key.b == 0 and (where in (None, 0)) and not (where == 0 and key.erfs)
        if not simple or len(key.erfs) > 1 or any(h != 0 for _, h in key.erfs):
            raise NoClosedFormError(
                "no closed form: this dual needs the bivariate normal integral (distribution function), which is not "
                f"elementary for {_described(where, key)}"
            )
    return _stein(int(k.power), _root(place, k), int(m.power), _root(other, m))


def _described(where: Expr | None, key: Key) -> str:
    if where not in (None, 0):
        return f"a kink away from 0 (at x = {where})"
    if where == 0:
        return "a kink at 0 between pieces that are not polynomials"
    return "erf with a shift, or multiplied by erf or an exponential"


def _root(place: Expr | None, key: Key) -> Expr:
    """What is left of a term without its power: a step at 0 (oo) or erf(gx), named by g; sign(x) is erf(oo x)."""
    return oo if place == 0 else key.erfs[0][0]


@lru_cache(maxsize=4096)
def _stein(m: int, g: Expr, n: int, h: Expr) -> Expr:
    """E X^m u(X) Y^n v(Y), u and v steps at 0 (g = oo) or erf(gx), by Stein's identity in the higher power."""
    if m < n:
        return _stein(n, h, m, g)
    if m == 0:
        return _bottom(g, h)
    # X^m u = X F with F = X^(m-1) u: F' = (m-1) X^(m-2) u + X^(m-1) u'; the same in Y
    total = (m - 1) * _stein(m - 2, g, n, h) if m > 1 else ZERO
    total += _bump(m - 1, g, n, h)
    if n > 0:
        total += RHO * n * _stein(m - 1, g, n - 1, h)
    return total + RHO * _bump(n, h, m - 1, g)


def _bottom(g: Expr, h: Expr) -> Expr:
    """P(X > 0, Y > 0) = 1/4 + arcsin(rho)/2pi; E erf(gX) erf(hY) is an arcsine, and steps are its limits."""
    if g == oo and h == oo:
        return sp.Rational(1, 4) + sp.asin(RHO) / (2 * sp.pi)
    if oo in (g, h):
        finite = h if g == oo else g
        return sp.asin(sp.sqrt(2) * finite * RHO / sp.sqrt(sp.expand(1 + 2 * finite**2))) / sp.pi
    return 2 * arcsine(g, h, RHO) / sp.pi


def _bump(m: int, g: Expr, n: int, h: Expr) -> Expr:
    """E X^m u'(X) Y^n v(Y): u' is a delta at 0, or 2g/sqrt(pi) exp(-g^2 x^2)."""
    if g == oo:
        if m > 0:
            return ZERO
        return _HEIGHT * _at_zero(n, h)
    low = 0 if h == oo else -oo
    erfs = () if h == oo else ((h, ZERO),)
    average = _given(Key(sp.Integer(m), sp.expand(-(g**2)), ZERO))
    inner = multiply(average, {Key(sp.Integer(n), ZERO, ZERO, erfs): ONE})
    return 2 * g / sp.sqrt(sp.pi) * integrate(inner, sp.sympify(low), oo)


def _at_zero(n: int, h: Expr) -> Expr:
    """E Y^n v(Y) given X = 0: Y = s Z."""
    if h == oo:
        return _S**n * moment(Key(sp.Integer(n), ZERO, ZERO), ZERO, oo)
    return _S**n * moment(Key(sp.Integer(n), ZERO, ZERO, ((h * _S, ZERO),)), -oo, oo)


# ---- real powers of |x| -----------------------------------------------------------------------------------------


def _power_pair(first: Split, second: Split) -> Expr | None:
    """c |x|^p with its own constant on each side, both factors with one p: hypergeometric functions.

    From c_2m of |x|^p, C_p^2 sum (-p/2)_m^2/((1/2)_m m!) rho^(2m), and for sign(x)|x|^p
    p^2 C_(p-1)^2 sum ((1-p)/2)_m^2/((3/2)_m m!) rho^(2m+1), where C_p = E|X|^p.
    """
    one, other = _one_power(first), _one_power(second)
    if one is None or other is None:
        # a real power elsewhere would be met by a rule that does not know it
        if any(not key.power.is_Integer for s in (first, second) for part in s.terms() for key in part.terms):
            raise NoClosedFormError("no closed form: real powers of |x| have a dual with the same power only")
        return None
    (p, a, b), (q, c, d) = one, other
    if p != q:
        raise NoClosedFormError("no closed form: real powers of |x| have a dual with the same power only")
    even, odd = (a + b) * (c + d) / 4, (b - a) * (d - c) / 4
    half, third = sp.Rational(1, 2), sp.Rational(3, 2)
    total = even * absolute_moment(p) ** 2 * sp.hyper([-p / 2, -p / 2], [half], RHO**2) if even != 0 else ZERO
    if odd != 0:
        total += odd * p**2 * absolute_moment(p - 1) ** 2 * RHO * sp.hyper([(1 - p) / 2] * 2, [third], RHO**2)
    return total


def _one_power(split: Split) -> tuple[Expr, Expr, Expr] | None:
    """(p, constant on the left, constant on the right) if sigma is c |x|^p with a real p on both sides."""
    if split.places != (ZERO,):
        return None
    found: dict[int, Expr] = {}
    powers = set()
    for part in split.terms():
        if len(part.terms) != 1:
            return None
        ((key, c),) = part.terms.items()
        if key.power.is_Integer or key.q != 0 or key.b != 0 or key.erfs:
            return None
        powers.add(key.power)
        found[part.side] = c
    return (powers.pop(), found.get(-1, ZERO), found.get(1, ZERO)) if len(powers) == 1 else None
