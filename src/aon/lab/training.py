"""(configuration, data) -> record. No printing, no plotting.

A run can be killed at any moment and continued by calling `run` again with the same arguments: it ends with
the bits of a run that was never interrupted.
"""

from pathlib import Path

from aon.lab import checkpoints, machine, preparation, records
from aon.lab.config import RunConfig, differences
from aon.lab.errors import LabError
from aon.lab.locks import locked
from aon.lab.records import Record
from aon.lab.session import LOG, Progress, Session, Watch

__all__ = ["LOG", "Progress", "Watch", "earlier_record", "run"]


def run(
    config: RunConfig,
    folder: Path,
    *,
    root: Path | None = None,
    watch: Watch | None = None,
) -> Record:
    """Do a run, or what is left of it; a finished one is not repeated.

    Args:
        config: What to do.
        folder: Where its record, checkpoint, weights and logs go.
        root: Where datasets are kept; the usual place if not given.
        watch: Who watches, and who may stop it.

    Raises:
        LabError: if the folder holds another run, or a value or file is bad; nothing has been trained then.
        StoppedError: if it was stopped; call again to continue.
        RunError: if the loss is no longer a number or memory ran out; the record says so.

    Example:
        >>> from tempfile import mkdtemp
        >>> config = RunConfig(method="bn", network="resnet20", width=0.25, train_size=100, test_size=100,
        ...                    batch_size=50, epochs=1, threads=1)
        >>> run(config, Path(mkdtemp()) / "run").status
        'done'
    """
    with locked(folder):
        earlier = earlier_record(config, folder)
        if earlier and earlier.status == "done":
            return earlier
        device = machine.resolve_device(config.device)
        data = preparation.load_data(config, root).to(device)
        with machine.settled(device, _threads(config, folder, earlier), config.seed):
            session = Session(config, folder, data, device, watch or Watch())
            return session.run()


def earlier_record(config: RunConfig, folder: Path) -> Record | None:
    """The record of an earlier attempt at a run, if there is one.

    Args:
        config: The run.
        folder: Its folder.

    Raises:
        LabError: if the folder holds a run with other settings, naming the difference.
    """
    if not (folder / records.RECORD).exists():
        return None
    record = records.load(folder)
    changed = differences(record.config.identity(), config.identity())
    if changed:
        raise LabError(f"{folder} holds a run with other settings ({'; '.join(changed)}); choose another --out")
    return record


def _threads(config: RunConfig, folder: Path, earlier: Record | None) -> int:
    """A run that continues keeps its number of threads, which is part of the last bits of its sums."""
    if earlier is not None and (folder / checkpoints.CHECKPOINT).exists():
        return earlier.environment.threads
    return config.threads or machine.cores()
