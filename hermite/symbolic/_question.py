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
from .._numbers import as_fraction
from .._parse import parse
from .._tree import parameter
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
        gain, shift = self.gain.subs(values), self.shift.subs(values)
        source = self.source
        if not isinstance(source, Activation):
            source = source.subs(values)
            return activation(source.xreplace({X: gain * X + shift}))
        return activation(source, gain=gain, shift=shift)

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
    variable, expr = None, None
    if isinstance(sigma, sp.Basic):
        expr, variable = _expression(sigma, values)
    elif any(_symbolic(v) for v in values.values()):
        expr, values = _from_text(sigma, values)
        variable = X
    used = [e for e in (expr, *given.values(), *values.values()) if isinstance(e, sp.Basic)]
    symbols = {s: _own(s) for e in used for s in e.free_symbols if s != variable}
    own = {k: v.xreplace(symbols) for k, v in given.items()}
    if expr is None:
        source = activation(sigma, **parameters)
        return Question(source, own["gain"], own["shift"], source.name, _inverse(symbols))
    inner = _exact(expr.xreplace(symbols | {variable: X}))
    if not symbols and not own["gain"].free_symbols:
        source = activation(inner)  # its case split also solves what is not of first degree
        return Question(source, own["gain"], own["shift"], str(sigma))
    return Question(inner, own["gain"], own["shift"], str(sigma), _inverse(symbols))


def own_symbol(symbol: Any, positive: bool) -> Expr:
    """Our copy of a symbol with a sign."""
    return sp.Symbol(f"{symbol.name}{'+' if positive else '-'}", real=True, positive=positive, negative=not positive)


def _inverse(symbols: dict[Expr, Expr]) -> tuple[tuple[Expr, Expr], ...]:
    return tuple((own, user) for user, own in symbols.items())


def _own(symbol: Expr) -> Expr:
    if symbol.is_real is False:
        raise ValueError(f"the symbol {symbol} is declared not to be real; parameters of an activation are real")
    known = {name: True for name in ("positive", "negative", "nonzero") if getattr(symbol, f"is_{name}")}
    if symbol.is_integer:
        known["integer"] = True
    return sp.Symbol(f"_p_{symbol.name}", real=True, **known)


def _symbolic(value: Any) -> bool:
    return isinstance(value, sp.Basic) and bool(value.free_symbols)


def _number(value: Any, argument: str) -> Expr:
    """An exact number or a SymPy expression."""
    if isinstance(value, sp.Basic):
        if not isinstance(value, sp.Expr) or value.has(sp.zoo, sp.nan, sp.oo):
            raise ValueError(f"{argument} must be a finite real number or a SymPy expression, got {value!r}")
        return _exact(value)
    return rational(as_fraction(value, argument))


def _exact(expr: Expr) -> Expr:
    """Floats mean their shortest decimal."""
    return expr.replace(lambda e: e.is_Float, lambda e: rational(as_fraction(float(e), "a float")))


def _expression(sigma: Expr, values: dict[str, Expr]) -> tuple[Expr, Expr]:
    """The expression and its variable: the only symbol, or the one named x."""
    if not isinstance(sigma, sp.Expr):
        raise ValueError(f"sigma must be an expression, got {type(sigma).__name__}: {sigma}")
    names = {s.name: s for s in sigma.free_symbols}
    unknown_names = sorted(set(values) - set(names))
    if unknown_names:
        raise ValueError(f"{sigma} has no symbols {unknown_names} to be replaced; its symbols: {sorted(names)}")
    sigma = sigma.xreplace({names[k]: v for k, v in values.items()})
    free = sigma.free_symbols
    if len(free) <= 1:
        return sigma, next(iter(free), X)
    named_x = [s for s in free if s.name == "x"]
    if len(named_x) != 1:
        shown = ", ".join(sorted(map(str, free)))
        raise ValueError(f"sigma={sigma} has the symbols {shown}: name the variable x, the others are parameters")
    return sigma, named_x[0]


def _from_text(sigma: Any, values: dict[str, Expr]) -> tuple[Expr, dict[str, Expr]]:
    """A name or a text whose parameters are symbols."""
    if not isinstance(sigma, str):
        raise ValueError(f"parameters {sorted(values)} go with a name, a text or a SymPy expression, got {sigma!r}")
    constants: dict[str, Any] = {}
    text = sigma.strip()
    if re.fullmatch(r"[A-Za-z_]\w{0,60}", text):
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
