"""The tangent kernel against finite networks that are differentiated, and its slopes against closed forms.

A finite network of `_networks` is run forwards here with what its derivatives need, and backwards by the chain rule,
normalisation and its statistics included; finite differences of every parameter check that, and wide networks check
the recursion. Slopes E sigma'(u) sigma'(u') are, by Price's theorem, differences of layers without normalisation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
import pytest
from _networks import SIGMAS, Spec, constants, disagreement, inputs, normalised
from numpy.typing import NDArray
from scipy import special

from hermite import activation
from hermite._pair_slopes import pair_slopes
from meanfield import Layer
from meanfield._ntk import ntk

Floats: TypeAlias = NDArray[np.float64]
Drawn: TypeAlias = "tuple[Floats, list[Parameters], Floats]"
FIRST = "normalization-first"

SLOPES: dict[str, Callable[[Floats], Floats]] = {
    "x": np.ones_like,
    "2*x + 1": lambda u: np.full_like(u, 2.0),
    "relu": lambda u: np.where(u > 0, 1.0, 0.0),
    "tanh": lambda u: 1 / np.cosh(u) ** 2,
    "sigmoid": lambda u: special.expit(u) * special.expit(-u),
    "gelu": lambda u: special.ndtr(u) + u * np.exp(-u * u / 2) / math.sqrt(2 * math.pi),
    "elu": lambda u: np.exp(np.minimum(u, 0.0)),
    "square": lambda u: 2 * u,
}
CORRELATIONS = np.array([[1.0, 0.9, 0.3, -0.6], [0.9, 1.0, 0.2, -0.5], [0.3, 0.2, 1.0, 0.1], [-0.6, -0.5, 0.1, 1.0]])
NORMS = np.sqrt([1.0, 0.3, 3.0, 1.3])
K = CORRELATIONS * np.outer(NORMS, NORMS)


def layers(specs: Sequence[Spec]) -> list[Layer]:
    return [Layer(spec.activation, **spec.options) for spec in specs]


# --- finite networks ----------------------------------------------------------------------------------------


class Parameters:
    """The parameters of one layer; W and b count, W_2 does not."""

    def __init__(self, rng: np.random.Generator, width: int, fan_in: int, spec: Spec) -> None:
        self.w = rng.standard_normal((width, fan_in), dtype=np.float32).astype(float)
        self.beta = rng.standard_normal(width)
        self.mixing = None
        if spec.skip:
            self.mixing = rng.standard_normal((width, width), dtype=np.float32).astype(float) / math.sqrt(width)


def forwards(x: Floats, spec: Spec, p: Parameters) -> tuple[Floats, Floats, Floats]:
    """z, u and the output of one layer."""
    z = x @ p.w.T / math.sqrt(x.shape[1])
    b = math.sqrt(spec.bias_variance) * p.beta
    sigma = SIGMAS[spec.activation]
    if spec.order == FIRST:
        u = spec.gain * normalised(z, spec) + b
        y = sigma(u)
    else:
        u = spec.gain * z + b
        y = normalised(sigma(u), spec)
    if p.mixing is not None:
        y = spec.skip * x + math.sqrt(1 - spec.skip**2) * (y @ p.mixing.T)
    return z, u, y


def through_normalisation(e: Floats, s: Floats, spec: Spec) -> Floats:
    """The derivative by s of sum(e N(s)), for each input."""
    y = normalised(s, spec)
    kind = spec.normalization
    if kind == "layer":
        e = e - e.mean(axis=1, keepdims=True)
        return np.asarray((e - y * np.mean(e * y, axis=1, keepdims=True)) / s.std(axis=1, keepdims=True))
    if kind == "rms":
        return np.asarray((e - y * np.mean(e * y, axis=1, keepdims=True)) / np.sqrt(np.mean(s**2, 1, keepdims=True)))
    if kind == "center":
        return np.asarray(e - e.mean(axis=1, keepdims=True))
    if kind == "constant" and spec.order != FIRST:
        return np.asarray(e / math.sqrt(constants(spec.activation, spec.gain**2 + spec.bias_variance)[1]))
    return e


def tangent_kernel(specs: Sequence[Spec], x: Floats, parameters: Sequence[Parameters], v: Floats) -> Floats:
    """<df/dparameters, df/dparameters> of f = v x_L/sqrt(width) for all pairs of inputs."""
    run = []
    for spec, p in zip(specs, parameters, strict=True):
        z, u, after = forwards(x, spec, p)
        run.append((x, z, u))
        x = after
    width = x.shape[1]
    kernel = x @ x.T / width
    e = np.broadcast_to(v / math.sqrt(width), x.shape)
    for spec, p, (x, z, u) in zip(reversed(specs), reversed(parameters), reversed(run), strict=True):
        kept = spec.skip * e
        if p.mixing is not None:
            e = math.sqrt(1 - spec.skip**2) * (e @ p.mixing)
        if spec.order == FIRST:
            by_u = e * SLOPES[spec.activation](u)
            by_z = through_normalisation(spec.gain * by_u, z, spec)
        else:
            by_u = through_normalisation(e, SIGMAS[spec.activation](u), spec) * SLOPES[spec.activation](u)
            by_z = spec.gain * by_u
        kernel = kernel + (by_z @ by_z.T) * (x @ x.T) / x.shape[1] + spec.bias_variance * (by_u @ by_u.T)
        e = by_z @ p.w / math.sqrt(x.shape[1])
        if p.mixing is not None:
            e = kept + e
    return np.asarray(kernel)


def drawn(
    specs: Sequence[Spec], G: Floats, width: int, rng: np.random.Generator
) -> tuple[Floats, list[Parameters], Floats]:
    fan_in = width if specs[0].skip else len(G) + 1
    x = inputs(G, fan_in, rng)
    fans = [fan_in, *[width] * (len(specs) - 1)]
    return x, [Parameters(rng, width, f, s) for f, s in zip(fans, specs, strict=True)], rng.standard_normal(width)


NETWORKS: dict[str, list[Spec]] = {
    "one layer of relu": [Spec("relu", "layer")],
    "three of relu, layer, bias and skip": [Spec("relu", "layer", bias_variance=0.3, skip=0.6)] * 3,
    "rms": [Spec("gelu", "rms", gain=1.5, bias_variance=0.25), Spec("relu", "rms", gain=0.5)],
    "centred": [Spec("relu", "center", gain=1.5, bias_variance=0.5), Spec("tanh", "center", gain=1.5)],
    "constant": [Spec("tanh", "constant", gain=1.5, bias_variance=0.2), Spec("relu", "constant")],
    "none": [
        Spec("relu", "none", gain=2**0.5, bias_variance=1.0),
        Spec("elu", "none", gain=1.5),
        Spec("tanh", "none", bias_variance=0.5),
    ],
    "normalised first": [
        Spec("relu", "layer", FIRST, bias_variance=2.0),
        Spec("gelu", "rms", FIRST, gain=0.8, bias_variance=2.0),
        Spec("sigmoid", "none", FIRST, gain=2.0),
    ],
    "normalised first, with a skip": [Spec("relu", "rms", FIRST, bias_variance=2.0, skip=0.6)] * 2,
    "square": [Spec("square", "layer"), Spec("2*x + 1", "rms", bias_variance=0.5)],
}


@cache
def sample(name: str) -> Floats:
    """80 networks of widths 600 and 150, so combined that the first term in 1/width is gone."""
    specs, out = NETWORKS[name], []
    for seed in range(80):
        found = []
        for width in (150, 600):
            found.append(tangent_kernel(specs, *drawn(specs, K, width, np.random.default_rng([seed, width, 1]))))
        out.append((4 * found[1] - found[0]) / 3)
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_kernel_is_the_limit_of_wide_networks(name: str) -> None:
    """Rejects a true claim with probability 1e-6 for each network; the seeds are fixed."""
    assert disagreement(sample(name), ntk(layers(NETWORKS[name]), K)) <= 1


@pytest.mark.parametrize("name", NETWORKS)
def test_differences_of_every_parameter_give_the_kernel_of_a_small_network(name: str) -> None:
    specs, rng, h = NETWORKS[name], np.random.default_rng(3), 1e-5
    x, parameters, v = drawn(specs, K, 6, rng)

    def f() -> Floats:
        out = x
        for spec, p in zip(specs, parameters, strict=True):
            out = forwards(out, spec, p)[2]
        return np.asarray(out @ v / math.sqrt(6))

    rows = []
    trained = [v, *(p.w for p in parameters), *(p.beta for p in parameters)]
    for array in trained:
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + h
            above = f()
            array[index] = kept - h
            rows.append((above - f()) / (2 * h))
            array[index] = kept
    J = np.array(rows)
    assert tangent_kernel(specs, x, parameters, v) == pytest.approx(J.T @ J, rel=1e-6, abs=1e-7)


# --- wrong recursions ---------------------------------------------------------------------------------------


def recursion(specs: Sequence[Spec], wrong: str) -> Floats:
    """The recursion with one mistake; "" for none. Slopes are differences of layers, by Price's theorem."""
    theta, G = K, K
    for spec in specs:
        bare = Layer(spec.activation, **{**spec.options, "skip": 0})
        Y, first = bare(G), spec.order == FIRST and spec.normalization in ("layer", "rms")
        plain = Layer(spec.activation, normalization="none", gain=spec.gain, bias_variance=spec.bias_variance)
        norms = np.sqrt(np.diagonal(G)) if first else np.ones(len(G))
        S = G / np.outer(norms, norms)
        slopes = price(plain, S) / spec.gain**2
        size = np.ones((len(G), len(G)))
        if spec.order != FIRST and spec.normalization in ("layer", "rms", "constant"):
            size = price(plain, S) / price(bare, S)
        if wrong == "norms forgotten":
            size = np.ones_like(size)
        moved = spec.gain**2 * theta / np.outer(norms, norms) + spec.bias_variance
        if wrong == "bias divided by the norms":
            moved = (spec.gain**2 * theta + spec.bias_variance) / np.outer(norms, norms)
        if wrong == "bias forgotten":
            moved = moved - spec.bias_variance
        a2 = spec.skip**2
        theta = a2 * theta + (1 - a2) * ((0 if wrong == "readout forgotten" else Y) + moved * slopes / size)
        if wrong == "skip of the kernel forgotten":
            theta = theta - a2 * theta
        G = a2 * G + (1 - a2) * Y
    return theta


def price(layer: Layer, G: Floats) -> Floats:
    """The derivative of each entry of layer(G) by the same entry of G; on the diagonal, its limit off the diagonal."""
    n = len(G)
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            # an input beside its own copy stands for the diagonal
            pair = G[np.ix_([i, j], [i, j])]
            if i == j:
                out[i, i] = one_sided(layer, pair)
                continue
            h = 1e-3 * math.sqrt(pair[0, 0] * pair[1, 1])
            values = [layer(pair + k * h * (1 - np.eye(2)))[0, 1] for k in (-2, -1, 1, 2)]
            out[i, j] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    return out


def one_sided(layer: Layer, pair: Floats) -> float:
    """Differences towards a correlation of 1, where kinks leave a series in the root of the distance."""
    q, J = pair[0, 0], 1 - np.eye(2)

    def difference(h: float) -> float:
        return float(layer(pair)[0, 1] - layer(pair - h * q * J)[0, 1]) / (h * q)

    row = [difference(4.0**-k) for k in range(5, 10)]
    for power in range(1, 5):  # h^(1/2), h, h^(3/2), h^2
        row = [(2**power * b - a) / (2**power - 1) for a, b in itertools.pairwise(row)]
    return row[0]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_recursion_with_slopes_that_are_differences(name: str) -> None:
    assert ntk(layers(NETWORKS[name]), K) == pytest.approx(recursion(NETWORKS[name], ""), rel=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("three of relu, layer, bias and skip", "bias forgotten"),
        ("three of relu, layer, bias and skip", "norms forgotten"),
        ("three of relu, layer, bias and skip", "readout forgotten"),
        ("three of relu, layer, bias and skip", "skip of the kernel forgotten"),
        ("rms", "norms forgotten"),
        ("constant", "norms forgotten"),
        ("none", "bias forgotten"),
        ("none", "readout forgotten"),
        ("normalised first", "bias divided by the norms"),
        ("normalised first, with a skip", "bias divided by the norms"),
    ],
)
def test_a_wrong_recursion_is_seen(name: str, wrong: str) -> None:
    assert disagreement(sample(name), recursion(NETWORKS[name], "")) <= 1
    assert disagreement(sample(name), recursion(NETWORKS[name], wrong)) > 1


# --- exact values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "exp", "sin", "abs", "elu"])
def test_the_diagonal_of_layer_normalisation_is_a_geometric_sum(name: str) -> None:
    layer, depth = Layer(name), 7
    slope = float(layer.slope(1.0))
    theta = ntk(layer, CORRELATIONS, depth)
    assert np.diagonal(theta) == pytest.approx(sum(slope**j for j in range(depth + 1)), rel=1e-13)
    assert np.array_equal(theta, theta.T)


def test_relu_by_arccosine_kernels() -> None:
    """gain^2 = 2 keeps norms: Theta' = Sigma' + 2 Theta (pi - angle)/(2 pi), in 30 digits."""
    theta = ntk(Layer("relu", normalization="none", gain=2**0.5), K, 5)
    with mp.workdps(30):
        for i in range(4):
            for j in range(4):
                G, T = mp.mpf(K[i, j]), mp.mpf(K[i, j])
                size = mp.sqrt(mp.mpf(K[i, i]) * mp.mpf(K[j, j]))
                for _ in range(5):
                    angle = mp.acos(min(G / size, mp.mpf(1)))
                    G = size * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)) / mp.pi
                    T = G + T * (mp.pi - angle) / mp.pi
                assert theta[i, j] == pytest.approx(float(T), rel=2e-12)


def test_erf_by_its_closed_form() -> None:
    """E erf'(u) erf'(u') = (4/pi)/sqrt((1 + 2 q)(1 + 2 q') - 4 c^2), with bias and gain, over layers."""
    g2, b2 = 2.25, 0.3
    G, T = K, K
    for _ in range(4):
        C = g2 * G + b2
        side = 1 + 2 * np.diagonal(C)
        Y = 2 / np.pi * np.arcsin(2 * C / np.sqrt(np.outer(side, side)))
        T = Y + (g2 * T + b2) * 4 / np.pi / np.sqrt(np.outer(side, side) - 4 * C * C)
        G = Y
    layer = Layer("erf", normalization="none", gain=1.5, bias_variance=0.3)
    assert ntk(layer, K, 4) == pytest.approx(T, rel=1e-12)
    assert ntk([layer] * 4, K) == pytest.approx(T, rel=1e-12)


def test_the_kernel_of_preactivations_has_the_classical_recursion() -> None:
    """Theta' = Sigma' + gain^2 Theta dual(phi')(Sigma), Theta_1 = Sigma_1 (arXiv:1806.07572)."""
    layer = Layer("relu", normalization="none", gain=1.3, bias_variance=0.2)
    G, sigma, theta = K, 1.69 * K + 0.2, 1.69 * K + 0.2
    for _ in range(3):
        s = np.sqrt(np.diagonal(sigma))
        rho = np.clip(sigma / np.outer(s, s), -1, 1)
        np.fill_diagonal(rho, 1.0)
        slopes = pair_slopes(activation("relu"), s, rho)
        G = layer(G)
        sigma = 1.69 * G + 0.2
        theta = sigma + 1.69 * theta * slopes
    assert 1.69 * ntk(layer, K, 3) + 0.2 == pytest.approx(theta, rel=1e-12)


def test_depth_zero_is_the_readout() -> None:
    assert np.array_equal(ntk(Layer("relu"), K, 0), K)


def test_a_linear_network_with_a_skip() -> None:
    a2 = 0.36
    layer = Layer("x", normalization="none", skip=0.6)
    assert ntk(layer, K, 3) == pytest.approx(K * (1 + 3 * (1 - a2)), rel=1e-13)


# --- shapes, sequences, ends --------------------------------------------------------------------------------


def test_a_stack_is_its_matrices() -> None:
    layer = Layer("gelu", bias_variance=0.1, skip=0.5)
    stack = np.array([[K, CORRELATIONS], [np.eye(4), 2 * K]])
    theta = ntk(layer, stack, 2)
    assert theta.shape == stack.shape
    for index in np.ndindex(2, 2):
        assert np.array_equal(theta[index], ntk(layer, stack[index], 2))


def test_a_layer_of_stationary_norms_agrees_with_the_general_path() -> None:
    # an input of another norm sends all pairs through moments of different variances
    for spec in (Spec("elu", "layer", bias_variance=0.2), Spec("gelu", "rms", skip=0.5), Spec("tanh", "constant")):
        layer = Layer(spec.activation, **spec.options)
        G = np.eye(5)
        G[:4, :4] = CORRELATIONS
        G[4, 4] = 1.7
        assert ntk(layer, G, 1)[:4, :4] == pytest.approx(ntk(layer, CORRELATIONS, 1), rel=1e-12)


@pytest.mark.parametrize("name", ["step", "sign", "x + step(x)", "hardshrink"])
@pytest.mark.parametrize("normalization", ["layer", "rms", "none"])
def test_jumps_make_the_diagonal_infinite_and_nothing_else(name: str, normalization: str) -> None:
    layer = Layer(name, normalization=normalization, bias_variance=0.3)
    for G in (K, CORRELATIONS):
        theta = ntk(layer, G, 3)
        assert np.all(np.isinf(np.diagonal(theta)))
        assert np.all(np.isfinite(theta[~np.eye(4, dtype=bool)]))
    twin = np.ones((2, 2))
    assert np.all(ntk(layer, twin, 2) == np.inf)


@pytest.mark.parametrize("sequence", [["sign", "relu"], ["relu", "sign", "relu"], ["step", "square", "tanh"]])
def test_infinity_is_never_nan(sequence: list[str]) -> None:
    opposite = np.array([[1.0, -1.0, 0.3], [-1.0, 1.0, -0.3], [0.3, -0.3, 1.0]])
    for normalization in ("layer", "rms", "none"):
        theta = ntk([Layer(name, normalization=normalization) for name in sequence], opposite)
        assert not np.any(np.isnan(theta))
        assert np.all(np.diagonal(theta) == np.inf)


def test_an_input_of_norm_zero() -> None:
    G = K.copy()
    G[3], G[:, 3] = 0.0, 0.0
    for name in ("relu", "tanh", "sign", "sqrt(abs(x))"):
        theta = ntk(Layer(name, normalization="none"), G, 3)
        assert np.array_equal(theta[3], np.zeros(4))
        assert not np.any(np.isnan(theta))
    with pytest.raises(ValueError, match="norm 0 cannot be normalised"):
        ntk(Layer("relu"), G, 3)


def test_a_kernel_that_leaves_float64_is_infinite() -> None:
    theta = ntk(Layer("relu"), CORRELATIONS, 2000)
    assert np.all(np.diagonal(theta) == np.inf)
    assert np.all(np.abs(theta[~np.eye(4, dtype=bool)]) < 1e-200)


def test_steep_functions_tend_to_the_jump() -> None:
    off = ~np.eye(4, dtype=bool)
    jump = ntk(Layer("sign"), CORRELATIONS, 2)[off]
    a, b, c = (ntk(Layer("erf", gain=g), CORRELATIONS, 2)[off] for g in (16, 32, 64))
    # E erf(gain x)^2 = 1 - O(1/gain), so that there is a series in 1/gain
    assert np.max(np.abs(c - jump)) < 0.1
    assert (8 * c - 6 * b + a) / 3 == pytest.approx(jump, abs=2e-3)


def test_batch_normalisation_is_refused() -> None:
    with pytest.raises(ValueError, match="no recursion for normalization='batch'"):
        ntk([Layer("relu"), Layer("x", normalization="batch")], K)


@pytest.mark.parametrize("depth", [None, -1, 1.5])
def test_a_depth_that_is_none_is_refused(depth: Any) -> None:
    with pytest.raises(ValueError, match="depth"):
        ntk(Layer("relu"), K, depth)


def test_what_is_no_gram_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="G"):
        ntk(Layer("relu"), [[1.0, 2.0], [2.0, 1.0]], 1)


# --- slopes of pairs ----------------------------------------------------------------------------------------

SMOOTH = ["tanh", "gelu", "elu", "softsign", "hardtanh", "tanh(3*x)", "x**3 - x"]
JUMPING = ["step(x - 0.3)", "hardshrink", "x + step(x - 0.3)", "1 if x > -0.3 else 0 if x > -1 else x", "sign"]


def slopes_of(sigma: Any, G: Floats) -> Floats:
    s = np.sqrt(np.diagonal(G))
    rho = np.clip(G / np.outer(s, s), -1, 1)
    np.fill_diagonal(rho, 1.0)
    return pair_slopes(activation(sigma), s, rho)


@pytest.mark.parametrize("name", [*SMOOTH, *JUMPING, "relu", "x*sqrt(abs(x))", "sqrt(abs(x))"])
def test_slopes_are_derivatives_of_moments_by_the_covariance(name: str) -> None:
    off = ~np.eye(4, dtype=bool)
    wanted = price(Layer(name, normalization="none"), K)
    assert slopes_of(name, K)[off] == pytest.approx(wanted[off], rel=1e-7)


def test_slopes_of_a_callable() -> None:
    def smooth(x: Floats) -> Floats:
        return np.asarray(np.where(x > 0.25, np.tanh(x), 0.1 * x))

    given, wanted = slopes_of(smooth, K), slopes_of("tanh(x) if x > 0.25 else 0.1*x", K)
    off = ~np.eye(4, dtype=bool)
    assert given[off] == pytest.approx(wanted[off], rel=1e-10)
    assert np.all(np.isinf(np.diagonal(given)))


def test_slopes_of_unequal_deviations_in_closed_form() -> None:
    # E exp(u + u'), E 4 u u', E 9 u^2 u'^2
    q, c = np.diagonal(K), K
    assert slopes_of("exp", K) == pytest.approx(np.exp((q[:, None] + q) / 2 + c), rel=1e-12)
    assert slopes_of("square", K) == pytest.approx(4 * c, rel=1e-12)
    assert slopes_of("cube", K) == pytest.approx(9 * (np.outer(q, q) + 2 * c * c), rel=1e-12)
    cubic = slopes_of("x**3 + 2*x", K)
    assert cubic == pytest.approx(9 * (np.outer(q, q) + 2 * c * c) + 6 * (q[:, None] + q) + 4, rel=1e-12)


def test_arguments_that_stay_at_zero() -> None:
    s, rho = np.array([0.0, 1.0, 2.0]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    bell = [float(mp.quad(lambda x, s=s: mp.npdf(x) / mp.cosh(s * x) ** 2, [-9, 0, 9])) for s in (0, 1, 2)]
    assert pair_slopes(activation("tanh"), s, rho)[0] == pytest.approx(bell, rel=1e-12)  # tanh'(0) = 1
    assert pair_slopes(activation("relu"), s, rho)[0] == pytest.approx([0.5, 0.25, 0.25], rel=1e-13)
    for name in ("square", "sign", "sqrt(abs(x))"):
        found = pair_slopes(activation(name), s, rho)
        assert np.array_equal(found[0], np.zeros(3))
        assert found[1, 2] == pair_slopes(activation(name), s[1:], rho[1:, 1:])[0, 1]
    assert np.array_equal(pair_slopes(activation("x + step(x - 0.3)"), s, rho)[0, 1:], np.zeros(2))


def test_slopes_at_the_ends_of_correlation() -> None:
    s, one, minus = np.array([1.0, 2.0]), np.ones((2, 2)), np.array([[1.0, -1.0], [-1.0, 1.0]])
    # jumps at 0.3 and 0.15 in units of the deviation are not met together; that of sign is
    assert pair_slopes(activation("step(x - 0.3)"), s, one)[0, 1] == 0.0
    assert pair_slopes(activation("sign"), s, one)[0, 1] == np.inf
    assert pair_slopes(activation("sign"), s, minus)[0, 1] == np.inf
    assert pair_slopes(activation("step(x - 0.3)"), np.ones(2), one)[0, 1] == np.inf
    assert pair_slopes(activation("step(x - 0.3)"), np.ones(2), minus)[0, 1] == 0.0
    assert pair_slopes(activation("relu"), s, minus)[0, 1] == 0.0
    # X >= 0.3 where the other is 2 X >= 0.5: slopes 1 of hardshrink meet, and its jumps meet the slope
    found = pair_slopes(activation("x if x > 0.5 else 0"), s, one)[0, 1]
    phi, tail = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi), lambda x: special.ndtr(-x)
    assert found == pytest.approx(tail(0.5) + 0.5 * phi(0.5), rel=1e-12)
    assert pair_slopes(activation("x if x > 0.5 else 0"), s, minus)[0, 1] == pytest.approx(0.0, abs=1e-15)
