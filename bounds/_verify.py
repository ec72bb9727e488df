"""Trying a claim on drawn examples: counts, the tightest input, and the smallest counterexample if there is one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bounds._certificate import Certificate, Verdict, worst
from bounds._judge import PATIENCE
from hermite._activation import Activation, activation
from hermite.errors import MissingDependencyError, PrecisionError
from meanfield._layer import Layer

if TYPE_CHECKING:
    from bounds._claim import Claim

__all__ = ["Verification", "as_python", "verify"]

Arguments: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Verification:
    """What came of trying a claim on examples.

    label, call: of the claim and of its function.  examples: how many were drawn; seed: from what.  counts: (verdict,
    how often) for all four verdicts, so that a claim that never applied is seen.  smallest_slack, tolerance,
    tightest: the smallest finite slack of a side or layer that was decided, its tolerance, and the arguments; None if
    there was none.  Passed over, if there are others, are sides that are one and the same number (slack and tolerance
    0), such as layer 0 of a potential.  undecided: the first arguments on which rounding exceeded the slack, else
    None.  counterexample: shrunk arguments on which the claim fails, else None.
    """

    label: str
    call: str
    examples: int
    seed: int
    counts: tuple[tuple[Verdict, int], ...]
    smallest_slack: float | None
    tolerance: float | None
    tightest: Arguments | None
    tightest_exact: bool
    undecided: Arguments | None
    counterexample: Arguments | None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict met: FAILS, UNDECIDED, HOLDS, or NOT_APPLICABLE if the claim never applied."""
        return worst(verdict for verdict, count in self.counts if count)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the arguments as Python text."""
        return {
            "label": self.label,
            "verdict": self.verdict.name,
            "examples": self.examples,
            "seed": self.seed,
            "counts": {verdict.name: count for verdict, count in self.counts},
            "smallest_slack": self.smallest_slack,
            "tolerance": self.tolerance,
            "tightest": self._written(self.tightest, exact=self.tightest_exact),
            "undecided": self._written(self.undecided),
            "counterexample": self._written(self.counterexample),
        }

    def summary(self) -> str:
        """Two or three lines of text; the inputs can be pasted into Python."""
        counts = ", ".join(f"{count} {verdict.name}" for verdict, count in self.counts)
        lines = [f"{self.label}: {self.verdict.name} ({self.examples} examples, seed {self.seed}: {counts})"]
        if self.smallest_slack is not None:
            lines.append(f"  smallest slack {self.smallest_slack:.6g}, tolerance {self.tolerance:.2g}, at")
            lines.append(f"    {self._written(self.tightest, exact=self.tightest_exact)}")
        if self.undecided is not None:
            lines.append(f"  rounding exceeds the slack at\n    {self._written(self.undecided)}")
        if self.counterexample is not None:
            lines.append(f"  fails at\n    {self._written(self.counterexample)}")
        return "\n".join(lines)

    __str__ = summary

    def _written(self, arguments: Arguments | None, *, exact: bool = False) -> str | None:
        if arguments is None:
            return None
        return f"{self.call}({', '.join([*map(as_python, arguments), *(['exact=True'] if exact else [])])})"


def verify(claim: Claim, *, examples: int = 50, seed: int = 0) -> Verification:
    """Try a claim on drawn examples, as `Claim.verify` says.

    One seed gives one answer, in every process.
    """
    _check_count("examples", examples, 1)
    _check_count("seed", seed, 0)
    seen = _Seen(claim)
    _draw(claim, seen.visit, examples, seed, shrink=False)
    counterexample = _smallest_failure(claim, examples, seed) if seen.counts[Verdict.FAILS] else None
    slack, tolerance, tightest, exact = seen.tightest or seen.equal or (None, None, None, False)
    return Verification(
        label=claim.label,
        call=getattr(claim.function, "__name__", type(claim.function).__name__),
        examples=sum(seen.counts.values()),
        seed=seed,
        counts=tuple(seen.counts.items()),
        smallest_slack=slack,
        tolerance=tolerance,
        tightest=tightest,
        tightest_exact=exact,
        undecided=seen.undecided,
        counterexample=counterexample,
    )


def as_python(value: Any) -> str:
    """The value as Python text that gives it back: arrays, layers, activations, numbers, and sequences of them.

    >>> as_python([Layer("tanh", gain=0.5), np.eye(1)])
    "[Layer('tanh', gain=0.5), np.array([[1.0]])]"
    >>> as_python(([[Fraction(1, 3)]], 2))
    '([[Fraction(1, 3)]], 2)'
    """
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r})"
    if isinstance(value, Layer):
        given = [f"{k}={v!r}" if isinstance(v, str) else f"{k}={_number(v)}" for k, v in value.options.items()]
        return f"Layer({', '.join([_text(value.activation), *given])})"
    if isinstance(value, Activation):
        return _text(value)  # a text, which every function that takes activations reads
    if isinstance(value, list):
        return f"[{', '.join(map(as_python, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(as_python, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


class _Seen:
    """What has come of the examples so far."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.counts = dict.fromkeys(Verdict, 0)
        self.tightest: tuple[float, float, Arguments, bool] | None = None
        self.equal: tuple[float, float, Arguments, bool] | None = None
        self.undecided: Arguments | None = None

    def visit(self, arguments: Arguments) -> None:
        certificate = _certificate(self.claim, arguments)
        self.counts[certificate.verdict] += 1
        if certificate.verdict is Verdict.UNDECIDED and self.undecided is None:
            self.undecided = arguments
        sides = zip(
            np.ravel(certificate.slack).tolist(),
            np.ravel(certificate.tolerance).tolist(),
            certificate.verdicts,
            strict=True,
        )
        for slack, tolerance, verdict in sides:
            # the slack of an undecided side is rounding
            if verdict not in (Verdict.HOLDS, Verdict.FAILS) or not math.isfinite(slack):
                continue
            if slack == tolerance == 0:
                self.equal = self.equal or (slack, tolerance, arguments, certificate.exact)
            elif self.tightest is None or slack < self.tightest[0]:
                self.tightest = (slack, tolerance, arguments, certificate.exact)


def _smallest_failure(claim: Claim, examples: int, seed: int) -> Arguments:
    """The same draws once more, now stopping at a failure: hypothesis then shrinks it."""
    failing: list[Arguments] = []

    def visit(arguments: Arguments) -> None:
        if _certificate(claim, arguments).verdict is Verdict.FAILS:
            failing.append(arguments)
            raise _FailsError

    try:
        _draw(claim, visit, examples, seed, shrink=True)
    except _FailsError:
        return failing[-1]  # hypothesis ends by running the smallest once more
    raise AssertionError(f"internal error: {claim.label} failed on seed {seed}, but not again; please report")


class _FailsError(Exception):
    """Raised inside a drawn example, for hypothesis to shrink."""


def _draw(claim: Claim, visit: Callable[[Arguments], None], examples: int, seed: int, *, shrink: bool) -> None:
    from bounds._draws import draw_each

    draw_each(claim.strategy(), visit, examples, seed, shrink=shrink)


def _certificate(claim: Claim, arguments: Any) -> Certificate:
    if not isinstance(arguments, tuple):
        raise ValueError(
            f"the strategy of {claim.label} must draw tuples of arguments, got {arguments!r}; wrap it in st.tuples(...)"
        )
    certificate = claim(*arguments)
    if certificate.verdict is not Verdict.UNDECIDED or not claim.has_exact:
        return certificate
    token = PATIENCE.set(0.0)  # no clock: one seed gives one answer
    try:
        return claim(*arguments, exact=True)  # rounding exceeded the slack: rational or ball arithmetic decides
    except (MissingDependencyError, PrecisionError):
        return certificate
    finally:
        PATIENCE.reset(token)


def _text(sigma: Any) -> str:
    """Its name where that reads back, else its expression, which always does (but for a callable)."""
    if isinstance(sigma, Activation):
        try:
            known = activation(sigma.name) == sigma
        except (LookupError, ValueError):
            known = False
        return repr(sigma.name if known or sigma.is_opaque else str(sigma.expr))
    return repr(sigma)


def _number(value: Fraction) -> str:
    """A short decimal where one is exact: floats are read as their shortest decimal."""
    if value.denominator == 1:
        return str(value.numerator)
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else repr(value)


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
