"""What every claim over depth rests on: one run of the network, and how far off each of its numbers may be.

Numbers are logarithms, so that a constant of e^120 beside a gap of e^-1400 is no trouble, and come as brackets:
a claim holds where the brackets of its sides say so, and fails where they say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, Bracket, around, one, settle
from bounds._certificate import Certificate, Hypothesis, certify
from bounds._gamma import LOG_FROM_ODDS
from bounds._gram_path import GramPath, gram_path, logarithm
from bounds._strengths import Strength, is_affine, strength, summed
from meanfield._dynamics import Trajectory, trajectory
from meanfield._gram import check_correlation
from meanfield._layer import Layer, Layers, as_layers
from meanfield._step import Step
from meanfield._walk import stationary_steps

__all__ = ["Run", "answer", "start"]

Floats: TypeAlias = NDArray[np.float64]

_NEAR = 0.01  # distances from 1 below which a correlation does not hold what is known of it


def below(rhs: Bracket, level: float) -> int | None:
    """The first layer at which the bound is less than `level`."""
    layers = np.flatnonzero(rhs.value < level)
    return int(layers[0]) if len(layers) else None


@dataclass(frozen=True, eq=False)
class Run:
    """The layers, their correlation matrix at layer 0, and what is recorded of the way through them.

    repeated: one layer, any number of times.  strengths: beta - 1 and r by layer.
    decay: the sum of log beta over the layers before each.  untouched: whether G_l is G_0 to the last digit.
    """

    layers: tuple[Layer, ...]
    repeated: bool
    C: Floats
    path: Trajectory
    strengths: dict[Layer, Strength]
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
        if len(self.steps) < len(self.layers):
            return Hypothesis("f(0) = 0", False, "the diagonal of G moves: correlations have no map f")
        wrong = next((pair for pair in zip(self.layers, self.steps, strict=True) if pair[1].at_zero), None)
        detail = "" if wrong is None else f"{wrong[0]!r} has f(0) = {wrong[1].at_zero:.6g}"
        return Hypothesis("f(0) = 0", wrong is None, detail)

    @property
    def nonlinear(self) -> Hypothesis:
        """beta > 1 in one layer at least."""
        if not self.strengths:
            return Hypothesis("beta > 1", False, "no layers")
        excess, error = max((x.excess, x.error) for x in self.strengths.values())
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
        return self.mapped(*self.spectrum)

    def mapped(self, start: Bracket, rest: Bracket | None = None) -> Bracket:
        """log of one correlation in [0, 1] through the maps of the layers: two inputs of it go the same way.

        rest: 1 less it, where that is known better.
        """
        rest = 1.0 - start if rest is None else rest
        ends = [(start.value, rest.value), (start.low, rest.high), (start.high, rest.low)]
        paths = [self._pair(min(max(float(x[0]), 0.0), 1.0), min(max(float(y[0]), 0.0), 1.0)) for x, y in ends]
        # the maps increase on [0, 1], so the ends of a bracket stay ends
        odds = [around(path.log_potential, path.log_potential_error) for path in paths]
        found = Bracket(paths[0].log_potential, odds[1].low, odds[2].high).through(LOG_FROM_ODDS)
        return Bracket(found.value, found.low, np.minimum(found.high, 0.0))

    def _pair(self, x: float, rest: float) -> Trajectory:
        pair, apart = (np.array([[d, c], [c, d]]) for d, c in ((1.0, x), (0.0, rest)))
        near = apart if rest < _NEAR else None
        return trajectory(self.layers, pair, complement=near, gap_layers=(), progress=False)

    @cached_property
    def steps(self) -> list[Step]:
        """The maps of correlations of the layers; none where the diagonal moves."""
        found = stationary_steps(self.layers, 1.0)
        return found[0] if found else []

    @cached_property
    def grams(self) -> GramPath:
        """The matrices of all layers; only the first where some layer has f(0) != 0."""
        return gram_path(self.C, self.steps if self.centred.holds else ())

    @cached_property
    def log_rate(self) -> Bracket:
        """The sum of log r, r = 2 - beta, over the layers before each."""
        return summed([self.strengths[x].log_r for x in self.layers])

    @property
    def least_r(self) -> Strength | None:
        """Of the layer with the smallest r; None without layers."""
        return min(self.strengths.values(), key=lambda x: x.r, default=None)

    @property
    def positive_r(self) -> Hypothesis:
        """r > 0 in every layer."""
        least = self.least_r
        holds = least is None or least.low > 0.0
        detail = "" if least is None else f"smallest r = {least.r:.6g}" + ("" if holds else ", 0 or lost in rounding")
        return Hypothesis("r > 0", holds, detail)

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
    known = {x: strength(x) for x in ((layer,) if isinstance(layer, Layer) else dict.fromkeys(layers))}
    logs = [known[x].log_beta for x in layers]
    # a layer of f(rho) = rho changes no digit, and no layer one of f(0) = 0
    linear = [1, *(is_affine(x.sigma) and not x.bias_variance for x in layers)]
    untouched = np.cumprod(linear).astype(bool) | (path.max_correlation[0] == 0.0)
    return Run(layers, isinstance(layer, Layer), C, path, known, summed(logs), untouched)


def answer(
    claim: str,
    source: str,
    lhs: Bracket | Sequence[Bracket],
    rhs: Bracket | Sequence[Bracket],
    *,
    threshold_layer: int | None = None,
    level: float | None = None,
    **rest: Any,
) -> Certificate:
    """The certificate of one claim over depth, or of several sides, whose order `sides` names.

    level: what a bound must be below to be informative, the gap at layer 0 if it is that which is bounded.
    """
    sides = [[side] if isinstance(side, Bracket) else side for side in (lhs, rhs)]
    pairs = list(zip(*sides, strict=True))
    informative = None if level is None else below(pairs[-1][1], level)
    if not all(hypothesis.holds for hypothesis in rest["hypotheses"] if not hypothesis.side):
        informative = threshold_layer = None
    found = [settle(x, y) for x, y in pairs]
    whole = [[x.value for x, _ in pairs], [y.value for _, y in pairs], *zip(*found, strict=True)]
    shape = np.broadcast_shapes(*(np.shape(part) for column in whole for part in column))
    left, right, slack, tolerance = (np.stack([np.broadcast_to(part, shape) for part in column]) for column in whole)
    if isinstance(lhs, Bracket):
        left, right, slack, tolerance = left[0], right[0], slack[0], tolerance[0]
    return certify(
        claim,
        source,
        left,
        right,
        slack=slack,
        tolerance=tolerance,
        threshold_layer=threshold_layer,
        first_informative_layer=informative,
        **rest,
    )
