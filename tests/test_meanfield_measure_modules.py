"""Modules of every kind are measured as they are, left as they were found, and refused with words that help."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meanfield._measurement import LayerMeasurement, Normalization
from meanfield._torch._measure import measure

try:
    import torch
    from torch import nn
except ModuleNotFoundError:  # every test here carries the mark, and is left out where there is no torch
    torch = nn = None  # type: ignore[assignment]

pytestmark = pytest.mark.torch
X = np.random.default_rng(1).standard_normal((4, 6))
IMAGES = np.random.default_rng(2).standard_normal((5, 4, 3, 3))


def seeded(make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return make()


def perceptron() -> Any:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.ReLU(), nn.Linear(9, 7), nn.LayerNorm(7)))


def theorem(row: LayerMeasurement) -> Normalization:
    assert row.normalization is not None, row.reason
    return row.normalization


def gap(vectors: np.ndarray, *, centred: bool) -> tuple[float, float]:
    """Before and after, as numpy has it."""
    v = vectors - vectors.mean(axis=1, keepdims=True) if centred else vectors
    unit = v / np.linalg.norm(v, axis=1, keepdims=True)
    before, after = ((a @ a.T, len(a)) for a in (v, unit))
    return tuple(math.log(np.trace(G) / n) - np.linalg.slogdet(G)[1] / n for G, n in (before, after))  # type: ignore


# --- kinds of layers ----------------------------------------------------------------------------------------

KINDS: dict[str, tuple[Callable[[], Any], Any, Callable[[np.ndarray], list[np.ndarray]], bool]] = {
    "LayerNorm of three axes": (lambda: nn.LayerNorm((4, 3, 3)), 0, lambda a: [a.reshape(5, 36)], True),
    "RMSNorm of three axes": (lambda: nn.RMSNorm((4, 3, 3)), 0, lambda a: [a.reshape(5, 36)], False),
    "GroupNorm of one group": (lambda: nn.GroupNorm(1, 4), 0, lambda a: [a.reshape(5, 36)], True),
    "GroupNorm of channels": (lambda: nn.GroupNorm(4, 4), 1, lambda a: [*a.reshape(5, 4, 9)], True),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), 1, lambda a: [*a.reshape(5, 4, 9)], True),
    "InstanceNorm3d without batch": (lambda: nn.InstanceNorm3d(5), 0, lambda a: [a.reshape(5, 36)], True),
    "InstanceNorm with statistics": (
        lambda: nn.InstanceNorm2d(4, track_running_stats=True),
        1,
        lambda a: [*a.reshape(5, 4, 9)],
        True,
    ),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), 0, lambda a: [a.transpose(1, 0, 2, 3).reshape(4, 45)], True),
}


@pytest.mark.parametrize("name", KINDS)
def test_vectors_of_each_kind(name: str) -> None:
    make, axis, vectors, centred = KINDS[name]
    found = measure(make().double(), IMAGES, samples=axis)
    expected = vectors(IMAGES)
    assert len(found) == len(expected)
    for row, v in zip(found.rows, expected, strict=True):
        one = theorem(row)
        assert (one.gap_before, one.gap_after) == pytest.approx(gap(v, centred=centred), rel=1e-11, abs=0)
        assert (one.vectors, one.length) == v.shape
        assert one.theorem == ("4.3" if "Batch" in name else "4.2" if centred else "4.1")
        assert one.verdict == "holds"
        assert one.gap_actual == pytest.approx(one.gap_after + one.eps_loss, rel=1e-11, abs=0)


@pytest.mark.parametrize(
    ("make", "axis"),
    [
        (lambda: nn.GroupNorm(2, 4), 0),
        (lambda: nn.GroupNorm(2, 4), 1),
        (lambda: nn.InstanceNorm2d(4), 0),
        (lambda: nn.LayerNorm(3), 0),
        (lambda: nn.LayerNorm((4, 3, 3)), 1),
        (lambda: nn.LayerNorm((3, 3)), 2),
    ],
    ids=["half a sample", "two samples", "channels", "last axis", "whole image", "rows of pixels"],
)
def test_samples_that_are_not_the_vectors(make: Callable[[], Any], axis: int) -> None:
    for row in measure(make(), IMAGES, samples=axis).rows:
        assert row.normalization is None
        assert row.reason.startswith("a sample is not one of the vectors that it normalises")
        assert math.isfinite(row.input.isometry_gap) or row.input.status == "singular"


def hand_written() -> Any:
    class Centred(nn.Module):  # type: ignore[misc]
        def __init__(self, eps: float) -> None:
            super().__init__()
            self.variance_epsilon = eps

        def forward(self, *, hidden: Any) -> tuple[None, list[Any]]:
            moved = hidden - hidden.mean(-1, keepdim=True)
            return None, [moved / torch.sqrt(moved.square().mean(-1, keepdim=True) + self.variance_epsilon)]

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = Centred(0.25)

        def forward(self, x: Any) -> Any:
            return self.norm(hidden=2.0 * x)[1][0].sum(-1)

    return Net()


def test_a_layer_of_ones_own() -> None:
    module = hand_written().double()
    with pytest.raises(ValueError, match=r"no layer of this Net is a normalisation layer .* it holds Net, Centred"):
        measure(module, X)
    (plain,) = measure(module, X, layers="norm").rows
    assert (plain.normalization, plain.reason) == (None, "no normalisation layer of torch")
    (row,) = measure(module, X, layers={"n*": "layer"}, keep=True).rows
    moved = 2.0 * (X - X.mean(axis=1, keepdims=True))
    variance = np.square(moved).mean(axis=1, keepdims=True)
    assert row.output_array == pytest.approx(moved / np.sqrt(variance + 0.25), rel=1e-13, abs=0)
    one = theorem(row)
    assert (one.gap_before, one.gap_after) == pytest.approx(gap(2.0 * X, centred=True), rel=1e-12, abs=0)
    (twin,) = measure(nn.LayerNorm(6, eps=0.25).double(), 2.0 * X).rows
    assert replace(theorem(twin), gap_actual=one.gap_actual) == one
    assert theorem(twin).gap_actual == pytest.approx(one.gap_actual, rel=1e-12, abs=0)
    (other,) = measure(module, X, layers={"n*": "rms"}).rows
    assert theorem(other).gap_before == pytest.approx(gap(X, centred=False)[0], rel=1e-12, abs=0)
    del module.norm.variance_epsilon
    type(module.norm).variance_epsilon = torch.tensor(0.25)
    (row,) = measure(module, X, layers={type(module.norm): "layer"}).rows
    assert math.isnan(theorem(row).eps_loss)


def test_a_subclass_with_a_forward_of_its_own_is_not_taken_for_its_base() -> None:
    class ChannelNorm(nn.LayerNorm):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return super().forward(x.transpose(1, -1)).transpose(1, -1)

    class Named(nn.LayerNorm):  # type: ignore[misc]
        pass

    (row,) = measure(ChannelNorm(4), IMAGES).rows
    assert row.reason.startswith("has a forward of its own; if")
    assert row.reason.endswith("pass layers={ChannelNorm: 'layer'}")
    (row,) = measure(Named(6), X).rows
    assert theorem(row).theorem == "4.2"


def counts(module: Any) -> list[tuple[int, int]]:
    return [(len(each._forward_hooks), len(each._forward_pre_hooks)) for each in module.modules()]


# --- modes --------------------------------------------------------------------------------------------------


def test_modes() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.LayerNorm(3)).double()
    inputs = 5.0 + 3.0 * X[:, :3]
    by_batch, by_eval = measure(module, inputs, keep=True), measure(module, inputs, mode="eval", keep=True)
    standard = (inputs - inputs.mean(axis=0)) / np.sqrt(inputs.var(axis=0) + 1e-5)
    assert by_batch.rows[0].output_array == pytest.approx(standard, rel=1e-12)
    assert by_eval.rows[0].output_array == pytest.approx(inputs / math.sqrt(1 + 1e-5), rel=1e-13)
    assert by_eval.rows[0].reason == "normalises by running statistics, not by those of this batch"
    assert by_batch.rows[1].input_array == pytest.approx(standard, rel=1e-12)
    assert theorem(by_batch.rows[0]).gap_before == pytest.approx(gap(inputs.T, centred=True)[0], rel=1e-12)
    with torch.random.fork_rng([]):
        torch.manual_seed(4)
        dropped = measure(module, inputs, mode="train", keep=True).rows[1].input_array
        state = torch.random.get_rng_state()
        again = measure(module, inputs, mode="train", keep=True).rows[1].input_array
        torch.rand(1)
        other = measure(module, inputs, mode="train", keep=True).rows[1].input_array
        torch.random.set_rng_state(state)
    assert dropped is not None
    assert again is not None
    assert other is not None
    assert (dropped == 0).sum() in range(1, 12)
    assert dropped.tolist() == again.tolist() != other.tolist()
    free = nn.BatchNorm1d(3, track_running_stats=False).double()
    assert theorem(measure(free, inputs, mode="eval").rows[0]).theorem == "4.3"
    instance = nn.InstanceNorm2d(4, track_running_stats=True)
    assert "running statistics" in measure(instance, IMAGES, mode="eval", samples=1).rows[0].reason


@pytest.mark.parametrize("mode", ["batch", "eval", "train"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_module_is_left_as_it_was(mode: Any, fails: bool) -> None:
    class Last(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))
            self.register_buffer("none", None)
            self.register_buffer("wide", torch.zeros(1).expand(4))

        def forward(self, x: Any) -> Any:
            assert not torch.is_grad_enabled()
            assert not torch.backends.mha.get_fastpath_enabled()  # whatever this torch thinks of hooks
            self.calls += 1
            self.none = torch.ones(2)
            if fails:
                raise KeyError("planted")
            return x

    module = nn.Sequential(perceptron(), nn.BatchNorm1d(7), nn.Dropout(0.5), Last(), nn.LayerNorm(7))
    module[0][2].eval()
    module[4].weight.requires_grad_(False)
    own = module[1].register_forward_hook(lambda *args: None)
    flags, state = [each.training for each in module.modules()], {k: v.clone() for k, v in module.state_dict().items()}
    buffers, hooks = [id(buffer) for buffer in module.buffers()], counts(module)
    seed = torch.random.get_rng_state().tolist()
    if fails:
        with pytest.raises(KeyError, match="planted"):
            measure(module, X, mode=mode)
    else:
        assert len(measure(module, X, mode=mode)) == 4
    assert [each.training for each in module.modules()] == flags
    assert [id(b) for b in module.buffers()] == buffers
    after = module.state_dict()
    assert after.keys() == state.keys()
    assert all(torch.equal(after[name], value) for name, value in state.items())
    assert counts(module) == hooks
    assert torch.random.get_rng_state().tolist() == seed
    assert torch.backends.mha.get_fastpath_enabled()
    assert all(parameter.grad is None for parameter in module.parameters())
    assert [p.requires_grad for p in module[4].parameters()] == [False, True]
    assert torch.is_grad_enabled()
    own.remove()


# --- calls --------------------------------------------------------------------------------------------------


def test_a_norm_that_is_called_twice_counts_twice() -> None:
    norm = nn.LayerNorm(6)
    module = seeded(lambda: nn.Sequential(nn.Linear(6, 6), norm, nn.Sequential(nn.Linear(6, 6), norm)))
    found = measure(module, X)
    assert [(row.call, row.layer, row.type) for row in found.rows] == [(0, "1", "LayerNorm"), (1, "1", "LayerNorm")]
    assert found.rows[0].input != found.rows[1].input
    assert found["call"].tolist() == measure(module, X, layers="2.1")["call"].tolist() == [0, 1]


def test_a_module_that_wants_gradients_may_have_them() -> None:
    class Slope(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(6)

        def forward(self, x: Any) -> Any:
            with torch.enable_grad():
                x = x.requires_grad_()
                return torch.autograd.grad(self.norm(x).pow(3).sum(), x)[0]

    module = Slope().double()
    assert measure(module, X).rows[0].normalization == measure(module.norm, X).rows[0].normalization
    assert module.norm.weight.grad is None


def test_layers_within_layers_are_in_the_order_in_which_they_begin() -> None:
    module = seeded(
        lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True)), nn.LayerNorm(5)).double()
    )
    found = measure(module, X, layers=[nn.Sequential, nn.ReLU, "normalization"], keep=True)
    assert [row.layer for row in found.rows] == ["", "0", "0.1", "1"]
    relu = found.rows[2]
    assert relu.input_array is not None
    assert relu.input_array.min() < 0  # what went in, although the layer has overwritten it
    assert relu.output_array is not None
    assert relu.output_array.tolist() == np.maximum(relu.input_array, 0).tolist()
    assert found.rows[1].output == relu.output == found.rows[3].input
    before = measure(module, X, layers=nn.Linear, keep=True).rows[0].output_array
    assert before is not None
    assert before.tolist() == relu.input_array.tolist()


def test_an_exception_that_somebody_catches_mixes_up_no_calls() -> None:
    class Careful(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Linear(5, 5), nn.LayerNorm(6)

        def forward(self, x: Any) -> Any:
            try:
                return self.bad(x)
            except RuntimeError:
                return self.good(x)

    found = measure(Careful(), X, layers="*o*d")
    assert [(row.call, row.layer) for row in found.rows] == [(0, "good")]
    found = measure(Careful(), X, layers=[nn.Linear, nn.LayerNorm], keep=True)
    assert [(row.call, row.layer) for row in found.rows] == [(1, "good")]
    assert found.uncalled == ("bad",)
    assert measure(Careful(), X, layers=["", nn.Linear, nn.LayerNorm])["call"].tolist() == [0, 2]
    assert found.rows[0].input_array == pytest.approx(X, rel=1e-6)
    assert str(found).endswith("never called: bad")


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fused_transformer_layer_is_not_taken(norm_first: bool) -> None:
    layer = seeded(lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says which of its ways it takes
        module = nn.TransformerEncoder(layer, 2).eval()
    tokens = torch.tensor(np.random.default_rng(3).standard_normal((2, 4, 8)), dtype=torch.float32)
    found = measure(module, tokens, samples="tokens", mode="eval")
    assert found["layer"].tolist() == [f"layers.{i}.norm{j}" for i in (0, 1) for j in (1, 2) for _ in (0, 1)]
    assert set(found["verdict"]) == {"holds"}
    assert found.uncalled == ()


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (None, ["1", "4"]),
        ("normalization", ["1", "4"]),
        ("1", ["1"]),
        ("[03]", ["0", "3"]),
        (lambda name, layer: name and int(name) > 2, ["3", "4"]),
    ],
)
def test_layers_are_chosen(layers: Any, names: list[str]) -> None:
    assert measure(perceptron(), X, layers=layers)["layer"].tolist() == names
    assert measure(perceptron(), X, layers=[layers or "normalization", "2"])["layer"].tolist() == sorted({*names, "2"})
    found = measure(perceptron(), X, layers=(nn.Linear, {nn.LayerNorm: "rms"}, "normalization"))
    assert found["layer"].tolist() == ["0", "1", "3", "4"]
    assert found["theorem"].tolist() == ["", "4.1", "", "4.1"]
