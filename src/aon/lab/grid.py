"""Many runs: each in a process of its own, as many at a time as the machine takes.

A run that fails is reported and does not stop the others. A finished run is never repeated, an interrupted
one continues, and methods and seeds can be added to a comparison at any time.
"""

import os
import queue
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from aon.lab import machine, preparation, records
from aon.lab.comparisons import asked_for, default_workers, described, existing
from aon.lab.config import RunConfig
from aon.lab.errors import LabError
from aon.lab.locks import locked
from aon.lab.plans import Plan
from aon.lab.processes import Event, Worker
from aon.lab.signals import stop_requests
from aon.lab.worker import Job


class Screen(Protocol):
    """Whoever shows how the runs are doing."""

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """All runs of the comparison are known."""

    def event(self, name: str, event: dict[str, Any]) -> None:
        """A run has begun, moved on, finished an epoch, or ended."""

    def stopping(self) -> None:
        """Someone asked to stop; the runs are saving themselves."""

    def end(self) -> None:
        """Nothing more will come."""


@dataclass
class Outcome:
    """What became of the runs that were asked for, by name; `failed` says why."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)


def compare(
    plan: Plan,
    out: Path,
    screen: Screen,
    *,
    workers: int | None = None,
    root: Path | None = None,
    command: Sequence[str] = (),
) -> Outcome:
    """Do every run of a plan that is not done yet.

    Args:
        plan: What was asked for.
        out: The comparison directory; made, continued, or added to.
        screen: Shows how it goes.
        workers: Runs at a time; what the machine takes, if not given.
        root: Where datasets are kept; the usual place if not given.
        command: What the user typed, for the report.

    Raises:
        LabError: before any work, on a bad value, missing data, or a directory with other settings.
    """
    if workers is not None and workers < 1:
        raise LabError(f"workers = {workers}: should be at least 1")
    old = existing(plan, out)
    preparation.check([plan.base.but(method=method) for method in plan.methods], root)
    with locked(out, patience=2.0):
        number = workers or default_workers(plan.base, len(plan.methods) * len(plan.seeds))
        comparison = described(plan, old, number, command)
        records.save_comparison(comparison, out)
        runs = asked_for(plan, comparison)
        screen.begin(out, runs, number)
        try:
            return _Grid(out, runs, screen, number, root).run()
        finally:
            screen.end()


class _Grid:
    """Runs that wait, runs at work, and what became of the rest."""

    def __init__(self, out: Path, runs: Sequence[RunConfig], screen: Screen, workers: int, root: Path | None) -> None:
        self.out, self.screen, self.root = out, screen, root
        self.waiting = {run.run_id(): run for run in runs}
        self.free = list(range(workers))
        self.working: dict[str, tuple[Worker, int]] = {}
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.outcome = Outcome()
        self.stopping = False

    def run(self) -> Outcome:
        self._skip_finished()
        with stop_requests() as stop:
            try:
                while self.waiting or self.working:
                    if stop.is_set() and not self.stopping:
                        self._wind_down()
                    while self.free and self.waiting:
                        self._start()
                    self._listen()
            finally:
                for worker, _ in list(self.working.values()):
                    worker.kill()
        return self.outcome

    def _folder(self, name: str) -> Path:
        return self.out / "runs" / name

    def _skip_finished(self) -> None:
        for name in list(self.waiting):
            if (self._folder(name) / records.RECORD).exists() and records.load(self._folder(name)).status == "done":
                del self.waiting[name]
                self.outcome.done.append(name)
                self.screen.event(name, {"kind": "exit", "status": "done", "error": None, "earlier": True})

    def _start(self) -> None:
        name = next(iter(self.waiting))
        config, slot = self.waiting.pop(name), self.free.pop(0)
        job = Job(config.model_dump(mode="json"), str(self._folder(name)), str(self.root) if self.root else None)
        self.working[name] = Worker(name, job, self.events, _surroundings(config, slot)), slot
        self.screen.event(name, {"kind": "begin"})

    def _listen(self) -> None:
        try:
            name, event = self.events.get(timeout=0.2)
        except queue.Empty:
            return
        if event["kind"] == "exit":
            self._ended(name, event["status"], event["error"])
        self.screen.event(name, event)

    def _ended(self, name: str, status: records.Status, error: str | None) -> None:
        _, slot = self.working.pop(name)
        self.free.append(slot)
        if status == "done":
            self.outcome.done.append(name)
        elif status == "interrupted":
            self.outcome.unfinished.append(name)
        else:
            self.outcome.failed[name] = error or "no reason given"
            self._note_failure(name, error)

    def _note_failure(self, name: str, error: str | None) -> None:
        """A process that was killed could not say so in its record."""
        with suppress(LabError):  # no record yet, or none that can be read: the outcome tells it all the same
            record = records.load(self._folder(name))
            if record.status == "running":
                records.save(record.but(status="failed", error=error), self._folder(name))

    def _wind_down(self) -> None:
        """Let the runs save themselves and end; those that wait stay as they are."""
        self.stopping = True
        self.screen.stopping()
        self.outcome.unfinished += self.waiting
        self.waiting.clear()
        for worker, _ in self.working.values():
            worker.stop()


def _surroundings(config: RunConfig, slot: int) -> dict[str, str]:
    """Environment of a worker: its threads, and one GPU of several."""
    threads = str(config.threads or machine.cores())
    shared = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if config.device in ("auto", "cuda") and torch.cuda.device_count() > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        names = visible if len(visible) > 1 else [str(i) for i in range(torch.cuda.device_count())]
        shared["CUDA_VISIBLE_DEVICES"] = names[slot % len(names)]
    return shared
