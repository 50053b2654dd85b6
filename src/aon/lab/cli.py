"""The command line: words in, words out; no logic.

What a command does is imported when it runs, so that `aon --help` does not wait for torch.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from aon.lab.bench.cli import bench_app
from aon.lab.errors import LabError, StoppedError
from aon.lab.flags import with_settings

app = typer.Typer(
    name="aon",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Compare ways to normalise a network, as the paper on approximated orthonormal normalisation does.",
    epilog="Example: `aon compare --preset quick`",
)
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", epilog="Example: `aon data list`")
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data", help="Datasets: which there are, getting them, checking them.")

Config = Annotated[Path | None, typer.Option("--config", help="a TOML file of settings; the command line wins")]
Root = Annotated[Path | None, typer.Option("--root", help="where datasets are kept (else AON_DATA or ~/.cache/aon)")]
Preset = Annotated[str | None, typer.Option("--preset", help="where the settings start from, e.g. quick or table2")]


@app.command(epilog="Example: `aon train --method bn+aon --preset quick --epochs 5`")
@with_settings()
def train(
    config: Config = None,
    preset: Preset = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option("--out", help="the run's folder (else aon-results/runs/...)")] = None,
    **settings: Any,
) -> None:
    """Train one network with one method; the paper's protocol unless told otherwise."""
    from aon.lab.commands import train_one

    train_one(_console(), {**settings, "preset": preset}, config, root, out)


@app.command(epilog="Example: `aon compare --methods bn,bn+orth,bn+aon:order=4 --seeds 3 --out results/orders`")
@with_settings("method", "seed")
def compare(
    config: Config = None,
    preset: Preset = None,
    methods: Annotated[str | None, typer.Option("--methods", help="comma-separated, e.g. bn,bn+orth,bn+aon")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="runs of each method")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="runs at a time")] = None,
    name: Annotated[str | None, typer.Option("--name", help="what the report calls it")] = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option("--out", help="the directory (else aon-results/PRESET)")] = None,
    **settings: Any,
) -> None:
    """Train one network under several methods and seeds; end with the table and the figures of the paper.

    The same command continues an interrupted comparison; more seeds or methods can be added later.
    Presets: quick, table1, table2, table3 (as in the paper) and table1-small, table2-small, table3-small (reduced).
    """
    from aon.lab.commands import compare_all

    given = {**settings, "preset": preset, "methods": methods, "seeds": seeds, "name": name}
    compare_all(_console(), given, config, root, out, workers, ["aon", *sys.argv[1:]])


@app.command(epilog="Example: `aon report aon-results/quick`")
def report(folder: Annotated[Path, typer.Argument(metavar="DIR", help="a comparison directory")]) -> None:
    """Make the tables, the figures and report.html of a comparison again."""
    from aon.lab.commands import write_report

    write_report(_console(), folder)


@app.command(epilog="Example: `aon inspect aon-results/quick/runs/bn+aon-s0-1a2b3c4d/model.safetensors`")
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a run's folder, checkpoint or weights")],
    as_json: Annotated[bool, typer.Option("--json", help="plain data instead of a table")] = False,
) -> None:
    """Show the singular values of every layer in a checkpoint, of W and of h(W)."""
    from aon.lab.commands import show_spectra

    show_spectra(_console(), file, as_json)


@app.command(epilog="Example: `aon fold aon-results/quick/runs/bn+aon-s0-1a2b3c4d plain.onnx`")
def fold(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a run's folder, checkpoint or weights")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="plain.safetensors or plain.onnx")],
) -> None:
    """Write a run's network with plain weights, h(W) in the place of W; loading it needs no aon."""
    from aon.lab.commands import write_folded

    write_folded(_console(), file, out)


@data_app.command("list", epilog="Example: `aon data list`")
def data_list(root: Root = None) -> None:
    """Tell which datasets there are and where."""
    from aon.lab.data_commands import list_data

    list_data(_console(), root)


@data_app.command("fetch", epilog="Example: `aon data fetch cifar10`")
def data_fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar10 or cifar100")], root: Root = None
) -> None:
    """Get a dataset from its official place, check it, and continue a broken download."""
    from aon.lab.data_commands import fetch_data

    fetch_data(_console(), name, root)


@data_app.command("verify", epilog="Example: `aon data verify cifar10`")
def data_verify(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar10-sample, cifar10 or cifar100")],
    root: Root = None,
) -> None:
    """Check every file of a dataset against its checksum."""
    from aon.lab.data_commands import verify_data

    verify_data(_console(), name, root)


def _version(wanted: bool) -> None:
    if wanted:
        from aon import __version__

        _console().print(f"aon {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


def _console() -> Console:
    return Console(highlight=False)


def main() -> None:
    """Run the command that was typed; whatever goes wrong is told in one line, never as a traceback."""
    complaint = Console(stderr=True, highlight=False)
    try:
        app()
    except StoppedError as stopped:
        complaint.print(Text(f"aon: {stopped}"), soft_wrap=True)
        complaint.print(Text(f"aon: continue with: {shlex.join(['aon', *sys.argv[1:]])}"), soft_wrap=True)
        sys.exit(130)
    except LabError as error:
        complaint.print(Text(f"aon: {error}"), soft_wrap=True)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("AON_DEBUG"):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        complaint.print(Text(f"aon: unexpected fault: {what} (AON_DEBUG=1 shows where)"), soft_wrap=True)
        sys.exit(1)
