"""Kernel maps: four cases and Schwarz and Pick beside the way of one correlation, and the printed case 4 that fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from bounds import CLAIMS, Verdict, certify, kernel_convergence, schwarz_pick
from meanfield import Layer, convergence

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

W = ("7/20", "23/2000", "319/500", "1/2000")  # E6: W_0, ..., W_3
E6 = Layer(f"sqrt({W[0]}) + sqrt({W[1]})*He(1, x) + sqrt({W[2]})*He(2, x) + sqrt({W[3]})*He(3, x)", normalization="rms")


def kappa(rho: Any) -> Any:
    weights = [mpmath.mpf(7) / 20, mpmath.mpf(23) / 2000, mpmath.mpf(319) / 500, mpmath.mpf(1) / 2000]
    return sum(w * rho**k for k, w in enumerate(weights))


def test_e6_the_printed_case_4_fails_and_the_corrected_one_holds() -> None:
    """rho_0 = .999, 23 layers: the distance .24047 exceeds the printed .12730, not ours, .25687."""
    certificate = kernel_convergence(E6, 0.999, 23)
    assert certificate.holds
    assert certificate.lhs[23] == pytest.approx(0.24047, abs=5e-6)
    assert certificate.rhs[23] == pytest.approx(0.25687, abs=5e-6)
    found = convergence(E6)
    alpha, star = 0.7111, found.fixed_point.rho
    assert star == pytest.approx(0.5479, abs=5e-5)
    alpha = max(found.fixed_point.slope, 1 - 0.35, (1 - star) / (2 - found.fixed_point.slope))
    assert alpha == pytest.approx(0.7111, abs=5e-5)
    printed = abs(0.999 - star) * alpha**23 / (1 - 0.999 + 0.999 * alpha**23)
    assert printed == pytest.approx(0.12730, abs=5e-6)
    assert certify("printed", "", certificate.lhs[23], printed, tolerance=1e-12).verdict is FAILS


def test_the_way_of_a_correlation_is_that_of_40_digits() -> None:
    with mpmath.workdps(40):
        star = mpmath.findroot(lambda x: kappa(x) - x, 0.55)
        rho = mpmath.mpf(0.999)
        certificate = kernel_convergence(E6, 0.999, 60)
        for l in range(61):
            true = abs(rho - star)
            assert abs(mpmath.mpf(float(certificate.lhs[l])) - true) <= certificate.tolerance[l] + 5e-16
            rho = kappa(rho)


def test_one_step_below_minus_rho_star_is_not_enough() -> None:
    """kappa = 1.34e-5 + .9999866 rho^3 from -.99987: the convex bound of |rho| <= rho* fails, Schwarz and Pick hold."""
    layer = Layer("sqrt(1.34e-5) + sqrt(1 - 1.34e-5)*He(3, x)", normalization="rms")
    certificate = kernel_convergence(layer, -0.99987, 30)
    assert certificate.verdict in (HOLDS, UNDECIDED)
    found = convergence(layer)
    convex = found.fixed_point.slope ** np.arange(31) * certificate.lhs[0]
    assert certify("convex", "", certificate.lhs, convex, tolerance=1e-12).verdict is FAILS
    after_one = found.fixed_point.slope ** np.arange(30) * certificate.lhs[1]
    assert certify("after one step", "", certificate.lhs[1:], after_one, tolerance=1e-12).verdict is FAILS


def test_the_coded_case_1_says_nothing() -> None:
    """Without alpha^l in its numerator the bound of the code never falls below |rho_0|, where ours goes to 0."""
    certificate = kernel_convergence(Layer("tanh"), 0.9, 200)
    power = convergence(Layer("tanh")).rate ** np.arange(201)
    coded = 0.9 / (1.0 - 0.9 + 0.9 * power)
    assert np.all(coded >= 0.9 - 1e-15)
    assert certificate.holds
    assert certificate.rhs[-1] < 2e-5


# kappa of case 1, 2 and 3 in closed form, and the distance from the fixed point
CLOSED: list[tuple[Layer, Callable[[Any], Any], float, float]] = [
    (Layer("sin"), lambda x: mpmath.sinh(x) / mpmath.sinh(1), 0, 0.9),
    (Layer("exp"), lambda x: mpmath.expm1(x) / mpmath.expm1(1), 0, -0.999),
    (Layer("2 + He(1, x)", normalization="rms"), lambda x: (4 + x) / 5, 1, 0.25),
    (Layer("exp", normalization="rms"), lambda x: mpmath.exp(x - 1), 1, -0.5),
    (Layer("exp", normalization="rms"), lambda x: mpmath.exp(x - 1), 1, 1 - 1e-6),
    (Layer("He(2, x) + 1", normalization="rms"), lambda x: (1 + x * x) / 2, 1, 0.75),
    # 1 repels: what rho_0 is off in its last digit becomes the sixth
    (Layer("He(2, x) + 1/2", normalization="rms"), lambda x: (1 + 4 * x * x) / 5, 0.25, 1 - 1e-12),
    (Layer("He(2, x) + 1/2", normalization="rms"), lambda x: (1 + 4 * x * x) / 5, 0.25, -0.9),
    (Layer("He(1, x) + He(2, x)"), lambda x: (x + x * x) / 2, 0, 1 - 1e-12),
]


@pytest.mark.parametrize(("layer", "mapped", "star", "rho0"), CLOSED)
def test_distances_to_the_tolerance_that_is_claimed(layer: Layer, mapped: Any, star: float, rho0: float) -> None:
    certificate = kernel_convergence(layer, rho0, 40)
    assert FAILS not in certificate.verdicts
    with mpmath.workdps(60):
        rho = mpmath.mpf(rho0)
        for l in range(41):
            distance = abs(rho - star)
            room = certificate.tolerance[l] or 1e-14 * distance  # one number on both sides, rounded once
            assert abs(certificate.lhs[l] - distance) <= room
            assert room <= 1e-12 * distance + 1e-12 * certificate.rhs[l] + (1e-13 if 0.0 < star < 1.0 else 0.0)
            rho = mapped(rho)


@pytest.mark.parametrize("offset", [2.0**-30, -(2.0**-30), 2.0**-44, 0.5])
def test_bounds_next_to_rho_star_to_the_tolerance_that_is_claimed(offset: float) -> None:
    """kappa = (3/10 + rho^2)/1.3 has rho* = .3 and the slope 6/13 there; |rho_0 - rho*| is a difference of both."""
    layer, rho0 = Layer("He(2, x) + sqrt(3/10)", normalization="rms"), 0.3 + offset
    certificate = kernel_convergence(layer, rho0, 20)
    assert FAILS not in certificate.verdicts
    with mpmath.workdps(60):
        star, slope, start = mpmath.mpf(3) / 10, mpmath.mpf(6) / 13, mpmath.mpf(rho0)
        for l in range(1, 21):
            odds = (start - star) / (1 - start) / (2 - slope) ** l
            true = (1 - star) * odds / (1 + odds) if start > star else slope**l * (star - start)
            assert abs(certificate.rhs[l] - true) <= certificate.tolerance[l]
            assert certificate.tolerance[l] <= 1e-12


def test_layers_without_a_map_of_correlations_are_refused() -> None:
    for claim in (kernel_convergence, schwarz_pick):
        with pytest.raises(ValueError, match="variance_map"):
            claim(Layer("relu", normalization="none", gain=2), 0.5, 3)
        with pytest.raises(ValueError, match="depth must be"):
            claim(Layer("relu"), 0.5, -1)


@pytest.mark.parametrize(
    ("case", "layer"),
    [
        (1, Layer("tanh", normalization="rms")),
        (1, Layer("relu")),
        (2, Layer("sigmoid", normalization="rms")),
        (3, Layer("relu", normalization="rms")),
        (4, Layer("gelu", normalization="rms")),
    ],
)
@pytest.mark.parametrize("rho0", [0.0, 0.5, -0.5, 0.999, -0.999, 1 - 1e-9, 1.0])
def test_each_case_holds_from_everywhere(case: int, layer: Layer, rho0: float) -> None:
    certificate = kernel_convergence(layer, rho0, 30, case=case)
    assert FAILS not in certificate.verdicts
    assert certificate.verdicts[0] is HOLDS
    others = [other for other in (1, 2, 3, 4) if other != case]
    assert all(kernel_convergence(layer, rho0, 5, case=other).verdict is NOT_APPLICABLE for other in others)
    if rho0 != 1.0 and case in (1, 4):
        assert FAILS not in schwarz_pick(layer, rho0, 30).verdicts


def test_schwarz_pick_is_attained_by_powers() -> None:
    certificate = schwarz_pick(Layer("He(2, x)", normalization="rms"), 0.5, 8)
    assert certificate.rhs == pytest.approx(certificate.lhs, rel=1e-12)
    assert FAILS not in certificate.verdicts


def test_powers_with_a_skip_do_not_attain_it() -> None:
    certificate = schwarz_pick(Layer("He(2, x)", skip="1/2"), 0.5, 8)
    assert certificate.holds
    assert certificate.slack[1] > 0.01


def test_linear_maps_of_case_2_are_equations() -> None:
    certificate = kernel_convergence(Layer("2 + He(1, x)", normalization="rms"), 0.25, 40)
    assert certificate.holds
    assert certificate.tolerance.tolist() == [0.0] * 41


def test_outside_their_domains() -> None:
    assert schwarz_pick(Layer("tanh", normalization="rms"), 1.0, 3).verdict is NOT_APPLICABLE
    assert schwarz_pick(Layer("sigmoid", normalization="rms"), 0.5, 3).verdict is NOT_APPLICABLE
    with pytest.raises(ValueError, match="case must be 1, 2, 3, 4 or None, got 5"):
        kernel_convergence(Layer("relu"), 0.5, 3, case=5)
    for rho0 in (1.5, math.nan, "a"):
        with pytest.raises(ValueError, match="rho0 must be"):
            kernel_convergence(Layer("relu"), rho0, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("factor", [0.99, 0.9])
def test_rates_cannot_be_smaller(factor: float) -> None:
    """alpha of case 2 for a linear map, of case 1 for He_1 + He_2 near 1."""
    linear = kernel_convergence(Layer("2 + He(1, x)", normalization="rms"), 0.25, 40)
    wrong = linear.rhs * factor ** np.arange(41)
    assert certify("wrong", "", linear.lhs, wrong, tolerance=1e-14 * linear.lhs).verdict is FAILS
    layer = Layer("He(1, x) + He(2, x)")
    certificate = kernel_convergence(layer, 1 - 1e-6, 5)
    x = (1 - 1e-6) / 1e-6 * (factor / 1.5) ** np.arange(6)
    assert certify("wrong", "", certificate.lhs, x / (1 + x), tolerance=1e-12).verdict is FAILS


@pytest.mark.parametrize("label", ["k1", "k2", "k3", "k4", "schwarz-pick"])
def test_drawn_examples_are_decided(label: str) -> None:
    counts = dict(CLAIMS[label].verify(examples=150).counts)
    assert counts[FAILS] == counts[UNDECIDED] == 0
    assert counts[HOLDS] >= 100
