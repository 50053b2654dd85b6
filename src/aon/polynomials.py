"""Coefficients of the Taylor expansion of x^(-1/2), and the map it makes of a singular value.

With y = 1 - x the expansion about 1 is x^(-1/2) = sum_k c_k y^k, c_k = binom(2k, k) / 4^k: all c_k are positive,
so that evaluating in y loses no digits to cancellation where 0 <= x <= 1, at any order. The monomials in x that
the paper writes (its equation for P_2) have alternating signs; they are for reading, not for computing.
"""

from __future__ import annotations

from math import comb

from torch import Tensor


def expansion_coefficients(order: int) -> tuple[float, ...]:
    """Coefficients c_0 ... c_q of the powers of 1 - x in the expansion of x^(-1/2) about 1.

    Raises:
        ValueError: `order` is not a whole number of at least 0.

    Example:
        >>> expansion_coefficients(2)
        (1.0, 0.5, 0.375)
    """
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ValueError(f"order={order!r}: expected a whole number, 0 or more")
    return tuple(comb(2 * k, k) / 4**k for k in range(order + 1))


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
    y = 1 - s * s
    total = s.new_zeros(())
    for coefficient in reversed(expansion_coefficients(order)):
        total = coefficient + y * total
    return s * total
