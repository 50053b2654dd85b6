"""Coefficients against exact fractions, and the scalar map against its laws."""

from fractions import Fraction
from math import comb

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aon.kernels.polynomials import expansion_coefficients, singular_value_map, taylor_coefficients, top_radius

ORDERS = st.integers(0, 30)


def exact_coefficients(order: int) -> list[Fraction]:
    """sum_k binom(2k, k)/4^k (1 - x)^k multiplied out, one factor (1 - x) at a time, in fractions."""
    total, power = [Fraction(0)] * (order + 1), [Fraction(1)]
    for k in range(order + 1):
        for j, value in enumerate(power):
            total[j] += Fraction(comb(2 * k, k), 4**k) * value
        power = [a - b for a, b in zip([*power, 0], [0, *power], strict=True)]
    return total


def test_second_order_is_the_papers_last_equation():
    assert taylor_coefficients(2) == (1.875, -1.25, 0.375)


def test_first_order_is_the_papers_example():
    assert taylor_coefficients(1) == (1.5, -0.5)


def test_order_zero_is_one():
    assert taylor_coefficients(0) == expansion_coefficients(0) == (1.0,)


@given(ORDERS)
def test_both_forms_are_exact_to_the_last_bit(order):
    assert taylor_coefficients(order) == tuple(float(b) for b in exact_coefficients(order))
    assert expansion_coefficients(order) == tuple(comb(2 * k, k) / 4**k for k in range(order + 1))


@given(ORDERS)
def test_coefficients_are_derivatives_of_the_inverse_root(order):
    """c_k = (-1)^k y^(k)(1) / k! of y(x) = x^(-1/2): (1/2)(3/2)...(k - 1/2) / k!."""
    expected = Fraction(1)
    for k, coefficient in enumerate(expansion_coefficients(order)):
        if k:
            expected *= Fraction(2 * k - 1, 2 * k)
        assert coefficient == float(expected)


@pytest.mark.parametrize("order", [-1, 2.0, "2", None, True])
@pytest.mark.parametrize("coefficients", [expansion_coefficients, taylor_coefficients])
def test_bad_order(coefficients, order):
    with pytest.raises(ValueError, match=r"order=.*: expected a whole number, 0 or more"):
        coefficients(order)


@given(ORDERS, st.floats(0, 1))
def test_map_is_the_polynomial_times_s(order, s):
    exact = Fraction(s) * sum(b * Fraction(s) ** (2 * j) for j, b in enumerate(exact_coefficients(order)))
    found = singular_value_map(torch.tensor(s, dtype=torch.float64), order).item()
    assert abs(found - exact) <= 10 * (order + 1) * torch.finfo(torch.float64).eps


@given(ORDERS, st.floats(0.05, 1.3))
def test_slope_vanishes_at_one_to_the_order(order, s):
    """f_q'(s) = C (1 - s^2)^q with C = (2q + 1) c_q."""
    x = torch.tensor(s, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(singular_value_map(x, order), x)
    expected = (2 * order + 1) * expansion_coefficients(order)[-1] * (1 - s * s) ** order
    # Above 1 the signs of the terms alternate; their sum of magnitudes bounds the rounding.
    size = sum(c * (2 * k + 1) * max(1, abs(1 - s * s)) ** k for k, c in enumerate(expansion_coefficients(order)))
    assert abs(slope.item() - expected) <= 100 * size * torch.finfo(torch.float64).eps


@given(st.integers(0, 10).map(lambda k: 2 * k))
def test_even_orders_are_monotone(order):
    f = singular_value_map(torch.linspace(0, 1.4, 500, dtype=torch.float64), order)
    assert (f.diff() >= -1e-14).all()


@given(st.integers(0, 5).map(lambda k: 2 * k + 1))
def test_odd_orders_fall_after_one_and_turn_negative(order):
    f = singular_value_map(torch.linspace(1.2, 2, 500, dtype=torch.float64), order)
    assert (f.diff() < 0).all()
    assert f[0] < 1
    assert f[-1] < 0


def test_first_order_turns_negative_beyond_root_three():
    below, above = singular_value_map(torch.tensor([3**0.5 - 1e-3, 3**0.5 + 1e-3], dtype=torch.float64), 1)
    assert below > 0 > above


@given(st.integers(0, 20), st.floats(0.05, 0.99))
def test_more_orders_come_nearer_to_one(order, s):
    f = [singular_value_map(torch.tensor(s, dtype=torch.float64), q).item() for q in (order, order + 1)]
    assert f[0] <= f[1] <= 1 + 4 * torch.finfo(torch.float64).eps
    assert f[0] < f[1] or 1 - f[0] < 1e-12  # at the end of float64 there is no room for more


@pytest.mark.parametrize(("order", "expected"), [(2, 0.6), (4, 0.5705), (8, 0.5462), (0, 1), (3, 1)])
def test_centre_of_the_steepest_expansion(order, expected):
    assert top_radius(order) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("radius", "ratios"), [(1.0, (0.19, 0.37, 0.53, 0.79)), (top_radius(2), (0.22, 0.43, 0.61, 0.85))]
)
def test_smallest_over_largest_of_order_two(radius, ratios):
    """Two rows of the table in docs/maths.md."""
    f = singular_value_map(torch.tensor([0.1, 0.2, 0.3, 0.5, 1.0], dtype=torch.float64) / radius**0.5, 2)
    assert (f[:4] / f[4]).tolist() == pytest.approx(ratios, abs=0.0051)


def slope_at_zero(order: int, radius: float) -> float:
    """Of the Taylor polynomial about `radius`, scaled to 1 at s = 1."""
    scale, s = radius**-0.5, torch.tensor([1e-7, 1.0], dtype=torch.float64)
    f = singular_value_map(s * scale, order)
    return (f[0] / s[0] / f[1]).item()


@pytest.mark.parametrize("order", range(1, 13))
def test_no_other_centre_is_monotone_and_steeper(order):
    best = top_radius(order)
    f = singular_value_map(torch.linspace(0, best**-0.5, 500, dtype=torch.float64), order)
    assert (f.diff() >= -1e-14).all()
    assert 1 / best < 2, "the largest eigenvalue is inside the radius"
    for other in torch.linspace(0.5 if order % 2 == 0 else 1, 2, 40).tolist():
        assert slope_at_zero(order, other) <= slope_at_zero(order, best) + 1e-9


def test_no_monotone_quintic_is_steeper():
    """p' = w(s^2) with w of degree 2, not negative on [0, 1] and of integral 1; p'(0) = w(0) is 2.25 at most."""
    assert slope_at_zero(2, top_radius(2)) == pytest.approx(2.25, abs=1e-9)
    x, steepest = torch.linspace(0, 1, 201, dtype=torch.float64), 0.0
    for a in torch.linspace(-6, 6, 121, dtype=torch.float64):
        for b in torch.linspace(-6, 6, 121, dtype=torch.float64):
            w = 1 + a * x + b * x * x
            if w.min() >= 0:
                steepest = max(steepest, (1 / (1 + a / 3 + b / 5)).item())
    assert 2.2 < steepest <= 2.25 + 1e-3


@pytest.mark.parametrize("order", [-1, 2.5, True])
def test_centre_of_a_bad_order(order):
    with pytest.raises(ValueError, match=r"order=.*: expected a whole number, 0 or more"):
        top_radius(order)
