"""Shared by all benchmark commands: set threads, measure, write the record, show it."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console

from aon.lab.bench import record
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.output import draw
from aon.lab.bench.output.document import put, summary_part, tables_part
from aon.lab.bench.output.show import tables
from aon.lab.bench.rounds import CLOCKS, Plan
from aon.lab.errors import LabError
from aon.lab.system.checks import check_at_least
from aon.lab.training import machine
from aon.lab.training.allocator import keep_memory

Tell = Callable[[str], None]


def use_threads(threads: int | None) -> int:
    """Let torch use this many threads, or one for each core; tells how many.

    Raises:
        LabError: if the number is not positive.
    """
    if threads is not None:
        check_at_least("threads", threads)
    keep_memory()  # as training does
    torch.set_num_threads(threads or machine.cores())
    return torch.get_num_threads()


def subject(
    network: str, width: float, batch: int, device: str, threads: int | None, channels_last: bool = False
) -> Subject:
    """The network, batch and device of a benchmark, with torch's threads set."""
    use_threads(threads)
    return Subject(network, width, batch, machine.resolve_device(device), channels_last)


def plan(rounds: int, warm_up: int, clock: str, limit: float | None = None) -> Plan:
    """How often to measure, from what the command line gave."""
    if clock not in CLOCKS:
        raise LabError(f"clock = {clock!r}: expected wall or cpu")
    return Plan(rounds=rounds, warm_up=warm_up, clock="cpu" if clock == "cpu" else "wall", limit=limit)


def sizes(text: str, kind: Callable[[str], float], axis: str) -> list[float]:
    """Numbers separated by commas; an empty text is none.

    Example:
        >>> sizes("1,2", int, "batch"), sizes("", int, "batch")
        ([1, 2], [])
    """
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise LabError(f"{axis} = {text!r}: expected numbers separated by commas") from error


def slug(network: str, width: float) -> str:
    """Network and width as part of a file's name.

    Example:
        >>> slug("my.nets:small", 0.5)
        'my.nets-small-w0.5'
    """
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in network)
    return name if width == 1 else f"{name}-w{width:g}"


def run(name: str, out: Path | None, bench: Callable[[Tell], record.BenchRecord]) -> None:
    """Measure while showing progress, write the record, print it.

    Args:
        name: Of the record, if `out` does not name it.
        out: The record's file.
        bench: Measures; called with a function that shows progress.
    """
    path = out or record.FOLDER / f"{name}.json"
    record.make_folder(path.parent)  # before the work, since it may fail
    with Console(stderr=True).status("") as status:
        found = bench(lambda what: status.update(f"{name}: {what}"))
    record.write(found.model_copy(update={"command": ("aon", *sys.argv[1:])}), path)
    console = Console(highlight=False)
    console.print(tables(found))
    console.print(f"wrote {path}", soft_wrap=True, markup=False)


def draw_all(files: list[Path], folder: Path | None) -> None:
    """Draw records, each beside itself or in a folder.

    Raises:
        LabError: if there are none, or one cannot be read or drawn.
    """
    paths = files or sorted(record.FOLDER.glob("*.json"))
    if not paths:
        raise LabError(f"no benchmark was recorded in {record.FOLDER}: give the files to draw")
    if folder:
        record.make_folder(folder)
    for path in paths:
        made = draw.draw(record.load(path), folder or path.parent, path.stem)
        Console(highlight=False).print(f"wrote {', '.join(map(str, made))}", soft_wrap=True, markup=False)


def print_table(source: Path, folder: Path | None) -> None:
    """Print targets and tables, or put them into performance.md and performance_tables.md of a folder.

    Raises:
        LabError: if a record cannot be read, or a document has no place for it.
    """
    records = record.load_all(source)
    parts = {"performance.md": summary_part(records), "performance_tables.md": tables_part(records)}
    if folder is None:
        sys.stdout.write("\n\n".join(parts.values()) + "\n")
        return
    for name, text in parts.items():
        state = "changed" if put(folder / name, text) else "already holds what was measured"
        Console(highlight=False).print(f"{folder / name} {state}", soft_wrap=True, markup=False)
