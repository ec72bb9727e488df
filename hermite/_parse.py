"""Text to expression tree through a whitelist over Python's `ast`; nothing in the text is ever evaluated.

Grammar: x, pi, decimal numbers, + - * / ** (rational exponents), `a if u > v else b`, the tree's functions, min and
max, macros (sinh, cosh, arcsinh, asinh, atan, heaviside, Phi), `He(3, x)`, and every catalogue name with keyword
parameters. Lengths, depths and exponents are bounded.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import NoReturn

from . import _tree as t
from ._interpreter import constant_value
from ._tree import Node
from .errors import ActivationParseError

MAX_LENGTH = 2000
_MAX_NESTING = 60

Named = Callable[[Node, Mapping[str, object]], Node]
"""A catalogue entry: its argument and its parameters to a tree."""


def parse(text: str, named: Mapping[str, Named], constants: Mapping[str, Fraction | Node] | None = None) -> Node:
    """The tree of a text; `named` are the catalogue entries that may be called in it, `constants` named constants."""
    body = _syntax(_checked(text)).body
    try:
        return _Reader(text, named, constants or {}).read(body)
    except RecursionError:
        raise ActivationParseError(f"{text[:60]!r}... is nested too deeply") from None


def _checked(text: str) -> str:
    if not text.strip():
        raise ActivationParseError("the expression is empty; write a formula in x, such as 'max(x, 0)'")
    if len(text) > MAX_LENGTH:
        raise ActivationParseError(f"the expression has {len(text)} characters; the limit is {MAX_LENGTH}")
    bad = next((c for c in text if not (c.isascii() and c.isprintable()) and c not in " \t\n"), None)
    if bad is not None:
        raise ActivationParseError(f"the character {bad!r} is not part of the grammar; use plain ASCII")
    if "^" in text:
        raise ActivationParseError(f"'^' is not a power here; write ** as in {text.replace('^', '**')[:60]!r}")
    nesting = deepest = 0
    for c in text:
        nesting += (c in "([{") - (c in ")]}")
        deepest = max(deepest, nesting)
    if deepest > _MAX_NESTING:
        raise ActivationParseError(f"{deepest} nested parentheses; the limit is {_MAX_NESTING}")
    return text


def _syntax(text: str) -> ast.Expression:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SyntaxWarning for things like `1 if x` are our errors below
            return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise ActivationParseError(f"{text[:80]!r} is not an expression: {reason}") from None


class _Reader:
    def __init__(self, text: str, named: Mapping[str, Named], constants: Mapping[str, Fraction | Node]) -> None:
        self.text, self.named, self.constants = text.strip(), named, constants

    def read(self, node: ast.expr) -> Node:
        if isinstance(node, ast.Constant):
            return t.num(self.number(node))
        if isinstance(node, ast.Name):
            return self.name(node.id)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            u = self.read(node.operand)
            return t.neg(u) if isinstance(node.op, ast.USub) else u
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.IfExp):
            return self.conditional(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Compare):
            self.fail(node, "a comparison stands only inside `a if u > v else b`")
        self.fail(node, f"{type(node).__name__} is not part of the grammar")

    def fail(self, node: ast.AST, why: str) -> NoReturn:
        piece = ast.get_source_segment(self.text, node) or self.text
        raise ActivationParseError(f"{piece[:60]!r}: {why}")

    def number(self, node: ast.Constant) -> Fraction:
        source = ast.get_source_segment(self.text, node) or ""
        if isinstance(node.value, (bool, str, bytes, complex)) or node.value is None or node.value is Ellipsis:
            self.fail(node, "only decimal numbers are allowed")
        match = re.fullmatch(r"[\d_]*\.?[\d_]*(?:[eE]([+-]?\d+))?", source)
        if match is None:
            self.fail(node, "only decimal numbers are allowed")
        if match[1] is not None and abs(int(match[1][:6])) > 300:
            self.fail(node, "decimal exponents are limited to +-300")
        return Fraction(source.replace("_", ""))  # the decimal as written, not its float

    def name(self, name: str) -> Node:
        if name in ("x", "pi"):
            return t.X if name == "x" else t.PI
        if name in self.constants:
            value = self.constants[name]
            return value if isinstance(value, Node) else t.num(value)
        if name in self.named or name in _CALLS:
            raise ActivationParseError(f"{name!r} is a function; write {name}(x)")
        raise ActivationParseError(f"unknown name {name!r}; the variable is x, the constants are numbers and pi")

    def binary(self, node: ast.BinOp) -> Node:
        if isinstance(node.op, ast.Pow):
            return self.power(node)
        operations: dict[type[ast.operator], Callable[[Node, Node], Node]] = {
            ast.Add: t.add, ast.Sub: t.sub, ast.Mult: t.mul, ast.Div: t.div,
        }  # fmt: skip
        operation = operations.get(type(node.op))
        if operation is None:
            self.fail(node, f"the operator {type(node.op).__name__} is not part of the grammar")
        left, right = self.read(node.left), self.read(node.right)
        return _finite(operation(left, right), self.text)

    def power(self, node: ast.BinOp) -> Node:
        base, exponent = self.read(node.left), self.read(node.right)
        if exponent.op != "num":
            self.fail(node, "the exponent must be a number; write exp(u*log(a)) for a**u")
        return _finite(t.power(base, exponent.number), self.text)

    def conditional(self, node: ast.IfExp) -> Node:
        test = node.test
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            self.fail(test, "the condition must be one comparison such as x > 0")
        symbols: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
        symbol = symbols.get(type(test.ops[0]))
        if symbol is None:
            self.fail(test, "only <, <=, >, >= compare")
        u, v = self.read(test.left), self.read(test.comparators[0])
        return t.choose(u, symbol, v, self.read(node.body), self.read(node.orelse))

    def call(self, node: ast.Call) -> Node:
        if not isinstance(node.func, ast.Name):
            self.fail(node, "only functions called by name are allowed")
        name = node.func.id
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            self.fail(node, "* and ** arguments are not part of the grammar")
        args = [self.read(a) for a in node.args]
        if name == "He" and not node.keywords:
            if len(args) != 2 or args[0].op != "num" or args[0].number.denominator != 1:
                self.fail(node, "He takes an integer degree and an argument, as in He(3, x)")
            return t.hermite_polynomial(int(args[0].number), args[1])
        if name in _CALLS and not node.keywords:
            return self.elementary(node, name, args)
        if name in self.named:
            return self.catalogue_call(node, name, args)
        self.fail(node, f"unknown function {name!r}")

    def elementary(self, node: ast.Call, name: str, args: list[Node]) -> Node:
        low, high, build = _CALLS[name]
        if not low <= len(args) <= high:
            self.fail(node, f"{name} takes {'one argument' if high == 1 else 'two or more arguments'}")
        return _finite(build(*args), self.text)

    def catalogue_call(self, node: ast.Call, name: str, args: list[Node]) -> Node:
        if len(args) != 1:
            self.fail(node, f"{name} takes one argument and keyword parameters, as in {name}(x)")
        parameters: dict[str, object] = {}
        for keyword in node.keywords:
            assert keyword.arg is not None
            if keyword.arg in parameters:
                self.fail(node, f"the parameter {keyword.arg} is given twice")
            if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, (str, bool)):
                parameters[keyword.arg] = keyword.value.value
                continue
            value = self.read(keyword.value)
            if value.op != "num":
                self.fail(node, f"the parameter {keyword.arg} of {name} must be a number")
            parameters[keyword.arg] = value.number
        try:
            return self.named[name](args[0], parameters)
        except ValueError as error:
            self.fail(node, str(error))


def _finite(node: Node, text: str) -> Node:
    """A constant subtree must be a real number: 1/(pi - pi) and log(sin(4)) are refused."""
    if node.constant and node.op != "num" and not _has_parameter(node) and not math.isfinite(constant_value(node)):
        raise ActivationParseError(f"{node} in {text[:60]!r} is not a real number")
    return node


def _has_parameter(node: Node) -> bool:
    return node.op == "parameter" or any(_has_parameter(a) for a in node.args)


def _fold(operation: Callable[[Node, Node], Node]) -> Callable[..., Node]:
    def build(*args: Node) -> Node:
        result = args[0]
        for a in args[1:]:
            result = operation(result, a)
        return result

    return build


def _sinh(u: Node) -> Node:
    # both terms have the sign of u: no cancellation near 0
    return t.scale(Fraction(1, 2), t.sub(t.call("expm1", u), t.call("expm1", t.neg(u))))


def _cosh(u: Node) -> Node:
    return t.scale(Fraction(1, 2), t.add(t.call("exp", u), t.call("exp", t.neg(u))))


def _arcsinh(u: Node) -> Node:
    # odd by construction: log(|u| + sqrt(1 + u^2)) with the cancellation-free log1p
    a = t.absolute(u)
    root = t.call("sqrt", t.add(t.ONE, t.power(u, Fraction(2))))
    inner = t.add(a, t.div(t.power(u, Fraction(2)), t.add(t.ONE, root)))
    return t.mul(t.sign(u), t.call("log1p", inner))


def normal_cdf(u: Node) -> Node:
    """Phi(u) = (1 + erf(u/sqrt 2))/2."""
    return t.scale(Fraction(1, 2), t.add(t.ONE, t.call("erf", t.div(u, t.call("sqrt", t.num(2))))))


def heaviside(u: Node) -> Node:
    """1 where u >= 0, else 0."""
    return t.choose(u, ">=", t.ZERO, t.ONE, t.ZERO)


def _function(name: str) -> tuple[int, int, Callable[..., Node]]:
    return 1, 1, lambda u: t.call(name, u)


_CALLS: dict[str, tuple[int, int, Callable[..., Node]]] = {
    **{name: _function(name) for name in t.FUNCTIONS},
    "atan": _function("arctan"),
    "abs": (1, 1, t.absolute),
    "sign": (1, 1, t.sign),
    "max": (2, 16, _fold(t.maximum)),
    "min": (2, 16, _fold(t.minimum)),
    "sinh": (1, 1, _sinh),
    "cosh": (1, 1, _cosh),
    "arcsinh": (1, 1, _arcsinh),
    "asinh": (1, 1, _arcsinh),
    "heaviside": (1, 1, heaviside),
    "Phi": (1, 1, normal_cdf),
    "He": (2, 2, lambda k, u: t.hermite_polynomial(int(k.number), u)),
}
