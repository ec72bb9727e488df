"""Conventions of the command lines of all rooms: options, exact numbers, formats, and where text goes.

Data goes to stdout and nothing else; an error is one line on stderr with exit code 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from ._numbers import text_fraction
from ._table import Table

FORMATS: dict[str, Callable[[Table], str]] = {
    "text": Table.to_text,
    "markdown": Table.to_markdown,
    "latex": Table.to_latex,
    "csv": Table.to_csv,
    "json": Table.to_json,
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        if re.search("arguments: -[^-]", message):
            message += "; write -- before expressions that start with a minus sign, and --gain=-1/2"
        self.exit(2, f"{self.prog}: {one_line(message)}\n")  # without the usage, which would make it many lines


def one_line(message: str) -> str:
    """The message without line breaks."""
    return " ".join(message.split())


def write(text: str, output: Path | None) -> int:
    """Write to a file or to stdout; 0, or 1 when nobody reads stdout."""
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


def number(text: str) -> Fraction:
    """An exact number: a decimal (0.1 is 1/10) or a fraction."""
    try:
        return text_fraction(text, "it")
    except ValueError:
        why = f"{text[:60]!r} is not a number; write a decimal or a fraction such as 0.5 or 1/3"
        raise argparse.ArgumentTypeError(why) from None


def integer(text: str) -> int:
    """An integer of at most nine digits."""
    if re.fullmatch(r"[+-]?\d{1,9}", text) is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not an integer")
    return int(text)


def version() -> str:
    """The installed version of the distribution."""
    try:
        return metadata.version("isogram")
    except metadata.PackageNotFoundError:
        return "(not installed)"
