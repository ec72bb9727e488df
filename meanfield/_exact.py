"""Exact arithmetic on small matrices: a float64 is a dyadic rational, so nothing is lost in taking it as one.

A determinant, its sign and the rank of a float matrix are then facts and not estimates. The algorithm is
Bareiss elimination on integers: each row is multiplied by the common denominator of its own entries, which
keeps entries of 1e-160 beside entries of 1 from making every integer long. `python-flint` takes over the
determinant where it is installed; the answer is the same.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Elimination",
    "as_fractions",
    "eliminate",
    "exact_determinant",
    "exact_log",
    "exact_log_determinant",
    "is_positive_semidefinite_exact",
]

Rows = tuple[tuple[Fraction, ...], ...]


class Elimination(NamedTuple):
    """What exact elimination says of a symmetric matrix; without semidefiniteness, rank and determinant are
    those of the leading part that was reached, and mean nothing."""

    positive_semidefinite: bool
    rank: int
    determinant: Fraction


def as_fractions(G: Any, *, name: str = "G") -> Rows:
    """The entries of a square matrix as exact rationals.

    G: (n, n), a real array or nested lists of ints, floats and Fractions, in any mixture. A float means
    the dyadic rational that it is: 0.1 becomes 3602879701896397/2**55, and 1/10 is Fraction(1, 10).

    Raises ValueError for anything that is not square, not real or not finite.

    >>> as_fractions([[1, 0.5], [0.5, Fraction(1, 3)]])[1]
    (Fraction(1, 2), Fraction(1, 3))
    """
    rows = G.tolist() if isinstance(G, np.ndarray) else G
    if not isinstance(rows, Sequence) or not all(isinstance(row, Sequence | np.ndarray) for row in rows):
        raise ValueError(f"{name} must be a square matrix, a (n, n) array or nested list; got {rows!r:.80}")
    exact = tuple(tuple(_as_fraction(entry, name) for entry in row) for row in rows)
    if not exact or any(len(row) != len(exact) for row in exact):
        lengths = [len(row) for row in exact]
        raise ValueError(f"{name} must be square with n >= 1, got rows of lengths {lengths}")
    return exact


def _as_fraction(entry: Any, name: str) -> Fraction:
    try:
        if isinstance(entry, np.integer | np.bool_):
            return Fraction(int(entry))
        # longdouble, float32 and float64 all know their own ratio; float() would round the first
        return Fraction(entry) if isinstance(entry, numbers.Rational) else Fraction(*entry.as_integer_ratio())
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} has the entry {entry!r}, which is not a finite real number; exact arithmetic takes "
            "ints, floats and Fractions"
        ) from None


def exact_determinant(rows: Any) -> Fraction:
    """Determinant of a square matrix, without rounding.

    rows: (n, n), anything `as_fractions` takes; symmetric or not. Pure Python integers cost about 2 ms at
    n = 16 and half a second at n = 64 for float64 entries; `python-flint` makes n = 200 a quarter second.

    Raises ValueError as `as_fractions` does.

    >>> exact_determinant([[1, Fraction(1, 2)], [Fraction(1, 2), 1]])
    Fraction(3, 4)
    """
    integers, scale = _integer_rows(as_fractions(rows))
    try:
        from flint import fmpz_mat
    except ImportError:
        return _bareiss_determinant(integers) / scale
    return Fraction(int(fmpz_mat(integers).det())) / scale


def exact_log_determinant(rows: Any) -> float:
    """Logarithm of the determinant of a matrix, rounded once: -inf where the determinant is exactly 0.

    rows: (n, n), anything `as_fractions` takes. Neither the determinant nor its size needs to fit a float64.

    Raises ValueError for a negative determinant, and as `as_fractions` does.

    >>> exact_log_determinant([[1e-300, 0], [0, 1e-300]])
    -1381.5510557964274
    """
    determinant = exact_determinant(rows)
    if determinant < 0:
        raise ValueError(f"the determinant is negative, about {_approximate(determinant)}: it has no real logarithm")
    return exact_log(determinant) if determinant else -math.inf


def is_positive_semidefinite_exact(rows: Any) -> bool:
    """Whether a symmetric matrix has no negative eigenvalue, decided without rounding.

    rows: (n, n), anything `as_fractions` takes. A float Gram matrix of dependent inputs is usually *not*
    positive semidefinite in this sense: rounding has moved its zero eigenvalues to both sides.

    Raises ValueError for an asymmetric matrix, and as `as_fractions` does.

    >>> is_positive_semidefinite_exact([[1, 1], [1, 1]]), is_positive_semidefinite_exact([[1, 2], [2, 1]])
    (True, False)
    """
    exact = as_fractions(rows)
    if exact != tuple(zip(*exact, strict=True)):
        raise ValueError(f"rows must be symmetric, got {rows!r:.200}; for its symmetric part pass (A + A^T)/2")
    return eliminate(exact).positive_semidefinite


def eliminate(rows: Rows) -> Elimination:
    """Signs, rank and determinant of a symmetric rational matrix by one elimination with diagonal pivots.

    Every pivot of Bareiss elimination is a principal minor (times the positive row factors), so a negative
    one refutes semidefiniteness; and once all remaining diagonal entries are 0, a semidefinite matrix has
    nothing left off the diagonal either, and the pivots so far count its rank.
    """
    A, scale = _integer_rows(rows)
    n, previous = len(A), 1
    for k in range(n):
        if any(A[i][i] < 0 for i in range(k, n)):
            return Elimination(False, k, Fraction(0))
        pivot = next((i for i in range(k, n) if A[i][i]), None)
        if pivot is None:
            semidefinite = not any(any(A[i][k:]) for i in range(k, n))
            return Elimination(semidefinite, k, Fraction(0))
        A[k], A[pivot] = A[pivot], A[k]
        for row in A:
            row[k], row[pivot] = row[pivot], row[k]
        previous = _bareiss_step(A, k, previous)
    return Elimination(True, n, previous / scale)


def exact_log(q: Fraction) -> float:
    """Natural logarithm of a positive rational of any size, to the last digits of float64.

    Near 1 the difference from 1 is taken before rounding; elsewhere a power of 2 is split off, which leaves
    the rest between 1/2 and 2.

    >>> exact_log(1 + Fraction(1, 10**30)), exact_log(Fraction(10) ** 4000)
    (1e-30, 9210.340371976183)
    """
    if q > 1:
        return -exact_log(1 / q)
    if 2 * q > 1:
        return math.log1p(float(q - 1))
    exponent = q.numerator.bit_length() - q.denominator.bit_length()
    return math.log(q / Fraction(2) ** exponent) + exponent * math.log(2.0)


def _integer_rows(rows: Rows) -> tuple[list[list[int]], Fraction]:
    """Rows cleared of denominators and common factors, and the product of the factors put in."""
    integers, scale = [], Fraction(1)
    for row in rows:
        multiple = math.lcm(*(entry.denominator for entry in row))
        cleared = [entry.numerator * (multiple // entry.denominator) for entry in row]
        content = math.gcd(*cleared) or 1
        integers.append([entry // content for entry in cleared])
        scale *= Fraction(multiple, content)
    return integers, scale


def _bareiss_determinant(A: list[list[int]]) -> Fraction:
    n, previous, sign = len(A), 1, 1
    for k in range(n):
        pivot = next((i for i in range(k, n) if A[i][k]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            A[k], A[pivot], sign = A[pivot], A[k], -sign
        previous = _bareiss_step(A, k, previous)
    return Fraction(sign * previous)


def _bareiss_step(A: list[list[int]], k: int, previous: int) -> int:
    """Eliminate below the pivot A[k][k] in place, and return it: it divides everything of the next step."""
    pivot, upper = A[k][k], A[k][k + 1 :]
    for row in A[k + 1 :]:
        factor = row[k]
        row[k + 1 :] = [
            (pivot * entry - factor * above) // previous for entry, above in zip(row[k + 1 :], upper, strict=True)
        ]
        row[k] = 0
    return pivot


def _approximate(q: Fraction) -> str:
    """A nonzero rational of any size as a power of 10: float() would overflow or vanish."""
    return f"{'-' if q < 0 else ''}10^{exact_log(abs(q)) / math.log(10.0):.2f}"
