"""The state of a run between its steps: how an epoch is done, how all of it is saved and found again."""

import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from aon.lab import checkpoints, machine, preparation, records
from aon.lab.config import RunConfig
from aon.lab.data import Dataset, eval_batches, train_batches
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.grammar import parse
from aon.lab.loop import Totals, eval_steps, train_steps
from aon.lab.records import EpochRow, Images, Record
from aon.lab.tracking import log_epoch

LOG = "log.txt"


@dataclass(frozen=True)
class Progress:
    """Where a run is: step of steps, epoch of epochs (from 1), and its speed in images a second."""

    epoch: int
    epochs: int
    step: int
    steps: int
    speed: float


@dataclass(frozen=True)
class Watch:
    """How a run is watched and held.

    Attributes:
        progress: Told now and then where the run is.
        epoch: Told of every epoch that has ended.
        stop: Asked after each step; when it says yes, the run saves itself and stops.
        every: Least seconds between two calls of `progress`.
        save_every: Least seconds between two checkpoints within an epoch; there is always one after it.
    """

    progress: Callable[[Progress], None] = lambda _: None
    epoch: Callable[[Record], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    every: float = 0.5
    save_every: float = 300.0


class Session:
    """The state of a run between its steps."""

    def __init__(self, config: RunConfig, folder: Path, data: Dataset, device: torch.device, watch: Watch) -> None:
        self.config, self.folder, self.data, self.device, self.watch = config, folder, data, device, watch
        self.parts = preparation.assemble(config, data, device)
        self.scheduler = LambdaLR(
            self.parts.optimiser, lambda epoch: config.learning_rate_at(epoch) / config.learning_rate
        )
        self.totals = Totals.zero(device)
        self.steps = len(data.x_train) // config.batch_size
        self.record = Record(
            status="running",
            config=config,
            label=parse(config.method).label,
            environment=machine.environment(device),
            parameters=sum(p.numel() for p in self.parts.model.parameters()),
            images=Images(train=len(data.x_train), test=len(data.x_test)),
        )
        self.saved = self.told = time.perf_counter()
        if (folder / checkpoints.CHECKPOINT).exists():
            self._restore()

    def run(self) -> Record:
        """Do all epochs; whatever happens, the record on disk tells it."""
        try:
            self._write("running")
            for epoch in range(len(self.record.epochs), self.config.epochs):
                self._epoch(epoch)
            return self._finish()
        except (StoppedError, KeyboardInterrupt):
            self._write("interrupted")
            raise
        except LabError as error:
            self._write("failed", str(error))
            raise
        except Exception as error:
            with (self.folder / LOG).open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            reason = _reason(error)
            self._write("failed", reason)
            raise RunError(f"{reason} (see {self.folder / LOG})") from error

    def _epoch(self, epoch: int) -> None:
        rate = self.parts.optimiser.param_groups[0]["lr"]
        train = self._train(epoch)
        began = time.perf_counter()
        val_loss, val_accuracy, _ = self._evaluate(epoch)
        eval_seconds = time.perf_counter() - began
        row = EpochRow(
            epoch=epoch + 1,
            train_loss=train[0],
            train_accuracy=train[1],
            val_loss=val_loss,
            val_accuracy=val_accuracy,
            penalty=train[2] if self.parts.penalty else None,
            seconds=self.totals.seconds,
            eval_seconds=eval_seconds,
            learning_rate=rate,
            spectra=self._spectra(epoch + 1),
        )
        self.record = self.record.but(epochs=(*self.record.epochs, row))
        self._next_rate()
        self.totals = Totals.zero(self.device)
        self._keep(row)

    def _next_rate(self) -> None:
        # torch warns if this process has made no step yet; a run continued at the end of an epoch has not.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step")
            self.scheduler.step()

    def _train(self, epoch: int) -> tuple[float, float, float]:
        batches = train_batches(
            self.data, self.config.batch_size, seed=self.config.seed, epoch=epoch, augment=self.config.augment
        )
        # The augmentation of an epoch depends on seed and epoch alone: steps already done are passed over.
        began, before = time.perf_counter(), self.totals.seconds
        rest, done = islice(batches, self.totals.steps, None), epoch * self.steps
        for _ in train_steps(self.parts, rest, self.totals, done):
            self.totals.seconds = before + time.perf_counter() - began
            self._after_step(epoch)
        means = self.totals.means()  # waits for the device, so the clock is read once more
        self.totals.seconds = before + time.perf_counter() - began
        if not all(isfinite(value) for value in means):
            raise RunError(f"the training loss of epoch {epoch + 1} is not finite ({means[0]})")
        return means

    def _evaluate(self, epoch: int) -> tuple[float, float, float]:
        totals = Totals.zero(self.device)
        for _ in eval_steps(self.parts, eval_batches(self.data, self.config.batch_size), totals):
            self._after_step(epoch)
        return totals.means()

    def _after_step(self, epoch: int) -> None:
        now = time.perf_counter()
        if self.watch.stop():
            self._save()
            raise StoppedError(f"stopped in epoch {epoch + 1} of {self.config.epochs}")
        if now - self.saved > self.watch.save_every:
            self._save()
        if now - self.told > self.watch.every:
            self.told = now
            self.watch.progress(self._progress(epoch))

    def _progress(self, epoch: int) -> Progress:
        totals = self.totals
        return Progress(
            epoch=epoch + 1,
            epochs=self.config.epochs,
            step=totals.steps,
            steps=self.steps,
            speed=totals.images / totals.seconds if totals.seconds else 0.0,
        )

    def _spectra(self, epoch: int) -> tuple[records.SpectrumRow, ...] | None:
        every = self.config.spectra_every
        wanted = every and (epoch % every == 0 or epoch == self.config.epochs)
        return preparation.spectra(self.parts.model, self.config) if wanted else None

    def _keep(self, row: EpochRow) -> None:
        if self.record.best and self.record.best.epoch == row.epoch:
            self._weights(checkpoints.BEST)
        self._save()
        self._write("running")
        log_epoch(self.folder, row)
        self.watch.epoch(self.record)

    def _finish(self) -> Record:
        self._weights(checkpoints.LAST)
        self._write("done")
        # Its weights and record are complete; the optimiser's state would only fill the disk.
        (self.folder / checkpoints.CHECKPOINT).unlink(missing_ok=True)
        return self.record

    def _weights(self, name: str) -> None:
        checkpoints.save_weights(self.folder / name, self.parts.model.state_dict(), self._about())

    def _about(self) -> dict[str, Any]:
        """What a file of weights says of itself, so that the network can be rebuilt from it alone."""
        return {
            "config": self.config.identity(),
            "classes": list(self.data.classes),
            "image": list(self.data.x_train.shape[1:]),
            "epoch": len(self.record.epochs),
        }

    def _write(self, status: records.Status, error: str | None = None) -> None:
        self.record = self.record.but(status=status, error=error)
        records.save(self.record, self.folder)

    def _stateful(self) -> Iterator[tuple[str, Any]]:
        yield "model", self.parts.model
        yield "optimiser", self.parts.optimiser
        yield "scheduler", self.scheduler
        yield "scaler", self.parts.scaler

    def _save(self) -> None:
        state = {name: part.state_dict() for name, part in self._stateful()}
        # The schedule is a function of the configuration; torch would save None for it.
        state["scheduler"].pop("lr_lambdas", None)
        state |= {"random": checkpoints.random_states(), "totals": self.totals.state()}
        state |= {"record": self.record.model_dump_json(), "about": self._about()}
        checkpoints.save(self.folder / checkpoints.CHECKPOINT, state)
        self.saved = time.perf_counter()

    def _restore(self) -> None:
        path = self.folder / checkpoints.CHECKPOINT
        state = checkpoints.load(path, self.device)
        try:
            record = Record.model_validate_json(state["record"])
            state["scheduler"]["lr_lambdas"] = [None]
            for name, part in self._stateful():
                part.load_state_dict(state[name])
            self.totals = Totals(**state["totals"])
            checkpoints.restore_random_states(state["random"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise LabError(f"{path} does not fit this run; delete it to begin again") from error
        self.record = record


def _reason(error: Exception) -> str:
    """One line for the record."""
    text = " ".join(str(error).split())[:300]
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text
    return f"out of memory: {text}" if memory else f"{type(error).__name__}: {text}"
