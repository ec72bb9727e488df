"""Elementary functions on wide complex boxes: bounds that a box of the size of a quadrature panel still gets.

FLINT's functions are made for narrow boxes: on a box of width 2 its tanh is nan, though no pole is near. These
enclosures go through the ends of the real and imaginary parts. A non-finite answer means: a pole or a branch cut may
meet the box. Boxes lie in the closed upper half plane where they can: every tree has real coefficients, so what is
proven there holds for the mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ._flint import Ball, Box, acb, arb, exact, hull, natural_power

NOWHERE = acb(arb.nan(), arb.nan())
CRAMER = Fraction(10865, 10000)
"""|He_k(x)| <= 1.0864... exp(x^2/4) for the normalised probabilists' polynomials on the real line (Cramer)."""


def _box(z: Any) -> Box:
    return z if isinstance(z, acb) else acb(z)


def finite_or_nowhere(z: Any) -> Any:
    """nan for whatever is infinite, because a nan survives every later operation."""
    return z if z.is_finite() else NOWHERE


def interval_exp(x: Ball) -> Ball:
    return hull(x.lower().exp(), x.upper().exp())


def interval_square(x: Ball) -> Ball:
    low, high = abs(x.lower()), abs(x.upper())
    top = high * high if high >= low else low * low
    inside = not (x > 0 or x < 0)
    least = low if low <= high else high
    return hull(arb(0) if inside else least * least, top)


def interval_product(a: Ball, b: Ball) -> Ball:
    """From the corners; FLINT's product of two wide balls may reach far beyond, to the other side of 0."""
    corners = [p * q for p in (a.lower(), a.upper()) for q in (b.lower(), b.upper())]
    total = corners[0]
    for corner in corners[1:]:
        total = total.union(corner)
    return total


def _clipped(x: Ball) -> Ball:
    """A value known to lie in [-1, 1] besides."""
    low, high = x.lower(), x.upper()
    return hull(low if low > -1 else arb(-1), high if high < 1 else arb(1))


def inverse(z: Any) -> Box:
    """1/z = conj(z)/|z|^2 with |z|^2 from the ends; non-finite if 0 may be in the box."""
    w = _box(z)
    size = interval_square(w.real) + interval_square(w.imag)
    low, high = size.lower(), size.upper()
    if not low > 0:
        return NOWHERE
    factor = hull(1 / high, 1 / low)
    return acb(interval_product(w.real, factor), interval_product(-w.imag, factor))


def box_exp(z: Any) -> Box:
    w = _box(z)
    size = interval_exp(w.real)
    return acb(*(interval_product(size, _clipped(part)) for part in (w.imag.cos(), w.imag.sin())))


def _expm1(z: Any) -> Box:
    return box_exp(z) - 1


def _log(z: Any) -> Box:
    """log z = log|z| + i arg z off the cut (-inf, 0]."""
    w = _box(z)
    if not w.real > 0:
        return w.log(analytic=True)
    size = interval_square(w.real) + interval_square(w.imag)
    if not size.lower() > 0:
        return NOWHERE
    # on the right half plane arg = atan(y/x) is monotone in both, so the corners bound it
    corners = [(y / x).atan() for x in (w.real.lower(), w.real.upper()) for y in (w.imag.lower(), w.imag.upper())]
    angle = corners[0]
    for corner in corners[1:]:
        angle = angle.union(corner)
    return acb(hull(size.lower().log() / 2, size.upper().log() / 2), angle)


def _log1p(z: Any) -> Box:
    return _log(1 + z)


def _tanh(z: Any) -> Box:
    """tanh z = (1 - w)/(1 + w), w = exp(-2 z), away from the imaginary axis, else a bound of its modulus.

    |tanh(x + iy)|^2 = (C - c)/(C + c) with C = cosh 2x >= 1, c = cos 2y. For c >= 0 it is at most 1; for c < 0 it falls
    in C and in c. A pole is a zero of C + c.
    """
    w = _box(z)
    if w.real > exact(Fraction(1, 4)):
        e = box_exp(-2 * w)
        return 1 - 2 * e * inverse(1 + e)
    if w.real < exact(Fraction(-1, 4)):
        e = box_exp(2 * w)
        return 2 * e * inverse(1 + e) - 1
    nearest = arb(0) if not (w.real > 0 or w.real < 0) else abs(w.real).lower()
    c_low, big = _clipped((2 * w.imag).cos()).lower(), (2 * nearest).cosh().lower()
    if not big + c_low > 0:
        return NOWHERE
    top = arb(1)
    if c_low < 0:
        top = _larger(top, ((big - c_low) / (big + c_low)).sqrt().upper())
    e = box_exp(2 * w)
    direct = (e - 1) * inverse(e + 1)
    if direct.is_finite() and direct.abs_upper() <= top:
        return direct
    return acb(arb(0, top), arb(0, top))


def _larger(a: Ball, b: Ball) -> Ball:
    return a if a >= b else b


def _sigmoid(z: Any) -> Box:
    """exp(z)/(1 + exp(z)), small where exp(z) is; near the imaginary axis (1 + tanh(z/2))/2."""
    w = _box(z)
    if w.real < exact(Fraction(-1, 2)):
        e = box_exp(w)
        return e * inverse(1 + e)
    return inverse(1 + box_exp(-w)) if w.real > exact(Fraction(1, 2)) else (1 + _tanh(w / 2)) / 2


def box_softplus(z: Any) -> Box:
    """log(1 + exp z); where Re z > 0 as z + log(1 + exp(-z)), the same function and no cut in the way."""
    w = _box(z)
    return w + _log1p(box_exp(-w)) if w.real > 0 else _log1p(box_exp(w))


def _erf(z: Any) -> Box:
    """erf(m) and the mean value theorem: |erf'(x + iy)| = 2/sqrt(pi) exp(y^2 - x^2)."""
    w = _box(z)
    top, least = interval_square(w.imag).upper(), interval_square(w.real).lower()
    slope = 2 * ((top - least).exp() / arb.pi().sqrt()).upper()
    reach = (slope * (acb(arb(0, w.real.rad()), arb(0, w.imag.rad()))).abs_upper()).upper()
    return acb(w.real.mid(), w.imag.mid()).erf() + acb(arb(0, reach), arb(0, reach))


def _arctan(z: Any) -> Box:
    """arctan z; its cuts are the imaginary axis from i up and from -i down."""
    w = _box(z)
    if not (w.real > 0 or w.real < 0) and not (w.imag < 1 and w.imag > -1):
        return NOWHERE
    value = w.atan()
    if value.is_finite():
        return value
    # arctan z is z times the mean of 1/(1 + t^2 z^2) over t in [0, 1]; a box is convex, so it holds the mean
    return w * inverse(1 + acb(hull(arb(0), arb(1))) * (w * w))


def _sqrt(z: Any) -> Box:
    return _box(z).sqrt(analytic=True)


def box_power(z: Any, p: Fraction) -> Box:
    w = _box(z)
    if p.denominator != 1:
        return w.pow(acb(exact(p)), analytic=True)
    return natural_power(w, int(p)) if p > 0 else inverse(natural_power(w, int(-p)))


def box_hermite(z: Any, degree: int) -> Box:
    """|He_k(x + iy)| <= 1.0865 exp(x^2/4 + sqrt(k) |y|), and <= (1 + |z|)^k by induction over the recurrence.

    He_k(x + iy) = sum over j of C(k, j)^(1/2) (iy)^j/sqrt(j!) He_{k-j}(x) (Taylor, He_k' = sqrt(k) He_{k-1}), Cramer's
    bound for every term, and C(k, j)/j! <= k^j/j!^2 leave the exponential series.
    """
    w = _box(z)
    x2, y = interval_square(w.real).upper(), _larger(abs(w.imag.lower()), abs(w.imag.upper()))
    top = (exact(CRAMER) * (x2 / 4 + arb(degree).sqrt() * y).exp()).min((1 + w.abs_upper()) ** degree).upper()
    return acb(arb(0, top), arb(0, top))


BOX_FUNCTIONS: Mapping[str, Callable[[Any], Box]] = {
    "exp": box_exp,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "sin": lambda z: _box(z).sin(),
    "cos": lambda z: _box(z).cos(),
    "tanh": _tanh,
    "arctan": _arctan,
    "erf": _erf,
    "sigmoid": _sigmoid,
}
