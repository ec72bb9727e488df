"""Square-integrable singular points such as that of log|x| or |x|^-0.2: a proven bound next to them.

In y = 1/|x - p| the point lies at infinity, so the rules of `_ray` bound sigma there too: |sigma| <= a (1 + y)^k on
y >= 1/t. With 2k < 1 and t <= 1 the mean square over 0 < |x - p| < t is at most, on either side,
    0.4 a^2 integral of (2/u)^(2k) du = 0.4 a^2 4^k t^(1-2k)/(1-2k),
since 1 + 1/u <= 2/u and the Gaussian density is below 0.4.
"""

from __future__ import annotations

from fractions import Fraction

from .. import _tree as t
from .._activation import Activation
from .._algebra import shifted
from .._tree import Node
from ..errors import ActivationParseError
from ._balls import real
from ._flint import Ball, arb, between, exact
from ._ray import Bound, size, span

_START = 2**20


def singular_widths(sigma: Activation, target: Ball) -> dict[Fraction, Fraction]:
    """Rational points next to which balls find no bound, each with a half width of mean square below the target.

    Points for which no rule gives a bound are left out.
    """
    f, out = real(sigma.expr), {}
    near = Fraction(1, 2**60)
    for point in _singular_points(sigma):
        if f(between(point - near, point + near)).is_finite():
            continue
        bound = _local(sigma.expr, point)
        if bound is None:
            continue
        width = Fraction(1, _START)
        while not mean_square(bound, 2 * width) <= target and width > Fraction(1, 2**4000):
            width /= 16
        out[point] = width
    return out


def _singular_points(sigma: Activation) -> set[Fraction]:
    ends = [(p.lower, p.singular_lower) for p in sigma.pieces] + [(p.upper, p.singular_upper) for p in sigma.pieces]
    return {end.exact for end, singular in ends if singular and isinstance(end.exact, Fraction)}


def near_singular(sigma: Activation, low: Fraction, high: Fraction) -> Ball | None:
    """A bound of the mean square over an interval around a singular point of sigma, None without one."""
    for point in _singular_points(sigma):
        if low <= point <= high:
            bound = _local(sigma.expr, point)
            reach = max(point - low, high - point)
            return None if bound is None or reach * _START > 2 else mean_square(bound, reach)
    return None


def mean_square(bound: Bound, t0: Fraction) -> Ball:
    """The bound above, for both sides together."""
    k, reach = bound.p, exact(t0)
    rest = 1 - 2 * k
    one = exact(Fraction(2, 5)) * bound.a * bound.a * (k * arb(4).log()).exp() * (rest * reach.log()).exp() / rest
    return (2 * one).upper()


def _local(tree: Node, point: Fraction) -> Bound | None:
    """A bound a (1 + y)^k on both sides, 2k < 1."""
    out: Bound | None = None
    for side in (1, -1):
        try:
            local = _rewritten(t.substitute(shifted(tree, point), t.scale(Fraction(side), t.div(t.ONE, t.X))))
        except ActivationParseError:  # too large once written out
            return None
        bound = size(local, arb(_START // 2))
        if bound is None or not (bound.b <= 0 and bound.q <= 0 and 2 * bound.p < 1 and bound.a.is_finite()):
            return None
        out = bound if out is None else out.join(bound)
    return out


def _rewritten(u: Node) -> Node:
    """Equal for x > 0, with 1/x moved out of logarithms, powers and absolute values."""
    if not u.args or u.constant:
        return u
    args = tuple(_rewritten(a) for a in u.args)
    a = args[0]
    if u.op in ("if", "max", "min"):
        return _branch(u, args)
    if u.op == "abs":
        return _absolute(a)
    if u.op == "log":
        return _logarithm(a)
    if u.op in ("pow", "sqrt"):
        return _powered(a, Fraction(1, 2) if u.op == "sqrt" else u.number)
    if u.op == "mul":
        return _product(*args)
    if u.op == "div":
        return _product(a, _inverse(args[1]))
    return t.rebuild(u, args)


def _branch(u: Node, args: tuple[Node, ...]) -> Node:
    """The branch that is taken far out, where the sign of the difference shows in its numerator and denominator."""
    sign = 1
    for part in _quotient(_rewritten(t.sub(args[0], args[1]))):
        low, high = span(part, arb(_START // 2))
        sign *= 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0
    if sign == 0:
        return t.rebuild(u, args)
    if u.op == "if":
        return args[2] if (sign > 0) == (u.value in (">", ">=")) else args[3]
    return args[0] if (sign > 0) == (u.op == "max") else args[1]


def _positive_factor(a: Node) -> tuple[Fraction, Node] | None:
    """c > 0 and the rest of c * rest."""
    if a.op == "mul" and a.args[0].op == "num" and a.args[0].number > 0:
        return a.args[0].number, a.args[1]
    return None


def _absolute(a: Node) -> Node:
    if a.op == "x" or (a.op == "pow" and a.args[0].op == "x"):
        return a
    if a.op == "div":
        return t.div(_absolute(a.args[0]), _absolute(a.args[1]))
    if a.op == "mul":
        return t.mul(_absolute(a.args[0]), _absolute(a.args[1]))
    return t.absolute(a)


def _logarithm(a: Node) -> Node:
    if a.op == "div" and a.args[0].op == "num" and a.args[0].number > 0:
        return t.sub(t.call("log", a.args[0]), _logarithm(a.args[1]))
    if a.op == "pow" and a.args[0].op == "x":
        return t.scale(a.number, t.call("log", t.X))
    factor = _positive_factor(a)
    if factor is not None:
        return t.add(t.call("log", t.num(factor[0])), _logarithm(factor[1]))
    return t.call("log", a)


def _powered(a: Node, k: Fraction) -> Node:
    if a.op == "div" and a.args[0].op == "num" and a.args[0].number > 0:
        top = t.ONE if a.args[0] == t.ONE else t.power(a.args[0], k)
        return _product(top, _powered(a.args[1], -k))
    factor = _positive_factor(a)
    if factor is not None:
        return t.mul(t.power(t.num(factor[0]), k), _powered(factor[1], k))
    if a.op == "pow" and a.args[0].op == "x":
        return t.power(t.X, a.number * k)
    return _inverse(t.power(a, -k)) if k < 0 else t.power(a, k)


def _product(a: Node, b: Node) -> Node:
    """a b with quotients gathered below one bar."""
    (p, q), (r, s) = _quotient(a), _quotient(b)
    bottom = t.mul(q, s)
    return t.mul(p, r) if bottom == t.ONE else t.div(t.mul(p, r), bottom)


def _quotient(a: Node) -> tuple[Node, Node]:
    if a.op == "mul" and a.args[0].op == "num":
        top, bottom = _quotient(a.args[1])
        return t.mul(a.args[0], top), bottom
    return (a.args[0], a.args[1]) if a.op == "div" else (a, t.ONE)


def _inverse(a: Node) -> Node:
    top, bottom = _quotient(a)
    return bottom if top == t.ONE else t.div(bottom, top)
