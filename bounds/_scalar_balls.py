"""Both sides of the contraction of one correlation as balls: what exact=True compares."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._ball_maps import BallMap
from bounds._balls import Balls, ball_log
from hermite.certified._flint import Ball, arb, exact, precision
from meanfield._layer import Layer

__all__ = ["odds_in_balls"]

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
