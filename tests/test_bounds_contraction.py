"""Claims over depth: exact values, mpmath at 60 digits, properties on drawn networks, false bounds that are caught."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from bounds import Certificate, Verdict, certify, gap_decay, potential_contraction, spectral_gap_decay
from bounds._bracket import Bracket, settle
from bounds._depth import start
from bounds._gamma import LOG_LOG1P_EXP
from bounds.strategies import correlation_matrices, layers
from meanfield import Layer, correlation, input_gram, isometry_gap, rms_correlation, trajectory

REFERENCE = json.loads((Path(__file__).parent / "reference" / "bounds.json").read_text(encoding="utf-8"))
TRAJECTORIES = [pytest.param(t, id=f"{t['activation']}-{t['start']}") for t in REFERENCE["trajectories"]]

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict.HOLDS, Verdict.FAILS, Verdict.UNDECIDED, Verdict.NOT_APPLICABLE
CLAIMS: list[Callable[..., Certificate]] = [potential_contraction, gap_decay, spectral_gap_decay]
FORMS = ["map", "eigenvalue", "determinant"]
PAIR = [[1.0, 0.5], [0.5, 1.0]]
NEAR = np.array([[1.0, 1 - 1e-6, 0.2], [1 - 1e-6, 1.0, 0.2], [0.2, 0.2, 1.0]])


def equicorrelation(n: int, rho: float) -> np.ndarray:
    return np.eye(n) + rho * (np.ones((n, n)) - np.eye(n))


def autoregressive(n: int, rho: float) -> np.ndarray:
    """G_ij = rho^|i-j|: det G = (1 - rho^2)^(n-1)."""
    return rho ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))


def names(certificate: Certificate) -> list[str]:
    return [verdict.name for verdict in certificate.verdicts]


# --- exact values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", TRAJECTORIES)
def test_both_sides_are_those_of_the_reference(case: dict[str, Any]) -> None:
    G0 = np.array([[eval_fraction(x) for x in row] for row in case["G0"]])
    layer = Layer(case["activation"])
    potentials, gaps = potential_contraction(layer, G0, 30), gap_decay(layer, G0, 30)
    assert potentials.holds
    assert gaps.holds
    for at, gamma, gamma_bound, gap, gap_bound in case["rows"]:
        pairs = [(potentials.lhs, gamma), (potentials.rhs, gamma_bound), (gaps.lhs, gap), (gaps.rhs, gap_bound)]
        for side, value in pairs:
            # beta to 1e-15 and entries to 1e-15, through 30 layers
            assert np.asarray(side)[at] == pytest.approx(float(mpmath.log(mpmath.mpf(value))), abs=2e-13)


def eval_fraction(text: str) -> float:
    over, _, under = text.partition("/")
    return int(over) / int(under or 1)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data, data.target


@pytest.mark.parametrize(
    ("name", "threshold", "informative"),
    [("relu", 46, 48), ("tanh", 162, 167), ("gelu", 45, 46), ("exp", 32, 32), ("sin", 78, 81)],
)
def test_ten_digits(digits: tuple[np.ndarray, np.ndarray], name: str, threshold: int, informative: int) -> None:
    pixels, classes = digits
    G0 = input_gram(pixels[[int(np.flatnonzero(classes == c)[0]) for c in range(10)]])
    assert 10 * isometry_gap(G0) == pytest.approx(7.14, abs=5e-3)
    certificate = gap_decay(Layer(name), G0, 200)
    assert names(certificate) == ["HOLDS"] * 201
    assert certificate.threshold_layer == threshold
    assert certificate.first_informative_layer == informative
    sharper = spectral_gap_decay(Layer(name), G0, 200)
    assert names(sharper) == ["HOLDS"] * 201
    assert sharper.threshold_layer == 0
    assert sharper.first_informative_layer is not None
    assert sharper.first_informative_layer < informative
    assert potential_contraction(Layer(name), G0, 200).holds


def test_64_digits_are_singular_until_the_first_layer(digits: tuple[np.ndarray, np.ndarray]) -> None:
    G0, layer = input_gram(digits[0][:64]), Layer("relu")
    for claim in (gap_decay, spectral_gap_decay):
        certificate = claim(layer, G0, 5)
        assert names(certificate) == ["NOT_APPLICABLE"] * 6
        assert certificate.false_hypotheses == ("det G0 > 0",)
    G1 = layer(G0)
    again = gap_decay(layer, G1, 400)
    assert "log det G0 = -118.0" in str(again)
    assert names(again) == ["HOLDS"] * 401
    assert again.threshold_layer == 523  # (log 256 + 118.03)/log beta: beyond the depth, and still said
    sharper = spectral_gap_decay(layer, G1, 60)
    assert sharper.holds
    assert sharper.first_informative_layer == 12


def test_threshold_is_the_printed_one() -> None:
    # n = 2, rho = 1/2, relu: (log 8 - log(3/4)) / log((3 pi - 4)/(2 pi - 2)) = 10.02
    with mpmath.workdps(30):
        beta = (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2)
        expected = int(mpmath.ceil((mpmath.log(8) - mpmath.log(mpmath.mpf(3) / 4)) / mpmath.log(beta)))
    certificate = gap_decay(Layer("relu"), PAIR, 30)
    assert certificate.threshold_layer == expected == 11
    assert certificate.rhs[10] > 0 >= certificate.rhs[11]
    # the bound falls below the gap at layer 0, -log(3/4)/2
    first = certificate.first_informative_layer
    assert first == 19
    assert certificate.rhs[first] < math.log(-math.log(0.75) / 2) <= certificate.rhs[first - 1]
    assert "claimed from layer 11" in str(certificate)
    assert "informative from layer 19" in str(certificate)


def test_informative_layers_beyond_the_depth_are_not_known() -> None:
    assert gap_decay(Layer("relu"), PAIR, 5).first_informative_layer is None
    assert gap_decay(Layer("relu"), PAIR, 5).threshold_layer == 11


def test_logarithms_do_not_overflow() -> None:
    G0 = autoregressive(120, 0.999)  # log det = 119 log(1 - rho^2) = -740: e^740 is no float64
    certificate = gap_decay(Layer("relu"), G0, 3)
    assert certificate.rhs[0] == pytest.approx(math.log(480) - 119 * math.log(1 - 0.999**2), rel=1e-12)
    for claim in (gap_decay, lambda *a: spectral_gap_decay(*a, form="determinant"), spectral_gap_decay):
        assert claim(Layer("relu"), G0, 3).holds


def test_forms_of_the_spectral_bound_by_hand() -> None:
    # n = 2, rho = 1/2: lambda_0 = 1/2, det = 3/4; exp maps rho to (e^rho - 1)/(e - 1), beta = 2 - 1/(e - 1)
    beta, mapped = 2 - 1 / math.expm1(1), math.expm1(0.5) / math.expm1(1)
    sides = {form: spectral_gap_decay(Layer("exp"), PAIR, 1, form=form).rhs for form in FORMS}
    assert sides["eigenvalue"] == pytest.approx([math.log(math.log(2)), math.log(math.log1p(1 / beta))], abs=1e-14)
    constant = math.log(math.e / 0.75 - 1)
    assert sides["determinant"] == pytest.approx([constant, constant - math.log(beta)], abs=1e-14)
    gammas = [-0.5 * math.log(1 - rho * rho) for rho in (0.5, mapped)]
    assert sides["map"] == pytest.approx([math.log(gamma) for gamma in gammas], abs=1e-14)


@pytest.mark.parametrize("rho", [1e-14, 1e-16, 1e-17, 1e-90, 1e-110, 1e-200, 1e-300])
def test_forms_of_the_spectral_bound_for_tiny_correlations(rho: float) -> None:
    G0 = equicorrelation(3, rho)
    sides = {form: spectral_gap_decay(Layer("relu"), G0, 0, form=form) for form in FORMS}  # type: ignore[arg-type]
    assert sides["eigenvalue"].rhs[0] == pytest.approx(math.log(rho), abs=1e-14 * abs(math.log(rho)))
    assert sides["map"].rhs[0] == pytest.approx(2 * math.log(rho), abs=1e-14 * abs(math.log(rho)))  # (n-1)/2 rho^2
    assert sides["determinant"].rhs[0] == pytest.approx(math.log(math.e - 1), abs=1e-13)
    assert sides["eigenvalue"].holds
    assert sides["map"].lhs[0] == pytest.approx(sides["map"].rhs[0], abs=1e-14 * abs(math.log(rho)))


def test_forms_are_ordered_and_sharper_than_the_printed_theorem() -> None:
    layer = Layer("tanh")
    weaker = np.asarray(gap_decay(layer, NEAR, 20).rhs)
    for form in reversed(FORMS):
        rhs = np.asarray(spectral_gap_decay(layer, NEAR, 20, form=form).rhs)  # type: ignore[arg-type]
        assert np.all(rhs < weaker)
        weaker = rhs


# --- several layers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_repeated_layer_is_a_sequence(claim: Callable[..., Certificate]) -> None:
    once, listed = claim(Layer("gelu"), NEAR, 4), claim([Layer("gelu")] * 4, NEAR)
    assert np.array_equal(once.lhs, listed.lhs)
    assert np.array_equal(once.rhs, listed.rhs)
    assert once.verdicts == listed.verdicts
    assert listed == claim((Layer("gelu") for _ in range(4)), NEAR, 4)


def test_mixed_layers_multiply_their_strengths() -> None:
    network = [Layer("relu"), Layer("identity"), Layer("abs"), Layer("exp", gain=2)]
    decay = np.cumsum([0.0, *(math.log(layer.isometry_strength) for layer in network)])
    for claim in CLAIMS:
        certificate = claim(network, NEAR)
        assert certificate.holds
        if claim is not spectral_gap_decay:
            assert np.asarray(certificate.rhs) == pytest.approx(certificate.rhs[0] - decay, abs=1e-14)


def test_threshold_of_a_sequence_is_where_the_product_suffices() -> None:
    network = [Layer("abs"), Layer("relu")] * 4  # log beta = log 2 and 0.2363; wanted: log 8 - log(3/4) = 2.367
    assert gap_decay(network, PAIR).threshold_layer == 5
    assert gap_decay(network[:4], PAIR).threshold_layer is None


# --- edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("G0", [[[1.0]], np.eye(4)], ids=["one input", "orthogonal inputs"])
@pytest.mark.parametrize("name", ["relu", "abs"])
def test_a_gap_of_zero_holds(claim: Callable[..., Certificate], G0: Any, name: str) -> None:
    certificate = claim(Layer(name), G0, 3)
    assert names(certificate) == ["HOLDS"] * 4
    assert np.all(certificate.lhs == -math.inf)
    assert certificate.first_informative_layer is None


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["relu", "tanh", "identity"])
def test_parallel_inputs_are_not_applicable(claim: Callable[..., Certificate], sign: int, name: str) -> None:
    G0 = [[1, sign, 0.5], [sign, 1, sign * 0.5], [0.5, sign * 0.5, 1]]
    certificate = claim(Layer(name), G0, 10)  # and no warning, which pytest would turn into an error
    assert names(certificate) == ["NOT_APPLICABLE"] * 11
    assert not any(np.isnan(x).any() for x in (certificate.lhs, certificate.rhs, certificate.slack))
    assert certificate.lhs[0] == certificate.rhs[0] == math.inf
    assert certificate.threshold_layer is None
    wanted = "max|G_ij| < 1" if claim is potential_contraction else "det G0 > 0"
    assert wanted in certificate.false_hypotheses


def test_a_linear_layer() -> None:
    """beta = 1: Theorem 5.1 has no threshold; what has none holds, the potential as an equation."""
    layer = Layer("3*x - 1", gain=2)
    printed = gap_decay(layer, PAIR, 3)
    assert printed.verdict is NOT_APPLICABLE
    assert printed.false_hypotheses == ("beta > 1",)
    assert spectral_gap_decay(layer, PAIR, 3).holds
    potentials = potential_contraction(layer, PAIR, 3)
    assert potentials.holds
    assert np.all(potentials.slack == 0)
    assert np.all(potentials.tolerance == 0)


def test_singular_or_linear_is_where_the_printed_theorem_says_nothing() -> None:
    """The hypotheses that are not printed: a singular G0, and beta = 1 under which the gap never shrinks."""
    singular = equicorrelation(3, -0.5)
    assert gap_decay(Layer("relu"), singular, 2).verdict is NOT_APPLICABLE
    t = trajectory(Layer("identity"), PAIR, 50)
    assert t.isometry_gap[50] == t.isometry_gap[0]


def test_nearly_linear_layers_are_told_from_linear_ones() -> None:
    # beta - 1 = 2e-14/(1 + 2e-14): the threshold is some 1e14 layers away
    certificate = gap_decay(Layer("x + 0.0000001*x**2"), PAIR, 2)
    assert certificate.holds
    expected = (math.log(8) - math.log(0.75)) / 2e-14
    assert certificate.threshold_layer == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", ["abs", "He(3, x)", "cos"])
def test_no_linear_part_and_entries_that_vanish(claim: Callable[..., Certificate], name: str) -> None:
    certificate = claim(Layer(name), equicorrelation(3, 0.3), 16)
    assert names(certificate) == ["HOLDS"] * 17
    assert -1e9 < certificate.lhs[16] < -8e4  # 0.3^(2^16) is no float64, but its logarithm is
    assert np.isfinite(certificate.rhs).all()
    if name == "He(3, x)" and claim is potential_contraction:
        assert certificate.lhs[16] == pytest.approx(3**16 * math.log(0.3), rel=1e-13)


def test_a_bound_below_what_vanishes_is_undecided() -> None:
    """Both sides are equal in exact arithmetic, and after 1100 layers even their logarithms have left float64."""
    certificate = spectral_gap_decay(Layer("abs"), equicorrelation(3, 0.3), 1100, form="map")
    assert certificate.lhs[1000] == pytest.approx(certificate.rhs[1000], rel=1e-12)
    assert certificate.verdicts[1100] is UNDECIDED
    assert certificate.lhs[1100] == certificate.rhs[1100] == -math.inf


def test_layer_0_of_the_potential_is_one_number() -> None:
    certificate = potential_contraction(Layer("relu"), NEAR, 0)
    assert certificate.holds
    assert certificate.slack[0] == certificate.tolerance[0] == 0
    assert certificate.lhs[0] == pytest.approx(math.log((1 - 1e-6) / 1e-6), rel=1e-10)


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_layers_at_all(claim: Callable[..., Certificate]) -> None:
    certificate = claim([], PAIR)
    assert len(certificate.verdicts) == 1
    assert certificate.verdict is (NOT_APPLICABLE if claim is gap_decay else HOLDS)
    assert claim(Layer("relu"), PAIR, 0).holds
    assert gap_decay(Layer("relu"), PAIR, 0).threshold_layer == 11


@pytest.mark.parametrize("claim", CLAIMS)
def test_inputs_an_ulp_apart_are_decided(claim: Callable[..., Certificate]) -> None:
    """Their distance is carried, where the map of correlations would round it away in one layer."""
    certificate = claim(Layer("relu"), [[1, 1 - 2e-16], [1 - 2e-16, 1]], 4)
    assert names(certificate) == ["HOLDS"] * 5


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_are_about_maps_that_fix_0(claim: Callable[..., Certificate]) -> None:
    """Without centring, orthogonal inputs of relu become correlated: kappa(0) = 1/pi."""
    certificate = claim(Layer("relu", normalization="rms"), PAIR, 3)
    assert certificate.verdict is NOT_APPLICABLE
    assert "f(0) = 0" in certificate.false_hypotheses
    assert claim(Layer("tanh", normalization="rms"), PAIR, 3).holds  # an odd sigma has mean 0


def test_potential_of_exp_contracts_at_every_layer_down_to_1e_24() -> None:
    """1.01e-7 after 30 layers, 3.5e-24 after 100 (60-digit iteration); a map with a noise floor stops at 1.9e-16."""
    certificate = potential_contraction(Layer("exp"), PAIR, 100)
    assert names(certificate) == ["HOLDS"] * 101
    for at, rho in [(30, 1.01104464108972088e-7), (100, 3.53315405979973825e-24)]:
        assert certificate.lhs[at] == pytest.approx(math.log(rho) - math.log1p(-rho), abs=1e-12)
    steps = np.diff(certificate.lhs)
    assert np.all(steps < -math.log(Layer("exp").isometry_strength))


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Layer("relu"), [[2.0, 1.0], [1.0, 2.0]], 3), r"correlation\(G0\)"),
        ((Layer("relu"), np.stack([np.eye(2)] * 2), 3), r"one matrix.*\(2, 2, 2\)"),
        ((Layer("relu"), [[1.0, 2.0], [2.0, 1.0]], 3), "no Gram matrix"),
        ((Layer("relu"), PAIR), "depth"),
        ((Layer("relu"), PAIR, -1), "depth.*-1"),
        (([Layer("relu")], PAIR, 2), "depth=2"),
        (("relu", PAIR, 2), r"Layer\('relu'\)"),
    ],
)
def test_wrong_arguments_are_named(claim: Callable[..., Certificate], arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim(*arguments)


def test_an_unknown_form_is_named() -> None:
    with pytest.raises(ValueError, match=r"form must be .*'eigenvalue'.*'spectral'"):
        spectral_gap_decay(Layer("relu"), PAIR, 2, form="spectral")  # type: ignore[arg-type]


# --- an independent engine --------------------------------------------------------------------------------

# name: the map of correlations and beta, in closed form
MAPS: dict[str, tuple[Callable[[Any], Any], Callable[[], Any]]] = {
    "relu": (
        lambda rho: (mpmath.sqrt(1 - rho**2) + (mpmath.pi - mpmath.acos(rho)) * rho - 1) / (mpmath.pi - 1),
        lambda: (3 * mpmath.pi - 4) / (2 * mpmath.pi - 2),
    ),
    "exp": (lambda rho: mpmath.expm1(rho) / mpmath.expm1(1), lambda: 2 - 1 / mpmath.expm1(1)),
    "sin": (lambda rho: mpmath.sinh(rho) / mpmath.sinh(1), lambda: 2 - 1 / mpmath.sinh(1)),
    "step": (lambda rho: 2 * mpmath.asin(rho) / mpmath.pi, lambda: 2 - 2 / mpmath.pi),
}
NEARLY_SINGULAR = {
    "a close pair": NEAR,
    "a closer pair": np.array([[1.0, 1 - 1e-11, -0.3], [1 - 1e-11, 1.0, -0.3], [-0.3, -0.3, 1.0]]),
    "nearly opposite": np.array([[1.0, 1e-8 - 1, 0.1], [1e-8 - 1, 1.0, -0.1], [0.1, -0.1, 1.0]]),
    "nearly dependent": equicorrelation(5, -0.25 + 1e-9),
    "nearly one input": equicorrelation(4, 1 - 1e-7),
    "a chain": autoregressive(5, 0.9999),
}


def exact_sides(name: str, G0: np.ndarray, depth: int) -> dict[str, list[Any]]:
    """The logarithms of all sides at layers 0..depth, from the floats of G0 as they are."""
    f, strength = MAPS[name]
    n, decay = len(G0), strength()
    G = mpmath.matrix(G0.tolist())
    det, smallest = mpmath.det(G), min(mpmath.eigsy(G, eigvals_only=True))
    mu = 1 - smallest
    out: dict[str, list[Any]] = {side: [] for side in ("gap", "potential", "printed", *FORMS, "bound")}
    for at in range(depth + 1):
        entries = [abs(G[i, j]) for i in range(n) for j in range(i)]
        out["gap"].append(mpmath.log(-mpmath.log(mpmath.det(G)) / n))
        out["potential"].append(mpmath.log(max(x / (1 - x) for x in entries)))
        out["bound"].append(out["potential"][0] - at * mpmath.log(decay))
        out["printed"].append(mpmath.log(4 * n / det) - at * mpmath.log(decay))
        out["determinant"].append(mpmath.log(mpmath.e / det - 1) - at * mpmath.log(decay))
        out["eigenvalue"].append(mpmath.log(mpmath.log1p((1 / smallest - 1) / decay**at)))
        gamma = -((n - 1) * mpmath.log(1 - mu) + mpmath.log(1 + (n - 1) * mu)) / n
        out["map"].append(mpmath.log(gamma))
        mu = f(mu)
        G = mpmath.matrix([[mpmath.mpf(1) if i == j else f(G[i, j]) for j in range(n)] for i in range(n)])
    return out


@pytest.mark.parametrize("start_at", NEARLY_SINGULAR)
@pytest.mark.parametrize("name", MAPS)
def test_against_60_digits(name: str, start_at: str) -> None:
    G0, depth, layer = NEARLY_SINGULAR[start_at], 8, Layer(name)
    found = {form: ("gap", form, spectral_gap_decay(layer, G0, depth, form=form)) for form in FORMS}  # type: ignore[arg-type]
    found["printed"] = ("gap", "printed", gap_decay(layer, G0, depth))
    found["bound"] = ("potential", "bound", potential_contraction(layer, G0, depth))
    with mpmath.workdps(60):
        exact = exact_sides(name, G0, depth)
        for left, right, certificate in found.values():
            assert FAILS not in certificate.verdicts
            assert right == "map" or start_at == "a closer pair" or certificate.holds, certificate
            for at in range(depth + 1):
                slack, tolerance = float(certificate.slack[at]), float(certificate.tolerance[at])
                true = exact[right][at] - exact[left][at]
                assert true >= -(mpmath.mpf(10) ** -40), "the theorem itself"
                if math.isfinite(tolerance):
                    assert true >= slack - tolerance
                if 0 < tolerance < 1e-4:  # the tolerance is no excuse: the numbers are right
                    assert abs(true - slack) <= 3 * tolerance


def test_a_determinant_that_only_exact_arithmetic_tells_from_0() -> None:
    """lambda_0 = 1.1e-16 is lost in an eigenvalue solver, not in det G0 <= e lambda_0."""
    G0 = equicorrelation(3, -float(np.nextafter(0.5, 0.0)))
    rho = mpmath.mpf(float(G0[0, 1]))
    with mpmath.workdps(40):
        smallest, det = 1 + 2 * rho, (1 - rho) ** 2 * (1 + 2 * rho)
        for form, true in [("eigenvalue", mpmath.log(-mpmath.log(smallest))), ("determinant", 1 - mpmath.log(det))]:
            certificate = spectral_gap_decay(Layer("relu"), G0, 0, form=form)  # type: ignore[arg-type]
            assert certificate.holds
            assert np.isfinite(certificate.rhs[0])
            expected = true if form == "eigenvalue" else mpmath.log(mpmath.expm1(true))
            assert certificate.rhs[0] == pytest.approx(float(expected), abs=0.1 if form == "eigenvalue" else 1e-12)
        printed = gap_decay(Layer("relu"), G0, 0)
        assert printed.holds
        assert printed.rhs[0] == pytest.approx(float(mpmath.log(12 / det)), abs=1e-12)


def test_the_map_form_is_an_equation_for_equal_correlations() -> None:
    for rho, name in [(0.9, "relu"), (0.3, "exp"), (0.99, "sin")]:
        certificate = spectral_gap_decay(Layer(name), equicorrelation(6, rho), 12, form="map")
        assert np.all(np.abs(certificate.slack) <= certificate.tolerance)
        assert np.max(certificate.tolerance) < 1e-10
        assert certificate.verdict is UNDECIDED


# --- properties -------------------------------------------------------------------------------------------

matrices = st.one_of(correlation_matrices(min_n=2), correlation_matrices())
networks = st.one_of(
    st.tuples(layers(), matrices, st.integers(0, 10)),
    st.tuples(st.lists(layers(), min_size=1, max_size=6), matrices),
)


def is_sound(certificate: Certificate) -> None:
    event(certificate.verdict.name)
    assert FAILS not in certificate.verdicts, certificate
    assert not any(np.isnan(x).any() for x in (certificate.lhs, certificate.rhs, certificate.slack))
    # what is resolved and no equation up to rounding is decided
    resolved = np.asarray(certificate.tolerance) < 1e-10
    clear = np.asarray(certificate.slack) > 1e-9
    for verdict, sure in zip(certificate.verdicts, resolved & clear, strict=True):
        assert verdict is HOLDS or verdict is NOT_APPLICABLE or not sure


@given(networks)
def test_potential_contracts(network: Any) -> None:
    certificate = potential_contraction(*network)
    is_sound(certificate)
    applies = bool(np.max(np.abs(network[1] - np.eye(len(network[1]))), initial=0.0) < 1)
    assert (certificate.verdict is not NOT_APPLICABLE) == applies


@given(networks)
def test_gap_decays(network: Any) -> None:
    certificate = gap_decay(*network)
    is_sound(certificate)
    # the slack of 5.1 is at least log(4n/e): what float64 resolves, it decides
    if certificate.verdict is not NOT_APPLICABLE:
        fine = np.isfinite(certificate.tolerance)
        assert all(verdict is HOLDS for verdict, sure in zip(certificate.verdicts, fine, strict=True) if sure)


@given(networks, st.sampled_from(FORMS))
def test_gap_decays_spectrally(network: Any, form: Any) -> None:
    certificate = spectral_gap_decay(*network, form=form)
    is_sound(certificate)
    printed = gap_decay(*network)
    assert ("det G0 > 0" in printed.false_hypotheses) == (certificate.verdict is NOT_APPLICABLE)
    if certificate.verdict is not NOT_APPLICABLE:
        # where lambda_0 is not lost in rounding
        known = np.isfinite(certificate.slack) & (np.asarray(certificate.tolerance) < 0.01)
        assert np.all((np.asarray(certificate.rhs) <= np.asarray(printed.rhs) + certificate.tolerance)[known])


@given(layers(), correlation_matrices(max_n=5), st.integers(1, 4), st.integers(1, 4))
def test_restarting_continues(layer: Layer, G0: np.ndarray, first: int, then: int) -> None:
    whole = gap_decay(layer, G0, first + then)
    again = gap_decay(layer, trajectory(layer, G0, first).gram, then)
    both = np.asarray(whole.lhs)[first:]
    bar = np.asarray(whole.tolerance)[first:] + np.asarray(again.tolerance) + 1e-9
    start = trajectory(layer, G0, first, gap_layers=())
    # the matrix of layer `first` rounds distances below its last digit
    bar += 1e-14 * len(G0) / max(1.0 - float(start.max_correlation[-1]), 1e-300)
    known = np.isfinite(both) & np.isfinite(again.lhs) & np.isfinite(bar)
    assert np.all(np.abs(both[known] - np.asarray(again.lhs)[known]) <= bar[known])


# --- brackets ---------------------------------------------------------------------------------------------

INF = math.inf


@pytest.mark.parametrize(
    ("lhs", "rhs", "verdict"),
    [
        ((0, -1, 1), (3, 1.5, 9), HOLDS),  # only errors that narrow the slack count
        ((0, -1, 2), (3, 2, 9), UNDECIDED),
        ((3, 1, 9), (0, -5, 0.5), FAILS),
        ((3, 1, 9), (0, -5, 1.5), UNDECIDED),
        ((0, 0, 0), (0, 0, 0), HOLDS),
        ((-INF, -INF, -INF), (-INF, -INF, -INF), HOLDS),
        ((-INF, -INF, -700), (-600, -601, -600), HOLDS),
        ((-INF, -INF, -700), (-800, -801, -800), UNDECIDED),
        ((INF, -INF, INF), (5, 5, 5), UNDECIDED),
        ((INF, INF, INF), (5, 5, 5), FAILS),
        ((5, 5, 5), (INF, 6, INF), HOLDS),
        ((5, 5, 5), (INF, 4, INF), UNDECIDED),
    ],
)
def test_brackets_decide(lhs: tuple[float, ...], rhs: tuple[float, ...], verdict: Verdict) -> None:
    left, right = (Bracket(*(np.array([float(x)]) for x in side)) for side in (lhs, rhs))
    slack, tolerance = settle(left, right)
    assert not np.isnan(slack).any()
    assert certify("c", "s", left.value, right.value, slack=slack, tolerance=tolerance).verdict is verdict


# --- must fail --------------------------------------------------------------------------------------------


def planted(layer: Any, G0: Any, depth: Any, bound: Callable[[Any], Bracket], side: str = "log_gaps") -> Certificate:
    """A false bound, compared by the machinery of the true ones."""
    run = start(layer, G0, depth)
    lhs, rhs = getattr(run, side), bound(run)
    slack, tolerance = settle(lhs, rhs.widened())
    return certify("planted", "", lhs.value, rhs.value, slack=slack, tolerance=tolerance)


def constant(value: float) -> Bracket:
    return Bracket(*(np.array([value]),) * 3)


def test_the_rate_of_the_potential_is_not_twice_that() -> None:
    def doubled(run: Any) -> Bracket:
        return run.log_potentials[0] - 2 * run.decay

    certificate = planted(Layer("relu"), NEAR, 5, doubled, "log_potentials")
    assert names(certificate)[1:] == ["FAILS"] * 5


def test_the_constant_of_theorem_5_1_cannot_be_dropped() -> None:
    """gap(G_l) <= beta^-l has been printed; true is the rate (2 - beta)^(2l), with a constant."""
    layer, G0 = Layer("relu"), equicorrelation(5, 0.9)
    certificate = planted(layer, G0, 60, lambda run: 0.0 - run.decay)
    assert names(certificate)[:6] == ["FAILS"] * 6
    assert certificate.lhs[1] == pytest.approx(math.log(1.316278232656906), abs=1e-13)
    assert math.exp(certificate.rhs[1]) == pytest.approx(0.7896, abs=5e-5)
    ratio = math.exp(certificate.lhs[60] - certificate.lhs[59])
    assert ratio == pytest.approx((2 - layer.isometry_strength) ** 2, rel=1e-6)


def two_close_among(n: int) -> np.ndarray:
    G = np.eye(n)
    G[0, 1] = G[1, 0] = 1 - 1e-6
    return G


def test_the_determinant_of_theorem_5_1_cannot_be_dropped() -> None:
    certificate = planted(Layer("relu"), two_close_among(2), 40, lambda r: math.log(8) - r.decay)
    assert certificate.verdict is FAILS
    assert gap_decay(Layer("relu"), two_close_among(2), 40).holds


def test_the_determinant_of_theorem_5_1_is_not_its_nth_root() -> None:
    def rooted(run: Any) -> Bracket:
        return math.log(4 * run.n) - 1 / run.n * run.log_det - run.decay

    assert planted(Layer("relu"), two_close_among(8), 40, rooted).verdict is FAILS
    assert gap_decay(Layer("relu"), two_close_among(8), 40).holds


def test_the_determinant_form_needs_its_constant() -> None:
    def shrunk(run: Any) -> Bracket:
        return math.log(math.expm1(-float(run.log_det.value[0])) / (10 * run.n)) - run.decay

    certificate = planted(Layer("relu"), equicorrelation(4, 0.05), 3, shrunk)
    assert certificate.verdicts[0] is FAILS


def test_the_eigenvalue_form_needs_its_constant() -> None:
    def halved(run: Any) -> Bracket:
        return (run.odds - math.log(2)).through(LOG_LOG1P_EXP)

    G0 = equicorrelation(64, 1 - 1e-6)
    assert planted(Layer("relu"), G0, 2, halved).verdicts[0] is FAILS
    assert spectral_gap_decay(Layer("relu"), G0, 2).holds


def test_the_map_form_needs_the_eigenvalue_not_the_largest_correlation() -> None:
    """n = 3, all correlations -.4: gap .312, and Gamma_3(.4) is .145."""

    def with_largest(run: Any) -> Bracket:
        m = float(run.path.max_correlation[0])
        return constant(math.log(-(2 * math.log(1 - m) + math.log(1 + 2 * m)) / 3))

    certificate = planted(Layer("He(2, x)"), equicorrelation(3, -0.4), 0, with_largest)
    assert certificate.verdict is FAILS
    assert math.exp(certificate.lhs[0]) == pytest.approx(0.312, abs=1e-3)
    assert math.exp(certificate.rhs[0]) == pytest.approx(0.1447, abs=1e-4)


def test_a_strength_that_is_too_large_is_caught() -> None:
    """The bound of exp (beta 1.418) is false for relu (1.267)."""
    G0 = equicorrelation(3, 0.1)
    decay = start(Layer("exp"), G0, 20).decay
    certificate = planted(Layer("relu"), G0, 20, lambda r: r.log_potentials[0] - decay, "log_potentials")
    assert certificate.verdict is FAILS


# --- what is shown ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", CLAIMS)
def test_certificates_have_one_entry_for_each_layer(claim: Callable[..., Certificate]) -> None:
    certificate = claim(Layer("tanh"), correlation(autoregressive(4, 0.8)), 7)
    for side in (certificate.lhs, certificate.rhs, certificate.slack, certificate.tolerance):
        assert np.shape(side) == (8,)
    assert len(certificate.verdicts) == 8
    assert certificate.sides == ()
    text = str(certificate)
    assert "layer 0:" in text
    assert "log" in certificate.statement
    assert "natural logarithms" in text
    assert certificate.source.startswith("arXiv:2305.18399")
    assert json.dumps(certificate.to_dict())


def test_the_late_gap_is_half_the_mean_square() -> None:
    """lhs is a logarithm of the gap: (n - 1)/2 times the mean square correlation, when that is small."""
    certificate = gap_decay(Layer("relu"), NEAR, 100)
    small = rms_correlation(trajectory(Layer("relu"), NEAR, 100).gram)
    assert certificate.lhs[100] == pytest.approx(math.log(small**2), abs=1e-10)
