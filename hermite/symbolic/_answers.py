"""The answers to questions: derived, put in form, checked. Runs in the worker process; see `_process`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import sympy as sp

from ..errors import ConstantActivationError, NoClosedFormError, NotSquareIntegrableError
from ._bivariate import bivariate
from ._check import check
from ._form import real_part, tidy, tidy_formula
from ._gaussian import integrate, require_square_integrable
from ._known import known_moments
from ._question import Question, own_symbol
from ._series import J, coefficient_at, coefficient_formula, polynomial_row
from ._signs import Undetermined, vanishes
from ._split import Split
from ._terms import Expr, K, Terms, multiply

Answer = Any  # an expression, or a tuple of them
Form = Callable[[Expr], Expr]
_REFUSALS = (ConstantActivationError, NoClosedFormError, NotSquareIntegrableError)


def answer(verb: str, question: Question, argument: Any) -> Answer:
    """The checked answer in the user's symbols; a symbol whose sign matters is taken both ways."""
    try:
        if verb == "quick_strength":
            return _checked(verb, question, argument, tidy_formula)
        found = _in_time(lambda: _checked(verb, question, argument, tidy))
        if found is None:
            found = _checked(verb, question, argument, real_part)
    except NotSquareIntegrableError as error:
        raise NotSquareIntegrableError(f"{question.name} is {error}") from None
    except Undetermined as unknown:
        symbol = _undetermined(question, unknown)
        if question.is_gain(symbol):
            return _even_in_gain(verb, question, argument, symbol)
        return _both_signs(verb, question, argument, symbol)
    back = dict(question.symbols)
    names = {user.name for user in back.values()}
    # the index of a finite sum, by a name that the user has not taken
    back[J] = next(sp.Symbol(c, integer=True, nonnegative=True) for c in "jmnil" if c not in names)
    return tuple(e.xreplace(back) for e in found) if isinstance(found, tuple) else found.xreplace(back)


def _checked(verb: str, question: Question, argument: Any, form: Form) -> Answer:
    found = _VERBS[verb](question, argument, form)
    for part in _parts(found):
        _accept(part, question, argument)
    check(verb, question, argument, found)
    return found


class Patience:
    """How long a form may be looked for, and whether a search had to be left running: then the process is used up."""

    seconds = 8.0
    exhausted = False


def _in_time(action: Callable[[], Answer]) -> Answer | None:
    """What the action returns or refuses; None when SymPy takes too long over the form of it, or fails."""
    box: list[Answer] = []
    refusals: list[Exception] = []

    def run() -> None:
        try:
            box.append(action())
        except Exception as error:
            refusals.append(error)

    search = threading.Thread(target=run, daemon=True)
    search.start()
    search.join(Patience.seconds)
    Patience.exhausted |= search.is_alive()
    if refusals and isinstance(refusals[0], (Undetermined, *_REFUSALS)):
        raise refusals[0]
    return box[0] if box else None


def _parts(found: Answer) -> tuple[Expr, ...]:
    return found if isinstance(found, tuple) else (found,)


def _accept(found: Expr, question: Question, argument: Any) -> None:
    """No unevaluated integral, no symbol that was not in the question, nothing infinite."""
    allowed = {s for s, _ in question.symbols} | ({argument} if isinstance(argument, sp.Symbol) else set())
    foreign = found.free_symbols - allowed
    if found.has(sp.Integral, sp.Limit, sp.Derivative) or foreign or found.has(sp.nan, sp.zoo, sp.oo):
        raise NoClosedFormError(f"no closed form of {question.name}: the derivation gave {found}, which is not one")


def _undetermined(question: Question, unknown: Undetermined) -> Expr:
    symbol = next((s for s, _ in question.symbols if s == unknown.symbol), None)
    if symbol is None or symbol.is_positive or symbol.is_negative:
        names = ", ".join(sorted(str(user) for s, user in question.symbols if s in unknown.expr.free_symbols))
        shown = unknown.expr.xreplace(dict(question.symbols))
        raise NoClosedFormError(
            f"no closed form of {question.name}: it depends on the sign of {shown}; declare symbols with "
            f"positive=True or negative=True so that it follows, or give numbers for {names or 'them'}"
        )
    return symbol


def _even_in_gain(verb: str, question: Question, argument: Any, symbol: Expr) -> Answer:
    """c_k of sigma(-alpha x) is (-1)^k c_k of sigma(alpha x): the answer for alpha > 0, read at |alpha|."""
    user = dict(question.symbols)[symbol]
    found = answer(verb, question.replaced(symbol, own_symbol(symbol, positive=True)), argument)
    index: list[Any] = [0] * len(_parts(found))  # everything but odd coefficients is even in the gain
    if verb == "coefficient":
        index = [argument]
    elif verb in ("coefficients", "moments"):
        index = [max(i - (3 if verb == "moments" else 0), 0) for i in range(len(index))]
    out = tuple(_with_sign(part, user, k) for part, k in zip(_parts(found), index, strict=True))
    return out if isinstance(found, tuple) else out[0]


def _with_sign(found: Expr, user: Expr, k: Any) -> Expr:
    """The formula itself where it has the right parity already, else with |alpha| and sign(alpha)^k."""
    if isinstance(k, int) and _same(found.xreplace({user: -user}), (-1) ** k * found, user):
        return found
    size = sp.Abs(user)
    positive = found.xreplace({user: size})
    plain = positive.replace(lambda e: e.is_Pow and e.base == size and e.exp.is_even, lambda e: user**e.exp)
    if k == 1 or (isinstance(k, int) and k % 2):
        rest, factor = plain.as_independent(size, as_Add=False)
        first = [f for f in sp.Mul.make_args(factor) if f == size]
        if first:  # |a| sign(a) = a
            return rest * user * factor / size
    return plain * (sp.sign(user) ** (k % 2 if isinstance(k, int) else k))


def _same(first: Expr, second: Expr, user: Expr) -> bool:
    """Whether two formulas agree to 30 digits at numbers for all symbols: they are analytic, so everywhere."""
    names = sorted((first - second).free_symbols, key=str)
    for n in (7, 9, 13):
        values = {s: sp.Rational(n + i, 8 + 3 * i) for i, s in enumerate(names)}
        a, b = (sp.N(e.subs(values), 40) for e in (first, second))
        if not abs(a - b) <= sp.Float("1e-30") * (abs(a) + abs(b) + 1):
            return False
    return True


def _both_signs(verb: str, question: Question, argument: Any, symbol: Expr) -> Answer:
    """One answer where both signs agree, else cases; a constant has none of its own."""
    user = dict(question.symbols)[symbol]
    cases: list[tuple[Answer, Expr]] = []
    constant: ConstantActivationError | None = None
    for positive, condition in ((True, user > 0), (False, user < 0)):
        try:
            case = answer(verb, question.replaced(symbol, own_symbol(symbol, positive)), argument)
            cases.append((case, condition))
        except ConstantActivationError as error:
            constant = error
    if not cases:
        raise constant or NoClosedFormError(f"no closed form of {question.name}")
    joined = tuple(_one_or_cases(parts, cases, user) for parts in zip(*(_parts(c) for c, _ in cases), strict=True))
    return joined if isinstance(cases[0][0], tuple) else joined[0]


def _one_or_cases(parts: tuple[Expr, ...], cases: list[tuple[Answer, Expr]], user: Expr) -> Expr:
    if len(parts) == 2 and not parts[0].has(sp.Piecewise, sp.Sum):
        up, down = parts
        if _same(up, down, user):
            return up
        if _same(up.xreplace({user: -user}), down, user):
            return up.xreplace({user: sp.Abs(user)})
    return sp.Piecewise(*((part, condition) for part, (_, condition) in zip(parts, cases, strict=True)))


# ---- the verbs --------------------------------------------------------------------------------------------------


def _mean(split: Split) -> Expr:
    return sp.Add(*(integrate(part.terms, part.lower, part.upper) for part in split.terms()))


def _square(terms: Terms) -> Terms:
    return multiply(terms, terms)


def _require_square_integrable(split: Split) -> None:
    for part in split.terms():
        require_square_integrable(part.terms, part.lower, part.upper)


def _second(split: Split) -> Expr:
    row = polynomial_row(split)
    if row is not None:  # Parseval; the square of a polynomial of degree 300 has too many terms
        return sp.Add(*(c**2 for c in row.values()))
    return sp.Add(*(integrate(_square(part.terms), part.lower, part.upper) for part in split.terms()))


def _basic(question: Question, form: Form) -> tuple[Expr, Expr, Expr]:
    """(c_0, c_1, E sigma^2)."""
    split = question.split()
    known = known_moments(split)
    if known is not None:
        return known
    second = form(_second(split))  # first: it refuses what is not square-integrable
    return form(_mean(split)), form(coefficient_at(split, 1)), second


def _varying(question: Question, form: Form) -> tuple[Expr, Expr]:
    """(c_1, variance) of a sigma that is not constant."""
    c0, c1, second = _basic(question, form)
    spread = form(second - c0**2)
    if vanishes(spread):
        raise ConstantActivationError(
            f"{question.name} is constant: its variance is 0 and its isometry strength is undefined"
        )
    return c1, spread


def _expectation(question: Question, _: Any, form: Form) -> Expr:
    split = question.split()
    known = known_moments(split)
    return form(_mean(split)) if known is None else known[0]


def _second_moment(question: Question, _: Any, form: Form) -> Expr:
    return _basic(question, form)[2]


def _variance(question: Question, _: Any, form: Form) -> Expr:
    c0, _, second = _basic(question, form)
    spread = form(second - c0**2)
    return sp.Integer(0) if vanishes(spread) else spread


def _linearity(question: Question, _: Any, form: Form) -> Expr:
    c1, spread = _varying(question, form)
    return form(c1**2 / spread)


def _strength(question: Question, _: Any, form: Form) -> Expr:
    c1, spread = _varying(question, form)
    return form(2 - c1**2 / spread)


def _coefficients(question: Question, degree: int, form: Form) -> tuple[Expr, ...]:
    return tuple(_coefficient(question, k, form) for k in range(degree + 1))


def _coefficient(question: Question, k: Any, form: Form) -> Expr:
    split = question.split()
    known = known_moments(split)
    if known is not None and k in (0, 1):
        return known[k]
    _require_square_integrable(split)
    return coefficient_formula(split, K, form) if k == K else form(coefficient_at(split, k))


def _moments(question: Question, degree: int, form: Form) -> tuple[Expr, ...]:
    """(second moment, variance, residual, c_0, c_1, ...)."""
    c0, c1, second = _basic(question, form)
    spread = form(second - c0**2)
    row = (c0, c1)[: degree + 1] if degree <= 1 else _coefficients(question, degree, form)
    return (second, spread, form(spread - c1**2), *row)


def _dual(question: Question, _: Any, form: Form) -> Expr:
    split = question.split()
    _require_square_integrable(split)
    return form(bivariate(split, split))


_VERBS: dict[str, Callable[[Question, Any, Form], Answer]] = {
    "expectation": _expectation,
    "second_moment": _second_moment,
    "variance": _variance,
    "linearity": _linearity,
    "isometry_strength": _strength,
    "quick_strength": _strength,
    "coefficients": _coefficients,
    "coefficient": _coefficient,
    "moments": _moments,
    "dual": _dual,
}
