"""The other end of `_process`: reads pickled questions, writes pickled answers, until its input ends."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from .. import errors
from ..errors import NoClosedFormError
from ._answers import Patience, answer
from ._question import in_users_words


def serve(descriptor: int, ready: bytes) -> None:
    """Say `ready`, then answer through the descriptor until the other side closes the pipe."""
    channel = os.fdopen(descriptor, "wb", buffering=0)
    channel.write(ready)
    while not Patience.exhausted:  # a search that was left running would slow down the next question
        try:
            verb, question, argument, seconds = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        Patience.seconds = 0.2 * seconds
        outcome = _outcome(verb, question, argument)
        channel.write(pickle.dumps((*outcome, Patience.exhausted)))
    channel.close()
    os._exit(0)  # without waiting for such a search


def _outcome(verb: str, question: Any, argument: Any) -> tuple[str, Any]:
    """("answer", value), or the name of an error class and its message."""
    try:
        return "answer", answer(verb, question, argument)
    except ValueError as error:
        name = type(error).__name__
        return (name if hasattr(errors, name) else "ValueError"), in_users_words(str(error), question)
    except Exception as error:  # SymPy raises many kinds; the reader learns which, and that there is no answer
        text = in_users_words(f"{type(error).__name__}: {error}", question)
        return NoClosedFormError.__name__, f"no closed form of {question.name}: {text}"
