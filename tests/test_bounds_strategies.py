"""Strategies for batches, weights, layers and exact matrices: what they draw, how it is spread, what it shrinks to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._rational_rows import sphere_rows
from bounds._recipes import Table
from bounds._spectral_strategies import with_unit_diagonal
from bounds.strategies import batches, correlation_matrices, layers, psd_matrices, weight_sequences
from meanfield._exact import eliminate

Floats = NDArray[np.float64]
Rows = list[list[Fraction]]
ZERO = Fraction(0)


def draws(strategy: st.SearchStrategy[Any], count: int = 300) -> list[Any]:
    """The first values that hypothesis draws, the same in every run."""
    drawn = []

    @settings(max_examples=count, derandomize=True, deadline=None, database=None)
    @given(strategy)
    def collect(value: Any) -> None:
        drawn.append(value)

    collect()
    return drawn


def simplest(strategy: st.SearchStrategy[Any], condition: Callable[[Any], Any], seed: int = 0) -> Any:
    quick = settings(max_examples=2000, database=None, deadline=None, phases=[Phase.generate, Phase.shrink])
    return find(strategy, condition, random=Random(seed), settings=quick)


def identity(n: int) -> Rows:
    return [[Fraction(i == j) for j in range(n)] for i in range(n)]


def squares(X: Rows) -> list[Fraction]:
    return [sum((x * x for x in row), ZERO) for row in X]


def spectrum(G: Any) -> Floats:
    return np.asarray(np.linalg.eigvalsh(np.array(G, dtype=np.float64)))


# --- exact matrices -----------------------------------------------------------------------------------------


@given(correlation_matrices(exact=True))
def test_exact_correlation_matrices_are_semidefinite_without_rounding(G: Rows) -> None:
    assert all(type(entry) is Fraction for row in G for entry in row)
    assert all(row[i] == 1 for i, row in enumerate(G))
    assert [list(column) for column in zip(*G, strict=True)] == G
    assert eliminate(tuple(map(tuple, G))).positive_semidefinite


@given(psd_matrices(exact=True), psd_matrices(exact=True, norms="wild", zero_diagonal=False))
def test_exact_gram_matrices_are_semidefinite_without_rounding(G: Rows, H: Rows) -> None:
    for matrix in (G, H):
        assert all(type(entry) is Fraction for row in matrix for entry in row)
        assert eliminate(tuple(map(tuple, matrix))).positive_semidefinite
    assert all(row[i] > 0 for i, row in enumerate(H))


@given(st.data(), st.integers(1, 5))
def test_the_exact_rank_is_as_asked(data: st.DataObject, rank: int) -> None:
    for strategy in (correlation_matrices, psd_matrices):
        G = data.draw(strategy(min_n=rank, rank=rank, exact=True))
        assert eliminate(tuple(map(tuple, G))).rank == rank


@given(st.data(), st.fractions(0, 1))
def test_the_largest_exact_correlation_is_bounded(data: st.DataObject, bound: Fraction) -> None:
    G = data.draw(correlation_matrices(max_correlation=bound, exact=True))
    assert max((abs(G[i][j]) for i in range(len(G)) for j in range(i)), default=ZERO) <= bound
    assert eliminate(tuple(map(tuple, G))).positive_semidefinite


def test_exact_matrices_are_singular_exactly() -> None:
    ranks = [(len(G), eliminate(tuple(map(tuple, G))).rank) for G in draws(correlation_matrices(min_n=3, exact=True))]
    assert sum(rank < n for n, rank in ranks) >= 30
    assert sum(rank < n - 1 for n, rank in ranks) >= 10
    assert sum(rank == n for n, rank in ranks) >= 100


@pytest.mark.parametrize("n", [1, 2, 6])
def test_exact_matrices_shrink_to_the_identity(n: int) -> None:
    for seed in range(2):
        assert simplest(correlation_matrices(min_n=n, exact=True), lambda G: True, seed) == identity(n)
        assert simplest(psd_matrices(min_n=n, exact=True), lambda G: True, seed) == identity(n)
    singular = simplest(correlation_matrices(exact=True), lambda G: eliminate(tuple(map(tuple, G))).rank < len(G))
    assert singular == [[1, 1], [1, 1]]


# --- given eigenvalues --------------------------------------------------------------------------------------


@given(st.data(), st.lists(st.integers(0, 16), min_size=1, max_size=8).filter(any))
def test_eigenvalues_are_as_asked(data: st.DataObject, masses: list[int]) -> None:
    eigenvalues = [len(masses) * mass / sum(masses) for mass in masses]
    G = data.draw(correlation_matrices(eigenvalues=eigenvalues))
    assert np.array_equal(G, G.T)
    assert np.all(np.diagonal(G) == 1.0)
    assert np.all(np.abs(G) <= 1.0)
    assert np.abs(np.linalg.eigvalsh(G) - np.sort(eigenvalues)).max() <= 1e-14


@given(correlation_matrices(eigenvalues=[1e-15, 1, 2 - 1e-15]))
def test_hyp_03_the_diagonal_is_exactly_1_near_singularity(G: Floats) -> None:
    """hyp-03, second input; scipy's random_correlation is off by 3.3e-16 there, and asymmetric."""
    assert np.all(np.diagonal(G) == 1.0)
    assert np.array_equal(G, G.T)
    assert np.abs(np.linalg.eigvalsh(G) - [1e-15, 1, 2 - 1e-15]).max() <= 1e-14


def test_hyp_03_the_sum_is_named() -> None:
    """hyp-03, first input."""
    with pytest.raises(ValueError, match=r"eigenvalues must sum to n = 3, .* \[0\.5, 0\.8, 1\.2\] is 2\.5"):
        correlation_matrices(eigenvalues=[0.5, 0.8, 1.2])


def test_rotations_keep_their_digits() -> None:
    """Where A_ij^2 is much more than (1 - A_ii)(A_jj - 1), one form of the tangent is all cancellation."""
    for across in (0.5, -0.5):
        A = np.array([[1 - 1e-10, across], [across, 1 + 1e-10]])
        assert np.abs(np.linalg.eigvalsh(with_unit_diagonal(A)) - [0.5, 1.5]).max() <= 1e-15
    assert all(np.array_equal(G, G.T) for G in draws(correlation_matrices(eigenvalues=[1.0] * 8), 100))


def test_rational_rows_stay_independent() -> None:
    """With |u| = 1 the row would be u itself, without its pivot."""
    table = Table(rows=((16,) * 4,) * 5, scale=Fraction(1), dimension=5, dense=False)
    last = sphere_rows(table)[4]
    assert last[4] == Fraction(3, 5)
    assert sum(x * x for x in last) == 1


def test_eigenvectors_are_spread() -> None:
    drawn = draws(correlation_matrices(eigenvalues=[0.1, 0.2, 0.7, 3.0]), 100)
    assert len({G.tobytes() for G in drawn}) >= 40
    entries = np.array([G[~np.eye(4, dtype=bool)] for G in drawn])
    assert np.min(entries) < -0.5
    assert np.max(entries) > 0.5
    assert np.array_equal(simplest(correlation_matrices(eigenvalues=[1.0] * 3), lambda G: True), np.eye(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eigenvalues": []}, "at least one"),
        ({"eigenvalues": [2.0, -1.0, 2.0]}, r"finite numbers >= 0.*-1\.0"),
        ({"eigenvalues": [float("nan"), 1.0]}, "finite"),
        ({"eigenvalues": ["x"]}, "sequence of numbers, got"),
        ({"eigenvalues": 3.0}, "sequence of numbers, got 3"),
        ({"eigenvalues": [1.0, 1.0 + 1e-13]}, "must sum to n = 2"),
        ({"eigenvalues": [1.0, 1.0], "n": 3}, "n=3 cannot be combined"),
        ({"eigenvalues": [1.0, 1.0], "rank": 2}, "rank=2 cannot be combined"),
        ({"eigenvalues": [1.0, 1.0], "max_correlation": 0.5}, r"max_correlation=0\.5 cannot be combined"),
        ({"eigenvalues": [1.0, 1.0], "exact": True}, "exact=True cannot be combined"),
    ],
)
def test_bad_eigenvalues(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        correlation_matrices(**arguments)


# --- batches ------------------------------------------------------------------------------------------------


@given(batches(centred=True))
def test_centred_rows_have_mean_0(X: Floats) -> None:
    assert X.shape[1] >= 2
    assert X.any(axis=1).all()
    assert np.all(np.abs(X.sum(axis=1)) <= 8e-16 * np.abs(X).max(axis=1) * X.shape[1])


@given(batches(centred=True, exact=True), batches(centred=True, exact=True, norms="equal"))
def test_exact_rows_have_mean_0_exactly(X: Rows, Y: Rows) -> None:
    for rows in (X, Y):
        assert all(sum(row) == 0 and any(row) for row in rows)
    assert len(set(squares(Y))) == 1


@given(batches(norms="equal"), batches(norms="equal", exact=True))
def test_equal_norms_are_equal(X: Floats, Y: Rows) -> None:
    assert np.ptp(np.linalg.norm(X, axis=1)) <= 1e-15 * np.linalg.norm(X[0])
    assert len(set(squares(Y))) == 1


@given(batches(norms="wild"), batches(norms="wild", exact=True), psd_matrices(norms="wild", zero_diagonal=False))
def test_wild_norms_stay_in_float64(X: Floats, Y: Rows, G: Floats) -> None:
    lengths = [np.linalg.norm(X / np.abs(X).max(axis=1, keepdims=True), axis=1) * np.abs(X).max(axis=1)]
    lengths += [np.sqrt([float(square) for square in squares(Y)]), np.sqrt(np.diagonal(G))]
    for found in lengths:
        assert np.all((found > 1e-150) & (found < 1e150))


def test_norms_are_spread() -> None:
    def ratios(strategy: st.SearchStrategy[Floats]) -> Floats:
        lengths = [np.abs(X).max(axis=1) for X in draws(strategy) if len(X) > 1]
        return np.array([math.log10(each.max() / each.min()) for each in lengths])

    wild, usual = ratios(batches(norms="wild")), ratios(batches())
    assert np.count_nonzero(wild > 100) >= 40
    assert np.count_nonzero(usual < 1e-12) >= 20
    assert np.count_nonzero((usual > 0) & (usual < 0.2)) >= 20
    assert np.count_nonzero(usual > 10) >= 10
    sizes = [np.abs(X).max() for X in draws(batches(norms="equal"))]
    assert min(sizes) < 1e-6
    assert max(sizes) > 1e6


def test_rows_that_are_parallel_antipodal_and_nearly_so() -> None:
    for strategy in (batches(min_n=2, norms="equal"), batches(min_n=2, min_d=2, centred=True)):
        seen: Counter[str] = Counter()
        for X in draws(strategy):
            Y = X / np.linalg.norm(X / np.abs(X).max(), axis=1, keepdims=True) / np.abs(X).max() if X.any() else X
            cosines = (Y @ Y.T)[~np.eye(len(Y), dtype=bool)]
            seen["parallel"] += cosines.max() > 1 - 1e-14
            seen["antipodal"] += cosines.min() < -1 + 1e-14
            seen["nearly"] += bool(np.any((np.abs(cosines) > 1 - 1e-4) & (np.abs(cosines) < 1 - 1e-14)))
            seen["apart"] += np.abs(cosines).max() < 0.9
        assert all(seen[kind] >= 6 for kind in ("parallel", "antipodal", "nearly", "apart")), seen


@pytest.mark.parametrize("norms", [None, "equal", "wild"])
def test_batches_shrink_to_unit_vectors(norms: Any) -> None:
    assert simplest(batches(n=2, d=3, norms=norms, exact=True), lambda X: True) == identity(3)[:2]
    assert simplest(batches(n=2, d=3, norms=norms), lambda X: True).tolist() == np.eye(3)[:2].tolist()
    third = Fraction(1, 3)
    centred = [[1 - third, -third, -third], [-third, 1 - third, -third]]
    assert simplest(batches(n=2, d=3, norms=norms, centred=True, exact=True), lambda X: True) == centred


def test_a_row_of_equal_features_is_no_zero_row_once_centred() -> None:
    strategy = batches(n=2, d=2, centred=True)
    assert all(X.any(axis=1).all() for X in draws(strategy))


# --- weights ------------------------------------------------------------------------------------------------


@given(weight_sequences(exact=True), weight_sequences(max_degree=30))
def test_weights_are_a_distribution(exact: tuple[Fraction, ...], floats: tuple[float, ...]) -> None:
    assert all(type(w) is Fraction for w in exact)
    assert sum(exact) == 1
    assert min(exact) >= 0
    assert exact[-1] > 0
    assert len(exact) <= 8
    assert all(type(w) is float for w in floats)
    assert math.fsum(floats) == pytest.approx(1, abs=1e-15 * len(floats))
    assert len(floats) <= 30


@given(st.data(), st.fractions(0, 1))
def test_the_first_weight_is_as_asked(data: st.DataObject, first: Fraction) -> None:
    weights = data.draw(weight_sequences(first=first, exact=True))
    assert weights[0] == first
    assert sum(weights) == 1


# each edge with the least share of 600 draws, less than any of eight seeds draws
EDGES: dict[str, tuple[float, Callable[[tuple[Fraction, ...]], bool]]] = {
    "linear": (0.05, lambda w: w == (1,)),
    "no linear part": (0.08, lambda w: w[0] == 0),
    "hardly any": (0.005, lambda w: 0 < w[0] < 1e-5),
    "hardly anything else": (0.005, lambda w: 1 - 1e-5 < w[0] < 1),
    "r and 1 - r": (0.03, lambda w: len(w) == 2 and 0 < w[0] < 1),
    "one power": (0.02, lambda w: len(w) > 1 and w[-1] == 1),
    "gaps": (0.1, lambda w: 0 in w[1:] and w[0] > 0),
    "even": (0.02, lambda w: not any(w[::2])),
    "odd": (0.03, lambda w: len(w) > 1 and not any(w[1::2])),
    "full": (0.03, lambda w: len(w) == 8 and all(w)),
    "slow tail": (0.0015, lambda w: len(w) == 8 and w[1] > 0 and w[7] / w[1] == Fraction(429 * 8, 32768)),
}


def test_edges_of_weights_are_reached() -> None:
    drawn = draws(weight_sequences(exact=True), 600)
    shares = {edge: sum(map(there, drawn)) / len(drawn) for edge, (_, there) in EDGES.items()}
    assert {edge: share for edge, share in shares.items() if share < EDGES[edge][0]} == {}
    assert len(set(drawn)) > 300


def test_weights_shrink() -> None:
    assert simplest(weight_sequences(), lambda w: True) == (1.0,)
    assert simplest(weight_sequences(), lambda w: w[0] < 1) == (0.0, 1.0)
    assert simplest(weight_sequences(exact=True), lambda w: 0 < w[0] < 1) == (Fraction(1, 2), Fraction(1, 2))
    assert simplest(weight_sequences(first=0.25), lambda w: True) == (0.25, 0.75)
    assert simplest(weight_sequences(first=1), lambda w: True) == (1.0,)


# --- layers -------------------------------------------------------------------------------------------------


@given(layers(normalization="rms"), layers(activation=st.sampled_from(["tanh", "relu"]), normalization="none"))
def test_layers_are_normalised_as_asked(one: Any, other: Any) -> None:
    assert one.normalization == "rms"
    assert other.normalization == "none"
    assert one.skip == other.skip == 0


def test_some_layers_have_a_skip() -> None:
    skips = Counter(layer.skip for layer in draws(layers(skips=True), 200))
    assert set(skips) == {0, Fraction(1, 2), Fraction(9, 10)}
    assert min(skips.values()) >= 20
    assert {layer.normalization for layer in draws(layers(skips=True), 20)} == {"layer"}


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "arguments", "message"),
    [
        (batches, {"norms": "large"}, "norms must be None or one of 'equal', 'wild', got 'large'"),
        (psd_matrices, {"norms": 3}, "norms must be None or one of 'equal', 'wild', got 3"),
        (batches, {"d": 1, "centred": True}, "d=1 and centred=True cannot be combined"),
        (batches, {"max_d": 1, "centred": True}, "min_d=2 must not exceed max_d=1"),
        (weight_sequences, {"max_degree": 0}, "max_degree must be an integer >= 1, got 0"),
        (weight_sequences, {"first": 1.5}, r"first must lie in \[0, 1\], got 1\.5"),
        (weight_sequences, {"first": float("nan")}, "got nan"),
        (weight_sequences, {"first": 0.5, "max_degree": 1}, "max_degree=1 leaves room for w_1 = 1 only"),
        (layers, {"normalization": "spectral"}, "normalization must be one of .*'spectral'"),
    ],
)
def test_bad_arguments(strategy: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategy(**arguments)


def test_arguments_are_keywords() -> None:
    for strategy in (batches, weight_sequences, layers):
        with pytest.raises(TypeError, match="positional"):
            strategy(3)  # type: ignore[operator]
