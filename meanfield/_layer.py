"""One layer of a wide random network as a map of Gram matrices: a frozen value, called on a correlation matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation, ActivationLike, activation
from hermite._build import reduced_dual
from hermite._dual import Dual
from hermite._numbers import as_fraction
from hermite._numeric import isometry_strength, linearity

from ._gram import check_correlation
from ._pairs import packed, unpacked
from ._step import Step

Floats: TypeAlias = NDArray[np.float64]
_EPS = 2.0**-52


@dataclass(frozen=True)
class Layer:
    """A wide random layer with normalisation after the activation: x -> N(sigma(gain W x)).

    W has independent N(0, 1/fan_in) entries and no bias; width tends to infinity. The Gram matrix of inputs with unit
    diagonal then becomes, entrywise and with unit diagonal again,

        normalization="layer", centred, then scaled:  f(G), f(rho) = sum over k >= 1 of c_k^2 rho^k / variance,
        normalization="rms", scaled only:             kappa(G), kappa(rho) = sum over k >= 0 of c_k^2 rho^k / E sigma^2,

    the reduced and the normalised dual of sigma(gain x).

    activation: anything `hermite.activation` accepts; gain: a positive or negative number, exact as there. `sigma` is
    sigma(gain x). Raises the errors of `hermite.activation`, and ValueError for another normalization; using the layer
    raises ConstantActivationError, NotSquareIntegrableError, or PrecisionError for a dual that is not available.

    Source: arXiv:2305.18399, equation (10) and section 5.

    >>> layer = Layer("relu")
    >>> layer([[1.0, 0.5], [0.5, 1.0]]).round(6)
    array([[1.      , 0.426422],
           [0.426422, 1.      ]])
    """

    activation: ActivationLike
    normalization: Literal["layer", "rms"] = field(default="layer", kw_only=True)
    gain: Any = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.normalization not in ("layer", "rms"):
            raise ValueError(f"normalization must be 'layer' or 'rms', got {self.normalization!r}")
        object.__setattr__(self, "activation", activation(self.activation))
        gain = as_fraction(self.gain, "gain")
        if gain == 0:
            raise ValueError("gain must not be 0: the layer would forget its input")
        object.__setattr__(self, "gain", gain)

    @cached_property
    def sigma(self) -> Activation:
        """The activation with its gain: x -> sigma(gain x)."""
        assert isinstance(self.activation, Activation)
        return self.activation.scaled(self.gain)

    @property
    def linearity(self) -> float:
        """r = c_1^2/variance = 2 - isometry strength: the rate of small correlations with layer normalisation."""
        return linearity(self.sigma)

    @property
    def isometry_strength(self) -> float:
        """beta of sigma(gain x)."""
        return isometry_strength(self.sigma)

    @property
    def label(self) -> str:
        """A short name for legends and messages."""
        return self.sigma.name

    @cached_property
    def step(self) -> Step:
        """The map as arithmetic, built on first use."""
        f = reduced_dual(self.sigma)
        offset, low = f.mean_share, f.moments
        if self.normalization == "layer" or not offset:
            return Step(f, 0.0, 1.0, 0.0, self.sigma.is_opaque)
        offset_error = 8 * _EPS * math.sqrt(offset)  # c_0 is known to eps sqrt(E sigma^2)
        return Step(f, offset, low.variance / low.second, offset_error, self.sigma.is_opaque)

    def map(self, rho: ArrayLike) -> float | Floats:
        """The next correlation of two inputs with correlation rho in [-1, 1]; shape kept, NaN stays NaN.

        f(rho) = `Dual.reduced` or kappa(rho) = `Dual.normalized` by the normalization, and as accurate as they are:
        1 maps to 1 exactly, and so does -1 to -1 or 1 where f is odd or even. Raises ValueError for |rho| beyond 1 by
        more than rounding.

        >>> round(Layer("sin").map(0.5), 12)  # sinh(1/2)/sinh(1)
        0.443409441985
        >>> round(Layer("relu", normalization="rms").map(0.0), 12)  # 1/pi
        0.318309886184
        """
        dual = Dual(self.sigma)
        return dual.reduced(rho) if self.normalization == "layer" else dual.normalized(rho)

    def __call__(self, G: ArrayLike) -> Floats:
        """The next Gram matrix of a correlation matrix G, shape (..., n, n): symmetric, diagonal exactly 1.

        Raises ValueError for a diagonal that is not 1 (pass `correlation(G)`) and for what is no Gram matrix.
        """
        return self.advance(check_correlation(G))

    def advance(self, C: Floats) -> Floats:
        """The layer on matrices known to be correlation matrices; only the upper triangle is computed."""
        n, step = C.shape[-1], self.step
        out = np.empty_like(C)
        for source, target in zip(C.reshape(-1, n, n), out.reshape(-1, n, n), strict=True):
            target[...] = unpacked(step(packed(source)), n)
        return out


Layers: TypeAlias = Layer | Iterable[Layer]


def as_layers(layer: Layers, depth: int | None) -> tuple[Layer, ...]:
    """The layers of a network: one repeated depth times, or a sequence, which fixes the depth."""
    if isinstance(layer, Layer):
        if depth is None:
            raise ValueError("depth is needed with a single layer; only a sequence of layers fixes it")
        return (layer,) * check_depth(depth)
    if isinstance(layer, str) or not isinstance(layer, Iterable):
        raise ValueError(f"layer must be a Layer or a sequence of Layers, got {layer!r}; write Layer({layer!r})")
    layers = tuple(layer)
    wrong = next((x for x in layers if not isinstance(x, Layer)), None)
    if wrong is not None:
        raise ValueError(f"layer must hold Layers only, got {wrong!r}; write Layer({wrong!r})")
    if depth is not None and check_depth(depth) != len(layers):
        raise ValueError(f"depth={depth} contradicts the sequence of {len(layers)} layers; leave it out")
    return layers


def check_depth(depth: Any) -> int:
    """A non-negative integer."""
    if isinstance(depth, (bool, np.bool_)) or not isinstance(depth, (int, np.integer)) or depth < 0:
        raise ValueError(f"depth must be a non-negative integer, got {depth!r}")
    return int(depth)
