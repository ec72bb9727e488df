"""The first layer at which each bound makes the gap small: beside the certificates, and as a proof."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bounds import (
    DecayComparison,
    Verdict,
    certified_gap_decay,
    gap_decay,
    gap_sandwich,
    scalar_gap_decay,
    sharp_gap_decay,
    spectral_gap_decay,
)
from bounds._bracket import settle
from bounds._depth import start
from meanfield import Layer, correlation, gram, isometry_gap

FOLLOWED = ["actual", "entrywise", "map", "r5", "r4", "potential", "majorization", "gamma"]
METHODS = [*FOLLOWED, "r4+", "log1p", "determinant", "theorem-5.1"]
EPS = 1e-3


def batch(n: int = 10, d: int = 12, shift: float = 1.2) -> np.ndarray:
    return correlation(gram(np.random.default_rng(0).normal(size=(n, d)) + shift))


def equicorrelation(n: int, rho: float) -> np.ndarray:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def test_ten_inputs_of_relu() -> None:
    """A batch with gap 1.56: 18 layers in fact, the printed theorem says 112."""
    found = certified_gap_decay(Layer("relu"), batch(), EPS)
    assert isinstance(found, DecayComparison)
    assert list(found) == METHODS
    assert [found[m] for m in METHODS] == [18, 19, 23, 25, 26, 29, 29, 30, 37, 52, 100, 112]


def by_potential(layer: Layer, G0: np.ndarray, depth: int) -> np.ndarray:
    """log of the gap of n inputs with correlations -t, t/(1 - t) = potential(G_0) beta^-l."""
    n, m = len(G0), float(np.abs(G0 - np.eye(len(G0))).max())
    bound = []
    for l in range(depth + 1):
        t = 1 / (1 + (1 - m) / m * layer.isometry_strength**l)
        inside = (n - 1) * t < 1
        bound.append(math.log(-((n - 1) * math.log1p(t) + math.log1p(-(n - 1) * t)) / n) if inside else math.inf)
    return np.array(bound)


@pytest.mark.parametrize("G0", [batch(), batch(4, 6, 0.3), equicorrelation(3, -0.45)], ids=["ten", "four", "negative"])
@pytest.mark.parametrize("spec", ["relu", "exp", "He(1, x) + He(2, x)"])
def test_each_layer_is_the_first_of_its_certificate(spec: str, G0: np.ndarray) -> None:
    layer = Layer(spec)
    found, target = certified_gap_decay(layer, G0, EPS), math.log(EPS)
    depth = max(each for each in found.values() if each is not None)
    scalar, sharp = scalar_gap_decay(layer, G0, depth), sharp_gap_decay(layer, G0, depth)
    reached = np.array(sharp.verdicts).reshape(3, -1)[0] != Verdict.NOT_APPLICABLE
    bounds: dict[str, Any] = {
        "actual": gap_decay(layer, G0, depth).lhs,
        "entrywise": np.asarray(scalar.rhs)[4],
        "map": np.asarray(scalar.rhs)[3],
        "r5": np.asarray(scalar.rhs)[2],
        "r4": np.where(reached, np.asarray(sharp.rhs)[0], math.inf),
        "potential": by_potential(layer, G0, depth),
        "majorization": np.asarray(gap_sandwich(layer, G0, depth).rhs)[1],
        "gamma": spectral_gap_decay(layer, G0, depth, form="map").rhs,
        "r4+": np.asarray(sharp.rhs)[1],
        "log1p": spectral_gap_decay(layer, G0, depth).rhs,
        "determinant": spectral_gap_decay(layer, G0, depth, form="determinant").rhs,
        "theorem-5.1": gap_decay(layer, G0, depth).rhs,
    }
    assert set(bounds) == set(found)
    for method, bound in bounds.items():
        first = found[method]
        assert first is not None
        assert bound[first] <= target
        assert first == 0 or bound[first - 1] > target


def test_a_sequence_is_a_repeated_layer() -> None:
    layer, G0 = Layer("relu"), batch(4, 6, 0.3)
    once, listed = certified_gap_decay(layer, G0, EPS), certified_gap_decay([layer] * 60, G0, EPS)
    assert {m: at if at is None or at <= 60 else None for m, at in once.items()} == dict(listed)


def test_no_bound_is_below_the_gap_and_each_chain_keeps_its_order() -> None:
    """As layers: what knows the entries, then their largest, then r or beta; the matrix, lambda_0, then det G_0."""
    for eps in (0.5, 1e-2, 1e-8, 1e-30):
        found = certified_gap_decay(Layer("relu"), batch(), eps)
        for chain in (["actual", "entrywise", "map", "r5", "r4"], ["actual", "majorization", "gamma", "log1p"]):
            layers = [found[m] for m in chain]
            assert layers == sorted(layers, key=lambda at: at or 0)
        assert (found["r5"] or 0) <= (found["potential"] or 0)
        assert (found["log1p"] or 0) <= (found["determinant"] or 0) <= (found["theorem-5.1"] or 0)


def test_the_constant_of_the_sharp_theorem_does_not_know_n() -> None:
    found = certified_gap_decay(Layer("relu"), equicorrelation(300, 0.999), EPS)
    assert (found["actual"], found["majorization"], found["gamma"]) == (40, 40, 40)
    assert found["determinant"] == 8751
    assert found["theorem-5.1"] == 8777


def test_the_table_is_proven() -> None:
    G0 = [[1.0, 0.9, 0.8], [0.9, 1.0, 0.9], [0.8, 0.9, 1.0]]
    plain, proven = (certified_gap_decay(Layer("relu"), G0, EPS, exact=exact) for exact in (False, True))
    assert proven.exact
    assert dict(plain) == dict(proven)
    assert str(plain).splitlines()[1].split()[:2] == ["actual", "18"]


def test_what_is_never_reached_is_none() -> None:
    for layer, G0 in ((Layer("identity"), batch()), (Layer("relu"), np.ones((3, 3)))):
        assert set(certified_gap_decay(layer, G0, EPS).values()) == {None}
    flat = certified_gap_decay(Layer("abs"), batch(), EPS)  # r = 0
    assert flat["r4"] is None
    assert flat["r4+"] is None
    assert flat["actual"] == 5
    short = certified_gap_decay(Layer("relu"), batch(), EPS, depth=3)
    assert short["actual"] is None
    assert short["theorem-5.1"] == 112


def test_edges() -> None:
    one = certified_gap_decay(Layer("relu"), np.eye(1), EPS)
    assert {one[m] for m in METHODS[:10]} == {0}
    assert certified_gap_decay(Layer("relu"), batch(), 1e300)["actual"] == 0
    assert certified_gap_decay(Layer("He(2, x)"), batch(), 1e-300)["actual"] == 13
    sequence = certified_gap_decay([Layer("tanh"), Layer("abs")] * 5, batch(), EPS)
    assert sequence["actual"] == 8
    assert sequence["theorem-5.1"] is None


@pytest.mark.parametrize("eps", [0.0, -1.0, math.nan, "a", None, True])
def test_eps_is_positive(eps: Any) -> None:
    with pytest.raises(ValueError, match="eps must be a positive number"):
        certified_gap_decay(Layer("relu"), batch(), eps)


def test_layers_whose_gap_stays_are_refused() -> None:
    with pytest.raises(ValueError, match=r"layer must have f\(0\) = 0"):
        certified_gap_decay(Layer("relu", normalization="rms"), batch(), EPS)
    with pytest.raises(ValueError, match="depth must be an integer >= 0"):
        certified_gap_decay(Layer("relu"), batch(), EPS, depth=-1)


def test_brackets_of_balls_and_floats_settle_alike() -> None:
    run = start(Layer("relu"), equicorrelation(3, 0.5), 3)
    slack, tolerance = settle(run.log_gaps, run.log_gaps)
    assert slack.tolist() == [0.0] * 4
    assert np.all(tolerance >= 0.0)
    assert math.exp(run.log_gaps.value[0]) == pytest.approx(isometry_gap(equicorrelation(3, 0.5)), rel=1e-13)
