"""The map of correlations near 1 and near -1, as changes that do not cancel.

By Price's theorem f' is the dual of sigma' (over the variance). With rho = 1 - s^2,

    1 - f(1 - s^2) = integral over [0, s] of 2 t f'(1 - t^2) dt,     f(-1 + s^2) - f(-1) = the same of f'(-1 + t^2),

and 2 t f'(+-(1 - t^2)) = A(t) + t B(t) with A, B smooth on [0, s]: jumps J of sigma at a add, beside the dual of the
smooth slope, 2 J phi(a) E sigma'(rho a + sqrt(1 - rho^2) Z) to f' and J_i J_j phi_2(a_i, a_j; rho), of which the terms
with a_i = +-a_j grow like 1/t and are A. A and B become Chebyshev series, integrated term by term: the change is
s a(s) + s^2 b(s), relative accuracy without a difference of nearly equal numbers.

Read by `_build`, which makes the evaluators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ._activation import Activation
from ._interpreter import evaluate_scaled
from ._numeric import Scaled, gauss_legendre, rule
from ._recurrence import Array
from ._rotation import conditional, cuts, pair
from ._slope import slope_of
from .errors import PrecisionError

REACH = 0.375  # |rho| >= 1 - REACH^2 = 0.86
_SIZES = (16, 32, 64)
ACCURACY = 8e-16
OF_CALLABLES = 2e-14  # the slopes of a callable are differences
_NARROWEST = 1e-4
_MOST = 500
Source: TypeAlias = Callable[[float], tuple[float, float]]  # s -> (A(s), B(s))


def chebyshev(values: Array) -> Array:
    """Coefficients on [0, 1] of the interpolant through values (n + 1, ...) at (1 - cos(pi j/n))/2.

    Summed in extended precision: its rounding would be that of every value of the series.
    """
    n = len(values) - 1
    j = np.arange(n + 1)
    halved = values[::-1].astype(np.longdouble)
    halved[[0, -1]] *= 0.5
    pi = 4 * np.arctan(np.longdouble(1))  # np.pi would cost what extended precision is for
    table = np.cos(pi * (np.outer(j, j) % (2 * n)).astype(np.longdouble) / n)
    c = (2.0 / n) * (table @ halved)
    c[[0, -1]] *= 0.5
    return np.asarray(c, dtype=np.float64)


def clenshaw(c: Array, x: Array) -> Array:
    """Chebyshev series on [0, 1], coefficients (n,), at any shape."""
    if len(c) == 1:
        return np.full_like(x, c[0])
    y = 4 * x - 2  # twice the variable of [-1, 1]
    b1, b2 = np.zeros_like(x), np.zeros_like(x)
    for a in c[:0:-1]:
        b2 *= -1
        b2 += y * b1
        b2 += a
        b1, b2 = b2, b1
    return np.asarray(0.5 * y * b1 - b2 + c[0])


@dataclass(frozen=True, eq=False)
class Stretch:
    """A and B/s^order, and a and b/s^order of the change, as Chebyshev series in s on [lower, upper]."""

    lower: float
    upper: float
    rates: tuple[Array, Array]
    changes: tuple[Array, Array]

    def at(self, series: tuple[Array, Array], s: Array) -> tuple[Array, Array]:
        x = (s - self.lower) / (self.upper - self.lower)
        return clenshaw(series[0], x), clenshaw(series[1], x)


@dataclass(frozen=True, eq=False)
class End:
    """The change of f from rho = +-1 to +-(1 - s^2), 0 <= s <= REACH, and its slope.

    order: the power of s that B contains where f' vanishes at the end; start: A(0) and B(0).
    """

    stretches: tuple[Stretch, ...]
    order: int
    start: tuple[float, float]
    sign: float = 1.0

    @property
    def scale(self) -> float:
        """The size of A and B."""
        return max(float(np.abs(c).max()) for part in self.stretches for c in part.rates)

    def change(self, s: Array) -> Array:
        """s a(s) + s^2 b(s): 1 - f(1 - s^2) at the upper end, f(-1 + s^2) - f(-1) at the lower."""

        def change(part: Stretch, t: Array) -> Array:
            a, b = part.at(part.changes, t)
            return t * (a + t ** (self.order + 1) * b)

        return self._over(s, change)

    def slope(self, s: Array) -> Array:
        """f'(+-(1 - s^2)) = (A + s B)/(2 s), infinite at s = 0 where A does not vanish."""

        def slope(part: Stretch, t: Array) -> Array:
            a, b = part.at(part.rates, t)
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(0.5 * (np.where(a == 0, 0.0, a / t) + t**self.order * b))

        first = self.sign * (math.copysign(math.inf, self.start[0]) if self.start[0] else 0.5 * self.start[1])
        return np.where(s == 0, first, self._over(s, slope))

    def _over(self, s: Array, f: Callable[[Stretch, Array], Array]) -> Array:
        if len(self.stretches) == 1:
            return self.sign * f(self.stretches[0], s)
        out = np.empty_like(s)
        for part in self.stretches:
            inside = (s >= part.lower) & (s <= part.upper)
            if np.any(inside):
                out[inside] = self.sign * f(part, s[inside])
        return out


def end_from(
    source: Source, name: str, scale: float = 1.0, *, vanishing: bool = False, accuracy: float = ACCURACY
) -> End:
    """The End whose A and B are given: one series if it converges, else more of them, shorter towards s = 0.

    Errors are relative to A and B, or to the scale where that is larger: f is convex on [0, 1], so the change next to 1
    is at least s^2, and next to -1 f' is what cancellation has left.
    vanishing: f' may be 0 at the end, without cancellation, so that the source knows how it grows from there.
    """
    start = source(0.0)
    order = _order(source) if vanishing and start == (0.0, 0.0) else 0
    whole = source if order == 0 else _divided(source, order)
    return End(_integrated(_found(whole, name, scale, accuracy), order), order, start)


def _order(source: Source) -> int:
    """The power with which B vanishes at 0; 0 where it is below every power or has an A beside it."""
    near, far = source(1e-4), source(1e-3)
    if near[0] or not near[1] or near[1] * far[1] <= 0:
        return 0
    return max(round(math.log10(far[1] / near[1])), 0)


def _divided(source: Source, order: int) -> Source:
    near, far = (source(s)[1] / s**order for s in (1e-9, 2e-9))
    first = 2 * near - far  # to s = 0 along the line through both: off by 1e-18

    def divided(s: float) -> tuple[float, float]:
        return 0.0, source(s)[1] / s**order if s > 0 else first

    return divided


def _found(source: Source, name: str, scale: float, accuracy: float) -> list[tuple[float, float, Array]]:
    found: list[tuple[float, float, Array]] = []
    counted = _Counted(source, name)
    upper = REACH
    while upper > 0:
        lower = 0.0
        c = _resolved(counted, lower, upper, scale, accuracy)
        while c is None:
            lower = upper / 4 if lower == 0 else 0.5 * (lower + upper)
            if upper - lower < _NARROWEST * REACH:
                raise PrecisionError(f"the dual of {name} is not resolved near |rho| = {1 - upper * upper:.6g}")
            c = _resolved(counted, lower, upper, scale, accuracy)
        found.append((lower, upper, c))
        upper = lower
    return found[::-1]


@dataclass
class _Counted:
    """A source that refuses after so many values: what needs more would need minutes."""

    source: Source
    name: str
    left: int = _MOST

    def __call__(self, s: float) -> tuple[float, float]:
        self.left -= 1
        if self.left < 0:
            raise PrecisionError(
                f"the dual of {self.name} near |rho| = 1 is not resolved by {_MOST} values; sigma is too steep, or has "
                "kinks too close to each other"
            )
        return self.source(s)


def _resolved(source: Source, lower: float, upper: float, scale: float, accuracy: float) -> Array | None:
    """Coefficients (n, 2) of A and B on [lower, upper], or None where no size suffices."""
    known: dict[float, tuple[float, float]] = {}
    for n in _SIZES:
        x = 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
        for t in x.tolist():
            if t not in known:
                known[t] = source(lower + (upper - lower) * t)
        values = np.array([known[t] for t in x.tolist()])
        c = chebyshev(values)
        size = np.maximum(np.abs(values).max(axis=0), max(scale, 1e-300))
        if np.all(np.abs(c[-3:]) <= accuracy * size):
            return c
    return None


def _integrated(found: list[tuple[float, float, Array]], order: int) -> tuple[Stretch, ...]:
    """a and b from A and B: with C(s) = s a(s) + s^2 b(s) the integral, a(s) is the mean of A over [0, s]."""
    stretches: list[Stretch] = []
    total = np.zeros(2)  # integrals of A and t B up to the lower end
    nodes, weights = gauss_legendre(40)
    for lower, upper, c in found:
        rates = (_trimmed(c[:, 0]), _trimmed(c[:, 1]))
        n = max(len(rates[0]), len(rates[1]), 2) + 2
        s = lower + (upper - lower) * 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
        # the lower end of the first stretch is s = 0, where means become values
        half = 0.5 * (s - lower)[:, None]
        t = lower + half * (1 + nodes)
        x = (t - lower) / (upper - lower)
        first = np.sum(half * weights * clenshaw(rates[0], x), axis=1) + total[0]
        second = np.sum(half * weights * t ** (order + 1) * clenshaw(rates[1], x), axis=1) + total[1]
        total = np.array([first[-1], second[-1]])
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = first / s, second / s ** (order + 2)
        if lower == 0:
            a[0], b[0] = clenshaw(rates[0], np.zeros(1))[0], clenshaw(rates[1], np.zeros(1))[0] / (order + 2)
        stretches.append(Stretch(lower, upper, rates, (_trimmed(chebyshev(a)), _trimmed(chebyshev(b)))))
    return tuple(stretches)


def _trimmed(c: Array) -> Array:
    """Without the last terms, as long as they add up to nothing beside the rest."""
    size = float(np.abs(c).max())
    if size == 0:
        return np.zeros(1)
    rest = np.cumsum(np.abs(c[::-1]))[::-1]
    return c[: max(1, int(np.sum(rest > 5e-17 * size)))]


def series_source(weights: Array, *, lower: bool) -> Source:
    """A = 0 and B = 2 f'(+-(1 - s^2)) from a convergent series f = sum of w_k rho^k."""
    k = np.flatnonzero(weights)
    factor = 2.0 * k * weights[k] * (np.where(k % 2 == 0, -1.0, 1.0) if lower else 1.0)

    def source(s: float) -> tuple[float, float]:
        return 0.0, math.fsum(factor * np.exp((k - 1) * math.log1p(-s * s)))

    return source


def oracle_source(sigma: Activation, low: Scaled, *, lower: bool) -> Source:
    """A and B by double integrals of sigma' and, for each jump, integrals on a line."""
    slope, jumps = slope_of(sigma, low.log_scale), jumps_of(sigma, low)
    constant = not np.any(slope(rule(sigma, 2).x))  # between the jumps: no integrals are needed

    def source(s: float) -> tuple[float, float]:
        smooth = 0.0 if constant else pair(sigma, slope, s, mirrored=lower)
        singular = 0.0
        rho, root = (-1 if lower else 1) * (1 - s * s), math.sqrt(2 - s * s)  # sqrt(1 - rho^2) = s root
        for i, (a, J) in enumerate(jumps):
            density = math.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)
            smooth += 0.0 if constant else 2 * J * density * conditional(sigma, slope, rho * a, s * root)
            for j, (b, K) in enumerate(jumps):
                same = a == -b if lower else i == j
                # a^2 - 2 rho a b + b^2 = (a -+ b)^2 +- 2 a b s^2, so that nothing cancels
                between = (a + b) if lower else (a - b)
                if same:
                    singular += J * K * math.exp(-a * a / (2 - s * s)) / (math.pi * root)
                elif s > 0:
                    product = (-a if lower else a) * b
                    exponent = between * between / (2 * s * s * root * root) + product / (root * root)
                    smooth += J * K * math.exp(-exponent) / (2 * math.pi * s * root)
        return singular / low.variance, 2 * smooth / low.variance

    return source


def jumps_of(sigma: Activation, low: Scaled) -> list[tuple[float, float]]:
    """(place, height) of the jumps of sigma, heights in units of exp(M)."""
    found, slope = [], slope_of(sigma, low.log_scale)
    for a in cuts(sigma):
        # rounding of the place may have moved it to either side: step over it
        step = 8 * np.spacing(abs(a))
        x = np.array([a - step, a + step])
        m, e = evaluate_scaled(sigma.expr, x)
        left, right = m * np.exp(e - low.log_scale)
        crossed = 8 * step * float(np.abs(slope(x)).max())  # what a continuous sigma may do on the way
        if abs(right - left) > 1e-13 * (abs(left) + abs(right)) + crossed:
            found.append((float(a), float(right - left)))
    return found
