"""Isometry gap, potential and largest correlation of many Gram matrices at once.

The quick way is for matrices that float64 resolves easily; the others go, one by one, to `_gap`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._gap import EPS, SINGULAR, ZERO, Gap, diagonal_gap, gap_of, least_gap, with_norms
from ._tail import log1p_error
from ._walk import orthogonal_to_ones

Floats: TypeAlias = NDArray[np.float64]

_CLEAR = 1e-3  # of a pivot of the correlation matrix, from which on the quick way is taken


class Measures(NamedTuple):
    """What is recorded of each matrix, (runs,) each."""

    isometry_gap: Floats
    isometry_gap_error: Floats
    isometry_gap_lower: Floats
    log_isometry_gap: Floats
    log_isometry_gap_error: Floats
    potential: Floats
    log_potential: Floats
    log_potential_error: Floats
    max_correlation: Floats
    max_correlation_error: Floats
    status: NDArray[np.str_]


def measures(K: Floats, *, duplicates: bool, over_batch: bool) -> Measures:
    """K: (runs, n, n), Gram matrices as a network has them; duplicates: whether some of its inputs coincide.

    over_batch: batch normalisation takes (1, ..., 1) out of them: the gap is that on its complement, as in `_walk`. An
    input that has become 0 has no direction: it is orthogonal to all others, and the gap is inf, "singular".
    """
    C, q = _cosines(K)
    n = K.shape[-1]
    off = np.abs(C[:, ~np.eye(n, dtype=bool)])
    largest = np.ones(len(K)) if duplicates else off.max(axis=-1, initial=0.0)
    bar = np.where(largest == 1.0, 0.0, 2.0 * EPS * largest) if duplicates else 2.0 * EPS * largest
    with np.errstate(divide="ignore", invalid="ignore"):
        potential = largest / (1.0 - largest)
        log_potential = np.log(largest) - np.log1p(-largest)
        log_bar = np.where(bar == 0.0, 0.0, bar / (largest * (1.0 - largest)) + 2.0 * EPS * np.abs(log_potential))
    if over_batch:
        basis = orthogonal_to_ones(n)
        C, q = _cosines(basis.T @ K @ basis)
    gaps = [SINGULAR] * len(K) if duplicates else _gaps(C, q)
    value, error, log_value = np.array([gap[:3] for gap in gaps]).T
    log_error = [log1p_error(gap.error / gap.value) if 0.0 < gap.value < math.inf else gap.error for gap in gaps]
    return Measures(
        isometry_gap=value,
        isometry_gap_error=error,
        isometry_gap_lower=np.array([_least(gap, c, d) for gap, c, d in zip(gaps, C, q, strict=True)]),
        log_isometry_gap=log_value,
        log_isometry_gap_error=np.array(log_error),
        potential=potential,
        log_potential=log_potential,
        log_potential_error=log_bar,
        max_correlation=largest,
        max_correlation_error=bar,
        status=np.array([gap.status for gap in gaps], dtype="<U10"),
    )


def _least(gap: Gap, C: Floats, q: Floats) -> float:
    """What the gap is at least, also where it is not resolved."""
    if gap.status != "unresolved":
        return max(gap.value - gap.error, 0.0)
    return least_gap(C, entry_error=EPS) + diagonal_gap(q)


def _cosines(K: Floats) -> tuple[Floats, Floats]:
    """Correlation matrices and the diagonals."""
    q = np.einsum("...ii->...i", K)
    alive = q > 0.0
    scale = np.where(alive, 1.0 / np.sqrt(np.where(alive, q, 1.0)), 0.0)
    C = np.clip(K * scale[:, :, None] * scale[:, None, :], -1.0, 1.0)
    C = 0.5 * (C + C.swapaxes(-1, -2))
    each = range(K.shape[-1])
    C[:, each, each] = 1.0
    return C, q


def _gaps(C: Floats, q: Floats) -> list[Gap]:
    """The gap of each matrix with correlations C and diagonal q."""
    gaps = [gap or gap_of(c, rounded=True, entry_error=EPS) for gap, c in zip(_clear_gaps(C), C, strict=True)]
    if np.all(q == q[:, :1]) and np.all(q > 0.0):
        return gaps
    return [with_norms(gap, d, EPS) if np.all(d > 0.0) else SINGULAR for gap, d in zip(gaps, q, strict=True)]


def _clear_gaps(C: Floats) -> list[Gap | None]:
    """-log det(C)/n by the pivots 1 - t_i of Cholesky's factor, where none is small: sums of terms of one sign."""
    n = C.shape[-1]
    if n <= 1:
        return [ZERO] * len(C)
    try:
        L, inverse = np.linalg.cholesky(C), np.linalg.inv(C)
    except np.linalg.LinAlgError:
        return [None] * len(C)
    t = np.sum(np.tril(L, -1) ** 2, axis=-1)
    clear = 1.0 - t.max(axis=-1) > _CLEAR
    value = -np.sum(np.log1p(-np.where(clear[:, None], t, 0.0)), axis=-1) / n
    size = np.linalg.norm(inverse, axis=(-2, -1))
    error = np.maximum(max(4.0, 2.0 * math.sqrt(n)) * EPS * size / n, 4.0 * EPS * value)
    clear &= np.isfinite(error) & (value > 0.0)
    return [
        Gap(float(v), float(e), math.log(v), "resolved") if good else None
        for v, e, good in zip(value, error, clear, strict=True)
    ]
