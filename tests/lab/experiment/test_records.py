"""Records: round trips, checks, formats."""

import json
import math
import re

import pytest

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Comparison, Environment, EpochRow, Images, Record, SpectrumRow
from aon.lab.system.checksums import BLANK
from aon.lab.system.files import write_text

SPECTRUM = SpectrumRow(
    name="features.0",
    shape=(8, 27),
    weight_min=0.1,
    weight_median=0.5,
    weight_max=1.0,
    normalised_min=0.4,
    normalised_median=0.9,
    normalised_max=1.0,
    outside=0.0,
    error=0.2,
    agreement=0.99,
)


def sealed_again(path, text):
    """A file of other content with the checksum of that."""
    write_text(path, re.sub("[0-9a-f]{64}", BLANK, text), sealed=True)


def row(epoch, accuracy, **changes):
    plain = {"train_loss": 1.0, "train_accuracy": 50.0, "val_loss": 1.5, "penalty": None, "seconds": 1.0}
    plain |= {"eval_seconds": 0.1, "learning_rate": 0.1, "spectra": (SPECTRUM,)}
    return EpochRow(epoch=epoch, val_accuracy=accuracy, **{**plain, **changes})


def record(**changes):
    environment = Environment(
        python="3", torch="2", aon="0", platform="p", cpu="c", threads=1, device="cpu", commit=None, started="now"
    )
    plain = {"status": "done", "config": RunConfig(), "label": "BN+AON(q=2)", "environment": environment}
    plain |= {"parameters": 3, "images": Images(train=10, test=5), "epochs": (row(1, 50.0), row(2, 70.0), row(3, 70.0))}
    return Record(**{**plain, **changes})


def test_a_record_comes_back_as_it_was(tmp_path):
    records.save(record(), tmp_path)
    assert records.load(tmp_path) == record()


def test_best_is_the_first_of_equals_and_last_is_last():
    assert (record().best.epoch, record().last.epoch) == (2, 3)
    assert record(epochs=()).best is None
    assert record(epochs=()).last is None


def test_the_file_has_best_and_last_for_other_programs(tmp_path):
    records.save(record(), tmp_path)
    data = json.loads((tmp_path / "record.json").read_text())
    assert data["best"] == {"epoch": 2, "val_accuracy": 70.0, "test_accuracy": 70.0}
    assert data["last"] == {"epoch": 3, "val_accuracy": 70.0, "test_accuracy": 70.0}


def test_an_infinite_loss_survives_the_file(tmp_path):
    records.save(record(epochs=(row(1, 10.0, val_loss=math.inf, train_loss=math.nan),)), tmp_path)
    json.loads((tmp_path / "record.json").read_text(), parse_constant=pytest.fail)  # the file is plain JSON
    epoch = records.load(tmp_path).epochs[0]
    assert epoch.val_loss == math.inf
    assert math.isnan(epoch.train_loss)


def test_times_are_the_only_difference_between_equal_runs():
    slow = record(epochs=(row(1, 50.0, seconds=9.0, eval_seconds=9.0), row(2, 70.0), row(3, 70.0)))
    assert slow != record()
    assert slow.without_times() == record().without_times()
    assert record(epochs=(row(1, 51.0),)).without_times() != record(epochs=(row(1, 50.0),)).without_times()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 2}', '{"status": "done"}', "\x00\x00"],
    ids=["empty", "cut", "list", "null", "format", "incomplete", "zeros"],
)
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(LabError, match=r"record.json is damaged or not ours") as caught:
        records.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_every_cut_of_a_real_record_is_refused(tmp_path):
    records.save(record(), tmp_path)
    whole = (tmp_path / "record.json").read_bytes()
    for length in range(0, len(whole) - 2, 97):
        (tmp_path / "record.json").write_bytes(whole[:length])
        with pytest.raises(LabError, match="damaged"):
            records.load(tmp_path)


def test_a_method_from_another_world_is_refused_with_the_files_name(tmp_path):
    records.save(record(), tmp_path)
    path = tmp_path / "record.json"
    sealed_again(path, path.read_text().replace('"bn+aon"', '"bn+warp"'))
    with pytest.raises(LabError, match=r"record.json is damaged or not ours: .*warp"):
        records.load(tmp_path)


def test_a_missing_record_is_named(tmp_path):
    with pytest.raises(LabError, match=r"there is no .*record.json"):
        records.load(tmp_path)


def comparison(**changes):
    base = RunConfig().model_dump(mode="json", exclude={"method", "seed"})
    plain = {"name": "c", "methods": ("bn+aon", "bn"), "seeds": (0, 1), "config": base, "created": "now"}
    return Comparison(**{**plain, **changes})


def test_a_comparison_comes_back_and_lists_its_runs(tmp_path):
    records.save_comparison(comparison(), tmp_path)
    assert records.load_comparison(tmp_path) == comparison()
    runs = [(run.method, run.seed) for run in comparison().runs()]
    assert runs == [("bn+aon", 0), ("bn", 0), ("bn+aon", 1), ("bn", 1)]


def test_a_comparison_runs_every_method_and_seed_under_every_setting(tmp_path):
    varied = comparison(vary={"learning_rate": (0.05, 0.1), "width": (0.5, 1.0)}, baseline="bn+aon")
    records.save_comparison(varied, tmp_path)
    assert records.load_comparison(tmp_path) == varied
    runs = [(run.seed, run.learning_rate, run.width, run.method) for run in varied.runs()]
    assert len(set(runs)) == len(runs) == 16
    assert runs[:3] == [(0, 0.05, 0.5, "bn+aon"), (0, 0.05, 0.5, "bn"), (0, 0.05, 1.0, "bn+aon")]


def test_a_comparison_of_the_first_format_is_read(tmp_path):
    records.save_comparison(comparison(), tmp_path)
    path = tmp_path / "comparison.json"
    old = json.loads(path.read_text()) | {"format": 1}
    del old["vary"], old["baseline"], old["checksum"]
    path.write_text(json.dumps(old))
    assert records.load_comparison(tmp_path) == comparison(format=1)


def test_readable_records_are_read_and_damaged_ones_named(tmp_path):
    for run in comparison().runs():
        folder = tmp_path / "runs" / run.run_id()
        folder.mkdir(parents=True)
        records.save(record(config=run), folder)
    victim = folder / "record.json"
    victim.write_text("{")
    found, (message,) = records.load_readable(tmp_path)
    assert len(found) == 3
    assert str(victim) in message
    with pytest.raises(LabError, match="damaged"):
        records.load_all(tmp_path)
    for path in tmp_path.glob("runs/*/record.json"):
        path.write_text("{")
    with pytest.raises(LabError, match="damaged"):
        records.load_readable(tmp_path)


def test_a_comparison_with_damaged_settings_is_named(tmp_path):
    records.save_comparison(comparison(), tmp_path)
    path = tmp_path / "comparison.json"
    sealed_again(path, path.read_text().replace('"epochs": 160', '"epochs": -160'))
    with pytest.raises(LabError, match=r"comparison.json is damaged or not ours: epochs = -160"):
        records.load_comparison(tmp_path)


def test_records_come_in_the_order_of_the_comparison(tmp_path):
    records.save_comparison(comparison(), tmp_path)
    for run in reversed(comparison().runs()):
        folder = tmp_path / "runs" / run.run_id()
        folder.mkdir(parents=True)
        records.save(record(config=run), folder)
    assert [found.config for found in records.load_all(tmp_path)] == comparison().runs()


def test_a_single_run_is_a_comparison_of_one(tmp_path):
    records.save(record(), tmp_path)
    assert records.load_all(tmp_path) == [record()]


def test_a_directory_without_records_is_named(tmp_path):
    with pytest.raises(LabError, match="holds no records"):
        records.load_all(tmp_path)
