"""Tables of isometry strengths: float64 with error bounds or certified enclosures, with closed forms where asked.

It may import every engine of the room, the heavy ones on first use only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._activation import Activation, ActivationLike, activation, catalogue
from ._catalogue import ENTRIES
from ._moments import Moments
from ._numbers import as_fraction
from ._numeric import isometry_strength, moments, varying
from ._table import FLOAT_DIGITS, MAX_DIGITS, Cell, Formula, Table, check_digits
from .errors import PrecisionError

COLUMNS = ("name", "gain", "c_0", "c_1", "variance", "r", "beta", "error", "closed form", "method")
_FEW = 8  # rows up to which closed forms are derived unasked
_PATIENCE = 10.0  # seconds for one closed form

_Row = tuple[tuple[Cell, ...], tuple[float | None, ...]]


def beta_table(
    sigmas: ActivationLike | Iterable[ActivationLike] | None = None,
    *,
    gains: Iterable[Any] | Any = (1,),
    digits: int | None = None,
    certified: bool = False,
    closed_forms: bool | None = None,
) -> Table:
    """Table of isometry strengths beta = 2 - r, r = c_1^2/variance, of activations sigma(gain * x).

    sigmas: one activation or several, each anything `activation` accepts; None: the catalogue. gains: one number or
    several, exact as in `activation(gain=)`. digits: at most this many significant digits are printed, from 1 to 15
    (the default); fewer where the error supports fewer. certified: numbers are proven enclosures of ball arithmetic
    instead (`hermite.certified`, the extra `rigor`), to digits from 1 to 1000, 30 by default, and every printed digit
    is right. closed_forms: whether `hermite.symbolic` derives the closed form of beta where there is one, about half
    a second each; None: in certified tables and in those of at most 8 rows. Rows: name (with parameters that are not
    the defaults), gain, c_0, c_1, variance, r, beta, error (absolute, of r and of beta), closed form of beta, method;
    for every sigma all gains.

    In float64, c_0 and c_1 are known to e sqrt(E sigma^2) and the variance to e E sigma^2, with e the error of
    `moments`; r is 2 - beta and shares its error: that of the residual, and one rounding. Where E sigma^2 leaves
    float64 (exp with gain 20) c_0, c_1 and variance are None, and beta is still there.
    Raises ConstantActivationError for a constant sigma (as with gain 0), and as `activation` and `isometry_strength`.

    Source: arXiv:2305.18399, table of isometry strengths (Table 5.1, Table B.1).

    >>> table = beta_table(["sin", "exp"], gains=[1, 20], digits=5, closed_forms=False)
    >>> print(table.to_csv(), end="")
    name,gain,c_0,c_1,variance,r,beta,error,closed form,method
    sin,1,0,0.60653,0.43233,0.85092,1.1491,3.6e-15,,gauss-legendre on ... panels
    sin,20,0,0,0.50000,0,2.0000,2.0e-14,,gauss-legendre on ... panels
    exp,1,1.6487,1.6487,4.6708,0.58198,1.4180,9.1e-15,,gauss-legendre on ... panels
    exp,20,,,,0,2.0000,2.0e-14,,"gauss-legendre, ratios only"
    >>> for row in beta_table(["relu", "tanh"], certified=True).rows:
    ...     print(row[6].decimal(30), row[8])
    1.26652889653787007000830259338 -pi/(2*(-1 + pi)) + 2
    1.06953007638470507135381574591 None
    """
    digits = (30 if certified else FLOAT_DIGITS) if digits is None else digits
    check_digits(digits, MAX_DIGITS if certified else FLOAT_DIGITS)
    factors = [as_fraction(gain, "gain") for gain in _several(gains)]
    listed = catalogue() if sigmas is None else [activation(s) for s in _several(sigmas)]
    derived = (certified or len(listed) * len(factors) <= _FEW) if closed_forms is None else closed_forms
    pairs = []
    for sigma in listed:
        for gain in factors:
            scaled = sigma.scaled(gain)
            row, errors = _certified(scaled, int(digits)) if certified else _float64(scaled)
            form = _closed_form(scaled, float(row[4])) if derived else None  # type: ignore[arg-type]
            head, tail = (_label(sigma), gain), (form, row[-1])
            pairs.append(((*head, *row[:-1], *tail), (None, None, *errors, None, None)))
    return Table(COLUMNS, tuple(row for row, _ in pairs), tuple(errors for _, errors in pairs), int(digits))


def _several(values: Any) -> list[Any]:
    """One or several: a text or a callable is one activation, what does not iterate is one number."""
    single = isinstance(values, str) or callable(values) or not isinstance(values, Iterable)
    return [values] if single or (isinstance(values, np.ndarray) and values.ndim == 0) else list(values)


def _float64(sigma: Activation) -> _Row:
    """(c_0, c_1, variance, r, beta, error, method) and the errors of all but the last."""
    low = varying(sigma)
    beta = isometry_strength(sigma)
    # in units of exp(M), which cancel here; and beta itself is rounded once
    error = Moments((low.c0, low.c1), low.second, low.variance, low.residual, low.error, "").strength_error
    values: tuple[float | None, ...] = (None, None, None)
    bounds: tuple[float | None, ...] = (None, None, None)
    try:
        found = moments(sigma, 1)
    except PrecisionError:
        method = "gauss-legendre, ratios only"
    else:
        values = (float(found.coefficients[0]), float(found.coefficients[1]), found.variance)
        size = found.error * math.sqrt(found.second_moment)
        bounds = (size, size, found.error * found.second_moment)
        method = found.method
    return (*values, 2.0 - beta, beta, error, method), (*bounds, error, error, None)


def _certified(sigma: Activation, digits: int) -> _Row:
    """The same as enclosures; an error is their radius."""
    from . import certified

    found = certified.moments(sigma, 1, digits=digits)
    numbers = (
        *found.coefficients,
        found.variance,
        certified.linearity(sigma, digits=digits),
        certified.isometry_strength(sigma, digits=digits),
    )
    radii = tuple(upper_float(number.radius) for number in numbers)
    return (*numbers, radii[-1], found.method.partition(";")[0]), (*radii, None)


def upper_float(radius: Any) -> float:
    """A float that is at least the radius; 0 for an exact number."""
    return math.nextafter(float(radius), math.inf) if radius else 0.0


def _closed_form(sigma: Activation, beta: float) -> Formula | None:
    """The closed form of beta, or None."""
    if sigma.is_opaque:
        return None
    from .symbolic import closed_strength

    found = closed_strength(sigma, beta, _PATIENCE)
    return None if found is None else Formula(*found)


def _label(sigma: Activation) -> str:
    """The name; for a catalogue entry with other parameters the text that `activation` reads back."""
    entry = ENTRIES.get(sigma.name)
    if entry is None:
        return sigma.name
    given = [f"{k}={v}" for k, v in sigma.parameters.items() if v != entry.defaults.get(k)]
    return f"{sigma.name}(x, {', '.join(given)})" if given else sigma.name
