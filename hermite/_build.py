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
from ._apart import is_apart, tail_of
from ._closed import closed_weights, log_weights_below_float64
from ._ends import ACCURACY, OF_CALLABLES, REACH, End, chebyshev, end_from, oracle_source, series_source
from ._numeric import Scaled, varying
from ._parts import Homogeneous, Long, Parts, from_chebyshev, homogeneous, powers
from ._power_law import PowerLaw, power_law
from ._recurrence import Array
from ._reduced import Reduced
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
_AGREEMENT = 5e-15
_MAX_CUTS = 80
_FAR = 300.0  # logarithm of sigma's scale: products of two of its values still fit
_LEADING = 0.04  # of f where its absolute error may stand for a relative one
_REACHES = (0.25, 0.5, 0.7, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
LARGE_MEAN = 1e6  # E sigma^2/variance beyond which rounding of sigma - c_0 exceeds 1e-14 (measured)


_REFUSED: dict[Activation, str] = {}
_BUILDING = threading.RLock()  # two threads that ask for one activation shall not both spend its second


def reduced_dual(sigma: Activation) -> Reduced:
    """The map of an activation, built once.

    Raises ConstantActivationError, NotSquareIntegrableError, PrecisionError.
    """
    with _BUILDING:
        if sigma in _REFUSED:  # to find out again would take as long
            raise PrecisionError(_REFUSED[sigma])
        try:
            return _built(sigma)
        except PrecisionError as error:
            if len(_REFUSED) >= 256:
                _REFUSED.clear()
            _REFUSED[sigma] = str(error)
            raise


@lru_cache(maxsize=256)
def _built(sigma: Activation) -> Reduced:
    low = varying(sigma)
    tree = sigma.expr
    if tree.op == "add" and tree.args[0].op == "num":  # f does not see a constant, but rounding would
        bare = _built(replace(sigma, expr=tree.args[1], declared_growth=None))
        back = math.exp(2 * (bare.moments.log_scale - low.log_scale))
        return replace(bare, name=sigma.name, moments=replace(low, variance=bare.moments.variance * back))
    if tree.op == "mul" and tree.args[0].op == "num":  # nor a factor, which may leave float64
        bare = _built(replace(sigma, expr=tree.args[1], declared_growth=None))
        return replace(bare, name=sigma.name, moments=low)
    closed = closed_weights(tree)
    if closed is not None:
        return replace(_converged(sigma, low, closed), log_weights=log_weights_below_float64(tree))
    if low.second > LARGE_MEAN * low.variance:
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
        "hermite series", weights=weights,
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
    _compare(sigma, weights, upper, lower, at_end)
    empty = _powers(weights[:3])
    result = Reduced(
        sigma.name, empty, _homogeneous(sigma), None, 0.0, upper, lower, empty, parity, at_end, low, _first_of(weights),
        "hermite series and interpolation", tail=tail_of(sigma, low) if apart else None, weights=weights,
        missing=max(low.residual / low.variance - float(np.sum(weights[2:])), math.ulp(0.0)),
    )  # fmt: skip
    return _interpolated(result, weights, tail)


def _compare(sigma: Activation, weights: Array, upper: End, lower: End, at_minus_one: float) -> None:
    """Where the Hermite series has converged too, the ends must agree with it: they are integrals over all of s."""
    s = np.array([0.2, 0.29, REACH])
    k = np.arange(len(weights))
    powers_of_rho = np.exp(k * np.log1p(-s * s)[:, None])
    signs = np.where(k % 2 == 0, 1.0, -1.0)
    off = np.maximum(
        np.abs(1 - upper.change(s) - powers_of_rho @ weights),
        np.abs(at_minus_one + lower.change(s) - powers_of_rho @ (weights * signs)),
    )
    allowed = _AGREEMENT * (20 if sigma.is_opaque else 1)
    if not off.max() <= allowed:
        raise PrecisionError(
            f"the dual of {sigma.name} is not available: two ways to it differ by {off.max():.0e} at |rho| = "
            f"{1 - float(s[off.argmax()]) ** 2:.3g}; sigma is too steep for float64"
        )


def _of_power_law(sigma: Activation, low: Scaled, law: PowerLaw) -> Reduced:
    """f of sqrt|x| and its kind: closed weights, and ends of their own."""
    weights = law.weights(_DEGREES[-1])
    parity = _sign_of(weights)
    upper, lower = law.ends()
    empty = _powers(weights[:3])
    result = Reduced(
        sigma.name, empty, None, None, 0.0, upper, lower, empty, parity, law.at_minus_one, low,
        _first_of(weights),
        "hypergeometric series", weights=weights, missing=max(1.0 - float(np.sum(weights)), 0.0),
    )  # fmt: skip
    return _interpolated(result, weights, max(result.missing, 1e-3))


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


def _homogeneous(sigma: Activation) -> Homogeneous | None:
    """The closed form of a x + b |x| + J sign(x) + c."""
    pieces = sigma.pieces
    if len(pieces) != 2 or sigma.breakpoints != (0.0,):
        return None
    left, right = (as_polynomial(p.expr) for p in pieces)
    if left is None or right is None or max(len(left), len(right)) > 2:
        return None
    (p, a), (q, b) = ([*map(float, c), 0.0][:2] for c in (left, right))
    return homogeneous((a + b) / 2, (b - a) / 2, (q - p) / 2)
