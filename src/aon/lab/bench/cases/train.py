"""`bench train`: images a second of `aon train`, relative to a bare loop and to a loop with torch's DataLoader.

After each epoch of `aon train` the other loops do the same number of steps with a network of their own, so that all are
measured in turns in one process. The first turn is a warm-up and not counted.
"""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from aon.lab.bench import record
from aon.lab.bench.loader import loader
from aon.lab.bench.rounds import Repeats
from aon.lab.data import Dataset, train_batches
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Record
from aon.lab.system.checks import check_at_least
from aon.lab.training import machine, preparation
from aon.lab.training import run as training
from aon.lab.training.loop import Parts

ENGINE, BARE, LOADER = "aon train", "bare loop", "DataLoader"
Batches = Iterable[tuple[Tensor, Tensor]]


class Loop:
    """A training loop of a few lines, with a network of its own."""

    def __init__(self, config: RunConfig, data: Dataset, device: torch.device) -> None:
        self.parts, self.device = preparation.assemble(config, data, device), device

    def seconds(self, batches: Batches) -> float:
        """Seconds of one pass over the batches, the making of the batches included."""
        began = time.perf_counter()
        train(self.parts, ((x.to(self.device), y.to(self.device)) for x, y in batches))
        return time.perf_counter() - began


def train(parts: Parts, batches: Batches) -> float:
    """Forward, loss, backward, step, for each batch; the sum of the losses, which waits for the device."""
    parts.model.train()
    total = torch.zeros((), device=next(parts.model.parameters()).device)
    for x, y in batches:
        loss = cross_entropy(parts.model(x), y)
        parts.optimiser.zero_grad(set_to_none=True)
        (loss + parts.penalty() if parts.penalty else loss).backward()
        parts.optimiser.step()
        total += loss.detach()
    return total.item()


class Turns:
    """Called after each epoch of the engine: runs the other loops once and reads the clock."""

    def __init__(self, config: RunConfig, data: Dataset, device: torch.device, workers: int) -> None:
        self.images = len(data.x_train) // config.batch_size * config.batch_size
        ready = list(train_batches(data, config.batch_size, seed=config.seed, epoch=0, augment=config.augment))
        feed = loader(data.to(torch.device("cpu")), config.batch_size, workers)
        self.sources: dict[str, Batches] = {BARE: ready, LOADER: feed}
        self.loops = {name: Loop(config, data, device) for name in self.sources}
        self.speeds: dict[str, Repeats] = {name: [] for name in (BARE, ENGINE, LOADER)}

    def __call__(self, run: Record) -> None:
        """Measure one turn; the engine's own seconds are those of its record, which leave evaluation out."""
        seconds = {name: loop.seconds(self.sources[name]) for name, loop in self._order(len(run.epochs))}
        seconds[ENGINE] = run.epochs[-1].seconds
        if len(run.epochs) > 1:
            for name, value in seconds.items():
                self.speeds[name].append(self.images / value)

    def _order(self, number: int) -> Iterator[tuple[str, Loop]]:
        yield from list(self.loops.items())[:: 1 if number % 2 else -1]


def bench_train(
    config: RunConfig,
    *,
    rounds: int = 5,
    workers: int = 2,
    root: Path | None = None,
    notify: Callable[[str], None] = lambda _: None,
) -> record.BenchRecord:
    """Measure images a second of the engine, of the bare loop on tensors in memory, and of the DataLoader loop.

    Args:
        config: The run; its number of epochs is set to what is needed.
        rounds: Epochs that count, after one that does not.
        workers: Processes of the DataLoader.
        root: Where datasets are kept.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if a number makes no sense, or the run itself cannot be done.
    """
    check_at_least("rounds", rounds)
    check_at_least("workers", workers, least=0)
    config = config.model_copy(update={"epochs": rounds + 1, "spectra_every": 0})
    device = machine.resolve_device(config.device)
    data = preparation.load_data(config, root).to(device)
    turns = Turns(config, data, device, workers)

    def after_epoch(run: Record) -> None:
        notify(f"epoch {len(run.epochs)} of {config.epochs}, then the other loops")
        turns(run)

    with tempfile.TemporaryDirectory(prefix="aon-bench-") as folder:
        training.run(config, Path(folder) / "run", root=root, watch=training.Watch(epoch=after_epoch))
    base = turns.speeds[BARE]
    variants = tuple(record.variant(name, speeds, base) for name, speeds in turns.speeds.items())
    case = record.Case(
        name=f"training, {config.network}, batch {config.batch_size}, {config.method}", base=BARE, variants=variants
    )
    settings = {**config.model_dump(mode="json"), "rounds": rounds, "workers": workers}
    return record.make("train", settings, [case], device=device, unit="images a second")
