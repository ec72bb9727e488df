"""Theorem 4.1 at the layers of modules of torch: exact values, definitions in 50 digits, certificates, digits."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounds import Verdict, batch_norm_gain, certify, layer_norm_gain, normalization_gain
from bounds.strategies import batches
from meanfield import correlation as correlation_of
from meanfield import gram, isometry, isometry_gap, max_correlation
from meanfield._measurement import LayerMeasurement, Measurement, Normalization
from meanfield._torch._measure import measure

try:
    import torch
    from torch import nn
except ModuleNotFoundError:  # every test here carries the mark, and is left out where there is no torch
    torch = nn = None  # type: ignore[assignment]

pytestmark = pytest.mark.torch
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}
ROW = np.array([0.3, -1.2, 0.7, 0.2])  # of cases tor-01: mean 0, variance 103/200


def only(found: Measurement) -> LayerMeasurement:
    (row,) = found.rows
    return row


def theorem(row: LayerMeasurement) -> Normalization:
    assert row.normalization is not None, row.reason
    return row.normalization


def double(module: Any, *, seed: int | None = None) -> Any:
    """In float64; with a seed, all parameters are drawn anew: an affine part that is not 1 and 0."""
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in module.parameters():
            parameter.data.normal_(0.5, 1.0, generator=generator)
    return module.to(torch.float64)


def exact_gap(rows: Any) -> Any:
    """log mean(G_ii) - log det(G) / n of the Gram matrix of rows of mpf numbers."""
    G = rows * rows.T
    n = G.rows
    return mpmath.log(sum(G[i, i] for i in range(n)) / n) - mpmath.log(mpmath.det(G)) / n


# --- exact values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", ["1", "1e-2", "1e-3", "1e-4"])
def test_tor_01_epsilon_shrinks_small_activations(s: str) -> None:
    """Mean squares of 51500/51501 for one row and 103/2103 (s = 1e-3) for the other, where theory has 1 and 1."""
    p, q = (Fraction(CASES["tor-01"]["expect"][x].split("=")[0]) for x in ("1", s))
    X = np.array([ROW, float(s) * ROW[[1, 0, 3, 2]]])
    row = only(measure(double(nn.LayerNorm(4)), X, keep=True))
    assert row.output_array is not None
    assert np.square(row.output_array).mean(axis=1) == pytest.approx([float(p), float(q)], rel=1e-13, abs=0)
    found = theorem(row)
    assert found.eps_loss == pytest.approx(math.log((p + q) / 2) - math.log(p * q) / 2, rel=1e-12, abs=1e-16)
    # the cosine is what epsilon leaves alone: 2 (.3 (-1.2) + .7 .2) / 2.06
    assert found.gap_after == pytest.approx(-math.log(1 - (0.44 / 2.06) ** 2) / 2, rel=1e-13, abs=0)
    assert found.gap_actual == pytest.approx(found.gap_after + found.eps_loss, rel=1e-12, abs=0)
    assert found.predicted_gain == pytest.approx(math.log1p(((1 - float(s)) / (1 + float(s))) ** 2), rel=1e-12, abs=0)
    assert found.verdict == ("undecided" if s == "1" else "holds")


def test_tor_03_a_constant_row_has_no_direction() -> None:
    assert CASES["tor-03"]["expect"]["constant"].startswith("clear error")
    X = np.full((3, 1000), np.float32(0.1))
    X[0] = np.random.default_rng(0).standard_normal(1000)
    row = only(measure(nn.LayerNorm(1000, eps=1e-12), X[[0, 1]]))
    assert row.normalization is None
    assert row.reason == "sample 1 is constant, so it has no direction"
    with pytest.raises(
        ValueError, match=r"layer '' \(LayerNorm, call 0\): 2000 of 3000 entries of its output .* finite"
    ):
        measure(nn.LayerNorm(1000, eps=0.0), X)
    row = only(measure(nn.RMSNorm(3), np.array([[1.0, 2, 2], [0, 0, 0]])))
    assert row.reason == "sample 1 is 0, so it has no direction"
    assert (row.input.status, row.input.isometry_gap) == ("singular", math.inf)
    assert math.isnan(row.input.potential)


def test_tor_03_any_two_numbers_collapse() -> None:
    row = only(measure(double(nn.LayerNorm(2, eps=1e-14)), np.array([[0.3, -1.2], [5.0, 7.0]]), keep=True))
    assert row.output_array == pytest.approx(np.array([[1.0, -1.0], [-1.0, 1.0]]), rel=1e-12)
    found = theorem(row)
    assert (found.status, found.verdict, found.gap_before, found.isometry_after) == ("singular", "holds", math.inf, 0)
    assert found.gain == pytest.approx(math.log((1.5**2 + 4) / 2) - math.log(1.5 * 2), rel=1e-13, abs=0)


def test_tor_04_batch_normalisation_divides_by_the_biased_variance() -> None:
    """14/9, not 7/3; with epsilon 1 the mean squares are 14/23 and, for the column ten times as large, 1400/1409."""
    expect = CASES["tor-04"]["expect"]
    variance = Fraction(expect["normalising var"])
    X = np.array([[1.0, 20.0], [2.0, 10.0], [4.0, 40.0]])
    module = double(nn.BatchNorm1d(2, eps=1.0))
    row = only(measure(module, X, keep=True))
    p, q = variance / (variance + 1), 100 * variance / (100 * variance + 1)
    assert row.output_array is not None
    assert np.square(row.output_array).mean(axis=0) == pytest.approx([float(p), float(q)], rel=1e-14, abs=0)
    found = theorem(row)
    assert (found.theorem, found.vectors, found.length) == ("4.3", 2, 3)
    assert found.eps_loss == pytest.approx(math.log((p + q) / 2) - math.log(p * q) / 2, rel=1e-13, abs=0)
    certificate = batch_norm_gain(X)
    assert (found.predicted_gain, found.gain) == pytest.approx((certificate.lhs, certificate.rhs), rel=1e-13, abs=0)
    assert module.running_var.tolist() == [1.0, 1.0]
    assert expect["batch of 1"] == "clear error"
    with pytest.raises(ValueError, match=r"X must hold at least 2 samples in its rows, got shape \(1, 2\)"):
        measure(module, X[:1])


def test_erratum_e2_the_gram_matrix_must_be_centred() -> None:
    """e_1, e_2 in R^3: isometry 1 as they are, 3/4 once centred, whose root comes out; the raw one does not rise."""
    row = only(measure(double(nn.LayerNorm(3)), np.eye(3)[:2]))
    found = theorem(row)
    assert row.input.isometry == 1.0
    assert found.isometry_after == found.isometry_before == pytest.approx(math.sqrt(0.75), rel=1e-14, abs=0)
    assert (
        certify("4.2", "as printed", row.input.isometry, found.isometry_after, tolerance=1e-12).verdict is Verdict.FAILS
    )
    # no lengths differ in the first case, so the theorem's own slack is 0
    assert (found.predicted_gain, found.verdict) == (0.0, "undecided")


def test_rms_normalisation_needs_no_centring() -> None:
    row = only(measure(double(nn.RMSNorm(2, eps=0.0)), np.array([[1.0, 0.0], [0.0, 3.0]])))
    found = theorem(row)
    assert found.theorem == "4.1"
    assert (row.input.isometry_gap, found.gap_after, row.output.isometry_gap) == pytest.approx((math.log(5 / 3), 0, 0))
    assert found.predicted_gain == pytest.approx(math.log(1.25), rel=1e-15, abs=0)
    assert found.gap_before == row.input.isometry_gap


# --- definitions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_every_number_is_its_definition(kind: str, eps: float) -> None:
    """In 50 digits, from the input alone but for what the layer itself has made of it."""
    X = np.random.default_rng(3).standard_normal((7, 5)) * np.array([1.0, 2.0, 0.3, 0.5, 4.0]) + 0.7
    X = X if kind == "batch" else X[:4]
    module = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "batch": nn.BatchNorm1d}[kind](5, eps=eps)
    row = only(measure(double(module, seed=1), X, keep=True))
    found, y = theorem(row), row.output_array
    assert y is not None
    side = (lambda A: A.T) if kind == "batch" else (lambda A: A)
    with mpmath.workdps(50):
        vectors = mpmath.matrix(side(X).tolist())
        m, d = vectors.rows, vectors.cols
        if kind != "rms":
            means = [sum(vectors[i, :]) / d for i in range(m)]
            vectors = mpmath.matrix(
                m,
                d,
            ) + mpmath.matrix([[vectors[i, j] - means[i] for j in range(d)] for i in range(m)])
        lengths = [mpmath.sqrt(sum(x * x for x in vectors[i, :])) for i in range(m)]
        mean = sum(lengths) / m
        spread = sum((a - mean) ** 2 for a in lengths) / m / mean**2
        unit = mpmath.matrix([[vectors[i, j] / lengths[i] for j in range(d)] for i in range(m)])
        shrunk = [a / mpmath.sqrt(a * a / d + mpmath.mpf(eps)) for a in lengths]
        with_eps = mpmath.matrix([[unit[i, j] * shrunk[i] for j in range(d)] for i in range(m)])
        before, after = exact_gap(vectors), exact_gap(unit)
        wanted = {
            "gap_before": before,
            "gap_after": after,
            "gain": before - after,
            "predicted_gain": mpmath.log(1 + spread),
            "eps_loss": exact_gap(with_eps) - after,
            "gap_actual": exact_gap(mpmath.matrix(side(y).tolist())),
        }
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(float(value), rel=1e-12, abs=1e-15), name
    assert (found.vectors, found.length, found.status, found.verdict) == (m, d, "resolved", "holds")


@pytest.mark.parametrize("spread", [1e-9, 1e-6, 1e-3, 1.0, 1e8])
def test_the_slack_is_off_by_its_error_at_most(spread: float) -> None:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((6, 9)) + 3.0
    X *= (1.0 + spread) ** rng.random((6, 1)) / np.linalg.norm(X, axis=1)[:, None]
    found = theorem(only(measure(double(nn.RMSNorm(9, eps=1e-9)), X)))
    with mpmath.workdps(50):
        lengths = [mpmath.sqrt(sum(mpmath.mpf(x) ** 2 for x in row)) for row in X.tolist()]
        mean = sum(lengths) / 6
        gain = mpmath.log(sum(a * a for a in lengths) / 6) - 2 * sum(map(mpmath.log, lengths)) / 6
        slack = float(gain - mpmath.log(sum(a * a for a in lengths) / 6 / mean**2))
    assert abs(found.slack - slack) <= found.gain_error < 1e-3 * slack
    assert found.verdict == "holds"


def test_equal_lengths_are_undecided() -> None:
    """Of the same entries in other orders: what is left of their difference is rounding."""
    rng = np.random.default_rng(12)
    row = rng.standard_normal(50)
    found = theorem(only(measure(double(nn.RMSNorm(50, eps=1e-9)), np.array([rng.permutation(row) for _ in range(5)]))))
    assert 0 < found.gain < 1e-30
    assert found.verdict == "undecided"


def test_samples_are_measured_as_the_functions_of_this_room_do() -> None:
    X = np.random.default_rng(5).standard_normal((4, 3, 2, 2))
    row = only(measure(double(nn.Conv2d(3, 5, 2), seed=2), X, layers=nn.Conv2d, keep=True))
    assert (row.samples, row.features, row.output_features, row.dtype) == (4, 12, 5, "float64")
    assert row.input_array is not None
    assert row.input_array.tolist() == X.reshape(4, 12).tolist()
    for place, rows in ((row.input, row.input_array), (row.output, row.output_array)):
        assert rows is not None
        G = gram(rows)
        assert place.isometry_gap == pytest.approx(isometry_gap(G), rel=1e-13, abs=0)
        assert place.isometry == pytest.approx(isometry(G), rel=1e-13, abs=0)
        largest = max_correlation(correlation_of(G))
        assert place.max_correlation == pytest.approx(largest, rel=1e-14, abs=0)
        assert place.potential == pytest.approx(largest / (1 - largest), rel=1e-13, abs=0)


@pytest.mark.parametrize("scale", [1e-150, 1e-5, 1.0, 1e150])
def test_scale_does_not_matter_but_to_epsilon(scale: float) -> None:
    X = np.random.default_rng(8).standard_normal((4, 9)) * np.array([[1.0], [3.0], [0.2], [5.0]])
    found = theorem(only(measure(double(nn.LayerNorm(9, eps=1e-5)), scale * X, layers={nn.LayerNorm: "layer"})))
    certificate = layer_norm_gain(X)
    assert (found.predicted_gain, found.gain) == pytest.approx((certificate.lhs, certificate.rhs), rel=1e-12, abs=0)
    # epsilon divides all alike if it is huge beside the variance, and does nothing if it is tiny
    wanted = layer_norm_gain(X, Fraction(1e-5) / Fraction(scale) ** 2).lhs
    assert found.eps_loss == pytest.approx(wanted, rel=1e-11, abs=1e-15)


@given(
    batches(min_n=2, max_n=5, min_d=3),
    st.sampled_from([1e-5, 0.3]),
    st.integers(0, 3),
    st.sampled_from(["LayerNorm", "RMSNorm"]),
)
def test_the_theorem_never_fails(X: np.ndarray, eps: float, seed: int, name: str) -> None:
    row = only(measure(double(getattr(nn, name)(X.shape[1], eps=eps), seed=seed), X))
    if row.normalization is not None:
        found = row.normalization
        assert found.verdict != "fails", row
        assert 0 <= found.predicted_gain <= found.gain * (1 + 1e-12) + 1e-15
        assert -1e-15 <= found.eps_loss <= found.gain * (1 + 1e-12) + 1e-15


# --- a network, before and after training -------------------------------------------------------------------


@cache
def digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def trained(module: Any, steps: int) -> float:
    """Full batches of 1000 digits; the share of the others that is recognised."""
    X, y = digits()
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # steps are so small that several would mostly wait for each other
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(inputs[:1000]), labels[:1000]).backward()
        optimizer.step()
    torch.set_num_threads(threads)
    with torch.no_grad():
        return float((module(inputs[1000:]).argmax(dim=1) == labels[1000:]).double().mean())


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNorm", "BatchNorm1d"])
def test_digits_before_and_after_training(norm: str) -> None:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        widths = (64, 40, 40, 40)
        blocks = [each for a, b in pairwise(widths) for each in (nn.Linear(a, b), getattr(nn, norm)(b), nn.ReLU())]
        module = nn.Sequential(*blocks, nn.Linear(40, 10))
        n = 100 if norm == "BatchNorm1d" else 20
        X = digits()[0][:n]
        fresh = measure(module, X, keep=True)
        assert trained(module, 40) > 0.9
        after = measure(module, X, keep=True)
    moved = [float((layer.weight.detach() - 1).abs().max()) for layer in module if hasattr(layer, "eps")]
    assert min(moved) > 0.02
    for found in (fresh, after):
        assert [row.layer for row in found.rows] == ["1", "4", "7"]
        for row in found.rows:
            agrees_with_certificates(row, norm)
    # weights of the affine part are no part of the theorem, and of what comes out
    assert all(abs(theorem(row).gap_actual - theorem(row).gap_after) < 1e-2 for row in fresh.rows)
    assert max(abs(theorem(row).gap_actual - theorem(row).gap_after) for row in after.rows) > 2e-2


def agrees_with_certificates(row: LayerMeasurement, norm: str) -> None:
    found, X = theorem(row), row.input_array
    assert X is not None
    if norm == "BatchNorm1d":
        certificate = batch_norm_gain(X)
    else:
        certificate = layer_norm_gain(X) if norm == "LayerNorm" else normalization_gain(gram(X))
    assert certificate.verdict is Verdict.HOLDS
    assert (found.status, found.verdict) == ("resolved", "holds")
    assert found.slack > 1e-5
    if norm == "RMSNorm":  # whose certificate compares isometries
        gaps = (found.gap_before, found.gap_after)
        assert gaps == pytest.approx((isometry_gap(gram(X)), isometry_gap(correlation_of(gram(X)))), rel=1e-10, abs=0)
        return
    assert (found.predicted_gain, found.gain) == pytest.approx((certificate.lhs, certificate.rhs), rel=1e-11, abs=0)
    assert found.gap_before - found.gap_after == pytest.approx(certificate.rhs, abs=found.gap_error)
    with_eps = layer_norm_gain(X if norm == "LayerNorm" else X.T, 1e-5)
    assert found.eps_loss == pytest.approx(with_eps.lhs, rel=1e-6, abs=1e-14)


# --- a transformer block ------------------------------------------------------------------------------------


def block(width: int) -> Any:
    """Norm first, attention of two heads, a perceptron; X is (batch, tokens, width)."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x: Any) -> Any:
            h = self.norm1(x)
            x = x + self.attention(h, h, h)[0]
            return x + self.mlp(self.norm2(x))

    return Block()


def test_tokens_of_a_transformer_block() -> None:
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        module, X = block(16), torch.randn(2, 5, 16)
    found = measure(module, X, samples="tokens", keep=True)
    assert [(row.call, row.sequence, row.layer, row.samples) for row in found.rows] == [
        (0, 0, "norm1", 5),
        (0, 1, "norm1", 5),
        (1, 0, "norm2", 5),
        (1, 1, "norm2", 5),
    ]
    assert found.rows[1].input_array is not None
    assert found.rows[1].input_array.tolist() == X[1].double().tolist()
    for row in found.rows:
        agrees_with_certificates(row, "LayerNorm")
    # against the Gram matrix as it is, the isometry of some falls
    assert any(row.input.isometry > theorem(row).isometry_after for row in found.rows)
    assert measure(module, X, samples=-2)["gain"].tolist() == measure(module, X, samples=1)["gain"].tolist()
    assert found["gain"].tolist() == [theorem(row).gain for row in found.rows]
    # of activations without an axis of batches the first is that of tokens
    assert measure(module, X[0], samples="tokens")["call"].tolist() == [0, 1]
    # a sequence, flattened, is not one vector that is normalised
    for row in measure(module, X).rows:
        assert (row.samples, row.features, row.normalization) == (2, 80, None)
        assert "not one of the vectors" in row.reason
