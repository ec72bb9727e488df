"""Fixed points of the map of correlations of a layer: all of them, with the digits of their distance from 1.

kappa(rho) = keep rho + (1 - keep)(offset + scale f(t)), t = (1 - share) + share rho, is a power series with
coefficients >= 0 and kappa(1) = 1, in which rho is a fixed point if and only if it is one of offset + scale f(t). So
its fixed points in [-1, 1] are

- 1; and -1 if and only if kappa is odd;
- none in (-1, 0): with E and O the even and odd part, kappa(-x) = -x says O(x) = x + E(x), and O(x) <= (1 - E(1)) x, so
  that E = 0 and O(x) = x;
- at most one in [0, 1), by convexity, unless kappa(rho) = rho: 0 where kappa(0) = 0, and else one if and only if
  kappa'(1) > 1.

With u = share (1 - rho), the chord of f from 1 - u to 1 has there the slope h(1 - u) = 1/(scale share) = 1 + nu
(`hermite._chord`): t solves h(t) - 1 = nu, or, next to 1, u solves f'(1) - h(1 - u) = f'(1) - 1 - nu. Both sides are
positive and have relative accuracy, and so have u, the distance from 1, and

    1 - kappa'(rho) = (1 - keep) scale share u h'(1 - u),

as 1 - f(t) = (1 - t) h(t) has the derivative f'(t) = h(t) - (1 - t) h'(t).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from hermite._activation import Activation
from hermite._algebra import as_polynomial
from hermite._chord import BORDER, Chords
from hermite._excess import at_deviation, excess, mean_ratio
from hermite._homogeneity import degree_of
from hermite.errors import PrecisionError

from ._layer import Layer
from ._step import Step

Stability: TypeAlias = Literal["attracting", "superattracting", "repelling", "marginal", "neutral"]
_NEAREST = 1e-300
_CANCELS = 0.1  # of f'(1) - 1 - nu: below it a difference of floats has lost a digit


@dataclass(frozen=True)
class FixedPoint:
    """A correlation that a layer keeps.

    rho, and complement = 1 - rho to relative accuracy: what is left where rho rounds to 1. slope: kappa'(rho), inf at
    +-1 for a sigma with jumps. rate: the factor by which distances to it shrink or grow in each layer, |slope|.
    correlation_length: the number of layers in which they shrink by e, -1/log(slope); 0 where they shrink faster than
    exponentially, inf where slower, nan where they grow. stability:

        attracting        slope < 1
        superattracting   slope 0: distances d become ~ d^order, order >= 2 (1 elsewhere)
        repelling         slope > 1
        marginal          slope 1 at rho = 1, which then attracts from below, algebraically:
                          1 - rho_l ~ decay_constant l^(-decay_power) (nan elsewhere, and for callables)
        neutral           one of many: the layer keeps every correlation
    """

    rho: float
    complement: float
    slope: float
    stability: Stability
    rate: float
    correlation_length: float
    order: int = 1
    decay_power: float = math.nan
    decay_constant: float = math.nan


def fixed_points(layer: Layer) -> tuple[FixedPoint, ...]:
    """All fixed points in [-1, 1] of the map of correlations of a layer, in increasing rho.

    They are 1, -1 if the map is odd, and at most one in [0, 1), which then attracts everything in (-1, 1); a layer that
    keeps every correlation is answered by -1, 0 and 1, "neutral". The complement of each has relative accuracy 1e-13,
    as the correlation length of those that attract, also next to 1 and where the layer is nearly critical: slopes at 1
    are decided by multiprecision, and one that is 1 to 1e-28 is "marginal". Of a callable float64 is all there is:
    marginal means 1e-13, and a nearly critical layer has fewer digits; so has one whose diagonal is solved for
    ("center", "none").

    Raises ValueError for a sequence of layers and where there is no map of correlations (`Layer.map`); the errors of
    the dual. Source: arXiv:2410.20107 for the number of fixed points; derived in `meanfield._fixed_points`.

    >>> [(round(p.rho, 12), round(p.slope, 12), p.stability) for p in fixed_points(Layer("gelu", normalization="rms"))]
    [(0.760401904896, 0.932728829116, 'attracting'), (1.0, 1.072031598436, 'repelling')]
    >>> below, one = fixed_points(Layer("relu6", normalization="rms"))   # rho is 1 in float64
    >>> float(f"{below.complement:.9g}"), below.stability, float(f"{one.slope - 1:.3g}")
    (3.90885258e-17, 'attracting', 1.88e-09)
    >>> one, = fixed_points(Layer("relu", normalization="rms"))          # 1 - rho_l ~ 9 pi^2/(2 l^2)
    >>> one.stability, one.decay_power, round(one.decay_constant, 9)
    ('marginal', 2.0, 44.413219805)
    """
    if not isinstance(layer, Layer):
        raise ValueError(f"layer must be one Layer, got {layer!r:.80}: a sequence of layers has no fixed points")
    return _Meeting(layer).points


@dataclass(frozen=True, eq=False)
class _Meeting:
    """Where the map of a layer meets the diagonal."""

    layer: Layer

    @cached_property
    def step(self) -> Step:
        return self.layer.step

    @cached_property
    def variance(self) -> Fraction:
        """The diagonal of the Gram matrix that the arguments come from."""
        return Fraction(1) if self.layer.forgets_norms else Fraction(self.layer.variance)

    @cached_property
    def ratio(self) -> Fraction:
        """1/share, exactly."""
        return 1 + Fraction(self.layer.bias_variance / (self.layer.gain**2 * self.variance))

    @cached_property
    def exact(self) -> Activation:
        """The activation at the deviation of its arguments, without rounding."""
        base, total = self.layer.activation, self.ratio * self.layer.gain**2 * self.variance
        assert isinstance(base, Activation)
        rounded = total != self.layer.gain**2 and not base.is_opaque and degree_of(base) is None
        return at_deviation(base, total) if rounded else self.chords.sigma

    @cached_property
    def chords(self) -> Chords:
        return Chords(self.step.f, self.layer._sigma_at(self.variance))

    @cached_property
    def weight(self) -> float:
        """(1 - keep) scale share: of f' in kappa'."""
        return (1.0 - self.step.keep) * self.step.scale * self.step.share

    @cached_property
    def nu(self) -> float:
        """1/(scale share) - 1, with 1/scale = 1 + c_0^2/V, as a sum of positive terms."""
        mean = mean_ratio(self.exact, self.step.f.moments) if self.step.offset else 0.0
        bias = float(self.ratio - 1)
        return bias + mean + bias * mean

    @cached_property
    def is_far(self) -> bool:
        """Whether there is a fixed point at t <= BORDER."""
        return self.nu <= self.chords.rise(BORDER)[0]

    @cached_property
    def excess(self) -> float:
        """f'(1) - 1 - nu: kappa'(1) - 1 but for the positive weight."""
        slope = self.chords.steepest
        plain = slope - 1.0 - self.nu
        if not self.nu and not self.step.f.missing:
            return self.chords.bend
        if not abs(plain) < _CANCELS or (self.is_far and self.nu):
            return plain
        centred = not self.step.offset
        return excess(self.exact, slope, self.step.f.moments, self.ratio, centred=centred)

    @property
    def points(self) -> tuple[FixedPoint, ...]:
        if not self.chords.rest and not self.nu:
            self._check_linear()
            return tuple(FixedPoint(rho, 1.0 - rho, 1.0, "neutral", 1.0, math.inf) for rho in (-1.0, 0.0, 1.0))
        minus_one = (self._at_end(-1.0),) if self.step.parity == -1 else ()
        below = self._at_zero() if not self.nu else self._below_one()
        return (*minus_one, *((below,) if below else ()), self._at_end(1.0))

    def _check_linear(self) -> None:
        """PrecisionError if sigma is a polynomial of which float64 has kept the linear terms only."""
        polynomial = None if self.exact.is_opaque else as_polynomial(self.exact.expr)
        if polynomial is not None and len(polynomial) > 2:
            raise self._too_straight()

    @property
    def _curvature(self) -> tuple[float, float]:
        """(p, k) of `Chords.curvature`, k not lost."""
        p, k = self.chords.curvature
        if k == 0.0:
            raise self._too_straight()
        return p, k

    def _too_straight(self) -> PrecisionError:
        return PrecisionError(
            f"{self.layer.label} keeps correlations but for less than float64 resolves beside 1, so that its fixed "
            "points are not decided"
        )

    def _at_end(self, rho: float) -> FixedPoint:
        """At 1, and at -1 of an odd map, which is the same."""
        more = self.weight * self.excess
        # of a small slope the difference from 1 has lost the digits
        slope = 1.0 + more if more > -0.5 else self.step.keep + self.weight * self.chords.steepest
        if more > 0.0:
            return FixedPoint(rho, 1.0 - rho, slope, "repelling", slope, math.nan)
        if more < 0.0:
            return FixedPoint(rho, 1.0 - rho, slope, "attracting", slope, _length(-more, slope))
        # delta' = delta - K delta^(1 + p/2), so delta^(-p/2) grows by K p/2 in each layer
        p, k = self._curvature
        K = self.weight * k * self.step.share ** (p / 2)
        return FixedPoint(
            rho, 1.0 - rho, 1.0, "marginal", 1.0, math.inf, decay_power=2 / p, decay_constant=(K * p / 2) ** (-2 / p)
        )

    def _at_zero(self) -> FixedPoint:
        order, slope, _ = self.step.first
        if order > 1:
            return FixedPoint(0.0, 1.0, 0.0, "superattracting", 0.0, 0.0, order)
        weights = self.step.f.log_weights
        if weights is not None and not self.step.keep:  # below the smallest float
            return FixedPoint(0.0, 1.0, slope, "attracting", slope, -1.0 / float(weights[1]))
        # the weight itself, where it is small: beside the rest of f' it would be lost
        return FixedPoint(
            0.0, 1.0, slope, "attracting", slope, _length((1.0 - self.step.keep) * self.chords.rest, slope)
        )

    def _below_one(self) -> FixedPoint | None:
        if self.is_far:
            return self._far_from_one()
        if math.isinf(self.chords.steepest):
            u = _solution(self._inverse_chord, 1.0 / (1.0 + self.nu), 1e-2, 1.0 - BORDER)
            less = 1.0 + self.nu - self._slope_of_f(u)
        elif self.excess > 0.0:
            p, k = self._curvature
            start = (self.excess / k) ** (2 / p) if p == p else 1e-2
            u = _solution(self.chords.fall, self.excess, start, 1.0 - BORDER)
            less = self.chords.fall(u)[1]
        else:
            return None
        complement = u * float(self.ratio)
        return self._attracting(1.0 - complement, complement, less, self._slope_of_f(u))

    def _far_from_one(self) -> FixedPoint:
        first = self.chords.rest  # h(t) - 1 >= h'(0) t
        t = _solution(self.chords.rise, self.nu, self.nu / first, BORDER)
        complement, less = (1.0 - t) * float(self.ratio), (1.0 - t) / t * self.chords.rise(t)[1]
        if self.ratio == 1:
            return self._attracting(t, 1.0 - t, less, self.chords.tangent(t))
        rho = np.array([1.0 - complement])
        for _ in range(3):  # what t has lost of a small rho, the map restores
            rho = self.step(rho)
        return self._attracting(float(rho[0]), complement, less, self.chords.tangent(t))

    def _attracting(self, rho: float, complement: float, less: float, tangent: float) -> FixedPoint:
        """less: 1 - kappa'(rho) over the weight, h(t) - f'(t); tangent: f'(t)."""
        less *= self.weight
        slope = 1.0 - less if less < 0.5 else self.step.keep + self.weight * tangent
        return FixedPoint(rho, complement, slope, "attracting", slope, _length(less, slope))

    def _slope_of_f(self, u: float) -> float:
        """f'(1 - u) next to 1."""
        return float(self.step.f.upper.slope(np.array([math.sqrt(u)]))[0])

    def _inverse_chord(self, u: float) -> tuple[float, float]:
        """1/h(1 - u) and its derivative in log u."""
        h = self.chords.slope(math.sqrt(u))
        return 1.0 / h, (1.0 - self._slope_of_f(u) / h) / h


def _length(less: float, slope: float) -> float:
    """-1/log(slope), less = 1 - slope."""
    if less < 0.5:
        return -1.0 / math.log1p(-less)
    return -1.0 / math.log(slope) if slope > 0.0 else 0.0


def _solution(rising: Callable[[float], tuple[float, float]], target: float, start: float, high: float) -> float:
    """x in (0, high] where an increasing function has the value target, by Newton's method in log x and log value.

    rising: x -> (value, its derivative in log x); values at high are at least target but for rounding.
    """
    low, x = 0.0, min(start, high)
    for _ in range(200):
        if x < _NEAREST:
            raise PrecisionError(f"the fixed point lies nearer than {_NEAREST:g} to 0 or 1, beyond float64")
        value, rate = rising(x)
        low, high = (low, x) if value >= target else (x, high)
        new = _newton(x, value, rate, target)
        if abs(new - x) <= 4e-16 * x:
            break
        if not low < new <= high:
            new = math.sqrt(low) * math.sqrt(high) if low else high / 64
        x = new
    return x


def _newton(x: float, value: float, rate: float, target: float) -> float:
    """The step from x; inf where value or rate are rounding, as what is computed by subtraction is for small x."""
    if min(value, rate) <= 0.0:
        return math.inf
    missing = math.log(target / value) if value < 0.5 * target else -math.log1p((value - target) / target)
    return x * math.exp(max(min(missing * value / rate, 700.0), -700.0))
