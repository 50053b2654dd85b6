"""Minimax polynomials: the odd polynomial closest to 1 on [lower, 1], by Remez' exchange algorithm in plain floats.

Of all p(s) = s sum_j b_j (1 - 2 s^2)^j of degree 2q + 1 it is the one whose error p - 1 has q + 2 extrema of one size E
and alternating sign on [lower, 1] (Chebyshev). Below `lower` it rises from 0 to 1 - E, so that 1 + E is its maximum on
(0, 1].

The powers are those of 1 - 2 s^2, which lies in [-1, 1]: order 8 on [0.2, 1] has coefficients up to 6 in them, and up
to 13,000 in powers of s^2, whose digits cancel.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import cos, pi, sqrt
from typing import NamedTuple

SAFETY = 1.03  # W is divided by this times its estimated norm: an estimate that is 2.9 % too small still gives |h| <= 1
GUARD_STEPS = 2  # power steps with p(W) that look for what is above its maximum: Note [the guard] in fused.py
LARGEST_ORDER = 32
ROUNDING = 2.0**-24  # of float32
MOST_LOST = 1e-4  # error of float32 that is allowed in p, whose values are near 1
_GRID = 64  # points between two extrema where the next extrema are looked for
_ROUNDS = 50
_CONVERGED = 1e-13


class LeastDeviation(NamedTuple):
    """Coefficients b_0 ... b_q of the powers of 1 - 2 s^2, and the deviation E."""

    coefficients: tuple[float, ...]
    deviation: float


@cache
def least_deviation(order: int, lower: float) -> LeastDeviation:
    """The odd polynomial of degree 2 order + 1 that deviates least from 1 on [lower, 1].

    Raises:
        ValueError: The order is 0, or float32 cannot evaluate the polynomial to 1e-4 or resolve its deviation from 1.

    Example:
        >>> [round(b, 4) for b in in_powers(least_deviation(2, 0.2).coefficients)]
        [4.2388, -8.7001, 5.6813]
        >>> round(least_deviation(2, 0.2).deviation, 4)
        0.22
    """
    if order < 1:
        raise ValueError(
            f"order={order!r}: expected 1 or more with expansion='minimax' (order 0 has nothing to choose)"
        )
    if order > LARGEST_ORDER:
        raise ValueError(f"order={order!r}: expected at most {LARGEST_ORDER} with expansion='minimax'")
    chebyshev, deviation = _exchange(order, lower)
    coefficients = _in_powers_of_x(chebyshev, lower)
    _refuse_what_float32_loses(order, lower, coefficients, deviation)
    return LeastDeviation(coefficients, deviation)


def in_powers(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """Coefficients of s, s^3, s^5 ... of the same polynomial, as they are published.

    Example:
        >>> in_powers((1.0, 0.5))  # 1 + 0.5 (1 - 2 x)
        (1.5, -1.0)
    """
    total = [0.0]
    for coefficient in reversed(coefficients):  # Horner's scheme in 1 - 2 x
        total = [a - 2 * b for a, b in zip([*total, 0.0], [0.0, *total], strict=True)]
        total[0] += coefficient
    return tuple(total[: len(coefficients)])


def value(coefficients: tuple[float, ...], s: float) -> float:
    """p(s)."""
    total = 0.0
    for coefficient in reversed(coefficients):
        total = coefficient + (1 - 2 * s * s) * total
    return s * total


def reach(order: int, lower: float, bound: float) -> float:
    """The least s > 1 at which |p(s)| is `bound` times the maximum on (0, 1].

    Divided by SAFETY times an estimate e of the norm sigma of W, the largest singular value is sigma / (SAFETY e). So
    |h| stays within `bound` as long as e / sigma is not below 1 / (SAFETY reach).

    Example:
        >>> round(1 / (SAFETY * reach(2, 0.2, 2.0)), 2)
        0.87
    """
    coefficients, deviation = least_deviation(order, lower)
    limit, inside, outside = bound * (1 + deviation), 1.0, 2.0
    while abs(value(coefficients, outside)) < limit:
        inside, outside = outside, 2 * outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if abs(value(coefficients, middle)) >= limit else (middle, outside)
    return inside


def _refuse_what_float32_loses(order: int, lower: float, coefficients: tuple[float, ...], deviation: float) -> None:
    size = sum(map(abs, coefficients))
    if deviation < ROUNDING:
        raise ValueError(
            f"order={order!r} with lower={lower!r}: the deviation {deviation:.1e} is below the rounding of float32; "
            "expected a smaller order or a smaller lower"
        )
    if size * ROUNDING > MOST_LOST:
        raise ValueError(
            f"order={order!r} with lower={lower!r}: float32 would be wrong by {size * ROUNDING:.1e}, more than "
            f"{MOST_LOST}; expected a smaller order or a larger lower"
        )


def _exchange(order: int, lower: float) -> tuple[list[float], float]:
    """Coefficients of s T_j(y), y going from -1 to 1 as s goes from lower to 1, and the deviation."""
    points = [_node(i / (order + 1), lower) for i in range(order + 2)]
    for _ in range(_ROUNDS):
        chebyshev, deviation = _levelled(points, lower)
        if deviation < ROUNDING:  # refused by the caller
            break
        points = _extrema(chebyshev, lower)
        if max(abs(_error(chebyshev, s, lower)) for s in points) <= deviation + _CONVERGED:
            break
    return chebyshev, deviation


def _node(share: float, lower: float) -> float:
    """The s at which y = -cos(pi share): the extrema of a Chebyshev polynomial in y are evenly spaced in `share`."""
    return sqrt((1 + lower**2) / 2 - (1 - lower**2) / 2 * cos(pi * share))


def _basis(s: float, count: int, lower: float) -> list[float]:
    y = (2 * s * s - 1 - lower**2) / (1 - lower**2)
    values = [1.0, y]
    while len(values) < count:
        values.append(2 * y * values[-1] - values[-2])
    return [s * T for T in values[:count]]


def _error(chebyshev: list[float], s: float, lower: float) -> float:
    return sum(c * b for c, b in zip(chebyshev, _basis(s, len(chebyshev), lower), strict=True)) - 1


def _levelled(points: list[float], lower: float) -> tuple[list[float], float]:
    """The polynomial with p - 1 = -E, E, -E ... at the points, and E."""
    rows = [[*_basis(s, len(points) - 1, lower), (-1.0) ** i, 1.0] for i, s in enumerate(points)]
    *chebyshev, deviation = _solve(rows)
    return chebyshev, deviation


def _extrema(chebyshev: list[float], lower: float) -> list[float]:
    """Where |p - 1| is largest between its changes of sign: on a grid, then at the top of a parabola."""
    count = _GRID * len(chebyshev)
    errors = [_error(chebyshev, _node(i / count, lower), lower) for i in range(count + 1)]
    changes = [i + 1 for i, (a, b) in enumerate(pairwise(errors)) if (a < 0) != (b < 0)]
    highest = [max(range(a, b), key=lambda i: abs(errors[i])) for a, b in pairwise([0, *changes, count + 1])]
    return [_node((i + _top(errors[max(0, i - 1) : i + 2])) / count, lower) for i in highest]


def _top(errors: list[float]) -> float:
    """Where the parabola through three values has its extremum, from -0.5 to 0.5 about the middle; 0 at an end."""
    if len(errors) < 3:
        return 0.0
    before, middle, after = errors
    return (before - after) / (2 * (before - 2 * middle + after))


def _in_powers_of_x(chebyshev: list[float], lower: float) -> tuple[float, ...]:
    """From T_j(y) to powers of X = 1 - 2 s^2, where y = -(X + lower^2) / (1 - lower^2)."""

    def times_y(p: list[float]) -> list[float]:
        return [-(a + lower**2 * b) / (1 - lower**2) for a, b in zip([0.0, *p], [*p, 0.0], strict=True)]

    total = [0.0] * len(chebyshev)
    T, later = [1.0], times_y([1.0])
    for coefficient in chebyshev:
        total = [a + coefficient * b for a, b in zip(total, T + [0.0] * (len(total) - len(T)), strict=True)]
        T, later = later, [2 * a - b for a, b in zip(times_y(later), [*T, 0.0, 0.0], strict=True)]
    return tuple(total)


def _solve(rows: list[list[float]]) -> list[float]:
    """The solution of linear equations, the right side in the last column; Gauss with partial pivoting."""
    count = len(rows)
    for i in range(count):
        pivot = max(range(i, count), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for row in rows[i + 1 :]:
            share = row[i] / rows[i][i]
            row[i:] = [a - share * b for a, b in zip(row[i:], rows[i][i:], strict=True)]
    solution = [0.0] * count
    for i in reversed(range(count)):
        solution[i] = (rows[i][-1] - sum(rows[i][j] * solution[j] for j in range(i + 1, count))) / rows[i][i]
    return solution
