"""One layer of a wide random network as a map of Gram matrices: a frozen value, called on a covariance matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hermite._activation import Activation, ActivationLike, activation
from hermite._build import reduced_dual
from hermite._dual import Dual, inside, shaped
from hermite._homogeneity import degree_of
from hermite._numbers import as_fraction, shown
from hermite._numeric import isometry_strength, linearity, second_moment

from ._covariance import advance
from ._gram import check_covariance
from ._step import Step
from ._variances import VarianceMap, variances_of

Floats: TypeAlias = NDArray[np.float64]
_EPS = 2.0**-52
_SMALLEST = Fraction(1, 10**150)
Normalization: TypeAlias = Literal["layer", "rms", "center", "constant", "none", "batch"]
Order: TypeAlias = Literal["activation-first", "normalization-first"]


@dataclass(frozen=True)
class Layer:
    """A wide random layer: x -> N(sigma(gain W x + b)), or sigma(gain N(W x) + b), and perhaps a skip connection.

    W has independent N(0, 1/fan_in) entries; b is N(0, bias_variance) for each neuron, shared by all inputs; the width
    tends to infinity. Called on the Gram matrix G of a batch (divided by the width; any covariance matrix), the layer
    gives that of its output. Let u be the arguments of sigma, S = E sigma(u) sigma(u)^T, m = E sigma(u), v = diag(S) -
    m^2. With order="activation-first", where cov(u) = gain^2 G + bias_variance, normalization is

        "layer"     centred over the features, then scaled:   (S - m m^T)_ij / sqrt(v_i v_j),
        "rms"       scaled only:                              S_ij / sqrt(S_ii S_jj),
        "center"    centred only:                             S - m m^T,
        "constant"  by the constants of unit inputs:          E (sigma(u_i) - c_0)(sigma(u_j) - c_0) / V,
        "none"                                                S,
        "batch"     over the batch instead of the features: exact for linear sigma.

    With order="normalization-first" the same is done to W x, whose mean is 0: "layer" and "rms" make G a correlation
    matrix, "center", "constant" and "none" leave it, "batch" (exact for linear and positively homogeneous sigma)
    centres and scales over the batch; the result is S. c_0 and V are those of sigma at variance gain^2 + bias_variance.
    A skip a in [0, 1) makes the output a x + sqrt(1 - a^2) W_2 y of the above y, W_2 N(0, 1/width) and independent:
    a^2 G + (1 - a^2) Y.

    activation: anything `hermite.activation` accepts; gain, bias_variance >= 0, skip: numbers, exact as there. Raises
    the errors of `hermite.activation`, and ValueError for other options; using the layer raises
    ConstantActivationError, NotSquareIntegrableError, or PrecisionError for a dual that is not available.

    Source: arXiv:2305.18399, equation (10), sections 5 to 7.

    >>> layer = Layer("relu")
    >>> layer([[1.0, 0.5], [0.5, 1.0]]).round(6)
    array([[1.      , 0.426422],
           [0.426422, 1.      ]])
    >>> Layer("relu", normalization="none", gain=2, bias_variance=1)([[1.0, 0.0], [0.0, 0.25]]).round(6)
    array([[2.5     , 0.778673],
           [0.778673, 1.      ]])
    """

    activation: ActivationLike
    normalization: Normalization = field(default="layer", kw_only=True)
    order: Order = field(default="activation-first", kw_only=True)
    gain: Any = field(default=1, kw_only=True)
    bias_variance: Any = field(default=0, kw_only=True)
    skip: Any = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        for name, allowed in (("normalization", Normalization), ("order", Order)):
            if getattr(self, name) not in get_args(allowed):
                choice = ", ".join(map(repr, get_args(allowed)))
                raise ValueError(f"{name} must be one of {choice}, got {getattr(self, name)!r}")
        object.__setattr__(self, "activation", activation(self.activation))
        for name in ("gain", "bias_variance", "skip"):
            object.__setattr__(self, name, as_fraction(getattr(self, name), name))
        if self.gain == 0:
            raise ValueError("gain must not be 0: the layer would forget its input")
        if self.bias_variance < 0:
            raise ValueError(f"bias_variance must not be negative, got {shown(self.bias_variance)}")
        if not 0 <= self.skip < 1:
            raise ValueError(f"skip must lie in [0, 1), got {shown(self.skip)}: at 1 the layer would do nothing")
        for name in ("gain", "bias_variance"):
            size = abs(getattr(self, name))
            if size and not _SMALLEST <= size <= 1 / _SMALLEST:
                raise ValueError(
                    f"{name} must lie between 1e-150 and 1e150 in size, whose squares are in float64, got "
                    f"{shown(getattr(self, name))}"
                )

    def __repr__(self) -> str:
        return f"Layer({', '.join([repr(self.activation), *(f'{k}={v!r}' for k, v in self.options.items())])})"

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # what was computed on the way stays here

    # ---- what the options mean ----

    @property
    def options(self) -> dict[str, Any]:
        """The keywords that differ from their defaults."""
        given = ((f.name, getattr(self, f.name), f.default) for f in fields(self) if f.kw_only)
        return {name: value for name, value, default in given if value != default}

    @property
    def keep(self) -> float:
        """skip^2: the share of the output that is the input."""
        return float(self.skip**2)

    @property
    def is_centred(self) -> bool:
        """Whether the mean is taken off: orthogonal inputs then stay so, but for a bias."""
        return self.order == "activation-first" and self.normalization in ("layer", "center", "constant")

    @property
    def forgets_norms(self) -> bool:
        """Whether inputs are scaled to equal norms, before or after sigma."""
        return self.normalization in ("layer", "rms")

    @property
    def keeps_unit_diagonal(self) -> bool:
        """Whether a correlation matrix becomes one, whatever sigma is."""
        return self.order == "activation-first" and self.normalization in ("layer", "rms", "constant")

    @cached_property
    def sigma(self) -> Activation:
        """The activation as unit inputs meet it: x -> sigma(sqrt(gain^2 + bias_variance) x)."""
        assert isinstance(self.activation, Activation)
        return self._sigma_at(Fraction(1))

    def _sigma_at(self, variance: Fraction) -> Activation:
        """x -> sigma(s x), s the deviation of arguments where the diagonal of G is `variance`."""
        base = self.activation
        assert isinstance(base, Activation)
        if variance == 1 and not self.bias_variance:
            return base.scaled(self.gain)
        total = self.gain**2 * variance + self.bias_variance
        if degree_of(base) is not None:
            return base  # its duals do not see a scale
        s = _root(total)
        scaled = base.scaled(s)
        return scaled if s.denominator < 10**6 else activation(scaled, name=f"{base.name} at {float(s):.6g}*x")

    @property
    def linearity(self) -> float:
        """r = c_1^2/variance = 2 - isometry strength: the rate of small correlations with layer normalisation, no bias.

        With a skip it is that of the whole layer, a^2 + (1 - a^2) r. With a bias 0 is no fixed point: see `slope`.
        """
        return self.keep + (1.0 - self.keep) * linearity(self.sigma)

    @property
    def isometry_strength(self) -> float:
        """beta of sigma, and with a skip 1 + (1 - a^2)(beta - 1)."""
        beta = isometry_strength(self.sigma)
        return beta if not self.skip else 1.0 + (1.0 - self.keep) * (beta - 1.0)

    @property
    def label(self) -> str:
        """A short name for legends and messages."""
        said: list[str] = [] if self.normalization == "layer" else [self.normalization]
        said += ["normalised first"] if self.order == "normalization-first" else []
        said += [f"bias {float(self.bias_variance):g}"] if self.bias_variance else []
        said += [f"skip {float(self.skip):g}"] if self.skip else []
        name = self.activation.scaled(self.gain).name if isinstance(self.activation, Activation) else ""
        return f"{name} ({', '.join(said)})" if said else name

    # ---- the diagonal ----

    @cached_property
    def variances(self) -> VarianceMap:
        """The map of diagonal entries of G; ValueError for batch normalisation, which has none."""
        assert isinstance(self.activation, Activation)
        return variances_of(
            self.activation,
            normalization=self.normalization,
            order=self.order,
            gain_squared=float(self.gain**2),
            bias_variance=float(self.bias_variance),
            keep=self.keep,
        )

    @cached_property
    def variance(self) -> float:
        """The diagonal that stays: 1, or where unit inputs are led to. ValueError where there is none."""
        if self.keeps_unit_diagonal:
            return 1.0
        if self.order == "normalization-first" and self.forgets_norms:
            return second_moment(self.unit_activation)
        return self._led_to()

    @property
    def unit_activation(self) -> Activation:
        """sigma at unit inputs, its scale included where `sigma` has left it out."""
        base = self.activation
        assert isinstance(base, Activation)
        return base.scaled(_root(self.gain**2 + self.bias_variance))

    def _led_to(self) -> float:
        """The fixed point of the diagonal that attracts unit inputs."""
        if self.normalization == "batch":
            raise self._no_map("every entry depends on all inputs; call the layer on a matrix")
        if self.is_stationary(1.0):
            return 1.0
        found = self.variances.led_to(1.0)
        follow = "; variance_map(layer, q) shows it, layer(G) and trajectory follow it"
        if found is None:
            raise self._no_map("the diagonal grows without bound" + follow)
        if found.variance == 0.0:
            raise self._no_map("the diagonal falls to 0" + follow)
        if abs(found.slope) > 1.0 + 1e-9:
            raise self._no_map("the diagonal does not settle" + follow)
        return float(found.variance)

    def _no_map(self, why: str) -> ValueError:
        return ValueError(f"{self.label} has no map of correlations: {why}")

    def is_stationary(self, q: float) -> bool:
        """Whether a diagonal of q stays, to rounding."""
        if self.keeps_unit_diagonal:
            return q == 1.0
        return abs(float(self.variances(np.array([q]))[0]) - q) <= 8 * _EPS * q

    # ---- the map of correlations ----

    @cached_property
    def step(self) -> Step:
        """The map of correlations as arithmetic, where the diagonal is stationary; built on first use."""
        return self.step_at(self._variance_of_step)

    @property
    def _variance_of_step(self) -> float:
        """The diagonal that arguments come from."""
        return 1.0 if self.forgets_norms else self.variance

    def step_at(self, q: float) -> Step:
        """The same where the arguments come from a diagonal of q, which must be stationary."""
        variance = Fraction(q)
        sigma = self._sigma_at(variance)
        f = reduced_dual(sigma)
        offset, scale = (0.0, 1.0) if self.is_centred else f.shares
        weights = self.gain**2 * variance
        total = weights + self.bias_variance
        return Step(
            f,
            offset,
            scale,
            8 * _EPS * math.sqrt(offset),  # c_0 is known to eps sqrt(E sigma^2)
            sigma.is_opaque,
            share=float(weights / total),
            shift=float(self.bias_variance / total),
            keep=self.keep,
        )

    def map(self, rho: ArrayLike) -> float | Floats:
        """The next correlation of two inputs with correlation rho in [-1, 1]; shape kept, NaN stays NaN.

        f(rho) = `Dual.reduced` or kappa(rho) = `Dual.normalized` by the normalization, at (gain^2 rho + bias_variance)/
        (gain^2 + bias_variance), and as accurate as they are; with a skip a^2 rho + (1 - a^2) of that. 1 maps to 1
        exactly, and so does -1 to -1 or 1 where the map is odd or even. It is the map where the diagonal is stationary:
        always for "layer" and "rms", at 1 for "constant"; for the others at the fixed point of the variance that unit
        inputs are led to, and ValueError where there is none, or |rho| is beyond 1 by more than rounding.

        >>> round(Layer("sin").map(0.5), 12)  # sinh(1/2)/sinh(1)
        0.443409441985
        >>> round(Layer("relu", normalization="rms").map(0.0), 12)  # 1/pi
        0.318309886184
        """
        step = self.step
        if not step.is_plain:
            return shaped(lambda r: step(inside(r)), rho, "rho")
        dual = Dual(self._sigma_at(Fraction(self._variance_of_step)))
        return dual.normalized(rho) if step.offset else dual.reduced(rho)

    def slope(self, rho: ArrayLike) -> float | Floats:
        """The derivative of `map` at rho; at 1 inf where sigma has jumps. Accuracy 1e-13 of that at |rho|.

        >>> round(Layer("relu").slope(1.0), 12)  # pi/(pi - 1)
        1.466942206924
        """
        step = self.step
        return shaped(lambda r: step.slope(inside(r)), rho, "rho")

    def __call__(self, G: ArrayLike) -> Floats:
        """The Gram matrix after the layer, (..., n, n), symmetric; G: (..., n, n), the covariance matrix before it.

        Raises ValueError for what is no Gram matrix, and for an input of norm 0 that has to be normalised.
        """
        return self.advance(check_covariance(G))

    def advance(self, G: Floats) -> Floats:
        """The layer on matrices known to be Gram matrices."""
        out = np.empty_like(G)
        n = G.shape[-1]
        for source, target in zip(G.reshape(-1, n, n), out.reshape(-1, n, n), strict=True):
            target[...] = advance(self, source)
        return out


def _root(q: Fraction) -> Fraction:
    """sqrt(q): exact for a square of a rational, else the nearest float."""
    exact = Fraction(math.isqrt(q.numerator), math.isqrt(q.denominator))
    return exact if exact * exact == q else Fraction(math.sqrt(q))


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
