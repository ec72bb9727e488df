"""From a run of the network to a certificate: in float64, or in proven balls where exact=True asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from bounds._bracket import Bracket, settle
from bounds._certificate import Certificate, certify
from bounds._depth import Run, start
from hermite.errors import MissingDependencyError
from meanfield._layer import Layers

__all__ = ["PATIENCE", "answer", "in_balls", "judged"]

PATIENCE: ContextVar[float] = ContextVar("PATIENCE", default=30.0)
"""Seconds that an attempt with more bits may be expected to take; 0: whatever the clock says, polynomials only."""


def judged(
    body: Callable[[Run], Certificate], layer: Layers, G0: Any, depth: int | None, exact: bool, *, gaps: bool = True
) -> Certificate:
    """The certificate that `body` makes of a run in float64, or in proven balls of as many bits as decide."""
    if not exact:
        return body(start(layer, G0, depth, gaps=gaps))
    found: Certificate = _ball_run().prove(body, layer, G0, depth)
    return found


@contextmanager
def in_balls(run: Run, G0: Any, bits: int = 128) -> Iterator[Run]:
    """The same run with proven numbers, inside the block."""
    with _ball_run().precision(bits):
        yield _ball_run().ball_run(run, G0, bits)


def _ball_run() -> Any:
    try:
        from bounds import _ball_run
    except ImportError as error:
        raise MissingDependencyError("exact=True needs python-flint: pip install 'isogram[rigor]'") from error
    return _ball_run


def answer(
    claim: str,
    source: str,
    lhs: Bracket | Sequence[Bracket],
    rhs: Bracket | Sequence[Bracket],
    *,
    threshold_layer: int | None = None,
    level: float | None = None,
    **rest: Any,
) -> Certificate:
    """The certificate of one claim over depth, or of several sides, whose order `sides` names.

    level: what a bound must be below to be informative, the gap at layer 0 if it is that which is bounded.
    """
    several = isinstance(lhs, Sequence)
    sides: list[Sequence[Bracket]] = [side if isinstance(side, Sequence) else [side] for side in (lhs, rhs)]
    pairs = list(zip(*sides, strict=True))
    informative = None if level is None else below(pairs[-1][1], level)
    if not all(hypothesis.holds for hypothesis in rest["hypotheses"] if not hypothesis.side):
        informative = threshold_layer = None
    found = [settle(x, y) for x, y in pairs]
    whole = [[x.value for x, _ in pairs], [y.value for _, y in pairs], *zip(*found, strict=True)]
    shape = np.broadcast_shapes(*(np.shape(part) for column in whole for part in column))
    left, right, slack, tolerance = (np.stack([np.broadcast_to(part, shape) for part in column]) for column in whole)
    if not several:
        left, right, slack, tolerance = left[0], right[0], slack[0], tolerance[0]
    return certify(
        claim,
        source,
        left,
        right,
        slack=slack,
        tolerance=tolerance,
        threshold_layer=threshold_layer,
        first_informative_layer=informative,
        **rest,
    )


def below(rhs: Bracket, level: float) -> int | None:
    """The first layer at which the bound is less than `level`."""
    layers = np.flatnonzero(rhs.value < level)
    return int(layers[0]) if len(layers) else None
