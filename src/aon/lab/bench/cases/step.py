"""`bench step`: a whole training step under each method, relative to the first method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.nn.utils import parametrize

from aon.lab import models
from aon.lab.bench import record
from aon.lab.bench.peers import plain_autograd
from aon.lab.bench.rounds import Plan, measure
from aon.lab.methods import build
from aon.lab.system.checks import check_at_least
from aon.model.selection import select

CLASSES = 10
IMAGE = (3, 32, 32)
# Small, so that random labels do not drive the weights to values that are slow to compute with.
LEARNING_RATE = 0.01
CPU = torch.device("cpu")
PLAIN_STEP = "bn+aon by plain autograd"


@dataclass(frozen=True)
class Subject:
    """What a benchmark works on: a named network at a width, a batch of random images, a device.

    Raises:
        LabError: if the batch is not a positive number.
    """

    network: str = "vgg16-iternorm"
    width: float = 1.0
    batch: int = 256
    device: torch.device = CPU
    channels_last: bool = False

    def __post_init__(self) -> None:
        check_at_least("batch", self.batch)
        models.check_image_size(self.network, *IMAGE[1:])

    @property
    def name(self) -> str:
        """Network and width in words."""
        return self.network if self.width == 1 else f"{self.network} at width {self.width:g}"

    @property
    def title(self) -> str:
        """Network, width and batch in words."""
        return f"{self.name}, batch {self.batch}{', channels_last' if self.channels_last else ''}"

    def settings(self) -> dict[str, object]:
        """For the record."""
        return {
            "network": self.network,
            "width": self.width,
            "batch": self.batch,
            "device": str(self.device),
            "channels_last": self.channels_last,
        }

    @property
    def memory_format(self) -> torch.memory_format:
        """How images and the weights of convolutions lie in memory."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    def data(self) -> tuple[Tensor, Tensor]:
        """A batch of random images and classes, the same each time."""
        stream = torch.Generator().manual_seed(0)
        x = torch.randn(self.batch, *IMAGE, generator=stream)
        y = torch.randint(CLASSES, (self.batch,), generator=stream)
        return x.to(self.device, memory_format=self.memory_format), y.to(self.device)

    def prepare(self, method: str) -> build.Prepared:
        """The network under a method; its random weights are the same for all methods that have the same layers."""
        torch.manual_seed(0)
        prepared = build.prepare(build.parse(method), self._build)
        prepared.model.to(self.device, memory_format=self.memory_format).train()  # type: ignore[call-overload]
        return prepared

    def plain(self) -> nn.Module:
        """The network with batch normalisation and no weight map."""
        return self.prepare("bn").model

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def _build(self, ingredients: models.Ingredients) -> nn.Module:
        return models.build(self.network, classes=CLASSES, width=self.width, ingredients=ingredients)


class TrainingStep:
    """Forward, loss, penalty, backward, optimiser's step: what a plain training loop does with one batch."""

    def __init__(self, subject: Subject, method: str, *, compiled: bool = False) -> None:
        self.prepared = self.make(subject, method)
        self.model = self.prepared.model
        self.forward: Callable[[Tensor], Tensor] = torch.compile(self.model) if compiled else self.model
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=self.prepared.weight_decay
        )
        self.x, self.y = subject.data()

    def make(self, subject: Subject, method: str) -> build.Prepared:
        """The network, and what the method adds to its training."""
        return subject.prepare(method)

    def __call__(self) -> None:
        """Do one step."""
        self.optimiser.zero_grad(set_to_none=True)
        self.loss(self.x, self.y).backward()
        self.update()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What is minimised, with the method's penalty."""
        loss = cross_entropy(self.forward(x), y)
        return loss + self.prepared.penalty() if self.prepared.penalty else loss

    def update(self) -> None:
        """The optimiser's step. What a method does between epochs, such as bounding, is no part of a step."""
        self.optimiser.step()


class PlainStep(TrainingStep):
    """The step of AON in the most direct form: torch's parametrisation, and autograd for the rest."""

    def make(self, subject: Subject, method: str) -> build.Prepared:
        """The network under the method, its convolutions parametrised."""
        prepared = super().make(subject, method)
        for _, layer in select(prepared.model, exclude=models.classifier_names(prepared.model)):
            parametrize.register_parametrization(layer, "weight", _PlainMap(layer.weight))
        return prepared


class _PlainMap(nn.Module):
    """h(W) by plain autograd; without a gain, as before batch normalisation."""

    u: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.register_buffer("u", normalize(weight.new_ones(len(weight)), dim=0))

    def forward(self, weight: Tensor) -> Tensor:
        H, moved = plain_autograd(weight.flatten(1), self.u)
        self.u.copy_(moved)
        return H.view_as(weight)


def bench_step(
    subject: Subject,
    names: str | Sequence[str],
    plan: Plan,
    *,
    compiled: bool = False,
    plain: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure a training step under each method.

    Args:
        subject: Network, batch and device.
        names: Methods, as a list or separated by commas; the first is what the others are divided by.
        plan: How often.
        compiled: Whether the networks go through torch.compile.
        plain: Whether BN+AON by plain autograd is measured as well.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if a method is unknown or named twice.
    """
    chosen = [str(method) for method in build.parse_list(names if isinstance(names, str) else ",".join(names))]
    steps = {name: TrainingStep(subject, name, compiled=compiled) for name in chosen}
    if plain:
        steps[PLAIN_STEP] = PlainStep(subject, "bn", compiled=compiled)
    measured = measure(steps, plan, notify=notify, wait=subject.wait)
    settings = {**subject.settings(), "methods": chosen, "compiled": compiled, "plain": plain}
    case = record.case(f"training step, {subject.title}", chosen[0], measured)
    return record.make("step", settings, [case], plan=plan, device=subject.device)
