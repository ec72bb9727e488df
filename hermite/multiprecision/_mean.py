"""E g(X) for a g with a finite mean, to any number of digits."""

from __future__ import annotations

from functools import lru_cache

from mpmath import libmp

from .._activation import Activation
from .._extent import MEAN
from ._layout import layout
from ._moments import advice, with_bits
from ._parity import parity
from ._quadrature import Scheme, settle
from ._raw import LOG_10, ZERO, Raw, bits_of, log_size

_GUARD_DIGITS = 3.0


def mean(sigma: Activation, digits: int) -> Raw:
    """E g relative to itself, or to twice the digits relative to E|g| where it is smaller than that."""
    if parity(sigma, 4 * bits_of(digits) + 40)[1] == 0:
        return ZERO
    need, goal = digits + _GUARD_DIGITS, digits * LOG_10
    while True:
        value, size, miss = _mean(sigma, need)
        error = max(miss, size - need * LOG_10)
        if error + goal <= max(log_size(value), size - goal) or need >= 2 * digits + 10:
            return value
        need = min(need + max((error + goal - log_size(value)) / LOG_10, 1.0) + 1, 2.0 * digits + 10)


@lru_cache(maxsize=64)
def _mean(sigma: Activation, digits: float) -> tuple[Raw, float, float]:
    """The mean by Gauss rules, log E|g|, and the logarithm of the difference to Fejer rules."""

    def compute(bits: int) -> tuple[Raw, float, float]:
        scheme = Scheme(digits, 0, bits, MEAN)
        settled = settle(layout(sigma, digits, 0, MEAN), scheme, sigma.name, advice(sigma), suspicious=sigma.is_opaque)
        a, b = (libmp.mpf_sum([s.sums[i].coefficients[0] for s in settled], bits, "n") for i in (0, 1))
        size = libmp.mpf_sum([s.sums[0].size for s in settled], 60, "n")
        return a, log_size(size), log_size(libmp.mpf_sub(a, b, 60, "n"))

    return with_bits(digits, compute, sigma.name)
