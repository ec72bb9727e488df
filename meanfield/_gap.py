"""The isometry gap of one matrix in float64, with an error bar; and the passes over memory it needs.

With C the correlation of G and a its diagonal, the gap is a sum of two nonnegative parts,

    -log I(G)  =  [log mean(a) - mean(log a)]  +  [-(1/n) log det C],

and each is summed from nonnegative terms, so nothing cancels and a gap of 1e-30 has as many digits as one of
1. For the second, C = L L^T with rows of unit length: L_ii^2 = 1 - s_i, s_i the sum of squares left of the
diagonal. Then -log det C = -sum log1p(-s_i) needs no difference of nearly equal numbers, as log L_ii^2 or an
eigenvalue near 1 would, at the price of one Cholesky factorisation.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._gram import rounding, unit_diagonal

__all__ = [
    "Gap",
    "GapStatus",
    "diagonal_gap",
    "gap_of",
    "has_parallel_pair",
    "lower_bound",
    "max_abs_offdiagonal",
    "rms_offdiagonal",
]

Floats = NDArray[np.float64]
GapStatus = Literal["resolved", "exact", "singular", "unresolved", "underflow"]

EPS = float(np.finfo(np.float64).eps)


class Gap(NamedTuple):
    """One gap on its way; the logarithm is kept beside the value because the value may underflow."""

    value: float
    error: float
    log_value: float
    status: GapStatus


ZERO = Gap(0.0, 0.0, -math.inf, "resolved")
SINGULAR = Gap(math.inf, 0.0, math.inf, "singular")
UNRESOLVED = Gap(math.inf, math.inf, math.inf, "unresolved")


def gap_of(C: Floats, *, rounded: bool = False) -> Gap:
    """The gap -(1/n) log det C of one correlation matrix, by one Cholesky, and no checks.

    rounded: C was normalised in float64, so its entries are off by an ulp and |C_ij| = 1 proves nothing.
    The error bar is c eps |C^-1 - I|_F min(1, |C - I|_F) / n plus a few ulps of the value. The constant
    c = max(4, 2 sqrt(n)) is measured: rounding in the factorisation adds up like a random walk, and matrices
    of equal entries, whose rounding errors are alike, reached 0.9 sqrt(n) for n up to 2048.
    """
    n = len(C)
    largest = float(max_abs_offdiagonal(C))
    if largest == 0.0:
        return ZERO
    if largest >= 1.0:
        return UNRESOLVED if rounded else SINGULAR
    size = math.sqrt(n * (n - 1)) * float(rms_offdiagonal(C))
    if size < EPS / 4:
        # log det = -|E|_F^2 / 2 + O(|E|_F^3), E = C - I: the next term is below the last digit
        value = size * size / (2.0 * n)
        log_value = 2.0 * math.log(size) - math.log(2.0 * n)
        return Gap(value, max(4.0 * EPS * value, math.ulp(0.0)), log_value, "resolved")
    if n == 2 and largest > 0.5:
        # a factorisation would lose the digits of 1 - rho^2; its factors are exact
        value = -0.5 * (math.log1p(-largest) + math.log1p(largest))
        excess, constant = 1.0 / (1.0 - largest), 0.0
    else:
        value, excess = _cholesky_gap(C, size)
        constant = max(4.0, 2.0 * math.sqrt(n))
        if n * EPS * excess >= 1.0:
            return UNRESOLVED
    relative = (constant + 2.0 * rounded) * EPS * excess * min(1.0, size)
    if relative >= 0.5:
        return UNRESOLVED
    return Gap(value, -math.log1p(-relative) / n + 4.0 * EPS * value, math.log(value), "resolved")


def _cholesky_gap(C: Floats, size: float) -> tuple[float, float]:
    """-(1/n) log det C and |C^-1 - I|_F, both inf where the factorisation fails. size: |C - I|_F."""
    from scipy.linalg.lapack import dpotrf

    # the transpose of a C-ordered symmetric matrix is itself in the order LAPACK wants, without a copy
    L, failed = dpotrf(C.T, lower=1, clean=1)
    if failed:
        return math.inf, math.inf
    excess = size / (1.0 - size) if size < 0.5 else _inverse_excess(L, C)
    diagonal = np.diagonal(L).copy()
    np.fill_diagonal(L, 0.0)
    squares = np.square(L, out=L).sum(axis=1)
    # beyond 1/2 the difference 1 - s_i would lose what LAPACK has kept in the pivot
    far = squares > 0.5
    terms = np.where(far, -2.0 * np.log(diagonal), -np.log1p(-np.where(far, 0.0, squares)))
    return float(terms.sum()) / len(C), excess


def _inverse_excess(L: Floats, C: Floats) -> float:
    """|C^-1 - I|_F, exactly up to n = 64 and from 16 fixed sign vectors z beyond: E |A z|^2 = |A|_F^2."""
    from scipy.linalg.lapack import dpotrs

    n = len(C)
    probes = np.eye(n) if n <= 64 else np.random.default_rng(0).choice([-0.25, 0.25], size=(n, 16))
    solved, _ = dpotrs(L, C @ probes - probes, lower=1)
    return float(np.linalg.norm(solved))


def diagonal_gap(a: Floats) -> float:
    """log mean(a) - mean(log a) for positive a: the mean of t - log1p(t), t = a / mean(a) - 1.

    Deviations are taken from the first entry before they are averaged: equal entries give exactly 0, and
    nearly equal ones keep their digits.
    """
    mantissa, exponent = np.frexp(a)
    exponent -= exponent.max()
    scaled = np.ldexp(mantissa, exponent)
    shifted = scaled - scaled[0]
    mean = scaled[0] + shifted.mean()
    t = (shifted - shifted.mean()) / mean
    near = np.abs(t) < 0.5
    # the quotient of an entry of 1e-300 and a mean of 1e300 is 0: its logarithm is not taken from it
    logs = np.log(mantissa / mean) + exponent * math.log(2.0)
    return float(np.where(near, log1p_excess(np.where(near, t, 0.0)), t - logs).mean())


def log1p_excess(t: Floats) -> Floats:
    """t - log1p(t) for |t| <= 1/2 without cancellation: with z = t/(2 + t), log1p(t) = 2 artanh(z)."""
    z = t / (2.0 + t)
    series = np.zeros_like(z)
    for k in range(41, 1, -2):
        series = z * z * series + 1.0 / k
    return t * z - 2.0 * z**3 * series


def has_parallel_pair(G: Floats, C: Floats) -> bool:
    """Whether G_ij^2 = G_ii G_jj exactly for some i < j: then G is singular, whatever rounding made of C.

    Both products are split into a rounded value and its error, which together determine them.
    """
    i, j = np.nonzero(np.triu(np.abs(C) >= 1.0 - 4.0 * EPS, 1))
    half = np.frexp(np.diagonal(G))[1] // 2
    a = np.ldexp(np.diagonal(G), -2 * half)
    g = np.ldexp(G[i, j], -(half[i] + half[j]))
    square, square_error = _two_product(g, g)
    product, product_error = _two_product(a[i], a[j])
    return bool(np.any((square == product) & (square_error == product_error)))


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a b = p + e exactly (Dekker, with Veltkamp's splitting) for numbers far from the ends of the range."""
    p = a * b
    (a1, a2), (b1, b2) = _split(a), _split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _split(x: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * x  # 2^27 + 1 leaves 26 bits in the high part
    high = scaled - (scaled - x)
    return high, x - high


def lower_bound(G: Floats) -> float:
    """What an unresolved matrix still says: an eigenvalue exceeds its computed value by rounding at most."""
    if not np.diagonal(G).all():
        return 0.0
    eigenvalues = np.linalg.eigvalsh(unit_diagonal(G))
    slack = rounding(G, len(G)) + max(0.0, -float(eigenvalues[0]))
    logs = np.log(np.maximum(eigenvalues, 0.0) + slack)
    return max(diagonal_gap(np.diagonal(G)) - float(logs.mean()), 0.0)


def max_abs_offdiagonal(C: Floats) -> float | Floats:
    """max over i != j of |C_ij| for a matrix or a batch, without checks; two passes over memory, no copy."""
    off = _off_diagonal(C)
    largest = np.maximum(off.max(axis=(-2, -1), initial=0.0), np.abs(off.min(axis=(-2, -1), initial=0.0)))
    return largest if largest.ndim else float(largest)


def rms_offdiagonal(C: Floats) -> float | Floats:
    """Root mean square of C_ij over i != j, without checks; squares are taken where the largest is near 1."""
    n = C.shape[-1]
    exponent = np.frexp(np.asarray(max_abs_offdiagonal(C)))[1]
    scaled = np.ldexp(_off_diagonal(C), -exponent[..., None, None])
    mean = np.square(scaled, out=scaled).sum(axis=(-2, -1)) / max(n * (n - 1), 1)
    rms = np.ldexp(np.sqrt(mean), exponent)
    return rms if rms.ndim else float(rms)


def _off_diagonal(C: Floats) -> Floats:
    """The off-diagonal entries as (..., n - 1, n): past the first entry, the diagonal is the last column."""
    n = C.shape[-1]
    flat = C.reshape(*C.shape[:-2], n * n)[..., 1:]
    return flat.reshape(*C.shape[:-2], n - 1, n + 1)[..., :-1]
