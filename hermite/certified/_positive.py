"""Proof of one-variable inequalities f >= 0 by adaptive subdivision in interval arithmetic."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from .._numbers import as_fraction
from ._digits import check_digits
from ._enclosure import Enclosure, least_bits

_SHOWN = 8


@dataclass(frozen=True)
class Positivity:
    """What is_positive found: a verdict with its evidence.

    verdict: "proven" (f >= 0 on every box, or > 0 if strict), "refuted" (f at `point` is proven to violate it) or
    "undecided"; point, value: where it fails and the enclosure of f there, else None; boxes: how many were evaluated;
    undecided: intervals on which nothing was shown, at most 8, the one with the lowest bound first; reason: the last
    error that f raised on a box, which counts as undecided there.
    """

    verdict: Literal["proven", "refuted", "undecided"]
    point: Fraction | None
    value: Enclosure | None
    boxes: int
    undecided: tuple[tuple[Fraction, Fraction], ...]
    reason: str

    def __bool__(self) -> bool:
        raise TypeError(f"a positivity verdict has three values: ask .verdict (here {self.verdict!r})")


def is_positive(
    function: Callable[[Enclosure], Any],
    interval: Sequence[Any],
    *,
    strict: bool = False,
    max_subdivisions: int = 10_000,
    digits: int = 30,
) -> Positivity:
    """Whether f(x) >= 0 (with strict: f(x) > 0) for every x of a closed interval, proven by subdivision.

    function: takes an Enclosure and returns one that holds f of every point inside (its arithmetic, `exp`, `sqrt`, ...
    do; a plain number counts as exact); interval: two exact numbers (low, high); max_subdivisions: how often a box is
    halved at most; digits: with which enclosures compute. "refuted" names a point where f is proven to be < 0 (with
    strict: <= 0). A zero of f inside that is none of the ends of a box stays "undecided", as does every box on which
    the function raises ArithmeticError or ValueError (a division by an enclosure that holds 0): factor it out.

    Raises ValueError for an interval that is empty, not finite or no pair.

    >>> is_positive(lambda r: 1 - r**2 - (1 - r) ** 2, (0, 1)).verdict  # 2 r (1 - r), 0 at both ends
    'undecided'
    >>> is_positive(lambda r: 2 * r * (1 - r), (0, 1)).verdict
    'proven'
    >>> found = is_positive(lambda r: (r - "1/3") ** 2 - "1e-6", (0, 1))
    >>> found.verdict, float(found.value) < 0
    ('refuted', True)
    """
    low, high = _ends(interval)
    if not callable(function):
        raise ValueError(f"function must be callable, got {function!r}")
    if not isinstance(max_subdivisions, int) or isinstance(max_subdivisions, bool) or max_subdivisions < 0:
        raise ValueError(f"max_subdivisions must be a non-negative integer, got {max_subdivisions!r}")
    token = least_bits.set(math.ceil(check_digits(digits) * math.log2(10)) + 28)
    try:
        return _Search(function, strict).run(low, high, max_subdivisions)
    finally:
        least_bits.reset(token)


def _ends(interval: Sequence[Any]) -> tuple[Fraction, Fraction]:
    try:
        a, b = interval
    except (TypeError, ValueError):
        raise ValueError(f"interval must be a pair (low, high), got {interval!r}") from None
    low, high = as_fraction(a, "interval"), as_fraction(b, "interval")
    if low > high:
        raise ValueError(f"interval must have low <= high, got {interval!r}")
    return low, high


class _Search:
    def __init__(self, function: Callable[[Enclosure], Any], strict: bool) -> None:
        self._function, self._strict = function, strict
        self._reason, self._boxes = "", 0

    def run(self, low: Fraction, high: Fraction, most: int) -> Positivity:
        # the box with the lowest bound first: a refutation is found early, a proof needs all of them anyway
        heap: list[tuple[float, int, Fraction, Fraction]] = []
        for point in (low, high):
            refuted = self._at(point)
            if refuted is not None:
                return self._answer("refuted", point, refuted)
        self._push(heap, low, high)
        for _ in range(most):
            if not heap:
                break
            _, _, a, b = heapq.heappop(heap)
            middle = (a + b) / 2
            refuted = self._at(middle)
            if refuted is not None:
                return self._answer("refuted", middle, refuted)
            if a == b:
                heapq.heappush(heap, (-math.inf, self._boxes, a, b))
                break
            self._push(heap, a, middle)
            self._push(heap, middle, b)
        left = tuple((a, b) for _, _, a, b in sorted(heap)[:_SHOWN])
        return self._answer("undecided" if heap else "proven", None, None, left)

    def _push(self, heap: list[tuple[float, int, Fraction, Fraction]], a: Fraction, b: Fraction) -> None:
        value = self._value(Enclosure.between(a, b))
        bound = -math.inf if value is None else float(value.lower)
        if value is None or not (value.lower > 0 or (value.lower == 0 and not self._strict)):
            heapq.heappush(heap, (bound, self._boxes, a, b))

    def _at(self, point: Fraction) -> Enclosure | None:
        """The value at a point if it refutes the claim."""
        value = self._value(Enclosure.of(point))
        if value is not None and (value.upper < 0 or (self._strict and value.upper == 0)):
            return value
        return None

    def _value(self, x: Enclosure) -> Enclosure | None:
        self._boxes += 1
        try:
            value = self._function(x)
        except (ArithmeticError, ValueError) as error:
            self._reason = str(error)
            return None
        return Enclosure.of(value)

    def _answer(
        self,
        verdict: Literal["proven", "refuted", "undecided"],
        point: Fraction | None,
        value: Enclosure | None,
        left: tuple[tuple[Fraction, Fraction], ...] = (),
    ) -> Positivity:
        return Positivity(verdict, point, value, self._boxes, left, self._reason)
