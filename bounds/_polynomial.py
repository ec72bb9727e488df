"""Activations that are polynomials in exact numbers: their Hermite weights are rational, and bounds may be equations.

Read by the strengths, the maps on balls, and the claims that know equality.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from hermite._activation import Activation
from hermite._algebra import as_polynomial
from hermite._tree import Node

__all__ = ["rational_weights"]


@lru_cache(maxsize=1024)
def rational_weights(sigma: Activation) -> tuple[Fraction, ...] | None:
    """w_0 = 0, w_1, ..., w_d of f(rho) = sum of w_k rho^k, w_d > 0; None for what is none, or constant."""
    squares = _squares(sigma.expr)
    if squares is None:
        return None
    whole = sum(squares.values(), Fraction(0))
    if not whole:
        return None
    top = max(k for k, square in squares.items() if square)
    return tuple(squares.get(k, Fraction(0)) / whole for k in range(top + 1))


def _squares(tree: Node) -> dict[int, Fraction] | None:
    """c_k^2 for k >= 1 of a polynomial in exact numbers, else None: a sum of a He_k, or of powers, c_k = a_k sqrt(k!)
    where sum of a_k He_k is written with monic He_k: x^m = sum of m!/(2^j j! (m - 2j)!) He_(m-2j).
    """
    named = _combination(tree)
    if named is not None:
        return {k: a * a for k, a in named.items() if k}
    powers = as_polynomial(tree)
    if powers is None:
        return None
    monic: dict[int, Fraction] = {}
    for m, a in enumerate(powers):
        for j in range(m // 2 + 1):
            share = Fraction(math.factorial(m), 2**j * math.factorial(j) * math.factorial(m - 2 * j))
            monic[m - 2 * j] = monic.get(m - 2 * j, Fraction(0)) + a * share
    return {k: a * a * math.factorial(k) for k, a in monic.items() if k}


def _combination(tree: Node) -> dict[int, Fraction] | None:
    """a_k of a sum of a_k He(k, x) and a number."""
    if tree.op == "num":
        return {0: tree.number}
    if tree.op == "x":
        return {1: Fraction(1)}
    if tree.op == "He" and tree.args[0].op == "x":
        return {int(tree.number): Fraction(1)}
    parts = [_combination(each) for each in tree.args]
    if tree.op not in ("add", "mul") or any(part is None for part in parts):
        return None
    total: dict[int, Fraction] = parts[0] or {}
    for part in parts[1:]:
        assert part is not None
        if tree.op == "add":
            total = {k: total.get(k, Fraction(0)) + part.get(k, Fraction(0)) for k in total.keys() | part.keys()}
        elif set(total) <= {0} or set(part) <= {0}:
            number, rest = (total, part) if set(total) <= {0} else (part, total)
            total = {k: number.get(0, Fraction(0)) * a for k, a in rest.items()}
        else:
            return None
    return total
