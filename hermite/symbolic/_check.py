"""Every answer against quadrature, at numbers for its symbols: an answer that disagrees is never returned.

The rules are exact, so a disagreement is a fault of a rule or of SymPy. The float64 engine computes the other side,
and the multiprecision engine where float64 cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from .. import _numeric, multiprecision
from .._activation import Activation
from .._build import reduced_dual
from ..errors import (
    ActivationParseError,
    ConstantActivationError,
    NoClosedFormError,
    NotSquareIntegrableError,
    PrecisionError,
)
from ._question import Question
from ._terms import RHO, Expr, K

TOLERANCE = 1e-10  # of what is compared, relative to its scale; a wrong formula is off by far more
_POSITIVE = (Fraction(5, 4), Fraction(2, 3), Fraction(3, 7), Fraction(9, 4))
_REAL = (Fraction(3, 4), Fraction(-5, 7), Fraction(1, 6), Fraction(-9, 8))
_INDICES = (0, 1, 2, 3, 4, 7, 10)
_CORRELATIONS = tuple(Fraction(n, 20) for n in (-19, -7, 3, 14, 18))


def check(verb: str, question: Question, argument: Any, found: Any) -> None:
    """Raises NoClosedFormError unless the answer agrees with quadrature at several points."""
    if verb == "quick_strength":  # a table of numbers has computed it already
        _compare(question, mp.mpmathify(sp.N(found, 20)), argument, 1.0, {})
        return
    tried = 0
    for values in _points([s for s, _ in question.symbols]):
        try:
            sigma = question.at(values)
            for at, expected, scale in _expected(verb, sigma, argument):
                _compare(question, _number(verb, found, values, at), expected, scale, values | at)
                tried += 1
        except (ConstantActivationError, PrecisionError):
            continue
        except (ActivationParseError, NotSquareIntegrableError) as error:
            shown = ", ".join(f"{s} = {v}" for s, v in values.items())
            raise NoClosedFormError(
                f"no closed form of {question.name}: at {shown} it is no square-integrable function ({error}); "
                "declare the signs of the symbols, as in Symbol('a', positive=True)"
            ) from error
    if not tried:
        raise NoClosedFormError(f"no closed form of {question.name}: the answer could not be checked by quadrature")


def _points(symbols: list[Expr]) -> Iterator[dict[Expr, Expr]]:
    if not symbols:
        yield {}
        return
    for i in range(3):
        values = {}
        for j, s in enumerate(symbols):
            q = (_POSITIVE if s.is_positive or s.is_negative else _REAL)[(i + j) % 4]
            q = Fraction(i + j + 1) if s.is_integer else q
            values[s] = sp.Rational((-1 if s.is_negative else 1) * q.numerator, q.denominator)
        yield values


def _number(verb: str, found: Any, values: dict[Expr, Expr], at: dict[Expr, Expr]) -> Any:
    if isinstance(found, tuple):
        found = found[int(at[K])]
    # as mpmath numbers: moments far out on the tail are below the range of floats
    return mp.mpmathify(sp.N(found.subs(values).subs(at).doit(), 20))


def _compare(question: Question, found: Any, expected: Any, scale: Any, at: dict[Expr, Expr]) -> None:
    if abs(found - expected) <= TOLERANCE * scale:
        return
    shown = {str(k): str(v) for k, v in at.items()}
    raise NoClosedFormError(
        f"no closed form of {question.name}: the derivation gave {mp.nstr(found, 12)} where quadrature gives "
        f"{mp.nstr(mp.mpmathify(expected), 12)} at {shown}"
    )


Expected = tuple[dict[Expr, Expr], Any, Any]  # where, the value, the scale of its error


def _expected(verb: str, sigma: Activation, argument: Any) -> Iterator[Expected]:
    if verb == "dual":
        yield from _duals(sigma)
        return
    if verb == "expectation":
        value = _numeric.expectation(sigma)
        yield {}, value, abs(value) + 1
        return
    record = _record(sigma, 10 if argument == K else int(argument or 1) if verb.startswith("coefficient") else 1)
    c, second, spread, rest = record
    size = second**0.5
    if verb == "moments":
        for i, value in enumerate((second, spread, rest, *c[: argument + 1])):
            yield {K: sp.Integer(i)}, value, second if i < 3 else size
    elif verb in ("coefficient", "coefficients"):
        indices = _INDICES if argument == K else range(argument + 1) if verb == "coefficients" else (argument,)
        for k in indices:
            yield {K: sp.Integer(k)}, c[k], size
    elif verb == "second_moment":
        yield {}, second, second
    elif verb == "variance":
        yield {}, spread, second
    else:
        if rest + c[1] ** 2 <= 1e-25 * second:
            raise ConstantActivationError(f"{sigma.name} is constant")
        yield {}, (c[1] ** 2 / spread if verb == "linearity" else 1 + rest / spread), second / spread


def _record(sigma: Activation, degree: int) -> tuple[Any, Any, Any, Any]:
    try:
        found = _numeric.moments(sigma, degree)
    except PrecisionError:
        found = multiprecision.moments(sigma, degree, digits=20)
    return found.coefficients, found.second_moment, found.variance, found.residual


def _duals(sigma: Activation) -> Iterator[Expected]:
    c, second, spread, _ = _record(sigma, 1)
    for q, value in _dual_values(sigma, c[0], spread):
        yield {RHO: sp.Rational(q.numerator, q.denominator)}, value, second


def _dual_values(sigma: Activation, mean: Any, spread: Any) -> Iterator[tuple[Fraction, Any]]:
    try:
        reduced = reduced_dual(sigma)(np.array([float(q) for q in _CORRELATIONS])) if spread else np.zeros(5)
    except ConstantActivationError:
        for q in _CORRELATIONS:
            yield q, mean * mean
    except PrecisionError:
        for q in _CORRELATIONS[1:3]:  # a double integral: seconds each
            yield q, multiprecision.dual(sigma, q, digits=15)
    else:
        for q, f in zip(_CORRELATIONS, reduced, strict=True):
            yield q, mean * mean + spread * float(f)
