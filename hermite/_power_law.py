"""The dual of sigma = A x_+^a + B x_-^a, a > -1/2 and no integer, as sqrt|x|: singular at 0, so no series in s serves.

With P, Q = (A +- B)/2, sigma = P |x|^a + Q sign(x) |x|^a, and by the Hermite expansion of either part

    variance f(rho) = P^2 m_a^2 (F(rho^2) - 1) + Q^2 m_(a+1)^2 rho H(rho^2),      m_q = E|X|^q,
    F(z) = 2F1(-a/2, -a/2; 1/2; z),      H(z) = 2F1((1-a)/2, (1-a)/2; 3/2; z),

so the weights have closed ratios. Next to |rho| = 1 - s^2 = 1 the change of f is s^2 r + s^(2a+1) r', with log s where
the two powers meet: it is taken from mpmath to all digits and interpolated in log s, on intervals that lengthen
towards s = 0, beyond which its first two terms are left. Read by `_build`.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from ._activation import Activation
from ._ends import REACH, chebyshev, clenshaw
from ._interpreter import evaluate
from ._recurrence import Array

_SIZE = 24
_LENGTHS = (1.5, 1.5, 2.0, 4.0, 8.0, 12.0)  # in log s, from REACH down to about 1e-13


@dataclass(frozen=True)
class PowerLaw:
    """sigma = P |x|^a + Q sign(x) |x|^a."""

    a: Fraction
    P: float
    Q: float

    @property
    def variance(self) -> float:
        m, second = _moment(self.a), _moment(2 * self.a)
        return self.P**2 * (second - m * m) + self.Q**2 * second

    def weights(self, degree: int) -> Array:
        """w_0 = 0, ..., w_degree by their ratios."""
        a, w = float(self.a), np.zeros(degree + 1)
        j = np.arange(degree // 2 + 1.0)
        even = np.cumprod(np.append(1.0, (j - a / 2) ** 2 / ((j + 0.5) * (j + 1))))
        odd = np.cumprod(np.append(1.0, (j + (1 - a) / 2) ** 2 / ((j + 1.5) * (j + 1))))
        w[0::2] = (self.P * _moment(self.a)) ** 2 * even[: len(w[0::2])]
        w[1::2] = (self.Q * _moment(self.a + 1)) ** 2 * odd[: len(w[1::2])]
        w[0] = 0.0
        return w / self.variance

    @property
    def at_minus_one(self) -> float:
        """f(-1)."""
        m, second = _moment(self.a), _moment(2 * self.a)
        return (self.P**2 * (second - m * m) - self.Q**2 * second) / self.variance

    def ends(self) -> tuple[PowerEnd, PowerEnd]:
        """Next to 1 and to -1."""
        near = float(2 * self.a + 1)
        # next to -1 the term in s^2 is E sigma'(X) sigma'(-X), which is 0 for a sigma that is 0 on one side
        one_sided = abs(self.P) == abs(self.Q)
        powers = (min(near, 2.0), near if one_sided else min(near, 2.0))
        edges = math.log(REACH) - np.concatenate([[0.0], np.cumsum(_LENGTHS)])[::-1]
        x = 0.5 * (1 - np.cos(np.pi * np.arange(_SIZE + 1) / _SIZE))
        upper, lower = [], []
        for low, high in pairwise(edges.tolist()):
            values = [_robust(self, float(t), powers) for t in np.exp(low + (high - low) * x)]
            upper.append(chebyshev(np.array([v[0] for v in values])))
            lower.append(chebyshev(np.array([v[1] for v in values])))
        distance, rest = abs(near - 2.0), float(2 * self.a + 1 - Fraction(near))
        return (
            PowerEnd(powers[0], rest if powers[0] == near else 0.0, distance, edges, np.array(upper)),
            PowerEnd(
                powers[1], rest if powers[1] == near else 0.0, 2.0 if one_sided else distance, edges, np.array(lower)
            ),
        )


@dataclass(frozen=True, eq=False)
class PowerEnd:
    """The change of f from +-1 to +-(1 - s^2) over s^power, its slope over s^(power - 2), as series in log s.

    power_rest: what the exact exponent has beyond power.
    """

    power: float
    power_rest: float
    distance: float
    edges: Array
    pieces: Array
    sign: float = 1.0

    @property
    def scale(self) -> float:
        return 1.0

    def change(self, s: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            # the rounding of the exponent counts |log s| times
            size = np.where(s > 0, s**self.power * (1 + self.power_rest * np.log(s)), 0.0)
        return np.asarray(self.sign * size * self._ratio(s, 0))

    def slope(self, s: Array) -> Array:
        """Infinite at s = 0 where sigma' is not square-integrable."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.sign * s ** (self.power - 2) * self._ratio(s, 1)
        first = self.sign * float(self._ratio(np.zeros(1), 1)[0])
        if self.power != 2.0 or self.distance == 0.0:
            first = 0.0 if self.power > 2.0 else math.copysign(math.inf, first)
        return np.where(s == 0, first, value)

    def _ratio(self, s: Array, which: int) -> Array:
        """By the series, and below them by the line through their last two values in log s, or in s^distance."""
        w = np.log(np.maximum(s, 1e-300))
        out = np.empty_like(w)
        low, high = self.edges[0], self.edges[0] + 1.0
        place = np.clip(np.searchsorted(self.edges, w, side="right") - 1, 0, len(self.pieces) - 1)
        for i in np.unique(place):
            chosen = place == i
            x = (w[chosen] - self.edges[i]) / (self.edges[i + 1] - self.edges[i])
            out[chosen] = clenshaw(self.pieces[i][:, which], np.clip(x, 0.0, 1.0))
        below = w < low
        if np.any(below):
            first = self.pieces[0][:, which]
            ends = clenshaw(first, np.array([0.0, (high - low) / (self.edges[1] - low)]))
            at = np.concatenate([[low, high], w[below]])
            at = at if self.distance == 0 else np.exp(self.distance * at)
            out[below] = ends[0] + (ends[1] - ends[0]) / (at[1] - at[0]) * (at[2:] - at[0])
        return out


def power_law(sigma: Activation) -> PowerLaw | None:
    """sigma as a power law without an integer exponent, if it is one."""
    if sigma.is_opaque or sigma.breakpoints != (0.0,):
        return None
    x = np.exp2(np.arange(-8.0, 9.0))
    for sides in (evaluate(sigma.expr, x), evaluate(sigma.expr, -x)):
        ratios = sides[1:] / sides[:-1] if np.all(sides != 0) else np.ones(1)
        if np.ptp(ratios) > 8e-16 * abs(ratios[0]) or not np.all(np.isfinite(sides)):
            return None
    right, left = evaluate(sigma.expr, np.array([1.0, -1.0]))
    if right == left == 0:
        return None
    big = evaluate(sigma.expr, np.array([2.0**32 if right else -(2.0**32)]))[0]
    a = Fraction(math.log2(abs(big / (right or left))) / 32).limit_denominator(1000)
    x = np.array([0.3, 7.0])
    for side, value in ((x, right), (-x, left)):
        if not np.allclose(evaluate(sigma.expr, side), value * x ** float(a), rtol=1e-14, atol=0):
            return None
    return None if a.denominator == 1 or a <= Fraction(-1, 2) else PowerLaw(a, (right + left) / 2, (right - left) / 2)


@lru_cache(maxsize=1)
def _context() -> Any:
    """A private mpmath: the precision of the global one belongs to the user, and to other threads."""
    from mpmath.ctx_mp import MPContext

    return MPContext()


def _moment(q: Fraction) -> float:
    """E|X|^q."""
    mp = _context()
    mp.dps = 30
    return float(_exact_moment(mp.mpf(q.numerator) / q.denominator))


def _exact_moment(q: Any) -> Any:
    mp = _context()
    return 2 ** (q / 2) * mp.gamma((q + 1) / 2) / mp.sqrt(mp.pi)


def _robust(law: PowerLaw, s: float, powers: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """`_changes`; mpmath perturbs hyp2f1 where its parameters differ by integers, and may land on a pole."""
    for extra in (0, 11, 23):
        with contextlib.suppress(ValueError):
            return _changes(law, s, powers, extra)
    return _changes(law, s, powers, 41)


def _changes(
    law: PowerLaw, s: float, powers: tuple[float, float], extra: int = 0
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Change/s^power and slope/s^(power - 2) next to 1 and to -1, to all digits."""
    mp = _context()
    mp.dps = 40 + round(14 * max(powers)) + extra  # next to -1 two changes of size s^2 differ by s^power
    a, h = mp.mpf(law.a.numerator) / law.a.denominator, mp.mpf(1) / 2
    P, Q = mp.mpf(law.P), mp.mpf(law.Q)
    first, second = _exact_moment(a), _exact_moment(2 * a)
    variance = P**2 * (second - first**2) + Q**2 * second
    t = mp.mpf(s)
    rho = 1 - t * t
    even = odd = slope_even = slope_odd = mp.mpf(0)
    if P:
        e, size = -a / 2, P**2 * first**2 / variance
        even = size * (mp.hyp2f1(e, e, h, 1) - mp.hyp2f1(e, e, h, rho**2))
        slope_even = size * 2 * rho * e * e / h * mp.hyp2f1(e + 1, e + 1, 3 * h, rho**2)
    if Q:
        o, size = (1 - a) / 2, Q**2 * _exact_moment(a + 1) ** 2 / variance
        value = mp.hyp2f1(o, o, 3 * h, rho**2)
        odd = size * (mp.hyp2f1(o, o, 3 * h, 1) - rho * value)
        slope_odd = size * (value + 2 * rho**2 * o * o / (3 * h) * mp.hyp2f1(o + 1, o + 1, 5 * h, rho**2))
    (up, down) = (t ** (2 * a + 1 if p == float(2 * law.a + 1) else mp.mpf(p)) for p in powers)
    return (
        (float((odd + even) / up), float((slope_odd + slope_even) * t * t / up)),
        (float((odd - even) / down), float((slope_odd - slope_even) * t * t / down)),
    )
