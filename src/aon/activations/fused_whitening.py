"""Whitening of a batch, forward and backward in one autograd function, over one process or several.

Notation: roots.py, and

    ======  ==============  ==================================================
    x, y    (N, C, ...)     activations before and after
    X       (g, d, M)       x centred, channels on the rows, M values in a row
    D       (g, d, M)       gradient of the loss with respect to y, laid out so
    V       (g, d, d)       W with the scale of each output folded into its row
    ======  ==============  ==================================================

# Note [What fusing saves]
Centring and transposition are one pass, the scale is folded into W, the covariance is seen
once by its symmetric gradient instead of twice, and the Newton steps take 20 products backward instead of
24 or 32.
A second derivative is refused, not approximated: see Note [origin].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from aon.activations.processes import group_of
from aon.activations.roots import Saved, eigen_pullback, eigen_root, newton_pullback, newton_root
from aon.kernels.first_order import once_only

Whitened = tuple[Tensor, Tensor, Tensor]
REFUSAL = "whitening layers have no second derivative; evaluation mode, which uses the running averages, has one"


def newton_whiten(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    eps: float,
    n_iterations: int,
    sync: bool | Any,
) -> Whitened:
    """Whiten by Newton's iteration: y = weight * W (x - mean) + bias, and the mean and W that were used.

    Args:
        x: Activations, shape (N, C, ...).
        weight: Scale of each channel, shape (C,).
        bias: Shift of each channel, shape (C,).
        num_groups: Groups of channels whitened apart.
        eps: Added to the diagonal of the covariance.
        n_iterations: Newton steps.
        sync: False, True for statistics over all processes, or the process group to take them over.
    """
    out = _Whiten.apply(x, _origin(x), weight, bias, num_groups, eps, group_of(sync), n_iterations)
    return cast(Whitened, out)


def eigen_whiten(x: Tensor, weight: Tensor, bias: Tensor, *, num_groups: int, eps: float, sync: bool | Any) -> Whitened:
    """Whiten exactly, by eigendecomposition; arguments and results as in `newton_whiten`."""
    out = _Whiten.apply(x, _origin(x), weight, bias, num_groups, eps, group_of(sync), None)
    return cast(Whitened, out)


def _origin(x: Tensor) -> Tensor:
    """An empty tensor that depends on x in the autograd graph.

    # Note [origin]
    The gradient depends on x even where the loss is linear in y, and must then say so to be refused. Only X is saved,
    of which the graph knows nothing, and saving x too would double the memory; this takes its place.
    """
    return x[:0].clone()


class _Whiten(Function):
    """Whitening by Newton's iteration, or where `n_iterations` is None by eigendecomposition."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        origin: Tensor,
        weight: Tensor,
        bias: Tensor,
        num_groups: int,
        eps: float,
        group: Any,
        n_iterations: int | None,
    ) -> Whitened:
        X, mean, S, count = _statistics(x, num_groups, eps, group)
        W, saved = eigen_root(S, eps) if n_iterations is None else newton_root(S, n_iterations)
        ctx.group, ctx.pullback = group, eigen_pullback if n_iterations is None else newton_pullback
        ctx.mark_non_differentiable(mean, W)
        ctx.save_for_backward(X, origin, weight, W, count, *saved)
        return _apply(X, W, weight, bias, x), mean, W

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        return (*_backward(ctx, grad, ctx.pullback), None, None, None, None)


def _statistics(x: Tensor, num_groups: int, eps: float, group: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """X, the mean of each channel, the covariance with eps on its diagonal, the number of values in it."""
    C, others = x.shape[1], [i for i in range(x.dim()) if i != 1]
    total = torch.cat([x.sum(others), x.new_full((1,), x.numel() / C)])
    total = _sum_over(group, total)
    mean, count = total[:-1] / total[-1], total[-1]
    X = _centred(x, mean).view(num_groups, C // num_groups, x.numel() // C)
    S = _sum_over(group, X @ X.mT) / count
    S.diagonal(dim1=-2, dim2=-1).add_(eps)
    return X, mean, S, count


def _centred(x: Tensor, mean: Tensor) -> Tensor:
    """Channels on the first axis, the mean taken off (before squaring: E[x x'] - mean mean' would cancel)."""
    across, mean = x.transpose(0, 1), mean.view(-1, *[1] * (x.dim() - 1))
    if torch.compiler.is_compiling():  # which loses the strides of `out`, and makes one pass of this anyway
        return (across - mean).contiguous()
    X = torch.empty(across.shape, dtype=x.dtype, device=x.device)
    return torch.sub(across, mean, out=X)


def _apply(X: Tensor, W: Tensor, weight: Tensor, bias: Tensor, like: Tensor) -> Tensor:
    """The scaled and shifted product W X, in the shape of `like`."""
    V = W * weight.view(*W.shape[:2], 1)
    return _channels_second(torch.baddbmm(bias.view(*W.shape[:2], 1), V, X), like)


def _backward(ctx: Any, grad: Tensor, pullback: Callable[[Saved, Tensor], Tensor]) -> tuple[Tensor | None, ...]:
    """Gradients with respect to x, origin, weight and bias, themselves not differentiable."""
    with torch.no_grad():
        gradients = _gradients(ctx, grad, pullback)
    _, origin, weight, *_ = ctx.saved_tensors
    dx, dweight, dbias = (once_only(found, origin, weight, grad, refusal=REFUSAL) for found in gradients)
    return dx, None, dweight, dbias


def _gradients(ctx: Any, grad: Tensor, pullback: Callable[[Saved, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients with respect to x, weight and bias."""
    X, _, weight, W, count, *saved = ctx.saved_tensors
    D = grad.transpose(0, 1).reshape(X.shape)
    A, dbias = D @ X.mT, D.sum(-1, keepdim=True)
    dweight = (A * W).sum(-1)
    # The statistics are common to all processes, so their gradient is the sum; weight and bias stay local.
    both = _sum_over(ctx.group, torch.cat([A, dbias], -1))
    scale = weight.view(*W.shape[:2], 1)
    A, shared = both[..., :-1] * scale, both[..., -1:]
    dS = pullback(tuple(saved), (A + A.mT) / 2) * (2 / count)
    V = (W * scale).mT
    dx = torch.baddbmm(V @ shared / -count, V, D).baddbmm_(dS, X)
    return _channels_second(dx, grad), dweight.flatten(), dbias.flatten()


def _channels_second(X: Tensor, like: Tensor) -> Tensor:
    """From (g, d, M) back to the shape (N, C, ...) of `like`."""
    return X.view(like.transpose(0, 1).shape).transpose(0, 1).contiguous()


def _sum_over(group: Any, tensor: Tensor) -> Tensor:
    """Sum of the processes' tensors; the tensor itself if this process is alone."""
    if group is not None:
        torch.distributed.all_reduce(tensor, group=group)
    return tensor
