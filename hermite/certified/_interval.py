"""Interval arithmetic on exact dyadic ends, rounded outward: the engine of `Enclosure`.

Sums, products, quotients and integer powers come from mpmath's directed roundings at the ends; a square of an interval
that holds 0 starts at 0. So x (1 - x) on [0, w] has the lower end 0 exactly, which a midpoint-radius ball would miss.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mpmath import libmp

from ._flint import Dyadic

Pair = tuple[Dyadic, Dyadic]


def normal(point: Dyadic) -> Dyadic:
    """man odd or 0: equal numbers have equal records."""
    man, exp = point
    if man == 0:
        return 0, 0
    zeros = (man & -man).bit_length() - 1
    return man >> zeros, exp + zeros


def fraction(point: Dyadic) -> Fraction:
    man, exp = point
    return Fraction(man << exp) if exp >= 0 else Fraction(man, 1 << -exp)


def raw(point: Dyadic) -> Any:
    """mpmath's tuple for the same number."""
    return libmp.from_man_exp(*point)


def point(value: Any) -> Dyadic:
    sign, man, exp, _ = value
    return (-int(man) if sign else int(man)), int(exp)


def rounded(q: Fraction, bits: int, direction: str) -> Dyadic:
    """A rational number down ("f") or up ("c") to so many bits; a dyadic one (a float, an mpf) stays what it is."""
    power = q.denominator.bit_length() - 1
    if q.denominator == 1 << power:
        return normal((q.numerator, -power))
    return point(libmp.mpf_div(libmp.from_int(q.numerator), libmp.from_int(q.denominator), bits, direction))


def less(a: Dyadic, b: Dyadic) -> bool:
    return bool(libmp.mpf_lt(raw(a), raw(b)))


def less_equal(a: Dyadic, b: Dyadic) -> bool:
    return bool(libmp.mpf_le(raw(a), raw(b)))


def total(a: Pair, b: Pair, bits: int) -> Pair:
    """a + b."""
    low = libmp.mpf_add(raw(a[0]), raw(b[0]), bits, "f")
    return point(low), point(libmp.mpf_add(raw(a[1]), raw(b[1]), bits, "c"))


def negative(a: Pair) -> Pair:
    """-a."""
    (low, e), (high, f) = a
    return (-high, f), (-low, e)


def product(a: Pair, b: Pair, bits: int) -> Pair:
    """a b, for independent factors."""
    ends = [libmp.mpf_mul(raw(p), raw(q)) for p in a for q in b]
    return _least(ends, bits), _greatest(ends, bits)


def quotient(a: Pair, b: Pair, bits: int) -> Pair:
    """a / b; ZeroDivisionError if b may be 0."""
    if b[0][0] <= 0 <= b[1][0]:
        raise ZeroDivisionError("division by an enclosure that holds 0")
    pairs = [(raw(p), raw(q)) for p in a for q in b]
    low = _least([libmp.mpf_div(p, q, bits, "f") for p, q in pairs], bits)
    return low, _greatest([libmp.mpf_div(p, q, bits, "c") for p, q in pairs], bits)


def natural_power(a: Pair, n: int, bits: int) -> Pair:
    """a^n for n >= 1."""
    low, high = a if n % 2 else absolute(a)
    return point(libmp.mpf_pow_int(raw(low), n, bits, "f")), point(libmp.mpf_pow_int(raw(high), n, bits, "c"))


def absolute(a: Pair) -> Pair:
    """|a|."""
    if a[0][0] >= 0:
        return a
    mirrored = negative(a)
    return mirrored if a[1][0] <= 0 else ((0, 0), a[1] if less(mirrored[1], a[1]) else mirrored[1])


def _least(values: list[Any], bits: int) -> Dyadic:
    out = values[0]
    for v in values[1:]:
        out = v if libmp.mpf_lt(v, out) else out
    return point(libmp.mpf_pos(out, bits, "f"))


def _greatest(values: list[Any], bits: int) -> Dyadic:
    out = values[0]
    for v in values[1:]:
        out = v if libmp.mpf_gt(v, out) else out
    return point(libmp.mpf_pos(out, bits, "c"))
