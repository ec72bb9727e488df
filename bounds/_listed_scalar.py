"""The entries of CLAIMS about one activation, one correlation, or one map of correlations."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bounds._certificate import Certificate
from bounds._claim import PAPER, Claim
from bounds._expansion import dual_series, mehler, parseval, strength_range
from bounds._kernel import kernel_convergence as of_any_case
from bounds._kernel import schwarz_pick
from bounds._scalar import dual_contraction, gradient_tradeoff
from meanfield._convergence import convergence
from meanfield._layer import Layer

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["LISTED"]

_KERNELS = "arXiv:2410.20107"

# Simplest first: that is the order of shrinking. Built once; polynomials take milliseconds.
_NAMES = ["identity", "relu", "tanh", "gelu", "exp", "sin", "sigmoid", "abs", "sign", "cos", "square", "cube"]
_COMMON = [0.0, 0.5, -0.5, 0.9, -0.9, 1.0]
_EXTREME = [0.125, -0.75, 1e-3, -1e-3, 1e-6, 1 - 1e-3, 1 - 1e-6, -1 + 1e-6, -1.0]
_NEXT_TO_ONE = 1 - 1e-12


def _polynomials() -> SearchStrategy[str]:
    """Mixtures of He_1 and He_2, where bounds are attained, and of a few others."""
    from hypothesis import strategies as st

    numbers = st.sampled_from(["1", "2", "1/2", "8", "1/8", "-1"])
    pairs = st.builds(lambda a: f"He(1, x) + ({a})*He(2, x)", numbers)
    mixed = st.builds(
        lambda a, b, j, k: f"({a})*He({j}, x) + ({b})*He({k}, x)",
        numbers,
        numbers,
        st.integers(1, 3),
        st.integers(4, 7),
    )
    return pairs | mixed


def _activations() -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    return st.sampled_from(_NAMES) | _polynomials()


def _correlations(*more: float) -> SearchStrategy[float]:
    from hypothesis import strategies as st

    return st.sampled_from([*_COMMON, *_EXTREME, *more])


def _sigmas() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    return st.tuples(_activations())


def _sigmas_and_degrees() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    return st.tuples(_activations(), st.integers(0, 12))


def _sigmas_and_correlations() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    return st.tuples(_activations(), _correlations(_NEXT_TO_ONE))


def _series() -> SearchStrategy[tuple[Any, ...]]:
    """What float64 decides of common activations, and of polynomials, which are decided by rationals, all."""
    from hypothesis import strategies as st

    common = st.tuples(st.sampled_from(_NAMES), st.sampled_from(_COMMON), st.integers(1, 4))
    return common | st.tuples(_polynomials(), _correlations(_NEXT_TO_ONE), st.integers(1, 12))


def _kernels() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    points = st.sampled_from([0.0, 0.5, -0.5, 1.0, -0.9, 2.0, -2.0, 3.0, 5.0])
    return st.tuples(_correlations(_NEXT_TO_ONE), points, points, st.integers(0, 30))


@lru_cache
def _kernel_layer(spec: str) -> tuple[Layer, int, tuple[float, ...]]:
    """A layer, how many of it leave more than rounding of a distance from a fixed point inside (0, 1), starts by it."""
    layer = Layer(spec, normalization="rms")
    found = convergence(layer)
    point = found.fixed_point
    if point.correlation_length == 0.0:  # correlations are squared, and soon below float64
        return layer, 5, ()
    if found.case < 4:
        return layer, 40, ()
    return layer, max(min(40, int(20 * point.correlation_length)), 1), (point.rho - 1e-3, point.rho + 1e-3)


def _case(specs: list[str]) -> Callable[[], SearchStrategy[tuple[Any, ...]]]:
    """Layers of one case, every start, up to 40 layers."""

    def strategy() -> SearchStrategy[tuple[Any, ...]]:
        from hypothesis import strategies as st

        def runs(spec: str) -> SearchStrategy[tuple[Any, ...]]:
            layer, most, starts = _kernel_layer(spec)
            return st.tuples(st.just(layer), _correlations(*starts), st.integers(0, most))

        return st.sampled_from(specs).flatmap(runs)

    return strategy


def _certified(number: int) -> Callable[..., Certificate]:
    def kernel_convergence(layer: Layer, rho0: float, depth: int) -> Certificate:
        return of_any_case(layer, rho0, depth, case=number)

    return kernel_convergence


_CENTRED = [
    "identity",
    "tanh",
    "sin",
    "He(1, x) + He(2, x)",
    "He(2, x)",
    "He(1, x) + 8*He(2, x)",
    "He(3, x) + He(2, x)",
]
_ONE = ["2 + He(1, x)", "1 + He(1, x) + He(2, x)/4", "sigmoid", "3 + He(2, x)", "softplus"]
_CRITICAL = ["relu", "1 + He(2, x)", "exp", "abs"]
_WITHIN = ["gelu", "1/2 + He(2, x)", "1/8 + He(3, x)", "1/2 + He(1, x)/8 + He(2, x)", "1/256 + He(3, x)"]
_WITHIN += ["sqrt(0.35) + sqrt(0.0115)*He(1, x) + sqrt(0.638)*He(2, x) + sqrt(0.0005)*He(3, x)"]

LISTED = (
    Claim(
        label="h2",
        statement=r"\sum_{k \le K} c_k^2 \le E \sigma(X)^2, \quad c_k = E \sigma(X) He_k(X)",
        function=parseval,
        strategy=_sigmas_and_degrees,
        source=f"{PAPER}, section 3 (Parseval's identity)",
        status="classical",
    ),
    Claim(
        label="strength-range",
        statement=r"1 \le \beta = 2 - \frac{c_1^2}{\sum_{k \ge 1} c_k^2} \le 2",
        function=strength_range,
        strategy=_sigmas,
        source=f"{PAPER}, section 5 and Table B.1",
        erratum="The README of the authors' code writes beta for c_1^2 / sum c_k^2, without 2 - : for relu 0.7335, "
        "where beta is 1.2665.",
    ),
    Claim(
        label="lemma-a.6",
        statement=r"\Bigl\lvert f(\rho) - \sum_{1 \le k \le K} w_k \rho^k \Bigr\rvert \le "
        r"\lvert \rho \rvert^{K+1} \sum_{k > K} w_k, \quad \lvert f(\rho) \rvert \le f(\lvert \rho \rvert) \le 1",
        function=dual_series,
        strategy=_series,
        source=f"{PAPER}, Lemmas A.5 and A.6",
        status="classical",
    ),
    Claim(
        label="lemma-a.7",
        statement=r"\frac{\lvert f(\rho) \rvert}{1 - \lvert f(\rho) \rvert} \le "
        r"\frac{r + (1-r) \lvert \rho \rvert}{1 + (1-r) \lvert \rho \rvert} \, "
        r"\frac{\lvert \rho \rvert}{1 - \lvert \rho \rvert} \le \frac{1}{\beta} "
        r"\frac{\lvert \rho \rvert}{1 - \lvert \rho \rvert}, \quad \lvert \rho \rvert < 1",
        function=dual_contraction,
        strategy=_sigmas_and_correlations,
        source=f"{PAPER}, Lemma A.7",
        status="false as printed",
        erratum="Printed as strict. Counterexample: rho = 0, where both sides are 0; and |rho| = 1, where they are "
        "infinite. It is strict for 0 < |rho| < 1 and sigma not affine.",
    ),
    Claim(
        label="lemma-a.8",
        statement=r"\Bigl\lvert \frac{p(x, y)}{p(x) p(y)} - \sum_{k \le K} \rho^k He_k(x) He_k(y) \Bigr\rvert \le "
        r"1.0865^2 \, e^{(x^2 + y^2)/4} \, \frac{\lvert \rho \rvert^{K+1}}{1 - \lvert \rho \rvert}, \quad "
        r"\lvert \rho \rvert < 1",
        function=mehler,
        strategy=_kernels,
        source=f"{PAPER}, Lemma A.8 (Mehler's formula)",
        status="classical",
    ),
    Claim(
        label="r7",
        statement=r"\beta \le f'(1) = \frac{E \sigma'(X)^2}{\mathrm{Var} \, \sigma(X)}",
        function=gradient_tradeoff,
        strategy=_sigmas,
        source="documentation of gradient_tradeoff",
    ),
    Claim(
        label="k1",
        statement=r"\kappa(0) = 0: \quad \frac{\lvert \rho_l \rvert}{1 - \lvert \rho_l \rvert} \le "
        r"\alpha^l \frac{\lvert \rho_0 \rvert}{1 - \lvert \rho_0 \rvert}, \quad \alpha = \frac{1}{2 - \kappa'(0)}",
        function=_certified(1),
        strategy=_case(_CENTRED),
        source=f"{_KERNELS}, case 1",
        erratum="In the code of the authors the string of this case lacks the power l of alpha.",
    ),
    Claim(
        label="k2",
        statement=r"\kappa'(1) < 1: \quad 1 - \rho_l \le \kappa'(1)^l (1 - \rho_0)",
        function=_certified(2),
        strategy=_case(_ONE),
        source=f"{_KERNELS}, case 2",
    ),
    Claim(
        label="k3",
        statement=r"\kappa'(1) = 1: \quad 1 - \rho_l \le \frac{1 - \rho_0}{1 + l p (1 - \rho_0)}, \quad "
        r"p = 1 - \kappa(0) - \kappa'(0)",
        function=_certified(3),
        strategy=_case(_CRITICAL),
        source=f"{_KERNELS}, case 3",
    ),
    Claim(
        label="k4",
        statement=r"\kappa'(1) > 1, \; \rho_0 \ge \rho^*: \quad \frac{\rho_l - \rho^*}{1 - \rho_l} \le "
        r"\alpha^l \frac{\rho_0 - \rho^*}{1 - \rho_0}, \quad \alpha = \frac{1}{2 - \kappa'(\rho^*)}; \qquad "
        r"\lvert \rho_0 \rvert \le \rho^*: \quad \lvert \rho_l - \rho^* \rvert \le "
        r"\kappa'(\rho^*)^l \lvert \rho_0 - \rho^* \rvert",
        function=_certified(4),
        strategy=_case(_WITHIN),
        source=f"{_KERNELS}, case 4",
        status="false as printed",
        erratum="Printed (as code) with alpha = max(kappa'(rho*), 1 - kappa(0), (1 - rho*)/(2 - kappa'(rho*))). "
        "Counterexample: W = (.35, .0115, .638, .0005), rho_0 = .999, l = 23: distance .24047, printed bound .12730, "
        "corrected .25687.",
    ),
    Claim(
        label="schwarz-pick",
        statement=r"T_{l+1} \le T_l \frac{T_l + a}{1 + a T_l}, \quad "
        r"T = \Bigl\lvert \frac{\rho - \rho^*}{1 - \rho \rho^*} \Bigr\rvert, \quad a = \kappa'(\rho^*), \; \rho^* < 1",
        function=schwarz_pick,
        strategy=_case([*_WITHIN, *_CENTRED]),
        source=f"the lemma of Schwarz and Pick; bounds of {_KERNELS}",
        status="classical",
    ),
)
