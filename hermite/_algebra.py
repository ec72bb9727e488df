"""Polynomials over the rationals: recognised in trees, and their real zeros (radicals, then Sturm's theorem)."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np

from . import _tree as t
from ._points import Bracket, Point, constant_point, rational
from ._tree import Node
from .errors import ActivationParseError


def as_polynomial(tree: Node, limit: int = 64) -> list[Fraction] | None:
    """Coefficients from the constant term up, or None if the tree is not a polynomial of degree <= limit."""
    op, args = tree.op, tree.args
    if op == "num":
        return [tree.number]
    if op == "x":
        return [Fraction(0), Fraction(1)]
    if op not in ("add", "mul", "pow"):
        return None
    parts = [as_polynomial(a, limit) for a in args]
    if any(p is None for p in parts):
        return None
    first = parts[0]
    assert first is not None
    if op == "pow":
        exponent = tree.number
        if exponent.denominator != 1 or exponent < 0 or (len(first) - 1) * exponent > limit:
            return None
        result = [Fraction(1)]
        for _ in range(int(exponent)):
            result = _times(result, first)
        return _trim(result)
    second = parts[1]
    assert second is not None
    if op == "add":
        n = max(len(first), len(second))
        padded = [p + [Fraction(0)] * (n - len(p)) for p in (first, second)]
        return _trim([a + b for a, b in zip(*padded, strict=True)])
    return _trim(_times(first, second)) if len(first) + len(second) - 2 <= limit else None


def shifted(tree: Node, c: Fraction) -> Node:
    """The tree in s = x - c, with polynomials expanded at c: x^2 - 1 at c = 1 is s (2 + s), exact for s = 1e-200."""
    p = as_polynomial(tree)
    if p is not None and len(p) > 2:
        try:
            return _horner(_taylor(p, c))
        except ActivationParseError:  # coefficients too long to be kept
            return t.substitute(tree, t.add(t.num(c), t.X))
    if tree.op == "x":
        return t.add(t.num(c), t.X)
    if tree.constant:
        return tree
    if tree.op == "log1p":  # its argument may be near -1 there
        return t.call("log", shifted(t.add(t.ONE, tree.args[0]), c))
    return t.rebuild(tree, tuple(shifted(a, c) for a in tree.args))


def _taylor(p: list[Fraction], c: Fraction) -> list[Fraction]:
    """Coefficients of p(c + s) by repeated synthetic division."""
    out = list(p)
    for i in range(len(out) - 1):
        for j in range(len(out) - 2, i - 1, -1):
            out[j] += c * out[j + 1]
    return out


def _horner(p: list[Fraction]) -> Node:
    tree = t.ZERO
    for c in reversed(p):
        tree = t.add(t.mul(t.X, tree), t.num(c))
    return tree


def _times(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    out = [Fraction(0)] * (len(p) + len(q) - 1)
    for i, a in enumerate(p):
        for j, b in enumerate(q):
            out[i + j] += a * b
    return out


def _trim(p: list[Fraction]) -> list[Fraction]:
    while len(p) > 1 and p[-1] == 0:
        p = p[:-1]
    return p


def _value(p: list[Fraction], x: Fraction) -> Fraction:
    out = Fraction(0)
    for c in reversed(p):
        out = out * x + c
    return out


def polynomial_zeros(p: list[Fraction]) -> list[Point]:
    """The distinct real zeros."""
    if len(p) > 1 and p[0] == 0:
        return [rational(0), *polynomial_zeros(p[1:])]
    if len(p) <= 1:
        return []
    if len(p) == 2:
        return [rational(-p[0] / p[1])]
    if len(p) == 3:
        return _quadratic_zeros(*p)
    if not any(p[1:-1]):
        return _binomial_zeros(-p[0] / p[-1], len(p) - 1)
    return _sturm_zeros(p)


def _quadratic_zeros(c: Fraction, b: Fraction, a: Fraction) -> list[Point]:
    square = (b / (2 * a)) ** 2 - c / a
    if square < 0:
        return []
    root = t.call("sqrt", t.num(square))
    centre = t.num(-b / (2 * a))
    pair = [constant_point(t.sub(centre, root)), constant_point(t.add(centre, root))]
    if root.op != "num" and b != 0:  # the difference cancels in float64: take the product of the roots instead
        small, large = sorted(pair, key=lambda z: abs(z.value))
        pair = [Point(float(c / a) / large.value if c else 0.0, small.exact), large]
    return pair


def _binomial_zeros(c: Fraction, n: int) -> list[Point]:
    """x^n = c, c != 0, by radicals."""
    if c < 0 and n % 2 == 0:
        return []
    root = constant_point(_exact_root(abs(c), n))
    mirror = constant_point(t.neg(_exact_root(abs(c), n)))
    return [mirror, root] if n % 2 == 0 else [root if c > 0 else mirror]


def _exact_root(c: Fraction, n: int) -> Node:
    guess = Fraction(float(c) ** (1 / n)).limit_denominator(10000)
    return t.num(guess) if guess**n == c else t.power(t.num(c), Fraction(1, n))


def _remainder(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    p = list(p)
    while len(p) >= len(q) and any(p):
        k = p[-1] / q[-1]
        for i in range(len(q)):
            p[len(p) - len(q) + i] -= k * q[i]
        p.pop()
    return _trim(p) if p else [Fraction(0)]


def _sturm_zeros(p: list[Fraction]) -> list[Point]:
    """Isolate by Sturm's theorem (which counts distinct zeros, whatever their order), then bisect exactly."""
    chain = [p, [k * c for k, c in enumerate(p)][1:]]
    while any(rest := _remainder(chain[-2], chain[-1])):
        chain.append([-c for c in rest])
        if len(chain[-1]) == 1:
            break
    simple = chain[0] if len(chain[-1]) == 1 else _quotient(p, chain[-1])
    bound = 1 + max(abs(c / p[-1]) for c in p[:-1])

    def changes(x: Fraction) -> int:
        signs = [v > 0 for q in chain if (v := _value(q, x)) != 0]
        return sum(a != b for a, b in pairwise(signs))

    found: list[Point] = []
    stack = [(-bound, bound, changes(-bound), changes(bound))]
    while stack:
        low, high, a, b = stack.pop()
        if a - b == 1:
            found.append(_bisect_exactly(simple, low, high))
        elif a - b > 1:
            middle = (low + high) / 2
            m = changes(middle)
            stack += [(low, middle, a, m), (middle, high, m, b)]
    return found


def _quotient(p: list[Fraction], q: list[Fraction]) -> list[Fraction]:
    p, out = list(p), []
    while len(p) >= len(q):
        k = p[-1] / q[-1]
        out.append(k)
        for i in range(len(q)):
            p[len(p) - len(q) + i] -= k * q[i]
        p.pop()
    return list(reversed(out))


def _bisect_exactly(p: list[Fraction], low: Fraction, high: Fraction) -> Point:
    """The single zero of a square-free p in (low, high], to well under an ulp."""
    if _value(p, high) == 0:
        return rational(high)
    positive = _value(p, high) > 0
    guess = _rational_guess(p, low, high)
    if guess is not None:
        return rational(guess)
    while high - low > Fraction(1, 2**60) * max(abs(low), Fraction(1, 2**900)):
        middle = (low + high) / 2
        v = _value(p, middle)
        if v == 0:
            return rational(middle)
        low, high = (low, middle) if (v > 0) == positive else (middle, high)
    return Point(float((low + high) / 2), Bracket(_horner(p), low, high))


def _rational_guess(p: list[Fraction], low: Fraction, high: Fraction) -> Fraction | None:
    """A rational zero with a small denominator, as people write them."""
    roots = np.roots([float(c) for c in reversed(p)])
    for r in roots[np.abs(roots.imag) < 1e-6].real:
        q = Fraction(float(r)).limit_denominator(10000)
        if low < q <= high and _value(p, q) == 0:
            return q
    return None
