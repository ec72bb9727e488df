"""Tables of isometry strengths: what is in them, how its digits are rounded, and every format of it."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import json
import math
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite import beta_table
from hermite._strengths import COLUMNS
from hermite._table import Table, rounded
from hermite.errors import ConstantActivationError, MissingDependencyError, PrecisionError, UnknownActivationError
from hermite.strategies import activations

NUMBERS = ("c_0", "c_1", "variance", "r", "beta")
EPS = 2.0**-52


@pytest.fixture(autouse=True)
def thirty_digits() -> Iterator[None]:
    with mp.workdps(40):
        yield


def column(table: Table, name: str) -> list[Any]:
    return [row[table.columns.index(name)] for row in table.rows]


def printed(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table.to_csv())))


def unit(text: str) -> Fraction:
    """One unit of the last place of a decimal."""
    mantissa, _, exponent = text.partition("e")
    return Fraction(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def significant(text: str) -> int:
    return len(text.partition("e")[0].lstrip("-").replace(".", "").lstrip("0"))


# --- closed forms, by mpmath at 40 digits -----------------------------------------------------------------------


def phi(t: Any) -> Any:
    return mp.npdf(t)


def relu(a: Any) -> Any:
    return a * phi(0), a / 2, a**2 / 2


def leaky_relu(a: Any) -> Any:
    s = mp.mpf(1) / 100
    return a * (1 - s) * phi(0), a * (1 + s) / 2, a**2 * (1 + s**2) / 2


def exp(a: Any) -> Any:
    return mp.exp(a**2 / 2), a * mp.exp(a**2 / 2), mp.exp(2 * a**2)


def sin(a: Any) -> Any:
    return 0, a * mp.exp(-(a**2) / 2), mp.exp(-(a**2)) * mp.sinh(a**2)


def cos(a: Any) -> Any:
    return mp.exp(-(a**2) / 2), 0, mp.exp(-(a**2)) * mp.cosh(a**2)


def erf(a: Any) -> Any:
    q = 2 * a**2 / (1 + 2 * a**2)
    return 0, 2 * a / mp.sqrt(mp.pi * (1 + 2 * a**2)), 2 / mp.pi * mp.asin(q)


def gelu(a: Any) -> Any:
    q = 1 + a**2
    second = mp.mpf(1) / 4 + mp.asin(a**2 / q) / (2 * mp.pi) + a**2 / (mp.pi * q * mp.sqrt(1 + 2 * a**2))
    return a**2 / mp.sqrt(2 * mp.pi * q), a / 2, a**2 * second


def elu(a: Any) -> Any:
    low, lower = mp.exp(a**2 / 2) * mp.ncdf(-a), mp.exp(2 * a**2) * mp.ncdf(-2 * a)
    half = mp.mpf(1) / 2
    return a * phi(0) + low - half, a * (half + low), a**2 / 2 + lower - 2 * low + half


def hardtanh(a: Any) -> Any:
    t = 1 / a
    inside = mp.erf(t / mp.sqrt(2))
    return 0, a * inside, a**2 * (inside - 2 * t * phi(t)) + 2 * mp.ncdf(-t)


def gaussian(a: Any) -> Any:
    return 1 / mp.sqrt(1 + 2 * a**2), 0, 1 / mp.sqrt(1 + 4 * a**2)


CLOSED: dict[str, Callable[[Any], Any]] = {
    "identity": lambda a: (0, a, a**2),
    "relu": relu,
    "leaky_relu": leaky_relu,
    "abs": lambda a: (2 * a * phi(0), 0, a**2),
    "step": lambda a: (mp.mpf(1) / 2, phi(0), mp.mpf(1) / 2),
    "sign": lambda a: (0, 2 * phi(0), mp.mpf(1)),
    "exp": exp,
    "sin": sin,
    "cos": cos,
    "erf": erf,
    "gelu": gelu,
    "elu": elu,
    "hardtanh": hardtanh,
    "gaussian": gaussian,
    "square": lambda a: (a**2, 0, 3 * a**4),
    "cube": lambda a: (0, 3 * a**3, 15 * a**6),
    "hermite_polynomial": lambda a: ((a**2 - 1) / mp.sqrt(2), 0, (3 * a**4 - 2 * a**2 + 1) / 2),
}
GAINS = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(10)]


def exact_row(c_0: Any, c_1: Any, second: Any) -> dict[str, Fraction]:
    variance = second - c_0**2
    r = c_1**2 / variance
    return {k: fraction(v) for k, v in zip(NUMBERS, (c_0, c_1, variance, r, 2 - r), strict=True)}


def fraction(value: Any) -> Fraction:
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    sign, mantissa, exponent, _ = mp.mpf(value)._mpf_
    size: Fraction = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -size if sign else size


def check_row(table: Table, i: int, exact: dict[str, Fraction]) -> None:
    """Every float within its error; every printed decimal within half a unit more, and of no digit beyond it."""
    texts = printed(table)[i]
    for name in NUMBERS:
        value, error = (each[i][COLUMNS.index(name)] for each in (table.rows, table.errors))
        text, truth = texts[name], exact[name]
        assert isinstance(value, float)
        assert error is not None
        assert abs(Fraction(value) - truth) <= Fraction(error), (table.rows[i], name)
        if text == "0":
            assert abs(truth) <= 12 * Fraction(error)
            continue
        assert 2 * Fraction(error) <= unit(text)
        assert abs(Fraction(text) - truth) <= unit(text) / 2 + Fraction(error)
        assert significant(text) <= table.digits
    error = table.rows[i][COLUMNS.index("error")]
    assert Fraction(error) <= Fraction(texts["error"]) <= Fraction(error) * Fraction(11, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name: str) -> None:
    table = beta_table(name, gains=GAINS, closed_forms=False)
    assert column(table, "gain") == GAINS
    for i, gain in enumerate(GAINS):
        with mp.workdps(80):  # exp(2 a^2) - exp(a^2) cancels at small gains
            check_row(table, i, exact_row(*CLOSED[name](mp.mpf(gain.numerator) / gain.denominator)))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tanh", mp.tanh),
        ("sigmoid", lambda x: 1 / (1 + mp.exp(-x))),
        ("silu", lambda x: x / (1 + mp.exp(-x))),
        ("softplus", lambda x: mp.log1p(mp.exp(x))),
        ("arctan", mp.atan),
    ],
)
def test_an_independent_quadrature(name: str, function: Callable[[Any], Any]) -> None:
    """The trapezoidal rule, exponentially exact for functions that are analytic in a strip."""
    with mp.workdps(40):
        h = mp.mpf(1) / 32
        nodes = [k * h for k in range(-13 * 32, 13 * 32 + 1)]
        terms = [(x, h * mp.npdf(x), function(x)) for x in nodes]
        c_0, c_1, second = (mp.fsum(w * g(x, f) for x, w, f in terms) for g in (_first, _linear, _square))
        check_row(beta_table(name, closed_forms=False), 0, exact_row(c_0, c_1, second))


def _first(x: Any, f: Any) -> Any:
    return f


def _linear(x: Any, f: Any) -> Any:
    return x * f


def _square(x: Any, f: Any) -> Any:
    return f * f


@pytest.mark.parametrize(
    ("sigma", "beta"),
    [
        ("relu", "1.2665288965"),
        ("step", "1.3633802276"),
        ("exp", "1.4180232931"),
        ("sin", "1.1490818718"),
        ("selu", "1.0293196477"),
        ("tanh", "1.0695300764"),
        ("gelu", "1.2767124787"),
        ("gelu_tanh", "1.2767207125"),
        ("mish", "1.1944929966"),
        ("leaky_relu(x, negative_slope=0.2)", "1.1390460614"),
        ("step(x - 0.7)", "1.4684113817"),
        ("max(x - 0.7, 0)", "1.5182696602"),
    ],
)
def test_printed_values(sigma: str, beta: str) -> None:
    assert printed(beta_table(sigma, digits=11))[0]["beta"] == beta


coefficient = st.fractions(-4, 4, max_denominator=8)


@given(st.dictionaries(st.integers(1, 8), coefficient, min_size=1, max_size=4), coefficient, st.integers(1, 15))
def test_hermite_series_have_rational_moments(weights: dict[int, Fraction], constant: Fraction, digits: int) -> None:
    if not any(weights.values()):
        weights = {1: Fraction(1)}
    text = " + ".join(f"({a})*He({k}, x)" for k, a in weights.items())
    variance = sum((a * a for a in weights.values()), Fraction(0))
    slope = weights.get(1, Fraction(0))
    exact = exact_row(constant, slope, variance + constant**2)
    assert exact["beta"] == 2 - slope**2 / variance
    check_row(beta_table(f"{text} + ({constant})", digits=digits, closed_forms=False), 0, exact)


@given(activations(max_breakpoints=2), st.integers(1, 15))
def test_every_row_agrees_with_the_verbs(sigma: hermite.Activation, digits: int) -> None:
    table = beta_table(sigma, digits=digits, closed_forms=False)
    _, _, c_0, c_1, variance, r, beta, error, _, _ = table.rows[0]
    found = hermite.moments(sigma, 1)
    assert [c_0, c_1] == list(found.coefficients)
    assert variance == hermite.variance(sigma)
    assert beta == hermite.isometry_strength(sigma)
    assert isinstance(r, float)
    assert isinstance(beta, float)
    assert r + beta == 2.0
    # the verb divides c_1^2 by the variance: a large mean costs it digits that the residual keeps
    assert abs(r - hermite.linearity(sigma)) <= 1e-14 * found.second_moment / found.variance
    assert isinstance(error, float)
    assert 0 < error < 1e-6
    for name in NUMBERS:
        assert significant(printed(table)[0][name]) <= digits


# --- digits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "digits", "text"),
    [
        (math.pi, 0.0, 15, "3.14159265358979"),
        (math.pi, 2e-6, 15, "3.14159"),
        (math.pi, 4e-6, 15, "3.14159"),  # half a unit of the last place is 5e-6
        (math.pi, 6e-6, 15, "3.1416"),
        (math.pi, 0.4, 15, "3"),
        (math.pi, 0.6, 15, "0"),  # to tens
        (math.pi, 4.0, 15, "0"),
        (-math.pi, 2e-6, 4, "-3.142"),
        (9.9996, 0.0, 4, "10.00"),
        (9.9996, 2e-4, 15, "10.000"),
        (0.99996, 0.0, 4, "1.000"),
        (0.5, 1e-15, 3, "0.500"),
        (3e-17, 1e-15, 15, "0"),
        (-3e-17, 3e-17, 15, "0"),
        (0.0, 0.0, 15, "0"),
        (-0.0, 1e-15, 15, "0"),
        (9e-15, 4e-15, 15, "1e-14"),
        (4e-15, 3e-15, 15, "0"),
        (1.25e-5, 0.0, 3, "0.0000125"),
        (1.25e-6, 0.0, 3, "1.25e-6"),
        (123456.0, 0.0, 6, "123456"),
        (123456.0, 0.0, 3, "1.23e+5"),
        (123456.0, 200.0, 15, "1.23e+5"),
        (123456.0, 20.0, 15, "1.235e+5"),
        (7.225973768e86, 4e74, 15, "7.22597376800e+86"),
        (5e-324, 0.0, 2, "4.9e-324"),
        (2.5, 0.0, 1, "2"),  # ties to even
        (0.1, 1e-3, 15, "0.10"),
    ],
)
def test_rounding(value: float, error: float, digits: int, text: str) -> None:
    assert rounded(value, error, digits) == text


finite = st.floats(-1e40, 1e40, allow_subnormal=False)


@given(finite, st.floats(0, 1e40) | st.floats(1e-18, 1e-10), st.integers(1, 15))
def test_rounding_keeps_what_it_promises(value: float, error: float, digits: int) -> None:
    text = rounded(value, error, digits)
    if text == "0":
        # below the error, or below half of the smallest place whose half unit exceeds the error
        assert abs(value) <= 11 * error
        return
    assert abs(value) > error
    assert 2 * Fraction(error) <= unit(text)
    assert abs(Fraction(text) - Fraction(value)) <= unit(text) / 2
    assert significant(text) <= digits
    # and no digit is held back: one more would be beyond the error or the wish
    assert significant(text) == digits or 20 * Fraction(error) >= unit(text)
    assert json.loads(text) == float(text)  # a JSON number


@pytest.mark.parametrize("name", ["sin", "sign", "tanh", "cube", "erf", "softshrink", "hardtanh"])
def test_odd_activations_print_a_plain_zero_for_c_0(name: str) -> None:
    assert [row["c_0"] for row in printed(beta_table(name, gains=[1, 3]))] == ["0", "0"]


@pytest.mark.parametrize("name", ["cos", "abs", "gaussian", "square", "hermite_polynomial"])
def test_even_activations_print_a_plain_zero_for_c_1_and_r(name: str) -> None:
    for row in printed(beta_table(name, gains=[1, 3])):
        assert (row["c_1"], row["r"]) == ("0", "0")
        assert re.fullmatch(r"2\.0+", row["beta"])


def test_digits_limit_every_number_and_never_the_values() -> None:
    few, many = beta_table(digits=3), beta_table()
    assert few.rows == many.rows
    assert max(significant(row[name]) for row in printed(few) for name in NUMBERS) == 3
    assert max(significant(row[name]) for row in printed(many) for name in NUMBERS) == 15
    # relu's error, 6e-15, does not reach a fifteenth digit
    assert printed(many)[1]["beta"] == "1.2665288965379"


def test_a_large_mean_takes_digits_and_only_where_it_must() -> None:
    (row,) = printed(beta_table("x + 1000000"))
    assert row["c_0"].startswith("1000000.000")
    assert significant(row["variance"]) < 5 < significant(row["c_1"]) < 12
    assert row["beta"] == row["r"] == "1.00000000000000"


@pytest.mark.parametrize("digits", [0, 16, -1, True, 2.5, "3"])
def test_digits_out_of_range(digits: Any) -> None:
    with pytest.raises(
        ValueError,
        match=re.escape(
            f"digits must be an integer from 1 to 15, what float64 carries (certified=True proves more), got {digits!r}"
        ),
    ):
        beta_table("relu", digits=digits)


# --- rows -------------------------------------------------------------------------------------------------------


def test_the_default_is_the_catalogue_at_gain_one() -> None:
    table = beta_table()
    assert table.columns == COLUMNS
    assert column(table, "name") == [sigma.name for sigma in hermite.catalogue()]
    assert set(column(table, "gain")) == {Fraction(1)}
    assert all(1 <= beta <= 2 for beta in column(table, "beta"))
    assert all(method.startswith("gauss-legendre on ") for method in column(table, "method"))
    assert all(len(row) == len(errors) == len(COLUMNS) for row, errors in zip(table.rows, table.errors, strict=True))


def test_for_every_activation_all_gains() -> None:
    table = beta_table(["relu", "tanh"], gains=[2, Fraction(1, 3)])
    pairs = list(zip(column(table, "name"), column(table, "gain"), strict=True))
    third = Fraction(1, 3)
    assert pairs == [("relu", 2), ("relu", third), ("tanh", 2), ("tanh", third)]


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        (0.1, [Fraction(1, 10)]),  # a float means its shortest decimal
        (Fraction(1, 3), [Fraction(1, 3)]),
        (np.array([0.5, 2.0]), [Fraction(1, 2), Fraction(2)]),
        (np.array(2.0), [Fraction(2)]),
        ((g for g in (1, -1)), [Fraction(1), Fraction(-1)]),
        (mp.mpf("0.5"), [Fraction(1, 2)]),
        ([], []),
    ],
)
def test_gains(gains: Any, expected: list[Fraction]) -> None:
    assert column(beta_table("tanh", gains=gains), "gain") == expected


def test_gains_and_activations_in_sympy() -> None:
    sympy = pytest.importorskip("sympy")
    assert column(beta_table("tanh", gains=sympy.Rational(1, 3)), "gain") == [Fraction(1, 3)]


def test_activations_of_every_kind() -> None:
    listed: list[Any] = [
        "relu",
        hermite.activation("x**3", name="cubic"),
        np.tanh,
        hermite.activation("elu", alpha=0.5),
    ]
    assert column(beta_table(iter(listed)), "name") == ["relu", "cubic", "tanh", "elu(x, alpha=1/2)"]
    assert column(beta_table(np.tanh), "beta") == pytest.approx(column(beta_table("tanh"), "beta"), abs=3e-15)
    assert beta_table([]).rows == ()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("leaky_relu", {"negative_slope": 0.2}), ("hardtanh", {"max_val": 2}), ("softplus", {"beta": 3})],
)
def test_the_name_of_an_entry_with_parameters_reads_back(name: str, parameters: dict[str, Any]) -> None:
    sigma = hermite.activation(name, **parameters)
    (label,) = column(beta_table(sigma), "name")
    assert label != name
    assert hermite.activation(label).expr == sigma.expr
    assert column(beta_table(hermite.activation(name)), "name") == [name]


def test_beta_is_there_where_the_second_moment_leaves_float64() -> None:
    table = beta_table("exp", gains=[19, 20], closed_forms=False)
    for row, errors in zip(table.rows, table.errors, strict=True):
        _, gain, c_0, c_1, variance, r, beta, error, _, method = row
        assert (c_0, c_1, variance) == (None, None, None)
        assert errors[2:5] == (None, None, None)
        assert isinstance(gain, Fraction)
        exact = 2 - gain**2 / fraction(mp.expm1(mp.mpf(int(gain)) ** 2))
        assert isinstance(beta, float)
        assert isinstance(error, float)
        assert abs(Fraction(beta) - exact) <= Fraction(error)
        assert r == 2 - beta
        assert method == "gauss-legendre, ratios only"
    assert printed(table)[1] | {"error": ""} == dict(
        name="exp", gain="20", c_0="", c_1="", variance="", r="0", beta="2.0000000000000", error="",
        **{"closed form": ""}, method="gauss-legendre, ratios only",
    )  # fmt: skip
    with pytest.raises(PrecisionError):
        hermite.moments(hermite.activation("exp", gain=20))
    assert table.to_text().splitlines()[-1].split()[:6] == ["exp", "20", "-", "-", "-", "0"]
    assert "| `exp`  |     20 |" in table.to_markdown()
    assert table.to_latex().count("--") == 8
    assert json.loads(table.to_json())[1]["variance"] is None
    assert table.to_pandas()["variance"].isna().all()
    assert table._repr_html_().count("<td>-</td>") == 8


def test_a_tiny_activation_has_a_strength_too() -> None:
    (row,) = beta_table("max(x - 45, 0)", closed_forms=False).rows
    assert row[2:5] == (None, None, None)
    assert isinstance(row[6], float)
    assert 1.99 < row[6] <= 2


@pytest.mark.parametrize(
    ("sigmas", "gains", "message"),
    [
        (["relu", "step"], [1, 0], r"relu\(0\) is constant"),
        ("3", 1, "3 is constant"),
        (["max(x, 0) - max(x, 0)"], 1, "is constant"),
    ],
)
def test_a_constant_is_refused_by_name(sigmas: Any, gains: Any, message: str) -> None:
    with pytest.raises(ConstantActivationError, match=message):
        beta_table(sigmas, gains=gains)


@pytest.mark.parametrize("gains", ["one", ["one"], [None], math.nan, [math.inf], [True], [1j]])
def test_a_gain_that_is_no_number_is_refused(gains: Any) -> None:
    with pytest.raises(ValueError, match="gain must be"):
        beta_table("relu", gains=gains)


def test_what_is_no_activation_is_refused() -> None:
    with pytest.raises(UnknownActivationError, match="nosuch"):
        beta_table(["relu", "nosuch"])
    with pytest.raises(ValueError, match="spec must be"):
        beta_table(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        beta_table("relu", [1])  # type: ignore[call-arg]


# --- the record and its formats -----------------------------------------------------------------------------------

AWKWARD = ["a_b|c", "x & y, 50%", "<script>", 'q"uote', "two\nlines", "back`tick", "~^{$}\\", "ünï"]


@pytest.fixture
def awkward() -> Table:
    return beta_table(
        [hermite.activation("relu", name=name) for name in AWKWARD],
        gains=[1, Fraction(-1, 3)],
        digits=6,
        closed_forms=False,
    )


def test_the_record(awkward: Table) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        awkward.digits = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(awkward)) == awkward
    assert hash(awkward) == hash(dataclasses.replace(awkward))
    assert str(awkward) == awkward.to_text()
    assert repr(awkward) == f"<Table of 16 rows: {', '.join(COLUMNS)}>"
    assert awkward._repr_latex_() == awkward.to_latex()


def test_csv_reads_back(awkward: Table) -> None:
    rows = printed(awkward)
    assert [row["name"] for row in rows[::2]] == AWKWARD
    assert [Fraction(row["gain"]) for row in rows] == column(awkward, "gain")
    for name in NUMBERS:
        values = column(awkward, name)
        assert [float(row[name]) for row in rows] == pytest.approx(values, rel=1e-5)
    assert awkward.to_csv().endswith("panels\n")
    assert "\r" not in awkward.to_csv()


def test_json_reads_back_to_the_decimals_of_csv(awkward: Table) -> None:
    records = json.loads(awkward.to_json(), parse_float=str, parse_int=str)
    assert [list(record) for record in records] == [list(COLUMNS)] * len(awkward.rows)
    for record, row in zip(records, printed(awkward), strict=True):
        for name in (*NUMBERS, "error"):
            assert record[name] == row[name]
        assert (record["name"], record["gain"], record["method"]) == (row["name"], row["gain"], row["method"])
    assert json.loads(beta_table([]).to_json()) == []


def test_pandas_has_the_unrounded_values(awkward: Table) -> None:
    frame = awkward.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    for name in (*NUMBERS, "error"):
        assert frame[name].dtype == np.float64
        assert frame[name].tolist() == column(awkward, name)
    assert frame["gain"].tolist() == [float(g) for g in column(awkward, "gain")]
    assert frame["name"].tolist() == column(awkward, "name")
    assert beta_table([]).to_pandas().shape == (0, len(COLUMNS))


def test_text_is_one_line_a_row(awkward: Table) -> None:
    lines = awkward.to_text().splitlines()
    assert re.split(r"  +", lines[0].strip()) == list(COLUMNS)
    assert len(lines) == 2 + len(awkward.rows)
    assert lines[2 + 2 * AWKWARD.index("two\nlines")].startswith("two lines ")
    assert re.split(r"  +", beta_table([]).to_text().splitlines()[0].strip()) == list(COLUMNS)


def test_markdown_is_a_table_with_every_bar_escaped(awkward: Table) -> None:
    lines = awkward.to_markdown().splitlines()
    cells = [re.split(r"(?<!\\)\|", line) for line in lines]
    assert {len(each) for each in cells} == {len(COLUMNS) + 2}
    names = [each[1].strip() for each in cells[2::2]]
    assert names[0] == r"`a_b\|c`"
    assert names[AWKWARD.index("back`tick")] == "`` back`tick ``"
    assert names[-1] == "`ünï`"


def test_latex_escapes_every_special_character(awkward: Table) -> None:
    text = awkward.to_latex()
    body = text.split(r"\hline")[2].strip().splitlines()
    assert len(body) == len(awkward.rows)
    names = [line.partition(" &   ")[0].strip() for line in body[::2]]
    assert names[0] == r"\texttt{a\_b|c}"
    assert names[1] == r"\texttt{x \& y, 50\%}"
    assert names[6] == r"\texttt{\textasciitilde{}\textasciicircum{}\{\$\}\textbackslash{}}"
    assert r"$6.1 \times 10^{-15}$" in body[0]
    assert "$-1/3$" in body[1]
    assert r"$\beta$" in text
    # unescaped & separate cells, and nothing else is unescaped
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {len(COLUMNS) - 1}


def test_html_escapes_names(awkward: Table) -> None:
    text = awkward._repr_html_()
    assert "<script>" not in text
    assert re.findall(r"<tr><td>(.*?)</td>", text, re.DOTALL) == [html.escape(n) for n in AWKWARD for _ in range(2)]
    assert text.count("<tr>") == 1 + len(awkward.rows)


def test_all_formats_print_the_same_numbers() -> None:
    table = beta_table(["relu", "exp", "tanh"], gains=[1, 5], digits=8)
    numbers = [row[name] for row in printed(table) for name in NUMBERS]
    text = table.to_text().split()
    assert all(number in text for number in numbers)
    markdown = re.findall(r"[^\s|]+", table.to_markdown())
    assert all(number in markdown for number in numbers)
    cells = re.findall(r"<td>([^<]*)</td>", table._repr_html_())
    assert all(number in cells for number in numbers)
    latex = re.sub(r" \\times 10\^\{(-?\d+)\}", lambda m: f"e{int(m[1]):+}", table.to_latex())
    assert all(f"${number}$" in latex for number in numbers)


def test_error_is_rounded_up() -> None:
    def shown(error: float) -> str:
        return Table(("error",), ((error,),), ((None,),)).to_csv().splitlines()[1]

    assert [shown(e) for e in (1.01e-15, 9.91e-15, 2.01e-16, 0.0)] == ["1.1e-15", "1.0e-14", "2.1e-16", "0"]


def test_tables_of_any_columns() -> None:
    table = Table(("k", "c_k", "note"), ((0, 0.25, ""), (1, None, "none")), ((None, 1e-3, None),) * 2, 5)
    assert table.to_csv() == "k,c_k,note\n0,0.25,\n1,,none\n"
    assert json.loads(table.to_json()) == [{"k": 0, "c_k": 0.25, "note": ""}, {"k": 1, "c_k": None, "note": "none"}]
    assert r"$k$ &" in table.to_latex().splitlines()[2]


@pytest.mark.parametrize("render", [Table.to_text, Table.to_markdown, Table.to_latex, str, Table.to_pandas])
def test_a_missing_package_is_named_with_its_extra(
    render: Callable[[Table], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = beta_table("relu")
    monkeypatch.setitem(sys.modules, "tabulate", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"(tabulate|pandas): pip install 'isogram\[tables\]'"):
        render(table)
    assert table.to_csv().startswith("name,")
    assert json.loads(table.to_json())[0]["name"] == "relu"
    assert "<td>relu</td>" in table._repr_html_()
    assert "Table of 1 rows" in repr(table)
