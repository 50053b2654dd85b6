"""The commands `train`, `compare`, `report`, `inspect` and `fold`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from aon.lab.cli import display
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import plan_comparison, plan_run
from aon.lab.experiment.presets import DEFAULT
from aon.lab.grid import grid
from aon.lab.grid.engines.engine import Engine
from aon.lab.grid.events import Event
from aon.lab.grid.jobs import Job, perform
from aon.lab.grid.merging import merge
from aon.lab.grid.shards import Shard
from aon.lab.system.shown import shortened
from aon.lab.system.signals import stop_requests
from aon.lab.system.suggest import unknown
from aon.lab.training.preparation import check
from aon.lab.training.ranks import Ranks, joined, launched
from aon.lab.training.run import found_record

RESULTS = Path("aon-results")
ENGINES = ("local", "ray")


def train_one(
    console: Console, given: Mapping[str, Any], file: Path | None, root: Path | None, out: Path | None
) -> None:
    """`aon train`: do one run and show each epoch.

    Args:
        console: Where output goes.
        given: Settings from the command line; None means not given.
        file: A TOML file of settings.
        root: Where datasets are kept.
        out: The run's folder.

    Raises:
        LabError: on bad settings.
        StoppedError: when it was stopped.
        RunError: when it failed.
    """
    config = plan_run(given, file)
    folder = out or RESULTS / "runs" / config.run_id()
    with joined(config.device) as ranks:
        record = found_record(config, folder, ranks)
        if record is None or record.status != "done":
            check([config], root)
            record = _train(console, Job.of(config, folder, root), ranks)
        if ranks.first:
            _say(console, _result(record, folder))


def _train(console: Console, job: Job, ranks: Ranks) -> records.Record:
    """Do a run; rank 0 shows it."""
    config = RunConfig.model_validate(job.config)
    screen, name = display.screen(console), config.run_id()
    emit = partial(screen.event, name) if ranks.first else _ignore
    if ranks.first:
        screen.begin(Path(job.folder), [config], 1)
    try:
        with stop_requests(insist=ranks.world == 1) as stop:
            return perform(job, emit, stop.is_set, ranks)
    finally:
        if ranks.first:
            screen.end()


def _ignore(_: Event) -> None:
    """Other processes than rank 0 show nothing."""


def _result(record: records.Record, folder: Path) -> str:
    assert record.best
    assert record.last
    chosen = "by validation" if record.images.validation else "on the test set"
    return (
        f"{record.label}: test accuracy {record.last.test_accuracy:.2f} % in the last epoch, "
        f"{record.best.test_accuracy:.2f} % in epoch {record.best.epoch}, the best {chosen}; in {folder}"
    )


@dataclass(frozen=True)
class Execution:
    """How the runs of a comparison are executed: which shard, by which engine, with which resources."""

    workers: int | None = None
    shard: str | None = None
    engine: str = "local"
    address: str | None = None
    cpus_per_run: int | None = None
    gpus_per_run: float | None = None


def compare_all(
    console: Console,
    given: Mapping[str, Any],
    file: Path | None,
    root: Path | None,
    out: Path | None,
    execution: Execution,
    command: Sequence[str],
) -> None:
    """`aon compare`: do all runs that are not done, then make the report.

    Args:
        console: Where output goes.
        given: Settings from the command line; None means not given.
        file: A TOML file of settings.
        root: Where datasets are kept.
        out: The comparison directory.
        execution: How the runs are done.
        command: What was typed.

    Raises:
        LabError: on bad settings, or when runs have failed.
        StoppedError: when it was stopped.
    """
    if launched():
        raise LabError("aon compare starts its own processes; without torchrun, or with --shard or --engine ray")
    plan = plan_comparison(given, file, out)
    shard = Shard.parse(execution.shard) if execution.shard else Shard()
    part = f"-shard-{shard.index}-of-{shard.count}" if execution.shard else ""
    out = out or RESULTS / f"{plan.preset or DEFAULT}{part}"
    screen, engine = display.screen(console), _engine(execution)
    try:
        outcome = grid.compare(
            plan, out, screen, engine=engine, workers=execution.workers, shard=shard, root=root, command=command
        )
    except KeyboardInterrupt:
        raise StoppedError("stopped at once; every run continues from its last checkpoint") from None
    if outcome.unfinished:
        raise StoppedError(f"stopped; {len(outcome.done)} runs are done, {len(outcome.unfinished)} are not")
    if outcome.done:
        write_report(console, [out])
    if outcome.failed:
        reasons = "; ".join(f"{name}: {shortened(why, 300)}" for name, why in outcome.failed.items())
        raise RunError(f"{len(outcome.failed)} of {len(outcome.failed) + len(outcome.done)} runs failed: {reasons}")


def _engine(execution: Execution) -> Engine | None:
    """The engine that was chosen; None for processes of this machine."""
    if execution.engine not in ENGINES:
        raise unknown("engine", execution.engine, ENGINES)
    ours = {
        "--address": execution.address,
        "--cpus-per-run": execution.cpus_per_run,
        "--gpus-per-run": execution.gpus_per_run,
    }
    given = [name for name, value in ours.items() if value is not None]
    if execution.engine == "local":
        if given:
            raise LabError(f"{given[0]} is for --engine ray; the local engine has --workers and --threads")
        return None
    if execution.workers is not None:
        raise LabError("--workers is for the local engine; Ray does as many runs at a time as the cluster has room for")
    try:
        from aon.lab.grid.engines.ray_cluster import RayEngine
    except ModuleNotFoundError as error:
        raise LabError(
            f"--engine ray needs the package {error.name}; install it with: pip install 'aon[ray]'"
        ) from None
    return RayEngine(
        execution.address, 1 if execution.cpus_per_run is None else execution.cpus_per_run, execution.gpus_per_run
    )


def merge_all(console: Console, folders: Sequence[Path], out: Path) -> None:
    """`aon merge`: join comparison directories and make the report.

    Args:
        console: Where output goes.
        folders: The directories.
        out: Where they go.

    Raises:
        LabError: if they do not belong together.
    """
    merged = merge(folders, out)
    if merged.done:
        write_report(console, [out])
    _say(console, f"copied {merged.copied} runs; {merged.done} of {merged.runs} runs in {out} are done")


def write_report(console: Console, folders: Sequence[Path], out: Path | None = None, base: str | None = None) -> None:
    """`aon report`: tables, figures and page of comparisons, and their tables on the terminal.

    Args:
        console: Where output goes.
        folders: Comparison directories.
        out: Where the report goes; into the comparison directory if there is one only.
        base: The method to compare with.

    Raises:
        LabError: if a directory holds no records, or `out` is missing.
    """
    from aon.lab.report import markup, output

    for folder in folders:
        if not folder.is_dir():
            raise LabError(f"{folder} is not a directory")
    if out is None and len(folders) > 1:
        raise LabError(f"out: should be given for a report of {len(folders)} directories, such as --out report")
    results, plans = output.load_results(folders, base)
    paths = output.write(results, plans, out or folders[0])
    console.print(markup.terminal(results))
    _say(console, f"report: {paths.page}")


def show_spectra(console: Console, file: Path, as_json: bool, network: str | None = None) -> None:
    """`aon inspect`: singular values of the layers in a file.

    Args:
        console: Where output goes.
        file: A run's folder, checkpoint or weights.
        as_json: Plain data instead of a table.
        network: The user's own network that the weights belong to.
    """
    import json

    from aon.lab.training.weights import spectra

    found = spectra(file, network)
    _say(console, json.dumps(found.to_list(), indent=1) if as_json else str(found))


def write_folded(console: Console, file: Path, out: Path, network: str | None = None) -> None:
    """`aon fold`: a run's network with plain weights.

    Args:
        console: Where output goes.
        file: A run's folder, checkpoint or weights.
        out: A name that ends in .safetensors or .onnx.
        network: The user's own network that the weights belong to.
    """
    from aon.lab.training.weights import fold

    fold(file, out, network)
    _say(console, f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
