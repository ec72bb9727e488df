"""The dual activation in float64: E sigma(X) sigma(Y) as a function of the correlation of X and Y, and what derives
from it. `_build` makes the maps; this file checks arguments and puts the mean and the variance back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from . import _compiled
from ._activation import Activation, ActivationLike, activation
from ._build import reduced_dual
from ._ends import REACH
from ._parts import evaluate
from ._recurrence import Array
from ._reduced import Reduced, clipped
from .errors import PrecisionError

Value: TypeAlias = "float | Array"
_NOTHING = 4 * 2.0**-52  # relative to E sigma^2: a dual this small at -1 is 0
_SMALL = 1e-6  # relative to E sigma^2: what is less is taken from the change next to -1
_PIECE = 1 << 18
_LOGS = -0.3  # log f above which the logarithm is taken of the complement


@dataclass(frozen=True, init=False)
class Dual:
    """The dual activation of sigma: d(rho) = E sigma(X) sigma(Y) = sum of c_k^2 rho^k, (X, Y) standard Gaussian with
    correlation rho in [-1, 1].

    sigma: anything `activation` accepts. Building takes milliseconds for a smooth sigma, a second or two for one with
    kinks, up to a minute for a steep one (tanh(100 x)), and is done once per activation and process; an instance is a
    value, hashable and picklable, and may be shared between threads. All methods take scalars, lists or arrays of any
    shape and real dtype, and return float64 of that shape (a float for a scalar); NaN stays NaN; |rho| beyond 1 by a
    few ulps is clipped, and more is a ValueError. Arrays of 65536 elements and more are computed by machine code where
    numba is installed (extra `fast`); results agree to a few ulps.

    Raises ConstantActivationError, NotSquareIntegrableError; PrecisionError where E sigma^2 leaves float64, or sigma
    is singular (log|x|) or varies on too many scales.

    Source: arXiv:2305.18399, lemmas A.5 and A.6 (Mehler's kernel). Error at most 1e-15 (1 + B^2) E sigma^2, B the
    exponential growth rate; where the dual vanishes at -1, as that of relu, relative accuracy 1e-9 next to it.

    >>> d = Dual("relu")
    >>> round(d(0.5), 12), round(d.derivative(0.5), 12)
    (0.304498890522, 0.333333333333)
    """

    sigma: Activation

    def __init__(self, sigma: ActivationLike) -> None:
        object.__setattr__(self, "sigma", activation(sigma))
        _ = self._map  # whatever is wrong with sigma is said here

    def __repr__(self) -> str:
        return f"Dual({self.sigma.name!r})"

    @cached_property
    def _map(self) -> Reduced:
        return reduced_dual(self.sigma)

    def __getstate__(self) -> Activation:
        return self.sigma

    def __setstate__(self, sigma: Activation) -> None:
        object.__setattr__(self, "sigma", sigma)

    def __call__(self, rho: ArrayLike) -> Value:
        """E sigma(X) sigma(Y) at correlation rho, shape kept."""
        return self._mapped(rho, self._plainly)

    def derivative(self, rho: ArrayLike) -> Value:
        """d'(rho) = sum of k c_k^2 rho^(k-1) = E sigma'(X) sigma'(Y) for a sigma without jumps.

        At 1 it is E sigma'^2, inf where sigma' is not square-integrable (jumps); at -1 the sum of
        k c_k^2 (-1)^(k-1), which may be finite all the same: that of step(x - 1) is 0. Accuracy 1e-13 of d'(|rho|).

        >>> Dual("sign").derivative([0.0, 1.0]).round(12)  # 2/(pi sqrt(1 - rho^2))
        array([0.63661977,        inf])
        """
        variance = self._variance
        return shaped(lambda r: variance * self._map.slope(inside(r)), rho, "rho")

    def normalized(self, rho: ArrayLike) -> Value:
        """kappa(rho) = d(rho)/d(1), the map of correlations of a layer without centring; kappa(1) = 1.

        >>> round(Dual("relu").normalized(0.0), 12)  # 1/pi
        0.318309886184
        """
        return self._mapped(rho, self._normally)

    def reduced(self, rho: ArrayLike) -> Value:
        """f(rho) = (d(rho) - c_0^2)/variance, the map of correlations of a layer with layer normalisation; f(1) = 1.

        Relative error at most 1e-14 on [0, 1] and, away from zeros of f, on (-1e-3, 0), absolute 1e-15 elsewhere;
        f(-1) is -1 or 1 exactly where sigma - c_0 is odd or sigma is even. For a callable sigma 1e-12 relative where
        its first coefficients are small.

        >>> round(Dual("sin").reduced(0.5), 12)  # sinh(1/2)/sinh(1)
        0.443409441985
        """
        return self._mapped(rho, _Affine(self._map, 0.0, 1.0))

    def complement(self, delta: ArrayLike) -> Value:
        """1 - f(1 - delta) for delta in [0, 2]: the map of the distance of correlations from 1.

        Relative error at most 1e-14 for delta from 1e-300 to 1 (1e-13 for a callable): two inputs that nearly
        coincide keep the digits of their distance, which 1 - f(rho) loses.

        >>> Dual("sign").complement(1e-20) / 1e-10  # sqrt(2 delta) * 2/pi
        0.9003163161571058
        """
        return shaped(lambda t: self._map.complement(t + 0.0), delta, "delta", 0.0, 2.0)  # no -0.0

    def log_reduced(self, log_rho: ArrayLike) -> Value:
        """log f(exp(log_rho)) for log_rho <= 0: no underflow, however small rho and f are; -inf for rho = 0.

        Where c_1 = 0, correlations fall doubly exponentially and leave float64 after a few layers.

        >>> round(Dual("cos").log_reduced(-1e4) + 2e4, 9)  # log(w_2), w_2 = 1/(2 (cosh(1) - 1))
        -0.082649709
        """
        return shaped(self._logarithm, log_rho, "log_rho", -math.inf, 0.0)

    # ---- moments in plain units ----

    @cached_property
    def _variance(self) -> float:
        return self._plain(self._map.moments.variance)

    @cached_property
    def _square_of_mean(self) -> float:
        return self._plain(self._map.moments.c0**2)

    def _plain(self, value: float) -> float:
        exponent = 2 * self._map.moments.log_scale
        if value and not -700 < exponent + math.log(value) < 709:
            raise PrecisionError(
                f"the dual of {self.sigma.name} leaves float64: E sigma^2 is about "
                f"exp({exponent + math.log(self._map.moments.second):.6g}); normalized and reduced are available"
            )
        if abs(exponent) < 700:
            return value * math.exp(exponent)
        for _ in range(8):  # the factor alone does not fit
            value *= math.exp(exponent / 8)
        return value

    @cached_property
    def _plainly(self) -> _Affine:
        """d, with the digits next to -1 that it has where it vanishes there."""
        return _Affine(self._map, self._square_of_mean, self._variance, _edge(self._map))

    @cached_property
    def _normally(self) -> _Affine:
        return _Affine(self._map, *self._map.shares, _edge(self._map))

    def _mapped(self, rho: ArrayLike, block: _Affine) -> Value:
        def mapped(r: Array) -> Array:
            if r.size >= _compiled.WORTH and _compiled.available() and _compiled.compilable(self._map):
                out = np.empty(r.shape)
                if block.compiled(r.reshape(-1), out.reshape(-1)):
                    return out
            out = evaluate(block, r)
            block.mend(r.reshape(-1), out.reshape(-1))
            return out

        return shaped(mapped, rho, "rho")

    def _logarithm(self, log_rho: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            out = self._map.logarithm(log_rho)
            near = out > _LOGS  # f > 3/4: what is left to 1 has the digits of the logarithm
            out[near] = np.log1p(-self._map.complement(-np.expm1(log_rho[near])))
        return out


@dataclass(frozen=True, eq=False)
class _Affine:
    """offset + scale f, as a block; below rho = edge `mend` makes it scale (f(rho) - f(-1)), to all its digits."""

    f: Reduced
    offset: float
    scale: float
    edge: float = -1.0

    @property
    def needs_room(self) -> bool:
        return self.f.needs_room

    def into(self, rho: Array, out: Array, work: Array) -> None:
        self.f.into(rho, out, work, self.scale)
        if self.offset:
            out += self.offset

    def compiled(self, rho: Array, out: Array) -> bool:
        """The same by machine code; False where a |rho| beyond 1 needs to be clipped or refused."""
        near = _compiled.fill(self.f, rho, out, self.offset, self.scale, self.edge)
        if near is not None and len(near):
            self._mend(rho, out, near)
        return near is not None

    def mend(self, rho: Array, out: Array) -> None:
        """The digits next to -1: few elements, so long pieces rather than blocks."""

        if self.edge > -1.0:
            pieces = range(0, len(rho), _PIECE)
            found = [np.flatnonzero(rho[start : start + _PIECE] < self.edge) + start for start in pieces]
            if any(len(near) for near in found):
                self._mend(rho, out, np.concatenate(found))

    def _mend(self, rho: Array, out: Array, near: Any) -> None:
        s = np.sqrt(np.maximum(1 + rho[near], 0.0))  # 1 + rho is exact
        out[near] = self.scale * (self.f.lower.change if self.f.tail is None else self.f.tail)(s)


def _edge(f: Reduced) -> float:
    """Up to where a dual that vanishes at -1 is so small that its absolute error would show."""
    low = f.moments
    if abs(low.c0**2 + low.variance * f.at_minus_one) > _NOTHING * low.second:
        return -1.0
    s = np.geomspace(1e-12, REACH if f.tail is None else f.tail.upper, 400)
    small = np.abs((f.lower.change if f.tail is None else f.tail)(s)) * low.variance < _SMALL * low.second
    return float(s[small][-1] ** 2 - 1) if np.any(small) else -1.0


def shaped(f: Callable[[Array], Array], values: ArrayLike, name: str, low: float = -1.0, high: float = 1.0) -> Value:
    """f over values as a C-contiguous float64 array inside [low, high], with their shape; a float for a scalar."""
    given = _as_array(values, name)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {given.dtype}")
    eps = float(np.finfo(given.dtype).eps) if given.dtype.kind == "f" else 2.0**-52
    array = np.ascontiguousarray(given, dtype=np.float64)
    # float64 correlations are checked block by block on the way
    if (low, high, eps) != (-1.0, 1.0, 2.0**-52) and not np.all((array >= low) & (array <= high)):
        array = clipped(array, low, high, name=name, eps=max(eps, 2.0**-52))
    result = f(array)
    return result.reshape(given.shape) if given.ndim else float(result.reshape(()))


def inside(r: Array) -> Array:
    """r in [-1, 1]: ulps beyond are clipped, and more is a ValueError."""
    return clipped(r) if np.any(np.abs(r) > 1) else r


def _as_array(values: ArrayLike, name: str) -> Array:
    """An array of a real dtype; Fractions, mpf and SymPy numbers are rounded, what is masked becomes NaN."""
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        given = np.asarray(values)
        if given.dtype.kind == "O":
            if any(v is None for v in given.flat):
                raise TypeError
            given = given.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold real numbers in one shape, got {values!r:.80}") from None
    return given


def dual(sigma: ActivationLike, rho: ArrayLike) -> Value:
    """The dual activation E sigma(X) sigma(Y) at correlation rho; `Dual` keeps the evaluator and has more to ask.

    sigma: anything `activation` accepts; rho: in [-1, 1], any shape. Errors and accuracy as `Dual`.

    >>> dual("relu", [-1.0, 0.0, 1.0]).round(12)
    array([0.        , 0.15915494, 0.5       ])
    """
    return Dual(sigma)(rho)
