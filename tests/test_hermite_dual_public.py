"""The public dual: its values against tests/reference and closed forms, its arguments, and what it is as a value.

Promised: |error| <= 1e-15 (1 + B^2) E sigma^2; the map of correlations relative to 1e-14 on [0, 1] and next to 0, its
distance from 1 to 1e-14 down to 1e-300, and the digits of a dual that vanishes at -1.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import threading
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy
from _activations import DATA, SPECS
from mpmath import mpf

import hermite
from hermite import _build, activation
from hermite.errors import ConstantActivationError, NotSquareIntegrableError, PrecisionError

STORED: dict[str, Any] = json.loads((Path(__file__).parent / "reference" / "duals.json").read_text())
SMALLEST = mpf("1e-305")  # below, a float has fewer digits


def within(found: float, wanted: Any, bound: Any, *where: object) -> None:
    with mp.workdps(40):
        error = abs(mpf(found) - wanted)
        assert error <= mpf(bound), (*where, found, mp.nstr(wanted, 20), mp.nstr(error, 3))


def near(found: float, wanted: Any, relative: str, *where: object) -> None:
    within(found, wanted, mpf(relative) * abs(mpf(wanted)), *where)


# ---- values of tests/reference/duals.json ----------------------------------------------------------------------


class Stored:
    """One entry with its numbers read: the map f from both ends and from 0, and the dual."""

    def __init__(self, name: str) -> None:
        entry = STORED[name]
        self.mean, self.variance, self.second, self.low = (
            mpf(entry[key]) for key in ("mean", "variance", "second", "at_minus_one")
        )
        self.complements, self.rises, self.reduced, self.slopes = (
            [(x, mpf(v)) for x, v in entry[key]] for key in ("complement", "rise", "reduced", "slopes")
        )
        self.slope_at_ends = [mpf(v) for v in entry["slope_at_ends"]]

    def duals(self) -> list[tuple[float, Any]]:
        """(rho, d(rho)) wherever rho is a float."""
        square = self.mean**2
        upper = [(1 - x, square + self.variance * (1 - v)) for x, v in self.complements if 1 - mpf(1 - x) == x]
        lower = [(-1 + x, self.low + v) for x, v in self.rises if 1 + mpf(-1 + x) == x]
        middle = [(x, square + self.variance * v) for x, v in self.reduced]
        return [*upper, *lower, *middle, (1.0, self.second), (-1.0, self.low)]


@pytest.fixture(params=STORED)
def stored(request: pytest.FixtureRequest) -> tuple[hermite.Dual, Stored]:
    mp.mp.dps = 15  # every comparison opens its own precision
    with mp.workdps(40):
        return hermite.Dual(request.param), Stored(request.param)


def test_stored_duals(stored: tuple[hermite.Dual, Stored]) -> None:
    d, s = stored
    with mp.workdps(40):
        for rho, wanted in s.duals():
            f = (wanted - s.mean**2) / s.variance
            within(d(rho), wanted, mpf("1e-15") * s.second, "d", rho)
            within(d.normalized(rho), wanted / s.second, "1e-15", "normalized", rho)
            within(d.reduced(rho), f, "1e-15", "reduced", rho)


def test_stored_relative(stored: tuple[hermite.Dual, Stored]) -> None:
    d, s = stored
    for delta, wanted in s.complements:
        near(d.complement(delta), wanted, "1e-14", "complement", delta)
    for rho, wanted in s.reduced:
        if rho > -1e-3 and abs(wanted) > SMALLEST:
            near(d.reduced(rho), wanted, "1e-14", "reduced", rho)
        if rho > 0 and wanted > 0:
            with mp.workdps(40):
                log = mp.log(mpf(rho))
                # the rounding of log(rho) moves the answer by at most its size, for f ~ rho or rho^2
                slack = mpf("1e-14") + 4 * abs(log) * mpf(2) ** -52
                within(d.log_reduced(float(log)), mp.log(wanted), slack, "log_reduced", rho)


def test_stored_edges(stored: tuple[hermite.Dual, Stored]) -> None:
    """What vanishes at -1 keeps nine digits next to it."""
    d, s = stored
    if s.low == 0:
        assert d(-1.0) == 0
        with mp.workdps(40):
            for rho, wanted in s.duals():
                if -1 < rho < -0.8 and wanted > SMALLEST:
                    near(d(rho), wanted, "1e-9", rho)


def test_stored_slopes(stored: tuple[hermite.Dual, Stored]) -> None:
    d, s = stored
    for rho, wanted in s.slopes:
        within(d.derivative(rho), wanted, mpf("1e-13") * mpf(d.derivative(abs(rho))), rho)
    for end, wanted in zip((-1.0, 1.0), s.slope_at_ends, strict=True):
        if mp.isinf(wanted) or wanted == 0:
            assert d.derivative(end) == float(wanted)
        else:
            within(d.derivative(end), wanted, mpf("1e-13") * min(s.slope_at_ends[1], 1), end)


@pytest.mark.parametrize("name", STORED)
def test_mirrored_maps(name: str) -> None:
    """The values below 0 of what is odd or even, to the last bit: f(-rho) = -+ f(rho)."""
    d = hermite.Dual(name)
    rho = np.array([x for x, _ in Stored(name).reduced if x > 0] + [0.9, 0.95, 1 - 2.0**-53, 1.0])
    down, up = np.asarray(d.reduced(-rho)), np.asarray(d.reduced(rho))
    odd, even = np.array_equal(down, -up), np.array_equal(down, up)
    assert (odd or even) == (abs(float(down[-1])) == 1.0), name


# ---- the values of activations.json, which belong to decimals -----------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_reference(name: str) -> None:
    d, entry = hermite.Dual(SPECS.get(name, name)), DATA[name]
    with mp.workdps(40):
        second, square = mpf(entry["sum_ck2"]), mpf(entry["c"][0]) ** 2
        for text, value in entry["dual"].items():
            # f is convex on [0, 1] and |f'(-rho)| <= f'(rho): no steeper than the chord to 1
            chord = (second - mpf(entry["dual"][text.lstrip("-")])) / (1 - abs(mpf(text))) if text[-3:] != "1.0" else 0
            moved = chord * abs(mpf(float(text)) - mpf(text))
            within(d(float(text)), mpf(value), mpf("1e-15") * second + moved, text)
            if mpf(text) >= 0:
                complement = (second - mpf(value)) / (second - square)
                delta = float(1 - mpf(text))
                near(d.complement(delta), complement, "1e-14", text) if delta else None


# ---- closed forms, densely ----------------------------------------------------------------------------------------


def angle(rho: Any) -> Any:
    """arccos, without its cancellation at either end."""
    return 2 * mp.asin(mp.sqrt((1 - rho) / 2)) if rho > 0 else mp.pi - 2 * mp.asin(mp.sqrt((1 + rho) / 2))


def relu(rho: Any) -> Any:
    t = angle(rho)
    return (mp.sin(t) + (mp.pi - t) * rho) / (2 * mp.pi)


def absolute(rho: Any) -> Any:
    return 2 / mp.pi * (mp.sqrt((1 - rho) * (1 + rho)) + rho * mp.asin(rho))


def relu_2(rho: Any) -> Any:
    t = angle(rho)
    return (3 * mp.sin(t) * rho + (mp.pi - t) * (1 + 2 * rho**2)) / (2 * mp.pi)


def gelu(rho: Any) -> Any:
    root = 2 * mp.pi * mp.sqrt(4 - rho**2)
    return rho / 4 + rho / (2 * mp.pi) * mp.asin(rho / 2) + 1 / root


def bell(a: Any) -> Callable[[Any], Any]:
    """exp(-a x^2): E exp(-a (X^2 + Y^2)) = ((1 + 2a)^2 - (2 a rho)^2)^(-1/2)."""
    return lambda rho: 1 / mp.sqrt((1 + 2 * a) ** 2 - (2 * a * rho) ** 2)


def power(a: Any) -> Callable[[Any], Any]:
    """|x|^a: E |X Y|^a = 2^a Gamma((1 + a)/2)^2/pi 2F1(-a/2, -a/2; 1/2; rho^2)."""
    size = 2**a * mp.gamma((1 + a) / 2) ** 2 / mp.pi
    return lambda rho: size * mp.hyp2f1(-a / 2, -a / 2, 0.5, rho**2)


CLOSED: dict[str, tuple[Callable[[Any], Any], float]] = {
    # the dual itself, and the exponential growth rate of sigma
    "relu": (relu, 0),
    "relu(x)**2": (relu_2, 0),
    "-3*relu(-2*x) + 5": (lambda rho: 36 * relu(rho) - 60 / mp.sqrt(2 * mp.pi) + 25, 0),
    "relu(x) + sign(x)/10": (lambda rho: relu(rho) + mp.asin(rho) / (50 * mp.pi) + rho * mp.sqrt(2 / mp.pi) / 10, 0),
    "leaky_relu": (lambda rho: mpf(99) ** 2 / 10000 * relu(rho) + rho / 100, 0),
    "prelu": (lambda rho: mpf(9) / 16 * relu(rho) + rho / 4, 0),
    "abs": (absolute, 0),
    "step": (lambda rho: (mp.pi - angle(rho)) / (2 * mp.pi), 0),
    "sign": (lambda rho: 2 / mp.pi * mp.asin(rho), 0),
    # c_1 is -0.002: x and sign cancel
    "sign(x) - 4*x/5": (
        lambda rho: 2 / mp.pi * mp.asin(rho) + mpf(16) / 25 * rho - mp.sqrt(mpf(128) / 25 / mp.pi) * rho,
        0,
    ),
    "erf": (lambda rho: 2 / mp.pi * mp.asin(2 * rho / 3), 0),
    "erf(10*x)": (lambda rho: 2 / mp.pi * mp.asin(200 * rho / 201), 0),
    "exp": (lambda rho: mp.exp(1 + rho), 1),
    "exp(3*x)": (lambda rho: mp.exp(9 + 9 * rho), 3),
    "exp(-x/100)": (lambda rho: mp.exp((1 + rho) / 10000), 0),
    "sin": (lambda rho: mp.sinh(rho) / mp.e, 0),
    "cos": (lambda rho: mp.cosh(rho) / mp.e, 0),
    "sin(5*x)": (lambda rho: mp.exp(-25) * mp.sinh(25 * rho), 0),
    "gaussian": (bell(mpf(1)), 0),
    "exp(-x**2/100)": (bell(mpf(1) / 100), 0),
    "gelu": (gelu, 0),
    "sqrt(abs(x))": (lambda rho: power(mpf(1) / 2)(rho), 0),
    "abs(x)**(1/3)": (lambda rho: power(mpf(1) / 3)(rho), 0),
    "identity": (lambda rho: rho, 0),
    "square": (lambda rho: 1 + 2 * rho**2, 0),
    "cube": (lambda rho: 9 * rho + 6 * rho**3, 0),
    "hermite_polynomial": (lambda rho: rho**2, 0),
    "He(1, x) + He(2, x)": (lambda rho: rho + rho**2, 0),
    "He(40, x)": (lambda rho: rho**40, 0),
    "He(200, x)": (lambda rho: rho**200, 0),
}
_SIDE = [
    *(1e-300, 1e-100, 1e-30, 0.8593749, 0.859375, 0.8593751, 1.0),  # 0.859375: from there on the ends serve
    *(1 - np.logspace(-16, -1, 41)),
    *np.logspace(-16, -1, 25),
]
DENSE = np.unique([*_SIDE, *np.negative(_SIDE), *np.linspace(-1, 1, 64), *np.random.default_rng(4).uniform(-1, 1, 60)])


@pytest.mark.parametrize("spec", CLOSED)
def test_closed_forms(spec: str) -> None:
    d, (form, growth) = hermite.Dual(spec), CLOSED[spec]
    plain, reduced, normalized = (np.asarray(f(DENSE)).tolist() for f in (d, d.reduced, d.normalized))
    with mp.workdps(80):
        second, square, low = form(mpf(1)), form(mpf(0)), form(mpf(-1))
        for rho, value, f, kappa in zip(DENSE.tolist(), plain, reduced, normalized, strict=True):
            wanted = form(mpf(rho))
            within(value, wanted, mpf("1e-15") * (1 + growth**2) * second, rho)
            within(kappa, wanted / second, mpf("1e-15") * (1 + growth**2), rho)
            if abs(low) < mpf("1e-60") and rho < -0.9:
                near(value, wanted, "1e-9", rho) if rho > -1 else within(value, 0, 0)
            if abs(rho) >= 1e-30:  # below, eighty digits do not suffice for the difference
                exact = (wanted - square) / (second - square)
                within(f, exact, "1e-15", rho)
                if rho > -1e-3 and abs(exact) > SMALLEST:
                    near(f, exact, "1e-14", rho)


def test_every_registered_activation_is_compared_with_a_formula() -> None:
    spelled = {SPECS.get(name, name) for name in DATA} | {"hardtanh", "hardsigmoid"}
    alike = {"celu": "elu"}
    for sigma in hermite.catalogue():
        assert alike.get(sigma.name, sigma.name) in {*STORED, *CLOSED, *spelled}, sigma.name


@pytest.mark.parametrize("spec", ["tanh(10*x)", "tanh(3*x + 1)", "sigmoid(4*x)*sin(2*x)", "x*tanh(5*x)"])
@pytest.mark.parametrize("delta", [1e-3, 0.03, 0.14, 0.15, 0.6, 1.9])
def test_steep_functions_on_a_grid(spec: str, delta: float) -> None:
    """1 - f = E (sigma(X) - sigma(Y))^2/(2 variance) by the trapezoidal rule in rotated coordinates, error e^-39."""
    sigma, h = hermite.activation(spec), 0.025
    x = np.arange(-10, 10, h)
    weight = h / math.sqrt(2 * math.pi) * np.exp(-0.5 * x * x)
    variance = float(weight @ (sigma(x) - weight @ sigma(x)) ** 2)
    u, v = x[:, None] * math.sqrt(1 - delta / 2), x * math.sqrt(delta / 2)
    wanted = float(weight @ (sigma(u + v) - sigma(u - v)) ** 2 @ weight) / (2 * variance)
    assert hermite.Dual(spec).complement(delta) == pytest.approx(wanted, rel=1e-14)


# ---- gains, shifts, callables -------------------------------------------------------------------------------------

COARSE = np.array([-1.0, -1 + 1e-9, -0.9, -0.3, -1e-4, 0.0, 1e-9, 0.2, 0.77, 0.99, 1 - 1e-12, 1.0])
SOME = ["relu", "step", "tanh", "hardtanh", "elu", "threshold", "gelu", "relu(x - 1)"]


@pytest.mark.parametrize(("scale", "constant"), [(-3.0, 0.0), (1e-3, 2.0), (1e120, 0.0), (0.5, -100.0)])
@pytest.mark.parametrize("spec", SOME)
def test_gain_and_constant(spec: str, scale: float, constant: float) -> None:
    """The dual of a sigma + b is a^2 d + 2 a b c_0 + b^2; f knows neither, to all its digits."""
    sigma = hermite.activation(spec)
    moved, d = hermite.Dual(scale * sigma + constant), hermite.Dual(sigma)
    mean = hermite.coefficients(sigma, 0)[0]
    wanted = scale * scale * d(COARSE) + 2 * scale * constant * mean + constant * constant
    second = scale * scale * hermite.second_moment(sigma) + 2 * scale * constant * mean + constant * constant
    assert np.abs(moved(COARSE) - wanted).max() <= 3e-15 * second
    assert np.abs(moved.reduced(COARSE) - d.reduced(COARSE)).max() <= 2e-15
    delta = np.logspace(-300, 0, 31)
    assert moved.complement(delta) == pytest.approx(d.complement(delta), rel=2e-14)
    inside = COARSE[1:-1]
    size = 2e-13 * scale * scale * np.asarray(d.derivative(np.abs(inside)))
    assert (np.abs(moved.derivative(inside) - scale * scale * d.derivative(inside)) <= size).all()


@pytest.mark.parametrize("spec", SOME)
def test_reflection(spec: str) -> None:
    sigma = hermite.activation(spec)
    there, d = hermite.Dual(sigma.scaled(-1)), hermite.Dual(sigma)
    assert np.abs(there(COARSE) - d(COARSE)).max() <= 1e-15 * d(1.0)


CALLABLES: dict[str, Callable[[Any], Any]] = {
    "relu(x - 1)": lambda x: np.maximum(x - 1, 0),
    "relu(x - 0.3)": lambda x: np.maximum(x - 0.3, 0),  # 0.3 is no float: its kink lies between two
    "sign": np.sign,
    "step(x - 1/3)": lambda x: np.where(x >= 1 / 3, 1.0, 0.0),
    "relu(x)**2": lambda x: np.maximum(x, 0) ** 2,
    "abs": np.abs,
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "relu(x) + sign(x)/10": lambda x: np.maximum(x, 0) + np.sign(x) / 10,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "tanh": np.tanh,
    "x**2": lambda x: x * x,
    "cos": np.cos,
}


@pytest.mark.parametrize(
    "spec", [pytest.param(s, marks=pytest.mark.slow) if s == "step(x - 1/3)" else s for s in CALLABLES]
)
def test_callables(spec: str) -> None:
    """A function that was not written as a formula has its kinks and jumps found, and nearly the same digits."""
    found, d = hermite.Dual(CALLABLES[spec]), hermite.Dual(spec)
    assert np.abs(found(COARSE) - d(COARSE)).max() <= 1e-15 * d(1.0)
    assert np.abs(found.reduced(COARSE) - d.reduced(COARSE)).max() <= 1e-15
    delta = np.logspace(-300, 0, 31)
    assert found.complement(delta) == pytest.approx(d.complement(delta), rel=1e-13)
    size = np.asarray(d.derivative(np.abs(COARSE)))
    finite = np.isfinite(size)
    slopes, wanted = np.asarray(found.derivative(COARSE)), np.asarray(d.derivative(COARSE))
    assert (np.abs(slopes[finite] - wanted[finite]) <= 1e-13 * size[finite]).all()
    assert slopes[~finite].tolist() == wanted[~finite].tolist()


# ---- far out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "power", "weight"),
    [
        ("identity", 1, lambda: 1),
        ("relu", 1, lambda: mp.pi / (2 * mp.pi - 2)),
        ("exp(3*x)", 1, lambda: 9 / mp.expm1(9)),
        ("exp(20*x)", 1, lambda: 400 / mp.expm1(400)),
        ("exp(30*x)", 1, lambda: 900 / mp.expm1(900)),
        ("cos", 2, lambda: 1 / (2 * mp.cosh(1) - 2)),
        ("cos(40*x)", 2, lambda: 1600**2 / (2 * mp.cosh(1600) - 2)),
        ("sin(30*x)", 1, lambda: 900 / mp.sinh(900)),
        ("abs", 2, lambda: 1 / (mp.pi - 2)),
        ("gaussian", 2, lambda: 2 / mp.sqrt(9) ** 3 / (1 / mp.sqrt(5) - mpf(1) / 3)),
        ("He(40, x)", 40, lambda: 1),
    ],
)
def test_logarithms(spec: str, power: int, weight: Callable[[], Any]) -> None:
    """log f = p log(rho) + log(w_p) towards 0, beyond every float; -log f = delta f'(1) towards 1."""
    d = hermite.Dual(spec)
    with mp.workdps(30):
        first = float(mp.log(weight()))
    for log in (-1000.0, -1e5, -1e100, -1e308 / power):
        assert d.log_reduced(log) == pytest.approx(power * log + first, rel=1e-14)
    assert d.log_reduced([-np.inf, 0.0]).tolist() == [-np.inf, 0.0]  # type: ignore[union-attr]
    assert d.log_reduced(-1e-300) == pytest.approx(-d.complement(1e-300), rel=1e-14)
    values = np.asarray(d.log_reduced(-np.logspace(-300, 300, 121)))
    assert (np.diff(values) <= 0).all()
    rho = np.array([0.05, 0.2, 0.5, 0.73, 0.75, 0.86, 0.99])
    plain = np.asarray(d.reduced(rho))
    seen = plain > 1e-300
    assert np.asarray(d.log_reduced(np.log(rho)))[seen] == pytest.approx(
        np.log(plain[seen]), rel=3e-15, abs=3e-15 * power
    )


STEEP: dict[str, Callable[[Any], Any]] = {
    # f up to a factor
    "exp(8*x)": lambda rho: mp.expm1(64 * rho),
    "exp(20*x)": lambda rho: mp.expm1(400 * rho),
    "exp(30*x)": lambda rho: mp.expm1(900 * rho),
    "cos(10*x)": lambda rho: mp.sinh(50 * rho) ** 2,
    "cos(40*x)": lambda rho: mp.sinh(800 * rho) ** 2,
    "sin(30*x)": lambda rho: mp.sinh(900 * rho),
    "sin(10*x + 1)": lambda rho: mp.cos(1) ** 2 * mp.sinh(100 * rho) + 2 * (mp.sin(1) * mp.sinh(50 * rho)) ** 2,
    "He(400, x)": lambda rho: rho**400,
}


@pytest.mark.parametrize("spec", STEEP)
def test_maps_that_stay_small_until_near_one(spec: str) -> None:
    """Relative accuracy down to the smallest floats, with f(0.9) = 1e-17 or less; B^2 is no excuse for f."""
    d, form = hermite.Dual(spec), STEEP[spec]
    rho = np.concatenate([np.linspace(0.02, 1, 50), 1 - np.logspace(-16, -1, 31), np.logspace(-300, -3, 12)])
    up, down = np.asarray(d.reduced(rho)).tolist(), np.asarray(d.reduced(-rho)).tolist()
    with mp.workdps(60):
        one = form(mpf(1))
        for r, f, g in zip(rho.tolist(), up, down, strict=True):
            wanted = form(mpf(r)) / one
            if wanted > SMALLEST:
                near(f, wanted, "1e-14", r)
                within(d.log_reduced(math.log(r)), mp.log(wanted), 1e-14 + 8e-16 * float(abs(mp.log(wanted))), r)
            within(f, wanted, "1e-15", r)
            within(g, form(-mpf(r)) / one, "1e-15", -r)
        for delta in (1e-300, 1e-20, 1e-6, 1e-3, 0.01, 0.1, 0.5):
            change = -mp.expm1(mp.log(form(1 - mpf(delta)) / one)) if delta > 1e-40 else 0
            if change:
                near(d.complement(delta), change, "1e-14", delta)


def test_logarithm_where_the_square_of_rho_leaves_the_floats() -> None:
    assert hermite.Dual("cos").log_reduced(-1e308) == -np.inf


@pytest.mark.parametrize("spec", ["exp(20*x)", "exp(30*x)", "exp(-20*x)", "1e200*x", "1e-200*tanh(x)"])
def test_moments_beyond_the_floats(spec: str) -> None:
    """d itself is no float; the maps are."""
    d = hermite.Dual(spec)
    for verb in (d, d.derivative):
        with pytest.raises(PrecisionError, match=r"leaves float64: E sigma\^2 is about exp\(.*normalized and reduced"):
            verb(0.5)
    assert 0 < d.reduced(0.5) <= d.normalized(0.5) < 1  # type: ignore[operator]
    assert d.normalized(1.0) == d.reduced(1.0) == 1.0
    assert 0 < d.complement(1e-9) < 1e-5  # type: ignore[operator]


# ---- errors of sigma ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ("3", ConstantActivationError, "constant"),
        ("x - x + 2", ConstantActivationError, "constant"),
        ("1/x", NotSquareIntegrableError, "pole at x = 0"),
        ("exp(x**2/4)", NotSquareIntegrableError, "second moment is infinite"),
        ("log(abs(x))", PrecisionError, "singular point"),
    ],
)
def test_what_has_no_dual(spec: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        hermite.Dual(spec)
    with pytest.raises(error, match=text):
        hermite.dual(spec, 0.5)


# ---- arguments ----------------------------------------------------------------------------------------------------

VERBS = ["__call__", "derivative", "normalized", "reduced"]
NUMBERS = [
    0.5, np.float32(0.5), np.float16(0.5), np.longdouble(0.5), Fraction(1, 2), Decimal("0.5"), mpf("0.5"),
    sympy.Rational(1, 2), np.array(0.5), np.array(Fraction(1, 2), dtype=object),
]  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("rho", NUMBERS, ids=lambda r: type(r).__name__)
def test_every_kind_of_number(verb: str, rho: Any) -> None:
    f = getattr(hermite.Dual("relu"), verb)
    assert type(f(rho)) is float
    assert f(rho) == f([0.5])[0]


@pytest.mark.parametrize("verb", VERBS)
def test_integers_and_signs(verb: str) -> None:
    f = getattr(hermite.Dual("relu"), verb)
    for given in ([-1, 0, 1], np.array([-1, 0, 1], dtype=np.int8), [Fraction(-1), 0, True], (-1, -0.0, 1.0)):
        assert f(given).tolist() == f(np.array([-1.0, 0.0, 1.0])).tolist()


def test_clipping() -> None:
    """Self-cosines are 1 up to ulps: those of the dtype."""
    d = hermite.Dual("relu")
    for verb in VERBS:
        f = getattr(d, verb)
        for rho in (1 + 2.0**-52, np.float32(1 + 2.0**-23), np.float16(1 + 2.0**-10), np.longdouble(1) + 2.0**-60):
            assert f(rho) == f(1.0)
            assert f(-rho) == f(-1.0)
    assert d(1.0000000000000002) == 0.5
    assert d(-1.0000000000000002) == 0.0
    assert d.complement(-1e-16) == 0.0
    assert d.complement(2 + 4e-16) == d.complement(2.0)
    assert d.log_reduced(1e-16) == 0.0
    long = np.full(200_000, 0.5)
    long[[3, -1]] = 1 + 2.0**-52, -1 - 2.0**-52
    assert d(long)[[3, -1, 4]].tolist() == [0.5, 0.0, d(0.5)]  # type: ignore[index]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("rho", [1.1, -1.1, 1 + 1e-9, -1 - 1e-9, math.inf, -math.inf, np.float32(1.0001), 2])
def test_correlations_beyond_one(verb: str, size: int, rho: Any) -> None:
    many = np.zeros(size, dtype=np.asarray(rho).dtype)
    many[size // 2] = rho
    with pytest.raises(ValueError, match="rho must lie in") as caught:
        getattr(hermite.Dual("tanh"), verb)(many if size > 1 else rho)
    assert repr(float(rho)) in str(caught.value)


@pytest.mark.parametrize(("verb", "value", "name"), [
    ("complement", -0.1, "delta"), ("complement", 2.1, "delta"), ("log_reduced", 0.1, "log_rho"),
    ("log_reduced", math.inf, "log_rho"),
])  # fmt: skip
def test_other_arguments_beyond_their_range(verb: str, value: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must lie in .* got {value!r}"):
        getattr(hermite.Dual("relu"), verb)(value)


@pytest.mark.parametrize(
    "value", ["0.5", "relu", 0.5j, [1 + 0j], [None], None, {}, sympy.Symbol("x"), [[0.1], [0.2, 0.3]]]
)
@pytest.mark.parametrize(("verb", "name"), [("__call__", "rho"), ("complement", "delta"), ("log_reduced", "log_rho")])
def test_what_is_no_number(verb: str, name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        getattr(hermite.Dual("relu"), verb)(value)


@pytest.mark.parametrize("verb", [*VERBS, "complement", "log_reduced"])
def test_nan_stays(verb: str) -> None:
    f = getattr(hermite.Dual("relu"), verb)
    good = -0.5 if verb == "log_reduced" else 0.5
    assert math.isnan(f(math.nan))
    for size in (3, 70_000):
        given = np.full(size, good)
        given[1] = math.nan
        assert np.flatnonzero(np.isnan(f(given))).tolist() == [1]


@pytest.mark.parametrize("verb", [*VERBS, "complement"])
@pytest.mark.parametrize("spec", ["relu", "tanh", "hardtanh(10*x)", "exp(3*x)"])
def test_layouts(verb: str, spec: str) -> None:
    """Any shape and order of memory, read only; what comes back is new, of the same shape and C-contiguous."""
    f = getattr(hermite.Dual(spec), verb)
    base = np.linspace(0, 1, 240).reshape(6, 8, 5)
    layouts = [
        base, np.asfortranarray(base), base[::-1, :, ::-2], base.T, base[:, ::3], np.broadcast_to(base[0], (2, 8, 5)),
        base.astype(">f8"), base.astype(np.float32), np.zeros((0, 4)), np.zeros((3, 0, 2)), base[0, 0, 0:1].reshape(()),
        np.frombuffer(base.tobytes()[:800]),
    ]  # fmt: skip
    for given in layouts:
        before = given.copy()
        given.flags.writeable = False
        found = f(given)
        assert np.shape(found) == given.shape
        assert np.array_equal(given, before)
        assert np.array_equal(np.ravel(found), [f(x) for x in given.ravel().tolist()])
        if given.ndim:
            assert found.dtype == np.float64
            assert found.flags.c_contiguous
            assert found.flags.writeable
            assert not np.shares_memory(found, given)


@pytest.mark.parametrize("spec", ["tanh", "relu"])
def test_many_at_once(spec: str) -> None:
    """Twenty million, which threads share: the same as in parts, and NaN is not lost between pieces."""
    d = hermite.Dual(spec)
    rho = np.tile(np.random.default_rng(0).uniform(-1, 1, 100_000), 200)
    rho[12_345_678] = np.nan
    found = np.asarray(d(rho))
    assert np.flatnonzero(np.isnan(found)).tolist() == [12_345_678]
    rho[12_345_678] = rho[12_345_678 % 100_000]
    found[12_345_678] = found[12_345_678 % 100_000]
    assert (found.reshape(200, -1) == np.asarray(d(rho[:100_000]))).all()


# ---- a value ------------------------------------------------------------------------------------------------------


def test_a_dual_is_a_value() -> None:
    d = hermite.Dual("leaky_relu")
    for other in (pickle.loads(pickle.dumps(d)), copy.copy(d), copy.deepcopy(d), hermite.Dual("LeakyReLU")):
        assert other == d
        assert hash(other) == hash(d)
        assert other(0.3) == d(0.3)
    assert repr(d) == "Dual('leaky_relu')"
    assert d != hermite.Dual("relu")
    assert d != 1
    assert len({d, hermite.Dual("leaky_relu"), hermite.Dual(hermite.activation("leaky_relu"))}) == 1
    with pytest.raises(AttributeError):
        d.sigma = hermite.activation("relu")  # type: ignore[misc]
    assert hermite.dual("leaky_relu", [0.3, -1]).tolist() == [d(0.3), d(-1)]  # type: ignore[union-attr]
    assert hermite.dual(hermite.activation("leaky_relu"), 0.3) == d(0.3)


def test_threads() -> None:
    """Many threads build and call the same duals at once: one answer each, and none is built twice."""
    specs = ["relu(x - 1/7)", "tanh(x + 1/7)", "exp(x/7)"]
    rho = np.linspace(-1, 1, 70_001)
    found: list[list[Any]] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        duals = [hermite.Dual(s) for s in specs]
        found.append([(d._map, d(rho), d.derivative(rho), d.complement(1 - rho)) for d in duals])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 8
    for other in found[1:]:
        for (f, *values), (g, *others) in zip(found[0], other, strict=True):
            assert f is g
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(values, others, strict=True))


def test_no_warning_anywhere() -> None:
    """Ends, zeros, infinities and NaN are answers, not accidents."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for spec in ("relu", "step", "tanh", "cos", "relu(x)**2", "hardshrink", "exp(3*x)", "identity"):
            d = hermite.Dual(spec)
            for verb in VERBS:
                getattr(d, verb)([-1.0, -1 + 2.0**-53, -5e-324, -0.0, 0.0, 5e-324, 1 - 2.0**-53, 1.0, np.nan])
            d.complement([0.0, 5e-324, 1e-310, 1.0, 2.0, np.nan])
            d.log_reduced([-np.inf, -1e308, -1e300, -5e-324, 0.0, np.nan])


def test_a_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    sigma, built = activation("log(abs(x - 1/3))"), []
    original = _build._unconverged
    monkeypatch.setattr(_build, "_unconverged", lambda *a: built.append(1) or original(*a))
    for _ in range(3):
        with pytest.raises(PrecisionError, match="singular point"):
            hermite.Dual(sigma)
    assert len(built) == 1
