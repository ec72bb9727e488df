"""The command line `python -m meanfield`: stdout carries data only, an error is one line on stderr with exit code 2."""

from __future__ import annotations

import doctest
import json
import math
import os
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from _shell import Shell

import meanfield
from hermite.errors import MissingDependencyError
from meanfield import Layer, _dynamics, correlation, input_gram, trajectory
from meanfield import __main__ as cli

COLUMNS = ["layer", "isometry_gap", "error", "log_isometry_gap", "potential", "max_correlation", "status"]


def run(*argv: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A process that sees the very rooms that this one sees, and for which every warning is an error."""
    root = str(Path(meanfield.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root, "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-P", "-m", "meanfield", *argv]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment, timeout=120)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(cli.main, "python -m meanfield", capsys, "iterate")


def equicorrelated(n: int, rho: float) -> Any:
    return np.full((n, n), rho) + (1 - rho) * np.eye(n)


# --- as a process -------------------------------------------------------------------------------------------


def test_a_process_prints_data_on_stdout_and_nothing_else() -> None:
    done = run("iterate", "relu", "--depth", "3", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["layer", "0", "1", "2", "3"]


def test_a_process_prints_an_error_on_stderr_and_nothing_else() -> None:
    done = run("iterate", "no_such_activation")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("python -m meanfield iterate: no activation named 'no_such_activation'")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = run("iterate", "relu", "--format", "csv", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_examples_of_the_documentation_hold() -> None:
    # pytest passes over files named __main__.py
    outcome = doctest.testmod(cli)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("line", [line for line in cli._EXAMPLES.splitlines() if line.startswith("  python")])
def test_the_examples_of_the_help_run(line: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("data.csv", np.random.default_rng(0).standard_normal((6, 9)), delimiter=",")
    command = line.split("        (")[0]
    python, dash_m, room, verb, *argv = shlex.split(command)
    assert [python, dash_m, room] == ["python", "-m", "meanfield"]
    printed = Shell(cli.main, "python -m meanfield", shell.capsys, verb).ok(*argv)
    files = {path.name for path in tmp_path.iterdir()} - {"data.csv"}
    assert files == {word for word in argv if word in ("tanh.csv", "gap.png", "map.png", "band.png")}
    assert (printed == "") == ("tanh.csv" in files)


@pytest.mark.parametrize("argv", [["--help"], ["iterate", "--help"]])
def test_help_shows_options_and_examples(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(argv)
    out, err = capsys.readouterr()
    assert (leaving.value.code, err) == (0, "")
    assert "examples:" in out
    assert "python -m meanfield iterate relu --depth 50" in out


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--version"])
    assert leaving.value.code == 0
    assert capsys.readouterr().out.startswith("isogram ")


# --- what is printed ----------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_trajectory(shell: Shell) -> None:
    rows = shell.rows("gelu", "--depth", "20", "--gain", "0.5", "--n", "6", "--rho", "0.75")
    t = trajectory(Layer("gelu", gain=0.5), equicorrelated(6, 0.75), 20)
    assert list(rows[0]) == COLUMNS
    assert [row["layer"] for row in rows] == [str(l) for l in range(21)]
    assert [row["status"] for row in rows] == list(t.status)
    for name in ("isometry_gap", "log_isometry_gap", "potential", "max_correlation"):
        printed = np.array([float(row[name]) for row in rows])
        assert np.allclose(printed, getattr(t, name), rtol=3e-12, atol=0), name
    # rounded up to two digits
    errors = np.array([float(row["error"]) for row in rows])
    assert np.all(errors >= t.isometry_gap_error)
    assert np.all(errors <= 1.1 * t.isometry_gap_error)


def half_unit(text: str) -> Decimal:
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(5).scaleb(exponent - 1)


@pytest.mark.parametrize("rho", ["1/2", "0.999999", "0.001"])
def test_no_digit_is_printed_beyond_its_error(rho: str, shell: Shell) -> None:
    """Each printed decimal is within one unit of its last place of the value at 60 digits (sign: f = 2/pi asin)."""
    rows = shell.rows("sign", "--n", "2", "--rho", rho, "--depth", "25")
    with mp.workdps(60):
        # 1/2, 0.999999 and 0.001 become floats first
        largest = mp.mpf(float(mp.mpf(1) / 2 if rho == "1/2" else mp.mpf(rho)))
        for row in rows:
            gap = -mp.log(1 - largest**2) / 2
            wanted = {
                "isometry_gap": gap, "log_isometry_gap": mp.log(gap), "potential": largest / (1 - largest),
                "max_correlation": largest,
            }  # fmt: skip
            for name, value in wanted.items():
                off = abs(mp.mpf(row[name]) - value)
                assert off <= 2 * mp.mpf(str(half_unit(row[name]))), (name, row, value)
            largest = 2 * mp.asin(largest) / mp.pi


def test_the_defaults_are_ten_inputs_at_one_half_and_fifty_layers(shell: Shell) -> None:
    default = shell.ok("tanh")
    assert default == shell.ok("tanh", "--n", "10", "--rho", "0.5", "--depth", "50", "--gain", "1", "--format", "text")
    assert len(default.splitlines()) == 53
    assert default.splitlines()[0].split() == COLUMNS


def test_every_format_carries_the_same_numbers(shell: Shell) -> None:
    argv = ["sin", "--depth", "4", "--digits", "8"]
    rows = shell.rows(*argv)
    read = json.loads(shell.ok(*argv, "--format", "json"))
    assert [list(record) for record in read] == [COLUMNS] * 5
    for row, record in zip(rows, read, strict=True):
        assert all(float(row[name]) == record[name] for name in COLUMNS[:-1])
        assert row["status"] == record["status"]
    text, markdown, latex = (shell.ok(*argv, "--format", each) for each in ("text", "markdown", "latex"))
    for l, row in enumerate(rows):
        assert text.splitlines()[2 + l].split() == list(row.values())
        assert [cell.strip() for cell in markdown.splitlines()[2 + l].strip("|").split("|")] == list(row.values())
        assert f"${row['isometry_gap']}$" in latex


def test_digits_limit_what_is_printed(shell: Shell) -> None:
    assert shell.rows("relu", "--depth", "0", "--digits", "3")[0]["isometry_gap"] == "0.453"
    assert len(shell.rows("relu", "--depth", "0")[0]["isometry_gap"]) >= 15
    assert "0.453358 " in shell.ok("relu", "--depth", "0")


def test_infinities_are_words_and_absent_gaps_are_empty(shell: Shell) -> None:
    argv = ["relu", "--n", "3", "--rho", "1", "--depth", "2"]
    for row in shell.rows(*argv):
        assert row["isometry_gap"] == row["log_isometry_gap"] == row["potential"] == "inf"
        assert (row["error"], row["max_correlation"], row["status"]) == ("0", "1.00000000000000", "singular")
    record = json.loads(shell.ok(*argv, "--format", "json"))[0]
    assert float(record["isometry_gap"]) == math.inf
    alone = shell.rows("relu", "--n", "1", "--depth", "1")
    assert [(row["isometry_gap"], row["log_isometry_gap"], row["potential"]) for row in alone] == [
        ("0", "-inf", "0")
    ] * 2


def test_inputs_an_ulp_apart_have_digits(shell: Shell) -> None:
    """1 - rho = 1e-15 would be lost in the first map of rho; it is carried as a distance."""
    rows = shell.rows("relu", "--n", "2", "--rho", "0.999999999999999", "--depth", "3")
    assert {row["status"] for row in rows} == {"resolved"}
    t = trajectory(Layer("relu"), equicorrelated(2, 0.999999999999999), 3)
    for row, gap, odds in zip(rows, t.isometry_gap, t.potential, strict=True):
        assert float(row["isometry_gap"]) == pytest.approx(gap, rel=1e-6)
        assert float(row["potential"]) == pytest.approx(odds, rel=1e-6)


def test_gaps_below_the_range_of_float64_keep_their_logarithm(shell: Shell) -> None:
    row = shell.rows("sign", "--n", "2", "--depth", "1000", "--every", "1000")[-1]
    assert row["isometry_gap"] == "0"
    t = trajectory(Layer("sign"), equicorrelated(2, 0.5), 1000)
    assert float(row["log_isometry_gap"]) == pytest.approx(float(t.log_isometry_gap[-1]), rel=1e-11)


@pytest.mark.parametrize(
    ("depth", "every", "shown"),
    [(50, 10, [0, 10, 20, 30, 40, 50]), (7, 3, [0, 3, 6, 7]), (5, 9, [0, 5]), (3, 1, [0, 1, 2, 3]), (0, 4, [0])],
)
def test_every_leaves_layers_out_but_never_the_last(depth: int, every: int, shown: list[int], shell: Shell) -> None:
    some = shell.rows("relu", "--depth", str(depth), "--every", str(every))
    assert [int(row["layer"]) for row in some] == shown
    whole = shell.rows("relu", "--depth", str(depth))
    assert some == [whole[l] for l in shown]


def test_many_inputs_have_gaps_at_some_layers_unless_more_are_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dynamics, "ALL_LAYERS_UP_TO", 4)
    argv = ["relu", "--n", "5", "--depth", "60"]
    rows = shell.rows(*argv)
    absent = [row for row in rows if not row["isometry_gap"]]
    assert len(absent) > 20
    assert {(row["error"], row["log_isometry_gap"], row["status"]) for row in absent} == {("", "", "")}
    assert all(row["potential"] for row in rows)
    assert rows[-1]["isometry_gap"]
    assert all(row["isometry_gap"] for row in shell.rows(*argv, "--every", "1"))


def test_output_goes_to_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    printed = shell.ok("relu", "--depth", "2", "--format", "csv")
    assert shell.ok("relu", "--depth", "2", "--format", "csv", "--output", str(file)) == ""
    assert file.read_text(encoding="utf-8") == printed


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_plot_is_drawn_beside_the_table(suffix: str, magic: bytes, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / f"gap{suffix}"
    assert shell.ok("relu", "--depth", "2", "--plot", str(file)) == shell.ok("relu", "--depth", "2")
    assert file.read_bytes().startswith(magic)


# --- where to start -----------------------------------------------------------------------------------------


def test_random_inputs_are_gaussian_and_reproducible(shell: Shell) -> None:
    argv = ["relu", "--random", "8", "20", "--depth", "5"]
    first = shell.ok(*argv, "--seed", "7")
    assert first == shell.ok(*argv, "--seed", "7")
    assert first != shell.ok(*argv, "--seed", "8")
    assert shell.ok(*argv) == shell.ok(*argv, "--seed", "0")
    X = np.random.default_rng(7).standard_normal((8, 20))
    t = trajectory(Layer("relu"), input_gram(X), 5)
    assert shell.column("isometry_gap", *argv, "--seed", "7") == pytest.approx(t.isometry_gap.tolist(), rel=1e-11)


@pytest.mark.parametrize("kind", ["npy", "txt", "csv", "comments", "bom"])
def test_files_hold_inputs_or_a_gram_matrix(kind: str, shell: Shell, tmp_path: Path) -> None:
    X = np.random.default_rng(1).standard_normal((5, 9)) * [[1], [20], [0.3], [4], [1]]
    file = tmp_path / ("data.npy" if kind == "npy" else "data.csv" if kind == "csv" else "data.dat")
    for option, matrix, start in [("--inputs", X, input_gram(X)), ("--gram", X @ X.T, correlation(X @ X.T))]:
        if kind == "npy":
            np.save(file, matrix)
        else:
            lines = "\n".join(("," if kind == "csv" else " ").join(repr(float(v)) for v in row) for row in matrix)
            head = "# rows are inputs\n\n" if kind == "comments" else "\ufeff" if kind == "bom" else ""
            file.write_text(head + lines + "\n", encoding="utf-8")
        t = trajectory(Layer("tanh"), start, 3)
        gaps = shell.column("isometry_gap", "tanh", option, str(file), "--depth", "3")
        assert gaps == pytest.approx(t.isometry_gap.tolist(), rel=1e-11)


def test_one_row_is_one_input(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("1,2,4\n")
    assert shell.column("isometry_gap", "tanh", "--inputs", str(file), "--depth", "1") == [0.0, 0.0]


@pytest.mark.parametrize(
    ("n", "rho", "status"), [("5", "-1/4", "singular"), ("2", "-1", "singular"), ("3", "-0.4", "resolved")]
)
def test_negative_correlations_go_down_to_what_n_inputs_can_have(n: str, rho: str, status: str, shell: Shell) -> None:
    rows = shell.rows("relu", "--n", n, f"--rho={rho}", "--depth", "1")
    assert [row["status"] for row in rows] == [status, "resolved"]


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "required: iterate"),
        ("iterate", "required: ACTIVATION"),
        ("improve relu", "invalid choice: 'improve'"),
        ("iterate relu tanh", "unrecognized arguments: tanh"),
        ("iterate nope", "no activation named 'nope'"),
        ("iterate 'x +* 2'", "x +* 2"),
        ("iterate '__import__(1)'", "__import__"),
        ("iterate 1/2", "constant"),
        ("iterate 1/x", "not square-integrable"),
        ("iterate 'log(abs(x))'", "not available to 1e-14"),
        ("iterate relu --gain 0", "gain must not be 0"),
        ("iterate relu --gain nan", "'nan' is not a number"),
        ("iterate relu --depth -1", "depth must be a non-negative integer, got -1"),
        ("iterate relu --depth 2.5", "'2.5' is not an integer"),
        ("iterate relu --dep 3", "unrecognized arguments: --dep"),
        ("iterate relu --n 0", "--n must be at least 1, got 0"),
        ("iterate relu --n 99999999", "allocate"),
        ("iterate relu --rho 1.5", "--rho must lie in [-1/(n - 1), 1] for n=10, got 3/2"),
        ("iterate relu --n 4 --rho -0.34", "--rho must lie in [-1/(n - 1), 1] for n=4"),
        ("iterate relu --n 1 --rho -2", "--rho must lie in"),
        ("iterate relu --every 0", "--every must be at least 1, got 0"),
        ("iterate relu --digits 16", "digits must be an integer from 1 to 15"),
        ("iterate relu --format yaml", "invalid choice: 'yaml'"),
        ("iterate relu --random 3", "expected 2 arguments"),
        ("iterate relu --random 3 1", "--random needs at least 1 input of 2 features, got 3 1"),
        ("iterate relu --random 0 9", "--random needs at least 1 input of 2 features, got 0 9"),
        ("iterate relu --random 3 4 --seed -1", "--seed must not be negative, got -1"),
        ("iterate relu --seed 3", "--seed 3 goes with --random"),
        ("iterate relu --random 3 4 --gram G.npy", "not allowed with argument"),
        ("iterate relu --random 3 4 --rho 0", "--rho sets equal correlations and cannot go with --random"),
        ("iterate relu --n 3 --gram G.npy", "--n sets equal correlations and cannot go with --gram"),
        ("iterate relu --gram missing.npy", "missing.npy"),
        ("iterate relu --inputs .", "directory"),
        ("iterate relu --depth 1 --output missing/out.csv", "missing"),
        ("iterate relu --depth 1 --plot missing/out.png", "missing"),
        ("iterate relu --depth 1 --plot out.xyz", "xyz"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    argv: str, message: str, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in shell.refused(*shlex.split(argv))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no number in it"),
        (b"# only a comment\n", "no number in it"),
        (b"a,b\n1,2\n", "could not convert"),
        (b"1,2,3\n4,5\n", "columns"),
        (b"1,nan\nnan,1\n", "finite"),
        (b"\x89PNG\r\n\x1a\n\x00", "decode"),
        (b"5,5,5\n1,2,3\n", "constant over its features"),
    ],
)
def test_a_file_that_holds_no_inputs_is_named(content: bytes, message: str, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(content)
    said = shell.refused("iterate", "relu", "--inputs", str(file))
    assert message in said
    assert f"--inputs {file}" in said


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 2.0], [2.0, 1.0]], "no Gram matrix"),
        ([[1.0, 0.2], [0.5, 1.0]], "symmetric"),
        ([[1.0, 0.2, 0.1], [0.5, 1.0, 0.3]], "shape"),
        ([[0.0, 0.0], [0.0, 1.0]], "diagonal 0"),
        ([1.0, 2.0], "shape"),
        ([["a"]], "real numbers"),
    ],
)
def test_a_file_that_holds_no_gram_matrix_is_named(matrix: Any, message: str, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "G.npy"
    np.save(file, np.array(matrix))
    said = shell.refused("iterate", "relu", "--gram", str(file))
    assert message in said
    assert f"--gram {file}" in said


@pytest.mark.parametrize("content", [b"", b"1 2\n3 4\n", b"\x93NUMPY\x01\x00"])
def test_a_npy_file_that_is_none_is_named(content: bytes, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "G.npy"
    file.write_bytes(content)
    assert f"--gram {file}" in shell.refused("iterate", "relu", "--gram", str(file))


def test_a_npy_file_of_objects_is_not_unpickled(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "G.npy"
    np.save(file, np.array([[1, None]], dtype=object), allow_pickle=True)
    assert "allow_pickle" in shell.refused("iterate", "relu", "--gram", str(file))


@pytest.mark.parametrize(
    ("package", "extra", "argv"),
    [
        ("tabulate", "tables", ["--format", "text"]),
        ("tabulate", "tables", ["--format", "markdown"]),
        ("matplotlib.figure", "plot", ["--format", "csv", "--plot", "gap.png"]),
    ],
)
def test_without_an_optional_package_the_error_names_its_extra(
    package: str, extra: str, argv: list[str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert issubclass(MissingDependencyError, ImportError)
    assert f"isogram[{extra}]" in shell.refused("iterate", "relu", "--depth", "1", *argv)
    assert len(shell.rows("relu", "--depth", "1")) == 2
    assert len(json.loads(shell.ok("relu", "--depth", "1", "--format", "json"))) == 2
    assert list(tmp_path.iterdir()) == []


def test_progress_shows_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, and once a run takes more than two seconds, which a slow clock pretends."""
    now = iter(range(1000))
    monkeypatch.setattr(_dynamics, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    argv = ["iterate", "relu", "--depth", "6", "--format", "csv"]
    assert cli.main(argv) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert cli.main(argv) == 0
    shown = capsys.readouterr()
    assert shown.out == quiet.out
    assert shown.err.endswith("\rlayer 6/6\n")
