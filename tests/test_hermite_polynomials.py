"""Normalised Hermite polynomials and the Gauss-Hermite rule, against exact rational arithmetic and mpmath."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermite import gauss_hermite, polynomials


def exact_value(k: int, x: Fraction) -> Any:
    """He_k(x)/sqrt(k!) by the finite sum over rationals, rounded once in mpmath: no recurrence."""
    total = Fraction(0)
    for m in range(k // 2 + 1):
        total += Fraction((-1) ** m * math.factorial(k), math.factorial(m) * math.factorial(k - 2 * m) * 2**m) * x ** (
            k - 2 * m
        )
    return mp.mpf(total.numerator) / total.denominator / mp.sqrt(mp.factorial(k))


def recurrence(x: Any, degree: int) -> list[Any]:
    """He_0..He_degree in the working precision of mpmath."""
    before, now, out = mp.mpf(0), mp.mpf(1), []
    for k in range(degree + 1):
        out.append(now)
        before, now = now, (x * now - mp.sqrt(k) * before) / mp.sqrt(k + 1)
    return out


# ---- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "x", "value"),
    [
        (0, 0.0, "1"),
        (1, 0.0, "0"),
        (2, 0.0, "-0.70710678118654752440"),
        (2, 1.5, "0.883883476483184405501"),
        (3, 1.5, "-0.459279326771845893412"),
        (60, 6.0, "182.074749906927398260"),
        (100, 3.0, "0.315211110397887663448"),
        (200, 1.5, "-0.301800226948551767807"),
        (304, 1.5, "0.191970312188445428530"),
        (400, 1.5, "0.0581325991879176219871"),
    ],
)
def test_known_values(k: int, x: float, value: str) -> None:
    assert polynomials(x, k)[k] == pytest.approx(float(value), rel=1e-13, abs=1e-17)


@given(st.fractions(-8, 8, max_denominator=64), st.integers(0, 40))
def test_against_the_finite_sum(x: Fraction, k: int) -> None:
    """Backward stable: the error is that of moving x by some ulps, so it is measured by the slope sqrt(k) He_{k-1}."""
    with mp.workdps(60):
        value, slope = exact_value(k, x), exact_value(k - 1, x) * mp.sqrt(k) if k else mp.mpf(0)
        scale = abs(value) + (1 + abs(mp.mpf(x.numerator) / x.denominator)) * abs(slope)
        assert abs(mp.mpf(float(polynomials(float(x), 40)[k])) - value) <= mp.mpf("2e-15") * scale


def test_high_degrees_where_the_mass_is() -> None:
    """Degree 2000 on its oscillating range |x| < 2 sqrt(k): relative to the envelope exp(x^2/4)."""
    x = [0.0, 0.3, -7.25, 21.0, 40.5, -50.0]
    found = polynomials(x, 2000)
    with mp.workdps(80):
        for i, point in enumerate(x):
            wanted = recurrence(mp.mpf(point), 2000)
            envelope = mp.exp(mp.mpf(point) ** 2 / 4)
            for k in (1, 170, 171, 371, 999, 1500, 2000):
                if k > point**2 / 4 + 10:
                    assert abs(mp.mpf(float(found[i, k])) - wanted[k]) <= mp.mpf("1e-13") * envelope, (point, k)


def test_outside_the_oscillating_range() -> None:
    """For |x| > 2 sqrt(k) every He_k has the sign of x^k and there is nothing to cancel."""
    found = polynomials([30.0, -30.0], 200)
    with mp.workdps(60):
        for row, x in zip(found, (30, -30), strict=True):
            wanted = recurrence(mp.mpf(x), 200)
            assert max(abs(mp.mpf(float(v)) / w - 1) for v, w in zip(row.tolist(), wanted, strict=True)) < 1e-13


def test_orthonormal_under_the_gaussian() -> None:
    """E He_j He_k by a trapezoid rule, which is exact to rounding for an entire integrand times a Gaussian."""
    x = np.linspace(-26, 26, 2001)
    basis = polynomials(x, 80)
    gram = (basis.T * (np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi))) @ basis
    assert np.abs(gram - np.eye(81)).max() < 1e-13


@given(st.floats(-6, 6), st.integers(1, 60))
def test_derivative(x: float, k: int) -> None:
    """He_k' = sqrt(k) He_{k-1}: a symmetric difference in exact arithmetic at the float x."""
    with mp.workdps(40):
        step = mp.mpf("1e-9")
        high, low = (recurrence(mp.mpf(x) + s * step, k)[k] for s in (1, -1))
        slope = (high - low) / (2 * step)
        scale = 1 + abs(float(slope)) + k * max(abs(polynomials(x, k)))
    assert math.sqrt(k) * polynomials(x, k)[k - 1] == pytest.approx(float(slope), abs=1e-13 * scale)


@given(st.floats(-40, 40), st.integers(0, 50))
def test_parity_is_exact(x: float, degree: int) -> None:
    signs = (-1.0) ** np.arange(degree + 1)
    assert np.array_equal(polynomials(-x, degree), signs * polynomials(x, degree))


@given(st.lists(st.floats(-100, 100), max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_prefixes_and_elements_agree(x: list[float], degree: int, more: int) -> None:
    whole = polynomials(x, degree + more)
    assert whole.shape == (len(x), degree + more + 1)
    assert np.array_equal(whole[:, : degree + 1], polynomials(x, degree))
    assert all(np.array_equal(row, polynomials(v, degree + more)) for row, v in zip(whole, x, strict=True))


# ---- the edges ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (1.5, (4,)),
        (np.float32(1.5), (4,)),
        (np.array(2), (4,)),
        (True, (4,)),
        ([], (0, 4)),
        ([1, 2], (2, 4)),
        ((1, 2, 3), (3, 4)),
        (np.zeros((0, 3)), (0, 3, 4)),
        (np.zeros((2, 1, 3), dtype=np.float32), (2, 1, 3, 4)),
        (np.arange(6, dtype=np.int8).reshape(2, 3), (2, 3, 4)),
    ],
)
def test_shapes(x: Any, shape: tuple[int, ...]) -> None:
    values = polynomials(x, 3)
    assert values.shape == shape
    assert values.dtype == np.float64
    assert np.array_equal(values[..., 0], np.ones(shape[:-1]))
    assert np.array_equal(values[..., 1], np.asarray(x, dtype=float))


@pytest.mark.parametrize("x", ["a", ["1"], None, 1j, [1j], np.array([1, 2], dtype=object), np.datetime64(1, "s")])
def test_what_is_no_real_number(x: Any) -> None:
    with pytest.raises(ValueError, match="x must hold real numbers"):
        polynomials(x, 3)


@pytest.mark.parametrize("degree", [-1, -2, 1.0, 1.5, "2", None, True, False, np.nan, [2], 2j])
def test_degrees(degree: Any) -> None:
    with pytest.raises(ValueError, match="degree must be a non-negative integer"):
        polynomials(1.0, degree)


@pytest.mark.parametrize("degree", [np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_numpy(degree: Any) -> None:
    assert polynomials(1.0, degree).shape == (4,)


def test_nan_stays_nan_at_every_degree() -> None:
    values = polynomials([np.nan, 1.0], 5)
    assert np.isnan(values).tolist() == [[True] * 6, [False] * 6]
    assert np.isnan(polynomials(np.nan, 0)).all()


@pytest.mark.parametrize("size", [1e10, 1e150, 1e300, np.inf])
def test_beyond_float64_the_sign_remains(size: float) -> None:
    """He_k(x) has the sign of x^k far out; what does not fit is an infinity, never NaN, and warns nobody."""
    up, down = polynomials([size, -size], 60)
    assert (up > 0).all()
    assert np.array_equal(down, up * (-1.0) ** np.arange(61))
    assert up[-1] == np.inf


def test_input_is_left_alone() -> None:
    x = np.array([0.5, -2.0])
    polynomials(x, 10)
    assert x.tolist() == [0.5, -2.0]


# ---- the Gauss rule -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 371, 372, 400, 1000])
def test_moments_of_the_rule(n: int) -> None:
    """E X^(2m) = (2m - 1)!! as long as 2m < 2n."""
    x, w = gauss_hermite(n)
    assert x.shape == w.shape == (n,)
    assert np.isfinite(x).all()
    assert (w >= 0).all()
    assert (np.diff(x) > 0).all()
    assert np.array_equal(x, -x[::-1])
    for m in range(min(n, 12)):
        wanted = math.prod(range(1, 2 * m, 2))
        assert float(w @ x ** (2 * m)) == pytest.approx(wanted, rel=1e-13)
        assert abs(float(w @ x ** (2 * m + 1))) <= 1e-13 * math.prod(range(1, 2 * m + 2, 2))


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_degree_2n_is_the_first_that_fails(n: int) -> None:
    """The error of the rule on x^(2n) is n! exactly."""
    x, w = gauss_hermite(n)
    missing = math.prod(range(1, 2 * n, 2)) - float(w @ x ** (2 * n))
    assert missing == pytest.approx(math.factorial(n), rel=1e-9)


@pytest.mark.parametrize("n", [5, 40, 150])
def test_discrete_orthonormality(n: int) -> None:
    x, w = gauss_hermite(n)
    basis = polynomials(x, n - 1)
    assert np.abs((basis.T * w) @ basis - np.eye(n)).max() < 1e-12


@pytest.mark.parametrize("n", [4, 31, 100])
def test_nodes_and_weights_against_mpmath(n: int) -> None:
    """Nodes polished at 40 digits; weights 1/(n He_{n-1}^2). Relative, so that the tiny weights count as well."""
    x, w = gauss_hermite(n)
    with mp.workdps(40):
        for node, weight in zip(x.tolist()[: n // 2 + 1], w.tolist(), strict=False):
            z = mp.mpf(node)
            for _ in range(4):
                values = recurrence(z, n)
                z -= values[n] / (mp.sqrt(n) * values[n - 1])
            assert abs(z - mp.mpf(node)) <= mp.mpf("1e-15") * (1 + abs(z))
            # moving a node by an ulp moves its weight by 2 x^2 ulps
            exact = 1 / (n * recurrence(z, n)[n - 1] ** 2)
            assert abs(mp.mpf(weight) / exact - 1) <= mp.mpf("1e-14") * (1 + z**2)


@pytest.mark.parametrize("a", [0.1, 1.0, 3.0])
def test_entire_functions(a: float) -> None:
    x, w = gauss_hermite(80)
    assert float(w @ np.exp(a * x)) == pytest.approx(math.exp(a * a / 2), rel=1e-13)
    assert float(w @ np.cos(a * x)) == pytest.approx(math.exp(-a * a / 2), abs=1e-14)


def test_kinks_are_not_for_this_rule() -> None:
    """The docstring says by how much: about 1e-4 for relu at n = 1000."""
    x, w = gauss_hermite(1000)
    assert 1e-5 < abs(float(w @ np.maximum(x, 0)) - 1 / math.sqrt(2 * math.pi)) < 1e-3


def test_weights_below_float64_are_zero_and_said_so() -> None:
    """The number of zero weights at n = 1000 is stated in the docstring."""
    _, w = gauss_hermite(1000)
    zeros = int(np.sum(w == 0))
    assert zeros > 200
    assert f"({zeros} of 1000 at n = 1000)" in (gauss_hermite.__doc__ or "")


@pytest.mark.parametrize("n", [0, -1, 2001, 10**9, 1.5, 2.0, "3", None, True, np.nan, [3]])
def test_sizes_of_the_rule(n: Any) -> None:
    with pytest.raises(ValueError, match="n must be"):
        gauss_hermite(n)


def test_both_ends_of_the_range() -> None:
    assert [a.tolist() for a in gauss_hermite(1)] == [[0.0], [1.0]]
    x, w = gauss_hermite(2000)
    assert float(w @ x**4) == pytest.approx(3, rel=1e-13)
    assert w.sum() == pytest.approx(1, rel=1e-15)
