"""Two families of quadrature rules on [-1, 1] in fixed point: Gauss-Legendre, and Fejer's first rule.

They share nothing: Gauss nodes are roots of Legendre polynomials found by Newton's method, Fejer nodes are cosines with
weights from a cosine sum. Neither family uses the ends, where a jump may sit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from mpmath import libmp

Rule: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
_GUARD = 40


@lru_cache(maxsize=64)
def gauss(n: int, bits: int) -> Rule:
    """Nodes and weights times 2**bits of the n-point Gauss-Legendre rule.

    Newton from float64 nodes; w = 2 / ((1 - x^2) P'_n(x)^2) with (1 - x^2) P'_n = n (P_{n-1} - x P_n).
    """
    wp = bits + _GUARD + 2 * n.bit_length()
    one = 1 << wp
    positive = np.polynomial.legendre.leggauss(n)[0][n // 2 :]
    nodes, weights = [], []
    for start in positive:
        x = int(np.ldexp(start, 62)) << (wp - 62)
        correct = 40  # bits; Newton doubles them
        while True:
            now, slope = _legendre(x, n, wp)
            if correct > wp:
                break
            x -= (now << wp) // slope
            correct *= 2
        nodes.append(x)
        weights.append((2 << 2 * wp) // ((one - (x * x >> wp)) * (slope * slope >> wp) >> wp))
    down = wp - bits
    half = [(x >> down, w >> down) for x, w in zip(nodes, weights, strict=True)]
    if n % 2:
        half[0] = (0, half[0][1])
    left = [(-x, w) for x, w in reversed(half[n % 2 :])]
    return tuple(x for x, _ in left + half), tuple(w for _, w in left + half)


def _legendre(x: int, n: int, wp: int) -> tuple[int, int]:
    """P_n and P'_n at x in fixed point."""
    before, now = 1 << wp, x
    for k in range(1, n):
        before, now = now, ((2 * k + 1) * (x * now >> wp) - k * before) // (k + 1)
    return now, (n * (before - (x * now >> wp)) << wp) // ((1 << wp) - (x * x >> wp))


@lru_cache(maxsize=64)
def fejer(n: int, bits: int) -> Rule:
    """Nodes and weights times 2**bits of Fejer's first rule.

    x_j = cos t_j, t_j = (2j - 1) pi/(2n); w_j = (2/n) (1 - 2 sum over k <= n/2 of cos(2 k t_j)/(4 k^2 - 1)).
    """
    wp = bits + _GUARD
    table = _cosines(4 * n, wp)  # cos(2 pi m/(4n)) = cos(m pi/(2n))
    nodes, weights = [], []
    for j in range(n, 0, -1):
        m = 2 * j - 1
        total = sum(table[2 * k * m % (4 * n)] // (4 * k * k - 1) for k in range(1, n // 2 + 1))
        nodes.append(table[m] >> _GUARD)
        weights.append((2 * ((1 << wp) - 2 * total) // n) >> _GUARD)
    return tuple(nodes), tuple(weights)


def _cosines(count: int, wp: int) -> list[int]:
    """cos(2 pi m/count) for m = 0..count-1."""
    pi = libmp.mpf_pi(wp + 10, "n")
    angle = libmp.mpf_div(libmp.mpf_shift(pi, 1), libmp.from_int(count), wp + 10, "n")
    quarter = [
        int(libmp.to_fixed(libmp.mpf_cos(libmp.mpf_mul(angle, libmp.from_int(m), wp + 10, "n"), wp + 10, "n"), wp))
        for m in range(count // 4 + 1)
    ]
    quarter[-1] = 0
    half = quarter + [-c for c in quarter[-2::-1]]  # cos(pi - t) = -cos t
    return half + half[-2:0:-1]
