"""Correlation matrices with given eigenvalues, by rotations in planes (Davies and Higham 2000).

A symmetric matrix of trace n has a diagonal entry above 1 whenever it has one below.  A rotation in the plane of two
such coordinates makes the one exactly 1, keeps the eigenvalues, and leaves those that are 1 already alone; so n - 1
rotations make the diagonal 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from bounds._recipes import draw_table

__all__ = ["check_eigenvalues", "with_eigenvalues", "with_unit_diagonal"]

Floats: TypeAlias = NDArray[np.float64]

_EPS = 2.0**-52


def check_eigenvalues(eigenvalues: Sequence[float]) -> list[float]:
    """As floats whose sum is n, or a ValueError that says what is wrong with them."""
    try:
        found = [float(value) for value in eigenvalues]
    except (TypeError, ValueError):
        raise ValueError(f"eigenvalues must be a sequence of numbers, got {eigenvalues!r}") from None
    n = len(found)
    if not found or not all(math.isfinite(value) and value >= 0 for value in found):
        raise ValueError(f"eigenvalues must be finite numbers >= 0, at least one, got {eigenvalues!r}")
    total = math.fsum(found)
    # sums of correctly rounded numbers; what is farther off cannot be the spectrum to 1e-14
    if abs(total - n) > 4 * n * _EPS:
        raise ValueError(
            f"eigenvalues must sum to n = {n}, since a correlation matrix of size n has trace n; the sum of "
            f"{eigenvalues!r} is {total:.17g}, so multiply them by {n}/{total:.17g}"
        )
    return found


@st.composite
def with_eigenvalues(draw: st.DrawFn, eigenvalues: Sequence[float]) -> Floats:
    """Turned by an orthogonal matrix that is made of drawn rows, then given a unit diagonal."""
    n = len(eigenvalues)
    Q = np.linalg.qr(draw_table(draw, (n, n), n, dense=True).floats())[0]
    A = (Q * np.array(eigenvalues)) @ Q.T
    return with_unit_diagonal((A + A.T) / 2)


def with_unit_diagonal(A: Floats) -> Floats:
    """A symmetric matrix of trace n, rotated until its diagonal is 1."""
    A = A.copy()
    todo = [i for i in range(len(A)) if A[i, i] != 1.0]
    while len(todo) > 1:
        i, j = min(todo, key=lambda k: A[k, k]), max(todo, key=lambda k: A[k, k])
        if not A[i, i] < 1.0 < A[j, j]:
            break  # all that is left is rounding
        _rotate(A, i, j)
        todo.remove(i)
        if A[j, j] == 1.0:
            todo.remove(j)
    np.fill_diagonal(A, 1.0)
    return np.clip(A, -1.0, 1.0) + 0.0  # no -0.0


def _rotate(A: Floats, i: int, j: int) -> None:
    """Make A_ii = 1 where A_ii < 1 < A_jj: a root t of (A_jj - 1) t^2 - 2 A_ij t + (A_ii - 1) = 0 is the tangent.

    The root is taken in the form that cancels nothing: both terms under the square root are positive.
    """
    low, high, across = A[i, i] - 1.0, A[j, j] - 1.0, A[i, j]
    root = math.sqrt(across * across - low * high)
    t = (across + root) / high if across > 0 else low / (across - root)
    c = 1.0 / math.hypot(1.0, t)
    s = c * t
    total = A[i, i] + A[j, j]
    rows = A[[i, j]].copy()
    A[i], A[j] = c * rows[0] - s * rows[1], s * rows[0] + c * rows[1]
    A[:, i], A[:, j] = A[i], A[j]
    # symmetric, and the plane itself from what is known of it: its trace and determinant stay
    old = (rows[0, i], rows[0, j], rows[1, j])
    A[i, i], A[j, j] = 1.0, total - 1.0
    A[i, j] = A[j, i] = c * s * (old[0] - old[2]) + (c * c - s * s) * old[1]
