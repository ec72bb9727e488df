"""Expressions that cancel or overflow as they are written: which they are, for the interpreters in floating point.

Texts may be written as in a paper; each interpreter has stable functions for what is recognised here.
"""

from __future__ import annotations

from ._tree import ONE, Node, add, call, num

_ROOT_TWO = call("sqrt", num(2))


def tail_parts(node: Node) -> tuple[float, str, Node, bool] | None:
    """c, the function, u and the sign in c (1 +- erf(u)), c (1 +- tanh(u)), c (1 - sigmoid(u)); None for other sums."""
    if node.op != "add" or node.args[0].op != "num":
        return None
    left, right = node.args
    k, inner = right.args if right.op == "mul" else (ONE, right)
    if k.op != "num" or inner.op not in ("erf", "tanh", "sigmoid") or abs(k.number) != abs(left.number):
        return None
    same = (k.number > 0) == (left.number > 0)
    if inner.op == "sigmoid" and same:
        return None  # nothing cancels
    return float(left.number), inner.op, inner.args[0], same


def log_tail_parts(node: Node) -> tuple[float, str, Node, bool] | None:
    """Those of the sum whose logarithm this is, log or log1p, where c > 0; None for everything else."""
    if node.op not in ("log", "log1p"):
        return None
    parts = tail_parts(node.args[0] if node.op == "log" else add(ONE, node.args[0]))
    return parts if parts is not None and parts[0] > 0 else None


def over_root_two(u: Node) -> Node | None:
    """v where u is v/sqrt(2), as in 1 + erf(v/sqrt(2)) = 2 Phi(v); None otherwise."""
    return u.args[0] if u.op == "div" and u.args[1] == _ROOT_TWO else None


def tanh_shrink_part(node: Node) -> Node | None:
    """u where the sum is u - tanh(u), None for other sums."""
    if node.op != "add":
        return None
    for left, right in (node.args, node.args[::-1]):
        if right.op != "mul" or right.args[0].op != "num" or right.args[1].op != "tanh":
            continue
        k, tanh = right.args
        if k.number == -1 and tanh.args[0] == left:
            return left
    return None
