"""Certificates: the one rule that decides, and the record it leaves."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bounds._certificate import Certificate, Hypothesis, Verdict, certify, worst

HOLDS, FAILS, UNDECIDED, NOT_APPLICABLE = Verdict


def decide(lhs: Any, rhs: Any, tolerance: Any = 0.0, **rest: Any) -> Certificate:
    return certify("demo", "school", lhs, rhs, tolerance=tolerance, **rest)


@pytest.mark.parametrize(
    ("lhs", "rhs", "tolerance", "verdict"),
    [
        (0.0, 1.0, 0.5, HOLDS),
        (0.0, 0.5, 0.5, UNDECIDED),  # slack equal to its error may be 0 in truth
        (0.5, 0.0, 0.5, UNDECIDED),
        (1.0, 0.0, 0.5, FAILS),
        (1.0, 1.0, 0.0, HOLDS),  # one and the same number
        (1.0, 1.0, 1e-16, UNDECIDED),
        (1.0, np.nextafter(1.0, 0.0), 0.0, FAILS),
        (1.0, np.nextafter(1.0, 2.0), 0.0, HOLDS),
        (-5e-324, 0.0, 0.0, HOLDS),  # a subnormal slack has its sign
        (math.inf, math.inf, 0.0, HOLDS),  # extended reals: no inf - inf
        (-math.inf, -math.inf, 0.0, HOLDS),
        (math.inf, math.inf, 1e-9, UNDECIDED),
        (0.0, math.inf, 1.0, HOLDS),
        (math.inf, 0.0, 1.0, FAILS),
        (0.0, 1.0, math.inf, UNDECIDED),
        (Fraction(1, 3), Fraction(1, 3), 0, HOLDS),
        (Fraction(1, 3) + Fraction(1, 10**40), Fraction(1, 3), 0, FAILS),  # equal as floats
        (10**40, 10**40 + 1, 0, HOLDS),
        (10**40 + 1, 10**40, 0, FAILS),
        (Fraction(10) ** 400, Fraction(10) ** 401, 0, HOLDS),  # beyond float64
    ],
)
def test_the_rule(lhs: Any, rhs: Any, tolerance: Any, verdict: Verdict) -> None:
    certificate = decide(lhs, rhs, tolerance)
    assert certificate.verdict is verdict
    assert certificate.verdicts == (verdict,)
    assert certificate.holds == (verdict is HOLDS)
    assert isinstance(certificate.slack, float)


finite = st.floats(-1e6, 1e6)


@given(finite, finite, st.floats(0.0, 1e3))
def test_the_rule_agrees_with_fractions(lhs: float, rhs: float, tolerance: float) -> None:
    verdict = decide(lhs, rhs, tolerance).verdict
    slack = Fraction(rhs) - Fraction(lhs)
    # an ulp of the slack may move it across the tolerance, never across 0
    near = abs(abs(slack) - Fraction(tolerance)) <= Fraction(2.0**-52) * abs(slack)
    if slack == 0:
        assert verdict is (HOLDS if tolerance == 0 else UNDECIDED)
    elif abs(slack) > tolerance and not (near and tolerance):
        assert verdict is (HOLDS if slack > 0 else FAILS)
    elif not near:
        assert verdict is UNDECIDED
    assert decide(Fraction(lhs), Fraction(rhs), 0).holds == (slack >= 0)


def test_a_better_known_slack_decides() -> None:
    """1 - I <= 1 at I = 1e-30: the sides are one float, the slack is not."""
    certificate = decide(1.0 - 1e-30, 1.0, 1e-45, slack=1e-30)
    assert certificate.holds
    assert certificate.slack == 1e-30
    assert decide(1.0, 1.0, 0.0, slack=-1e-30).verdict is FAILS


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([HOLDS, FAILS, UNDECIDED], FAILS),
        ([HOLDS, UNDECIDED, NOT_APPLICABLE], UNDECIDED),
        ([NOT_APPLICABLE, HOLDS], HOLDS),
        ([NOT_APPLICABLE, NOT_APPLICABLE], NOT_APPLICABLE),
        ([], NOT_APPLICABLE),
    ],
)
def test_worst(verdicts: list[Verdict], expected: Verdict) -> None:
    assert worst(verdicts) is expected


def test_two_sides_and_the_hypothesis_of_one() -> None:
    small = Hypothesis("m <= 1/3", False, "m = 0.9", side="lower")
    certificate = decide([8.35, 0.0], [0.1, 1.0], sides=("lower", "upper"), hypotheses=[small])
    assert certificate.verdicts == (NOT_APPLICABLE, HOLDS)
    assert certificate.verdict is HOLDS
    assert certificate.false_hypotheses == ("m <= 1/3",)
    assert np.array_equal(certificate.lhs, [8.35, 0.0])  # a side that does not apply keeps its numbers
    assert decide([8.35, 0.0], [0.1, 1.0], sides=("lower", "upper")).verdict is FAILS


def test_a_false_hypothesis_of_the_whole_claim() -> None:
    certificate = decide([0.0, 2.0], 1.0, hypotheses={"det > 0": False, "n >= 2": True})
    assert certificate.verdicts == (NOT_APPLICABLE, NOT_APPLICABLE)
    assert certificate.verdict is NOT_APPLICABLE
    assert not certificate.holds
    assert certificate.false_hypotheses == ("det > 0",)


def test_layers_each_with_its_tolerance_and_applicability() -> None:
    certificate = decide(
        np.array([1.0, 0.9, 2.0, 0.25, 0.1]),
        np.array([1.0, 0.5, 1.0, 0.25, 0.2]),
        np.array([0.0, 0.5, 0.0, 1e-16, 0.0]),
        applicable=np.array([True, True, False, True, True]),
        threshold_layer=1,
        first_informative_layer=3,
    )
    assert certificate.verdicts == (HOLDS, UNDECIDED, NOT_APPLICABLE, UNDECIDED, HOLDS)
    assert certificate.verdict is UNDECIDED
    assert (certificate.threshold_layer, certificate.first_informative_layer) == (1, 3)
    assert decide([0.0, math.inf], [1.0, math.inf]).verdicts == (HOLDS, HOLDS)


def test_sides_times_layers() -> None:
    lhs, rhs = np.zeros((2, 3)), np.array([[1.0, 1.0, -1.0], [0.0, 1.0, 1.0]])
    rough = Hypothesis("signs", False, side="lower")
    certificate = decide(lhs, rhs, sides=("lower", "upper"), hypotheses=[rough])
    assert certificate.verdicts == (NOT_APPLICABLE,) * 3 + (HOLDS,) * 3
    assert "upper, layer 0: 0 <= 0" in str(certificate)
    assert decide(lhs, rhs, sides=("lower", "upper")).verdicts[2] is FAILS


def test_nan_is_a_defect_only_where_the_claim_applies() -> None:
    with pytest.raises(AssertionError, match="demo has slack nan"):
        decide(math.nan, 1.0)
    assert decide([math.nan, 0.0], [1.0, 1.0], applicable=[False, True]).verdict is HOLDS
    with pytest.raises(AssertionError, match="internal error"):
        decide([math.nan, 0.0], [1.0, 1.0], applicable=[True, False])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": -1e-16}, r"tolerance must be >= 0, got -1e-16"),
        ({"tolerance": math.nan}, r"tolerance must be >= 0, got nan"),
        ({"tolerance": [0.0, 0.0, 0.0]}, r"tolerance must be one number or have shape \(2,\)"),
        ({"applicable": [True] * 3}, r"applicable must be one number or have shape \(2,\)"),
        ({"slack": [0.0] * 3}, r"slack must be one number or have shape \(2,\)"),
        ({"sides": ("lower",)}, r"sides must name the entries of the first axis, got \('lower',\)"),
        (
            {"hypotheses": [Hypothesis("h", True, side="left")], "sides": ("lower", "upper")},
            r"hypothesis 'h' names side='left'; known sides: \('lower', 'upper'\)",
        ),
        ({"rhs": [1.0, 2.0, 3.0]}, r"lhs and rhs must match, got shapes \(2,\) and \(3,\)"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decide(**{"lhs": [0.0, 0.0], "rhs": [1.0, 1.0]} | arguments)


def test_a_certificate_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"demo: HOLDS.*ask \.verdict or \.holds"):
        bool(decide(0.0, 1.0))


def test_it_is_a_frozen_value() -> None:
    lhs = np.array([0.0, math.nan])
    certificate = decide(lhs, 1.0, 1e-15, applicable=[True, False], hypotheses={"h": True})
    with pytest.raises(FrozenInstanceError):
        certificate.verdict = FAILS  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        certificate.lhs[0] = 1.0  # type: ignore[index]
    lhs[0] = 7.0  # the caller's array is neither frozen nor shared
    assert certificate.lhs[0] == 0.0  # type: ignore[index]
    copy = pickle.loads(pickle.dumps(certificate))
    assert copy == certificate
    assert hash(copy) == hash(certificate)
    assert copy.verdict is HOLDS
    assert certificate != decide([0.0, math.nan], 2.0, 1e-15, applicable=[True, False])
    assert certificate != "demo"


def test_to_dict_is_plain() -> None:
    certificate = decide([0.0, 1.0], [1.0, math.inf], sides=("lower", "upper"), hypotheses={"h": True})
    plain = certificate.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["rhs"] == [1.0, math.inf]
    assert plain["verdict"] == "HOLDS"
    assert plain["hypotheses"] == [{"name": "h", "holds": True, "detail": "", "side": ""}]
    assert isinstance(decide(Fraction(1, 3), 1).to_dict()["lhs"], float)


def test_summary() -> None:
    small = Hypothesis("(n-1) m <= 1", False, "m = 0.9", side="lower")
    certificate = decide(
        [8.5, 0.25], [0.5, 1.0], 1e-16, sides=("lower", "upper"), hypotheses=[small], statement="a <= b"
    )
    assert str(certificate) == (
        "demo (school): HOLDS - lhs <= rhs, whatever the rounding\n"
        "  a <= b\n"
        "  lower: 8.5 <= 0.5   slack -8, tolerance 1e-16: NOT_APPLICABLE\n"
        "  upper: 0.25 <= 1   slack 0.75, tolerance 1e-16: HOLDS\n"
        "  (n-1) m <= 1: false (m = 0.9) [lower side only]"
    )


def test_summary_of_many_layers_shows_the_worst() -> None:
    rhs = np.ones(50)
    rhs[30] = -1.0
    text = decide(np.zeros(50), rhs, threshold_layer=4, first_informative_layer=9).summary()
    assert "layer 30: 0 <= -1   slack -1, tolerance 0: FAILS" in text
    assert "(the 4 worst of 50)" in text
    assert "claimed from layer 4\n  informative from layer 9" in text
    assert len(text.splitlines()) == 8


def test_a_planted_false_bound_fails() -> None:
    """sin x <= 0.99 x on (0, 1]: the same call that certifies sin x <= x."""
    x = np.linspace(0.01, 1.0, 100)
    bar = 4 * np.finfo(float).eps * x
    assert decide(np.sin(x), x, bar).holds
    assert decide(np.sin(x), 0.99 * x, bar).verdict is FAILS
