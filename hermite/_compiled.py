"""Maps of correlations as machine code: loops with the coefficients of `_parts` written into them, by numba.

A coefficient that is part of the code costs nothing to load and keeps the loop vectorised; one read from an array in
the loop does not. Optional (extra `fast`): without numba `_parts` does the same arithmetic, and agrees to a few ulps.
Read by `_dual` and by meanfield, which runs many layers over a block before it leaves the cache.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._parts import Parts, Series
from ._recurrence import Array
from ._reduced import Reduced
from ._threads import over_pieces

WORTH = 1 << 16  # elements from which a kernel pays; fixed, so that results do not depend on what ran before
_LONGEST = 100


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether numba is installed, and not switched off by ISOGRAM_NO_NUMBA."""
    if os.environ.get("ISOGRAM_NO_NUMBA"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def compilable(f: Reduced) -> bool:
    """Whether f is one formula on all of [-1, 1], short enough for straight code."""
    return f.near is None and not f.main.lower and f.main.terms <= _LONGEST


def formula(f: Reduced, *, careful: bool = True) -> list[str]:
    """Lines of code that compute f from x in [-1, 1]; if not careful, for 1 - |x| > 1e-14 only."""
    m: Parts = f.main
    lines = ["r = x * x", "t = r" if m.in_square else "t = 2.0 * math.sqrt((1.0 - x) * (1.0 + x)) - 1.0"]
    terms = []
    for name, series, factor in (
        ("o", m.odd, f"x * {_power(m.odd_power // 2)}"),
        ("e", m.even, _power(m.even_power // 2)),
    ):
        if not series.vanishes:
            lines += _horner(series, name) if series.monomials is not None else _clenshaw(series, name)
            terms.append(f"{factor} * {name}")
    lines.append(f"f = {' + '.join(terms)}")
    # selections, not branches: the loop stays vectorised, and NaN passes
    ends = [
        "f = 1.0 if f > 1.0 else f",
        "f = -1.0 if f < -1.0 else f",
        "f = 1.0 if x == 1.0 else f",
        f"f = {f.at_minus_one!r} if x == -1.0 else f",
    ]
    return lines + ends if careful else lines


def _power(k: int) -> str:
    """x^(2k) from r = x^2."""
    return "1.0" if k == 0 else " * ".join(["r"] * k) if k <= 4 else f"x ** {2 * k}.0"


def _horner(series: Series, name: str) -> list[str]:
    assert series.monomials is not None
    *rest, last = series.monomials.tolist()
    text = repr(last)
    for a in reversed(rest):
        text = f"({text}) * t + ({a!r})"
    return [f"{name} = {text}"]


def _clenshaw(series: Series, name: str) -> list[str]:
    first, *rest = series.chebyshev.tolist()
    lines = ["y = 2.0 * t", "b2 = 0.0", "b1 = 0.0"]
    for a in reversed(rest):
        lines += [f"b0 = y * b1 + ({a!r}) - b2", "b2 = b1", "b1 = b0"]
    return [*lines, f"{name} = t * b1 - b2 + ({first!r})"]


_QUICK = """
def quick(rho, out, offset, scale, low):
    rare = 0
    for i in range(rho.shape[0]):
        x = rho[i]
        rare += (x > {high!r}) | (x < low)
{lines}
        out[i] = offset + scale * f
    return rare
"""
_CAREFUL = """
def careful(rho, out, offset, scale):
    outside = 0
    for i in range(rho.shape[0]):
        x = rho[i]
        outside += abs(x) > 1.0
{lines}
        out[i] = offset + scale * f
    return outside
"""
_DRIVER = """
def driver(rho, out, offset, scale, edge, index):
    outside = 0
    found = 0
    low = max(edge, -{high!r})
    for start in range(0, rho.shape[0], {chunk}):
        stop = min(start + {chunk}, rho.shape[0])
        if quick(rho[start:stop], out[start:stop], offset, scale, low):
            extreme = 0
            for i in range(start, stop):
                extreme += abs(rho[i]) > {high!r}
                if rho[i] < edge:
                    index[found] = i
                    found += 1
            if extreme:
                outside += careful(rho[start:stop], out[start:stop], offset, scale)
    return outside, found
"""
_CHUNK = 512
_HIGH = 1 - 1e-14  # beyond it f may be rounded above 1


def compiled(source: str, name: str, fastmath: set[str], **known: Any) -> Any:
    """A numba function from its text; contraction to fused multiply-adds is what makes Horner's rule fast."""
    import numba

    scope: dict[str, Any] = {"math": math, "np": np, **known}
    exec(compile(source, f"<isogram {name}>", "exec"), scope)
    return numba.njit(fastmath=fastmath, nogil=True, error_model="numpy")(scope[name])


@lru_cache(maxsize=256)
def _kernel(f: Reduced) -> Any:
    """(rho, out, offset, scale, edge, index) -> how many |rho| exceed 1, and how many rho < edge; index says which."""
    loops = {}
    for name, text in (("quick", _QUICK), ("careful", _CAREFUL)):
        lines = "\n".join(" " * 8 + line for line in formula(f, careful=name == "careful"))
        loops[name] = compiled(text.format(lines=lines, high=_HIGH), name, {"contract"})
    found = compiled(_DRIVER.format(chunk=_CHUNK, high=_HIGH), "driver", {"contract"}, **loops)
    # compiled here, before threads come to it
    found(np.zeros(2), np.empty(2), 0.0, 1.0, -1.0, np.zeros(2, dtype=np.int64))
    return found


def fill(f: Reduced, rho: Array, out: Array, offset: float, scale: float, edge: float) -> NDArray[np.int64] | None:
    """offset + scale f(rho) into out, both one-dimensional; where rho < edge, or None where a |rho| exceeds 1."""
    run = _kernel(f)

    def over(piece: slice) -> tuple[int, NDArray[np.int64]]:
        index = np.empty(piece.stop - piece.start, dtype=np.int64)  # few of its pages are ever touched
        outside, found = run(rho[piece], out[piece], offset, scale, edge, index)
        return outside, index[:found] + piece.start

    results = over_pieces(over, len(rho))
    if any(outside for outside, _ in results):
        return None
    return np.concatenate([near for _, near in results]) if results else np.zeros(0, dtype=np.int64)


_MAP = """
def map(rho, offset, scale):
    for i in range(rho.shape[0]):
        x = rho[i]
{lines}
        rho[i] = offset + scale * f
"""
_SIZE = """
def size(rho):
    high = 0.0
    low = 0.0
    for i in range(rho.shape[0]):
        x = rho[i]
        high = x if x > high else high
        low = x if x < low else low
    return max(high, -low)
"""
_STEPPER = """
def stepper(rho, count, offset, scale, largest):
    for layer in range(count):
        map(rho, offset, scale)
        largest[layer] = max(largest[layer], size(rho))
"""


@lru_cache(maxsize=256)
def stepper(f: Reduced) -> Any:
    """(rho, count, offset, scale, largest): rho becomes offset + scale f(rho), count times, in place.

    largest[layer] is raised to the largest |rho| after each. For numbers in [-1, 1] without NaN. The largest is sought
    in a loop of its own: inside the other it would keep that from being vectorised.
    """
    lines = "\n".join(" " * 8 + line for line in formula(f))
    through = compiled(_MAP.format(lines=lines), "map", {"contract"})
    size = compiled(_SIZE, "size", {"nnan", "nsz"})
    found = compiled(_STEPPER, "stepper", {"contract"}, map=through, size=size)
    found(np.zeros(2), 1, 0.0, 1.0, np.zeros(1))
    return found
