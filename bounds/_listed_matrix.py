"""The entries of CLAIMS about one or two matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bounds._claim import PAPER, Claim
from bounds._determinants import (
    determinant_products,
    gap_from_rms,
    rms_determinant_sandwich,
    sharp_determinant_bound,
)
from bounds._eigenvalues import gap_from_smallest_eigenvalue, schur_product_eigenvalue
from bounds._matrix import determinant_sandwich, isometry_properties, normalization_gain
from bounds._normalization import batch_norm_gain, layer_norm_gain, sharp_normalization_gain

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED"]


def _psd() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import psd_matrices

    return st.tuples(psd_matrices())


def _extremal(name: str) -> Callable[[], SearchStrategy[tuple[Any, ...]]]:
    """A strategy that also draws where bounds are attained."""

    def strategy() -> SearchStrategy[tuple[Any, ...]]:
        from bounds import _extremal_strategies

        return getattr(_extremal_strategies, name)()  # type: ignore[no-any-return]

    return strategy


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
        strategy=_extremal("correlations"),
        source=f"{PAPER}, Lemma A.4",
        status="false as printed",
        erratum="Printed without the hypothesis (n-1) m <= 1 of the lower bound. Counterexample: n = 4 and all "
        "correlations 0.9 give 8.3521 <= 0.0037.",
    ),
    Claim(
        label="theorem-4.1-sharp",
        statement=r"\frac{\mathcal I(\tilde G)}{\mathcal I(G)} \ge "
        r"(1 + v) \bigl[(1 - s)^{n-1} (1 + (n-1) s)\bigr]^{-2/n} \ge 1 + \tfrac{n}{n-1} v, \quad "
        r"v = \mathrm{cv}^2, \quad s = \sqrt{v / (n-1)}, \quad \det G > 0",
        function=sharp_normalization_gain,
        strategy=_extremal("gram_matrices"),
        source=f"{PAPER}, Theorem 4.1 with the best bound for given cv",
    ),
    Claim(
        label="corollary-4.2",
        statement=r"\mathcal I(\mathrm{LN}(X)) \ge \mathcal I(XPX^\top) \, (1 + \mathrm{cv}^2), \quad "
        r"P = I_d - \tfrac1d \mathbf 1 \mathbf 1^\top, \quad a_i = \lVert P x_i \rVert > 0, \quad "
        r"\mathcal I(\mathrm{LN}_\epsilon(X)) \ge \mathcal I(XPX^\top) \text{ for } \epsilon > 0",
        function=layer_norm_gain,
        strategy=_extremal("rows_and_eps"),
        source=f"{PAPER}, Corollary 4.2",
        status="false as printed",
        erratum="Printed is that layer normalisation does not decrease the isometry; but it centres the inputs first. "
        "Counterexample: e_1, e_2 in R^3 have isometry 1 and, once normalised, 0.8660; in R^2 it is 0. Right is the "
        "comparison with the centred inputs.",
    ),
    Claim(
        label="corollary-4.3",
        statement=r"\mathcal I(\mathrm{BN}(X)^\top \mathrm{BN}(X)) \ge \mathcal I(X^\top P X) \, (1 + \mathrm{cv}^2), "
        r"\quad P = I_n - \tfrac1n \mathbf 1 \mathbf 1^\top, \quad a_j = \lVert P X_{\cdot j} \rVert > 0",
        function=batch_norm_gain,
        strategy=_extremal("tall_batches"),
        source=f"{PAPER}, Corollary 4.3",
    ),
    Claim(
        label="d1",
        statement=r"(1 - (n-1) m) (1 + m)^{n-1} \le \det G \text{ if } (n-1) m \le 1, \quad "
        r"m = \max_{i \ne j} \lvert G_{ij} \rvert, \quad G_{ii} = 1",
        function=sharp_determinant_bound,
        strategy=_extremal("correlations"),
        source="Brent, Osborn, Smith, arXiv:1401.7084",
        status="classical",
    ),
    Claim(
        label="d2",
        statement=r"(1 - (n-1) t) (1 + t)^{n-1} \le \det G \le (1 - t)^{n-1} (1 + (n-1) t), \quad "
        r"t^2 = \tfrac1{n(n-1)} \sum_{i \ne j} G_{ij}^2, \quad G_{ii} = 1, \quad \text{left: } (n-1) t \le 1",
        function=rms_determinant_sandwich,
        strategy=_extremal("correlations"),
        source=f"{PAPER}, Lemma A.4, by the rms correlation; compare arXiv:1909.05420",
    ),
    Claim(
        label="d3",
        statement=r"-\log \mathcal I(G) \le \frac{x^2}{2 (n-1) (1 - x)} \text{ for } x = (n-1) t < 1, \quad "
        r"-\log \mathcal I(G) \le (n-1) m^2 \text{ for } (n-1) m \le \tfrac12, \quad G_{ii} = 1",
        function=gap_from_rms,
        strategy=_extremal("correlations"),
        source=f"{PAPER}, Theorem 5.1, last step of its proof",
    ),
    Claim(
        label="d4",
        statement=r"\det G \le \prod_i \bigl(1 - \max_{j < i} G_{ij}^2\bigr) \le 1, \quad (1 - R)^n \le "
        r"\prod_i (1 - R_i) \le \det G \text{ if } R = \max_i R_i \le 1, \quad "
        r"R_i = \sum_{j \ne i} \lvert G_{ij} \rvert, \quad G_{ii} = 1",
        function=determinant_products,
        strategy=_extremal("correlations"),
        source="Hadamard, Fischer, Gershgorin, Ostrowski",
        status="classical",
        erratum="(1 - R)^n <= det G needs R <= 1, which is often left out. Counterexample: n = 4 and all correlations "
        "0.9 give 8.3521 <= 0.0037.",
    ),
    Claim(
        label="l1",
        statement=r"1 - \lambda_{\min}(A \circ B) \le (1 - \lambda_{\min}(A)) (1 - \lambda_{\min}(B)), \quad "
        r"1 - \det(A \circ B) \le (1 - \det A) (1 - \det B), \quad A_{ii} = B_{ii} = 1",
        function=schur_product_eigenvalue,
        strategy=_extremal("pairs"),
        source=f"Schur, Oppenheim; lemma behind {PAPER}, Theorem 5.1, sharp form",
    ),
    Claim(
        label="l3",
        statement=r"-\log \mathcal I(G) \le \Gamma_n(\mu), \quad \frac{(n-1) \mu^2}{2 (1 + (n-2) \mu)} \le "
        r"\Gamma_n(\mu) \le \min\Bigl(-\log(1 - \mu), \frac{(n-1) \mu^2}{2 (1 - \mu)}\Bigr), \quad "
        r"\mu = 1 - \lambda_{\min}(G), \quad G_{ii} = 1",
        function=gap_from_smallest_eigenvalue,
        strategy=_extremal("correlations"),
        source=f"lemma behind {PAPER}, Theorem 5.1, sharp form",
    ),
)
