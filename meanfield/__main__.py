"""Command line of the room: `python -m meanfield iterate|simulate|fixed-points|phase ACTIVATION`.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2; progress shows on a terminal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from hermite._console import FORMATS, Parser, integer, number, one_line, version, write
from hermite.errors import MissingDependencyError, UnknownActivationError

from ._finite_width import Backend, Method
from ._layer import Normalization, Order
from ._reports import fixed_points_report, iterate_report, phase_report, simulate_report
from ._starts import start_options

_REPORTS = {
    "iterate": iterate_report,
    "simulate": simulate_report,
    "fixed-points": fixed_points_report,
    "phase": phase_report,
}
_EXAMPLES = """examples:
  python -m meanfield iterate relu --depth 50
  python -m meanfield iterate "x*sigmoid(1.702*x)" --gain 2 --n 20 --rho 0.9 --every 10
  python -m meanfield iterate tanh --random 64 100 --seed 1 --format csv --output tanh.csv
  python -m meanfield iterate gelu --inputs data.csv --plot gap.png --format markdown
  python -m meanfield iterate relu --normalization rms --skip 0.5 --bias-variance 0.1
  python -m meanfield iterate exp --n 4 --rho=-1/3        (a negative fraction needs the =)
  python -m meanfield iterate -- "-x + cos(x)"            (an expression that starts with a minus sign needs the --)
  python -m meanfield simulate relu --width 1000 --depth 30 --runs 20 --plot band.png
  python -m meanfield fixed-points relu6 gelu "x*tanh(x)" --normalization rms --plot map.png
  python -m meanfield phase tanh --weight-variance 2.25 --bias-variance 0.0025
  python -m meanfield phase tanh --bias-variance 0 0.05 0.1        (without a weight variance: the edge of chaos)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, or 2 with one line on stderr, or 1 when nobody reads stdout.

    argv: the arguments after the program's name, None for those of the process. Wrong options, --help and --version
    leave by SystemExit, as argparse has it; everything else returns.

    >>> main(["iterate", "sign", "--n", "2", "--depth", "2", "--format", "csv", "--digits", "4"])
    layer,isometry_gap,error,log_isometry_gap,potential,max_correlation,status
    0,0.1438,4.6e-16,-1.939,1.000,0.5000,resolved
    1,0.05889,6.6e-16,-2.832,0.5000,0.3333,resolved
    2,0.02397,3.6e-16,-3.731,0.2761,0.2163,resolved
    0
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        text = FORMATS[options.format](_REPORTS[options.command](options))
        return write(text if text.endswith("\n") else text + "\n", options.output)
    except (UnknownActivationError, MissingDependencyError, ValueError, OSError, MemoryError) as error:
        print(f"{parser.prog} {options.command}: {one_line(str(error))}", file=sys.stderr)
        return 2


# ---- the options ----------------------------------------------------------------------------------------------

_ACTIVATION = "a name (relu) or an expression in x: 'x*sigmoid(1.702*x)'"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m meanfield",
        description="Gram matrices of a batch of inputs, layer by layer, in wide random networks.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isogram {version()}")
    commands = parser.add_subparsers(dest="command", metavar="|".join(_REPORTS), required=True)
    _iterate(commands)
    _simulate(commands)
    _fixed_points(commands)
    _phase(commands)
    return parser


def _command(commands: argparse._SubParsersAction[Parser], name: str, summary: str, details: str) -> Parser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"Print {summary} {details}.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _iterate(commands: argparse._SubParsersAction[Parser]) -> None:
    summary = "isometry gap, potential and largest correlation at every layer"
    parser = _command(commands, "iterate", summary, "of x -> N(sigma(G W x + b))")
    parser.add_argument("activation", metavar="ACTIVATION", help=_ACTIVATION)
    parser.add_argument("--depth", type=integer, default=50, metavar="L", help="number of layers, default 50")
    _layer_options(parser)
    start_options(parser)
    parser.add_argument(
        "--every",
        type=integer,
        metavar="K",
        help="layers 0, K, 2K, ... and the last; else all, their gaps for n <= 512",
    )
    _output_options(parser, "the gap")


def _simulate(commands: argparse._SubParsersAction[Parser]) -> None:
    summary = "the isometry gap of random networks of finite width"
    parser = _command(commands, "simulate", summary, "beside infinite width: the mean over runs, and what is predicted")
    parser.add_argument("activation", metavar="ACTIVATION", help=_ACTIVATION)
    parser.add_argument(
        "--width", type=integer, nargs="+", default=[1000], metavar="D", help="of all layers, or of each; default 1000"
    )
    parser.add_argument("--depth", type=integer, default=30, metavar="L", help="number of layers, default 30")
    parser.add_argument("--runs", type=integer, default=10, metavar="R", help="number of networks, default 10")
    parser.add_argument(
        "--method", choices=get_args(Method), default="gram", help="gram (their exact law) or weights; default gram"
    )
    parser.add_argument("--backend", choices=get_args(Backend), default="numpy", help="default numpy")
    parser.add_argument("--device", metavar="NAME", help="of torch: cpu, cuda, cuda:1, ...")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of the wide part")
    parser.add_argument("--rng", type=integer, default=0, metavar="S", help="seed of the networks, default 0")
    _layer_options(parser)
    start_options(parser)
    _output_options(parser, "the comparison")


def _fixed_points(commands: argparse._SubParsersAction[Parser]) -> None:
    summary = "the correlations that a layer keeps"
    parser = _command(
        commands, "fixed-points", summary, "with their slopes: what correlations tend to in deep networks"
    )
    parser.add_argument(
        "activation", metavar="ACTIVATION", nargs="*", help=f"{_ACTIVATION}; several, or none for the whole catalogue"
    )
    _layer_options(parser)
    _output_options(parser, "the maps of correlations with their fixed points")


def _phase(commands: argparse._SubParsersAction[Parser]) -> None:
    summary = "the phase of a network without normalisation"
    parser = _command(commands, "phase", summary, "at each pair of a weight and a bias variance, or its edge of chaos")
    parser.add_argument("activation", metavar="ACTIVATION", help=_ACTIVATION)
    parser.add_argument(
        "--weight-variance",
        type=number,
        nargs="+",
        metavar="W",
        help="variances of weights times the width; without any the edge of chaos is printed",
    )
    parser.add_argument(
        "--bias-variance", type=number, nargs="+", default=[0], metavar="B", help="variances of biases, default 0"
    )
    _output_options(parser, "the phase diagram")


def _layer_options(parser: Parser) -> None:
    layer = parser.add_argument_group("the layer")
    layer.add_argument("--gain", type=number, default=1, metavar="G", help="of sigma(G*x), default 1")
    kinds = get_args(Normalization)
    layer.add_argument("--normalization", choices=kinds, default="layer", help=f"{', '.join(kinds)}; default layer")
    layer.add_argument("--order", choices=get_args(Order), default="activation-first", help="default activation-first")
    layer.add_argument("--bias-variance", type=number, default=0, metavar="B", help="of the biases, default 0")
    layer.add_argument(
        "--skip", type=number, default=0, metavar="A", help="A in [0, 1) of A*x + sqrt(1 - A^2)*W2*y, default 0"
    )


def _output_options(parser: Parser, drawn: str) -> None:
    parser.add_argument(
        "--digits",
        type=integer,
        metavar="N",
        help="significant digits, at most; fewer where the error is; default 15 for csv and json, else 6",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text; csv and json need no extra")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"also draw {drawn}: .png, .svg, .pdf")


if __name__ == "__main__":
    sys.exit(main())
