"""Moments over pairs of Gaussians with different variances, against closed forms, mpmath, and the dual."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from hermite import Dual, activation
from hermite._cross import PairMoments, pair_moments
from hermite._homogeneity import degree_of
from hermite.errors import PrecisionError

S, T = 0.7, 1.9
RHOS = [-1.0, -0.99, -0.5, -1e-9, 0.0, 1e-12, 0.3, 0.9, 0.999, 1.0]
_TOLERANCE = 2e-15  # absolute, of correlations: the contract says about 1e-15


def one(name: str, s: float, t: float, rho: float) -> PairMoments:
    return pair_moments(activation(name), np.array([s, t]), np.array([rho]))


def correlation(name: str, s: float, t: float, rho: float) -> float:
    return float(one(name, s, t, rho).correlation[0])


def erf_moment(s: float, t: float, rho: float) -> float:
    return 2 / math.pi * math.asin(2 * s * t * rho / math.sqrt((1 + 2 * s * s) * (1 + 2 * t * t)))


@pytest.mark.parametrize("rho", RHOS)
def test_erf(rho: float) -> None:
    exact = erf_moment(S, T, rho) / math.sqrt(erf_moment(S, S, 1.0) * erf_moment(T, T, 1.0))
    assert correlation("erf", S, T, rho) == pytest.approx(exact, abs=_TOLERANCE)


@pytest.mark.parametrize("rho", RHOS)
def test_exp_with_its_mean_and_variance(rho: float) -> None:
    found = one("exp", S, T, rho)
    exact = math.expm1(S * T * rho) / math.sqrt(math.expm1(S * S) * math.expm1(T * T))
    assert found.correlation[0] == pytest.approx(exact, rel=4e-15, abs=1e-300)
    assert found.plain_mean == pytest.approx(np.exp([S * S / 2, T * T / 2]), rel=4e-15)
    assert found.plain_variance == pytest.approx(np.exp([S * S, T * T]) * np.expm1([S * S, T * T]), rel=2e-14)


@pytest.mark.parametrize("rho", RHOS)
def test_sin(rho: float) -> None:
    exact = math.sinh(S * T * rho) / math.sqrt(math.sinh(S * S) * math.sinh(T * T))
    assert correlation("sin", S, T, rho) == pytest.approx(exact, abs=_TOLERANCE)


@pytest.mark.parametrize("rho", RHOS)
def test_a_polynomial_of_which_every_power_counts(rho: float) -> None:
    # x + x^2: E(sX + s^2 X^2)(tY + t^2 Y^2) centred = s t rho + 2 (s t rho)^2
    def moment(s: float, t: float, r: float) -> float:
        return s * t * r + 2 * (s * t * r) ** 2

    exact = moment(S, T, rho) / math.sqrt(moment(S, S, 1.0) * moment(T, T, 1.0))
    assert correlation("x + x**2", S, T, rho) == pytest.approx(exact, abs=_TOLERANCE)


@pytest.mark.parametrize("rho", [-0.99, -0.5, 0.3, 0.9, 0.995])
def test_a_step_off_zero_is_a_probability(rho: float) -> None:
    law = multivariate_normal(cov=[[1.0, rho], [rho, 1.0]])
    p, q = (0.5 * math.erfc(0.3 / x / math.sqrt(2)) for x in (S, T))
    both = float(law.cdf([-0.3 / S, -0.3 / T]))  # P(X > a, Y > b)
    exact = (both - p * q) / math.sqrt(p * (1 - p) * q * (1 - q))
    assert correlation("step(x - 0.3)", S, T, rho) == pytest.approx(exact, abs=5e-9)  # scipy's own error


@pytest.mark.parametrize("rho", [1.0, -1.0])
def test_on_the_line_where_inputs_are_parallel(rho: float) -> None:
    def g(x: mpmath.mpf) -> mpmath.mpf:
        return max(mpmath.mpf(-1), min(mpmath.mpf(1), x))

    with mpmath.workdps(25):
        marks = sorted({-14, 14, 0, 1 / S, -1 / S, 1 / T, -1 / T})
        products = [
            mpmath.quad(lambda x, a=a, b=b: g(a * x) * g(b * x) * mpmath.npdf(x), marks)
            for a, b in ((S, rho * T), (S, S), (T, T))
        ]
        exact = float(products[0] / mpmath.sqrt(products[1] * products[2]))
    assert correlation("hardtanh", S, T, rho) == pytest.approx(exact, abs=_TOLERANCE)


@pytest.mark.parametrize("rho", [0.5, 0.995, -0.999, 1 - 1e-9])
def test_kinks_against_a_double_integral(rho: float) -> None:
    def g(x: mpmath.mpf) -> mpmath.mpf:
        return max(mpmath.mpf(-1), min(mpmath.mpf(1), x))

    with mpmath.workdps(20):
        root = mpmath.sqrt((1 - mpmath.mpf(rho)) * (1 + mpmath.mpf(rho)))

        def smoothed(x: mpmath.mpf) -> mpmath.mpf:
            """E hardtanh(T (rho x + root Z)) in closed form."""
            m, d = T * rho * x, T * root
            upper, lower = (1 - m) / d, (-1 - m) / d
            inside = mpmath.ncdf(upper) - mpmath.ncdf(lower)
            slope = mpmath.npdf(lower) - mpmath.npdf(upper)
            return m * inside + d * slope + 1 - mpmath.ncdf(upper) - mpmath.ncdf(lower)

        near = [k / (T * rho) + j * root / abs(rho) for k in (-1, 1) for j in (-8, -3, 0, 3, 8)]
        marks = sorted({-13.0, 13.0, 0.0, 1 / S, -1 / S, *map(float, near)})
        product = mpmath.quad(lambda x: g(S * x) * smoothed(x) * mpmath.npdf(x), marks)
        squares = [
            mpmath.quad(lambda x, a=a: g(a * x) ** 2 * mpmath.npdf(x), [-13, -1 / a, 0, 1 / a, 13]) for a in (S, T)
        ]
        exact = float(product / mpmath.sqrt(squares[0] * squares[1]))
    assert correlation("hardtanh", S, T, rho) == pytest.approx(exact, abs=_TOLERANCE)


@pytest.mark.parametrize(
    "name", ["tanh", "hardtanh", "step(x - 0.3)", "elu", "tanh(10*x)", "relu6", "softsign", "gelu"]
)
@pytest.mark.parametrize("rho", [0.3, 0.99, 0.99999, 1 - 1e-9, 1.0, -0.9, -0.999, -1.0])
def test_equal_deviations_are_the_dual(name: str, rho: float) -> None:
    exact = Dual(activation(name).scaled("1.3")).reduced(rho)
    assert correlation(name, 1.3, 1.3, rho) == pytest.approx(exact, abs=3e-15)


@pytest.mark.parametrize(
    ("name", "degree"),
    [
        ("relu", 1),
        ("leaky_relu", 1),
        ("abs", 1),
        ("identity", 1),
        ("square", 2),
        ("x*relu(x)", 2),
        ("cube", 3),
        ("step", 0),
        ("sign", 0),
        ("-3*x**5 if x > 0 else x**5", 5),
        ("tanh", None),
        ("relu(x - 1)", None),
        ("relu6", None),
        ("x + 1", None),
        ("x if x > 0 else x**2", None),
    ],
)
def test_homogeneity_is_read_off_the_pieces(name: str, degree: int | None) -> None:
    assert degree_of(activation(name)) == degree
    if degree is not None:
        sigma, x = activation(name), np.array([-2.0, -0.5, 0.25, 3.0])
        assert np.array_equal(sigma(2 * x), 2.0**degree * sigma(x))


@pytest.mark.parametrize("name", ["relu", "abs", "square", "step", "x*relu(x)"])
@pytest.mark.parametrize("rho", [-0.9, 0.2, 0.9])
def test_homogeneous_activations_agree_with_the_series(name: str, rho: float) -> None:
    found = one(name, S, T, rho)
    p = float(degree_of(activation(name)) or 0)
    unit = Dual(name)
    second = unit(rho) * (S * T) ** p
    both = found.correlation[0] * math.sqrt(np.prod(found.plain_variance)) + np.prod(found.plain_mean)
    assert both == pytest.approx(second, rel=1e-14, abs=1e-15)
    # a negligible summand takes the homogeneity away, and so the short cut
    general = pair_moments(activation(name) + activation("tanh(x)/10**30"), np.array([S, T]), np.array([rho]))
    assert general.correlation == pytest.approx(found.correlation, abs=3e-15)
    assert general.plain_variance == pytest.approx(found.plain_variance, rel=1e-14)


def test_a_callable_is_as_good_as_its_text() -> None:
    def bent(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0.5, 2 * x - 0.5, x)

    for rho in (0.4, 0.9999):
        text = correlation("2*x - 1/2 if x > 1/2 else x", S, T, rho)
        found = pair_moments(activation(bent, breakpoints=[0.5]), np.array([S, T]), np.array([rho]))
        assert found.correlation[0] == pytest.approx(text, abs=1e-13)


def test_an_argument_without_variance_is_a_constant() -> None:
    found = one("tanh(x + 1)", 0.0, 1.0, 0.0)
    assert found.plain_mean[0] == pytest.approx(math.tanh(1.0), rel=1e-15)
    assert (found.variance[0], found.correlation[0]) == (0.0, 0.0)
    assert one("step", 0.0, 1.0, 0.0).plain_mean.tolist() == pytest.approx([1.0, 0.5])


def test_a_constant_activation_has_no_correlation() -> None:
    found = pair_moments(activation("x*0 + 3"), np.array([1.0, 2.0]), np.array([0.5]))
    assert found.plain_mean == pytest.approx([3.0, 3.0], rel=1e-15)
    assert (found.plain_variance.tolist(), found.correlation.tolist()) == ([0.0, 0.0], [0.0])


def test_moments_beyond_float64_are_infinite_and_leave_correlations_alone() -> None:
    found = pair_moments(activation("tanh"), np.array([1.0, 2.0]), np.array([0.5]))
    huge = pair_moments(activation("tanh") * 10**300, np.array([1.0, 2.0]), np.array([0.5]))
    assert huge.plain_variance.tolist() == [math.inf, math.inf]
    assert huge.correlation == pytest.approx(found.correlation, rel=1e-15)


@given(
    st.lists(st.floats(0.05, 6.0), min_size=2, max_size=5),
    st.integers(0, 10**6),
    st.sampled_from(["tanh", "relu", "gelu", "hardtanh", "sigmoid", "cos"]),
)
def test_the_pairs_of_a_batch_form_a_gram_matrix(deviations: list[float], seed: int, name: str) -> None:
    n = len(deviations)
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1)[:, None]
    i, j = np.triu_indices(n, 1)
    rho = np.clip(np.sum(X[i] * X[j], axis=1), -0.95, 0.95)  # beyond, kinks cost milliseconds a pair
    found = pair_moments(activation(name), np.array(deviations), rho)
    assert np.all(np.abs(found.correlation) <= np.abs(rho) + 1e-14)  # Gebelein's inequality
    order = np.random.default_rng(seed).permutation(n)
    where = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(i, j, strict=True))}
    moved = [where[min(order[a], order[b]), max(order[a], order[b])] for a, b in zip(i, j, strict=True)]
    again = pair_moments(activation(name), np.array(deviations)[order], rho[moved])
    assert again.correlation == pytest.approx(found.correlation[moved], abs=1e-15)


def test_fractions_are_what_homogeneity_returns() -> None:
    assert isinstance(degree_of(activation("relu")), Fraction)


@pytest.mark.parametrize("rho", [-0.9, 0.3, 0.97])
def test_a_logarithm_by_its_closed_form(rho: float) -> None:
    # log|X| and log|Y| have the covariance asin(rho)^2/2, and a factor of X is a summand of its logarithm
    found = one("log(abs(x))", S, T, rho)
    assert found.plain_variance == pytest.approx(math.pi**2 / 8 * np.ones(2), rel=1e-14)
    assert found.correlation[0] == pytest.approx(math.asin(rho) ** 2 / 2 / (math.pi**2 / 8), abs=3e-15)


@pytest.mark.parametrize("rho", [-1.0, 0.999, 1.0])
def test_singular_points_are_refused_where_no_series_serves(rho: float) -> None:
    def root(x: np.ndarray) -> np.ndarray:
        return np.sqrt(np.abs(x))

    for sigma in ("log(abs(x))", "sqrt(abs(x - 0.3))", root):
        with pytest.raises(PrecisionError, match="singular point"):
            pair_moments(activation(sigma), np.array([S, T]), np.array([rho]))
    # of a callable that is known too: its integral disagrees with its series
    found = pair_moments(activation(root), np.array([S, T]), np.array([0.9]))
    assert found.correlation == pytest.approx(one("sqrt(abs(x))", S, T, 0.9).correlation, abs=1e-13)
