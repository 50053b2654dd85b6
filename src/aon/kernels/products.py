"""Matrix products by BLAS or oneDNN, whichever is faster on a CPU.

`torch.mm` calls a BLAS, convolutions call oneDNN. On the processor that was measured, where the BLAS is MKL, oneDNN
takes less time for float32 matrices of some size (docs/performance.md has the numbers). Torch has no public call for
such a product; what its compiler calls for a linear layer is used, where there is one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_PLAIN = (Tensor, torch.nn.Parameter)  # other kinds of tensors do not know this call
LEAST = 2**24  # multiplications below which a call of oneDNN costs more than it saves
try:
    _linear: Any = torch.ops.mkldnn._linear_pointwise
except AttributeError:  # a torch that was built without oneDNN
    _linear = None


def product(A: Tensor, B: Tensor) -> Tensor:
    """A B, for matrices and for batches of them.

    Example:
        >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
        tensor([[11.]])
    """
    if _suits_onednn(A, B):
        return _linear(A, B.mT, None, "none", [], "")  # type: ignore[no-any-return]
    return A @ B


def add_product(base: Tensor, A: Tensor, B: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta base + alpha A B, for matrices and for batches of them.

    Example:
        >>> add_product(torch.ones(1, 1), torch.ones(1, 2), torch.ones(2, 1), beta=3)
        tensor([[5.]])
    """
    if not _suits_onednn(A, B):
        add = torch.addmm if A.dim() == 2 else torch.baddbmm
        return add(base, A, B, beta=beta, alpha=alpha)
    if beta == alpha == 1 and base.is_contiguous():
        return _linear.binary(A, base, B.mT, None, "add")  # type: ignore[no-any-return]
    return product(A, B).mul_(alpha).add_(base, alpha=beta)


def _suits_onednn(A: Tensor, B: Tensor) -> bool:
    """Whether to call oneDNN: it has no derivative, and a compiler chooses its own library."""
    return (
        not torch.compiler.is_compiling()
        and A.dim() == 2
        and A.numel() * B.shape[1] >= LEAST
        and B.dim() == 2
        and type(A) in _PLAIN
        and type(B) in _PLAIN
        and A.dtype == B.dtype == torch.float32
        and A.device.type == B.device.type == "cpu"
        and _linear is not None
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_grad_enabled()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]
        and A.is_contiguous()  # it would copy another A first, which costs more than is gained
        and (B.is_contiguous() or B.mT.is_contiguous())
    )
