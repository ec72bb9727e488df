"""hermite.certified: enclosures of coefficients and moments against references, closed forms and another engine."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from _activations import DATA, SPECS
from hypothesis import given
from hypothesis import strategies as st

import hermite
from hermite import _activation, multiprecision
from hermite._pieces import Piece
from hermite._points import INFINITY, MINUS_INFINITY, rational
from hermite._tree import X, num
from hermite.errors import ConstantActivationError, NotSquareIntegrableError, PrecisionError

flint = pytest.importorskip("flint")
from hermite import certified  # noqa: E402
from hermite.certified import Enclosure, _dual, _moments  # noqa: E402
from hermite.certified._balls import real  # noqa: E402
from hermite.certified._cover import Marks  # noqa: E402
from hermite.certified._flint import arb, precision  # noqa: E402
from hermite.certified._growth import tails  # noqa: E402
from hermite.certified._quadrature import Panels  # noqa: E402
from hermite.certified._singular import near_singular  # noqa: E402

GAINS = ("1/10", "1/2", "1", "2", "10")


def sigma_of(name: str) -> hermite.Activation:
    return hermite.activation(SPECS.get(name, name))


def agrees(found: Enclosure, text: str) -> bool:
    """Whether the enclosure meets the decimal, which is known to one unit of its last digit."""
    mantissa, _, exponent = text.partition("e")
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    unit = Fraction(10) ** -places
    value = Fraction(text)
    return not (found < Enclosure.of(value - unit) or found > Enclosure.of(value + unit)) if value else 0 in found


def outside(found: Enclosure, text: str) -> bool:
    try:
        return not agrees(found, text)
    except ValueError:  # the comparison is undecided: they meet
        return False


def meets(found: Enclosure, value: Any, error: Any) -> bool:
    """Whether [value - error, value + error], mpmath numbers, meets the enclosure."""
    with mp.workdps(200):
        return bool(found.lower <= value + error and value - error <= found.upper)


# ---- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA)
def test_reference_lies_inside(name: str) -> None:
    entry = DATA[name]
    m = certified.moments(sigma_of(name), 12)
    assert not any(outside(c, text) for c, text in zip(m.coefficients, entry["c"], strict=True))
    assert not outside(m.second_moment, entry["sum_ck2"])
    assert not outside(certified.isometry_strength(sigma_of(name)), entry["beta"])
    assert m.second_moment.digits >= 30
    assert m.variance.digits >= 30
    assert 0 < m.error < 1e-30


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("name", [n for n in DATA if n != "sqrt_abs"])
def test_reference_at_gains_lies_inside(name: str, gain: str) -> None:
    sigma = sigma_of(name).scaled(gain)
    entry = DATA[name]["gain_moments"][gain]
    beta = certified.isometry_strength(sigma)
    assert beta.digits >= 30
    assert not outside(beta, DATA[name]["beta_gain"][gain])
    assert not outside(certified.second_moment(sigma), entry["E_sigma2"])
    c = certified.coefficients(sigma, 1)
    assert not outside(c[0], entry["c0"])
    assert not outside(c[1], entry["c1"])


@pytest.mark.slow
@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_catalogue_against_multiprecision(sigma: hermite.Activation) -> None:
    """Two engines that share the tree and nothing else; multiprecision's own error estimate is 1e-34 at most."""
    other = multiprecision.moments(sigma, 4, digits=34)
    own = certified.moments(sigma, 4, digits=34)
    scale = mp.sqrt(other.second_moment)
    for a, b in zip(own.coefficients, other.coefficients, strict=True):
        assert meets(a, b, mp.mpf("1e-34") * scale), (a, b)
    for name in ("second_moment", "variance", "residual"):
        assert meets(getattr(own, name), getattr(other, name), mp.mpf("1e-34") * other.second_moment), name


def _closed() -> dict[str, Any]:
    pi, phi = mp.pi, lambda t: mp.npdf(t)
    return {
        "relu": (3 * pi - 4) / (2 * pi - 2),
        "sign": 2 - 2 / pi,
        "exp(3*x)": 2 - 9 / mp.expm1(9),
        "sin(2*x)": 2 - 4 / mp.sinh(4),
        "erf": 2 - 2 / (3 * mp.asin(mp.mpf(2) / 3)),
        "heaviside(x - 7/10)": 2 - phi(mp.mpf(7) / 10) ** 2 / (mp.ncdf(mp.mpf(7) / 10) * mp.ncdf(-mp.mpf(7) / 10)),
        "max(x, 0.2*x)": 2 - mp.mpf("0.36") / (mp.mpf("0.52") - mp.mpf("0.32") / pi),
    }


@pytest.mark.parametrize("text", list(_closed()))
@pytest.mark.parametrize("digits", [15, 30, 60, 100])
def test_closed_forms_and_digits(text: str, digits: int) -> None:
    with mp.workdps(130):
        exact = _closed()[text]
        beta = certified.isometry_strength(text, digits=digits)
        assert beta.digits >= digits
        assert meets(beta, exact, mp.mpf("1e-125")), (beta, exact)
    assert certified.isometry_strength(text, digits=digits + 10).radius < beta.radius


def test_relative_digits_where_almost_everything_cancels() -> None:
    with mp.workdps(60):
        x = mp.mpf("0.001")
        assert meets(certified.isometry_strength("sin(0.001*x)", digits=40), 2 - x**2 / mp.sinh(x**2), mp.mpf("1e-45"))
        tanh = certified.variance("tanh", digits=20)
    far = certified.variance("1000000 + tanh(x)", digits=20)
    assert far.digits >= 20
    assert not (far < tanh.lower or far > tanh.upper) if far in tanh else abs(far - tanh).upper < 1e-19


def test_isometry_strength_stays_in_its_range() -> None:
    """1 <= beta <= 2 is a theorem, so the enclosures end there."""
    assert certified.isometry_strength("identity").lower == 1
    assert certified.isometry_strength("cos").upper == 2
    assert certified.linearity("square").lower == 0


@pytest.mark.parametrize(
    ("text", "mean", "square"),
    [
        ("log(abs(x))", -(mp.euler + mp.log(2)) / 2, ((mp.euler + mp.log(2)) ** 2 / 4 + mp.pi**2 / 8)),
        ("abs(x)**-0.2", None, mp.mpf(2) ** mp.mpf("-0.2") * mp.gamma(mp.mpf("0.3")) / mp.sqrt(mp.pi)),
        ("sqrt(abs(x))", None, mp.sqrt(2 / mp.pi)),
        ("sqrt(abs(3*x - 1))", None, None),
        ("log(abs(3*x - 1))", None, None),
    ],
)
def test_singular_points(text: str, mean: Any, square: Any) -> None:
    """E log|X| = -(gamma + log 2)/2, Var log|X| = pi^2/8, E|X|^p = 2^(p/2) Gamma((p+1)/2)/sqrt(pi)."""
    m = certified.moments(text, 2, digits=12)
    if mean is not None:
        assert meets(m.coefficients[0], mean, mp.mpf("1e-14"))
    if square is not None:
        assert meets(m.second_moment, square, mp.mpf("1e-14"))
    other = hermite.moments(text, 2)
    assert all(
        meets(a, mp.mpf(float(b)), mp.mpf("1e-13")) for a, b in zip(m.coefficients, other.coefficients, strict=True)
    )


# ---- pieces are hints ---------------------------------------------------------------------------------------------


def _mp_moments(f: Any, kinks: list[Any]) -> tuple[Any, Any, Any]:
    """c_0, c_1 and E sigma^2 by mpmath's tanh-sinh between the kinks."""
    marks = [-14, -4, *kinks, 4, 14]
    quad = lambda g: mp.quad(lambda x: g(x) * mp.npdf(x), marks, maxdegree=10)  # noqa: E731
    return quad(f), quad(lambda x: x * f(x)), quad(lambda x: f(x) ** 2)


def test_pieces_found_by_search() -> None:
    """The ends of max(x, sin(3x)) are no closed expressions; mpmath finds them by itself."""
    with mp.workdps(30):
        root = mp.findroot(lambda x: x - mp.sin(3 * x), 0.76)
        values = _mp_moments(lambda x: max(x, mp.sin(3 * x)), [-root, 0, root])
        m = certified.moments("max(x, sin(3*x))", 1)
        for found, value in zip((*m.coefficients, m.second_moment), values, strict=True):
            assert meets(found, value, mp.mpf("1e-22")), (found, value)


@pytest.mark.parametrize("text", ["max(x**2, 2*x - 1)", "abs(x**2 - 2*x + 1)", "tanh(relu(x))", "abs(abs(x) - 1)"])
def test_touching_and_nested_kinks(text: str) -> None:
    m, other = certified.moments(text, 3), hermite.moments(text, 3)
    size = math.sqrt(other.second_moment)
    assert all(abs(float(a) - b) <= 2e-15 * size for a, b in zip(m.coefficients, other.coefficients, strict=True))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("max(x, 0)", (Piece(MINUS_INFINITY, INFINITY, X),)),
        ("max(x, 0)", (Piece(MINUS_INFINITY, INFINITY, num(0)),)),
        ("abs(x - 1/3)", (Piece(MINUS_INFINITY, rational(1), X), Piece(rational(1), INFINITY, num(1)))),
        ("1 if x > 0.3 else -1", (Piece(MINUS_INFINITY, INFINITY, num(1)),)),
        ("max(x, sin(3*x))", (Piece(MINUS_INFINITY, INFINITY, X),)),
    ],
)
def test_a_wrong_list_of_pieces_cannot_make_a_false_certificate(
    monkeypatch: pytest.MonkeyPatch, text: str, wrong: tuple[Piece, ...]
) -> None:
    """Signs are proven on the original tree, so a missed root costs time or a refusal, never the truth."""
    right = hermite.moments(text, 1)
    # another name, so that nothing comes from a cache
    sigma = hermite.activation(text, name=f"planted {wrong[0]}")
    monkeypatch.setattr(_activation, "pieces", lambda tree: wrong)
    try:
        m = certified.moments(sigma, 1, digits=20)
        values = {1: certified.dual(sigma, 1), -1: certified.dual(sigma, -1), 0.5: certified.dual(sigma, 0.5)}
    except PrecisionError:
        return
    assert abs(float(m.coefficients[0]) - right.coefficients[0]) < 1e-14
    assert abs(float(m.coefficients[1]) - right.coefficients[1]) < 1e-14
    assert abs(float(m.second_moment) - right.second_moment) < 1e-14
    monkeypatch.undo()
    for rho, value in values.items():
        again = certified.dual(hermite.activation(text), rho)
        assert meets(value, again.midpoint, again.radius)


def test_no_hints_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a single place to cut at, roots are found by the signs alone."""
    for module in (_moments, _dual):
        monkeypatch.setattr(module, "hints", lambda *_: Marks({}))
    for text in ("max(x, 0)", "abs(x - 1/3)", "1 if x > sqrt(2) else -x", "max(x, sin(3*x))", "hardtanh(2*x)"):
        sigma = hermite.activation(text, name=f"without hints: {text}")
        m, right = certified.moments(sigma, 1, digits=12), hermite.moments(text, 1)
        assert abs(float(m.coefficients[0]) - right.coefficients[0]) < 1e-14
        assert abs(float(m.coefficients[1]) - right.coefficients[1]) < 1e-14
        assert abs(float(m.second_moment) - right.second_moment) < 1e-14
    found = certified.dual(hermite.activation("max(x, 0)", name="without hints"), Fraction(1, 2), digits=12)
    assert meets(found, (mp.sqrt(3) / 2 + mp.pi / 3) / (2 * mp.pi), 1e-15)


@pytest.mark.parametrize("reach", [2, 3, 5])
@pytest.mark.parametrize("text", ["relu", "exp(x/2)", "x**2", "softplus", "sign"])
def test_tails_are_part_of_the_enclosure(monkeypatch: pytest.MonkeyPatch, text: str, reach: int) -> None:
    """Cut far too early, the enclosures are wide and still hold the truth."""
    sigma = hermite.activation(text)
    bound = tails(sigma)
    monkeypatch.setattr(_moments, "reach_for", lambda *_: Fraction(reach))
    monkeypatch.setattr(_moments, "tails", lambda _: replace(bound, start=Fraction(0)))
    found = _moments.integrals(sigma, 2, 60, math.inf)
    other = hermite.moments(text, 2)
    with precision(found.bits):
        second = Enclosure.from_ball(found.second)
        coefficients = [Enclosure.from_ball(c) for c in found.coefficients]
    missing = math.sqrt(2 / math.pi) * math.exp(-reach * reach / 2) / (2 * reach)
    assert second.radius * 2 >= missing / 2
    for a, b in zip(coefficients, other.coefficients, strict=True):
        assert meets(a, mp.mpf(float(b)), 1e-14)
    assert meets(second, mp.mpf(other.second_moment), 1e-14)


@pytest.mark.parametrize("text", ["relu", "exp(x/2)", "x**2", "softplus", "sign", "tanh", "gelu", "sqrt(abs(x))"])
def test_coarse_answers_hold_the_truth(text: str) -> None:
    """With few bits the errors of the rules are large, and have to be in the radius."""
    other = hermite.moments(text, 8)
    for bits in (2, 5, 10, 20):
        found = _moments.integrals(hermite.activation(text), 8, bits, math.inf)
        with precision(found.bits):
            coefficients = [Enclosure.from_ball(c) for c in found.coefficients]
            second = Enclosure.from_ball(found.second)
        for a, b in zip(coefficients, other.coefficients, strict=True):
            assert meets(a, mp.mpf(float(b)), 1e-14)
        assert meets(second, mp.mpf(other.second_moment), 1e-13)


class Inflated(Panels):
    """Panels whose rules confess an error of 3 each."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rules = [replace(r, errors=(arb(3),) * len(r.errors)) for r in self.rules]


def test_errors_of_the_rules_reach_the_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    # names of their own, since what is found is remembered
    sigma = hermite.activation("softsign", name="inflated softsign")
    for module in (_moments, _dual):
        monkeypatch.setattr(module, "Panels", Inflated)
    found = _moments.integrals(sigma, 2, 40, math.inf)
    assert min(c.rad() for c in found.coefficients) >= 3 * found.panels
    assert found.second.upper() >= 3 * found.panels  # its lower end is cut at 0
    monkeypatch.setattr(_dual, "inner_error", lambda *_: arb(0))
    for how in ("double integral", "mirrored second moment"):
        monkeypatch.setattr(_dual, "route", lambda *_, how=how: how)
        value, _, _ = _dual._value(sigma, Fraction(1, 2), 20, math.inf)
        assert 15 <= value.rad() < 1000
    monkeypatch.setattr(_dual, "route", lambda *_: "gaussian smoothing")
    value, _, _ = _dual._value(hermite.activation("relu", name="inflated relu"), Fraction(1, 2), 20, math.inf)
    assert 10 <= value.rad() < 1000
    monkeypatch.setattr(_dual, "Panels", Panels)
    monkeypatch.setattr(_dual, "route", lambda *_: "double integral")
    monkeypatch.setattr(_dual, "inner_error", lambda *_: arb(7))
    value, _, _ = _dual._value(hermite.activation("tanh", name="afresh"), Fraction(1, 2), 20, math.inf)
    assert 7 <= value.rad() < 8


@pytest.mark.parametrize(
    "text", ["log(abs(x))", "abs(x)**-0.2", "abs(x)**-0.45", "log(x**2)", "x**-0.25 if x > 0 else 1"]
)
def test_bounds_next_to_singular_points_hold(text: str) -> None:
    sigma = hermite.activation(text)
    for exponent in (-21, -30, -100):
        t = Fraction(2) ** exponent
        with precision(64):
            bound = near_singular(sigma, -t, t)
            assert bound is not None
            found = Enclosure.from_ball(bound)
        assert found.upper >= _mean_square(sigma, exponent) * mp.mpf("0.99")


def _mean_square(sigma: hermite.Activation, exponent: int) -> Any:
    """E sigma^2 over |x| < 2^exponent by mpmath, less what lies within 2^-4000 of that."""
    f = real(sigma.expr)
    with mp.workdps(30):
        ends = [mp.mpf(2) ** (exponent - k) for k in (4000, 400, 40, 4, 0)]
        halves = (mp.quad(lambda x, s=s: _value(f, s * x) ** 2, ends) for s in (1, -1))
        return sum(halves) / mp.sqrt(2 * mp.pi)


def _value(f: Any, x: Any) -> Any:
    """The tree at an mpf, which is exact in binary."""
    with precision(200):
        man, exp = x.man_exp
        return mp.mpf(Enclosure.from_ball(f(arb((int(man), int(exp))))).midpoint)


_NUMBERS = st.fractions(-3, 3, max_denominator=8)


@given(a=_NUMBERS, b=_NUMBERS, t=_NUMBERS, u=_NUMBERS, gain=st.sampled_from(["1/2", "1", "-3"]))
def test_random_piecewise_polynomials_agree_with_float64(
    a: Fraction, b: Fraction, t: Fraction, u: Fraction, gain: str
) -> None:
    text = f"({a})*x**2 + max(x, {t}) + (abs(x - ({u})) if x > {b} else {a}*x)"
    sigma = hermite.activation(text, gain=gain)
    m, other = certified.moments(sigma, 3, digits=18), hermite.moments(sigma, 3)
    size = math.sqrt(other.second_moment)
    for x, y in zip(m.coefficients, other.coefficients, strict=True):
        assert abs(float(x) - y) <= 4e-15 * size
    assert abs(float(m.variance) - other.variance) <= 4e-15 * other.second_moment


# ---- growth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", hermite.catalogue(), ids=lambda s: s.name)
def test_growth_bounds_hold(sigma: hermite.Activation) -> None:
    g = certified.growth(sigma)
    assert g.Q < 0.25
    x = np.concatenate([np.linspace(-9, 9, 1801), np.linspace(-120, 120, 481)])
    bound = np.log(g.A) + g.B * np.abs(x) + g.Q * x * x
    with np.errstate(divide="ignore"):
        assert np.all(np.log(np.abs(sigma(x))) <= bound + 1e-12)
    assert "derived" in g.reason


@pytest.mark.parametrize(
    ("text", "growth"),
    [
        ("exp(x)", (1, 0, 0)), ("exp(x)", (1, 0.999, 0)), ("2*tanh(x)", (1, 0, 0)), ("2*tanh(x)", (1.999, 0, 0)),
        ("x", (1, 0, 0)), ("x**3", (1, 1, 0)), ("exp(0.2*x**2)", (1, 1, 0.1)), ("abs(x - 3)", (2, 0.1, 0)),
        ("exp(sin(x)*x)", (1, 0.5, 0)), ("exp(exp(x))", (3, 2, 0.2)),
    ],
)  # fmt: skip
def test_growth_declared_too_small_is_refuted(text: str, growth: tuple[float, ...]) -> None:
    sigma = hermite.activation(text, growth=growth)
    for verb in (certified.growth, certified.isometry_strength, certified.second_moment):
        with pytest.raises(ValueError, match=r"growth=.*refuted.*sigma\(-?[\d.]+\)"):
            verb(sigma)


def test_growth_declared_where_no_rule_applies() -> None:
    text = "exp(sin(x)*x)"
    with pytest.raises(PrecisionError, match=r"declare growth=\(A, B, Q\)"):
        certified.isometry_strength(text)
    sigma = hermite.activation(text, growth=(1, 1, 0))
    m, g = certified.moments(sigma, 1), certified.growth(sigma)
    assert "growth declared" in m.method
    assert "growth declared" in g.reason
    assert abs(float(m.variance) - hermite.variance(text)) < 1e-14 * hermite.second_moment(text)
    assert "derived" in certified.moments(hermite.activation("tanh", growth=(1, 0, 0))).method


@pytest.mark.parametrize("text", ["exp(x**2)", "exp(x**2/4)", "x*exp(-x + x**2/4)", "1/x", "abs(x - 1/3)**-0.5"])
def test_divergence_is_told(text: str) -> None:
    with pytest.raises(NotSquareIntegrableError):
        certified.second_moment(text)
    # just below the border there is an answer
    assert certified.second_moment("exp(0.24*x**2)", digits=15).digits >= 15


# ---- refusals -----------------------------------------------------------------------------------------------------


def test_opaque_callables_are_refused_by_name() -> None:
    def planted(x: Any) -> Any:
        return np.where(np.abs(x - 0.1) < 1e-9, 5.0, x)

    for verb in (
        certified.isometry_strength, certified.linearity, certified.variance, certified.second_moment,
        certified.growth, certified.moments, lambda s: certified.coefficients(s, 2), lambda s: certified.dual(s, 0.5),
    ):  # fmt: skip
        with pytest.raises(PrecisionError, match="planted is a Python callable"):
            verb(planted)


def test_constants() -> None:
    for text in ("3", "pi", "0*x"):
        for verb in (certified.isometry_strength, certified.linearity):
            with pytest.raises(ConstantActivationError):
                verb(text)
    m = certified.moments("pi", 2)
    assert m.variance == Enclosure.of(0) == m.residual
    assert m.coefficients[1] == m.coefficients[2] == Enclosure.of(0)
    assert meets(m.coefficients[0], mp.mpf(math.pi), 1e-15)
    assert certified.second_moment("3") == Enclosure.of(9)
    with pytest.raises(ConstantActivationError):
        certified.isometry_strength("min(x, 0)*max(x, 0)")
    with pytest.raises(PrecisionError, match="exactly 0"):  # constant, but not by its form
        certified.variance("sin(x)**2 + cos(x)**2", digits=5)


@pytest.mark.parametrize("digits", [0, -3, 2.5, True, "30", 10**6])
def test_digits_are_checked(digits: Any) -> None:
    for verb in (certified.isometry_strength, certified.second_moment, certified.moments):
        with pytest.raises(ValueError, match="digits must be an integer from 1 to 1000"):
            verb("relu", digits=digits)


def test_undecided_signs_are_refused() -> None:
    """x and sqrt(x^2) are equal for x > 0, which no sign shows; |x - tanh x| touches 0 to third order."""
    for text in ("max(x, sqrt(x**2))", "abs(x - tanh(x))"):
        with pytest.raises(PrecisionError, match="undecided"):
            certified.isometry_strength(text, digits=8)


def test_degree_is_checked() -> None:
    for degree in (-1, 1.5, True, 10**6):
        with pytest.raises(ValueError, match="degree"):
            certified.coefficients("relu", degree)
    assert len(certified.coefficients("relu", 0)) == 1


# ---- global state -------------------------------------------------------------------------------------------------


def test_precision_is_restored() -> None:
    before, dps = flint.ctx.prec, mp.mp.dps
    certified.isometry_strength("tanh", digits=50)
    for call in (
        lambda: certified.second_moment("exp(x**2)"), lambda: certified.isometry_strength(np.sin),
        lambda: certified.isometry_strength("max(x, sqrt(x**2))", digits=5),
        lambda: certified.dual("tanh", 3),
        lambda: Enclosure.between(-1, 1).log(), lambda: 1 / Enclosure.between(-1, 1),
    ):  # fmt: skip
        with pytest.raises((ValueError, ArithmeticError)):
            call()
        assert flint.ctx.prec == before
    assert mp.mp.dps == dps


def test_threads_do_not_mix_their_digits() -> None:
    wanted = {d: certified.isometry_strength("gelu", digits=d) for d in (10, 30, 80)}
    found: list[tuple[int, Enclosure]] = []

    def work(d: int) -> None:
        for shift in ("0", "1/7"):
            value = certified.isometry_strength(hermite.activation("gelu", shift=shift), digits=d)
            if shift == "0":
                found.append((d, value))
            assert value.digits >= d

    threads = [threading.Thread(target=work, args=(d,)) for d in (10, 80, 30, 80, 10, 30)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 6
    assert all(value == wanted[d] for d, value in found)


def test_records_survive_pickling_and_name_their_method() -> None:
    m = certified.moments("tanh", 3)
    assert pickle.loads(pickle.dumps(m)).second_moment == m.second_moment
    assert m.method.startswith("ball gauss-legendre on ")
    assert "growth derived" in m.method
    assert m.strength.digits >= 29
    assert m.strength_error < 1e-15


def test_missing_flint_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['flint'] = None\n"
        "from hermite.errors import MissingDependencyError\n"
        "try:\n    import hermite.certified\nexcept MissingDependencyError as e:\n    print(e)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "isogram[rigor]" in out
