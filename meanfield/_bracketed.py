"""Many roots at once, each between two ends of opposite sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_ROUNDS = 1200  # as many halves as there are powers of 2
_EPS = 2.0**-52


def bracketed(f: Callable[[Floats, NDArray[np.intp]], Floats], low: Floats, high: Floats) -> Floats:
    """Roots of f(x, i) for each i between low_i and high_i, where it has opposite signs, to the last digits of x.

    Chandrupatla's method: an inverse quadratic step wherever three points allow it, a bisection elsewhere, so that no
    function takes more than a few bisections' worth of steps. f is asked for all unfinished roots together.

    Source: T. R. Chandrupatla, Advances in Engineering Software 28 (1997), 145-149.
    """
    every = np.arange(len(low))
    a, b, c = low.astype(np.float64), high.astype(np.float64), low.astype(np.float64)
    fa, fb = f(a, every), f(b, every)
    fc, share = fa.copy(), np.full(len(a), 0.5)
    live = every[(fa != 0) & (fb != 0)]
    for _ in range(_ROUNDS):
        if not len(live):
            break
        x = a[live] + share[live] * (b[live] - a[live])
        fx = f(x, live)
        same = np.sign(fx) == np.sign(fa[live])
        c[live], fc[live] = np.where(same, a[live], b[live]), np.where(same, fa[live], fb[live])
        b[live], fb[live] = np.where(same, b[live], a[live]), np.where(same, fb[live], fa[live])
        a[live], fa[live] = x, fx
        width, best = np.abs(b[live] - a[live]), np.where(np.abs(fa) < np.abs(fb), a, b)[live]
        least = np.minimum(2 * _EPS * np.abs(best) / np.where(width > 0, width, 1.0), 0.5)
        share[live] = _share(a[live], b[live], c[live], fa[live], fb[live], fc[live], least)
        live = live[(fx != 0) & (width > 4 * _EPS * np.abs(best))]
    return np.where(np.abs(fa) < np.abs(fb), a, b)


def _share(a: Floats, b: Floats, c: Floats, fa: Floats, fb: Floats, fc: Floats, least: Floats) -> Floats:
    """Where between a and b to look next."""
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        quadratic = (phi * phi < xi) & ((1 - phi) ** 2 < 1 - xi)
        step = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    step = np.where(quadratic & np.isfinite(step), step, 0.5)
    return np.clip(step, least, 1 - least)
