"""The command line `python -m hermite`: stdout carries data only, an error is one line on stderr with exit code 2."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from _shell import Shell

import hermite
from hermite import Table, beta_table
from hermite import __main__ as cli

FORMATS: dict[str, Callable[[Table], str]] = {
    "text": Table.to_text,
    "markdown": Table.to_markdown,
    "latex": Table.to_latex,
    "csv": Table.to_csv,
    "json": Table.to_json,
}


def run(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A process that sees the very rooms that this one sees, and for which every warning is an error."""
    root = str(Path(hermite.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-P", "-m", "hermite", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m hermite", capsys)


# --- as a process -----------------------------------------------------------------------------------------------


def test_data_goes_to_stdout_and_nothing_else_is_said() -> None:
    result = run("beta", "relu", "exp", "--gain", "1", "20", "--format", "csv")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == beta_table(["relu", "exp"], gains=[1, 20]).to_csv()


def test_an_error_goes_to_stderr_in_one_line_with_code_2() -> None:
    result = run("beta", "relu", "nosuch")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("python -m hermite beta: no activation named 'nosuch'")
    assert result.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error() -> None:
    root = str(Path(hermite.__file__).parent.parent)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = subprocess.run(
            [sys.executable, "-P", "-m", "hermite", "list", "--format", "csv"],
            stdout=writing, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}, timeout=120,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (1, "")


def test_a_terminal_without_unicode_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    result = run("beta", "exp", "--gain", "20")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == beta_table("exp", gains=20).to_text() + "\n"


# --- beta ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_that_of_the_table(name: str, shell: Shell) -> None:
    table = beta_table(["relu", "x*sigmoid(1.702*x)"], gains=[Fraction(1, 2), -2], digits=7)
    argv = ["beta", "relu", "x*sigmoid(1.702*x)", "--gain", "1/2", "-2", "--digits", "7", "--format", name]
    assert shell.ok(*argv).rstrip("\n") == FORMATS[name](table).rstrip("\n")


def test_the_default_is_the_catalogue_as_text(shell: Shell) -> None:
    assert shell.ok("beta") == beta_table().to_text() + "\n"


@pytest.mark.parametrize(
    ("written", "spec", "parameters"),
    [
        ("leaky_relu(x, negative_slope=0.2)", "leaky_relu", {"negative_slope": 0.2}),
        ("gelu(x, approximate='tanh')", "gelu", {"approximate": "tanh"}),
        ("LeakyReLU", "leaky_relu", {}),
        ("swish", "silu", {}),
        ("max(x, 0)", "relu", {}),
    ],
)
def test_activations_are_written_as_in_the_grammar(
    written: str, spec: str, parameters: dict[str, Any], shell: Shell
) -> None:
    (row,) = shell.rows("beta", written)
    assert float(row["beta"]) == pytest.approx(
        hermite.isometry_strength(hermite.activation(spec, **parameters)), abs=1e-13
    )


@pytest.mark.parametrize(
    ("argv", "gains"),
    [
        (["--gain", "0.1"], ["1/10"]),
        (["--gain", "1e-1", ".5", "5.", "+2"], ["1/10", "1/2", "5", "2"]),
        (["--gain", "-1", "-0.5"], ["-1", "-1/2"]),
        (["--gain=-1/3"], ["-1/3"]),
        (["--gain", "1", "--gain", "2", "3"], ["1", "2", "3"]),
        ([], ["1"]),
    ],
)
def test_gains_are_exact(argv: list[str], gains: list[str], shell: Shell) -> None:
    assert [row["gain"] for row in shell.rows("beta", "tanh", *argv)] == gains


def test_a_minus_sign_in_front_needs_two_dashes(shell: Shell) -> None:
    assert shell.ok("beta", "--format", "csv", "--", "-x + cos(x)").splitlines()[1].startswith("-x + cos(x),1,")
    assert "write -- before" in shell.refused("beta", "-x")


# --- coefficients and list ------------------------------------------------------------------------------------------


def test_coefficients(shell: Shell) -> None:
    rows = shell.rows("coefficients", "tanh(x)**3", "--degree", "40", "--gain", "2", "--shift", "-0.5")
    expected = hermite.coefficients("tanh(2*x - 1/2)**3", 40)
    assert [int(row["k"]) for row in rows] == list(range(41))
    for row, c in zip(rows, expected, strict=True):
        error = float(row["error"])
        assert error < 1e-14
        # half a unit of the last place, which is at most twenty errors
        assert abs(float(row["c_k"]) - c) <= 11 * error


def test_coefficients_below_their_error_are_zero(shell: Shell) -> None:
    rows = shell.rows("coefficients", "relu", "--degree", "7")
    assert [row["c_k"] == "0" for row in rows] == [False, False, False, True, False, True, False, True]
    records = json.loads(shell.ok("coefficients", "step", "--degree", "1", "--format", "json", "--digits", "5"))
    assert records == [{"k": 0, "c_k": 0.5, "error": 1.3e-15}, {"k": 1, "c_k": 0.39894, "error": 1.3e-15}]


def test_list_names_formulas_parameters_and_breakpoints(shell: Shell) -> None:
    rows = {row["name"]: row for row in shell.rows("list")}
    assert list(rows) == [sigma.name for sigma in hermite.catalogue()]
    assert rows["leaky_relu"] == {
        "name": "leaky_relu",
        "formula": "x if x > 0 else negative_slope*x",
        "parameters": "negative_slope=1/100",
        "breakpoints": "0",
    }
    assert rows["hardtanh"]["breakpoints"] == "-1, 1"
    assert (rows["tanh"]["parameters"], rows["tanh"]["breakpoints"]) == ("", "")
    for row in rows.values():
        if not row["parameters"]:
            assert hermite.activation(row["formula"]).expr == hermite.activation(row["name"]).expr


@pytest.mark.parametrize("name", FORMATS)
def test_every_command_has_every_format(name: str, shell: Shell) -> None:
    assert "hardtanh" in shell.ok("list", "--format", name)
    assert "0.398942" in shell.ok("coefficients", "relu", "--degree", "2", "--format", name)


# --- output, help, version ------------------------------------------------------------------------------------------


def test_output_goes_to_the_file_and_stdout_stays_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.csv"
    file.write_text("before")
    assert cli.main(["beta", "relu", "--format", "csv", "--output", str(file)]) == 0
    assert capsys.readouterr() == ("", "")
    assert file.read_bytes() == beta_table("relu").to_csv().encode()


def test_a_failed_command_leaves_the_file_alone(tmp_path: Path, shell: Shell) -> None:
    file = tmp_path / "table.csv"
    file.write_text("before")
    shell.refused("beta", "nosuch", "--output", str(file))
    assert file.read_text() == "before"
    assert "table.txt" in shell.refused("beta", "relu", "--output", str(tmp_path / "missing" / "table.txt"))
    assert "Is a directory" in shell.refused("beta", "relu", "--output", str(tmp_path))


def helped(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as leaving:
        cli.main([*argv, "--help"])
    out, err = capsys.readouterr()
    assert (leaving.value.code, err) == (0, "")
    return out


@pytest.mark.parametrize("command", [[], ["beta"], ["coefficients"], ["dual"], ["list"]])
def test_the_examples_of_the_help_run(
    command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.strip() for line in helped(command, capsys).splitlines()]
    examples = [line.partition("        (")[0] for line in lines if line.startswith("python -m hermite ")]
    assert examples
    for example in examples:
        assert cli.main(shlex.split(example)[3:]) == 0, example
    assert capsys.readouterr().err == ""
    assert (tmp_path / "strengths.tex").exists() == (command == [])


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"beta", "coefficients", "list", "--version"} <= set(helped([], capsys).split())
    text = helped(["coefficients"], capsys)
    assert all(option in text for option in ("--degree", "--gain", "--shift", "--digits", "--format", "--output"))


def test_version(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        assert name == "isogram"
        return "1.2.3"

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--version"])
    assert (leaving.value.code, capsys.readouterr().out) == (0, "isogram 1.2.3\n")


def test_version_of_a_checkout_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == "isogram (not installed)\n"


def test_the_docstrings_of_the_command_line() -> None:
    # pytest leaves __main__ out when it collects docstrings
    failed, attempted = doctest.testmod(cli)
    assert (failed, attempted) == (0, 1)


# --- must fail ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required"),
        (["nosuch"], "invalid choice: 'nosuch'"),
        (["beta", "rleu"], "did you mean relu"),
        (["beta", "x^2"], "'^' is not a power here; write ** as in 'x**2'"),
        (["beta", "x +"], "is not an expression"),
        (["beta", ""], "the expression is empty"),
        (["beta", "__import__('os').system('true')"], "only functions called by name"),
        (["beta", "leaky_relu(x, slope=0.2)"], "leaky_relu has no parameter 'slope'"),
        (["beta", "3"], "3 is constant"),
        (["beta", "relu", "--gain", "0"], "relu(0) is constant"),
        (["beta", "exp(x**2/4)"], "not square-integrable"),
        (["beta", "relu", "--gain", "two"], "'two' is not a number"),
        (["beta", "relu", "--gain", "1", "tanh"], "'tanh' is not a number"),
        (["beta", "relu", "--gain", "nan"], "'nan' is not a number"),
        (["beta", "relu", "--gain", "inf"], "'inf' is not a number"),
        (["beta", "relu", "--gain", "1/0"], "'1/0' is not a number"),
        (["beta", "relu", "--gain", "1e9999999"], "is not a number"),
        (["beta", "relu", "--gain", "1e999"], "exceeds 1e300"),
        (["beta", "relu", "--gain", "9" * 5000], "is not a number"),
        (["beta", "relu", "--digits", "0"], "digits must be an integer from 1 to 15"),
        (["beta", "relu", "--digits", "16"], "digits must be an integer from 1 to 15"),
        (["beta", "relu", "--digits", "3.5"], "'3.5' is not an integer"),
        (["beta", "relu", "--format", "xml"], "invalid choice: 'xml'"),
        (["beta", "relu", "--form", "csv"], "unrecognized arguments"),
        (["coefficients", "relu"], "--degree"),
        (["coefficients", "--degree", "3"], "SIGMA"),
        (["coefficients", "relu", "--degree", "-1"], "degree must be a non-negative integer, got -1"),
        (["coefficients", "relu", "--degree", "20001"], "degree must be at most 20000"),
        (["coefficients", "relu", "--degree", "3", "--digits", "99"], "digits must be an integer from 1 to 15"),
        (["coefficients", "exp", "--degree", "3", "--gain", "20"], "is outside float64"),
        (["coefficients", "relu", "tanh", "--degree", "3"], "unrecognized arguments: tanh"),
        (["list", "relu"], "unrecognized arguments: relu"),
    ],
)
def test_refused(argv: list[str], message: str, shell: Shell) -> None:
    assert message in shell.refused(*argv)


@pytest.mark.parametrize("name", ["text", "markdown", "latex"])
def test_without_tabulate_the_extra_is_named(name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    for argv in (["beta", "relu"], ["coefficients", "relu", "--degree", "2"], ["list"]):
        assert "pip install 'isogram[tables]'" in shell.refused(*argv, "--format", name)


def test_csv_and_json_need_neither_tabulate_nor_pandas(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tabulate", None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert shell.ok("beta", "relu", "--format", "csv").startswith("name,gain,")
    assert json.loads(shell.ok("list", "--format", "json"))[0]["name"] == "identity"
