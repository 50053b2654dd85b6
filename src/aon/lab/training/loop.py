"""Loops of training and evaluation that never wait for the device.

Sums are kept on the device and read once an epoch, so a step here costs what a step of a plain loop costs.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from aon.lab.experiment.config import Precision
from aon.lab.training.ranks import ALONE, Ranks

Batches = Iterable[tuple[Tensor, Tensor]]
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Parts:
    """What a step needs.

    Attributes:
        model: The network, as it is saved.
        forward: The network, as it is called in training: itself, its compiled form, or with DDP around it.
        forward_in_eval: The network, as it is called in evaluation; `forward` if not given.
        optimiser: Already holding the model's parameters.
        scaler: Scales the loss under fp16; does nothing otherwise.
        precision: float32, bf16 or fp16.
        penalty: Added to the loss, if the method has one.
        after_epoch: Called between epochs, if the method asks for it; see `Session`.
        after_epoch_every: Epochs from one such call to the next.
        memory_format: How batches of images lie in memory.
        ranks: This process among those of the run.
    """

    model: nn.Module
    forward: Callable[[Tensor], Tensor]
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: Precision = "float32"
    penalty: Callable[[], Tensor] | None = None
    after_epoch: Callable[[], object] | None = None
    after_epoch_every: int = 1
    memory_format: torch.memory_format = torch.contiguous_format
    forward_in_eval: Callable[[Tensor], Tensor] | None = None
    ranks: Ranks = ALONE


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

    def add(
        self,
        loss: Tensor,
        logits: Tensor,
        y: Tensor,
        penalty: Tensor | None = None,
        *,
        ranks: Ranks = ALONE,
        images: int | None = None,
    ) -> None:
        """Count one batch, without waiting for it.

        Args:
            loss: Its mean loss.
            logits: The network's output.
            y: The true classes.
            penalty: The method's penalty, the same on all ranks.
            ranks: The processes to sum over, each with its part of the batch; this one alone if not given.
            images: Images of the whole batch, if it has several parts.
        """
        self.loss += ranks.sum(loss.detach() * len(y))
        self.correct += ranks.sum((logits.detach().argmax(1) == y).sum())
        if penalty is not None:
            self.penalty += penalty.detach()
        self.steps += 1
        self.images += len(y) if images is None else images

    def gather(self, ranks: Ranks) -> None:
        """Make sums that each process kept of its own parts those of all.

        Args:
            ranks: The processes.
        """
        ranks.sum(self.loss)
        ranks.sum(self.correct)
        self.images = int(ranks.sum(torch.tensor(self.images, device=self.loss.device)))

    def is_finite(self) -> Tensor:
        """Whether all losses so far are finite, on the device: nothing waits for it."""
        return (self.loss + self.penalty).isfinite()

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


def train_steps(
    parts: Parts, batches: Batches, totals: Totals, done: int = 0, *, images: int | None = None, seed: int = 0
) -> Iterator[None]:
    """Train on the batches, one for each item taken.

    Args:
        parts: The network and what changes it.
        batches: Images and classes, on the device.
        totals: Sums to add to.
        done: Steps before those that `totals` counts.
        images: Images of a whole batch, where each process sees a part.
        seed: The run's, for random numbers that each process draws for itself.
    """
    parts.model.train()
    for x, y in batches:
        parts.ranks.draw_own(seed, done + totals.steps)
        with autocast(parts.precision, x.device):
            logits = parts.forward(x.contiguous(memory_format=parts.memory_format))
        loss = cross_entropy(logits.float(), y)
        penalty = parts.penalty() if parts.penalty else None
        parts.optimiser.zero_grad(set_to_none=True)
        whole = _of_the_whole(loss, len(y), images, parts.ranks)
        parts.scaler.scale(whole if penalty is None else whole + penalty).backward()
        parts.scaler.step(parts.optimiser)
        parts.scaler.update()
        totals.add(loss, logits, y, penalty, ranks=parts.ranks, images=images)
        yield


def _of_the_whole(loss: Tensor, size: int, images: int | None, ranks: Ranks) -> Tensor:
    """This rank's share of the mean loss over the whole batch, times the number of ranks by which DDP will divide."""
    if images is None or size * ranks.world == images:
        return loss
    return loss * (size * ranks.world / images)


def eval_steps(parts: Parts, batches: Batches, totals: Totals) -> Iterator[None]:
    """Evaluate on the batches, one for each item taken; the model changes in nothing but its mode.

    The sums are those of this process's parts until `Totals.gather`.

    Args:
        parts: The network.
        batches: Images and classes, on the device.
        totals: Sums to add to.
    """
    parts.model.eval()
    forward = parts.forward_in_eval or parts.forward
    for x, y in batches:
        if len(y):  # the last batch can have fewer images than there are processes
            with torch.no_grad(), autocast(parts.precision, x.device):
                logits = forward(x.contiguous(memory_format=parts.memory_format)).float()
                totals.add(cross_entropy(logits, y), logits, y)
        yield
