"""The door `activation`, the record it returns, the catalogue, and Python callables."""

from __future__ import annotations

import functools
import math
import pickle
import random
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import hermite
from hermite.errors import ActivationParseError, ConstantActivationError, NotSquareIntegrableError, PrecisionError

F = Fraction
X = np.array([-9.0, -3.0, -2.0, -1.0, -0.5, -0.1, -1e-8, 0.0, 1e-8, 0.25, 0.5, 1.0, 1.7, 3.0, 6.0, 12.0])

# ---- the catalogue --------------------------------------------------------------------------------------------

Function = Callable[[Any], Any]


def selu(x: Any) -> Any:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))


CATALOGUE: dict[str, tuple[Function, dict[str, Fraction]]] = {
    "identity": (lambda x: x, {}),
    "relu": (lambda x: np.maximum(x, 0), {}),
    "leaky_relu": (lambda x: np.where(x > 0, x, x / 100), {"negative_slope": F(1, 100)}),
    "prelu": (lambda x: np.where(x > 0, x, x / 4), {"weight": F(1, 4)}),
    "relu6": (lambda x: np.clip(x, 0, 6), {}),
    "abs": (np.abs, {}),
    "step": (lambda x: np.heaviside(x, 1), {}),
    "sign": (np.sign, {}),
    "hardtanh": (lambda x: np.clip(x, -1, 1), {"min_val": F(-1), "max_val": F(1)}),
    "hardsigmoid": (lambda x: np.clip(x / 6 + 0.5, 0, 1), {}),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, {}),
    "hardshrink": (lambda x: np.where(np.abs(x) > 0.5, x, 0), {"lambd": F(1, 2)}),
    "softshrink": (lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0), {"lambd": F(1, 2)}),
    "threshold": (lambda x: np.where(x > 1, x, 0), {"threshold": F(1), "value": F(0)}),
    "tanhshrink": (lambda x: np.where(np.abs(x) < 1e-4, x**3 / 3, x - np.tanh(x)), {}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), {"alpha": F(1)}),
    "celu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), {"alpha": F(1)}),
    "selu": (selu, {}),
    "sigmoid": (special.expit, {}),
    "tanh": (np.tanh, {}),
    "erf": (special.erf, {}),
    "arctan": (np.arctan, {}),
    "gelu": (lambda x: x * special.ndtr(x), {}),
    "gelu_tanh": (lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), {}),
    "silu": (lambda x: x * special.expit(x), {}),
    "mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), {}),
    "softplus": (lambda x: np.logaddexp(0, x), {"beta": F(1)}),
    "logsigmoid": (lambda x: -np.logaddexp(0, -x), {}),
    "sin": (np.sin, {}),
    "cos": (np.cos, {}),
    "exp": (np.exp, {}),
    "gaussian": (lambda x: np.exp(-(x**2)), {}),
    "square": (lambda x: x**2, {}),
    "cube": (lambda x: x**3, {}),
    "hermite_polynomial": (lambda x: (x**2 - 1) / math.sqrt(2), {"degree": F(2)}),
}


def test_the_catalogue_is_the_list() -> None:
    assert sorted(s.name for s in hermite.catalogue()) == sorted(CATALOGUE)
    assert hermite.catalogue() == hermite.catalogue()


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_entries(name: str) -> None:
    function, parameters = CATALOGUE[name]
    sigma = hermite.activation(name)
    assert sigma.name == name
    assert sigma.parameters == parameters
    assert sigma in hermite.catalogue()
    # 1 + tanh and x - tanh in the NumPy forms lose a digit or two that the stable forms keep
    assert sigma(X) == pytest.approx(function(X), rel=1e-12, abs=1e-15)
    assert str(sigma) == name
    assert repr(sigma) == f"Activation('{name}')"
    assert not sigma.is_opaque


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_names_in_expressions(name: str) -> None:
    inner = hermite.activation(f"{name}(2*x - 1/3)")
    assert inner(X) == pytest.approx(hermite.activation(name)(2 * X - 1 / 3), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ReLU", "relu"), ("LeakyReLU", "leaky_relu"), ("leakyrelu", "leaky_relu"), ("PReLU", "prelu"),
        ("ReLU6", "relu6"), ("Hardtanh", "hardtanh"), ("hard_tanh", "hardtanh"), ("Hardsigmoid", "hardsigmoid"),
        ("hard_sigmoid", "hardsigmoid"), ("Hardswish", "hardswish"), ("hard_swish", "hardswish"),
        ("hard_silu", "hardswish"), ("Hardshrink", "hardshrink"), ("Softshrink", "softshrink"),
        ("soft_sign", "softsign"), ("Softsign", "softsign"), ("Tanhshrink", "tanhshrink"), ("ELU", "elu"),
        ("CELU", "celu"), ("SELU", "selu"), ("GELU", "gelu"), ("SiLU", "silu"), ("swish", "silu"), ("Mish", "mish"),
        ("Softplus", "softplus"), ("LogSigmoid", "logsigmoid"), ("log_sigmoid", "logsigmoid"), ("Sigmoid", "sigmoid"),
        ("logistic", "sigmoid"), ("Tanh", "tanh"), ("atan", "arctan"), ("linear", "identity"), ("heaviside", "step"),
        ("Threshold", "threshold"), ("Identity", "identity"), (" relu ", "relu"),
    ],
)  # fmt: skip
def test_torch_and_jax_spellings(text: str, name: str) -> None:
    assert hermite.activation(text) == hermite.activation(name)


@pytest.mark.parametrize(
    ("spec", "parameters", "function"),
    [
        ("leaky_relu", {"negative_slope": 0.2}, lambda x: np.where(x > 0, x, 0.2 * x)),
        ("prelu", {"init": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
        ("prelu", {"weight": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
        ("elu", {"alpha": 2}, lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0)))),
        ("celu", {"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0) / 0.5))),
        ("hardtanh", {"min_val": -2, "max_val": 0.5}, lambda x: np.clip(x, -2, 0.5)),
        ("hardshrink", {"lambd": 1.5}, lambda x: np.where(np.abs(x) > 1.5, x, 0)),
        ("softshrink", {"lambd": 1.5}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 1.5, 0)),
        ("threshold", {"threshold": 0.1, "value": 20}, lambda x: np.where(x > 0.1, x, 20)),
        ("softplus", {"beta": 3}, lambda x: np.logaddexp(0, 3 * x) / 3),
        ("hermite_polynomial", {"degree": 3}, lambda x: (x**3 - 3 * x) / math.sqrt(6)),
        ("gelu", {"approximate": "none"}, lambda x: x * special.ndtr(x)),
        ("gelu", {"approximate": "tanh"}, CATALOGUE["gelu_tanh"][0]),
    ],
)
def test_parameters_by_torch_names(spec: str, parameters: dict[str, Any], function: Function) -> None:
    assert hermite.activation(spec, **parameters)(X) == pytest.approx(function(X), rel=1e-12, abs=1e-15)


def test_the_two_gelus_are_told_apart() -> None:
    assert hermite.activation("gelu", approximate="tanh").name == "gelu_tanh"
    assert hermite.activation("gelu", approximate="none") == hermite.activation("gelu")
    assert hermite.activation("gelu_tanh") != hermite.activation("gelu")


def test_values_at_a_jump() -> None:
    """sign(0) = 0; otherwise the comparison as written."""
    assert hermite.activation("sign")(0.0) == 0
    assert hermite.activation("step")(0.0) == 1
    assert hermite.activation("1 if x > 0 else 0")(0.0) == 0
    assert hermite.activation("hardshrink")([0.5, -0.5]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("name", "x", "value", "relative"),
    [
        ("softplus", 800.0, "800", 1e-15),
        ("softplus", -700.0, "exp(-700)", 1e-14),
        ("softplus", 20.5, "20.5 + log1p(exp(-20.5))", 1e-15),
        ("logsigmoid", -800.0, "-800", 1e-15),
        ("logsigmoid", 40.0, "-exp(-40)", 1e-14),
        ("sigmoid", -700.0, "exp(-700)", 1e-13),
        ("silu", -40.0, "-40*exp(-40)", 1e-13),
        ("gelu", -12.0, "-12*ncdf(-12)", 1e-13),
        ("gelu_tanh", -5.0, "-5*(1 + tanh(sqrt(2/pi)*(-5 - mpf('0.044715')*125)))/2", 1e-13),
        ("mish", -40.0, "-40*tanh(log1p(exp(-40)))", 1e-13),
        ("elu", -1e-12, "expm1(-mpf('1e-12'))", 1e-15),
        ("tanhshrink", 1e-3, "mpf('1e-3') - tanh(mpf('1e-3'))", 1e-14),
        ("sinh(x)", 1e-12, "sinh(mpf('1e-12'))", 1e-15),
        ("arcsinh(x)", -1e-12, "asinh(-mpf('1e-12'))", 1e-15),
        ("Phi(x)", -30.0, "ncdf(-30)", 1e-12),
        ("log(Phi(x))", -40.0, "log(ncdf(-40))", 1e-14),
        ("1 + erf(x)", -6.0, "erfc(6)", 1e-13),
        ("log(1 + exp(x))", -30.0, "log1p(exp(-30))", 1e-14),
        ("log(1 + tanh(x))", 1e-9, "log1p(tanh(mpf('1e-9')))", 1e-15),
        ("log(1 + tanh(x))", -30.0, "log(2) - 60 - log1p(exp(-60))", 1e-15),
        ("log1p(-erf(x))", 1e-9, "log(erfc(mpf('1e-9')))", 1e-15),
    ],
)
def test_stable_forms(name: str, x: float, value: str, relative: float) -> None:
    """Tails and small arguments keep their relative accuracy, however the formula is written."""
    names = {
        n: getattr(mp, n) for n in ("exp", "log", "log1p", "expm1", "tanh", "sinh", "asinh", "ncdf", "erfc", "sqrt")
    }
    with mp.workdps(700):
        exact = mp.mpf(eval(value, {**names, "mpf": mp.mpf, "pi": mp.pi}))
        assert abs(mp.mpf(float(hermite.activation(name)(x))) / exact - 1) <= relative


# ---- the record -----------------------------------------------------------------------------------------------

EXAMPLES = [
    hermite.activation("relu"),
    hermite.activation("leaky_relu", negative_slope=0.3),
    hermite.activation("abs(x**2 - 2)"),
    hermite.activation("tanh", gain=2, shift=-0.5),
    2 * hermite.activation("relu") - hermite.activation("max(x, sin(3*x))"),
    hermite.activation(np.tanh),
    hermite.activation(math.exp, growth=(1, 1, 0)),
    hermite.activation(np.sign, breakpoints=[0], name="my sign"),
]


@pytest.mark.parametrize("sigma", EXAMPLES, ids=str)
def test_records_are_values(sigma: hermite.Activation) -> None:
    copy = pickle.loads(pickle.dumps(sigma))
    assert copy == sigma
    assert hash(copy) == hash(sigma)
    assert copy is not sigma
    assert copy.name == sigma.name
    assert copy.breakpoints == sigma.breakpoints
    assert np.array_equal(copy(X), sigma(X))
    with pytest.raises(AttributeError):
        sigma.name = "other"  # type: ignore[misc]
    assert {sigma: 1}[copy] == 1


def test_equality_is_of_the_function_as_written() -> None:
    assert hermite.activation("relu") == hermite.activation(hermite.activation("relu"))
    assert hermite.activation("relu") != hermite.activation("abs")
    assert hermite.activation("max(x, 0)").expr == hermite.activation("relu").expr
    assert hermite.activation("leaky_relu", negative_slope=0) != hermite.activation("leaky_relu")


@pytest.mark.parametrize("sigma", EXAMPLES, ids=str)
@pytest.mark.parametrize(
    "x", [1.5, [], [[1, 2], [3, 4]], np.zeros((0, 3)), np.float32(0.5), True, np.array([1, 2], dtype=np.int8)]
)
def test_calls_keep_the_shape(sigma: hermite.Activation, x: Any) -> None:
    value = sigma(x)
    assert isinstance(value, np.ndarray)
    assert value.shape == np.shape(x)
    assert value.dtype == np.dtype(np.float64)


def test_constants_keep_the_shape() -> None:
    assert hermite.activation("3")(np.zeros(5)).tolist() == [3.0] * 5
    assert hermite.activation(lambda x: 3)(np.zeros((2, 2))).shape == (2, 2)


def test_call_leaves_its_argument_alone() -> None:
    x = np.array([1.0, -1.0])
    hermite.activation(lambda t: np.add(t, 1, out=t))(x)
    hermite.activation("relu")(x)
    assert x.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("x", ["a", None, 1j, [1j], np.array([1, 2], dtype=object), 10**400])
def test_calls_refuse_what_is_not_real(x: Any) -> None:
    with pytest.raises(ValueError, match="x must hold real numbers"):
        hermite.activation("relu")(x)


def test_nan_and_infinity_pass_through() -> None:
    assert np.isnan(hermite.activation("relu")(np.nan))
    assert hermite.activation("relu")([np.inf, -np.inf]).tolist() == [np.inf, 0.0]
    assert hermite.activation("tanh")([np.inf, -np.inf]).tolist() == [1.0, -1.0]
    assert hermite.activation("exp")([1000.0, -1000.0]).tolist() == [np.inf, 0.0]


# ---- gain, shift, arithmetic ----------------------------------------------------------------------------------


@given(
    st.sampled_from(list(CATALOGUE)), st.fractions(-3, 3, max_denominator=20), st.fractions(-3, 3, max_denominator=20)
)
def test_gain_and_shift(name: str, gain: Fraction, shift: Fraction) -> None:
    """activation(gain, shift) is sigma(gain x + shift); scaled and shifted compose in the order written."""
    base = hermite.activation(name)
    sigma = hermite.activation(name, gain=gain, shift=shift)
    x = np.array([-1.93, -0.71, 0.113, 0.57, 1.37])
    inner = float(gain) * x + float(shift)
    keep = [all(abs(t - e) > 1e-9 for e in base.breakpoints) for t in inner.tolist()]
    assert sigma(x)[keep] == pytest.approx(base(inner)[keep], rel=1e-12, abs=1e-13)
    assert base.shifted(shift).scaled(gain)(x)[keep] == pytest.approx(base(inner)[keep], rel=1e-12, abs=1e-13)
    if gain:
        other = base.scaled(gain).shifted(shift)
        assert other.expr == base.shifted(gain * shift).scaled(gain).expr or other(x) == pytest.approx(
            base(float(gain) * (x + float(shift))), rel=1e-10, abs=1e-10
        )
        assert sigma.breakpoints == pytest.approx(sorted((e - float(shift)) / float(gain) for e in base.breakpoints))


@pytest.mark.parametrize("value", [0.1, "1/10", Decimal("0.1"), F(1, 10), sympy.Rational(1, 10), np.float64(0.1)])
def test_text_and_floats_mean_their_shortest_decimal(value: Any) -> None:
    assert hermite.activation("relu", gain=value).expr == hermite.activation("relu(x/10)").expr
    assert hermite.activation("leaky_relu", negative_slope=value).parameters == {"negative_slope": F(1, 10)}


def test_exact_numbers_mean_themselves() -> None:
    """An mpf or a sympy Float of 0.1 is the binary number it holds."""
    binary = F(3602879701896397, 36028797018963968)
    for number in (mp.mpf("0.1"), sympy.Float("0.1")):
        with mp.workdps(15):
            assert hermite.activation("relu", shift=number).breakpoints == (-0.1,)
            assert hermite.activation("leaky_relu", negative_slope=number).parameters["negative_slope"] == binary
    assert hermite.activation("leaky_relu", negative_slope=np.float32(0.1)).parameters["negative_slope"] == F(1, 10)


def test_gain_zero_is_a_constant() -> None:
    sigma = hermite.activation("sigmoid", gain=0, shift=1)
    assert sigma(X) == pytest.approx(np.full(len(X), 1 / (1 + math.exp(-1))), rel=1e-15)
    with pytest.raises(ConstantActivationError):
        hermite.isometry_strength(sigma)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", F(1, 10)),
        ("1/3", F(1, 3)),
        ("-2", F(-2)),
        ("+.5", F(1, 2)),
        ("5.", F(5)),
        ("1e-3", F(1, 1000)),
        ("2E1", F(20)),
    ],
)
def test_numbers_as_text(text: str, value: Fraction) -> None:
    assert (
        hermite.activation("relu", gain=text, shift=text).expr
        == hermite.activation("relu", gain=value, shift=value).expr
    )
    assert hermite.activation("leaky_relu", negative_slope=text).parameters == {"negative_slope": value}
    assert hermite.activation(np.abs, breakpoints=[text]).breakpoints == (float(value),)


@pytest.mark.parametrize(
    "text", ["", "a", "1/0", "nan", "inf", "0x10", "1/3/4", "--1", "1e", "1e9999999", "9" * 10**5, "x"]
)
def test_texts_that_are_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="gain must be a decimal or a fraction") as caught:
        hermite.activation("relu", gain=text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "number", [Decimal("1e3000000"), Decimal("1e-3000000"), mp.mpf("1e30000000"), mp.mpf("1e-30000000")]
)
def test_exponents_are_not_written_out(number: Any) -> None:
    """A number far outside float64 is refused before a million digits of it exist."""
    started = time.process_time()
    with pytest.raises(ValueError, match=r"gain|1e300|bits"):
        hermite.activation("relu", gain=number)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("argument", ["gain", "shift"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "one", None, True, 1j, [1], np.array([0.5]), sympy.sqrt(2)])
def test_numbers_are_checked(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=argument):
        hermite.activation("relu", **{argument: value})


def test_arithmetic() -> None:
    relu, tanh = hermite.activation("relu"), hermite.activation("tanh")
    r, t = relu(X), tanh(X)
    pairs: list[tuple[hermite.Activation, Any, str]] = [
        (relu + tanh, r + t, "relu + tanh"), (relu - tanh, r - t, "relu - tanh"), (relu * tanh, r * t, "tanh*relu"),
        (2 * relu, 2 * r, "2*relu"), (relu * 2, 2 * r, "2*relu"), (relu / 2, r / 2, "relu/2"), (-relu, -r, "-relu"),
        (relu + 1, r + 1, "relu + 1"), (1 - relu, 1 - r, "1 - relu"), (relu - 0.1, r - 0.1, "relu - 1/10"),
        (F(1, 3) * relu, r / 3, "1/3*relu"), (np.float64(2) * relu, 2 * r, "2*relu"),
        (2 * (relu + tanh), 2 * (r + t), "2*(relu + tanh)"), (relu - (relu - tanh), t, "relu - (relu - tanh)"),
        (relu + 2 * tanh, r + 2 * t, "relu + 2*tanh"), (-(relu + tanh), -r - t, "-(relu + tanh)"),
    ]  # fmt: skip
    for sigma, values, name in pairs:
        assert sigma(X) == pytest.approx(values, rel=1e-14, abs=1e-15)
        assert sigma.name == name


def test_quotients_of_activations() -> None:
    sigma = hermite.activation("relu") / hermite.activation("1 + x**2")
    assert sigma(X) == pytest.approx(np.maximum(X, 0) / (1 + X**2), rel=1e-14)
    with pytest.raises(ActivationParseError, match="division by the constant 0"):
        hermite.activation("relu") / 0


@pytest.mark.parametrize("other", [np.nan, np.inf, None, 1j, True])
def test_arithmetic_with_what_is_no_number(other: Any) -> None:
    with pytest.raises(ValueError, match="the other operand"):
        hermite.activation("relu") + other


@pytest.mark.parametrize("other", ["relu", [1], np.tanh])
def test_arithmetic_with_other_types(other: Any) -> None:
    with pytest.raises(TypeError):
        hermite.activation("relu") + other
    with pytest.raises(TypeError):
        other * hermite.activation("relu")


def test_names() -> None:
    relu = hermite.activation("relu")
    assert relu.scaled(2).name == "relu(2*x)"
    assert relu.shifted(F(1, 3)).name == "relu(x + 1/3)"
    assert hermite.activation("relu", gain=2, name="double").name == "double"
    assert hermite.activation("x  *  tanh( x )").name == "x * tanh( x )"
    for name in ("", " ", 3, b"x", ["a"]):
        with pytest.raises(ValueError, match="name must be"):
            hermite.activation("relu", name=name)  # type: ignore[arg-type]


def test_arguments_that_do_not_go_together() -> None:
    for spec in ("relu + 1 if x > 0 else 0", hermite.activation("relu"), np.tanh):
        with pytest.raises(ValueError, match="negative_slope"):
            hermite.activation(spec, negative_slope=0.1)
    for other in ("relu", hermite.activation("relu")):
        with pytest.raises(ValueError, match="breakpoints"):
            hermite.activation(other, breakpoints=[0])
    with pytest.raises(ValueError, match="no parameter 'slope'"):
        hermite.activation("leaky_relu", slope=0.1)


# ---- growth ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [s.name for s in hermite.catalogue()]
    + [
        "exp(3*x)",
        "exp(-abs(x))",
        "sinh(2*x)",
        "exp(x**2/8)",
        "exp(-x**2 + 3*x)",
        "x**5*exp(x)",
        "relu(x)**3 + exp(-x)",
    ]
    + ["log(1 + x**2)", "sqrt(1 + x**4)", "exp(tanh(x))", "1/(1 + x**2)", "He(6, x)*sin(x)", "exp(x) if x < 0 else x"],
)
def test_derived_growth_is_a_bound(text: str) -> None:
    """|sigma(x)| <= A exp(B|x| + Q x^2), wherever it is derived; log 1 + x^2 and the like may be undecided."""
    sigma = hermite.activation(text)
    if sigma.growth is None:
        assert "log" in text
        return
    a, b, q = sigma.growth
    x = np.concatenate([np.linspace(-40, 40, 4001), np.linspace(-3, 3, 601)])
    size = np.log(np.maximum(np.abs(sigma(x)), 1e-300))
    size[size < -690] = -np.inf  # subnormal numbers are rounded up
    assert (size <= math.log(a) + b * np.abs(x) + q * x * x + 1e-12 * np.abs(x) + 1e-12).all()
    assert q < 0.25


@pytest.mark.parametrize(
    ("text", "rate"),
    [("relu", 0), ("cube", 0), ("tanh", 0), ("sin", 0), ("gelu", 0), ("exp", 1), ("exp(3*x)", 3), ("exp(-2*x)", 2),
     ("x*exp(x)", 1), ("elu", 0), ("exp(-abs(x))", 0), ("exp(x)*exp(2*x)", 3), ("gaussian", 0), ("cosh(x)", 1)],
)  # fmt: skip
def test_the_rate_is_the_smallest(text: str, rate: float) -> None:
    growth = hermite.activation(text).growth
    assert growth is not None
    assert growth[1] == rate


def test_declared_growth() -> None:
    sigma = hermite.activation(np.exp, growth=(1, 1, 0))
    assert sigma.growth == (1, 1, 0)
    a, b, q = sigma.scaled(2).shifted(1).growth or (0, 0, 0)
    assert (b, q) == (2, 0)
    assert a >= math.exp(2) * (1 - 1e-12)
    assert hermite.activation(np.tanh).growth is None
    with pytest.raises(NotSquareIntegrableError, match="1/4"):
        hermite.activation(np.abs, growth=(1, 0, 0.25))


@pytest.mark.parametrize(("gain", "shift"), [(1, 2), (F(1, 2), -3), (-1, 1), (F(4, 3), F(1, 3))])
def test_declared_growth_follows_gain_and_shift(gain: Fraction, shift: Fraction) -> None:
    """exp(x^2/8 + x) at g x + s: the cross term 2 Q g s enters B."""
    sigma = hermite.activation(lambda x: np.exp(x * x / 8 + x), growth=(1, 1, 0.125), gain=gain, shift=shift)
    a, b, q = sigma.growth or (0, 0, 0)
    x = np.linspace(-20, 20, 401)
    assert q == 0.125 * float(gain) ** 2
    assert (np.log(sigma(x)) <= math.log(a) + b * np.abs(x) + q * x * x + 1e-9).all()


@pytest.mark.parametrize(
    "growth", [(1, 2), (1, np.nan, 0), (0, 0, 0), (-1, 0, 0), (1, -1, 0), (1, 0, np.inf), "abc", 3]
)
def test_growth_is_checked(growth: Any) -> None:
    with pytest.raises(ValueError, match="growth must be"):
        hermite.activation(np.abs, growth=growth)


# ---- Python callables -----------------------------------------------------------------------------------------


class Net:
    """A callable object without a name."""

    def __call__(self, x: Any) -> Any:
        return np.tanh(x)


def scalar_relu(x: float) -> float:
    return max(x, 0.0)


def scalar_step(x: float) -> float:
    return 1.0 if x > 1 / 3 else 0.0


def mutating(x: Any) -> Any:
    return np.add(x, 1, out=x) ** 3


STRENGTHS: list[tuple[Any, str]] = [
    (np.tanh, "tanh"), (math.tanh, "tanh"), (np.exp, "exp"), (math.exp, "exp"), (special.erf, "erf"), (math.erf, "erf"),
    (scalar_relu, "relu"), (np.vectorize(scalar_relu), "relu"), (lambda x: np.maximum(x, 0), "relu"), (Net(), "tanh"),
    (functools.partial(np.maximum, 0.25), "max(x, 0.25)"), (np.sign, "sign"), (np.abs, "abs"), (abs, "abs"),
    (scalar_step, "1 if x > 1/3 else 0"), (lambda x: x > 1 / 3, "1 if x > 1/3 else 0"),
    (lambda x: (x > 1 / 3).astype(int), "1 if x > 1/3 else 0"), (lambda x: np.clip(x, -0.1, 0.1), "hardtanh(10*x)/10"),
    (lambda x: np.cos(50 * x) + x, "cos(50*x) + x"), (mutating, "(x + 1)**3"), (lambda x: [2 * t for t in x], "2*x"),
    (lambda x: np.where(x == 0, np.nan, np.tanh(x)), "tanh"), (lambda x: np.log(np.abs(x)) + x, "log(abs(x)) + x"),
    (lambda x: np.where(x > 0, np.log(np.abs(x)), 0.0), "log(x) if x > 0 else 0"),
    (lambda x: np.sqrt(np.abs(x)) + x, "sqrt(abs(x)) + x"), (lambda x: np.exp(10 * x), "exp(10*x)"),
    (lambda x: np.round(2 * x), " + ".join(f"sign(x - {2 * k + 1}/4)" for k in range(-20, 20))),
    (lambda x: np.abs(np.abs(np.abs(x) - 1) - 0.5) + x, "abs(abs(abs(x) - 1) - 1/2) + x"),
    (hermite.activation("gelu"), "gelu"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "text"), STRENGTHS, ids=[t[:30] for _, t in STRENGTHS])
def test_callables_without_breakpoints(function: Any, text: str) -> None:
    """Kinks and jumps that nobody declared are found."""
    sigma, tree = hermite.activation(function), hermite.activation(text)
    assert hermite.isometry_strength(sigma) == pytest.approx(hermite.isometry_strength(tree), rel=4e-15)
    size = math.sqrt(hermite.second_moment(tree))
    scale = 1.0 if "np.round" not in text else 2.0
    if "sign(x - " not in text:  # the text of round is without its scale
        found, wanted = hermite.coefficients(sigma, 60), hermite.coefficients(tree, 60)
        assert np.abs(found - scale * wanted).max() <= 3e-15 * size * (1 + (tree.growth or (0, 0, 0))[1] ** 2)


DECLARED: list[tuple[Any, Any, str]] = [
    (np.sign, [0], "sign"),
    (lambda x: np.clip(x, -1, 1), [-1, 1], "hardtanh"),
    (lambda x: np.clip(x, -1, 1), (1, -1, 1), "hardtanh"),
    (lambda x: np.clip(x, -1, 1), [], "hardtanh"),
    (lambda x: np.clip(x, -0.1, 0.1), [-0.1, 0.1], "hardtanh(x, min_val=-0.1, max_val=0.1)"),
    (scalar_step, [F(1, 3)], "1 if x > 1/3 else 0"),
    (np.abs, 0, "abs"),
    (np.abs, [0.5], "abs"),
    (np.tanh, [0.3, 0.7], "tanh"),
]


@pytest.mark.parametrize(("function", "marks", "text"), DECLARED, ids=[f"{d[2]} {d[1]}" for d in DECLARED])
def test_callables_with_breakpoints(function: Any, marks: Any, text: str) -> None:
    """Declared places are taken; one too many or one forgotten does no harm."""
    sigma, tree = hermite.activation(function, breakpoints=marks), hermite.activation(text)
    assert np.abs(hermite.coefficients(sigma, 300) - hermite.coefficients(tree, 300)).max() <= 1e-15
    assert sigma.breakpoints == tuple(sorted({float(m) for m in np.atleast_1d(np.asarray(marks, dtype=object))}))


def test_declared_places_are_used() -> None:
    """A box of width 2e-4 that no sampling would meet is seen where its ends are declared."""
    sigma = hermite.activation(lambda x: 1.0 * (np.abs(x - 0.7) < 1e-4), breakpoints=[0.6999, 0.7001])
    tree = hermite.activation("1 if abs(x - 0.7) < 1e-4 else 0")
    assert hermite.second_moment(tree) == pytest.approx(2e-4 * math.exp(-0.245) / math.sqrt(2 * math.pi), rel=1e-8)
    assert hermite.second_moment(sigma) == pytest.approx(hermite.second_moment(tree), rel=1e-12)


def test_gain_and_shift_of_a_callable() -> None:
    sigma = hermite.activation(lambda x: np.clip(x, -1, 1), breakpoints=[-1, 1], gain=2, shift=F(1, 2))
    assert sigma.breakpoints == (-0.75, 0.25)
    tree = hermite.activation("hardtanh", gain=2, shift=F(1, 2))
    assert np.abs(hermite.coefficients(sigma, 50) - hermite.coefficients(tree, 50)).max() <= 1e-15
    mixed = 2 * sigma + hermite.activation("tanh")
    assert mixed.is_opaque
    assert hermite.variance(mixed) == pytest.approx(hermite.variance(2 * tree + hermite.activation("tanh")), rel=1e-14)


def test_a_callable_is_called_with_the_kind_it_takes() -> None:
    kinds: set[type] = set()

    def array_only(x: Any) -> Any:
        kinds.add(type(x))
        return np.maximum(x, 0)[...]

    def float_only(x: Any) -> float:
        if isinstance(x, np.ndarray):
            raise TypeError("floats only")
        kinds.add(type(x))
        return math.sin(x)

    hermite.second_moment(hermite.activation(array_only))
    assert kinds == {np.ndarray}
    kinds.clear()
    assert hermite.second_moment(hermite.activation(float_only)) == pytest.approx((1 - math.exp(-2)) / 2, rel=1e-14)
    assert kinds == {float}


def raising(x: Any) -> Any:
    raise KeyError("no")


BAD: list[tuple[str, Any, type[Exception], str]] = [
    ("complex array", lambda x: x + 0j, ValueError, "complex"),
    ("complex number", lambda x: complex(float(x), 1), ValueError, "must be"),
    ("shorter", lambda x: x[:-1], ValueError, "shape"),
    ("more axes", lambda x: x[:, None], ValueError, "shape"),
    ("a sum", np.sum, ValueError, "elementwise"),
    ("a maximum", np.max, ValueError, "elementwise"),
    ("text", lambda x: "a", ValueError, "real"),
    ("texts", lambda x: np.full(np.shape(x), "a"), ValueError, "real"),
    ("nothing", lambda x: None, ValueError, "real"),
    ("raises", raising, ValueError, "raising"),
    ("two arguments", lambda x, y: x, ValueError, "must accept"),
    ("nan", lambda x: x * np.nan, NotSquareIntegrableError, "real number"),
    ("nan on half the line", np.sqrt, NotSquareIntegrableError, "real number"),
    ("nan on an interval", lambda x: np.where(abs(x - 1) < 0.1, np.nan, x), NotSquareIntegrableError, "real number"),
    ("infinite on half the line", lambda x: np.where(x > 1, np.inf, x), NotSquareIntegrableError, "<lambda>"),
    ("a pole", lambda x: 1 / x, NotSquareIntegrableError, "pole"),
    ("a scalar pole", lambda x: 1 / float(x), NotSquareIntegrableError, "pole"),
    ("too fast", lambda x: np.exp(x * x / 4), NotSquareIntegrableError, "square-integrable"),
    ("far too fast", lambda x: np.exp(np.exp(x)), ValueError, "<lambda>"),
    ("noise", lambda x: np.random.default_rng().normal(size=np.shape(x)), PrecisionError, "20000 panels"),
    ("float32", lambda x: np.tanh(x.astype(np.float32)), PrecisionError, "float32"),
    ("a constant", lambda x: 3.0, ConstantActivationError, "constant"),
    ("a constant array", lambda x: np.ones_like(x), ConstantActivationError, "constant"),
    ("a constant with rounding", lambda x: 0.1 + 0 * x, ConstantActivationError, "constant"),
]


@pytest.mark.parametrize(("function", "error", "message"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_callables_that_are_no_activation(function: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hermite.isometry_strength(hermite.activation(function))


@pytest.mark.parametrize("marks", [[np.nan], ["a"], "zero", [None], [[0, 1], [2, 3]], [np.inf], [1j]])
def test_breakpoints_are_checked(marks: Any) -> None:
    with pytest.raises(ValueError, match="breakpoints"):
        hermite.activation(np.abs, breakpoints=marks)


def test_a_callable_that_fails_far_out_says_so() -> None:
    """Refused by a named error, or not at all; its own exception is quoted."""

    def nearby(x: Any) -> Any:
        if np.any(np.abs(x) > 20):
            raise RuntimeError("table ends at 20")
        return np.tanh(x)

    with pytest.raises(ValueError, match="table ends at 20"):
        hermite.second_moment(hermite.activation(nearby))


@pytest.mark.parametrize("seed", range(25))
def test_random_kinks_are_found(seed: int) -> None:
    """Kinks and jumps anywhere, in a callable that says nothing: the moments of the tree with the same pieces."""
    rng = random.Random(seed)
    marks = sorted(F(rng.randrange(-2500, 2500), 1000) for _ in range(rng.randrange(1, 4)))
    sizes = [rng.choice([1.0, -0.5, 2.0]) for _ in marks]
    kinds = [rng.choice(["abs", "sign"]) for _ in marks]

    def function(x: Any) -> Any:
        parts = [s * getattr(np, k)(x - float(m)) for s, k, m in zip(sizes, kinds, marks, strict=True)]
        return np.tanh(x) + sum(parts)

    tree = " + ".join(f"{s}*{k}(x - ({m}))" for s, k, m in zip(sizes, kinds, marks, strict=True))
    sigma, wanted = hermite.activation(function), hermite.activation(f"tanh(x) + {tree}")
    # the parts may be larger than their sum
    scale = math.sqrt(hermite.second_moment(wanted)) + sum(abs(s) for s in sizes)
    assert np.abs(hermite.coefficients(sigma, 40) - hermite.coefficients(wanted, 40)).max() <= 2e-15 * scale
    assert hermite.variance(sigma) == pytest.approx(hermite.variance(wanted), rel=4e-15, abs=2e-15 * scale**2)


@pytest.mark.parametrize(
    ("text", "x", "exact"),
    [
        ("1 - sigmoid(x)", 50.0, lambda x: 1 / (1 + mp.exp(x))),
        ("log(1 - sigmoid(x))", 800.0, lambda x: -mp.log1p(mp.exp(x))),
        ("1 + tanh(x)", -30.0, lambda x: 1 + mp.tanh(x)),
        ("log(1 - tanh(x))", 400.0, lambda x: mp.log(1 - mp.tanh(x))),
        ("1 + erf(x)", -9.0, lambda x: mp.erfc(-x)),
        ("log(Phi(x))", -45.0, lambda x: mp.log(mp.ncdf(x))),
        ("Phi(x)", -30.0, mp.ncdf),
        ("log(1 + exp(x))", -30.0, lambda x: mp.log1p(mp.exp(x))),
        ("tanhshrink(x)", 1e-5, lambda x: x - mp.tanh(x)),
        ("sinh(x)", 1e-17, mp.sinh),
    ],
)
def test_sums_that_cancel_are_recognised(text: str, x: float, exact: Any) -> None:
    with mp.workdps(800):
        wanted = float(exact(mp.mpf(x)))
    assert hermite.activation(text)(x) == pytest.approx(wanted, rel=1e-15, abs=0)
