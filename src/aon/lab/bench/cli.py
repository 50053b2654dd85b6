"""`aon bench ...`: words in, tables out; no logic. Every command writes its record before it prints."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from aon.lab.bench.record import BenchRecord
    from aon.lab.bench.rounds import Plan
    from aon.lab.bench.step import Subject

bench_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Measure what the methods cost, side by side in one run.",
    epilog="Example: `aon bench step --batch 256 --methods bn,bn+aon,bn+aon:order=4`",
)

Network = Annotated[str, typer.Option("--network", help="a network or package.module:function")]
Width = Annotated[float, typer.Option("--width", help="multiplier of the number of channels")]
Batch = Annotated[int, typer.Option("--batch", help="images in a batch")]
Rounds = Annotated[int, typer.Option("--rounds", help="rounds, each with one time of every variant")]
WarmUp = Annotated[int, typer.Option("--warm-up", help="calls of every variant before the first round")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads (else one for each core)")]
Clock = Annotated[str, typer.Option("--clock", help="wall, or cpu: this process's own time, for a busy machine")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps")]
Out = Annotated[Path | None, typer.Option("--out", help="the record (else results/bench/NAME.json)")]


@bench_app.command(epilog="Example: `aon bench step --network resnet20 --batch 128`")
def step(
    network: Network = "vgg16-iternorm",
    width: Width = 1.0,
    batch: Batch = 256,
    methods: Annotated[str, typer.Option("--methods", help="the first is what others are divided by")] = (
        "bn,bn+aon,bn+aon:order=4"
    ),
    compiled: Annotated[bool, typer.Option("--compile", help="compile the networks with torch.compile")] = False,
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time a whole training step (forward, loss, backward, optimiser) under each method."""
    from aon.lab.bench.step import bench_step

    subject, plan = _subject(network, width, batch, device, threads), _plan(rounds, warm_up, clock)
    _measure(f"step-{_slug(network, width)}-{batch}", out, lambda tell: bench_step(
        subject, methods, plan, compiled=compiled, tell=tell
    ))  # fmt: skip


@bench_app.command("map", epilog="Example: `aon bench map --variants 'aon*,torch-spectral-norm,polar-svd'`")
def weight_map(
    network: Network = "vgg16-iternorm",
    width: Width = 1.0,
    variants: Annotated[str | None, typer.Option("--variants", help="names or patterns (else all)")] = None,
    slow: Annotated[bool, typer.Option("--slow/--no-slow", help="measure those that take minutes as well")] = True,
    limit: Annotated[float, typer.Option("--limit", help="seconds after which a variant gets no more rounds")] = 60.0,
    rounds: Rounds = 11,
    warm_up: WarmUp = 1,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time forward and backward of the weight map alone over a network's convolutions: ours and others'."""
    from aon.lab.bench.weight_map import bench_map

    subject, plan = _subject(network, width, 1, device, threads), _plan(rounds, warm_up, clock, limit)
    _measure(f"map-{_slug(network, width)}", out, lambda tell: bench_map(
        subject, plan, variants=variants, slow=slow, tell=tell
    ))  # fmt: skip


def _subject(network: str, width: float, batch: int, device: str, threads: int | None) -> "Subject":
    import torch

    from aon.lab import machine
    from aon.lab.bench.step import Subject
    from aon.lab.errors import LabError

    if threads is not None and threads < 1:
        raise LabError(f"threads = {threads}: expected 1 or more")
    torch.set_num_threads(threads or machine.cores())
    return Subject(network, width, batch, machine.resolve_device(device))


def _plan(rounds: int, warm_up: int, clock: Any, limit: float | None = None) -> "Plan":
    from aon.lab.bench.rounds import Plan

    return Plan(rounds=rounds, warm_up=warm_up, clock=clock, limit=limit)


def _slug(network: str, width: float) -> str:
    """Network and width as part of a file's name."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in network)
    return name if width == 1 else f"{name}-w{width:g}"


def _measure(name: str, out: Path | None, run: "Callable[[Callable[[str], None]], BenchRecord]") -> None:
    """Measure while telling what is being done, write the record, show it."""
    from aon.lab.bench import record
    from aon.lab.bench.show import tables

    console = Console(highlight=False)
    with Console(stderr=True).status("") as status:
        found = run(lambda what: status.update(f"{name}: {what}"))
    found = found.model_copy(update={"command": ("aon", *sys.argv[1:])})
    path = record.write(found, out or record.FOLDER / f"{name}.json")
    console.print(tables(found))
    console.print(f"wrote {path}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    bench_app()
