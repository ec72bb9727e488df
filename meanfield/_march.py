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
    """Pairs carried by their distance: where they are packed, 1 - |rho|, the sign of rho, and relative errors."""

    index: Indices
    delta: Floats
    sign: Floats
    error: Floats

    @staticmethod
    def none() -> Close:
        return Close(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), np.zeros(0))

    def part(self, chosen: NDArray[np.bool_]) -> Close:
        return Close(self.index[chosen], self.delta[chosen], self.sign[chosen], self.error[chosen])

    def joined(self, other: Close) -> Close:
        pairs = zip(
            (self.index, self.delta, self.sign, self.error),
            (other.index, other.delta, other.sign, other.error),
            strict=True,
        )
        return Close(*(np.concatenate(p) for p in pairs))

    @property
    def rho(self) -> Floats:
        return self.sign * (1.0 - self.delta)


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
    # 1 - complement is rounded once more
    return Largest(value, complement, error + _EPS / 2 * value, math.log(value) - math.log(complement), log_error)


@dataclass
class Pairs:
    """All pairs at one layer. values: packed rho; close: those carried by their distance.

    error bounds the absolute error of every other pair, largest_open their |rho|; fast: compiled loops, if there are.
    """

    n: int
    values: Floats
    close: Close
    error: float
    largest_open: float
    fast: bool

    @staticmethod
    def of(n: int, values: Floats, delta: Floats | None = None, *, error: float = 0.0, fast: bool = False) -> Pairs:
        """From packed correlations, each off by at most error, and 1 - |rho| where that is known relatively as well."""
        given = delta is not None
        delta = 1.0 - np.abs(values) if delta is None else delta
        index = np.flatnonzero(delta < CLOSE)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(delta[index] > 0, error / delta[index], 0.0) if error else np.zeros(len(index))
        if given:  # to relative accuracy
            relative = np.full(len(index), error)
        close = Close(index, delta[index], np.where(values[index] < 0, -1.0, 1.0), relative)
        result = Pairs(n, values, close, error, 0.0, fast)
        result.largest_open = result._top_of_the_open()
        return result

    @property
    def top(self) -> Largest:
        if len(self.close.index):
            i = int(self.close.delta.argmin())
            delta = float(self.close.delta[i])
            return largest_of(1.0 - delta, delta, float(self.close.error[i]) * delta)
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
        return max(float(self.close.error.max(initial=0.0)), self.error / CLOSE)

    def advance(self, steps: list[Step]) -> list[Largest]:
        """Through some layers, in place; the largest |rho| after each."""
        freed = Freed(np.zeros(0, dtype=np.intp), np.zeros(0))
        self.values[self.close.index] = 0.0  # apart from the rest, whose largest is wanted
        path: list[Largest] = []
        for step, top in zip(steps, march(steps, self.values, fast=self.fast).tolist(), strict=True):
            self.error = step.spread(self.largest_open, self.error)
            self.close, freed, error = _through(step, self.close, freed)
            self.error = max(self.error, error)
            self.largest_open = max(top, float(np.abs(freed.rho).max(initial=0.0)))
            path.append(self.top)
        self.values[self.close.index] = self.close.rho
        self.values[freed.places] = freed.rho
        self._gather()
        return path

    def _top_of_the_open(self) -> float:
        self.values[self.close.index] = 0.0
        top = max(float(self.values.max(initial=0.0)), -float(self.values.min(initial=0.0)))
        self.values[self.close.index] = self.close.rho
        return top

    def _gather(self) -> None:
        """Take up pairs that have come close, where correlations are drawn towards 1."""
        if self.largest_open > 1.0 - CLOSE:
            delta = 1.0 - np.abs(self.values)
            delta[self.close.index] = 1.0
            index = np.flatnonzero(delta < CLOSE)
            sign = np.where(self.values[index] < 0, -1.0, 1.0)
            with np.errstate(divide="ignore"):
                relative = self.error / delta[index]
            self.close = self.close.joined(Close(index, delta[index], sign, relative))
            self.largest_open = self._top_of_the_open()


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
    value = sign * (1.0 - delta)
    leaving = delta >= CLOSE
    if step.parity == 0:
        below = close.sign < 0
        value[below] = step.from_minus_one(close.delta[below])
        leaving |= below
    freed = Freed(np.concatenate([freed.places, close.index[leaving]]), np.concatenate([rho, value[leaving]]))
    spread = float((error * delta + step.rounding)[leaving].max(initial=0.0))
    return Close(close.index, delta, sign, error).part(~leaving), freed, spread


def march(steps: list[Step], values: Floats, *, fast: bool) -> Floats:
    """values through the steps in place, and the largest |value| after each."""
    runs = [(step, len(list(group))) for step, group in groupby(steps)]
    compiled = fast and _compiled.available() and all(_compiled.compilable(step.f) for step, _ in runs)
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
        into_block(step.f, now, other, work)
        if step.offset:
            other *= step.scale
            other += step.offset
        largest[layer] = max(largest[layer], float(other.max()), -float(other.min()))
        now, other = other, now
    if now is not block:
        block[...] = now
