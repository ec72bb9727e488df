"""Wide arrays: what simulations ask of them, and those of numpy.

Every piece of random numbers has a generator of its own, seeded by where it belongs (run, layer, what for, block), so
that it is the same whatever is drawn with it, before it or after it. Shapes are (runs, rows, columns). Tensors are in
`_torch._tensors`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation
from hermite._lean import overwriting
from hermite._threads import cores

Array: TypeAlias = Any  # of numpy or torch, float32 or float64
Floats: TypeAlias = NDArray[np.float64]
Key: TypeAlias = tuple[int, ...]

BLOCK = 4096  # columns of a piece
_CHUNK = 8192  # elements whose temporaries stay in the cache, and in memory that is not handed back in between


class Arrays(Protocol):
    """What a simulation asks of arrays, whoever keeps them; wide ones have one dtype, float32 or float64."""

    name: str
    device: str
    dtype: np.dtype[Any]
    eps: float  # of the wide dtype
    out_of_memory: tuple[type[BaseException], ...]

    def at_once(self, elements: int) -> tuple[int, int]:
        """How many runs to take together, and how many blocks, if a block of one run has so many elements."""

    def normals(self, keys: Sequence[Key], rows: int, columns: int) -> Array:
        """(len(keys), rows, columns) of independent N(0, 1), each key's its own; overwritten by the next call."""

    def beside(self, pieces: list[Array]) -> Array:
        """Columns after columns."""

    def product(self, a: Array, b: Array) -> Array:
        """a @ b; overwritten by the next call."""

    def wide(self, array: Floats) -> Array:
        """As a wide array."""

    def empty(self, *shape: int) -> Array:
        """A wide array that is still to be filled."""

    def double(self, array: Array) -> Array:
        """In float64, for sums; perhaps the same array."""

    def subtract(self, a: Array, b: Array) -> Array:
        """a - b, in place of a."""

    def floats(self, array: Array) -> Floats:
        """As float64 of numpy."""

    def where(self, condition: Array, a: Array, b: float) -> Array:
        """a where the condition holds, else b."""

    def sigma(self, sigma: Activation) -> Callable[[Array], Array]:
        """sigma as a function that may overwrite what it is given."""

    def running(self) -> AbstractContextManager[Any]:
        """What holds while a simulation runs."""

    def each(self, function: Callable[[int], Any], starts: Sequence[int]) -> list[Any]:
        """The function of every start, in their order."""


class NumpyArrays:
    """Arrays on the CPU; see `Arrays`. A block is what fits the cache, and blocks are computed on all cores."""

    name, device = "numpy", "cpu"
    out_of_memory: tuple[type[BaseException], ...] = (MemoryError,)

    def __init__(self, dtype: str, root: np.random.SeedSequence) -> None:
        self.dtype, self.root = np.dtype(dtype), root
        self.eps = float(np.finfo(self.dtype).eps)
        self.local = threading.local()

    def at_once(self, elements: int) -> tuple[int, int]:
        return max(1, (1 << 20) // (self.dtype.itemsize * max(elements, 1))), 1

    def normals(self, keys: Sequence[Key], rows: int, columns: int) -> Array:
        out = self._scratch("normals", (len(keys), rows, columns))
        for target, key in zip(out, keys, strict=True):
            generator = np.random.Generator(np.random.SFC64(child(self.root, key)))
            generator.standard_normal(out=target, dtype=self.dtype)
        return out

    def beside(self, pieces: list[Array]) -> Array:
        return np.concatenate(pieces, axis=-1)

    def product(self, a: Array, b: Array) -> Array:
        return np.matmul(a, b, out=self._scratch("product", (*a.shape[:-1], b.shape[-1])))

    def _scratch(self, name: str, shape: tuple[int, ...]) -> Array:
        """Memory that is used again: what the system has to hand out anew costs more than the arithmetic on it."""
        kept = self.local.__dict__  # of this thread
        if name not in kept or kept[name].shape != shape:
            kept.pop(name, None)
            kept[name] = np.empty(shape, dtype=self.dtype)
        return kept[name]

    def wide(self, array: Floats) -> Array:
        return np.asarray(array, dtype=self.dtype)

    def empty(self, *shape: int) -> Array:
        return np.empty(shape, dtype=self.dtype)

    def double(self, array: Array) -> Array:
        return array.astype(np.float64, copy=False)

    def subtract(self, a: Array, b: Array) -> Array:
        return np.subtract(a, b, out=a)

    def floats(self, array: Array) -> Floats:
        return np.asarray(array, dtype=np.float64)

    def where(self, condition: Array, a: Array, b: float) -> Array:
        return np.where(condition, a, self.dtype.type(b))

    def sigma(self, sigma: Activation) -> Callable[[Array], Array]:
        put = overwriting(sigma.expr)

        def apply(u: Array) -> Array:
            flat = u.reshape(-1)
            for start in range(0, flat.size, _CHUNK):
                put(flat[start : start + _CHUNK])
            return flat.reshape(u.shape)

        return apply

    def running(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def each(self, function: Callable[[int], Any], starts: Sequence[int]) -> list[Any]:
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        def quiet(start: int) -> Any:
            with np.errstate(all="ignore"):  # which holds in one thread alone
                return function(start)

        if len(starts) < 2:
            return [quiet(start) for start in starts]
        with ThreadPoolExecutor(min(cores(), len(starts))) as pool:
            return list(pool.map(quiet, starts))


def child(root: np.random.SeedSequence, key: Key) -> np.random.SeedSequence:
    """The seed of one piece."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key), pool_size=root.pool_size)


def root_of(rng: object) -> np.random.SeedSequence:
    """The seed that `rng=` stands for: None is a fresh one; a Generator is drawn from, and gives another each time."""
    if rng is None:
        return np.random.SeedSequence()
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(word) for word in rng.integers(0, 2**32, size=4)])
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, (bool, np.bool_)) and rng >= 0:
        return np.random.SeedSequence(int(rng))
    raise ValueError(f"rng must be None, an integer >= 0, a SeedSequence or a Generator, got {rng!r}")
