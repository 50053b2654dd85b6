"""What is known of the runs of a comparison while they go on: how far, how fast, how long still."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aon.lab.config import RunConfig
from aon.lab.grammar import parse

STATES = ("running", "done", "failed", "interrupted", "waiting")


@dataclass
class Line:
    """What is known of one run."""

    label: str
    seed: int
    epochs: int
    status: str = "waiting"
    position: float = 0.0
    speed: float = 0.0
    accuracy: float | None = None
    first: tuple[float, float] | None = None
    error: str | None = None
    earlier: bool = False

    def moved(self, position: float, speed: float) -> None:
        """Note where the run is, in epochs.

        Args:
            position: Epochs done, with the fraction of the present one.
            speed: Images a second.
        """
        self.position, self.speed = position, speed
        self.first = self.first or (time.monotonic(), position)

    def left(self) -> float | None:
        """Seconds until the run ends, by its pace since it was first heard of; None if it is too early."""
        if self.status != "running" or self.first is None or self.position - self.first[1] <= 0:
            return None
        return (self.epochs - self.position) * (time.monotonic() - self.first[0]) / (self.position - self.first[1])

    @property
    def name(self) -> str:
        """Method and seed, for people."""
        return f"{self.label} seed {self.seed}"


class Board:
    """The lines of all runs, kept up to date by their events."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}
        self.workers = 1
        self.out = Path()

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """Note the runs there are.

        Args:
            out: The comparison directory.
            runs: All runs asked for.
            workers: How many go at a time.
        """
        self.out, self.workers = out, workers
        self.lines = {run.run_id(): Line(parse(run.method).label, run.seed, run.epochs) for run in runs}

    def update(self, name: str, event: dict[str, Any]) -> Line:
        """Note what a run says of itself.

        Args:
            name: The run.
            event: What the grid passes on.
        """
        line = self.lines[name]
        if event["kind"] == "begin":
            line.status = "running"
        elif event["kind"] == "progress":
            line.moved(event["epoch"] - 1 + event["step"] / max(event["steps"], 1), event["speed"])
        elif event["kind"] == "epoch":
            line.moved(float(event["row"]["epoch"]), line.speed)
            line.accuracy = float(event["row"]["val_accuracy"])
        else:
            line.status, line.error = event["status"], event["error"]
            line.earlier = event.get("earlier", False)
        return line

    def summary(self) -> str:
        """One line about all runs."""
        states = [line.status for line in self.lines.values()]
        counts = [f"{states.count(s)} {s}" for s in STATES if s in states]
        left = self.left()
        return ", ".join(counts) + (f"; about {duration(left)} left" if left is not None else "")

    def left(self) -> float | None:
        """Seconds until all runs have ended; None if it is too early to tell."""
        running = [left for line in self.lines.values() if (left := line.left()) is not None]
        waiting = sum(line.status == "waiting" for line in self.lines.values())
        whole = [_whole(line) for line in self.lines.values() if line.left() is not None]
        if not running:
            return None
        return max(max(running), (sum(running) + waiting * sum(whole) / len(whole)) / self.workers)


def _whole(line: Line) -> float:
    left, ahead = line.left() or 0.0, line.epochs - line.position
    return left * line.epochs / ahead if ahead > 0 else 0.0


def duration(seconds: float) -> str:
    """A time for people.

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
