"""What rests on the Hermite expansion alone: Parseval, Mehler's kernel, the series of the dual, the range of beta."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from bounds._certificate import Certificate, Hypothesis, certify
from bounds._expansion_sides import (
    kernel,
    kernel_exactly,
    known_degree,
    rest,
    rest_in_balls,
    strengths,
    strengths_in_balls,
    terms,
    terms_exactly,
)
from bounds._scalar import correlations
from bounds._strengths import strength
from hermite._activation import ActivationLike
from hermite._polynomials import check_degree
from meanfield._layer import Layer

__all__ = ["dual_series", "mehler", "parseval", "strength_range"]

_FARTHEST = 30  # of arguments of Mehler's kernel: exp(450) and its squares are float64


def parseval(sigma: ActivationLike, degree: int, *, exact: bool = False) -> Certificate:
    """The squares of the Hermite coefficients add up to no more than the second moment, whatever the degree.

        c_0^2 + ... + c_K^2  <=  E sigma(X)^2     for K = 0..degree,

    divided by E sigma^2: rhs is 1, and slack the share of the terms beyond K, which falls with K. Equality from K on
    iff sigma is a polynomial of degree K at most.

    sigma: anything `hermite.activation` accepts, constants too.  degree: from 0 to 20000.  exact: decide by ball
    arithmetic (extra `rigor`; no callables).  Returns a certificate over K = 0..degree.
    Raises NotSquareIntegrableError, PrecisionError, and ValueError for the degree.
    Source: Parseval's identity; arXiv:2305.18399, section 3.  Coefficients and E (sigma - c_0 - c_1 X)^2 are integrals
    of their own; slack is the latter less c_2^2 + ... + c_K^2, with the errors of `hermite.moments`.

    >>> certificate = parseval("relu", 4)
    >>> certificate.verdict.name, certificate.slack.round(5).tolist()
    ('HOLDS', [0.68169, 0.18169, 0.02254, 0.02254, 0.00927])
    """
    check_degree(degree)
    layer = Layer(sigma)
    complete = np.arange(degree + 1) >= known_degree(layer)
    if complete[0]:
        slack, bar = np.zeros((2, degree + 1))
    else:
        slack, bar = (rest_in_balls if exact else rest)(layer, degree, complete)
    slack, bar = np.where(complete, 0, slack), np.where(complete, 0, bar)
    return certify(
        "h2",
        "arXiv:2305.18399, section 3 (Parseval's identity)",
        1 - slack,
        np.ones(degree + 1),
        slack=slack,
        tolerance=bar,
        exact=exact,
        statement="(c_0^2 + ... + c_K^2) / E sigma^2 <= 1; entries are K = 0, 1, ...",
    )


def mehler(rho: float, x: float, y: float, degree: int, *, exact: bool = False) -> Certificate:
    """Mehler's kernel is the sum of rho^k He_k(x) He_k(y): what is left after K terms is bounded at every point.

        | p(x, y)/(p(x) p(y)) - sum over k <= K of rho^k He_k(x) He_k(y) |
            <=  1.0865^2 exp((x^2 + y^2)/4) |rho|^(K+1)/(1 - |rho|),

    p the densities of standard normal X, Y with correlation rho, |rho| < 1, He_k the normalised Hermite polynomials.

    Proof. The series is Mehler's formula, and |He_k(x)| <= 1.0865 exp(x^2/4) is Cramer's inequality: the rest is a
    geometric series.

    rho, x, y: numbers, |x| and |y| at most 30.  degree: K, from 0 on.  |rho| >= 1 is NOT_APPLICABLE: there the
    kernel is a measure on the diagonal.  exact: by multiprecision, with as many digits as the bound needs. Raises
    ValueError for what is no finite number, and for the degree.
    Source: arXiv:2305.18399, Lemma A.8 (F. G. Mehler 1866); H. Cramer's inequality, DLMF 18.14.9.

    >>> certificate = mehler(0.5, 1.0, -0.5, 20)
    >>> certificate.verdict.name, certificate.lhs < 1e-7 < certificate.rhs
    ('HOLDS', True)
    """
    check_degree(degree)
    for name, value in (("rho", rho), ("x", x), ("y", y)):
        if isinstance(value, bool) or not isinstance(value, int | float | Fraction | np.number):
            raise ValueError(f"{name} must be a number, got {value!r}")
        if not abs(float(value)) <= _FARTHEST:
            raise ValueError(f"{name} must be a finite number of size at most {_FARTHEST}, got {value!r}")
    r, a, b = float(rho), float(x), float(y)
    inside = abs(r) < 1.0
    lhs: Any = 0.0
    rhs: Any = 0.0
    bar: Any = 0.0
    if inside and r != 0.0:
        lhs, rhs, bar = (kernel_exactly if exact else kernel)(r, a, b, degree)
    return certify(
        "lemma-a.8",
        "arXiv:2305.18399, Lemma A.8",
        lhs,
        rhs,
        tolerance=bar,
        hypotheses=[Hypothesis("|rho| < 1", inside, f"rho = {r:.6g}")],
        exact=exact,
        statement="|kernel - sum of K + 1 terms| <= 1.0865^2 exp((x^2 + y^2)/4) |rho|^(K+1)/(1 - |rho|)",
    )


def dual_series(sigma: ActivationLike, rho: Any, degree: int, *, exact: bool = False) -> Certificate:
    """The map of correlations is a power series with coefficients >= 0: how far off its first terms are, and its sizes.

    With f(rho) = sum over k >= 1 of w_k rho^k, w_k = c_k^2/Var sigma, and T_K = w_(K+1) + w_(K+2) + ...,

        "series"   |f(rho) - sum over k <= K of w_k rho^k| <= |rho|^(K+1) T_K,   an equation at rho = 1;
        "modulus"  |f(rho)| <= f(|rho|);      "top"   f(|rho|) <= 1 = f(1).

    sigma: anything `hermite.activation` accepts.  rho: a number or an array of shape (m,) in [-1, 1].  degree: K, from
    1 to 20000.  exact: decide by rational arithmetic for polynomials in exact numbers, else by ball arithmetic (extra
    `rigor`; no callables).  Returns a certificate with lhs, rhs, slack of shape (3, m). Raises ValueError for rho and
    degree, and as `hermite.dual`.
    Source: arXiv:2305.18399, Lemmas A.5 and A.6.  f is counted with 4e-15 f(|rho|), the terms with their error.

    >>> certificate = dual_series("relu", [0.5, -0.9], 8)
    >>> certificate.verdict.name, certificate.lhs[0] <= certificate.rhs[0]
    ('HOLDS', array([ True,  True]))
    """
    if check_degree(degree) < 1:
        raise ValueError(f"degree must be at least 1, got {degree!r}")
    layer, points = Layer(sigma), correlations(rho)
    lhs, rhs, slack, bars = (terms_exactly if exact else terms)(layer, points, degree)
    return certify(
        "lemma-a.6",
        "arXiv:2305.18399, Lemmas A.5 and A.6",
        lhs,
        rhs,
        slack=slack,
        tolerance=bars,
        sides=("series", "modulus", "top"),
        exact=exact,
        statement="|f(rho) - its first K terms| <= |rho|^(K+1) T_K; |f(rho)| <= f(|rho|); f(|rho|) <= 1",
    )


def strength_range(sigma: ActivationLike, *, exact: bool = False) -> Certificate:
    """The isometry strength lies between 1 and 2: 1 just for affine activations, 2 just for those without slope.

    beta = 2 - c_1^2/(c_1^2 + c_2^2 + ...): sides "lower", 1 <= beta, an equation iff sigma is affine, and "upper",
    beta <= 2, an equation iff c_1 = 0, as for every even sigma.

    sigma: anything `hermite.activation` accepts.  exact: decide by ball arithmetic (extra `rigor`; no callables);
    polynomials in exact numbers are decided by their rational weights anyway. Raises ConstantActivationError for a
    constant sigma, and as `hermite.isometry_strength`, whose error is counted; both slacks are known without
    cancellation.
    Source: arXiv:2305.18399, section 5 and Table B.1.

    >>> certificate = strength_range("relu")
    >>> certificate.verdict.name, certificate.slack.round(6).tolist()
    ('HOLDS', [0.266529, 0.733471])
    """
    layer = Layer(sigma)
    beta = 1.0 + strength(layer).excess
    slack, bar = (strengths_in_balls if exact else strengths)(layer)
    return certify(
        "strength-range",
        "arXiv:2305.18399, section 5",
        [1.0, beta],
        [beta, 2.0],
        slack=slack,
        tolerance=bar,
        sides=("lower", "upper"),
        exact=exact,
        statement="1 <= beta; beta <= 2",
    )
