"""Hermite coefficients c_k of the family for integer k and for a symbol k.

With monic He_k and the density phi, He_k phi = -(He_{k-1} phi)', so on an interval
    integral of f He_k phi = -[f He_{k-1} phi] + integral of f' He_{k-1} phi,
and on the whole line E f He_k = E f' He_{k-1}. Powers of x move the index: x He_k = He_{k+1} + k He_{k-1}.
Everything here is E f He_k with monic He_k; the caller divides by sqrt(k!).
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from ..errors import NoClosedFormError
from ._form import tidy, tidy_formula
from ._gaussian import absolute_moment, integrate, moment
from ._signs import sign_of
from ._split import Split
from ._terms import ONE, ZERO, Expr, Key, Terms, derivative, value

oo = sp.oo
MAX_DEGREE = 400
J = sp.Symbol("_j", integer=True, nonnegative=True)  # of finite sums


def coefficient_at(split: Split, k: int) -> Expr:
    """c_k for an integer k."""
    total = sp.Add(*(side**k * _moment_at(terms, low, high, k) for low, high, terms, side in split.terms()))
    return total / sp.sqrt(sp.factorial(k))


def _moment_at(terms: Terms, low: Expr, high: Expr, k: int) -> Expr:
    if any(not key.power.is_Integer for key in terms):
        # no boundary terms at a singular end: expand He_k instead
        he = {Key(sp.Integer(m), ZERO, ZERO): c for m, c in enumerate(hermite_row(k)) if c}
        return sp.Add(
            *(c * d * moment(key._replace(power=key.power + m.power), low, high)
              for key, c in terms.items() for m, d in he.items())
        )  # fmt: skip
    if low == -oo and high == oo and all(key.polynomial for key in terms):
        return sp.Add(*(c * _monomial(int(key.power)).get(k, ZERO) for key, c in terms.items()))
    total = ZERO
    while k > 0 and terms:
        if low != -oo or high != oo:
            total -= boundary(terms, high, k - 1) - boundary(terms, low, k - 1)
        terms, k = derivative(terms), k - 1
    return total + (integrate(terms, low, high) if terms else ZERO)


def boundary(terms: Terms, end: Expr, index: Expr) -> Expr:
    """(f He_index phi)(end)."""
    if end in (oo, -oo):
        return ZERO
    return value(terms, end) * hermite_value(index, end) * sp.exp(-(end**2) / 2) / sp.sqrt(2 * sp.pi)


def hermite_row(k: int) -> list[Expr]:
    """Coefficients of monic He_k from the constant term up."""
    row = [ZERO] * (k + 1)
    for j in range(k // 2 + 1):
        row[k - 2 * j] = (-1) ** j * sp.factorial(k) / (2**j * sp.factorial(j) * sp.factorial(k - 2 * j))
    return row


def hermite_value(index: Expr, x: Expr) -> Expr:
    """Monic He_index(x): (index - 1)!! cos(pi index/2) at 0, else SymPy's physicists' polynomial."""
    if isinstance(index, int) or index.is_Integer:
        return sp.Add(*(c * (x**m if m else ONE) for m, c in enumerate(hermite_row(int(index)))))
    if x == 0:
        return quarter_wave(index) * sp.factorial2(index - 1)
    return 2 ** (-index / 2) * sp.hermite(index, x / sp.sqrt(2))


def quarter_wave(index: Expr, turns: int = 0) -> Expr:
    """cos(pi index/2 - turns pi/2) for index = k + integer, with the quarter turns carried out."""
    shift, k = index.as_independent(*index.free_symbols, as_Add=True)
    if not shift.is_Integer:
        return sp.cos(sp.pi * index / 2 - turns * sp.pi / 2)
    angle = sp.pi * k / 2
    return (sp.cos(angle), sp.sin(angle), -sp.cos(angle), -sp.sin(angle))[(turns - int(shift)) % 4]


# ---- a symbol for the index -------------------------------------------------------------------------------------


def coefficient_formula(split: Split, k: Expr, form: Callable[[Expr], Expr] = tidy) -> Expr:
    """c_k for a symbol k >= 0: the general formula, with the first few k apart where it does not hold for them."""
    first, general, powers = 0, ZERO, dict[int, Expr]()
    for low, high, terms, side in split.terms():
        for key, c in terms.items():
            if key.polynomial and low == -oo and high == oo:
                powers[int(key.power)] = c
                continue
            formula, valid_from = _formula(key, low, high, k, side)
            first, general = max(first, valid_from), general + c * formula
    polynomial = _row(powers)
    general = tidy_formula(lowered(general, k) / sp.sqrt(sp.factorial(k)))
    exceptions = [(coefficient_at(split, j), j) for j in range(first)]
    while exceptions and _agrees(general, k, exceptions[-1][1], exceptions[-1][0] - polynomial.get(first - 1, ZERO)):
        exceptions.pop()
        first -= 1
    # beyond the exceptions a polynomial on the whole line adds to single coefficients
    deltas = sp.Add(*(form(polynomial[j]) * sp.KroneckerDelta(k, j) for j in sorted(polynomial) if j >= first))
    cases = [(form(c), sp.Eq(k, j)) for c, j in exceptions]
    return sp.Piecewise(*cases, (general + deltas, True)) if cases else general + deltas


def polynomial_row(split: Split) -> dict[int, Expr] | None:
    """The coefficients that are not 0 of a polynomial on the whole line, by index; None for anything else."""
    parts = split.terms()
    if len(parts) != 1 or (parts[0].lower, parts[0].upper) != (-oo, oo):
        return None
    terms = parts[0].terms
    return _row({int(key.power): c for key, c in terms.items()}) if all(key.polynomial for key in terms) else None


def _row(powers: dict[int, Expr]) -> dict[int, Expr]:
    """c_j by j from the coefficients of x^n; multiples of one number are added up as the rationals that they are."""
    unit = next(iter(powers.values()), ONE)
    shares = {n: c / unit for n, c in powers.items()}
    if not all(share.is_Rational for share in shares.values()):
        unit, shares = ONE, powers
    row: dict[int, Expr] = {}
    for n, c in shares.items():
        for j, mean in _monomial(n).items():
            row[j] = row.get(j, ZERO) + c * mean
    return {j: unit * c / sp.sqrt(sp.factorial(j)) for j, value in row.items() if (c := sp.expand(value)) != 0}


def _monomial(n: int) -> dict[int, Expr]:
    """E X^n He_k = n!/(j! 2^j) for k = n - 2j >= 0, else 0."""
    return {n - 2 * j: sp.factorial(n) / (sp.factorial(j) * 2**j) for j in range(n // 2 + 1)}


def lowered(expr: Expr, k: Expr) -> Expr:
    """Double factorials of one parity brought to the lowest: (k + a)!! = (k + a)(k + a - 2)!!."""
    found = {f.args[0] - k: f for f in expr.atoms(sp.factorial2)}
    shifts = {a: f for a, f in found.items() if a.is_Integer}
    if not shifts or len(shifts) != len(found):
        return expr
    swap = {}
    for a, f in shifts.items():
        least = min(b for b in shifts if (a - b) % 2 == 0)
        swap[f] = sp.Mul(*(k + c for c in range(int(a), int(least), -2))) * sp.factorial2(k + least)
    return sp.expand(expr).xreplace(swap)


def _agrees(general: Expr, k: Expr, j: int, expected: Expr) -> bool:
    """Whether the general formula also gives this exceptional value; a pole or a remainder says no."""
    try:
        found = general.subs(k, j).doit()
    except ValueError:  # a double factorial or a Hermite polynomial of an index below its range
        return False
    if found.has(sp.nan, sp.zoo, oo) or found.has(sp.Sum):
        return False
    return bool(sp.simplify(found - expected) == 0)


def _formula(key: Key, low: Expr, high: Expr, k: Expr, side: int) -> tuple[Expr, int]:
    """E f He_k on the interval for one term of the family, and the first k for which the formula holds."""
    whole = low == -oo and high == oo
    if not key.power.is_Integer:
        return _real_power(key, low, high, k, side), 0
    n = int(key.power)
    if key.polynomial:
        return _polynomial_between(n, low, high, k), n + 1
    base = _base(key._replace(power=ZERO), low, high, whole)
    return _raised(base, n, k), n + (1 if key.erfs else 0)


def _raised(base: Callable[[Expr], Expr], n: int, k: Expr) -> Expr:
    """E x^n f He_k from those of f: each power of x gives the indices k + 1 and, k times, k - 1."""
    weights: dict[int, Expr] = {0: ONE}
    for _ in range(n):
        after: dict[int, Expr] = {}
        for offset, w in weights.items():
            after[offset + 1] = after.get(offset + 1, ZERO) + w
            after[offset - 1] = after.get(offset - 1, ZERO) + w * (k + offset)
        weights = after
    return sp.Add(*(sp.factor(w) * base(k + offset) for offset, w in weights.items()))


def _polynomial_between(n: int, low: Expr, high: Expr, k: Expr) -> Expr:
    """Boundary terms until x^n is differentiated away, for k > n."""
    total, terms = ZERO, {Key(sp.Integer(n), ZERO, ZERO): ONE}
    for j in range(n + 1):
        total -= boundary(terms, high, k - 1 - j) - boundary(terms, low, k - 1 - j)
        terms = derivative(terms)
    return total


def _base(key: Key, low: Expr, high: Expr, whole: bool) -> Callable[[Expr], Expr]:
    """E f He_k as a function of the index, for f without a power of x."""
    q, b = key.q, key.b
    if whole and not key.erfs:
        return lambda k: _bell(q, b, k)
    if whole and len(key.erfs) == 1 and q == 0:
        return lambda k: _error_function(key, k)
    if not key.erfs and q == 0:
        return lambda k: _exponential_between(b, low, high, k)
    raise NoClosedFormError(
        "no closed form in a symbol k: a Gaussian on an interval and products of erf give recurrences only; "
        "ask for an integer k"
    )


def _bell(q: Expr, b: Expr, k: Expr) -> Expr:
    """E exp(qX^2 + bX) He_k, the k-th derivative at t = 0 of E exp(q(X+t)^2 + b(X+t)), p = 1 - 2q:

    exp(b^2/2p)/sqrt(p) exp((q t^2 + b t)/p), and exp(xs - s^2/2) generates He_k(x)/k!.
    """
    p = sp.expand(1 - 2 * q)
    size = sp.exp(sp.expand(b**2) / (2 * p)) / sp.sqrt(p)
    if q == 0:
        return size * complex_power(b, k)
    if b == 0:
        ratio = sp.cancel(2 * q / p)
        falling = ratio.is_nonpositive or (not ratio.is_nonnegative and sign_of(ratio) < 0)
        wave = quarter_wave(k) if falling else quarter_wave(k) ** 2
        return size * wave * sp.factorial2(k - 1) * (-ratio if falling else ratio) ** (k / 2)
    # s = t root/sqrt(p) with root = sqrt(-2q), so x = b/(sqrt(p) root)
    root = sp.sqrt(-2 * q)
    return size * (root / sp.sqrt(p)) ** k * hermite_value(k, b / (sp.sqrt(p) * root))


def complex_power(b: Expr, k: Expr) -> Expr:
    """b^k for an integer k, a complex b in polar form so that conjugate pairs add up to cosines."""
    re, im = b.as_real_imag() if b.has(sp.I) else (b, ZERO)
    if im == 0:
        return b**k
    side = -1 if im.could_extract_minus_sign() else 1  # conjugate pairs share the angle
    if re == 0:
        return (side * im) ** k * (quarter_wave(k) + side * sp.I * quarter_wave(k, 1))
    angle = sp.atan2(side * im, re) * k
    return sp.expand(re**2 + im**2) ** (k / 2) * (sp.cos(angle) + side * sp.I * sp.sin(angle))


def _error_function(key: Key, k: Expr) -> Expr:
    """E exp(bX) erf(gX + h) He_k for k >= 1: the derivative is b f and a Gaussian bump, k times."""
    ((g, h),) = key.erfs
    bump = 2 * g / sp.sqrt(sp.pi) * sp.exp(-(h**2))
    inner = (sp.expand(-(g**2)), sp.expand(key.b - 2 * g * h))
    if key.b == 0:
        return bump * _bell(*inner, k - 1)
    rest = sp.Sum(complex_power(key.b, J) * _bell(*inner, k - 1 - J), (J, 0, k - 1))
    return complex_power(key.b, k) * moment(key, -oo, oo) + bump * rest


def _exponential_between(b: Expr, low: Expr, high: Expr, k: Expr) -> Expr:
    """-sum over j < k of b^j [exp(bx) He_{k-1-j} phi] + b^k E exp(bX) on the interval."""
    terms = {Key(ZERO, ZERO, b): ONE}
    total = complex_power(b, k) * integrate(terms, low, high)
    for end, side in ((high, 1), (low, -1)):
        if end not in (oo, -oo):
            total -= side * sp.Sum(complex_power(b, J) * boundary(terms, end, k - 1 - J), (J, 0, k - 1))
    return total


def _real_power(key: Key, low: Expr, high: Expr, k: Expr, side: int) -> Expr:
    """|x|^p on a half-line, by its even and its odd half:

    E |X|^p He_2m = C_p (-2)^m (-p/2)_m with C_p = E|X|^p, and E sign(X)|X|^p He_k = p E |X|^(p-1) He_(k-1).
    """
    p = key.power
    if key.q != 0 or key.b != 0 or key.erfs or (low, high) != (0, oo):
        raise NoClosedFormError("no closed form in a symbol k: a real power of |x| stands on a half-line from 0 only")
    even = _absolute(p, k)
    odd = p * _absolute(p - 1, k - 1)
    return (even + side * odd) / 2


def _absolute(p: Expr, k: Expr) -> Expr:
    return absolute_moment(p) * 2 ** (k / 2) * quarter_wave(k) * sp.rf(-p / 2, k / 2)
