"""Phases of deep networks without normalisation, and where they meet.

The pre-activations of such a network have variance v and correlation c, which one layer of weight variance w (gain^2)
and bias variance b maps to

    v' = w M(v) + b,   c' = (w E sigma(sqrt(v) X) sigma(sqrt(v) Y) + b)/v,      M(v) = E sigma(sqrt(v) X)^2.

chi = w D(v), D(v) = E sigma'(sqrt(v) X)^2, is the slope of c' at c = 1: two close inputs meet where chi < 1 (ordered)
and part where chi > 1 (chaotic). w M'(v) is the slope of v'. On the curve chi = 1 everything is a function of v:

    w = 1/D(v),   b = v - M(v)/D(v).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation, ActivationLike
from hermite._activation import activation as as_activation
from hermite._by_variance import ByVariance, by_variance
from hermite._homogeneity import degree_of
from hermite._numbers import as_fraction, shown
from hermite.errors import PrecisionError

from ._bracketed import bracketed
from ._critical import chi_less_one
from ._fixed_points import fixed_points
from ._layer import Layer
from ._variance_grid import LARGEST, on_grid
from ._variances import VariancePoint, not_negative, variances_of

Floats: TypeAlias = NDArray[np.float64]
PhaseName: TypeAlias = Literal["ordered", "chaotic", "critical", "unbounded"]

_EPS = 2.0**-52
_TINY = 1e-60  # below it even the cube root is below the last digit
_RANGE = Fraction(1, 10**300)
_ULPS = 8  # the edge of chaos is known to some units in the last place of the weight variance
_DOUBLE = 2.0**-26
_NOISE = 1e-14
_NOISE_OF_CALLABLES = 1e-9  # their slopes are differences
_SMALL = 1e-8  # a slope that is a difference (tanhshrink) has no digits at smaller variances
_WIDE = 64.0  # critical variances are seldom so many times larger than the bias variance


# ---- one network ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """What depth does in a network with these variances of weights and biases; made by `phase`.

    name: "ordered", "chaotic", "critical" (chi is 1 to rounding of the variances) or "unbounded" (the variance grows
    without bound; the numbers are then inf and nan). variance: that of the pre-activations in deep layers, started from
    an input of variance 1; chi: the slope of the map of correlations at 1, which multiplies squared gradients layer by
    layer; variance_slope: the slope of the map of variances. `correlation`, the correlation that any two inputs end
    with, and `correlation_length` are computed when asked for: they need the dual activation.
    """

    activation: Activation
    weight_variance: Fraction
    bias_variance: Fraction
    name: PhaseName
    variance: float
    chi: float
    variance_slope: float

    @property
    def variance_length(self) -> float:
        """-1/log |variance_slope|: the number of layers in which a deviation of the variance falls by e."""
        return _length(abs(self.variance_slope))

    @cached_property
    def correlation(self) -> float:
        """The attracting fixed point of the map of correlations: 1 where chi <= 1, also where the variance is 0."""
        return math.nan if self.name == "unbounded" else 1.0 - self._deep[0]

    @property
    def correlation_length(self) -> float:
        """-1/log of the slope there: the number of layers in which the distance to it falls by e; inf if critical."""
        return math.inf if self.name == "critical" else _length(self._deep[1])

    @cached_property
    def _deep(self) -> tuple[float, float]:
        """1 - c* and the slope at c*.

        1 - c' = r (1 - f(c)) with f the reduced dual of sigma(sqrt(v) x) and r = w Var/v. f is convex, so that beside
        c = 1 there is one fixed point where chi > 1, and it attracts.
        """
        if self.name != "chaotic":
            return 0.0, self.chi
        layer = Layer(
            self.activation,
            normalization="none",
            gain=Fraction(math.sqrt(self.weight_variance)),
            bias_variance=self.bias_variance,
        )
        # correlations of outputs and of pre-activations are conjugate: c = 1 - share (1 - rho)
        below = fixed_points(layer)[-2]
        return layer.step.share * below.complement, below.slope


def _length(slope: float) -> float:
    if math.isnan(slope):
        return math.nan
    return math.inf if slope == 1 else 0.0 if slope in (0.0, math.inf) else -1 / math.log(slope)


def phase(activation: ActivationLike, weight_variance: Any, bias_variance: Any) -> Phase:
    """The phase of a deep network without normalisation, x -> sigma(W x + b), and its scales of depth.

    activation: anything `hermite.activation` accepts; weight_variance > 0: the variance of W times the fan-in (gain^2
    of a `Layer`); bias_variance >= 0: that of b; exact as numbers there are. The variance is that which an input of
    variance 1 is led to, found as a root and not by iterating: relative error about 1e-15/|1 - variance_slope|. A sigma
    with jumps has chi = inf. Where chi is 1 within a few units in the last place of the variances the network is
    "critical"; that is decided with 30 digits, but for callables, of which float64 is all there is.

    Raises ValueError for other numbers, and the errors of the moments of the activation; `correlation` those of its
    dual. Source: Poole et al., arXiv:1606.05340; Schoenholz et al., arXiv:1611.01232.

    >>> p = phase("tanh", "2.25", "0.0025")
    >>> p.name, round(p.variance, 12), round(p.chi, 12), round(p.correlation, 6)
    ('chaotic', 0.798387114308, 1.136707784096, 0.052086)
    >>> phase("relu", 2, 0).name, phase("relu", 2, 1).name
    ('critical', 'unbounded')
    """
    sigma = as_activation(activation)
    w, b = as_fraction(weight_variance, "weight_variance"), as_fraction(bias_variance, "bias_variance")
    if w <= 0:
        raise ValueError(f"weight_variance must be positive, got {shown(w)}")
    if b < 0:
        raise ValueError(f"bias_variance must not be negative, got {shown(b)}")
    for argument, value in (("weight_variance", w), ("bias_variance", b)):
        if value and not _RANGE <= value <= 1 / _RANGE:
            raise ValueError(f"{argument} must lie between 1e-300 and 1e300, got {shown(value)}")
    map_ = variances_of(
        sigma, normalization="none", order="activation-first", gain_squared=float(w), bias_variance=float(b), keep=0.0
    )
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        point = map_.led_to(1.0)
    if point is None:
        return Phase(sigma, w, b, "unbounded", math.inf, math.nan, math.nan)
    v = float(map_.argument(np.array([point.variance]))[0])
    chi = float(w) * float(map_.moments.derivative(np.array([v]))[0])
    excess = _excess(map_.moments, w, b, v, chi, point)
    name: PhaseName = "critical" if excess == 0 else "chaotic" if excess > 0 else "ordered"
    return Phase(sigma, w, b, name, v, 1.0 if excess == 0 else chi, point.slope)


def _excess(m: ByVariance, w: Fraction, b: Fraction, v: float, chi: float, point: VariancePoint) -> float:
    """chi - 1, and 0 where rounding w and b to float64 moves it that far."""
    excess = chi - 1
    if math.isinf(chi):
        return excess
    rounding = _ULPS * _EPS * _sensitivity(m, float(w), float(b), v, chi, point)
    regular = point.stability == "neutral" or v == 0 or abs(1 - point.slope) > _DOUBLE
    if abs(excess) <= 100 * rounding and regular and not m.sigma.is_opaque:
        excess = chi_less_one(m.sigma, w, b, v, None if point.stability == "neutral" else point.slope)
    return 0.0 if abs(excess) <= rounding else excess


def _sensitivity(m: ByVariance, w: float, b: float, v: float, chi: float, point: VariancePoint) -> float:
    """|d chi/d log w| + |d chi/d log b|, with v moved as well: v' = w M(v) + b gives dv (1 - slope) = M dw + db."""
    rate = 0.0 if v == 0 or point.stability == "neutral" else w * float(m.derivative_slope(np.array([v]))[0])
    if not math.isfinite(rate):  # sigma' has a steep end
        rate = 0.0
    rate /= max(abs(1 - point.slope), _DOUBLE)  # rounding eps moves a double root by its square root
    return max(abs(chi + rate * (v - b)) + abs(rate * b), 1.0)


# ---- where phases meet ----------------------------------------------------------------------------------------


def edge_of_chaos(activation: ActivationLike, bias_variances: ArrayLike) -> Floats:
    """The weight variance at which a network with each bias variance is critical, chi = 1; shape kept.

    chi = w E sigma'(sqrt(v) X)^2 with v = w E sigma(sqrt(v) X)^2 + b, the variance that the network keeps; relative
    error about 1e-15. For b = 0 and sigma(0) = 0 it is the limit of small variances, 2/(a_+^2 + a_-^2) with the slopes
    of sigma at 0 (tanh 1, relu 2, gelu 4). nan where no variance up to 4^32 is critical: relu with b > 0 is unbounded
    at w = 2, softplus is unbounded before it is chaotic. The variance need not attract (gelu and silu below their
    half-stable point, exp): `phase` says where inputs of variance 1 end. Should several variances be critical, the
    smallest that attracts is taken, else the smallest; no registered activation has several.

    bias_variances: numbers >= 0. Raises ValueError for others and for a sigma whose chi is infinite (jumps, roots),
    PrecisionError where the activation is not resolved up to the variance that is sought.

    Source: Schoenholz et al., arXiv:1611.01232; Hayou et al., arXiv:1902.06853.

    >>> edge_of_chaos("tanh", [0.0, 0.04]).round(9)
    array([1.        , 1.70079637])
    >>> edge_of_chaos("relu", [0.0, 0.04])
    array([ 2., nan])
    """
    sigma = as_activation(activation)
    biases = not_negative(bias_variances, "bias_variances")
    b = biases.ravel()
    m = by_variance(sigma)
    if m.derivative(np.ones(1))[0] == math.inf:
        raise ValueError(f"chi of {sigma.name} is infinite: E sigma'^2 does not exist (a jump, or too steep an end)")
    out = np.full(len(b), math.nan)
    limit = m.zero.value == 0 and 0 < m.zero.derivative < math.inf
    out[b == 0] = 1 / m.zero.derivative if limit else math.nan
    sought = np.isnan(out)
    if np.any(sought):
        out[sought] = _weights(m, b[sought])
    tiny = np.isnan(out) & (b > 0) & (b < _TINY)
    if limit and np.any(tiny) and _rises_from_zero(m):
        out[tiny] = 1 / m.zero.derivative
    return out.reshape(biases.shape)


def _rises_from_zero(m: ByVariance) -> bool:
    """Whether b(v) is positive for small v, so that the smallest biases have an edge too: that of v = 0 to rounding."""
    v = np.array([1e-6])
    return degree_of(m.sigma) is None and float((v - m.second(v) / m.derivative(v))[0]) > 0


def _weights(m: ByVariance, b: Floats) -> Floats:
    """Of small variances first, where most solutions lie: a smaller one that attracts is never given up."""
    near = 4.0 ** math.ceil(math.log(_WIDE * max(1.0, float(b.max())), 4))
    out, settled = _Edge.of(m, near).weights(b)
    if not np.all(settled):
        edge = _Edge.of(m)
        out[~settled], _ = edge.weights(b[~settled])
        edge.refuse(b[np.isnan(out) & (b > 0)])
    return out


@dataclass(frozen=True, eq=False)
class _Edge:
    """b(v) = v - M(v)/D(v) on a grid that holds its turning points, so that a bias variance is met once between two.

    Where sigma(0) = 0 the difference cancels for small v. For tau, sigma less its tangents at 0, it does not, and
    v D - M is the same: a line a x on one side adds 2 a (v E tau'(sqrt(v) X) - E sqrt(v) X tau(sqrt(v) X)), taken over
    that side, which is 0 by parts.
    """

    moments: ByVariance
    v: Floats
    b: Floats
    resolved: tuple[float, float]

    @classmethod
    @lru_cache(maxsize=64)  # records of moments are few, and cached themselves
    def of(cls, m: ByVariance, reach: float = math.inf) -> _Edge:
        """Over variances up to some reach, as far as sigma is resolved."""
        columns = on_grid(m, ("second", "second_slope", "derivative", "derivative_slope"), 0.0, reach)
        resolved = (float(columns[0][0]), float(columns[0][-1])) if len(columns[0]) else (math.inf, 0.0)
        v, second, second_slope, slope, bend = (column[columns[3] > 0] for column in columns)
        rise = 1 - second_slope / slope + second / slope * (bend / slope)
        turning = (np.sign(rise[:-1]) * np.sign(rise[1:]) < 0) & (np.abs(rise[:-1]) + np.abs(rise[1:]) > _NOISE)
        edge, turns = cls(m, v, v, resolved), np.flatnonzero(turning)
        extra = bracketed(lambda x, _: edge.rise(x), v[turns], v[turns + 1])
        places = np.sort(np.concatenate([v, extra]))
        return replace(edge, v=places, b=edge.bias(places))

    def bias(self, v: Floats) -> Floats:
        m = self.moments
        return np.asarray((v * m.bent_derivative(v) - m.bent_second(v)) / m.derivative(v))

    def rise(self, v: Floats) -> Floats:
        m, slope = self.moments, self.moments.derivative(v)
        return np.asarray(1 - m.second_slope(v) / slope + m.second(v) / slope * (m.derivative_slope(v) / slope))

    def weights(self, b: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """1/D(v) at the solution chosen, nan where there is none, and whether it attracts."""
        rows, low, high = self._brackets(b)
        v = bracketed(lambda x, i: self.bias(x) - b[rows[i]], low, high)
        square = self.moments.derivative(v)
        attracts = self.moments.second_slope(v) <= square
        out, settled = np.full(len(b), math.nan), np.zeros(len(b), dtype=bool)
        # the last assignment stays: of those that attract, or else of all, the smallest
        for i in sorted(range(len(v)), key=lambda i: (attracts[i], -v[i])):
            out[rows[i]], settled[rows[i]] = 1 / square[i], attracts[i]
        return out, settled

    def refuse(self, b: Floats) -> None:
        """Refuse to say nan where sigma is not resolved where a solution may lie."""
        low, high = self.resolved
        if len(b) and (high < 0.5 * LARGEST or float(b.min()) < low > 1 / LARGEST):
            raise PrecisionError(
                f"{self.moments.sigma.name} is resolved in float64 for variances from {low:.3g} to {high:.3g} only: "
                f"the edge at bias variance {float(b.max()):.3g} lies beyond, if there is one"
            )

    def _brackets(self, b: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Where b(v) - b changes sign: rows of b, and both ends; what is rounding of b(v) has no sign."""
        m = self.moments
        noise = _ULPS * _EPS * (self.v * m.bent_derivative(self.v) + m.bent_second(self.v)) / m.derivative(self.v)
        found: list[tuple[int, float, float]] = []
        for i, wanted in enumerate(b.tolist()):
            difference = self.b - wanted
            known = np.flatnonzero(np.abs(difference) > noise)
            crossed = np.flatnonzero(np.sign(difference[known[:-1]]) != np.sign(difference[known[1:]]))
            found += [(i, self.v[known[j]], self.v[known[j + 1]]) for j in crossed]
        rows, low, high = zip(*found, strict=True) if found else ((), (), ())
        return np.array(rows, dtype=np.intp), np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)


@dataclass(frozen=True)
class HalfStablePoint:
    """A network in which variance and correlation are marginal at once: weight and bias variance, and the variance."""

    variance: float
    weight_variance: float
    bias_variance: float


def half_stable_points(activation: ActivationLike) -> tuple[HalfStablePoint, ...]:
    """Every variance v > 1e-8 with a network for which both slopes are 1, chi = w E sigma'^2 = 1 = w d/dv E sigma^2.

    Then E sigma sigma'' = 0 at v, the weight variance is 1/E sigma'(sqrt(v) X)^2, and the bias variance v - w E
    sigma^2, which must not be negative. In increasing order; relative error about 1e-13. Empty for tanh and the like,
    which are so at v = 0 only, and for homogeneous sigma (relu), whose slopes agree everywhere. Raises ValueError
    for a sigma whose chi is infinite.

    Source: Roberts, Yaida, Hanin, The Principles of Deep Learning Theory, section 5.3.4.

    >>> [(round(p.variance, 9), round(p.weight_variance, 9)) for p in half_stable_points("gelu")]   # (3 + sqrt 17)/2
    [(3.561552813, 1.983058257)]
    """
    sigma = as_activation(activation)
    m = by_variance(sigma)
    if m.derivative(np.ones(1))[0] == math.inf:
        raise ValueError(f"chi of {sigma.name} is infinite: E sigma'^2 does not exist (a jump, or too steep an end)")
    v, second, slope, square = on_grid(m, ("second", "second_slope", "derivative"), _SMALL)
    difference = slope - square
    noise = _NOISE_OF_CALLABLES if sigma.is_opaque else _NOISE
    known = np.flatnonzero(np.abs(difference) > noise * (square + second / v))
    crossed = np.flatnonzero(np.sign(difference[known[:-1]]) != np.sign(difference[known[1:]]))
    low, high = v[known[crossed]], v[known[crossed + 1]]
    kept = bracketed(lambda x, _: m.second_slope(x) - m.derivative(x), low, high)
    weights = 1 / m.derivative(kept)
    biases = kept - weights * m.second(kept)
    return tuple(
        HalfStablePoint(*row)
        for row in zip(kept.tolist(), weights.tolist(), biases.tolist(), strict=True)
        if row[2] >= -_NOISE * row[0]
    )
