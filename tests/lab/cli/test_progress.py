"""Position, speed and time left."""

import pytest

from aon.lab.cli import progress as board
from aon.lab.cli.progress import Board, duration
from aon.lab.experiment.config import RunConfig
from aon.lab.grid.events import Began, Ended, EpochDone, Progressed

RUNS = [RunConfig(method=method, epochs=10) for method in ("bn", "bn+aon")]
BN, AON = (run.run_id() for run in RUNS)


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(board.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def known(tmp_path):
    made = Board()
    made.begin(tmp_path, RUNS, workers=1)
    return made


def progress(epoch, step, steps=10, speed=100.0):
    return Progressed(epoch, 10, step, steps, speed)


def test_time_left_follows_the_pace(known, clock):
    line = known.update(BN, Began())
    assert line.left() is None
    known.update(BN, progress(1, 0))
    assert line.left() is None
    clock[0] = 5.0
    known.update(BN, progress(1, 5))  # half an epoch in five seconds
    assert line.left() == pytest.approx(95.0)
    assert known.left() == pytest.approx(95.0 + 100.0)  # and another run of the same length waits
    assert known.summary() == "1 running, 1 waiting; about 3:15 left"


def test_a_continued_run_is_judged_by_its_pace_since(known, clock):
    line = known.update(BN, Began())
    known.update(BN, progress(9, 0))
    clock[0] = 4.0
    known.update(BN, progress(9, 5))
    assert line.left() == pytest.approx(12.0)


def test_epochs_and_ends_are_noted(known):
    known.update(BN, Began())
    line = known.update(BN, EpochDone(3, 1.0, 70.0, 1.0, 71.5, 1.0))
    assert (line.position, line.accuracy, line.status) == (3.0, 71.5, "running")
    known.update(BN, Ended("failed", "out of memory"))
    assert (line.status, line.error) == ("failed", "out of memory")
    assert known.update(AON, Ended("done", earlier=True)).earlier
    assert known.summary() == "1 done, 1 failed"


def test_durations():
    assert [duration(s) for s in (0, 59.6, 3599, 3600, 90061)] == ["0:00", "1:00", "59:59", "1:00 h", "25:01 h"]


def test_runs_that_wait_take_time_even_when_the_one_at_work_is_at_its_end(known, clock):
    known.update(BN, Began())
    known.update(BN, progress(1, 0))
    clock[0] = 100.0
    known.update(BN, progress(10, 10))
    assert known.left() == pytest.approx(100.0)
    known.update(BN, Ended("done", None))
    known.update(AON, Began())
    assert known.left() == pytest.approx(100.0)
