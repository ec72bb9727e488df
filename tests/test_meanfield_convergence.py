"""Bounds of the distance of correlations from their fixed point, against iteration; published rates and their fault."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from meanfield import Convergence, Layer, convergence

Floats = NDArray[np.float64]
PUBLISHED: dict[str, dict[str, Any]] = {
    e["id"]: e for e in json.loads((Path(__file__).parent / "reference" / "published.json").read_text())
}
SELU = "1.0507*(x if x > 0 else 1.67326*expm1(x))"  # the notebook's, with rounded constants


def kernel(*weights: str, **options: Any) -> Layer:
    """The layer whose map is sum over k of w_k rho^k, weights as texts that add up to 1."""
    text = " + ".join(f"sqrt({w})*He({k}, x)" for k, w in enumerate(weights) if float(w))
    return Layer(text, normalization="rms", **options)


def distances(layer: Layer, rho0: float, depth: int) -> Floats:
    """|rho_l - rho*| for l = 0..depth, by complements where both are near 1."""
    point = convergence(layer).fixed_point
    if rho0 > 0.5:
        delta, out = np.array([1.0 - rho0]), []
        for _ in range(depth + 1):
            out.append(abs(float(delta[0]) - point.complement))
            delta = layer.step.complement(delta)
        return np.array(out)
    rho, out = np.array([rho0]), []
    for _ in range(depth + 1):
        out.append(abs(float(rho[0]) - point.rho))
        rho = layer.step(rho)
    return np.array(out)


# ---- published --------------------------------------------------------------------------------------------------


def coded(c: Convergence, layer: Layer) -> float:
    """The rate of the authors' code: that of the case, and for case 4 the largest of three."""
    if c.case != 4:
        return c.rate
    rho, slope = c.fixed_point.rho, c.fixed_point.slope
    return max(slope, 1 - layer.step.at_zero, (1 - rho) / (2 - slope))


RATES = [i for i in PUBLISHED if i.startswith("kgd-tab-alpha-")]


@pytest.mark.parametrize("name", RATES)
def test_published_rates(name: str) -> None:
    entry, sigma = PUBLISHED[name], name.removeprefix("kgd-tab-alpha-")
    layer = Layer({"gelu": "gelu_tanh"}.get(sigma, sigma), normalization="rms")
    found = coded(convergence(layer), layer)
    assert found == pytest.approx(float(entry["computed"]), rel=4e-15)
    assert (abs(found - float(entry["printed"])) <= 0.005) == entry["agrees"]


def test_cases() -> None:
    cases = {
        1: [Layer("relu"), Layer("tanh", normalization="rms"), Layer("He(2, x)"), Layer("identity")],
        2: [Layer("sigmoid", normalization="rms"), Layer("relu", bias_variance=1), Layer("cos", normalization="rms")],
        3: [Layer("relu", normalization="rms"), Layer("exp", normalization="rms"), Layer("abs", normalization="rms")],
        4: [Layer("gelu", normalization="rms"), Layer("relu", bias_variance="0.1"), Layer("step", normalization="rms")],
    }
    for case, some in cases.items():
        assert {convergence(layer).case for layer in some} == {case}
    assert convergence(Layer("He(2, x)")).rate == 0.5  # slope 0
    assert convergence(Layer("identity")).rate == 1.0
    relu = convergence(Layer("relu", normalization="rms"))
    assert relu.rate == pytest.approx(0.5 + 1 / math.pi, rel=1e-15)
    assert (relu.fixed_point.rho, relu.fixed_point.stability) == (1.0, "marginal")
    for case, some in cases.items():
        assert r"\alpha" in convergence(some[0]).statement, case
        assert convergence(some[0])._repr_latex_().strip("$") == convergence(some[0]).statement


E6 = kernel("0.35", "0.0115", "0.638", "0.0005")


def test_the_coded_rate_of_case_4_is_too_small() -> None:
    """From .999, layer 23 is farther from the fixed point than the published code allows, and within our bound."""
    c = convergence(E6)
    rho, slope = c.fixed_point.rho, c.fixed_point.slope
    assert (c.case, round(rho, 4), round(slope, 4)) == (4, 0.5479, 0.7111)
    seen = distances(E6, 0.999, 60)
    assert seen[23] == pytest.approx(0.24047, abs=5e-6)
    alpha = coded(c, E6)
    published = (0.999 - rho) * alpha**23 / (1 - 0.999 + 0.999 * alpha**23)
    assert published == pytest.approx(0.12730, abs=5e-6)
    assert seen[23] > 1.8 * published
    ours = c.bound(0.999, 60)
    assert ours[23] == pytest.approx(0.25687, abs=5e-6)
    assert np.all(seen <= ours * (1 + 1e-14))
    assert np.all(seen <= c.schwarz_pick(0.999, 60) * (1 + 1e-14))
    # no smaller alpha will do from everywhere: towards 1 it is 1/kappa'(1)
    assert c.rate >= 1 / (0.0115 + 2 * 0.638 + 3 * 0.0005)


def test_slope_is_no_rate_above_the_fixed_point() -> None:
    """kappa'(rho*)^l |rho_0 - rho*| holds on |rho| <= rho* and fails above."""
    c, seen = convergence(E6), distances(E6, 0.999, 30)
    assert np.any(seen > c.fixed_point.slope ** np.arange(31) * seen[0] * 1.01)
    for rho0 in (-0.5479, -0.2, 0.0, 0.3, 0.5):
        assert np.all(
            distances(E6, rho0, 30) <= c.fixed_point.slope ** np.arange(31) * abs(rho0 - c.fixed_point.rho) + 1e-15
        )


def test_one_step_from_far_below_is_not_enough() -> None:
    """1.34e-5 + .9999866 rho^3 from -.99987: by the slope at the fixed point a layer is enough, and nothing moves."""
    layer = kernel("0.0000134", "0", "0", "0.9999866")
    c, seen = convergence(layer), distances(layer, -0.99987, 30)
    assert c.case == 4
    assert seen[1] > 0.999
    assert c.fixed_point.slope * seen[0] < 1e-8
    bound = c.bound(-0.99987, 30)
    assert np.all(seen <= bound * (1 + 1e-13) + 1e-18)  # rounding of kappa(0)
    assert bound[30] < 1e-9  # it does come down


# ---- every layer ------------------------------------------------------------------------------------------------

NAMES = ["tanh", "gelu", "exp", "sigmoid", "sin", "He(2, x)", "He(3, x)", "square", "cube", "relu", "abs", "identity"]
MIXES = [("0.25", "0.25", "0.25", "0.25"), ("0.1", "0", "0.9"), ("0.01", "0.9", "0.09"), ("0", "0.5", "0.5"),
         ("0.25", "0.5", "0.25"), ("0.5", "0.5"), ("0.35", "0.0115", "0.638", "0.0005")]  # fmt: skip


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    skip = draw(st.sampled_from([0, "0.5"]))
    if draw(st.booleans()):
        return kernel(*draw(st.sampled_from(MIXES)), skip=skip)
    normalization: Literal["layer", "rms"] = draw(st.sampled_from(["layer", "rms"]))
    bias = draw(st.sampled_from([0, "0.01", 1]))
    return Layer(draw(st.sampled_from(NAMES)), normalization=normalization, bias_variance=bias, skip=skip)


STARTS = st.sampled_from([-1.0, -0.999, -0.5, 0.0, 0.5, 0.9, 0.999, 0.999999999, 1.0]) | st.floats(-1, 1)


@given(layers(), STARTS)
def test_bounds_hold_at_every_layer(layer: Layer, rho0: float) -> None:
    c = convergence(layer)
    seen, bound = distances(layer, rho0, 40), c.bound(rho0, 40)
    event(
        f"case {c.case}, {'below' if rho0 < -c.fixed_point.rho else 'above' if rho0 > c.fixed_point.rho else 'inside'}"
    )
    assert bound.shape == (41,)
    assert bound[0] == pytest.approx(seen[0], rel=1e-14, abs=1e-15)
    assert np.all(seen <= bound * (1 + 1e-12) + 2e-15)
    assert np.all(np.diff(bound) <= 1e-15)
    if c.fixed_point.complement:
        other = c.schwarz_pick(rho0, 40)
        assert np.all(seen <= other * (1 + 1e-12) + 2e-15)
    else:
        with pytest.raises(ValueError, match="border of the disc"):
            c.schwarz_pick(rho0, 40)


@pytest.mark.parametrize("rho0", [0.3, 0.9, -0.2])
def test_equality(rho0: float) -> None:
    """Case 2 is sharp for a line with a constant; case 1 for small distances, but for the rate of large ones."""
    line = kernel("0.3", "0.7")
    assert distances(line, rho0, 30) == pytest.approx(convergence(line).bound(rho0, 30), rel=1e-13)
    bound = convergence(kernel("0", "0.5", "0.5")).bound(rho0, 1)
    assert bound[1] == pytest.approx(abs(rho0) / 1.5 / (1 - abs(rho0) + abs(rho0) / 1.5), rel=1e-14)


@pytest.mark.parametrize(
    ("case", "weights"), [(1, ("0", "0.5", "0.5")), (3, ("0.25", "0.5", "0.25")), (4, ("0.1", "0", "0.9"))]
)
def test_no_smaller_rate_would_do(case: int, weights: tuple[str, ...]) -> None:
    """Next to 1 a map of degree 2 does exactly what the rate says: odds fall by it, or 1/d grows by p."""
    layer = kernel(*weights)
    c = convergence(layer)
    assert c.case == case
    delta = np.array([1e-7])
    mapped = float(layer.step.complement(delta)[0])
    if case == 3:
        assert 1 / mapped - 1e7 == pytest.approx(1 - c.rate, rel=1e-6)
    else:
        below = c.fixed_point.complement
        assert (below - mapped) / mapped / ((below - 1e-7) / 1e-7) == pytest.approx(c.rate, rel=1e-6)


def test_closer_to_one_than_doubles() -> None:
    """relu6 with rms: the fixed point is 3.9e-17 below 1; from a start between it and 1, and from below."""
    layer = Layer("relu6", normalization="rms")
    c = convergence(layer)
    assert c.case == 4
    assert c.fixed_point.rho == 1.0
    bound = c.bound(0.9, 1000)
    assert bound[0] == pytest.approx(0.1, rel=1e-15)
    seen = distances(layer, 0.9, 1000)
    assert np.all(seen <= bound)
    assert np.all(seen <= c.schwarz_pick(0.9, 1000))
    assert c.bound(1.0, 5) == pytest.approx(np.full(6, c.fixed_point.complement), rel=1e-14)


def test_refusals() -> None:
    c = convergence(Layer("gelu", normalization="rms"))
    for ask in (c.bound, c.schwarz_pick):
        with pytest.raises(ValueError, match=r"rho0 must be a number in \[-1, 1\], got 1.5"):
            ask(1.5, 3)
        with pytest.raises(ValueError, match="rho0"):
            ask(math.nan, 3)
        with pytest.raises(ValueError, match="depth must be a non-negative integer"):
            ask(0.5, -1)
        assert ask(0.5, 0).shape == (1,)
    with pytest.raises(ValueError, match="must be one Layer"):
        convergence([Layer("relu")])  # type: ignore[arg-type]


@pytest.mark.parametrize("rho0", [None, 1j, "0.1", True, [0.1], math.nan, 1.5])
def test_a_start_that_is_no_correlation_is_named(rho0: Any) -> None:
    found = convergence(Layer("gelu", normalization="rms"))
    for ask in (found.bound, found.schwarz_pick):
        with pytest.raises(ValueError, match=r"rho0 must be a number in \[-1, 1\], got"):
            ask(rho0, 2)
