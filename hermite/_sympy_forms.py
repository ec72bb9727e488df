"""What SymPy's arithmetic hides, found again: decimals, Hermite polynomials, sigmoid, the argument of Phi.

Read by `_from_sympy` only. Numbers arrive as binary floats, hermite_prob(60, x) as a sum of 31 powers that has lost
thirteen digits at x = 6, x/sqrt(2) as sqrt(2)*x/2, and sigmoid as a quotient that overflows.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from . import _tree as t
from ._tree import Node
from .errors import ActivationParseError

_LEAST = 8  # below this degree the powers lose little, and every engine reads a polynomial
_MOST = 168  # 169! exceeds the largest constant of a tree


# ---- numbers --------------------------------------------------------------------------------------------------------


def is_number(e: Any) -> bool:
    return bool(e.is_Rational or e.is_Float)


def number(e: Any) -> Fraction:
    """A Rational as it is; a Float of 53 bits as the shortest decimal of that float, of other precision as it is."""
    if e.is_Rational:
        return Fraction(int(e.p), int(e.q))
    sign, mantissa, exponent, _ = e._mpf_
    if not mantissa and exponent:
        raise ActivationParseError(f"{e} is not a real number")
    if abs(exponent) > t.MAX_BITS:
        raise ActivationParseError(f"the number {e} is out of range; rescale the expression")
    exact = Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** int(exponent)
    if e._prec != 53 or abs(exact) > sys.float_info.max or Fraction(float(exact)) != exact:
        return exact
    return Fraction(repr(float(exact)))


# ---- Hermite polynomials --------------------------------------------------------------------------------------------


class HermiteForm(NamedTuple):
    """factor * sqrt(square) * He_degree(sqrt(gain2) * base), He normalised."""

    factor: Fraction
    square: Fraction
    degree: int
    gain2: Fraction
    base: Any


def hermite_form(expression: Any) -> HermiteForm | None:
    """A sum of rational multiples of powers of one u as a multiple of He_n(g u), n >= 8; None if it is not one.

    Monic He_n(y) = y^n - n(n-1)/2 y^(n-2) + ..., so p_(n-2)/p_n = -n(n-1)/(2 g^2) gives g^2, and then all other
    coefficients have to agree exactly. As g^n = sqrt(g^(2n)), the factor is p_n sqrt(n!/g^(2n)).
    """
    found = _powers(expression)
    if found is None:
        return None
    base, p = found
    n = max(p)
    top, next_one = p[n], p.get(n - 2, Fraction(0))
    if not _LEAST <= n <= _MOST or top * next_one >= 0 or len(p) != n // 2 + 1:
        return None
    gain2 = -Fraction(n * (n - 1), 2) * top / next_one
    wanted = top
    for j in range(n // 2 + 1):
        if p.get(n - 2 * j) != wanted:
            return None
        wanted *= -Fraction((n - 2 * j) * (n - 2 * j - 1), 2 * (j + 1)) / gain2
    return HermiteForm(top, math.factorial(n) / gain2**n, n, gain2, base)


def _powers(expression: Any) -> tuple[Any, dict[int, Fraction]] | None:
    """The common base u and the rational coefficient of each u^k; None where the terms are not of this kind."""
    if not expression.is_Add or len(expression.args) <= _LEAST // 2:
        return None
    from sympy import Integer

    base: Any = None
    p: dict[int, Fraction] = {}
    for term in expression.args:
        k, rest = term.as_coeff_Mul()
        u, degree = (rest.base, rest.exp) if rest.is_Pow else (rest, Integer(rest != 1))
        if not k.is_Rational or not degree.is_Integer or (degree and base not in (None, u)):
            return None
        base = u if degree else base
        p[int(degree)] = number(k)
    return None if base is None or len(p) != len(expression.args) else (base, p)


# ---- products -------------------------------------------------------------------------------------------------------


def coefficient(u: Node) -> tuple[Fraction, Node]:
    return (u.args[0].number, u.args[1]) if u.op == "mul" and u.args[0].op == "num" else (Fraction(1), u)


Factors: TypeAlias = tuple[Fraction, list[Node], list[tuple[Node, Fraction]]]


def with_root(k: Fraction, square: Fraction, above: list[Node], below: list[tuple[Node, Fraction]]) -> Factors:
    """k sqrt(square) with the root where a paper has it: sqrt(2) x/2 is x/sqrt(2), the argument of Phi's erf."""
    k, whole = k / square.denominator, square.numerator * square.denominator
    root = math.isqrt(whole)
    if root * root == whole:
        return k * root, above, below
    for p in range(2, _MOST + 1):  # the primes of n!
        while whole % (p * p) == 0:
            k, whole = k * p, whole // (p * p)
    if k.denominator % whole == 0:
        return Fraction(1), [t.num(k * whole), *above], [*below, (t.num(whole), Fraction(1, 2))]
    return k, [t.call("sqrt", t.num(whole)), *above], below


def logistic(k: Fraction, above: list[Node], below: list[tuple[Node, Fraction]]) -> Factors:
    """1/(c + c exp(v)) is sigmoid(-v)/c, and exp(v)/(1 + exp(v)) is sigmoid(v): no overflow, all digits in the tail."""
    above, rest = list(above), []
    for u, p in below:
        c, v = _one_plus_exp(u)
        if v is None or p.denominator != 1:
            rest.append((u, p))
            continue
        k /= c ** int(p)
        upper = t.call("exp", v)
        if upper in above:
            above[above.index(upper)] = t.call("sigmoid", v)
            p -= 1
        above.append(t.power(t.call("sigmoid", t.neg(v)), p))
    return k, above, rest


def _one_plus_exp(u: Node) -> tuple[Fraction, Node | None]:
    """c and v where u is c (1 + exp(v))."""
    if u.op == "add" and u.args[0].op == "num":
        c, (k, v) = u.args[0].number, coefficient(u.args[1])
        if v.op == "exp" and k == c:
            return c, v.args[0]
    return Fraction(1), None
