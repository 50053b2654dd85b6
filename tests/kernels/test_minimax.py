"""Minimax polynomials: published coefficients, equioscillation, bounds, and accuracy in float32."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aon.kernels.fused import Normalise
from aon.kernels.minimax import MOST_LOST, ROUNDING, SAFETY, in_powers, least_deviation, reach, value
from aon.kernels.power import State
from aon.kernels.settings import Settings

ORDERS, LOWERS = (1, 2, 3, 4, 6, 8), (0.001, 0.05, 0.1, 0.2, 0.3, 0.5)
each_order = pytest.mark.parametrize("order", ORDERS)
each_lower = pytest.mark.parametrize("lower", LOWERS)


def error(order: int, lower: float, points: int = 20_000) -> torch.Tensor:
    """p - 1 at many points of [lower, 1]."""
    s = torch.linspace(lower, 1, points, dtype=torch.float64)
    total = torch.zeros_like(s)
    for coefficient in reversed(least_deviation(order, lower).coefficients):
        total = coefficient + (1 - 2 * s * s) * total
    return s * total - 1


@pytest.mark.parametrize(("lower", "published"), [(0.1, (5.6037, -13.8837, 9.7334)), (0.2, (4.2388, -8.7001, 5.6813))])
def test_published_coefficients(lower, published):
    assert in_powers(least_deviation(2, lower).coefficients) == pytest.approx(published, abs=5e-5)


def test_the_cubic_is_known_in_closed_form():
    """p = a s - b s^3 has its maximum at x = sqrt(a / 3b), and is equal at l and 1: a = b (1 + l + l^2)."""
    lower = 0.2
    share = 1 + lower + lower**2
    peak = 2 / 3 * share * (share / 3) ** 0.5  # for b = 1; at 1 it is share - 1
    b = 2 / (peak + share - 1)
    # As exact as the parabolas that the extrema are read from: 2e-9 and 4e-10 here.
    assert in_powers(least_deviation(1, lower).coefficients) == pytest.approx((b * share, -b), abs=1e-8)
    assert least_deviation(1, lower).deviation == pytest.approx(1 - b * (share - 1), abs=1e-8)


@each_order
@each_lower
def test_equioscillation(order, lower):
    """q + 2 extrema of one size and alternating sign: by Chebyshev's theorem no other polynomial deviates less."""
    errors, deviation = error(order, lower), least_deviation(order, lower).deviation
    changes = (errors.sign().diff() != 0).nonzero().flatten() + 1
    pieces = torch.tensor_split(errors, changes.tolist())
    tops = [piece[piece.abs().argmax()].item() for piece in pieces]
    assert len(tops) == order + 2
    expected = [deviation * (-1) ** (i + 1) for i in range(order + 2)]
    # A grid misses an extremum by the square of its step.
    assert tops == pytest.approx(expected, abs=1e-5 * deviation + 1e-13)


@each_order
@each_lower
def test_it_rises_below_the_interval_and_has_a_known_maximum(order, lower):
    coefficients, deviation = least_deviation(order, lower)
    below = [value(coefficients, lower * i / 500) for i in range(501)]
    assert below == sorted(below)
    assert below[0] == 0
    assert below[-1] == pytest.approx(1 - deviation, abs=1e-8)
    assert error(order, lower).max().item() <= deviation + 1e-8


@settings(max_examples=40)
@given(st.integers(1, 7), st.floats(0.05, 0.5))
def test_higher_orders_and_shorter_intervals_deviate_less(order, lower):
    deviation = least_deviation(order, lower).deviation
    assert least_deviation(order + 1, lower).deviation < deviation
    assert least_deviation(order, lower + 0.01).deviation < deviation


@pytest.mark.parametrize(
    ("order", "lower", "ratio"),
    [
        *[(2, 0.1, 0.38), (2, 0.2, 0.64), (2, 0.3, 0.80), (2, 0.5, 0.95)],
        *[(4, 0.1, 0.59), (4, 0.2, 0.85), (4, 0.3, 0.95), (4, 0.5, 0.996)],
        *[(8, 0.1, 0.83), (8, 0.2, 0.98), (8, 0.3, 0.997), (10, 0.1, 0.89), (10, 0.2, 0.99), (9, 0.05, 0.60)],
    ],
)
def test_smallest_over_largest(order, lower, ratio):
    """The tables of docs/maths.md; so too below."""
    assert flatness(order, lower) == pytest.approx(ratio, abs=0.0051)


def flatness(order: int, lower: float) -> float:
    deviation = least_deviation(order, lower).deviation
    return (1 - deviation) / (1 + deviation)


@pytest.mark.parametrize(("lower", "ratio"), [(0.05, 0.64), (0.1, 0.88), (0.2, 0.99), (0.3, 0.998)])
def test_two_quintics_in_a_row(lower, ratio):
    """The second for the interval that the first leaves, over its maximum; no flatter than order 10 at equal cost."""
    twice = flatness(2, flatness(2, lower))
    assert twice == pytest.approx(ratio, abs=0.0051)
    assert lower < 0.1 or twice < flatness(10, lower)


@pytest.mark.parametrize(
    ("order", "estimates"), [(2, (0.90, 0.87, 0.84)), (4, (0.94, 0.91, 0.88)), (8, (0.95, 0.93, 0.90))]
)
def test_least_estimate_of_sigma(order, estimates):
    found = [1 / (SAFETY * reach(order, lower, 2.0)) for lower in (0.1, 0.2, 0.3)]
    assert found == pytest.approx(estimates, abs=0.0051)


def test_highest_orders():
    for highest, lower in ((16, 0.2), (11, 0.1), (9, 0.05)):
        least_deviation(highest, lower)
        with pytest.raises(ValueError, match="float32"):
            least_deviation(highest + 1, lower)


@each_order
@pytest.mark.parametrize("lower", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("bound", [1.1, 2.0])
def test_how_far_sigma_may_be_under_estimated(order, lower, bound):
    """u = e_2 of diag(1, e) never leaves e_2, so that sigma is estimated as e: |h| is `bound` where `reach` says so."""
    least = 1 / (SAFETY * reach(order, lower, bound))
    for estimate, expected in ((1 / SAFETY, 1.0), (least * 1.0001, bound), (least * 0.9999, None)):
        W = torch.diag(torch.tensor([1.0, estimate], dtype=torch.float64))
        u = torch.tensor([0.0, 1.0], dtype=torch.float64)
        chosen = Settings(order, expansion="minimax", lower=lower)
        H = Normalise.apply(W, None, State(u, u, torch.full_like(u, torch.nan)), chosen, True)[0]
        norm = torch.linalg.matrix_norm(H, 2).item()
        assert norm > bound if expected is None else norm <= expected + 1e-12


@pytest.mark.parametrize(("order", "lower"), [(2, 0.2), (4, 0.1), (8, 0.001), (8, 0.1), (8, 0.2), (12, 0.2), (16, 0.2)])
def test_float32_evaluates_what_is_allowed(order, lower):
    """The promise of MOST_LOST: on a matrix, through the kernels, with float64 beside it."""
    torch.manual_seed(0)
    W = torch.randn(60, 90, dtype=torch.float64)
    u = torch.linalg.svd(W)[0][:, 0]
    chosen = Settings(order, expansion="minimax", lower=lower)
    found, exact = (
        Normalise.apply(A, None, State(v, v, torch.full_like(v, torch.nan)), chosen, True)[0].double()
        for A, v in ((W.float(), u.float()), (W, u))
    )
    assert torch.linalg.matrix_norm(found - exact, 2) < MOST_LOST
    coefficients = least_deviation(order, lower).coefficients
    assert sum(map(abs, coefficients)) * ROUNDING <= MOST_LOST


@pytest.mark.parametrize(
    ("order", "lower", "message"),
    [
        (0, 0.2, r"order=0: expected 1 or more with expansion='minimax'"),
        (33, 0.2, r"order=33: expected at most 32 with expansion='minimax'"),
        (
            12,
            0.05,
            r"order=12 with lower=0.05: float32 would be wrong by 5.3e-04, more than 0.0001; expected a smaller",
        ),
        (
            8,
            0.9,
            r"order=8 with lower=0.9: the deviation .* is below the rounding of float32; expected a smaller order",
        ),
    ],
)
def test_refused(order, lower, message):
    with pytest.raises(ValueError, match=message):
        least_deviation(order, lower)
