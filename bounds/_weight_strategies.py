"""Hypothesis strategy for the weights of reduced dual maps f(rho) = sum_k w_k rho^k, k >= 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias, overload

from hypothesis import strategies as st

from bounds._recipes import check_count, seldom

__all__ = ["weight_sequences"]

Weights: TypeAlias = tuple[Fraction, ...]

# Simplest first.  Hermite weights of an analytic sigma fall geometrically, those of a kink as k^(-5/2) and of a jump
# as k^(-3/2); binomials make the latter rational: sum_k C(2k, k) / (4^k (2k - 1)) = 1, the series of 1 - sqrt(1 - x).
_TAILS = {
    "geometric": lambda k: Fraction(1, 2**k),
    "cubic": lambda k: Fraction(1, k**3),
    "square": lambda k: Fraction(1, k**2),
    "root": lambda k: Fraction(math.comb(2 * k, k), 4**k * (2 * k - 1)),
}
_TAIL = st.sampled_from(list(_TAILS))
_MASSES = st.sampled_from([0, 1, 2, 3, 4, 8, 16])
_SHARES = st.sampled_from(
    [
        *(Fraction(k, 8) for k in (4, 0, 2, 6, 1, 3, 5, 7)),
        *(Fraction(1, 10**k) for k in (3, 6, 12)),
        *(1 - Fraction(1, 10**k) for k in (3, 6, 12)),
    ]
)
_PARITY = st.sampled_from([1, 0])  # of the degrees of odd and even activations


@overload
def weight_sequences(
    *, max_degree: int = 8, first: float | Fraction | None = None, exact: Literal[False] = False
) -> st.SearchStrategy[tuple[float, ...]]: ...


@overload
def weight_sequences(
    *, max_degree: int = 8, first: float | Fraction | None = None, exact: Literal[True]
) -> st.SearchStrategy[Weights]: ...


def weight_sequences(
    *, max_degree: int = 8, first: float | Fraction | None = None, exact: bool = False
) -> st.SearchStrategy[Any]:
    """Strategy for weights (w_1, ..., w_K), all >= 0 and of sum 1: those of f(rho) = sum_k w_k rho^k.

    So are the normalised squared Hermite coefficients of an activation without its mean; w_1 is its linearity r, and
    2 - w_1 its isometry strength.  max_degree: largest K.  first: w_1, in [0, 1]; None draws it.
    exact: Fractions of sum exactly 1; floats are these, each rounded once.

    Reaches one weight alone, w_1 = 0, 1 and as near as 1e-12 to either, (r, 1 - r), gaps between the degrees, and
    tails that fall as slowly as k^(-3/2).  The last weight is never 0.  Shrinks to (1,).
    Raises ValueError, at the call, for max_degree < 1, or < 2 where first < 1, and for first outside [0, 1].

    >>> from hypothesis import find
    >>> find(weight_sequences(exact=True), lambda w: True)
    (Fraction(1, 1),)
    """
    check_count("max_degree", max_degree)
    if first is not None and not 0 <= first <= 1:
        raise ValueError(f"first must lie in [0, 1], got {first!r}")
    if first is not None and first < 1 and max_degree < 2:
        raise ValueError(f"max_degree={max_degree!r} leaves room for w_1 = 1 only, got first={first!r}; raise it")
    return _weights(max_degree, None if first is None else Fraction(first), exact)


@st.composite
def _weights(draw: st.DrawFn, top: int, first: Fraction | None, exact: bool) -> tuple[Any, ...]:
    share = draw(_SHARES) if first is None and top > 1 and seldom(draw) else first
    parity = draw(_PARITY) if seldom(draw) else None
    tail = _TAILS[draw(_TAIL)] if seldom(draw) else None
    drawn = draw(st.lists(_MASSES, min_size=1, max_size=top))
    masses = [Fraction(mass) if parity in (None, k % 2) else Fraction(0) for k, mass in enumerate(drawn, start=1)]
    if tail is not None:
        full = masses if any(masses) else [Fraction(1)] * top
        masses = [mass * tail(k) for k, mass in enumerate(full, start=1)]
    weights = _normalised(masses, share)
    return weights if exact else tuple(map(float, weights))


def _normalised(masses: Sequence[Fraction], share: Fraction | None) -> Weights:
    """To sum 1, with w_1 as given; of no mass at all the simplest."""
    rest = masses if share is None else [Fraction(0), *masses[1:]]
    if not any(rest):
        rest = [Fraction(1)] if share is None else [Fraction(0), Fraction(1)]
    total = sum(rest, Fraction(0))
    scale = (1 if share is None else 1 - share) / total
    weights = [scale * mass for mass in rest]
    weights[0] += 0 if share is None else share
    while not weights[-1]:
        weights.pop()
    return tuple(weights)
