"""What is exactly 0: coefficients by parity, the residual of an affine activation, the variance of a constant.

Quadrature gives such a number as noise of any size, which no precision turns into digits.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from mpmath import libmp

from .._activation import Activation
from .._algebra import as_polynomial
from ._interpreter import evaluate
from ._places import place
from ._raw import ZERO, Raw, bits_of, from_float, magnitude

_SAMPLES = 13
_REACH = 14.0


def without_zeros(sigma: Activation, c: list[Raw], digits: float) -> list[Raw]:
    """The coefficients with those that vanish by parity set to 0."""
    even, odd = parity(sigma, 2 * bits_of(digits) + 40)
    first = {0: 0, 1: 2}.get(odd, len(c))
    return [ZERO if (even and k % 2 == 1) or (k % 2 == 0 and k >= first) else v for k, v in enumerate(c)]


@lru_cache(maxsize=256)
def parity(sigma: Activation, bits: int) -> tuple[bool, int]:
    """Whether sigma is even, and 0 if it is odd, 1 if sigma minus a constant is odd, else 2.

    Trees are analytic between their ends, so they are compared at a few points of every piece and of its mirror image,
    relative to their size to so many bits; the ends themselves too.
    """
    if sigma.is_opaque or not _mirrored_ends(sigma, bits):
        return False, 2
    found: list[tuple[Raw, Raw]] = []
    ends = sorted({0.0, _REACH, *(abs(e) for e in sigma.breakpoints if abs(e) < _REACH)})
    angles = np.cos(np.pi * (np.arange(_SAMPLES) + 0.513) / _SAMPLES)
    for low, high in pairwise(ends):
        for t in low + (high - low) * (0.5 - 0.5 * angles):
            found.append((_value(sigma, float(t), 2 * bits), _value(sigma, -float(t), 2 * bits)))
    size = max(max(magnitude(u), magnitude(v)) for u, v in found)

    def equal(pairs: list[tuple[Raw, Raw]]) -> bool:
        # relative to the values there, since tails may differ in what is small
        return all(
            magnitude(libmp.mpf_sub(u, v, 2 * bits, "n")) <= max(magnitude(u), magnitude(v), size - bits) - bits
            for u, v in pairs
        )

    sums = [libmp.mpf_add(u, v, 2 * bits, "n") for u, v in found]
    odd = equal([(u, libmp.mpf_neg(v)) for u, v in found])
    return equal(found), 0 if odd else 1 if equal([(s, sums[0]) for s in sums]) else 2


def _mirrored_ends(sigma: Activation, bits: int) -> bool:
    ends = [place(p.upper, bits + 20) for p in sigma.pieces[:-1]]
    sums = [libmp.mpf_add(u, v, 60, "n") for u, v in zip(ends, reversed(ends), strict=True)]
    return all(magnitude(s) <= -bits for s in sums)


def _value(sigma: Activation, x: float, bits: int) -> Raw:
    piece = next(q for q in sigma.pieces if q.lower.value <= x <= q.upper.value)
    return evaluate(piece.expr, [from_float(x)], bits)[0]


def is_affine(sigma: Activation) -> bool:
    """Whether sigma is a polynomial of degree <= 1: then the residual is exactly 0."""
    line = as_polynomial(sigma.pieces[0].expr) if len(sigma.pieces) == 1 else None
    return line is not None and len(line) <= 2


def is_constant(sigma: Activation) -> bool:
    """Whether every piece has the same constant value."""
    values = {evaluate(q.expr, [ZERO], 100)[0] if q.expr.constant else None for q in sigma.pieces}
    return len(values) == 1 and None not in values
