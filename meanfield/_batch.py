"""Batch normalisation over n inputs in the mean field, where one integral gives it exactly.

With P = I - 11^T/n, z ~ N(0, K) and w = P z ~ N(0, C), C = P K P, batch normalisation is BN(z) = sqrt(n) w/|w|: only
the direction of w counts. For sigma positively homogeneous of degree p, sigma(c x) = c^p sigma(x) for c > 0, the length
leaves sigma(w_i) sigma(w_j) as a factor |w|^-2p = 1/Gamma(p) int_0^inf s^(p-1) exp(-s |w|^2) ds, and the exponential
turns N(0, C) into det(I + 2 s C)^(-1/2) N(0, C_s), C_s = C (I + 2 s C)^(-1). So

    E sigma(BN z_i) sigma(BN z_j)
        = n^p/Gamma(p) int_0^inf s^(p-1) det(I + 2 s C)^(-1/2) (C_s,ii C_s,jj)^(p/2) d(rho_s,ij) ds,

d the dual of sigma and rho_s the correlations of C_s; for p = 0 it is d(rho_0). A linear sigma is p = 1, d(rho) = rho.
Source: arXiv:1902.08129, theorem 5 and its appendix on Laplace's method; derived here for any K and p.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hermite._activation import Activation
from hermite._algebra import as_polynomial
from hermite._dual import Dual
from hermite._homogeneity import degree_of
from hermite._numeric import coefficients, varying

Floats: TypeAlias = NDArray[np.float64]

_EPS = 2.0**-52
_DIGITS = 38.0  # logarithms: what is left out is e^-38 = 3e-17 of the result


def batch_gram(sigma: Activation, K: Floats, *, order: str, gain: Fraction, bias_variance: float) -> Floats:
    """One layer with batch normalisation on the covariance K of its n pre-activations, shape (n, n) -> (n, n).

    order "normalization-first": E sigma(u) sigma(u)^T, u = gain BN(z) + b; "activation-first": E BN(y) BN(y)^T,
    y = sigma(gain z + b). z ~ N(0, K), b ~ N(0, bias_variance) shared by the inputs. Exact for linear sigma in either
    order, and for positively homogeneous sigma (relu, abs, x^2, step, sqrt|x|, ...) normalisation first without bias;
    error about 1e-14 of the diagonal, beyond what rounding of K does to C = P K P where inputs nearly coincide, and,
    for jumps, to correlations next to +-1. Raises ValueError for every other activation, for n = 1 and for inputs that
    all coincide: batch normalisation divides by their spread. Raises ConstantActivationError.

    Source: arXiv:1902.08129, theorem 5; the formula is derived above.

    >>> from hermite import activation
    >>> K = np.eye(4)
    >>> Y = batch_gram(activation("relu"), K, order="normalization-first", gain=Fraction(1), bias_variance=0.0)
    >>> Y[0, :2].round(9)  # 1/2, and J_1(-1/3)/(2 pi): the fixed point
    array([0.5       , 0.08474829])
    """
    varying(sigma)  # a constant sigma is refused
    C = _centred(np.asarray(K, dtype=np.float64))
    line, degree = _line(sigma), degree_of(sigma)
    if order == "activation-first":
        if line is None:
            raise ValueError(_refusal(sigma, order, bias_variance))
        return _directions(C)
    if line is not None:
        slope, intercept = line
        return np.asarray(slope**2 * (float(gain) ** 2 * _directions(C) + bias_variance) + intercept**2)
    if degree is None or degree < 0 or bias_variance:
        raise ValueError(_refusal(sigma, order, bias_variance))
    return np.asarray(abs(float(gain)) ** (2 * float(degree)) * _homogeneous(sigma, C, float(degree)))


def _refusal(sigma: Activation, order: str, bias_variance: float) -> str:
    reason = " and bias_variance > 0" if bias_variance else ""
    return (
        f"normalization='batch' has no exact mean field for {sigma.name!r} with order={order!r}{reason}: it is exact "
        "for linear activations, and with order='normalization-first' and bias_variance=0 for positively homogeneous "
        "ones (relu, leaky_relu, abs, x**2, step, sign, sqrt(abs(x))); use normalization='layer', or a network of "
        "finite width"
    )


# ---- which activations -------------------------------------------------------------------------------------


def _line(sigma: Activation) -> tuple[float, float] | None:
    """Slope and intercept of a linear sigma."""
    polynomial = as_polynomial(sigma.pieces[0].expr) if len(sigma.pieces) == 1 else None
    if polynomial is not None and len(polynomial) == 2:
        return float(polynomial[1]), float(polynomial[0])
    right, left = sigma(np.array([1.0, -1.0])).tolist()
    return (right, 0.0) if degree_of(sigma) == 1 and right == -left else None  # pi*x, x*abs(x)/abs(x)


# ---- the integral ------------------------------------------------------------------------------------------


def _centred(K: Floats) -> Floats:
    """C = P K P with largest diagonal entry 1: batch normalisation does not see the scale."""
    n, largest = len(K), float(np.max(np.diagonal(K)))
    scaled = K / largest if largest > 0 else K
    half = scaled - np.mean(scaled, axis=0)
    C = half - np.mean(half, axis=1)[:, None]
    C = 0.5 * (C + C.T)
    spread = float(np.max(np.diagonal(C)))
    if not spread > 4 * n * _EPS:
        raise ValueError(
            "normalization='batch' divides by the spread of a neuron over the inputs, and there is none: "
            + ("there is one input" if n == 1 else f"all {n} inputs coincide")
        )
    return np.asarray(C / spread)


def _spectrum(C: Floats) -> tuple[Floats, Floats]:
    """Positive eigenvalues, (r,), and their vectors, (n, r); the ones vector, at least, is left out."""
    values, vectors = np.linalg.eigh(C)
    kept = values > 4 * len(C) * _EPS * values[-1]
    return values[kept], vectors[:, kept]


def _directions(C: Floats) -> Floats:
    """E BN(z) BN(z)^T: eigenvectors are kept, eigenvalues are n E w_k^2/|w|^2."""
    values, vectors = _spectrum(C)
    shares, weights = _rule(values, 1.0)
    average = weights @ shares
    rows = vectors * np.sqrt(len(C) * average / np.sum(average))  # the sum is 1, as that of w_k^2 is |w|^2
    return np.asarray(rows @ rows.T)


def _homogeneous(sigma: Activation, C: Floats, p: float) -> Floats:
    """E sigma(BN z) sigma(BN z)^T for sigma of degree p >= 0."""
    n, dual = len(C), Dual(sigma)
    values, vectors = _spectrum(C)
    still = np.diagonal(C) <= 4 * n * _EPS  # always at the mean of the batch: w_i = 0
    if p == 0:
        return _with_still(dual, _mapped(dual, vectors * np.sqrt(values), 0.0), still)
    total = np.zeros((n, n))
    for shares, weight in zip(*_rule(values, p), strict=True):
        total += weight * _mapped(dual, vectors * np.sqrt(shares), p)
    total[still], total[:, still] = 0.0, 0.0
    return np.asarray(n**p * total)


def _mapped(dual: Dual, rows: Floats, p: float) -> Floats:
    """E sigma(w_i) sigma(w_j) for w with covariance rows rows^T: (C_ii C_jj)^(p/2) d(rho_ij)."""
    length = np.sqrt(np.sum(rows * rows, axis=1))
    unit = rows / np.where(length > 0, length, 1.0)[:, None]
    rho = unit @ unit.T
    # a jump sees the root of the distance from +-1, so that is taken from differences: -1 is -1 where rows are opposite
    i, j = np.nonzero(np.abs(rho) > 0.9)
    sign = np.sign(rho[i, j])
    rho[i, j] = sign * (1 - 0.5 * np.sum((unit[i] - sign[:, None] * unit[j]) ** 2, axis=1))
    size = length**p
    return np.asarray(size[:, None] * size * np.asarray(dual(rho)))


def _with_still(dual: Dual, Y: Floats, still: NDArray[np.bool_]) -> Floats:
    """Degree 0: an input at the mean of the batch is mapped to sigma(0), the others to either side of a jump."""
    if np.any(still):
        at_zero, mean = float(dual.sigma(0.0)), float(coefficients(dual.sigma, 0)[0])
        Y[still], Y[:, still] = at_zero * mean, at_zero * mean
        Y[np.ix_(still, still)] = at_zero**2
    return Y


def _rule(values: Floats, p: float) -> tuple[Floats, Floats]:
    """Eigenvalues of s C_s, (nodes, r), and weights for 1/Gamma(p) int s^p det(I + 2 s C)^(-1/2) dt, t = log s.

    The step. t -> e^(pt) E exp(-e^t |w|^2) g(w) is analytic for |Im t| < pi/2, and on Im t = theta it is at most
    cos(theta)^-p of the integral of |g| that is sought, whatever C and n are. So the relative error of the trapezoid is
    at most 2 cos(theta)^-p/(exp(2 pi theta/h) - 1) for every theta < pi/2; h is the largest that makes it e^-38.

    The range, for max C_ii = 1. On the left the integrand is at most e^(pt) times its limit, of which the integral has
    at least a share e^-1 (3 tr C)^-p/p. On the right it falls like exp(-r t/2), r the rank, from 1/(2 lambda_min) on.
    """
    theta = np.linspace(0.05, 1.55, 151)
    h = float(np.max(2 * math.pi * theta / (_DIGITS - p * np.log(np.cos(theta)))))
    trace, rank = float(np.sum(values)), len(values)
    low = -math.log(3 * max(trace, 1.0)) - (1 + _DIGITS) / p
    high = -math.log(2 * float(values[0])) + 2 * (_DIGITS + p + 1) / rank + math.log(2 * (1 + 2 * p / rank))
    scaled = np.exp(np.arange(math.floor(low / h), math.ceil(high / h) + 1) * h)[:, None] * values
    weights = np.exp(math.log(h) - math.lgamma(p) - 0.5 * np.sum(np.log1p(2 * scaled), axis=1))
    # s^p is in the eigenvalues: alone it may leave float64 where they make up for it
    return scaled / (1 + 2 * scaled), weights
