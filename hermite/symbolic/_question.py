"""What is asked of the engine: an activation, maybe with symbols in it, as a frozen value that travels to a worker.

The user's symbols are replaced by real ones of the same sign; the way back is kept with the question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from .._activation import Activation, activation
from .._catalogue import ENTRIES, NAMED, lookup, unknown
from .._from_sympy import check_symbol
from .._numbers import as_fraction
from .._parse import parse
from .._sympy_forms import number as decimal_number
from .._tree import parameter, substitute
from ._split import Split, rational, split_activation, split_expression, tree_to_sympy
from ._terms import Expr, X


@dataclass(frozen=True)
class Question:
    """sigma(gain x + shift) with sigma an Activation, or an expression in X, and the symbols that stand in it."""

    source: Activation | Expr
    gain: Expr
    shift: Expr
    name: str
    symbols: tuple[tuple[Expr, Expr], ...] = ()  # (ours, the user's)

    def split(self) -> Split:
        """The pieces; raises NoClosedFormError, or Undetermined where the sign of a symbol matters."""
        source = self.source
        split = split_activation(source) if isinstance(source, Activation) else split_expression(source)
        return split.composed(self.gain, self.shift)

    def at(self, values: dict[Expr, Expr]) -> Activation:
        """The activation at numbers for the symbols."""
        inner = self.gain.subs(values) * X + self.shift.subs(values)
        source = self.source
        if not isinstance(source, Activation):
            return activation(source.subs(values).xreplace({X: inner}))
        if inner == X:
            return source
        return replace(source, expr=substitute(source.expr, activation(inner).expr), name=f"{source.name} of {inner}")

    def is_gain(self, symbol: Expr) -> bool:
        """Whether the symbol stands for the gain and nowhere else, with no shift."""
        inside = set() if isinstance(self.source, Activation) else self.source.free_symbols
        return bool(self.gain == symbol and self.shift == 0 and symbol not in inside)

    def replaced(self, old: Expr, new: Expr) -> Question:
        """The question with one of our symbols in place of another, as when its sign is taken for granted."""
        source = self.source if isinstance(self.source, Activation) else self.source.xreplace({old: new})
        symbols = tuple((new if s == old else s, user) for s, user in self.symbols)
        swap = {old: new}
        return replace(
            self, source=source, gain=self.gain.xreplace(swap), shift=self.shift.xreplace(swap), symbols=symbols
        )


def ask(sigma: Any, gain: Any, shift: Any, parameters: dict[str, Any]) -> Question:
    """The question of an activation in any spelling; see the verbs for what is accepted."""
    given = {"gain": _number(gain, "gain"), "shift": _number(shift, "shift")}
    values = {k: v if k == "approximate" else _number(v, k) for k, v in parameters.items()}
    expr, variable, name = None, None, str(sigma)
    if isinstance(sigma, sp.Basic):
        expr, variable = _expression(sigma, values)
    elif _needs_reading(sigma, values):
        expr, values, variable = *_from_text(sigma, values), X
    used = [e for e in (expr, *given.values(), *values.values()) if isinstance(e, sp.Basic)]
    free = sorted({s for e in used for s in e.free_symbols if s != variable}, key=sp.default_sort_key)
    symbols = {s: _own(s, i) for i, s in enumerate(free)}
    own = {k: v.xreplace(symbols) for k, v in given.items()}
    back = tuple((ours, user) for user, ours in symbols.items())
    if expr is None:
        source = activation(sigma, **parameters)
        return Question(source, own["gain"], own["shift"], source.name, back)
    inner = expr.xreplace(symbols | {variable: X})
    if not inner.free_symbols - {X}:
        inner = activation(inner)  # its case split also solves what is not of first degree
    return Question(inner, own["gain"], own["shift"], name, back)


def own_symbol(symbol: Any, positive: bool) -> Expr:
    """Our copy of a symbol with a sign."""
    return sp.Symbol(f"{symbol.name}{'+' if positive else '-'}", real=True, positive=positive, negative=not positive)


def in_users_words(text: str, question: Question) -> str:
    """A message with the names of our symbols as the user wrote them."""
    for ours, user in question.symbols:
        text = re.sub(rf"{re.escape(ours.name)}[+-]?", user.name, text)
    return re.sub(r"\b_(x|rho|k)\b", r"\1", text)


def _own(symbol: Expr, index: int) -> Expr:
    """Numbered, for two symbols may have one name."""
    if symbol.is_real is False:
        raise ValueError(f"the symbol {symbol} is declared not to be real; parameters of an activation are real")
    known = {name: True for name in ("positive", "negative", "nonzero", "integer") if getattr(symbol, f"is_{name}")}
    return sp.Symbol(f"_p{index}_{symbol.name}", real=True, **known)


def _number(value: Any, argument: str) -> Expr:
    """An exact number or a SymPy expression."""
    if not isinstance(value, sp.Basic) or value.is_Float:
        return rational(as_fraction(value, argument))
    if not isinstance(value, sp.Expr) or value.has(sp.zoo, sp.nan, sp.oo) or value.is_real is False:
        raise ValueError(f"{argument} must be a finite real number or a SymPy expression, got {value!r}")
    return _exact(value)


def _exact(expr: Expr) -> Expr:
    """Floats in a formula mean their shortest decimal."""
    return expr.replace(lambda e: e.is_Float, lambda e: rational(decimal_number(e)))


def _expression(sigma: Expr, values: dict[str, Expr]) -> tuple[Expr, Expr]:
    """The expression and its variable: the only symbol, or the one named x."""
    if not isinstance(sigma, sp.Expr) or sigma.has(sp.I, sp.zoo, sp.nan, sp.oo):
        raise ValueError(f"sigma must be a real expression, got {sigma}")
    variable = _variable(sigma)
    check_symbol(variable)
    names = {s.name: s for s in sigma.free_symbols - {variable}}
    unknown_names = sorted(set(values) - set(names))
    if unknown_names:
        raise ValueError(f"{sigma} has no parameters {unknown_names} to be given; its parameters: {sorted(names)}")
    return _exact(sigma.xreplace({names[k]: v for k, v in values.items()})), variable


def _variable(sigma: Expr) -> Expr:
    free = sigma.free_symbols
    if len(free) <= 1:
        return next(iter(free), X)
    named_x = [s for s in free if s.name == "x"]
    if len(named_x) != 1:
        shown = ", ".join(sorted(map(str, free)))
        raise ValueError(f"sigma={sigma} has the symbols {shown}: name the variable x, the others are parameters")
    return named_x[0]


def _needs_reading(sigma: Any, values: dict[str, Any]) -> bool:
    """Whether a text has parameters that an Activation cannot hold: symbols, irrational numbers, or names in it."""
    special = any(isinstance(v, sp.Basic) and not v.is_Rational for v in values.values())
    return special or (bool(values) and isinstance(sigma, str) and not _is_name(sigma))


def _is_name(text: str) -> bool:
    return re.fullmatch(r"\s*[A-Za-z_]\w{0,60}\s*", text) is not None


def _from_text(sigma: Any, values: dict[str, Expr]) -> tuple[Expr, dict[str, Expr]]:
    """A name or a text whose parameters are symbols."""
    if not isinstance(sigma, str):
        raise ValueError(f"parameters {sorted(values)} go with a name, a text or a SymPy expression, got {sigma!r}")
    constants: dict[str, Any] = {}
    text = sigma.strip()
    if _is_name(text):
        entry = lookup(text)
        if entry is None:
            raise unknown(text)
        text = ENTRIES[entry.name].formula
        values = {entry.synonyms.get(k, k): v for k, v in values.items()}
        missing = sorted(set(values) - set(entry.defaults))
        if missing:
            takes = ", ".join(entry.defaults) or "none"
            raise ValueError(f"{entry.name} has no parameter {missing[0]!r}; its parameters: {takes}")
        constants |= entry.defaults
    constants |= {name: parameter(name) for name in values}
    return tree_to_sympy(parse(text, NAMED, constants), values), values
