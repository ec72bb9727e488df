"""Expression trees over torch's tensors, against float64's interpreter, mpmath, and what rounding can do to a tree."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite import _tree as t
from hermite import activation
from hermite._interpreter import evaluate as doubles
from hermite._tree import Node
from hermite.strategies import activations

torch = pytest.importorskip("torch")
evaluate: Callable[[Node, Any], Any] = pytest.importorskip("meanfield._torch._interpreter").evaluate

pytestmark = pytest.mark.torch

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}
DTYPES = [torch.float64, torch.float32]


def at(text: str, x: Any, dtype: Any = torch.float64) -> np.ndarray:
    return np.asarray(evaluate(activation(text).expr, torch.tensor(x, dtype=dtype)).double().numpy())


# ---- any tree ---------------------------------------------------------------------------------------------

NAIVE: dict[str, Callable[..., Any]] = {
    "add": np.add, "mul": np.multiply, "div": np.divide, "abs": np.abs, "sign": np.sign, "max": np.maximum,
    "min": np.minimum, "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "arctan": np.arctan, "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
}  # fmt: skip


class Rounded:
    """A tree in float64, operation by operation as it is written, each result moved at random by so many units."""

    def __init__(self, x: np.ndarray, unit: float, rng: np.random.Generator) -> None:
        self.x, self.unit, self.rng = x, unit, rng
        self.largest, self.smallest = np.zeros(x.shape), np.full(x.shape, np.inf)

    def value(self, node: Node) -> np.ndarray:
        values = [self.value(each) for each in node.args]
        moved = self.bare(node, values) * (1 + self.unit * self.rng.uniform(-1, 1, self.x.shape))
        self.largest = np.fmax(self.largest, np.abs(moved))
        self.smallest = np.fmin(self.smallest, np.where(moved == 0, np.inf, np.abs(moved)))
        return moved

    def bare(self, node: Node, values: list[np.ndarray]) -> np.ndarray:
        if node.op == "x":
            return self.x / (1 + self.unit)
        if node.op in ("num", "pi"):
            return np.full(self.x.shape, math.pi if node.op == "pi" else float(node.number))
        if node.op == "pow":
            return np.power(values[0], float(node.number))
        if node.op == "He":
            return self.polynomial(values[0], int(node.number))
        if node.op == "if":
            u, v, yes, no = values
            chosen = {"<": u < v, "<=": u <= v, ">": u > v, ">=": u >= v}[str(node.value)]
            return np.where(chosen, yes, no)
        return np.asarray(NAIVE[node.op](*values))

    def polynomial(self, u: np.ndarray, degree: int) -> np.ndarray:
        before, now = np.ones_like(u), u
        for k in range(1, degree):
            noise = 1 + self.unit * self.rng.uniform(-1, 1, self.x.shape)
            before, now = now, (u * now - math.sqrt(k) * before) / math.sqrt(k + 1) * noise
        return now


def agrees(node: Node, x: np.ndarray, dtype: Any) -> np.ndarray:
    """That torch's values are off by no more than rounding explains; where this was asked, in the dtype's range."""
    info = torch.finfo(dtype)
    tensor = torch.tensor(x, dtype=dtype)
    x = tensor.double().numpy()
    found = evaluate(node, tensor)
    assert found.dtype == dtype
    assert found.shape == tensor.shape
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(doubles(node, x), x.shape)
        samples = [Rounded(x, 2 * info.eps, np.random.default_rng(seed)) for seed in range(16)]
        values = np.array([sample.value(node) for sample in samples])
        largest = np.max([sample.largest for sample in samples], axis=0)
        smallest = np.min([sample.smallest for sample in samples], axis=0)
        spread = np.max(np.abs(values - expected), axis=0)
        asked = (largest < info.max**0.9) & (smallest > info.tiny**0.9)
        asked &= np.isfinite(values).all(axis=0) & np.isfinite(expected)
        asked &= spread <= np.abs(expected) / 8  # where rounding leaves no digit there is nothing to compare
        error = np.abs(found.double().numpy() - expected)
        allowed = 4 * spread + 8 * info.eps * np.abs(expected)
    unreal = np.isnan(values).all(axis=0) & np.isnan(expected)
    assert np.isnan(found.double().numpy()[unreal]).all(), (str(node), x[unreal])
    assert np.all(error[asked] <= allowed[asked]), (str(node), x[asked], error[asked], allowed[asked])
    return asked


EXPONENTS = [Fraction(p) for p in ("2", "3", "4", "5", "-1", "-2", "1/2", "1/3", "-1/2")]
LEAVES = st.one_of(st.just(t.X), st.just(t.X), st.fractions(-3, 3, max_denominator=10).map(t.num), st.just(t.PI))
TWO = {"add": t.add, "sub": t.sub, "mul": t.mul, "div": t.div, "max": t.maximum, "min": t.minimum}
OPERATIONS = [*t.FUNCTIONS, *TWO, *TWO, "abs", "sign", "pow", "He", "if", "if"]


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> Node:
    """Any tree without a callable; what is no real number on part of the line included."""
    if depth == 0 or draw(st.integers(0, 5)) == 5:
        return draw(LEAVES)
    inner, op = trees(depth - 1), draw(st.sampled_from(OPERATIONS))
    try:
        if op in TWO:
            return TWO[op](draw(inner), draw(inner))
        if op == "if":
            return t.choose(draw(inner), draw(st.sampled_from(t.COMPARISONS)), draw(inner), draw(inner), draw(inner))
        if op == "pow":
            return t.power(draw(inner), draw(st.sampled_from(EXPONENTS)))
        if op == "He":
            return t.hermite_polynomial(draw(st.integers(2, 40)), draw(inner))
        return {"abs": t.absolute, "sign": t.sign}.get(op, partial(t.call, op))(draw(inner))
    except ValueError:  # no real number anywhere, such as the square root of a negative one
        return t.X


GRID = np.array([-5.3, -3.1, -2.2, -1.7, -1.1, -0.6, -0.23, -1e-3, 1e-5, 0.17, 0.43, 0.9, 1.3, 1.9, 2.6, 4.1, 5.7])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(node=trees())
def test_any_tree(dtype: Any, node: Node) -> None:
    agrees(node, GRID, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(sigma=activations())
def test_any_activation_that_is_drawn(dtype: Any, sigma: hermite.Activation) -> None:
    x = GRID[np.abs(GRID[:, None] - np.array([0.123, *sigma.breakpoints])).min(axis=1) > 1e-4]
    asked, values, info = agrees(sigma.expr, x, dtype), np.abs(sigma(x)), torch.finfo(dtype)
    held = (values == 0) | ((values > info.tiny**0.9) & (values < info.max**0.9))  # by the dtype: tails are not
    assert np.sum(asked[held]) > 0.7 * np.sum(held)
    assert np.sum(asked) >= 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=str)
def test_every_registered_activation(sigma: hermite.Activation, dtype: Any) -> None:
    x = np.linspace(-6, 6, 201) + 1 / 512
    assert np.mean(agrees(sigma.expr, x, dtype)) > 0.8
    # also where nothing would be left of it as it is written, such as gelu's left tail
    found, expected = evaluate(sigma.expr, torch.tensor(x, dtype=dtype)).double().numpy(), sigma(x)
    assert np.all(np.abs(found - expected) <= 30 * torch.finfo(dtype).eps * np.maximum(1, np.abs(expected)))
    # on both sides of the ends of the pieces, and on those that every dtype has
    ends = np.array([b for b in sigma.breakpoints if b * 64 == round(b * 64)])
    near = np.concatenate([ends, ends - 2.0**-10, ends + 2.0**-10])
    found = evaluate(sigma.expr, torch.tensor(near, dtype=dtype)).double().numpy()
    assert found == pytest.approx(sigma(near), rel=0, abs=2e-6 if dtype == torch.float32 else 4e-15)


# ---- Hermite polynomials ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degree", "dtype", "key", "accuracy"),
    [(304, torch.float64, "h_304(1.5)", 4e-15), (60, torch.float32, "h_60(1.5)", 1e-6)],
    ids=["float64", "float32"],
)
def test_her_07(degree: int, dtype: Any, key: str, accuracy: float) -> None:
    """torch's own are inf or nan there."""
    expected = next(value for name, value in CASES["her-07"]["expect"].items() if name.startswith(key))
    found = at(f"He({degree}, x)", [1.5], dtype)[0]
    assert found == pytest.approx(float(expected.split()[0]), rel=accuracy, abs=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("degree", [2, 3, 17, 200, 1000])
def test_hermite_polynomials_far_out(degree: int, dtype: Any) -> None:
    """Next to where the recurrence could leave the range, beyond it, and at infinity."""
    edge = 2 * math.sqrt(math.log(torch.finfo(dtype).max) - 8)
    x = torch.tensor([edge * 0.999, edge * 1.001, 25.0, 60.0, 1e5, 1e30, math.inf, math.nan, 0.0], dtype=dtype)
    x = torch.cat([x, -x])
    with np.errstate(over="ignore"):
        expected = doubles(t.hermite_polynomial(degree, t.X), x.double().numpy())
        expected = expected.astype(str(dtype).removeprefix("torch.")).astype(float)
    found = evaluate(t.hermite_polynomial(degree, t.X), x).double().numpy()
    # float32 multiplies the rounding of x by |x h'/h|, which is at most the degree out there, and x^2 within
    assert np.array_equal(np.isfinite(found), np.isfinite(expected))
    finite = np.isfinite(expected)
    assert np.array_equal(found[~finite], expected[~finite], equal_nan=True)
    size = np.exp(np.minimum(x.double().numpy()[finite] ** 2 / 4, 700)) if degree > 17 else np.abs(expected[finite])
    assert np.all(np.abs(found[finite] - expected[finite]) <= 40 * torch.finfo(dtype).eps * size)


# ---- stable forms -----------------------------------------------------------------------------------------


def exact(function: Callable[[Any], Any], x: Any, dtype: Any) -> float:
    with mp.workdps(60):
        return float(function(mp.mpf(torch.tensor(x, dtype=dtype).item())))


STABLE: list[tuple[str, Callable[[Any], Any], list[float]]] = [
    ("1 + tanh(x)", lambda x: 2 / (1 + mp.exp(-2 * x)), [-40, -9, 0.3, 3]),
    ("3 - 3*tanh(x)", lambda x: 6 / (1 + mp.exp(2 * x)), [40, 9, -1]),
    ("1 - sigmoid(x)", lambda x: 1 / (1 + mp.exp(x)), [80, 30, -1]),
    ("-2 + 2*sigmoid(x)", lambda x: -2 / (1 + mp.exp(x)), [80, 30, -1]),
    ("1 + erf(x)", lambda x: mp.erfc(-x), [-8, -3, 1]),
    ("1/2 - erf(2*x)/2", lambda x: mp.erfc(2 * x) / 2, [4, 2, -1]),
    ("log1p(exp(x))", lambda x: mp.log1p(mp.exp(x)), [-80, -20, -1, 0, 5, 19, 21, 39, 41, 90, 1000]),
    ("log1p(exp(3*x))/3", lambda x: mp.log1p(mp.exp(3 * x)) / 3, [-25, 0, 1, 500]),
    ("log(1 + tanh(x))", lambda x: mp.log(2) - mp.log1p(mp.exp(-2 * x)), [-100, 0, 3]),
    ("log(1 - tanh(x))", lambda x: mp.log(2) - mp.log1p(mp.exp(2 * x)), [100, 0, -3]),
    ("log(1 - sigmoid(x))", lambda x: -mp.log1p(mp.exp(x)), [200, 2, -3]),
    ("log(3 - 3*sigmoid(x))", lambda x: mp.log(3) - mp.log1p(mp.exp(x)), [200, 2, -3]),
    ("log1p(tanh(x))", lambda x: mp.log1p(mp.tanh(x)), [-40, -3, -0.51, -0.49, -1e-9, 1e-5, 1]),
    ("log1p(-erf(x))", lambda x: mp.log(mp.erfc(x)), [100, 3, 0.51, 0.49, -1e-9, 1e-5, -1]),
    ("log1p(-sigmoid(x))", lambda x: -mp.log1p(mp.exp(x)), [200, 2, -3]),
    ("log(1 + erf(x))", lambda x: mp.log(mp.erfc(-x)), [-100, -3, 0.7]),
    ("log(3*Phi(x))", lambda x: mp.log(3) + mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), [-100, -3, 0.5]),
    ("x - tanh(x)", lambda x: x - mp.tanh(x), [-7, -1.01, -0.99, -1e-4, 1e-6, 0.3, 0.999, 2]),
    ("2*x - tanh(2*x)", lambda x: 2 * x - mp.tanh(2 * x), [-0.3, 1e-5, 0.49, 1]),
    ("expm1(x)", mp.expm1, [1e-6, -1e-6, 3]),
    ("exp(x) - 1", mp.expm1, [1e-6, -1e-6, 3]),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("text", "function", "places"), STABLE, ids=[each[0] for each in STABLE])
def test_forms_that_cancel_or_overflow(
    text: str, function: Callable[[Any], Any], places: list[float], dtype: Any
) -> None:
    expected = [exact(function, x, dtype) for x in places]
    info = torch.finfo(dtype)
    for value, wanted, x in zip(at(text, places, dtype), expected, places, strict=True):
        # rounding of u where exp(u) or exp(u^2) is what counts
        steep = max(1, abs(x) if "log" not in text else 1, x * x if "erf" in text and "log" not in text else 1)
        assert abs(value - wanted) <= 8 * info.eps * steep * abs(wanted) + info.tiny, (x, value, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_normal_cdf_loses_the_square_of_its_argument_in_units(dtype: Any) -> None:
    places = [-12.0, -6.3, -2.1, -0.4, 0.0, 1.7, 9.0]
    expected = [exact(lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, x, dtype) for x in places]
    for text, sign in (("Phi(x)", 1), ("1 - Phi(-x)", 1), ("(1 + erf(x/sqrt(2)))/2", 1), ("Phi(-x)", -1)):
        found = at(text, [sign * x for x in places], dtype)
        for value, wanted, x in zip(found, expected, places, strict=True):
            assert abs(value - wanted) <= (4 + x * x) * torch.finfo(dtype).eps * wanted, (text, x)


# ---- dtype, device, memory --------------------------------------------------------------------------------

KEPT = ["x", "relu", "step", "3/7", "pi/4", "sign", "gelu", "softplus", "tanhshrink", "He(5, x)", "max(x, sin(3*x))"]
KEPT += ["1 if x > pi/4 else 1/3", "x if abs(x) > 1/3 else 2", "log(Phi(x))", "abs(x)**(1/3)", "1/(1 + x**2)"]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("text", KEPT)
def test_shape_and_dtype_are_kept(text: str, dtype: Any) -> None:
    if text == "log(Phi(x))" and dtype not in DTYPES:
        text = "Phi(x)"  # torch has the logarithm for 32 and 64 bits
    expr = activation(text).expr
    grid = torch.linspace(0.1, 3, 24, dtype=dtype)
    wide = evaluate(expr, grid)
    assert wide.dtype == dtype
    # 8 bits are 2 digits
    assert wide.double().numpy() == pytest.approx(doubles(expr, grid.double().numpy()), rel=0.05, abs=0.05)
    for x in (grid.reshape(2, 3, 4), grid.reshape(4, 6).T, grid[::3], grid[:0], grid[5], grid.expand(5, 24)):
        found = evaluate(expr, x)
        assert (found.shape, found.dtype) == (x.shape, dtype)
        # a vectorised kernel and its rest may round differently
        assert torch.allclose(found, evaluate(expr, x.contiguous()), rtol=8 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("text", [text for text in KEPT if "He" not in text])
def test_the_device_is_kept(text: str) -> None:
    """Tensors on the meta device hold no numbers: nothing may be moved to another."""
    found = evaluate(activation(text).expr, torch.empty((2, 3), dtype=torch.float64, device="meta"))
    assert (found.device.type, found.shape, found.dtype) == ("meta", (2, 3), torch.float64)


@pytest.mark.parametrize("text", ["x", "relu", "1/2", "x if x > 0 else 2*x"])
def test_the_answer_is_a_new_tensor(text: str) -> None:
    x = torch.tensor([1.0, 2.0])
    evaluate(activation(text).expr, x).fill_(7)
    assert x.tolist() == [1, 2]


def test_constants_are_no_tensors_of_the_size_of_x() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    made = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            made.append((str(function), result))
            return result

    x = torch.linspace(-1, 1, 100)
    with Record():
        evaluate(activation("(1 if x > pi/7 else 1/3) + max(x, 2/3)*min(pi, x) + exp(1)/(2 + x)").expr, x)
    large = {name.split(".")[1] for name, value in made if isinstance(value, torch.Tensor) and value.numel() == 100}
    assert large == {"gt", "where", "clamp", "mul", "add", "reciprocal"}


@pytest.mark.parametrize("text", ["max(x, 1e299)", "min(x, -1e299)", "x + 1e299", "1e299 if x > 0 else x", "1e299/2"])
def test_constants_beyond_the_dtype_are_infinite(text: str) -> None:
    x = [-2.0, 0.5]
    expected = np.array(activation(text)(x))
    expected[np.abs(expected) > 1e39] = np.copysign(math.inf, expected[np.abs(expected) > 1e39])
    assert at(text, x, torch.float32).tolist() == expected.tolist()
    assert at(text, x).tolist() == activation(text)(x).tolist()


def test_what_exceeds_the_dtype_on_the_way_is_never_a_wrong_number() -> None:
    assert at("exp(20*x)", [1.0, 50.0]).tolist() == [pytest.approx(math.exp(20)), math.inf]
    assert np.isnan(at("exp(20*x)/(1 + exp(20*x))", [50.0]))[0]  # float64's own interpreter says 1
    assert torch.isnan(evaluate(t.call("sqrt", t.X), torch.tensor(-1.0)))


def test_comparisons_of_constants_choose_a_branch() -> None:
    x = torch.tensor([0.5, 2.0])
    for op, chosen in ((">", [0.5, 2.0]), ("<", [3.0, 3.0])):
        assert evaluate(t.choose(t.PI, op, t.num(3), t.X, t.num(3)), x).tolist() == chosen
    assert evaluate(t.choose(t.PI, "<=", t.PI, t.num(3), t.X), x).tolist() == [3, 3]


def test_nan_is_kept() -> None:
    for text in ("sign", "relu", "relu6", "abs", "softplus", "gelu", "tanhshrink", "He(3, x)", "hardtanh", "x**2"):
        assert np.isnan(at(text, [math.nan]))[0], text
    # a comparison with nan is false, here as in float64
    assert at("step", [math.nan]).tolist() == activation("step")([math.nan]).tolist() == [0]


def test_ties_are_those_of_the_text() -> None:
    for op, value in (("<", 0), ("<=", 1), (">", 0), (">=", 1)):
        assert at(f"1 if x {op} 1/2 else 0", [0.5]).tolist() == [value]
    assert at("sign", [0.0, -0.0, 2.0, -3.0]).tolist() == [0, 0, 1, -1]
    assert at("-1 if 2 > x else x", [3.0, 1.0]).tolist() == [3, -1]
    assert at("max(2, x) + min(1, x)", [3.0, 1.0, 0.0]).tolist() == [4, 3, 2]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex128], ids=str)
def test_tensors_without_fractions_are_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match=f"floating point, got dtype {dtype}"):
        evaluate(activation("relu").expr, torch.ones(2, dtype=dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("text", [*map(str, hermite.catalogue()), *KEPT])
def test_a_gpu_says_what_the_cpu_says(text: str, dtype: Any) -> None:
    expr = activation(text).expr
    x = torch.cat([torch.linspace(-6, 6, 1001, dtype=dtype) + 1 / 512, torch.tensor([30.0, -math.inf], dtype=dtype)])
    found, expected = evaluate(expr, x.cuda()), evaluate(expr, x)
    assert (found.device.type, found.dtype) == ("cuda", dtype)
    eps = torch.finfo(dtype).eps
    # a sum on the way may cancel, so that units of the largest value count
    assert torch.allclose(found.cpu(), expected, rtol=200 * eps, atol=200 * eps, equal_nan=True)


# ---- Python callables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [np.sinc, lambda x: math.tanh(x), lambda x: 2.0, lambda x: x[::-1][::-1]])
def test_callables_go_through_numpy(function: Any, dtype: Any) -> None:
    sigma = activation(function, breakpoints=[], gain=2, shift=1)
    x = torch.linspace(-3, 3, 24, dtype=dtype).reshape(4, 6)
    x.requires_grad_()
    for each in (sigma, 2 * sigma + activation("relu")):
        found = evaluate(each.expr, x).detach()
        assert (found.dtype, found.shape) == (dtype, x.shape)
        eps = torch.finfo(dtype).eps
        assert found.double().numpy() == pytest.approx(each(x.detach().double().numpy()), rel=8 * eps, abs=8 * eps)


def test_callables_do_not_run_on_another_device() -> None:
    def mine(x: Any) -> Any:
        return np.cos(x)

    for sigma in (activation(mine), 2 * activation(mine) + activation("relu"), activation("relu") * activation(mine)):
        with pytest.raises(ValueError, match=r"mine is a Python callable, .* write it as a text, or use device='cpu'"):
            evaluate(sigma.expr, torch.empty(3, device="meta"))


def test_what_a_callable_does_wrong_is_said() -> None:
    def shorter(x: Any) -> Any:
        return x[:7]

    with pytest.raises(ValueError, match=r"sigma returned shape \(7,\) for an input of shape \(9,\)"):
        evaluate(activation(shorter, breakpoints=[]).expr, torch.ones(9))


# ---- speed ------------------------------------------------------------------------------------------------


def test_relu_is_as_fast_as_torchs() -> None:
    x, expr = torch.randn(1_000_000), activation("relu").expr

    def clock(function: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        function()
        return time.perf_counter() - begun

    best = {"ours": math.inf, "torch": math.inf}
    for _ in range(200):  # noise only adds time, so the best of several is the measurement
        best["ours"] = min(best["ours"], clock(lambda: evaluate(expr, x)))
        best["torch"] = min(best["torch"], clock(lambda: torch.relu(x)))
        if _ > 5 and best["ours"] <= 1.5 * best["torch"]:
            break
    assert best["ours"] <= 1.5 * best["torch"], best
