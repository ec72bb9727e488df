"""How fast correlations reach the fixed point of a layer, as bounds for every layer: four cases, and Schwarz and Pick.

kappa(rho) = sum over k >= 0 of W_k rho^k, W_k >= 0, kappa(1) = 1, is the map of correlations of any layer that has one,
and rho_l its iterates. Let a be its slope at the fixed point rho* that attracts (`fixed_points`).

1. kappa(0) = 0, rho* = 0. With x = |rho|, |kappa(rho)| <= x (a + (1 - a) x), whence 1 - |kappa(rho)| >= (1 - x)
   (1 + (1 - a) x), and |rho|/(1 - |rho|) is multiplied by at most (a + (1 - a) x)/(1 + (1 - a) x) <= 1/(2 - a).
2. kappa'(1) < 1, rho* = 1. (1 - rho^k)/(1 - rho) = 1 + rho + ... + rho^(k-1) <= k on [-1, 1], so 1 - kappa(rho) <=
   kappa'(1) (1 - rho).
3. kappa'(1) = 1, rho* = 1. For k >= 2, k - (1 + rho + ... + rho^(k-1)) = sum over j < k of (1 - rho^j) >= 1 - rho, and
   so 1 - rho^k <= k (1 - rho) - (1 - rho)^2: d = 1 - rho becomes d' <= d - p d^2, p = W_2 + W_3 + ..., and 1/d' >=
   1/d + p.
4. kappa(0) > 0 and kappa'(1) > 1, 0 < rho* < 1. Above rho*, y = (rho - rho*)/(1 - rho*) is mapped by a power series
   with coefficients >= 0 that fixes 0 and 1 (kappa expanded at rho*), of slope a at 0: case 1 for y, and y/(1 - y) =
   (rho - rho*)/(1 - rho). On |rho| <= rho*, which kappa maps to itself, |kappa'| <= kappa'(rho*) = a. Below -rho* both
   fail, and the next one holds.

Schwarz and Pick: kappa maps the unit disc to itself, |kappa(z)| <= kappa(|z|) <= 1. If rho* < 1, the Moebius map
T = (rho - rho*)/(1 - rho rho*) makes it T phi(T) with |phi| <= 1 and |phi(0)| = a, so |phi(T)| <= (|T| + a)/(1 + a |T|)
and |T'| <= |T| (|T| + a)/(1 + a |T|).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._fixed_points import FixedPoint, fixed_points
from ._layer import Layer, check_depth

_STATEMENTS = {
    1: r"\frac{|\rho_l|}{1-|\rho_l|} \le \alpha^l \frac{|\rho_0|}{1-|\rho_0|}, \quad \alpha = \frac{1}{2-\kappa'(0)}",
    2: r"1-\rho_l \le \alpha^l (1-\rho_0), \quad \alpha = \kappa'(1)",
    3: r"1-\rho_l \le \frac{1-\rho_0}{1+l(1-\alpha)(1-\rho_0)}, \quad \alpha = \kappa(0)+\kappa'(0)",
    4: (
        r"\frac{\rho_l-\rho^*}{1-\rho_l} \le \alpha^l \frac{\rho_0-\rho^*}{1-\rho_0} \text{ for } \rho_0 \ge \rho^*, "
        r"\quad \alpha = \frac{1}{2-\kappa'(\rho^*)}; \quad |\rho_l-\rho^*| \le \kappa'(\rho^*)^l |\rho_0-\rho^*| "
        r"\text{ for } |\rho_0| \le \rho^*"
    ),
}


@dataclass(frozen=True)
class Convergence:
    """Which of the four cases a layer is, where it leads, at what rate, and bounds for every layer.

    case: 1 (kappa(0) = 0), 2 (kappa'(1) < 1), 3 (kappa'(1) = 1), 4 (kappa'(1) > 1); fixed_point: the one that attracts;
    rate: alpha of `statement`, which is LaTeX. A layer that keeps every correlation is case 1 with rate 1.
    """

    case: int
    fixed_point: FixedPoint
    rate: float
    statement: str = field(repr=False)

    def _repr_latex_(self) -> str:
        return f"${self.statement}$"

    def bound(self, rho0: float, depth: int) -> NDArray[np.float64]:
        """Upper bounds of |rho_l - rho*| for l = 0..depth, shape (depth + 1,), from rho_0 in [-1, 1].

        By the case's own inequality; for case 4 from rho_0 < -rho* it is `schwarz_pick`. At layer 0 it is |rho_0 -
        rho*|. 1 is a fixed point, and the bound stays there; so does that of -1 in case 1. Accurate to rounding.
        Source: arXiv:2410.20107, where the rate of case 4 is too small (rho_0 above rho*).

        >>> convergence(Layer("relu", normalization="rms")).bound(0.0, 3).round(6)   # case 3
        array([1.      , 0.846246, 0.733471, 0.64722 ])
        """
        start, layers = _distance(rho0), np.arange(check_depth(depth) + 1.0)
        below = self.fixed_point.complement
        if self.case == 1:
            return _from_odds(abs(float(rho0)), 1.0 - abs(float(rho0)), layers * self._log_rate)
        if self.case == 2:
            return np.asarray(start * np.exp(-layers / self.fixed_point.correlation_length))
        if self.case == 3:
            return np.asarray(start / (1.0 + layers * (1.0 - self.rate) * start))
        if start <= below:
            return below * _from_odds(self._apart(rho0), start, layers * self._log_rate)
        if start <= 2.0 - below:
            return np.asarray(self._apart(rho0) * np.exp(-layers / self.fixed_point.correlation_length))
        return self.schwarz_pick(rho0, depth)

    def schwarz_pick(self, rho0: float, depth: int) -> NDArray[np.float64]:
        """The same from every rho_0 by the lemma of Schwarz and Pick, which knows rho* and kappa'(rho*) only.

        With T = |rho - rho*|/(1 - rho rho*), T_(l+1) <= T_l (T_l + a)/(1 + a T_l). Nothing is said from 1 and -1, which
        may be fixed or mapped to each other. Raises ValueError where rho* = 1.

        >>> round(float(convergence(Layer("square", normalization="rms")).schwarz_pick(-0.9, 20)[-1]), 6)
        0.242134
        """
        point, start = self.fixed_point, _distance(rho0)
        c, less, a = point.complement, -math.expm1(self._log_slope), math.exp(self._log_slope)
        if c == 0.0:
            raise ValueError("the fixed point is 1, on the border of the disc: Schwarz and Pick say nothing; ask bound")
        rho, below = 1.0 - c, start > c
        whole = start + c - start * c  # 1 - rho_0 rho*
        T, rest = self._apart(rho0) / whole, (c * (2.0 - start) if below else start * (2.0 - c)) / whole
        out = np.empty(check_depth(depth) + 1)
        for layer in range(len(out)):
            # rest = 1 - T, carried along: 1 - rho* T has no digits of its own next to 1
            out[layer] = T * c * (2.0 - c) / (c + rho * rest if below else 1.0 + rho * T)
            pole = 1.0 + (1.0 - less) * T
            factor = (T + a) / pole if T < 0.5 else 1.0 - less * rest / pole
            T, rest = T * factor, rest * (1.0 + T) / pole
        return out

    def _apart(self, rho0: float) -> float:
        """|rho_0 - rho*|, from the distances of both from 1 where those hold more digits."""
        point = self.fixed_point
        return abs(float(rho0) - point.rho) if point.complement > 0.5 else abs(1.0 - float(rho0) - point.complement)

    @property
    def _log_slope(self) -> float:
        """log kappa'(rho*)."""
        length = self.fixed_point.correlation_length
        return -1.0 / length if length else -math.inf

    @property
    def _log_rate(self) -> float:
        """log of 1/(2 - kappa'(rho*)), to relative accuracy."""
        return -math.log1p(-math.expm1(self._log_slope))


def convergence(layer: Layer) -> Convergence:
    """The case of a layer among four, and bounds of the distance of correlations from their limit at every layer.

    Raises as `fixed_points`. Source: arXiv:2410.20107; each case is derived in `meanfield._convergence`.

    >>> c = convergence(Layer("gelu", normalization="rms"))
    >>> c.case, round(c.fixed_point.rho, 12), round(c.rate, 12)
    (4, 0.760401904896, 0.936968998396)
    >>> c.bound(0.999, 100)[[0, 100]].round(6)
    array([0.238598, 0.062769])
    """
    points = fixed_points(layer)
    zero = next((p for p in points if p.rho == 0.0), None)
    point = zero or points[-1]
    if zero is None and point.stability == "repelling":
        case, point = 4, points[-2]
    else:
        case = 1 if zero else 2 if point.stability == "attracting" else 3
    if case == 2:
        rate = point.slope
    elif case == 3:
        step = layer.step
        rate = step.at_zero + float(step.slope(np.zeros(1))[0])
    else:
        rate = 1.0 / (2.0 - point.slope)
    return Convergence(case, point, rate, _STATEMENTS[case])


def _distance(rho0: Any) -> float:
    """1 - rho_0."""
    given = np.asarray(rho0)
    if given.shape or given.dtype.kind not in "fiu" or not -1.0 <= float(given) <= 1.0:
        raise ValueError(f"rho0 must be a number in [-1, 1], got {rho0!r:.80}")
    return 1.0 - float(given)


def _from_odds(x: float, rest: float, log_factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """y with y/(1 - y) = factor x/rest, x + rest being the whole."""
    factor = np.exp(log_factor)
    if rest == 0.0:
        return np.ones_like(factor)
    return np.asarray(x * factor / (rest + x * factor))
