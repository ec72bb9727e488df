"""The isometry gap of one matrix in float64, with an error bar; and the passes over memory it needs.

With C the correlation of G and a its diagonal, the gap is a sum of two nonnegative parts,

    -log I(G)  =  [log mean(a) - mean(log a)]  +  [-(1/n) log det C],

and each is summed from nonnegative terms, so nothing cancels and a gap of 1e-30 has as many digits as one of
1. For the second, C = L L^T with rows of unit length: L_ii^2 = 1 - s_i, s_i the sum of squares left of the
diagonal. Then -log det C = -sum log1p(-s_i) needs no difference of nearly equal numbers, as log L_ii^2 or an
eigenvalue near 1 would, at the price of one Cholesky factorisation. Where inputs nearly coincide C has lost the answer,
or cannot show it to a factorisation: then the same is done in a basis of differences (`_clusters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._clusters import difference_basis, spanning_forest
from ._gram import rounding, unit_diagonal
from ._twofold import two_product

__all__ = [
    "Gap",
    "GapStatus",
    "diagonal_gap",
    "gap_of",
    "gap_of_clusters",
    "gram_complement",
    "has_parallel_pair",
    "is_poor",
    "least_gap",
    "lower_bound",
    "max_abs_offdiagonal",
    "rms_offdiagonal",
    "with_norms",
]

Floats = NDArray[np.float64]
GapStatus = Literal["resolved", "exact", "singular", "unresolved", "underflow"]

EPS = float(np.finfo(np.float64).eps)
# a relative error beyond this is worth a second factorisation
POOR = 1e-10


class Gap(NamedTuple):
    """One gap on its way; the logarithm is kept beside the value because the value may underflow."""

    value: float
    error: float
    log_value: float
    status: GapStatus


ZERO = Gap(0.0, 0.0, -math.inf, "resolved")
SINGULAR = Gap(math.inf, 0.0, math.inf, "singular")
UNRESOLVED = Gap(math.inf, math.inf, math.inf, "unresolved")


def gap_of(C: Floats, *, rounded: bool = False, entry_error: float = 0.0) -> Gap:
    """The gap -(1/n) log det C of one correlation matrix, by one Cholesky, or two if C is nearly singular; no checks.

    rounded: C was normalised in float64, so its entries are off by an ulp and |C_ij| = 1 proves nothing; entry_error:
    every entry may be off by so much.
    The error bar is |C^-1 - I|_F/n times c eps min(1, |C - I|_F), for the factorisation, and the Frobenius norm of the
    errors of the entries, plus a few ulps of the value. The constant c = max(4, 2 sqrt(n)) is measured: rounding in the
    factorisation adds up like a random walk, and matrices of equal entries, whose rounding errors are alike, reached
    0.9 sqrt(n) for n up to 2048. Where the bar is poor, `gap_of_clusters` takes over, if its bar is better. Beside C no
    more than one array of its size is held.
    """
    n = len(C)
    pairs = math.sqrt(n * (n - 1))
    largest = float(max_abs_offdiagonal(C))
    exact = not rounded and entry_error == 0.0
    if largest == 0.0 and entry_error == 0.0:
        return ZERO
    if largest >= 1.0:
        return SINGULAR if exact else UNRESOLVED
    size = pairs * float(rms_offdiagonal(C))
    spread = 2.0 * rounded * EPS * size + entry_error * pairs
    if _series_error(size) < 4.0 * EPS:
        return _series_gap(size, n, spread)
    if n == 2 and largest > 0.5:
        # a factorisation would lose the digits of 1 - rho^2; its factors are exact
        value = -0.5 * (math.log1p(-largest) + math.log1p(largest))
        relative = max(2.0 * rounded * EPS, entry_error) / (1.0 - largest)
        return UNRESOLVED if relative >= 0.5 else _resolved(value, -math.log1p(-relative), n)
    gap = _factored_gap(C, size, spread)
    # entries that are off by an ulp have lost what the differences would show
    if not exact or not is_poor(gap):
        return gap
    return min(gap, gap_of_clusters(C), key=lambda each: each.error)


def is_poor(gap: Gap) -> bool:
    """Whether another factorisation may be worth its time."""
    return gap.status == "unresolved" or (gap.status == "resolved" and gap.error > max(POOR * gap.value, 1e-300))


def _series_error(size: float) -> float:
    """How far -log det C is from |E|_F^2 / 2, relatively, for E = C - I of trace 0 and norm size.

    -log det(I + E) = |E|_F^2 / 2 - tr E^3 / 3 + tr E^4 / 4 - ..., and |tr E^k| <= |E|_F^k from k = 2 on, so the terms
    left out are at most |E|_F^3 / 3 (1 + |E|_F + ...).
    """
    return 2.0 / 3.0 * size / (1.0 - size) if size < 1.0 else math.inf


def _series_gap(size: float, n: int, spread: float) -> Gap:
    value = size * size / (2.0 * n)
    moved = spread * (2.0 * size + spread) / (2.0 * n)
    error = max((4.0 * EPS + _series_error(size)) * value + moved, math.ulp(0.0))
    log_value = 2.0 * math.log(size) - math.log(2.0 * n) if size > 0.0 else -math.inf
    return Gap(value, error, log_value, "resolved")


def _factored_gap(C: Floats, size: float, spread: float) -> Gap:
    n = len(C)
    value, inverse = _cholesky_gap(C, size)
    excess = float(np.linalg.norm(inverse))
    if n * EPS * excess >= 1.0:
        return UNRESOLVED
    relative = excess * (_factor_error(n) * min(1.0, size) + spread)
    return UNRESOLVED if relative >= 0.5 else _resolved(value, -math.log1p(-relative), n)


def _factor_error(n: int) -> float:
    """What a Cholesky factorisation does to a correlation matrix, in Frobenius norm: measured, see `gap_of`."""
    return max(4.0, 2.0 * math.sqrt(n)) * EPS


def _resolved(value: float, log_det_error: float, n: int) -> Gap:
    return Gap(value, log_det_error / n + 4.0 * EPS * value, math.log(value), "resolved")


def gap_of_clusters(C: Floats, near: Floats | None = None, *, entry_error: float = 0.0) -> Gap:
    """The gap of one correlation matrix whose inputs may nearly coincide or be nearly opposite, and no checks.

    C: (n, n), exactly symmetric, diagonal exactly 1. near: (n, n), 1 - |C_ij| for i != j, which may be 1e-30 where C_ij
    rounds to +-1; by default 1 - |C|, which is exact where it is read. Where near < 1/2 the matrix that is meant has
    it to relative accuracy entry_error, elsewhere it has C_ij, to absolute accuracy entry_error. "singular" where a
    near off the diagonal is 0, "unresolved" where the bar exceeds 1/2 in log det. Neither argument is changed, and one
    array of their size is held beside them.

    Error bar: with A the scaled Gram matrix of differences (see `_clusters`), d log det A is tr A^-1 dA, at most the
    sum over rows of |A^-1 - I| |dA| as dA has no diagonal, plus m^2 / (2 (1 - m)) with m = |A^-1|_F |dA|_F: the sum
    of |log(1 + mu) - mu| over the eigenvalues mu of A^-1 dA. The factorisation counts as in `gap_of`.
    """
    n = len(C)
    if n == 1:
        return ZERO
    if n == 2:
        return _pair_gap(float(C[0, 1]), None if near is None else float(near[0, 1]), entry_error)
    basis = difference_basis(C, near, entry_error)
    if basis is None:
        return SINGULAR
    value, inverse = _cholesky_gap(basis.A, math.inf, overwrite=True)
    value -= basis.log_lengths / n
    if math.isinf(value) or entry_error >= 0.5:
        return UNRESOLVED
    rounding = _factor_error(n) * min(1.0, basis.size)
    excess = float(np.linalg.norm(inverse))
    # sign vectors give the size of the inverse within a factor of two
    linear = (excess * rounding + float((inverse * basis.loss).sum())) * (2.0 if n > 64 else 1.0)
    remainder = (1.0 + excess) * (rounding + float(np.linalg.norm(basis.loss)))
    if linear >= 0.5 or remainder >= 0.5:
        return UNRESOLVED
    edges = -basis.edges * math.log1p(-entry_error)
    error = linear + remainder**2 / (2.0 * (1.0 - remainder)) + edges
    return _resolved(value, error, n) if value > 0.0 else Gap(0.0, error / n, -math.inf, "resolved")


def _pair_gap(cosine: float, near: float | None, entry_error: float) -> Gap:
    """Two inputs: the determinant is (1 - |c|)(1 + |c|), each factor as exact as what it is taken from."""
    size = abs(cosine)
    near = 1.0 - size if near is None else near
    if near == 0.0:
        return SINGULAR
    if near < 0.5:
        # d log det = d near / near - d near / (2 - near)
        value, error = -0.5 * (math.log(near) + math.log(2.0 - near)), -math.log1p(-entry_error)
        return UNRESOLVED if entry_error >= 0.5 else _resolved(value, error, 2)
    value = -0.5 * math.log1p(-size * size)
    # log det has the slope -2c/(1 - c^2), and c is off by entry_error
    most = size + entry_error
    error = 2.0 * entry_error * most / (1.0 - most * most) if most < 1.0 else math.inf
    if error >= 0.5:
        return UNRESOLVED
    log_value = math.log(value) if value else 2.0 * math.log(size) - math.log(2.0) if size else -math.inf
    smallest = math.ulp(0.0) if size else 0.0
    return Gap(value, max(error / 2.0 + 4.0 * EPS * value, smallest), log_value, "resolved")


def _cholesky_gap(C: Floats, size: float, *, overwrite: bool = False) -> tuple[float, Floats]:
    """-(1/n) log det C and the norms of the rows of C^-1 - I, or a bound on them all; inf where C has no factor.

    size: |C - I|_F, which gives the bound where it is below 1/2.
    """
    from scipy.linalg.lapack import dpotrf

    probes = _probes(C) if size >= 0.5 else np.empty(0)
    # the transpose of a C-ordered symmetric matrix is itself in the order LAPACK wants, without a copy
    L, failed = dpotrf(C.T, lower=1, clean=1, overwrite_a=overwrite)
    if failed:
        return math.inf, np.array([math.inf])
    inverse = _inverse_excess(L, probes) if size >= 0.5 else np.array([size / (1.0 - size)])
    diagonal = np.diagonal(L).copy()
    np.fill_diagonal(L, 0.0)
    squares = np.square(L, out=L).sum(axis=1)
    # beyond 1/2 the difference 1 - s_i would lose what LAPACK has kept in the pivot
    far = squares > 0.5
    terms = np.where(far, -2.0 * np.log(diagonal), -np.log1p(-np.where(far, 0.0, squares)))
    return float(terms.sum()) / len(C), inverse


def _probes(C: Floats) -> Floats:
    """(C - I) Z, with Z the identity up to n = 64 and 16 fixed sign vectors z / 4 beyond: E |A z|^2 = |A|_F^2."""
    n = len(C)
    Z = np.eye(n) if n <= 64 else np.random.default_rng(0).choice([-0.25, 0.25], size=(n, 16))
    return np.asarray(C @ Z - Z)


def _inverse_excess(L: Floats, probes: Floats) -> Floats:
    """Norms of the rows of C^-1 - I from C = L L^T and (C - I) Z: exact where Z is the identity, else estimates."""
    from scipy.linalg.lapack import dpotrs

    solved, _ = dpotrs(L, probes, lower=1)
    return np.asarray(np.linalg.norm(solved, axis=1))


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


def with_norms(gap: Gap, diagonal: Floats, entry_error: float = 0.0) -> Gap:
    """The gap of a Gram matrix from that of its cosines; entry_error: relative, of the diagonal."""
    unequal = diagonal_gap(diagonal)
    if gap.status != "resolved" or unequal == 0.0:
        return gap
    log_value = float(np.logaddexp(math.log(unequal), gap.log_value))
    return Gap(unequal + gap.value, (8.0 * EPS + 2.0 * entry_error) * unequal + gap.error, log_value, "resolved")


def log1p_excess(t: Floats) -> Floats:
    """t - log1p(t) for |t| <= 1/2 without cancellation: with z = t/(2 + t), log1p(t) = 2 artanh(z)."""
    z = t / (2.0 + t)
    series = np.zeros_like(z)
    for k in range(41, 1, -2):
        series = z * z * series + 1.0 / k
    return t * z - 2.0 * z**3 * series


def has_parallel_pair(G: Floats, C: Floats) -> bool:
    """Whether G_ij^2 = G_ii G_jj exactly for some i < j: then G is singular, whatever rounding made of C."""
    return any(np.any(_minor(G, i, near)[0] == 0.0) for i, near in _near_pairs(C, 4.0 * EPS))


def gram_complement(G: Floats, C: Floats) -> Floats:
    """1 - |C_ij| to 4 eps relative for the correlation that G means, C being what it rounds to; diagonal 0.

    1 - |C| = (G_ii G_jj - G_ij^2) / (G_ii G_jj (1 + |C_ij|)); negative where rounding made a pair in G indefinite.
    """
    near = 1.0 - np.abs(C)
    for i, j in _near_pairs(C, 0.5):
        minor, product = _minor(G, i, j)
        near[i, j] = near[j, i] = minor / (product * (1.0 + np.abs(C[i, j])))
    return near


def _near_pairs(C: Floats, distance: float) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each row i with the j > i at |C_ij| >= 1 - distance, if there are any."""
    for i in range(len(C) - 1):
        row = C[i, i + 1 :]
        near = i + 1 + np.flatnonzero((row >= 1.0 - distance) | (row <= distance - 1.0))
        if len(near):
            yield i, near


def _minor(G: Floats, i: int, j: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """G_ii G_jj - G_ij^2, rounded once, and G_ii G_jj, for pairs that are nearly parallel, up to one power of 4.

    Both products are split into a rounded value and its error; differences of close values are exact.
    """
    diagonal = np.diagonal(G)
    half = np.frexp(diagonal)[1] // 2
    a = np.ldexp(diagonal, -2 * half)
    g = np.ldexp(G[i, j], -(half[i] + half[j]))
    square, square_error = two_product(g, g)
    product, product_error = two_product(a[i], a[j])
    return (product - square) + (product_error - square_error), product


def lower_bound(G: Floats) -> float:
    """What an unresolved matrix still says: an eigenvalue exceeds its computed value by rounding at most."""
    if not np.diagonal(G).all():
        return 0.0
    eigenvalues = np.linalg.eigvalsh(unit_diagonal(G))
    slack = rounding(G, len(G)) + max(0.0, -float(eigenvalues[0]))
    logs = np.log(np.maximum(eigenvalues, 0.0) + slack)
    return max(diagonal_gap(np.diagonal(G)) - float(logs.mean()), 0.0)


def least_gap(C: Floats, near: Floats | None = None, *, entry_error: float = 0.0) -> float:
    """A lower bound of the gap that no rounding can lose: det C is at most the product of |y_i|^2 (Hadamard).

    C, near, entry_error as in `gap_of_clusters`, y_i the differences along the shortest edges: for inputs at distance
    1e-9 it says most of what the gap is.
    """
    edges = spanning_forest(C, near).edge
    if not edges.all():
        return math.inf
    return max(-float(np.log(2.0 * edges).mean()) - 2.0 * entry_error - 4.0 * EPS, 0.0)


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
