"""Random networks of finite width: `simulate`, which runs them, and the options it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._numbers import shown
from hermite.errors import PrecisionError

from . import _conditional, _explicit
from ._dynamics import Progress, grams, reporter
from ._gram import as_real, gram
from ._layer import Layer, Layers, as_layers
from ._simulation import Recorder, Simulation
from ._wide import Arrays, NumpyArrays, root_of
from ._wide_layer import Site

Floats: TypeAlias = NDArray[np.float64]
_MOST = 10**12  # of runs or neurons
Method: TypeAlias = Literal["gram", "weights"]
Backend: TypeAlias = Literal["numpy", "torch"]


def simulate(
    layer: Layers,
    X: ArrayLike,
    *,
    width: int | Sequence[int],
    depth: int | None = None,
    runs: int = 1,
    method: Method = "gram",
    backend: Backend = "numpy",
    device: str | None = None,
    dtype: Any = None,
    rng: Any = None,
    eps: float = 0.0,
    progress: Progress = None,
) -> Simulation:
    """Run random networks of finite width on a batch of inputs, and record how orthogonal it is at every layer.

    layer: a Layer, or a sequence of layers, which fixes the depth; every option of `Layer` is taken as its definition
    says, with the statistics of the sample in place of expectations. X: (n, d), rows are inputs, used as they are (the
    first Gram matrix is X X^T/d). width: of all layers, or a sequence with one for each layer. Weights are independent
    N(0, 1/fan_in), biases N(0, bias_variance); nothing of a framework's initialisation. runs: independent networks.

    method: "gram" samples each Gram matrix from its exact law given the one before, without weights: n width normal
    variates a layer, whatever the fan-in, in memory for 4096 columns, so that widths of 10^7 are fine; "weights"
    multiplies by explicit matrices. Both give the same distribution of everything recorded. backend: "numpy" or "torch"
    (extra `torch`), device: "cpu", "cuda", "cuda:1", ... for torch. dtype: "float64" or "float32" of the wide part;
    sums over features, Gram matrices and determinants are float64. With float32, correlations within 1e-6 of +-1 have
    lost their distance from it. eps: added to the variance that layer, rms and batch normalisation divide by (a
    framework's default is 1e-5). What does not vary is normalised to 0: an input that is constant over all features
    with "layer", a neuron that is constant over the batch with "batch".

    rng: None, an integer, a SeedSequence or a Generator. Random numbers come in pieces with seeds of their own, one for
    each run, layer and block of 4096 neurons: run 3 is the same network among 4 runs or 400. numpy and torch draw other
    numbers. progress: True, False, a function of (done, total) layers of all runs, or None for a line on a terminal.

    Inputs that coincide stay so, and are computed once. Raises ValueError for X, widths or options that make no
    network (a skip connection needs the same width before and after; a Python callable on a GPU), PrecisionError where
    a Gram matrix leaves float64, MissingDependencyError without torch, MemoryError where one run at a time is too much.
    Whatever stops a simulation that has finished some runs, Ctrl-C included, has them in its attribute `finished`.

    Source: arXiv:2305.18399, section 7.2; the law is derived in `meanfield._conditional`.

    >>> X = np.eye(4, 100)
    >>> s = simulate(Layer("relu"), X, width=1000, depth=5, runs=20, rng=0)
    >>> s.isometry_gap.shape, bool(s.isometry_gap[:, -1].mean() < 0.01)
    ((20, 6), True)
    """
    layers = as_layers(layer, depth)
    inputs = _inputs(X)
    widths = _widths(width, len(layers))
    _check_skips(layers, widths, inputs.shape[1])
    plan = Plan(layers, inputs, widths, _count(runs, "runs"), _one_of(method, "method", Method), _eps(eps))
    root = root_of(rng)
    arrays = _arrays(_one_of(backend, "backend", Backend), device, _dtype(dtype), root)
    report = reporter(progress, plan.runs * len(layers))
    with arrays.running():
        return _run(plan, arrays, root, report)


@dataclass(frozen=True)
class Plan:
    """What is to be simulated."""

    layers: tuple[Layer, ...]
    inputs: Floats
    widths: tuple[int, ...]
    runs: int
    method: Method
    eps: float


def _run(plan: Plan, arrays: Arrays, root: np.random.SeedSequence, report: Callable[[int], Any]) -> Simulation:
    unique, index, counts = _distinct(plan.inputs)
    start = gram(unique) / unique.shape[1]
    if np.any(_leaves(np.diagonal(start), arrays)):
        raise PrecisionError(f"X has inputs whose mean square leaves {arrays.dtype}; scale X, or use dtype='float64'")
    recorder = Recorder(plan.layers, plan.widths, plan.runs, start, index, _mean_field(plan.layers, start, index))
    done, depth = 0, len(plan.layers)
    at_once, blocks = arrays.at_once(_elements(plan, len(unique)))
    report(0)
    try:
        while done < plan.runs:
            chosen = tuple(range(done, min(done + at_once, plan.runs)))
            found = []
            try:
                for K in _networks(plan, Batch(arrays, chosen, blocks), unique, start, counts):
                    found.append(K)
                    report(done * depth + len(found) * len(chosen))
            except PrecisionError:
                if len(chosen) == 1:
                    raise
                at_once = 1  # the runs before the one that leaves the range are kept
                continue
            except arrays.out_of_memory as error:
                if len(chosen) == blocks == 1:
                    raise MemoryError(
                        f"out of memory with one run at a time ({error}); use method='gram', a smaller width or batch"
                    ) from error
                at_once, blocks = max(1, len(chosen) // 2), max(1, blocks // 2)
                continue
            recorder.add(found)
            done += len(chosen)
    except BaseException as error:  # Ctrl-C, too
        if done:
            error.finished = recorder.settle(plan.method, arrays, root, plan.eps)  # type: ignore[attr-defined]
            error.add_note(
                f"{done} of {plan.runs} runs are finished, and kept in the attribute `finished` of this error"
            )
        raise
    return recorder.settle(plan.method, arrays, root, plan.eps)


@dataclass(frozen=True)
class Batch:
    """Runs that are computed together, so many blocks of neurons at once."""

    arrays: Arrays
    runs: tuple[int, ...]
    blocks: int


def _networks(plan: Plan, batch: Batch, unique: Floats, start: Floats, counts: Floats) -> Iterator[Floats]:
    """The Gram matrices (runs, n, n) of the distinct inputs after each layer."""
    arrays, runs = batch.arrays, batch.runs
    K = np.broadcast_to(start, (len(runs), *start.shape))
    sites = [Site(arrays, runs, l, width, plan.eps, counts, batch.blocks) for l, width in enumerate(plan.widths, 1)]
    if plan.method == "gram":
        for layer, site in zip(plan.layers, sites, strict=True):
            with np.errstate(all="ignore"):  # what leaves the range is reported
                K = _conditional.advance(layer, K, site)
            yield _finite(K, layer, site)
        return
    x = arrays.wide(np.broadcast_to(unique, (len(runs), *unique.shape)))
    outputs = _explicit.Outputs(x, K)
    for layer, site in zip(plan.layers, sites, strict=True):
        with np.errstate(all="ignore"):
            outputs = _explicit.advance(layer, outputs, site)
        yield _finite(outputs.gram, layer, site)


def _finite(K: Floats, layer: Layer, site: Site) -> Floats:
    """K, which must be in the range of the wide part: its square root is what activations are given."""
    good = np.isfinite(K).all(axis=(-2, -1)) & ~_leaves(np.einsum("...ii->...i", K), site.arrays).any(axis=-1)
    if not good.all():
        raise PrecisionError(
            f"layer {site.index}, run {site.runs[int(np.argmin(good))]}: the Gram matrix after {layer.label} leaves "
            f"{site.arrays.dtype}; take fewer layers, another gain, less eps, or normalise"
            + (", or use dtype='float64'" if site.arrays.eps > 1e-10 else "")
        )
    return K


def _leaves(q: Floats, arrays: Arrays) -> NDArray[np.bool_]:
    """Whether mean squares are too large or small for the wide dtype, which holds their roots and sums of squares."""
    least, most = (1e-30, 1e30) if arrays.eps > 1e-10 else (1e-305, 1e305)
    return np.asarray((q != 0.0) & ~((q > least) & (q < most)))


def _mean_field(layers: tuple[Layer, ...], start: Floats, index: NDArray[np.intp]) -> list[Floats] | str:
    """The Gram matrices of infinite width at layers 0, 1, ..., or why there are none."""
    try:
        return [G[np.ix_(index, index)] for G in grams(layers, start)]
    except ValueError as error:  # no formula, or it leaves float64
        return str(error)


def _distinct(X: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
    """The different rows in their order, which of them each row is, and how often each occurs."""
    place: dict[bytes, int] = {}
    index = np.array([place.setdefault(row.tobytes(), len(place)) for row in X])
    first = np.array([int(np.argmax(index == i)) for i in range(len(place))])
    return X[first], index, np.bincount(index).astype(np.float64)


def _elements(plan: Plan, n: int) -> int:
    """Of the largest piece that one run needs."""
    columns = min(4096, max(plan.widths, default=1))
    if plan.method == "gram":
        return n * columns
    fan_in = max(plan.inputs.shape[1], *plan.widths, 1)
    return int(max(n * fan_in, min(fan_in, _explicit.ROWS) * columns))


# ---- what is asked -----------------------------------------------------------------------------------------


def _inputs(X: ArrayLike) -> Floats:
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("X must not be a masked array, whose mask would be lost; fill it, or leave rows out")
    given = as_real(X, "X")
    if given.ndim != 2 or not given.size:
        raise ValueError(f"X must have shape (n, d), rows being inputs, got shape {given.shape}")
    inputs = np.array(given, dtype=np.float64) + 0.0  # -0 is 0
    gram(inputs)  # raises for what is not finite, or too large or small to be squared
    return inputs


def _widths(width: int | Sequence[int], depth: int) -> tuple[int, ...]:
    if isinstance(width, (int, np.integer, bool, np.bool_)):
        return (_count(width, "width"),) * depth
    if isinstance(width, np.ndarray) and width.ndim == 0:
        return _widths(width.item(), depth)
    if isinstance(width, (str, set, frozenset, dict)) or not isinstance(width, Iterable):
        raise ValueError(f"width must be an integer >= 1, or a sequence of them, one for each layer, got {width!r}")
    widths = tuple(_count(w, "width") for w in width)
    if len(widths) != depth:
        raise ValueError(f"width has {len(widths)} entries for {depth} layers; give one for each, or a single integer")
    return widths


def _check_skips(layers: tuple[Layer, ...], widths: tuple[int, ...], d: int) -> None:
    """A skip connection adds the input of a layer to its output."""
    for l, (layer, before, after) in enumerate(zip(layers, (d, *widths), widths, strict=False), 1):
        if layer.skip and before != after:
            raise ValueError(
                f"layer {l} has a skip connection, which adds its input of width {before} to its output of {after}; "
                + (f"give X {after} features, or width={before}" if l == 1 else "give both the same width")
            )


def _count(value: object, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    if value > _MOST:
        raise ValueError(f"{name} must be at most {_MOST}, got {shown(Fraction(int(value)))}")
    return int(value)


def _one_of(value: Any, name: str, allowed: Any) -> Any:
    if not isinstance(value, str) or value not in get_args(allowed):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, get_args(allowed)))}, got {value!r}")
    return value


def _eps(value: Any) -> float:
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float, np.floating)) or not 0 <= value < 1e300:
        raise ValueError(f"eps must be a finite number >= 0, got {value!r:.40}")
    return float(value)


def _dtype(value: Any) -> str:
    """ "float64" (also for None) or "float32"; numpy's and torch's objects are known by their names."""
    name = "float64" if value is None else str(getattr(value, "__name__", value)).removeprefix("torch.")
    if name not in ("float32", "float64"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {value!r}")
    return name


def _arrays(backend: Backend, device: str | None, dtype: str, root: np.random.SeedSequence) -> Arrays:
    if backend == "torch":
        from ._torch import load

        load()
        from ._torch._tensors import Tensors

        return Tensors("cpu" if device is None else device, dtype, root)
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r} needs backend='torch'; numpy computes on the CPU")
    return NumpyArrays(dtype, root)
