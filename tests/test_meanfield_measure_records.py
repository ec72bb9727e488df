"""Numbers that a measurement gives, its tables and pictures; and what is refused, with words that help."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bounds import batch_norm_gain
from hermite.errors import MissingDependencyError
from meanfield import estimate_isometry_gap, gram
from meanfield._measurement import LayerMeasurement, Measurement, Normalization
from meanfield._torch._measure import measure

try:
    import torch
    from torch import nn
except ModuleNotFoundError:  # every test here carries the mark, and is left out where there is no torch
    torch = nn = None  # type: ignore[assignment]

pytestmark = pytest.mark.torch
X = np.random.default_rng(1).standard_normal((4, 6))


def seeded(make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return make()


def perceptron() -> Any:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.ReLU(), nn.Linear(9, 7), nn.LayerNorm(7)))


def theorem(row: LayerMeasurement) -> Normalization:
    assert row.normalization is not None, row.reason
    return row.normalization


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes(name: str) -> None:
    module = perceptron().to(getattr(torch, name))
    found, sharp = measure(module, X), measure(perceptron().double(), X)
    unit = float(torch.finfo(getattr(torch, name)).eps)
    for row, exact in zip(found.rows, sharp.rows, strict=True):
        assert row.dtype == name
        assert row.output.isometry_gap == pytest.approx(exact.output.isometry_gap, rel=30 * unit, abs=0)
        assert theorem(row).verdict == "holds"
        assert theorem(row).predicted_gain == pytest.approx(theorem(exact).predicted_gain, rel=60 * unit + 1e-12)


@pytest.mark.parametrize(
    ("name", "scale"), [("float16", 1e-2), ("bfloat16", 3e-4), ("float32", 3e-4), ("float64", 1e-8)]
)
def test_the_epsilon_of_rms_normalisation_is_that_of_the_type_it_computes_in(name: str, scale: float) -> None:
    """2^-23 for half precision, too, where squares of 1e-4 and less begin to feel it."""
    module = nn.RMSNorm(6).to(getattr(torch, name))
    inputs = torch.tensor(scale * X * np.array([[1.0], [0.1], [0.3], [2.0]]), dtype=getattr(torch, name))
    found = theorem(measure(module, inputs).rows[0])
    assert found.eps_loss > (0.003 if name == "float16" else 0.1)
    assert found.gap_actual - found.gap_after == pytest.approx(found.eps_loss, rel=0.03, abs=0)


@pytest.mark.parametrize("name", ["bfloat16", "float32", "float64"])
def test_rounding_hides_no_dependence(name: str) -> None:
    """Five features of three inputs, and outputs of layer normalisation in as many dimensions: gaps are inf."""
    linear = seeded(lambda: nn.Linear(3, 5))
    module = nn.Sequential(linear, nn.BatchNorm1d(5), nn.LayerNorm(5)).to(getattr(torch, name))
    inputs = np.random.default_rng(6).standard_normal((5, 3))
    found = measure(module, np.vstack([inputs, inputs[:3] ** 2]), keep=True)
    first, features = theorem(found.rows[0]), found.rows[0].input_array
    assert (first.status, first.gap_before, first.gap_after) == ("unresolved", math.inf, math.inf)
    assert (first.verdict, first.gain) == ("holds", pytest.approx(batch_norm_gain(features).rhs, rel=1e-10))
    far = measure(module, 40.0 + np.vstack([inputs, inputs[:3] ** 2]))
    assert theorem(far.rows[0]).status == "unresolved"
    (last,) = measure(module[2], inputs @ np.ones((3, 5)) + np.eye(5), keep=True).rows
    assert (last.output.status, last.output.isometry_gap) == ("unresolved", math.inf)
    assert theorem(last).status == "singular"
    for seed in range(5):
        (moved,) = measure(module[2], 30.0 + np.random.default_rng(seed).standard_normal((5, 5))).rows
        assert moved.output.status in ("unresolved", "singular")
    assert last.output_array is not None
    taken_as_it_is = estimate_isometry_gap(gram(last.output_array))
    assert name != "float32" or (taken_as_it_is.status, round(taken_as_it_is.value)) == ("resolved", 6)


def test_duplicates_and_zeros() -> None:
    module = nn.Sequential(nn.Identity(), nn.RMSNorm(6))
    (row,) = measure(module, X[[0, 1, 0]]).rows
    assert (row.input.status, row.input.potential, row.input.max_correlation) == ("singular", math.inf, 1.0)
    assert (theorem(row).status, theorem(row).verdict) == ("singular", "holds")
    (row,) = measure(module, X[[0, 0]]).rows
    assert (theorem(row).status, theorem(row).verdict, theorem(row).slack) == ("singular", "holds", 0.0)
    (row,) = measure(module, np.vstack([X[:2], -X[0]])).rows
    assert (row.input.status, theorem(row).status, row.input.max_correlation) == ("singular", "singular", 1.0)
    (row,) = measure(nn.LayerNorm(3), X[:, :3]).rows
    assert (row.input.status, row.input.isometry_gap_error) == ("singular", 0.0)
    (row,) = measure(module, np.vstack([X[:2], np.ones(6)])).rows  # constant, yet with a direction
    assert theorem(row).verdict == "holds"
    (row,) = measure(module, 0.0 * X, layers="0").rows
    assert row.input.status == "zero"
    assert math.isnan(row.input.isometry_gap)
    wide = np.array([[1e200, 0.0, 0.0], [0.0, 1e-200, 0.0]])
    with pytest.raises(ValueError, match=r"layer '' \(Identity, call 0\): row 1 is below 1e-150 of the largest"):
        measure(nn.Identity(), wide, layers=nn.Identity)
    wide[0] = [1e140, 2e140, 0.0]
    with pytest.raises(ValueError, match=r"layer '' \(LayerNorm, call 0\): row 1 is below 1e-150 of the largest"):
        measure(nn.LayerNorm(3).double(), wide)


def test_arrays_take_the_type_of_the_module_and_tensors_keep_theirs() -> None:
    assert measure(perceptron().double(), X.astype(np.float32).tolist()).rows[0].dtype == "float64"
    assert measure(nn.LayerNorm(6, elementwise_affine=False), X.astype(np.float32)).rows[0].dtype == "float64"
    read_only = X.astype(int)
    read_only.setflags(write=False)
    assert measure(perceptron(), read_only).rows[0].dtype == "float32"
    words = seeded(lambda: nn.Sequential(nn.Embedding(9, 6), nn.LayerNorm(6)))
    (row,) = measure(words, torch.tensor([[0, 1, 2, 3]]), samples="tokens").rows
    assert (row.samples, row.features, theorem(row).verdict) == (4, 6, "holds")
    tensor = torch.tensor(X, requires_grad=True)
    (row,) = measure(nn.LayerNorm(6).double(), tensor, keep=True).rows
    assert row.input_array is not None
    assert row.input_array.tolist() == X.tolist()
    row.input_array[:] = 0
    assert tensor.tolist() == X.tolist()


def test_what_leaves_is_numbers() -> None:
    found = measure(perceptron(), X, keep=True)
    for row in found.as_rows():
        assert {type(value) for value in row.values()} <= {int, float, str}
    assert all(isinstance(row.output_array, np.ndarray) and row.output_array.dtype == np.float64 for row in found.rows)
    with pytest.raises(AttributeError):
        found.rows[0].call = 3  # type: ignore[misc]


# --- tables and pictures ------------------------------------------------------------------------------------


def test_the_table() -> None:
    module = nn.Sequential(*perceptron(), nn.GroupNorm(7, 7), nn.RMSNorm(7))
    found = measure(module, X)
    lines = str(found).splitlines()
    assert lines[0] == "Sequential: 4 rows, mode 'batch', samples on axis 0"
    head = "call layer type n d gap in gap out potential in out thm before after gain >= predicted verdict"
    assert " ".join(lines[1].split()) == head
    for line, row in zip(lines[2:], found.rows, strict=True):
        start = [str(row.call), row.layer, row.type, "4", str(row.features), f"{row.input.isometry_gap:.4g}"]
        assert line.split()[:6] == start
        assert line.split()[-1] == "holds" or line.endswith(row.reason)
    assert lines[4].endswith("a sample is not one of the vectors that it normalises; samples= may name another axis")
    assert (len(found), repr(found)) == (4, "Measurement('Sequential', rows=4, mode='batch', samples=0)")
    many = Measurement(found.rows * 20, "Big", "eval", 0, ())
    assert str(many).splitlines()[-1] == "... and 40 more, in as_rows()"
    frame = found.to_pandas()
    assert frame.shape == (4, len(found.as_rows()[0]))
    assert frame["gain"].tolist()[:2] == [theorem(row).gain for row in found.rows[:2]]
    with pytest.raises(KeyError, match="no column 'gap'; there are call, layer, type, sequence"):
        found["gap"]


def test_the_picture() -> None:
    found = measure(perceptron(), X)
    ax = found.plot()
    assert ax.get_ylabel() == "isometry gap"
    assert [line.get_label() for line in ax.get_lines()][:2] == ["samples, before", "samples, after"]
    drawn = ax.get_lines()[0]
    assert np.asarray(drawn.get_ydata()).tolist() == [row.input.isometry_gap for row in found.rows]
    assert found.plot(ax=ax) is ax
    with pytest.raises(ValueError, match="ax must be matplotlib axes"):
        found.plot(ax=3)  # type: ignore[arg-type]


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lambda x: x, "module must be a torch.nn.Module, got a function"),
        (lambda: nn.LayerNorm, "module must be a torch.nn.Module, got the class LayerNorm; make one"),
        (lambda: None, "module must be a torch.nn.Module, got a NoneType"),
        (
            lambda: nn.Sequential(nn.LazyLinear(3), nn.LayerNorm(3)),
            "a lazy layer that has no weights yet",
        ),
        (lambda: nn.LayerNorm(6, device="meta"), "weights on the device 'meta', which hold no numbers"),
        (
            lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 2)),
            "no layer of this Sequential is a normalisation layer of torch; it holds Sequential, 2 Linear, ReLU.",
        ),
    ],
)
def test_modules_that_are_refused(make: Callable[[], Any], message: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Lazy modules are a new feature")
        module = make()
    with pytest.raises(ValueError, match=re.escape(message)):
        measure(module, X)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["a", "b"], "X must be an array of real numbers"),
        (1j * X, "X must be an array of real numbers that float64 holds, got complex128"),
        (X[:1], r"X must hold at least 2 samples in its rows, got shape \(1, 6\)"),
        (np.float64(3.0), r"X must hold at least 2 samples in its rows, got shape \(\)"),
        (np.where(X > 1, math.nan, X), "X must be finite, got nan at index"),
        (1e300 * X, r"X must be finite in torch\.float32"),
        (lambda: torch.tensor(1j * X), r"X must hold real numbers, got torch\.complex128"),
        (lambda: torch.tensor(X / 0.0), r"X must be finite in torch\.float64"),
        (lambda: torch.tensor(X), "dtype"),
    ],
    ids=[
        "text",
        "complex",
        "one",
        "scalar",
        "nan",
        "float32",
        "complex tensor",
        "infinite tensor",
        "tensor of float64",
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_inputs_that_are_refused(inputs: Any, message: str) -> None:
    given = inputs() if callable(inputs) else inputs
    with pytest.raises((ValueError, RuntimeError) if message == "dtype" else ValueError, match=message):
        measure(perceptron(), given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "test"}, "mode must be one of 'batch', 'eval', 'train', got 'test'"),
        ({"keep": "yes"}, "keep must be True or False, got 'yes'"),
        ({"samples": "rows"}, "samples must be 'batch', 'tokens' or an axis, an integer, got 'rows'"),
        ({"samples": True}, "samples must be 'batch', 'tokens' or an axis, an integer, got True"),
        ({"samples": 2}, "layer '1' (LayerNorm, call 0): its input has shape (4, 9), and no axis 2 that holds samples"),
        ({"layers": "head"}, "layers='head' is the name of no layer; there are 0, 1, 2, 3, 4"),
        ({"layers": lambda name, layer: False}, "no layer of this Sequential is chosen by layers=<function"),
        ({"layers": int}, "layers: int is no subclass of torch.nn.Module"),
        (
            {"layers": 3},
            "layers must be 'normalization', a name or pattern of names, a class, a function of",
        ),
        ({"layers": {"1": "batch"}}, "layers: a layer normalises its last axis as 'layer' or 'rms', got 'batch'"),
        ({"layers": {"1": ["rms"]}}, "layers: a layer normalises its last axis as 'layer' or 'rms', got ['rms']"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        measure(perceptron(), X, **options)
    with pytest.raises(ValueError, match=r"there are 0, 1, 2, .*, 29, \.\.\. \(40 in all\)"):
        measure(nn.Sequential(*[nn.ReLU() for _ in range(40)]), X, layers="head")
    with pytest.raises(ValueError, match="no layer of this Sequential is chosen by layers=Conv2d"):
        measure(perceptron(), X, layers=[nn.Linear, nn.Conv2d])


class Given:
    """A module whose inner layer gives what it is told to."""

    def __new__(cls, output: Callable[[Any], Any], inputs: Callable[[Any], Any] = lambda x: x) -> Any:
        class Inner(nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                return output(x)

        class Outer(nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.inner = Inner()

            def forward(self, x: Any) -> Any:
                return self.inner(inputs(x))

        return Outer()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda x: 3.0, "layer 'inner' has no tensor as its output: leave it out of layers"),
        (lambda x: x.to_sparse(), "layer 'inner': its output is of layout torch.sparse_coo; only dense real"),
        (lambda x: x * 1j, "layer 'inner': its output is of dtype torch.complex128; only dense real"),
        (
            lambda x: torch.sqrt(x),
            "layer 'inner' (Inner, call 0): 12 of 24 entries of its output (torch.float64)",
        ),
        (
            lambda x: x.sum(0, keepdim=True),
            "its output of shape (1, 6) holds 1 samples on axis 0; at least 2",
        ),
        (
            lambda x: x[:3],
            "layer 'inner' (Inner, call 0) makes 3 samples of 4: leave it out",
        ),
        (lambda x: x[:, :0], "its output of shape (4, 0) holds 4 samples on axis 0"),
    ],
)
def test_activations_that_are_refused(output: Callable[[Any], Any], message: str) -> None:
    module = Given(output)
    with pytest.raises(ValueError, match=re.escape(message)):
        measure(module, X - np.median(X), layers="inner")
    assert not module.inner._forward_hooks
    assert not module.inner._forward_pre_hooks


def test_layers_that_are_not_called() -> None:
    class Unused(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(6)

        def forward(self, x: Any) -> Any:
            return nn.functional.layer_norm(x, (6,))

    with pytest.raises(ValueError, match=r"none of the chosen layers was called: 'norm'\. The forward of this Unused"):
        measure(Unused(), X)
    with pytest.raises(ValueError, match="layer 'inner' has no tensor as its input"):
        measure(Given(lambda x: torch.tensor(x), lambda x: x.tolist()), X, layers="inner")


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"isogram\[torch\]"):
        measure(None, X)  # type: ignore[arg-type]
