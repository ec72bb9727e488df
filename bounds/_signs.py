"""Correlations of both signs: when they keep their signs, and what the gap is at least whatever the signs are.

With O and E the odd and the even part of f, -f(-x) = O(x) - E(x), and for 0 <= x <= 1: O(x) >= r x, E(x) <= e x^2, e =
E(1) = (1 + f(-1))/2 <= 1 - r.
"""

from __future__ import annotations

from typing import Any

from bounds._bracket import Bracket, closest, identical
from bounds._certificate import Certificate, Hypothesis
from bounds._depth import Run
from bounds._gamma import log_gamma
from bounds._judge import answer, judged
from meanfield._layer import Layers

__all__ = ["sign_freezing"]


def sign_freezing(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """Small negative correlations stay negative and do not die; so the gap is bounded from below whatever the signs.

    For one repeated layer with r > 0, and e = (1 + f(-1))/2, by logarithms

        "entries"        -(G_l)_ij >= x r^l / (1 + e x/((1-r)(r - e x)))    where x = -(G_0)_ij lies in (0, r/e);
        "positive pairs" gap(G_l) >= Gamma_n(sqrt(q) f_l(tau)),   q the share of positive pairs, tau their rms;
        "all pairs"      gap(G_l) >= Gamma_n((1 - 1/(2r)) r^l t_0),   if beta < 3/2,  t_0 the rms of all.

    As r/e >= r/(1 - r), all signs are frozen if beta <= 3/2. "positive pairs" holds of sequences and for r = 0 too.

    Proof. -f(-x) >= r x - e x^2 = x (r - e x) > 0, and x' = -f(-x) <= O(x) <= x, so x stays in (0, r/e); with u = 1/x,
    u' <= u/(r - e x) = u/r + e/(r (r - e x)) <= u/r + e/(r (r - e x_0)): r^l u_l <= u_0 + e/((1-r)(r - e x_0)). With
    e <= 1 - r and x <= 1 the divisor is at most 2r/(2r - 1), and positive entries are at least r^l x: "all pairs", by
    gap >= Gamma_n(rms). By Jensen the rms of f(rho) over positive pairs is at least f(tau): "positive pairs".

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    Returns a certificate with these sides over layers 0..depth; of "entries" the one that comes closest. NOT_APPLICABLE
    where f(0) != 0. exact: by ball arithmetic. Raises ValueError as `gap_decay`.
    Source: proof above. For all signs the lower half of `gap_sandwich` is false: relu, n = 3, all correlations -.4.

    >>> from meanfield import Layer
    >>> certificate = sign_freezing(Layer("relu"), [[1.0, -0.3, 0.2], [-0.3, 1.0, 0.1], [0.2, 0.1, 1.0]], 10)
    >>> certificate.verdict.name, certificate.slack[:, 10].round(3).tolist()
    ('HOLDS', [0.068, 0.555, 2.197])
    """
    return judged(_sign_freezing, layer, G0, depth, exact)


def _sign_freezing(run: Run) -> Certificate:
    gaps, gamma, records = run.log_gaps, log_gamma(run.n), [run.centred]
    least = run.least_r
    same = len(set(run.layers)) == 1
    small = _small(run) if same and run.positive_r.holds and run.centred.holds else []
    records.append(
        Hypothesis("some G0_ij in (-r/e, 0), one layer", bool(small), f"{len(small)} entries", side="entries")
    )
    frozen = bool(same and run.positive_r.holds and least and least.low > 0.5)
    detail = "" if least is None else f"beta = {1.0 + least.excess:.6g}"
    records.append(Hypothesis("beta < 3/2, one layer", frozen, detail, side="all pairs"))
    nothing = 0.0 * gaps
    entries = closest([_entry(run, i, j) for i, j in small]) if small else (nothing, nothing)
    positive = identical(run.mapped_positive.through(gamma), gaps, run.common_signs[:1].repeat(len(run.layers) + 1) > 0)
    lower = (run.log_rms[0] + run.log_rate + run.log_frozen).through(gamma) if frozen else nothing
    return answer(
        "t2",
        "proof in the docstring",
        [entries[0], positive[0], lower],
        [entries[1], positive[1], gaps],
        hypotheses=records,
        sides=("entries", "positive pairs", "all pairs"),
        statement="log of x r^l/(1 + e x/((1-r)(r - e x))) <= log -(G_l)_ij; log Gamma_n(sqrt(q) f_l(tau)), and log "
        "Gamma_n((1 - 1/(2r)) r^l t_0), <= log gap(G_l)",
        threshold_layer=0,
    )


def _small(run: Run) -> list[tuple[int, int]]:
    """Entries for which 0 < x < r/e is certain."""
    reach = run.reach_of_signs
    return [(i, j) for i in range(run.n) for j in range(i) if 0.0 < -run.C[i, j] < reach]


def _entry(run: Run, i: int, j: int) -> tuple[Bracket, Bracket]:
    bound, found = run.log_rate + run.log_least_negated(-float(run.C[i, j])), run.log_negated(i, j)
    return identical(bound, found, run.equal.untouched)
