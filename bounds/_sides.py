"""What every claim about one Gram matrix begins and ends with: the matrix checked, and both sides with their error."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis, Values, certify

__all__ = ["CHECKED", "EPS", "Sides", "common_correlation", "exact_rows", "one_matrix"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = tuple[tuple[Fraction, ...], ...]

EPS = float(np.finfo(np.float64).eps)
CHECKED = Hypothesis("positive semidefinite", True, "up to rounding")


class Sides(NamedTuple):
    """Both sides of a claim, the error of their difference, and the difference where it is known better."""

    lhs: Values
    rhs: Values
    tolerance: Values
    slack: Values | None = None

    def certify(self, claim: str, title: str, **rest: Any) -> Certificate:
        source = f"arXiv:2305.18399, {title}"
        return certify(claim, source, self.lhs, self.rhs, tolerance=self.tolerance, slack=self.slack, **rest)

    @classmethod
    def together(cls, *each: Sides) -> Sides:
        """One claim of many sides out of as many claims of one."""
        lhs, rhs, tolerance, slack = ([getattr(sides, name) for sides in each] for name in cls._fields)
        return cls(lhs, rhs, tolerance, [_gain(*pair) for pair in zip(each, slack, strict=True)])


def _gain(sides: Sides, slack: Any) -> Any:
    if slack is not None:
        return slack
    # inf <= inf is an equality, where subtraction would say nan
    lhs, rhs = sides.lhs, sides.rhs
    return 0 if lhs == rhs else rhs - lhs  # type: ignore[operator]


def one_matrix(checked: Floats, name: str) -> Floats:
    if checked.ndim != 2:
        raise ValueError(f"{name} must be one matrix (n, n), got shape={checked.shape}; pass each by itself")
    return checked


def exact_rows(G: Any, checked: Floats, name: str, *, unit_diagonal: bool = False) -> tuple[Rows, Hypothesis, int]:
    """The entries as rationals, whether they are positive semidefinite, and the rank if so.

    Floats come from `checked`, which is symmetric; Fractions and ints from G itself, unrounded.
    """
    from meanfield._exact import as_fractions, eliminate

    rows = as_fractions(checked if np.asarray(G).dtype.kind == "f" else G, name=name)
    if rows != tuple(zip(*rows, strict=True)):
        raise ValueError(f"{name} must be symmetric, and exactly so where its entries are exact")
    if unit_diagonal and any(row[i] != 1 for i, row in enumerate(rows)):
        raise ValueError(f"{name} must have diagonal 1, exactly where entries are exact, as correlation gives it")
    outcome = eliminate(rows)
    detail = "" if outcome.positive_semidefinite else "rounding has made it indefinite; pass exact entries"
    return rows, Hypothesis("positive semidefinite", outcome.positive_semidefinite, detail), outcome.rank


def common_correlation(C: Floats | Sequence[Sequence[Any]]) -> Any:
    """The correlation that all inputs have with each other once some change their sign; None if there is none.

    So C = (1 - c) I + c s s^T for signs s. Where both signs of c would do, as for two inputs, it is positive.
    """
    n = len(C)
    size = abs(C[0][1]) if n > 1 else 0
    if any(abs(C[i][j]) != size for i in range(n) for j in range(i)):
        return None
    sign = [-1 if entry < 0 else 1 for entry in C[0]]
    relative = {sign[i] * sign[j] * C[i][j] for i in range(1, n) for j in range(1, i)}
    return None if len(relative) > 1 else relative.pop() if relative else size
