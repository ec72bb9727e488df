"""Integrals of an activation against the Gaussian: panels, on each of which two different rules have to agree.

sigma is evaluated once at every node; the values are kept as integers over a common power of two for each panel, so
that Hermite coefficients of any degree, the second moment and the centred moments are sums of integer products.
A panel on which Gauss-Legendre and Fejer rules differ is halved. Differences that precision causes rather than the
panel (cancellation inside sigma) are told by evaluating again with more bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from operator import mul

from mpmath import libmp

from .._extent import SQUARE
from ..errors import NotSquareIntegrableError, PrecisionError
from ._interpreter import exp
from ._layout import Panel
from ._raw import (
    LOG_10,
    ONE,
    ZERO,
    Raw,
    fixed,
    from_fixed,
    from_float,
    is_finite,
    log_size,
    magnitude,
    to_float,
)
from ._rules import Rule, fejer, gauss

MAX_PANELS = 4000


@dataclass(frozen=True)
class Scheme:
    """What is asked of the quadrature: digits relative to the scale, degree of the coefficients, bits, and the rate."""

    digits: float
    degree: int
    bits: int
    rate: float

    @property
    def rules(self) -> tuple[Rule, Rule]:
        """Gauss and Fejer rules: on a unit panel of tanh n Gauss points give 1.6 n digits.

        One is odd, the other even: two even rules give a jump near the middle the same half.
        """
        n = math.ceil((self.digits + 6) / 1.6 + 0.35 * math.sqrt(self.degree)) // 2 * 2 + 3
        return gauss(n, self.bits), fejer(math.ceil(0.9 * n) * 2, self.bits)


class MoreBits(Exception):
    """sigma loses digits by cancellation: the same again with so many more bits."""

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self.bits = bits


@dataclass(frozen=True, eq=False)
class Block:
    """One rule on one panel: x, weights (with the density) and values as integers over 2^x_bits, 2^w_bits, 2^f_bits."""

    x: list[int]
    w: list[int]
    f: list[int]
    x_bits: int
    w_bits: int
    f_bits: int


@dataclass(frozen=True, eq=False)
class Sums:
    """Integrals over a panel: against He_0..He_degree, of the square, of |sigma|, and of 1 and x^2."""

    coefficients: list[Raw]
    square: Raw
    size: Raw
    ground: tuple[Raw, Raw]


@dataclass(frozen=True, eq=False)
class Settled:
    """A panel with both rules' samples and integrals, and how far they differ (logarithms)."""

    panel: Panel
    blocks: tuple[Block, Block]
    sums: tuple[Sums, Sums]
    miss: float
    miss_square: float
    miss_ground: float


def settle(panels: Iterable[Panel], scheme: Scheme, name: str, advice: str, *, suspicious: bool) -> list[Settled]:
    """Halve panels until both rules agree on each, relative to the total.

    suspicious: a callable may have kinks that nobody declared, also beside the edge of two panels, where neither has a
    node; panels laid across every edge look for them. Raises MoreBits, PrecisionError naming the place and the advice,
    NotSquareIntegrableError for values that are no numbers.
    """
    todo, done, count, seen = list(panels), list[Settled](), 0, set[tuple[Raw, Raw]]()
    while todo:
        count += len(todo)
        if count > MAX_PANELS:
            raise _unsettled(done, scheme, name, advice)
        done += [_settled(panel, scheme, name) for panel in todo]
        scale = _scale(done, scheme)
        failing = [s for s in done if _excess(s, scale, scheme) > 0]
        if failing:
            _look_for_noise(failing, scale, scheme)
        done = [s for s in done if _excess(s, scale, scheme) <= 0]
        todo = [half for s in failing for half in _halves(s.panel)]
        if todo and count + len(todo) > MAX_PANELS:
            raise _unsettled(failing, scheme, name, advice)
        if suspicious and not todo:
            done, todo = _laid_across(done, scheme, scale, name, seen)
    return done


def _laid_across(
    done: list[Settled], scheme: Scheme, scale: float, name: str, seen: set[tuple[Raw, Raw]]
) -> tuple[list[Settled], list[Panel]]:
    """The panels without those beside a rough edge, and three for each such pair, the edge inside the middle one.

    The reach is a part of the narrower neighbour, and unequal: halving the middle panel must not end at the same edge.
    """
    above = {(id(s.panel.segment), s.panel.low): s for s in done}
    gone, fresh = set[int](), list[Panel]()
    for left in done:
        right = above.get((id(left.panel.segment), left.panel.high))
        if right is None or id(left) in gone or id(right) in gone or (left.panel.low, right.panel.high) in seen:
            continue
        a, e, b = left.panel.low, left.panel.high, right.panel.high
        reach = min(libmp.mpf_sub(e, a), libmp.mpf_sub(b, e), key=log_size)
        low, high = (libmp.mpf_add(e, libmp.mpf_mul(reach, from_float(share))) for share in (-0.375, 0.21875))
        if _excess(_settled(Panel(left.panel.segment, low, high), scheme, name), scale, scheme) > 0:
            gone |= {id(left), id(right)}
            fresh += [Panel(left.panel.segment, u, v) for u, v in ((a, low), (low, high), (high, b))]
        seen.add((a, b))
    return [s for s in done if id(s) not in gone], fresh


def check_ground(settled: list[Settled], scheme: Scheme, name: str) -> None:
    """The panels have to cover the line: 1 and x^2 have mean 1 on them, to the digits."""
    for i, k in product((0, 1), repeat=2):
        total = libmp.mpf_sum([s.sums[i].ground[k] for s in settled], scheme.bits, "n")
        if _miss(total, ONE) > (1 - scheme.digits) * LOG_10:
            raise PrecisionError(
                f"{name}: the quadrature panels cover E X^{2 * k} = 1 only to exp({_miss(total, ONE):.0f})"
            )


def _scale(done: list[Settled], scheme: Scheme) -> float:
    """log of sqrt(E sigma^2), for a mean of E|sigma|."""
    return max(_log_total(s.sums[i] for s in done) if scheme.rate == SQUARE else _log_sizes(done, i) for i in (0, 1))


def _log_total(sums: Iterable[Sums]) -> float:
    return 0.5 * log_size(libmp.mpf_sum([s.square for s in sums], 60, "n"))


def _log_sizes(done: list[Settled], rule: int) -> float:
    return log_size(libmp.mpf_sum([s.sums[rule].size for s in done], 60, "n"))


def _excess(s: Settled, scale: float, scheme: Scheme) -> float:
    """How far (in the logarithm) the difference of the rules on a panel exceeds what the digits allow."""
    allowed = -(scheme.digits + 1.5) * LOG_10
    if scale == -math.inf:
        return -1.0
    worst = max(s.miss - scale, s.miss_ground)
    if scheme.rate == SQUARE:
        worst = max(worst, s.miss_square - 2 * scale)
    return worst - allowed if not math.isnan(worst) else math.inf


def _halves(panel: Panel) -> tuple[Panel, Panel]:
    middle = libmp.mpf_shift(libmp.mpf_add(panel.low, panel.high), -1)
    return Panel(panel.segment, panel.low, middle), Panel(panel.segment, middle, panel.high)


def _unsettled(rest: list[Settled], scheme: Scheme, name: str, advice: str) -> PrecisionError:
    if not rest:
        return PrecisionError(f"{name}: it varies in more places than {MAX_PANELS} panels resolve; {advice}")
    worst = max(rest, key=lambda s: s.miss)
    x = to_float(worst.panel.segment.point(worst.panel.low, 60)[0])
    reached = max(0.0, (_scale(rest, scheme) - worst.miss) / LOG_10)
    return PrecisionError(
        f"{name}: two quadrature rules agree to {reached:.0f} digits only near x = {x:.12g} "
        f"after {MAX_PANELS} panels; {advice}"
    )


def _settled(panel: Panel, scheme: Scheme, name: str) -> Settled:
    blocks = tuple(sample(panel, rule, scheme.bits, name) for rule in scheme.rules)
    a, b = (integrate(block, scheme) for block in blocks)
    miss = max(_miss(u, v) for u, v in zip(a.coefficients, b.coefficients, strict=True))
    ground = max(_miss(u, v) for u, v in zip(a.ground, b.ground, strict=True)) if scheme.rate == SQUARE else -math.inf
    return Settled(panel, (blocks[0], blocks[1]), (a, b), miss, _miss(a.square, b.square), ground)


def _miss(u: Raw, v: Raw) -> float:
    return log_size(libmp.mpf_sub(u, v, 60, "n"))


def sample(panel: Panel, rule: Rule, bits: int, name: str) -> Block:
    """Nodes, weights times dx phi(x), and values of sigma."""
    middle = libmp.mpf_shift(libmp.mpf_add(panel.low, panel.high), -1)
    half = libmp.mpf_shift(libmp.mpf_sub(panel.high, panel.low), -1)
    # a narrow panel far from 0 needs its nodes apart
    tp = bits + max(0, magnitude(middle) - magnitude(half))
    scale = libmp.mpf_mul(half, inverse_root_two_pi(bits), bits, "n")
    x, w = [], []
    for node, weight in zip(*rule, strict=True):
        t = libmp.mpf_add(middle, libmp.mpf_mul(half, libmp.from_man_exp(node, -bits)), tp, "n")
        place, jacobian = panel.segment.point(t, bits)
        part = libmp.mpf_mul(
            libmp.mpf_mul(gaussian(place, bits), jacobian), libmp.from_man_exp(weight, -bits), bits, "n"
        )
        w.append(libmp.mpf_mul(part, scale, bits, "n"))
        x.append(place)
    f = _values(panel, x, bits, name)
    w_bits, f_bits = common_point(w, bits), common_point(f, bits)
    return Block(
        [fixed(v, bits) for v in x], [fixed(v, w_bits) for v in w], [fixed(v, f_bits) for v in f], bits, w_bits, f_bits
    )


def _values(panel: Panel, x: list[Raw], bits: int, name: str) -> list[Raw]:
    """sigma at the nodes; a root of what rounding made negative is met with more bits."""
    p = bits + panel.segment.boost(to_float(panel.high))
    f = panel.segment.function(x, p)
    bad = [t for t, v in zip(x, f, strict=True) if not is_finite(v)]
    if bad:
        if all(map(is_finite, panel.segment.function(bad, 3 * p))):
            raise MoreBits(bits)
        raise NotSquareIntegrableError(f"{name} is not a real number near x = {to_float(bad[0]):.12g}")
    return f


def gaussian(x: Raw, bits: int) -> Raw:
    """exp(-x^2/2), the square taken exactly."""
    return exp(libmp.mpf_neg(libmp.mpf_shift(libmp.mpf_mul(x, x), -1)), bits)


@lru_cache(maxsize=64)
def inverse_root_two_pi(bits: int) -> Raw:
    """1/sqrt(2 pi)."""
    two_pi = libmp.mpf_shift(libmp.mpf_pi(bits + 10, "n"), 1)
    return libmp.mpf_div(ONE, libmp.mpf_sqrt(two_pi, bits + 10, "n"), bits, "n")  # type: ignore[no-any-return]


def common_point(values: list[Raw], bits: int) -> int:
    """The fixed point at which the largest value has so many bits."""
    top = max(map(magnitude, values))
    return bits - top if top > -(10**9) else 0


def integrate(block: Block, scheme: Scheme) -> Sums:
    """The integrals over one panel by one rule."""
    p, down = scheme.bits, block.x_bits
    wf = [a * b >> p for a, b in zip(block.w, block.f, strict=True)]
    wf_bits = block.w_bits + block.f_bits - p
    square = from_fixed(sum(map(mul, wf, block.f)), wf_bits + block.f_bits, p)
    size = from_fixed(sum(map(abs, wf)), wf_bits, 60)
    xx = [x * x >> down for x in block.x]
    ground = (
        from_fixed(sum(block.w), block.w_bits, p),
        from_fixed(sum(map(mul, block.w, xx)), block.w_bits + down, p),
    )
    return Sums(_projections(block, wf, wf_bits, scheme), square, size, ground)


def _projections(block: Block, wf: list[int], wf_bits: int, scheme: Scheme) -> list[Raw]:
    """Against He_k, k = 0..degree, by h_k = gamma_k g_k, g_{k+1} = slope_k x g_k - g_{k-1}."""
    p, down = scheme.bits, 2 * block.x_bits
    if not any(wf):
        return [ZERO] * (scheme.degree + 1)
    gammas, slopes = recurrence(scheme.degree, block.x_bits)
    before, now = [0] * len(wf), [1 << block.x_bits] * len(wf)
    out = []
    for gamma, slope in zip(gammas, slopes, strict=True):
        total = from_fixed(sum(map(mul, wf, now)), wf_bits + block.x_bits, p)
        out.append(libmp.mpf_mul(total, gamma, p, "n"))
        before, now = now, [(x * g * slope >> down) - b for x, g, b in zip(block.x, now, before, strict=True)]
    return out


@lru_cache(maxsize=32)
def recurrence(degree: int, bits: int) -> tuple[list[Raw], list[int]]:
    """gamma_{k+1} = gamma_{k-1} sqrt(k/(k+1)) and slope_k = gamma_k/(gamma_{k+1} sqrt(k+1)) for k = 0..degree.

    With He_k = gamma_k g_k the normalised recurrence loses its second factor: g_{k+1} = slope_k x g_k - g_{k-1}.
    """
    wp = bits + 20
    gammas = [ONE, ONE]
    for k in range(1, degree + 1):
        gammas.append(
            libmp.mpf_mul(gammas[k - 1], libmp.mpf_sqrt(libmp.from_rational(k, k + 1, wp, "n"), wp, "n"), wp, "n")
        )
    slopes = []
    for k in range(degree + 1):
        root = libmp.mpf_sqrt(libmp.from_int(k + 1), wp, "n")
        slopes.append(fixed(libmp.mpf_div(gammas[k], libmp.mpf_mul(gammas[k + 1], root), wp, "n"), bits))
    return gammas[: degree + 1], slopes


def centred(blocks: Iterable[Block], c0: Raw, c1: Raw, p: int) -> tuple[Raw, Raw]:
    """E (sigma - c_0)^2 and E (sigma - c_0 - c_1 x)^2 by one rule, as integrals of squares."""
    variance, residual = list[Raw](), list[Raw]()
    line = max(magnitude(c1) + 6, magnitude(c0))  # |x| < 64 wherever a line has any weight
    for block in blocks:
        bits = min(p - line if line > -(10**8) else block.f_bits, block.f_bits if any(block.f) else p - line)
        shift = block.f_bits - bits
        a, b = fixed(c0, bits), fixed(c1, bits)
        d = [(v >> shift if shift >= 0 else v << -shift) - a for v in block.f]
        r = [v - (b * x >> block.x_bits) for v, x in zip(d, block.x, strict=True)]
        for out, values in ((variance, d), (residual, r)):
            total = sum(w * v * v for w, v in zip(block.w, values, strict=True))
            out.append(from_fixed(total, block.w_bits + 2 * bits, p))
    return libmp.mpf_sum(variance, p, "n"), libmp.mpf_sum(residual, p, "n")


def _look_for_noise(failing: list[Settled], scale: float, scheme: Scheme) -> None:
    """Raise MoreBits if the values on the worst panels change with the precision by what the rules differ."""
    allowed = -(scheme.digits + 1.5) * LOG_10
    for s in sorted(failing, key=lambda s: -_excess(s, scale, scheme))[:3]:
        panel, block = s.panel, s.blocks[0]
        segment, rule = panel.segment, gauss(3, scheme.bits)
        middle = libmp.mpf_shift(libmp.mpf_add(panel.low, panel.high), -1)
        half = libmp.mpf_shift(libmp.mpf_sub(panel.high, panel.low), -1)
        boost = segment.boost(to_float(panel.high))
        nodes = [libmp.mpf_add(middle, libmp.mpf_mul(half, libmp.from_man_exp(t, -scheme.bits))) for t in rule[0]]
        nodes = [libmp.mpf_add(t, libmp.mpf_mul(half, from_float(0.1117))) for t in nodes]
        x = [segment.point(t, scheme.bits)[0] for t in nodes]
        first, second = segment.function(x, scheme.bits + boost), segment.function(x, scheme.bits + boost + 100)
        change = max(_miss(u, v) for u, v in zip(first, second, strict=True))
        weight = log_size(from_fixed(sum(block.w), block.w_bits, 60))
        noise = change + weight - 0.5 * math.log(len(block.w))
        if scheme.rate == SQUARE:  # for the square it weighs with the values
            noise = max(noise, noise + max(map(log_size, first)) - scale)
        missed = max(s.miss, s.miss_square - scale) if scheme.rate == SQUARE else s.miss
        if noise > max(scale + allowed - 2.0, missed - 4.0):
            raise MoreBits(math.ceil((noise - scale - allowed) / math.log(2)) + 12)
