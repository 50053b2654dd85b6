"""Execute runs on this machine, each in its own process."""

import os
import queue
from types import TracebackType
from typing import Self

import torch

from aon.lab.experiment.config import RunConfig
from aon.lab.grid.engines.worker import Worker
from aon.lab.grid.events import Ended, Event
from aon.lab.grid.jobs import Job
from aon.lab.system.checks import check_at_least
from aon.lab.training import machine


class LocalEngine:
    """Worker processes; see `Engine`.

    Args:
        workers: Runs at a time.

    Raises:
        LabError: if that is less than one.
    """

    elsewhere = False

    def __init__(self, workers: int) -> None:
        check_at_least("workers", workers)
        self.capacity = workers
        self.cpus_per_run = max(1, machine.cores() // workers)
        self._free = list(range(workers))
        self._working: dict[str, tuple[Worker, int]] = {}
        self._events: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()

    def has_room(self) -> bool:
        """See `Engine`."""
        return bool(self._free)

    def start(self, name: str, job: Job) -> None:
        """See `Engine`."""
        slot = self._free.pop(0)
        config = RunConfig.model_validate(job.config)
        self._working[name] = Worker(name, job, self._events, _surroundings(config, slot)), slot

    def next_event(self, timeout: float) -> tuple[str, Event] | None:
        """See `Engine`."""
        try:
            name, event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(event, Ended):
            _, slot = self._working.pop(name)
            self._free.append(slot)
        return name, event

    def stop(self) -> None:
        """See `Engine`."""
        for worker, _ in self._working.values():
            worker.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for worker, _ in self._working.values():
            worker.kill()


def _surroundings(config: RunConfig, slot: int) -> dict[str, str]:
    """Environment of a worker: its threads, and one GPU of several."""
    threads = str(config.threads or machine.cores())
    shared = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if config.device in ("auto", "cuda") and torch.cuda.device_count() > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        names = visible if len(visible) > 1 else [str(i) for i in range(torch.cuda.device_count())]
        shared["CUDA_VISIBLE_DEVICES"] = names[slot % len(names)]
    return shared
