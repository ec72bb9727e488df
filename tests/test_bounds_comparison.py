"""The first layer at which each bound makes the gap small: beside the certificates, and as a proof."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from _mutants import refuted

from bounds import (
    CLAIMS,
    DecayComparison,
    certified_gap_decay,
    gap_decay,
    gap_sandwich,
    scalar_gap_decay,
    sharp_gap_decay,
    spectral_gap_decay,
)
from bounds._bracket import Bracket, settle
from bounds._depth import start
from bounds._gamma import LOG_LOG1P_EXP, log_gamma, log_gamma_minus, log_psi
from bounds._judge import answer
from meanfield import Layer, correlation, gram, isometry_gap

FOLLOWED = ["actual", "entrywise", "map", "r5", "r4", "potential", "majorization", "gamma"]
METHODS = [*FOLLOWED, "r4+", "log1p", "determinant", "theorem-5.1"]
EPS = 1e-3


def batch(n: int = 10, d: int = 12, shift: float = 1.2) -> np.ndarray:
    return correlation(gram(np.random.default_rng(0).normal(size=(n, d)) + shift))


def equicorrelation(n: int, rho: float) -> np.ndarray:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def test_ten_inputs_of_relu() -> None:
    """A batch with gap 1.56: 18 layers in fact, the printed theorem says 112."""
    found = certified_gap_decay(Layer("relu"), batch(), EPS)
    assert isinstance(found, DecayComparison)
    assert list(found) == METHODS
    assert [found[m] for m in METHODS] == [18, 19, 23, 25, 26, 29, 29, 30, 37, 52, 100, 112]


def test_each_layer_is_the_first_of_its_certificate() -> None:
    layer, G0 = Layer("relu"), batch()
    found, depth, target = certified_gap_decay(layer, G0, EPS), 120, math.log(EPS)
    scalar, sharp = scalar_gap_decay(layer, G0, depth), sharp_gap_decay(layer, G0, depth)
    bounds = {
        "actual": gap_decay(layer, G0, depth).lhs,
        "entrywise": scalar.rhs[4],
        "map": scalar.rhs[3],
        "r5": scalar.rhs[2],
        "r4": np.where(np.arange(depth + 1) < (sharp.threshold_layer or 0), math.inf, sharp.rhs[0]),
        "majorization": gap_sandwich(layer, G0, depth).rhs[1],
        "gamma": spectral_gap_decay(layer, G0, depth, form="map").rhs,
        "r4+": sharp.rhs[1],
        "log1p": spectral_gap_decay(layer, G0, depth).rhs,
        "determinant": spectral_gap_decay(layer, G0, depth, form="determinant").rhs,
        "theorem-5.1": gap_decay(layer, G0, depth).rhs,
    }
    for method, bound in bounds.items():
        first = found[method]
        assert first is not None
        assert bound[first] <= target
        assert bound[first - 1] > target


def test_the_constant_of_the_sharp_theorem_does_not_know_n() -> None:
    found = certified_gap_decay(Layer("relu"), equicorrelation(300, 0.999), EPS)
    assert (found["actual"], found["majorization"], found["gamma"]) == (40, 40, 40)
    assert found["determinant"] == 8751
    assert found["theorem-5.1"] == 8777


def test_the_table_is_proven() -> None:
    G0 = [[1.0, 0.9, 0.8], [0.9, 1.0, 0.9], [0.8, 0.9, 1.0]]
    plain, proven = (certified_gap_decay(Layer("relu"), G0, EPS, exact=exact) for exact in (False, True))
    assert proven.exact
    assert dict(plain) == dict(proven)
    assert str(plain).splitlines()[1].split()[:2] == ["actual", "18"]


def test_what_is_never_reached_is_none() -> None:
    for layer, G0 in ((Layer("identity"), batch()), (Layer("relu"), np.ones((3, 3)))):
        assert set(certified_gap_decay(layer, G0, EPS).values()) == {None}
    flat = certified_gap_decay(Layer("abs"), batch(), EPS)  # r = 0
    assert flat["r4"] is None
    assert flat["r4+"] is None
    assert flat["actual"] == 5
    short = certified_gap_decay(Layer("relu"), batch(), EPS, depth=3)
    assert short["actual"] is None
    assert short["theorem-5.1"] == 112


def test_edges() -> None:
    one = certified_gap_decay(Layer("relu"), np.eye(1), EPS)
    assert {one[m] for m in METHODS[:10]} == {0}
    assert certified_gap_decay(Layer("relu"), batch(), 1e300)["actual"] == 0
    assert certified_gap_decay(Layer("He(2, x)"), batch(), 1e-300)["actual"] == 13
    sequence = certified_gap_decay([Layer("tanh"), Layer("abs")] * 5, batch(), EPS)
    assert sequence["actual"] == 8
    assert sequence["theorem-5.1"] is None


@pytest.mark.parametrize("eps", [0.0, -1.0, math.nan, "a", None, True])
def test_eps_is_positive(eps: Any) -> None:
    with pytest.raises(ValueError, match="eps must be a positive number"):
        certified_gap_decay(Layer("relu"), batch(), eps)


def test_layers_whose_gap_stays_are_refused() -> None:
    with pytest.raises(ValueError, match=r"layer must have f\(0\) = 0"):
        certified_gap_decay(Layer("relu", normalization="rms"), batch(), EPS)
    with pytest.raises(ValueError, match="depth must be an integer >= 0"):
        certified_gap_decay(Layer("relu"), batch(), EPS, depth=-1)


# --- wrong variants of claims over depth ------------------------------------------------------------------

_PERCENT = math.log(1.01)


def wrong(bound: Any) -> Any:
    """A certificate of another inequality, made of the same run: bound(run) gives both sides."""

    def function(layer: Any, G0: Any, depth: int | None = None) -> Any:
        run = start(layer, G0, depth)
        if not (
            run.centred.holds and run.separated.holds and run.definite.holds and run.positive_r.holds and run.n > 1
        ):
            return answer(
                "wrong", "", 0.0 * run.decay, 0.0 * run.decay, hypotheses=(), statement="", threshold_layer=None
            )
        lhs, rhs = bound(run)
        return answer("wrong", "", lhs, rhs, hypotheses=(), statement="")

    return function


def _rates(run: Any) -> Bracket:
    layers = np.arange(len(run.layers) + 1.0)
    return Bracket(layers, layers, layers)


def _psi(run: Any, share: float = 1.0) -> Bracket:
    return run.log_potentials.through(log_psi(max(run.power * share, 1.0)))  # type: ignore[no-any-return]


def _ratio(run: Any) -> Bracket:
    return run.log_spectrum[0] - run.power * run.log_spectrum[1]  # type: ignore[no-any-return]


def _small(run: Any) -> Bracket:
    return 2.0 * (_psi(run)[0] + run.log_rate) - 2.3 - run.log(run.n)


VARIANTS: dict[str, tuple[str, Any, Any]] = {
    "potential: beta 1 % larger": (
        "lemma-a.3",
        lambda r: r.log_potentials,
        lambda r: r.log_potentials[0] - r.decay - _PERCENT * _rates(r),
    ),
    "potential: rate r": ("lemma-a.3", lambda r: r.log_potentials, lambda r: r.log_potentials[0] + r.log_rate),
    "gap: no constant": ("theorem-5.1", lambda r: r.log_gaps, lambda r: 0.0 - r.decay),
    "gap: beta^-3l": ("theorem-5.1", lambda r: r.log_gaps, lambda r: r.log(4 * r.n) - r.log_det - 3.0 * r.decay),
    "map: 1 %": ("theorem-5.1+", lambda r: r.log_gaps, lambda r: r.log_spreads.through(log_gamma(r.n)) - _PERCENT),
    "log1p: a quarter": (
        "theorem-5.1+",
        lambda r: r.log_gaps,
        lambda r: (r.odds - math.log(4.0)).through(LOG_LOG1P_EXP),
    ),
    "m1: 1 %": ("m1", lambda r: r.log_gaps, lambda r: r.log_gaps.before() - _PERCENT),
    "l2: 1 %": ("l2", lambda r: r.log_smallest, lambda r: r.log_spreads - _PERCENT),
    "l2: m for mu": ("l2", lambda r: r.log_smallest, lambda r: r.mapped_largest),
    "majorization: s^2": ("spectral-majorization", lambda r: r.log_rms, lambda r: r.log_rms[0] + 2.0 * r.log_ratio),
    "t1 lower: 1 %": ("t1", lambda r: r.mapped_rms.through(log_gamma(r.n)), lambda r: r.log_gaps - _PERCENT),
    "t1 upper: 1 %": ("t1", lambda r: r.log_gaps, lambda r: r.mixture_gap(r.log_ratio) - _PERCENT),
    "r3: half the power": ("r3", lambda r: _psi(r, 0.5), lambda r: _psi(r, 0.5)[0] + r.log_rate),
    "r3: r 1 % smaller": ("r3", _psi, lambda r: _psi(r)[0] + r.log_rate - _PERCENT * _rates(r)),
    "r4: no threshold, a tenth": ("r4", lambda r: r.log_gaps, _small),
    "r4+: rate r^3": (
        "r4+",
        lambda r: r.log_gaps,
        lambda r: 2.0 * _ratio(r) + 3.0 * r.log_rate,
    ),
    "r4+: 1 %": (
        "r4+",
        lambda r: r.log_gaps,
        lambda r: (
            r.log(r.n - 1) - math.log(2.02) + 2.0 * (r.log_spectrum[0] - r.power * r.log_spectrum[1] + r.log_rate)
        ),
    ),
    "r5: 1 %": ("r5", lambda r: r.log_largest, lambda r: r.log_quadratic - _PERCENT),
    "r6: 1 %": ("r6", lambda r: r.log_largest, lambda r: r.mapped_largest - _PERCENT),
    "r6 gap: Gamma": ("r6", lambda r: r.log_gaps, lambda r: r.mapped_largest.through(log_gamma(r.n))),
    "r6 gap: 1 %": ("r6", lambda r: r.log_gaps, lambda r: r.mapped_largest.through(log_gamma_minus(r.n)) - _PERCENT),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_refuted_by_the_draws_of_its_claim(name: str) -> None:
    label, lhs, rhs = VARIANTS[name]
    assert refuted(CLAIMS[label], wrong(lambda run: (lhs(run), rhs(run))), examples=1000) is not None


SURVIVORS = {
    # 4n, and e, are far from what is needed
    "theorem-5.1": lambda r: r.log(4 * r.n) - _PERCENT - r.log_det - r.decay,
}


@pytest.mark.parametrize("label", SURVIVORS)
def test_survivors_have_slack_there(label: str) -> None:
    bound = SURVIVORS[label]
    assert refuted(CLAIMS[label], wrong(lambda run: (run.log_gaps, bound(run))), examples=200) is None


def test_brackets_of_balls_and_floats_settle_alike() -> None:
    run = start(Layer("relu"), equicorrelation(3, 0.5), 3)
    slack, tolerance = settle(run.log_gaps, run.log_gaps)
    assert slack.tolist() == [0.0] * 4
    assert np.all(tolerance >= 0.0)
    assert math.exp(run.log_gaps.value[0]) == pytest.approx(isometry_gap(equicorrelation(3, 0.5)), rel=1e-13)
