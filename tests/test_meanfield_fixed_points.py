"""Fixed points of maps of correlations against recorded values, mpmath at 50 digits, and long iteration."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import mpmath as mp
import numpy as np
import pytest
from _activations import DATA, SPECS
from hypothesis import event, given
from hypothesis import strategies as st

from hermite import activation
from hermite._build import reduced_dual
from hermite._chord import BORDER, Chords
from hermite.errors import PrecisionError
from meanfield import FixedPoint, Layer, fixed_points

HERE = Path(__file__).parent / "reference"
RECORDED: dict[str, list[dict[str, str]]] = json.loads((HERE / "fixed_points.json").read_text())["activations"]
PUBLISHED: dict[str, dict[str, Any]] = {e["id"]: e for e in json.loads((HERE / "published.json").read_text())}


def layer_of(name: str, **options: Any) -> Layer:
    return Layer(SPECS.get(name, name), normalization="rms", **options)


def below_one(layer: Layer) -> FixedPoint:
    """The one in (0, 1)."""
    (point,) = (p for p in fixed_points(layer) if p.complement and p.rho > 0)
    return point


# ---- recorded values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_recorded(name: str) -> None:
    found, wanted = fixed_points(layer_of(name)), RECORDED[name]
    assert len(found) == len(wanted)
    with mp.workdps(40):
        for point, entry in zip(found, wanted, strict=True):
            assert abs(mp.mpf(point.rho) - mp.mpf(entry["rho"])) <= 2e-15
            complement = mp.mpf(entry["complement"]) if "complement" in entry else 1 - mp.mpf(entry["rho"])
            assert abs(mp.mpf(point.complement) - complement) <= 1e-14 * complement
            if entry["slope"] == "inf":
                assert point.slope == math.inf
            else:
                assert abs(mp.mpf(point.slope) - mp.mpf(entry["slope"])) <= 1e-14 * abs(mp.mpf(entry["slope"]))


def test_recorded_kinds() -> None:
    """What attracts, and how: the same for every entry by its slope alone."""
    kinds = {name: [p.stability for p in fixed_points(layer_of(name))] for name in DATA}
    for name, entries in RECORDED.items():
        for kind, entry in zip(kinds[name], entries, strict=True):
            slope = float(entry["slope"])
            if name == "identity":
                assert kind == "neutral"
            elif slope == 1:
                assert kind == "marginal"
            else:
                assert kind == ("superattracting" if slope == 0 else "attracting" if slope < 1 else "repelling")
    assert {n for n, k in kinds.items() if "marginal" in k} == {"relu", "leaky_relu_0.01", "abs", "exp"}
    assert [p.order for n in ("he2", "he3") for p in fixed_points(layer_of(n)) if not p.slope] == [2, 3]


PRINTED = [i for i in PUBLISHED if i.startswith(("kgd-rho-", "kgd-tab-rho-", "kgd-tab-dk-"))]
# the notebook's selu has rounded constants, its gelu is the tanh form
KERNELS = {"gelu": "gelu_tanh", "swish": "silu", "selu": "1.0507*(x if x > 0 else 1.67326*expm1(x))"}


@pytest.mark.parametrize("name", PRINTED)
def test_published(name: str) -> None:
    """The attracting point of normalised kernels and the slope there; where print disagrees, `computed` is right."""
    kind, kernel = name.removeprefix("kgd-").removeprefix("tab-").split("-")
    points = fixed_points(Layer(KERNELS.get(kernel, kernel), normalization="rms"))
    (point,) = (p for p in points if p.stability in ("attracting", "marginal"))
    entry, found = PUBLISHED[name], point.rho if kind == "rho" else point.slope
    assert found == pytest.approx(float(entry["computed"]), rel=0, abs=2e-15)
    half_unit = 0.5 * 10.0 ** -len(entry["printed"].split(".")[1])
    assert (abs(found - float(entry["printed"])) <= half_unit) == entry["agrees"]


# ---- nearly critical layers, by mpmath ------------------------------------------------------------------------
#
# The complement must solve fall(u) = excess. Both are computed here from formulas of their own, at the complement
# found: the relative difference is its relative error times u fall'/fall, which lies between 1/2 and 1.


class Kinked:
    """A piecewise linear sigma with kinks at places a and jumps J of its slope, at arguments of variance q."""

    def __init__(self, value: Callable[[Any], Any], slope: Callable[[Any], Any], kinks: dict[str, int], q: Any) -> None:
        A = mp.sqrt(q)
        self.a = [mp.mpf(k) / A for k in kinks]
        self.J = [A * j for j in kinks.values()]
        ends = sorted({mp.mpf(0), *self.a, *(mp.mpf(k) for k in (-20, -8, 8, 20))})
        self.second, self.mean, self.slope = (
            mp.quad(lambda x, g=g: g(x) * mp.npdf(x), ends)
            for g in (lambda x: value(A * x) ** 2, lambda x: value(A * x), lambda x: (A * slope(A * x)) ** 2)
        )

    def curvature(self, w: Any) -> Any:
        """The second derivative of the dual at 1 - w: the density of two Gaussians at the kinks."""
        q, total = w * (2 - w), mp.mpf(0)
        for a, J in zip(self.a, self.J, strict=True):
            for b, K in zip(self.a, self.J, strict=True):
                total += J * K * mp.exp(-((a - b) ** 2 + 2 * a * b * w) / (2 * q)) / (2 * mp.pi * mp.sqrt(q))
        return total

    def fall(self, u: Any) -> tuple[Any, Any]:
        """fall and u fall' at u, times the variance."""
        mean = mp.quad(lambda z: 2 * z * u * (1 - z * z) * self.curvature(u * z * z), [0, 0.5, 1])
        return mean, mp.quad(lambda z: 2 * z * u * self.curvature(u * z * z), [0, 0.5, 1]) - mean

    def excess(self, ratio: Any, *, centred: bool) -> Any:
        """Times the variance."""
        return self.slope - ratio * (self.second - (self.mean**2 if centred else 0))


def relu6(q: Any) -> Kinked:
    return Kinked(lambda x: min(max(x, 0), 6), lambda x: 1 if 0 < x < 6 else 0, {"0": 1, "6": -1}, q)


def hardtanh(q: Any) -> Kinked:
    return Kinked(lambda x: min(max(x, -1), 1), lambda x: 1 if -1 < x < 1 else 0, {"-1": 1, "1": -1}, q)


def relu(q: Any) -> Kinked:
    return Kinked(lambda x: max(x, 0), lambda x: 1 if x > 0 else 0, {"0": 1}, q)


@pytest.mark.parametrize("gain", ["1", "1.2", "0.8", "0.6"])
def test_relu6_closer_to_one_than_doubles(gain: str) -> None:
    point = below_one(Layer("relu6", normalization="rms", gain=gain))
    with mp.workdps(50):
        reference, u = relu6(mp.mpf(gain) ** 2), mp.mpf(point.complement)
        mean, steep = reference.fall(u)
        assert abs(mean / reference.excess(1, centred=False) - 1) <= 5e-14
        less = steep / reference.second
        assert abs(-1 / mp.log1p(-less) / point.correlation_length - 1) <= 1e-13
    assert point.complement < {"1": 4e-17, "1.2": 1e-11, "0.8": 1e-25, "0.6": 1e-40}[gain]
    assert point.stability == "attracting"


def test_relu6_value() -> None:
    """The root itself, at 50 digits."""
    with mp.workdps(50):
        reference = relu6(mp.mpf(1))
        goal = reference.excess(1, centred=False)
        root = mp.exp(mp.findroot(lambda v: reference.fall(mp.exp(v))[0] / goal - 1, (-37.78, -37.79)))
        point = below_one(Layer("relu6", normalization="rms"))
        assert abs(point.complement / root - 1) <= 1e-15
        assert mp.nstr(root, 16) == "3.908852579612282e-17"
    assert point.rho == 1.0  # all that doubles have


@cache
def critical_bias(reference: Callable[[Any], Any], start: str, *, centred: bool) -> Any:
    """The bias variance at which kappa'(1) = 1, to 16 digits."""
    with mp.workdps(20):
        return mp.findroot(lambda b: reference(1 + b).excess(1 + b, centred=centred), mp.mpf(start), tol=1e-33)


@pytest.mark.parametrize("distance", ["1e-1", "1e-10"])
@pytest.mark.parametrize(
    ("name", "normalization", "reference", "start"),
    [("hardtanh", "layer", hardtanh, "0.475"), ("relu", "layer", relu, "0.467"), ("relu6", "layer", relu6, "0.467")],
)
def test_nearly_critical_bias(name: str, normalization: Any, reference: Any, start: str, distance: str) -> None:
    """A bias so close to its critical value that kappa'(1) - 1 is 1e-2 to 1e-11."""
    with mp.workdps(40):
        bias = mp.nstr(critical_bias(reference, start, centred=True) * (1 - mp.mpf(distance)), 30)
        point = below_one(Layer(name, normalization=normalization, bias_variance=Fraction(bias)))
        b = mp.mpf(bias)
        exact = reference(1 + b)
        mean, steep = exact.fall(point.complement / (1 + b))
        assert abs(mean / exact.excess(1 + b, centred=True) - 1) <= 5e-14
        less = steep / (exact.second - exact.mean**2) / (1 + b)
        assert abs(-1 / mp.log1p(-less) / point.correlation_length - 1) <= 1e-13
    above = fixed_points(Layer("relu", bias_variance="0.4669422069243"))
    assert [p.stability for p in above] == ["attracting"]
    assert above[0].correlation_length > 1e12


class Gelu:
    """By its closed dual, which is analytic at 1."""

    def __init__(self, q: Any) -> None:
        self.q = q
        self.slope = mp.diff(self.dual, 1)

    def dual(self, r: Any) -> Any:
        q = self.q
        root = mp.sqrt((1 + q) ** 2 - q * q * r * r)
        return q * (
            r / 4 + r * mp.asin(q * r / (1 + q)) / (2 * mp.pi) + (1 + r * r) * q / (2 * mp.pi * root)
            - q * q * r * r / (mp.pi * (1 + q) * root)
        )  # fmt: skip

    def excess(self, ratio: Any, *, centred: bool) -> Any:
        assert not centred
        return self.slope - ratio * self.dual(1)

    def fall(self, u: Any) -> Any:
        return self.slope - (self.dual(1) - self.dual(1 - u)) / u


@pytest.mark.parametrize("distance", ["1e-1", "1e-3", "1e-6", "1e-10"])
def test_nearly_critical_gelu(distance: str) -> None:
    with mp.workdps(60):
        bias = mp.nstr(critical_bias(Gelu, "0.07", centred=False) * (1 - mp.mpf(distance)), 40)
        point = below_one(Layer("gelu", normalization="rms", bias_variance=Fraction(bias)))
        b = mp.mpf(bias)
        assert abs(Gelu(1 + b).fall(point.complement / (1 + b)) / Gelu(1 + b).excess(1 + b, centred=False) - 1) <= 5e-14


class Elu:
    """Its second derivative is exp(u) below 0: A^4 E exp(A (X + Y)) over X, Y < 0, a bivariate normal integral."""

    def __init__(self, q: Any) -> None:
        self.q, A = q, mp.sqrt(q)
        low, high = [-12, -4, 0], [0, 4, 12]
        self.second = mp.quad(lambda x: mp.expm1(A * x) ** 2 * mp.npdf(x), low) + q / 2
        self.slope = q * (mp.quad(lambda x: mp.exp(2 * A * x) * mp.npdf(x), low) + mp.quad(mp.npdf, high))

    def excess(self, ratio: Any, *, centred: bool) -> Any:
        assert not centred
        return self.slope - ratio * self.second

    def curvature(self, w: Any) -> Any:
        r, A = 1 - w, mp.sqrt(self.q)
        h, root = -A * (1 + r), mp.sqrt(w * (2 - w))
        inner = mp.quad(lambda x: mp.npdf(x) * mp.ncdf((h - r * x) / root), [h - 12, h - 4, h - 8 * root, h])
        return self.q**2 * mp.exp(self.q * (1 + r)) * inner

    def fall(self, u: Any) -> Any:
        return mp.quad(lambda z: 2 * z * u * (1 - z * z) * self.curvature(u * z * z), [0, 1])


@pytest.mark.parametrize("distance", ["1e-6"])
def test_nearly_critical_elu(distance: str) -> None:
    with mp.workdps(20):
        bias = mp.nstr(critical_bias(Elu, "0.036", centred=False), 18)
        bias = mp.nstr(mp.mpf(bias) * (1 - mp.mpf(distance)), 18)
        point = below_one(Layer("elu", normalization="rms", bias_variance=Fraction(bias)))
        mp.mp.dps = 26
        b = mp.mpf(bias)
        goal = Elu(1 + b).excess(1 + b, centred=False)
        mp.mp.dps = 18
        assert abs(Elu(1 + b).fall(point.complement / (1 + b)) / goal - 1) <= 1e-13


@pytest.mark.parametrize("gain", ["1.5", "1.01", "1.0000001", "1.000000000001"])
def test_exp_by_lambert(gain: str) -> None:
    """kappa = exp(g^2 (rho - 1)): rho* = -W(-g^2 exp(-g^2))/g^2."""
    point = below_one(Layer("exp", normalization="rms", gain=gain))
    with mp.workdps(60):
        q = mp.mpf(gain) ** 2
        rho = -mp.lambertw(-q * mp.exp(-q)).real / q
        assert abs(point.complement / (1 - rho) - 1) <= 1e-13
        assert abs(point.correlation_length * mp.log(q * rho) + 1) <= 1e-13


@pytest.mark.parametrize("power", ["0.75", "0.9"])
def test_powers(power: str) -> None:
    """|x|^a has kappa = F(rho^2)/F(1), F = 2F1(-a/2, -a/2; 1/2; .), and kappa'(1) = a^2/(2 a - 1)."""
    below, one = fixed_points(Layer(f"abs(x)**{power}", normalization="rms"))
    with mp.workdps(40):
        a, u = mp.mpf(power), mp.mpf(below.complement)
        kappa, whole = (mp.hyp2f1(-a / 2, -a / 2, 0.5, z) for z in ((1 - u) ** 2, 1))
        chord = (1 - kappa / whole) / u
        assert abs(chord - 1) <= 1e-13 * (a * a / (2 * a - 1) - 1)
        assert abs(one.slope - a * a / (2 * a - 1)) <= 4e-16 * one.slope


@pytest.mark.parametrize("small", ["1", "1e-2", "1e-5", "1e-8"])
def test_nearly_linear(small: str) -> None:
    """x + e x^2 has kappa = (rho + e^2 (1 + 2 rho^2))/(1 + 3 e^2), and rho* = 1/2 whatever e is."""
    point, one = fixed_points(Layer(f"x + {small}*x**2", normalization="rms"))
    e = Fraction(small)
    less = float(e**2 / (1 + 3 * e**2))  # 1 - kappa'(1/2) = kappa'(1) - 1
    assert point.rho == pytest.approx(0.5, rel=1e-14)
    assert point.complement == pytest.approx(0.5, rel=1e-14)
    assert point.correlation_length == pytest.approx(-1 / math.log1p(-less), rel=1e-13)
    assert one.slope - 1 == pytest.approx(less, rel=1e-13, abs=3e-16)
    assert (point.stability, one.stability) == ("attracting", "repelling")


# ---- biases, skips, other normalisations ----------------------------------------------------------------------


@pytest.mark.parametrize(("bias", "known"), [("0.01", "0.0277132904756455"), ("0.1", "0.288422019706706")])
def test_relu_with_bias(bias: str, known: str) -> None:
    """f((rho + s)/(1 + s)) = rho with f of relu in closed form."""
    point = below_one(Layer("relu", bias_variance=bias))
    with mp.workdps(40):
        b = mp.mpf(bias)

        def f(t: Any) -> Any:
            return (mp.sqrt(1 - t * t) + (mp.pi - mp.acos(t)) * t - 1) / (mp.pi - 1)

        root = mp.findroot(lambda r: f((r + b) / (1 + b)) - r, mp.mpf(known))
        assert abs(point.rho - root) <= 4e-16
        assert mp.nstr(root, 15) == known
        slope = mp.diff(f, (root + b) / (1 + b)) / (1 + b)
        assert abs(point.slope - slope) <= 1e-15


@pytest.mark.parametrize("skip", ["0.3", "0.9", "0.999"])
@pytest.mark.parametrize("name", ["gelu", "relu6", "tanh", "step", "relu", "square"])
def test_a_skip_keeps_fixed_points(name: str, skip: str) -> None:
    plain, skipped = fixed_points(layer_of(name)), fixed_points(layer_of(name, skip=skip))
    keep = float(skip) ** 2
    assert [(p.rho, p.complement, p.stability) for p in plain] == [(p.rho, p.complement, p.stability) for p in skipped]
    for before, after in zip(plain, skipped, strict=True):
        assert after.slope == pytest.approx(keep + (1 - keep) * before.slope, rel=2e-16 * 8)
        if before.stability == "attracting":
            less = -math.expm1(-1 / before.correlation_length) * (1 - keep)
            assert after.correlation_length == pytest.approx(-1 / math.log1p(-less), rel=1e-14)
        if before.stability == "marginal":
            assert after.decay_constant == pytest.approx(before.decay_constant / (1 - keep) ** 2, rel=1e-14)


def test_a_skip_ends_superattraction() -> None:
    assert [p.stability for p in fixed_points(Layer("He(3, x)"))] == ["repelling", "superattracting", "repelling"]
    _, zero, _ = fixed_points(Layer("He(3, x)", skip="0.5"))
    assert (zero.stability, zero.slope, zero.order) == ("attracting", 0.25, 1)
    assert zero.correlation_length == pytest.approx(1 / math.log(4), rel=1e-15)
    # an even map with a skip is neither even nor odd
    assert [p.rho for p in fixed_points(Layer("abs", skip="0.5"))] == [0.0, 1.0]


def test_the_smallest_slope() -> None:
    """sin(40 x): w_1 = 1600 exp(-1600)/sinh(1600)/exp(-1600), which no float holds."""
    _, zero, _ = fixed_points(Layer("sin(40*x)"))
    with mp.workdps(30):
        assert zero.correlation_length == pytest.approx(float(-1 / mp.log(1600 / mp.sinh(1600))), rel=1e-14)
    assert zero.stability == "attracting"
    assert zero.slope < 1e-300


@pytest.mark.parametrize("jump", ["1", "1e-2", "1e-5"])
def test_small_jumps(jump: str) -> None:
    """sigma = x^2 + J sign(x - 2): the slope at 1 is infinite, but only next to it does the map know."""
    layer = Layer(f"x**2 + {jump}*sign(x - 2)", normalization="rms", gain="1/2")
    below, one = fixed_points(layer)
    assert (below.stability, one.stability, one.slope) == ("attracting", "repelling", math.inf)
    delta = np.array([below.complement])
    assert float(layer.step.complement(delta)[0]) == pytest.approx(below.complement, rel=1e-14)
    sides = below.complement * np.array([0.5, 2.0])
    assert np.all(np.abs(layer.step.complement(sides) - below.complement) < np.abs(sides - below.complement))


def test_a_jump_next_to_one() -> None:
    """A jump of 1/4 at |x| = 4 keeps two inputs apart, by 1e-12."""
    text = "abs(x) + 3/4*abs(x)**2 - 2*max(abs(x) - 3, 0)**2 + 1/4*(1 if abs(x) >= 4 else 0) + 2"
    layer = Layer(text, normalization="rms")
    point = below_one(layer)
    assert 9e-13 < point.complement < 1e-12
    assert float(layer.step.complement(np.array([point.complement]))[0]) == pytest.approx(point.complement, rel=1e-14)


def test_small_slopes_keep_their_digits() -> None:
    """sin(8 x): w_1 = 64/sinh(64). cos, f(t) = (cosh(q t) - 1)/(cosh(q) - 1), with a bias of 1e-8 ends at 1e-16."""
    _, zero, _ = fixed_points(Layer("sin(8*x)"))
    assert zero.slope == pytest.approx(64 / math.sinh(64), rel=1e-14)
    point = below_one(Layer("cos", bias_variance="1e-8"))
    with mp.workdps(40):
        b = mp.mpf("1e-8")

        def f(t: Any) -> Any:
            return (mp.cosh((1 + b) * t) - 1) / (mp.cosh(1 + b) - 1)

        root = b
        for _ in range(9):
            root = f((root + b) / (1 + b))
        assert abs(point.rho / root - 1) <= 1e-14
        assert abs(point.slope / (mp.diff(f, (root + b) / (1 + b)) / (1 + b)) - 1) <= 1e-14


def test_far_below_doubles() -> None:
    """He_8 with a bias b: f = t^8, so rho* is about b^8, and kappa' about 8 b^7."""
    point = below_one(Layer("He(8, x)", bias_variance="1e-30", normalization="layer"))
    assert point.rho < 1e-239
    assert point.stability == "attracting"
    mix = below_one(Layer("He(4, x) - 4*He(7, x)", bias_variance="1e-6"))
    assert 0 < mix.rho < 1e-22
    assert 0 < mix.slope < 1e-16
    assert mix.correlation_length == pytest.approx(-1 / math.log(mix.slope), rel=1e-14)


def test_order_and_constant() -> None:
    """Normalised first, relu is as with rms after it; constants of unit inputs are those of layer normalisation."""
    for bias in (0, "0.2"):
        first = Layer("gelu", order="normalization-first", bias_variance=bias)
        assert fixed_points(first) == fixed_points(Layer("gelu", normalization="rms", bias_variance=bias))
        constant = Layer("gelu", normalization="constant", bias_variance=bias)
        assert fixed_points(constant) == fixed_points(Layer("gelu", bias_variance=bias))


@pytest.mark.parametrize("normalization", ["none", "center"])
def test_at_a_fixed_point_of_the_variance(normalization: Any) -> None:
    """tanh with weight variance 4: the map is that at the diagonal where it settles, by two-dimensional quadrature."""
    layer = Layer("tanh", normalization=normalization, gain=2, bias_variance="0.05")
    point = below_one(layer)
    z, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / math.sqrt(2 * math.pi)
    q, rho = 4 * layer.variance + 0.05, (4 * layer.variance * point.rho + 0.05) / (4 * layer.variance + 0.05)
    x = math.sqrt(q) * z[:, None]
    y = rho * x + math.sqrt(q * (1 - rho * rho)) * z
    moment = float(np.sum(w[:, None] * w * np.tanh(x) * np.tanh(y)))
    assert moment / layer.variance == pytest.approx(point.rho, rel=1e-9)
    assert [p.stability for p in fixed_points(layer)] == ["attracting", "repelling"]


def test_refusals() -> None:
    relu_layer = Layer("relu")
    with pytest.raises(ValueError, match="must be one Layer"):
        fixed_points([relu_layer, relu_layer])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no map of correlations"):
        fixed_points(Layer("relu", normalization="batch"))
    with pytest.raises(ValueError, match="no map of correlations"):
        fixed_points(Layer("exp", normalization="none"))


# ---- marginal points ------------------------------------------------------------------------------------------

MARGINAL = {
    "relu": (2.0, 9 * math.pi**2 / 2),
    "abs": (2.0, 9 * math.pi**2 / 8),
    "leaky_relu(x, negative_slope=0.5)": (2.0, 9 * math.pi**2 / 2 * 1.25**2 / 0.5**4),
    "exp": (1.0, 2.0),
    "exp(-x)": (1.0, 2.0),
}


@pytest.mark.parametrize("name", MARGINAL)
def test_marginal_decay(name: str) -> None:
    """The constants in closed form, and what a thousand layers do to a small distance."""
    layer = Layer(name, normalization="rms")
    (one,) = fixed_points(layer)
    power, constant = MARGINAL[name]
    assert (one.stability, one.rate, one.correlation_length, one.slope) == ("marginal", 1.0, math.inf, 1.0)
    assert (one.decay_power, one.decay_constant) == pytest.approx((power, constant), rel=1e-13)
    delta = np.array([1e-7 if power == 2.0 else 1e-4])
    start = (delta[0] / constant) ** (-1 / power)  # the layer at which the law has this distance
    for _ in range(1000):
        delta = layer.step.complement(delta)
    assert (delta[0] / constant) ** (-1 / power) - start == pytest.approx(1000, rel=2e-3)


def test_exp_does_not_see_a_bias() -> None:
    """exp(u + b) has the map exp(rho - 1) whatever the variance of b."""
    for bias in ("0.001", "0.5", 3, 1000):  # E exp(2 u) = e^2002 with the last
        (one,) = fixed_points(Layer("exp", normalization="rms", bias_variance=bias))
        assert one.stability == "marginal"
        assert (one.decay_power, one.decay_constant) == pytest.approx((1.0, 2.0), rel=1e-13)


def test_a_slope_that_only_rounds_to_one_is_not_marginal() -> None:
    for gain, kinds in (("1.00000000000001", ["attracting", "repelling"]), ("0.99999999999999", ["attracting"])):
        assert [p.stability for p in fixed_points(Layer("exp", normalization="rms", gain=gain))] == kinds
    (one,) = fixed_points(Layer("exp", normalization="rms", gain="0.99999999999999"))
    assert one.correlation_length == pytest.approx(1 / 2e-14, rel=1e-12)


def test_of_a_callable() -> None:
    """As the text it stands for, to what float64 has of it."""
    (one,) = fixed_points(Layer(lambda x: np.maximum(x, 0.0), normalization="rms"))
    assert one.stability == "marginal"
    found = fixed_points(Layer(lambda x: np.maximum(x - 1.0, 0.0), normalization="rms"))
    for point, wanted in zip(found, fixed_points(layer_of("relu_shift_1")), strict=True):
        assert point.rho == pytest.approx(wanted.rho, rel=1e-12)
        assert point.slope == pytest.approx(wanted.slope, rel=1e-11)
    # an excess of 2e-9 is a difference of floats: it has five digits, and its square four
    below, _ = fixed_points(Layer(lambda x: np.clip(x, 0.0, 6.0), normalization="rms"))
    assert below.complement == pytest.approx(3.9088526e-17, rel=1e-3)


def test_constants_and_factors_do_not_count() -> None:
    for bias in (0, "0.4"):
        plain, other = (fixed_points(Layer(name, bias_variance=bias)) for name in ("relu", "3*relu(x) + 5"))
        for p, q in zip(plain, other, strict=True):
            assert (p.rho, p.complement, p.slope) == pytest.approx((q.rho, q.complement, q.slope), rel=1e-14)


# ---- chords ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "hardtanh", "elu", "gelu", "exp", "softsign", "hardswish"])
def test_chords_fit_together(name: str) -> None:
    """From either side to the border, and to the slope of f at 1."""
    sigma = activation(name)
    chords = Chords(reduced_dual(sigma), sigma)
    rise, rise_rate = chords.rise(BORDER)
    fall, fall_rate = chords.fall(1 - BORDER)
    assert 1 + rise + fall == pytest.approx(chords.steepest, rel=4e-15)
    assert fall_rate / (1 - BORDER) == pytest.approx(rise_rate / BORDER, rel=1e-13)
    assert 1 + rise == pytest.approx(chords.slope(math.sqrt(1 - BORDER)), rel=4e-15)
    power, constant = chords.curvature
    assert power == (1.0 if name in ("relu", "hardtanh", "hardswish") else 2.0)
    assert chords.fall(1e-20)[0] == pytest.approx(constant * 1e-20 ** (power / 2), rel=2e-8)
    for u in (1e-14, 1e-9, 1e-5, 1e-2):
        near = chords.fall(u)
        assert near[0] > 0
        step = [chords.fall(u * math.exp(d))[0] for d in (-1e-3, 1e-3)]
        assert near[1] == pytest.approx((step[1] - step[0]) / 2e-3, rel=1e-6)


def test_chords_of_a_series_as_of_a_slope() -> None:
    """gelu's series has converged; by the dual of its slope there is another way to the same."""
    from dataclasses import replace

    sigma = activation("gelu")
    series = Chords(reduced_dual(sigma), sigma)
    slope = Chords(replace(series.f, missing=math.ulp(0.0)), sigma)
    for u in (1e-18, 1e-9, 1e-4, 0.1):
        assert slope.fall(u) == pytest.approx(series.fall(u), rel=1e-13)
    assert slope.curvature == pytest.approx(series.curvature, rel=1e-13)


# ---- properties -----------------------------------------------------------------------------------------------

SMOOTH = ["tanh", "gelu", "exp", "sigmoid", "sin", "He(2, x)", "He(3, x)", "square", "cube", "identity", "x + cos(x)"]
SCALELESS = ["relu", "abs", "leaky_relu(x, negative_slope=0.2)", "sign"]
KINKED = ["step", "hardtanh", "relu(x - 1)", "elu"]


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    """Layers whose maps take milliseconds to build; biases of kinked activations would need a new one each."""
    name = draw(st.sampled_from(SMOOTH + SCALELESS + KINKED))
    bias = draw(st.sampled_from([0, "0.001", "0.1", 1, 10])) if name not in KINKED else 0
    gain = draw(st.sampled_from([1, "0.5", "-1"])) if name in SMOOTH else 1
    skip = draw(st.sampled_from([0, "0.5", "0.99"]))
    normalization: Literal["layer", "rms"] = draw(st.sampled_from(["layer", "rms"]))
    return Layer(name, normalization=normalization, bias_variance=bias, gain=gain, skip=skip)


@given(layers())
def test_each_is_fixed_and_slopes_say_what_happens(layer: Layer) -> None:
    step = layer.step
    points = fixed_points(layer)
    event(", ".join(p.stability for p in points))
    assert points[-1].rho == 1.0
    assert all(p.rho < q.rho or p.complement > q.complement for p, q in pairwise(points))
    for p in points:
        assert float(step(np.array([p.rho]))[0]) == pytest.approx(p.rho, abs=4e-15)
        slope = float(step.slope(np.array([p.rho]))[0])
        assert p.slope == pytest.approx(slope, rel=1e-12, abs=1e-300)
        assert p.rate == p.slope or p.stability == "marginal"
        if 0 < p.complement < 1:
            assert float(step.complement(np.array([p.complement]))[0]) == pytest.approx(p.complement, rel=2e-14)
        if p.rho >= 0 and p.complement and p.stability != "neutral":
            sides = p.complement + np.array([-1, 1]) * min(1e-2, p.complement / 2)
            assert np.all(np.abs(step.complement(sides) - p.complement) < np.abs(sides - p.complement))


@given(layers(), st.floats(-0.98, 0.98))
def test_where_iteration_leads(layer: Layer, start: float) -> None:
    points = fixed_points(layer)
    if points[0].stability == "neutral":
        assert float(layer.step(np.array([start]))[0]) == pytest.approx(start, abs=1e-15)
        return
    (goal,) = (p for p in points if p.stability != "repelling")
    rho, depth = np.array([start]), 200
    for _ in range(depth):
        rho = layer.step(rho)
    slow = goal.correlation_length > 8
    event(f"{goal.stability}, {'slow' if slow else 'fast'}")
    end = float(rho[0])
    if not slow:  # distances end up like rate^l, with a factor that depends on the start
        assert abs(end - goal.rho) <= 1e-13 + 1e6 * math.exp(-depth / 8)
    elif goal.complement:  # nothing gets farther in the hyperbolic metric of the disc
        far = [abs(r - goal.rho) / (1 - r * goal.rho) for r in (start, end)]
        assert far[1] <= far[0] * (1 + 1e-13)
    else:
        assert 1 - end <= (1 - start) * (1 + 1e-13)


@given(layers())
def test_no_fixed_point_is_missed(layer: Layer) -> None:
    """kappa(rho) - rho changes its sign, between the recorded points, nowhere."""
    points = fixed_points(layer)
    if points[0].stability == "neutral":
        return
    marks = np.array([p.rho for p in points])
    grid = np.linspace(-1, 1, 2001)[1:-1]
    grid = grid[np.min(np.abs(grid[:, None] - marks), axis=1) > 1e-3]
    excess = layer.step(grid) - grid
    between = np.searchsorted(marks, grid)
    for part in np.unique(between):
        signs = np.sign(excess[between == part])
        assert np.all(signs == signs[0])


def test_the_least_bend_repels_at_the_ends_of_an_odd_map() -> None:
    """x + e x^3: f(t) = ((1 + 3 e)^2 t + 6 e^2 t^3)/V, so f'(1) - 1 = 12 e^2/V and 1 - f'(0) = 6 e^2/V."""
    e = 1e-9
    minus, zero, one = fixed_points(Layer("x + 1e-9*x**3", normalization="rms"))
    assert (minus.stability, zero.stability, one.stability) == ("repelling", "attracting", "repelling")
    assert zero.correlation_length == pytest.approx(1 / (6 * e * e), rel=1e-8)


@pytest.mark.parametrize("e", ["1e-12", "1e-14", "1e-16"])
def test_a_bend_below_rounding_is_refused(e: str) -> None:
    with pytest.raises(PrecisionError, match="keeps correlations but for less than float64 resolves"):
        fixed_points(Layer(f"x + {e}*x**2", normalization="rms"))


def test_what_lies_beyond_float64_is_refused() -> None:
    # 1 - rho of about exp(-1000): 1 - f(1 - delta) of sqrt|x| is delta times a logarithm of delta
    layer = Layer("sqrt(abs(x))", normalization="none", gain=0.001**0.5, bias_variance=1)
    with pytest.raises(PrecisionError, match="nearer than 1e-300"):
        fixed_points(layer)


@pytest.mark.parametrize("bias", [1.0, 1e6, 1e12])
def test_small_slopes_have_their_digits(bias: float) -> None:
    # He_2 over t = (rho + b)/(1 + b): kappa'(1) = 2/(1 + b)
    (point,) = (p for p in fixed_points(Layer("x**2", bias_variance=bias)) if p.rho == 1.0)
    assert point.slope == pytest.approx(2 / (1 + bias), rel=1e-14)
    assert bias == 1.0 or point.correlation_length == pytest.approx(-1 / math.log(2 / (1 + bias)), rel=1e-14)


def test_a_slope_of_nearly_nothing() -> None:
    for layer in (Layer("gelu", gain="1e-10", bias_variance=0.5), Layer("10**12 + relu(x)", normalization="rms")):
        point = fixed_points(layer)[-1]
        assert point.stability == "attracting"
        assert 0 < point.slope < 1e-11
        assert point.correlation_length == pytest.approx(-1 / math.log(point.slope), rel=1e-12)
