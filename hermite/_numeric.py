"""The float64 engine: Hermite coefficients and moments of an activation by Gauss-Legendre on its panels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ._activation import Activation, ActivationLike, activation
from ._extent import MEAN, SQUARE
from ._interpreter import constant_value
from ._moments import Moments
from ._panels import panels, weighted
from ._polynomials import MAX_DEGREE, check_degree
from ._recurrence import Array
from .errors import ConstantActivationError, PrecisionError

_EPS = 2.0**-52
_BLOCK = 64


@lru_cache(maxsize=256)
def gauss_legendre(n: int) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1]; polished in extended precision, since library weights err by 1e-13."""
    nodes, _ = np.polynomial.legendre.leggauss(n)
    x = nodes.astype(np.longdouble)
    for _ in range(2):
        p, slope = _legendre(x, n)
        x = x - p / slope
    _, slope = _legendre(x, n)
    w = 2 / ((1 - x * x) * slope * slope)
    return x.astype(np.float64), w.astype(np.float64)


def _legendre(x: Any, n: int) -> tuple[Any, Any]:
    before, now = np.ones_like(x), x
    for k in range(1, n):
        before, now = now, ((2 * k + 1) * x * now - k * before) / (k + 1)
    return now, n * (before - x * now) / (1 - x * x)


@dataclass(frozen=True, eq=False)
class Rule:
    """Nodes of one activation: f = sigma exp(-x^2/4 - M) there, ground = exp(-x^2/4), weights of dx/sqrt(2 pi)."""

    x: Array
    f: Array
    ground: Array
    weights: Array
    log_scale: float


def _points(width: Array, degree: int, extra: int) -> Array:
    # He_k oscillates with wave number sqrt(k); 24 points resolve sigma itself on a panel
    count = np.ceil(0.5 * width * math.sqrt(degree + 1)) + 24 + extra
    return np.asarray(np.ceil(count / 4) * 4, dtype=int)


@lru_cache(maxsize=128)
def rule(sigma: Activation, degree: int, extra: int = 0, rate: float = SQUARE) -> Rule:
    """The quadrature rule that integrates sigma against He_0..He_degree (against 1 alone with rate MEAN)."""
    found = panels(sigma, rate)
    xs, fs, ws = [], [], []
    for group in found.groups:
        counts = _points(group.upper - group.lower, degree, extra)
        for n in np.unique(counts):
            low, high = group.lower[counts == n], group.upper[counts == n]
            nodes, weights = gauss_legendre(int(n))
            s = (0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * nodes).ravel()
            xs.append(s + group.anchor)
            fs.append(weighted(group.expr, group.anchor, s, found.log_scale, rate))
            ws.append((0.5 * (high - low)[:, None] * weights).ravel())
    x, f, w = (np.concatenate(part) for part in (xs, fs, ws))
    far = x.astype(np.longdouble) if np.abs(x).max() > 16 else x
    ground = np.exp(-far * far / 4).astype(np.float64)
    return Rule(x, f, ground, w / math.sqrt(2 * math.pi), found.log_scale)


def project(nodes: Rule, degree: int, sizes: Array | None = None) -> Array:
    """exp(-M) c_k for k = 0..degree: the recurrence for Hermite functions He_k exp(-x^2/4), summed in blocks.

    sizes, of the same length, receives the sums of absolute values: eps times them is the rounding of each c_k.
    """
    live = nodes.f != 0
    x, data = nodes.x[live], (nodes.weights * nodes.f)[live]
    # h_k = gamma_k g_k with gamma_{k+1} = gamma_{k-1} sqrt(k/(k+1)) leaves g_{k+1} = slope_k x g_k - g_{k-1}:
    # three passes over the nodes for each k instead of five
    k = np.arange(1.0, degree + 1)
    gamma = np.ones(degree + 2)
    for i in (0, 1):
        gamma[i + 2 :: 2] = np.cumprod(np.sqrt(k[i::2] / (k[i::2] + 1)))[: len(gamma[i + 2 :: 2])]
    slope = gamma[:-1] / (gamma[1:] * np.sqrt(np.arange(degree + 1) + 1.0))
    out, block, terms = np.empty(degree + 1), np.empty((_BLOCK + 2, len(data))), np.empty((_BLOCK, len(data)))
    block[0], block[1] = 0.0, nodes.ground[live]
    for start in range(0, degree + 1, _BLOCK):
        rows = min(_BLOCK, degree + 1 - start)
        for i in range(rows):
            np.multiply(x, block[i + 1], out=block[i + 2])
            block[i + 2] *= slope[start + i]
            block[i + 2] -= block[i]
        part = slice(start, start + rows)
        # pairwise sums: the products of BLAS accumulate in one register and lose a digit over thousands of nodes
        np.multiply(block[1 : rows + 1], data, out=terms[:rows])
        out[part] = gamma[part] * terms[:rows].sum(axis=1)
        if sizes is not None:
            sizes[part] = gamma[part] * np.abs(terms[:rows]).sum(axis=1)
        block[:2] = block[rows : rows + 2]
    return out


@dataclass(frozen=True)
class Scaled:
    """Moments in units of exp(M) and exp(2M), with their error as in `Moments.error`."""

    c0: float
    c1: float
    second: float
    variance: float
    residual: float
    error: float
    log_scale: float


@lru_cache(maxsize=1024)
def basic(sigma: Activation) -> Scaled:
    """The moments that need no degree; error from two rules on the same panels, never below 8 eps."""
    found = panels(sigma)
    first, second = _low(rule(sigma, 2, 0)), _low(rule(sigma, 2, 8))
    if first.second == 0:
        return first
    size = math.sqrt(first.second)
    differences = (
        abs(first.c0 - second.c0) / size,
        abs(first.c1 - second.c1) / size,
        abs(first.second - second.second) / first.second,
        abs(first.variance - second.variance) / first.second,
    )
    error = max(*differences, found.remainder, 8 * _EPS)
    allowed = 4e-15 * (1 + found.peak**2 / 4)
    if not error <= allowed:  # nan included
        advice = "declare its breakpoints or give a text" if sigma.is_opaque else "rewrite it without cancellation"
        raise PrecisionError(
            f"{sigma.name}: float64 quadrature reaches {error:.1e} relative to sqrt(E sigma^2), not {allowed:.1e}; "
            f"{advice}"
        )
    return replace(first, error=error)


def _low(nodes: Rule) -> Scaled:
    """c_0 and c_1 first, then variance and residual as integrals of squares, never as differences of moments."""
    x, f, w, ground = nodes.x, nodes.f, nodes.weights, nodes.ground
    c0, c1 = float(np.sum(w * f * ground)), float(np.sum(w * f * (x * ground)))
    centred = f - c0 * ground
    rest = centred - c1 * x * ground
    second, variance, residual = (float(np.sum(w * v * v)) for v in (f, centred, rest))
    return Scaled(c0, c1, second, variance, residual, 8 * _EPS, nodes.log_scale)


def is_constant(sigma: Activation) -> bool:
    values = {constant_value(p.expr) if p.expr.constant else math.nan for p in sigma.pieces}
    return len(values) == 1 and not math.isnan(next(iter(values)))


def varying(sigma: Activation) -> Scaled:
    """The scaled moments of a sigma that is not constant."""
    if is_constant(sigma):
        raise ConstantActivationError(
            f"{sigma.name} is constant: its variance is 0 and its isometry strength is undefined"
        )
    low = basic(sigma)
    if low.second == 0 or low.variance <= (16 * _EPS) ** 2 * low.second:
        if sigma.is_opaque:
            raise ConstantActivationError(f"{sigma.name} is constant to rounding; its isometry strength is undefined")
        raise PrecisionError(f"{sigma.name} is constant to rounding where N(0, 1) has its mass; rescale or centre it")
    return low


def without_constant(sigma: Activation, beyond: float = 0.0) -> Activation:
    """sigma less a constant summand larger than `beyond`: what is centred does not see one, but rounding would."""
    tree = sigma.expr
    if tree.op == "add" and tree.args[0].op == "num" and abs(tree.args[0].number) > beyond:
        return replace(sigma, expr=tree.args[1], declared_growth=None)
    return sigma


def _unscaled(value: float, log_scale: float, sigma: Activation, what: str) -> float:
    """value * exp(log_scale), refused when it leaves float64."""
    if value == 0:
        return 0.0
    exponent = math.log(abs(value)) + log_scale
    if not -708 < exponent < 709.7:
        raise PrecisionError(
            f"{sigma.name}: {what} = exp({exponent:.6g}) is outside float64; isometry_strength is still available"
        )
    # two factors: neither exp alone need fit
    return value * math.exp(log_scale / 2) * math.exp(log_scale / 2)


def coefficients(sigma: ActivationLike, degree: int) -> Array:
    """Hermite coefficients c_0..c_degree of an activation, c_k = E[sigma(X) He_k(X)], X ~ N(0, 1).

    He_k is the normalised probabilists' polynomial, so sum of c_k^2 is E sigma^2. sigma: anything `activation`
    accepts; degree: an integer from 0 to 20000. Returns shape (degree + 1,). Error at most
    1e-15 (1 + B^2) sqrt(E sigma^2), B the exponential growth rate; PrecisionError where that is not reached.
    Raises NotSquareIntegrableError, PrecisionError, ValueError.

    Source: arXiv:2305.18399, section 5.

    >>> coefficients("relu", 3).round(12)
    array([0.39894228, 0.5       , 0.28209479, 0.        ])
    """
    return _coefficients(activation(sigma), _degree(degree))


def _degree(degree: int) -> int:
    k = check_degree(degree)
    if k > MAX_DEGREE:
        raise ValueError(f"degree must be at most {MAX_DEGREE}, got {degree}")
    return k


def scaled_coefficients(sigma: Activation, degree: int, sizes: Array | None = None) -> Array:
    """c_0..c_degree in units of exp(M), M = basic(sigma).log_scale; sizes as in `project`."""
    # rules are shared between degrees up to the next power of two
    nodes = rule(sigma, max(16, 1 << (degree - 1).bit_length()) if degree > 1 else 2)
    if degree > 1 and np.any(np.abs(nodes.f[nodes.ground == 0]) > 1e-17):
        raise PrecisionError(f"{sigma.name} has its mass where exp(-x^2/4) underflows; only its ratios are available")
    return project(nodes, degree, sizes)


def _coefficients(sigma: Activation, degree: int) -> Array:
    log_scale, scaled = basic(sigma).log_scale, scaled_coefficients(sigma, degree)
    top = float(np.abs(scaled).max())
    if top > 0:
        _unscaled(top, log_scale, sigma, "the largest coefficient")
    half = math.exp(log_scale / 2)
    return scaled * half * half


def moments(sigma: ActivationLike, degree: int = 1) -> Moments:
    """Coefficients c_0..c_degree and moments of an activation as one record, with error and method.

    Raises as `coefficients`; variance 0 (a constant) is reported, not refused.

    >>> m = moments("sign", 1)
    >>> round(m.variance, 12), round(m.residual, 12), m.method
    (1.0, 0.363380227632, 'gauss-legendre on 26 panels')
    """
    s = activation(sigma)
    low, count = basic(s), sum(len(g.lower) for g in panels(s).groups)
    second, spread, residual = (
        _unscaled(v, 2 * low.log_scale, s, name)
        for v, name in ((low.second, "E sigma^2"), (low.variance, "the variance"), (low.residual, "the residual"))
    )
    method = f"gauss-legendre on {count} panels"
    return Moments(_coefficients(s, _degree(degree)), second, spread, residual, low.error, method)


def second_moment(sigma: ActivationLike) -> float:
    """E sigma(X)^2, X ~ N(0, 1), to 1e-15 (1 + B^2) relative.

    Raises NotSquareIntegrableError when it is infinite, PrecisionError when it leaves float64.

    >>> round(second_moment("relu"), 15)
    0.5
    """
    s = activation(sigma)
    return _unscaled(basic(s).second, 2 * basic(s).log_scale, s, "E sigma^2")


def variance(sigma: ActivationLike) -> float:
    """Var sigma(X) = E (sigma - c_0)^2 = sum of c_k^2 over k >= 1, computed centred; 0 for a constant.

    >>> round(variance("step"), 15)
    0.25
    """
    s = activation(sigma)
    if is_constant(s):
        return 0.0
    return _unscaled(basic(s).variance, 2 * basic(s).log_scale, s, "the variance")


def linearity(sigma: ActivationLike) -> float:
    """r = c_1^2 / variance in [0, 1]: the share of the variance that is linear; isometry strength is 2 - r.

    Raises ConstantActivationError for a constant sigma.

    Source: arXiv:2305.18399, Definition of isometry strength (the authors' code calls this ratio beta_0).

    >>> round(linearity("sign"), 12)  # 2/pi
    0.636619772368
    """
    low = varying(without_constant(activation(sigma), beyond=8))
    return min(low.c1**2 / low.variance, 1.0)


def isometry_strength(sigma: ActivationLike) -> float:
    """Isometry strength beta = 2 - c_1^2 / sum of c_k^2 over k >= 1, in [1, 2].

    Computed as 1 + E (sigma - c_0 - c_1 X)^2 / variance, so that b = beta - 1 has error at most
    1e-14 b + 1e-15 sqrt(b E sigma^2/variance) + 1e-30 E sigma^2/variance: 1 for affine sigma, 2 when c_1 = 0.
    Finite also where E sigma^2 exceeds float64 (exp(20*x)). Raises ConstantActivationError,
    NotSquareIntegrableError, PrecisionError.

    Source: arXiv:2305.18399, equation of beta_sigma before Theorem 5.1.

    >>> round(isometry_strength("relu"), 12)  # (3 pi - 4)/(2 pi - 2)
    1.266528896538
    """
    low = varying(without_constant(activation(sigma), beyond=8))
    return 1.0 + min(low.residual / low.variance, 1.0)


def expectation(g: ActivationLike) -> float:
    """E g(X), X ~ N(0, 1), for anything `activation` accepts; g needs a finite mean, not a finite second moment.

    Panels are adapted to g, so kinks and jumps cost no accuracy: error about 1e-15 E|g|. Raises
    NotSquareIntegrableError when E|g| is infinite, PrecisionError when the accuracy is not reached.

    >>> round(expectation("exp(x**2/4)"), 12)  # sqrt(2), although E g^2 is infinite
    1.414213562373
    >>> expectation("exp(8*x)") / 78962960182680.6951610 - 1 < 1e-13
    True
    """
    s = activation(g)
    found, value, size = panels(s, MEAN), [], 0.0
    for extra in (0, 8):
        nodes = rule(s, 2, extra, MEAN)
        value.append(float(np.sum(nodes.weights * nodes.f)))
        size = float(np.sum(nodes.weights * np.abs(nodes.f)))
    allowed = 4e-15 * (1 + found.peak**2 / 2) * size
    if not abs(value[0] - value[1]) <= allowed or found.remainder > allowed > 0:
        raise PrecisionError(f"{s.name}: its mean is known to {abs(value[0] - value[1]):.1e} only")
    return _unscaled(value[0], found.log_scale, s, "the mean")
