"""Moments of sigma(sqrt(q) X), X ~ N(0, 1), as functions of an array of variances q, with their derivatives in q.

With S = 2^k >= sqrt(q) > S/2 and t = sqrt(q)/S,

    E h(sqrt(q) X) = integral of h(S y) exp(-y^2/(2 t^2))/(t sqrt(2 pi)) dy,

so one set of nodes y and values of sigma serves all variances of an octave of sqrt(q): only the Gaussian changes. The
panels on which sigma(S y) exp(-y^2/4) is smooth are halved, which resolves sigma' and the narrower Gaussians too.
Derivatives fall on the density, where kinks and jumps do no harm:

    d/dq E h(sqrt(q) X) = E h(sqrt(q) X) (X^2 - 1)/(2 q).

Read by meanfield, which looks for the variances that a layer keeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ._activation import Activation
from ._at_zero import AtZero, at_zero
from ._ends import jumps_of
from ._extent import features
from ._interpreter import evaluate_scaled
from ._numeric import basic, gauss_legendre
from ._panels import Group, panels
from ._recurrence import Array
from ._slope import derivative, slope_of, smooth_edges
from .errors import NotSquareIntegrableError, PrecisionError

_EPS = 2.0**-52
_POINTS = 24
_BLOCK = 1 << 19  # products of variances and nodes held at a time
_LARGE = 1e150  # mantissas beyond it go into the exponent, so that squares fit


@dataclass(frozen=True, eq=False)
class _Values:
    """Numbers m exp(e) at nodes y with quadrature weights, e >= 0 or None for 0."""

    y: Array
    weights: Array
    m: Array
    e: Array | None

    def mean(self, t: Array, power: int, centre: Array | None = None, *, rate: bool = False) -> Array:
        """E of the power of (value - centre) under N(0, t^2); rate: times (y^2/t^2 - 1)/2, so q d/dq of it."""
        out = np.empty(len(t))
        rows = max(1, _BLOCK // len(self.y))
        for start in range(0, len(t), rows):
            part = slice(start, start + rows)
            out[part] = self._block(t[part], power, None if centre is None else centre[part], rate)
        return out

    def _block(self, t: Array, power: int, centre: Array | None, rate: bool) -> Array:
        z = self.y / t[:, None]
        exponent = -0.5 * z * z
        m = self.m
        if centre is not None:
            m = m - (centre[:, None] if self.e is None else centre[:, None] * np.exp(-self.e))
        if self.e is not None:
            exponent += power * self.e
        terms = np.exp(exponent)
        terms *= self.weights
        terms *= m**power
        if rate:
            terms *= 0.5 * (z - 1) * (z + 1)
        total = terms.sum(axis=1) / (t * math.sqrt(2 * math.pi))
        return np.where(np.isnan(total), math.inf, total)  # infinite terms, centred


_Value: TypeAlias = Callable[[Group, Array], tuple[Array, Array]]  # m, e in the coordinate of a group
_Nodes: TypeAlias = Callable[[Activation, Fraction], _Values | None]
_Read: TypeAlias = Callable[[_Values, Array, Array], Array]  # of t and q


def _values(sigma: Activation, scale: Fraction, groups: tuple[Group, ...], value: _Value) -> _Values:
    """The function on Gauss-Legendre nodes of the halved panels."""
    nodes, weights = gauss_legendre(_POINTS)
    ys, ws, ms, es = [], [], [], []
    for group in groups:
        low, high = _divided(group, np.array(_marks(sigma)) / float(scale), float(scale))
        half = 0.5 * (high - low)[:, None]
        local = (0.5 * (low + high)[:, None] + half * nodes).ravel()
        m, e = value(group, local)
        ys.append(local + group.anchor)
        ws.append((half * weights).ravel())
        ms.append(m)
        es.append(e)
    y, w, m, e = (np.concatenate(part) for part in (ys, ws, ms, es))
    if np.any(np.isnan(m)):
        where = float(scale) * float(y[np.isnan(m)][0])
        raise PrecisionError(f"{sigma.name} cannot be evaluated in float64 at x = {where:.3g}")
    return _Values(y, w, *_balanced(m, e.astype(np.float64)))


@lru_cache(maxsize=256)
def _marks(sigma: Activation) -> tuple[float, ...]:
    return tuple(p.value for p in features(sigma))


def _divided(group: Group, marks: Array, scale: float) -> tuple[Array, Array]:
    """Halves of the panels, and dyadic ones towards the features of sigma.

    Where sigma(S y) is nearly the same line on both ends of a bend of width 1/S (gelu, S = 2000), no sample shows it.
    """
    middle = 0.5 * (group.lower + group.upper)
    low, high = np.concatenate([group.lower, middle]), np.concatenate([middle, group.upper])
    near, marks = 4 * _EPS * np.abs(marks), marks - group.anchor
    for _ in range(max(math.frexp(scale)[1], 0)):
        ends = np.abs(np.stack([low, high])[..., None] - marks)
        at_mark = (ends <= near).any(axis=(0, 2)) & (high - low > 0.5 / scale)
        if not np.any(at_mark):
            break
        middle = 0.5 * (low + high)[at_mark]
        low, high = (
            np.concatenate([low[~at_mark], low[at_mark], middle]),
            np.concatenate([high[~at_mark], middle, high[at_mark]]),
        )
    return low, high


def _balanced(m: Array, e: Array) -> tuple[Array, Array | None]:
    """The same numbers with e >= 0 and no mantissa whose square overflows."""
    with np.errstate(all="ignore"):
        m, e = m * np.exp(np.minimum(e, 0.0)), np.maximum(e, 0.0)
        large = (np.abs(m) > _LARGE) & np.isfinite(m)
        if np.any(large):
            m, e = np.where(large, np.sign(m), m), np.where(large, e + np.log(np.abs(m)), e)
    e = np.where(m == 0, 0.0, e)
    return m, e if np.any(e) else None


@dataclass(frozen=True, eq=False)
class ByVariance:
    """Moments of sigma(sqrt(q) X) for float64 arrays q >= 0 of any shape; inf where they are infinite or overflow.

    Relative error about 1e-15 of E sigma^2 for moments, of that over q for their slopes, 1e-14 for `derivative` (up to
    q = 1e28). Raises PrecisionError where sigma(sqrt(q) x) is not resolved in float64 (sin at q = 1e9).

    >>> import numpy as np
    >>> from hermite import activation
    >>> relu = by_variance(activation("relu"))
    >>> relu.second(np.array([0.0, 1.0, 4.0])), relu.second_slope(np.array([3.0])), relu.derivative(np.array([2.0]))
    (array([0. , 0.5, 2. ]), array([0.5]), array([0.5]))
    """

    sigma: Activation
    zero: AtZero
    jumps: bool

    def mean(self, q: Array) -> Array:
        """E sigma(sqrt(q) X)."""
        return self._over(q, self.zero.value, _octave, lambda v, t, _: v.mean(t, 1))

    def second(self, q: Array) -> Array:
        """E sigma(sqrt(q) X)^2."""
        return self._over(q, self.zero.value**2, _octave, lambda v, t, _: v.mean(t, 2))

    def variance(self, q: Array) -> Array:
        """Var sigma(sqrt(q) X), centred before it is squared."""
        return self._over(q, 0.0, _octave, lambda v, t, _: v.mean(t, 2, v.mean(t, 1)))

    def mean_slope(self, q: Array) -> Array:
        """d/dq of `mean`."""
        return self._over(q, self.zero.mean_slope, _octave, lambda v, t, q: v.mean(t, 1, rate=True) / q)

    def second_slope(self, q: Array) -> Array:
        """d/dq of `second`."""
        return self._over(q, self.zero.second_slope, _octave, lambda v, t, q: v.mean(t, 2, rate=True) / q)

    def variance_slope(self, q: Array) -> Array:
        """d/dq of `variance`: the mean may be kept, for it moves nothing to first order."""
        at_zero = self.zero.variance_slope
        return self._over(q, at_zero, _octave, lambda v, t, q: v.mean(t, 2, v.mean(t, 1), rate=True) / q)

    def derivative(self, q: Array) -> Array:
        """E sigma'(sqrt(q) X)^2, infinite where sigma jumps."""
        if self.jumps:
            return np.where(q == 0, self.zero.derivative, math.inf)
        return self._over(q, self.zero.derivative, _slopes, lambda v, t, _: v.mean(t, 2))

    def derivative_slope(self, q: Array) -> Array:
        """d/dq of `derivative` for q > 0; nan where that is infinite or q is 0."""
        if self.jumps:
            return np.full(q.shape, math.nan)
        found = self._over(q, math.nan, _slopes, lambda v, t, q: v.mean(t, 2, rate=True) / q)
        return np.where(np.isinf(found), math.nan, found)

    def bent_second(self, q: Array) -> Array:
        """E tau(sqrt(q) X)^2, tau = sigma less its tangents at 0 on either side where sigma(0) = 0, else sigma."""
        return self._over(q, self.zero.value**2, _bent, lambda v, t, _: v.mean(t, 2))

    def bent_derivative(self, q: Array) -> Array:
        """E tau'(sqrt(q) X)^2."""
        at_zero = 0.0 if self.zero.has_tangents else self.zero.derivative
        return self._over(q, at_zero, _bent_slopes, lambda v, t, _: v.mean(t, 2))

    def _over(self, q: Array, at_zero: float, nodes: _Nodes, f: _Read) -> Array:
        """f(values, t, q) on the variances of each octave."""
        flat = q.ravel()
        out = np.full(flat.shape, at_zero)
        t, k = np.frexp(np.sqrt(flat))
        for each in np.unique(k[flat > 0]).tolist():
            inside = (k == each) & (flat > 0)
            with np.errstate(all="ignore"):
                out[inside] = self._in_octave(each, t[inside], flat[inside], nodes, f)
        return out.reshape(q.shape)

    def _in_octave(self, k: int, t: Array, q: Array, nodes: _Nodes, f: _Read) -> Array:
        try:
            values = nodes(self.sigma, Fraction(2) ** k)
            return np.full_like(t, math.inf) if values is None else f(values, t, q)
        except (NotSquareIntegrableError, PrecisionError):
            return np.array([self._alone(k, x, v, nodes, f) for x, v in zip(t.tolist(), q.tolist(), strict=True)])

    def _alone(self, k: int, t: float, q: float, nodes: _Nodes, f: _Read) -> float:
        """One variance by nodes of its own: those of its octave do not exist, or lie where sigma is too large."""
        try:
            values = nodes(self.sigma, Fraction(2) ** k * Fraction(t))
        except NotSquareIntegrableError:
            return math.inf
        except PrecisionError as error:
            if self._overflows(k):
                return math.inf
            raise PrecisionError(f"{self.sigma.name} is not resolved in float64 at variance {q:.3g}") from error
        return math.inf if values is None else float(f(values, np.ones(1), np.array([q]))[0])

    def _overflows(self, k: int) -> bool:
        """Whether E sigma^2 already exceeds float64 at the largest smaller variance that is resolved."""
        growth = self.sigma.growth
        if growth is None or growth[1] == growth[2] == 0:
            return False
        for smaller in range(k - 1, k - 12, -1):
            try:
                return math.isinf(float(_octave(self.sigma, Fraction(2) ** smaller).mean(np.ones(1), 2)[0]))
            except PrecisionError:
                continue
        return False


@lru_cache(maxsize=256)
def by_variance(sigma: Activation) -> ByVariance:
    """The moments of sigma(sqrt(q) X) as functions of q.

    Raises NotSquareIntegrableError or PrecisionError where those of sigma(X) do not exist or are out of reach.
    """
    return ByVariance(sigma, at_zero(sigma), bool(jumps_of(sigma, basic(sigma))))


@lru_cache(maxsize=1024)
def _octave(sigma: Activation, scale: Fraction) -> _Values:
    """sigma(scale y): trees in the coordinate of each group, so that both sides of a kink are right."""
    return _values(sigma, scale, panels(sigma.scaled(scale)).groups, lambda group, y: evaluate_scaled(group.expr, y))


@lru_cache(maxsize=1024)
def _slopes(sigma: Activation, scale: Fraction) -> _Values | None:
    """sigma'(scale y), None where its square has a pole."""
    scaled = sigma.scaled(scale)
    if sigma.is_opaque:
        slope, edges = slope_of(scaled, 0.0), np.array(smooth_edges(scaled))  # kinks to the last digit are among them
        between = Group(scaled.expr, 0.0, edges[:-1], edges[1:])
        found = _values(sigma, scale, (between,), lambda _, y: (slope(y), np.zeros_like(y)))
    elif not any(p.singular_lower or p.singular_upper for p in sigma.pieces):
        found = _values(
            sigma, scale, panels(scaled).groups, lambda group, y: evaluate_scaled(derivative(group.expr), y)
        )
    else:  # towards the end sigma' needs panels of its own
        try:
            groups = panels(replace(scaled, expr=derivative(scaled.expr), declared_growth=None)).groups
        except NotSquareIntegrableError:
            return None
        found = _values(sigma, scale, groups, lambda group, y: evaluate_scaled(group.expr, y))
    return replace(found, m=found.m / float(scale))


def _bent(sigma: Activation, scale: Fraction) -> _Values:
    values = _octave(sigma, scale)
    return _less(values, _tangent(sigma, values.y) * float(scale) * values.y)


def _bent_slopes(sigma: Activation, scale: Fraction) -> _Values | None:
    slopes = _slopes(sigma, scale)
    return None if slopes is None else _less(slopes, _tangent(sigma, slopes.y))


def _tangent(sigma: Activation, y: Array) -> Array:
    """The slope of sigma at 0 from the side of y."""
    zero = by_variance(sigma).zero
    low, high = zero.slopes if zero.has_tangents else (0.0, 0.0)
    return np.where(y > 0, high, low)


def _less(values: _Values, other: Array) -> _Values:
    return replace(values, m=values.m - (other if values.e is None else other * np.exp(-values.e)))
