"""TensorBoard's event files."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.lab import factory

from aon.lab.training.tracking import log_epoch, scalars


def test_tensorboard_reads_what_was_logged_and_an_epoch_done_again_replaces_the_first(tmp_path):
    first, second = factory.record("bn+orth", done=2).epochs
    other = second.model_copy(update={"val_accuracy": 12.5})
    for row in (first, other, second):
        log_epoch(tmp_path, row)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= {"accuracy/validation", "loss/train", "run/learning_rate"}
    found = [(event.step, event.value) for event in events.Scalars("accuracy/validation")]
    assert [step for step, _ in found] == [1, 2]
    assert abs(found[1][1] - second.val_accuracy) < 1e-4


def test_a_penalty_and_spectra_are_logged_if_there_are_any():
    row = factory.record("bn+aon", done=1).epochs[0]
    bare = scalars(row.model_copy(update={"spectra": None, "penalty": None}))
    assert "loss/penalty" not in bare
    assert not any(name.startswith("singular") for name in bare)
    whole = scalars(row.model_copy(update={"penalty": 0.5}))
    assert whole["loss/penalty"] == 0.5
    assert sum(name.startswith("singular values of h(W), max/") for name in whole) == len(row.spectra)
