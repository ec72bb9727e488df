"""What has no closed form is refused at once, with the identities that are known for it."""

from __future__ import annotations

from .._activation import Activation
from .._tree import Node
from ..errors import NoClosedFormError
from ._identities import found_identities
from ._question import Question

_NO_RULE = frozenset({"tanh", "sigmoid", "arctan", "log", "log1p"})


def refuse_early(question: Question) -> None:
    """Raise NoClosedFormError for callables and for functions without a rule; whatever may have one passes."""
    sigma = question.source
    if not isinstance(sigma, Activation):
        return
    if sigma.is_opaque:
        raise NoClosedFormError(
            f"{sigma.name} is a Python callable: only its values are known, so there is nothing to derive from; "
            "give a formula as text or as a SymPy expression"
        )
    met = {op for piece in sigma.pieces for op in _met(piece.expr)}
    if met:
        # an identity of sigma(x) is none of sigma(a x)
        known = "" if question.symbols else "; ".join(map(str, found_identities(question.at({}))))
        raise NoClosedFormError(
            f"no closed form of {sigma.name}: Gaussian integrals of {', '.join(sorted(met))} are not elementary; "
            + (f"known identities: {known}; " if known else "")
            + "hermite.multiprecision and hermite.certified compute it to any number of digits"
        )


def _met(node: Node) -> set[str]:
    if node.constant:
        return set()
    below = {op for a in node.args for op in _met(a)}
    return below | {node.op} if node.op in _NO_RULE else below
