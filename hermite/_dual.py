"""The reduced dual f(rho) = sum over k >= 1 of w_k rho^k, w_k = c_k^2/variance: the map of correlations of one layer.

Private evaluator, float64: relative error about 1e-15 towards rho = 0, absolute 1e-14 elsewhere, f(1) = 1 exactly;
whatever it cannot serve to that accuracy raises PrecisionError. It may be imported by meanfield.

f is split into its odd and even parts O and E, series in |rho|. A short Hermite series is summed. Otherwise O/|rho|^j
and E/|rho|^k (j, k the first powers present) are smooth functions of s = sqrt(1 - |rho|) on [0, 1], where s absorbs the
singularities (1 - rho)^(1/2) and (1 - rho)^(3/2) of jumps and kinks, and become Chebyshev series in s. Their values at
the Chebyshev points come from the Hermite series where its tail is negligible, and near |rho| = 1 from a double
integral in rotated coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from ._activation import Activation
from ._closed import closed_weights
from ._extent import BULK
from ._numeric import Scaled, rule, scaled_coefficients, varying
from ._recurrence import Array, hermite_sequence
from ._rotation import at_minus_one, centred, cuts, rotated
from ._tree import Node
from .errors import PrecisionError

_SHORT = 64  # terms summed directly
_NEAR = 0.25  # up to which a few powers suffice
_DEGREES = (64, 256, 2000)
_SIZES = (32, 64, 128, 256)  # doubled: the points of one size are among those of the next
_NEGLIGIBLE = 2e-17
_ACCEPTED = 2e-15
_MAX_CUTS = 80
_EPS = 2.0**-52
_CAREFUL = 24  # coefficients that decide small correlations
_SMALL = 1e-12
_LARGE_MEAN = 1e6  # E sigma^2/variance beyond which rounding of sigma - c_0 exceeds 1e-14 (measured)


@dataclass(frozen=True, eq=False)
class Parts:
    """f as sign(rho) |rho|^j odd(t) + |rho|^k even(t), t = rho^2 (powers) or s = sqrt(1 - |rho|) (Chebyshev)."""

    odd_power: int
    odd: Array
    even_power: int
    even: Array
    in_powers: bool

    def __call__(self, rho: Array) -> Array:
        r = np.abs(rho)
        t = r * r if self.in_powers else np.sqrt(1 - r)
        total = _horner if self.in_powers else _clenshaw
        odd, even = total(self.odd, t), total(self.even, t)
        return np.asarray(np.sign(rho) * _power(r, self.odd_power) * odd + _power(r, self.even_power) * even)


@dataclass(frozen=True, eq=False)
class ReducedDual:
    """f on [-1, 1]: the Hermite series on |rho| <= reach, beyond it the interpolant in s, if the series needs one.

    parity: 1 for even sigma, -1 for odd sigma - c_0, else 0.
    """

    name: str
    series: Parts
    reach: float
    beyond: Parts | None
    parity: int
    method: str

    def __call__(self, rho: Array) -> Array:
        """f(rho) for rho in [-1, 1], same shape, NaN for NaN; no checks."""
        if self.beyond is None:
            value = self.series(rho)
        else:
            inside = np.abs(rho) <= self.reach
            value = np.empty(np.shape(rho))
            value[inside] = self.series(rho[inside])
            value[~inside] = self.beyond(rho[~inside])
        value = np.clip(value, -1.0, 1.0)
        if self.parity:  # f(-1) = +-1 exactly: coincident inputs stay so, and antipodal ones if sigma - c_0 is odd
            value = np.where(rho == -1.0, float(self.parity), value)
        return np.where(rho == 1.0, 1.0, value)


def _power(r: Array, k: int) -> Array:
    return r if k == 1 else r**k


def _horner(c: Array, x: Array) -> Array:
    out = np.full_like(x, c[-1])
    for a in c[-2::-1]:
        out *= x
        out += a
    return out


def _clenshaw(c: Array, s: Array) -> Array:
    """Chebyshev series on [0, 1]."""
    if len(c) == 1:
        return np.full_like(s, c[0])
    y = 4 * s - 2  # twice the variable of [-1, 1]
    b1, b2 = np.zeros_like(s), np.zeros_like(s)
    for a in c[:0:-1]:
        b2 *= -1
        b2 += y * b1
        b2 += a
        b1, b2 = b2, b1
    return np.asarray(0.5 * y * b1 - b2 + c[0])


@lru_cache(maxsize=256)
def reduced_dual(sigma: Activation) -> ReducedDual:
    """The evaluator of an activation, built once.

    Raises ConstantActivationError, NotSquareIntegrableError, PrecisionError.
    """
    low = varying(sigma)
    tree = sigma.expr
    if tree.op == "add" and tree.args[0].op == "num":  # f does not see a constant, but rounding would
        return replace(reduced_dual(replace(sigma, expr=tree.args[1])), name=sigma.name)
    closed = closed_weights(tree)
    if closed is not None:
        return _converged(sigma, low, closed)
    if low.second > _LARGE_MEAN * low.variance:
        ratio = abs(low.c0) / math.sqrt(low.variance)
        raise PrecisionError(
            f"the dual of {sigma.name} is not available to 1e-14: its mean is {ratio:.0e} times its deviation; "
            "subtract it"
        )
    for degree in _DEGREES:
        weights = _weights(sigma, low, degree)
        tail = max(1.0 - float(np.sum(weights)), 0.0)
        if tail <= 4e-16 and float(np.sum(weights[-8:])) <= _NEGLIGIBLE:
            return _converged(sigma, low, weights)
    return _interpolated(sigma, low, weights, tail)


def _converged(sigma: Activation, low: Scaled, weights: Array) -> ReducedDual:
    last = int(np.flatnonzero(np.cumsum(weights[::-1])[::-1] > 1e-18)[-1])
    weights = weights[: last + 1] / np.sum(weights[: last + 1])
    return _summed(sigma, weights) if last <= _SHORT else _interpolated(sigma, low, weights, 0.0)


def _weights(sigma: Activation, low: Scaled, degree: int) -> Array:
    """w_0 = 0, w_1, ..., with coefficients at rounding level set to 0: parity is exact."""
    sizes = np.empty(degree + 1)
    c = scaled_coefficients(sigma, degree, sizes)
    error = 8 * _EPS * sizes
    first, error[:_CAREFUL] = _careful(sigma)
    c[:_CAREFUL] = first
    c[np.abs(c) <= error] = 0.0
    c[0] = 0.0
    even, odd = _parity(sigma, low)
    c[1::2] *= not even
    c[2::2] *= not odd
    _check_small(sigma, c[:_CAREFUL], error[:_CAREFUL])
    return np.asarray(c * c / low.variance)


def _careful(sigma: Activation) -> tuple[Array, Array]:
    """The first coefficients by exact summation, and their rounding: a random walk over the nodes."""
    nodes = rule(sigma, 64)
    data = nodes.weights * nodes.f * nodes.ground
    values, errors = np.empty(_CAREFUL), np.empty(_CAREFUL)
    for k, (he, _, power) in enumerate(hermite_sequence(nodes.x, _CAREFUL - 1)):
        terms = data * he * np.exp2(power)
        values[k], errors[k] = math.fsum(terms), 4 * _EPS * float(np.linalg.norm(terms))
    return values, errors


def _check_small(sigma: Activation, c: Array, error: Array) -> None:
    """Whether f is known to 1e-12 relative on small correlations, from the errors of the coefficients."""
    k = np.arange(len(c))
    for rho in (1e-9, 1e-4, 1e-2, 0.1, 0.25):
        size = float(np.sum(c * c * rho**k))
        relative = float(np.sum(2 * np.abs(c) * error * rho**k)) / size if size > 0 else math.inf
        hidden = float(np.sum(np.where(c == 0, error**2, 0.0)[2:] * rho ** k[2:])) / size if size > 0 else math.inf
        if not relative + hidden * (not _is_polynomial(sigma.expr)) <= _SMALL:
            raise PrecisionError(
                f"the dual of {sigma.name} is known to {relative + hidden:.0e} relative at rho = {rho:g}: its first "
                "Hermite coefficients are too small for float64"
            )


def _is_polynomial(node: Node) -> bool:
    """Then a coefficient at rounding level is 0."""
    if node.op == "pow" and (node.number.denominator != 1 or node.number < 0):
        return False
    known = node.constant or node.op in ("x", "add", "mul", "pow", "He")
    return known and all(_is_polynomial(a) for a in node.args)


def _parity(sigma: Activation, low: Scaled) -> tuple[bool, bool]:
    """Whether sigma is even, and whether sigma - c_0 is odd, to the last digit where the Gaussian has mass."""
    x = np.linspace(0.0, BULK, 1021)[1:]
    weight = np.exp(-x * x / 4)
    a, b = centred(sigma, low, x) * weight, centred(sigma, low, -x) * weight
    level = 8e-16 * max(float(np.abs(a).max()), float(np.abs(b).max()), abs(low.c0))
    return bool(np.abs(a - b).max() <= level), bool(np.abs(a + b).max() <= level)


def _first(weights: Array, parity: int) -> int:
    """The first power of this parity that is present (1 or 2 if none is)."""
    present = np.flatnonzero(weights[parity::2])
    return parity + 2 * int(present[0]) if len(present) else 2 - parity


def _summed(sigma: Activation, weights: Array) -> ReducedDual:
    return ReducedDual(sigma.name, _powers(weights), 1.0, None, _sign_of(weights), "hermite series")


def _terms_near(weights: Array) -> int:
    """How many powers f needs for its last digit on |rho| <= reach."""
    share = weights * _NEAR ** np.arange(len(weights))
    rest = np.cumsum(share[::-1])[::-1]
    needed = np.flatnonzero(rest > 1e-18 * rest[0])
    return int(needed[-1])


def _sign_of(weights: Array) -> int:
    """1 if only even powers are present, -1 if only odd ones, else 0."""
    odd, even = bool(np.any(weights[1::2])), bool(np.any(weights[2::2]))
    return 0 if odd and even else -1 if odd else 1


def _powers(weights: Array) -> Parts:
    odd, even = _first(weights, 1), _first(weights, 0)
    return Parts(odd, np.append(weights[odd::2], 0.0), even, np.append(weights[even::2], 0.0), in_powers=True)


def _interpolated(sigma: Activation, low: Scaled, weights: Array, tail: float) -> ReducedDual:
    if tail > 0 and any(p.singular_lower or p.singular_upper for p in sigma.pieces):
        raise PrecisionError(
            f"the dual of {sigma.name} is not available to 1e-14: sigma has a singular point and its Hermite series is "
            f"long (tail {tail:.0e} after {len(weights) - 1} terms)"
        )
    if len(cuts(sigma)) > _MAX_CUTS:
        raise PrecisionError(f"the dual of {sigma.name} is not available to 1e-14: sigma varies on too many scales")
    source = _Source(sigma, low, weights, tail)
    powers = (_first(weights, 1), _first(weights, 0))
    for n in _SIZES:
        s = 0.5 * (1 - np.cos(np.pi * np.arange(n + 1) / n))
        values = np.array([source.parts(float(x), powers) for x in s])
        series = [_chebyshev(values[:, i]) for i in (0, 1)]
        left = max(float(np.abs(c[-4:]).max()) for c in series)
        if left <= _ACCEPTED / 4:
            break
    if left > 2 * _ACCEPTED:
        raise PrecisionError(
            f"the dual of {sigma.name} is not resolved by {_SIZES[-1]} terms in sqrt(1 - |rho|): the last is {left:.0e}"
        )
    odd, even = (_trimmed(c) for c in series)
    beyond = Parts(powers[0], odd, powers[1], even, in_powers=False)
    # relative accuracy towards 0, however small f'(0) is, needs the series; 4^-64 is below everything
    near = _powers(weights[: _terms_near(weights) + 1])
    result = ReducedDual(sigma.name, near, _NEAR, beyond, _sign_of(weights), "hermite series and interpolation")
    _check(result, source)
    return result


def _chebyshev(values: Array) -> Array:
    """Coefficients on [0, 1] from values at s_j = (1 - cos(pi j/n))/2, summed in extended precision."""
    n = len(values) - 1
    j = np.arange(n + 1)
    halved = values[::-1].astype(np.longdouble)
    halved[[0, -1]] *= 0.5
    table = np.cos(np.pi * (np.outer(j, j) % (2 * n)).astype(np.longdouble) / n)
    c = (2.0 / n) * (table @ halved)
    c[[0, -1]] *= 0.5
    return c.astype(np.float64)


def _trimmed(c: Array) -> Array:
    """Without the last terms, as long as they add up to nothing."""
    rest = np.cumsum(np.abs(c[::-1]))[::-1]
    return c[: max(1, int(np.sum(rest > 1e-16)))]


def _check(result: ReducedDual, source: _Source) -> None:
    """Between the points the interpolant must meet the source again."""
    for r in (0.31, 0.83, 0.9871, 0.99937, 0.9999913):
        got = result(np.array([r, -r]))
        want = source.pair(math.sqrt(1 - r))
        miss = float(np.abs(got - want).max())
        if not miss <= 5 * _ACCEPTED:
            raise PrecisionError(f"the dual of {source.sigma.name} is off by {miss:.0e} at |rho| = {r}")


@dataclass(eq=False)
class _Source:
    """f(+-rho) to rounding, by series or by the rotated double integral."""

    sigma: Activation
    low: Scaled
    weights: Array
    tail: float
    known: dict[float, tuple[float, float]] = field(default_factory=dict)

    def parts(self, s: float, powers: tuple[int, int]) -> tuple[float, float]:
        """O/rho^j and E/rho^k at rho = 1 - s^2."""
        rho = 1 - s * s
        if self.short(rho):
            return self.series(s, powers[0]), self.series(s, powers[1])
        plus, minus = self.pair(s)
        odd, even = 0.5 * (plus - minus) / rho ** powers[0], 0.5 * (plus + minus) / rho ** powers[1]
        # a part that vanishes by parity must not come back as rounding of the double integral
        return odd * bool(np.any(self.weights[1::2])), even * bool(np.any(self.weights[0::2]))

    def short(self, rho: float) -> bool:
        """Whether the Hermite series has converged at rho."""
        return self.tail * rho ** len(self.weights) <= _NEGLIGIBLE

    def series(self, s: float, first: int) -> float:
        """The sum of w_k rho^(k - first) over k = first, first + 2, ...

        Powers by the exact logarithm of rho: rho^2 rounded, to the power 200, would be off by 2e-14.
        """
        w = self.weights[first::2]
        if s == 1:
            return float(w[0]) if len(w) else 0.0
        return float(np.sum(w * np.exp(2 * np.arange(len(w)) * math.log1p(-s * s))))

    def pair(self, s: float) -> tuple[float, float]:
        """f(rho), f(-rho) at rho = 1 - s^2; s itself is the argument, for 1 - rho loses it near rho = 1."""
        rho = 1 - s * s
        if self.short(rho):
            odd, even = rho * self.series(s, 1), self.series(s, 0)
            return odd + even, even - odd
        if s not in self.known:
            self.known[s] = (1.0, at_minus_one(self.sigma, self.low)) if s == 0 else rotated(self.sigma, self.low, s)
        return self.known[s]
