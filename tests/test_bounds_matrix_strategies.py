"""Strategies for matrices: what they draw, how it is spread, and what failures shrink to.

A strategy that draws the same easy matrix every time makes every property test pass: so the spread is tested.
"""

from __future__ import annotations

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

from bounds._matrix_strategies import _limited
from bounds._recipes import Parallel
from bounds.strategies import batches, correlation_matrices, psd_matrices

Floats = NDArray[np.float64]
EPS = float(np.finfo(float).eps)


def draws(strategy: st.SearchStrategy[Floats], count: int = 200) -> list[Floats]:
    """The first matrices that hypothesis draws, the same in every run."""
    drawn: list[Floats] = []

    @settings(max_examples=count, derandomize=True, deadline=None, database=None)
    @given(strategy)
    def collect(value: Floats) -> None:
        drawn.append(value)

    collect()
    return drawn


def simplest(strategy: st.SearchStrategy[Floats], condition: Callable[[Floats], Any], seed: int = 0) -> Floats:
    # explaining a failure takes longer than shrinking it
    quick = settings(max_examples=2000, database=None, deadline=None, phases=[Phase.generate, Phase.shrink])
    return find(strategy, condition, random=Random(seed), settings=quick)


def largest_correlation(G: Floats) -> float:
    return float(np.max(np.abs(G - np.eye(len(G)))))


def smallest_eigenvalue(G: Floats) -> float:
    return float(np.linalg.eigvalsh(G)[0])


# --- what every draw is -------------------------------------------------------------------------------------


@given(correlation_matrices())
def test_correlation_matrices_are_what_they_say(G: Floats) -> None:
    assert G.dtype == np.float64
    assert 1 <= len(G) <= 8
    assert np.array_equal(G, G.T)
    assert np.all(np.diagonal(G) == 1.0)
    assert np.all(np.abs(G) <= 1.0)
    assert not np.any(np.signbit(G) & (G == 0))
    # dot products of 8 terms are off by a few eps, n of them add up; the worst of thousands was 1.1 n eps
    assert smallest_eigenvalue(G) >= -2 * len(G) * EPS


@given(psd_matrices())
def test_psd_matrices_are_what_they_say(G: Floats) -> None:
    assert np.array_equal(G, G.T)
    diagonal = np.diagonal(G)
    assert np.all(diagonal >= 0)
    positive = diagonal > 0
    assert not G[~positive].any()
    lengths = np.sqrt(diagonal[positive])
    assert np.all((lengths > 8e-19) & (lengths < 2e19))
    C = G[np.ix_(positive, positive)] / np.outer(lengths, lengths)
    # three more roundings of each entry than a correlation matrix has
    assert positive.sum() == 0 or smallest_eigenvalue((C + C.T) / 2) >= -4 * len(C) * EPS


@given(psd_matrices(zero_diagonal=False))
def test_a_positive_diagonal_can_be_had(G: Floats) -> None:
    assert np.all(np.diagonal(G) > 0)


@given(batches())
def test_batches_are_what_they_say(X: Floats) -> None:
    assert X.dtype == np.float64
    assert 1 <= X.shape[0] <= 8
    assert 1 <= X.shape[1] <= 8
    lengths = np.linalg.norm(X, axis=1)
    assert np.all((lengths > 1e-25) & (lengths < 1e20))


@given(st.data(), st.integers(1, 6), st.integers(1, 6))
def test_shapes_are_as_asked(data: st.DataObject, n: int, d: int) -> None:
    assert data.draw(correlation_matrices(n=n)).shape == (n, n)
    assert data.draw(psd_matrices(n=n)).shape == (n, n)
    assert data.draw(batches(n=n, d=d)).shape == (n, d)
    low, high = sorted((n, d))
    assert low <= len(data.draw(correlation_matrices(min_n=low, max_n=high))) <= high
    assert low <= data.draw(batches(min_d=low, max_d=high)).shape[1] <= high


@given(st.data(), st.integers(1, 5))
def test_the_rank_is_as_asked(data: st.DataObject, rank: int) -> None:
    G = data.draw(correlation_matrices(min_n=rank, rank=rank))
    assert np.linalg.matrix_rank(G) == rank
    assert np.sort(np.linalg.eigvalsh(G))[len(G) - rank] > 1e-7  # well conditioned but for what is 0
    scaled = data.draw(psd_matrices(min_n=rank, rank=rank))
    assert np.all(np.diagonal(scaled) > 0)


@given(st.data(), st.floats(0.0, 1.0))
def test_the_largest_correlation_is_bounded(data: st.DataObject, bound: float) -> None:
    G = data.draw(correlation_matrices(max_correlation=bound))
    assert largest_correlation(G) <= bound
    assert np.all(np.diagonal(G) == 1.0)
    assert smallest_eigenvalue(G) >= -2 * len(G) * EPS


def test_limiting_never_exceeds_by_an_ulp() -> None:
    pairs = [(0.1 + k / 997, 0.01 + k / 1009) for k in range(700)]
    assert any(x * (bound / x) > bound for x, bound in pairs)  # else this tests nothing
    for x, bound in pairs:
        assert largest_correlation(_limited(np.array([[1.0, x], [x, 1.0]]), bound)) <= bound


def test_parallel_rows_that_cancel_leave_no_zero_row() -> None:
    parallel = Parallel(first=0, step=0, sign=1, stray=Fraction(1, 10))
    assert parallel.change(np.array([[-0.1, 0.0], [1.0, 0.0]])).tolist() == [[-0.1, 0.0], [-0.1, 0.0]]


# --- the spread ---------------------------------------------------------------------------------------------


def test_hyp_01_the_spread_of_correlation_matrices() -> None:
    """hyp-01: 100 draws at n = 2..8, at least 90 % not the identity, some near-singular, some well conditioned."""
    drawn = draws(correlation_matrices(min_n=2), 100)
    assert len(drawn) == 100
    assert sum(largest_correlation(G) > 0 for G in drawn) >= 90
    eigenvalues = [smallest_eigenvalue(G) for G in drawn]
    assert sum(value < 1e-8 for value in eigenvalues) >= 10
    assert sum(value > 0.05 for value in eigenvalues) >= 20
    # not trivial either: array fill in place of rows had a median of 1e-76
    assert np.median([largest_correlation(G) for G in drawn]) > 0.3


@pytest.mark.parametrize("n", range(2, 9))
def test_hyp_01_at_every_size(n: int) -> None:
    drawn = draws(correlation_matrices(n=n))
    assert sum(largest_correlation(G) > 0 for G in drawn) >= 0.9 * len(drawn)
    assert sum(smallest_eigenvalue(G) < 1e-8 for G in drawn) >= 20
    assert sum(smallest_eigenvalue(G) > 0.05 for G in drawn) >= 20
    assert sum(largest_correlation(G) > 0.99 for G in drawn) >= 20
    assert sum(np.min(G) < 0 for G in drawn) >= 20
    # both sides of the hypothesis of Lemma A.4
    assert sum((n - 1) * largest_correlation(G) <= 1 for G in drawn) >= 10
    assert n == 2 or sum((n - 1) * largest_correlation(G) > 1 for G in drawn) >= 20


def test_all_sizes_are_drawn() -> None:
    for strategy in (correlation_matrices(), psd_matrices(), batches()):
        sizes = Counter(len(value) for value in draws(strategy))
        assert len(sizes) >= 7
        assert {1, 2, 8} <= set(sizes)
        assert sizes[1] <= 100


def equal_off_diagonal(G: Floats) -> float:
    """The common correlation of three inputs or more, else 0."""
    apart = G[~np.eye(len(G), dtype=bool)]
    return float(apart[0]) if len(G) > 2 and np.ptp(apart) < 1e-15 else 0.0


def has_blocks(G: Floats) -> bool:
    return len(G) > 2 and largest_correlation(G) > 0 and not all(G[:k, k:].any() for k in range(1, len(G)))


# each edge with the least share of 600 draws from all sizes; less than any of eight seeds draws
EDGES: dict[str, tuple[float, Callable[[Floats], Any]]] = {
    "one input": (0.05, lambda G: len(G) == 1),
    "two inputs": (0.01, lambda G: len(G) == 2),
    "parallel": (0.03, lambda G: np.max(G - np.eye(len(G))) == 1.0),
    "antipodal": (0.02, lambda G: np.min(G) == -1.0),
    "nearly parallel": (0.05, lambda G: 0 < 1 - largest_correlation(G) < 1e-4),
    "very nearly parallel": (0.01, lambda G: 0 < 1 - largest_correlation(G) < 1e-11),
    "nearly orthogonal": (0.008, lambda G: 0 < largest_correlation(G) < 1e-5),
    "singular": (0.1, lambda G: smallest_eigenvalue(G) < 2 * len(G) * EPS),
    "nearly singular": (0.04, lambda G: 2 * len(G) * EPS < smallest_eigenvalue(G) < 1e-5),
    "nearly singular, not parallel": (
        0.01,
        lambda G: 0 < smallest_eigenvalue(G) < 1e-5 and largest_correlation(G) < 0.9,
    ),
    "of rank 2": (0.002, lambda G: len(G) > 4 and np.linalg.matrix_rank(G) == 2),
    "hardly nonsingular": (0.002, lambda G: 2 * len(G) * EPS < smallest_eigenvalue(G) < 1e-9),
    "equal but for signs": (
        0.003,
        lambda G: 0 < equal_off_diagonal(np.abs(G)) < 1 and np.min(G) < 0 < np.max(G - np.eye(len(G))),
    ),
    "equicorrelated": (0.01, lambda G: equal_off_diagonal(G) > 0),
    "negatively so": (0.02, lambda G: equal_off_diagonal(G) < 0),
    "negatively so, singular": (0.002, lambda G: len(G) > 2 and (len(G) - 1) * equal_off_diagonal(G) < -1 + 1e-9),
    "in blocks": (0.05, has_blocks),
    "nonnegative": (0.04, lambda G: len(G) > 2 and np.min(G) >= 0 and largest_correlation(G) > 0),
    "dominated by the diagonal": (0.1, lambda G: len(G) > 2 and 0 < (len(G) - 1) * largest_correlation(G) <= 1),
    "far from all edges": (0.08, lambda G: largest_correlation(G) > 0.1 and smallest_eigenvalue(G) > 0.05),
}


@pytest.mark.parametrize("exact", [False, True])
def test_edges_of_correlation_matrices_are_reached(exact: bool) -> None:
    drawn = [np.array(G, dtype=np.float64) for G in draws(correlation_matrices(exact=exact), 600)]
    shares = {edge: sum(bool(there(G)) for G in drawn) / len(drawn) for edge, (_, there) in EDGES.items()}
    assert {edge: share for edge, share in shares.items() if share < EDGES[edge][0]} == {}


def test_lengths_are_equal_nearly_equal_and_wild() -> None:
    diagonals = [np.diagonal(G) for G in draws(psd_matrices(min_n=2))]
    positive = [a[a > 0] for a in diagonals if np.count_nonzero(a) > 1]
    spreads = np.array([float(a.max() / a.min()) - 1 for a in positive])
    for low, high in ((-1.0, 0.0), (1e-10, 1e-7), (1e-5, 1e-1), (1.0, 1e3), (1e12, np.inf)):
        assert np.count_nonzero((spreads > low) & (spreads <= high)) >= 5, (low, high)
    assert simplest(psd_matrices(), lambda G: not G.any()).tolist() == [[0.0]]
    assert sum(np.any(a == 0) and np.any(a > 0) for a in diagonals) >= 5


def test_batches_are_wide_tall_and_dependent() -> None:
    drawn = draws(batches())
    assert sum(X.shape[0] > X.shape[1] for X in drawn) >= 20
    assert sum(X.shape[0] < X.shape[1] for X in drawn) >= 20
    ranks = [np.linalg.matrix_rank(X / np.linalg.norm(X, axis=1)[:, None]) for X in drawn]
    assert sum(rank == min(X.shape) for rank, X in zip(ranks, drawn, strict=True)) >= 50
    dependent = simplest(batches(n=2, d=2), lambda X: np.linalg.matrix_rank(X) == 1)
    assert np.linalg.matrix_rank(dependent) == 1


# --- shrinking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n", [1, 2, 6])
def test_everything_shrinks_to_the_identity(n: int, seed: int) -> None:
    assert np.array_equal(simplest(correlation_matrices(n=n), lambda G: True, seed), np.eye(n))
    assert np.array_equal(simplest(correlation_matrices(min_n=n), lambda G: True, seed), np.eye(n))
    assert np.array_equal(simplest(correlation_matrices(n=n, max_correlation=0.5), lambda G: True), np.eye(n))
    assert np.array_equal(simplest(psd_matrices(min_n=n), lambda G: True, seed), np.eye(n))
    assert np.array_equal(simplest(batches(min_n=n, min_d=n), lambda X: True, seed), np.eye(n))


@pytest.mark.parametrize("seed", range(2))
def test_a_failure_shrinks_to_few_inputs(seed: int) -> None:
    G = simplest(correlation_matrices(), lambda G: largest_correlation(G) > 0.99, seed)
    assert len(G) <= 3
    assert np.count_nonzero(G - np.eye(len(G))) <= 4
    assert len(simplest(correlation_matrices(), lambda G: np.min(G) < -0.3, seed)) <= 3
    assert len(simplest(psd_matrices(), lambda G: G.max() > 1e9 * np.diagonal(G).min() > 0, seed)) <= 3
    assert simplest(batches(), lambda X: len(X) > X.shape[1], seed).tolist() == [[1.0], [1.0]]


def test_a_fixed_rank_shrinks_to_unit_vectors_in_turn() -> None:
    expected = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert simplest(correlation_matrices(n=3, rank=2), lambda G: True).tolist() == expected


# --- large matrices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        correlation_matrices(n=20),
        correlation_matrices(n=20, exact=True),
        correlation_matrices(min_n=20, max_n=20, max_correlation=0.5),
        correlation_matrices(eigenvalues=[1.0] * 20),
        psd_matrices(n=20),
        batches(n=20, d=20),
        batches(n=20, d=20, centred=True, norms="wild"),
    ],
    ids=range(7),
)
def test_twenty_inputs_pass_the_health_checks_of_hypothesis(strategy: st.SearchStrategy[Any]) -> None:
    sizes = []

    # as hypothesis starts, but for the deadline, which a busy machine misses whatever is drawn
    @settings(settings.get_profile("default"), deadline=None, database=None, derandomize=True)
    @given(strategy)
    def draw(value: Any) -> None:
        sizes.append(len(value))

    draw()
    assert settings.get_profile("default").suppress_health_check == ()
    assert sizes == [20] * 100


# --- arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [correlation_matrices, psd_matrices, batches])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"n": 2.0}, r"n must be an integer >= 1, got 2\.0"),
        ({"n": True}, "n must be an integer >= 1, got True"),
        ({"min_n": 0}, "min_n must be an integer >= 1, got 0"),
        ({"max_n": -1}, "max_n must be an integer >= 1, got -1"),
        ({"min_n": 4, "max_n": 3}, "min_n=4 must not exceed max_n=3"),
        ({"min_n": 9}, "min_n=9 must not exceed max_n=8"),
        ({"n": 0, "exact": True}, "n must be an integer >= 1, got 0"),
    ],
)
def test_bad_sizes(strategy: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategy(**arguments)


@pytest.mark.parametrize(
    ("strategy", "arguments", "message"),
    [
        (batches, {"d": 0}, "d must be an integer >= 1, got 0"),
        (batches, {"min_d": 3, "max_d": 2}, "min_d=3 must not exceed max_d=2"),
        (correlation_matrices, {"rank": 0}, "rank must be an integer >= 1, got 0"),
        (correlation_matrices, {"n": 3, "rank": 4}, "rank=4 must not exceed the smallest size, 3"),
        (psd_matrices, {"rank": 2}, "rank=2 must not exceed the smallest size, 1; raise n or min_n"),
        (correlation_matrices, {"max_correlation": 1.5}, r"max_correlation must lie in \[0, 1\], got 1\.5"),
        (correlation_matrices, {"max_correlation": -0.1}, r"max_correlation must lie in \[0, 1\], got -0\.1"),
        (correlation_matrices, {"max_correlation": float("nan")}, "got nan"),
        (correlation_matrices, {"n": 3, "rank": 1, "max_correlation": 0.5}, "cannot be combined"),
    ],
)
def test_bad_arguments(strategy: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        strategy(**arguments)


def test_arguments_are_keywords() -> None:
    for strategy in (correlation_matrices, psd_matrices, batches):
        with pytest.raises(TypeError, match="positional"):
            strategy(3)  # type: ignore[call-arg]
