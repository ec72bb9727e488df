"""Command line of the room: `python -m bounds list|verify`.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2; progress shows on a terminal.
`verify` ends with exit code 1 if a claim fails, and with 130 if it is interrupted: what is done by then is written.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bounds._certificate import Verdict
from bounds._claim import Claim
from bounds._claims import CLAIMS
from bounds._verify import Verification, verify
from hermite._console import Parser, integer, one_line, version, write
from hermite._table import LATEX, Table
from hermite.errors import MissingDependencyError

_INTERRUPTED = 130  # as shells have it for SIGINT
_COLUMNS = ("label", "function", "status", "source", "statement", "erratum")
_EXAMPLES = {
    "": """examples:
  python -m bounds list
  python -m bounds list --format latex --output claims.tex
  python -m bounds verify
  python -m bounds verify theorem-5.1 theorem-5.1+ --examples 200 --seed 7 --format json
""",
    "list": """example:
  python -m bounds list --format markdown
""",
    "verify": """examples:
  python -m bounds verify
  python -m bounds verify lemma-a.4 --examples 500 --seed 1

The exit code is 1 if a claim fails on an example, and 130 after Ctrl-C; claims done by then are printed all the same.
Inputs are printed as Python: import numpy as np, from fractions import Fraction, and from meanfield import Layer.
NOT_APPLICABLE counts examples on which a hypothesis of the claim is false.
""",
}


def main(argv: Sequence[str] | None = None, *, claims: Mapping[str, Claim] = CLAIMS) -> int:
    """Run the command line; the exit code is 0, 1 if a claim fails or nobody reads stdout, 2 for wrong arguments, 130
    if interrupted.

    argv: the arguments after the program's name, None for those of the process.  claims: what is listed and tried, by
    label; one's own go here.  Wrong options, --help and --version leave by SystemExit, as argparse has it.

    >>> main(["verify", "theorem-5.1", "--examples", "0"])  # one line on stderr
    2
    """
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        if options.command == "list":
            return write(_LISTINGS[options.format](list(claims.values())), options.output)
        return _verify(options, _chosen(options.label, claims))
    except (LookupError, MissingDependencyError, ValueError, OSError) as error:
        print(f"{parser.prog} {options.command}: {one_line(str(error))}", file=sys.stderr)
        return 2


# ---- verify ---------------------------------------------------------------------------------------------------


def _chosen(labels: Sequence[str], claims: Mapping[str, Claim]) -> list[Claim]:
    unknown = [label for label in labels if label not in claims]
    if unknown:
        raise LookupError(f"no claim labelled {unknown[0]!r}; known: {', '.join(claims)}")
    return [claims[label] for label in dict.fromkeys(labels)] or list(claims.values())


def _verify(options: argparse.Namespace, chosen: list[Claim]) -> int:
    """Try one claim after another; whatever ends the run early, what is done by then is written."""
    written = _Written(options, len(chosen))
    code, stopped = 0, None
    try:
        for claim in chosen:
            _progress(f"{len(written.found) + 1}/{len(chosen)} {claim.label}")
            done = verify(claim, examples=options.examples, seed=options.seed)
            _progress("")
            code = code or int(done.verdict is Verdict.FAILS)
            if written.add(done):
                return 1
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except Exception as error:
        stopped = error
    _progress("")
    unread = written.end() if written.found or stopped is None else 0
    if stopped is not None:
        raise stopped
    return code if code == _INTERRUPTED else unread or code


class _Written:
    """What is done so far: text goes to stdout at once, all else when the run ends."""

    def __init__(self, options: argparse.Namespace, total: int) -> None:
        self.options, self.total = options, total
        self.found: list[Verification] = []

    def add(self, done: Verification) -> int:
        self.found.append(done)
        return write(f"{done}\n", None) if self.options.format == "text" and self.options.output is None else 0

    def end(self) -> int:
        if self.options.format == "json":
            text = json.dumps([each.to_dict() for each in self.found], indent=2, allow_nan=False) + "\n"
        else:
            before = [] if self.options.output is None else self.found
            text = "".join(f"{each}\n" for each in before) + f"{self._counts()}\n"
        return write(text, self.options.output)

    def _counts(self) -> str:
        verdicts = Counter(each.verdict for each in self.found)
        counts = ", ".join(f"{verdicts[verdict]} {verdict.name}" for verdict in Verdict if verdicts[verdict])
        tried = "1 claim" if self.total == 1 else f"{self.total} claims"
        tried = tried if len(self.found) == self.total else f"{len(self.found)} of {tried}"
        return f"{tried}: {counts}" if counts else tried


def _progress(text: str) -> None:
    """One line on stderr, written over, where somebody looks at it."""
    if sys.stderr.isatty():
        print(f"\r{text:<40.40}" if text else f"\r{'':40}\r", end="", file=sys.stderr, flush=True)


# ---- list -----------------------------------------------------------------------------------------------------


def _row(claim: Claim) -> tuple[str, ...]:
    function = getattr(claim.function, "__name__", type(claim.function).__name__)
    return claim.label, function, claim.status, claim.source, claim.statement, claim.erratum


def _text(claims: Sequence[Claim]) -> str:
    blocks = []
    for label, function, status, source, statement, erratum in map(_row, claims):
        wrapped = textwrap.wrap(erratum, 100, initial_indent="  ", subsequent_indent="  ")
        blocks.append("\n".join([f"{label}: {function}, {status}", f"  {statement}", f"  {source}", *wrapped]))
    return "\n\n".join(blocks) + "\n"


def _table(claims: Sequence[Claim], mark: str = "") -> Table:
    rows = tuple(
        tuple(
            f"{mark}{cell}{mark}" if column == "statement" else cell for column, cell in zip(_COLUMNS, row, strict=True)
        )
        for row in map(_row, claims)
    )
    return Table(_COLUMNS, rows, ((None,) * len(_COLUMNS),) * len(rows))


def _latex(claims: Sequence[Claim]) -> str:
    """A tabular without packages; Table would print the statement as text, where it is to be set as mathematics."""
    head = " & ".join(_COLUMNS)
    rows = []
    for label, function, *middle, statement, erratum in map(_row, claims):
        names = [rf"\texttt{{{name.translate(LATEX)}}}" for name in (label, function)]
        texts = [text.translate(LATEX) for text in middle]
        rows.append(" & ".join([*names, *texts, f"${statement}$", erratum.translate(LATEX)]))
    body = "".join(f"{row} \\\\\n" for row in rows)
    return (
        f"\\begin{{tabular}}{{{'l' * len(_COLUMNS)}}}\n\\hline\n{head} \\\\\n\\hline\n{body}\\hline\n\\end{{tabular}}\n"
    )


_LISTINGS: dict[str, Callable[[Sequence[Claim]], str]] = {
    "text": _text,
    "markdown": lambda claims: _table(claims, "$").to_markdown() + "\n",
    "latex": _latex,
    "csv": lambda claims: _table(claims).to_csv(),
    "json": lambda claims: _table(claims).to_json() + "\n",
}


# ---- the options ----------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m bounds",
        description="The claims about isometry: what they say, and whether they hold on drawn examples.",
        epilog=_EXAMPLES[""],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"isogram {version()}")
    commands = parser.add_subparsers(dest="command", metavar="list|verify", required=True)
    _command(
        commands, "list", list(_LISTINGS), "Print every claim: label, function, status, source, statement, erratum."
    )
    trying = _command(commands, "verify", ["text", "json"], "Try claims on examples drawn by hypothesis.")
    trying.add_argument("label", nargs="*", metavar="LABEL", help="labels as `list` prints them; default: all claims")
    trying.add_argument("--examples", type=integer, default=50, metavar="N", help="for each claim, default 50")
    trying.add_argument("--seed", type=integer, default=0, metavar="N", help="the same seed draws the same, default 0")
    return parser


def _command(
    commands: argparse._SubParsersAction[Parser], name: str, formats: list[str], summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=_EXAMPLES[name],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--format", choices=formats, default="text", help="default: text")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there instead of to stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
