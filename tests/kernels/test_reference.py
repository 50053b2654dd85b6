"""The reference is Algorithm 1; its value is compared with an SVD, and its step with torch's spectral_norm."""

import pytest
import torch
from torch import nn

from aon.kernels.polynomials import singular_value_map
from aon.kernels.reference import normalise_reference

EPS = torch.finfo(torch.float64).eps


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5)])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 6])
def test_converged_value(shape, order):
    W = torch.randn(shape, dtype=torch.float64)
    W = W / torch.linalg.matrix_norm(W, 2) * 1.1
    U, s, Vh = torch.linalg.svd(W, full_matrices=False)
    f = singular_value_map(s, order)
    expected = U @ torch.diag(f / f.abs().max()) @ Vh
    u = U[:, f.abs().argmax()]
    torch.testing.assert_close(normalise_reference(W, u, order)[0], expected, atol=10 * max(shape) * EPS, rtol=0)


def test_order_zero_is_torchs_spectral_norm():
    layer = nn.Linear(5, 3, bias=False).double()
    W = layer.weight.detach().clone()
    layer = nn.utils.spectral_norm(layer)
    expected, moved = normalise_reference(W, layer.weight_u.clone(), 0)
    layer(torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(layer.weight, expected, atol=100 * EPS, rtol=0)
    torch.testing.assert_close(layer.weight_u, moved, atol=100 * EPS, rtol=0)


def test_u_and_v_are_constant_in_the_gradient():
    """d sigma = u^T dB v: for W = diag(a, b), order 0, u = e_1, h = diag(1, b/a)."""
    W = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    H, _ = normalise_reference(W, torch.tensor([1.0, 0.0], dtype=torch.float64), 0)
    (gradient,) = torch.autograd.grad(H[1, 1], W)
    torch.testing.assert_close(gradient, torch.tensor([[-0.25, 0.0], [0.0, 0.5]], dtype=torch.float64))
