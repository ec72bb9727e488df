"""SymPy expressions as activations: the tree they become, its values, what is refused, and public fault reports by id.

The answers of the fault reports stand in tests/reference/cases.jsonl; the values are compared with SymPy's own evalf.
"""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from sympy.stats import Normal, cdf, density

import hermite
from hermite.errors import ActivationParseError, NotSquareIntegrableError

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case["expect"]
    for case in map(json.loads, (Path(__file__).parent / "reference" / "cases.jsonl").read_text().splitlines())
}
x = sp.Symbol("x")
z = sp.Symbol("z", real=True)
X01 = Normal("X", 0, 1)
P, H, R = sp.Piecewise, sp.Heaviside, sp.Rational


def tree(expression: Any) -> Any:
    return hermite.activation(expression).expr


# ---- the tree an expression becomes ---------------------------------------------------------------------------

SAME = [
    (x, "x"),
    (z, "x"),
    (sp.Dummy("q"), "x"),
    (sp.Symbol("t", real=True, nonzero=True), "x"),
    (x**2 - 1, "x**2 - 1"),
    (-x, "-x"),
    (x / 3, "x/3"),
    (1 / (1 + x**2), "1/(1 + x**2)"),
    (x**2.0, "x**2"),
    (sp.Max(x, 0), "max(x, 0)"),
    (sp.Min(sp.Max(z, 0), 6), "min(max(x, 0), 6)"),
    (sp.Max(-1, sp.Min(1, x)), "max(min(x, 1), -1)"),
    (sp.Abs(x), "abs(x)"),
    (sp.sqrt(x**2), "abs(x)"),
    (sp.sqrt(z**2), "abs(x)"),
    ((x**4) ** R(3, 4), "abs(x)**3"),
    (1 / sp.sqrt(x**2 + 1), "1/sqrt(x**2 + 1)"),
    (sp.sign(x), "sign(x)"),
    (sp.re(x) + sp.conjugate(x) + sp.im(x), "x + x"),
    (sp.real_root(x, 3), "abs(x)**(1/3)*sign(x)"),
    (sp.cbrt(x**2), "abs(x)**(2/3)"),
    (sp.exp(x), "exp(x)"),
    (sp.E**x, "exp(x)"),
    (sp.sqrt(sp.exp(x)), "exp(x/2)"),
    (2**x, "exp(x*log(2))"),
    (sp.exp(x) - 1, "expm1(x)"),
    (x + sp.exp(2 * x) - 1, "x + expm1(2*x)"),
    (sp.log(1 + sp.exp(x)), "log1p(exp(x))"),
    (1 / (1 + sp.exp(-x)), "sigmoid(x)"),
    (sp.exp(x) / (1 + sp.exp(x)), "sigmoid(x)"),
    (1 / (1 + sp.exp(x)), "sigmoid(-x)"),
    (1 / (2 + 2 * sp.exp(-x)), "sigmoid(x)/2"),
    (x * sp.exp(x) / (1 + sp.exp(x)), "x*sigmoid(x)"),
    (sp.exp(-x) / (1 + sp.exp(-x)) ** 2, "sigmoid(-x)*sigmoid(x)"),
    (1 / (1 + sp.exp(-x)) ** 3, "sigmoid(x)**3"),
    (1 / (2 + sp.exp(-x)), "1/(2 + exp(-x))"),
    (1 / sp.sqrt(2 + 2 * sp.exp(-x)), "1/sqrt(2 + 2*exp(-x))"),
    (P((x, x > 0), (1.5 * (sp.exp(x) - 1), True)), "x if x > 0 else 3/2*expm1(x)"),
    (cdf(X01)(x), "Phi(x)"),
    (x * cdf(X01)(x), "x*Phi(x)"),
    (cdf(Normal("Y", R(7, 10), 2))(x), "(1 + erf((x - 7/10)/2/sqrt(2)))/2"),
    (sp.erfc(x), "1 - erf(x)"),
    (sp.erfc(-x / sp.sqrt(2)) / 2, "Phi(x)"),
    (sp.sin(x) * sp.cos(2 * x) + sp.atan(x), "sin(x)*cos(2*x) + arctan(x)"),
    (sp.tanh(x) + sp.sinh(x) + sp.cosh(x), "sinh(x) + cosh(x) + tanh(x)"),
    (sp.asinh(x), "asinh(x)"),
    (sp.sech(x), "1/cosh(x)"),
    (sp.UnevaluatedExpr(x) * 2, "2*x"),
    (sp.pi * x, "pi*x"),
    (sp.Mul(x, sp.Pow(2, -R(1, 2), evaluate=False), evaluate=False), "x/sqrt(2)"),
    (sp.Mul(sp.E, x, evaluate=False), "exp(1)*x"),
    (sp.GoldenRatio * x, "(1 + sqrt(5))/2*x"),
    (0.044715 * x, "0.044715*x"),
    (H(x), "1/2 + sign(x)/2"),
    (H(x, 1), "1 if x >= 0 else 0"),
    (H(x, 0), "1 if x > 0 else 0"),
    (H(x, R(1, 3)), "1 if x > 0 else (1/3 if x >= 0 else 0)"),
    (sp.Max(z, 0).diff(z), "1/2 + sign(x)/2"),
    (P((x, x > 0), (x / 100, True)), "x if x > 0 else x/100"),
    (P((x, sp.Integer(0) > x), (1, True)), "x if x < 0 else 1"),
    (P((x, sp.Ge(1, x, evaluate=False)), (1, True), evaluate=False), "x if x <= 1 else 1"),
    (P((-1, x < -1), (x, x <= 1), (1, True)), "-1 if x < -1 else (x if x <= 1 else 1)"),
    (P((x, x > 0), (-x, x < 0)), "x if x > 0 else -x"),
    (P((x, sp.Not(x > 0)), (0, True)), "x if x <= 0 else 0"),
    (P((1, sp.Interval(0, 2).contains(x)), (0, True)), "(1 if x <= 2 else 0) if x >= 0 else 0"),
    (P((1, sp.Contains(x, sp.Interval(0, sp.oo))), (0, True)), "1 if x >= 0 else 0"),
    (P((1, sp.Contains(x, sp.Interval(-sp.oo, 2))), (0, True)), "1 if x <= 2 else 0"),
    (P((1, sp.Implies(x > 0, x < 1)), (0, True)), "1 if x <= 0 else (1 if x < 1 else 0)"),
    (P((1, sp.Eq(x, sp.oo)), (x, x < sp.oo), (2, True)), "x"),
    (P((1, sp.Or(x < 0, x > 1)), (0, True)), "1 if x > 1 else (1 if x < 0 else 0)"),
    (P((0, sp.Eq(x, 2)), (x, True)), "0 if abs(x - 2) <= 0 else x"),
    (P((x, sp.Ne(x, 2)), (0, True)), "0 if abs(x - 2) <= 0 else x"),
    (P((1, sp.ITE(x > 0, x < 1, x < -2)), (0, True)), "(1 if x < 1 else 0) if x > 0 else (1 if x < -2 else 0)"),
    (P((1, sp.Gt(2, 1, evaluate=False)), (x, True), evaluate=False), "1"),
    (sp.hermite(3, x, evaluate=False), "4*(sqrt(3)*He(3, sqrt(2)*x))"),
    (sp.hermite_prob(4, x, evaluate=False), "2*(sqrt(6)*He(4, x))"),
    (sp.hermite_prob(3, x), "x**3 - 3*x"),
    (sp.hermite_prob(9, x) / sp.sqrt(sp.factorial(9)), "He(9, x)"),
    (-2 * sp.hermite_prob(20, x) / sp.sqrt(sp.factorial(20)), "-2*He(20, x)"),
    (sp.expand(3 * sp.hermite_prob(8, 2 * x)), "72*(sqrt(70)*He(8, 2*x))"),
    (sp.hermite_prob(10, sp.tanh(x)), "720*(sqrt(7)*He(10, tanh(x)))"),
    (sp.hermite(8, x) / (16 * sp.sqrt(sp.factorial(8))), "He(8, sqrt(2)*x)"),
    (sp.Integer(3), "3"),
    (sp.sqrt(2) / 2, "1/sqrt(2)"),
    (sp.S.Zero, "0"),
]


@pytest.mark.parametrize(("expression", "text"), SAME, ids=[str(e)[:50] for e, _ in SAME])
def test_the_tree_is_that_of_a_text(expression: Any, text: str) -> None:
    assert str(tree(expression)) == str(hermite.activation(f"({text})").expr)


@pytest.mark.parametrize("expression", [e for e, _ in SAME], ids=[str(e)[:50] for e, _ in SAME])
def test_the_tree_reads_back(expression: Any) -> None:
    assert tree(f"({tree(expression)})") == tree(expression)


def test_catalogue_entries_written_in_sympy_are_the_catalogue() -> None:
    """Equal trees, so that all caches and closed forms of the entries serve them."""
    written = {
        "relu": sp.Max(x, 0), "relu6": sp.Min(sp.Max(x, 0), 6), "tanh": sp.tanh(z), "erf": sp.erf(x), "abs": sp.Abs(z),
        "gelu": x * cdf(X01)(x), "sigmoid": 1 / (1 + sp.exp(-z)), "silu": z / (1 + sp.exp(-z)), "exp": sp.exp(x),
        "leaky_relu": P((x, x > 0), (0.01 * x, True)), "elu": P((x, x > 0), (sp.exp(x) - 1, True)), "sin": sp.sin(x),
        "softplus": sp.log(1 + sp.exp(x)), "step": H(x, 1), "tanhshrink": x - sp.tanh(x), "cube": x**3,
        "softsign": x / (1 + sp.Abs(x)), "mish": x * sp.tanh(sp.log(1 + sp.exp(x))), "gaussian": sp.exp(-(x**2)),
        "hardshrink": P((x, sp.Abs(x) > 0.5), (0, True)), "hardtanh": sp.Min(sp.Max(z, -1), 1),
    }  # fmt: skip
    for name, expression in written.items():
        assert tree(expression) == tree(name), name


# ---- numbers --------------------------------------------------------------------------------------------------


@given(st.floats(min_value=-1e6, max_value=1e6).filter(lambda f: f not in (0.0, 1.0) and abs(f) > 1e-6))
def test_a_float_is_its_shortest_decimal(f: float) -> None:
    assert tree(sp.Float(f) * x) == tree(f"({f!r})*x")


def test_a_float_of_other_precision_is_exact() -> None:
    for digits in (30, 8):
        number = sp.Float("0.1", digits)
        found = tree(number * x).args[0].number
        assert found == Fraction(*map(int, sp.Rational(number).as_numer_denom()))
        assert 0 < abs(found - Fraction(1, 10)) < Fraction(1, 10**digits)


def test_a_breakpoint_at_a_float_is_a_decimal() -> None:
    (edge,) = (piece.upper for piece in hermite.activation(H(x - 0.1)).pieces[:-1])
    assert edge.exact == Fraction(1, 10)


# ---- values ---------------------------------------------------------------------------------------------------


def evaluated(expression: Any, point: Fraction) -> float:
    """SymPy's own value at a rational point, to 30 digits."""
    (symbol,) = expression.free_symbols or (x,)
    return float(sp.N(expression.subs(symbol, sp.Rational(point.numerator, point.denominator)), 30))


JUMPS = [
    (H(x), 0), (H(x, 0), 0), (H(x, 1), 0), (H(x, R(1, 3)), 0), (H(3 - x), 3), (sp.sign(x - 1), 1), (x * H(x - 1), 1),
    (P((1, x < 0), (2, True)), 0), (P((1, x <= 0), (2, True)), 0), (P((5, sp.Eq(x, 1)), (x, True)), 1),
    (P((x, sp.Ne(x, 1)), (7, True)), 1), (P((1, (x >= 0) & (x < 1)), (0, True)), 1), (P((1, x > 0), (0, True)), 0),
    (P((1, sp.Eq(x, 0)), (sp.sin(x) / x, True)), 0), (P((1, sp.Xor(x > 0, x < 2)), (0, True)), 2),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "place"), JUMPS, ids=[str(e) for e, _ in JUMPS])
def test_the_value_at_a_jump_is_the_one_written(expression: Any, place: int) -> None:
    sigma = hermite.activation(expression)
    for point in (place, place - 0.5, place + 0.5):
        assert float(sigma(point)) == pytest.approx(evaluated(expression, Fraction(point)), rel=1e-15, abs=1e-16)


def test_an_equation_that_holds_on_an_interval() -> None:
    """Eq is no single point where both sides agree on a whole half-line."""
    sigma = hermite.activation(P((7, sp.Eq(sp.Max(x, 0), 0)), (x, True)))
    assert sigma([-2.0, -0.1, 0.0, 0.1]).tolist() == [7.0, 7.0, 7.0, 0.1]
    assert hermite.expectation(sigma) == pytest.approx(3.5 + 1 / math.sqrt(2 * math.pi), rel=4e-15)


STEEP = [
    ("sigmoid", 1 / (1 + sp.exp(-x)), -700.0, mp.exp(-700)),
    ("1 - sigmoid", 1 - sp.exp(x) / (1 + sp.exp(x)), 40.0, 1 / (1 + mp.exp(40))),
    ("softplus", sp.log(1 + sp.exp(x)), -50.0, mp.log1p(mp.exp(-50))),
    ("softplus, large", sp.log(1 + sp.exp(x)), 800.0, mp.mpf(800)),
    ("elu near 0", P((x, x > 0), (1.5 * (sp.exp(x) - 1), True)), -1e-12, mp.mpf(1.5) * mp.expm1(mp.mpf(-1e-12))),
    ("normal cdf", cdf(X01)(x), -20.0, mp.ncdf(-20)),
    ("erfc", sp.erfc(x), 10.0, mp.erfc(10)),
    ("tanh as a quotient", (sp.exp(x) - sp.exp(-x)) / (sp.exp(x) + sp.exp(-x)), 800.0, mp.mpf(1)),
    ("sech", sp.sech(x), 800.0, mp.mpf(0)),
    ("2^x", 2**x, 3.0, mp.mpf(8)),
]


@pytest.mark.parametrize(("name", "expression", "point", "wanted"), STEEP, ids=[row[0] for row in STEEP])
def test_no_digit_is_lost_where_sympys_form_cancels_or_overflows(
    name: str, expression: Any, point: float, wanted: Any
) -> None:
    # Phi(-20) has a condition number of 400, the others of a few units
    assert float(hermite.activation(expression)(point)) == pytest.approx(float(wanted), rel=1e-14, abs=0)


LEAVES = st.sampled_from([z, z, sp.Integer(2), R(-1, 3), sp.pi / 4, 0.3 * z, sp.sqrt(2)])
UNARY = [
    sp.sin, sp.cos, sp.tanh, sp.atan, sp.erf, sp.erfc, sp.Abs, sp.sign, sp.asinh, sp.sech, sp.Heaviside,
    lambda u: -u, lambda u: u**2, lambda u: u**3, lambda u: sp.exp(-(u**2)), lambda u: sp.sqrt(1 + u**2),
    lambda u: sp.log(2 + sp.sin(u)), lambda u: sp.Max(u, 0), lambda u: sp.log(1 + sp.exp(u)),
    lambda u: 1 / (1 + sp.exp(-u)), lambda u: 1 / (3 + sp.cos(u)), lambda u: sp.hermite_prob(9, u / 4),
    lambda u: u / sp.sqrt(2 + u**2), lambda u: sp.exp(sp.sin(u)) - 1, lambda u: 3 ** sp.cos(u),
]  # fmt: skip
BINARY = [
    lambda u, v: u + v, lambda u, v: u - v, lambda u, v: u * v, sp.Max, sp.Min, lambda u, v: u / (1 + v**2),
    lambda u, v: P((u, v > R(1, 7)), (v, True)), lambda u, v: P((u, (v > R(1, 7)) | (u <= -R(1, 9))), (v - u, True)),
]  # fmt: skip


def grown(depth: int) -> st.SearchStrategy[Any]:
    if depth == 0:
        return LEAVES
    inner = grown(depth - 1)
    return st.one_of(
        st.builds(lambda f, u: f(u), st.sampled_from(UNARY), inner),
        st.builds(lambda f, u, v: f(u, v), st.sampled_from(BINARY), inner, inner),
    )


POINTS = np.array([-2.125, -0.4375, 0.1875, 1.3125])


@given(st.sampled_from([1, 2, 3]).flatmap(grown))
def test_random_expressions_mean_what_sympy_says(expression: Any) -> None:
    try:
        sigma = hermite.activation(expression)
    except ActivationParseError as refusal:
        assert "pieces" in str(refusal) or "sign changes" in str(refusal)  # noqa: PT017
        return
    # an ulp of an intermediate result moves the value about as much as this change of x does
    value = sigma(POINTS)
    moved = np.max([np.abs(sigma(POINTS * (1 + s * 1e-12)) - value) for s in (1, -1)], axis=0)
    for point, found, near in zip(POINTS.tolist(), value.tolist(), moved.tolist(), strict=True):
        wanted = evaluated(expression, Fraction(point))
        if near < 1e-6 * (1 + abs(wanted)):  # not at a jump
            assert abs(found - wanted) <= 1e-11 * abs(wanted) + 10 * near + 1e-13, (expression, point)


CONDITIONS = st.recursive(
    st.builds(
        lambda relation, u, c: relation(u, c),
        st.sampled_from([sp.Lt, sp.Le, sp.Gt, sp.Ge, sp.Eq, sp.Ne]),
        st.sampled_from([x, 2 * x, x**2, sp.Abs(x)]),
        st.sampled_from([sp.Integer(-1), sp.Integer(0), R(1, 2), sp.Integer(1)]),
    ),
    lambda inner: st.one_of(
        st.builds(lambda f, u, v: f(u, v), st.sampled_from([sp.And, sp.Or, sp.Xor, sp.Implies]), inner, inner),
        st.builds(sp.Not, inner),
        st.builds(sp.ITE, inner, inner, inner),
    ),
    max_leaves=5,
)


@given(CONDITIONS)
def test_random_conditions_choose_as_sympy_does(condition: Any) -> None:
    sigma = hermite.activation(P((1, condition), (0, True)) + 0 * x)
    for point in (-2, -1, Fraction(-1, 2), 0, Fraction(1, 4), Fraction(1, 2), 1, 3):
        wanted = condition if condition in (True, False) else condition.subs(x, R(Fraction(point)))
        assert float(sigma(float(point))) == float(bool(wanted)), (condition, point)


def test_long_branches_are_not_repeated_for_each_comparison() -> None:
    """Twelve bands, each an And, the last one long: nested ifs alone would need 2^12 copies of it."""
    rest: Any = sum(sp.sin(k * x) for k in range(1, 30))
    for k in range(12):
        rest = P((k, (x > k) & (x**2 < (k + 1) ** 2)), (rest, True))
    sigma = hermite.activation(rest)
    assert sigma.expr.size < 1000
    assert sigma([0.5, 3.5, 11.5]).tolist() == [0.0, 3.0, 11.0]
    assert float(sigma(-0.5)) == pytest.approx(evaluated(rest, Fraction(-1, 2)), rel=1e-14)


def test_a_hermite_polynomial_in_powers_keeps_its_digits() -> None:
    for n, point in ((30, 4.0), (80, 2.5), (120, -7.0)):
        sigma = hermite.activation(sp.hermite_prob(n, x))
        with mp.workdps(200):
            powers = sp.Poly(sp.hermite_prob(n, x), x).all_coeffs()
            wanted = float(mp.polyval([mp.mpf(int(c)) for c in powers], mp.mpf(point)))
        # a rounding of x moves He_n by n times an ulp, relative to its size nearby
        assert float(sigma(point)) == pytest.approx(wanted, rel=1e-13)
    assert hermite.coefficients(sp.hermite_prob(12, x), 13)[12] == pytest.approx(math.sqrt(math.factorial(12)))


@pytest.mark.parametrize(
    "expression",
    [
        x**8 - x**6 + x**4 - x**2 + 1, sp.hermite_prob(8, x) + 1, sp.hermite_prob(8, x) + x**3, sp.legendre(10, x),
        -x**8 - 28 * x**6 - 210 * x**4 - 420 * x**2 - 105, sp.hermite_prob(9, x).subs(x**3, sp.tanh(x) ** 3),
        sp.Add(*sp.hermite_prob(8, x).args, -28 * x**6, evaluate=False),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_almost_a_hermite_polynomial_stays_in_powers(expression: Any) -> None:
    assert "He(" not in str(tree(expression))


# ---- what is refused ------------------------------------------------------------------------------------------

a = sp.Symbol("a")
SYMBOLS = [
    (a * x, "has the symbols a, x"),
    (a * x, r"expr\.subs\(a, 2\)"),
    (sp.Max(a, x) * sp.Symbol("b"), "hermite.symbolic"),
    (P((x, a > 0), (0, True)), "has the symbols a, x"),
    (sp.Max(sp.Symbol("t", positive=True), 1), r"declared positive.*Symbol\('t', real=True\)"),
    (sp.Symbol("n", integer=True) ** 2, "declared integer"),
    (sp.Symbol("m", negative=True), "declared negative"),
    (sp.Symbol("w", imaginary=True) ** 2, "declared not real"),
    (sp.Symbol("A", commutative=False), "no number"),
    (sp.MatrixSymbol("A", 2, 2), "MatrixSymbol"),
    (x > 0, r"not an expression; write Piecewise\(\(1, condition\)"),
    (sp.true, "not an expression"),
    (sp.Poly(x**2, x), "as_expr"),
    (sp.Interval(0, 1), "not an expression"),
]


@pytest.mark.parametrize(("spec", "message"), SYMBOLS, ids=[str(e) for e, _ in SYMBOLS])
def test_what_is_no_function_of_one_real_symbol(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hermite.activation(spec)


f = sp.Function("f")
REFUSED = [
    (f(x), r"f: f\(x\) has no place in an activation. Accepted: numbers, pi"),
    (sp.Function("exp")(x), "exp.* has no place"),
    (sp.LambertW(x), "LambertW: .* no place"),
    (sp.floor(x), "floor"),
    (sp.DiracDelta(x), "DiracDelta"),
    (sp.gamma(x), "gamma"),
    (sp.Lambda(x, x**2), "Lambda"),
    (sp.Catalan * x, "Catalan"),
    (sp.Integral(sp.exp(-(z**2)), (z, 0, x)), r"Integral: .* call \.doit\(\) first"),
    (sp.Sum(x**z, (z, 0, 3)), r"Sum: .* \.doit\(\)"),
    (sp.Derivative(sp.sin(x), x), "Derivative"),
    (sp.Abs(x).diff(x), "real=True"),
    (sp.tan(x), r"tan\(x\) has poles where its argument is pi/2"),
    (sp.coth(x) + 1, "poles where its argument is 0"),
    (sp.I * x, "I is not a real number"),
    (sp.nan, "nan is not a real number"),
    (sp.oo + x, "oo is not a real number"),
    (sp.zoo, "zoo is not a real number"),
    (R(-8) ** R(1, 3) * x, r"\(-1\)\*\*\(1/3\) is not a real number"),
    (P((sp.log(sp.cos(4)), x > 0), (x, True)), "not a real number"),
    ((-2) ** x, "log of the constant -2"),
    (x**100, "exponent 100 is out of range"),
    (sp.Integer(10) ** 400 * x, "1e300"),
    (sp.Float("1e-5000") * x, "out of range"),
    (P((x, x > 0)), r"has no value on \(-inf, 0\); add a last pair \(value, True\)"),
    (P((x, x > 2), (-x, x < -1)), r"has no value on \(-1, 2\)"),
    (P((1, x**2 < 2)), r"has no value on \(-inf, -sqrt\(2\)\)"),
    (sp.hermite(sp.Symbol("x"), 2), "degree must be a non-negative integer"),
    (sum(sp.sin(k * x) * sp.cos(k * x**2) for k in range(1, 500)), "too large"),
    (H(x, sp.nan), "nan is not a real number"),
]


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=[str(e)[:40] for e, _ in REFUSED])
def test_what_the_tree_has_no_place_for(expression: Any, message: str) -> None:
    with pytest.raises(ActivationParseError, match=message):
        hermite.activation(expression)


@pytest.mark.parametrize("expression", [sp.sqrt(x), sp.log(x), x**x, sp.cbrt(x), sp.sqrt(1 - x**2)], ids=str)
def test_what_is_not_real_on_an_interval(expression: Any) -> None:
    with pytest.raises(NotSquareIntegrableError, match="not real"):
        hermite.activation(expression)


def test_nesting_beyond_the_stack_is_refused() -> None:
    deep: Any = x
    for _ in range(400):
        deep = sp.sin(deep, evaluate=False)
    with pytest.raises(ActivationParseError, match=r"nested too deeply|too large"):
        hermite.activation(deep)


def test_arguments_of_other_kinds_of_spec() -> None:
    with pytest.raises(ValueError, match="go with a callable"):
        hermite.activation(sp.Abs(x), breakpoints=[0])
    with pytest.raises(ValueError, match="registered name"):
        hermite.activation(sp.Abs(x), negative_slope=1)
    with pytest.raises(ValueError, match="sympy expression"):
        hermite.activation(sp.Abs)


# ---- the record, and who accepts it ---------------------------------------------------------------------------


def test_name_and_source() -> None:
    sigma = hermite.activation(P((z, z > 0), (z / 10, True)))
    assert (sigma.name, sigma.source) == ("x if x > 0 else 1/10*x", "sympy: Piecewise((z, z > 0), (z/10, True))")
    assert hermite.activation(sp.asinh(z)).name == "asinh(x)"
    assert hermite.activation(sp.Max(x, 0), name="mine").name == "mine"
    assert sigma == hermite.activation(P((z, z > 0), (z / 10, True)))
    assert pickle.loads(pickle.dumps(sigma)) == sigma
    assert hash(sigma) == hash(pickle.loads(pickle.dumps(sigma)))


def test_gain_shift_growth_and_arithmetic() -> None:
    sigma = hermite.activation(sp.Max(x, 0), gain=2, shift=0.5)
    assert str(sigma.expr) == "max(2*x + 1/2, 0)"
    assert hermite.activation(sp.exp(x), growth=(1, 1, 0)).growth == (1, 1, 0)
    assert (2 * hermite.activation(sp.Abs(x)) - hermite.activation("identity"))(-3.0) == 9.0


def test_every_verb_accepts_an_expression() -> None:
    relu = sp.Max(x, 0)
    assert hermite.coefficients(relu, 3).tolist() == hermite.coefficients("relu", 3).tolist()
    for verb in (hermite.second_moment, hermite.variance, hermite.linearity, hermite.isometry_strength):
        assert verb(relu) == verb("relu")
    assert hermite.expectation(relu) == hermite.expectation("relu")
    assert hermite.moments(relu).variance == hermite.moments("relu").variance
    assert len(hermite.beta_table(relu, digits=6).rows) == 1
    table = hermite.beta_table([relu, sp.tanh(z)], digits=6)
    assert [row[0] for row in table.rows] == ["max(x, 0)", "tanh(x)"]
    assert table.rows[0][6] == hermite.isometry_strength("relu")


def test_other_specs_do_not_load_sympy() -> None:
    code = "import sys, hermite; hermite.activation('relu'); hermite.activation(abs); print('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# ---- public fault reports -------------------------------------------------------------------------------------


def same(found: float, wanted: str) -> None:
    """To the last digits of float64, of which a sum of a few terms takes some."""
    assert found == pytest.approx(float(mp.mpf(wanted)), rel=4e-15, abs=0)


def integral(expression: Any) -> float:
    """A plain integral over the line as an expectation: of the integrand over the density."""
    return hermite.expectation(expression * sp.sqrt(2 * sp.pi) * sp.exp(x**2 / 2))


def test_sym_01_a_product_of_steps_is_an_interval() -> None:
    box = H(x - R(1, 3)) * H(R(2, 3) - x) * H(x) * H(1 - x)
    sigma = hermite.activation(box)
    assert [str(p) for p in sigma.pieces] == ["0 on (-inf, 1/3)", "1 on (1/3, 2/3)", "0 on (2/3, inf)"]
    same(hermite.expectation(box), CASES["sym-01"]["E_sigma"])
    assert integral(box) == pytest.approx(1 / 3, rel=4e-15)


def test_sym_03_a_non_negative_integrand_has_no_negative_integral() -> None:
    for wave in (sp.Abs(sp.cos(x)), P((sp.cos(x), sp.cos(x) >= 0), (-sp.cos(x), True))):
        cut = P((wave, (x >= -sp.pi / 2) & (x <= 0)), (0, True))
        assert integral(cut) == pytest.approx(float(CASES["sym-03"]["value"]), rel=4e-15)
        assert hermite.expectation(cut) > 0


def test_sym_07_the_normal_cdf_of_a_shifted_normal_variable() -> None:
    same(hermite.expectation(cdf(X01)(x - 0.7)), CASES["sym-07"]["at a=0.7"])


def test_sym_10_a_step_at_a_float() -> None:
    step = 1 + H(x - 0.5)
    same(hermite.expectation(step), CASES["sym-10"]["E_sigma"])
    same(hermite.coefficients(step, 0)[0], CASES["sym-10"]["E_sigma"])
    assert hermite.activation(step).breakpoints == (0.5,)
    same(integral(P((step, (x >= -1) & (x <= 1)), (0, True))), CASES["sym-10"]["value"])


def test_sym_11_moments_without_a_closed_form() -> None:
    e = CASES["sym-11"]
    same(hermite.coefficients(sp.tanh(x), 1)[1], e["tanh c_1"])
    same(hermite.isometry_strength(sp.tanh(x)), e["tanh beta"])
    same(hermite.isometry_strength(1 / (1 + sp.exp(-x))), e["logistic beta"])
    same(hermite.coefficients(sp.log(1 + sp.exp(x)), 0)[0], e["softplus c_0"])
    same(hermite.isometry_strength(sp.log(1 + sp.exp(x))), e["softplus beta"])


def test_sym_14_hard_tanh() -> None:
    e = CASES["sym-14"]
    for clip in (
        sp.Min(sp.Max(x, -1), 1),
        P((-1, x < -1), (x, x <= 1), (1, True)),
        (sp.Abs(z + 1) - sp.Abs(z - 1)) / 2,
    ):
        same(hermite.second_moment(clip), e["E sigma^2"])
        same(hermite.coefficients(clip, 1)[1], e["c_1"])
        same(hermite.isometry_strength(clip), e["beta"])


def test_sym_15_an_infinite_second_moment() -> None:
    steep = sp.exp(x**2 / 4)
    assert hermite.expectation(steep) == pytest.approx(math.sqrt(2), rel=4e-15)
    for verb in (hermite.second_moment, hermite.variance, hermite.isometry_strength, hermite.moments):
        with pytest.raises(NotSquareIntegrableError, match=r"not square-integrable under N\(0, 1\)"):
            verb(steep)


def test_sym_16_hermite_polynomials_of_high_degree() -> None:
    e = CASES["sym-16"]
    for n, point in ((60, 6.0), (100, 3.0)):
        sigma = hermite.activation(sp.hermite_prob(n, x) / sp.sqrt(sp.factorial(n)))
        assert str(sigma.expr) == f"He({n}, x)"
        assert float(sigma(point)) == pytest.approx(float(e[f"h_{n}({point:.0f})"]), rel=float(e["rtol"]))


def test_sym_17_a_constant_keeps_the_shape() -> None:
    for constant in (sp.Integer(3), (3 * z).diff(z), x - x + 3, sp.sqrt(2) * 2, P((3, x > 0), (3, True))):
        assert str(hermite.activation(constant)(np.zeros(5)).shape) == CASES["sym-17"]["shape"]
        assert hermite.activation(constant)([[1.0], [2.0]]).shape == (2, 1)


def test_sym_18_erf_and_gelu_on_arrays() -> None:
    for value, wanted in zip(hermite.activation(sp.erf(x))([1, 2]), CASES["sym-18"]["erf([1,2])"], strict=True):
        same(float(value), wanted)
    gelu = hermite.activation(x * (1 + sp.erf(x / sp.sqrt(2))) / 2)
    points = np.linspace(-9, 3, 13)
    assert gelu(points) == pytest.approx([float(t * mp.ncdf(t)) for t in points.tolist()], rel=1e-14)


def test_the_density_of_a_normal_variable() -> None:
    """E phi(X) = 1/sqrt(4 pi)."""
    assert hermite.expectation(density(X01)(x)) == pytest.approx(1 / math.sqrt(4 * math.pi), rel=4e-15)
