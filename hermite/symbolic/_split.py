"""An activation as smooth pieces between exact places, in SymPy: places and slopes may be symbols.

Trees bring their pieces with them. SymPy expressions with parameters are split here: every argument of a splitting
function must be of first degree in x, so that each kink has a place -c/m and a direction sign(m).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import sympy as sp

from .._activation import Activation
from .._points import Point
from .._roots import WINDOW
from .._tree import SPLITTING, Node
from ..errors import NoClosedFormError
from ._signs import in_order, sign_of
from ._terms import Expr, Terms, X, add_terms, quadratic, read, scale_terms

oo = sp.oo
_SPLITTING = (sp.Max, sp.Min, sp.Abs, sp.sign, sp.Heaviside, sp.Piecewise)


class Part(NamedTuple):
    """terms(x) on (lower, upper); with side = -1, terms(-x) on (-upper, -lower)."""

    lower: Expr
    upper: Expr
    terms: Terms
    side: int


def _has_real_power(piece: Expr) -> bool:
    return any(e.base.has(X) and not e.exp.is_Integer for e in piece.atoms(sp.Pow) if not e.exp.has(X))


@dataclass(frozen=True)
class Split:
    """sigma on the intervals between the places: len(pieces) = len(places) + 1."""

    places: tuple[Expr, ...]
    pieces: tuple[Expr, ...]

    @property
    def intervals(self) -> list[tuple[Expr, Expr]]:
        return list(pairwise((-oo, *self.places, oo)))

    def terms(self) -> list[Part]:
        """Every piece that is not 0. One with a real power of -x on (-oo, 0) is given as its mirror image."""
        out = []
        for (low, high), piece in zip(self.intervals, self.pieces, strict=True):
            mirrored = high == 0 and low == -oo and _has_real_power(piece)
            if mirrored:
                low, high, piece = sp.Integer(0), oo, piece.xreplace({X: -X})
            found = read(piece, positive=low == 0)
            if found:
                out.append(Part(low, high, found, -1 if mirrored else 1))
        return out

    def composed(self, gain: Expr, shift: Expr) -> Split:
        """sigma(gain x + shift)."""
        if gain == 1 and shift == 0:
            return self
        inner = gain * X + shift
        pieces = [piece.xreplace({X: inner}) for piece in self.pieces]
        if not self.places:
            return Split((), tuple(pieces))
        direction = sign_of(gain)
        if direction == 0:
            return Split((), (_piece_after(self, shift).xreplace({X: inner}),))
        places = [(p - shift) / gain for p in self.places]
        order = slice(None, None, direction)
        return Split(tuple(places[order]), tuple(pieces[order]))


# ---- trees ------------------------------------------------------------------------------------------------------


def split_activation(sigma: Activation) -> Split:
    """The pieces of a tree, in SymPy."""
    parts = sigma.pieces
    if _waves(sigma.expr) and any(abs(p.upper.value) > _FAR for p in parts[:-1]):
        raise NoClosedFormError(
            f"no closed form: {sigma.name} has kinks without end, where a sine or cosine changes sign"
        )
    places = tuple(_place(p.upper) for p in parts[:-1])
    return Split(places, tuple(tree_to_sympy(p.expr) for p in parts))


_FAR = 0.75 * WINDOW  # kinks of a wave are listed on [-WINDOW, WINDOW] only; a few of them lie out here


def _waves(node: Node) -> bool:
    """Whether a splitting operation looks at a sine or cosine of x."""
    compared = node.args[:2] if node.op == "if" else node.args if node.op in SPLITTING else ()
    return any(_has_wave(a) for a in compared) or any(_waves(a) for a in node.args)


def _has_wave(node: Node) -> bool:
    return not node.constant and (node.op in ("sin", "cos") or any(_has_wave(a) for a in node.args))


def _place(point: Point) -> Expr:
    if isinstance(point.exact, Fraction):
        return rational(point.exact)
    if isinstance(point.exact, Node):
        return tree_to_sympy(point.exact)
    raise NoClosedFormError(
        f"no closed form: a piece ends at x = {point.value:.17g}, a root of {getattr(point.exact, 'tree', '?')} "
        "that has no formula"
    )


def rational(q: Fraction) -> Expr:
    return sp.Rational(q.numerator, q.denominator)


def tree_to_sympy(node: Node, parameters: Mapping[str, Expr] | None = None) -> Expr:
    """A tree as a SymPy expression in X: the interpreter of this number system."""
    op = node.op
    if op == "num":
        return rational(node.number)
    if op in _LEAVES:
        return _LEAVES[op]
    if op == "parameter":
        return (parameters or {})[str(node.value)]
    args = [tree_to_sympy(a, parameters) for a in node.args]
    if op == "pow":
        return args[0] ** rational(node.number)
    if op == "He":
        return _hermite(int(node.number), args[0])
    if op == "if":
        u, v, yes, no = args
        return sp.Piecewise((yes, _RELATIONS[str(node.value)](u, v)), (no, True))
    if op not in _OPERATIONS:
        raise NoClosedFormError(
            f"{node} is a Python callable: only its values are known, so there is nothing to derive from; give a "
            "formula as text or as a SymPy expression"
        )
    return _OPERATIONS[op](*args)


def _hermite(degree: int, u: Expr) -> Expr:
    """Normalised He_degree: sum over j of (-1)^j sqrt(n!) u^{n-2j} / (2^j j! (n-2j)!)."""
    root = sp.sqrt(sp.factorial(degree))
    terms = []
    for j in range(degree // 2 + 1):
        size = sp.factorial(degree) / (2**j * sp.factorial(j) * sp.factorial(degree - 2 * j))
        terms.append((-1) ** j * size * u ** (degree - 2 * j))
    return sp.Add(*terms) / root


_LEAVES = {"x": X, "pi": sp.pi}
_RELATIONS = {"<": sp.Lt, "<=": sp.Le, ">": sp.Gt, ">=": sp.Ge}
_OPERATIONS: dict[str, Callable[..., Expr]] = {
    "add": lambda u, v: u + v,
    "mul": lambda u, v: u * v,
    "div": lambda u, v: u / v,
    "abs": sp.Abs,
    "sign": sp.sign,
    "max": sp.Max,
    "min": sp.Min,
    "exp": sp.exp,
    "expm1": lambda u: sp.exp(u) - 1,
    "log": sp.log,
    "log1p": lambda u: sp.log(1 + u),
    "sqrt": sp.sqrt,
    "sin": sp.sin,
    "cos": sp.cos,
    "tanh": sp.tanh,
    "arctan": sp.atan,
    "erf": sp.erf,
    "sigmoid": lambda u: 1 / (1 + sp.exp(-u)),
}


# ---- expressions with parameters --------------------------------------------------------------------------------


def split_expression(expr: Expr) -> Split:
    """The pieces of a SymPy expression in X whose other symbols are real parameters."""
    if not expr.has(*_SPLITTING):
        return Split((), (expr,))
    if isinstance(expr, sp.Piecewise):
        return _piecewise(expr)
    parts = [split_expression(a) for a in expr.args]
    places, columns = _common(parts)
    if isinstance(expr, (sp.Max, sp.Min)):
        return _folded(expr, places, columns)
    cuts = []
    for args in columns:
        if isinstance(expr, (sp.Abs, sp.sign, sp.Heaviside)):
            cuts.append(_signs(args[0], [_signed(expr, args[0], s) for s in _SIGNS]))
        else:
            cuts.append(Split((), (expr.func(*args),)))
    return _assemble(places, cuts)


def _signed(expr: Expr, u: Expr, s: int) -> Expr:
    if isinstance(expr, sp.Abs):
        return u if s >= 0 else -u
    if isinstance(expr, sp.sign):
        return sp.Integer(s)
    return sp.Integer(1 if s > 0 else 0)


def _common(parts: list[Split]) -> tuple[tuple[Expr, ...], list[tuple[Expr, ...]]]:
    """All places, and the arguments on every interval between them."""
    places = in_order([p for part in parts for p in part.places])
    columns = []
    for i in range(len(places) + 1):
        low = places[i - 1] if i else -oo
        # the piece of a part that holds (low, next place): as many of its places lie at or below low
        columns.append(tuple(_piece_after(part, low) for part in parts))
    return tuple(places), columns


def _piece_after(part: Split, low: Expr) -> Expr:
    below = 0 if low == -oo else sum(sign_of(p - low) <= 0 for p in part.places)
    return part.pieces[below]


def _assemble(places: tuple[Expr, ...], cuts: list[Split]) -> Split:
    """One split from those of the intervals, each restricted to its own interval."""
    out_places: list[Expr] = []
    out_pieces: list[Expr] = []
    for (low, high), part in zip(pairwise((-oo, *places, oo)), cuts, strict=True):
        kept = [p for p in part.places if sign_of(p - low) > 0 and sign_of(high - p) > 0]
        if low != -oo:
            out_places.append(low)
        out_pieces.append(_piece_after(part, low))
        for p in kept:
            out_places.append(p)
            out_pieces.append(_piece_after(part, p))
    return Split(tuple(out_places), tuple(out_pieces))


_SIGNS = (-1, 0, 1)


def _signs(u: Expr, branches: list[Expr]) -> Split:
    """Of the branches for u < 0, u = 0 and u > 0 those that are taken, u being of first degree."""
    if not u.has(X):
        return Split((), (branches[1 + sign_of(u)],))
    line = quadratic(u)
    if line is None or line[2] != 0:
        raise NoClosedFormError(
            "no closed form: with symbolic parameters the arguments of Max, Min, Abs, sign, Heaviside and of "
            "conditions must be of first degree in x"
        )
    slope = sign_of(line[1])
    return Split((sp.cancel(-line[0] / line[1]),), (branches[1 - slope], branches[1 + slope]))


def _folded(expr: Expr, places: tuple[Expr, ...], columns: list[tuple[Expr, ...]]) -> Split:
    """Max or Min of several, two at a time."""
    upper = isinstance(expr, sp.Max)
    cuts = []
    for args in columns:
        best = Split((), (args[0],))
        for other in args[1:]:
            inner = [_signs(sp.expand(p - other), [other, p, p] if upper else [p, p, other]) for p in best.pieces]
            best = _assemble(best.places, inner)
        cuts.append(best)
    return _assemble(places, cuts)


def _piecewise(expr: Expr) -> Split:
    """The first branch whose condition is true, interval by interval."""
    branches = [e for e, _ in expr.args]
    relations = sorted({r for _, c in expr.args for r in c.atoms(sp.core.relational.Relational)}, key=str)
    sides = [split_expression(r.lhs - r.rhs) for r in relations]
    signs = []
    for side in sides:
        cuts = [_signs(sp.expand(u), [sp.Integer(s) for s in _SIGNS]) for u in side.pieces]
        signs.append(_assemble(side.places, cuts))
    places, columns = _common([*signs, *(split_expression(e) for e in branches)])
    pieces = []
    for column in columns:
        truth = {r: _holds(r, int(s)) for r, s in zip(relations, column, strict=False)}
        values = column[len(relations) :]
        for (_, condition), piece in zip(expr.args, values, strict=True):
            if condition.xreplace(truth) == True:  # noqa: E712  # SymPy's true
                pieces.append(piece)
                break
        else:
            raise ValueError("the Piecewise does not cover the line: give it a last branch with condition True")
    return Split(places, tuple(pieces))


def _holds(relation: Expr, s: int) -> Expr:
    """The truth of lhs - rhs having the sign s on an open interval; equality there is a null set."""
    if isinstance(relation, (sp.Gt, sp.Ge)):
        return sp.true if s > 0 or (s == 0 and isinstance(relation, sp.Ge)) else sp.false
    if isinstance(relation, (sp.Lt, sp.Le)):
        return sp.true if s < 0 or (s == 0 and isinstance(relation, sp.Le)) else sp.false
    same = s == 0
    return sp.true if same == isinstance(relation, sp.Eq) else sp.false


# ---- jumps ------------------------------------------------------------------------------------------------------


def jumps(split: Split) -> tuple[Terms, list[tuple[Expr, Terms]]]:
    """sigma as terms on the whole line plus steps: terms times 1[x > place]."""
    pieces = [read(piece) for piece in split.pieces]
    minus = sp.Integer(-1)
    steps = [
        (place, add_terms(after, scale_terms(minus, before)))
        for place, (before, after) in zip(split.places, pairwise(pieces), strict=True)
    ]
    return pieces[0], [(place, step) for place, step in steps if step]
