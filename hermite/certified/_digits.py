"""Digits on demand: the same computation with more bits until every radius is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._polynomials import check_degree
from ..errors import PrecisionError
from ._flint import Ball, exact, precision

MAX_DIGITS = 1000
GUARD_DIGITS = 4  # a number is known relative to itself down to 10^-4 of its scale, absolutely below
_TRIES = 12


@dataclass(frozen=True)
class Goal:
    """A ball whose radius must be at most 10^-digits max(|ball|, floor)."""

    ball: Ball
    floor: Ball

    def missing(self, digits: int) -> float:
        """Bits that the radius is too large by; inf if nothing is known yet."""
        if not self.ball.is_finite():
            return math.inf
        size = abs(self.ball).lower().max(self.floor.lower())
        if not size > 0:
            return -math.inf if self.ball.is_zero() else math.inf
        excess = self.ball.rad() / size * exact(10**digits)
        return float(excess.log().upper()) / math.log(2) if excess > 0 else -math.inf


def check_digits(digits: Any) -> int:
    try:
        d = check_degree(digits, "digits")
    except ValueError:
        d = 0
    if not 1 <= d <= MAX_DIGITS:
        raise ValueError(f"digits must be an integer from 1 to {MAX_DIGITS}, got {digits!r}")
    return d


def to_digits(name: str, digits: int, compute: Callable[[int], tuple[Any, list[Goal]]]) -> Any:
    """Repeat a computation with more bits until its goals are met; it is called inside a precision scope's needs."""
    first = math.ceil((digits + GUARD_DIGITS) * math.log2(10)) + 8
    bits, cap = first, 16 * first + 500
    missing = math.inf
    for _ in range(_TRIES):
        answer, goals = compute(bits)
        with precision(64):
            missing = max(g.missing(digits) for g in goals)
        if missing <= 0:
            return answer
        bits += math.ceil(missing) + 4 if missing <= 2 * bits else bits
        if bits > cap:
            break
    raise PrecisionError(
        f"{name}: {digits} digits are not reached with {cap} bits; what is asked for may be exactly 0 (a constant), or "
        "cancel almost entirely: rescale or centre the activation, or ask for fewer digits"
    )


def tiny(scale: Ball) -> Ball:
    """10^-4 of a scale: below it a number counts as tiny."""
    return scale / 10**GUARD_DIGITS
