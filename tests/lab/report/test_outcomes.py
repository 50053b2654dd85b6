"""One vocabulary for the three test accuracies of a run."""

import pytest
from tests.lab import factory

from aon.lab.report.outcomes import BEST, LAST_FIVE, PRIMARY, explanation, has_validation, title


def test_with_validation_images_the_test_accuracy_of_the_chosen_epoch_counts():
    run = factory.record("bn", validation_size=200)
    best = max(run.epochs, key=lambda row: row.val_accuracy)
    assert PRIMARY.of(run) == run.epochs[-1].test_accuracy
    assert BEST.of(run) == best.test_accuracy != best.val_accuracy
    assert LAST_FIVE.of(run) == pytest.approx(sum(row.test_accuracy for row in run.epochs[-5:]) / 5)


def test_without_them_the_best_is_the_best_on_the_test_set_and_is_called_that():
    run = factory.record("bn")
    assert PRIMARY.of(run) == run.epochs[-1].val_accuracy
    assert BEST.of(run) == max(row.val_accuracy for row in run.epochs)
    assert title(BEST, has_validation([run])) == "best epoch on the test set, as in the paper"
    assert "flatters" in explanation(False)


def test_a_run_without_an_epoch_has_no_outcome():
    run = factory.record("bn", status="failed", done=0)
    assert [outcome.of(run) for outcome in (PRIMARY, BEST, LAST_FIVE)] == [None] * 3


def test_runs_of_both_kinds_are_named_neutrally():
    runs = [factory.record("bn"), factory.record("bn", validation_size=200)]
    assert has_validation(runs) is None
    assert title(BEST, None) == "best epoch"
    assert "in runs without" in explanation(None)
