"""Numbers between two rationals: logarithms and square roots with proven ends, and as many digits as decide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

from bounds._sides import Sides

__all__ = ["Between", "gamma_between", "gamma_minus_between", "log_between", "settled", "sqrt_between"]

Rational: TypeAlias = Fraction | int

_DIGITS = 40
_MOST_DIGITS = 5000


@dataclass(frozen=True)
class Between:
    """low <= true value <= high."""

    low: Fraction
    high: Fraction

    @classmethod
    def exactly(cls, value: Rational) -> Between:
        return cls(Fraction(value), Fraction(value))

    @property
    def middle(self) -> Fraction:
        return (self.low + self.high) / 2

    @property
    def radius(self) -> Fraction:
        return (self.high - self.low) / 2

    def __add__(self, other: Between | Rational) -> Between:
        right = other if isinstance(other, Between) else Between.exactly(other)
        return Between(self.low + right.low, self.high + right.high)

    def __rmul__(self, factor: Rational) -> Between:
        ends = sorted((factor * self.low, factor * self.high))
        return Between(*ends)

    def __sub__(self, other: Between | Rational) -> Between:
        return self + -1 * (other if isinstance(other, Between) else Between.exactly(other))

    def through(self, increasing: Callable[[Fraction], Between]) -> Between:
        """Its values under an increasing function of rationals."""
        return Between(increasing(self.low).low, increasing(self.high).high)


def log_between(q: Rational, digits: int) -> Between:
    """log q for q > 0.

    `decimal` rounds each operation correctly: the quotient is off by 10^(1-digits)/2 of itself, which the logarithm
    makes absolute, and the logarithm by as much of itself; twice their sum leaves room for second orders.
    """
    with localcontext(Context(prec=digits)):
        found = Fraction((Decimal(q.numerator) / Decimal(q.denominator)).ln())
    bar = (1 + abs(found)) / Fraction(10) ** (digits - 1)
    return Between(found - bar, found + bar)


def sqrt_between(q: Rational, digits: int) -> Between:
    """The square root of q >= 0, relatively to about 10^-digits, and exactly where it is rational."""
    q = Fraction(q)
    top, bottom = math.isqrt(q.numerator), math.isqrt(q.denominator)
    if top * top == q.numerator and bottom * bottom == q.denominator:
        return Between.exactly(Fraction(top, bottom))
    # q 4^k has at least 8 bits for each digit, and its integer root half of them
    k = max(0, (8 * digits + q.denominator.bit_length() - q.numerator.bit_length()) // 2 + 1)
    floor = math.isqrt((q.numerator << 2 * k) // q.denominator)
    return Between(Fraction(floor, 1 << k), Fraction(floor + 1, 1 << k))


def gamma_between(n: int, mu: Rational, digits: int) -> Between:
    """Gamma_n(mu) for 0 <= mu < 1, see `_gamma`."""
    logs = (n - 1) * log_between(1 - mu, digits) + log_between(1 + (n - 1) * mu, digits)
    return Fraction(-1, n) * logs


def gamma_minus_between(n: int, t: Rational, digits: int) -> Between:
    """Gamma_n^-(t) for 0 <= t < 1/(n-1)."""
    logs = (n - 1) * log_between(1 + t, digits) + log_between(1 - (n - 1) * t, digits)
    return Fraction(-1, n) * logs


def settled(sides: Callable[[int], tuple[Between, Between]], *, most_digits: int = _MOST_DIGITS) -> Sides:
    """Both sides with as many digits as decide, and show, their difference; for sides that are not equal.

    Equal sides would go on for ever: there the last error bar, which leaves the claim undecided, is the answer.
    """
    digits = _DIGITS
    while True:
        lhs, rhs = sides(digits)
        slack = rhs - lhs
        if not slack.radius or abs(slack.middle) > 10**17 * slack.radius or 2 * digits > most_digits:
            return Sides(lhs.middle, rhs.middle, slack.radius, slack.middle)
        digits *= 2
