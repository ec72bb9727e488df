"""Decimals of an enclosure in which every printed digit is proven.

The rule: the midpoint is rounded to a multiple of a unit u = 10^-k with 2 radius < u. The rounding moves it by at most
u/2 and the true value is within the radius, so printed and true value differ by less than u: one unit of the last
digit. The smallest such u is used, hence as many digits as this rule allows.
"""

from __future__ import annotations

from fractions import Fraction

EXACT_DIGITS = 50
"""Significant digits printed of an enclosure of radius 0 whose decimal does not end before."""


def decimal(low: Fraction, high: Fraction, digits: int | None = None) -> str:
    """The decimal of [low, high], at most `digits` significant ones; the interval itself if none is proven."""
    middle, radius = (low + high) / 2, (high - low) / 2
    places = _places_of(middle, EXACT_DIGITS) if radius == 0 else _places_within(radius)
    if digits is not None and middle:
        places = min(places, digits - 1 - _magnitude(middle))
    unit = _scaled(middle, places)
    if digits is not None and len(str(abs(unit))) > digits and unit:  # 9.99 has become 10.0
        places -= 1
        unit = _scaled(middle, places)
    if radius == 0:
        while unit and unit % 10 == 0 and places > 0:
            unit, places = unit // 10, places - 1
    if unit == 0 and not low <= 0 <= high:
        return f"[{_outward(low, -1)}, {_outward(high, 1)}]"
    return _written(unit, places)


def _magnitude(value: Fraction) -> int:
    """floor(log10 |value|)."""
    size = abs(value)
    guess = (size.numerator.bit_length() - size.denominator.bit_length()) * 30103 // 100000
    while _power(guess) > size:
        guess -= 1
    while _power(guess + 1) <= size:
        guess += 1
    return guess


def _power(k: int) -> Fraction:
    return Fraction(10**k) if k >= 0 else Fraction(1, 10**-k)


def _places_within(radius: Fraction) -> int:
    """The largest k with 2 radius < 10^-k."""
    k = -_magnitude(2 * radius) - 1
    return k if 2 * radius < _power(-k) else k - 1


def _places_of(value: Fraction, digits: int) -> int:
    return digits - 1 - _magnitude(value) if value else 0


def _scaled(value: Fraction, places: int) -> int:
    """value / 10^-places rounded to the nearest integer."""
    return round(value * _power(places))


def _written(unit: int, places: int) -> str:
    sign, body = ("-" if unit < 0 else ""), str(abs(unit))
    if unit == 0:
        return f"{0:.{places}f}" if 0 <= places <= 5 else f"0e{-places}"
    exponent = len(body) - 1 - places
    if places >= 0 and exponent >= -5:
        body = body.rjust(places + 1, "0")
        return sign + (f"{body[:-places]}.{body[-places:]}" if places else body)
    return f"{sign}{body[0]}{'.' + body[1:] if body[1:] else ''}e{exponent:+03d}"


def _outward(value: Fraction, side: int) -> str:
    """Three significant digits, rounded away from the interval."""
    if value == 0:
        return "0"
    places = _places_of(value, 3)
    scaled = value * _power(places)
    unit = scaled.numerator // scaled.denominator if side < 0 else -(-scaled.numerator // scaled.denominator)
    return _written(unit, places)


def proven_digits(low: Fraction, high: Fraction) -> int:
    """The largest d >= 0 with radius <= 10^-d |x| for every x in [low, high], radius > 0."""
    least, radius = (Fraction(0) if low <= 0 <= high else min(abs(low), abs(high))), (high - low) / 2
    return max(_magnitude(least / radius), 0) if least else 0
