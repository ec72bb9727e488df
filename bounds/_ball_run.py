"""A run of the network in which every number is a ball: what exact=True decides claims over depth with."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, cmp_to_key
from typing import Any, TypeAlias

import numpy as np
from flint import arb_mat, ctx
from mpmath import MPContext

from bounds._ball_maps import BallMap
from bounds._balls import Balls, ball_log
from bounds._certificate import Certificate, Hypothesis, Verdict
from bounds._depth import Run, start
from bounds._judge import PATIENCE
from bounds._polynomial import rational_weights
from hermite.certified._flint import Ball, arb, exact, precision
from hermite.errors import PrecisionError
from meanfield._exact import Rows, as_fractions, eliminate
from meanfield._layer import Layer, Layers

__all__ = ["ball_run", "prove"]

Matrix: TypeAlias = "list[list[Ball]]"

_BITS = (128, 384, 1152, 2880)
_GROWTH = 10.0  # what three times as many bits cost, about


def prove(body: Callable[[Run], Certificate], layer: Layers, G0: Any, depth: int | None) -> Certificate:
    """What a claim says when its numbers are balls, at more and more bits until it is decided; at last as it is."""
    plain = start(layer, G0, depth)
    first = body(plain)
    if not plain.centred.holds:
        return replace(first, exact=True)
    found, patience = first, PATIENCE.get()
    if not patience and any(rational_weights(x.sigma) is None for x in plain.strengths):
        return first
    for bits in _BITS:
        begun = time.monotonic()
        try:
            with precision(bits):
                found = body(ball_run(plain, G0, bits))
        except PrecisionError:
            if bits == _BITS[0]:
                raise
            break
        if found.verdict is not Verdict.UNDECIDED or _GROWTH * (time.monotonic() - begun) > (patience or math.inf):
            break
    return replace(found, exact=True)


def ball_run(plain: Run, G0: Any, bits: int) -> BallRun:
    """The same run in balls, to be used in the scope of `precision(bits)`."""
    rows = as_fractions(plain.C if np.asarray(G0).dtype.kind == "f" else G0, name="G0")
    if any(row[i] != 1 for i, row in enumerate(rows)) or rows != tuple(zip(*rows, strict=True)):
        raise ValueError("G0 must be symmetric with diagonal 1, and exactly so where its entries are exact")
    return BallRun(
        **{f.name: getattr(plain, f.name) for f in fields(plain)},
        rows=rows,
        bits=bits,
    )


@dataclass(frozen=True, eq=False)
class BallRun(Run):
    """rows: G_0 exactly; bits: the precision, in whose scope it is used.  Names and meanings are those of `Run`."""

    rows: Rows = ()
    bits: int = 128

    # ---- what is exact about G_0 --------------------------------------------------------------------------

    @cached_property
    def semidefinite(self) -> Hypothesis:
        """Rounding may have made a float matrix indefinite: nothing is claimed of it."""
        holds = eliminate(self.rows).positive_semidefinite
        return Hypothesis("positive semidefinite", holds, "" if holds else "rounding has made it indefinite")

    @cached_property
    def is_singular(self) -> bool:
        """Whether det G_0 = 0."""
        return eliminate(self.rows).rank < self.n

    @property
    def definite(self) -> Hypothesis:
        return Hypothesis("det G0 > 0", self.semidefinite.holds and not self.is_singular, "exact")

    @property
    def centred(self) -> Hypothesis:
        found = super().centred
        return self.semidefinite if found.holds and not self.semidefinite.holds else found

    # ---- layers -------------------------------------------------------------------------------------------

    @cached_property
    def maps(self) -> dict[Layer, BallMap]:
        return {layer: BallMap(layer, self.bits) for layer in self.strengths}

    @cached_property
    def decay(self) -> Balls:  # type: ignore[override]
        return self._sums(lambda layer: (2 - self.maps[layer].r).log())

    @cached_property
    def log_rate(self) -> Balls:  # type: ignore[override]
        return self._sums(lambda layer: ball_log(self.maps[layer].r))

    def _sums(self, log: Callable[[Layer], Ball]) -> Balls:
        known = {layer: log(layer) for layer in self.strengths}
        sums = [arb(0)]
        for layer in self.layers:
            sums.append(sums[-1] + known[layer])
        return Balls(tuple(sums))

    def log(self, number: Fraction | int) -> Balls:  # type: ignore[override]
        return Balls((ball_log(exact(number)),))

    def through_layers(self, rho: Ball) -> list[Ball]:
        """One correlation at layers 0, 1, ..."""
        path = [rho]
        for layer in self.layers:
            path.append(self.maps[layer](path[-1]))
        return path

    @cached_property
    def entries(self) -> list[list[Ball]]:
        """The entries below the diagonal, row by row, at each layer; equal ones are mapped once."""
        first = [self.rows[i][j] for i in range(self.n) for j in range(i)]
        paths = {rho: self.through_layers(exact(rho)) for rho in dict.fromkeys(first)}
        return [[paths[rho][l] for rho in first] for l in range(len(self.layers) + 1)]

    def _matrix(self, l: int) -> Matrix:
        below, matrix = iter(self.entries[l]), [[arb(i == j) for j in range(self.n)] for i in range(self.n)]
        for i in range(self.n):
            for j in range(i):
                matrix[i][j] = matrix[j][i] = next(below)
        return matrix

    # ---- functionals of each layer ------------------------------------------------------------------------

    def _over_layers(self, function: Callable[[int], Ball]) -> Balls:
        return Balls(tuple(function(l) for l in range(len(self.layers) + 1)))

    @cached_property
    def log_gaps(self) -> Balls:  # type: ignore[override]
        first = arb.pos_inf() if self.is_singular else self._log_gap(self._matrix(0))
        same, parallel = self.equal.untouched, self.equal.parallel

        def log_gap(l: int) -> Ball:
            if same[l] or parallel[l]:
                return first
            return self._log_gap(self._matrix(l))

        return self._over_layers(log_gap)

    def _log_gap(self, G: Matrix) -> Ball:
        """log of -(1/n) log det; from the sum of squares s of E = G - I where its root is below 2^-bits/2.

        -log det(I + E) = s/2 - tr E^3/3 + ..., so it is off by less than s^(3/2)/(3 (1 - s^(1/2))).
        """
        squares = sum((x * x for i, row in enumerate(G) for x in row[:i]), start=arb(0)) * 2
        if squares.is_zero():
            return arb.neg_inf()
        root = squares.sqrt() if squares > 0 else arb.nan()
        if root < arb((1, -self.bits // 2)):
            rest = (2 * root / (3 * (1 - root))).upper()
            return (squares / (2 * self.n)).log() + (1 + arb(0, rest)).log()
        determinant = arb_mat(G).det()
        return ball_log(-determinant.log() / self.n) if determinant > 0 else arb.nan()

    @cached_property
    def log_det(self) -> Balls:  # type: ignore[override]
        return Balls((arb.neg_inf() if self.is_singular else arb_mat(self._matrix(0)).det().log(),))

    @cached_property
    def log_largest(self) -> Balls:  # type: ignore[override]
        return self._over_layers(lambda l: ball_log(_largest([abs(x) for x in self.entries[l]])))

    @cached_property
    def log_potentials(self) -> Balls:  # type: ignore[override]
        def log_potential(l: int) -> Ball:
            m = _largest([abs(x) for x in self.entries[l]])
            return arb.pos_inf() if m == 1 else ball_log(m) - (-m).log1p()

        return self._over_layers(log_potential)

    @cached_property
    def log_rms(self) -> Balls:  # type: ignore[override]
        return self._over_layers(lambda l: ball_log(_rms(self.entries[l])))

    @cached_property
    def log_of_moduli(self) -> Balls:  # type: ignore[override]
        first = [abs(self.rows[i][j]) for i in range(self.n) for j in range(i)]
        paths = {rho: self.through_layers(exact(rho)) for rho in dict.fromkeys(first)}
        return self._over_layers(lambda l: ball_log(_rms([paths[rho][l] for rho in first])))

    @cached_property
    def eigenvalues(self) -> list[list[Ball]]:
        """Of G_l - I at each layer, increasing."""
        return [_eigenvalues(self._matrix(l)) for l in range(len(self.layers) + 1)]

    @cached_property
    def log_smallest(self) -> Balls:  # type: ignore[override]
        first = ball_log(self.spectrum[0].entries[0])
        same = self.equal.untouched
        return self._over_layers(lambda l: first if same[l] else ball_log(-self.eigenvalues[l][0]))

    def log_least_negated(self, x: float) -> Balls:  # type: ignore[override]
        r, e, y = self._only.r, self._even_share, exact(Fraction(x))
        return Balls((y.log() - (e * y / ((1 - r) * (r - e * y))).log1p() if not e.is_zero() else y.log(),))

    @property
    def log_frozen(self) -> Balls:  # type: ignore[override]
        return Balls(((-1 / (2 * self._only.r)).log1p(),))

    @property
    def mapped_positive(self) -> Balls:  # type: ignore[override]
        entries = [self.rows[i][j] for i in range(self.n) for j in range(i)]
        positive = [x for x in entries if x > 0]
        if not positive:
            return Balls((arb.neg_inf(),) * (len(self.layers) + 1))
        tau = exact(sum((x * x for x in positive), Fraction(0)) / len(positive)).sqrt()
        half = exact(Fraction(len(positive), len(entries))).log() / 2
        return Balls(tuple(ball_log(x) + half for x in self.through_layers(tau)))

    @property
    def _only(self) -> BallMap:
        return next(iter(self.maps.values()))

    @property
    def _even_share(self) -> Ball:
        return arb(0) if self.steps[0].parity == -1 else (1 + self._only(arb(-1))) / 2

    def log_negated(self, i: int, j: int) -> Balls:  # type: ignore[override]
        k = i * (i - 1) // 2 + j if i > j else j * (j - 1) // 2 + i
        return self._over_layers(lambda l: ball_log(-self.entries[l][k]))

    @cached_property
    def log_partial_sums(self) -> list[Balls]:  # type: ignore[override]
        def log_sum(l: int, k: int) -> Ball:
            return ball_log(sum(self.eigenvalues[l][self.n - k :], start=arb(0)))

        return [self._over_layers(lambda l, k=k: log_sum(l, k)) for k in range(1, self.n)]  # type: ignore[misc]

    # ---- numbers of G_0, and where they go ----------------------------------------------------------------

    @cached_property
    def spectrum(self) -> tuple[Balls, Balls]:  # type: ignore[override]
        if self.is_singular:
            return Balls((arb(1),)), Balls((arb(0),))
        mu = -self.eigenvalues[0][0] if self.n > 1 else arb(0)
        return Balls((mu,)), Balls((1 - mu,))

    @cached_property
    def log_spectrum(self) -> tuple[Balls, Balls]:  # type: ignore[override]
        mu, smallest = self.spectrum
        return mu.each(ball_log), smallest.each(ball_log)

    @cached_property
    def log_spreads(self) -> Balls:  # type: ignore[override]
        return self._mapped(self.spectrum[0].entries[0])

    def mapped(self, start: Balls, rest: Balls | None = None) -> Balls:  # type: ignore[override]
        return self._mapped(start.entries[0])

    @cached_property
    def mapped_rms(self) -> Balls:  # type: ignore[override]
        return self._mapped(_rms(self.entries[0]))

    @cached_property
    def mapped_largest(self) -> Balls:  # type: ignore[override]
        return self._mapped(_largest([abs(x) for x in self.entries[0]]))

    def _mapped(self, rho: Ball) -> Balls:
        return Balls(tuple(ball_log(x) for x in self.through_layers(rho)))

    @cached_property
    def log_ratio(self) -> Balls:  # type: ignore[override]
        mu = self.spectrum[0].entries[0]
        if mu.is_zero():
            return Balls((arb(0),) * (len(self.layers) + 1))
        same = self.equal.untouched
        logs = self.log_spreads.entries
        return self._over_layers(lambda l: arb(0) if same[l] else logs[l] - logs[0])

    @cached_property
    def log_quadratic(self) -> Balls:  # type: ignore[override]
        path = [_largest([abs(x) for x in self.entries[0]])]
        for layer in self.layers:
            r, m = self.maps[layer].r, path[-1]
            path.append(m if m == 1 else m * (r + (1 - r) * m))
        return Balls(tuple(map(ball_log, path)))

    def mixture_gap(self, log_ratio: Balls) -> Balls:  # type: ignore[override]
        first = self._matrix(0)

        def log_gap(log_s: Ball) -> Ball:
            s = log_s.exp()
            if self.is_singular and log_s.is_zero():
                return arb.pos_inf()
            return self._log_gap([[x if i == j else s * x for j, x in enumerate(row)] for i, row in enumerate(first)])

        return log_ratio.each(log_gap)


def _compared(a: Ball, b: Ball) -> int:
    return -1 if a < b else int(a > b)


def _largest(moduli: Sequence[Ball]) -> Ball:
    found = arb(0)
    for x in moduli:
        found = found.max(x)
    return found


def _rms(entries: Sequence[Ball]) -> Ball:
    if not entries:
        return arb(0)
    mean = sum((x * x for x in entries), start=arb(0)) / len(entries)
    return arb(0) if mean.is_zero() else mean.sqrt()


def _eigenvalues(G: Matrix) -> list[Ball]:
    """Of G - I, increasing.

    With V near an orthogonal matrix that makes E = G - I nearly diagonal, D = V^T E V: the eigenvalues of D are those
    of E times factors in 1 +- |V^T V - I| (Ostrowski), and within the Frobenius norm of the rest of D of its diagonal
    (Weyl), the k-th of the k-th. Multiple eigenvalues are no trouble.
    """
    n = len(G)
    E = arb_mat([[x - 1 if i == j else x for j, x in enumerate(row)] for i, row in enumerate(G)])
    if n == 1 or all(x.is_zero() for x in E.entries()):
        return [arb(0)] * n
    if not all(x.is_finite() for x in E.entries()):
        return [arb(0, math.inf)] * n
    mp = MPContext()
    mp.prec = ctx.prec
    _, vectors = mp.eigsy(mp.matrix([[_mpf(mp, x) for x in row] for row in E.table()]))
    V = arb_mat([[exact(_rational(vectors[i, j])) for j in range(n)] for i in range(n)])
    D = (V.transpose() * E * V).table()
    W = (V.transpose() * V).table()
    skew = _norm(x - (i == j) for i, row in enumerate(W) for j, x in enumerate(row))
    rest = _norm(x for i, row in enumerate(D) for j, x in enumerate(row) if i != j)
    ends = [[D[i][i].lower() - rest for i in range(n)], [D[i][i].upper() + rest for i in range(n)]]
    lows, highs = (sorted(each, key=cmp_to_key(_compared)) for each in ends)
    return [low.lower().union(high.upper()) / (1 + arb(0, skew)) for low, high in zip(lows, highs, strict=True)]


def _norm(entries: Iterable[Ball]) -> Ball:
    """An upper bound of the root of the sum of squares."""
    return sum((abs(x).upper() ** 2 for x in entries), start=arb(0)).upper().sqrt().upper()


def _mpf(mp: Any, x: Ball) -> Any:
    man, exp = x.mid().man_exp()
    return mp.ldexp(mp.mpf(int(man)), int(exp))


def _rational(value: Any) -> Fraction:
    sign, man, exp, _ = value._mpf_
    return Fraction(-int(man) if sign else int(man)) * Fraction(2) ** int(exp)
