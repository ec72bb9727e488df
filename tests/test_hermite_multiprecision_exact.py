"""Multiprecision moments against closed forms and integrals by parts, and the parts behind them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from _mpf import close
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mpf

import hermite
import hermite.multiprecision as hm
from hermite._extent import SQUARE
from hermite.errors import PrecisionError
from hermite.multiprecision import _quadrature, _rules
from hermite.multiprecision._interpreter import evaluate
from hermite.multiprecision._layout import layout
from hermite.multiprecision._places import place
from hermite.multiprecision._raw import from_fraction, to_mpf

NAMES = [sigma.name for sigma in hermite.catalogue()]


# ---- exact values ---------------------------------------------------------------------------------------------

EXACT: dict[str, Callable[[], Any]] = {
    "relu": lambda: (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2),
    "step": lambda: 2 - 2 / mpmath.pi,
    "exp": lambda: 2 - 1 / mpmath.expm1(1),
    "exp(10*x)": lambda: 2 - 100 / mpmath.expm1(100),
    "sin": lambda: 2 - 1 / mpmath.sinh(1),
    "erf": lambda: 2 - 2 / (3 * mpmath.asin(mpf(2) / 3)),
    "step(x - 0.7)": lambda: 2 - mpmath.npdf(mpf(7) / 10) ** 2 / (mpmath.ncdf(mpf(7) / 10) * mpmath.ncdf(-mpf(7) / 10)),
    "1000000 + sin(x)": lambda: 2 - 1 / mpmath.sinh(1),
    "He(3, x)": lambda: mpf(2),
    "2*x + 1": lambda: mpf(1),
    "cos(3*x)": lambda: mpf(2),
}


@pytest.mark.parametrize("digits", [15, 60])
@pytest.mark.parametrize("text", EXACT)
def test_strength_in_closed_form(text: str, digits: int) -> None:
    with mpmath.workdps(digits + 30):
        wanted = EXACT[text]()
    close(hm.isometry_strength(text, digits=digits), wanted, digits)


def _absolute_moment(p: Any) -> Any:
    return 2 ** (p / 2) * mpmath.gamma((p + 1) / 2) / mpmath.sqrt(mpmath.pi)


SECOND: dict[str, Callable[[], Any]] = {
    "sqrt(abs(x))": lambda: mpmath.sqrt(2 / mpmath.pi),
    "abs(x)**0.3": lambda: _absolute_moment(mpf(6) / 10),
    "abs(x)**(-0.2)": lambda: _absolute_moment(mpf(-4) / 10),
    "abs(x)**(-0.45)": lambda: _absolute_moment(mpf(-9) / 10),
    "log(abs(x))": lambda: ((mpmath.euler + mpmath.log(2)) / 2) ** 2 + mpmath.pi**2 / 8,
    "exp(0.2*x**2)": lambda: 1 / mpmath.sqrt(mpf(2) / 10),
    "exp(10*x)": lambda: mpmath.exp(200),
    "exp(20*x)": lambda: mpmath.exp(800),
    "sin(20*x)": lambda: -mpmath.expm1(-800) / 2,
    "He(40, x)": lambda: mpf(1),
    "sqrt(1/(1/4 + x**2))": lambda: (
        mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(mpf(1) / 8) * mpmath.erfc(1 / mpmath.sqrt(8))
    ),
    "abs(x**2 - 2)": lambda: mpf(3),
    "exp(-((x - 1)*1000000)**2/2)": lambda: (
        mpmath.exp(-(mpf(10) ** 12) / (2 * mpf(10) ** 12 + 1)) / mpmath.sqrt(2 * mpf(10) ** 12 + 1)
    ),
    "relu(x - 30)": lambda: 901 * mpmath.erfc(30 / mpmath.sqrt(2)) / 2 - 30 * mpmath.npdf(30),
    "1e200*step(x)": lambda: mpf(10) ** 400 / 2,
}


@pytest.mark.parametrize("digits", [30, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", SECOND)
def test_second_moment_in_closed_form(text: str, digits: int) -> None:
    """Singular ends, narrow features, growth, far tails."""
    with mpmath.workdps(2 * digits + 230):
        wanted = SECOND[text]()
    close(hm.second_moment(text, digits=digits), wanted, digits)


@pytest.mark.parametrize("digits", [30, 80])
def test_coefficients_keep_their_own_digits(digits: int) -> None:
    """exp has c_k = sqrt(e/k!): c_40 is 1e-24 of the largest, and keeps every digit."""
    c = hm.coefficients("exp", 40, digits=digits)
    with mpmath.workdps(digits + 30):
        for k in (0, 1, 7, 25, 40):
            close(c[k], mpmath.exp(mpf(1) / 2) / mpmath.sqrt(mpmath.factorial(k)), digits)


def test_coefficients_of_high_degree() -> None:
    """relu: c_k = phi(0) He_{k-2}(0)/sqrt(k (k - 1)); odd ones beyond 1 vanish."""
    c = hm.coefficients("relu", 120, digits=30)
    with mpmath.workdps(60):
        for k in (2, 40, 120):
            half = (k - 2) // 2
            he = (-1) ** half * mpmath.sqrt(mpmath.factorial(k - 2)) / (2**half * mpmath.factorial(half))
            close(c[k], he / mpmath.sqrt(2 * mpmath.pi * k * (k - 1)), 30)
        assert c[119] == 0


def test_what_vanishes_by_parity_is_zero() -> None:
    assert hm.coefficients("tanh", 6)[::2] == (0, 0, 0, 0)
    assert hm.coefficients("hardtanh(x/3)", 4)[::2] == (0, 0, 0)
    assert hm.coefficients("cos(x) + abs(x)", 5)[1::2] == (0, 0, 0)
    assert hm.coefficients("sigmoid", 4)[2::2] == (0, 0)
    assert hm.isometry_strength("x**2 + abs(x)") == 2
    assert hm.linearity("cos") == 0
    assert hm.expectation("x**3*exp(-abs(x))") == 0


def test_almost_odd_is_not_odd() -> None:
    """A shift, or a misplaced kink, of 1e-45 shows in c_0 at 30 digits, where 1e-60 counts: c_0 is -shift E sigma'."""
    with mpmath.workdps(60):
        slope = mpf("1e-45") * hm.coefficients("tanh", 1)[1]
        assert abs(hm.coefficients("tanh(x - 1e-45)", 0)[0] + slope) <= mpf("1e-59")
        jump = 2 * mpf("1e-45") * mpmath.npdf(1)
        assert abs(hm.coefficients("sign(x - 1) + sign(x + 1 + 1e-45)", 0)[0] - jump) <= mpf("1e-59")


@pytest.mark.parametrize(("name", "power"), [("sin", 3), ("sin", 6), ("exp", 9)])
def test_nearly_linear(name: str, power: int) -> None:
    """beta - 1 keeps its digits however small: 1 - a^2/sinh(a^2) for sin(a x), 1 - a^2/(exp(a^2) - 1) for exp(a x)."""
    beta = hm.isometry_strength(f"{name}(x/10**{power})", digits=30)
    with mpmath.workdps(150):
        a = mpf(10) ** -power
        exact = 1 - a * a / (mpmath.sinh(a * a) if name == "sin" else mpmath.expm1(a * a))
        assert exact < 1e-8
        close(beta - 1, exact, 30)


def test_a_large_mean_leaves_the_variance_its_digits() -> None:
    close(hm.variance("1000000 + tanh(x)"), hm.variance("tanh"), 30)
    close(hm.variance("10**30 + tanh(x)", digits=15), hm.variance("tanh"), 15)
    close(hm.variance("1e99 + tanh(x)", digits=15), hm.variance("tanh"), 15)  # beyond 4 * 15 + 40 digits of the scale
    close(hm.isometry_strength("10**12 + tanh(x)"), hm.isometry_strength("tanh"), 30)


def test_steep_and_narrow() -> None:
    close(hm.isometry_strength("tanh(1000*x)", digits=15), hm.isometry_strength("tanh(1000*x)", digits=40), 15)
    close(float(hm.second_moment("log(1e-9 + x**2)")), hermite.second_moment("log(1e-9 + x**2)"), 14)
    close(hm.isometry_strength("Phi(x - 30)"), hm.isometry_strength("Phi(x - 30)", digits=35), 30)


@pytest.mark.parametrize("text", ["(1 - cos(x))/x**2", "sqrt((x - sin(x))/x)"])
def test_cancellation_is_met_with_precision(text: str) -> None:
    """All digits of these are lost near 0 at any fixed precision."""
    close(hm.second_moment(text, digits=20), hm.second_moment(text, digits=30), 20)


@pytest.mark.parametrize("digits", [15, 25, 60])
def test_a_removable_singularity_is_followed_to_its_end(digits: int) -> None:
    """At low precision (exp(x) - 1 - x)/x^2 is 0 near 0, where 1/2 is right."""
    close(hm.expectation("(exp(x) - 1 - x)/x**2", digits=digits), _series_of_exp(), digits)
    close(hm.expectation("exp(10*x)*(1 - tanh(x))", digits=digits), _tilted(digits), digits)


def _tilted(digits: int) -> Any:
    """E exp(10 X)(1 - tanh X) = e^50 E (1 - tanh(X + 10)) = e^50 E 2/(1 + exp(2 X + 20))."""
    with mpmath.workdps(2 * digits + 30):
        mean = hm.expectation("sigmoid(-2*x - 20)", digits=digits + 5)
        return 2 * mpmath.exp(50) * mean


def _series_of_exp() -> Any:
    """E (exp(x) - 1 - x)/x^2 = sum over even k of (k - 1)!!/(k + 2)!."""
    with mpmath.workdps(60):
        return mpmath.fsum(mpmath.fac2(k - 1) / mpmath.factorial(k + 2) for k in range(0, 80, 2))


@pytest.mark.parametrize(
    "text", ["max(x, sin(3*x))", "abs(x**3 - 3*x + 1)", "sqrt(exp(x) - x - 1)", "abs(x*exp(x) - 1)"]
)
def test_ends_are_refined(text: str) -> None:
    """Roots known by a bracket, and zeros touched without a change of sign."""
    close(hm.isometry_strength(text, digits=20), hm.isometry_strength(text, digits=60), 20)
    for p in hermite.activation(text).pieces[:-1]:
        near, far = to_mpf(place(p.upper, 100)), to_mpf(place(p.upper, 300))
        with mpmath.workdps(120):
            assert abs(near - far) <= mpf(2) ** -98
            assert abs(far - mpf(p.upper.value)) <= mpf("1e-7")  # a touched zero is known to sqrt(eps) in float64


@pytest.mark.parametrize("shift", ["0.3017", "-1.7009", "2.9123"])
def test_touched_zeros_are_found_to_the_last_digit(shift: str) -> None:
    """exp(u) - u - 1 touches 0 at u = 0; float64 sees the place to 1e-8."""
    sigma = hermite.activation(f"sqrt(exp(x - ({shift})) - (x - ({shift})) - 1)")
    places = [to_mpf(place(p.upper, 300)) for p in sigma.pieces[:-1]]
    with mpmath.workdps(100):
        assert min(abs(p - mpf(shift)) for p in places) <= mpf("1e-88")


@pytest.mark.parametrize("digits", [20, 50])
@pytest.mark.parametrize("text", ["sign(tanh(x - 0.3) - (x - 0.3))", "sign(sin(x - 0.3) - (x - 0.3))"])
def test_a_jump_at_a_root_of_order_three(text: str, digits: int) -> None:
    """The values near the root are as small as the cube of the distance."""
    with mpmath.workdps(digits + 30):
        close(hm.expectation(text, digits=digits), mpmath.erf(mpf(3) / 10 / mpmath.sqrt(2)), digits)


@pytest.mark.parametrize("width", ["1e-7", "1e-12", "1e-15"])
def test_narrow_pieces_count(width: str) -> None:
    """E of 1 on (1, 1 + width) and 3 beyond."""
    text = f"(1 if x < 1 + {width} else 3) if x > 1 else 0"
    with mpmath.workdps(60):
        upper = mpmath.ncdf(-1 - mpf(width))
        close(hm.expectation(text), mpmath.ncdf(-1) + 2 * upper, 30)
        close(hm.second_moment(text), mpmath.ncdf(-1) + 8 * upper, 30)


def test_a_jump_that_float64_misplaces_is_refused() -> None:
    """Of order five: its sign drowns in rounding within 1e-3, and the jump is put beside its place."""
    with pytest.raises(PrecisionError, match="not resolved in float64"):  # one place in float64
        hm.second_moment("(1 if x < 1 + 1e-20 else 3) if x > 1 else 0")
    with pytest.raises(PrecisionError, match="not resolved in float64"):
        hm.expectation("sign(sin(x - 0.3017) - (x - 0.3017) + (x - 0.3017)**3/6)", digits=20)


# ---- properties -----------------------------------------------------------------------------------------------

_RATIONALS = st.fractions(-3, 3, max_denominator=12)


@st.composite
def piecewise_polynomials(draw: st.DrawFn) -> tuple[list[Fraction], list[list[Fraction]]]:
    kinks = sorted(draw(st.sets(_RATIONALS, min_size=1, max_size=3)))
    return kinks, [draw(st.lists(_RATIONALS, min_size=1, max_size=3)) for _ in range(len(kinks) + 1)]


def _text(kinks: list[Fraction], parts: list[list[Fraction]]) -> str:
    polynomial = [" + ".join(f"({c})*x**{k}" for k, c in enumerate(part)) for part in parts]
    out = polynomial[-1]
    for a, p in zip(reversed(kinks), reversed(polynomial[:-1]), strict=True):
        out = f"({p}) if x < ({a}) else ({out})"
    return out


def _moment(k: int, a: Any, b: Any) -> Any:
    """The integral of x^k phi(x) over (a, b) by m_k = (k - 1) m_{k-2} - [x^{k-1} phi]."""
    if k == 0:
        return mpmath.ncdf(b) - mpmath.ncdf(a)
    boundary = sum(s * (e ** (k - 1) * mpmath.npdf(e) if mpmath.isfinite(e) else 0) for s, e in ((1, b), (-1, a)))
    return ((k - 1) * _moment(k - 2, a, b) if k > 1 else 0) - boundary


@settings(max_examples=15)
@given(piecewise_polynomials())
def test_piecewise_polynomials(case: tuple[list[Fraction], list[list[Fraction]]]) -> None:
    """Against integrals by parts at 80 digits; c_k and E sigma^2 at 30."""
    kinks, parts = case
    text = _text(kinks, parts)
    found = hm.coefficients(text, 2, digits=30)
    with mpmath.workdps(80):
        ends = [-mpmath.inf, *(mpf(q.numerator) / q.denominator for q in kinks), mpmath.inf]
        rational = [[mpf(c.numerator) / c.denominator for c in part] for part in parts]

        def integral(power: int) -> Any:
            return mpmath.fsum(
                c * _moment(k + power, a, b)
                for part, a, b in zip(rational, ends[:-1], ends[1:], strict=True)
                for k, c in enumerate(part)
            )

        second = mpmath.fsum(
            c * d * _moment(j + k, a, b)
            for part, a, b in zip(rational, ends[:-1], ends[1:], strict=True)
            for j, c in enumerate(part)
            for k, d in enumerate(part)
        )
        wanted = integral(0), integral(1), (integral(2) - integral(0)) / mpmath.sqrt(2)
        size = mpmath.sqrt(second)
        for c, w in zip(found, wanted, strict=True):
            assert abs(c - w) <= mpf("1e-30") * max(abs(w), mpf("1e-30") * size)
        assert abs(hm.second_moment(text) - second) <= mpf("1e-30") * second


@settings(max_examples=10)
@given(st.sampled_from(["tanh", "relu", "gelu_tanh", "softsign"]), st.fractions("1/20", 20), st.fractions(-2, 2))
def test_strength_ignores_affine_maps_of_the_values(name: str, scale: Fraction, shift: Fraction) -> None:
    close(hm.isometry_strength(f"({scale})*{name}(x) + ({shift})"), hm.isometry_strength(name), 29.9)


@given(st.integers(2, 40), st.integers(50, 300))
def test_rules_are_exact_for_polynomials(n: int, bits: int) -> None:
    """Gauss for degree 2n - 1, Fejer for degree n - 1; nodes inside (-1, 1), weights positive."""
    for rule, top in ((_rules.gauss(n, bits), 2 * n - 2), (_rules.fejer(n, bits), (n - 1) // 2 * 2)):
        nodes, weights = rule
        assert len(nodes) == n
        assert -(1 << bits) < nodes[0] < nodes[-1] < 1 << bits
        assert min(weights) > 0
        for degree in {0, top}:
            total = sum(
                Fraction(w, 1 << bits) * Fraction(x, 1 << bits) ** degree for x, w in zip(nodes, weights, strict=True)
            )
            assert abs(total - Fraction(2, degree + 1)) <= Fraction(4 * n, 1 << bits)


@pytest.mark.parametrize("family", ["gauss", "fejer"])
def test_a_wrong_rule_is_noticed(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either rule off by 1e-12: the other contradicts it, and nothing is returned."""
    right = getattr(_quadrature, family)

    def wrong(n: int, bits: int) -> Any:
        nodes, weights = right(n, bits)
        return nodes, tuple(w + (w >> 40) for w in weights)

    monkeypatch.setattr(_quadrature, family, wrong)
    monkeypatch.setattr(_quadrature, "MAX_PANELS", 300)
    with pytest.raises(PrecisionError, match="two quadrature rules agree"):
        hm.second_moment("tanh(1.2345*x)", digits=20)


def test_a_missing_panel_is_noticed() -> None:
    sigma = hermite.activation("tanh(1.2345*x)")
    scheme = _quadrature.Scheme(20.0, 1, 120, SQUARE)
    panels = layout(sigma, 20.0, 1, SQUARE)
    settled = _quadrature.settle(panels, scheme, "tanh", "", suspicious=False)
    _quadrature.check_ground(settled, scheme, "tanh")
    with pytest.raises(PrecisionError, match="cover"):
        _quadrature.check_ground(settled[:7] + settled[8:], scheme, "tanh")


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_agrees_with_float64(name: str) -> None:
    sigma = hermite.activation(name)
    x = np.array([-3.3, -0.71, 0.2, 0.83, 2.9, 7.7])
    for t, wanted in zip(x, sigma(x), strict=True):
        piece = next(p for p in sigma.pieces if p.lower.value <= t <= p.upper.value)
        value = to_mpf(evaluate(piece.expr, [from_fraction(Fraction(t), 200)], 200)[0])
        assert float(value) == pytest.approx(wanted, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize(
    ("text", "x", "function"),
    [
        ("log1p(exp(x))", -300, lambda x: mpmath.log1p(mpmath.exp(x))),
        ("sigmoid(x)", -200, lambda x: 1 / (1 + mpmath.exp(-x))),
        ("expm1(x)", mpf(10) ** -60, mpmath.expm1),
        ("log1p(x**2)", mpf(10) ** -30, lambda x: x**2 - x**4 / 2 + x**6 / 3),
        ("Phi(x)", -25, mpmath.ncdf),
        ("1 - erf(x)", 20, mpmath.erfc),
        ("erf(x)", mpf(10) ** -50, mpmath.erf),
        ("He(30, x)", 5, lambda x: mpmath.hermite(30, x / mpmath.sqrt(2)) / mpmath.sqrt(2**30 * mpmath.factorial(30))),
    ],
)
def test_stable_forms(text: str, x: Any, function: Callable[[Any], Any]) -> None:
    """Relative accuracy where the sum, or the difference, of the naive form cancels."""
    with mpmath.workdps(60):
        argument = mpf(x)
        value = to_mpf(evaluate(hermite.activation(text).expr, [argument._mpf_], 130)[0])
        with mpmath.workdps(250):
            close(value, function(argument), 35.5)  # an ulp of u weighs u^2 = 600 in exp(-u^2)
