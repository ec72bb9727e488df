"""What a claim is: one record that says what is claimed, where it is from, and what it is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bounds._certificate import Certificate

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from bounds._verify import Verification

__all__ = ["PAPER", "Claim"]

PAPER = "arXiv:2305.18399"


@dataclass(frozen=True)
class Claim:
    """One claim: an inequality, the function that certifies it, and the inputs on which it is to be tried.

    label: short name without spaces ("theorem-5.1").  statement: LaTeX, without dollar signs.  function: takes the
    arguments of one example and returns a `Certificate` (`bounds.certify` makes one).  strategy: a function without
    arguments that gives a hypothesis strategy of tuples of these arguments; so nothing is loaded before it is drawn
    from.  source: where it is printed.  status: "proved", "classical", "conjecture", or "false as printed" (statement
    and function are then the corrected form, proved).  erratum: what is wrong in print, with a counterexample; "" if
    nothing.

    Own claims are stated and tried in the same way; prints as LaTeX in a notebook.
    Raises ValueError for an empty label, one with spaces, or a function or strategy that cannot be called.

    >>> from hypothesis import strategies as st
    >>> from bounds import certify
    >>> claim = Claim(
    ...     label="mean-square",
    ...     statement=r"2xy \\le x^2 + y^2",
    ...     function=lambda x, y: certify("mean-square", "school", 2 * x * y, x * x + y * y, tolerance=0),
    ...     strategy=lambda: st.tuples(st.fractions(), st.fractions()),
    ...     source="school",
    ... )
    >>> claim.verify(examples=20).verdict.name
    'HOLDS'
    """

    label: str
    statement: str
    function: Callable[..., Certificate]
    strategy: Callable[[], SearchStrategy[tuple[Any, ...]]]
    source: str
    status: str = "proved"
    erratum: str = ""

    def __post_init__(self) -> None:
        if not self.label or self.label.split() != [self.label]:
            raise ValueError(f"label must be a text without spaces, got {self.label!r}")
        for name in ("function", "strategy"):
            if not callable(getattr(self, name)):
                hint = "; write lambda: before it" if name == "strategy" else ""
                raise ValueError(f"{name} of {self.label} must be callable, got {getattr(self, name)!r}{hint}")

    def verify(self, *, examples: int = 50, seed: int = 0) -> Verification:
        """Try the claim on drawn examples; reproducible by seed.

        examples: how many to draw, at least 1; seed: a nonnegative integer.  Returns a record with the number of each
        verdict, the smallest slack and the input that met it, and, where one fails, a shrunk counterexample. What
        rounding leaves UNDECIDED is tried again with exact=True where the function has it.
        Raises ValueError for examples or seed out of range, for a strategy that draws no tuples, and for a function
        that returns no Certificate.
        """
        from bounds._verify import verify

        return verify(self, examples=examples, seed=seed)

    def _repr_latex_(self) -> str:
        return f"${self.statement}$"
