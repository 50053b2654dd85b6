"""The Gram matrix of the smaller side of a weight, and the precision it is computed in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from aon.products import product

PANEL = 64  # columns of a Gram matrix that are computed at a time, from the diagonal down
LARGE = 256  # rows below which half a symmetric product costs as much as the whole of it


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


def plain_gram(W: Tensor) -> Tensor:
    """The smaller of W W^T and W^T W, by one product that can be differentiated in every way."""
    return W.mT @ W if is_tall(W) else W @ W.mT


def in_panels(k: int, longer: int) -> bool:
    """Whether half of the Gram matrix of k x longer is worth saving."""
    return k >= LARGE and longer >= 2 * k


def gram(W: Tensor) -> Tensor:
    """As `plain_gram`, for those who need no derivative of it: where W is large, in less time."""
    A = W.mT if is_tall(W) else W
    if A.dim() > 2 or torch.compiler.is_compiling() or torch.is_grad_enabled():
        return plain_gram(W)
    if not in_panels(*A.shape):
        return product(A, A.mT)
    G = A.new_empty(len(A), len(A))
    for first in range(0, len(A), PANEL):
        last = first + PANEL
        panel = product(A[first:], A[first:last].mT)
        G[first:, first:last] = panel
        G[first:last, last:] = panel[PANEL:].mT  # what lies right of the diagonal is copied, not computed
    return G
