"""Both sides of claims about one map of correlations as balls: what exact=True compares."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._ball_maps import BallMap
from bounds._balls import Balls, as_fraction, ball_log
from bounds._polynomial import rational_weights
from hermite import certified
from hermite.certified._flint import Ball, arb, exact, precision
from meanfield._layer import Layer

__all__ = ["odds_in_balls", "series_in_balls", "tradeoff_in_balls"]

Floats: TypeAlias = NDArray[np.float64]

_BITS = 256


def odds_in_balls(layer: Layer, points: Floats) -> tuple[Balls, Balls, Balls]:
    """log odds of |f(rho)|, and of |rho| less log beta, and plus log h(|rho|)."""
    with precision(_BITS):
        mapping = BallMap(layer, _BITS)
        r = mapping.r

        def log_odds(x: Ball) -> Ball:
            return ball_log(x) - (-x).log1p() if x < 1 else arb.pos_inf()

        values, starts, factors = [], [], []
        for point in points.tolist():
            rho = exact(Fraction(point))
            x = abs(rho)
            values.append(log_odds(abs(mapping(rho))))
            starts.append(log_odds(x))
            factors.append(((r + (1 - r) * x) / (1 + (1 - r) * x)).log())
        lhs, start = Balls(tuple(values)), Balls(tuple(starts))
        return lhs, start - Balls(((2 - r).log(),)), start + Balls(tuple(factors))


def series_in_balls(layer: Layer, point: float, top: int, digits: int, equal: tuple[bool, bool]) -> Any:
    """Both sides, slack and error of the three sides of `dual_series`; equal: which of the first two are equations."""
    bits = math.ceil(3.33 * digits) + 64
    with precision(bits):
        mapping, rho = BallMap(layer, bits), exact(Fraction(point))
        x, weights = abs(rho), _first_weights(layer, top, digits)
        value, above = mapping(rho), mapping(x)
        sums, power = arb(0), arb(1)
        for w in weights:
            power = power * rho
            sums = sums + w * power
        tail = abs(power * x) * (1 - sum(weights, start=arb(0)))
        pairs = [(abs(value - sums), tail, equal[0]), (abs(value), above, equal[1]), (above, arb(1), False)]
        found = [_compared(*pair) for pair in pairs]
    return tuple(zip(*found, strict=True))


def tradeoff_in_balls(layer: Layer, top: int, digits: int) -> tuple[Fraction, Fraction]:
    """A lower bound of f'(1) - beta, and the error of that: K = top terms, and K - 1 times all the rest.

    f'(1) - beta = sum of (k - 2) w_k over k >= 3, and k - 2 >= K - 1 beyond K.
    """
    with precision(math.ceil(3.33 * digits) + 64):
        weights = _first_weights(layer, top, digits)
        rest = 1 - sum(weights, start=arb(0))
        slack = sum(((k - 2) * weights[k - 1] for k in range(3, top + 1)), start=arb(0)) + (top - 1) * rest
        return as_fraction(slack.mid()), as_fraction(slack.rad())


def _first_weights(layer: Layer, top: int, digits: int) -> list[Ball]:
    """w_1..w_top."""
    known = rational_weights(layer.sigma)
    if known is not None:
        return [exact(w) for w in (*known[1:], *[Fraction(0)] * top)[:top]]
    found = certified.moments(layer.sigma, top, digits=min(digits, 1000))
    whole = found.variance.ball()
    return [c.ball() * c.ball() / whole for c in found.coefficients[1:]]


def _compared(lhs: Ball, rhs: Ball, equal: bool) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    left, right = as_fraction(lhs.mid()), as_fraction(rhs.mid())
    if equal:
        return right, right, Fraction(0), Fraction(0)
    slack = rhs - lhs
    return left, right, as_fraction(slack.mid()), as_fraction(slack.rad())
