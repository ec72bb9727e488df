"""Command line of the room: `python -m hermite beta|coefficients|list`.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from importlib import metadata
from math import sqrt
from pathlib import Path
from typing import NoReturn

from ._activation import activation, catalogue
from ._numeric import moments
from ._table import Table, beta_table
from .errors import MissingDependencyError, UnknownActivationError

_FORMATS: dict[str, Callable[[Table], str]] = {
    "text": Table.to_text,
    "markdown": Table.to_markdown,
    "latex": Table.to_latex,
    "csv": Table.to_csv,
    "json": Table.to_json,
}
_SIGMA = "a name (relu) or an expression in x: 'leaky_relu(x, negative_slope=0.2)', 'x*sigmoid(1.702*x)'"
_EXAMPLES = {
    "": """examples:
  python -m hermite beta relu tanh "leaky_relu(x, negative_slope=0.2)" --gain 1/2 1 2
  python -m hermite beta --format latex --digits 6 --output strengths.tex
  python -m hermite coefficients gelu --degree 8 --format csv
  python -m hermite list
""",
    "beta": """examples:
  python -m hermite beta
  python -m hermite beta relu "max(x, 0.1*x)" --gain 0.5 1 2 --format markdown
  python -m hermite beta tanh --gain=-1/3        (a negative fraction needs the =)
  python -m hermite beta -- "-x + cos(x)"        (an expression that starts with a minus sign needs the --)
""",
    "coefficients": """examples:
  python -m hermite coefficients relu --degree 6
  python -m hermite coefficients "tanh(x)**3" --degree 40 --gain 2 --shift=-1/2 --format json
""",
    "list": """example:
  python -m hermite list --format markdown
""",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if re.search("arguments: -[^-]", message):
            message += "; write -- before expressions that start with a minus sign, and --gain=-1/2"
        self.exit(2, f"{self.prog}: {_line(message)}\n")  # without the usage, which would make it many lines


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
        text = _FORMATS[options.format](options.table(options))
        return _write(text if text.endswith("\n") else text + "\n", options.output)
    except (UnknownActivationError, MissingDependencyError, ValueError, OSError) as error:
        print(f"{parser.prog} {options.command}: {_line(str(error))}", file=sys.stderr)
        return 2


def _line(message: str) -> str:
    return " ".join(message.split())


def _write(text: str, output: Path | None) -> int:
    if output is not None:
        output.write_text(text, encoding="utf-8", newline="\n")
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # the interpreter flushes once more at exit, and would then complain
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


# ---- the tables -----------------------------------------------------------------------------------------------


def _beta(options: argparse.Namespace) -> Table:
    return beta_table(options.sigma or None, gains=options.gain or (1,), digits=options.digits)


def _coefficients(options: argparse.Namespace) -> Table:
    sigma = activation(options.sigma, gain=options.gain, shift=options.shift)
    found = moments(sigma, options.degree)
    error = found.error * sqrt(found.second_moment)
    rows = tuple((k, float(c), error) for k, c in enumerate(found.coefficients))
    return Table(("k", "c_k", "error"), rows, ((None, error, None),) * len(rows), options.digits)


def _list(options: argparse.Namespace) -> Table:
    rows = []
    for sigma in catalogue():
        parameters = ", ".join(f"{k}={v}" for k, v in sigma.parameters.items())
        breakpoints = ", ".join(str(piece.upper) for piece in sigma.pieces[:-1])
        rows.append((sigma.name, sigma.source.removeprefix("catalogue: "), parameters, breakpoints))
    return Table(("name", "formula", "parameters", "breakpoints"), tuple(rows), ((None,) * 4,) * len(rows))


# ---- the options ----------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m hermite",
        description="Hermite coefficients and isometry strengths of activation functions under N(0, 1).",
        epilog=_EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isogram {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="beta|coefficients|list", required=True)

    beta = _command(commands, "beta", _beta, "a table of isometry strengths beta = 2 - c_1^2/variance")
    beta.add_argument("sigma", nargs="*", metavar="SIGMA", help=f"{_SIGMA}; default: the whole catalogue")
    beta.add_argument(
        "--gain",
        nargs="+",
        action="extend",
        type=_number,
        metavar="G",
        help="gains of sigma(G*x), default 1; after SIGMA",
    )
    _digits(beta)

    coefficients = _command(commands, "coefficients", _coefficients, "Hermite coefficients c_0..c_K with their error")
    coefficients.add_argument("sigma", metavar="SIGMA", help=_SIGMA)
    coefficients.add_argument("--degree", type=_integer, required=True, metavar="K", help="the last degree")
    coefficients.add_argument("--gain", type=_number, default=1, metavar="G", help="of sigma(G*x + B), default 1")
    coefficients.add_argument("--shift", type=_number, default=0, metavar="B", help="of sigma(G*x + B), default 0")
    _digits(coefficients)

    _command(commands, "list", _list, "the catalogue: names, formulas, parameters, breakpoints")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser], name: str, table: Callable[[argparse.Namespace], Table], summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"Print {summary}.",
        epilog=_EXAMPLES[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=_FORMATS, default="text", help="default: text; csv and json need no extra")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    parser.set_defaults(table=table)
    return parser


def _digits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--digits", type=_integer, default=15, metavar="N", help="significant digits, at most; fewer where the error is"
    )


def _number(text: str) -> Fraction:
    """An exact number: a decimal (0.1 is 1/10) or a fraction."""
    match = re.fullmatch(r"[+-]?(\d+/\d+|(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?)", text)
    # exponents are short, for Fraction would write out 10**1000000000
    with suppress(ZeroDivisionError):
        if match is not None and len(text) <= 400:
            return Fraction(text)
    raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a number; write a decimal or a fraction such as 0.5 or 1/3")


def _integer(text: str) -> int:
    if re.fullmatch(r"[+-]?\d{1,9}", text) is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not an integer")
    return int(text)


def _version() -> str:
    try:
        return metadata.version("isogram")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
