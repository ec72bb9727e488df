"""Every claim of the room as one record: what it says, where it is from, what it is tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bounds._certificate import Certificate
from bounds._contraction import gap_decay, potential_contraction, spectral_gap_decay
from bounds._matrix import determinant_sandwich, isometry_properties, normalization_gain

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from bounds._verify import Verification

__all__ = ["CLAIMS", "Claim"]

_PAPER = "arXiv:2305.18399"


@dataclass(frozen=True)
class Claim:
    """One claim: an inequality, the function that certifies it, and the inputs on which it is to be tried.

    label: short name without spaces ("theorem-5.1").  statement: LaTeX, without dollar signs.  function: takes the
    arguments of one example and returns a `Certificate` (`bounds.certify` makes one).  strategy: a function without
    arguments that gives a hypothesis strategy of tuples of these arguments; so nothing is loaded before it is drawn
    from.  source: where it is printed.  status: "proved", "classical", "conjecture", or "false as printed" (statement
    and function are then the corrected form, proved).  erratum: what is wrong in print, with a counterexample; "" if
    nothing.

    Own claims are stated and tried in the same way; prints as LaTeX in a notebook.
    Raises ValueError for an empty label, one with spaces, or a function or strategy that cannot be called.

    >>> from hypothesis import strategies as st
    >>> from bounds import certify
    >>> claim = Claim(
    ...     label="mean-square",
    ...     statement=r"2xy \\le x^2 + y^2",
    ...     function=lambda x, y: certify("mean-square", "school", 2 * x * y, x * x + y * y, tolerance=0),
    ...     strategy=lambda: st.tuples(st.fractions(), st.fractions()),
    ...     source="school",
    ... )
    >>> claim.verify(examples=20).verdict.name
    'HOLDS'
    """

    label: str
    statement: str
    function: Callable[..., Certificate]
    strategy: Callable[[], SearchStrategy[tuple[Any, ...]]]
    source: str
    status: str = "proved"
    erratum: str = ""

    def __post_init__(self) -> None:
        if not self.label or self.label.split() != [self.label]:
            raise ValueError(f"label must be a text without spaces, got {self.label!r}")
        for name in ("function", "strategy"):
            if not callable(getattr(self, name)):
                hint = "; write lambda: before it" if name == "strategy" else ""
                raise ValueError(f"{name} of {self.label} must be callable, got {getattr(self, name)!r}{hint}")

    def verify(self, *, examples: int = 50, seed: int = 0) -> Verification:
        """Try the claim on drawn examples; reproducible by seed.

        examples: how many to draw, at least 1; seed: a nonnegative integer.  Returns a record with the number of each
        verdict, the smallest slack and the input that met it, and, where one fails, a shrunk counterexample. What
        rounding leaves UNDECIDED is tried again with exact=True where the function has it.
        Raises ValueError for examples or seed out of range, for a strategy that draws no tuples, and for a function
        that returns no Certificate.
        """
        from bounds._verify import verify

        return verify(self, examples=examples, seed=seed)

    def _repr_latex_(self) -> str:
        return f"${self.statement}$"


def _psd() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import psd_matrices

    return st.tuples(psd_matrices())


def _correlations() -> SearchStrategy[tuple[Any, ...]]:
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices

    return st.tuples(correlation_matrices())


def _networks() -> SearchStrategy[tuple[Any, ...]]:
    """(layer, G0, depth), or (layers, G0): a sequence fixes the depth."""
    from hypothesis import strategies as st

    from bounds.strategies import correlation_matrices, layers

    # one input, or no layer, would be a quarter of the draws, and trivial
    matrices = correlation_matrices(min_n=2)
    repeated = st.tuples(layers(), matrices, st.integers(1, 12))
    return st.one_of(repeated, st.tuples(st.lists(layers(), min_size=1, max_size=6), matrices))


_LISTED = (
    Claim(
        label="lemma-a.1",
        statement=r"0 \le \mathcal I(M) \le 1, \quad \mathcal I(cM) = \mathcal I(M), \quad "
        r"\mathcal I(M) = 1 \iff M = cI, \quad \mathcal I(M) = 0 \iff \det M = 0",
        function=isometry_properties,
        strategy=_psd,
        source=f"{_PAPER}, Lemma A.1",
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
        source=f"{_PAPER}, Theorem 4.1",
    ),
    Claim(
        label="lemma-a.4",
        statement=r"(1 - (n-1) m)^n \le \det G \text{ if } (n-1) m \le 1, \quad \det G \le 1 - m^2, \quad "
        r"m = \max_{i \ne j} \lvert G_{ij} \rvert, \quad G_{ii} = 1",
        function=determinant_sandwich,
        strategy=_correlations,
        source=f"{_PAPER}, Lemma A.4",
        status="false as printed",
        erratum="Printed without the hypothesis (n-1) m <= 1 of the lower bound. Counterexample: n = 4 and all "
        "correlations 0.9 give 8.3521 <= 0.0037.",
    ),
    Claim(
        label="lemma-a.3",
        statement=r"\gamma(G_l) \le \beta^{-l} \gamma(G_0), \quad "
        r"\gamma(G) = \max_{i \ne j} \frac{\lvert G_{ij} \rvert}{1 - \lvert G_{ij} \rvert}, \quad "
        r"\lvert (G_0)_{ij} \rvert < 1",
        function=potential_contraction,
        strategy=_networks,
        source=f"{_PAPER}, Lemmas A.2 and A.3",
    ),
    Claim(
        label="theorem-5.1",
        statement=r"-\log \mathcal I(G_l) \le \frac{4n}{\det G_0} \, \beta^{-l}, \quad "
        r"\det G_0 > 0, \quad \beta > 1",
        function=gap_decay,
        strategy=_networks,
        source=f"{_PAPER}, Theorem 5.1",
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
        source=f"{_PAPER}, Theorem 5.1, sharpened; proof: documentation of spectral_gap_decay",
    ),
)

CLAIMS: Mapping[str, Claim] = MappingProxyType({claim.label: claim for claim in _LISTED})
