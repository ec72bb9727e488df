"""Moments of an activation over pairs of correlated Gaussians that need not have the same variance.

With deviations s and t, E (sigma(s X) - m_s)(sigma(t Y) - m_t) = sum over k >= 1 of c_k(s) c_k(t) rho^k, c_k(s) the
Hermite coefficients of x -> sigma(s x). The series serves all pairs of a batch at once; the few whose correlation is
so close to +-1 that it has not converged are integrated one by one. Positively homogeneous activations,
sigma(s x) = s^p sigma(x), need one dual for all.

Read by meanfield, for inputs of different norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._activation import Activation
from ._build import LARGE_MEAN, reduced_dual
from ._homogeneity import degree_of
from ._interpreter import evaluate_scaled
from ._numeric import Scaled, basic, is_constant, scaled_coefficients, without_constant
from ._recurrence import Array
from ._rotation import Side, centred, covariance, on_a_line
from .errors import PrecisionError

_DEGREES = (64, 256, 2000)
_CONVERGED = 4e-15  # of the variance: rounding of what is left after summing the series
_LAST = 1e-17
_NEGLIGIBLE = 1e-16
_BLOCK = 1 << 15
_BOTH = 0.95
_AGREEMENT = 1e-13


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Mean and variance of sigma(s X) for each deviation s, and the correlation of each pair (0 if one is constant).

    Means are in units of exp(log_scale), and variances of its square: what is beyond float64 keeps its ratios. hidden:
    whether the mean is so large that variance and correlations have no 1e-14 left beside its rounding.
    """

    mean: Array
    variance: Array
    log_scale: Array
    correlation: Array
    hidden: NDArray[np.bool_]

    def shifted(self, constant: float) -> PairMoments:
        """Those of sigma + constant."""
        with np.errstate(over="ignore"):
            return replace(self, mean=self.mean + constant * np.exp(-self.log_scale))

    @property
    def plain_mean(self) -> Array:
        """The means themselves, inf or 0 beyond float64."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(self.mean * np.exp(self.log_scale))

    @property
    def plain_variance(self) -> Array:
        """The variances themselves, inf or 0 beyond float64."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            factor = np.exp(self.log_scale)
            return np.where(self.variance == 0, 0.0, self.variance * factor * factor)


def pair_moments(sigma: Activation, deviations: Array, rho: Array) -> PairMoments:
    """The moments of sigma at n Gaussians of the given deviations.

    deviations: (n,), at least 0; rho: (n(n-1)/2,), correlations in [-1, 1] of the pairs (0, 1), (0, 2), ... by rows.
    Error about 1e-15 of sqrt(E sigma^2 E sigma^2). Milliseconds for each different deviation, 5 ms for each pair with
    |rho| above 0.98 of a sigma with kinks. Raises as the moments of sigma do, and PrecisionError for such a pair where
    sigma has a singular point (log|x|).
    """
    p, bare = degree_of(sigma), without_constant(sigma)
    if p is not None:
        return _homogeneous(sigma, float(p), deviations, rho)
    if bare is not sigma:
        return pair_moments(bare, deviations, rho).shifted(float(sigma.expr.args[0].number))
    distinct, of = np.unique(deviations, return_inverse=True)
    lows = [_moments_at(sigma, float(s))[0] for s in distinct]
    mean, variance, scale = (np.array([getattr(low, k) for low in lows]) for k in ("c0", "variance", "log_scale"))
    flat = np.array([_moments_at(sigma, float(s))[1] for s in distinct])
    seconds = np.array([low.second for low in lows])
    hidden = (seconds > LARGE_MEAN * variance) & (seconds > 0.0) & (distinct > 0.0) & (not is_constant(sigma))
    variance[flat] = 0.0
    return PairMoments(mean[of], variance[of], scale[of], _correlations(sigma, distinct, of, rho), hidden[of])


def _homogeneous(sigma: Activation, p: float, deviations: Array, rho: Array) -> PairMoments:
    low = basic(sigma)
    still = deviations == 0
    with np.errstate(divide="ignore"):
        scale = low.log_scale + (p * np.log(deviations) if p else np.zeros_like(deviations))
    mean, variance = np.full_like(scale, low.c0), np.full_like(scale, low.variance)
    if np.any(still):  # the value at 0, which for p = 0 need not be the mean
        mean[still], variance[still], scale[still] = float(sigma(0.0)), 0.0, 0.0
    if low.variance <= (16 * 2.0**-52) ** 2 * low.second:  # the same constant on both sides of 0
        return PairMoments(mean, np.zeros_like(mean), scale, np.zeros_like(rho), still & False)
    correlation = np.asarray(reduced_dual(sigma)(rho))
    if np.any(still):
        i, j = np.triu_indices(len(deviations), 1)
        correlation[still[i] | still[j]] = 0.0
    return PairMoments(mean, variance, scale, correlation, still & False)


@lru_cache(maxsize=4096)
def _moments_at(sigma: Activation, s: float) -> tuple[Scaled, bool]:
    """The scaled moments at deviation s, and whether sigma(s x) is constant to rounding."""
    if s == 0.0:
        m, e = evaluate_scaled(sigma.expr, np.zeros(1))
        value = float(m[0])
        return Scaled(value, 0.0, value * value, 0.0, 0.0, 0.0, float(e[0])), True
    low = basic(_at(sigma, s))
    constant = low.variance <= (16 * 2.0**-52) ** 2 * low.second
    return low, constant


def _at(sigma: Activation, s: float) -> Activation:
    return replace(sigma.scaled(Fraction(s)), name=f"{sigma.name} at {s:.6g}*x")


def _correlations(sigma: Activation, s: Array, of: NDArray[np.intp], rho: Array) -> Array:
    """Correlations of all pairs: by the shortest series that serves them, or one by one."""
    constant = np.array([flat for _, flat in (_moments_at(sigma, float(x)) for x in s)])
    i, j = (of[k] for k in np.triu_indices(len(of), 1))
    out = np.zeros_like(rho)
    varying = ~(constant[i] | constant[j])
    same = varying & (i == j) & (rho == 1.0)
    out[same] = 1.0  # inputs that coincide stay so
    left = np.flatnonzero(varying & ~same & (rho != 0.0))
    for degree in _DEGREES:
        if not len(left):
            return out
        used = np.union1d(i[left], j[left])
        c, tail = np.zeros((degree + 1, len(s))), np.zeros(len(s))
        for m in used:
            c[:, m], tail[m] = _coefficients(sigma, float(s[m]), degree)
        with np.errstate(divide="ignore"):
            rest = 0.5 * np.log(tail[i[left]] * tail[j[left]]) + (degree + 1) * np.log(np.abs(rho[left]))
        good = rest <= math.log(_NEGLIGIBLE)
        done, left = left[good], left[~good]
        out[done] = _summed(c, i[done], j[done], rho[done])
    for k in left:
        out[k] = _one(sigma, float(s[i[k]]), float(s[j[k]]), float(rho[k]))
    return out


@lru_cache(maxsize=4096)
def _coefficients(sigma: Activation, s: float, degree: int) -> tuple[Array, float]:
    """c_0..c_degree over the deviation of sigma(s X), and about the share of the variance beyond."""
    low, _ = _moments_at(sigma, s)
    c = scaled_coefficients(_at(sigma, s), degree) / math.sqrt(low.variance)
    c[0] = 0.0
    tail = max(1.0 - float(np.sum(c * c)), 0.0)
    last = float(np.sum(c[-8:] ** 2))
    converged = tail <= _CONVERGED * max(low.second / low.variance, 1.0) and last <= _LAST
    # beside a longer series of another deviation even a small rest counts: the last terms tell it below rounding
    return c, 16 * last + 1e-300 if converged else max(tail, 1e-14)


def _summed(c: Array, i: NDArray[np.intp], j: NDArray[np.intp], rho: Array) -> Array:
    """sum over k of c_ki c_kj rho^k, by Horner's rule, as many terms as the largest |rho| needs."""
    out = np.zeros_like(rho)
    order = np.argsort(np.abs(rho))
    for start in range(0, len(rho), _BLOCK):
        part = order[start : start + _BLOCK]
        r, a, b = rho[part], i[part], j[part]
        largest = float(np.abs(r).max())
        needed = len(c) - 1 if largest > 0.999 else min(len(c) - 1, int(math.log(1e-20) / math.log(largest)) + 2)
        total = np.zeros_like(r)
        for k in range(needed, 0, -1):
            total += c[k, a] * c[k, b]
            total *= r
        out[part] = total
    return np.clip(out, -1.0, 1.0)


def _one(sigma: Activation, s: float, t: float, rho: float) -> float:
    """The correlation of one pair, whose series has not converged."""
    singular = any(piece.singular_lower or piece.singular_upper for piece in sigma.pieces)
    if singular or (sigma.is_opaque and not _integrable(sigma, s, t, rho < 0)):
        raise PrecisionError(
            f"the moments of {sigma.name} at correlation {rho:.6g} are not available: sigma has a singular point"
        )
    return max(-1.0, min(1.0, _integrated(sigma, s, t, rho)))


def _integrated(sigma: Activation, s: float, t: float, rho: float) -> float:
    low, other = _moments_at(sigma, s)[0], _moments_at(sigma, t)[0]
    first, second = (Side(_at(sigma, x), _values(_at(sigma, x), y)) for x, y in ((s, low), (t, other)))
    found = on_a_line(first, second, mirrored=rho < 0) if abs(rho) == 1.0 else covariance(first, second, rho)
    return found / math.sqrt(low.variance) / math.sqrt(other.variance)


@lru_cache(maxsize=256)
def _integrable(sigma: Activation, s: float, t: float, mirrored: bool) -> bool:
    """Whether the integral agrees with the series where both serve: of a callable no singular point is known."""
    rho = -_BOTH if mirrored else _BOTH
    degree = _DEGREES[-1]
    c = np.array([_coefficients(sigma, x, degree)[0] for x in (s, t)])
    series = float(np.sum(c[0] * c[1] * rho ** np.arange(degree + 1)))
    return abs(_integrated(sigma, s, t, rho) - series) <= _AGREEMENT


def _values(sigma: Activation, low: Scaled) -> Callable[[Array], Array]:
    return lambda x: centred(sigma, low, x)
