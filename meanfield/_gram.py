"""Gram matrices of inputs: forming them, checking them at the door, giving them a unit diagonal.

X has shape (..., n, d) and its rows are inputs; G = X X^T has shape (..., n, n). Everything else of this
room and the next takes a matrix only through `check_gram` or `check_correlation`, so what rounding may do to
a Gram matrix, and what it may not, is decided here once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._angles import complements

__all__ = [
    "check_correlation",
    "check_gram",
    "check_semidefinite",
    "check_symmetric",
    "correlation",
    "gram",
    "input_complement",
    "input_gram",
    "rounding",
    "unit_diagonal",
]

Floats = NDArray[np.float64]

# rows handled at once
BLOCK = 64


def gram(X: ArrayLike) -> Floats:
    """Inner products of all pairs of inputs, G = X X^T; not divided by the number of features.

    X: (n, d) or a batch (..., n, d) of finite real numbers, rows are inputs -> (..., n, n), float64 and
    exactly symmetric. Rows that are equal or opposite get bitwise equal or opposite entries, so that
    duplicates stay exactly singular whatever order BLAS sums in.

    Raises ValueError for a single vector, an empty or complex array, NaN and infinities, and where a squared
    length leaves the range of float64 (lengths between 1e-150 and 1e150 are safe).
    Source: arXiv 2305.18399, lemma A.1 (whose X has inputs for columns). A dot product of a million terms is
    off by up to about 10 eps times the two lengths.

    >>> gram([[1.0, 2.0], [3.0, 4.0]])
    array([[ 5., 11.],
           [11., 25.]])
    """
    rows = _check_inputs(X)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        G = rows @ np.swapaxes(rows, -1, -2)
    squares = np.diagonal(G, axis1=-2, axis2=-1)
    lost = ~np.isfinite(squares) | ((squares < np.finfo(np.float64).tiny) & rows.any(axis=-1))
    if lost.any():
        raise ValueError(
            f"the squared length of {_row('X', lost)} leaves the range of float64; rescale X, or use "
            "input_gram(X, normalization='rms'), which is free of scale"
        )
    return _share_duplicates(rows, np.ascontiguousarray(_mirrored(G)))


def correlation(G: ArrayLike) -> Floats:
    """Cosines of the angles between inputs, C_ij = G_ij / sqrt(G_ii G_jj), from their Gram matrix.

    G: (..., n, n), a Gram matrix with positive diagonal at any scale that float64 holds -> the same shape,
    exactly symmetric, diagonal exactly 1, entries in [-1, 1]: what exceeds 1 by rounding is clipped. A unit
    diagonal comes back with its entries unchanged.

    Raises ValueError where an input is 0 and so has no direction, where a cosine exceeds 1 by more than
    rounding, and for what is no Gram matrix (not square, not finite, not symmetric, a negative eigenvalue).
    Source: arXiv 2305.18399, theorem 4.1. Each entry is accurate to 3e-16 relative.

    >>> correlation([[4.0, 3.0], [3.0, 9.0]])
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    checked = check_gram(G)
    zero = np.diagonal(checked, axis1=-2, axis2=-1) == 0
    if zero.any():
        raise ValueError(
            f"{_row('G', zero)} has diagonal 0: a zero input has no direction, so its correlations are "
            "undefined; leave it out"
        )
    C = _normalised(checked)
    largest = np.max(_largest(C), initial=0.0)
    if not largest <= 1 + rounding(G, C.shape[-1]):
        raise ValueError(
            f"G has |G_ij| / sqrt(G_ii G_jj) = {largest:.17g}, above 1 by more than rounding: beside its "
            "largest entries some rows are only rounding noise; leave them out"
        )
    return _with_unit_diagonal(C)


def input_gram(X: ArrayLike, normalization: Literal["layer", "rms"] = "layer") -> Floats:
    """Gram matrix of inputs after normalisation: unit diagonal, the G_0 that the layers start from.

    "layer" subtracts from every input its mean over features and takes cosines; "rms" takes cosines alone.
    X: (n, d) or (..., n, d), rows are inputs, any scale -> (..., n, n), a correlation matrix.

    Raises ValueError for an input that is constant over its features ("layer") or 0 ("rms"), naming it: it
    has no direction; for an unknown normalization; and for X as `gram` does.
    Source: arXiv 2305.18399, corollary 4.2 (layer normalisation without epsilon or affine part). Centring
    rounds relative to each row's spread, not its mean: only digits that X itself lacks are missing.

    >>> input_gram([[1.0, 2.0, 3.0], [5.0, 3.0, 1.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if normalization not in ("layer", "rms"):
        raise ValueError(f"normalization must be 'layer' or 'rms', got {normalization!r}")
    rows = _scaled_rows(_check_inputs(X))
    if normalization == "layer":
        # differences from the first feature are exact for near-constant rows; the mean of these is then small
        rows = _scaled_rows(rows - rows[..., :1])
        rows = _scaled_rows(rows - rows.mean(axis=-1, keepdims=True))
    flat = np.max(np.abs(rows), axis=-1) == 0
    if flat.any():
        what = "constant over its features" if normalization == "layer" else "zero"
        raise ValueError(f"{_row('X', flat)} is {what}, so it has no direction; leave it out")
    return unit_diagonal(gram(rows))


def input_complement(X: ArrayLike, normalization: Literal["layer", "rms"] = "layer") -> Floats:
    """1 - |C_ij| for C = input_gram(X): how far two inputs are from coinciding or being opposite.

    C rounds to +-1 once the distance of two inputs falls below 1e-8, and 1 - |C| has lost digits long before; this is
    formed from differences of the rows. X and normalization as in `input_gram` -> the same shape, diagonal 0; exactly
    0 for parallel inputs ("layer": once centred) and no others.

    Raises ValueError as `input_gram` does.
    Source: 1 - |cos| = sin^2 / (1 + |cos|). Each entry is accurate to 1e-14 relative for the rows as given, whose own
    rounding is what limits distances below 1e-16; what falls below 2.2e-308 is set to that. A pair with |C_ij| > 7/8
    costs about 30 operations on its rows.

    >>> print(f"{input_complement([[1.0, 0.0, -1.0], [1.0, 1e-12, -1.0]])[0, 1]:.12g}")
    1.66666666667e-25
    """
    C = input_gram(X, normalization)
    rows, near = _stacked(_check_inputs(X)), np.empty(C.shape)
    for target, inputs, cosines in zip(_stacked(near), rows, _stacked(C), strict=True):
        target[...] = complements(inputs, cosines, centred=normalization == "layer")
    return near


def check_gram(G: ArrayLike, *, name: str = "G") -> Floats:
    """A Gram matrix as an exactly symmetric float64 array, or a ValueError that says why it is none.

    G: (..., n, n), any real dtype, list or view; never modified (the answer may share its memory). Rounding
    is forgiven up to t = max(n, 16) eps, eps of the dtype of G: asymmetry up to t max|G| is averaged away,
    and the smallest eigenvalue may be as low as -t max|G|. Meanwhile one array of the size of a matrix is held, and
    one more where G is not exactly symmetric.
    """
    checked = check_symmetric(G, name=name)
    check_semidefinite(checked, G, name=name)
    return checked


def check_symmetric(G: ArrayLike, *, name: str = "G") -> Floats:
    """`check_gram` but for the eigenvalues, which are left to `check_semidefinite` or to a factorisation to come."""
    checked = _check_shape(G, name)
    asymmetry = _asymmetry(checked)
    if np.any(asymmetry > 0.5 * rounding(G, checked.shape[-1]) * _largest(checked)):
        raise ValueError(
            f"{name} must be symmetric, but half of {name} - {name}^T reaches {asymmetry.max():.3g}; for its "
            f"symmetric part pass ({name} + {name}.T) / 2"
        )
    checked = _mirrored(checked)
    diagonal = np.diagonal(checked, axis1=-2, axis2=-1)
    if np.any(diagonal < 0):
        raise ValueError(
            f"{name} has the diagonal entry {diagonal.min():.17g}, but squared lengths are not negative: it "
            "is no Gram matrix"
        )
    return checked


def check_semidefinite(checked: Floats, G: ArrayLike, *, name: str = "G") -> None:
    """The other half of `check_gram`, for what `check_symmetric` made of G; a Cholesky factorisation each."""
    tolerance = rounding(G, checked.shape[-1])
    for matrix in _stacked(checked):
        _check_eigenvalues(matrix, tolerance, name)


def check_correlation(G: ArrayLike, *, name: str = "G", semidefinite: bool = True) -> Floats:
    """A correlation matrix with diagonal exactly 1 and entries in [-1, 1], or a ValueError that says why not.

    As `check_gram`; the diagonal may miss 1 by max(n, 16) eps, and is then set to 1. semidefinite=False leaves out
    the eigenvalues, for callers that factorise the matrix themselves.
    """
    checked = check_gram(G, name=name) if semidefinite else check_symmetric(G, name=name)
    tolerance = rounding(G, checked.shape[-1])
    diagonal = np.diagonal(checked, axis1=-2, axis2=-1)
    off = np.abs(diagonal - 1)
    if np.any(off > tolerance):
        worst = diagonal.flat[int(off.argmax())]
        raise ValueError(
            f"{name} must have a unit diagonal, got the diagonal entry {worst:.17g}; pass correlation({name})"
        )
    exact = not off.any() and np.max(_largest(checked), initial=0.0) <= 1
    return checked if exact else _with_unit_diagonal(checked.copy())


def check_covariance(G: ArrayLike, *, name: str = "G") -> Floats:
    """`check_gram`, with a diagonal that misses 1 by rounding alone set to 1, as `check_correlation` has it."""
    checked = check_gram(G, name=name)
    off = np.abs(np.diagonal(checked, axis1=-2, axis2=-1) - 1)
    near = np.all(off <= rounding(G, checked.shape[-1]))
    return check_correlation(G, name=name, semidefinite=False) if near and off.any() else checked


def unit_diagonal(G: Floats) -> Floats:
    """`correlation` for matrices known to be symmetric with a positive diagonal: no checks, one pass."""
    return _with_unit_diagonal(_normalised(G))


def rounding(G: ArrayLike, n: int) -> float:
    """What rounding may have done to a Gram matrix, relative to its largest entry: max(n, 16) eps.

    eps is that of the dtype in which G came. Below n = 16 what G has lost in sums over features dominates.
    """
    dtype = np.asarray(G).dtype
    narrow = dtype.kind == "f" and dtype.itemsize < 8
    return max(n, 16) * float(np.finfo(dtype if narrow else np.float64).eps)


def _check_eigenvalues(G: Floats, tolerance: float, name: str) -> None:
    """Cholesky of the correlation, then of it plus the tolerance; eigenvalues, at 20 times the cost, last.

    A Cholesky that runs through may accept (C + t I >= 0 gives G + t diag(G) >= 0), but a failure refuses
    nothing yet: beside a large entry, a small input may have lost all its digits.
    """
    positive = np.diagonal(G) > 0
    if not np.any(G[~positive]) and any(
        _is_definite(_normalised(G if positive.all() else G[np.ix_(positive, positive)]), diagonal)
        for diagonal in (1.0, 1.0 + tolerance)
    ):
        return
    largest = float(_largest(G))
    exponent = np.frexp(largest)[1]
    smallest = float(np.ldexp(np.linalg.eigvalsh(np.ldexp(G, -exponent))[0], exponent))
    if smallest < -tolerance * largest:
        raise ValueError(
            f"{name} is no Gram matrix: its smallest eigenvalue is {smallest:.6g}, and rounding explains no "
            f"more than {-tolerance * largest:.2g}"
        )


def _is_definite(C: Floats, diagonal: float) -> bool:
    """Whether Cholesky runs through for C with this diagonal; C is overwritten."""
    np.fill_diagonal(C, 0.0)
    # no eigenvalue of what is off the diagonal exceeds its Frobenius norm
    if np.vdot(C, C) < 0.9:
        return True
    from scipy.linalg.lapack import dpotrf

    np.fill_diagonal(C, diagonal)
    return bool(dpotrf(C.T, lower=1, clean=0, overwrite_a=1)[1] == 0)


def _normalised(G: Floats) -> Floats:
    """G_ij / sqrt(G_ii G_jj) in a new array, without overflow: powers of 4 are split off the diagonal exactly.

    What stays of the diagonal lies in [1/2, 2), and sqrt(m m) = m holds in float64, so equal diagonal entries
    cost one division and a unit diagonal nothing.
    """
    mantissa, exponent = np.frexp(np.diagonal(G, axis1=-2, axis2=-1))
    odd = exponent & 1
    mantissa, half = np.ldexp(mantissa, odd), (exponent - odd) // 2
    C = np.empty(G.shape)
    for rows in _blocks(G):
        block = G[..., rows, :]
        with np.errstate(over="ignore", under="ignore"):
            scaled = np.ldexp(block, -(half[..., rows, None] + half[..., None, :])) if half.any() else block
        np.divide(scaled, np.sqrt(mantissa[..., rows, None] * mantissa[..., None, :]), out=C[..., rows, :])
    return C


def _with_unit_diagonal(C: Floats) -> Floats:
    """Clip to [-1, 1] and set the diagonal to 1, in place."""
    np.clip(C, -1.0, 1.0, out=C)
    index = np.arange(C.shape[-1])
    C[..., index, index] = 1.0
    return C


def _mirrored(G: Floats) -> Floats:
    """The symmetric part of G: G itself where it is symmetric, else a new array."""
    if all(np.array_equal(upper, lower) for _, _, upper, lower in _opposite(G)):
        return G
    mirrored = np.empty(G.shape)
    for i, j, upper, lower in _opposite(G):
        # halves first: the sum of two large entries may overflow; but equal entries must keep a subnormal bit
        mean = np.where(lower == upper, upper, 0.5 * upper + 0.5 * lower)
        mirrored[..., i, j], mirrored[..., j, i] = mean, np.swapaxes(mean, -1, -2)
    return mirrored


def _asymmetry(G: Floats) -> Floats:
    """The largest entry of half of |G - G^T|."""
    worst = np.zeros(G.shape[:-2])
    for _, _, upper, lower in _opposite(G):
        if not np.array_equal(upper, lower):
            worst = np.maximum(worst, _largest(0.5 * upper - 0.5 * lower))
    return worst


def _opposite(G: Floats) -> Iterator[tuple[slice, slice, Floats, Floats]]:
    """The blocks of G on and above the diagonal, and those they should be equal to."""
    for i in _blocks(G):
        for j in _blocks(G):
            if i.start <= j.start:
                yield i, j, G[..., i, j], np.swapaxes(G[..., j, i], -1, -2)


def _largest(A: Floats) -> Floats:
    """max |A_ij| without an array of absolute values."""
    return np.asarray(np.maximum(A.max(axis=(-2, -1), initial=0.0), -A.min(axis=(-2, -1), initial=0.0)))


def _blocks(G: Floats) -> list[slice]:
    """Rows, or columns, in blocks: what is made of one, or of a square of two, is small beside a large matrix."""
    n = G.shape[-1]
    return [slice(start, start + BLOCK) for start in range(0, n, BLOCK)]


def _scaled_rows(rows: Floats) -> Floats:
    """Rows times the power of 2 that brings their largest entry into [1/2, 1): exact, and safe to square."""
    exponent = np.frexp(np.max(np.abs(rows), axis=-1, keepdims=True))[1]
    return np.asarray(np.ldexp(rows, -exponent))


def _share_duplicates(rows: Floats, G: Floats) -> Floats:
    """Give equal and opposite rows equal and opposite entries.

    BLAS sums the same dot product in different orders in the middle and at the rim of its blocks, and a pair
    of duplicates an ulp apart would be taken for two almost parallel inputs.
    """
    for X, target in zip(_stacked(rows), _stacked(G), strict=True):
        leading = X[np.arange(len(X)), (X != 0).argmax(axis=-1)]
        sign = np.where(leading < 0, -1.0, 1.0)
        seen: dict[bytes, int] = {}
        # adding 0 turns -0.0 into 0.0: equal numbers must have equal bytes
        first = [seen.setdefault((row + 0.0).tobytes(), i) for i, row in enumerate(sign[:, None] * X)]
        if len(seen) < len(X):
            sign *= sign[first]
            target[...] = target[np.ix_(first, first)] * sign[:, None] * sign
    return G


def _stacked(A: Floats) -> Floats:
    """A batch (..., p, q) with its leading axes flattened; a view wherever the memory is contiguous."""
    return A.reshape(-1, *A.shape[-2:]) if A.size else np.empty((0, *A.shape[-2:]))


def _row(name: str, flags: NDArray[np.bool_]) -> str:
    """Name the first flagged row: "row 2 of X", in a batch "row 2 of X[0]"."""
    *batch, row = (int(i) for i in np.argwhere(flags)[0])
    return f"row {row} of {name}{batch if batch else ''}"


def _check_inputs(X: ArrayLike) -> Floats:
    rows = as_real(X, "X")
    if rows.ndim < 2:
        raise ValueError(f"X must have shape (n, d), got shape={rows.shape}; for one input pass X[None, :]")
    if 0 in rows.shape[-2:]:
        raise ValueError(f"X must hold at least one input of at least one feature, got shape={rows.shape}")
    return np.ascontiguousarray(rows)


def _check_shape(G: ArrayLike, name: str) -> Floats:
    checked = as_real(G, name)
    if checked.ndim < 2 or checked.shape[-1] != checked.shape[-2] or not checked.shape[-1]:
        wanted = "must have shape (n, n) or (..., n, n) with n >= 1"
        raise ValueError(f"{name} {wanted}, got shape={checked.shape}; for inputs X pass gram(X)")
    return checked


def as_real(values: ArrayLike, name: str) -> Floats:
    """Any array of real finite numbers as float64; Fractions and integers of any size are rounded once."""
    got: object = type(values).__name__
    try:
        array = np.asarray(values)
        got = array.dtype
        if array.dtype.kind not in "biufO":
            raise TypeError
        result: Floats = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of real numbers that float64 holds, got {got}") from None
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        raise ValueError(f"{name} must be finite, got {result[where]} at index {list(where)}")
    return result
