"""The gaps of equicorrelated matrices, and other increasing functions that claims over depth pass logarithms through.

    Gamma_n(mu)  = -(1/n) [(n-1) log(1 - mu) + log(1 + (n-1) mu)]     all correlations mu, 0 <= mu <= 1,
    Gamma_n^-(t) = -(1/n) [(n-1) log(1 + t) + log(1 - (n-1) t)]       all correlations -t, 0 <= t < 1/(n-1):

with e(t) = t - log(1 + t) they are ((n-1) e(-mu) + e((n-1) mu))/n and ((n-1) e(t) + e(-(n-1) t))/n, whose terms are not
negative: the linear ones cancel before anything is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bounds._bracket import Increasing
from meanfield._gap import log1p_excess

__all__ = [
    "LOG_EXPM1",
    "LOG_FROM_ODDS",
    "LOG_LOG1P_EXP",
    "excess",
    "log_gamma",
    "log_gamma_floor",
    "log_gamma_minus",
    "log_psi",
    "log_psi_from_log",
]

Floats: TypeAlias = NDArray[np.float64]

_SQUARE = -230.0  # logarithms below which only the square of the number counts


@lru_cache(maxsize=64)
def log_gamma(n: int) -> Increasing:
    """log mu -> log Gamma_n(mu), for mu from 0 to 1."""

    def of_float(x: float) -> float:
        if n == 1 or x == -math.inf:
            return -math.inf
        if x < _SQUARE:  # Gamma_n(mu) = (n-1) mu^2/2 (1 + O(n mu)), and the square would underflow
            return math.log((n - 1) / 2) + 2.0 * x
        mu = math.exp(x)
        return math.log(((n - 1) * excess(-mu) + excess((n - 1) * mu)) / n) if mu < 1.0 else math.inf

    return Increasing(_each(of_float), lambda x: _gamma_ball(n, x, 1))


@lru_cache(maxsize=64)
def log_gamma_minus(n: int) -> Increasing:
    """log t -> log Gamma_n^-(t), infinite from t = 1/(n-1) on."""

    def of_float(x: float) -> float:
        if n == 1 or x == -math.inf:
            return -math.inf
        if x < _SQUARE:
            return math.log((n - 1) / 2) + 2.0 * x
        t = math.exp(x)
        rest = (n - 1) * t
        return math.inf if rest >= 1.0 else math.log(((n - 1) * excess(t) + excess(-rest)) / n)

    return Increasing(_each(of_float), lambda x: _gamma_ball(n, x, -1))


@lru_cache(maxsize=64)
def log_psi(power: float) -> Increasing:
    """log(m/(1 - m)) -> log(m / (1 - m)^power), power >= 1."""
    return Increasing(
        lambda x: np.asarray(power * np.logaddexp(0.0, x) - np.logaddexp(0.0, -x)),
        lambda x: type(x)(power) * x.exp().log1p() + _odds_ball(x),
    )


@lru_cache(maxsize=64)
def log_psi_from_log(power: float) -> Increasing:
    """log m -> log(m / (1 - m)^power), infinite from m = 1 on."""

    def of_floats(x: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.where(x >= 0.0, math.inf, x - power * _log_complement(np.minimum(x, 0.0))))

    return Increasing(of_floats, lambda x: x - type(x)(power) * (-x.exp()).log1p() if x < 0 else x.pos_inf())


@lru_cache(maxsize=64)
def log_gamma_floor(n: int) -> Increasing:
    """log mu -> log of (n-1) mu^2 / (2 (1 + (n-2) mu)), which Gamma_n(mu) is at least."""
    if n == 1:
        return Increasing(lambda x: np.full_like(x, -math.inf), lambda x: x.neg_inf())
    constant = math.log((n - 1) / 2)
    return Increasing(
        lambda x: np.asarray(constant + 2.0 * x - np.log1p((n - 2) * np.exp(np.minimum(x, 0.0)))),
        lambda x: (type(x)(n - 1) / 2).log() + 2 * x - ((n - 2) * x.exp()).log1p(),
    )


def _log_complement(x: Floats) -> Floats:
    """log(1 - e^x) for x <= 0."""
    return np.asarray(np.where(x > -0.7, np.log(-np.expm1(x)), np.log1p(-np.exp(x))))


def _gamma_ball(n: int, x: Any, sign: int) -> Any:
    """log Gamma_n or log Gamma_n^- of e^x: (n-1) times the integral of s/((1 -+ s)(1 +- (n-1) s)) from 0 to e^x.

    So with y = e^x they lie between (n-1) y^2/2 divided by 1 + (n-2) y and by 1 - y, or by 1 + y and by 1 - (n-1) y.
    """
    y = x.exp()
    if n == 1 or y.is_zero():
        return x.neg_inf()
    pole = -y if sign > 0 else (1 - n) * y
    if (1 + pole) <= 0:  # -inf of a logarithm, or beyond the pole
        return x.pos_inf()
    ends = [((n - 2) * y if sign > 0 else y).log1p(), pole.log1p()]
    found = (type(x)(n - 1) / 2).log() + 2 * x - ends[0].union(ends[1])
    first, second = (-y).log1p() if sign > 0 else y.log1p(), ((n - 1) * y if sign > 0 else pole).log1p()
    value = ((1 - n) * first - second) / n
    if not value > 0:
        return found
    direct = value.log()
    return direct if direct.rad() < found.rad() or not found.is_finite() else found


def _log_log1p_exp(x: Floats) -> Floats:
    """log(log(1 + e^x)), which is x - e^x/2 + ... for x towards -inf."""
    inner = np.log(np.logaddexp(0.0, np.maximum(x, -36.0)))
    return np.asarray(np.where(x < -36.0, x, inner))


def _odds_ball(x: Any) -> Any:
    """log of m from log of m/(1 - m), infinities included."""
    return x if x == x.neg_inf() else -(-x).exp().log1p()


def _log_log1p_exp_ball(x: Any) -> Any:
    """log log(1 + e^x)."""
    return x if x == x.neg_inf() or x == x.pos_inf() else x.exp().log1p().log()


def _log_expm1_ball(x: Any) -> Any:
    return x if x == x.pos_inf() else x.expm1().log()


LOG_LOG1P_EXP = Increasing(_log_log1p_exp, _log_log1p_exp_ball)
LOG_EXPM1 = Increasing(
    lambda x: np.asarray(x + np.log(-np.expm1(-x))), lambda x: x.expm1().log() if x.is_finite() else x
)
LOG_FROM_ODDS = Increasing(lambda x: np.asarray(-np.logaddexp(0.0, -x)), _odds_ball)


def excess(t: float) -> float:
    """t - log1p(t) to full relative accuracy."""
    return float(log1p_excess(np.array(t))) if abs(t) < 0.5 else t - math.log1p(t)


def _each(function: Callable[[float], float]) -> Callable[[Floats], Floats]:
    return lambda x: np.array([function(each) for each in x.tolist()])
