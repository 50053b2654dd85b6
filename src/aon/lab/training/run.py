"""Train one configuration and return its record. No printing, no plotting.

A run can be killed at any moment and continued by calling `run` again with the same arguments: it ends with
the bits of a run that was never interrupted.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from aon.lab.data import Dataset
from aon.lab.errors import LabError, RunError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig, differences
from aon.lab.experiment.records import Fingerprints, Record
from aon.lab.system.files import remove_orphans
from aon.lab.system.locks import locked
from aon.lab.training import checkpoints, machine, preparation, sources
from aon.lab.training.ranks import ALONE, Ranks
from aon.lab.training.session import LOG, Progress, Session, Watch, reason_of

__all__ = ["LOG", "PATIENCE", "Progress", "Watch", "earlier_record", "found_record", "run"]
PATIENCE = 10.0  # seconds to wait for another process that holds a run's folder


def run(
    config: RunConfig,
    folder: Path,
    *,
    root: Path | None = None,
    watch: Watch | None = None,
    ranks: Ranks = ALONE,
    source: Dataset | None = None,
    expected: Fingerprints | None = None,
    patience: float = PATIENCE,
) -> Record:
    """Do a run, or the rest of it; a finished run is not repeated.

    Args:
        config: What to do.
        folder: Where its record, checkpoint, weights and logs go.
        root: Where datasets are kept; the usual place if not given.
        watch: Who watches, and who may stop it.
        ranks: This process among those that do the run together; rank 0 writes.
        source: The dataset, if it is already loaded.
        expected: Fingerprints of the data and the network that the run must find.
        patience: Seconds to wait for another process that holds the folder.

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
    watch = watch or Watch()
    with ExitStack() as held:
        earlier = found_record(config, folder, ranks, lambda: _take(folder, patience, watch, held))
        if earlier and earlier.status == "done":
            return earlier
        if config.batch_size < ranks.world:
            raise LabError(f"batch_size = {config.batch_size}: {ranks.world} processes need an image each")
        device = machine.resolve_device(ranks.device(config.device))
        data = preparation.load_data(config, root, source).to(device)
        found = sources.fingerprints(config, data)
        for known in (expected, earlier and earlier.fingerprints):
            sources.check_same(known or None, found, folder)
        with machine.deterministic(device, _threads(config, folder, earlier, ranks, watch), config.seed):
            try:
                session = Session(config, folder, data, device, watch, ranks)
            except (MemoryError, RuntimeError) as error:  # most often, memory runs out while the network is made
                raise RunError(reason_of(error)) from error
            return session.run()


def found_record(
    config: RunConfig, folder: Path, ranks: Ranks = ALONE, before: Callable[[], None] = lambda: None
) -> Record | None:
    """The record of an earlier attempt, as rank 0 finds it.

    Args:
        config: The run.
        folder: Its folder on rank 0's machine.
        ranks: This process among those of the run.
        before: Done on rank 0 first.

    Raises:
        LabError: if the folder holds a run with other settings, or what comes before fails.
    """

    def found() -> bytes:
        before()
        record = earlier_record(config, folder)
        return record.model_dump_json().encode() if record else b""

    data = ranks.from_first(found)
    return Record.model_validate_json(data) if data else None


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


def _take(folder: Path, patience: float, watch: Watch, held: ExitStack) -> None:
    """Lock a run's folder and remove the partial files of killed processes."""
    held.enter_context(locked(folder, patience, watch.stop))
    remove_orphans(folder)


def _threads(config: RunConfig, folder: Path, earlier: Record | None, ranks: Ranks, watch: Watch) -> int:
    """A run that continues keeps its number of threads, which is part of the last bits of its sums."""
    machine.check_threads(config.threads)
    (continues,) = ranks.agree(ranks.first and checkpoints.exists(folder))
    if earlier is None or not continues:
        return config.threads or max(1, machine.default_threads() // ranks.local_world)
    before = earlier.environment.threads
    if config.threads not in (None, before):
        watch.notice(f"the run continues with {before} threads, as it began, not with {config.threads}")
    return before
