"""Drawing examples from a strategy by a seed alone: no database, no deadline, and the same draws in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

__all__ = ["draw_each"]


def draw_each(
    strategy: SearchStrategy[Any], visit: Callable[[Any], None], examples: int, seed: int, *, shrink: bool
) -> None:
    """Call `visit` on each; with `shrink`, once it has raised, on ever simpler examples, the simplest last."""

    @seeded(seed)
    @settings(
        max_examples=examples,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def explore(example: Any) -> None:
        visit(example)

    with _nothing_from_modules():
        explore()


@contextmanager
def _nothing_from_modules() -> Iterator[None]:
    """Let hypothesis draw none of the constants that it finds in local modules.

    It reads every module that is loaded by then (for us, a second), and one seed would draw differently where others
    are loaded: in a notebook, from an installed wheel, after another claim.  It has no setting for this, so what is
    not found is left alone; versions before 6.131 read no modules.
    """
    providers: Any = import_module("hypothesis.internal.conjecture.providers")
    provider: Any = getattr(providers, "HypothesisProvider", None)
    cache: Any = getattr(getattr(providers, "CONSTANTS_CACHE", None), "cache", None)
    kept = vars(provider).get("_local_constants") if provider is not None else None
    if kept is None or cache is None:
        yield
        return
    cache.clear()  # it holds constants of modules beside the global ones
    provider._local_constants = providers.Constants()
    try:
        yield
    finally:
        provider._local_constants = kept
        cache.clear()
