"""A check of the case split: beside every end the pieces have to be the tree itself, at all scales.

The ends were found in float64. A root so flat that it drowns in rounding (of order five, say) may be given a wrong
place there, and with it a jump; refining the root cannot repair that, but comparing with the tree shows it.
"""

from __future__ import annotations

from functools import lru_cache

from mpmath import libmp

from .._activation import Activation
from .._pieces import Piece
from .._roots import WINDOW
from .._tree import SPLITTING, Node
from ..errors import PrecisionError
from ._interpreter import reliable
from ._places import place
from ._raw import Raw, bits_of, magnitude, to_float

_STEP = 3  # binary orders between the distances at which the two are compared


@lru_cache(maxsize=256)
def check_ends(sigma: Activation, digits: float) -> None:
    """Compare the pieces with the tree beside each end; raises PrecisionError where they differ by what counts."""
    if not _splits(sigma.expr):
        return
    bits = bits_of(digits) + 20
    for left, right in zip(sigma.pieces[:-1], sigma.pieces[1:], strict=True):
        if abs(left.upper.value) < WINDOW:
            end = place(left.upper, bits)
            for piece, direction in ((left, -1), (right, 1)):
                _compare(sigma, piece, end, direction, bits)


def _compare(sigma: Activation, piece: Piece, end: Raw, direction: int, bits: int) -> None:
    other = piece.lower if direction < 0 else piece.upper
    # two brackets of one root leave an empty piece between them, of which nothing is asked
    room = magnitude(libmp.mpf_sub(place(other, bits), end)) if abs(other.value) < WINDOW else 0
    orders = [k for k in range(2, bits, _STEP) if -k < room - 1 and -room < bits - 12]
    x = [libmp.mpf_add(end, libmp.mpf_shift(libmp.from_int(direction), -k)) for k in orders]
    pairs = zip(reliable(sigma.expr, x, bits + 20), reliable(piece.expr, x, bits + 20), strict=True)
    for k, (whole, part) in zip(orders, pairs, strict=True):
        # a difference d over a length l is one of d l in an integral
        if magnitude(libmp.mpf_sub(whole, part, 60, "n")) - k > max(magnitude(whole), magnitude(part), 0) - bits + 20:
            raise PrecisionError(
                f"{sigma.name}: the place near x = {to_float(end):.6g} where it changes its form is not resolved in "
                "float64; write it with its ends as numbers"
            )


def _splits(node: Node) -> bool:
    return node.op in SPLITTING or any(map(_splits, node.args))
