"""Maps of variances and all their fixed points: closed forms, mpmath, published numbers, and what iteration misses."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermite import activation
from hermite._by_variance import by_variance
from hermite.errors import ConstantActivationError, PrecisionError
from meanfield import Layer
from meanfield._bracketed import bracketed
from meanfield._variances import VarianceMap, VariancePoint, variance_fixed_points, variance_map, variances_of

ENTRIES: dict[str, dict[str, Any]] = {
    entry["id"]: entry for entry in json.loads((Path(__file__).parent / "reference" / "published.json").read_text())
}


def plain(spec: Any, gain_squared: float = 1.0, bias: float = 0.0, keep: float = 0.0, **options: str) -> VarianceMap:
    chosen = {"normalization": "none", "order": "activation-first", **options}
    return variances_of(activation(spec), gain_squared=gain_squared, bias_variance=bias, keep=keep, **chosen)


def points(spec: Any, gain_squared: float = 1.0, bias: float = 0.0, **options: str) -> tuple[VariancePoint, ...]:
    return plain(spec, gain_squared, bias, **options).fixed_points()


def stabilities(found: tuple[VariancePoint, ...]) -> list[str]:
    return [p.stability for p in found]


# --- the map by its options ----------------------------------------------------------------------------------

Q = np.array([0.0, 0.3, 1.0, 4.0])
G2, B2 = 1.5, 0.2


def relu_moments(v: Any) -> tuple[Any, Any, Any]:
    """E, E square, Var of relu(sqrt(v) X)."""
    return np.sqrt(v / (2 * math.pi)), v / 2, v * (0.5 - 0.5 / math.pi)


@pytest.mark.parametrize("keep", [0.0, 0.25])
@pytest.mark.parametrize("order", ["activation-first", "normalization-first"])
@pytest.mark.parametrize("normalization", ["layer", "rms", "center", "constant", "none"])
def test_every_option_in_closed_form(normalization: str, order: str, keep: float) -> None:
    v = G2 * Q + B2
    mean, second, spread = relu_moments(v)
    c0, unit_second, unit = relu_moments(G2 + B2)
    wanted = {
        "none": second, "center": spread, "constant": (spread + (mean - c0) ** 2) / unit,
        "layer": np.ones(4), "rms": np.ones(4),
    }[normalization]  # fmt: skip
    if order == "normalization-first":
        wanted = np.full(4, unit_second) if normalization in ("layer", "rms") else second
    found = plain("relu", G2, B2, keep, normalization=normalization, order=order)
    np.testing.assert_allclose(found(Q), keep * Q + (1 - keep) * wanted, rtol=3e-15)
    h = 1e-5
    slopes = (found(Q[1:] + h) - found(Q[1:] - h)) / (2 * h)
    np.testing.assert_allclose(found.slope(Q[1:]), slopes, rtol=0, atol=1e-9)


def test_slope_at_zero_is_from_the_right() -> None:
    assert plain("tanh", 2.25).slope(np.zeros(1))[0] == 2.25
    assert plain("relu", 3.0, normalization="center").slope(np.zeros(1))[0] == pytest.approx(1.5 - 1.5 / math.pi)
    assert plain("sign").slope(np.zeros(1))[0] == math.inf


def test_batch_has_no_map() -> None:
    with pytest.raises(ValueError, match="variance of one input depends on all inputs"):
        plain("relu", normalization="batch")
    with pytest.raises(ValueError, match="depends on all inputs"):
        variance_map(Layer("relu", normalization="batch"), 1.0)


def test_a_constant_is_not_divided_by_its_deviation() -> None:
    with pytest.raises(ConstantActivationError):
        plain("0*x + 3", normalization="constant")


def test_public_map_keeps_shapes_and_refuses_what_is_no_variance() -> None:
    layer = Layer("relu", normalization="none", gain="3/2", bias_variance=1)
    assert variance_map(layer, 4) == pytest.approx(5.0, rel=1e-15)
    assert isinstance(variance_map(layer, 4), float)
    found = variance_map(layer, [[0.0, 1.0], [2.0, 4.0]])
    np.testing.assert_allclose(found, [[0.5, 1.625], [2.75, 5.0]], rtol=1e-15)
    for wrong in (-1.0, math.nan, math.inf, [1.0, -1e-300]):
        with pytest.raises(ValueError, match="q must be finite and not negative, got"):
            variance_map(layer, wrong)
    assert variance_map(layer, "4") == variance_map(layer, Fraction(4)) == variance_map(layer, 4)
    for wrong in ("many", [None], 1j, True):
        with pytest.raises(ValueError, match="q must"):
            variance_map(layer, wrong)  # type: ignore[arg-type]
    for wrong in ("relu", None, [layer]):
        with pytest.raises(ValueError, match="layer must be one Layer"):
            variance_map(wrong, 1.0)  # type: ignore[arg-type]


def test_the_map_is_the_diagonal_of_the_layer() -> None:
    for options in ({"normalization": "none"}, {"normalization": "center"}, {"normalization": "constant"}):
        layer = Layer("gelu", gain="1.25", bias_variance="0.3", skip="0.6", **options)  # type: ignore[arg-type]
        G = np.array([[0.7, 0.1], [0.1, 2.0]])
        np.testing.assert_allclose(np.diag(layer(G)), variance_map(layer, [0.7, 2.0]), rtol=1e-13)


# --- constant normalisation: stable or not -------------------------------------------------------------------


def normalized_slope(name: str) -> mp.mpf:
    """E (sigma - c_0) z sigma'/V at variance 1, by mpmath."""
    alpha, scale = mp.mpf("1.6732632423543772848170429916717"), mp.mpf("1.0507009873554804934193349852946")
    sigma, slope = {
        "tanh": (mp.tanh, lambda x: mp.sech(x) ** 2),
        "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), lambda x: 1 / (1 + mp.exp(-x)) / (1 + mp.exp(x))),
        "gelu": (lambda x: x * mp.ncdf(x), lambda x: mp.ncdf(x) + x * mp.npdf(x)),
        "selu": (
            lambda x: scale * (x if x > 0 else alpha * mp.expm1(x)),
            lambda x: scale * (1 if x > 0 else alpha * mp.exp(x)),
        ),
    }[name]

    def mean(h: Any) -> Any:
        return mp.quad(lambda x: h(x) * mp.npdf(x), [-12, -4, -1, 0, 1, 4, 12])

    c0 = mean(sigma)
    return mean(lambda x: (sigma(x) - c0) * x * slope(x)) / mean(lambda x: (sigma(x) - c0) ** 2)


CHI = {
    "sin": 2 / math.expm1(2), "exp": (2 * math.e - 1) / (math.e - 1), "He(2, x)": 2.0, "relu": 1.0, "square": 2.0,
    "identity": 1.0, "cube": 3.0,
}  # fmt: skip


@pytest.mark.parametrize("name", [*CHI, "tanh", "sigmoid", "gelu", "selu"])
def test_slope_of_constant_normalisation(name: str) -> None:
    wanted = CHI[name] if name in CHI else float(normalized_slope(name))
    map_ = plain(name, normalization="constant")
    one = np.ones(1)
    assert map_(one)[0] == pytest.approx(1, rel=1e-15)
    assert map_.slope(one)[0] == pytest.approx(wanted, rel=1e-14)
    (found,) = (p for p in map_.fixed_points() if abs(p.variance - 1) < 1e-12)
    assert found.slope == pytest.approx(wanted, abs=1e-13)
    kind = "repelling" if wanted > 1 + 1e-9 else "attracting"
    assert found.stability == {"relu": "half-stable", "identity": "neutral"}.get(name, kind)


def test_relu_by_constants_is_left_upwards() -> None:
    """Q(q) - q = c_0^2 (sqrt q - 1)^2/V: a double root at 1, and a growth by 1 + c_0^2/V far above it."""
    map_ = plain("relu", normalization="constant")
    assert [(p.variance, p.slope, p.stability, p.length) for p in map_.fixed_points()] == [
        (1.0, 1.0, "half-stable", math.inf)
    ]
    ratio = 1 / (math.pi - 1)
    far = np.array([1e12])
    assert map_(far)[0] / far[0] == pytest.approx(1 + ratio * (1 - 1e-6) ** 2, rel=1e-14)
    near = np.array([1.001, 0.999])
    np.testing.assert_allclose((map_(near) - near) / (np.sqrt(near) - 1) ** 2, ratio, rtol=1e-8)
    assert map_.led_to(1.1) is None
    assert map_.led_to(0.5) == map_.fixed_points()[0]


def test_odd_but_for_a_constant_keeps_zero() -> None:
    for name in ("sigmoid", "tanh", "sin", "erf(x) + 2"):
        zero, one = points(name, normalization="constant")
        assert (zero.variance, zero.stability) == (0.0, "repelling")
        assert one.variance == pytest.approx(1, rel=1e-14)


def test_gelu_by_constants_repels_at_one_and_attracts_below() -> None:
    low, one = points("gelu", normalization="constant")
    assert stabilities((low, one)) == ["attracting", "repelling"]
    assert low.variance == pytest.approx(0.614668602341858, rel=1e-12)
    assert one.length == pytest.approx(-1 / math.log(one.slope), rel=1e-14)


# --- no normalisation ----------------------------------------------------------------------------------------


def test_published_two_tanh() -> None:
    zero, found = points("2*tanh(x)")
    entry = ENTRIES["reddit-2tanh"]
    assert abs(math.sqrt(found.variance) - float(entry["computed"])) < 1e-15
    assert abs(math.sqrt(found.variance) - float(entry["printed"])) < 0.5e-6
    assert (zero.variance, zero.slope, zero.stability) == (0.0, 4.0, "repelling")
    assert found.length == pytest.approx(-1 / math.log(found.slope), rel=1e-15)


@pytest.mark.parametrize("name", ["tsuchida-gelu_0.5", "tsuchida-gelu_5", "tsuchida-elu_1"])
def test_published_weights_that_keep_a_norm(name: str) -> None:
    """sigma with E f(sigma s Z)^2 = s^2: q = s^2 is kept by gain sigma, gelu's as a repelling point."""
    function, s = name.removeprefix("tsuchida-").split("_")
    gain = Decimal(ENTRIES[name]["computed"])
    found = points(function, float(gain * gain))
    near = min(found, key=lambda p: abs(p.variance - float(s) ** 2))
    # the entry has 18 digits, its square in float64 has 16, and the root loses what the slope says
    assert abs(near.variance - float(s) ** 2) <= 4e-16 * float(s) ** 2 / abs(1 - near.slope) + 1e-15
    assert near.stability == ("attracting" if function == "elu" else "repelling")


def test_every_variance_is_kept_by_relu_at_criticality() -> None:
    for spec, gain_squared in (("relu", 2.0), ("leaky_relu(x, negative_slope=0.5)", 1.6), ("abs", 1.0), ("x", 1.0)):
        found = points(spec, gain_squared)
        assert [(p.variance, p.slope, p.stability, p.length) for p in found] == [
            (0.0, 1.0, "neutral", math.inf),
            (1.0, 1.0, "neutral", math.inf),
        ]
    map_ = plain("relu", 2.0)
    led = map_.led_to(7.0)
    assert led is not None
    assert (led.variance, led.stability) == (7.0, "neutral")


def test_relu_beside_criticality() -> None:
    """q' = w q/2 + b/2: one fixed point b/(2 - w), or none."""
    for w in (1.9, 2 - 1e-6):
        (found,) = points("relu", w, 0.1)
        assert found.variance == pytest.approx(0.1 / (2 - w), rel=1e-14 / (2 - w))
        assert found.slope == pytest.approx(w / 2, rel=1e-15)
    assert points("relu", 2.0, 0.1) == ()
    assert points("relu", 2.5, 0.1) == ()
    assert stabilities(points("relu", 2.5)) == ["repelling"]
    assert stabilities(points("relu", 1.5)) == ["attracting"]


def test_zero_is_marginal_where_its_slope_is_one() -> None:
    (zero,) = points("tanh")
    assert (zero.variance, zero.slope, zero.stability, zero.length) == (0.0, 1.0, "marginal", math.inf)
    (zero,) = points("gelu", 4.0)
    assert zero.stability == "marginal"


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9])
def test_nearly_critical_tanh(excess: float) -> None:
    """E tanh^2(sqrt v X) = v - 2 v^2 + (17/3) v^3 - ..., so v* = e/2 + (17/12 - 1) e^2... at weight variance 1 + e."""
    w = 1 + excess
    zero, found = points("tanh", w)
    # w (v - 2 v^2 + 17/3 v^3) = v
    v = (w - 1) / (2 * w) + 17 / 24 * excess**2
    assert w * found.variance == pytest.approx(v, rel=20 * excess**2 + 1e-15 / excess)
    assert stabilities((zero, found)) == ["repelling", "attracting"]


def iterated(map_: VarianceMap, q: float, steps: int) -> float:
    now = np.array([q])
    for _ in range(steps):
        if not 1e-100 < now[0] < 1e7:
            break
        now = map_(now)
    return float(now[0])


@pytest.mark.parametrize(
    ("name", "gain_squared"), [("gelu", 2.1), ("gelu", 2.01), ("silu", 2.2), ("silu", 2.02), ("hardswish", 2.3)]
)
def test_iteration_finds_no_repelling_point(name: str, gain_squared: float) -> None:
    """Near criticality gelu and silu keep a variance that repels: started anywhere else, iteration leaves it."""
    map_ = plain(name, gain_squared)
    zero, repelling = map_.fixed_points()
    assert stabilities((zero, repelling)) == ["attracting", "repelling"]
    q = repelling.variance
    assert abs(map_(np.array([q]))[0] / q - 1) < 1e-14
    steps = int(10 * -repelling.length)  # a distance of a thousandth grows to the size of q
    assert iterated(map_, q * (1 - 1e-3), steps) < 0.9 * q
    assert iterated(map_, q * (1 + 1e-3), steps) > 1.1 * q
    assert abs(iterated(map_, 1.0, 60) - q) > 0.3 * q


def test_sixty_steps_are_no_limit() -> None:
    """The published habit: iterate sixty times. At the edge of tanh it reads a tenth where the answer is 0."""
    assert iterated(plain("tanh"), 1.0, 60) > 3e-3
    assert iterated(plain("tanh"), 1.0, 10_000) > 2e-5
    assert plain("tanh").led_to(1.0) == plain("tanh").fixed_points()[0]


def test_three_fixed_points_and_a_tangency() -> None:
    """At gelu's half-stable point two of three variances meet: it attracts from above, and a third lies below."""
    weight, bias = (float(ENTRIES[f"pdlt-gelu-{name}"]["computed"]) for name in ("CW", "Cb"))
    kept = float(ENTRIES["pdlt-gelu-Kstar"]["computed"])
    below, double = points("gelu", weight, bias)
    assert weight * double.variance + bias == pytest.approx(kept, rel=1e-12)
    assert (double.slope, double.length) == (1.0, math.inf)
    assert stabilities((below, double)) == ["attracting", "half-stable"]
    map_ = plain("gelu", weight, bias)
    assert map_.led_to(10.0) == double
    assert map_.led_to(0.99 * double.variance) == below
    assert stabilities(points("gelu", weight * (1 - 1e-9), bias)) == ["attracting"]
    three = points("gelu", weight * (1 + 1e-9), bias)
    assert stabilities(three) == ["attracting", "repelling", "attracting"]
    assert three[1].variance < double.variance < three[2].variance


def test_exp_keeps_two_variances_none_or_touches_one() -> None:
    """q = exp(2 g q), touching at g = 1/(2 e), q = e."""
    low, high = points("exp", 0.1)
    for p in (low, high):
        assert p.variance == pytest.approx(math.exp(0.2 * p.variance), rel=1e-14)
        assert p.slope == pytest.approx(0.2 * p.variance, rel=1e-13)
    (touched,) = points("exp", 0.5 / math.e)
    assert touched.stability in ("half-stable", "marginal")
    assert touched.variance == pytest.approx(math.e, rel=1e-7)
    assert points("exp", 0.2) == ()


def test_jumps_steep_ends_and_falling_maps() -> None:
    zero, one = points("sign")
    assert (zero.slope, zero.stability, zero.length) == (math.inf, "repelling", 0.0)
    assert one.variance == pytest.approx(1, rel=1e-15)
    assert abs(one.slope) < 1e-15
    (half,) = points("step")
    assert half.variance == pytest.approx(0.5, rel=1e-15)
    _, found = points("sqrt(abs(x))")
    assert found.variance == pytest.approx(2 / math.pi, rel=1e-14)  # q = sqrt(q) E|X|
    (falling,) = points("gaussian")
    assert falling.variance == pytest.approx(float(mp.findroot(lambda q: q - (1 + 4 * q) ** -0.5, 0.5)), rel=1e-15)
    assert falling.slope == pytest.approx(-2 * falling.variance**3, rel=1e-13)
    assert falling.length > 0


def test_normalised_layers_keep_one_variance() -> None:
    for options in ({"normalization": "layer"}, {"normalization": "rms"}):
        assert points("gelu", **options) == (VariancePoint(1.0, 0.0, "attracting", 0.0),)
    (found,) = plain("relu", 2.0, 1.0, 0.25, normalization="rms", order="normalization-first").fixed_points()
    assert (found.variance, found.slope) == (pytest.approx(1.5, rel=1e-15), 0.25)
    assert found.length == pytest.approx(-1 / math.log(0.25))


def test_a_skip_keeps_the_points_and_moves_the_slopes() -> None:
    without, with_skip = plain("silu", 3.0).fixed_points(), plain("silu", 3.0, keep=0.36).fixed_points()
    for a, b in zip(without, with_skip, strict=True):
        assert a.variance == b.variance
        assert b.slope == pytest.approx(0.36 + 0.64 * a.slope, rel=1e-14)


@given(log_gain=st.floats(-3, 3), bias=st.sampled_from([0.0, 1e-9, 0.01, 0.5, 30.0]))
@pytest.mark.parametrize("name", ["tanh", "gelu", "elu", "hardtanh", "softplus", "sin"])
def test_every_sign_change_is_a_fixed_point(name: str, log_gain: float, bias: float) -> None:
    """On a grid of other places: between two of them where (next q)/q - 1 changes sign lies one, elsewhere none."""
    map_ = plain(name, math.exp(log_gain), bias)
    found = np.array([p.variance for p in map_.fixed_points() if p.variance > 0 and p.stability != "neutral"])
    q = np.geomspace(1e-8, 1e4, 97)
    growth = map_(q) / q - 1
    for a, b, x, y in zip(q[:-1], q[1:], growth[:-1], growth[1:], strict=True):
        if min(abs(x), abs(y)) > 1e-12:
            inside = int(np.sum((found > a) & (found < b)))
            assert inside % 2 == (x * y < 0)
    for v, p in zip(found, (p for p in map_.fixed_points() if p.variance > 0), strict=False):
        assert abs(map_(np.array([v]))[0] / v - 1) <= 1e-13
        assert p.slope == pytest.approx(float(map_.slope(np.array([v]))[0]), rel=1e-9)


@given(q=st.floats(0.01, 100), gain=st.floats(0.2, 4), bias=st.sampled_from([0.0, 0.05, 1.0]))
@pytest.mark.parametrize("name", ["tanh", "gelu", "elu", "cos", "gaussian", "x**2*exp(-x**2)"])
def test_led_to_is_where_iteration_goes(name: str, q: float, gain: float, bias: float) -> None:
    map_ = plain(name, gain, bias)
    led, reached = map_.led_to(q), iterated(map_, q, 150)
    if led is None:
        assert reached > q
    elif abs(led.slope) < 0.9 and iterated(map_, reached, 1) == pytest.approx(reached, rel=1e-12):
        assert reached == pytest.approx(led.variance, rel=1e-9, abs=1e-6)  # 0 is approached for ever


def test_a_step_may_lead_beyond_a_point_that_repels() -> None:
    """Far below, a falling map leads over two fixed points and away; nearer, to the next one."""
    map_ = plain("exp(-10000*x**2) + 1.29*x**2")
    low, high = map_.fixed_points()
    assert stabilities((low, high)) == ["attracting", "repelling"]
    assert low.slope < 0
    assert map_.led_to(1e-6) is None
    assert iterated(map_, 1e-6, 40) > 1e6
    assert map_.led_to(0.1) == low
    assert iterated(map_, 0.1, 60) == pytest.approx(low.variance, rel=1e-9)


def test_a_variance_far_below_that_of_the_bias() -> None:
    """relu(x - 3) at bias variance 0.1 keeps 1e-26 or so, which v = q + 0.1 does not show in float64."""
    map_ = plain("relu(x - 3)", 1.3, 0.1)
    (low,) = map_.fixed_points()
    with mp.workdps(30):
        u = 3 / mp.sqrt(mp.mpf("0.1"))
        wanted = ((1 + u * u) * mp.ncdf(-u) - u * mp.npdf(u)) / 10
    assert 1e-30 < wanted < 1e-20
    assert low.variance == pytest.approx(float(wanted), rel=1e-12, abs=0)
    assert low.stability == "attracting"
    assert map_.led_to(1.0) == low


def test_a_variance_far_below_the_grid() -> None:
    """exp(-25 - x^2/4) cosh-like at 0: q = M2(q) has the root exp(-50), and nothing larger."""
    (low,) = points("exp(-30)*cosh(x/2)", 1.0)[:1]
    assert low.variance == pytest.approx(math.exp(-60), rel=1e-13, abs=0)
    assert low.stability == "attracting"


def test_a_bounded_activation_that_is_scaled_up() -> None:
    zero, one = points("tanh(x)/10", normalization="constant")
    assert (zero.variance, one.variance) == (0.0, pytest.approx(1, rel=1e-14))


@pytest.mark.parametrize("options", [{"normalization": n} for n in ("none", "center", "constant")], ids=str)
def test_the_grid_is_the_map(options: dict[str, str]) -> None:
    map_ = plain("elu", 1.3, 0.2, **options)
    v, growth, bend = map_.sampled()
    assert np.all(np.abs(growth - map_.growth(v)) <= 2e-15 * (1 + np.abs(growth)))
    assert np.all(np.abs(bend - map_.bend(v)) <= 4e-15 * (1 + np.abs(growth)))
    q = (v[1:] - 0.2) / 1.3
    np.testing.assert_allclose(growth[1:], 1.3 * (map_(q) - q) / v[1:], rtol=0, atol=1e-13)


def test_public_fixed_points() -> None:
    assert variance_fixed_points(Layer("tanh", normalization="none", gain=2)) == points("tanh", 4.0)
    with pytest.raises(ValueError, match="depends on all inputs"):
        variance_fixed_points(Layer("relu", normalization="batch"))


# --- roots ---------------------------------------------------------------------------------------------------


def test_bracketed_roots_to_the_last_digit() -> None:
    wanted = np.geomspace(1e-9, 1e9, 41)
    found = bracketed(lambda x, i: x**3 - wanted[i] ** 3, wanted / 3, wanted * 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-15)
    steps = bracketed(lambda x, i: np.where(x < wanted[i], -1.0, 1.0), wanted / 3, wanted * 2)
    np.testing.assert_allclose(steps, wanted, rtol=2e-15)
    assert len(bracketed(lambda x, _: x, wanted[:0], wanted[:0])) == 0
    # bisection would ask 50 times
    asked: list[int] = []

    def cube(x: Any, _: Any) -> Any:
        asked.append(len(x))
        return x**3 - 2

    assert bracketed(cube, np.zeros(1), np.array([4.0]))[0] == pytest.approx(2 ** (1 / 3), rel=1e-15)
    assert len(asked) < 15
    ends = bracketed(lambda x, _: x - 1, np.array([1.0, 0.0]), np.array([2.0, 1.0]))
    assert ends.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["exp", "1 + tanh(x)", "softplus", "cos(x) + sin(x)"])
def test_rounding_beside_a_large_mean_is_no_fixed_point(name: str) -> None:
    map_ = variances_of(
        activation(name),
        normalization="center",
        order="activation-first",
        gain_squared=1.0,
        bias_variance=0.0,
        keep=0.0,
    )
    assert [p.variance for p in map_.fixed_points()] == [0.0]
    rate = map_.moments.zero.variance_slope
    q = np.array([1e-10, 1e-20, 1e-60, 1e-200])
    assert map_(q) == pytest.approx(rate * q, rel=2e-8, abs=0)


@pytest.mark.parametrize(
    ("name", "gain_squared", "bias"),
    [("1e10*tanh(x)", 1.0, 0.0), ("relu", 1.9999999999, 1e10), ("abs(x)**0.98", 10.0, 0.0), ("relu", 1.0, 1e20)],
)
def test_variances_beyond_the_search_are_not_called_unbounded(name: str, gain_squared: float, bias: float) -> None:
    map_ = variances_of(
        activation(name), normalization="none", order="activation-first", gain_squared=gain_squared,
        bias_variance=bias, keep=0.0,
    )  # fmt: skip
    with pytest.raises(PrecisionError, match=r"beyond 4\^32"):
        map_.fixed_points()


def test_a_callable_with_a_kink_at_zero_has_two_slopes_there() -> None:
    for function, second in ((lambda x: np.maximum(x, 0), 0.5), (lambda x: np.where(x > 0, x, 0.5 * x), 0.625)):
        zero = by_variance(activation(function)).zero
        assert (zero.second_slope, zero.derivative) == pytest.approx((second, second), rel=1e-11)
