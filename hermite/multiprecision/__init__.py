"""Moments and isometry strength to any number of digits, as `mpmath.mpf`, for whatever `hermite.activation` accepts.

The verbs of `hermite` with an argument `digits`. A result is returned only if Gauss-Legendre and Fejer quadrature agree
to the digits asked; else `PrecisionError`. mpmath's global precision is neither read nor written: a result carries its
digits whatever `mp.dps` says (only printing it needs enough of them).

A Python callable is called with mpmath numbers, `mp.prec` being set while it runs; if it rounds to float64 (NumPy
functions, float literals), only about 15 digits can be had, and asking more is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpmath import libmp

from .._activation import Activation, ActivationLike, activation
from .._moments import Moments
from .._numbers import as_fraction
from .._polynomials import MAX_DEGREE, check_degree
from ..errors import ConstantActivationError
from . import _float64
from ._callables import Float64Value
from ._dual import dual_value
from ._mean import mean
from ._moments import Run, Wanted, precise
from ._parity import is_affine, is_constant
from ._raw import LOCK, ONE, ZERO, Raw, bits_of, to_mpf

__all__ = [
    "coefficients",
    "second_moment",
    "variance",
    "linearity",
    "isometry_strength",
    "dual",
    "moments",
    "expectation",
]

_MAX_DIGITS = 1000


def _checked(digits: int) -> int:
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= _MAX_DIGITS:
        raise ValueError(f"digits must be an integer from 1 to {_MAX_DIGITS}, got {digits!r}")
    return digits


def _answer(sigma: Activation, digits: int, exact: Callable[[], Any], rounded: Callable[[], Any]) -> Any:
    """The exact route, or that through float64 where a callable in sigma rounds."""
    with LOCK:
        if _float64.rounds(sigma):
            _float64.refuse(sigma, digits)
            return rounded()
        try:
            return exact()
        except Float64Value:
            _float64.refuse(sigma, digits)
            return rounded()


def coefficients(sigma: ActivationLike, degree: int, *, digits: int = 30) -> tuple[Any, ...]:
    """Hermite coefficients c_0..c_degree, c_k = E[sigma(X) He_k(X)], X ~ N(0, 1), He_k normalised.

    sigma: anything `hermite.activation` accepts; degree: an integer from 0 to 20000; digits: 1 to 1000. Returns a tuple
    of mpf, each with an error of at most 10^-digits |c_k|, or 10^(-2 digits) sqrt(E sigma^2) where that is larger; what
    is not told from 0 is 0. Raises NotSquareIntegrableError, PrecisionError, ValueError.

    Source: arXiv:2305.18399, section 5. Numerics: sigma is evaluated once at each node for all k.

    >>> import mpmath
    >>> c = coefficients("relu", 2, digits=40)
    >>> print(mpmath.nstr(c[0], 40))  # 1/sqrt(2 pi)
    0.3989422804014326779399460599343818684759
    """
    s, k = activation(sigma), check_degree(degree)
    if k > MAX_DEGREE:
        raise ValueError(f"degree must be at most {MAX_DEGREE}, got {degree}")
    _checked(digits)

    def exact() -> tuple[Any, ...]:
        found = precise(s, max(k, 1), digits, Wanted(coefficients=tuple(range(k + 1))))
        return tuple(to_mpf(found.coefficient(j)) for j in range(k + 1))

    return tuple(_answer(s, digits, exact, lambda: _float64.moments(s, k, digits).coefficients))


def moments(sigma: ActivationLike, degree: int = 1, *, digits: int = 30) -> Moments:
    """Coefficients c_0..c_degree and moments as one record of mpf, with error and method.

    The coefficients are as precise as those of `coefficients`, the moments relative to themselves; a variance or
    residual that is 0 to 4 * digits digits is 0. Raises as `coefficients`.

    >>> import mpmath
    >>> m = moments("sign", 1, digits=20)
    >>> mpmath.nstr(m.residual, 20), mpmath.nstr(m.variance, 20)  # 1 - 2/pi
    ('0.36338022763241865692', '1.0')
    """
    s, k = activation(sigma), check_degree(degree)
    if k > MAX_DEGREE:
        raise ValueError(f"degree must be at most {MAX_DEGREE}, got {degree}")
    _checked(digits)

    def exact() -> Moments:
        found = precise(s, max(k, 1), digits, Wanted((0, 1, 2), tuple(range(k + 1))))
        return Moments(
            tuple(to_mpf(found.coefficient(j)) for j in range(k + 1)),
            to_mpf(found.second),
            to_mpf(_variance(s, found)),
            to_mpf(_residual(s, found)),
            found.bound,
            f"gauss-legendre and fejer rules on {found.count} panels, {found.digits:.0f} digits",
        )

    return _answer(s, digits, exact, lambda: _float64.moments(s, k, digits))  # type: ignore[no-any-return]


def second_moment(sigma: ActivationLike, *, digits: int = 30) -> Any:
    """E sigma(X)^2, X ~ N(0, 1), as an mpf with a relative error of at most 10^-digits.

    sigma: anything `hermite.activation` accepts. Raises NotSquareIntegrableError, PrecisionError.

    >>> import mpmath
    >>> print(mpmath.nstr(second_moment("exp", digits=40), 40))  # e^2
    7.38905609893065022723042746057500781318
    """
    s = activation(sigma)
    _checked(digits)
    return _answer(
        s,
        digits,
        lambda: to_mpf(precise(s, 1, digits, Wanted((0,))).second),
        lambda: _float64.moment(s, "second_moment", digits),
    )


def variance(sigma: ActivationLike, *, digits: int = 30) -> Any:
    """Var sigma(X) = E (sigma - c_0)^2 = sum of c_k^2 over k >= 1, relative error at most 10^-digits; 0 for a constant.

    It keeps its digits beside a large mean. Raises NotSquareIntegrableError, PrecisionError.

    >>> import mpmath
    >>> print(mpmath.nstr(variance("1000000000*step(x) + 1e20", digits=30), 30))
    250000000000000000.0
    """
    s = activation(sigma)
    _checked(digits)
    return _answer(
        s,
        digits,
        lambda: to_mpf(_variance(s, precise(s, 1, digits, Wanted((1,))))),
        lambda: _float64.moment(s, "variance", digits),
    )


def linearity(sigma: ActivationLike, *, digits: int = 30) -> Any:
    """r = c_1^2 / variance in [0, 1]: the share of the variance that is linear; isometry strength is 2 - r.

    Relative error at most 10^-digits where r is not below 10^(-2 digits). Raises ConstantActivationError,
    NotSquareIntegrableError, PrecisionError.

    Source: arXiv:2305.18399, definition of isometry strength (the authors' code calls this ratio beta_0).

    >>> import mpmath
    >>> print(mpmath.nstr(linearity("sign"), 30))  # 2/pi
    0.63661977236758134307553505349
    """
    s = activation(sigma)
    _checked(digits)

    def exact() -> Any:
        _refuse_constant(s)
        found = _varying(s, precise(s, 1, digits, Wanted((1,), (1,))))
        p = bits_of(found.digits) + 60
        square = libmp.mpf_mul(found.coefficient(1), found.coefficient(1))
        return to_mpf(ONE if is_affine(s) else libmp.mpf_div(square, found.variance, p, "n"))

    return _answer(s, digits, exact, lambda: _float64.linearity(s, digits))


def isometry_strength(sigma: ActivationLike, *, digits: int = 30) -> Any:
    """Isometry strength beta = 2 - c_1^2 / sum of c_k^2 over k >= 1, in [1, 2], as an mpf.

    Computed as 1 + b, b = E (sigma - c_0 - c_1 X)^2 / variance, and b has a relative error of at most 10^-digits, so
    that a nearly linear sigma keeps all digits of beta - 1 (b is 0 where it is below 10^(-4 digits)); an even sigma
    gives exactly 2. Raises ConstantActivationError, NotSquareIntegrableError, PrecisionError.

    Source: arXiv:2305.18399, equation of beta_sigma before Theorem 5.1.

    >>> import mpmath
    >>> print(mpmath.nstr(isometry_strength("relu", digits=40), 40))  # (3 pi - 4)/(2 pi - 2)
    1.266528896537870070008302593383166213428
    >>> print(mpmath.nstr(isometry_strength("sin(x/1000000)") - 1, 15))
    1.66666666666667e-25
    """
    s = activation(sigma)
    _checked(digits)

    def exact() -> Any:
        _refuse_constant(s)
        found = _varying(s, precise(s, 1, digits, Wanted((1, 2))))
        b = libmp.mpf_div(_residual(s, found), found.variance, bits_of(found.digits) + 60, "n")
        return to_mpf(libmp.mpf_add(ONE, b))

    return _answer(s, digits, exact, lambda: _float64.strength(s, digits))


def dual(sigma: ActivationLike, rho: Any, *, digits: int = 30) -> Any:
    """The dual activation E sigma(X) sigma(Y) of a standard normal pair with correlation rho, as an mpf.

    sigma: anything `hermite.activation` accepts; rho: a number in [-1, 1] (floats and texts mean their decimal: 0.1 and
    "1/10" are 1/10). The error is at most 10^-digits |dual|, or 10^(-2 digits) E sigma^2 where that is larger. Raises
    ValueError for another rho, NotSquareIntegrableError, PrecisionError.

    Numerics: the Hermite series sum of c_k^2 rho^k with its Parseval tail where it is short, else a double integral in
    rotated coordinates cut at every kink, by two rules. Towards |rho| = 1 that takes seconds at 30 digits for a sigma
    with kinks; where it would take minutes, PrecisionError says so.

    >>> import mpmath
    >>> print(mpmath.nstr(dual("step", "1/2"), 30))  # 1/3
    0.333333333333333333333333333333
    """
    s, r = activation(sigma), as_fraction(rho, "rho")
    if not -1 <= r <= 1:
        raise ValueError(f"rho must lie in [-1, 1], got {rho!r}")
    _checked(digits)
    return _answer(s, digits, lambda: to_mpf(dual_value(s, r, digits)), lambda: _float64.dual(s, r, digits))


def expectation(g: ActivationLike, *, digits: int = 30) -> Any:
    """E g(X), X ~ N(0, 1), as an mpf; g needs a finite mean, not a finite second moment.

    The error is at most 10^-digits |E g|, or 10^(-2 digits) E|g| where that is larger; 0 for an odd g. Raises
    NotSquareIntegrableError when E|g| is infinite, PrecisionError.

    >>> import mpmath
    >>> print(mpmath.nstr(expectation("exp(x**2/4)", digits=40), 40))  # sqrt(2), although E g^2 is infinite
    1.41421356237309504880168872420969807857
    """
    s = activation(g)
    _checked(digits)
    return _answer(s, digits, lambda: to_mpf(mean(s, digits)), lambda: _float64.expectation(s, digits))


def _refuse_constant(sigma: Activation) -> None:
    if is_constant(sigma):
        raise ConstantActivationError(
            f"{sigma.name} is constant: its variance is 0 and its isometry strength is undefined"
        )


def _variance(sigma: Activation, found: Run) -> Raw:
    """0 for what no number of digits has told from a constant."""
    return ZERO if is_constant(sigma) or found.relative(1) >= 0 else found.variance


def _residual(sigma: Activation, found: Run) -> Raw:
    """0 for what no number of digits has told from a line."""
    return ZERO if is_affine(sigma) or found.relative(2) >= 0 else found.residual


def _varying(sigma: Activation, found: Run) -> Run:
    if _variance(sigma, found) == ZERO:
        raise ConstantActivationError(
            f"{sigma.name} is constant to {found.digits:.0f} digits; its isometry strength is undefined"
        )
    return found
