"""The entries of CLAIMS over depth: (layer, G0, depth)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bounds._claim import PAPER, Claim
from bounds._contraction import gap_decay, potential_contraction, spectral_gap_decay

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED"]


def _networks() -> SearchStrategy[tuple[Any, ...]]:
    """(layer, G0, depth), or (layers, G0): a sequence fixes the depth."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices, layers

    # one input, or no layer, would be a quarter of the draws, and trivial
    matrices = correlation_matrices(min_n=2)
    repeated = st.tuples(layers(), matrices, st.integers(1, 12))
    return st.one_of(repeated, st.tuples(st.lists(layers(), min_size=1, max_size=6), matrices))


LISTED = (
    Claim(
        label="lemma-a.3",
        statement=r"\gamma(G_l) \le \beta^{-l} \gamma(G_0), \quad "
        r"\gamma(G) = \max_{i \ne j} \frac{\lvert G_{ij} \rvert}{1 - \lvert G_{ij} \rvert}, \quad "
        r"\lvert (G_0)_{ij} \rvert < 1",
        function=potential_contraction,
        strategy=_networks,
        source=f"{PAPER}, Lemmas A.2 and A.3",
    ),
    Claim(
        label="theorem-5.1",
        statement=r"-\log \mathcal I(G_l) \le \frac{4n}{\det G_0} \, \beta^{-l}, \quad "
        r"\det G_0 > 0, \quad \beta > 1",
        function=gap_decay,
        strategy=_networks,
        source=f"{PAPER}, Theorem 5.1",
        erratum="Needs det G_0 > 0 and beta > 1, not printed: of two equal inputs the gap is infinite at every layer. "
        "In print elsewhere as gap(G_l) <= beta^-l, without 4n / det G_0: false for relu and five inputs with all "
        "correlations 0.9, where the gap is 1.3163 at layer 1 and 1/beta is 0.7896; the rate of the gap is (2 - "
        "beta)^(2l).",
    ),
    Claim(
        label="theorem-5.1+",
        statement=r"-\log \mathcal I(G_l) \le \log\bigl(1 + \beta^{-l} (\lambda_0^{-1} - 1)\bigr) "
        r"\le \beta^{-l} \Bigl(\frac{e}{\det G_0} - 1\Bigr), \quad \lambda_0 = \lambda_{\min}(G_0) > 0",
        function=spectral_gap_decay,
        strategy=_networks,
        source=f"{PAPER}, Theorem 5.1, sharpened; proof: documentation of spectral_gap_decay",
    ),
)
