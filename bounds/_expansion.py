"""What rests on the Hermite expansion alone: Parseval, Mehler's kernel, the series of the dual, the range of beta."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._certificate import Certificate, Hypothesis, certify
from bounds._polynomial import rational_weights
from bounds._strengths import strength
from hermite._activation import ActivationLike
from hermite._build import reduced_dual
from hermite._numbers import as_fraction
from hermite._numeric import coefficients, varying
from hermite._polynomials import check_degree, polynomials
from meanfield._layer import Layer

__all__ = ["dual_series", "mehler", "parseval", "strength_range"]

Floats: TypeAlias = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
_CRAMER = 1.0865  # |He_k(x)| <= 1.0865 exp(x^2/4) for normalised He_k and every k (H. Cramer; the constant is 1.086435)


def parseval(sigma: ActivationLike, degree: int) -> Certificate:
    """The squares of the Hermite coefficients add up to no more than the second moment, whatever the degree.

        c_0^2 + ... + c_K^2  <=  E sigma(X)^2     for K = 0..degree,

    divided by E sigma^2: rhs is 1, and slack the share of the terms beyond K, which falls with K. Equality from K on
    iff sigma is a polynomial of degree K at most.

    sigma: anything `hermite.activation` accepts.  degree: from 0 to 1000.  Returns a certificate over K = 0..degree.
    Raises ConstantActivationError for a constant sigma, NotSquareIntegrableError, and ValueError for the degree.
    Source: Parseval's identity; arXiv:2305.18399, section 3.  The slack is a sum of squares as long as coefficients are
    at hand, not 1 less a sum; what is missing beyond them is known to the error of `hermite.moments`.

    >>> certificate = parseval("relu", 4)
    >>> certificate.verdict.name, certificate.slack.round(5).tolist()
    ('HOLDS', [0.68169, 0.18169, 0.02254, 0.02254, 0.00927])
    """
    check_degree(degree)
    layer = Layer(sigma)
    low = varying(layer.sigma)
    _, tails, error = _weights(layer, degree)
    share = low.variance / low.second
    tail = share * tails
    exact = _degree(layer) <= np.arange(degree + 1)
    bar = np.where(exact, 0.0, share * error + 4.0 * low.error * tail + 8.0 * EPS * tail)
    slack = np.where(exact, 0.0, tail)
    return certify(
        "h2",
        "Parseval's identity",
        np.where(exact, 1.0, 1.0 - tail),
        np.ones(degree + 1),
        slack=slack,
        tolerance=bar,
        statement="(c_0^2 + ... + c_K^2) / E sigma^2 <= 1; entries are K = 0, 1, ...",
    )


def mehler(rho: float, x: float, y: float, degree: int, *, exact: bool = False) -> Certificate:
    """Mehler's kernel is the sum of rho^k He_k(x) He_k(y): what is left after K terms is bounded at every point.

        | p(x, y)/(p(x) p(y)) - sum over k <= K of rho^k He_k(x) He_k(y) |
            <=  1.0865^2 exp((x^2 + y^2)/4) |rho|^(K+1)/(1 - |rho|),

    p the densities of standard normal X, Y with correlation rho, |rho| < 1, He_k the normalised Hermite polynomials.

    Proof. The series is Mehler's formula, and |He_k(x)| <= 1.0865 exp(x^2/4) is Cramer's inequality: the rest is a
    geometric series.

    rho, x, y: numbers, |x| and |y| at most 30.  degree: K, from 0 to 1000.  |rho| >= 1 is NOT_APPLICABLE: there the
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
        lhs, rhs, bar = (_kernel_exactly if exact else _kernel)(r, a, b, degree)
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


def dual_series(sigma: ActivationLike, rho: Any, degree: int) -> Certificate:
    """The map of correlations is a power series with coefficients >= 0: how far off its first terms are, and its sizes.

    With f(rho) = sum over k >= 1 of w_k rho^k, w_k = c_k^2/Var sigma, and T_K = w_(K+1) + w_(K+2) + ...,

        "series"   |f(rho) - sum over k <= K of w_k rho^k| <= |rho|^(K+1) T_K,   an equation at rho = 1;
        "modulus"  |f(rho)| <= f(|rho|);      "top"   f(|rho|) <= 1 = f(1).

    sigma: anything `hermite.activation` accepts.  rho: a number or an array of shape (m,) in [-1, 1].  degree: K >= 1.
    Returns a certificate with lhs, rhs, slack of shape (3, m). Raises ValueError for rho and degree, and as
    `hermite.dual`.
    Source: arXiv:2305.18399, Lemmas A.5 and A.6.  f is counted with 4e-15 f(|rho|), the terms with their error.

    >>> certificate = dual_series("relu", [0.5, -0.9], 8)
    >>> certificate.verdict.name, certificate.lhs[0] <= certificate.rhs[0]
    ('HOLDS', array([ True,  True]))
    """
    from bounds._scalar import correlations

    if check_degree(degree) < 1:
        raise ValueError(f"degree must be at least 1, got {degree!r}")
    layer, points = Layer(sigma), correlations(rho)
    weights, tails, error = _weights(layer, degree)
    x, k = np.abs(points), np.arange(1, degree + 1)
    step = layer.step
    value, top = step(points), step(x)
    room = 2.0 * step.rounding * top + EPS * (degree + 4) * top
    terms = (points[:, None] ** k * weights[1:]).sum(axis=1)
    series_room = room + (x[:, None] ** k * (4.0 * EPS * weights[1:] + error)).sum(axis=1)
    power = x ** (degree + 1)
    known = rational_weights(layer.sigma)
    beyond = None if known is None else [k for k, w in enumerate(known) if w and k > degree]
    exact = (points == 0.0) | (beyond == [])
    # the first term beyond is all there is, or rho = 1: an equation
    attained = (points == 1.0) | (beyond == [degree + 1])
    same = (points >= 0.0) | (step.parity != 0)
    below = np.where(x == 1.0, 0.0, np.maximum(step.complement(1.0 - x), 0.0))  # 1 - f(|rho|)
    left = np.where(exact, 0.0, power * tails[degree])
    lhs = [np.where(exact | attained, left, np.abs(value - terms)), np.where(same, top, np.abs(value)), 1.0 - below]
    rhs = [left, top, np.ones_like(x)]
    bars = [
        np.where(exact | attained, 0.0, series_room + power * error),
        np.where(same, 0.0, 2.0 * room),
        2.0 * step.rounding * below,
    ]
    slack = [rhs[0] - lhs[0], rhs[1] - lhs[1], below]
    return certify(
        "lemma-a.6",
        "arXiv:2305.18399, Lemmas A.5 and A.6",
        np.array(lhs),
        np.array(rhs),
        slack=np.array(slack),
        tolerance=np.array(bars),
        sides=("series", "modulus", "top"),
        statement="|f(rho) - its first K terms| <= |rho|^(K+1) T_K; |f(rho)| <= f(|rho|); f(|rho|) <= 1",
    )


def strength_range(sigma: ActivationLike) -> Certificate:
    """The isometry strength lies between 1 and 2: 1 just for affine activations, 2 just for those without slope.

    beta = 2 - c_1^2/(c_1^2 + c_2^2 + ...): sides "lower", 1 <= beta, an equation iff sigma is affine, and "upper",
    beta <= 2, an equation iff c_1 = 0, as for every even sigma.

    sigma: anything `hermite.activation` accepts. Raises ConstantActivationError for a constant sigma, and as
    `hermite.isometry_strength`, whose error is counted; both slacks are known without cancellation.
    Source: arXiv:2305.18399, section 5 and Table B.1.

    >>> certificate = strength_range("relu")
    >>> certificate.verdict.name, certificate.slack.round(6).tolist()
    ('HOLDS', [0.266529, 0.733471])
    """
    known = strength(Layer(sigma))
    beta = 1.0 + known.excess
    return certify(
        "strength-range",
        "arXiv:2305.18399, section 5",
        [1.0, beta],
        [beta, 2.0],
        slack=[known.excess, known.r],
        tolerance=[known.error, max(known.r - known.low, known.high - known.r)],
        sides=("lower", "upper"),
        statement="1 <= beta; beta <= 2",
    )


_FARTHEST = 30


def _kernel(rho: float, x: float, y: float, degree: int) -> tuple[float, float, float]:
    """Both sides and the error of their difference."""
    k = np.arange(degree + 1)
    terms = rho**k * polynomials(x, degree) * polynomials(y, degree)
    rest = (1.0 - rho) * (1.0 + rho)
    kernel = math.exp(-(rho * rho * (x * x + y * y) - 2.0 * rho * x * y) / (2.0 * rest)) / math.sqrt(rest)
    sizes = _CRAMER**2 * math.exp((x * x + y * y) / 4.0)
    rhs = sizes * abs(rho) ** (degree + 1) / (1.0 - abs(rho))
    # a term of the recurrence is off by some eps k of the envelope, and the exponent by eps of its parts
    parts = (abs(rho) * (abs(x) + abs(y)) ** 2) / rest + 4.0
    bar = 16.0 * EPS * (sizes * float(((k + 1.0) * abs(rho) ** k).sum()) + kernel * parts / rest)
    return abs(kernel - float(terms.sum())), rhs, bar


def _kernel_exactly(rho: float, x: float, y: float, degree: int) -> tuple[Fraction, Fraction, Fraction]:
    """The same in multiprecision: what cancels is won back by digits, since rhs is not below |rho|^(K+1)."""
    from mpmath import MPContext

    mp = MPContext()
    lost = (degree + 1) * -math.log10(abs(rho)) + (x * x + y * y) / 4.0
    mp.dps = 60 + int(lost) + int((abs(x) + abs(y)) ** 2 / (1.0 - abs(rho)) ** 2 % 1e3)
    r, a, b = mp.mpf(rho), mp.mpf(x), mp.mpf(y)
    u, v = [mp.mpf(1), a], [mp.mpf(1), b]
    for h, z in ((u, a), (v, b)):
        for k in range(1, degree):
            h.append((z * h[k] - mp.sqrt(k) * h[k - 1]) / mp.sqrt(k + 1))
    total = mp.fsum(r**k * u[k] * v[k] for k in range(degree + 1))
    rest = (1 - r) * (1 + r)
    kernel = mp.exp(-(r * r * (a * a + b * b) - 2 * r * a * b) / (2 * rest)) / mp.sqrt(rest)
    sizes = mp.mpf("1.0865") ** 2 * mp.exp((a * a + b * b) / 4)
    lhs, rhs = abs(kernel - total), sizes * abs(r) ** (degree + 1) / (1 - abs(r))
    bar = (sizes * (degree + 2) ** 2 + kernel) * mp.mpf(10) ** (20 - mp.dps) / rest
    first, second, third = (as_fraction(each, "side") for each in (lhs, rhs, bar))
    return first, second, third


def _degree(layer: Layer) -> float:
    """The degree of a polynomial in exact numbers, infinite for everything else."""
    known = rational_weights(layer.sigma)
    return math.inf if known is None else len(known) - 1


def _weights(layer: Layer, top: int) -> tuple[Floats, Floats, float]:
    """w_0 = 0, w_1..w_top; T_0..T_top, the sums of what is beyond; and the absolute error of each."""
    low, known = varying(layer.sigma), reduced_dual(layer.sigma)
    weights = np.zeros(top + 1)
    have = min(len(known.weights), top + 1)
    weights[:have] = known.weights[:have]
    if have > top:
        beyond = float(np.sum(known.weights[top + 1 :])) + known.missing
    else:
        if known.missing:
            weights[have:] = np.square(coefficients(layer.sigma, top)[have:] / math.sqrt(low.variance))
        beyond = max(known.missing - float(weights[have:].sum()), 0.0)
    tails = beyond + np.concatenate([np.cumsum(weights[:0:-1])[::-1], [0.0]])
    return weights, tails, 16.0 * low.error + 4.0 * EPS
