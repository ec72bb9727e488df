"""What every claim over depth rests on: one run of the network, and how far off each of its numbers may be.

Numbers are logarithms, so that a constant of e^120 beside a gap of e^-1400 is no trouble, and come as brackets:
a claim holds where the brackets of its sides say so, and fails where they say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Hypothesis
from hermite._activation import Activation
from hermite._moments import Moments
from hermite._numeric import varying
from hermite._roots import as_polynomial
from meanfield._dynamics import Trajectory, trajectory
from meanfield._gram import check_correlation
from meanfield._layer import Layer, Layers, as_layers

__all__ = ["Bracket", "Run", "below", "settle", "start"]

Floats: TypeAlias = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
MAP_ERROR = 4e-15  # of an entry in one layer, relative to f(|entry|); measured 1e-15 against 60 digits
_UNDERFLOWS = 1e-280  # below it a gap has a logarithm, but no relative error bar of its own
_SUBNORMAL = math.ulp(0.0)


class Bracket(NamedTuple):
    """Numbers, one for each layer, with proven or measured bounds: low <= true value <= high."""

    value: Floats
    low: Floats
    high: Floats

    def widened(self, ulps: float = 8.0) -> Bracket:
        """Room for the rounding of the last few operations; infinities stay."""
        size = np.where(np.isfinite(self.value), np.abs(self.value), 0.0)
        room = ulps * EPS * (1.0 + size)
        return Bracket(self.value, self.low - room, self.high + room)


def settle(lhs: Bracket, rhs: Bracket) -> tuple[Floats, Floats]:
    """Slack rhs - lhs and its tolerance, layer by layer.

    Of the errors only those count that could reverse the sign of the slack.  An infinite slack has no error bar, so
    there the brackets decide between tolerance 0 and inf.
    """
    with np.errstate(invalid="ignore"):
        slack = np.where(lhs.value == rhs.value, 0.0, rhs.value - lhs.value)
        against = (lhs.high - lhs.value) + (rhs.value - rhs.low)
        towards = (lhs.value - lhs.low) + (rhs.high - rhs.value)
        tolerance = np.where(slack >= 0, against, towards)
    certain = np.where(slack >= 0, rhs.low >= lhs.high, rhs.high < lhs.low)
    same = (slack == 0) & ((lhs.high == rhs.low) | np.isnan(tolerance))
    tolerance = np.where(np.isfinite(slack) & ~np.isnan(tolerance), tolerance, np.where(certain, 0.0, math.inf))
    return slack, np.where(same, 0.0, tolerance)


def below(rhs: Bracket, level: float) -> int | None:
    """The first layer at which the bound is less than `level`."""
    layers = np.flatnonzero(rhs.value < level)
    return int(layers[0]) if len(layers) else None


@dataclass(frozen=True, eq=False)
class Run:
    """The layers, their correlation matrix at layer 0, and what is recorded of the way through them.

    decay: the sum of log beta over the layers before each.  entry_error: bound on |error| of every entry of G_l.
    strengths: (beta - 1, its error) of each layer.
    """

    layers: tuple[Layer, ...]
    repeated: bool
    C: Floats
    path: Trajectory
    decay: Bracket
    entry_error: Floats
    strengths: tuple[tuple[float, float], ...]

    @property
    def n(self) -> int:
        return len(self.C)

    @property
    def definite(self) -> Hypothesis:
        """det G0 > 0, as far as float64, or for small n exact arithmetic, can tell."""
        status = self.path.status[0]
        holds = status in ("resolved", "exact")
        detail = f"log det G0 = {-self.n * float(self.path.isometry_gap[0]):.6g}" if holds else status
        if status == "unresolved":
            detail += ": its smallest eigenvalue is within rounding of 0"
        return Hypothesis("det G0 > 0", holds, detail)

    @property
    def nonlinear(self) -> Hypothesis:
        """beta > 1 in one layer at least."""
        if not self.strengths:
            return Hypothesis("beta > 1", False, "no layers")
        excess, error = max(self.strengths)
        detail = f"beta - 1 = {excess:.6g}" if excess > error else "every layer is linear, beta = 1, up to rounding"
        return Hypothesis("beta > 1", excess > error, detail)

    @cached_property
    def log_det(self) -> Bracket:
        """log det G0, one number."""
        gap, error = float(self.path.isometry_gap[0]), float(self.path.isometry_gap_error[0])
        if math.isinf(gap):
            return _one(-math.inf, -math.inf, -math.inf if error == 0 else math.inf)
        return _one(-self.n * gap, -self.n * (gap + error), -self.n * max(gap - error, 0.0))

    @cached_property
    def spread(self) -> Bracket:
        """mu_0 = 1 - lambda_min(G0), one number in [0, 1]: minus the smallest eigenvalue of G0 - I."""
        if self.n <= 2:
            mu, error = float(self.path.max_correlation[0]), 0.0
        else:
            eigenvalues = np.linalg.eigvalsh(self.C - np.eye(self.n))
            mu, error = -float(eigenvalues[0]), self.n * EPS * float(np.abs(eigenvalues).max())
        # det G0 <= lambda e^(1 - lambda) keeps lambda off 0 where the eigenvalue is lost in rounding
        least = math.exp(float(self.log_det.low[0]) - 1.0)
        high = min(mu + error, 1.0 - least)
        return _one(min(max(mu, 0.0), 1.0), max(mu - error, 0.0), max(high, mu - error, 0.0))

    @cached_property
    def odds(self) -> Bracket:
        """log of (prod beta^-1) (1/lambda_0 - 1) for each layer."""
        with np.errstate(divide="ignore"):
            start = Bracket(*(np.log(mu) - np.log1p(-mu) for mu in self.spread))
        return _minus(start.widened(), self.decay)

    @cached_property
    def log_gaps(self) -> Bracket:
        """log gap(G_l), with the errors of the factorisation, of the map, and of the layers before.

        An error A of the matrix with |A|_F <= n e moves the gap by at most |G - I|_F n e/(n lambda) to first order.
        """
        path, n = self.path, self.n
        largest, e = path.max_correlation + self.entry_error, self.entry_error
        with np.errstate(all="ignore"):
            log_least = -np.logaddexp(0.0, self.odds.high)  # lambda_min(G_l) is at least 1/(1 + odds)
            x = np.where(e > 0, n * e * np.exp(-log_least), 0.0)
            moved = np.where(x < 0.25, largest * x + x * x / n, math.inf)
            tiny = np.where(e > 0, n * x / largest * (1.0 + x / largest), 0.0) + 8.0 * EPS
            relative = (path.isometry_gap_error + moved) / path.isometry_gap
            relative = np.where(path.isometry_gap < _UNDERFLOWS, np.where(x < 0.25, tiny, math.inf), relative)
            relative = np.where(np.isnan(relative), np.where(path.isometry_gap_error > 0, math.inf, 0.0), relative)
            value = path.log_isometry_gap
            high = value + np.log1p(relative)
            low = np.where(relative < 1.0, value + np.log1p(-np.minimum(relative, 1.0)), -math.inf)
            vanished = np.where(e > 0, math.log(2.0 * n) + 2.0 * (np.log(e) - log_least), -math.inf)
        zero = value == -math.inf
        result = Bracket(value, np.where(zero, -math.inf, low), np.where(zero, vanished, high))
        return result.widened()

    @cached_property
    def log_potentials(self) -> Bracket:
        """log potential(G_l); the entries of G0 are taken as exact."""
        path, e = self.path, self.entry_error
        with np.errstate(divide="ignore"):
            low, high = (np.clip(path.max_correlation + s * e, 0.0, 1.0) for s in (-1.0, 1.0))
            odds = [np.log(m) - np.log1p(-m) for m in (low, high)]
        return Bracket(path.log_potential, odds[0], odds[1])


def start(layer: Layers, G0: Any, depth: int | None, *, gaps: bool = True) -> Run:
    """Run the layers from G0, checking arguments at the door as `meanfield.trajectory` does."""
    layers = as_layers(layer, depth)
    C = check_correlation(G0, name="G0")
    # every layer is claimed, so every layer needs its gap, at any n
    path = trajectory(layers, C, gap_layers=range(len(layers) + 1) if gaps else (), progress=False)
    strengths = tuple(_strength(x.sigma) for x in layers)
    # the certificate's own bracket at layer 0 is exact
    sums = np.zeros((2, len(layers) + 1))
    for l, (excess, error) in enumerate(strengths):
        sums[:, l + 1] = sums[:, l] + (math.log1p(excess), (error / (1.0 + excess)) + 2 * EPS * excess)
    decay = Bracket(sums[0], sums[0] - sums[1], sums[0] + sums[1])
    errors = _entry_errors(layers, path.max_correlation)
    return Run(layers, isinstance(layer, Layer), C, path, decay, errors, strengths)


def is_affine(sigma: Activation) -> bool:
    """Whether sigma is a + b x to the last digit, so that its layer changes nothing."""
    coefficients = as_polynomial(sigma.expr)
    return coefficients is not None and len(coefficients) <= 2


def _strength(sigma: Activation) -> tuple[float, float]:
    """beta - 1 without the digits that 1 would cost, and its error by the contract of `isometry_strength`."""
    low = varying(sigma)
    if is_affine(sigma):
        return 0.0, 0.0
    found = Moments((low.c0, low.c1), low.second, low.variance, low.residual, low.error, "")
    return min(low.residual / low.variance, 1.0), float(found.strength_error)


def _entry_errors(layers: tuple[Layer, ...], largest: Floats) -> Floats:
    """Bound on the error of every entry at each layer, from the map's own error and its slope.

    |f'(x)| <= f'(|x|), and f is convex on [0, 1]: an error e of an entry of size up to m becomes at most e times the
    slope of a chord from m that is longer than e.
    """
    errors = [0.0]
    for layer, m in zip(layers, largest[:-1].tolist(), strict=True):
        e = errors[-1]
        chord = max(m / 8.0, e) if m + max(m / 8.0, e) <= 1.0 else 1.0 - m
        if m == 0.0 == e or e > chord:
            errors.append(e if e == 0.0 else math.inf)
            continue
        here, there = np.asarray(layer.map([m, m + chord])).tolist()
        if is_affine(layer.sigma):
            errors.append(e + abs(here - m))
            continue
        slope = (there - here + 2.0 * MAP_ERROR * there) / chord if e > 0.0 else 0.0
        errors.append(slope * e + MAP_ERROR * here + (_SUBNORMAL if here < _UNDERFLOWS else 0.0))
    return np.array(errors)


def _one(value: float, low: float, high: float) -> Bracket:
    return Bracket(np.array([value]), np.array([low]), np.array([high]))


def _minus(left: Bracket, right: Bracket) -> Bracket:
    return Bracket(left.value - right.value, left.low - right.high, left.high - right.low)
