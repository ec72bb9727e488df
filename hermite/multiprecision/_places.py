"""The ends of pieces to any precision: rational numbers, constant expressions, and roots refined from their bracket."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from mpmath import libmp

from .._points import Bracket, Point
from .._tree import Node
from ._interpreter import constant, evaluate
from ._raw import ZERO, Raw, from_float, from_fraction, magnitude

_Function: TypeAlias = Callable[[Raw], Raw]
_Ends: TypeAlias = tuple[Raw, Raw, Raw, Raw]  # of a bracket, and the values there
_HALF_STEPS = 40  # doublings of a bracket that rounding put beside its root: 2^40 ulps


def place(point: Point, precision: int) -> Raw:
    """The point with an error of 2^-precision of max(1, |x|)."""
    exact = point.exact
    if exact is None or isinstance(exact, Bracket):
        return from_float(point.value) if exact is None else _root(exact, precision)
    return constant(exact, precision + 20) if isinstance(exact, Node) else from_fraction(exact, precision + 20)


@lru_cache(maxsize=1024)
def _root(bracket: Bracket, precision: int) -> Raw:
    """A sign change of the tree, else one of its slope, where it touches zero.

    The bracket was found in float64, whose rounding may have put it beside the root by some ulps: it is widened until
    the signs differ. At a root of order m the tree is as small as 2^(-m precision), so the bits behind its sign are
    raised until signs on both sides of the root are those at twice the bits. A slope is the difference over 2h, h far
    below the precision: its zero is off by O(h^2).
    """
    low, high = from_fraction(bracket.lower, 200), from_fraction(bracket.upper, 200)
    found: Raw | None = None
    for make in (_value, _slope):
        for order in (1, 3, 6, 12):
            function = make(bracket.tree, precision, order * precision + 60)
            ends = _widened(function, low, high)
            if ends is None:
                break
            found = _closed_in(function, ends, precision + 20)
            if _is_certain(found, precision, function, make(bracket.tree, precision, 2 * order * precision + 120)):
                return found
        if found is not None:
            return found
    return from_fraction((bracket.lower + bracket.upper) / 2, precision)  # a false zero: a needless end, no harm


def _value(tree: Node, precision: int, bits: int) -> _Function:
    return lambda x: evaluate(tree, [x], bits)[0]


def _slope(tree: Node, precision: int, bits: int) -> _Function:
    h = libmp.mpf_shift(libmp.fone, -precision - 20)

    def slope(x: Raw) -> Raw:
        above, below = evaluate(tree, [libmp.mpf_add(x, h), libmp.mpf_sub(x, h)], bits + 2 * precision)
        return libmp.mpf_sub(above, below)  # type: ignore[no-any-return]

    return slope


def _is_certain(root: Raw, precision: int, function: _Function, finer: _Function) -> bool:
    """Whether the signs at a distance of 2^-precision differ, and are the same with more bits."""
    step = libmp.mpf_shift(libmp.fone, max(magnitude(root), 0) - precision)
    sides = [libmp.mpf_sub(root, step), libmp.mpf_add(root, step)]
    signs, again = ([libmp.mpf_sign(f(x)) for x in sides] for f in (function, finer))
    return bool(signs == again and signs[0] * signs[1] < 0)


def _widened(function: _Function, low: Raw, high: Raw) -> _Ends | None:
    step = libmp.mpf_shift(libmp.fone, max(magnitude(low), magnitude(high), -900) - 54)
    for _ in range(_HALF_STEPS):
        a, b = function(low), function(high)
        if ZERO in (a, b) or a[0] != b[0]:
            return low, high, a, b
        low, high = libmp.mpf_sub(low, step), libmp.mpf_add(high, step)
        step = libmp.mpf_shift(step, 1)
    return None


def _closed_in(function: _Function, ends: _Ends, precision: int) -> Raw:
    """False position with the Illinois halving; a bisection wherever three steps have not halved the bracket."""
    low, high, a, b = ends
    goal = max(magnitude(low), magnitude(high), 0) - precision
    since, width = 0, magnitude(libmp.mpf_sub(high, low))
    while a != ZERO and b != ZERO and magnitude(libmp.mpf_sub(high, low)) > goal:
        since += 1
        if since > 3 and magnitude(libmp.mpf_sub(high, low)) >= width:
            middle = libmp.mpf_shift(libmp.mpf_add(low, high, precision + 60, "n"), -1)
        else:
            share = libmp.mpf_div(a, libmp.mpf_sub(a, b), precision + 60, "n")
            middle = libmp.mpf_add(low, libmp.mpf_mul(share, libmp.mpf_sub(high, low)), precision + 60, "n")
        value = function(middle)
        if value[0] == a[0]:
            low, a, b = middle, value, libmp.mpf_shift(b, -1)
        else:
            high, b, a = middle, value, libmp.mpf_shift(a, -1)
        if magnitude(libmp.mpf_sub(high, low)) < width:
            since, width = 0, magnitude(libmp.mpf_sub(high, low))
    half: Raw = libmp.mpf_shift(libmp.mpf_add(low, high), -1)
    return low if a == ZERO else high if b == ZERO else half
