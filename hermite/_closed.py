"""Hermite weights in closed form where quadrature cannot have their digits: exp, sin, cos of a line.

The c_k of sin(10 x) start at 2e-21 beside a second moment of 1/2: no float64 quadrature sees them, yet they are the map
of correlations towards 0. Private to `_dual`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._recurrence import Array
from ._roots import as_polynomial
from ._tree import Node


def closed_weights(tree: Node) -> Array | None:
    """w_0 = 0, w_1, ... = c_k^2/variance of A f(alpha x + phi) + C, f one of exp, sin, cos; None for other trees.

    c_k = E sigma^(k)(X)/sqrt(k!), so it is proportional to alpha^k/sqrt(k!) times 1 for exp and sin(phi + k pi/2) for
    sin: the weights depend neither on A and C nor, for exp, on phi.
    """
    core = _core(tree)
    if core is None or core.op not in ("exp", "sin", "cos"):
        return None
    line = as_polynomial(core.args[0], limit=1)
    if line is None or len(line) != 2:
        return None
    alpha, phase = abs(float(line[1])), float(line[0])
    count = int(alpha * alpha + 14 * alpha + 60)
    k = np.arange(1, count + 1)
    log_factorial = np.cumsum(np.log(k))
    log_size = 2 * k * math.log(alpha) - log_factorial
    wave = np.ones(count) if core.op == "exp" else _wave(core.op, phase, k)
    sizes = np.exp(log_size - log_size.max()) * wave
    weights = np.concatenate([[0.0], sizes / sizes.sum()])
    return np.asarray(weights)


def _wave(op: str, phase: float, k: NDArray[np.int64]) -> Array:
    """sin(phi + k pi/2)^2, with the quarter turns exact."""
    quarter = k % 2 if op == "sin" else (k + 1) % 2
    return np.where(quarter == 0, math.sin(phase) ** 2, math.cos(phase) ** 2)


def _core(tree: Node) -> Node | None:
    """The tree without rational factors and constants around it."""
    while tree.op in ("add", "mul") and tree.args[0].op == "num":
        tree = tree.args[1]
    return tree if not tree.constant else None
