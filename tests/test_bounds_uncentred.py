"""Layers that bring inputs together, and the critical relu: its proof step by step; wrong forms are refuted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest
from _mutants import refuted
from numpy.typing import NDArray

from bounds import CLAIMS, Certificate, Verdict, certify, relu_critical_rate, uncentred_gap_sandwich
from bounds._bracket import Bracket, one, settle
from bounds._depth import Run, start
from bounds._gamma import log_gamma
from meanfield import Layer, isometry_gap

Floats: TypeAlias = NDArray[np.float64]
Wrong: TypeAlias = Callable[..., Certificate]
Pair: TypeAlias = tuple[Bracket, Bracket]
Bound: TypeAlias = Callable[[Run], Pair]
Needs: TypeAlias = Callable[[Run], bool]
Number: TypeAlias = Callable[[Run], float]

HOLDS, FAILS, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.NOT_APPLICABLE
NOTHING = certify("wrong", "", 0, 0, tolerance=0, hypotheses={"applies": False})


def equicorrelation(n: int, rho: float) -> Floats:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


# --- hypotheses ---------------------------------------------------------------------------------------------


def test_the_mean_says_nothing_of_mixed_signs_and_maps_that_are_not_convex() -> None:
    """kappa = (1 + 16 rho^5)/17 at -.6, .35, .35, whose mean is 1/30: the gap is below that of kappa(1/30)."""
    layer, off = Layer("1 + 4*He(5, x)", normalization="rms"), [-0.6, 0.35, 0.35]
    G0 = np.array([[1.0, off[0], off[1]], [off[0], 1.0, off[2]], [off[1], off[2], 1.0]])
    mapped = [(1 + 16 * x**5) / 17 for x in (*off, 1 / 30)]
    a, b, c, mean = mapped
    determinant = 1 + 2 * a * b * c - a * a - b * b - c * c
    assert isometry_gap(layer(G0)) == pytest.approx(-math.log(determinant) / 3, rel=1e-12)
    bound = -(2 * math.log(1 - mean) + math.log(1 + 2 * mean)) / 3
    assert certify("all signs", "", bound, -math.log(determinant) / 3, tolerance=1e-12).verdict is FAILS
    certificate = uncentred_gap_sandwich(layer, G0, 3)
    assert certificate.verdicts[:4] == (NOT_APPLICABLE,) * 4
    assert certificate.verdicts[4:] == (HOLDS,) * 4


def test_convex_maps_need_no_signs_once_their_mean_is_positive() -> None:
    """relu at -.45 twice and .1: kappa(mean) = kappa(-4/15) > 0."""
    G0 = np.array([[1.0, -0.45, 0.1], [-0.45, 1.0, -0.45], [0.1, -0.45, 1.0]])
    certificate = uncentred_gap_sandwich(Layer("relu", normalization="rms"), G0, 3)
    assert certificate.verdicts[0] is NOT_APPLICABLE
    assert certificate.verdicts[1:4] == (HOLDS,) * 3
    with mpmath.workdps(30):
        t = mpmath.acos(mpmath.mpf(-4) / 15)
        a = (mpmath.sin(t) + (mpmath.pi - t) * mpmath.cos(t)) / mpmath.pi
        gap = -(2 * mpmath.log(1 - a) + mpmath.log(1 + 2 * a)) / 3
    assert np.asarray(certificate.lhs)[0, 1] == pytest.approx(float(mpmath.log(gap)), rel=1e-13)


@pytest.mark.parametrize("spec", ["1 + He(1, x) + He(3, x)", "square", "1 + He(1, x) + He(2, x)", "tanh"])
def test_maps_that_are_concave_or_fall_somewhere_need_signs(spec: str) -> None:
    """Odd powers bend downwards below 0; even ones without enough of the first fall there."""
    G0 = np.array([[1.0, 0.5, -0.1], [0.5, 1.0, 0.2], [-0.1, 0.2, 1.0]])
    layer = Layer(spec, normalization="rms")
    assert uncentred_gap_sandwich(layer, G0, 2).verdicts[:3] == (NOT_APPLICABLE,) * 3
    assert uncentred_gap_sandwich(layer, np.abs(G0), 2).holds


@pytest.mark.parametrize("G0", [np.ones((2, 2)), equicorrelation(3, -0.5)], ids=["equal", "singular"])
def test_singular_matrices_have_no_upper_side(G0: Floats) -> None:
    certificate = uncentred_gap_sandwich(Layer("relu", normalization="rms"), G0, 2)
    assert certificate.verdicts[3:] == (NOT_APPLICABLE,) * 3
    assert "det G0 > 0" in certificate.false_hypotheses


def test_two_inputs_have_no_sign_under_an_even_map() -> None:
    certificate = uncentred_gap_sandwich(Layer("square", normalization="rms"), [[1.0, -0.5], [-0.5, 1.0]], 5)
    assert certificate.holds
    assert not np.asarray(certificate.tolerance)[1].any()


# --- the critical relu, each step of the proof --------------------------------------------------------------


def test_each_step_of_the_proof_of_the_critical_relu() -> None:
    with mpmath.workdps(40):
        c = mpmath.sqrt(2) / (3 * mpmath.pi)
        last_g = last_q = mpmath.mpf(0)
        for k in range(1, 201):
            t = mpmath.pi / 2 * k / 200
            s, difference = mpmath.sin(t / 2), mpmath.sin(t) - t * mpmath.cos(t)
            u, q, g = (
                1 / (mpmath.sqrt(2) * s),
                difference / (mpmath.pi * (1 - mpmath.cos(t))),
                difference / (8 * s**3 / 3),
            )
            after = 1 / mpmath.sqrt(1 - (mpmath.sin(t) + (mpmath.pi - t) * mpmath.cos(t)) / mpmath.pi)
            assert mpmath.almosteq(after, u / mpmath.sqrt(1 - q), rel_eps=mpmath.mpf(10) ** -30)
            assert mpmath.almosteq(u * q, 2 * c * g, rel_eps=mpmath.mpf(10) ** -30)
            assert g > max(last_g, 1)
            assert last_q < q < 1 / mpmath.pi + mpmath.mpf(10) ** -30
            assert g - 1 <= mpmath.mpf("0.13287") * s * s
            assert c <= after - u <= c + mpmath.mpf("0.062") / u
            last_g, last_q = g, q
        q = 1 / mpmath.pi
        assert (1 - q) ** -0.5 - 1 - q / 2 + c * mpmath.mpf("0.13287") / 2 < mpmath.mpf("0.062")
        assert mpmath.mpf("0.062") / c < mpmath.mpf("0.414")


# --- wrong forms, computed from the run -----------------------------------------------------------------------


def uncentred(bound: Bound, needs: Needs = lambda run: True) -> Wrong:
    """lhs <= rhs made of a run whose diagonal stays."""

    def function(*arguments: Any) -> Certificate:
        run = start(*arguments)
        if len(run.steps) < len(run.layers) or not run.definite.holds or not needs(run):
            return NOTHING
        slack, tolerance = settle(*bound(run))
        return certify("wrong", "", np.zeros_like(slack), slack, tolerance=tolerance)

    return function


def mean(run: Run) -> float:
    return float(run.C[np.tril_indices(run.n, -1)].mean())


def nonnegative(run: Run) -> bool:
    return bool(np.all(run.C >= 0.0))


def lower_by(start_of: Number, power: float = 1.0, more: float = 0.0, needs: Needs = lambda run: True) -> Wrong:
    """Gamma_n of another number through the maps, where that is >= 0."""

    def bound(run: Run) -> Pair:
        x = min(max(start_of(run), 0.0), 1.0)
        mapped = run.mapped(one(x, max(x - 1e-15, 0.0), min(x + 1e-15, 1.0)))
        return (power * mapped).through(log_gamma(run.n)) + more, run.log_gaps

    return uncentred(bound, needs)


def upper_by_eigenvalue(run: Run) -> Bracket:
    return run.log_spreads.through(log_gamma(run.n))


def upper_by_max(run: Run) -> Pair:
    return run.log_gaps, run.mapped_largest.through(log_gamma(run.n))


def upper_of_the_first_layer(run: Run) -> Pair:
    """As if the gap still fell: it stays below that of layer 0."""
    return run.log_gaps, run.log_gaps[0]


def upper_of_the_centred_map(run: Run) -> Pair:
    """By the slope at 0: kappa_l(mu) in proportion to mu."""
    slopes = np.cumsum([0.0, *(math.log(max(float(s.slope(np.zeros(1))[0]), 1e-300)) for s in run.steps)])
    return run.log_gaps, (run.log_spreads[0] + Bracket(slopes, slopes, slopes)).through(log_gamma(run.n))


def critical(side: str, by: Callable[[Floats, float], Floats]) -> Wrong:
    """U3 with `by(l, u_0)` added to the slack of one side."""

    def function(rho0: float, count: int) -> Certificate:
        true = relu_critical_rate(rho0, count)
        k = true.sides.index(side)
        change = by(np.arange(count + 1.0), float(np.asarray(true.lhs)[0, 0]))
        slack = np.asarray(true.slack)[k] + change
        mask = np.array(true.verdicts).reshape(np.shape(true.slack))[k] != Verdict.NOT_APPLICABLE
        bar = np.asarray(true.tolerance)[k] + 1e-14 * np.abs(change)
        return certify("wrong", "", np.zeros_like(slack), slack, tolerance=bar, applicable=mask)

    return function


C = math.sqrt(2.0) / (3.0 * math.pi)

UNCENTRED: list[tuple[str, str, Wrong]] = [
    ("u1", "lower, 1 % more", lower_by(mean, more=0.01, needs=nonnegative)),
    ("u1", "upper, 1 % less", uncentred(lambda run: (run.log_gaps, upper_by_eigenvalue(run) - 0.01))),
    ("u1", "rms below", lower_by(lambda run: float(np.exp(run.log_rms.value[0])))),
    ("u1", "largest below", lower_by(lambda run: float(np.abs(run.equal.entries).max()))),
    ("u1", "mean of |G_ij| below", lower_by(lambda run: float(np.abs(run.equal.entries).mean()))),
    ("u1", "kappa^.99", lower_by(mean, 0.99, needs=nonnegative)),
    ("u1", "all signs", lower_by(mean, needs=lambda run: mean(run) >= 0.0)),
    ("u1", "largest above", uncentred(upper_by_max)),
    ("u1", "gaps fall", uncentred(upper_of_the_first_layer)),
    ("u1", "without kappa(0)", uncentred(upper_of_the_centred_map)),
    ("u3", "c below, 1 % more", critical("lower", lambda l, u: -0.01 * C * l)),
    ("u3", "c above, 1 % less", critical("upper", lambda l, u: -0.01 * C * l)),
    ("u3", "c below, twice", critical("lower", lambda l, u: -C * l)),
    ("u3", "no logarithm", critical("upper", lambda l, u: -0.414 * np.log1p(C * l / u))),
    ("u3", "half of the rest", critical("upper", lambda l, u: -0.5 * (0.062 / u + 0.414 * np.log1p(C * l / u)))),
    ("u3", "upper as lower", critical("lower", lambda l, u: -0.062 / u - 0.414 * np.log1p(C * l / u))),
]


IDS = [f"{row[0]}: {row[1]}" for row in UNCENTRED]


@pytest.mark.slow
@pytest.mark.parametrize(("label", "what", "wrong"), UNCENTRED, ids=IDS)
def test_wrong_forms_are_refuted(label: str, what: str, wrong: Wrong) -> None:
    assert refuted(CLAIMS[label], wrong) is not None, what


SURVIVORS: list[tuple[str, str, Wrong]] = [
    (
        "u3",
        "1 % less of the rest: its two errors are not largest at once, and a sum is bounded by an integral",
        critical("upper", lambda l, u: -0.01 * (0.062 / u + 0.414 * np.log1p(C * l / u))),
    ),
]
TRUE: list[tuple[str, str, Wrong]] = [
    ("u1", "lower", lower_by(mean, needs=nonnegative)),
    ("u1", "upper", uncentred(lambda run: (run.log_gaps, upper_by_eigenvalue(run)))),
    ("u1", "as certified", uncentred_gap_sandwich),
    ("u3", "lower", critical("lower", lambda l, u: 0.0 * l)),
    ("u3", "as certified", relu_critical_rate),
]


@pytest.mark.slow
@pytest.mark.parametrize(("label", "what", "form"), [*SURVIVORS, *TRUE])
def test_survivors_and_true_forms_are_not_refuted(label: str, what: str, form: Wrong) -> None:
    assert refuted(CLAIMS[label], form, examples=300) is None, what
