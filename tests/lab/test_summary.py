"""Which runs count, what is compared with what, in which order."""

import pytest
from tests.lab import factory

from aon.lab.statistics import summarise
from aon.lab.summary import rows, seconds_per_epoch


def test_one_row_for_each_method_bn_first_then_as_asked():
    records = factory.comparison(("bn+aon", "bn", "bn+orth"))
    assert rows(records)[0].label == "BN"
    asked = rows(records, [factory.canonical("bn+orth"), factory.canonical("bn+aon")])
    assert [row.label for row in asked] == ["BN", "BN+orthonormal", "BN+AON(q=2)"]


def test_means_are_over_finished_runs_of_best_and_last_epoch():
    records = factory.comparison(("bn+aon",), seeds=range(4))
    (row,) = rows([*records, factory.record("bn+aon", 9, status="running", done=2)])
    assert row.best == summarise([run.best.val_accuracy for run in records])
    assert row.last == summarise([run.last.val_accuracy for run in records])
    assert row.count == "4 of 5"


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_a_run_that_is_not_done_counts_in_no_number(status):
    (row,) = rows([factory.record("bn", status=status)])
    assert (row.best.mean, row.seconds.mean, row.ratio, row.count) == (None, None, None, "0 of 1")
    assert row.best_run is not None  # but can be drawn


def test_difference_to_bn_is_paired_over_the_same_seeds():
    bn, aon = rows(factory.comparison(("bn", "bn+aon")))
    assert bn.best_gain is None
    assert aon.best_gain.kind == "paired"
    assert aon.best_gain.value == pytest.approx(aon.best.mean - bn.best.mean)
    assert aon.ratio == pytest.approx(aon.seconds.mean / bn.seconds.mean)


def test_without_bn_there_is_no_difference_and_no_ratio():
    for row in rows(factory.comparison(("bn+orth", "bn+aon"))):
        assert (row.best_gain, row.last_gain, row.ratio) == (None, None, None)


def test_time_is_of_the_first_30_epochs():
    run = factory.record("bn", epochs=40)
    slow = run.but(
        epochs=tuple(row.model_copy(update={"seconds": 5.0 if row.epoch <= 30 else 500.0}) for row in run.epochs)
    )
    assert seconds_per_epoch(slow) == 5.0
    assert seconds_per_epoch(factory.record("bn", done=0)) is None


def test_runs_of_other_settings_are_never_averaged_and_each_has_its_own_bn():
    short = factory.comparison(("bn", "bn+aon"), epochs=10)
    long = factory.comparison(("bn", "bn+aon"), epochs=20)
    found = {row.label: row for row in rows(short + long)}
    assert set(found) == {"BN · epochs 10", "BN · epochs 20", "BN+AON(q=2) · epochs 10", "BN+AON(q=2) · epochs 20"}
    own = found["BN+AON(q=2) · epochs 10"]
    assert own.best_gain.value == pytest.approx(own.best.mean - found["BN · epochs 10"].best.mean)


def test_the_best_run_is_the_one_with_the_highest_validation_accuracy():
    records = factory.comparison(("bn",), seeds=range(5))
    (row,) = rows(records)
    assert row.best_run.best.val_accuracy == max(run.best.val_accuracy for run in records)


def test_no_records_no_rows():
    assert rows([]) == []
