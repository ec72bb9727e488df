"""Expression trees over balls: real intervals, and complex boxes on which a finite answer proves analyticity.

`real(node)` accepts every tree: where a ball does not decide a comparison, the answer covers both branches. Nothing
here looks at the midpoint of a ball to decide anything; only its ends count. `complex_box(node)` is for trees without
splitting operations and answers non-finite where the function has a pole or meets a branch cut, so a finite answer on
a closed box means that the tree is analytic on a neighbourhood of it.

A compiled function carries its constants at the precision at which it was compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from .._tree import Node
from ..errors import NotSquareIntegrableError
from ._boxes import BOX_FUNCTIONS, NOWHERE, box_hermite, box_power, box_softplus, finite_or_nowhere, inverse
from ._flint import Ball, Box, arb, exact, hull, natural_power

RealFunction = Callable[[Ball], Ball]
BoxFunction = Callable[[Box], Box]

_NARROW = 24  # bits of relative accuracy above which one evaluation at the midpoint loses nothing


def constant(node: Node) -> Ball:
    """The value of a tree without x, as narrow as the working precision makes it."""
    value = real(node)(arb(0))
    if not value.is_finite():
        raise NotSquareIntegrableError(f"{node} is not a real number")
    return value


def real(node: Node) -> RealFunction:
    """The tree as a function of real balls."""
    op, args = node.op, node.args
    if op == "x":
        return lambda x: x
    if op == "num":
        number = exact(node.number)
        return lambda x: number
    if op == "pi":
        pi = arb.pi()
        return lambda x: pi
    if op == "if":
        return _choice(node)
    if op == "pow":
        return _powered(real(args[0]), node.number)
    if op == "He":
        return _hermite(real(args[0]), int(node.number))
    inner = [real(a) for a in args]
    function = _fixed(node, _REAL[op], inner)
    if function is not None:
        return function
    f, u = _REAL[op], inner[0]
    if len(inner) == 1:
        return lambda x: f(u(x))
    v = inner[1]
    return lambda x: f(u(x), v(x))


def _fixed(node: Node, f: Callable[..., Any], inner: list[RealFunction]) -> RealFunction | None:
    """Constant subtrees are evaluated once."""
    if not node.constant:
        return None
    value = f(*(g(arb(0)) for g in inner))
    return lambda x: value


# ---- real functions ---------------------------------------------------------------------------------------------


def _rising(f: Callable[[Ball], Ball]) -> Callable[[Ball], Ball]:
    """A non-decreasing function: at the ends of a wide ball, for FLINT's error propagation is made for narrow ones."""

    def g(x: Ball) -> Ball:
        if x.is_exact() or x.rel_accuracy_bits() > _NARROW:
            return f(x)
        return hull(f(x.lower()), f(x.upper()))

    return g


def _sigmoid(x: Ball) -> Ball:
    return 1 / (1 + (-x).exp())


def _sqrt(x: Ball) -> Ball:
    """sqrt; a ball that only touches the negative numbers is cut at 0, for a tree is real where it is defined."""
    if x.rel_accuracy_bits() > _NARROW:
        return x.sqrt()
    low, high = x.lower(), x.upper()
    return hull(low.sqrt() if low > 0 else arb(0), high.sqrt()) if high >= 0 else arb.nan()


def _absolute(x: Ball) -> Ball:
    if x >= 0:
        return x
    return -x if x <= 0 else hull(arb(0), abs(x).upper())


def _sign(x: Ball) -> Ball:
    if x > 0:
        return arb(1)
    return arb(-1) if x < 0 else arb(0) if x.is_zero() else arb(0, 1) if x.is_finite() else arb.nan()


def _maximum(u: Ball, v: Ball) -> Ball:
    if not (u.is_finite() and v.is_finite()):
        return arb.nan()
    if u >= v:
        return u
    return v if u <= v else hull(_greater(u.lower(), v.lower()), _greater(u.upper(), v.upper()))


def _minimum(u: Ball, v: Ball) -> Ball:
    return -_maximum(-u, -v)


def _greater(a: Ball, b: Ball) -> Ball:
    return a if a >= b else b


def _powered(u: RealFunction, p: Fraction) -> RealFunction:
    if p.denominator == 1:
        return lambda x: _integer_power(u(x), int(p))
    exponent = exact(p)

    def g(x: Ball) -> Ball:
        base = u(x)
        if base > 0:
            return base**exponent if base.rel_accuracy_bits() > _NARROW else _ends(base, exponent)
        if p < 0 or not base.upper() >= 0:
            return arb.nan()
        high = base.upper()
        return arb(0) if high.is_zero() else hull(arb(0), high**exponent)

    return g


def _ends(base: Ball, exponent: Ball) -> Ball:
    return hull(base.lower() ** exponent, base.upper() ** exponent)


def _integer_power(x: Ball, n: int) -> Ball:
    if n < 0:
        return 1 / _integer_power(x, -n)
    if x.is_exact() or x.rel_accuracy_bits() > _NARROW:
        return natural_power(x, n)
    if n % 2 == 0:
        x = _absolute(x)
        low = x.lower()
        return hull(natural_power(low, n) if low > 0 else arb(0), natural_power(x.upper(), n))
    return hull(natural_power(x.lower(), n), natural_power(x.upper(), n))


def _hermite(u: RealFunction, degree: int) -> RealFunction:
    scale, root = hermite_scale(degree)
    return lambda x: scale * (u(x) * root).hermite_h(degree)


def hermite_scale(degree: int) -> tuple[Ball, Ball]:
    """He_k(x) = a H_k(b x) with FLINT's H_k: a = (2^k k!)^(-1/2), b = 2^(-1/2)."""
    return (exact(2**degree) * arb(degree).fac()).rsqrt(), exact(2).rsqrt()


def _choice(node: Node) -> RealFunction:
    u, v, yes, no = (real(a) for a in node.args)
    above = node.value in (">", ">=")

    def g(x: Ball) -> Ball:
        a, b = u(x), v(x)
        if a > b:
            return yes(x) if above else no(x)
        if a < b:
            return no(x) if above else yes(x)
        return hull(yes(x), no(x))

    return g


_REAL: Mapping[str, Callable[..., Ball]] = {
    "add": lambda u, v: u + v,
    "mul": lambda u, v: u * v,
    "div": lambda u, v: u / v,
    "exp": _rising(lambda x: x.exp()),
    "expm1": _rising(lambda x: x.expm1()),
    "log": _rising(lambda x: x.log()),
    "log1p": _rising(lambda x: x.log1p()),
    "sqrt": _sqrt,
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tanh": _rising(lambda x: x.tanh()),
    "arctan": _rising(lambda x: x.atan()),
    "erf": _rising(lambda x: x.erf()),
    "sigmoid": _rising(_sigmoid),
    "abs": _absolute,
    "sign": _sign,
    "max": _maximum,
    "min": _minimum,
}


# ---- complex boxes ----------------------------------------------------------------------------------------------


def complex_box(node: Node) -> BoxFunction:
    """A tree without splitting operations as a function of complex boxes in the closed upper half plane."""
    op, args = node.op, node.args
    if op == "x":
        return lambda z: z
    if node.constant:
        value = constant(node)
        return lambda z: value
    if op == "log1p" and args[0].op == "exp":
        return _unary(box_softplus, complex_box(args[0].args[0]))
    u = complex_box(args[0])
    if op == "pow":
        p = node.number
        return _unary(lambda z: box_power(z, p), u)
    if op == "He":
        degree = int(node.number)
        return _unary(lambda z: box_hermite(z, degree), u)
    if len(args) == 1:
        return _unary(BOX_FUNCTIONS[op], u)
    v, f = complex_box(args[1]), _BINARY[op]
    return lambda z: finite_or_nowhere(f(u(z), v(z)))


def _unary(f: BoxFunction, u: BoxFunction) -> BoxFunction:
    """f after u; what was not finite once stays so, whatever f would make of it."""

    def g(z: Box) -> Box:
        w = u(z)
        return finite_or_nowhere(f(w)) if w.is_finite() else NOWHERE

    return g


_BINARY: Mapping[str, Callable[[Any, Any], Box]] = {
    "add": lambda u, v: u + v,
    "mul": lambda u, v: u * v,
    "div": lambda u, v: u * inverse(v),
}
