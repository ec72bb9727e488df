"""The largest eigenvalue of a symmetric rational matrix, between two rationals or exactly.

Cleared of denominators the matrix is one of integers, its characteristic polynomial is monic with integer coefficients
(Faddeev, LeVerrier), and all its roots are real. So none exceeds q iff the coefficients of p(q + y) are not
negative, which decides bisection; the largest root, if rational, is an integer; and irrational ones of two
matrices are equal iff a root of the greatest common divisor is in a bracket of either.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from bounds._proven import Between

__all__ = ["LargestRoot"]

Rows: TypeAlias = Sequence[Sequence[Fraction]]


class LargestRoot:
    """Of a symmetric matrix with diagonal 0: at least its largest entry in size, and at most n-1 times that.

    `exact` is the root where it is rational, else None; `between` narrows a bracket, and keeps it.
    """

    def __init__(self, rows: Rows) -> None:
        n = len(rows)
        multiple = math.lcm(*(entry.denominator for row in rows for entry in row))
        integers = [[int(entry * multiple) for entry in row] for row in rows]
        content = math.gcd(*(entry for row in integers for entry in row)) or 1
        A = [[entry // content for entry in row] for row in integers]
        largest = max(abs(entry) for row in A for entry in row)
        self._polynomial, self._scale = _characteristic(A), Fraction(content, multiple)
        self._bits, self._low, self._high = 0, largest - 1, max(n - 1, 0) * largest
        self._narrow(0)
        found = self._high if _value(self._polynomial, self._high) == 0 else None
        self.exact = None if found is None else found * self._scale

    def between(self, digits: int) -> Between:
        """The root, relatively to 10^-digits."""
        if self.exact is not None:
            return Between.exactly(self.exact)
        # the root exceeds low / 2^bits >= largest - 1 >= 0; where that is still 0, as many bits show it
        bits = 4 * digits
        if bits > self._bits:
            self._narrow(bits)
        unit = self._scale / 2**self._bits
        return Between(self._low * unit, self._high * unit)

    def is_times(self, factor: Fraction, other: LargestRoot) -> bool:
        """Whether this root is a positive rational multiple of the other, decided exactly."""
        mine = _squarefree([Fraction(c) for c in self._polynomial])
        ratio = factor * other._scale / self._scale
        n = len(other._polynomial) - 1
        theirs = _squarefree([c * ratio ** (n - k) for k, c in enumerate(other._polynomial)])
        shared = _common(mine, theirs)
        return all(_exceeding(shared, _below_last(polynomial)) > 0 for polynomial in (mine, theirs))

    def _narrow(self, bits: int) -> None:
        """Halve until low < root <= high = low + 1 in units of 2^-bits."""
        more = bits - self._bits
        self._low, self._high, self._bits = self._low << more, self._high << more, bits
        n = len(self._polynomial) - 1
        scaled = [c << bits * (n - k) for k, c in enumerate(self._polynomial)]
        while self._high - self._low > 1:
            middle = (self._low + self._high) // 2
            if _none_exceeds(scaled, middle):
                self._high = middle
            else:
                self._low = middle


def _characteristic(A: list[list[int]]) -> list[int]:
    """Coefficients of det(x I - A) from x^0 on: M_1 = I, c_(n-k) = -tr(A M_k)/k, M_(k+1) = A M_k + c_(n-k) I."""
    n = len(A)
    coefficients, M = [1], [[int(i == j) for j in range(n)] for i in range(n)]
    for k in range(1, n + 1):
        columns = list(zip(*M, strict=True))
        M = [[sum(map(int.__mul__, row, column)) for column in columns] for row in A]
        last = -sum(M[i][i] for i in range(n)) // k
        coefficients.append(last)
        for i in range(n):
            M[i][i] += last
    return coefficients[::-1]


def _none_exceeds(polynomial: list[int], q: int) -> bool:
    """Whether no root of a monic polynomial with real roots exceeds q: repeated division by x - q shows p(q + y)."""
    rest = polynomial[:]
    for start in range(len(rest) - 1):
        for k in range(len(rest) - 2, start - 1, -1):
            rest[k] += q * rest[k + 1]
        if rest[start] < 0:
            return False
    return True


def _value(polynomial: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = value * x + coefficient
    return value


def _squarefree(p: list[Fraction]) -> list[Fraction]:
    """Monic, with each root of p once."""
    repeated = _common(p, [k * c for k, c in enumerate(p)][1:])
    return _divided(p, repeated)[0]


def _common(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    """The greatest common divisor, monic."""
    while q:
        p, q = q, _divided(p, q)[1]
    return [c / p[-1] for c in p]


def _divided(p: list[Fraction], q: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Quotient and remainder, the remainder without leading zeros."""
    rest, quotient = p[:], [Fraction(0)] * max(len(p) - len(q) + 1, 0)
    for k in range(len(quotient) - 1, -1, -1):
        quotient[k] = rest[k + len(q) - 1] / q[-1]
        for i, c in enumerate(q):
            rest[k + i] -= quotient[k] * c
    while rest and not rest[-1]:
        rest.pop()
    return quotient, rest


def _exceeding(p: list[Fraction], x: Fraction) -> int:
    """How many roots exceed x, counted with multiplicity: changes of sign in p(x + y), as all roots are real."""
    rest = p[:]
    for start in range(len(rest) - 1):
        for k in range(len(rest) - 2, start - 1, -1):
            rest[k] += x * rest[k + 1]
    signs = [c > 0 for c in rest if c]
    return sum(a != b for a, b in itertools.pairwise(signs))


def _below_last(p: list[Fraction]) -> Fraction:
    """A number that just the largest root of a squarefree p exceeds."""
    high = 1 + sum(map(abs, p), Fraction(0))  # Cauchy: no root of a monic polynomial is larger in size
    low = -high
    while _exceeding(p, low) != 1:
        middle = (low + high) / 2
        low, high = (low, middle) if _exceeding(p, middle) == 0 else (middle, high)
    return low
