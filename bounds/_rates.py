"""At what rate correlations and the isometry gap decay: inequalities at every layer that have the rate as their limit.

All of it follows one number x_l = f_l(x_0), x_0 >= 0, through the maps f of the layers, with r the linearity of each
and R_l their product: f(x) >= r x, so x_l/R_l increases; and psi(x) = x/(1 - x)^p, p = 1/r of the smallest r, has
psi(f(x)) <= r psi(x) (`sharp_potential_contraction`), so x_l/R_l <= psi(x_L)/R_L for l <= L: the limit K(x_0), Koenigs'
function for one repeated layer, lies between x_L/R_L and psi(x_L)/R_L, which come together.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import identical
from bounds._certificate import Certificate, Hypothesis
from bounds._depth import Run
from bounds._gamma import log_gamma, log_gamma_floor, log_gamma_minus, log_psi_from_log
from bounds._judge import answer, judged
from meanfield._layer import Layers

__all__ = ["asymptotic_rate", "gap_rates", "mixed_layers"]

Floats: TypeAlias = NDArray[np.float64]

_LARGEST = 10**300


def asymptotic_rate(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The largest correlation decays like r^l, no faster and no slower, or like a power m_0^(k^l) where c_1 = 0.

    With m_0 = max |G0_ij|, x_l = f_l(m_0), which max |G_ij| is at most (and is, if the largest entry is positive),
    R_l = r_1 ... r_l, L the depth, and k_l the product of the first powers of the maps, by logarithms

        "increase"  x_(l-1)/R_(l-1) <= x_l/R_l,       "limit"  x_L/R_L <= x_l/(R_l (1 - x_l)^p),  p = 1/r of the least,
        "power"     max |G_ij| <= m_0^(k_l).

    So x_l/r^l tends to K(m_0) in (0, inf), and the isometry gap, in the limit (1/2n) times the sum of squares of the
    correlations, decays like r^(2l) = (2 - beta)^(2l); it has been printed to decay like beta^-l. The first two need
    r > 0 in every layer, and are equations in the limit of small correlations; "power" is one for He_k.

    Proof: at the head of `bounds._rates`; |f(rho)| <= |rho|^k, since the weights from k on sum to 1.

    layer: a `meanfield.Layer`, or a sequence of them, which fixes the depth.  G0: one correlation matrix (n, n) with
    |G0_ij| < 1.  Returns a certificate over layers 0..depth. NOT_APPLICABLE where f(0) != 0. exact: by ball arithmetic.
    Raises ValueError as `potential_contraction`.
    Source: G. Koenigs 1884 for the limit of x_l/r^l; L. E. Boettcher 1904 for c_1 = 0; proof above.

    >>> from meanfield import Layer
    >>> certificate = asymptotic_rate(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 30)
    >>> certificate.verdict.name, np.exp(certificate.rhs[:2, 30]).round(9).tolist()     # K(1/2) lies between
    ('HOLDS', [1.099703131, 1.099854038])
    """
    return judged(_asymptotic_rate, layer, G0, depth, exact, gaps=False)


def _asymptotic_rate(run: Run) -> Certificate:
    x, rate = run.mapped_largest, run.log_rate
    scaled = x - rate
    above = x.through(log_psi_from_log(run.power)) - rate
    increase = identical(scaled.before(), scaled, run.equal.kept)
    slope = [_on(run.positive_r, side) for side in ("increase", "limit")]
    largest = run.log_largest
    power = identical(largest, largest[0].scaled(_powers(run)), run.equal.mapped & run.equal.pure)
    return answer(
        "r1",
        "Koenigs 1884, Boettcher 1904; proof in bounds._rates",
        [increase[0], scaled[-1], power[0]],
        [increase[1], above, power[1]],
        hypotheses=[run.centred, run.separated, *slope],
        sides=("increase", "limit", "power"),
        statement="log(x_(l-1)/R_(l-1)) <= log(x_l/R_l); log(x_L/R_L) <= log(psi(x_l)/R_l); log max|G_ij| <= k_l "
        "log m_0",
        threshold_layer=0,
    )


def _powers(run: Run) -> Floats:
    """k_l, the product of the first powers of the first l maps; beyond 1e300 less is claimed."""
    if not run.centred.holds:
        return np.ones(len(run.layers) + 1)
    products = accumulate((step.first[0] for step in run.steps), operator.mul, initial=1)
    return np.array([float(min(k, _LARGEST)) for k in products])


def gap_rates(layer: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """The isometry gap is (2 - beta)^(2l) times a constant from both sides, and that of its correlations within 2.

    With R = r_1 ... r_l, t_l the root mean square of the correlations, lambda_0 the smallest eigenvalue of G_0, by
    logarithms

        "lower"      gap(G_l) >= (n-1)/2 t_0^2/(1 + (n-2) R t_0) R^2,       for G_0 >= 0, or sigma - c_0 odd or even;
        "upper"      gap(G_l) <= (n-1)/2 ((1 - lambda_0)/lambda_0^(1/r))^2 R^2,       for r > 0 and det G_0 > 0;
        "rms lower"  gap(G_l) >= Gamma_n(t_l),       "rms upper"  gap(G_l) <= Gamma_n^-(t_l),     for all signs.

    Proof. Gamma_n(mu) >= (n-1) mu^2/(2 (1 + (n-2) mu)), which increases, at mu = f_l(t_0) >= R t_0 (`gap_sandwich`);
    "upper" is that of `sharp_gap_decay`; the last two are `rms_determinant_sandwich` at layer l. Once t_l <= 1/(3n - 4)
    they are within a factor 2.

    Arguments, NOT_APPLICABLE and errors as `asymptotic_rate`; sides over layers 0..depth.
    Source: proof above.

    >>> from meanfield import Layer
    >>> certificate = gap_rates(Layer("relu"), [[1.0, 0.5, 0.3], [0.5, 1.0, 0.1], [0.3, 0.1, 1.0]], 20)
    >>> certificate.verdict.name, certificate.slack[:, 20].round(3).tolist()
    ('HOLDS', [1.402, 1.66, 0.001, 0.001])
    """
    return judged(_gap_rates, layer, G0, depth, exact)


def _gap_rates(run: Run) -> Certificate:
    gaps, rms = run.log_gaps, run.log_rms
    mu, smallest = run.log_spectrum
    floor = (rms[0] + run.log_rate).through(log_gamma_floor(run.n))
    ceiling = run.log(Fraction(run.n - 1, 2)) + 2.0 * (mu - run.power * smallest + run.log_rate)
    pair = run.n <= 2  # one correlation has no sign
    pairs = [
        (floor, gaps),
        (gaps, ceiling),
        identical(rms.through(log_gamma(run.n)), gaps, pair | run.equal.equicorrelated | (run.common_signs > 0)),
        identical(gaps, rms.through(log_gamma_minus(run.n)), pair | run.equal.opposed | (run.common_signs < 0)),
    ]
    unmixed, sloped, definite = run.unmixed, run.positive_r, run.definite
    sided = [(unmixed, "lower"), (sloped, "lower"), (sloped, "upper"), (definite, "upper")]
    return answer(
        "t3",
        "proof in the docstring",
        [lhs for lhs, _ in pairs],
        [rhs for _, rhs in pairs],
        hypotheses=[run.centred, *(_on(*each) for each in sided)],
        sides=("lower", "upper", "rms lower", "rms upper"),
        statement="log gap(G_l) between log of (n-1)/2 t_0^2/(1 + (n-2) R t_0) R^2, Gamma_n(t_l) and of "
        "(n-1)/2 ((1 - lambda_0)/lambda_0^(1/r))^2 R^2, Gamma_n^-(t_l)",
        threshold_layer=0,
    )


def mixed_layers(layers: Layers, G0: Any, depth: int | None = None, *, exact: bool = False) -> Certificate:
    """Different layers in turn multiply: potentials by the product of 1/beta, correlations by the product of r.

    With R = r_1 ... r_l, x_l = f_l(m_0), m_0 = max |G0_ij|, f_l the composition of the first l maps, by logarithms

        "potential"  potential(G_l) <= potential(G_0)/(beta_1 ... beta_l);
        "lower"      R m_0 <= x_l,        "upper"  x_l <= R m_0/(1 - m_0)^p,    p = 1/r of the smallest r > 0,

    the composition being a power series with weights >= 0 of sum 1 again, whose first weight is R.

    Proof. (F o f)'(0) = F'(0) f'(0); compositions of power series with weights >= 0 have such weights. Lemma A.3 and
    `sharp_potential_contraction` hold layer by layer.

    layers: a sequence of `meanfield.Layer`s (or one, with a depth).  Arguments, NOT_APPLICABLE and errors as
    `asymptotic_rate`. "lower" and "upper" need r > 0 in every layer.
    Source: arXiv:2305.18399, Lemmas A.2 and A.3, for layers that differ; proof above.

    >>> from meanfield import Layer
    >>> mixed_layers([Layer("relu"), Layer("tanh"), Layer("exp")], [[1.0, 0.5], [0.5, 1.0]]).verdict.name
    'HOLDS'
    """
    return judged(_mixed_layers, layers, G0, depth, exact, gaps=False)


def _mixed_layers(run: Run) -> Certificate:
    potentials, x = run.log_potentials, run.mapped_largest
    start = x[0].through(log_psi_from_log(run.power))
    pairs = [
        identical(potentials, potentials[0] - run.decay, run.equal.untouched),
        identical(x[0] + run.log_rate, x, run.equal.untouched),
        (x, start + run.log_rate),
    ]
    slope = [_on(run.positive_r, side) for side in ("lower", "upper")]
    return answer(
        "r8",
        "arXiv:2305.18399, Lemmas A.2 and A.3, for layers that differ",
        [lhs for lhs, _ in pairs],
        [rhs for _, rhs in pairs],
        hypotheses=[run.centred, run.separated, *slope],
        sides=("potential", "lower", "upper"),
        statement="log potential(G_l) <= log potential(G_0) - sum of log beta; sum of log r + log m_0 <= log x_l <= "
        "sum of log r + log psi(m_0)",
        threshold_layer=0,
    )


def _on(hypothesis: Hypothesis, side: str) -> Hypothesis:
    return replace(hypothesis, side=side)
