"""Hypothesis strategies for what claims about matrices are attained at, mixed with everything else.

A bound that is off by a hundredth is wrong there, and mostly there alone. All entries are exact, as floats or as
Fractions: so equality is a fact.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from bounds._batch_strategies import batches
from bounds._matrix_strategies import correlation_matrices, psd_matrices

__all__ = ["correlations", "gram_matrices", "pairs", "rows_and_eps", "tall_batches"]

Drawn: TypeAlias = st.SearchStrategy[tuple[Any, ...]]

# correlations, as shares of the most that n inputs can all have with each other
_SHARES = [Fraction(1, 2), Fraction(1, 8), Fraction(3, 4), Fraction(15, 16), Fraction(1, 2**20), Fraction(1)]
_FACTORS = [Fraction(1), Fraction(2), Fraction(9, 8), Fraction(1, 2), Fraction(64), Fraction(1, 1024)]


def correlations() -> Drawn:
    """One correlation matrix: any, one of small correlations, or one whose correlations are all c or all -c."""
    small = st.sampled_from([1e-1, 1e-2, 1e-4]).flatmap(lambda m: correlation_matrices(min_n=2, max_correlation=m))
    return st.tuples(st.one_of(correlation_matrices(), equal_correlations(), small))


def gram_matrices() -> Drawn:
    """One Gram matrix: any, or one of whose lengths all but one are equal."""
    return st.tuples(st.one_of(psd_matrices(), _one_longer()))


def pairs() -> Drawn:
    """Two correlation matrices of one size, one of them with equal correlations in a part of the draws."""
    return st.integers(1, 8).flatmap(
        lambda n: st.one_of(
            st.tuples(correlation_matrices(n=n), correlation_matrices(n=n)),
            st.tuples(correlation_matrices(n=n), equal_correlations(n)),
            st.tuples(correlation_matrices(n=n, max_correlation=0.01), correlation_matrices(n=n, max_correlation=0.01)),
        )
    )


def rows_and_eps() -> Drawn:
    """(X, eps): mostly fewer inputs than features, since others are singular once centred."""
    X = st.one_of(
        batches(max_n=4, min_d=5), batches(max_n=3, min_d=4, norms="equal", centred=True, exact=True), batches()
    )
    return st.tuples(X, st.sampled_from([0, 0, Fraction(1, 10**5), 1, 10**6]))


def tall_batches() -> Drawn:
    """X with mostly fewer features than inputs, and features of equal lengths in a part of the draws."""
    equal = batches(max_n=3, min_d=4, norms="equal", centred=True, exact=True)
    turned = equal.map(lambda X: [list(column) for column in zip(*X, strict=True)])
    return st.tuples(st.one_of(batches(min_n=5, max_d=4), turned, batches()))


@st.composite
def equal_correlations(draw: st.DrawFn, n: int | None = None) -> list[list[Fraction]]:
    """Nested lists of Fractions: all correlations c or all -c, up to the signs of inputs."""
    n = draw(st.integers(2, 8)) if n is None else n
    share, negative = draw(st.sampled_from(_SHARES)), draw(st.booleans())
    c = -share / max(n - 1, 1) if negative else share
    signs = draw(st.lists(st.sampled_from([1, -1]), min_size=n, max_size=n)) if draw(st.booleans()) else [1] * n
    return [[Fraction(1) if i == j else c * signs[i] * signs[j] for j in range(n)] for i in range(n)]


@st.composite
def _one_longer(draw: st.DrawFn) -> Any:
    C = draw(correlation_matrices(min_n=2))
    lengths = np.ones(len(C))
    lengths[draw(st.integers(0, 7)) % len(C)] = draw(st.sampled_from(_FACTORS))
    return C * np.outer(lengths, lengths)
