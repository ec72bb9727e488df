"""The one door to python-flint: its import, its precision, and exact numbers in and out of balls.

FLINT keeps one working precision for the whole process (threads included), so it is changed only inside `precision`,
which restores it however the block ends and lets one thread in at a time. Another thread that changes it meanwhile
can make balls wider, never wrong: every operation of ball arithmetic encloses whatever the precision is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from threading import RLock
from typing import Any, TypeAlias

from ..errors import MissingDependencyError

try:
    from flint import acb as acb
    from flint import arb as arb
    from flint import ctx
    from flint import fmpq as fmpq
    from flint import fmpq_poly as fmpq_poly
except ImportError as error:
    raise MissingDependencyError("hermite.certified needs python-flint: pip install 'isogram[rigor]'") from error

Ball: TypeAlias = Any  # flint.arb; the package ships no types
Box: TypeAlias = Any  # flint.acb
Dyadic: TypeAlias = "tuple[int, int]"  # man * 2**exp

_LOCK = RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with this many bits inside the block."""
    with _LOCK:
        before = ctx.prec
        ctx.prec = int(bits)
        try:
            yield
        finally:
            ctx.prec = before


def exact(value: Fraction | int) -> Ball:
    """The ball of a rational number: exact if dyadic and short, else one rounding wide."""
    q = Fraction(value)
    power = q.denominator.bit_length() - 1
    if q.denominator == 1 << power:
        return arb((q.numerator, -power))
    return arb(fmpq(q.numerator, q.denominator))


def between(low: Fraction, high: Fraction) -> Ball:
    """A ball that contains [low, high], ends of any length."""
    return exact((low + high) / 2) + arb(0, exact((high - low) / 2).upper())


def hull(low: Ball, high: Ball) -> Ball:
    """A ball that contains two balls and what lies between them; nan if either is not finite."""
    if not (low.is_finite() and high.is_finite()):
        return arb.nan()
    return low.union(high)


def natural_power(x: Any, n: int) -> Any:
    """x^n for n >= 0 by squaring; FLINT's ** is nan for a ball around 0."""
    out = None
    while n:
        if n & 1:
            out = x if out is None else out * x
        n >>= 1
        x = x * x if n else x
    return arb(1) if out is None else out


def dyadic(point: Ball) -> Dyadic:
    """An exact ball as man * 2**exp, man odd or 0."""
    man, exp = point.man_exp()
    return int(man), int(exp)
