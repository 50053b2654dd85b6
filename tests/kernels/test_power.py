"""The power iteration on the Gram side against the same steps taken with the matrix itself."""

import pytest
import torch

from aon.kernels.power import State, above, ascend, length, norm_and_u, resume, unit

SHAPES = {
    "wide": (3, 7),
    "tall": (7, 3),
    "square": (4, 4),
    "row": (1, 5),
    "column": (5, 1),
    "batch": (2, 3, 5),
    "tall_batch": (2, 5, 3),
}
EPS = torch.finfo(torch.float64).eps


def steps(B, u, count):
    """u -> v -> u with B itself, as the paper and Miyato et al. write it."""
    for _ in range(count):
        v = (B.mT @ u[..., None])[..., 0]
        v = v / torch.linalg.vector_norm(v, dim=-1, keepdim=True)
        b = (B @ v[..., None])[..., 0]
        sigma = torch.linalg.vector_norm(b, dim=-1, keepdim=True)
        u = b / sigma
    return u, v, sigma


def problem(shape):
    W = torch.randn(shape, dtype=torch.float64)
    u = unit(torch.randn(shape[:-1], dtype=torch.float64))
    tall = shape[-2] > shape[-1]
    G = W.mT @ W if tall else W @ W.mT
    Phi = 2 * torch.eye(G.shape[-1], dtype=torch.float64) - 0.3 * G
    return W, u, G, Phi, (W @ Phi if tall else Phi @ W)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("identity", [False, True], ids=["phi", "identity"])
def test_steps(shape, count, identity):
    W, u, G, Phi, B = problem(shape)
    end = ascend(W, G, None if identity else Phi, u, count, 1e-12)
    moved, _, sigma = steps(W if identity else B, u, count)
    torch.testing.assert_close(end.u, moved, atol=1e3 * EPS, rtol=0)
    torch.testing.assert_close(end.sigma, sigma, atol=0, rtol=1e3 * EPS)
    assert end.live.all()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_parts_of_the_gradient(shape):
    """d(u^T B v) with u, v constant, from the parts, against autograd in Phi and in W."""
    W, u, G, Phi, _ = problem(shape)
    end = ascend(W, G, Phi, u, 1, 1e-12)
    W, Phi = W.requires_grad_(), Phi.requires_grad_()
    tall = shape[-2] > shape[-1]
    B = W @ Phi if tall else Phi @ W
    moved, v, _ = steps(B.detach(), u, 1)
    dPhi, dW = torch.autograd.grad((moved[..., None, :] @ B @ v[..., None]).sum(), (Phi, W))
    W, Phi = W.detach(), Phi.detach()
    torch.testing.assert_close(end.left[..., None] * end.right[..., None, :], dPhi, atol=1e3 * EPS, rtol=0)
    outer_left = end.outer / end.sigma if tall else (Phi @ end.left[..., None])[..., 0]
    right = outer_left[..., None] * end.outer[..., None, :]
    torch.testing.assert_close(W @ right if tall else right @ W, dW, atol=1e3 * EPS, rtol=0)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_of_zero(shape):
    """A zero matrix leaves u where it is, and is divided by 1."""
    W, u = torch.zeros(shape, dtype=torch.float64), problem(shape)[1]
    G = W.mT @ W if shape[-2] > shape[-1] else W @ W.mT
    end = ascend(W, G, None, u, 3, 1e-12)
    assert torch.equal(end.u, u)
    assert (end.sigma == 1).all()
    assert not end.live.any()


def test_resume_from_u_where_the_weight_is_new_else_from_the_one_before():
    u, previous = torch.ones(2, 3), torch.zeros(2, 3)
    seen = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    fingerprint = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert torch.equal(resume(fingerprint, State(u, previous, seen)), torch.tensor([[0.0] * 3, [1.0] * 3]))
    assert torch.equal(resume(fingerprint, State(u, previous, torch.full_like(seen, torch.nan))), u)


@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_length_neither_over_nor_underflows(size):
    x = torch.tensor([3.0, 4.0]) * size
    torch.testing.assert_close(length(x), torch.tensor([5.0 * size]))
    assert length(torch.zeros(3)) == 0
    assert torch.linalg.vector_norm(unit(x)).item() == pytest.approx(1)


def test_length_of_what_is_not_finite_is_not_a_number_that_looks_right():
    assert not length(torch.tensor([1.0, torch.inf])).isfinite()
    assert length(torch.tensor([1.0, torch.nan])).isnan()


def test_above():
    values, live = above(torch.tensor([0.0, 0.1, 2.0]), 0.1)
    assert values.tolist() == [1.0, 1.0, 2.0]
    assert live.tolist() == [False, False, True]


def test_above_lets_nan_through():
    values, _ = above(torch.tensor([torch.nan]), 0.1)
    assert values.isnan()


def test_an_infinite_norm_counts_as_nan_and_leaves_u():
    values, _ = above(torch.tensor([torch.inf]), 0.1)
    assert values.isnan().all()
    u = torch.tensor([1.0, 0.0])
    sigma, live, moved = norm_and_u(torch.tensor([torch.inf]), torch.full((2,), torch.inf), u, 1e-12)
    assert sigma.isnan().all()
    assert not live
    assert moved.equal(u)
