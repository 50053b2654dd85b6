"""Gradient accumulation: the map once forward and once backward for each update, not for each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from aon.layers import NormalisedLayer
from aon.sharing import SharedWeight


@contextmanager
def accumulate(model: nn.Module, micro_batches: int = 4) -> Iterator[None]:
    """Let the micro-batches of one update share the map: its forward and backward are done once for all of them.

    The gradients are those of the plain way, to rounding. They are complete when the block ends: clip them and take
    the optimiser's step after it. Inside, the gradient of a `weight` lacks what comes through the map, by
    `torch.autograd.grad` too. With DistributedDataParallel, give its model and use `no_sync` as always: the
    gradients that are held back go out with the first backward that synchronises.

    Args:
        model: Any model; one without normalised layers is left as it is.
        micro_batches: About how many there will be. The gradients do not depend on it; it tells which of the two ways
            to use the map is cheaper for all of them together.

    Raises:
        ValueError: `micro_batches` is not a positive whole number.
        RuntimeError: A block is entered inside another one, or a weight changes inside the block.

    Example:
        >>> import torch
        >>> from aon import normalise
        >>> model = normalise(nn.Linear(4, 3))
        >>> with accumulate(model):
        ...     for x in torch.ones(2, 5, 4):
        ...         model(x).square().mean().backward()
        >>> model.weight.grad.shape
        torch.Size([3, 4])
    """
    if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
        raise ValueError(f"micro_batches={micro_batches!r}: expected a positive whole number")
    layers = [layer for layer in model.modules() if isinstance(layer, NormalisedLayer)]
    if any(layer._shared is not None for layer in layers):
        raise RuntimeError("aon.accumulate: the model is in such a block already")
    for layer in layers:
        layer._shared = SharedWeight(_holds(model), micro_batches)
    try:
        yield
        for layer in layers:
            assert layer._shared is not None
            layer._shared.flush()
    finally:
        for layer in layers:
            layer._shared = None


def _holds(model: nn.Module) -> Callable[[], bool]:
    """Whether gradients are held back: always, or for DDP as long as it does not synchronise."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return lambda: not model.require_backward_grad_sync
    return lambda: True
