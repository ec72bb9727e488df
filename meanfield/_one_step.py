"""How much one layer of finite width scatters the correlations of its outputs.

Let x = x(u), y = x(u') be the normalised outputs of one neuron on two inputs, E x^2 = E y^2 = 1, E x y = kappa(rho),
and x_a, y_a those of neurons a = 1..d, which are independent of each other given the layer before. (A bias per neuron
is one more Gaussian summand of u and u', and makes their correlation t = shift + share rho.) With A, B, C the means
over a of x y - kappa, x^2 - 1, y^2 - 1, all of size d^(-1/2), the entry of the sample correlation matrix is

    (kappa + A)/sqrt((1 + B)(1 + C)) = kappa + A - (kappa/2)(B + C) + O(1/d) = kappa + mean of Y_a + O(1/d),
    Y = x y - (kappa/2)(x^2 + y^2),        E Y = 0.

Means that the layer subtracts are those of the sample: what they add is a product of two means, again O(1/d). So for
"layer", where E x = 0, and for "rms", where it need not be, with its own kappa, sqrt(d) (entry - kappa) -> N(0, v) with

    v(t) = E Y^2 = q - 2 kappa s + (kappa^2/2)(m_4 + q),    q = E x^2 y^2,  s = E x^3 y,  m_4 = E x^4.

v(1) = 0. With "layer" v = 1 at t = 0. (The variance of x y itself, q - kappa^2, is another: for relu at t = 1/2 twice
as much. Dividing by the norms of the sample takes off what they have in common with x y.)

Next to t = 1 all three terms tend to m_4 and cancel, down to (1 - t)^2 for a continuous sigma and sqrt(1 - t) for one
with jumps. With D = x - y, 1 - kappa = E D^2/2 and

    Y = ((1 - kappa)(x^2 + y^2) - D^2)/2,

whose two terms are of the size of Y: they are integrated as they stand. v is then a smooth function of sqrt(1 - t)
times that power of it, of sqrt(1 + t) on the other side, and becomes a Chebyshev series in these, once for each sigma.

Source: the delta method; arXiv:2305.18399, section 7.2, has the size of the effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation
from hermite._dual import inside, shaped
from hermite._ends import jumps_of
from hermite.errors import PrecisionError

from ._joint import Output, output, pair_mean
from ._layer import Layer
from ._step import Step

Floats: TypeAlias = NDArray[np.float64]
_TERMS = 24
_WANTED, _ACCEPTED = 1e-9, 1e-6  # relative to v
_ROUNDING = 4 * 2.0**-52  # of the largest value on a panel
_NARROWEST, _MOST_PANELS = 2.0**-8, 16
_FLOOR = 1e-3  # of v at t = 0: where v vanishes at -1 in an unusual way, relative errors stop there
_HIGHEST = 12  # power of sqrt(1 + t) by which v may vanish at -1


def one_step_variance(layer: Layer, rho: ArrayLike) -> float | Floats:
    """Width times the variance of a correlation after one layer of finite width, of two inputs with correlation rho.

    v = q - 2 kappa s + (kappa^2/2)(m_4 + q) as the module derives it: the sample correlation of the outputs of d
    neurons is kappa(rho) + N(0, v/d), to leading order in 1/d. rho: in [-1, 1], any shape, which is kept; NaN stays
    NaN. v(1) = 0; layers of parity have v(-1) = 0, too.

    layer: normalization "layer" or "rms" after the activation, with any gain and bias_variance, and no skip; ValueError
    names what is not derived. Raises NotSquareIntegrableError where E sigma^4 is infinite, PrecisionError where v is
    not resolved (sqrt|x|, exp(20 x)), and the errors of the layer.

    Relative error at most 1e-9, most often 1e-13, up to rho = 1 - 1e-16 and, with parity, down to its mirror image;
    next to -1 of the others, 1e-9 of v(0). Where fourth moments are huge (exp(3 x): 4e15) 1e-6. A sigma takes 0.1 to 3
    seconds the first time, a steep one (sin(30 x), tanh(100 x)) up to minutes, and microseconds then.

    Source: the delta method, see the module; for a linear sigma R. A. Fisher's (1 - rho^2)^2.

    >>> one_step_variance(Layer("identity"), [0.0, 0.5, 1.0]).round(12)  # (1 - rho^2)^2
    array([1.    , 0.5625, 0.    ])
    >>> round(one_step_variance(Layer("relu"), 0.5), 6)
    1.074989
    """
    check_derived(layer)
    step = layer.step

    def value(r: Floats) -> Floats:
        r = inside(r)
        return one_step_of(layer.sigma, centred=layer.is_centred)(
            step.share * (1.0 - r), 2.0 * step.shift + step.share * (1.0 + r)
        )

    return shaped(value, rho, "rho")


def check_derived(layer: Layer) -> None:
    """ValueError for a layer whose fluctuations are not derived."""
    if layer.order != "activation-first":
        why = "it normalises before the activation, so that the norms of its outputs scatter as well"
    elif layer.normalization not in ("layer", "rms"):
        why = {
            "batch": "batch normalisation mixes all inputs",
            "none": "nothing keeps the norms of its outputs, whose fluctuations add up over depth",
        }.get(layer.normalization, "its outputs have norms that fluctuate, too")
    elif layer.skip:
        why = "a skip connection adds what the layers before it have left"
    else:
        return
    raise ValueError(f"{layer.label}: fluctuations at finite width are not derived for this layer: {why}")


@dataclass(frozen=True, eq=False)
class Side:
    """root^power times a Chebyshev series on each panel of [0, 1], root that of the distance from one end.

    edges: of the panels; coefficients: (panels, terms); error: the largest relative one.
    """

    power: int
    edges: Floats
    coefficients: Floats
    error: float

    def __call__(self, distance: Floats) -> Floats:
        root = np.sqrt(distance)
        out = np.full_like(root, math.nan)
        for low, high, c in zip(self.edges[:-1], self.edges[1:], self.coefficients, strict=True):
            here = (root >= low) & (root <= high)
            r = root[here]
            out[here] = np.maximum(r**self.power * chebval((2.0 * r - low - high) / (high - low), c), 0.0)
        return out


@dataclass(frozen=True, eq=False)
class OneStep:
    """v(t), by its distance from 1 for t >= 0 and from -1 for t < 0."""

    upper: Side
    lower: Side

    def __call__(self, above: Floats, below: Floats) -> Floats:
        """above = 1 - t, below = 1 + t; NaN stays NaN."""
        return np.where(below >= 1.0, self.upper(np.minimum(above, 1.0)), self.lower(np.minimum(below, 1.0)))


@lru_cache(maxsize=256)
def one_step_of(sigma: Activation, *, centred: bool) -> OneStep:
    """v of a layer of this sigma without a bias, which is made once."""
    step = Layer(sigma, normalization="layer" if centred else "rms").step
    x = output(sigma, centred=centred)

    def above(root: float) -> float:
        return _next_to_one(x, step, root)

    power = 1 if jumps_of(x.sigma, x.low) else 4
    if any(p.singular_lower or p.singular_upper for p in sigma.pieces) and _power_of(above) != power:
        raise PrecisionError(f"fluctuations of {sigma.name} at finite width are not resolved: it has a singular point")
    upper = _series(above, power, sigma.name)
    if step.parity:  # x(-u) = x(u) or -x(u): v is even
        return OneStep(upper, upper)

    def below(root: float) -> float:
        return _next_to_minus_one(x, step, root)

    return OneStep(upper, _series(below, _power_of(below), sigma.name, floor=_FLOOR))


def _next_to_one(x: Output, step: Step, root: float) -> float:
    delta = float(step.complement(np.array([root * root]))[0])  # 1 - kappa

    def square(a: Floats, b: Floats) -> Floats:
        D = a - b
        Y = 0.5 * (delta * (a * a + b * b) - D * D)
        return Y * Y

    return pair_mean(square, x, x, root, mirrored=False)


def _next_to_minus_one(x: Output, step: Step, root: float) -> float:
    kappa = float(step.from_minus_one(np.array([root * root]))[0])
    return pair_mean(squared(kappa), x, x, root, mirrored=True)


def squared(kappa: float) -> Callable[[Floats, Floats], Floats]:
    """Y^2."""

    def square(a: Floats, b: Floats) -> Floats:
        Y = a * b - 0.5 * kappa * (a * a + b * b)
        return Y * Y

    return square


def _power_of(v: Callable[[float], float]) -> int:
    """The power of the root with which v vanishes at 0: that of two small roots if it is an integer, else 0.

    At -1 it is 0 but where x y is a multiple of x^2 + y^2: 5 for relu with "rms", of which x y is 0 there.
    """
    root = 2.0**-9
    near, far = v(root), v(2.0 * root)
    found = math.log2(far / near) if near > 0.0 else math.inf
    return round(found) if found < _HIGHEST and abs(found - round(found)) < 0.02 else 0


def _series(v: Callable[[float], float], power: int, name: str, floor: float = 0.0) -> Side:
    """v/root^power on panels of [0, 1] that are halved until each is resolved relative to its smallest value."""
    floor *= v(1.0)
    angle = (np.arange(_TERMS) + 0.5) * (math.pi / _TERMS)
    transform = np.cos(np.arange(_TERMS)[:, None] * angle) * (2.0 / _TERMS)
    transform[0] *= 0.5
    found, waiting = [], [(0.0, 1.0)]
    while waiting:
        low, high = waiting.pop()
        root = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle)
        values = np.array([v(float(r)) for r in root]) / root**power
        c = transform @ values
        tail = float(np.abs(c[-3:]).sum())
        error = max(tail, _ROUNDING * float(values.max())) / max(float(values.min()), floor)
        if error <= _WANTED or high - low <= _NARROWEST:
            found.append((low, high, c, error))
            continue
        if len(waiting) + len(found) + 2 > _MOST_PANELS:
            raise _unresolved(name, error)
        middle = 0.5 * (low + high)
        waiting += [(low, middle), (middle, high)]
    lows, highs, coefficients, errors = zip(*sorted(found, key=lambda panel: panel[0]), strict=True)
    if not max(errors) <= _ACCEPTED:
        raise _unresolved(name, max(errors))
    return Side(power, np.array([*lows, highs[-1]]), np.array(coefficients), max(errors))


def _unresolved(name: str, error: float) -> PrecisionError:
    return PrecisionError(
        f"fluctuations of {name} at finite width are known to {error:.0e} only: sigma has a singular point, is too "
        "steep, or has fourth moments that are too large"
    )
