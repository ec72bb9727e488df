"""What has been measured at the layers of a module: records of one call each, and the table of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
_SHOWN = 40  # rows of a table
_MISSING: dict[str, Any] = {"theorem": "", "status": "", "verdict": "", "vectors": 0, "length": 0}


@dataclass(frozen=True)
class Geometry:
    """How orthogonal the samples are at one place of a network.

    isometry_gap, isometry_gap_error, status: as in `GapEstimate`; "singular" also where there are more samples than
    features, "unresolved" also where the rounding of activations in their own dtype may have made or hidden a linear
    dependence, and "zero" where all samples are 0, with a gap of nan (0/0).
    potential, max_correlation: of the correlation matrix; nan where a sample is 0 and so has no direction.
    """

    isometry_gap: float
    isometry_gap_error: float
    status: str
    potential: float
    max_correlation: float

    @property
    def isometry(self) -> float:
        """exp(-isometry_gap)."""
        return math.exp(-self.isometry_gap)


@dataclass(frozen=True)
class Normalization:
    """Theorem 4.1 at one normalisation layer, about the vectors that it divides by their lengths.

    theorem: "4.1" (root mean square: the vectors are samples as they are), "4.2" (layer normalisation: samples less
    their mean over features) or "4.3" (batch normalisation: features less their mean over the batch).
    vectors, length: how many there are, and of how many entries.
    gap_before, gap_after: isometry gap of the vectors, and of the vectors divided by their lengths, which is what the
    layer gives before epsilon, affine part and rounding; status of both, gap_error of their difference.
    gain: log mean(a^2) - 2 mean(log a), a the lengths, which is gap_before - gap_after where these are finite, and
    known where they are not. predicted_gain: log(1 + cv^2), which the theorem says the gain is at least. gain_error: of
    the difference of these two, by rounding.
    eps_loss: how much of the gain epsilon takes away (log mean(b^2) - 2 mean(log b), b_i = a_i/sqrt(a_i^2/d + eps); nan
    where epsilon is not known).
    gap_actual: the gap of the vectors that came out. gap_after + eps_loss without affine part and rounding.
    """

    theorem: str
    vectors: int
    length: int
    gap_before: float
    gap_after: float
    gap_actual: float
    gap_error: float
    status: str
    gain: float
    predicted_gain: float
    gain_error: float
    eps_loss: float

    @property
    def isometry_before(self) -> float:
        """exp(-gap_before)."""
        return math.exp(-self.gap_before)

    @property
    def isometry_after(self) -> float:
        """exp(-gap_after)."""
        return math.exp(-self.gap_after)

    @property
    def slack(self) -> float:
        """gain - predicted_gain, which the theorem says is not negative."""
        return self.gain - self.predicted_gain

    @property
    def verdict(self) -> str:
        """Of isometry_after >= isometry_before (1 + cv^2): "holds", "fails" or "undecided".

        Where vectors are dependent, it holds, as both isometries are 0; where they are not, or float64 cannot tell, the
        slack decides, unless it is smaller than rounding, as for vectors of one length.
        """
        if self.status == "singular":
            return "holds"
        if abs(self.slack) <= self.gain_error:
            return "undecided"
        return "holds" if self.slack > 0 else "fails"


@dataclass(frozen=True, eq=False)
class LayerMeasurement:
    """One call of one layer, on one batch of samples.

    call: which call it was, counted over all chosen layers from 0; layer, type: name in the module, and class;
    sequence: which of several batches measured at this call (0 where there is one); samples, features: shape of the
    input, flattened, output_features: of the output; dtype: of the input.
    input, output: the geometry of samples before and after.
    normalization: what theorem 4.1 says, or None, and then reason is why.
    input_array, output_array: (samples, features) float64, if they were to be kept.
    """

    call: int
    layer: str
    type: str
    sequence: int
    samples: int
    features: int
    output_features: int
    dtype: str
    input: Geometry
    output: Geometry
    normalization: Normalization | None
    reason: str
    input_array: Floats | None = None
    output_array: Floats | None = None

    def as_row(self) -> dict[str, Any]:
        """All numbers and texts by name, one level deep: those of input and output with these words in front."""
        row: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)[:8]}
        for place, geometry in (("input", self.input), ("output", self.output)):
            row |= {f"{place}_{name}": getattr(geometry, name) for name in (*_names(Geometry), "isometry")}
        found = self.normalization
        for name in (*_names(Normalization), "isometry_before", "isometry_after", "slack", "verdict"):
            row[name] = _MISSING.get(name, math.nan) if found is None else getattr(found, name)
        return row | {"reason": self.reason}


def _names(record: type) -> list[str]:
    return [f.name for f in fields(record)]


@dataclass(frozen=True, eq=False)
class Measurement:
    """What the chosen layers of a module did to a batch, in the order in which they were called.

    rows: one record for each call and batch of samples; module: its class; mode, samples: how it was run, and the axis
    that holds samples; uncalled: names of chosen layers that were never called.
    measurement["gain"] is a column, an array over rows: any key of `as_rows`.
    """

    rows: tuple[LayerMeasurement, ...]
    module: str
    mode: str
    samples: int
    uncalled: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> NDArray[Any]:
        rows = self.as_rows()
        if not isinstance(column, str) or column not in rows[0]:
            raise KeyError(f"no column {column!r}; there are {', '.join(rows[0])}")
        return np.array([row[column] for row in rows])

    def as_rows(self) -> list[dict[str, Any]]:
        """A dictionary for each row, with the same keys."""
        return [row.as_row() for row in self.rows]

    def to_pandas(self) -> pd.DataFrame:
        """`as_rows` as a data frame. Raises MissingDependencyError without pandas (extra `tables`)."""
        try:
            import pandas as pd
        except ImportError as error:
            from hermite.errors import MissingDependencyError

            raise MissingDependencyError("to_pandas needs pandas: pip install 'isogram[tables]'") from error
        return pd.DataFrame(self.as_rows())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Isometry gaps against the calls: of samples before and after, and of what theorem 4.1 is about.

        Gaps that are 0 or inf are left out; several batches at one call are averaged. Raises MissingDependencyError
        without matplotlib (extra `plot`).
        """
        from .plotting import _axes, _drawn

        ax = _axes(ax)
        rows, calls = self.as_rows(), self["call"]
        each = np.unique(calls)
        for name, label, style in _CURVES:
            values = np.array([row[name] for row in rows])
            means = np.array([values[calls == call].mean() for call in each])
            ax.plot(each, _drawn(means), style, label=label)
        ax.set_yscale("log")
        ax.set_xlabel("call of a layer")
        ax.set_ylabel("isometry gap")
        ax.legend()
        return ax

    def __str__(self) -> str:
        n = len(self.rows)
        head = f"{self.module}: {n} row{'s' * (n != 1)}, mode {self.mode!r}, samples on axis {self.samples}"
        table = _aligned([_HEAD, *(_cells(row) for row in self.rows[:_SHOWN])])
        more = [f"... and {n - _SHOWN} more, in as_rows()"] if n > _SHOWN else []
        never = [f"never called: {', '.join(self.uncalled)}"] if self.uncalled else []
        return "\n".join([head, *table, *more, *never])

    def __repr__(self) -> str:
        return f"Measurement({self.module!r}, rows={len(self.rows)}, mode={self.mode!r}, samples={self.samples})"


_CURVES = (
    ("input_isometry_gap", "samples, before", "o-"),
    ("output_isometry_gap", "samples, after", "s-"),
    ("gap_before", "vectors of the theorem", "^:"),
    ("gap_after", "normalised exactly", "v:"),
)
_BEFORE = ("call", "layer", "type", "n", "d", "gap in", "gap out", "potential in", "out")
_HEAD = (*_BEFORE, "thm", "before", "after", "gain", ">= predicted", "verdict")


def _cells(row: LayerMeasurement) -> tuple[str, ...]:
    call = f"{row.call}.{row.sequence}" if row.sequence else str(row.call)
    start = (call, row.layer or "(itself)", row.type, str(row.samples), str(row.features))
    gaps = [row.input.isometry_gap, row.output.isometry_gap, row.input.potential, row.output.potential]
    found = row.normalization
    if found is None:
        return (*start, *map(_number, gaps), "", row.reason)
    numbers = [found.gap_before, found.gap_after, found.gain, found.predicted_gain]
    return (*start, *map(_number, gaps), found.theorem, *map(_number, numbers), found.verdict)


def _number(x: float) -> str:
    return f"{x:.4g}"


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    """Columns two spaces apart, texts to the left and numbers to the right; a reason takes the rest of its line."""
    full = [line for line in lines if len(line) == len(_HEAD)]
    short = [line[:-1] for line in lines if len(line) < len(_HEAD)]
    widths = [max(len(line[i]) for line in [*full, *short] if i < len(line)) for i in range(len(_HEAD))]

    def cell(i: int, text: str, last: bool) -> str:
        if last and i < len(_HEAD) - 1:
            return text
        return text.ljust(widths[i]) if i in (1, 2, 9, 14) else text.rjust(widths[i])

    return ["  ".join(cell(i, text, i == len(line) - 1) for i, text in enumerate(line)).rstrip() for line in lines]
