"""Position, speed and time left of the runs of a comparison."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aon.lab.experiment.config import RunConfig
from aon.lab.grid.events import Began, Ended, EpochDone, Event, Noticed, Progressed
from aon.lab.methods.grammar import parse

STATES = ("running", "done", "failed", "interrupted", "waiting")


@dataclass
class Line:
    """Progress of one run."""

    label: str
    seed: int
    epochs: int
    status: str = "waiting"
    position: float = 0.0
    speed: float = 0.0
    accuracy: float | None = None
    first: tuple[float, float] | None = None
    latest: float | None = None
    error: str | None = None
    earlier: bool = False

    def moved(self, position: float, speed: float) -> None:
        """Note where the run is, in epochs.

        Args:
            position: Epochs done, with the fraction of the present one.
            speed: Images a second.
        """
        self.position, self.speed, self.latest = position, speed, time.monotonic()
        self.first = self.first or (self.latest, position)

    def left(self) -> float | None:
        """Seconds until the run ends, by its pace since its first event; None if it is too early."""
        pace = self.pace()
        return (self.epochs - self.position) * pace if self.status == "running" and pace is not None else None

    def pace(self) -> float | None:
        """Seconds for an epoch since the run's first event; None if it is too early."""
        if self.first is None or self.latest is None or self.position - self.first[1] <= 0:
            return None
        now = time.monotonic() if self.status == "running" else self.latest
        return (now - self.first[0]) / (self.position - self.first[1])

    @property
    def name(self) -> str:
        """Method and seed, for people."""
        return f"{self.label} seed {self.seed}"


class Board:
    """Progress of all runs, updated by their events."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.workers = 1
        self.out = Path()

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """Register the runs.

        Args:
            out: The comparison directory.
            runs: All runs of the comparison.
            workers: How many go at a time.
        """
        self.out, self.workers = out, workers
        self.lines = {run.run_id(): Line(parse(run.method).label, run.seed, run.epochs) for run in runs}

    def update(self, name: str, event: Event) -> Line:
        """Apply an event of a run.

        Args:
            name: The run.
            event: What happened to it.
        """
        line = self.lines[name]
        match event:
            case Began():
                line.status = "running"
            case Progressed():
                line.moved(event.epoch - 1 + event.step / max(event.steps, 1), event.speed)
            case EpochDone():
                line.moved(float(event.epoch), line.speed)
                line.accuracy = event.val_accuracy
            case Noticed():
                pass
            case Ended():
                line.status, line.error, line.earlier = event.status, event.error, event.earlier
        return line

    def summary(self) -> str:
        """One line about all runs."""
        states = [line.status for line in self.lines.values()]
        counts = [f"{states.count(s)} {s}" for s in STATES if s in states]
        left = self.left()
        return ", ".join(counts) + (f"; about {duration(left)} left" if left is not None else "")

    def left(self) -> float | None:
        """Seconds until all runs have ended; None if it is too early to tell."""
        whole = [pace * line.epochs for line in self.lines.values() if (pace := line.pace()) is not None]
        if not whole or all(line.status not in ("running", "waiting") for line in self.lines.values()):
            return None
        mean = sum(whole) / len(whole)
        # A run that waits, or has only begun, takes as long as the others.
        ahead = [line.left() for line in self.lines.values() if line.status in ("running", "waiting")]
        seconds = [mean if left is None else left for left in ahead]
        return max([*seconds, sum(seconds) / self.workers], default=None)


def duration(seconds: float) -> str:
    """A time as minutes or hours.

    Args:
        seconds: The time.

    Example:
        >>> duration(75), duration(3 * 3600 + 120)
        ('1:15', '3:02 h')
    """
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
