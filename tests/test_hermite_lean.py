"""The quick interpreter against the careful one: every entry of the catalogue, random activations, both dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from bounds.strategies import activations
from hermite import Activation, activation, catalogue
from hermite._lean import compiled, overwriting

X = np.concatenate([np.random.default_rng(0).standard_normal(4000) * 2, [0.0, -0.0, 1.0, -1.0, 3.0, -3.0]])


def agree(sigma: Activation, dtype: type, tolerance: float) -> None:
    x = X.astype(dtype)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(compiled(sigma.expr)(x), x.shape)
    same = x.copy()
    with np.errstate(all="ignore"):
        overwriting(sigma.expr)(same)
    np.testing.assert_array_equal(same, found)
    exact = sigma(x)
    scale = max(1.0, float(np.max(np.abs(exact))))
    assert np.max(np.abs(found - exact)) <= tolerance * scale, sigma


@pytest.mark.parametrize("sigma", catalogue(), ids=lambda s: s.name)
def test_the_catalogue(sigma: Activation) -> None:
    agree(sigma, np.float64, 1e-14)
    agree(sigma, np.float32, 2e-6)


@pytest.mark.parametrize(
    ("text", "double", "single"),
    [
        ("x*sigmoid(1.702*x)", 1e-14, 2e-6),
        ("He(20, x)", 1e-12, 1e-3),
        ("He(4, 1 - x) + He(1, x)", 1e-13, 1e-4),
        ("abs(x)**0.5*sign(x)", 1e-14, 2e-6),
        ("1/(1 + x**2)**(1/3)", 1e-14, 2e-6),
        ("exp(-abs(x)) if x**2 > 1 else cos(pi*x)", 1e-13, 1e-5),
        ("log1p(exp(2*x))/2", 1e-14, 2e-6),
        ("expm1(min(x, 2)) - arctan(max(x, -1))", 1e-14, 2e-6),
        ("log1p(x**2)*tanh(x/2)", 1e-14, 2e-6),
    ],
)
def test_expressions(text: str, double: float, single: float) -> None:
    agree(activation(text), np.float64, double)
    agree(activation(text), np.float32, single)


@given(activations())
def test_random_activations(sigma: Activation) -> None:
    agree(activation(sigma), np.float64, 1e-11)


def test_the_dtype_is_kept_and_constants_are_floats() -> None:
    for sigma in catalogue():
        assert compiled(sigma.expr)(X.astype(np.float32)).dtype == np.float32, sigma
    assert compiled(activation("x").expr)(X) is X
    assert isinstance(compiled(activation("0*x + pi").expr)(X), float)


def test_what_overflows_is_inf_where_the_careful_one_has_an_exponent() -> None:
    with np.errstate(over="ignore"):
        assert compiled(activation("exp(100*x)").expr)(np.array([10.0]))[0] == np.inf


def test_a_callable_is_called_with_float64() -> None:
    seen = []
    sigma = activation(lambda x: (seen.append(np.asarray(x).dtype), np.tanh(x))[1])
    seen.clear()
    found = compiled(sigma.expr)(X.astype(np.float32))
    assert set(seen) == {np.dtype(np.float64)}
    np.testing.assert_allclose(found, np.tanh(X.astype(np.float32)), rtol=1e-6)
