"""Claims over depth made wrong on purpose, by 1 %, in an exponent or in a hypothesis: their own draws refute them.

A wrong form is made of the same run of the network as the claim, whose hypotheses it keeps but for the one in question.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from _mutants import refuted

from bounds import CLAIMS, Certificate, certify
from bounds._bracket import Bracket, closest, one, settle
from bounds._depth import Run, start
from bounds._gamma import LOG_EXPM1, LOG_LOG1P_EXP, log_gamma, log_gamma_minus, log_psi
from bounds._sharp import log_potential_at, reach
from meanfield._layer import Layers

pytestmark = pytest.mark.slow

Side: TypeAlias = Callable[[Run], Bracket]
Needs: TypeAlias = Callable[[Run], bool]

PERCENT = math.log(1.01)
NOTHING = certify("wrong", "", 0, 0, tolerance=0, hypotheses={"applies": False})


@dataclass(frozen=True)
class Variant:
    """lhs <= rhs by logarithms, where f(0) = 0 and `needs`."""

    claim: str
    lhs: Side
    rhs: Side
    needs: Needs = lambda run: True

    def __call__(self, layer: Layers, G0: object, depth: int | None = None) -> Certificate:
        run = start(layer, G0, depth)
        if not run.centred.holds or not self.needs(run):
            return NOTHING
        slack, tolerance = settle(self.lhs(run), self.rhs(run))
        return certify("wrong", "", np.zeros_like(slack), slack, tolerance=tolerance)


def layers_of(run: Run) -> Bracket:
    """0, 1, ..., depth."""
    count = np.arange(len(run.layers) + 1.0)
    return Bracket(count, count, count)


def gap(run: Run) -> Bracket:
    return run.log_gaps


def rate(run: Run) -> Bracket:
    return run.log_rate


def definite(run: Run) -> bool:
    return run.definite.holds


def sloped(run: Run) -> bool:
    return run.n > 1 and run.positive_r.holds and run.separated.holds and run.definite.holds


def separated(run: Run) -> bool:
    return run.separated.holds


def unmixed(run: Run) -> bool:
    return run.unmixed.holds


def psi(run: Run, share: float = 1.0) -> Bracket:
    """log psi with a share of the power 1/r, which is 1 at least."""
    return run.log_potentials.through(log_psi(max(run.power * share, 1.0)))


def by_eigenvalue(run: Run) -> Bracket:
    """log of (n-1)/2 (mu_0/lambda_0^(1/r))^2, r4+ at layer 0."""
    mu, smallest = run.log_spectrum
    return run.log(Fraction(run.n - 1, 2)) + 2.0 * (mu - run.power * smallest)


def by_determinant(run: Run) -> Bracket:
    return run.log(Fraction(run.n - 1, 2)) + 2.0 * run.power * (1.0 - run.log_det)


def of_sums(bound: Callable[[Run, Bracket], Bracket]) -> tuple[Side, Side]:
    """Of the sums of the k largest eigenvalues, and bounds on them, those that come closest."""

    def nearest(run: Run) -> tuple[Bracket, Bracket]:
        return closest([(x, bound(run, x)) for x in run.log_partial_sums])

    return lambda run: nearest(run)[0], lambda run: nearest(run)[1]


def potential_rate(run: Run, constant: float = 1.0) -> Bracket:
    """log of constant (n-1) psi(G_0)^2 R^2 once it applies, else inf."""
    at = reach(run, run.log_rate)
    never = one(math.inf) + 0.0 * run.log_rate
    return (log_potential_at(run, at) + math.log(constant)).same_as(never, at.high <= -math.log(2.0))[1]


def minus(run: Run, path: Bracket) -> Bracket:
    return path.through(log_gamma_minus(run.n))


def several(run: Run) -> bool:
    return run.n > 1


def correlated(run: Run) -> bool:
    return bool(run.path.max_correlation[0] > 0)


VARIANTS = {
    "potential: beta 1 % larger": Variant(
        "lemma-a.3",
        lambda r: r.log_potentials,
        lambda r: r.log_potentials[0] - r.decay - PERCENT * layers_of(r),
        separated,
    ),
    "potential: rate r": Variant(
        "lemma-a.3", lambda r: r.log_potentials, lambda r: r.log_potentials[0] + rate(r), separated
    ),
    "potential: 1 %": Variant(
        "lemma-a.3", lambda r: r.log_potentials, lambda r: r.log_potentials[0] - r.decay - PERCENT, separated
    ),
    "theorem 5.1: no constant": Variant("theorem-5.1", gap, lambda r: 0.0 - r.decay, definite),
    "theorem 5.1: no constant, rate beta^2": Variant("theorem-5.1", gap, lambda r: -2.0 * r.decay, definite),
    "theorem 5.1: no 1/det": Variant("theorem-5.1", gap, lambda r: 0.0 * r.decay - r.decay, definite),
    "theorem 5.1: beta^3": Variant("theorem-5.1", gap, lambda r: r.log(4 * r.n) - r.log_det - 3.0 * r.decay, definite),
    "5.1+ map: 1 %": Variant("theorem-5.1+", gap, lambda r: r.log_spreads.through(log_gamma(r.n)) - PERCENT, definite),
    "5.1+ map: m for mu": Variant("theorem-5.1+", gap, lambda r: r.mapped_largest.through(log_gamma(r.n)), definite),
    "5.1+ eigenvalue: a quarter": Variant(
        "theorem-5.1+", gap, lambda r: (r.odds - math.log(4.0)).through(LOG_LOG1P_EXP), definite
    ),
    "5.1+ eigenvalue: rate r^3": Variant(
        "theorem-5.1+", gap, lambda r: (r.odds[0] + 3.0 * rate(r)).through(LOG_LOG1P_EXP), sloped
    ),
    "5.1+ determinant: rate r^3": Variant(
        "theorem-5.1+", gap, lambda r: (1.0 - r.log_det).through(LOG_EXPM1) + 3.0 * rate(r), sloped
    ),
    "m1 gap: 1 %": Variant("m1", gap, lambda r: r.log_gaps.before() - PERCENT),
    "m1 eigenvalue: 1 %": Variant("m1", lambda r: r.log_smallest, lambda r: r.log_smallest.before() - PERCENT),
    "m1 gap: at rate beta": Variant("m1", gap, lambda r: r.log_gaps[0] - r.decay - PERCENT, lambda r: r.definite.holds),
    "l2: 1 %": Variant("l2", lambda r: r.log_smallest, lambda r: r.log_spreads - PERCENT),
    "l2: m for mu": Variant("l2", lambda r: r.log_smallest, lambda r: r.mapped_largest),
    "l2: quadratic map": Variant("l2", lambda r: r.log_smallest, lambda r: r.log_quadratic - PERCENT),
    "majorization, sums: s^2": Variant(
        "spectral-majorization", *of_sums(lambda r, x: x[0] + 2.0 * r.log_ratio), several
    ),
    "majorization, sums: 1 %": Variant(
        "spectral-majorization", *of_sums(lambda r, x: x[0] + r.log_ratio - PERCENT), several
    ),
    "majorization, sums: m for mu": Variant(
        "spectral-majorization", *of_sums(lambda r, x: x[0] + r.mapped_largest - r.mapped_largest[0]), correlated
    ),
    "majorization, steps: 1 %": Variant("spectral-majorization", *of_sums(lambda r, x: x.before() - PERCENT), several),
    "majorization, norm: 1 %": Variant(
        "spectral-majorization", lambda r: r.log_rms, lambda r: r.log_rms[0] + r.log_ratio - PERCENT
    ),
    "majorization, norm: s^2": Variant(
        "spectral-majorization", lambda r: r.log_rms, lambda r: r.log_rms[0] + 2.0 * r.log_ratio
    ),
    "majorization, gap: 1 %": Variant(
        "spectral-majorization", gap, lambda r: r.mixture_gap(r.log_ratio) - PERCENT, definite
    ),
    "t1 lower: 1 %": Variant(
        "t1", lambda r: r.mapped_rms.through(log_gamma(r.n)), lambda r: r.log_gaps - PERCENT, unmixed
    ),
    "t1 lower: signs mixed": Variant("t1", lambda r: r.mapped_rms.through(log_gamma(r.n)), gap),
    "t1 lower: m for t": Variant("t1", lambda r: r.mapped_largest.through(log_gamma(r.n)), gap, unmixed),
    "t1 upper: 1 %": Variant("t1", gap, lambda r: r.mixture_gap(r.log_ratio) - PERCENT, definite),
    "t1 upper: rate r": Variant("t1", gap, lambda r: r.mixture_gap(rate(r)), sloped),
    "r3: half the power": Variant("r3", lambda r: psi(r, 0.5), lambda r: psi(r, 0.5)[0] + rate(r), sloped),
    "r3: power 1 % smaller": Variant("r3", lambda r: psi(r, 0.99), lambda r: psi(r, 0.99)[0] + rate(r), sloped),
    "r3: r 1 % smaller": Variant("r3", psi, lambda r: psi(r)[0] + rate(r) - PERCENT * layers_of(r), sloped),
    "r4: half the constant, less 2 %": Variant("r4", gap, lambda r: potential_rate(r, 0.49), sloped),
    "r4: rate r^3": Variant("r4", gap, lambda r: potential_rate(r) + rate(r), sloped),
    "r4: no threshold, a tenth": Variant(
        "r4", gap, lambda r: 2.0 * (psi(r)[0] + rate(r)) - math.log(10.0) - r.log(r.n), sloped
    ),
    "r4+ eigenvalue: 1 %": Variant("r4+", gap, lambda r: by_eigenvalue(r) + 2.0 * rate(r) - PERCENT, sloped),
    "r4+ eigenvalue: rate r^3": Variant("r4+", gap, lambda r: by_eigenvalue(r) + 3.0 * rate(r), sloped),
    "r4+ determinant: rate r^4": Variant("r4+", gap, lambda r: by_determinant(r) + 4.0 * rate(r), sloped),
    "r5 correlation: 1 %": Variant("r5", lambda r: r.log_largest, lambda r: r.log_quadratic - PERCENT),
    "r5 correlation: r m": Variant("r5", lambda r: r.log_largest, lambda r: r.log_largest[0] + rate(r), sloped),
    "r5 gap: Gamma": Variant("r5", gap, lambda r: r.log_quadratic.through(log_gamma(r.n))),
    "r5 gap: 1 %": Variant("r5", gap, lambda r: minus(r, r.log_quadratic) - PERCENT),
    "r6 correlation: 1 %": Variant("r6", lambda r: r.log_largest, lambda r: r.mapped_largest - PERCENT),
    "r6 gap: Gamma": Variant("r6", gap, lambda r: r.mapped_largest.through(log_gamma(r.n))),
    "r6 gap, map: 1 %": Variant("r6", gap, lambda r: minus(r, r.mapped_largest) - PERCENT),
    "r6 gap, entrywise: 1 %": Variant("r6", gap, lambda r: minus(r, r.log_of_moduli) - PERCENT),
    "r6 gap, entrywise: map of the rms": Variant("r6", gap, lambda r: minus(r, r.mapped_rms)),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_refuted_by_the_draws_of_its_claim(name: str) -> None:
    wrong = VARIANTS[name]
    assert refuted(CLAIMS[wrong.claim], wrong, examples=1000) is not None


# name -> the variant, and why it is true all the same
SURVIVORS: dict[str, tuple[Variant, str]] = {
    "theorem 5.1: 1 %": (
        Variant("theorem-5.1", gap, lambda r: r.log(4 * r.n) - PERCENT - r.log_det - r.decay, definite),
        "e in place of 4n would do (theorem-5.1+)",
    ),
    "5.1+ eigenvalue: 1 %": (
        Variant("theorem-5.1+", gap, lambda r: r.odds.through(LOG_LOG1P_EXP) - PERCENT, definite),
        "Gamma_n(mu) = (1 - 1/n) (-log(1 - mu)) at most: at layer 0, n = 100 would refute it",
    ),
    "5.1+ determinant: 1 %": (
        Variant("theorem-5.1+", gap, lambda r: (1.0 - r.log_det).through(LOG_EXPM1) - r.decay - PERCENT, definite),
        "e is needed for large n only, and then log(1 + x) <= x is not sharp",
    ),
    "r4: 1 %": (Variant("r4", gap, lambda r: potential_rate(r, 0.99), sloped), "(n-1) in place of (n-1)/2"),
    "r4+ determinant: 1 %": (
        Variant("r4+", gap, lambda r: by_determinant(r) + 2.0 * rate(r) - PERCENT, sloped),
        "(e/det G_0)^(2/r) is e^2 at least",
    ),
}


@pytest.mark.parametrize("name", SURVIVORS)
def test_survivors_have_slack_there(name: str) -> None:
    wrong, _ = SURVIVORS[name]
    assert refuted(CLAIMS[wrong.claim], wrong, examples=200) is None


RIGHT = [
    Variant("lemma-a.3", lambda r: r.log_potentials, lambda r: r.log_potentials[0] - r.decay, separated),
    Variant("theorem-5.1", gap, lambda r: r.log(4 * r.n) - r.log_det - r.decay, definite),
    Variant("theorem-5.1+", gap, lambda r: r.log_spreads.through(log_gamma(r.n)), definite),
    Variant("theorem-5.1+", gap, lambda r: r.odds.through(LOG_LOG1P_EXP), definite),
    Variant("theorem-5.1+", gap, lambda r: (1.0 - r.log_det).through(LOG_EXPM1) - r.decay, definite),
    Variant("m1", gap, lambda r: r.log_gaps.before()),
    Variant("m1", lambda r: r.log_smallest, lambda r: r.log_smallest.before()),
    Variant("l2", lambda r: r.log_smallest, lambda r: r.log_spreads),
    Variant("spectral-majorization", *of_sums(lambda r, x: x[0] + r.log_ratio), several),
    Variant("spectral-majorization", *of_sums(lambda r, x: x.before()), several),
    Variant("spectral-majorization", lambda r: r.log_rms, lambda r: r.log_rms[0] + r.log_ratio),
    Variant("t1", gap, lambda r: r.mixture_gap(r.log_ratio), definite),
    Variant("t1", lambda r: r.mapped_rms.through(log_gamma(r.n)), gap, unmixed),
    Variant("r3", psi, lambda r: psi(r)[0] + rate(r), sloped),
    Variant("r4", gap, potential_rate, sloped),
    Variant("r4+", gap, lambda r: by_eigenvalue(r) + 2.0 * rate(r), sloped),
    Variant("r4+", gap, lambda r: by_determinant(r) + 2.0 * rate(r), sloped),
    Variant("r5", lambda r: r.log_largest, lambda r: r.log_quadratic),
    Variant("r5", gap, lambda r: minus(r, r.log_quadratic)),
    Variant("r6", lambda r: r.log_largest, lambda r: r.mapped_largest),
    Variant("r6", gap, lambda r: minus(r, r.mapped_largest)),
    Variant("r6", gap, lambda r: minus(r, r.log_of_moduli)),
]


@pytest.mark.parametrize("k", range(len(RIGHT)))
def test_a_variant_without_a_fault_survives(k: int) -> None:
    """The claims themselves, put together as their variants are: what refutes those is the fault."""
    assert refuted(CLAIMS[RIGHT[k].claim], RIGHT[k], examples=60, seed=1) is None
