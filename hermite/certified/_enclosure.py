"""Enclosure: a number known to lie between two exact ends, with arithmetic that keeps the promise.

The ends are stored as integers man * 2**exp, so an enclosure means the same whatever the precision of FLINT or mpmath
is when it is read, printed or used. Sums and products round their exact ends outward; monotone functions are enclosed
at both ends; FLINT's balls do the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import mpmath
from mpmath import libmp

from .._numbers import as_fraction
from ._decimal import decimal, proven_digits
from ._flint import Ball, Dyadic, arb, between, dyadic, exact, precision
from ._interval import (
    Pair,
    absolute,
    fraction,
    less,
    less_equal,
    natural_power,
    negative,
    normal,
    product,
    quotient,
    raw,
    rounded,
    total,
)

_MOST_BITS = 8192
least_bits: ContextVar[int] = ContextVar("least_bits", default=128)
"""Bits with which enclosures compute at least; `is_positive` sets it for the functions it calls."""


@dataclass(frozen=True, repr=False)
class Enclosure:
    """A real number proven to lie in [lower, upper]; ends, midpoint and radius are exact `mpmath.mpf` numbers.

    Made by the verbs of `hermite.certified`, by `Enclosure.of(number)` and `Enclosure.between(low, high)`. `in` asks
    whether a number (int, Fraction, float, mpf, decimal text; floats and text mean their decimal) or another enclosure
    lies inside. `<`, `<=`, `>`, `>=` answer only when the answer is certain and raise ValueError otherwise; `==`
    compares the records. `str` prints the proven digits: what is printed differs from the true value by less than one
    unit of its last digit. + - * / ** and `exp log sqrt sin cos tanh arctan erf arcsin arccos expm1 log1p` enclose
    their exact results; they work with the bits of their operands, at least 128.

    >>> third = Enclosure.of(1) / 3
    >>> print(third), third.digits, "1/3" in third
    0.33333333333333333333333333333333333333
    (None, 38, True)
    """

    _low: Dyadic
    _high: Dyadic

    @classmethod
    def of(cls, value: Any) -> Enclosure:
        """The narrowest handy enclosure of one number, exact where 128 bits hold it."""
        if isinstance(value, Enclosure):
            return value
        q = as_fraction(value, "value")
        return cls.between(q, q)

    @classmethod
    def between(cls, low: Any, high: Any) -> Enclosure:
        """The enclosure of every number from low to high."""
        a, b = as_fraction(low, "low"), as_fraction(high, "high")
        if a > b:
            raise ValueError(f"low must not exceed high, got low={low!r}, high={high!r}")
        return cls(rounded(a, least_bits.get(), "f"), rounded(b, least_bits.get(), "c"))

    @classmethod
    def pi(cls) -> Enclosure:
        """pi, to 128 bits at least."""
        with precision(least_bits.get()):
            return cls.from_ball(arb.pi())

    @classmethod
    def from_ball(cls, ball: Ball) -> Enclosure:
        """The ends of a finite FLINT ball, outward at the working precision."""
        if not ball.is_finite():
            raise ValueError(f"an enclosure needs a finite ball, got {ball}")
        return cls(normal(dyadic(ball.lower())), normal(dyadic(ball.upper())))

    def ball(self) -> Ball:
        """A FLINT ball around the enclosure, at the working precision."""
        return between(fraction(self._low), fraction(self._high))

    # ---- what is known ------------------------------------------------------------------------------------

    @property
    def lower(self) -> Any:
        """The lower end, an exact mpf."""
        return mpmath.mp.make_mpf(raw(self._low))

    @property
    def upper(self) -> Any:
        """The upper end, an exact mpf."""
        return mpmath.mp.make_mpf(raw(self._high))

    @property
    def midpoint(self) -> Any:
        """(lower + upper)/2, an exact mpf."""
        return mpmath.mp.make_mpf(libmp.mpf_shift(libmp.mpf_add(raw(self._low), raw(self._high)), -1))

    @property
    def radius(self) -> Any:
        """(upper - lower)/2, an exact mpf."""
        return mpmath.mp.make_mpf(libmp.mpf_shift(libmp.mpf_sub(raw(self._high), raw(self._low)), -1))

    def spread(self) -> Enclosure:
        """The radius as an enclosure, for ratios of errors of any size."""
        width = total((self._high, self._high), negative((self._low, self._low)), self._bits)
        return Enclosure(*product(width, ((1, -1), (1, -1)), self._bits))

    @property
    def digits(self) -> float:
        """Proven significant digits: the largest d with radius <= 10^-d |x| for all x inside; inf for radius 0."""
        if self._low == self._high:
            return math.inf
        return proven_digits(fraction(self._low), fraction(self._high))

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, Enclosure):
            return less_equal(self._low, value._low) and less_equal(value._high, self._high)
        return fraction(self._low) <= as_fraction(value, "value") <= fraction(self._high)

    def __float__(self) -> float:
        return float(self.midpoint)

    def clipped(self, low: Any = None, high: Any = None) -> Enclosure:
        """The part in [low, high], for a number that is known to lie there by a theorem."""
        a = self._low if low is None else max(self._low, Enclosure.of(low)._low, key=fraction)
        b = self._high if high is None else min(self._high, Enclosure.of(high)._high, key=fraction)
        if fraction(a) > fraction(b):
            raise ValueError(f"{self!r} has no part in [{low}, {high}]")
        return Enclosure(a, b)

    # ---- order --------------------------------------------------------------------------------------------

    def _ordered(self, other: Any, symbol: str) -> bool:
        that = Enclosure.of(other)
        strict = len(symbol) == 1
        low, high = (self, that) if symbol[0] == "<" else (that, self)
        if (less if strict else less_equal)(low._high, high._low):
            return True
        if (less_equal if strict else less)(high._high, low._low):
            return False
        raise ValueError(f"{self!r} {symbol} {other!r} is undecided: the enclosures meet; ask for more digits")

    def __lt__(self, other: Any) -> bool:
        return self._ordered(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._ordered(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return self._ordered(other, ">")

    def __ge__(self, other: Any) -> bool:
        return self._ordered(other, ">=")

    # ---- text ---------------------------------------------------------------------------------------------

    def decimal(self, digits: int | None = None) -> str:
        """The proven decimal with at most `digits` significant digits.

        >>> Enclosure.between("0.33332", "0.33334").decimal(), Enclosure.between(1, 3).decimal()
        ('0.3333', '[1.00, 3.00]')
        """
        return decimal(fraction(self._low), fraction(self._high), digits)

    def __str__(self) -> str:
        return self.decimal()

    def __repr__(self) -> str:
        return f"Enclosure({self.decimal()} +/- {mpmath.nstr(self.radius, 3)})"

    def latex(self, digits: int | None = None) -> str:
        """The proven decimal as LaTeX, without dollar signs."""
        mantissa, e, exponent = self.decimal(digits).partition("e")
        return f"{mantissa} \\times 10^{{{int(exponent)}}}" if e else mantissa

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"

    # ---- arithmetic ---------------------------------------------------------------------------------------

    @property
    def _bits(self) -> int:
        longest = max(self._low[0].bit_length(), self._high[0].bit_length())
        return min(max(longest, least_bits.get()), _MOST_BITS)

    @property
    def _pair(self) -> Pair:
        return self._low, self._high

    def _with(self, other: Any, operation: Callable[[Pair, Pair, int], Pair]) -> Any:
        if callable(other) or isinstance(other, (list, tuple, dict)):
            return NotImplemented
        that = Enclosure.of(other)
        return Enclosure(*operation(self._pair, that._pair, max(self._bits, that._bits)))

    def __neg__(self) -> Enclosure:
        return Enclosure(*negative(self._pair))

    def __pos__(self) -> Enclosure:
        return self

    def __abs__(self) -> Enclosure:
        return Enclosure(*absolute(self._pair))

    def __add__(self, other: Any) -> Any:
        return self._with(other, total)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b, bits: total(a, negative(b), bits))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b, bits: total(b, negative(a), bits))

    def __mul__(self, other: Any) -> Any:
        # one and the same number twice: a square
        return self**2 if other is self else self._with(other, product)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, quotient)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b, bits: quotient(b, a, bits))

    def __pow__(self, exponent: Any) -> Enclosure:
        p = as_fraction(exponent, "exponent")
        if p == 0:
            return Enclosure.of(1)
        if p < 0:
            return Enclosure(*quotient(Enclosure.of(1)._pair, (self**-p)._pair, self._bits))
        if p.denominator == 1:
            return Enclosure(*natural_power(self._pair, int(p), self._bits))
        if self._low[0] < 0:
            raise ValueError(f"{self!r} ** {p} needs a base that is not negative")
        return self._monotone(lambda x: x if x.is_zero() else x ** exact(p), "a fractional power")

    def exp(self) -> Enclosure:
        """e to this power; ValueError beyond e^10^6, which would be written out."""
        if abs(self.lower) > 10**6 or abs(self.upper) > 10**6:
            raise ValueError(f"exp of {self} is out of range: exponents are limited to 10^6")
        return self._monotone(lambda x: x.exp(), "exp")

    def expm1(self) -> Enclosure:
        """e to this power less 1."""
        return self._monotone(lambda x: x.expm1(), "expm1")

    def log(self) -> Enclosure:
        """The natural logarithm; ValueError unless the enclosure is positive."""
        return self._monotone(lambda x: x.log(), "log")

    def log1p(self) -> Enclosure:
        """log(1 + x)."""
        return self._monotone(lambda x: x.log1p(), "log1p")

    def sqrt(self) -> Enclosure:
        """The square root; ValueError unless the enclosure is non-negative."""
        return self._monotone(lambda x: x.sqrt(), "sqrt")

    def tanh(self) -> Enclosure:
        """The hyperbolic tangent."""
        return self._monotone(lambda x: x.tanh(), "tanh")

    def arctan(self) -> Enclosure:
        """The inverse tangent."""
        return self._monotone(lambda x: x.atan(), "arctan")

    def erf(self) -> Enclosure:
        """The error function."""
        return self._monotone(lambda x: x.erf(), "erf")

    def arcsin(self) -> Enclosure:
        """The inverse sine; ValueError outside [-1, 1]."""
        return self._monotone(lambda x: x.asin(), "arcsin")

    def arccos(self) -> Enclosure:
        """The inverse cosine; ValueError outside [-1, 1]."""
        return -self._monotone(lambda x: -x.acos(), "arccos")  # -arccos rises

    def sin(self) -> Enclosure:
        """The sine."""
        return self._wave(lambda x: x.sin())

    def cos(self) -> Enclosure:
        """The cosine."""
        return self._wave(lambda x: x.cos())

    def _monotone(self, function: Callable[[Ball], Ball], name: str) -> Enclosure:
        """A non-decreasing function at both ends."""
        with precision(self._bits):
            low, high = (function(exact(fraction(p))) for p in (self._low, self._high))
            if not (low.is_finite() and high.is_finite()):
                raise ValueError(f"{name} is not defined on all of {self!r}")
            return Enclosure(normal(dyadic(low.lower())), normal(dyadic(high.upper())))

    def _wave(self, function: Callable[[Ball], Ball]) -> Enclosure:
        with precision(self._bits):
            found = Enclosure.from_ball(function(self.ball()))
        return Enclosure(max(found._low, (-1, 0), key=fraction), min(found._high, (1, 0), key=fraction))
