"""A correlation matrix in a basis of differences, in which inputs that nearly coincide cost no digits.

Join inputs by a forest of shortest edges, at most 60 degrees each, and give every input the sign that makes it point
along its parent p. With x_i the signed unit vectors and D_ij = 1 - <x_i, x_j>,

    y_i = x_i - x_p(i),  or x_i for a root,          |y_i|^2 = 2 D_i,p(i),  or 1 for a root,
    <y_i, y_j> = D_i,p(j) + D_p(i),j - D_ij - D_p(i),p(j),          D_p,j = 1 where there is no parent p.

The change of basis is triangular with unit diagonal in the order in which the forest grew, so

    log det C = sum log |y_i|^2 + log det A,          A_ij = <y_i, y_j> / (|y_i| |y_j|).

Inside a cluster of width w every D is of size w^2, and so is what is summed: what is known of D to relative accuracy
gives A to the same accuracy, where a factorisation of C has lost everything at w^2 = eps. The four terms are summed
with their rounding errors, so A is as good as the entries that it came from: an error d_ij of D_ij moves A by no more
than the sum of four d over |y_i| |y_j|, which is much only where both edges are short and their clusters far apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._twofold import two_sum

__all__ = ["Differences", "Forest", "difference_basis", "spanning_forest"]

Floats = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
# beyond 60 degrees x_i - x_p is longer than x_i, and nothing is gained
REACH = 0.5
# entries handled at once: a dozen arrays of this size stay in the cache, and are small beside the matrix
BLOCK = 2**13


class Forest(NamedTuple):
    """parent: index, or n for a root; sign: +-1; edge: D to the parent, and 1/2 for a root, so |y|^2 = 2 edge."""

    parent: NDArray[np.intp]
    sign: Floats
    edge: Floats


class Differences(NamedTuple):
    """A as above; log_lengths: sum log |y_i|^2 over so many edges; size: |A - I|_F; loss: errors of rows, in norm."""

    A: Floats
    log_lengths: float
    edges: int
    size: float
    loss: Floats


def spanning_forest(C: Floats, near: Floats | None) -> Forest:
    """Minimum spanning forest of the distances 1 - |C_ij| below REACH, by Prim's algorithm in n passes over a row."""
    n = len(C)
    parent, sign = np.full(n, n), np.ones(n)
    # a row that no edge reaches starts a new tree: its edge stays at REACH
    edge, outside = np.full(n, REACH), np.ones(n, dtype=bool)
    for _ in range(n):
        i = int(np.argmin(np.where(outside, edge, np.inf)))
        outside[i] = False
        if parent[i] < n:
            sign[i] = np.copysign(sign[parent[i]], sign[parent[i]] * C[i, parent[i]])
        row = 1.0 - np.abs(C[i]) if near is None else near[i]
        closer = outside & (row < edge)
        edge[closer] = row[closer]
        parent[closer] = i
    return Forest(parent, sign, edge)


def difference_basis(C: Floats, near: Floats | None, entry_error: float = 0.0) -> Differences | None:
    """C in the basis of the differences along its spanning forest; None where two inputs coincide (near is 0).

    C: (n, n), exactly symmetric with unit diagonal; near: (n, n), 1 - |C_ij|, None where C has it to the last digit.
    Where near < 1/2 it is near that is read, to relative accuracy entry_error, elsewhere C, to the same absolute
    accuracy. One new (n, n) array and blocks of rows; O(n^2) operations.
    """
    forest, n = spanning_forest(C, near), len(C)
    if not forest.edge.all():
        return None
    length = np.sqrt(2.0 * forest.edge)
    A, squares, loss = np.empty((n, n)), 0.0, np.empty(n)
    step = max(1, BLOCK // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        block, error = _products(C, near, forest, rows, entry_error)
        scale = length[rows, None] * length
        block /= scale
        error /= scale
        # the scales, the quotient and the sum are rounded; an error of the edges moves the scales
        error += np.abs(block) * (4.0 * EPS + entry_error)
        here = np.arange(len(rows)), rows
        block[here] = error[here] = 0.0
        squares += float(np.vdot(block, block))
        loss[rows] = np.linalg.norm(error, axis=1)
        block[here] = 1.0
        A[rows] = block
    log_lengths, edges = float(np.log(2.0 * forest.edge).sum()), int(np.count_nonzero(forest.parent < n))
    return Differences(A, log_lengths, edges, float(np.sqrt(squares)), loss)


def _products(
    C: Floats, near: Floats | None, forest: Forest, rows: NDArray[np.intp], entry_error: float
) -> tuple[Floats, Floats]:
    """<y_i, y_j> for i in rows and all j, and how far off: differences along rows, then along columns."""
    n = len(C)
    # r + e + whole = D_p(i),j - D_ij exactly
    child, child_whole, spread = _distances(C, near, forest.sign, rows, entry_error)
    above, above_whole, above_spread = _distances(C, near, forest.sign, forest.parent[rows], entry_error)
    r, e = two_sum(above, -child)
    whole = above_whole - child_whole
    spread += above_spread
    parents, roots = np.minimum(forest.parent, n - 1), forest.parent == n
    r0, e0, whole0, spread0 = (np.where(roots, 0.0, part[:, parents]) for part in (r, e, whole, spread))
    total, e1 = two_sum(r, -r0)
    # what rounding does to this sum is relative to the product itself
    return (whole - whole0 + total) + (e - e0 + e1), spread + spread0


def _distances(
    C: Floats, near: Floats | None, sign: Floats, rows: NDArray[np.intp], entry_error: float
) -> tuple[Floats, Floats, Floats]:
    """D_ij = part + whole without rounding, whole in {0, 1, 2}, and the error of D_ij; i = n has D_ij = 1."""
    n = len(C)
    kept = np.minimum(rows, n - 1)
    C_rows = C[kept]
    distance = 1.0 - np.abs(C_rows) if near is None else near[kept]
    C_rows *= sign[kept, None] * sign
    # 1 - |C| is exact below 1/2, and C itself beyond
    close = distance < 0.5
    part = np.where(close, np.copysign(distance, C_rows), -C_rows)
    whole = 1.0 - np.where(close, np.copysign(1.0, C_rows), 0.0)
    spread = np.where(close, entry_error * distance, entry_error)
    here = np.arange(len(rows)), kept
    part[here] = whole[here] = spread[here] = 0.0
    missing = rows == n
    part[missing], whole[missing], spread[missing] = 0.0, 1.0, 0.0
    return part, whole, spread
