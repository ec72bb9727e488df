r"""LaTeX of activations and moments: expected texts, and a small reader that computes from the text what it says.

The reader below knows the LaTeX that a mathematician reads (a bracket binds, \frac has two groups, \tanh^{2}(x) is a
square) and nothing of the printer: a forgotten bracket becomes a wrong number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from scipy import special

import hermite
from hermite import strategies
from hermite._latex import latex
from hermite._moments import Moments


def printed(spec: Any) -> str:
    return latex(hermite.activation(spec).expr)


# ---- expected texts -------------------------------------------------------------------------------------------

EXPECTED = {
    "relu": r"\max(x, 0)",
    "relu6": r"\min(\max(x, 0), 6)",
    "max(max(x, 1), x**2)": r"\max(x, 1, x^{2})",
    "leaky_relu": r"\begin{cases} x & \text{if } x > 0 \\ \frac{x}{100} & \text{otherwise} \end{cases}",
    "step": r"\begin{cases} 1 & \text{if } x \ge 0 \\ 0 & \text{otherwise} \end{cases}",
    "abs": "|x|",
    "abs(abs(x) - 1)": r"\left||x| - 1\right|",
    "sign": r"\operatorname{sign}(x)",
    "softshrink": r"\begin{cases} x - \frac{1}{2} & \text{if } x > \frac{1}{2} \\ "
    r"x + \frac{1}{2} & \text{if } x < -\frac{1}{2} \\ 0 & \text{otherwise} \end{cases}",
    "1 if abs(x) <= 0 else 2": r"\begin{cases} 1 & \text{if } x = 0 \\ 2 & \text{otherwise} \end{cases}",
    "1 if abs(x) >= 0 else 2": r"\begin{cases} 1 & \text{if } |x| \ge 0 \\ 2 & \text{otherwise} \end{cases}",
    "softsign": r"\frac{x}{1 + |x|}",
    "selu": r"1.0507009873554804934193349852946 \left(\begin{cases} x & \text{if } x > 0 \\ "
    r"1.6732632423543772848170429916717 (e^{x} - 1) & \text{otherwise} \end{cases}\right)",
    "tanh": r"\tanh(x)",
    "tanh(x/2)": r"\tanh\left(\frac{x}{2}\right)",
    "tanh(x)**2": r"\tanh^{2}(x)",
    "log(2 + x**2)**2": r"\log(x^{2} + 2)^{2}",
    "erf": r"\operatorname{erf}(x)",
    "arctan": r"\arctan(x)",
    "sigmoid": r"\operatorname{sigmoid}(x)",
    "Phi(x)": r"\Phi(x)",
    "1 - Phi(2*x)": r"\Phi(-2 x)",
    "1 + erf(x/sqrt(2))": r"2 \Phi(x)",
    "1 + erf(x)": r"1 + \operatorname{erf}(x)",
    "gelu": r"x \Phi(x)",
    "gelu_tanh": r"\frac{1}{2} x \left(1 + \tanh\left(\sqrt{\frac{2}{\pi}} (x + 0.044715 x^{3})\right)\right)",
    "softplus": r"\log(1 + e^{x})",
    "mish": r"x \tanh(\log(1 + e^{x}))",
    "gaussian": r"e^{-x^{2}}",
    "exp(-x**2/2)/sqrt(2*pi)": r"\frac{\exp\left(-\frac{x^{2}}{2}\right)}{\sqrt{2 \pi}}",
    "exp(x)**2": r"(e^{x})^{2}",
    "expm1(x)": "e^{x} - 1",
    "2*expm1(x)": "2 (e^{x} - 1)",
    "sinh(x)": r"\sinh(x)",
    "3*cosh(2*x)": r"3 \cosh(2 x)",
    "asinh(x)/2": r"\frac{1}{2} \operatorname{arsinh}(x)",
    "1/cosh(x)": r"\frac{1}{\cosh(x)}",
    "x**2 - 2": "x^{2} - 2",
    "1 - x**2": "1 - x^{2}",
    "exp(x) - 2": "e^{x} - 2",
    "-x": "-x",
    "-(x + 1)*x": "(-x - 1) x",
    "-(x*(x + 1))": "-x (x + 1)",
    "-(x + x**2)": "-(x + x^{2})",
    "x - (x**2 + x**3)": "x - (x^{2} + x^{3})",
    "7*x/3": r"\frac{7 x}{3}",
    "-x/3": r"-\frac{x}{3}",
    "-1/3": r"-\frac{1}{3}",
    "0.1*x": r"\frac{x}{10}",
    "0.044715*x": "0.044715 x",
    "-0.00125*x": r"-\frac{x}{800}",
    "x/1001": r"\frac{1}{1001} x",
    "pi*x": r"\pi x",
    "2/pi": r"\frac{2}{\pi}",
    "x*2**0.5": r"\sqrt{2} x",
    "2*3**(1/3)*x": r"2 \cdot 3^{1/3} x",
    "sqrt(1 + x**2)**3": r"(\sqrt{x^{2} + 1})^{3}",
    "(1 + x**2)**(-1/3)": r"\frac{1}{(x^{2} + 1)^{1/3}}",
    "x**2/(x**2 + 1)*3/2": r"\frac{3 x^{2}}{2 (x^{2} + 1)}",
    "(1/2)**(1/3)*x": r"\left(\frac{1}{2}\right)^{1/3} x",
    "(-x)**3": "(-x)^{3}",
    "He(3, x)": r"\mathrm{He}_{3}(x)",
    "3": "3",
}


@pytest.mark.parametrize("text", EXPECTED)
def test_text(text: str) -> None:
    assert printed(text) == EXPECTED[text]


def test_a_notebook_shows_the_formula() -> None:
    assert hermite.activation("gelu")._repr_latex_() == r"$\displaystyle x \Phi(x)$"


def test_a_callable_is_shown_by_its_name() -> None:
    def my_bump(x: Any) -> Any:
        return np.exp(-(x**2))

    assert printed(my_bump) == r"\operatorname{my\_bump}(x)"
    assert printed(lambda x: x * 1.0) == r"\operatorname{lambda}(x)"
    my_bump.__name__ = "σ"
    assert printed(my_bump) == r"\operatorname{f}(x)"
    assert latex(hermite.activation(np.tanh, gain=2).expr) == r"\operatorname{tanh}(2 x)"


# ---- a reader of LaTeX ----------------------------------------------------------------------------------------

TOKEN = re.compile(r"\\left|\\right|\\[a-zA-Z]+|\\\\|\d+\.\d+|\d+|.", re.DOTALL)
FUNCTIONS: dict[str, Callable[..., float]] = {
    r"\sin": math.sin, r"\cos": math.cos, r"\tanh": math.tanh, r"\sinh": math.sinh, r"\cosh": math.cosh,
    r"\arctan": math.atan, r"\log": math.log, r"\max": max, r"\min": min, "erf": math.erf, "sigmoid": special.expit,
    "sign": np.sign, "arsinh": math.asinh, r"\Phi": special.ndtr, r"\exp": math.exp,
}  # fmt: skip
RELATIONS = {"<": float.__lt__, r"\le": float.__le__, ">": float.__gt__, r"\ge": float.__ge__, "=": float.__eq__}


class Reader:
    """Recursive descent over the tokens; juxtaposition is a product, only named functions take arguments."""

    def __init__(self, text: str, x: float) -> None:
        self.tokens = [token for token in TOKEN.findall(text) if not token.isspace()]
        self.x = x
        self.barred = False  # plain bars do not nest: the next one closes

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, *wanted: str) -> str:
        for token in wanted:
            assert self.peek() == token, (self.tokens[:8], wanted)
            self.tokens.pop(0)
        return wanted[-1] if wanted else self.tokens.pop(0)

    def group(self) -> float:
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def sum(self) -> float:
        value = self.product()
        while self.peek() in ("+", "-"):
            value += self.product() if self.take(self.peek()) == "+" else -self.product()
        return value

    def product(self) -> float:
        if self.peek() == "-":
            self.take("-")
            return -self.product()
        value = self.power()
        stops = {"", "+", "-", "}", ")", ",", "&", r"\right", r"\\", r"\end", *RELATIONS}
        while self.peek() not in stops and not (self.peek() == "|" and self.barred):
            if self.peek() == r"\cdot":
                self.take(r"\cdot")
            value *= self.power()
        return value

    def exponent(self) -> float:
        if self.peek() != "^":
            return 1.0
        self.take("^", "{")
        value = float(self.take())
        if self.peek() == "/":
            self.take("/")
            value /= float(self.take())
        self.take("}")
        return value

    def power(self) -> float:
        if self.peek() == "e":
            self.take("e", "^")
            return math.exp(self.group())
        value = self.atom()
        return value ** self.exponent() if self.peek() == "^" else value

    def atom(self) -> float:
        token = self.take()
        if token == "x":
            return self.x
        if token[0].isdigit():
            return float(token)
        if token == r"\pi":
            return math.pi
        if token == r"\frac":
            return self.group() / self.group()
        if token == r"\sqrt":
            return math.sqrt(self.group())
        if token == "(":
            return self.closed(")")
        if token == "|":
            self.barred = True
            value = self.closed("|")
            self.barred = False
            return abs(value)
        if token == r"\left":
            opening = self.take()
            value = self.sum_or_cases()
            self.take(r"\right", {"(": ")", "|": "|"}[opening])
            return abs(value) if opening == "|" else value
        if token == r"\mathrm":
            self.take("{", "H", "e", "}", "_", "{")
            degree = int(self.take())
            self.take("}")
            return float(hermite.polynomials(self.arguments()[0], degree)[degree])
        return self.call(token)

    def closed(self, end: str) -> float:
        value = self.sum_or_cases()
        self.take(end)
        return value

    def call(self, name: str) -> float:
        if name == r"\operatorname":
            self.take("{")
            name = ""
            while self.peek() != "}":
                name += self.take()
            self.take("}")
        power = self.exponent()
        return float(FUNCTIONS[name](*self.arguments())) ** power

    def arguments(self) -> list[float]:
        tall = self.peek() == r"\left"
        self.take(*[r"\left"] * tall, "(")
        values = [self.sum_or_cases()]
        while self.peek() == ",":
            self.take(",")
            values.append(self.sum_or_cases())
        self.take(*[r"\right"] * tall, ")")
        return values

    def sum_or_cases(self) -> float:
        return self.cases() if self.peek() == r"\begin" else self.sum()

    def cases(self) -> float:
        self.take(r"\begin", "{", *"cases", "}")
        chosen: float | None = None
        while True:
            try:
                value = self.sum_or_cases()
            except (ValueError, OverflowError):  # a branch that is not taken need not be real
                value = math.nan
                while self.peek() != "&":
                    self.take()
            self.take("&", r"\text", "{")
            if self.peek() == "o":
                self.take(*"otherwise", "}", r"\end", "{", *"cases", "}")
                return value if chosen is None else chosen
            self.take(*"if", "}")
            left = self.sum_or_cases()
            holds = RELATIONS[self.take()](left, self.sum_or_cases())
            chosen = value if chosen is None and holds else chosen
            self.take(r"\\")


def read(text: str, x: float) -> float:
    reader = Reader(text, x)
    value = reader.sum_or_cases()
    assert not reader.tokens, (text, reader.tokens)
    return value


def assert_says_its_values(sigma: hermite.Activation, points: list[float]) -> None:
    text = latex(sigma.expr)
    for point in points:
        # decimals are printed exactly, so that only the order of operations differs; high powers amplify it
        wanted = float(sigma(point))
        assert read(text, point) == pytest.approx(wanted, rel=1e-9, abs=1e-9), (sigma, text, point)


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_the_catalogue_says_its_values(sigma: hermite.Activation) -> None:
    assert_says_its_values(sigma, [-2.25, -0.4, 0.3, 1.7])


@pytest.mark.parametrize("text", [text for text in EXPECTED if text not in hermite._catalogue.ENTRIES])
def test_the_expected_texts_say_their_values(text: str) -> None:
    assert_says_its_values(hermite.activation(text), [-1.25, -0.4, 0.3, 1.7])


AWKWARD = [
    "2*(x - (3 - x))*-1", "-(x - 1)**2", "x**2/(2*(1 + abs(x)))/3*-1", "x*(1 if x > 0 else -1) + 2",
    "-(1 if x > 0 else x)*2", "(x if x > 0 else -x)**2", "abs(x - abs(x/2))", "(abs(x) + 1)**(1/3)*-3",
    "x - tanh(x)**3*(1 + x)/7", "(x/3)**3", "1/(1 + 1/(1 + x**2))", "exp(1/(1 + x**2))*2", "-sinh(-x) + cosh(x)**2",
    "x*(2 + erf(x/sqrt(2))) - Phi(x/3)**2", "(1 + erf(x/sqrt(2)))*3*x/2", "3*(1 - erf((x + 1)/sqrt(2)))",
    "max(x, 0)*min(x, 1)/pi", "(-2)*pi*x*(-3)**3", "sqrt(2)*sqrt(x**2 + 3)/2", "1 - (2 - (3 - exp(x)))",
    "(1 if x > 1 else 2 if x > 0 else (3 if x > -1 else 4))*x", "(1 if (x if x > 0 else -x) > 1 else 2)",
    "log(1 + exp(x))**2/(1 + x**2)**2", "He(2, x)**2*He(3, -x/2)", "sin(x)**2*cos(2*x)**3", "exp(-x)*expm1(x)*3",
    "2 - 3*expm1(-x)", "asinh(x - 1)*sign(x)", "(2*x)**2", "(x**2)**(1/2)", "x*(1/7 + x)/3", "-1/x**2 if x > 1 else x",
    "arctan(-x)**2", "-abs(x)", "abs(-x*(x - 1))", "2**(1/2)*3**(1/2)*x", "0.5*2**(1/3)*x*5**(1/3)",
]  # fmt: skip


@pytest.mark.parametrize("text", AWKWARD)
def test_brackets_stand_where_they_are_needed(text: str) -> None:
    assert_says_its_values(hermite.activation(f"({text})"), [-2.25, -0.4, 0.3, 1.7])


@given(strategies.activations(max_gain=2, max_shift=2))
def test_random_activations_say_their_values(sigma: hermite.Activation) -> None:
    assert_says_its_values(sigma, [-1.3, -0.2, 0.7])
    assert_says_its_values(3 - 2 * sigma, [-1.3, -0.2, 0.7])
    assert_says_its_values(sigma / 7 - hermite.activation("tanh") * sigma, [-1.3, -0.2, 0.7])


@given(strategies.activations())
def test_braces_balance_and_fractions_have_two_groups(sigma: hermite.Activation) -> None:
    text = latex(sigma.expr)
    depth = 0
    for c in re.sub(r"\\[{}]", "", text):
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\left") == text.count(r"\right")
    assert text.count(r"\begin{cases}") == text.count(r"\end{cases}")
    for start in re.finditer(r"\\frac", text):
        rest = text[start.end() :]
        for _ in range(2):
            assert rest.startswith("{"), text
            depth = 0
            for i, c in enumerate(rest):
                depth += (c == "{") - (c == "}")
                if depth == 0:
                    assert i > 1, text
                    rest = rest[i + 1 :]
                    break


def test_the_reader_sees_a_missing_bracket() -> None:
    """What the printer would say without brackets is another function."""
    assert read(r"2 (e^{x} - 1)", 1.0) != pytest.approx(read(r"2 e^{x} - 1", 1.0))
    assert read(r"\frac{1}{2} x", 3.0) == 1.5
    assert read(r"(-x)^{2}", 2.0) != read(r"-x^{2}", 2.0)
    with pytest.raises((AssertionError, IndexError)):
        read(r"\frac{1}{2", 1.0)


# ---- moments and tables ---------------------------------------------------------------------------------------


def test_moments_of_float64() -> None:
    text = hermite.moments("step", 1)._repr_latex_()
    assert text == (
        r"$\displaystyle \begin{aligned} c_{0} &= 0.50000000000000 \\ c_{1} &= 0.39894228040143 \\ "
        r"\operatorname{E}\sigma^{2} &= 0.50000000000000 \\ \operatorname{Var}\sigma &= 0.25000000000000 \\ "
        r"\beta &= 1.3633802276324 \end{aligned}$"
    )


def test_moments_show_no_digit_beyond_the_error() -> None:
    rough = Moments((1 / 3, 2e-7), 0.5, 0.25, 0.125, 1e-5, "rough")
    text = rough._repr_latex_()
    assert r"c_{0} &= 0.3333 \\ c_{1} &= 0 \\" in text
    assert r"\sigma^{2} &= 0.5000 \\" in text
    assert r"\beta &= 1.500 \end" in text
    # of coefficients relative to the root of E sigma^2, of moments relative to E sigma^2
    large = Moments((1 / 3, 2 / 3), 100.0, 0.25, 0.125, 1e-5, "rough")._repr_latex_()
    assert r"c_{0} &= 0.333 \\ c_{1} &= 0.667 \\" in large
    assert r"\sigma^{2} &= 100.00 \\ \operatorname{Var}\sigma &= 0.25 \\" in large


def test_many_coefficients_are_cut_short() -> None:
    text = hermite.moments("relu", 40)._repr_latex_()
    assert text.count("c_{") == 7
    assert r"\vdots" in text


def test_a_small_coefficient_is_in_powers_of_ten() -> None:
    small = Moments((1.25e-9, 0.5), 0.5, 0.25, 0.125, 1e-15, "small")
    assert r"c_{0} &= 1.25000 \times 10^{-9} \\" in small._repr_latex_()


@pytest.mark.parametrize("sigma", ["3", lambda x: 2.0])
def test_a_constant_has_no_isometry_strength(sigma: Any) -> None:
    text = hermite.moments(sigma, 1)._repr_latex_()
    assert r"\operatorname{Var}\sigma &= 0 \end" in text
    assert r"\beta" not in text


def test_moments_in_multiple_precision() -> None:
    with mp.workdps(60):
        c = (mp.mpf(1) / 3, mp.mpf(2) / 7)
        found = Moments(c, mp.mpf(1), mp.mpf(2) / 3, mp.mpf(1) / 7, 1e-31, "two rules")
    text = found._repr_latex_()
    assert r"c_{0} &= 0.333333333333333333333333333333 \\" in text
    assert r"\sigma &= 0.666666666666666666666666666667 \\" in text


def test_moments_in_closed_form() -> None:
    a = sp.Symbol("a", positive=True)
    half = sp.Rational(1, 2)
    found = Moments((1 / sp.sqrt(2 * sp.pi), half), half, half - 1 / (2 * sp.pi), 1 - 2 / sp.pi, 0.0, "closed form")
    text = found._repr_latex_()
    assert r"c_{0} &= \frac{\sqrt{2}}{2 \sqrt{\pi}} \\ c_{1} &= \frac{1}{2} \\" in text
    assert "$" not in text.removeprefix("$").removesuffix("$")
    symbolic = Moments((a, a), 2 * a**2, a**2, a**2 / 2, 0.0, "closed form")._repr_latex_()
    assert r"\operatorname{E}\sigma^{2} &= 2 a^{2} \\" in symbolic
    assert r"\beta &= \frac{3}{2} \end" in symbolic
    zero = Moments((a, sp.Integer(0)), a**2, sp.Integer(0), sp.Integer(0), 0.0, "closed form")._repr_latex_()
    assert r"\beta" not in zero


class Ball:
    """A number that prints itself, as an enclosure does."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def __truediv__(self, other: Ball) -> Ball:
        return Ball(self.value / other.value)

    def __radd__(self, other: float) -> Ball:
        return Ball(other + self.value)

    def _repr_latex_(self) -> str:
        return rf"${self.value} \pm 10^{{-30}}$"


def test_moments_of_numbers_that_print_themselves() -> None:
    found = Moments((Ball(0.25), Ball(0.5)), Ball(1.0), Ball(0.5), Ball(0.25), 1e-30, "balls")
    text = found._repr_latex_()
    assert r"c_{0} &= 0.25 \pm 10^{-30} \\" in text
    assert r"\beta &= 1.5 \pm 10^{-30} \end" in text


def test_a_notebook_shows_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = hermite.beta_table(["relu"], digits=4)
    assert table._repr_html_().startswith("<table>")
    shown = table._repr_latex_()
    assert shown is not None
    assert shown.startswith(r"\begin{tabular}")
    monkeypatch.setitem(__import__("sys").modules, "tabulate", None)
    assert table._repr_latex_() is None  # a notebook takes the HTML then, and shows no traceback
    assert table._repr_html_().startswith("<table>")
