"""SymPy expressions to expression trees: one free symbol, read node by node, nothing simplified or integrated.

The symbol is X ~ N(0, 1), so it is real whatever it was declared: re(u) is u, sqrt(u^2) is |u|. Forms that would
cancel or overflow in float64 become the tree's stable ones (sigmoid, expm1, erfc, He). SymPy is not imported here:
an expression exists only where SymPy has been loaded already.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NoReturn, Protocol

from . import _tree as t
from ._interpreter import constant_value
from ._parse import parse
from ._sympy_conditions import choose, uncovered
from ._sympy_forms import coefficient, hermite_form, is_number, logistic, number, with_root
from ._tree import Node
from .errors import ActivationParseError

# SymPy's class by name: the same function in the expression grammar.
_FUNCTIONS = {
    **{name: f"{name}(x)" for name in ("exp", "log", "sin", "cos", "tanh", "sinh", "cosh", "asinh", "atan", "erf")},
    **{name: f"{name}(x)" for name in ("sign", "expm1", "log1p")},
    "Abs": "abs(x)", "erfc": "1 - erf(x)", "sech": "1/cosh(x)", "re": "x", "conjugate": "x", "im": "0",
}  # fmt: skip
_CONSTANTS = {"Pi": "pi", "Exp1": "exp(1)", "GoldenRatio": "(1 + sqrt(5))/2"}
_POLES = {
    "tan": "pi/2 + k*pi", "cot": "k*pi", "sec": "pi/2 + k*pi", "csc": "k*pi", "coth": "0", "csch": "0",
}  # fmt: skip
_NOT_EVALUATED = frozenset({"Derivative", "Integral", "Sum", "Product", "Limit", "Subs"})
ACCEPTED = (
    "numbers, pi, E, + - * / **, Piecewise with <, <=, >, >=, Eq, Ne, And, Or, Not, and the functions Max, Min, "
    "Heaviside, hermite, hermite_prob, sqrt, " + ", ".join(_FUNCTIONS)
)


class SympyExpression(Protocol):
    """A sympy.Expr by what it carries, since SymPy ships no types."""

    @property
    def free_symbols(self) -> Any:
        """The symbols it depends on."""

    @property
    def is_commutative(self) -> Any:
        """Whether it multiplies as a number does."""


def is_sympy(spec: object) -> bool:
    """Whether this is an object of SymPy's, asked without importing SymPy."""
    basic = getattr(sys.modules.get("sympy"), "Basic", None)
    return isinstance(basic, type) and isinstance(spec, basic)


def from_sympy(expression: Any) -> tuple[Node, str, str]:
    """Tree, name and source of a sympy.Expr in one symbol.

    Floats of 53 bits mean their shortest decimal, as they do in a text; those of other precisions are exact. A
    Piecewise has to cover the line but for single points. Raises ValueError for several symbols or for one that is
    declared to miss a part of the line, ActivationParseError for what the tree has no place for.
    """
    try:
        tree = _Reader(_symbol(expression)).read(expression)
        return tree, _name(expression, tree), f"sympy: {expression}"
    except RecursionError:
        raise ActivationParseError("the sympy expression is nested too deeply") from None


def _symbol(expression: Any) -> Any:
    """The one free symbol, or None for a constant."""
    import sympy

    if not isinstance(expression, sympy.Expr):
        condition = isinstance(expression, sympy.logic.boolalg.Boolean)
        hint = "write Piecewise((1, condition), (0, True))" if condition else "pass a sympy.Expr"
        hint = "pass its as_expr()" if isinstance(expression, sympy.Poly) else hint
        kind = type(expression).__name__
        raise ValueError(f"spec={_short(expression)} is a sympy {kind}, not an expression; {hint}")
    symbols = sorted(expression.free_symbols, key=str)
    if len(symbols) > 1:
        names = ", ".join(map(str, symbols))
        raise ValueError(
            f"spec={_short(expression)} has the symbols {names}; an activation has one. Put numbers for the others, "
            f"as in expr.subs({symbols[0]}, 2); formulas with symbolic parameters go to the verbs of hermite.symbolic"
        )
    for symbol in symbols:
        check_symbol(symbol)
    return symbols[0] if symbols else None


def check_symbol(symbol: Any) -> None:
    """SymPy has already simplified under the symbol's assumptions: Max(t, 0) is t where t is positive."""
    import sympy

    narrow = ("positive", "negative", "nonnegative", "nonpositive", "zero", "integer", "rational")
    declared = [each for each in narrow if getattr(symbol, f"is_{each}")]
    declared += ["not real"] * (symbol.is_extended_real is False)
    if not isinstance(symbol, sympy.Symbol) or symbol.is_commutative is False:
        declared = [f"a {type(symbol).__name__} that is no number"]
    if declared:
        raise ValueError(
            f"the symbol {symbol} is declared {declared[0]}, but N(0, 1) reaches the whole line and sympy has "
            f"simplified under that assumption already; use Symbol({str(symbol)!r}, real=True)"
        )


def _name(expression: Any, tree: Node) -> str:
    """The text of the tree, which reads back, unless sympy's is much shorter (asinh, sech)."""
    from sympy.printing.str import StrPrinter

    class InX(StrPrinter):  # type: ignore[misc]
        def _print_Symbol(self, _: Any) -> str:
            return "x"

        _print_Dummy = _print_Symbol

    own, written = str(tree), str(InX().doprint(expression))
    return own if len(own) <= 1.5 * len(written) else written


@lru_cache(maxsize=64)
def _grammar(text: str) -> Node:
    return parse(text, {})


class _Reader:
    def __init__(self, symbol: Any) -> None:
        import sympy

        self.sympy, self.symbol = sympy, symbol

    def read(self, e: Any) -> Node:
        return _real(self.node(e), e)

    def node(self, e: Any) -> Node:
        kind = self.kind(e)
        if e == self.symbol:
            return t.X
        if e.is_Rational or e.is_Float:
            return t.num(number(e))
        if kind in _CONSTANTS:
            return _grammar(_CONSTANTS[kind])
        if e.is_Add:
            return self.sum(e)
        if e.is_Mul:
            return self.quotient(e.as_ordered_factors())
        if e.is_Pow:
            return self.power(e)
        if kind in ("Max", "Min"):
            return self.extreme(e, kind)
        if kind == "Piecewise":
            return self.piecewise(e)
        if kind == "Heaviside":
            return self.heaviside(*e.args)
        if kind in ("hermite", "hermite_prob"):
            return self.hermite(e, kind)
        if kind == "UnevaluatedExpr":
            return self.read(e.args[0])
        if kind in _FUNCTIONS and len(e.args) == 1:
            return self.function(kind, e.args[0])
        self.refuse(e, kind)

    @staticmethod
    def kind(e: Any) -> str:
        """The name of SymPy's class; empty for a function of the user's, whatever it is called."""
        return type(e).__name__ if str(type(e).__module__).startswith("sympy.") else ""

    def refuse(self, e: Any, kind: str) -> NoReturn:
        if e in (self.sympy.I, self.sympy.nan, self.sympy.zoo, self.sympy.oo, -self.sympy.oo):
            raise ActivationParseError(f"{_short(e)} is not a real number")
        if kind in _POLES:
            raise ActivationParseError(
                f"{_short(e)} has poles where its argument is {_POLES[kind]}: it is not square-integrable under N(0, 1)"
            )
        why = "is not evaluated; call .doit() first (a derivative needs a symbol with real=True)"
        why = why if kind in _NOT_EVALUATED else "has no place in an activation"
        raise ActivationParseError(f"{kind or type(e).__name__}: {_short(e)} {why}. Accepted: {ACCEPTED}")

    def function(self, kind: str, argument: Any) -> Node:
        return t.substitute(_grammar(_FUNCTIONS[kind]), self.read(argument))

    # ---- sums, products, powers --------------------------------------------------------------------------------

    def sum(self, e: Any) -> Node:
        if hermite_form(e) is not None:
            return self.quotient([e])
        terms = [self.read(a) for a in e.as_ordered_terms()]
        constant = sum((u.number for u in terms if u.op == "num"), Fraction(0))
        rest = [u for u in terms if u.op != "num"]
        for i, u in enumerate(rest):
            k, v = coefficient(u)
            if v.op == "exp" and k == -constant:  # a (exp(u) - 1) arrives multiplied out, and would cancel near 0
                rest[i], constant = t.scale(k, t.call("expm1", v.args[0])), Fraction(0)
        return t.add(t.num(constant), reduce(t.add, rest, t.ZERO))

    def quotient(self, factors: Iterable[Any]) -> Node:
        """A product: rational factors, square roots of rationals, numerators and denominators gathered apart."""
        k, square = Fraction(1), Fraction(1)
        above: list[Node] = []
        below: list[tuple[Node, Fraction]] = []
        for a in factors:
            base, exponent = a.as_base_exp() if a.is_Pow else (a, self.sympy.S.One)
            found = hermite_form(a)
            if found is not None:
                k, square = k * found.factor, square * found.square
                argument = t.mul(t.call("sqrt", t.num(found.gain2)), self.read(found.base))
                above.append(t.hermite_polynomial(found.degree, argument))
            elif is_number(a):
                k *= number(a)
            elif base.is_Rational and base > 0 and abs(exponent) == self.sympy.S.Half:
                square *= number(base) if exponent > 0 else 1 / number(base)
            elif a.is_Pow and is_number(exponent):
                u, p = self.base_and_power(base, number(exponent))
                _real(t.power(u, abs(p)), a)
                above, below = ([*above, t.power(u, p)], below) if p > 0 else (above, [*below, (u, -p)])
            else:
                above.append(self.read(a))
        k, above, below = logistic(*with_root(k, square, above, below))
        denominator = reduce(t.mul, [t.power(u, p) for u, p in below], t.ONE)
        return t.scale(k, t.div(reduce(t.mul, above, t.ONE), denominator))

    def base_and_power(self, base: Any, p: Fraction) -> tuple[Node, Fraction]:
        """base^p for real base: (u^2)^p is |u|^(2p), exp(u)^p is exp(p u)."""
        if base.is_Pow and base.exp.is_Integer and base.exp % 2 == 0:
            return t.absolute(self.read(base.base)), p * int(base.exp)
        if self.kind(base) == "exp":
            return t.call("exp", t.scale(p, self.read(base.args[0]))), Fraction(1)
        return self.read(base), p

    def power(self, e: Any) -> Node:
        base, exponent = e.args
        if is_number(exponent):
            return self.quotient([e])
        return t.call("exp", t.mul(self.read(exponent), self.function("log", base)))  # a^v = exp(v log a)

    # ---- functions with a rule of their own ----------------------------------------------------------------------

    def extreme(self, e: Any, kind: str) -> Node:
        args = [self.read(a) for a in sorted(e.args, key=self.sympy.default_sort_key)]
        args.sort(key=lambda u: u.constant)
        return reduce(t.maximum if kind == "Max" else t.minimum, args)

    def heaviside(self, u: Any, at_zero: Any) -> Node:
        """0 to the left, 1 to the right, SymPy's second argument (1/2 if not given) at the jump."""
        v, h = self.read(u), self.read(at_zero)
        if h == t.HALF:
            return t.add(t.HALF, t.scale(Fraction(1, 2), t.sign(v)))
        if h in (t.ZERO, t.ONE):
            return t.choose(v, ">=" if h == t.ONE else ">", t.ZERO, t.ONE, t.ZERO)
        return t.choose(v, ">", t.ZERO, t.ONE, t.choose(v, ">=", t.ZERO, h, t.ZERO))

    def hermite(self, e: Any, kind: str) -> Node:
        """Kept unevaluated: monic He_n = sqrt(n!) times the normalised one, H_n(u) = 2^(n/2) He_n(sqrt(2) u)."""
        n, u = e.args
        if not n.is_Integer or n < 0:
            raise ActivationParseError(f"{e}: the degree must be a non-negative integer")
        k, v = int(n), self.read(u)
        square = Fraction(math.factorial(k))
        if kind == "hermite":
            square, v = square * 2**k, t.mul(t.call("sqrt", t.num(2)), v)
        factor, factors, _ = with_root(Fraction(1), square, [t.hermite_polynomial(k, v)], [])
        return t.scale(factor, reduce(t.mul, factors))

    def piecewise(self, e: Any) -> Node:
        """Nested ifs; where no condition is True, the last pair stands for the rest of the line."""
        pairs = list(e.args)
        if pairs[-1].cond != self.sympy.true:
            gap = uncovered([pair.cond for pair in pairs], self.read)
            if gap is not None:
                raise ActivationParseError(
                    f"{_short(e)} has no value on ({gap.lower}, {gap.upper}); add a last pair (value, True)"
                )
        tree = self.read(pairs[-1].expr)
        for pair in reversed(pairs[:-1]):
            tree = choose(pair.cond, self.read(pair.expr), tree, self.read)
        return tree


def _short(e: Any) -> str:
    text = str(e)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _real(node: Node, e: Any) -> Node:
    """A constant must be a real number: (-8)^(1/3) and log(cos(4)) are refused where they stand."""
    if node.constant and node.op != "num" and not math.isfinite(constant_value(node)):
        raise ActivationParseError(f"{_short(e)} is not a real number")
    return node
