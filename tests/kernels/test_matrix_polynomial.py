"""p(X) and the adjoint of its derivative against sums of powers, and against autograd."""

import pytest
import torch

from aon.kernels.matrix_polynomial import SMALL, adjoint, evaluate, plus_transpose, symmetric_part
from aon.kernels.polynomials import expansion_coefficients

EPS = torch.finfo(torch.float64).eps
SHAPES = {"one": (1, 1), "matrix": (5, 5), "batch": (3, 4, 4)}
each_order = pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20])
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def symmetric(*shape: int) -> torch.Tensor:
    """Random, symmetric, of spectral norm 1, so that its powers stay of one size."""
    X = symmetric_part(torch.randn(*shape, dtype=torch.float64))
    return X / torch.linalg.matrix_norm(X, 2, keepdim=True)


def plain(coefficients, X):
    """sum_k c_k X^k, each power by one more product."""
    power = torch.eye(X.shape[-1], dtype=X.dtype).expand_as(X)
    total = torch.zeros_like(X)
    for coefficient in coefficients:
        total, power = total + coefficient * power, power @ X
    return total


@each_order
@each_shape
def test_value(order, shape):
    X, coefficients = symmetric(*shape), expansion_coefficients(order)
    tolerance = 10 * shape[-1] * (order + 1) * EPS
    torch.testing.assert_close(evaluate(coefficients, X), plain(coefficients, X), atol=tolerance, rtol=0)


@each_order
@each_shape
def test_adjoint_is_the_gradient(order, shape):
    X, D, coefficients = symmetric(*shape).requires_grad_(), symmetric(*shape), expansion_coefficients(order)
    total = (D * plain(coefficients, X)).sum()
    expected = torch.zeros_like(X) if order == 0 else torch.autograd.grad(total, X)[0]
    tolerance = 10 * shape[-1] * (order + 1) ** 2 * EPS
    torch.testing.assert_close(adjoint(coefficients, X.detach(), D), expected, atol=tolerance, rtol=0)


@each_order
def test_any_coefficients(order):
    """Blocks of every fill: a coefficient of zero, of either sign."""
    coefficients = [0.0 if k % 3 == 1 else float((-1) ** k * (k + 1)) for k in range(order + 1)]
    X = symmetric(4, 4) / 2
    torch.testing.assert_close(evaluate(coefficients, X), plain(coefficients, X), atol=1e-13, rtol=0)


@each_order
def test_arguments_are_left_as_they_are(order):
    X, D = symmetric(4, 4), symmetric(4, 4)
    before = X.clone(), D.clone()
    evaluate(expansion_coefficients(order), X)
    adjoint(expansion_coefficients(order), X, D)
    assert torch.equal(X, before[0])
    assert torch.equal(D, before[1])


@pytest.mark.parametrize(("order", "products"), [(0, 0), (1, 0), (2, 1), (4, 2), (8, 4), (10, 5)])
def test_number_of_products(order, products):
    """What the module's docstring promises."""
    X = symmetric(4, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        evaluate(expansion_coefficients(order), X)
    calls = {row.key: row.count for row in profile.key_averages()}
    assert calls.get("aten::mm", 0) + calls.get("aten::addmm_", 0) + calls.get("aten::addmm", 0) == products


@each_shape
def test_plus_transpose(shape):
    A = torch.randn(shape)
    assert torch.equal(plus_transpose(A), A + A.mT)
    large = torch.randn(SMALL + 1, SMALL + 1)
    assert torch.equal(plus_transpose(large), large + large.mT)
    assert plus_transpose(large.mT).is_contiguous()
