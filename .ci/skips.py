"""Which tests were skipped in every stage of a CI run; all but those marked `cuda` are an error.

    python .ci/skips.py REPORT.json ...

A report is what `tests/conftest.py` writes for one pytest run: for each outcome the node ids of its tests.
A test may be skipped in one stage if another ran it. A test file that was skipped as a whole
(`pytest.importorskip`) counts as run if any of its tests ran elsewhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def skipped_everywhere(reports: list[dict[str, list[str]]]) -> tuple[list[str], list[str]]:
    """Node ids skipped in all of the reports: (those that may be, those that may not)."""
    ran = {node for report in reports for outcome in ("passed", "failed") for node in report[outcome]}
    ran |= {node.split("::")[0] for node in ran}
    skipped = {node for report in reports for node in report["skipped"]} - ran
    cuda = {node for report in reports for node in report["cuda"]}
    return sorted(skipped & cuda), sorted(skipped - cuda)


def main(paths: list[str]) -> int:
    """Print the counts; 1 if a test failed, if none ran, or if one ran nowhere that is not marked cuda."""
    if not paths:
        print("usage: python .ci/skips.py REPORT.json ...", file=sys.stderr)
        return 2
    reports = []
    for path in paths:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        reports.append(report)
        counts = ", ".join(f"{len(report[outcome])} {outcome}" for outcome in ("passed", "failed", "skipped"))
        print(f"  {Path(path).stem:12} {counts}")
        for node in report["skipped"]:
            print(f"    skipped: {node}")
    allowed, forbidden = skipped_everywhere(reports)
    for node in forbidden:
        print(f"skipped in every stage, though not marked cuda: {node}", file=sys.stderr)
    failed = {node for report in reports for node in report["failed"]}
    passed = {node for report in reports for node in report["passed"]} - failed
    print("each test counted once, as skipped only where no stage ran it:")
    print(f"tests: {len(passed)} passed, {len(failed)} failed, {len(allowed) + len(forbidden)} skipped")
    return 1 if forbidden or failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
