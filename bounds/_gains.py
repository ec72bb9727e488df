"""What normalising inputs of lengths a_1, ..., a_n gains, and what it must gain whatever they are.

The gain is a function of the lengths alone, and an equation (`normalization_gain`):

    R(a) = gap(G) - gap(correlation(G)) = log mean(a^2) - 2 mean(log a).

Given cv^2 = v it is least where all lengths but one are equal and that one is longer.  So with s^2 = v/(n-1)

    R(a) >= log(1 + v) - (2/n) [(n-1) log(1 - s) + log(1 + (n-1) s)] = log(1 + v) + 2 Gamma_n(s)  >=  log(1 + v).

Numbers near 1 are written as 1 + u before their logarithm is taken: near equality all of this is quadratic in u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._gamma import excess
from bounds._proven import Between, log_between, settled, sqrt_between
from bounds._sides import EPS, Sides

__all__ = [
    "exact_gain_sides",
    "exact_sharp_sides",
    "gain_between",
    "gain_sides",
    "is_extremal",
    "least_gain_between",
    "sharp_sides",
]

Floats: TypeAlias = NDArray[np.float64]


class _Lengths(NamedTuple):
    """R, v = cv^2, 1 - s^2, and the error of R and of log(1 + v)."""

    gain: float
    v: float
    rest: float
    error: float


def gain_sides(squares: Floats, *, relative: float = 0.0) -> Sides:
    """log(1 + cv^2) and R of the lengths whose squares these are, each square to `relative` beyond its rounding."""
    if relative == 0.0 and squares.min() == squares.max():
        return Sides(0.0, 0.0, 0.0)
    found = _lengths(squares, relative)
    return Sides(math.log1p(found.v), found.gain, found.error)


def sharp_sides(squares: Floats) -> Sides:
    """The sharp bound and R, then the bound by the unbiased variance n v/(n-1) and R."""
    n = len(squares)
    if squares.min() == squares.max():
        return Sides([0.0, 0.0], [0.0, 0.0], 0.0)
    found = _lengths(squares)
    unbiased = math.log1p(n / (n - 1) * found.v)
    if is_extremal(squares.tolist()):
        return Sides([found.gain, unbiased], [found.gain] * 2, [0.0, 3.0 * found.error])
    # d(sharp)/dv = 1/((1 - s)(1 + (n-1) s)) <= 2/(1 - s^2); beyond s = 1/2 logarithms of 1 - s^2 are taken
    factor = 6.0 if found.rest > 0.75 else 4.0 + 2.0 * abs(math.log(found.rest))
    sharp = math.log1p(found.v) + 2.0 * _gamma(n, found)
    return Sides([sharp, unbiased], [found.gain] * 2, [factor * found.error, 3.0 * found.error])


def is_extremal(squares: Sequence[float] | Sequence[Fraction]) -> bool:
    """Whether all lengths but one are equal, and that one is not shorter: there the sharp bound is attained."""
    *others, _ = sorted(squares)
    return not others or others[0] == others[-1]


def _lengths(squares: Floats, relative: float = 0.0) -> _Lengths:
    """From u = a/mean(a) - 1, and 1 - s^2 = sum of a_i a_j over i != j / (n (n-1) mean(a)^2), which cannot cancel."""
    a = np.sqrt(squares)
    n, mean = len(a), a.mean()
    u = (a - mean) / mean
    near = np.abs(u) <= 0.5
    logs = np.where(near, np.log1p(np.where(near, u, 0.0)), np.log(a) - math.log(mean))
    # mean(u) is 0 but for rounding, which shifts both terms of the gain alike and cancels: it must not be dropped
    v = float(u.var() / (1.0 + u.mean()) ** 2)
    gain = math.log1p(2.0 * u.mean() + np.square(u).mean()) - 2.0 * float(logs.mean())
    # an error of eps in log(a_i) moves either side by about eps |u_i| / n: little, where lengths nearly agree
    sizes = np.where(near, np.abs(u), 1.0 + np.square(u) + np.abs(np.log(a)) + abs(math.log(mean)))
    ordered = np.sort(a / mean)
    products = float((ordered[1:] * np.cumsum(ordered)[:-1]).sum())
    rest = 2.0 * products / (n * max(n - 1, 1))
    return _Lengths(gain, v, rest, (32.0 * EPS + 4.0 * relative) * (float(sizes.mean()) + EPS + relative))


def _gamma(n: int, found: _Lengths) -> float:
    """Gamma_n(s)."""
    if found.rest > 0.75:
        s = math.sqrt(found.v / (n - 1))
        return ((n - 1) * excess(-s) + excess((n - 1) * s)) / n
    s = math.sqrt(1.0 - found.rest)
    return -((n - 1) * (math.log(found.rest) - math.log1p(s)) + math.log1p((n - 1) * s)) / n


def exact_gain_sides(squares: Sequence[Fraction]) -> Sides:
    """As `gain_sides`, proven; digits can be raised until they decide, as only equal lengths leave 0 (strict AM-GM)."""
    if len(set(squares)) == 1:
        return Sides(0, 0, 0)
    return settled(lambda digits: (least_gain_between(squares, digits), gain_between(squares, digits)))


def exact_sharp_sides(squares: Sequence[Fraction]) -> Sides:
    """As `sharp_sides`, proven; equality only where it is attained."""
    if len(set(squares)) == 1:
        return Sides([0, 0], [0, 0], 0)
    unbiased = settled(lambda digits: (_unbiased(squares, digits), gain_between(squares, digits)))
    if is_extremal(squares):
        return Sides.together(Sides(unbiased.rhs, unbiased.rhs, 0), unbiased)
    return Sides.together(
        settled(lambda digits: (_sharp(squares, digits), gain_between(squares, digits))),
        unbiased,
    )


def gain_between(squares: Sequence[Fraction], digits: int) -> Between:
    """R, proven."""
    n = len(squares)
    # one logarithm of a product costs less than n of its factors
    product = math.prod(squares, start=Fraction(1))
    return log_between(sum(squares, Fraction(0)) / n, digits) - Fraction(1, n) * log_between(product, digits)


def least_gain_between(squares: Sequence[Fraction], digits: int) -> Between:
    """log(1 + cv^2), proven."""
    return _variance(squares, digits).through(lambda v: log_between(1 + v, digits))


def _sharp(squares: Sequence[Fraction], digits: int) -> Between:
    """log(1 + v) + 2 Gamma_n(s), with log(1 - s) = log(1 - s^2) - log(1 + s)."""
    n = len(squares)
    v = _variance(squares, digits)
    s = Between(v.low / (n - 1), v.high / (n - 1)).through(lambda q: sqrt_between(q, digits))
    numbers = (_rest(squares, digits), s + 1, (n - 1) * s + 1, v + 1)
    rest, one, last, mean = (x.through(lambda q: log_between(q, digits)) for x in numbers)
    return mean - Fraction(2, n) * ((n - 1) * (rest - one) + last)


def _unbiased(squares: Sequence[Fraction], digits: int) -> Between:
    n = len(squares)
    return _variance(squares, digits).through(lambda v: log_between(1 + n * v / (n - 1), digits))


def _variance(squares: Sequence[Fraction], digits: int) -> Between:
    """cv^2 = n sum(a^2) / (sum a)^2 - 1."""
    total = _total(squares, digits)
    least, most = (len(squares) * sum(squares, Fraction(0)) / end**2 - 1 for end in (total.high, total.low))
    return Between(max(least, Fraction(0)), most)


def _rest(squares: Sequence[Fraction], digits: int) -> Between:
    """1 - s^2 as a sum of products: it may be tiny, and a difference would then have no digits."""
    n, total = len(squares), _total(squares, digits)
    roots = [sqrt_between(q, digits) for q in squares]
    least, most = (
        sum((a * b for i, a in enumerate(ends) for b in ends[:i]), Fraction(0))
        for ends in ([x.low for x in roots], [x.high for x in roots])
    )
    factor = Fraction(2 * n, n - 1)
    return Between(factor * least / total.high**2, factor * most / total.low**2)


def _total(squares: Sequence[Fraction], digits: int) -> Between:
    return sum((sqrt_between(q, digits) for q in squares), Between.exactly(0))
