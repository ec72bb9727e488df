"""Public fault reports about Gaussian moments, Hermite polynomials and activations: the right answer, by case id.

The answers are read from tests/reference/cases.jsonl; here stands only how the question is asked.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import hermite
from hermite.errors import ConstantActivationError, NotSquareIntegrableError

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}

# asked of another room, of another number system, or of torch
ELSEWHERE = {
    "her-07": "Hermite polynomials of torch",
    "quad-07": "30 digits of a callable: test_hermite_multiprecision_callables.py",
    "quad-13": "a fixed point of the variance map, and the edge of chaos",
    "quad-15": "30 digits of tanh-GELU: test_hermite_multiprecision.py",
    "quad-16": "precision of mpmath is scoped: test_hermite_multiprecision.py",
    "sym-03": "an integral that is no expectation: test_hermite_sympy_input.py",
    "sym-06": "an integral with a symbol: test_hermite_symbolic.py",
}
ELSEWHERE |= {i: "Gram matrices and their functionals" for i in CASES if i.startswith(("gram", "hyp"))}
ELSEWHERE |= {i: "layers and their iteration" for i in CASES if i.startswith("mf")}
ELSEWHERE |= {i: "finite networks and torch" for i in CASES if i.startswith("tor")}

CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {}


def case(name: str) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    def register(check: Callable[[dict[str, Any]], None]) -> None:
        assert name not in CHECKS
        CHECKS[name] = check

    return register


def same(found: float, wanted: str | float, relative: float = 1e-15) -> None:
    """To the last digits of float64: 1e-15 is the promise, of which a division or square root takes some more."""
    exact = float(mp.mpf(wanted))
    assert abs(found - exact) <= 4 * relative * max(abs(exact), 1e-300), (found, wanted)


# ---- symbolic trouble that the float64 verbs do not have ------------------------------------------------------


@case("sym-01")
def _(e: dict[str, Any]) -> None:
    product = "heaviside(x - 1/3)*heaviside(2/3 - x)*heaviside(x)*heaviside(1 - x)"
    same(hermite.expectation(product), e["E_sigma"])
    assert len(hermite.activation(product).pieces) == 3


@case("sym-07")
def _(e: dict[str, Any]) -> None:
    started = time.process_time()
    same(hermite.expectation("Phi(x - 0.7)"), e["at a=0.7"])
    assert time.process_time() - started < 5


@case("sym-10")
def _(e: dict[str, Any]) -> None:
    same(hermite.expectation("1 + heaviside(x - 0.5)"), e["E_sigma"])
    same(hermite.coefficients("1 + heaviside(x - 0.5)", 0)[0], e["E_sigma"])


@case("sym-11")
def _(e: dict[str, Any]) -> None:
    same(hermite.coefficients("tanh", 1)[1], e["tanh c_1"])
    same(hermite.second_moment("tanh"), e["tanh E sigma^2"])
    same(hermite.isometry_strength("tanh"), e["tanh beta"])
    same(hermite.coefficients("logistic", 0)[0], 0.5)
    same(hermite.isometry_strength("logistic"), e["logistic beta"])
    c = hermite.coefficients("softplus", 1)
    same(c[0], e["softplus c_0"])
    same(c[1], 0.5)
    same(hermite.isometry_strength("softplus"), e["softplus beta"])


@case("sym-14")
def _(e: dict[str, Any]) -> None:
    for spec in ("hardtanh", "max(-1, min(1, x))", lambda x: np.clip(x, -1, 1)):
        same(hermite.second_moment(spec), e["E sigma^2"])
        same(hermite.coefficients(spec, 1)[1], e["c_1"])
        same(hermite.isometry_strength(spec), e["beta"])


@case("sym-15")
def _(e: dict[str, Any]) -> None:
    same(hermite.expectation("exp(x**2/4)"), math.sqrt(2))
    for verb in (hermite.second_moment, hermite.variance, hermite.isometry_strength, hermite.moments):
        with pytest.raises(NotSquareIntegrableError, match=r"not square-integrable under N\(0, 1\)"):
            verb("exp(x**2/4)")


@case("sym-16")
def _(e: dict[str, Any]) -> None:
    for k, x in ((60, 6.0), (100, 3.0)):
        assert hermite.polynomials(x, k)[k] == pytest.approx(float(e[f"h_{k}({x:.0f})"]), rel=float(e["rtol"]))
        assert hermite.activation(f"He({k}, x)")(x) == pytest.approx(float(e[f"h_{k}({x:.0f})"]), rel=float(e["rtol"]))


@case("sym-17")
def _(e: dict[str, Any]) -> None:
    for spec in ("3", lambda x: 3, "0*x + 3"):
        assert str(hermite.activation(spec)(np.zeros(5)).shape) == e["shape"]


@case("sym-18")
def _(e: dict[str, Any]) -> None:
    for value, wanted in zip(hermite.activation("erf")([1, 2]), e["erf([1,2])"], strict=True):
        same(float(value), wanted)


# ---- Hermite polynomials --------------------------------------------------------------------------------------


@case("her-01")
def _(e: dict[str, Any]) -> None:
    same(hermite.second_moment("hermite_polynomial"), e["E h_2^2"])
    same(hermite.polynomials(1.5, 2)[2], e["h_2(1.5)"])


@case("her-03")
def _(e: dict[str, Any]) -> None:
    for k in (200, 400):
        assert hermite.polynomials(1.5, k)[k] == pytest.approx(float(e[f"h_{k}(1.5)"]), rel=float(e["rtol"]))


@case("her-05")
def _(e: dict[str, Any]) -> None:
    x, slope = -12.985884455415558, 3.1089389127043e18
    found = float(hermite.polynomials(x, 50)[50])
    assert abs(found - float(e["value"])) <= 4 * math.ulp(x) * slope


@case("her-06")
def _(e: dict[str, Any]) -> None:
    for degree in (-2, 1.5):
        with pytest.raises(ValueError, match="non-negative integer"):
            hermite.polynomials(1.0, degree)  # type: ignore[arg-type]
    assert np.isnan(hermite.polynomials(np.nan, 0)[0])


# ---- quadrature -----------------------------------------------------------------------------------------------


@case("quad-01")
def _(e: dict[str, Any]) -> None:
    for n in (400, 1000):
        x, w = hermite.gauss_hermite(n)
        assert w.sum() == pytest.approx(float(e["sum"]), rel=float(e["rtol"]))
        assert w @ x**4 == pytest.approx(float(e["m4"]), rel=float(e["rtol"]))
    assert "exactly 0" in (hermite.gauss_hermite.__doc__ or "")


@case("quad-03")
def _(e: dict[str, Any]) -> None:
    same(hermite.isometry_strength("relu"), e["beta relu"])
    same(hermite.isometry_strength("sign"), e["beta sign"])
    for step in ("heaviside(x - 1/3)", lambda x: np.where(x >= 1 / 3, 1.0, 0.0)):
        same(hermite.expectation(step), e["E step"])
        same(hermite.isometry_strength(step), e["beta step(1/3)"])


@case("quad-05")
def _(e: dict[str, Any]) -> None:
    bump = "exp(-((x - 1)/1e-3)**2/2)"
    c = hermite.coefficients(bump, 1)
    # the promise is relative to sqrt(E sigma^2) = 0.02
    assert c == pytest.approx([float(e["c_0"]), float(e["c_1"])], abs=1e-15 * math.sqrt(float(e["E sigma^2"])))
    same(hermite.second_moment(bump), e["E sigma^2"])
    same(hermite.isometry_strength(bump), e["beta"])


@case("quad-10")
def _(e: dict[str, Any]) -> None:
    same(hermite.expectation("exp(8*x)"), e["value"], 1e-15 * (1 + 64))
    same(hermite.second_moment("exp(4*x)"), e["value"], 1e-15 * (1 + 16))


# ---- isometry strength ----------------------------------------------------------------------------------------


@case("beta-01")
def _(e: dict[str, Any]) -> None:
    for constant in ("1", lambda x: 1.0, lambda x: np.ones_like(x)):
        with pytest.raises(ConstantActivationError, match="constant"):
            hermite.isometry_strength(constant)
    assert hermite.isometry_strength("x") == float(e["x"])
    assert hermite.isometry_strength("x**2") == float(e["x^2"])


@case("beta-03")
def _(e: dict[str, Any]) -> None:
    same(hermite.isometry_strength("sign"), e["exact"])
    squares = hermite.coefficients("sign", 201)[1:] ** 2
    # the truncated series is the fault itself; its digits show that the coefficients are right
    assert 2 - squares[0] / squares.sum() == pytest.approx(float(e["truncated K=201"]), rel=1e-14)


# ---- activations ----------------------------------------------------------------------------------------------


@case("act-01")
def _(e: dict[str, Any]) -> None:
    m = hermite.moments("gelu", 2)
    same(m.coefficients[0], e["erf c_0"])
    same(m.coefficients[2], e["erf c_2"])
    same(m.second_moment, e["erf E sigma^2"])
    same(hermite.isometry_strength("gelu"), e["erf beta"])
    same(hermite.isometry_strength(hermite.activation("gelu", approximate="tanh")), e["tanh beta"])
    same(hermite.coefficients("gelu_tanh", 0)[0], e["tanh c_0"])
    same(hermite.isometry_strength("x*sigmoid(1.702*x)"), e["sigmoid beta"])
    # the values by which the two are known
    assert float(hermite.activation("gelu")(1.0)) == pytest.approx(0.84134, abs=5e-6)
    assert float(hermite.activation("gelu_tanh")(1.0)) == pytest.approx(0.84119, abs=5e-6)


@case("act-03")
def _(e: dict[str, Any]) -> None:
    softplus = hermite.activation("softplus")
    assert float(softplus(800.0)) == float(e["softplus(800)"])
    # the difference leaves the digits below an ulp of 20.5
    assert float(softplus(20.5)) - 20.5 == pytest.approx(float(e["softplus(20.5)-20.5"]), abs=math.ulp(20.5))
    for swish in ("swish", "x*sigmoid(x)", "x/(1 + exp(-x))"):
        value = float(hermite.activation(swish)(-800.0))
        assert -1e-300 < value <= 0
    large = hermite.activation("softplus", beta=10**30)
    assert float(large(1.0)) == 1.0
    assert float(large(-1.0)) == 0.0


# ---- the dual -------------------------------------------------------------------------------------------------


@case("dual-01")
def _(e: dict[str, Any]) -> None:
    same(float(hermite.dual("relu", 0.99999)), e["value"])
    # a callable goes through the double integral, where the ridge of the joint density was missed
    same(float(hermite.dual(lambda x: np.maximum(x, 0), 0.99999)), e["value"])


@case("dual-02")
def _(e: dict[str, Any]) -> None:
    d = hermite.Dual("relu")
    assert d(1.0000000000000002) == float(e["1+ulp"])
    assert d(-1.0000000000000002) == float(e["-1-ulp"])
    x = np.random.default_rng(0).standard_normal((2000, 7))
    x /= np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    cosines = np.sum(x * x, axis=1)
    assert cosines.max() > 1
    assert np.abs(d(cosines) - float(e["1+ulp"])).max() <= 2e-15
    assert e["1.1"] == "ValueError"
    with pytest.raises(ValueError, match=r"rho must lie in \[-1, 1\], got 1.1"):
        d(1.1)


@case("dual-03")
def _(e: dict[str, Any]) -> None:
    d = hermite.Dual("relu")
    # the slope at 1 is E sigma'^2 by quadrature
    assert d.derivative(1.0) == pytest.approx(float(e["at 1"]), rel=1e-14)
    assert d.derivative(-1.0) == float(e["at -1"])


@case("dual-05")
def _(e: dict[str, Any]) -> None:
    assert "smallest eigenvalue >= -n*eps*largest" in e["rule"]
    angles = 2 * np.pi * np.arange(60) / 60
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for spec in ("relu", "erf"):
        values = np.linalg.eigvalsh(np.asarray(hermite.dual(spec, x @ x.T)))
        assert values[0] >= -60 * 2.0**-52 * values[-1]


def test_every_case_is_asked_somewhere() -> None:
    assert set(CHECKS) | set(ELSEWHERE) == set(CASES)
    assert not set(CHECKS) & set(ELSEWHERE)


@pytest.mark.parametrize("name", CHECKS)
def test_case(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CHECKS[name](CASES[name]["expect"])
