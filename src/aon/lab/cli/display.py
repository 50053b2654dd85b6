"""Progress of runs: a live display on a terminal, plain lines elsewhere."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aon.lab.cli.progress import Board, Line, duration
from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.grid.events import Began, Ended, EpochDone, Event, Noticed
from aon.lab.report.markup import terminal
from aon.lab.report.summary import summarise_runs

STYLES = {"running": "cyan", "done": "green", "failed": "bold red", "interrupted": "yellow", "waiting": "dim"}


class PlainScreen:
    """One line of text for each thing that happens, for files and pipes."""

    def __init__(self, console: Console) -> None:
        self.console, self.board = console, Board()

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """See `grid.Screen`."""
        self.board.begin(out, runs, workers)
        self._say(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}, {workers} at a time, in {out}")

    def event(self, name: str, event: Event) -> None:
        """See `grid.Screen`."""
        line = self.board.update(name, event)
        if isinstance(event, Began):
            self._say(f"{line.name}: begins")
        elif isinstance(event, EpochDone):
            self._say(f"{line.name}: {_epoch(event, line)}")
        elif isinstance(event, Noticed):
            self._say(f"{line.name}: {event.text}")
        elif isinstance(event, Ended):
            earlier = " already" if line.earlier else ""
            self._say(f"{line.name}: {line.status}{earlier}{f': {line.error}' if line.error else ''}")

    def stopping(self) -> None:
        """See `grid.Screen`."""
        self._say("stopping: every run saves itself (once more to stop at once)")

    def end(self) -> None:
        """See `grid.Screen`."""
        self._say(self.board.summary())

    def _say(self, text: str) -> None:
        self.console.print(Text(text), soft_wrap=True)


def _epoch(event: EpochDone, line: Line) -> str:
    left = line.left()
    text = (
        f"epoch {event.epoch}/{line.epochs}  training {event.train_accuracy:.2f} %  "
        f"validation {event.val_accuracy:.2f} %  {event.seconds:.1f} s"
    )
    return text + (f"  {line.speed:.0f} images/s" if line.speed else "") + (f"  {duration(left)} left" if left else "")


class LiveScreen:
    """Every run's progress, speed and time left, and the table so far, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self.console, self.board = console, Board()
        self.table: RenderableType | None = None
        self.is_stopping = self.has_ended = False
        self.live = Live(console=console, refresh_per_second=4, get_renderable=self.render, transient=True)

    def begin(self, out: Path, runs: Sequence[RunConfig], workers: int) -> None:
        """See `grid.Screen`."""
        self.board.begin(out, runs, workers)
        self.live.start()

    def event(self, name: str, event: Event) -> None:
        """See `grid.Screen`."""
        line = self.board.update(name, event)
        if isinstance(event, Ended):
            self.table = self._table_so_far()
        if line.status == "failed":
            self.console.print(Text(f"{line.name} failed: {line.error}", style=STYLES["failed"]))
        if isinstance(event, Noticed):
            self.console.print(Text(f"{line.name}: {event.text}"))

    def stopping(self) -> None:
        """See `grid.Screen`."""
        self.is_stopping = True

    def end(self) -> None:
        """See `grid.Screen`."""
        # The last thing that `Live` draws is not cut to the terminal's height: what is above could not be wiped away.
        self.has_ended = True
        self.live.stop()
        self.console.print(Text(self.board.summary()))

    def render(self) -> RenderableType:
        """The current content of the display."""
        if self.has_ended:
            return Text()
        grid = Table.grid(padding=(0, 2))
        for line in self._shown():
            grid.add_row(*_cells(line))
        message = "stopping: every run saves itself (Ctrl-C once more to stop at once)"
        last = message if self.is_stopping else f"{self.board.summary()} (Ctrl-C stops; the same command continues)"
        parts: list[RenderableType] = [grid, Text(last, style="dim")]
        return Group(*parts, *([self.table] if self.table is not None else []))

    def _shown(self) -> list[Line]:
        """Runs at work, then others as far as the terminal's height goes."""
        lines = sorted(self.board.lines.values(), key=lambda line: line.status != "running")
        return lines[: max(self.console.height - 20, self.board.workers, 4)]

    def _table_so_far(self) -> RenderableType | None:
        """The table of the runs that are done; an empty one would only hide the progress."""
        with suppress(LabError):  # no record yet that can be read
            found, _ = records.load_readable(self.board.out)
            if any(record.status == "done" for record in found):
                return terminal(summarise_runs(found))
        return self.table


def _cells(line: Line) -> list[RenderableType]:
    left = line.left()
    return [
        Text(line.name),
        Text(line.status, style=STYLES[line.status]),
        ProgressBar(total=line.epochs, completed=line.epochs if line.status == "done" else line.position, width=20),
        Text(f"{int(line.position)}/{line.epochs}" if line.position else ""),
        Text(f"{line.accuracy:.2f} %" if line.accuracy is not None else ""),
        Text(f"{line.speed:.0f} images/s" if line.status == "running" and line.speed else ""),
        Text(f"{duration(left)} left" if left is not None else ""),
    ]


def screen(console: Console) -> PlainScreen | LiveScreen:
    """The display that suits where the output goes.

    Args:
        console: Where it goes.
    """
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)
