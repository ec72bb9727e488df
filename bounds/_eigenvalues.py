"""Claims about the smallest eigenvalue of correlation matrices, by mu(G) = 1 - lambda_min(G), the largest of I - G.

The diagonal of I - G is 0, so mu has the digits of small correlations, which lambda_min would lose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis
from bounds._losses import CERTAIN, gamma, loss_of
from bounds._proven import Between, gamma_between, log_between, settled
from bounds._sides import CHECKED, EPS, Rows, Sides, common_correlation, exact_rows, one_matrix
from meanfield._functionals import estimate_isometry_gap
from meanfield._gram import check_correlation

__all__ = ["gap_from_smallest_eigenvalue", "schur_product_eigenvalue"]

Floats: TypeAlias = NDArray[np.float64]

_TINY = 1e-307
# digits up to which a product of two irrational numbers is told from a third
_DIGITS = 320


def schur_product_eigenvalue(A: Any, B: Any, *, exact: bool = False) -> Certificate:
    """Entrywise products of correlation matrices are closer to the identity than either, by the product of distances.

        1 - lambda_min(A o B)  <=  (1 - lambda_min(A)) (1 - lambda_min(B)),    side "eigenvalue";
        1 - det(A o B)         <=  (1 - det A) (1 - det B),                    side "determinant".

    Proof. With a, b the smallest eigenvalues, A = aI + A', B = bI + B', A', B' >= 0 of diagonals 1 - a, 1 - b, and
    A o B = (1 - (1-a)(1-b)) I + A' o B', where A' o B' >= 0 (Schur). The second is Oppenheim's inequality as Schur
    sharpened it: det(A o B) + det A det B >= det A + det B for unit diagonals.  []
    Equality of the first if either has equal correlations c >= 0, once some inputs change their sign.

    A, B: correlation matrices (n, n), float arrays, or nested lists of ints and Fractions.  exact: rational arithmetic,
    with brackets of irrational eigenvalues as narrow as decide; a float matrix that rounding has made indefinite is
    then NOT_APPLICABLE.  Raises ValueError for different sizes, for a diagonal that is not 1 and for what is no
    Gram matrix.
    Source: Schur, Oppenheim; lemma behind Theorem 5.1 of arXiv:2305.18399 in its sharp form; proof above. The analogue
    for the isometry, with det^(1/n), is false: .0318 <= .0179 for n = 2 and both correlations 1/2.
    Without exact=True near equalities are UNDECIDED, and with it equalities where both smallest eigenvalues are
    irrational.

    >>> certificate = schur_product_eigenvalue([[1.0, 0.5], [0.5, 1.0]], [[1.0, -0.25], [-0.25, 1.0]])
    >>> certificate.lhs.round(9).tolist(), certificate.rhs.round(9).tolist(), certificate.verdict.name
    ([0.125, 0.015625], [0.125, 0.015625], 'HOLDS')
    """
    first = one_matrix(check_correlation(A, name="A"), "A")
    second = one_matrix(check_correlation(B, name="B"), "B")
    if len(first) != len(second):
        raise ValueError(f"A and B must have the same size, got shapes {first.shape} and {second.shape}")
    hypotheses, sides = [CHECKED], Sides([math.nan] * 2, [math.nan] * 2, 0)
    if exact:
        left, one, _ = exact_rows(A, first, "A", unit_diagonal=True)
        right, other, _ = exact_rows(B, second, "B", unit_diagonal=True)
        hypotheses = [
            Hypothesis(f"{name} positive semidefinite", found.holds, found.detail)
            for name, found in (("A", one), ("B", other))
        ]
        if all(h.holds for h in hypotheses):
            sides = _exact_schur_sides(left, right)
    else:
        sides = _schur_sides(first, second)
    return sides.certify(
        "l1",
        "lemma L1 behind Theorem 5.1+",
        hypotheses=hypotheses,
        statement="1 - lambda_min(A o B) <= (1 - lambda_min(A)) (1 - lambda_min(B)); the same of det",
        sides=("eigenvalue", "determinant"),
        exact=exact,
    )


def gap_from_smallest_eigenvalue(G: Any, *, exact: bool = False) -> Certificate:
    """The isometry gap is at most that of equal correlations mu = 1 - lambda_min, what the smallest eigenvalue allows.

    With Gamma_n(mu) = -(1/n) [(n-1) log(1-mu) + log(1 + (n-1) mu)] and mu in [0, 1], four sides:

        (n-1) mu^2 / (2 (1 + (n-2) mu))  <=  Gamma_n(mu)      "lower";      gap(G)  <=  Gamma_n(mu)           "gap";
        Gamma_n(mu)  <=  (n-1) mu^2 / (2 (1 - mu))            "square";     Gamma_n(mu)  <=  -log(1 - mu)     "odds".

    Proof. The eigenvalues are at least 1 - mu and have mean 1, and -log is convex: the sum of -log is largest where all
    but one are 1 - mu. Gamma_n(mu) is (n-1) times the integral of s/((1-s)(1+(n-1)s)) = s/(1 + (n-2)s - (n-1)s^2)
    from 0 to mu; the integrand is at least s/(1 + (n-2) mu) and at most s/(1 - mu). And log(1 + (n-1) mu) >=
    log(1 - mu).  []  Equality of "gap" iff all correlations are mu, once some inputs change their sign; of "lower" and
    "square" iff mu = 0; where mu = 1, G is singular and all but the first number are infinite.

    G: one correlation matrix (n, n), a float array, or nested lists of ints and Fractions.  exact: logarithms and
    eigenvalues with proven error and as many digits as decide; a float matrix that rounding has made indefinite is
    then NOT_APPLICABLE.  Raises ValueError for a diagonal that is not 1 and for what is no Gram matrix.
    Source: lemma behind `spectral_gap_decay`, Theorem 5.1 of arXiv:2305.18399 in its sharp form; proof above.
    Without exact=True near equalities, and matrices that float64 cannot tell from singular ones, are UNDECIDED.

    >>> certificate = gap_from_smallest_eigenvalue([[1.0, 0.5], [0.5, 1.0]])
    >>> certificate.lhs.round(6).tolist(), certificate.rhs.round(6).tolist()
    ([0.125, 0.143841, 0.143841, 0.143841], [0.143841, 0.143841, 0.25, 0.693147])
    """
    checked = one_matrix(check_correlation(G), "G")
    semidefinite, sides = CHECKED, Sides([math.nan] * 4, [math.nan] * 4, 0)
    if exact:
        rows, semidefinite, rank = exact_rows(G, checked, "G", unit_diagonal=True)
        if semidefinite.holds:
            sides = _exact_gap_sides(rows) if rank == len(rows) else _singular_sides(len(rows))
    else:
        sides = _gap_sides(checked)
    return sides.certify(
        "l3",
        "lemma L3 behind Theorem 5.1+",
        hypotheses=[semidefinite],
        statement="(n-1) mu^2/(2 (1 + (n-2) mu)) <= Gamma_n(mu); gap <= Gamma_n(mu); "
        "Gamma_n(mu) <= (n-1) mu^2/(2 (1 - mu)); Gamma_n(mu) <= -log(1 - mu); mu = 1 - lambda_min",
        sides=("lower", "gap", "square", "odds"),
        exact=exact,
    )


def _alike(C: Any) -> bool:
    common = common_correlation(C)
    return common is not None and (len(C) <= 2 or common >= 0)


def _distance(C: Floats) -> tuple[float, float, float]:
    """mu(C) with a bracket. LAPACK's backward error is a few n ulps of the norm; no pair has a larger |C_ij|."""
    n = len(C)
    E = np.eye(n) - C
    largest = float(np.abs(E).max())
    if n <= 2 or largest == 0.0 or _alike(C):
        return largest, largest, largest
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(E, -exponent)
    bar = (16.0 + 4.0 * n) * EPS * float(np.linalg.norm(scaled))
    value = float(np.linalg.eigvalsh(scaled)[-1])
    low, middle, high = (math.ldexp(x, exponent) for x in (value - bar, value, value + bar))
    return max(middle, largest), max(low, largest), max(high, largest)


def _schur_sides(A: Floats, B: Floats) -> Sides:
    (mu, low, high), (nu, least, most), (rho, lowest, highest) = (_distance(C) for C in (A, B, A * B))
    if _alike(A) or _alike(B):
        eigenvalue = Sides(mu * nu, mu * nu, 0.0, 0.0)
    else:
        spread = high * most - low * least + highest - lowest
        eigenvalue = Sides(rho, mu * nu, spread + 4.0 * EPS * mu * nu + _TINY, mu * nu - rho)
    one, other, product = (loss_of(C) for C in (A, B, A * B))
    bound, lhs = one.complement * other.complement, product.complement
    # of two inputs 1 - det is the square of a correlation
    if len(A) <= 2 or CERTAIN in (one, other):
        return Sides.together(eigenvalue, Sides(bound, bound, 0.0, 0.0))
    bar = one.error * (other.complement + other.error) + one.complement * other.error + product.error
    return Sides.together(eigenvalue, Sides(lhs, bound, bar + 4.0 * EPS * (bound + lhs) + _TINY, bound - lhs))


def _exact_schur_sides(A: Rows, B: Rows) -> Sides:
    from meanfield._exact import exact_determinant

    product = tuple(tuple(map(Fraction.__mul__, *pair)) for pair in zip(A, B, strict=True))
    a, b, c = (1 - exact_determinant(rows) for rows in (A, B, product))
    mu, nu, rho = (_largest_root(rows) for rows in (A, B, product))
    if None not in (mu.exact, nu.exact, rho.exact):
        eigenvalue = Sides(rho.exact, mu.exact * nu.exact, 0)
    elif _alike(A) or _alike(B) or _is_product(rho, mu, nu):
        value = rho.between(_DIGITS).middle
        eigenvalue = Sides(value, value, 0)
    else:
        eigenvalue = settled(
            lambda digits: (rho.between(digits), _product(mu.between(digits), nu.between(digits))), most_digits=_DIGITS
        )
    return Sides.together(eigenvalue, Sides(c, a * b, 0))


def _is_product(rho: Any, mu: Any, nu: Any) -> bool:
    """Whether rho = mu nu, where just one of these two is irrational; of two it is not asked."""
    if mu.exact is None and nu.exact is None:
        return False
    known, other = (mu.exact, nu) if mu.exact is not None else (nu.exact, mu)
    return bool(known and rho.is_times(known, other))


def _largest_root(rows: Rows) -> Any:
    from bounds._largest_root import LargestRoot

    return LargestRoot([[(i == j) - entry for j, entry in enumerate(row)] for i, row in enumerate(rows)])


def _product(x: Between, y: Between) -> Between:
    return Between(x.low * y.low, x.high * y.high)


def _gap_sides(C: Floats) -> Sides:
    n, gap = len(C), estimate_isometry_gap(C)
    if gap.status == "singular":
        return _singular_sides(n)
    mu, low, high = _distance(C)
    if not mu:
        return Sides([0.0] * 4, [0.0] * 4, 0.0)
    mu = min(mu, (low + 1.0) / 2.0)  # G may be nonsingular, and then mu < 1
    value, error = float(gap.value), float(gap.error)
    bound, least, most = (gamma(n, x) for x in (mu, low, high))
    if _alike(C):
        by_gap = Sides(bound, bound, 0.0, 0.0)
    else:
        slack = bound - value
        by_gap = Sides(value, bound, error + (bound - least if slack >= 0 else most - bound) + _rounding(bound), slack)
    lower, square, odds = (_about(which, n, mu, low) for which in (_lower, _square, _odds))
    return Sides.together(lower, by_gap, square, odds)


class _Scalar(NamedTuple):
    """One side that is about mu alone, and what its slack may have lost to rounding."""

    lhs: float
    rhs: float
    slack: float
    rounding: float


def _lower(n: int, mu: float) -> _Scalar:
    lhs, rhs = 0.5 * (n - 1) * mu * mu / (1.0 + (n - 2) * mu), gamma(n, mu)
    return _Scalar(lhs, rhs, rhs - lhs, _rounding(rhs))


def _square(n: int, mu: float) -> _Scalar:
    lhs, rhs = gamma(n, mu), 0.5 * (n - 1) * mu * mu / (1.0 - mu)
    return _Scalar(lhs, rhs, rhs - lhs, _rounding(rhs))


def _odds(n: int, mu: float) -> _Scalar:
    slack = (math.log1p((n - 1) * mu) - math.log1p(-mu)) / n
    return _Scalar(gamma(n, mu), -math.log1p(-mu), slack, _rounding(slack))


def _about(which: Callable[[int, float], _Scalar], n: int, mu: float, low: float) -> Sides:
    """Its slack grows with mu, so only a smaller mu could refute what holds at this one."""
    here = which(n, mu)
    return Sides(here.lhs, here.rhs, max(here.slack - which(n, low).slack, 0.0) + here.rounding, here.slack)


def _rounding(size: float) -> float:
    return 32.0 * EPS * size + _TINY


def _singular_sides(n: int) -> Sides:
    return Sides([0.5, *[math.inf] * 3], [math.inf] * 4, 0)


def _exact_gap_sides(rows: Rows) -> Sides:
    """For nonsingular G, so mu < 1: no side is then an equality, but for equal correlations."""
    from meanfield._exact import exact_determinant

    n, det, root = len(rows), exact_determinant(rows), _largest_root(rows)
    if root.exact == 0:
        return Sides([0] * 4, [0] * 4, 0)

    def mu(digits: int) -> Between:
        found = root.between(digits)
        return found if found.high < 1 else mu(2 * digits)

    def of_mu(function: Callable[[Fraction, int], Between | Fraction]) -> Callable[[int], Between]:
        return lambda digits: mu(digits).through(lambda x: Between.exactly(0) + function(x, digits))

    bound = of_mu(lambda x, digits: gamma_between(n, x, digits))
    lower = of_mu(lambda x, _: (n - 1) * x * x / (2 * (1 + (n - 2) * x)))
    square = of_mu(lambda x, _: (n - 1) * x * x / (2 * (1 - x)))
    odds = of_mu(lambda x, digits: -1 * log_between(1 - x, digits))

    def gap(digits: int) -> Between:
        return Fraction(-1, n) * log_between(det, digits)

    def settle(lhs: Callable[[int], Between], rhs: Callable[[int], Between]) -> Sides:
        return settled(lambda digits: (lhs(digits), rhs(digits)))

    value = gap(40).middle
    by_gap = Sides(value, value, 0) if _alike(rows) else settle(gap, bound)
    return Sides.together(settle(lower, bound), by_gap, settle(bound, square), settle(bound, odds))
