"""The interpreter of expression trees over raw numbers of any precision.

A tree is evaluated on a list of points at once, each common part once. Every operation is correct to about an ulp of
its arguments, also expm1 and log1p near 0 and the sigmoid in both tails; what is left is cancellation in sums, which
the quadrature notices (two rules, or two precisions, then differ) and answers with more precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from mpmath import libmp

from .._tree import Node, compare
from ..errors import PrecisionError
from ._callables import call
from ._raw import NAN, ONE, ZERO, Raw, from_fraction, is_finite, magnitude

Values: TypeAlias = list[Raw]
_LARGE = 64  # exp of numbers beyond 2^64 in size: an overflow, or 0
_MINUS_ONE: Raw = libmp.fnone


def evaluate(node: Node, x: Sequence[Raw], precision: int) -> Values:
    """The tree at each x, to the precision in bits; nan where it is not real."""
    return _value(node, x, precision, {})


def reliable(node: Node, x: Sequence[Raw], precision: int, doublings: int = 4) -> Values:
    """The tree at each x with some correct digits even where sums cancel altogether: those again at twice the bits.

    What stays 0 after all doublings is taken as 0.
    """
    known: dict[Node, Values] = {}
    out = _value(node, x, precision, known)
    sums = [
        (values, [known[a] for a in u.args])
        for u, values in known.items()
        if u.op == "add" and not u.constant and all(a in known for a in u.args)
    ]
    lost = [i for i in range(len(x)) if any(_cancelled(v[i], [a[i] for a in args], precision) for v, args in sums)]
    if lost and doublings:
        again = reliable(node, [x[i] for i in lost], 2 * precision, doublings - 1)
        for i, value in zip(lost, again, strict=True):
            out[i] = value
    return out


def _cancelled(value: Raw, parts: list[Raw], precision: int) -> bool:
    return magnitude(value) < max(map(magnitude, parts)) - precision + 24 and parts != [ZERO, ZERO]


def constant(node: Node, precision: int) -> Raw:
    """The value of a tree without x."""
    return _value(node, (ZERO,), precision, {})[0]


def _value(node: Node, x: Sequence[Raw], p: int, known: dict[Node, Values]) -> Values:
    if node in known:
        return known[node]
    op = node.op
    if op == "x":
        out = list(x)
    elif op == "num":
        out = [from_fraction(node.number, p)] * len(x)
    elif op == "pi":
        out = [libmp.mpf_pi(p, "n")] * len(x)
    elif node.constant and len(x) > 1:
        out = _value(node, x[:1], p, {}) * len(x)
    elif (tail := _erf_tail(node)) is not None:
        out = [_one_plus_erf(tail, u, p) for u in _value(tail.inner, x, p, known)]
    else:
        args = [_value(a, x, p, known) for a in node.args]
        if op in _PAIRS:
            operation = _PAIRS[op]
            out = [operation(u, v, p) for u, v in zip(*args, strict=True)]
        elif op in _SINGLE:
            function = _SINGLE[op]
            out = [function(u, p) for u in args[0]]
        elif op == "if":
            assert isinstance(node.value, str)
            out = [yes if _holds(u, node.value, v) else no for u, v, yes, no in zip(*args, strict=True)]
        elif op == "pow":
            out = _power(node, args[0], p)
        elif op == "He":
            out = [_hermite(u, int(node.number), p) for u in args[0]]
        else:
            assert op == "opaque", op
            out = call(node.opaque, args[0], p)
    known[node] = out
    return out


@dataclass(frozen=True)
class _Tail:
    """c (1 + sign erf(u))."""

    c: Fraction
    sign: int
    inner: Node


def _erf_tail(node: Node) -> _Tail | None:
    """The normal cdf and its mirror image, whose tails cost exp(-u^2/2) if formed as a sum."""
    if node.op != "add" or node.args[0].op != "num":
        return None
    (k, inner), c = _factor(node.args[1]), node.args[0].number
    return _Tail(c, 1 if k == c else -1, inner.args[0]) if inner.op == "erf" and abs(k) == abs(c) else None


def _factor(node: Node) -> tuple[Fraction, Node]:
    if node.op == "mul" and node.args[0].op == "num":
        return node.args[0].number, node.args[1]
    return Fraction(1), node


def _one_plus_erf(tail: _Tail, u: Raw, p: int) -> Raw:
    v = u if tail.sign > 0 else libmp.mpf_neg(u)
    if v[0] and magnitude(v) > 2:  # below -4: erfc is the slower of the two, but keeps its digits
        value = libmp.mpf_erfc(libmp.mpf_neg(v), p, "n")
    else:
        value = _add(ONE, libmp.mpf_erf(v, p + 30, "n"), p)
    return _multiply(from_fraction(tail.c, p), value, p)


def _add(u: Raw, v: Raw, p: int) -> Raw:
    return libmp.mpf_add(u, v, p, "n")  # type: ignore[no-any-return]


def _multiply(u: Raw, v: Raw, p: int) -> Raw:
    return libmp.mpf_mul(u, v, p, "n")  # type: ignore[no-any-return]


def _divide(u: Raw, v: Raw, p: int) -> Raw:
    return NAN if v == ZERO else libmp.mpf_div(u, v, p, "n")


def exp(u: Raw, p: int) -> Raw:
    """exp(u); beyond exp(2^64) an infinity or 0, since the exact exponent would fill the memory."""
    if magnitude(u) > _LARGE:
        return ZERO if u[0] else libmp.finf
    return libmp.mpf_exp(u, p, "n")  # type: ignore[no-any-return]


def _expm1(u: Raw, p: int) -> Raw:
    """exp(u) - 1 with as many more bits as the difference loses."""
    if u == ZERO:
        return ZERO
    loss = max(0, -magnitude(u)) + 4
    if loss > 2 * p:  # the next term is beyond the precision
        return _add(u, _half_square(u, p), p)
    return _add(exp(u, p + loss), _MINUS_ONE, p)


def _log(u: Raw, p: int) -> Raw:
    if u == ZERO:
        return libmp.fninf  # type: ignore[no-any-return]
    return NAN if u[0] or not is_finite(u) else libmp.mpf_log(u, p, "n")


def _log1p(u: Raw, p: int) -> Raw:
    """log(1 + u): the sum is formed exactly where it is near 1, so that the logarithm keeps the digits of u."""
    if u == ZERO:
        return ZERO
    small = -magnitude(u)
    if small > 2 * p:
        return libmp.mpf_sub(u, _half_square(u, p), p, "n")  # type: ignore[no-any-return]
    return _log(_add(ONE, u, p + max(small, 0) + 4), p)


def _half_square(u: Raw, p: int) -> Raw:
    return libmp.mpf_shift(_multiply(u, u, p), -1)  # type: ignore[no-any-return]


def _sqrt(u: Raw, p: int) -> Raw:
    return NAN if u[0] or not is_finite(u) else libmp.mpf_sqrt(u, p, "n")


def _sigmoid(u: Raw, p: int) -> Raw:
    """1/(1 + exp(-u)): relative accuracy in both tails."""
    e = exp(libmp.mpf_neg(u), p + 4)
    return ZERO if e == libmp.finf else libmp.mpf_div(ONE, _add(ONE, e, p + 4), p, "n")


def _tanh(u: Raw, p: int) -> Raw:
    return libmp.mpf_tanh(u, p, "n")  # type: ignore[no-any-return]


def _wave(function: Callable[..., Raw]) -> Callable[[Raw, int], Raw]:
    def wave(u: Raw, p: int) -> Raw:
        if magnitude(u) > 100_000:
            raise PrecisionError("a sine or cosine of a number beyond 2^100000 was asked for; rescale sigma")
        return function(u, p, "n")

    return wave


def _plain(function: Callable[..., Raw]) -> Callable[[Raw, int], Raw]:
    return lambda u, p: function(u, p, "n")


def _power(node: Node, values: Values, p: int) -> Values:
    q = node.number
    if q.denominator == 1:
        n = int(q)
        return [NAN if u == ZERO and n < 0 else libmp.mpf_pow_int(u, n, p, "n") for u in values]
    # u^q = exp(q log u): the rounding of q weighs |log u|, which is below 2^30 for every u met
    exponent = from_fraction(q, p + 40)
    return [_real_power(u, exponent, p) for u in values]


def _real_power(u: Raw, exponent: Raw, p: int) -> Raw:
    if u == ZERO:
        return NAN if exponent[0] else ZERO
    return NAN if u[0] or not is_finite(u) else libmp.mpf_pow(u, exponent, p, "n")


def _hermite(u: Raw, degree: int, p: int) -> Raw:
    """Normalised He_degree by its recurrence, with guard bits for its |u| < 2 sqrt(degree) oscillation."""
    before, now = ZERO, ONE
    wp = p + 20 + 2 * degree.bit_length()
    for first, second in _ratios(degree, wp):
        grown = libmp.mpf_mul(libmp.mpf_mul(u, now), first, wp, "n")
        before, now = now, libmp.mpf_sub(grown, libmp.mpf_mul(second, before), wp, "n")
    return libmp.mpf_pos(now, p, "n")  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _ratios(degree: int, p: int) -> tuple[tuple[Raw, Raw], ...]:
    """1/sqrt(k + 1) and sqrt(k/(k + 1)) for k < degree."""
    inverse, share = [libmp.from_rational(1, k + 1, p, "n") for k in range(degree)], range(degree)
    return tuple(
        (libmp.mpf_sqrt(i, p, "n"), libmp.mpf_sqrt(libmp.from_rational(k, k + 1, p, "n"), p, "n"))
        for i, k in zip(inverse, share, strict=True)
    )


def _holds(u: Raw, op: str, v: Raw) -> bool:
    return compare(float(libmp.mpf_cmp(u, v)), op, 0.0)


def _sign(u: Raw, p: int) -> Raw:
    return libmp.from_int(libmp.mpf_sign(u))  # type: ignore[no-any-return]


def _maximum(u: Raw, v: Raw, p: int) -> Raw:
    return u if libmp.mpf_ge(u, v) else v


def _minimum(u: Raw, v: Raw, p: int) -> Raw:
    return u if libmp.mpf_le(u, v) else v


_PAIRS: dict[str, Callable[[Raw, Raw, int], Raw]] = {
    "add": _add, "mul": _multiply, "div": _divide, "max": _maximum, "min": _minimum,
}  # fmt: skip
_SINGLE: dict[str, Callable[[Raw, int], Raw]] = {
    "exp": exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "sqrt": _sqrt, "tanh": _tanh, "sigmoid": _sigmoid,
    "sin": _wave(libmp.mpf_sin), "cos": _wave(libmp.mpf_cos), "arctan": _plain(libmp.mpf_atan),
    "erf": _plain(libmp.mpf_erf), "abs": lambda u, _: libmp.mpf_abs(u), "sign": _sign,
}  # fmt: skip
