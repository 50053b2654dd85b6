"""The Gram matrix of the smaller side of a weight, and the precision it is computed in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from aon.kernels.products import product

PANEL = 64  # columns of a Gram matrix that are computed at a time, from the diagonal down
_EXACT = (torch.float32, torch.float64)
LARGE = 256  # rows below which half a symmetric product costs as much as the whole of it


def working_dtype(W: Tensor) -> torch.dtype:
    """Gram matrix and sigma are computed in float32 at least."""
    return W.dtype if W.dtype in _EXACT else torch.promote_types(W.dtype, torch.float32)


def autocast_dtype(W: Tensor) -> torch.dtype | None:
    """The type that autocast computes in on W's device; None where it is off, as it always is on the meta device."""
    device = W.device.type
    on = device != "meta" and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if on else None


def in_full_precision(W: Tensor) -> AbstractContextManager[object]:
    """A context without autocast for W's device; no context where autocast is off, since entering one takes time."""
    return nullcontext() if autocast_dtype(W) is None else torch.autocast(W.device.type, enabled=False)


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
    """As `plain_gram`, but without a derivative; faster for a large W."""
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


def finite_or_identity(G: Tensor) -> tuple[Tensor, Tensor]:
    """G with non-finite matrices replaced by the identity, and a mask (..., 1, 1) of the finite ones.

    LAPACK stops at a NaN, which would end a diverged training run in a traceback about eigenvalues.
    """
    finite = G.isfinite().all(-1, keepdim=True).all(-2, keepdim=True)
    identity = torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)
    return torch.where(finite, G, identity), finite
