"""Moments to any number of digits: the same quadrature with more digits until every asked quantity has its own.

A run integrates to so many digits of sqrt(E sigma^2). A small variance, residual or coefficient has fewer of its own:
what is missing is added and the run repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from mpmath import libmp

from .._activation import Activation
from .._extent import SQUARE
from ..errors import PrecisionError
from ._layout import layout
from ._parity import is_affine, is_constant, without_zeros
from ._quadrature import MoreBits, Scheme, centred, check_ground, settle
from ._raw import LOG_10, ZERO, Raw, bits_of, log_size

_GUARD_DIGITS = 3.0
_GUARD_BITS = 40  # sums over thousands of nodes, and the conditioning of sigma itself
_MAX_BITS = 60_000
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Run:
    """One quadrature: values by Gauss rules, differences from Fejer rules, to `digits` of sqrt(E sigma^2)."""

    digits: float
    coefficients: tuple[Raw, ...]
    differences: tuple[Raw, ...]
    second: Raw
    variance: Raw
    residual: Raw
    misses: tuple[Raw, Raw, Raw]
    count: int

    @property
    def noise(self) -> float:
        """log of the error of a coefficient in units of 1."""
        return 0.5 * log_size(self.second) - self.digits * LOG_10

    def error(self, k: int) -> float:
        """log of the error of c_k."""
        return max(log_size(self.differences[k]), self.noise)

    @property
    def bound(self) -> float:
        """The error of coefficients relative to sqrt(E sigma^2) and of moments relative to E sigma^2."""
        if self.second == ZERO:
            return 0.0
        size = log_size(self.second)
        worst = max(self.error(k) for k in range(len(self.coefficients))) - 0.5 * size
        return max(math.exp(max(worst, *(log_size(m) - size for m in self.misses), -700.0)), 1e-300)

    def coefficient(self, k: int) -> Raw:
        """c_k; 0 where it is not told from 0."""
        return self.coefficients[k] if log_size(self.coefficients[k]) > self.error(k) else ZERO

    def relative(self, which: int) -> float:
        """log of the relative error of the second moment, the variance or the residual (0, 1, 2)."""
        value = (self.second, self.variance, self.residual)[which]
        if value == ZERO:
            return math.inf
        size = log_size(value)
        # an error e in the values is one of 2 e sqrt(value) in the integral of their square
        expected = max(0.5 * size + self.noise, 2 * self.noise)
        return max(log_size(self.misses[which]), expected) - size


def with_bits(digits: float, compute: Callable[[int], T], name: str) -> T:
    """The computation at a precision behind the digits, repeated with more bits where sigma itself loses them."""
    bits = bits_of(digits) + _GUARD_BITS
    while bits < _MAX_BITS:
        try:
            return compute(bits)
        except MoreBits as more:
            bits += max(more.bits, 32)
    raise PrecisionError(f"{name} loses more than {_MAX_BITS} bits by cancellation; rewrite it")


def advice(sigma: Activation) -> str:
    """What to do where two rules do not agree."""
    if sigma.is_opaque:
        return "declare where it is not smooth: activation(f, breakpoints=[...])"
    return "sigma varies too fast or is too singular there"


@lru_cache(maxsize=64)
def run(sigma: Activation, degree: int, digits: float) -> Run:
    """Coefficients c_0..c_degree and moments to so many digits of sqrt(E sigma^2)."""
    return with_bits(digits, lambda bits: _run(sigma, Scheme(digits, max(degree, 1), bits, SQUARE)), sigma.name)


def _run(sigma: Activation, scheme: Scheme) -> Run:
    p = scheme.bits
    panels = layout(sigma, scheme.digits, scheme.degree, scheme.rate)
    settled = settle(panels, scheme, sigma.name, advice(sigma), suspicious=sigma.is_opaque)
    check_ground(settled, scheme, sigma.name)
    # a callable with one value at thousands of nodes is a constant: no precision would find its variance
    flat = sigma.is_opaque and len({(v, b.f_bits) for s in settled for b in s.blocks for v in b.f}) == 1
    results = []
    for i in (0, 1):
        c = [libmp.mpf_sum([s.sums[i].coefficients[k] for s in settled], p, "n") for k in range(scheme.degree + 1)]
        c = without_zeros(sigma, c, scheme.digits)
        second = libmp.mpf_sum([s.sums[i].square for s in settled], p, "n")
        spread = (ZERO, ZERO) if flat else centred([s.blocks[i] for s in settled], c[0], c[1], p)
        results.append((c, (second, *spread)))
    (c, values), (d, others) = results
    misses = tuple(libmp.mpf_sub(u, v, 60, "n") for u, v in zip(values, others, strict=True))
    return Run(
        scheme.digits,
        tuple(c),
        tuple(libmp.mpf_sub(u, v, 60, "n") for u, v in zip(c, d, strict=True)),
        *values,
        (misses[0], misses[1], misses[2]),
        len(settled),
    )


@dataclass(frozen=True)
class Wanted:
    """Which moments (0 second, 1 variance, 2 residual) and which coefficients have to have all digits of their own."""

    moments: tuple[int, ...] = ()
    coefficients: tuple[int, ...] = ()


def precise(sigma: Activation, degree: int, digits: int, wanted: Wanted) -> Run:
    """A run in which what is wanted has the digits relative to itself.

    A moment of which 4 * digits + 40 digits of the scale show nothing is left as it is, with `relative` above 0.
    A coefficient has them too, or twice the digits relative to sqrt(E sigma^2), where it is smaller than that.
    """
    goal, limit = digits * LOG_10, 4.0 * digits + 40
    need = digits + _GUARD_DIGITS + (5.0 if len(wanted.coefficients) > 3 else 0.0)
    while True:
        found = run(sigma, degree, need)
        if ZERO in (found.second, found.variance):
            return found
        own = [found.relative(i) for i in wanted.moments if not _is_zero(sigma, i)]
        lacking = max([0.0, *(r + goal for r in own), *(_lacking(found, k, goal) for k in wanted.coefficients)])
        unknown = any(r >= 0 for r in own)  # how many digits are missing is not known either
        if lacking <= 0 or (unknown and need >= limit):
            return found
        need = min(2 * need, limit) if unknown else math.ceil(need + lacking / LOG_10 + 1)


def _is_zero(sigma: Activation, moment: int) -> bool:
    """The variance and residual of a constant, the residual of a line."""
    return (moment > 0 and is_constant(sigma)) or (moment > 1 and is_affine(sigma))


def _lacking(found: Run, k: int, goal: float) -> float:
    c, floor = found.coefficients[k], 0.5 * log_size(found.second) - goal
    if c == ZERO and found.differences[k] == ZERO:
        return -math.inf
    return found.error(k) + goal - max(log_size(c), floor)
