"""Decay at the true rate, and what it shares with claims about eigenvalues: 40 digits, invariances, false variants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bounds import (
    CLAIMS,
    Certificate,
    Verdict,
    certify,
    gap_sandwich,
    monotone_isometry,
    scalar_gap_decay,
    sharp_gap_decay,
    sharp_potential_contraction,
    smallest_eigenvalue_contraction,
    spectral_majorization,
)
from bounds.strategies import correlation_matrices, layers
from meanfield import Layer, isometry_gap

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

DEPTH = 6
OVER_DEPTH: list[Callable[..., Certificate]] = [
    monotone_isometry,
    smallest_eigenvalue_contraction,
    spectral_majorization,
    gap_sandwich,
    scalar_gap_decay,
]
SLOPED: list[Callable[..., Certificate]] = [sharp_potential_contraction, sharp_gap_decay]


def equicorrelation(n: int, rho: float) -> np.ndarray:
    return np.eye(n) + rho * (np.ones((n, n)) - np.eye(n))


def arc_cosine(x: Any) -> Any:
    return (mpmath.sqrt(1 - x * x) + (mpmath.pi - mpmath.acos(x)) * x - 1) / (mpmath.pi - 1)


def arc_cosine_of_moduli(x: Any) -> Any:
    return (mpmath.sqrt(1 - x * x) + x * mpmath.asin(x) - 1) / (mpmath.pi / 2 - 1)


# reduced duals in closed form, and their slopes at 0
MAPS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "relu": (arc_cosine, lambda: mpmath.pi / (2 * (mpmath.pi - 1))),
    "erf": (
        lambda x: mpmath.asin(2 * x / 3) / mpmath.asin(mpmath.mpf(2) / 3),
        lambda: 2 / (3 * mpmath.asin(mpmath.mpf(2) / 3)),
    ),
    "exp": (lambda x: mpmath.expm1(x) / mpmath.expm1(1), lambda: 1 / mpmath.expm1(1)),
    "sin": (lambda x: mpmath.sinh(x) / mpmath.sinh(1), lambda: 1 / mpmath.sinh(1)),
    "sign": (lambda x: 2 * mpmath.asin(x) / mpmath.pi, lambda: 2 / mpmath.pi),
    "abs": (arc_cosine_of_moduli, lambda: mpmath.mpf(0)),
    "He(1, x) + He(4, x)/2": (lambda x: (4 * x + x**4) / 5, lambda: mpmath.mpf(4) / 5),
}
HILBERT = np.array(
    [[math.sqrt((2 * i + 1) * (2 * j + 1)) / (i + j + 1) if i != j else 1.0 for j in range(5)] for i in range(5)]
)
MATRICES = {
    "pair": np.array([[1.0, -0.7], [-0.7, 1.0]]),
    "signed": np.array([[1.0, -0.6, 0.3], [-0.6, 1.0, 0.25], [0.3, 0.25, 1.0]]),
    "near": np.array([[1.0, 1 - 1e-9, 0.5], [1 - 1e-9, 1.0, 0.5], [0.5, 0.5, 1.0]]),
    "hilbert": HILBERT,
    "tiny": np.array([[1.0, 1e-150, -1e-152], [1e-150, 1.0, 1e-160], [-1e-152, 1e-160, 1.0]]),
}


class Exact:
    """A network at the precision of the caller, from the closed form of its map."""

    def __init__(self, spec: str, G0: np.ndarray) -> None:
        self.f, r = MAPS[spec]
        self.r, self.n = r(), len(G0)
        self.grams = [mpmath.matrix(G0.tolist())]
        for _ in range(DEPTH):
            last = self.grams[-1]
            self.grams.append(mpmath.matrix(self.n))
            for i in range(self.n):
                for j in range(self.n):
                    self.grams[-1][i, j] = mpmath.mpf(1) if i == j else self.f(last[i, j])
        self.entries = [[G[i, j] for i in range(self.n) for j in range(i)] for G in self.grams]
        self.largest = [max(map(abs, x)) for x in self.entries]
        self.spectra = [sorted(mpmath.eigsy(G, eigvals_only=True)) for G in self.grams]
        self.gaps = [-sum(map(mpmath.log, x)) / self.n for x in self.spectra]

    def mapped(self, x: Any) -> list[Any]:
        path = [x]
        for _ in range(DEPTH):
            path.append(self.f(path[-1]))
        return path

    def opposed(self, path: list[Any]) -> list[Any]:
        """The gaps of n inputs with all correlations -t."""
        n = self.n
        inside = [(n - 1) * t < 1 for t in path]
        return [
            -((n - 1) * mpmath.log(1 + t) + mpmath.log(1 - (n - 1) * t)) / n if ok else mpmath.inf
            for t, ok in zip(path, inside, strict=True)
        ]

    def rms(self, entries: Any) -> Any:
        squares = [x * x for x in entries]
        return mpmath.sqrt(sum(squares) / len(squares))

    def quadratic(self) -> list[Any]:
        path = [self.largest[0]]
        for _ in range(DEPTH):
            path.append(path[-1] * (self.r + (1 - self.r) * path[-1]))
        return path


def sides(net: Exact) -> dict[Callable[..., Certificate], dict[str, tuple[list[Any], list[Any]]]]:
    moduli = [net.rms(x) for x in zip(*(net.mapped(abs(x)) for x in net.entries[0]), strict=True)]
    quadratic, mapped = net.quadratic(), net.mapped(net.largest[0])
    mu = net.mapped(1 - net.spectra[0][0])
    s = [x / mu[0] for x in mu]
    mixture = [-sum(mpmath.log(1 + t * (x - 1)) for x in net.spectra[0]) / net.n for t in s]
    rms = [net.rms(x) for x in net.entries]
    found = {
        smallest_eigenvalue_contraction: {"": ([1 - x[0] for x in net.spectra], mu)},
        gap_sandwich: {"upper": (net.gaps, mixture)},
        spectral_majorization: {"gap": (net.gaps, mixture), "norm": (rms, [t * rms[0] for t in s])},
        scalar_gap_decay: {
            "correlation, r": (net.largest, quadratic),
            "correlation, map": (net.largest, mapped),
            "gap, r": (net.gaps, net.opposed(quadratic)),
            "gap, map": (net.gaps, net.opposed(mapped)),
            "gap, entrywise": (net.gaps, net.opposed(moduli)),
        },
    }
    if net.r:
        R, p, c = [net.r**l for l in range(DEPTH + 1)], 1 / net.r, mpmath.mpf(net.n - 1) / 2
        psi = [m / (1 - m) ** p for m in net.largest]
        by_mu, det = mu[0] / (1 - mu[0]) ** p, mpmath.exp(-net.n * net.gaps[0])
        found[sharp_potential_contraction] = {"": (psi, [psi[0] * x for x in R])}
        found[sharp_gap_decay] = {
            "potential": (net.gaps, [2 * c * (psi[0] * x) ** 2 for x in R]),
            "eigenvalue": (net.gaps, [c * (by_mu * x) ** 2 for x in R]),
            "determinant": (net.gaps, [c * (mpmath.e / det) ** (2 * p) * x**2 for x in R]),
        }
    return found


# (1e-150)^(2^6) would want ten thousand digits
CASES = [(spec, name) for spec in MAPS for name in MATRICES if (spec, name) != ("abs", "tiny")]
# what rounding costs: 1e-16 over the smallest eigenvalue, or the distance of the nearest inputs
ROOM = {"pair": 1e-12, "signed": 1e-12, "near": 1e-5, "hilbert": 1e-9, "tiny": 1e-12}


@pytest.mark.parametrize(("spec", "name"), CASES)
def test_every_side_is_that_of_the_closed_form(spec: str, name: str) -> None:
    G0, layer = MATRICES[name], Layer(spec)
    with mpmath.workdps(700 if name == "tiny" else 60):
        for claim, each in sides(Exact(spec, G0)).items():
            certificate = claim(layer, G0, DEPTH)
            assert FAILS not in certificate.verdicts
            for side, (lhs, rhs) in each.items():
                compare(certificate, side, lhs, rhs, ROOM[name])


def compare(certificate: Certificate, side: str, lhs: list[Any], rhs: list[Any], room: float) -> None:
    """The slack is off by the tolerance at most, and the tolerance is small."""
    k = certificate.sides.index(side) if side else 0
    slacks, bars, shown = (np.atleast_2d(x)[k] for x in (certificate.slack, certificate.tolerance, certificate.lhs))
    rounded_up = 1e-14 if certificate.claim in ("r3", "r4") else 0.0  # the power 1/r
    for l, (x, y) in enumerate(zip(lhs, rhs, strict=True)):
        if certificate.verdicts[k * len(lhs) + l] is NOT_APPLICABLE:
            continue
        left = mpmath.log(x)
        true = mpmath.log(y) - left if mpmath.isfinite(y) else mpmath.inf
        size = float(1 + abs(left) + (abs(true) if mpmath.isfinite(true) else 0))
        assert true == slacks[l] or abs(slacks[l] - true) <= bars[l] + 1e-15 * abs(true) + rounded_up * size + 1e-40
        assert bars[l] <= room * size
        assert abs(shown[l] - left) <= room * size


# --- properties -------------------------------------------------------------------------------------------

LABELS = ["m1", "l2", "spectral-majorization", "t1", "r3", "r4", "r4+", "r5", "r6"]


@pytest.mark.slow
@pytest.mark.parametrize("label", LABELS)
def test_no_drawn_network_is_a_counterexample(label: str) -> None:
    found = CLAIMS[label].verify(examples=100, seed=7)
    counts = dict(found.counts)
    assert counts[FAILS] == 0
    assert counts[UNDECIDED] <= 10  # equations, and slacks of 1e-480
    assert counts[HOLDS] >= 60


@settings(max_examples=25)
@given(layer=layers(), G0=correlation_matrices(min_n=2, max_n=5), order=st.randoms(use_true_random=False))
def test_the_order_of_inputs_does_not_matter(layer: Layer, G0: np.ndarray, order: Any) -> None:
    at = list(range(len(G0)))
    order.shuffle(at)
    for claim in (*OVER_DEPTH, *SLOPED):
        one, other = claim(layer, G0, 4), claim(layer, G0[np.ix_(at, at)], 4)
        pairs = list(zip(one.verdicts, other.verdicts, strict=True))
        assert all(x is y for x, y in pairs if UNDECIDED not in (x, y))
        if claim is spectral_majorization:  # the k that is shown may be another
            continue
        slacks, bars = ([np.ravel(getattr(x, name)) for x in (one, other)] for name in ("slack", "tolerance"))
        both = np.isfinite(slacks[0]) & np.isfinite(slacks[1])
        # a bar counts what could reverse its own slack: the other way it may be as wide again
        assert np.all(np.abs(slacks[0][both] - slacks[1][both]) <= 2 * (bars[0] + bars[1])[both] + 1e-13)


@pytest.mark.parametrize("spec", ["tanh", "sin", "He(1, x) + He(3, x)"])
def test_the_signs_of_inputs_do_not_matter_to_odd_layers(spec: str) -> None:
    G0, signs = MATRICES["signed"], np.diag([1.0, -1.0, 1.0])
    for claim in (*OVER_DEPTH, *SLOPED):
        one, other = claim(Layer(spec), G0, 8), claim(Layer(spec), signs @ G0 @ signs, 8)
        assert one.verdicts == other.verdicts
        assert np.allclose(one.lhs, other.lhs, atol=1e-12)
        assert np.allclose(one.rhs, other.rhs, atol=1e-12)


@pytest.mark.parametrize("claim", [*OVER_DEPTH, *SLOPED])
def test_a_run_that_starts_at_layer_3_goes_on_as_the_first(claim: Callable[..., Certificate]) -> None:
    layer, G = Layer("gelu"), MATRICES["signed"]
    whole = np.atleast_2d(claim(layer, G, 8).lhs)
    for _ in range(3):
        G = layer(G)
    rest = claim(layer, G, 5)
    k = slice(0, None) if claim is not spectral_majorization else slice(2, None)
    if claim is not gap_sandwich:  # its lower side starts anew
        assert np.allclose(np.atleast_2d(rest.lhs)[k], whole[k, 3:], atol=1e-11)
    assert FAILS not in rest.verdicts


# --- edges ------------------------------------------------------------------------------------------------


def test_what_the_rate_does_not_apply_to() -> None:
    """r = 0; coincident inputs for psi; a singular G_0 for the gap."""
    singular = np.array([[1.0, 0.5, 0.5], [0.5, 1.0, -0.5], [0.5, -0.5, 1.0]])
    for claim in SLOPED:
        assert claim(Layer("abs"), MATRICES["signed"], 3).false_hypotheses == ("r > 0",)
        assert claim([Layer("relu"), Layer("He(2, x)")], MATRICES["signed"]).false_hypotheses == ("r > 0",)
    assert sharp_potential_contraction(Layer("relu"), np.ones((2, 2)), 3).false_hypotheses == ("max|G_ij| < 1",)
    assert sharp_potential_contraction(Layer("relu"), singular, 3).holds
    assert sharp_gap_decay(Layer("relu"), singular, 3).false_hypotheses == ("det G0 > 0",)
    lost = Layer("He(1, x)/1000000000000 + He(2, x)")
    assert sharp_potential_contraction(lost, MATRICES["pair"], 2).verdict in (HOLDS, NOT_APPLICABLE)


@pytest.mark.parametrize("claim", [*OVER_DEPTH, *SLOPED])
def test_one_input_and_orthogonal_inputs_hold(claim: Callable[..., Certificate]) -> None:
    for n in (1, 2, 3):
        for spec in ("relu", "identity", "tanh"):
            certificate = claim(Layer(spec), np.eye(n), 3)
            assert certificate.holds
            assert not np.isnan(np.asarray(certificate.slack)).any()


def test_the_threshold_is_the_first_layer_at_which_the_potential_is_small() -> None:
    layer, G0 = Layer("relu"), equicorrelation(4, 0.6)
    certificate = sharp_gap_decay(layer, G0, 30)
    with mpmath.workdps(30):
        r = MAPS["relu"][1]()
        at = [3 * mpmath.mpf("0.6") / mpmath.mpf("0.4") ** (1 / r) * r**l for l in range(31)]
    first = next(l for l, x in enumerate(at) if x <= 0.5)
    assert certificate.threshold_layer == first == 9
    assert certificate.verdicts[: first + 1] == (NOT_APPLICABLE,) * first + (HOLDS,)
    assert sharp_gap_decay(layer, G0, first - 1).threshold_layer is None


# --- forms that are false ---------------------------------------------------------------------------------


def verdict(lhs: Any, rhs: Any) -> Verdict:
    return certify("wrong", "", float(lhs), float(rhs), tolerance=1e-13).verdict


def test_the_lower_half_of_the_sandwich_needs_signs() -> None:
    """relu, n = 3, all -.4: the gap is .08678 at layer 1, Gamma_3(f(.4)) is .09880."""
    layer, G0 = Layer("relu"), equicorrelation(3, -0.4)
    lower, gap = isometry_gap(equicorrelation(3, float(layer.map(0.4)))), isometry_gap(layer(G0))
    assert [lower, gap] == pytest.approx([0.09880, 0.08678], abs=5e-6)
    assert verdict(lower, gap) is FAILS
    certificate = gap_sandwich(layer, G0, 3)
    assert certificate.verdicts[:4] == (NOT_APPLICABLE,) * 4
    assert certificate.verdicts[4:] == (HOLDS,) * 4


def test_eigenvalues_of_uncentred_layers_do_not_come_closer_to_1() -> None:
    """relu keeps a mean: orthogonal inputs become correlated, 1/pi with normalization="rms"."""
    layer, G0 = Layer("relu", normalization="rms"), np.eye(3)
    eigenvalues = np.linalg.eigvalsh(layer(G0))
    assert eigenvalues[2] - 1 == pytest.approx(2 / math.pi)
    assert verdict(isometry_gap(layer(G0)), isometry_gap(G0)) is FAILS
    assert verdict(1 - eigenvalues[0], 0.0) is FAILS
    assert verdict(eigenvalues[2] - 1, 0.0) is FAILS
    for claim in (monotone_isometry, spectral_majorization):
        assert claim(layer, G0, 1).verdict is NOT_APPLICABLE
        assert claim(Layer("relu"), G0, 1).holds


def test_the_smallest_eigenvalue_may_move_by_more_than_r() -> None:
    """1 - lambda_min(f(G)) >= r (1 - lambda_min(G)) is false: He_1 + 2 He_2, n = 3, all -.4."""
    layer, G0 = Layer("He(1, x) + 2*He(2, x)"), equicorrelation(3, -0.4)
    before, after = (float(1 - np.linalg.eigvalsh(G)[0]) for G in (G0, layer(G0)))
    assert [before, after] == pytest.approx([0.8, 0.048])
    assert verdict(layer.linearity * before, after) is FAILS
    assert smallest_eigenvalue_contraction(layer, G0, 1).holds


def test_the_gap_has_constants() -> None:
    """gap <= beta^-l, as printed without 4n/det G_0, and beta^-2l: relu, n = 5, all .9."""
    layer, G0 = Layer("relu"), equicorrelation(5, 0.9)
    gap, beta = isometry_gap(layer(G0)), layer.isometry_strength
    assert gap == pytest.approx(1.3163, abs=5e-5)
    assert verdict(gap, 1 / beta) is FAILS
    assert verdict(gap, beta**-2) is FAILS
    assert sharp_gap_decay(layer, G0, 1).holds
