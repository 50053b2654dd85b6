"""One run and the events it sends: the same for `aon train`, a worker process and a task of Ray."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aon.lab.data import Dataset
from aon.lab.errors import StoppedError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Fingerprints, Record
from aon.lab.grid.events import Began, Ended, EpochDone, Event, Noticed, Progressed
from aon.lab.training.ranks import ALONE, Ranks
from aon.lab.training.run import PATIENCE, Watch, run


@dataclass(frozen=True)
class Job:
    """A run as plain data: its settings, its folder, and where datasets are kept."""

    config: dict[str, Any]
    folder: str
    root: str | None = None
    fingerprints: dict[str, Any] | None = None

    @classmethod
    def of(cls, config: RunConfig, folder: Path, root: Path | None, fingerprints: Fingerprints | None = None) -> "Job":
        """The job of a run.

        Args:
            config: Its settings.
            folder: Where its files go.
            root: Where datasets are kept; the usual place if not given.
            fingerprints: Those of the data and the network that the run must find.
        """
        expected = fingerprints.model_dump() if fingerprints else None
        return cls(config.model_dump(mode="json"), str(folder), str(root) if root else None, expected)


def perform(
    job: Job,
    emit: Callable[[Event], None],
    stop: Callable[[], bool],
    ranks: Ranks = ALONE,
    source: Dataset | None = None,
    patience: float = PATIENCE,
) -> Record:
    """Do a run and emit its events, from `Began` to `Ended`.

    Args:
        job: The run.
        emit: Called with every event.
        stop: Called after each step; if it returns True, the run saves itself and ends.
        ranks: This process among those that do the run together.
        source: The dataset, if it is already loaded.
        patience: Seconds to wait for another process that holds the run's folder.

    Raises:
        LabError: whatever `run` raises, after `Ended` was emitted.
    """
    watch = Watch(
        progress=lambda now: emit(Progressed(**asdict(now))),
        epoch=lambda record: emit(EpochDone.of(record.epochs[-1])),
        notice=lambda text: emit(Noticed(text)),
        stop=stop,
    )
    emit(Began())
    try:
        root = Path(job.root) if job.root else None
        expected = Fingerprints(**job.fingerprints) if job.fingerprints else None
        record = run(
            RunConfig.model_validate(job.config),
            Path(job.folder),
            root=root,
            watch=watch,
            ranks=ranks,
            source=source,
            expected=expected,
            patience=patience,
        )
    except (StoppedError, KeyboardInterrupt):
        emit(Ended("interrupted"))
        raise
    except Exception as error:
        emit(Ended("failed", " ".join(str(error).split()) or type(error).__name__))
        raise
    emit(Ended("done"))
    return record
