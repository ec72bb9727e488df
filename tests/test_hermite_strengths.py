"""Tables with proven digits and closed forms: every printed digit is right, in every format."""

from __future__ import annotations

import json
import pickle
import re
import sys
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp

import hermite
from hermite import beta_table, certified
from hermite.__main__ import main
from hermite._numbers import as_fraction
from hermite._strengths import COLUMNS
from hermite._table import Formula
from hermite.errors import MissingDependencyError, NoClosedFormError

NUMBERS = ("c_0", "c_1", "variance", "r", "beta")
MIXED = ["relu", "tanh", "x*sigmoid(1.702*x)", "max(x, sin(3*x))", "exp"]


def decimal_fits(text: str, sigma: Any, which: str) -> bool:
    """Whether the true value lies within one unit of the last printed place, by an enclosure of twice the digits."""
    found = certified.moments(sigma, 1, digits=70)
    values = dict(zip(NUMBERS, (*found.coefficients, found.variance), strict=False))
    values |= {"r": certified.linearity(sigma, digits=70), "beta": certified.isometry_strength(sigma, digits=70)}
    mantissa, _, exponent = text.partition("e")
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    unit, printed = Fraction(1, 10) ** places, Fraction(mantissa) * Fraction(10) ** int(exponent or 0)
    if text == "0":  # no place is proven: no larger than the tables call 0
        return abs(float(values[which])) < 1e-25
    low, high = (as_fraction(end, "end") for end in (values[which].lower, values[which].upper))
    return low - unit <= printed <= high + unit


@pytest.mark.slow
@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda sigma: sigma.name)
def test_every_printed_digit_of_the_catalogue_is_right(sigma: hermite.Activation) -> None:
    table = beta_table(sigma, certified=True, digits=30, closed_forms=False)
    (row,) = json.loads(table.to_json(), parse_float=str, parse_int=str)
    for which in NUMBERS:
        assert decimal_fits(row[which], sigma, which), which
    assert len(row["beta"].replace(".", "")) >= 30


def test_the_check_sees_a_wrong_digit() -> None:
    (row,) = json.loads(beta_table("relu", certified=True).to_json(), parse_float=str)
    assert decimal_fits(row["beta"], "relu", "beta")
    assert not decimal_fits(row["beta"][:-1] + str((int(row["beta"][-1]) + 5) % 10), "relu", "beta")


def test_formats_print_the_same_digits() -> None:
    table = beta_table(MIXED, certified=True, digits=30)
    assert table.columns == COLUMNS
    rows = json.loads(table.to_json(), parse_float=str, parse_int=str)
    markdown, latex = table.to_markdown().splitlines()[2:], table.to_latex().splitlines()
    for row, line in zip(rows, markdown, strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert [cells[COLUMNS.index(c)] for c in NUMBERS] == [row[c] for c in NUMBERS]
        assert any(all(f"${row[c]}$" in each for c in NUMBERS) for each in latex)


def test_the_command_line_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    for form, show in (("markdown", hermite.Table.to_markdown), ("latex", hermite.Table.to_latex)):
        assert main(["beta", "relu", "tanh", "--certified", "--digits", "30", "--format", form]) == 0
        assert capsys.readouterr().out.rstrip("\n") == show(beta_table(["relu", "tanh"], certified=True, digits=30))


def test_the_default_is_thirty_digits() -> None:
    assert beta_table("tanh", certified=True).digits == 30
    assert beta_table("tanh").digits == 15
    text = dict(
        zip(COLUMNS, beta_table("tanh", certified=True, digits=100).to_csv().splitlines()[1].split(","), strict=False)
    )
    assert len(text["beta"]) == 101


def test_closed_forms_are_those_of_the_engine() -> None:
    table = beta_table(["relu", "gelu", "tanh", "erf"], gains=[1, 2])
    for row in table.rows:
        form, beta = row[COLUMNS.index("closed form")], float(row[COLUMNS.index("beta")])  # type: ignore[arg-type]
        if row[0] == "tanh":
            assert form is None
            continue
        assert isinstance(form, Formula)
        assert abs(float(sp.sympify(str(form))) - beta) < 4e-15
        assert pickle.loads(pickle.dumps(form)).latex == form.latex
        assert f"${form.latex}$" in table.to_latex()
        assert f"`{form}`" in table.to_markdown()


def test_closed_forms_come_unasked_only_in_small_tables() -> None:
    gains = [Fraction(n, 4) for n in range(1, 10)]
    assert all(row[8] is None for row in beta_table("relu", gains=gains).rows)
    assert all(row[8] is not None for row in beta_table("relu", gains=gains[:3]).rows)
    assert all(row[8] is not None for row in beta_table("relu", gains=gains, closed_forms=True).rows)
    assert all(row[8] is None for row in beta_table("relu", closed_forms=False).rows)


def test_a_wrong_form_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form is compared with the number of its row."""
    from hermite import symbolic

    assert symbolic.closed_strength(hermite.activation("relu"), 1.2665288965378701, 10.0) is not None
    assert symbolic.closed_strength(hermite.activation("relu"), 1.2665288975378701, 10.0) is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"certified": True, "digits": 0}, "digits must be an integer from 1 to 1000, got 0"),
        ({"certified": True, "digits": 1001}, "digits must be an integer from 1 to 1000, got 1001"),
        ({"digits": 30}, "digits must be an integer from 1 to 15, what float64 carries (certified=True proves more)"),
    ],
)
def test_digits_out_of_range(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        beta_table("relu", **options)


def test_callables_have_no_proof_and_no_formula() -> None:
    def bump(x: Any) -> Any:
        return x * x

    assert beta_table(bump).rows[0][8] is None
    with pytest.raises(ValueError, match="bump"):
        beta_table(bump, certified=True)


def test_without_the_extra_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [m for m in sys.modules if m == "flint" or m.startswith(("flint.", "hermite.certified"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.delattr(hermite, "certified", raising=False)
    with pytest.raises(MissingDependencyError, match="rigor"):
        beta_table("relu", certified=True)


def test_dual_and_coefficients_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dual", "erf", "--rho", "0.5", "--certified", "--digits", "40", "--format", "csv"]) == 0
    value = capsys.readouterr().out.splitlines()[1].split(",")[1]
    assert value == str(sp.N(2 * sp.asin(sp.Rational(1, 3)) / sp.pi, 40))
    assert main(["dual", "relu", "--rho", "0.5", "--format", "csv", "--digits", "10"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("1/2,0.3044988905,")
    assert main(["coefficients", "exp", "--degree", "2", "--certified", "--digits", "20", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[3].split(",")[1] == str(
        sp.N(sp.exp(sp.Rational(1, 2)) / sp.sqrt(2), 20)
    )
    for argv, why in (
        (["dual", "relu", "--rho", "2", "--certified"], "rho"),
        (["dual", "relu", "--rho", "0.5", "--digits", "30"], "digits must be an integer from 1 to 15"),
        (["coefficients", "relu", "--degree", "2", "--certified", "--digits", "2000"], "digits"),
    ):
        assert main(argv) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert why in err
        assert err.count("\n") == 1


def test_no_closed_form_is_no_error() -> None:
    with pytest.raises(NoClosedFormError):
        hermite.symbolic.isometry_strength("mish")
    assert beta_table("mish", certified=True).rows[0][8] is None
