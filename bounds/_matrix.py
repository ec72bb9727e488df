"""What the paper claims of a single Gram matrix: one function and one certificate for each claim.

Float arithmetic decides wherever the slack exceeds its rounding; exact=True takes the entries as the
rationals they are and decides the rest.  Lemmas A.1 and A.4 are stated in their corrected forms.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis
from bounds._gains import exact_gain_sides as _exact_gain_sides
from bounds._gains import gain_sides as _gain_sides
from bounds._sides import CHECKED, EPS, Rows, Sides, exact_rows, one_matrix
from meanfield._functionals import GapEstimate, estimate_isometry_gap, log_isometry_gap
from meanfield._gram import check_correlation, check_gram

__all__ = ["determinant_sandwich", "isometry_properties", "normalization_gain"]

Floats: TypeAlias = NDArray[np.float64]


def isometry_properties(M: Any, *, exact: bool = False) -> Certificate:
    """The isometry lies in [0, 1] and ignores scale; just multiples of I have 1, just singular matrices 0.

    For positive semidefinite M != 0 of size n and I(M) = det(M)^(1/n) / (tr(M)/n): 0 <= I(M) <= 1;
    I(cM) = I(M) for c > 0; I(M) = 1 iff M = cI; I(M) = 0 iff M is singular; so I(M) = 1 for n = 1.
    Five sides: "lower" and "upper" bound I; "scale" says that I(cM) and I(M) agree within error bars, c = 4 or 1/4;
    "one" and "zero" compare the two sides of an iff, as 0 <= 0 if they agree and 1 <= 0 if they do not.

    M: one Gram matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: decide by
    rational arithmetic, with I^n in place of I.  M = 0 is NOT_APPLICABLE, and so is, with exact=True, a float
    matrix that rounding has made indefinite.  Raises ValueError for what is no Gram matrix.
    Source: arXiv:2305.18399, Lemma A.1.  Printed there is "I(M) = 1 iff M = I_n", false for M = 2I.
    Without exact=True a matrix that float64 cannot tell from a singular one is UNDECIDED.

    >>> isometry_properties([[2.0, 0.0], [0.0, 2.0]]).verdict.name
    'HOLDS'
    """
    checked = one_matrix(check_gram(M, name="M"), "M")
    nonzero = Hypothesis("M is not zero", bool(checked.any()))
    semidefinite, what, bars = CHECKED, "I", " within error bars"
    sides = Sides([math.nan] * 5, [math.nan] * 5, 0.0)
    if exact:
        rows, semidefinite, rank = exact_rows(M, checked, "M")
        what, bars = "I^n", ""
    if nonzero.holds:
        sides = _exact_isometry_sides(rows, rank) if exact else _isometry_sides(M, checked)
    return sides.certify(
        "lemma-a.1",
        "Lemma A.1, corrected",
        hypotheses=[nonzero, semidefinite],
        statement=f"0 <= {what} <= 1; {what}(cM) = {what}(M){bars}; I = 1 iff M = cI; I = 0 iff M singular",
        sides=("lower", "upper", "scale", "one", "zero"),
        exact=exact,
    )


def normalization_gain(G: Any, *, exact: bool = False) -> Certificate:
    """Normalising the inputs raises the isometry by at least the spread of their lengths.

    I(C) >= I(G) (1 + cv^2), C the correlation of G, a_i = sqrt(G_ii) the lengths of the inputs and
    cv^2 = mean((a - mean a)^2) / mean(a)^2.  For nonsingular G it is compared as

        log(1 + cv^2)  <=  gap(G) - gap(C)  =  log mean(a^2) - 2 mean(log a),

    an equation that holds exactly, so no determinant and none of its rounding enters.  For singular G the
    sides are the isometries, 0 <= 0.  Equality iff all lengths are equal or G is singular.

    G: one Gram matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: take the entries
    as rationals, and logarithms and roots with proven error and as many digits as decide.  A zero on the
    diagonal is NOT_APPLICABLE (a zero input has no direction), and so is, with exact=True, a float matrix
    that rounding has made indefinite.  Raises ValueError for what is no Gram matrix.
    Source: arXiv:2305.18399, Theorem 4.1.  Without exact=True, lengths that differ by less than some 1e-14
    of themselves, but do differ, are UNDECIDED.

    >>> certificate = normalization_gain([[1, 0], [0, 9]])  # lengths 1 and 3: log(5/4) <= log(5/3)
    >>> round(certificate.lhs, 12), round(certificate.rhs, 12), certificate.verdict.name
    (0.223143551314, 0.510825623766, 'HOLDS')
    """
    checked = one_matrix(check_gram(G), "G")
    diagonal = np.diagonal(checked)
    positive = Hypothesis("no input is zero", bool(diagonal.all()), f"smallest G_ii = {diagonal.min():.6g}")
    semidefinite, text = CHECKED, "log(1 + cv^2) <= gap(G) - gap(correlation(G))"
    sides = Sides(math.nan, math.nan, 0.0)
    if exact:
        rows, semidefinite, rank = exact_rows(G, checked, "G")
        singular = rank < len(rows)
    else:
        singular = positive.holds and estimate_isometry_gap(G).status == "singular"
    if positive.holds and semidefinite.holds:
        if singular:
            sides, text = Sides(0.0, 0.0, 0.0), "I(G) (1 + cv^2) <= I(correlation(G)), both 0: G is singular"
        elif exact:
            sides = _exact_gain_sides([row[i] for i, row in enumerate(rows)])
        else:
            # an unresolved G may be singular after all: then both isometries are 0, with the same verdict
            sides = _gain_sides(diagonal)
    return sides.certify("theorem-4.1", "Theorem 4.1", hypotheses=[positive, semidefinite], statement=text, exact=exact)


def determinant_sandwich(G: Any, *, exact: bool = False) -> Certificate:
    """The determinant of a correlation matrix lies between two functions of its largest correlation.

    With m = max |G_ij| over i != j: (1 - (n-1)m)^n <= det G, provided that (n-1)m <= 1, and det G <= 1 - m^2.
    Sides "lower" and "upper"; where (n-1)m > 1 the lower one is NOT_APPLICABLE, and the best lower bound from
    m alone is 0.  For n = 1, m = 0.

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: decide by
    rational arithmetic; a float matrix that rounding has made indefinite is then NOT_APPLICABLE.
    Raises ValueError for a diagonal that is not 1 (pass `correlation(G)`) and for what is no Gram matrix.
    Source: arXiv:2305.18399, Lemma A.4, printed without (n-1)m <= 1: for n = 4 and all correlations .9 it
    would say 8.3521 <= .0037.
    Without exact=True equality of the upper side is decided where just one pair of inputs is not orthogonal,
    or G is singular; other equalities, and near ones, are UNDECIDED.

    >>> certificate = determinant_sandwich([[1.0, 0.5], [0.5, 1.0]])
    >>> certificate.lhs.tolist(), certificate.rhs.tolist(), certificate.verdict.name
    ([0.25, 0.75], [0.75, 0.75], 'HOLDS')
    """
    checked = one_matrix(check_correlation(G), "G")
    semidefinite, n = CHECKED, len(checked)
    if exact:
        from meanfield._exact import exact_determinant

        rows, semidefinite, _ = exact_rows(G, checked, "G", unit_diagonal=True)
        m = max((abs(rows[i][j]) for i in range(n) for j in range(i)), default=Fraction(0))
        det = exact_determinant(rows)
        sides = Sides([(1 - (n - 1) * m) ** n, det], [det, 1 - m * m], 0)
    else:
        m = Fraction(float(np.max(np.abs(checked - np.eye(n)))))
        sides = _determinant_sides(checked, m)
    detail = f"n = {n}, max|G_ij| = {float(m):.6g}"
    small = Hypothesis("(n-1) max|G_ij| <= 1", (n - 1) * m <= 1, detail, side="lower")
    return sides.certify(
        "lemma-a.4",
        "Lemma A.4, corrected",
        hypotheses=[semidefinite, small],
        statement="(1 - (n-1) m)^n <= det G; det G <= 1 - m^2; m = max|G_ij|",
        sides=("lower", "upper"),
        exact=exact,
    )


def _isometry_sides(M: Any, checked: Floats) -> Sides:
    # By a power of 4, so that float64 scales the matrix, and square roots of its diagonal, without rounding;
    # exact entries stay exact, lest a singular matrix of Fractions be compared with its rounded multiple.
    given = np.asarray(M)
    with np.errstate(over="ignore", under="ignore"):
        factor = next((c for c in (4.0, 0.25) if np.array_equal(checked * c / c, checked)), 1.0)
    scaled = checked * factor if given.dtype.kind == "f" else given.astype(object) * Fraction(factor)
    estimates = [estimate_isometry_gap(A) for A in (M, scaled)]
    (value, error), (again, error_again) = map(_isometry, estimates)
    gap, least, status = float(estimates[0].value), float(estimates[0].lower), estimates[0].status
    complement = 1.0 - value if status == "unresolved" else -math.expm1(-gap)
    # a gap below 1e-308 is 0 in float64, its logarithm is not
    is_one = (log_isometry_gap(M) == -math.inf) if gap == 0 else False if least > 0 else None
    one = _differ(is_one, np.array_equal(checked, checked[0, 0] * np.eye(len(checked))))
    zero = _differ(None if status == "unresolved" else math.isinf(gap), status == "singular")
    allowed = error + error_again + EPS * (value + again)
    return Sides(
        [0.0, value, abs(again - value), one[0], zero[0]],
        [value, 1.0, allowed, 0.0, 0.0],
        [error + EPS * value, error + 2 * EPS * complement, 0.0, one[1], zero[1]],
        [value, complement, allowed - abs(again - value), 0.0 - one[0], 0.0 - zero[0]],
    )


def _isometry(estimate: GapEstimate) -> tuple[float, float]:
    """The isometry and its error before rounding; unresolved, all from 0 to the isometry at the least gap."""
    if estimate.status == "unresolved":
        half = 0.5 * math.exp(-float(estimate.lower))
        return half, half
    value = math.exp(-float(estimate.value))
    return value, value * math.expm1(float(estimate.error))


def _differ(left: bool | None, right: bool) -> tuple[float, float]:
    """How far an iff is from true, 0 or 1, and the error of that: 1 when its left side is not known."""
    return (0.0, 1.0) if left is None else (float(left != right), 0.0)


def _exact_isometry_sides(rows: Rows, rank: int) -> Sides:
    from meanfield._exact import exact_determinant

    n, trace = len(rows), sum((row[i] for i, row in enumerate(rows)), Fraction(0))
    value = exact_determinant(rows) * (n / trace) ** n
    again = exact_determinant([[4 * entry for entry in row] for row in rows]) * (n / (4 * trace)) ** n
    multiple = all(row[j] == (rows[0][0] if i == j else 0) for i, row in enumerate(rows) for j in range(n))
    one, zero = Fraction((value == 1) != multiple), Fraction((value == 0) != (rank < n))
    return Sides([Fraction(0), value, abs(again - value), one, zero], [value, Fraction(1), *[Fraction(0)] * 3], 0)


def _determinant_sides(C: Floats, m: Fraction) -> Sides:
    """Differences of sides that are near 0, and of the complements of sides near 1: digits are kept."""
    n, x, base = len(C), float((len(C) - 1) * m), float(1 - (len(C) - 1) * m)
    upper, square = float(1 - m) * float(1 + m), float(m * m)
    with np.errstate(over="ignore"):
        lower = float(np.power(base, n))
    involved = np.count_nonzero(C, axis=0) > 1
    if np.count_nonzero(involved) <= 2:
        det, complement, error = upper, square, 0.0  # one pair or none: det and 1 - m^2 are one number
    else:
        det, complement, error = _determinant(C[np.ix_(involved, involved)])
    if x < 0.5:
        remainder = -math.expm1(n * math.log1p(-x))
        low, low_bar = remainder - complement, error + 8 * EPS * remainder + 2 * EPS * complement
    else:
        low, low_bar = det - lower, error + 2 * EPS * det + (n + 4) * EPS * abs(lower)
    if det == upper and error == 0:
        high, high_bar = 0.0, 0.0
    elif det > 0.5:
        high, high_bar = complement - square, error + 4 * EPS * complement
    else:
        high, high_bar = upper - det, error + 2 * EPS * det + 4 * EPS * upper
    return Sides([lower, det], [det, upper], [low_bar, high_bar], [low, high])


def _determinant(C: Floats) -> tuple[float, float, float]:
    """det C, 1 - det C, and the error of either before its last rounding."""
    estimate = estimate_isometry_gap(C)
    if estimate.status == "unresolved":
        # of either sign, if rounding has made C indefinite
        return 0.0, 1.0, math.exp(-len(C) * float(estimate.lower))
    log_det, error = -len(C) * float(estimate.value), len(C) * float(estimate.error)
    det = math.exp(log_det)
    return det, -math.expm1(log_det), det * math.expm1(error)
