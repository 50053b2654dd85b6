"""Share one mapped weight between several forwards and backwards; run the map's backward once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aon.model.stored import Mark

_AFTER_SYNC = (
    "aon.accumulate: a backward that was held back came after the one that synchronises; run them in that order"
)
_AFTER_BLOCK = "aon.accumulate: backward() of a forward inside the block came after it; call it inside"
_CHANGED = "a weight or gain changed inside aon.accumulate: take the optimiser's step after the block"
_TOUCHED = (
    "gradients were changed inside aon.accumulate: clip and unscale them after the block, "
    "and drop them by zero_grad(set_to_none=True)"
)


class Mapped(NamedTuple):
    """A mapped weight or, if `applied`, the factor F that is applied after W."""

    tensor: Tensor
    applied: bool


class SharedWeight:
    """A mapped weight, or its factor F, shared by the micro-batches of one update.

    The micro-batches compute with a leaf copy of it, which accumulates their gradients. The sum passes
    through the map once: when `flush` is called, or with the backward of a micro-batch that is not to be held.

    Args:
        holds: Called at each forward; whether its backward stops at the leaf.
        micro_batches: About how many forwards there will be.
    """

    def __init__(self, holds: Callable[[], bool], micro_batches: int) -> None:
        self.holds, self.micro_batches = holds, micro_batches
        self.mapped: Mapped | None = None
        self._leaf: Tensor | None = None
        self._mark: Mark | None = None
        self._gradient: _Gradient | None = None
        self._closed = False

    def use(self, make: Callable[[int], Mapped], now: Mark, parameter: Tensor) -> Mapped:
        """What a forward computes with.

        Args:
            make: Makes the shared tensor, given the number of micro-batches.
            now: The mark of what it is made from.
            parameter: A parameter that it is made from, whose gradient tells of `zero_grad`.

        Raises:
            RuntimeError: Weight or gain are not those that the mapped weight was made from.
        """
        if self.mapped is None:
            self._begin(make, now, parameter)
        elif self._mark is None or not self._mark.same(now):
            raise RuntimeError(_CHANGED)
        assert self.mapped is not None
        assert self._leaf is not None
        tensor = self._leaf if self.holds() else _Join.apply(self.mapped.tensor, self)
        return Mapped(tensor, self.mapped.applied)

    def _begin(self, make: Callable[[int], Mapped], now: Mark, parameter: Tensor) -> None:
        if self._leaf is not None and self._leaf.grad is not None:
            raise RuntimeError(_AFTER_SYNC)
        with _kept_from_checkpointing():
            self.mapped = make(self.micro_batches)
        self._mark = now.lasting()
        self._leaf = self.mapped.tensor.detach().requires_grad_()
        self._leaf.register_hook(self._arrive)
        if self._gradient is None and parameter.is_leaf:
            self._gradient = _Gradient(parameter)

    def _arrive(self, _: Tensor) -> None:
        """A gradient is about to be added to the leaf's."""
        if self._closed:
            raise RuntimeError(_AFTER_BLOCK)
        self._drop_if_zeroed()
        if self._gradient is not None:
            self._gradient.watch()

    def _drop_if_zeroed(self) -> None:
        """Forget what was gathered before the last `zero_grad`."""
        gathered = self._leaf is not None and self._leaf.grad is not None
        if gathered and self._gradient is not None and self._gradient.was_dropped():
            assert self._leaf is not None
            self._leaf.grad = None

    def gathered(self) -> Tensor | None:
        """The gradient gathered in the leaf, which is empty afterwards."""
        self._drop_if_zeroed()
        if self._leaf is None or self._leaf.grad is None:
            return None
        gradient, self._leaf.grad = self._leaf.grad, None
        return gradient

    def flush(self, now: Mark | None) -> None:
        """Send what was gathered through the map, into the gradients of the weight and the gain.

        Args:
            now: The mark of what the mapped weight was made from; None if it cannot have changed.
        """
        gradient = self.gathered()
        if gradient is None:
            return
        if self.mapped is None:
            raise RuntimeError(_AFTER_SYNC)
        if now is not None and self._mark is not None and not self._mark.same(now):
            raise RuntimeError(_CHANGED)
        torch.autograd.backward(self.mapped.tensor, gradient)

    def close(self) -> None:
        """End the sharing. A gradient that was gathered and not flushed is lost, one that comes later is refused."""
        self._closed = True
        if self._gradient is not None:
            self._gradient.release()


class _Gradient:
    """The `.grad` of a parameter while its gradient gathers elsewhere: tells when `zero_grad` took it away."""

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self._held: Tensor | None = None
        self._version = 0
        self._made = False
        self._handle = parameter.register_post_accumulate_grad_hook(self._note)

    def watch(self) -> None:
        """Start watching: set `.grad` to zeros if it is None, so that `zero_grad` can be noticed."""
        if self.parameter.grad is None:
            self.parameter.grad = torch.zeros_like(self.parameter)
            self._made = True
        self._note(self.parameter)

    def was_dropped(self) -> bool:
        """Whether `zero_grad` was called since.

        Raises:
            RuntimeError: The gradient was changed in place or replaced, which cannot reach what is gathered.
        """
        gradient = self.parameter.grad
        if gradient is not None and (gradient is not self._held or gradient._version != self._version):
            raise RuntimeError(_TOUCHED)
        return gradient is None

    def release(self) -> None:
        """Stop watching, and remove the zeros if nothing was added to them."""
        self._handle.remove()
        gradient = self.parameter.grad
        if self._made and gradient is self._held and gradient is not None and gradient._version == 0:
            self.parameter.grad = None

    def _note(self, parameter: Tensor) -> None:
        """Note what autograd itself adds, which is not a change from outside."""
        self._held = parameter.grad
        self._version = 0 if self._held is None else self._held._version


class _Join(torch.autograd.Function):
    """The mapped weight; backward adds what was gathered before. The map's graph is then used up."""

    @staticmethod
    def forward(ctx: Any, mapped: Tensor, shared: SharedWeight) -> Tensor:
        ctx.shared = shared
        return mapped.view_as(mapped)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gathered = ctx.shared.gathered()
        ctx.shared.mapped = None  # a further micro-batch maps the weight again
        return gradient if gathered is None else gradient + gathered, None


def _kept_from_checkpointing() -> AbstractContextManager[object]:
    """Hides a shared map from activation checkpointing, which would look for it when it recomputes a forward."""
    return torch.autograd.graph.saved_tensors_hooks(_itself, _itself)


def _itself(tensor: Tensor) -> Tensor:
    return tensor
