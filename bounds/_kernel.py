"""What is claimed of any map of correlations kappa(rho) = sum over k >= 0 of W_k rho^k: how fast it reaches its limit.

The bounds themselves, with their derivations, are those of `meanfield.convergence`; here they are put beside the way of
one correlation through the layers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis, certify
from bounds._polynomial import rational_weights
from bounds._strengths import degree
from meanfield._convergence import Convergence, convergence
from meanfield._layer import Layer, check_depth
from meanfield._step import Step

__all__ = ["kernel_convergence", "schwarz_pick"]

Floats: TypeAlias = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
_SOURCE = "arXiv:2410.20107"
_RATE = 4e-15  # relative error of a rate, and so of its l-th power for each of l layers


def kernel_convergence(layer: Layer, rho0: float, depth: int, *, case: int | None = None) -> Certificate:
    """Correlations reach the fixed point of a layer at least as fast as one of four cases says, from every start.

    With kappa the map of correlations, rho* its attracting fixed point and rho_l the iterates of rho_0,

        1. kappa(0) = 0:   |rho_l|/(1 - |rho_l|) <= alpha^l |rho_0|/(1 - |rho_0|),   alpha = 1/(2 - kappa'(0));
        2. kappa'(1) < 1:  1 - rho_l <= alpha^l (1 - rho_0),                        alpha = kappa'(1);
        3. kappa'(1) = 1:  1 - rho_l <= (1 - rho_0)/(1 + l p (1 - rho_0)),          p = 1 - kappa(0) - kappa'(0);
        4. otherwise, rho_0 >= rho*: (rho_l - rho*)/(1 - rho_l) <= alpha^l (rho_0 - rho*)/(1 - rho_0), alpha =
           1/(2 - kappa'(rho*)); |rho_0| <= rho*: |rho_l - rho*| <= kappa'(rho*)^l |rho_0 - rho*|; below -rho*: by
           Schwarz and Pick (`schwarz_pick`).

    Compared are |rho_l - rho*| and the bound that this makes of it. In print the rate of case 4 is too small: for
    W = (.35, .0115, .638, .0005), rho_0 = .999 and l = 23 the distance is .24047, the printed bound .12730, and this
    one .25687.

    layer: a `meanfield.Layer` that has a map of correlations.  rho0: in [-1, 1].  depth: a count.  case: claim this
    case only; where the layer is another, the certificate is NOT_APPLICABLE.
    Returns a certificate over layers 0..depth. Raises ValueError for rho0, depth and case, and as `fixed_points`.
    Source: arXiv:2410.20107, corrected; proofs in `meanfield._convergence`.  The distance is known relatively in cases
    1 to 3, to 2e-15 in each layer; in case 4 to some 1e-15 absolutely.

    >>> certificate = kernel_convergence(Layer("gelu", normalization="rms"), 0.999, 40)
    >>> certificate.verdict.name, certificate.lhs[[0, 40]].round(4).tolist(), certificate.rhs[[0, 40]].round(4).tolist()
    ('HOLDS', [0.2386, 0.2244], [0.2386, 0.2267])
    """
    if case not in (None, 1, 2, 3, 4):
        raise ValueError(f"case must be 1, 2, 3, 4 or None, got {case!r}")
    found = convergence(layer)
    bound = found.bound(rho0, depth)
    records = []
    if case is not None:
        records = [Hypothesis(f"case {case}", found.case == case, f"the layer is case {found.case}")]
    return _certificate(f"k{found.case if case is None else case}", layer, found, rho0, bound, records)


def schwarz_pick(layer: Layer, rho0: float, depth: int) -> Certificate:
    """Correlations reach a fixed point below 1 at least as fast as the lemma of Schwarz and Pick says, wherever from.

    With a = kappa'(rho*) and T = |rho - rho*|/(1 - rho rho*),  T(rho_(l+1)) <= T (T + a)/(1 + a T), T = T(rho_l), for
    |rho_0| < 1; compared are |rho_l - rho*| and the bound that follows from T_l.

    Proof: kappa maps the unit disc to itself and fixes rho*; see `meanfield._convergence`.

    layer, rho0, depth: as `kernel_convergence`. NOT_APPLICABLE for |rho_0| = 1, and where rho* = 1, on the border of
    the disc. Raises and is accurate as there.
    Source: the lemma of H. A. Schwarz and G. Pick, applied to arXiv:2410.20107.

    >>> schwarz_pick(Layer("square", normalization="rms"), -0.9, 20).verdict.name
    'HOLDS'
    """
    found = convergence(layer)
    inside = abs(float(rho0)) < 1.0 if isinstance(rho0, int | float | np.number) else True
    below = found.fixed_point.complement > 0.0
    records = [Hypothesis("|rho_0| < 1", inside, f"rho_0 = {rho0!r}"), Hypothesis("rho* < 1", below)]
    bound = found.schwarz_pick(rho0, depth) if below else np.zeros(check_depth(depth) + 1)
    return _certificate("schwarz-pick", layer, found, rho0, bound, records)


def _certificate(
    claim: str, layer: Layer, found: Convergence, rho0: float, bound: Floats, records: list[Hypothesis]
) -> Certificate:
    distance, error = _distances(layer.step, found, float(rho0), len(bound) - 1)
    same = _equal(layer, bound, float(rho0), found)
    if claim == "schwarz-pick" and found.case == 1:
        weights = rational_weights(layer.sigma)
        same |= (
            layer.keep == 0.0 and weights is not None and weights[1:] == (Fraction(0), Fraction(1))
        )  # kappa(rho) = rho^2
    point = found.fixed_point
    # |rho_0 - rho*| is a difference, of 0 or 1 exactly
    rounded = distance[0] > 0.0 and 0.0 < point.rho < 1.0
    start = 2.0 * EPS * (abs(float(rho0)) + point.rho) / distance[0] if rounded else 0.0
    plain = 16.0 * EPS + start + _RATE * np.arange(len(bound))
    relative = _squared(found, bound, start) if claim == "schwarz-pick" else plain
    bar = np.where(same, 0.0, error + relative * bound + 2.0**-1074)
    return certify(
        claim,
        f"{_SOURCE}, corrected" if found.case == 4 else _SOURCE,
        distance,
        np.where(same, distance, bound),
        tolerance=bar,
        hypotheses=records,
        statement=f"|rho_l - rho*| <= its bound, rho* = {found.fixed_point.rho:.6g}, case {found.case}",
        threshold_layer=0,
    )


def _equal(layer: Layer, bound: Floats, rho0: float, found: Convergence) -> NDArray[np.bool_]:
    """Layer 0; starts that stay, up to their sign; and linear maps of case 2, which lose kappa'(1) exactly."""
    start = abs(rho0 - found.fixed_point.rho) == 0.0 or rho0 == 1.0
    stays = found.case == 1 and (found.rate == 1.0 or (rho0 == -1.0 and layer.step.parity != 0))
    linear = found.case == 2 and degree(layer) == 1
    return np.asarray((np.arange(len(bound)) == 0) | start | stays | linear)


def _squared(found: Convergence, bound: Floats, start: float) -> Floats:
    """Relative error of the bound of Schwarz and Pick: T (T + a)/(1 + a T) multiplies that of T by 1 + T/(T + a)."""
    below, a = found.fixed_point.complement or 1.0, found.fixed_point.slope
    out, error = np.empty(len(bound)), 8 * EPS + start
    for l, size in enumerate(bound.tolist()):
        out[l] = error
        t = min(1.0, 2.0 * size / below)
        error = error * (1.0 + (t / (t + a) if t else 0.0)) + _RATE
    return out


def _distances(step: Step, found: Convergence, rho0: float, depth: int) -> tuple[Floats, Floats]:
    """|rho_l - rho*| for l = 0..depth, and its error."""
    out, errors = np.empty(depth + 1), np.empty(depth + 1)
    below = found.fixed_point.complement
    if below == 0.0:  # distances from 1, relatively
        delta, relative = np.array([1.0 - rho0]), EPS
        for l in range(depth + 1):
            out[l], errors[l] = delta[0], relative * delta[0]
            delta, relative = step.complement(delta), relative + 2.0 * step.rounding
        return out, errors
    rho, error = np.array([rho0]), 0.0
    star = 0.0 if found.case == 1 else found.fixed_point.rho
    known = 2.0 * EPS if star else 0.0  # of rho*, or of its distance from 1
    near, relative = np.array([1.0 - rho0]), 0.0
    for l in range(depth + 1):
        if near[0] <= 0.5:  # 1 may repel: the distance from it is carried along, and its elasticity is at most 1
            out[l], error = abs(near[0] - (below if star else 1.0)), relative * float(near[0])
            rho, relative = 1.0 - near, relative + 2.0 * step.rounding
            near = step.complement(near)
        else:
            out[l], near = abs(rho[0] - star), np.ones(1)
        errors[l] = error + known * (out[l] > 0.0)
        largest = float(abs(rho[0]))
        error = step.spread(largest, error) if found.case == 1 else _spread(step, largest, error)
        rho = step(rho)
    return out, errors


def _spread(step: Step, largest: float, error: float) -> float:
    return step.spread(largest, error) + 2.0 * step.rounding  # of the map, or of the distance from 1
