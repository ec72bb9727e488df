"""Isometry strength beta and linearity r = 2 - beta of layers with error bars, and their products over depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bounds._bracket import EPS, Bracket
from bounds._polynomial import rational_weights
from hermite._activation import Activation
from hermite._build import reduced_dual
from hermite._moments import Moments
from hermite._numeric import varying
from hermite._tree import Node
from meanfield._layer import Layer

__all__ = ["Strength", "degree", "strength", "summed"]


@dataclass(frozen=True)
class Strength:
    """excess = beta - 1 and its absolute error; r and bounds on it, 0 <= low <= r <= high <= 1."""

    excess: float
    error: float
    r: float
    low: float
    high: float

    @property
    def log_beta(self) -> tuple[float, float]:
        """log beta and its error."""
        return math.log1p(self.excess), self.error / (1.0 + self.excess)

    @property
    def log_r(self) -> tuple[float, float]:
        """log r and its error, infinite where r may be 0; next to 1 with the digits of beta - 1."""
        if self.excess < 0.5:
            ends = [math.log1p(-e) for e in (self.excess, self.excess + self.error, max(self.excess - self.error, 0.0))]
        elif self.low <= 0.0:
            return (math.log(self.r) if self.r else -math.inf), math.inf
        else:
            ends = [math.log(r) for r in (self.r, self.low, self.high)]
        return ends[0], max(ends[0] - ends[1], ends[2] - ends[0]) + 4 * EPS * (1.0 + abs(ends[0]))


def strength(layer: Layer) -> Strength:
    """beta - 1 without the digits that 1 would cost, and r without those that beta would."""
    rest = 1.0 - layer.keep  # a skip leaves so much of the layer
    weights = rational_weights(layer.sigma)
    if degree(layer) == 1:
        return Strength(0.0, 0.0, 1.0, 1.0, 1.0)
    if weights is not None:
        excess, r = float(1 - weights[1]), float(weights[1])
        bare = Strength(excess, EPS * excess if weights[1] else 0.0, r, r * (1 - EPS), r * (1 + EPS))
    else:
        bare = _measured(layer.sigma)
    if not layer.keep:
        return bare
    ends = [layer.keep + rest * each for each in (bare.r, bare.low * (1 - 4 * EPS), bare.high * (1 + 4 * EPS))]
    return Strength(rest * bare.excess, rest * (bare.error + EPS * bare.excess), *(min(each, 1.0) for each in ends))


def _measured(sigma: Activation) -> Strength:
    low = varying(sigma)
    found = Moments((low.c0, low.c1), low.second, low.variance, low.residual, low.error, "")
    excess, error = min(low.residual / low.variance, 1.0), float(found.strength_error)
    if reduced_dual(sigma).parity == 1:  # c_1 is 0, and not just small
        return Strength(excess, error, 0.0, 0.0, 0.0)
    # c_1 to e sqrt(E sigma^2), the variance to e E sigma^2
    first, off, spread = abs(low.c1), low.error * math.sqrt(low.second), low.error * low.second
    least, most = (max(first - off, 0.0), low.variance + spread), (first + off, low.variance - spread)
    r = [c * c / v if v > 0 else 1.0 for c, v in ((first, low.variance), least, most)]
    return Strength(excess, error, min(r[0], 1.0), r[1] * (1 - 8 * EPS), min(r[2] * (1 + 8 * EPS), 1.0))


def summed(parts: Sequence[tuple[float, float]]) -> Bracket:
    """The sums of the first 0, 1, 2, ... numbers, each given with its error."""
    sums = np.zeros((2, len(parts) + 1))
    for l, (value, error) in enumerate(parts):
        sums[0, l + 1] = sums[0, l] + value
        room = EPS * (abs(value) + abs(sums[0, l + 1])) if math.isfinite(value) else 0.0
        sums[1, l + 1] = sums[1, l] + error + room
    with np.errstate(invalid="ignore"):
        low, high = sums[0] - sums[1], sums[0] + sums[1]
    return Bracket(sums[0], np.where(np.isnan(low), -math.inf, low), np.where(np.isnan(high), math.inf, high))


def degree(layer: Layer) -> int:
    """The degree of sigma (not below its own) where it is written as a polynomial without bias, else 64."""
    found = _degree(layer.sigma.expr)
    return 64 if found is None or layer.bias_variance else found


def _degree(tree: Node) -> int | None:
    parts = [_degree(each) for each in tree.args]
    known = [part for part in parts if part is not None]
    if tree.op == "x":
        return 1
    if len(known) == len(parts) and not any(known):
        return 0 if tree.op != "opaque" else None
    if len(known) < len(parts) or tree.op not in ("add", "mul", "pow", "He"):
        return None
    if tree.op in ("pow", "He"):
        whole = tree.number.denominator == 1 and tree.number >= 0
        return int(tree.number) * known[0] if whole else None
    return sum(known) if tree.op == "mul" else max(known)
