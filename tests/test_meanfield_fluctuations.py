"""Fluctuations of Gram matrices and isometry gaps at finite width: recursions by hand, limits, and sampled networks.

Networks are sampled by their exact law, as `_sampled` says; one test has explicit weights. A comparison rejects a true
claim with probability 1e-6 at most, the seeds are fixed, and wrong claims are rejected by the very same comparisons.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pytest
from _networks import Spec, inputs, layer
from _sampled import CLOSE, G5, LEVEL, NORMS, UPPER, R, layers_of, networks, rejects_variances
from numpy.typing import NDArray
from scipy import stats

from hermite.errors import NotSquareIntegrableError, PrecisionError
from meanfield import Layer, isometry_gap
from meanfield._fluctuations import Fluctuations, fluctuations, one_step_variance
from meanfield._pairs import packed
from meanfield._scatter import scatter

Floats: TypeAlias = NDArray[np.float64]

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
    each = Layer(activation, normalization=normalization)
    rows = np.array(
        [[1.0, 0.0, 0.0], [0.78, 0.6, 0.1], [-0.77, 0.6, 0.1], [0.97, 0.1, 0.2], [-0.96, 0.1, -0.2], [0.1, 0.0, 1.0]]
    )
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    G = rows @ rows.T
    np.fill_diagonal(G, 1.0)
    nearly = G.copy()
    nearly[5, 5] = 1 + 1e-13
    large, small = (np.sort(np.abs(packed(G))[sign * packed(G) > 0]) for sign in (1, -1))
    for sizes in (large, small):  # by series, the last of them long, and by integrals
        assert np.any((sizes > 0.75) & (sizes < 0.8))
        assert np.any((sizes > 0.9) & (sizes < 1))
    equal = scatter(each, G, each(G))
    np.testing.assert_allclose(scatter(each, nearly, each(nearly)), equal, rtol=1e-7, atol=1e-11)


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


def test_inputs_that_coincide_stay_so_among_others_of_other_norms() -> None:
    found = fluctuations([Layer("tanh")] * 2, [[2, 2, 0.3], [2, 2, 0.3], [0.3, 0.3, 0.5]], [100] * 2)
    assert np.all(found.variance[:, 0, 1] == 0.0)
    assert np.all(found.variance[1:, 0, 2] > 0.0)


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


# --- layers that are refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"normalization": "none"}, "keeps the norms"),
        ({"normalization": "center"}, "norms that fluctuate"),
        ({"normalization": "constant"}, "norms that fluctuate"),
        ({"normalization": "batch"}, "mixes all inputs"),
        ({"order": "normalization-first"}, "normalises before the activation"),
        ({"normalization": "rms", "order": "normalization-first"}, "normalises before the activation"),
        ({"skip": 0.5}, "skip connection"),
    ],
)
def test_layers_that_are_not_derived_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=rf"^relu.*not derived.*{why}"):
        one_step_variance(Layer("relu", **options), 0.5)


@pytest.mark.parametrize("text", ["exp(x**2/8)", "x*exp(x**2/6)"])
def test_an_infinite_fourth_moment_is_refused(text: str) -> None:
    with pytest.raises(NotSquareIntegrableError, match=r"E sigma\^4 is infinite"):
        one_step_variance(Layer(text), 0.5)
    assert one_step_variance(Layer("exp(x**2/9)"), 0.0) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("text", ["abs(x)**(1/5)", "exp(20*x)"])
def test_what_is_not_resolved_is_refused(text: str) -> None:
    with pytest.raises(PrecisionError, match=r"fluctuations of|fourth moments of"):
        one_step_variance(Layer(text), 0.5)
