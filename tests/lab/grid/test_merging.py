"""Merging without training: records of the factory, in directories as `aon compare` leaves them."""

import pytest
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.grid.merging import Merged, merge

A, B = "a", "b"


@pytest.fixture
def shards(tmp_path):
    """Two directories with half of the runs each, and weights beside the records."""
    runs = factory.comparison(("bn", "bn+aon"), seeds=(0, 1))
    for name, part in ((A, runs[::2]), (B, runs[1::2])):
        factory.write(tmp_path / name, part)
        for run in part:
            folder = tmp_path / name / "runs" / run.config.run_id()
            (folder / "model.safetensors").write_bytes(run.config.run_id().encode())
            (folder / ".lock").touch()
    return tmp_path


def test_shards_become_one_comparison(shards):
    out = shards / "out"
    assert merge([shards / A, shards / B], out) == Merged(copied=4, done=4, runs=4)
    comparison = records.load_comparison(out)
    assert (comparison.methods, comparison.seeds) == (("bn", "bn+aon"), (0, 1))
    found = records.load_all(out)
    assert sorted((record.config.method, record.config.seed) for record in found) == [
        ("bn", 0), ("bn", 1), ("bn+aon", 0), ("bn+aon", 1),
    ]  # fmt: skip
    for folder in (out / "runs").iterdir():
        assert (folder / "model.safetensors").read_text() == folder.name
        assert not (folder / ".lock").exists()
    assert merge([shards / A, shards / B], out) == Merged(copied=0, done=4, runs=4)


def test_a_directory_can_be_added_to(shards):
    assert merge([shards / B], shards / A) == Merged(copied=2, done=4, runs=4)


def test_other_settings_are_refused_by_name_and_nothing_is_copied(shards):
    factory.write(shards / "c", factory.comparison(("bn",), seeds=(2,), learning_rate=0.5))
    with pytest.raises(LabError, match=r"c does not belong with .*a: other settings \(learning_rate: 0.1 -> 0.5\)"):
        merge([shards / A, shards / "c"], shards / "out")
    assert not (shards / "out").exists()


def test_threads_are_no_difference(shards):
    comparison = records.load_comparison(shards / B)
    records.save_comparison(comparison.model_copy(update={"config": comparison.config | {"threads": 7}}), shards / B)
    assert merge([shards / A, shards / B], shards / "out").done == 4


def test_a_different_finished_run_is_never_overwritten(shards):
    run = records.load_all(shards / A)[0]
    row = run.epochs[3].model_copy(update={"train_loss": 9.5})
    changed = run.but(epochs=(*run.epochs[:3], row, *run.epochs[4:]))
    factory.write(shards / "c", [changed])
    with pytest.raises(LabError, match=r"are different results of one run: epochs.3.train_loss: [\d.]+ and 9.5"):
        merge([shards / A, shards / "c"], shards / "out")
    with pytest.raises(LabError, match="are different results of one run"):
        merge([shards / "c"], shards / A)
    assert records.load_all(shards / A)[0] == run


def test_of_two_attempts_the_finished_one_or_the_furthest_is_kept(shards):
    short, longer = (factory.record("bn", 0, status="interrupted", done=done) for done in (2, 5))
    factory.write(shards / "short", [short])
    factory.write(shards / "longer", [longer])
    out = shards / "out"
    assert merge([shards / "short", shards / "longer"], out) == Merged(copied=1, done=0, runs=1)
    assert len(records.load_all(out)[0].epochs) == 5
    merge([shards / A], out)
    assert records.load(out / "runs" / short.config.run_id()).status == "done"


def test_what_is_no_comparison_is_refused(shards):
    with pytest.raises(LabError, match=r"there is no .*comparison.json"):
        merge([shards], shards / "out")
    (shards / A / "runs" / "foreign").mkdir()
    run = factory.record("bn", 0)
    records.save(run, shards / A / "runs" / "foreign")
    with pytest.raises(LabError, match="foreign is no run of the comparison"):
        merge([shards / A], shards / "out")
    with pytest.raises(LabError, match="nothing to merge"):
        merge([], shards / "out")
