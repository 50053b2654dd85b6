"""Which runs count, what is compared with what, in which order."""

import pytest
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.report.statistics import difference, holm, summarise
from aon.lab.report.summary import seconds_per_epoch, summarise_runs, varying

VALID = {"validation_size": 200}


def rows(*arguments, **keywords):
    return summarise_runs(*arguments, **keywords).rows


def rates(*values, methods=("bn", "bn+aon"), **settings):
    """Runs at several learning rates."""
    return [run for rate in values for run in factory.comparison(methods, learning_rate=rate, **settings)]


def scored(run, val, test):
    """The run with one epoch of these accuracies."""
    epoch = run.epochs[0].model_copy(update={"val_accuracy": val, "test_accuracy": test})
    return run.but(epochs=(epoch,))


def test_one_row_for_each_method_the_base_first_then_as_asked():
    records = factory.comparison(("bn+aon", "bn", "bn+orth"))
    assert rows(records)[0].label == "BN"
    ordered = rows(records, [factory.canonical("bn+orth"), factory.canonical("bn+aon")])
    assert [row.label for row in ordered] == ["BN", "BN+orthonormal", "BN+AON(q=2)"]


@pytest.mark.parametrize("settings", [{}, VALID], ids=["test", "validation"])
def test_means_are_over_finished_runs_of_last_best_and_last_five(settings):
    records = factory.comparison(("bn+aon",), seeds=range(4), **settings)
    (row,) = rows([*records, factory.record("bn+aon", 9, status="running", done=2, **settings)])
    assert row.accuracy["last"] == row.last == summarise([run.last.test_accuracy for run in records])
    assert row.accuracy["best"] == summarise([run.best.test_accuracy for run in records])
    assert row.accuracy["last_five"] == summarise([run.last_five for run in records])
    assert row.count == "4 of 5"


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_a_run_that_is_not_done_counts_in_no_number(status):
    (row,) = rows([factory.record("bn", status=status)])
    assert (row.last.mean, row.seconds.mean, row.ratio, row.count) == (None, None, None, "0 of 1")
    assert row.best_run is not None  # but can be drawn


def test_difference_to_the_base_is_paired_over_the_same_seeds():
    bn, aon = rows(factory.comparison(("bn", "bn+aon")))
    assert bn.is_base
    assert set(bn.gain.values()) == {None}
    assert aon.gain["last"].kind == "paired"
    assert aon.gain["last"].value == pytest.approx(aon.last.mean - bn.last.mean)
    assert aon.ratio == pytest.approx(aon.seconds.mean / bn.seconds.mean)


def test_without_bn_the_first_method_is_the_base():
    results = summarise_runs(factory.comparison(("bn+orth", "bn+aon")))
    assert results.base == "BN+orthonormal"
    assert results.rows[1].gain["last"].p is not None
    ordered = summarise_runs(factory.comparison(("bn+orth", "bn+aon")), order=["bn+aon", "bn+orth"])
    assert ordered.base == "BN+AON(q=2)"


def test_any_method_can_be_the_base():
    results = summarise_runs(factory.comparison(), base="aon+bn")
    assert results.base == "BN+AON(q=2)"
    assert results.rows[0].label == "BN+AON(q=2)"
    assert {row.label: row.gain["last"] is None for row in results.rows} == {
        "BN+AON(q=2)": True,
        "BN": False,
        "BN+orthonormal": False,
    }
    with pytest.raises(LabError, match=r"base = 'iternorm': there is no run of it; there are bn, bn\+aon, bn\+orth"):
        summarise_runs(factory.comparison(), base="iternorm")


def test_seeds_that_only_one_method_has_are_left_out_of_the_difference():
    records = [*factory.comparison(("bn",), seeds=range(8)), *factory.comparison(("bn+aon",), seeds=range(3, 9))]
    bn, aon = rows(records)
    assert (aon.gain["last"].n, aon.gain["last"].kind) == (5, "paired")
    assert (bn.last.n, aon.last.n) == (8, 6)


def test_p_values_are_corrected_over_the_methods_of_the_table():
    found = rows(factory.comparison())
    raw = [row.gain["last"].p for row in found[1:]]
    assert [row.gain["last"].corrected for row in found[1:]] == holm(raw)
    assert {row.gain["last"].comparisons for row in found[1:]} == {2}


def test_the_matrix_holds_every_ordered_pair_corrected_over_all_pairs():
    results = summarise_runs(factory.comparison())
    assert len(results.matrix) == 6
    there = [("BN", "BN+orthonormal"), ("BN", "BN+AON(q=2)"), ("BN+orthonormal", "BN+AON(q=2)")]
    assert [results.matrix[pair].corrected for pair in there] == holm([results.matrix[pair].p for pair in there])
    for a, b in there:
        found, back = results.matrix[a, b], results.matrix[b, a]
        assert (found.value, found.low, found.corrected) == pytest.approx((-back.value, -back.high, back.corrected))
        assert found.ahead + back.ahead == found.n


def test_time_is_of_the_first_30_epochs():
    run = factory.record("bn", epochs=40)
    slow = run.but(
        epochs=tuple(row.model_copy(update={"seconds": 5.0 if row.epoch <= 30 else 500.0}) for row in run.epochs)
    )
    assert seconds_per_epoch(slow) == 5.0
    assert seconds_per_epoch(factory.record("bn", done=0)) is None


def test_runs_of_other_settings_are_never_averaged_and_each_has_its_own_base():
    results = summarise_runs(rates(0.1, 0.2))
    found = {row.label: row for row in results.rows}
    assert list(found) == [
        "BN · learning rate 0.1",
        "BN+AON(q=2) · learning rate 0.1",
        "BN · learning rate 0.2",
        "BN+AON(q=2) · learning rate 0.2",
    ]
    own = found["BN+AON(q=2) · learning rate 0.1"]
    assert own.gain["last"].value == pytest.approx(own.last.mean - found["BN · learning rate 0.1"].last.mean)
    assert results.settings == ["learning rate 0.1", "learning rate 0.2"]
    assert results.methods == ["BN", "BN+AON(q=2)"]
    assert len(results.matrix) == 4  # pairs of one setting only


def test_numbers_of_images_that_are_not_given_are_named():
    without, some = factory.record("bn"), factory.record("bn", validation_size=50, train_size=200)
    assert varying([without, some], {"train_size", "validation_size"}) == [
        ("train size all", "validation size 0"),
        ("train size 200", "validation size 50"),
    ]


def test_the_best_setting_of_each_method_is_chosen_by_validation_and_not_by_test():
    runs = []
    for rate, (bn, aon) in {0.1: ((80, 60), (70, 90)), 0.2: ((75, 99), (71, 65))}.items():
        for seed in range(3):
            for method, (val, test) in (("bn", bn), ("bn+aon", aon)):
                run = factory.record(method, seed, epochs=1, learning_rate=rate, **VALID)
                runs.append(scored(run, val + 0.1 * seed, test + 0.3 * seed * (method == "bn")))
    bn, aon = summarise_runs(runs).choices
    assert (bn.row.setting, aon.row.setting) == ("learning rate 0.1", "learning rate 0.2")
    assert bn.gain is None
    assert aon.gain.value == difference(aon.row.results["last"], bn.row.results["last"]).value
    assert aon.gain.corrected == aon.gain.p


def test_nothing_is_chosen_where_there_is_one_setting_or_no_validation():
    assert summarise_runs(factory.comparison(**VALID)).choices == ()
    assert summarise_runs(rates(0.1, 0.2)).choices == ()


def test_a_method_with_fewer_settings_to_choose_from_is_left_out():
    runs = [*rates(0.1, 0.2, **VALID), *factory.comparison(("bn+orth",), learning_rate=0.1, **VALID)]
    assert [one.row.method for one in summarise_runs(runs).choices] == ["BN", "BN+AON(q=2)"]


def test_a_setting_under_which_no_run_finished_was_tried_all_the_same():
    runs = rates(0.1, 0.2, **VALID)
    runs = [run.but(status="failed") if run.label == "BN" and run.config.learning_rate == 0.2 else run for run in runs]
    bn, aon = summarise_runs(runs).choices
    assert bn.row.setting == "learning rate 0.1"
    assert aon.gain.n == 3


def test_nothing_is_chosen_where_the_base_was_not_run_under_every_setting():
    runs = [run for run in rates(0.1, 0.2, **VALID) if run.label != "BN" or run.config.learning_rate == 0.1]
    assert summarise_runs(runs).choices == ()


def test_settings_are_chosen_over_the_seeds_that_all_of_them_have():
    """A lucky extra seed does not make a setting better."""
    runs = [
        scored(factory.record("bn", seed, epochs=1, learning_rate=rate, **VALID), val, 50.0)
        for rate, values in {0.1: (70, 70, 99), 0.2: (71, 71)}.items()
        for seed, val in enumerate(values)
    ]
    (chosen,) = summarise_runs(runs).choices
    assert chosen.row.setting == "learning rate 0.2"


def test_no_method_is_preferred_for_an_easier_task():
    runs = [run for name in ("cifar10", "cifar100") for run in rates(0.1, 0.2, dataset=name, **VALID)]
    results = summarise_runs(runs)
    assert [(one.row.method, one.row.task) for one in results.choices] == [
        ("BN", "dataset cifar10"),
        ("BN+AON(q=2)", "dataset cifar10"),
        ("BN", "dataset cifar100"),
        ("BN+AON(q=2)", "dataset cifar100"),
    ]
    assert {row.gain["last"].comparisons for row in results.rows if not row.is_base} == {2}


def test_the_best_run_is_the_one_with_the_highest_validation_accuracy():
    records = factory.comparison(("bn",), seeds=range(5))
    (row,) = rows(records)
    assert row.best_run.best.val_accuracy == max(run.best.val_accuracy for run in records)


def test_no_records_no_rows():
    assert rows([]) == ()
