"""Every value of tests/reference/activations.json that the float64 verbs compute, at the accuracy they promise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from _activations import DATA, SPECS

import hermite

GAINS = ("1/10", "1/2", "1", "2", "10")


def sigma_of(name: str) -> hermite.Activation:
    return hermite.activation(SPECS.get(name, name))


def growth_rate(name: str, gain: Fraction) -> float:
    """B in |sigma(x)| <= A exp(B|x|): 0 but for exp."""
    return float(gain) if name == "exp" else 0.0


def allowed_strength_error(b: Any, second: Any, variance: Any) -> Any:
    """The promise for beta - 1."""
    return mp.mpf("1e-14") * b + mp.mpf("1e-15") * mp.sqrt(b * second / variance) + mp.mpf("1e-30") * second / variance


def check(name: str, gain: str, wanted: list[str], second: str, beta: str) -> None:
    """c_k, E sigma^2, the variance and beta of one activation against decimals."""
    with mp.workdps(40):
        q = Fraction(gain)
        sigma = sigma_of(name).scaled(q)
        m = hermite.moments(sigma, len(wanted) - 1)
        exact, size = mp.mpf(second), mp.sqrt(mp.mpf(second))
        unit = mp.mpf("1e-15") * (1 + growth_rate(name, q) ** 2)
        errors = [abs(mp.mpf(float(c)) - mp.mpf(w)) / size for c, w in zip(m.coefficients, wanted, strict=True)]
        assert max(errors) <= unit, (errors.index(max(errors)), max(errors))
        variance = exact - mp.mpf(wanted[0]) ** 2
        assert abs(mp.mpf(m.second_moment) - exact) <= unit * exact
        assert abs(mp.mpf(m.variance) - variance) <= unit * exact
        b = mp.mpf(beta) - 1
        found = mp.mpf(m.residual) / mp.mpf(m.variance)
        assert abs(found - b) <= allowed_strength_error(b, exact, variance), (found, b)
        # the verbs read the same record, so they may round once more but not differ
        assert hermite.second_moment(sigma) == m.second_moment
        assert hermite.variance(sigma) == m.variance
        assert hermite.isometry_strength(sigma) == pytest.approx(float(mp.mpf(beta)), rel=1e-15)
        # 1 - r cancels: an ulp of 1 is left
        assert hermite.linearity(sigma) == pytest.approx(float(2 - mp.mpf(beta)), rel=1e-14, abs=4e-16)


def test_every_entry_is_recognised() -> None:
    assert len(DATA) == 30
    assert set(SPECS) < set(DATA)
    assert all(tuple(entry["beta_gain"]) == tuple(entry["gain_moments"]) == GAINS for entry in DATA.values())


@pytest.mark.parametrize("name", DATA)
def test_coefficients_and_moments(name: str) -> None:
    entry = DATA[name]
    check(name, "1", entry["c"], entry["sum_ck2"], entry["beta"])
    coefficients = hermite.coefficients(sigma_of(name), 12)
    assert np.array_equal(coefficients, hermite.moments(sigma_of(name), 12).coefficients)


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("name", DATA)
def test_gains(name: str, gain: str) -> None:
    entry = DATA[name]["gain_moments"][gain]
    check(name, gain, [entry["c0"], entry["c1"]], entry["E_sigma2"], DATA[name]["beta_gain"][gain])


@pytest.mark.parametrize("name", DATA)
def test_parity_and_kinks(name: str) -> None:
    """The stated parity shows in the coefficients, the stated kinks are the ends of the pieces."""
    sigma, parity = sigma_of(name), DATA[name]["parity"]
    c = np.abs(hermite.coefficients(sigma, 31)) / math.sqrt(hermite.second_moment(sigma))
    if parity is not None:
        assert c[0 if parity == "odd" else 1 :: 2].max() <= 1e-15
    else:
        assert min(c[0::2].max(), c[1::2].max()) > 1e-3
    assert sigma.breakpoints == tuple(float(Fraction(k)) for k in DATA[name]["kinks"])
