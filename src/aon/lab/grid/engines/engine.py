"""The interface of an engine."""

from types import TracebackType
from typing import Protocol, Self

from aon.lab.grid.events import Event
from aon.lab.grid.jobs import Job


class Engine(Protocol):
    """Executes runs, as many at a time as it has room for, and passes on their events.

    It is used as a context; leaving the context ends what still runs at once. A run that ends in whatever way gives
    exactly one `Ended`, the last of its events.
    """

    @property
    def capacity(self) -> int:
        """Runs at work at a time."""

    @property
    def elsewhere(self) -> bool:
        """Whether runs are computed on other machines, whose devices this one need not have."""

    def has_room(self) -> bool:
        """Whether another run can be started now."""

    @property
    def cpus_per_run(self) -> int:
        """CPU threads of a run that does not say how many it wants."""

    def start(self, name: str, job: Job) -> None:
        """Begin a run.

        Args:
            name: The name that its events carry.
            job: The run.
        """

    def next_event(self, timeout: float) -> tuple[str, Event] | None:
        """The next thing that happened to a run, with its name; None if nothing did in time.

        Args:
            timeout: Seconds to wait.
        """

    def stop(self) -> None:
        """Ask every run to save itself and end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None: ...
