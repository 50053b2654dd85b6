"""Gradient accumulation: compute the map once for each update instead of once for each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn, optim
from torch.optim.optimizer import register_optimizer_step_pre_hook

from aon.kernels.checks import check_count
from aon.model.layers import NormalisedLayer
from aon.model.sharing import SharedWeight


@contextmanager
def accumulate(model: nn.Module, micro_batches: int = 4) -> Iterator[None]:
    """Let all forwards of one update share the map: its forward and backward are done once for all of them.

    This is for gradient accumulation, and for a layer that is used many times in one forward, as in a recurrent
    network. The gradients are those of the plain way, to rounding. They are complete when the block ends: clip them and
    take the optimiser's step after it. Inside, the gradient of a `weight` lacks what comes through the map, by
    `torch.autograd.grad` too. `zero_grad()` inside drops what was gathered before it. With DistributedDataParallel,
    give its model and use `no_sync` as always: the gradients that are held back go out with the first backward that
    synchronises.

    Args:
        model: Any model; one without normalised layers is left as it is.
        micro_batches: About how many times each layer will be used. The gradients do not depend on it; it tells which
            of the two ways to use the map is cheaper for all of them together.

    Raises:
        ValueError: `micro_batches` is not a positive whole number.
        RuntimeError: A block is entered inside another one, a weight or gain changes inside the block (on another
            device than the CPU, writes through `.data` are not seen), an optimiser of the model takes a step inside it,
            gradients are clipped or unscaled inside it, or `backward()` comes after it.

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
    check_count("micro_batches", micro_batches)
    layers = [layer for layer in model.modules() if isinstance(layer, NormalisedLayer)]
    if any(layer._shared is not None for layer in layers):
        raise RuntimeError("aon.accumulate: the model is in such a block already")
    for layer in layers:
        layer._shared = SharedWeight(_holds(model), micro_batches)
    no_steps = register_optimizer_step_pre_hook(_refuse_steps(layers))
    try:
        yield
        for layer in layers:
            layer.flush_shared()
    finally:
        no_steps.remove()
        for layer in layers:
            layer.end_sharing()


def _holds(model: nn.Module) -> Callable[[], bool]:
    """Whether gradients are held back: always, or for DDP as long as it does not synchronise."""
    if isinstance(model, nn.parallel.DistributedDataParallel):
        return lambda: not model.require_backward_grad_sync
    return lambda: True


def _refuse_steps(layers: list[NormalisedLayer]) -> Callable[[optim.Optimizer, Any, Any], None]:
    """A hook for all optimisers that refuses a step on these layers, whose gradients are not complete."""
    mine = {id(p) for layer in layers for p in layer.mapped_parameters()}

    def refuse(optimiser: optim.Optimizer, *_: Any) -> None:
        if any(id(p) in mine for group in optimiser.param_groups for p in group["params"]):
            raise RuntimeError("optimiser.step() inside aon.accumulate: the gradients are not complete; step after it")

    return refuse
