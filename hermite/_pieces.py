"""Case split: an expression tree as smooth pieces between exact points.

On every interval each splitting operation (abs, sign, max, min, if, a callable's breakpoint) is replaced by the
branch that is taken there, so compositions such as tanh(relu(x)) need no special care. Zeros of arguments of log,
sqrt, fractional powers and quotients are ends flagged singular: the tree is not smooth up to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from . import _tree as t
from ._interpreter import constant_value, evaluate
from ._points import INFINITY, MINUS_INFINITY, Point
from ._roots import WINDOW, zeros
from ._tree import Node
from .errors import ActivationParseError, NotSquareIntegrableError

MAX_PIECES = 64


@dataclass(frozen=True)
class Piece:
    """sigma on (lower, upper): a tree without splitting operations, and whether an end is singular."""

    lower: Point
    upper: Point
    expr: Node
    singular_lower: bool = False
    singular_upper: bool = False

    def __str__(self) -> str:
        return f"{self.expr} on ({self.lower}, {self.upper})"


_Case = tuple[Point, Point, Node]


class _Marks(NamedTuple):
    """Places where a cut must stay: singular ones, and those a callable declares."""

    singular: set[Point]
    declared: set[Point]


@lru_cache(maxsize=2048)
def pieces(tree: Node) -> tuple[Piece, ...]:
    """The pieces of a tree from left to right.

    Raises ActivationParseError for more than MAX_PIECES pieces on [-WINDOW, WINDOW], NotSquareIntegrableError where
    the tree is not real.
    """
    marks = _Marks(set(), set())
    cases = _split(tree, MINUS_INFINITY, INFINITY, marks)
    kept = marks.singular | marks.declared
    merged: list[_Case] = []
    for low, high, expr in cases:
        if merged and merged[-1][2] == expr and low not in kept:
            merged[-1] = (merged[-1][0], high, expr)
        else:
            merged.append((low, high, expr))
    inside = sum(low.value < WINDOW and high.value > -WINDOW for low, high, _ in merged)
    if inside - len(marks.declared) > MAX_PIECES:  # places that a callable declares are its own affair
        raise ActivationParseError(
            f"{tree} has {inside} pieces on [-{WINDOW:g}, {WINDOW:g}]; the limit is {MAX_PIECES}"
        )
    return tuple(Piece(a, b, e, a in marks.singular, b in marks.singular) for a, b, e in merged)


def _split(tree: Node, low: Point, high: Point, seen: _Marks) -> list[_Case]:
    if tree.op == "x" or (tree.constant and not tree.splits):
        return [(low, high, tree)]
    if tree.op == "if":
        return list(_split_if(tree, low, high, seen))
    out: list[_Case] = []
    for a, b, args in _split_arguments(tree.args, low, high, seen):
        out += _apply(tree, args, a, b, seen)
    return out


def _split_arguments(
    args: tuple[Node, ...], low: Point, high: Point, seen: _Marks
) -> Iterator[tuple[Point, Point, tuple[Node, ...]]]:
    if not args:
        yield low, high, ()
        return
    for a, b, first in _split(args[0], low, high, seen):
        for c, d, rest in _split_arguments(args[1:], a, b, seen):
            yield c, d, (first, *rest)


def _apply(tree: Node, args: tuple[Node, ...], low: Point, high: Point, seen: _Marks) -> list[_Case]:
    """The operation on smooth arguments over (low, high)."""
    op = tree.op
    if op in ("abs", "sign"):
        return [(a, b, _signed(op, args[0], s)) for a, b, s in _signs(args[0], low, high, seen)]
    if op in ("max", "min"):
        larger, smaller = args if op == "max" else args[::-1]
        difference = t.sub(args[0], args[1])
        return [(a, b, larger if s >= 0 else smaller) for a, b, s in _signs(difference, low, high, seen)]
    if op == "opaque":
        marks = [z for c in tree.opaque.breakpoints or () for z in zeros(t.sub(args[0], t.num(c)))]
        seen.declared.update(marks)
        return [(a, b, Node("opaque", args, tree.value)) for a, b in _cut(marks, low, high)]
    result = t.rebuild(tree, args)
    singular_part = _singular_argument(tree, args)
    if singular_part is None:
        return [(low, high, result)]
    if singular_part.constant:
        value = constant_value(singular_part)
        poles = tree.op in ("div", "log", "log1p") or (tree.op == "pow" and tree.number < 0)
        if math.isnan(value) or (value < 0 and _needs_positive(tree)) or (value == 0 and poles):
            raise NotSquareIntegrableError(f"{tree} is not a real number on ({low}, {high})")
        return [(low, high, result)]
    marks = list(zeros(singular_part))
    seen.singular.update(p for p in marks if low <= p <= high)
    cases = list(_cut(marks, low, high))
    if _needs_positive(tree):
        for a, b in cases:
            if _sign_inside(singular_part, a, b) < 0:
                raise NotSquareIntegrableError(f"{tree} is not real on ({a}, {b})")
    return [(a, b, result) for a, b in cases]


def _split_if(tree: Node, low: Point, high: Point, seen: _Marks) -> Iterator[_Case]:
    u, v, yes, no = tree.args
    assert isinstance(tree.value, str)
    for a, b, (p, q) in _split_arguments((u, v), low, high, seen):
        for c, d, s in _signs(t.sub(p, q), a, b, seen):
            branch = yes if t.compare(Fraction(s), tree.value, Fraction(0)) else no
            yield from _split(branch, c, d, seen)


def _signed(op: str, u: Node, s: int) -> Node:
    return t.num(s) if op == "sign" else u if s >= 0 else t.neg(u)


def _singular_argument(tree: Node, args: tuple[Node, ...]) -> Node | None:
    """The argument whose zeros make the operation singular."""
    if tree.op in ("log", "sqrt"):
        return args[0]
    if tree.op == "log1p":
        return t.add(t.ONE, args[0])
    if tree.op == "div":
        return args[1]
    if tree.op == "pow" and (tree.number.denominator != 1 or tree.number < 0):
        return args[0]
    return None


def _needs_positive(tree: Node) -> bool:
    return tree.op in ("log", "sqrt", "log1p") or (tree.op == "pow" and tree.number.denominator != 1)


def _cut(marks: list[Point], low: Point, high: Point) -> Iterator[tuple[Point, Point]]:
    ends = [low, *sorted({m for m in marks if low < m < high}), high]
    yield from pairwise(ends)


def _signs(u: Node, low: Point, high: Point, seen: _Marks) -> Iterator[tuple[Point, Point, int]]:
    """Sign of a smooth tree on the intervals between its zeros."""
    cases = [(a, b, _sign_inside(u, a, b)) for a, b in _cut(list(zeros(u)), low, high)]
    for end, inward, (a, b, s) in ((low, 1.0, cases[0]), (high, -1.0, cases[-1])):
        if end in seen.singular and math.isfinite(end.value):
            _check_no_accumulation(u, end, inward * min(b.value - a.value, 1.0), s)
    yield from cases


def _check_no_accumulation(u: Node, end: Point, reach: float, sign: int) -> None:
    """Towards a singular end a tree may change sign without limit, as sin(1/x) does: no list of pieces holds it."""
    if abs(reach) < 1e-6 * max(1.0, abs(end.value)):  # two brackets of one root
        return
    nearest = max(1e-7, 1e-9 * abs(end.value / reach))
    x = end.value + reach * np.geomspace(1 - 1e-9, min(nearest, 0.5), 400)
    if np.any(np.sign(evaluate(u, x)) * sign < 0):
        raise ActivationParseError(f"{u} changes sign without end near x = {end}: its pieces accumulate there")


def _sign_inside(u: Node, low: Point, high: Point) -> int:
    """The sign on an interval without zeros inside: the majority of a few sample points (0 if identically 0)."""
    a, b = low.value, high.value
    if np.isinf(a) and np.isinf(b):
        x = np.array([-3.1, -0.7, 0.3, 1.9, 11.0])
    elif np.isinf(a):
        x = b - np.array([0.01, 0.5, 1.0, 3.0, 17.0])
    elif np.isinf(b):
        x = a + np.array([0.01, 0.5, 1.0, 3.0, 17.0])
    else:
        x = a + (b - a) * np.array([0.11, 0.29, 0.5, 0.73, 0.91])
    return int(np.sign(np.nansum(np.sign(evaluate(u, x)))))


def breakpoints(parts: tuple[Piece, ...]) -> tuple[Point, ...]:
    """The finite ends between pieces."""
    return tuple(p.upper for p in parts[:-1])
