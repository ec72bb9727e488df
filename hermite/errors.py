"""The errors of the toolkit: a closed list, each telling what to do next.

Every one is also a builtin (`LookupError`, `ValueError`, `ImportError`), so callers may catch either.
"""

from __future__ import annotations

__all__ = [
    "UnknownActivationError",
    "ActivationParseError",
    "ConstantActivationError",
    "NotSquareIntegrableError",
    "NoClosedFormError",
    "PrecisionError",
    "MissingDependencyError",
]


class UnknownActivationError(LookupError):
    """No registered activation has this name."""


class ActivationParseError(ValueError):
    """A text is not an expression of the activation grammar; nothing in it was evaluated."""


class ConstantActivationError(ValueError):
    """The activation is constant almost everywhere, so its variance is 0 and isometry strength is undefined."""


class NotSquareIntegrableError(ValueError):
    """The activation has no finite second moment under N(0, 1), or no real value on a set of positive measure."""


class NoClosedFormError(ValueError):
    """No closed form was found; the message says what was tried."""


class PrecisionError(ValueError):
    """The promised accuracy cannot be reached; the message says how much can."""


class MissingDependencyError(ImportError):
    """An optional package is needed; the message names the extra that installs it."""
