"""Layers at which both sides of a claim over depth are one number: there no rounding leaves the claim undecided.

Each is a property of the entries of G_0 as they are given, and of the parities and degrees of the activations: exact.
All are arrays of bools over layers 0..depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._polynomial import rational_weights
from bounds._strengths import degree
from meanfield._exact import as_fractions, eliminate
from meanfield._layer import Layer
from meanfield._step import Step

__all__ = ["Equalities"]

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

_EXACT_UP_TO = 16  # rational elimination takes milliseconds


class Equalities:
    """C: the correlation matrix at layer 0; steps: the maps, fewer than layers where the diagonal moves."""

    def __init__(self, C: Floats, layers: Sequence[Layer], steps: Sequence[Step]) -> None:
        self.C, self.layers = C, layers
        n = len(C)
        self.entries = C[~np.eye(n, dtype=bool)]
        self.largest = float(np.abs(self.entries).max(initial=0.0))
        self.parities = [s.parity for s in steps] if len(steps) == len(layers) else [0] * len(layers)
        # 0 need not stay 0, and then neither does anything else
        self.centred = len(steps) == len(layers) and not any(s.at_zero for s in steps)
        self.degrees = [degree(x) if self.centred else 64 for x in layers]

    @cached_property
    def kept(self) -> Mask:
        """G_l = G_(l-1): a linear layer, or entries that every layer keeps; layer 0 is compared with itself."""
        linear = np.array([True, *(d == 1 for d in self.degrees)])
        return np.asarray(linear | self._fixed)

    @cached_property
    def untouched(self) -> Mask:
        """G_l = G_0."""
        return np.cumprod(self.kept).astype(bool)

    @cached_property
    def _fixed(self) -> Mask:
        """All entries 0 or 1, or -1 while layers are odd."""
        if not self.centred or not np.all(np.isin(np.abs(self.entries), (0.0, 1.0))):
            return np.zeros(len(self.layers) + 1, dtype=bool)
        return self._so_far([p == -1 or np.all(self.entries >= 0.0) for p in self.parities])

    @cached_property
    def unmixed(self) -> Mask:
        """|entries of G_l| = f_l(|entries of G_0|): G_0 >= 0, or layers odd or even until one is even."""
        if np.all(self.entries >= 0.0):
            return np.ones(len(self.layers) + 1, dtype=bool)
        before = np.concatenate([[False], self._even[:-1]])  # after an even layer all is >= 0
        return np.cumprod(before | np.array([True, *(p != 0 for p in self.parities)])).astype(bool)

    @cached_property
    def mapped(self) -> Mask:
        """max |G_ij| = f_l(m_0): a largest entry is positive, or as in `unmixed`."""
        positive = bool(np.any(self.entries == self.largest))
        return self.unmixed | positive

    @cached_property
    def quadratic(self) -> Mask:
        """... and f = r rho + (1 - r) rho^2 so far: max |G_ij| = F_r(...F_r(m_0))."""
        return self.mapped & self._so_far([d <= 2 for d in self.degrees])

    @cached_property
    def pure(self) -> Mask:
        """f = rho^k so far."""
        weights = [rational_weights(x.sigma) if not x.keep else None for x in self.layers]
        return self._so_far([w is not None and w[-1] == 1 for w in weights])

    @cached_property
    def equicorrelated(self) -> Mask:
        """All correlations f_l(m_0) >= 0, up to the signs of inputs."""
        return self.unmixed & np.where(self._even, _equal(np.abs(self.C), 1.0), _equal(self.C, 1.0))

    @cached_property
    def opposed(self) -> Mask:
        """All correlations -f_l(m_0) <= 0, up to the signs of inputs; of two inputs always, if `mapped`."""
        if len(self.C) <= 2:
            return self.mapped
        return self._so_far([p == -1 for p in self.parities]) & _equal(self.C, -1.0)

    @cached_property
    def parallel(self) -> Mask:
        """Two inputs coincide, up to a sign, and go on coinciding."""
        return self.mapped & (self.largest == 1.0)

    @cached_property
    def aligned(self) -> Mask:
        """... and G_0 itself has all correlations m_0 up to the signs of inputs: lambda_min(G_0) = 1 - m_0."""
        return self.unmixed & _equal(self.C, 1.0)

    @cached_property
    def blocks(self) -> Mask:
        """Some groups of inputs have all correlations f_l(m_0), up to the signs of inputs, and the rest are 0."""
        # of G_0 itself, even before an even layer: the smallest eigenvalue of G_0 knows its signs
        return self.unmixed & _block_equal(self.C)

    @cached_property
    def exchangeable(self) -> int:
        """How many times 1 - f_l(m) is the smallest eigenvalue of every G_l, m > 0 the largest entry; 0 if not known.

        If C_ij = m, and C_ik = C_jk for all other k, e_i - e_j is an eigenvector of every G_l, with eigenvalue 1 -
        f_l(m); if G_0 - (1 - m) I is positive semidefinite, none is smaller, since 1 - lambda_min(G_l) <= f_l(m).
        """
        m, n = self.largest, len(self.C)
        if m == 0.0 or not np.any(self.entries == m) or n > _EXACT_UP_TO:
            return 0
        rows = np.where(np.eye(n, dtype=bool), m, self.C)  # i and j as above have one row
        times = n - len(np.unique(rows, axis=0))
        if not times:
            return 0
        shifted = [list(row) for row in as_fractions(self.C)]
        for i in range(n):
            shifted[i][i] = Fraction(m)
        return times if eliminate(as_fractions(shifted)).positive_semidefinite else 0

    @cached_property
    def distinct(self) -> int:
        """What the rank of no G_l exceeds: the number of inputs that differ, up to signs that all layers keep."""
        known = np.abs(self.C) if all(self.parities) else self.C
        return len(np.unique(np.argmax(known == 1.0, axis=1)))

    @cached_property
    def _even(self) -> Mask:
        """Whether one of the layers so far is even."""
        return np.asarray(np.cumsum([False, *(p == 1 for p in self.parities)]) > 0)

    def _so_far(self, flags: Sequence[object]) -> Mask:
        return np.cumprod([True, *map(bool, flags)]).astype(bool)


def _equal(C: Floats, sign: float) -> bool:
    """Whether C = (1 -+ m) I +- m s s^T for signs s."""
    s = sign * np.where(C[0] < 0.0, -1.0, 1.0)
    s[0] = 1.0
    E = sign * float(np.abs(C - np.eye(len(C))).max()) * np.outer(s, s)
    np.fill_diagonal(E, 1.0)
    return bool(np.array_equal(E, C))


def _block_equal(C: Floats) -> bool:
    """Whether that is so, with one m, in every group of inputs that are not orthogonal to each other."""
    linked = C != 0.0
    if not np.array_equal(linked @ linked, linked):  # of bools: whether two links make a link
        return False
    signs = np.where(C[np.argmax(linked, axis=1), np.arange(len(C))] < 0.0, -1.0, 1.0)
    E = float(np.abs(C - np.eye(len(C))).max()) * np.outer(signs, signs) * linked
    np.fill_diagonal(E, 1.0)
    return bool(np.array_equal(E, C))
