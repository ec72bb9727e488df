"""The Gram matrices of all layers with error bars, and their spectra: what claims about eigenvalues over depth read.

Far from the input E_l = G_l - I is a number too small for float64 times a matrix of ordinary size: both are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, LOST, Bracket
from meanfield._gap import log1p_excess
from meanfield._step import Step

__all__ = ["GramPath", "logarithm"]

Floats: TypeAlias = NDArray[np.float64]

_LINEAR = 1e-100  # largest |E_ij| below which the first term of the map is the map, to far less than rounding


def logarithm(bracket: Bracket) -> Bracket:
    """Natural logarithms of numbers >= 0."""
    with np.errstate(divide="ignore"):
        return Bracket(*(np.log(np.maximum(end, 0.0)) for end in (bracket.value, bracket.low, bracket.high))).widened()


@dataclass(frozen=True, eq=False)
class GramPath:
    """E_l = G_l - I = exp(scale_l) E[l] up to exp(scale_l) error[l] in every entry, for layers 0..depth.

    E: (depth + 1, n, n), zero diagonals; scale, error: (depth + 1,).  error[0] = 0: the input is what it is.
    """

    scale: Floats
    E: Floats
    error: Floats

    @cached_property
    def eigenvalues(self) -> Floats:
        """Of E[l], increasing: (depth + 1, n), each off by at most `eigenvalue_error`."""
        return np.asarray(np.linalg.eigvalsh(self.E), dtype=np.float64)

    @cached_property
    def eigenvalue_error(self) -> Floats:
        """(depth + 1,): n - 1 entries of a row are off, and the solver is backward stable."""
        n, size = self.E.shape[1], np.abs(self.eigenvalues).max(axis=1)
        return np.asarray((n - 1) * self.error + 4 * n * EPS * size)

    @cached_property
    def log_spreads(self) -> Bracket:
        """log(1 - smallest eigenvalue of G_l)."""
        return self.log_of(-self.eigenvalues[:, 0], self.eigenvalue_error)

    @cached_property
    def log_rms(self) -> Bracket:
        """log of the root of the mean square correlation."""
        n, largest = self.E.shape[1], np.abs(self.E).max(axis=(1, 2))
        unit = np.where(largest > 0, largest, 1.0)
        squares = np.square(self.E / unit[:, None, None]).sum(axis=(1, 2))
        rms = unit * np.sqrt(squares / max(n * (n - 1), 1))
        return self.log_of(rms, self.error + (n + 4) * EPS * rms)

    @cached_property
    def log_partial_sums(self) -> list[Bracket]:
        """For k = 1..n-1 the log of the sum of the k largest eigenvalues of G_l - I."""
        n = self.E.shape[1]
        sums = np.cumsum(self.eigenvalues[:, ::-1], axis=1)
        size = np.abs(self.eigenvalues).sum(axis=1)
        errors = (k * (self.eigenvalue_error + EPS * size) for k in range(1, n))
        return [self.log_of(sums[:, k], error) for k, error in enumerate(errors)]

    def mixture_gap(self, log_s: Floats) -> Bracket:
        """gap((1 - s) I + s G_0)/s^2 at each s: the mean of e(s x)/s^2 over the eigenvalues x of G_0 - I.

        They sum to 0, and e(t) = t - log(1 + t). An error d of x moves e(s x) by s d |s x|/(1 + s (x - d)) at most.
        """
        x, d, s = self.eigenvalues[0], float(self.eigenvalue_error[0]), np.exp(log_s)[:, None]
        t = s * x
        with np.errstate(divide="ignore", invalid="ignore"):
            direct = (t - np.log1p(np.maximum(t, -1.0))) / (s * s)
            series = x * x * (1 / 2 - t / 3 + t * t / 4)  # the next term is below t^3/5
            value = np.where(np.abs(t) < 1e-5, series, np.where(np.abs(t) < 0.5, log1p_excess(t) / (s * s), direct))
            rest = 1.0 + s * (x - d)
            room = np.where(rest > 0.0, d * (np.abs(x) + d) / np.maximum(rest, EPS), math.inf)
        found, error = value.mean(axis=1), room.mean(axis=1) + 16 * EPS * value.mean(axis=1)
        with np.errstate(invalid="ignore"):
            low = np.where(np.isfinite(error), found - error, 0.0)
        return Bracket(found, low, np.where(np.isnan(found + error), math.inf, found + error))

    def log_of(self, value: Floats, error: Floats) -> Bracket:
        """log of exp(scale) (value +- error), value >= 0 in truth."""
        value = np.maximum(value, 0.0)
        found = logarithm(Bracket(value, value - error, value + error))
        lost = np.isneginf(self.scale)  # below what the logarithm of a float can be
        return found + Bracket(self.scale, self.scale, np.where(lost, LOST, self.scale))


def gram_path(C: Floats, steps: Sequence[Step]) -> GramPath:
    """C, a correlation matrix, through maps that fix 0."""
    E = C - np.eye(len(C))
    scale, error = 0.0, 0.0
    found = [(scale, E, error)]
    for step in steps:
        scale, E, error = _advance(step, scale, E, error)
        found.append((scale, E, error))
    return GramPath(*(np.array(part) for part in zip(*found, strict=True)))


def _advance(step: Step, scale: float, E: Floats, error: float) -> tuple[float, Floats, float]:
    largest = float(np.abs(E).max())
    if largest == 0.0 and error == 0.0:
        return scale, E, error
    if scale == 0.0 and largest > _LINEAR:
        error = step.spread(largest, error)
        mapped = step(E)
        np.fill_diagonal(mapped, 0.0)
        return 0.0, mapped, error
    p, weight, _ = step.first
    unit = largest or 1.0
    before = scale + math.log(unit)
    after = p * before + math.log(weight)
    # (1 + e)^p - 1 for the entries, the weight's own digits, the powers, and what adding to the scale rounds
    rounds = 2 * EPS * (p * abs(before) + abs(after)) if math.isfinite(after) else 0.0
    relative = math.expm1(min(p * math.log1p(error / unit) + rounds, 700.0)) + step.rounding + (p + 4) * EPS
    power = np.sign(E) ** p * np.abs(E / unit) ** p
    return after, power, relative
