"""Claims about one activation, one correlation, kernel maps made wrong on purpose: the true claim's draws refute them.

A wrong form is the certificate of the true one with another right side (or left one), or computed here on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from _mutants import refuted

import hermite
from bounds import CLAIMS, Certificate, Verdict, certify
from bounds._strengths import strength
from meanfield import Layer, convergence

pytestmark = pytest.mark.slow

Wrong = Callable[..., Certificate]
NOTHING = certify("wrong", "", 0, 0, tolerance=0, hypotheses={"applies": False})


def moved(label: str, by: Callable[..., Any], side: int | None = None) -> Wrong:
    """The claim with `by(certificate, *arguments)` added to its slack, in exact numbers where it is exact."""

    def function(*arguments: Any, exact: bool = False) -> Certificate:
        claim = CLAIMS[label]
        true = claim.function(*arguments, exact=True) if exact and claim.has_exact else claim.function(*arguments)
        if true.verdict is Verdict.NOT_APPLICABLE:
            return NOTHING
        at = (lambda x: np.asarray(x)) if side is None else (lambda x: np.asarray(x)[side])
        change = np.asarray(by(true, *arguments))
        # the change is computed to a few roundings of itself
        slack, bar = at(true.slack) + change, at(true.tolerance) + 1e-14 * np.abs(change)
        mask = np.array([v is not Verdict.NOT_APPLICABLE for v in true.verdicts]).reshape(np.shape(true.slack))
        finite = np.isfinite(slack) & np.isfinite(at(true.lhs))  # odds of 0 are 0, whatever the factor
        return certify(
            "wrong",
            "",
            np.zeros_like(slack),
            np.where(finite, slack, 0.0),
            tolerance=np.where(finite, bar, 0.0),
            applicable=at(mask) & finite,
        )

    return function


# --- expansions and one map ---------------------------------------------------------------------------------


def parseval_of_monic_polynomials(sigma: Any, degree: int) -> Certificate:
    """Coefficients of He_k that are not normalised, whose squares need k!."""
    squares = np.square(hermite.coefficients(sigma, degree)) * [math.factorial(k) for k in range(degree + 1)]
    second = hermite.second_moment(sigma)
    return certify("wrong", "", squares.sum(), second, tolerance=1e-12 * (second + squares.sum()))


def strength_without_2_minus(sigma: Any) -> Certificate:
    return certify("wrong", "", 1.0, hermite.linearity(sigma), tolerance=1e-13)


def odds(x: float) -> float:
    return math.log(x) - math.log1p(-x) if x else -math.inf


def sharp_factor_is_r(sigma: Any, rho: float) -> Certificate:
    layer = Layer(sigma)
    value, x, r = abs(float(layer.step(np.array([rho]))[0])), abs(rho), strength(layer).r
    if x in (0.0, 1.0) or not value < 1.0 or 1.0 - x < 1e-3 or not r:
        return NOTHING
    return certify("wrong", "", odds(value), odds(x) + math.log(r), tolerance=1e-9)


def h_with_its_arguments_swapped(sigma: Any, rho: float) -> Certificate:
    """(1-r) + r x in the place of r + (1-r) x."""
    layer = Layer(sigma)
    value, x, r = abs(float(layer.step(np.array([rho]))[0])), abs(rho), strength(layer).r
    if x in (0.0, 1.0) or not value < 1.0 or 1.0 - x < 1e-3 or r == 1.0:
        return NOTHING
    factor = math.log(((1 - r) + r * x) / (1 + r * x))
    return certify("wrong", "", odds(value), odds(x) + factor, tolerance=1e-9)


def contraction_of_plain_ratios(sigma: Any, rho: float) -> Certificate:
    """|f(rho)| <= |rho|/beta: for correlations, not for their odds."""
    layer = Layer(sigma)
    known = strength(layer)
    value = abs(float(layer.step(np.array([rho]))[0]))
    return certify("wrong", "", value, abs(rho) / (1 + known.excess), tolerance=1e-12)


def slack_of_share(factor: float) -> Callable[..., Any]:
    """The right side times a factor."""
    return lambda true, *_: (factor - 1.0) * np.asarray(true.rhs)


def excess_by(sigma: Any, factor: float) -> float:
    """How much more log beta is where beta - 1 is multiplied."""
    b = strength(Layer(sigma)).excess
    return math.log1p(factor * b) - math.log1p(b)


MAPS: list[tuple[str, str, Wrong]] = [
    ("h2", "1 % less", moved("h2", slack_of_share(0.99))),
    ("h2", "strictly", moved("h2", lambda true, *_: -1e-9)),
    ("h2", "monic polynomials", parseval_of_monic_polynomials),
    ("strength-range", "1 <= .99 beta", moved("strength-range", lambda true, *_: -0.01 * true.rhs[0], 0)),
    ("strength-range", "1.01 beta <= 2", moved("strength-range", lambda true, *_: -0.01 * true.lhs[1], 1)),
    ("strength-range", "without 2 -", strength_without_2_minus),
    ("lemma-a.6", "1 % less", moved("lemma-a.6", lambda true, *_: -0.01 * true.rhs[0], 0)),
    ("lemma-a.6", "K + 2", moved("lemma-a.6", lambda true, s, rho, k: (abs(rho) - 1) * true.rhs[0], 0)),
    ("lemma-a.6", "sign", moved("lemma-a.6", lambda true, *_: -2.0 * true.slack[1], 1)),
    ("lemma-a.6", "f <= .99", moved("lemma-a.6", lambda true, *_: -0.01, 2)),
    ("lemma-a.6", "modulus, 1 % less", moved("lemma-a.6", lambda true, *_: -0.01 * true.rhs[1], 1)),
    ("lemma-a.7", "beta, 1 % more", moved("lemma-a.7", lambda true, *_: -math.log(1.01), 0)),
    ("lemma-a.7", "beta - 1, 1 % more", moved("lemma-a.7", lambda t, s, *_: -excess_by(s, 1.01), 0)),
    ("lemma-a.7", "beta^2", moved("lemma-a.7", lambda t, s, *_: -math.log1p(strength(Layer(s)).excess), 0)),
    ("lemma-a.7", "h, 1 % less", moved("lemma-a.7", lambda true, *_: math.log(0.99), 1)),
    ("lemma-a.7", "h is r", sharp_factor_is_r),
    ("lemma-a.7", "h of 1 - r", h_with_its_arguments_swapped),
    ("lemma-a.7", "no odds", contraction_of_plain_ratios),
    ("r7", "1 % more", moved("r7", lambda true, *_: -0.01 * true.lhs)),
    ("r7", "beta^2", moved("r7", lambda true, *_: true.lhs * (1.0 - true.lhs))),
    ("r7", "equality", moved("r7", lambda true, *_: -2.0 * true.slack)),
]


# --- Mehler -------------------------------------------------------------------------------------------------


def smaller_remainder(factor: Callable[[float, float, float, int], float]) -> Wrong:
    """In multiprecision, where the remainder has its digits."""

    def function(rho: float, x: float, y: float, degree: int) -> Certificate:
        true = CLAIMS["lemma-a.8"].function(rho, x, y, degree, exact=True)
        if true.verdict is Verdict.NOT_APPLICABLE:
            return NOTHING
        bound = factor(abs(rho), x, y, degree) * true.rhs
        return certify("wrong", "", true.lhs, bound, tolerance=1e-14 * (true.lhs + bound))

    return function


MEHLER: list[tuple[str, str, Wrong]] = [
    ("lemma-a.8", "K + 2", smaller_remainder(lambda r, x, y, k: r)),
    ("lemma-a.8", "without 1/(1 - rho)", smaller_remainder(lambda r, x, y, k: 1.0 - r)),
    ("lemma-a.8", "half the exponent", smaller_remainder(lambda r, x, y, k: math.exp(-(x * x + y * y) / 8))),
    ("lemma-a.8", "without exp", smaller_remainder(lambda r, x, y, k: math.exp(-(x * x + y * y) / 4))),
]


# --- kernel maps --------------------------------------------------------------------------------------------


def bounded(label: str, bound: Callable[..., Any]) -> Wrong:
    """|rho_l - rho*| as the true claim finds it, under another bound, on its layers after 0."""

    def function(layer: Layer, rho0: float, depth: int) -> Certificate:
        true = CLAIMS[label].function(layer, rho0, depth)
        if true.verdict is Verdict.NOT_APPLICABLE or not depth:
            return NOTHING
        found = convergence(layer)
        l = np.arange(depth + 1.0)
        with np.errstate(all="ignore"):
            wrong = np.nan_to_num(np.asarray(bound(found, float(rho0), l, true, layer), dtype=float), nan=np.inf)
        room = true.tolerance + 1e-13 * np.where(np.isfinite(wrong), wrong, 0.0)
        return certify("wrong", "", true.lhs, wrong, tolerance=room)

    return function


def from_odds(x: float, rest: float, factor: Any) -> Any:
    return x * factor / (rest + x * factor)


def k1(found: Any, rho0: float, l: Any, alpha: Any) -> Any:
    return from_odds(abs(rho0), 1 - abs(rho0), alpha**l)


def k3(found: Any, rho0: float, l: Any, p: float) -> Any:
    return (1 - rho0) / (1 + l * p * (1 - rho0))


def k4_above(found: Any, rho0: float, l: Any, alpha: float, true: Any) -> Any:
    """Nothing below rho*."""
    point = found.fixed_point
    above = rho0 > point.rho
    return point.complement * from_odds(rho0 - point.rho, 1 - rho0, alpha**l) if above else true.rhs


def k4_below(found: Any, rho0: float, l: Any, slope: float, true: Any) -> Any:
    return slope**l * true.lhs[0] if abs(rho0) <= found.fixed_point.rho else true.rhs


def k4_coded(found: Any, rho0: float, l: Any, true: Any, layer: Layer) -> Any:
    """As the authors' code has it: alpha from kappa'(rho*), kappa(0) and rho*, and |rho_0| in the denominator."""
    point = found.fixed_point
    alpha = max(point.slope, 1 - layer.step.at_zero, (1 - point.rho) / (2 - point.slope))
    return true.lhs[0] * alpha**l / (1 - abs(rho0) + abs(rho0) * alpha**l)


def disc(step: Callable[[float, float], float]) -> Wrong:
    """|rho_l - rho*| seen in the disc: T from the true distances, layer by layer."""

    def function(layer: Layer, rho0: float, depth: int) -> Certificate:
        found = convergence(layer)
        star, a = found.fixed_point.rho, found.fixed_point.slope
        if abs(rho0) == 1.0 or star == 1.0 or not depth:
            return NOTHING
        mapped = float(layer.step(np.array([rho0]))[0])
        before, after = (abs(x - star) / (1 - x * star) for x in (rho0, mapped))
        # 1 - rho rho* is off by eps next to 1
        return certify("wrong", "", after, step(before, a), tolerance=1e-13 + 4e-15 / (1 - abs(rho0)))

    return function


KERNELS: list[tuple[str, str, Wrong]] = [
    ("k1", "alpha, 1 % less", bounded("k1", lambda c, x, l, t, _: k1(c, x, l, 0.99 * c.rate))),
    ("k1", "kappa'(0)", bounded("k1", lambda c, x, l, t, _: k1(c, x, l, c.fixed_point.slope))),
    ("k1", "l + 1", bounded("k1", lambda c, x, l, t, _: k1(c, x, l + 1, c.rate))),
    ("k1", "no odds", bounded("k1", lambda c, x, l, t, _: c.rate**l * abs(x))),
    ("k2", "alpha, 1 % less", bounded("k2", lambda c, x, l, t, _: (0.99 * c.rate) ** l * (1 - x))),
    ("k2", "l + 1", bounded("k2", lambda c, x, l, t, _: c.rate ** (l + 1) * (1 - x))),
    ("k2", "1/(2 - alpha)", bounded("k2", lambda c, x, l, t, _: (2 * c.rate - c.rate**2) ** (2 * l) * (1 - x))),
    ("k3", "p, 1 % more", bounded("k3", lambda c, x, l, t, _: k3(c, x, l, 1.01 * (1 - c.rate)))),
    ("k3", "2 p", bounded("k3", lambda c, x, l, t, _: k3(c, x, l, 2 * (1 - c.rate)))),
    ("k3", "l^2", bounded("k3", lambda c, x, l, t, _: k3(c, x, l * l, 1 - c.rate))),
    ("k3", "geometric", bounded("k3", lambda c, x, l, t, _: c.rate**l * (1 - x))),
    ("k4", "alpha, 1 % less", bounded("k4", lambda c, x, l, t, _: k4_above(c, x, l, 0.99 * c.rate, t))),
    ("k4", "kappa'(rho*) above", bounded("k4", lambda c, x, l, t, _: k4_above(c, x, l, c.fixed_point.slope, t))),
    ("k4", "slope, 1 % less", bounded("k4", lambda c, x, l, t, _: k4_below(c, x, l, 0.99 * c.fixed_point.slope, t))),
    ("k4", "convex below -rho*", bounded("k4", lambda c, x, l, t, _: c.fixed_point.slope**l * t.lhs[0])),
    ("k4", "as coded", bounded("k4", k4_coded)),
    ("schwarz-pick", "1 % less", disc(lambda T, a: 0.99 * T * (T + a) / (1 + a * T))),
    ("schwarz-pick", "a, 1 % less", disc(lambda T, a: T * (T + 0.99 * a) / (1 + 0.99 * a * T))),
    ("schwarz-pick", "a T", disc(lambda T, a: a * T)),
    ("schwarz-pick", "T^2", disc(lambda T, a: T * T)),
]

REFUTED = [*MAPS, *MEHLER, *KERNELS]


@pytest.mark.parametrize(("label", "what", "wrong"), REFUTED, ids=[f"{row[0]}: {row[1]}" for row in REFUTED])
def test_wrong_forms_are_refuted(label: str, what: str, wrong: Wrong) -> None:
    assert refuted(CLAIMS[label], wrong) is not None, what


def without_the_hypothesis(sigma: Any, rho: float) -> Certificate:
    """The odds at |rho| = 1 too."""
    layer = Layer(sigma)
    value = abs(float(layer.step(np.array([rho]))[0]))
    lhs, rhs = (math.inf if x >= 1.0 else odds(x) for x in (value, abs(rho)))
    if abs(rho) < 1.0:
        return NOTHING
    return certify("wrong", "", lhs, rhs - strength(layer).log_beta[0], tolerance=0.0)


SURVIVORS: list[tuple[str, str, Wrong]] = [
    (
        "lemma-a.8",
        "1 % less: Cramer's constant is met by no degree, and its share not by all degrees at one point",
        smaller_remainder(lambda r, x, y, k: 0.99),
    ),
    ("lemma-a.7", "|rho| = 1 too: no odds are more than infinite ones", without_the_hypothesis),
]


@pytest.mark.parametrize(("label", "reason", "weaker"), SURVIVORS, ids=[row[0] for row in SURVIVORS])
def test_what_survives_is_true_on_what_is_drawn(label: str, reason: str, weaker: Wrong) -> None:
    assert reason
    assert refuted(CLAIMS[label], weaker, examples=300) is None


@pytest.mark.parametrize("label", sorted({row[0] for row in REFUTED}))
def test_the_true_claims_are_not_refuted(label: str) -> None:
    assert refuted(CLAIMS[label], CLAIMS[label].function) is None
