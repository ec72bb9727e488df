"""What is claimed of one map of correlations, f(rho) = sum over k >= 1 of w_k rho^k, with r = w_1 = 2 - beta.

All of it rests on f(x) <= r x + (1 - r) x^2 for 0 <= x <= 1, and |f(rho)| <= f(|rho|).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import EPS, Bracket, identical
from bounds._certificate import Certificate, Hypothesis, certify
from bounds._judge import answer
from bounds._polynomial import rational_weights
from bounds._strengths import Strength, degree, strength
from hermite._activation import ActivationLike
from hermite.errors import MissingDependencyError
from meanfield._layer import Layer

__all__ = ["correlations", "dual_contraction", "gradient_tradeoff"]

Floats: TypeAlias = NDArray[np.float64]


def dual_contraction(sigma: ActivationLike, rho: Any, *, exact: bool = False) -> Certificate:
    """One layer divides the odds of a correlation by the isometry strength at least, and by more if it is small.

        |f(rho)|/(1 - |f(rho)|)  <=  h(|rho|) |rho|/(1 - |rho|),   h(x) = (r + (1-r) x)/(1 + (1-r) x)  <=  1/beta,

    for |rho| < 1, compared by logarithms: sides "beta", with 1/beta, and "sharp", with h. Equality of "sharp" for
    r He_1 and He_2 in any mixture and rho >= 0, or for affine sigma; 1/beta is only approached, as rho goes to 1.

    Proof. With x = |rho|, |f(rho)| <= x (r + (1-r) x), and 1 - x (r + (1-r) x) = (1 - x)(1 + (1-r) x).

    sigma: anything `hermite.activation` accepts.  rho: a number or an array of shape (m,), in [-1, 1].  exact: decide
    by ball arithmetic (extra `rigor`; no callables).  Returns a certificate with lhs, rhs, slack of shape (2, m).
    |rho| = 1 is NOT_APPLICABLE: 1 and, for odd sigma - c_0, -1 are kept. Raises ValueError for rho outside [-1, 1], and
    as `hermite.dual`.
    Source: arXiv:2305.18399, Lemma A.7, where "strictly larger" needs rho != 0.  The error counted is that of f, 4e-15
    f(|rho|), of 1 - f next to 1, and of r.

    >>> certificate = dual_contraction("relu", [0.5, -0.5])
    >>> certificate.verdict.name, certificate.slack.round(4).tolist()
    ('HOLDS', [[0.0602, 0.5777], [0.0283, 0.5458]])
    """
    layer, points = Layer(sigma), correlations(rho)
    inside = np.abs(points) < 1.0
    sides = _proven(layer, points) if exact else _rounded(layer, points)
    kept = degree(layer) == 1
    lhs, by_beta, by_h = sides
    first = identical(lhs, by_beta, (points == 0.0) | kept)
    second = identical(
        lhs, by_h, (points == 0.0) | kept | ((degree(layer) <= 2) & ((points >= 0.0) | (layer.step.parity != 0)))
    )
    detail = f"largest |rho| = {float(np.abs(points).max()):.6g}"
    found = answer(
        "lemma-a.7",
        "arXiv:2305.18399, Lemma A.7",
        [first[0], second[0]],
        [first[1], second[1]],
        hypotheses=[Hypothesis("|rho| < 1 for some rho", bool(inside.any()), detail)],
        applicable=np.array([inside, inside]),
        sides=("beta", "sharp"),
        statement="log odds of |f(rho)| <= log odds of |rho| - log beta, and + log h(|rho|)",
        exact=exact,
    )
    return found


def gradient_tradeoff(sigma: ActivationLike, *, exact: bool = False) -> Certificate:
    """An activation that drives inputs apart faster makes gradients grow faster: f'(1) >= beta.

        beta  <=  f'(1) = E sigma'(X)^2 / Var sigma(X),

    the factor by which gradients grow in each layer where inputs coincide; infinite for jumps. Equality iff
    sigma is a polynomial of degree at most 2.

    Proof. f'(1) = sum of k w_k = r + 2 (1 - r) + sum over k >= 3 of (k - 2) w_k, and r + 2 (1 - r) = beta.

    sigma: anything `hermite.activation` accepts.  exact: decide by a proven lower bound of slack, from w_1..w_12 in
    balls (extra `rigor`; no callables); polynomials in exact numbers are decided by their rational weights anyway.
    Raises as `hermite.dual`.
    Source: the sum above; arXiv:2305.18399 has beta only.  Slack is that sum, without cancellation, where the series
    converges; else f'(1), counted with 1e-13 of itself, less beta with its error.

    >>> certificate = gradient_tradeoff("relu")
    >>> round(certificate.lhs, 6), round(certificate.rhs, 6), certificate.verdict.name
    (1.266529, 1.466942, 'HOLDS')
    """
    layer = Layer(sigma)
    known = strength(layer)
    beta, slope = 1.0 + known.excess, float(layer.step.slope(np.ones(1))[0])
    slack, bar, equal = _beyond_two(layer, slope, known, exact)
    return certify(
        "r7",
        "sum of (k - 2) w_k, proof in the docstring",
        beta,
        beta if equal else slope,
        tolerance=bar,
        slack=slack,
        exact=exact,
        statement="beta <= f'(1)",
    )


def _beyond_two(layer: Layer, slope: float, known: Strength, exact: bool) -> tuple[Any, Any, bool]:
    """The sum of (k - 2) w_k over k >= 3, its error, and whether it is 0 because there is nothing."""
    weights = rational_weights(layer.sigma)
    if weights is not None or degree(layer) <= 2:
        beyond = sum(((k - 2) * w for k, w in enumerate(weights or ()) if k > 2), Fraction(0))
        return beyond, 0.0, not beyond
    if math.isinf(slope):
        return math.inf, 0.0, False
    if exact:
        return *_tradeoff_in_balls(layer), False
    series = layer.step.f
    if series.missing or not len(series.weights):
        return slope - 1.0 - known.excess, 1e-13 * slope + known.error, False
    k, w = np.arange(len(series.weights)), series.weights
    factors = np.maximum(k - 2.0, 0.0)
    # c_k is off by e sqrt(E sigma^2), and what is at that level was set to 0; what is beyond the series would only add
    e = series.moments.error * math.sqrt(series.moments.second / series.moments.variance)
    found = float((factors * w).sum())
    return found, 1e-13 * found + float((factors * (2.0 * e * np.sqrt(w) + e * e)).sum()), False


def _tradeoff_in_balls(layer: Layer) -> tuple[Fraction, Fraction]:
    try:
        from bounds._scalar_balls import tradeoff_in_balls
    except ImportError as error:
        raise MissingDependencyError("exact=True needs python-flint: pip install 'isogram[rigor]'") from error
    for digits in (30, 100, 300):
        slack, bar = tradeoff_in_balls(layer, 12, digits)
        if bar < abs(slack):
            break
    return slack, bar


def correlations(rho: Any) -> Floats:
    """rho as an array of shape (m,), checked."""
    given = np.asarray(rho)
    if given.ndim > 1 or given.dtype.kind not in "fiuO":
        raise ValueError(f"rho must be a number or an array of shape (m,), got {rho!r:.100}")
    points = np.atleast_1d(given).astype(np.float64)
    if not len(points) or not np.all(np.abs(points) <= 1.0):
        raise ValueError(f"rho must lie in [-1, 1], got {rho!r:.100}")
    return points


def _rounded(layer: Layer, points: Floats) -> tuple[Bracket, Bracket, Bracket]:
    """Both sides in float64: log odds of |f|, and the two bounds."""
    step, known, x = layer.step, strength(layer), np.abs(points)
    rest = 1.0 - x
    above = np.maximum(step.complement(rest), 0.0)  # 1 - f(|rho|), relatively
    top = np.where(x < 0.5, step(x), 1.0 - above)
    error = 2.0 * step.rounding * top + 2.0**-1073  # of what underflows, the smallest float
    mirrored = (points < 0.0) & (step.parity == 0)
    value = np.where(mirrored, np.abs(step(points)), top)
    gap = np.where(mirrored, 1.0 - value, above)
    room = np.where(mirrored, error + EPS, 2.0 * step.rounding * above)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [np.log(np.maximum(value + e, 0.0)) - np.log(np.maximum(gap + g, 0.0)) for e, g in _ends(error, room)]
        start = Bracket(*[np.log(x) - np.log(rest)] * 3).widened()
        factors = [np.log(_factor(r, x)) for r in (known.r, known.low, known.high)]
    lhs = Bracket(*[_number(each, points) for each in logs]).widened()
    start = Bracket(*[_number(each, points) for each in (start.value, start.low, start.high)])
    log_beta, bar = known.log_beta
    by_beta = start - Bracket(*[np.full_like(x, b) for b in (log_beta, log_beta - bar, log_beta + bar)])
    return lhs, by_beta.widened(), (start + Bracket(*factors)).widened()


def _factor(r: float, x: Floats) -> Floats:
    """h(x)."""
    return np.asarray((r + (1.0 - r) * x) / (1.0 + (1.0 - r) * x))


def _ends(error: Floats, room: Floats) -> list[tuple[Any, Any]]:
    return [(0.0, 0.0), (-error, room), (error, -room)]


def _number(logs: Floats, points: Floats) -> Floats:
    """Where |rho| = 1 nothing is claimed, and no inf - inf may stay."""
    return np.asarray(np.where(np.abs(points) < 1.0, logs, 0.0))


def _proven(layer: Layer, points: Floats) -> Any:
    """The same in balls, at the precision at which they are then compared."""
    try:
        from bounds._scalar_balls import odds_in_balls
    except ImportError as error:
        raise MissingDependencyError("exact=True needs python-flint: pip install 'isogram[rigor]'") from error
    return odds_in_balls(layer, points)
