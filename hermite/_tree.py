"""The expression tree of an activation: a closed list of operations over exact rational numbers.

This file is the vocabulary only: nodes, their constructors (which fold exact constants) and their text form.
Evaluation lives in one interpreter per number system, case splitting in `_pieces`. It imports no other room file
but the errors.

Operations: num, pi, x; add, mul, div, pow (rational exponent); the smooth functions of `FUNCTIONS`; He (normalised
Hermite polynomial of fixed degree); the splitting ones abs, sign, max, min and `if` (a comparison choosing between
two branches); opaque, a Python callable. A `parameter`, a named constant without a value, is read from texts for the
symbolic engine alone and never part of an Activation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .errors import ActivationParseError

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "arctan", "erf", "sigmoid")
SPLITTING = frozenset({"abs", "sign", "max", "min", "if"})
COMPARISONS = ("<", "<=", ">", ">=")

MAX_NODES = 4000
MAX_DEPTH = 150
MAX_EXPONENT = 64
MAX_BITS = 4096  # of the numerator or denominator of a folded constant
MAX_CONSTANT = 10**300
MAX_HERMITE_DEGREE = 1000


@dataclass(frozen=True)
class Opaque:
    """A Python callable on float64 arrays, with the places where it is not smooth and its growth, if declared."""

    function: Callable[..., Any]
    breakpoints: tuple[Fraction, ...] | None = None
    growth: tuple[float, float, float] | None = None
    vectorized: bool = True


@dataclass(frozen=True, init=False, repr=False)
class Node:
    """One operation with its arguments; hash, size and depth are computed once, since trees are cache keys."""

    op: str
    args: tuple[Node, ...]
    value: Fraction | Opaque | str | None
    size: int
    depth: int
    constant: bool
    splits: bool
    _hash: int

    def __init__(self, op: str, args: tuple[Node, ...] = (), value: Fraction | Opaque | str | None = None) -> None:
        put = object.__setattr__
        put(self, "op", op)
        put(self, "args", args)
        put(self, "value", value)
        put(self, "size", 1 + sum(a.size for a in args))
        put(self, "depth", 1 + max((a.depth for a in args), default=0))
        put(self, "constant", op != "x" and all(a.constant for a in args))
        put(self, "splits", op in SPLITTING or op == "opaque" or any(a.splits for a in args))
        put(self, "_hash", hash((op, args, value)))
        if self.size > MAX_NODES or self.depth > MAX_DEPTH:
            raise ActivationParseError(
                f"expression too large: {self.size} nodes, depth {self.depth}; "
                f"the limits are {MAX_NODES} nodes and depth {MAX_DEPTH}"
            )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Node, (self.op, self.args, self.value)  # the hash differs between processes: rebuild it

    def __str__(self) -> str:
        return _text(self, 0)

    def __repr__(self) -> str:
        return f"Node({_text(self, 0)})"

    @property
    def number(self) -> Fraction:
        """The exact value of a `num` node."""
        assert isinstance(self.value, Fraction)
        return self.value

    @property
    def opaque(self) -> Opaque:
        """The callable of an `opaque` node."""
        assert isinstance(self.value, Opaque)
        return self.value


X = Node("x")
PI = Node("pi")


def num(value: Fraction | int) -> Node:
    """A rational constant, refused when too long to be meant."""
    q = Fraction(value)
    if max(q.numerator.bit_length(), q.denominator.bit_length()) > MAX_BITS:
        raise ActivationParseError(f"a constant needs more than {MAX_BITS} bits; use smaller exponents")
    if abs(q) > MAX_CONSTANT:
        raise ActivationParseError("a constant exceeds 1e300 in size; rescale the expression")
    return Node("num", (), q)


ZERO, ONE, HALF, MINUS_ONE = num(0), num(1), num(Fraction(1, 2)), num(-1)


def add(u: Node, v: Node) -> Node:
    """u + v, with the rational constants gathered in front (so that (x + c) - c is x)."""
    (a, u), (b, v) = _constant_part(u), _constant_part(v)
    rest = v if u == ZERO else u if v == ZERO else Node("add", (u, v))
    if a + b == 0:
        return rest
    if a + b == -1 and rest.op == "exp":
        return call("expm1", rest.args[0])  # exp(x) - 1 would cancel near 0
    return num(a + b) if rest == ZERO else Node("add", (num(a + b), rest))


def _constant_part(u: Node) -> tuple[Fraction, Node]:
    if u.op == "num":
        return u.number, ZERO
    if u.op == "add" and u.args[0].op == "num":
        return u.args[0].number, u.args[1]
    return Fraction(0), u


def mul(u: Node, v: Node) -> Node:
    """u * v, with the rational factors gathered in front and distributed over a constant summand."""
    (a, u), (b, v) = _factor(u), _factor(v)
    k = a * b
    rest = v if u == ONE else u if v == ONE else Node("mul", (u, v))
    return scale(k, rest)


def scale(k: Fraction, u: Node) -> Node:
    """k * u for a rational k."""
    if k == 0 or u == ONE:
        return num(k)
    if k == 1:
        return u
    if u.op == "num":
        return num(k * u.number)
    if u.op == "add" and u.args[0].op == "num":
        return Node("add", (num(k * u.args[0].number), scale(k, u.args[1])))
    if u.op == "mul" and u.args[0].op == "num":
        return scale(k * u.args[0].number, u.args[1])
    return Node("mul", (num(k), u))


def _factor(u: Node) -> tuple[Fraction, Node]:
    if u.op == "num":
        return u.number, ONE
    if u.op == "mul" and u.args[0].op == "num":
        return u.args[0].number, u.args[1]
    return Fraction(1), u


def neg(u: Node) -> Node:
    """-u."""
    return scale(Fraction(-1), u)


def sub(u: Node, v: Node) -> Node:
    """u - v; 0 when both are the same expression."""
    return ZERO if u == v else add(u, neg(v))


def div(u: Node, v: Node) -> Node:
    """u / v; a constant divisor must not be 0."""
    if v.op == "num":
        if v.number == 0:
            raise ActivationParseError(f"division by the constant 0 in ({u}) / ({v})")
        return scale(1 / v.number, u)
    k, w = _factor(v)
    return scale(1 / k, Node("div", (u, w)))


def power(u: Node, exponent: Fraction) -> Node:
    """u ** exponent for a rational exponent of bounded size."""
    if abs(exponent) > MAX_EXPONENT or exponent.denominator > 10**6:
        raise ActivationParseError(f"exponent {exponent} is out of range: |exponent| <= {MAX_EXPONENT}")
    if exponent == 1:
        return u
    if exponent == 0:
        return ONE
    if exponent == Fraction(1, 2):
        return call("sqrt", u)
    if u.op == "num" and exponent.denominator == 1:
        return _constant_power(u.number, int(exponent))
    if u.op == "pow" and exponent.denominator == 1 and isinstance(u.value, Fraction):
        inner = u.value * exponent
        if u.value.denominator == 1 and abs(inner) <= MAX_EXPONENT:
            return power(u.args[0], inner)
    return Node("pow", (u,), exponent)


def _constant_power(base: Fraction, exponent: int) -> Node:
    if base == 0 and exponent < 0:
        raise ActivationParseError(f"0 ** {exponent} divides by zero")
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > MAX_BITS:
        raise ActivationParseError(f"the constant ({base})**{exponent} needs more than {MAX_BITS} bits")
    return num(base**exponent)


_AT_ZERO = {"exp": 1, "expm1": 0, "log1p": 0, "sqrt": 0, "sin": 0, "cos": 1, "tanh": 0, "arctan": 0, "erf": 0}


def call(name: str, u: Node) -> Node:
    """A smooth function of u."""
    assert name in FUNCTIONS, name
    if u.op == "num":
        if u.number == 0 and name in _AT_ZERO:
            return num(_AT_ZERO[name])
        if u.number == 1 and name == "log":
            return ZERO
        if (name in ("log", "sqrt") and u.number < 0) or (name == "log" and u.number == 0):
            raise ActivationParseError(f"{name} of the constant {u.number} is not a real number")
        if name == "sqrt":
            p, q = math.isqrt(u.number.numerator), math.isqrt(u.number.denominator)
            if p * p == u.number.numerator and q * q == u.number.denominator:
                return num(Fraction(p, q))
    if name == "log" and u.op == "add" and u.args[0] == ONE:
        return call("log1p", u.args[1])  # relative accuracy where the sum is near 1
    return Node(name, (u,))


def hermite_polynomial(degree: int, u: Node) -> Node:
    """Normalised probabilists' He_degree of u."""
    if not 0 <= degree <= MAX_HERMITE_DEGREE:
        raise ActivationParseError(f"He needs a degree from 0 to {MAX_HERMITE_DEGREE}, got {degree}")
    return ONE if degree == 0 else u if degree == 1 else Node("He", (u,), Fraction(degree))


def absolute(u: Node) -> Node:
    """|u|."""
    return num(abs(u.number)) if u.op == "num" else Node("abs", (u,))


def sign(u: Node) -> Node:
    """sign(u), 0 at 0."""
    return num((u.number > 0) - (u.number < 0)) if u.op == "num" else Node("sign", (u,))


def maximum(u: Node, v: Node) -> Node:
    """The larger of u and v."""
    return num(max(u.number, v.number)) if u.op == v.op == "num" else u if u == v else Node("max", (u, v))


def minimum(u: Node, v: Node) -> Node:
    """The smaller of u and v."""
    return num(min(u.number, v.number)) if u.op == v.op == "num" else u if u == v else Node("min", (u, v))


def compare(left: Fraction | float, op: str, right: Fraction | float) -> bool:
    """The truth of a comparison by its symbol."""
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[op]


def choose(u: Node, op: str, v: Node, yes: Node, no: Node) -> Node:
    """`yes if u op v else no`."""
    if u.op == v.op == "num":
        return yes if compare(u.number, op, v.number) else no
    return yes if yes == no else Node("if", (u, v, yes, no), op)


def parameter(name: str) -> Node:
    """A constant known by its name only."""
    return Node("parameter", (), name)


def opaque(leaf: Opaque, u: Node = X) -> Node:
    """The value of a Python callable at u."""
    return Node("opaque", (u,), leaf)


def rebuild(node: Node, args: tuple[Node, ...]) -> Node:
    """The same operation on other arguments, folded again."""
    op = node.op
    if op in _BUILD:
        return _BUILD[op](*args)
    if op in FUNCTIONS:
        return call(op, *args)
    if op == "pow":
        return power(args[0], node.number)
    if op == "He":
        return hermite_polynomial(int(node.number), args[0])
    if op == "if":
        assert isinstance(node.value, str)
        return choose(args[0], node.value, *args[1:])
    return node if not args else Node(op, args, node.value)


_BUILD: dict[str, Callable[..., Node]] = {
    "add": add, "mul": mul, "div": div, "abs": absolute, "sign": sign, "max": maximum, "min": minimum,
}  # fmt: skip


def substitute(node: Node, u: Node) -> Node:
    """The tree with x replaced by u."""
    if node.op == "x":
        return u
    if node.constant:
        return node
    return rebuild(node, tuple(substitute(a, u) for a in node.args))


def affine(gain: Fraction, shift: Fraction) -> Node:
    """gain * x + shift."""
    return add(scale(gain, X), num(shift))


_PRECEDENCE = {"if": 0, "add": 1, "mul": 2, "div": 2, "pow": 4}


def _text(node: Node, outer: int) -> str:
    """Text that the parser reads back; parentheses where the surrounding precedence needs them."""
    text = _bare(node)
    inner = _PRECEDENCE.get(node.op, 5)
    if node.op == "num":
        inner = 1 if node.number < 0 else 2 if node.number.denominator != 1 else 5
    return f"({text})" if inner < outer else text


def _is_negated(node: Node) -> bool:
    """Whether the text starts with a minus sign that binds to all of it."""
    if node.op == "num":
        return node.number < 0
    return node.op == "mul" and node.args[0].op == "num" and node.args[0].number < 0


def _bare(node: Node) -> str:
    op, args = node.op, node.args
    if op == "num":
        return str(node.number)
    if op in ("x", "pi"):
        return op
    if op == "parameter":
        return str(node.value)
    if op == "add":
        left, right = (args[1], args[0]) if args[0].op == "num" else args
        tail = _text(right, 1)
        return f"{_text(left, 1)} - {tail[1:]}" if _is_negated(right) else f"{_text(left, 1)} + {tail}"
    if op == "mul":
        if args[0] == MINUS_ONE:
            return f"-{_text(args[1], 3)}"
        return f"{_text(args[0], 2) if args[0].op != 'num' else args[0].number}*{_text(args[1], 3)}"
    if op == "div":
        return f"{_text(args[0], 2)}/{_text(args[1], 3)}"
    if op == "pow":
        return f"{_text(args[0], 5)}**{_text(num(node.number), 5)}"
    if op == "if":
        u, v, yes, no = args
        return f"{_text(yes, 1)} if {_text(u, 1)} {node.value} {_text(v, 1)} else {_text(no, 0)}"
    if op == "He":
        return f"He({node.number}, {_text(args[0], 0)})"
    name = getattr(node.opaque.function, "__name__", "callable") if op == "opaque" else op
    return f"{name}({', '.join(_text(a, 0) for a in args)})"
