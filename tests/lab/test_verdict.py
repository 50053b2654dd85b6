"""The sentence claims what n and p allow, in every state a comparison can be in."""

import pytest
from tests.lab import factory

from aon.lab.summary import rows
from aon.lab.verdict import status, verdict


def scored(method, values, **settings):
    """Finished runs of one epoch whose accuracies are given; None is a run that failed."""
    runs = []
    for seed, value in enumerate(values):
        run = factory.record(method, seed, done=1, spectra=False, **settings)
        if value is None:
            runs.append(run.but(status="failed", error="killed"))
        else:
            runs.append(run.but(epochs=(run.epochs[0].model_copy(update={"val_accuracy": value}),)))
    return runs


def said(*groups):
    return " ".join(verdict(rows([run for group in groups for run in group])))


def test_a_clear_gain_is_stated_with_n_interval_p_and_test():
    words = said(scored("bn", [70.0, 70.5, 71.0, 70.2, 70.8]), scored("bn+aon", [74.0, 74.6, 75.2, 74.1, 74.7]))
    assert words.startswith(
        "BN+AON(q=2) reached 74.52 ± 0.49 % best validation accuracy (5 runs), 4.02 points above BN (95 %"
    )
    assert "p < 0.0001, paired by seed" in words
    assert "chance" not in words
    assert "few" not in words


def test_a_gain_within_chance_is_called_that():
    words = said(scored("bn", [70.0, 72.0, 71.0]), scored("bn+aon", [71.0, 70.5, 72.4]))
    assert "which chance alone could explain" in words
    assert "3 runs are few (the paper made 5)" in words


def test_one_seed_says_nothing_about_chance():
    words = said(scored("bn", [70.0]), scored("bn+aon", [74.0]))
    assert "(one run), 4.00 points above BN; with a single run on one side, nothing can be said about chance" in words
    assert "p =" not in words


def test_several_comparisons_are_corrected_for():
    aon, orth = [71.6, 71.9, 72.4], [71.3, 71.2, 72.2]
    words = said(scored("bn", [70.0, 70.5, 71.1]), scored("bn+aon", aon), scored("bn+orth", orth))
    assert "after Holm's correction for 2 comparisons" in words


def test_correction_can_take_a_claim_back():
    base, near = scored("bn", [70.0, 71.0, 72.0]), scored("bn+aon", [70.9, 72.6, 73.0])
    assert "chance alone" not in said(base, near)
    rest = [scored(method, [70.1, 70.2, 72.9]) for method in ("bn+orth", "bn+cwn", "iternorm")]
    assert "chance alone could explain" in said(base, near, *rest)


def test_different_seeds_are_named():
    other = [run.but(config=run.config.but(seed=run.config.seed + 5)) for run in scored("bn+aon", [74.0, 74.6, 75.0])]
    assert "Welch's test, since the seeds differ" in said(scored("bn", [70.0, 70.5, 71.0]), other)


def test_bn_on_top_is_said_plainly():
    words = said(scored("bn", [75.0, 75.5]), scored("bn+aon", [74.0, 74.1]), scored("bn+orth", [73.0, 73.3]))
    assert words.startswith("No method did better than BN, which reached 75.25")
    assert "The nearest, BN+AON(q=2), came 1.20 points below (p =" in words


def test_without_bn_there_is_nothing_to_measure_against():
    words = said(scored("bn+orth", [73.0]), scored("bn+aon", [74.0]))
    assert "the highest of 2 methods; no BN run has finished to measure it against" in words
    assert "no BN run has finished" in said(scored("bn", [None]), scored("bn+orth", [73.0]), scored("bn+aon", [74.0]))


def test_one_method_alone_is_not_a_comparison():
    assert "nothing to compare it with" in said(scored("bn+aon", [74.0, 75.0]))


def test_nothing_finished():
    words = said(scored("bn", [None]), [factory.record("bn+aon", status="running", done=2)])
    assert words == "No run has finished yet, so there is nothing to compare (1 running, 1 failed)."


def test_missing_runs_are_counted():
    assert "1 of 5 runs is not in these numbers (4 done, 1 failed)" in said(
        scored("bn", [70.0, 70.4]), scored("bn+aon", [74.0, 74.1, None])
    )


def test_best_and_last_that_disagree_are_reported():
    bn, aon = scored("bn", [70.0]), scored("bn+aon", [74.0])
    fall = aon[0].epochs[0].model_copy(update={"epoch": 2, "val_accuracy": 60.0})
    fallen = [aon[0].but(epochs=(*aon[0].epochs, fall))]
    assert "At the last epoch instead of the best, BN and BN+AON(q=2) change places." in said(bn, fallen)
    assert "change places" not in said(bn, aon)


def test_best_and_last_that_disagree_are_reported_where_bn_is_best_too():
    bn, aon = scored("bn", [75.0]), scored("bn+aon", [74.0])
    fall = bn[0].epochs[0].model_copy(update={"epoch": 2, "val_accuracy": 60.0})
    assert "BN and BN+AON(q=2) change places" in said([bn[0].but(epochs=(*bn[0].epochs, fall))], aon)


@pytest.mark.parametrize("values", [[70.0, 70.0], [70.0, 70.0, 70.0]])
def test_runs_that_do_not_vary(values):
    assert "do not vary" in said(scored("bn", values), scored("bn+aon", [value + 4 for value in values]))


def test_status_of_nothing():
    assert status([]) == "no runs"
