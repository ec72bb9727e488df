"""hermite.symbolic.dual: closed forms against the float64 evaluator, the power series and papers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import hermite
from hermite import symbolic
from hermite._build import reduced_dual
from hermite.errors import NoClosedFormError, NotSquareIntegrableError

rho, a, b, alpha, theta, k = sp.symbols("rho a b alpha theta k")
p = sp.Symbol("p", positive=True)
x = sp.Symbol("x")
pi, sqrt, asin, exp, erf = sp.pi, sp.sqrt, sp.asin, sp.exp, sp.erf
EXACT = mp.mp.clone()  # 40 digits without touching the precision of others
EXACT.dps = 40
ROUNDING = 3e-14  # of the float64 evaluator (1e-14 of the variance) and of its moments
GRID = [Fraction(n, 1000) for n in (-999, -700, -200, 100, 500, 900, 999)]

SIMPLE = [
    "identity", "x**4 - x", "He(4, x)", "relu", "leaky_relu", "prelu", "abs", "step", "sign", "relu(x)**2",
    "relu(x)**3", "erf", "erf(3*x)", "gelu", "gelu(2*x)", "exp", "exp(2*x)", "sin", "cos", "sin(2*x + 1)", "gaussian",
]  # fmt: skip
KINKED_SUMS = ["relu(x) + x**2", "relu(x) + abs(x) + sign(x)", "x*relu(x) - step(x)", "leaky_relu(x) + 1"]
CROSS = [
    "exp(x)*sin(x)", "x*exp(-x) + cos(x)", "relu(x) + exp(x)", "sign(x) + sin(x)", "relu(x) + exp(-x**2)",
    "erf(x) + exp(x)", "erf(x) + erf(2*x)", "gelu(x) + erf(x) + x", "x*gelu(x)", "x**3*exp(-x**2)",
    "relu(x) + gelu(x)", "step(x) + erf(2*x)",
]  # fmt: skip
LONG = [  # SymPy takes seconds over the form of these
    "exp(x) + sin(x) + x**2", "sin(x) + cos(3*x) + 1", "x**5*relu(x)", "abs(x) + cos(2*x)", "exp(-x**2/2 + x)",
    "exp(-x**2)*sin(x)",
]  # fmt: skip


def number(found: Any, at: dict[Any, Any] | None = None) -> mp.mpf:
    """A real value to 30 digits."""
    value = sp.N(sp.sympify(found).subs(at or {}), 30)
    real, imaginary = value.as_real_imag()
    assert abs(imaginary) <= sp.Float("1e-20") * (1 + abs(real)), value
    return EXACT.mpf(str(real))


def same(found: Any, wanted: Any, at: dict[Any, Any] | None = None) -> None:
    u, v = number(found, at), number(wanted, at)
    assert abs(u - v) <= EXACT.mpf("1e-25") * (1 + abs(v)), (at, u, v)


def evaluator(sigma: hermite.Activation) -> tuple[Callable[[list[Fraction]], Any], float]:
    """rho -> c_0^2 + variance f(rho) in float64, and E sigma^2."""
    record = hermite.moments(sigma, 0)
    mean, reduced = float(record.coefficients[0]), reduced_dual(sigma)
    return (
        lambda where: mean**2 + record.variance * reduced(np.array([float(r) for r in where])),
        record.second_moment,
    )


@pytest.mark.parametrize(
    "sigma",
    [*SIMPLE, *KINKED_SUMS, *CROSS, *(pytest.param(s, marks=pytest.mark.slow) for s in LONG)],
)
def test_the_dual_is_that_of_float64_and_of_the_ends(sigma: str) -> None:
    found = symbolic.dual(sigma, rho)
    assert found.free_symbols <= {rho}
    assert not found.has(sp.Integral, sp.Float, sp.re, sp.im), found
    numeric, second = evaluator(hermite.activation(sigma))
    for r, wanted in zip(GRID, numeric(GRID), strict=True):
        assert abs(number(found, {rho: sp.Rational(str(r))}) - wanted) <= ROUNDING * second, r
    # at 1 the second moment, at 0 the mean squared, at -1 the mean of sigma(X) sigma(-X): parity tells it for these
    same(symbolic.dual(sigma, 1), symbolic.second_moment(sigma))
    same(symbolic.dual(sigma, 0), symbolic.coefficient(sigma, 0) ** 2)
    wanted = hermite.expectation(hermite_product(sigma))
    assert abs(number(symbolic.dual(sigma, -1)) - wanted) <= ROUNDING * second


def hermite_product(sigma: str) -> hermite.Activation:
    """sigma(x) sigma(-x)."""
    from hermite import _tree as tree

    made = hermite.activation(sigma)
    both = tree.mul(made.expr, made.scaled(-1).expr)
    return hermite.Activation(both, f"{sigma} times its mirror image", "arithmetic")


@pytest.mark.parametrize("sigma", ["relu", "step", "gelu", "gaussian", "relu(x)**0.5 - 2*relu(-x)**0.5"])
def test_the_dual_is_the_power_series_of_squared_coefficients(sigma: str) -> None:
    """sum c_k^2 rho^k from exact c_k; the tail after K terms is at most rho^(K+1) E sigma^2."""
    r, terms = sp.Rational(1, 4), 30
    row = symbolic.coefficients(sigma, terms)
    series = sum((number(c) ** 2 * EXACT.mpf(1) / 4**j for j, c in enumerate(row)), EXACT.mpf(0))
    second = number(symbolic.second_moment(sigma))
    assert abs(number(symbolic.dual(sigma, r)) - series) <= EXACT.mpf(1) / 4 ** (terms + 1) * second


PAPERS: dict[str, tuple[Callable[[], sp.Expr], sp.Expr]] = {
    "relu, Cho & Saul (2009), n = 1": (
        lambda: symbolic.dual("relu", rho),
        (sqrt(1 - rho**2) + rho * (pi - sp.acos(rho))) / (2 * pi),
    ),
    "step, Cho & Saul (2009), n = 0": (lambda: symbolic.dual("step", rho), (pi - sp.acos(rho)) / (2 * pi)),
    "relu^2, Cho & Saul (2009), n = 2": (
        lambda: symbolic.dual("relu(x)**2", rho),
        (3 * rho * sqrt(1 - rho**2) + (pi - sp.acos(rho)) * (1 + 2 * rho**2)) / (2 * pi),
    ),
    "erf, Williams (1997)": (
        lambda: symbolic.dual("erf", rho, gain=p),
        2 / pi * asin(2 * p**2 * rho / (1 + 2 * p**2)),
    ),
    "leaky_relu, slope a": (
        lambda: symbolic.dual("leaky_relu", rho, negative_slope=a),
        a * rho + (1 - a) ** 2 * (sqrt(1 - rho**2) + rho * (pi - sp.acos(rho))) / (2 * pi),
    ),
    "a on the right, b on the left": (
        lambda: symbolic.dual("a*max(x, 0) + b*min(x, 0)", rho, a=a, b=b),
        a * b * rho + (a - b) ** 2 * (sqrt(1 - rho**2) + rho * (pi - sp.acos(rho))) / (2 * pi),
    ),
    "abs": (lambda: symbolic.dual("abs", rho), 2 / pi * (sqrt(1 - rho**2) + rho * asin(rho))),
    "sign": (lambda: symbolic.dual("sign", rho), 2 / pi * asin(rho)),
    "exp with gain": (lambda: symbolic.dual("exp", rho, gain=alpha), exp(alpha**2 * (1 + rho))),
    "sin with gain": (lambda: symbolic.dual("sin", rho, gain=alpha), exp(-(alpha**2)) * sp.sinh(alpha**2 * rho)),
    "cos with gain": (lambda: symbolic.dual("cos", rho, gain=alpha), exp(-(alpha**2)) * sp.cosh(alpha**2 * rho)),
    "exp(-p x^2)": (lambda: symbolic.dual(exp(-p * x**2), rho), 1 / sqrt((1 + 2 * p) ** 2 - 4 * p**2 * rho**2)),
    "gelu, Tsuchida et al. (2021), gain 1": (
        lambda: symbolic.dual("gelu", rho),
        rho / 4 + (rho * asin(rho / 2) + 1 / sqrt(4 - rho**2)) / (2 * pi),
    ),
    "gelu with gain": (
        lambda: symbolic.dual("gelu", rho, gain=p),
        p**2 * rho / 4
        + p**2 * rho * asin(p**2 * rho / (1 + p**2)) / (2 * pi)
        + p**4 * (1 + p**2 + (1 - p**2) * rho**2) / (2 * pi * (1 + p**2) * sqrt((1 + p**2) ** 2 - p**4 * rho**2)),
    ),
    "He_k": (lambda: symbolic.dual("He(7, x)", rho), rho**7),
    "exp(x) sin(x)": (lambda: symbolic.dual("exp(x)*sin(x)", rho), (exp(2 * rho) - sp.cos(2 * rho + 2)) / 2),
    "exp(x - x^2/2)": (
        lambda: symbolic.dual("exp(-x**2/2 + x)", rho),
        exp((1 + rho) / (2 + rho)) / sqrt(4 - rho**2),
    ),
    "sign + sin": (
        lambda: symbolic.dual("sign(x) + sin(x)", rho),
        2 / pi * asin(rho) + exp(-1) * sp.sinh(rho) + 2 * exp(-sp.Rational(1, 2)) * sp.erfi(rho / sqrt(2)),
    ),
    "relu + exp": (
        lambda: symbolic.dual("relu(x) + exp(x)", rho),
        (sqrt(1 - rho**2) + rho * (pi - sp.acos(rho))) / (2 * pi)
        + exp(1 + rho)
        + 2 * exp(sp.Rational(1, 2)) * (exp(-(rho**2) / 2) / sqrt(2 * pi) + rho * (1 + erf(rho / sqrt(2))) / 2),
    ),
    "|x|^(1/2)": (
        lambda: symbolic.dual("abs(x)**(1/2)", rho),
        sqrt(2)
        * sp.gamma(sp.Rational(3, 4)) ** 2
        / pi
        * sp.hyper([-sp.Rational(1, 4)] * 2, [sp.Rational(1, 2)], rho**2),
    ),
}
VALUES = {p: sp.Rational(5, 7), a: sp.Rational(-2, 5), b: sp.Rational(4, 3), alpha: sp.Rational(-3, 4)}


@pytest.mark.parametrize("name", PAPERS)
def test_the_dual_is_that_of_papers_and_no_longer(name: str) -> None:
    ask, wanted = PAPERS[name]
    found = ask()
    assert found.free_symbols <= {rho, *VALUES}
    for r in (sp.Rational(-9, 10), sp.Rational(-1, 3), sp.Rational(1, 7), sp.Rational(19, 20)):
        same(found, wanted, VALUES | {rho: r})
    assert sp.count_ops(found) <= 1.7 * sp.count_ops(wanted) + 4, found


@pytest.mark.parametrize("sigma", ["erf", "gelu", "relu", "gaussian"])
@pytest.mark.parametrize("gain", [Fraction(-3, 2), Fraction(1, 3)])
def test_a_gain_put_into_the_formula_gives_the_dual_at_that_gain(sigma: str, gain: Fraction) -> None:
    found = symbolic.dual(sigma, rho, gain=alpha)
    assert found.free_symbols <= {rho, alpha}
    numeric, second = evaluator(hermite.activation(sigma, gain=gain))
    at = {alpha: sp.Rational(str(gain))}
    for r, wanted in zip(GRID, numeric(GRID), strict=True):
        assert abs(number(found, at | {rho: sp.Rational(str(r))}) - wanted) <= ROUNDING * second
    same(symbolic.dual(sigma, sp.Rational(2, 7), gain=gain), found, at | {rho: sp.Rational(2, 7)})


RATIOS = [Fraction(i, 3) for i in range(-6, 7) if i]
AT_ZERO = ["x", "x**2", "relu(x)", "abs(x)", "sign(x)", "x*relu(x)", "x**2*sign(x)", "1"]
SMOOTH = ["x", "x**3", "exp(x/2)", "sin(x)", "cos(2*x)", "1", "x*exp(-x/3)"]


@given(
    st.sampled_from([AT_ZERO, SMOOTH]).flatmap(
        lambda family: st.lists(st.tuples(st.sampled_from(RATIOS), st.sampled_from(family)), min_size=1, max_size=3)
    )
)
@settings(max_examples=6)
def test_random_sums_within_a_family(terms: list[tuple[Fraction, str]]) -> None:
    """Kinks at 0 among themselves, and exp, sin, cos, polynomials among themselves: never refused, always right."""
    text = " + ".join(f"({c})*{term}" for c, term in terms)
    sigma = hermite.activation(text)
    if hermite.variance(sigma) == 0:
        assert symbolic.dual(text, rho) == symbolic.coefficient(text, 0) ** 2
        return
    found, (numeric, second) = symbolic.dual(text, rho), evaluator(sigma)
    for r, wanted in zip(GRID[::2], numeric(GRID[::2]), strict=True):
        # the evaluator's accuracy is of E sigma^2, of which the variance may be a small part
        assert abs(number(found, {rho: sp.Rational(str(r))}) - wanted) <= ROUNDING * second


# ---- the argument rho -------------------------------------------------------------------------------------------


def test_rho_may_be_any_expression_or_number() -> None:
    formula = symbolic.dual("relu", rho)
    half = sqrt(3) / (4 * pi) + sp.Rational(1, 6)
    for value in (0.5, "0.5", "1/2", Fraction(1, 2), sp.Rational(1, 2), sp.Float(0.5), np.float64(0.5)):
        assert sp.simplify(symbolic.dual("relu", value) - half) == 0
    for angle in (0, sp.Rational(1, 3), 2, 3):
        same(symbolic.dual("relu", sp.cos(theta)), formula.subs(rho, sp.cos(angle)), {theta: angle})
    same(symbolic.dual("relu", sqrt(2) / 2), formula, {rho: sqrt(2) / 2})
    same(symbolic.dual("relu", 2 * theta), formula, {theta: sp.Rational(1, 5), rho: sp.Rational(2, 5)})
    assert symbolic.dual("exp", sp.Symbol("r", real=True)).free_symbols == {sp.Symbol("r", real=True)}
    for name in ("_rho", "_x", "x", "k"):
        assert symbolic.dual("identity", sp.Symbol(name)) == sp.Symbol(name)
    assert symbolic.dual("exp", rho, gain=rho) == exp(rho**2 * (rho + 1)) or number(
        symbolic.dual("exp", rho, gain=rho) - exp(rho**2 * (rho + 1)), {rho: sp.Rational(1, 3)}
    ) == pytest.approx(0, abs=1e-25)


@pytest.mark.parametrize(
    ("sigma", "at_minus_one", "at_one"),
    [
        ("relu", 0, sp.Rational(1, 2)), ("abs", 1, 1), ("step", 0, sp.Rational(1, 2)), ("sign", -1, 1),
        ("leaky_relu", -sp.Rational(1, 100), sp.Rational(10001, 20000)), ("relu(x)**2", 0, sp.Rational(3, 2)),
        ("identity", -1, 1), ("exp", 1, exp(2)), ("He(3, x)", -1, 1), ("He(4, x)", 1, 1),
        ("gaussian", 1 / sqrt(5), 1 / sqrt(5)), ("3", 9, 9),
    ],
)  # fmt: skip
def test_the_ends_are_exact(sigma: str, at_minus_one: sp.Expr, at_one: sp.Expr) -> None:
    assert sp.simplify(symbolic.dual(sigma, -1) - at_minus_one) == 0
    assert sp.simplify(symbolic.dual(sigma, 1) - at_one) == 0
    assert sp.simplify(symbolic.dual(sigma, 1.0) - at_one) == 0


@pytest.mark.parametrize("value", [1.1, -2, "a", "2", True, None, sp.I, sqrt(2), float("nan"), sp.oo, [0.5], 1 + 2e-16])
def test_a_rho_that_is_no_correlation_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="rho"):
        symbolic.dual("relu", value)


def test_a_rho_that_is_not_real_is_refused() -> None:
    with pytest.raises(ValueError, match="rho"):
        symbolic.dual("relu", sp.Symbol("r", imaginary=True))


# ---- what has no closed form ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sigma",
    [
        "relu(x - 1)",
        "hardtanh",
        "hardsigmoid",
        "softshrink",
        "step(x + 1/2)",
        "relu(x) + relu(x - 2)",
        "elu",
        "celu",
        "selu",
    ],
)
def test_kinks_elsewhere_need_the_bivariate_normal_integral(sigma: str) -> None:
    with pytest.raises(NoClosedFormError, match="bivariate normal"):
        symbolic.dual(sigma, rho)


def test_a_symbolic_place_is_refused_in_the_users_words() -> None:
    t = sp.Symbol("t", positive=True)
    with pytest.raises(NoClosedFormError, match=r"bivariate normal.*t") as caught:
        symbolic.dual(sp.Max(x - t, 0), rho)
    assert "_p_" not in str(caught.value)


@pytest.mark.parametrize("sigma", ["tanh", "sigmoid", "silu", "mish", "softplus"])
def test_what_has_no_moments_has_no_dual(sigma: str) -> None:
    with pytest.raises(NoClosedFormError, match="known identities"):
        symbolic.dual(sigma, rho)


def test_refusals_of_other_kinds() -> None:
    for value in (rho, 0, 1):
        with pytest.raises(NotSquareIntegrableError, match="integrable"):
            symbolic.dual("exp(x**2/4)", value)
    with pytest.raises(NoClosedFormError, match="power"):
        symbolic.dual("abs(x)**(1/2) + x", rho)
    with pytest.raises(NoClosedFormError, match="callable"):
        symbolic.dual(np.tanh, rho)
    with pytest.raises(NoClosedFormError, match="sign of"):
        symbolic.dual("relu", rho, gain=a * b)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", ["abs(x)**(3/2)", "relu(x)**1.5", "sign(x)*abs(x)**(1/3)"])
def test_real_powers_against_their_power_series(sigma: str) -> None:
    """No float64 evaluator has these: the series of squared coefficients, with its tail, at 1/4."""
    terms = 24
    row = [number(c) for c in symbolic.coefficients(sigma, terms)]
    for sign in (1, -1):
        series = sum((c**2 * EXACT.mpf(sign) ** j / 4**j for j, c in enumerate(row)), EXACT.mpf(0))
        tail = EXACT.mpf(1) / 4 ** (terms + 1) * number(symbolic.second_moment(sigma))
        assert abs(number(symbolic.dual(sigma, sp.Rational(sign, 4))) - series) <= tail
