"""The float64 interpreter of expression trees.

Values travel as pairs (m, e) meaning m * exp(e), with e None while everything fits: exp(20*x) squared against a
Gaussian is an ordinary number although exp(20*x) itself overflows. Expressions that cancel or overflow as a paper
writes them (the normal cdf, softplus) have stable functions here; `_forms` recognises them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ._forms import log_tail_parts, over_root_two, tail_parts, tanh_shrink_part
from ._recurrence import Array, hermite_sequence
from ._tree import Node, Opaque, compare

Scaled: TypeAlias = tuple[Array, Array | None]

_EXP_LIMIT = 700.0  # exp beyond it overflows


def evaluate(node: Node, x: Array) -> Array:
    """The value of the tree at x, same shape; inf where it exceeds float64, nan where it is not real."""
    with np.errstate(all="ignore"):
        return _plain(_scaled(node, x))


def evaluate_scaled(node: Node, x: Array) -> tuple[Array, Array]:
    """The tree at x as (m, e), value m * exp(e), for expressions whose values exceed float64."""
    with np.errstate(all="ignore"):
        m, e = _scaled(node, x)
        return np.broadcast_to(m, x.shape), np.broadcast_to(0.0 if e is None else e, x.shape)


def constant_value(node: Node) -> float:
    """The float64 value of a tree without x."""
    return float(evaluate(node, np.zeros(1))[0])


def _plain(pair: Scaled) -> Array:
    m, e = pair
    if e is None:
        return m
    return np.where(m == 0, 0.0, m * np.exp(e).astype(np.float64))


def _scaled(node: Node, x: Array) -> Scaled:
    op, args = node.op, node.args
    if op == "x":
        return x, None
    if op == "num":
        return np.full_like(x, float(node.number)), None
    if op == "pi":
        return np.full_like(x, np.pi), None
    if op == "add":
        stable = _tail(node, x) if args[0].op == "num" else _tanh_shrink(node, x)
        return (stable, None) if stable is not None else _add(_scaled(args[0], x), _scaled(args[1], x))
    if (tail := _log_tail(node, x)) is not None:
        return tail, None
    if op == "log1p":
        return _log1p(args[0], x)
    if op in _PAIRS:
        return _PAIRS[op](*(_scaled(a, x) for a in args))
    if op == "if":
        assert isinstance(node.value, str)
        chosen = _less(_scaled(args[0], x), _scaled(args[1], x), node.value)
        return _where(chosen, _scaled(args[2], x), _scaled(args[3], x))
    if op == "pow":
        return _power(_scaled(args[0], x), float(node.number))
    u = _plain(_scaled(args[0], x))
    if op == "He":
        return _hermite(u, int(node.number))
    if op == "opaque":
        return call_opaque(node.opaque, u), None
    return _FUNCTIONS[op](u), None


def _align(a: Scaled, b: Scaled) -> tuple[Array, Array, Array | None]:
    """Both numbers on one exponent."""
    (m, e), (n, f) = a, b
    if e is None and f is None:
        return m, n, None
    e = np.zeros_like(m) if e is None else e
    f = np.zeros_like(n) if f is None else f
    top = np.where(m == 0, f, np.where(n == 0, e, np.maximum(e, f)))
    return m * np.exp(np.minimum(e - top, 0)), n * np.exp(np.minimum(f - top, 0)), top


def _add(a: Scaled, b: Scaled) -> Scaled:
    m, n, e = _align(a, b)
    return m + n, e


def _multiply(a: Scaled, b: Scaled) -> Scaled:
    (m, e), (n, f) = a, b
    exponent = f if e is None else e if f is None else e + f
    product = m * n
    if np.any(np.isinf(product) & np.isfinite(m) & np.isfinite(n)):
        return _lifted(np.sign(m) * np.sign(n), np.log(np.abs(m)) + np.log(np.abs(n)), exponent)
    return product, exponent


def _lifted(sign: Array, log_size: Array, e: Array | None) -> Scaled:
    """A number beyond float64 from its sign and the logarithm of its size."""
    log_size = np.where(sign == 0, 0.0, log_size)
    return sign, log_size if e is None else log_size + e


def _divide(a: Scaled, b: Scaled) -> Scaled:
    (m, e), (n, f) = a, b
    return m / n, e if f is None else -f if e is None else e - f


def _power(a: Scaled, p: float) -> Scaled:
    m, e = a
    # repeated products keep the last digits that pow loses for the common squares and cubes
    value = m * m if p == 2 else m * m * m if p == 3 else np.power(m, p)
    if np.any(np.isinf(value) & np.isfinite(m) & (m != 0)):
        sign = np.sign(m) if p % 2 == 1 else np.where(m < 0, np.where(p % 2 == 0, 1.0, np.nan), np.sign(m))
        return _lifted(sign, p * np.log(np.abs(m)), None if e is None else e * p)
    return value, None if e is None else e * p


def _exp(a: Scaled) -> Scaled:
    u = _plain(a)
    if u.size and np.nanmax(np.abs(u), initial=0.0) > _EXP_LIMIT:
        return np.where(np.isnan(u), np.nan, 1.0), np.where(np.isnan(u), 0.0, u)
    return np.exp(u), None


def _expm1(a: Scaled) -> Scaled:
    u = _plain(a)
    if u.size and np.nanmax(u, initial=0.0) > _EXP_LIMIT:
        return np.where(u > 1, -np.expm1(-u), np.expm1(np.minimum(u, 1))), np.where(u > 1, u, 0.0)
    return np.expm1(u), None


def _log(a: Scaled) -> Scaled:
    m, e = a
    return np.log(m) if e is None else np.log(m) + e, None


def _sqrt(a: Scaled) -> Scaled:
    m, e = a
    return np.sqrt(m), None if e is None else e / 2


def _absolute(a: Scaled) -> Scaled:
    return np.abs(a[0]), a[1]


def _sign(a: Scaled) -> Scaled:
    return np.sign(a[0]), None


def _less(a: Scaled, b: Scaled, op: str) -> Any:
    m, n, _ = _align(a, b)
    return compare(m, op, n)  # type: ignore[arg-type]  # arrays compare elementwise


def _where(chosen: Any, a: Scaled, b: Scaled) -> Scaled:
    (m, e), (n, f) = a, b
    if e is None and f is None:
        return np.where(chosen, m, n), None
    return np.where(chosen, m, n), np.where(chosen, 0.0 if e is None else e, 0.0 if f is None else f)


def _maximum(a: Scaled, b: Scaled) -> Scaled:
    if a[1] is None and b[1] is None:
        return np.maximum(a[0], b[0]), None
    return _where(_less(a, b, ">="), a, b)


def _minimum(a: Scaled, b: Scaled) -> Scaled:
    if a[1] is None and b[1] is None:
        return np.minimum(a[0], b[0]), None
    return _where(_less(a, b, "<="), a, b)


_PAIRS: dict[str, Callable[..., Scaled]] = {
    "mul": _multiply, "div": _divide, "exp": _exp, "expm1": _expm1, "log": _log, "sqrt": _sqrt,
    "abs": _absolute, "sign": _sign, "max": _maximum, "min": _minimum,
}  # fmt: skip


def _log1p(u: Node, x: Array) -> Scaled:
    """log(1 + u); softplus keeps its tail exp(-|x|) and does not overflow."""
    if u.op == "exp":
        return np.logaddexp(0.0, _plain(_scaled(u.args[0], x))), None
    m, e = _scaled(u, x)
    if e is None:
        return np.log1p(m), None
    return np.where(e > 0, e + np.log(m + np.exp(-np.maximum(e, 0))), np.log1p(_plain((m, e)))), None


def _tail(node: Node, x: Array) -> Array | None:
    """c (1 + erf(u)) as c erfc(-u), c (1 + tanh(u)) as 2c sigmoid(2u): relative accuracy where they are small."""
    parts = tail_parts(node)
    if parts is None:
        return None
    from scipy.special import erfc, expit

    c, function, inner, same = parts
    sign = 1.0 if same else -1.0
    if function == "erf" and (v := over_root_two(inner)) is not None:
        return 2 * c * _normal_cdf(sign * _plain(_scaled(v, x)))
    u = sign * _plain(_scaled(inner, x))
    if function == "sigmoid":
        return np.asarray(c * expit(u))
    return np.asarray(c * erfc(-u) if function == "erf" else 2 * c * expit(2 * u))


def _normal_cdf(v: Array) -> Array:
    """Phi(v); in the left tail exp(-v^2/2) erfcx(-v/sqrt 2)/2, since rounding v/sqrt(2) would cost v^2 ulps."""
    from scipy.special import erfc, erfcx

    low = np.clip(v, -40.0, -1.0)  # beyond, Phi is 0, and its two factors would be 0 and inf
    head = low.astype(np.float32).astype(np.float64)  # its square is exact
    tail = np.exp(-head * head / 2) * np.exp(-(low - head) * (low + head) / 2)
    return np.where(v < -1, 0.5 * tail * erfcx(-low / np.sqrt(2)), 0.5 * np.asarray(erfc(-v / np.sqrt(2))))


def _log_tail(node: Node, x: Array) -> Array | None:
    """The logarithm of such a sum, also where it underflows."""
    parts = log_tail_parts(node)
    if parts is None:
        return None
    from scipy.special import log_expit, log_ndtr

    c, function, inner, same = parts
    u = _plain(_scaled(inner, x)) * (1.0 if same else -1.0)
    if function == "sigmoid":
        return np.asarray(np.log(c) + log_expit(u))
    tail = np.log(2 * c) + (log_ndtr(np.sqrt(2.0) * u) if function == "erf" else log_expit(2 * u))
    if node.op == "log":
        return np.asarray(tail)
    return np.where(u < -0.5, tail, np.log1p(_FUNCTIONS[function](u)))  # which has its zero at u = 0


def _tanh_shrink(node: Node, x: Array) -> Array | None:
    """u - tanh(u) = u w/(1 + w) with tanh's continued fraction w = u^2/(3 + u^2/(5 + ...)): no cancellation."""
    part = tanh_shrink_part(node)
    if part is None:
        return None
    u = _plain(_scaled(part, x))
    square = np.minimum(u * u, 1.0)
    w = np.zeros_like(u)
    for odd in range(23, 2, -2):
        w = square / (odd + w)
    return np.where(np.abs(u) < 1, u * w / (1 + w), u - np.tanh(u))


def _erf(u: Array) -> Array:
    from scipy.special import erf

    return np.asarray(erf(u))


def _sigmoid(u: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(u))


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "arctan": np.arctan, "erf": _erf, "sigmoid": _sigmoid,
}  # fmt: skip


def _hermite(u: Array, degree: int) -> Scaled:
    *_, (value, _, power) = hermite_sequence(u, degree)
    # the exponent reaches hundreds: its rounding in double would cost two digits of the value
    return value, power * np.log(np.longdouble(2)) if np.any(power) else None


def call_opaque(leaf: Opaque, u: Array) -> Array:
    """The callable on a float64 array; its answer must be real and of the same shape."""
    if not leaf.vectorized:
        return np.array([_scalar(leaf, float(t)) for t in u.ravel()], dtype=np.float64).reshape(u.shape)
    try:
        value = np.asarray(leaf.function(u.copy()))  # a copy: some callables work in place
    except Exception as error:
        raise ValueError(f"sigma raised {error!r} on a float64 array of shape {u.shape}") from error
    if np.iscomplexobj(value):
        raise ValueError(f"sigma returned complex values of dtype {value.dtype}; it must be real")
    try:
        real = value.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sigma returned values of dtype {value.dtype}; they must be real numbers") from None
    if real.shape == ():  # a constant function written without its argument
        return np.full_like(u, float(real))
    if real.shape != u.shape:
        raise ValueError(f"sigma returned shape {value.shape} for an input of shape {u.shape}; it must act elementwise")
    return real


def _scalar(leaf: Opaque, t: float) -> float:
    """One value; the errors of Python's math functions mean what NumPy says by inf and nan."""
    try:
        value = leaf.function(t)
    except OverflowError:
        return float("inf")
    except (ZeroDivisionError, ValueError):
        return float("nan")
    except Exception as error:
        raise ValueError(f"sigma({t!r}) raised {error!r}") from error
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"sigma({t!r}) returned {value!r}; it must be a real number") from None
