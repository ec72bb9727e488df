"""What normalisation gains: the sharp form of Theorem 4.1, and its two corollaries about layers and batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis
from bounds._gains import exact_gain_sides, exact_sharp_sides, gain_between, gain_sides, sharp_sides
from bounds._proven import settled
from bounds._sides import CHECKED, EPS, Rows, Sides, exact_rows, one_matrix
from meanfield._functionals import estimate_isometry_gap
from meanfield._gram import as_real, check_gram

__all__ = ["batch_norm_gain", "layer_norm_gain", "sharp_normalization_gain"]

Floats: TypeAlias = NDArray[np.float64]


def sharp_normalization_gain(G: Any, *, exact: bool = False) -> Certificate:
    """The most that the spread of lengths says about the gain of normalisation, and that by the unbiased variance.

    With a_i = sqrt(G_ii), v = cv^2 = mean((a - mean a)^2) / mean(a)^2, s = sqrt(v/(n-1)), C the correlation of G,

        log(1 + v) - (2/n) log[(1 - s)^(n-1) (1 + (n-1) s)]  <=  gap(G) - gap(C) = log mean(a^2) - 2 mean(log a)

    for nonsingular G, side "sharp"; side "unbiased" has log(1 + n v/(n-1)) on the left, v by the unbiased variance. For
    singular G both isometries are 0, 0 <= 0.

    Proof. The numbers a_i / mean(a) have mean 1 and mean square 1 + v, so their product is at most (1 - s)^(n-1)
    (1 + (n-1) s), by the lemma of `_determinants`; the right side is log(1 + v) less 2/n times its logarithm.  That the
    first side is the larger: as functions of s they agree at 0, and the derivative of their difference has the sign of
    (n-1)(1 + n s^2)(1 + (n-1) s^2) - (1-s)(1 + (n-1) s), where the second product is at most n^2/(4(n-1)) <= n-1.  []
    Equality of "sharp" iff all lengths but one are equal, and that one is not shorter; so always for n = 2.

    G: one Gram matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: logarithms and roots with
    proven error and as many digits as decide.  A zero on the diagonal is NOT_APPLICABLE (a zero input has no
    direction), and so is, with exact=True, a float matrix that rounding has made indefinite.
    Raises ValueError for what is no Gram matrix.
    Source: Theorem 4.1 of arXiv:2305.18399, sharpened; best possible for given v. Without exact=True lengths that
    differ by less than some 1e-7 of themselves are mostly UNDECIDED: the slack of "sharp" is of third order.

    >>> certificate = sharp_normalization_gain([[1, 0, 0], [0, 4, 0], [0, 0, 9]])
    >>> certificate.lhs.round(6).tolist(), certificate.rhs.round(6).tolist(), certificate.verdict.name
    ([0.304488, 0.223144], [0.345939, 0.345939], 'HOLDS')
    """
    checked = one_matrix(check_gram(G), "G")
    diagonal = np.diagonal(checked)
    positive = Hypothesis("no input is zero", bool(diagonal.all()), f"smallest G_ii = {diagonal.min():.6g}")
    semidefinite, sides = CHECKED, Sides([math.nan] * 2, [math.nan] * 2, 0)
    text = "sharp bound <= gap(G) - gap(correlation(G)); log(1 + n/(n-1) cv^2) <= the same"
    rows: Rows = ()
    if exact:
        rows, semidefinite, rank = exact_rows(G, checked, "G")
        singular = rank < len(rows)
    else:
        singular = positive.holds and estimate_isometry_gap(G).status == "singular"
    if positive.holds and semidefinite.holds:
        if singular:
            sides, text = Sides([0, 0], [0, 0], 0), "I(G) times the bound <= I(correlation(G)), both 0: G is singular"
        elif exact:
            sides = exact_sharp_sides([row[i] for i, row in enumerate(rows)])
        else:
            sides = sharp_sides(diagonal)
    return sides.certify(
        "theorem-4.1-sharp",
        "Theorem 4.1, sharp",
        hypotheses=[positive, semidefinite],
        statement=text,
        sides=("sharp", "unbiased"),
        exact=exact,
    )


def layer_norm_gain(X: Any, eps: Any = 0, *, exact: bool = False) -> Certificate:
    """Layer normalisation raises the isometry of centred inputs by at least the spread of their lengths.

    With a_i the length of input i less its mean over features, G the Gram matrix of these, C its correlation,

        log(1 + cv^2)  <=  gap(G) - gap(C) = R(a) = log mean(a^2) - 2 mean(log a)             for eps = 0;
        R(b)  <=  R(a),  so gap(LN(X)) <= gap(G),    b_i = a_i / sqrt(a_i^2 + d eps)          for eps > 0,

    and where G is singular, as for n >= d, the isometries are compared, 0 <= 0.

    Proof. eps = 0 is Theorem 4.1. For eps > 0, log b is an increasing function of log a that shrinks all differences
    strictly: log b less its mean is majorized by log a less its mean, and R is strictly convex and symmetric
    there.  []  Equality iff all a_i are equal, or G is singular. The gain log(1 + cv^2) is not assured for eps > 0.

    X: (n, d), rows are inputs, a float array, or nested lists of ints and Fractions.  eps: what is added to the
    variance, a number >= 0.  exact: entries as the rationals they are, logarithms and roots with as many digits as
    decide.  An input that is constant over its features is NOT_APPLICABLE, and named: it has no direction.
    Raises ValueError for X that is no matrix of finite real numbers, for eps < 0, and, unless exact=True, for an input
    whose length leaves 1e-150 to 1e150.
    Source: Corollary 4.2 of arXiv:2305.18399, which does not say that inputs must be centred first. Against their own
    Gram matrix it is false: e_1, e_2 in R^3 have isometry 1, and .8660 once normalised.
    Without exact=True lengths that differ by less than some 1e-13 of themselves, equal ones too, are UNDECIDED.

    >>> certificate = layer_norm_gain([[1, 2, 3, 6], [3, 0, 0, 1], [1, 5, 1, 1]])
    >>> round(certificate.lhs, 9), round(certificate.rhs, 9), certificate.verdict.name
    (0.029344834, 0.061882465, 'HOLDS')
    """
    added = _check_eps(eps)
    statement = "log(1 + cv^2) <= gap(centred G) - gap(LN), cv of the lengths of centred inputs"
    if added:
        statement = "R(b) <= R(a), R = log mean(a^2) - 2 mean(log a): gap(LN) <= gap(centred G)"
    return _centred_gain(
        "corollary-4.2", "Corollary 4.2, inputs centred", _matrix(X, exact), added, "input", statement, exact
    )


def batch_norm_gain(X: Any, *, exact: bool = False) -> Certificate:
    """Batch normalisation raises the isometry of centred features by at least the spread of their lengths.

    Features, the columns of X less their mean over the batch, take the place of inputs in Theorem 4.1: with a_j the
    length of feature j, C the d x d Gram matrix of features and D its correlation,

        log(1 + cv^2)  <=  gap(C) - gap(D) = log mean(a^2) - 2 mean(log a),

    for d <= n-1; beyond that C is singular, and the isometries are compared, 0 <= 0. Of the inputs nothing of the kind
    can be said: once the batch is centred, their Gram matrix is singular.  Equality iff all a_j are equal, or C is
    singular.

    X: (n, d), rows are inputs, a float array, or nested lists of ints and Fractions.  exact: as in `layer_norm_gain`.
    A feature that is constant over the batch is NOT_APPLICABLE, and named.
    Raises ValueError for X that is no matrix of finite real numbers, and, unless exact=True, for a feature whose length
    leaves 1e-150 to 1e150.
    Source: Corollary 4.3 of arXiv:2305.18399.
    Without exact=True lengths that differ by less than some 1e-13 of themselves, equal ones too, are UNDECIDED.

    >>> certificate = batch_norm_gain([[1, 9], [2, 1], [4, 1], [1, 1]])
    >>> round(certificate.lhs, 9), round(certificate.rhs, 9), certificate.verdict.name
    (0.205463665, 0.464356626, 'HOLDS')
    """
    matrix = _matrix(X, exact)
    transposed = matrix.T if isinstance(matrix, np.ndarray) else list(zip(*matrix, strict=True))
    statement = "log(1 + cv^2) <= gap(C) - gap(BN), C the Gram matrix of centred features, cv of their lengths"
    return _centred_gain(
        "corollary-4.3", "Corollary 4.3, features centred", transposed, Fraction(0), "feature", statement, exact
    )


def _centred_gain(claim: str, title: str, X: Any, eps: Fraction, what: str, statement: str, exact: bool) -> Certificate:
    """Rows of X less their mean; each is an `what`."""
    added = len(X[0]) * eps
    flat, found = _exact_gain(X, added) if exact else _gain(X, added, what)
    moving = Hypothesis(f"no {what} is constant", flat is None, "" if flat is None else f"{what} {flat} of X is")
    if flat is not None:
        found = Sides(math.nan, math.nan, 0)
    if found is None:
        found, statement = Sides(0, 0, 0), f"isometries of centred {what}s and of normalised ones, both 0: singular"
    return found.certify(claim, title, hypotheses=[moving], statement=statement, exact=exact)


def _gain(X: Floats, added: Fraction, what: str) -> tuple[int | None, Sides | None]:
    """The first constant row, if any, and the sides, unless the rows are dependent once centred."""
    squares, relative = _squares(X, what)
    if not squares.all():
        return int((squares == 0).argmax()), None
    if len(X) == 1:
        return None, Sides(0.0, 0.0, 0.0)
    if X.shape[0] >= X.shape[1]:
        return None, None
    return None, _eps_sides(squares, added, relative) if added else gain_sides(squares, relative=relative)


def _exact_gain(X: Sequence[Sequence[Fraction]], added: Fraction) -> tuple[int | None, Sides | None]:
    squares = _exact_squares(X)
    if 0 in squares:
        return squares.index(Fraction(0)), None
    if _is_singular(X):
        return None, None
    return None, _exact_eps_sides(squares, added) if added else exact_gain_sides(squares)


def _matrix(X: Any, exact: bool) -> Any:
    """X as float64, or as rows of Fractions."""
    checked = as_real(X, "X")
    if checked.ndim != 2 or 0 in checked.shape:
        raise ValueError(f"X must have shape (n, d) with n, d >= 1, got shape={checked.shape}; rows are inputs")
    if not exact:
        return checked
    return [[_fraction(entry) for entry in row] for row in (X.tolist() if isinstance(X, np.ndarray) else X)]


def _fraction(entry: Any) -> Fraction:
    return Fraction(int(entry)) if isinstance(entry, int | np.integer) else Fraction(*entry.as_integer_ratio())


def _check_eps(eps: Any) -> Fraction:
    try:
        added = Fraction(eps)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"eps must be a finite number >= 0, got {eps!r}") from None
    if added < 0:
        raise ValueError(f"eps must be >= 0, got {eps!r}: it is added to the variance over features")
    return added


def _squares(X: Floats, what: str) -> tuple[Floats, float]:
    """Squared lengths of rows less their mean, and their relative error: 0 for constant rows alone.

    The mean is taken of y = x - x_1, whose rounding is relative to the spread. An error of the mean is orthogonal to
    the row, so of second order; that of y - mean(y) is at most eps/2 (|y| + |z|) <= eps/2 (2 + sqrt(d)) |z|, z the
    result, and pairwise sums of squares add less than 8 eps.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        y = np.ascontiguousarray(X - X[:, :1])
        z = y - y.mean(axis=1, keepdims=True)
        lengths = np.sqrt(np.square(z).sum(axis=1))
    moving = y.any(axis=1)
    lost = moving & ~((lengths >= 1e-150) & (lengths <= 1e150))
    if lost.any():
        raise ValueError(
            f"{what} {int(lost.argmax())} of X has, once centred, a length beyond 1e-150 to 1e150; rescale X, "
            "or pass exact=True"
        )
    return np.where(moving, np.square(z).sum(axis=1), 0.0), (16.0 + 2.0 * math.sqrt(X.shape[1])) * EPS


def _exact_squares(X: Sequence[Sequence[Fraction]]) -> list[Fraction]:
    d = len(X[0])
    return [sum((x * x for x in row), Fraction(0)) - sum(row, Fraction(0)) ** 2 / d for row in X]


def _is_singular(X: Sequence[Sequence[Fraction]]) -> bool:
    from meanfield._exact import eliminate

    if len(X) >= len(X[0]):
        return True
    means = [sum(row, Fraction(0)) / len(row) for row in X]
    centred = [[x - mean for x in row] for row, mean in zip(X, means, strict=True)]
    gram = tuple(tuple(sum(map(Fraction.__mul__, a, b), Fraction(0)) for b in centred) for a in centred)
    return eliminate(gram).rank < len(X)


def _eps_sides(squares: Floats, added: Fraction, relative: float) -> Sides:
    """R(b) <= R(a). R ignores scale, so b^2 may be divided by what would overflow."""
    before = gain_sides(squares, relative=relative)
    e = float(min(added, Fraction(10) ** 308))
    shrunk = squares / (1.0 + squares / e) if e > 1.0 else squares / (squares + e)
    after = gain_sides(shrunk, relative=relative + 4.0 * EPS)
    return Sides(after.rhs, before.rhs, before.tolerance + after.tolerance)  # type: ignore[operator]


def _exact_eps_sides(squares: Sequence[Fraction], added: Fraction) -> Sides:
    if len(set(squares)) == 1:
        return Sides(0, 0, 0)
    shrunk = [square / (square + added) for square in squares]
    return settled(lambda digits: (gain_between(shrunk, digits), gain_between(squares, digits)))
