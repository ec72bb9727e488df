r"""Expression trees and moments as LaTeX, the way a paper prints them; the commands are LaTeX's and amsmath's.

A tree is not quite what a paper writes: its quotients and rational factors are spread over nodes, Phi and sinh are
sums. So products are first gathered as coefficient, numerator and denominator, and known sums get their name back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _tree as t
from ._numbers import as_fraction
from ._parse import parse
from ._tree import Node

if TYPE_CHECKING:
    from ._moments import Moments

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 4, 5  # how strongly the outermost operation of a text binds
_ROOT_TWO = t.call("sqrt", t.num(2))
_COMMANDS = {
    **{name: rf"\{name}" for name in ("sin", "cos", "tanh", "sinh", "cosh", "arctan", "log", "max", "min")},
    **{name: rf"\operatorname{{{name}}}" for name in ("erf", "sigmoid", "sign", "arsinh")},
    "Phi": r"\Phi",
}  # fmt: skip
_POWERS_OF_NAMES = frozenset({"sin", "cos", "tanh", "sinh", "cosh"})  # tanh^2(x) is a square; log^2 is not always
_RELATIONS = {"<": "<", "<=": r"\le", ">": ">", ">=": r"\ge"}
_LONGEST_FRACTION = 1000  # beyond this denominator a finite decimal is printed as such: 0.044715


class _Text(NamedTuple):
    text: str
    binds: int


def latex(tree: Node) -> str:
    r"""The tree in LaTeX, without dollars.

    >>> print(latex(parse("x*Phi(x) - abs(x)**3/2", {})))
    x \Phi(x) - \frac{1}{2} |x|^{3}
    """
    return _show(tree).text


def _show(node: Node) -> _Text:
    op, args = node.op, node.args
    if op in ("num", "mul", "div") or _recognised(node) is not None or (op == "pow" and node.number < 0):
        return _product(node)
    if op in ("x", "pi"):
        return _Text("x" if op == "x" else r"\pi", _ATOM)
    if op == "add":
        return _sum(node)
    if op == "pow":
        return _power(args[0], node.number)
    if op == "if":
        return _cases(node)
    if op == "abs":
        return _Text(_bars(_show(args[0]).text), _ATOM)
    if op == "sqrt":
        return _Text(rf"\sqrt{{{_show(args[0]).text}}}", _POWER)
    if op == "exp":
        return _exponential(_show(args[0]).text)
    if op == "expm1":
        return _Text(f"{_exponential(_show(args[0]).text).text} - 1", _SUM)
    if op == "log1p":
        return _show(Node("log", (Node("add", (t.ONE, args[0])),)))
    return _Text(_name(node) + _brackets(", ".join(_show(a).text for a in _arguments(node))), _ATOM)


def _name(node: Node) -> str:
    if node.op == "He":
        return rf"\mathrm{{He}}_{{{node.number}}}"
    if node.op == "opaque":
        name = getattr(node.opaque.function, "__name__", type(node.opaque.function).__name__)
        escaped = re.sub(r"\W", "", name, flags=re.ASCII).replace("_", r"\_") or "f"
        return rf"\operatorname{{{escaped}}}"
    return _COMMANDS[node.op]


def _arguments(node: Node) -> Iterator[Node]:
    """max(max(a, b), c) has three arguments."""
    for a in node.args:
        if node.op in ("max", "min") and a.op == node.op:
            yield from _arguments(a)
        else:
            yield a


def _tall(text: str) -> bool:
    return any(command in text for command in (r"\frac", r"\begin", r"\left"))


def _brackets(text: str) -> str:
    return rf"\left({text}\right)" if _tall(text) else f"({text})"


def _bars(text: str) -> str:
    return rf"\left|{text}\right|" if _tall(text) or "|" in text else f"|{text}|"


def _bound(node: Node, strength: int) -> str:
    """The text, in brackets where its outermost operation binds less than what stands around it."""
    text, binds = _show(node)
    return text if binds >= strength else _brackets(text)


def _exponential(exponent: str) -> _Text:
    return _Text(rf"\exp\left({exponent}\right)", _ATOM) if _tall(exponent) else _Text(f"e^{{{exponent}}}", _POWER)


def _power(base: Node, exponent: Fraction) -> _Text:
    if base.op in _POWERS_OF_NAMES and exponent.denominator == 1:
        return _Text(f"{_name(base)}^{{{exponent}}}{_brackets(_show(base.args[0]).text)}", _POWER)
    return _Text(f"{_bound(base, _ATOM)}^{{{exponent}}}", _POWER)


def _cases(node: Node) -> _Text:
    lines = []
    while node.op == "if":
        u, v, yes, no = node.args
        lines.append(rf"{_show(yes).text} & \text{{if }} {_condition(u, str(node.value), v)}")
        node = no
    lines.append(rf"{_show(node).text} & \text{{otherwise}}")
    return _Text(r"\begin{cases} " + r" \\ ".join(lines) + r" \end{cases}", 0)


def _condition(u: Node, op: str, v: Node) -> str:
    if u.op == "abs" and op == "<=" and v == t.ZERO:
        return f"{_show(u.args[0]).text} = 0"
    return f"{_show(u).text} {_RELATIONS[op]} {_show(v).text}"


# ---- sums -----------------------------------------------------------------------------------------------------


def _sum(node: Node) -> _Text:
    """Terms in the tree's order; the constant last behind a polynomial, else in front: x^2 - 2, but 1 + e^x."""
    terms = list(_terms(node))
    constant = terms.pop(0) if terms[0].op == "num" else None
    texts = [_bound(u, _SUM) for u in terms]
    if constant is not None:
        leads = constant.number > 0 and (texts[0].startswith("-") or not all(map(_is_polynomial, terms)))
        texts.insert(0 if leads else len(texts), _show(constant).text)
    text = reduce(lambda a, b: f"{a} - {b[1:]}" if b.startswith("-") else f"{a} + {b}", texts)
    return _Text(text, _SUM)


def _terms(node: Node) -> Iterator[Node]:
    if node.op == "add" and _recognised(node) is None:
        for a in node.args:
            yield from _terms(a)
    else:
        yield node


def _is_polynomial(node: Node) -> bool:
    whole = node.op != "pow" or (node.number.denominator == 1 and node.number > 0)
    return whole and (node.constant or node.op in ("x", "add", "mul", "pow")) and all(map(_is_polynomial, node.args))


# ---- products -------------------------------------------------------------------------------------------------


def _product(node: Node) -> _Text:
    k, above, below = _factors(node)
    sign, p, q = "-" * (k < 0), abs(k.numerator), k.denominator
    if not above and not below:
        return _number(k)
    compact = all(u.constant or u.op == "x" or (u.op == "pow" and u.args[0].op == "x") for u in above)
    if below or (q != 1 and compact and q <= _LONGEST_FRACTION):
        text = rf"\frac{{{_stacked(p, above)}}}{{{_stacked(q, below)}}}"
    else:
        text = _juxtaposed([_number(abs(k)).text] * (abs(k) != 1), above)
    return _Text(sign + text, _SUM if sign else _PRODUCT)


def _stacked(k: int, factors: list[Node]) -> str:
    """A numerator or denominator: a sum that is all there is needs no bracket."""
    alone = len(factors) == 1 and k == 1
    return _show(factors[0]).text if alone else _juxtaposed([str(k)] * (k != 1 or not factors), factors)


def _juxtaposed(numbers: list[str], factors: list[Node]) -> str:
    """Side by side, constants first; a dot where two numbers would run together."""
    texts = numbers + [_bound(u, _PRODUCT) for u in sorted(factors, key=lambda u: not u.constant)]
    return reduce(lambda a, b: rf"{a} \cdot {b}" if b[0].isdigit() else f"{a} {b}", texts)


def _factors(node: Node) -> tuple[Fraction, list[Node], list[Node]]:
    """Rational coefficient, numerator and denominator."""
    known = _recognised(node)
    if known is not None:
        return known[0], [known[1]], []
    if node.op == "num":
        return node.number, [], []
    if node.op == "pow" and node.number < 0:
        return Fraction(1), [], [t.power(node.args[0], -node.number)]
    if node.op not in ("mul", "div"):
        return Fraction(1), [node], []
    (k, a, b), (m, c, d) = map(_factors, node.args)
    return (k * m, a + c, b + d) if node.op == "mul" else (k / m, a + d, b + c)


def _number(q: Fraction) -> _Text:
    sign, size = "-" * (q < 0), abs(q)
    if size.denominator == 1:
        return _Text(f"{q}", _SUM if sign else _ATOM)
    if size.denominator > _LONGEST_FRACTION and (places := _decimal_places(size.denominator)) is not None:
        whole, rest = divmod(size.numerator * 10**places // size.denominator, 10**places)
        return _Text(f"{sign}{whole}.{rest:0{places}}", _SUM if sign else _ATOM)
    return _Text(rf"{sign}\frac{{{size.numerator}}}{{{size.denominator}}}", _SUM if sign else _PRODUCT)


def _decimal_places(denominator: int) -> int | None:
    """How many decimals a fraction with this denominator has; None if it has no end."""
    counts = []
    for prime in (2, 5):
        counts.append(0)
        while denominator % prime == 0:
            denominator //= prime
            counts[-1] += 1
    return max(counts) if denominator == 1 else None


# ---- sums and products that have a name -------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _macros() -> tuple[tuple[Fraction, str, Node], ...]:
    """k, a name, and the tree of k times that function of x."""
    texts = [(2, "sinh", "2*sinh(x)"), (2, "cosh", "2*cosh(x)"), (1, "arsinh", "asinh(x)")]
    return tuple((Fraction(k), name, parse(text, {})) for k, name, text in texts)


def _recognised(node: Node) -> tuple[Fraction, Node] | None:
    """k and a named function where the node is k times it: c (1 +- erf(u/sqrt 2)) is 2c Phi(+-u)."""
    if node.op not in ("add", "mul"):
        return None
    left, right = node.args
    if node.op == "add" and left.op == "num":
        k, erf = (right.args[0], right.args[1]) if right.op == "mul" else (t.ONE, right)
        inner = erf.args[0] if erf.op == "erf" else t.ONE
        same = k.op == "num" and abs(k.number) == abs(left.number)
        if same and inner.op == "div" and inner.args[1] == _ROOT_TWO:
            flipped = k.number * left.number < 0
            return 2 * left.number, Node("Phi", (t.neg(inner.args[0]) if flipped else inner.args[0],))
        return None
    u = left.args[0] if left.op in ("exp", "expm1", "sign") else None
    for factor, name, macro in _macros():
        if u is not None and t.substitute(macro, u) == node:
            return factor, Node(name, (u,))
    return None


# ---- moments --------------------------------------------------------------------------------------------------

_SHOWN = 7  # coefficients


def moments_latex(found: Moments) -> str:
    """c_0, c_1, ... and the moments one below the other, each with the digits that its error supports."""
    scale = _as_float(found.second_moment)
    size, square = (None, None) if scale is None else (found.error * scale**0.5, found.error * scale)
    lines = [f"c_{{{k}}} &= {_value(c, size)}" for k, c in enumerate(islice(found.coefficients, _SHOWN))]
    lines += [r"&\ \ \vdots"] * (len(found.coefficients) > _SHOWN)
    lines.append(rf"\operatorname{{E}}\sigma^{{2}} &= {_value(found.second_moment, square)}")
    variance = _value(found.variance, square)
    lines.append(rf"\operatorname{{Var}}\sigma &= {variance}")
    if variance != "0":  # else sigma is constant, and beta is not defined
        lines.append(rf"\beta &= {_value(found.strength, None if scale is None else found.strength_error)}")
    return r"\begin{aligned} " + r" \\ ".join(lines) + r" \end{aligned}"


def _as_float(value: Any) -> float | None:
    """None for a formula with symbols."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _value(value: Any, error: float | None) -> str:
    """A number that prints itself (an exact formula, a ball), else a decimal known to +-error."""
    own = getattr(value, "_repr_latex_", None)
    if own is not None:
        return re.sub(r"^\$(\\displaystyle)?\s*|\$$", "", str(own()))
    from ._table import rounded

    exact = as_fraction(value, "a moment")
    digits = 15 if isinstance(value, float) else 200
    decimal = Context(prec=digits + 30).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    mantissa, e, exponent = rounded(decimal, error or 0.0, digits).partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}" if e else mantissa
