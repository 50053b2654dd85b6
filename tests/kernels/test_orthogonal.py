"""The polar factor and Newton's iteration against SVD and against the definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from aon.kernels.orthogonal import PolarFactor, newton_orthonormal

EPS = torch.finfo(torch.float64).eps
SHAPES = {
    "wide": (4, 7),
    "tall": (7, 4),
    "square": (5, 5),
    "row": (1, 6),
    "column": (6, 1),
    "batch": (2, 3, 5),
    "tall_batch": (2, 5, 3),
}
# Newton's iteration lets rounding grow in the directions that S does not fill: measured 2e-8 on the row side of a
# column, after 8 steps.
NEWTON_DRIFT = {0: 1e-15, 1: 1e-14, 5: 1e-11, 8: 1e-7}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def matrix(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Singular values between 0.5 and 1.5."""
    stream = torch.Generator().manual_seed(sum(shape))
    U, s, Vh = torch.linalg.svd(torch.randn(shape, dtype=torch.float64, generator=stream), full_matrices=False)
    return ((U * torch.linspace(1.5, 0.5, s.shape[-1], dtype=torch.float64)) @ Vh).to(dtype)


def polar(W: Tensor) -> Tensor:
    return PolarFactor.apply(W)[0]


def svd_polar(W: Tensor) -> Tensor:
    U, _, Vh = torch.linalg.svd(W, full_matrices=False)
    return U @ Vh


@each_shape
def test_polar_is_u_v(shape):
    W = matrix(*shape)
    torch.testing.assert_close(polar(W), svd_polar(W), atol=10 * max(shape) * EPS, rtol=0)


@settings(max_examples=30)
@given(st.integers(1, 10), st.integers(1, 10), st.integers(0, 99))
def test_polar_of_random_matrices_is_orthonormal(m, n, seed):
    W = torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    H = polar(W)
    G = H @ H.mT if m <= n else H.mT @ H
    s = torch.linalg.svdvals(W)
    tolerance = 10 * max(m, n) * EPS * (s[0] / s[-1]).item() ** 2
    torch.testing.assert_close(G, torch.eye(min(m, n), dtype=torch.float64), atol=tolerance, rtol=0)


@pytest.mark.parametrize("shape", [(256, 256), (128, 160)])
def test_polar_in_float32_keeps_every_direction(shape):
    """A random square matrix has small singular values; none of them may be taken for zero."""
    W = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    s = torch.linalg.svdvals(polar(W).double())
    torch.testing.assert_close(s, torch.ones_like(s), atol=1e-3, rtol=0)


@each_shape
def test_polar_gradient(shape):
    torch.autograd.gradcheck(polar, matrix(*shape).requires_grad_())


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_polar_gradient_where_singular_values_coincide(shape):
    W = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0][: shape[0], : shape[1]]
    W = 0.7 * svd_polar(W)
    torch.autograd.gradcheck(polar, W.clone().requires_grad_())


def test_differentiating_the_svd_fails_there():
    """Why the gradient is not left to autograd."""
    W = (0.7 * torch.eye(3, 5, dtype=torch.float64)).requires_grad_()
    svd_polar(W).sum().backward()
    assert not W.grad.isfinite().all()


def test_polar_of_a_deficient_matrix_leaves_the_zero_directions():
    W = matrix(5, 2) @ matrix(2, 7)
    H = polar(W.requires_grad_())
    s = torch.linalg.svdvals(H)
    torch.testing.assert_close(s, torch.tensor([1.0, 1, 0, 0, 0], dtype=torch.float64), atol=1e-6, rtol=0)
    H.sum().backward()
    assert W.grad.isfinite().all()


def test_polar_of_zero():
    W = torch.zeros(3, 4, requires_grad=True)
    polar(W).sum().backward()
    assert torch.equal(polar(W), torch.zeros(3, 4))
    assert W.grad.isfinite().all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_polar_of_what_is_not_finite_is_nan(bad):
    W = matrix(2, 3, 4)
    W[0, 0, 0] = bad
    H = polar(W)
    assert H[0].isnan().all()
    torch.testing.assert_close(H[1], svd_polar(W[1]), atol=100 * EPS, rtol=0)


def test_polar_refuses_a_second_derivative():
    W = matrix(3, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(polar(W).sum(), W, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        gradient.sum().backward()


def newton_by_definition(Z: Tensor, iterations: int) -> Tensor:
    """On the row side: V = Z / |Z Z^T|_F^(1/2), S = V V^T, B <- (3 B - B^3 S) / 2, B V."""
    V = Z / torch.linalg.matrix_norm(Z @ Z.mT, keepdim=True).sqrt()
    S, B = V @ V.mT, torch.eye(Z.shape[-2], dtype=Z.dtype).expand(*Z.shape[:-1], Z.shape[-2])
    for _ in range(iterations):
        B = (3 * B - B @ B @ B @ S) / 2
    return B @ V


@each_shape
@pytest.mark.parametrize("iterations", [0, 1, 5, 8])
def test_newton_is_its_definition(shape, iterations):
    Z = matrix(*shape)
    expected = newton_by_definition(Z, iterations)
    torch.testing.assert_close(newton_orthonormal(Z, iterations), expected, atol=NEWTON_DRIFT[iterations], rtol=0)


@each_shape
def test_newton_comes_to_the_polar_factor(shape):
    Z = matrix(*shape)
    errors = [(newton_orthonormal(Z, t) - svd_polar(Z)).abs().max().item() for t in (1, 3, 5, 12)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4)])
def test_newton_gradients(shape):
    Z = matrix(*shape).requires_grad_()
    torch.autograd.gradcheck(lambda A: newton_orthonormal(A, 4), Z)
    torch.autograd.gradgradcheck(lambda A: newton_orthonormal(A, 2), Z)


def test_newton_of_zero():
    Z = torch.zeros(3, 4, requires_grad=True)
    newton_orthonormal(Z, 5).sum().backward()
    assert torch.equal(newton_orthonormal(Z, 5), torch.zeros(3, 4))
    assert Z.grad.isfinite().all()
