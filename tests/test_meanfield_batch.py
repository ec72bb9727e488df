"""Batch normalisation in the mean field, against integrals over directions that share nothing with the formula.

The direction of a Gaussian in the plane has the density 1/(2 pi sqrt(l_1 l_2)) (cos^2/l_1 + sin^2/l_2)^-1 in the basis
of its covariance, so that three inputs, centred, need one integral of mpmath over a circle; two need none, and more are
sampled.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._matrix_strategies import psd_matrices
from hermite import Dual, activation
from hermite.errors import ConstantActivationError
from meanfield._batch import batch_gram

Floats: TypeAlias = NDArray[np.float64]

HOMOGENEOUS: dict[str, Callable[[Any], Any]] = {
    "x": lambda x: x,
    "relu": lambda x: x if x > 0 else mp.mpf(0),
    "leaky_relu": lambda x: x if x > 0 else x / 100,
    "abs": abs,
    "square": lambda x: x * x,
    "relu(x)**2": lambda x: x * x if x > 0 else mp.mpf(0),
    "x*abs(x)": lambda x: x * abs(x),
    "x**3": lambda x: x**3,
    "x**8": lambda x: x**8,
    "sqrt(abs(x))": lambda x: mp.sqrt(abs(x)),
    "3*abs(x)**0.3": lambda x: 3 * abs(x) ** (mp.mpf(3) / 10),
    "step": lambda x: mp.mpf(x > 0),
    "sign": mp.sign,
    "2*step(x) - 1/4": lambda x: 2 * mp.mpf(x > 0) - mp.mpf(1) / 4,
}
EXACT = ["x", "2*x + 3", "pi*x", "relu", "abs", "square", "step", "sqrt(abs(x))"]


def normalised_first(sigma: str, K: Any, gain: Any = 1, bias_variance: float = 0.0) -> Floats:
    return batch_gram(
        activation(sigma),
        np.asarray(K),
        order="normalization-first",
        gain=Fraction(gain),
        bias_variance=bias_variance,
    )


def activated_first(sigma: str, K: Any, gain: Any = 1, bias_variance: float = 0.0) -> Floats:
    return batch_gram(
        activation(sigma), np.asarray(K), order="activation-first", gain=Fraction(gain), bias_variance=bias_variance
    )


def centring(n: int) -> Floats:
    return np.eye(n) - 1 / n


def covariance(n: int, seed: int) -> Floats:
    """Unequal variances and correlated inputs."""
    A = np.random.default_rng(seed).standard_normal((n, n + 2)) + 0.3
    A *= np.geomspace(0.4, 3.0, n)[:, None]
    return np.asarray(A @ A.T)


# --- one integral over a circle: three inputs ---------------------------------------------------------------


def over_directions(sigma: Callable[[Any], Any], K: Floats) -> Floats:
    """E sigma(BN z) sigma(BN z)^T of three inputs in 25 digits, split where a coordinate changes sign."""
    P = mp.eye(3) - mp.ones(3) / 3
    values, vectors = mp.eigsy(P * mp.matrix(K.tolist()) * P)
    a, b = values[1], values[2]
    v, w = vectors[:, 1], vectors[:, 2]
    half_turn = sorted(mp.atan2(-v[i], w[i]) % mp.pi for i in range(3))
    ends = [0, *half_turn, *(z + mp.pi for z in half_turn), 2 * mp.pi]

    def integrand(phi: Any, i: int, j: int) -> Any:
        c, s = mp.cos(phi), mp.sin(phi)
        density = 1 / (2 * mp.pi * mp.sqrt(a * b) * (c * c / a + s * s / b))
        return density * math.prod(sigma(mp.sqrt(3) * (v[k] * c + w[k] * s)) for k in (i, j))

    pairs = [[mp.quad(lambda phi, i=i, j=j: integrand(phi, i, j), ends) for j in range(3)] for i in range(3)]
    return np.array(pairs, dtype=float)


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_three_inputs_by_an_integral_over_a_circle(name: str) -> None:
    K = covariance(3, 1)
    with mp.workdps(25):
        wanted = over_directions(HOMOGENEOUS[name], K)
    bar = 2e-14 * np.sqrt(np.outer(np.diagonal(wanted), np.diagonal(wanted)))
    assert np.all(np.abs(normalised_first(name, K) - wanted) <= bar)


def test_a_wrong_power_of_the_length_would_be_seen() -> None:
    K = covariance(3, 1)
    with mp.workdps(25):
        wanted = over_directions(HOMOGENEOUS["relu"], K)
    C = centring(3) @ K @ centring(3)
    scale = np.sqrt(np.diagonal(C))
    without_length = np.outer(scale, scale) / np.trace(C) * 3 * np.asarray(Dual("relu")(C / np.outer(scale, scale)))
    assert np.max(np.abs(without_length - wanted)) > 1e-2


def test_nine_orders_of_magnitude_between_eigenvalues() -> None:
    A = np.array([[1.0, 0.0], [-1.0, 1e-4], [0.0, 0.0]])  # the direction is nearly that of the first column
    with mp.workdps(25):
        for name in ("relu", "square", "sqrt(abs(x))"):
            wanted = over_directions(HOMOGENEOUS[name], A @ A.T)
            # C is known to 1e-16, its small eigenvalue to 1e-7 of itself
            assert normalised_first(name, A @ A.T) == pytest.approx(wanted, rel=1e-6, abs=0)


# --- two inputs, and inputs on a line: the sign is all that is random ---------------------------------------


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_two_inputs_are_plus_and_minus_one(name: str) -> None:
    values = activation(name)(1.5 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    Y = normalised_first(name, covariance(2, 3), gain=Fraction(3, 2))
    np.testing.assert_allclose(Y, values.T @ values / 2, rtol=3e-14, atol=3e-14)


@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_inputs_on_a_line_have_one_direction(name: str) -> None:
    x = np.array([0.0, 1.0, 3.0, -2.5, 1.5])
    u = (x - x.mean()) / x.std()
    values = activation(name)(np.array([u, -u]))
    assert normalised_first(name, np.outer(x, x)) == pytest.approx(values.T @ values / 2, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("name", ["step", "sign", "relu", "2*step(x) - 1/4", "sqrt(abs(x))"])
def test_an_input_at_the_mean_of_the_batch_stays_there(name: str) -> None:
    X = np.array([[1.0, 0.1], [0.3, 1.0], [-0.7, -0.9], [0.0, 0.0]])
    X[3] = X[:3].mean(axis=0)
    Y, sigma = normalised_first(name, X @ X.T), activation(name)
    mean = float(np.mean(sigma(np.array([1.0, -1.0])))) if name in ("step", "sign", "2*step(x) - 1/4") else 0.0
    at_zero = float(sigma(0.0))
    assert Y[3] == pytest.approx([at_zero * mean] * 3 + [at_zero**2], abs=1e-15)


# --- known values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "ratio"), [(4, 0.169496588), (8, 0.250134933)])
def test_relu_keeps_its_fixed_point(n: int, ratio: float) -> None:
    """E relu^2 = 1/2 on the diagonal for every n (arXiv:1902.08129, equation (16)), J_1(-1/(n-1))/pi beside it."""
    with mp.workdps(30):
        theta = mp.acos(-mp.mpf(1) / (n - 1))
        exact = float((mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / mp.pi)
    assert exact == pytest.approx(ratio, abs=1e-9)
    Y = normalised_first("relu", np.eye(n))
    np.testing.assert_allclose(Y, 0.5 * (exact + (1 - exact) * np.eye(n)), rtol=0, atol=1e-14)
    assert normalised_first("relu", Y) == pytest.approx(Y, abs=1e-14)


def test_the_diagonal_of_a_fixed_point_by_the_printed_formula() -> None:
    # (B - 1)/(2 sqrt pi) Gamma(3/2) Gamma((B - 1)/2)/Gamma((B + 1)/2) is 1/2 for every batch size B
    for n in (2, 3, 5, 17):
        printed = (n - 1) / (2 * mp.sqrt(mp.pi)) * mp.gamma(1.5) * mp.gamma((n - 1) / 2) / mp.gamma((n + 1) / 2)
        assert float(printed) == pytest.approx(0.5, abs=1e-15)
        assert np.diagonal(normalised_first("relu", np.eye(n))) == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("n", [2, 3, 5, 16])
def test_a_linear_layer_has_the_fixed_point_of_equal_angles(n: int) -> None:
    fixed = n / (n - 1) * centring(n)
    assert normalised_first("x", fixed) == pytest.approx(fixed, abs=1e-14)
    assert activated_first("x", 0.3 * fixed + 7.0) == pytest.approx(fixed, abs=1e-13)


@pytest.mark.parametrize("n", [3, 4, 8])
def test_the_local_rate_of_a_linear_layer(n: int) -> None:
    """(n - 1)/(n + 1): lambda_k d/d lambda_k of E w_k^2/|w|^2 is E (w_k^2/|w|^2 - w_k^4/|w|^4) = (r - 1)/(r (r + 2)) at
    equal eigenvalues, r = n - 1, and -1/(r (r + 2)) for two different ones.
    """
    fixed, h = n / (n - 1) * centring(n), 1e-4
    v, w = np.eye(n)[0] - np.eye(n)[1], np.eye(n)[0] + np.eye(n)[1] - 2 * np.eye(n)[2]
    D = np.outer(v, v) / 2 - np.outer(w, w) / 6
    change = (normalised_first("x", fixed + h * D) - normalised_first("x", fixed - h * D)) / (2 * h)
    assert change == pytest.approx((n - 1) / (n + 1) * D, abs=1e-8)


def test_a_linear_layer_keeps_eigenvectors_and_draws_eigenvalues_together() -> None:
    K = centring(6) @ covariance(6, 5) @ centring(6)
    Y = normalised_first("x", K)
    np.testing.assert_allclose(K @ Y, Y @ K, rtol=0, atol=1e-12)
    before, after = np.linalg.eigvalsh(K)[1:], np.linalg.eigvalsh(Y)[1:]
    assert after[-1] / after[0] < before[-1] / before[0]
    assert np.sum(after) == pytest.approx(6, abs=1e-13)


@pytest.mark.parametrize(("gain", "bias_variance"), [(1, 0.0), (Fraction(3, 2), 0.5), (-2, 0.25)])
@pytest.mark.parametrize("order", ["normalization-first", "activation-first"])
def test_gain_bias_slope_and_intercept_of_a_linear_layer(gain: Fraction, bias_variance: float, order: str) -> None:
    K = covariance(4, 6)
    wanted = normalised_first("x", K)
    if order == "activation-first":
        # a bias that all inputs share, and an intercept, are the mean of the batch
        assert activated_first("3*x + 2", K, gain, bias_variance) == pytest.approx(wanted, rel=1e-14)
    else:
        wanted = 9 * (float(gain) ** 2 * wanted + bias_variance) + 4
        assert normalised_first("3*x + 2", K, gain, bias_variance) == pytest.approx(wanted, rel=1e-14)


def test_linear_in_other_words() -> None:
    K = covariance(4, 7)
    for name in ("pi*x", "sqrt(2)*x", "x*abs(x)/abs(x)", "max(x, x)"):
        factor = float(activation(name)(1.0)) ** 2
        assert normalised_first(name, K) == pytest.approx(factor * normalised_first("x", K), rel=1e-14)
        assert activated_first(name, K, bias_variance=0.5) == pytest.approx(normalised_first("x", K), rel=1e-14)


# --- a sample ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "p"), [("relu", 1), ("leaky_relu", 1), ("square", 2), ("step", 0), ("abs", 1)])
def test_six_inputs_against_a_sample(name: str, p: int) -> None:
    """Every entry within 4.9 standard errors of 2 10^5 draws: 2e-5 for 21 entries by chance, and the seed is fixed."""
    K, sigma = covariance(6, 8), activation(name)
    z = np.linalg.cholesky(K) @ np.random.default_rng(9).standard_normal((6, 200_000))
    u = 1.5 * (z - z.mean(axis=0)) / z.std(axis=0)
    Y = normalised_first(name, K, gain=Fraction(3, 2))
    for i, j in itertools.combinations_with_replacement(range(6), 2):
        products = sigma(u[i]) * sigma(u[j])
        assert abs(products.mean() - Y[i, j]) <= 4.9 * products.std() / math.sqrt(200_000)
    # a gain is the factor |gain|^(2p)
    assert normalised_first(name, K, gain=-1) == pytest.approx(Y / 1.5 ** (2 * p), rel=1e-14)


# --- properties ---------------------------------------------------------------------------------------------


@given(psd_matrices(), st.sampled_from(EXACT), st.floats(1e-6, 1e6))
def test_the_result_is_a_covariance_that_sees_neither_scale_nor_offset(K: Floats, name: str, scale: float) -> None:
    n = len(K)
    C = centring(n) @ K @ centring(n)
    if np.max(np.diagonal(C)) < 1e-6 * np.max(np.diagonal(K)) or not np.max(np.diagonal(K)) > 0:
        return  # refused, or mostly rounding
    Y = normalised_first(name, K)
    assert np.array_equal(Y, Y.T)
    assert np.linalg.eigvalsh(Y)[0] >= -1e-12 * np.max(np.diagonal(Y))
    if name in ("x", "relu", "abs", "square"):  # a jump sees the root of what is rounded next to +-1
        rounded = 1e-9 * np.max(np.diagonal(Y))
        assert normalised_first(name, scale * K) == pytest.approx(Y, abs=rounded)
        shift = np.max(np.diagonal(K)) * np.ones((n, n))
        assert normalised_first(name, K + shift) == pytest.approx(Y, abs=rounded)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_squares_over_the_batch_sum_to_the_number_of_inputs(n: int) -> None:
    K = covariance(n, 10)
    for name, share in (("x", 1.0), ("abs", 1.0), ("relu", 0.5), ("leaky_relu", 0.50005), ("sign", 1.0)):
        assert np.trace(normalised_first(name, K)) == pytest.approx(share * n, rel=1e-14)
    # relu = (x + |x|)/2, and x is odd while |x| is even: the covariances add
    both = normalised_first("x", K) + normalised_first("abs", K)
    assert normalised_first("relu", K) == pytest.approx(both / 4, abs=1e-13)


def test_inputs_in_another_order_give_the_matrix_in_that_order() -> None:
    K, order = covariance(5, 11), [3, 0, 4, 1, 2]
    for name in EXACT:
        Y = normalised_first(name, K[np.ix_(order, order)])
        np.testing.assert_allclose(Y, normalised_first(name, K)[np.ix_(order, order)], rtol=1e-12)


def test_a_low_rank_is_no_trouble() -> None:
    A = np.random.default_rng(12).standard_normal((7, 2))
    A[5] = A[4]  # two inputs that coincide stay equal
    for name in ("x", "relu", "square", "step", "sqrt(abs(x))"):
        Y = normalised_first(name, A @ A.T)
        assert Y[4] == pytest.approx(Y[5], abs=1e-13)
        assert Y[4, 5] == pytest.approx(Y[4, 4], abs=1e-13)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu(x) + x**2", "relu(x - 1)", "relu(x) + 1", "relu6"])
def test_what_is_not_homogeneous_is_refused_with_what_is_exact(name: str) -> None:
    with pytest.raises(ValueError, match=r"exact for linear activations.*homogeneous.*normalization='layer'"):
        normalised_first(name, np.eye(3))


def test_homogeneous_functions_with_a_bias_or_activated_first_are_refused() -> None:
    with pytest.raises(ValueError, match="'relu' with order='normalization-first' and bias_variance > 0"):
        normalised_first("relu", np.eye(3), bias_variance=0.1)
    with pytest.raises(ValueError, match="'relu' with order='activation-first': it is exact"):
        activated_first("relu", np.eye(3))


def test_a_callable_is_refused_whatever_it_computes() -> None:
    sigma = activation(lambda x: np.maximum(x, 0.0))
    with pytest.raises(ValueError, match="no exact mean field"):
        batch_gram(sigma, np.eye(3), order="normalization-first", gain=Fraction(1), bias_variance=0.0)


def test_powers_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="no exact mean field"):
        normalised_first("abs(x)**(-1/4)", np.eye(3))


@pytest.mark.parametrize("K", [np.zeros((3, 3)), np.ones((3, 3)), 7.3 * np.ones((5, 5))])
@pytest.mark.parametrize("name", ["x", "relu", "step"])
def test_inputs_that_all_coincide_are_refused(name: str, K: Floats) -> None:
    with pytest.raises(ValueError, match=rf"there is none: all {len(K)} inputs coincide"):
        normalised_first(name, K)
    with pytest.raises(ValueError, match="there is one input"):
        normalised_first(name, np.eye(1))


def test_a_constant_is_refused() -> None:
    with pytest.raises(ConstantActivationError):
        normalised_first("0*x + 2", np.eye(3))
