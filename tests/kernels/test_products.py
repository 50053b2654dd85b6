"""Products by oneDNN against those of BLAS, and when each is used."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from aon.kernels import products
from aon.kernels.products import add_product, product

LARGE = (256, 300, 320)  # more multiplications than LEAST
needs_onednn = pytest.mark.skipif(products._linear is None, reason="this torch was built without oneDNN")


def operands(m, k, n, *, dtype=torch.float32, transposed=(False, False)):
    A, B = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    return [M.mT.contiguous().mT if flip else M for M, flip in zip((A, B), transposed, strict=True)]


def goes_to_onednn(run, grad=False):
    with torch.set_grad_enabled(grad), profile(activities=[ProfilerActivity.CPU]) as seen:
        run()
    return any(row.key.startswith("mkldnn::") for row in seen.key_averages())


@pytest.mark.parametrize("size", [(3, 4, 5), LARGE, (1, 4096, 5000), (70, 600, 512)], ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@torch.no_grad()
def test_a_product_is_a_product(size, transposed):
    A, B = operands(*size, transposed=transposed)
    exact = A.double() @ B.double()
    tolerance = 4 * size[1] * torch.finfo(torch.float32).eps
    torch.testing.assert_close(product(A, B).double(), exact, atol=tolerance, rtol=0)
    base = torch.randn(exact.shape)
    for beta, alpha in ((1, 1), (0.5, 1), (0.5, -0.375)):
        found = add_product(base, A, B, beta=beta, alpha=alpha)
        torch.testing.assert_close(found.double(), beta * base.double() + alpha * exact, atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_batches(dtype):
    A, B, base = (torch.randn(3, 80, 80, dtype=dtype) for _ in range(3))
    torch.testing.assert_close(product(A, B), A @ B)
    torch.testing.assert_close(add_product(base.clone(), A, B), base + A @ B)


@torch.no_grad()
def test_strides_that_no_library_takes():
    A, B = torch.randn(512, 600)[::2, ::2], torch.randn(600, 640)[::2, ::2]
    torch.testing.assert_close(product(A, B), A.contiguous() @ B.contiguous(), atol=1e-3, rtol=0)
    base = torch.randn(512, 640)[::2, ::2]
    torch.testing.assert_close(add_product(base.clone(), A, B), base + A @ B, atol=1e-3, rtol=0)


@needs_onednn
def test_large_matrices_of_float32_go_to_onednn():
    A, B = operands(*LARGE)
    assert goes_to_onednn(lambda: product(A, B))
    assert goes_to_onednn(lambda: add_product(torch.zeros(LARGE[0], LARGE[2]), A, B))


class Other(torch.Tensor):
    """A kind of tensor of one's own."""


@pytest.mark.parametrize("reason", ["small", "float64", "gradient", "kind", "switched off", "other torch"])
def test_everything_else_does_not(reason, monkeypatch):
    A, B = operands(
        *((8, 8, 8) if reason == "small" else LARGE), dtype=torch.double if reason == "float64" else torch.float
    )
    if reason == "kind":
        A = A.as_subclass(Other)
    if reason == "other torch":
        monkeypatch.setattr(products, "_linear", None)
    if reason == "switched off":
        monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert not goes_to_onednn(lambda: product(A, B), grad=reason == "gradient")
    torch.testing.assert_close(product(A, B).detach(), A.detach() @ B, atol=1e-3, rtol=0)


def test_where_a_gradient_is_wanted_there_is_one():
    A, B = operands(*LARGE)
    A.requires_grad_()
    (dA,) = torch.autograd.grad(product(A, B).sum(), A)
    torch.testing.assert_close(dA, B.sum(1).expand_as(A), atol=1e-3, rtol=0)
