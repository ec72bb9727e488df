"""sigma' almost everywhere, and where the kinks and jumps of a callable are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hermite
from hermite._ends import jumps_of
from hermite._numeric import varying
from hermite._slope import sharp_kinks, slope_of

X = np.linspace(-4.03, 3.97, 161)
SPECS = [
    "He(3, x)", "exp(x/2) - expm1(x)", "log(2 + sin(x))", "log1p(x**2)", "sqrt(1 + x**2)", "1/(1 + x**2)", "x**5 - x/3",
    "cos(x)*sigmoid(2*x)", "max(x, sin(3*x))", "min(x**2, 1 + x)", "x if x < 1/3 else x**2", "erf(x)*arctan(x)",
    "(1 + x**2)**(-3/2)", "tanh(relu(x))", "abs(abs(x) - 1)", "Phi(x)",
]  # fmt: skip


@pytest.mark.parametrize("sigma", [*hermite.catalogue(), *map(hermite.activation, SPECS)], ids=lambda s: s.name)
def test_slopes_are_limits_of_differences(sigma: hermite.Activation) -> None:
    h = 1e-5
    x = X[np.all(np.abs(X[:, None] - np.array([*sigma.breakpoints, 99.0])) > 2 * h, axis=1)]
    difference = (8 * (sigma(x + h) - sigma(x - h)) - (sigma(x + 2 * h) - sigma(x - 2 * h))) / (12 * h)
    assert np.abs(slope_of(sigma, 0.0)(x) - difference).max() <= 1e-9 * (1 + np.abs(sigma(x)).max())


def test_a_scale_is_taken_out() -> None:
    sigma = hermite.activation("exp(x)")
    assert slope_of(sigma, 3.0)(np.array([0.5])) == pytest.approx(math.exp(-2.5), rel=1e-15)


def test_slopes_keep_their_digits_where_they_are_small() -> None:
    """1 - tanh^2 and sigmoid - sigmoid^2 as differences would be 0 at x = 20."""
    for name, wanted in (("tanh", 4 * math.exp(-40)), ("sigmoid", math.exp(-20))):
        assert slope_of(hermite.activation(name), 0.0)(np.array([20.0])) == pytest.approx(wanted, rel=1e-8)


CALLABLES: list[tuple[Callable[[Any], Any], str, tuple[float, ...], tuple[float, ...]]] = [
    (lambda x: np.maximum(x - 0.3, 0), "relu(x - 0.3)", (0.3,), ()),
    (np.sign, "sign", (0.0,), (2.0,)),
    (lambda x: np.where(x >= 1 / 3, 1.0, 0.0), "step(x - 1/3)", (1 / 3,), (1.0,)),
    (lambda x: np.clip(x, -0.7, 1.1) + np.tanh(x), "hardtanh(x, min_val=-0.7, max_val=1.1) + tanh(x)", (-0.7, 1.1), ()),
    (lambda x: np.where(np.abs(x) > 0.5, x, 0.0), "hardshrink", (-0.5, 0.5), (-0.5 * -1, 0.5)),
    (np.tanh, "tanh", (), ()),
]


@pytest.mark.parametrize(
    ("function", "spec", "kinks", "jumps"), CALLABLES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_kinks_of_callables(
    function: Callable[[Any], Any], spec: str, kinks: tuple[float, ...], jumps: tuple[float, ...]
) -> None:
    """Each kink to a few ulps of where it is, the slope between them, and the heights of jumps."""
    sigma = hermite.activation(function)
    assert sharp_kinks(sigma) == pytest.approx(kinks, abs=2e-15)
    x = X[np.all(np.abs(X[:, None] - np.array([*kinks, 99.0])) > 1e-3, axis=1)]
    exact = slope_of(hermite.activation(spec), 0.0)(x)
    assert np.abs(slope_of(sigma, 0.0)(x) - exact).max() <= 2e-12
    low = varying(sigma)
    heights = [height * math.exp(low.log_scale) for _, height in jumps_of(sigma, low)]
    assert heights == pytest.approx(jumps, abs=1e-13)


def test_a_kink_that_is_missed_would_be_seen() -> None:
    """1e-8 beside its place, as quadrature leaves it, a kink costs eight digits of the derivative at 1."""
    wrong = hermite.Dual("relu(x - 0.30000001)").derivative(1.0)
    right = hermite.Dual(lambda x: np.maximum(x - 0.3, 0)).derivative(1.0)
    assert right == pytest.approx(hermite.Dual("relu(x - 0.3)").derivative(1.0), rel=1e-13)
    assert abs(wrong - right) > 1e-9
