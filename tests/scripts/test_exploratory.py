"""Tables and sentences on the exploratory questions of the study."""

from scripts.exploratory import NOT_RUN, contrasts, fit, orthonormality, settings, settings_table, tuned
from tests.lab import factory

METHODS = ("bn", "bn+orth", "bn+aon")


def lines(found, best=None):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in settings_table(found, best).splitlines()[2:]]


def test_each_setting_is_named_by_what_differs_from_the_main_runs():
    main = factory.comparison(epochs=3)
    others = [
        factory.comparison(epochs=3, learning_rate=0.05),
        factory.comparison(epochs=3, schedule="linear", weight_decay=0.0005),
        factory.comparison(("ln", "ln+orth", "ln+aon"), epochs=3, network="vit", optimiser="adamw"),
    ]
    assert [line[0] for line in lines(settings(main, others))] == [
        "the main runs: learning rate 0.1, halved twice",
        "learning rate 0.05",
        "falling linearly to zero, weight decay 0.0005",
        "vit, adamw",
    ]


def test_a_line_has_means_and_paired_differences_to_the_normaliser():
    runs = factory.comparison(("ln", "ln+aon"), seeds=(0, 1), epochs=3)
    last = {(run.config.method, run.config.seed): run.last.test_accuracy for run in runs}
    line = lines(settings(factory.comparison(epochs=3), [runs]))[1]
    assert line[1] == "2"
    assert line[2] == f"{(last['ln', 0] + last['ln', 1]) / 2:.2f}"
    assert line[3] == "-"  # the penalty was not run here
    mean = (last["ln+aon", 0] + last["ln+aon", 1]) / 2
    gain = mean - (last["ln", 0] + last["ln", 1]) / 2
    assert line[4].startswith(f"{mean:.2f} ({gain:+.2f} [")


def test_the_best_map_has_a_column_and_one_seed_no_interval():
    best = "aon:expansion=minimax"
    runs = factory.comparison(("bn", f"bn+{best}"), seeds=(0,), epochs=3)
    line = lines(settings(factory.comparison(epochs=3), [runs]), best)[1]
    assert line[5] != "-"
    assert "[" not in line[5]


def test_methods_are_compared_with_each_other_under_every_setting():
    best = "aon:expansion=minimax"
    main = factory.comparison((*METHODS, f"bn+{best}"), seeds=(0, 1), epochs=3)
    other = factory.comparison(("ln", "ln+aon"), seeds=(0,), epochs=3)
    last = {(run.config.method, run.config.seed): run.last.test_accuracy for run in main}
    first, second = contrasts(settings(main, [other]), best).splitlines()[2:]
    cells = [cell.strip() for cell in first.split("|")[2:-1]]
    for cell, (ours, base) in zip(cells[::2], (("bn+aon", "bn+orth"), (f"bn+{best}", "bn+aon")), strict=True):
        assert cell.startswith(f"{sum(last[ours, seed] - last[base, seed] for seed in (0, 1)) / 2:+.2f} [")
    assert cells[1::2] == ["2", "2"]
    assert second.endswith("| - | - | - | - |")


def test_seeds_that_differ_between_methods_are_a_range():
    main = factory.comparison(epochs=3)
    runs = factory.comparison(("bn",), seeds=range(3), epochs=3) + factory.comparison(("bn+aon",), seeds=(0,), epochs=3)
    assert lines(settings(main, [runs]))[1][1] == "1 to 3"


def test_without_other_settings_the_table_says_so():
    assert settings_table(settings(factory.comparison(epochs=2), []), None) == NOT_RUN


def scored(method, seed, validation, test, **setting):
    run = factory.record(method, seed, epochs=2, validation_size=100, **setting)
    last = run.epochs[-1].model_copy(update={"val_accuracy": validation, "test_accuracy": test})
    return run.but(epochs=(run.epochs[0], last))


def test_each_method_is_taken_at_its_best_setting_by_validation_over_the_seeds_that_all_have():
    main = [scored("bn", 0, 60, 61), scored("bn+orth", 0, 50, 51), scored("bn+aon", 0, 70, 65)]
    main.append(scored("bn", 1, 99, 99))  # the other methods do not have this seed
    slow = [
        scored("bn", 0, 64, 63, learning_rate=0.05),
        scored("bn+orth", 0, 40, 70, learning_rate=0.05),  # higher on the test set, which does not choose
        scored("bn+aon", 0, 66, 80, learning_rate=0.05),
    ]
    text = tuned(settings(main, [slow]))
    assert "2 settings" in text
    assert "over the 1 seed that all have" in text
    assert "BN 63.00 (learning rate 0.05)" in text
    assert "BN+orthonormal 51.00 (the main runs" in text
    assert text.endswith("Less BN: BN+orthonormal -12.00, BN+AON(q=2) +2.00.")


def test_nothing_is_chosen_before_every_setting_has_run():
    main = factory.comparison(epochs=2)
    assert "not known" in tuned(settings(main, [factory.comparison(("bn",), epochs=2, learning_rate=0.05)]))


def with_curve(method, seed, losses, validations, test):
    run = factory.record(method, seed, epochs=len(losses), validation_size=100)
    rows = [
        row.model_copy(update={"train_loss": loss, "val_accuracy": validation, "test_accuracy": test})
        for row, loss, validation in zip(run.epochs, losses, validations, strict=True)
    ]
    return run.but(epochs=tuple(rows))


def test_methods_are_listed_by_their_training_loss_and_compared_where_it_is_equal():
    base = [with_curve("bn", seed, [3, 2, 1.5, 1], [10, 30, 40, 50], 50 + seed) for seed in (0, 1)]
    ours = [with_curve("bn+aon", seed, [2, 1, 0.7, 0.5], [30, 48 + seed, 60, 70], 70 + seed) for seed in (0, 1)]
    text = fit([*base, *ours])
    first, second = text.splitlines()[2:4]
    assert first.startswith("| BN+AON(q=2) | 2 | 0.50 | ")
    # 46 and 46.33 around the second epoch, where the loss is the last one of BN, whose last three epochs have 40
    assert first.endswith(" | 70.50 | +6.17 [+4.05, +8.28] |")
    assert second.startswith("| BN | 2 | 1.00 | ")
    assert second.endswith(" | 50.50 | - |")
    assert text.endswith("over the 4 runs: -0.89.")


def test_a_method_that_never_reaches_the_loss_is_not_compared():
    runs = [with_curve("bn", 0, [2, 1], [30, 40], 40), with_curve("bn+orth", 0, [3, 2], [20, 30], 30)]
    assert fit(runs).splitlines()[3].endswith(" | 30.00 | - |")
    assert fit([]) == NOT_RUN


def with_error(method, seed, error, accuracy):
    run = factory.record(method, seed, epochs=1)
    rows = factory.record("bn+aon", 0, epochs=1).epochs[0].spectra
    spectra = tuple(row.model_copy(update={"error": error}) for row in rows)
    row = run.epochs[0].model_copy(update={"spectra": spectra, "val_accuracy": accuracy})
    return run.but(epochs=(row,))


def test_methods_are_listed_by_their_error_with_rank_correlations():
    runs = [
        with_error("bn", 0, 0.7, 70),
        with_error("bn+orth", 0, 0.1, 60),
        with_error("bn+aon", 0, 0.2, 74),
        with_error("bn+aon", 1, 0.3, 73),
        with_error("bn+polar", 0, 0.0, 76),
    ]
    text = orthonormality(runs)
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:6]] == [
        "BN+Polar",
        "BN+orthonormal",
        "BN+AON(q=2)",
        "BN",
    ]
    assert "| BN+AON(q=2) | 2 | 0.25 | 73.50 |" in text
    assert "-1.00 (AON of any kind, Polar)" in text


def test_too_few_runs_have_no_correlation_and_none_no_table():
    assert "- (all runs)" in orthonormality([with_error("bn+aon", 0, 0.2, 74)])
    assert orthonormality([]) == NOT_RUN
