"""The dual E sigma(X) sigma(Y) to any number of digits, by the Hermite series or by a double integral.

The series sum of c_k^2 rho^k ends where its Parseval tail, |rho|^(K+1) (E sigma^2 - sum of c_k^2 up to K), falls below
the digits: soon for |rho| well inside (-1, 1), and for smooth sigma everywhere. Where sigma has kinks and |rho| is near
1 the double integral of `_double` takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from mpmath import libmp

from .. import _tree as t
from .._activation import Activation
from ._double import TOO_LONG, double_integral, too_slow
from ._mean import mean
from ._moments import Run, Wanted, precise, run
from ._raw import LOG_10, ONE, ZERO, Raw, bits_of, from_fraction, log_size

_GUARD_DIGITS = 3.0
_SHORT = 64
_QUICK = 2.0  # seconds within which no other route is looked for


@dataclass(frozen=True)
class Estimate:
    """A value and the logarithm of its error."""

    value: Raw
    error: float


def dual_value(sigma: Activation, rho: Fraction, digits: int) -> Raw:
    """E sigma(X) sigma(Y) relative to itself, or to twice the digits relative to E sigma^2."""
    second = precise(sigma, 1, digits, Wanted((0,))).second
    if rho == 1 or second == ZERO:
        return second
    if rho == -1:
        return mean(_product(sigma), digits)
    goal, need = digits * LOG_10, digits + _GUARD_DIGITS
    floor, limit = log_size(second) - goal, 2.0 * digits + 10
    while True:
        found = _estimate(sigma, rho, need, digits)
        lacking = found.error + goal - max(log_size(found.value), floor)
        if lacking <= 0 or need >= limit:
            return found.value
        need = min(math.ceil(need + lacking / LOG_10 + 1), limit)


def _product(sigma: Activation) -> Activation:
    """sigma(x) sigma(-x), whose mean is the dual at -1."""
    mirrored = t.substitute(sigma.expr, t.neg(t.X))
    return Activation(t.mul(sigma.expr, mirrored), f"({sigma.name})(x)*({sigma.name})(-x)", "arithmetic")


def _estimate(sigma: Activation, rho: Fraction, need: float, digits: int) -> Estimate:
    """The series or the double integral, whichever is the faster."""
    if rho == 0:
        return _summed(run(sigma, 1, need), rho, 0)
    decay = -math.log1p(-float(1 - abs(rho))) if abs(rho) > Fraction(1, 2) else -_log(abs(rho))
    enough = max(1, math.ceil(need * LOG_10 / decay))
    degree = min(_SHORT, enough)
    while True:
        found = run(sigma, degree, need)
        tail = _log_tail(found, degree)
        if degree == enough or tail - (degree + 1) * decay <= -need * LOG_10:
            return _summed(found, rho, degree)
        degree = min(_next_degree(sigma, found, degree, decay, need), enough)
        seconds = _seconds(found, degree)
        if seconds > _QUICK:
            plan = double_integral(sigma, rho, need)
            if plan is not None and plan.seconds < seconds:
                return Estimate(*plan.value(digits))
            if seconds > TOO_LONG:
                raise too_slow(sigma, rho, digits, singular=plan is None)


def _next_degree(sigma: Activation, found: Run, degree: int, decay: float, need: float) -> int:
    """Where the series of an analytic sigma will end: its tail falls like exp(-a K^p), and rho^K helps.

    p is 1/2 for poles off the line, 1 for erf, more for entire functions; two tails tell it. Kinks make the tail
    algebraic: then only rho^K counts.
    """
    if sigma.is_opaque or len(sigma.pieces) > 1:
        return 10**9
    first, last = (max(-_log_tail(found, k), 0.1) for k in (degree // 2, degree))
    p = min(max(math.log2(last / first), 0.3), 1.5)
    low, high = degree, 10**9
    while high - low > 1:
        middle = (low + high) // 2
        falls = last * (middle / degree) ** p + middle * decay
        low, high = (low, middle) if falls >= need * LOG_10 else (middle, high)
    return max(math.ceil(1.08 * high) + 8, 5 * degree // 4)


def _seconds(found: Run, degree: int) -> float:
    """What a series of so many terms costs (measured on one core)."""
    return 6e-5 * found.count * degree * (1 + found.digits / 60) * found.digits / 33


def _log(rho: Fraction) -> float:
    return math.log(rho.numerator) - math.log(rho.denominator)


def _log_tail(found: Run, degree: int) -> float:
    """log of (E sigma^2 - sum of c_k^2 up to the degree)/E sigma^2, not below what the digits tell."""
    p = bits_of(found.digits) + 30
    squares = [libmp.mpf_mul(c, c, p, "n") for c in found.coefficients[: degree + 1]]
    rest = libmp.mpf_sub(found.second, libmp.mpf_sum(squares, p, "n"), p, "n")
    return max(log_size(rest) - log_size(found.second), -found.digits * LOG_10)


def _summed(found: Run, rho: Fraction, degree: int) -> Estimate:
    """sum of c_k^2 rho^k with the error of each c_k and the tail.

    For rho = 0 only c_0 counts, and there is no tail.
    """
    p = bits_of(found.digits) + 60
    r, power, terms, errors = from_fraction(rho, p), ONE, list[Raw](), [-math.inf]
    for k in range(degree + 1):
        c = found.coefficients[k]
        terms.append(libmp.mpf_mul(libmp.mpf_mul(c, c), power, p, "n"))
        if c != ZERO or found.differences[k] != ZERO:  # else 0 by parity
            e, size = found.error(k), log_size(c)
            errors.append(max(size + math.log(2), e) + e + log_size(power))
        power = libmp.mpf_mul(power, r, p, "n")
    if rho:
        errors.append(_log_tail(found, degree) + log_size(found.second) + log_size(power))
    top = max(errors)
    error = top + math.log(sum(math.exp(e - top) for e in errors)) if top > -math.inf else top
    return Estimate(libmp.mpf_sum(terms, p, "n"), error)
