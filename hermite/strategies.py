"""Hypothesis strategies for activations: drawn by construction, never by filtering.

Every draw is a tree with exact numbers that all engines read, is not constant, and has moments in float64. Draws are
short texts, so that a failing example can be read and pasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st

from ._activation import Activation, activation
from ._activation import catalogue as registered
from ._interpreter import evaluate
from ._numbers import as_fraction

__all__ = ["activations"]

_Activations: TypeAlias = st.SearchStrategy[Activation]

_FARTHEST = 6  # the variance of sign(x - t) is 4e-9 at t = 6; from t = 8.2 on it is constant to rounding
_STEEPEST_EXP = Fraction(4)  # E exp(2 g X) = exp(2 g^2): larger gains of exp test the range of float64 alone
# Simplest first: that is the order of shrinking.
_GAINS = [Fraction(1), Fraction(2), Fraction(1, 2), Fraction(4), Fraction(1, 4), Fraction(3, 10), Fraction(8)]
_LEAST_GAIN = Fraction(1, 8)
_COEFFICIENTS = [Fraction(k, 4) for k in (4, -4, 8, -8, 2, -2, 1, -1, 3, -3, 6, -6, 12, -12, 16, -16)]
_PLACES = [Fraction(k, 4) for k in sorted(range(-16, 17), key=lambda k: (k % 4 != 0, abs(k), k < 0))]
_DEGREES = [1, 2, 3, 4, 5, 6, 7, 8, 12, 20]
_KINKS, _KINKS_AND_JUMPS = [1, 2, 3], [1, 0, 2, 3]


def activations(
    *,
    catalogue: bool = True,
    max_gain: float = 8,
    max_shift: float = 4,
    max_breakpoints: int = 3,
    jumps: bool = True,
) -> _Activations:
    """Strategy for activations: catalogue entries, short Hermite series and piecewise polynomials.

    Catalogue entries and series are drawn as sigma(gain * (x + shift)), |gain| from 1/max_gain (at least 1/8) to
    max_gain and |shift| at most max_shift, half the time 1 and 0. A piecewise polynomial has degree at most 3 and, at
    each of up to max_breakpoints rational places, a jump or a jump of a derivative; at times it is one of |x|, and then
    has these at -x too. catalogue: whether catalogue entries are drawn; max_gain: at least 1 (for exp gains stop at 4);
    max_shift: from 0 to 6; max_breakpoints: from 0 to 16; jumps: whether discontinuous activations are drawn.

    Reaches steep gains, breakpoints at 8 where N(0, 1) has hardly any mass, even activations, and c_1 = 0 without
    symmetry (He_2 + He_3). Never a constant; every draw is square-integrable. Shrinks to the identity.
    Raises ValueError, at the call, for an argument out of range.

    >>> from hypothesis import find
    >>> find(activations(), lambda sigma: True)
    Activation('identity')
    >>> find(activations(), lambda sigma: len(sigma.breakpoints) == 1)
    Activation('relu')
    """
    gain, shift = as_fraction(max_gain, "max_gain"), as_fraction(max_shift, "max_shift")
    if gain < 1:
        raise ValueError(f"max_gain must be at least 1, got {max_gain!r}")
    if not 0 <= shift <= _FARTHEST:
        raise ValueError(
            f"max_shift must lie in [0, {_FARTHEST}], got {max_shift!r}: sign(x + shift) would be constant to rounding"
        )
    if isinstance(max_breakpoints, bool) or not isinstance(max_breakpoints, int) or not 0 <= max_breakpoints <= 16:
        raise ValueError(f"max_breakpoints must be an integer from 0 to 16, got {max_breakpoints!r}")
    entries = [s for s in registered() if jumps or not _has_jump(s)] if catalogue else [activation("identity")]
    named, sums = (_moved(each, gain, shift) for each in (st.sampled_from(entries), _series()))
    pieces = _piecewise(_KINKS_AND_JUMPS if jumps else _KINKS, max_breakpoints)
    kinds = [*[named] * (6 if catalogue else 1), sums, sums, pieces, pieces]
    # by weight, since hypothesis repeats with changes the draws that offer most to change
    return st.sampled_from(range(len(kinds))).flatmap(kinds.__getitem__)


def _has_jump(sigma: Activation) -> bool:
    ends = [(p.expr, q.expr, np.array([p.upper.value])) for p, q in pairwise(sigma.pieces)]
    return any(abs(float((evaluate(u, x) - evaluate(v, x))[0])) > 1e-9 for u, v, x in ends)


def _seldom(draw: st.DrawFn) -> bool:
    return draw(st.booleans()) and draw(st.booleans())


@st.composite
def _moved(draw: st.DrawFn, sigmas: _Activations, max_gain: Fraction, max_shift: Fraction) -> Activation:
    """sigma(gain * (x + shift)): whatever the gain, breakpoints move by the shift, and mass stays on both sides."""
    sigma = draw(sigmas)
    gain = draw(_rarely_else(Fraction(1), _gains(max_gain)))
    shift = draw(_rarely_else(Fraction(0), [b for b in (*_PLACES, -max_shift, max_shift) if abs(b) <= max_shift]))
    if sigma.growth is not None and sigma.growth[1] > 0:
        gain = max(min(gain, _STEEPEST_EXP), -_STEEPEST_EXP)
    return activation(sigma, gain=gain, shift=gain * shift)


def _rarely_else(usual: Fraction, others: Sequence[Fraction]) -> st.SearchStrategy[Fraction]:
    return st.one_of(st.just(usual), st.sampled_from(others))


def _gains(largest: Fraction) -> list[Fraction]:
    least = max(1 / largest, _LEAST_GAIN)
    sizes = [*(g for g in _GAINS if least <= g <= largest), least, largest]
    return [*sizes, *(-g for g in sizes)]


@st.composite
def _series(draw: st.DrawFn) -> Activation:
    """A sum of 1 to 4 Hermite polynomials and a constant: its coefficients c_k are the drawn numbers."""
    degrees = draw(st.lists(st.sampled_from(_DEGREES), min_size=1, max_size=4, unique=True))
    terms = [f"({draw(st.sampled_from(_COEFFICIENTS))})*He({k}, x)" for k in degrees]
    return _sum([*terms, *_constant(draw)])


@st.composite
def _piecewise(draw: st.DrawFn, powers: Sequence[int], most: int) -> Activation:
    even, far = _seldom(draw), _seldom(draw)
    polynomial = [draw(st.sampled_from([Fraction(0), *_COEFFICIENTS])) for _ in range(3)]
    one = st.tuples(st.sampled_from(_PLACES), st.sampled_from(powers), st.sampled_from(_COEFFICIENTS))
    return _sum([*_terms(even, far, polynomial, draw(st.lists(one, max_size=most))), *_constant(draw)])


def _terms(
    even: bool, far: bool, polynomial: Sequence[Fraction], breaks: Sequence[tuple[Fraction, int, Fraction]]
) -> list[str]:
    """A polynomial plus truncated powers a*max(x - t, 0)**k, where k = 0 is a jump; independent, so never constant.

    Of |x| instead of x when even: then only t > 0 counts. Far breakpoints go with a slope and with coefficients of its
    sign: the bulk of N(0, 1) sees a slope too, and sigma is not a constant but for a set of hardly any mass.
    """
    x, (slope, *higher) = "abs(x)" if even else "x", polynomial
    slope = Fraction(1) if far and slope == 0 else slope
    terms = {}
    for place, power, a in breaks:
        t = (abs(place) or Fraction(1) if even else place) * (2 if far else 1)
        a = abs(a) * (1 if slope > 0 else -1) if far else a
        terms[t] = _truncated_power(x, t, power, a)  # one at each place
    powers = [f"({a})*{x}**{k}" for k, a in enumerate((slope, *higher), start=1) if a != 0]
    return [*powers, *terms.values()] or [x]


def _truncated_power(x: str, place: Fraction, power: int, a: Fraction) -> str:
    return f"({a})*" + (f"max({x} - ({place}), 0)**{power}" if power else f"(1 if {x} >= {place} else 0)")


def _constant(draw: st.DrawFn) -> list[str]:
    a = draw(st.sampled_from([Fraction(0), *_COEFFICIENTS]))
    return [f"({a})"] if a != 0 else []


def _sum(terms: list[str]) -> Activation:
    sigma = activation(" + ".join(terms))
    return activation(sigma, name=str(sigma.expr))
