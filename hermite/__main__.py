"""Command line of the room: `python -m hermite beta|coefficients|dual|list`.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

from ._activation import activation, catalogue
from ._console import FORMATS, Parser, integer, number, one_line, version, write
from ._numeric import moments
from ._strengths import beta_table, upper_float
from ._table import FLOAT_DIGITS, MAX_DIGITS, Table, check_digits
from .errors import MissingDependencyError, UnknownActivationError

_SIGMA = "a name (relu) or an expression in x: 'leaky_relu(x, negative_slope=0.2)', 'x*sigmoid(1.702*x)'"
_EXAMPLES = {
    "": """examples:
  python -m hermite beta relu tanh "leaky_relu(x, negative_slope=0.2)" --gain 1/2 1 2
  python -m hermite beta --format latex --digits 6 --output strengths.tex
  python -m hermite beta --certified --digits 30 --format markdown
  python -m hermite coefficients gelu --degree 8 --format csv
  python -m hermite dual relu --rho 0.5 --certified
  python -m hermite list
""",
    "beta": """examples:
  python -m hermite beta
  python -m hermite beta relu "max(x, 0.1*x)" --gain 0.5 1 2 --format markdown
  python -m hermite beta --certified --digits 30 --format latex        (every printed digit is proven)
  python -m hermite beta --closed-forms
  python -m hermite beta tanh --gain=-1/3        (a negative fraction needs the =)
  python -m hermite beta -- "-x + cos(x)"        (an expression that starts with a minus sign needs the --)
""",
    "coefficients": """examples:
  python -m hermite coefficients relu --degree 6
  python -m hermite coefficients "tanh(x)**3" --degree 40 --gain 2 --shift=-1/2 --format json
  python -m hermite coefficients tanh --degree 20 --certified --digits 50
""",
    "dual": """examples:
  python -m hermite dual relu --rho 0 0.5 1
  python -m hermite dual hardtanh --rho=-1/2 --certified --digits 40 --format csv
""",
    "list": """example:
  python -m hermite list --format markdown
""",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, or 2 with one line on stderr, or 1 when nobody reads stdout.

    argv: the arguments after the program's name, None for those of the process. Wrong options, --help and --version
    leave by SystemExit, as argparse has it; everything else returns.

    >>> main(["coefficients", "step", "--degree", "1", "--format", "csv", "--digits", "6"])
    k,c_k,error
    0,0.500000,1.3e-15
    1,0.398942,1.3e-15
    0
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        text = FORMATS[options.format](options.table(options))
        return write(text if text.endswith("\n") else text + "\n", options.output)
    except (UnknownActivationError, MissingDependencyError, ValueError, OSError) as error:
        print(f"{parser.prog} {options.command}: {one_line(str(error))}", file=sys.stderr)
        return 2


# ---- the tables -----------------------------------------------------------------------------------------------


def _beta(options: argparse.Namespace) -> Table:
    return beta_table(
        options.sigma or None,
        gains=options.gain or (1,),
        digits=options.digits,
        certified=options.certified,
        closed_forms=options.closed_forms,
    )


def _coefficients(options: argparse.Namespace) -> Table:
    sigma = activation(options.sigma, gain=options.gain, shift=options.shift)
    digits = _checked_digits(options)
    if options.certified:
        proven = _certified().coefficients(sigma, options.degree, digits=digits)
        return _proven(("k", "c_k", "error"), list(enumerate(proven)), digits)
    found = moments(sigma, options.degree)
    error = found.error * sqrt(found.second_moment)
    rows = tuple((k, float(c), error) for k, c in enumerate(found.coefficients))
    return Table(("k", "c_k", "error"), rows, ((None, error, None),) * len(rows), digits)


def _dual(options: argparse.Namespace) -> Table:
    sigma = activation(options.sigma, gain=options.gain, shift=options.shift)
    digits = _checked_digits(options)
    if options.certified:
        proven = [(rho, _certified().dual(sigma, rho, digits=digits)) for rho in options.rho]
        return _proven(("rho", "dual", "error"), proven, digits)
    from .multiprecision import dual

    size = float(dual(sigma, 1, digits=FLOAT_DIGITS))
    # the value is computed to FLOAT_DIGITS digits of E sigma^2, then rounded to float64
    error = max(10.0**-FLOAT_DIGITS, 2.0**-52) * size
    rows = tuple((rho, float(dual(sigma, rho, digits=FLOAT_DIGITS + 2)), error) for rho in options.rho)
    return Table(("rho", "dual", "error"), rows, ((None, error, None),) * len(rows), digits)


def _certified() -> ModuleType:
    """The certified engine; raises MissingDependencyError without the extra `rigor`."""
    return import_module(".certified", __package__)


def _checked_digits(options: argparse.Namespace) -> int:
    default, limit = (30, MAX_DIGITS) if options.certified else (FLOAT_DIGITS, FLOAT_DIGITS)
    digits = default if options.digits is None else options.digits
    check_digits(digits, limit)
    return int(digits)


def _proven(columns: tuple[str, ...], pairs: list[tuple[Any, Any]], digits: int) -> Table:
    errors = [upper_float(value.radius) for _, value in pairs]
    rows = tuple((at, value, error) for (at, value), error in zip(pairs, errors, strict=True))
    return Table(columns, rows, tuple((None, error, None) for error in errors), digits)


def _list(options: argparse.Namespace) -> Table:
    rows = []
    for sigma in catalogue():
        parameters = ", ".join(f"{k}={v}" for k, v in sigma.parameters.items())
        breakpoints = ", ".join(str(piece.upper) for piece in sigma.pieces[:-1])
        rows.append((sigma.name, sigma.source.removeprefix("catalogue: "), parameters, breakpoints))
    return Table(("name", "formula", "parameters", "breakpoints"), tuple(rows), ((None,) * 4,) * len(rows))


# ---- the options ----------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m hermite",
        description="Hermite coefficients and isometry strengths of activation functions under N(0, 1).",
        epilog=_EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isogram {version()}")
    commands = parser.add_subparsers(dest="command", metavar="beta|coefficients|dual|list", required=True)

    beta = _command(commands, "beta", _beta, "a table of isometry strengths beta = 2 - c_1^2/variance")
    beta.add_argument("sigma", nargs="*", metavar="SIGMA", help=f"{_SIGMA}; default: the whole catalogue")
    beta.add_argument(
        "--gain",
        nargs="+",
        action="extend",
        type=number,
        metavar="G",
        help="gains of sigma(G*x), default 1; after SIGMA",
    )
    beta.add_argument(
        "--closed-forms",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="derive the closed form of beta where there is one (default: in small and in certified tables)",
    )
    _digits(beta)

    coefficients = _command(commands, "coefficients", _coefficients, "Hermite coefficients c_0..c_K with their error")
    coefficients.add_argument("--degree", type=integer, required=True, metavar="K", help="the last degree")
    _one_sigma(coefficients)

    dual = _command(commands, "dual", _dual, "the dual E sigma(X)sigma(Y) at correlations rho of X and Y")
    dual.add_argument(
        "--rho", nargs="+", action="extend", type=number, required=True, metavar="R", help="numbers in [-1, 1]"
    )
    _one_sigma(dual)

    _command(commands, "list", _list, "the catalogue: names, formulas, parameters, breakpoints")
    return parser


def _command(
    commands: argparse._SubParsersAction[Parser], name: str, table: Callable[[argparse.Namespace], Table], summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"Print {summary}.",
        epilog=_EXAMPLES[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text; csv and json need no extra")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    parser.set_defaults(table=table)
    return parser


def _one_sigma(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sigma", metavar="SIGMA", help=_SIGMA)
    parser.add_argument("--gain", type=number, default=1, metavar="G", help="of sigma(G*x + B), default 1")
    parser.add_argument("--shift", type=number, default=0, metavar="B", help="of sigma(G*x + B), default 0")
    _digits(parser)


def _digits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--certified", action="store_true", help="prove every printed digit by ball arithmetic (the extra rigor)"
    )
    parser.add_argument(
        "--digits",
        type=integer,
        metavar="N",
        help="significant digits, at most; fewer where the error is. Default 15, certified 30",
    )


if __name__ == "__main__":
    sys.exit(main())
