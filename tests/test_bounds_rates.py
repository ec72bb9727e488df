"""Rates, signs, layers that differ, uncentred layers and the critical relu: exact values, balls, and false variants."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from bounds import (
    Certificate,
    Verdict,
    asymptotic_rate,
    certify,
    gap_rates,
    gap_sandwich,
    mixed_layers,
    monotone_isometry,
    relu_critical_rate,
    sign_freezing,
    smallest_eigenvalue_contraction,
    spectral_majorization,
    uncentred_gap_sandwich,
)
from bounds._depth import start
from bounds._gamma import log_gamma
from meanfield import Layer, isometry_gap

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

G3 = np.array([[1.0, 0.5, 0.3], [0.5, 1.0, 0.1], [0.3, 0.1, 1.0]])
SIGNED = np.array([[1.0, -0.3, 0.2], [-0.3, 1.0, 0.1], [0.2, 0.1, 1.0]])
OVER_DEPTH: list[Callable[..., Certificate]] = [asymptotic_rate, gap_rates, mixed_layers, sign_freezing]


def equicorrelation(n: int, rho: float) -> np.ndarray:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def gamma(n: int, mu: float) -> float:
    return -((n - 1) * math.log(1 - mu) + math.log(1 + (n - 1) * mu)) / n


# --- rates ------------------------------------------------------------------------------------------------


def test_koenigs_function_of_a_quadratic_map_is_bracketed() -> None:
    """f = (rho + rho^2)/2: K(1/2) to 40 digits by 400 iterations."""
    layer = Layer("He(1, x) + He(2, x)")
    certificate = asymptotic_rate(layer, [[1.0, 0.5], [0.5, 1.0]], 40)
    assert certificate.holds
    with mpmath.workdps(60):
        x = mpmath.mpf(1) / 2
        for _ in range(150):
            x = (x + x * x) / 2
        K = mpmath.log(x) + 150 * mpmath.log(2)
    assert certificate.rhs[0, 40] <= float(K) + 1e-12
    assert float(K) <= certificate.rhs[1, 40] + 1e-12
    assert certificate.rhs[1, 40] - certificate.rhs[0, 40] < 1e-10


def test_the_gap_of_relu_falls_like_r_squared() -> None:
    """The ratio of gaps at layer 29 is .5386, r^2 = .53798, and 1/beta = .78956."""
    layer = Layer("relu")
    gaps = gap_rates(layer, G3, 60)
    ratio = math.exp(gaps.rhs[0, 60] - gaps.rhs[0, 59])
    assert ratio == pytest.approx(layer.linearity**2, rel=1e-6)
    assert layer.linearity**2 == pytest.approx(0.53798, abs=5e-6)


def test_e10_the_gap_is_not_below_beta_to_the_minus_l() -> None:
    layer, G0 = Layer("relu"), equicorrelation(5, 0.9)
    certificate = gap_rates(layer, G0, 10)
    printed = -np.arange(11) * math.log(layer.isometry_strength)
    assert certify("printed", "", certificate.rhs[0], printed, tolerance=1e-9).verdict is FAILS
    assert certificate.holds


def test_he_k_attains_the_power() -> None:
    for k in (2, 3):
        certificate = asymptotic_rate(Layer(f"He({k}, x)"), [[1.0, 0.9], [0.9, 1.0]], 8)
        assert certificate.verdicts[18:] == (HOLDS,) * 9
        assert certificate.lhs[2, 8] == pytest.approx(k**8 * math.log(0.9), rel=1e-12)
    mixed = asymptotic_rate(Layer("He(2, x) + 9*He(3, x)"), [[1.0, 0.9], [0.9, 1.0]], 6)
    assert np.all(mixed.slack[2, 1:] > 0.0)
    assert "r > 0" in mixed.false_hypotheses


def test_boettchers_limit() -> None:
    """f = .5 rho^2 + .5 rho^3 from .5: 2^-l log rho_l tends to -1.13800."""
    certificate = asymptotic_rate(Layer("He(2, x) + He(3, x)"), [[1.0, 0.5], [0.5, 1.0]], 30)
    assert certificate.lhs[2, 30] / 2.0**30 == pytest.approx(-1.13800, abs=5e-6)


def test_rates_bracket_the_gap_from_both_sides() -> None:
    certificate = gap_rates(Layer("tanh"), SIGNED, 40)
    assert certificate.holds  # tanh is odd
    assert math.exp(certificate.rhs[3, 40] - certificate.lhs[2, 40]) < 2.0
    mixed = gap_rates(Layer("relu"), SIGNED, 40)
    assert mixed.verdicts[:41] == (NOT_APPLICABLE,) * 41
    assert mixed.holds


def test_each_side_of_rates_is_its_formula() -> None:
    """relu at 40 digits: what is written in the documentation, number by number."""
    L = 6
    rates, gaps, mixed = (claim(Layer("relu"), G3, L) for claim in (asymptotic_rate, gap_rates, mixed_layers))
    with mpmath.workdps(40):
        r = mpmath.mpf(1) / 2 / (1 - 1 / mpmath.pi)
        smallest = min(mpmath.eigsy(mpmath.matrix(G3.tolist()), eigvals_only=True))
        t0, x, path = mpmath.sqrt(mpmath.mpf(sum(G3[i, j] ** 2 for i, j in ((0, 1), (0, 2), (1, 2)))) / 3), 0.5, []
        for _ in range(L + 1):
            path.append(mpmath.mpf(x))
            angle = mpmath.acos(x)
            x = (mpmath.sin(angle) + (mpmath.pi - angle) * x - 1) / (mpmath.pi - 1)
        for l, x in enumerate(path):
            expected = [
                (rates.lhs[1, l], path[L] / r**L),
                (rates.rhs[1, l], x / (1 - x) ** (1 / r) / r**l),
                (rates.rhs[0, l], x / r**l),
                (gaps.lhs[0, l], t0**2 / (1 + r**l * t0) * r ** (2 * l)),
                (gaps.rhs[1, l], ((1 - smallest) / smallest ** (1 / r)) ** 2 * r ** (2 * l)),
                (mixed.lhs[1, l], r**l / 2),
                (mixed.rhs[2, l], r**l / 2 / mpmath.mpf(0.5) ** (1 / r)),
            ]
            for found, value in expected:
                assert found == pytest.approx(float(mpmath.log(value)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("rho", [0.5, -0.5, -1e-3])
def test_two_inputs_meet_both_sides_of_the_rms(rho: float) -> None:
    certificate = gap_rates(Layer("He(1, x) + He(2, x)"), [[1.0, rho], [rho, 1.0]], 5)
    assert not np.asarray(certificate.tolerance)[2:].any()
    assert certificate.verdicts[12:] == (HOLDS,) * 12


def test_layers_without_a_first_power_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = asymptotic_rate(Layer("relu", normalization="rms"), np.eye(3), 3)
    assert certificate.verdict is NOT_APPLICABLE


def test_layers_that_differ_multiply() -> None:
    layers = [Layer("relu"), Layer("tanh"), Layer("exp")]
    certificate = mixed_layers(layers, G3)
    assert certificate.holds
    rate = sum(math.log(layer.linearity) for layer in layers)
    assert certificate.lhs[1, 3] == pytest.approx(rate + math.log(0.5), rel=1e-12)
    decay = sum(math.log(layer.isometry_strength) for layer in layers)
    assert certificate.rhs[0, 3] == pytest.approx(-decay, abs=1e-12)
    assert mixed_layers([Layer("identity")] * 3, G3).tolerance[0].tolist() == [0.0] * 4


# --- signs ------------------------------------------------------------------------------------------------


def test_small_negative_correlations_stay_negative() -> None:
    """relu: r/e = 1.08 > 1, all signs are frozen."""
    certificate = sign_freezing(Layer("relu"), SIGNED, 40)
    assert certificate.holds
    assert np.all(np.isfinite(certificate.rhs[0]))
    assert np.all(certificate.slack[2] > 0.0)


def test_an_entry_beyond_r_over_e_may_die_in_one_step() -> None:
    """f = .3 rho + .7 rho^2 at -3/7: 0. The bound is not claimed there, and a little inside it holds."""
    layer = Layer("sqrt(3/10)*He(1, x) + sqrt(7/10)*He(2, x)")
    at = sign_freezing(layer, [[1.0, -0.5], [-0.5, 1.0]], 3)
    assert at.verdicts[:4] == (NOT_APPLICABLE,) * 4
    inside = sign_freezing(layer, [[1.0, -0.42], [-0.42, 1.0]], 3)
    assert inside.verdicts[:4] == (HOLDS,) * 4


def test_the_lower_half_of_the_sandwich_fails_for_mixed_signs() -> None:
    """relu, n = 3, all -.4, layer 1: the gap is .08678, Gamma_3(f(.4)) is .09880."""
    layer, G0 = Layer("relu"), equicorrelation(3, -0.4)
    gap = isometry_gap(layer(G0))
    bound = gamma(3, float(layer.map(0.4)))
    assert (round(gap, 5), round(bound, 5)) == (0.08678, 0.09880)
    assert certify("printed", "", bound, gap, tolerance=1e-12).verdict is FAILS
    assert gap_sandwich(layer, G0, 1).verdicts[:2] == (NOT_APPLICABLE,) * 2
    assert sign_freezing(layer, G0, 1).holds


# --- the spectral theorems where they are false -----------------------------------------------------------


def test_uncentred_maps_are_no_case_of_the_spectral_theorems() -> None:
    layer = Layer("relu", normalization="rms")
    for claim in (spectral_majorization, monotone_isometry, smallest_eigenvalue_contraction):
        assert claim(layer, G3, 5).verdict is NOT_APPLICABLE
    before, after = np.linalg.eigvalsh(G3), np.linalg.eigvalsh(layer(G3))
    assert certify("uncentred", "", after[-1], before[-1], tolerance=1e-12).verdict is FAILS


def test_the_smallest_eigenvalue_has_no_linear_lower_bound() -> None:
    """1 - lambda_min(f(G)) >= r (1 - lambda_min(G)) fails for mixed signs, f with even powers."""
    layer, G0 = Layer("He(1, x) + He(2, x)"), equicorrelation(3, -0.4)
    mu = [1 - float(np.linalg.eigvalsh(G)[0]) for G in (G0, layer(G0))]
    assert certify("lower", "", 0.5 * mu[0], mu[1], tolerance=1e-12).verdict is FAILS
    assert smallest_eigenvalue_contraction(layer, G0, 3).holds


# --- layers that bring inputs together --------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer",
    [
        Layer("relu", normalization="rms"),
        Layer("relu", order="normalization-first"),
        Layer("tanh", bias_variance="1/4"),
        Layer("square", normalization="rms", skip="1/2"),
        Layer("relu"),
    ],
    ids=str,
)
def test_the_gap_lies_between_those_of_equal_correlations(layer: Layer) -> None:
    certificate = uncentred_gap_sandwich(layer, G3, 30)
    assert certificate.holds
    a, mu = 0.3, 1 - float(np.linalg.eigvalsh(G3)[0])
    for l in range(4):
        assert certificate.lhs[0, l] == pytest.approx(math.log(gamma(3, a)), rel=1e-9, abs=1e-11)
        assert certificate.rhs[1, l] == pytest.approx(math.log(gamma(3, mu)), rel=1e-9, abs=1e-11)
        a, mu = float(layer.map(a)), float(layer.map(mu))


def test_equal_correlations_are_equations() -> None:
    certificate = uncentred_gap_sandwich(Layer("relu", normalization="rms"), equicorrelation(4, 0.5), 10)
    assert certificate.holds
    assert certificate.tolerance.tolist() == np.zeros((2, 11)).tolist()


def test_linear_uncentred_layers_do_change_the_gap() -> None:
    certificate = uncentred_gap_sandwich(Layer("2 + He(1, x)", normalization="rms"), G3, 3)
    assert FAILS not in certificate.verdicts
    assert certificate.rhs[0, 3] > certificate.rhs[0, 0] + 1.0


def test_the_mean_cannot_be_the_root_mean_square() -> None:
    layer, G0 = Layer("relu", normalization="rms"), equicorrelation(3, -0.4)
    run = start(layer, G0, 3)
    wrong = run.mapped_rms.through(log_gamma(3))
    assert certify("rms", "", wrong.value[1:], run.log_gaps.value[1:], tolerance=1e-12).verdict is FAILS
    certificate = uncentred_gap_sandwich(layer, G0, 10)
    assert certificate.holds
    assert certificate.verdicts[0] is NOT_APPLICABLE  # the mean is negative at first
    assert certificate.verdicts[10] is HOLDS


def test_diagonals_that_move_are_not_treated() -> None:
    layer = Layer("relu", normalization="none", gain=2)
    assert uncentred_gap_sandwich(layer, G3, 3).verdict is NOT_APPLICABLE


def test_the_critical_relu_against_40_digits() -> None:
    certificate = relu_critical_rate(0.5, 300)
    assert certificate.holds
    with mpmath.workdps(40):
        rho = mpmath.mpf(1) / 2
        for _ in range(300):
            t = mpmath.acos(rho)
            rho = (mpmath.sin(t) + (mpmath.pi - t) * rho) / mpmath.pi
        u = 1 / mpmath.sqrt(1 - rho)
    assert certificate.rhs[0, 300] == pytest.approx(float(u), rel=1e-12)
    assert relu_critical_rate(-1.0, 50).verdicts[0] is HOLDS
    assert relu_critical_rate(-1.0, 50).verdicts[60] is NOT_APPLICABLE


def test_the_step_of_the_critical_relu_is_sharp() -> None:
    certificate = relu_critical_rate(0.9, 2000)
    layers = np.arange(2001)
    wrong = certificate.lhs[0, 0] + 1.05 * math.sqrt(2) / (3 * math.pi) * layers
    assert certify("wrong", "", wrong, certificate.rhs[0], tolerance=1e-9).verdict is FAILS
    short = certificate.lhs[0, 0] + 0.99 * math.sqrt(2) / (3 * math.pi) * layers + 0.1
    assert certify("short", "", certificate.lhs[1], short, tolerance=1e-9).verdict is FAILS


@pytest.mark.parametrize("rho0", [1.0, -1.5, math.nan, "a"])
def test_a_start_of_relu_is_below_1(rho0: Any) -> None:
    with pytest.raises(ValueError, match="rho0 must be a number"):
        relu_critical_rate(rho0, 3)


# --- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", OVER_DEPTH)
@pytest.mark.parametrize("spec", ["relu", "tanh", "He(1, x) + He(2, x)", "exp"])
@pytest.mark.parametrize("G0", [G3, SIGNED], ids=["positive", "signed"])
def test_float64_and_balls_agree(claim: Callable[..., Certificate], spec: str, G0: np.ndarray) -> None:
    plain, proven = claim(Layer(spec), G0, 4), claim(Layer(spec), G0, 4, exact=True)
    assert proven.exact
    assert FAILS not in {*plain.verdicts, *proven.verdicts}
    assert proven.holds
    for side in ("lhs", "rhs"):
        left, right = getattr(plain, side), getattr(proven, side)
        assert np.allclose(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("claim", OVER_DEPTH)
@pytest.mark.parametrize(
    "G0", [np.eye(1), np.eye(3), np.ones((2, 2)), equicorrelation(3, -0.5), [[1.0, -1.0], [-1.0, 1.0]]]
)
def test_edges_have_verdicts(claim: Callable[..., Certificate], G0: Any) -> None:
    for spec in ("relu", "tanh", "identity", "square", "abs"):
        for depth in (0, 1, 5):
            certificate = claim(Layer(spec), G0, depth)
            assert FAILS not in certificate.verdicts
            assert not np.any(np.isnan(certificate.slack))
