"""The Gram matrix of the smaller side of a weight, and the precision it is computed in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

LEAF = 128  # rows below which half a symmetric product costs as much as the whole of it


def working_dtype(W: Tensor) -> torch.dtype:
    """Gram matrix and sigma are computed in float32 at least."""
    return torch.promote_types(W.dtype, torch.float32)


def in_full_precision(W: Tensor) -> AbstractContextManager[object]:
    """A context without autocast for W's device; nothing at all where there is none, since entering one takes time."""
    device = W.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def is_tall(W: Tensor) -> bool:
    """Whether W has more rows than columns, so that W^T W is the smaller Gram matrix."""
    return W.shape[-2] > W.shape[-1]


def gram(W: Tensor) -> Tensor:
    """The smaller of W W^T and W^T W."""
    A = W.mT if is_tall(W) else W
    # Blocks pay for large matrices only; a graph that is differentiated or compiled wants the plain product.
    large = A.dim() == 2 and len(A) >= 2 * LEAF
    if not large or torch.compiler.is_compiling() or (torch.is_grad_enabled() and W.requires_grad):
        return A @ A.mT
    G = A.new_empty(len(A), len(A))
    _fill_gram(A, G, 0, len(A))
    return G


def _fill_gram(A: Tensor, G: Tensor, first: int, last: int) -> None:
    """G = A A^T between two rows: what lies above the diagonal blocks is copied from below, not computed."""
    if last - first <= LEAF:
        torch.mm(A[first:last], A[first:last].mT, out=G[first:last, first:last])
        return
    middle = (first + last) // 2
    _fill_gram(A, G, first, middle)
    _fill_gram(A, G, middle, last)
    lower = G[middle:last, first:middle]
    torch.mm(A[middle:last], A[first:middle].mT, out=lower)
    G[first:middle, middle:last] = lower.mT
