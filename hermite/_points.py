"""Places on the line, known exactly where possible: where one piece of an activation ends and the next begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering

from ._interpreter import constant_value
from ._tree import Node


@dataclass(frozen=True)
class Bracket:
    """A root known by a sign change: the tree changes sign once between lower and upper."""

    tree: Node
    lower: Fraction
    upper: Fraction


@total_ordering
@dataclass(frozen=True, eq=False)
class Point:
    """A place on the line: its float64 value and what it is exactly (None for the infinities)."""

    value: float
    exact: Fraction | Node | Bracket | None = None

    @property
    def _key(self) -> Fraction | float:
        if isinstance(self.exact, Fraction):
            return self.exact
        return self.value if math.isinf(self.value) else Fraction(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and self._key == other._key

    def __lt__(self, other: Point) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return str(self.exact) if isinstance(self.exact, (Fraction, Node)) else repr(self.value)


MINUS_INFINITY, INFINITY = Point(-math.inf), Point(math.inf)


def rational(q: Fraction | int) -> Point:
    """An exactly rational point."""
    return Point(float(q), Fraction(q))


def constant_point(node: Node) -> Point:
    """The point of a tree without x."""
    if node.op == "num":
        return rational(node.number)
    return Point(constant_value(node), node)
