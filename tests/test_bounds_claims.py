"""Claims as records: what they say is what their function certifies; trying them on drawn examples."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

import bounds
from bounds import CLAIMS, Certificate, Claim, Verdict, certify
from bounds._verify import Verification, as_python
from bounds.strategies import activations, batches, correlation_matrices, layers, psd_matrices
from meanfield import Layer, isometry, isometry_gap

LABELS = """
    h2 strength-range lemma-a.1 theorem-4.1 theorem-4.1-sharp corollary-4.2 corollary-4.3 lemma-a.3 lemma-a.4 lemma-a.6
    lemma-a.7 lemma-a.8 theorem-5.1 theorem-5.1+ d1 d2 d3 d4 k1 k2 k3 k4 schwarz-pick l1 l2 l3 m1
    r1 r2 r3 r4 r4+ r5 r6 r7 r8 spectral-majorization t1 t2 t3 u1 u3
"""
# one function may serve several labels, and its certificates name the first of them
SHARED: dict[str, list[str]] = {}
for _claim in CLAIMS.values():
    SHARED.setdefault(_claim.function.__name__, []).append(_claim.label)  # type: ignore[attr-defined]
EACH = [pytest.param(claim, id=claim.label) for claim in CLAIMS.values()]


def half(x: Any, y: Any) -> Certificate:
    """A true claim: the mean is at most the larger number."""
    return certify("half", "school", (x + y) / 2, max(x, y), tolerance=0)


def claim_of(function: Callable[..., Certificate] = half, strategy: Any = None, **rest: Any) -> Claim:
    numbers = st.integers(-1000, 1000)
    return Claim(
        label=rest.pop("label", "half"),
        statement=r"\frac{x+y}2 \le \max(x, y)",
        function=function,
        strategy=(lambda: st.tuples(numbers, numbers)) if strategy is None else strategy,
        source="school",
        **rest,
    )


# --- the list ---------------------------------------------------------------------------------------------


def test_the_claims_are_listed_by_label() -> None:
    assert sorted(CLAIMS) == sorted(LABELS.split())
    assert all(label == claim.label for label, claim in CLAIMS.items())
    with pytest.raises(TypeError):
        CLAIMS["mine"] = claim_of()  # type: ignore[index]


@pytest.mark.parametrize("claim", EACH)
def test_every_claim_says_what_it_is(claim: Claim) -> None:
    assert claim.status in {"proved", "classical", "conjecture", "false as printed"}
    assert len(claim.source) > 10
    assert claim.function.__name__ in bounds.__all__  # type: ignore[attr-defined]
    assert claim.erratum or claim.status != "false as printed"
    assert claim._repr_latex_() == f"${claim.statement}$"
    assert "$" not in claim.statement
    assert "|" not in claim.statement  # a Markdown table would break there
    for opening, closing in ["{}", "()"]:
        assert claim.statement.count(opening) == claim.statement.count(closing)
    assert claim.statement.isascii()
    assert claim.erratum.isascii()
    with pytest.raises(dataclasses.FrozenInstanceError):
        claim.label = "other"  # type: ignore[misc]


@pytest.mark.parametrize("claim", EACH)
def test_functions_certify_their_own_claim(claim: Claim) -> None:
    seen: list[Certificate] = []

    def spy(*arguments: Any) -> Certificate:
        seen.append(claim.function(*arguments))
        return seen[-1]

    dataclasses.replace(claim, function=spy).verify(examples=3)
    assert len(seen) == 3
    for certificate in seen:
        assert certificate.claim in SHARED[claim.function.__name__]  # type: ignore[attr-defined]
        assert len(certificate.source) > 10


@pytest.mark.parametrize("claim", EACH)
def test_no_claim_fails_and_none_is_vacuous(claim: Claim) -> None:
    found = claim.verify(examples=100, seed=20)
    counts = dict(found.counts)
    assert found.examples == sum(counts.values()) == 100
    assert counts[Verdict.FAILS] == 0, found
    assert counts[Verdict.HOLDS] >= 40, found
    assert counts[Verdict.UNDECIDED] <= 25, found
    assert found.verdict in (Verdict.HOLDS, Verdict.UNDECIDED)
    assert found.counterexample is None
    assert found.smallest_slack is not None
    assert found.smallest_slack >= 0


# --- what is wrong in print -------------------------------------------------------------------------------


def test_counterexample_to_lemma_a_1_as_printed() -> None:
    assert isometry(2 * np.eye(3)) == 1.0
    assert "M = 2 I_n" in CLAIMS["lemma-a.1"].erratum


def test_counterexample_to_lemma_a_4_as_printed() -> None:
    G = np.full((4, 4), 0.9) + 0.1 * np.eye(4)
    certificate = bounds.determinant_sandwich(G)
    assert certificate.lhs[0] == pytest.approx(8.3521)
    assert certificate.rhs[0] == pytest.approx(0.0037)
    assert certificate.verdicts[0] is Verdict.NOT_APPLICABLE
    assert "8.3521 <= 0.0037" in CLAIMS["lemma-a.4"].erratum


def test_counterexample_to_theorem_5_1_without_its_constant() -> None:
    G = np.full((5, 5), 0.9) + 0.1 * np.eye(5)
    layer = Layer("relu")
    assert isometry_gap(layer(G)) == pytest.approx(1.3163, abs=5e-5)
    assert 1 / layer.isometry_strength == pytest.approx(0.7896, abs=5e-5)
    assert "1.3163 at layer 1 and 1/beta is 0.7896" in CLAIMS["theorem-5.1"].erratum


# --- own claims -------------------------------------------------------------------------------------------


def test_a_true_claim_holds() -> None:
    found = claim_of().verify(examples=40)
    assert found.verdict is Verdict.HOLDS
    assert dict(found.counts) == {**dict.fromkeys(Verdict, 0), Verdict.HOLDS: 40}
    # x = y is an equation, decided as one, and passed over for what is tight without being one
    assert found.smallest_slack is not None
    assert found.smallest_slack > 0
    x, y = found.tightest or (0, 0)
    assert found.smallest_slack == abs(x - y) / 2


def test_a_false_claim_fails_with_a_shrunk_counterexample() -> None:
    def sum_is_small(x: int, y: int) -> Certificate:
        return certify("sum", "nowhere", x + y, 500, tolerance=0)

    found = claim_of(sum_is_small, label="sum").verify(examples=200)
    assert found.verdict is Verdict.FAILS
    assert found.counterexample is not None
    assert sum(found.counterexample) == 501
    assert found.smallest_slack is not None
    assert found.smallest_slack < 0
    text = str(found)
    assert "sum: FAILS (200 examples, seed 0" in text
    assert f"fails at\n    sum_is_small({found.counterexample[0]}, {found.counterexample[1]})" in text


def test_a_false_bound_on_networks_is_caught_and_shrunk() -> None:
    """gap(G_l) <= beta^-l, the constant of Theorem 5.1 dropped."""

    def dropped(layer: Layer, G0: Any, depth: int) -> Certificate:
        true = bounds.gap_decay(layer, G0, depth)
        if not true.holds:
            return true
        return certify("dropped", "", true.lhs, true.rhs - true.rhs[0], tolerance=true.tolerance)

    strategy = lambda: st.tuples(layers(), correlation_matrices(min_n=2), st.integers(1, 4))  # noqa: E731
    found = claim_of(dropped, strategy).verify(examples=150, seed=3)
    assert found.verdict is Verdict.FAILS
    assert found.counterexample is not None
    layer, G0, depth = found.counterexample
    assert len(G0) == 2
    assert depth == 1
    assert dropped(layer, G0, depth).verdict is Verdict.FAILS


def test_vacuous_examples_are_counted() -> None:
    def never(x: int, y: int) -> Certificate:
        return certify("never", "", x, y, tolerance=0, hypotheses={"x < x": False})

    found = claim_of(never).verify(examples=30)
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert dict(found.counts)[Verdict.NOT_APPLICABLE] == 30
    assert found.smallest_slack is found.tightest is found.counterexample is None
    assert "30 NOT_APPLICABLE" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["smallest_slack"] is None


def test_undecided_sides_are_counted_and_their_slack_is_not_reported() -> None:
    def rough(x: int, y: int) -> Certificate:
        return certify("rough", "", [0.0, 0.0], [1e-16, 5.0], tolerance=1e-15)

    found = claim_of(rough).verify(examples=10)
    assert found.verdict is Verdict.UNDECIDED
    assert dict(found.counts)[Verdict.UNDECIDED] == 10
    assert found.smallest_slack == 5.0


def test_only_equations_are_reported_if_there_is_nothing_else() -> None:
    found = claim_of(lambda x, y: certify("same", "", x, x, tolerance=0)).verify(examples=10)
    assert found.smallest_slack == 0.0
    assert found.tightest is not None
    assert found.to_dict()["tightest"].startswith("<lambda>(")


@pytest.mark.parametrize("claim", EACH)
def test_a_seed_draws_the_same_again(claim: Claim) -> None:
    first, again, other = (str(claim.verify(examples=15, seed=seed)) for seed in (5, 5, 6))
    assert first == again
    assert first.replace("seed 5", "") != other.replace("seed 6", "")


def test_verifying_leaves_hypothesis_as_it_was() -> None:
    before = repr(settings())
    claim_of().verify(examples=5)
    assert repr(settings()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"examples": 0}, "examples must be an integer >= 1, got 0"),
        ({"examples": 2.5}, "examples.*2.5"),
        ({"examples": True}, "examples.*True"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
    ],
)
def test_wrong_numbers_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        claim_of().verify(**arguments)


@pytest.mark.parametrize("label", ["", "two words", " padded", "tab\t"])
def test_a_label_is_one_word(label: str) -> None:
    with pytest.raises(ValueError, match="label must be a text without spaces"):
        claim_of(label=label)


def test_a_claim_needs_callables() -> None:
    with pytest.raises(ValueError, match="function of half must be callable, got 3"):
        claim_of(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"strategy of half must be callable.*lambda"):
        claim_of(strategy=st.tuples())


def test_what_is_drawn_and_returned_is_checked() -> None:
    with pytest.raises(ValueError, match=r"strategy of half must draw tuples.*st\.tuples"):
        claim_of(strategy=st.integers).verify()
    with pytest.raises(ValueError, match=r"function of half must return \(lhs, rhs\), .* got True"):
        claim_of(lambda x, y: True).verify()  # type: ignore[arg-type, return-value]


def test_a_record_of_what_came_of_it() -> None:
    found = claim_of().verify(examples=10, seed=4)
    assert isinstance(found, Verification)
    assert (found.label, found.call, found.seed) == ("half", "half", 4)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["counts"] == {"HOLDS": 10, "FAILS": 0, "UNDECIDED": 0, "NOT_APPLICABLE": 0}
    assert plain["tightest"] == f"half({found.tightest[0]}, {found.tightest[1]})" if found.tightest else False
    assert plain["counterexample"] is None


# --- inputs as Python -------------------------------------------------------------------------------------

SCOPE = {"np": np, "Layer": Layer, "Fraction": __import__("fractions").Fraction}


@given(st.one_of(layers(), st.lists(layers(), max_size=3), layers(activation=activations())))
def test_layers_are_written_so_that_they_read_back(value: Any) -> None:
    again = eval(as_python(value), dict(SCOPE))
    for one, other in zip(*(x if isinstance(x, list) else [x] for x in (again, value)), strict=True):
        assert one.gain == other.gain
        assert one.activation.expr == other.activation.expr


@given(psd_matrices())
def test_matrices_are_written_with_all_their_digits(G: np.ndarray) -> None:
    assert np.array_equal(eval(as_python(G), dict(SCOPE)), G)


def test_gains_are_exact() -> None:
    for gain, text in [(0.1, "0.1"), (2, "2"), (SCOPE["Fraction"](1, 3), "Fraction(1, 3)")]:
        assert as_python(Layer("tanh", gain=gain)) == f"Layer('tanh', gain={text})"


def test_what_is_reported_can_be_pasted() -> None:
    found = CLAIMS["theorem-5.1+"].verify(examples=20, seed=1)
    text = found.to_dict()["tightest"]
    certificate = eval(text, {**SCOPE, "spectral_gap_decay": bounds.spectral_gap_decay})
    decided = [s for s, v in zip(certificate.slack, certificate.verdicts, strict=True) if v is Verdict.HOLDS]
    assert min(decided) == found.smallest_slack


# --- strategies -------------------------------------------------------------------------------------------


def test_strategies_are_those_of_the_other_rooms_and_layers() -> None:
    names = "activations batches correlation_matrices layers psd_matrices weight_sequences"
    assert sorted(bounds.strategies.__all__) == names.split()
    assert all(callable(strategy) for strategy in (activations, batches, correlation_matrices, psd_matrices))


def test_layers_shrink_to_the_identity() -> None:
    assert find(layers(), lambda layer: True) == Layer("identity")
    steep = find(layers(), lambda layer: layer.gain not in (1, -1))
    assert as_python(steep) == "Layer('tanh', gain=0.5)"


def test_layers_reach_the_edges() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=300, database=None, derandomize=True)
    @given(layers(), st.binary(min_size=8, max_size=8))  # hypothesis does not draw the same twice
    def draw(layer: Layer, _: bytes) -> None:
        r = layer.linearity
        seen["linear"] += math.isclose(r, 1.0)
        seen["no linear part"] += r < 1e-20
        seen["between"] += 0.05 < r < 0.95
        seen["kinked"] += bool(layer.sigma.breakpoints)
        seen["gain"] += layer.gain != 1
        seen["all"] += 1

    draw()
    for kind in ("linear", "no linear part", "between", "kinked", "gain"):
        assert seen[kind] >= 0.02 * seen["all"], seen


def test_what_rounding_leaves_undecided_is_settled_exactly() -> None:
    """So near equality float64 cannot decide lemma A.4; rational arithmetic has no undecided side.

    The upper slack of this matrix is 2^-60, below the rounding of a determinant of 3/4 on every machine.
    """
    near = np.eye(3)
    near[0, 1] = near[1, 0] = 0.5
    near[0, 2] = near[2, 0] = 2.0**-30
    drawn = dataclasses.replace(CLAIMS["lemma-a.4"], strategy=lambda: st.tuples(st.just(near)))
    found = drawn.verify(examples=5, seed=1)
    assert dict(found.counts)[Verdict.UNDECIDED] == 0
    assert found.verdict is Verdict.HOLDS
    floats = dataclasses.replace(drawn, function=lambda G: bounds.determinant_sandwich(G)).verify(examples=5, seed=1)
    assert dict(floats.counts)[Verdict.UNDECIDED] > 0
    assert floats.undecided is not None
    assert "rounding exceeds the slack at" in str(floats)


# --- claims that state both sides -------------------------------------------------------------------------


def test_a_function_may_return_both_sides_and_hypotheses() -> None:
    claim = claim_of(lambda x, y: (x * y, y * y, {"x <= y": x <= y, "y >= 0": y >= 0}))
    assert claim(2, 3).verdict is Verdict.HOLDS
    assert claim(2, 3).tolerance == 0.0
    assert claim(3, 2).false_hypotheses == ("x <= y",)
    assert claim(-3, -2).verdict is Verdict.NOT_APPLICABLE
    found = claim.verify(examples=100)
    assert found.verdict is Verdict.HOLDS
    assert dict(found.counts)[Verdict.NOT_APPLICABLE] > 0
    wrong = claim_of(lambda x, y: (x * y, y * y))
    assert wrong.verify(examples=100).verdict is Verdict.FAILS


def test_floats_leave_room_for_rounding_and_exact_numbers_none() -> None:
    claim = claim_of(lambda x, y: (x + y, y + x))
    assert claim(0.1, 0.2).verdict is Verdict.UNDECIDED
    assert claim(Fraction(1, 10), Fraction(1, 5)).verdict is Verdict.HOLDS
    assert claim(1, 2).verdict is Verdict.HOLDS
    third = claim_of(lambda x, y: (x, y), tolerance=1e-3)
    assert third(1.0, 1.001).verdict is Verdict.UNDECIDED
    assert third(1.0, 1.003).verdict is Verdict.HOLDS
    assert third(1.003, 1.0).verdict is Verdict.FAILS


def test_sides_may_be_arrays_and_infinite() -> None:
    claim = claim_of(lambda x, y: (np.array([x, y]), [y, math.inf]))
    certificate = claim(1.0, 2.0)
    assert certificate.verdicts == (Verdict.HOLDS, Verdict.HOLDS)
    assert certificate.claim == "half"


@pytest.mark.parametrize("tolerance", [-1.0, math.nan])
def test_a_tolerance_is_not_negative(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance of half must be >= 0"):
        claim_of(tolerance=tolerance)
