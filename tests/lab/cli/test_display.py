"""The live display and the plain lines."""

import io

import pytest
from rich.console import Console
from tests.lab import factory

from aon.lab.cli.display import LiveScreen, PlainScreen, screen
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.grid.events import Began, Ended, EpochDone, Progressed

RUNS = [RunConfig(method=method, epochs=2) for method in ("bn", "bn+aon")]
BN, AON = (run.run_id() for run in RUNS)
EVENTS = [
    (BN, Began()),
    (BN, Progressed(epoch=1, epochs=2, step=5, steps=10, speed=1234.0)),
    (BN, EpochDone(1, train_loss=1.5, train_accuracy=40.0, val_loss=1.25, val_accuracy=51.25, seconds=3.21)),
    (AON, Began()),
    (AON, Ended("failed", "out of memory [on] /a/path")),
]


def played(out, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, height=50, color_system=None)
    made = screen(console)
    made.begin(out, RUNS, 2)
    for name, event in EVENTS:
        made.event(name, event)
    return made, console


def test_plain_lines_where_there_is_no_terminal(tmp_path):
    made, console = played(tmp_path, terminal=False)
    made.stopping()
    made.end()
    assert isinstance(made, PlainScreen)
    assert console.file.getvalue().splitlines() == [
        f"2 runs, 2 at a time, in {tmp_path}",
        "BN seed 0: begins",
        "BN seed 0: epoch 1/2  training 40.00 %  validation 51.25 %  3.2 s  1234 images/s  0:00 left",
        "BN+AON(q=2) seed 0: begins",
        "BN+AON(q=2) seed 0: failed: out of memory [on] /a/path",
        "stopping: every run saves itself (once more to stop at once)",
        "1 running, 1 failed; about 0:00 left",
    ]


def test_a_terminal_shows_every_run_and_the_table_so_far(tmp_path):
    factory.write(tmp_path, factory.comparison(("bn",), seeds=(0, 1)))
    made, console = played(tmp_path, terminal=True)
    assert isinstance(made, LiveScreen)
    with console.capture() as capture:
        console.print(made.render())
    shown = capture.get()
    made.stopping()
    made.end()
    assert "BN seed 0" in shown
    assert "1/2" in shown
    assert "51.25 %" in shown
    assert "1234 images/s" in shown
    assert "left" in shown
    assert "last epoch" in shown
    assert "BN+AON(q=2) seed 0 failed: out of memory [on] /a/path" in console.file.getvalue()


def test_a_damaged_record_does_not_break_the_display(tmp_path):
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    (folder / records.RECORD).write_text("{")
    made, _ = played(tmp_path, terminal=True)
    made.end()
    assert made.table is None


@pytest.mark.parametrize("runs", [1, 40])
def test_more_runs_than_lines(tmp_path, runs):
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=24, color_system=None)
    made = LiveScreen(console)
    made.begin(tmp_path, [RunConfig(method="bn", seed=seed) for seed in range(runs)], 2)
    with console.capture() as capture:
        console.print(made.render())
    made.end()
    assert capture.get().count("BN seed") == min(runs, 4)


def test_a_display_taller_than_the_terminal_leaves_nothing_behind(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=120, height=8, color_system=None)
    made = screen(console)
    made.begin(tmp_path, [RunConfig(method="bn", epochs=2, seed=seed) for seed in range(40)], 30)
    made.live.refresh()
    made.end()
    assert "BN seed" in console.file.getvalue()
    after_the_last_erased_line = console.file.getvalue().rpartition("\x1b[2K")[2]
    assert "BN seed" not in after_the_last_erased_line
