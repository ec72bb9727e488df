"""Isometry, its gap with error bar and status, potential and correlations; and the exact engine behind them.

Tolerances: the gap is summed from nonnegative terms, so a few ulps (1e-14 leaves room for n = 64) wherever the
inverse of the correlation is moderate; where it is not, the tolerance is the error bar of the answer itself, and
the bar is tested against rational arithmetic and mpmath. `abs=0` is spelled out: pytest's default of 1e-12 is larger
than many a gap here.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import event, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from meanfield import _gap
from meanfield._exact import (
    as_fractions,
    eliminate,
    exact_determinant,
    exact_log,
    exact_log_determinant,
    is_positive_semidefinite_exact,
)
from meanfield._functionals import (
    GapEstimate,
    checked_gap,
    estimate_isometry_gap,
    gap_of,
    isometry,
    isometry_gap,
    log_isometry_gap,
    max_abs_offdiagonal,
    max_correlation,
    potential,
    potential_of,
    rms_correlation,
    rms_offdiagonal,
)
from meanfield._gram import correlation, gram, input_gram, unit_diagonal
from meanfield._twofold import two_product

MATRICES = json.loads((Path(__file__).parent / "reference" / "matrices.json").read_text())["matrices"]
EPS = float(np.finfo(np.float64).eps)
FUNCTIONALS = [isometry, isometry_gap, log_isometry_gap, estimate_isometry_gap]
OF_CORRELATIONS = [potential, max_correlation, rms_correlation]


def rational(entries: Any) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in entries]


def equicorrelated(n: int, rho: Any) -> Any:
    return [[1 if i == j else rho for j in range(n)] for i in range(n)]


def exact_gap(G: Any) -> Any:
    """The gap of the matrix as given, in 100 digits: rational determinant and trace, one logarithm."""
    rows = as_fractions(G)
    q = exact_determinant(rows) / (sum((row[i] for i, row in enumerate(rows)), Fraction()) / len(rows)) ** len(rows)
    with mpmath.workdps(100):
        return -mpmath.log(mpmath.mpf(q.numerator) / q.denominator) / len(rows)


@st.composite
def factors(draw: st.DrawFn, min_inputs: int = 1) -> Any:
    """Rows with n <= 6 <= d, so that the Gram is regular now and then; the last may be (almost) the first."""
    n = draw(st.integers(min_inputs, 6))
    entries = st.one_of(st.just(0.0), st.floats(1e-3, 4), st.floats(-4, -1e-3))
    X = draw(hnp.arrays(np.float64, (n, 6), elements=entries, fill=st.nothing()))
    X += np.eye(n, 6) * draw(st.sampled_from([0.0, 1.0, 10.0]))
    X[:, 0] += np.where(X.any(axis=1), 0.0, 1.0)
    if n > 1 and draw(st.booleans()):
        X[-1] = X[0] + draw(st.sampled_from([0.0, 1e-8, 1e-3])) * X[-1]
        X[-1, 0] += 0.0 if X[-1].any() else 1.0
    return X


# --- reference values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MATRICES)
def test_reference_gap_and_isometry_from_exact_entries(name: str) -> None:
    record = MATRICES[name]
    G = rational(record["entries"])
    estimate = estimate_isometry_gap(G, exact=True)
    expected = float(record["isometry_gap"])
    assert estimate.value == pytest.approx(expected, rel=1e-15, abs=0)
    singular = record["rank"] < record["n"]
    assert estimate.status == ("singular" if singular else "exact")
    assert estimate.error == (0.0 if singular else pytest.approx(4 * EPS * expected, rel=1e-9, abs=0))
    assert abs(math.exp(-float(estimate.value)) - float(record["isometry"])) <= 1e-15


@pytest.mark.parametrize("name", MATRICES)
def test_reference_gap_and_isometry_in_float64(name: str) -> None:
    record = MATRICES[name]
    G = np.array(rational(record["entries"]), dtype=np.float64)
    expected = float(record["isometry_gap"])
    # thirds and tenths are rounded on entry, which moves the gap by up to eps/2 |C^-1|_1 |C|_1 / n: 1e5 eps for
    # the Hilbert matrix, 1e12 eps for the nearly singular pair; and 0 for dyadic entries
    rounded = rational(record["entries"]) != rational(G.tolist())
    loss = EPS * np.linalg.cond(unit_diagonal(G), 1) if rounded else 0.0
    assert isometry_gap(G) == pytest.approx(expected, rel=1e-14, abs=loss)
    assert isometry(G) == pytest.approx(float(record["isometry"]), rel=1e-14 + loss, abs=0)
    assert log_isometry_gap(G) == pytest.approx(math.log(expected) if expected else -math.inf, abs=1e-14 + loss)


@pytest.mark.parametrize("name", MATRICES)
def test_reference_determinants_are_met_exactly(name: str) -> None:
    record = MATRICES[name]
    G = rational(record["entries"])
    assert exact_determinant(G) == Fraction(record["det_exact"])
    assert eliminate(as_fractions(G))[:2] == (True, record["rank"])
    if "corr_det_exact" in record:
        diagonal = math.prod(G[i][i] for i in range(len(G)))
        assert exact_determinant(G) / diagonal == Fraction(record["corr_det_exact"])


@pytest.mark.parametrize("name", [name for name in MATRICES if "gamma_exact" in MATRICES[name] or name == "hilbert5"])
def test_reference_potential_and_largest_correlation(name: str) -> None:
    record = MATRICES[name]
    C = correlation(np.array(rational(record["entries"]), dtype=np.float64))
    largest = float(sympy.sympify(record["corr_max_abs_offdiag_exact"]))
    assert max_correlation(C) == pytest.approx(largest, rel=4e-16, abs=0)
    # the condition number of m/(1 - m) is 1/(1 - m), and m carries the ulps of its entry
    assert potential(C) == pytest.approx(
        float(record["gamma_of_correlation"]), rel=1e-14 + 2 * EPS / (1 - largest), abs=0
    )


@pytest.mark.parametrize(
    "name", [name for name in MATRICES if "isometry_normalized" in MATRICES[name].get("thm41", ())]
)
def test_reference_isometry_of_the_correlation(name: str) -> None:
    record = MATRICES[name]
    C = correlation(np.array(rational(record["entries"]), dtype=np.float64))
    expected = float(record["thm41"]["isometry_normalized"])
    loss = EPS * np.linalg.cond(C, 1) if expected else 0.0
    assert isometry(C) == pytest.approx(expected, rel=1e-14 + loss, abs=0)


# --- public fault reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True])
def test_gram_01_an_exactly_singular_gram_is_singular(exact: bool) -> None:
    X = [[0.328125, 0.5, 0.5, 0.5], [0, 0.5, 0.5, 0.5], [0.5, 0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]
    G = gram(X)
    assert np.linalg.slogdet(G)[1] > -50, "this is the trap"
    assert estimate_isometry_gap(G, exact=exact) == GapEstimate(math.inf, 0.0, "singular", math.inf)
    assert isometry(G) == 0
    assert exact_determinant(G) == 0


def test_gram_03_no_determinant_is_formed() -> None:
    assert np.linalg.det(0.1 * np.eye(400)) == 0, "this is the trap"
    assert isometry(0.1 * np.eye(400)) == 1
    assert isometry_gap(0.1 * np.eye(400)) == 0
    X = np.random.default_rng(0).standard_normal((200, 400))
    assert isometry_gap(gram(X)) == pytest.approx(float(exact_gap(gram(X))), rel=1e-14, abs=0)


@pytest.mark.parametrize("function", FUNCTIONALS + OF_CORRELATIONS, ids=lambda f: f.__name__)
def test_gram_06_an_indefinite_matrix_is_refused_by_every_functional(function: Any) -> None:
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.8"):
        function([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]])


def test_gram_08_functionals_of_duplicates() -> None:
    C = correlation(gram(np.ones((3, 3))))
    assert max_correlation(C) == 1
    assert potential(C) == math.inf
    assert estimate_isometry_gap(C).status == "singular"


def test_gram_09_equicorrelation_nine_tenths() -> None:
    G = equicorrelated(4, Fraction(9, 10))
    assert exact_determinant(G) == Fraction(37, 10000)
    assert (1 - 3 * Fraction(9, 10)) ** 4 == Fraction(83521, 10000) > exact_determinant(G)
    assert isometry_gap(G) == pytest.approx(-math.log(0.0037) / 4, rel=1e-14, abs=0)


def test_gram_10_two_inputs_are_exact_where_the_determinant_bound_is_an_equality() -> None:
    for k in range(-999, 1000):
        rho = 0.99 * k / 999
        with mpmath.workdps(40):
            expected = -mpmath.log(1 - mpmath.mpf(rho) ** 2) / 2
        estimate = estimate_isometry_gap([[1.0, rho], [rho, 1.0]])
        assert estimate.value == pytest.approx(float(expected), rel=4e-16, abs=0)
        assert abs(estimate.value - expected) <= estimate.error


# --- exact values and edges -----------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [1.0, 0.1, 7e300, 3e-310])
@pytest.mark.parametrize("n", [1, 2, 5, 100])
def test_multiples_of_the_identity(n: int, c: float) -> None:
    G = c * np.eye(n)
    assert isometry(G) == 1.0
    assert estimate_isometry_gap(G) == GapEstimate(0.0, 0.0, "resolved", 0.0)
    assert log_isometry_gap(G) == -math.inf
    for function in OF_CORRELATIONS:
        assert math.copysign(1.0, function(np.eye(n))) == 1.0
        assert function(np.eye(n)) == 0.0


@pytest.mark.parametrize("rho", [0.5, -0.25, 2.0**-20, 2.0**-40, 2.0**-300, 2.0**-530])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_equicorrelation_has_its_closed_form(n: int, rho: float) -> None:
    C = np.array(equicorrelated(n, rho))
    with mpmath.workdps(400):
        r = mpmath.mpf(rho)
        gap = -((n - 1) * mpmath.log(1 - r) + mpmath.log(1 + (n - 1) * r)) / n
        log_gap = float(mpmath.log(gap)) if gap else math.inf
    assert isometry_gap(C) == pytest.approx(float(gap), rel=1e-14, abs=sys.float_info.min * EPS)
    assert log_isometry_gap(C) == pytest.approx(log_gap, rel=1e-15, abs=0)
    assert rms_correlation(C) == pytest.approx(abs(rho), rel=4e-16, abs=0)
    assert max_correlation(C) == abs(rho)
    assert potential(C) == pytest.approx(abs(rho) / (1 - abs(rho)), rel=4e-16, abs=0)


@pytest.mark.parametrize("exponent", [-9, -20, -100, -160, -300])
def test_the_smallest_correlations_are_not_lost(exponent: int) -> None:
    C = np.eye(4)
    C[0, 1] = C[1, 0] = C[2, 3] = C[3, 2] = 10.0**exponent
    with mpmath.workdps(700):
        gap = -mpmath.log(1 - mpmath.mpf(10.0**exponent) ** 2) / 2
        value, log_gap = float(gap), float(mpmath.log(gap))
        estimate = estimate_isometry_gap(C)
        # where the value underflows, its error bar does not
        assert abs(estimate.value - gap) <= estimate.error
    assert estimate.value == pytest.approx(value, rel=1e-14, abs=math.ulp(0.0))
    assert log_isometry_gap(C) == pytest.approx(log_gap, rel=4e-16, abs=0)
    assert rms_correlation(C) == pytest.approx(10.0**exponent / math.sqrt(3), rel=4e-16, abs=0)


@pytest.mark.parametrize("size", [1e-17, 1e-16, 2e-16, 1e-15, 1e-12, 1e-8, 1e-4, 1e-2, 0.1])
@pytest.mark.parametrize("n", [3, 10, 40])
def test_near_the_identity_the_gap_keeps_its_digits(n: int, size: float) -> None:
    E = np.random.default_rng(n).uniform(-size / n, size / n, (n, n))
    C = unit_diagonal(np.eye(n) + np.triu(E, 1) + np.triu(E, 1).T)
    estimate = estimate_isometry_gap(C)
    expected = exact_gap(C)
    assert estimate.value == pytest.approx(float(expected), rel=1e-14, abs=0)
    assert abs(estimate.value - expected) <= estimate.error <= 1e-13 * expected
    assert log_isometry_gap(C) == pytest.approx(float(mpmath.log(expected)), rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("size", [1e-18, 1e-16, 5e-16, 1.2e-15, 1.5e-15, 1e-14])
def test_the_series_is_used_where_its_bound_says_so(n: int, size: float, monkeypatch: Any) -> None:
    # equal entries of one sign: tr E^3, the first of the terms left out, is as large as it can be
    rho = size / math.sqrt(n * (n - 1))
    C = np.array(equicorrelated(n, rho))
    with mpmath.workdps(80):
        r = mpmath.mpf(rho)
        expected = -((n - 1) * mpmath.log(1 - r) + mpmath.log(1 + (n - 1) * r)) / n
    value, error, log_value, status = gap_of(C)
    assert status == "resolved"
    assert abs(value - expected) <= error
    assert value == pytest.approx(float(expected), rel=8 * EPS, abs=0)
    assert log_value == pytest.approx(float(mpmath.log(expected)), rel=1e-15)
    series = 2 / 3 * size / (1 - size) < 4 * EPS
    assert (error < 9 * EPS * value) is series
    if series:
        monkeypatch.delattr(_gap, "_cholesky_gap")
        assert gap_of(C).value == value
        assert error >= (4 * EPS + 2 / 3 * size) * value * (1 - 1e-9)


def test_the_bound_of_the_series_covers_what_is_left_out() -> None:
    for n in (2, 3, 7, 40):
        for rho in (0.9 / n, -0.9 / n, 0.3 / n, 1e-3):
            size = abs(rho) * math.sqrt(n * (n - 1))
            exact = -((n - 1) * math.log1p(-rho) + math.log1p((n - 1) * rho))
            assert abs(exact / (size * size / 2) - 1) <= _gap._series_error(size)
    assert _gap._series_error(1.0) == math.inf


@pytest.mark.parametrize("spread", [1e-15, 1e-12, 1e-7, 1e-3, 0.4, 0.6, 5.0, 600.0])
def test_unequal_lengths_alone(spread: float) -> None:
    a = np.exp(spread * np.linspace(-1, 1, 7) ** 3) * 0.3
    a[3:5] = [0.3, 0.3 * (1 + spread / 3)]
    with mpmath.workdps(60):
        entries = [mpmath.mpf(entry) for entry in a]
        expected = mpmath.log(sum(entries) / 7) - sum(mpmath.log(entry) for entry in entries) / 7
    estimate = estimate_isometry_gap(np.diag(a))
    assert estimate.value == pytest.approx(float(expected), rel=2e-15, abs=0)
    assert abs(estimate.value - expected) <= estimate.error
    assert log_isometry_gap(np.diag(a)) == pytest.approx(float(mpmath.log(expected)), rel=1e-15, abs=2e-15)


def test_both_parts_of_the_gap_add_up() -> None:
    G = np.array([[4.0, 1.0], [1.0, 1.0]])
    assert isometry_gap(G) == pytest.approx(math.log(2.5) - math.log(3) / 2, rel=1e-15, abs=0)
    assert log_isometry_gap(G) == pytest.approx(math.log(math.log(2.5) - math.log(3) / 2), rel=1e-15, abs=0)
    tiny = [[1.0, 1e-8], [1e-8, 1.0 + 2e-8]]
    assert isometry_gap(tiny) == pytest.approx(float(exact_gap(tiny)), rel=1e-14, abs=0)


def test_diagonals_over_the_range_of_float64() -> None:
    G = np.array([[1e300, 5e-1, 0.0], [5e-1, 1e-300, 0.0], [0.0, 0.0, 1.0]])
    assert isometry_gap(G) == pytest.approx(float(exact_gap(G)), rel=1e-14, abs=0)


# --- statuses ---------------------------------------------------------------------------------------------------


def test_a_zero_diagonal_entry_is_singular() -> None:
    for G in ([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0, 0], [0, 1]]):
        for exact in (False, True):
            assert estimate_isometry_gap(G, exact=exact) == GapEstimate(math.inf, 0.0, "singular", math.inf)
        assert isometry(G) == 0
        assert log_isometry_gap(G) == math.inf


@pytest.mark.parametrize("n", [2, 3, 20, 40])
def test_parallel_inputs_are_singular_at_any_scale(n: int) -> None:
    X = np.random.default_rng(n).standard_normal((n, 50)) * np.exp(np.linspace(-30, 30, n))[:, None]
    for factor in (1.0, -1.0, 4.0):
        X[-1] = factor * X[0]
        assert estimate_isometry_gap(gram(X)).status == "singular"
        assert estimate_isometry_gap(input_gram(X)).status == "singular"
        assert potential(input_gram(X)) == math.inf


def test_a_cosine_that_only_rounds_to_one_proves_nothing() -> None:
    G = np.array([[1 + 2 * EPS, 1 + EPS], [1 + EPS, 1.0]])
    assert correlation(G)[0, 1] == 1
    assert exact_determinant(G) == -(Fraction(EPS) ** 2)
    assert estimate_isometry_gap(G).status == "unresolved"
    G = np.array([[1 + 4 * EPS, 1 + EPS], [1 + EPS, 1.0]])
    estimate = estimate_isometry_gap(G)
    assert estimate.status == "resolved"
    assert abs(estimate.value - exact_gap(G)) <= estimate.error < 1e-13
    assert isometry_gap(np.ldexp(G, 600)) == isometry_gap(np.ldexp(G, -600)) == estimate.value


@pytest.mark.parametrize("n", [17, 64])
def test_numerically_singular_matrices_are_unresolved(n: int) -> None:
    rng = np.random.default_rng(n)
    G = gram(rng.standard_normal((n, n * 4 // 5)) @ rng.standard_normal((n * 4 // 5, 300)))
    estimate = estimate_isometry_gap(G)
    assert (estimate.value, estimate.error, estimate.status) == (math.inf, math.inf, "unresolved")
    # of n eigenvalues a fifth are below n eps, about 1e-14, and the others below 6
    assert 3 < estimate.lower < 12
    assert isometry(G) == 0
    assert isometry_gap(G) == log_isometry_gap(G) == math.inf


def test_an_eigenvalue_within_n_eps_of_zero_is_unresolved_where_entries_are_rounded() -> None:
    C = np.eye(100)
    C[0, 1] = C[1, 0] = 1 - 2.0**-46
    assert gap_of(C, rounded=True).status == "unresolved"
    value, error, _, status = gap_of(C)
    assert status == "resolved"
    # 1 - rho^2 = 2^-46 (2 - 2^-46), and the pair is all there is
    assert abs(value + (math.log(2 - 2.0**-46) - 46 * math.log(2)) / 100) <= error < 1e-14
    C[0, 1] = C[1, 0] = 1 - 2.0**-44
    assert gap_of(C, rounded=True).status == "resolved"


def test_exact_arithmetic_decides_what_float64_cannot() -> None:
    n = 20
    C = np.array(equicorrelated(n, -float(np.nextafter(1 / 19, 0))))
    estimate = estimate_isometry_gap(C)
    assert estimate.status == "unresolved"
    decided = estimate_isometry_gap(C, exact=True)
    assert decided.status == "exact"
    assert decided.value == pytest.approx(float(exact_gap(C)), rel=1e-15, abs=0)
    assert estimate.lower <= decided.value
    singular = np.array(equicorrelated(17, -1 / 16))
    assert estimate_isometry_gap(singular).status == "unresolved"
    assert estimate_isometry_gap(singular, exact=True) == GapEstimate(math.inf, 0.0, "singular", math.inf)


def test_exact_arithmetic_says_so_when_rounding_made_a_matrix_indefinite() -> None:
    x = np.array([0.1, 0.7, 1.1])
    G = gram([x, 3.3 * x])
    assert not is_positive_semidefinite_exact(G)
    for exact in (False, True):
        estimate = estimate_isometry_gap(G, exact=exact)
        assert (estimate.value, estimate.error, estimate.status) == (math.inf, math.inf, "unresolved")
        assert 15 < estimate.lower < 20


@given(st.floats(0.5, 2), st.floats(-2, -1e-100))
@example(1 + EPS, -1 - EPS)
def test_products_are_split_without_loss(a: float, b: float) -> None:
    product, error = two_product(np.array(a), np.array(b))
    assert Fraction(float(product)) + Fraction(float(error)) == Fraction(a) * Fraction(b)


def test_small_unresolved_matrices_are_decided_unasked() -> None:
    C = np.array(equicorrelated(5, -0.25))
    assert estimate_isometry_gap(C) == GapEstimate(math.inf, 0.0, "singular", math.inf)
    C = np.array(equicorrelated(5, -0.25 * (1 - 2.0**-52)))
    assert estimate_isometry_gap(C).status == "exact"


def test_exact_entries_are_not_rounded() -> None:
    third = Fraction(1, 3)
    estimate = estimate_isometry_gap([[1, third], [third, 1]], exact=True)
    assert estimate.value == pytest.approx(-math.log(8 / 9) / 2, rel=1e-15, abs=0)
    close = 1 - Fraction(1, 10**30)
    assert estimate_isometry_gap([[1, close], [close, 1]], exact=True).value == pytest.approx(
        -math.log(2e-30) / 2, rel=1e-15, abs=0
    )
    far = 2**60 + 1
    assert estimate_isometry_gap([[far, far], [far, far]], exact=True).status == "singular"
    assert estimate_isometry_gap([[far, far - 1], [far - 1, far]], exact=True).status == "exact"
    # the floats of these are all equal, which proves nothing of them
    assert estimate_isometry_gap([[far, far - 1], [far - 1, far]]).status == "exact"
    assert estimate_isometry_gap(np.array(equicorrelated(17, close))).status == "unresolved"


def test_exact_entries_may_be_smaller_than_floats() -> None:
    tiny = Fraction(1, 10**400)
    estimate = estimate_isometry_gap([[tiny, 0], [0, 1]])
    assert estimate.status == "exact"
    assert estimate.value == pytest.approx(200 * math.log(10) - math.log(2), rel=1e-15, abs=0)
    indefinite = estimate_isometry_gap([[tiny, Fraction(1, 10**150)], [Fraction(1, 10**150), 1]])
    assert (indefinite.status, indefinite.lower) == ("unresolved", 0.0)


def test_a_gap_estimate_fills_in_its_lower_end() -> None:
    assert GapEstimate(2.0, 0.5, "resolved").lower == 1.5
    assert GapEstimate(0.25, 0.5, "resolved").lower == 0.0
    assert GapEstimate(math.inf, 0.0, "singular").lower == math.inf
    assert GapEstimate(math.inf, math.inf, "unresolved").lower == 0.0
    batch = GapEstimate(np.array([1.0, math.inf]), np.array([0.5, math.inf]), np.array(["resolved", "unresolved"]))
    assert np.array_equal(batch.lower, [0.5, 0.0])


# --- batches and forms --------------------------------------------------------------------------------------------


def test_batches_are_their_members() -> None:
    G = np.stack([np.eye(3), np.ones((3, 3)), np.diag([1.0, 2.0, 3.0]), np.array(equicorrelated(3, 0.5))])
    G = G.reshape(2, 2, 3, 3)
    batch = estimate_isometry_gap(G)
    assert isinstance(batch.status, np.ndarray)
    for index in np.ndindex(2, 2):
        single = estimate_isometry_gap(G[index])
        fields = (batch.value[index], batch.error[index], batch.status[index], batch.lower[index])  # type: ignore[index]
        assert fields == (single.value, single.error, single.status, single.lower)
    assert np.array_equal(isometry(G), np.exp(-np.asarray(batch.value)))
    assert np.array_equal(isometry_gap(G), batch.value)
    C = np.stack([np.eye(3), np.ones((3, 3)), np.array(equicorrelated(3, 0.5))]).reshape(3, 1, 3, 3)
    for function in OF_CORRELATIONS:
        assert np.array_equal(function(C), [[function(C[i, 0])] for i in range(3)])
    for function in [isometry, isometry_gap, log_isometry_gap, *OF_CORRELATIONS]:
        assert function(np.empty((0, 3, 3))).shape == (0,)
        assert isinstance(function(np.eye(3)), float)


@pytest.mark.parametrize("function", [*FUNCTIONALS, *OF_CORRELATIONS], ids=lambda f: f.__name__)
def test_any_form_of_the_same_numbers_gives_the_same_answer(function: Any) -> None:
    C = np.array(equicorrelated(3, 0.25))
    forms = [C.tolist(), C.astype(np.float32), np.asfortranarray(C), np.repeat(C, 2, axis=0)[::2]]
    for form in forms:
        before = np.array(form)
        assert function(form) == function(C)
        assert np.array_equal(before, np.array(form))
    assert function(np.eye(3, dtype=int)) == function(np.eye(3))
    if function is not estimate_isometry_gap:  # whose error bar counts that Fractions were rounded
        assert function(equicorrelated(3, Fraction(1, 4))) == function(C)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_the_unchecked_variants_agree(n: int) -> None:
    C = input_gram(np.random.default_rng(n).standard_normal((n, 9)))
    before = C.copy()
    assert potential_of(C) == potential(C)
    assert max_abs_offdiagonal(C) == max_correlation(C)
    assert rms_offdiagonal(C) == rms_correlation(C)
    value, error, log_value, status = gap_of(C)
    estimate = estimate_isometry_gap(C)
    assert (value, error, status) == (estimate.value, estimate.error, estimate.status)
    assert log_value == log_isometry_gap(C)
    assert np.array_equal(C, before)


@pytest.mark.parametrize(
    "C",
    [np.eye(4), np.ones((3, 3)), equicorrelated(20, 0.3), equicorrelated(5, -0.25), equicorrelated(17, -1 / 16),
     equicorrelated(5, -0.25 * (1 - 2.0**-52)), equicorrelated(3, 1e-200), [[1.0]]],
)  # fmt: skip
def test_the_checked_gap_is_the_estimate(C: Any) -> None:
    checked, gap = checked_gap(C)
    estimate = estimate_isometry_gap(C)
    assert np.array_equal(checked, C)
    assert (gap.value, gap.error, gap.status) == (estimate.value, estimate.error, estimate.status)
    assert gap.log_value == log_isometry_gap(C)


def test_the_checked_gap_is_that_of_the_matrix_it_returns() -> None:
    G = np.array(equicorrelated(3, 0.5)) + np.diag([2 * EPS, -EPS, 0.0])
    checked, gap = checked_gap(G)
    assert np.array_equal(checked, equicorrelated(3, 0.5))
    assert gap.value == isometry_gap(checked)


@pytest.mark.parametrize("n", [3, 40])
def test_check_and_gap_share_their_factorisation(n: int, monkeypatch: Any) -> None:
    from scipy.linalg import lapack

    C = input_gram(np.random.default_rng(n).standard_normal((n, n + 9)))
    calls = []
    dpotrf = lapack.dpotrf
    monkeypatch.setattr(lapack, "dpotrf", lambda *args, **kwargs: calls.append(1) or dpotrf(*args, **kwargs))
    for function in (checked_gap, *FUNCTIONALS):
        calls.clear()
        function(C)
        assert len(calls) == 1, function


def test_what_has_no_checked_gap_is_refused() -> None:
    with pytest.raises(ValueError, match=r"G0 must be one matrix of shape \(n, n\), got shape \(2, 3, 3\)"):
        checked_gap(np.stack([np.eye(3)] * 2), name="G0")
    with pytest.raises(ValueError, match=r"G0 is no Gram matrix: its smallest eigenvalue is -0\.8"):
        checked_gap([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], name="G0")
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.1"):
        checked_gap(equicorrelated(20, -1.1 / 19))
    with pytest.raises(ValueError, match=r"pass correlation\(G0\)"):
        checked_gap(2 * np.eye(3), name="G0")


def test_a_zero_diagonal_is_not_yet_a_zero_matrix() -> None:
    with pytest.raises(ValueError, match="smallest eigenvalue is -1,"):
        estimate_isometry_gap([[0.0, 1.0], [1.0, 0.0]])


# --- properties ---------------------------------------------------------------------------------------------------


@given(factors())
def test_isometry_lies_between_zero_and_one_and_has_no_scale(X: Any) -> None:
    G = gram(X)
    estimate = estimate_isometry_gap(G)
    event(str(estimate.status))
    assert estimate.value >= 0
    assert 0 <= isometry(G) <= 1
    assert isometry_gap(np.ldexp(G, 700)) == estimate.value == isometry_gap(np.ldexp(G, -700))
    # 23 bits and their sums of six products leave room for a factor of 3 without rounding
    G = gram(np.ldexp(np.round(np.ldexp(X, 17)), -17))
    estimate, tripled = estimate_isometry_gap(G), estimate_isometry_gap(3 * G)
    if estimate.status == "resolved" == tripled.status:
        assert abs(tripled.value - estimate.value) <= tripled.error + estimate.error


@given(factors(), st.randoms(use_true_random=False))
def test_the_gap_knows_no_order_and_no_sign_of_inputs(X: Any, random: Any) -> None:
    n = len(X)
    order = random.sample(range(n), n)
    signs = np.array([random.choice([-1.0, 1.0]) for _ in range(n)])
    G = gram(X)
    moved = estimate_isometry_gap(G[np.ix_(order, order)] * signs * signs[:, None])
    estimate = estimate_isometry_gap(G)
    if estimate.status == "resolved" == moved.status:
        assert abs(moved.value - estimate.value) <= moved.error + estimate.error
    elif {"resolved"}.isdisjoint({estimate.status, moved.status}):
        assert moved.value == pytest.approx(estimate.value, rel=1e-14, abs=0)


@given(factors(min_inputs=2), st.integers(0, 2**32 - 1))
def test_the_gap_knows_no_rotation_of_eigenvectors(X: Any, seed: int) -> None:
    n = len(X)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    G = gram(X) + np.eye(n)
    # forming Q G Q^T rounds n sums relative to the largest eigenvalue; the smallest is at least 1
    loss = 4 * n * EPS * np.linalg.norm(G)
    assert isometry_gap(Q @ G @ Q.T) == pytest.approx(isometry_gap(G), abs=1e-14 + loss)


@given(factors())
@example(np.array([[1.0, 0, 0, 0, 0, 0], [1.0, 1e-8, 0, 0, 0, 0]]))
def test_the_error_bar_covers_the_exact_gap(X: Any) -> None:
    G = gram(X)
    estimate = estimate_isometry_gap(G)
    event(str(estimate.status))
    semidefinite, rank, determinant = eliminate(as_fractions(G))
    if estimate.status in ("resolved", "exact"):
        assert semidefinite
        assert rank == len(G)
        assert abs(estimate.value - exact_gap(G)) <= estimate.error
    elif estimate.status == "singular":
        assert determinant == 0
    else:
        assert not semidefinite
    if determinant > 0:
        assert estimate.lower <= exact_gap(G)


@given(factors())
def test_normalising_never_lowers_the_isometry(X: Any) -> None:
    G = gram(X)
    C = correlation(G)
    raw, normalised = estimate_isometry_gap(G), estimate_isometry_gap(C)
    smallest = float(np.linalg.eigvalsh(C)[0])
    if raw.status == "resolved" == normalised.status and smallest > 1e-10:
        squares = np.linalg.norm(X, axis=1)
        gain = math.log1p(squares.var() / squares.mean() ** 2)
        # the entries of C are rounded, each by 1.5 eps at most
        loss = 1.5 * len(C) * EPS / smallest
        assert raw.value - normalised.value >= gain - raw.error - normalised.error - loss - 1e-14


@given(factors(min_inputs=2))
def test_determinant_bounds_by_the_correlations(X: Any) -> None:
    C = correlation(gram(X))
    n, gap = len(C), estimate_isometry_gap(C)
    m, t = float(max_correlation(C)), float(rms_correlation(C))
    assert t <= m * (1 + 4 * EPS)
    if gap.status == "resolved":
        # gap >= -log(1 - m^2)/n, an equality at n = 2; and >= the gap of equicorrelation t
        assert gap.value + gap.error >= -math.log1p(-m * m) / n * (1 - 8 * EPS) if m < 0.99 else True
        equal = -((n - 1) * math.log1p(-t) + math.log1p((n - 1) * t)) / n if t < 0.99 else 0.0
        assert gap.value + gap.error >= equal - 1e-14


def families() -> list[tuple[str, Any]]:
    """Matrices of condition 1 to 1e15 by construction, some with structure that makes roundings alike."""
    rng = np.random.default_rng(20)
    found: list[tuple[str, Any]] = []
    for n in (3, 5, 12, 40):
        for condition in (1e1, 1e6, 1e12, 1e15):
            Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
            found.append((f"spectrum-{n}-{condition:.0e}", gram(Q * np.geomspace(1, condition**-0.5, n))))
            close = rng.standard_normal(n + 2) + rng.standard_normal((n, n + 2)) * condition**-0.5
            found.append((f"cluster-{n}-{condition:.0e}", unit_diagonal(gram(close))))
            found.append((f"equal-{n}-{condition:.0e}", np.array(equicorrelated(n, 1 - 1 / condition))))
        rows = rng.standard_normal((n, n)) * np.exp(rng.uniform(-40, 40, (n, 1)))
        found.append((f"lengths-{n}", gram(rows)))
        t = np.arange(n) / n
        found.append((f"walk-{n}", unit_diagonal(np.minimum.outer(t + 1, t + 1))))
    return found


FAMILIES = families()


@pytest.mark.parametrize("G", [family[1] for family in FAMILIES], ids=[family[0] for family in FAMILIES])
def test_the_error_bar_covers_rational_arithmetic(G: Any) -> None:
    estimate = estimate_isometry_gap(G)
    positive = exact_determinant(G) > 0 and is_positive_semidefinite_exact(G)
    if estimate.status in ("resolved", "exact"):
        assert positive
        assert abs(estimate.value - exact_gap(G)) <= estimate.error
        # honest, and not just wide: 2 sqrt(n) eps times |C^-1|_F <= sqrt(n) / smallest eigenvalue
        if estimate.status == "resolved":
            smallest = max(np.linalg.eigvalsh(unit_diagonal(G))[0], EPS)
            assert estimate.error <= 1e-14 * (1 + estimate.value) + 8 * EPS / smallest
    elif positive:
        assert estimate.lower <= exact_gap(G)


@pytest.mark.parametrize("n", [3, 8, 20])
def test_the_error_bar_covers_the_eigenvalues_of_mpmath(n: int) -> None:
    G = gram(np.random.default_rng(n).standard_normal((n, n)))
    estimate = estimate_isometry_gap(G)
    with mpmath.workdps(40):
        eigenvalues = mpmath.eigsy(mpmath.matrix(G.tolist()), eigvals_only=True)
        gap = mpmath.log(mpmath.fsum(eigenvalues) / n) - mpmath.fsum(map(mpmath.log, eigenvalues)) / n
    assert abs(estimate.value - gap) <= estimate.error
    assert abs(gap - exact_gap(G)) <= 1e-30


@pytest.mark.parametrize("n", [100, 400])
def test_the_error_bar_of_large_matrices_of_equal_entries(n: int) -> None:
    # roundings are alike in every column here, and the size of the inverse is itself an estimate
    for rho in (0.3, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9):
        value, error, _, status = gap_of(np.array(equicorrelated(n, rho)))
        with mpmath.workdps(40):
            r = mpmath.mpf(rho)
            expected = -((n - 1) * mpmath.log(1 - r) + mpmath.log(1 + (n - 1) * r)) / n
        assert status == "resolved"
        assert abs(value - expected) <= error <= 1e-14 + 4 * EPS / (1 - rho)


def test_the_size_of_the_inverse_is_estimated_within_a_factor_of_two(monkeypatch: Any) -> None:
    from scipy.linalg.lapack import dpotrf

    rng = np.random.default_rng(5)
    for power in (0.0, 1.0, 4.0):
        Q = np.linalg.qr(rng.standard_normal((150, 150)))[0]
        C = unit_diagonal(gram(Q * np.geomspace(1, 10.0**-power, 150)))
        true = np.linalg.norm(np.linalg.inv(C) - np.eye(150))
        assert 0.5 < np.linalg.norm(_gap._inverse_excess(dpotrf(C.T, lower=1)[0], _gap._probes(C))) / true < 2


# --- the exact engine -----------------------------------------------------------------------------------------------


def leibniz(rows: Any) -> Fraction:
    """The determinant by its definition, minor by minor."""
    if not rows:
        return Fraction(1)
    minors = ([row[:j] + row[j + 1 :] for row in rows[1:]] for j in range(len(rows)))
    return sum((Fraction((-1) ** j) * rows[0][j] * leibniz(minor) for j, minor in enumerate(minors)), Fraction())


small_rationals = st.fractions(-3, 3, max_denominator=6)
square = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.lists(small_rationals, min_size=n, max_size=n), min_size=n, max_size=n)
)


@given(square)
@example([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(0)]])
@example([[Fraction(0)]])
def test_determinants_are_those_of_the_definition(rows: Any) -> None:
    assert exact_determinant(rows) == leibniz(rows)


@given(square)
@example([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(0)]])
@example([[Fraction(0), Fraction(0)], [Fraction(1), Fraction(0)]])
def test_determinants_are_the_same_without_flint(rows: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "flint", None)
        assert exact_determinant(rows) == leibniz(rows)


@given(square, st.data())
def test_semidefiniteness_and_rank_are_those_of_the_principal_minors(rows: Any, data: st.DataObject) -> None:
    n = len(rows)
    shift = data.draw(st.sampled_from([Fraction(0), Fraction(-1, 100), Fraction(1, 100)]))
    inner = [[sum((a * b for a, b in zip(x, y, strict=True)), Fraction()) for y in rows] for x in rows]
    G = [[inner[i][j] + shift * (i == j) for j in range(n)] for i in range(n)]
    subsets = [kept for size in range(n + 1) for kept in itertools.combinations(range(n), size)]
    minors = {kept: leibniz([[G[i][j] for j in kept] for i in kept]) for kept in subsets}
    positive = all(minor >= 0 for minor in minors.values())
    event(f"semidefinite {positive}")
    assert is_positive_semidefinite_exact(G) is positive
    semidefinite, rank, determinant = eliminate(as_fractions(G))
    assert semidefinite is positive
    if positive:
        assert rank == max(len(kept) for kept, minor in minors.items() if minor)
        assert determinant == minors[tuple(range(n))]


def test_what_eliminates_only_with_a_pivot_below() -> None:
    assert exact_determinant([[0, 1, 2], [1, 0, 3], [4, 5, 0]]) == leibniz(rational([[0, 1, 2], [1, 0, 3], [4, 5, 0]]))
    assert eliminate(as_fractions([[0, 0], [0, 5]])) == (True, 1, 0)
    assert not is_positive_semidefinite_exact([[0, 1], [1, 0]])
    assert not is_positive_semidefinite_exact([[0, 1], [1, 5]])
    assert is_positive_semidefinite_exact([[0, 0], [0, 0]])


@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**40))
@example(Fraction(1))
@example(1 + Fraction(1, 10**25))
@example(1 - Fraction(1, 10**25))
@example(Fraction(1, 2))
@example(Fraction(3) ** 5000)
@example(Fraction(1, 10**4000))
def test_logarithms_of_rationals_of_any_size(q: Fraction) -> None:
    with mpmath.workdps(60):
        expected = float(mpmath.log(mpmath.mpf(q.numerator) / q.denominator))
    assert exact_log(q) == pytest.approx(expected, rel=5e-16, abs=0)


def test_log_determinants() -> None:
    assert exact_log_determinant([[1, 1], [1, 1]]) == -math.inf
    assert exact_log_determinant(1e300 * np.eye(9)) == pytest.approx(9 * math.log(1e300), rel=4e-16, abs=0)
    with pytest.raises(ValueError, match=r"negative, about -10\^600\.00"):
        exact_log_determinant([[0.0, 1e300], [1e300, 0.0]])


def test_entries_are_taken_as_they_are() -> None:
    assert as_fractions(np.array([[0.1]])) == ((Fraction(3602879701896397, 2**55),),)
    assert as_fractions(np.array([[0.1]], dtype=np.float32)) == ((Fraction(13421773, 2**27),),)
    assert as_fractions([[Fraction(1, 3), True], [2**70, np.float64(0.5)]]) == (
        (Fraction(1, 3), Fraction(1)),
        (Fraction(2**70), Fraction(1, 2)),
    )
    assert as_fractions([np.array([1, 2]), (np.int64(3), 5e-324)])[1] == (Fraction(3), Fraction(1, 2**1074))


# --- must fail --------------------------------------------------------------------------------------------------------

BAD_GRAMS = [
    ("zero", np.zeros((2, 2)), r"G is a zero matrix, whose isometry is 0/0"),
    ("zero number", [[0.0]], r"zero matrix"),
    ("zero in a batch", [np.eye(2), np.zeros((2, 2))], r"zero matrix"),
    ("vector", [1.0, 2.0], r"G must have shape \(n, n\)"),
    ("nan", [[1.0, math.nan], [math.nan, 1.0]], r"G must be finite"),
    ("complex", 1j * np.eye(2), r"real numbers"),
    ("asymmetric", [[1.0, 0.5], [0.4, 1.0]], r"G must be symmetric"),
    ("negative diagonal", [[1.0, 0.0], [0.0, -1.0]], r"diagonal entry -1"),
    ("indefinite", [[1.0, 2.0], [2.0, 1.0]], r"smallest eigenvalue is -1"),
]


@pytest.mark.parametrize("function", FUNCTIONALS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("G", "message"), [case[1:] for case in BAD_GRAMS], ids=[case[0] for case in BAD_GRAMS])
def test_what_has_no_isometry_is_refused(function: Any, G: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(G)


@pytest.mark.parametrize("function", OF_CORRELATIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("G", [np.zeros((2, 2)), 2 * np.eye(3), [[1.0, 0.5], [0.5, 1.5]]], ids=["0", "2I", "1.5"])
def test_a_diagonal_that_is_not_one_is_refused_naming_the_remedy(function: Any, G: Any) -> None:
    with pytest.raises(ValueError, match=r"G must have a unit diagonal.*pass correlation\(G\)"):
        function(G)


def test_exact_entries_must_be_exactly_symmetric() -> None:
    G = [[Fraction(1), Fraction(1, 3)], [Fraction(1, 3) + Fraction(1, 10**20), Fraction(1)]]
    with pytest.raises(ValueError, match="G must be symmetric, and exactly so"):
        estimate_isometry_gap(G, exact=True)
    with pytest.raises(ValueError, match="rows must be symmetric"):
        is_positive_semidefinite_exact(G)


BAD_ROWS: list[Any] = [
    3.0, [1, 2], [[1, 2]], [], [[]], [[1, 2], [3]], [[math.nan]], [[math.inf]], [[1j]], [["1"]], "12", [[None]],
    np.ones(3), np.ones((2, 2, 2)), np.ones((2, 3)), np.array([[np.nan]]),
]  # fmt: skip


@pytest.mark.parametrize("rows", BAD_ROWS, ids=repr)
def test_what_is_no_matrix_of_rationals_is_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match=r"G (must be|has the entry)"):
        as_fractions(rows)
