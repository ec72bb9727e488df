"""The time limit of hermite.symbolic, the process behind it, and the check that no answer escapes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from hermite import symbolic
from hermite.errors import ConstantActivationError, NoClosedFormError, NotSquareIntegrableError
from hermite.symbolic import _answers, _bivariate, _gaussian, _process
from hermite.symbolic._question import Question, ask
from hermite.symbolic._terms import RHO, K, X

ROOT = Path(__file__).resolve().parents[1]
x, k = sp.symbols("x k")
GRACE = 1.5  # seconds for ending a process and for the switch of threads on a busy machine


def endless(i: int = 0) -> str:
    """A formula over which SymPy sits for minutes: 12th powers of four terms, squared."""
    return f"({i} + 1 + x + exp(x/9) + sin(x))**12"


def fresh(i: int) -> str:
    """A short question that was not asked before in this session."""
    return f"relu(x) + {i}/{os.getpid()}"


@pytest.fixture
def idle() -> Iterator[list[Any]]:
    """One idle worker and no others, so that a test knows whom it meets."""
    _process._end_all()
    symbolic.variance(fresh(time.monotonic_ns()))
    assert len(_process._idle) == 1
    yield _process._idle
    for worker in _process._idle:
        assert worker.process.poll() is None


def run_script(body: str, tmp_path: Path, *folders: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(body))
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *folders])},
    )


# ---- the time limit ---------------------------------------------------------------------------------------------


def test_a_question_that_takes_too_long_is_refused_in_time(idle: list[Any]) -> None:
    process = idle[0].process
    started = time.monotonic()
    with pytest.raises(NoClosedFormError, match=r"time limit of 1 s.*tried: Gaussian smoothing.*multiprecision"):
        symbolic.isometry_strength(endless(), time_limit=1)
    assert 1 <= time.monotonic() - started <= 1 + GRACE
    assert process.poll() is not None  # ended and waited for: neither running nor a zombie
    assert idle == []
    assert symbolic.variance("step") == sp.Rational(1, 4)  # from memory or from a new process
    assert symbolic.second_moment(fresh(1)).free_symbols == set()


def test_the_limit_holds_in_several_threads_at_once() -> None:
    """Each has its own process; a quick question in between is answered."""
    started = time.monotonic()

    def slow(i: int) -> str:
        with pytest.raises(NoClosedFormError, match="time limit"):
            symbolic.isometry_strength(endless(i + 1), time_limit=0.5)
        return threading.current_thread().name

    with ThreadPoolExecutor(3) as pool:
        slow_ones = [pool.submit(slow, i) for i in range(2)]
        quick = pool.submit(symbolic.second_moment, fresh(2))
        names = {future.result(timeout=60) for future in slow_ones}
        assert not quick.result(timeout=60).free_symbols
    assert threading.main_thread().name not in names
    # processes are started anew here, three at a time, which is not counted against a question
    assert time.monotonic() - started <= 20


def test_threads_get_their_own_answers(idle: list[Any]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: symbolic.second_moment("identity", gain=i), range(100, 116)))
    assert found == [i * i for i in range(100, 116)]
    assert len(idle) <= _process._KEPT


def test_an_answer_within_the_limit_keeps_its_process(idle: list[Any]) -> None:
    process = idle[0].process
    symbolic.variance(fresh(3), time_limit=30)
    assert idle[0].process is process


def test_errors_come_across_as_what_they_are(idle: list[Any]) -> None:
    process = idle[0].process
    for text, kind in (
        ("sin(x)**2 + cos(x)**2 + 7", ConstantActivationError),
        ("exp(x**2/4) + 7", NotSquareIntegrableError),
        ("sqrt(x**2 + 7)", NoClosedFormError),
    ):
        with pytest.raises(kind) as caught:
            symbolic.isometry_strength(text)
        assert type(caught.value) is kind
    assert idle[0].process is process


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "mish", "softplus"])
def test_what_has_no_form_is_refused_without_a_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a process was asked")

    monkeypatch.setattr(symbolic, "within", never)
    for verb in (symbolic.isometry_strength, symbolic.second_moment, lambda s: symbolic.dual(s, RHO)):
        started = time.monotonic()
        with pytest.raises(NoClosedFormError, match="known identities"):
            verb(name)
        assert time.monotonic() - started < 1
    with pytest.raises(NoClosedFormError):
        symbolic.coefficient(name, k)


# ---- accidents --------------------------------------------------------------------------------------------------


def test_an_idle_process_that_died_is_replaced(idle: list[Any]) -> None:
    worker = idle[0]
    worker.process.kill()
    worker.process.wait()
    assert symbolic.second_moment("identity", gain=201) == 201**2
    assert worker not in idle


def test_a_process_that_dies_under_a_question_gives_an_error(idle: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    worker = idle[0]
    threading.Timer(0.3, worker.process.kill).start()
    started = time.monotonic()
    with pytest.raises(NoClosedFormError, match="ended unexpectedly"):
        symbolic.isometry_strength(endless(5), time_limit=20)
    assert time.monotonic() - started < 5
    assert symbolic.second_moment("identity", gain=202) == 202**2


def test_a_process_that_stands_still_is_ended(idle: list[Any]) -> None:
    process = idle[0].process
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(NoClosedFormError, match="time limit"):
        symbolic.second_moment("identity", gain=203, time_limit=0.5)
    assert process.poll() is not None
    assert symbolic.second_moment("identity", gain=203) == 203**2


def test_a_process_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _process._end_all()
    monkeypatch.setattr(_process, "_CODE", "raise SystemExit(3)")
    started = time.monotonic()
    with pytest.raises(NoClosedFormError, match="could not be started"):
        symbolic.second_moment("identity", gain=204)
    assert time.monotonic() - started < 10
    monkeypatch.undo()
    assert symbolic.second_moment("identity", gain=204) == 204**2


def test_an_answer_that_is_no_pickle_is_an_error(idle: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What would come if something wrote into the pipe of answers."""
    noisy = f"import sys, os; os.write(1, {_process.READY!r}); sys.stdin.buffer.read(1); os.write(1, b'noise')"
    _process._end_all()
    monkeypatch.setattr(_process, "_CODE", noisy)
    with pytest.raises(NoClosedFormError, match="ended unexpectedly"):
        symbolic.second_moment("identity", gain=205, time_limit=5)
    assert idle == []


def test_an_interruption_leaves_nothing_behind(idle: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while waiting: the process, which may be in the middle of something, is ended; the next one is right."""
    process = idle[0].process

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_process._Worker, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        symbolic.second_moment("identity", gain=206)
    assert process.poll() is not None
    assert idle == []
    monkeypatch.undo()
    assert symbolic.second_moment("identity", gain=206) == 206**2


def test_a_refusal_is_not_remembered_as_an_answer() -> None:
    with pytest.raises(NoClosedFormError):
        symbolic.second_moment("identity", gain=207, time_limit=1e-9)
    assert symbolic.second_moment("identity", gain=207, time_limit=20) == 207**2


# ---- from the outside -------------------------------------------------------------------------------------------


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    """Neither run twice nor imported by the worker; a sympy.py where it is called does not stand in for SymPy."""
    (tmp_path / "sympy.py").write_text("raise ImportError('not this one')\n")
    ran = run_script(
        """
        import sys
        sys.path.remove(sys.path[0])  # the folder of the script: here the caller takes care, the worker has to as well
        from hermite import symbolic
        print("running", symbolic.variance("step"))
        """,
        tmp_path,
    )
    assert (ran.stdout, ran.stderr) == ("running 1/4\n", "")


def test_what_is_printed_at_start_up_does_not_break_the_protocol(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('hello from sitecustomize')\n")
    ran = run_script("from hermite import symbolic\nprint(symbolic.variance('step'))", tmp_path, str(folder))
    assert ran.stdout.splitlines()[-1:] == ["1/4"], ran.stderr


def test_no_process_outlives_its_owner(tmp_path: Path) -> None:
    ran = run_script(
        """
        from hermite import symbolic
        from hermite.symbolic import _process
        symbolic.variance("step")
        print(_process._idle[0].process.pid)
        """,
        tmp_path,
    )
    pid = int(ran.stdout)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _alive(pid):
        time.sleep(0.02)
    assert not _alive(pid)


def test_a_forked_child_does_not_talk_to_its_parents_process(tmp_path: Path) -> None:
    ran = run_script(
        """
        import os
        from hermite import symbolic
        symbolic.variance("step")
        child = os.fork()
        found = symbolic.second_moment("identity", gain=3 if child else 5)
        if child == 0:
            os._exit(0 if found == 25 else 1)
        print(found, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), symbolic.second_moment("identity", gain=7))
        """,
        tmp_path,
    )
    assert ran.stdout == "9 0 49\n", ran.stderr


def test_control_c_in_a_terminal(tmp_path: Path) -> None:
    """The signal reaches the workers too; the caller sees KeyboardInterrupt, no traceback of theirs, and can go on."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import signal
            from hermite import activation, symbolic
            signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs inherit that it is ignored
            symbolic.variance("step")
            long = activation({endless(9)!r})  # read beforehand: the signal is to meet a question under way
            print("ready", flush=True)
            try:
                symbolic.isometry_strength(long)
            except KeyboardInterrupt:
                print("interrupted", symbolic.variance("sign"))
            """
        )
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(1.5)
        os.killpg(child.pid, signal.SIGINT)
        out, complaints = child.communicate(timeout=30)
    assert out == "interrupted 1\n"
    assert complaints == ""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---- the check: in this process, with an error planted ----------------------------------------------------------


def question(sigma: Any, **parameters: Any) -> Question:
    return ask(sigma, parameters.pop("gain", 1), parameters.pop("shift", 0), parameters)


def forget() -> None:
    """What rules have found before an error is planted, or with it."""
    for rule in (_gaussian.moment, _gaussian.truncated):
        rule.cache_clear()


@pytest.fixture
def rules() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    "verb", ["expectation", "second_moment", "variance", "isometry_strength", "linearity", "moments"]
)
@pytest.mark.usefixtures("rules")
def test_a_wrong_rule_is_caught(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A density that is off by one part in a million."""
    right = _gaussian.density
    wrong = sp.Rational(10**6 + 1, 10**6)
    argument = 2 if verb == "moments" else None
    monkeypatch.setattr(_gaussian, "density", lambda y, mu, v: wrong * right(y, mu, v))
    with pytest.raises(NoClosedFormError, match="where quadrature gives"):
        _answers.answer(verb, question("max(x - 1/3, 0)"), argument)
    monkeypatch.undo()
    forget()
    _answers.answer(verb, question("max(x - 1/3, 0)"), argument)


@pytest.mark.parametrize("argument", [2, K])
@pytest.mark.usefixtures("rules")
def test_a_wrong_coefficient_is_caught(argument: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermite.symbolic import _series

    right = _series.hermite_value
    monkeypatch.setattr(_series, "hermite_value", lambda index, at: right(index, at) * (1 + at / 10**6))
    with pytest.raises(NoClosedFormError, match="where quadrature gives"):
        _answers.answer("coefficient", question("max(x - 1/3, 0)"), argument)


@pytest.mark.usefixtures("rules")
def test_a_wrong_dual_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = _bivariate.bivariate
    monkeypatch.setattr(_answers, "bivariate", lambda f, g: right(f, g) + sp.Rational(1, 10**6) * RHO**5)
    with pytest.raises(NoClosedFormError, match="where quadrature gives"):
        _answers.answer("dual", question("relu"), RHO)


@pytest.mark.usefixtures("rules")
def test_an_error_in_a_symbol_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A term that vanishes at a = 1 or at one of the points of the check does not at the others."""
    symbol = sp.Symbol("a")
    asked = question("leaky_relu", negative_slope=symbol)
    own = asked.symbols[0][0]
    right = _answers._second
    for planted in (own - 1, own - sp.Rational(3, 4), own * (own - 1)):
        monkeypatch.setattr(_answers, "_second", lambda split, extra=planted: right(split) + extra / 10**6)
        with pytest.raises(NoClosedFormError, match="where quadrature gives"):
            _answers.answer("second_moment", asked, None)
        monkeypatch.undo()


@pytest.mark.parametrize(
    "planted",
    [
        sp.Symbol("foreign"),
        sp.Integral(sp.Function("f")(X), (X, 0, 1)),
        X,
        sp.Derivative(sp.Function("f")(K), K),
        sp.nan,
        sp.zoo,
        sp.oo,
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["second_moment", "variance"])
def test_what_is_no_closed_form_is_never_returned(verb: str, planted: sp.Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answers, "_second", lambda _: sp.Rational(1, 2) + planted)
    with pytest.raises(NoClosedFormError):
        _answers.answer(verb, question("relu"), None)


def test_an_answer_that_cannot_be_checked_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a number to compare with there is no answer."""
    from hermite.symbolic import _check

    monkeypatch.setattr(_check, "_expected", lambda *_: iter(()))
    with pytest.raises(NoClosedFormError, match="could not be checked"):
        _answers.answer("second_moment", question("relu"), None)


def test_answers_in_this_process_are_in_the_users_symbols() -> None:
    symbol = sp.Symbol("a")
    assert _answers.answer("second_moment", question("relu", gain=symbol), None) == symbol**2 / 2
    row = _answers.answer("coefficients", question("relu", gain=symbol), 2)
    assert [part.free_symbols for part in row] == [{symbol}] * 3
