"""Accumulate gradients with Accelerate, and compute the weight map once for each update.

Without `aon.accumulate` every micro-batch pays for the map. Inside its block the micro-batches of an update share it,
and the gradients are the same up to rounding. Leave the block before the gradients are clipped and the optimiser steps.

Needs: pip install accelerate

    python examples/accelerate_accumulation.py
"""

import contextlib
import copy
from collections.abc import Iterator

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

import aon

MICRO_BATCHES = 4


def chunks(batches: DataLoader[tuple[Tensor, ...]], size: int) -> Iterator[list[tuple[Tensor, ...]]]:
    """The micro-batches of one update after another."""
    group: list[tuple[Tensor, ...]] = []
    for batch in batches:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []


def train(accelerator: Accelerator, model: nn.Module, data: TensorDataset, share: bool) -> list[float]:
    """One epoch; the loss of each update. `share` decides whether the micro-batches share the map."""
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    model, optimiser, batches = accelerator.prepare(model, optimiser, DataLoader(data, batch_size=8))
    losses = []
    for update in chunks(batches, MICRO_BATCHES):
        total = 0.0
        with aon.accumulate(model, MICRO_BATCHES) if share else contextlib.nullcontext():
            for x, y in update:
                with accelerator.accumulate(model):  # divides the loss, and synchronises with the last micro-batch
                    loss = nn.functional.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                total += loss.item() / MICRO_BATCHES
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(total)
    return losses


def main() -> None:
    """Train twice from the same start, and compare the losses and the number of operations."""
    torch.manual_seed(0)
    x = torch.randn(1280, 32)
    data = TensorDataset(x, (x[:, :4].sum(1) > 0).long())
    plain = aon.normalise(
        nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
    )
    shared = copy.deepcopy(plain)
    accelerator = Accelerator(gradient_accumulation_steps=MICRO_BATCHES, cpu=True)
    with FlopCounterMode(display=False) as each:
        expected = train(accelerator, plain, data, share=False)
    with FlopCounterMode(display=False) as once:
        found = train(accelerator, shared, data, share=True)
    difference = max(abs(a - b) for a, b in zip(expected, found, strict=True))
    print(
        f"{len(found)} updates of {MICRO_BATCHES} micro-batches; loss {found[0]:.3f} at first, {found[-1]:.3f} at last"
    )
    print(f"largest difference between the losses of both ways: {difference:.1e}")
    print(f"operations with a shared map: {once.get_total_flops() / each.get_total_flops():.0%} of those without")


if __name__ == "__main__":
    main()
