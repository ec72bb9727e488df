"""hermite.symbolic: moments and Hermite coefficients in closed form, with numbers and with symbols.

The other sides: the float64 engine (quadrature), formulas of the literature, and integer k against the formula in k.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import hermite
from hermite import symbolic
from hermite.errors import (
    ActivationParseError,
    ConstantActivationError,
    NoClosedFormError,
    NotSquareIntegrableError,
    UnknownActivationError,
)
from hermite.symbolic import _answers
from hermite.symbolic._form import real_part
from hermite.symbolic._question import ask

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}
x, k, a, b, t, alpha = sp.symbols("x k a b t alpha")
p, q = sp.symbols("p q", positive=True)
n = sp.Symbol("n", negative=True)
pi, sqrt, exp, erf, erfc = sp.pi, sp.sqrt, sp.exp, sp.erf, sp.erfc
fac, fac2, cos, sin = sp.factorial, sp.factorial2, sp.cos, sp.sin
HALF = sp.Rational(1, 2)
EXACT = mp.mp.clone()  # 40 digits without touching the precision of others
EXACT.dps = 40
ROUNDING = 1e-13  # of float64 moments (they promise 1e-15 of the norm) and of one evaluation, with a margin


def number(found: Any, at: dict[Any, Any] | None = None, digits: int = 30) -> mp.mpf:
    """The value at numbers for the symbols, to many digits."""
    value = sp.N(sp.sympify(found).subs(at or {}).doit(), digits)
    assert not value.free_symbols, value
    real, imaginary = value.as_real_imag()
    assert abs(imaginary) <= sp.Float("1e-20") * (1 + abs(real)), value
    return EXACT.mpf(str(real))


def same(found: Any, wanted: Any, at: dict[Any, Any] | None = None) -> None:
    """Two formulas to 25 digits."""
    u, v = number(found, at), number(wanted, at)
    assert abs(u - v) <= EXACT.mpf("1e-25") * (1 + abs(v)), (at, u, v)


def sound(found: Any, symbols: set[sp.Symbol]) -> None:
    """No float, no unevaluated integral, and no symbol but the user's."""
    parts = found if isinstance(found, tuple) else (found,)
    for part in parts:
        assert isinstance(part, sp.Expr)
        assert not part.atoms(sp.Float), part
        assert not part.has(sp.Integral, sp.Derivative, sp.Limit, sp.nan, sp.zoo, sp.oo), part
        assert part.free_symbols <= symbols, part


def slow(*values: Any) -> Any:
    """A parameter set whose printed form takes SymPy seconds to find."""
    return pytest.param(*values, marks=pytest.mark.slow)


# ---- random activations against quadrature ----------------------------------------------------------------------

PLACES = [Fraction(i, 4) for i in range(-10, 11)]
COEFFICIENTS = [Fraction(i, 3) for i in range(-6, 7) if i]
GAINS = [Fraction(1), Fraction(2), Fraction(-1), Fraction(1, 2), Fraction(-3, 2), Fraction(7, 5)]
SMOOTH = ["x", "x**2", "x**3", "exp(x)", "exp(-x/2)", "sin(2*x)", "cos(x)", "exp(-x**2)", "x*exp(-x**2/3)"]
CENTRED = ["abs(x)", "relu(x)", "sign(x)", "x*relu(x)", "heaviside(x)*exp(-x)"]
CURVED = ["erf(x)", "erf(-x/3)", "gelu(2*x)"]
KINKED_AND_CURVED = ["x", "x**2", "abs(x)", "relu(x)", "sign(x)", "x*relu(x)", "relu(x)*erf(2*x)", *CURVED]
POWERS = ["abs(x)**(1/2)", "relu(x)**1.5", "sign(x)*abs(x)**(1/3)", "abs(x)", "x", "x**2"]


@st.composite
def piecewise_polynomials(draw: st.DrawFn) -> str:
    """A polynomial plus jumps and kinks at up to two rational places."""
    terms = [f"({draw(st.sampled_from(COEFFICIENTS))})*x**{draw(st.integers(0, 3))}"]
    for place in draw(st.lists(st.sampled_from(PLACES), max_size=2, unique=True)):
        c, power = draw(st.sampled_from(COEFFICIENTS)), draw(st.integers(0, 2))
        terms.append(
            f"({c})*max(x - ({place}), 0)**{power}" if power else f"({c})*(1 if x > {place} else 0)",
        )
    return " + ".join(terms)


@st.composite
def combinations(draw: st.DrawFn) -> str:
    """A few members of the family whose products with each other stay in it."""
    family = draw(st.sampled_from([SMOOTH + CENTRED, SMOOTH + CURVED, KINKED_AND_CURVED, POWERS]))
    chosen = draw(st.lists(st.sampled_from(family), min_size=1, max_size=3, unique=True))
    return " + ".join(f"({draw(st.sampled_from(COEFFICIENTS))})*{term}" for term in chosen)


def agree(text: str, gain: Fraction, shift: Fraction, found: tuple[sp.Expr, ...]) -> None:
    """Second moment, variance, residual and c_0..c_5 as in float64."""
    sigma = hermite.activation(text, gain=gain, shift=shift)
    numeric = hermite.moments(sigma, 5)
    sound(found, set())
    wanted = (numeric.second_moment, numeric.variance, numeric.residual)
    for ours, theirs in zip(found[:3], wanted, strict=True):
        assert abs(number(ours) - theirs) <= ROUNDING * numeric.second_moment
    for ours, theirs in zip(found[3:], numeric.coefficients, strict=True):
        assert abs(number(ours) - theirs) <= ROUNDING * math.sqrt(numeric.second_moment)


def derived(text: str, gain: Fraction, shift: Fraction) -> tuple[sp.Expr, ...]:
    """What the rules give, before a form to print is looked for: that takes most of the time."""
    found: tuple[sp.Expr, ...] = _answers._moments(ask(text, gain, shift, {}), 5, real_part)
    return found


def answered(text: str, gain: Fraction, shift: Fraction) -> tuple[sp.Expr, ...]:
    """The same through the front door."""
    found = symbolic.moments(text, 5, gain=gain, shift=shift)
    return (found.second_moment, found.variance, found.residual, *found.coefficients)


@given(piecewise_polynomials(), st.sampled_from(GAINS), st.sampled_from(PLACES))
@settings(max_examples=30)
def test_random_piecewise_polynomials_agree_with_quadrature(text: str, gain: Fraction, shift: Fraction) -> None:
    agree(text, gain, shift, derived(text, gain, shift))


@given(combinations(), st.sampled_from(GAINS))
@settings(max_examples=40)
def test_random_combinations_agree_with_quadrature(text: str, gain: Fraction) -> None:
    agree(text, gain, Fraction(0), derived(text, gain, Fraction(0)))


@pytest.mark.slow
@given(st.one_of(piecewise_polynomials(), combinations()), st.sampled_from(GAINS))
@settings(max_examples=20)
def test_random_answers_agree_with_quadrature(text: str, gain: Fraction) -> None:
    agree(text, gain, Fraction(0), answered(text, gain, Fraction(0)))


@given(piecewise_polynomials())
@settings(max_examples=6)
def test_random_formulas_in_k_agree_with_quadrature(text: str) -> None:
    """One formula for all k, at even and odd k beyond its exceptions too."""
    numeric = hermite.moments(hermite.activation(text), 12)
    formula = symbolic.coefficient(text, k)
    sound(formula, {k})
    for j in (0, 1, 2, 3, 4, 5, 11, 12):
        assert abs(number(formula, {k: j}) - numeric.coefficients[j]) <= ROUNDING * math.sqrt(numeric.second_moment)


@pytest.mark.parametrize(
    "text",
    [
        slow("elu(2*x - 1)"),
        slow("min(max(x, -1), 2)"),
        slow("heaviside(x + 1)*exp(x/2)"),
        slow("sin(x)*exp(x/2)"),
        slow("x*exp(-x**2 + x)"),
        "relu(x)*exp(-x**2)",
        "max(2*x - 1/3, 0)",
    ],
)
def test_moments_are_those_of_the_verbs_and_of_quadrature(text: str) -> None:
    found, numeric = symbolic.moments(text, 2), hermite.moments(hermite.activation(text), 2)
    for name in ("second_moment", "variance", "residual"):
        assert abs(number(getattr(found, name)) - getattr(numeric, name)) <= ROUNDING * numeric.second_moment
    same(found.strength, symbolic.isometry_strength(text))
    same(2 - symbolic.linearity(text), found.strength)
    same(found.coefficients[1] ** 2 / found.variance, symbolic.linearity(text))
    same(found.variance, symbolic.variance(text))
    assert found.coefficients == symbolic.coefficients(text, 2)
    assert (found.error, found.method) == (0.0, "closed form")


@pytest.mark.parametrize(
    "text",
    [
        "heaviside(x)*cos(x)",
        "abs(x)*sin(x)",
        slow("relu(x)*cos(x)"),
        slow("cos(x) if x < 1 else 0"),
        slow("min(max(x, -1), 1)*cos(x)"),
    ],
)
def test_sines_on_intervals(text: str) -> None:
    """Polynomial times sine on an interval: strength and coefficients within the time limit.

    From 0 on they are real term by term (erfi); elsewhere erf stands at conjugate arguments, whose sum is real.
    """
    numeric = hermite.moments(hermite.activation(text), 3)
    found = [*symbolic.coefficients(text, 3), symbolic.isometry_strength(text)]
    for ours, theirs in zip(found, [*numeric.coefficients, numeric.strength], strict=True):
        assert abs(number(ours) - theirs) <= 10 * ROUNDING
        assert "if" in text or "min" in text or not ours.has(sp.I)


@pytest.mark.parametrize(
    ("inside", "square"),
    [
        ("exp(x**2/4)", sqrt(2 / pi)),  # the square outweighs the density exactly: the integral of 1/sqrt(2 pi)
        ("exp(x**2)", sp.erfi(sqrt(HALF * 3)) / sqrt(3)),
        ("x*exp(x**2/4)", sqrt(2 / pi) / 3),
        ("exp(x**2/4 + x)", sp.sinh(2) / sqrt(2 * pi)),
    ],
)
def test_growing_exponentials_on_a_bounded_interval(inside: str, square: sp.Expr) -> None:
    """No tail, so no divergence: p = 1 - 2 q may be 0 or negative."""
    text = f"{inside} if abs(x) < 1 else 0"
    same(symbolic.second_moment(text), square)
    numeric = hermite.coefficients(hermite.activation(text), 2)
    for ours, theirs in zip(symbolic.coefficients(text, 2), numeric, strict=True):
        assert abs(number(ours) - theirs) <= ROUNDING


# ---- the formula in k -------------------------------------------------------------------------------------------

FAMILIES = [
    "identity", "x**4 - 2*x", "He(5, x)", "relu", "leaky_relu", "abs", "step", "sign", "relu(x)**2", "x*abs(x)",
    "hardtanh", "hardswish", "threshold", "relu(2*x - 1)", "exp", "exp(-x/2 + 1)", "sin", "cos", "sin(2*x + 1)",
    "x**2*sin(x)", "exp(x)*cos(2*x)", "erf", "erf(-2*x)", "gelu", "x*erf(x)", "gaussian", "exp(-x**2 + x)",
    "exp(x**2/5)", "x**3*exp(-x**2)", "elu", "sqrt(abs(x))", "relu(x)**1.5", "abs(x)**3 + x", "erf(x + 1)",
    *map(slow, (
        "prelu", "hardsigmoid", "relu6", "hardshrink", "softshrink", "gelu(x/2)", "celu(x, alpha=2)", "selu",
        "elu(x - 1/2)", "erf(x) + x**2 + exp(x)", "heaviside(x)*cos(x)", "cos(x) if x < 1 else 0", "exp(x**2/8 + x)",
    )),
]  # fmt: skip


@pytest.mark.parametrize("sigma", FAMILIES)
def test_the_formula_in_k_gives_every_coefficient(sigma: str) -> None:
    formula = symbolic.coefficient(sigma, k)
    sound(formula, {k})
    numeric = hermite.moments(hermite.activation(sigma), 12)
    norm = math.sqrt(numeric.second_moment)
    for j in range(13):
        assert abs(number(formula, {k: j}) - numeric.coefficients[j]) <= ROUNDING * norm, j
    for j in (0, 1, 4, 9):  # and by the other derivation, to all digits
        same(formula, symbolic.coefficient(sigma, j), {k: j})


FORMULAS: dict[str, tuple[sp.Expr, int]] = {  # as printed in papers, and the first k for which they hold
    "relu": (-cos(pi * k / 2) * fac2(k - 3) / sqrt(2 * pi * fac(k)), 2),  # arXiv:2305.18399, Appendix B
    "abs": (-2 * cos(pi * k / 2) * fac2(k - 3) / sqrt(2 * pi * fac(k)), 2),
    "step": (sin(pi * k / 2) * fac2(k - 2) / sqrt(2 * pi * fac(k)), 1),
    "sign": (2 * sin(pi * k / 2) * fac2(k - 2) / sqrt(2 * pi * fac(k)), 1),
    "erf": (sqrt(2) * (sp.Rational(2, 3)) ** (k / 2) * sin(pi * k / 2) * fac2(k - 2) / sqrt(pi * fac(k)), 1),
    "gelu": (-(k + 1) * cos(pi * k / 2) * fac2(k - 3) / (2 * 2 ** (k / 2) * sqrt(pi * fac(k))), 2),
    "exp": (exp(HALF) / sqrt(fac(k)), 0),
    "sin": (exp(-HALF) * sin(pi * k / 2) / sqrt(fac(k)), 0),
    "cos": (exp(-HALF) * cos(pi * k / 2) / sqrt(fac(k)), 0),
    "gaussian": ((sp.Rational(2, 3)) ** (k / 2) * cos(pi * k / 2) * fac2(k - 1) / sqrt(3 * fac(k)), 0),
    "relu(x - 1)": (sqrt(2) * exp(-HALF) * sp.hermite(k - 2, 1 / sqrt(2)) / (2 ** (k / 2) * sqrt(pi * fac(k))), 2),
    "step(x - 1)": (exp(-HALF) * sp.hermite(k - 1, 1 / sqrt(2)) / (2 ** (k / 2) * sqrt(pi * fac(k))), 1),
}  # fmt: skip


@pytest.mark.parametrize("sigma", FORMULAS)
def test_the_formula_in_k_is_that_of_papers_and_no_longer(sigma: str) -> None:
    """Equal to 25 digits, exceptional k apart where the general one fails, and not longer to print."""
    wanted, first = FORMULAS[sigma]
    found = symbolic.coefficient(sigma, k)
    general = found.args[-1].expr if isinstance(found, sp.Piecewise) else found
    apart = [c.cond.rhs for c in found.args[:-1]] if isinstance(found, sp.Piecewise) else []
    assert apart == list(range(first))
    for j in (first, first + 1, first + 2, first + 3, 20, 21):
        same(general, wanted, {k: j})
    assert sp.count_ops(general) <= sp.count_ops(wanted) + 4  # sqrt(2)/sqrt(pi) for sqrt(2/pi) counts two more


def test_the_finite_sum_of_elu() -> None:
    """c_k = [e^(1/2) Phi(-1) - phi(0) sum over j of He_j(0) + phi(0)(He_(k-1)(0) ... )]/sqrt(k!), written out here."""
    found = symbolic.coefficient("elu", k, alpha=a)
    assert found.has(sp.Sum)
    sound(found, {k, a})
    phi = 1 / sqrt(2 * pi)
    he = [1, 0]  # He_j(0), monic
    for j in range(2, 12):
        he.append(-(j - 1) * he[j - 2])
    for j in range(2, 12):
        # by parts on (-oo, 0): a(e^x - 1) gives a [e^(1/2) Phi(-1) - sum phi(0) He_i(0), i < j, + He_(j-1)(0) phi(0)]
        below = exp(HALF) * erfc(1 / sqrt(2)) / 2 - phi * sum(he[:j]) + phi * he[j - 1]
        same(found, (a * below + phi * he[j - 2]) / sqrt(fac(j)), {k: j, a: sp.Rational(3, 7)})


def test_a_symbol_declared_positive_or_even_drops_the_cases_that_cannot_be() -> None:
    plain = symbolic.coefficient("relu", k)
    positive, even = sp.Symbol("k", integer=True, positive=True), sp.Symbol("k", even=True)
    for symbol, values in ((positive, (1, 2, 3, 8)), (even, (0, 2, 8))):
        found = symbolic.coefficient("relu", symbol)
        assert found.free_symbols == {symbol}
        for j in values:
            same(found.subs(symbol, j), plain.subs(k, j))
    assert len(symbolic.coefficient("relu", positive).args) < len(plain.args)


def test_large_k_is_exact() -> None:
    """c_400 of relu: 397!! phi(0)/sqrt(400!), negative since 398/2 is odd."""
    same(symbolic.coefficient("relu", 400), -fac2(397) / sqrt(2 * pi * fac(400)))
    same(symbolic.coefficient("relu", k), -fac2(397) / sqrt(2 * pi * fac(400)), {k: 400})
    assert symbolic.coefficient("He(200, x)", 200) == 1
    assert symbolic.coefficient("relu", 399) == 0


# ---- symbols for slopes, places and gains -----------------------------------------------------------------------

Z = sp.erfc(t / sqrt(2)) / 2  # P(X > t)
PHI = exp(-(t**2) / 2) / sqrt(2 * pi)
WITH_SYMBOLS: list[tuple[str, Callable[[], sp.Expr], sp.Expr]] = [
    (
        "beta of leaky_relu with slope a",
        lambda: symbolic.isometry_strength("leaky_relu", negative_slope=a),
        2 - pi * (1 + a) ** 2 / (2 * (pi * (1 + a**2) - (1 - a) ** 2)),
    ),
    (
        "beta of leaky_relu with slope a and gain",
        lambda: symbolic.isometry_strength("leaky_relu", negative_slope=a, gain=alpha),
        2 - pi * (1 + a) ** 2 / (2 * (pi * (1 + a**2) - (1 - a) ** 2)),
    ),
    (
        "beta of relu(x - t)",
        lambda: symbolic.isometry_strength(sp.Max(x - t, 0)),
        2 - Z**2 / ((1 + t**2) * Z - t * PHI - (PHI - t * Z) ** 2),
    ),
    ("mean of relu(x + t)", lambda: symbolic.coefficient("relu", 0, shift=t), PHI + t * (1 - Z)),
    ("variance of step(x - t)", lambda: symbolic.variance("step", shift=-t), Z * (1 - Z)),
    ("beta of exp(alpha x)", lambda: symbolic.isometry_strength("exp", gain=alpha), 2 - alpha**2 / (exp(alpha**2) - 1)),
    ("beta of sin(alpha x)", lambda: symbolic.isometry_strength("sin", gain=alpha), 2 - alpha**2 / sp.sinh(alpha**2)),
    (
        "beta of erf(alpha x)",
        lambda: symbolic.isometry_strength("erf", gain=alpha),
        2 - 2 * alpha**2 / ((1 + 2 * alpha**2) * sp.asin(2 * alpha**2 / (1 + 2 * alpha**2))),
    ),
    ("beta of Phi(x)", lambda: symbolic.isometry_strength("Phi(x)"), 2 - 3 / pi),
    (
        "beta of relu does not depend on the gain",
        lambda: symbolic.isometry_strength("relu", gain=alpha),
        (3 * pi - 4) / (2 * pi - 2),
    ),
    (
        "E exp(n x^2 + b x), squared",
        lambda: symbolic.second_moment(sp.exp(n * x**2 + b * x)),
        exp(2 * b**2 / (1 - 4 * n)) / sqrt(1 - 4 * n),
    ),
    (
        "hardtanh between -p and p",
        lambda: symbolic.variance("hardtanh", min_val=-p, max_val=p),
        erf(p / sqrt(2)) + p**2 * erfc(p / sqrt(2)) - p * sqrt(2 / pi) * exp(-(p**2) / 2),
    ),
    ("|x|^p", lambda: symbolic.second_moment(sp.Abs(x) ** p), 2**p * sp.gamma(p + HALF) / sqrt(pi)),
    (
        "sin(a x + b), k = 3",
        lambda: symbolic.coefficient(sp.sin(a * x + b), 3),
        -(a**3) * exp(-(a**2) / 2) * cos(b) / sqrt(6),
    ),
    ("p^x", lambda: symbolic.coefficient(p**x, 2), exp(sp.log(p) ** 2 / 2) * sp.log(p) ** 2 / sqrt(2)),
    (
        "slope on each side",
        lambda: symbolic.variance("a*max(x, 0) + b*min(x, 0)", a=a, b=b),
        (a**2 + b**2) / 2 - (a - b) ** 2 / (2 * pi),
    ),
    ("E Phi(x - a)", lambda: symbolic.expectation("Phi(x - a)", a=a), erfc(a / 2) / 2),
    (
        "c_2 of Phi(x - a)",
        lambda: symbolic.coefficient("Phi(x - a)", 2, a=a),
        a * exp(-(a**2) / 4) / (4 * sqrt(2) * sqrt(pi)),
    ),
    ("gain sqrt(2)", lambda: symbolic.second_moment("exp", gain=sqrt(2)), exp(4)),
    ("gain pi", lambda: symbolic.coefficient("relu", 1, gain=pi), pi / 2),
    ("slope sqrt(2)", lambda: symbolic.coefficient("leaky_relu", 1, negative_slope=sqrt(2)), (1 + sqrt(2)) / 2),
    ("place sqrt(2)", lambda: symbolic.coefficient("step", 0, shift=-sqrt(2)), erfc(1) / 2),
]
VALUES = {a: sp.Rational(3, 7), b: sp.Rational(-5, 3), t: sp.Rational(4, 9), alpha: sp.Rational(-6, 5)}
VALUES |= {p: sp.Rational(8, 5), q: sp.Rational(1, 3), n: sp.Rational(-2, 7)}


@pytest.mark.parametrize(("question", "wanted"), [c[1:] for c in WITH_SYMBOLS], ids=[c[0] for c in WITH_SYMBOLS])
def test_a_formula_in_the_users_symbols(question: Callable[[], sp.Expr], wanted: sp.Expr) -> None:
    found = question()
    sound(found, set(VALUES))
    same(found, wanted, VALUES)
    same(found, wanted, {s: v / 2 for s, v in VALUES.items()})
    assert sp.count_ops(found) <= 1.6 * sp.count_ops(wanted) + 6


def test_beta_of_leaky_relu_prints_without_nested_fractions() -> None:
    found = symbolic.isometry_strength("leaky_relu", negative_slope=a)
    for part in sp.preorder_traversal(found):
        if part.is_Pow and part.exp.is_negative and part.base.is_Add:
            assert all(sp.fraction(term)[1] == 1 for term in part.base.args), found


THIRD, QUARTER = Fraction(1, 3), Fraction(1, 4)
SUBSTITUTED: list[Any] = [
    ("leaky_relu", {"negative_slope": a}, {a: -THIRD}),
    ("relu", {"gain": alpha}, {alpha: -6 * QUARTER}),
    ("erf", {"gain": alpha}, {alpha: Fraction(-2)}),
    ("gelu", {"gain": alpha}, {alpha: -THIRD}),
    ("gaussian", {"gain": alpha}, {alpha: -5 * QUARTER}),
    ("exp", {"gain": a, "shift": b}, {a: -2 * THIRD, b: 2 * QUARTER}),
    ("step", {"gain": alpha}, {alpha: -5 * QUARTER}),
    ("He(3, x)", {"gain": alpha}, {alpha: -QUARTER}),
    slow("relu", {"gain": p, "shift": t}, {p: 3 * QUARTER, t: Fraction(-1, 5)}),
    slow("relu", {"gain": alpha, "shift": t}, {alpha: -3 * QUARTER, t: Fraction(-1, 5)}),
    slow("elu", {"alpha": a, "gain": n}, {a: Fraction(2), n: -2 * QUARTER}),
    slow("hardtanh", {"min_val": -p, "max_val": q}, {p: 2 * QUARTER, q: 5 * QUARTER}),
    slow("hardtanh", {"gain": alpha}, {alpha: Fraction(-2)}),
]


@pytest.mark.parametrize(("sigma", "symbols", "values"), SUBSTITUTED)
def test_numbers_put_into_the_formula_answer_the_numeric_question(
    sigma: str, symbols: dict[str, Any], values: dict[Any, Any]
) -> None:
    """Of either sign where nothing is declared: |alpha|, sign(alpha)^k and cases are what that takes."""
    at = {s: sp.Rational(v.numerator, v.denominator) for s, v in values.items()}
    numbers: dict[str, Any] = {name: Fraction(str(sp.sympify(v).subs(at))) for name, v in symbols.items()}
    for j in (0, 1, 2, 3):
        found = symbolic.coefficient(sigma, j, **symbols)
        sound(found, set(values))
        same(found, symbolic.coefficient(sigma, j, **numbers), at)
    formula = symbolic.coefficient(sigma, k, **symbols)
    sound(formula, {*values, k})
    for j in (0, 1, 2, 3, 6, 7):
        same(formula, symbolic.coefficient(sigma, j, **numbers), at | {k: j})
    same(symbolic.second_moment(sigma, **symbols), symbolic.second_moment(sigma, **numbers), at)


def test_a_gain_of_unknown_sign_is_read_at_its_absolute_value() -> None:
    assert symbolic.coefficient("relu", 1, gain=alpha) == alpha / 2
    found = symbolic.coefficient("relu", k, gain=alpha)
    assert found.has(sp.Abs)
    assert found.has(sp.sign)
    assert not symbolic.coefficient("step", 3, gain=alpha).has(sp.Abs)
    assert symbolic.coefficient("step", 0, gain=alpha) == HALF
    assert symbolic.coefficient("relu", 2, gain=p) == p / (2 * sqrt(pi))
    assert symbolic.coefficient("relu", 2, gain=n) == -n / (2 * sqrt(pi))
    for formula in (symbolic.coefficient(s, k, gain=alpha) for s in ("erf", "gelu", "gaussian")):
        assert not formula.has(sp.I)


def test_another_symbol_of_unknown_sign_gives_cases() -> None:
    found = symbolic.coefficient(sp.Max(a * x, 0), 0)
    for value in (-2, sp.Rational(1, 3)):
        same(found, abs(value) / sqrt(2 * pi), {a: value})
    clipped = symbolic.variance(sp.Max(-t, sp.Min(t, x)))
    same(clipped, 0, {t: -1})
    same(clipped, symbolic.variance("hardtanh"), {t: 1})


def test_two_symbols_of_one_name_stay_two() -> None:
    one, two = sp.Dummy("a"), sp.Dummy("a")
    assert sp.expand(symbolic.second_moment(one * x + two * x**2) - one**2 - 3 * two**2) == 0
    real = sp.Symbol("a", real=True)
    assert sp.expand(symbolic.second_moment(a * x + real * x**2) - a**2 - 3 * real**2) == 0


def test_names_of_the_package_are_free_for_the_user() -> None:
    for name in ("_x", "_p_a", "_k", "_rho", "x", "j", "S"):
        symbol = sp.Symbol(name)
        assert symbolic.coefficient("exp", 2, gain=symbol) == symbol**2 * exp(symbol**2 / 2) / sqrt(2)
    j = sp.Symbol("j")
    found = symbolic.coefficient("elu", k, alpha=j)
    assert found.free_symbols == {j, k}
    same(found, symbolic.coefficient("elu", 5, alpha=2), {j: 2, k: 5})
    same(symbolic.coefficient("exp", k, gain=k), 4**4 * exp(8) / sqrt(24), {k: 4})


# ---- exact numbers ----------------------------------------------------------------------------------------------


def test_floats_are_their_decimals() -> None:
    for gain in (0.1, "0.1", "1/10", Fraction(1, 10), np.float64(0.1), sp.Rational(1, 10)):
        assert symbolic.second_moment("identity", gain=gain) == sp.Rational(1, 100)
    assert symbolic.variance(sp.Float(0.1) * x) == sp.Rational(1, 100)
    assert symbolic.variance(0.1 * a * x) == a**2 / 100
    assert symbolic.second_moment("leaky_relu", negative_slope=0.1) == sp.Rational(101, 200)
    assert symbolic.second_moment("leaky_relu", negative_slope=0.1, gain=a) == sp.Rational(101, 200) * a**2
    assert symbolic.coefficient("exp(0.5*x)", 0) == exp(sp.Rational(1, 8))


def test_parameters_of_a_text_may_be_numbers_or_symbols() -> None:
    assert symbolic.second_moment("a*relu(x)", a=a) == a**2 / 2
    for value in (2, sp.Integer(2), Fraction(2), 2.0, "2"):
        assert symbolic.second_moment("a*relu(x)", a=value) == 2
    assert symbolic.second_moment("a*relu(x)", a=sqrt(2)) == 1
    assert symbolic.second_moment(a * sp.Max(x, 0), a=2) == 2
    assert symbolic.second_moment("a*relu(x) + c*x", a=b, c=1) == sp.expand((b + 1) ** 2 / 2 + HALF)


@pytest.mark.parametrize("sigma", ["relu", "exp", "identity", "step"])
def test_gain_zero_is_a_constant(sigma: str) -> None:
    """As for hermite.activation: the variance is 0 and there is no strength."""
    with pytest.raises((ConstantActivationError, ValueError), match=r"constant|gain"):
        symbolic.isometry_strength(sigma, gain=0)


# ---- what has no answer -----------------------------------------------------------------------------------------

REFUSALS: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "order of two kinks",
        lambda: symbolic.variance(sp.Max(x - a, 0) + sp.Max(x - b, 0)),
        NoClosedFormError,
        "sign of.*a.*b.*positive=True",
    ),
    ("gain p - q", lambda: symbolic.variance("relu", gain=p - q), NoClosedFormError, "p - q"),
    ("direction a*b", lambda: symbolic.variance("relu", gain=a * b), NoClosedFormError, r"a\*b"),
    ("integrability of a", lambda: symbolic.second_moment(sp.exp(a * x**2)), NoClosedFormError, r"1 - 4\*a"),
    ("imaginary symbol", lambda: symbolic.variance("relu", gain=sp.Symbol("z", imaginary=True)), ValueError, "z"),
    ("imaginary number", lambda: symbolic.variance("relu", gain=sp.I), ValueError, "gain"),
    ("imaginary number in exp", lambda: symbolic.variance("exp", gain=sp.I), ValueError, "gain"),
    ("complex number", lambda: symbolic.variance("exp", gain=2 + 3j), ValueError, "gain"),
    ("complex-valued sigma", lambda: symbolic.variance(sp.exp(sp.I * x)), ValueError, "I"),
    ("parameter of an entry", lambda: symbolic.variance("leaky_relu", slope=a), ValueError, "negative_slope"),
    ("parameter of an entry, number", lambda: symbolic.variance("leaky_relu", slope=3), ValueError, "negative_slope"),
    ("parameter of an expression", lambda: symbolic.variance(a * x, c=3), ValueError, "c"),
    ("the variable as a parameter", lambda: symbolic.variance(a * sp.Max(x, 0), x=3), ValueError, "x"),
    ("unknown name", lambda: symbolic.variance("reluu", gain=a), UnknownActivationError, "relu"),
    ("unknown function", lambda: symbolic.variance("a*foo(x)", a=a), ActivationParseError, "foo"),
    ("k = -1", lambda: symbolic.coefficient("relu", -1), ValueError, "k must be"),
    ("k = 401", lambda: symbolic.coefficient("relu", 401), ValueError, "400"),
    ("k = 3/2", lambda: symbolic.coefficient("relu", 1.5), ValueError, "k must be"),
    ("k = True", lambda: symbolic.coefficient("relu", True), ValueError, "k"),
    ("k = 2 k", lambda: symbolic.coefficient("relu", 2 * k), ValueError, "k"),
    ("k negative", lambda: symbolic.coefficient("relu", sp.Symbol("k", negative=True)), ValueError, "k"),
    ("k no integer", lambda: symbolic.coefficient("relu", sp.Symbol("k", integer=False)), ValueError, "k"),
    ("degree -1", lambda: symbolic.coefficients("relu", -1), ValueError, "degree"),
    ("degree a symbol", lambda: symbolic.coefficients("relu", k), ValueError, "degree"),
    ("time limit 0", lambda: symbolic.variance("relu", time_limit=0), ValueError, "time_limit"),
    ("time limit nan", lambda: symbolic.variance("relu", time_limit=math.nan), ValueError, "time_limit"),
    ("time limit None", lambda: symbolic.variance("relu", time_limit=None), ValueError, "time_limit"),  # type: ignore[arg-type]
    ("gain nan", lambda: symbolic.variance("relu", gain=math.nan), ValueError, "gain"),
    ("gain inf", lambda: symbolic.variance("relu", gain=math.inf), ValueError, "gain"),
    ("gain oo", lambda: symbolic.variance("relu", gain=sp.oo), ValueError, "gain"),
    ("shift nan", lambda: symbolic.variance("relu", shift=sp.nan), ValueError, "shift"),
    ("slope inf", lambda: symbolic.variance("leaky_relu", negative_slope=sp.oo), ValueError, "negative_slope"),
    ("oo inside", lambda: symbolic.variance(a * sp.oo * x), ValueError, "oo"),
    ("two symbols and no x", lambda: symbolic.variance(a * t), ValueError, "name the variable x"),
    ("a relation", lambda: symbolic.variance(x > 0), ValueError, "expression"),
    ("nothing", lambda: symbolic.variance(None), ValueError, "NoneType"),
    ("a function of NumPy", lambda: symbolic.variance(np.tanh), NoClosedFormError, "tanh is a Python callable"),
    ("a lambda and k", lambda: symbolic.coefficient(lambda u: u * u, k), NoClosedFormError, "<lambda>"),
    (
        "a sum with a callable",
        lambda: symbolic.variance(hermite.activation(np.tanh) + 1),
        NoClosedFormError,
        "callable",
    ),
    ("no rule", lambda: symbolic.variance("1/(1 + x**2)"), NoClosedFormError, r"x\*\*2 \+ 1.*outside the family"),
    ("kinks without end", lambda: symbolic.expectation("abs(cos(x))"), NoClosedFormError, "kinks"),
    ("x declared positive", lambda: symbolic.variance(sp.Abs(sp.Symbol("x", positive=True))), ValueError, "positive"),
    (
        "x declared positive, and a",
        lambda: symbolic.variance(a * sp.Abs(sp.Symbol("x", positive=True))),
        ValueError,
        "positive",
    ),
    ("x declared an integer", lambda: symbolic.variance(a * sp.Symbol("x", integer=True)), ValueError, "integer"),
    ("sqrt of a symbol of unknown sign", lambda: symbolic.second_moment(sqrt(a) * x), ValueError, "a"),
    ("constant", lambda: symbolic.isometry_strength("3"), ConstantActivationError, "constant"),
    (
        "hidden constant",
        lambda: symbolic.isometry_strength(a * sin(x) ** 2 + a * cos(x) ** 2),
        ConstantActivationError,
        "constant",
    ),
    (
        "constant linearity",
        lambda: symbolic.linearity("max(x, 0) - max(x, 0) + 2"),
        ConstantActivationError,
        "constant",
    ),
    ("|x|^(-1/2)", lambda: symbolic.second_moment("abs(x)**(-1/2)"), NotSquareIntegrableError, "integrable"),
    ("exp(x^2)", lambda: symbolic.expectation("exp(x**2)"), NotSquareIntegrableError, "integrable"),
    ("exp(x^2/3)", lambda: symbolic.coefficient("exp(x**2/3)", k), NotSquareIntegrableError, "integrable"),
]


@pytest.mark.parametrize(("question", "kind", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals_name_what_to_do(question: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=f"(?s){words}") as caught:
        question()
    assert "_p_" not in str(caught.value)  # no name of the package's own
    assert "TypeError" not in str(caught.value)
    assert "Recursion" not in str(caught.value)


def test_erfcx_is_not_called_divergent() -> None:
    """exp(x^2) erfc|x| lies between 0 and 1: both terms of its square diverge, their sum does not."""
    text = "exp(x**2)*(1 - erf(abs(x)))"
    try:
        found = symbolic.expectation(text)
    except NoClosedFormError:
        return
    assert abs(float(found) - hermite.expectation(text)) < ROUNDING


def test_an_answer_to_a_constant() -> None:
    found = symbolic.moments("3", 2)
    assert (found.coefficients, found.second_moment, found.variance, found.residual) == ((3, 0, 0), 9, 0, 0)
    assert symbolic.variance("max(x, 0) - max(x, 0) + 2") == 0
    assert symbolic.coefficient("3", k).subs(k, 0) == 3
    assert symbolic.dual("3", k) == 9


# ---- identities -------------------------------------------------------------------------------------------------

C, S, M = sp.IndexedBase("c"), sp.Symbol("S"), sp.Symbol("m", integer=True, nonnegative=True)
ACTIVATIONS = [sigma.name for sigma in hermite.catalogue()]
MORE = [
    "tanh(2*x)",
    "tanh(x + 1)",
    "sigmoid(1.702*x)",
    "sigmoid(3*x + 1)",
    "x - tanh(x)",
    "log(1 + exp(2*x))",
    "cos(x)*x + 1",
]
MORE += [
    "exp(sin(x))",
    "sin(x)**2",
    "1/(1 + x**2)",
    "x/(1 + x**2)",
    "(x + 1)**3",
    "max(x, 1)",
    "exp(-abs(x))",
    "expm1(x) - cosh(x)",
    "x**3 + 2",
]


def moments_for(sigma: hermite.Activation) -> tuple[list[float], float, float]:
    record = hermite.moments(sigma, 7)
    return [float(c) for c in record.coefficients], record.second_moment, math.sqrt(record.second_moment)


@pytest.mark.parametrize("spec", [*ACTIVATIONS, *MORE])
def test_no_identity_is_false(spec: str) -> None:
    """Every equation told holds for the numbers of quadrature; means E(...) by quadrature of what stands in them."""
    sigma = hermite.activation(spec)
    coefficients, second, norm = moments_for(sigma)
    for identity in symbolic.identities(spec):
        equation = identity.equation
        for m in (0, 1, 2) if equation.has(M) else (0,):
            sides = []
            for side in (equation.lhs, equation.rhs):
                side = side.subs(M, m).replace(
                    lambda e: isinstance(e, sp.core.function.AppliedUndef),
                    lambda e: sp.Float(hermite.expectation(str(e.args[0]).replace("atan", "arctan"))),
                )
                side = side.replace(
                    lambda e: isinstance(e, sp.Indexed), lambda e: sp.Float(coefficients[int(e.indices[0])])
                )
                sides.append(float(side.subs(S, second)))
            assert abs(sides[0] - sides[1]) <= 20 * ROUNDING * max(norm, second), (str(identity), m, sides)


def test_identities_that_halve_the_work() -> None:
    told = {name: {i.equation for i in symbolic.identities(name)} for name in [*ACTIVATIONS, "tanh(2*x)"]}
    for name in ("gelu", "gelu_tanh", "silu", "softplus", "relu"):
        assert {sp.Eq(C[1], HALF), sp.Eq(C[2 * M + 3], 0)} <= told[name], name
    for name in ("tanh", "erf", "sin", "arctan", "softsign", "identity", "cube", "tanhshrink"):
        assert {sp.Eq(C[0], 0), sp.Eq(C[2 * M + 2], 0)} <= told[name], name
    for name in ("abs", "cos", "square", "gaussian"):
        assert sp.Eq(C[2 * M + 1], 0) in told[name], name
    assert sp.Eq(C[1], 1 - S) in told["tanh"]
    assert sp.Eq(C[1], 2 - 2 * S) in told["tanh(2*x)"]
    assert symbolic.identities(np.tanh) == ()
    shown = symbolic.identities("tanh")[0]
    assert shown._repr_latex_().startswith("$")
    assert shown.reason in str(shown)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "silu", "mish", "softplus"])
def test_refusals_tell_the_identities(name: str) -> None:
    with pytest.raises(NoClosedFormError, match="known identities: c") as caught:
        symbolic.isometry_strength(name)
    assert "hermite.multiprecision" in str(caught.value)


def test_identities_told_with_a_gain_are_those_of_the_scaled_function() -> None:
    """c_1 = 1 - S is false for tanh(2x): there it is 2 - 2 S."""
    for gain in (2, alpha):
        with pytest.raises(NoClosedFormError) as caught:
            symbolic.isometry_strength("tanh", gain=gain)
        assert "c[1] = 1 - S" not in str(caught.value)
    with pytest.raises(NoClosedFormError):
        symbolic.variance("exp(x)*tanh(x)")


# ---- public fault reports, by case id ---------------------------------------------------------------------------


def same_as_printed(found: Any, wanted: str) -> None:
    value, reference = number(found), EXACT.mpf(wanted)
    assert abs(value - reference) <= EXACT.mpf("1e-17") * (1 + abs(reference)), (value, reference)


@pytest.mark.parametrize("identifier", ["sym-01"])
def test_a_product_of_steps(identifier: str) -> None:
    expect = CASES[identifier]["expect"]
    third = sp.Rational(1, 3)
    box = sp.Heaviside(x - third) * sp.Heaviside(2 * third - x) * sp.Heaviside(x) * sp.Heaviside(1 - x)
    same_as_printed(symbolic.expectation(box), expect["E_sigma"])
    same_as_printed(symbolic.expectation(box * a, a=2) / 2, expect["E_sigma"])
    # the plain integral as the mean of sqrt(2 pi) exp(x^2/2) times it
    plain = symbolic.expectation(sqrt(2 * pi) * exp(x**2 / 2) * box)
    same(plain, sp.Rational(expect["plain_integral"]))


@pytest.mark.parametrize("identifier", ["sym-06"])
def test_a_gaussian_integral_with_a_negative_symbol(identifier: str) -> None:
    expect = CASES[identifier]["expect"]
    wanted = sp.sympify(expect["closed_form"], locals={"a": n})
    plain = symbolic.expectation(sqrt(2 * pi) * exp(x**2 / 2) * exp(n * (x**2 + 2 * x)))
    for value in (sp.Rational(-1, 2), sp.Rational(-3, 7), -4):
        same(plain, wanted, {n: value})
    same_as_printed(plain.subs(n, sp.Rational(-1, 2)), expect["at a=-1/2"])
    mean = symbolic.expectation(exp(n * (x**2 + 2 * x)))
    same(mean, exp(2 * n**2 / (1 - 2 * n)) / sqrt(1 - 2 * n), {n: sp.Rational(-1, 2)})


@pytest.mark.parametrize("identifier", ["sym-07"])
def test_the_mean_of_a_shifted_normal_distribution_function(identifier: str) -> None:
    expect = CASES[identifier]["expect"]
    found = symbolic.expectation("Phi(x - a)", a=a)
    assert sp.simplify(found - (1 + erf(-a / 2)) / 2) == 0  # Phi(-a/sqrt 2)
    same_as_printed(found.subs(a, sp.Rational(7, 10)), expect["at a=0.7"])


@pytest.mark.parametrize("identifier", ["sym-10"])
def test_a_step_at_a_float(identifier: str) -> None:
    expect = CASES[identifier]["expect"]
    same_as_printed(symbolic.expectation(1 + sp.Heaviside(x - 0.5)), expect["E_sigma"])
    inside = sp.Piecewise((a + sp.Heaviside(x - 0.5), (x > -1) & (x < 1)), (0, True))
    plain = symbolic.expectation(sqrt(2 * pi) * exp(x**2 / 2) * inside)
    assert plain.subs(a, 1) == sp.Rational(expect["value"])


@pytest.mark.parametrize("identifier", ["sym-11"])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus"])
def test_no_closed_form_is_said_at_once(identifier: str, name: str) -> None:
    assert identifier in CASES
    for verb in (symbolic.isometry_strength, symbolic.second_moment, symbolic.expectation):
        with pytest.raises(NoClosedFormError, match="multiprecision"):
            verb(name)


@pytest.mark.parametrize("identifier", ["sym-14"])
def test_the_clipped_identity(identifier: str) -> None:
    expect = CASES[identifier]["expect"]
    clip = sp.Piecewise((-1, x < -1), (1, x > 1), (x, True))
    for sigma in ("hardtanh", clip):
        same_as_printed(symbolic.second_moment(sigma), expect["E sigma^2"])
        same_as_printed(symbolic.coefficient(sigma, 1), expect["c_1"])
        same_as_printed(symbolic.isometry_strength(sigma), expect["beta"])


@pytest.mark.parametrize("identifier", ["sym-15"])
def test_a_mean_without_a_second_moment(identifier: str) -> None:
    sigma = "exp(x**2/4)"
    same(symbolic.expectation(sigma), sp.sympify(CASES[identifier]["expect"]["c_0"]))
    for question in (
        symbolic.second_moment,
        symbolic.isometry_strength,
        lambda s: symbolic.dual(s, 1),
        lambda s: symbolic.coefficient(s, k),
    ):
        with pytest.raises(NotSquareIntegrableError, match=r"not square-integrable under N\(0, 1\)"):
            question(sigma)


@pytest.mark.slow
@given(piecewise_polynomials(), st.sampled_from(GAINS), st.sampled_from(PLACES))
@settings(max_examples=40)
def test_random_strengths_agree_with_quadrature(text: str, gain: Fraction, shift: Fraction) -> None:
    """beta through the form that is printed: the slowest question, since the form is sought in each."""
    sigma = hermite.activation(text, gain=gain, shift=shift)
    try:
        wanted = hermite.isometry_strength(sigma)
    except ConstantActivationError:
        with pytest.raises(ConstantActivationError):
            symbolic.isometry_strength(text, gain=gain, shift=shift)
        return
    # a variance that is a small part of E sigma^2 costs float64 that share of its digits
    loss = hermite.second_moment(sigma) / hermite.variance(sigma)
    assert abs(number(symbolic.isometry_strength(text, gain=gain, shift=shift)) - wanted) <= ROUNDING * loss
