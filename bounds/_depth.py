"""What every claim over depth rests on: one run of the network, and how far off each of its numbers may be.

Numbers are logarithms, so that a constant of e^120 beside a gap of e^-1400 is no trouble, and come as brackets:
a claim holds where the brackets of its sides say so, and fails where they say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, Bracket, around, identical, one
from bounds._certificate import Hypothesis
from bounds._equalities import Equalities
from bounds._gamma import LOG_FROM_ODDS
from bounds._gram_path import GramPath, gram_path, logarithm
from bounds._strengths import Strength, strength, summed
from meanfield._dynamics import Trajectory, trajectory
from meanfield._gram import check_correlation
from meanfield._layer import Layer, Layers, as_layers
from meanfield._step import Step
from meanfield._walk import stationary_steps

__all__ = ["Run", "start"]

Floats: TypeAlias = NDArray[np.float64]

_NEAR = 0.01  # distances from 1 below which a correlation does not hold what is known of it


@dataclass(frozen=True, eq=False)
class Run:
    """The layers, their correlation matrix at layer 0, and what is recorded of the way through them.

    repeated: one layer, any number of times.  strengths: beta - 1 and r by layer.
    """

    layers: tuple[Layer, ...]
    repeated: bool
    C: Floats
    path: Trajectory
    strengths: dict[Layer, Strength]

    def log(self, number: Fraction | int) -> Bracket:
        """log of an exact number >= 0."""
        return one(math.log(number) if number else -math.inf).widened()

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
        mu, eigenvalue = self.log_spectrum
        return mu - eigenvalue - self.decay

    @cached_property
    def log_spectrum(self) -> tuple[Bracket, Bracket]:
        """log of mu_0 and of lambda_0."""
        return logarithm(self.spectrum[0]), logarithm(self.spectrum[1])

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
        near = apart if rest < _NEAR and len(self.steps) == len(self.layers) else None
        return trajectory(self.layers, pair, complement=near, gap_layers=(), progress=False)

    @cached_property
    def steps(self) -> list[Step]:
        """The maps of correlations of the layers; none where the diagonal moves."""
        found = stationary_steps(self.layers, 1.0)
        return found[0] if found else []

    @cached_property
    def equal(self) -> Equalities:
        """Where both sides of a claim are one number."""
        return Equalities(self.C, self.layers, self.steps)

    @cached_property
    def grams(self) -> GramPath:
        """The matrices of all layers; only the first where some layer has f(0) != 0."""
        return gram_path(self.C, self.steps if self.centred.holds else ())

    @cached_property
    def decay(self) -> Bracket:
        """The sum of log beta over the layers before each."""
        return summed([self.strengths[x].log_beta for x in self.layers])

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

    @property
    def separated(self) -> Hypothesis:
        """No two inputs coincide or are opposite."""
        largest = float(self.path.max_correlation[0])
        return Hypothesis("max|G_ij| < 1", largest < 1.0, f"max|G_ij| = {largest:.6g}")

    @property
    def power(self) -> float:
        """1/r of the least r, rounded up: psi with any power from 1/r on contracts by r."""
        least = self.least_r
        return 1.0 / (least.low if least and least.low > 0.0 else 1.0)

    @property
    def unmixed(self) -> Hypothesis:
        """|f(rho)| = f(|rho|) for every entry in every layer: G >= 0, or f odd, or even, after which G >= 0."""
        holds = bool(self.equal.unmixed.all())
        detail = f"smallest entry {self.C.min():.6g}" + ("" if holds else ", and a layer that is neither odd nor even")
        return Hypothesis("G0 >= 0, or layers odd or even until G >= 0", holds, detail)

    @cached_property
    def log_ratio(self) -> Bracket:
        """log of s_l = f^l(mu_0)/mu_0, 1 where mu_0 = 0."""
        if self.spectrum[0].value[0] == 0.0:
            return 0.0 * self.decay
        found = self.log_spreads - self.log_spreads[0]
        none = np.zeros_like(found.value)
        return identical(Bracket(none, none, none), found, self.equal.untouched)[1]

    @cached_property
    def log_largest(self) -> Bracket:
        """log max |G_ij| at each layer."""
        return self.log_potentials.through(LOG_FROM_ODDS)

    @cached_property
    def log_of_moduli(self) -> Bracket:
        """log of the rms of f^l(|G0_ij|) at each layer; |G0| need not be positive semidefinite."""
        return gram_path(np.abs(self.C), self.steps if self.centred.holds else ()).log_rms

    @cached_property
    def log_quadratic(self) -> Bracket:
        """log of m_0 = max |G0_ij| through m -> r m + (1 - r) m^2, the largest map of linearity r."""
        m = float(self.path.max_correlation[0])
        found = [(math.log(m) if m else -math.inf,) * 3]
        for layer in self.layers:
            rates = self.strengths[layer]
            ends = [_quadratic(x, r) for x, r in zip(found[-1], (rates.r, rates.low, rates.high), strict=True)]
            room = 4 * EPS * (1.0 + abs(ends[0])) if math.isfinite(ends[0]) else 0.0
            found.append((ends[0], ends[1] - room, min(ends[2] + room, 0.0)))
        return Bracket(*(np.array(ends) for ends in zip(*found, strict=True)))

    @property
    def log_smallest(self) -> Bracket:
        """log(1 - lambda_min(G_l)) at each layer."""
        return self.grams.log_spreads

    @property
    def log_rms(self) -> Bracket:
        """log of the root mean square of the correlations at each layer."""
        return self.grams.log_rms

    @cached_property
    def mapped_rms(self) -> Bracket:
        """log of t_0, the root mean square of the correlations at layer 0, through the maps."""
        first = self.log_rms[0]
        return self.mapped(Bracket(*map(np.exp, (first.value, first.low, first.high))).widened())

    @cached_property
    def mapped_largest(self) -> Bracket:
        """log of m_0 = max |G0_ij| through the maps."""
        m, rest = float(self.path.max_correlation[0]), float(np.abs(np.exp(-self.path.log_potential[0])))
        return self.mapped(one(m), one(m * rest) if rest < _NEAR else None)

    @cached_property
    def common_signs(self) -> NDArray[np.int_]:
        """Where all correlations are one number at every layer its sign, as far as it is certain; else 0."""
        if self.n < 2 or not np.all(self.equal.entries == self.equal.entries[0]) or not self.steps:
            same = self.n > 1 and bool(np.all(self.equal.entries == self.equal.entries[0]))
            return np.full(len(self.layers) + 1, int(np.sign(self.equal.entries[0])) if same else 0)
        rho, error, signs = float(self.equal.entries[0]), 0.0, []
        for step in [*self.steps, None]:
            signs.append(int(np.sign(rho)) if abs(rho) > error else 0)
            if step is not None:
                error = step.spread(abs(rho), error)
                rho = float(step(np.array([rho]))[0])
        return np.array(signs)

    # ---- signs: of one repeated layer ---------------------------------------------------------------------

    @property
    def even_share(self) -> float:
        """e = (1 + f(-1))/2, the sum of the weights of even powers; 0 for odd f."""
        step = self.steps[0]
        return 0.0 if step.parity == -1 else max((1.0 + float(step(np.array([-1.0]))[0])) / 2.0, 0.0)

    @property
    def reach_of_signs(self) -> float:
        """r/e, rounded down."""
        e = self.even_share
        return min(next(iter(self.strengths.values())).low / (e + 4 * EPS), 1.0) if e else 1.0

    def log_least_negated(self, x: float) -> Bracket:
        """log of x/(1 + s x/(r - e x)), s = e/(1 - r), which falls with s and e and rises with r; e <= 1 - r."""
        only, e = next(iter(self.strengths.values())), self.even_share
        rest = [only.excess, only.excess + only.error, only.excess - only.error]
        room = 0.0 if self.steps[0].parity == -1 else 4 * EPS
        even = [e, max(e - room, 0.0), min(e + room, rest[1])]
        shares = [min(y / b, 1.0) if b > 0.0 else float(y > 0.0) for y, b in zip(even, rest, strict=True)]
        left = [r - y * x for r, y in zip((only.r, only.high, only.low), even, strict=True)]
        logs = [-math.log1p(s * x / d) if d > 0.0 else -math.inf for s, d in zip(shares, left, strict=True)]
        return (one(logs[0], logs[2], logs[1]).widened()) + math.log(x)

    @property
    def log_frozen(self) -> Bracket:
        """log(1 - 1/(2r)), r > 1/2."""
        only = next(iter(self.strengths.values()))
        return one(*(math.log1p(-0.5 / r) for r in (only.r, only.low, only.high))).widened()

    @property
    def mapped_positive(self) -> Bracket:
        """log of sqrt(q) f_l(tau), q the share of positive pairs, tau the root mean square of their correlations."""
        entries = self.C[np.tril_indices(self.n, -1)]
        positive = entries[entries > 0.0]
        if not len(positive):
            return one(-math.inf) + 0.0 * self.decay
        tau, room = math.sqrt(float(np.square(positive).mean())), (len(positive) + 4) * EPS
        found = self.mapped(one(tau, tau * (1.0 - room), min(tau * (1.0 + room), 1.0)))
        return found + (0.5 * math.log(len(positive) / len(entries)))

    def log_negated(self, i: int, j: int) -> Bracket:
        """log of -G_ij at each layer, -inf where it is not negative; of the pair alone, with errors of its own size."""
        pair = gram_path(self.C[np.ix_([i, j], [i, j])], self.steps)
        return pair.log_of(-pair.E[:, 0, 1], pair.error)

    @property
    def log_partial_sums(self) -> list[Bracket]:
        """For k = 1..n-1 the log of the sum of the k largest eigenvalues of G_l - I, at each layer."""
        return self.grams.log_partial_sums

    def mixture_gap(self, log_ratio: Bracket) -> Bracket:
        """log gap((1 - s) I + s G0), which increases with s."""
        if self.path.status[0] == "singular" and not np.any(log_ratio.value):  # s = 1
            return one(math.inf) + log_ratio
        ends = [self.grams.mixture_gap(x) for x in (log_ratio.value, log_ratio.low, log_ratio.high)]
        found = logarithm(Bracket(ends[0].value, ends[1].low, ends[2].high))
        return found + 2.0 * log_ratio

    @cached_property
    def log_gaps(self) -> Bracket:
        """log gap(G_l)."""
        found = around(self.path.log_isometry_gap, self.path.log_isometry_gap_error).widened()
        first = found[0]
        same = self.equal.untouched  # whatever the gap of layer 0 took
        ends = zip((found.value, found.low, found.high), (first.value, first.low, first.high), strict=True)
        return Bracket(*(np.where(same, start, end) for end, start in ends))

    @cached_property
    def log_potentials(self) -> Bracket:
        """log potential(G_l); the entries of G0 are taken as exact."""
        error = np.where(self.equal.untouched, 0.0, self.path.log_potential_error)
        return around(self.path.log_potential, error)


def _quadratic(log_m: float, r: float) -> float:
    """log(r m + (1 - r) m^2)."""
    logs = [math.log(x) if x > 0.0 else -math.inf for x in (r, 1.0 - r)]
    return log_m + float(np.logaddexp(logs[0], logs[1] + log_m))


def start(layer: Layers, G0: Any, depth: int | None, *, gaps: bool = True) -> Run:
    """Run the layers from G0, checking arguments at the door as `meanfield.trajectory` does."""
    layers = as_layers(layer, depth)
    C = check_correlation(G0, name="G0")
    # every layer is claimed, so every layer needs its gap, at any n
    path = trajectory(layers, C, gap_layers=range(len(layers) + 1) if gaps else (), progress=False)
    known = {x: strength(x) for x in ((layer,) if isinstance(layer, Layer) else dict.fromkeys(layers))}
    return Run(layers, isinstance(layer, Layer), C, path, known)
