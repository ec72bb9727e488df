"""One mean-field layer: the map of correlations against closed forms, the layer on matrices, and the value it is.

Closed forms are evaluated by mpmath with as many digits as they cancel. The map promises 1e-14 absolute, and few eps
relative towards 0 where the first weight is not tiny; measured are 4e-15 (jumps, near |rho| = 1) and 1.3e-15.
"""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._matrix_strategies import correlation_matrices
from hermite import activation, multiprecision
from hermite.errors import (
    ActivationParseError,
    ConstantActivationError,
    NotSquareIntegrableError,
    PrecisionError,
    UnknownActivationError,
)
from meanfield import Layer, correlation

Floats: TypeAlias = NDArray[np.float64]
Real: TypeAlias = Any  # mpmath has no types
EPS = float(np.finfo(np.float64).eps)


# --- closed forms -------------------------------------------------------------------------------------------


def centred(dual: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda rho: (dual(rho) - dual(mp.mpf(0))) / (dual(mp.mpf(1)) - dual(mp.mpf(0)))


def arccosine(rho: Real) -> Real:
    """The arccosine kernel of degree 1, 2 pi E relu(x) relu(y)."""
    theta = mp.acos(rho)
    return mp.sin(theta) + (mp.pi - theta) * rho


def arccosine_2(rho: Real) -> Real:
    theta = mp.acos(rho)
    return 3 * mp.sin(theta) * rho + (mp.pi - theta) * (1 + 2 * rho**2)


def leaky(rho: Real) -> Real:
    a = mp.mpf(1) / 5
    return (1 - a) ** 2 * arccosine(rho) / (2 * mp.pi) + a * rho


def gelu(rho: Real) -> Real:
    return rho / 4 + (rho * mp.asin(rho / 2) + 1 / mp.sqrt(4 - rho**2)) / (2 * mp.pi)


def erf(gain: int) -> Callable[[Real], Real]:
    return centred(lambda rho: mp.asin(2 * gain**2 * rho / (1 + 2 * gain**2)))


MAPS: dict[str, Callable[[Real], Real]] = {
    "relu": centred(arccosine),
    "max(x, 0)**2": centred(arccosine_2),
    "leaky_relu(x, negative_slope=0.2)": centred(leaky),
    "abs": centred(lambda rho: mp.sqrt(1 - rho**2) + rho * mp.asin(rho)),
    "sign": lambda rho: 2 * mp.asin(rho) / mp.pi,
    "step": lambda rho: 2 * mp.asin(rho) / mp.pi,
    "erf": erf(1),
    "erf(5*x)": erf(5),
    "gelu": centred(gelu),
    "sin": lambda rho: mp.sinh(rho) / mp.sinh(1),
    "cos": centred(mp.cosh),
    "exp": lambda rho: mp.expm1(rho) / mp.expm1(1),
    "exp(3*x)": lambda rho: mp.expm1(9 * rho) / mp.expm1(9),
    "identity": lambda rho: rho,
    "He(2, x)": lambda rho: rho**2,
    "He(3, x)": lambda rho: rho**3,
    "He(8, x)": lambda rho: rho**8,
    "x + He(2, x)": lambda rho: (rho + rho**2) / 2,
}
NEAR_ONE = 1 - 2.0 ** -np.arange(1, 54)
NEAR_ZERO = np.concatenate([2.0 ** -np.arange(4, 50), 10.0 ** -np.arange(20, 301, 20)])


def exact(f: Callable[[Real], Real], rho: Floats, digits: int) -> list[Real]:
    with mp.workdps(digits):
        return [f(mp.mpf(float(r))) for r in rho]


def errors(values: Any, wanted: list[Real]) -> Floats:
    with mp.workdps(40):
        return np.array([float(abs(mp.mpf(float(v)) - w)) for v, w in zip(values, wanted, strict=True)])


@pytest.mark.parametrize("name", MAPS)
def test_the_map_meets_its_closed_form_everywhere(name: str) -> None:
    rho = np.concatenate([np.linspace(-1, 1, 161), NEAR_ONE, -NEAR_ONE])
    assert errors(Layer(name).map(rho), exact(MAPS[name], rho, 50)).max() <= 5e-15


@pytest.mark.parametrize("name", MAPS)
def test_the_map_keeps_its_digits_towards_zero(name: str) -> None:
    rho = np.concatenate([NEAR_ZERO, -NEAR_ZERO])
    wanted = exact(MAPS[name], rho, 640)  # f = rho^2 at 1e-300 is the difference of two numbers of size 1
    size = np.array([float(abs(w)) for w in wanted])
    kept = size > 1e-290
    assert np.all(errors(Layer(name).map(rho), wanted)[kept] <= 3e-15 * size[kept])


@pytest.mark.parametrize("gain", [2, 3, 4, 5])
def test_where_the_first_weight_is_tiny_the_map_keeps_what_the_weight_has(gain: int) -> None:
    # w_1 = gain^2/sinh(gain^2), down to 7e-10: quadrature would know it to 2e-16/sqrt(w_1), the closed form knows it
    layer, rho = Layer("sin", gain=gain), np.array([1e-8, 1e-3, 0.1])
    wanted = exact(lambda r: mp.sinh(gain**2 * r) / mp.sinh(gain**2), rho, 40)
    assert np.all(errors(layer.map(rho), wanted) <= 1e-14 * np.array([float(w) for w in wanted]))


def test_a_planted_error_in_the_map_would_be_seen() -> None:
    rho = np.linspace(-1, 1, 161)
    assert errors(Layer("relu").map(rho) + 6e-15, exact(MAPS["relu"], rho, 50)).max() > 5e-15
    assert errors(Layer("relu").map(rho), exact(MAPS["gelu"], rho, 50)).max() > 1e-2


@pytest.mark.parametrize("rho", [0.3, 0.5, -0.9])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "softplus", "elu"])
def test_the_map_is_the_reduced_covariance_by_a_double_integral(name: str, rho: float) -> None:
    # a trapezoid in polar form would do worse: Gauss-Hermite on a grid is exact for analytic sigma, 1e-9 for elu
    x, w = np.polynomial.hermite_e.hermegauss(120)
    sigma, w = activation(name), w / w.sum()
    y = rho * x[:, None] + math.sqrt(1 - rho * rho) * x
    mean = float(w @ sigma(x))
    covariance = float(w @ ((sigma(x)[:, None] - mean) * (sigma(y) - mean)) @ w)
    variance = float(w @ (sigma(x) - mean) ** 2)
    assert Layer(name).map(rho) == pytest.approx(covariance / variance, abs=2e-4 if name == "elu" else 1e-9)


# --- the ends -----------------------------------------------------------------------------------------------

CATALOGUED = ["relu", "gelu", "tanh", "sign", "step", "exp", "abs", "He(3, x)", "selu", "hardtanh", "cos"]


@pytest.mark.parametrize("name", CATALOGUED)
def test_one_and_an_ulp_beyond_it_stay_exactly_one(name: str) -> None:
    assert np.array_equal(Layer(name).map([1.0, 1.0 + EPS, 1.0 + 1e-13]), [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    "name", ["tanh", "sign", "step", "erf", "sin", "hardtanh", "sigmoid", "He(3, x)", "tanh(9*x) + 2"]
)
def test_opposite_inputs_stay_exactly_opposite_where_sigma_less_its_mean_is_odd(name: str) -> None:
    layer = Layer(name)
    assert np.array_equal(layer.map([-1.0, -1.0 - EPS]), [-1.0, -1.0])
    assert layer.map(-0.75) == -layer.map(0.75)


@pytest.mark.parametrize("name", ["abs", "cos", "gaussian", "square", "He(4, x)", "abs(x) + x**2"])
def test_opposite_inputs_coincide_where_sigma_is_even(name: str) -> None:
    layer = Layer(name)
    assert np.array_equal(layer.map([-1.0, -1.0 - EPS]), [1.0, 1.0])
    assert layer.map(-0.75) == layer.map(0.75)


def test_a_sigma_that_is_nearly_odd_is_not_taken_for_odd() -> None:
    # f(-1) = -1 + 2 w_2 with w_2 = 2e-12/(1 + 2e-12)
    assert Layer("x + 0.000001*x**2").map(-1.0) == pytest.approx(-1 + 4e-12, abs=1e-15)
    assert Layer("x + 0.000001*x**2").map(-1.0) > -1


def test_relu_at_minus_one() -> None:
    assert Layer("relu").map(-1.0) == pytest.approx(-1 / (math.pi - 1), abs=1e-15)
    assert Layer("relu").map(-1.0000000000000002) == Layer("relu").map(-1.0)
    # 1e-8 from the end the arccosine has moved by 1e-4, and the map by 1e-12
    rho = np.array([-1 + 1e-8, -1 + 1e-12, np.nextafter(-1, 0)])
    assert errors(Layer("relu").map(rho), exact(MAPS["relu"], rho, 60)).max() <= 2e-15


@pytest.mark.parametrize("rho", [1.1, -1.1, 1 + 1e-9, math.inf, -math.inf, 2, [0.5, -7.0], [math.nan, 3.0]])
def test_a_correlation_beyond_one_is_an_error_that_quotes_it(rho: Any) -> None:
    worst = max((abs(float(r)) for r in np.ravel(rho) if not math.isnan(r)), default=0.0)
    with pytest.raises(ValueError, match=r"rho must lie in \[-1, 1\], got -?" + f"{worst!r}"):
        Layer("relu").map(rho)


@pytest.mark.parametrize("rho", ["x", 1j, None, [Fraction(1, 2), None], [[0.1], [0.1, 0.2]]])
def test_what_is_no_array_of_real_numbers_is_an_error(rho: Any) -> None:
    with pytest.raises(ValueError, match="rho must hold real numbers"):
        Layer("relu").map(rho)


# --- shapes -------------------------------------------------------------------------------------------------


def test_a_number_gives_a_float_and_an_array_keeps_its_shape() -> None:
    layer = Layer("relu")
    for number in (0.5, np.float64(0.5), np.array(0.5), np.float32(0.5)):
        assert type(layer.map(number)) is float
        assert layer.map(number) == layer.map(0.5)
    assert (layer.map(1), layer.map(0), layer.map(True)) == (1.0, 0.0, 1.0)
    shapes: list[tuple[int, ...]] = [(0,), (1,), (3,), (2, 3), (2, 0, 3), (1, 1, 1)]
    for shape in shapes:
        mapped = layer.map(np.full(shape, 0.5))
        assert isinstance(mapped, np.ndarray)
        assert mapped.shape == shape
        assert mapped.dtype == np.float64
    assert np.array_equal(layer.map([0.5, -0.5]), [float(layer.map(0.5)), float(layer.map(-0.5))])


@pytest.mark.parametrize("name", ["relu", "exp"])
def test_the_map_does_not_care_how_the_array_lies_in_memory_and_leaves_it_alone(name: str) -> None:
    layer, rho = Layer(name), np.linspace(-1, 1, 24).reshape(4, 6)
    before = rho.copy()
    assert np.array_equal(layer.map(rho.T), np.asarray(layer.map(rho)).T)
    assert np.array_equal(layer.map(rho[::2, ::-3]), np.asarray(layer.map(rho))[::2, ::-3])
    assert np.array_equal(layer.map(np.asfortranarray(rho)), layer.map(rho))
    assert np.array_equal(layer.map(rho.astype(np.float32)), layer.map(rho.astype(np.float32).astype(np.float64)))
    rho.flags.writeable = False
    layer.map(rho)
    assert np.array_equal(rho, before)


@pytest.mark.parametrize("name", ["relu", "exp", "He(3, x)", "sign", "abs"])
def test_nan_stays_nan_and_nothing_else_becomes_nan(name: str) -> None:
    mapped = np.asarray(Layer(name).map([math.nan, 0.5, math.nan, 1.0, -1.0, 0.0]))
    assert np.array_equal(np.isnan(mapped), [True, False, True, False, False, False])
    assert math.isnan(float(Layer(name).map(math.nan)))


def test_zero_and_the_smallest_numbers_go_through() -> None:
    assert np.array_equal(Layer("tanh").map([0.0, -0.0]), [0.0, 0.0])
    assert np.array_equal(Layer("identity").map([5e-324, -5e-324]), [5e-324, -5e-324])
    assert np.array_equal(Layer("He(3, x)").map([5e-324, 1e-200]), [0.0, 0.0])  # rho^3 underflows, without a warning


# --- properties of every map --------------------------------------------------------------------------------

POOL = ["relu", "tanh", "gelu", "exp", "sin", "sigmoid", "abs", "sign", "He(3, x)", "x - He(2, x)/2", "selu", "cos"]
layers = st.sampled_from(POOL).map(Layer)
rhos = st.floats(-1, 1, allow_subnormal=False)


@given(layers, rhos, rhos)
def test_the_map_has_nonnegative_coefficients(layer: Layer, a: float, b: float) -> None:
    """|f(a) - f(b)| <= f(m) - f(m - |a - b|) with m = max(|a|, |b|), and |f(a)| <= f(|a|) <= |a|."""
    f_a, f_b = np.asarray(layer.map([a, b]))
    top, apart = max(abs(a), abs(b)), abs(a - b)
    assert abs(f_a) <= layer.map(abs(a)) + 1e-14
    assert layer.map(abs(a)) <= abs(a) + 1e-14
    if apart <= top:
        chord = np.subtract(*np.asarray(layer.map([top, top - apart])))
        assert abs(f_a - f_b) <= chord + 3e-14


@given(layers, rhos)
def test_odds_shrink_by_the_isometry_strength(layer: Layer, rho: float) -> None:
    """Lemma A.7 in the form without division: beta |f| (1 - |rho|) <= |rho| (1 - |f|)."""
    mapped = abs(float(layer.map(rho)))
    assert layer.isometry_strength * mapped * (1 - abs(rho)) <= abs(rho) * (1 - mapped) + 3e-14


@pytest.mark.parametrize("name", POOL)
def test_the_slope_at_zero_is_the_linearity(name: str) -> None:
    layer = Layer(name)
    # f(rho)/rho = r + w_2 rho + ..., so 1e-14 away from 0 two digits more than asked
    assert float(layer.map(1e-14)) / 1e-14 == pytest.approx(layer.linearity, abs=3e-14)
    assert layer.isometry_strength == pytest.approx(2 - layer.linearity, abs=1e-15)


# --- without centring ---------------------------------------------------------------------------------------


def uncentred(dual: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda rho: dual(rho) / dual(mp.mpf(1))


RMS_MAPS: dict[str, Callable[[Real], Real]] = {
    "relu": uncentred(arccosine),
    "max(x, 0)**2": uncentred(arccosine_2),
    "leaky_relu(x, negative_slope=0.2)": uncentred(leaky),
    "abs": uncentred(lambda rho: mp.sqrt(1 - rho**2) + rho * mp.asin(rho)),
    "step": lambda rho: mp.mpf(1) / 2 + mp.asin(rho) / mp.pi,
    "gelu": uncentred(gelu),
    "sin": lambda rho: mp.sinh(rho) / mp.sinh(1),
    "cos": uncentred(mp.cosh),
    "exp": lambda rho: mp.exp(rho - 1),
    "exp(3*x)": lambda rho: mp.exp(9 * (rho - 1)),
    "x + He(2, x) + 1": lambda rho: (1 + rho + rho**2) / 3,
    "erf(x) + 1/1000": uncentred(lambda rho: 2 * mp.asin(2 * rho / 3) / mp.pi + mp.mpf(10) ** -6),
}


def rms(spec: Any) -> Layer:
    return Layer(spec, normalization="rms")


@pytest.mark.parametrize("name", RMS_MAPS)
def test_the_uncentred_map_meets_its_closed_form_everywhere(name: str) -> None:
    rho = np.concatenate([np.linspace(-1, 1, 161), NEAR_ONE, -NEAR_ONE])
    wanted = exact(RMS_MAPS[name], rho, 50)
    assert errors(rms(name).map(rho), wanted).max() <= 5e-15
    rows = [rms(name)(np.array([[1.0, r], [r, 1.0]]))[0, 1] for r in rho[::3]]
    assert errors(rows, wanted[::3]).max() <= 5e-15


@pytest.mark.parametrize("name", ["tanh(x + 1/2)", "tanh", "sigmoid"])
def test_the_uncentred_map_is_the_series_of_all_squares(name: str) -> None:
    """On |rho| <= 1/2 ninety terms are all of it: c_90 is about 1e-6, and 2^-90 is 1e-27."""
    c = multiprecision.coefficients(name, 90, digits=30)
    with mp.workdps(30):
        second = multiprecision.second_moment(name, digits=30)
        squares = [mp.mpf(x) ** 2 / second for x in c]
        rho = np.linspace(-0.5, 0.5, 21)
        wanted = [mp.fsum(w * mp.mpf(float(r)) ** k for k, w in enumerate(squares)) for r in rho]
    assert errors(rms(name).map(rho), wanted).max() <= 2e-15


def test_a_mean_of_zero_leaves_nothing_to_centre() -> None:
    for name in ("tanh", "sin", "He(3, x)", "sign", "erf"):
        assert np.allclose(rms(name).map(GRID), Layer(name).map(GRID), rtol=0, atol=1e-15), name
        for r in (0.7, -0.3, 1e-20, 1e-300):
            G = np.array([[1.0, r], [r, 1.0]])
            assert np.array_equal(rms(name)(G), Layer(name)(G)), name


@pytest.mark.parametrize("mean", ["1e-3", "1e-6", "1e-9"])
def test_a_small_mean_keeps_its_digits(mean: str) -> None:
    """kappa(0) = c_0^2/E sigma^2, far below the rounding of 1; c_0 itself is known to 1e-16 and a little."""
    layer = rms(f"sin(x) + {mean}")
    with mp.workdps(40):
        square = mp.mpf(mean) ** 2
        wanted = square / (square + (1 - mp.exp(-2)) / 2)
    after = layer(np.eye(2))[0, 1]
    assert abs(after - float(wanted)) <= (1e-14 + 4 * EPS / float(mean)) * float(wanted)


@given(st.sampled_from(sorted(RMS_MAPS)), correlation_matrices(max_n=6))
def test_the_uncentred_layer_lies_between_centred_and_one(name: str, G: Floats) -> None:
    """kappa = 1 - s + s f with s = variance/E sigma^2: positive semidefinite, diagonal 1, and no entry below f."""
    after, centred_after = rms(name)(G), Layer(name)(G)
    assert np.array_equal(after, after.T)
    assert np.array_equal(np.diagonal(after), np.ones(len(G)))
    assert (after >= centred_after - 1e-14).all()
    # of the ones in kappa(G) = kappa(0) 11^T + (1 - kappa(0)) f(G) the least eigenvalue knows nothing
    share = 1 - float(rms(name).map(0.0))
    assert np.linalg.eigvalsh(after)[0] >= share * np.linalg.eigvalsh(G)[0] - 2e-14 * len(G)


# --- gain ---------------------------------------------------------------------------------------------------

GRID = np.concatenate([np.linspace(-1, 1, 81), NEAR_ONE[::5], NEAR_ZERO[::5]])


@pytest.mark.parametrize(("name", "inside"), [("tanh", "tanh(2*x)"), ("sin", "sin(2*x)"), ("gelu", "2*x*Phi(2*x)")])
def test_gain_multiplies_the_argument(name: str, inside: str) -> None:
    assert np.allclose(Layer(name, gain=2).map(GRID), Layer(inside).map(GRID), rtol=1e-14, atol=0)
    assert np.allclose(Layer(name, gain=2).map(GRID), Layer(activation(name, gain=2)).map(GRID), rtol=1e-14, atol=0)


def test_gains_compose() -> None:
    twice = Layer(activation("tanh", gain=2), gain=3)
    assert np.allclose(twice.map(GRID), Layer("tanh", gain=6).map(GRID), rtol=1e-14, atol=0)
    assert np.allclose(twice.map(GRID), Layer("tanh", gain=6.0).map(GRID), rtol=0, atol=0)
    assert not np.allclose(twice.map(GRID), Layer("tanh", gain=5).map(GRID), rtol=1e-3)


@pytest.mark.parametrize("gain", [0.1, 3, Fraction(22, 7), 1000])
@pytest.mark.parametrize("name", ["relu", "leaky_relu", "abs", "sign", "step", "identity", "cube"])
def test_homogeneous_activations_do_not_depend_on_the_gain(name: str, gain: Any) -> None:
    assert np.allclose(Layer(name, gain=gain).map(GRID), Layer(name).map(GRID), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["relu", "elu", "exp", "gelu"])
def test_the_sign_of_the_gain_does_not_matter(name: str) -> None:
    # (X, Y) and (-X, -Y) have one law
    assert np.allclose(Layer(name, gain=-1).map(GRID), Layer(name).map(GRID), rtol=0, atol=1e-14)


@pytest.mark.parametrize("gain", [0, 0.0, -0.0, math.nan, math.inf, "two", None, True, 1j, [1.0, 2.0]])
def test_a_gain_that_is_no_nonzero_number_is_refused_by_name(gain: Any) -> None:
    with pytest.raises(ValueError, match="gain must"):
        Layer("relu", gain=gain)


# --- the value that a layer is ------------------------------------------------------------------------------


def test_layers_are_equal_by_what_they_are() -> None:
    assert Layer("tanh", gain=0.5) == Layer(activation("tanh"), gain=Fraction(1, 2))
    assert hash(Layer("tanh", gain=0.5)) == hash(Layer("tanh", gain=Fraction(1, 2)))
    assert Layer("hard_tanh") == Layer("hardtanh")
    assert Layer("tanh") != Layer("tanh", gain=2)
    assert Layer("tanh") != Layer("relu")
    anything: object = activation("tanh")
    assert Layer("tanh") != anything
    assert len({Layer("tanh"), Layer("tanh", gain=1.0), Layer("relu")}) == 2


@pytest.mark.parametrize("layer", [Layer("tanh", gain=0.1), Layer("x*sigmoid(1.702*x)"), Layer(np.tanh)])
def test_a_layer_survives_pickling(layer: Layer) -> None:
    again = pickle.loads(pickle.dumps(layer))
    assert again == layer
    assert hash(again) == hash(layer)
    assert again.map(0.3) == layer.map(0.3)


def test_a_layer_is_frozen() -> None:
    layer = Layer("tanh")
    with pytest.raises(FrozenInstanceError):
        layer.gain = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        Layer("tanh", 2)  # type: ignore[call-arg, arg-type]  # the gain is a keyword: a second number would be a guess


def test_a_layer_shows_what_it_is() -> None:
    shown = "Layer(Activation('tanh'), gain=Fraction(1, 10))"
    assert repr(Layer("tanh", gain=0.1)) == shown
    assert Layer("tanh", gain=0.1).label == "tanh(1/10*x)"
    assert Layer("relu").label == "relu"
    assert Layer("tanh", gain=2).sigma(0.5) == pytest.approx(math.tanh(1))


def test_a_callable_is_an_activation_too() -> None:
    assert np.allclose(Layer(np.tanh).map(GRID), Layer("tanh").map(GRID), rtol=0, atol=1e-14)


@pytest.mark.parametrize("constant", ["1/2", "0*x + 1", "sign(x)**2"])
def test_a_constant_activation_is_an_error_as_soon_as_the_layer_is_used(constant: str) -> None:
    uses: list[Callable[[Layer], object]] = [
        lambda layer: layer.map(0.5),
        lambda layer: layer(np.eye(2)),
        lambda layer: layer.linearity,
        lambda layer: layer.isometry_strength,
    ]
    for use in uses:
        with pytest.raises(ConstantActivationError, match="constant"):
            use(Layer(constant))


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("no_such_activation", UnknownActivationError),
        ("x +* 2", ActivationParseError),
        ("exp(x**2)", NotSquareIntegrableError),
        ("1/x", NotSquareIntegrableError),
        ("log(abs(x))", PrecisionError),
        (3, ValueError),
        (None, ValueError),
        (["relu", "tanh"], ValueError),
    ],
)
def test_what_is_no_activation_of_a_layer_is_a_named_error(spec: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Layer(spec).map(0.5)


# --- on matrices --------------------------------------------------------------------------------------------


@given(correlation_matrices(max_n=6), layers)
def test_the_next_gram_matrix_is_one(G: Floats, layer: Layer) -> None:
    after = layer(G)
    assert after.shape == G.shape
    assert np.array_equal(after, after.T)
    assert np.array_equal(np.diagonal(after), np.ones(len(G)))
    assert np.abs(after).max() <= 1.0
    off = ~np.eye(len(G), dtype=bool)
    assert np.allclose(after[off], layer.map(G[off]), rtol=0, atol=1e-15)


@given(correlation_matrices(max_n=6), layers)
def test_the_smallest_eigenvalue_does_not_fall(G: Floats, layer: Layer) -> None:
    """Theorem M1 for the spectrum; entries are off by at most 1e-14, so eigenvalues by n times that."""
    least = np.linalg.eigvalsh(G)[0]
    assert np.linalg.eigvalsh(layer(G))[0] >= least - 2e-14 * len(G)


@given(correlation_matrices(min_n=2, max_n=6), layers, st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_does_not_matter(G: Floats, layer: Layer, random: Any) -> None:
    order = list(range(len(G)))
    random.shuffle(order)
    moved = np.ix_(order, order)
    assert np.allclose(layer(G[moved]), layer(G)[moved], rtol=1e-15, atol=1e-300)


@given(correlation_matrices(min_n=2, max_n=6), st.sampled_from(["tanh", "sin", "He(3, x)", "sign"]))
def test_odd_activations_keep_the_signs_of_the_inputs(G: Floats, name: str) -> None:
    signs = np.where(np.arange(len(G)) % 2, -1.0, 1.0)
    flip = np.outer(signs, signs)
    assert np.allclose(Layer(name)(G * flip), Layer(name)(G) * flip, rtol=1e-15, atol=1e-300)


def test_a_batch_is_mapped_matrix_by_matrix() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2, 3, 4, 7))
    G = correlation(X @ np.swapaxes(X, -1, -2))
    layer = Layer("relu")
    assert layer(G).shape == (2, 3, 4, 4)
    for i, j in itertools.product(range(2), range(3)):
        assert np.array_equal(layer(G)[i, j], layer(G[i, j]))
    assert layer(np.empty((0, 4, 4))).shape == (0, 4, 4)


def test_lists_integers_and_float32_are_matrices_too() -> None:
    layer = Layer("relu")
    G = [[1, 0], [0, 1]]
    assert np.array_equal(layer(G), np.eye(2))
    half = np.array([[1, 0.5], [0.5, 1]])
    assert np.array_equal(layer(half.astype(np.float32)), layer(half))
    assert np.array_equal(layer(half.tolist()), layer(half))
    assert np.array_equal(layer(np.asfortranarray(half)), layer(half))


def test_one_input_stays_what_it_is() -> None:
    assert np.array_equal(Layer("relu")([[1.0]]), [[1.0]])
    assert np.array_equal(Layer("sign")(np.ones((3, 1, 1))), np.ones((3, 1, 1)))


def test_the_given_matrix_is_left_alone() -> None:
    G = np.array([[1.0, 0.5], [0.5, 1.0]])
    G.flags.writeable = False
    after = Layer("relu")(G)
    assert G[0, 1] == 0.5
    assert after.flags.writeable
    assert not np.shares_memory(after, G)


def test_rounding_on_the_diagonal_and_beyond_one_is_forgiven() -> None:
    # an input and its double: after normalising, the cosine may be an ulp beyond 1
    G = np.array([[1.0, 1.0 + EPS, 0.3], [1.0 + EPS, 1.0 - EPS, 0.3], [0.3, 0.3, 1.0]])
    after = Layer("relu")(G)
    assert np.array_equal(np.diagonal(after), np.ones(3))
    assert after[0, 1] == 1.0


@pytest.mark.parametrize(
    ("G", "message"),
    [
        ([[-2.0, 0.5], [0.5, 2.0]], "squared lengths"),
        ([[0.0, 0.0], [0.0, 2.0]], "diagonal entry 0 at index 0"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
        ([[1.0, 1.5], [1.5, 1.0]], "eigenvalue"),
        ([[1.0, math.nan], [math.nan, 1.0]], "finite"),
        ([1.0, 0.5], "shape"),
        (np.ones((2, 3)), "shape"),
        (0.5, "shape"),
        ("relu", "real numbers"),
        (np.empty((0, 0)), "shape"),
    ],
)
def test_what_is_no_gram_matrix_of_inputs_with_a_direction_is_refused(G: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layer("relu")(G)


# --- finite width -------------------------------------------------------------------------------------------


def standardised(h: Floats) -> Floats:
    centred_rows = h - h.mean(axis=1, keepdims=True)
    return np.asarray(centred_rows / np.sqrt((centred_rows**2).mean(axis=1, keepdims=True)))


def z_scores(after: Floats, wanted: Floats) -> Floats:
    """sqrt(width) (G_ij - f)/sd, where G_ij - f is the mean over neurons of Y = x y - f (x^2 + y^2)/2."""
    scores = []
    for i, j in itertools.combinations(range(len(after)), 2):
        Y = after[i] * after[j] - wanted[i, j] * (after[i] ** 2 + after[j] ** 2) / 2
        scores.append(math.sqrt(after.shape[1]) * float(Y.mean()) / float(Y.std()))
    return np.array(scores)


def test_a_wide_network_with_explicit_weights_follows_the_layer() -> None:
    """Two layers of relu, width 4000, 5 inputs: each pair within 4.5 standard errors of f of the layer before.

    20 comparisons at two-sided level 6.8e-6 each, so a right map fails for one seed in 7000. The same data refuse
    the map without centring, and that of a weight variance twice as large changes nothing, as relu is homogeneous.
    """
    rng = np.random.Generator(np.random.SFC64(20230530))
    width, layer = 4000, Layer("relu")
    X = rng.standard_normal((5, width))
    X[1] += X[0]
    X[4] = 0.3 * X[4] - X[3]
    h = standardised(X)
    for _ in range(2):
        before = correlation(h @ h.T / width)
        h = standardised(np.maximum(h @ rng.standard_normal((width, width)) / math.sqrt(width), 0.0))
        assert np.abs(z_scores(h, layer(before))).max() <= 4.5
        theta = np.arccos(np.clip(before, -1, 1))
        uncentred = (np.sin(theta) + (np.pi - theta) * before) / np.pi
        assert np.abs(z_scores(h, uncentred)).max() > 20
        assert np.abs(z_scores(h, Layer("leaky_relu(x, negative_slope=0.1)")(before))).max() > 4.5


def test_a_wide_network_without_centring_follows_its_layer() -> None:
    """The same with x -> x/rms(x): 20 comparisons at 4.5 standard errors, and the centred map is refused."""
    rng = np.random.Generator(np.random.SFC64(20241020))
    width, layer = 4000, rms("relu")
    h = scaled(rng.standard_normal((5, width)) + 0.3)
    h[4] = scaled(0.5 * h[4:] - h[3:4])[0]
    for _ in range(2):
        before = correlation(h @ h.T / width)
        h = scaled(np.maximum(h @ rng.standard_normal((width, width)) / math.sqrt(width), 0.0))
        assert np.abs(z_scores(h, layer(before))).max() <= 4.5
        assert np.abs(z_scores(h, Layer("relu")(before))).max() > 20
        assert np.abs(z_scores(h, rms("leaky_relu(x, negative_slope=0.1)")(before))).max() > 4.5


def scaled(h: Floats) -> Floats:
    return np.asarray(h / np.sqrt((h**2).mean(axis=1, keepdims=True)))


def test_nothing_here_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("relu", "abs", "He(3, x)", "exp", "sign"):
            Layer(name).map([1e-300, -1e-300, 0.0, 1.0, -1.0, math.nan])
            Layer(name)(np.array([[1.0, -1.0], [-1.0, 1.0]]))
