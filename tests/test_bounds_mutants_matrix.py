"""Claims about matrices made wrong on purpose: each is refuted by the true claim's strategy, or it is said why not.

Wherever it can be, the wrong form is computed here by rationals, apart from the code that certifies the true one.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bounds import CLAIMS, Certificate, Verdict, certify
from meanfield._exact import as_fractions, eliminate, exact_determinant

pytestmark = pytest.mark.slow

F = Fraction
Rows = tuple[tuple[Fraction, ...], ...]
NOTHING = (0, 0, {"applies": False})


# --- by rationals -------------------------------------------------------------------------------------------


def on_rationals(wrong: Callable[..., Any]) -> Callable[..., Any]:
    """A wrong form of a claim about correlation matrices: of what is positive semidefinite without rounding."""

    def function(*matrices: Any) -> Any:
        rows = [as_fractions(G) for G in matrices]
        return wrong(*rows) if all(eliminate(G).positive_semidefinite for G in rows) else NOTHING

    return function


def offdiagonal(G: Rows) -> list[Fraction]:
    return [abs(entry) for i, row in enumerate(G) for entry in row[:i]]


def largest(G: Rows) -> Fraction:
    return max(offdiagonal(G), default=F(0))


def square(G: Rows) -> Fraction:
    return sum((x * x for x in offdiagonal(G)), F(0)) / max(len(offdiagonal(G)), 1)


def sums(G: Rows) -> list[Fraction]:
    return [sum(map(abs, row), F(0)) - 1 for row in G]


def d1_constant(G: Rows) -> Any:
    n, m = len(G), largest(G)
    return F(101, 100) * (1 - (n - 1) * m) * (1 + m) ** (n - 1), exact_determinant(G), {"small": (n - 1) * m <= 1}


def d1_exponent(G: Rows) -> Any:
    n, m = len(G), largest(G)
    return (1 - (n - 1) * m) * (1 + m) ** n, exact_determinant(G), {"small": (n - 1) * m <= 1}


def d1_sign(G: Rows) -> Any:
    """The form that is asked about: true of the rms in the other direction, false of m."""
    n, m = len(G), largest(G)
    return (1 - m) ** (n - 1) * (1 + (n - 1) * m), exact_determinant(G), {"small": (n - 1) * m <= 1}


def d1_without_hypothesis(G: Rows) -> Any:
    n, m = len(G), largest(G)
    return (1 - (n - 1) * m) * (1 + m) ** (n - 1), exact_determinant(G)


def d2_with_the_mean(G: Rows) -> Any:
    """The mean of |G_ij| in place of the rms, which is not smaller: a stronger upper bound."""
    n, t = len(G), sum(offdiagonal(G), F(0)) / max(len(offdiagonal(G)), 1)
    return (1 - (n - 1) * t) * (1 + t) ** (n - 1), exact_determinant(G), {"small": (n - 1) * t <= 1}


def d2_with_the_maximum(G: Rows) -> Any:
    n, m = len(G), largest(G)
    return exact_determinant(G), (1 - m) ** (n - 1) * (1 + (n - 1) * m)


def a4_without_hypothesis(G: Rows) -> Any:
    n, m = len(G), largest(G)
    return (1 - (n - 1) * m) ** n, exact_determinant(G)


def a4_upper_constant(G: Rows) -> Any:
    return exact_determinant(G), 1 - F(101, 100) * largest(G) ** 2


def a4_upper_all_rows(G: Rows) -> Any:
    return exact_determinant(G), (1 - largest(G) ** 2) ** (len(G) - 1)


def hadamard_constant(G: Rows) -> Any:
    return exact_determinant(G), F(99, 100)


def fischer_constant(G: Rows) -> Any:
    factors = [1 - F(101, 100) * max(map(abs, row[:i])) ** 2 for i, row in enumerate(G) if i]
    return exact_determinant(G), math.prod(factors, start=F(1))


def fischer_all_others(G: Rows) -> Any:
    """The largest correlation with any other input, not just with those before."""
    factors = [1 - max(abs(x) for j, x in enumerate(row) if j != i) ** 2 for i, row in enumerate(G)] if G[1:] else []
    return exact_determinant(G), math.prod(factors, start=F(1))


def gershgorin_without_hypothesis(G: Rows) -> Any:
    return (1 - max(sums(G))) ** len(G), exact_determinant(G)


def gershgorin_constant(G: Rows) -> Any:
    R = max(sums(G))
    return (1 - R / F(101, 100)) ** len(G), exact_determinant(G), {"R <= 1": R <= 1}


def gershgorin_half_the_exponent(G: Rows) -> Any:
    R = max(sums(G))
    return (1 - R) ** (len(G) // 2), exact_determinant(G), {"R <= 1": R <= 1}


def product_without_hypothesis(G: Rows) -> Any:
    return math.prod((1 - R for R in sums(G)), start=F(1)), exact_determinant(G)


def product_constant(G: Rows) -> Any:
    R = sums(G)
    return math.prod((1 - r / F(101, 100) for r in R), start=F(1)), exact_determinant(G), {"R <= 1": max(R) <= 1}


def hadamard_product(A: Rows, B: Rows) -> Rows:
    return tuple(tuple(a * b for a, b in zip(*pair, strict=True)) for pair in zip(A, B, strict=True))


def l1_determinant_constant(A: Rows, B: Rows) -> Any:
    a, b, c = (1 - exact_determinant(G) for G in (A, B, hadamard_product(A, B)))
    return c, F(99, 100) * a * b


def l1_with_powers(A: Rows, B: Rows) -> Any:
    """1 - det^(1/n), the isometry, in place of 1 - det."""
    a, b, c = (1 - float(exact_determinant(G)) ** (1 / len(A)) for G in (A, B, hadamard_product(A, B)))
    return c, a * b + 1e-12


RATIONAL = [
    ("d1", d1_constant),
    ("d1", d1_exponent),
    ("d1", d1_sign),
    ("d2", d2_with_the_maximum),
    ("lemma-a.4", a4_without_hypothesis),
    ("lemma-a.4", a4_upper_constant),
    ("lemma-a.4", a4_upper_all_rows),
    ("d4", hadamard_constant),
    ("d4", fischer_constant),
    ("d4", fischer_all_others),
    ("d4", gershgorin_without_hypothesis),
    ("d4", gershgorin_constant),
    ("d4", product_without_hypothesis),
    ("d4", product_constant),
    ("l1", l1_determinant_constant),
    ("l1", l1_with_powers),
]


# --- by what the true claim shows, with its tolerance -------------------------------------------------------


def changed(label: str, side: int | None, lhs: Any = None, rhs: Any = None) -> Callable[..., Certificate]:
    """The claim with another left or right side, a function of the certificate's own two and of the arguments."""

    def function(*arguments: Any, exact: bool = False) -> Certificate:
        true = CLAIMS[label].function(*arguments, exact=exact)
        at = (lambda x: float(np.ravel(x)[side])) if side is not None else float
        left, right, slack, bar = (at(x) for x in (true.lhs, true.rhs, true.slack, true.tolerance))  # type: ignore[no-untyped-call]
        if true.verdicts[side or 0] is Verdict.NOT_APPLICABLE or not math.isfinite(left + right):
            return certify("wrong", "", 0, 0, tolerance=0, hypotheses={"applies": False})
        new_left = left if lhs is None else lhs(left, right, *arguments)
        new_right = right if rhs is None else rhs(left, right, *arguments)
        moved = (new_right - right) - (new_left - left)
        # of floats: the change is computed to a few roundings of both
        bar += 1e-14 * (abs(new_left) + abs(new_right) + abs(moved))
        return certify("wrong", "", new_left, new_right, slack=slack + moved, tolerance=bar, exact=exact)

    return function


def size(G: Any, *_: Any) -> int:
    return len(G)


CHANGED = [
    ("theorem-4.1", "plus a hundredth", changed("theorem-4.1", None, lhs=lambda x, y, G: x + 0.01)),
    ("theorem-4.1", "2.1 cv^2", changed("theorem-4.1", None, lhs=lambda x, y, G: math.log1p(2.1 * math.expm1(x)))),
    ("theorem-4.1", "equality", changed("theorem-4.1", None, lhs=lambda x, y, G: y, rhs=lambda x, y, G: x)),
    ("theorem-4.1-sharp", "1 % more", changed("theorem-4.1-sharp", 0, lhs=lambda x, y, G: 1.01 * x)),
    ("theorem-4.1-sharp", "plus a hundredth", changed("theorem-4.1-sharp", 0, lhs=lambda x, y, G: x + 0.01)),
    ("theorem-4.1-sharp", "equality", changed("theorem-4.1-sharp", 0, lhs=lambda x, y, G: y, rhs=lambda x, y, G: x)),
    (
        "theorem-4.1-sharp",
        "unbiased, 1 % more",
        changed("theorem-4.1-sharp", 1, lhs=lambda x, y, G: math.log1p(1.01 * math.expm1(x))),
    ),
    ("corollary-4.2", "plus a hundredth", changed("corollary-4.2", None, lhs=lambda x, y, X, e: x + 0.01)),
    ("corollary-4.2", "1 % more", changed("corollary-4.2", None, lhs=lambda x, y, X, e: 1.01 * x)),
    ("corollary-4.2", "equality", changed("corollary-4.2", None, lhs=lambda x, y, X, e: y, rhs=lambda x, y, X, e: x)),
    ("corollary-4.3", "plus a hundredth", changed("corollary-4.3", None, lhs=lambda x, y, X: x + 0.01)),
    (
        "corollary-4.3",
        "2.1 cv^2",
        changed("corollary-4.3", None, lhs=lambda x, y, X: math.log1p(2.1 * math.expm1(x))),
    ),
    ("corollary-4.3", "equality", changed("corollary-4.3", None, lhs=lambda x, y, X: y, rhs=lambda x, y, X: x)),
    ("d2", "lower, 1 % more", changed("d2", 0, lhs=lambda x, y, G: 1.01 * x)),
    ("d2", "upper, 1 % less", changed("d2", 1, rhs=lambda x, y, G: 0.99 * y)),
    ("d2", "upper, 1 - det 1 % more", changed("d2", 1, rhs=lambda x, y, G: 1 - 1.01 * (1 - y))),
    ("d3", "1 % less", changed("d3", 0, rhs=lambda x, y, G: 0.99 * y)),
    ("d3", "half of (n-1) m^2", changed("d3", 1, rhs=lambda x, y, G: 0.5 * y)),
    ("d3", "n - 2 for n - 1", changed("d3", 1, rhs=lambda x, y, G: y * (size(G) - 2) / max(size(G) - 1, 1))),
    ("l1", "1 % less", changed("l1", 0, rhs=lambda x, y, A, B: 0.99 * y)),
    ("l1", "the product of both squared", changed("l1", 0, rhs=lambda x, y, A, B: y * y)),
    ("l3", "lower, 1 % more", changed("l3", 0, lhs=lambda x, y, G: 1.01 * x)),
    ("l3", "gap, 1 % less", changed("l3", 1, rhs=lambda x, y, G: 0.99 * y)),
    ("l3", "square, 1 % less", changed("l3", 2, rhs=lambda x, y, G: 0.99 * y)),
    ("l3", "gap, n - 1 for n", changed("l3", 1, rhs=lambda x, y, G: y * (size(G) - 1) / size(G))),
    ("l3", "odds of mu^2", changed("l3", 3, rhs=lambda x, y, G: -math.log(-math.expm1(-y) * (math.exp(-y) + 1) or 1))),
]


# --- with hypotheses taken away -----------------------------------------------------------------------------


def e2_against_the_raw_gram_matrix(X: Any, eps: Any) -> Any:
    """Corollary 4.2 as printed: layer normalisation does not decrease the isometry of the inputs as they come."""
    rows = np.array(X, dtype=float)
    raw, centred = (isometry(Z) for Z in (rows, rows - rows.mean(axis=1, keepdims=True)))
    return raw, centred + 1e-9, {"well conditioned": raw > 1e-3}


def layer_norm_gain_in_spite_of_eps(X: Any, eps: Any) -> Any:
    """The gain log(1 + cv^2) that eps > 0 does not assure."""
    rows = np.array(X, dtype=float)
    z = rows - rows.mean(axis=1, keepdims=True)
    a = np.linalg.norm(z, axis=1)
    if not a.all() or not eps:
        return NOTHING
    b = a / np.sqrt(a * a + rows.shape[1] * float(eps))
    return math.log1p(a.var() / a.mean() ** 2), spread(a) - spread(b) + 1e-9


def batch_norm_against_the_raw_features(X: Any) -> Any:
    rows = np.array(X, dtype=float).T
    raw, centred = (isometry(Z) for Z in (rows, rows - rows.mean(axis=1, keepdims=True)))
    return raw, centred + 1e-9, {"well conditioned": raw > 1e-3}


def isometry(rows: np.ndarray) -> float:
    """Of the normalised rows; 0 where one is 0."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not (lengths > 1e-9 * np.abs(rows).max()).all():
        return 0.0
    unit = rows / lengths
    return max(float(np.linalg.det(unit @ unit.T)), 0.0) ** (1 / len(rows))


def spread(a: np.ndarray) -> float:
    return math.log(np.square(a / a.max()).mean()) - 2 * float(np.log(a / a.max()).mean())


def d3_max_up_to_1(G: Any) -> Any:
    """gap <= (n-1) m^2 for (n-1) m <= 1 in place of 1/2."""
    rows = as_fractions(G)
    n, m, det = len(rows), largest(rows), exact_determinant(rows)
    gap = -math.log(det) / n if det > 0 else math.inf
    return gap, float((n - 1) * m * m) + 1e-12, {"small": (n - 1) * m <= 1, "semidefinite": det >= 0}


MISSING = [
    ("corollary-4.2", e2_against_the_raw_gram_matrix),
    ("corollary-4.2", layer_norm_gain_in_spite_of_eps),
    ("corollary-4.3", batch_norm_against_the_raw_features),
    ("d3", d3_max_up_to_1),
]


class RefutedError(Exception):
    """One counterexample is enough."""


def tried(label: str, function: Callable[..., Any], examples: int = 1000) -> Verdict:
    claim = dataclasses.replace(CLAIMS[label], function=function)
    has_exact = "exact" in inspect.signature(function).parameters

    def until_refuted(*arguments: Any, exact: bool = False) -> Certificate:
        certificate = claim(*arguments, exact=exact and has_exact)
        if certificate.verdict is Verdict.FAILS:
            raise RefutedError
        return certificate

    try:
        return dataclasses.replace(claim, function=until_refuted).verify(examples=examples, seed=7).verdict
    except RefutedError:
        return Verdict.FAILS


@pytest.mark.parametrize(("label", "wrong"), RATIONAL, ids=lambda x: getattr(x, "__name__", x))
def test_wrong_forms_computed_by_rationals_are_refuted(label: str, wrong: Callable[..., Any]) -> None:
    assert tried(label, on_rationals(wrong)) is Verdict.FAILS


@pytest.mark.parametrize(("label", "what", "wrong"), CHANGED, ids=lambda x: x if isinstance(x, str) else "")
def test_wrong_sides_are_refuted(label: str, what: str, wrong: Callable[..., Any]) -> None:
    assert tried(label, wrong) is Verdict.FAILS


@pytest.mark.parametrize(("label", "wrong"), MISSING, ids=lambda x: getattr(x, "__name__", x))
def test_missing_hypotheses_are_refuted(label: str, wrong: Callable[..., Any]) -> None:
    assert tried(label, wrong) is Verdict.FAILS


SURVIVORS = [
    ("d4", on_rationals(gershgorin_half_the_exponent), "true: eigenvalues lie in 1 -+ R, and their mean is 1"),
    ("d1", on_rationals(d1_without_hypothesis), "true: where (n-1) m > 1 the left side is negative"),
    ("d3", changed("d3", 1, rhs=lambda x, y, G: 0.99 * y), "true: .78 (n-1) m^2 is enough where (n-1) m <= 1/2"),
    ("l3", changed("l3", 3, rhs=lambda x, y, G: 0.99 * y), "the ratio stays below (n-1)/n: false from n = 101 on"),
]


@pytest.mark.parametrize(("label", "weaker", "reason"), SURVIVORS, ids=["d4", "d1", "d3", "l3"])
def test_what_survives_is_true_on_what_is_drawn(label: str, weaker: Callable[..., Any], reason: str) -> None:
    assert reason
    assert tried(label, weaker, examples=300) in (Verdict.HOLDS, Verdict.UNDECIDED)


def test_the_survivor_of_l3_is_false_for_many_inputs() -> None:
    n, mu = 400, 0.999999
    gamma = -((n - 1) * math.log1p(-mu) + math.log1p((n - 1) * mu)) / n
    assert gamma <= -math.log1p(-mu)
    assert gamma > 0.95 * -math.log1p(-mu)


@pytest.mark.parametrize("label", sorted({row[0] for row in (*RATIONAL, *CHANGED, *MISSING)}))
def test_the_true_claims_are_not_refuted(label: str) -> None:
    assert CLAIMS[label].verify(examples=200, seed=7).verdict is Verdict.HOLDS
