"""Networks of finite width: what is drawn, that it is the network asked for, and that nothing else decides about it."""

from __future__ import annotations

import math
import pickle
import sys
from dataclasses import fields
from typing import Any

import _networks as networks
import numpy as np
import pytest
from scipy import stats

from hermite.errors import MissingDependencyError, PrecisionError
from meanfield import (
    Layer,
    Simulation,
    correlation,
    estimate_isometry_gap,
    gram,
    grams,
    max_correlation,
    potential,
    simulate,
    trajectory,
)
from meanfield import _conditional as conditional
from meanfield import _finite_width as finite_width
from meanfield import _wide as wide

RNG = np.random.default_rng
X = RNG(7).standard_normal((4, 6)) + 0.3
RELU = Layer("relu")


def arrays_of(s: Simulation) -> dict[str, Any]:
    return {f.name: v for f in fields(s) if isinstance(v := getattr(s, f.name), np.ndarray)}


def same(a: Simulation, b: Simulation) -> None:
    for name, value in arrays_of(a).items():
        np.testing.assert_array_equal(value, getattr(b, name), err_msg=name)


# --- every layer, against networks written from the definition -------------------------------------------------

KINDS = ["layer", "rms", "center", "constant", "none", "batch"]
SPECS = [
    networks.Spec(name, kind, order, gain, bias, skip)
    for kind in KINDS
    for order in ("activation-first", "normalization-first")
    for name, gain, bias, skip in [("relu", 1.0, 0.0, 0.0), ("tanh", 1.5, 0.5, 0.0), ("gelu", 0.75, 0.25, 0.6)]
    # relu can be 0 on the whole batch, where batch normalisation is 0/0: `networks` divides
    if (kind, name, order) != ("batch", "relu", "activation-first")
]
K0 = np.array([[1.0, 0.6, -0.3], [0.6, 1.4, 0.2], [-0.3, 0.2, 0.7]])
WIDTH, DEPTH, RUNS = 24, 2, 3000
LEVEL = 1e-6 / (2 * len(SPECS))


def layer_of(spec: networks.Spec) -> Layer:
    return Layer(spec.activation, **spec.options)


def reference(spec: networks.Spec, seed: int, runs: int = RUNS) -> np.ndarray:
    rng = np.random.Generator(np.random.SFC64(seed))
    x = networks.inputs(K0, WIDTH, rng)
    out = []
    for _ in range(runs):
        y = x
        for _ in range(DEPTH):
            y = networks.layer(y, spec, WIDTH, rng)
        out.append(y @ y.T / WIDTH)
    return np.array(out)


def statistics_of(grams_: np.ndarray) -> np.ndarray:
    """(runs, columns): entries, their squares, products of neighbours, and log det: of the law, not just the mean."""
    i, j = np.triu_indices(grams_.shape[-1])
    entries = grams_[:, i, j]
    log_det = np.linalg.slogdet(grams_ + 1e-3 * np.eye(grams_.shape[-1]))[1]
    return np.column_stack([entries, entries**2, entries * np.roll(entries, 1, axis=1), log_det])


def differ(a: np.ndarray, b: np.ndarray, level: float) -> bool:
    """Welch's test on every statistic and Kolmogorov's on every entry, Bonferroni over all."""
    left, right = statistics_of(a), statistics_of(b)
    varies, also = left.std(axis=0) > 1e-12, right.std(axis=0) > 1e-12
    fixed = ~varies & ~also
    if np.any(varies != also) or np.any(np.abs(left.mean(axis=0) - right.mean(axis=0))[fixed] > 1e-9):
        return True
    left, right = left[:, varies], right[:, varies]
    p = [*stats.ttest_ind(left, right, equal_var=False).pvalue]
    p += [stats.ks_2samp(x, y, method="asymp").pvalue for x, y in zip(left.T, right.T, strict=True)]
    return float(min(p)) < level / len(p)


def ours(spec: networks.Spec | Layer, method: str, seed: int, runs: int = RUNS) -> np.ndarray:
    layer = spec if isinstance(spec, Layer) else layer_of(spec)
    x = networks.inputs(K0, WIDTH, np.random.Generator(np.random.SFC64(1)))
    return simulate(layer, x, width=WIDTH, depth=DEPTH, runs=runs, method=method, rng=seed).gram


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gram", "weights"])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_law_is_that_of_explicit_networks(spec: networks.Spec, method: str) -> None:
    """False alarms: 1e-6 over the file. Two independent samples of 3000 networks of width 24, two layers deep."""
    assert not differ(ours(spec, method, 11), reference(spec, 12), LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        Layer("relu", normalization="rms"),
        Layer("relu", gain=1.05, normalization="none"),
        Layer("relu", bias_variance=0.05),
        Layer("relu", skip=0.15),
        Layer("relu(x) - 0.2*relu(-x)"),
        Layer("relu", order="normalization-first"),
        Layer("relu", normalization="center"),
    ],
    ids=repr,
)
def test_another_layer_is_told_apart(wrong: Layer) -> None:
    """The control: 3000 networks see a slope of 0.2, a bias of 0.05, a skip of 0.15."""
    assert differ(ours(wrong, "gram", 11), reference(networks.Spec("relu"), 12), 1e-6)


@pytest.mark.parametrize("spec", [s for s in SPECS if s.normalization != "batch"], ids=str)
def test_a_very_wide_network_is_its_mean_field(spec: networks.Spec) -> None:
    """A million neurons: entries of size 1 scatter by some 1/1000, and 1 % of one would be seen."""
    x = math.sqrt(3) * np.linalg.cholesky(K0)
    if spec.skip:
        x = np.pad(math.sqrt(1e6 / 3) * x, ((0, 0), (0, 1_000_000 - 3)))
    s = simulate(layer_of(spec), x, width=1_000_000, depth=1, rng=2)
    assert s.distance_max[0, 1] < 8 * np.abs(s.gram).max() / 1000
    assert s.distance_max[0, 0] < 1e-14


def test_methods_agree_pooled_over_seeds() -> None:
    """The mean gap of 8 x 4000 runs by each method; weights against weights is the control. Level 1e-6."""

    def pooled(method: str, first: int) -> np.ndarray:
        found = [
            simulate(RELU, X, width=40, depth=4, runs=1000, method=method, rng=seed).isometry_gap[:, -1]
            for seed in range(first, first + 8)
        ]
        return np.concatenate(found)

    sampled, explicit, control = pooled("gram", 0), pooled("weights", 100), pooled("weights", 200)
    for a, b in ((sampled, explicit), (explicit, control)):
        assert stats.ttest_ind(a, b, equal_var=False).pvalue > 1e-6
        assert stats.ks_2samp(a, b).pvalue > 1e-6
    assert stats.ttest_ind(sampled, 1.1 * explicit, equal_var=False).pvalue < 1e-4  # 10 % would be seen


def test_a_mixed_network_of_changing_widths() -> None:
    layers = [RELU, Layer("tanh", gain=1.5, bias_variance=0.1), Layer("gelu", normalization="rms"), Layer("sin")]
    widths = [30, 12, 50, 20]
    both = [simulate(layers, X, width=widths, runs=3000, method=m, rng=3) for m in ("gram", "weights")]
    assert not differ(both[0].gram, both[1].gram, 1e-6)
    narrow = simulate(layers, X, width=[30, 12, 50, 12], runs=3000, rng=4)
    assert differ(both[0].gram, narrow.gram, 1e-6)
    assert both[0].width.tolist() == widths
    assert both[0].label.startswith("relu, tanh")


@pytest.mark.parametrize("widths", [[64, 128, 256, 512], [512, 256, 128, 64], [64, 128, 64, 128], [100] * 4])
def test_shapes_of_widths(widths: list[int]) -> None:
    s = simulate([Layer("tanh")] * 4, X, width=widths, runs=2, rng=0)
    assert s.isometry_gap.shape == (2, 5)
    assert np.all(np.isfinite(s.isometry_gap))


# --- weights are N(0, 1/fan_in), tor-05 -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gram", "weights"])
def test_tor_05_a_layer_keeps_the_mean_square(method: str) -> None:
    """E|Wx|^2/(width |x|^2/fan_in) is 1 (a default of a framework has 1/3): 4e5 squares, so within 5 sqrt(2/4e5)."""
    x = RNG(1).standard_normal((1, 1000)) * 3.0
    s = simulate(Layer("identity", normalization="none"), x, width=1000, depth=1, runs=400, method=method, rng=2)
    ratio = s.gram_mean[1, 0, 0] / s.initial_gram[0, 0]
    assert abs(ratio - 1.0) < 5 * math.sqrt(2 / 4e5)
    assert s.initial_gram[0, 0] == pytest.approx(float(x[0] @ x[0]) / 1000, rel=1e-14)


# --- nothing but the seed and the place decides ------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gram", "weights"])
@pytest.mark.parametrize(
    "layer", [RELU, Layer("tanh", order="normalization-first", bias_variance=0.1, skip=0.5)], ids=repr
)
def test_runs_do_not_depend_on_what_runs_beside_them(
    layer: Layer, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = RNG(0).standard_normal((3, 60))
    options: dict[str, Any] = {"width": 60, "depth": 3, "method": method, "rng": 5}
    whole = simulate(layer, x, runs=7, **options)
    for at_once in (1, 2, 3, 7):
        monkeypatch.setattr(wide.NumpyArrays, "at_once", lambda self, elements, k=at_once: (k, 1))
        same(simulate(layer, x, runs=7, **options), whole)
    few = simulate(layer, x, runs=3, **options)
    np.testing.assert_array_equal(few.isometry_gap, whole.isometry_gap[:3])
    assert not np.array_equal(whole.isometry_gap[0], whole.isometry_gap[1])


def test_blocks_are_the_same_on_one_core_and_on_many(monkeypatch: pytest.MonkeyPatch) -> None:
    s = simulate(RELU, X, width=20000, depth=2, rng=1)
    monkeypatch.setattr(wide.NumpyArrays, "each", lambda self, function, starts: [function(i) for i in starts])
    same(simulate(RELU, X, width=20000, depth=2, rng=1), s)


def test_more_blocks_at_once_change_nothing_but_the_order_of_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three layers with a bias, a skip and statistics before sigma, of 20000 neurons: 5 blocks, by 1, 2 and 8."""
    layer = Layer("tanh", order="normalization-first", bias_variance=0.1, skip=0.5)
    x = RNG(0).standard_normal((3, 20000))
    s = simulate(layer, x, width=20000, depth=3, runs=2, rng=1)
    monkeypatch.setattr(wide.NumpyArrays, "_scratch", lambda self, name, shape: np.empty(shape))
    batch, y = Layer("relu", normalization="batch"), RNG(0).standard_normal((7, 9))
    singular = simulate(batch, y, width=9001, depth=3, runs=2, rng=1).gram
    for blocks in (2, 8):
        monkeypatch.setattr(wide.NumpyArrays, "at_once", lambda self, elements, k=blocks: (2, k))
        np.testing.assert_allclose(simulate(layer, x, width=20000, depth=3, runs=2, rng=1).gram, s.gram, rtol=1e-12)
        # all Gram matrices of batch normalisation are singular
        np.testing.assert_allclose(simulate(batch, y, width=9001, depth=3, runs=2, rng=1).gram, singular, atol=1e-6)


def test_a_wider_network_begins_with_the_neurons_of_a_narrower_one() -> None:
    """Blocks are seeded by their number: the first 4096 neurons of width 9000 are those of width 4096."""
    arrays = wide.NumpyArrays("float64", np.random.SeedSequence(3))
    first = arrays.normals([(0, 1, 0, 0)], 4, 4096).copy()
    again = arrays.normals([(7, 1, 0, 0), (0, 1, 0, 0)], 4, 4096)
    np.testing.assert_array_equal(again[1], first[0])
    assert not np.array_equal(again[0], first[0])


def test_rng_of_every_kind() -> None:
    options: dict[str, Any] = {"width": 20, "depth": 2, "runs": 2}
    by_int, by_sequence = (
        simulate(RELU, X, rng=3, **options),
        simulate(RELU, X, rng=np.random.SeedSequence(3), **options),
    )
    same(by_int, by_sequence)
    same(simulate(RELU, X, rng=by_int.seed, **options), by_int)
    fresh = simulate(RELU, X, **options)
    same(simulate(RELU, X, rng=fresh.seed, **options), fresh)  # what was not asked for can be repeated, too
    generator = RNG(0)
    one, two = simulate(RELU, X, rng=generator, **options), simulate(RELU, X, rng=generator, **options)
    assert not np.array_equal(one.isometry_gap, two.isometry_gap)
    child = np.random.SeedSequence(3).spawn(1)[0]
    assert not np.array_equal(simulate(RELU, X, rng=child, **options).isometry_gap, by_int.isometry_gap)
    for bad in (-1, 1.5, "seed", True):
        with pytest.raises(ValueError, match="rng must be None, an integer >= 0"):
            simulate(RELU, X, rng=bad, **options)


# --- what is recorded ---------------------------------------------------------------------------------------------


def test_columns_are_those_of_the_gram_matrices() -> None:
    s = simulate(Layer("gelu", normalization="center"), X, width=15, depth=1, runs=30, rng=1)
    start = gram(X) / X.shape[1]
    np.testing.assert_array_equal(s.initial_gram, start)
    mean_field = list(grams([Layer("gelu", normalization="center")], start))
    for run in range(s.runs):
        for l, G in enumerate((start, s.gram[run])):
            gap = estimate_isometry_gap(G)
            assert abs(s.isometry_gap[run, l] - gap.value) <= s.isometry_gap_error[run, l] + gap.error
            assert 1e-17 < s.isometry_gap_error[run, l] <= 1e-12
            assert s.log_isometry_gap[run, l] == pytest.approx(math.log(gap.value), rel=1e-12)
            assert s.max_correlation[run, l] == pytest.approx(max_correlation(correlation(G)), rel=1e-13)
            assert s.potential[run, l] == pytest.approx(potential(correlation(G)), rel=1e-12)
            assert s.log_potential[run, l] == pytest.approx(math.log(potential(correlation(G))), rel=1e-12)
            assert s.isometry_gap_lower[run, l] == s.isometry_gap[run, l] - s.isometry_gap_error[run, l]
            assert 0 < s.log_isometry_gap_error[run, l] <= 1.1 * s.isometry_gap_error[run, l] / gap.value + 1e-15
            assert 0 < s.max_correlation_error[run, l] < 1e-15
            assert 0 < s.log_potential_error[run, l] < 1e-13
            off = G - mean_field[l]
            assert s.distance_max[run, l] == pytest.approx(np.abs(off).max(), abs=1e-15)
            assert s.distance_frobenius[run, l] == pytest.approx(np.linalg.norm(off), abs=1e-15)
    np.testing.assert_allclose(s.gram_mean[1], s.gram.mean(axis=0), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(s.gram_variance[1], s.gram.var(axis=0, ddof=1), rtol=1e-12)
    assert np.all(s.gram_variance[0] == 0.0)
    assert set(s.status.ravel().tolist()) == {"resolved"}


def test_statistics_over_runs() -> None:
    s = simulate(RELU, X, width=30, depth=2, runs=9, rng=1)
    for column in ("isometry_gap", "distance_frobenius"):
        values = getattr(s, column)
        np.testing.assert_array_equal(s.mean(column), values.mean(axis=0))
        np.testing.assert_allclose(s.standard_error(column), values.std(axis=0, ddof=1) / 3, rtol=1e-14)
        np.testing.assert_array_equal(s.quantiles(0.5, column), np.median(values, axis=0))
        np.testing.assert_array_equal(s.quantiles((0, 1), column), [values.min(axis=0), values.max(axis=0)])
    assert np.all(np.isnan(simulate(RELU, X, width=30, depth=2, rng=1).standard_error()))
    with pytest.raises(ValueError, match="column must be one of isometry_gap"):
        s.mean("gap")
    with pytest.raises(ValueError, match=r"p must lie in \[0, 1\], got 2"):
        s.quantiles(2)


def test_a_table_and_a_copy() -> None:
    s = simulate(RELU, X, width=30, depth=2, runs=3, rng=1)
    frame = s.to_pandas()
    assert frame.shape[0] == 9
    assert frame["width"].tolist() == [0, 30, 30] * 3
    assert frame["isometry_gap"].tolist() == s.isometry_gap.ravel().tolist()
    same(pickle.loads(pickle.dumps(s)), s)
    assert repr(s).startswith("Simulation('relu', runs=3, n=4, width=30, depth=2, method='gram', backend='numpy'")


def test_no_layers_and_one_input() -> None:
    s = simulate([], X, width=[], runs=2, rng=0)
    assert s.isometry_gap.shape == (2, 1)
    np.testing.assert_array_equal(s.gram[1], gram(X) / X.shape[1])
    one = simulate(RELU, X[:1], width=50, depth=3, runs=2, rng=0)
    assert np.all(one.isometry_gap == 0.0)
    assert np.all(one.max_correlation == 0.0)


# --- rank deficiency, and what does not vary ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gram", "weights"])
def test_inputs_that_coincide_stay_so(method: str) -> None:
    doubled = np.vstack([X, X[1], X[1]])
    s = simulate(RELU, doubled, width=50, depth=3, runs=4, method=method, rng=1)
    assert np.all(np.isinf(s.isometry_gap))
    assert set(s.status.ravel().tolist()) == {"singular"}
    assert np.all(s.potential == math.inf)
    assert np.all(s.max_correlation == 1.0)
    assert np.all(s.isometry_gap_lower == math.inf)
    for name in ("isometry_gap", "log_isometry_gap", "max_correlation", "log_potential"):
        assert np.all(getattr(s, name + "_error") == 0.0)
    np.testing.assert_array_equal(s.gram[:, 1], s.gram[:, 4])
    np.testing.assert_array_equal(s.gram[:, 1, 4], s.gram[:, 1, 1])
    plain = simulate(RELU, X, width=50, depth=3, runs=4, method=method, rng=1)
    np.testing.assert_array_equal(s.gram[:, :4, :4], plain.gram)


def test_coinciding_inputs_count_in_batch_normalisation() -> None:
    """The mean over a batch in which an input stands three times is not that of the distinct ones."""
    layer = Layer("tanh", normalization="batch")
    doubled = np.vstack([X, X[1], X[1]])
    found = [simulate(layer, doubled, width=40, depth=2, runs=2000, method=m, rng=1).gram for m in ("gram", "weights")]
    rng, explicit = np.random.Generator(np.random.SFC64(4)), []
    for _ in range(2000):
        y = doubled
        for _ in range(2):
            y = networks.layer(y, networks.Spec("tanh", "batch"), 40, rng)
        explicit.append(y @ y.T / 40)
    here = np.ix_(range(4), range(4))
    for each in found:
        assert not differ(np.array([g[here] for g in each]), np.array([g[here] for g in explicit]), 1e-6)
    lone = simulate(layer, X, width=40, depth=2, runs=2000, rng=1).gram
    assert differ(lone, np.array([g[here] for g in explicit]), 1e-6)


@pytest.mark.parametrize("method", ["gram", "weights"])
def test_more_inputs_than_features(method: str) -> None:
    """20 inputs, 9 features, width 8: Gram matrices of rank at most 8 (7 where centred), and a gap of inf."""
    x = RNG(0).standard_normal((20, 9))
    for layer, rank in ((RELU, 7), (Layer("tanh", normalization="rms"), 8)):
        s = simulate(layer, x, width=8, depth=3, runs=20, method=method, rng=1)
        assert np.all(np.linalg.matrix_rank(s.gram, tol=1e-10) <= rank)
        assert np.all(np.isinf(s.isometry_gap))
        assert set(s.status.ravel().tolist()) <= {"singular", "unresolved"}
    skipped = simulate(Layer("tanh", normalization="rms", skip=0.6), x, width=9, depth=2, runs=20, method=method, rng=1)
    assert np.all(np.linalg.matrix_rank(skipped.gram, tol=1e-10) <= 9)


@pytest.mark.slow
def test_a_skip_with_more_inputs_than_features_has_the_law_of_weights() -> None:
    x = RNG(0).standard_normal((5, 3))
    layer = Layer("tanh", normalization="rms", skip=0.6)
    both = [simulate(layer, x, width=3, depth=2, runs=4000, method=m, rng=1).gram for m in ("gram", "weights")]
    assert not differ(both[0], both[1], 1e-6)


@pytest.mark.parametrize("e", [1e-1, 1e-3, 1e-5])
def test_a_factor_keeps_what_is_nearly_dependent(e: float) -> None:
    """Rows x, x + e y, 2 x, e z: the third depends on the first, the second nearly, the fourth is short."""
    x, y, z = RNG(2).standard_normal((3, 5))
    A = np.array([x, x + e * y, 2 * x, e * z])
    F = conditional.factors((A @ A.T)[None])[0]
    np.testing.assert_allclose(F @ F.T, A @ A.T, rtol=1e-12, atol=1e-14)
    distance = np.linalg.norm(F[1] - F[0])
    assert distance == pytest.approx(e * np.linalg.norm(y), rel=1e-4)
    assert np.all(F[:, 3] == 0.0)


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
def test_short_inputs_beside_long_ones_that_depend(kind: Any) -> None:
    """Opposite inputs of length 1e10 make the Gram matrix singular; the others, of length 1e-10, are not rounding."""
    x = np.array([[1e10, 0, 0], [-1e10, 0, 0], [0, 1e-10, 0], [0, 1, 1]])
    layer = Layer("relu", normalization=kind)
    both = [simulate(layer, x, width=50, depth=1, runs=3000, method=m, rng=1).gram for m in ("gram", "weights")]
    scale = np.sqrt(np.einsum("ii->i", both[1].mean(axis=0)))
    assert np.all(scale > 0)
    rescaled = [G / scale[:, None] / scale for G in both]
    i, j = np.triu_indices(4)
    p = [stats.ks_2samp(a, b).pvalue for a, b in zip(*(G[:, i, j].T for G in rescaled), strict=True) if a.std() > 1e-9]
    assert min(p) > 1e-7
    assert rescaled[0].mean(axis=0)[2, 3] == pytest.approx(rescaled[1].mean(axis=0)[2, 3], abs=0.05)


@pytest.mark.parametrize("layer", [RELU, Layer("step"), Layer("tanh", normalization="none", skip=0.5)], ids=repr)
def test_a_singular_neighbour_changes_no_run(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG(0).standard_normal((6, 6))
    whole = simulate(layer, x, width=6, depth=3, runs=60, rng=5)
    assert len(set(whole.status[:, -1].tolist())) > 1 or layer.skip
    for first in (1, 7):
        few = simulate(layer, x, width=6, depth=3, runs=first, rng=5)
        np.testing.assert_array_equal(few.gram, whole.gram[:first])


def test_inputs_that_are_zero_stay_so_through_a_skip() -> None:
    x = RNG(0).standard_normal((5, 3))
    x[2] = 0.0
    layers = [Layer("relu", normalization="none", skip=0.5), Layer("relu", normalization="rms")]
    for method in ("gram", "weights"):
        s = simulate(layers, x, width=[3, 3], runs=50, method=method, rng=1)  # type: ignore[arg-type]
        assert np.all(s.gram[:, 2] == 0.0)


def test_a_skip_never_makes_a_diagonal_negative() -> None:
    x = RNG(0).standard_normal((5, 3))
    layers = [Layer("relu", normalization="center"), *[Layer("relu", normalization="center", skip=0.5)] * 2]
    for seed in range(10):
        s = simulate(layers, x, width=4, runs=60, rng=seed)
        assert np.all(np.einsum("rii->ri", s.gram) >= 0.0)


@pytest.mark.parametrize("size", [1e100, 1e-100, 1e-140])
def test_inputs_of_any_size(size: float) -> None:
    """The same networks at any scale, without a warning; distances scale along."""
    a, b = (simulate(Layer("relu", normalization="none"), c * X, width=30, depth=2, runs=3, rng=1) for c in (1.0, size))
    np.testing.assert_allclose(b.isometry_gap, a.isometry_gap, rtol=1e-9)
    np.testing.assert_allclose(b.distance_frobenius[:, 1:] / size**2, a.distance_frobenius[:, 1:], rtol=1e-9)


def test_opposite_inputs_stay_opposite_under_odd_sigma() -> None:
    x = np.vstack([X, -X[:1]])
    s = simulate(Layer("tanh"), x, width=50, depth=3, runs=3, rng=1)
    assert np.all(np.abs(s.gram[:, 0, 4] + 1.0) < 1e-13)
    assert np.all(np.isinf(s.isometry_gap))


@pytest.mark.parametrize("n", [2, 7])
@pytest.mark.parametrize("rank", [1, 2])
def test_a_factor_of_any_rank(n: int, rank: int) -> None:
    A = RNG(1).standard_normal((3, n, rank))
    K = A @ A.swapaxes(-1, -2)
    F = conditional.factors(K)
    np.testing.assert_allclose(F @ F.swapaxes(-1, -2), K, rtol=0, atol=1e-13 * np.abs(K).max())
    if n > rank:
        assert np.all(F[..., rank:] == 0.0)
    C = conditional.narrow(K, rank)
    np.testing.assert_allclose(C @ C.swapaxes(-1, -2), K, rtol=0, atol=1e-13 * np.abs(K).max())


@pytest.mark.parametrize("method", ["gram", "weights"])
def test_what_does_not_vary_is_normalised_to_zero(method: str) -> None:
    """step of one neuron is constant over the features: 0/0 by the formula, an input without direction by the rule."""
    s = simulate(Layer("step"), X, width=1, depth=3, runs=5, method=method, rng=1)
    assert np.all(s.gram == 0.0)
    assert set(s.status[:, 1:].ravel().tolist()) == {"singular"}
    assert np.all(s.isometry_gap[:, 1:] == math.inf)
    dead = simulate(Layer("relu", normalization="batch"), X[:2], width=400, depth=1, runs=3, method=method, rng=1)
    # a neuron that is 0 on both inputs is 0 after batch normalisation, and the others are +-1
    assert np.all((dead.gram[:, 0, 0] < 0.9) & (dead.gram[:, 0, 0] > 0.6))
    assert np.all(np.abs(dead.gram[:, 0, 0] + dead.gram[:, 0, 1]) < 1e-14)


@pytest.mark.parametrize("name", ["abs", "cos(3*x)", "x**2"])
def test_a_neuron_that_is_constant_but_for_rounding(name: str) -> None:
    """Two inputs are opposite after batch normalisation, so an even sigma makes them one: what is left is rounding."""
    layer = Layer(name, normalization="batch")
    for method in ("gram", "weights"):
        s = simulate(layer, X[:2], width=300, depth=3, runs=50, method=method, rng=1)  # type: ignore[arg-type]
        assert np.all(s.gram == 0.0), method
        assert set(s.status[:, -1].tolist()) == {"singular"}
    steep = simulate(Layer("exp(10*x)", normalization="batch"), X, width=300, depth=1, runs=5, rng=1)
    np.testing.assert_allclose(np.einsum("rii->r", steep.gram), 4.0, rtol=1e-12)  # no neuron is lost


def test_tor_03_a_constant_row_and_two_features() -> None:
    """0.1 a thousand times has the spread of its rounding; two features always become (1, -1)."""
    x = np.full((1, 1000), 0.1)
    x = np.vstack([x, RNG(0).standard_normal(1000)])
    s = simulate(Layer("0*x + 0.1 + 1e-300*x"), x, width=1000, depth=1, method="weights", rng=0)
    assert s.gram[0, 0, 0] == 0.0
    two = simulate(Layer("tanh"), X, width=2, depth=1, runs=5, rng=0)
    np.testing.assert_allclose(np.abs(two.gram), 1.0, rtol=1e-14)


def test_tor_01_eps_shrinks_what_is_small() -> None:
    """With eps, the mean square after layer normalisation is v/(v + eps): sigma = s x, v the sample's variance."""
    x = RNG(0).standard_normal((1, 50))
    for s in (1.0, 1e-2, 1e-3):
        layer = Layer(f"{s!r}*x")
        with_eps = simulate(layer, x, width=30, depth=1, rng=3, eps=1e-5)
        raw = simulate(Layer(f"{s!r}*x", normalization="center"), x, width=30, depth=1, rng=3).gram[0, 0, 0]
        assert with_eps.gram[0, 0, 0] == pytest.approx(raw / (raw + 1e-5), rel=1e-12)
        assert simulate(layer, x, width=30, depth=1, rng=3).gram[0, 0, 0] == 1.0


# --- float32, wide and deep -------------------------------------------------------------------------------------------


def test_float32_is_float64_but_for_rounding() -> None:
    """The law is the same; numbers differ, since single precision draws others."""
    a, b = (simulate(RELU, X, width=64, depth=3, runs=3000, dtype=t, rng=1) for t in ("float32", np.float64))
    assert (a.dtype, b.dtype) == ("float32", "float64")
    assert a.gram.dtype == np.float64
    assert not differ(a.gram, b.gram, 1e-6)


def test_a_million_neurons_in_little_memory() -> None:
    import tracemalloc

    tracemalloc.start()
    s = simulate(RELU, X, width=10**6, depth=2, rng=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # the features of one layer alone are 32 MB
    assert s.distance_max[0, -1] < 10 / math.sqrt(10**6)


@pytest.mark.parametrize(
    "name", ["relu", "gelu", "softplus", "mish", "elu", "hardswish", "He(60, x)/3 + x", "sin(3*x)"]
)
def test_activations_are_those_of_the_other_interpreter(name: str) -> None:
    from hermite import activation
    from hermite._lean import compiled

    sigma = activation(name)
    x = RNG(0).standard_normal(20000) * 2
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-4)):
        found = compiled(sigma.expr)(x.astype(dtype))
        assert found.dtype == dtype
        exact = sigma(x.astype(dtype))
        assert np.max(np.abs(found - exact)) <= tolerance * np.max(np.abs(exact))


def test_a_callable_runs_on_numpy() -> None:
    s = simulate(Layer(lambda x: np.maximum(x, 0.0)), X, width=50, depth=3, runs=2, rng=1)
    t = simulate(RELU, X, width=50, depth=3, runs=2, rng=1)
    np.testing.assert_allclose(s.isometry_gap, t.isometry_gap, rtol=1e-12)


def test_with_batch_normalisation_the_gap_is_that_of_a_trajectory() -> None:
    """The vector of ones is in the kernel: the gap is that on its complement, by both records."""
    layer = Layer("x", normalization="batch")
    s = simulate(layer, X, width=200_000, depth=2, rng=0)
    t = trajectory(layer, s.initial_gram, 2)
    np.testing.assert_allclose(s.isometry_gap[0], t.isometry_gap, rtol=0.05)
    assert s.isometry_gap[0, 0] == pytest.approx(t.isometry_gap[0], rel=1e-12)
    assert s.max_correlation[0, 0] == pytest.approx(t.max_correlation[0], rel=1e-12)


# --- no mean field, and trouble -------------------------------------------------------------------------------------


def test_where_there_is_no_mean_field() -> None:
    s = simulate(Layer("tanh", normalization="batch"), X, width=50, depth=2, runs=2, rng=0)
    assert np.all(np.isnan(s.distance_max))
    assert "has no exact mean field" in s.mean_field_reason
    assert np.all(np.isfinite(s.isometry_gap))
    assert simulate(RELU, X, width=50, depth=2, rng=0).mean_field_reason == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layer": "relu"}, "layer must be a Layer or a sequence of Layers"),
        ({"X": X[0]}, r"X must have shape \(n, d\), rows being inputs, got shape \(6,\)"),
        ({"X": np.full((2, 2), np.nan)}, "X must be finite, got nan"),
        ({"X": [["a"]]}, "X must be an array of real numbers"),
        ({"width": 0}, "width must be an integer >= 1, got 0"),
        ({"width": 2.5}, "width must be an integer >= 1, or a sequence"),
        ({"width": "wide"}, "width must be an integer >= 1, or a sequence"),
        ({"width": {20, 30}}, "width must be an integer >= 1, or a sequence"),
        ({"width": 10**30}, "width must be at most 1000000000000, got 1"),
        ({"method": np.array(["gram"])}, "method must be one of"),
        ({"eps": 10**400}, "eps must be a finite number >= 0, got 1000"),
        ({"X": np.ma.masked_array(X, X > 1)}, "X must not be a masked array"),
        ({"width": True}, "width must be an integer >= 1, got True"),
        ({"width": [10, 10]}, "width has 2 entries for 3 layers"),
        ({"width": [10, -1, 10]}, "width must be an integer >= 1, got -1"),
        ({"depth": None}, "depth is needed"),
        ({"runs": 0}, "runs must be an integer >= 1, got 0"),
        ({"method": "wishart"}, "method must be one of 'gram', 'weights', got 'wishart'"),
        ({"backend": "jax"}, "backend must be one of 'numpy', 'torch', got 'jax'"),
        ({"device": "cuda"}, "device='cuda' needs backend='torch'"),
        ({"dtype": "float16"}, "dtype must be 'float64' or 'float32', got 'float16'"),
        ({"dtype": int}, "dtype must be 'float64' or 'float32'"),
        ({"eps": -1e-5}, "eps must be a finite number >= 0, got -1e-05"),
        ({"eps": "small"}, "eps must be a finite number >= 0, got 'small'"),
        (
            {"layer": Layer("relu", skip=0.5)},
            "layer 1 has a skip connection, which adds its input of width 6 to its output",
        ),
        ({"progress": 3}, "progress must be True, False, None or a function"),
    ],
)
def test_what_is_no_network_is_refused(change: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"layer": RELU, "X": X, "width": 10, "depth": 3, "rng": 0} | change
    with pytest.raises(ValueError, match=said):
        simulate(asked.pop("layer"), asked.pop("X"), **asked)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'isogram\[torch\]'"):
        simulate(RELU, X, width=10, depth=1, backend="torch")


def test_a_network_that_leaves_float64_says_where() -> None:
    with pytest.raises(
        PrecisionError, match=r"layer \d+, run 0: the Gram matrix after \(100\*x\)\*\*2 \(none\) leaves float64"
    ):
        simulate(Layer("x**2", normalization="none", gain=100), X, width=20, depth=50, rng=0)
    with pytest.raises(PrecisionError, match="leaves float32"):
        simulate(Layer("x", normalization="none", gain=1e10), X, width=20, depth=2, rng=0, dtype="float32")
    with pytest.raises(PrecisionError, match="X has inputs whose mean square leaves float32; scale X, or use"):
        simulate(RELU, 1e-20 * X, width=20, depth=2, rng=0, dtype="float32")


def test_runs_before_one_that_leaves_the_range_are_kept() -> None:
    """exp without normalisation: some network of the first batch explodes, those before it do not."""
    layer = Layer("exp", normalization="none")
    with pytest.raises(PrecisionError, match=r"run (\d+)") as stopped:
        simulate(layer, 0.3 * X, width=9, depth=4, runs=100, rng=1)
    run = int(str(stopped.value).split("run ")[1].split(":")[0])
    if run:
        assert stopped.value.finished.runs == run  # type: ignore[attr-defined]
    assert run > 0


def test_finished_runs_are_kept_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate(RELU, X, width=20, depth=2, runs=6, rng=1)
    monkeypatch.setattr(wide.NumpyArrays, "at_once", lambda self, elements: (2, 1))
    networks_, seen = finite_width._networks, []

    def stopping(plan: Any, batch: Any, *rest: Any) -> Any:
        seen.append(batch.runs)
        if 4 in batch.runs:
            raise KeyboardInterrupt
        return networks_(plan, batch, *rest)

    monkeypatch.setattr(finite_width, "_networks", stopping)
    with pytest.raises(KeyboardInterrupt) as stopped:
        simulate(RELU, X, width=20, depth=2, runs=6, rng=1)
    kept = stopped.value.finished  # type: ignore[attr-defined]
    assert kept.runs == 4
    np.testing.assert_array_equal(kept.isometry_gap, whole.isometry_gap[:4])
    assert stopped.value.__notes__ == ["4 of 6 runs are finished, and kept in the attribute `finished` of this error"]


def test_memory_that_is_short_is_shared_by_fewer_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate(RELU, X, width=20, depth=2, runs=7, rng=1)
    normals, asked = wide.NumpyArrays.normals, []

    def short(self: Any, keys: Any, rows: int, columns: int) -> Any:
        asked.append(len(keys))
        if len(keys) > 2:
            raise MemoryError("planted")
        return normals(self, keys, rows, columns)

    monkeypatch.setattr(wide.NumpyArrays, "normals", short)
    same(simulate(RELU, X, width=20, depth=2, runs=7, rng=1), whole)
    assert asked[0] == 7
    assert max(asked[2:]) == 1 or max(asked[2:]) == 2

    def none(self: Any, keys: Any, rows: int, columns: int) -> Any:
        raise MemoryError("planted")

    monkeypatch.setattr(wide.NumpyArrays, "normals", none)
    with pytest.raises(MemoryError, match=r"out of memory with one run at a time \(planted\); use method='gram'"):
        simulate(RELU, X, width=20, depth=2, runs=7, rng=1)


def test_progress_counts_layers_of_all_runs() -> None:
    said: list[tuple[int, int]] = []
    simulate(RELU, X, width=20, depth=3, runs=2, rng=1, progress=lambda done, total: said.append((done, total)))
    assert said[0] == (0, 6)
    assert said[-1] == (6, 6)
    assert said == sorted(said)
