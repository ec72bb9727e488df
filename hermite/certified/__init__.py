"""Certified numbers: every answer is an enclosure that provably contains the true value, tails included.

The verbs of `hermite` with `digits=`, on expression trees: a Python callable is refused, because a kink planted inside
one cannot be seen. What is proven rests on ball arithmetic (python-flint, the extra `rigor`), on the error theorem of
Gauss-Legendre quadrature, and on growth bounds derived by rules from the tree; where no rule applies, on the growth
that the caller declares, and then the method says so. FLINT's global precision is changed only inside a lock and
restored; another thread that uses FLINT directly meanwhile may see it.
"""

from ._dual import dual as dual
from ._enclosure import Enclosure as Enclosure
from ._growth import Growth as Growth
from ._growth import growth as growth
from ._positive import Positivity as Positivity
from ._positive import is_positive as is_positive
from ._verbs import coefficients as coefficients
from ._verbs import isometry_strength as isometry_strength
from ._verbs import linearity as linearity
from ._verbs import moments as moments
from ._verbs import second_moment as second_moment
from ._verbs import variance as variance

__all__ = [
    "coefficients",
    "second_moment",
    "variance",
    "linearity",
    "isometry_strength",
    "dual",
    "moments",
    "growth",
    "Growth",
    "Enclosure",
    "is_positive",
    "Positivity",
]
