"""The command line: parses arguments and calls `commands`.

What a command does is imported when it runs, so that `aon --help` does not wait for torch.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from aon.lab.cli.bench import bench_app
from aon.lab.cli.flags import with_settings
from aon.lab.errors import LabError, ReportedError, StoppedError
from aon.lab.system.shown import printable, shortened, shown
from aon.lab.system.signals import noted_interrupts

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

# The error for words that are no command or option; typer has a copy of click inside, older ones have click itself.
_USAGE: type[Any] = typer.BadParameter.__bases__[0]
INTERRUPTED = 130  # the status of a program that Ctrl-C ended, as shells count it

Config = Annotated[Path | None, typer.Option("--config", help="a TOML file of settings; the command line wins")]
Root = Annotated[Path | None, typer.Option("--root", help="where datasets are kept (else AON_DATA or ~/.cache/aon)")]
Base = Annotated[
    str | None, typer.Option("--base", help="the method that the others are compared with (else bn, or the first)")
]
Preset = Annotated[str | None, typer.Option("--preset", help="where the settings start from, e.g. quick or table2")]

Own = Annotated[
    str | None, typer.Option("--network", help="your own network, package.module:function; its code is run")
]


@app.command(epilog="Example: `aon train --method bn+aon --preset quick --epochs 5`")
@with_settings()
def train(
    config: Config = None,
    preset: Preset = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option("--out", help="the run's folder (else aon-results/runs/...)")] = None,
    **settings: Any,
) -> None:
    """Train one network with one method; settings default to the paper's protocol."""
    from aon.lab.cli.commands import train_one

    train_one(_console(), {**settings, "preset": preset}, config, root, out)


@app.command(epilog="Example: `aon compare --methods bn,bn+orth,bn+aon:order=4 --seeds 3 --out results/orders`")
@with_settings("method", "seed")
def compare(
    config: Config = None,
    preset: Preset = None,
    methods: Annotated[str | None, typer.Option("--methods", help="comma-separated, e.g. bn,bn+orth,bn+aon")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="runs of each method")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", help="run under several values of a setting or option, e.g. beta=1,10 (repeatable)"),
    ] = None,
    base: Base = None,
    workers: Annotated[int | None, typer.Option("--workers", help="runs at a time")] = None,
    engine: Annotated[str, typer.Option("--engine", help="local (processes of this machine) or ray")] = "local",
    address: Annotated[str | None, typer.Option("--address", help="of the Ray cluster (else RAY_ADDRESS)")] = None,
    cpus_per_run: Annotated[int | None, typer.Option("--cpus-per-run", help="CPUs of a run on Ray (1)")] = None,
    gpus_per_run: Annotated[float | None, typer.Option("--gpus-per-run", help="GPUs of a run on Ray")] = None,
    shard: Annotated[str | None, typer.Option("--shard", help="do part I of N, e.g. 1/4; see aon merge")] = None,
    name: Annotated[str | None, typer.Option("--name", help="what the report calls it")] = None,
    root: Root = None,
    out: Annotated[Path | None, typer.Option("--out", help="the directory (else aon-results/PRESET)")] = None,
    **settings: Any,
) -> None:
    """Train one network under several methods and seeds; end with the table and the figures of the paper.

    The same command continues an interrupted comparison; more seeds or methods can be added later.
    Presets: quick, table1, table2, table3 (as in the paper) and table1-small, table2-small, table3-small (reduced).
    """
    from aon.lab.cli.commands import Execution, compare_all

    given = {**settings, "preset": preset, "methods": methods, "seeds": seeds, "name": name}
    given |= {"vary": vary or None, "base": base}
    execution = Execution(workers, shard, engine, address, cpus_per_run, gpus_per_run)
    compare_all(_console(), given, config, root, out, execution, ["aon", *sys.argv[1:]])


@app.command(epilog="Example: `aon plan --preset table1,table2,table3 --device-flops 312e12 --devices 8 --price 2.5`")
@with_settings("method", "seed")
def plan(
    config: Config = None,
    preset: Annotated[str | None, typer.Option("--preset", help="one or several, separated by commas")] = None,
    methods: Annotated[str | None, typer.Option("--methods", help="comma-separated, e.g. bn,bn+orth,bn+aon")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="runs of each method")] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="imagenet (ResNet-50) or 7b (transformer)")] = None,
    device_flops: Annotated[
        float | None, typer.Option("--device-flops", help="FLOP/s of a device; without it this machine is measured")
    ] = None,
    efficiency: Annotated[float, typer.Option("--efficiency", help="part of --device-flops that is reached")] = 0.3,
    devices: Annotated[int, typer.Option("--devices", help="runs at a time; devices of one training on ImageNet")] = 1,
    price: Annotated[float | None, typer.Option("--price", help="of a device for an hour")] = None,
    clock: Annotated[
        str, typer.Option("--clock", help="wall, or cpu: this process's time, for a busy machine")
    ] = "wall",
    verify: Annotated[bool, typer.Option("--verify", help="also do the runs, on noise, and compare")] = False,
    root: Root = None,
    out: Annotated[Path | None, typer.Option("--out", help="the record to write, e.g. results/scale/plan.json")] = None,
    **settings: Any,
) -> None:
    """Predict time, memory and cost of a comparison from short measured runs or from counted operations."""
    from aon.lab.cli.plan import PlanOptions, plan_all
    from aon.lab.planning.prediction import Device

    given = {**settings, "preset": preset, "methods": methods, "seeds": seeds}
    device = Device(device_flops, efficiency, price, devices)
    options = PlanOptions(device, workload, clock, verify=verify, command=("aon", *sys.argv[1:]))
    plan_all(_console(), given, config, root, options, out)


@app.command(epilog="Example: `aon merge shard-1 shard-2 --out results/all`")
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="comparison directories")],
    out: Annotated[Path, typer.Option("--out", help="the directory to make or to add to")],
) -> None:
    """Join comparison directories, such as the shards of a job array, and make their report."""
    from aon.lab.cli.commands import merge_all

    merge_all(_console(), folders, out)


@app.command(epilog="Example: `aon report aon-results/quick --base bn+orth`")
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="comparison directories")],
    base: Base = None,
    out: Annotated[Path | None, typer.Option("--out", help="where the report goes (else into DIR)")] = None,
) -> None:
    """Make the tables, the figures and report.html of a comparison again, or one report of several comparisons."""
    from aon.lab.cli.commands import write_report

    write_report(_console(), folders, out, base)


@app.command(epilog="Example: `aon inspect aon-results/quick/runs/bn+aon-s0-1a2b3c4d/model.safetensors`")
def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a run's folder, checkpoint or weights")],
    as_json: Annotated[bool, typer.Option("--json", help="plain data instead of a table")] = False,
    network: Own = None,
) -> None:
    """Show the singular values of every layer in a checkpoint, of W and of h(W)."""
    from aon.lab.cli.commands import show_spectra

    show_spectra(_console(), file, as_json, network)


@app.command(epilog="Example: `aon fold aon-results/quick/runs/bn+aon-s0-1a2b3c4d plain.onnx`")
def fold(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a run's folder, checkpoint or weights")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="plain.safetensors or plain.onnx")],
    network: Own = None,
) -> None:
    """Write a run's network with plain weights, h(W) in place of W; loading it needs no aon.

    The ONNX file takes pixels from 0 to 1. Both files carry the classes and the normalisation of the pixels.
    """
    from aon.lab.cli.commands import write_folded

    write_folded(_console(), file, out, network)


@data_app.command("list", epilog="Example: `aon data list`")
def data_list(root: Root = None) -> None:
    """List the datasets and where they are."""
    from aon.lab.cli.data import list_data

    list_data(_console(), root)


@data_app.command("fetch", epilog="Example: `aon data fetch cifar10`")
def data_fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar10 or cifar100")], root: Root = None
) -> None:
    """Download a dataset from its official site and check it; continues a broken download."""
    from aon.lab.cli.data import fetch_data

    fetch_data(_console(), name, root)


@data_app.command("verify", epilog="Example: `aon data verify cifar10`")
def data_verify(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar10-sample, cifar10 or cifar100")],
    root: Root = None,
) -> None:
    """Check every file of a dataset against its checksum."""
    from aon.lab.cli.data import verify_data

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
    """Run the command line; errors are printed in one line, without a traceback."""
    with noted_interrupts() as interrupted:
        try:
            _check_encoding(sys.argv[1:])
            status = app(standalone_mode=False)
            if status == INTERRUPTED and interrupted.is_set():  # newer typer returns this where older ones raise
                raise KeyboardInterrupt
        except StoppedError as stopped:
            _end(f"{stopped}\naon: continue with: {shlex.join(['aon', *sys.argv[1:]])}", INTERRUPTED)
        except (Exception, KeyboardInterrupt) as error:
            _explain(KeyboardInterrupt() if interrupted.is_set() else error)
    _leave(status if isinstance(status, int) else 0)


def _explain(error: BaseException) -> NoReturn:
    """End with one line that says what happened."""
    try:
        raise error
    except (KeyboardInterrupt, typer.Abort):
        _end("stopped at once", INTERRUPTED)
    except _USAGE as usage:
        _end(f"{_message(usage)} ({_help(usage)})", 2)
    except ReportedError:
        _leave(2)
    except LabError as fault:
        _end(str(fault), 2)
    except MemoryError:
        _end("out of memory", 2)
    except OSError as fault:
        where = f": {shown(fault.filename)}" if fault.filename else ""
        _end(f"{fault.strerror or fault}{where}", 2)
    except Exception as fault:
        if os.environ.get("AON_DEBUG"):
            raise
        _end(f"unexpected fault: {type(fault).__name__}: {fault} (AON_DEBUG=1 shows where)", 1)


def _message(error: Any) -> str:
    """What is wrong with a word, with the word itself: typer leaves it out where pydantic finds the fault."""
    cause = error.__cause__
    if hasattr(cause, "errors"):
        error.message = f"{shown(cause.errors()[0]['input'])} {error.message.removeprefix('Input ')}"
    return str(error.format_message())


def _help(error: Any) -> str:
    return f"see {error.ctx.command_path if error.ctx else 'aon'} --help"


def _check_encoding(args: list[str]) -> None:
    for arg in args:
        if not arg.isascii() and printable(arg) != arg:
            raise LabError(f"{shown(arg)} is not text in UTF-8")


def _end(message: str, status: int) -> NoReturn:
    stderr = Console(stderr=True, highlight=False)
    lines = [shortened(line) for line in f"aon: {message}".split("\naon: ")]
    stderr.print(Text("\naon: ".join(lines)), soft_wrap=True)
    _leave(status)


def _leave(status: int) -> NoReturn:
    """End with a status; one of several processes ends without gloo's threads, which may abort at exit."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
