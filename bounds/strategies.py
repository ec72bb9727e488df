"""Hypothesis strategies for everything that a claim is about: matrices, inputs, activations, layers.

Public, keyword-only, drawn by construction; each shrinks to its simplest member and reaches the edges where bounds
are attained or break.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from hypothesis import strategies as st

from bounds._batch_strategies import batches as batches
from bounds._matrix_strategies import correlation_matrices as correlation_matrices
from bounds._matrix_strategies import psd_matrices as psd_matrices
from bounds._weight_strategies import weight_sequences as weight_sequences
from hermite._activation import ActivationLike
from hermite.strategies import activations as activations
from meanfield._layer import Layer, Normalization

__all__ = ["activations", "batches", "correlation_matrices", "layers", "psd_matrices", "weight_sequences"]

_Layers: TypeAlias = st.SearchStrategy[Layer]

# Simplest first: that is the order of shrinking.  Each has a dual that is built in less than half a second, and once.
_NAMES = ["identity", "relu", "tanh", "gelu", "exp", "sin", "sigmoid", "abs", "He(2, x)", "He(3, x)"]
_STEEP = ["tanh", "exp", "sin", "sigmoid"]  # gains matter here and cost little
_GAINS = [Fraction(1, 2), Fraction(2), Fraction(-1)]
_SKIPS = [Fraction(0), Fraction(1, 2), Fraction(9, 10)]
_COEFFICIENTS = [Fraction(k, 4) for k in (4, -4, 2, -2, 1, -1, 8, -8)]


def layers(
    *,
    activation: st.SearchStrategy[ActivationLike] | None = None,
    normalization: Normalization = "layer",
    skips: bool = False,
) -> _Layers:
    """Strategy for layers: common activations, some with a gain, and random Hermite polynomials of degree up to 6.

    activation: a strategy for the activation instead, such as `activations()`, which reaches further and may take a
    second for each new one.  normalization: of all layers, as in `Layer`.  skips: whether some have a skip connection.
    Reaches linear layers (isometry strength 1) and those of strength 2, odd and even activations, kinks.  Shrinks to
    the identity, without a skip.  Raises ValueError, at the call, for an unknown normalization.

    >>> from hypothesis import find
    >>> find(layers(), lambda layer: True).label
    'identity'
    >>> find(layers(normalization="rms", skips=True), lambda layer: layer.skip > 0)
    Layer(Activation('identity'), normalization='rms', skip=Fraction(1, 2))
    """
    Layer("identity", normalization=normalization)  # its message names what is known
    chosen = _common() if activation is None else st.builds(Layer, activation)
    if normalization != "layer":
        chosen = chosen.map(lambda layer: replace(layer, normalization=normalization))
    return st.builds(_with_skip, st.sampled_from(_SKIPS), chosen) if skips else chosen


def _with_skip(skip: Fraction, layer: Layer) -> Layer:
    return replace(layer, skip=skip) if skip else layer


def _common() -> _Layers:
    steep = st.builds(lambda name, gain: Layer(name, gain=gain), st.sampled_from(_STEEP), st.sampled_from(_GAINS))
    return st.one_of(st.sampled_from(_NAMES).map(Layer), _polynomials().map(Layer), steep)


@st.composite
def _polynomials(draw: st.DrawFn) -> str:
    """The text of a Hermite polynomial without a constant term, so that it is not constant."""
    degrees = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True))
    return " + ".join(f"({draw(st.sampled_from(_COEFFICIENTS))})*He({k}, x)" for k in sorted(degrees))
