"""The command line of the room: data on stdout, one line of error on stderr, exit codes 0, 1 and 2."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import bounds
from bounds import CLAIMS, Certificate, Claim, certify
from bounds.__main__ import main

ROOT = Path(bounds.__file__).resolve().parent.parent
COLUMNS = ["label", "function", "status", "source", "statement", "erratum"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # -P: the working folder must not decide which copy of the rooms is found
    code = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); runpy.run_module('bounds', run_name='__main__')"
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0, **rest: Any) -> str:
    assert main(arguments, **rest) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def sum_is_small(x: int, y: int) -> Certificate:
    return certify("sum", "nowhere", x + y, 500, tolerance=0)


FALSE = Claim(
    label="sum",
    statement=r"x + y \le 500",
    function=sum_is_small,
    strategy=lambda: st.tuples(st.integers(0, 1000), st.integers(0, 1000)),
    source="nowhere",
    status="conjecture",
)


# --- list -------------------------------------------------------------------------------------------------


def test_list_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "list")
    blocks = text.rstrip("\n").split("\n\n")
    assert len(blocks) == len(CLAIMS)
    for claim, block in zip(CLAIMS.values(), blocks, strict=True):
        first, statement, source, *erratum = block.splitlines()
        assert first == f"{claim.label}: {claim.function.__name__}, {claim.status}"
        assert statement == f"  {claim.statement}"
        assert source == f"  {claim.source}"
        assert " ".join(line.strip() for line in erratum) == claim.erratum
        assert all(len(line) <= 100 for line in erratum)


def test_list_as_json_and_csv(capsys: pytest.CaptureFixture[str]) -> None:
    records = json.loads(output(capsys, "list", "--format", "json"))
    assert [list(record) for record in records] == [COLUMNS] * len(CLAIMS)
    assert [record["statement"] for record in records] == [claim.statement for claim in CLAIMS.values()]
    assert list(csv.DictReader(io.StringIO(output(capsys, "list", "--format", "csv")))) == records


def test_list_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    head, rule, *rows = output(capsys, "list", "--format", "markdown").splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == COLUMNS
    assert set(rule) <= set("|-:")
    assert len(rows) == len(CLAIMS)
    for row, claim in zip(rows, CLAIMS.values(), strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[0] == claim.label
        assert cells[4] == f"${claim.statement}$"


def test_list_as_latex(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "list", "--format", "latex")
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{llllll}"
    assert lines[-1] == r"\end{tabular}"
    rows = [line for line in lines if line.startswith(r"\texttt")]
    assert len(rows) == len(CLAIMS)
    for row, claim in zip(rows, CLAIMS.values(), strict=True):
        assert rf"\texttt{{{claim.function.__name__}}}".replace("_", r"\_") in row
        assert f" & ${claim.statement}$ & " in row
        assert row.endswith(r"\\")
        # outside of the formula nothing is left that LaTeX would read as mathematics
        outside = row.replace(f"${claim.statement}$", "")
        assert "_" not in outside.replace(r"\_", "")
        assert "^" not in outside.replace(r"\textasciicircum{}", "")


# --- verify -----------------------------------------------------------------------------------------------


def test_verify_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "verify", "theorem-5.1", "lemma-a.4", "--examples", "20", "--seed", "7")
    lines = text.splitlines()
    assert lines[0].startswith("theorem-5.1: HOLDS (20 examples, seed 7: ")
    assert "NOT_APPLICABLE" in lines[0]
    assert lines[1].startswith("  smallest slack ")
    assert lines[2].startswith("    gap_decay(")
    assert any(line.startswith("lemma-a.4: ") for line in lines)
    assert lines[-1] == "2 claims: 2 HOLDS"


def test_verify_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "verify", "--examples", "10", "--format", "json")
    records = json.loads(text)
    assert [record["label"] for record in records] == list(CLAIMS)
    for record in records:
        assert sum(record["counts"].values()) == record["examples"] == 10
        assert set(record["counts"]) == {"HOLDS", "FAILS", "UNDECIDED", "NOT_APPLICABLE"}
        assert record["counterexample"] is None


def test_a_label_given_twice_is_tried_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "verify", "lemma-a.4", "lemma-a.4", "--examples", "3", "--format", "json")
    assert len(json.loads(text)) == 1


def test_output_goes_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "claims.json"
    assert output(capsys, "list", "--format", "json", "--output", str(target)) == ""
    assert len(json.loads(target.read_text(encoding="utf-8"))) == len(CLAIMS)


def interrupt() -> None:
    """Ctrl-C, also where this process was started in the background, and so told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_claim_that_fails_ends_with_1(capsys: pytest.CaptureFixture[str], form: str) -> None:
    claims = {**CLAIMS, FALSE.label: FALSE}
    text = output(capsys, "verify", "lemma-a.4", "sum", "--format", form, code=1, claims=claims)
    assert "FAILS" in text
    assert "sum_is_small(0, 501)" in text or "sum_is_small(501, 0)" in text
    assert output(capsys, "verify", "lemma-a.4", "--examples", "3", claims=claims)
    assert "conjecture" in output(capsys, "list", claims=claims)


# --- what ends a run early --------------------------------------------------------------------------------


def claim_that(act: Callable[[], Any], label: str = "stops") -> Claim:
    def function(x: int) -> Any:
        act()
        return x, x

    return Claim(label=label, statement="x", function=function, strategy=lambda: st.tuples(st.integers()), source="-")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("to_file", [False, True])
def test_ctrl_c_loses_no_finished_claim(
    form: str, to_file: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    claims = {"sum": FALSE, "stops": claim_that(interrupt), "lemma-a.4": FALSE}
    target = tmp_path / "claims.txt"
    arguments = ["verify", "--format", form, *(["--output", str(target)] if to_file else [])]
    text = output(capsys, *arguments, code=130, claims=claims)
    text = target.read_text(encoding="utf-8") if to_file else text
    if form == "json":
        assert [record["label"] for record in json.loads(text)] == ["sum"]
    else:
        assert text.startswith("sum: FAILS (")
        assert text.count("sum: ") == 1
        assert text.endswith("\n1 of 3 claims: 1 FAILS\n")


def test_ctrl_c_before_any_claim_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    claims = {"stops": claim_that(interrupt)}
    assert json.loads(output(capsys, "verify", "--format", "json", code=130, claims=claims)) == []
    assert output(capsys, "verify", code=130, claims=claims) == "0 of 1 claim\n"


def test_an_error_loses_no_finished_claim(capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> None:
        raise ValueError("cannot")

    claims = {"half": claim_that(lambda: None, "half"), "stops": claim_that(act)}
    assert main(["verify"], claims=claims) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("half: HOLDS (50 examples")
    assert captured.out.endswith("\n1 of 2 claims: 1 HOLDS\n")
    assert captured.err == "python -m bounds verify: cannot\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_and_is_wiped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    claims = {"one": claim_that(lambda: None, "one"), "two": claim_that(lambda: None, "two")}
    assert main(["verify", "--examples", "3"], claims=claims) == 0
    seen = screen.getvalue()
    assert "\n" not in seen
    assert [part.strip() for part in seen.split("\r") if part.strip()] == ["1/2 one", "2/2 two"]
    assert seen.endswith(" \r")
    assert capsys.readouterr().out.endswith("2 claims: 2 HOLDS\n")


# --- the process ------------------------------------------------------------------------------------------


def test_the_same_seed_prints_the_same_in_another_process() -> None:
    first, again, other = (run("verify", "--examples", "8", "--seed", seed) for seed in ("3", "3", "4"))
    assert first.returncode == again.returncode == other.returncode == 0
    assert first.stderr == ""
    assert first.stdout == again.stdout
    assert first.stdout.replace("seed 3", "") != other.stdout.replace("seed 4", "")


@pytest.mark.parametrize("label", ["lemma-a.4", "theorem-5.1"])
def test_a_seed_draws_the_same_alone_and_after_other_claims(
    label: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run("verify", label, "--examples", "20").stdout
    *told, _ = alone.splitlines()
    assert told == run("verify", "lemma-a.1", "lemma-a.3", label, "--examples", "20").stdout.splitlines()[-4:-1]
    # nor do modules count that happen to be loaded: hypothesis draws constants that it finds in them
    (tmp_path / "numbers_of_mine.py").write_text(f"ALL = {list(range(100, 256))}")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("numbers_of_mine")
    assert output(capsys, "verify", label, "--examples", "20") == alone


def test_all_claims_are_tried_in_seconds() -> None:
    begun = time.perf_counter()
    done = run("verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(50 examples, seed 0: ") == len(CLAIMS)
    assert time.perf_counter() - begun < 60  # some 20 s where nothing else runs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: list|verify"),
        (["prove"], "'prove'"),
        (["verify", "theorem-9"], f"no claim labelled 'theorem-9'; known: {next(iter(CLAIMS))}, "),
        (["verify", "--examples", "many"], "'many' is not an integer"),
        (["verify", "--examples", "0"], "examples must be an integer >= 1, got 0"),
        (["verify", "--seed=-1"], "seed must be an integer >= 0, got -1"),
        (["verify", "--format", "latex"], "'latex'"),
        (["list", "--format", "html"], "'html'"),
        (["list", "theorem-5.1"], "theorem-5.1"),
        (["list", "--output", "no/such/folder/claims.txt"], "no/such/folder"),
    ],
)
def test_wrong_arguments_are_one_line_on_stderr_and_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as left:
        code = left.code  # type: ignore[assignment]
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("python -m bounds")
    assert message in captured.err


def test_wrong_arguments_end_the_process_with_2() -> None:
    done = run("verify", "theorem-9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["list", "--help"], ["--version"]])
def test_help_and_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 0
    assert capsys.readouterr().out


def test_what_is_printed_is_python(capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(output(capsys, "verify", "lemma-a.4", "--examples", "10", "--format", "json"))[0]
    scope = {"np": np, "determinant_sandwich": bounds.determinant_sandwich}
    certificate = eval(record["tightest"], scope)
    assert record["smallest_slack"] in np.asarray(certificate.slack).tolist()
