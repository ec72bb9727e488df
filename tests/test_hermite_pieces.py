"""The case split: exact ends of pieces, branches without a splitting operation, singular ends, and its limits."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite._interpreter import evaluate
from hermite._pieces import Piece
from hermite._tree import SPLITTING, Node
from hermite.errors import ActivationParseError, NotSquareIntegrableError

X = np.linspace(-11.3, 11.1, 1121) + 0.00137  # off the ends: there a piece and the function may differ


def exact_ends(text: str) -> list[str]:
    return [str(p.upper) for p in hermite.activation(text).pieces[:-1]]


# ---- where the ends are ---------------------------------------------------------------------------------------

R3 = "0.7596208866919427708999837015206295"  # of sin(3 x) = x
ENDS: dict[str, Callable[[], list[Any]]] = {
    # the text, and where its pieces end
    "relu(x)": lambda: [0],
    "abs(x - 1/3)": lambda: [mp.mpf(1) / 3],
    "abs(x**2 - 2)": lambda: [-mp.sqrt(2), mp.sqrt(2)],
    "abs(x**2 - 1/4)": lambda: [-0.5, 0.5],
    "abs(x**2 + x - 1)": lambda: [-mp.phi, 1 / mp.phi],
    "abs(1e-8*x**2 + x - 1e-8)": lambda: [s * (5e7 + mp.sqrt(25 * mp.mpf(10) ** 14 + 1)) ** -s for s in (-1, 1)],
    "max(x, sin(3*x))": lambda: [-mp.mpf(R3), 0, mp.mpf(R3)],
    "relu(exp(x) - 2)": lambda: [mp.log(2)],
    "abs(exp(x) - 3*x)": lambda: [-mp.lambertw(-mp.mpf(1) / 3), -mp.lambertw(-mp.mpf(1) / 3, -1).real],
    "tanh(relu(x))": lambda: [0],
    "relu(relu(x) - 1)": lambda: [1],
    "abs(abs(abs(x) - 1) - 1/2)": lambda: [-1.5, -1, -0.5, 0, 0.5, 1, 1.5],
    "max(-1, min(1, x))": lambda: [-1, 1],
    "min(x, 1, x**2)": lambda: [0, 1],
    "x if x > 0.1 else -x": lambda: [mp.mpf(1) / 10],
    "relu(x/10 - 1)": lambda: [10],
    "abs(1e6*x - 1)": lambda: [mp.mpf(10) ** -6],
    "sign(x - 1e-300)": lambda: [mp.mpf(10) ** -300],
    "sign(x - 100)": lambda: [100],
    "sign(tanh(x) - 1/2)": lambda: [mp.atanh(0.5)],
    "sign(sigmoid(x) - 1/4)": lambda: [-mp.log(3)],
    "abs(log1p(x**2) - 1)": lambda: [-mp.sqrt(mp.e - 1), mp.sqrt(mp.e - 1)],
    "abs(sinh(x) - 1)": lambda: [mp.asinh(1)],
    "sign(erf(x) - 1/2)": lambda: [mp.erfinv(0.5)],
    "sign(arctan(x) - 1)": lambda: [mp.tan(1)],
    "sign(x**3 - 3*x + 1)": lambda: [2 * mp.cos(k * mp.pi / 9) for k in (8, 4, 2)],
    "sign(x**5 - x - 1)": lambda: [mp.findroot(lambda x: x**5 - x - 1, 1.167)],
    "abs((x - 1)**2*(x + 1))": lambda: [-1],
    "abs(x**3*(x - 1/3))": lambda: [0, mp.mpf(1) / 3],
    "abs(x**4 - 4*x**2 + 2)": lambda: [
        s * mp.sqrt(2 + t * mp.sqrt(2)) for s, t in ((-1, 1), (-1, -1), (1, -1), (1, 1))
    ],
    "sign(x)*sign(x - 1)": lambda: [0, 1],
    "1 if exp(x) >= 1 else 0": lambda: [0],
    "sign(sin(x/10))": lambda: [-10 * mp.pi, 0, 10 * mp.pi],
    "hardtanh": lambda: [-1, 1],
    "hardswish": lambda: [-3, 3],
    "softshrink": lambda: [-0.5, 0.5],
    # no sign change: smooth everywhere, or constant
    "abs(x**2 + 1)": list,
    "abs(x**2)": list,
    "abs((x - 1)**2)": list,
    "sign(exp(x))": list,
    "abs(abs(x)*abs(x))": list,
    "max(x, x - 1)": list,
    "x if x > 0 else x": list,
    "relu(x)*0 + x": list,
    "max(sin(x), 2)": list,
    "sign(1 + erf(x))": list,
    "abs(1 + tanh(x))": list,
    "sign(Phi(2*x))": list,
    "abs(sigmoid(3*x))": list,
    "sign(cosh(x) - 1/2)": list,
}
# ill-conditioned: the text, the ends, and how far rounding in the text's own function may move them
STEEP: dict[str, tuple[Callable[[], list[Any]], float]] = {
    # a change of sign next to a point where the tree is 0/0; 1 + x has lost three digits of x
    "min(0.999, x + x/x)": (lambda: [-0.001, 0], 1e-13),
    # the slope of tanh(x)/x is 1e-3 at its end
    "min(tanh(x)/x, 0.999999)": (
        lambda: [-mp.mpf("0.001732051846800282297"), 0, mp.mpf("0.001732051846800282297")],
        1e-12,
    ),
    # two roots within 5e-4 of each other where the slope is 7e-4
    "abs(exp(x) - 2.718281828459045*x - 1e-7)": (
        lambda: [mp.mpf("0.99972873898000566948"), mp.mpf("1.0002712364946980969")],
        1e-11,
    ),
}


@pytest.mark.parametrize("text", ENDS)
def test_ends_of_pieces(text: str) -> None:
    """Each within an ulp of the end of the exact function."""
    with mp.workdps(40):
        wanted, found = ENDS[text](), hermite.activation(text).breakpoints
        assert len(found) == len(wanted), found
        for place, exact in zip(found, wanted, strict=True):
            assert abs(mp.mpf(place) - exact) <= mp.mpf("2.3e-16") * abs(exact), (place, exact)


@pytest.mark.parametrize("text", STEEP)
def test_ends_that_rounding_moves(text: str) -> None:
    wanted, tolerance = STEEP[text]
    with mp.workdps(40):
        assert hermite.activation(text).breakpoints == pytest.approx([float(w) for w in wanted()], rel=tolerance)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("abs(x - 1/3)", ["1/3"]),
        ("abs(x**2 - 2)", ["-sqrt(2)", "sqrt(2)"]),
        ("abs(x**2 - 1/4)", ["-1/2", "1/2"]),
        ("relu(exp(x) - 2)", ["log(2)"]),
        ("hardtanh(x, min_val=-0.1, max_val=0.3)", ["-1/10", "3/10"]),
        ("abs(x**3 - x/9)", ["-1/3", "0", "1/3"]),
        ("sign(x**2 - x - 6)", ["-2", "3"]),
    ],
)
def test_ends_are_exact(text: str, ends: list[str]) -> None:
    """Rational and closed-form ends keep their exact form, so that other engines can take more digits of them."""
    assert exact_ends(text) == ends


def test_pieces_in_words() -> None:
    assert [str(p) for p in hermite.activation("max(x, 0)").pieces] == ["0 on (-inf, 0)", "x on (0, inf)"]
    assert [str(p) for p in hermite.activation("hardshrink").pieces] == [
        "x on (-inf, -1/2)",
        "0 on (-1/2, 1/2)",
        "x on (1/2, inf)",
    ]


def test_a_root_is_kept_with_its_bracket() -> None:
    """sin(3x) = x has no closed root: the point knows its tree, so that more digits can be had."""
    low, zero, high = (p.upper for p in hermite.activation("max(x, sin(3*x))").pieces[:-1])
    assert zero.value == 0.0
    for point in (low, high):
        bracket = point.exact
        assert bracket is not None
        assert not isinstance(bracket, Fraction)
        # within the bracket the difference changes sign
        ends = [float(getattr(bracket, side)) for side in ("lower", "upper")]
        assert ends[0] <= abs(point.value) * math.copysign(1, point.value) <= ends[1]
        assert ends[1] - ends[0] < 1e-14


# ---- singular ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "singular"),
    [
        ("log(abs(x))", [0.0]),
        ("sqrt(abs(x - 1/3))", [1 / 3]),
        ("abs(x)**0.3", [0.0]),
        ("1/x", [0.0]),
        ("abs(x**2 - 2)**(-0.2)", [-math.sqrt(2), math.sqrt(2)]),
        ("x*log(x**2)", [0.0]),
        ("sqrt(max(x, 0))", [0.0]),
        ("abs(x)**3", []),
        ("log(1 + x**2)", []),
        ("1/(1 + x**2)", []),
        ("sqrt(1 + x**2)", []),
        ("relu(x)", []),
    ],
)
def test_singular_ends(text: str, singular: list[float]) -> None:
    pieces = hermite.activation(text).pieces
    assert [p.upper.value for p in pieces if p.singular_upper] == singular
    assert [p.lower.value for p in pieces if p.singular_lower] == singular


# ---- the pieces are the function ------------------------------------------------------------------------------


def splits(node: Node) -> bool:
    """Whether a choice that depends on x is left."""
    return not node.constant and (node.op in SPLITTING or any(splits(u) for u in node.args))


def check_pieces(sigma: hermite.Activation, x: Any = X) -> None:
    pieces = sigma.pieces
    assert pieces[0].lower.value == -math.inf
    assert pieces[-1].upper.value == math.inf
    for left, right in pairwise(pieces):
        assert left.upper == right.lower
        assert left.upper.value <= right.upper.value
    total = sigma(x)
    for p in pieces:
        assert not splits(p.expr)
        inside = (p.lower.value + 1e-9 < x) & (p.upper.value - 1e-9 > x)
        branch = evaluate(p.expr, x[inside])
        assert branch == pytest.approx(total[inside], rel=1e-12, abs=1e-12, nan_ok=True), str(p)


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_pieces_of_the_catalogue(sigma: hermite.Activation) -> None:
    check_pieces(sigma)
    check_pieces(sigma.scaled(-2).shifted(Fraction(1, 3)))


@pytest.mark.parametrize("text", ENDS)
def test_pieces_of_awkward_texts(text: str) -> None:
    check_pieces(hermite.activation(text))


_SPLIT = st.recursive(
    st.sampled_from(["x", "x", "x - 1/3", "2 - x", "x**2 - 1", "sin(x)", "x/2 + 1", "1/4", "x**3 - x"]),
    lambda u: st.one_of(
        st.builds("abs({})".format, u),
        st.builds("sign({})".format, u),
        st.builds("tanh({})".format, u),
        st.builds("max({}, {})".format, u, u),
        st.builds("min({}, {})".format, u, u),
        st.builds("({})*({})".format, u, u),
        st.builds("({} + {})".format, u, u),
        st.builds("(({}) if ({}) > ({}) else ({}))".format, u, u, u, u),
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("text", ["x*abs(tanh(1/4))", "x + sign(pi - 3)", "x*max(exp(1), pi)", "x if pi > 3 else 1"])
def test_constant_splits_are_decided_too(text: str) -> None:
    """A piece has no choice left at all, so that every engine can take it as a smooth expression."""
    (piece,) = hermite.activation(text).pieces
    assert not piece.expr.splits


@given(_SPLIT)
def test_pieces_of_random_compositions(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            sigma = hermite.activation(f"({text})")
        except ActivationParseError as error:
            if "pieces" not in str(error):
                raise
            return
        # further out tanh(x**2 - 1) rounds to 1, and the comparison 1 > tanh is false in float64 alone
        check_pieces(sigma, X[np.abs(X) <= 3])


@given(st.lists(st.integers(-30, 30).map(lambda k: Fraction(k, 10)), min_size=1, max_size=6, unique=True), st.data())
def test_pieces_of_random_steps(marks: list[Fraction], data: st.DataObject) -> None:
    """A sum of steps and kinks at chosen places has its ends there exactly."""
    terms = [data.draw(st.sampled_from([f"sign(x - ({m}))", f"abs(x - ({m}))"])) for m in marks]
    found = hermite.activation(" + ".join(f"{2**i}*{u}" for i, u in enumerate(terms))).pieces
    assert [p.upper.exact for p in found[:-1]] == sorted(marks)


# ---- limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["sign(sin(50*x))", "max(sin(700*x + 1), 0)", "abs(sin(40*x))*exp(x)", "sign(tanh(x) - sin(700*x))"]
)
def test_too_many_pieces_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(ActivationParseError, match=r"limit is 64"):
        hermite.activation(text)
    assert time.process_time() - started < 3


@pytest.mark.parametrize(("count", "fine"), [(63, True), (64, False)])
def test_the_limit_counts_pieces(count: int, fine: bool) -> None:
    text = " + ".join(f"abs(x - {k}/4)" for k in range(count))
    if fine:
        assert len(hermite.activation(text).pieces) == 64
    else:
        with pytest.raises(ActivationParseError, match="65 pieces"):
            hermite.activation(text)


def test_pieces_far_out_do_not_count() -> None:
    """Pieces outside [-40, 40] carry no mass: 100 kinks of which 41 lie inside are accepted."""
    sigma = hermite.activation(" + ".join(f"abs(x - {k})" for k in range(100)))
    assert len(sigma.pieces) == 101


@pytest.mark.parametrize(
    "text",
    [
        "silu(sign(Phi(2*x)))",
        "relu(arcsinh(sinh(x)))",
        "abs(" * 50 + "x - 1" + ")" * 50,
        "max(" * 50 + "x" + ", 1)" * 50,
        "1 if x > 0 else " * 100 + "0",
        "*".join(f"abs(x - {i})" for i in range(40)),
    ],
    ids=lambda t: t[:24],
)
def test_deep_splits_take_no_time(text: str) -> None:
    started = time.process_time()
    hermite.activation(text)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "max(exp(x*x), 2)",
        "sign(exp(x*x) - x)",
        "max(sinh(x*x), -1)",
        "sign(x*x/gelu(x))",
        "x/(exp(x) - 1)",
        "abs(exp(exp(x)) - 3)",
        "min(exp(exp(x)), 2)",
        "log(Phi(x))",
        "sqrt(gelu(x) + 1)",
        "abs(x**60 - 1)",
        "max(exp(20*x), x)",
    ],
)
def test_values_beyond_float64_warn_nobody(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hermite.activation(text).pieces


def test_what_is_real_on_half_the_line_only() -> None:
    for text in ("sqrt(x)", "log(x - 1)", "sqrt(1 - x**2)", "(x**3)**(1/3)", "log(sin(x))"):
        with pytest.raises(NotSquareIntegrableError, match="not real"):
            hermite.activation(text)
    # the branch that is not real is not taken
    for text in ("sqrt(x) if x > 0 else 0", "log(x) if x > 1 else x", "sqrt(max(1 - x**2, 0))"):
        assert hermite.activation(text).pieces


def test_pieces_are_values() -> None:
    first, second = (hermite.activation("abs(x**2 - 2)").pieces for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert all(isinstance(p, Piece) for p in first)
