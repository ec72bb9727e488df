"""Layers against networks with explicit weights: a wrong formula is caught without trusting any formula.

Widths 500 and 2000: 800 seeds for layers without skip, 24 with skip; chains at widths 150 and 600, 60 seeds. A
comparison rejects a true claim with probability 1e-6, which makes 5e-5 for the file, and the seeds are fixed. The
controls at the end are wrong claims that the very same comparisons reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest
from _networks import Spec, constants, disagreement, estimates, inputs, layer, network
from numpy.typing import NDArray

from meanfield import Layer

Floats: TypeAlias = NDArray[np.float64]

CORRELATIONS = np.array(
    [
        [1.00, 0.95, 0.30, -0.60, 0.00],
        [0.95, 1.00, 0.20, -0.50, 0.10],
        [0.30, 0.20, 1.00, 0.10, -0.40],
        [-0.60, -0.50, 0.10, 1.00, 0.25],
        [0.00, 0.10, -0.40, 0.25, 1.00],
    ]
)
NORMS = np.sqrt([1.0, 0.5, 2.0, 1.3, 0.2])
K = CORRELATIONS * np.outer(NORMS, NORMS)
FIRST = "normalization-first"
AFTER = "activation-first"

SINGLE = [
    Spec("relu", "layer"),
    Spec("tanh", "layer", gain=1.5, bias_variance=0.25),
    Spec("step", "layer", bias_variance=0.3),
    Spec("square", "layer"),
    Spec("relu", "rms", bias_variance=0.5),
    Spec("gelu", "rms", gain=-1.5),
    Spec("step", "rms"),
    Spec("relu", "center", gain=2.0, bias_variance=0.5),
    Spec("sigmoid", "center", gain=1.5),
    Spec("relu", "constant", gain=1.5, bias_variance=0.5),
    Spec("tanh", "constant", gain=2.0),
    Spec("elu", "constant", bias_variance=0.2),
    Spec("relu", "none", gain=1.5, bias_variance=0.5),
    Spec("gelu", "none", bias_variance=0.3),
    Spec("step", "none", bias_variance=0.3),
    Spec("x", "batch", gain=2.0, bias_variance=0.5),
    Spec("2*x + 1", "batch"),
    Spec("relu", "layer", FIRST, gain=1.5, bias_variance=0.5),
    Spec("tanh", "layer", FIRST, gain=1.5),
    Spec("gelu", "rms", FIRST, gain=-1.5, bias_variance=0.25),
    Spec("step", "rms", FIRST, bias_variance=0.3),
    Spec("sigmoid", "center", FIRST, gain=1.5, bias_variance=0.5),
    Spec("relu", "constant", FIRST, gain=1.5),
    Spec("elu", "none", FIRST, gain=1.5, bias_variance=0.2),
    Spec("2*x + 1", "batch", FIRST, gain=1.5, bias_variance=0.5),
    Spec("relu", "batch", FIRST, gain=1.5),
    Spec("square", "batch", FIRST),
]
SKIPPED = [
    Spec("relu", "layer", skip=0.6),
    Spec("relu", "rms", bias_variance=0.5, skip=0.8),
    Spec("tanh", "none", gain=1.5, skip=0.5),
    Spec("relu", "center", skip=0.6),
    Spec("gelu", "constant", gain=1.5, skip=0.6),
    Spec("relu", "rms", FIRST, gain=1.5, bias_variance=0.5, skip=0.6),
    Spec("relu", "batch", FIRST, skip=0.6),
]
CHAINS: dict[str, list[Spec]] = {
    "two layers": [Spec("relu", "none", bias_variance=0.3), Spec("tanh", "center", gain=1.5)],
    "six layers of relu, rms and skip": [Spec("relu", "rms", skip=0.7)] * 6,
    "one of each": [
        Spec("relu", "none", gain=1.5),
        Spec("gelu", "layer", FIRST, bias_variance=0.25),
        Spec("tanh", "constant", gain=1.5),
        Spec("sigmoid", "rms", gain=2.0),
        Spec("2*x + 1", "batch"),
        Spec("step", "layer", bias_variance=0.1),
    ],
}


def mean_field(specs: Sequence[Spec], G: Floats) -> Floats:
    for spec in specs:
        G = Layer(spec.activation, **spec.options)(G)
    return G


@cache
def of_layer(spec: Spec) -> Floats:
    return estimates([spec], K, width=2000, seeds=24 if spec.skip else 800)


@cache
def of_chain(name: str) -> Floats:
    return estimates(CHAINS[name], K, width=600, seeds=60)


# --- the layers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SINGLE, ids=str)
def test_a_layer_is_the_limit_of_wide_networks(spec: Spec) -> None:
    assert disagreement(of_layer(spec), mean_field([spec], K)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("spec", SKIPPED, ids=str)
def test_a_layer_with_a_skip_is_the_limit_of_wide_networks(spec: Spec) -> None:
    assert disagreement(of_layer(spec), mean_field([spec], K)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_layers_in_sequence_are_the_limit_of_wide_networks(name: str) -> None:
    assert disagreement(of_chain(name), mean_field(CHAINS[name], K)) <= 1


def test_every_normalization_in_either_order_is_here() -> None:
    kinds = ("layer", "rms", "center", "constant", "none", "batch")
    assert {(s.normalization, s.order) for s in SINGLE} == {(kind, order) for kind in kinds for order in (AFTER, FIRST)}


@pytest.mark.parametrize("normalization", ["layer", "rms", "center", "constant", "none"])
def test_an_input_of_norm_zero_and_two_that_coincide(normalization: str) -> None:
    G = K.copy()
    G[3], G[:, 3] = 0.0, 0.0
    G[4], G[:, 4] = G[0], G[:, 0]
    G[4, 4] = G[0, 0]
    spec = Spec("relu", normalization, bias_variance=0.5)
    assert disagreement(estimates([spec], G, width=2000, seeds=400), mean_field([spec], G)) <= 1


@pytest.mark.parametrize("normalization", ["layer", "rms", "constant", "none"])
def test_unit_inputs(normalization: str) -> None:
    spec = Spec("gelu", normalization, gain=1.5, bias_variance=0.25)
    sample = estimates([spec], CORRELATIONS, width=2000, seeds=400)
    assert disagreement(sample, mean_field([spec], CORRELATIONS)) <= 1


# --- the networks -------------------------------------------------------------------------------------------


def test_inputs_have_the_gram_matrix_they_are_asked_for() -> None:
    X = inputs(K, 40, np.random.default_rng(0))
    np.testing.assert_allclose(X @ X.T / 40, K, rtol=0, atol=1e-14)


def test_estimates_are_free_of_the_first_term_in_one_over_width() -> None:
    spec = Spec("square", "layer")
    plain = np.array([network([spec], K, 40, np.random.default_rng(seed)) for seed in range(3000)])
    assert disagreement(plain, mean_field([spec], K)) > 1
    assert disagreement(estimates([spec], K, width=40, seeds=3000), mean_field([spec], K)) <= 1


def test_constants_of_known_activations() -> None:
    assert constants("relu", 1.0) == pytest.approx(((2 * np.pi) ** -0.5, 0.5 - 0.5 / np.pi), abs=1e-11)
    assert constants("step", 2.0) == pytest.approx((0.5, 0.25), abs=1e-11)
    assert constants("square", 2.0) == pytest.approx((2.0, 8.0), abs=1e-9)


def test_a_claim_is_rejected_when_it_is_off_by_a_few_standard_errors() -> None:
    rng, G = np.random.default_rng(1), np.ones((3, 3))
    sample = G + 0.1 * rng.standard_normal((400, 3, 3))
    assert disagreement(sample, G) <= 1
    wrong = G.copy()
    wrong[0, 2] += 10 * 0.1 / 20
    assert disagreement(sample, wrong) > 1
    sample[:, 1, 1] = 1.0
    assert disagreement(sample, G) <= 1
    assert disagreement(sample, G + 1e-10) == np.inf


# --- wrong claims -------------------------------------------------------------------------------------------


def claim(spec: Spec, **changes: object) -> Floats:
    return mean_field([Spec(**{**vars(spec), **changes})], K)


def test_a_layer_is_not_that_of_another_normalization_or_order() -> None:
    for spec in SINGLE:
        for changes in ({"normalization": n, "order": o} for n in ("layer", "rms", "none") for o in (AFTER, FIRST)):
            if spec.normalization != "batch" and (spec.normalization, spec.order) != tuple(changes.values()):
                other = claim(spec, **changes)
                same = np.allclose(other, mean_field([spec], K), rtol=1e-12)  # odd activations have no mean
                assert same or disagreement(of_layer(spec), other) > 1, (spec, changes)


@pytest.mark.parametrize("spec", [s for s in SINGLE if s.bias_variance and s.normalization != "batch"], ids=str)
def test_a_bias_forgotten_is_seen(spec: Spec) -> None:
    assert disagreement(of_layer(spec), claim(spec, bias_variance=0.0)) > 1


@pytest.mark.parametrize(
    "spec", [s for s in SINGLE if abs(s.gain) != 1 and s.bias_variance and s.normalization != "batch"], ids=str
)
def test_a_gain_in_the_wrong_place_is_seen(spec: Spec) -> None:
    wrong = claim(spec, bias_variance=spec.gain**2 * spec.bias_variance)  # gain (z + b)
    assert disagreement(of_layer(spec), wrong) > 1
    assert disagreement(of_layer(spec), claim(spec, gain=spec.gain**2)) > 1


@pytest.mark.slow
def test_a_gain_behind_the_activation_is_seen() -> None:
    spec = Spec("tanh", "none", gain=1.5, skip=0.5)
    wrong = 0.25 * K + 0.75 * 1.5**2 * claim(spec, gain=1.0, skip=0.0)
    assert disagreement(of_layer(spec), wrong) > 1


@pytest.mark.slow
@pytest.mark.parametrize("spec", SKIPPED, ids=str)
def test_a_wrong_weight_of_the_branch_is_seen(spec: Spec) -> None:
    branch = claim(spec, skip=0.0)
    a = spec.skip
    assert disagreement(of_layer(spec), a * a * K + (1 - a * a) * branch) <= 1
    assert disagreement(of_layer(spec), a * a * K + (1 - a * a) ** 0.5 * branch) > 1
    assert disagreement(of_layer(spec), a * K + (1 - a) * branch) > 1


def test_constants_at_the_wrong_variance_are_seen() -> None:
    spec = Spec("relu", "constant", gain=1.5, bias_variance=0.5)
    m, v = constants("relu", 1.0)
    c0, variance = constants("relu", 1.5**2 + 0.5)
    S, scale = claim(spec, normalization="none"), 1.5**2 * np.diagonal(K) + 0.5
    means = np.sqrt(scale / (2 * np.pi))
    right = (S - c0 * (means[:, None] + means) + c0 * c0) / variance
    assert disagreement(of_layer(spec), right) <= 1
    assert disagreement(of_layer(spec), (S - m * (means[:, None] + means) + m * m) / v) > 1


def test_norms_that_are_ignored_are_seen() -> None:
    for spec in (Spec("tanh", "layer", gain=1.5, bias_variance=0.25), Spec("gelu", "rms", gain=-1.5)):
        assert disagreement(of_layer(spec), mean_field([spec], CORRELATIONS)) > 1


@pytest.mark.slow
def test_a_skip_without_its_mixing_matrix_has_another_limit() -> None:
    """Uncentred branches then add up coherently: the diagonal grows, which a layer of relu and rms keeps at 1."""

    def coherent(width: int, rng: np.random.Generator) -> Floats:
        x, bare = inputs(CORRELATIONS, width, rng), Spec("relu", "rms")
        for _ in range(6):
            x = 0.7 * x + (1 - 0.7**2) ** 0.5 * layer(x, bare, width, rng)
        return np.asarray(x @ x.T / width)

    sample = np.array([coherent(800, np.random.default_rng([seed, 7])) for seed in range(16)])
    claimed = mean_field(CHAINS["six layers of relu, rms and skip"], CORRELATIONS)
    assert np.diagonal(claimed) == pytest.approx(1, abs=1e-12)
    assert disagreement(sample, claimed) > 5
    assert np.diagonal(sample.mean(axis=0)).min() > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
def test_a_layer_of_a_chain_left_out_is_seen(name: str) -> None:
    # the first layer of six is one too many: the network has nearly settled
    last_but_one = len(CHAINS[name]) - 2
    shorter = [spec for i, spec in enumerate(CHAINS[name]) if i != last_but_one]
    assert disagreement(of_chain(name), mean_field(shorter, K)) > 1
