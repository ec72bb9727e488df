"""The distribution: metadata, extras, what the wheel and the sdist hold, and the accounts that CI keeps."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOMS = ("hermite", "meanfield", "bounds")
ROOT = Path(__file__).resolve().parent.parent
CORE = {"numpy", "scipy", "sympy", "mpmath", "hypothesis"}
# None: the tools change with their fashion, only the extra's name is promised
EXTRAS: dict[str, set[str] | None] = {
    "rigor": {"python-flint"},
    "fast": {"numba", "gmpy2"},
    "torch": {"torch"},
    "plot": {"matplotlib"},
    "tables": {"pandas", "tabulate", "pyarrow"},
    "dask": {"dask"},
    "demo": {"scikit-learn", "matplotlib"},
    "notebooks": None,
    "docs": None,
    "test": None,
    "all": {"isogram"},
}


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def distribution(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return found[0].lower()


def requirements(extra: str) -> set[str]:
    """Distributions that an extra asks for, those of the extras that it names included."""
    found = set()
    for requirement in project()["optional-dependencies"][extra]:
        inner = re.match(r"isogram\[(.*)\]", requirement)
        found |= set().union(*map(requirements, inner[1].split(","))) if inner else {distribution(requirement)}
    return found


# --- names and versions -----------------------------------------------------------------------------------


def test_the_rooms_are_ours_and_lie_together() -> None:
    # Two dormant projects on PyPI bring import packages `bounds` and `meanfield`: installed after this one,
    # they overwrite files without a word. One private file of each room tells whose the room is.
    places = {room: Path(str(importlib.import_module(room).__file__)).parent for room in ROOMS}
    for room, file in (("hermite", "_dual.py"), ("meanfield", "_gram.py"), ("bounds", "_certificate.py")):
        assert (places[room] / file).is_file(), f"{places[room]} is not the room of isogram: reinstall isogram"
        assert (places[room] / "py.typed").is_file()
    assert len({place.parent for place in places.values()}) == 1


def installed() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution("isogram")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("isogram is not installed in this environment: run the tests by `make test`")


def test_the_installed_metadata_is_that_of_pyproject() -> None:
    found = installed()
    assert found.metadata["Name"] == project()["name"] == "isogram"
    assert found.version == project()["version"]
    assert set(found.metadata.get_all("Provides-Extra") or []) == set(EXTRAS)
    assert found.metadata["Requires-Python"] == project()["requires-python"] == ">=3.11"


def test_changelog_and_citation_speak_of_this_version() -> None:
    version = project()["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in changelog
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    coming = re.findall(r"^The next release is (\d+\.\d+\.\d+)\.$", changelog, re.MULTILINE)
    assert version in [*released[:1], *coming]
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE) == [
        version
    ]


def test_licence() -> None:
    assert project()["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License\n")


# --- dependencies -----------------------------------------------------------------------------------------


def test_core_dependencies() -> None:
    assert {distribution(each) for each in project()["dependencies"]} == CORE
    # with >=1.13 some resolvers choose a release candidate of 1.13
    assert "sympy>=1.14" in project()["dependencies"]


def test_extras_are_those_promised() -> None:
    extras = project()["optional-dependencies"]
    assert set(extras) == set(EXTRAS)
    for name, promised in EXTRAS.items():
        assert promised is None or {distribution(each) for each in extras[name]} == promised, name


def test_versions_are_bounded_below_only() -> None:
    every = [
        *project()["dependencies"],
        *(each for extra in project()["optional-dependencies"].values() for each in extra),
    ]
    for requirement in every:
        assert re.fullmatch(r"isogram\[[a-z,]+\]|[a-z0-9-]+(\[[a-z,]+\])?>=[0-9.]+", requirement), requirement


def test_all_is_everything_but_torch() -> None:
    everything = set().union(*(requirements(extra) for extra in EXTRAS if extra not in ("all", "torch")))
    assert requirements("all") == everything


def test_only_the_extra_torch_brings_torch() -> None:
    bringers = re.compile(r"torch|nvidia|cuda|jax|tensorflow")
    assert {extra for extra in EXTRAS if any(map(bringers.search, requirements(extra)))} == {"torch"}


# --- what is shipped --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names in the wheel and in the sdist, by the suffix of the archive."""
    if not all((ROOT / room).is_dir() for room in ROOMS):
        pytest.skip("these tests were copied away from the sources, so there is nothing to build")
    out = tmp_path_factory.mktemp("dist")
    run = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", out, ROOT], capture_output=True, text=True, cwd=out
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        # the first part of each name is the folder isogram-VERSION
        inside = {member.name.partition("/")[2] for member in archive.getmembers()}
    return {".whl": set(zipfile.ZipFile(wheel).namelist()), ".tar.gz": inside}


@pytest.mark.slow
def test_the_wheel_holds_the_three_rooms_and_nothing_else(built: dict[str, set[str]]) -> None:
    files = {name for name in built[".whl"] if ".dist-info/" not in name}
    on_disk = {path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in (".py", ".typed")}
    assert files == {path.relative_to(ROOT).as_posix() for path in on_disk}
    assert {f"{room}/py.typed" for room in ROOMS} <= files
    about = {name.partition("/")[2] for name in built[".whl"] - files}
    assert {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"} <= about


@pytest.mark.slow
def test_the_sdist_holds_sources_only(built: dict[str, set[str]]) -> None:
    allowed = {*ROOMS, "tests", "benchmarks", "examples", "notebooks", "docs", ".ci"}
    allowed |= {
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "LICENSE",
        "pyproject.toml",
        ".gitignore",
    }
    names = built[".tar.gz"]
    assert {name.split("/")[0] for name in names} <= allowed | {"PKG-INFO"}
    assert {
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "tests/conftest.py",
        ".ci/run",
        "hermite/py.typed",
    } <= names
    strays = re.compile(r"__pycache__|\.py[cod]$|\.(hypothesis|venv|import_linter_cache|ipynb_checkpoints)")
    assert not [name for name in names if strays.search(name)]


# --- how the tests are run --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "examples", "derandomized"),
    [
        ({}, 50, False),
        ({"CI": "true"}, 200, True),
        ({"ISOGRAM_HYPOTHESIS_PROFILE": "ci"}, 200, True),
        ({"ISOGRAM_HYPOTHESIS_PROFILE": "thorough", "CI": "true"}, 5000, False),
    ],
)
def test_property_tests_run_under_the_profile_asked_for(
    environment: dict[str, str], examples: int, derandomized: bool
) -> None:
    clean = {key: value for key, value in os.environ.items() if key not in ("CI", "ISOGRAM_HYPOTHESIS_PROFILE")}
    conftest = str(Path(__file__).with_name("conftest.py"))
    code = f"""
import runpy, hypothesis
runpy.run_path({conftest!r})
print(hypothesis.settings().max_examples, hypothesis.settings().derandomize, hypothesis.settings().deadline)
"""
    run = subprocess.run([sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True)
    assert run.stdout.split() == [str(examples), str(derandomized), "None"], run.stderr


# --- the accounts that CI keeps ---------------------------------------------------------------------------

PLANTED = """
import pytest

def test_passes(): pass
@pytest.mark.skip(reason="planted")
def test_skips(): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.cuda
@pytest.mark.skipif(True, reason="planted")
def test_gpu(): pass
"""


def account(folder: Path, name: str, text: str, *options: str) -> Path:
    """The report of one small pytest run over the text, under the project's own conftest."""
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_planted.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    cuda: planted\n")
    report = folder.parent / f"{name}.json"
    quiet = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    subprocess.run(command, cwd=folder, capture_output=True, env=quiet | {"ISOGRAM_TEST_REPORT": str(report)})
    return report


def settle(*reports: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / ".ci" / "skips.py", *reports], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "workers"])
def test_a_test_skipped_in_every_stage_fails_ci(options: tuple[str, ...], tmp_path: Path) -> None:
    first = account(tmp_path / "stage", "first", PLANTED, *options)
    nodes = json.loads(first.read_text(encoding="utf-8"))
    test = "test_planted.py::test_{}".format
    assert nodes["passed"] == [test("expected"), test("passes")]
    assert nodes["skipped"] == [test("gpu"), test("skips")]
    assert nodes["cuda"] == [test("gpu")]

    alone = settle(first)
    assert alone.returncode == 1
    assert alone.stderr.splitlines() == [f"skipped in every stage, though not marked cuda: {test('skips')}"]
    assert "tests: 2 passed, 0 failed, 2 skipped" in alone.stdout

    second = account(tmp_path / "stage", "second", PLANTED.replace('@pytest.mark.skip(reason="planted")', ""), *options)
    both = settle(first, second)
    assert (both.returncode, both.stderr) == (0, "")
    assert "tests: 3 passed, 0 failed, 1 skipped" in both.stdout


@pytest.mark.slow
def test_a_file_skipped_in_every_stage_fails_ci(tmp_path: Path) -> None:
    absent = "import pytest\npytest.importorskip('no_such_module')\ndef test_inside(): pass"
    first = account(tmp_path / "stage", "first", absent)
    assert json.loads(first.read_text(encoding="utf-8"))["skipped"] == ["test_planted.py"]
    assert "marked cuda: test_planted.py" in settle(first).stderr
    second = account(tmp_path / "stage", "second", "def test_inside(): pass")
    assert settle(first, second).returncode == 0


def report(path: Path, **nodes: list[str]) -> Path:
    path.write_text(json.dumps({"passed": [], "failed": [], "skipped": [], "cuda": []} | nodes))
    return path


def test_ci_fails_if_nothing_ran_or_something_failed(tmp_path: Path) -> None:
    assert settle(report(tmp_path / "empty.json")).returncode == 1
    assert settle(report(tmp_path / "failed.json", passed=["a"], failed=["b"])).returncode == 1
    assert settle(report(tmp_path / "passed.json", passed=["a"])).returncode == 0
    assert settle().returncode == 2
