"""Moments of sigma(sqrt(q) X) as functions of q: closed forms, mpmath, the verbs at one variance, ends, callables."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite import activation
from hermite._by_variance import by_variance
from hermite.errors import NotSquareIntegrableError, PrecisionError

Q = np.array([1e-12, 1e-3, 0.2499999, 0.25, 0.3, 1.0, 3.9999, 4.0, 77.0, 1e4, 1e12])


def at(name: str, *q: float) -> dict[str, np.ndarray[Any, Any]]:
    b, v = by_variance(activation(name)), np.array(q)
    verbs = ("mean", "second", "variance", "mean_slope", "second_slope", "variance_slope", "derivative")
    return {verb: getattr(b, verb)(v) for verb in verbs}


# --- closed forms --------------------------------------------------------------------------------------------


def test_relu_is_homogeneous() -> None:
    found = at("relu", *Q)
    spread = 0.5 - 0.5 / math.pi
    np.testing.assert_allclose(found["mean"], np.sqrt(Q / (2 * math.pi)), rtol=1e-15)
    np.testing.assert_allclose(found["second"], Q / 2, rtol=2e-15)
    np.testing.assert_allclose(found["variance"], spread * Q, rtol=2e-15)
    np.testing.assert_allclose(found["mean_slope"], 0.5 / np.sqrt(2 * math.pi * Q), rtol=2e-15)
    np.testing.assert_allclose(found["second_slope"], 0.5, rtol=2e-15)
    np.testing.assert_allclose(found["variance_slope"], spread, rtol=2e-15)
    np.testing.assert_allclose(found["derivative"], 0.5, rtol=1e-15)


def test_erf_and_its_slope() -> None:
    found = at("erf", *Q)
    np.testing.assert_allclose(found["second"], 2 / math.pi * np.arctan(2 * Q / np.sqrt(1 + 4 * Q)), rtol=2e-15)
    np.testing.assert_allclose(found["derivative"], 4 / math.pi / np.sqrt(1 + 4 * Q), rtol=2e-15)
    assert np.abs(found["mean"]).max() <= 2.0**-52


def test_sin() -> None:
    q = Q[:8]
    found = at("sin", *q)
    np.testing.assert_allclose(found["second"], -np.expm1(-2 * q) / 2, rtol=2e-15)
    np.testing.assert_allclose(found["second_slope"], np.exp(-2 * q), rtol=0, atol=2e-15)
    np.testing.assert_allclose(found["derivative"], (1 + np.exp(-2 * q)) / 2, rtol=2e-15)
    bend = by_variance(activation("sin")).derivative_slope(q)
    assert np.all(np.abs(bend + np.exp(-2 * q)) <= 2e-15 / q)


def test_exp_until_it_overflows_and_beyond() -> None:
    q = np.array([0.0, 0.5, 20.0, 100.0, 350.0])
    found = at("exp", *q)
    conditioning = 2e-15 * (1 + 4 * q)
    assert np.all(np.abs(found["second"] / np.exp(2 * q) - 1) <= conditioning)
    assert np.all(np.abs(found["variance"][1:] / (np.exp(q) * np.expm1(q))[1:] - 1) <= conditioning[1:])
    assert np.all(np.abs(found["derivative"] / np.exp(2 * q) - 1) <= conditioning)
    over = at("exp", 360.0, 1e4, 1e9)
    for verb in ("second", "variance", "second_slope", "variance_slope", "derivative"):
        assert np.all(over[verb] == math.inf), verb
    assert np.all(np.isfinite(at("exp", 360.0)["mean"]))


def test_a_moment_that_is_infinite_from_a_variance_on() -> None:
    """E exp(x^2/5)^2 at variance q is (1 - 4q/5)^(-1/2); the octave [1, 4) of q has no rule, its members have."""
    q = np.array([0.5, 1.0, 1.2, 1.26, 3.0])
    found = at("exp(x**2/5)", *q)["second"]
    np.testing.assert_allclose(found[:3], (1 - 0.8 * q[:3]) ** -0.5, rtol=1e-13)
    assert np.all(found[3:] == math.inf)


def test_squares_beyond_float64_against_weights_below_it() -> None:
    """E X^120 q^60 = 119!! q^60, where sigma^2 = 1e314 at the last nodes."""
    found = at("x**60", 1000.0)["second"][0]
    assert found == pytest.approx(float(mp.fac2(119) * mp.mpf(1000) ** 60), rel=1e-12)


def test_a_bend_that_no_sample_shows() -> None:
    """gelu(S x) is 0 or S x on both ends of a bend of width 1/S: beyond S = 2000 only its place tells of it."""
    q = np.geomspace(1e-3, 1e18, 22)
    second = 0.25 + np.arctan(q / np.sqrt(1 + 2 * q)) / (2 * math.pi) + q / (math.pi * (1 + q) * np.sqrt(1 + 2 * q))
    found = at("gelu", *q)
    np.testing.assert_allclose(found["second"], q * second, rtol=3e-15)
    # E gelu'^2 - 1/2 = (c + o(1))/sqrt(q): four times nearer for every factor 16
    excess = at("gelu", 5e5, 8e6)["derivative"] - 0.5
    assert excess[0] / excess[1] == pytest.approx(4, rel=1e-5)


def test_enormous_variances_take_no_more_nodes_than_digits() -> None:
    q = np.array([1e-300, 1e40, 1e200])
    np.testing.assert_allclose(at("elu", *q)["second"], q * [1, 0.5, 0.5], rtol=4e-15)


def test_without_tangents_small_differences_stay() -> None:
    """v E tau'^2 - E tau^2 is v D - M, whatever the tangents: of sin v - (1 - e^-2v)/2 with its digits at small v."""
    v = np.array([1e-6, 1e-3, 0.1, 3.0])
    for name in ("sin", "elu", "leaky_relu", "exp", "gelu", "softplus"):
        b = by_variance(activation(name))
        found = v * b.bent_derivative(v) - b.bent_second(v)
        size = v * b.derivative(v) + b.second(v)
        assert np.all(np.abs(found - (v * b.derivative(v) - b.second(v))) <= 2e-15 * size), name
    b = by_variance(activation("sin"))
    with mp.workdps(30):
        wanted = [float(x * (1 + mp.exp(-2 * x)) / 2 - (1 - mp.exp(-2 * x)) / 2) for x in map(mp.mpf, v.tolist())]
    error = np.abs(v * b.bent_derivative(v) - b.bent_second(v) - wanted)
    assert np.all(error <= 1e-15 * np.array(wanted) + 2.0**-52 * v**2)
    relu = by_variance(activation("relu"))
    assert np.all(relu.bent_second(v) == 0)
    assert np.all(relu.bent_derivative(v) == 0)
    assert relu.bent_derivative(np.zeros(1))[0] == 0


# --- another engine ------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[int]]] = {
    "tanh": (mp.tanh, lambda x: mp.sech(x) ** 2, []),
    "gelu": (lambda x: x * mp.ncdf(x), lambda x: mp.ncdf(x) + x * mp.npdf(x), []),
    "silu": (lambda x: x / (1 + mp.exp(-x)), lambda x: (1 + x / (1 + mp.exp(x))) / (1 + mp.exp(-x)), []),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), lambda x: 1 / (1 + mp.exp(-x)) / (1 + mp.exp(x)), []),
    "hardtanh": (lambda x: max(-1, min(1, x)), lambda x: mp.mpf(abs(x) < 1), [-1, 1]),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), lambda x: mp.mpf(1) if x > 0 else mp.exp(x), []),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("q", [1e-6, 0.3, 7.0])
def test_against_mpmath(name: str, q: float) -> None:
    f, slope, kinks = FUNCTIONS[name]
    with mp.workdps(25):
        s = mp.sqrt(mp.mpf(q))

        def mean(h: Callable[[Any], Any]) -> Any:
            ends = sorted({*map(mp.mpf, (-14, -5, -1, 0, 1, 5, 14)), *(k / s for k in kinks if abs(k / s) < 14)})
            return mp.quad(lambda x: h(x) * mp.npdf(x), ends)

        first, second = mean(lambda x: f(s * x)), mean(lambda x: f(s * x) ** 2)
        wanted = {
            "mean": (first, mp.sqrt(second)),
            "second": (second, second),
            "variance": (mean(lambda x: (f(s * x) - first) ** 2), second),
            "mean_slope": (mean(lambda x: f(s * x) * (x * x - 1)) / (2 * q), mp.sqrt(second) / q),
            "second_slope": (mean(lambda x: f(s * x) ** 2 * (x * x - 1)) / (2 * q), second / q),
            "variance_slope": (mean(lambda x: (f(s * x) - first) ** 2 * (x * x - 1)) / (2 * q), second / q),
            "derivative": (mean(lambda x: slope(s * x) ** 2), mean(lambda x: slope(s * x) ** 2)),
        }
        found = at(name, q)
        for verb, (value, size) in wanted.items():
            assert abs(found[verb][0] - value) <= 2e-15 * size, verb


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_every_registered_activation_against_its_verbs(sigma: hermite.Activation) -> None:
    """Rare events lose what the tail loses to rounding of q: the gain of the verb is rounded too."""
    q = np.array([0.02, 0.9, 1.0, 5.3, 60.0])
    b = by_variance(sigma)
    found, spread = b.second(q), b.variance(q)
    for i, v in enumerate(q.tolist()):
        m = hermite.moments(sigma.scaled(Fraction(math.sqrt(v))), 0)
        rounding = 4e-15 * (60 if sigma.name == "exp" else 1)
        assert abs(found[i] - m.second_moment) <= rounding * m.second_moment
        assert abs(spread[i] - m.variance) <= rounding * m.second_moment


@pytest.mark.parametrize("name", ["tanh", "gelu", "elu", "softplus", "leaky_relu", "hardtanh", "exp", "sqrt(1 + x**2)"])
@given(q=st.floats(1e-9, 50.0))
def test_slopes_are_those_of_the_moments(name: str, q: float) -> None:
    b, h = by_variance(activation(name)), 1e-4
    v = q * (1 + h * np.array([-1.0, 1.0]))
    size = b.second(np.array([q]))[0] * (1 + q**3 * (name == "exp"))
    for moment in ("mean", "second", "variance", "derivative"):
        low, high = getattr(b, moment)(v).tolist()
        slope = getattr(b, f"{moment}_slope")(np.array([q]))[0]
        scale = max(size, abs(low), math.sqrt(size) * (moment == "mean"))
        assert abs(slope * q - (high - low) / (2 * h)) <= 1e-7 * scale + 1e-11 * abs(low), moment


@given(log_q=st.floats(-40, 40), octave=st.integers(1, 5))
def test_shape_and_neighbours_do_not_matter(log_q: float, octave: int) -> None:
    b, q = by_variance(activation("mish")), math.exp(log_q)
    among = np.array([[0.0, q], [q * 4.0**octave, q * 0.999]])
    found = b.second(among)
    assert found.shape == (2, 2)
    assert found[0, 1] == b.second(np.array(q))
    assert found[0, 0] == 0


# --- jumps, steep ends, zero ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sign", "step", "threshold(x, threshold=1, value=0)", "hardshrink"])
def test_a_jump_has_no_mean_square_slope(name: str) -> None:
    b = by_variance(activation(name))
    assert b.jumps
    assert np.all(b.derivative(np.array([1e-8, 1.0, 50.0])) == math.inf)
    assert np.all(np.isnan(b.derivative_slope(np.array([1.0]))))


def test_a_jump_away_from_zero_leaves_the_slope_at_zero() -> None:
    assert by_variance(activation("hardshrink")).derivative(np.zeros(1))[0] == 0
    assert by_variance(activation("threshold(x, threshold=-1, value=0)")).derivative(np.zeros(1))[0] == 1


def test_steep_ends() -> None:
    """The square of the slope of |x|^p is integrable for p > 1/2: E = p^2 E|X|^(2p - 2) q^(p - 1)."""
    q = np.array([0.3, 5.0])
    assert np.all(by_variance(activation("sqrt(abs(x))")).derivative(q) == math.inf)
    found = by_variance(activation("abs(x)**0.7")).derivative(q)
    moment = 2**-0.3 * math.gamma(0.2) / math.sqrt(math.pi)
    np.testing.assert_allclose(found, 0.49 * moment * q**-0.3, rtol=1e-13)


def limits(name: str) -> tuple[float, ...]:
    b, zero = by_variance(activation(name)), np.zeros(1)
    return tuple(
        float(getattr(b, verb)(zero)[0])
        for verb in ("mean", "second", "variance", "mean_slope", "second_slope", "variance_slope", "derivative")
    )


def test_zero_in_closed_form() -> None:
    inf, share = math.inf, 1 / (2 * math.pi)
    assert limits("tanh") == (0, 0, 0, 0, 1, 1, 1)
    assert limits("relu") == pytest.approx((0, 0, 0, inf, 0.5, 0.5 - share, 0.5), rel=1e-15)
    assert limits("abs") == pytest.approx((0, 0, 0, inf, 1, 1 - 4 * share, 1), rel=1e-15)
    assert limits("sigmoid") == pytest.approx((0.5, 0.25, 0, 0, 1 / 16, 1 / 16, 1 / 16), rel=1e-15)
    assert limits("cos") == (1, 1, 0, -0.5, -1, 0, 0)
    assert limits("sign") == (0, 0, 0, 0, inf, inf, inf)
    assert limits("step") == (1, 1, 0, -inf, -inf, inf, inf)
    assert limits("relu(x) + 1")[3:] == pytest.approx((inf, inf, 0.5 - share, 0.5), rel=1e-15)
    assert limits("sqrt(abs(x))")[4:] == (inf, inf, inf)


@pytest.mark.parametrize("name", ["gelu", "softplus", "elu", "cos", "exp", "He(3, x)", "selu"])
def test_zero_is_the_limit(name: str) -> None:
    b, q = by_variance(activation(name)), np.array([0.0, 1e-7])
    for verb in ("mean", "second", "variance", "second_slope", "variance_slope", "derivative"):
        first, near = getattr(b, verb)(q).tolist()
        assert near == pytest.approx(first, abs=2e-3 if name in ("elu", "selu") else 3e-6), verb


# --- callables and refusals ----------------------------------------------------------------------------------


def kinked(x: Any) -> Any:
    return np.maximum(x - 0.3, 0.1 * x)


def test_a_callable_is_as_good_as_its_text() -> None:
    q = np.array([0.0, 0.01, 0.7, 1.0, 9.0])
    ours, text = by_variance(activation(kinked)), by_variance(activation("max(x - 0.3, 0.1*x)"))
    for verb in ("mean", "second", "variance", "second_slope", "variance_slope"):
        np.testing.assert_allclose(getattr(ours, verb)(q), getattr(text, verb)(q), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(ours.derivative(q), text.derivative(q), rtol=1e-12)
    bent = by_variance(activation(lambda x: np.logaddexp(0.0, x)))
    assert bent.second_slope(np.zeros(1))[0] == pytest.approx(0.25 + math.log(2) / 4, rel=1e-6)


def test_what_is_not_resolved_is_refused() -> None:
    with pytest.raises(PrecisionError, match=r"sin is not resolved in float64 at variance 1e\+12"):
        by_variance(activation("sin")).second(np.array([1.0, 1e12]))
    with pytest.raises(NotSquareIntegrableError):
        by_variance(activation("1/x"))


def test_no_warning_and_nothing_written_to_the_argument() -> None:
    q = np.array([0.0, 1.0, 500.0])
    with np.errstate(all="raise"):
        found = by_variance(activation("exp")).second(q)
    assert q.tolist() == [0.0, 1.0, 500.0]
    assert found[0] == 1
    assert found[2] == math.inf
