"""Tables of isometry strengths that print no digit beyond its error.

A `Table` keeps every number with its error; each format prints the same rounded decimals.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np

from .errors import MissingDependencyError

if TYPE_CHECKING:
    from pandas import DataFrame


@runtime_checkable
class Proven(Protocol):
    """A number that knows which of its digits are proven (`hermite.certified.Enclosure`)."""

    def decimal(self, digits: int | None = None) -> str: ...

    def __float__(self) -> float: ...


class Formula(str):
    """A formula as text, with its LaTeX."""

    latex: str

    def __new__(cls, text: str, latex: str) -> Formula:
        self = super().__new__(cls, text)
        self.latex = latex
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (str(self), self.latex)


Cell: TypeAlias = str | int | float | Fraction | Proven | None

FLOAT_DIGITS = 15  # what float64 carries
MAX_DIGITS = 1000
_LONG = 60  # characters of a formula that a terminal still shows
_TOO_LONG = 300  # and that a page still does; csv, json and pandas keep all
_CODE = frozenset({"name", "formula", "parameters", "breakpoints"})
_MATH = {
    "c_0": "$c_0$", "c_1": "$c_1$", "c_k": "$c_k$", "k": "$k$", "r": "$r$", "beta": r"$\beta$",
    "variance": r"$\operatorname{Var}\sigma$",
}  # fmt: skip
LATEX = str.maketrans(
    {c: f"\\{c}" for c in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)


@dataclass(frozen=True)
class Table:
    """A table of numbers with errors: a frozen record that prints as text, Markdown, LaTeX, CSV, JSON and HTML.

    columns: the headings; rows: one tuple of plain values for each row (text, int, float64, an exact Fraction, a
    proven Enclosure, None where there is no number), unrounded; errors: shaped as rows, the absolute error bound of
    each float or Enclosure, None elsewhere; digits: how many significant digits to print at most, 1 to 15, and with
    Enclosures up to 1000, else ValueError. Of a float only places are printed whose half unit is at least the error,
    so that a printed number is right within one unit of its last place; a number no larger than its error is 0. Of an
    Enclosure only proven places are printed. The numbers of a column `error` are rounded up to two digits.

    >>> table = Table(("name", "value"), (("pi", 3.141592653589793),), ((None, 2e-6),))
    >>> print(table.to_csv(), end="")
    name,value
    pi,3.14159
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    errors: tuple[tuple[float | None, ...], ...]
    digits: int = 15

    def __post_init__(self) -> None:
        proven = any(_is_proven(cell) for row in self.rows for cell in row)
        check_digits(self.digits, MAX_DIGITS if proven else FLOAT_DIGITS)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Table of {len(self.rows)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = ("".join(f"<td>{html.escape(cell or '-')}</td>" for cell in row) for row in self._printed())
        lines = "\n".join(f"<tr>{row}</tr>" for row in body)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"

    def _repr_latex_(self) -> str | None:
        try:
            return self.to_latex()
        except MissingDependencyError:  # a notebook then has the HTML form, not a traceback
            return None

    def to_text(self) -> str:
        """Aligned columns for a terminal, `-` where there is no number.

        Raises MissingDependencyError without tabulate (the extra `tables`).

        >>> from hermite import beta_table
        >>> print(beta_table(["step"], digits=4).to_text())
        name      gain     c_0     c_1    variance       r    beta  error    closed form    method
        ------  ------  ------  ------  ----------  ------  ------  -------  -------------  ---------...
        step         1  0.5000  0.3989      0.2500  0.6366   1.363  8.2e-15  2 - 2/pi       gauss-legendre on ... panels
        """
        rows = [
            [
                "(long)" if isinstance(v, Formula) and len(v) > _LONG else _line(cell) or "-"
                for v, cell in zip(*pair, strict=True)
            ]
            for pair in zip(self.rows, self._printed(), strict=True)
        ]
        return self._tabulated("simple", list(self.columns), rows)

    def to_markdown(self) -> str:
        """A table in GitHub's Markdown; names and formulas are code.

        Raises MissingDependencyError without tabulate (the extra `tables`).

        >>> print(Table(("name", "beta"), (("x*Phi(x)", 1.2767124786594748),), ((None, 6e-15),), 4).to_markdown())
        | name       |   beta |
        |------------|--------|
        | `x*Phi(x)` |  1.277 |
        """
        rows = [
            [_markdown(c, value, cell) for c, value, cell in zip(self.columns, row, cells, strict=True)]
            for row, cells in zip(self.rows, self._printed(), strict=True)
        ]
        return self._tabulated("github", [c.replace("|", r"\|") for c in self.columns], rows)

    def to_latex(self) -> str:
        r"""A `tabular` without packages; names and formulas in typewriter, numbers in math.

        Raises MissingDependencyError without tabulate (the extra `tables`).

        >>> print(Table(("name", "beta"), (("leaky_relu", 1.2587823650869225),), ((None, 6e-15),), 4).to_latex())
        \begin{tabular}{lr}
        \hline
         name                 & $\beta$   \\
        \hline
         \texttt{leaky\_relu} & $1.259$   \\
        \hline
        \end{tabular}
        """
        rows = [
            [_latex(c, value, cell) for c, value, cell in zip(self.columns, row, cells, strict=True)]
            for row, cells in zip(self.rows, self._printed(), strict=True)
        ]
        return self._tabulated("latex_raw", [_MATH.get(c, c.translate(LATEX)) for c in self.columns], rows)

    def to_csv(self) -> str:
        r"""Comma-separated values (RFC 4180 quoting, lines end in \n); an empty cell where there is no number.

        The decimals are the printed ones, gains are exact (`1/3`); full float64 is in `rows` and `to_pandas`.

        >>> from hermite import beta_table
        >>> beta_table(["relu"], gains=[0.5], digits=6).to_csv().splitlines()[1]
        'relu,1/2,0.199471,0.250000,0.0852113,0.733471,1.26653,6.1e-15,-pi/(2*(-1 + pi)) + 2,gauss-legendre ...'
        """
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self._printed()])
        return out.getvalue()

    def to_json(self) -> str:
        """A list of objects, one for each row; null where there is no number.

        The numbers are the printed decimals, gains are exact texts (`"1/3"`, read by Fraction).

        >>> print(Table(("k", "c_k"), ((0, 0.5), (1, 3e-17)), ((None, 1e-15), (None, 1e-15)), 3).to_json())
        [
          {"k": 0, "c_k": 0.500},
          {"k": 1, "c_k": 0}
        ]
        """
        records = [
            ", ".join(f"{json.dumps(c)}: {_json(v, p)}" for c, v, p in zip(self.columns, row, printed, strict=True))
            for row, printed in zip(self.rows, self._printed(), strict=True)
        ]
        return "[\n  {" + "},\n  {".join(records) + "}\n]" if records else "[]"

    def to_pandas(self) -> DataFrame:
        """A pandas.DataFrame of the unrounded float64 values; gains and Enclosures become floats, missing ones NaN.

        Raises MissingDependencyError without pandas (the extra `tables`).

        >>> from hermite import beta_table
        >>> frame = beta_table(["relu", "exp"], gains=[1, 2]).to_pandas()
        >>> frame.pivot(index="gain", columns="name", values="beta").round(4)
        name     exp    relu
        gain
        1.0   1.4180  1.2665
        2.0   1.9254  1.2665
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise _missing("pandas", "to_pandas()") from error
        rows = [[_plain(v) for v in row] for row in self.rows]
        return DataFrame(rows, columns=list(self.columns))

    def _printed(self) -> list[list[str | None]]:
        """The cells as every format prints them, None where there is no number."""
        return [
            [_decimal(c, v, e, self.digits) for c, v, e in zip(self.columns, row, errors, strict=True)]
            for row, errors in zip(self.rows, self.errors, strict=True)
        ]

    def _tabulated(self, style: str, headers: list[str], rows: list[list[str]]) -> str:
        try:
            from tabulate import tabulate
        except ImportError as error:
            raise _missing("tabulate", "a table as text, Markdown or LaTeX") from error
        numeric = {c for errors in self.errors for c, e in zip(self.columns, errors, strict=True) if e is not None}
        sides = ["decimal" if c in numeric else "right" if c in ("gain", "k") else "left" for c in self.columns]
        return str(tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True, colalign=sides))


def _missing(package: str, what: str) -> MissingDependencyError:
    return MissingDependencyError(f"{what} needs {package}: pip install 'isogram[tables]'; to_csv and to_json do not")


def check_digits(digits: Any, limit: int) -> None:
    """Refuse what is not a number of digits from 1 to the limit."""
    integer = isinstance(digits, (int, np.integer)) and not isinstance(digits, bool)
    if not integer or not 1 <= digits <= limit:
        why = ", what float64 carries (certified=True proves more)" if limit == FLOAT_DIGITS else ""
        raise ValueError(f"digits must be an integer from 1 to {limit}{why}, got {digits!r}")


# ---- cells ----------------------------------------------------------------------------------------------------


def _decimal(column: str, value: Cell, error: float | None, digits: int) -> str | None:
    if isinstance(value, float):
        return _rounded_up(value) if column == "error" else rounded(value, error or 0.0, min(digits, FLOAT_DIGITS))
    if _is_proven(value):
        text = value.decimal(digits)
        return "0" if text.lstrip("-").startswith("0e") else text
    return None if value is None else str(value)


def _is_proven(value: Cell) -> TypeGuard[Proven]:
    return isinstance(value, Proven) and not isinstance(value, (str, int, float, Fraction))


def _plain(value: Cell) -> Any:
    if value is None:
        return math.nan
    return float(value) if isinstance(value, Fraction) or _is_proven(value) else value


def rounded(value: float | Decimal, error: float, digits: int) -> str:
    """The decimal of a number known to +-error: at most `digits` significant ones, half a unit at least the error."""
    exact, bound = Decimal(value), 2 * Decimal(error)
    if not exact:
        return "0"
    places = digits - 1 - exact.adjusted()
    if bound:
        places = min(places, -1 - bound.adjusted())
    wide = Context(prec=digits + 25, rounding=ROUND_HALF_EVEN)
    result = exact.quantize(Decimal(1).scaleb(-places), context=wide)
    if result.adjusted() + places >= digits:  # 9.99 has become 10.0
        result = exact.quantize(Decimal(1).scaleb(1 - places), context=wide)
        places -= 1
    if not result:  # as whatever is no larger than its error
        return "0"
    exponent = result.adjusted()
    return f"{result:f}" if places >= 0 and exponent >= -5 else f"{result:.{exponent + places}e}"


def _rounded_up(error: float) -> str:
    upper = Context(prec=2, rounding=ROUND_CEILING).create_decimal_from_float(error)
    return f"{upper:.1e}" if upper else "0"


def _line(cell: str | None) -> str:
    return " ".join((cell or "").split())


def _markdown(column: str, value: Cell, cell: str | None) -> str:
    if isinstance(value, Formula) and len(value) > _TOO_LONG:
        return "(long)"
    text = _line(cell).replace("|", r"\|") or "-"
    if text == "-" or (column not in _CODE and not isinstance(value, Formula)):
        return text
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _latex(column: str, value: Cell, cell: str | None) -> str:
    text = _line(cell)
    if isinstance(value, Formula):
        return f"${value.latex}$" if len(value) <= _TOO_LONG else "(long)"
    if isinstance(value, str):
        escaped = text.translate(LATEX)
        return rf"\texttt{{{escaped}}}" if column in _CODE and text else escaped
    mantissa, e, exponent = text.partition("e")
    return "--" if not text else f"${mantissa} \\times 10^{{{int(exponent)}}}$" if e else f"${mantissa}$"


def _json(value: Cell, printed: str | None) -> str:
    if printed is not None and (isinstance(value, float) or (_is_proven(value) and not printed.startswith("["))):
        return printed  # json.dumps would drop zeros at the end and write 1e14 with fifteen digits
    return json.dumps(printed if isinstance(value, Fraction) or _is_proven(value) else value)
