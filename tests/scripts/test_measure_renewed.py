"""Test accuracy with recomputed statistics: real runs measured, their table, and errors in one line."""

import json

import pytest
import torch
from scripts.measure_renewed import PAGE, Renewal, changes, load, main, measure, page, retest, table

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig
from aon.lab.training import checkpoints
from aon.lab.training.run import run

TINY = RunConfig(
    method="bn+aon",
    network="resnet20",
    width=0.25,
    dataset="cifar10-sample",
    train_size=400,
    test_size=200,
    validation_size=20,
    batch_size=20,
    epochs=3,
    threads=1,
    device="cpu",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A comparison folder with one finished run."""
    before = torch.get_num_threads()
    folder = tmp_path_factory.mktemp("runs")
    run(TINY, folder / "cifar10" / "runs" / TINY.run_id())
    torch.set_num_threads(before)
    return folder


def test_a_run_is_measured_once_and_its_weights_stay_as_they_are(runs, tmp_path):
    folder = runs / "cifar10" / "runs" / TINY.run_id()
    before = (folder / checkpoints.LAST).read_bytes()
    measure(runs, tmp_path)
    path = tmp_path / "cifar10" / f"{TINY.run_id()}.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["plain"] == pytest.approx(records.load(folder).last.test_accuracy)
    # so near the start the running averages lag far behind the weights
    assert found["renewed"] != found["plain"]
    assert load(tmp_path) == [Renewal("cifar10", TINY, found["plain"], found["renewed"])]
    path.write_text(json.dumps(found | {"plain": 1.0}), encoding="utf-8")
    measure(runs, tmp_path)
    assert load(tmp_path)[0].plain == 1.0
    assert (folder / checkpoints.LAST).read_bytes() == before


def test_weights_that_do_not_belong_to_the_record_are_refused(runs, tmp_path):
    folder = runs / "cifar10" / "runs" / TINY.run_id()
    record = records.load(folder)
    wrong = record.epochs[-1].model_copy(update={"test_accuracy": 99.0})
    records.save(record.but(epochs=(*record.epochs[:-1], wrong)), tmp_path)
    (tmp_path / checkpoints.LAST).write_bytes((folder / checkpoints.LAST).read_bytes())
    with pytest.raises(LabError, match=r"its weights have .* % where its record says 99.0"):
        retest(tmp_path)


def retested(method, seed, plain, renewed, folder="cifar10", **settings):
    sizes = {"width": 0.25, "train_size": 10_000, "epochs": 30}
    return Renewal(folder, RunConfig(method=method, seed=seed, **sizes, **settings), plain, renewed)


def test_a_line_has_both_accuracies_and_both_differences_to_bn():
    found = [
        retested("bn", 100, 70, 71),
        retested("bn", 101, 72, 73),
        retested("bn+aon", 100, 74, 76),
        retested("bn+aon", 101, 75, 77),
        retested("bn", 101, 60, 65, folder="cifar10-again"),  # the same run once more: a line of its own
        retested("bn+orth", 100, 60, 70, schedule="linear"),
    ]
    first, second, again, third = table(found).splitlines()[2:]
    assert first == "| the main runs: learning rate 0.1, halved twice | BN | 2 | 71.00 | 72.00 | - | - |"
    assert second.endswith("| BN+AON(q=2) | 2 | 74.50 | 76.50 | +3.50, n = 2 | +4.50, n = 2 |")
    assert again.endswith(" (repeated) | BN | 1 | 60.00 | 65.00 | - | - |")
    assert third == "| falling linearly to zero | BN+orthonormal | 1 | 60.00 | 70.00 | - | - |"


def test_runs_whose_rate_falls_to_zero_are_counted_apart_and_rounding_as_no_change():
    found = [
        retested("bn", 100, 70, 69),
        retested("bn", 101, 70, 73),
        retested("bn", 102, 70, 70.04),
        retested("bn", 100, 70, 70.5, schedule="linear"),
    ]
    steady, falling, _ = changes(found).splitlines()
    assert steady.endswith("it raises 1 and lowers 1 of 3 runs: from -1.00 to +3.00 points, median +0.00.")
    assert falling.startswith("- Where the learning rate falls to zero, it raises 1 and lowers 0 of 1 runs")


@pytest.mark.parametrize("words", [[], ["go"], ["measure", "a", "b"], ["write", "x"]])
def test_other_words_are_refused(words):
    with pytest.raises(SystemExit, match="expected `measure"):
        main(words)


def test_the_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run `make pages`"
