"""Gram matrices: formed, normalised, checked at the door.

Tolerances: an entry of a correlation takes one product, one root and one quotient, so 3e-16; sums over features
of up to 40 terms add less than 1e-14 relative to the two lengths. `abs=0` is spelled out: pytest's default is 1e-12.
"""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from meanfield import _gram
from meanfield._angles import complements
from meanfield._functionals import checked_gap
from meanfield._gram import (
    check_correlation,
    check_gram,
    check_semidefinite,
    check_symmetric,
    correlation,
    gram,
    input_complement,
    input_gram,
    rounding,
    unit_diagonal,
)

EPS = np.finfo(np.float64).eps


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def exact_cosine(x: Any, y: Any, *, centred: bool) -> float:
    """The cosine of two rows by rational sums and one 50-digit root."""
    x, y = ([Fraction(float(entry)) for entry in row] for row in (x, y))
    if centred:
        x, y = ([entry - sum(row) / len(row) for entry in row] for row in (x, y))
    dots = [sum(a * b for a, b in zip(u, v, strict=True)) for u, v in ((x, y), (x, x), (y, y))]
    with mpmath.workdps(50):
        xy, xx, yy = (mpmath.mpf(dot.numerator) / dot.denominator for dot in dots)
        return float(xy / mpmath.sqrt(xx * yy))


def exact_complement(x: Any, y: Any, *, centred: bool) -> Any:
    """1 - |cos| of two rows by rational sums: sin^2 / (1 + |cos|) in 50 digits."""
    x, y = ([Fraction(float(entry)) for entry in row] for row in (x, y))
    if centred:
        x, y = ([entry - sum(row) / len(row) for entry in row] for row in (x, y))
    xy, xx, yy = (sum(a * b for a, b in zip(u, v, strict=True)) for u, v in ((x, y), (x, x), (y, y)))
    q = 1 - xy * xy / (xx * yy)
    with mpmath.workdps(50):
        squared_sine = mpmath.mpf(q.numerator) / q.denominator
        return squared_sine / (1 + mpmath.sqrt(1 - squared_sine))


@st.composite
def factors(draw: st.DrawFn, max_inputs: int = 6) -> Any:
    """Rows without a zero row; now and then the last is (almost) parallel to the first."""
    n, d = draw(st.integers(1, max_inputs)), draw(st.integers(1, 6))
    entries = st.one_of(st.just(0.0), st.floats(1e-3, 10), st.floats(-10, -1e-3))
    X = draw(hnp.arrays(np.float64, (n, d), elements=entries))
    X[:, 0] += np.where(X.any(axis=1), 0.0, 1.0)
    if n > 1 and draw(st.booleans()):
        X[-1] = draw(st.sampled_from([1.0, -1.0])) * X[0] + draw(st.sampled_from([0.0, 1e-7, 1e-3])) * X[-1]
        X[-1, 0] += 0.0 if X[-1].any() else 1.0
    return X


# --- exact values -----------------------------------------------------------------------------------------


def test_gram_of_integers_is_exact_and_not_divided_by_the_width() -> None:
    X = generator().integers(-50, 50, (7, 11))
    assert np.array_equal(gram(X), [[sum(int(a) * int(b) for a, b in zip(x, y)) for y in X] for x in X])  # noqa: B905


def test_correlation_of_pythagorean_rows() -> None:
    assert np.array_equal(correlation(gram([[3.0, 4.0], [4.0, 3.0]])), [[1.0, 0.96], [0.96, 1.0]])


def test_a_unit_diagonal_is_a_fixed_point_bit_by_bit() -> None:
    C = input_gram(generator().standard_normal((9, 5)))
    assert np.array_equal(correlation(C), C)
    assert np.array_equal(unit_diagonal(C), C)


@pytest.mark.parametrize("c", [1.0, 3.0, 0.1, 1e-300, 7e299, 5e-324 * 2**60])
def test_a_common_factor_of_the_diagonal_costs_one_division(c: float) -> None:
    G = c * np.array([[1.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 1.0]])
    expected = np.array([[1.0, 0.5, -0.25], [0.5, 1.0, 0.125], [-0.25, 0.125, 1.0]])
    assert np.array_equal(correlation(G), expected)


@pytest.mark.parametrize(
    ("a", "b", "between"),
    [(1e300, 1e-300, 0.5), (1e300, 1e300, 5e299), (1e-300, 1e-300, -5e-301), (1e-300, 1.0, 5e-151)],
)
def test_correlation_over_the_range_of_float64(a: float, b: float, between: float) -> None:
    with mpmath.workdps(40):
        expected = float(mpmath.mpf(between) / mpmath.sqrt(mpmath.mpf(a) * mpmath.mpf(b)))
    C = correlation([[a, between], [between, b]])
    assert C[0, 1] == C[1, 0] == pytest.approx(expected, rel=3e-16, abs=0)
    assert C[0, 0] == C[1, 1] == 1.0


def test_correlations_of_1e_300_survive() -> None:
    assert correlation([[4e-4, 2e-302], [2e-302, 1e-4]])[0, 1] == pytest.approx(1e-298, rel=3e-16, abs=0)


def test_input_gram_of_centred_and_uncentred_rows() -> None:
    X = [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]
    assert input_gram(X)[0, 1] == pytest.approx(0.5, abs=2 * EPS)
    assert input_gram(X, "rms")[0, 1] == pytest.approx(13 / 14, abs=2 * EPS)


# --- independent engine -----------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["layer", "rms"])
@pytest.mark.parametrize("scale", [1.0, 1e-170, 1e150])
def test_input_gram_agrees_with_rational_sums(normalization: Any, scale: float) -> None:
    X = scale * generator(1).standard_normal((5, 40))
    C = input_gram(X, normalization)
    for i in range(5):
        for j in range(i):
            expected = exact_cosine(X[i], X[j], centred=normalization == "layer")
            # 40 products, each rounded relative to the two lengths
            assert C[i, j] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("mean", [1e3, 1e8, 1e15])
def test_a_large_mean_costs_only_the_digits_that_the_rows_lack(mean: float) -> None:
    # the rows as they are after rounding to float64 have exact cosines, however large their mean
    X = mean * (1 + generator(2).uniform(size=(4, 1))) + generator(3).standard_normal((4, 40)) * 8
    C = input_gram(X)
    for i in range(4):
        for j in range(i):
            assert C[i, j] == pytest.approx(exact_cosine(X[i], X[j], centred=True), abs=2e-15)


def test_correlation_agrees_with_fifty_digits() -> None:
    X = generator(4).standard_normal((6, 6)) * np.exp(generator(5).uniform(-50, 50, (6, 1)))
    G = gram(X)
    C = correlation(G)
    with mpmath.workdps(50):
        for i in range(6):
            for j in range(6):
                root = mpmath.sqrt(mpmath.mpf(G[i, i]) * mpmath.mpf(G[j, j]))
                assert C[i, j] == pytest.approx(float(mpmath.mpf(G[i, j]) / root), rel=3e-16, abs=0)


# --- complements ------------------------------------------------------------------------------------------


def close_rows(kind: str, distance: float, d: int, seed: int) -> Any:
    rng = generator(seed)
    a = rng.standard_normal(d)
    b = a + distance * rng.standard_normal(d)
    if kind == "opposite and longer":
        b *= -1.3
    elif kind == "longer":
        b *= 3.7
    elif kind == "shifted":
        b += 5.3
    elif kind == "far from 0":
        a, b = a + 1e8, b + 1e8
    elif kind == "one feature":
        b = a.copy()
        b[seed % d] += distance
    elif kind == "one feature, three times":
        a[seed % d] = 0.0
        b = 3.0 * a
        b[seed % d] = distance
    elif kind == "other scale":
        a, b = a * 1e200, b * 1e-180
    return np.stack([a, b])


KINDS = ["near", "opposite and longer", "longer", "shifted", "far from 0", "one feature", "one feature, three times",
         "other scale"]  # fmt: skip


@pytest.mark.parametrize("normalization", ["layer", "rms"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("distance", [1.0, 0.1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 1e-20, 1e-40, 1e-100])
def test_complements_keep_their_digits(kind: str, distance: float, normalization: Any) -> None:
    for d, seed in [(3, 1), (5, 2), (20, 3), (100, 4)]:
        X = close_rows(kind, distance, d, seed)
        expected = exact_complement(*X, centred=normalization == "layer")
        # far apart it is 1 minus a cosine that is off by 1e-15, and less than 1/8 of it is never taken so
        assert input_complement(X, normalization)[0, 1] == pytest.approx(float(expected), rel=1e-14, abs=0)


@pytest.mark.parametrize("normalization", ["layer", "rms"])
def test_complements_of_parallel_inputs_are_zero_and_of_no_others(normalization: Any) -> None:
    a, other = generator(0).standard_normal((2, 30)).round(3)
    tiny = a.copy()
    tiny[3] = np.nextafter(tiny[3], 10)
    near = input_complement([a, a, -a, tiny, other], normalization)
    assert np.array_equal(near, near.T)
    assert np.all(near[:3, :3] == 0)
    assert np.all(np.diagonal(near) == 0)
    assert np.all(near[:3, 3] > 1e-40)
    assert np.all(near[4, :4] > 0.1)
    # scaling and, once centred, shifting by integers rounds nothing here
    integers = generator(1).integers(-900, 900, 30)
    moved = [integers, 3 * integers, -7 * integers + 11 * (normalization == "layer"), integers * 2.0**200]
    assert np.all(input_complement(moved, normalization) == 0)
    # where the complement itself leaves the range, it does not become 0
    assert input_complement([[1.0, 0.0, -1.0], [1.0, 1e-170, -1.0]], normalization)[0, 1] == 2.0**-1022


def test_equal_and_opposite_inputs_cost_no_long_integers(monkeypatch: Any) -> None:
    monkeypatch.delattr("meanfield._angles._exact_complement")
    a = generator(6).standard_normal(30)
    for normalization in ("layer", "rms"):
        assert np.all(input_complement([a, -a, a, 4.0 * a], normalization) == 0)  # type: ignore[arg-type]


def test_complements_of_a_cluster_of_clusters() -> None:
    X = generator(2).standard_normal((1, 30)) + 1e-4 * np.repeat(generator(3).standard_normal((4, 30)), 3, axis=0)
    X[:, :10] += 1e-11 * generator(4).standard_normal((12, 10))
    X[::2] *= -1
    near = input_complement(X)
    for i in range(12):
        for j in range(i):
            assert near[i, j] == pytest.approx(float(exact_complement(X[i], X[j], centred=True)), rel=1e-14, abs=0)
    assert np.abs(input_gram(X)) == pytest.approx(1 - near, abs=4 * EPS)


@given(factors())
def test_complements_are_what_one_lacks(X: Any) -> None:
    near, C = input_complement(X, "rms"), input_gram(X, "rms")
    assert np.array_equal(near, near.T)
    assert near == pytest.approx(1 - np.abs(C), abs=4e-15)
    assert np.array_equal(input_complement(-2 * X, "rms"), near)


@pytest.mark.parametrize("block", [1, 5, 64])
def test_complements_in_blocks(block: int, monkeypatch: Any) -> None:
    X = 1.0 + generator(5).standard_normal((9, 4)) * 1e-3
    expected = input_complement(X, "rms")
    monkeypatch.setattr("meanfield._angles.BLOCK", block)
    assert complements(X, input_gram(X, "rms"), centred=False) == pytest.approx(expected, rel=1e-14, abs=0)


# --- duplicates, symmetry, forms of input --------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 5, 17, 33, 100, 1000, 4097])
@pytest.mark.parametrize("n", [3, 5, 33, 64])
def test_duplicates_and_opposites_have_equal_entries(n: int, d: int) -> None:
    # measured: at n = 33 BLAS itself gives duplicates an ulp apart
    X = generator(n).standard_normal((n, d))
    X[-1], X[n // 2] = X[0], -X[0]
    G = gram(X)
    assert np.array_equal(G[-1], G[0])
    assert np.array_equal(G[:, -1], G[:, 0])
    assert np.array_equal(G[n // 2], -G[0])
    assert np.array_equal(G, G.T)


def test_signed_zeros_do_not_tell_duplicates_apart() -> None:
    X = generator(33).standard_normal((33, 17))
    X[:, 3] = 0.0
    X[-1], X[16] = X[0], -X[0]
    X[-1, 3] = -0.0
    G = gram(X)
    assert np.array_equal(G[-1], G[0])
    assert np.array_equal(G[16], -G[0])


def test_sharing_of_duplicates_changes_no_other_entry() -> None:
    X = generator(6).integers(-9, 9, (8, 3)).astype(float)
    X[5], X[6], X[7] = X[2], -X[2], X[5]
    assert np.array_equal(gram(X), X @ X.T)


FORMS: dict[str, Any] = {
    "nested list": lambda A: A.tolist(),
    "integers": lambda A: A.astype(np.int64),
    "unsigned bytes": lambda A: A.astype(np.uint8),
    "float32": lambda A: A.astype(np.float32),
    "longdouble": lambda A: A.astype(np.longdouble),
    "fractions": lambda A: [[Fraction(int(entry)) for entry in row] for row in A],
    "Fortran order": np.asfortranarray,
    "reversed view": lambda A: A[::-1, ::-1].copy()[::-1, ::-1],
    "strided view": lambda A: np.repeat(np.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
    "big endian": lambda A: A.astype(">f8"),
    "read only": lambda A: np.frombuffer(A.tobytes()).reshape(A.shape),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [gram, input_gram, input_complement, correlation, check_gram])
def test_any_form_of_the_same_numbers_gives_the_same_answer(function: Any, form: str) -> None:
    A = np.array([[9.0, 2.0, 1.0], [2.0, 8.0, 3.0], [1.0, 3.0, 7.0]])
    given_form = FORMS[form](A)
    before = np.array(given_form)
    answer = function(given_form)
    assert answer.dtype == np.float64
    assert np.array_equal(answer, function(A))
    assert np.array_equal(before, np.array(given_form)), "the input was modified"


def test_correlations_in_any_form() -> None:
    C = np.array([[1.0, 0.5], [0.5, 1.0]])
    for form in (C.tolist(), C.astype(np.float32), np.asfortranarray(C), [[1, Fraction(1, 2)], [Fraction(1, 2), 1]]):
        assert np.array_equal(check_correlation(form), C)


@pytest.mark.parametrize("function", [gram, input_gram, input_complement])
def test_batches_of_inputs_are_their_members(function: Any) -> None:
    X = generator(7).standard_normal((2, 3, 5, 8))
    X[1, 2, 4] = X[1, 2, 0]
    batch = function(X)
    assert batch.shape == (2, 3, 5, 5)
    for index in np.ndindex(2, 3):
        assert batch[index] == pytest.approx(function(X[index]), rel=1e-15, abs=1e-15)
    assert np.array_equal(batch[1, 2, 4], batch[1, 2, 0])


@pytest.mark.parametrize("function", [correlation, check_gram, check_correlation])
def test_batches_of_matrices_are_their_members(function: Any) -> None:
    G = input_gram(generator(8).standard_normal((2, 3, 4, 9)))
    batch = function(G)
    for index in np.ndindex(2, 3):
        assert np.array_equal(batch[index], function(G[index]))
    assert function(np.empty((0, 4, 4))).shape == (0, 4, 4)


# --- properties -------------------------------------------------------------------------------------------


@given(factors())
def test_a_gram_matrix_passes_its_own_check(X: Any) -> None:
    G = gram(X)
    assert np.array_equal(check_gram(G), G)
    C = correlation(G)
    event("parallel" if np.any(np.abs(C - np.eye(len(C))) == 1) else "apart")
    assert np.array_equal(C, C.T)
    assert np.all(np.diagonal(C) == 1)
    assert np.max(np.abs(C)) <= 1
    assert np.array_equal(check_correlation(C), C)


@given(factors(), st.integers(-400, 400))
def test_powers_of_two_change_nothing(X: Any, k: int) -> None:
    assert np.array_equal(input_gram(np.ldexp(X, k), "rms"), input_gram(X, "rms"))
    G = gram(X)
    assert np.array_equal(correlation(np.ldexp(G, 2 * k)), correlation(G))


@given(factors(), st.data())
def test_scaling_inputs_one_by_one_changes_no_correlation(X: Any, data: st.DataObject) -> None:
    scales = data.draw(hnp.arrays(np.float64, (len(X), 1), elements=st.floats(1e-3, 1e3)))
    # rounding of the rows and of six products, relative to the two lengths
    assert input_gram(scales * X, "rms") == pytest.approx(input_gram(X, "rms"), abs=3e-15)


@given(factors(), st.randoms(use_true_random=False))
def test_the_order_of_inputs_is_the_order_of_entries(X: Any, random: Any) -> None:
    order = random.sample(range(len(X)), len(X))
    assert gram(X[order]) == pytest.approx(gram(X)[np.ix_(order, order)], rel=1e-14, abs=1e-14)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_grams_of_low_rank_are_not_refused(n: int, rank: int, seed: int) -> None:
    rng = generator(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, 30)) * 10.0 ** rng.uniform(-6, 6, (n, 1))
    assert np.array_equal(check_gram(X @ X.T), X @ X.T)
    check_correlation(correlation(gram(X)))


def test_long_dependent_rows_are_not_refused() -> None:
    # at a million features a dot product is off by several eps: more than n eps for n = 2
    x = np.abs(generator(9).standard_normal(10**6))
    for X in (np.stack([x, 1.1 * x]), np.stack([x, x / 3, x * 7])):
        check_gram(X @ X.T)
        assert correlation(gram(X)) == pytest.approx(np.ones((len(X), len(X))), abs=4e-15)


def test_a_float32_gram_is_judged_by_the_rounding_of_float32() -> None:
    X = generator(10).standard_normal((20, 5)).astype(np.float32)
    G = X @ X.T
    check_gram(G)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        check_gram(G.astype(np.float64))
    assert rounding(G, 20) == 20 * np.finfo(np.float32).eps


# --- public fault reports ---------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [check_gram, check_correlation, correlation], ids=lambda f: f.__name__)
def test_gram_06_an_indefinite_matrix_of_plausible_cosines_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.8"):
        function([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]])


def test_gram_08_what_is_true_in_exact_arithmetic_does_not_fail_by_an_ulp() -> None:
    X = np.ones((3, 3))
    norms = np.linalg.norm(X, axis=1)
    G = X @ X.T / norms / norms[:, None]
    assert np.max(np.abs(G)) > 1, "this is the trap"
    C = correlation(G)
    assert np.array_equal(C, np.ones((3, 3)))
    assert np.array_equal(check_correlation(G), np.ones((3, 3)))
    assert np.arccos(C[0, 1]) == 0


# --- must fail --------------------------------------------------------------------------------------------

ONE = [[1.0, 0.5], [0.5, 1.0]]
BAD_INPUTS = [
    ("one vector", [1.0, 2.0], r"X must have shape \(n, d\).*shape=\(2,\).*X\[None, :\]"),
    ("a number", 3.0, r"X must have shape"),
    ("no features", np.ones((2, 0)), r"at least one feature.*shape=\(2, 0\)"),
    ("no inputs", np.ones((0, 2)), r"at least one input"),
    ("nan", [[1.0, np.nan]], r"X must be finite, got nan at index \[0, 1\]"),
    ("infinity", [[1.0, 2.0], [-np.inf, 1.0]], r"X must be finite, got -inf at index \[1, 0\]"),
    ("complex", [[1j, 2.0]], r"X must be an array of real numbers.*complex128"),
    ("text", [["1", "2"]], r"X must be an array of real numbers"),
    ("ragged", [[1.0], [1.0, 2.0]], r"X must be an array of real numbers.*list"),
    ("too large an integer", [[10**400]], r"X must be an array of real numbers that float64 holds"),
    ("objects", [[object()]], r"X must be an array of real numbers.*object"),
]


@pytest.mark.parametrize("function", [gram, input_gram, input_complement])
@pytest.mark.parametrize(("X", "message"), [case[1:] for case in BAD_INPUTS], ids=[case[0] for case in BAD_INPUTS])
def test_bad_inputs_are_refused(function: Any, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(X)


BAD_GRAMS = [
    ("vector", [1.0, 2.0], r"G must have shape \(n, n\).*shape=\(2,\)"),
    ("inputs", np.ones((2, 3)), r"shape=\(2, 3\); for inputs X pass gram\(X\)"),
    ("empty", np.ones((0, 0)), r"n >= 1"),
    ("nan", [[1.0, np.nan], [np.nan, 1.0]], r"G must be finite"),
    ("complex", np.eye(2) * 1j, r"real numbers"),
    ("asymmetric", [[1.0, 0.5], [0.5 + 1e-14, 1.0]], r"G must be symmetric.*reaches 5e-15.*\(G \+ G\.T\) / 2"),
    ("skew", [[1.0, 0.5], [-0.5, 1.0]], r"G must be symmetric.*reaches 0\.5"),
    ("negative diagonal", [[1.0, 0.0], [0.0, -1e-300]], r"diagonal entry -1e-300"),
    ("indefinite", [[1.0, 2.0], [2.0, 1.0]], r"smallest eigenvalue is -1,"),
    ("huge and indefinite", [[1e300, 2e300], [2e300, 1e300]], r"smallest eigenvalue is -1e\+300"),
    ("tiny and indefinite", [[1e-320, 2e-320], [2e-320, 1e-320]], r"smallest eigenvalue is -9\.99\d*e-321"),
    ("hidden by a zero", [[0.0, 1e-6], [1e-6, 1.0]], r"smallest eigenvalue is -1e-12"),
    ("just beyond rounding", [[1.0, 1 + 2e-14], [1 + 2e-14, 1.0]], r"smallest eigenvalue is -1\.99\d*e-14"),
    ("one of a batch", [ONE, [[1.0, 2.0], [2.0, 1.0]]], r"smallest eigenvalue is -1,"),
]


@pytest.mark.parametrize("function", [check_gram, check_correlation, correlation], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("G", "message"), [case[1:] for case in BAD_GRAMS], ids=[case[0] for case in BAD_GRAMS])
def test_what_is_no_gram_matrix_is_refused(function: Any, G: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(G)


def test_rounding_is_forgiven_and_averaged_away() -> None:
    G = np.array([[1.0, 0.5], [0.5 + 4 * EPS, 1.0]])
    assert np.array_equal(check_gram(G), [[1.0, 0.5 + 2 * EPS], [0.5 + 2 * EPS, 1.0]])
    assert np.array_equal(check_correlation([[1 + 3 * EPS, 0.5], [0.5, 1 - EPS]]), ONE)
    assert np.array_equal(check_correlation([[1.0, 1 + 3 * EPS], [1 + 3 * EPS, 1.0]]), np.ones((2, 2)))
    assert np.array_equal(check_gram([[0.0, 1e-9], [1e-9, 1.0]]), [[0.0, 1e-9], [1e-9, 1.0]])


def test_forgiving_leaves_the_input_and_equal_entries_alone() -> None:
    G = np.array([[1 + 3 * EPS, 0.5], [0.5, 1.0]])
    before = G.copy()
    assert check_correlation(G)[0, 0] == 1
    assert np.array_equal(G, before)
    subnormal = [[1.0, 0.5, 5e-324], [0.5 + EPS, 1.0, 0.0], [5e-324, 0.0, 1.0]]
    assert check_gram(subnormal)[0, 2] == 5e-324


def test_the_check_of_eigenvalues_may_be_left_to_the_caller() -> None:
    indefinite = [[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]]
    for answer in (check_symmetric(indefinite), check_correlation(indefinite, semidefinite=False)):
        assert np.array_equal(answer, indefinite)
        with pytest.raises(ValueError, match="G0 is no Gram matrix"):
            check_semidefinite(answer, indefinite, name="G0")
    for what in ([[1.0, 0.5], [0.4, 1.0]], [[-1.0, 0.5], [0.5, 1.0]], [1.0, 2.0]):
        with pytest.raises(ValueError, match="G"):
            check_symmetric(what)
    with pytest.raises(ValueError, match="unit diagonal"):
        check_correlation(2 * np.eye(2), semidefinite=False)


@pytest.mark.parametrize("block", [1, 3, 64])
def test_asymmetry_is_seen_in_every_block(block: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(_gram, "BLOCK", block)
    G = gram(generator(12).standard_normal((7, 9)) * 10.0 ** generator(13).uniform(-3, 3, (7, 1)))
    C = correlation(G)
    for i in range(7):
        for j in range(7):
            if i != j:
                bent, wrong = C.copy(), C.copy()
                bent[i, j] += 4 * EPS
                assert np.array_equal(check_gram(bent), (bent + bent.T) / 2)
                wrong[i, j] += 1e-12
                wrong[6, 5] += 4 * EPS
                with pytest.raises(ValueError, match="G must be symmetric"):
                    check_gram(wrong)
    assert np.array_equal(check_gram(np.stack([C, bent]))[1], (bent + bent.T) / 2)
    monkeypatch.undo()
    assert np.array_equal(correlation(G), C)


@pytest.mark.parametrize("check", [check_gram, check_correlation, checked_gap], ids=lambda f: f.__name__)
def test_checking_holds_one_array_beside_the_matrix(check: Any) -> None:
    n = 1024
    C = input_gram(generator(14).standard_normal((n, n + 50)))
    check(C[:9, :9])  # what is imported on the way
    tracemalloc.start()
    try:
        check(C)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 64 rows at a time in three arrays, and the list of tiles
    assert peak <= 8 * (n * n + 4 * 64 * n)


def test_a_matrix_near_the_identity_costs_no_factorisation(monkeypatch: Any) -> None:
    import scipy.linalg.lapack

    monkeypatch.delattr(scipy.linalg.lapack, "dpotrf")
    C = np.eye(5)
    C[0, 1] = C[1, 0] = 0.6
    check_correlation(C)
    C[0, 1] = C[1, 0] = 0.7
    with pytest.raises(ImportError):
        check_correlation(C)


def test_a_singular_gram_costs_no_eigenvalues(monkeypatch: Any) -> None:
    monkeypatch.delattr(np.linalg, "eigvalsh")
    check_gram(np.ones((5, 5)))
    X = generator(11).standard_normal((40, 10))
    check_gram(X @ X.T)


def test_a_diagonal_that_is_not_one_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"C must have a unit diagonal, got .* 1\.1.*; pass correlation\(C\)"):
        check_correlation([[1.0, 0.5], [0.5, 1.1]], name="C")
    with pytest.raises(ValueError, match="unit diagonal"):
        check_correlation([[1.0, 0.5], [0.5, 1 + 1e-14]])


def test_the_name_of_the_argument_is_quoted() -> None:
    with pytest.raises(ValueError, match="G0 must have shape"):
        check_gram(3.0, name="G0")


def test_inputs_without_a_direction_are_named() -> None:
    with pytest.raises(ValueError, match="row 1 of G has diagonal 0"):
        correlation([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="row 1 of X is constant over its features"):
        input_gram([[1.0, 2.0, 4.0], [0.1, 0.1, 0.1]])
    with pytest.raises(ValueError, match=r"row 0 of X\[1\] is constant"):
        input_gram([[[1.0, 2.0]], [[3.0, 3.0]]])
    with pytest.raises(ValueError, match="row 0 of X is zero"):
        input_gram([[0.0, 0.0], [1.0, 2.0]], "rms")
    with pytest.raises(ValueError, match="row 0 of X is constant"):
        input_gram([[5.0]])
    with pytest.raises(ValueError, match="row 1 of X is constant over its features"):
        input_complement([[1.0, 2.0, 4.0], [0.1, 0.1, 0.1]])


def test_rows_that_are_only_noise_beside_the_rest_are_named_by_their_cosine() -> None:
    # passes the eigenvalue test, which is relative to the largest entry, yet has a cosine of 2
    with pytest.raises(ValueError, match=r"= 2, above 1 by more than rounding"):
        correlation([[1.0, 0.0, 0.0], [0.0, 1e-20, 2e-20], [0.0, 2e-20, 1e-20]])


def test_lengths_beyond_float64_are_refused_with_the_remedy() -> None:
    for X in ([[1.0, 1.0], [1e160, 0.0]], [[1.0, 1.0], [1e-160, 0.0]]):
        with pytest.raises(ValueError, match=r"squared length of row 1 of X leaves the range.*input_gram"):
            gram(X)
        assert input_gram(X, "rms")[0, 1] == pytest.approx(np.sqrt(0.5), rel=3e-16, abs=0)
    assert gram([[0.0, 0.0]]) == 0


def test_an_unknown_normalization_is_refused() -> None:
    with pytest.raises(ValueError, match="normalization must be 'layer' or 'rms', got 'batch'"):
        input_gram(ONE, "batch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="normalization must be 'layer' or 'rms', got 'batch'"):
        input_complement(ONE, "batch")  # type: ignore[arg-type]
