"""Gram matrices layer by layer: trajectories, their error bars, their edges and their rates.

Tolerances: entries of the reference were met to 2e-14 relative and gaps to 4e-14 over 30 layers, so 1e-13 leaves room
for another machine. Wherever the truth is computed here by mpmath, the tolerance is the error bar itself.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import FrozenInstanceError
from fractions import Fraction
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import mpmath as mp
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._matrix_strategies import correlation_matrices
from hermite.errors import ConstantActivationError, MissingDependencyError
from meanfield import (
    Layer,
    Trajectory,
    _dynamics,
    _march,
    correlation,
    gram,
    grams,
    input_gram,
    isometry_gap,
    potential,
    trajectory,
)

Floats: TypeAlias = NDArray[np.float64]
Real: TypeAlias = Any  # mpmath has no types
TRAJECTORIES = json.loads((Path(__file__).parent / "reference" / "trajectories.json").read_text())["trajectories"]
HALF = np.array([[1.0, 0.5], [0.5, 1.0]])
DUPLICATES = np.array([[1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.3, 0.3, 1.0]])
OPPOSITE = np.array([[1.0, -1.0, 0.3], [-1.0, 1.0, -0.3], [0.3, -0.3, 1.0]])


def equicorrelated(n: int, rho: float) -> Floats:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def relative(values: Any, wanted: Sequence[str]) -> Floats:
    """|value/wanted - 1| with the subtraction in 40 digits."""
    with mp.workdps(40):
        return np.array([float(abs(mp.mpf(float(v)) / mp.mpf(w) - 1)) for v, w in zip(values, wanted, strict=True)])


# --- against the reference ----------------------------------------------------------------------------------


@cache
def followed(key: str) -> Trajectory:
    reference = TRAJECTORIES[key]
    G0 = [[float(Fraction(entry)) for entry in row] for row in reference["G0"]]
    return trajectory(Layer(reference["activation"]), G0, 30)


def column(key: str, name: str) -> list[str]:
    return [layer[name] for layer in TRAJECTORIES[key]["layers"]]


@pytest.mark.parametrize("key", TRAJECTORIES)
def test_thirty_layers_of_the_reference(key: str) -> None:
    t = followed(key)
    assert np.array_equal(t.layer, [layer["l"] for layer in TRAJECTORIES[key]["layers"]])
    assert relative(t.max_correlation, column(key, "max_abs_offdiag")).max() <= 5e-14
    assert relative(t.potential, column(key, "gamma")).max() <= 5e-14
    assert relative(t.isometry_gap, column(key, "isometry_gap")).max() <= 1e-13
    assert set(t.status) <= {"resolved", "exact"}
    assert Layer(TRAJECTORIES[key]["activation"]).isometry_strength == pytest.approx(
        float(TRAJECTORIES[key]["beta"]), abs=1e-15
    )


@pytest.mark.parametrize("key", TRAJECTORIES)
def test_the_logarithms_are_those_of_the_reference(key: str) -> None:
    t = followed(key)
    gaps, odds = (np.array([float(v) for v in column(key, name)]) for name in ("isometry_gap", "gamma"))
    assert np.allclose(t.log_isometry_gap, np.log(gaps), rtol=0, atol=1e-13)
    assert np.allclose(t.log_potential, np.log(odds), rtol=0, atol=1e-13)


@pytest.mark.parametrize("key", TRAJECTORIES)
def test_the_entries_are_those_of_the_reference(key: str) -> None:
    reference = TRAJECTORIES[key]
    G0 = [[float(Fraction(entry)) for entry in row] for row in reference["G0"]]
    first = [G[0, 1] for G in islice(grams(Layer(reference["activation"]), G0), 31)]
    assert relative(first, column(key, "G12")).max() <= 5e-14
    assert first[-1] == followed(key).gram[0, 1]


@pytest.mark.parametrize("key", TRAJECTORIES)
def test_error_bars_cover_the_reference(key: str) -> None:
    t = followed(key)
    with mp.workdps(40):
        missed = [
            abs(mp.mpf(float(v)) - mp.mpf(w)) for v, w in zip(t.isometry_gap, column(key, "isometry_gap"), strict=True)
        ]
        off = [
            abs(mp.mpf(float(v)) - mp.mpf(w))
            for v, w in zip(t.max_correlation, column(key, "max_abs_offdiag"), strict=True)
        ]
    # the reference starts from 9/10, the trajectory from its float64, which no error bar can know
    start = 4 * np.finfo(float).eps
    assert all(m <= bar + start * gap for m, bar, gap in zip(missed, t.isometry_gap_error, t.isometry_gap, strict=True))
    assert all(m <= bar + start for m, bar in zip(off, t.max_correlation_error, strict=True))
    assert np.all(t.isometry_gap_error <= 1e-11 * t.isometry_gap)  # and they say something


def test_a_planted_error_in_the_map_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    through = _march._through_block

    def wrong(steps: Any, block: Floats, *rest: Any) -> None:
        through(steps, block, *rest)
        block *= 1.0 + 1e-14 * len(steps)

    monkeypatch.setattr(_march, "_through_block", wrong)
    t = trajectory(Layer("relu"), equicorrelated(5, 0.9), 30)
    assert relative(t.isometry_gap, column("relu|equi_0.9_n5", "isometry_gap")).max() > 1e-13


# --- error bars against 400 digits --------------------------------------------------------------------------


def _arccosine(rho: Real) -> Real:
    return mp.sqrt(1 - rho**2) + (mp.pi - mp.acos(rho)) * rho


MAPS: dict[str, Callable[[Real], Real]] = {
    "relu": lambda rho: (_arccosine(rho) - 1) / (mp.pi - 1),
    "sin": lambda rho: mp.sinh(rho) / mp.sinh(1),
    "sin(4*x)": lambda rho: mp.sinh(16 * rho) / mp.sinh(16),
    "exp": lambda rho: mp.expm1(rho) / mp.expm1(1),
    "sign": lambda rho: 2 * mp.asin(rho) / mp.pi,
    "abs": lambda rho: (mp.sqrt(1 - rho**2) + rho * mp.asin(rho) - 1) / (mp.pi / 2 - 1),
    "He(3, x)": lambda rho: rho**3,
    "x + He(2, x)": lambda rho: (rho + rho**2) / 2,
}


def exact_gap(entries: list[list[Real]]) -> Real:
    L = mp.cholesky(mp.matrix(entries))
    return -2 * sum(mp.log(L[i, i]) for i in range(len(entries))) / len(entries)


def exact_trajectory(name: str, G0: Floats, depth: int) -> Iterator[tuple[Real, Real]]:
    """Gap and largest correlation of each layer, from the floats of G0 as they are."""
    n = len(G0)
    G = [[mp.mpf(float(entry)) for entry in row] for row in G0]
    for _ in range(depth + 1):
        yield exact_gap(G), max(abs(G[i][j]) for i in range(n) for j in range(i))
        G = [[mp.mpf(1) if i == j else MAPS[name](G[i][j]) for j in range(n)] for i in range(n)]


def _starts() -> Iterator[tuple[str, Floats]]:
    rng = np.random.default_rng(11)
    for rows, features, apart in [(3, 3, 1e-5), (4, 4, 1e-3), (5, 6, None), (5, 5, 1e-7)]:
        X = rng.standard_normal((rows, features))
        if apart is not None:
            X[-1] = X[0] + apart * X[-1]
        yield f"{rows} inputs, two {apart} apart", correlation(gram(X))
    yield "equicorrelated", equicorrelated(4, 0.97)
    yield "negative", equicorrelated(3, -0.49)
    yield "weak", equicorrelated(3, 0.2)


STARTS = dict(_starts())


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", MAPS)
def test_error_bars_cover_the_error(name: str, start: str) -> None:
    t = trajectory(Layer(name), STARTS[start], 10)
    with mp.workdps(400):
        for l, (gap, largest) in enumerate(exact_trajectory(name, STARTS[start], 10)):
            assert abs(mp.mpf(float(t.max_correlation[l])) - largest) <= t.max_correlation_error[l], l
            if t.status[l] == "unresolved":
                # two inputs 1e-7 apart have 1 - rho = 5e-15, which the map may round away
                assert "1e-07" in start
            else:
                assert abs(mp.mpf(float(t.isometry_gap[l])) - gap) <= t.isometry_gap_error[l], l


@pytest.mark.parametrize("exponent", [10, 20, 30, 40])
@pytest.mark.parametrize("name", ["relu", "sin", "exp", "sign"])
def test_two_inputs_that_nearly_coincide_keep_an_honest_error_bar(name: str, exponent: int) -> None:
    """The first map rounds 1 - rho = 2^-exponent away; what it has lost never comes back, and the bar must say so."""
    G0 = equicorrelated(2, 1.0 - 2.0**-exponent)
    t = trajectory(Layer(name), G0, 40)
    with mp.workdps(60):
        rho = mp.mpf(float(G0[0, 1]))
        for l in range(41):
            missed = abs(mp.mpf(float(t.isometry_gap[l])) + mp.log(1 - rho**2) / 2)
            assert missed <= t.isometry_gap_error[l], l
            rho = MAPS[name](rho)
    assert t.status[40] == "resolved"
    assert t.isometry_gap_error[40] <= 0.05 * t.isometry_gap[40]


def test_two_inputs_an_ulp_apart_keep_their_distance() -> None:
    """relu multiplies 1 - rho by up to 1.47 a layer; rounded into rho, 1 - rho = 2^-53 would be 0 or 1 for ever."""
    t = trajectory(Layer("relu"), equicorrelated(2, 1.0 - 2.0**-53), 60)
    assert set(t.status) == {"resolved"}
    with mp.workdps(60):
        delta = mp.mpf(2) ** -53
        for l in range(61):
            gap = -(mp.log(delta) + mp.log(2 - delta)) / 2
            assert abs(mp.mpf(float(t.isometry_gap[l])) - gap) <= t.isometry_gap_error[l], l
            assert t.isometry_gap[l] == pytest.approx(float(gap), rel=1e-13)
            delta = 1 - MAPS["relu"](1 - delta)


def test_every_layer_has_the_gap_of_its_matrix() -> None:
    G0 = input_gram(np.random.default_rng(2).standard_normal((20, 40)))
    t = trajectory(Layer("gelu"), G0, 12)
    for l, G in enumerate(islice(grams(Layer("gelu"), G0), 13)):
        assert t.isometry_gap[l] == pytest.approx(float(isometry_gap(G)), rel=1e-14)
        assert t.potential[l] == potential(G)
    assert np.array_equal(t.gram, G)


# --- what stays, what separates, what collapses -------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "tanh", "sign", "abs", "exp", "identity"])
def test_duplicate_inputs_never_separate(name: str) -> None:
    t = trajectory(Layer(name), DUPLICATES, 10)
    assert np.all(t.isometry_gap == math.inf)
    assert np.all(t.log_isometry_gap == math.inf)
    assert np.all(t.isometry_gap_error == 0)
    assert np.all(t.potential == math.inf)
    assert np.all(t.log_potential == math.inf)
    assert np.all(t.max_correlation == 1.0)
    assert np.all(t.max_correlation_error == 0)
    assert t.status == ("singular",) * 11
    assert t.gram[0, 1] == t.gram[1, 0] == 1.0


def test_equal_rows_of_data_are_duplicates() -> None:
    X = np.random.default_rng(0).standard_normal((12, 30))
    X[7] = X[2]
    t = trajectory(Layer("relu"), input_gram(X), 10)
    assert t.gram[2, 7] == 1.0
    assert t.status == ("singular",) * 11


@pytest.mark.parametrize("name", ["tanh", "sin", "sign", "erf", "identity", "tanh(2*x) + 1", "He(3, x)"])
def test_opposite_inputs_stay_opposite_where_sigma_less_its_mean_is_odd(name: str) -> None:
    t = trajectory(Layer(name), OPPOSITE, 8)
    assert t.gram[0, 1] == -1.0
    assert t.gram[0, 2] == -t.gram[1, 2]
    assert t.status == ("singular",) * 9
    assert np.all(t.isometry_gap == math.inf)
    assert np.all(t.potential == math.inf)


@pytest.mark.parametrize("name", ["abs", "cos", "He(2, x)"])
def test_opposite_inputs_collapse_where_sigma_is_even(name: str) -> None:
    t = trajectory(Layer(name), OPPOSITE, 8)
    assert t.gram[0, 1] == 1.0
    assert t.status == ("singular",) * 9


@pytest.mark.parametrize("name", ["relu", "gelu", "exp", "elu"])
def test_other_activations_separate_opposite_inputs(name: str) -> None:
    t = trajectory(Layer(name), OPPOSITE, 8)
    assert t.status == ("singular",) + ("resolved",) * 8
    assert t.potential[0] == math.inf
    assert np.all(np.isfinite(t.isometry_gap[1:]))
    assert np.all(np.diff(t.isometry_gap[1:]) < 0)
    assert -1 < t.gram[0, 1] < 0


def test_opposite_inputs_separate_at_the_first_layer_that_can() -> None:
    t = trajectory([Layer("tanh"), Layer("sin"), Layer("relu"), Layer("tanh")], OPPOSITE)
    assert t.status == ("singular",) * 3 + ("resolved",) * 2
    even = trajectory([Layer("abs"), Layer("relu"), Layer("relu")], OPPOSITE)
    assert even.status == ("singular",) * 4


def test_fewer_features_than_inputs_are_singular_at_the_start_only() -> None:
    X = np.random.default_rng(3).standard_normal((64, 51))
    t = trajectory(Layer("relu"), input_gram(X), 12)
    assert t.isometry_gap[0] == math.inf
    assert t.status[0] == "unresolved"  # dependent in exact arithmetic only
    assert t.status[1:] == ("resolved",) * 12
    assert np.all(np.diff(t.isometry_gap[1:]) < 0)
    linear = trajectory(Layer("identity"), input_gram(X), 3)
    assert linear.status == ("unresolved",) * 4


def test_a_start_singular_by_its_integers_is_proven_singular() -> None:
    G0 = [[1.0, 0.5, 0.5], [0.5, 1.0, -0.5], [0.5, -0.5, 1.0]]  # row 1 = row 2 + row 3
    t = trajectory(Layer("tanh"), G0, 4)
    assert t.status == ("singular", "resolved", "resolved", "resolved", "resolved")


@pytest.mark.parametrize("name", ["relu", "abs", "exp"])
def test_orthogonal_inputs_stay_orthogonal(name: str) -> None:
    t = trajectory(Layer(name), np.eye(5), 6)
    assert np.array_equal(t.gram, np.eye(5))
    for values, wanted in [(t.isometry_gap, 0.0), (t.potential, 0.0), (t.max_correlation, 0.0)]:
        assert np.all(values == wanted)
    assert np.all(t.log_isometry_gap == -math.inf)
    assert np.all(t.log_potential == -math.inf)
    assert set(t.status) == {"resolved"}


def test_a_linear_layer_changes_nothing() -> None:
    t = trajectory(Layer("identity", gain=3), equicorrelated(4, 0.25), 5)
    assert np.array_equal(t.gram, equicorrelated(4, 0.25))
    assert np.ptp(t.isometry_gap) == 0


def test_one_input_has_nothing_to_be_correlated_with() -> None:
    t = trajectory(Layer("relu"), [[1.0]], 3)
    assert np.array_equal(t.gram, [[1.0]])
    assert np.all(t.isometry_gap == 0)
    assert np.all(t.potential == 0)


# --- rates --------------------------------------------------------------------------------------------------


def _depth(r: float, entry: float) -> int:
    """Enough layers for entries of this size, with 40 to come into the linear regime."""
    return 40 + math.ceil(math.log(entry) / math.log(r))


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "exp", "sin", "selu", "sign", "softplus", "leaky_relu"])
def test_the_gap_falls_by_r_squared_and_an_entry_by_r(name: str) -> None:
    """R1: f(rho) = r rho + O(rho^2), so both ratios are met to about the last entry, 1e-10."""
    layer = Layer(name)
    G0 = [[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]]
    depth = _depth(layer.linearity, 1e-10)
    t = trajectory(layer, G0, depth, gap_layers=[depth - 1, depth])
    assert t.isometry_gap[-1] / t.isometry_gap[-2] == pytest.approx(layer.linearity**2, rel=1e-8)
    assert t.max_correlation[-1] / t.max_correlation[-2] == pytest.approx(layer.linearity, rel=1e-8)
    assert t.log_isometry_gap[-1] - t.log_isometry_gap[-2] == pytest.approx(2 * math.log(layer.linearity), abs=1e-8)
    # 1/beta, the rate of the potential in the paper, is far from it
    assert abs(t.max_correlation[-1] / t.max_correlation[-2] - 1 / layer.isometry_strength) > 1e-4


def test_the_gap_is_half_the_mean_square_of_the_koenigs_limits() -> None:
    """R1: gap_l ~ (1/2n) r^(2l) sum over i != j of K(G_ij)^2 with K = lim rho_l/r^l."""
    G0 = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
    t = trajectory(Layer("relu"), G0, 90)
    r = Layer("relu").linearity
    K = (t.gram - np.eye(3)) / r**90
    assert t.isometry_gap[60] == pytest.approx(r**120 * (K**2).sum() / 6, rel=1e-6)


@pytest.mark.parametrize(
    ("layers", "value"), [(30, "1.01104464108972088e-7"), (100, "3.53315405979973825e-24")], ids=["30", "100"]
)
def test_late_layers_have_no_noise_floor(layers: int, value: str) -> None:
    """exp from 0.5: computed as a difference of two dual activations, 100 layers would end at 1.9e-16."""
    t = trajectory(Layer("exp"), HALF, layers)
    assert relative([t.max_correlation[-1]], [value])[0] <= 5e-14


@pytest.mark.parametrize("name", ["exp", "relu", "tanh", "sign", "abs"])
def test_the_potential_falls_by_the_isometry_strength_at_every_layer(name: str) -> None:
    """Lemma A.2: gamma(G_(l+1)) <= gamma(G_l)/beta, by logarithms until the entries underflow."""
    layer = Layer(name)
    t = trajectory(layer, equicorrelated(4, 0.9), 100)
    kept = t.max_correlation > 1e-300
    steps = np.diff(t.log_potential[kept])
    assert np.all(steps <= -math.log(layer.isometry_strength) + 1e-13)


def test_gaps_below_the_range_of_float64_go_on_as_logarithms() -> None:
    layer = Layer("sign")  # r = 2/pi
    t = trajectory(layer, HALF, 1000)
    assert t.isometry_gap[-1] == 0.0
    assert t.max_correlation[-1] == pytest.approx(math.exp(t.log_potential[-1]), rel=1e-12)
    assert t.log_isometry_gap[-1] == pytest.approx(2 * t.log_potential[-1] - math.log(2), rel=1e-14)
    assert t.log_isometry_gap[-1] - t.log_isometry_gap[-2] == pytest.approx(2 * math.log(layer.linearity), abs=1e-11)
    assert t.status[-1] == "resolved"


@pytest.mark.parametrize(("name", "k"), [("He(2, x)", 2), ("He(3, x)", 3), ("He(4, x)", 4)])
def test_a_hermite_polynomial_takes_the_kth_power_of_every_entry(name: str, k: int) -> None:
    layers = math.floor(math.log(700 / math.log(2), k))  # 2^-(k^l) stays representable
    t = trajectory(Layer(name), HALF, layers)
    assert np.allclose(np.log(t.max_correlation), -math.log(2) * float(k) ** t.layer, rtol=1e-14)
    assert t.gram[0, 1] == pytest.approx(0.5 ** (k**layers), rel=k**layers * 1e-15)


@pytest.mark.parametrize(
    ("name", "rho", "leading", "limit"),
    [
        ("He(2, x)/10 + 99**(1/2)/10*He(3, x)", 0.9, 0.01, -0.8045),
        ("He(2, x) + He(3, x)", 0.5, 0.5, -1.13800),
    ],
)
def test_without_a_linear_part_the_logarithm_doubles_at_every_layer(
    name: str, rho: float, leading: float, limit: float
) -> None:
    """R2: f = w_2 rho^2 + w_3 rho^3, so 2^-l log(w_2 rho_l) has a limit, here known to its printed digits."""
    t = trajectory(Layer(name), equicorrelated(2, rho), 9)
    scaled = (np.log(t.max_correlation) + math.log(leading)) / 2.0**t.layer
    assert scaled[9] == pytest.approx(limit, abs=5e-5 if limit == -0.8045 else 5e-6)
    assert scaled[9] == pytest.approx(scaled[8], abs=1e-14)
    assert np.all(np.diff(t.log_isometry_gap) < 0)


@pytest.mark.parametrize("name", ["abs", "He(3, x)", "cos"])
def test_even_what_underflows_has_a_logarithm(name: str) -> None:
    t = trajectory(Layer(name), equicorrelated(3, 0.5), 20)
    assert t.max_correlation[-1] == t.isometry_gap[-1] == 0.0
    assert np.all(np.diff(t.log_isometry_gap) < 0)
    assert np.all(np.isfinite(t.log_isometry_gap) & np.isfinite(t.log_potential))
    assert set(t.status) == {"resolved"}
    assert np.array_equal(t.gram, np.eye(3))
    # log gap is 2 log rho + log((n - 1)/2), and log rho goes by p log rho + log w_p
    p, w, _ = Layer(name).step.first
    small = t.log_potential < -100
    after = p * t.log_potential[small][:-1] + math.log(w)
    assert np.allclose(t.log_potential[small][1:], after, rtol=1e-14, atol=0)
    assert np.allclose(t.log_isometry_gap[small], 2 * t.log_potential[small], rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ["abs", "He(3, x)", "cos"])
def test_what_leaves_even_the_logarithms_has_a_status_and_no_warning(name: str) -> None:
    t = trajectory(Layer(name), equicorrelated(3, 0.5), 1200, gap_layers=(0, 600, 1200))
    assert t.log_isometry_gap[1200] == t.log_potential[1200] == -math.inf
    assert (t.status[0], t.status[600], t.status[1200]) == ("resolved", "resolved", "underflow")
    assert t.log_isometry_gap_error[1200] == t.log_potential_error[1200] == math.inf
    assert np.array_equal(t.gram, np.eye(3))


# --- properties ---------------------------------------------------------------------------------------------

POOL = ["relu", "tanh", "gelu", "exp", "sin", "sigmoid", "abs", "sign", "He(3, x)", "x - He(2, x)/2", "selu"]


@given(correlation_matrices(max_n=6), st.lists(st.sampled_from(POOL).map(Layer), min_size=1, max_size=4))
def test_isometry_does_not_fall(G0: Floats, network: list[Layer]) -> None:
    """Theorem M1: gap and 1 - (smallest eigenvalue) do not grow, whatever the layers; within the error bars."""
    t = trajectory(network, G0)
    event(f"starts {t.status[0]}")
    least = [np.linalg.eigvalsh(G)[0] for G in grams(network, G0)]
    for (a, e, s), (b, f, after) in pairwise(zip(t.isometry_gap, t.isometry_gap_error, t.status, strict=True)):
        assert not math.isnan(b + f)
        # an unresolved matrix has a gap of at least nothing: it refutes only where both are resolved
        if "unresolved" not in (s, after):
            assert b <= a + (e + f if math.isfinite(e + f) else 0.0)
    assert all(after >= before - 2e-14 * len(G0) for before, after in pairwise(least))


@given(correlation_matrices(max_n=6), st.sampled_from(POOL).map(Layer))
def test_a_trajectory_says_one_thing_in_all_its_columns(G0: Floats, layer: Layer) -> None:
    t = trajectory(layer, G0, 5)
    with np.errstate(divide="ignore"):
        # potential has digits that 1 - max_correlation has lost
        finite = t.potential[np.isfinite(t.potential)]
        assert np.all(np.abs(finite / (1 + finite) - t.max_correlation[np.isfinite(t.potential)]) <= 1e-15)
        assert np.allclose(np.exp(t.log_potential), t.potential, rtol=1e-13)
        assert np.allclose(np.exp(t.log_isometry_gap), t.isometry_gap, rtol=1e-13)
    assert np.all(t.isometry_gap >= 0)
    assert np.all(t.isometry_gap_error >= 0)
    singular = np.array([s in ("singular", "unresolved") for s in t.status])
    assert np.array_equal(np.isinf(t.isometry_gap), singular)
    assert np.array_equal(t.isometry_gap_error == math.inf, [s == "unresolved" for s in t.status])
    assert np.array_equal(t.gram, t.gram.T)
    assert np.array_equal(np.diagonal(t.gram), np.ones(len(G0)))


# --- sequences of layers ------------------------------------------------------------------------------------


def test_a_sequence_composes_its_layers() -> None:
    network = [Layer("relu"), Layer("tanh", gain=2), Layer("exp"), Layer("relu")]
    wanted = 0.5
    for layer in network:
        wanted = float(layer.map(wanted))
    for given_as in (network, tuple(network), iter(network), (layer for layer in network)):
        t = trajectory(given_as, HALF)
        assert t.depth == 4
        assert t.gram[0, 1] == wanted
    assert trajectory(network, HALF, 4).gram[0, 1] == wanted
    assert trajectory(network, HALF).label == "relu, tanh(2*x), exp"


def test_a_sequence_of_equal_layers_is_one_layer_repeated() -> None:
    many, one = trajectory([Layer("gelu")] * 7, HALF), trajectory(Layer("gelu"), HALF, 7)
    assert np.array_equal(many.isometry_gap, one.isometry_gap)
    assert many.label == one.label == "gelu"


def test_the_order_of_layers_matters() -> None:
    forward, backward = ([Layer("relu"), Layer("exp")], [Layer("exp"), Layer("relu")])
    assert trajectory(forward, HALF).gram[0, 1] != trajectory(backward, HALF).gram[0, 1]


def test_no_layers_leave_the_start() -> None:
    for t in (trajectory([], HALF), trajectory(Layer("relu"), HALF, 0)):
        assert t.depth == 0
        assert np.array_equal(t.gram, HALF)
        assert t.isometry_gap[0] == pytest.approx(-0.5 * math.log(0.75), rel=1e-15)
    assert len(list(grams([], HALF))) == 1


@pytest.mark.parametrize(
    ("layer", "depth", "message"),
    [
        (Layer("relu"), None, "depth is needed"),
        ([Layer("relu")] * 2, 3, r"depth=3 contradicts the sequence of 2 layers"),
        (Layer("relu"), -1, "depth must be a non-negative integer, got -1"),
        (Layer("relu"), 2.0, "depth must be a non-negative integer, got 2.0"),
        (Layer("relu"), True, "depth must be a non-negative integer, got True"),
        (Layer("relu"), "3", "depth must be a non-negative integer, got '3'"),
        ("relu", 3, r"layer must be a Layer.*write Layer\('relu'\)"),
        (["relu"], None, r"layer must hold Layers only, got 'relu'"),
        ([Layer("relu"), 7], None, "layer must hold Layers only, got 7"),
        (7, 3, "layer must be a Layer or a sequence of Layers, got 7"),
        (None, 3, "layer must be a Layer or a sequence of Layers, got None"),
    ],
)
def test_a_wrong_layer_or_depth_is_named(layer: Any, depth: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trajectory(layer, HALF, depth)


def test_a_depth_may_be_a_numpy_integer() -> None:
    depth: Any = np.int64(3)
    assert trajectory(Layer("relu"), HALF, depth).depth == 3


@pytest.mark.parametrize(
    ("G0", "message"),
    [
        (-2 * HALF, "G0 has the diagonal entry -2"),
        ([[1.0, 2.0], [2.0, 1.0]], "G0 is no Gram matrix.*eigenvalue"),
        ([[1.0, math.nan], [math.nan, 1.0]], "G0 must be finite"),
        ([[1.0, 0.5], [0.2, 1.0]], "G0 must be symmetric"),
        (np.ones((2, 3)), "G0 must have shape"),
        ("relu", "G0 must be an array of real numbers"),
        ([[1.0, 0.5], [0.5]], "G0 must be an array of real numbers"),
    ],
)
def test_a_wrong_start_is_named(G0: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trajectory(Layer("relu"), G0, 3)
    with pytest.raises(ValueError, match=message):
        grams(Layer("relu"), G0)  # at the call, not at the first matrix


def test_a_trajectory_is_of_one_matrix() -> None:
    with pytest.raises(ValueError, match=r"one matrix.*\(3, 2, 2\)"):
        trajectory(Layer("relu"), np.stack([HALF] * 3), 2)
    batch = islice(grams(Layer("relu"), np.stack([HALF, np.eye(2)])), 3)
    assert [G.shape for G in batch] == [(2, 2, 2)] * 3


def test_a_constant_activation_is_an_error() -> None:
    with pytest.raises(ConstantActivationError):
        trajectory(Layer("1/2"), HALF, 2)
    with pytest.raises(ConstantActivationError):
        list(islice(grams(Layer("1/2"), HALF), 2))


def test_grams_of_one_layer_do_not_end() -> None:
    late = next(islice(grams(Layer("relu"), HALF), 2000, None))
    assert 0 < late[0, 1] < 1e-250
    with pytest.raises(ValueError, match="layer must be a Layer"):
        grams("relu", HALF)  # type: ignore[arg-type]


def test_the_start_is_left_alone() -> None:
    G0 = HALF.copy()
    G0.flags.writeable = False
    trajectory(Layer("relu"), G0, 3)
    assert np.array_equal(G0, HALF)


# --- where the gap is computed ------------------------------------------------------------------------------


def test_up_to_512_inputs_every_layer_has_its_gap() -> None:
    assert trajectory(Layer("relu"), HALF, 9).gap_layers == tuple(range(10))
    assert _dynamics.ALL_LAYERS_UP_TO == 512


def test_beyond_512_inputs_thirty_two_layers_and_the_ends_have_one() -> None:
    t = trajectory(Layer("He(3, x)"), equicorrelated(513, 0.5), 60)
    assert t.gap_layers[0] == 0
    assert t.gap_layers[-1] == 60
    assert 20 <= len(t.gap_layers) <= 34
    assert set(range(8)) <= set(t.gap_layers)  # early layers, where most happens, are all there
    assert np.array_equal(np.isnan(t.isometry_gap), [l not in t.gap_layers for l in range(61)])
    assert not np.isnan(t.potential).any()


@pytest.mark.parametrize("chosen", [[0], [3, 1, 3], (4,), range(0, 5, 2), {2}, np.array([1, 4]), iter([2]), []])
def test_the_gap_is_nan_exactly_at_the_layers_left_out(chosen: Any) -> None:
    listed = [2] if not hasattr(chosen, "__len__") else [int(i) for i in chosen]
    t = trajectory(Layer("relu"), HALF, 4, gap_layers=chosen)
    assert t.gap_layers == tuple(sorted(set(listed)))
    absent = np.array([l not in listed for l in range(5)])
    for values in (t.isometry_gap, t.isometry_gap_error, t.log_isometry_gap):
        assert np.array_equal(np.isnan(values), absent)
    assert [s == "" for s in t.status] == absent.tolist()
    whole = trajectory(Layer("relu"), HALF, 4)
    assert np.array_equal(t.isometry_gap[~absent], whole.isometry_gap[~absent])
    assert np.array_equal(t.potential, whole.potential)


@pytest.mark.parametrize("bad", [[5], [-1], [1.0], [True], ["2"], [None], 3, 2.5, "all"])
def test_layers_that_do_not_exist_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(ValueError, match="gap_layers must be"):
        trajectory(Layer("relu"), HALF, 4, gap_layers=bad)


# --- progress -----------------------------------------------------------------------------------------------


def test_progress_calls_a_function_after_every_layer() -> None:
    told: list[tuple[int, int]] = []
    trajectory(Layer("relu"), HALF, 4, progress=lambda done, total: told.append((done, total)))
    assert told == [(l, 4) for l in range(5)]


def test_progress_is_a_line_on_stderr_when_asked_for_and_nothing_off_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trajectory(Layer("relu"), HALF, 4, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("\rlayer 0/4")
    assert err.endswith("\rlayer 4/4\n")
    silent: list[bool | None] = [False, None]
    for progress in silent:
        trajectory(Layer("relu"), HALF, 4, progress=progress)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "shown"), [(0.5, False), (1.5, True)])
def test_on_a_terminal_progress_shows_after_two_seconds(
    seconds: float, shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(np.arange(0.0, 100.0, seconds))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(_dynamics, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    trajectory(Layer("relu"), HALF, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\rlayer 3/3\n") if shown else err == ""


@pytest.mark.parametrize("bad", ["yes", 1, 0, [True]])
def test_other_kinds_of_progress_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="progress must be"):
        trajectory(Layer("relu"), HALF, 2, progress=bad)


# --- the record ---------------------------------------------------------------------------------------------


def test_the_columns_have_one_entry_per_layer() -> None:
    t = trajectory(Layer("relu"), HALF, 6)
    assert t.layer.dtype.kind == "i"
    assert np.array_equal(t.layer, range(7))
    columns = ("isometry_gap", "isometry_gap_error", "log_isometry_gap", "potential", "log_potential")
    for name in (*columns, "max_correlation", "max_correlation_error"):
        assert getattr(t, name).shape == (7,)
        assert getattr(t, name).dtype == np.float64
    assert len(t.status) == 7
    assert t.gram.shape == (2, 2)
    with pytest.raises(FrozenInstanceError):
        t.label = "other"  # type: ignore[misc]


def test_a_frame_has_the_columns_of_the_record() -> None:
    t = trajectory(Layer("relu"), HALF, 6, gap_layers=[0, 6])
    frame = t.to_pandas()
    assert list(frame.columns) == [
        "layer", "isometry_gap", "isometry_gap_error", "log_isometry_gap", "potential", "log_potential",
        "max_correlation", "status",
    ]  # fmt: skip
    for name in frame.columns:
        assert np.array_equal(frame[name].to_numpy()[[0, 6]], np.array(getattr(t, name))[[0, 6]])
    assert frame["isometry_gap"].isna().sum() == 5
    assert list(frame["status"]) == list(t.status)


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"isogram\[tables\]"):
        trajectory(Layer("relu"), HALF, 1).to_pandas()


@pytest.mark.parametrize("layers", [Layer("relu"), [Layer("relu"), Layer("tanh")]])
def test_what_is_yielded_is_no_handle_on_the_iteration(layers: Any) -> None:
    G0 = equicorrelated(2, 0.5)
    before = G0.copy()
    for G in islice(grams(layers, G0), 3):
        assert not np.shares_memory(G, G0)
        with pytest.raises(ValueError, match="read-only"):
            G[0, 1] = 9.0
    assert np.array_equal(G0, before)
    assert G0.flags.writeable
    assert not np.shares_memory(trajectory(Layer("relu"), G0, 0).gram, G0)
