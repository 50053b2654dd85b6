"""The events of one run."""

from pathlib import Path

import pytest

from aon.lab.errors import RunError, StoppedError
from aon.lab.experiment.config import RunConfig
from aon.lab.grid.events import Began, Ended, EpochDone, Progressed
from aon.lab.grid.jobs import Job, perform

CONFIG = RunConfig(
    method="bn", network="resnet20", width=0.25, train_size=40, test_size=20, batch_size=20, epochs=2, threads=1
)


def events_of(tmp_path: Path, stop=lambda: False, error=None, **changes):
    events = []
    job = Job.of(CONFIG.but(**changes), tmp_path / "run", None)
    if error is None:
        perform(job, events.append, stop)
    else:
        with pytest.raises(error):
            perform(job, events.append, stop)
    return [event for event in events if not isinstance(event, Progressed)]


def test_a_run_that_is_done(tmp_path):
    first, *epochs, last = events_of(tmp_path)
    assert (first, last) == (Began(), Ended("done"))
    assert [(type(event), event.epoch) for event in epochs] == [(EpochDone, 1), (EpochDone, 2)]


def test_a_run_that_is_stopped(tmp_path):
    assert events_of(tmp_path, lambda: True, StoppedError) == [Began(), Ended("interrupted")]


def test_a_run_that_fails(tmp_path):
    *_, last = events_of(tmp_path, error=RunError, learning_rate=1e30)
    assert last.status == "failed"
    assert "not finite" in last.error
