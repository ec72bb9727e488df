"""Layers of every kind on covariance matrices of any diagonal, against closed forms of relu, erf and exp."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermite import activation
from hermite.errors import ConstantActivationError, PrecisionError
from meanfield import Layer, correlation, trajectory
from meanfield._covariance import branch

NORMALIZATIONS = ("layer", "rms", "center", "constant", "none")
ORDERS = ("activation-first", "normalization-first")
_TOLERANCE = 4e-15  # relative to the largest entry

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def inputs(n: int = 5, seed: int = 0) -> Matrix:
    """The Gram matrix of inputs of different norms, two of them close."""
    X = np.random.default_rng(seed).normal(size=(n, 12))
    X[1] = X[0] + 0.1 * X[1]
    X *= np.array([0.4, 1.0, 2.5, 1.0, 0.8])[:n, None]
    return X @ X.T / 12


def relu_moments(Q: Matrix) -> tuple[Matrix, Matrix]:
    """Means and second moments of relu over N(0, Q), by the arc-cosine kernel of degree 1 (Cho and Saul 2009)."""
    s = np.sqrt(np.diagonal(Q))
    theta = np.arccos(np.clip(Q / np.outer(s, s), -1, 1))
    np.fill_diagonal(theta, 0.0)
    J = np.sin(theta) + (math.pi - theta) * np.cos(theta)
    return s / math.sqrt(2 * math.pi), np.outer(s, s) * J / (2 * math.pi)


def exp_moments(Q: Matrix) -> tuple[Matrix, Matrix]:
    q = np.diagonal(Q)
    return np.exp(q / 2), np.exp((q[:, None] + q[None, :]) / 2 + Q)


def erf_moments(Q: Matrix) -> tuple[Matrix, Matrix]:
    """Williams 1997."""
    d = np.sqrt(1 + 2 * np.diagonal(Q))
    return np.zeros(len(Q)), 2 / math.pi * np.arcsin(2 * Q / np.outer(d, d))


def expected(moments: Any, K: Matrix, kind: str, order: str, gain: float, bias: float, skip: float) -> Matrix:
    """The definition, written out."""
    if order == "normalization-first":
        d = np.sqrt(np.diagonal(K))
        C = K / np.outer(d, d) if kind in ("layer", "rms") else K
        m, S = moments(gain**2 * C + bias)
        Y = S
    else:
        m, S = moments(gain**2 * K + bias)
        unit_mean, unit_second = moments(np.array([[gain**2 + bias]]))
        v = np.diagonal(S) - m * m
        Y = {
            "layer": (S - np.outer(m, m)) / np.sqrt(np.outer(v, v)),
            "rms": S / np.sqrt(np.outer(np.diagonal(S), np.diagonal(S))),
            "center": S - np.outer(m, m),
            "constant": (S - unit_mean[0] * (m[:, None] + m[None, :]) + unit_mean[0] ** 2)
            / (unit_second[0, 0] - unit_mean[0] ** 2),
            "none": S,
        }[kind]
    return skip**2 * K + (1 - skip**2) * Y


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("gain", "bias", "skip"), [(1, 0, 0), (1.5, 0.25, 0), (-0.8, 0, 0.6), (1.2, 0.1, 0.3)])
@pytest.mark.parametrize(("name", "moments"), [("relu", relu_moments), ("erf", erf_moments), ("exp", exp_moments)])
def test_every_option_against_closed_forms(
    name: str, moments: Any, kind: Any, order: Any, gain: float, bias: float, skip: float
) -> None:
    layer = Layer(name, normalization=kind, order=order, gain=gain, bias_variance=bias, skip=skip)
    for K in (inputs(), correlation(inputs()), 2.25 * correlation(inputs(seed=1))):
        K = K if name != "exp" else K / 4  # the closed form itself would lose digits
        exact = expected(moments, K, kind, order, gain, bias, skip)
        found = layer(K)
        # the arc cosine loses digits next to 1, and the difference of moments those of the mean
        tolerance = {"relu": 2e-14, "erf": _TOLERANCE, "exp": 4e-14}[name]
        assert np.abs(found - exact).max() <= tolerance * np.abs(exact).max()
        assert np.array_equal(found, found.T)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["tanh", "gelu", "hardtanh", "sigmoid"])
def test_equal_norms_by_the_map_and_by_pairs_are_the_same(name: str, kind: Any, order: Any) -> None:
    C = correlation(inputs())
    layer = Layer(name, normalization=kind, order=order, gain=1.3, bias_variance=0.2)
    assert layer(C) == pytest.approx(branch(layer, C), abs=_TOLERANCE)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_the_diagonal_follows_the_map_of_variances(kind: Any, order: Any) -> None:
    layer = Layer("softplus", normalization=kind, order=order, gain=1.2, bias_variance=0.3, skip=0.4)
    K = inputs()
    assert np.diagonal(layer(K)) == pytest.approx(layer.variances(np.diagonal(K)), rel=4e-15)


def test_a_stack_is_a_stack() -> None:
    layer = Layer("tanh", normalization="none", bias_variance=0.1)
    stack = np.array([[inputs(), 2 * inputs()], [correlation(inputs()), inputs(seed=3)]])
    found = layer(stack)
    for i, j in itertools.product(range(2), repeat=2):
        assert np.array_equal(found[i, j], layer(stack[i, j]))


@pytest.mark.parametrize("kind", NORMALIZATIONS)
@pytest.mark.parametrize("name", ["relu", "hardtanh", "tanh"])
def test_inputs_that_coincide_stay_so(name: str, kind: Any) -> None:
    K = inputs()[np.ix_([0, 0, 2], [0, 0, 2])]
    for order, G in itertools.product(ORDERS, (K, correlation(K))):
        for options in ({}, {"bias_variance": 0.1, "skip": 0.3}):
            Y = Layer(name, normalization=kind, order=order, **options)(G)  # type: ignore[arg-type]
            assert Y[0, 0] == Y[0, 1] == Y[1, 1]


def test_an_input_of_norm_zero() -> None:
    K = np.array([[0.0, 0.0], [0.0, 1.0]])
    for layer in (
        Layer("relu"),
        Layer("tanh", normalization="rms"),
        Layer("relu", order="normalization-first", bias_variance=1),
        Layer("relu", normalization="rms", order="normalization-first"),
    ):
        with pytest.raises(ValueError, match="diagonal entry 0 at index 0: an input of norm 0 cannot be normalised"):
            layer(K)
    assert Layer("sigmoid", normalization="none")(K)[0, 0] == pytest.approx(0.25, rel=1e-15)
    assert Layer("relu", normalization="none")(K).tolist() == [[0.0, 0.0], [0.0, 0.5]]
    # a bias gives it a direction
    Y = Layer("relu", bias_variance=1)(K)
    assert np.diagonal(Y).tolist() == [1.0, 1.0]
    assert Y[0, 1] == pytest.approx(expected(relu_moments, K, "layer", ORDERS[0], 1, 1, 0)[0, 1], abs=1e-14)


def test_what_sigma_makes_constant_cannot_be_normalised() -> None:
    with pytest.raises(ConstantActivationError, match="sigma is constant on input 0"):
        Layer("x if x > 8 else 0", normalization="rms")([[1e-6, 0.0], [0.0, 16.0]])


@given(
    st.sampled_from(["relu", "tanh", "gelu", "sigmoid"]),
    st.sampled_from(NORMALIZATIONS),
    st.sampled_from(ORDERS),
    st.fractions(0, 2, max_denominator=8),
    st.fractions(0, "7/8", max_denominator=8),
    st.integers(0, 10**6),
)
def test_layers_make_gram_matrices_and_do_not_see_the_order_of_inputs(
    name: str, kind: Any, order: Any, bias: Any, skip: Any, seed: int
) -> None:
    layer = Layer(name, normalization=kind, order=order, bias_variance=bias, skip=skip)
    K = inputs(seed=seed)
    Y, shuffled = layer(K), np.random.default_rng(seed).permutation(len(K))
    assert np.linalg.eigvalsh(Y)[0] >= -1e-13 * Y.max()
    assert layer(K[np.ix_(shuffled, shuffled)]) == pytest.approx(Y[np.ix_(shuffled, shuffled)], abs=_TOLERANCE)


# ---- trajectories ---------------------------------------------------------------------------------------------

MOVING = [
    Layer("relu"),
    Layer("tanh", normalization="none", gain=1.5, bias_variance=0.0025),
    Layer("gelu", normalization="center", gain=2),
    Layer("selu", normalization="constant"),
    Layer("elu", order="normalization-first", skip=0.5),
    Layer("gelu", order="normalization-first"),
    Layer("identity", normalization="batch"),
    Layer("relu", normalization="batch", order="normalization-first"),
]


@pytest.mark.parametrize("layer", MOVING, ids=str)
@pytest.mark.parametrize("G", [inputs(), correlation(inputs())], ids=["norms", "unit"])
def test_a_trajectory_is_the_layer_again_and_again(layer: Layer, G: Matrix) -> None:
    start = G
    path = trajectory(layer, start, 6)
    for l in range(7):
        C = correlation(G)
        off = np.abs(C[~np.eye(len(C), dtype=bool)]).max()
        assert path.max_correlation[l] == pytest.approx(off, abs=1e-13)
        if layer.normalization != "batch":
            sign, log_det = np.linalg.slogdet(G)
            gap = math.log(np.trace(G) / len(G)) - log_det / len(G)
            assert sign == 1.0
            assert path.isometry_gap[l] == pytest.approx(gap, abs=1e-10)
            assert path.log_isometry_gap[l] == pytest.approx(math.log(path.isometry_gap[l]), rel=1e-14)
        G = layer(G) if l < 6 else G
    assert path.gram == pytest.approx(G, abs=1e-13)
    assert set(path.status) == {"resolved"}


def test_gaps_of_batch_normalisation_are_those_beside_the_ones_vector() -> None:
    layer = Layer("identity", normalization="batch")
    path = trajectory(layer, inputs(), 3)
    G = layer(layer(layer(inputs())))
    eigenvalues = np.linalg.eigvalsh(G)
    assert abs(eigenvalues[0]) < 1e-14  # the ones vector
    exact = math.log(eigenvalues[1:].mean()) - np.log(eigenvalues[1:]).mean()
    assert path.isometry_gap[3] == pytest.approx(exact, rel=1e-12)


def test_mixed_networks_go_through_every_kind_of_layer() -> None:
    layers = [
        Layer("relu", normalization="none"),
        Layer("tanh"),
        Layer("gelu", normalization="rms"),
        Layer("relu", skip=0.5),
    ]
    G = inputs()
    for layer in layers:
        G = layer(G)
    assert trajectory(layers, inputs()).gram == pytest.approx(G, abs=1e-14)


def test_norms_are_forgotten_after_one_layer_and_small_correlations_followed() -> None:
    # from layer 1 on the map of correlations alone decides: no noise floor, logarithms to the end
    path = trajectory(Layer("sin"), inputs(), 3000, gap_layers=[0, 1, 3000])
    unit = trajectory(Layer("sin"), Layer("sin")(inputs()), 2999, gap_layers=[2999])
    assert path.log_isometry_gap[3000] == pytest.approx(unit.log_isometry_gap[2999], abs=1e-9)
    assert path.log_isometry_gap[3000] < -900


def test_equal_norms_that_stay_are_as_good_as_unit_norms() -> None:
    C = correlation(inputs())
    kept = Layer("relu", normalization="none", gain=2, bias_variance=0)  # q -> 2 q: nothing stays
    critical = Layer("abs", normalization="none")
    assert trajectory(critical, 4 * C, 9).gram == pytest.approx(4 * trajectory(critical, C, 9).gram, rel=1e-15)
    path = trajectory(kept, C, 3)
    assert np.diagonal(path.gram) == pytest.approx(8.0 * np.ones(5), rel=1e-14)
    rms = trajectory(Layer("relu", normalization="rms"), C, 3)
    assert path.max_correlation == pytest.approx(rms.max_correlation, rel=1e-14)


def test_the_norm_of_relu_with_constants_drifts_away() -> None:
    # at 1 the slope is 1 with positive curvature; above it the norm grows by pi/(pi - 1) in each layer
    layer = Layer("relu", normalization="constant")
    q = np.array([1.0, 1.5])
    for _ in range(100):
        before, q = q, layer.variances(q)
    assert q[0] == 1.0
    assert q[1] / before[1] == pytest.approx(math.pi / (math.pi - 1), rel=1e-6)


def test_a_complement_needs_a_diagonal_that_stays() -> None:
    with pytest.raises(ValueError, match="complement needs a network in which the diagonal"):
        trajectory(Layer("relu"), inputs(), 3, complement=1 - np.abs(correlation(inputs())))


def test_progress_and_gap_layers_where_the_diagonal_moves() -> None:
    seen: list[tuple[int, int]] = []
    path = trajectory(MOVING[1], inputs(), 5, gap_layers=[0, 5], progress=lambda *x: seen.append(x))
    assert seen == [(l, 5) for l in range(6)]
    assert np.isnan(path.isometry_gap[1:5]).all()
    assert np.isfinite(path.isometry_gap[[0, 5]]).all()


def test_coincident_inputs_are_singular_at_every_layer() -> None:
    G = inputs()[np.ix_([0, 0, 2], [0, 0, 2])]
    for layer in MOVING[:5]:
        path = trajectory(layer, G, 4)
        assert set(path.status) == {"singular"}, layer
        assert np.isinf(path.potential).all(), layer


@pytest.mark.parametrize(("gain", "bias", "skip"), [("3", "0.1", "0"), ("1.2", "0", "0.5"), ("4", "0", "0")])
def test_error_bars_cover_where_the_diagonal_moves(gain: str, bias: str, skip: str) -> None:
    """erf without normalisation by Williams' kernel in 60 digits; two inputs nearly coincide and are torn apart."""
    G0 = [[1.5, 1.4999, 0.2], [1.4999, 1.5, 0.2], [0.2, 0.2, 0.5]]
    layer = Layer("erf", normalization="none", gain=gain, bias_variance=bias, skip=skip)
    path = trajectory(layer, G0, 25)
    with mpmath.workdps(60):
        g2, b2, keep = mpmath.mpf(gain) ** 2, mpmath.mpf(bias), mpmath.mpf(skip) ** 2
        G = mpmath.matrix(G0)
        for l in range(26):
            correlations = [abs(G[i, j]) / mpmath.sqrt(G[i, i] * G[j, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
            gap = mpmath.log((G[0, 0] + G[1, 1] + G[2, 2]) / 3) - mpmath.log(mpmath.det(G)) / 3
            assert abs(max(correlations) - path.max_correlation[l]) <= path.max_correlation_error[l] + 1e-16
            assert abs(gap - path.isometry_gap[l]) <= path.isometry_gap_error[l]
            if l > 5:  # entries are known to a few ulps, times what the layers make of them
                assert path.max_correlation_error[l] < 1e-10
            Q = [[g2 * G[i, j] + b2 for j in range(3)] for i in range(3)]
            size = [mpmath.sqrt(1 + 2 * Q[i][i]) for i in range(3)]
            for i, j in itertools.product(range(3), repeat=2):
                Y = 2 / mpmath.pi * mpmath.asin(2 * Q[i][j] / (size[i] * size[j]))
                G[i, j] = keep * G[i, j] + (1 - keep) * Y


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Layer("relu", normalization="none", gain=10), "layer 18[12]: the Gram matrix after .* leaves float64"),
        (Layer("square", normalization="none", gain=2), "layer [78]: the Gram matrix after .* leaves float64"),
        (Layer("exp", normalization="none"), "layer [34]: exp at"),
        (Layer("relu", normalization="none", gain="0.1"), "layer 12[678]: the diagonal of G has fallen below 1e-290"),
    ],
    ids=str,
)
def test_networks_that_leave_float64_say_at_which_layer(layer: Layer, message: str) -> None:
    with pytest.raises(PrecisionError, match=message):
        trajectory(layer, inputs(), 1000, gap_layers=[])


def test_norms_at_the_ends_of_float64() -> None:
    G = np.array([[1e-300, 0.0], [0.0, 1e300]])
    assert np.array_equal(Layer("relu")(G), np.eye(2))
    assert Layer("tanh")(G) == pytest.approx(np.eye(2), abs=1e-15)
    # next to 0 tanh is linear, and of a large argument it is the sign
    Y = Layer("tanh", normalization="none")([[1e-20, 5e-7], [5e-7, 1e14]])
    assert Y[0, 0] == pytest.approx(1e-20, rel=1e-14, abs=0)
    assert Y[1, 1] == pytest.approx(1.0, rel=1e-6)
    assert Y[0, 1] == pytest.approx(1e-10 * 5e-4 * math.sqrt(2 / math.pi), rel=1e-6, abs=0)


def test_constants_of_a_constant_activation() -> None:
    for G in (inputs(), np.eye(2)):
        with pytest.raises(ConstantActivationError):
            Layer("0*x", normalization="constant")(G)


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_normalisation_does_not_see_the_scale_of_sigma(name: str, kind: Any) -> None:
    plain = Layer(name, normalization=kind)(inputs())
    for factor in (Fraction(1, 10**200), Fraction(10) ** 200):
        assert Layer(factor * activation(name), normalization=kind)(inputs()) == pytest.approx(plain, abs=1e-15)


@pytest.mark.parametrize("kind", NORMALIZATIONS)
def test_a_constant_beside_sigma_costs_no_digits(kind: Any) -> None:
    bare, lifted = Layer("tanh", normalization=kind), Layer("10**8 + tanh(x)", normalization=kind)
    if kind in ("layer", "center", "constant"):
        assert lifted(inputs()) == pytest.approx(bare(inputs()), abs=1e-15)
    else:
        assert lifted(inputs()) == pytest.approx(np.full((5, 5), 1.0 if kind == "rms" else 1e16), rel=1e-15)


@pytest.mark.parametrize("name", ["sigmoid", "exp", "cos(x) + sin(x)"])
def test_a_variation_that_the_mean_hides_is_refused(name: str) -> None:
    for kind in ("layer", "center"):
        with pytest.raises(PrecisionError, match="the mean of sigma hides how it varies"):
            Layer(name, normalization=kind)(1e-20 * inputs())  # type: ignore[arg-type]
    assert Layer(name, normalization="none")(1e-20 * inputs()) == pytest.approx(
        np.full((5, 5), float(activation(name)(0.0)) ** 2), rel=1e-9
    )
    # tanh has no mean to hide it: small inputs are mapped linearly
    assert Layer("tanh")(1e-20 * inputs()) == pytest.approx(correlation(inputs()), abs=1e-14)


@pytest.mark.parametrize("gain", [1, 2, 0.3])
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "gelu", "exp"])
def test_one_is_kept_exactly(name: str, gain: float) -> None:
    for options in ({}, {"skip": 0.5}, {"bias_variance": 0.3}, {"order": "normalization-first"}):
        layer = Layer(name, normalization="rms", gain=gain, **options)  # type: ignore[arg-type]
        assert layer.map(1.0) == 1.0
        G = layer(np.ones((2, 2)))
        assert G[0, 0] == G[0, 1]
