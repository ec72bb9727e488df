"""Growth of an activation, |sigma(x)| <= A exp(B|x| + Q x^2): derived and proven, or declared and put to the test.

Beyond |x| = D the bound comes from the rules of `_ray`, on the original tree; up to D it is proven interval by
interval in ball arithmetic. Where no rule applies the user's declaration is taken for the tails, after balls have
failed to refute it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .. import _tree as t
from .._activation import Activation, ActivationLike, activation
from .._tree import Node
from ..errors import NotSquareIntegrableError, PrecisionError
from ._balls import RealFunction, real
from ._divergence import diverges
from ._flint import Ball, arb, between, exact, precision
from ._ray import Bound, size

_BITS = 96
_STARTS = (8, 32, 128)
_TESTED = 40  # a declared bound is tested on [-40, 40]; N(0, 1) has mass e^-800 outside
_POLYNOMIAL_Q = Fraction(1, 32)
_MOST_BOXES = 20_000


@dataclass(frozen=True)
class Growth:
    """|sigma(x)| <= A exp(B|x| + Q x^2) with exactly these floats, how it is known, and where balls proved it."""

    A: float
    B: float
    Q: float
    reason: str
    verified: tuple[float, float]


@dataclass(frozen=True)
class Tails:
    """Bounds on the rays x <= -start and x >= start (in |x|), and the reason for them."""

    left: Bound
    right: Bound
    start: Fraction
    reason: str

    def second_moment(self, reach: Fraction) -> Ball:
        """A bound of E sigma^2 over |x| > reach, infinite where none is seen.

        The integrand is at most a^2 exp(E)/sqrt(2 pi), E = 2p log(1 + x) + 2b x + 2q x^2 - x^2/2, concave for q < 1/4
        and p >= 0, so its integral from R is at most exp(E(R))/(-E'(R)) once E'(R) < 0.
        """
        r, total = exact(reach), arb(0)
        for side in (self.left, self.right):
            slope = 2 * side.p / (1 + r) + 2 * side.b - (1 - 4 * side.q) * r
            if not slope < 0:
                return arb.pos_inf()
            exponent = 2 * side.p * (1 + r).log() + 2 * side.b * r - (exact(Fraction(1, 2)) - 2 * side.q) * r * r
            total += side.a * side.a * exponent.exp() / (-slope)
        return (total / (2 * arb.pi()).sqrt()).upper()


def forbid_opaque(sigma: Activation) -> Activation:
    """The activation, refused if a Python callable is part of it."""
    if sigma.is_opaque:
        raise PrecisionError(
            f"{sigma.name} is a Python callable: a kink planted inside one cannot be seen, so nothing about it can be "
            "proven; give it as an expression text, or use hermite.multiprecision"
        )
    return sigma


@lru_cache(maxsize=512)
def tails(sigma: Activation) -> Tails:
    """The bounds that the tails rest on; refuses divergent and refuted ones, and asks for growth where no rule applies.

    Raises NotSquareIntegrableError, PrecisionError, ValueError (declared growth refuted).
    """
    with precision(_BITS):
        if sigma.declared_growth is not None:
            _refute(sigma)
        derived = _derived(sigma.expr)
        good = derived is not None and _integrable(derived)
        singular = any(p.singular_lower or p.singular_upper for p in sigma.pieces)
        if (singular or not good) and diverges(sigma):
            raise NotSquareIntegrableError(
                f"{sigma.name} is not square-integrable under N(0, 1): its leading term against exp(-x^2/2) does not "
                "decay, or a pole is too strong"
            )
        if good:
            assert derived is not None
            return derived
        if sigma.declared_growth is not None:
            a, b, q = (exact(Fraction(v)) for v in sigma.declared_growth)
            bound = Bound.of(a, 0, b, q)
            return Tails(bound, bound, Fraction(0), "growth declared")
    raise PrecisionError(
        f"no rule bounds {sigma.name} for large |x|, so its tails are unproven; declare growth=(A, B, Q) with "
        "|sigma(x)| <= A exp(B|x| + Q x^2), Q < 1/4, as in activation(spec, growth=(2, 1, 0))"
    )


def _integrable(found: Tails) -> bool:
    quarter = exact(Fraction(1, 4))
    return bool(found.left.q < quarter and found.right.q < quarter)


def _derived(tree: Node) -> Tails | None:
    mirrored = t.substitute(tree, t.neg(t.X))
    for start in _STARTS:
        left, right = size(mirrored, arb(start)), size(tree, arb(start))
        if left is not None and right is not None and _finite(left) and _finite(right):
            return Tails(left, right, Fraction(start), f"growth derived by rules from the tree for |x| >= {start}")
    return None


def _finite(bound: Bound) -> bool:
    return all(v.is_finite() for v in (bound.a, bound.p, bound.b, bound.q))


def _envelope(sigma: Activation, a: Ball, b: Ball, q: Ball) -> Callable[[Ball], Ball]:
    """|sigma(x)| exp(-b|x| - q x^2)/a, at most 1 where the bound holds."""
    f = real(sigma.expr)

    def ratio(x: Ball) -> Ball:
        return abs(f(x)) * (-b * abs(x) - q * x * x).exp() / a

    return ratio


def _refute(sigma: Activation) -> None:
    """ValueError if balls prove the declared growth wrong at some point of a grid."""
    assert sigma.declared_growth is not None
    a, b, q = (exact(Fraction(v)) for v in sigma.declared_growth)
    ratio = _envelope(sigma, a, b, q)
    for i in range(-16 * _TESTED, 16 * _TESTED + 1):
        x = Fraction(i, 16)
        if ratio(exact(x)) > 1:
            raise ValueError(
                f"growth={sigma.declared_growth!r} is refuted for {sigma.name}: |sigma({float(x):g})| exceeds "
                "A exp(B|x| + Q x^2) there; declare a larger bound"
            )


# ---- the bound on the whole line ----------------------------------------------------------------------------------


def growth(sigma: ActivationLike) -> Growth:
    """Growth bound (A, B, Q) of an activation with its reason and the interval on which balls proved it.

    |sigma(x)| <= A exp(B|x| + Q x^2). Where rules derive it, it is proven on the whole line: by ball arithmetic on
    `.verified`, by the rules outside. A declared bound is tested on [-40, 40]: a point that contradicts it raises
    ValueError, and `.verified` is the interval around 0 on which it was proven (to a factor 1 + 10^-6); outside it is
    the user's word.

    sigma: anything `hermite.activation` accepts but callables. Raises NotSquareIntegrableError, PrecisionError (opaque,
    unbounded at a singular point, or no rule applies and nothing is declared), ValueError (declared and refuted).

    >>> growth("sigmoid").B, growth("exp(2*x)").B, growth("relu").Q
    (0.0, 2.0, 0.03125)
    """
    return _growth(forbid_opaque(activation(sigma)))


@lru_cache(maxsize=512)
def _growth(sigma: Activation) -> Growth:
    found = tails(sigma)
    with precision(_BITS):
        if found.reason == "growth declared":
            assert sigma.declared_growth is not None
            reach = float(_proven_up_to(sigma))
            reason = f"{found.reason}; not refuted on [-{_TESTED}, {_TESTED}], proven by balls on {reach:g} around 0"
            return Growth(*sigma.declared_growth, reason, (0.0 - reach, reach))
        left, right = (without_power(side) for side in (found.left, found.right))
        b = _up(left.b.max(right.b).max(arb(0)))
        q = _up(left.q.max(right.q))
        a = left.a.max(right.a)
        ratio = _envelope(sigma, arb(1), exact(Fraction(b)), exact(Fraction(q)))
        top = _supremum(sigma, ratio, found.start, a)
        start = float(found.start)
        sides = f"{found.left} on the left, {found.right} on the right; by balls up to there"
        return Growth(_up(top), b, q, f"{found.reason}: {sides}", (-start, start))


def _up(x: Ball) -> float:
    """A float that is at least x."""
    value = float(x.upper())
    return value if exact(Fraction(value)) >= x else math.nextafter(value, math.inf)


def without_power(bound: Bound) -> Bound:
    """(1 + r)^p <= C exp(eps r^2): the maximum of p log(1 + r) - eps r^2 is at r (1 + r) = p/(2 eps)."""
    if not bound.p > 0:
        return bound
    eps, p = exact(_POLYNOMIAL_Q), bound.p
    r = ((1 + 2 * p / eps).sqrt() - 1) / 2
    top = (p * (1 + r).log() - eps * r * r).exp()
    return Bound(bound.a * top, arb(0), bound.b, bound.q + eps)


def _supremum(sigma: Activation, ratio: RealFunction, reach: Fraction, enough: Ball) -> Ball:
    """An upper bound of the ratio on [-reach, reach], within 1 % of the best or below `enough`."""
    heap: list[tuple[float, int, Fraction, Fraction]] = []
    least = exact(Fraction(1, 10**300))

    def push(a: Fraction, b: Fraction) -> None:
        value = ratio(between(a, b))
        heapq.heappush(heap, (-_up(value) if value.is_finite() else -math.inf, len(heap) + 1, a, b))

    for i in range(32):
        push(-reach + i * reach / 16, -reach + (i + 1) * reach / 16)
    for _ in range(_MOST_BOXES):
        top, _, a, b = heap[0]
        if -top < math.inf and (exact(Fraction(-top)) <= enough or exact(Fraction(-top)) <= 1.01 * least):
            return exact(Fraction(-top)).max(enough)
        heapq.heappop(heap)
        middle = (a + b) / 2
        at = ratio(exact(middle))
        least = least.max(at.lower()) if at.is_finite() else least
        push(a, middle)
        push(middle, b)
    raise PrecisionError(f"{sigma.name} has no finite bound near x = {float(heap[0][2]):.6g} that balls can prove")


def _proven_up_to(sigma: Activation) -> int:
    """The largest integer r <= 40 such that the declared bound is proven on [-r, r], to a factor 1 + 10^-6."""
    assert sigma.declared_growth is not None
    a, b, q = (exact(Fraction(v)) for v in sigma.declared_growth)
    ratio = _envelope(sigma, a, b, q)
    for r in range(_TESTED):
        if not (_holds(ratio, Fraction(r), Fraction(r + 1)) and _holds(ratio, Fraction(-r - 1), Fraction(-r))):
            return r
    return _TESTED


def _holds(ratio: RealFunction, low: Fraction, high: Fraction) -> bool:
    # a bound that is attained, as 1 is by sin, is seen only up to a factor
    stack, top = [(low, high)], exact(1 + Fraction(1, 10**6))
    for _ in range(2000):
        if not stack:
            return True
        a, b = stack.pop()
        if not ratio(between(a, b)) <= top:
            middle = (a + b) / 2
            stack += [(a, middle), (middle, b)]
    return not stack
