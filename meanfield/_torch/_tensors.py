"""Wide arrays of torch, on a CPU or a GPU: what `meanfield._wide.NumpyArrays` is for numpy, with the same pieces.

A piece of random numbers is drawn by a generator of its own, on the device, seeded by the hash of its key: torch's
randn(64) is not randn(40) followed by randn(24), so nothing but whole pieces is ever drawn. Sums over features are
float64 whatever the wide part is, and float32 products are computed as such: TF32, which rounds to 10 bits, is off
while a simulation runs, and as it was found after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from hermite._activation import Activation

from .._wide import Array, Floats, Key, child
from ._interpreter import evaluate

_GPU_ELEMENTS = 1 << 27  # of a piece of all runs at once: a GB of float64
_GPU_BLOCKS = 64
_CPU_ELEMENTS = 1 << 17


class Tensors:
    """Arrays of torch on one device; see `NumpyArrays` for what each method is for."""

    name = "torch"
    out_of_memory: tuple[type[BaseException], ...] = (MemoryError, torch.OutOfMemoryError)

    def __init__(self, device: str, dtype: str, root: np.random.SeedSequence) -> None:
        self.place, self.root = _device(device), root
        self.device = str(self.place)
        self.type = getattr(torch, dtype)
        self.dtype = np.dtype(dtype)
        self.eps = float(np.finfo(self.dtype).eps)
        self.generator = torch.Generator(device=self.place)

    def at_once(self, elements: int) -> tuple[int, int]:
        limit = _GPU_ELEMENTS if self.place.type == "cuda" else _CPU_ELEMENTS
        runs = max(1, limit // max(elements, 1))
        return runs, max(1, min(_GPU_BLOCKS, limit // max(elements, 1))) if self.place.type == "cuda" else 1

    def normals(self, keys: Sequence[Key], rows: int, columns: int) -> Array:
        out = torch.empty((len(keys), rows, columns), dtype=self.type, device=self.place)
        for target, key in zip(out, keys, strict=True):
            seed = int(child(self.root, key).generate_state(1, np.uint64)[0]) >> 1  # torch takes 63 bits
            self.generator.manual_seed(seed)
            torch.randn((rows, columns), generator=self.generator, out=target, dtype=self.type, device=self.place)
        return out

    def beside(self, pieces: list[Array]) -> Array:
        return torch.cat(pieces, dim=-1)

    def product(self, a: Array, b: Array) -> Array:
        return a @ b

    def wide(self, array: Floats) -> Array:
        return torch.tensor(np.ascontiguousarray(array), dtype=self.type, device=self.place)

    def empty(self, *shape: int) -> Array:
        return torch.empty(shape, dtype=self.type, device=self.place)

    def double(self, array: Array) -> Array:
        return array.to(torch.float64)

    def subtract(self, a: Array, b: Array) -> Array:
        return a.sub_(b)

    def floats(self, array: Array) -> Floats:
        return np.asarray(array.detach().to(device="cpu", dtype=torch.float64).numpy())

    def where(self, condition: Array, a: Array, b: float) -> Array:
        return torch.where(condition, a, torch.as_tensor(b, dtype=self.type, device=self.place))

    def sigma(self, sigma: Activation) -> Callable[[Array], Array]:
        if sigma.is_opaque and self.place.type != "cpu":
            raise ValueError(
                f"{sigma.name} is a Python callable, which runs on numpy alone; write it as a text, or use device='cpu'"
            )
        return lambda u: evaluate(sigma.expr, u)

    def each(self, function: Callable[[int], Any], starts: Sequence[int]) -> list[Any]:
        return [function(start) for start in starts]

    @contextmanager
    def running(self) -> Iterator[None]:
        """No gradients, no TF32, no autocast to 16 bits; everything is as before after it."""
        kept = [(owner, name, getattr(owner, name)) for owner, name, _ in _exact_products()]
        try:
            for owner, name, value in _exact_products():
                setattr(owner, name, value)
            with torch.no_grad(), torch.autocast(self.place.type, enabled=False):
                yield
        finally:
            for owner, name, value in kept:
                setattr(owner, name, value)


def _exact_products() -> list[tuple[Any, str, Any]]:
    """What makes products of float32 products of float32; torch refuses to mix its older switches with the newer."""
    backends = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return [(backends.cuda.matmul, "allow_tf32", False)]
    return [(each.matmul, "fp32_precision", "ieee") for each in (backends.cuda, backends.mkldnn)]


def _device(name: str) -> torch.device:
    """The device of that name, which must be there."""
    try:
        device = torch.device(str(name))
    except RuntimeError:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:0', 'cuda:1', ..., got {name!r}") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cpu" and device.index is not None):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:0', 'cuda:1', ..., got {name!r}")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise ValueError(f"device={name!r}: this torch ({torch.__version__}) sees no CUDA device; use device='cpu'")
        if (device.index or 0) >= count:
            raise ValueError(f"device={name!r}: there {'is' if count == 1 else 'are'} {count}, numbered from cuda:0")
    return device
