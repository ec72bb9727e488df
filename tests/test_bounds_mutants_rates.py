"""Claims about rates and signs made wrong on purpose: the true claim's draws refute them.

A wrong form is the certificate of the true one with another slack, or is made here of the same run of the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest
from _mutants import refuted
from numpy.typing import NDArray

from bounds import (
    CLAIMS,
    Certificate,
    Verdict,
    asymptotic_rate,
    certify,
    gap_rates,
    mixed_layers,
    sign_freezing,
)
from bounds._bracket import Bracket, Increasing, settle
from bounds._depth import Run, start
from bounds._gamma import log_gamma, log_gamma_floor, log_gamma_minus, log_psi_from_log

pytestmark = pytest.mark.slow

Floats: TypeAlias = NDArray[np.float64]
Wrong: TypeAlias = Callable[..., Certificate]
Pair: TypeAlias = tuple[Bracket, Bracket]
Bound: TypeAlias = Callable[[Run], Pair]
Needs: TypeAlias = Callable[[Run], bool]
Number: TypeAlias = Callable[[Run], float]
FUNCTIONS: dict[str, Wrong] = {
    "r1": asymptotic_rate,
    "r2": asymptotic_rate,
    "r8": mixed_layers,
    "t2": sign_freezing,
    "t3": gap_rates,
}
NOTHING = certify("wrong", "", 0, 0, tolerance=0, hypotheses={"applies": False})
LESS, MORE = math.log(0.99), math.log(1.01)


def moved(label: str, side: str, by: float | Callable[[Run], Any]) -> Wrong:
    """One side of the claim, with `by` added to its slack."""

    def function(*arguments: Any) -> Certificate:
        true = FUNCTIONS[label](*arguments)
        if true.verdict is Verdict.NOT_APPLICABLE:
            return NOTHING
        k = true.sides.index(side)
        change = by if isinstance(by, float) else np.asarray(by(start(*(*arguments, None)[:3])))
        slack, mask = np.asarray(true.slack)[k] + change, np.array(true.verdicts).reshape(np.shape(true.slack))[k]
        here = (mask != Verdict.NOT_APPLICABLE) & np.isfinite(np.asarray(true.lhs)[k]) & np.isfinite(slack)
        bar = np.asarray(true.tolerance)[k] + 1e-14 * np.abs(change)
        slack, bar = (np.where(here, x, 0.0) for x in (slack, bar))
        return certify("wrong", "", np.zeros_like(slack), slack, tolerance=bar, applicable=here)

    return function


def instead(bound: Bound, needs: Needs | None = None) -> Wrong:
    """lhs <= rhs of logarithms, both made of the run, where f(0) = 0 and `needs`."""

    def function(*arguments: Any) -> Certificate:
        run = start(*(*arguments, None)[:3])
        if not run.centred.holds or (needs is not None and not needs(run)):
            return NOTHING
        slack, tolerance = settle(*bound(run))
        return certify("wrong", "", np.zeros_like(slack), slack, tolerance=tolerance)

    return function


def each(run: Run, value: Callable[[float], float]) -> Floats:
    """Sums over the layers so far of a function of beta - 1."""
    return np.cumsum([0.0, *(value(run.strengths[x].excess) for x in run.layers)])


def depth(run: Run) -> Floats:
    return np.arange(len(run.layers) + 1.0)


def sloped(run: Run) -> bool:
    return run.positive_r.holds and run.separated.holds


def psi(x: Bracket, power: float) -> Bracket:
    return x.through(log_psi_from_log(power))


def separated(run: Run) -> bool:
    return run.separated.holds


def largest_r(run: Run) -> float:
    return max(s.r for s in run.strengths.values())


def floor_of(bracket: Bracket, run: Run) -> Pair:
    return bracket.through(log_gamma(run.n)), run.log_gaps


# --- rates --------------------------------------------------------------------------------------------------


def limit(power: Number) -> Wrong:
    """x_L/R_L <= x_l/(R_l (1 - x_l)^p)."""
    return instead(
        lambda r: ((r.mapped_largest - r.log_rate)[-1], psi(r.mapped_largest, power(r)) - r.log_rate), sloped
    )


def rate_is_the_inverse_of_beta(run: Run) -> Pair:
    scaled = run.mapped_largest + run.decay
    return scaled.before(), scaled


def printed_rate(run: Run) -> Pair:
    """E10: gap <= beta^-l."""
    return run.log_gaps, -1.0 * run.decay


def powers(run: Run, more: float) -> Floats:
    return np.array([1.0, *np.cumprod([step.first[0] * more for step in run.steps])])


def with_the_first_weight(run: Run) -> Pair:
    """m_1 <= w_k m_0^k, the first term alone."""
    k, weight, _ = run.steps[0].first
    return run.log_largest[1], float(k) * run.log_largest[0] + math.log(weight)


def by_a_power(more: float) -> Wrong:
    return instead(lambda run: (run.log_largest, run.log_largest[0].scaled(powers(run, more))), separated)


def every_power_is_3(run: Run) -> Pair:
    return run.log_largest, run.log_largest[0].scaled(3.0 ** depth(run))


RATES: list[tuple[str, str, Wrong]] = [
    ("r1", "increase by 1 %", moved("r1", "increase", LESS)),
    ("r1", "rate 1 % more", moved("r1", "increase", lambda run: -MORE * (depth(run) > 0))),
    ("r1", "rate 1/beta", instead(rate_is_the_inverse_of_beta, sloped)),
    ("r1", "limit 1 % less", moved("r1", "limit", LESS)),
    ("r1", "power 1 % less", limit(lambda run: 0.99 * run.power)),
    ("r1", "power 1", limit(lambda run: 1.0)),
    ("r1", "gap <= beta^-l", instead(printed_rate, sloped)),
    ("r2", "1 % less", moved("r2", "power", LESS)),
    ("r2", "exponent 1 % more", by_a_power(1.01)),
    ("r2", "k = 3", instead(every_power_is_3, separated)),
    ("r2", "w_k m_0^k", instead(with_the_first_weight, separated)),
]


# --- gaps ---------------------------------------------------------------------------------------------------


def half(run: Run) -> Bracket:
    """log((n-1)/2)."""
    return run.log(Fraction(run.n - 1, 2))


def lower_without_its_denominator(run: Run) -> Pair:
    return half(run) + 2.0 * (run.log_rms[0] + run.log_rate), run.log_gaps


def lower_with_a_smaller_denominator(run: Run) -> Pair:
    n = run.n
    floor = Increasing(lambda x: math.log((n - 1) / 2) + 2.0 * x - np.log1p(0.99 * (n - 2) * np.exp(x)), lambda x: x)
    return (run.log_rms[0] + run.log_rate).through(floor), run.log_gaps


def lower_for_all_signs(run: Run) -> Pair:
    return (run.log_rms[0] + run.log_rate).through(log_gamma_floor(run.n)), run.log_gaps


def lower_by_the_largest(run: Run) -> Pair:
    return (run.log_largest[0] + run.log_rate).through(log_gamma_floor(run.n)), run.log_gaps


def upper(power: Number) -> Wrong:
    def bound(run: Run) -> Pair:
        mu, smallest = run.log_spectrum
        return run.log_gaps, half(run) + 2.0 * (mu - power(run) * smallest + run.log_rate)

    return instead(bound, lambda run: sloped(run) and run.definite.holds and run.n > 1)


def upper_by_the_largest(run: Run) -> Pair:
    top = psi(run.mapped_largest[0], run.power)
    return run.log_gaps, half(run) + 2.0 * (top + run.log_rate)


GAPS: list[tuple[str, str, Wrong]] = [
    ("t3", "lower, 1 % more", moved("t3", "lower", LESS)),
    ("t3", "upper, 1 % less", moved("t3", "upper", LESS)),
    ("t3", "rate 1 % more", moved("t3", "lower", lambda run: 2.0 * depth(run) * LESS)),
    ("t3", "rate 1 % less", moved("t3", "upper", lambda run: 2.0 * depth(run) * LESS)),
    ("t3", "rate of the lower half 1/beta", moved("t3", "lower", lambda r: each(r, lambda b: 2 * math.log1p(-b * b)))),
    ("t3", "rate r, not r^2", moved("t3", "lower", lambda run: run.log_rate.value)),
    ("t3", "rate r^3", moved("t3", "upper", lambda run: run.log_rate.value)),
    ("t3", "no denominator", instead(lower_without_its_denominator, lambda run: run.unmixed.holds and run.n > 1)),
    ("t3", "lower for all signs", instead(lower_for_all_signs, lambda run: run.positive_r.holds)),
    ("t3", "lower by the largest", instead(lower_by_the_largest, lambda run: run.unmixed.holds)),
    ("t3", "upper, power 1 % less", upper(lambda run: 0.99 * run.power)),
    ("t3", "upper, power 1", upper(lambda run: 1.0)),
    ("t3", "upper, 1/r of the largest", upper(lambda run: 1.0 / largest_r(run))),
    ("t3", "upper by the largest", instead(upper_by_the_largest, lambda run: sloped(run) and run.n > 1)),
    ("t3", "rms lower, 1 % more", moved("t3", "rms lower", LESS)),
    ("t3", "rms upper, 1 % less", moved("t3", "rms upper", LESS)),
    ("t3", "minus below", instead(lambda run: (run.log_rms.through(log_gamma_minus(run.n)), run.log_gaps))),
    ("t3", "plus above", instead(lambda run: (run.log_gaps, run.log_rms.through(log_gamma(run.n))))),
    ("t3", "largest below", instead(lambda run: floor_of(run.log_largest, run))),
]


# --- layers that differ -------------------------------------------------------------------------------------


def one_rate(pick: Callable[..., float]) -> Callable[[Run], Bracket]:
    def rate(run: Run) -> Bracket:
        found = depth(run) * math.log(pick(s.r for s in run.strengths.values()))
        return Bracket(found, found, found).widened(1e-12)

    return rate


def mixed_lower(rate: Callable[[Run], Bracket]) -> Wrong:
    return instead(lambda run: (run.mapped_largest[0] + rate(run), run.mapped_largest), sloped)


def mixed_upper(rate: Callable[[Run], Bracket], power: Number = lambda run: run.power) -> Wrong:
    return instead(lambda run: (run.mapped_largest, psi(run.mapped_largest[0], power(run)) + rate(run)), sloped)


MIXED: list[tuple[str, str, Wrong]] = [
    ("r8", "beta, 1 % more", moved("r8", "potential", lambda run: depth(run) * -MORE)),
    ("r8", "beta - 1, 1 % more", moved("r8", "potential", lambda r: each(r, lambda b: -b / (1 + b) * 0.00995))),
    ("r8", "potential at rate r", moved("r8", "potential", lambda run: run.log_rate.value + run.decay.value)),
    ("r8", "lower, 1 % more", moved("r8", "lower", LESS)),
    ("r8", "upper, 1 % less", moved("r8", "upper", LESS)),
    ("r8", "largest r below", mixed_lower(one_rate(max))),
    ("r8", "smallest r above", mixed_upper(one_rate(min))),
    ("r8", "1/beta below", mixed_lower(lambda run: -1.0 * run.decay)),
    ("r8", "power 1 % less", mixed_upper(lambda run: run.log_rate, lambda run: 0.99 * run.power)),
    ("r8", "1/r of the largest", mixed_upper(lambda run: run.log_rate, lambda run: 1.0 / largest_r(run))),
]


# --- signs --------------------------------------------------------------------------------------------------


def negated(share: float, where: Callable[[float, float, float], bool]) -> Wrong:
    """-G_ij >= x r^l/(1 + share e x/((1-r)(r - e x))) for the entries that are asked for; 0 where that is negative."""

    def function(*arguments: Any) -> Certificate:
        run = start(*arguments)
        if not run.centred.holds or not run.positive_r.holds:
            return NOTHING
        r, e = run.strengths[run.layers[0]].r, run.even_share
        pairs = [(i, j) for i in range(run.n) for j in range(i) if run.C[i, j] < 0 and where(-run.C[i, j], r, e)]
        lhs, rhs = [0.0], [0.0]
        for i, j in pairs:
            x = -float(run.C[i, j])
            divisor = 1.0 + share * e * x / ((1 - r) * (r - e * x)) if e and r < 1.0 else 1.0
            found = run.log_negated(i, j)
            lhs.extend((math.log(x / divisor) + run.log_rate.value if divisor > 0 else -np.inf + depth(run)).tolist())
            rhs.extend(found.high.tolist())
        return certify("wrong", "", lhs, rhs, tolerance=1e-12)

    return function


def never_dies(*arguments: Any) -> Certificate:
    """Entries stay negative, wherever they start."""
    run = start(*arguments)
    negative = run.C < 0.0
    if not run.centred.holds or not negative.any():
        return NOTHING
    largest = run.grams.E[:, negative].max(axis=1)
    return certify("wrong", "", largest, np.zeros_like(largest), tolerance=run.grams.error + 1e-15)


SIGNS: list[tuple[str, str, Wrong]] = [
    ("t2", "entries, 1 % more", moved("t2", "entries", LESS)),
    ("t2", "rate 1 % more", moved("t2", "entries", lambda run: depth(run) * LESS)),
    ("t2", "rate 1/beta", moved("t2", "entries", lambda run: run.log_rate.value + run.decay.value)),
    ("t2", "e, 1 % less", negated(0.99, lambda x, r, e: e * x < r)),
    ("t2", "without e", negated(0.0, lambda x, r, e: e * x < r)),
    ("t2", "no entry dies", never_dies),
    ("t2", "r^l x beyond r/e", negated(0.0, lambda x, r, e: e * x >= r)),
    ("t2", "all positive pairs", instead(lambda run: floor_of(run.mapped_positive - math.log(0.5), run))),
    ("t2", "positive pairs, 1 % more", moved("t2", "positive pairs", LESS)),
    ("t2", "all pairs at r^l t_0", instead(lambda run: floor_of(run.log_rms[0] + run.log_rate, run))),
    ("t2", "all pairs at f_l(t_0)", instead(lambda run: floor_of(run.mapped_rms, run))),
]

REFUTED = [*RATES, *GAPS, *MIXED, *SIGNS]


@pytest.mark.parametrize(("label", "what", "wrong"), REFUTED, ids=[f"{row[0]}: {row[1]}" for row in REFUTED])
def test_wrong_forms_are_refuted(label: str, what: str, wrong: Wrong) -> None:
    assert refuted(CLAIMS[label], wrong) is not None, what


SURVIVORS: list[tuple[str, str, Wrong]] = [
    (
        "t2",
        "all pairs, 1 % more: the constant is that of entries next to -1 in the limit, and other entries are larger",
        moved("t2", "all pairs", LESS),
    ),
    (
        "t3",
        "n - 2, 1 % less: to first order Gamma_n has two thirds of it",
        instead(lower_with_a_smaller_denominator, lambda run: run.unmixed.holds and run.n > 1),
    ),
]


@pytest.mark.parametrize(("label", "reason", "weaker"), SURVIVORS, ids=[f"{r[0]}: {r[1][:20]}" for r in SURVIVORS])
def test_what_survives_is_true_on_what_is_drawn(label: str, reason: str, weaker: Wrong) -> None:
    assert reason
    assert refuted(CLAIMS[label], weaker, examples=300) is None


TRUE: list[tuple[str, str, Wrong]] = [
    ("r1", "limit", limit(lambda run: run.power)),
    ("r2", "power", by_a_power(1.0)),
    ("t3", "upper", upper(lambda run: run.power)),
    ("t3", "lower", instead(lower_for_all_signs, lambda run: run.unmixed.holds)),
    ("r8", "lower", mixed_lower(lambda run: run.log_rate)),
    ("r8", "upper", mixed_upper(lambda run: run.log_rate)),
    ("t2", "entries", negated(1.0, lambda x, r, e: e * x < r)),
    ("t2", "positive pairs", instead(lambda run: floor_of(run.mapped_positive, run))),
    *(
        (label, side, moved(label, side, 0.0))
        for label, side in [("r1", "increase"), ("r2", "power"), ("t2", "all pairs")]
    ),
]


@pytest.mark.parametrize(("label", "what", "form"), TRUE, ids=[f"{row[0]}: {row[1]}" for row in TRUE])
def test_the_same_forms_made_right_are_not_refuted(label: str, what: str, form: Wrong) -> None:
    assert refuted(CLAIMS[label], form, examples=300) is None, what


@pytest.mark.parametrize("label", sorted({row[0] for row in REFUTED}))
def test_the_true_claims_are_not_refuted(label: str) -> None:
    assert refuted(CLAIMS[label], FUNCTIONS[label], examples=300) is None
