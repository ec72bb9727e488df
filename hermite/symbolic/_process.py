"""A time limit that holds: questions are answered by a spawned process, which is ended when the time is up.

No signals, so it works in every thread; no fork and no re-import of the caller's main module, since the process is an
interpreter of its own that reads pickled questions from its standard input. Idle ones are kept for the next question.
"""

from __future__ import annotations

import atexit
import pickle
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import errors
from ..errors import NoClosedFormError

_KEPT = 2  # idle processes; each holds SymPy, about 100 MB
_START = 60.0  # seconds for an interpreter to load SymPy on a busy machine; not counted against a question
_FOLDERS = [str(Path(__file__).resolve().parents[2]), *(p for p in sys.path if p)]
READY = b"ready to derive\n"
# the pipe is for answers alone, whatever is printed while modules are loaded
_CODE = f"""
import os, sys
channel = os.dup(1)
os.dup2(2, 1)
sys.path[:0] = {_FOLDERS!r}
from hermite.symbolic._worker import serve
serve(channel, {READY!r})
"""


class _Worker:
    """One spawned interpreter."""

    def __init__(self) -> None:
        # -P: the working folder must not decide which hermite is loaded
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        if not self._within(_START, self._started):
            self.end()
            raise NoClosedFormError("the process that derives closed forms could not be started")

    def _started(self) -> bool:
        """Whether the process says so; what the interpreter printed before is passed over."""
        assert self.process.stdout is not None
        line = b""
        while not line.endswith(READY):
            byte = self.process.stdout.read(1)
            if not byte:
                return False
            line += byte
        return True

    def _within(self, seconds: float, action: Any) -> Any:
        """What the action returns, None when it fails or time is up: reading a pipe has no time limit of its own."""
        box: list[Any] = []

        def run() -> None:
            with suppress(Exception):  # a pipe may end, or bring anything
                box.append(action())

        reader = threading.Thread(target=run, daemon=True)
        reader.start()
        reader.join(seconds)
        return box[0] if box else None

    def ask(self, request: bytes, seconds: float) -> tuple[str, Any, bool] | None:
        def exchange() -> Any:
            assert self.process.stdin is not None
            self.process.stdin.write(request)
            return pickle.load(self.process.stdout)  # type: ignore[arg-type]

        answer: tuple[str, Any, bool] | None = self._within(seconds, exchange)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


_idle: list[_Worker] = []
_lock = threading.Lock()


def _take() -> _Worker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.process.poll() is None:
                return worker
            worker.end()
    return _Worker()


def _give_back(worker: _Worker) -> None:
    with _lock:
        if len(_idle) < _KEPT:
            _idle.append(worker)
            return
    worker.end()


@atexit.register
def _end_all() -> None:
    with _lock:
        while _idle:
            _idle.pop().end()


def within(seconds: float, verb: str, question: Any, argument: Any) -> Any:
    """The answer to a question; raises its errors, and NoClosedFormError when it takes longer than `seconds`."""
    request = pickle.dumps((verb, question, argument, seconds))
    worker, answer, started = _take(), None, 0.0
    try:
        started = time.monotonic()
        answer = worker.ask(request, seconds)
    finally:
        # also when the caller is interrupted: the process may be in the middle of something
        if answer is None or answer[2]:
            worker.end()
        else:
            _give_back(worker)
    if answer is None:
        spent = time.monotonic() - started
        late = spent >= seconds
        why = f"the time limit of {seconds:g} s was reached" if late else "the deriving process ended unexpectedly"
        raise NoClosedFormError(
            f"no closed form of {question.name} was found: {why} (tried: Gaussian smoothing by completing the square, "
            "Stein's identity and Price's theorem); raise time_limit, or use hermite.multiprecision"
        )
    kind, value, _ = answer
    if kind == "answer":
        return value
    raise getattr(errors, kind, ValueError)(value)
