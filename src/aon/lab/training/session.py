"""Train a run epoch by epoch; save and restore its whole state."""

import errno
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from aon.lab.data import Dataset, Part, eval_batches, train_batches
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import EpochRow, Images, Record
from aon.lab.methods.grammar import parse
from aon.lab.training import about, checkpoints, machine, preparation, sources
from aon.lab.training.diagnosis import diagnose, is_sound
from aon.lab.training.loop import Totals, eval_steps, train_steps
from aon.lab.training.ranks import ALONE, Ranks
from aon.lab.training.tracking import log_epoch

LOG = "log.txt"
# Steps from one look at the loss to the next: a look waits for the device.
FINITE_EVERY = 50


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
    """Callbacks and intervals of a run.

    Attributes:
        progress: Called from time to time with the position of the run.
        notice: Called with a line that the user should see while the run continues.
        epoch: Called with the record after every epoch.
        stop: Called after each step; if it returns True, the run saves itself and stops.
        every: Least seconds between two calls of `progress`.
        save_every: Least seconds between two checkpoints within an epoch; there is always one after it.
    """

    progress: Callable[[Progress], None] = lambda _: None
    notice: Callable[[str], None] = lambda _: None
    epoch: Callable[[Record], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    every: float = 0.5
    save_every: float = 300.0


class Session:
    """The state of a run between its steps."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        data: Dataset,
        device: torch.device,
        watch: Watch,
        ranks: Ranks = ALONE,
    ) -> None:
        self.config, self.folder, self.data, self.device, self.watch = config, folder, data, device, watch
        self.ranks = ranks
        self.parts = preparation.assemble(config, data, device, ranks)
        self.totals = Totals.zero(device)
        self.finite_steps = torch.zeros((), dtype=torch.long, device=device)
        self.steps = steps = len(data.x_train) // config.batch_size
        self.scheduler = LambdaLR(
            self.parts.optimiser, lambda step: config.learning_rate_at(step / steps) / config.learning_rate
        )
        self.record = Record(
            status="running",
            config=config,
            label=parse(config.method).label,
            environment=machine.environment(device, ranks.world),
            parameters=sum(p.numel() for p in self.parts.model.parameters()),
            images=Images(train=len(data.x_train), test=len(data.x_test), validation=config.validation_size or 0),
            fingerprints=sources.fingerprints(config, data),
        )
        self.saved = self.reported_at = time.perf_counter()
        (continues,) = ranks.agree(ranks.first and checkpoints.exists(folder))
        if continues:
            self._restore()

    def run(self) -> Record:
        """Do all epochs; the record on disk always says how far the run got."""
        try:
            self._write("running")
            for epoch in range(len(self.record.epochs), self.config.epochs):
                self._epoch(epoch)
            return self._finish()
        except (StoppedError, KeyboardInterrupt):
            self._end("interrupted")
            raise
        except LabError as error:
            self._end("failed", str(error))
            raise
        except Exception as error:
            self._log_traceback()
            reason = reason_of(error)
            self._end("failed", reason)
            raise RunError(f"{reason} (see {self.folder / LOG})") from error

    def _log_traceback(self) -> None:
        if self.ranks.first:
            with suppress(OSError), (self.folder / LOG).open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)

    def _end(self, status: records.Status, error: str | None = None) -> None:
        """Write the end of the run to the record, if the disk has room."""
        with suppress(LabError):
            self._write(status, error)

    def _epoch(self, epoch: int) -> None:
        self._between_epochs(epoch)
        train = self._train(epoch)
        self.ranks.share_buffers(self.parts.model)
        began = time.perf_counter()
        val_loss, val_accuracy, _ = self._evaluate(epoch, "validation" if self.config.validation_size else "test")
        reported = self.config.validation_size and epoch >= self.config.epochs - records.REPORTED_EPOCHS
        test_loss, test_accuracy, _ = self._evaluate(epoch, "test") if reported else (None, None, None)
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
            learning_rate=self.config.learning_rate_at(epoch),
            test_loss=test_loss,
            test_accuracy=test_accuracy,
            spectra=self._spectra(epoch + 1),
        )
        self.record = self.record.but(epochs=(*self.record.epochs, row))
        self.totals = Totals.zero(self.device)
        self._keep(row)

    def _between_epochs(self, epoch: int) -> None:
        """Do what the method does between epochs, such as singular value bounding, before `epoch` (from 0) begins.

        It follows validation, since the running averages of batch normalisation belong to the weights before it,
        and the checkpoint. A run that continues from that checkpoint has done no step of this epoch, and does it then;
        one that continues from within the epoch has done it already.
        """
        due = epoch > 0 and epoch % self.parts.after_epoch_every == 0 and self.totals.steps == 0
        if self.parts.after_epoch and due:
            self.parts.after_epoch()

    def _train(self, epoch: int) -> tuple[float, float, float]:
        batches = train_batches(
            self.data,
            self.config.batch_size,
            seed=self.config.seed,
            epoch=epoch,
            augment=self.config.augment,
            part=self.ranks.part,
        )
        # The augmentation of an epoch depends on seed and epoch alone: steps already done are passed over.
        began, before = time.perf_counter(), self.totals.seconds
        rest, done = islice(batches, self.totals.steps, None), epoch * self.steps
        size, seed = self.config.batch_size, self.config.seed
        self.finite_steps = torch.tensor(self.totals.steps, device=self.device)
        for _ in train_steps(self.parts, rest, self.totals, done, images=size, seed=seed):
            self.finite_steps += self.totals.is_finite()
            if self.totals.steps % FINITE_EVERY == 0:
                self._check_finite(epoch)
            self.scheduler.step()
            self.totals.seconds = before + time.perf_counter() - began
            self._after_step(epoch)
        means = self.totals.means()  # waits for the device, so the clock is read once more
        self.totals.seconds = before + time.perf_counter() - began
        self._check_finite(epoch)
        return means

    def _check_finite(self, epoch: int) -> None:
        """Stop a run whose loss is no longer a number; waits for the device."""
        if not bool(self.totals.is_finite()):
            raise self._broken(f"the training loss of epoch {epoch + 1} is not finite from step")

    def _broken(self, what: str) -> RunError:
        step = min(int(self.finite_steps) + 1, self.steps)
        good = None
        if checkpoints.exists(self.folder):
            with suppress(LabError):
                good = checkpoints.load(checkpoints.latest(self.folder)[0])["model"]
        reason = diagnose(self.parts.model, good)
        kept = "; its last good checkpoint is kept" if good is not None else ""
        return RunError(f"{what} {step} of {self.steps} on: {reason}{kept}")

    def _evaluate(self, epoch: int, part: Part) -> tuple[float, float, float]:
        totals = Totals.zero(self.device)
        batches = eval_batches(self.data, self.config.batch_size, part, self.ranks.part)
        for _ in eval_steps(self.parts, batches, totals):
            self._after_step(epoch)
        totals.gather(self.ranks)
        return totals.means()

    def _test_best_epoch(self) -> None:
        """Test the weights of the best epoch by validation; the model holds those afterwards."""
        best = self.record.best
        if best is None or best.test_accuracy is not None:
            return
        with self.ranks.copy_of(self.folder / checkpoints.BEST) as path:
            weights, _ = checkpoints.load_weights(path)
        self.parts.model.load_state_dict(weights)
        totals = Totals.zero(self.device)
        batches = eval_batches(self.data, self.config.batch_size, share=self.ranks.part)
        for _ in eval_steps(self.parts, batches, totals):
            if any(self.ranks.agree(self.watch.stop())):  # nothing to save: the last epoch's checkpoint stands
                raise StoppedError("stopped while testing the best epoch")
        totals.gather(self.ranks)
        loss, accuracy, _ = totals.means()
        rows = list(self.record.epochs)
        rows[best.epoch - 1] = rows[best.epoch - 1].model_copy(update={"test_loss": loss, "test_accuracy": accuracy})
        self.record = self.record.but(epochs=tuple(rows))

    def _after_step(self, epoch: int) -> None:
        now = time.perf_counter()
        stop, save = self.ranks.agree(self.watch.stop(), self.ranks.first and now - self.saved > self.watch.save_every)
        if stop:
            self._save()
            raise StoppedError(f"stopped in epoch {epoch + 1} of {self.config.epochs}")
        if save:
            self._save()
        if now - self.reported_at > self.watch.every:
            self.reported_at = now
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
        wanted = self.ranks.first and every and (epoch % every == 0 or epoch == self.config.epochs)
        return preparation.spectra(self.parts.model, self.config) if wanted else None

    def _keep(self, row: EpochRow) -> None:
        if self.record.best and self.record.best.epoch == row.epoch:
            self._weights(checkpoints.BEST)
        self._save()
        self._write("running")
        if self.ranks.first:
            log_epoch(self.folder, row)
        self.watch.epoch(self.record)

    def _finish(self) -> Record:
        self._weights(checkpoints.LAST)
        self._test_best_epoch()
        self._write("done")
        # Its weights and record are complete; the optimiser's state would only fill the disk.
        if self.ranks.first:
            checkpoints.remove(self.folder)
        return self.record

    def _weights(self, name: str) -> None:
        if self.ranks.first:
            checkpoints.save_weights(self.folder / name, self.parts.model.state_dict(), self._about())

    def _about(self) -> dict[str, Any]:
        """Metadata of a weights file, enough to rebuild the network from the file alone."""
        return about.describing(self.config, self.data, len(self.record.epochs))

    def _write(self, status: records.Status, error: str | None = None) -> None:
        self.record = self.record.but(status=status, error=error)
        if self.ranks.first:
            records.save(self.record, self.folder)

    def _stateful(self) -> Iterator[tuple[str, Any]]:
        yield "model", self.parts.model
        yield "optimiser", self.parts.optimiser
        yield "scheduler", self.scheduler
        yield "scaler", self.parts.scaler

    def _save(self) -> None:
        if not is_sound(self.parts.model):  # a good checkpoint is never replaced by a broken one
            epoch = len(self.record.epochs) + (self.totals.steps > 0)
            raise self._broken(f"the weights of epoch {epoch} are not finite from step")
        self.saved = time.perf_counter()
        if not self.ranks.first:
            return
        state = {name: part.state_dict() for name, part in self._stateful()}
        # The schedule is a function of the configuration; torch would save None for it.
        state["scheduler"].pop("lr_lambdas", None)
        state |= {"random": checkpoints.random_states(), "totals": self.totals.state()}
        state |= {"record": self.record.model_dump_json(), "about": self._about()}
        checkpoints.save(self.folder / checkpoints.CHECKPOINT, state)
        self.saved = time.perf_counter()

    def _restore(self) -> None:
        path = self.folder / checkpoints.CHECKPOINT
        path, fault = checkpoints.latest(self.folder) if self.ranks.first else (path, None)
        with self.ranks.copy_of(path) as copy:
            state = checkpoints.load(copy, self.device)
        if fault:
            self.watch.notice(f"{fault}; the run continues from the checkpoint before it")
        try:
            record = Record.model_validate_json(state["record"])
            state["scheduler"]["lr_lambdas"] = [None]
            for name, part in self._stateful():
                part.load_state_dict(state[name])
            self.totals = Totals(**state["totals"])
            checkpoints.restore_random_states(state["random"])
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise LabError(f"{path} does not fit this run; delete it to begin again") from error
        sources.check_same(record.fingerprints, self.record.fingerprints, self.folder)
        self.record = record


def reason_of(error: Exception) -> str:
    """Why a run could not go on, in one line for the record.

    Args:
        error: Whatever was raised.
    """
    text = " ".join(str(error).split())[:300]
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"cannot write {error.filename or 'its files'}: {error.strerror}"
    memory = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text
    if "closed by peer" in text or "reset by peer" in text:  # gloo's words
        return f"another process of this run was lost: {text}"
    return f"out of memory: {text}" if memory else f"{type(error).__name__}: {text}"
