"""Text to tree: what the grammar takes, that nothing in a text is ever run, and that trees print what they mean."""

from __future__ import annotations

import builtins
import math
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

import hermite
from hermite.errors import ActivationParseError, NotSquareIntegrableError, UnknownActivationError

X = np.array([-7.5, -2.0, -1.0, -0.3, -1e-9, 0.0, 1e-7, 0.4, 1.0, 2.5, 9.0])


def values(text: str) -> Any:
    return hermite.activation(text)(X)


# ---- what the grammar takes -----------------------------------------------------------------------------------

ACCEPTED: dict[str, Callable[[Any], Any]] = {
    "x": lambda x: x,
    "  x + 1 ": lambda x: x + 1,
    "(\nx\n)": lambda x: x,
    "-x": lambda x: -x,
    "+x": lambda x: x,
    "--x": lambda x: x,
    "-x**2": lambda x: -(x**2),
    "(-x)**2": lambda x: x**2,
    "2 - 3 - x": lambda x: -1 - x,
    "2 - (3 - x)": lambda x: x - 1,
    "x/2*3": lambda x: x / 2 * 3,
    "x/(2*4)": lambda x: x / 8,
    "12/3/2*x": lambda x: 2 * x,
    "2*x**3/4": lambda x: x**3 / 2,
    "x**2**2": lambda x: x**4,
    "(x**2)**3": lambda x: x**6,
    "x**2.0": lambda x: x**2,
    "x**+2": lambda x: x**2,
    "(1 + x**2)**-2": lambda x: (1 + x**2) ** -2.0,
    "(1 + x**2)**(1/3)": lambda x: (1 + x**2) ** (1 / 3),
    "(1 + x**2)**0.25": lambda x: (1 + x**2) ** 0.25,
    "0.5*x + .25 + 1e-3 + 2.5E+1 + 1_000": lambda x: 0.5 * x + 0.25 + 0.001 + 25 + 1000,
    "pi*x": lambda x: math.pi * x,
    "2**0.5*x": lambda x: math.sqrt(2) * x,
    "9**9*x": lambda x: 387420489 * x,
    "abs(x)": np.abs,
    "sign(x)": np.sign,
    "max(x, 0)": lambda x: np.maximum(x, 0),
    "min(x, 1, x**2, 3)": lambda x: np.minimum(np.minimum(x, 1), x**2),
    "1 if x > 0 else 2": lambda x: np.where(x > 0, 1.0, 2.0),
    "1 if x >= 0 else 2": lambda x: np.where(x >= 0, 1.0, 2.0),
    "1 if x < 0 else 2": lambda x: np.where(x < 0, 1.0, 2.0),
    "1 if x <= 0 else 2": lambda x: np.where(x <= 0, 1.0, 2.0),
    "1 if 0 < x else 2": lambda x: np.where(x > 0, 1.0, 2.0),
    "x if x > 1 else -x if x < -1 else x**2": lambda x: np.where(x > 1, x, np.where(x < -1, -x, x**2)),
    "(x if x > 1 else 1) + 1": lambda x: np.maximum(x, 1) + 1,
    "exp(-x**2)": lambda x: np.exp(-(x**2)),
    "expm1(x)": np.expm1,
    "log(1 + x**2)": lambda x: np.log(1 + x**2),
    "log1p(exp(x))": lambda x: np.logaddexp(0, x),
    "log(1 + exp(x))": lambda x: np.logaddexp(0, x),
    "sqrt(abs(x))": lambda x: np.sqrt(np.abs(x)),
    "sin(x)*cos(2*x)": lambda x: np.sin(x) * np.cos(2 * x),
    "sinh(x)": np.sinh,
    "cosh(x)": np.cosh,
    "tanh(x)": np.tanh,
    "arctan(x) + atan(x)": lambda x: 2 * np.arctan(x),
    "arcsinh(x) + asinh(x)": lambda x: 2 * np.arcsinh(x),
    "erf(x)": special.erf,
    "sigmoid(x)": special.expit,
    "Phi(x)": special.ndtr,
    "heaviside(x)": lambda x: np.where(x >= 0, 1.0, 0.0),
    "He(0, x) + He(1, x) + He(3, x)": lambda x: 1 + x + (x**3 - 3 * x) / math.sqrt(6),
    "relu(x - 1)": lambda x: np.maximum(x - 1, 0),
    "leaky_relu(x, negative_slope=0.2)": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu(x, alpha=1/2)": lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
    "hardtanh(x, min_val=-2, max_val=0.5)": lambda x: np.clip(x, -2, 0.5),
    "gelu(x, approximate='tanh')": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu(x) + swish(x)": lambda x: x * special.ndtr(x) + x * special.expit(x),
    "hermite_polynomial(x, degree=2)": lambda x: (x**2 - 1) / math.sqrt(2),
    "0*log(2 + sin(x))": lambda x: 0 * x,
    "0**0 + x": lambda x: 1 + x,
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_values_of_a_text(text: str) -> None:
    assert values(text) == pytest.approx(ACCEPTED[text](X), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize("text", ACCEPTED)
def test_the_tree_prints_what_it_means(text: str) -> None:
    """Parsing the printed tree gives the values again; constants may have been gathered, so up to rounding."""
    sigma = hermite.activation(text)
    again = hermite.activation(f"({sigma.expr})")
    assert again(X) == pytest.approx(sigma(X), rel=1e-14, abs=1e-15)
    assert again.breakpoints == pytest.approx(sigma.breakpoints, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.1*x", Fraction(1, 10)), ("1e-3*x", Fraction(1, 1000)), ("0.044715*x", Fraction(8943, 200000))],
)
def test_decimals_mean_themselves(text: str, number: Fraction) -> None:
    """0.1 is 1/10, not the float next to it; many digits are kept."""
    assert str(hermite.activation(text).expr) == f"{number}*x"


def test_more_digits_than_a_float_has() -> None:
    text = "1.00000000000000000000000000000001*x"
    assert str(hermite.activation(text).expr) == f"{Fraction('1.00000000000000000000000000000001')}*x"


def test_a_bare_registered_name_wins() -> None:
    """abs, sign, exp, sin alone are catalogue entries, with their parameters and name."""
    for name in ("abs", "sign", "exp", "sin", "tanh", "erf", "sigmoid"):
        assert hermite.activation(name).name == name
        assert hermite.activation(name).expr == hermite.activation(f"{name}(x)").expr
    assert hermite.activation("leaky_relu").parameters == {"negative_slope": Fraction(1, 100)}


# ---- what it refuses ------------------------------------------------------------------------------------------

REFUSED = [
    # python that is no arithmetic
    "__import__('os')", "__import__('os').system('true')", "x.real", "x.__class__", "().__class__", "1..real",
    "(lambda: 1)()", "lambda x: x", "[i for i in x]", "(i for i in x)", "{x}", "{x: 1}", "[x]", "(x, 1)", "x,", "x[0]",
    "x[0:1]", "f'{x}'", "'x'", "b'x'", "...", "1j*x", "x := 1", "(y := x)", "x = 1", "x; x", "import os", "print(1)",
    "eval('1')", "exec('1')", "open('f')", "relu(*[x])", "relu(**{})", "sin(*x)", "relu(x)(x)", "x(2)", "pi(x)",
    "await x", "yield x", "not x", "x and 1", "x or 1", "~x", "x @ x", "x // 2", "x % 2", "x << 1", "x | 1", "x & 1",
    "True*x", "None*x", "0x10*x",
    # comparisons outside a conditional, and conditions that are no comparison
    "x == 1", "x > 0", "x < 1 < 2", "1 if x == 0 else 2", "1 if x != 0 else 2", "1 if 0 < x < 1 else 2",
    "1 if x else 2",
    "1 if x > 0 and x < 1 else 2", "1 if x > 0", "1 if x is 0 else 2", "1 if x in x else 2",
    # unknown names and wrong calls
    "y + 1", "foo(x)", "e*x", "nan*x", "inf*x", "relu + 1", "sin*x", "relu()", "relu(x, x)", "sin()", "sin(x, x)",
    "sin(x=x)", "max(x)", "max()", "max(x, key=1)", "He(x, 3)", "He(3)", "He(1.5, x)", "He(-1, x)", "He(1001, x)",
    "He(10**9, x)",
    "heaviside(x, 0.5)", "leaky_relu(x, negative_slope=x)", "leaky_relu(x, negative_slope=1, negative_slope=2)",
    # powers and sizes
    "x**65", "x**-65", "x**x", "2**x", "x**pi", "x**(2**0.5)", "9**9**9", "10**400", "x**1e3", "x**(1/1000001)",
    "1e400*x", "1e-301*x", "1e300*1e300*x", "2**64**64", "(2**64)**64*(2**64)**64",
    # constants that are no real number
    "1/0", "x/0", "x/(1 - 1)", "x/(pi - pi)", "1/sin(0)", "0**-1", "x/(x - x)", "(x - x)/(x - x)", "log(-1)", "log(0)",
    "sqrt(-1)", "log(-pi)", "sqrt(-pi)", "log(sin(4))", "(-1)**0.5", "(-2)**(1/3)", "x + log(cos(pi))", "exp(1000)",
    "exp(exp(10))*x", "log(x - x)",
    # characters, lengths, depths
    "", "   ", "\n\t", "x\0", "\0", "relu(\0)", "x^2", "π*x", "x × 2", "√x", "x\r\n+ 1", "x \\\n", "1__0*x", "007*x",
    "1e+", "x***2", "x!", "((x)", "x))", "1.5.2*x", "(" * 500 + "x" + ")" * 500, "(" * 10**6,
    "(" * 500000 + ")" * 500000,
    "x + " * 500 + "x", "x + " * 100000 + "x", "-" * 1500 + "x", "sin(" * 300 + "x" + ")" * 300, "+".join(["x"] * 900),
    "**".join(["x"] * 400), "abs(" * 100 + "x" + ")" * 100,
]  # fmt: skip


def shorten(text: str) -> str:
    return text if len(text) < 60 else f"{text[:40]}...{len(text)}"


@pytest.mark.parametrize("text", REFUSED, ids=shorten)
def test_refused(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ActivationParseError) as caught:
        hermite.activation(text)
    assert time.process_time() - started < 2  # a million characters or 10^9 terms are refused, not worked on
    assert 10 < len(str(caught.value)) < 400  # the text is quoted, not repeated


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("x^2", r"\*\*"),
        ("", "empty"),
        ("x > 0", "if u > v else"),
        ("x**x", "exp"),
        ("relu + 1", r"relu\(x\)"),
        ("foo(x)", "foo"),
        ("2 + y", "'y'"),
        ("x" + " + x" * 600, "2000"),
        ("x/(pi - pi)", "division by the constant 0"),
        ("log(-1)", "log of the constant -1"),
        ("x**100", "64"),
    ],
)
def test_the_message_says_what_to_do(text: str, hint: str) -> None:
    with pytest.raises(ActivationParseError, match=hint):
        hermite.activation(text)


def test_nothing_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that would leave a trace if they ran; and eval and exec are not reached."""
    target = tmp_path / "trace"

    def forbidden(*_: object, **__: object) -> None:
        target.write_text("ran")
        raise AssertionError("a text was evaluated")

    for name in ("eval", "exec"):
        monkeypatch.setattr(builtins, name, forbidden)
    for text in (
        f"open('{target}', 'w')",
        f"__import__('pathlib').Path('{target}').touch()",
        f"(lambda: open('{target}', 'w'))()",
        f"[open('{target}', 'w') for i in (1,)]",
        f"relu(open('{target}', 'w'))",
        f"gelu(x, approximate=open('{target}', 'w'))",
        f"1 if open('{target}', 'w') else 2",
        f"eval(\"open('{target}', 'w')\")",
    ):
        with pytest.raises(ActivationParseError):
            hermite.activation(text)
    assert not target.exists()


@pytest.mark.parametrize("name", ["rellu", "x_", "True", "None", "nan", "max", "X", "__import__", "a" * 50])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UnknownActivationError, match="no activation named") as caught:
        hermite.activation(name)
    assert isinstance(caught.value, LookupError)


def test_unknown_names_come_with_a_suggestion() -> None:
    with pytest.raises(UnknownActivationError, match="did you mean relu"):
        hermite.activation("rellu")
    with pytest.raises((UnknownActivationError, ActivationParseError)) as caught:
        hermite.activation("x" * 10**6)
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relu(x, a=1)", "no parameter 'a'"),
        ("leaky_relu(x, slope=1)", "negative_slope"),
        ("leaky_relu(x, negative_slope='a')", "negative_slope must be"),
        ("celu(x, alpha=0)", "alpha != 0"),
        ("softplus(x, beta=0)", "beta > 0"),
        ("softplus(x, beta=-1)", "beta > 0"),
        ("hardtanh(x, min_val=1, max_val=0)", "min_val < max_val"),
        ("hardshrink(x, lambd=-1)", "lambd >= 0"),
        ("hermite_polynomial(x, degree=2.5)", "integer degree"),
        ("hermite_polynomial(x, degree=-1)", "integer degree"),
        ("gelu(x, approximate='foo')", "'none' or 'tanh'"),
    ],
)
def test_parameters_in_a_text(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hermite.activation(text)


@pytest.mark.parametrize("text", ["sqrt(x)", "log(x)", "x**0.5", "x**(1/3)", "log1p(x)", "sqrt(1 - x**2)", "-x**0.5"])
def test_what_is_not_real_on_an_interval(text: str) -> None:
    with pytest.raises(NotSquareIntegrableError, match="not real"):
        hermite.activation(text)


@pytest.mark.parametrize("spec", [None, 0, 1.5, True, b"x", ["x"], ("relu",), {}, object(), np.array([1.0]), int])
def test_what_is_no_activation(spec: Any) -> None:
    with pytest.raises(ValueError, match="spec must be a name"):
        hermite.activation(spec)


# ---- random expressions: the tree against NumPy, and against its own text --------------------------------------

_UNARY: dict[str, Callable[[Any], Any]] = {
    "sin({})": np.sin, "cos({})": np.cos, "tanh({})": np.tanh, "arctan({})": np.arctan, "erf({})": special.erf,
    "sigmoid({})": special.expit, "abs({})": np.abs, "-({})": lambda u: -u, "({})**2": lambda u: u * u,
    "({})**3": lambda u: u * u * u, "exp(-({})**2)": lambda u: np.exp(-u * u), "sqrt(1 + ({})**2)": lambda u:
    np.sqrt(1 + u * u), "log(2 + sin({}))": lambda u: np.log(2 + np.sin(u)), "relu({})": lambda u: np.maximum(u, 0),
    "arcsinh({})": np.arcsinh, "softplus({})": lambda u: np.logaddexp(0, u), "1/(3 + cos({}))": lambda u:
    1 / (3 + np.cos(u)), "He(2, {})": lambda u: (u * u - 1) / math.sqrt(2), "Phi({})": special.ndtr,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "({} + {})": np.add, "({} - {})": np.subtract, "({})*({})": np.multiply, "max({}, {})": np.maximum,
    "min({}, {})": np.minimum, "({})/(1 + ({})**2)": lambda u, v: u / (1 + v * v),
}  # fmt: skip
_LEAVES: list[tuple[str, Callable[[Any], Any]]] = [
    ("x", lambda x: x), ("x", lambda x: x), ("2", lambda x: 2.0 + 0 * x), ("0.3", lambda x: 0.3 + 0 * x),
    ("pi/4", lambda x: math.pi / 4 + 0 * x), ("-1/3", lambda x: -1 / 3 + 0 * x),
]  # fmt: skip
Pair = tuple[str, Callable[[Any], Any]]


def _one(pattern: str, inner: Pair) -> Pair:
    f = _UNARY[pattern]
    return pattern.format(inner[0]), lambda x: f(inner[1](x))


def _two(pattern: str, left: Pair, right: Pair) -> Pair:
    f = _BINARY[pattern]
    return pattern.format(left[0], right[0]), lambda x: f(left[1](x), right[1](x))


def _chosen(op: str, u: Pair, yes: Pair, no: Pair) -> Pair:
    compare = {">": np.greater, "<=": np.less_equal}[op]
    text = f"(({yes[0]}) if ({u[0]}) {op} 1/7 else ({no[0]}))"
    return text, lambda x: np.where(compare(u[1](x), 1 / 7), yes[1](x), no[1](x))


EXPRESSIONS = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        st.builds(_one, st.sampled_from(list(_UNARY)), inner),
        st.builds(_two, st.sampled_from(list(_BINARY)), inner, inner),
        st.builds(_chosen, st.sampled_from([">", "<="]), inner, inner, inner),
    ),
    max_leaves=5,
)
POINTS = np.array([-4.37, -2.1, -0.71, -0.123, 0.0517, 0.41, 1.19, 2.77])


def _comparable(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Values and how far an ulp of x or of an intermediate result may move them: by a neighbouring argument."""
    with np.errstate(all="ignore"):
        v = f(x)
        moved = np.max([np.abs(f(x * (1 + s * 1e-12)) - v) for s in (1, -1)], axis=0)
    return v, moved


@given(EXPRESSIONS)
def test_random_texts_mean_what_numpy_means(pair: Pair) -> None:
    text, f = pair
    try:
        sigma = hermite.activation(f"({text})")
    except ActivationParseError:  # too many pieces
        return
    wanted, moved = _comparable(f, POINTS)
    keep = np.isfinite(wanted) & (moved < 1e-6 * (1 + np.abs(wanted)))  # not within 1e-12 of a jump
    error = np.abs(sigma(POINTS) - wanted)
    assert (error <= 1e-11 * np.abs(wanted) + 10 * moved + 1e-13)[keep].all(), (text, error)


@given(EXPRESSIONS)
def test_random_trees_print_what_they_mean(pair: Pair) -> None:
    try:
        sigma = hermite.activation(f"({pair[0]})")
    except ActivationParseError:
        return
    again = hermite.activation(f"({sigma.expr})")
    first, moved = _comparable(sigma, POINTS)
    keep = np.isfinite(first) & (moved < 1e-6 * (1 + np.abs(first)))
    assert (np.abs(again(POINTS) - first) <= 1e-12 * np.abs(first) + 10 * moved + 1e-14)[keep].all()


@given(st.text(alphabet="x01.+-*/() <>,eifls=_", max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No other exception, and no warning, whatever is typed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            sigma = hermite.activation(text)
        except (ActivationParseError, UnknownActivationError, NotSquareIntegrableError):
            return
        assert sigma(X).shape == X.shape
