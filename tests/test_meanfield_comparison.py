"""Simulations beside the mean field: the laws of finite width hold for what is simulated, and wrong ones do not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hermite import activation
from meanfield import Comparison, Layer, Simulation, simulate, trajectory
from meanfield._fluctuations import fluctuations, one_step_variance

RELU = Layer("relu")
X = np.random.default_rng(0).standard_normal((10, 40))


def run(layer: Layer, inputs: np.ndarray, **options: Any) -> tuple[Simulation, Comparison]:
    s = simulate(layer, inputs, **({"rng": 0} | options))
    return s, s.compare(trajectory(layer, s.initial_gram, s.depth))


def two(rho: float) -> np.ndarray:
    """Two inputs of length 1 and correlation rho, whose Gram matrix divided by 2 is 2-homogeneous in their scale."""
    return math.sqrt(2) * np.array([[1.0, 0.0], [rho, math.sqrt(1 - rho * rho)]])


# --- F1: the variance of one layer -------------------------------------------------------------------------------

RUNS = 20000


@pytest.mark.parametrize("method", ["gram", "weights"])
@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.9])
@pytest.mark.parametrize("name", ["relu", "tanh", "He(2, x)"])
def test_f1_the_variance_of_one_layer(name: str, rho: float, method: Any) -> None:
    """width Var G_12 is v within 5 standard errors sqrt((2 + kurtosis)/runs) of 20000 runs, and what is 1/width."""
    layer, width = Layer(name), 300 if method == "gram" else 100
    entry = simulate(layer, two(rho), width=width, depth=1, runs=RUNS, method=method, rng=1).gram[:, 0, 1]
    found = width * entry.var(ddof=1)
    spread = math.sqrt((stats.kurtosis(entry) + 2) / RUNS)
    exact = float(one_step_variance(layer, rho))
    assert abs(found / exact - 1) < 5 * spread + 12 / width
    if abs(rho) >= 0.5 and name != "He(2, x)":
        assert abs(found - 1) > 7 * spread  # v = 1 is that of orthogonal inputs


# --- F4: the floor from orthogonal inputs ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "n"), [("relu", 4), ("tanh", 3), ("abs", 5)])
def test_f4_the_law_of_the_floor(name: str, n: int) -> None:
    """G_0 = I: width gap -> (1 - r^2l)/(1 - r^2) chi^2_{n(n-1)/2}/n; Kolmogorov and the mean at 1e-6, 2000 runs.

    Wrong laws are rejected: degrees of freedom off by n, r in place of r^2, and that of r = 0.
    """
    layer, width, depth = Layer(name), 4000, 6
    s = simulate(layer, math.sqrt(n) * np.eye(n), width=width, depth=depth, runs=2000, rng=3)
    gap, r, pairs = width * s.isometry_gap[:, -1], layer.linearity, n * (n - 1) // 2
    growth = (1 - r ** (2 * depth)) / (1 - r**2)
    assert stats.kstest(gap, stats.chi2(pairs, scale=growth / n).cdf).pvalue > 1e-6
    z = (gap.mean() - growth * (n - 1) / 2) / (gap.std(ddof=1) / math.sqrt(len(gap)))
    assert abs(z) < 5
    assert gap.var() == pytest.approx(growth**2 * (n - 1) / n, rel=0.25)
    assert stats.kstest(gap, stats.chi2(pairs + n, scale=growth / n).cdf).pvalue < 1e-6
    if r > 0.1:
        wrong = (1 - r**depth) / (1 - r)
        assert stats.kstest(gap, stats.chi2(pairs, scale=wrong / n).cdf).pvalue < 1e-6
        assert stats.kstest(gap, stats.chi2(pairs, scale=1 / n).cdf).pvalue < 1e-6


def test_the_band_holds_nine_runs_of_ten_from_orthogonal_inputs() -> None:
    s, c = run(RELU, math.sqrt(4) * np.eye(4), width=4000, depth=5, runs=2000)
    inside = ((s.isometry_gap >= c.band[0]) & (s.isometry_gap <= c.band[1])).mean(axis=0)
    assert np.all(np.abs(inside[1:] - 0.9) < 5 * math.sqrt(0.09 / 2000))
    assert np.all(np.abs(c.z_expected) < 5)
    assert np.all(np.abs(c.z_entries - 1) < 1.5)  # six entries: chi-square/6 of 6 degrees


# --- F3: every entry, along the way ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer", [RELU, Layer("tanh", bias_variance=0.2), Layer("gelu", normalization="rms")], ids=repr
)
def test_f3_entries_scatter_as_predicted(layer: Layer) -> None:
    """n = 5, width 2000, 4000 runs: the variance of each entry at each layer, within 5 standard errors and 3 %."""
    s, c = run(layer, X[:5] + 0.5, width=2000, depth=6, runs=4000)
    predicted = c.fluctuations
    assert predicted is not None
    i, j = np.triu_indices(5, 1)
    low, high = predicted.band(2.0)
    inside = (s.gram[:, i, j] > low[-1][i, j]) & (s.gram[:, i, j] < high[-1][i, j])
    assert np.all(np.abs(inside.mean(axis=0) - 0.9545) < 0.02)
    ratio = s.gram_variance[1:, i, j] / predicted.variance[1:, i, j]
    assert np.all(np.abs(ratio - 1) < 5 * math.sqrt(2 / 4000) + 0.03)
    assert np.all(c.z_entries[1:] < 4)  # means are off by the curvature of the map alone
    narrow = fluctuations(s.layers, s.initial_gram, [1600] * 6)
    assert np.all(np.abs(s.gram_variance[1:, i, j] / narrow.variance[1:, i, j] - 1).max(axis=1) > 0.15)


def test_f3_with_widths_that_change() -> None:
    widths = [500, 4000, 1000, 8000]
    layers = [RELU, Layer("tanh"), Layer("gelu"), RELU]
    s = simulate(layers, X[:4], width=widths, runs=4000, rng=1)
    c = s.compare(trajectory(layers, s.initial_gram))
    predicted = fluctuations(layers, s.initial_gram, widths)
    i, j = np.triu_indices(4, 1)
    ratio = s.gram_variance[1:, i, j] / predicted.variance[1:, i, j]
    assert np.all(np.abs(ratio - 1) < 5 * math.sqrt(2 / 4000) + 0.03)
    assert np.all(np.abs(c.z_expected[1:]) < 6)
    other = fluctuations(layers, s.initial_gram, widths[::-1])
    assert np.any(np.abs(s.gram_variance[1:, i, j] / other.variance[1:, i, j] - 1) > 0.5)


# --- what is said of the two -------------------------------------------------------------------------------------


def test_where_the_mean_field_ceases_to_be_trusted() -> None:
    s, c = run(RELU, X, width=1000, depth=30, runs=40)
    assert c.useful_depth == 4
    assert c.departs_at == 3
    assert c.trusted_until == 2
    assert str(c) == (
        "relu: the mean field holds to layer 2 of 30 (fluctuations exceed its gap from layer 4 on; the runs have left "
        "it from layer 3 on)"
    )
    assert np.all(np.abs(c.z[3:]) > 10)
    assert np.all(np.abs(c.z_expected) < 5)
    np.testing.assert_array_equal(c.mean, s.mean())
    z = (s.mean()[5] - c.mean_field[5]) / s.standard_error()[5]
    assert c.z[5] == pytest.approx(z, rel=1e-12)
    high = s.mean("max_correlation")[5] - trajectory(RELU, s.initial_gram, 30).max_correlation[5]
    assert c.z_max_correlation[5] == pytest.approx(high / s.standard_error("max_correlation")[5], rel=1e-9)


def test_the_useful_depth_grows_with_the_logarithm_of_the_width() -> None:
    """l_x = log(width (1 - r^2) mean K(g_0)^2)/(2 log(1/r)): a factor 10 in the width is log 10/(2 log(1/r)) layers."""
    depths = [run(RELU, X, width=w, depth=40, runs=2)[1].useful_depth for w in (10**2, 10**3, 10**4, 10**5, 10**6)]
    step = math.log(10) / (2 * math.log(1 / RELU.linearity))
    assert np.all(np.abs(np.diff(depths[1:]) - step) < 1.01)
    assert depths == sorted(depths)


def test_a_wide_network_is_trusted_to_the_last_layer() -> None:
    _, c = run(RELU, X, width=100_000, depth=4, runs=8)
    assert c.trusted_until == 4
    assert str(c) == "relu: the mean field holds to layer 4, the last"
    assert (c.useful_depth, c.departs_at) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (Layer("tanh", order="normalization-first"), "it normalises before the activation"),
        (Layer("tanh", normalization="none"), "nothing keeps the norms"),
        (Layer("relu", skip=0.5), "a skip connection adds what the layers before it have left"),
    ],
)
def test_where_fluctuations_are_not_derived(layer: Layer, said: str) -> None:
    _, c = run(layer, X, width=40, depth=3, runs=10)
    assert said in c.prediction_reason
    assert said in str(c)
    assert np.all(np.isnan(c.expected))
    assert np.all(np.isnan(c.band))
    assert math.isnan(c.useful_depth)
    assert c.fluctuations is None
    assert np.all(np.isfinite(c.z))
    assert c.to_pandas()["expected"].isna().all()


def test_epsilon_has_no_prediction() -> None:
    s = simulate(RELU, X, width=50, depth=2, runs=3, rng=0, eps=1e-5)
    c = s.compare(trajectory(RELU, s.initial_gram, 2))
    assert c.prediction_reason == "eps > 0 is no part of the mean field"


def test_one_run_and_coinciding_inputs() -> None:
    _, one = run(RELU, X, width=1000, depth=10, runs=1)
    assert np.all(np.isnan(one.z[1:]))
    assert one.z[0] == 0.0
    assert math.isnan(one.departs_at)
    assert one.trusted_until == one.useful_depth - 1
    _, doubled = run(RELU, np.vstack([X, X[0]]), width=100, depth=3, runs=3)
    assert np.all(doubled.z == 0.0)
    assert np.all(np.isinf(doubled.mean))
    assert doubled.trusted_until == 3
    assert "the isometry gap is infinite at every layer" in str(doubled)


@pytest.mark.parametrize("e", [1e-4, 1e-5, 1e-6])
def test_nearly_coincident_inputs_are_compared(e: float) -> None:
    """Two roundings of a nearly singular matrix are no other start."""
    rng = np.random.default_rng(0)
    x, noise, y = rng.standard_normal((3, 50))
    _, c = run(RELU, np.array([x, x + e * noise, y]), width=300, depth=3, runs=5)
    assert np.all(np.isfinite(c.mean))


def test_fewer_dimensions_than_inputs_are_expected_to_be_singular() -> None:
    """10 inputs in 10 centred features are dependent, in 11 they are not; rms leaves 10 dimensions of 10."""
    for layer, width, singular in (
        (RELU, 10, True),
        (RELU, 11, False),
        (Layer("relu", normalization="rms"), 10, False),
    ):
        _, c = run(layer, math.sqrt(10) * np.eye(10), width=width, depth=1, runs=20)
        assert np.isinf(c.expected[1]) == singular
        assert np.all(np.isinf(c.band[:, 1])) == singular
        assert np.isinf(c.mean[1]) == singular


def test_a_trajectory_from_elsewhere_is_refused() -> None:
    s = simulate(RELU, X, width=50, depth=3, runs=2, rng=0)
    with pytest.raises(ValueError, match="trajectory has 4 layers, the simulation 3"):
        s.compare(trajectory(RELU, s.initial_gram, 4))
    with pytest.raises(ValueError, match="trajectory starts from another Gram matrix"):
        s.compare(trajectory(RELU, s.initial_gram + 0.1 * np.eye(10), 3))
    with pytest.raises(ValueError, match="trajectory is of 9 inputs, the simulation of 10"):
        s.compare(trajectory(RELU, s.initial_gram[:9, :9], 3))
    with pytest.raises(ValueError, match=r"trajectory must be what meanfield\.trajectory returns, got Layer"):
        s.compare(RELU)  # type: ignore[arg-type]


def test_another_networks_trajectory_is_far_away() -> None:
    """The control: the mean field of leaky relu is no mean field of relu; and it is refused by its name."""
    s = simulate(RELU, X, width=100_000, depth=3, runs=8, rng=0)
    other = trajectory(Layer("relu(x) - 0.5*relu(-x)"), s.initial_gram, 3)
    with pytest.raises(
        ValueError, match=r"trajectory is that of 'relu\(x\) - 0\.5\*relu\(-x\)', and the simulation of"
    ):
        s.compare(other)
    assert s.compare(replace(other, layers=s.layers)).trusted_until <= 1
    for slope in (0.1, 0.9):  # of one name
        leaky = Layer(activation("leaky_relu", negative_slope=slope))
        with pytest.raises(ValueError, match="of other layers"):
            simulate(Layer(activation("leaky_relu", negative_slope=0.3)), X, width=9, depth=2).compare(
                trajectory(leaky, s.initial_gram, 2)
            )
    s.compare(trajectory(Layer("max(x, 0)"), s.initial_gram, 3))  # the same function by another name


# --- pictures ----------------------------------------------------------------------------------------------------


def test_what_is_drawn() -> None:
    plotting = pytest.importorskip("matplotlib.pyplot")
    s, c = run(RELU, X, width=1000, depth=10, runs=5)
    ax = s.plot()
    mean, *runs = ax.get_lines()
    np.testing.assert_array_equal(mean.get_ydata(), s.mean())
    assert mean.get_label() == "relu, width 1000, mean of 5"
    for line, gap in zip(runs, s.isometry_gap, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), gap)
    assert ax.get_yscale() == "log"

    _, own = plotting.subplots()
    assert c.plot(ax=own) is own
    lines = {line.get_label(): line for line in own.get_lines()}
    np.testing.assert_array_equal(lines["infinite width"].get_ydata(), c.mean_field)
    np.testing.assert_array_equal(lines["expected"].get_ydata(), c.expected)
    band = own.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(c.band[0].min())
    assert band.max() == pytest.approx(c.band[1].max())
    (ceases,) = [line for line in own.get_lines() if list(line.get_xdata()) == [c.trusted_until + 0.5] * 2]
    assert ceases.get_linestyle() == ":"
    plotting.close("all")
