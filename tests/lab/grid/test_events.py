"""Events as lines of JSON."""

import pytest

from aon.lab.errors import LabError
from aon.lab.grid.events import Began, Ended, EpochDone, Progressed, from_line, to_line

EVENTS = [
    Began(),
    Progressed(epoch=1, epochs=2, step=3, steps=4, speed=5.5),
    EpochDone(1, train_loss=1.5, train_accuracy=40.0, val_loss=1.25, val_accuracy=51.25, seconds=3.21),
    Ended("done", earlier=True),
    Ended("failed", 'a "reason"\nof two lines'),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_survives_the_way_through_a_pipe(event):
    line = to_line(event)
    assert "\n" not in line
    assert from_line(line + "\n") == event


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"event": "Exploded"}', '{"event": "Ended"}', "hello"])
def test_anything_else_is_refused(line):
    with pytest.raises(LabError, match="is not an event of a run"):
        from_line(line)
