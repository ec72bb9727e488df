"""Eigenvalues over depth: exact values, proofs in balls, equations, and the variants that are false."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from bounds import (
    Certificate,
    Verdict,
    certify,
    gap_sandwich,
    monotone_isometry,
    scalar_gap_decay,
    sharp_gap_decay,
    sharp_potential_contraction,
    smallest_eigenvalue_contraction,
    spectral_gap_decay,
    spectral_majorization,
)
from meanfield import Layer, isometry_gap

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

G4 = np.array([[1.0, 0.3, -0.2, 0.1], [0.3, 1.0, 0.1, 0.25], [-0.2, 0.1, 1.0, 0.5], [0.1, 0.25, 0.5, 1.0]])
NEAR = np.array([[1.0, 1 - 1e-9, 0.5], [1 - 1e-9, 1.0, 0.5], [0.5, 0.5, 1.0]])
CLAIMS: list[Callable[..., Certificate]] = [
    monotone_isometry,
    smallest_eigenvalue_contraction,
    spectral_majorization,
    gap_sandwich,
    sharp_potential_contraction,
    sharp_gap_decay,
    scalar_gap_decay,
]
MAPS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: (mpmath.sqrt(1 - x * x) + (mpmath.pi - mpmath.acos(x)) * x - 1) / (mpmath.pi - 1),
    "exp": lambda x: mpmath.expm1(x) / mpmath.expm1(1),
    "sin": lambda x: mpmath.sinh(x) / mpmath.sinh(1),
    "He(1, x) + 2*He(2, x)": lambda x: (x + 4 * x * x) / 5,
}
R = {
    "relu": lambda: 2 - (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2),
    "exp": lambda: 1 / mpmath.expm1(1),
    "sin": lambda: 1 / mpmath.sinh(1),
    "He(1, x) + 2*He(2, x)": lambda: mpmath.mpf(1) / 5,
}


def equicorrelation(n: int, rho: float) -> np.ndarray:
    G = np.full((n, n), rho)
    np.fill_diagonal(G, 1.0)
    return G


def path(spec: str, G0: np.ndarray, depth: int) -> list[Any]:
    f, n = MAPS[spec], len(G0)
    grams = [mpmath.matrix(G0.tolist())]
    for _ in range(depth):
        last = grams[-1]
        grams.append(mpmath.matrix(n, n))
        for i in range(n):
            for j in range(n):
                grams[-1][i, j] = mpmath.mpf(1) if i == j else f(last[i, j])
    return grams


def mp_gap(G: Any) -> Any:
    return -mpmath.log(mpmath.det(G)) / G.rows


def mp_gamma(n: int, mu: Any) -> Any:
    return -((n - 1) * mpmath.log(1 - mu) + mpmath.log(1 + (n - 1) * mu)) / n


def eigenvalues(G: Any) -> list[Any]:
    return sorted(mpmath.eigsy(G, eigvals_only=True))


def close(certificate: Certificate, side: int | None, l: int, lhs: Any, rhs: Any) -> None:
    """Both sides are those of 40 digits, and the tolerance covers the error of the slack."""
    at = (l,) if side is None else (side, l)
    slack = mpmath.log(rhs) - mpmath.log(lhs)
    assert certificate.lhs[at] == pytest.approx(float(mpmath.log(lhs)), abs=1e-12, rel=1e-12)  # type: ignore[index]
    assert certificate.rhs[at] == pytest.approx(float(mpmath.log(rhs)), abs=1e-12, rel=1e-12)  # type: ignore[index]
    bar = certificate.tolerance[at]  # type: ignore[index]
    assert abs(certificate.slack[at] - float(slack)) <= bar + 1e-15 * abs(float(slack)) + 1e-30  # type: ignore[index]
    assert bar < 1e-11


@pytest.mark.parametrize("spec", list(MAPS))
def test_both_sides_are_those_of_40_digits(spec: str) -> None:
    depth, n, layer = 6, 4, Layer(spec)
    with mpmath.workdps(40):
        grams, f, r = path(spec, G4, depth), MAPS[spec], R[spec]()
        spectra = [eigenvalues(G) for G in grams]
        gaps = [mp_gap(G) for G in grams]
        monotone, smallest = monotone_isometry(layer, G4, depth), smallest_eigenvalue_contraction(layer, G4, depth)
        majorized, sandwich = spectral_majorization(layer, G4, depth), gap_sandwich(layer, G4, depth)
        psi, gap_bounds = sharp_potential_contraction(layer, G4, depth), sharp_gap_decay(layer, G4, depth)
        scalar = scalar_gap_decay(layer, G4, depth)
        mu = start = 1 - spectra[0][0]
        m, quadratic, p = mpmath.mpf(0.5), mpmath.mpf(0.5), mpmath.mpf(1) / r
        psi0 = m / (1 - m) ** p
        norm0 = mpmath.sqrt(sum((x - 1) ** 2 for x in spectra[0]))
        for l in range(1, depth + 1):
            mu, m, quadratic = f(mu), f(m), r * quadratic + (1 - r) * quadratic**2
            s = mu / start
            close(monotone, 0, l, gaps[l], gaps[l - 1])
            close(monotone, 1, l, 1 - spectra[l][0], 1 - spectra[l - 1][0])
            close(smallest, None, l, 1 - spectra[l][0], mu)
            mixture = -sum(mpmath.log(1 + s * (x - 1)) for x in spectra[0]) / n
            close(majorized, 2, l, gaps[l], mixture)
            norm = mpmath.sqrt(sum((x - 1) ** 2 for x in spectra[l])) / mpmath.sqrt(12)
            close(majorized, 3, l, norm, s * norm0 / mpmath.sqrt(12))
            close(sandwich, 1, l, gaps[l], mixture)
            close(psi, None, l, m / (1 - m) ** p, r**l * psi0)
            close(gap_bounds, 1, l, gaps[l], mpmath.mpf(3) / 2 * ((start / (1 - start) ** p) * r**l) ** 2)
            close(scalar, 0, l, m, quadratic)
            t = mpmath.sqrt(sum(f_l(f, abs(mpmath.mpf(x)), l) ** 2 for x in G4[np.tril_indices(4, -1)].tolist()) / 6)
            if 3 * t < 0.95:
                close(scalar, 4, l, gaps[l], -(3 * mpmath.log(1 + t) + mpmath.log(1 - 3 * t)) / 4)
        for l in range(depth + 1):
            sums = [sum(x - 1 for x in spectra[l][k:]) for k in range(1, n)]
            assert any(majorized.lhs[1, l] == pytest.approx(float(mpmath.log(x)), abs=1e-10) for x in sums)


def f_l(f: Callable[[Any], Any], x: Any, l: int) -> Any:
    for _ in range(l):
        x = f(x)
    return x


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("spec", ["relu", "tanh", "exp", "He(1, x) + He(2, x)", "He(3, x)"])
def test_proofs_in_balls_agree_with_float64(claim: Callable[..., Certificate], spec: str) -> None:
    plain, proven = claim(Layer(spec), G4, 5), claim(Layer(spec), G4, 5, exact=True)
    assert proven.exact
    assert FAILS not in {*plain.verdicts, *proven.verdicts}
    assert proven.verdict is plain.verdict or plain.verdict is UNDECIDED
    if claim is not spectral_majorization:  # there the k that comes closest may differ
        assert np.allclose(plain.lhs, proven.lhs, rtol=1e-10, atol=1e-10)
        assert np.allclose(plain.rhs, proven.rhs, rtol=1e-10, atol=1e-10)


def test_balls_decide_what_float64_leaves_open() -> None:
    """Three inputs, two of them at distance 1e-9 and skew to the third: lambda_min is lost in rounding."""
    G0 = np.array([[1.0, 1 - 2.0**-52, 0.5], [1 - 2.0**-52, 1.0, 0.5 + 2.0**-50], [0.5, 0.5 + 2.0**-50, 1.0]])
    layer = Layer("He(1, x) + He(3, x)")
    plain, proven = gap_sandwich(layer, G0, 3), gap_sandwich(layer, G0, 3, exact=True)
    assert plain.verdict in (UNDECIDED, HOLDS)
    assert proven.holds or proven.false_hypotheses


def test_exact_entries_stay_exact() -> None:
    from fractions import Fraction as F

    G0 = [[F(1), F(1, 3), F(1, 5)], [F(1, 3), F(1), F(1, 7)], [F(1, 5), F(1, 7), F(1)]]
    for claim in CLAIMS:
        assert claim(Layer("He(1, x) + He(2, x)"), G0, 4, exact=True).verdict in (HOLDS, UNDECIDED)
    with pytest.raises(ValueError, match="G0 must be symmetric with diagonal 1"):
        monotone_isometry(Layer("relu"), [[F(1), F(1, 3)], [F(1, 3) + F(1, 10**30), F(1)]], 2, exact=True)


EQUAL = [
    equicorrelation(4, 0.5),
    equicorrelation(2, -0.75),
    np.eye(3),
    np.eye(1),
    np.outer([1.0, -1.0, 1.0], [1.0, -1.0, 1.0]),
    np.kron(np.eye(2), equicorrelation(2, 0.5)),
]


@pytest.mark.parametrize("G0", EQUAL, ids=["equal", "pair", "identity", "one", "coincident", "blocks"])
@pytest.mark.parametrize("spec", ["tanh", "identity", "He(2, x)", "abs"])
@pytest.mark.parametrize("exact", [False, True])
def test_equations_hold(G0: np.ndarray, spec: str, exact: bool) -> None:
    """Odd and even maps: whatever is an equation in exact arithmetic is no matter of rounding."""
    for claim in (monotone_isometry, smallest_eigenvalue_contraction, spectral_majorization, gap_sandwich):
        certificate = claim(Layer(spec), G0, 4, exact=exact)
        assert FAILS not in certificate.verdicts
        assert certificate.verdict is HOLDS or claim is gap_sandwich


def test_linear_layers_between_others_keep_everything() -> None:
    layers = [Layer("relu"), Layer("3*x + 1"), Layer("tanh")]
    certificate = monotone_isometry(layers, G4)
    assert certificate.holds
    assert certificate.slack[:, 2].tolist() == [0.0, 0.0]
    assert certificate.tolerance[:, 2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("claim", CLAIMS)
def test_layers_that_keep_a_mean_are_not_claimed(claim: Callable[..., Certificate]) -> None:
    moving = Layer("relu", normalization="none", gain=2)
    for layer in (Layer("relu", normalization="rms"), Layer("relu", bias_variance=1), moving):
        assert claim(layer, G4, 3).verdict is NOT_APPLICABLE


def test_the_largest_entry_cannot_replace_the_smallest_eigenvalue() -> None:
    """He_2, n = 3, all -.4: lambda_max - 1 is .32 at layer 1, and (f(m)/m) .4 = .16."""
    G0, layer = equicorrelation(3, -0.4), Layer("He(2, x)")
    top = float(np.linalg.eigvalsh(layer(G0))[-1]) - 1
    assert top == pytest.approx(0.32)
    assert certify("wrong", "", top, 0.4 * 0.4, tolerance=1e-12).verdict is FAILS
    # s (lambda_max(G_0) - 1) = .8 * .4 is .32 as well: an equation that rounding leaves open
    certificate = spectral_majorization(layer, G0, 1)
    assert FAILS not in certificate.verdicts
    assert certificate.slack[1, 1] == pytest.approx(0.0, abs=1e-13)


def test_a_power_below_1_over_r_is_too_small() -> None:
    """f = r rho + (1 - r) rho^2 with small r: psi with half the power grows."""
    layer, m = Layer("He(1, x) + 2*He(2, x)"), 0.3
    r, value = layer.linearity, float(layer.map(m))
    half = [x / (1 - x) ** (0.5 / r) for x in (m, value)]
    assert certify("wrong", "", half[1], r * half[0], tolerance=1e-12).verdict is FAILS
    assert sharp_potential_contraction(layer, [[1.0, m], [m, 1.0]], 1).holds


@pytest.mark.parametrize("spec", ["relu", "tanh", "He(1, x) + He(2, x)"])
def test_bounds_come_in_their_order(spec: str) -> None:
    """actual <= majorization <= Gamma_n(f(1 - lambda_0)) <= log1p form; entrywise <= map <= r."""
    layer = Layer(spec)
    mixture = gap_sandwich(layer, G4, 20).rhs[1]
    by_map = spectral_gap_decay(layer, G4, 20, form="map").rhs
    by_eigenvalue = spectral_gap_decay(layer, G4, 20).rhs
    scalar = scalar_gap_decay(layer, G4, 20)
    assert np.all(scalar.lhs[2] <= mixture + 1e-12)
    assert np.all(mixture <= by_map + 1e-12)
    assert np.all(by_map <= by_eigenvalue + 1e-12)
    assert np.all(scalar.rhs[4] <= scalar.rhs[3] + 1e-12)
    assert np.all(scalar.rhs[3] <= scalar.rhs[2] + 1e-12)


def test_the_map_falls_below_float64_and_the_claims_go_on() -> None:
    for claim in CLAIMS:
        certificate = claim(Layer("relu"), G4, 1500)
        assert certificate.holds or certificate.verdict is UNDECIDED
        assert FAILS not in certificate.verdicts
    deep = sharp_gap_decay(Layer("relu"), G4, 1500)
    assert deep.lhs[0, 1500] < -900
    assert deep.holds


def test_the_gap_of_the_first_layer_is_that_of_meanfield() -> None:
    certificate = gap_sandwich(Layer("exp"), G4, 2)
    assert certificate.rhs[0, 0] == pytest.approx(math.log(isometry_gap(G4)), rel=1e-13)


@pytest.mark.parametrize("exact", [False, True])
def test_an_even_layer_makes_no_equation_of_negative_correlations(exact: bool) -> None:
    """abs, n = 3, all -.45: mu_0 = .9, and after one layer mu = f(.45) < f(.9)."""
    layer, G0 = Layer("abs"), equicorrelation(3, -0.45)
    low, high = (float(layer.map(x)) for x in (0.45, 0.9))
    certificate = smallest_eigenvalue_contraction(layer, G0, 1, exact=exact)
    assert certificate.holds
    assert certificate.slack[1] == pytest.approx(math.log(high / low), rel=1e-9)
    assert certificate.slack[1] == pytest.approx(1.4597, abs=5e-5)
    assert gap_sandwich(layer, G0, 1, exact=exact).slack[1, 1] == pytest.approx(2.2401, abs=5e-5)
    assert np.all(spectral_majorization(layer, G0, 1, exact=exact).slack[1:, 1] > 0.05)
