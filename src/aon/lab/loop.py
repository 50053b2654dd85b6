"""The bare loops of training and evaluation: nothing in them waits for the device.

Sums are kept on the device and read once an epoch, so a step here costs what a step of a plain loop costs.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from aon.lab.config import Precision

Batches = Iterable[tuple[Tensor, Tensor]]
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Parts:
    """What a step needs.

    Attributes:
        model: The network, as it is saved.
        forward: The network, as it is called: itself, or its compiled form.
        optimiser: Already holding the model's parameters.
        scaler: Scales the loss under fp16; does nothing otherwise.
        precision: float32, bf16 or fp16.
        penalty: Added to the loss, if the method has one.
        after_step: Called after the optimiser, if the method asks for it.
        after_step_every: Steps of the optimiser from one such call to the next.
    """

    model: nn.Module
    forward: Callable[[Tensor], Tensor]
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: Precision = "float32"
    penalty: Callable[[], Tensor] | None = None
    after_step: Callable[[], object] | None = None
    after_step_every: int = 1


@dataclass
class Totals:
    """Sums over the steps of an epoch, on the device; `seconds` is kept by whoever holds the clock."""

    loss: Tensor
    penalty: Tensor
    correct: Tensor
    steps: int = 0
    images: int = 0
    seconds: float = 0.0

    @classmethod
    def zero(cls, device: torch.device) -> "Totals":
        """Sums before the first step.

        Args:
            device: Where the steps are computed.
        """
        zero = torch.zeros((), device=device)
        return cls(zero, zero.clone(), zero.long())

    def add(self, loss: Tensor, logits: Tensor, y: Tensor, penalty: Tensor | None = None) -> None:
        """Count one batch, without waiting for it.

        Args:
            loss: Its mean loss.
            logits: The network's output.
            y: The true classes.
            penalty: The method's penalty.
        """
        self.loss += loss.detach() * len(y)
        self.correct += (logits.detach().argmax(1) == y).sum()
        if penalty is not None:
            self.penalty += penalty.detach()
        self.steps += 1
        self.images += len(y)

    def means(self) -> tuple[float, float, float]:
        """Mean loss, accuracy in percent, and mean penalty; waits for the device."""
        images, steps = max(self.images, 1), max(self.steps, 1)
        return self.loss.item() / images, 100 * self.correct.item() / images, self.penalty.item() / steps

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return dict(vars(self))


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The context a forward pass runs in.

    Args:
        precision: float32, bf16 or fp16.
        device: Where it is computed.
    """
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_AUTOCAST[precision])


def train_steps(parts: Parts, batches: Batches, totals: Totals, done: int = 0) -> Iterator[None]:
    """Train on the batches, one for each item taken.

    Args:
        parts: The network and what changes it.
        batches: Images and classes, on the device.
        totals: Sums to add to.
        done: Steps before those that `totals` counts.
    """
    parts.model.train()
    for x, y in batches:
        with autocast(parts.precision, x.device):
            logits = parts.forward(x)
        loss = cross_entropy(logits.float(), y)
        penalty = parts.penalty() if parts.penalty else None
        parts.optimiser.zero_grad(set_to_none=True)
        parts.scaler.scale(loss if penalty is None else loss + penalty).backward()
        parts.scaler.step(parts.optimiser)
        parts.scaler.update()
        totals.add(loss, logits, y, penalty)
        if parts.after_step and (done + totals.steps) % parts.after_step_every == 0:
            parts.after_step()
        yield


def eval_steps(parts: Parts, batches: Batches, totals: Totals) -> Iterator[None]:
    """Evaluate on the batches, one for each item taken; the model changes in nothing but its mode.

    Args:
        parts: The network.
        batches: Images and classes, on the device.
        totals: Sums to add to.
    """
    parts.model.eval()
    for x, y in batches:
        with torch.no_grad(), autocast(parts.precision, x.device):
            logits = parts.forward(x).float()
            totals.add(cross_entropy(logits, y), logits, y)
        yield
