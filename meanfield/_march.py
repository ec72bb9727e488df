"""The correlations of all pairs of inputs on their way through the layers, while they are large enough to be mapped
one by one.

Pairs are packed, row by row of the upper triangle. A block of them goes through many layers before the next is
touched, so that memory is read once; of each layer only the largest is kept. A pair that nearly coincides, or is
nearly opposite, is carried by its distance 1 - |rho|, whose digits rho itself has lost.

Read by `_dynamics`; what has become small goes on in `_tail`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite import _compiled
from hermite._parts import into_block, workspace
from hermite._threads import over_pieces

from ._pairs import unpacked
from ._step import Floats, Step

Indices: TypeAlias = NDArray[np.intp]

_EPS = 2.0**-52
CLOSE = 1 / 128  # 1 - |rho| below it is carried instead of rho
_BLOCK = 16384
_CHUNK = 4096  # of compiled loops: one array in the first-level cache
WORTH = 1 << 22  # maps of a pair, over all layers, from which compiling pays


@dataclass
class Close:
    """Pairs carried by their distance: where they are packed, 1 - |rho|, the sign of rho, and their relative error.

    One error serves all: there may be as many close pairs as there are pairs.
    """

    index: Indices
    delta: Floats
    sign: NDArray[np.int8]
    error: float

    @staticmethod
    def of(index: Indices, delta: Floats, rho: Floats, error: float) -> Close:
        return Close(index, delta, np.where(rho < 0, np.int8(-1), np.int8(1)), error)

    def part(self, chosen: NDArray[np.bool_]) -> Close:
        if chosen.all():
            return self
        return Close(self.index[chosen], self.delta[chosen], self.sign[chosen], self.error)

    def joined(self, other: Close) -> Close:
        index, delta = np.concatenate([self.index, other.index]), np.concatenate([self.delta, other.delta])
        return Close(index, delta, np.concatenate([self.sign, other.sign]), max(self.error, other.error))

    @property
    def rho(self) -> Floats:
        rho = 1.0 - self.delta
        rho *= self.sign
        return rho


class Largest(NamedTuple):
    """The largest |rho| of one layer and 1 - it, the error of both, and the logarithm of |rho|/(1 - |rho|) with its."""

    value: float
    complement: float
    error: float
    log_odds: float
    log_error: float


def largest_of(value: float, complement: float, error: float) -> Largest:
    """From |rho| and 1 - |rho| as floats that do not underflow."""
    if value == 0.0:
        return Largest(0.0, 1.0, error, -math.inf, 0.0 if error == 0.0 else math.inf)
    if complement == 0.0:
        return Largest(1.0, 0.0, 0.0, math.inf, 0.0)
    relative = error / min(value, complement)
    log_error = -math.log1p(-relative) if relative < 1.0 else math.inf
    log_odds = math.log(value) - math.log(complement)
    # 1 - complement is rounded once more, and so are the logarithms
    return Largest(value, complement, error + _EPS / 2 * value, log_odds, log_error + 2 * _EPS * (1 + abs(log_odds)))


@dataclass
class Pairs:
    """All pairs at one layer. values: packed rho; close: those carried by their distance.

    error bounds the absolute error of every other pair, largest_open their |rho|; fast: compiled loops, if there are.
    """

    n: int
    values: Floats
    close: Close
    error: float
    fast: bool
    largest_open: float = 0.0
    stand_in: float = 0.0  # rho of an open pair, put where close pairs are while the others go through layers

    @staticmethod
    def of(n: int, values: Floats, delta: Floats | None = None, *, error: float = 0.0, fast: bool = False) -> Pairs:
        """From packed correlations, each off by at most error, and 1 - |rho| where that is known relatively as well."""
        known = delta is not None
        delta = 1.0 - np.abs(values) if delta is None else delta
        index = np.flatnonzero(delta < CLOSE)
        least = float(delta[index].min(initial=CLOSE))
        relative = error if known or not error else error / least if least else math.inf
        result = Pairs(n, values, Close.of(index, delta[index], values[index], relative), error, fast)
        result._look()
        return result

    @property
    def top(self) -> Largest:
        if len(self.close.index):
            delta = float(self.close.delta.min())
            return largest_of(1.0 - delta, delta, self.close.error * delta if delta else 0.0)
        return largest_of(self.largest_open, 1.0 - self.largest_open, self.error)

    @property
    def parallel(self) -> bool:
        """Whether two inputs coincide or are opposite exactly."""
        return bool(np.any(self.close.delta == 0.0))

    def matrix(self) -> Floats:
        """The correlation matrix."""
        return unpacked(self.values, self.n)

    def complements(self) -> Floats:
        """1 - |rho| of all pairs, a matrix with diagonal 0."""
        delta = 1.0 - np.abs(self.values)
        delta[self.close.index] = self.close.delta
        return unpacked(delta, self.n, 0.0)

    @property
    def complement_error(self) -> float:
        """Relative error of every entry of `complements`."""
        return max(self.close.error, self.error / CLOSE)

    def advance(self, steps: list[Step]) -> list[Largest]:
        """Through some layers, in place; the largest |rho| after each."""
        freed = Freed(np.zeros(0, dtype=np.intp), np.zeros(0))
        only_close = len(self.close.index) == len(self.values)
        self.values[self.close.index] = self.stand_in
        path: list[Largest] = []
        for step, top in zip(steps, march(steps, self.values, fast=self.fast).tolist(), strict=True):
            self.error = step.spread(self.largest_open, self.error)
            self.close, freed, error = _through(step, self.close, freed)
            self.error = max(self.error, error)
            self.largest_open = max(0.0 if only_close else top, float(np.abs(freed.rho).max(initial=0.0)))
            path.append(self.top)
        self.values[self.close.index] = self.close.rho
        self.values[freed.places] = freed.rho
        if self.largest_open > 1.0 - CLOSE:
            self._gather()
        if len(self.close.index):
            self._look()
        return path

    def _look(self) -> None:
        """Find the largest of the open pairs."""
        self.values[self.close.index] = 0.0
        high, low = float(self.values.max(initial=0.0)), float(self.values.min(initial=0.0))
        self.values[self.close.index] = self.close.rho
        self.stand_in = high if high >= -low else low
        self.largest_open = abs(self.stand_in)

    def _gather(self) -> None:
        """Take up pairs that have come close, where correlations are drawn towards 1."""
        delta = 1.0 - np.abs(self.values)
        delta[self.close.index] = 1.0
        index = np.flatnonzero(delta < CLOSE)
        least = float(delta[index].min(initial=CLOSE))
        new = Close.of(index, delta[index], self.values[index], self.error / least if least else math.inf)
        self.close = self.close.joined(new)
        self._look()


class Freed(NamedTuple):
    """Pairs that have ceased to be close: where they are packed, and rho."""

    places: Indices
    rho: Floats


def _through(step: Step, close: Close, freed: Freed) -> tuple[Close, Freed, float]:
    """Close pairs and those freed before through one layer; the last is a bound on errors of the newly freed.

    The map of distances is concave, so it does not raise relative errors; next to -1 the map is no steeper than next
    to 1.
    """
    rho = step(freed.rho) if len(freed.rho) else freed.rho
    if not len(close.index):
        return close, Freed(freed.places, rho), 0.0
    delta, error = step.complement(close.delta), close.error + step.rounding
    sign = np.ones_like(close.sign) if step.parity == 1 else close.sign
    leaving = delta >= CLOSE
    if step.parity == 0:
        leaving |= close.sign < 0
    value = sign[leaving] * (1.0 - delta[leaving])
    if step.parity == 0:
        below = close.sign[leaving] < 0
        value[below] = step.from_minus_one(close.delta[leaving][below])
    freed = Freed(np.concatenate([freed.places, close.index[leaving]]), np.concatenate([rho, value]))
    spread = error * float(delta[leaving].max()) + step.rounding if len(value) else 0.0
    return Close(close.index, delta, sign, error).part(~leaving), freed, spread


def march(steps: list[Step], values: Floats, *, fast: bool) -> Floats:
    """values through the steps in place, and the largest |value| after each."""
    runs = [(step, len(list(group))) for step, group in groupby(steps)]
    compiled = fast and _compiled.available() and all(s.is_plain and _compiled.compilable(s.f) for s, _ in runs)
    kernels = [_compiled.stepper(step.f) for step, _ in runs] if compiled else []

    def run(piece: slice) -> Floats:
        largest = np.zeros(len(steps))
        if compiled:
            for start in range(piece.start, piece.stop, _CHUNK):
                chunk, layer = values[start : min(start + _CHUNK, piece.stop)], 0
                for kernel, (step, count) in zip(kernels, runs, strict=True):
                    kernel(chunk, count, step.offset, step.scale, largest[layer : layer + count])
                    layer += count
            return largest
        work, spare = workspace(_BLOCK), np.empty(_BLOCK)
        for start in range(piece.start, piece.stop, _BLOCK):
            _through_block(steps, values[start : min(start + _BLOCK, piece.stop)], spare, work, largest)
        return largest

    found = over_pieces(run, len(values))
    return np.max(found, axis=0) if found else np.zeros(len(steps))


def _through_block(steps: list[Step], block: Floats, spare: Floats, work: Floats, largest: Floats) -> None:
    now, other = block, spare[: len(block)]
    for layer, step in enumerate(steps):
        if step.is_plain:
            into_block(step.f, now, other, work)
            if step.offset:
                other *= step.scale
                other += step.offset
        else:
            other[...] = step(now)
        largest[layer] = max(largest[layer], float(other.max()), -float(other.min()))
        now, other = other, now
    if now is not block:
        block[...] = now
