"""The Gram matrix by halves against the whole product."""

import pytest
import torch

from aon.kernels.gram import PANEL, gram, in_panels, is_tall, working_dtype


@pytest.mark.parametrize("rows", [1, 5, 127, 128, 255, 256, 257, 300, 513])
@pytest.mark.parametrize("tall", [False, True], ids=["wide", "tall"])
@torch.no_grad()
def test_by_halves_equals_the_whole(rows, tall):
    W = torch.randn(rows, 2 * rows + 7, dtype=torch.float64)
    W = W.mT.contiguous() if tall else W
    expected = W.mT @ W if tall else W @ W.mT
    G = gram(W)
    torch.testing.assert_close(G, expected, atol=1e-11, rtol=0)


@torch.no_grad()
def test_batches():
    assert gram(torch.ones(3, 5, 2)).shape == (3, 2, 2)
    W = torch.randn(2, 300, 400)
    torch.testing.assert_close(gram(W), W @ W.mT)


@pytest.mark.parametrize("shape", [(300, 610), (610, 300), (4, 6)])
def test_the_gradient_is_that_of_the_product(shape):
    W = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    k = min(shape)
    D = torch.randn(k, k, dtype=torch.float64)
    (found,) = torch.autograd.grad(gram(W), W, D)
    (expected,) = torch.autograd.grad(W.mT @ W if is_tall(W) else W @ W.mT, W, D)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)


def test_in_panels():
    assert in_panels(512, 4608)
    assert not in_panels(512, 512)
    assert not in_panels(64, 576)


@torch.no_grad()
def test_strided_weights():
    W = torch.randn(1600, 600, dtype=torch.float64)[::2, ::2]
    torch.testing.assert_close(gram(W), W.mT @ W, atol=1e-11, rtol=0)


def test_the_same_weight_gives_the_same_bits():
    """What tells an old weight from a new one compares exactly."""
    W = torch.randn(400, 900)
    assert in_panels(*W.shape)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert torch.equal(gram(W), gram(W.clone()))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_working_dtype(dtype, expected):
    assert working_dtype(torch.ones(1, dtype=dtype)) == expected


@torch.no_grad()
def test_what_lies_right_of_the_panels_is_copied():
    W = torch.randn(300, 1200) / 1200**0.5
    G = gram(W)
    torch.testing.assert_close(G.double(), W.double() @ W.double().mT, atol=1e-5, rtol=0)
    assert torch.equal(G[:PANEL, PANEL:], G[PANEL:, :PANEL].mT)
    assert torch.equal(G[:150, 192:], G[192:, :150].mT)


def test_smaller_side():
    assert gram(torch.ones(2, 5)).shape == gram(torch.ones(5, 2)).shape == (2, 2)
    assert is_tall(torch.ones(3, 2))
    assert not is_tall(torch.ones(2, 2))
