"""What a layer does to the eigenvalues of the Gram matrix: every claim rests on Schur's product theorem.

With f(rho) = sum over k >= 1 of w_k rho^k, w_k >= 0 of sum 1, a layer maps G to f(G) = sum of w_k G^(o k), and that is
the entrywise product G o B with the correlation matrix B = sum of w_k G^(o (k-1)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import Bracket, closest, identical
from bounds._certificate import Certificate, Hypothesis
from bounds._depth import Run
from bounds._gamma import log_gamma
from bounds._judge import answer, judged
from meanfield._layer import Layers

__all__ = ["gap_sandwich", "monotone_isometry", "smallest_eigenvalue_contraction", "spectral_majorization"]


def monotone_isometry(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """No layer increases the isometry gap, and none lowers the smallest eigenvalue: whatever the activation, at any n.

        gap(G_l) <= gap(G_(l-1))  and  1 - lambda_min(G_l) <= 1 - lambda_min(G_(l-1)),

    compared by logarithms; layer 0 is compared with itself. Equality (gap finite) iff the layer is linear or G = I.

    Proof. f(G) = sum of w_k G^(o k). By Oppenheim and Schur det(A o B) >= det A prod B_ii, so log det G^(o k) >=
    log det G, and log det is concave; lambda_min(A o B) >= lambda_min(A) min B_ii, and lambda_min is concave.

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).
    Returns a certificate with sides "gap" and "eigenvalue", each over layers 0..depth. Layers with f(0) != 0 are
    NOT_APPLICABLE: they bring inputs together. Raises ValueError as `gap_decay`.
    Source: a sharper form of arXiv:2305.18399, section 5; proof above.  Tolerances count the errors of
    `meanfield.trajectory`, measured and not proven; gaps that float64 cannot resolve are UNDECIDED.

    >>> from meanfield import Layer
    >>> certificate = monotone_isometry(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 3)
    >>> certificate.verdict.name, certificate.sides, certificate.slack[0].round(3).tolist()
    ('HOLDS', ('gap', 'eigenvalue'), [0.0, 0.36, 0.393, 0.426])
    """
    return judged(_monotone_isometry, layer, G0, depth, exact)


def _monotone_isometry(run: Run) -> Certificate:
    gaps, spreads = run.log_gaps, run.log_smallest
    pairs = [identical(x, x.before(), run.equal.kept | run.equal.parallel) for x in (gaps, spreads)]
    return answer(
        "m1",
        "section 5 of arXiv:2305.18399, sharpened",
        [x for x, _ in pairs],
        [y for _, y in pairs],
        hypotheses=[run.centred],
        sides=("gap", "eigenvalue"),
        statement="log gap(G_l) <= log gap(G_(l-1)); log(1 - lambda_min(G_l)) <= log(1 - lambda_min(G_(l-1)))",
        threshold_layer=0,
    )


def smallest_eigenvalue_contraction(
    layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False
) -> Certificate:
    """The distance of the smallest eigenvalue from 1 shrinks at least as the correlation of two inputs would.

        mu(G_l) <= f_l(mu(G_0)),    mu(G) = 1 - lambda_min(G),

    f_l the map of the first l layers; compared by logarithms. An equation where all correlations are one rho >= 0.

    Proof. Let a, b be the smallest eigenvalues of correlation matrices A, B. A = aI + A', B = bI + B' with A', B' >= 0
    of diagonals 1 - a, 1 - b, so A o B = (1 - (1-a)(1-b)) I + A' o B' with A' o B' >= 0 (Schur): mu(A o B) <= mu(A)
    mu(B), mu(G^(o k)) <= mu^k; and the smallest eigenvalue of a sum is at least the sum of the smallest ones.

    Arguments, NOT_APPLICABLE and errors as `monotone_isometry`; one side over layers 0..depth.
    Source: lemmas L1 (`schur_product_eigenvalue`) and L2 behind `spectral_gap_decay`; proof above.

    >>> from meanfield import Layer
    >>> G0 = [[1.0, 0.3, -0.2], [0.3, 1.0, 0.1], [-0.2, 0.1, 1.0]]
    >>> certificate = smallest_eigenvalue_contraction(Layer("relu"), G0, 2)
    >>> certificate.verdict.name, certificate.slack.round(4).tolist()
    ('HOLDS', [0.0, 0.0841, 0.1484])
    """
    return judged(_smallest_eigenvalue_contraction, layer, G0, depth, exact, gaps=False)


def _smallest_eigenvalue_contraction(run: Run) -> Certificate:
    same = run.equal.untouched | run.equal.blocks | run.equal.parallel | bool(run.equal.exchangeable)
    lhs, rhs = identical(run.log_smallest, run.log_spreads, same)
    return answer(
        "l2",
        "lemma L2, proof in the docstring",
        lhs,
        rhs,
        hypotheses=[run.centred],
        statement="log(1 - lambda_min(G_l)) <= log f_l(1 - lambda_min(G_0))",
        level=float(rhs.value[0]),
        threshold_layer=0,
    )


def spectral_majorization(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The eigenvalues of G_l are less spread out than those of G_0, by a factor s_l, in the sense of majorization.

        lambda(G_l) - 1  <  s_l (lambda(G_0) - 1),    s_l = f_l(mu_0)/mu_0,  mu_0 = 1 - lambda_min(G_0),

    where x < y says that for every k the sum of the k largest is at most that of y (and the whole sums agree, here 0).
    So every Schur-convex function of the eigenvalues decreases in depth: gap, largest eigenvalue, condition number,
    Frobenius norm, tr exp. Four sides, all by logarithms: "steps", lambda(G_l) < lambda(G_(l-1)); "sums", what is
    printed above; of both the k is shown that comes closest; "gap", gap(G_l) <= gap((1 - s_l) I + s_l G_0); "norm",
    |G_l - I| <= s_l |G_0 - I| (Frobenius). Equations where all correlations are one rho >= 0.

    Proof. For a Hermitian A and a correlation matrix B = sum of b_a b_a^T, A -> A o B = sum of D_a A D_a, D_a =
    diag(b_a), keeps I and the trace, hence lambda(A o B) < lambda(A) (Bapat and Sunder 1985): with A = G and
    f(G) = G o B the steps. By lemma L1 the smallest eigenvalue of B = sum of w_k G^(o (k-1)) is b >= 1 - f(mu)/mu, so
    B = bI + (1-b)B'' and f(G) - I = (1-b)((G - I) o B'') < (f(mu)/mu)(G - I); through all layers mu_l <= f_l(mu_0) and
    f(x)/x increases, so the factors multiply to at most s_l.

    Arguments, NOT_APPLICABLE and errors as `monotone_isometry`.
    Source: R. B. Bapat, V. S. Sunder, On majorization and Schur products, Linear Algebra Appl. 72 (1985) 107-117, for a
    step; the rest is proved above. False with the largest |G_ij| in place of mu_0 (all correlations -.4, n = 3, He_2),
    and where f(0) != 0.

    >>> from meanfield import Layer
    >>> G0 = [[1.0, 0.3, -0.2], [0.3, 1.0, 0.1], [-0.2, 0.1, 1.0]]
    >>> certificate = spectral_majorization(Layer("relu"), G0, 2)
    >>> certificate.verdict.name, certificate.slack[:, 2].round(3).tolist()
    ('HOLDS', [0.249, 0.103, 0.295, 0.136])
    """
    return judged(_spectral_majorization, layer, G0, depth, exact)


def _spectral_majorization(run: Run) -> Certificate:
    sums, ratio = run.log_partial_sums, run.log_ratio
    same = run.equal.untouched | run.equal.blocks
    sides = [
        _closest([(x, x.before()) for x in sums], run.equal.kept, run),
        _closest([(x, x[0] + ratio) for x in sums], same, run, full=run.n - run.equal.exchangeable),
        identical(run.log_gaps, run.mixture_gap(ratio), same),
        identical(run.log_rms, run.log_rms[0] + ratio, same),
    ]
    return answer(
        "spectral-majorization",
        "Bapat and Sunder 1985 for one step; proof in the docstring",
        [lhs for lhs, _ in sides],
        [rhs for _, rhs in sides],
        hypotheses=[run.centred],
        sides=("steps", "sums", "gap", "norm"),
        statement="lambda(G_l) - 1 is majorized by s_l (lambda(G_0) - 1), by natural logarithms",
        threshold_layer=0,
    )


def gap_sandwich(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The isometry gap lies between those of two equicorrelated batches, from the first layer on, at the true rate.

        Gamma_n(f_l(t_0))  <=  gap(G_l)  <=  gap((1 - s_l) I + s_l G_0)  <=  Gamma_n(f_l(1 - lambda_0)),

    t_0 the root mean square of the correlations, lambda_0 the smallest eigenvalue of G_0, f_l the map of the first l
    layers, s_l = f_l(mu_0)/mu_0, mu_0 = 1 - lambda_0, Gamma_n(mu) the gap of n inputs with all correlations mu; by
    logarithms. "lower" needs that |f(rho)| = f(|rho|) for all entries: G_0 >= 0, or sigma - c_0 odd or even; "upper"
    (the first of the two) is infinite unless det G_0 > 0. Both decay like (2 - beta)^(2l): the true rate, from both
    sides. Equations where all correlations are one rho >= 0, up to signs if f is odd or even.

    Proof. Lower: gap >= Gamma_n(t) for every correlation matrix (`rms_determinant_sandwich`); f(sqrt s)^2 = sum of
    w_j w_k s^((j+k)/2) is convex in s, so by Jensen the rms of f(|G_ij|) is at least f(t). Upper:
    `spectral_majorization`.

    Arguments, NOT_APPLICABLE and errors as `monotone_isometry`; sides "lower" and "upper" over layers 0..depth.
    Source: proof above; without the hypothesis of the lower side false: relu, n = 3, all correlations -.4, layer 1.

    >>> from meanfield import Layer
    >>> certificate = gap_sandwich(Layer("relu"), [[1.0, 0.5, 0.3], [0.5, 1.0, 0.1], [0.3, 0.1, 1.0]], 20)
    >>> certificate.verdict.name, (certificate.rhs[:, 20] - certificate.lhs[:, 20]).round(3).tolist()
    ('HOLDS', [0.438, 0.363])
    """
    return judged(_gap_sandwich, layer, G0, depth, exact)


def _gap_sandwich(run: Run) -> Certificate:
    gaps, unmixed = run.log_gaps, run.unmixed
    upper = identical(gaps, run.mixture_gap(run.log_ratio), run.equal.untouched | run.equal.blocks)
    lower = identical(run.mapped_rms.through(log_gamma(run.n)), gaps, run.equal.equicorrelated)
    return answer(
        "t1",
        "the two-sided theorem, proof in the docstring",
        [lower[0], upper[0]],
        [lower[1], upper[1]],
        hypotheses=[run.centred, Hypothesis(unmixed.name, unmixed.holds, unmixed.detail, side="lower")],
        sides=("lower", "upper"),
        statement="log Gamma_n(f_l(t_0)) <= log gap(G_l) <= log gap((1 - s_l) I + s_l G_0)",
        level=float(gaps.value[0]),
        threshold_layer=0,
    )


def _closest(
    pairs: Sequence[tuple[Bracket, Bracket]], same: NDArray[np.bool_], run: Run, full: int | None = None
) -> tuple[Bracket, Bracket]:
    """Of several inequalities the one that comes closest to failing, layer by layer."""
    if not pairs:
        return run.log_gaps, run.log_gaps.before()  # one input: the gap is 0
    rank = run.equal.distinct  # beyond the rank both sums are n - k
    full = rank if full is None else min(rank, full)
    pairs = [identical(lhs, rhs, same | (k >= full)) for k, (lhs, rhs) in enumerate(pairs, start=1)]
    return closest(pairs)
