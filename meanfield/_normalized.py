"""What a normalisation layer does to the geometry of a batch, from the arrays that went in and came out.

A layer that normalises divides vectors v_1, ..., v_m, centred or not, by their lengths a_i. With G the Gram matrix of
these vectors and C its correlation, which is the Gram matrix of what comes out before epsilon and the affine part,

    gap(G) - gap(C) = log mean(a^2) - 2 mean(log a) =: R(a)  >=  log(1 + cv^2),   cv^2 = mean((a - mean a)^2)/mean(a)^2,

for nonsingular G (theorem 4.1 of arXiv:2305.18399: the determinants differ by the product of all a_i^2, the traces are
sum(a^2) and m; and mean(log a) <= log mean(a)). It holds of any vectors, after training as well as at initialisation.
With epsilon added to the variance, lengths become b_i = a_i / sqrt(a_i^2/d + eps) in place of sqrt(d), and the gap is
gap(C) + R(b).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._gap import EPS, SINGULAR, UNRESOLVED, Gap, diagonal_gap, gap_of, max_abs_offdiagonal, with_norms
from ._gram import gram, unit_diagonal
from ._measurement import Geometry, Normalization

__all__ = ["amplification", "constant_vector", "geometry", "normalization"]

Floats: TypeAlias = NDArray[np.float64]

# of an entry of a Gram matrix, relative to the two lengths: a dot product of a million terms
ENTRY_ERROR = 10.0 * EPS
_SMALLEST = 1e-150  # of a row beside the largest: squares must not underflow


def geometry(rows: Floats, unit: float) -> Geometry:
    """How orthogonal samples are.  rows: (n, d); unit: relative rounding error of the entries, by the dtype they had.

    Raises ValueError where the squared length of a row, relative to the largest entry, leaves float64.
    """
    scaled, _ = _scaled(rows)
    if not scaled.any():
        return Geometry(math.nan, math.nan, "zero", math.nan, math.nan)
    gap, C = _gap(scaled, gram(scaled), len(scaled) > scaled.shape[1], unit)
    largest = math.nan if C is None else float(max_abs_offdiagonal(C))
    return Geometry(gap.value, gap.error, gap.status, _odds(largest), largest)


def normalization(
    theorem: str, vectors: Floats, gap_actual: float, eps: float | None, unit: float, *, centred: bool
) -> Normalization:
    """Theorem 4.1 about the rows of vectors, less their mean if centred; none of these may be 0.

    vectors: (m, d), what was to be normalised; gap_actual: of what came out; eps: what is added to the variance, None
    if nobody knows; unit: as in `geometry`, of what is left of the vectors.
    """
    m, d = vectors.shape
    scaled, exponent = _scaled(vectors)
    moved = _centred(scaled) if centred else scaled
    G = gram(moved)
    q = np.diagonal(G)
    gap, C = _gap(moved, G, m > d - centred, unit)
    assert C is not None, "a vector is 0"
    after = _gap_of(C, moved, m > d - centred, unit)
    return Normalization(
        theorem=theorem,
        vectors=m,
        length=d,
        gap_before=gap.value,
        gap_after=after.value,
        gap_actual=gap_actual,
        gap_error=gap.error + after.error,
        status=gap.status,
        gain=diagonal_gap(q),
        predicted_gain=_spread(q),
        gain_error=_length_error(diagonal_gap(q)),
        eps_loss=math.nan if eps is None else _left_by_eps(q, d * math.ldexp(eps, -2 * exponent)),
    )


def amplification(vectors: Floats) -> float:
    """What taking the mean off makes of a relative rounding error: vectors may be far longer than what is left.

    Vectors of which nothing is left do not count.
    """
    scaled, _ = _scaled(vectors)
    left = np.square(_centred(scaled)).sum(axis=1)
    counts = left > 0.0
    return math.sqrt(float(np.max(np.square(scaled).sum(axis=1)[counts] / left[counts], initial=1.0)))


def constant_vector(vectors: Floats, *, centred: bool) -> int | None:
    """The first row without a direction: constant if rows are to be centred, else 0."""
    flat = (vectors == (vectors[:, :1] if centred else 0.0)).all(axis=1)
    return int(flat.argmax()) if flat.any() else None


def _gap(rows: Floats, G: Floats, dependent: bool, unit: float) -> tuple[Gap, Floats | None]:
    """The gap of G, the Gram matrix of rows, and its correlation unless a row is 0."""
    q = np.diagonal(G)
    if not q.all():
        return SINGULAR, None
    C = unit_diagonal(G)
    return with_norms(_gap_of(C, rows, dependent, unit), q, ENTRY_ERROR), C


def _gap_of(C: Floats, rows: Floats, dependent: bool, unit: float) -> Gap:
    """The gap of a correlation matrix of rows, dependent if there are more of them than dimensions."""
    if dependent or _has_duplicates(rows):
        return SINGULAR
    gap = gap_of(C, rounded=True, entry_error=ENTRY_ERROR)
    return UNRESOLVED if gap.status == "resolved" and _is_lost(C, gap, unit) else gap


def _is_lost(C: Floats, gap: Gap, unit: float) -> bool:
    """Whether rounding of the activations may have made, or hidden, a linear dependence.

    A combination of rows of unit length that should be 0 is then as long as the same combination of their errors: a
    few units, however many they are, as these are as good as independent. It is at least sqrt(lambda), lambda the
    smallest eigenvalue of C. As det C <= lambda ((n - lambda)/(n-1))^(n-1) <= e lambda, a determinant that is large
    enough needs no eigenvalues.
    """
    n = len(C)
    least = (8.0 * unit) ** 2
    if -n * gap.value - 1.0 > math.log(least):
        return False
    return bool(np.linalg.eigvalsh(C)[0] <= least)


def _has_duplicates(rows: Floats) -> bool:
    """Whether two rows are equal or opposite."""
    leading = rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)]
    directed = np.where(leading < 0, -1.0, 1.0)[:, None] * rows + 0.0  # -0 is 0
    return len({row.tobytes() for row in directed}) < len(rows)


def _scaled(rows: Floats) -> tuple[Floats, int]:
    """Rows by one power of 2, exactly, so that the largest entry is in [1/2, 1): its square is no extreme."""
    exponent = int(np.frexp(np.abs(rows).max(initial=0.0))[1])
    scaled = np.asarray(np.ldexp(rows, -exponent))
    lost = (np.abs(scaled).max(axis=1, initial=0.0) < _SMALLEST) & rows.any(axis=1)
    if lost.any():
        raise ValueError(f"row {int(lost.argmax())} is below {_SMALLEST} of the largest; leave it out, or rescale it")
    return scaled, exponent


def _centred(rows: Floats) -> Floats:
    """Rows less their mean, to rounding relative to their spread: the first entry, which is near it, is taken first."""
    moved = rows - rows[:, :1]
    return np.asarray(moved - moved.mean(axis=1, keepdims=True))


def _spread(q: Floats) -> float:
    """log(1 + cv^2) of the lengths sqrt(q)."""
    a = np.sqrt(q / q.max())
    moved = a - a[0]  # equal lengths give 0 exactly
    mean = a[0] + moved.mean()
    return math.log1p(float(np.square(moved - moved.mean()).mean() / (mean * mean)))


def _length_error(gain: float) -> float:
    """Of gain - predicted_gain, squared lengths being off by ENTRY_ERROR.

    With a_i^2 = mean(a^2) (1 + t_i), both are sums over functions of t_i of second order, with slopes of at most
    max(|t_i|, 1), and the gain is mean(t - log1p(t)), so about mean(t^2)/2 while that is small.
    """
    t = 2.0 * ENTRY_ERROR
    return 2.0 * t * (math.sqrt(2.0 * gain) + 2.0 * gain + t)


def _left_by_eps(q: Floats, added: float) -> float:
    """R(b) for b_i^2 = q_i / (q_i + added), up to a factor, which R ignores."""
    return diagonal_gap(q / (1.0 + q / added) if added > 1.0 else q / (q + added))


def _odds(largest: float) -> float:
    if largest == 1.0:
        return math.inf
    return largest / (1.0 - largest)
