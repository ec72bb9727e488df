"""Trajectories at scale: many inputs, many layers, correlations down to nothing and inputs that nearly coincide.

The truth is iterated by mpmath, entry by entry, with numbers that have no smallest exponent; the tolerance is the error
bar of the trajectory wherever it has one, and the bars are kept from being trivial.
"""

from __future__ import annotations

import itertools
import math
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hermite
from bounds._matrix_strategies import correlation_matrices
from hermite import _compiled
from meanfield import (
    Layer,
    Trajectory,
    _march,
    _run,
    correlation,
    grams,
    input_complement,
    input_gram,
    isometry_gap,
    potential,
    trajectory,
)

Floats: TypeAlias = NDArray[np.float64]
Real: TypeAlias = Any  # mpmath has no types
Map: TypeAlias = Callable[[Real], Real]
Norm: TypeAlias = Literal["layer", "rms"]
EPS = 2.0**-52
DIGITS = 60
TERMS = 12


# --- exact maps: a closed form, and its series where the closed form would cancel -------------------------------------


def arcsine(rho: Real) -> Real:
    return mp.sqrt((1 - rho) * (1 + rho)) + rho * mp.asin(rho)


def gelu(rho: Real) -> Real:
    return rho / 4 + (rho * mp.asin(rho / 2) + 1 / mp.sqrt(4 - rho**2)) / (2 * mp.pi)


def asin_terms(k: int) -> Real:
    """Coefficient of rho^k in asin."""
    j, odd = divmod(k - 1, 2)
    return mp.mpf(0) if odd else mp.binomial(2 * j, j) / (mp.mpf(4) ** j * k)


def arcsine_terms(k: int) -> Real:
    """Its derivative is asin."""
    return asin_terms(k - 1) / k if k >= 2 else mp.mpf(0)


CLOSED: dict[str, tuple[Map, Callable[[int], Real]]] = {
    "relu": (lambda r: arcsine(r) + mp.pi * r / 2, lambda k: mp.pi / 2 if k == 1 else arcsine_terms(k)),
    "abs": (arcsine, arcsine_terms),
    "step": (lambda r: mp.pi / 2 + mp.asin(r), asin_terms),
    "sign": (mp.asin, asin_terms),
    "erf": (lambda r: mp.asin(2 * r / 3), lambda k: asin_terms(k) * (mp.mpf(2) / 3) ** k),
    "exp": (mp.exp, lambda k: 1 / mp.factorial(k)),
    "sin": (mp.sinh, lambda k: k % 2 / mp.factorial(k)),
    "cos": (mp.cosh, lambda k: (1 - k % 2) / mp.factorial(k)),
    "gelu": (gelu, lambda k: mp.taylor(gelu, 0, k)[k]),
    "x + He(2, x)": (lambda r: r + r * r, lambda k: mp.mpf(k in (1, 2))),
    "He(2, x)": (lambda r: r * r, lambda k: mp.mpf(k == 2)),
    "He(3, x)": (lambda r: r**3, lambda k: mp.mpf(k == 3)),
    "He(2, x) + He(3, x)": (lambda r: r**2 + r**3, lambda k: mp.mpf(k in (2, 3))),
}


@cache
def exact(name: str, norm: Norm = "layer") -> Map:
    """The map of correlations in DIGITS digits; a name without closed form by its series, for small arguments only."""
    with mp.workdps(DIGITS + 20):
        if name not in CLOSED:
            c = hermite.multiprecision.coefficients(name, TERMS, digits=DIGITS)
            weights = [x**2 / hermite.multiprecision.variance(name, digits=DIGITS) for x in c[1:]]
            return lambda r: mp.fsum(w * r**k for k, w in enumerate(weights, 1))
        dual, terms = CLOSED[name]
        one, zero = dual(mp.mpf(1)), dual(mp.mpf(0))
        if norm == "rms":
            return lambda r: dual(r) / one
        weights = [terms(k) / (one - zero) for k in range(1, TERMS)]

    def f(r: Real) -> Real:
        if abs(r) < 1e-6:
            return mp.fsum(w * r**k for k, w in enumerate(weights, 1))
        return (dual(r) - zero) / (one - zero)

    return f


def exact_gap(E: Any) -> Real:
    """-(1/n) log det(I + E), for n up to a dozen."""
    n, top = E.rows, max(abs(e) for e in E)
    if top > 1e-6:
        return -mp.log(mp.det(mp.eye(n) + E)) / n
    square = E * E
    traces = [mp.fsum(square[i, i] for i in range(n)) / 2]
    traces.append(-mp.fsum((square * E)[i, i] for i in range(n)) / 3)
    traces.append(mp.fsum((square * square)[i, i] for i in range(n)) / 4)
    return mp.fsum(traces) / n


def iterated(E: Any, maps: Sequence[Map]) -> list[Any]:
    """Off-diagonal parts of the Gram matrices at layers 0, 1, 2, ..."""
    found = [E]
    for f in maps:
        before, E = E, mp.zeros(E.rows)
        for i, j in itertools.combinations(range(E.rows), 2):
            E[i, j] = E[j, i] = f(before[i, j])
        found.append(E)
    return found


def off_diagonal(G: Floats) -> Any:
    return mp.matrix((G - np.eye(len(G))).tolist())


def missed(found: float, wanted: Real) -> float:
    return float(abs(mp.mpf(float(found)) - wanted))


def check(t: Trajectory, exact_grams: Sequence[Any]) -> None:
    """Gap, potential, largest correlation and their logarithms at every layer, each within its bar."""
    for i, E in enumerate(exact_grams):
        gap, top = exact_gap(E), max(abs(e) for e in E)
        assert t.status[i] in ("resolved", "exact", "underflow"), i
        assert missed(t.isometry_gap[i], gap) <= t.isometry_gap_error[i] + 5e-324, i
        assert missed(t.log_isometry_gap[i], mp.log(gap)) <= t.log_isometry_gap_error[i] + 2 * EPS, i
        assert missed(t.max_correlation[i], top) <= t.max_correlation_error[i] + 5e-324, i
        log_odds = mp.log(top) - mp.log(1 - top)
        assert missed(t.log_potential[i], log_odds) <= t.log_potential_error[i] + 2 * EPS, i


def signed(entries: Sequence[float], n: int = 4) -> Floats:
    G = np.eye(n)
    upper = np.triu_indices(n, 1)
    G[upper] = entries
    return np.maximum(G, G.T) + np.minimum(G - np.eye(n), (G - np.eye(n)).T)


MIXED = [0.5, -0.4, 0.3, 0.2, -0.1, 1e-5]


# --- into smallness and beyond ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start", "layers"), [("relu", 1.0, 70), ("exp", 1.0, 45), ("x + He(2, x)", 1.0, 40), ("gelu", 1.0, 70),
                                  ("tanh", 1e-6, 110)]
)  # fmt: skip
def test_the_way_into_smallness_and_three_hundred_layers_on(name: str, start: float, layers: int) -> None:
    G = signed([start * e for e in MIXED])
    depth = layers + 300
    t = trajectory(Layer(name), G, depth)
    assert 1e-12 < t.max_correlation[layers] < 1e-9  # so the switch was on the way
    with mp.workdps(DIGITS):
        wanted = iterated(off_diagonal(G), [exact(name)] * depth)
        check(t, wanted)
        for i, j in itertools.combinations(range(4), 2):
            assert missed(t.gram[i, j], wanted[-1][i, j]) <= 2e-12 * abs(wanted[-1][i, j])
    assert t.log_isometry_gap_error.max() <= 5e-12
    assert (t.isometry_gap_error <= 5e-12 * t.isometry_gap).all()


NETWORKS: dict[str, list[tuple[str, Norm, int]]] = {
    "a square of what has a bend": [("exp", "layer", 80), ("He(2, x)", "layer", 1), ("exp", "layer", 5)],
    "squares on the way": [("relu", "layer", 20), ("abs", "layer", 1), ("gelu", "layer", 30), ("cos", "layer", 2)],
    "back for a square": [("x + He(2, x)", "layer", 38), ("He(2, x)", "layer", 1), ("relu", "layer", 20)],
    "a square with a cube beside it": [("exp", "layer", 45), ("He(2, x) + He(3, x)", "layer", 2)],
    "cubes": [("exp", "layer", 45), ("He(3, x)", "layer", 3), ("sin", "layer", 4)],
    "back after 500 layers": [("relu", "layer", 500), ("relu", "rms", 3), ("exp", "layer", 60), ("exp", "rms", 1)],
    "all different": [(n, "layer", 1) for n in ("relu", "exp", "gelu", "sin", "step", "erf")] * 20,
}  # fmt: skip


@pytest.mark.parametrize("case", NETWORKS)
def test_different_layers_in_turn(case: str) -> None:
    G = signed(MIXED)
    layers, maps = [], []
    for name, norm, count in NETWORKS[case]:
        layers += [Layer(name, normalization=norm)] * count
        maps += [(name, norm)] * count
    t = trajectory(layers, G)
    with mp.workdps(DIGITS):
        wanted = iterated(off_diagonal(G), [exact(*each) for each in maps])
        check(t, wanted)
        for i, j in itertools.combinations(range(4), 2):
            assert missed(t.gram[i, j], wanted[-1][i, j]) <= max(
                1e-11 * abs(wanted[-1][i, j]), t.max_correlation_error[-1]
            )
    assert t.log_isometry_gap_error.max() <= 1e-10


@pytest.mark.parametrize("gap_layers", [range(0, 401, 10), [20, 60, 80, 400]])
@pytest.mark.parametrize("name", ["relu", "exp"])
def test_many_small_correlations_add_up(name: str, gap_layers: Sequence[int]) -> None:
    """n rho is not small where rho is: of 300 equal inputs tr E^3 is n 1e-9 of the gap at the switch."""
    n, depth = 300, 400
    G = np.full((n, n), 0.2)
    np.fill_diagonal(G, 1.0)
    t = trajectory(Layer(name), G, depth, gap_layers=gap_layers)
    f = exact(name)
    with mp.workdps(4 * DIGITS):  # the sum below cancels to rho^2
        rho = mp.mpf(0.2)
        for i in range(depth + 1):
            wanted = -((n - 1) * mp.log1p(-rho) + mp.log1p((n - 1) * rho)) / n
            if i in t.gap_layers:
                assert missed(t.isometry_gap[i], wanted) <= t.isometry_gap_error[i]
                assert missed(t.log_isometry_gap[i], mp.log(wanted)) <= t.log_isometry_gap_error[i]
                if len(gap_layers) > 10:  # then tr E^3 is computed
                    assert missed(t.isometry_gap[i], wanted) <= 2e-12 * wanted
            rho = f(rho)


def test_ten_thousand_layers_take_seconds() -> None:
    """Beyond layer 200 entries are below 1e-27, and the logarithm falls by 2 log r a layer to all digits."""
    rng = np.random.default_rng(1)
    G = correlation(np.eye(64) + 0.5 * input_gram(rng.standard_normal((64, 200))))
    begun = time.perf_counter()
    t = trajectory(Layer("relu"), G, 10_000)
    assert time.perf_counter() - begun < 10
    with mp.workdps(40):
        log_r = mp.log(mp.pi / (2 * (mp.pi - 1)))
        for i in (201, 500, 5000, 10_000):
            wanted = mp.mpf(float(t.log_isometry_gap[200])) + 2 * (i - 200) * log_r
            assert missed(t.log_isometry_gap[i], wanted) <= t.log_isometry_gap_error[i]
    assert t.log_isometry_gap_error[-1] <= 4e-10  # 2e-15 a layer, twice, for sums over pairs of mixed size
    assert t.isometry_gap[-1] == 0.0
    assert set(t.status) <= {"resolved", "exact"}


# --- rates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "tanh", "sin", "gelu", "sign", "exp"])
def test_far_out_entries_fall_by_r_and_gaps_by_its_square(name: str) -> None:
    r = float(hermite.multiprecision.linearity(name, digits=30))
    t = trajectory(Layer(name), signed(MIXED), 600)
    last, before = (t.gram[0, 1], trajectory(Layer(name), signed(MIXED), 599).gram[0, 1])
    assert last / before == pytest.approx(r, rel=1e-13)
    assert math.exp(t.log_isometry_gap[600] - t.log_isometry_gap[599]) == pytest.approx(r * r, rel=1e-12)
    assert math.exp(t.log_potential[600] - t.log_potential[599]) == pytest.approx(r, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "weights", "start", "printed"),
    [
        ("sqrt(0.01)*He(2, x) + sqrt(0.99)*He(3, x)", ("0.01", "0.99"), 0.9, "-0.8045"),
        ("He(2, x) + He(3, x)", ("0.5", "0.5"), 0.5, "-1.13800"),
    ],
)
def test_without_a_linear_part_the_logarithm_grows_like_a_power_of_two(
    name: str, weights: tuple[str, str], start: float, printed: str
) -> None:
    t = trajectory(Layer(name), [[1.0, start], [start, 1.0]], 40)
    with mp.workdps(50):
        w2, w3 = map(mp.mpf, weights)
        rho, limit = mp.mpf(start), mp.log(mp.mpf(start)) + mp.log(w2)
        for j in range(12):
            limit += mp.log1p(w3 / w2 * rho) / mp.mpf(2) ** (j + 1)
            rho = w2 * rho**2 + w3 * rho**3
        assert float(limit) == pytest.approx(float(printed), abs=0.6 * 10.0 ** -len(printed.split(".")[1]))
        # log|rho_l| = 2^l limit - log w_2 once the sum has ended
        assert missed(t.log_isometry_gap[40], 2 * (mp.mpf(2) ** 40 * limit - mp.log(w2)) - mp.log(2)) <= 3e-14 * 2.0**40


def test_without_centring_relu_draws_inputs_together_like_a_power_of_depth() -> None:
    """1 - rho ~ 9 pi^2/(2 l^2): 44.41 as a limit, 44.23 at 10000 layers from one half."""
    t = trajectory(Layer("relu", normalization="rms"), [[1.0, 0.5], [0.5, 1.0]], 10_000)
    with mp.workdps(40):
        rho = mp.mpf(0.5)
        for i in range(1, 10_001):
            rho = arcsine(rho) / mp.pi + rho / 2
            if i in (10, 100, 1000, 10_000):
                assert missed(t.log_potential[i], mp.log(rho / (1 - rho))) <= t.log_potential_error[i]
                gap = -mp.log((1 - rho) * (1 + rho)) / 2
                assert missed(t.isometry_gap[i], gap) <= t.isometry_gap_error[i]
        assert float(1 - rho) * 1e8 == pytest.approx(44.23, abs=0.005)
    assert math.exp(-t.log_potential[-1]) * 1e8 == pytest.approx(44.23, abs=0.005)
    assert t.log_potential_error[-1] <= 1e-10


@pytest.mark.parametrize("name", ["cos", "abs", "He(2, x)", "He(3, x)", "He(2, x) + He(3, x)"])
@pytest.mark.parametrize(
    "entries", [MIXED, [0.9, 1e-3, 0.0, 0.0, -1e-12, -0.9], [1e-30, -0.25, 1e-200, 0.2, -1e-8, 0.25]]
)
def test_forty_layers_without_a_linear_part(name: str, entries: list[float]) -> None:
    """Few pairs are all of the sum: those that start largest."""
    G = signed(entries)
    t = trajectory(Layer(name), G, 40)
    with mp.workdps(DIGITS):
        wanted = iterated(off_diagonal(G), [exact(name)] * 40)
        check(t, wanted)
        for i, E in enumerate(wanted):
            log_gap = mp.log(exact_gap(E))
            assert missed(t.log_isometry_gap[i], log_gap) <= 1e-13 * max(1.0, float(abs(log_gap)))


# --- what must not matter -----------------------------------------------------------------------------------

COLUMNS = ("isometry_gap", "log_isometry_gap", "potential", "log_potential", "max_correlation")
POOL = ["relu", "tanh", "gelu", "step", "sin", "hardtanh", "abs", "exp"]


@cache
def batch(n: int) -> Floats:
    """Correlations of both signs, none of them near 1."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 30))
    X[1] = X[0] + 0.3 * X[1]
    X[3] = -X[2] + 0.3 * X[3]
    return correlation(0.1 * np.eye(n) + 0.9 * input_gram(X))


def same(a: Trajectory, b: Trajectory, rtol: float) -> None:
    """At all layers that both have, values agree as far as is asked, gaps within their bars as well."""
    for name in COLUMNS:
        x, y = getattr(a, name), getattr(b, name)
        seen = ~(np.isnan(x) | np.isnan(y))
        assert np.allclose(x[seen], y[seen], rtol=rtol, atol=0), name
    assert np.allclose(a.gram, b.gram, rtol=rtol, atol=rtol * a.max_correlation[-1])


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("name", POOL)
def test_a_run_is_the_layers_one_by_one(name: str, norm: Norm) -> None:
    layer, n, depth = Layer(name, normalization=norm), 40, 25
    t = trajectory(layer, batch(n), depth)
    found = list(itertools.islice(grams(layer, batch(n)), depth + 1))
    assert np.allclose(t.gram, found[-1], rtol=1e-13, atol=1e-14 * t.max_correlation[-1])
    for i, G in enumerate(found):
        top = np.abs(G - np.eye(n)).max()
        assert t.max_correlation[i] == pytest.approx(top, rel=1e-13, abs=0)
        if top > 1e-150 and t.status[i] == "resolved":
            tolerance = 1e-13 * t.isometry_gap[i] + t.isometry_gap_error[i]
            assert abs(t.isometry_gap[i] - float(isometry_gap(G))) <= tolerance
            assert t.potential[i] == pytest.approx(float(potential(G)), rel=1e-13 / (1 - top))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("name", POOL)
def test_it_does_not_matter_where_gaps_are_asked(name: str, norm: Norm) -> None:
    """Not by one bit: where a layer is cut off from a stretch, its pairs go through the same arithmetic."""
    layer, G = Layer(name, normalization=norm), batch(40)
    everywhere = trajectory(layer, G, 60)
    for asked in ([], [60], [0, 7, 8, 33], range(0, 61, 5)):
        t = trajectory(layer, G, 60, gap_layers=asked)
        assert np.array_equal(t.gram, everywhere.gram)
        for column in (*COLUMNS, "isometry_gap_error", "log_isometry_gap_error", "max_correlation_error"):
            ours, theirs = getattr(t, column), getattr(everywhere, column)
            seen = list(asked) if "gap" in column else slice(None)
            assert np.array_equal(ours[seen], theirs[seen]), column


@pytest.mark.parametrize("name", ["relu", "gelu", "hardtanh", "abs"])
def test_blocks_stretches_and_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    G, asked = batch(160), [0, 30]
    wanted = trajectory(Layer(name), G, 30, gap_layers=asked)
    for block, stretch, cores, piece in ((999, 16, 1, 1 << 18), (16384, 1, 1, 1 << 18), (4096, 5, 4, 3000)):
        monkeypatch.setattr(_march, "_BLOCK", block)
        monkeypatch.setattr(_run, "_STRETCH", stretch)
        monkeypatch.setattr("hermite._threads.cores", lambda cores=cores: cores)
        monkeypatch.setattr("hermite._threads.PIECE", piece)
        t = trajectory(Layer(name), G, 30, gap_layers=asked)
        explicit = wanted.max_correlation >= 1e-9
        assert np.array_equal(t.max_correlation[explicit], wanted.max_correlation[explicit])
        if explicit.all():
            assert np.array_equal(t.gram, wanted.gram)
            assert np.array_equal(t.isometry_gap, wanted.isometry_gap, equal_nan=True)
        same(t, wanted, 1e-13 if name != "abs" else 1e-8)


def as_it_stands(source: str, name: str, fastmath: set[str], **known: Any) -> Any:
    """In place of numba: the text of a loop as plain Python."""
    scope: dict[str, Any] = {"math": math, "np": np, **known}
    exec(compile(source, name, "exec"), scope)
    return scope[name]


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "hardtanh", "abs", "exp"])
def test_compiled_loops_say_what_numpy_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the loops everywhere, and the machine code itself where there is numba."""
    machine = _compiled.available()
    layers = [Layer(name)] * 3 + [Layer("relu", normalization="rms")] + [Layer("erf")] * 6
    G = batch(25)
    monkeypatch.setattr(_compiled, "available", lambda: False)
    wanted = trajectory(layers, G)
    monkeypatch.setattr(_run, "WORTH", 0)
    monkeypatch.setattr(_compiled, "available", lambda: True)
    called = []
    stepper = _compiled.stepper.__wrapped__

    def counted(f: Any) -> Any:
        called.append(f)
        return stepper(f)

    monkeypatch.setattr(_compiled, "stepper", counted)
    for compiled in (as_it_stands, *([_compiled.compiled] if machine else [])):
        monkeypatch.setattr(_compiled, "compiled", compiled)
        called.clear()
        t = trajectory(layers, G)
        assert called
        same(t, wanted, 2e-14)
        assert np.allclose(t.max_correlation, wanted.max_correlation, rtol=1e-14, atol=0)


@given(correlation_matrices(min_n=2, max_n=6), st.sampled_from(POOL), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_the_inputs_changes_no_entry(G: Floats, name: str, rms: bool, random: Any) -> None:
    order = list(range(len(G)))
    random.shuffle(order)
    layer, moved = Layer(name, normalization="rms" if rms else "layer"), np.ix_(order, order)
    a, b = trajectory(layer, G, 12), trajectory(layer, G[moved], 12)
    assert np.array_equal(a.gram[moved], b.gram)
    assert np.array_equal(a.max_correlation, b.max_correlation)


@given(correlation_matrices(min_n=2, max_n=6), st.sampled_from(["tanh", "sin", "He(3, x)", "sign", "erf", "hardtanh"]))
@settings(max_examples=40)
def test_odd_layers_keep_signs_to_the_last_bit(G: Floats, name: str) -> None:
    signs = np.where(np.arange(len(G)) % 2, -1.0, 1.0)
    a, b = (trajectory(Layer(name), M, 12) for M in (G, G * np.outer(signs, signs)))
    assert np.array_equal(a.gram * np.outer(signs, signs), b.gram)
    assert np.array_equal(a.max_correlation, b.max_correlation)


@given(
    correlation_matrices(max_n=8), st.lists(st.tuples(st.sampled_from(POOL), st.booleans()), min_size=1, max_size=12)
)
@settings(max_examples=60)
def test_what_comes_out_is_a_correlation_matrix(G: Floats, network: list[tuple[str, bool]]) -> None:
    layers = [Layer(name, normalization="rms" if rms else "layer") for name, rms in network]
    t = trajectory(layers, G)
    assert np.array_equal(t.gram, t.gram.T)
    assert np.array_equal(np.diagonal(t.gram), np.ones(len(G)))
    least, before = np.linalg.eigvalsh(t.gram)[0], np.linalg.eigvalsh(G)[0]
    # the spectrum rises; entries are off by their bar
    assert least >= min(before, 0.0) - len(G) * (EPS + float(t.max_correlation_error[-1])) - 8 * EPS * len(G)
    assert (np.isnan(t.isometry_gap) | (t.isometry_gap >= 0)).all()


@given(correlation_matrices(min_n=2, max_n=6), st.sampled_from(POOL))
@settings(max_examples=60)
def test_isometry_rises_and_the_potential_contracts(G: Floats, name: str) -> None:
    t, log_beta = trajectory(Layer(name), G, 15), math.log(Layer(name).isometry_strength)
    gap, bar = t.isometry_gap, t.isometry_gap_error
    known = np.array([s in ("resolved", "exact") for s in t.status])
    both = known[1:] & known[:-1]
    assert (gap[1:][both] <= (gap[:-1] + bar[:-1] + bar[1:])[both]).all()
    finite = np.isfinite(t.log_potential[1:]) & np.isfinite(t.log_potential[:-1])
    log_odds, errors = t.log_potential, t.log_potential_error[:-1] + t.log_potential_error[1:]
    assert (log_odds[1:][finite] <= (log_odds[:-1] - log_beta + errors + 1e-13)[finite]).all()


# --- inputs that nearly coincide ----------------------------------------------------------------------------


def exact_cosines(X: Floats) -> Any:
    """Off-diagonal cosines of the rows as given, centred, in DIGITS + 30 digits."""
    rows = [[mp.mpf(float(v)) for v in row] for row in X]
    rows = [[v - mp.fsum(row) / len(row) for v in row] for row in rows]
    E = mp.zeros(len(rows))
    for i, j in itertools.combinations(range(len(rows)), 2):
        a, b = rows[i], rows[j]
        E[i, j] = E[j, i] = mp.fdot(a, b) / mp.sqrt(mp.fdot(a, a) * mp.fdot(b, b))
    return E


def inputs(kind: str) -> Floats:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((5, 12))
    what, _, width = kind.partition(" ")
    if what in ("pair", "opposite"):
        X[1] = (X[0] + float(width) * X[1]) * (-1.0 if what == "opposite" else 1.0)
    if what == "several":
        X[1], X[3] = X[0] + 1e-6 * X[1], -X[2] + 1e-3 * X[3]
    if what == "cluster":
        X = X[0] + float(width) * rng.standard_normal((10, 12))
    return X


KINDS = ["pair 1e-3", "pair 1e-6", "pair 1e-9", "opposite 1e-3", "opposite 1e-9", "several", "cluster 1e-7"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "norm"), [("relu", "layer"), ("sin", "layer"), ("abs", "layer"), ("step", "layer"),
                                            ("relu", "rms"), ("exp", "rms"), ("gelu", "rms")])  # fmt: skip
def test_inputs_that_nearly_coincide(kind: str, name: str, norm: Norm) -> None:
    X, depth = inputs(kind), 6 if kind.startswith("cluster") else 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = trajectory(Layer(name, normalization=norm), input_gram(X), depth, complement=input_complement(X))
    with mp.workdps(100):
        closed = CLOSED[name][0]
        zero, one = closed(mp.mpf(0)) if norm == "layer" else mp.mpf(0), closed(mp.mpf(1))
        wanted = iterated(exact_cosines(X), [lambda r: (closed(r) - zero) / (one - zero)] * depth)
        for i, E in enumerate(wanted):
            top = max(abs(e) for e in E)
            assert missed(t.potential[i], top / (1 - top)) <= 1e-12 * top / (1 - top), i
            assert missed(t.log_potential[i], mp.log(top / (1 - top))) <= t.log_potential_error[i] + 4 * EPS, i
            if t.status[i] == "resolved":
                assert (
                    missed(t.isometry_gap[i], -mp.log(mp.det(mp.eye(len(X)) + E)) / len(X)) <= t.isometry_gap_error[i]
                ), i
    if kind != "several":
        assert set(t.status) == {"resolved"}
        # 1e-14 of a distance of 1e-9 to its neighbour's distances: the bar of the basis of differences
        assert (t.isometry_gap_error <= 3e-3 * t.isometry_gap).all()


@pytest.mark.parametrize("name", ["relu", "sin", "abs", "exp", "step"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_duplicates_stay_duplicates(name: str, norm: Norm) -> None:
    X = inputs("pair 1e-3")
    X[1] = X[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        t = trajectory(Layer(name, normalization=norm), input_gram(X), 20, complement=input_complement(X))
    assert np.isposinf(t.isometry_gap).all()
    assert np.isposinf(t.potential).all()
    assert set(t.status) == {"singular"}
    assert (t.max_correlation == 1.0).all()
    for column in ("isometry_gap_error", "log_isometry_gap", "log_potential", "log_potential_error"):
        assert not np.isnan(getattr(t, column)).any()


@pytest.mark.parametrize("rho", [-1.0, -0.9999, -0.5])
@pytest.mark.parametrize("name", ["relu", "gelu", "exp"])
def test_opposite_inputs_under_rms_normalisation(name: str, rho: float) -> None:
    """The largest correlation is that of the one pair there is, also where it is below kappa(0)."""
    t = trajectory(Layer(name, normalization="rms"), [[1.0, rho], [rho, 1.0]], 6)
    with mp.workdps(DIGITS):
        for i, E in enumerate(iterated(mp.matrix([[0, rho], [rho, 0]]), [exact(name, "rms")] * 6)):
            assert missed(t.max_correlation[i], abs(E[0, 1])) <= t.max_correlation_error[i] + EPS


@pytest.mark.parametrize(
    ("complement", "message"),
    [
        ([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5]], "shape"),
        ([0.0, 0.5], "shape"),
        ([[0.0, 0.5], [0.5 + EPS, 0.0]], "symmetric"),
        ([[0.0, math.nan], [math.nan, 0.0]], "complement"),
        ([[0.0, 0.4], [0.4, 0.0]], r"0\.4.*G0 = 0\.5 at index \[0, 1\]"),
        ([[0.0, 1.5], [1.5, 0.0]], "complement must hold 1 - "),
        ([[0.0, -0.5], [-0.5, 0.0]], "complement"),
    ],
)
def test_a_wrong_complement_is_named(complement: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trajectory(Layer("relu"), [[1.0, 0.5], [0.5, 1.0]], 3, complement=complement)


def test_a_negative_complement_is_named() -> None:
    with pytest.raises(ValueError, match=r"negative.*-1e-20"):
        trajectory(Layer("relu"), np.ones((2, 2)), 3, complement=[[0.0, -1e-20], [-1e-20, 0.0]])


# --- memory, and being interrupted --------------------------------------------------------------------------


def held(layer: Layer, G: Floats, depth: int, **options: Any) -> float:
    """Most memory held beside G0 and complement, in arrays of their size."""
    trajectory(layer, G, depth, gap_layers=[])  # builds the map, and compiles it where there is numba
    tracemalloc.start()
    try:
        trajectory(layer, G, depth, **options)
        return tracemalloc.get_traced_memory()[1] / G.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("n", "name", "norm", "asked"),
    [(1024, "relu", "layer", [0, 40]), (1024, "relu", "rms", [0, 5]), (1024, "abs", "layer", [0, 2]),
     (1536, "gelu", "layer", [0, 20])],
)  # fmt: skip
def test_two_and_a_half_arrays_are_held(n: int, name: str, norm: Norm, asked: list[int]) -> None:
    G = input_gram(np.random.default_rng(n).standard_normal((n, 2 * n)))
    assert held(Layer(name, normalization=norm), G, 40, gap_layers=asked) <= 2.6


def test_three_arrays_are_held_where_inputs_nearly_coincide() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1024, 1500))
    X[1] = X[0] + 1e-7 * X[1]
    # three, and blocks of a fixed size that are small beside larger matrices
    assert held(Layer("relu"), input_gram(X), 20, gap_layers=[0, 20], complement=input_complement(X)) <= 3.2


def test_three_arrays_are_held_where_all_inputs_nearly_coincide() -> None:
    """Places and distances of all pairs are in the two matrices while a third is factorised."""
    rng = np.random.default_rng(0)
    G = input_gram(rng.standard_normal((1, 1500)) + 1e-3 * rng.standard_normal((1100, 1500)))
    assert held(Layer("relu"), G, 4, gap_layers=[1, 4]) <= 3.3


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, Stop, ValueError])
@pytest.mark.parametrize("last", [0, 1, 7, 30])
def test_an_interruption_leaves_nothing_behind(error: type[BaseException], last: int) -> None:
    G = batch(40).copy()
    wanted, before = trajectory(Layer("gelu"), G, 40), G.copy()

    def progress(done: int, total: int) -> None:
        assert total == 40
        if done >= last:
            raise error("enough")

    with pytest.raises(error, match="enough"):
        trajectory(Layer("gelu"), G, 40, progress=progress)
    assert np.array_equal(G, before)
    again = trajectory(Layer("gelu"), G, 40)
    assert np.array_equal(again.gram, wanted.gram)
    assert np.array_equal(again.isometry_gap, wanted.isometry_gap)
