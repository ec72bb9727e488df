"""Building the map of correlations f(rho) = sum over k >= 1 of w_k rho^k, w_k = c_k^2/variance, of an activation.

A short Hermite series is f itself. Otherwise the odd and even part become Chebyshev series in u = sqrt(1 - rho^2)
through values at the Chebyshev points: from the Hermite series where its tail is negligible, and near |rho| = 1 from
`_ends`. What cannot be had to the accuracy promised by `_dual` raises PrecisionError.

Private; `_dual` is the public evaluator, and meanfield iterates the maps.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ._activation import Activation
from ._algebra import as_polynomial
from ._apart import GapTail, is_apart, tail_of
from ._closed import closed_weights, log_weights_below_float64
from ._ends import ACCURACY, OF_CALLABLES, REACH, End, chebyshev, end_from, oracle_source, series_source
from ._numeric import Scaled, varying
from ._parts import Block, Long, Parts, evaluate, from_chebyshev, homogeneous, powers
from ._power_law import PowerEnd, PowerLaw, power_law
from ._recurrence import Array
from ._rotation import at_minus_one, cuts
from ._weights import hermite_weights
from .errors import PrecisionError

_LOWEST = REACH * math.sqrt(2 - REACH * REACH)  # u at |rho| = 1 - REACH^2
_SHORT, _GENTLE = 40, 4.0  # terms, and f'(1), up to which a series is summed directly
_DEGREES = (64, 256, 2000)
_SIZES = (32, 64, 128)  # doubled: the points of one size are among those of the next
_LONGEST = 100  # more terms are split into two series
_NEGLIGIBLE = 2e-17
_ACCEPTED = 5e-16
_TRIMMED = 4e-17
_MAX_CUTS = 80
_FAR = 300.0  # logarithm of sigma's scale: products of two of its values still fit
_LEADING = 0.04  # of f where its absolute error may stand for a relative one
_REACHES = (0.25, 0.5, 0.7, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
_EPS = 2.0**-52
_SLACK = 1e-12  # |rho| may exceed 1 by this much from rounding upstream; beyond it is an error of the caller
_ALMOST = 2e-14  # of 1 - rho^2: where it is more, |f(rho)| <= |rho| stays below 1 for all its rounding
_TINY = 1e-290  # a float with all its digits, and so have the terms it is the sum of
_LARGE_MEAN = 1e6  # E sigma^2/variance beyond which rounding of sigma - c_0 exceeds 1e-14 (measured)


@dataclass(frozen=True, eq=False)
class Reduced:
    """f on [-1, 1] and its derivative, by range of rho.

    main: everywhere, or for |rho| <= 1 - REACH^2 where it has a `lower`, the ends then serving the rest; near: on
    |rho| <= reach, where f is so small that main's absolute error would show; upper, lower: next to 1 and -1;
    slopes: f' between the ends; parity: 1 for even sigma, -1 for odd sigma - c_0, else 0; at_minus_one: f(-1);
    log_weights: log w_k, only where the first of them are below float64; tail: E sigma(X) sigma(Y) next to -1 where it
    falls faster than any power.
    """

    name: str
    main: Parts
    closed: Block | None
    near: Parts | Long | None
    reach: float
    upper: End | PowerEnd
    lower: End | PowerEnd
    slopes: Parts
    parity: int
    at_minus_one: float
    moments: Scaled
    first: tuple[int, float, float]
    method: str
    log_weights: Array | None = None
    tail: GapTail | None = None

    def __call__(self, rho: Array) -> Array:
        """f(rho) for rho in [-1, 1], same shape, NaN for NaN."""
        return evaluate(self, np.asarray(rho))

    def into(self, rho: Array, out: Array, work: Array) -> None:
        """f over a block; |rho| beyond 1 by ulps is clipped, and more is a ValueError."""
        room = work[0, : len(rho)]
        careful = not room.min(initial=1.0) > _ALMOST  # or NaN
        if careful and np.any(np.abs(rho) > 1.0):
            rho = clipped(rho)
            np.maximum(room, 0.0, out=room)
        (self.closed or self.main).into(rho, out, work)
        if self.near is not None:
            inside = np.abs(rho) <= self.reach
            out[inside] = self.near(rho[inside])
        if self.main.lower:
            self._at_ends(rho, out)
        if careful:  # 1 and, by parity, -1 are repelling fixed points: an ulp would grow layer by layer
            np.clip(out, -1.0, 1.0, out=out)
            out[rho == 1.0] = 1.0
            out[rho == -1.0] = self.at_minus_one

    def _at_ends(self, rho: Array, out: Array) -> None:
        r = np.abs(rho)
        far = r > 1 - REACH * REACH
        if not np.any(far):
            return
        s = np.sqrt(1 - r[far])
        above = rho[far] > 0
        value = np.empty_like(s)
        value[above] = 1 - self.upper.change(s[above])
        value[~above] = self.at_minus_one + self.lower.change(s[~above])
        out[far] = value

    def complement(self, delta: Array) -> Array:
        """1 - f(1 - delta) for delta in [0, 2], relative accuracy on [0, 1]."""
        out = np.empty_like(delta)
        close = delta <= REACH * REACH
        out[close] = self.upper.change(np.sqrt(delta[close]))
        out[~close] = 1 - self(1 - delta[~close])  # a NaN is not close, and stays one
        return out

    def slope(self, rho: Array) -> Array:
        """f'(rho)."""
        out = np.asarray(self.slopes(rho)) if self.slopes.in_square else np.empty_like(rho)
        r = np.abs(rho)
        far = r >= 1 - REACH * REACH
        if not self.slopes.in_square:
            out[~far] = self.slopes(rho[~far])
        s, above = np.sqrt(1 - r[far]), rho[far] > 0
        value = np.empty_like(s)
        value[above], value[~above] = self.upper.slope(s[above]), self.lower.slope(s[~above])
        out[far] = value
        return out

    def logarithm(self, log_rho: Array) -> Array:
        """log f(exp(log_rho)) for log_rho <= 0; relative accuracy of f, so absolute accuracy of its logarithm."""
        r = np.exp(log_rho)
        if self.log_weights is not None:
            plain = self(r)
            return np.asarray(np.where(plain > _TINY, np.log(plain), self._below_float64(log_rho)))
        p, value = (self.near or self.main).leading(r)
        result = p * log_rho + np.log(value)
        beyond = r > self.reach if self.near is not None else r > 1 - REACH * REACH if self.main.lower else r > 1
        if np.any(beyond):
            result[beyond] = np.log(self(r[beyond]))
        return np.asarray(result)

    def _below_float64(self, log_rho: Array) -> Array:
        assert self.log_weights is not None
        k = np.flatnonzero(self.log_weights > -math.inf)
        first = int(k[0])
        terms = self.log_weights[k] + (k - first) * np.maximum(log_rho, -1e300)[..., None]
        top = terms.max(axis=-1)
        return np.asarray(first * log_rho + top + np.log(np.sum(np.exp(terms - top[..., None]), axis=-1)))

    def first_weights(self) -> tuple[int, float, float]:
        """The first power p present, w_p and w_(p+1). Raises PrecisionError where w_p is below float64."""
        if self.log_weights is not None:
            raise PrecisionError(f"the first Hermite weights of {self.name} are below 1e-300")
        return self.first


def clipped(values: Array, low: float = -1.0, high: float = 1.0, *, name: str = "rho", eps: float = _EPS) -> Array:
    """values in [low, high]; what lies outside by more than rounding is refused."""
    slack = max(_SLACK, 64 * eps)
    outside = (values < low - slack) | (values > high + slack)
    if np.any(outside):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], got {float(values[outside].flat[0])!r}")
    return np.clip(values, low, high)


_BUILDING = threading.RLock()  # two threads that ask for one activation shall not both spend its second


def reduced_dual(sigma: Activation) -> Reduced:
    """The map of an activation, built once.

    Raises ConstantActivationError, NotSquareIntegrableError, PrecisionError.
    """
    with _BUILDING:
        return _built(sigma)


@lru_cache(maxsize=256)
def _built(sigma: Activation) -> Reduced:
    low = varying(sigma)
    tree = sigma.expr
    if tree.op == "add" and tree.args[0].op == "num":  # f does not see a constant, but rounding would
        bare = _built(replace(sigma, expr=tree.args[1], declared_growth=None))
        back = math.exp(2 * (bare.moments.log_scale - low.log_scale))
        return replace(bare, name=sigma.name, moments=replace(low, variance=bare.moments.variance * back))
    closed = closed_weights(tree)
    if closed is not None:
        return replace(_converged(sigma, low, closed), log_weights=log_weights_below_float64(tree))
    if low.second > _LARGE_MEAN * low.variance:
        ratio = abs(low.c0) / math.sqrt(low.variance)
        raise PrecisionError(
            f"the dual of {sigma.name} is not available to 1e-14: its mean is {ratio:.0e} times its deviation; "
            "subtract it"
        )
    law = power_law(sigma)
    if law is not None:
        return _of_power_law(sigma, low, law)
    for degree in _DEGREES:
        weights = hermite_weights(sigma, low, degree)
        tail = max(1.0 - float(np.sum(weights)), 0.0)
        if tail <= 4e-16 and float(np.sum(weights[-8:])) <= _NEGLIGIBLE:
            return _converged(sigma, low, weights)
    return _unconverged(sigma, low, weights, tail)


def _converged(sigma: Activation, low: Scaled, weights: Array) -> Reduced:
    """f from a Hermite series that has all its digits at |rho| = 1."""
    last = int(np.flatnonzero(np.cumsum(weights[::-1])[::-1] > 1e-18)[-1])
    weights = weights[: last + 1] / np.sum(weights[: last + 1])
    parity = _sign_of(weights)
    upper = end_from(series_source(weights, lower=False), sigma.name)
    lower = _mirrored(upper, parity) or end_from(series_source(weights, lower=True), sigma.name, upper.scale)
    k = np.arange(len(weights))
    at_end = float(parity) if parity else math.fsum(np.where(k % 2 == 0, weights, -weights))
    result = Reduced(
        sigma.name, _powers(weights), None, None, 0.0, upper, lower, _slope_powers(weights), parity, at_end, low,
        _first_of(weights),
        "hermite series",
    )  # fmt: skip
    # in powers the rounding of rho^2 counts as often as f'(1) says
    short = last <= 2 or (last <= _SHORT and upper.slope(np.zeros(1))[0] <= _GENTLE)
    return result if short else _interpolated(result, weights, 0.0)


def _unconverged(sigma: Activation, low: Scaled, weights: Array, tail: float) -> Reduced:
    """f of a kinked or steep sigma: the series is a source of values away from |rho| = 1 only."""
    if any(p.singular_lower or p.singular_upper for p in sigma.pieces):
        raise PrecisionError(
            f"the dual of {sigma.name} is not available to 1e-14: sigma has a singular point and its Hermite series is "
            f"long (tail {tail:.0e} after {len(weights) - 1} terms)"
        )
    if abs(low.log_scale) > _FAR:
        raise PrecisionError(f"the dual of {sigma.name} near |rho| = 1 needs values beyond float64")
    if len(cuts(sigma)) > _MAX_CUTS:
        raise PrecisionError(f"the dual of {sigma.name} is not available to 1e-14: sigma varies on too many scales")
    parity = _sign_of(weights)
    accuracy = OF_CALLABLES if sigma.is_opaque else ACCURACY
    upper = end_from(oracle_source(sigma, low, lower=False), sigma.name, accuracy=accuracy)
    apart = not sigma.is_opaque and is_apart(sigma)
    lower = _mirrored(upper, parity) or end_from(
        oracle_source(sigma, low, lower=True), sigma.name, upper.scale, vanishing=apart, accuracy=accuracy
    )
    at_end = float(parity) if parity else at_minus_one(sigma, low)
    empty = _powers(weights[:3])
    result = Reduced(
        sigma.name, empty, _homogeneous(sigma), None, 0.0, upper, lower, empty, parity, at_end, low, _first_of(weights),
        "hermite series and interpolation", tail=tail_of(sigma, low) if apart else None,
    )  # fmt: skip
    return _interpolated(result, weights, tail)


def _of_power_law(sigma: Activation, low: Scaled, law: PowerLaw) -> Reduced:
    """f of sqrt|x| and its kind: closed weights, and ends of their own."""
    weights = law.weights(_DEGREES[-1])
    parity = _sign_of(weights)
    upper, lower = law.ends()
    empty = _powers(weights[:3])
    result = Reduced(
        sigma.name, empty, None, None, 0.0, upper, lower, empty, parity, law.at_minus_one, low,
        _first_of(weights),
        "hypergeometric series",
    )  # fmt: skip
    return _interpolated(result, weights, max(1.0 - float(np.sum(weights)), 1e-3))


def _first_of(weights: Array) -> tuple[int, float, float]:
    p = int(np.flatnonzero(weights)[0])
    return p, float(weights[p]), float(weights[p + 1]) if p + 1 < len(weights) else 0.0


def _mirrored(upper: End, parity: int) -> End | None:
    """The lower end where f is even or odd: f(-1 + s^2) - f(-1) is -+ (1 - f(1 - s^2))."""
    return replace(upper, sign=-float(parity)) if parity else None


def _interpolated(raw: Reduced, weights: Array, tail: float) -> Reduced:
    """main and slopes as series in u, with a near series where f is small."""
    source = _Source(raw, weights, tail)
    exponents = (_first(weights, 1), _first(weights, 0))
    main = _parts(source, exponents, 0.0)
    if main is None or main.terms > _LONGEST:
        main = _parts(source, exponents, _LOWEST) or main
    if main is None:
        raise PrecisionError(f"the dual of {raw.name} is not resolved by {_SIZES[-1]} terms in sqrt(1 - rho^2)")
    slopes = _slope_parts(weights, exponents)
    result = replace(raw, main=main, slopes=slopes)
    near, reach = _near(weights)
    if near is not None:
        result = replace(result, near=near, reach=reach)
    return result


def _parts(source: _Source, exponents: tuple[int, int], lower: float) -> Parts | None:
    for n in _SIZES:
        u = lower + (1 - lower) * 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
        values = np.array([source.parts(float(x), exponents) for x in u])
        c = chebyshev(values)
        if np.abs(c[-4:]).max() <= _ACCEPTED / 4:
            alone = [
                np.count_nonzero(source.weights[k::2]) <= 1 for k in exponents
            ]  # a power by itself needs no series
            odd, even = (from_chebyshev(values[-1:, i] if alone[i] else _trimmed(c[:, i])) for i in (0, 1))
            return Parts(exponents[0], odd, exponents[1], even, in_square=False, lower=lower)
    return None


def _trimmed(c: Array) -> Array:
    """Without the last terms, as long as they are rounding."""
    large = np.flatnonzero(np.abs(c) > _TRIMMED)
    return c[: int(large[-1]) + 1 if len(large) else 1]


@dataclass(eq=False)
class _Source:
    """Odd and even part of f to rounding, by the Hermite series or by the ends."""

    raw: Reduced
    weights: Array
    tail: float

    def parts(self, u: float, exponents: tuple[int, int]) -> tuple[float, float]:
        """O/rho^j and E/rho^k at rho = sqrt(1 - u^2)."""
        rho = math.sqrt((1 - u) * (1 + u))
        if self.tail * rho ** len(self.weights) <= _NEGLIGIBLE:
            return _sum(self.weights, u, exponents[0]), _sum(self.weights, u, exponents[1])
        at = np.array([u / math.sqrt(1 + rho)])  # s, with 1 - rho = u^2/(1 + rho)
        plus = 1.0 - float(self.raw.upper.change(at)[0])
        minus = self.raw.at_minus_one + float(self.raw.lower.change(at)[0])
        odd, even = 0.5 * (plus - minus) / rho ** exponents[0], 0.5 * (plus + minus) / rho ** exponents[1]
        return odd * (self.raw.parity != 1), even * (self.raw.parity != -1)


def _sum(weights: Array, u: float, first: int) -> float:
    """The sum of w_k rho^(k - first) over k = first, first + 2, ... at rho = sqrt(1 - u^2).

    Powers by the exact logarithm of rho^2: rounded, to the power 100, it would be off by 1e-14.
    """
    w = weights[first::2]
    if u == 1:
        return float(w[0]) if len(w) else 0.0
    return math.fsum(w * np.exp(np.arange(len(w)) * math.log1p(-u * u)))


def _first(weights: Array, parity: int) -> int:
    """The first power of this parity that is present (1 or 2 if none is)."""
    present = np.flatnonzero(weights[parity::2])
    return parity + 2 * int(present[0]) if len(present) else 2 - parity


def _sign_of(weights: Array) -> int:
    """1 if only even powers are present, -1 if only odd ones, else 0."""
    odd, even = bool(np.any(weights[1::2])), bool(np.any(weights[2::2]))
    return 0 if odd and even else -1 if odd else 1


def _powers(weights: Array) -> Parts:
    odd, even = _first(weights, 1), _first(weights, 0)
    return Parts(
        odd, powers(np.append(weights[odd::2], 0.0)), even, powers(np.append(weights[even::2], 0.0)), in_square=True
    )


def _slope_powers(weights: Array) -> Parts:
    """f' as a series in rho: what multiplies rho^(j-1) is its even part."""
    return _powers(np.append(weights[1:] * np.arange(1, len(weights)), 0.0))


def _slope_parts(weights: Array, exponents: tuple[int, int]) -> Parts:
    """f' between the ends, as series in u; 600 terms have converged at |rho| = 1 - REACH^2."""
    slopes = weights[:600] * np.arange(len(weights[:600]))
    n = 64
    u = _LOWEST + (1 - _LOWEST) * 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
    c = chebyshev(np.array([[_sum(slopes, float(x), k) for k in exponents] for x in u]))
    odd, even = (from_chebyshev(_trimmed(c[:, i])) for i in (0, 1))
    return Parts(exponents[1] - 1, even, exponents[0] - 1, odd, in_square=False, lower=_LOWEST)


def _near(weights: Array) -> tuple[Parts | Long | None, float]:
    """A series in powers for |rho| <= reach, where the first weights are so small that f is: else None."""
    first = float(weights[np.flatnonzero(weights)[0]])
    if first >= _LEADING:
        return None, 0.0
    k = np.arange(len(weights))
    reach = next((r for r in _REACHES if np.sum(weights * r**k) >= _LEADING), _REACHES[-1])
    share = weights * reach**k
    rest = np.cumsum(share[::-1])[::-1]
    needed = weights[: int(np.flatnonzero(rest > 1e-18 * rest[0])[-1]) + 1]
    # the rounding of rho^2 would count half as often as the largest power does
    return (_powers(needed) if len(needed) <= _SHORT else Long(needed)), reach


def _homogeneous(sigma: Activation) -> Block | None:
    """The closed form of a x + b |x| + J sign(x) + c."""
    pieces = sigma.pieces
    if len(pieces) != 2 or sigma.breakpoints != (0.0,):
        return None
    left, right = (as_polynomial(p.expr) for p in pieces)
    if left is None or right is None or max(len(left), len(right)) > 2:
        return None
    (p, a), (q, b) = ([*map(float, c), 0.0][:2] for c in (left, right))
    return homogeneous((a + b) / 2, (b - a) / 2, (q - p) / 2)
