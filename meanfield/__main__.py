"""Command line of the room: `python -m meanfield iterate ACTIVATION`.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2; progress shows on a terminal.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._console import FORMATS, Parser, integer, number, one_line, version, write
from hermite._table import Cell, Table
from hermite.errors import MissingDependencyError, UnknownActivationError

from ._dynamics import Trajectory, trajectory
from ._gram import correlation, input_gram
from ._layer import Layer, check_depth

Floats: TypeAlias = NDArray[np.float64]

_COLUMNS = ("layer", "isometry_gap", "error", "log_isometry_gap", "potential", "max_correlation", "status")
_SMALLEST = 1e-290  # below it a gap has lost digits to the range of float64, its logarithm has not
_EXAMPLES = """examples:
  python -m meanfield iterate relu --depth 50
  python -m meanfield iterate "x*sigmoid(1.702*x)" --gain 2 --n 20 --rho 0.9 --every 10
  python -m meanfield iterate tanh --random 64 100 --seed 1 --format csv --output tanh.csv
  python -m meanfield iterate gelu --inputs data.csv --plot gap.png --format markdown
  python -m meanfield iterate exp --n 4 --rho=-1/3        (a negative fraction needs the =)
  python -m meanfield iterate -- "-x + cos(x)"            (an expression that starts with a minus sign needs the --)
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
        text = _iterate(options)
        return write(text if text.endswith("\n") else text + "\n", options.output)
    except (UnknownActivationError, MissingDependencyError, ValueError, OSError, MemoryError) as error:
        print(f"{parser.prog} {options.command}: {one_line(str(error))}", file=sys.stderr)
        return 2


def _iterate(options: argparse.Namespace) -> str:
    short = options.format not in ("csv", "json")
    digits = (6 if short else 15) if options.digits is None else options.digits
    layer, depth, every = Layer(options.activation, gain=options.gain), check_depth(options.depth), options.every
    if every is not None and every < 1:
        raise ValueError(f"--every must be at least 1, got {every}")
    shown = range(depth + 1) if every is None else sorted({*range(0, depth + 1, every), depth})
    path = trajectory(layer, _start(options), depth, gap_layers=None if every is None else shown)
    if options.plot is not None:
        _draw(path, options.plot)
    return FORMATS[options.format](_table(path, shown, digits))


# ---- the start ------------------------------------------------------------------------------------------------


def _start(options: argparse.Namespace) -> Floats:
    """The Gram matrix of layer 0."""
    others = [name for name in ("random", "gram", "inputs") if getattr(options, name) is not None]
    for name in ("n", "rho"):
        if others and getattr(options, name) is not None:
            raise ValueError(f"--{name} sets equal correlations and cannot go with --{others[0]}; leave one out")
    if options.seed is not None and options.random is None:
        raise ValueError(f"--seed {options.seed} goes with --random N D")
    if options.random is not None:
        n, d = options.random
        return _gaussian(n, d, 0 if options.seed is None else options.seed)
    if options.gram is not None:
        return _from_file("--gram", options.gram, correlation)
    if options.inputs is not None:
        return _from_file("--inputs", options.inputs, input_gram)
    return _equicorrelated(options)


def _equicorrelated(options: argparse.Namespace) -> Floats:
    n = 10 if options.n is None else options.n
    rho = 0.5 if options.rho is None else options.rho
    if n < 1:
        raise ValueError(f"--n must be at least 1, got {n}")
    if rho * max(n - 1, 1) < -1 or rho > 1:
        raise ValueError(f"--rho must lie in [-1/(n - 1), 1] for n={n}, got {rho}: no {n} inputs are correlated so")
    G = np.full((n, n), float(rho))
    np.fill_diagonal(G, 1.0)
    return G


def _gaussian(n: int, d: int, seed: int) -> Floats:
    if min(n, d) < 1 or d < 2:
        raise ValueError(f"--random needs at least 1 input of 2 features, got {n} {d}")
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    return input_gram(np.random.default_rng(seed).standard_normal((n, d)))


def _from_file(option: str, path: Path, normalised: Callable[[Floats], Floats]) -> Floats:
    try:
        return normalised(np.load(path, allow_pickle=False) if path.suffix == ".npy" else _numbers(path))
    except (ValueError, EOFError) as error:
        raise ValueError(f"{option} {path}: {error}") from error


def _numbers(path: Path) -> Floats:
    """A table of numbers as text: separated by commas or by blanks, one row a line, # for comments."""
    text = path.read_text(encoding="utf-8-sig")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "input contained no data": said below
        rows = np.loadtxt(io.StringIO(text), delimiter="," if "," in text else None, ndmin=2)
    if not rows.size:
        raise ValueError("there is no number in it; write one row a line, or save a .npy file")
    return rows


# ---- what is printed ------------------------------------------------------------------------------------------


def _table(path: Trajectory, shown: Sequence[int], digits: int) -> Table:
    rows, errors = zip(*(_row(path, l) for l in shown), strict=True)
    return Table(_COLUMNS, tuple(rows), tuple(errors), digits)


def _row(path: Trajectory, l: int) -> tuple[tuple[Cell, ...], tuple[float | None, ...]]:
    """One layer, and how far off each of its numbers may be."""
    gap, error, largest, off = (
        float(values[l])
        for values in (path.isometry_gap, path.isometry_gap_error, path.max_correlation, path.max_correlation_error)
    )
    odds, spread = float(path.potential[l]), float(path.log_potential_error[l])
    numbers = (gap, error, float(path.log_isometry_gap[l]), odds if spread < 0.5 else math.nan, largest)
    log_bar = float(path.log_isometry_gap_error[l])
    bars = (error, None, log_bar if math.isfinite(log_bar) else 0.0, odds * spread if math.isfinite(odds) else 0.0, off)
    cells = [_cell(number) for number in numbers]
    known = [bar if isinstance(cell, float) else None for cell, bar in zip(cells, bars, strict=True)]
    return (l, *cells, path.status[l] or None), (None, *known, None)


def _cell(number: float) -> float | str | None:
    """Infinities as text, since JSON has none; nothing where nothing was computed."""
    return None if math.isnan(number) else number if math.isfinite(number) else str(number)


def _draw(path: Trajectory, file: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("--plot needs matplotlib: pip install 'isogram[plot]'") from error
    figure = Figure(layout="constrained")  # not by pyplot, which might open a window
    path.plot(figure.subplots())
    figure.savefig(file)


# ---- the options ----------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m meanfield",
        description="Gram matrices of a batch of inputs, layer by layer, in wide random networks.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isogram {version()}")
    commands = parser.add_subparsers(dest="command", metavar="iterate", required=True)
    summary = "isometry gap, potential and largest correlation at every layer"
    iterate = commands.add_parser(
        "iterate",
        help=summary,
        description=f"Print {summary} of x -> LN(sigma(G W x)).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = "a name (relu) or an expression in x: 'x*sigmoid(1.702*x)'"
    iterate.add_argument("activation", metavar="ACTIVATION", help=what)
    iterate.add_argument("--depth", type=integer, default=50, metavar="L", help="number of layers, default 50")
    iterate.add_argument("--gain", type=number, default=1, metavar="G", help="of sigma(G*x), default 1")
    _start_options(iterate)
    iterate.add_argument(
        "--every",
        type=integer,
        metavar="K",
        help="layers 0, K, 2K, ... and the last; else all, their gaps for n <= 512",
    )
    iterate.add_argument(
        "--digits",
        type=integer,
        metavar="N",
        help="significant digits, at most; fewer where the error is; default 15 for csv and json, else 6",
    )
    iterate.add_argument("--format", choices=FORMATS, default="text", help="default: text; csv and json need no extra")
    iterate.add_argument("--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    iterate.add_argument("--plot", type=Path, metavar="FILE", help="also draw the gap: .png, .svg, .pdf")
    return parser


def _start_options(parser: argparse.ArgumentParser) -> None:
    start = parser.add_argument_group(
        "where to start: n inputs with equal correlations, or one of --random, --gram, --inputs"
    )
    start.add_argument("--n", type=integer, metavar="N", help="number of inputs, default 10")
    start.add_argument("--rho", type=number, metavar="R", help="their correlation, default 0.5")
    one = start.add_mutually_exclusive_group()
    one.add_argument("--random", type=integer, nargs=2, metavar=("N", "D"), help="N Gaussian inputs of D features")
    one.add_argument(
        "--gram", type=Path, metavar="FILE", help="a Gram matrix, .npy or text; normalised to unit diagonal"
    )
    one.add_argument("--inputs", type=Path, metavar="FILE", help="inputs as rows, .npy or text; layer-normalised")
    start.add_argument("--seed", type=integer, metavar="S", help="of --random, default 0")


if __name__ == "__main__":
    sys.exit(main())
