"""The record behind the verbs of every number system."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Moments:
    """Hermite coefficients and moments of one activation, with their error and how they were found.

    coefficients: c_0..c_degree; second_moment: E sigma^2; variance: E (sigma - c_0)^2 = sum over k >= 1 of c_k^2;
    residual: E (sigma - c_0 - c_1 X)^2, so that isometry strength is 1 + residual/variance without cancellation;
    error: of the coefficients relative to sqrt(second_moment), of the moments relative to second_moment;
    method: how they were computed. The number type is that of the module that made the record.
    """

    coefficients: Any
    second_moment: Any
    variance: Any
    residual: Any
    error: float
    method: str

    @property
    def strength(self) -> Any:
        """beta = 1 + residual / variance; of mpmath numbers with all their digits, whatever `mp.dps` is."""
        return self._strength_of_mpf() if self._holds_mpf else 1 + self.residual / self.variance

    @property
    def strength_error(self) -> float:
        """Error bound of beta: 10 e b + e sqrt(b s) + e^2 s + 2^-52, b = beta - 1, s = second_moment/variance.

        The 2^-52 is the rounding of a float64; mpmath numbers go without.
        """
        b, s, e = float(self.residual / self.variance), float(self.second_moment / self.variance), self.error
        return float(10 * e * b + e * (b * s) ** 0.5 + e * e * s + (0.0 if self._holds_mpf else 2.0**-52))

    @property
    def _holds_mpf(self) -> bool:
        return all(hasattr(v, "_mpf_") and hasattr(v, "context") for v in (self.residual, self.variance))

    def _strength_of_mpf(self) -> Any:
        """The quotient at the precision of the record: mpmath's own operators would round to its global precision.

        A short mantissa (1/4) says nothing about precision, so the longest one and the error decide.
        """
        from mpmath import libmp

        numbers = (self.residual, self.variance, self.second_moment)
        bits = [int(v._mpf_[3]) for v in numbers if hasattr(v, "_mpf_")]
        bits.append(math.ceil(-math.log2(max(self.error, 1e-300))) + 20)
        quotient = libmp.mpf_div(self.residual._mpf_, self.variance._mpf_, max(bits), "n")
        return self.residual.context.make_mpf(libmp.mpf_add(libmp.fone, quotient))

    def _repr_latex_(self) -> str:
        from ._latex import moments_latex

        return rf"$\displaystyle {moments_latex(self)}$"
