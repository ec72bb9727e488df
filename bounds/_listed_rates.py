"""The entries of CLAIMS about rates, signs, layers that differ, and layers that bring inputs together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bounds._claim import PAPER, Claim
from bounds._listed_depth import sloped
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
    layers = st.sampled_from([*specs, "He(1, x) + 2*He(2, x)"]).map(Layer)
    negative = st.builds(_equal, st.sampled_from([2, 2, 3, 4]), st.sampled_from([-0.4, -0.8, -0.2, -1e-3, -1e-5, 0.3]))
    attained = st.tuples(layers, negative, st.integers(1, 12))
    free = correlation_matrices(min_n=2).map(_definite)
    # small entries of odd maps are off by their squares, which only polynomials are proven to the last digit for
    decided = layers.map(lambda layer: Layer("2*He(1, x) + He(3, x)") if layer == Layer("tanh") else layer)
    return st.one_of(attained, st.tuples(decided, free, st.integers(1, 12)))


def _sequences() -> SearchStrategy[tuple[Any, ...]]:
    """Layers in turn; powers of polynomials near 0 and near 1, where one or the other bound is attained, last."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices, layers

    matrices = correlation_matrices(min_n=2, max_correlation=0.99)
    mixed = st.tuples(st.lists(layers(), min_size=1, max_size=6), matrices)
    equal = st.builds(_equal, st.just(2), st.sampled_from([1e-3, 0.3, -1e-3, 1 - 1e-6, 0.999, 1e-5]))
    return st.one_of(mixed, st.tuples(st.lists(_quadratic(), min_size=1, max_size=6), equal), _steady(equal))


def _quadratic() -> SearchStrategy[Any]:
    """r rho + (1 - r) rho^2, r from 1/65 to 1."""
    from hypothesis import strategies as st

    from meanfield._layer import Layer

    return st.sampled_from([1, 2, "1/2", 8, 0]).map(lambda a: Layer(f"He(1, x) + {a}*He(2, x)"))


def _steady(matrices: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    """The same layer so often that r^l is below 1 %."""
    from hypothesis import strategies as st

    from meanfield._layer import Layer

    layers = st.sampled_from([1, "1/2", 0, 2]).map(lambda a: Layer(f"He(1, x) + {a}*He(2, x)"))
    return st.tuples(layers, matrices, st.integers(8, 12))


def _from_both_sides() -> SearchStrategy[tuple[Any, ...]]:
    """What is drawn for rates; equal correlations, of which a pair of small ones attains every constant."""
    from hypothesis import strategies as st

    equal = st.builds(_equal, st.sampled_from([2, 3, 5]), st.sampled_from([1e-3, 0.5, -1e-3, -0.4, 1e-5, 0.9, -0.9]))
    drawn = sloped().map(lambda given: (given[0], _definite(given[1]), *given[2:]))
    return st.one_of(drawn, drawn, st.tuples(_quadratic(), equal, st.integers(1, 6)), _steady(equal))


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
    free = correlation_matrices(min_n=2).map(_definite)
    equal = st.builds(_equal, st.integers(2, 5), st.sampled_from([0.5, 0.9, 0.0, 0.999, -0.4, -0.8]))
    opposed = st.sampled_from([-0.6, -0.5]).map(lambda x: np.array([[1.0, x, 0.35], [x, 1.0, 0.35], [0.35, 0.35, 1.0]]))
    matrices = st.one_of(free.map(_nonnegative), equal, opposed, free)
    # the two sides meet at rho*: here they do within a few layers, and at once from small correlations
    bent = st.tuples(
        st.just(Layer("1 + 4*He(5, x)", normalization="rms")), st.one_of(equal, opposed), st.integers(0, 3)
    )
    return st.one_of(st.tuples(layers, matrices, st.integers(0, 8)), bent)


def _equal(n: int, rho: float) -> Any:
    G = np.full((n, n), rho if rho > 0 else rho / (n - 1))
    np.fill_diagonal(G, 1.0)
    return G


def _definite(G: Any) -> Any:
    """With smallest eigenvalue at least 1/16: what is nearly singular says little, and takes long to decide."""
    mixed = G * (15 / 16)
    np.fill_diagonal(mixed, 1.0)
    return mixed


def _nonnegative(G: Any) -> Any:
    """|G_ij|, or their squares, which are positive semidefinite whatever the signs."""
    return np.abs(G) if np.linalg.eigvalsh(np.abs(G))[0] > 1e-9 else np.square(G)


def _starts() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    starts = st.sampled_from([0.0, 0.5, 0.9, 1 - 1e-3, 1 - 1e-9, -0.5, -1.0, 1e-3, 0.1])
    return st.tuples(starts, st.one_of(st.integers(0, 20), st.integers(0, 200)))


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
        strategy=_from_both_sides,
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
        statement=r"u_0 + \frac{\sqrt 2}{3 \pi} l \le u_l \le u_0 + \frac{\sqrt 2}{3 \pi} l + \frac{.062}{u_0} + "
        r".414 \log\Bigl(1 + \frac{\sqrt 2 \, l}{3 \pi u_0}\Bigr), \quad u = (1 - \rho)^{-1/2}",
        function=relu_critical_rate,
        strategy=_starts,
        source="proof: documentation of relu_critical_rate",
    ),
)
