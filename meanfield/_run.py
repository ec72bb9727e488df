"""One network: all pairs of inputs through its layers, explicit while they are large, by one formula once small.

Read by `_dynamics`, which checks arguments before and records what was found after.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ._gap import EPS, SINGULAR, ZERO, Gap, gap_of, gap_of_clusters, is_poor, least_gap
from ._march import WORTH, Largest, Pairs
from ._pairs import packed
from ._step import Floats, Step
from ._tail import Tail, log1p_error

GIVEN_ERROR = 1e-14  # of distances that come with the inputs, as `input_complement` promises
_SMALLEST = 1e-290  # gaps below it have lost digits to underflow
_STRETCH = 16  # layers between two looks at how large the pairs are
_ROOM = 600.0  # logarithm of how far pairs may fall in a stretch: float64 ends at 708


class Run:
    """The way of all pairs through the layers: explicit while they are large, by one formula once they are small."""

    def __init__(
        self,
        steps: list[Step],
        C: Floats,
        near: Floats | None,
        first: Gap | None,
        wanted: frozenset[int],
        *,
        error: float = 0.0,
    ) -> None:
        """error: of the entries of C, where it is no exact input; near, and its error, take its place."""
        self.steps, self.wanted = steps, sorted(wanted)
        values = packed(C)
        fast = len(values) * len(steps) >= WORTH
        delta, error = (None, error) if near is None else (packed(near), GIVEN_ERROR)
        self.state: Pairs | Tail = Pairs.of(len(C), values, delta, error=error, fast=fast)
        self.tops: list[Largest] = [self.state.top]
        self.gap_layers = wanted
        self.gaps: dict[int, Measured] = {}
        if first is not None:
            lower = least_gap(C, near, entry_error=error) if first.status == "unresolved" else None
            self.gaps[0] = measured(first, 0.0, lower)

    def __iter__(self) -> Iterator[int]:
        """The number of layers done, after every stretch."""
        anchor = 0  # where a stretch ends; layers with a gap cut it, and change nothing else
        while (done := len(self.tops) - 1) < len(self.steps):
            if done == anchor:
                self._switch(done)
                anchor += self._stretch(done)
            if isinstance(self.state, Tail):
                self.state.advance(self.steps[done])
                self.tops.append(self.state.top)
            else:
                self.tops += self.state.advance(self.steps[done : min(anchor, self._next_gap(done))])
            done = len(self.tops) - 1
            if done in self.gap_layers:
                self.gaps[done] = self._gap()
            yield done

    def _switch(self, done: int) -> None:
        """Between the explicit pairs and their formula, as the next layer asks for."""
        step, state = self.steps[done], self.state
        if isinstance(state, Pairs):
            small = not len(state.close.index) and state.largest_open > 0.0
            if small and Tail.takes(step, state.largest_open):
                self.state = Tail(state)
        elif not Tail.takes(step, state.size):
            self.state = state.pairs()

    def _stretch(self, done: int) -> int:
        """How many layers to go before the next look at how large the pairs are."""
        if isinstance(self.state, Tail):
            return 1
        p, first, _ = self.steps[done].first
        if p == 0:
            return 1 if self.state.largest_open > 0.5 else _STRETCH
        ahead = self.steps[done : done + _STRETCH]
        same = next((i for i, s in enumerate(ahead) if s is not ahead[0]), len(ahead))
        # none of the pairs that matter may leave float64 on the way
        size = max(-math.log(max(self.state.largest_open, 1e-300)), 1.0) - math.log(first)
        room = _ROOM / size if p == 1 else math.log(max(_ROOM / size, 1.0)) / math.log(p)
        return max(1, min(same, int(room)))

    def _next_gap(self, done: int) -> int:
        following = bisect_right(self.wanted, done)
        return self.wanted[following] if following < len(self.wanted) else len(self.steps)

    def _gap(self) -> Measured:
        pairs = self.state
        if isinstance(pairs, Tail):
            found = pairs.gap()
            if found is not None:
                return Measured(*found, max(found[0].value - found[0].error, 0.0))
            pairs = pairs.pairs()
        top, count = pairs.largest_open, len(pairs.values)
        entries = math.sqrt(count) * pairs.error / top if top else math.inf
        gap, lower = gap_of_pairs(pairs)
        return measured(gap, entries, lower)

    @property
    def gram(self) -> Floats:
        state = self.state.pairs() if isinstance(self.state, Tail) else self.state
        return state.matrix()


class Measured(NamedTuple):
    """A gap, the error of its logarithm, and what it is at least."""

    gap: Gap
    log_error: float
    lower: float


def measured(gap: Gap, entries: float, lower: float | None) -> Measured:
    """entries: relative error of |E|_F, which decides where gaps underflow; lower: of a gap that is not resolved."""
    if gap.error == 0.0 or math.isinf(gap.value):
        return Measured(gap, 0.0 if gap.error == 0.0 else math.inf, gap.value if lower is None else lower)
    if gap.status == "underflow":
        return Measured(gap, math.inf, 0.0)
    relative = gap.error / gap.value if gap.value > _SMALLEST else 16.0 * EPS + entries * (2.0 + entries)
    return Measured(gap, log1p_error(relative), max(gap.value - gap.error, 0.0))


def gap_of_pairs(pairs: Pairs) -> tuple[Gap, float | None]:
    """The gap of a later layer, whose entries are off by what the pairs know, and its least if it is unresolved."""
    if pairs.parallel:
        return SINGULAR, None
    if not len(pairs.close.index) and pairs.largest_open == 0.0:
        return (ZERO if pairs.error == 0.0 else Gap(0.0, math.ulp(0.0), -math.inf, "underflow")), None
    if not len(pairs.close.index):
        C = pairs.matrix()
        gap = gap_of(C, entry_error=pairs.error)
        if not is_poor(gap):
            return gap, None
        near = pairs.complements()
    else:
        near = pairs.complements()
        everywhere = len(pairs.close.index) == len(pairs.values)
        # three large matrices are all that may be held: what the pairs hold is in two of them
        index, pairs.close.delta = None if everywhere else pairs.close.index, np.empty(0)
        if everywhere:
            pairs.close.index = np.zeros(0, dtype=np.intp)
        C = pairs.matrix()
        pairs.values = np.empty(0)
        # distances are rounded where they become entries of a matrix
        gap = gap_of(C, entry_error=pairs.error + EPS / 2)
    error = pairs.complement_error
    gap = min(gap, gap_of_clusters(C, near, entry_error=error), key=lambda each: each.error)
    lower = least_gap(C, near, entry_error=error) if gap.status == "unresolved" else None
    if len(pairs.values) < len(C) * (len(C) - 1) // 2:
        delta = packed(near)
        del near
        if index is None:
            pairs.close.index, pairs.close.delta = np.arange(len(delta)), delta
        else:
            pairs.close.delta = delta[index]
        pairs.values = packed(C)
    return gap, lower
