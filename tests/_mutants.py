"""Wrong variants of claims: the strategy of a claim is worth something if it refutes what is not quite the claim."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from bounds import Certificate, Claim, Verdict
from bounds._verify import Arguments, _certificate, _draw


class _Refuted(Exception):
    """Ends the draws."""


def refuted(
    claim: Claim, wrong_function: Callable[..., Certificate], examples: int = 1000, seed: int = 0
) -> Arguments | None:
    """The first arguments drawn by the claim's own strategy on which a wrong function FAILS; None if it survives.

    As `claim.verify` draws them, but stopping at the first and without shrinking it.  What is UNDECIDED is asked again
    with exact=True where the wrong function takes it.
    """
    wrong = dataclasses.replace(claim, function=wrong_function)
    found: list[Arguments] = []

    def visit(arguments: Arguments) -> None:
        if found or _certificate(wrong, arguments).verdict is Verdict.FAILS:
            found.append(arguments)
            raise _Refuted

    try:
        _draw(wrong, visit, examples, seed, shrink=False)
    except _Refuted:
        return found[0]
    return None
