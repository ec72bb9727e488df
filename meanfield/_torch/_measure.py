"""Isometry at the layers of a given network, trained or not: the door to what needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._measurement import Measurement

if TYPE_CHECKING:
    import torch

Single: TypeAlias = "str | type[torch.nn.Module] | Callable[[str, torch.nn.Module], bool]"
Layers: TypeAlias = "Single | Mapping[Single, str] | Iterable[Single | Mapping[Single, str]] | None"
Mode: TypeAlias = Literal["batch", "eval", "train"]
_MODES = ("batch", "eval", "train")


def measure(
    module: torch.nn.Module,
    X: ArrayLike | torch.Tensor,
    *,
    layers: Layers = None,
    samples: Literal["batch", "tokens"] | int = "batch",
    mode: Mode = "batch",
    keep: bool = False,
) -> Measurement:
    """Isometry before and after every normalisation layer of a module, and what theorem 4.1 says there.

    The module is called once on X. For every call of a layer, in the order of calls, Gram matrices of what goes in and
    comes out are formed in float64, whatever the module's dtype, and with them isometry gap, potential and largest
    correlation. Theorem 4.1 knows nothing of weights: it holds after training as well as at initialisation, but for its
    own object, vectors of which each is divided by its length. So `normalization` of a row speaks of these, without
    epsilon and affine part, and says separately what epsilon takes from the gain (`eps_loss`) and what came out in fact
    (`gap_actual`). These vectors are:
    LayerNorm, GroupNorm with one group, InstanceNorm with samples=1: samples less their mean over features (corollary
    4.2; against samples that are not centred it is false); RMSNorm: samples as they are (theorem 4.1); BatchNorm: the
    features, or channels, less their mean over batch and space (corollary 4.3; once the batch is centred, the Gram
    matrix of flat samples is singular). Where a sample is not one such vector, or one is constant, normalization is
    None and `reason` says so.

    X: (n, ...), rows are samples. An array is converted to the dtype and device of the module's weights (float64 where
    it has none); a tensor, as for token ids, is passed as it is.
    layers: None or "normalization" for all normalisation layers of torch; else a name or pattern ("blocks.*.norm1"), a
    class (torch.nn.Linear), a function of (name, layer), or a list of these. A mapping says what a class of one's own
    does along its last axis: {MyNorm: "layer"} or {MyNorm: "rms"}.
    samples: the axis of activations that holds samples. Axes after it are flattened to features, such as channels,
    height and width of images; each index of the axes before it is a batch with a row of its own. "batch" is axis 0,
    "tokens" axis -2: for activations (batch, tokens, features) the tokens of each sequence.
    mode: "batch", the default: nothing is random, and batch normalisation uses the statistics of this batch, which the
    theorem is about and the network is trained with. "eval": as it is deployed, with running statistics (of which the
    theorem says nothing). "train": with dropout, too, by the present state of torch's random numbers.
    keep: whether rows keep input and output as float64 arrays, as for `bounds.layer_norm_gain`.

    There are no gradients. Training flags, buffers, random state and hooks are as before afterwards, also if the module
    raises.
    Raises MissingDependencyError without torch (extra `torch`), and ValueError for what is no module, for X that is not
    real and finite, for fewer than 2 samples, if no layer is chosen or called, and for activations that are not finite,
    naming the layer.
    Source: theorem 4.1, corollaries 4.2 and 4.3 of arXiv:2305.18399. Gaps are those of the activations as they are, to
    `isometry_gap_error`; where rounding in the layer's own dtype may have made or hidden a linear dependence they are
    inf, "unresolved": where the correlation matrix has an eigenvalue below 2e-13 in float32, or 1e-3 in bfloat16.

    >>> import torch
    >>> X = torch.tensor([[1.0, 2, 3, 6], [3, 0, 0, 1], [1, 5, 1, 1]])
    >>> row = measure(torch.nn.LayerNorm(4), X).rows[0]
    >>> theorem = row.normalization
    >>> round(theorem.predicted_gain, 6), round(theorem.gain, 6), theorem.verdict
    (0.029345, 0.061882, 'holds')
    """
    from . import load

    load()
    from ._recording import Settings, record

    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, _MODES))}, got {mode!r}")
    if not isinstance(keep, (bool, np.bool_)):
        raise ValueError(f"keep must be True or False, got {keep!r}")
    return record(module, X, layers, Settings(_axis(samples), mode, bool(keep)))


def _axis(samples: Any) -> int:
    if isinstance(samples, str) and samples in ("batch", "tokens"):
        return 0 if samples == "batch" else -2
    if isinstance(samples, (bool, np.bool_)) or not isinstance(samples, (int, np.integer)):
        raise ValueError(f"samples must be 'batch', 'tokens' or an axis, an integer, got {samples!r}")
    return int(samples)
