"""Other orthonormalisations: the exact polar factor, and Newton's iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aon.kernels.first_order import once_only
from aon.kernels.gram import finite_or_identity, gram, is_tall, plain_gram
from aon.kernels.power import nan_for_infinity

SMALLEST = 1e-12  # a weight of this norm counts as zero, as for the other maps: powers of 1 / norm leave float32


class PolarFactor(torch.autograd.Function):
    """W -> (W W^T)^(-1/2) W, for (..., m, n) of any shape.

    With S = (W W^T)^(1/2), H = S^(-1) W and D = dL/dH, the gradient is S^(-1) D - 2 Y W, where Y solves
    S Y + Y S = sym(S^(-1) D H^T): in the eigenbasis of S a division by sigma_i + sigma_j, which stays finite
    where singular values coincide (the derivative of an eigenvector would not). All of it in float64: a Gram matrix
    squares the condition number, and a random square matrix of 256 rows would lose a direction in float32.
    """

    @staticmethod
    def forward(W: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        A = _precise(W)
        G, finite = finite_or_identity(gram(A))
        eigenvalues, U = torch.linalg.eigh(G)
        s = torch.where(finite[..., 0], eigenvalues.clamp_min(0), torch.nan).sqrt()
        inverse = _in_basis(U, _inverse(s, s))
        H = A @ inverse if is_tall(A) else inverse @ A
        return H.to(W.dtype), s, U

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        H, s, U = output
        ctx.mark_non_differentiable(s, U)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, H, s, U)

    @staticmethod
    def backward(ctx: Any, D: Tensor | None, *_: Any) -> Tensor | None:
        if D is None:
            return None
        W, H, s, U = ctx.saved_tensors
        with torch.no_grad():
            A, H, dH = (_precise(X.mT if is_tall(W) else X) for X in (W, H, D))
            inverse = _in_basis(U, _inverse(s, s))
            SD = inverse @ dH
            T = U.mT @ (SD @ H.mT) @ U
            Y = U @ ((T + T.mT) / 2 * _inverse_sums(s)) @ U.mT
            dW = SD - 2 * (Y @ A)
            dW = dW.mT if is_tall(W) else dW
        return once_only(dW.to(W.dtype), W, D)


def newton_orthonormal(Z: Tensor, iterations: int) -> Tensor:
    """B_T V by Newton's iteration for S^(-1/2), S = V V^T, V = Z / |Z Z^T|_F^(1/2), on the smaller side."""
    S = plain_gram(Z)
    size = torch.linalg.matrix_norm(S, keepdim=True)
    size = torch.where(size <= SMALLEST**2, 1, nan_for_infinity(size))
    S = S / size
    identity = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
    B = identity.expand_as(S)
    for _ in range(iterations):
        B = 1.5 * B - 0.5 * (B @ B @ B @ S)
    V = Z / size.sqrt()
    return V @ B if is_tall(Z) else B @ V


def _precise(W: Tensor) -> Tensor:
    return W if W.device.type == "mps" else W.double()  # that device has no float64


def _tolerance(s: Tensor) -> Tensor:
    """Below this a singular value taken from a Gram matrix is zero up to rounding."""
    share: float = (s.shape[-1] * torch.finfo(s.dtype).eps) ** 0.5
    return s.amax(-1, keepdim=True) * share


def _inverse(x: Tensor, s: Tensor) -> Tensor:
    """1 / x, and 0 where x is zero up to rounding; NaN stays NaN."""
    dead = s <= _tolerance(s)
    return torch.where(dead, 0, 1 / torch.where(dead, 1, x))


def _inverse_sums(s: Tensor) -> Tensor:
    sums = s[..., :, None] + s[..., None, :]
    dead = sums <= _tolerance(s)[..., None]
    return torch.where(dead, 0, 1 / torch.where(dead, 1, sums))


def _in_basis(U: Tensor, values: Tensor) -> Tensor:
    """U diag(values) U^T."""
    return (U * values[..., None, :]) @ U.mT
