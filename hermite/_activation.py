"""The record of an activation: an expression tree with its name, pieces and growth.

`activation` is the only door: names, texts, callables and activations all become an `Activation`, and every verb
accepts what it accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np

from . import _tree as t
from ._catalogue import ENTRIES, NAMED, build, lookup, unknown
from ._from_sympy import SympyExpression, from_sympy, is_sympy
from ._from_torch import from_torch, is_torch
from ._growth import growth as derived_growth
from ._interpreter import call_opaque, evaluate
from ._numbers import as_fraction
from ._parse import parse
from ._pieces import Piece, breakpoints, pieces
from ._recurrence import Array
from ._tree import Node, Opaque
from .errors import NotSquareIntegrableError

ActivationLike: TypeAlias = "str | SympyExpression | Callable[..., Any] | Activation"
Growth: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class Activation:
    """One scalar function under N(0, 1): a frozen expression tree, callable on arrays, hashable, picklable.

    Attributes: `expr` the tree (its text parses back), `name`, `source` (what it was made from), and the derived
    `parameters`, `pieces`, `breakpoints`, `growth`. Made by `activation`; combined by +, -, * and division by a
    number.

    >>> f = 2 * activation("relu") - activation("identity")
    >>> f
    Activation('2*relu - identity')
    >>> f([-1.0, 3.0])
    array([1., 3.])
    """

    expr: Node
    name: str
    source: str
    items: tuple[tuple[str, Fraction | str], ...] = ()
    declared_growth: Growth | None = None

    def __call__(self, x: Any) -> Array:
        """sigma(x) elementwise in float64; the shape of x is kept.

        >>> activation("relu")([[-1, 2]])
        array([[0., 2.]])
        """
        values = np.asarray(x)
        if values.dtype.kind not in "fiub":
            raise ValueError(f"x must hold real numbers, got dtype {values.dtype}")
        values = values.astype(np.float64)
        return np.array(evaluate(self.expr, values), dtype=np.float64).reshape(values.shape)

    @property
    def parameters(self) -> dict[str, Fraction | str]:
        """The parameters of a catalogue entry, exact; empty for everything else."""
        return dict(self.items)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The smooth pieces, left to right."""
        return pieces(self.expr)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where one piece ends and the next begins."""
        return tuple(p.value for p in breakpoints(self.pieces))

    @property
    def growth(self) -> Growth | None:
        """(A, B, Q) with |sigma(x)| <= A exp(B|x| + Q x^2): declared, else derived, else None."""
        return self.declared_growth if self.declared_growth is not None else _growth(self.expr)

    @property
    def is_opaque(self) -> bool:
        """Whether a Python callable is part of it, so that only its values are known."""
        return _has_opaque(self.expr)

    def scaled(self, gain: Any) -> Activation:
        """sigma(gain * x).

        >>> activation("tanh").scaled(0.5)
        Activation('tanh(1/2*x)')
        """
        return self._composed(as_fraction(gain, "gain"), Fraction(0))

    def shifted(self, shift: Any) -> Activation:
        """sigma(x + shift).

        >>> activation("relu").shifted(-1).breakpoints
        (1.0,)
        """
        return self._composed(Fraction(1), as_fraction(shift, "shift"))

    def _composed(self, gain: Fraction, shift: Fraction) -> Activation:
        if gain == 1 and shift == 0:
            return self
        inner = t.affine(gain, shift)
        expr = t.substitute(self.expr, inner)
        simple = re.fullmatch(r"\w+", self.name) is not None
        declared = self.declared_growth
        if declared is not None:
            a, b, q = declared
            g, s = abs(float(gain)), abs(float(shift))
            declared = (a * float(np.exp(b * s + q * s * s)), b * g + 2 * q * g * s, q * g * g)
        return _checked(
            replace(
                self,
                expr=expr,
                name=self._called(str(inner)) if simple else str(expr),
                declared_growth=declared,
            )
        )

    def _called(self, argument: str) -> str:
        """The name as a call that reads back: parameters that differ from the defaults are written out."""
        entry = ENTRIES.get(self.name)
        changed = [(k, v) for k, v in self.items if entry is None or entry.defaults.get(k) != v]
        return f"{self.name}({', '.join([argument, *(f'{k}={v}' for k, v in changed)])})"

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def _repr_latex_(self) -> str:
        from ._latex import latex

        return rf"$\displaystyle {latex(self.expr)}$"

    def __neg__(self) -> Activation:
        return _combined(t.neg(self.expr), f"-{_factor(self.name)}")

    def __add__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        return NotImplemented if expr is None else _combined(t.add(self.expr, expr), f"{self.name} + {name}")

    def __radd__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        return NotImplemented if expr is None else _combined(t.add(expr, self.expr), f"{name} + {self.name}")

    def __sub__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        if expr is None:
            return NotImplemented
        return _combined(t.sub(self.expr, expr), f"{self.name} - {_factor(name)}")

    def __rsub__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        if expr is None:
            return NotImplemented
        return _combined(t.sub(expr, self.expr), f"{name} - {_factor(self.name)}")

    def __mul__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        if expr is None:
            return NotImplemented
        return _combined(t.mul(expr, self.expr), f"{_factor(name)}*{_factor(self.name)}")

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Activation:
        expr, name = _operand(other)
        if expr is None:
            return NotImplemented
        return _combined(t.div(self.expr, expr), f"{_factor(self.name)}/{_factor(name)}")


def _operand(other: Any) -> tuple[Node | None, str]:
    if isinstance(other, Activation):
        return other.expr, other.name
    if callable(other) or isinstance(other, (str, list, tuple, np.ndarray)):
        return None, ""
    q = as_fraction(other, "the other operand")
    return t.num(q), str(q)


def _factor(name: str) -> str:
    return name if re.fullmatch(r"[\w./]+(\([^()]*\))?", name) else f"({name})"


def _combined(expr: Node, name: str) -> Activation:
    return _checked(Activation(expr, name, "arithmetic"))


def _checked(sigma: Activation) -> Activation:
    """Derive the pieces at the door, so that what cannot be split is refused here."""
    pieces(sigma.expr)
    return sigma


@lru_cache(maxsize=2048)
def _growth(expr: Node) -> Growth | None:
    return derived_growth(pieces(expr))


def _has_opaque(node: Node) -> bool:
    return node.op == "opaque" or any(_has_opaque(a) for a in node.args)


# ---- the door -------------------------------------------------------------------------------------------------


def activation(
    spec: ActivationLike,
    *,
    gain: Any = 1,
    shift: Any = 0,
    name: str | None = None,
    breakpoints: Sequence[Any] | None = None,
    growth: Sequence[float] | None = None,
    **parameters: Any,
) -> Activation:
    """The activation sigma(gain * x + shift) of a name, an expression, a callable or an activation.

    spec: a registered name (torch's names and parameters, jax's aliases), a text in the expression grammar
    (x, pi, decimals, + - * / **, `a if u > v else b`, elementary functions, catalogue names, `He(3, x)`), a
    sympy.Expr in one symbol (Piecewise, Abs, Max, Min, sign, Heaviside included), a callable on float64 arrays (or on
    single floats), an Activation, or an activation of torch: a module with the parameters that it has now, a function,
    a functools.partial of one that names the others, a Sequential of them (a Softplus whose threshold is 20 or more is
    the smooth function; a module of your own is refused, for its formula is not known). Text and floats mean their
    shortest decimal: gain=0.1 is 1/10. breakpoints: where a callable is not smooth; without them they are searched for
    (a feature narrower than 1e-3 may be missed: declare its ends, or give a text, whose features are read off it).
    growth: (A, B, Q) with |sigma(x)| <= A exp(B|x| + Q x^2), for what it cannot be derived from. parameters: those of
    the named entry, such as negative_slope.

    Raises UnknownActivationError, ActivationParseError, NotSquareIntegrableError (growth of Q >= 1/4), ValueError
    (several symbols, or one declared to miss a part of the line, among others).

    >>> activation("leaky_relu", negative_slope=0.2)([-1.0, 2.0])
    array([-0.2,  2. ])
    >>> activation("x*sigmoid(1.702*x)").name
    'x*sigmoid(1.702*x)'
    >>> [str(p) for p in activation("abs(x**2 - 2)").pieces]
    ['x**2 - 2 on (-inf, -sqrt(2))', '-x**2 + 2 on (-sqrt(2), sqrt(2))', 'x**2 - 2 on (sqrt(2), inf)']
    >>> import sympy
    >>> t = sympy.Symbol("t")
    >>> activation(sympy.Piecewise((t, t > 0), (0.2 * t, True)))
    Activation('x if x > 0 else 1/5*x')
    """
    declared = None if growth is None else _declared(growth)
    if isinstance(spec, str):
        sigma = _from_text(spec, parameters)
    elif isinstance(spec, Activation):
        sigma = spec
    elif is_sympy(spec):
        sigma = Activation(*from_sympy(spec))
    elif is_torch(spec):
        sigma = reduce(_after, [_from_text(*stage) for stage in from_torch(spec)])
    elif callable(spec) and not isinstance(spec, type):
        sigma = _from_callable(spec, breakpoints, declared)
        breakpoints = None
    else:
        raise ValueError(
            "spec must be a name, an expression text, a sympy expression, a callable or an Activation, "
            f"got {type(spec).__name__}: {spec!r}"
        )
    if parameters and not isinstance(spec, str):
        raise ValueError(f"parameters {sorted(parameters)} go with a registered name, got spec={spec!r}")
    if breakpoints is not None:
        raise ValueError(f"breakpoints={breakpoints!r} go with a callable; the pieces of {sigma.name!r} are derived")
    if declared is not None:
        sigma = replace(sigma, declared_growth=declared)
    sigma = _checked(sigma)._composed(as_fraction(gain, "gain"), as_fraction(shift, "shift"))
    return sigma if name is None else replace(sigma, name=_name(name))


def catalogue() -> tuple[Activation, ...]:
    """Every registered activation at its default parameters.

    >>> [sigma.name for sigma in catalogue()][:4]
    ['identity', 'relu', 'leaky_relu', 'prelu']
    """
    return tuple(_from_text(name, {}) for name in ENTRIES)


@lru_cache(maxsize=1024)
def _catalogued(name: str, given: tuple[tuple[str, Any], ...]) -> Activation:
    entry = lookup(name)
    assert entry is not None
    found, expr, values = build(entry, dict(given))
    return Activation(expr, found, f"catalogue: {ENTRIES[found].formula}", tuple(sorted(values.items())))


def _from_text(text: str, parameters: dict[str, Any]) -> Activation:
    bare = text.strip()
    if re.fullmatch(r"[A-Za-z_]\w{0,60}", bare) and bare not in ("x", "pi"):
        if lookup(bare) is None:
            raise unknown(bare)
        given = {k: v if k == "approximate" else as_fraction(v, k) for k, v in parameters.items()}
        return _catalogued(bare, tuple(sorted(given.items())))
    if parameters:
        raise ValueError(f"parameters {sorted(parameters)} go with a registered name; write them into {bare[:60]!r}")
    return Activation(parse(text, NAMED), " ".join(bare.split()), "expression")


def _after(inner: Activation, outer: Activation) -> Activation:
    """outer(inner(x))."""
    expr = t.substitute(outer.expr, inner.expr)
    return Activation(expr, str(expr), "composition")


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name must be a non-empty text, got {name!r}")
    return name


def _declared(growth: Sequence[float]) -> Growth:
    try:
        values = tuple(float(g) for g in growth)
    except (TypeError, ValueError):
        values = ()
    if len(values) != 3 or not all(np.isfinite(values)) or values[0] <= 0 or values[1] < 0:
        raise ValueError(f"growth must be three finite numbers (A > 0, B >= 0, Q), got {growth!r}")
    if values[2] >= 0.25:
        raise NotSquareIntegrableError(f"growth={growth!r}: Q must be below 1/4 for a finite second moment")
    return values


def _from_callable(function: Callable[..., Any], marks: Sequence[Any] | None, declared: Growth | None) -> Activation:
    exact = None
    if marks is not None:
        exact = tuple(sorted({as_fraction(m, "breakpoints") for m in np.atleast_1d(np.asarray(marks, dtype=object))}))
    label = getattr(function, "__name__", type(function).__name__)
    leaf = Opaque(function, exact, declared, vectorized=_probe(function, label))
    return Activation(t.opaque(leaf), label, f"callable {label}")


_PROBE = np.array([-2.3, -0.7, 0.45, 1.1, 3.2])


def _probe(function: Callable[..., Any], label: str) -> bool:
    """Whether the callable acts on arrays; scalar-only ones are told by failing on an array and working on a float."""
    trial = Opaque(function)
    with np.errstate(all="ignore"):
        try:
            raw = np.asarray(function(_PROBE.copy()))
        except Exception as error:
            return _probe_scalar(function, label, error)
        if raw.shape == () and raw.dtype.kind in "fiub" and not _same(raw, function(_PROBE[:3] + 0.1)):
            raise ValueError(
                f"{label} returned one number for an array of shape {_PROBE.shape}; it must act elementwise"
            )
        call_opaque(trial, _PROBE.copy())
    return True


def _same(first: Any, second: Any) -> bool:
    return bool(np.shape(second) == () and (first == second or (first != first and second != second)))


def _probe_scalar(function: Callable[..., Any], label: str, error: Exception) -> bool:
    try:
        values = call_opaque(Opaque(function, vectorized=False), _PROBE)
        problem = "it gave nan" if np.all(np.isnan(values)) else ""
    except ValueError as wrong:
        problem = str(wrong)
    if problem:
        raise ValueError(
            f"{label} must accept a float64 array or a float; on an array it raised {error!r}, on floats: {problem}"
        ) from error
    return False
