"""The verbs of certified numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._activation import Activation, ActivationLike, activation
from .._moments import Moments
from .._polynomials import MAX_DEGREE, check_degree
from .._tree import Node
from ..errors import ConstantActivationError
from ._balls import constant
from ._digits import Goal, check_digits, tiny, to_digits
from ._enclosure import Enclosure
from ._flint import Ball, arb, natural_power, precision
from ._growth import forbid_opaque
from ._moments import Raw, not_negative, raw

Read = Callable[[Raw], "tuple[list[Ball], list[Goal]]"]


def _enclosed(sigma: Activation, degree: int, digits: int, read: Read) -> tuple[tuple[Enclosure, ...], Raw]:
    """The balls that `read` makes of the integrals, once its goals are met."""

    def compute(bits: int) -> tuple[Any, list[Goal]]:
        found = raw(sigma, degree, bits)
        with precision(found.bits):
            balls, goals = read(found)
            known = all(b.is_finite() for b in balls)
            return (tuple(map(Enclosure.from_ball, balls)) if known else None, found), goals

    answer, found = to_digits(sigma.name, digits, compute)
    return answer, found


def _coefficients(found: Raw) -> tuple[list[Ball], list[Goal]]:
    floor = tiny(found.second.sqrt())
    return list(found.coefficients), [Goal(c, floor) for c in found.coefficients]


def _second(found: Raw) -> tuple[list[Ball], list[Goal]]:
    return [found.second], [Goal(found.second, arb(0))]


def _variance(found: Raw) -> tuple[list[Ball], list[Goal]]:
    # what cancels in the difference is won back by more bits
    value = not_negative(found.second - natural_power(found.coefficients[0], 2))
    return [value], [Goal(value, arb(0))]


def _linearity(found: Raw) -> tuple[list[Ball], list[Goal]]:
    (value,), _ = _variance(found)
    r = natural_power(found.coefficients[1], 2) / value
    r = not_negative(1 - not_negative(1 - not_negative(r)))  # 0 <= r <= 1 by Parseval
    return [r], [Goal(r, tiny(arb(1)))]


def _strength(found: Raw) -> tuple[list[Ball], list[Goal]]:
    (r,), _ = _linearity(found)
    return [2 - r], [Goal(2 - r, arb(0))]


def _everything(found: Raw) -> tuple[list[Ball], list[Goal]]:
    (variance,), goals = _variance(found)
    residual = not_negative(
        found.second - natural_power(found.coefficients[0], 2) - natural_power(found.coefficients[1], 2)
    )
    parts = [*_coefficients(found)[1], *_second(found)[1], *goals, Goal(residual, tiny(variance))]
    return [*found.coefficients, found.second, variance, residual], parts


# ---- the record ---------------------------------------------------------------------------------------------------


def moments(sigma: ActivationLike, degree: int = 1, *, digits: int = 30) -> Moments:
    """Coefficients c_0..c_degree and moments of an activation as one record of enclosures.

    The fields are those of `hermite.Moments`, with Enclosure for numbers; the residual is relative down to 10^-4 of
    the variance. `.method` says how the tails were bounded. Arguments and errors as in `coefficients`; a constant has
    variance 0 exactly.

    >>> m = moments("sign", 1)
    >>> print(m.residual)  # 1 - 2/pi
    0.36338022763241865692446494650994...
    >>> m.method
    'ball gauss-legendre on ... panels; tails beyond |x| = ... from growth derived by rules from the tree for |x| >= 8'
    """
    s, k, d = forbid_opaque(activation(sigma)), _degree(degree), check_digits(digits)
    value = constant_of(s)
    if value is not None:
        return _of_constant(value, k, d)
    found, source = _enclosed(s, max(k, 1), d, _everything)
    *c, second, variance, residual = (*found[:-3], *(v.clipped(0) for v in found[-3:]))
    error = _error(tuple(c[: k + 1]), second, (variance, residual))
    method = (
        f"ball gauss-legendre on {source.panels} panels; tails beyond |x| = {float(source.reach):g} "
        f"from {source.tails.reason}"
    )
    return Moments(tuple(c[: k + 1]), second, variance, residual, error, method)


def _error(c: tuple[Enclosure, ...], second: Enclosure, others: tuple[Enclosure, ...]) -> float:
    """The largest radius, of coefficients relative to sqrt(E sigma^2), of moments to E sigma^2, rounded up."""
    root = second.sqrt()
    ratios = [v.spread() / root for v in c] + [v.spread() / second for v in (second, *others)]
    return max(math.nextafter(float(r.upper), math.inf) for r in ratios)


def constant_of(sigma: Activation) -> Node | None:
    """The tree, if x does not occur in it; a list of pieces that looks constant would prove nothing."""
    return sigma.expr if sigma.expr.constant else None


def _of_constant(value: Node, degree: int, digits: int) -> Moments:
    with precision(int(3.33 * digits) + 64):
        c = constant(value)
        first, second = Enclosure.from_ball(c), Enclosure.from_ball(c * c)
    zero = Enclosure.of(0)
    error = _error((first,), second, ()) if second.lower > 0 else 0.0
    return Moments((first, *[zero] * degree), second, zero, zero, error, "a constant, evaluated")


def _degree(degree: int) -> int:
    k = check_degree(degree)
    if k > MAX_DEGREE:
        raise ValueError(f"degree must be at most {MAX_DEGREE}, got {degree}")
    return k


# ---- the verbs ----------------------------------------------------------------------------------------------------


def coefficients(sigma: ActivationLike, degree: int, *, digits: int = 30) -> tuple[Enclosure, ...]:
    """Hermite coefficients c_0..c_degree of an activation, c_k = E[sigma(X) He_k(X)], as proven enclosures.

    He_k is the normalised probabilists' polynomial. sigma: anything `hermite.activation` accepts but callables;
    degree: an integer from 0 to 20000; digits: from 1 to 1000. The radius of c_k is at most
    10^-digits max(|c_k|, 10^-4 sqrt(E sigma^2)): relative digits, absolute ones for a c_k that is 0 or tiny.

    Raises NotSquareIntegrableError; PrecisionError where the digits are not reached, a sign stays undecided or nothing
    bounds the tails (then declare growth); ValueError. Degrees in the hundreds take seconds, since balls lose about
    0.7 degree bits to the recurrence. Source: arXiv:2305.18399, section 5.

    >>> print(*coefficients("relu", 2, digits=20))
    0.398942280401432677939946... 0.50000000000000000000000... 0.28209479177387814347...
    """
    s, k, d = forbid_opaque(activation(sigma)), _degree(degree), check_digits(digits)
    value = constant_of(s)
    if value is not None:
        return tuple(_of_constant(value, k, d).coefficients)
    return _enclosed(s, k, d, _coefficients)[0]


def second_moment(sigma: ActivationLike, *, digits: int = 30) -> Enclosure:
    """E sigma(X)^2, X ~ N(0, 1), to `digits` proven significant digits; arguments and errors as in `coefficients`.

    >>> print(second_moment("abs", digits=20))
    1.00000000000000000000...
    """
    s, d = forbid_opaque(activation(sigma)), check_digits(digits)
    value = constant_of(s)
    if value is not None:
        found: Enclosure = _of_constant(value, 0, d).second_moment
        return found
    return _enclosed(s, 0, d, _second)[0][0]


def variance(sigma: ActivationLike, *, digits: int = 30) -> Enclosure:
    """Var sigma(X) to `digits` proven significant digits, exactly 0 for a constant.

    Arguments and errors as in `coefficients`; digits that cancel against a large mean are won back by more bits.

    >>> print(variance("1000000 + tanh(x)", digits=10))
    0.39429449040...
    """
    s, d = forbid_opaque(activation(sigma)), check_digits(digits)
    if constant_of(s) is not None:
        return Enclosure.of(0)
    return _enclosed(s, 0, d, _variance)[0][0]


def linearity(sigma: ActivationLike, *, digits: int = 30) -> Enclosure:
    """r = c_1^2/variance in [0, 1]: the share of the variance that is linear; isometry strength is 2 - r.

    The radius is at most 10^-digits max(r, 10^-4). Raises ConstantActivationError for a constant sigma, else as
    `coefficients`. Source: arXiv:2305.18399, definition of isometry strength.

    >>> print(linearity("sign", digits=20))  # 2/pi
    0.63661977236758134307...
    """
    return _enclosed(_varying(sigma), 1, check_digits(digits), _linearity)[0][0].clipped(0, 1)


def isometry_strength(sigma: ActivationLike, *, digits: int = 30) -> Enclosure:
    """Isometry strength beta = 2 - c_1^2 / sum of c_k^2 over k >= 1 in [1, 2], to `digits` proven significant digits.

    Raises ConstantActivationError for a constant sigma, else as `coefficients`. Source: arXiv:2305.18399, equation of
    beta_sigma before Theorem 5.1.

    >>> print(isometry_strength("tanh").decimal(30))
    1.06953007638470507135381574591
    """
    return _enclosed(_varying(sigma), 1, check_digits(digits), _strength)[0][0].clipped(1, 2)


def _varying(sigma: ActivationLike) -> Activation:
    s = forbid_opaque(activation(sigma))
    values = {p.expr for p in s.pieces}
    if len(values) == 1 and next(iter(values)).constant:
        raise ConstantActivationError(f"{s.name} is constant: its variance is 0 and its isometry strength is undefined")
    return s
