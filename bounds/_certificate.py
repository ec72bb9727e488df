"""The answer to "does this inequality hold here?": one record, one rule that decides.

Every claim is arranged as ``lhs <= rhs``, over one side, two sides (lower, upper) or the layers of a
network.  `certify` is the only place where a verdict is made; rounding never turns into a verdict,
because each side brings the bound on its own rounding error as `tolerance`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Certificate", "Hypothesis", "Verdict", "certify", "worst"]

FloatArray: TypeAlias = NDArray[np.float64]
Number: TypeAlias = float | Fraction
Values: TypeAlias = Number | Sequence[Number] | Sequence[Sequence[Number]] | FloatArray
Objects: TypeAlias = NDArray[Any]  # of floats and Fractions

# A summary names at most this many sides: a claim over 50 layers must stay readable.
_SHOWN = 4


class Verdict(Enum):
    """What a certificate says; the value explains it in words.

    >>> print(Verdict.UNDECIDED.name, "-", Verdict.UNDECIDED.value)
    UNDECIDED - rounding is larger than the slack: exact=True, where offered, decides
    """

    HOLDS = "lhs <= rhs, whatever the rounding"
    FAILS = "lhs > rhs by more than rounding"
    UNDECIDED = "rounding is larger than the slack: exact=True, where offered, decides"
    NOT_APPLICABLE = "a hypothesis is false, so nothing is claimed"


_WORST_FIRST = (Verdict.FAILS, Verdict.UNDECIDED, Verdict.HOLDS, Verdict.NOT_APPLICABLE)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Worst verdict among the applicable ones, NOT_APPLICABLE if there is none.

    >>> worst([Verdict.HOLDS, Verdict.NOT_APPLICABLE]).name
    'HOLDS'
    """
    return min(verdicts, key=_WORST_FIRST.index, default=Verdict.NOT_APPLICABLE)


@dataclass(frozen=True)
class Hypothesis:
    """One hypothesis of a claim: its name, whether it holds here, the numbers that decided, and whose it is.

    `side` is the name of the one side it belongs to, or "" when the whole claim rests on it.
    """

    name: str
    holds: bool
    detail: str = ""
    side: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {'true' if self.holds else 'false'}"
        text += f" ({self.detail})" if self.detail else ""
        return f"{text} [{self.side} side only]" if self.side else text


@dataclass(frozen=True, eq=False)
class Certificate:
    """The verdict on `lhs <= rhs` at one input, with everything it rests on.

    claim: label ("theorem-4.1").  source: where it is printed.  lhs, rhs: floats, or arrays over the sides
    (lower, upper), over layers, or over both (2, layers).  slack: rhs - lhs, where possible better than the
    difference of the floats shown.  tolerance: bound on the error of slack.  hypotheses: records with their
    truth here.  verdict: worst of `verdicts`, which has one verdict per entry of slack (flattened).
    statement: what lhs and rhs are, in words.  sides: names of the sides, empty for layers alone.  exact:
    decided by exact arithmetic.  threshold_layer: layer from which the printed statement claims to hold;
    first_informative_layer: first layer where the bound is below the gap at layer 0; both None without depth.

    `bool()` raises TypeError, since UNDECIDED is neither true nor false.

    >>> c = certify("demo", "school", 1.0, 2.0, tolerance=1e-15)
    >>> c.verdict.name, c.holds, c.slack
    ('HOLDS', True, 1.0)
    """

    claim: str
    source: str
    lhs: float | FloatArray
    rhs: float | FloatArray
    slack: float | FloatArray
    tolerance: float | FloatArray
    hypotheses: tuple[Hypothesis, ...]
    verdict: Verdict
    verdicts: tuple[Verdict, ...] = ()
    statement: str = ""
    sides: tuple[str, ...] = ()
    exact: bool = False
    threshold_layer: int | None = None
    first_informative_layer: int | None = None

    def __post_init__(self) -> None:
        if not self.verdicts:
            object.__setattr__(self, "verdicts", (self.verdict,))
        for name in ("lhs", "rhs", "slack", "tolerance"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def holds(self) -> bool:
        """True exactly when the verdict is HOLDS (not when it is UNDECIDED or NOT_APPLICABLE)."""
        return self.verdict is Verdict.HOLDS

    @property
    def false_hypotheses(self) -> tuple[str, ...]:
        """Names of the hypotheses that are false here."""
        return tuple(h.name for h in self.hypotheses if not h.holds)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"a Certificate ({self.claim}: {self.verdict.name}) has no truth value, because UNDECIDED and "
            "NOT_APPLICABLE are neither true nor false; ask .verdict or .holds"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Certificate):
            return NotImplemented
        # repr tells -0.0 from 0.0 and lets nan equal nan: two certificates are equal when they read the same
        return repr(self.to_dict()) == repr(other.to_dict())

    def __hash__(self) -> int:
        return hash((self.claim, self.source, self.verdicts))

    def to_dict(self) -> dict[str, Any]:
        """The same content as strings, bools, floats, lists and None; infinities and nan stay floats."""
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(self)}

    def summary(self) -> str:
        """Text of a few lines: verdict, statement, the worst sides (verdict, then slack), hypotheses.

        >>> print(certify("demo", "school", 1.0, 2.0, tolerance=0.0).summary())
        demo (school): HOLDS - lhs <= rhs, whatever the rounding
          1 <= 2   slack 1, tolerance 0: HOLDS
        """
        lines = [f"{self.claim} ({self.source}): {self.verdict.name} - {self.verdict.value}"]
        if self.statement:
            lines.append(f"  {self.statement}")
        slacks = np.ravel(self.slack)
        order = sorted(range(slacks.size), key=lambda i: (_WORST_FIRST.index(self.verdicts[i]), slacks[i]))
        lines.extend(f"  {self._line(i)}" for i in sorted(order[:_SHOWN]))
        if len(self.verdicts) > _SHOWN:
            lines.append(f"  (the {_SHOWN} worst of {len(self.verdicts)})")
        lines.extend(f"  {h}" for h in self.hypotheses)
        if self.threshold_layer is not None:
            lines.append(f"  claimed from layer {self.threshold_layer}")
        if self.first_informative_layer is not None:
            lines.append(f"  informative from layer {self.first_informative_layer}")
        return "\n".join(lines)

    __str__ = summary

    def _line(self, i: int) -> str:
        lhs, rhs, slack, bar = (float(np.ravel(side)[i]) for side in (self.lhs, self.rhs, self.slack, self.tolerance))
        body = f"{lhs:.10g} <= {rhs:.10g}   slack {slack:.3g}, tolerance {bar:.3g}: {self.verdicts[i].name}"
        at = np.unravel_index(i, np.shape(self.slack))
        labels = [self.sides[at[0]]] if at and self.sides else []
        labels += [f"layer {at[-1]}"] if len(at) > len(labels) else []
        return f"{', '.join(labels)}: {body}" if labels else body


def certify(
    claim: str,
    source: str,
    lhs: Values,
    rhs: Values,
    *,
    tolerance: Values,
    hypotheses: Mapping[str, bool] | Iterable[Hypothesis] = (),
    applicable: bool | Sequence[bool] | NDArray[np.bool_] = True,
    slack: Values | None = None,
    statement: str = "",
    sides: Sequence[str] = (),
    exact: bool = False,
    threshold_layer: int | None = None,
    first_informative_layer: int | None = None,
) -> Certificate:
    """Decide `lhs <= rhs`, once or per side or per layer: the only place where verdicts are made.

    HOLDS if slack > tolerance, or if slack >= 0 and tolerance = 0 (both sides one and the same number, or
    exact arithmetic); FAILS if slack < -tolerance; otherwise UNDECIDED.  Equal sides, infinite ones
    included, have slack 0.  A false hypothesis gives NOT_APPLICABLE, to the side it names or else to all.

    lhs, rhs: numbers, or arrays over sides, layers, or (sides, layers); Fractions and ints are compared
    exactly and shown as floats.  tolerance: bound on the error of slack, one for all or one each.
    hypotheses: name -> truth, or `Hypothesis` records.  applicable: a further mask, one for all or one each.
    slack: rhs - lhs where it is known better than by subtracting.  The rest: as in `Certificate`.
    Raises ValueError for shapes that do not match, a negative or nan tolerance, or a hypothesis naming an
    unknown side, and AssertionError (a defect of the caller) for an applicable side whose slack is nan.

    >>> certify("demo", "school", [0.5, 2.0], [1.0, 1.0], tolerance=0.0, sides=("lower", "upper")).verdicts
    (<Verdict.HOLDS: 'lhs <= rhs, whatever the rounding'>, <Verdict.FAILS: 'lhs > rhs by more than rounding'>)
    """
    left, right = _objects(lhs), _objects(rhs)
    try:
        left, right = np.broadcast_arrays(left, right)
    except ValueError:
        raise ValueError(f"lhs and rhs must match, got shapes {left.shape} and {right.shape}") from None
    shape = left.shape
    bars = _spread("tolerance", tolerance, shape)
    if not all(bar >= 0 for bar in bars.flat):
        raise ValueError(f"tolerance must be >= 0, got {tolerance!r}; pass the bound on the error of slack")
    gains = _difference(left, right) if slack is None else _spread("slack", slack, shape)
    if isinstance(hypotheses, Mapping):
        hypotheses = [Hypothesis(name, bool(holds)) for name, holds in hypotheses.items()]
    records = tuple(hypotheses)
    mask = _mask(_spread("applicable", applicable, shape), records, tuple(sides))
    verdicts = tuple(
        _decide(claim, gain, bar) if here else Verdict.NOT_APPLICABLE
        for gain, bar, here in zip(gains.flat, bars.flat, mask.flat, strict=True)
    )
    numbers = (_shown(left), _shown(right), _shown(gains), _shown(bars))
    depth = (threshold_layer, first_informative_layer)
    labels = (statement, tuple(sides), exact)
    return Certificate(claim, source, *numbers, records, worst(verdicts), verdicts, *labels, *depth)


def _decide(claim: str, slack: Number, tolerance: Number) -> Verdict:
    if slack != slack:
        raise AssertionError(f"internal error: {claim} has slack nan on a side where it applies; please report")
    if slack > tolerance or (tolerance == 0 and slack >= 0):
        return Verdict.HOLDS
    return Verdict.FAILS if slack < -tolerance else Verdict.UNDECIDED


def _difference(lhs: Objects, rhs: Objects) -> Objects:
    # inf <= inf and -inf <= -inf are equalities, where subtraction would say nan
    gains = [0.0 if low == high else high - low for low, high in zip(lhs.flat, rhs.flat, strict=True)]
    return np.array(gains, dtype=object).reshape(lhs.shape)


def _objects(values: Any) -> Objects:
    """The values as an array of floats and Fractions, so that one code compares both."""
    entries = np.asarray(values, dtype=object)
    numbers = [Fraction(v) if isinstance(v, int | Fraction) else float(v) for v in entries.flat]
    return np.array(numbers, dtype=object).reshape(entries.shape)


def _spread(name: str, values: Any, shape: tuple[int, ...]) -> Objects:
    try:
        return np.broadcast_to(_objects(values), shape)
    except ValueError:
        raise ValueError(f"{name} must be one number or have shape {shape}, got {values!r}") from None


def _mask(applicable: Objects, records: tuple[Hypothesis, ...], sides: tuple[str, ...]) -> NDArray[np.bool_]:
    """Where the claim applies: the caller's mask, less the sides whose hypotheses are false."""
    if sides and applicable.shape[:1] != (len(sides),):
        raise ValueError(f"sides must name the entries of the first axis, got {sides!r} for {applicable.shape}")
    mask = np.array(applicable, dtype=bool)
    for record in records:
        if record.side and record.side not in sides:
            raise ValueError(f"hypothesis {record.name!r} names side={record.side!r}; known sides: {sides!r}")
        if not record.holds:
            mask[sides.index(record.side) if record.side else ...] = False
    return mask


def _shown(values: Objects) -> float | FloatArray:
    floats = np.array([_as_float(value) for value in values.flat]).reshape(values.shape)
    return floats if floats.ndim else float(floats)


def _as_float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:  # a Fraction beyond 1e308; the verdict was reached before this rounding
        return math.inf if value > 0 else -math.inf


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Hypothesis):
        return asdict(value)
    return value.name if isinstance(value, Verdict) else value
