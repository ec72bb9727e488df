"""Both sides of claims about Hermite expansions and the error of their difference: floats, rationals, balls."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._polynomial import rational_weights
from bounds._strengths import degree as written_degree
from bounds._strengths import strength
from hermite._build import reduced_dual
from hermite._numeric import basic, coefficients, is_constant, scaled_coefficients, varying
from hermite._polynomials import polynomials
from hermite.errors import MissingDependencyError, PrecisionError
from meanfield._layer import Layer

__all__ = [
    "CRAMER",
    "kernel",
    "kernel_exactly",
    "known_degree",
    "rest",
    "rest_in_balls",
    "strengths",
    "strengths_in_balls",
    "terms",
    "terms_exactly",
]

Floats: TypeAlias = NDArray[np.float64]
Sides: TypeAlias = tuple[Any, Any, Any, Any]  # lhs, rhs, slack, tolerance

EPS = float(np.finfo(np.float64).eps)
CRAMER = 1.0865  # |He_k(x)| <= 1.0865 exp(x^2/4) for normalised He_k and every k (H. Cramer; the constant is 1.086435)
_DIGITS = (30, 100, 300)
_UNKNOWN = 64  # of `written_degree`


def known_degree(layer: Layer) -> float:
    """A degree that sigma does not exceed: its own for polynomials in exact numbers, infinite for what is none."""
    if is_constant(layer.sigma):
        return 0
    known = rational_weights(layer.sigma)
    if known is not None:
        return len(known) - 1
    written = written_degree(layer)
    return written if written < _UNKNOWN else math.inf


# ---- Parseval: (E sigma^2 - c_0^2 - ... - c_K^2)/E sigma^2 for K = 0..top ------------------------------------


def rest(layer: Layer, top: int, complete: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The shares and their errors, from variance and residual, which are integrals of squares."""
    low = basic(layer.sigma)
    e = low.error
    try:
        c = scaled_coefficients(layer.sigma, top) / math.sqrt(low.second)
    except PrecisionError:  # exp(20x) has its mass where N(0, 1) underflows, and closed weights instead
        weights = reduced_dual(layer.sigma).weights[: top + 1]
        c = np.sqrt(np.concatenate([weights, np.zeros(top + 1 - len(weights))]) * (low.variance / low.second))
    squares, each = np.square(c), 2.0 * e * np.abs(c) + e * e
    squares[:2] = each[:2] = 0.0  # variance and residual lack them already
    whole = np.full(top + 1, low.residual / low.second)
    whole[0] = low.variance / low.second
    # an integral of (sigma - c_0 - c_1 x)^2 is off by eps of itself and by what e does to c_0 and c_1
    bar = 10.0 * e * whole + e * np.sqrt(whole) + e * e + np.cumsum(each) + EPS * (top + 2.0) * whole
    return whole - np.cumsum(squares), bar


def rest_in_balls(layer: Layer, top: int, complete: NDArray[np.bool_]) -> tuple[Any, Any]:
    """The same in balls, with as many digits as show that what is not complete lacks something."""
    from hermite.certified import moments
    from hermite.certified._flint import arb, precision

    for digits in _DIGITS:
        with precision(4 * digits + 64):
            found = moments(layer.sigma, top, digits=digits)
            second, total, shares = found.second_moment.ball(), arb(0), []
            for c in found.coefficients:
                total = total + c.ball() * c.ball()
                shares.append((second - total) / second)
            slack, bar = _fractions(shares)
        if all(b < abs(s) or done for s, b, done in zip(slack, bar, complete.tolist(), strict=True)):
            break
    return slack, bar


# ---- beta - 1 and r = 2 - beta -------------------------------------------------------------------------------


def strengths(layer: Layer) -> tuple[list[float], list[float]]:
    """Both, and their errors; those of beta - 1 without the rounding of beta to a float."""
    known = strength(layer)
    bars = [known.error, max(known.r - known.low, known.high - known.r)]
    if rational_weights(layer.sigma) is None and known.excess:
        low = varying(layer.sigma)
        e, s = low.error, low.second / low.variance
        bars[0] = 10.0 * e * known.excess + e * math.sqrt(known.excess * s) + e * e * s
    return [known.excess, known.r], bars


def strengths_in_balls(layer: Layer) -> tuple[Any, Any]:
    """The same in balls, with as many digits as tell them from 0 where they are not."""
    from hermite.certified import moments
    from hermite.certified._flint import precision

    floats, bars = strengths(layer)
    equal = [not slack and not bar for slack, bar in zip(floats, bars, strict=True)]
    for digits in () if all(equal) or rational_weights(layer.sigma) else _DIGITS:
        with precision(4 * digits + 64):
            found = moments(layer.sigma, 1, digits=digits)
            c, whole = found.coefficients[1].ball(), found.variance.ball()
            slack, bar = _fractions([found.residual.ball() / whole, c * c / whole])
        if all(b < s or same for s, b, same in zip(slack, bar, equal, strict=True)):
            break
    else:
        return floats, bars
    pairs = [(0, 0) if same else (s, b) for s, b, same in zip(slack, bar, equal, strict=True)]
    return tuple(zip(*pairs, strict=True))  # type: ignore[return-value]


# ---- the series of the dual: three sides, m points -----------------------------------------------------------


def terms(layer: Layer, points: Floats, top: int) -> Sides:
    """In float64, with the map that meanfield iterates on the left and the weights on the right."""
    weights, beyond, error = _weights(layer, top)
    x, k, step = np.abs(points), np.arange(1, top + 1), layer.step
    value, above = step(points), step(x)
    room = 2.0 * step.rounding * above
    sums = (points[:, None] ** k * weights[1:]).sum(axis=1)
    off = room + EPS * (top + 4) * above + (x[:, None] ** k * (4.0 * EPS * weights[1:] + error)).sum(axis=1)
    power = x ** (top + 1)
    exact, attained = _equal(layer, points, top)
    same = (points >= 0.0) | (step.parity != 0)
    right = np.where(exact, 0.0, power * beyond)
    left = np.where(exact | attained, right, np.abs(value - sums))
    size = np.where(same, above, np.abs(value))
    below = np.where(x == 1.0, 0.0, np.maximum(step.complement(1.0 - x), 0.0))  # 1 - f(|rho|)
    lhs, rhs = np.array([left, size, 1.0 - below]), np.array([right, above, np.ones_like(x)])
    bars = [np.where(exact | attained, 0.0, off + power * error), np.where(same, 0.0, 2.0 * room)]
    return lhs, rhs, np.array([right - left, above - size, below]), np.array([*bars, 2.0 * step.rounding * below])


def _equal(layer: Layer, points: Floats, top: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where nothing is beyond K, and where the terms beyond add up to the bound: all of one sign and size at 1."""
    known = rational_weights(layer.sigma)
    beyond = None if known is None else [k for k, w in enumerate(known) if w and k > top]
    whole = (points == 1.0) | ((points == -1.0) & (layer.step.parity != 0))
    nothing = (points == 0.0) | (top >= known_degree(layer))
    return np.asarray(nothing), np.asarray(whole | (beyond is not None and len(beyond) == 1))


def _weights(layer: Layer, top: int) -> tuple[Floats, float, float]:
    """w_0 = 0, w_1..w_top; T_top, the sum of what is beyond; and the absolute error of each."""
    low, known = varying(layer.sigma), reduced_dual(layer.sigma)
    weights = np.zeros(top + 1)
    have = min(len(known.weights), top + 1)
    weights[:have] = known.weights[:have]
    beyond = float(np.sum(known.weights[top + 1 :])) + known.missing
    if have <= top and known.missing:
        weights[have:] = np.square(coefficients(layer.sigma, top)[have:]) / (low.variance * math.exp(2 * low.log_scale))
        beyond = max(known.missing - float(weights[have:].sum()), 0.0)
    return weights, beyond, 16.0 * low.error + 4.0 * EPS


def terms_exactly(layer: Layer, points: Floats, top: int) -> Sides:
    """By rational arithmetic, or in balls with as many digits as the bound has zeros and some more."""
    known = rational_weights(layer.sigma)
    if known is not None:
        rho = [Fraction(point) for point in points.tolist()]
        columns = [_rational_sides(known, each, top) for each in rho]
        lhs, rhs = zip(*columns, strict=True)
        left, right = (np.array(side, dtype=object).T for side in (lhs, rhs))
        return left, right, right - left, np.zeros(left.shape)
    return _terms_in_balls(layer, points, top)


def _rational_sides(w: tuple[Fraction, ...], rho: Fraction, top: int) -> tuple[list[Fraction], list[Fraction]]:
    def f(x: Fraction, first: int = 0) -> Fraction:
        return sum((w[k] * x**k for k in range(first, len(w))), Fraction(0))

    x = abs(rho)
    tail = x ** (top + 1) * sum(w[top + 1 :], Fraction(0))
    return [abs(f(rho, top + 1)), abs(f(rho)), f(x)], [tail, f(x), Fraction(1)]


def _terms_in_balls(layer: Layer, points: Floats, top: int) -> Sides:
    try:
        from bounds._scalar_balls import series_in_balls
    except ImportError as error:
        raise MissingDependencyError("exact=True needs python-flint: pip install 'isogram[rigor]'") from error
    smallest = min((x for x in np.abs(points).tolist() if x), default=1.0)
    digits = min(40 + int((top + 1) * -math.log10(smallest)), 900)
    exact, attained = _equal(layer, points, top)
    same = (points >= 0.0) | (layer.step.parity != 0)
    columns = [
        series_in_balls(layer, point, top, digits, (bool(a or b), bool(c)))
        for point, a, b, c in zip(points.tolist(), exact, attained, same, strict=True)
    ]
    lhs, rhs, slack, bars = zip(*columns, strict=True)
    return tuple(np.array(part, dtype=object).T for part in (lhs, rhs, slack, bars))  # type: ignore[return-value]


# ---- Mehler's kernel -----------------------------------------------------------------------------------------


def kernel(rho: float, x: float, y: float, top: int) -> tuple[float, float, float]:
    """Both sides and the error of their difference."""
    k = np.arange(top + 1)
    sums = float((rho**k * polynomials(x, top) * polynomials(y, top)).sum())
    y, r = math.copysign(1.0, rho) * y, abs(rho)
    gap = (1.0 - r) * (1.0 + r)
    # rho^2 (x^2 + y^2) - 2 rho x y without the digits that cancel next to the diagonal
    apart, along = r * r * (x - y) ** 2 / (2.0 * gap), r * x * y / (1.0 + r)
    value = math.exp(along - apart) / math.sqrt(gap)
    sizes = CRAMER**2 * math.exp((x * x + y * y) / 4.0)
    # a term of the recurrence is off by some eps k of its envelope, and the kernel by the error of its exponent
    off = value * min(8.0 + 4.0 * apart + 4.0 * abs(along), 1.0 / EPS)
    bar = 16.0 * EPS * (sizes * float(((k + 1.0) * r**k).sum()) + off) + math.ulp(0.0)
    rhs = sizes * r ** (top + 1) / (1.0 - r)
    return abs(value - sums), rhs, bar + 8.0 * EPS * (top + 2) * rhs


def kernel_exactly(rho: float, x: float, y: float, top: int) -> tuple[Fraction, Fraction, Fraction]:
    """The same in multiprecision, with the digits that the sum cancels and the exponent and the bound take away."""
    from mpmath import MPContext

    mp = MPContext()
    lost = (top + 2) * -math.log10(abs(rho)) + (x * x + y * y) / 4.0 - 2.0 * math.log10(1.0 - abs(rho))
    mp.dps = 80 + int(lost)
    r, a, b = mp.mpf(rho), mp.mpf(x), mp.mpf(y)
    columns = [[mp.mpf(1), z] for z in (a, b)]
    for h, z in zip(columns, (a, b), strict=True):
        for k in range(1, top):
            h.append((z * h[k] - mp.sqrt(k) * h[k - 1]) / mp.sqrt(k + 1))
    total = mp.fsum(r**k * u * v for k, u, v in zip(range(top + 1), *columns, strict=False))
    gap = (1 - r) * (1 + r)
    value = mp.exp(-(r * r * (a * a + b * b) - 2 * r * a * b) / (2 * gap)) / mp.sqrt(gap)
    sizes = mp.mpf("1.0865") ** 2 * mp.exp((a * a + b * b) / 4)
    rhs = sizes * abs(r) ** (top + 1) / (1 - abs(r))
    # the exponent is at most 4 10^3/gap, and so much of a unit of its last digit is lost in the kernel
    bar = (sizes * (top + 2) ** 2 + value * 10000 / gap + rhs) * mp.mpf(10) ** (4 - mp.dps)
    return _rational(abs(value - total)), _rational(rhs), _rational(bar)


def _rational(value: Any) -> Fraction:
    man, exp = value.man_exp
    return Fraction(int(man)) * Fraction(2) ** int(exp)


def _fractions(balls: list[Any]) -> tuple[list[Fraction], list[Fraction]]:
    from bounds._balls import as_fraction

    parts: list[Callable[[Any], Any]] = [lambda ball: ball.mid(), lambda ball: ball.rad()]
    middle, radius = ([as_fraction(part(ball)) for ball in balls] for part in parts)
    return middle, radius
