"""Events of a run, the same for `aon train`, `aon compare` and every engine."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from aon.lab.errors import LabError
from aon.lab.experiment.records import EpochRow

Result = Literal["done", "failed", "interrupted"]


@dataclass(frozen=True)
class Began:
    """The run is at work."""


@dataclass(frozen=True)
class Progressed:
    """Where the run is: step of steps, epoch of epochs (from 1), and its speed in images a second."""

    epoch: int
    epochs: int
    step: int
    steps: int
    speed: float


@dataclass(frozen=True)
class EpochDone:
    """An epoch has ended; accuracies in percent, the time of its training in seconds."""

    epoch: int
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    seconds: float

    @classmethod
    def of(cls, row: EpochRow) -> "EpochDone":
        """The event of an epoch in a record.

        Args:
            row: The epoch.
        """
        return cls(**{field.name: getattr(row, field.name) for field in fields(cls)})

    def __str__(self) -> str:
        """One line for the run's log."""
        return (
            f"epoch {self.epoch}: training loss {self.train_loss:.4f}, accuracy {self.train_accuracy:.2f} %; "
            f"validation loss {self.val_loss:.4f}, accuracy {self.val_accuracy:.2f} %; {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class Noticed:
    """Something the user should know, such as a damaged checkpoint that was replaced by the one before it."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Ended:
    """The run has ended; `error` says why it failed, `earlier` that it was done before this comparison began."""

    status: Result
    error: str | None = None
    earlier: bool = False


Event = Began | Progressed | EpochDone | Noticed | Ended
_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in (Began, Progressed, EpochDone, Noticed, Ended)}


def to_line(event: Event) -> str:
    """An event as one line of JSON, without the line's end.

    Args:
        event: The event.

    Example:
        >>> to_line(Ended("failed", "out of memory"))
        '{"event": "Ended", "status": "failed", "error": "out of memory", "earlier": false}'
    """
    return json.dumps({"event": type(event).__name__, **asdict(event)})


def from_line(line: str) -> Event:
    """The event that `to_line` wrote.

    Args:
        line: One line of JSON.

    Raises:
        LabError: if it is not an event.

    Example:
        >>> from_line('{"event": "Began"}')
        Began()
    """
    try:
        read: dict[str, Any] = json.loads(line)
        return _KINDS[read.pop("event")](**read)
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise LabError(f"{line[:80]!r} is not an event of a run") from error
