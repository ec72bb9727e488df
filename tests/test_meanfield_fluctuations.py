"""Fluctuations of Gram matrices and isometry gaps at finite width: recursions by hand, limits, and sampled networks.

Networks are sampled here by their exact law, z of N(0, G) for each neuron given the layer before, with nothing of the
library's but G's Cholesky factor; one test has explicit weights. A comparison rejects a true claim with probability
1e-6 at most; the seeds are fixed. Wrong claims are rejected by the very same comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest
from _networks import SIGMAS, Spec, inputs, layer, normalised
from numpy.typing import NDArray
from scipy import stats

from meanfield import Layer, isometry_gap
from meanfield._fluctuations import Fluctuations, fluctuations, one_step_variance
from meanfield._scatter import scatter

Floats: TypeAlias = NDArray[np.float64]

LEVEL = 1e-6
R = math.pi / (2 * math.pi - 2)  # linearity of relu
G5 = np.array(
    [
        [1.0, 0.8, 0.3, -0.4, 0.0],
        [0.8, 1.0, 0.2, -0.5, 0.1],
        [0.3, 0.2, 1.0, 0.1, 0.6],
        [-0.4, -0.5, 0.1, 1.0, 0.25],
        [0.0, 0.1, 0.6, 0.25, 1.0],
    ]
)
UPPER = np.triu_indices(5, 1)
NORMS = np.sqrt([1.0, 0.3, 2.0, 1.3, 0.2])
CLOSE = 0.75 * np.ones((6, 6)) + 0.25 * np.eye(6)


def networks(specs: Sequence[Spec], G0: Floats, widths: Sequence[int], runs: int, seed: int = 0) -> Floats:
    """Gram matrices of independent networks, (depth + 1, runs, n, n): neurons are N(0, G) given the layer before."""
    rng = np.random.default_rng(seed)
    G = np.broadcast_to(G0, (runs, *G0.shape))
    found = [G]
    for spec, width in zip(specs, widths, strict=True):
        sigma, after = SIGMAS[spec.activation], np.empty_like(G)
        for run, each in enumerate(G):
            z = np.linalg.cholesky(each) @ rng.standard_normal((len(G0), width))
            b = math.sqrt(spec.bias_variance) * rng.standard_normal(width)
            x = normalised(sigma(spec.gain * z + b), spec)
            after[run] = x @ x.T / width
        G = after
        found.append(G)
    return np.array(found)


def layers_of(specs: Sequence[Spec]) -> list[Layer]:
    return [Layer(spec.activation, **spec.options) for spec in specs]


def rejects_variances(sample: Floats, claim: Floats, comparisons: int = 1) -> bool:
    """Whether variances (k,) are no claim for a sample (runs, k): normal to 1/sqrt(width), so their ratio is chi^2."""
    runs = len(sample)
    ratio = sample.var(axis=0, ddof=1) / claim
    # the fourth moment of the sample widens what a chi-square would allow
    spread = np.sqrt((stats.kurtosis(sample, axis=0, fisher=False) - 1) / runs)
    return bool(np.any(np.abs(ratio - 1) > float(stats.norm.isf(LEVEL / (2 * comparisons * len(claim)))) * spread))


def rejects_mean(sample: Floats, claim: float) -> bool:
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return abs(float(sample.mean()) - claim) > float(stats.t.isf(LEVEL / 2, len(sample) - 1)) * error


# --- recursions by hand -------------------------------------------------------------------------------------


def test_linear_layers_add_up() -> None:
    found = fluctuations([Layer("identity")] * 4, G5, [100] * 4)
    for l in range(5):
        np.testing.assert_allclose(found.gram[l], G5)
        np.testing.assert_allclose(found.variance[l], l * (1 - G5**2) ** 2 / 100, atol=1e-15)


def test_each_layer_has_its_width_its_slope_and_its_own_scatter() -> None:
    layers = [Layer("relu"), Layer("tanh", gain=2), Layer("gelu", normalization="rms", bias_variance="1/4")]
    widths = (50, 800, 300)
    found = fluctuations(layers, G5, widths)
    for i, j in zip(*UPPER, strict=True):
        g, W = float(G5[i, j]), 0.0
        for l, (each, width) in enumerate(zip(layers, widths, strict=True), 1):
            W = float(each.slope(g)) ** 2 * W + float(one_step_variance(each, g)) / width
            g = float(each.map(g))
            assert found.gram[l, i, j] == pytest.approx(g, rel=1e-12)
            assert found.variance[l, i, j] == found.variance[l, j, i] == pytest.approx(W, rel=1e-12)
    assert np.all(np.einsum("lii->li", found.variance) == 0.0)
    assert np.all(found.variance[0] == 0.0)
    assert found.widths.tolist() == list(widths)


def test_a_fixed_point_has_a_stationary_variance() -> None:
    """Uncentred layers lead to one correlation rho* > 0, where W = v/((1 - f'^2) width)."""
    each = Layer("gelu", normalization="rms", gain="1/2", bias_variance=1)
    found = fluctuations([each] * 200, 0.5 * np.eye(2) + 0.5, [100] * 200)
    g = float(found.gram[-1, 0, 1])
    slope = float(each.slope(g))
    assert slope < 0.95
    assert found.variance[-1, 0, 1] == pytest.approx(float(one_step_variance(each, g)) / (1 - slope**2) / 100, rel=1e-3)


def test_orthogonal_inputs_have_the_floor_of_f4() -> None:
    n, width = 6, 1000
    found = fluctuations([Layer("relu")] * 8, np.eye(n), [width] * 8)
    factor = (1 - R ** (2 * np.arange(9))) / (1 - R**2)
    off = ~np.eye(n, dtype=bool)
    for l in range(9):
        np.testing.assert_allclose(found.variance[l][off], factor[l] / width, rtol=1e-9)
    np.testing.assert_allclose(found.expected_gap, (n - 1) / 2 * factor / width, rtol=1e-9)
    np.testing.assert_allclose(found.gap_variance, (n - 1) / n * (factor / width) ** 2, rtol=1e-9)
    p = np.array([0.01, 0.5, 0.99])
    law = stats.chi2.ppf(p, n * (n - 1) // 2)[:, None] * factor / (n * width)
    np.testing.assert_allclose(found.gap_quantiles(p), law, rtol=1e-9)
    np.testing.assert_allclose(found.gap_quantiles(0.5), law[1], rtol=1e-9)
    assert found.useful_depth == 1.0


# --- norms of inputs ----------------------------------------------------------------------------------------


def test_equal_norms_are_a_gain() -> None:
    same = fluctuations([Layer("tanh", gain=2), Layer("tanh")], G5, [100, 100])
    np.testing.assert_allclose(fluctuations([Layer("tanh")] * 2, 4 * G5, [100, 100]).variance, same.variance, rtol=1e-9)


@pytest.mark.parametrize("activation", ["relu", "abs", "sign"])
def test_homogeneous_layers_see_no_norms(activation: str) -> None:
    G = G5 * np.outer(NORMS, NORMS)
    given, unit = (fluctuations([Layer(activation)] * 2, K, [100, 100]) for K in (G, G5))
    np.testing.assert_allclose(given.variance, unit.variance, rtol=1e-12)
    assert np.array_equal(given.gram[0], G)


@pytest.mark.parametrize("normalization", ["layer", "rms"])
@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu(x - 1/2)"])
def test_different_norms_pass_into_equal_ones(activation: str, normalization: str) -> None:
    """Pairs by the series and pairs by the integral, beside the interpolant of equal norms."""
    each = Layer(activation, normalization=normalization, bias_variance="1/4")
    G = np.array([[1, 0.4, 0.97, -0.95], [0.4, 1, 0.5, -0.3], [0.97, 0.5, 1, -0.9], [-0.95, -0.3, -0.9, 1]])
    nearly = G.copy()
    nearly[3, 3] = 1 + 1e-13
    equal = scatter(each, G, each(G))
    np.testing.assert_allclose(scatter(each, nearly, each(nearly)), equal, rtol=1e-7)


@pytest.mark.parametrize(("activation", "normalization"), [("tanh", "layer"), ("gelu", "rms")])
def test_different_norms_in_sampled_layers(activation: str, normalization: str) -> None:
    G = G5 * np.outer(NORMS, NORMS) ** 2
    spec = Spec(activation, normalization, gain=1.5, bias_variance=0.1)
    sample = networks([spec], G, [2000], 3000)[1][:, *UPPER]
    found = fluctuations(layers_of([spec]), G, [2000])
    assert not rejects_variances(sample, found.variance[1][UPPER])
    assert rejects_variances(sample, fluctuations(layers_of([spec]), G5, [2000]).variance[1][UPPER])


# --- entries of sampled networks ----------------------------------------------------------------------------

THREE = [Spec("relu"), Spec("tanh", gain=1.5), Spec("relu", "rms", bias_variance=0.2)]
WIDTHS = (600, 2500, 1000)


@cache
def three() -> tuple[Floats, Fluctuations]:
    return networks(THREE, G5, WIDTHS, 4000), fluctuations(layers_of(THREE), G5, WIDTHS)


def test_variances_of_layers_of_different_widths() -> None:
    sample, found = three()
    for l in (1, 2, 3):
        assert not rejects_variances(sample[l][:, *UPPER], found.variance[l][UPPER], comparisons=3)


def test_wrong_recursions_are_rejected() -> None:
    sample, found = three()
    last = sample[3][:, *UPPER]
    slope, v = (
        np.asarray(f(found.gram[2][UPPER]))
        for f in (layers_of(THREE)[2].slope, lambda g: one_step_variance(layers_of(THREE)[2], g))
    )
    before = found.variance[2][UPPER]
    np.testing.assert_allclose(slope**2 * before + v / 1000, found.variance[3][UPPER], rtol=1e-12)
    wrong = {
        "nothing is carried": v / 1000,
        "the slope is not squared": slope * before + v / 1000,
        "nothing is forgotten": before + v / 1000,
        "the width of the first layer": slope**2 * before + v / 600,
        "independent neurons without correlations": slope**2 * before + 1 / 1000,
    }
    for name, claim in wrong.items():
        assert rejects_variances(last, claim), name
    assert rejects_variances(last, fluctuations(layers_of(THREE), G5, WIDTHS[::-1]).variance[3][UPPER])


def outside(sample: Floats, low: Floats, high: Floats, probability: float) -> bool:
    """Whether entries are outside of a band more or less often than with this probability."""
    count = np.sum((sample < low) | (sample > high), axis=0)
    tests = [stats.binomtest(int(k), len(sample), probability).pvalue for k in count]
    return min(tests) < LEVEL / len(tests)


def test_bands_cover() -> None:
    sample, found = three()
    for l in (1, 2, 3):
        low, high = (edge[l][UPPER] for edge in found.band(1.5))
        assert not outside(sample[l][:, *UPPER], low, high, 2 * stats.norm.sf(1.5))
        assert outside(sample[l][:, *UPPER], low, high, 2 * stats.norm.sf(1.7))
    assert np.array_equal(found.band(), found.band(2.0))
    assert np.array_equal(found.band(0.0)[0], np.clip(found.gram, -1, 1))
    assert np.all(np.abs(found.band(1e3)) <= 1.0)


@pytest.mark.slow
def test_networks_with_explicit_weights() -> None:
    specs, rng = [Spec("tanh"), Spec("relu")], np.random.default_rng(3)
    sample = []
    for _ in range(800):
        x = inputs(G5, 6, rng)
        for spec, width in zip(specs, (100, 800), strict=True):
            x = layer(x, spec, width, rng)
        sample.append((x @ x.T / 800)[UPPER])
    found = fluctuations(layers_of(specs), G5, [100, 800])
    assert not rejects_variances(np.array(sample), found.variance[2][UPPER])
    assert rejects_variances(np.array(sample), fluctuations(layers_of(specs), G5, [800, 100]).variance[2][UPPER])


# --- gaps of sampled networks -------------------------------------------------------------------------------


@cache
def floor() -> Floats:
    return np.asarray(isometry_gap(networks([Spec("relu")] * 6, np.eye(4), [2000] * 6, 400)[6]))


def p_value(scale: float, freedom: int) -> float:
    return float(stats.kstest(floor(), stats.chi2(freedom, scale=scale).cdf).pvalue)


def test_the_floor_has_the_law_of_f4() -> None:
    """n = 4, width 2000, 400 runs, Kolmogorov and Smirnov's test; the law is that of infinite width."""
    found = fluctuations([Layer("relu")] * 6, np.eye(4), [2000] * 6)
    scale = (1 - R**12) / (1 - R**2) / (4 * 2000)
    assert p_value(scale, 6) > 1e-3
    p = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(found.gap_quantiles(p)[:, 6], stats.chi2.ppf(p, 6) * scale, rtol=1e-9)


def test_other_laws_of_the_floor_are_rejected() -> None:
    scale = (1 - R**12) / (1 - R**2) / (4 * 2000)
    r_for_its_square = (1 - R**6) / (1 - R) / (4 * 2000)
    for name, wrong, freedom in (
        ("degrees of freedom more by n", scale, 10),
        ("degrees of freedom fewer by n", scale, 2),
        ("the same mean with n more", scale * 6 / 10, 10),
        ("r for r^2", r_for_its_square, 6),
        ("one layer", 1 / (4 * 2000), 6),
        ("not divided by n", 4 * scale, 6),
    ):
        assert p_value(wrong, freedom) < (LEVEL if "same mean" not in name else 1e-2), name


CASES: dict[str, tuple[list[Spec], Floats, int]] = {
    "relu from close inputs": ([Spec("relu")] * 6, CLOSE, 1000),
    "tanh from mixed inputs": ([Spec("tanh")] * 6, G5, 1000),
    "uncentred": ([Spec("gelu", "rms", gain=1.5, bias_variance=0.3)] * 3, CLOSE, 2000),
    "unequal norms": ([Spec("tanh", gain=1.5)] * 2, G5 * np.outer(NORMS, NORMS), 1000),
}


@cache
def gaps(name: str) -> tuple[Floats, Fluctuations]:
    specs, G0, width = CASES[name]
    widths = [width] * len(specs)
    sample = np.asarray(isometry_gap(networks(specs, G0, widths, 1500)[1:]))
    return sample, fluctuations(layers_of(specs), G0, widths)


@pytest.mark.parametrize("name", CASES)
def test_gaps_scatter_as_predicted(name: str) -> None:
    """The deviation to 15 %: 1500 runs know it to 2 % or so, the rest is the next order in 1/width."""
    sample, found = gaps(name)
    deviation = sample.std(axis=1, ddof=1)
    np.testing.assert_allclose(np.sqrt(found.gap_variance[1:]), deviation, rtol=0.15)
    low, high = found.gap_quantiles((0.05, 0.95))[:, 1:]
    covered = np.mean((sample >= low[:, None]) & (sample <= high[:, None]), axis=1)
    assert np.all(np.abs(covered - 0.9) < 0.05), covered


def test_independent_entries_would_not_scatter_enough() -> None:
    sample, found = gaps("relu from close inputs")
    deviation = sample.std(axis=1, ddof=1)
    for l in (1, 2, 3):
        W, h = found.variance[l], np.linalg.inv(found.gram[l])
        for gradient in (h, found.gram[l] - np.eye(6)):
            assert np.sum(W * (2 * gradient**2 + W)) / 36 < 0.6 * deviation[l - 1] ** 2


@pytest.mark.parametrize("name", CASES)
def test_expected_gaps(name: str) -> None:
    """To a few 1/width of the gap where it is not small."""
    sample, found = gaps(name)
    assert np.all(np.abs(sample.mean(axis=1) - found.expected_gap[1:]) < 0.05 * sample.mean(axis=1))


def test_expected_gaps_on_the_floor() -> None:
    found = fluctuations([Layer("relu")] * 6, np.eye(4), [2000] * 6)
    assert not rejects_mean(floor(), float(found.expected_gap[6]))
    assert rejects_mean(floor(), float(found.expected_gap[6]) * 4 / 3)  # n for n - 1
    assert rejects_mean(floor(), float(found.expected_gap[1]))


# --- useful depth -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [10**3, 10**5, 10**7])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_useful_depth_is_where_the_formula_says(activation: str, width: int) -> None:
    each, depth = Layer(activation), 150
    r, g = each.linearity, 0.05
    for _ in range(200):
        g = float(each.map(g))
    K = g / r**200  # Koenigs
    found = fluctuations([each] * depth, np.eye(3) + 0.05 * (1 - np.eye(3)), [width] * depth)
    formula = math.log1p(width * (1 - r**2) * K**2) / (2 * math.log(1 / r))
    assert math.floor(formula) <= found.useful_depth <= math.ceil(formula) + 1
    if activation == "tanh" and width > 10**3:  # 1 - r^2 moves that of relu by half a layer
        assert found.useful_depth < math.log1p(width * K**2) / (2 * math.log(1 / r)) - 10
    before, after = int(found.useful_depth) - 1, int(found.useful_depth)
    assert found.fluctuation_gap[before] <= found.mean_field_gap[before]
    assert found.fluctuation_gap[after] > found.mean_field_gap[after]
    np.testing.assert_array_equal(found.expected_gap, found.mean_field_gap + found.fluctuation_gap)


def test_useful_depth_grows_by_a_constant_for_ten_times_the_width() -> None:
    widths = (10**5, 10**7, 10**9, 10**11)
    depths = [fluctuations([Layer("relu")] * 80, CLOSE, [width] * 80).useful_depth for width in widths]
    np.testing.assert_allclose(np.diff(depths), math.log(100) / (2 * math.log(1 / R)), atol=1)


def test_useful_depth_is_infinite_where_the_mean_field_stays() -> None:
    assert fluctuations([Layer("relu")] * 3, CLOSE, [10**6] * 3).useful_depth == math.inf
    assert fluctuations([Layer("relu", normalization="rms")] * 50, CLOSE, [1000] * 50).useful_depth == math.inf


# --- edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "tanh", "sign"])
def test_inputs_that_coincide_stay_so(activation: str) -> None:
    G = np.array([[1, 1, 0.3], [1, 1, 0.3], [0.3, 0.3, 1]])
    found = fluctuations([Layer(activation)] * 3, G, [100] * 3)
    assert np.all(found.variance[:, 0, 1] == 0.0)
    assert np.array_equal(found.variance[:, 0, 2], found.variance[:, 1, 2])
    assert np.all(found.variance[1:, 0, 2] > 0.0)
    assert np.all(found.expected_gap == math.inf)
    assert np.all(found.gap_quantiles(0.5) == math.inf)
    assert np.all(np.isnan(found.gap_variance))
    assert found.useful_depth == math.inf


@pytest.mark.parametrize("activation", ["tanh", "sign"])
def test_opposite_inputs_stay_so_under_odd_layers(activation: str) -> None:
    found = fluctuations([Layer(activation)] * 3, [[1, -1], [-1, 1]], [100] * 3)
    assert np.all(found.variance == 0.0)


def test_one_input_and_no_layer() -> None:
    found = fluctuations([Layer("tanh")] * 2, [[3.0]], [10, 20])
    assert found.expected_gap.tolist() == found.gap_variance.tolist() == [0.0, 0.0, 0.0]
    assert found.gap_quantiles([0.1, 0.9]).tolist() == [[0.0] * 3] * 2
    assert found.useful_depth == math.inf
    found = fluctuations([], G5, [])
    assert found.gram.shape == found.variance.shape == (1, 5, 5)
    assert found.gap_quantiles([0.1, 0.9]).tolist() == [[isometry_gap(G5)]] * 2


def test_enormous_widths_have_normal_quantiles() -> None:
    found = fluctuations([Layer("relu")] * 2, G5, [10**14] * 2)
    normal = found.expected_gap + np.sqrt(found.gap_variance) * stats.norm.ppf([[0.05], [0.5], [0.95]])
    np.testing.assert_allclose(found.gap_quantiles([0.05, 0.5, 0.95]), normal, rtol=1e-12)
    # where one form takes over from the other, both agree
    shape = 1e8
    for p in (0.05, 0.95):
        gamma = stats.gamma.ppf(p, shape, scale=1 / shape)
        assert gamma == pytest.approx(1 + stats.norm.ppf(p) / math.sqrt(shape), rel=1e-7)


def test_the_same_prediction_twice() -> None:
    first, second = (fluctuations([Layer("relu")] * 3, CLOSE, [100] * 3) for _ in range(2))
    assert np.array_equal(first.gap_variance, second.gap_variance)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([Layer("relu"), Layer("relu", skip=0.5)], G5, [10, 10]), "not derived for this layer: a skip"),
        (([Layer("relu", normalization="batch")], G5, [10]), "not derived"),
        (([Layer("relu")], G5, [10, 10]), "widths must be 1 integers"),
        (([Layer("relu")] * 2, G5, [10, 0]), "widths must be 2 integers >= 1"),
        (([Layer("relu")], G5, [10.5]), "widths must be 1 integers"),
        (([Layer("relu")], [G5, G5], [10]), r"G0 must have shape \(n, n\)"),
        (([Layer("tanh")], [[0.0, 0.0], [0.0, 1.0]], [10]), "norm 0"),
        (([Layer("relu")], [[1.0, 2.0], [2.0, 1.0]], [10]), "G0"),
        ((["relu"], G5, [10]), "Layers only"),
        ((Layer("relu"), G5, [10]), "depth is needed"),
    ],
)
def test_what_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fluctuations(*arguments)


def test_probabilities_that_are_refused() -> None:
    found = fluctuations([Layer("relu")], G5, [10])
    for p in (-0.1, [0.5, 1.5], math.nan):
        with pytest.raises(ValueError, match=r"p must lie in \[0, 1\]"):
            found.gap_quantiles(p)
    assert found.gap_quantiles([0.0, 1.0])[:, 1].tolist() == [0.0, math.inf]
