"""What a simulation of finite networks has found: a record of every layer of every run, and its statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._gram import as_real
from ._layer import Layer
from ._measures import Measures, measures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ._comparison import Comparison
    from ._dynamics import Trajectory
    from ._wide import Arrays

Floats: TypeAlias = NDArray[np.float64]
_COLUMNS = ("isometry_gap", "log_isometry_gap", "potential", "log_potential", "max_correlation")
_DISTANCES = ("distance_max", "distance_frobenius")


@dataclass(frozen=True, eq=False)
class Simulation:
    """Independent random networks on one batch: each quantity has shape (runs, depth + 1), entry 0 being the input.

    isometry_gap, log_isometry_gap, potential, log_potential, max_correlation, each with its _error, isometry_gap_lower,
    and status: as in `Trajectory`, with batch normalisation, too; errors are those of what is computed from a Gram
    matrix of floats, deviations over runs those of networks. distance_max, distance_frobenius: of the Gram matrix to
    that of infinite width, the largest difference of entries and the root of the sum of all squares; nan where there is
    no mean field, for the reason that mean_field_reason gives ("" elsewhere). gram: (runs, n, n), the last of each run;
    gram_mean, gram_variance: (depth + 1, n, n), over runs (variance nan for one run, inf or 0 of entries beyond 1e150,
    1e-150). width: (depth,). layers, initial_gram (n, n), eps, method, backend, device, dtype: what was run; seed: the
    root of all random numbers, for `rng=`.
    """

    layer: NDArray[np.int64]
    isometry_gap: Floats
    isometry_gap_error: Floats
    isometry_gap_lower: Floats
    log_isometry_gap: Floats
    log_isometry_gap_error: Floats
    potential: Floats
    log_potential: Floats
    log_potential_error: Floats
    max_correlation: Floats
    max_correlation_error: Floats
    status: NDArray[np.str_]
    distance_max: Floats
    distance_frobenius: Floats
    gram: Floats
    gram_mean: Floats
    gram_variance: Floats
    mean_field_reason: str
    initial_gram: Floats
    layers: tuple[Layer, ...]
    width: NDArray[np.int64]
    eps: float
    method: str
    backend: str
    device: str
    dtype: str
    seed: np.random.SeedSequence
    label: str

    @property
    def runs(self) -> int:
        """Number of networks."""
        return len(self.isometry_gap)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layer) - 1

    def mean(self, column: str = "isometry_gap") -> Floats:
        """(depth + 1,), the mean over runs of a column, such as "isometry_gap" or "distance_max"."""
        return np.asarray(self._values(column).mean(axis=0))

    def standard_error(self, column: str = "isometry_gap") -> Floats:
        """(depth + 1,), the deviation over runs by the root of their number; nan for one run and where one is inf."""
        values = self._values(column)
        if self.runs == 1:
            return np.full(self.depth + 1, math.nan)
        with np.errstate(invalid="ignore"):
            return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(self.runs))

    def quantiles(self, p: ArrayLike = (0.05, 0.5, 0.95), column: str = "isometry_gap") -> Floats:
        """(len(p), depth + 1), or (depth + 1,) for a single p: quantiles over runs, which are values of runs."""
        wanted = as_real(p, "p")
        if not np.all((wanted >= 0.0) & (wanted <= 1.0)):
            raise ValueError(f"p must lie in [0, 1], got {p!r}")
        return np.asarray(np.quantile(self._values(column), wanted, axis=0, method="inverted_cdf"))

    def _values(self, column: str) -> Floats:
        if column not in (*_COLUMNS, *_DISTANCES):
            raise ValueError(f"column must be one of {', '.join((*_COLUMNS, *_DISTANCES))}, got {column!r}")
        return np.asarray(getattr(self, column))

    def compare(self, trajectory: Trajectory) -> Comparison:
        """Beside a mean-field trajectory from the same Gram matrix: z-scores, the band of theory, and where they part.

        `trajectory(simulation.layers, simulation.initial_gram)` is the one. The first comparison of an activation takes
        a second, of a steep one (sin(30*x)) many. Raises ValueError for a trajectory of other layers, of another depth
        or from another start, and PrecisionError as `meanfield._fluctuations`.
        """
        from ._comparison import compared

        return compared(self, trajectory)

    def to_pandas(self) -> pd.DataFrame:
        """One row per run and layer. Raises MissingDependencyError without pandas (extra `tables`)."""
        try:
            import pandas as pd
        except ImportError as error:
            from hermite.errors import MissingDependencyError

            raise MissingDependencyError("to_pandas needs pandas: pip install 'isogram[tables]'") from error
        data: dict[str, Any] = {
            "run": np.repeat(np.arange(self.runs), self.depth + 1),
            "layer": np.tile(self.layer, self.runs),
            "width": np.tile(np.concatenate([[0], self.width]), self.runs),
        }
        for name in (*_COLUMNS, *_DISTANCES, "status"):
            data[name] = getattr(self, name).reshape(-1)
        return pd.DataFrame(data)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The isometry gap of the runs against depth, their mean, and the band of theory where there is one."""
        from .plotting import plot_simulation

        return plot_simulation(self, ax=ax)

    def __repr__(self) -> str:
        n = len(self.initial_gram)
        return (
            f"Simulation({self.label!r}, runs={self.runs}, n={n}, width={_shown(self.width)}, depth={self.depth}, "
            f"method={self.method!r}, backend={self.backend!r}, dtype={self.dtype!r})"
        )


def _shown(width: NDArray[np.int64]) -> str:
    return str(int(width[0])) if len(set(width.tolist())) == 1 else str(width.tolist())


class Recorder:
    """Collects what runs have found, in their order, whatever number of them comes at once."""

    def __init__(
        self,
        layers: tuple[Layer, ...],
        widths: tuple[int, ...],
        runs: int,
        start: Floats,
        index: NDArray[np.intp],
        mean_field: list[Floats] | str,
    ) -> None:
        self.layers, self.widths, self.index = layers, widths, index
        self.start = start[np.ix_(index, index)]
        self.kind = {
            "duplicates": len(start) < len(index),
            "over_batch": any(layer.normalization == "batch" for layer in layers),
        }
        self.mean_field = mean_field
        shape = (runs, len(layers) + 1)
        self.columns = {name: np.full(shape, math.nan) for name in (*Measures._fields[:-1], *_DISTANCES)}
        self.status = np.full(shape, "", dtype="<U10")
        self.done = 0
        n = len(index)
        self.mean = np.zeros((len(layers) + 1, n, n))
        self.squares = np.zeros((len(layers) + 1, n, n))
        self.last: list[Floats] = []

    def add(self, found: list[Floats]) -> None:
        """The Gram matrices of the distinct inputs of some runs after each layer: (these runs, m, m) each."""
        count = len(found[0]) if found else len(self.status) - self.done
        rows = slice(self.done, self.done + count)
        here = np.ix_(self.index, self.index)
        self._note(rows, 0, self.start[None], count)
        for l, K in enumerate(found, 1):
            self._note(rows, l, K if not self.kind["duplicates"] else K[:, here[0], here[1]], count)
        last = found[-1] if found else None
        self.last += [self.start] * count if last is None else [each[here] for each in last]
        self.done += count

    def _note(self, rows: slice, l: int, K: Floats, count: int) -> None:
        found = measures(K, **self.kind)
        for name, value in found._asdict().items():
            (self.status if name == "status" else self.columns[name])[rows, l] = value
        if not isinstance(self.mean_field, str):
            off = np.abs(K - self.mean_field[l])
            largest = off.max(axis=(-2, -1))
            self.columns["distance_max"][rows, l] = largest
            off /= np.where(largest > 0.0, largest, 1.0)[:, None, None]  # of which squares stay in range
            self.columns["distance_frobenius"][rows, l] = largest * np.sqrt(np.sum(off * off, axis=(-2, -1)))
        for i, each in enumerate(np.broadcast_to(K, (count, *K.shape[1:])), self.done + 1):
            step = each - self.mean[l]
            self.mean[l] += step / i
            with np.errstate(over="ignore"):  # inf, where entries exceed 1e150
                self.squares[l] += step * (each - self.mean[l])

    def settle(self, method: str, arrays: Arrays, root: np.random.SeedSequence, eps: float) -> Simulation:
        """The simulation of the runs that were added."""
        kept = slice(0, self.done)
        return Simulation(
            layer=np.arange(len(self.layers) + 1),
            **{name: values[kept] for name, values in self.columns.items()},
            status=self.status[kept],
            gram=np.array(self.last),
            gram_mean=self.mean,
            gram_variance=self.squares / (self.done - 1) if self.done > 1 else np.full_like(self.squares, math.nan),
            mean_field_reason=self.mean_field if isinstance(self.mean_field, str) else "",
            initial_gram=self.start,
            layers=self.layers,
            width=np.array(self.widths, dtype=np.int64),
            eps=eps,
            method=method,
            backend=arrays.name,
            device=arrays.device,
            dtype=str(arrays.dtype),
            seed=root,
            label=", ".join(dict.fromkeys(x.label for x in self.layers)),
        )
