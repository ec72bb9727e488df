"""Maps of correlations in balls: they hold their closed forms at 90 digits, and keep 1, 0 and -1 exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import mpmath
import pytest

from bounds._ball_maps import BallMap
from bounds._balls import as_fraction
from hermite.certified._flint import Ball, arb, exact, precision
from meanfield import Layer

BITS = 200
MAPS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: (mpmath.sqrt(1 - x * x) + (mpmath.pi - mpmath.acos(x)) * x - 1) / (mpmath.pi - 1),
    "abs": lambda x: (mpmath.sqrt(1 - x * x) + x * mpmath.asin(x) - 1) / (mpmath.pi / 2 - 1),
    "erf": lambda x: mpmath.asin(2 * x / 3) / mpmath.asin(mpmath.mpf(2) / 3),
    "sign": lambda x: 2 * mpmath.asin(x) / mpmath.pi,
    "exp": lambda x: mpmath.expm1(x) / mpmath.expm1(1),
    "sin": lambda x: mpmath.sinh(x) / mpmath.sinh(1),
    "He(1, x) + 2*He(2, x)": lambda x: (x + 4 * x * x) / 5,
    "x**3": lambda x: (9 * x + 6 * x**3) / 15,
}


def real(x: F) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def inside(ball: Ball, value: Any, digits: int) -> None:
    """The value, known to 90 digits, is in the ball, and the ball has so many digits."""
    assert ball.is_finite()
    middle, radius = real(as_fraction(ball.mid())), real(as_fraction(ball.rad()))
    assert abs(middle - value) <= radius + mpmath.mpf(10) ** -80 * abs(value)
    assert radius <= mpmath.mpf(10) ** -digits * (1 + abs(value))


RATIONALS = [F(1, 3), F(-1, 3), F(9, 10), F(-9, 10), F(1, 10**6), F(-1, 10**6), 1 - F(1, 10**9), F(0)]


@pytest.mark.parametrize("spec", MAPS)
def test_a_map_holds_its_closed_form(spec: str) -> None:
    with precision(BITS), mpmath.workdps(90):
        f = BallMap(Layer(spec), BITS)
        for rho in RATIONALS:
            inside(f(exact(rho)), MAPS[spec](real(rho)), 38)  # 60 less what moments lose, and series next to 1
            wide = exact(rho) + arb(0, 1e-8)
            found = f(wide)
            for end in (rho - F(1, 10**8), rho + F(1, 10**8)):
                if abs(end) <= 1 and found.is_finite():
                    assert found.contains(exact(as_near(MAPS[spec](real(end)))))
        with mpmath.workdps(200):  # a difference quotient, off by h^2
            slope = mpmath.diff(MAPS[spec], 0, h=mpmath.mpf(10) ** -60)
        inside(f.r, slope, 40)


def as_near(x: Any) -> F:
    return F(str(mpmath.nstr(x, 40, min_fixed=-mpmath.inf, max_fixed=mpmath.inf)))


@pytest.mark.parametrize("spec", MAPS)
def test_a_map_keeps_1_and_0_exactly_and_minus_1_by_parity(spec: str) -> None:
    with precision(BITS):
        f = BallMap(Layer(spec), BITS)
        assert f(arb(1)) == 1
        assert f(arb(0)) == 0
        if f.parity:
            assert f(arb(-1)) == f.parity


def test_a_skip_connection_keeps_its_share() -> None:
    with precision(BITS), mpmath.workdps(90):
        f = BallMap(Layer("relu", skip=0.5), BITS)
        inside(f(exact(F(1, 3))), mpmath.mpf(1) / 12 + 3 * MAPS["relu"](mpmath.mpf(1) / 3) / 4, 50)
        inside(f.r, F(1, 4) + 3 * (mpmath.pi / (2 * (mpmath.pi - 1))) / 4, 50)
