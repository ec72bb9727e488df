"""What the paper claims of depth: potential and isometry gap shrink by the isometry strength in every layer.

One function and one certificate for each claim.  Everything is compared by natural logarithms: the constant of
a claim may exceed e^100, and a gap after many layers lie below 1e-308.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import Bracket, identical
from bounds._certificate import Certificate
from bounds._depth import Run
from bounds._gamma import LOG_EXPM1, LOG_LOG1P_EXP, log_gamma
from bounds._judge import answer, judged
from meanfield._layer import Layers

__all__ = ["gap_decay", "potential_contraction", "spectral_gap_decay"]

Floats: TypeAlias = NDArray[np.float64]
Form: TypeAlias = Literal["eigenvalue", "determinant", "map"]

_LOGS = "natural logarithms, beta of layers 1 to l"


def potential_contraction(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """Every layer divides the potential, the largest odds of a cosine, by its isometry strength at least.

    With potential(G) = max |G_ij| / (1 - |G_ij|) over i != j,

        potential(G_l)  <=  potential(G_0) / (beta_1 ... beta_l)      for l = 0..depth,

    compared by logarithms.  At layer 0 both sides are one number; so they are as long as layers are affine
    (beta = 1, G_l = G_0).

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    Returns a certificate whose lhs, rhs and slack are arrays over layers 0..depth.  Where some |G0_ij| is 1 it is
    NOT_APPLICABLE: coincident inputs never separate.
    Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`), for what is no Gram matrix, and for a
    depth that is missing or contradicts the sequence; and as `Layer`.
    Source: arXiv:2305.18399, Lemmas A.2 and A.3.  The tolerance counts the error of beta and that of
    `meanfield.trajectory`: the rounding of every entry in every layer, counted as 2e-15 and followed through the maps,
    which is measured and not proven.  Inputs that nearly coincide are followed by their distance.

    >>> from meanfield import Layer
    >>> certificate = potential_contraction(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 2)
    >>> certificate.lhs.round(4).tolist(), certificate.rhs.round(4).tolist(), certificate.verdict.name
    ([0.0, -0.2965, -0.5932], [0.0, -0.2363, -0.4726], 'HOLDS')
    """
    return judged(_potential_contraction, layer, G0, depth, exact, gaps=False)


def _potential_contraction(run: Run) -> Certificate:
    lhs, rhs = identical(run.log_potentials, run.log_potentials[0] - run.decay, run.equal.untouched)
    return answer(
        "lemma-a.3",
        "arXiv:2305.18399, Lemmas A.2 and A.3",
        lhs,
        rhs,
        hypotheses=[run.centred, run.separated],
        statement=f"log potential(G_l) <= log potential(G_0) - sum of log beta; {_LOGS}",
        threshold_layer=0,
        level=float(lhs.value[0]),
    )


def gap_decay(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The isometry gap of a batch decays exponentially in depth, at the rate of the isometry strength.

        gap(G_l)  <=  (4n / det G_0) / (beta_1 ... beta_l)      for l = 0..depth,

    compared by logarithms.  Printed with l >= l* = (log 4n - log det G_0) / log beta, where the right side falls
    below 1; it is true at every layer (`spectral_gap_decay` says why), so every layer is checked, and
    `threshold_layer` is the printed l*, rounded up; for a sequence of layers, the first at which the product of
    the betas reaches 4n / det G_0, None if it does not.  `first_informative_layer`: the first where the right side
    is below gap(G_0).

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    Returns a certificate whose lhs, rhs and slack are arrays over layers 0..depth.  NOT_APPLICABLE for a singular
    G0 (the right side is infinite: printed without this hypothesis), for one that float64 cannot tell from a
    singular one, and where every layer is linear (beta = 1: no l*).
    Raises ValueError for a diagonal that is not 1 (pass `correlation(G0)`), for what is no Gram matrix, and for a
    depth that is missing or contradicts the sequence; and as `Layer`.
    Source: arXiv:2305.18399, Theorem 5.1.  Layers are those of equation (10) there: width to infinity, no bias.  The
    tolerance is that of `potential_contraction`, passed on to the gap.  One Cholesky factorisation for each layer.

    >>> from meanfield import Layer
    >>> certificate = gap_decay(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 20)
    >>> certificate.verdict.name, certificate.threshold_layer, certificate.first_informative_layer
    ('HOLDS', 11, 19)
    """
    return judged(_gap_decay, layer, G0, depth, exact)


def _gap_decay(run: Run) -> Certificate:
    return answer(
        "theorem-5.1",
        "arXiv:2305.18399, Theorem 5.1",
        run.log_gaps,
        run.log(4 * run.n) - run.log_det - run.decay,
        hypotheses=[run.centred, run.definite, run.nonlinear],
        statement=f"log gap(G_l) <= log(4n) - log det G_0 - sum of log beta; {_LOGS}",
        level=float(run.log_gaps.value[0]),
        threshold_layer=_threshold(run, math.log(4 * run.n) - float(run.log_det.value[0])),
    )


def spectral_gap_decay(
    layer: Layers, G0: Any, depth: int | None = None, *, form: Form = "eigenvalue", exact: bool = False
) -> Certificate:
    """The isometry gap decays from the first layer on, with a constant that does not depend on n.

    With lambda_0 the smallest eigenvalue of G_0, B = beta_1 ... beta_l, f the map of correlations of the first l
    layers, and Gamma_n(mu) = -((n-1)/n) log(1 - mu) - (1/n) log(1 + (n-1) mu), at every layer l >= 0

        gap(G_l)  <=  Gamma_n(f(1 - lambda_0))                 form "map", an equation if all G_ij = rho >= 0
                  <=  log(1 + (1/lambda_0 - 1) / B)            form "eigenvalue"
                  <=  (e / det G_0 - 1) / B                    form "determinant"

    each compared by logarithms: Theorem 5.1 with e in place of 4n, and without its threshold.

    Proof.  Let mu(A) = 1 - (smallest eigenvalue of A).  (1) For correlation matrices A and B with smallest
    eigenvalues a and b, A = aI + A' and B = bI + B' with A', B' >= 0 of diagonal 1 - a, 1 - b, so the entrywise
    product is A o B = (1 - (1-a)(1-b)) I + A' o B', and A' o B' >= 0 by Schur: mu(A o B) <= mu(A) mu(B).
    (2) A layer maps G to f(G) = sum of w_k G^(o k), w_k >= 0 of sum 1; the smallest eigenvalue of a sum is at least
    the sum of the smallest ones, so mu(f(G)) <= sum of w_k mu(G)^k = f(mu(G)); f increases on [0, 1], so through
    all layers mu_l := mu(G_l) <= f(1 - lambda_0).
    (3) Eigenvalues of sum n that are at least 1 - mu have the least product when all but one are 1 - mu, so
    gap <= Gamma_n(mu): the form "map".  (4) Gamma_n(mu) <= -log(1 - mu) = log(1 + mu/(1 - mu)), and by Lemma A.7
    a layer divides the odds mu/(1 - mu) by beta at least: the form "eigenvalue".  (5) log(1 + x) <= x, and the
    eigenvalues beside lambda_0 have mean (n - lambda_0)/(n - 1), so
    det G_0 <= lambda_0 ((n - lambda_0)/(n - 1))^(n-1) <= lambda_0 e^(1 - lambda_0): the form "determinant".

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    form: which right side.  Returns a certificate whose lhs, rhs and slack are arrays over layers 0..depth;
    `threshold_layer` is 0, `first_informative_layer` the first where the right side is below gap(G_0).
    NOT_APPLICABLE for a singular G0 and for one that float64 cannot tell from a singular one.  beta = 1 is allowed.
    Raises ValueError for an unknown form, a diagonal that is not 1 (pass `correlation(G0)`), for what is no Gram
    matrix, and for a depth that is missing or contradicts the sequence; and as `Layer`.
    Source: arXiv:2305.18399, Theorem 5.1, sharpened; proof above.  The tolerance counts the error of the gap, of
    beta, of the determinant, and n eps times the largest eigenvalue for lambda_0: the form "determinant" decides
    where lambda_0 is lost in rounding.  Where the form "map" is an equation, it is UNDECIDED.

    >>> from meanfield import Layer
    >>> G0 = [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]
    >>> for form in ("map", "eigenvalue", "determinant"):
    ...     certificate = spectral_gap_decay(Layer("relu"), G0, 30, form=form)
    ...     print(form, certificate.first_informative_layer, round(float(certificate.rhs[30]), 3))
    map 1 -18.408
    eigenvalue 6 -7.089
    determinant 13 -5.599
    """
    sides = {"eigenvalue": _by_eigenvalue, "determinant": _by_determinant, "map": _by_map}
    if form not in sides:
        raise ValueError(f"form must be 'eigenvalue', 'determinant' or 'map', got {form!r}")
    return judged(lambda run: _spectral_gap_decay(run, sides[form]), layer, G0, depth, exact)


def _spectral_gap_decay(run: Run, side: Callable[[Run], tuple[Bracket, str]]) -> Certificate:
    rhs, text = side(run)
    return answer(
        "theorem-5.1+",
        "arXiv:2305.18399, Theorem 5.1, sharpened",
        run.log_gaps,
        rhs,
        hypotheses=[run.centred, run.definite],
        statement=f"log gap(G_l) <= {text}; {_LOGS}",
        level=float(run.log_gaps.value[0]),
        threshold_layer=0,
    )


def _by_eigenvalue(run: Run) -> tuple[Bracket, str]:
    return run.odds.through(LOG_LOG1P_EXP), "log log(1 + (1/lambda_0 - 1) / product of beta)"


def _by_determinant(run: Run) -> tuple[Bracket, str]:
    return (1.0 - run.log_det).through(LOG_EXPM1) - run.decay, "log(e / det G_0 - 1) - sum of log beta"


def _by_map(run: Run) -> tuple[Bracket, str]:
    return run.log_spreads.through(log_gamma(run.n)), "log Gamma_n(mu_l), mu_0 = 1 - lambda_0, mu_l = f_l(mu_(l-1))"


def _threshold(run: Run, log_constant: float) -> int | None:
    """The first layer where the sum of log beta reaches log_constant, beyond the depth too for one repeated layer."""
    if math.isinf(log_constant) or not run.nonlinear.holds:
        return None
    if run.repeated:
        return max(math.ceil(log_constant / next(iter(run.strengths.values())).log_beta[0]), 0)
    reached = np.flatnonzero(run.decay.value >= log_constant)
    return int(reached[0]) if len(reached) else None
