"""Cache of the mapped weight in evaluation, valid until anything it depends on changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from aon.kernels.gram import working_dtype


class Mark(NamedTuple):
    """Fingerprint of a weight and a few small tensors.

    Version counters detect most writes at no cost. They do not count writes through `.data`, which the evidence
    detects: one pass over the weight, and the small tensors themselves. To compare it, the host would have to wait for
    another device at every forward, so there is evidence on the CPU only.
    """

    versions: tuple[object, ...]
    evidence: tuple[Tensor, ...]

    def same(self, other: Mark) -> bool:
        """Whether nothing changed between the two."""
        return (
            self.versions == other.versions
            and len(self.evidence) == len(other.evidence)
            and all(map(torch.equal, self.evidence, other.evidence))
        )

    def lasting(self) -> Mark:
        """A copy with its own memory; otherwise the evidence shares memory with the tensors."""
        return Mark(self.versions, tuple(tensor.clone() for tensor in self.evidence))


class Stored(NamedTuple):
    """A mapped weight, and the mark of what it was made from."""

    mark: Mark
    weight: Tensor


def mark(weight: Tensor, small: Sequence[Tensor]) -> Mark:
    """The mark of a weight and of what its mapped weight depends on beside it."""
    tensors = (weight, *small)
    versions = tuple((t.data_ptr(), _count(t), t.dtype, t.device) for t in tensors)
    on_cpu = all(t.device.type == "cpu" for t in tensors)
    return Mark(versions, tuple(_bits(t) for t in (_probe(weight), *small)) if on_cpu else ())


def stored_weight(stored: Stored | None, weight: Tensor, small: Sequence[Tensor], make: Callable[[], Tensor]) -> Stored:
    """The cached weight if it is still valid, otherwise a new one."""
    with torch.inference_mode(False), torch.no_grad():
        now = mark(weight, small)
        if stored is None or not stored.mark.same(now):
            stored = Stored(now.lasting(), make())
    return stored


def is_transformed(tensors: Sequence[Tensor]) -> bool:
    """Whether vmap or forward-mode differentiation uses one of the tensors; results must then not be cached."""
    return any(
        torch._C._functorch.is_functorch_wrapped_tensor(tensor) or forward_ad.unpack_dual(tensor).tangent is not None
        for tensor in tensors
    )


def _count(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _probe(weight: Tensor) -> Tensor:
    """The rows of W, as W lies in memory, times fixed factors without pattern.

    It moves with every change that is more than the rounding of its sum; a smaller one is below rounding in h(W) too.
    """
    dimensions = sorted(range(weight.dim()), key=weight.stride, reverse=True)
    W = weight.detach().permute(dimensions).flatten(1)
    factors = torch.arange(1, W.shape[1] + 1, dtype=torch.float32, device=W.device).cos_()
    exact = working_dtype(W)
    return W.to(exact) @ factors.to(exact)


def _bits(tensor: Tensor) -> Tensor:
    """The same memory as integers, so that NaN equals itself."""
    return tensor.detach().view(
        (torch.int8, torch.int16, torch.int32, torch.int64)[tensor.element_size().bit_length() - 1]
    )
