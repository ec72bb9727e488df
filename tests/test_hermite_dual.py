"""The reduced dual f(rho) = (dual(rho) - c_0^2)/variance: reference values, closed forms, and what is known of every f.

Promised: absolute error 1e-14, relative accuracy towards rho = 0, and PrecisionError where that is not reached.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from _activations import DATA, SPECS
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import ndtr

import hermite
from hermite._build import reduced_dual
from hermite.errors import ConstantActivationError, NotSquareIntegrableError, PrecisionError


def at(spec: str, rho: Any) -> Any:
    return reduced_dual(hermite.activation(spec))(np.asarray(rho, dtype=np.float64))


def spec_of(name: str) -> str:
    return SPECS.get(name, name)


# ---- reference values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_reference_values(name: str) -> None:
    with mp.workdps(40):
        entry = DATA[name]
        square, second = mp.mpf(entry["c"][0]) ** 2, mp.mpf(entry["sum_ck2"])
        for text, value in entry["dual"].items():
            f = (mp.mpf(value) - square) / (second - square)
            top = (mp.mpf(entry["dual"][text.lstrip("-")]) - square) / (second - square)
            rho = abs(mp.mpf(text))
            # the value belongs to the decimal, the answer to its float; f is convex on [0, 1] and
            # |f'(-rho)| <= f'(rho), so its slope is at most that of the chord from rho to 1
            slope = (1 - top) / (1 - rho) if rho < 1 else 0
            moved = abs(mp.mpf(float(text)) - mp.mpf(text)) * slope
            found = mp.mpf(float(at(spec_of(name), float(text))))
            assert abs(found - f) <= mp.mpf("1e-14") + moved, (text, found, f)
            if rho == 0:
                assert found == 0
            elif rho <= mp.mpf("0.1") and f != 0:
                assert abs(found / f - 1) <= mp.mpf("1e-12"), (text, found, f)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("3", ConstantActivationError),
        ("x - x + 2", ConstantActivationError),
        ("1/x", NotSquareIntegrableError),
        ("exp(x**2/4)", NotSquareIntegrableError),
    ],
)
def test_what_has_no_dual(spec: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        reduced_dual(hermite.activation(spec))


# ---- closed forms ---------------------------------------------------------------------------------------------


def arc_cosine(rho: Any) -> Any:
    """2 pi E relu(X) relu(Y), without the cancellation of acos near 1."""
    theta = 2 * mp.asin(mp.sqrt((1 - rho) / 2))
    return mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)


def arc_cosine_2(rho: Any) -> Any:
    """2 pi E relu(X)^2 relu(Y)^2."""
    theta = 2 * mp.asin(mp.sqrt((1 - rho) / 2))
    return 3 * mp.sin(theta) * mp.cos(theta) + (mp.pi - theta) * (1 + 2 * mp.cos(theta) ** 2)


def leaky(a: Any) -> Callable[[Any], Any]:
    return lambda rho: (1 - a) ** 2 * arc_cosine(rho) / (2 * mp.pi) + a * rho


def gelu(rho: Any) -> Any:
    delta = 4 - rho**2
    root = 2 * mp.pi * mp.sqrt(delta)
    return rho / 4 + rho / (2 * mp.pi) * mp.asin(rho / 2) + (1 + rho**2) / root - rho**2 / root


def erf(a: Any) -> Callable[[Any], Any]:
    return lambda rho: mp.asin(2 * a**2 * rho / (1 + 2 * a**2))


CLOSED: dict[str, Callable[[Any], Any]] = {
    # the dual, up to a factor and a constant: f is made of it as (g(rho) - g(0))/(g(1) - g(0))
    "relu": arc_cosine,
    "relu(3*x)": arc_cosine,
    "relu(x)**2": arc_cosine_2,
    "leaky_relu": leaky(mp.mpf(1) / 100),
    "prelu": leaky(mp.mpf(1) / 4),
    "elu(x, alpha=0)": arc_cosine,
    "abs": lambda rho: mp.sqrt(1 - rho**2) + rho * mp.asin(rho),
    "step": mp.asin,
    "sign": mp.asin,
    "5 - 2*sign(x)": mp.asin,
    "erf": erf(mp.mpf(1)),
    "erf(x/10)": erf(mp.mpf(1) / 10),
    "erf(10*x)": erf(mp.mpf(10)),
    "Phi(x)": erf(1 / mp.sqrt(2)),
    "exp": lambda rho: mp.expm1(rho),
    "exp(3*x)": lambda rho: mp.expm1(9 * rho),
    "exp(-x/100)": lambda rho: mp.expm1(rho / 10000),
    "sin": mp.sinh,
    "sin(5*x)": lambda rho: mp.sinh(25 * rho),
    "cos": mp.cosh,
    "gaussian": lambda rho: 1 / mp.sqrt(9 - 4 * rho**2),
    "gelu": gelu,
    "square": lambda rho: rho**2,
    "x**4": lambda rho: 72 * rho**2 + 24 * rho**4,
    "cube": lambda rho: 9 * rho + 6 * rho**3,
    "He(5, x)": lambda rho: rho**5,
    "He(40, x)": lambda rho: rho**40,
    "1000 + 3*x": lambda rho: rho,
    "x + 1e-4*x**2": lambda rho: rho + 2 * mp.mpf("1e-8") * rho**2,
    "x**2 + 1e-4*x": lambda rho: mp.mpf("1e-8") * rho + 2 * rho**2,
}
# w_1 is 7e-10 for sin(5*x), and an error of 1e-16 in c_1 = 2e-5 is 1e-11 of it
RELATIVE = {"sin(5*x)": "1e-10"}
CORRELATIONS = [
    *(s * v for s in (1.0, -1.0) for v in (1e-300, 1e-100, 1e-16, 1e-8, 3e-4, 0.01, 0.1, 0.2499, 0.2501)),
    *(s * v for s in (1.0, -1.0) for v in (0.3, 0.5, 0.7, 0.83, 0.9, 0.95, 0.987, 0.999, 0.99999, 1 - 1e-8)),
    *(s * v for s in (1.0, -1.0) for v in (1 - 1e-12, 1 - 2.0**-53, 1.0)),
    0.0,
]


@pytest.mark.parametrize("spec", CLOSED)
def test_closed_forms(spec: str) -> None:
    """Absolute 1e-14 everywhere, relative 1e-12 for |rho| <= 1/10."""
    # the differences with g(0) cancel down to rho = 1e-300: decimals are cheap, so take them
    found = at(spec, CORRELATIONS)
    g = CLOSED[spec]
    with mp.workdps(700):
        one, zero = g(mp.mpf(1)), g(mp.mpf(0))
        for rho, value in zip(CORRELATIONS, found.tolist(), strict=True):
            f = (g(mp.mpf(rho)) - zero) / (one - zero)
            error = abs(mp.mpf(value) - f)
            assert error <= mp.mpf("1e-14"), (rho, value, f)
            if 0 < abs(rho) <= 0.1 and abs(f) > mp.mpf("1e-290"):
                assert error <= mp.mpf(RELATIVE.get(spec, "1e-12")) * abs(f), (rho, value, f)


@pytest.mark.parametrize(
    ("spec", "form"),
    [
        # E sigma^2 = exp(800) is no float64
        ("exp(20*x)", lambda rho: mp.expm1(400 * rho) / mp.expm1(400)),
        # the mean is 14000 times the deviation
        ("cos(x/100)", lambda rho: (mp.sinh(rho / 20000) / mp.sinh(mp.mpf(1) / 20000)) ** 2),
    ],
)
def test_right_or_refused(spec: str, form: Callable[[Any], Any]) -> None:
    """Hard ones: the promise leaves the door of PrecisionError open, but not that of a wrong number."""
    rho = np.array([-1.0, -0.5, 0.001, 0.5, 0.9, 0.99, 1.0])
    with mp.workdps(40):
        wanted = [float(form(mp.mpf(r))) for r in rho.tolist()]
    try:
        found = at(spec, rho)
    except PrecisionError:
        return
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-14)


# ---- independent quadrature -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["mish", "logsigmoid", "silu", "sin(2*x + 1)", "exp(x/2 - x**2/8)", "x*cos(x) + 1"])
@pytest.mark.parametrize("rho", [-0.9, -0.35, 0.05, 0.6, 0.97])
def test_double_gauss_hermite(spec: str, rho: float) -> None:
    """E sigma(X) sigma(Y) on a product of Gauss-Hermite rules with Y = rho X + sqrt(1 - rho^2) Z."""
    sigma = hermite.activation(spec)
    x, w = np.polynomial.hermite_e.hermegauss(150)
    w = w / w.sum()
    y = rho * x[:, None] + math.sqrt(1 - rho * rho) * x[None, :]
    centred = sigma(x) - w @ sigma(x)
    values = (sigma(y) - w @ sigma(x)) @ w
    # the rule has converged to 1e-13 for these; its weights carry about as much
    assert float(at(spec, rho)) == pytest.approx(float(w @ (centred * values) / (w @ centred**2)), abs=3e-13)


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_mehler_series(sigma: hermite.Activation) -> None:
    """f(rho) = sum of w_k rho^k: 0.9^400 is 5e-19, so 400 coefficients are enough up to there."""
    c = hermite.coefficients(sigma, 400)
    weights = c[1:] ** 2 / hermite.variance(sigma)
    rho = np.array([-0.9, -0.6, -0.25, -0.1, -1e-3, 1e-6, 0.02, 0.2499, 0.2501, 0.5, 0.75, 0.9])
    wanted = np.sum(weights * rho[:, None] ** np.arange(1, 401), axis=1)
    assert np.abs(reduced_dual(sigma)(rho) - wanted).max() <= 1e-14


# ---- what holds for every f -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_every_reduced_dual(sigma: hermite.Activation) -> None:
    f, r = reduced_dual(sigma), hermite.linearity(sigma)
    rho = np.concatenate([np.linspace(0, 1, 801), 1 - np.logspace(-15, -3, 60), np.logspace(-12, -3, 60)])
    rho.sort()
    up, down = f(rho), f(-rho)
    assert (f(np.array([0.0, 1.0])) == [0.0, 1.0]).all()  # exactly: the dynamics iterate this map
    assert max(np.abs(up).max(), np.abs(down).max()) <= 1
    assert (np.diff(up) >= -1e-14).all()  # increasing on [0, 1]
    assert (np.abs(down) <= up + 1e-14).all()
    chord = np.diff(up[::40]) / np.diff(rho[::40])
    assert (np.diff(chord) >= -1e-11).all()  # convex on [0, 1]: values good to 1e-14 on steps above 1e-3
    # the lemma behind contraction: r rho <= f(rho) <= r rho + (1 - r) rho^2 on [0, 1]
    assert (up >= r * rho - 1e-14).all()
    assert (up <= r * rho + (1 - r) * rho**2 + 1e-14).all()


@pytest.mark.parametrize("name", DATA)
def test_parity_is_exact(name: str) -> None:
    """Antipodal inputs stay antipodal iff sigma - c_0 is odd, and collapse iff it is even: f(-1) is -1 or 1 exactly.

    -1 repels with factor f'(1) > 1, so an ulp here would be seen after enough layers.
    """
    rho = np.array([1e-9, 1e-3, 0.1, 0.3, 0.77, 0.9999, 1.0])
    up, down = at(spec_of(name), rho), at(spec_of(name), -rho)
    if DATA[name]["parity"] == "odd" or name in ("step", "sigmoid", "hard_sigmoid"):
        assert down.tolist() == (-up).tolist()
    elif DATA[name]["parity"] == "even":
        assert down.tolist() == up.tolist()
    else:
        assert (np.abs(down[-3:]) < up[-3:]).all()


@given(
    st.sampled_from(["relu", "tanh", "gelu", "step"]),
    st.sampled_from([-3.0, 100.0]),
    st.sampled_from([0.0, 50.0]),
    st.floats(-1, 1),
)
def test_scale_constant_and_reflection_change_nothing(name: str, scale: float, constant: float, rho: float) -> None:
    sigma = hermite.activation(name)
    value = float(reduced_dual(sigma)(np.array(rho)))
    # a constant 100 times sigma's own size costs two digits of sigma - c_0
    assert float(reduced_dual(scale * sigma + constant)(np.array(rho))) == pytest.approx(value, abs=4e-14)
    assert float(reduced_dual(sigma.scaled(-1))(np.array(rho))) == pytest.approx(value, abs=2e-14)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_sums_by_the_weights(a: float, b: float) -> None:
    """He_1, He_2, He_3 do not mix: f of a x + b He_2 + He_3 is (a^2 rho + b^2 rho^2 + rho^3)/(a^2 + b^2 + 1)."""
    parts = [hermite.activation(f"He({k}, x)") for k in (1, 2, 3)]
    sigma = a * parts[0] + b * parts[1] + parts[2]
    rho = np.array([-1.0, -0.7, -0.05, 0.2, 0.6, 0.999])
    wanted = (a**2 * rho + b**2 * rho**2 + rho**3) / (a**2 + b**2 + 1)
    assert np.abs(reduced_dual(sigma)(rho) - wanted).max() <= 1e-14


# ---- drawn ----------------------------------------------------------------------------------------------------

SOME = [
    "relu",
    "step",
    "abs",
    "hardtanh",
    "threshold",
    "softsign",
    "elu",
    "tanh",
    "gelu",
    "exp(3*x)",
    "sin(5*x)",
    "cube",
]
# below 1e-300 a product of two floats may lose digits
distances = st.one_of(st.just(0.0), st.floats(1e-300, 1), st.integers(-300, 0).map(lambda k: 10.0**k))


@given(st.sampled_from(SOME), distances)
def test_distances(spec: str, delta: float) -> None:
    """f is convex with f(1) = 1 and f(rho) <= rho on [0, 1]: distances from 1 grow, by at most f'(1)."""
    d = hermite.Dual(spec)
    change = d.complement(delta)
    assert delta * (1 - 1e-14) <= change <= 1
    if delta > 0:
        assert change <= delta * d.derivative(1.0) / hermite.variance(spec) * (1 + 1e-13)
    if 1 - (1 - delta) == delta:
        assert change + d.reduced(1 - delta) == pytest.approx(1.0, abs=4e-16)
        if change < 0.5:
            assert d.log_reduced(math.log1p(-delta)) == pytest.approx(math.log1p(-change), rel=3e-15)
    assert change <= d.complement(min(1.5 * delta, 1.0))


@given(st.sampled_from(SOME), st.floats(0, 0.999), st.floats(1e-3, 1))
def test_slopes_lie_between_chords(spec: str, rho: float, step: float) -> None:
    d = hermite.Dual(spec)
    other = rho + step * (1 - rho)
    chord = (d.complement(1 - rho) - d.complement(1 - other)) / (other - rho) * hermite.variance(spec)
    low, high = (d.derivative(r) for r in (rho, other))
    slack = 1e-11 * chord + 4e-16 * hermite.variance(spec) / (other - rho)
    assert low <= chord + slack
    assert chord <= high + slack


series = st.lists(st.integers(-8, 8).map(lambda n: Fraction(n, 4)), min_size=1, max_size=8)


@given(series, st.floats(-1, 1), st.integers(1, 4))
def test_chains_of_series(a: list[Fraction], rho: float, depth: int) -> None:
    """Layer after layer: f of a_0 + a_1 He_1 + ... is a polynomial with coefficients a_k^2/sum, in exact fractions."""
    total = sum(q * q for q in a[1:])
    assume(total > 0)
    f = reduced_dual(hermite.activation(" + ".join(f"({q})*He({k}, x)" for k, q in enumerate(a) if q)))
    exact, found = Fraction(rho), np.array([rho])
    for layer in range(depth):
        exact = sum((q * q * exact**k for k, q in enumerate(a) if k), Fraction(0)) / total
        # the digits of a numerator grow sevenfold with every layer; 200 bits are plenty
        exact = Fraction(round(exact * 2**1200), 2**1200)
        found = f(found)
        # the map may enlarge what was lost before by f' <= 7, relative to f by 7
        lost = 1e-15 * 8**layer if rho < 0 else 1e-14 * 8**layer * float(exact)
        assert abs(found[0] - exact) <= max(lost, 1e-300), (layer, found, float(exact))


def text_of(breaks: list[float], polynomials: list[list[float]]) -> str:
    texts = [f"({a} + {b}*x + {c}*x**2)" for a, b, c in polynomials]
    text = texts[-1]
    for b, left in zip(breaks[::-1], texts[-2::-1], strict=True):
        text = f"({left} if x < {b} else {text})"
    return text


def smoothed(breaks: list[float], polynomials: list[list[float]], mean: Any, width: float) -> Any:
    """E p(mean + width Z), by truncated moments of Z."""
    z = [np.full_like(mean, -40.0), *((b - mean) / width for b in breaks), np.full_like(mean, 40.0)]
    total = np.zeros_like(mean)
    for (a, b, c), low, high in zip(polynomials, z, z[1:], strict=False):
        below, above = (np.exp(-0.5 * t * t) / math.sqrt(2 * math.pi) for t in (low, high))
        mass = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
        first, second = below - above, mass + low * below - high * above
        total += (a + b * mean + c * mean**2) * mass + width * (b + 2 * c * mean) * first + c * width**2 * second
    return total


def on_a_line(breaks: list[float], polynomials: list[list[float]], rho: float) -> tuple[float, float]:
    """E p(X) p(rho X + sqrt(1 - rho^2) Z) as one integral over x, cut at the kinks and where p is smoothed; E p^2."""
    width = math.sqrt((1 - rho) * (1 + rho))
    steps = [s * k for s in (1, -1) for k in (0.0, 0.3, 1.0, 2.0, 4.0, 8.0)]
    marks = [*breaks, *((b + width * k) / rho for b in breaks for k in steps if abs(b + width * k) < 12 * abs(rho))]
    edges = np.unique([*np.arange(-12.0, 12.5), *marks])
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    x, w = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    w = w * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    values = np.choose(np.searchsorted(breaks, x), [a + b * x + c * x * x for a, b, c in polynomials])
    return math.fsum(w * values * smoothed(breaks, polynomials, rho * x, width)), math.fsum(w * values**2)


PIECES: list[tuple[list[float], list[list[float]]]] = [
    # breaks; a, b, c of a + b x + c x^2 left of the first, between them, right of the last
    ([0.25], [[1.0, 0.0, 0.0], [0.0, -1.0, 0.5]]),
    ([-1.0, 0.5], [[0.0, 1.0, 0.0], [0.5, 0.0, -1.0], [0.0, 2.0, 0.0]]),
    ([-0.5, 0.5], [[0.25, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.0, 0.0]]),
    ([-2.0, 0.0, 1.5], [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, -1.0, 0.0], [-0.5, 0.0, 0.0]]),
]


@pytest.mark.parametrize("pieces", PIECES, ids=lambda p: text_of(*p))
def test_pieces_on_a_line(pieces: tuple[list[float], list[list[float]]]) -> None:
    """Jumps, kinks and bends anywhere, against an integral of one variable."""
    d = hermite.Dual(text_of(*pieces))
    for rho in (-0.999999, -0.95, -0.86, -0.5, -0.01, 0.03, 0.4, 0.8, 0.87, 0.99, 0.9999, 1 - 1e-9):
        wanted, second = on_a_line(*pieces, rho)
        assert d(1.0) == pytest.approx(second, rel=1e-14)
        # the integral itself rounds its thousands of terms, some of them larger than the sum
        assert d(rho) == pytest.approx(wanted, abs=3e-15 * second)
        assert d.normalized(rho) == pytest.approx(wanted / second, abs=4e-15)


@pytest.mark.parametrize("spec", ["relu", "tanh", "gelu"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 4), (1, 1, 5)])
def test_shapes(spec: str, shape: tuple[int, ...]) -> None:
    rho = np.linspace(-1, 1, max(int(np.prod(shape)), 1))[: int(np.prod(shape))].reshape(shape)
    value = at(spec, rho)
    assert np.shape(value) == shape
    assert np.asarray(value).dtype == np.dtype(np.float64)
    assert np.array_equal(np.ravel(value), [float(at(spec, r)) for r in rho.ravel().tolist()])


def test_input_is_left_alone_and_nan_stays() -> None:
    for spec in ("relu", "gelu"):
        rho = np.array([0.9, -0.9, np.nan, 0.1])
        value = at(spec, rho)
        assert np.array_equal(rho, [0.9, -0.9, np.nan, 0.1], equal_nan=True)
        assert np.isnan(value).tolist() == [False, False, True, False]


def test_one_evaluator_for_equal_activations() -> None:
    first = reduced_dual(hermite.activation("tanh"))
    assert reduced_dual(pickle.loads(pickle.dumps(hermite.activation("tanh")))) is first
