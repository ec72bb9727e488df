"""Bounds on the determinant of one correlation matrix G, by its largest and its rms correlation and by its rows.

With m = max |G_ij| and t^2 = mean of G_ij^2, both over i != j, most of them rest on one

Lemma. Let l_1, ..., l_n >= 0 have mean 1 and mean square 1 + (n-1) t^2. Then

    max(1 - (n-1) t, 0) (1 + t)^(n-1)  <=  l_1 ... l_n  <=  (1 - t)^(n-1) (1 + (n-1) t).

Proof. The set is compact, so the product has a largest and a smallest value. Of x <= y <= z with fixed sum and fixed
sum of squares, so fixed xy + yz + zx too, the roots of w^3 - e_1 w^2 + e_2 w = xyz are all real; as xyz grows, they
stay so until x = y, and as it falls, until y = z, or x = 0 comes first. Where the product is largest, all triples
have x = y: n-1 numbers are equal and the last is not smaller, so these are 1 - t and 1 + (n-1) t. Where it is
smallest and not 0, all triples have y = z: these are 1 + t and 1 - (n-1) t, which needs (n-1) t < 1.  []

The l_i are the eigenvalues of G: their mean is 1, and their mean square tr(G^2)/n.  Both ends are attained, by
correlations that are all t, or all -t.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis
from bounds._losses import (
    CERTAIN,
    at_most,
    loss_of,
    loss_of_factors,
    loss_of_gamma,
    loss_of_gamma_minus,
    one_minus_square,
)
from bounds._proven import Between, log_between, settled, sqrt_between
from bounds._sides import CHECKED, EPS, Rows, Sides, common_correlation, exact_rows, one_matrix
from meanfield._functionals import estimate_isometry_gap, max_abs_offdiagonal, rms_offdiagonal
from meanfield._gram import check_correlation

__all__ = ["determinant_products", "gap_from_rms", "rms_determinant_sandwich", "sharp_determinant_bound"]

Floats: TypeAlias = NDArray[np.float64]

# a few ulps each: of a mean of squares, of its root, and of n - 1 times it
_RMS_ERROR = 24.0 * EPS
_TINY = 1e-307


def sharp_determinant_bound(G: Any, *, exact: bool = False) -> Certificate:
    """The least determinant that correlations of size at most m leave possible, provided that (n-1) m <= 1.

        (1 - (n-1) m) (1 + m)^(n-1)  <=  det G,     m = max |G_ij| over i != j.

    Proof: the lemma of this file, and t <= m, since the left side decreases in t. Equality iff all correlations are -m
    once some inputs change their sign, and for n = 2. Where (n-1) m > 1 it is NOT_APPLICABLE, and nothing better
    than 0 follows from m. It is larger than (1 - (n-1) m)^n, the lower bound of `determinant_sandwich`.

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: decide by
    rational arithmetic; a float matrix that rounding has made indefinite is then NOT_APPLICABLE.
    Raises ValueError for a diagonal that is not 1 (pass `correlation(G)`) and for what is no Gram matrix.
    Source: Brent, Osborn, Smith, arXiv:1401.7084; sharp form of Lemma A.4 of arXiv:2305.18399.  With the sign of m
    turned around, (1 - m)^(n-1) (1 + (n-1) m), it is false: .648 <= .392 for n = 3 and all correlations -.4.
    Without exact=True near equalities are UNDECIDED.

    >>> certificate = sharp_determinant_bound([[1.0, -0.25, -0.25], [-0.25, 1.0, -0.25], [-0.25, -0.25, 1.0]])
    >>> certificate.lhs, certificate.rhs, certificate.verdict.name
    (0.78125, 0.78125, 'HOLDS')
    """
    checked = one_matrix(check_correlation(G), "G")
    n, semidefinite = len(checked), CHECKED
    if exact:
        rows, semidefinite, _ = exact_rows(G, checked, "G", unit_diagonal=True)
        m = _largest(rows)
        sides = Sides((1 - (n - 1) * m) * (1 + m) ** (n - 1), _determinant(rows), 0)
    else:
        m = Fraction(float(max_abs_offdiagonal(checked)))
        rest = max(1 - (n - 1) * m, Fraction(0))
        bound = loss_of_gamma_minus(n, float(m), 0.0, rest) if m else CERTAIN
        sides = at_most(bound, loss_of(checked), equal=_opposed(checked))
    small = Hypothesis("(n-1) max|G_ij| <= 1", (n - 1) * m <= 1, f"n = {n}, max|G_ij| = {float(m):.6g}")
    return sides.certify(
        "d1",
        "Lemma A.4, sharp (arXiv:1401.7084)",
        hypotheses=[semidefinite, small],
        statement="(1 - (n-1) m) (1 + m)^(n-1) <= det G, m = max|G_ij|",
        exact=exact,
    )


def rms_determinant_sandwich(G: Any, *, exact: bool = False) -> Certificate:
    """The determinant of a correlation matrix lies between two functions of its rms correlation, both attained.

        (1 - (n-1) t) (1 + t)^(n-1)  <=  det G  <=  (1 - t)^(n-1) (1 + (n-1) t),     t^2 = mean of G_ij^2 over i != j.

    Sides "lower" and "upper". Proof: the lemma of this file. Equality below iff all correlations are -t, above iff all
    are t, once some inputs change their sign (and for n = 2). Where (n-1) t > 1 the lower side is NOT_APPLICABLE: its
    left side is negative. In terms of the gap, Gamma_n(t) <= gap <= Gamma_n^-(t).

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: decide in the
    field of numbers a + b t with rational a and b; a float matrix that rounding has made indefinite is then
    NOT_APPLICABLE.  Raises ValueError for a diagonal that is not 1 and for what is no Gram matrix.
    Source: proof above; compare Olkin, arXiv:1909.05420.  Sharp form of Lemma A.4 of arXiv:2305.18399.
    Without exact=True near equalities are UNDECIDED.

    >>> certificate = rms_determinant_sandwich([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> certificate.lhs.round(6).tolist(), certificate.rhs.round(6).tolist(), certificate.verdict.name
    ([0.701887, 0.75], [0.75, 0.798113], 'HOLDS')
    """
    checked = one_matrix(check_correlation(G), "G")
    n, semidefinite = len(checked), CHECKED
    sides = Sides([math.nan] * 2, [math.nan] * 2, 0)
    if exact:
        rows, semidefinite, _ = exact_rows(G, checked, "G", unit_diagonal=True)
        square = _mean_square(rows)
        small = (n - 1) ** 2 * square <= 1
        if semidefinite.holds:
            sides = _exact_rms_sides(rows, square)
    else:
        t = float(rms_offdiagonal(checked))
        small = _is_at_most(checked, t, 1)
        sides = _rms_sides(checked, t)
    return sides.certify(
        "d2",
        "Lemma A.4, by the rms correlation",
        hypotheses=[semidefinite, Hypothesis("(n-1) t <= 1", small, f"n = {n}", side="lower")],
        statement="(1 - (n-1) t) (1 + t)^(n-1) <= det G; det G <= (1 - t)^(n-1) (1 + (n-1) t); t = rms G_ij",
        sides=("lower", "upper"),
        exact=exact,
    )


def gap_from_rms(G: Any, *, exact: bool = False) -> Certificate:
    """Small correlations leave a small isometry gap: at most about (n-1)/2 times their mean square.

        gap(G)  <=  x^2 / (2 (n-1) (1 - x)),   x = (n-1) t < 1,          t^2 = mean of G_ij^2,    side "rms";
        gap(G)  <=  (n-1) m^2,                 (n-1) m <= 1/2,           m = max |G_ij|,          side "max".

    Proof. By `rms_determinant_sandwich` the gap is at most Gamma_n^-(t), which is (n-1) times the integral of
    s/((1+s)(1-(n-1)s)) from 0 to t, and the integrand is at most s/(1-x). For x <= 1/2 the first bound is at most
    (n-1) t^2 <= (n-1) m^2.  []  Equality iff G = I; for n = 1 both sides are 0.

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: logarithms and roots
    with proven error and as many digits as decide; a float matrix that rounding has made indefinite is then
    NOT_APPLICABLE.  A side whose hypothesis is false is NOT_APPLICABLE.
    Raises ValueError for a diagonal that is not 1 and for what is no Gram matrix.
    Source: last step of the proof of Theorem 5.1 of arXiv:2305.18399, sharpened; proof above.
    Without exact=True it is UNDECIDED where x < 1e-14, the relative distance of both sides.

    >>> certificate = gap_from_rms([[1.0, 0.25], [0.25, 1.0]])
    >>> certificate.lhs.round(6).tolist(), certificate.rhs.round(6).tolist(), certificate.verdict.name
    ([0.032269, 0.032269], [0.041667, 0.0625], 'HOLDS')
    """
    checked = one_matrix(check_correlation(G), "G")
    n, semidefinite = len(checked), CHECKED
    sides = Sides([math.nan] * 2, [math.nan] * 2, 0)
    if exact:
        rows, semidefinite, _ = exact_rows(G, checked, "G", unit_diagonal=True)
        m, square = _largest(rows), _mean_square(rows)
        below = (n - 1) ** 2 * square < 1
        if semidefinite.holds:
            sides = _exact_gap_sides(rows, m, square)
    else:
        m, t = Fraction(float(max_abs_offdiagonal(checked))), float(rms_offdiagonal(checked))
        below = _is_at_most(checked, t, 1, strictly=True)
        sides = _gap_sides(checked, m, t)
    rms = Hypothesis("(n-1) t < 1", below, f"n = {n}", side="rms")
    largest = Hypothesis("(n-1) max|G_ij| <= 1/2", 2 * (n - 1) * m <= 1, f"max|G_ij| = {float(m):.6g}", side="max")
    return sides.certify(
        "d3",
        "Theorem 5.1, last step",
        hypotheses=[semidefinite, rms, largest],
        statement="gap <= x^2/(2 (n-1) (1-x)), x = (n-1) rms G_ij; gap <= (n-1) max|G_ij|^2",
        sides=("rms", "max"),
        exact=exact,
    )


def determinant_products(G: Any, *, exact: bool = False) -> Certificate:
    """Four bounds on a determinant that only look at rows.

        det G  <=  1                                     side "hadamard";
        det G  <=  prod_i (1 - max_{j<i} G_ij^2)         side "fischer";
        (1 - R)^n  <=  det G,    R = max_i R_i <= 1      side "gershgorin", R_i = sum of |G_ij| over j != i;
        prod_i (1 - R_i)  <=  det G,     all R_i <= 1    side "product".

    Proofs. Det G is the product of 1 - s_i, s_i the squared length of input i projected to the span of those before
    it, and s_i is at least G_ij^2 for each j < i. Eigenvalues are at least 1 - R. Ostrowski: rows with R_i <= 1 keep
    1 - R_i <= (pivot less the rest of the row) in elimination, so each pivot is at least 1 - R_i.  []
    Where R > 1 both lower sides are NOT_APPLICABLE.

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: decide by
    rational arithmetic; a float matrix that rounding has made indefinite is then NOT_APPLICABLE.
    Raises ValueError for a diagonal that is not 1 and for what is no Gram matrix.
    Source: classical (Hadamard, Fischer, Gershgorin, Ostrowski); beside Lemma A.4 of arXiv:2305.18399.  Without
    R <= 1 the third is false for even n: 8.3521 <= .0037 for n = 4 and all correlations .9.
    Without exact=True equalities, as of the second side for the chain G_ij = q^|i-j|, are mostly UNDECIDED.

    >>> certificate = determinant_products([[1.0, 0.5, 0.25], [0.5, 1.0, 0.25], [0.25, 0.25, 1.0]], exact=True)
    >>> certificate.lhs.tolist(), certificate.rhs.tolist()
    ([0.6875, 0.6875, 0.015625, 0.03125], [1.0, 0.703125, 0.6875, 0.6875])
    """
    checked = one_matrix(check_correlation(G), "G")
    n, semidefinite = len(checked), CHECKED
    least: float | Fraction
    if exact:
        rows, semidefinite, _ = exact_rows(G, checked, "G", unit_diagonal=True)
        sides, least = _exact_product_sides(rows)
    else:
        sides, least = _product_sides(checked)
    detail = f"n = {n}, largest sum of |G_ij| over j = {1 - float(least):.6g}"
    dominant = [Hypothesis("R <= 1", bool(least >= 0), detail, side=side) for side in ("gershgorin", "product")]
    return sides.certify(
        "d4",
        "beside Lemma A.4",
        hypotheses=[semidefinite, *dominant],
        statement="det G <= 1; det G <= prod(1 - max_{j<i} G_ij^2); (1 - R)^n <= det G; prod(1 - R_i) <= det G",
        sides=("hadamard", "fischer", "gershgorin", "product"),
        exact=exact,
    )


def _opposed(C: Any) -> bool:
    """Whether all correlations are -m up to the signs of inputs; of two inputs always."""
    common = common_correlation(C)
    return common is not None and (len(C) <= 2 or common <= 0)


def _alike(C: Any) -> bool:
    """Whether they are all m."""
    common = common_correlation(C)
    return common is not None and (len(C) <= 2 or common >= 0)


def _is_at_most(C: Floats, t: float, limit: int, *, strictly: bool = False) -> bool:
    """Whether (n-1) t <= limit, decided exactly where rounding could."""
    x = (len(C) - 1) * t
    if abs(x - limit) > 2.0 * _RMS_ERROR * limit:
        return x < limit
    square = (len(C) - 1) ** 2 * _mean_square([[Fraction(entry) for entry in row] for row in C.tolist()])
    return square < limit**2 or (square == limit**2 and not strictly)


def _rms_sides(C: Floats, t: float) -> Sides:
    n, det = len(C), loss_of(C)
    lower, upper = loss_of_gamma_minus(n, t, _RMS_ERROR), loss_of_gamma(n, t, _RMS_ERROR)
    return Sides.together(at_most(lower, det, equal=_opposed(C)), at_most(det, upper, equal=_alike(C)))


def _gap_sides(C: Floats, m: Fraction, t: float) -> Sides:
    n, gap = len(C), estimate_isometry_gap(C)
    if not m:
        return Sides([0.0, 0.0], [0.0, 0.0], 0.0)
    value, error = float(gap.value), float(gap.error)
    x, size = (n - 1) * t, (n - 1) * float(m)
    by_rms = 0.5 * x * t / (1.0 - x) if x < 1.0 else math.inf
    by_max = size * float(m)
    # x is known to _RMS_ERROR, so the quotient to thrice that, and to 1/(1 - x) times it next to its pole
    doubt = 4.0 * _RMS_ERROR * by_rms / (1.0 - x) if x < 1.0 else math.inf
    bars = [doubt + error, 4.0 * EPS * by_max + error]
    return Sides([value] * 2, [by_rms, by_max], [bar + _TINY if bar == bar else math.inf for bar in bars])


def _product_sides(C: Floats) -> tuple[Sides, float]:
    """The sides, and the least 1 - R_i, whose sign is exact: fsum rounds once."""
    n, det = len(C), loss_of(C)
    rows = [np.abs(np.delete(row, i)).tolist() for i, row in enumerate(C)]
    factors = [(math.fsum(row), math.fsum([1.0, *(-x for x in row)])) for row in rows]
    least = min(rest for _, rest in factors)
    widest = min(factors, key=lambda pair: pair[1])
    alone = bool(np.count_nonzero(np.count_nonzero(C, axis=0) > 1) <= 2)  # one pair: det G = 1 - m^2 as in "fischer"
    fischer = loss_of_factors(one_minus_square(float(np.abs(C[i, :i]).max())) for i in range(1, n))
    if least < 0:
        factors, widest = [(1.0, 0.0)], (1.0, 0.0)
    each = (
        at_most(det, CERTAIN),
        at_most(det, fischer, equal=alone),
        at_most(loss_of_factors([widest] * n), det),
        at_most(loss_of_factors(factors), det),
    )
    return Sides.together(*each), least


def _exact_product_sides(rows: Rows) -> tuple[Sides, Fraction]:
    n, det = len(rows), _determinant(rows)
    rests = [2 - sum(map(abs, row), Fraction(0)) for row in rows]
    fischer = math.prod((1 - max(map(abs, row[:i])) ** 2 for i, row in enumerate(rows) if i), start=Fraction(1))
    lhs = [det, det, min(rests) ** n, math.prod(rests, start=Fraction(1))]
    return Sides(lhs, [Fraction(1), fischer, det, det], 0), min(rests)


def _exact_rms_sides(rows: Rows, square: Fraction) -> Sides:
    n, det = len(rows), _determinant(rows)
    lower, upper = ([-sign * (n - 1), *[sign] * (n - 1)] for sign in (1, -1))
    return Sides.together(_compared(lower, square, det, -1), _compared(upper, square, det, 1))


def _compared(slopes: list[int], square: Fraction, det: Fraction, sign: int) -> Sides:
    """The product P of 1 + s t over these slopes s, t^2 = square, with det: P <= det for sign -1, det <= P for 1.

    P = a + b t with rational a and b; P = det iff (det - a)^2 = b^2 t^2 and det - a and b have not opposite signs.
    """
    even, odd = Fraction(1), Fraction(0)
    for slope in slopes:
        even, odd = even + slope * odd * square, odd + slope * even
    left = det - even
    if left * left == odd * odd * square and left * odd >= 0:
        return Sides(det, det, 0)

    def sides(digits: int) -> tuple[Between, Between]:
        product = odd * sqrt_between(square, digits) + even
        return (Between.exactly(det), product) if sign > 0 else (product, Between.exactly(det))

    return settled(sides)


def _exact_gap_sides(rows: Rows, m: Fraction, square: Fraction) -> Sides:
    if not m:
        return Sides([0, 0], [0, 0], 0)
    n, det = len(rows), _determinant(rows)
    if (n - 1) ** 2 * square >= 1:  # nor is (n-1) m <= 1/2
        return Sides([math.nan] * 2, [math.nan] * 2, 0)

    def gap(digits: int) -> Between:
        return Fraction(-1, n) * log_between(det, digits)

    def by_rms(digits: int) -> Between:
        x = (n - 1) * sqrt_between(square, digits)
        # next to 1 the upper end of x may pass it, and more digits are needed
        ends = (x.low, x.high if x.high < 1 else (1 + x.low) / 2)
        return Between(*((n - 1) * square / (2 * (1 - end)) for end in ends))

    largest = (n - 1) * m * m
    return Sides.together(
        settled(lambda digits: (gap(digits), by_rms(digits))),
        settled(lambda digits: (gap(digits), Between.exactly(largest))),
    )


def _determinant(rows: Rows) -> Fraction:
    from meanfield._exact import exact_determinant

    return exact_determinant(rows)


def _largest(rows: Rows) -> Fraction:
    return max((abs(entry) for i, row in enumerate(rows) for entry in row[:i]), default=Fraction(0))


def _mean_square(rows: Rows | list[list[Fraction]]) -> Fraction:
    n = len(rows)
    return 2 * sum((entry**2 for i, row in enumerate(rows) for entry in row[:i]), Fraction(0)) / max(n * (n - 1), 1)
