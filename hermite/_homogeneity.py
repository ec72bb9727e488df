"""Positively homogeneous activations, sigma(c x) = c^p sigma(x) for every c > 0: told by their trees, exactly."""

from __future__ import annotations

from fractions import Fraction

from ._activation import Activation
from ._algebra import as_polynomial
from ._tree import Node


def degree_of(sigma: Activation) -> Fraction | None:
    """p, read off the pieces on either side of 0; None where there is none, as for every callable.

    >>> from hermite import activation
    >>> [str(degree_of(activation(name))) for name in ("relu", "step", "x*sqrt(abs(x))", "tanh")]
    ['1', '0', '3/2', 'None']
    """
    if sigma.is_opaque or sigma.breakpoints not in ((), (0.0,)):
        return None
    degrees = {_degree(piece.expr) for piece in sigma.pieces if as_polynomial(piece.expr) != [Fraction(0)]}
    return degrees.pop() if len(degrees) == 1 else None


def _degree(tree: Node) -> Fraction | None:
    """The degree of a homogeneous tree without splitting operations."""
    polynomial = as_polynomial(tree)
    if polynomial is not None:
        present = [k for k, c in enumerate(polynomial) if c]
        return Fraction(present[0]) if len(present) == 1 else None
    if tree.constant:
        return Fraction(0)
    parts = [_degree(a) for a in tree.args]
    if tree.op not in ("add", "mul", "div", "pow", "sqrt") or None in parts:
        return None
    first, last = (p for p in (parts[0], parts[-1]) if p is not None)
    if tree.op == "add":
        return first if first == last else None
    if tree.op == "pow":
        return first * tree.number
    return {"mul": first + last, "div": first - last, "sqrt": first / 2}[tree.op]
