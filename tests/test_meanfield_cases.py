"""Public fault reports about iterations, by case id: the answers stand in tests/reference/cases.jsonl.

The last test sees that no case of the kinds treated so far has been left out by the other files either.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bounds import Verdict, gap_decay
from meanfield import Layer, potential, trajectory

HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (HERE / "reference" / "cases.jsonl").read_text().splitlines())
}


@pytest.mark.parametrize("layers", ["30", "100"])
def test_mf_01_no_noise_floor(layers: str) -> None:
    """exp from 1/2: the entry after 100 layers is 3.5e-24, where the difference of duals says 1.9e-16."""
    layer = Layer("exp")
    t = trajectory(layer, [[1.0, 0.5], [0.5, 1.0]], int(layers))
    # the error of each layer is about an ulp, and adds up like a random walk
    assert t.gram[0, 1] == pytest.approx(float(CASES["mf-01"]["expect"][layers]), rel=5e-14, abs=0)
    ratios = t.potential[1:] / t.potential[:-1]
    assert np.all(ratios <= (1 + 1e-14) / layer.isometry_strength)


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "exp"])
def test_mf_04_duplicate_inputs(name: str) -> None:
    """gamma inf, gap inf, the entry 1 exactly after ten layers, the theorem vacuous; no warning, no nan."""
    G0 = np.array([[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]])
    t = trajectory(Layer(name), G0, 10)
    assert np.all(t.isometry_gap == math.inf)
    assert np.all(t.potential == math.inf)
    assert np.all(t.isometry_gap_error == 0)
    assert set(t.status) == {"singular"}
    assert t.gram[0, 1] == 1.0
    assert potential(G0) == math.inf
    certificate = gap_decay(Layer(name), G0, 10)
    assert certificate.verdict is Verdict.NOT_APPLICABLE
    assert certificate.false_hypotheses == ("det G0 > 0",)
    assert not np.any(np.isnan(certificate.lhs))


def test_dual_02_a_correlation_an_ulp_beyond_one() -> None:
    relu, above = Layer("relu"), 1.0000000000000002
    assert relu.map(above) == 1.0
    assert relu.map(-above) == pytest.approx(-1 / (math.pi - 1), rel=4e-16, abs=0)
    with pytest.raises(ValueError, match=r"rho must lie in \[-1, 1\], got 1.1"):
        relu.map(1.1)


def test_every_case_of_the_kinds_treated_so_far_has_its_test() -> None:
    kinds = ("sym", "her", "quad", "beta", "act", "gram", "mf", "hyp")
    wanted = {i for i in CASES if i.split("-")[0] in kinds}
    asked = [path for path in sorted(HERE.glob("test_*.py")) if path.name != "test_hermite_cases.py"]
    # there the ids of cases that are asked elsewhere are listed too
    checked = re.findall(r'@case\("([\w-]+)"\)', (HERE / "test_hermite_cases.py").read_text(encoding="utf-8"))
    texts = " ".join([*checked, *(path.read_text(encoding="utf-8") for path in asked)])
    missing = {i for i in wanted if i not in texts and i.replace("-", "_") not in texts}
    assert not missing
