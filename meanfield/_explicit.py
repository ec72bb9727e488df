"""Networks of finite width with their weights: x (runs, n, fan_in) through matrices of independent N(0, 1/fan_in)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._layer import Layer
from ._wide import Array
from ._wide_layer import SKIP_WEIGHTS, WEIGHTS, Site, branch
from ._wide_moments import gathered

Floats: TypeAlias = NDArray[np.float64]

ROWS = 1024  # of a piece of W^T: fan-in that one generator serves


@dataclass(frozen=True)
class Outputs:
    """What a layer has put out: x (runs, n, width), wide, and x x^T/width."""

    x: Array
    gram: Floats


def advance(layer: Layer, before: Outputs, site: Site) -> Outputs:
    """The outputs of the layer, weights drawn and forgotten piece by piece."""
    found = branch(layer, lambda start: _product(before.x, site, WEIGHTS, start), site, keep=True)
    y = found.values
    assert y is not None
    if not layer.skip:
        return Outputs(y, found.gram)
    a, b, x = float(layer.skip), float(1 - layer.skip**2) ** 0.5, site.arrays.empty(*y.shape)

    def block(start: int) -> Array:
        here = site.columns(start)
        x[..., here] = a * before.x[..., here] + b * _product(y, site, SKIP_WEIGHTS, start)
        return x[..., here]  # second moments leave it as it is

    return Outputs(x, gathered(site.arrays, block, site.starts, about_mean=False).second)


def _product(x: Array, site: Site, purpose: int, start: int) -> Array:
    """The block of W x, as x W^T, that begins at a column."""
    fan_in = x.shape[-1]
    total = None
    for row in range(0, fan_in, ROWS):
        W = site.normals(purpose, start, min(ROWS, fan_in - row), row // ROWS)
        part = x[..., row : row + W.shape[-2]] @ W
        total = part if total is None else total + part
    return total * fan_in**-0.5
