"""Polynomials that approximate x^(-1/2), and what they do to a singular value.

With y = 1 - x the Taylor expansion about 1 is x^(-1/2) = sum_k c_k y^k, c_k = binom(2k, k) / 4^k: all c_k are positive,
so that evaluating in y loses no digits to cancellation where 0 <= x <= 1, at any order. The monomials in x that
the paper writes (equation 12 for P_2) have alternating signs; they are for reading, not for computing.
"""

from __future__ import annotations

from functools import cache
from math import comb, sqrt
from typing import NamedTuple

from torch import Tensor

from aon.kernels.checks import check_count
from aon.kernels.minimax import SAFETY, least_deviation


class Polynomial(NamedTuple):
    """An approximation of G^(-1/2): r^(-1/2) sum_j coefficients[j] (I - G / r)^j.

    Attributes:
        coefficients: Lowest power first.
        radius: r itself in an expansion about one; otherwise what the mean or largest eigenvalue is multiplied by.
        maximum: What no singular value of P(W) W exceeds, with a thousandth for rounding, where that is known.
    """

    coefficients: tuple[float, ...]
    radius: float = 1.0
    maximum: float | None = None


# Beyond any use: each order costs a product of matrices.
MOST_ORDER = 1000


def expansion_coefficients(order: int) -> tuple[float, ...]:
    """Coefficients c_0 ... c_q of the powers of 1 - x in the expansion of x^(-1/2) about 1.

    Raises:
        ValueError: `order` is not a whole number from 0 to 1000.

    Example:
        >>> expansion_coefficients(2)
        (1.0, 0.5, 0.375)
    """
    check_count("order", order, least=0)
    if order > MOST_ORDER:
        raise ValueError(f"order={order!r}: expected at most {MOST_ORDER}")
    return tuple(comb(2 * k, k) / 4**k for k in range(order + 1))


@cache
def taylor_coefficients(order: int) -> tuple[float, ...]:
    """Coefficients b_0 ... b_q of the powers of x in the same polynomial, as the paper writes it.

    Example:
        >>> taylor_coefficients(2)
        (1.875, -1.25, 0.375)
        >>> taylor_coefficients(1)
        (1.5, -0.5)
    """
    expansion_coefficients(order)  # refuses a bad order
    # sum_k c_k (1 - x)^k collected by powers of x, in whole numbers over 4^q: exact up to the last division.
    whole = [
        sum((-1) ** j * comb(k, j) * comb(2 * k, k) * 4 ** (order - k) for k in range(j, order + 1))
        for j in range(order + 1)
    ]
    return tuple(value / 4**order for value in whole)


def singular_value_map(s: Tensor, order: int) -> Tensor:
    """f_q(s) = s sum_k c_k (1 - s^2)^k: what P_q(W) W makes of a singular value s of W.

    Even orders are monotone. Odd orders fall after s = 1 and turn negative. Far beyond 1 the map grows like
    s^(2q+1): it spreads the spectrum there instead of flattening it.

    Example:
        >>> import torch
        >>> singular_value_map(torch.tensor([0.0, 0.5, 1.0]), order=2)
        tensor([0.0000, 0.7930, 1.0000])
    """
    return odd_polynomial(s, expansion_coefficients(order))


def odd_polynomial(s: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """s sum_j coefficients[j] (1 - s^2)^j."""
    y = 1 - s * s
    total = s.new_zeros(())
    for coefficient in reversed(coefficients):
        total = coefficient + y * total
    return s * total


def top_radius(order: int) -> float:
    """The centre r, with the largest eigenvalue 1, about which the Taylor polynomial is steepest at 0 and monotone.

    Scaled to 1 at s = 1 it is f_q(s / sqrt r) / f_q(1 / sqrt r), whose slope at 0 is P_q(0) / P_q(1 / r): 1 / r is
    where P_q is least. For even q that is the zero of its derivative, which lies in (1, 2), inside the radius. Odd q
    are monotone for r >= 1 only, where P_q falls: r = 1. For q = 2 no monotone odd polynomial of degree 5 is steeper.

    Example:
        >>> round(top_radius(2), 6), round(top_radius(4), 4), top_radius(3)
        (0.6, 0.5705, 1.0)
    """
    coefficients = expansion_coefficients(order)
    if order == 0 or order % 2:
        return 1.0
    low, high = -1.0, 0.0  # in y = 1 - 1 / r
    for _ in range(60):
        y = (low + high) / 2
        slope = sum(k * c * y ** (k - 1) for k, c in enumerate(coefficients) if k)
        low, high = (low, y) if slope > 0 else (y, high)
    return 1 / (1 - low)


def minimax_polynomial(order: int, lower: float, *, bounded: bool) -> Polynomial:
    """The polynomial of least deviation from 1 on [lower, 1], of W divided by SAFETY times its spectral norm.

    Args:
        order: q, 1 or more; the odd polynomial has the degree 2q + 1.
        lower: Where the interval begins.
        bounded: Whether it is divided by its maximum on (0, 1], so that no singular value of h(W) is above 1.

    Raises:
        ValueError: As `least_deviation`.
    """
    coefficients, deviation = least_deviation(order, lower)
    # 1 - 2 s^2 with s = w / (SAFETY sigma) is 1 - w^2 / r with r = SAFETY^2 sigma^2 / 2.
    size = 1 + deviation if bounded else 1.0
    maximum = 1.001 * (1 + deviation) / size
    return Polynomial(tuple(b / sqrt(2) / size for b in coefficients), SAFETY**2 / 2, maximum)
