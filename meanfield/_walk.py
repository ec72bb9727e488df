"""Networks whose diagonal moves: Gram matrices one layer after the other, and what is recorded of them.

`_run` is for networks whose diagonal stays, where all that matters is a map of correlations. Read by `_dynamics`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite.errors import PrecisionError

from ._gap import SINGULAR, diagonal_gap, gap_of, has_parallel_pair, least_gap, with_norms
from ._gram import unit_diagonal
from ._layer import Layer
from ._march import Largest, largest_of
from ._run import Measured, Run, measured
from ._step import Step

Floats: TypeAlias = NDArray[np.float64]
_SMALLEST = 1e-290
_ROUNDING = 4e-15  # of an entry of a correlation matrix in one layer: 1e-15 was seen


def stationary_steps(layers: tuple[Layer, ...], q: float) -> tuple[list[Step], float] | None:
    """The maps of correlations of a network that starts with the diagonal q everywhere, and the diagonal it ends with.

    None where some layer moves the diagonal in a way that correlations feel.
    """
    steps: list[Step] = []
    known: dict[tuple[Layer, float], tuple[Step, float] | None] = {}
    for layer in layers:
        if (layer, q) not in known:
            known[layer, q] = _stationary(layer, q)
        found = known[layer, q]
        if found is None:
            return None
        steps.append(found[0])
        q = found[1]
    return steps, q


def _stationary(layer: Layer, q: float) -> tuple[Step, float] | None:
    if layer.normalization == "batch" or q == 0.0:
        return None
    if layer.order == "normalization-first" and layer.forgets_norms:
        return (layer.step, layer.variance) if not layer.keep or q == layer.variance else None
    return (layer.step_at(q), q) if layer.is_stationary(q) else None


class Walk:
    """The way of a Gram matrix through the layers. With a batch layer, gaps are those on the complement of (1, ..., 1).

    error: of the entries of the correlation matrix. A layer multiplies it by at most (1 - m')/(1 - m), m the largest
    correlation and m' what becomes of it: a map without negative coefficients is no steeper on [-m, m] than its chord
    from m to 1. Where norms differ, no such map serves all pairs, and the factor is an estimate.
    """

    def __init__(self, layers: tuple[Layer, ...], G: Floats, wanted: frozenset[int]) -> None:
        self.layers, self.wanted, self.matrix = layers, wanted, G
        self.centred = any(layer.normalization == "batch" for layer in layers)
        self.error, self.factor, self.tops, self.gaps = 0.0, 1.0, list[Largest](), dict[int, Measured]()
        self.parallel = has_parallel_pair(G, _cosines(G))
        self._note(0)

    def __iter__(self) -> Iterator[int]:
        """The number of layers done, after each."""
        for done, layer in enumerate(self.layers, 1):
            run = self._settled(done - 1)
            if run is not None:
                for further in run:
                    self.tops += run.tops[len(self.tops) - done + 1 :]
                    yield done - 1 + further
                self.gaps.update({done - 1 + l: gap for l, gap in run.gaps.items()})
                self.matrix = run.gram * self.factor
                return
            before = 1.0 - self.tops[-1].value
            self.matrix = self._advanced(layer, done)
            after = 1.0 - float(np.abs(_off_diagonal(_cosines(self.matrix))).max(initial=0.0))
            self.error = self.error * max(after / before if before else 1.0, layer.keep) + _ROUNDING
            self._note(done)
            yield done

    def _advanced(self, layer: Layer, l: int) -> Floats:
        """The Gram matrix of layer l, whose diagonal must not have lost digits to the end of float64."""
        try:
            after = layer.advance(self.matrix)
        except PrecisionError as error:
            raise PrecisionError(f"layer {l}: {error}") from error
        if np.any((np.diagonal(after) < _SMALLEST) & (np.diagonal(self.matrix) >= _SMALLEST)):
            raise PrecisionError(
                f"layer {l}: the diagonal of G has fallen below {_SMALLEST:g} and leaves float64; take fewer layers, a "
                "larger gain, or normalise"
            )
        return after

    def _settled(self, l: int) -> Run | None:
        """What is left of the way from layer l on, where the diagonal has become one number that stays."""
        q = np.diagonal(self.matrix)
        found = stationary_steps(self.layers[l:], float(q[0])) if np.all(q == q[0]) and not self.centred else None
        if found is None:
            return None
        steps, self.factor = found
        wanted = frozenset(i - l for i in self.wanted if i > l)
        return Run(steps, _cosines(self.matrix), None, None, wanted, error=0.0 if self.parallel else self.error)

    def _note(self, l: int) -> None:
        C = _cosines(self.matrix)
        largest = float(np.abs(_off_diagonal(C)).max(initial=0.0))
        self.parallel = self.parallel and largest == 1.0
        self.tops.append(largest_of(largest, 1.0 - largest, 0.0 if self.parallel else self.error))
        if l in self.wanted:
            self.gaps[l] = self._gap(C)

    def _gap(self, C: Floats) -> Measured:
        G = self.matrix
        if self.centred:
            basis = orthogonal_to_ones(len(G))
            G = basis.T @ G @ basis
            G = 0.5 * (G + G.T)
            C = _cosines(G)
        diagonal = np.diagonal(G)
        if not np.all(diagonal > 0.0) or (self.parallel and not self.centred):
            return measured(SINGULAR, 0.0, None)
        gap = with_norms(gap_of(C, rounded=True, entry_error=self.error), diagonal, self.error)
        unresolved = gap.status == "unresolved"
        lower = least_gap(C, entry_error=self.error) + diagonal_gap(diagonal) if unresolved else None
        top = self.tops[-1].value
        return measured(gap, math.sqrt(C.size) * self.error / top if top else math.inf, lower)

    @property
    def gram(self) -> Floats:
        return self.matrix


def _cosines(G: Floats) -> Floats:
    """The correlation matrix; an input of norm 0 is orthogonal to all others."""
    q = np.diagonal(G)
    if np.all(q > 0.0):
        return unit_diagonal(G)
    C, there = np.eye(len(G)), q > 0.0
    C[np.ix_(there, there)] = unit_diagonal(G[np.ix_(there, there)])
    return C


def _off_diagonal(C: Floats) -> Floats:
    return C[~np.eye(len(C), dtype=bool)]


def orthogonal_to_ones(n: int) -> Floats:
    """(n, n - 1), orthonormal columns that sum to 0 (Helmert's)."""
    k = np.arange(1.0, n)
    basis = np.triu(np.broadcast_to(1.0 / np.sqrt(k * (k + 1)), (n, n - 1)))
    basis[np.arange(1, n), np.arange(n - 1)] = -k / np.sqrt(k * (k + 1))
    return basis
