"""Spectral normalisation, order 0 of the AON map: W / sigma(W) needs no Gram matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from aon.kernels.first_order import once_only, with_signature
from aon.kernels.gram import in_full_precision, working_dtype
from aon.kernels.power import State, apply, length, norm_and_u, resume, unit
from aon.kernels.settings import Settings


@with_signature
class Spectral(torch.autograd.Function):
    """W -> gain W / sigma(W).

    Returns (h(W), the u that was stepped from, the moved u, the fingerprint of W, v, sigma, live).
    """

    @staticmethod
    def forward(W: Tensor, gain: Tensor | None, state: State, settings: Settings) -> tuple[Tensor, ...]:
        A = W.to(working_dtype(W))
        with in_full_precision(W):
            fingerprint = A.sum(-1)
            start = u = resume(fingerprint, state).to(A.dtype)
            for _ in range(settings.n_power_iterations):
                v = unit(apply(A.mT, u))
                b = apply(A, v)
                sigma, live, u = norm_and_u(length(b), b, u, settings.eps)
            H = A * _rows(gain, sigma, u)
        return H.to(W.dtype), start, u, fingerprint, v, sigma, live

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        W, gain, *_ = inputs
        _, _, u, _, v, sigma, live = output
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(W, gain, u, v, sigma, live)

    @staticmethod
    def backward(ctx: Any, dH: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if dH is None:
            return (None,) * 4
        W, gain, u, v, sigma, live = ctx.saved_tensors
        with torch.no_grad(), in_full_precision(W):
            D, A = dH.to(u.dtype), W.to(u.dtype)
            rows = torch.linalg.vecdot(D, A) / sigma
            c = (rows if gain is None else rows * gain.to(u.dtype).reshape(u.shape)).sum(-1, keepdim=True)
            dW = D * _rows(gain, sigma, u)
            dW -= (c * live / sigma * u).unsqueeze(-1) * v.unsqueeze(-2)
            dgain = None if gain is None else rows.flatten().to(gain.dtype)
        return once_only(dW.to(W.dtype), W, gain, dH), once_only(dgain, W, gain, dH), None, None


def _rows(gain: Tensor | None, sigma: Tensor, u: Tensor) -> Tensor:
    """gain / sigma as a column that scales the rows of a matrix."""
    column = 1 / sigma if gain is None else gain.to(u.dtype).reshape(u.shape) / sigma
    return column.unsqueeze(-1)
