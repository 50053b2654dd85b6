"""`bench workers`: the same training steps in one process with all threads, and in several with fewer threads each.

Tells how a comparison should use a machine: how many `--workers`, with how many `--threads` each. Every variant does as
many steps as there are cores; a time ends when the slowest process is done.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.rounds import Plan, measure
from aon.lab.errors import LabError
from aon.lab.methods import build
from aon.lab.training.allocator import keep_memory


@dataclass(frozen=True)
class Split:
    """A way to use the cores: `workers` processes with `threads` each."""

    workers: int
    threads: int

    def __str__(self) -> str:
        processes = "1 process" if self.workers == 1 else f"{self.workers} processes"
        return f"{processes}, {self.threads} thread{'s' * (self.threads > 1)}{' each' * (self.workers > 1)}"


def splits(cores: int) -> list[Split]:
    """Every way to give each process the same number of threads, one process first.

    Example:
        >>> [str(split) for split in splits(4)]
        ['1 process, 4 threads', '2 processes, 2 threads each', '4 processes, 1 thread each']
    """
    return [Split(workers, cores // workers) for workers in range(1, cores + 1) if cores % workers == 0]


def bench_workers(
    subject: Subject, method: str, cores: int, plan: Plan, *, notify: Callable[[str], None] = lambda _: None
) -> record.BenchRecord:
    """Measure `cores` training steps, done by one process or shared by several.

    Args:
        subject: Network and batch, on the CPU.
        method: What is trained.
        cores: Steps, and threads of all processes of a variant together.
        plan: How often.
        notify: Called with a line for each thing that is being done.

    Raises:
        LabError: if the method is unknown, there is one core only, or a process dies.
    """
    build.parse(method)
    if cores < 2:
        raise LabError(f"threads = {cores}: expected two or more to share between processes")
    with ExitStack() as stack:
        notify(f"starting {cores} processes")
        pipes = [stack.enter_context(_started(subject, method)) for _ in range(cores)]
        variants = {str(split): _Variant(split, pipes) for split in splits(cores)}
        measured = measure(variants, plan, notify=notify)
    settings = {**subject.settings(), "method": method, "cores": cores}
    case = record.case(f"{cores} training steps, {subject.title}, {method}", next(iter(variants)), measured)
    return record.make("workers", settings, [case], plan=plan, device=subject.device)


class _Variant:
    """All steps by one split: the first processes work, the others wait."""

    def __init__(self, split: Split, pipes: Sequence[Connection]) -> None:
        self.order = (split.threads, len(pipes) // split.workers)
        self.pipes = pipes[: split.workers]

    def __call__(self) -> None:
        try:
            for pipe in self.pipes:
                pipe.send(self.order)
            for pipe in self.pipes:
                pipe.recv()
        except (EOFError, OSError) as error:
            raise LabError("a process of the benchmark died; see what it printed above") from error


@contextmanager
def _started(subject: Subject, method: str) -> Iterator[Connection]:
    """The pipe to a process of its own that does steps; the process ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, subject, method), daemon=True)
    process.start()
    theirs.close()  # so that reading fails once the process is gone
    try:
        yield ours
    finally:
        ours.close()
        process.terminate()
        process.join()


def _work(pipe: Connection, subject: Subject, method: str) -> None:
    """Do as many steps with as many threads as each message says."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends this process
    keep_memory()
    step = TrainingStep(subject, method)
    while True:
        try:
            threads, steps = pipe.recv()
        except EOFError:
            return
        torch.set_num_threads(threads)
        for _ in range(steps):
            step()
        pipe.send(None)
