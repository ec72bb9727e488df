"""Enclosures as numbers: containment, order, printing, arithmetic; proofs of positivity; the balls underneath."""

from __future__ import annotations

import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import hermite

flint = pytest.importorskip("flint")
from hermite.certified import Enclosure, is_positive  # noqa: E402
from hermite.certified._balls import complex_box, real  # noqa: E402
from hermite.certified._boxes import BOX_FUNCTIONS, box_hermite, box_power, box_softplus, inverse  # noqa: E402
from hermite.certified._flint import acb, arb, between, precision  # noqa: E402
from hermite.certified._quadrature import HermiteWeight, Panels, gauss_legendre, samples  # noqa: E402
from hermite.certified._ray import size  # noqa: E402

rationals = st.fractions(-1000, 1000, max_denominator=10**6) | st.builds(
    lambda m, e: Fraction(m) * Fraction(10) ** e, st.integers(-(10**9), 10**9), st.integers(-40, 40)
)
widths = st.builds(lambda m, e: Fraction(m) * Fraction(10) ** e, st.integers(0, 1000), st.integers(-45, 3))


@st.composite
def enclosures(draw: st.DrawFn) -> tuple[Enclosure, Fraction]:
    """An enclosure and a number in it."""
    middle, half, place = draw(rationals), draw(widths), draw(st.fractions(-1, 1, max_denominator=1000))
    return Enclosure.between(middle - half, middle + half), middle + place * half


def exact(value: Any) -> Fraction:
    """An mpf as a fraction, whatever the precision."""
    sign, man, exp, _ = value._mpf_
    return (-1 if sign else 1) * Fraction(int(man)) * Fraction(2) ** int(exp)


# ---- printing -----------------------------------------------------------------------------------------------------


@given(pair=enclosures(), digits=st.none() | st.integers(1, 40))
def test_every_printed_digit_is_right(pair: tuple[Enclosure, Fraction], digits: int | None) -> None:
    """Printed and true value differ by less than one unit of the last digit."""
    e, x = pair
    text = e.decimal(digits)
    if text.startswith("["):
        low, high = (Fraction(t) for t in text[1:-1].split(", "))
        assert low <= x <= high
        return
    printed = Decimal(text)
    unit = Fraction(10) ** int(printed.as_tuple().exponent)
    if e.radius == 0 and digits is None and len(printed.as_tuple().digits) < 50:
        assert Fraction(text) == x  # an exact number that ends is printed to its end
    assert abs(Fraction(text) - x) < unit
    if digits is not None and printed:
        assert len(printed.as_tuple().digits) <= digits
    # as many digits as the rule allows: with a tenth of the unit the radius would be too large
    if digits is None and e.radius > 0:
        assert 2 * exact(e.radius) < unit <= 20 * exact(e.radius) * Fraction(10)


def test_printed_forms() -> None:
    assert str(Enclosure.of("0.5")) == "0.5"
    assert str(Enclosure.of(0)) == "0"
    assert str(Enclosure.of(-12)) == "-12"
    assert str(Enclosure.between("1.2344", "1.2346")) == "1.234"
    assert Enclosure.between("9.9996", "9.9998").decimal(3) == "10.0"
    assert str(Enclosure.between(-1, 1)) == "0e1"
    assert str(Enclosure.between("-1e-40", "1e-40")) == "0e-39"
    assert str(Enclosure.between(1, 3)) == "[1.00, 3.00]"
    assert str(Enclosure.between("1.234e-9", "1.23401e-9")) == "1.2340e-09"
    assert Enclosure.between("1.234e-9", "1.23401e-9").latex() == r"1.2340 \times 10^{-9}"
    assert Enclosure.of("0.25")._repr_latex_() == "$0.25$"
    assert re.fullmatch(r"Enclosure\(0\.3{38} \+/- \d\.\d+e-\d+\)", repr(Enclosure.of("1/3")))


@given(pair=enclosures())
def test_digits_are_proven(pair: tuple[Enclosure, Fraction]) -> None:
    e, x = pair
    if e.radius == 0:
        assert e.digits == math.inf
        return
    assert exact(e.radius) <= Fraction(1, 10 ** int(e.digits)) * abs(x) or e.digits == 0
    least = min(abs(exact(e.lower)), abs(exact(e.upper)))
    if exact(e.lower) <= 0 <= exact(e.upper):
        assert e.digits == 0
    else:
        assert exact(e.radius) > Fraction(1, 10 ** (int(e.digits) + 1)) * least


# ---- membership, order, records -----------------------------------------------------------------------------------


@given(pair=enclosures())
def test_membership(pair: tuple[Enclosure, Fraction]) -> None:
    e, x = pair
    assert x in e
    assert e in e
    assert exact(e.lower) <= x <= exact(e.upper)
    assert e.midpoint in e
    margin = 1 + abs(x) / 10**30  # 128 bits
    assert Enclosure.of(x) in Enclosure.between(exact(e.lower) - margin, exact(e.upper) + margin)
    assert exact(e.upper) + Fraction(1, 10**50) not in e
    assert exact(e.midpoint) * 2 == exact(e.lower) + exact(e.upper)
    assert exact(e.radius) * 2 == exact(e.upper) - exact(e.lower)


def test_membership_accepts_numbers_of_every_kind() -> None:
    e = Enclosure.between("0.099", "0.1")
    for x in (0.1, "0.1", Fraction(1, 10), np.float64(0.1), mp.mpf("0.0995"), Decimal("0.1"), "99/1000"):
        assert x in e
    for x in (1, 0, "0.10000001", mp.mpf(1)):
        assert x not in e
    with pytest.raises(ValueError, match="value"):
        None in e  # noqa: B015


@given(first=enclosures(), second=enclosures())
def test_order_is_certain_or_refused(first: tuple[Enclosure, Fraction], second: tuple[Enclosure, Fraction]) -> None:
    (a, x), (b, y) = first, second
    for symbol, verdict in (("<", x < y), (">", x > y), ("<=", x <= y), (">=", x >= y)):
        compare = {"<": a.__lt__, ">": a.__gt__, "<=": a.__le__, ">=": a.__ge__}[symbol]
        if exact(a.upper) < exact(b.lower) or exact(b.upper) < exact(a.lower):
            assert compare(b) is verdict
        elif exact(a.upper) > exact(b.lower) and exact(b.upper) > exact(a.lower):
            with pytest.raises(ValueError, match="undecided"):
                compare(b)


def test_records() -> None:
    e = Enclosure.between("0.1", "0.2")
    assert pickle.loads(pickle.dumps(e)) == e
    assert hash(e) == hash(Enclosure.between("0.1", "0.2"))
    assert e != Enclosure.between("0.1", "0.3")
    assert e != 0.15
    assert float(Enclosure.between(1, 2)) == 1.5
    with pytest.raises(AttributeError):
        e._low = (0, 0)  # type: ignore[misc]
    with pytest.raises(ValueError, match="low must not exceed high"):
        Enclosure.between(2, 1)


def test_ends_do_not_depend_on_anybodys_precision() -> None:
    value = hermite.certified.isometry_strength("tanh", digits=60)
    with mp.workdps(5), flint.ctx.workprec(20):
        text, low = str(value), value.lower
    assert text == str(value)
    assert low == value.lower
    assert len(text) > 60


# ---- arithmetic ---------------------------------------------------------------------------------------------------

_FUNCTIONS = ["exp", "expm1", "log", "log1p", "sqrt", "tanh", "arctan", "erf", "arcsin", "arccos", "sin", "cos"]
_MP = {"arctan": "atan", "arcsin": "asin", "arccos": "acos"}


@given(first=enclosures(), second=enclosures(), n=st.integers(-3, 5))
def test_arithmetic_encloses(first: tuple[Enclosure, Fraction], second: tuple[Enclosure, Fraction], n: int) -> None:
    (a, x), (b, y) = first, second
    assert x + y in a + b
    assert x - y in a - b
    assert x * y in a * b
    assert -x in -a
    assert abs(x) in abs(a)
    assert 3 - x in 3 - a
    assert x * Fraction(1, 3) in a * Fraction(1, 3)
    assert x * x in a * a
    assert (a * a).lower >= 0
    for base, power, value in ((a, n, x), (b, 2, y)):
        try:
            found = base**power
        except ZeroDivisionError:
            assert power < 0
            assert exact(base.lower) <= 0 <= exact(base.upper)
        else:
            assert value**power in found
    if exact(b.lower) > 0 or exact(b.upper) < 0:
        assert x / y in a / b
        assert 2 / y in 2 / b
    else:
        with pytest.raises(ZeroDivisionError):
            a / b


@given(pair=enclosures(), name=st.sampled_from(_FUNCTIONS))
def test_functions_enclose(pair: tuple[Enclosure, Fraction], name: str) -> None:
    e, x = pair
    assume(abs(x) < 10**4)
    try:
        found = getattr(e, name)()
    except ValueError:
        return
    with mp.workdps(90):
        for point in (x, exact(e.lower), exact(e.upper)):
            value = getattr(mp, _MP.get(name, name))(mp.mpf(point.numerator) / point.denominator)
            slack = mp.mpf(10) ** -80 * (1 + abs(value))
            assert found.lower - slack <= value <= found.upper + slack


def test_functions_refuse_what_they_cannot_enclose() -> None:
    across = Enclosure.between(-1, 1)
    for call in (across.log, across.sqrt, (across * 2).arcsin, (across * 2).arccos, (across * 2).log1p):
        with pytest.raises(ValueError, match="not defined on all of"):
            call()
    with pytest.raises(ValueError, match="base that is not negative"):
        across ** Fraction(1, 2)
    assert (Enclosure.between(0, 4) ** Fraction(1, 2)).lower == 0
    assert np.exp(np.array([Enclosure.of(0)], dtype=object))[0] == Enclosure.of(1)
    with pytest.raises(TypeError):
        across * [1]
    assert Enclosure.pi() > "3.14159265358979323846264338327950288"


# ---- positivity ---------------------------------------------------------------------------------------------------


def test_proofs_of_positivity() -> None:
    root = lambda r: (1 - r * r).sqrt()  # noqa: E731
    cases: list[tuple[Any, tuple[Any, Any], bool]] = [
        (lambda x: x * x - x + Fraction(2501, 10000), (-3, 3), True),
        (lambda x: x.exp() - 1 - x + Fraction(1, 1000), (-2, 2), True),
        (lambda x: x * (1 - x), (0, 1), False),
        (lambda x: x.sin() + Fraction(1001, 1000), (0, 50), True),
        (root, ("-1", "1"), False),
        (lambda r: r.arccos() - root(r), ("0", "0.9"), True),
        (lambda x: 1, (0, 1), True),
    ]
    for f, interval, strict in cases:
        assert is_positive(f, interval, strict=strict).verdict == "proven"
    # 1 at the ends of an interval where a > 0 is not strict
    assert is_positive(lambda x: x, (0, 1)).verdict == "proven"
    assert is_positive(lambda x: x, (0, 1), strict=True).verdict == "refuted"


@given(place=st.fractions(0, 1, max_denominator=10**4), depth=st.integers(3, 12))
def test_a_function_that_dips_below_zero_is_never_proven(place: Fraction, depth: int) -> None:
    found = is_positive(lambda x: (x - place) ** 2 - Fraction(1, 10**depth), (0, 1))
    assert found.verdict == "refuted"
    assert found.point is not None
    assert (found.point - place) ** 2 < Fraction(1, 10**depth)
    assert found.value is not None
    assert found.value < 0


def test_what_cannot_be_decided_is_not_decided() -> None:
    for f in (
        lambda x: x * x - x * Fraction(2, 3) + Fraction(1, 9),
        lambda x: 1 / (x - Fraction(1, 3)) ** 2,
        lambda x: (x - 2).log(),
    ):  # fmt: skip
        found = is_positive(f, (0, 1), max_subdivisions=300)
        assert found.verdict == "undecided"
        assert found.undecided
        assert found.point is None
    assert "not defined" in found.reason
    with pytest.raises(TypeError, match="verdict"):
        bool(found)
    # a box on which f raises is cut further, so a pole outside is no obstacle
    assert is_positive(lambda x: 1 / (x + Fraction(1, 100)), (0, 1)).verdict == "proven"


def test_positivity_arguments() -> None:
    for interval in ((1, 0), (0, math.inf), 3, (0, 1, 2), ("a", 1)):
        with pytest.raises(ValueError, match="interval"):
            is_positive(lambda x: x, interval)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_subdivisions"):
        is_positive(lambda x: x, (0, 1), max_subdivisions=-1)
    with pytest.raises(ValueError, match="digits"):
        is_positive(lambda x: x, (0, 1), digits=0)


def test_an_inequality_about_duals() -> None:
    """Contraction of the reduced dual of relu, f/(1 - f) <= rho/((1 - rho) beta), without its quotients."""
    pi, beta = Enclosure.pi(), hermite.certified.isometry_strength("relu")

    def slack(r: Enclosure) -> Enclosure:
        root = (1 - r * r).sqrt()
        f = (root + r * (pi - r.arccos()) - 1) / (pi - 1)
        return r * (1 - f) - beta * f * (1 - r)

    assert is_positive(slack, ("1/100", "9/10")).verdict == "proven"
    assert is_positive(lambda r: slack(r) - Fraction(1, 5), ("1/100", "9/10")).verdict == "refuted"


# ---- balls --------------------------------------------------------------------------------------------------------

_TREES = [p.expr for s in hermite.catalogue() for p in s.pieces] + [
    p.expr for t in ("arcsinh(x)", "log(1 + x**2)", "sqrt(1 + x**2)", "1/(2 + sin(x))", "x**-2 + 1") for p in
    hermite.activation(t).pieces
]  # fmt: skip


@given(
    tree=st.sampled_from(_TREES),
    x=st.fractions(-12, 12, max_denominator=16),
    half=st.fractions(0, 2, max_denominator=16),
    top=st.fractions(0, 3, max_denominator=16),
    place=st.tuples(st.fractions(-1, 1, max_denominator=8), st.fractions(0, 1, max_denominator=8)),
)
def test_boxes_enclose(tree: Any, x: Fraction, half: Fraction, top: Fraction, place: tuple[Fraction, Fraction]) -> None:
    """A finite answer on a box contains the value at every point of it; on intervals likewise."""
    with precision(80):
        box = complex_box(tree)(acb(between(x - half, x + half), between(Fraction(0), top)))
        point = x + place[0] * half
        if box.is_finite():
            value = complex_box(tree)(acb(between(point, point), between(place[1] * top, place[1] * top)))
            box = acb(box) if not isinstance(box, acb) else box
            assert box.real.overlaps(acb(value).real)
            assert box.imag.overlaps(acb(value).imag)
        f = real(tree)
        interval = f(between(x - half, x + half))
        if interval.is_finite():
            assert interval.overlaps(f(between(point, point)))


@pytest.mark.parametrize("name", [*BOX_FUNCTIONS, "inverse", "softplus", "He_5", "**0.3", "**-2", "**3"])
def test_elementary_boxes_hold_their_corners(name: str) -> None:
    """Values at the corners and edges of many boxes, where a bound that is too small shows first."""
    functions = {
        **BOX_FUNCTIONS, "inverse": inverse, "softplus": box_softplus, "He_5": lambda z: box_hermite(z, 5),
        "**0.3": lambda z: box_power(z, Fraction(3, 10)), "**-2": lambda z: box_power(z, Fraction(-2)),
        "**3": lambda z: box_power(z, Fraction(3)),
    }  # fmt: skip
    exact_hermite = lambda z: (z**5 - 10 * z**3 + 15 * z) / arb(120).sqrt()  # noqa: E731
    f, finite = functions[name], 0
    with precision(80):
        for x in (-6, -1, -0.3, 0, 0.4, 1.5, 7):
            for half in (0.02, 0.3, 2):
                for low, high in ((0, 0.1), (0, 1.2), (0.3, 0.9), (0, 4)):
                    box = f(acb(arb(x, half), arb((low + high) / 2, (high - low) / 2)))
                    if not box.is_finite():
                        continue
                    finite += 1
                    for u in (-1, -0.4, 0, 1):
                        for v in (low, (low + high) / 2, high):
                            z = acb(arb(x + u * half), arb(v))
                            value = exact_hermite(z) if name == "He_5" else f(z)
                            assert box.real.overlaps(value.real), (x, half, low, high)
                            assert box.imag.overlaps(value.imag), (x, half, low, high)
    assert finite >= 20


@pytest.mark.parametrize(
    ("text", "centre"),
    [
        ("tanh(x)", (0, math.pi / 2)), ("sigmoid(x)", (0, math.pi)), ("arctan(x)", (0, 1.5)), ("log(x + 3)", (-3.5, 0)),
        ("sqrt(x + 3)", (-3.5, 0)), ("(x + 3)**0.3", (-3.5, 0)), ("1/(x**2 + 1)", (0, 1)), ("log1p(x**2)", (0, 1.2)),
        ("log1p(exp(x))", (0, math.pi)), ("1/(1 + exp(x))", (0, math.pi)), ("x*tanh(log1p(exp(x)))", (0.3466, 2.3562)),
    ],
)  # fmt: skip
def test_no_box_over_a_singularity_is_finite(text: str, centre: tuple[float, float]) -> None:
    """Poles, branch points and cuts: this is what proves analyticity."""
    from hermite._catalogue import NAMED
    from hermite._parse import parse

    tree = parse(text, NAMED)
    x, y = (Fraction(c) for c in centre)
    with precision(64):
        for half in (Fraction(1, 1000), Fraction(1, 10), Fraction(1)):
            box = acb(between(x - half, x + half), between(max(y - half, Fraction(0)), y + half))
            assert not complex_box(tree)(box).is_finite(), (text, half)


def test_gauss_legendre_errors_are_bounds_and_not_far_off() -> None:
    """The integral of exp(x) phi over [-3, 3] in closed form, with fewer and fewer nodes."""
    from hermite.certified._cover import Smooth

    tree = hermite.activation("exp").expr
    with precision(200):
        exact_value = (arb(1) / 2).exp() * ((arb(2) / arb(2).sqrt()).erf() + (arb(4) / arb(2).sqrt()).erf()) / 2
        for bits in (8, 16, 32, 64, 128):
            goal = arb((1, -bits))
            panels = Panels(
                [Smooth(Fraction(-3), Fraction(3), tree)], HermiteWeight(0), (goal, arb(10)), bits, lambda a, b: False
            )
            total = sum((s.mass for s in samples(panels, 200)), start=arb(0))
            bound = sum((r.errors[0] for r in panels.rules), start=arb(0))
            assert abs(total - exact_value) <= bound
            assert bound <= len(panels.rules) * goal


def test_gauss_legendre_rule() -> None:
    with precision(128):
        rule = gauss_legendre(12, 128)
        for k in range(12):
            moment = 2 * sum((w * t ** (2 * k) if k else w for t, w in rule), start=arb(0))
            assert moment.overlaps(arb(2) / (2 * k + 1))


@pytest.mark.parametrize(
    "text",
    [s.name for s in hermite.catalogue()]
    + ["max(x, sin(3*x))", "log(2 + x**2)/(1 + abs(x))", "exp(-abs(x))*x**3", "x/(1 + x**2)**0.5", "exp(sqrt(2)*x)",
       "min(exp(x), x**2)", "log1p(exp(2*x + 1))", "sign(x)*sqrt(abs(x))", "exp(x + sin(x))", "exp(-x**4)",
       "sin(x) + tanh(x) + x", "x + x*tanh(x)", "exp(x) + exp(x/2)*sin(x)"],
)  # fmt: skip
def test_bounds_on_rays_hold(text: str) -> None:
    """|sigma(+-x)| <= a (1 + x)^p exp(b x + q x^2) for x >= D, both signs."""
    from hermite import _tree as t

    tree = hermite.activation(text).expr
    with precision(64):
        for u in (tree, t.substitute(tree, t.neg(t.X))):
            bound = size(u, arb(8))
            assert bound is not None
            f = real(u)
            for x in (8, 8.01, 9, 12.5, 20, 50, 300):
                at = arb(x)
                top = bound.a * (bound.p * (1 + at).log() + bound.b * at + bound.q * at * at).exp()
                assert abs(f(at)).lower() <= top.upper(), (text, x)
