"""The README's Python examples run as they stand, and what it points at exists."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def test_examples_print_what_the_readme_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "README.md", str(README), 0)
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert result.attempted >= 10
    assert result.failed == 0


def test_both_commands_come_first() -> None:
    screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:40])
    assert "make demo" in screen
    assert "make test" in screen
    assert "pytest" in screen
