"""The map of correlations with a bias and a skip, against closed forms of erf in 40 digits, and along a network."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meanfield import Layer, correlation, trajectory

GAIN, BIAS, SKIP = "1.5", "0.25", "0.6"
OPTIONS = [{"bias_variance": BIAS}, {"skip": SKIP}, {"bias_variance": BIAS, "skip": SKIP}]
RMS = {"normalization": "rms"}


def erf_map(rho: Any, bias: str, skip: str) -> Any:
    """The exact map of erf(1.5 z + b) at mpmath's precision."""
    g2, b2, keep = mpmath.mpf(GAIN) ** 2, mpmath.mpf(bias), mpmath.mpf(skip) ** 2
    total = g2 + b2

    def dual(t: Any) -> Any:
        return mpmath.asin(2 * total * t / (1 + 2 * total))

    return keep * rho + (1 - keep) * dual((g2 * rho + b2) / total) / dual(1)


def erf_layer(bias: str, skip: str) -> Layer:
    return Layer("erf", gain=GAIN, bias_variance=bias, skip=skip)


CASES = [(bias, skip) for bias in ("0", BIAS, "1e-9") for skip in ("0", SKIP)]


@pytest.mark.parametrize(("bias", "skip"), CASES)
@pytest.mark.parametrize("rho", [-1.0, -0.7, -1e-4, 0.0, 1e-12, 0.3, 0.999, 1.0])
def test_the_map(bias: str, skip: str, rho: float) -> None:
    with mpmath.workdps(40):
        exact = float(erf_map(mpmath.mpf(rho), bias, skip))
    found = erf_layer(bias, skip).map(rho)
    assert found == pytest.approx(exact, abs=5e-16)
    if rho > 0:
        assert found == pytest.approx(exact, rel=2e-15)


@pytest.mark.parametrize(("bias", "skip"), CASES)
@pytest.mark.parametrize("delta", [1e-300, 1e-40, 1e-16, 1e-8, 1e-3, 0.5, 1.0])
def test_the_complement_keeps_its_digits(bias: str, skip: str, delta: float) -> None:
    with mpmath.workdps(340):
        exact = float(1 - erf_map(1 - mpmath.mpf(delta), bias, skip))
    found = float(erf_layer(bias, skip).step.complement(np.array([delta]))[0])
    assert found == pytest.approx(exact, rel=4e-15, abs=0)


@pytest.mark.parametrize(("bias", "skip"), CASES)
@pytest.mark.parametrize("delta", [1e-300, 1e-16, 1e-3, 0.5])
def test_the_map_next_to_minus_one(bias: str, skip: str, delta: float) -> None:
    with mpmath.workdps(340):
        exact = float(erf_map(mpmath.mpf(delta) - 1, bias, skip))
    found = float(erf_layer(bias, skip).step.from_minus_one(np.array([delta]))[0])
    assert found == pytest.approx(exact, abs=1e-15)


@pytest.mark.parametrize(("bias", "skip"), CASES)
@pytest.mark.parametrize("rho", [-1.0, -0.7, 0.0, 0.3, 0.999, 1.0])
def test_the_slope(bias: str, skip: str, rho: float) -> None:
    with mpmath.workdps(40):
        exact = float(mpmath.diff(lambda r: erf_map(r, bias, skip), mpmath.mpf(rho)))
    assert erf_layer(bias, skip).slope(rho) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("options", OPTIONS)
def test_relu_with_bias_and_skip_by_the_arc_cosine_kernel(options: dict[str, str]) -> None:
    bias, keep = float(options.get("bias_variance", 0)), float(options.get("skip", 0)) ** 2
    for rho in (-0.5, 0.2, 0.9):
        t = (rho + bias) / (1 + bias)
        angle = math.acos(t)
        kernel = (math.sin(angle) + (math.pi - angle) * t) / math.pi
        for kind, exact in (("rms", kernel), ("layer", (kernel - 1 / math.pi) / (1 - 1 / math.pi))):
            found = Layer("relu", normalization=kind, **options).map(rho)  # type: ignore[arg-type]
            assert found == pytest.approx(keep * rho + (1 - keep) * exact, abs=1e-15)


@pytest.mark.parametrize("options", [{}, *OPTIONS, RMS, RMS | OPTIONS[2]])
def test_scalars_arrays_and_what_lies_beyond_one(options: dict[str, Any]) -> None:
    layer = Layer("tanh", **options)
    assert isinstance(layer.map(0.5), float)
    assert isinstance(layer.slope(0.5), float)
    assert np.shape(layer.map([[0.1, 0.2]])) == (1, 2)
    assert np.isnan(layer.map(math.nan))
    assert layer.map(1.0) == 1.0 == layer.map(1 + 1e-15)
    for rho in (1.001, -1.001, 1e300):
        with pytest.raises(ValueError, match=rf"rho must lie in \[-1, 1\], got {rho}".replace("+", r"\+")):
            layer.map(rho)
        with pytest.raises(ValueError, match=r"rho must lie in \[-1, 1\], got "):
            layer.slope(rho)


def test_slopes_of_jumps_are_infinite_at_one() -> None:
    for options in ({}, *OPTIONS, RMS):
        layer = Layer("step", **options)  # type: ignore[arg-type]
        assert layer.slope(1.0) == math.inf
        assert math.isfinite(float(layer.slope(0.999)))


@pytest.mark.parametrize(
    ("layer", "parity", "first"),
    [
        (Layer("tanh"), -1, 1),
        (Layer("tanh", skip=SKIP), -1, 1),
        (Layer("tanh", bias_variance=BIAS), 0, 0),
        (Layer("cos"), 1, 2),
        (Layer("cos", skip=SKIP), 0, 1),
        (Layer("cos", normalization="rms"), 1, 0),
        (Layer("He(3, x)"), -1, 3),
        (Layer("He(3, x)", skip=SKIP), -1, 1),
        (Layer("relu", normalization="rms"), 0, 0),
    ],
    ids=str,
)
def test_parity_and_first_power(layer: Layer, parity: int, first: int) -> None:
    step, tiny = layer.step, np.array([1e-6])
    assert step.parity == parity
    p, weight, _ = step.first
    assert p == first
    if p:
        assert float(step(tiny)[0]) == pytest.approx(weight * 1e-6**p, rel=1e-5)
    else:
        assert weight == step.at_zero == pytest.approx(float(layer.map(0.0)), abs=1e-16)
    rho = np.array([0.3, 0.8, 1.0])
    if parity:
        assert step(-rho) == pytest.approx(parity * step(rho), abs=1e-15)


def test_the_first_two_coefficients_with_a_skip() -> None:
    keep = 0.36
    assert Layer("He(2, x)", skip=SKIP).step.first == pytest.approx((1, keep, 1 - keep), rel=1e-15)
    assert Layer("He(3, x)", skip=SKIP).step.first == pytest.approx((1, keep, 0.0), rel=1e-15)
    p, first, second = Layer("exp", skip=SKIP).step.first  # w_k = 1/(k! (e - 1))
    assert (p, first, second) == pytest.approx((1, keep + 0.64 / math.expm1(1), 0.32 / math.expm1(1)), rel=1e-14)


@pytest.mark.parametrize("options", [*OPTIONS, RMS | OPTIONS[0], RMS | OPTIONS[2]])
@pytest.mark.parametrize("name", ["relu", "tanh", "exp", "cos", "step"])
def test_trajectories_are_the_layer_again_and_again(name: str, options: dict[str, Any]) -> None:
    layer = Layer(name, **options)
    X = np.random.default_rng(1).normal(size=(5, 12))
    X[1] = X[0] + 0.05 * X[1]  # carried by its distance
    X[2] = -X[0] + 0.05 * X[2]
    G = correlation(X @ X.T)
    path = trajectory(layer, G, 8)
    for l in range(1, 9):
        G = layer(G)
        off = np.abs(G[~np.eye(5, dtype=bool)]).max()
        assert path.max_correlation[l] == pytest.approx(off, abs=1e-13)
    assert path.gram == pytest.approx(G, abs=1e-13)


def test_a_skip_slows_the_decay_as_its_weights_say() -> None:
    # r_res = a^2 + (1 - a^2) r, and gaps fall like r_res^(2 l)
    layer = Layer("sin", skip=SKIP)
    path = trajectory(layer, [[1, 0.5], [0.5, 1]], 400)
    r = 0.36 + 0.64 * (1 / math.sinh(1))
    assert layer.linearity == pytest.approx(r, rel=1e-14)
    assert layer.isometry_strength == pytest.approx(2 - r, rel=1e-14)
    steps = np.diff(path.log_isometry_gap)
    assert steps[-1] == pytest.approx(2 * math.log(r), rel=1e-12)
    deep = trajectory(layer, [[1, 0.5], [0.5, 1]], 20_000, gap_layers=[20_000])
    assert deep.log_isometry_gap[-1] == pytest.approx(path.log_isometry_gap[-1] + 19_600 * 2 * math.log(r), rel=1e-11)


def test_a_skip_beside_a_vanishing_first_coefficient() -> None:
    # kappa = a^2 rho + (1 - a^2) f, f = w rho^2 + ...: linear at last, where cos alone is doubly exponential
    path = trajectory(Layer("cos", skip=SKIP), [[1, 0.5], [0.5, 1]], 200)
    assert np.diff(path.log_isometry_gap)[-1] == pytest.approx(2 * math.log(0.36), rel=1e-12)


@given(
    st.sampled_from(["relu", "tanh", "gelu", "exp", "step", "square"]),
    st.sampled_from(["layer", "rms"]),
    st.fractions(0, 3, max_denominator=100),
    st.fractions(0, "9/10", max_denominator=20),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_maps_are_absolutely_monotone_kernels(
    name: str, kind: Any, bias: Any, skip: Any, rho: float, other: float
) -> None:
    layer = Layer(name, normalization=kind, bias_variance=bias, skip=skip)
    low, high = sorted((rho, other))
    middle = 0.5 * (low + high)
    at_low, at_high, between = (float(layer.map(x)) for x in (low, high, middle))
    assert 0 <= at_low <= at_high + 1e-15 <= 1 + 2e-15
    if low < middle < high:
        share = (middle - low) / (high - low)  # half, but for rounding
        assert between <= (1 - share) * at_low + share * at_high + 2e-15  # convex
    assert abs(float(layer.map(-high))) <= at_high + 1e-15
    assert layer.step.complement(np.array([1 - high]))[0] == pytest.approx(1 - at_high, abs=1e-15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization": "batchnorm"}, "normalization must be one of 'layer', .*'batch', got 'batchnorm'"),
        ({"order": "pre"}, "order must be one of 'activation-first', 'normalization-first', got 'pre'"),
        ({"gain": 0}, "gain must not be 0"),
        ({"gain": math.inf}, "gain must be finite"),
        ({"bias_variance": -0.1}, "bias_variance must not be negative, got -0.1"),
        ({"bias_variance": "many"}, "bias_variance must be a decimal or a fraction"),
        ({"skip": 1}, r"skip must lie in \[0, 1\), got 1"),
        ({"skip": -0.5}, r"skip must lie in \[0, 1\), got -0.5"),
        ({"skip": None}, "skip must be a real number, got None"),
        ({"skip": "1e400"}, r"skip must lie in \[0, 1\), got 1e400 or more"),
        ({"gain": "-1e400"}, "gain must lie between 1e-150 and 1e150 in size, .* got -1e400 or more"),
        ({"gain": 1e-300}, "gain must lie between 1e-150 and 1e150 in size, .* got 1e-300"),
        ({"bias_variance": "1e400"}, "bias_variance must lie between 1e-150 and 1e150 in size, .* got 1e400 or more"),
        ({"bias_variance": "-1e400"}, "bias_variance must not be negative, got -1e400 or more"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layer("relu", **options)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (Layer("relu", normalization="none", gain=2), "grows without bound; variance_map"),
        (Layer("tanh", normalization="none", gain=0.5), "falls to 0; variance_map"),
        (Layer("relu", normalization="batch", order="normalization-first"), "depends on all inputs"),
    ],
    ids=str,
)
def test_what_has_no_map_of_correlations_says_why(layer: Layer, why: str) -> None:
    for ask in (lambda: layer.map(0.5), lambda: layer.slope(0.5), lambda: layer.step):
        with pytest.raises(ValueError, match=f"has no map of correlations: .*{why}"):
            ask()


def test_maps_at_the_variance_that_stays() -> None:
    # erf, no normalisation: q = (2/pi) asin(2 v/(1 + 2 v)), v = gain^2 q + bias, and the map of Williams' kernel there
    layer = Layer("erf", normalization="none", gain=GAIN, bias_variance=BIAS)
    q = layer.variance
    v = 2.25 * q + 0.25
    assert q == pytest.approx(2 / math.pi * math.asin(2 * v / (1 + 2 * v)), rel=1e-14)
    exact = 2 / math.pi * math.asin(2 * (2.25 * q * 0.3 + 0.25) / (1 + 2 * v)) / q
    assert layer.map(0.3) == pytest.approx(exact, rel=1e-14)
    G = q * np.array([[1, 0.3], [0.3, 1]])
    assert layer(G) == pytest.approx(q * np.array([[1, exact], [exact, 1]]), rel=1e-14)
    # every variance of a critical relu stays; at unit inputs the map is that of rms normalisation
    critical = Layer("relu", normalization="none", gain=math.sqrt(2))
    assert critical.map(0.3) == pytest.approx(float(Layer("relu", normalization="rms").map(0.3)), rel=1e-15)
    assert Layer("tanh", normalization="constant").map(0.3) == Layer("tanh").map(0.3)
    first = Layer("relu", order="normalization-first")
    assert first.variance == pytest.approx(0.5, rel=4e-16)
    assert first.map(0.3) == Layer("relu", normalization="rms").map(0.3)
