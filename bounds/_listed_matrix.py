"""The entries of CLAIMS about one or two matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bounds._claim import PAPER, Claim
from bounds._matrix import determinant_sandwich, isometry_properties, normalization_gain

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED"]


def _psd() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import psd_matrices

    return st.tuples(psd_matrices())


def _correlations() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices

    return st.tuples(correlation_matrices())


LISTED = (
    Claim(
        label="lemma-a.1",
        statement=r"0 \le \mathcal I(M) \le 1, \quad \mathcal I(cM) = \mathcal I(M), \quad "
        r"\mathcal I(M) = 1 \iff M = cI, \quad \mathcal I(M) = 0 \iff \det M = 0",
        function=isometry_properties,
        strategy=_psd,
        source=f"{PAPER}, Lemma A.1",
        status="false as printed",
        erratum="Printed is I(M) = 1 iff M = I_n, without M != 0. Counterexample: M = 2 I_n has I(M) = 1. "
        "Right is M = c I_n with c > 0, for M != 0.",
    ),
    Claim(
        label="theorem-4.1",
        statement=r"\mathcal I(\tilde G) \ge \mathcal I(G) \, (1 + \mathrm{cv}^2), \quad \mathrm{cv}^2 = "
        r"\frac{\frac1n \sum_i (a_i - \bar a)^2}{\bar a^2}, \quad a_i = \sqrt{G_{ii}} > 0, \quad "
        r"\tilde G_{ij} = \frac{G_{ij}}{a_i a_j}",
        function=normalization_gain,
        strategy=_psd,
        source=f"{PAPER}, Theorem 4.1",
    ),
    Claim(
        label="lemma-a.4",
        statement=r"(1 - (n-1) m)^n \le \det G \text{ if } (n-1) m \le 1, \quad \det G \le 1 - m^2, \quad "
        r"m = \max_{i \ne j} \lvert G_{ij} \rvert, \quad G_{ii} = 1",
        function=determinant_sandwich,
        strategy=_correlations,
        source=f"{PAPER}, Lemma A.4",
        status="false as printed",
        erratum="Printed without the hypothesis (n-1) m <= 1 of the lower bound. Counterexample: n = 4 and all "
        "correlations 0.9 give 8.3521 <= 0.0037.",
    ),
)
