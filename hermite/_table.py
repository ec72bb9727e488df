"""Tables of isometry strengths that print no digit beyond its error.

A `Table` keeps every number with its error; each format prints the same rounded decimals.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ._activation import Activation, ActivationLike, activation, catalogue
from ._catalogue import ENTRIES
from ._moments import Moments
from ._numbers import as_fraction
from ._numeric import isometry_strength, moments, varying
from .errors import MissingDependencyError, PrecisionError

if TYPE_CHECKING:
    from pandas import DataFrame

Cell: TypeAlias = str | int | float | Fraction | None

COLUMNS = ("name", "gain", "c_0", "c_1", "variance", "r", "beta", "error", "method")
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

    columns: the headings; rows: one tuple of plain values for each row (text, int, float64, an exact Fraction, None
    where there is no number), unrounded; errors: shaped as rows, the absolute error bound of each float, None
    elsewhere; digits: how many significant digits to print at most, 1 to 15, else ValueError. Of these only places are
    printed whose half unit is at least the error, so that a printed number is right within one unit of its last place;
    a number no larger than its error is 0. The numbers of a column `error` are rounded up to two digits.

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
        _check_digits(self.digits)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Table of {len(self.rows)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = ("".join(f"<td>{html.escape(cell or '-')}</td>" for cell in row) for row in self._printed())
        lines = "\n".join(f"<tr>{row}</tr>" for row in body)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{lines}\n</tbody>\n</table>"

    def _repr_latex_(self) -> str:
        return self.to_latex()

    def to_text(self) -> str:
        """Aligned columns for a terminal, `-` where there is no number.

        Raises MissingDependencyError without tabulate (the extra `tables`).

        >>> print(beta_table(["step"], digits=4).to_text())
        name      gain     c_0     c_1    variance       r    beta  error    method
        ------  ------  ------  ------  ----------  ------  ------  -------  ---------...
        step         1  0.5000  0.3989      0.2500  0.6366   1.363  8.2e-15  gauss-legendre on ... panels
        """
        rows = [[_line(cell) or "-" for cell in row] for row in self._printed()]
        return self._tabulated("simple", list(self.columns), rows)

    def to_markdown(self) -> str:
        """A table in GitHub's Markdown; names and formulas are code.

        Raises MissingDependencyError without tabulate (the extra `tables`).

        >>> print(Table(("name", "beta"), (("x*Phi(x)", 1.2767124786594748),), ((None, 6e-15),), 4).to_markdown())
        | name       |   beta |
        |------------|--------|
        | `x*Phi(x)` |  1.277 |
        """
        rows = [[_markdown(c, cell) for c, cell in zip(self.columns, row, strict=True)] for row in self._printed()]
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

        >>> beta_table(["relu"], gains=[0.5], digits=6).to_csv().splitlines()[1]
        'relu,1/2,0.199471,0.250000,0.0852113,0.733471,1.26653,6.1e-15,gauss-legendre on ... panels'
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
        """A pandas.DataFrame of the unrounded float64 values; gains become floats, a missing number NaN.

        Raises MissingDependencyError without pandas (the extra `tables`).

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
        rows = [[math.nan if v is None else float(v) if isinstance(v, Fraction) else v for v in r] for r in self.rows]
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


# ---- cells ----------------------------------------------------------------------------------------------------


def _decimal(column: str, value: Cell, error: float | None, digits: int) -> str | None:
    if not isinstance(value, float):
        return None if value is None else str(value)
    return _rounded_up(value) if column == "error" else rounded(value, error or 0.0, digits)


def rounded(value: float, error: float, digits: int) -> str:
    """The decimal of a number known to +-error: at most `digits` significant ones, half a unit at least the error."""
    exact, bound = Decimal(value), 2 * Decimal(error)
    if not exact:
        return "0"
    places = digits - 1 - exact.adjusted()
    if bound:
        places = min(places, -1 - bound.adjusted())
    wide = Context(prec=40, rounding=ROUND_HALF_EVEN)
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


def _markdown(column: str, cell: str | None) -> str:
    text = _line(cell).replace("|", r"\|") or "-"
    if column not in _CODE or text == "-":
        return text
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _latex(column: str, value: Cell, cell: str | None) -> str:
    text = _line(cell)
    if isinstance(value, str):
        escaped = text.translate(LATEX)
        return rf"\texttt{{{escaped}}}" if column in _CODE and text else escaped
    mantissa, e, exponent = text.partition("e")
    return "--" if not text else f"${mantissa} \\times 10^{{{int(exponent)}}}$" if e else f"${mantissa}$"


def _json(value: Cell, printed: str | None) -> str:
    if isinstance(value, float) and printed is not None:
        return printed  # json.dumps would drop zeros at the end and write 1e14 with fifteen digits
    return json.dumps(str(value) if isinstance(value, Fraction) else value)


# ---- isometry strengths ---------------------------------------------------------------------------------------


def beta_table(
    sigmas: ActivationLike | Iterable[ActivationLike] | None = None,
    *,
    gains: Iterable[Any] | Any = (1,),
    digits: int = 15,
) -> Table:
    """Table of isometry strengths beta = 2 - r, r = c_1^2/variance, of activations sigma(gain * x).

    sigmas: one activation or several, each anything `activation` accepts; None: the catalogue. gains: one number or
    several, exact as in `activation(gain=)`. digits: at most this many significant digits are printed, from 1 to 15;
    fewer where the error supports fewer. Rows: name (with parameters that are not the defaults), gain, c_0, c_1,
    variance, r, beta, error (absolute, of r and of beta), method; for every sigma all gains.

    c_0 and c_1 are known to e sqrt(E sigma^2) and the variance to e E sigma^2, with e the error of `moments`; r is
    2 - beta and shares its error: that of the residual, and one rounding. Where E sigma^2 leaves float64 (exp with
    gain 20) c_0, c_1 and variance are None, and beta is still there.
    Raises ConstantActivationError for a constant sigma (as with gain 0), and as `activation` and `isometry_strength`.

    Source: arXiv:2305.18399, table of isometry strengths (Table 5.1, Table B.1).

    >>> table = beta_table(["sin", "exp"], gains=[1, 20], digits=5)
    >>> print(table.to_csv(), end="")
    name,gain,c_0,c_1,variance,r,beta,error,method
    sin,1,0,0.60653,0.43233,0.85092,1.1491,3.6e-15,gauss-legendre on ... panels
    sin,20,0,0,0.50000,0,2.0000,2.0e-14,gauss-legendre on ... panels
    exp,1,1.6487,1.6487,4.6708,0.58198,1.4180,9.1e-15,gauss-legendre on ... panels
    exp,20,,,,0,2.0000,2.0e-14,"gauss-legendre, ratios only"
    """
    _check_digits(digits)
    factors = [as_fraction(gain, "gain") for gain in _several(gains)]
    listed = catalogue() if sigmas is None else [activation(s) for s in _several(sigmas)]
    pairs = [_row(sigma, gain) for sigma in listed for gain in factors]
    return Table(COLUMNS, tuple(row for row, _ in pairs), tuple(errors for _, errors in pairs), digits)


def _check_digits(digits: Any) -> None:
    integer = isinstance(digits, (int, np.integer)) and not isinstance(digits, bool)
    if not integer or not 1 <= digits <= 15:
        raise ValueError(f"digits must be an integer from 1 to 15, what float64 carries, got {digits!r}")


def _several(values: Any) -> list[Any]:
    """One or several: a text or a callable is one activation, what does not iterate is one number."""
    single = isinstance(values, str) or callable(values) or not isinstance(values, Iterable)
    return [values] if single or (isinstance(values, np.ndarray) and values.ndim == 0) else list(values)


def _row(sigma: Activation, gain: Fraction) -> tuple[tuple[Cell, ...], tuple[float | None, ...]]:
    scaled = sigma.scaled(gain)
    low = varying(scaled)
    beta = isometry_strength(scaled)
    # in units of exp(M), which cancel here; and beta itself is rounded once
    error = Moments((low.c0, low.c1), low.second, low.variance, low.residual, low.error, "").strength_error
    try:
        found = moments(scaled, 1)
    except PrecisionError:
        values: tuple[float | None, ...] = (None, None, None)
        bounds: tuple[float | None, ...] = (None, None, None)
        method = "gauss-legendre, ratios only"
    else:
        values = (float(found.coefficients[0]), float(found.coefficients[1]), found.variance)
        size = found.error * math.sqrt(found.second_moment)
        bounds = (size, size, found.error * found.second_moment)
        method = found.method
    row = (_label(sigma), gain, *values, 2.0 - beta, beta, error, method)
    return row, (None, None, *bounds, error, error, None, None)


def _label(sigma: Activation) -> str:
    """The name; for a catalogue entry with other parameters the text that `activation` reads back."""
    entry = ENTRIES.get(sigma.name)
    if entry is None:
        return sigma.name
    given = [f"{k}={v}" for k, v in sigma.parameters.items() if v != entry.defaults.get(k)]
    return f"{sigma.name}(x, {', '.join(given)})" if given else sigma.name
