"""E sigma'(s X) sigma'(t Y) over pairs of correlated Gaussians: how the moments of pairs answer to their covariance.

By Price's theorem it is the derivative of E sigma(s X) sigma(t Y) by the covariance s t rho. A smooth or kinked sigma
has a derivative that is an activation, with moments over pairs as any other. A jump J at a puts J delta(x - a) into it:

    E delta(s X - a) sigma'(t Y) = phi(a/s)/s E sigma'(t (rho a/s + sqrt(1 - rho^2) Z)),
    E delta(s X - a) delta(t Y - b) = phi_2(a/s, b/t; rho)/(s t),

which is infinite only where rho = +-1 makes the two conditions one. Read by meanfield, for tangent kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ._activation import Activation
from ._build import reduced_dual
from ._by_variance import by_variance
from ._cross import pair_moments
from ._ends import jumps_of
from ._homogeneity import degree_of
from ._numeric import basic
from ._recurrence import Array
from ._rotation import Side, conditional, covariance, on_a_line
from ._slope import derivative, slope_of


def pair_slopes(sigma: Activation, deviations: Array, rho: Array) -> Array:
    """E sigma'(s_i X) sigma'(s_j Y), (n, n) and symmetric, for deviations (n,) and the correlations (n, n) of pairs.

    A jump makes the diagonal infinite, and entries of pairs that coincide or are opposite so that both jump at once.
    Arguments of deviation 0 stay at 0 and meet the slope there; where it is none, or sigma jumps anywhere, the entry is
    0. Error about 1e-13 of the diagonal. Milliseconds for each different deviation of a tree without jumps, 10 ms for
    each pair of others.

    >>> from hermite import activation
    >>> pair_slopes(activation("relu"), np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([[0.5 , 0.25],
           [0.25, 0.5 ]])
    """
    p = degree_of(sigma)
    if p is not None:
        return _homogeneous(sigma, float(p), deviations, rho)
    n = len(deviations)
    i, j = np.triu_indices(n, 1)
    tau = None if sigma.is_opaque or by_variance(sigma).jumps else _derivative(sigma)
    if tau is None:
        pairs = np.array([_one(sigma, *pair) for pair in zip(deviations[i], deviations[j], rho[i, j], strict=True)])
    else:
        found = pair_moments(tau, deviations, rho[i, j])
        spread = np.sqrt(found.plain_variance)
        pairs = found.plain_mean[i] * found.plain_mean[j] + spread[i] * spread[j] * found.correlation
    out = np.diag(by_variance(sigma).derivative(deviations**2))
    out[i, j] = out[j, i] = pairs
    return out


def _homogeneous(sigma: Activation, p: float, deviations: Array, rho: Array) -> Array:
    """E sigma(s X) sigma(t Y) = (s t)^p d(rho), so that the derivative is (s t)^(p - 1) d'(rho)."""
    f = reduced_dual(sigma)
    variance = f.moments.variance * math.exp(2 * f.moments.log_scale)
    moving = deviations > 0
    size = np.where(moving, deviations, 1.0) ** (p - 1) * (moving | (p == 1))
    slope = variance * f.slope(rho.ravel()).reshape(rho.shape)
    both = size[:, None] * size
    with np.errstate(invalid="ignore"):
        return np.where(both == 0, 0.0, both * slope)


@lru_cache(maxsize=256)
def _derivative(sigma: Activation) -> Activation:
    return Activation(derivative(sigma.expr), f"the slope of {sigma.name}", "derivative")


@dataclass(frozen=True, eq=False)
class _Scaled:
    """x -> sigma(s x): its slope without the jumps, and these as (place, height)."""

    side: Side
    jumps: tuple[tuple[float, float], ...]

    @property
    def sigma(self) -> Activation:
        return self.side.sigma

    @property
    def slope(self) -> Callable[[Array], Array]:
        return self.side.values


@lru_cache(maxsize=1024)
def _scaled(sigma: Activation, s: float) -> _Scaled:
    scaled = sigma.scaled(Fraction(s))
    unit = math.exp(basic(scaled).log_scale)
    jumps = tuple((a, J * unit) for a, J in jumps_of(scaled, basic(scaled)))
    return _Scaled(Side(scaled, slope_of(scaled, 0.0)), jumps)


def _one(sigma: Activation, s: float, t: float, rho: float) -> float:
    """The entry of one pair of a callable, or of a sigma with jumps."""
    if s == 0 or t == 0:
        return 0.0
    first, second = _scaled(sigma, s), _scaled(sigma, t)
    if abs(rho) == 1.0:
        smooth = on_a_line(first.side, second.side, mirrored=rho < 0)
    else:
        smooth = covariance(first.side, second.side, rho)
    root = math.sqrt((1 - rho) * (1 + rho))
    for one, other in ((first, second), (second, first)):
        for a, J in one.jumps:
            smooth += J * _density(a) * conditional(other.sigma, other.slope, rho * a, root)
    both = sum(J * L * _joint_density(a, b, rho, root) for a, J in first.jumps for b, L in second.jumps)
    return (smooth + both) / (s * t)


def _density(a: float) -> float:
    return math.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)


def _joint_density(a: float, b: float, rho: float, root: float) -> float:
    """phi_2(a, b; rho): (a^2 - 2 rho a b + b^2)/(1 - rho^2) as a sum of squares over 1 + rho and 1 - rho."""
    if root == 0.0:
        return math.inf if a == rho * b else 0.0
    exponent = (a + b) ** 2 / (4 * (1 + rho)) + (a - b) ** 2 / (4 * (1 - rho))
    return math.exp(-exponent) / (2 * math.pi * root)
