"""One layer of a wide random network as a map of Gram matrices: a frozen value, called on a correlation matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation, ActivationLike, activation
from hermite._numbers import as_fraction
from hermite._numeric import isometry_strength, linearity
from hermite._reduced import reduced_dual

from ._gram import check_correlation

Floats: TypeAlias = NDArray[np.float64]
_SLACK = 1e-12  # |rho| may exceed 1 by this much from rounding upstream; beyond it is an error of the caller


@dataclass(frozen=True)
class Layer:
    """A wide random layer with layer normalisation after the activation: x -> LN(sigma(gain W x)).

    W has independent N(0, 1/fan_in) entries and no bias; width tends to infinity. The Gram matrix of inputs with unit
    diagonal then becomes f(G) entrywise, with the reduced dual f(rho) = sum over k >= 1 of w_k rho^k,
    w_k = c_k^2/variance of sigma(gain x): the diagonal stays 1.

    activation: anything `hermite.activation` accepts; gain: a positive or negative number, exact as there. `sigma` is
    sigma(gain x). Raises the errors of `hermite.activation`; using the layer raises ConstantActivationError,
    NotSquareIntegrableError, or PrecisionError for a dual that is not available to 1e-14.

    Source: arXiv:2305.18399, equation (10) and section 5.

    >>> layer = Layer("relu")
    >>> layer([[1.0, 0.5], [0.5, 1.0]]).round(6)
    array([[1.      , 0.426422],
           [0.426422, 1.      ]])
    """

    activation: ActivationLike
    gain: Any = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
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
        """r = f'(0) = 2 - isometry strength: the rate at which small correlations shrink."""
        return linearity(self.sigma)

    @property
    def isometry_strength(self) -> float:
        """beta of sigma(gain x)."""
        return isometry_strength(self.sigma)

    @property
    def label(self) -> str:
        """A short name for legends and messages."""
        return self.sigma.name

    def map(self, rho: ArrayLike) -> float | Floats:
        """f(rho), the next correlation of two inputs with correlation rho in [-1, 1]; shape kept, NaN stays NaN.

        Relative error about 1e-15 towards 0, absolute 1e-14 elsewhere; f(1) = 1 exactly, and f(-1) = -1 or 1 exactly
        where sigma - c_0 is odd or sigma is even. Raises ValueError for |rho| beyond 1 by more than rounding.

        >>> round(Layer("sin").map(0.5), 12)  # sinh(1/2)/sinh(1)
        0.443409441985
        """
        values = np.asarray(rho)
        if values.dtype.kind not in "fiub":
            raise ValueError(f"rho must hold real numbers, got dtype {values.dtype}")
        r = values.astype(np.float64)
        size = np.abs(r)
        if np.any(size > 1 + _SLACK):
            raise ValueError(f"rho must lie in [-1, 1], got {float(r.ravel()[np.nanargmax(size)])!r}")
        mapped = reduced_dual(self.sigma)(np.clip(r, -1.0, 1.0))
        return mapped if mapped.ndim else float(mapped)

    def __call__(self, G: ArrayLike) -> Floats:
        """The next Gram matrix of a correlation matrix G, shape (..., n, n): symmetric, diagonal exactly 1.

        Raises ValueError for a diagonal that is not 1 (pass `correlation(G)`) and for what is no Gram matrix.
        """
        return self.advance(check_correlation(G))

    def advance(self, C: Floats) -> Floats:
        """The layer on matrices known to be correlation matrices; only the upper triangle is computed."""
        rows, columns = np.triu_indices(C.shape[-1], 1)
        out = np.empty_like(C)
        out[..., rows, columns] = out[..., columns, rows] = reduced_dual(self.sigma)(C[..., rows, columns])
        diagonal = np.arange(C.shape[-1])
        out[..., diagonal, diagonal] = 1.0
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
