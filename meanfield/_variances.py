"""The variance of a layer's outputs as a function of that of its inputs, and the variances that it keeps.

G (or K) is the Gram matrix divided by width and q an entry of its diagonal. The argument of the activation has the
variance v = gain^2 q + bias_variance, or gain^2 + bias_variance where the input was normalised. Write M2(v) for
E sigma(sqrt(v) X)^2, and c_0, V for the mean and variance of sigma at v = gain^2 + bias_variance. One layer maps q to

    activation first        none  M2(v),   center  Var sigma(sqrt(v) X),   constant  E (sigma(sqrt(v) X) - c_0)^2/V,
                            layer, rms  1,
    normalization first     none, center, constant  M2(v),                 layer, rms  M2(gain^2 + bias_variance),

and a skip connection a to a^2 q + (1 - a^2) of that: fixed points stay where they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation
from hermite._by_variance import ByVariance, by_variance
from hermite._numbers import as_fraction
from hermite.errors import ConstantActivationError, PrecisionError

from ._bracketed import bracketed
from ._variance_grid import LARGEST, on_grid

if TYPE_CHECKING:
    from ._layer import Layer

Floats: TypeAlias = NDArray[np.float64]
Stability: TypeAlias = Literal["attracting", "repelling", "marginal", "half-stable", "neutral"]

_EPS = 2.0**-52
_STEPS, _POINTS = 200, 33
_ROUNDING = 1e-14  # of q'/q
_LINEAR = 1.5e-8  # times sigma(0)^2: where rounding of the mean exceeds what the linear term leaves out
_MARGINAL = 1e-13  # of a slope


@dataclass(frozen=True)
class VariancePoint:
    """A variance that the layer keeps.

    slope: that of the map there; stability: "attracting" or "repelling" by |slope|, "marginal" where it is 1 to
    rounding, "half-stable" for a double root, which attracts from one side only, "neutral" where every variance is
    kept; length: -1/log |slope|, the number of layers in which a deviation changes by a factor e, negative where it
    grows, infinite for |slope| = 1 and 0 for slope 0.
    """

    variance: float
    slope: float
    stability: Stability
    length: float


@dataclass(frozen=True)
class VarianceMap:
    """q -> next q of a layer; made by `variances_of`.

    fixed: the value of the map without its skip where it is constant; centre, unit: c_0 and V where these are fixed.
    """

    moments: ByVariance
    gain_squared: float
    bias_variance: float
    keep: float
    centred: bool = False
    fixed: float | None = None
    centre: float = 0.0
    unit: float = 1.0

    def __call__(self, q: Floats) -> Floats:
        """The next variances of q >= 0, any shape."""
        return np.asarray(self._mixed(q, self.block(q)))

    def slope(self, q: Floats) -> Floats:
        """d(next q)/dq, at q = 0 from the right."""
        return np.asarray(self._mixed(np.ones_like(q), self.block_slope(q)))

    def _mixed(self, straight: Floats, block: Floats) -> Floats:
        return self.keep * straight + (1 - self.keep) * block if self.keep else block

    def argument(self, q: Floats) -> Floats:
        """The variance of the activation's argument."""
        return np.asarray(self.gain_squared * q + self.bias_variance)

    def block(self, q: Floats) -> Floats:
        """The map without the skip connection: it has the same fixed points."""
        return np.full(q.shape, self.fixed) if self.fixed is not None else self._block_at(self.argument(q))

    def block_slope(self, q: Floats) -> Floats:
        return np.zeros(q.shape) if self.fixed is not None else self.gain_squared * self._slope_at(self.argument(q))

    def _block_at(self, v: Floats) -> Floats:
        if self.unit == 1.0 and self.centre == 0.0:
            return self._spread(v) if self.centred else self.moments.second(v)
        drift = self.moments.mean(v) - self.centre
        return np.asarray((self.moments.variance(v) + drift * drift) / self.unit)

    def _spread(self, v: Floats) -> Floats:
        """The variance of sigma; linear in v where the mean hides what else there is."""
        spread, rate = np.asarray(self.moments.variance(v)), self.moments.zero.variance_slope
        small = (v < _LINEAR * self.moments.zero.value**2 / rate) if 0 < rate < math.inf else np.zeros(v.shape, bool)
        return np.where(small, rate * v, spread)

    def _slope_at(self, v: Floats) -> Floats:
        if self.unit == 1.0 and self.centre == 0.0:
            return self.moments.variance_slope(v) if self.centred else self.moments.second_slope(v)
        drift, slope = self.moments.mean(v) - self.centre, self.moments.variance_slope(v)
        moved = drift != 0  # else the mean may be as steep as it likes: a kink makes it infinite at 0
        slope[moved] += 2 * drift[moved] * self.moments.mean_slope(v[moved])
        return np.asarray(slope / self.unit)

    # ---- fixed points ----

    def sampled(self) -> tuple[Floats, Floats, Floats]:
        """v on a grid from the smallest one on, the growth v'/v - 1 there, and its slope in log v."""
        plain = self.unit == 1.0 and self.centre == 0.0
        verbs = ("second", "second_slope") if plain and not self.centred else ("variance", "variance_slope")
        bound = self.gain_squared * self._bound() + self.bias_variance
        v, value, slope, *means = on_grid(
            self.moments, (*verbs, *(() if plain else ("mean", "mean_slope"))), self.bias_variance, 2 * bound
        )
        if not plain:
            drift = means[0] - self.centre
            value, slope = (value + drift * drift) / self.unit, (slope + 2 * drift * means[1]) / self.unit
        after = self.gain_squared * value + self.bias_variance
        growth, bend = after / v - 1, self.gain_squared * slope - after / v
        return self._from_smallest(v, growth, bend)

    def _from_smallest(self, v: Floats, growth: Floats, bend: Floats) -> tuple[Floats, Floats, Floats]:
        """With the smallest variance that an argument has before the others, unless that is kept."""
        first = np.array([self.bias_variance])
        if self._block_at(first)[0] == 0:
            return v, growth, bend
        risen, bent = (self.growth(first), self.bend(first)) if self.bias_variance else ([math.inf], bend[:1])
        return np.concatenate([first, v]), np.concatenate([risen, growth]), np.concatenate([bent, bend])

    def growth(self, v: Floats) -> Floats:
        return (self.gain_squared * self._block_at(v) + self.bias_variance) / v - 1

    def bend(self, v: Floats) -> Floats:
        after = self.gain_squared * self._block_at(v) + self.bias_variance
        return np.asarray(self.gain_squared * self._slope_at(v) - after / v)

    def noise(self, v: Floats) -> Floats:
        """Rounding of the growth: of a variance beside a large mean it is that of the second moment."""
        if not self.centred:
            return np.full(v.shape, _ROUNDING)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            hidden = 64 * _EPS * self.moments.second(v) / self.moments.variance(v)
        return np.where(np.isfinite(hidden), np.maximum(hidden, _ROUNDING), math.inf)

    def _bound(self) -> float:
        """No variance after the layer exceeds this: for a bounded activation larger ones need no search."""
        growth = self.moments.sigma.growth
        if growth is None or growth[1] > 0 or growth[2] > 0:
            return math.inf
        return (growth[0] + abs(self.centre)) ** 2 / self.unit

    def fixed_points(self) -> tuple[VariancePoint, ...]:
        """Every variance that the map keeps, in increasing order."""
        return self._points

    @cached_property
    def _points(self) -> tuple[VariancePoint, ...]:
        if self.fixed is not None:
            return (_point(self.fixed, self.keep),)
        if self.bias_variance > LARGEST / 16:
            raise PrecisionError(
                f"variances beyond 4^32 are not searched, and the bias alone has {self.bias_variance:g}"
            )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # where moments leave float64
            return self._found()

    def _found(self) -> tuple[VariancePoint, ...]:
        zero = np.zeros(1)
        found = [_point(0.0, *self.slope(zero).tolist())] if self.block(zero)[0] == 0 else []
        scan = Scan.of(self)
        if scan.neutral:
            return tuple(VariancePoint(q, 1.0, "neutral", math.inf) for q in ([0.0, 1.0] if found else [1.0]))
        low, high, double = ((v - self.bias_variance) / self.gain_squared for v in (*scan.simple, scan.double))
        simple = bracketed(lambda q, _: self._excess(q), low, high)
        roots = [_point(q, s) for q, s in zip(simple.tolist(), self.slope(simple).tolist(), strict=True)]
        touching = [VariancePoint(q, 1.0, "half-stable", math.inf) for q in double.tolist()]
        if scan.grows and self._falls_far():
            raise PrecisionError(
                f"{self.moments.sigma.name} keeps a variance of its argument beyond 4^32, not searched; divide it by "
                "a constant"
            )
        return tuple(sorted([*found, *roots, *touching], key=lambda point: point.variance))

    def _falls_far(self) -> bool:
        """Whether the variance falls somewhere beyond the grid, though it still grows at its end."""
        try:
            growth = self.growth(LARGEST * 4.0 ** np.array([4.0, 16.0, 64.0]))
        except PrecisionError:
            return False
        return bool(np.any(growth < -_ROUNDING))

    def _check_far(self) -> None:
        """Raise PrecisionError where sigma is not resolved as far as a fixed point may lie."""
        v = self.sampled()[0]
        top = float(v[-1]) if len(v) else 1.0
        if 16 * top < min(LARGEST, self.gain_squared * self._bound()):
            self._block_at(np.array([16 * top]))

    def _excess(self, q: Floats) -> Floats:
        """q'/q - 1, but for a factor that is positive."""
        block = self.block(q)
        return (block - q) / np.maximum(block, q)

    def led_to(self, q: float) -> VariancePoint | None:
        """Where the variance of an input ends, None where it grows without bound (or beyond 4^32).

        An increasing map leads to the next fixed point on the side it moves to. Where it falls, it falls by no more
        than the square root: E sigma(sqrt(v) X)^2 sqrt(v) increases. So a step beyond a fixed point comes nearer to it,
        and a few steps decide.
        """
        if self.argument(np.array([q]))[0] > LARGEST / 16:
            raise PrecisionError(
                f"variances beyond 4^32 are not searched, and it begins at {self.argument(np.ones(1))[0]:g}"
            )
        if any(p.stability == "neutral" for p in self._points):
            return VariancePoint(q, 1.0, "neutral", math.inf)
        for _ in range(_STEPS):
            now = np.array([q])
            excess = float(self._excess(now)[0])
            if math.isnan(excess):
                raise PrecisionError(f"the moments of {self.moments.sigma.name} exceed float64 at the variance {q:g}")
            if abs(excess) <= _ROUNDING:
                return min(self._points, key=lambda p: abs(p.variance - q))
            ahead = [p for p in self._points if (p.variance > q) == (excess > 0)]
            if not ahead and excess > 0:
                self._check_far()
                return None
            point = ahead[0] if excess > 0 else ahead[-1]
            between = np.linspace(q, point.variance, _POINTS)
            if np.all(self.slope(between[between > 0]) >= 0):
                return point
            q = float(self(now)[0])
        return point


def _point(variance: float, slope: float) -> VariancePoint:
    size = abs(slope)
    if abs(size - 1) <= _MARGINAL:
        return VariancePoint(variance, slope, "marginal", math.inf)
    length = 0.0 if size in (0.0, math.inf) else -1 / math.log(size)
    return VariancePoint(variance, slope, "attracting" if size < 1 else "repelling", length)


@dataclass(frozen=True, eq=False)
class Scan:
    """Where v' = v for arguments of variance v = gain^2 q + bias_variance > 0.

    simple: simple roots of the growth v'/v - 1, as pairs of ends; double: double roots; neutral: 0 everywhere.
    """

    simple: tuple[Floats, Floats]
    double: Floats
    neutral: bool
    grows: bool = False  # at the end of a grid that reaches as far as any does

    @classmethod
    def of(cls, map_: VarianceMap) -> Scan:
        """Between the turning points of the growth there is at most one root, so none is missed."""
        v, growth, bend = map_.sampled()
        if not len(v):
            raise PrecisionError(f"{map_.moments.sigma.name} has no finite moments at any variance that could be kept")
        turns = np.flatnonzero((np.sign(bend[:-1]) * np.sign(bend[1:]) < 0) & _may_touch(growth, bend))
        turning = bracketed(lambda x, _: map_.bend(x), v[turns], v[turns + 1])
        v, growth = np.concatenate([v, turning]), np.concatenate([growth, map_.growth(turning)])
        order = np.argsort(v)
        v, growth = v[order], growth[order]
        sign = np.where(np.abs(growth) <= map_.noise(v), 0.0, np.sign(growth))
        if v[0] == map_.bias_variance:
            sign[0] = 1.0  # however little the block adds to the bias
        known = np.flatnonzero(sign)
        if not len(known):
            return cls((v[:0], v[:0]), v[:0], True)
        crossed = sign[known[:-1]] != sign[known[1:]]
        # a root between equal signs is double; zeros before the first sign belong to v = 0, the last to infinity
        touched = np.flatnonzero(~crossed & (np.diff(known) > 1)).tolist()
        nearest = [known[i] + 1 + int(np.abs(growth[known[i] + 1 : known[i + 1]]).argmin()) for i in touched]
        grows = bool(sign[known[-1]] > 0 and v[known[-1]] > LARGEST / 16)
        return cls((v[known[:-1][crossed]], v[known[1:][crossed]]), v[np.array(nearest, dtype=int)], False, grows)


def _may_touch(growth: Floats, bend: Floats) -> NDArray[np.bool_]:
    """Whether the growth may come near 0 between two places of the grid: bend is its slope in log v."""
    slope = np.maximum(np.abs(bend[:-1]), np.abs(bend[1:]))
    return (np.minimum(np.abs(growth[:-1]), np.abs(growth[1:])) <= slope) & (slope > _ROUNDING)


def variances_of(
    activation: Activation,
    *,
    normalization: str,
    order: str,
    gain_squared: float,
    bias_variance: float,
    keep: float,
) -> VarianceMap:
    """The map of variances of a layer with this activation (without its gain); keep is the square of the skip.

    Raises ValueError for batch normalisation, ConstantActivationError where a constant would be divided by its
    variance, and the errors of the activation's moments.
    """
    if normalization == "batch":
        raise ValueError(
            "normalization='batch' has no map of variances: the variance of one input depends on all inputs; call the "
            "layer on a Gram matrix"
        )
    m = by_variance(activation)
    plain = VarianceMap(m, gain_squared, bias_variance, keep)
    unit = np.array([gain_squared + bias_variance])
    made = {"moments": m, "gain_squared": gain_squared, "bias_variance": bias_variance, "keep": keep}
    if order == "normalization-first":
        if normalization not in ("layer", "rms"):
            return plain
        return VarianceMap(**made, fixed=float(m.second(unit)[0]))  # type: ignore[arg-type]
    if normalization in ("layer", "rms"):
        return VarianceMap(**made, fixed=1.0)  # type: ignore[arg-type]
    if normalization == "constant":
        centre, spread, size = (float(f(unit)[0]) for f in (m.mean, m.variance, m.second))
        if spread <= (16 * _EPS) ** 2 * size:
            raise ConstantActivationError(f"{activation.name} is constant: it cannot be divided by its deviation")
        if (centre - m.zero.value) ** 2 <= (16 * _EPS) ** 2 * size:  # odd but for a constant: 0 is kept
            centre = m.zero.value
        return VarianceMap(**made, centre=centre, unit=spread)  # type: ignore[arg-type]
    return VarianceMap(**made, centred=normalization == "center")  # type: ignore[arg-type]


def not_negative(values: ArrayLike, name: str) -> Floats:
    """Numbers >= 0 as float64, shape kept; texts and Fractions are read as everywhere."""
    given = np.asarray(values)
    if given.dtype.kind in "OU":
        flat = [float(as_fraction(value, name)) for value in given.ravel().tolist()]
        given = np.array(flat).reshape(given.shape)
    if given.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got dtype {given.dtype}")
    found = given.astype(np.float64)
    wrong = ~(np.isfinite(found) & (found >= 0))
    if np.any(wrong):
        raise ValueError(f"{name} must be finite and not negative, got {float(found[wrong].flat[0])!r}")
    return found


def _variances_of_one(layer: Layer) -> VarianceMap:
    found = getattr(layer, "variances", None)
    if not isinstance(found, VarianceMap):
        raise ValueError(f"layer must be one Layer, got {layer!r:.80}")
    return found


def variance_map(layer: Layer, q: ArrayLike) -> float | Floats:
    """The variance after a layer of inputs with variance q >= 0 (a diagonal entry of the Gram matrix over width).

    That is the diagonal of layer(G) where G has the diagonal q; shape kept, a number for a number; inf where it exceeds
    float64. Relative error about 1e-15 (1 + B^2 v) with B the exponential growth rate of the activation and v the
    variance of its argument; with "center" 1e-8 where q is below 1e-8 sigma(0)^2. Raises ValueError for negative or
    non-finite q, and for batch normalisation, where the variance depends on all inputs; PrecisionError where the
    activation is not resolved (sin at q = 1e9).

    Source: Poole et al., arXiv:1606.05340 (there of the pre-activations, gain^2 q + bias_variance: conjugate, with the
    same slopes at fixed points).

    >>> from meanfield import Layer
    >>> round(variance_map(Layer("relu", normalization="none", gain=2), 1.0), 12)
    2.0
    """
    found = _variances_of_one(layer)(not_negative(q, "q"))
    return float(found) if found.ndim == 0 else found


def variance_fixed_points(layer: Layer) -> tuple[VariancePoint, ...]:
    """The variances that a layer keeps, in increasing order: all of them, whether they attract or repel.

    Found as roots of (next q)/q = 1 between its turning points over q in [2^-64, 2^64], not by iteration, which sees
    attracting points only; relative error about 1e-15/|1 - slope|. 0 is listed where it is kept. Where every variance
    is kept (relu, gain^2 = 2) 0 and 1 stand for all, "neutral". What grows without bound adds nothing: the list may be
    empty. A double root is told from a pair closer than 1e-14 in q'/q by nothing. Raises ValueError for batch
    normalisation. The search ends where the activation is no longer resolved in float64, or its moments exceed it.

    Source: Poole et al., arXiv:1606.05340; Schoenholz et al., arXiv:1611.01232.

    >>> from meanfield import Layer
    >>> [(round(p.variance, 6), p.stability) for p in variance_fixed_points(Layer("2*tanh(x)", normalization="none"))]
    [(0.0, 'repelling'), (2.121474, 'attracting')]
    """
    return _variances_of_one(layer).fixed_points()
