"""A command line called in this process, for the tests of all rooms: what went out, and what was refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest


class Shell:
    """`main` with capture; words that every call starts with come first."""

    def __init__(
        self, main: Callable[[Sequence[str]], int], program: str, capsys: pytest.CaptureFixture[str], *first: str
    ) -> None:
        self.main, self.program, self.capsys, self.first = main, program, capsys, first

    def ok(self, *argv: str) -> str:
        """stdout of a call that succeeds: one text ending in one line break, or nothing."""
        assert self.main([*self.first, *argv]) == 0
        out, err = self.capsys.readouterr()
        assert err == ""
        assert out == "" or (out.endswith("\n") and not out.endswith("\n\n"))
        return out

    def rows(self, *argv: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.ok(*argv, "--format", "csv"))))

    def column(self, name: str, *argv: str) -> list[float]:
        return [float(row[name]) for row in self.rows(*argv)]

    def refused(self, *argv: str) -> str:
        """The one line on stderr."""
        try:
            code: Any = self.main(argv)
        except SystemExit as leaving:
            code = leaving.code
        out, err = self.capsys.readouterr()
        assert code == 2
        assert out == ""
        assert err.startswith(self.program)
        assert err.count("\n") == 1
        assert err.endswith("\n")
        return err
