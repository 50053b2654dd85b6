"""What each command does, once the command line has been read: the parts put together and their results shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from aon.lab import display, grid, records
from aon.lab.errors import LabError, RunError, StoppedError
from aon.lab.plans import plan_comparison, plan_run
from aon.lab.preparation import check
from aon.lab.presets import DEFAULT
from aon.lab.signals import stop_requests
from aon.lab.training import Watch, earlier_record, run

RESULTS = Path("aon-results")


def train_one(
    console: Console, given: Mapping[str, Any], file: Path | None, root: Path | None, out: Path | None
) -> None:
    """`aon train`: do one run and show each epoch.

    Args:
        console: Where words go.
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
    earlier = earlier_record(config, folder)
    if earlier and earlier.status == "done":
        return _say(console, _result(earlier, folder))
    check([config], root)
    screen = display.screen(console)
    name = config.run_id()
    screen.begin(folder, [config], 1)
    screen.event(name, {"kind": "begin"})
    end: dict[str, Any] = {"kind": "exit", "status": "interrupted", "error": None}
    with stop_requests() as stop:
        watch = Watch(
            progress=lambda now: screen.event(name, {"kind": "progress", **vars(now)}),
            epoch=lambda record: screen.event(name, {"kind": "epoch", "row": record.epochs[-1].model_dump()}),
            stop=stop.is_set,
        )
        try:
            record = run(config, folder, root=root, watch=watch)
            end["status"] = "done"
        except RunError as error:
            end |= {"status": "failed", "error": str(error)}
            raise
        finally:
            screen.event(name, end)
            screen.end()
    return _say(console, _result(record, folder))


def _result(record: records.Record, folder: Path) -> str:
    assert record.best
    assert record.last
    return (
        f"{record.label}: validation accuracy {record.last.val_accuracy:.2f} % at the end, "
        f"best {record.best.val_accuracy:.2f} % in epoch {record.best.epoch}; in {folder}"
    )


def compare_all(
    console: Console,
    given: Mapping[str, Any],
    file: Path | None,
    root: Path | None,
    out: Path | None,
    workers: int | None,
    command: Sequence[str],
) -> None:
    """`aon compare`: do all runs that are not done, then make the report.

    Args:
        console: Where words go.
        given: Settings from the command line; None means not given.
        file: A TOML file of settings.
        root: Where datasets are kept.
        out: The comparison directory.
        workers: Runs at a time.
        command: What was typed.

    Raises:
        LabError: on bad settings, or when runs have failed.
        StoppedError: when it was stopped.
    """
    plan = plan_comparison(given, file, out)
    out = out or RESULTS / (plan.preset or DEFAULT)
    screen = display.screen(console)
    try:
        outcome = grid.compare(plan, out, screen, workers=workers, root=root, command=command)
    except KeyboardInterrupt:
        raise StoppedError("stopped at once; every run continues from its last checkpoint") from None
    if outcome.unfinished:
        raise StoppedError(f"stopped; {len(outcome.done)} runs are done, {len(outcome.unfinished)} are not")
    if outcome.done:
        write_report(console, out)
    if outcome.failed:
        reasons = "; ".join(f"{name}: {why}" for name, why in outcome.failed.items())
        raise RunError(f"{len(outcome.failed)} of {len(outcome.failed) + len(outcome.done)} runs failed: {reasons}")


def write_report(console: Console, out: Path) -> None:
    """`aon report`: tables, figures and page of a comparison, and its table on the terminal.

    Args:
        console: Where words go.
        out: The comparison directory.

    Raises:
        LabError: if it holds no records.
    """
    from aon.lab import report, tables

    if not out.is_dir():
        raise LabError(f"{out} is not a directory")
    found = records.load_all(out)
    report.write(out)
    console.print(tables.terminal(found))
    _say(console, f"report: {out / 'report.html'}")


def show_spectra(console: Console, file: Path, as_json: bool) -> None:
    """`aon inspect`: singular values of the layers in a file.

    Args:
        console: Where words go.
        file: A run's folder, checkpoint or weights.
        as_json: Plain data instead of a table.
    """
    import json

    from aon.lab.inspection import spectra

    found = spectra(file)
    _say(console, json.dumps(found.to_list(), indent=1) if as_json else str(found))


def write_folded(console: Console, file: Path, out: Path) -> None:
    """`aon fold`: a run's network with plain weights.

    Args:
        console: Where words go.
        file: A run's folder, checkpoint or weights.
        out: A name that ends in .safetensors or .onnx.
    """
    from aon.lab.inspection import fold

    fold(file, out)
    _say(console, f"wrote {out} ({out.stat().st_size / 1e6:.1f} MB)")


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
