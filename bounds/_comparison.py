"""The first layer at which the isometry gap is proven to be small, by every bound that there is, beside the gap itself.

All bounds decrease with depth. Those that know beta, r, and numbers of G_0 only are found for any depth by bisection;
those that follow maps or matrices through the layers are run until they are small enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from bounds._bracket import Bracket, one
from bounds._depth import Run, start
from bounds._gamma import LOG_EXPM1, LOG_FROM_ODDS, LOG_LOG1P_EXP, log_gamma, log_gamma_minus
from bounds._judge import in_balls
from bounds._sharp import log_potential_at, reach
from meanfield._layer import Layer, Layers, as_layers

__all__ = ["DecayComparison", "certified_gap_decay"]

Bound: TypeAlias = Callable[[Run, Bracket, Bracket], Bracket]

_FIRST, _FARTHEST = 32, 1 << 40


@dataclass(frozen=True)
class DecayComparison(Mapping[str, int | None]):
    """The first layer with gap <= eps by each method, None where it is not reached: a mapping, tightest methods first.

    eps; gap: that of layer 0; n: how many inputs; label: of the layers; depth: how many layers the methods that follow
    maps or matrices have looked at; exact: whether every layer is proven by ball arithmetic; first_layers: pairs
    (method, layer). `print` shows it as a table.
    """

    eps: float
    gap: float
    n: int
    label: str
    depth: int
    exact: bool
    first_layers: tuple[tuple[str, int | None], ...]

    def __getitem__(self, method: str) -> int | None:
        return dict(self.first_layers)[method]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.first_layers))

    def __len__(self) -> int:
        return len(self.first_layers)

    def __str__(self) -> str:
        head = f"first layer with gap <= {self.eps:g} ({self.label}, n = {self.n}, gap {self.gap:.6g} at layer 0)"
        width = max(map(len, self))
        shown = {method: "-" if layer is None else str(layer) for method, layer in self.items()}
        return "\n".join([head, *(f"  {m:<{width}}  {s:>6}  {_METHODS[m]}" for m, s in shown.items())])


def certified_gap_decay(
    layer: Layers, G0: Any, eps: float, *, depth: int | None = None, exact: bool = False
) -> DecayComparison:
    """The first layer with isometry gap <= eps, proven, by each known bound, beside that of the network itself.

    Methods, from the tightest: "actual", the gap itself; "entrywise", f_l(|G0_ij|) and the determinant bound by their
    root mean square; "map", f_l(max |G0_ij|) and the one in terms of the largest (`scalar_gap_decay`); "r5", the
    same with r m + (1 - r) m^2 for f; "r4", psi at the rate r (`sharp_gap_decay`); "potential", the potential at the
    rate 1/beta; "majorization", gap((1 - s_l) I + s_l G_0) (`spectral_majorization`); "gamma", Gamma_n(f_l(1 -
    lambda_0)); "r4+"; "log1p" and "determinant" (`spectral_gap_decay`); "theorem-5.1", as printed (`gap_decay`). The
    first six know the correlations, the rest their smallest eigenvalue or determinant: neither kind is always better.

    layer: a `meanfield.Layer`, or a sequence of them.  G0: one correlation matrix (n, n).  eps: a positive number.
    depth: how far methods follow maps and matrices, 4096 by default (a sequence fixes it); what is not small by then is
    None, as is what never will be: for linear layers, for a singular G0 and bounds that know it by its eigenvalues.
    A layer counts when the upper end of the bound's error bar is at most eps; error bars are those of the claims,
    measured where they pass through `meanfield.trajectory`. exact: error bars are proven, by ball arithmetic of 128
    bits; that takes milliseconds to seconds for each pair of inputs and layer, and the extra `rigor`.
    Raises ValueError for eps <= 0, for layers with f(0) != 0, whose gap does not tend to 0 (`uncentred_gap_sandwich`),
    and as `gap_decay`.

    >>> from meanfield import Layer
    >>> G0 = [[1.0, 0.9, 0.8], [0.9, 1.0, 0.9], [0.8, 0.9, 1.0]]
    >>> print(certified_gap_decay(Layer("relu"), G0, 1e-3))
    first layer with gap <= 0.001 (relu, n = 3, gap 1.10808 at layer 0)
      actual            18  the gap itself
      entrywise         19  f_l(|G0_ij|), their root mean square
      map               19  f_l(max |G0_ij|)
      r5                21  max |G0_ij| through r m + (1 - r) m^2
      r4                23  potential psi, rate r
      potential         24  potential, rate 1/beta
      majorization      20  gap((1 - s_l) I + s_l G_0)
      gamma             20  Gamma_n(f_l(1 - lambda_0))
      r4+               23  lambda_0, rate r^2
      log1p             41  lambda_0, rate 1/beta
      determinant       48  e/det G_0, rate 1/beta
      theorem-5.1       54  4n/det G_0, rate 1/beta, as printed
    """
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.number) or not eps > 0:
        raise ValueError(f"eps must be a positive number, got {eps!r}")
    target = math.log(float(eps))
    run, followed = _followed(layer, G0, target, depth)
    if exact:
        with in_balls(run, G0) as proven:
            found = {m: _first(bound(proven), target) for m, bound in _FOLLOWED.items()}
            found |= {m: _known(proven, formula, target) for m, formula in _FORMULAS.items()}
    else:
        found = followed | {m: _known(run, formula, target) for m, formula in _FORMULAS.items()}
    gap, looked = float(run.path.isometry_gap[0]), len(run.layers)
    return DecayComparison(
        float(eps), gap, run.n, run.path.label, looked, exact, tuple((m, found[m]) for m in _METHODS)
    )


def _followed(layer: Layers, G0: Any, target: float, depth: int | None) -> tuple[Run, dict[str, int | None]]:
    """A run deep enough for what follows maps and matrices, and the layers found."""
    most = _depth(depth) if isinstance(layer, Layer) else len(as_layers(layer, depth))
    size = min(_FIRST, most)
    found: dict[str, int | None] = dict.fromkeys(_FOLLOWED)
    while True:
        run = start(layer, G0, size if isinstance(layer, Layer) else None)
        if not run.centred.holds:
            raise ValueError(f"layer must have f(0) = 0: {run.centred.detail}; its gap does not tend to 0")
        for method in [m for m, at in found.items() if at is None]:
            found[method] = _first(_FOLLOWED[method](run), target)
        missing = [m for m, at in found.items() if at is None]
        if size >= most or not missing or _never(run, missing):
            deepest = max([at for at in found.values() if at is not None], default=0)
            short = isinstance(layer, Layer) and not missing and deepest < size
            return (start(layer, G0, max(deepest, 1)) if short else run), found
        size = min(4 * size, most)


def _depth(depth: int | None) -> int:
    if depth is None:
        return 4096
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise ValueError(f"depth must be an integer >= 0, got {depth!r}")
    return depth


def _never(run: Run, missing: list[str]) -> bool:
    """Whether more layers change nothing: they are linear, or what is missing knows that G_0 is singular."""
    spectral = run.path.status[0] == "singular" and set(missing) <= {"majorization", "gamma"}
    parallel = bool(run.equal.parallel[-1])
    return spectral or parallel or not run.nonlinear.holds


def _first(bound: Bracket, target: float) -> int | None:
    layers = np.flatnonzero(bound.high <= target)
    return int(layers[0]) if len(layers) else None


def _known(run: Run, formula: Bound, target: float) -> int | None:
    """The first layer by what knows rates only; of one repeated layer by bisection, beyond the depth of the run too."""
    if not run.repeated or not run.layers:
        return _first(formula(run, run.decay, run.log_rate), target)
    decay, rate = run.decay[1], run.log_rate[1]

    def small(l: int) -> bool:
        return bool(formula(run, float(l) * decay, float(l) * rate).high[0] <= target)

    high = 0 if small(0) else 1
    while not small(high):
        high *= 2
        if high > _FARTHEST:
            return None
    low = high // 2  # not small there, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return high


# ---- what follows maps and matrices ---------------------------------------------------------------------------


_FOLLOWED: dict[str, Callable[[Run], Bracket]] = {
    "actual": lambda run: run.log_gaps,
    "entrywise": lambda run: run.log_of_moduli.through(log_gamma_minus(run.n)),
    "map": lambda run: run.mapped_largest.through(log_gamma_minus(run.n)),
    "r5": lambda run: run.log_quadratic.through(log_gamma_minus(run.n)),
    "majorization": lambda run: run.mixture_gap(run.log_ratio),
    "gamma": lambda run: run.log_spreads.through(log_gamma(run.n)),
}

# ---- what knows rates: (run, sum of log beta, sum of log r) ---------------------------------------------------


def _potential(run: Run, decay: Bracket, rate: Bracket) -> Bracket:
    return (run.log_potentials[0] - decay).through(LOG_FROM_ODDS).through(log_gamma_minus(run.n))


def _r4(run: Run, decay: Bracket, rate: Bracket) -> Bracket:
    at = reach(run, rate)
    bound = log_potential_at(run, at)
    never = one(math.inf) + 0.0 * rate
    return bound.same_as(never, at.high <= -math.log(2.0))[1]


def _r4_plus(run: Run, decay: Bracket, rate: Bracket) -> Bracket:
    mu, smallest = run.log_spectrum
    if run.n == 1 or not run.positive_r.holds:
        return one(-math.inf if run.n == 1 else math.inf) + 0.0 * decay
    return run.log(Fraction(run.n - 1, 2)) + 2.0 * (mu - run.power * smallest + rate)


_FORMULAS: dict[str, Bound] = {
    "r4": _r4,
    "potential": _potential,
    "r4+": _r4_plus,
    "log1p": lambda run, decay, rate: (run.odds[0] - decay).through(LOG_LOG1P_EXP),
    "determinant": lambda run, decay, rate: (1.0 - run.log_det).through(LOG_EXPM1) - decay,
    "theorem-5.1": lambda run, decay, rate: run.log(4 * run.n) - run.log_det - decay,
}

_METHODS = {
    "actual": "the gap itself",
    "entrywise": "f_l(|G0_ij|), their root mean square",
    "map": "f_l(max |G0_ij|)",
    "r5": "max |G0_ij| through r m + (1 - r) m^2",
    "r4": "potential psi, rate r",
    "potential": "potential, rate 1/beta",
    "majorization": "gap((1 - s_l) I + s_l G_0)",
    "gamma": "Gamma_n(f_l(1 - lambda_0))",
    "r4+": "lambda_0, rate r^2",
    "log1p": "lambda_0, rate 1/beta",
    "determinant": "e/det G_0, rate 1/beta",
    "theorem-5.1": "4n/det G_0, rate 1/beta, as printed",
}
