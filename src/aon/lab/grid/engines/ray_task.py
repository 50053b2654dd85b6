"""A Ray task: one run in a temporary folder of its node; its files are sent to the driver.

A node keeps nothing. After every epoch, and whenever a checkpoint was written, the files that changed go to the
mailbox in one letter, together with the event; the answer to a letter says whether the run is to stop.
"""

import asyncio
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from aon.lab.data import Dataset
from aon.lab.errors import LabError
from aon.lab.grid.events import EpochDone, Event, Progressed
from aon.lab.grid.jobs import Job, perform
from aon.lab.training.checkpoints import CHECKPOINT, PREVIOUS
from aon.lab.training.run import LOG

_datasets: dict[str, Dataset] = {}  # of this worker process, which does many runs


@dataclass(frozen=True)
class Letter:
    """An event of a run, and the files that changed since the last letter, by their names within the folder."""

    attempt: str
    event: Event
    files: dict[str, bytes] = field(default_factory=dict)


class Mailbox:
    """An actor beside the driver: takes letters from all tasks until the driver collects them."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.stopping = False
        self.arrived = asyncio.Event()

    async def post(self, letter: Letter) -> bool:
        """Keep a letter; the answer is whether the run is to stop.

        Args:
            letter: From a task.
        """
        self.letters.append(letter)
        self.arrived.set()
        return self.stopping

    async def collect(self, timeout: float) -> list[Letter]:
        """Hand over the letters that have come, or wait for the first.

        Args:
            timeout: Seconds to wait.
        """
        try:
            await asyncio.wait_for(self.arrived.wait(), timeout)
        except TimeoutError:
            return []
        letters, self.letters = self.letters, []
        self.arrived.clear()
        return letters

    async def stop(self) -> None:
        """Tell every run to stop when it next writes."""
        self.stopping = True


def do_run(
    mailbox: Any, attempt: str, config: dict[str, Any], files: dict[str, bytes], data: list["ray.ObjectRef[Any]"]
) -> None:
    """Do a run, or what is left of it.

    Args:
        mailbox: Where letters go.
        attempt: Which attempt at which run this is.
        config: The run's settings.
        files: What an earlier attempt left, by name.
        data: The reference to the dataset; in a list, so that it is fetched once by each worker process.
    """
    with tempfile.TemporaryDirectory(prefix="aon-") as name:
        folder = Path(name)
        for relative, content in files.items():
            (folder / relative).write_bytes(content)
        courier = _Courier(mailbox, attempt, folder)
        # A failure that the user can fix was reported by the last event.
        with (
            (folder / LOG).open("a", encoding="utf-8") as log,
            redirect_stdout(log),
            redirect_stderr(log),
            suppress(LabError),
        ):
            perform(Job(config, name), courier.emit, courier.should_stop, source=_dataset(data[0]))


def _dataset(reference: "ray.ObjectRef[Any]") -> Dataset:
    key = reference.hex()
    if key not in _datasets:
        _datasets.clear()
        _datasets[key] = ray.get(reference)
    return _datasets[key]


class _Courier:
    """Sends the events of a run and the files that changed."""

    def __init__(self, mailbox: Any, attempt: str, folder: Path) -> None:
        self.mailbox, self.attempt, self.folder = mailbox, attempt, folder
        self.stopping = False
        self.sent = self._stamps()

    def should_stop(self) -> bool:
        return self.stopping

    def emit(self, event: Event) -> None:
        if isinstance(event, EpochDone):
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {event}", flush=True)  # noqa: T201 (the log)
        stamps = self._stamps()
        saved = stamps.get(CHECKPOINT) != self.sent.get(CHECKPOINT)
        files: dict[str, bytes] = {}
        if saved or not isinstance(event, Progressed):
            changed = [name for name, stamp in stamps.items() if stamp != self.sent.get(name)]
            files, self.sent = {name: (self.folder / name).read_bytes() for name in changed}, stamps
        try:
            self.stopping = ray.get(self.mailbox.post.remote(Letter(self.attempt, event, files)))
        except ray.exceptions.RayError:  # the driver is gone, and Ray is about to end this task
            self.stopping = True

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Time and size of each file; locks and unfinished files begin with a dot, and one checkpoint is enough."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
        paths = [path for path in paths if path.name != PREVIOUS]
        found = [(path, path.stat()) for path in paths]
        return {str(path.relative_to(self.folder)): (about.st_mtime_ns, about.st_size) for path, about in found}
