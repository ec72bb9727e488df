"""Functionals of a Gram matrix: isometry and its gap with an error bar, potential, largest and rms cosine.

Every public function checks its matrix at the door; `gap_of`, `potential_of`, `max_abs_offdiagonal` and
`rms_offdiagonal` are the same without checks, for callers that hold a correlation matrix already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._gap import (
    EPS,
    SINGULAR,
    UNRESOLVED,
    Gap,
    GapStatus,
    gap_of,
    gap_of_clusters,
    gram_complement,
    has_parallel_pair,
    is_poor,
    lower_bound,
    with_norms,
)
from ._gap import max_abs_offdiagonal as max_abs_offdiagonal
from ._gap import rms_offdiagonal as rms_offdiagonal
from ._gram import check_correlation, check_semidefinite, check_symmetric, unit_diagonal

__all__ = [
    "GapEstimate",
    "checked_gap",
    "estimate_isometry_gap",
    "gap_of",
    "isometry",
    "isometry_gap",
    "log_isometry_gap",
    "max_abs_offdiagonal",
    "max_correlation",
    "potential",
    "potential_of",
    "rms_correlation",
    "rms_offdiagonal",
]

Floats = NDArray[np.float64]

# exact elimination of this size takes about 2 ms
AUTOMATIC_EXACT = 16


@dataclass(frozen=True)
class GapEstimate:
    """An isometry gap, how far off it may be, and how it was had; fields are arrays for a batch of matrices.

    value: the gap; inf where the matrix is singular or not told apart from a singular one.
    error: bar around the value; 0 for a proven inf, inf where nothing but `lower` is known.
    status, a closed list:
      "resolved"    computed in float64;
      "exact"       computed in rational arithmetic from the entries as given, rounded at the end;
      "singular"    rank deficiency is proven: value inf, error 0;
      "unresolved"  the smallest eigenvalue is within rounding of 0: value inf, error inf. Pass exact=True, or
                    exact inputs as Fractions; if it stays, the matrix has an eigenvalue below 0 by rounding,
                    and has lost the answer itself.
    lower: the gap is at least this; value - error unless unresolved.
    """

    value: float | Floats
    error: float | Floats
    status: GapStatus | NDArray[np.str_]
    lower: float | Floats = math.nan

    def __post_init__(self) -> None:
        if isinstance(self.lower, float) and math.isnan(self.lower):
            error = np.asarray(self.error)
            finite = np.where(np.isinf(error), 0.0, error)
            lower = np.where(np.isinf(error), 0.0, np.maximum(self.value - finite, 0.0))
            object.__setattr__(self, "lower", _plain(lower))


def isometry(G: ArrayLike) -> float | Floats:
    """How close a Gram matrix is to a multiple of the identity: I(G) = det(G)^(1/n) / (tr(G)/n), in [0, 1].

    G: (..., n, n), a nonzero Gram matrix of any scale -> (...,), a float for one matrix. 1 exactly for c I
    and for n = 1; 0 for a singular G and for one that float64 cannot tell from a singular one (which of the
    two, `estimate_isometry_gap` says).

    Raises ValueError for a zero matrix (0/0) and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemma A.1. exp(-isometry_gap): no determinant is formed, so none overflows.

    >>> isometry([[1.0, 0.6], [0.6, 1.0]])
    0.8
    """
    return _plain(np.exp(np.negative(isometry_gap(G))))


def isometry_gap(G: ArrayLike) -> float | Floats:
    """Minus the logarithm of the isometry, log(tr(G)/n) - (1/n) log det G: 0 for c I, inf for a singular G.

    G: (..., n, n), a nonzero Gram matrix -> (...,), a float for one matrix; the `value` of
    `estimate_isometry_gap`, which adds the error bar.

    Raises ValueError for a zero matrix and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemma A.1. A few ulps relative for well conditioned matrices, however small the
    gap; otherwise off by about eps |C^-1|_F / n, C the correlation of G. Below 1e-308 use `log_isometry_gap`.

    >>> isometry_gap([[1.0, 1e-9], [1e-9, 1.0]])
    5e-19
    """
    checked, gaps = _checked_gaps(G)
    return _unbatched([gap.value for gap in gaps], checked)


def log_isometry_gap(G: ArrayLike) -> float | Floats:
    """Logarithm of the isometry gap, for gaps that leave the range of float64: log(-log I(G)).

    G: (..., n, n), a nonzero Gram matrix with off-diagonal correlations down to 1e-300 -> (...,), a float for
    one matrix. -inf for c I and n = 1, where the gap is 0; inf for singular matrices as in `isometry_gap`.

    Raises ValueError for a zero matrix and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemma A.1. The answer is accurate to a few ulps, so the gap to |log gap| eps.

    >>> round(log_isometry_gap([[1.0, 1e-200], [1e-200, 1.0]]), 10)
    -921.7271843782
    """
    checked, gaps = _checked_gaps(G)
    return _unbatched([gap.log_value for gap in gaps], checked)


def estimate_isometry_gap(G: ArrayLike, *, exact: bool = False) -> GapEstimate:
    """The isometry gap of a Gram matrix with an error bar and a status.

    G: (..., n, n), a nonzero Gram matrix -> a record of floats, or of arrays (...,) for a batch. With
    exact=True the entries are taken as the rationals they are (nested lists of ints and Fractions are
    welcome); without, this is done only for a matrix of n <= 16 that float64 cannot resolve.

    Raises ValueError for a zero matrix (0/0) and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemma A.1. The error bar, max(4, 2 sqrt(n)) eps |C^-1|_F / n for strong
    correlation and a few ulps of the value for weak, is measured, not proven: it covered the error in 10^4
    matrices of n <= 64 with conditions to 1e15, and in structured ones to n = 2048. Where inputs nearly coincide or
    are nearly opposite, C^-1 is that of the Gram matrix of their differences instead. It counts rounding after
    G, not that in G: a float Gram matrix of dependent inputs is rarely singular to the last bit, and comes
    out "unresolved".

    >>> estimate_isometry_gap([[2.0, 1.0], [1.0, 2.0]]).status
    'resolved'
    >>> estimate_isometry_gap([[1.0, 2.0], [2.0, 4.0]])
    GapEstimate(value=inf, error=0.0, status='singular', lower=inf)
    """
    checked, gaps = _checked_gaps(G, exact=exact)
    shape = checked.shape[:-2]
    lower = [
        lower_bound(matrix) if gap.status == "unresolved" else max(gap.value - gap.error, 0.0)
        for gap, matrix in zip(gaps, _matrices(checked), strict=True)
    ]
    statuses = [gap.status for gap in gaps]
    return GapEstimate(
        value=_unbatched([gap.value for gap in gaps], checked),
        error=_unbatched([gap.error for gap in gaps], checked),
        status=np.array(statuses, dtype="U10").reshape(shape) if shape else statuses[0],
        lower=_unbatched(lower, checked),
    )


def potential(G: ArrayLike) -> float | Floats:
    """Largest odds of a cosine: max over i != j of |G_ij| / (1 - |G_ij|).

    G: (..., n, n), a correlation matrix -> (...,), a float for one matrix. inf if two inputs are parallel, 0
    for n = 1 and for the identity.

    Raises ValueError for a diagonal that is not 1 (pass correlation(G)) and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemmas A.2 and A.3. Correctly rounded but for one division.

    >>> potential([[1.0, 0.75], [0.75, 1.0]])
    3.0
    """
    return potential_of(check_correlation(G))


def max_correlation(G: ArrayLike) -> float | Floats:
    """Largest absolute cosine between two inputs: max over i != j of |G_ij|, 0 for n = 1.

    G: (..., n, n), a correlation matrix -> (...,), a float for one matrix.

    Raises ValueError for a diagonal that is not 1 (pass correlation(G)) and for what is no Gram matrix.
    Source: arXiv 2305.18399, lemma A.4. Exact: it is one of the entries.

    >>> max_correlation([[1.0, -0.75], [-0.75, 1.0]])
    0.75
    """
    return max_abs_offdiagonal(check_correlation(G))


def rms_correlation(G: ArrayLike) -> float | Floats:
    """Root mean square cosine between inputs: sqrt of the mean of G_ij^2 over i != j, 0 for n = 1.

    G: (..., n, n), a correlation matrix -> (...,), a float for one matrix. Near the identity the isometry gap
    is (n - 1)/2 times its square.

    Raises ValueError for a diagonal that is not 1 (pass correlation(G)) and for what is no Gram matrix.
    Source: the sharp form of lemma A.4 in arXiv 2305.18399. A few ulps; entries of 1e-300 do not vanish.

    >>> rms_correlation([[1.0, 1e-200], [1e-200, 1.0]])
    1e-200
    """
    return rms_offdiagonal(check_correlation(G))


def potential_of(C: Floats) -> float | Floats:
    """`potential` without checks: C is known to be a correlation matrix, or a batch of them."""
    largest = np.asarray(max_abs_offdiagonal(C))
    with np.errstate(divide="ignore"):
        return _plain(largest / (1.0 - largest))


def checked_gap(G: ArrayLike, *, name: str = "G") -> tuple[Floats, Gap]:
    """`check_correlation(G)` and its gap, by one factorisation that serves for both.

    G: (n, n), a correlation matrix -> itself as `check_correlation` gives it, and the gap that `estimate_isometry_gap`
    would estimate for that, with its logarithm. Beside G one array of its size is held.

    Raises ValueError for a batch, and as `check_correlation` does.
    """
    C = check_correlation(G, name=name, semidefinite=False)
    if C.ndim != 2:
        raise ValueError(f"{name} must be one matrix of shape (n, n), got shape {C.shape}; call once per matrix")
    gap = _gap(C, C, exact=False)
    if not _settles(gap):
        check_semidefinite(check_symmetric(G, name=name), G, name=name)
    return C, gap


def _checked_gaps(G: ArrayLike, *, exact: bool = False) -> tuple[Floats, list[Gap]]:
    """`check_gram(G)` and the gap of each matrix."""
    checked = check_symmetric(G)
    gaps = _gaps(G, checked, exact=exact)
    for gap, matrix in zip(gaps, _matrices(checked), strict=True):
        if not _settles(gap):
            check_semidefinite(matrix, G)
    return checked, gaps


def _settles(gap: Gap) -> bool:
    """Whether a gap proves its matrix positive definite: its factorisation has run through."""
    return gap.status in ("resolved", "exact")


def _gaps(G: ArrayLike, checked: Floats, *, exact: bool) -> list[Gap]:
    given = np.asarray(G)
    small = given.dtype.kind in "biu" and bool(np.max(np.abs(checked), initial=0.0) <= 2**53)
    # what exact arithmetic starts from: large ints and Fractions were rounded when they became floats
    sources = _matrices(checked if small or given.dtype.kind == "f" else given)
    return [_gap(matrix, source, exact) for matrix, source in zip(_matrices(checked), sources, strict=True)]


def _gap(G: Floats, source: NDArray[np.generic], exact: bool) -> Gap:
    diagonal = np.diagonal(G)
    if not diagonal.any() and not G.any():
        raise ValueError("G is a zero matrix, whose isometry is 0/0 and undefined; leave zero inputs out")
    rational = source.dtype.kind != "f"
    if rational and not diagonal.all():
        return _exact_gap(source, definite=False)
    if not diagonal.all():
        return SINGULAR
    rounded = rational or bool(np.any(diagonal != 1.0))
    C = unit_diagonal(G) if rounded else G
    if rounded and not rational and has_parallel_pair(G, C):
        return SINGULAR
    gap = gap_of(C, rounded=rounded)
    if rounded and not rational and is_poor(gap):
        gap = _better_gap(gap, G, C)
    if (exact and gap.status != "singular") or (gap.status == "unresolved" and len(G) <= AUTOMATIC_EXACT):
        return _exact_gap(source, definite=gap.status == "resolved")
    return with_norms(gap, diagonal)


def _better_gap(gap: Gap, G: Floats, C: Floats) -> Gap:
    """A poor gap of C, or that of the correlation which G means and C has rounded, if its bar is better."""
    near = gram_complement(G, C)
    if near.min() < 0.0:
        return gap
    return min(gap, gap_of_clusters(C, near, entry_error=4.0 * EPS), key=lambda each: each.error)


def _exact_gap(source: NDArray[np.generic], *, definite: bool) -> Gap:
    """The gap from rational arithmetic; elimination with its signs only where float64 has settled none."""
    from ._exact import as_fractions, eliminate, exact_determinant, exact_log

    rows = as_fractions(source)
    if rows != tuple(zip(*rows, strict=True)):
        raise ValueError("G must be symmetric, and exactly so where its entries are ints or Fractions")
    n = len(rows)
    if definite:
        determinant = exact_determinant(rows)
    else:
        semidefinite, rank, determinant = eliminate(rows)
        if rank < n:
            return SINGULAR if semidefinite else UNRESOLVED
    mean = sum((rows[i][i] for i in range(n)), Fraction()) / n
    value = abs(exact_log(determinant / Fraction(mean**n))) / n
    return Gap(value, 4.0 * EPS * value, math.log(value) if value else -math.inf, "exact")


def _matrices(A: NDArray[np.generic]) -> NDArray[np.generic]:
    """A batch with its leading axes flattened into one."""
    return A.reshape(math.prod(A.shape[:-2]), *A.shape[-2:])


def _unbatched(values: list[float], checked: Floats) -> float | Floats:
    return values[0] if checked.ndim == 2 else np.array(values, dtype=np.float64).reshape(checked.shape[:-2])


def _plain(x: Floats) -> float | Floats:
    return x if x.ndim else float(x)
