"""Python callables at many digits: what carries them, what is refused, undeclared kinks, and mpmath's precision."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from _mpf import close
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

import hermite
import hermite.multiprecision as hm
from hermite.errors import ConstantActivationError, PrecisionError
from hermite.multiprecision._callables import carries
from hermite.multiprecision._places import place

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case["expect"]
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}


def third_step(x: Any) -> int:
    return 1 if x >= mpf(1) / 3 else 0


def gelu_exactly(x: Any) -> Any:
    root = mpmath.sqrt(2 / mpmath.pi)
    return x * (1 + mpmath.tanh(root * (x + mpf(44715) / 10**6 * x**3))) / 2


def leaf(function: Callable[..., Any]) -> Any:
    return hermite.activation(function).expr.opaque


# ---- fault reports ------------------------------------------------------------------------------------------------


def _quad_07(e: dict[str, Any]) -> None:
    with mpmath.workdps(60):
        exact = mpmath.ncdf(-mpf(1) / 3)
    close(exact, e["value"].split()[0], 20)
    declared = hermite.activation(third_step, breakpoints=["1/3"])
    close(hm.expectation(declared, digits=30), exact, 30)
    close(hm.coefficients(declared, 0, digits=30)[0], exact, 30)
    # nothing declared: a refusal would be right too, a wrong number never
    close(hm.expectation(third_step, digits=30), exact, 30)


def _quad_15(e: dict[str, Any]) -> None:
    close(hm.isometry_strength(gelu_exactly, digits=30), e["beta"], 24)
    close(hm.isometry_strength(gelu_exactly, digits=30), hm.isometry_strength("gelu_tanh", digits=35), 30)
    # float literals: in mpmath arithmetic they are numbers like others, with the value they have
    with_floats = hm.isometry_strength(lambda x: x * (1 + mpmath.tanh(0.7978845608 * (x + 0.044715 * x**3))) / 2)
    assert abs(with_floats - mpf(e["beta"])) < mpf("1e-9")
    for rounded in (np.tanh, lambda x: mpf(float(np.tanh(float(x)))), lambda x: mpmath.tanh(float(x))):
        with pytest.raises(PrecisionError, match="only about 15 digits"):
            hm.isometry_strength(rounded, digits=30)


def _quad_16(e: dict[str, Any]) -> None:
    before = mpmath.mp.dps
    value = hm.expectation(lambda x: mpmath.sqrt(2) * x * x, digits=40)
    assert mpmath.mp.dps == before
    close(value, e["rule"].rsplit(" ", 1)[-1], 39)


REPORTS = {"quad-07": _quad_07, "quad-15": _quad_15, "quad-16": _quad_16}


@pytest.mark.parametrize("name", REPORTS)
def test_case(name: str) -> None:
    REPORTS[name](CASES[name])


# ---- what carries digits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        mpmath.tanh,
        lambda x: mpmath.tanh(x),
        lambda x: max(x, 0),
        lambda x: max(x, 0.0),
        lambda x: np.where(x > 0, x, 0),
        lambda x: x * x / 3 - 1,
        third_step,
        lambda x: 1.0 if x > 0 else 0.0,
        lambda x: mpf(1) / 4 if x > 1 else 0,
        lambda x: mpf(7),
    ],
)
def test_carrying(function: Callable[..., Any]) -> None:
    assert carries(leaf(function))


@pytest.mark.parametrize(
    "function",
    [
        np.tanh,
        lambda x: np.where(x > 0, x, 0.1 * x) if isinstance(x, np.ndarray) else float(x) / 3,
        lambda x: mpmath.tanh(float(x)),
        lambda x: mpf(float(x) ** 3 / 7),
        lambda x: float(mpmath.tanh(x)),
        lambda x: 1 / 3 if x > 0 else 0,
        lambda x: np.sqrt(np.float64(abs(x)) + 1),
    ],
)
def test_rounding(function: Callable[..., Any]) -> None:
    assert not carries(leaf(function))
    with pytest.raises(PrecisionError, match=r"digits=30: .* computes in float64, so only about 15 digits"):
        hm.second_moment(function, digits=30)


def test_fifteen_digits_of_a_numpy_function() -> None:
    for digits in (5, 12, 15):
        # digits mean one unit of the last of them
        close(hm.isometry_strength(np.tanh, digits=digits), hm.isometry_strength("tanh"), digits - 1)
        close(hm.second_moment(np.tanh, digits=digits), hm.second_moment("tanh"), digits - 1)
        close(hm.variance(np.exp, digits=digits), hm.variance("exp"), digits - 1)
        close(hm.linearity(np.sin, digits=digits), hm.linearity("sin"), digits - 1)
        close(hm.coefficients(np.exp, 3, digits=digits)[3], hm.coefficients("exp", 3)[3], digits - 1)
    close(hm.expectation(np.exp, digits=15), hm.expectation("exp"), 14)
    close(hm.dual(np.tanh, "1/2", digits=13), hm.dual("tanh", "1/2"), 12)
    found = hm.moments(np.tanh, 2, digits=15)
    assert isinstance(found.variance, mpf)
    assert "float64" in found.method
    for verb in (lambda: hm.moments(np.tanh, 2), lambda: hm.coefficients(np.tanh, 2), lambda: hm.dual(np.tanh, 0.5)):
        with pytest.raises(PrecisionError, match="15 digits"):
            verb()


def test_fifteen_digits_are_checked() -> None:
    """The variance beside a mean of 1e6 has four digits less in float64."""
    with pytest.raises(PrecisionError, match="relative error"):
        hm.variance(lambda x: 1e6 + np.tanh(x), digits=15)
    close(hm.variance(lambda x: 10**6 + mpmath.tanh(x), digits=30), hm.variance("tanh"), 30)


def test_float64_that_shows_only_somewhere() -> None:
    """The probe sees nothing; the quadrature meets the float far out."""
    late = lambda x: mpmath.tanh(x) if abs(x) < 5 else float(np.tanh(float(x) / 3))  # noqa: E731
    assert carries(leaf(late))
    with pytest.raises(PrecisionError, match="15 digits"):
        hm.second_moment(late, digits=30)
    assert (
        abs(hm.second_moment(hermite.activation(late, breakpoints=[-5, 5]), digits=10) - hm.second_moment("tanh"))
        < 1e-5
    )


def test_callables_agree_with_texts() -> None:
    pairs: list[tuple[Any, str]] = [
        (mpmath.tanh, "tanh"),
        (lambda x: mpmath.exp(10 * x), "exp(10*x)"),
        (hermite.activation(lambda x: x if x > 0 else x / 10, breakpoints=[0]), "x if x > 0 else x/10"),
        (hermite.activation(lambda x: mpmath.sqrt(abs(x)), breakpoints=[0]), "sqrt(abs(x))"),
        (hermite.activation(lambda x: mpmath.log(abs(x)), breakpoints=[0]), "log(abs(x))"),
        (2 * hermite.activation(mpmath.tanh) + hermite.activation("relu"), "2*tanh(x) + relu(x)"),
        (hermite.activation(mpmath.atan, gain=3, shift=1), "arctan(3*x + 1)"),
    ]
    for function, text in pairs:
        close(hm.variance(function, digits=25), hm.variance(text), 25)


def test_many_digits_of_a_callable() -> None:
    close(hm.isometry_strength(mpmath.tanh, digits=60), hm.isometry_strength("tanh", digits=65), 60)
    declared = hermite.activation(lambda x: max(x - mpf(1) / 3, 0), breakpoints=["1/3"])
    close(hm.isometry_strength(declared, digits=70), hm.isometry_strength("relu(x - 1/3)", digits=75), 70)


def test_constant_callables() -> None:
    with pytest.raises(ConstantActivationError, match="constant"):
        hm.isometry_strength(lambda x: mpf(3), digits=15)
    assert hm.variance(lambda x: 3, digits=15) == 0


# ---- kinks that nobody declared -----------------------------------------------------------------------------------

# beside the places where panels are cut: quarters, floats, 0
_BESIDE = {
    "1/4 + 1e-20": ("0.25", "1e-20"), "1/4 - 1e-25": ("0.25", "-1e-25"), "1e-22": ("0", "1e-22"),
    "2 + 1e-17": ("2", "1e-17"), "0.1": ("0.1", "0"), "-1.75 - 1e-12": ("-1.75", "-1e-12"), "1e-5": ("0", "1e-5"),
}  # fmt: skip


@pytest.mark.parametrize("text", _BESIDE)
@pytest.mark.parametrize("declared", [False, True])
def test_a_jump_beside_an_edge(text: str, declared: bool) -> None:
    """No rule has a node between the edge and the jump; declared: as the float next to it."""
    with mpmath.workdps(60):
        a = mpf(_BESIDE[text][0]) + mpf(_BESIDE[text][1])
        exact = mpmath.ncdf(-a)
    sigma = hermite.activation(lambda x: 1 if x >= a else 0, breakpoints=[float(a)] if declared else None)
    close(hm.expectation(sigma, digits=30), exact, 30)


@settings(max_examples=6)
@given(st.fractions(-2, 2, max_denominator=10**9), st.integers(5, 30), st.sampled_from([0, 1]))
def test_undeclared_jumps_and_kinks(q: Any, power: int, order: int) -> None:
    with mpmath.workdps(60):
        a = mpf(q.numerator) / q.denominator + mpf(10) ** -power
        exact = mpmath.ncdf(-a) if order == 0 else mpmath.npdf(a) - a * mpmath.ncdf(-a)
    found = hm.expectation(lambda x: ((x - a) if order else 1) if x >= a else 0, digits=25)
    close(found, exact, 25)


def test_what_cannot_be_resolved_asks_for_breakpoints() -> None:
    """A jump every 1/400: more than the panels allowed."""
    comb = lambda x: mpmath.floor(400 * x)  # noqa: E731
    with pytest.raises(PrecisionError, match="breakpoints="):
        hm.expectation(comb, digits=12)


def test_declared_ends_are_exact() -> None:
    sigma = hermite.activation(third_step, breakpoints=["1/3"])
    end = place(sigma.pieces[0].upper, 400)
    with mpmath.workdps(100):
        assert abs(mpmath.mp.make_mpf(end) - mpf(1) / 3) < mpf("1e-99")


# ---- precision is scoped ------------------------------------------------------------------------------------------


class Bad(Exception):
    pass


def test_precision_is_restored_when_a_callable_raises() -> None:
    seen = []

    def moody(x: Any) -> Any:
        if isinstance(x, mpf):
            seen.append(mpmath.mp.prec)
            if len(seen) > 2000:
                raise Bad("enough")
        return mpmath.tanh(x)

    before = mpmath.mp.prec
    with pytest.raises(ValueError, match=r"sigma raised Bad\('enough'\) at x = ") as caught:
        hm.isometry_strength(moody, digits=40)
    assert isinstance(caught.value.__cause__, Bad)
    assert mpmath.mp.prec == before
    assert max(seen) > 130 > before  # it did run at raised precision


def test_a_callable_that_moves_the_precision_itself() -> None:
    def rude(x: Any) -> Any:
        value = mpmath.tanh(x)
        mpmath.mp.dps = 33
        return value

    before = mpmath.mp.dps
    try:
        hm.expectation(lambda x: rude(x) ** 2 if isinstance(x, mpf) else np.tanh(x) ** 2, digits=20)
        assert mpmath.mp.dps == before
    finally:
        mpmath.mp.dps = before


def test_threads_with_callables() -> None:
    """mp.prec is one for all threads: without the lock a callable would run at another's precision."""
    jobs = [(lambda x: mpmath.tanh(x), 60), (lambda x: mpmath.exp(x / 2), 20), (lambda x: mpmath.sin(x), 90)]
    texts = ["tanh", "exp(x/2)", "sin"]
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        found[i] = hm.isometry_strength(jobs[i][0], digits=jobs[i][1])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    before = mpmath.mp.prec
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mpmath.mp.prec == before
    for i, text in enumerate(texts):
        close(found[i], hm.isometry_strength(text, digits=jobs[i][1] + 5), jobs[i][1])


def test_a_callable_may_ask_the_verbs_itself() -> None:
    """The lock is re-entrant."""
    inner = lambda x: x * hm.second_moment("relu", digits=40)  # noqa: E731
    close(hm.second_moment(inner, digits=30), mpf("0.25"), 30)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: mpmath.sqrt(x) if isinstance(x, mpf) else np.abs(x), "must be a real number"),
        (lambda x: "text" if isinstance(x, mpf) else x, "must be a real number"),
        (lambda x: mpf("nan") if isinstance(x, mpf) and x > 2 else x, "not a real number near"),
    ],
)
def test_values_that_are_no_numbers(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hm.second_moment(function, digits=20)
