"""One scalar function under N(0, 1): Hermite coefficients, moments and isometry strength of an activation.

The verbs (`coefficients`, `second_moment`, `variance`, `linearity`, `isometry_strength`, `dual`) accept whatever
`activation` accepts: a name, an expression text, a callable, an `Activation`. This module computes in float64.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors as errors
from ._activation import Activation as Activation
from ._activation import activation as activation
from ._activation import catalogue as catalogue
from ._moments import Moments as Moments
from ._numeric import coefficients as coefficients
from ._numeric import expectation as expectation
from ._numeric import isometry_strength as isometry_strength
from ._numeric import linearity as linearity
from ._numeric import moments as moments
from ._numeric import second_moment as second_moment
from ._numeric import variance as variance
from ._polynomials import gauss_hermite as gauss_hermite
from ._polynomials import polynomials as polynomials
from ._strengths import beta_table as beta_table
from ._table import Table as Table

if TYPE_CHECKING:
    from ._dual import Dual as Dual
    from ._dual import dual as dual

__all__ = [
    "activation",
    "Activation",
    "catalogue",
    "coefficients",
    "second_moment",
    "variance",
    "linearity",
    "isometry_strength",
    "dual",
    "Dual",
    "moments",
    "Moments",
    "polynomials",
    "expectation",
    "gauss_hermite",
    "beta_table",
    "Table",
    "errors",
    "symbolic",
    "multiprecision",
    "certified",
    "strategies",
]


_LAZY = ("symbolic", "multiprecision", "certified", "strategies")  # each needs a heavy package: on first use only


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f".{name}", __name__)
    if name in ("dual", "Dual"):  # a dozen files, which coefficients and tables do without
        return getattr(import_module("._dual", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
