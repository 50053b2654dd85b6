"""The sentence claims what n and p allow, in every state a comparison can be in."""

import math
import statistics

import pytest
from scipy import stats
from tests.lab import factory

from aon.lab.report.summary import summarise_runs
from aon.lab.report.verdict import status, verdict


def scored(method, values, **settings):
    """Finished runs of one epoch whose test accuracies are given; None is a run that failed."""
    runs = []
    for seed, value in enumerate(values):
        run = factory.record(method, seed, done=1, spectra=False, **settings)
        if value is None:
            runs.append(run.but(status="failed", error="killed"))
        else:
            update = {"val_accuracy": value, "test_accuracy": value if run.images.validation else None}
            runs.append(run.but(epochs=(run.epochs[0].model_copy(update=update),)))
    return runs


def said(*groups, **keywords):
    return " ".join(verdict(summarise_runs([run for group in groups for run in group], **keywords)))


def test_a_clear_gain_is_stated_with_n_interval_p_and_test():
    words = said(scored("bn", [70.0, 70.5, 71.0, 70.2, 70.8]), scored("bn+aon", [74.0, 74.6, 75.2, 74.1, 74.7]))
    gaps = [4.0, 4.1, 4.2, 3.9, 3.9]
    half = stats.t.ppf(0.975, 4) * statistics.stdev(gaps) / math.sqrt(5)
    span = f"+{4.02 - half:.2f} to +{4.02 + half:.2f}"
    assert words.startswith(
        "BN+AON(q=2) has the highest test accuracy at the last epoch, 74.52 ± 0.49 % (5 runs): 4.02 points above BN, "
        f"a significant difference (95 % interval {span}, p < 0.0001, 5 paired seeds)."
    )
    assert "few" not in words


def test_a_gain_within_chance_is_not_called_significant():
    words = said(scored("bn", [70.0, 72.0, 71.0]), scored("bn+aon", [71.0, 70.5, 72.4]))
    assert "not a significant difference" in words
    assert "3 seeds are few (the paper made 5 runs)" in words
    assert "the sign-flip test cannot give p below 0.25" in words


def test_times_that_vary_are_not_compared():
    bn, aon = scored("bn", [70.0, 70.5, 71.0]), scored("bn+aon", [74.0, 74.6, 75.2])
    assert "times the training time of BN" in said(bn, aon)
    slow = aon[0].epochs[0].model_copy(update={"seconds": 100.0})  # something else ran beside it
    assert "times the training time" not in said(bn, [aon[0].but(epochs=(slow,)), *aon[1:]])


def test_a_difference_over_fewer_seeds_than_the_mean_says_so():
    words = said(scored("bn", [70.0, 70.5]), scored("bn+aon", [69.0, 69.6, 79.2]))
    assert "72.60 ± 5.72 % (3 runs): 0.95 points below BN over the seeds that both have" in words


def test_one_seed_says_nothing_about_chance():
    words = said(scored("bn", [70.0]), scored("bn+aon", [74.0]))
    assert "(one run): 4.00 points above BN; with a single seed nothing can be said about chance" in words
    assert "p =" not in words


def test_a_method_with_fewer_seeds_is_compared_over_the_seeds_that_all_have():
    base, lucky = scored("bn", [60.0, 60.0, 80.0, 50.0]), scored("bn+aon", [70.0, 70.0])
    other = scored("iternorm", [72.0, 72.0, 60.0, 60.0])
    assert "Over the 2 seeds that all methods have, IterNorm is highest." in said(base, lucky, other)
    assert "Over the 2 seeds that all methods have, BN+AON(q=2) is highest too." in said(base, lucky)
    assert "that all methods have" not in said(base, other)


def test_several_comparisons_are_corrected_for():
    aon, orth = [71.6, 71.9, 72.4], [71.3, 71.2, 72.2]
    words = said(scored("bn", [70.0, 70.5, 71.1]), scored("bn+aon", aon), scored("bn+orth", orth))
    assert "after Holm's correction for 2 comparisons" in words
    assert "Against the next, BN+AON(q=2) is 0.40 points above BN+orthonormal" in words
    assert "after Holm's correction for 3 comparisons" in words


def test_correction_can_take_a_claim_back():
    base, near = scored("bn", [70.0, 71.0, 72.0]), scored("bn+aon", [70.9, 72.6, 73.0])
    assert "BN, with few seeds a demonstration, not evidence (95 %" in said(base, near)
    many = [[70.0, 71.0, 72.0, 71.5, 70.5], [70.9, 72.6, 73.0, 72.8, 71.9]]
    assert "BN, a significant difference (95 %" in said(scored("bn", many[0]), scored("bn+aon", many[1]))
    rest = [scored(method, [70.1, 70.2, 72.9]) for method in ("bn+orth", "bn+cwn", "iternorm")]
    assert "BN, not a significant difference" in said(base, near, *rest)


def test_the_highest_of_several_variants_is_told_to_be_favoured():
    base = scored("bn", [70.0, 70.5], validation_size=50)
    tried = [
        scored(f"bn+orth:beta={beta}", [value, value], validation_size=50) for beta, value in ((1, 72.0), (20, 74.0))
    ]
    # Validation prefers the other one; an extra seed with a high accuracy does not count.
    tried[0] = [run.but(epochs=(run.epochs[0].model_copy(update={"val_accuracy": 80.0}),)) for run in tried[0]]
    (extra,) = scored("bn+orth:beta=20", [99.0], validation_size=50)
    tried[1].append(extra.but(config=extra.config.but(seed=7)))
    words = said(base, *tried)
    assert "BN+orthonormal(beta=20) is the highest of 2 variants of one method, which favours it" in words
    assert "the best of them by validation accuracy is BN+orthonormal(beta=1), 1.75 points above BN, " in words
    above = scored("bn+aon", [90.0, 90.0], validation_size=50)
    words = said(base, above, *tried)
    assert "The best of 2 variants of one method by validation accuracy is BN+orthonormal(beta=1), 1.75 points" in words
    assert "which favours it" not in words
    assert "variants" not in said(base, tried[0])
    assert "variants" not in said(*tried, base="bn+orth:beta=1")


def test_seeds_that_differ_are_named():
    other = [run.but(config=run.config.but(seed=run.config.seed + 5)) for run in scored("bn+aon", [74.0, 74.6, 75.0])]
    assert "Welch's test, no common seeds" in said(scored("bn", [70.0, 70.5, 71.0]), other)


def test_the_base_on_top_is_said_plainly():
    words = said(scored("bn", [75.0, 75.5]), scored("bn+aon", [74.0, 74.1]), scored("bn+orth", [73.0, 73.3]))
    assert words.startswith("BN has the highest test accuracy at the last epoch, 75.25 ± 0.35 % (2 runs).")
    assert "The next is BN+AON(q=2), 1.20 points below BN, not a significant difference" in words


def test_any_method_can_be_the_base():
    runs = scored("bn", [70.0, 70.5, 71.0]), scored("bn+orth", [73.0, 73.2, 74.0]), scored("bn+aon", [74.0, 74.6, 75.1])
    assert "points above BN+orthonormal" in said(*runs, base="bn+orth")
    assert "points above BN+orthonormal" in said(*runs[1:])  # no BN: the first method


def test_a_base_that_has_not_finished_is_named():
    words = said(scored("bn", [None]), scored("bn+orth", [73.0]), scored("bn+aon", [74.0]))
    assert "no run of BN has finished to compare it with" in words


def test_one_method_alone_is_not_a_comparison():
    assert "nothing to compare it with" in said(scored("bn+aon", [74.0, 75.0]))


def test_nothing_finished():
    words = said(scored("bn", [None]), [factory.record("bn+aon", status="running", done=2)])
    assert words == "No run has finished yet, so there is nothing to compare (1 running, 1 failed)."


def test_missing_runs_and_damaged_records_are_counted():
    words = said(scored("bn", [70.0, 70.4]), scored("bn+aon", [74.0, 74.1, None]), damaged=["x", "y"])
    assert "1 of 5 runs is not in these numbers (4 done, 1 failed)" in words
    assert "2 records could not be read and are left out." in words


def test_outcomes_that_disagree_are_reported():
    bn, aon = scored("bn", [70.0]), scored("bn+aon", [74.0])
    fall = aon[0].epochs[0].model_copy(update={"epoch": 2, "val_accuracy": 60.0})
    words = said(bn, [aon[0].but(epochs=(*aon[0].epochs, fall))])
    assert words.startswith("BN has the highest")
    assert "Judged by the best epoch on the test set, as in the paper, BN+AON(q=2) is highest instead." in words
    assert "highest instead" not in said(bn, aon)


def test_the_choice_of_the_best_epoch_is_explained():
    assert "as in the paper, which flatters" in said(scored("bn", [70.0]))
    assert "by validation accuracy" in said(scored("bn", [70.0], validation_size=50))


def test_settings_are_compared_at_the_best_of_each_method():
    groups = [
        scored(method, [value, value + 0.4, value + 0.1], learning_rate=rate, validation_size=50)
        for rate, values in {0.1: (75.0, 73.0), 0.2: (74.0, 76.0)}.items()
        for method, value in zip(("bn", "bn+aon"), values, strict=True)
    ]
    words = said(*groups)
    assert words.startswith(
        "Each method at its best setting by validation: BN+AON(q=2) has the highest test accuracy at the last epoch, "
        "76.17 ± 0.21 % (3 runs): 1.00 points above BN"
    )


def test_methods_that_were_not_run_under_every_setting_are_named():
    both = [
        scored(method, [70.0, 70.4], learning_rate=rate, validation_size=50)
        for rate in (0.1, 0.2)
        for method in ("bn", "bn+aon")
    ]
    words = said(*both, scored("iternorm", [90.0, 90.1], learning_rate=0.1, validation_size=50))
    assert "Not ranked, since not run under every setting: IterNorm." in words
    assert "Not ranked" not in said(*both)


def test_a_base_that_was_not_run_under_every_setting_is_not_called_unfinished():
    groups = [scored("bn", [70.0, 71.0], learning_rate=0.1, validation_size=50)]
    groups += [scored("bn+aon", [72.0, 74.0], learning_rate=rate, validation_size=50) for rate in (0.1, 0.2)]
    words = said(*groups)
    assert words.startswith("Learning rate 0.1: BN+AON(q=2) has the highest")
    assert "points above BN" in words


def test_settings_without_validation_images_are_told_one_by_one():
    groups = [scored(method, [70.0, 71.0], learning_rate=rate) for rate in (0.1, 0.2) for method in ("bn", "bn+aon")]
    first, second, *_ = verdict(summarise_runs([run for group in groups for run in group]))
    assert first.startswith("Learning rate 0.1: BN has the highest")
    assert second.startswith("Learning rate 0.2: BN has the highest")


@pytest.mark.parametrize("values", [[70.0, 70.0], [70.0, 70.0, 70.0]])
def test_runs_that_do_not_vary(values):
    assert "do not vary" in said(scored("bn", values), scored("bn+aon", [value + 4 for value in values]))


def test_status_of_nothing():
    assert status(summarise_runs([])) == "no runs"
