"""The entries of CLAIMS over depth: (layer, G0, depth)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bounds._claim import PAPER, Claim
from bounds._contraction import gap_decay, potential_contraction, spectral_gap_decay
from bounds._sharp import scalar_gap_decay, sharp_gap_decay, sharp_potential_contraction
from bounds._spectral import (
    gap_sandwich,
    monotone_isometry,
    smallest_eigenvalue_contraction,
    spectral_majorization,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED", "networks", "sloped"]


def networks() -> SearchStrategy[tuple[Any, ...]]:
    """(layer, G0, depth), or (layers, G0): a sequence fixes the depth."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices, layers

    # one input, or no layer, would be a quarter of the draws, and trivial
    matrices = correlation_matrices(min_n=2)
    repeated = st.tuples(layers(), matrices, st.integers(1, 12))
    return st.one_of(repeated, st.tuples(st.lists(layers(), min_size=1, max_size=6), matrices), _attained())


def sloped() -> SearchStrategy[tuple[Any, ...]]:
    """The same with r > 0 in every layer, and mostly with inputs that do not coincide."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices
    from meanfield._layer import Layer

    names = st.sampled_from(["identity", "relu", "tanh", "gelu", "exp", "sin", "sigmoid"]).map(Layer)
    each = st.one_of(names, _quadratic())
    matrices = st.one_of(correlation_matrices(min_n=2, max_correlation=0.99), correlation_matrices(min_n=2))
    repeated = st.tuples(each, matrices, st.integers(1, 12))
    return st.one_of(repeated, st.tuples(st.lists(each, min_size=1, max_size=6), matrices), _attained())


def _attained() -> SearchStrategy[tuple[Any, ...]]:
    """Where bounds are attained, or nearly: f = r rho + (1 - r) rho^2, two inputs or equal correlations near 0 or 1."""
    from hypothesis import strategies as st

    def network(layer: Any, n: int, rho: float, depth: int) -> tuple[Any, ...]:
        G = np.full((n, n), rho if rho > 0 else rho / (n - 1))
        np.fill_diagonal(G, 1.0)
        return layer, G, depth

    correlations = st.sampled_from([0.5, -0.5, 1e-3, -1e-3, 0.99, 1 - 1e-6, 1 - 1e-9, 0.9, -0.9, 1e-6])
    return st.builds(network, _quadratic(), st.integers(2, 6), correlations, st.integers(1, 12))


def _quadratic() -> SearchStrategy[Any]:
    """He_1 and a multiple of He_2: r from 1/65 to 1."""
    from hypothesis import strategies as st

    from meanfield._layer import Layer

    return st.sampled_from([0, 1, 2, "1/2", 8, "1/8"]).map(lambda a: Layer(f"He(1, x) + {a}*He(2, x)"))


LISTED = (
    Claim(
        label="lemma-a.3",
        statement=r"\gamma(G_l) \le \beta^{-l} \gamma(G_0), \quad "
        r"\gamma(G) = \max_{i \ne j} \frac{\lvert G_{ij} \rvert}{1 - \lvert G_{ij} \rvert}, \quad "
        r"\lvert (G_0)_{ij} \rvert < 1",
        function=potential_contraction,
        strategy=networks,
        source=f"{PAPER}, Lemmas A.2 and A.3",
    ),
    Claim(
        label="theorem-5.1",
        statement=r"-\log \mathcal I(G_l) \le \frac{4n}{\det G_0} \, \beta^{-l}, \quad "
        r"\det G_0 > 0, \quad \beta > 1",
        function=gap_decay,
        strategy=networks,
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
        strategy=networks,
        source=f"{PAPER}, Theorem 5.1, sharpened; proof: documentation of spectral_gap_decay",
    ),
    Claim(
        label="m1",
        statement=r"-\log \mathcal I(G_l) \le -\log \mathcal I(G_{l-1}), \quad "
        r"\lambda_{\min}(G_l) \ge \lambda_{\min}(G_{l-1})",
        function=monotone_isometry,
        strategy=networks,
        source=f"{PAPER}, section 5, sharpened; proof: documentation of monotone_isometry",
    ),
    Claim(
        label="l2",
        statement=r"1 - \lambda_{\min}(G_l) \le f_l(1 - \lambda_{\min}(G_0)), \quad f_l = f^{\circ l}",
        function=smallest_eigenvalue_contraction,
        strategy=networks,
        source=f"{PAPER}, section 5, sharpened; proof: documentation of smallest_eigenvalue_contraction",
    ),
    Claim(
        label="spectral-majorization",
        statement=r"\lambda(G_l) - 1 \prec \frac{f_l(\mu_0)}{\mu_0} \, (\lambda(G_0) - 1), \quad "
        r"\mu_0 = 1 - \lambda_{\min}(G_0)",
        function=spectral_majorization,
        strategy=networks,
        source="R. B. Bapat and V. S. Sunder 1985 for one layer; proof: documentation of spectral_majorization",
        erratum="Not true with max |G_ij| in place of mu_0: for He_2, n = 3 and all correlations -0.4, the largest "
        "eigenvalue less 1 is 0.32 at layer 1, and 0.4 times 0.4 is 0.16. Not true where f(0) != 0.",
    ),
    Claim(
        label="t1",
        statement=r"\Gamma_n(f_l(t_0)) \le -\log \mathcal I(G_l) \le -\log \mathcal I((1 - s_l) I + s_l G_0), \quad "
        r"t_0^2 = \frac{1}{n(n-1)} \sum_{i \ne j} (G_0)_{ij}^2, \quad s_l = \frac{f_l(\mu_0)}{\mu_0}",
        function=gap_sandwich,
        strategy=networks,
        source=f"{PAPER}, Theorem 5.1, from both sides; proof: documentation of gap_sandwich",
        erratum="The lower half needs G_0 >= 0 or an odd or even activation: for relu, n = 3 and all correlations "
        "-0.4 the gap is 0.08678 at layer 1, and Gamma_3(f(0.4)) is 0.09880.",
    ),
    Claim(
        label="r3",
        statement=r"\psi(G_l) \le r^l \psi(G_0), \quad "
        r"\psi(G) = \max_{i \ne j} \frac{\lvert G_{ij} \rvert}{(1 - \lvert G_{ij} \rvert)^{1/r}}, "
        r"\quad r = 2 - \beta > 0",
        function=sharp_potential_contraction,
        strategy=sloped,
        source=f"{PAPER}, Lemma A.3, sharpened; proof: documentation of sharp_potential_contraction",
    ),
    Claim(
        label="r4",
        statement=r"-\log \mathcal I(G_l) \le (n-1) \, \psi(G_0)^2 \, r^{2l} \text{ once } "
        r"(n-1) \, \psi(G_0) \, r^l \le \frac{1}{2}",
        function=sharp_gap_decay,
        strategy=sloped,
        source=f"{PAPER}, Theorem 5.1, with its true rate; proof: documentation of sharp_gap_decay",
    ),
    Claim(
        label="r4+",
        statement=r"-\log \mathcal I(G_l) \le \frac{n-1}{2} \Bigl(\frac{1 - \lambda_0}{\lambda_0^{1/r}}\Bigr)^2 r^{2l} "
        r"\le \frac{n-1}{2} \Bigl(\frac{e}{\det G_0}\Bigr)^{2/r} r^{2l}",
        function=sharp_gap_decay,
        strategy=sloped,
        source=f"{PAPER}, Theorem 5.1, with its true rate; proof: documentation of sharp_gap_decay",
    ),
    Claim(
        label="r5",
        statement=r"m_{l+1} \le r m_l + (1 - r) m_l^2, \quad m_l = \max_{i \ne j} \lvert (G_l)_{ij} \rvert, \quad "
        r"-\log \mathcal I(G_l) \le \Gamma_n^-(m_l)",
        function=scalar_gap_decay,
        strategy=networks,
        source=f"{PAPER}, Theorem 5.1, sharpened; proof: documentation of scalar_gap_decay",
    ),
    Claim(
        label="r6",
        statement=r"m_{l+1} \le f(m_l), \quad \lvert (G_l)_{ij} \rvert \le f_l(\lvert (G_0)_{ij} \rvert), \quad "
        r"-\log \mathcal I(G_l) \le \Gamma_n^-(f_l(m_0))",
        function=scalar_gap_decay,
        strategy=networks,
        source=f"{PAPER}, Theorem 5.1, sharpened; proof: documentation of scalar_gap_decay",
    ),
)
