"""Lengths of inputs, as drawn: all the same, or nearly so, of one order, or spread over 36 or 300 decades."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from hypothesis import strategies as st

__all__ = ["Norms", "check_norms", "draw_lengths"]

Norms: TypeAlias = Literal["equal", "wild"] | None

_Kind: TypeAlias = tuple[bool, int, Fraction]
# Whether one length is for all, exponents of 2 from -reach to reach, and mantissas 1 + step * (0 to 8); simplest first.
_SAME: list[_Kind] = [(True, 0, Fraction(0)), (True, 60, Fraction(1))]
_NEAR: list[_Kind] = [(False, 0, Fraction(1, 10**9)), (False, 0, Fraction(1, 1000)), (False, 0, Fraction(1))]
_FAR: list[_Kind] = [(False, 60, Fraction(1))]
# powers of 2 that, times 9 and times rows of length 10, are still within 1e-150 to 1e150
_WILD: list[_Kind] = [(False, 490, Fraction(1))]
_KINDS = {
    None: st.sampled_from([*_SAME, *_NEAR, *_FAR]),
    "equal": st.sampled_from(_SAME),
    "wild": st.sampled_from(_WILD),
}


def check_norms(norms: object) -> None:
    known = get_args(get_args(Norms)[0])
    if norms is not None and norms not in known:
        raise ValueError(f"norms must be None or one of {', '.join(map(repr, known))}, got {norms!r}")


def draw_lengths(draw: st.DrawFn, top: int, norms: Norms = None) -> list[Fraction]:
    """That many positive lengths; the simplest are all 1."""
    same, reach, step = draw(_KINDS[norms])
    count = 1 if same else top
    exponents = draw(st.lists(st.integers(-reach, reach), min_size=count, max_size=count))
    mantissas = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    lengths = [(1 + step * m) * Fraction(2) ** e for e, m in zip(exponents, mantissas, strict=True)]
    return (lengths * top)[:top]
