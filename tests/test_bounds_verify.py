"""What `verify` keeps of certificates of every shape, and how it writes inputs of every kind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from _mutants import refuted
from hypothesis import given, settings
from hypothesis import strategies as st

import bounds
import hermite
from bounds import CLAIMS, Certificate, Claim, Verdict, certify
from bounds._verify import as_python
from bounds.strategies import activations, batches, correlation_matrices, weight_sequences
from meanfield import Layer

SCOPE = {"np": np, "Layer": Layer, "Fraction": Fraction}


def claim_of(function: Callable[..., Any], strategy: st.SearchStrategy[Any], **rest: Any) -> Claim:
    return Claim("mine", "x", function, lambda: strategy, "nowhere", **rest)


# --- shapes -----------------------------------------------------------------------------------------------


def over_sides_and_layers(x: int) -> Certificate:
    """Two sides and three layers; the smallest slack is on the upper side at layer 1, and layer 0 is an equation."""
    slack = np.array([[0.0, 5.0, 6.0], [0.0, x / 8 + 1, 7.0]])
    return certify(
        "grid",
        "nowhere",
        np.zeros((2, 3)),
        slack,
        tolerance=np.array([[0.0, 1e-9, 1e-9]] * 2),
        sides=("lower", "upper"),
        applicable=np.array([[True, True, False], [True, True, True]]),
    )


def test_the_smallest_slack_of_sides_and_layers() -> None:
    found = claim_of(over_sides_and_layers, st.tuples(st.integers(0, 7))).verify(examples=30)
    assert found.verdict is Verdict.HOLDS
    assert (found.smallest_slack, found.tolerance, found.tightest) == (1.0, 1e-9, (0,))


def test_one_side_that_fails_is_enough() -> None:
    def wrong(x: int) -> Certificate:
        true = over_sides_and_layers(x)
        rhs = np.array(true.rhs)
        rhs[1, 1] -= 1.5
        return certify("grid", "nowhere", true.lhs, rhs, tolerance=true.tolerance, sides=true.sides)

    found = claim_of(wrong, st.tuples(st.integers(0, 7))).verify(examples=30)
    assert found.verdict is Verdict.FAILS
    assert found.counterexample == (0,)
    assert found.smallest_slack == -0.5


@pytest.mark.parametrize("label", ["t1", "m1"])
def test_claims_of_sides_and_layers_report_what_they_met(label: str) -> None:
    claim = CLAIMS[label]
    found = claim.verify(examples=30, seed=2)
    assert found.tightest is not None
    certificate = claim(*found.tightest, exact=found.tightest_exact)
    assert np.ndim(certificate.slack) == 2
    kept = [
        slack
        for slack, bar, verdict in zip(
            np.ravel(certificate.slack), np.ravel(certificate.tolerance), certificate.verdicts, strict=True
        )
        if verdict is Verdict.HOLDS and math.isfinite(slack) and (slack, bar) != (0, 0)
    ]
    assert min(kept) == found.smallest_slack


# --- inputs as Python -------------------------------------------------------------------------------------


@given(
    st.one_of(
        correlation_matrices(exact=True),
        batches(exact=True, norms="wild"),
        weight_sequences(),
        weight_sequences(exact=True),
        st.tuples(st.fractions(), st.floats(allow_nan=False, allow_infinity=False), st.integers()),
    )
)
def test_numbers_are_written_so_that_they_read_back(value: Any) -> None:
    again = eval(as_python(value), dict(SCOPE))
    assert again == value
    assert type(again) is type(value)


@settings(max_examples=30)
@given(activations())
def test_activations_are_written_as_texts_that_are_read(sigma: hermite.Activation) -> None:
    again = hermite.activation(eval(as_python(sigma), dict(SCOPE)))
    assert again.expr == sigma.expr


def test_exact_inputs_are_reported_exactly() -> None:
    claim = dataclasses.replace(
        CLAIMS["lemma-a.4"], strategy=lambda: st.tuples(correlation_matrices(min_n=3, exact=True))
    )
    found = claim.verify(examples=40)
    assert found.verdict is Verdict.HOLDS
    text = found.to_dict()["tightest"]
    assert "Fraction(" in text
    again = eval(text, {**SCOPE, "determinant_sandwich": bounds.determinant_sandwich})
    assert found.smallest_slack in np.ravel(again.slack).tolist()


# --- wrong variants ---------------------------------------------------------------------------------------


def test_a_wrong_variant_is_refuted_and_the_claim_itself_is_not() -> None:
    claim = CLAIMS["lemma-a.4"]

    def wrong(G: Any, *, exact: bool = False) -> Certificate:
        true = bounds.determinant_sandwich(G, exact=exact)
        lhs, rhs = np.multiply(true.lhs, [1.01, 1.0]), np.multiply(true.rhs, [1.0, 0.99])
        return certify("wrong", "", lhs, rhs, tolerance=true.tolerance, hypotheses=true.hypotheses, sides=true.sides)

    found = refuted(claim, wrong)
    assert found is not None
    assert wrong(*found, exact=True).verdict is Verdict.FAILS
    assert refuted(claim, claim.function, examples=50) is None


def test_a_wrong_variant_is_asked_again_exactly() -> None:
    def rough(x: int, *, exact: bool = False) -> Certificate:
        return certify("rough", "", 1 - x, 0, tolerance=0 if exact else 10, exact=exact)

    assert refuted(claim_of(rough, st.tuples(st.integers(0, 3))), rough) == (0,)
