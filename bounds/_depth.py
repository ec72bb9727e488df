"""What every claim over depth rests on: one run of the network, and how far off each of its numbers may be.

Numbers are logarithms, so that a constant of e^120 beside a gap of e^-1400 is no trouble, and come as brackets:
a claim holds where the brackets of its sides say so, and fails where they say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, Bracket, around, one
from bounds._certificate import Hypothesis
from bounds._gamma import LOG_FROM_ODDS
from hermite._activation import Activation
from hermite._algebra import as_polynomial
from hermite._moments import Moments
from hermite._numeric import varying
from meanfield._dynamics import Trajectory, trajectory
from meanfield._gram import check_correlation
from meanfield._layer import Layer, Layers, as_layers
from meanfield._walk import stationary_steps

__all__ = ["Run", "below", "start"]

Floats: TypeAlias = NDArray[np.float64]


def logarithm(bracket: Bracket) -> Bracket:
    """Natural logarithms of numbers >= 0."""
    with np.errstate(divide="ignore"):
        return Bracket(*(np.log(np.maximum(end, 0.0)) for end in (bracket.value, bracket.low, bracket.high))).widened()


def below(rhs: Bracket, level: float) -> int | None:
    """The first layer at which the bound is less than `level`."""
    layers = np.flatnonzero(rhs.value < level)
    return int(layers[0]) if len(layers) else None


@dataclass(frozen=True, eq=False)
class Run:
    """The layers, their correlation matrix at layer 0, and what is recorded of the way through them.

    repeated: one layer, any number of times.  strengths: (beta - 1, its error) of each layer, once if it is repeated.
    decay: the sum of log beta over the layers before each.  untouched: whether G_l is G_0 to the last digit.
    """

    layers: tuple[Layer, ...]
    repeated: bool
    C: Floats
    path: Trajectory
    strengths: tuple[tuple[float, float], ...]
    decay: Bracket
    untouched: NDArray[np.bool_]

    @property
    def n(self) -> int:
        return len(self.C)

    @property
    def definite(self) -> Hypothesis:
        """det G0 > 0, as far as float64, or for small n exact arithmetic, can tell."""
        status = self.path.status[0]
        holds = status in ("resolved", "exact")
        detail = f"log det G0 = {float(self.log_det.value[0]):.6g}" if holds else status
        if status == "unresolved":
            detail += ": its smallest eigenvalue is within rounding of 0"
        return Hypothesis("det G0 > 0", holds, detail)

    @property
    def centred(self) -> Hypothesis:
        """Whether every layer maps orthogonal inputs to orthogonal ones: the claims are about f with f(0) = 0."""
        found = stationary_steps(self.layers, 1.0)
        if found is None:
            return Hypothesis("f(0) = 0", False, "the diagonal of G moves: correlations have no map f")
        wrong = next((pair for pair in zip(self.layers, found[0], strict=True) if pair[1].at_zero), None)
        detail = "" if wrong is None else f"{wrong[0]!r} has f(0) = {wrong[1].at_zero:.6g}"
        return Hypothesis("f(0) = 0", wrong is None, detail)

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
            return one(-math.inf, -math.inf, -math.inf if error == 0 else 0.0)
        return one(0.0 - self.n * gap, 0.0 - self.n * (gap + error), 0.0 - self.n * max(gap - error, 0.0))

    @cached_property
    def spectrum(self) -> tuple[Bracket, Bracket]:
        """mu_0 = 1 - lambda_0 and lambda_0, the smallest eigenvalue of G0: one number each."""
        if self.n <= 2 or self.path.status[0] == "singular":
            mu, error = float(self.path.max_correlation[0]) if self.n <= 2 else 1.0, 0.0
        else:
            eigenvalues = np.linalg.eigvalsh(self.C - np.eye(self.n))  # of the difference: mu may be 1e-9
            mu, error = max(-float(eigenvalues[0]), 0.0), self.n * EPS * float(np.abs(eigenvalues).max())
        # det G0 <= lambda e^(1 - lambda) keeps lambda off 0 where the eigenvalue is lost in rounding
        least = max(1.0 - mu - error, math.exp(float(self.log_det.low[0]) - 1.0))
        most = min(1.0 - mu + error, 1.0)
        spread = one(min(mu, 1.0), max(min(mu, 1.0) - error, 0.0), min(mu + error, 1.0))
        return spread, one(min(max(1.0 - mu, least), most), least, most)

    @cached_property
    def odds(self) -> Bracket:
        """log of (prod beta^-1) (1/lambda_0 - 1) at each layer."""
        mu, eigenvalue = self.spectrum
        return logarithm(mu) - logarithm(eigenvalue) - self.decay

    @cached_property
    def log_spreads(self) -> Bracket:
        """log of mu_0 = 1 - lambda_0 through the maps of the layers."""
        return self.mapped(self.spectrum[0])

    def mapped(self, start: Bracket) -> Bracket:
        """log of one correlation in [0, 1] through the maps of the layers: two inputs of it go the same way."""
        low, value, high = (float(end[0]) for end in (start.low, start.value, start.high))
        ends = (np.array([[1.0, x], [x, 1.0]]) for x in (value, max(low, 0.0), min(high, 1.0)))
        paths = [trajectory(self.layers, pair, gap_layers=(), progress=False) for pair in ends]
        # the maps increase on [0, 1], so the ends of a bracket stay ends
        odds = [around(path.log_potential, path.log_potential_error) for path in paths]
        found = Bracket(paths[0].log_potential, odds[1].low, odds[2].high).through(LOG_FROM_ODDS)
        return Bracket(found.value, found.low, np.minimum(found.high, 0.0))

    @cached_property
    def log_gaps(self) -> Bracket:
        """log gap(G_l)."""
        value, error = self.path.log_isometry_gap, self.path.log_isometry_gap_error
        return around(value, error).widened()

    @cached_property
    def log_potentials(self) -> Bracket:
        """log potential(G_l); the entries of G0 are taken as exact."""
        error = np.where(self.untouched, 0.0, self.path.log_potential_error)
        return around(self.path.log_potential, error)


def start(layer: Layers, G0: Any, depth: int | None, *, gaps: bool = True) -> Run:
    """Run the layers from G0, checking arguments at the door as `meanfield.trajectory` does."""
    layers = as_layers(layer, depth)
    C = check_correlation(G0, name="G0")
    # every layer is claimed, so every layer needs its gap, at any n
    path = trajectory(layers, C, gap_layers=range(len(layers) + 1) if gaps else (), progress=False)
    repeated = isinstance(layer, Layer)
    strengths = tuple(_strength(x) for x in ((layer,) if isinstance(layer, Layer) else layers))
    sums = np.zeros((2, len(layers) + 1))
    for l, (excess, error) in enumerate(strengths * len(layers) if repeated else strengths):
        log_beta = math.log1p(excess)
        sums[0, l + 1] = sums[0, l] + log_beta
        sums[1, l + 1] = sums[1, l] + error / (1.0 + excess) + EPS * (log_beta + sums[0, l + 1])
    decay = Bracket(sums[0], sums[0] - sums[1], sums[0] + sums[1])
    # a layer of f(rho) = rho changes no digit, and no layer one of f(0) = 0
    linear = [1, *(_is_affine(x.sigma) and not x.bias_variance for x in layers)]
    untouched = np.cumprod(linear).astype(bool) | (path.max_correlation[0] == 0.0)
    return Run(layers, repeated, C, path, strengths, decay, untouched)


def _is_affine(sigma: Activation) -> bool:
    """Whether sigma is a + b x to the last digit."""
    coefficients = as_polynomial(sigma.expr)
    return coefficients is not None and len(coefficients) <= 2


def _strength(layer: Layer) -> tuple[float, float]:
    """beta - 1 without the digits that 1 would cost, and its error by the contract of `isometry_strength`."""
    low = varying(layer.sigma)
    if _is_affine(layer.sigma):
        return 0.0, 0.0
    found = Moments((low.c0, low.c1), low.second, low.variance, low.residual, low.error, "")
    rest = 1.0 - layer.keep  # a skip leaves so much of the layer
    excess = rest * min(low.residual / low.variance, 1.0)
    return excess, rest * float(found.strength_error) + (EPS * excess if layer.keep else 0.0)
