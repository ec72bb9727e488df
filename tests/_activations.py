"""The entries of tests/reference/activations.json, and what each is called here (the others go by their own name)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA: dict[str, Any] = json.loads((Path(__file__).parent / "reference" / "activations.json").read_text())["activations"]
SPECS = {
    "he2": "hermite_polynomial",
    "he3": "He(3, x)",
    "leaky_relu_0.01": "leaky_relu",
    "rect": "(1 if x > -0.2 else 0) if x < 0.5 else 0",
    "hardshrink_0.5": "hardshrink",
    "hard_tanh": "hard_tanh",
    "hard_sigmoid": "hard_sigmoid",
    "softshrink_0.5": "softshrink",
    "relu_shift_1": "relu(x - 1)",
    "elu_1": "elu",
    "celu_2": "celu(x, alpha=2)",
    "sqrt_abs": "sqrt(abs(x))",
}
