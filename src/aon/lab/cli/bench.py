"""`aon bench ...`: parses arguments. Every command writes its record before it prints.

What a command does is imported when it runs, so that `--help` does not wait for torch.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from aon.lab.errors import LabError

bench_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Measure what the methods cost, side by side in one run.",
    epilog="Example: `aon bench step --batch 256 --methods bn,bn+aon,bn+aon:order=4`",
)

Network = Annotated[str, typer.Option("--network", help="a network or package.module:function")]
Width = Annotated[float, typer.Option("--width", help="multiplier of the number of channels")]
Batch = Annotated[int, typer.Option("--batch", help="images in a batch")]
Method = Annotated[str, typer.Option("--method", help="a method with a weight map")]
Methods = Annotated[str, typer.Option("--methods", help="the first is what the others are compared with")]
Rounds = Annotated[int, typer.Option("--rounds", help="rounds, each with one time of every variant")]
WarmUp = Annotated[int, typer.Option("--warm-up", help="calls of every variant before the first round")]
Threads = Annotated[int | None, typer.Option("--threads", help="CPU threads (else one for each core)")]
Clock = Annotated[str, typer.Option("--clock", help="wall, or cpu: this process's own time, for a busy machine")]
Last = Annotated[bool, typer.Option("--channels-last", help="convolutions in channels_last, as `aon train` has them")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps")]
Out = Annotated[Path | None, typer.Option("--out", help="the record (else results/bench/NAME.json)")]
VGG, METHODS = "vgg16-iternorm", "bn,bn+aon,bn+aon:order=4"
ABSENT = (
    "aon bench runs from the source tree only, wheels leave the benchmarks out: "
    "unpack the source distribution and run pip install -e '.[lab,bench]' there"
)


@bench_app.callback()
def _benchmarks_are_there() -> None:
    """Refuse in one line where the package was installed from a wheel, which has no benchmarks."""
    if find_spec("aon.lab.bench") is None:
        raise LabError(ABSENT)


@bench_app.command(epilog="Example: `aon bench step --network resnet20 --batch 128`")
def step(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    methods: Methods = METHODS,
    compiled: Annotated[bool, typer.Option("--compile", help="compile the networks with torch.compile")] = False,
    plain: Annotated[bool, typer.Option("--plain/--no-plain", help="also BN+AON by plain autograd")] = True,
    channels_last: Last = False,
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time a whole training step (forward, loss, backward, optimiser) under each method."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.step import bench_step

    subject = session.subject(network, width, batch, device, threads, channels_last)
    plan = session.plan(rounds, warm_up, clock)
    kinds = f"{'-channels-last' if channels_last else ''}{'-compiled' if compiled else ''}"
    name = f"step-{session.slug(network, width)}-{batch}{kinds}"
    session.run(
        name, out, lambda notify: bench_step(subject, methods, plan, compiled=compiled, plain=plain, notify=notify)
    )


@bench_app.command("map", epilog="Example: `aon bench map --variants 'aon*,torch-spectral-norm,polar-svd'`")
def weight_map(
    network: Network = VGG,
    width: Width = 1.0,
    variants: Annotated[str | None, typer.Option("--variants", help="names or patterns (else all)")] = None,
    slow: Annotated[bool, typer.Option("--slow/--no-slow", help="also those that take minutes")] = True,
    limit: Annotated[float, typer.Option("--limit", help="seconds after which a variant gets no more rounds")] = 60.0,
    rounds: Rounds = 11,
    warm_up: WarmUp = 1,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time forward and backward of the weight map alone over a network's convolutions: ours and others'."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.map import bench_map

    subject, plan = session.subject(network, width, 1, device, threads), session.plan(rounds, warm_up, clock, limit)
    name = f"map-{session.slug(network, width)}"
    session.run(name, out, lambda notify: bench_map(subject, plan, variants=variants, slow=slow, notify=notify))


@bench_app.command("eval", epilog="Example: `aon bench eval --batch 32`")
def evaluation(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    method: Method = "bn+aon",
    rounds: Rounds = 21,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time evaluation of the normalised and of the folded model over the plain one."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.eval import bench_eval

    subject, plan = session.subject(network, width, batch, device, threads), session.plan(rounds, warm_up, clock)
    name = f"eval-{session.slug(network, width)}-{batch}"
    session.run(name, out, lambda notify: bench_eval(subject, method, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench layout --width 0.125 --batch 64 --threads 1`")
def layout(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    methods: Methods = "bn,bn+aon",
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time a training step in torch's own order of memory and in channels_last."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.layout import bench_layout

    subject, plan = session.subject(network, width, batch, device, threads), session.plan(rounds, warm_up, clock)
    name = f"layout-{session.slug(network, width)}-{batch}"
    session.run(name, out, lambda notify: bench_layout(subject, methods, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench workers --width 0.25 --batch 128 --channels-last`")
def workers(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 128,
    method: Annotated[str, typer.Option("--method", help="what is trained")] = "bn",
    channels_last: Last = False,
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Annotated[int | None, typer.Option("--threads", help="threads to share (else one for each core)")] = None,
    out: Out = None,
) -> None:
    """Time the same training steps in one process with all threads and in several with fewer each."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.workers import bench_workers

    cores, plan = session.use_threads(threads), session.plan(rounds, warm_up, "wall")
    subject = session.subject(network, width, batch, "cpu", cores, channels_last)
    name = f"workers-{session.slug(network, width)}-{batch}{'-channels-last' if channels_last else ''}"
    session.run(name, out, lambda notify: bench_workers(subject, method, cores, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench parts --batch 128`")
def parts(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    out: Out = None,
) -> None:
    """Time what AON adds to a step, part by part: products alone, maps alone, the whole step."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.parts import bench_parts

    subject, plan = session.subject(network, width, batch, "cpu", threads), session.plan(rounds, warm_up, clock)
    name = f"parts-{session.slug(network, width)}-{batch}"
    session.run(name, out, lambda notify: bench_parts(subject, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench calls`")
def calls(out: Out = None) -> None:
    """Count the operations that one weight map calls, on the CPU and on another device."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.calls import bench_calls

    session.run("calls", out, lambda notify: bench_calls(notify=notify))


@bench_app.command("all", epilog="Example: `aon bench all --device cuda`")
def everything(
    network: Network = VGG,
    width: Width = 1.0,
    batches: Annotated[str, typer.Option("--batches", help="of the steps, separated by commas")] = "256,128,32",
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option("--out", help="a folder (else results/bench-DEVICE)")] = None,
) -> None:
    """Run every benchmark that depends on the device: the records of a GPU are worth a report."""
    from aon.lab.bench import session
    from aon.lab.bench.everything import everything

    sizes = [int(size) for size in session.sizes(batches, int, "batches")]
    subject, plan = session.subject(network, width, 1, device, threads), session.plan(rounds, warm_up, clock)
    folder = out or Path("results") / f"bench-{subject.device.type}"
    for name, bench in everything(subject, sizes, plan):
        session.run(name, folder / f"{name}.json", bench)


@bench_app.command(epilog="Example: `aon bench accumulate --micro-batches 8 --batch 16`")
def accumulate(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Annotated[int, typer.Option("--batch", help="images in a micro-batch")] = 32,
    micro_batches: Annotated[int, typer.Option("--micro-batches", help="of them to one update")] = 4,
    method: Method = "bn+aon",
    rounds: Rounds = 11,
    warm_up: WarmUp = 2,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time one update from several micro-batches: BN, AON for each of them, AON once by `aon.accumulate`."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.accumulate import bench_accumulate

    subject, plan = session.subject(network, width, batch, device, threads), session.plan(rounds, warm_up, clock)
    name = f"accumulate-{session.slug(network, width)}-{micro_batches}x{batch}"
    session.run(name, out, lambda notify: bench_accumulate(subject, micro_batches, method, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench scale --widths 0.25,0.5,1 --batches ''`")
def scale(
    network: Network = VGG,
    width: Width = 1.0,
    widths: Annotated[str, typer.Option("--widths", help="separated by commas; '' for none")] = "0.25,0.5,1",
    orders: Annotated[str, typer.Option("--orders", help="separated by commas; '' for none")] = "2,4,8,16",
    depths: Annotated[str, typer.Option("--depths", help="separated by commas; '' for none")] = "2,4,8,16",
    batches: Annotated[str, typer.Option("--batches", help="separated by commas; '' for none")] = "32,64,128,256",
    rounds: Rounds = 7,
    warm_up: WarmUp = 1,
    threads: Threads = None,
    clock: Clock = "wall",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Time AON over width, order, depth and batch, with the slopes beside those of the operations."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.scale import Sweep, bench_scale

    subject, plan = session.subject(network, width, 1, device, threads), session.plan(rounds, warm_up, clock)
    given = (widths, float, "widths"), (orders, int, "orders"), (depths, int, "depths"), (batches, int, "batches")
    sweep = Sweep(*(session.sizes(*each) for each in given))  # type: ignore[arg-type]
    name = f"scale-{session.slug(network, width)}"
    session.run(name, out, lambda notify: bench_scale(subject, sweep, plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench memory --batch 256 --methods bn,bn+aon,bn+orth`")
def memory(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    methods: Methods = METHODS,
    resident: Annotated[bool, typer.Option(help="cross-check by the resident memory of processes")] = True,
    threads: Threads = None,
    out: Out = None,
) -> None:
    """Count the peak bytes of a training step beyond the BN step's, in units of the normalised weights."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.memory import bench_memory

    subject = session.subject(network, width, batch, "cpu", threads)
    name = f"memory-{session.slug(network, width)}-{batch}"
    session.run(name, out, lambda notify: bench_memory(subject, methods, resident=resident, notify=notify))


@bench_app.command(epilog="Example: `aon bench train --network resnet20 --batch 128`")
def train(
    network: Network = VGG,
    width: Width = 1.0,
    batch: Batch = 256,
    method: Annotated[str, typer.Option("--method", help="what is trained")] = "bn+aon",
    dataset: Annotated[str, typer.Option("--dataset", help="as for `aon train`")] = "cifar10-sample",
    train_size: Annotated[int | None, typer.Option("--train-size", help="images of an epoch")] = 1280,
    workers: Annotated[int, typer.Option("--workers", help="processes of the DataLoader")] = 2,
    rounds: Annotated[int, typer.Option("--rounds", help="epochs of each loop")] = 5,
    threads: Threads = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Measure images a second of `aon train` over a bare loop in memory, and of a loop with a DataLoader."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.train import bench_train
    from aon.lab.experiment.config import make

    given = {"network": network, "width": width, "batch_size": batch, "method": method, "dataset": dataset}
    given |= {"train_size": train_size, "test_size": 100, "device": device, "threads": session.use_threads(threads)}
    config = make(given)
    name = f"train-{session.slug(network, width)}-{batch}"
    session.run(name, out, lambda notify: bench_train(config, rounds=rounds, workers=workers, notify=notify))


@bench_app.command(epilog="Example: `aon bench tried --rounds 5`")
def tried(
    rounds: Rounds = 11, warm_up: WarmUp = 2, threads: Threads = None, clock: Clock = "wall", out: Out = None
) -> None:
    """Time ideas that might make the map cheaper, each beside what it would replace."""
    from aon.lab.bench import session
    from aon.lab.bench.cases.tried import bench_tried

    plan = session.plan(rounds, warm_up, clock)
    session.use_threads(threads)
    session.run("tried", out, lambda notify: bench_tried(plan, notify=notify))


@bench_app.command(epilog="Example: `aon bench draw results/bench/map-vgg16-iternorm.json --out docs/figures`")
def draw(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]...", help="records (else all there are)")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="a folder (else beside each record)")] = None,
) -> None:
    """Draw records as PNG and SVG."""
    from aon.lab.bench.session import draw_all

    draw_all(files or [], out)


@bench_app.command(epilog="Example: `aon bench table --write docs`")
def table(
    source: Annotated[Path, typer.Option("--in", help="the folder of the records")] = Path("results/bench"),
    write: Annotated[Path | None, typer.Option("--write", help="the folder of performance.md")] = None,
) -> None:
    """Print targets beside measured values and a table for each record, in Markdown."""
    from aon.lab.bench.session import print_table

    print_table(source, write)


if __name__ == "__main__":
    bench_app()
