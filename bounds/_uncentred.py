"""Layers that bring inputs together: kappa(rho) = sum over k >= 0 of W_k rho^k, with kappa(0) > 0 allowed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, Bracket, identical, one
from bounds._certificate import Certificate, Hypothesis, certify
from bounds._depth import Run, start
from bounds._gamma import log_gamma
from bounds._judge import answer
from meanfield._layer import Layer, Layers, check_depth
from meanfield._step import Step

__all__ = ["relu_critical_rate", "uncentred_gap_sandwich"]

Floats: TypeAlias = NDArray[np.float64]

_STEP = math.sqrt(2.0) / (3.0 * math.pi)  # by which u grows in a layer, in the limit


def uncentred_gap_sandwich(layer: Layers, G0: Any, depth: int | None = None) -> Certificate:
    """The isometry gap between those of two equicorrelated batches, for layers with kappa(0) > 0 too.

        Gamma_n(kappa_l(a_0))  <=  gap(G_l)  <=  Gamma_n(kappa_l(1 - lambda_0)),

    a_0 the mean of the correlations, lambda_0 the smallest eigenvalue of G_0, kappa_l the map of the first l layers,
    Gamma_n(mu) the gap of n inputs with all correlations mu; compared by logarithms. Both tend to Gamma_n(rho*): with
    kappa(0) > 0 the gap does not vanish. "lower" needs G_0 >= 0, or maps that are convex and increasing on [-1, 1] (no
    odd powers beyond the first, kappa'(-1) >= 0, as relu), and then applies where kappa_l(a_0) >= 0; "upper" needs
    det G_0 > 0, without which it is infinite. Equations where all correlations are one rho >= 0.

    Proof. The gap is at least Gamma_n(a) for a >= 0: log det is concave, and the mean of G over all permutations of the
    inputs has all correlations a. kappa is convex on [0, 1] (on [-1, 1] in the second case), so by Jensen a_(l+1) >=
    kappa(a_l). Upper: mu(A o B) <= mu(A) mu(B), mu = 1 - lambda_min (`schur_product_eigenvalue`), the matrix of ones
    has mu = 1, so mu(kappa(G)) <= kappa(mu(G)); and gap <= Gamma_n(mu).

    layer: a `meanfield.Layer` that keeps the diagonal (layer or rms normalisation, biases and skips included), or a
    sequence of them, which fixes the depth.  G0: one correlation matrix (n, n).  Returns a certificate with sides
    "lower" and "upper" over layers 0..depth. NOT_APPLICABLE where the diagonal moves. Raises ValueError as `gap_decay`.
    Source: proof above. False with the root mean square in place of a_0: relu (rms), n = 3, all correlations -.4.

    >>> from meanfield import Layer
    >>> G0 = [[1.0, 0.5, 0.3], [0.5, 1.0, 0.1], [0.3, 0.1, 1.0]]
    >>> certificate = uncentred_gap_sandwich(Layer("relu", normalization="rms"), G0, 20)
    >>> certificate.verdict.name, certificate.slack[:, 20].round(4).tolist()
    ('HOLDS', [0.0043, 0.0343])
    """
    run = start(layer, G0, depth)
    stays = len(run.steps) == len(run.layers)
    diagonal = Hypothesis("the diagonal stays", stays, "" if stays else "correlations have no map")
    a0 = _mean(run)
    nonnegative = bool(np.all(run.C >= 0.0))
    convex = stays and all(_is_convex(step) for step in run.steps)
    lower, reached = _lower(run, a0) if stays else (0.0 * run.log_gaps, np.ones(len(run.layers) + 1, dtype=bool))
    upper = run.mapped(*run.spectrum).through(log_gamma(run.n)) if stays else 0.0 * run.log_gaps
    same = bool(np.all(run.equal.entries == run.equal.entries.max(initial=0.0)))  # and not negative
    alike = same | (run.common_signs > 0)
    pairs = [identical(lower, run.log_gaps, alike), identical(run.log_gaps, upper, run.equal.aligned)]
    detail = f"smallest entry {run.C.min():.6g}" + ("" if nonnegative or convex else ", and a map is not convex")
    sided = Hypothesis("G0 >= 0, or convex increasing maps", nonnegative or convex, detail, side="lower")
    return answer(
        "u1",
        "proof in the docstring",
        [lhs for lhs, _ in pairs],
        [rhs for _, rhs in pairs],
        hypotheses=[diagonal, sided, replace(run.definite, side="upper")],
        applicable=np.array([reached, np.ones_like(reached)]),
        sides=("lower", "upper"),
        statement="log Gamma_n(kappa_l(a_0)) <= log gap(G_l) <= log Gamma_n(kappa_l(1 - lambda_0))",
        threshold_layer=0,
    )


def relu_critical_rate(rho0: float, depth: int) -> Certificate:
    """Inputs of a relu network with uncentred normalisation come together like 9 pi^2/(2 l^2): no faster, no slower.

    With u = (1 - rho)^(-1/2) and c = sqrt(2)/(3 pi), for the map of relu that keeps its mean (rms normalisation, or
    normalisation before the activation),

        u_0 + c l  <=  u_l  <=  u_0 + c l + .062/u_0 + .414 log(1 + c l/u_0),

    "lower" for every rho_0 < 1, "upper" for rho_0 >= 0. So 1 - rho_l is 1/(c l)^2 in the limit.

    Proof. With rho = cos t, s = sin(t/2), u = 1/(sqrt(2) s): 1 - kappa(rho) = (1 - rho)(1 - q), q = (sin t - t cos t)/
    (pi (1 - cos t)), so u' = u (1 - q)^(-1/2). And u q = 2 c g, where g = (sin t - t cos t)/((8/3) s^3) is 1 at t = 0
    and increases, as 2t + t cos t >= 3 sin t (Cusa, Huygens): u' - u >= u q/2 = c g >= c. Upper, t <= pi/2: q' has the
    sign of t - sin t, so q <= 1/pi, and u q <= 1/pi, both met at pi/2. With h(q) = ((1 - q)^(-1/2) - 1 - q/2)/q^2,
    which increases, u (u' - u - c) = (u q)^2 h(q) + c (g - 1) u <= .062, since (1/pi)^2 h(1/pi) < .05203, and
    g - 1 <= .13287 s^2 (differentiate: arcsin s <= s + .22145 s^3 for s <= 1/sqrt(2)), c .13287 s/sqrt(2) < .00997. So
    u' <= u + c + .062/u, u_j >= u_0 + c j, and .062 times the sum of 1/(u_0 + c j) over j < l is at most the rest.

    rho0: in [-1, 1).  depth: a count.  Returns a certificate with sides "lower" and "upper" over layers 0..depth.
    Raises ValueError for rho0 and depth.  Distances from 1 are known relatively, to 2e-15 in each layer, which no layer
    magnifies: kappa is convex.
    Source: proof above.

    >>> certificate = relu_critical_rate(0.5, 1000)
    >>> certificate.verdict.name, certificate.lhs[0, 1000].round(3), certificate.rhs[1, 1000].round(3)
    ('HOLDS', np.float64(151.467), np.float64(153.446))
    """
    given = np.asarray(rho0)
    if given.shape or given.dtype.kind not in "fiu" or not -1.0 <= float(given) < 1.0:
        raise ValueError(f"rho0 must be a number in [-1, 1), got {rho0!r:.80}; equal inputs stay equal")
    delta = 1.0 - float(given)
    step, layers = Layer("relu", normalization="rms").step, np.arange(check_depth(depth) + 1.0)
    path, here = np.empty(len(layers)), np.array([delta])
    for l in range(len(layers)):
        path[l] = here[0]
        here = step.complement(here)
    u = 1.0 / np.sqrt(path)
    start = u[0]
    lower = start + _STEP * layers
    upper = lower + 0.062 / start + 0.414 * np.log1p(_STEP * layers / start)
    bar = u * (layers * 2.0 * step.rounding + 8.0 * EPS)
    exact = layers == 0.0
    return certify(
        "u3",
        "proof in the docstring",
        np.array([lower, u]),
        np.array([u, upper]),
        tolerance=np.array([np.where(exact, 0.0, bar), bar]),
        hypotheses=[Hypothesis("rho_0 >= 0", float(rho0) >= 0.0, f"rho_0 = {float(rho0):.6g}", side="upper")],
        sides=("lower", "upper"),
        statement="u_0 + c l <= u_l; u_l <= u_0 + c l + .062/u_0 + .414 log(1 + c l/u_0), u = (1 - rho)^(-1/2)",
        threshold_layer=0,
    )


def _mean(run: Run) -> float:
    entries = run.C[np.tril_indices(run.n, -1)]
    return math.fsum(entries.tolist()) / len(entries) if len(entries) else 0.0


def _is_convex(step: Step) -> bool:
    """No odd powers beyond the first, so that kappa'' >= 0 on [-1, 1], and kappa'(-1) >= 0; a bias mixes powers."""
    return not step.shift and not np.any(step.f.weights[3::2]) and float(step.slope(np.array([-1.0]))[0]) >= 0.0


def _lower(run: Run, a0: float) -> tuple[Bracket, NDArray[np.bool_]]:
    """log Gamma_n of a_0 through the maps, which increase, and the layers at which that is certainly > 0."""
    room = 4.0 * EPS * float(np.abs(run.C[np.tril_indices(run.n, -1)]).mean()) if run.n > 1 else 0.0
    if a0 >= 0.0:
        found = run.mapped(one(a0, max(a0 - room, 0.0), min(a0 + room, 1.0)))
        return found.through(log_gamma(run.n)), np.ones(len(run.layers) + 1, dtype=bool)
    ends = [(a0, a0 - room, a0 + room)]
    for step in run.steps:
        mapped = step(np.array(ends[-1])).tolist()
        error = (step.rounding + 4.0 * EPS) + step.offset_error  # of values in [-1, 1]
        ends.append((mapped[0], mapped[1] - error, min(mapped[2] + error, 1.0)))
    path = np.array(ends).T
    with np.errstate(divide="ignore"):
        logs = Bracket(*np.log(np.maximum(path, 0.0))).widened()
    return logs.through(log_gamma(run.n)), path[1] > 0.0
