"""Long arrays on the cores at hand: loops that leave Python for most of their time, over pieces of an array.

Imports nothing of the room; `_parts`, `_compiled` and the marches of meanfield read it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PIECE = 1 << 18  # elements: below it a thread costs more than it brings


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_pieces(run: Callable[[slice], T], length: int, piece: int | None = None) -> list[T]:
    """run(slice) for slices of PIECE, or as given, that cover range(length), in order; by threads if there are several.

    PIECE does not depend on the number of cores, so neither does what is summed by pieces.
    """
    step = piece or PIECE
    pieces = [slice(i, min(i + step, length)) for i in range(0, length, step)]
    workers = min(len(pieces), cores())
    if workers <= 1:
        return [run(p) for p in pieces]
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and short arrays need none

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(run, pieces))
