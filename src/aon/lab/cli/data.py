"""The commands `data list`, `data fetch` and `data verify`."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from aon.lab.data import Status, available, default_root, fetch, verify
from aon.lab.errors import LabError, StoppedError


def list_data(console: Console, root: Path | None) -> None:
    """`aon data list`: every dataset, whether it is there, and where.

    Args:
        console: Where output goes.
        root: Where datasets are kept; the usual place if not given.
    """
    table = Table("dataset", "state", "training", "test", title=Text(f"in {root or default_root()}"))
    table.add_column("where", overflow="fold")
    for status in available(root):
        counts = [f"{n:,}" if n is not None else "-" for n in (status.n_train, status.n_test)]
        where = status.where if status.where is not None else status.detail
        table.add_row(*(Text(cell) for cell in (status.name, status.state, *counts, where)))
    console.print(table)


def fetch_data(console: Console, name: str, root: Path | None) -> None:
    """`aon data fetch`: download a dataset and show the progress.

    Args:
        console: Where output goes.
        name: The dataset.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: if it could not be downloaded.
        StoppedError: on Ctrl-C; what has arrived is kept.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(Text(what).plain, total=total)
                if not console.is_terminal:
                    _say(console, what)
            bars.update(tasks[what], completed=done, total=total)

        try:
            status = fetch(name, root, progress=show)
        except KeyboardInterrupt:
            raise StoppedError(f"stopped fetching {name}; what has arrived is kept") from None
    _tell(console, status)


def verify_data(console: Console, name: str, root: Path | None) -> None:
    """`aon data verify`: check every file of a dataset.

    Args:
        console: Where output goes.
        name: The dataset.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: if it is not there, or a file is not what it should be.
    """
    _tell(console, verify(name, root))


def _tell(console: Console, status: Status) -> None:
    place = f" ({status.where})" if status.where and status.where != status.name else ""
    text = f"{status.name} is {status.state}: {status.detail}{place}"
    if status.state != "good":
        raise LabError(text)
    _say(console, text)


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
