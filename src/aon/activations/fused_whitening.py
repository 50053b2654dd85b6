"""Whitening of a batch, forward and backward in one autograd function, over one process or several.

Notation: roots.py, and

    ======  ==============  ==================================================
    x, y    (N, C, ...)     activations before and after
    X       (g, d, M)       x centred, channels on the rows, M values in a row
    D       (g, d, M)       gradient of the loss with respect to y, laid out so
    V       (g, d, d)       W with the scale of each output folded into its row
    ======  ==============  ==================================================

# Note [Order of memory]
X and D have the order of memory that x has. Where channels are innermost in x (channels_last, or no spatial axes), the
columns of X are, and nothing is transposed on the way from x to y or back.

# Note [What fusing saves]
Centring and transposition, where there is one, are one pass, the scale is folded into W, the covariance is seen
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

from aon.activations.processes import check_not_empty, group_of
from aon.activations.roots import Saved, eigen_pullback, eigen_root, newton_pullback, newton_root
from aon.kernels.first_order import once_only
from aon.kernels.gram import in_full_precision

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
        ctx.group, ctx.innermost = group, _channels_innermost(x)
        ctx.pullback = eigen_pullback if n_iterations is None else newton_pullback
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
    check_not_empty(x, total[-1])
    mean, count = total[:-1] / total[-1], total[-1]
    X = _centred(x, mean, num_groups)
    S = _sum_over(group, X @ X.mT) / count
    S.diagonal(dim1=-2, dim2=-1).add_(eps)
    return X, mean, S, count


def _centred(x: Tensor, mean: Tensor, num_groups: int) -> Tensor:
    """X: the mean taken off (before squaring: E[x x'] - mean mean' would cancel), channels on the rows."""
    if _channels_innermost(x):
        return _rows(x - mean.view(-1, *[1] * (x.dim() - 2)), num_groups)
    across, mean = x.transpose(0, 1), mean.view(-1, *[1] * (x.dim() - 1))
    if torch.compiler.is_compiling():  # which loses the strides of `out`, and makes one pass of this anyway
        X = (across - mean).contiguous()
    else:
        X = torch.sub(across, mean, out=torch.empty(across.shape, dtype=x.dtype, device=x.device))
    return X.view(num_groups, -1, x.numel() // x.shape[1])


def _channels_innermost(x: Tensor) -> bool:
    """Whether the channels of one position lie side by side in memory."""
    return x.movedim(1, -1).is_contiguous()


def _rows(x: Tensor, num_groups: int) -> Tensor:
    """x with its channels on the rows, (g, d, M), columns innermost: a view if the channels of x are innermost."""
    C = x.shape[1]
    return x.movedim(1, -1).reshape(x.numel() // C, num_groups, C // num_groups).permute(1, 2, 0)


def _apply(X: Tensor, W: Tensor, weight: Tensor, bias: Tensor, like: Tensor) -> Tensor:
    """The scaled and shifted product W X, in shape and order of memory of `like`."""
    V, shift = W * weight.view(*W.shape[:2], 1), bias.view(*W.shape[:2], 1)
    if _channels_innermost(like):
        return _from_columns(torch.baddbmm(shift.mT, X.mT, V.mT), like)
    return _from_rows(torch.baddbmm(shift, V, X), like)


def _backward(ctx: Any, grad: Tensor, pullback: Callable[[Saved, Tensor], Tensor]) -> tuple[Tensor | None, ...]:
    """Gradients with respect to x, origin, weight and bias, themselves not differentiable."""
    with torch.no_grad(), in_full_precision(grad):  # a backward may be called inside autocast
        gradients = _gradients(ctx, grad, pullback)
    _, origin, weight, *_ = ctx.saved_tensors
    dx, dweight, dbias = (once_only(found, origin, weight, grad, refusal=REFUSAL) for found in gradients)
    return dx, None, dweight, dbias


def _gradients(ctx: Any, grad: Tensor, pullback: Callable[[Saved, Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients with respect to x, weight and bias."""
    X, _, weight, W, count, *saved = ctx.saved_tensors
    D = _rows(grad, X.shape[0]) if ctx.innermost else grad.transpose(0, 1).reshape(X.shape)
    A, dbias = D @ X.mT, D.sum(-1, keepdim=True)
    dweight = (A * W).sum(-1)
    # The statistics are common to all processes, so their gradient is the sum; weight and bias stay local.
    both = _sum_over(ctx.group, torch.cat([A, dbias], -1))
    scale = weight.view(*W.shape[:2], 1)
    A, shared = both[..., :-1] * scale, both[..., -1:]
    dS = pullback(tuple(saved), (A + A.mT) / 2) * (2 / count)
    V = (W * scale).mT
    shift = V @ shared / -count
    if ctx.innermost:  # dS is symmetric
        dx = _from_columns(torch.baddbmm(shift.mT, D.mT, V.mT).baddbmm_(X.mT, dS), grad)
    else:
        dx = _from_rows(torch.baddbmm(shift, V, D).baddbmm_(dS, X), grad)
    return dx, dweight.flatten(), dbias.flatten()


def _from_rows(X: Tensor, like: Tensor) -> Tensor:
    """From (g, d, M) back to the shape (N, C, ...) of `like`."""
    return X.view(like.transpose(0, 1).shape).transpose(0, 1).contiguous()


def _from_columns(X: Tensor, like: Tensor) -> Tensor:
    """From (g, M, d) back to the shape (N, C, ...) of `like`, channels innermost; copies only if there are groups."""
    y = X.transpose(0, 1).contiguous().view(like.movedim(1, -1).shape).movedim(-1, 1)
    # One channel or one position lies both ways: the next layer should not take its strides for channels_last.
    return y.flatten().view(like.shape) if like.is_contiguous() else y


def _sum_over(group: Any, tensor: Tensor) -> Tensor:
    """Sum of the processes' tensors; the tensor itself if this process is alone."""
    if group is not None:
        torch.distributed.all_reduce(tensor, group=group)
    return tensor
