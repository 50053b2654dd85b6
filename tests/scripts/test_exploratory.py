"""Tables and sentences on the exploratory questions of the study."""

from statistics import stdev

import pytest
from scripts.exploratory import (
    NOT_RUN,
    changes,
    contrasts,
    gain_of_few,
    one_seed,
    polynomial_or_schedule,
    settings,
    settings_table,
    tuned,
)
from tests.lab import factory

from aon.lab.report.statistics import difference

METHODS = ("bn", "bn+orth", "bn+aon")


def lines(found, best=None):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in settings_table(found, best).splitlines()[2:]]


def test_each_setting_is_named_by_what_differs_from_the_main_runs():
    main = factory.comparison(epochs=3)
    others = [
        factory.comparison(epochs=3, learning_rate=0.05),
        factory.comparison(epochs=3, schedule="linear", weight_decay=0.0005),
        factory.comparison(("ln", "ln+orth", "ln+aon"), epochs=3, network="vit", optimiser="adamw"),
        factory.comparison(epochs=4, train_size=2000, augment=False),
    ]
    assert [line[0] for line in lines(settings(main, others))] == [
        "the main runs: learning rate 0.1, halved twice",
        "learning rate 0.05",
        "falling linearly to zero, weight decay 0.0005",
        "vit, adamw",
        "2,000 images, 4 epochs, no crops or flips",
    ]


def test_a_line_has_means_and_paired_differences_to_the_normaliser():
    runs = factory.comparison(("ln", "ln+aon"), seeds=(0, 1, 2), epochs=3)
    last = {(run.config.method, run.config.seed): run.last.test_accuracy for run in runs}
    line = lines(settings(factory.comparison(epochs=3), [runs]))[1]
    means = {method: sum(last[method, seed] for seed in range(3)) / 3 for method in ("ln", "ln+aon")}
    assert line[1] == "3"
    assert line[2] == f"{means['ln']:.2f}"
    assert line[3] == "-"  # the penalty was not run here
    assert line[4].startswith(f"{means['ln+aon']:.2f} ({means['ln+aon'] - means['ln']:+.2f} [")


@pytest.mark.parametrize(("seeds", "expected"), [(0, "-"), (1, "+2.00, n = 1"), (2, "+2.50, n = 2")])
def test_fewer_than_three_seeds_have_their_number_in_place_of_an_interval(seeds, expected):
    assert gain_of_few(difference({i: 2.0 + i for i in range(seeds)}, dict.fromkeys(range(seeds), 0.0))) == expected


def test_three_seeds_have_an_interval():
    assert gain_of_few(difference({0: 2.0, 1: 4.0, 2: 3.0}, dict.fromkeys(range(3), 1.0))) == "+2.00 [-0.48, +4.48]"


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
    for cell, (ours, base) in zip(cells, (("bn+aon", "bn+orth"), (f"bn+{best}", "bn+aon")), strict=True):
        assert cell == f"{sum(last[ours, seed] - last[base, seed] for seed in (0, 1)) / 2:+.2f}, n = 2"
    assert second.endswith("| - | - |")


def test_changes_are_taken_from_the_main_runs_of_the_same_seeds_and_network():
    main = [scored(method, seed, 50, 60 + 5 * seed + place) for seed in (0, 1) for place, method in enumerate(METHODS)]
    slow = [scored(method, 1, 50, 70 + 3 * place, learning_rate=0.05) for place, method in enumerate(METHODS)]
    other = factory.comparison(epochs=2, network="resnet20")
    header, _, *rest = changes(settings(main, [slow, other]), None).splitlines()
    assert header == "|  | learning rate 0.05 |"
    cells = dict([cell.strip() for cell in line.split("|")[1:-1]] for line in rest)
    assert cells["BN"] == "+5.00, n = 1"
    assert cells["BN+AON(q=2)"] == "+9.00, n = 1"
    assert cells["BN+orthonormal less BN"] == cells["BN+AON(q=2) less BN+orthonormal"] == "+2.00, n = 1"
    assert cells["BN+AON(q=2) less BN"] == "+4.00, n = 1"


def test_the_spread_of_a_single_seed_is_that_of_the_main_runs():
    ends = {0: 2.0, 1: 5.0, 2: 1.0}
    main = [scored("bn", seed, 50, 60) for seed in ends]
    main += [scored("bn+aon", seed, 50, 60 + end) for seed, end in ends.items()]
    assert f" of {stdev(ends.values()):.1f} points (BN+AON(q=2)): smaller" in one_seed(settings(main, [])[0])
    assert one_seed(settings(main[:1], [])[0]) == ""


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
    assert text.endswith("Less BN: BN+orthonormal -12.00, n = 1; BN+AON(q=2) +2.00, n = 1.")


def test_nothing_is_chosen_before_every_setting_has_run():
    main = factory.comparison(epochs=2)
    assert "not known" in tuned(settings(main, [factory.comparison(("bn",), epochs=2, learning_rate=0.05)]))


def test_a_lead_is_shown_at_the_main_rate_against_half_of_it_and_where_both_fall_to_zero():
    methods, minimax = ("bn", "bn+aon", "bn+aon:expansion=minimax"), "aon:expansion=minimax"
    main = factory.comparison(methods, seeds=(0, 1, 2), epochs=3)
    half = factory.comparison(methods[:2], seeds=(1, 2, 3), epochs=3, learning_rate=0.05)
    to_zero = factory.comparison(methods, seeds=(0, 1, 2), epochs=3, schedule="linear")
    found = settings(main, [half, to_zero])
    scores = [{(run.config.method, run.config.seed): run.last.test_accuracy for run in one.runs} for one in found]

    def gain(ours, theirs):
        return sum(scores[ours][methods[2], seed] - scores[theirs][methods[1], seed] for seed in (1, 2)) / 2

    said = polynomial_or_schedule(found, minimax)
    assert f": {gain(0, 0):+.2f}, n = 2 at a learning rate of 0.1; {gain(0, 1):+.2f}, n = 2 against " in said
    assert said.endswith(f"BN+AON(q=2) at 0.05; {gain(2, 2):+.2f}, n = 2 where both fall to zero.")
    assert polynomial_or_schedule(found, None) == polynomial_or_schedule(found[:2], minimax) == ""
