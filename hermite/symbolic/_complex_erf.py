"""Real and imaginary part of erf(x + iy) as functions of two real numbers.

A sine or cosine on an interval leaves them. SymPy's own re(erf(z)) turns into a pair of conjugates whenever it is
rebuilt, and then neither adds up exactly nor becomes a float.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import sympy as sp

from ._terms import Expr


class _Part(sp.Function):  # type: ignore[misc]  # SymPy ships no types
    """A part of erf(x + iy), x and y real."""

    nargs = 2
    is_real = True
    is_finite = True
    shown = ""

    def _number(self, value: Any) -> Any:
        raise AssertionError  # each part has its own

    def _eval_evalf(self, prec: int) -> Expr:
        with mp.workprec(prec + 10):
            x, y = (mp.mpmathify(a.evalf(mp.mp.dps)) for a in self.args)
            return sp.Float._new(self._number(mp.erf(mp.mpc(x, y)))._mpf_, prec + 10)

    def _latex(self, printer: Any) -> str:
        return rf"\operatorname{{{self.shown}}} \operatorname{{erf}}\left({printer._print(_argument(self))}\right)"


class re_erf(_Part):
    """Re erf(x + iy)."""

    shown = "Re"

    def _number(self, value: Any) -> Any:
        return value.real

    def _eval_rewrite_as_erf(self, x: Expr, y: Expr, **_: Any) -> Expr:
        return (sp.erf(x + sp.I * y) + sp.erf(x - sp.I * y)) / 2


class im_erf(_Part):
    """Im erf(x + iy)."""

    shown = "Im"

    def _number(self, value: Any) -> Any:
        return value.imag

    def _eval_rewrite_as_erf(self, x: Expr, y: Expr, **_: Any) -> Expr:
        return (sp.erf(x + sp.I * y) - sp.erf(x - sp.I * y)) / (2 * sp.I)


def _argument(part: Expr) -> Expr:
    return part.args[0] + sp.I * part.args[1]


def complex_erf(z: Expr) -> Expr:
    """erf(z) without complex functions: erf(iy) = i erfi(y), erf(-z) = -erf(z), erf(conjugate z) = conjugate erf(z)."""
    x, y = sp.expand(z).as_real_imag()
    if x == 0:
        return sp.I * sp.erfi(y)
    side = -1 if x.could_extract_minus_sign() else 1
    x, y = side * x, side * y
    turn = -1 if y.could_extract_minus_sign() else 1
    return side * (re_erf(x, turn * y) + turn * sp.I * im_erf(x, turn * y))
