"""The entries of CLAIMS about rates, signs, layers that differ, and layers that bring inputs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bounds._claim import PAPER, Claim
from bounds._listed_depth import networks, sloped
from bounds._rates import asymptotic_rate, gap_rates, mixed_layers
from bounds._signs import sign_freezing
from bounds._uncentred import relu_critical_rate, uncentred_gap_sandwich

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED"]


def _flat() -> SearchStrategy[tuple[Any, ...]]:
    """Layers with c_1 = 0: He_k and sums of them."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices
    from meanfield._layer import Layer

    specs = ["He(2, x)", "He(3, x)", "abs", "He(2, x) + He(3, x)", "square", "cos", "He(4, x) + 2*He(2, x)"]
    layers = st.sampled_from(specs).map(Layer)
    return st.tuples(layers, correlation_matrices(min_n=2, max_correlation=0.99), st.integers(1, 6))


def _signed() -> SearchStrategy[tuple[Any, ...]]:
    """One layer with r > 0, and equal correlations of both signs beside matrices of any."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices
    from meanfield._layer import Layer

    specs = ["relu", "He(1, x) + He(2, x)", "4*He(1, x) + He(2, x)", "He(1, x) + He(2, x)/2", "exp", "gelu", "tanh"]
    pairs = st.sampled_from([-0.4, -0.49, -0.2, -1e-3, 0.3]).map(lambda rho: np.array([[1.0, rho], [rho, 1.0]]))
    matrices = st.one_of(pairs, correlation_matrices(min_n=2, max_correlation=0.9), correlation_matrices(min_n=2))
    return st.tuples(st.sampled_from(specs).map(Layer), matrices, st.integers(1, 12))


def _sequences() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices, layers

    return st.tuples(st.lists(layers(), min_size=1, max_size=6), correlation_matrices(min_n=2, max_correlation=0.99))


def _uncentred() -> SearchStrategy[tuple[Any, ...]]:
    """Layers that keep their mean, some with a bias or a skip, on mostly nonnegative correlations."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices
    from meanfield._layer import Layer

    layers = st.sampled_from(
        [
            Layer("relu", normalization="rms"),
            Layer("square", normalization="rms"),
            Layer("1 + He(1, x) + He(2, x)", normalization="rms"),
            Layer("tanh", bias_variance="1/4"),
            Layer("relu", order="normalization-first"),
            Layer("exp", normalization="rms", skip="1/2"),
            Layer("2 + He(1, x)", normalization="rms"),
        ]
    )
    nonnegative = correlation_matrices(min_n=2).map(lambda G: np.abs(G) if _is_psd(np.abs(G)) else np.square(G))
    equal = st.builds(_equal, st.integers(2, 5), st.sampled_from([0.0, 0.5, 0.9, 0.999, -0.4]))
    matrices = st.one_of(nonnegative, equal, correlation_matrices(min_n=2))
    return st.tuples(layers, matrices, st.integers(0, 10))


def _equal(n: int, rho: float) -> Any:
    G = np.full((n, n), rho if rho > 0 else rho / (n - 1))
    np.fill_diagonal(G, 1.0)
    return G


def _is_psd(G: Any) -> bool:
    return bool(np.linalg.eigvalsh(G)[0] > 1e-9)


def _starts() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    starts = st.sampled_from([0.0, 0.5, 0.9, 1 - 1e-3, 1 - 1e-9, -0.5, -1.0, 1e-3, 0.1])
    return st.tuples(starts, st.integers(0, 200))


LISTED = (
    Claim(
        label="r1",
        statement=r"r^{-l} x_l \uparrow K(x_0) \le r^{-L} \frac{x_L}{(1 - x_L)^{1/r}}, \quad x_l = f_l(x_0), \quad "
        r"-\log \mathcal I(G_l) \sim \frac{1}{2n} \sum_{i \ne j} K((G_0)_{ij})^2 \, r^{2l}",
        function=asymptotic_rate,
        strategy=sloped,
        source="G. Koenigs 1884; proof: documentation of bounds._rates",
        erratum="In print elsewhere as a gap of order beta^-l: the rate is r^(2l) = (2 - beta)^(2l), with a constant.",
    ),
    Claim(
        label="r2",
        statement=r"c_1 = 0: \quad \max_{i \ne j} \lvert (G_l)_{ij} \rvert \le m_0^{k^l}, \quad "
        r"k = \min \{ j \ge 1 : c_j \ne 0 \}",
        function=asymptotic_rate,
        strategy=_flat,
        source="L. E. Boettcher 1904; proof: documentation of asymptotic_rate",
    ),
    Claim(
        label="r8",
        statement=r"\gamma(G_l) \le \frac{\gamma(G_0)}{\beta_1 \cdots \beta_l}, \quad r_1 \cdots r_l \, m_0 \le "
        r"f_l(m_0) \le r_1 \cdots r_l \, \psi(m_0)",
        function=mixed_layers,
        strategy=_sequences,
        source=f"{PAPER}, Lemmas A.2 and A.3, for layers that differ; proof: documentation of mixed_layers",
    ),
    Claim(
        label="t2",
        statement=r"-\frac{r}{e} < -x = (G_0)_{ij} < 0: \quad -(G_l)_{ij} \ge "
        r"\Bigl[1 + \frac{e x}{(1-r)(r - e x)}\Bigr]^{-1} r^l x, \quad e = \frac{1 + f(-1)}{2}",
        function=sign_freezing,
        strategy=_signed,
        source="proof: documentation of sign_freezing",
    ),
    Claim(
        label="t3",
        statement=r"\frac{n-1}{2} \frac{t_0^2}{1 + (n-2) r^l t_0} \, r^{2l} \le -\log \mathcal I(G_l) \le "
        r"\frac{n-1}{2} \Bigl(\frac{1 - \lambda_0}{\lambda_0^{1/r}}\Bigr)^2 r^{2l}",
        function=gap_rates,
        strategy=networks,
        source="proof: documentation of gap_rates",
    ),
    Claim(
        label="u1",
        statement=r"\Gamma_n(\kappa_l(a_0)) \le -\log \mathcal I(G_l) \le \Gamma_n(\kappa_l(1 - \lambda_0)), \quad "
        r"a_0 = \frac{1}{n(n-1)} \sum_{i \ne j} (G_0)_{ij} \ge 0",
        function=uncentred_gap_sandwich,
        strategy=_uncentred,
        source="proof: documentation of uncentred_gap_sandwich",
        erratum="Not true with the root mean square t_0 in place of a_0: for relu with rms normalisation, n = 3 and "
        "all correlations -0.4.",
    ),
    Claim(
        label="u3",
        statement=r"u_0 + \frac{\sqrt 2}{3 \pi} l \le u_l \le u_0 + \frac{\sqrt 2}{3 \pi} l + \frac{.092}{u_0} + "
        r".613 \log\Bigl(1 + \frac{\sqrt 2 \, l}{3 \pi u_0}\Bigr), \quad u = (1 - \rho)^{-1/2}",
        function=relu_critical_rate,
        strategy=_starts,
        source="proof: documentation of relu_critical_rate",
    ),
)
