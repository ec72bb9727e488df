"""Gains of normalisation: definitions at 120 digits, matrices themselves, equalities, and printed forms that fail."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bounds import (
    Certificate,
    Verdict,
    batch_norm_gain,
    certify,
    layer_norm_gain,
    normalization_gain,
    sharp_normalization_gain,
)
from bounds._gains import (
    _sharp,
    _unbiased,
    exact_gain_sides,
    exact_sharp_sides,
    gain_between,
    gain_sides,
    is_extremal,
    least_gain_between,
    sharp_sides,
)
from bounds._normalization import _exact_squares, _squares
from bounds.strategies import batches, psd_matrices
from meanfield import gram, input_gram, isometry, isometry_gap

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict
F = Fraction
both = pytest.mark.parametrize("exact", [False, True])

# log-lengths: spread, in e-folds
SPREADS = [1e-9, 1e-5, 1e-2, 1.0, 10.0, 300.0]


def number(q: Any) -> mpmath.mpf:
    return mpmath.mpf(q.numerator) / q.denominator if isinstance(q, Fraction) else mpmath.mpf(q)


def by_definition(squares: Sequence[Any]) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """log(1 + v), the sharp bound, the one by the unbiased variance, and the gain; at 700 digits, and by definition."""
    with mpmath.workdps(700):
        a = [mpmath.sqrt(number(q)) for q in squares]
        n = len(a)
        mean = mpmath.fsum(a) / n
        v = mpmath.fsum((x - mean) ** 2 for x in a) / n / mean**2
        gain = mpmath.log(mpmath.fsum(x * x for x in a) / n) - 2 * mpmath.fsum(map(mpmath.log, a)) / n
        if n == 1:
            return v, v, v, gain
        s = mpmath.sqrt(v / (n - 1))
        product = (1 - s) ** (n - 1) * (1 + (n - 1) * s)
        sharp = mpmath.log((1 + v) * product ** (-mpmath.mpf(2) / n)) if product > 0 else gain
        return mpmath.log(1 + v), sharp, mpmath.log(1 + v * n / (n - 1)), gain


@st.composite
def squares(draw: st.DrawFn) -> list[float]:
    spread = draw(st.sampled_from(SPREADS))
    logs = draw(st.lists(st.integers(-16, 16), min_size=2, max_size=7))
    return [math.exp(spread * k / 16) for k in logs]


# --- both bounds against their definitions ------------------------------------------------------------------


@given(squares())
def test_float_sides_are_within_their_tolerance(given_squares: list[float]) -> None:
    plain, sharp, unbiased, gain = by_definition(given_squares)
    found, first = sharp_sides(np.array(given_squares)), gain_sides(np.array(given_squares))
    bars = np.broadcast_to(found.tolerance, 2).tolist()
    with mpmath.workdps(700):
        for side, bound in enumerate((sharp, unbiased)):
            slack = number(found.rhs[side]) - number(found.lhs[side])  # type: ignore[index]
            assert abs(slack - (gain - bound)) <= bars[side] + mpmath.mpf("1e-300")
            # two bounds that differ by a thousandth of themselves are told apart
            assert bars[side] <= 1e-9 * (1 + gain)
        slack = number(first.rhs) - number(first.lhs)
        assert abs(slack - (gain - plain)) <= first.tolerance + mpmath.mpf("1e-300")


@given(squares())
def test_exact_sides_prove_their_digits_and_are_decided(given_squares: list[float]) -> None:
    exact = [F(q) for q in given_squares]
    plain, sharp, unbiased, gain = by_definition(exact)
    found = exact_sharp_sides(exact)
    bars = np.broadcast_to(np.array(found.tolerance, dtype=object), 2).tolist()
    slacks = [found.rhs[i] - found.lhs[i] for i in (0, 1)]  # type: ignore[index, operator]
    with mpmath.workdps(700):
        for slack, bar, bound in zip(slacks, bars, (sharp, unbiased), strict=True):
            assert abs(number(F(slack)) - (gain - bound)) <= number(F(bar)) + mpmath.mpf("1e-500")
        first = exact_gain_sides(exact)
        assert abs(number(F(first.rhs - first.lhs)) - (gain - plain)) <= number(F(first.tolerance)) + mpmath.mpf(
            "1e-500"
        )  # type: ignore[operator, arg-type]
    assert (slacks[0] == 0) == is_extremal(exact)
    assert slacks[0] == 0 or slacks[0] > bars[0] > 0
    assert (slacks[1] == 0) == (len(set(exact)) == 1)


@given(squares(), st.sampled_from([3, 6, 12]))
def test_proven_brackets_are_wide_enough_with_few_digits(given_squares: list[float], digits: int) -> None:
    exact = [F(q) for q in given_squares]
    plain, sharp, unbiased, gain = by_definition(exact)
    with mpmath.workdps(700):
        for bracket, true in (
            (gain_between, gain),
            (least_gain_between, plain),
            (_sharp, sharp if not is_extremal(exact) else gain),
            (_unbiased, unbiased),
        ):
            found = bracket(exact, digits)
            assert number(found.low) - mpmath.mpf("1e-400") <= true <= number(found.high) + mpmath.mpf("1e-400")


@given(squares(), st.integers(0, 2**7 - 1))
def test_errors_of_lengths_move_no_more_than_the_tolerance(given_squares: list[float], signs: int) -> None:
    relative, q = 1e-10, np.array(given_squares)
    moved = q * (1 + relative * np.array([1 if signs >> i & 1 else -1 for i in range(len(q))]))
    one, other = gain_sides(q, relative=relative), gain_sides(moved, relative=relative)
    change = (one.rhs - one.lhs) - (other.rhs - other.lhs)  # type: ignore[operator]
    assert abs(change) <= one.tolerance  # type: ignore[operator]


def test_the_bounds_are_ordered() -> None:
    """log(1 + v) <= unbiased <= sharp <= gain."""
    rng = np.random.default_rng(1)
    for n in (2, 3, 5, 8):
        a = np.exp(rng.standard_normal(n))
        plain, sharp, unbiased, gain = by_definition(list(a**2))
        assert plain < unbiased < sharp <= gain * (1 + mpmath.mpf("1e-14"))


# --- the sharp bound ----------------------------------------------------------------------------------------


@given(psd_matrices(zero_diagonal=False))
def test_the_sharp_bound_holds(G: np.ndarray) -> None:
    certificate, settled = sharp_normalization_gain(G), sharp_normalization_gain(G, exact=True)
    assert certificate.verdict in (HOLDS, UNDECIDED), certificate
    assert settled.holds or settled.false_hypotheses == ("positive semidefinite",), settled


@both
@pytest.mark.parametrize("longer", [F(1), F(4), F(9, 4), F(10**12), F(10**300)])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_one_longer_input_attains_it(n: int, longer: Fraction, exact: bool) -> None:
    G: Any = [[(longer if i == 0 else F(1)) if i == j else F(0) for j in range(n)] for i in range(n)]
    certificate = sharp_normalization_gain(G if exact else np.array(G, dtype=float), exact=exact)
    assert certificate.verdicts == (HOLDS, HOLDS), certificate
    assert (certificate.slack[0], certificate.tolerance[0]) == (0.0, 0.0)  # type: ignore[index]
    assert (certificate.slack[1] == 0) == (longer == 1 or n == 1)  # type: ignore[index]


@both
def test_one_shorter_input_does_not(exact: bool) -> None:
    certificate = sharp_normalization_gain(np.diag([0.25, 1.0, 1.0]), exact=exact)
    assert certificate.verdicts == (HOLDS, HOLDS)
    assert certificate.slack[0] > 1e-3  # type: ignore[index]


def test_two_inputs_always_attain_it() -> None:
    for square in (1e-300, 0.3, 1 + 2.0**-52, 7.0, 1e300):
        certificate = sharp_normalization_gain([[1.0, 0.0], [0.0, square]])
        assert certificate.slack[0] == 0.0  # type: ignore[index]
        assert certificate.holds or square == 1 + 2.0**-52


def test_nearly_equal_lengths_are_decided_exactly() -> None:
    """Of third order in a difference of 1e-9: 1e-27, far below rounding."""
    G = np.diag([1.0, 1.0 + 1e-9, 1.0 + 3e-9])
    assert sharp_normalization_gain(G).verdicts[0] is UNDECIDED
    certificate = sharp_normalization_gain(G, exact=True)
    assert certificate.verdicts == (HOLDS, HOLDS)
    assert 1e-30 < certificate.slack[0] < 1e-26  # type: ignore[index]


@both
def test_gram_01_singular_matrices_are_compared_by_isometry(exact: bool) -> None:
    X = np.array([[0.328125, 0.5, 0.5, 0.5], [0, 0.5, 0.5, 0.5], [0.5, 0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]])
    certificate = sharp_normalization_gain(X @ X.T, exact=exact)
    assert certificate.holds
    assert certificate.lhs.tolist() == certificate.rhs.tolist() == [0.0, 0.0]  # type: ignore[union-attr]
    assert "singular" in certificate.statement


@both
def test_what_the_sharp_bound_does_not_apply_to(exact: bool) -> None:
    certificate = sharp_normalization_gain([[1, 0], [0, 0]], exact=exact)
    assert certificate.verdict is NOT_APPLICABLE
    assert certificate.false_hypotheses == ("no input is zero",)
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -0\.8"):  # gram-06
        sharp_normalization_gain([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]], exact=exact)
    with pytest.raises(ValueError, match="must be one matrix"):
        sharp_normalization_gain(np.stack([np.eye(2)] * 2), exact=exact)


def test_biased_and_unbiased_variance_are_told_apart() -> None:
    """The printed variance is that of the n numbers; the one by n - 1 is the larger bound, and true as well."""
    G = np.diag([1.0, 4.0, 9.0])
    a = np.array([1.0, 2.0, 3.0])
    certificate = sharp_normalization_gain(G)
    assert certificate.lhs[1] == pytest.approx(math.log1p(a.var(ddof=1) / a.mean() ** 2), rel=1e-14, abs=0)  # type: ignore[index]
    assert normalization_gain(G).lhs == pytest.approx(math.log1p(a.var() / a.mean() ** 2), rel=1e-14, abs=0)


# --- layers -------------------------------------------------------------------------------------------------


def centred(X: np.ndarray) -> np.ndarray:
    return np.asarray(X - X.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(6))
def test_the_gain_of_a_layer_is_the_difference_of_two_gaps(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((4, 9)) * np.array([[1.0], [3.0], [0.2], [10.0]]) + 5.0
    certificate = layer_norm_gain(X)
    gaps = [isometry_gap(gram(centred(X))), isometry_gap(input_gram(X))]
    assert certificate.rhs == pytest.approx(gaps[0] - gaps[1], abs=1e-12)
    assert certificate.holds
    lengths = np.linalg.norm(centred(X), axis=1)
    assert certificate.lhs == pytest.approx(math.log1p(lengths.var() / lengths.mean() ** 2), rel=1e-12, abs=0)


@pytest.mark.parametrize("eps", [1e-5, F(1, 8), 1.0, 1e6])
def test_eps_as_in_a_layer_of_torch(eps: Any) -> None:
    """Rows less their mean, divided by the root of their variance plus eps."""
    X = np.random.default_rng(3).standard_normal((4, 9)) * np.array([[1.0], [3.0], [0.2], [10.0]])
    z = centred(X)
    normalised = z / np.sqrt(z.var(axis=1, keepdims=True) + float(eps))
    gained = isometry_gap(gram(z)) - isometry_gap(gram(normalised))
    for exact in (False, True):
        certificate = layer_norm_gain(X, eps, exact=exact)
        assert certificate.holds
        assert certificate.slack == pytest.approx(gained, abs=1e-12)


@given(batches(max_n=5, min_d=3), st.sampled_from([0, 1e-5, F(1, 3), 10**6]))
def test_layers_hold(X: np.ndarray, eps: Any) -> None:
    certificate, settled = layer_norm_gain(X, eps), layer_norm_gain(X, eps, exact=True)
    assert certificate.verdict in (HOLDS, UNDECIDED, NOT_APPLICABLE), certificate
    assert settled.verdict in (HOLDS, NOT_APPLICABLE)
    assert (settled.verdict is NOT_APPLICABLE) == (certificate.verdict is NOT_APPLICABLE)
    assume(settled.holds and "singular" not in settled.statement + certificate.statement)
    # one-sided errors are far below this
    assert abs(certificate.slack - settled.slack) <= certificate.tolerance + 1e-15 * abs(settled.slack)


@both
def test_erratum_e2_inputs_must_be_centred_first(exact: bool) -> None:
    """e_1, e_2 in R^3: isometry 1, and .8660 once normalised; in R^2 it is 0."""
    X = np.eye(3)[:2]
    raw, normalised = isometry(gram(X)), isometry(input_gram(X))
    assert (raw, normalised) == (1.0, pytest.approx(math.sqrt(0.75), rel=1e-14, abs=0))
    assert certify("4.2", "as printed", raw, normalised, tolerance=1e-12).verdict is FAILS
    certificate = layer_norm_gain([[1, 0, 0], [0, 1, 0]], exact=exact)
    assert certificate.verdict is HOLDS if exact else certificate.verdict in (HOLDS, UNDECIDED)
    flat = np.eye(2)
    assert isometry(input_gram(flat)) == 0.0
    assert certify("4.2", "as printed", isometry(gram(flat)), 0.0, tolerance=1e-12).verdict is FAILS
    assert layer_norm_gain(flat, exact=exact).holds


@both
@pytest.mark.parametrize("scale", [1e-140, 1e-20, 1.0, 1e140])
@pytest.mark.parametrize("eps", [0, 1e-5])
def test_scales(scale: float, eps: float, exact: bool) -> None:
    X = scale * np.array([[1.0, 2.0, 3.0, 7.0], [4.0, 0.0, 0.0, 1.0], [1.0, 5.0, 1.0, 2.0]])
    certificate = layer_norm_gain(X, eps, exact=exact)
    assert certificate.verdict is HOLDS or (certificate.verdict is UNDECIDED and eps and scale < 1 and not exact)
    assert batch_norm_gain(X.T, exact=exact).holds


@both
def test_rows_of_very_different_lengths(exact: bool) -> None:
    X = np.array([[1.0, 2.0, 3.0, 7.0], [4.0, 0.0, 0.0, 1.0], [1.0, 5.0, 1.0, 2.0]])
    X *= np.array([[1e-149], [1.0], [1e148]])
    assert layer_norm_gain(X, exact=exact).holds


@pytest.mark.parametrize("eps", [1e200, 10**400, F(1, 10**400), 1e-320])
@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_eps_of_any_size(scale: float, eps: Any) -> None:
    """Lengths go up with eps for small inputs, and are all 1 for large ones; neither overflows."""
    X = scale * np.array([[1.0, 2.0, 3.0, 7.0], [4.0, 0.0, 0.0, 1.0], [1.0, 5.0, 1.0, 2.0]])
    assert layer_norm_gain(X, eps).verdict in (HOLDS, UNDECIDED)
    assert layer_norm_gain(X, eps, exact=True).holds


@pytest.mark.parametrize("d", [2, 5, 64, 1000])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e12])
def test_squared_lengths_are_known_to_their_error(d: int, offset: float) -> None:
    X = np.random.default_rng(d).standard_normal((3, d)) + offset
    squares, relative = _squares(X, "input")
    exact = _exact_squares([[F(x) for x in row] for row in X.tolist()])
    errors = [abs(F(q) / true - 1) for q, true in zip(squares.tolist(), exact, strict=True)]
    assert max(errors) <= F(relative)
    assert relative < 1e-13


def test_lengths_beyond_float64_are_refused_but_for_exact_ones() -> None:
    X = np.array([[1.0, 2.0, 4.0], [1e-170, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"input 1 of X has, once centred, a length beyond .* exact=True"):
        layer_norm_gain(X)
    assert layer_norm_gain(X, exact=True).holds
    with pytest.raises(ValueError, match="feature 1 of X"):
        batch_norm_gain(X.T)
    with pytest.raises(ValueError, match="input 0 of X"):
        layer_norm_gain([[1e308, -1e308, 0.0], [1.0, 0.0, 3.0]])


@both
def test_a_constant_input_is_named(exact: bool) -> None:
    X = [[1, 2, 4], [F(1, 3), F(1, 3), F(1, 3)], [0, 0, 0]]
    certificate = layer_norm_gain(X, exact=exact)
    assert certificate.verdict is NOT_APPLICABLE
    assert certificate.false_hypotheses == ("no input is constant",)
    assert "input 1 of X is" in str(certificate)
    certificate = batch_norm_gain(np.array(X, dtype=float).T, exact=exact)
    assert certificate.verdict is NOT_APPLICABLE
    assert "feature 1 of X is" in str(certificate)
    assert math.isnan(certificate.lhs)


def test_equal_lengths_are_left_to_exact_arithmetic() -> None:
    X = [[1, 2, 4, 0, 0], [0, 1, 2, 4, 0], [0, 0, 4, 2, 1]]
    for claim, rows in ((layer_norm_gain, X), (batch_norm_gain, [list(c) for c in zip(*X, strict=True)])):
        assert claim(rows).verdict is UNDECIDED
        certificate = claim(rows, exact=True)
        assert (certificate.verdict, certificate.slack, certificate.rhs) == (HOLDS, 0.0, 0.0)
    assert layer_norm_gain(X, 1e-5, exact=True).slack == 0.0


def test_a_difference_of_1_in_1e30_is_decided_exactly() -> None:
    X = [[F(1), F(0), F(0), F(0)], [F(0), 1 + F(1, 10**30), F(0), F(0)]]
    certificate = layer_norm_gain(X, exact=True)
    assert certificate.holds
    assert certificate.slack == pytest.approx(1e-60 / 4, rel=1e-12, abs=0)


@both
def test_a_mean_takes_no_digits(exact: bool) -> None:
    """1e15 beside a spread of 1: entries are exact, and so is the difference from the first."""
    X = np.array([[1.0, 2.0, 3.0, 7.0], [4.0, 0.0, 0.0, 1.0]])
    assert layer_norm_gain(X + 2.0**50, exact=exact).slack == pytest.approx(layer_norm_gain(X).slack, rel=1e-13, abs=0)


@both
def test_more_inputs_than_features_are_singular_once_centred(exact: bool) -> None:
    X = np.random.default_rng(5).standard_normal((4, 4))
    certificate = layer_norm_gain(X, exact=exact)
    assert (certificate.verdict, certificate.lhs, certificate.rhs) == (HOLDS, 0.0, 0.0)
    assert "singular" in certificate.statement
    assert batch_norm_gain(X, exact=exact).slack == 0.0


def test_dependent_inputs_are_found_by_exact_arithmetic() -> None:
    X = [[1, 2, 4, 0, 0], [3, 6, 12, 0, 0]]
    assert "singular" in layer_norm_gain(X, exact=True).statement
    assert layer_norm_gain(X).holds


# --- batches ------------------------------------------------------------------------------------------------


@given(batches(min_n=3, max_d=4))
def test_batches_are_layers_turned_around(X: np.ndarray) -> None:
    for exact in (False, True):
        one, other = batch_norm_gain(X, exact=exact), layer_norm_gain(X.T, exact=exact)
        assert one.claim == "corollary-4.3"
        assert (one.verdicts, one.lhs == other.lhs or math.isnan(one.lhs)) == (other.verdicts, True)


@pytest.mark.parametrize("seed", range(4))
def test_the_gain_of_a_batch_is_the_difference_of_two_gaps(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((9, 3)) * np.array([1.0, 3.0, 0.2]) + 5.0
    z = X - X.mean(axis=0)
    normalised = z / z.std(axis=0)
    gained = isometry_gap(z.T @ z) - isometry_gap((normalised.T @ normalised + normalised.T @ normalised) / 2)
    certificate = batch_norm_gain(X)
    assert certificate.rhs == pytest.approx(gained, abs=1e-12)
    assert certificate.holds
    # of the inputs there is nothing to say: their Gram matrix is singular once the batch is centred
    assert isometry(gram(z)) <= 1e-3


# --- what is refused ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("claim", [layer_norm_gain, batch_norm_gain])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"X must have shape \(n, d\).*got shape=\(2,\)"),
        (np.ones((2, 2, 2)), r"got shape=\(2, 2, 2\)"),
        (np.ones((0, 3)), r"got shape=\(0, 3\)"),
        ([[1.0, math.nan]], "X must be finite"),
        ([["a", "b"]], "X must be an array of real numbers"),
    ],
    ids=["vector", "batch", "empty", "nan", "text"],
)
def test_bad_inputs_are_refused(claim: Callable[..., Certificate], exact: bool, X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(X, exact=exact)


@pytest.mark.parametrize("eps", [-1e-9, math.nan, math.inf, "small", None])
def test_bad_eps_is_refused(eps: Any) -> None:
    with pytest.raises(ValueError, match=r"eps must be (a finite number )?>= 0, got"):
        layer_norm_gain([[1.0, 2.0, 4.0]], eps)


@both
def test_one_input_gains_nothing(exact: bool) -> None:
    for certificate in (layer_norm_gain([[1, 2, 5]], exact=exact), layer_norm_gain([[1, 2, 5]], 1, exact=exact)):
        assert (certificate.verdict, certificate.slack, certificate.tolerance) == (HOLDS, 0.0, 0.0)
