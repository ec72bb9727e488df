"""Closed forms: Hermite coefficients, moments, isometry strength and dual of an activation as SymPy expressions.

The verbs are those of `hermite`. Every answer is exact and was checked against quadrature, or `NoClosedFormError` says
what was tried; nothing hangs, and no unevaluated integral is ever returned. What has closed forms is the family
polynomial x exp(quadratic) x sin/cos x erf on intervals: all piecewise polynomials, relu, leaky_relu, step, sign, abs,
elu, celu, selu, exp, sin, cos, erf, gelu, gaussian, He_k, |x|^p, shifted, scaled and added.

Symbols may stand for the gain, the shift, the parameters of an entry or of a text, and for whatever is not named x in
a SymPy expression; they mean real numbers, and the sign of each may be declared (positive=True). The derivation runs
in a process of its own that is ended after `time_limit` seconds. A sine or cosine cut off at a kink leaves erf of
complex numbers, written by its parts `re_erf(x, y)` and `im_erf(x, y)`, functions of two real numbers.

Source: arXiv:2305.18399, Table 5.1 and Table B.1 for isometry strengths; the dual is its Definition of sigma hat.
"""

from __future__ import annotations

import numbers
from functools import lru_cache
from typing import Any

import sympy as sp

from .._activation import Activation, activation
from .._moments import Moments
from .._numbers import as_fraction
from ..errors import NoClosedFormError
from ._identities import Identity as Identity
from ._identities import found_identities
from ._process import within
from ._question import Question, ask
from ._refusals import refuse_early
from ._series import MAX_DEGREE
from ._split import rational
from ._terms import RHO, Expr, K

__all__ = [
    "coefficient",
    "coefficients",
    "second_moment",
    "variance",
    "linearity",
    "isometry_strength",
    "dual",
    "moments",
    "expectation",
    "identities",
    "Identity",
]

TIME_LIMIT = 20.0
MAX_TIME = 86400.0


def coefficient(
    sigma: Any, k: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> Expr:
    """The Hermite coefficient c_k = E sigma(X) He_k(X) of sigma(gain x + shift), He_k normalised.

    sigma: whatever `hermite.activation` accepts but callables, or a SymPy expression with parameters, whose variable
    is then named x. k: an integer from 0 to 400, or a Symbol: then a formula in it, with the first few k apart where
    they differ, and finite sums for exp on half-lines (elu). gain, shift, parameters: numbers or SymPy expressions;
    floats mean their shortest decimal. time_limit: seconds, not counting the start of a process, about one.

    Raises NoClosedFormError, NotSquareIntegrableError, ValueError, and as `hermite.activation`.

    >>> k = sp.Symbol("k")
    >>> coefficient("gelu", k).args[-1].expr
    -(k + 1)*cos(pi*k/2)*factorial2(k - 3)/(2*2**(k/2)*sqrt(pi)*sqrt(factorial(k)))
    >>> coefficient("relu", 4), coefficient("relu", k).subs(k, 4)
    (-sqrt(3)/(12*sqrt(pi)), -sqrt(3)/(12*sqrt(pi)))
    """
    if isinstance(k, sp.Symbol):
        if k.is_integer is False or k.is_negative:
            raise ValueError(f"k={k} is declared not to be a nonnegative integer")
        found = _answer("coefficient", sigma, gain, shift, parameters, time_limit, K)
        return found.xreplace({K: k})
    return _answer("coefficient", sigma, gain, shift, parameters, time_limit, _degree(k, "k"))


def coefficients(
    sigma: Any, degree: int, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> tuple[Expr, ...]:
    """(c_0, ..., c_degree), arguments as in `coefficient`.

    >>> coefficients("sign", 3)
    (0, sqrt(2)/sqrt(pi), 0, -sqrt(3)/(3*sqrt(pi)))
    """
    found: tuple[Expr, ...] = _answer(
        "coefficients", sigma, gain, shift, parameters, time_limit, _degree(degree, "degree")
    )
    return found


def second_moment(
    sigma: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> Expr:
    """E sigma(X)^2, X ~ N(0, 1); arguments as in `coefficient`.

    >>> second_moment("sin", gain=sp.Symbol("alpha"))
    1/2 - exp(-2*alpha**2)/2
    """
    return _answer("second_moment", sigma, gain, shift, parameters, time_limit)


def variance(sigma: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any) -> Expr:
    """Var sigma(X) = sum of c_k^2 over k >= 1; arguments as in `coefficient`.

    >>> variance("relu")
    1/2 - 1/(2*pi)
    """
    return _answer("variance", sigma, gain, shift, parameters, time_limit)


def linearity(sigma: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any) -> Expr:
    """r = c_1^2/variance; isometry strength is 2 - r. Arguments as in `coefficient`.

    Raises ConstantActivationError besides.

    >>> linearity("step")
    2/pi
    """
    return _answer("linearity", sigma, gain, shift, parameters, time_limit)


def isometry_strength(
    sigma: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> Expr:
    """Isometry strength beta = 2 - c_1^2/variance of sigma(gain x + shift); arguments as in `coefficient`.

    Raises ConstantActivationError besides.

    Source: arXiv:2305.18399, equation of beta_sigma before Theorem 5.1; Tables 5.1 and B.1.

    >>> isometry_strength("relu")
    -pi/(2*(-1 + pi)) + 2
    >>> isometry_strength("exp", gain=sp.Symbol("alpha"))
    -alpha**2/(exp(alpha**2) - 1) + 2
    """
    return _answer("isometry_strength", sigma, gain, shift, parameters, time_limit)


def dual(
    sigma: Any, rho: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> Expr:
    """The dual E sigma(X) sigma(Y) for standard normal X, Y of correlation rho = sum over k of c_k^2 rho^k.

    rho: a Symbol, a SymPy expression, or a number in [-1, 1]; the rest as in `coefficient`. Closed forms exist for
    polynomials, exp, sin, cos, gaussian and He_k, for kinks at 0 (relu, leaky_relu, abs, step, sign, their powers),
    for erf and gelu with gain, |x|^p, and for sums of these. Kinks elsewhere leave the bivariate normal integral:
    NoClosedFormError.

    >>> dual("gelu", sp.Symbol("rho"))
    rho*asin(rho/2)/(2*pi) + rho/4 + 1/(2*pi*sqrt(4 - rho**2))
    """
    where = _correlation(rho)
    found = _answer("dual", sigma, gain, shift, parameters, time_limit, RHO)
    return found.xreplace({RHO: where}) if where.is_Symbol else found.subs(RHO, where)


def expectation(g: Any, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any) -> Expr:
    """E g(gain X + shift); g needs a finite mean, not a finite second moment. Arguments as in `coefficient`.

    >>> expectation("exp(x**2/4)")
    sqrt(2)
    """
    return _answer("expectation", g, gain, shift, parameters, time_limit)


def moments(
    sigma: Any, degree: int = 1, *, gain: Any = 1, shift: Any = 0, time_limit: float = TIME_LIMIT, **parameters: Any
) -> Moments:
    """Coefficients c_0..c_degree and moments as one exact record; arguments as in `coefficient`.

    >>> moments("step").residual
    1/4 - 1/(2*pi)
    """
    found = _answer("moments", sigma, gain, shift, parameters, time_limit, _degree(degree, "degree"))
    second, spread, residual, *row = found
    return Moments(tuple(row), second, spread, residual, 0.0, "closed form")


def identities(sigma: Any, *, gain: Any = 1, shift: Any = 0, **parameters: Any) -> tuple[Identity, ...]:
    """Equations between c[k] and S = E sigma^2 that hold whether or not there is a closed form.

    Found by rules that prove them: parity, an odd part that is linear, c_1 = E sigma' (Stein), tanh' = 1 - tanh^2 and
    the like. Empty where no rule applies.

    >>> for identity in identities("tanh")[2:3]:
    ...     print(identity)
    c[1] = 1 - S (c_1 = E sigma' and tanh' = 1 - tanh^2)
    """
    return found_identities(activation(sigma, gain=gain, shift=shift, **parameters))


def closed_strength(sigma: Activation, beta: float, time_limit: float) -> tuple[str, str] | None:
    """The closed form of beta as text and as LaTeX, checked against its value; None if there is none. For tables."""
    try:
        found = _answer("quick_strength", sigma, 1, 0, {}, time_limit, beta)
    except NoClosedFormError:
        return None
    return str(found), sp.latex(found, inv_trig_style="full")


# ---- the way to the answer --------------------------------------------------------------------------------------


def _answer(
    verb: str, sigma: Any, gain: Any, shift: Any, parameters: dict[str, Any], time_limit: float, argument: Any = None
) -> Any:
    if isinstance(time_limit, bool) or not isinstance(time_limit, numbers.Real) or not 0 < time_limit <= MAX_TIME:
        raise ValueError(f"time_limit must be a number of seconds up to {MAX_TIME:g}, got {time_limit!r}")
    question = ask(sigma, gain, shift, parameters)
    refuse_early(question)
    return _remembered(verb, question, argument, float(time_limit))


@lru_cache(maxsize=1024)
def _remembered(verb: str, question: Question, argument: Any, time_limit: float) -> Any:
    return within(time_limit, verb, question, argument)


def _degree(k: Any, name: str) -> int:
    value = as_fraction(k, name)
    if value.denominator != 1 or not 0 <= value <= MAX_DEGREE:
        raise ValueError(f"{name} must be an integer from 0 to {MAX_DEGREE}, got {k!r}")
    return int(value)


def _correlation(rho: Any) -> Expr:
    if isinstance(rho, sp.Expr) and not rho.is_Float and not rho.is_Rational:
        if rho.is_real is False or (not rho.free_symbols and not abs(complex(rho)) <= 1):
            raise ValueError(f"rho must be a real number in [-1, 1] or a symbol, got {rho}")
        return rho
    value = as_fraction(rho, "rho")
    if abs(value) > 1:
        raise ValueError(f"rho must be in [-1, 1], got {rho!r}")
    return rational(value)
