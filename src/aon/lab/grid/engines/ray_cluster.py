"""Execute runs as tasks of a Ray cluster. Files are sent back to the driver: no shared file system is needed.

A run whose node or process is lost begins again elsewhere from the last checkpoint that reached the driver.
"""

import logging
import os
import socket
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aon.lab.data import load
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import RECORD
from aon.lab.grid.engines.ray_task import Letter, Mailbox, do_run
from aon.lab.grid.events import Began, Ended, EpochDone, Event
from aon.lab.grid.jobs import Job
from aon.lab.system.checks import check_at_least
from aon.lab.system.files import replacing
from aon.lab.training import checkpoints
from aon.lab.training.checkpoints import BEST, CHECKPOINT
from aon.lab.training.run import LOG

# A run fails after being lost this many times without an epoch in between.
LOSSES = 5
_CONTINUES_FROM = (CHECKPOINT, BEST, LOG, RECORD)


@dataclass
class _Task:
    """A run that was submitted."""

    job: Job
    attempt: str
    reference: Any
    begun: bool = False
    losses: int = 0


def _check_answers(address: str | None) -> None:
    """Find out in seconds that nobody listens; Ray itself tries for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # auto, local, or an address that Ray looks up
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise LabError(f"no Ray cluster answers at {address}: {error}") from error


class RayEngine:
    """Tasks of a Ray cluster; see `Engine`.

    Args:
        address: The cluster's; else the one that RAY_ADDRESS names, else one is started on this machine.
        cpus_per_run: CPUs, and threads, of a run.
        gpus_per_run: GPUs of a run, a fraction if several share one; one if the cluster has any, unless given.

    Raises:
        LabError: on entering, if no cluster answers or no node of it has room for a run.
    """

    elsewhere = True

    def __init__(self, address: str | None = None, cpus_per_run: int = 1, gpus_per_run: float | None = None) -> None:
        check_at_least("cpus_per_run", cpus_per_run)
        if gpus_per_run is not None and gpus_per_run < 0:
            raise LabError(f"gpus_per_run = {gpus_per_run:g}: should be 0 or more")
        self.address, self.cpus_per_run, self._gpus = address, cpus_per_run, gpus_per_run
        self._tasks: dict[str, _Task] = {}
        self._events: deque[tuple[str, Event]] = deque()
        self._datasets: dict[tuple[str, str | None], Any] = {}
        self._attempts = 0

    def __enter__(self) -> Self:
        # Ray sends usage statistics by default; that is for the user to decide.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        _check_answers(self.address)
        try:
            ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=None)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise LabError(f"no Ray cluster answers at {self.address or 'this machine'}: {reason}") from error
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor: Any = ray.remote(Mailbox)
        self._task: Any = ray.remote(do_run)
        self._mailbox = actor.options(num_cpus=0, max_concurrency=1000, scheduling_strategy=here).remote()
        self._check_room()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        ray.shutdown()  # ends this driver's tasks

    @property
    def gpus_per_run(self) -> float:
        """GPUs of a run."""
        return self._gpus if self._gpus is not None else float(ray.cluster_resources().get("GPU", 0) >= 1)

    @property
    def capacity(self) -> int:
        """See `Engine`; it follows the cluster's size."""
        return max(1, sum(self._room(node["Resources"]) for node in ray.nodes() if node["Alive"]))

    def has_room(self) -> bool:
        """See `Engine`."""
        return len(self._tasks) < self.capacity

    def _room(self, resources: dict[str, float]) -> int:
        room = int(resources.get("CPU", 0) // self.cpus_per_run)
        gpus = self.gpus_per_run
        return min(room, int(resources.get("GPU", 0) / gpus)) if gpus else room

    def _check_room(self) -> None:
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(self._room(resources) for resources in alive):
            largest = max((f"{n.get('CPU', 0):g} CPUs and {n.get('GPU', 0):g} GPUs" for n in alive), default="none")
            need = f"{self.cpus_per_run} CPUs and {self.gpus_per_run:g} GPUs"
            ray.shutdown()
            raise LabError(f"a run needs {need}, but the largest node of the Ray cluster has {largest}")

    def start(self, name: str, job: Job) -> None:
        """See `Engine`."""
        self._submit(name, job, 0)

    def _submit(self, name: str, job: Job, losses: int) -> None:
        self._attempts += 1
        attempt, folder = f"{name}#{self._attempts}", Path(job.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files = {n: (folder / n).read_bytes() for n in _CONTINUES_FROM if (folder / n).exists()}
        except OSError as error:
            raise LabError(f"cannot start {name} in {folder}: {error.strerror}") from error
        options = {
            "num_cpus": self.cpus_per_run,
            "num_gpus": self.gpus_per_run,
            "max_retries": 0,
            "name": f"aon {name}",
        }
        reference = self._task.options(**options).remote(self._mailbox, attempt, job.config, files, [self._data(job)])
        self._tasks[name] = _Task(job, attempt, reference, losses=losses)

    def _data(self, job: Job) -> Any:
        """The dataset of a run, sent to the cluster once."""
        key = RunConfig.model_validate(job.config).dataset, job.root
        if key not in self._datasets:
            self._datasets[key] = ray.put(load(key[0], Path(job.root) if job.root else None))
        return self._datasets[key]

    def next_event(self, timeout: float) -> tuple[str, Event] | None:
        """See `Engine`."""
        if not self._events:
            # First the tasks, then the letters: a task that ended has posted its last letter before.
            ended = self._ended_tasks()
            for letter in self._collect(timeout):
                self._deliver(letter)
            for name in ended:
                if name in self._tasks:
                    self._lost(name)
        return self._events.popleft() if self._events else None

    def _ended_tasks(self) -> list[str]:
        by_reference = {task.reference: name for name, task in self._tasks.items()}
        if not by_reference:
            return []
        ended, _ = ray.wait(list(by_reference), num_returns=len(by_reference), timeout=0, fetch_local=False)
        return [by_reference[reference] for reference in ended]

    def _collect(self, timeout: float) -> list[Letter]:
        try:
            letters: list[Letter] = ray.get(self._mailbox.collect.remote(timeout))
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:200]
            raise LabError(f"the Ray cluster is gone ({reason}); the same command continues") from error
        return letters

    def _deliver(self, letter: Letter) -> None:
        name = letter.attempt.rpartition("#")[0]
        task = self._tasks.get(name)
        if task is None or task.attempt != letter.attempt:
            return  # from an attempt that was given up for lost
        folder = Path(task.job.folder)
        # The record last: it is what says that the other files are there.
        for relative in sorted(letter.files, key=lambda n: n == RECORD):
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            with replacing(folder / relative) as file:
                file.write(letter.files[relative])
        self._note(name, task, letter.event)
        self._events.append((name, letter.event))

    def _note(self, name: str, task: _Task, event: Event) -> None:
        match event:
            case Began():
                task.begun = True
            case EpochDone():
                task.losses = 0
            case Ended():
                del self._tasks[name]
                if event.status == "done":
                    checkpoints.remove(Path(task.job.folder))

    def _lost(self, name: str) -> None:
        """A task ended without saying so: begin again from what has arrived, or give up."""
        task = self._tasks.pop(name)
        try:
            ray.get(task.reference)
            error: Exception = RuntimeError("its task said nothing")
        except Exception as raised:  # Ray wraps whatever the task raised
            error = raised
        reason = " ".join(str(error).split())[:200]
        is_fault = isinstance(error, ray.exceptions.RayTaskError) or not isinstance(error, ray.exceptions.RayError)
        if isinstance(error, ray.exceptions.TaskCancelledError):
            self._events.append((name, Ended("interrupted")))
        elif is_fault or task.losses + 1 >= LOSSES:
            self._events.append((name, Ended("failed", f"its task was lost: {reason}")))
        else:
            self._submit(name, task.job, task.losses + 1)

    def stop(self) -> None:
        """See `Engine`."""
        ray.get(self._mailbox.stop.remote())
        for task in self._tasks.values():
            if not task.begun:
                ray.cancel(task.reference, force=False)
