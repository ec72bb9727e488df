"""Moments to any number of digits: reference values, agreement between precisions, exact formulas, and refusals."""

from __future__ import annotations

import json
import math
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest
from _activations import DATA, SPECS
from _mpf import close
from mpmath import mpf

import hermite
import hermite.multiprecision as hm
from hermite.errors import ConstantActivationError, NotSquareIntegrableError, PrecisionError

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case["expect"]
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}
CATALOGUE = hermite.catalogue()
NAMES = [sigma.name for sigma in CATALOGUE]


# ---- reference values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_reference(name: str) -> None:
    """c_0..c_12, E sigma^2 and beta at 30 digits, as stored: an error of half a unit of their last digit."""
    entry, sigma = DATA[name], hermite.activation(SPECS.get(name, name))
    found = hm.moments(sigma, 12, digits=30)
    with mpmath.workdps(60):
        size = mpmath.sqrt(mpf(entry["sum_ck2"]))
        for c, wanted in zip(found.coefficients, map(mpf, entry["c"]), strict=True):
            assert abs(c - wanted) <= mpf("5e-30") * abs(wanted) + mpf("1e-36") * size
    close(found.second_moment, entry["sum_ck2"], 29.3)
    close(found.strength, entry["beta"], 29.3)
    assert hm.coefficients(sigma, 12, digits=30) == found.coefficients
    # the verbs ask for less than the whole record, so their last digits may be others
    close(hm.variance(sigma), found.variance, 30)
    close(hm.isometry_strength(sigma), found.strength, 30)
    with mpmath.workdps(60):
        assert abs(hm.linearity(sigma) + mpf(entry["beta"]) - 2) <= mpf("5e-30")


@pytest.mark.parametrize("gain", ["1/10", "10"])
@pytest.mark.parametrize("name", DATA)
def test_reference_gains(name: str, gain: str) -> None:
    entry = DATA[name]["gain_moments"][gain]
    sigma = hermite.activation(SPECS.get(name, name)).scaled(gain)
    close(hm.second_moment(sigma), entry["E_sigma2"], 29.3)
    close(hm.isometry_strength(sigma), DATA[name]["beta_gain"][gain], 29.3)


@pytest.mark.parametrize("name", NAMES)
def test_fifteen_and_thirty_digits_agree_over_the_catalogue(name: str) -> None:
    """The value to more digits, rounded, is the value to fewer, and float64's."""
    fewer, more = hm.isometry_strength(name, digits=15), hm.isometry_strength(name, digits=30)
    assert type(fewer) is mpf
    close(fewer, more, 15)
    assert math.isclose(hermite.isometry_strength(name), float(more), rel_tol=4e-16)


def sampled(step: int) -> list[Any]:
    """Every step-th entry of the catalogue; the others in slow runs."""
    return [n if i % step == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(NAMES)]


@pytest.mark.parametrize("name", sampled(5))
def test_fifty_digits(name: str) -> None:
    more = hm.isometry_strength(name, digits=57)
    close(hm.isometry_strength(name, digits=50), more, 50)
    close(hm.isometry_strength(name, digits=30), more, 30)


@pytest.mark.parametrize("name", sampled(11))
def test_a_hundred_digits(name: str) -> None:
    more = hm.moments(name, digits=100)
    close(hm.isometry_strength(name, digits=30), more.strength, 30)
    close(hm.variance(name, digits=105), more.variance, 100)


@pytest.mark.parametrize("digits", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["tanh", "hardswish", "sqrt(abs(x))", "exp"])
def test_few_digits(name: str, digits: int) -> None:
    close(hm.variance(name, digits=digits), hm.variance(name), digits)
    close(hm.coefficients(name, 4, digits=digits)[4], hm.coefficients(name, 4)[4], digits)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu", "sqrt(abs(x))"])
def test_two_hundred_digits(name: str) -> None:
    close(hm.isometry_strength(name, digits=200), hm.isometry_strength(name, digits=30), 30)
    close(hm.second_moment(name, digits=200), hm.second_moment(name, digits=220), 200)


# ---- the record -----------------------------------------------------------------------------------------------


def test_the_record_and_its_strength_keep_their_digits() -> None:
    found = hm.moments("relu", 3, digits=50)
    assert isinstance(found, hermite.Moments)
    assert mpmath.mp.dps == 15
    with mpmath.workdps(90):
        close(found.strength, (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2), 50)
    with mpmath.workdps(3):
        coarse = found.strength
    assert coarse == found.strength
    assert found.error < 1e-50
    assert found.strength_error < 1e-49
    assert "gauss-legendre and fejer" in found.method
    assert len(found.coefficients) == 4


def test_strength_of_short_numbers() -> None:
    """1/4 and 3/4 have two bits each: their quotient must not."""
    short = hermite.Moments((mpf(0),), mpf(1), mpf(3) / 4, mpf(1) / 4, 1e-40, "by hand")
    with mpmath.workdps(60):
        close(short.strength, mpf(4) / 3, 40)
    assert hermite.Moments((0.0,), 1.0, 0.75, 0.25, 1e-15, "").strength == 1 + 0.25 / 0.75
    assert hermite.Moments((0,), 1, Fraction(3, 4), Fraction(1, 4), 0.0, "").strength == Fraction(4, 3)


def test_linearity_and_strength_add_up() -> None:
    for name in ("tanh", "gelu_tanh", "hardswish"):
        with mpmath.workdps(60):
            close(hm.linearity(name, digits=40) + hm.isometry_strength(name, digits=40), 2, 40)


# ---- precision is nobody's but the caller's -------------------------------------------------------------------


def test_global_precision_is_neither_read_nor_written() -> None:
    before = mpmath.mp.dps
    fine = hm.isometry_strength("silu", digits=25)
    assert mpmath.mp.dps == before
    with mpmath.workdps(4):
        hm.variance("arctan", digits=22)
        assert mpmath.mp.dps == 4
    with mpmath.workdps(7):
        assert hm.isometry_strength("silu", digits=25) == fine
    with pytest.raises(NotSquareIntegrableError):
        hm.second_moment("1/x")
    assert mpmath.mp.dps == before


def test_threads_with_different_digits() -> None:
    jobs = [
        ("tanh(x/3)", 20),
        ("gelu_tanh(x/3)", 60),
        ("tanh(x/3)", 90),
        ("exp(x/3)", 35),
        ("softplus(x/3)", 45),
        ("exp(x/3)", 70),
    ]
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        text, digits = jobs[i]
        found[i] = hm.isometry_strength(text, digits=digits)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    before = mpmath.mp.prec
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mpmath.mp.prec == before
    for i, (text, digits) in enumerate(jobs):
        close(found[i], hm.isometry_strength(text, digits=digits + 5), digits)


# ---- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["exp(x**2/4)", "1/x", "abs(x)**(-0.5)", "exp(exp(x))", "abs(x - 1/3)**(-0.6)", "1/(x**2 - 2)"]
)
def test_infinite_second_moments_are_refused(text: str) -> None:
    for verb in (hm.second_moment, hm.variance, hm.isometry_strength, hm.moments, lambda s: hm.coefficients(s, 1)):
        with pytest.raises(NotSquareIntegrableError):
            verb(text)


def test_a_mean_needs_no_second_moment() -> None:
    with mpmath.workdps(70):
        close(hm.expectation("exp(x**2/4)", digits=50), mpmath.sqrt(2), 50)
        close(
            hm.expectation("abs(x)**(-0.75)", digits=30),
            2 ** (mpf(-3) / 8) * mpmath.gamma(mpf(1) / 8) / mpmath.sqrt(mpmath.pi),
            30,
        )
        close(hm.expectation("exp(8*x)", digits=50), mpmath.exp(32), 50)
    with pytest.raises(NotSquareIntegrableError):
        hm.expectation("exp(x**2/2)")
    with pytest.raises(NotSquareIntegrableError):
        hm.expectation("1/abs(x)")


@pytest.mark.parametrize("text", ["3", "0*x + 2", "1 if x > 0 else 1", "sin(x)**2 + cos(x)**2"])
def test_constants_have_no_strength(text: str) -> None:
    for verb in (hm.isometry_strength, hm.linearity):
        with pytest.raises(ConstantActivationError, match="constant"):
            verb(text, digits=15)
    assert hm.variance(text, digits=15) == 0
    found = hm.moments(text, 1, digits=15)
    assert found.variance == found.residual == 0


def test_lines_have_strength_one() -> None:
    assert hm.isometry_strength("3*x - 1") == 1
    assert hm.isometry_strength("log(exp(x))", digits=15) == 1
    assert hm.linearity("x + 5") == 1


@pytest.mark.parametrize("digits", [0, -3, 2000, 30.0, "30", None, True])
def test_digits_are_checked(digits: Any) -> None:
    for ask in (
        lambda: hm.isometry_strength("relu", digits=digits),
        lambda: hm.coefficients("relu", 2, digits=digits),
        lambda: hm.expectation("relu", digits=digits),
        lambda: hm.moments("relu", digits=digits),
    ):
        with pytest.raises(ValueError, match="digits must be an integer"):
            ask()


@pytest.mark.parametrize("degree", [-1, 1.5, 10**6])
def test_degrees_are_checked(degree: Any) -> None:
    with pytest.raises(ValueError, match="degree"):
        hm.coefficients("relu", degree)
    with pytest.raises(ValueError, match="degree"):
        hm.moments("relu", degree)


def test_what_is_out_of_reach_is_refused() -> None:
    with pytest.raises(PrecisionError, match="two quadrature rules agree"):
        hm.second_moment("sin(1/x)", digits=8)


# ---- fault reports --------------------------------------------------------------------------------------------


def _sym_11(e: dict[str, Any]) -> None:
    close(hm.coefficients("tanh", 1)[1], e["tanh c_1"], 20.5)
    close(hm.second_moment("tanh"), e["tanh E sigma^2"], 20.5)
    close(hm.isometry_strength("tanh"), e["tanh beta"], 20)
    close(hm.coefficients("logistic", 0)[0], mpf("0.5"), 30)
    close(hm.isometry_strength("logistic"), e["logistic beta"], 20)
    close(hm.coefficients("softplus", 1)[0], e["softplus c_0"], 20.5)
    close(hm.coefficients("softplus", 1)[1], mpf("0.5"), 30)
    close(hm.isometry_strength("softplus"), e["softplus beta"], 20)


def _sym_15(e: dict[str, Any]) -> None:
    with mpmath.workdps(40):
        close(hm.expectation("exp(x**2/4)"), mpmath.sqrt(2), 30)
    with pytest.raises(NotSquareIntegrableError, match=r"not square-integrable under N\(0, 1\)"):
        hm.dual("exp(x**2/4)", 1)


def _quad_15(e: dict[str, Any]) -> None:
    for text in ("x*(1 + tanh((2/pi)**(1/2)*(x + 0.044715*x**3)))/2", "gelu_tanh"):
        close(hm.isometry_strength(text, digits=30), e["beta"], 24)


def _quad_16(e: dict[str, Any]) -> None:
    before = mpmath.mp.dps
    value = hm.expectation("sqrt(2)*x**2", digits=40)
    assert mpmath.mp.dps == before
    close(value, "1.414213562373095048801688724209698078570", 39)
    assert mpmath.nstr(value, 40) == "1.41421356237309504880168872420969807857"  # a last 0 is not printed
    with pytest.raises(NotSquareIntegrableError):
        hm.second_moment("sqrt(2)/x", digits=40)
    assert mpmath.mp.dps == before


REPORTS = {"sym-11": _sym_11, "sym-15": _sym_15, "quad-15": _quad_15, "quad-16": _quad_16}


@pytest.mark.parametrize("name", REPORTS)
def test_case(name: str) -> None:
    REPORTS[name](CASES[name])
