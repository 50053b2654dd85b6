"""One mapped weight for several forwards and backwards, and one backward of the map for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_LATE = "aon.accumulate: a backward that was held back came after the one that synchronises; run them in that order"


class SharedWeight:
    """A mapped weight, or the factor F that makes it of W, that the micro-batches of one update share.

    The micro-batches compute with a leaf that stands for what is shared; their gradients gather in it. They go on
    through the map together: when `flush` is called, or with the backward of a micro-batch that is not to be held.

    Args:
        holds: Asked at each forward, whether its backward is to stop at the leaf.
        micro_batches: About how many forwards there will be.
    """

    def __init__(self, holds: Callable[[], bool], micro_batches: int) -> None:
        self.holds, self.micro_batches = holds, micro_batches
        self.mapped: Tensor | None = None
        self.applied = False  # whether it is F that is shared
        self.leaf: Tensor | None = None
        self.version: tuple[object, ...] = ()

    def hold(self, mapped: Tensor, version: tuple[object, ...], *, applied: bool) -> None:
        """Begin to share a mapped weight, or F if it is `applied` after W, made from the weight of this version."""
        if self.leaf is not None and self.leaf.grad is not None:
            raise RuntimeError(_LATE)
        self.mapped, self.version, self.applied = mapped, version, applied
        self.leaf = mapped.detach().requires_grad_()

    def use(self, version: tuple[object, ...]) -> Tensor:
        """What a forward computes with.

        Raises:
            RuntimeError: The weight is not the one that the mapped weight was made from.
        """
        if version != self.version:
            raise RuntimeError("a weight changed inside aon.accumulate: take the optimiser's step after the block")
        assert self.mapped is not None
        assert self.leaf is not None
        return self.leaf if self.holds() else _Join.apply(self.mapped, self)

    def gathered(self) -> Tensor | None:
        """The gradient gathered in the leaf, which is empty afterwards."""
        if self.leaf is None or self.leaf.grad is None:
            return None
        gradient, self.leaf.grad = self.leaf.grad, None
        return gradient

    def flush(self) -> None:
        """Send what was gathered through the map, into the gradients of the weight and the gain."""
        gradient = self.gathered()
        if gradient is None:
            return
        if self.mapped is None:
            raise RuntimeError(_LATE)
        torch.autograd.backward(self.mapped, gradient)


class _Join(torch.autograd.Function):
    """The mapped weight; backward adds what was gathered before. The map's graph is then used up."""

    @staticmethod
    def forward(ctx: Any, mapped: Tensor, shared: SharedWeight) -> Tensor:
        ctx.shared = shared
        return mapped.view_as(mapped)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gathered = ctx.shared.gathered()
        ctx.shared.mapped, ctx.shared.applied = None, False  # a further micro-batch maps the weight again
        return gradient if gathered is None else gradient + gathered, None
