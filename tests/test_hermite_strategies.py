"""The strategy that draws activations: what it reaches, how often, and what it never draws."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

import hermite
from hermite import Activation
from hermite.strategies import _gains, _moved, _terms, activations

CATALOGUE = {sigma.expr: sigma.name for sigma in hermite.catalogue()}
ABSCISSAE = np.array([0.3, 1.1, 2.7, 5.0])


def sample(count: int, **options: Any) -> list[Activation]:
    """Draws as a test would meet them, the same in every run."""
    drawn: list[Activation] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(activations(**options))
    def collect(sigma: Activation) -> None:
        drawn.append(sigma)

    collect()
    return drawn


def example(condition: Callable[[Activation], bool], **options: Any) -> Activation:
    quiet = settings(max_examples=3000, derandomize=True, database=None, deadline=None)
    return find(activations(**options), condition, settings=quiet)


# --- properties of a draw, none of them read from the strategy ----------------------------------------------------


def jumps(sigma: Activation) -> bool:
    """Whether sigma changes by more than its slope allows across a breakpoint."""
    t = np.array(sigma.breakpoints)
    near, nearer = (np.abs(sigma(t + h) - sigma(t - h)) for h in (1e-5, 1e-9))
    return bool(np.any((near > 1e-6) & (nearer > near / 2)))


def moved(sigma: Activation) -> bool:
    return sigma.source.startswith("catalogue") and sigma.expr not in CATALOGUE


def is_even(sigma: Activation) -> bool:
    return bool(np.allclose(sigma(ABSCISSAE), sigma(-ABSCISSAE), rtol=1e-12, atol=0))


def has_no_slope(sigma: Activation) -> bool:
    """c_1 = 0 to rounding."""
    return bool(hermite.linearity(sigma) < 1e-20)


def farthest(sigma: Activation) -> float:
    return max(map(abs, sigma.breakpoints), default=0.0)


def steepest(sigma: Activation) -> float:
    """Largest difference quotient over 0.01, in units of the standard deviation."""
    x = np.linspace(-4, 4, 801)
    return float(np.abs(np.diff(sigma(x))).max() / 0.01 / np.sqrt(hermite.variance(sigma)))


# --- the spread ---------------------------------------------------------------------------------------------------


def test_the_spread() -> None:
    drawn = sample(300)

    def share(condition: Callable[[Activation], bool]) -> float:
        return sum(map(condition, drawn)) / len(drawn)

    assert share(lambda s: bool(s.breakpoints)) > 0.25
    assert share(lambda s: not s.breakpoints) > 0.25
    assert share(lambda s: len(s.breakpoints) >= 2) > 0.1
    assert share(jumps) > 0.04
    assert share(lambda s: farthest(s) >= 5) > 0.005
    assert share(moved) > 0.1
    assert share(lambda s: s.expr in CATALOGUE) > 0.05
    assert share(is_even) > 0.08
    assert share(lambda s: "abs(x)" in s.name) > 0.01
    assert share(has_no_slope) > 0.1
    assert share(lambda s: has_no_slope(s) and not is_even(s)) > 0.005
    assert share(lambda s: steepest(s) > 20) > 0.1
    assert share(lambda s: "He(" in s.name) > 0.1
    assert share(lambda s: hermite.isometry_strength(s) == 1) < 0.2  # where every bound is vacuous
    assert len(set(drawn)) > 0.6 * len(drawn)
    assert len({CATALOGUE[s.expr] for s in drawn if s.expr in CATALOGUE}) > 8


@given(activations())
def test_never_a_constant_and_moments_in_float64(sigma: Activation) -> None:
    found = hermite.moments(sigma, 3)
    # well above 5e-30, where an activation counts as constant to rounding
    assert found.variance > 1e-10 * found.second_moment
    assert 1 <= hermite.isometry_strength(sigma) <= 2
    assert 0 < found.second_moment < 1e250


@given(activations(max_gain=100, max_shift=6, max_breakpoints=6))
def test_wider_arguments_stay_in_float64(sigma: Activation) -> None:
    found = hermite.moments(sigma)
    assert found.variance > 1e-12 * found.second_moment


@given(activations())
def test_every_draw_is_an_exact_tree_that_can_be_written_down(sigma: Activation) -> None:
    assert not sigma.is_opaque
    assert hermite.activation(str(sigma.expr)).expr == sigma.expr
    assert pickle.loads(pickle.dumps(sigma)) == sigma
    assert len(sigma.name) < 500
    if not sigma.source.startswith("catalogue"):
        assert hermite.activation(sigma.name)(ABSCISSAE) == pytest.approx(sigma(ABSCISSAE), rel=1e-12)


@given(activations(jumps=False))
def test_without_jumps_every_draw_is_continuous(sigma: Activation) -> None:
    t = np.array(sigma.breakpoints)
    size = np.abs(sigma(np.concatenate([t - 1e-9, t + 1e-9, t]))).max(initial=1.0)
    # slopes stay below 1e4 sizes
    assert np.all(np.abs(sigma(t + 1e-9) - sigma(t - 1e-9)) <= 1e-4 * size)


@given(activations(catalogue=False, max_gain=1, max_shift=0, max_breakpoints=0))
def test_without_the_catalogue_and_breakpoints_draws_are_polynomials(sigma: Activation) -> None:
    assert set(sigma.breakpoints) <= {0.0}  # those of |x|
    coefficients = hermite.coefficients(sigma, 24)
    assert sigma.breakpoints or float(np.sum(coefficients**2)) == pytest.approx(hermite.second_moment(sigma), rel=1e-13)


@given(_moved(st.just(hermite.activation("step")), Fraction(8), Fraction(4)))
def test_a_shift_moves_a_breakpoint_by_itself_whatever_the_gain(sigma: Activation) -> None:
    assert farthest(sigma) <= 4


def test_gains_reach_their_bounds_and_small_ones_stop_at_an_eighth() -> None:
    assert set(_gains(Fraction(1))) == {-1, 1}
    assert {abs(g) for g in _gains(Fraction(5, 2))} == {1, 2, Fraction(1, 2), Fraction(5, 2), Fraction(2, 5)}
    sizes = sorted(abs(g) for g in _gains(Fraction(100)))
    assert (sizes[0], sizes[-1]) == (Fraction(1, 8), Fraction(100))


QUARTER = Fraction(1, 4)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("polynomial", [(0, 0, 0), (1, 0, 0), (-QUARTER, 0, 0), (0, 0, 1)])
@pytest.mark.parametrize(
    "breaks",
    [
        [(4, 0, QUARTER)],
        [(-4, 0, QUARTER)],
        [(0, 0, 1)],
        [(-4, 1, -1)],
        [(-4, 1, QUARTER)],
        [(4, 3, -1), (-4, 3, 1)],
        [(2, 0, 1), (-2, 0, -1)],  # of |x| these would cancel
        [(1, 0, 1), (0, 0, -1)],
    ],
)
def test_a_piecewise_polynomial_is_no_constant_but_for_a_small_set(
    even: bool, far: bool, polynomial: tuple[Any, ...], breaks: list[tuple[Any, int, Any]]
) -> None:
    terms = _terms(even, far, [Fraction(a) for a in polynomial], [(Fraction(t), k, Fraction(a)) for t, k, a in breaks])
    sigma = hermite.activation(" + ".join([*terms, "4"]))
    assert hermite.variance(sigma) > 1e-9 * hermite.second_moment(sigma)


# --- the edges ----------------------------------------------------------------------------------------------------


def test_it_shrinks_to_the_identity() -> None:
    identity = hermite.activation("identity")
    assert example(lambda s: True) == identity
    assert example(lambda s: True, catalogue=False) == identity


@pytest.mark.parametrize(
    ("condition", "options", "size"),
    [
        (lambda s: len(s.breakpoints) == 1, {}, 3),
        (jumps, {}, 5),
        (jumps, {"catalogue": False}, 5),
        (has_no_slope, {}, 3),
        (lambda s: has_no_slope(s) and not is_even(s), {}, 3),
        (lambda s: hermite.isometry_strength(s) == 1 and float(s([0.0])[0]) != 0, {"catalogue": False}, None),
        (lambda s: farthest(s) > 7, {"catalogue": False}, None),
        (lambda s: steepest(s) > 50 and not jumps(s), {}, None),
        (lambda s: hermite.variance(s) < 1e-3 * hermite.second_moment(s), {}, None),
    ],
)
def test_the_edges_are_reached(
    condition: Callable[[Activation], bool], options: dict[str, Any], size: int | None
) -> None:
    found = example(condition, **options)
    assert condition(found)
    assert size is None or found.expr.size <= size, found  # shrinking ends at a small tree


@given(_moved(st.just(hermite.activation("exp")), Fraction(64), Fraction(4)))
def test_exponentials_stop_at_gain_four(sigma: Activation) -> None:
    rate = float(np.log(sigma([1.0])[0] / sigma([0.0])[0]))
    assert abs(rate) <= 4 * (1 + 1e-12)
    assert hermite.moments(sigma).second_moment < np.exp(2 * 4**2 + 2 * 4 * 4) * 1.001


# --- arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_gain": 0.5}, "max_gain must be at least 1, got 0.5"),
        ({"max_gain": float("nan")}, "max_gain must be finite"),
        ({"max_gain": "eight"}, "max_gain must be a decimal or a fraction"),
        ({"max_shift": -1}, r"max_shift must lie in \[0, 6\], got -1"),
        ({"max_shift": 7}, r"max_shift must lie in \[0, 6\], got 7"),
        ({"max_breakpoints": -1}, "max_breakpoints must be an integer from 0 to 16, got -1"),
        ({"max_breakpoints": 17}, "max_breakpoints must be an integer from 0 to 16, got 17"),
        ({"max_breakpoints": True}, "max_breakpoints must be an integer from 0 to 16, got True"),
        ({"max_breakpoints": 2.0}, "max_breakpoints must be an integer from 0 to 16, got 2.0"),
    ],
)
def test_arguments_out_of_range_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        activations(**options)


def test_arguments_are_keywords() -> None:
    with pytest.raises(TypeError):
        activations(False)  # type: ignore[call-arg]


def test_gains_may_be_any_number() -> None:
    sigma = example(lambda s: "4/3*x" in s.name, max_gain=Fraction(4, 3))
    assert sigma.name == "identity(4/3*x)"
