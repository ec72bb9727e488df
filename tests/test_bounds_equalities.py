"""Claims over depth on networks of rational numbers: exact arithmetic says what both sides are, and where they are one.

Hermite polynomials have rational maps, so all entries of all layers are rational; eigenvalues and logarithms are those
of mpmath at 200 digits. Nothing here is computed as the library does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction as F
from functools import cached_property
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bounds import (
    Certificate,
    Verdict,
    gap_sandwich,
    monotone_isometry,
    potential_contraction,
    scalar_gap_decay,
    sharp_gap_decay,
    sharp_potential_contraction,
    smallest_eigenvalue_contraction,
    spectral_majorization,
)
from bounds._depth import start
from bounds._equalities import Equalities
from meanfield import Layer

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE

Rows: TypeAlias = list[list[F]]
Pair: TypeAlias = tuple[Any, Any]

# the weights w_1, w_2, ... of f; He(k, x) is normalised
WEIGHTS: dict[str, tuple[F, ...]] = {
    "He(1, x)": (F(1),),
    "He(2, x)": (F(0), F(1)),
    "He(3, x)": (F(0), F(0), F(1)),
    "He(1, x) + He(2, x)": (F(1, 2), F(1, 2)),
    "He(1, x) + 2*He(2, x)": (F(1, 5), F(4, 5)),
    "He(1, x) + He(3, x)": (F(1, 2), F(0), F(1, 2)),
    "He(2, x) + He(4, x)": (F(0), F(1, 2), F(0), F(1, 2)),
    "He(1, x) + 3*He(2, x) + He(4, x)": (F(1, 11), F(9, 11), F(0), F(1, 11)),
}
LAYERS = {spec: Layer(spec) for spec in WEIGHTS}
DIGITS, ZERO = 200, mpmath.mpf(10) ** -170


def real(x: F) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def applied(spec: str, x: Any) -> Any:
    """f of a rational or of a real number."""
    total = 0 * x
    for w in reversed(WEIGHTS[spec]):
        total = (total + (w if isinstance(x, F) else real(w))) * x
    return total


def determinant(rows: Rows) -> F:
    n, rows = len(rows), [list(row) for row in rows]
    whole = F(1)
    for k in range(n):
        at = next((i for i in range(k, n) if rows[i][k]), None)
        if at is None:
            return F(0)
        if at != k:
            rows[k], rows[at], whole = rows[at], rows[k], -whole
        whole *= rows[k][k]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return whole


def gap(eigenvalues: Sequence[Any]) -> Any:
    if min(eigenvalues) < ZERO:
        return mpmath.inf
    return -sum(mpmath.log(x) for x in eigenvalues) / len(eigenvalues)


def equal_gap(n: int, rho: Any) -> Any:
    """The gap of n inputs with all correlations rho."""
    return gap([1 - rho] * (n - 1) + [1 + (n - 1) * rho])


class Network:
    """All that claims over depth are about, from the definition; `l` runs over layers 0..depth."""

    def __init__(self, specs: Sequence[str], G: Rows) -> None:
        self.specs, self.n = specs, len(G)
        self.grams = [G]
        for spec in specs:
            last = self.grams[-1]
            self.grams.append(
                [[F(1) if i == j else applied(spec, x) for j, x in enumerate(r)] for i, r in enumerate(last)]
            )
        self.entries = [[rows[i][j] for i in range(self.n) for j in range(i)] for rows in self.grams]
        self.largest = [max(map(abs, each), default=F(0)) for each in self.entries]
        self.r = [WEIGHTS[spec][0] for spec in specs]

    @cached_property
    def spectra(self) -> list[list[Any]]:
        found = [
            mpmath.eigsy(mpmath.matrix([[real(x) for x in r] for r in rows]), eigvals_only=True) for rows in self.grams
        ]
        return [sorted(each) for each in found]

    @cached_property
    def gaps(self) -> list[Any]:
        dets = [determinant(rows) for rows in self.grams]
        return [-mpmath.log(real(d)) / self.n if d else mpmath.inf for d in dets]

    @cached_property
    def spreads(self) -> list[Any]:
        return [1 - each[0] if 1 - each[0] > ZERO else mpmath.mpf(0) for each in self.spectra]

    @cached_property
    def ratios(self) -> list[Any]:
        mapped = self.mapped(self.spreads[0])
        return [x / mapped[0] if mapped[0] else mpmath.mpf(1) for x in mapped]

    def mapped(self, x: Any) -> list[Any]:
        path = [x]
        for spec in self.specs:
            path.append(applied(spec, path[-1]))
        return path

    def rms(self, entries: Sequence[Any]) -> Any:
        return mpmath.sqrt(
            sum((x if isinstance(x, mpmath.mpf) else real(x)) ** 2 for x in entries) / max(len(entries), 1)
        )

    def product(self, factors: Sequence[F]) -> list[Any]:
        found = [mpmath.mpf(1)]
        for x in factors:
            found.append(found[-1] * real(x))
        return found

    def mixture(self, s: Any) -> Any:
        return gap([1 + s * (x - 1) for x in self.spectra[0]])

    def quadratic(self) -> list[F]:
        path = [self.largest[0]]
        for r in self.r:
            path.append(r * path[-1] + (1 - r) * path[-1] ** 2)
        return path


def odds(m: Any, power: Any = 1) -> Any:
    return real(m) / (1 - real(m)) ** power if m != 1 else mpmath.inf


def sides(net: Network) -> dict[Callable[..., Certificate], dict[str, list[Pair]]]:
    """Both sides, not yet as logarithms, of every side of every claim that applies, layer by layer."""
    n, gaps, spreads, ratios = net.n, net.gaps, net.spreads, net.ratios
    rms = [net.rms(x) for x in net.entries]
    moduli = [net.rms(x) for x in zip(*(net.mapped(abs(x)) for x in net.entries[0]), strict=True)] or [
        mpmath.mpf(0)
    ] * len(rms)
    largest, mixture = [real(x) for x in net.largest], [net.mixture(s) for s in ratios]
    paths = [list(map(real, net.quadratic())), list(map(real, net.mapped(net.largest[0])))]
    bounds = [[equal_gap(n, -t) if (n - 1) * t < 1 else mpmath.inf for t in path] for path in [*paths, moduli]]
    beta = net.product([2 - r for r in net.r])
    found = {
        monotone_isometry: {"gap": (gaps, [gaps[0], *gaps[:-1]]), "eigenvalue": (spreads, [spreads[0], *spreads[:-1]])},
        smallest_eigenvalue_contraction: {"": (spreads, net.mapped(spreads[0]))},
        spectral_majorization: {"gap": (gaps, mixture), "norm": (rms, [s * rms[0] for s in ratios])},
        gap_sandwich: {"lower": ([equal_gap(n, t) for t in net.mapped(rms[0])], gaps), "upper": (gaps, mixture)},
        scalar_gap_decay: {
            "correlation, r": (largest, paths[0]),
            "correlation, map": (largest, paths[1]),
            "gap, r": (gaps, bounds[0]),
            "gap, map": (gaps, bounds[1]),
            "gap, entrywise": (gaps, bounds[2]),
        },
        potential_contraction: {"": ([odds(m) for m in net.largest], [odds(net.largest[0]) / b for b in beta])},
    }
    if all(net.r):
        R, p = net.product(net.r), 1 / real(min(net.r))
        psi = [odds(m, p) for m in net.largest]
        found[sharp_potential_contraction] = {"": (psi, [psi[0] * x for x in R])}
        if gaps[0] != mpmath.inf:
            det, c = real(determinant(net.grams[0])), mpmath.mpf(n - 1) / 2
            by_mu = spreads[0] / (1 - spreads[0]) ** p
            found[sharp_gap_decay] = {
                "potential": (gaps, [(n - 1) * (psi[0] * x) ** 2 for x in R]),
                "eigenvalue": (gaps, [c * (by_mu * x) ** 2 for x in R]),
                "determinant": (gaps, [c * (mpmath.e / det) ** (2 * p) * x**2 for x in R]),
            }
    return {claim: {k: list(zip(*v, strict=True)) for k, v in each.items()} for claim, each in found.items()}


def entry(draw: st.DrawFn, kind: str, m: F, i: int, j: int, n: int) -> F:
    if kind == "blocks":
        return m if 2 * i // n == 2 * j // n else F(0)
    if kind == "coincident":
        return F(1) if (i, j) == (1, 0) else m
    if kind == "zero-one":
        return F(draw(st.sampled_from([0, 0, 1])))
    if kind == "partly":
        return m if draw(st.booleans()) else F(draw(st.sampled_from([0, 1, -1])), 8)
    return m if kind == "equal" else F(draw(st.integers(-3, 3)), 8)


@st.composite
def matrices(draw: st.DrawFn) -> Rows:
    """Eighths: equal correlations, blocks, coincident inputs, zeros and ones, or any; up to the signs of inputs."""
    n = draw(st.sampled_from([3, 2, 4, 3, 1, 5]))
    m = F(draw(st.sampled_from([4, -2, 2, -1, 6, 1, -4, 8, -3])), 8)
    kind = draw(st.sampled_from(["equal", "blocks", "equal", "coincident", "zero-one", "partly", "any"]))
    G = [[F(i == j) for j in range(n)] for i in range(n)]
    for i in range(n):
        for j in range(i):
            G[i][j] = G[j][i] = entry(draw, kind, m, i, j, n)
    assume(np.linalg.eigvalsh(floats(G))[0] > -1e-12)  # eighths are that far from singular, or singular
    signs = draw(st.sampled_from([[1] * n, draw(st.lists(st.sampled_from([1, -1]), min_size=n, max_size=n))]))
    return [[signs[i] * signs[j] * x for j, x in enumerate(row)] for i, row in enumerate(G)]


specs = st.lists(st.sampled_from(list(WEIGHTS)), min_size=1, max_size=3)


def floats(G: Rows) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in G])


def log(x: Any) -> Any:
    return -mpmath.inf if x < ZERO else mpmath.log(x)


def compare(certificate: Certificate, side: str, pairs: list[Pair], room: float = 1e-30) -> None:
    """No verdict is wrong, and every slack is off by its tolerance at most, but for the digits of a float64."""
    k = certificate.sides.index(side) if side else 0
    slack, bar = (np.atleast_2d(x)[k] for x in (certificate.slack, certificate.tolerance))
    verdicts = certificate.verdicts[k * len(slack) : (k + 1) * len(slack)]
    for l, (lhs, rhs) in enumerate(pairs):
        if verdicts[l] is NOT_APPLICABLE:
            continue
        assert verdicts[l] is not FAILS
        true = mpmath.mpf(0) if lhs == rhs else log(rhs) - log(lhs)
        if not mpmath.isfinite(true):
            assert bar[l] == np.inf or slack[l] > 2 or np.isinf(slack[l])
            continue
        assert abs(slack[l] - true) <= bar[l] + 2e-15 * abs(true) + room


@pytest.mark.parametrize("exact", [False, True])
@settings(max_examples=60)
@given(specs=specs, G=matrices())
def test_every_side_is_that_of_exact_arithmetic(exact: bool, specs: list[str], G: Rows) -> None:
    layers = [LAYERS[spec] for spec in specs]
    with mpmath.workdps(DIGITS):
        for claim, each in sides(Network(specs, G)).items():
            certificate = claim(layers, G if exact else floats(G), exact=exact)
            if any(not h.holds and not h.side for h in certificate.hypotheses):
                assert certificate.verdict is NOT_APPLICABLE
                continue
            for side, pairs in each.items():
                rounded_up = claim in (sharp_potential_contraction, sharp_gap_decay)  # the power 1/r
                compare(certificate, side, pairs, 1e-14 if rounded_up else 1e-30)


# --- where both sides are one number ----------------------------------------------------------------------


def promised(mask: str, net: Network, l: int) -> bool:
    """What a mask of `Equalities` promises of layer l."""
    m, mapped, largest = net.largest[0], net.mapped(net.largest[0]), net.largest
    alike = all(x == y for x, y in zip(map(abs, net.entries[l]), moduli(net, l), strict=True))
    mu = net.mapped(net.spreads[0])
    promises: dict[str, Callable[[], bool]] = {
        "kept": lambda: net.grams[l] == net.grams[max(l - 1, 0)],
        "untouched": lambda: net.grams[l] == net.grams[0],
        "unmixed": lambda: alike,
        "mapped": lambda: largest[l] == mapped[l],
        "quadratic": lambda: largest[l] == net.quadratic()[l],
        "pure": lambda: net.mapped(F(1, 2))[l] == F(1, 2) ** order(net, l),
        "equicorrelated": lambda: near(net.gaps[l], equal_gap(net.n, real(mapped[l]))) and alike,
        "opposed": lambda: near(net.gaps[l], equal_gap(net.n, -real(mapped[l]))),
        "parallel": lambda: largest[l] == 1 == m,
        "blocks": lambda: all(
            near(x - 1, net.ratios[l] * (y - 1)) for x, y in zip(net.spectra[l], net.spectra[0], strict=True)
        ),
        "exchangeable": lambda: all(near(x, 1 - mu[l]) for x in net.spectra[l][: equalities(net).exchangeable]),
        "distinct": lambda: sum(x > ZERO for x in net.spectra[l]) <= equalities(net).distinct,
    }
    return promises[mask]()


def moduli(net: Network, l: int) -> list[F]:
    return [net.mapped(abs(x))[l] for x in net.entries[0]]


def order(net: Network, l: int) -> int:
    return int(np.prod([len(WEIGHTS[spec]) for spec in net.specs[:l]]))


def near(x: Any, y: Any) -> bool:
    return bool(x == y or abs(x - y) < mpmath.mpf(10) ** -100)


def equalities(net: Network) -> Equalities:
    return start([LAYERS[spec] for spec in net.specs], floats(net.grams[0]), None).equal


MASKS = [
    "kept",
    "untouched",
    "unmixed",
    "mapped",
    "quadratic",
    "pure",
    "equicorrelated",
    "opposed",
    "parallel",
    "blocks",
]


@settings(max_examples=150)
@given(specs=specs, G=matrices())
@example(specs=["He(2, x)"], G=[[F(i == j) or F(-1, 4) for j in range(3)] for i in range(3)])
@example(specs=["He(2, x)"], G=[[F(1), F(-1)], [F(-1), F(1)]])
@example(specs=["He(1, x) + He(2, x)"], G=[[F(1), F(-1)], [F(-1), F(1)]])
def test_every_mask_keeps_its_promise(specs: list[str], G: Rows) -> None:
    with mpmath.workdps(DIGITS):
        net = Network(specs, G)
        equal = equalities(net)
        for l in range(len(specs) + 1):
            for mask in MASKS:
                assert not getattr(equal, mask)[l] or promised(mask, net, l), mask
            assert promised("exchangeable", net, l)
            assert promised("distinct", net, l)


def rows(n: int, entry: Callable[[int, int], F | int]) -> Rows:
    return [[F(1) if i == j else F(entry(max(i, j), min(i, j))) for j in range(n)] for i in range(n)]


ODD, EVEN, MIXED = (
    ["He(3, x)", "He(1, x) + He(3, x)"],
    ["He(2, x)", "He(2, x) + He(4, x)"],
    ["He(1, x) + 2*He(2, x)"] * 2,
)
POSITIVE, NEGATIVE = rows(3, lambda i, j: F(1, 2)), rows(3, lambda i, j: F(-1, 4))
SWITCHED = rows(3, lambda i, j: F(1, 2) if (i, j) == (1, 0) else F(-1, 2))
BLOCKS = rows(4, lambda i, j: F(1, 2) if i // 2 == j // 2 else 0)
TWINS = rows(3, lambda i, j: F(1, 2) if (i, j) == (1, 0) else F(1, 4))
SAME = rows(3, lambda i, j: 1 if (i, j) == (1, 0) else F(1, 4))
RECOGNISED = {
    "l2": (
        smallest_eigenvalue_contraction,
        "",
        [(POSITIVE, MIXED), (SWITCHED, ODD), (BLOCKS, MIXED), (TWINS, MIXED), (SAME, ODD)],
    ),
    "majorization, sums": (spectral_majorization, "sums", [(POSITIVE, MIXED), (SWITCHED, EVEN), (BLOCKS, ODD)]),
    "majorization, gap": (spectral_majorization, "gap", [(POSITIVE, MIXED), (SWITCHED, EVEN), (BLOCKS, ODD)]),
    "majorization, norm": (spectral_majorization, "norm", [(POSITIVE, MIXED), (SWITCHED, EVEN), (BLOCKS, ODD)]),
    "t1 lower": (gap_sandwich, "lower", [(POSITIVE, MIXED), (SWITCHED, ODD), (SWITCHED, EVEN)]),
    "t1 upper": (gap_sandwich, "upper", [(POSITIVE, MIXED), (SWITCHED, ODD), (BLOCKS, EVEN)]),
    "r5, r": (scalar_gap_decay, "correlation, r", [(POSITIVE, MIXED), (TWINS, MIXED), (SAME, ODD)]),
    "r5, map": (scalar_gap_decay, "correlation, map", [(POSITIVE, MIXED), (NEGATIVE, ODD), (NEGATIVE, EVEN)]),
    "r5, gap": (scalar_gap_decay, "gap, map", [(NEGATIVE, ODD)]),
    "r5, entrywise": (scalar_gap_decay, "gap, entrywise", [(NEGATIVE, ODD)]),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", RECOGNISED)
def test_equations_are_recognised(name: str, exact: bool) -> None:
    claim, side, inputs = RECOGNISED[name]
    for G, network in inputs:
        certificate = claim([LAYERS[spec] for spec in network], G if exact else floats(G), exact=exact)
        k = certificate.sides.index(side) if side else 0
        assert np.atleast_2d(certificate.slack)[k].tolist() == [0.0] * (len(network) + 1)
        assert np.atleast_2d(certificate.tolerance)[k].tolist() == [0.0] * (len(network) + 1)


@pytest.mark.parametrize(
    "claim", [monotone_isometry, smallest_eigenvalue_contraction, spectral_majorization, gap_sandwich]
)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_identities_and_linear_layers_are_equations(claim: Callable[..., Certificate], n: int) -> None:
    linear = [LAYERS["He(1, x)"], Layer("identity")]
    for G, network in ((np.eye(n), [LAYERS[MIXED[0]]] * 2), (floats(rows(n, lambda i, j: F(1, 3 + i))), linear)):
        certificate = claim(network, G)
        assert certificate.holds or claim is gap_sandwich
        k = -1 if claim is gap_sandwich else slice(None)  # the lower side is Jensen's: an equation for equal entries
        assert np.all(np.asarray(certificate.slack)[k] == 0.0)
        assert np.all(np.asarray(certificate.tolerance)[k] == 0.0)
