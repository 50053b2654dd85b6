"""Sums over the processes that share the statistics of a batch."""

from __future__ import annotations

from typing import Any, cast

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function


def group_of(sync: bool | Any) -> Any:
    """The processes that share statistics; None if this one is alone.

    Args:
        sync: False, True for all processes, or a process group.

    Example:
        >>> group_of(False) is None
        True
    """
    if sync is False or not (dist.is_available() and dist.is_initialized()):
        return None
    group = dist.group.WORLD if sync is True else sync
    return group if dist.get_world_size(group) > 1 else None


def sum_over(group: Any, tensor: Tensor) -> Tensor:
    """Sum of the processes' tensors, with a gradient: each of them had a part in every process's loss.

    Args:
        group: The processes.
        tensor: This process's.
    """
    return cast(Tensor, _SumOver.apply(tensor, group))


def check_not_empty(x: Tensor, count: Tensor) -> None:
    """Refuse a training batch that is empty in every process: statistics of nothing would make the averages NaN.

    A process with values need not look, which would be a wait for its device: then the count is not zero.

    Args:
        x: This process's batch.
        count: Number of values per channel in all processes together.

    Raises:
        ValueError: If it is zero; all processes raise it, and before anything is changed.
    """
    if x.numel() == 0 and count == 0:
        shape = tuple(x.shape)
        raise ValueError(f"expected more than 1 value per channel when training, got {shape}, and none in any process")


class _SumOver(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = tensor.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return cast(Tensor, _SumOver.apply(grad.contiguous(), ctx.group)), None
