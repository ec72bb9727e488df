"""Modules and functions of torch as activations: every class and function against torch's own values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite import activation

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn

pytestmark = pytest.mark.torch

# by class: instances, each with the name and the parameters that it has to be
ACCEPTED: dict[str, list[tuple[Any, str, dict[str, Any]]]] = {
    "Threshold": [(nn.Threshold(-0.5, 2), "threshold", {"threshold": "-1/2", "value": 2})],
    "ReLU": [(nn.ReLU(), "relu", {}), (nn.ReLU(inplace=True), "relu", {})],
    "Hardtanh": [
        (nn.Hardtanh(), "hardtanh", {}),
        (nn.Hardtanh(-2, 3), "hardtanh", {"min_val": -2, "max_val": 3}),
    ],
    "ReLU6": [(nn.ReLU6(), "relu6", {})],
    "Sigmoid": [(nn.Sigmoid(), "sigmoid", {})],
    "Hardsigmoid": [(nn.Hardsigmoid(), "hardsigmoid", {})],
    "Tanh": [(nn.Tanh(), "tanh", {})],
    "SiLU": [(nn.SiLU(), "silu", {})],
    "Mish": [(nn.Mish(), "mish", {})],
    "Hardswish": [(nn.Hardswish(), "hardswish", {})],
    "ELU": [(nn.ELU(), "elu", {}), (nn.ELU(0.3), "elu", {"alpha": "3/10"})],
    "CELU": [
        (nn.CELU(), "celu", {}),
        (nn.CELU(0.3), "celu", {"alpha": "3/10"}),
        (nn.CELU(-2), "celu", {"alpha": -2}),
    ],
    "SELU": [(nn.SELU(), "selu", {})],
    "GELU": [(nn.GELU(), "gelu", {}), (nn.GELU(approximate="tanh"), "gelu_tanh", {})],
    "Hardshrink": [(nn.Hardshrink(), "hardshrink", {}), (nn.Hardshrink(1), "hardshrink", {"lambd": 1})],
    "LeakyReLU": [(nn.LeakyReLU(), "leaky_relu", {}), (nn.LeakyReLU(0.2), "leaky_relu", {"negative_slope": "1/5"})],
    "LogSigmoid": [(nn.LogSigmoid(), "logsigmoid", {})],
    "Softplus": [
        (nn.Softplus(), "softplus", {}),
        (nn.Softplus(2.5), "softplus", {"beta": "5/2"}),
        (nn.Softplus(2, 200), "softplus", {"beta": 2}),
        (nn.Softplus(2, 4), "x if x > 2 else log1p(exp(2*x))/2", {}),
        (nn.Softplus(threshold=-1), "x if x > -1 else log1p(exp(x))", {}),
    ],
    "Softshrink": [(nn.Softshrink(), "softshrink", {}), (nn.Softshrink(0.7), "softshrink", {"lambd": "7/10"})],
    "PReLU": [
        (nn.PReLU(), "prelu", {}),
        (nn.PReLU(init=0.2), "prelu", {"weight": Fraction(float(np.float32(0.2)))}),
        (nn.PReLU(init=-3).double(), "prelu", {"weight": -3}),
    ],
    "Softsign": [(nn.Softsign(), "softsign", {})],
    "Tanhshrink": [(nn.Tanhshrink(), "tanhshrink", {})],
}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "RReLU": (nn.RReLU, r"RReLU\(.*\) cannot .* random while training; .* leaky_relu with negative_slope"),
    "GLU": (nn.GLU, r"GLU\(dim=-1\) cannot .* one half of its input"),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(2, 1), r"MultiheadAttention\(.* mixes the rows"),
    "Softmin": (lambda: nn.Softmin(-1), r"Softmin\(dim=-1\) cannot .* normalises over a dimension"),
    "Softmax": (lambda: nn.Softmax(-1), r"Softmax\(dim=-1\) cannot .* normalises over a dimension"),
    "Softmax2d": (nn.Softmax2d, r"Softmax2d\(\) cannot .* normalises over a dimension"),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), r"LogSoftmax\(dim=-1\) cannot .* normalises over a dimension"),
}

# functions, with the activation that each has to be
FUNCTIONS: list[tuple[Any, str, dict[str, Any]]] = [
    (torch.relu, "relu", {}),
    (torch.relu_, "relu", {}),
    (torch.Tensor.relu, "relu", {}),
    (torch.Tensor.tanh_, "tanh", {}),
    (F.relu, "relu", {}),
    (partial(F.relu, inplace=True), "relu", {}),
    (F.relu6, "relu6", {}),
    (F.leaky_relu, "leaky_relu", {}),
    (partial(F.leaky_relu, negative_slope=0.2), "leaky_relu", {"negative_slope": "1/5"}),
    (partial(partial(F.leaky_relu, negative_slope=3), negative_slope=2), "leaky_relu", {"negative_slope": 2}),
    (partial(F.leaky_relu_, negative_slope=2), "leaky_relu", {"negative_slope": 2}),
    (partial(F.prelu, weight=torch.tensor([0.25])), "prelu", {"weight": "1/4"}),
    (partial(torch.prelu, weight=torch.tensor(0.1)), "prelu", {"weight": Fraction(float(np.float32(0.1)))}),
    (F.elu, "elu", {}),
    (partial(F.elu, alpha=0.5), "elu", {"alpha": "1/2"}),
    (partial(F.celu, alpha=0.5), "celu", {"alpha": "1/2"}),
    (F.selu, "selu", {}),
    (torch.selu, "selu", {}),
    (partial(F.hardtanh, min_val=-2, max_val=0), "hardtanh", {"min_val": -2, "max_val": 0}),
    (F.hardsigmoid, "hardsigmoid", {}),
    (F.hardswish, "hardswish", {}),
    (partial(F.hardshrink, lambd=1), "hardshrink", {"lambd": 1}),
    (partial(F.softshrink, lambd=1), "softshrink", {"lambd": 1}),
    (partial(F.threshold, threshold=1, value=-1), "threshold", {"threshold": 1, "value": -1}),
    (F.tanhshrink, "tanhshrink", {}),
    (F.softsign, "softsign", {}),
    (torch.sigmoid, "sigmoid", {}),
    (F.sigmoid, "sigmoid", {}),
    (torch.special.expit, "sigmoid", {}),
    (torch.tanh, "tanh", {}),
    (F.gelu, "gelu", {}),
    (partial(F.gelu, approximate="tanh"), "gelu_tanh", {}),
    (F.silu, "silu", {}),
    (F.mish, "mish", {}),
    (F.softplus, "softplus", {}),
    (partial(F.softplus, beta=2), "softplus", {"beta": 2}),
    (partial(F.softplus, threshold=1), "x if x > 1 else log1p(exp(x))", {}),
    (F.logsigmoid, "logsigmoid", {}),
    (torch.special.erf, "erf", {}),
    (torch.erf, "erf", {}),
    (torch.erfc, "1 - erf(x)", {}),
    (torch.special.ndtr, "Phi(x)", {}),
    (torch.special.log_ndtr, "log(Phi(x))", {}),
    (torch.sin, "sin", {}),
    (torch.cos, "cos", {}),
    (torch.exp, "exp", {}),
    (torch.expm1, "expm1(x)", {}),
    (torch.special.expm1, "expm1(x)", {}),
    (torch.sinh, "sinh(x)", {}),
    (torch.cosh, "cosh(x)", {}),
    (torch.asinh, "asinh(x)", {}),
    (torch.arcsinh, "asinh(x)", {}),
    (torch.atan, "arctan", {}),
    (torch.arctan, "arctan", {}),
    (torch.square, "square", {}),
    (torch.abs, "abs", {}),
    (torch.absolute, "abs", {}),
    (torch.sign, "sign", {}),
    (torch.sgn, "sign", {}),
    (torch.neg, "-x", {}),
    (torch.negative, "-x", {}),
    (torch.positive, "x", {}),
]


def label(value: Any) -> str:
    if isinstance(value, partial):
        return f"{label(value.func)}{value.keywords}"
    return str(getattr(value, "__name__", value))


MODULES = [each for instances in ACCEPTED.values() for each in instances]
SPECS = [pytest.param(*each, id=label(each[0])) for each in [*MODULES, *FUNCTIONS]]


def values(function: Any, x: np.ndarray) -> np.ndarray:
    """torch's own, in float64; a parameter becomes float64 without a change of its value."""
    if isinstance(function, nn.Module):
        function = function.double()
    given = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in getattr(function, "keywords", {}).items()}
    function = partial(function.func, **given) if given else function
    return np.asarray(function(torch.from_numpy(x.copy())).detach().numpy())


def points(sigma: hermite.Activation | None = None) -> np.ndarray:
    """64 points, with the ends of the pieces, and the two sides of them."""
    ends = np.array(sigma.breakpoints if sigma is not None else ())
    near = np.concatenate([ends, ends + 1e-9, ends - 1e-9])
    return np.concatenate([near, np.linspace(-7, 7, 64 - len(near))])


def test_every_activation_module_of_torch_is_either_accepted_or_refused() -> None:
    assert set(nn.modules.activation.__all__) == set(ACCEPTED) | set(REFUSED)
    for name, instances in ACCEPTED.items():
        assert {type(module).__name__ for module, _, _ in instances} == {name}


@pytest.mark.parametrize(("spec", "text", "parameters"), SPECS)
def test_values_are_those_of_torch(spec: Any, text: str, parameters: dict[str, Any]) -> None:
    sigma = activation(spec)
    x = points(sigma)
    assert x.shape == (64,)
    expected = values(spec, x)
    assert np.all(np.abs(sigma(x) - expected) <= 1e-15 * np.maximum(1, np.abs(expected)))


@pytest.mark.parametrize(("spec", "text", "parameters"), SPECS)
def test_it_is_the_activation_of_that_name(spec: Any, text: str, parameters: dict[str, Any]) -> None:
    found, named = activation(spec), activation(text, **parameters)
    if text.isidentifier() and text != "x":
        assert found == named  # the same record, with its parameters and its source
    assert found.expr == named.expr
    assert found.pieces == named.pieces
    assert activation(spec, gain=0.5, shift="1/3").expr == activation(named, gain=0.5, shift="1/3").expr


@pytest.mark.parametrize("name", ACCEPTED)
def test_strengths_are_those_of_the_name(name: str) -> None:
    module, text, parameters = ACCEPTED[name][-1]
    assert hermite.isometry_strength(module) == hermite.isometry_strength(activation(text, **parameters))


@pytest.mark.parametrize("name", REFUSED)
def test_modules_that_are_no_function_of_one_number_are_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        activation(make())


class Own(nn.Module):
    def forward(self, x: Any) -> Any:
        return x


class OwnReLU(nn.ReLU):
    """A subclass may compute something else."""


HOOKED = [nn.ReLU(), nn.Sequential(nn.ReLU()), nn.ReLU()]
HOOKED[0].register_forward_hook(lambda *_: None)
HOOKED[1].register_forward_pre_hook(lambda *_: None)
HOOKED[2].forward = lambda x: -x

WRONG: list[tuple[Any, str]] = [
    (nn.PReLU(3), r"PReLU\(num_parameters=3\) cannot .* weight has 3 entries, one for each channel"),
    (nn.PReLU(init=float("nan")), r"weight must be finite, got nan"),
    (partial(F.prelu, weight=torch.ones(2)), r"prelu cannot .* weight has 2 entries"),
    (nn.Softplus(-1), r"softplus needs beta > 0, got beta=-1"),
    (nn.Softplus(0, 3), r"softplus needs beta > 0, got beta=0"),
    (nn.Hardshrink(-1), r"hardshrink needs lambd >= 0"),
    (nn.Dropout(), r"Dropout\(.*\) cannot .* random while training, and the identity in evaluation; leave it out"),
    (nn.Dropout2d(), r"random while training"),
    (nn.AlphaDropout(), r"random while training"),
    (nn.FeatureAlphaDropout(), r"random while training"),
    (nn.Linear(2, 3), r"Linear\(in_features=2.*nn.modules.linear.Linear is no activation .* write it as a text"),
    (nn.LayerNorm(3), r"normalization.LayerNorm is no activation .* write it as a text"),
    (nn.Flatten(), r"flatten.Flatten is no activation"),
    (nn.Sequential(nn.ReLU(), nn.Dropout()), r"Dropout\(.*\) cannot .* leave it out"),
    (nn.ModuleList([nn.ReLU()]), r"container.ModuleList is no activation"),
    (Own(), r"Own\(\) cannot .*Own is a module of your own, .* lambda x: f\(torch.from_numpy\(x\)\)"),
    (OwnReLU(), r"OwnReLU is a module of your own"),
    (nn.Sequential(nn.Tanh(), Own()), r"Own is a module of your own"),
    (HOOKED[0], r"its own forward hooks may change its values"),
    (HOOKED[1], r"its own forward pre hooks may change its values"),
    (HOOKED[2], r"its own forward may change its values"),
    (nn.ReLU, r"nn.modules.activation.ReLU cannot .* is a class; pass an instance, such as ReLU\(\)"),
    (nn.ReLU().forward, r"pass a module itself, not a method of it"),
    (partial(nn.ReLU), r"is no function of torch"),
    (partial(nn.LeakyReLU(), 2), r"is no function of torch"),
    (torch.special.i0, r"torch's i0 cannot .* write it as a text, such as"),
    (torch.add, r"torch's add cannot .* is no activation that is known here"),
    (torch.ops.aten.relu, r"is no activation that is known here"),
    (torch.ones(3), r"torch.Tensor is no activation"),
    (torch.softmax, r"softmax cannot .* normalises over a dimension"),
    (partial(F.softmax, dim=-1), r"normalises over a dimension"),
    (partial(F.log_softmax, dim=-1), r"normalises over a dimension"),
    (F.gumbel_softmax, r"normalises over a dimension"),
    (F.multi_head_attention_forward, r"mixes the rows"),
    (F.glu, r"one half of its input"),
    (F.rrelu, r"random while training; .* leaky_relu"),
    (F.dropout, r"random while training, and"),
    (torch.dropout, r"random while training, and"),
    (F.alpha_dropout, r"random while training, and"),
    (F.threshold, r"threshold cannot .* needs threshold and value; pass functools.partial\(threshold, threshold=...\)"),
    (partial(F.threshold, threshold=1), r"needs value"),
    (F.prelu, r"prelu cannot .* needs weight"),
    (partial(F.leaky_relu, 0.2), r"its first argument is x; give the others by name"),
    (partial(F.leaky_relu, input=0.2), r"its first argument is x; give the others by name"),
    (partial(F.elu, slope=0.2), r"elu has no parameter 'slope'; its parameters: alpha"),
    (partial(F.gelu, approximate="erf"), r"approximate must be 'none' or 'tanh'"),
]


@pytest.mark.parametrize(
    ("spec", "message"), [pytest.param(*each, id=f"{i}-{each[1]}") for i, each in enumerate(WRONG)]
)
def test_everything_else_of_torch_is_refused_with_what_to_do(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        activation(spec)


def test_what_the_refusal_says_to_do_works() -> None:
    """E I_0(X) is the mean of E exp(X cos t) = exp(cos(t)^2/2) over t: exp(1/4) I_0(1/4)."""
    f = torch.special.i0
    sigma = activation(lambda x: f(torch.from_numpy(x)).detach().numpy(), growth=(1, 1, 0))
    assert hermite.expectation(sigma) == pytest.approx(math.exp(0.25) * np.i0(0.25), rel=1e-14)


def test_pieces_are_derived_and_parameters_are_the_modules() -> None:
    with pytest.raises(ValueError, match=r"the pieces of 'relu' are derived"):
        activation(nn.ReLU(), breakpoints=[0])
    with pytest.raises(ValueError, match=r"parameters \['negative_slope'\] go with a registered name"):
        activation(F.leaky_relu, negative_slope=0.2)


def test_a_module_counts_with_the_parameters_that_it_has_now() -> None:
    module = nn.PReLU()
    before = activation(module)
    with torch.no_grad():
        module.weight.mul_(3)
    assert before.parameters == {"weight": Fraction(1, 4)}
    assert activation(module).parameters == {"weight": Fraction(3, 4)}
    leaky = nn.LeakyReLU(0.5)
    leaky.negative_slope = 0.25
    assert activation(leaky).parameters == {"negative_slope": Fraction(1, 4)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_weight_of_a_prelu_is_exact(dtype: torch.dtype) -> None:
    module = nn.PReLU(init=0.1).to(dtype)
    weight = activation(module).parameters["weight"]
    assert isinstance(weight, Fraction)
    assert weight == Fraction(module.weight.item())
    assert weight != Fraction(1, 10)


def test_a_sequential_is_the_composition_of_its_parts() -> None:
    both = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Identity(), nn.Tanh()), nn.LeakyReLU(0.2))
    assert activation(both).expr == activation("leaky_relu(tanh(relu(x)), negative_slope=0.2)").expr
    assert activation(nn.Sequential(nn.Tanh(), nn.ReLU())).expr == activation("relu(tanh(x))").expr
    assert activation(nn.Sequential(nn.Tanh())) == activation("tanh")
    assert activation(nn.Sequential()) == activation(nn.Identity()) == activation("identity")
    x = points()
    assert np.max(np.abs(activation(both)(x) - values(both, x))) <= 1e-15


def test_the_smooth_softplus_and_that_of_torch_differ_by_what_is_said() -> None:
    for beta in (0.5, 1.0, 4.0):
        module = nn.Softplus(beta)
        x = np.linspace(15, 25, 2001) / beta
        difference = np.abs(activation(module)(x) - values(module, x))
        assert 1.5e-9 / beta < np.max(difference) < 2.1e-9 / beta
    assert activation(nn.Softplus(3, 19.99)).breakpoints == (pytest.approx(19.99 / 3),)
    assert activation(nn.Softplus(3, 20)).breakpoints == ()


numbers = st.fractions(-3, 3, max_denominator=64)
steps = st.fractions("1/64", 3, max_denominator=64)


@st.composite
def modules(draw: st.DrawFn) -> nn.Module:
    """Modules with parameters, which are binary fractions, of all classes that have any."""
    a, b, c = float(draw(numbers)), float(draw(numbers)), float(draw(steps))
    each = [
        nn.Threshold(a, b), nn.Hardtanh(a, a + c), nn.ELU(a), nn.CELU(c), nn.LeakyReLU(a), nn.Hardshrink(c),
        nn.Softshrink(c), nn.Softplus(c, a), nn.PReLU(init=a).double(),
    ]  # fmt: skip
    chosen = draw(st.lists(st.sampled_from(each), min_size=1, max_size=3))
    return nn.Sequential(*chosen) if len(chosen) > 1 else chosen[0]


@given(modules(), st.lists(st.floats(-4, 4), min_size=1, max_size=8))
def test_values_of_any_parameters_are_those_of_torch(module: nn.Module, places: list[float]) -> None:
    sigma = activation(module)
    x = np.array(places)
    # a value within rounding of a jump may fall on either side of it
    if isinstance(module, nn.Sequential):
        near = [sigma(x + each) for each in (-1e-12, 1e-12)]
        x = x[np.abs(near[0] - near[1]) < 1e-9]
    expected = values(module, x)
    assert np.all(np.abs(sigma(x) - expected) <= 2e-13 * np.maximum(1, np.abs(expected)))
