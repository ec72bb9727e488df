"""A map of correlations as arithmetic: its odd and even part as short series, evaluated over arrays of any size.

f(rho) = sign(rho) |rho|^j O(t) + |rho|^k E(t), where j and k are the first odd and even power present. t is rho^2 for
a short Hermite series, and u = sqrt(1 - rho^2) for everything else. O and E depend on rho^2 alone, and u absorbs the
singularities (1 - rho)^(1/2) and (1 - rho)^(3/2) that jumps and kinks cause: as functions of u those of the step and
the relu are singular at u = -1 only, and 20 terms hold all their digits, where sqrt(1 - rho) needs 30.
On rho >= 0 both terms of f are positive, so relative errors stay relative.

Built by `_build`; `_compiled` turns the same arithmetic into machine code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from ._ends import clenshaw
from ._recurrence import Array
from ._threads import cores, over_pieces

BLOCK = 65536  # shorter blocks cost more calls, longer ones leave the cache
_SHARED = 1 << 19  # elements for a thread
_LONGEST_HORNER = 44


class Block(Protocol):
    """What can be evaluated block by block: at |rho| <= 1 into out, both one-dimensional and contiguous.

    work: (6, at least as long), overwritten, its first row 1 - rho^2 with all digits next to 1 if needs_room says so.
    Fresh memory for each block would cost as much as the arithmetic.
    """

    @property
    def needs_room(self) -> bool: ...

    def into(self, rho: Array, out: Array, work: Array) -> None: ...


@dataclass(frozen=True, eq=False)
class Series:
    """A polynomial of one variable on [0, 1]: monomials by Horner, or a Chebyshev series by Clenshaw.

    Monomials are powers of t itself, or of 2t - 1 where `centred`.
    """

    monomials: Array | None
    chebyshev: Array
    centred: bool

    @property
    def terms(self) -> int:
        return len(self.chebyshev if self.monomials is None else self.monomials)

    @property
    def vanishes(self) -> bool:
        return not np.any(self.chebyshev if self.monomials is None else self.monomials)

    def __call__(self, t: Array) -> Array:
        """At t in [0, 1], any shape."""
        if self.monomials is None:
            return clenshaw(self.chebyshev, t)
        return horner(self.monomials, 2 * t - 1 if self.centred and self.terms > 1 else t)

    def into(self, y: Array, out: Array, spare: list[Array]) -> None:
        """At y, which is 2t - 1 for a centred series and t for one that is not; spare is overwritten."""
        c = (self.chebyshev if self.monomials is None else self.monomials).tolist()
        if len(c) == 1:
            out.fill(c[0])
        elif self.monomials is None:
            _clenshaw_into(c, y, out, spare)
        else:
            np.multiply(y, c[-1], out=out)
            out += c[-2]
            for a in c[-3::-1]:
                out *= y
                out += a


def _clenshaw_into(c: list[float], y: Array, out: Array, spare: list[Array]) -> None:
    b1, b2 = out, spare[0]
    doubled, new = spare[1], spare[2]
    np.multiply(y, 2.0, out=doubled)
    b1.fill(0.0)
    b2.fill(0.0)
    for a in c[:0:-1]:
        np.multiply(doubled, b1, out=new)
        new -= b2
        new += a
        b1, b2, new = new, b1, b2
    np.multiply(y, b1, out=new)
    new -= b2
    new += c[0]
    if new is not out:
        out[...] = new


def powers(c: Array) -> Series:
    """The series with the given coefficients of t^0, t^1, ..."""
    return Series(np.asarray(c, dtype=np.float64), np.zeros(0), centred=False)


def from_chebyshev(c: Array) -> Series:
    """Monomials of 2t - 1 where Horner's rule loses nothing by them, else the Chebyshev series itself.

    The monomials are exact sums of the coefficients, rounded once.
    """
    if len(c) > _LONGEST_HORNER:
        return Series(None, c, centred=True)
    result = Series(_monomials(c), c, centred=True)
    t = 0.5 * (1 - np.cos(np.linspace(0, np.pi, 301)))
    lost = np.abs(result(t) - clenshaw(c, t)).max()
    return result if lost <= 6e-16 * np.abs(c).max() else Series(None, c, centred=True)


def _monomials(c: Array) -> Array:
    """Powers of y from coefficients of T_k(y), in exact arithmetic."""
    total, before, now = [Fraction(0)] * len(c), [1], [0, 1]
    for a in c.tolist():
        for i, q in enumerate(before):
            total[i] += Fraction(a) * q
        doubled = [0, *(2 * q for q in now)]
        before, now = now, [d - (before[i] if i < len(before) else 0) for i, d in enumerate(doubled)]
    return np.array([float(q) for q in total])


def horner(c: Array, x: Array) -> Array:
    out = np.full_like(x, c[-1])
    for a in c[-2::-1]:
        out *= x
        out += a
    return out


@dataclass(frozen=True, eq=False)
class Parts:
    """f by its odd and even part, series in rho^2 (in_square) or in (u - lower)/(1 - lower), u = sqrt(1 - rho^2)."""

    odd_power: int
    odd: Series
    even_power: int
    even: Series
    in_square: bool
    lower: float = 0.0

    @property
    def terms(self) -> int:
        return max(self.odd.terms, self.even.terms)

    @property
    def needs_room(self) -> bool:
        return not self.in_square

    def __call__(self, rho: Array) -> Array:
        return evaluate(self, rho)

    def variable(self, r: Array) -> Array:
        return r * r if self.in_square else (np.sqrt((1 - r) * (1 + r)) - self.lower) / (1 - self.lower)

    def leading(self, r: Array) -> tuple[int, Array]:
        """The first power p and f(r)/r^p at 0 <= r <= 1."""
        t = self.variable(r)
        if self.odd.vanishes:
            return self.even_power, self.even(t)
        if self.even.vanishes:
            return self.odd_power, self.odd(t)
        p = min(self.odd_power, self.even_power)
        return p, _power(r, self.odd_power - p) * self.odd(t) + _power(r, self.even_power - p) * self.even(t)

    def into(self, rho: Array, out: Array, work: Array) -> None:
        t, square, part, *spare = (row[: len(rho)] for row in work)
        np.multiply(rho, rho, out=square)
        if self.in_square:
            t = square
        else:
            np.sqrt(t, out=t)
            t *= 2.0 / (1.0 - self.lower)  # the variable of [-1, 1], once for both parts
            t -= (1.0 + self.lower) / (1.0 - self.lower)
        if self.even.vanishes:
            out.fill(0.0)
        else:
            self.even.into(t, out, spare)
            _times_power(out, rho, square, self.even_power)
        if not self.odd.vanishes:
            self.odd.into(t, part, spare)
            part *= rho
            _times_power(part, rho, square, self.odd_power - 1)
            out += part


def _power(r: Array, k: int) -> Array | float:
    return 1.0 if k == 0 else r if k == 1 else r * r if k == 2 else r**k


def _times_power(out: Array, rho: Array, square: Array, k: int) -> None:
    """out times rho^k, k even; beyond the eighth power the rounding of rho^2 would add up."""
    if k <= 8:
        for _ in range(k // 2):
            out *= square
    else:
        out *= rho**k


@dataclass(frozen=True, eq=False)
class Long:
    """The sum of w_k rho^k by powers of rho itself, for maps that are steep next to 1 and tiny elsewhere."""

    weights: Array

    def __call__(self, rho: Array) -> Array:
        return evaluate(self, rho)

    @property
    def needs_room(self) -> bool:
        return False

    @property
    def first(self) -> int:
        return int(np.flatnonzero(self.weights)[0])

    def leading(self, r: Array) -> tuple[int, Array]:
        """The first power p and f(r)/r^p."""
        return self.first, horner(self.weights[self.first :], r)

    def into(self, rho: Array, out: Array, work: Array) -> None:
        out[...] = horner(self.weights, rho)


@dataclass(frozen=True, eq=False)
class Homogeneous:
    """f for sigma(x) = a x + b |x| + J sign(x): no series is needed.

    With h(rho) = sqrt(1 - rho^2) - 1 + rho arcsin(rho) = rho (arcsin(rho) - rho/(1 + sqrt(1 - rho^2))), in which
    nothing cancels, f = rho (linear + bend (arcsin(rho) - rho/(1 + ...))) + jump arcsin(rho).
    """

    linear: float
    bend: float
    jump: float

    @property
    def needs_room(self) -> bool:
        return bool(self.bend) and not _tan_is_fast()

    def into(self, rho: Array, out: Array, work: Array, scale: float = 1.0) -> None:
        """scale f over a block."""
        linear, bend, jump = (scale * v for v in (self.linear, self.bend, self.jump))
        root, angle = (row[: len(rho)] for row in work[:2])
        np.arcsin(rho, out=out)
        if not bend and not linear:
            out *= jump
            return
        if jump:
            np.multiply(out, jump, out=angle)
        if bend:
            if _tan_is_fast():
                np.multiply(out, 0.5, out=root)
                np.tan(root, out=root)
            else:
                np.sqrt(root, out=root)
                root += 1.0
                np.divide(rho, root, out=root)
            out -= root
            out *= bend
            out += linear
        else:
            out.fill(linear)
        out *= rho
        if jump:
            out += angle


@lru_cache(maxsize=1)
def _tan_is_fast() -> bool:
    """Whether NumPy has a vectorised tangent here: rho/(1 + sqrt(1 - rho^2)) is tan(arcsin(rho)/2), and cheaper so."""
    try:
        from numpy.lib.introspect import opt_func_info

        found = opt_func_info(func_name="^tan$", signature="float64")["tan"]
        return any(level in signature["current"] for signature in found.values() for level in ("AVX512", "X86_V4"))
    except Exception:  # older or other NumPy: no matter
        return False


def homogeneous(a: float, b: float, J: float) -> Homogeneous | None:
    """The map of a x + b |x| + J sign(x), None where its terms would cancel.

    Variance a^2 + 2 a J sqrt(2/pi) + J^2 + b^2 (1 - 2/pi); dual of |x| is (2/pi)(sqrt(1 - rho^2) + rho arcsin rho),
    of sign (2/pi) arcsin rho, and the cross term of x and sign 2 a J sqrt(2/pi) rho.
    """
    linear = a * a + 2 * a * J * math.sqrt(2 / math.pi)
    variance = linear + J * J + b * b * (1 - 2 / math.pi)
    if linear < 0:
        return None
    return Homogeneous(linear / variance, 2 / math.pi * b * b / variance, 2 / math.pi * J * J / variance)


def workspace(length: int) -> Array:
    """What `into_block` overwrites for blocks up to this length."""
    return np.empty((6, length))


def into_block(f: Block, rho: Array, out: Array, work: Array) -> None:
    """f over one block into out, which may not be rho."""
    if f.needs_room:
        room, other = (row[: len(rho)] for row in work[:2])
        np.subtract(1.0, rho, out=room)
        np.add(1.0, rho, out=other)
        room *= other
    f.into(rho, out, work)


def evaluate(f: Block, rho: Array) -> Array:
    """f over an array of any shape and layout, a block at a time; the result is C-contiguous.

    Very long arrays are shared by threads, one long run of blocks each: dozens of short NumPy calls a block would
    otherwise wait for each other's lock.
    """
    flat = np.ascontiguousarray(rho).reshape(-1)
    out = np.empty(flat.shape)

    def run(piece: slice) -> None:
        work = workspace(min(BLOCK, piece.stop - piece.start))
        with np.errstate(over="ignore"):  # 1 - rho^2 of a rho that is about to be refused
            for start in range(piece.start, piece.stop, BLOCK):
                part = slice(start, min(start + BLOCK, piece.stop))
                into_block(f, flat[part], out[part], work)

    over_pieces(run, len(flat), max(_SHARED, -(-len(flat) // cores())))
    return out.reshape(np.shape(rho))
