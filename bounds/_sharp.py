"""Decay at the true rate r = 2 - beta: of the potential, of the gap, and of the one number that decides most.

With m in [0, 1] and f(rho) = sum of w_k rho^k, r = w_1: |f(rho)| <= F_r(m) = r m + (1 - r) m^2 for |rho| <= m, an
equation for sqrt(r) He_1 + sqrt(1 - r) He_2 and rho = m; and 1 - F_r(m) = (1 - m)(1 + (1 - r) m).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from bounds._bracket import Bracket, identical, one
from bounds._certificate import Certificate
from bounds._depth import Run
from bounds._gamma import log_gamma_minus, log_psi
from bounds._judge import answer, judged
from meanfield._layer import Layers

__all__ = ["scalar_gap_decay", "sharp_gap_decay", "sharp_potential_contraction"]

_LOG_HALF = -math.log(2.0)


def sharp_potential_contraction(
    layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False
) -> Certificate:
    """A potential that every layer multiplies by its linearity r = 2 - beta at most: the true rate.

        psi(G_l) <= r_1 ... r_l psi(G_0),    psi(G) = max over i != j of |G_ij| / (1 - |G_ij|)^(1/r),

    r the smallest of the layers; compared by logarithms. So max |G_ij| <= r^l psi(G_0). Equality iff r = 1, and in the
    limit of small correlations; 1/r is the smallest power for which it is true of every activation with that r.

    Proof. With m = |rho|, |f(rho)| <= m (r + (1-r) m) and 1 - |f(rho)| >= (1 - m)(1 + (1-r) m), so psi is multiplied by
    at most (r + (1-r) m)/(1 + (1-r) m)^p, p = 1/r; and 1 + (1-r) m/r <= (1 + (1-r) m)^p by Bernoulli, for every
    p >= 1/r.

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    Returns a certificate over layers 0..depth. NOT_APPLICABLE where r = 0 (`asymptotic_rate`), r is lost in rounding,
    some |G0_ij| is 1, or f(0) != 0. Raises ValueError as `potential_contraction`.
    Source: arXiv:2305.18399, Lemma A.3, sharpened; proof above.  Errors as `potential_contraction`; the power is 1/r
    rounded up.

    >>> from meanfield import Layer
    >>> certificate = sharp_potential_contraction(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 2)
    >>> certificate.verdict.name, certificate.lhs.round(4).tolist(), certificate.rhs.round(4).tolist()
    ('HOLDS', [0.2519, -0.0945, -0.4333], [0.2519, -0.0581, -0.3681])
    """
    return judged(_sharp_potential_contraction, layer, G0, depth, exact, gaps=False)


def _sharp_potential_contraction(run: Run) -> Certificate:
    psi = _log_psi(run)
    lhs, rhs = identical(psi, psi[0] + run.log_rate, run.equal.untouched)
    return answer(
        "r3",
        "arXiv:2305.18399, Lemma A.3, sharpened",
        lhs,
        rhs,
        hypotheses=[run.centred, run.positive_r, run.separated],
        statement="log psi(G_l) <= log psi(G_0) + sum of log r, psi = max |G_ij|/(1 - |G_ij|)^(1/r)",
        level=float(lhs.value[0]),
        threshold_layer=0,
    )


def sharp_gap_decay(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """Theorem 5.1 with the right rate: the isometry gap decays like r^(2l), r = 2 - beta, not like beta^-l.

    With R = r_1 ... r_l, p = 1/r of the smallest r, and psi as in `sharp_potential_contraction`, by logarithms

        "potential"     gap(G_l) <= (n-1) psi(G_0)^2 R^2           once (n-1) psi(G_0) R <= 1/2,
        "eigenvalue"    gap(G_l) <= (n-1)/2 ((1 - lambda_0)/lambda_0^p)^2 R^2     at every layer,
        "determinant"   gap(G_l) <= (n-1)/2 (e/det G_0)^(2p) R^2                 at every layer.

    Proof. m_l = max |G_ij| <= R psi(G_0), and gap <= (n-1) m^2 if (n-1) m <= 1/2 (`gap_from_rms`): "potential". mu_l =
    1 - lambda_min(G_l) <= f_l(mu_0) (`smallest_eigenvalue_contraction`), whose psi contracts likewise; gap <=
    Gamma_n(mu) <= (n-1)/2 mu^2/(1 - mu) and mu^2/(1 - mu) <= (mu/(1 - mu)^p)^2 as 2p >= 1: "eigenvalue". det G_0 <=
    lambda_0 e^(1 - lambda_0) <= e lambda_0: "determinant".

    Arguments and errors as `sharp_potential_contraction`; three sides over layers 0..depth. `threshold_layer` is the
    first layer at which "potential" applies, within the depth. NOT_APPLICABLE where r = 0 or lost in rounding, det
    G_0 = 0 (or not told from 0), or f(0) != 0.
    Source: arXiv:2305.18399, Theorem 5.1, sharpened; proof above.

    >>> from meanfield import Layer
    >>> certificate = sharp_gap_decay(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 20)
    >>> certificate.verdict.name, certificate.threshold_layer, certificate.slack[:, 20].round(3).tolist()
    ('HOLDS', 4, [1.012, 0.319, 3.326])
    """
    return judged(_sharp_gap_decay, layer, G0, depth, exact)


def _sharp_gap_decay(run: Run) -> Certificate:
    mu, smallest = run.log_spectrum
    at = reach(run, run.log_rate)
    reached = np.broadcast_to(at.high <= _LOG_HALF, run.log_gaps.value.shape)
    first = np.flatnonzero(reached)
    constant = run.log(Fraction(run.n - 1, 2))
    bounds = [
        log_potential_at(run, at),
        constant + 2.0 * (mu - run.power * smallest + run.log_rate),
        constant + 2.0 * (run.power * (1.0 - run.log_det) + run.log_rate),
    ]
    everywhere = np.ones_like(reached)
    return answer(
        "r4",
        "arXiv:2305.18399, Theorem 5.1, sharpened",
        [run.log_gaps] * 3,
        bounds,
        hypotheses=[run.centred, run.positive_r, run.definite],
        applicable=np.array([reached, everywhere, everywhere]),
        sides=("potential", "eigenvalue", "determinant"),
        statement="log gap(G_l) <= log of (n-1) psi(G_0)^2 R^2; of (n-1)/2 ((1 - lambda_0)/lambda_0^(1/r))^2 R^2; of "
        "(n-1)/2 (e/det G_0)^(2/r) R^2; R = product of r",
        level=float(run.log_gaps.value[0]),
        threshold_layer=int(first[0]) if len(first) else None,
    )


def scalar_gap_decay(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The isometry gap bounded by following one number through the layers, or n^2 numbers without their signs.

    With m_l = max |G_ij|, F_r(m) = r m + (1 - r) m^2, f_l the map of l layers, and Gamma_n^-(t) = -(1/n) ((n-1) log(1 +
    t) + log(1 - (n-1) t)), the gap of n inputs with all correlations -t (infinite from t = 1/(n-1) on), by logarithms

        "correlation, r"   m_l <= F_r(...F_r(m_0)), the best bound that knows r and m_0 only;
        "correlation, map" m_l <= f_l(m_0), an equation if sigma - c_0 is odd or the largest |G_ij| is of a G_ij > 0;
        "gap, r"           gap(G_l) <= Gamma_n^- of the right side of the first;
        "gap, map"         gap(G_l) <= Gamma_n^-(f_l(m_0));
        "gap, entrywise"   gap(G_l) <= Gamma_n^-(t), t the root mean square of f_l(|G0_ij|).

    Proof. |f(rho)| <= f(|rho|) <= F_r(|rho|), and both increase. The determinant of a correlation matrix with root mean
    square correlation t is at least (1 - (n-1) t)(1 + t)^(n-1), which falls with t <= m
    (`rms_determinant_sandwich`, `sharp_determinant_bound`).

    Arguments and errors as `potential_contraction`; NOT_APPLICABLE where f(0) != 0. m_0 = 1 is allowed.
    Source: sharper forms of arXiv:2305.18399, Theorem 5.1; proof above.

    >>> from meanfield import Layer
    >>> certificate = scalar_gap_decay(Layer("relu"), [[1.0, 0.5, -0.3], [0.5, 1.0, 0.1], [-0.3, 0.1, 1.0]], 10)
    >>> certificate.verdict.name, certificate.slack[:, 10].round(3).tolist()
    ('HOLDS', [0.127, 0.0, 1.333, 1.074, 0.14])
    """
    return judged(_scalar_gap_decay, layer, G0, depth, exact)


def _scalar_gap_decay(run: Run) -> Certificate:
    gamma = log_gamma_minus(run.n)
    by_r, by_map, largest = run.log_quadratic, run.mapped_largest, run.log_largest
    opposed = run.equal.opposed
    pairs = [
        identical(largest, by_r, run.equal.quadratic | run.equal.parallel),
        identical(largest, by_map, run.equal.mapped),
        identical(run.log_gaps, by_r.through(gamma), opposed & (run.equal.quadratic | run.equal.parallel)),
        identical(run.log_gaps, by_map.through(gamma), opposed),
        identical(run.log_gaps, run.log_of_moduli.through(gamma), opposed),
    ]
    return answer(
        "r5",
        "arXiv:2305.18399, Theorem 5.1, sharpened",
        [lhs for lhs, _ in pairs],
        [rhs for _, rhs in pairs],
        hypotheses=[run.centred],
        sides=("correlation, r", "correlation, map", "gap, r", "gap, map", "gap, entrywise"),
        statement="log max|G_ij| <= log of m_0 through F_r, and through f; log gap <= log Gamma_n^- of each, and of "
        "the root mean square of f_l(|G0_ij|)",
        level=float(run.log_gaps.value[0]),
        threshold_layer=0,
    )


def reach(run: Run, log_rate: Bracket) -> Bracket:
    """log of (n-1) r^l psi(G_0), which is to be at most 1/2."""
    if not run.separated.holds or not run.positive_r.holds:
        return one(math.inf) + 0.0 * log_rate
    return run.log(run.n - 1) + _log_psi(run)[0] + log_rate


def log_potential_at(run: Run, reach: Bracket) -> Bracket:
    """log of (n-1) (r^l psi(G_0))^2."""
    return 2.0 * reach - run.log(run.n - 1) if run.n > 1 else reach


def _log_psi(run: Run) -> Bracket:
    """log psi; between its two terms, of opposite sign and at most log(1/r) where they are equal, rounding is added."""
    room = 16.0 * np.finfo(np.float64).eps * (1.0 + math.log(run.power))
    return run.log_potentials.through(log_psi(run.power)).widened(room)
