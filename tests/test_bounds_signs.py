"""Signs, and logarithms far from the input: small entries beside large ones, layers next to linear, tiny gaps."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from bounds import (
    Certificate,
    Verdict,
    asymptotic_rate,
    gap_rates,
    gap_sandwich,
    mixed_layers,
    monotone_isometry,
    scalar_gap_decay,
    sign_freezing,
    spectral_majorization,
)
from bounds._depth import start
from meanfield import Layer

HOLDS, FAILS, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.NOT_APPLICABLE
OVER_DEPTH: list[Callable[..., Certificate]] = [
    asymptotic_rate,
    gap_rates,
    mixed_layers,
    sign_freezing,
    gap_sandwich,
    scalar_gap_decay,
]


def equicorrelation(n: int, rho: float) -> np.ndarray:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def test_logarithms_far_from_the_input_are_known_as_well_as_claimed() -> None:
    """Correlations of 1e-150 times r^l: rounding adds up over 2000 layers, and no bound fails for it."""
    run = start(Layer("relu"), equicorrelation(3, 1e-150), 2000)
    with mpmath.workdps(40):
        r = mpmath.mpf(1) / 2 / (1 - 1 / mpmath.pi)
        for l in (1, 5, 89, 776, 2000):
            rms = mpmath.log(mpmath.mpf(1e-150)) + l * mpmath.log(r)
            assert run.log_rms.low[l] <= rms <= run.log_rms.high[l]
            assert run.log_rms.high[l] - run.log_rms.low[l] < 1e-8
            assert run.log_gaps.low[l] <= 2 * rms <= run.log_gaps.high[l]
    assert FAILS not in gap_rates(Layer("relu"), equicorrelation(3, 1e-150), 2000).verdicts


@pytest.mark.parametrize("claim", [*OVER_DEPTH, monotone_isometry, spectral_majorization])
@pytest.mark.parametrize("rho", [0.3, 1e-150, -0.3])
def test_logarithms_that_leave_float64_are_below_what_it_holds(claim: Callable[..., Certificate], rho: float) -> None:
    certificate = claim(Layer("He(2, x)"), equicorrelation(2, rho), 2000)
    assert FAILS not in certificate.verdicts
    assert not np.any(np.isnan(certificate.slack))


@pytest.mark.parametrize("claim", OVER_DEPTH)
@pytest.mark.parametrize("layer", [Layer("relu", normalization="none"), Layer("relu", normalization="center")], ids=str)
@pytest.mark.parametrize("rho", [1.0, 1.0 - 1e-12, -1.0])
def test_a_diagonal_that_moves_is_no_error(claim: Callable[..., Certificate], layer: Layer, rho: float) -> None:
    certificate = claim(layer, equicorrelation(2, rho), 3)
    assert certificate.verdict is NOT_APPLICABLE


@pytest.mark.parametrize("a", ["1e-9", "1e-8", "2e-8", "3e-8", "1e-7", "1e-4"])
@pytest.mark.parametrize("x", [0.3, 0.9])
def test_layers_next_to_linear_freeze_signs(a: str, x: float) -> None:
    """f = r rho + (1 - r) rho^2, 1 - r = 2 a^2/(1 + 2 a^2) down to 2e-18: e/(1 - r) is 1."""
    layer, G0 = Layer(f"x + {a}*x**2"), equicorrelation(2, -x)
    certificate = sign_freezing(layer, G0, 3)
    assert FAILS not in certificate.verdicts
    with mpmath.workdps(40):
        square = 2 * mpmath.mpf(a) ** 2
        r, e = 1 / (1 + square), square / (1 + square)
        exact = mpmath.log(mpmath.mpf(x) / (1 + e * x / ((1 - r) * (r - e * x))))
        found = start(layer, G0, 3).log_least_negated(x)
        assert found.low[0] <= exact <= found.high[0]
    if float(a) >= 1e-4:
        assert certificate.holds
        assert found.high[0] - found.low[0] < 1e-7


def test_odd_layers_keep_every_entry() -> None:
    found = start(Layer("tanh"), equicorrelation(2, -0.3), 3).log_least_negated(0.3)
    assert found.value[0] == pytest.approx(math.log(0.3), abs=1e-14)
    assert found.high[0] - found.low[0] < 1e-13


def test_small_entries_beside_large_ones_have_errors_of_their_own_size() -> None:
    G0 = np.array([[1.0, 0.9, -1e-9], [0.9, 1.0, -1e-9], [-1e-9, -1e-9, 1.0]])
    certificate = sign_freezing(Layer("He(1, x) + He(2, x)/2"), G0, 8)
    assert certificate.verdicts[:9] == (HOLDS,) * 9
    assert np.asarray(certificate.tolerance)[0].max() < 1e-12
    assert sign_freezing(Layer("He(1, x) + He(2, x)/2"), G0, 8, exact=True).verdicts[:9] == (HOLDS,) * 9
