"""What a claim is: one record that says what is claimed, where it is from, and what it is tried on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from bounds._certificate import Certificate, certify

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from bounds._verify import Verification

__all__ = ["PAPER", "Claim"]

PAPER = "arXiv:2305.18399"


@dataclass(frozen=True)
class Claim:
    """One claim: an inequality, the function that certifies it, and the inputs on which it is to be tried.

    label: short name without spaces ("theorem-5.1").  statement: LaTeX, without dollar signs.  function: takes the
    arguments of one example and returns (lhs, rhs), (lhs, rhs, hypotheses) or a `Certificate`.  strategy: a function
    without arguments that gives a hypothesis strategy of tuples of these arguments; so nothing is loaded before it is
    drawn from.  source: where it is printed.  status: "proved", "classical", "conjecture", or "false as printed"
    (statement and function are then the corrected form, proved).  erratum: what is wrong in print, with a
    counterexample; "" if nothing.

    lhs, rhs: numbers, or arrays over sides or layers; the claim is lhs <= rhs.  hypotheses: a mapping of name -> truth:
    where one is false nothing is claimed.  Of ints and Fractions the verdict is exact; of floats differences up to
    `tolerance` (|lhs| + |rhs|), by default 64 roundings, are UNDECIDED: state the error of your own function there, or
    return `bounds.certify(..., tolerance=)`, which also knows slacks and sides of their own.

    Own claims are stated and tried in the same way; prints as LaTeX in a notebook.
    Raises ValueError for an empty label, one with spaces, a function or strategy that cannot be called, or a tolerance
    that is not >= 0.

    >>> from hypothesis import strategies as st
    >>> claim = Claim(
    ...     label="mean-square",
    ...     statement=r"2xy \\le x^2 + y^2",
    ...     function=lambda x, y: (2 * x * y, x * x + y * y),
    ...     strategy=lambda: st.tuples(st.fractions(), st.fractions()),
    ...     source="school",
    ... )
    >>> claim.verify(examples=20).verdict.name, claim(3, 4).slack
    ('HOLDS', 1.0)
    """

    label: str
    statement: str
    function: Callable[..., Certificate | tuple[Any, ...]]
    strategy: Callable[[], SearchStrategy[tuple[Any, ...]]]
    source: str
    status: str = "proved"
    erratum: str = ""
    tolerance: float = 64 * 2.0**-53

    def __post_init__(self) -> None:
        if not self.label or self.label.split() != [self.label]:
            raise ValueError(f"label must be a text without spaces, got {self.label!r}")
        for name in ("function", "strategy"):
            if not callable(getattr(self, name)):
                hint = "; write lambda: before it" if name == "strategy" else ""
                raise ValueError(f"{name} of {self.label} must be callable, got {getattr(self, name)!r}{hint}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance of {self.label} must be >= 0, got {self.tolerance!r}")

    def __call__(self, *arguments: Any, exact: bool = False) -> Certificate:
        """The certificate at these arguments.

        exact: passed on to a function that has it. Raises ValueError for a function that returns something else than
        (lhs, rhs), (lhs, rhs, hypotheses) or a Certificate.
        """
        found = self.function(*arguments, exact=True) if exact else self.function(*arguments)
        if isinstance(found, Certificate):
            return found
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            raise ValueError(
                f"the function of {self.label} must return (lhs, rhs), (lhs, rhs, hypotheses) or a Certificate "
                f"(bounds.certify makes one), got {found!r:.200}"
            )
        lhs, rhs, *hypotheses = found
        room = self._room(lhs, rhs)
        return certify(
            self.label, self.source, lhs, rhs, tolerance=room, hypotheses=hypotheses[0] if hypotheses else ()
        )

    def _room(self, lhs: Any, rhs: Any) -> Any:
        """Of what certify compares: nothing where both sides are exact, or infinite."""
        left, right = np.broadcast_arrays(np.asarray(lhs, dtype=object), np.asarray(rhs, dtype=object))
        sizes = [
            0.0 if _is_exact(a) and _is_exact(b) else _size(a) + _size(b)
            for a, b in zip(left.flat, right.flat, strict=True)
        ]
        return (self.tolerance * np.array(sizes)).reshape(left.shape)

    @property
    def has_exact(self) -> bool:
        """Whether the function takes exact=True."""
        return "exact" in inspect.signature(self.function).parameters

    def verify(self, *, examples: int = 50, seed: int = 0) -> Verification:
        """Try the claim on drawn examples; reproducible by seed.

        examples: how many to draw, at least 1; seed: a nonnegative integer.  Returns a record with the number of each
        verdict, the smallest slack and the input that met it, and, where one fails, a shrunk counterexample. What
        rounding leaves UNDECIDED is tried again with exact=True where the function has it.
        Raises ValueError for examples or seed out of range, for a strategy that draws no tuples, and for a function
        that returns what cannot be compared.
        """
        from bounds._verify import verify

        return verify(self, examples=examples, seed=seed)

    def _repr_latex_(self) -> str:
        return f"${self.statement}$"


def _is_exact(value: Any) -> bool:
    return isinstance(value, int | Fraction)


def _size(value: Any) -> float:
    size = abs(float(value))
    return size if math.isfinite(size) else 0.0
