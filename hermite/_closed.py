"""Hermite weights in closed form where quadrature cannot have their digits: exp, sin, cos of a line; polynomials.

The c_k of sin(10 x) start at 2e-21 beside a second moment of 1/2: no float64 quadrature sees them, yet they are the map
of correlations towards 0. Private to `_dual`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ._algebra import as_polynomial
from ._interpreter import constant_value
from ._recurrence import Array
from ._tree import Node
from .errors import PrecisionError

_STEEPEST = 60.0  # 3600 terms and more


def closed_weights(tree: Node) -> Array | None:
    """w_0 = 0, w_1, ... = c_k^2/variance of a polynomial or of A f(alpha x + phi) + C, f one of exp, sin, cos.

    None for other trees.

    c_k = E sigma^(k)(X)/sqrt(k!), so it is proportional to alpha^k/sqrt(k!) times 1 for exp and sin(phi + k pi/2) for
    sin: the weights depend neither on A and C nor, for exp, on phi.
    """
    c = _expansion(tree)
    if c is not None:
        sizes = (c / np.abs(c[1:]).max()) ** 2
        sizes[0] = 0.0
        return np.asarray(sizes / sizes.sum())
    wave = _line(tree)
    if wave is None:
        return None
    op, alpha, phase = wave
    if alpha > _STEEPEST:
        raise PrecisionError(f"{tree}: its Hermite series has {alpha * alpha:.1g} terms, too many for its dual")
    k = _degrees(alpha)
    count = len(k)
    # alpha^(2k)/k! outwards from its largest term, so that rounding does not add up over the terms that matter
    ratio, peak = alpha * alpha / k, min(max(int(alpha * alpha), 1), count) - 1
    size = np.ones(count)
    size[peak + 1 :] = np.cumprod(ratio[peak + 1 :])
    size[:peak] = np.cumprod(1 / ratio[peak:0:-1])[::-1]
    sizes = size * _wave(op, phase, k)
    return np.concatenate([[0.0], sizes / sizes.sum()])


def log_weights_below_float64(tree: Node) -> Array | None:
    """log w_0 = -inf, log w_1, ... where `closed_weights` has lost the first of them: sin(40 x) has w_1 = e^-1591."""
    wave = _line(tree)
    if wave is None:
        return None
    op, alpha, phase = wave
    k = _degrees(alpha)
    with np.errstate(divide="ignore"):
        size = 2 * k * math.log(alpha) - np.array([math.lgamma(i + 1) for i in k]) + np.log(_wave(op, phase, k))
    top = size.max()
    size -= top + math.log(float(np.sum(np.exp(size - top))))
    return np.concatenate([[-np.inf], size]) if size[np.isfinite(size)][0] < -690 else None


def _line(tree: Node) -> tuple[str, float, float] | None:
    """The function, alpha and phi of a multiple of exp, sin or cos of alpha x + phi, with a constant or without."""
    core = _core(tree)
    if core is None or core.op not in ("exp", "sin", "cos"):
        return None
    line = as_polynomial(core.args[0], limit=1)
    return (core.op, abs(float(line[1])), float(line[0])) if line is not None and len(line) == 2 else None


def _degrees(alpha: float) -> NDArray[np.int64]:
    """1, 2, ... up to where alpha^(2k)/k! has vanished beside its largest."""
    return np.arange(1, int(alpha * alpha + 14 * alpha + 60) + 1)


def _expansion(tree: Node) -> Array | None:
    """Hermite coefficients of a sum of polynomials and multiples of He(k, x), of degree at least 1."""
    c = _terms(tree)
    if c is None:
        return None
    live = np.flatnonzero(c)
    return c[: int(live[-1]) + 1] if len(live) and live[-1] > 0 else None


def _terms(tree: Node) -> Array | None:
    polynomial = as_polynomial(tree)
    if polynomial is not None:
        return _from_powers(polynomial)
    if tree.op == "He" and tree.args[0].op == "x":
        return np.asarray(np.eye(int(tree.number) + 1)[-1])
    if tree.op == "mul" and tree.args[0].constant:
        rest = _terms(tree.args[1])
        return None if rest is None else np.asarray(constant_value(tree.args[0]) * rest)
    if tree.op == "div" and tree.args[1].constant:
        rest = _terms(tree.args[0])
        return None if rest is None else np.asarray(rest / constant_value(tree.args[1]))
    if tree.op != "add":
        return None
    parts = [_terms(a) for a in tree.args]
    if parts[0] is None or parts[1] is None:
        return None
    total = np.zeros(max(len(parts[0]), len(parts[1])))
    for part in (parts[0], parts[1]):
        total[: len(part)] += part
    return total


def _from_powers(p: list[Fraction]) -> Array:
    """x^n is the sum over j of n!/(2^j j! (n-2j)!) times the monic Hermite polynomial of degree n - 2j."""
    exact = [Fraction(0)] * len(p)
    for n, a in enumerate(p):
        for j in range(n // 2 + 1):
            k = n - 2 * j
            exact[k] += a * Fraction(math.factorial(n), 2**j * math.factorial(j) * math.factorial(k))
    return np.array([float(c) * math.sqrt(math.factorial(k)) for k, c in enumerate(exact)])


def _wave(op: str, phase: float, k: NDArray[np.int64]) -> Array:
    """1 for exp, sin(phi + k pi/2)^2 for sin, with the quarter turns exact."""
    if op == "exp":
        return np.ones(len(k))
    quarter = k % 2 if op == "sin" else (k + 1) % 2
    return np.where(quarter == 0, math.sin(phase) ** 2, math.cos(phase) ** 2)


def _core(tree: Node) -> Node | None:
    """The tree without rational factors and constants around it."""
    while tree.op in ("add", "mul") and tree.args[0].op == "num":
        tree = tree.args[1]
    return tree if not tree.constant else None
