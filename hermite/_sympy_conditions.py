"""SymPy's conditions as nested ifs of the tree: comparisons, And, Or, Not, Xor, ITE, membership of an interval."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from . import _tree as t
from ._pieces import Piece, pieces
from ._tree import Node
from .errors import ActivationParseError

_BRANCHES = 60  # nodes of two branches that are still repeated in nested ifs rather than chosen by an indicator
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Read: TypeAlias = Callable[[Any], Node]
"""A sympy.Expr to its tree."""


def choose(condition: Any, yes: Node, no: Node, read: Read) -> Node:
    """`yes if condition else no`."""
    import sympy

    if condition in (True, False):
        return yes if condition else no
    if isinstance(condition, sympy.core.relational.Relational):
        return _compare(condition, yes, no, read)
    if isinstance(condition, sympy.Not):
        return choose(condition.args[0], no, yes, read)
    if isinstance(condition, (sympy.And, sympy.Or)):
        return _junction(condition, yes, no, read)
    if isinstance(condition, sympy.ITE):
        first, second, third = condition.args
        return choose(first, choose(second, yes, no, read), choose(third, yes, no, read), read)
    if isinstance(condition, sympy.Xor):
        first, rest = condition.args[0], sympy.Xor(*condition.args[1:])
        return choose(first, choose(rest, no, yes, read), choose(rest, yes, no, read), read)
    if isinstance(condition, (sympy.Implies, sympy.Equivalent)):
        return choose(sympy.to_nnf(condition, simplify=False), yes, no, read)
    if isinstance(condition, sympy.Contains):
        return choose(condition.args[1].as_relational(condition.args[0]), yes, no, read)
    raise ActivationParseError(f"the condition {condition} is not made of comparisons, And, Or and Not")


def uncovered(conditions: list[Any], read: Read) -> Piece | None:
    """A piece of the line where none of the conditions holds; single points do not count."""
    union: Node = t.ZERO
    for condition in reversed(conditions):
        union = choose(condition, t.ONE, union, read)
    return next((piece for piece in pieces(union) if piece.expr == t.ZERO), None)


def _junction(condition: Any, yes: Node, no: Node, read: Read) -> Node:
    """And, Or: one if for each part, which repeats `no` or `yes`; long branches are chosen by an indicator instead."""
    import sympy

    if yes.size + no.size > _BRANCHES:
        return t.choose(choose(condition, t.ONE, t.ZERO, read), ">", t.HALF, yes, no)
    every = isinstance(condition, sympy.And)
    result = yes if every else no
    for part in sorted(condition.args, key=sympy.default_sort_key, reverse=True):
        result = choose(part, result, no, read) if every else choose(part, yes, result, read)
    return result


def _compare(relation: Any, yes: Node, no: Node, read: Read) -> Node:
    left, op, right = relation.lhs, relation.rel_op, relation.rhs
    if op == "!=":
        op, yes, no = "==", no, yes
    a, b = _infinity(left), _infinity(right)
    if a or b:
        return yes if (a == b if op == "==" else t.compare(a, op, b)) else no
    u, v = read(left), read(right)
    if op == "==":  # |u - v| <= 0: a single point, unless u = v on a whole interval
        return t.choose(t.absolute(t.sub(u, v)), "<=", t.ZERO, yes, no)
    if u.constant and not v.constant:
        u, v, op = v, u, _MIRRORED[op]
    return t.choose(u, op, v, yes, no)


def _infinity(side: Any) -> Fraction:
    """1, -1 for an infinite side, else 0: enough to compare it with what is finite."""
    import sympy

    return Fraction(int(side == sympy.oo) - int(side == -sympy.oo))
