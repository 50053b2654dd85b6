"""Tables on jumps of the validation accuracy, from records."""

import pytest
from scripts.jump_tables import (
    PAGE,
    PAIRS,
    answers,
    drops,
    jumps,
    over_all,
    page,
    pairs_table,
    records_table,
    summary,
    variants_table,
    verdict,
)
from scripts.measure_jumps import VARIANTS
from tests.lab import factory

from aon.lab.experiment.config import RunConfig
from aon.lab.report.statistics import difference

KEYS = ("train_loss", "validation_renewed", "change", "norm_h", "norm_W", "outside", "median_h", "error")


def run(validation, **columns):
    rows = [{"validation": value, **dict.fromkeys(KEYS, 0.5)} for value in validation]
    for key, values in columns.items():
        rows = [row | {key: value} for row, value in zip(rows, values, strict=True)]
    return summary(rows, RunConfig(epochs=len(rows), schedule="linear"))


def test_jumps_are_the_mean_change_of_the_second_half():
    assert jumps([0.0, 90.0, 10.0, 11.0, 9.0, 9.0]) == pytest.approx(1.0)
    assert jumps([0.0, 90.0, 10.0, 50.0, 49.0, 99.0, 98.0], drops={5}) == pytest.approx(1.0)


def test_epochs_in_which_the_learning_rate_drops_are_left_out():
    config = RunConfig(epochs=30, milestones=(0.375, 0.75))
    assert drops(config) == {11, 22}
    assert all(config.learning_rate_at(epoch) > config.learning_rate_at(epoch + 1) for epoch in drops(config))
    assert drops(RunConfig(epochs=30, schedule="linear")) == set()


def test_a_run_is_summarised_by_its_end_and_its_second_half():
    found = run([1.0, 2.0, 30.0, 40.0], change=[9.0, 9.0, 1.0, 2.0], norm_h=[1.0, 3.0, 1.0, 1.0])
    assert (found["validation"], found["jumps"], found["change"], found["norm_h"]) == (40.0, 10.0, 1.5, 3.0)
    assert found["outside"] == 50.0


def test_variants_are_means_over_seeds():
    runs = {"bn": {200: run([0.0, 0.0, 10.0, 12.0]), 201: run([0.0, 0.0, 10.0, 14.0])}}
    assert "| BN | 2 | 13.0 ± 1.4 | 0.5 ± 0.0 | 3.0 | 0.0 |" in variants_table(runs)


def test_pairs_are_compared_over_common_seeds_and_judged_from_three():
    calm = [[0.0, 0.0, 50.0, 51.0], [0.0, 0.0, 50.0, 52.0]]
    wild = [[0.0, 0.0, 50.0, 60.0], [0.0, 0.0, 50.0, 62.0]]
    few = {"paper": dict(enumerate(map(run, wild))), "linear": dict(enumerate(map(run, calm)))}
    line = next(line for line in pairs_table(few).splitlines() if "falling to zero" in line)
    assert line.startswith("| AON: learning rate falling to zero | 2 | -9.5 [")
    assert line.endswith("| too few seeds |")
    assert "minimax" not in pairs_table(few)
    assert "| AON: statistics renewed before validation | 2 | -11.0 [" in pairs_table(few)


def test_the_answers_sort_the_changes_by_what_they_do():
    renewed = {0: 11.5, 1: 11.8, 2: 13.2}
    wild = {
        seed: run([0.0, 0.0, 50.0, 60.0 + seed], validation_renewed=[0.0, 0.0, 1.0, end])
        for seed, end in renewed.items()
    }
    calm = {seed: run([0.0, 0.0, 70.0, 71.0 + 0.5 * seed]) for seed in range(3)}
    lines = answers({"paper": wild, "linear": calm}).splitlines()
    assert lines[0].startswith("- *Smaller jumps*: AON: learning rate falling to zero (-9.5 [")
    assert lines[1].startswith("- *Last validation accuracy higher*: AON: learning rate falling to zero (+10.5 [")
    assert len(lines) == 2
    assert answers({}) == ""


def test_all_runs_together_say_what_goes_with_the_jumps():
    def varied(name, seed):
        size = 10 * list(VARIANTS).index(name) + seed + 1.0  # of the jumps, and of the change of h(W)
        calm = [0.0, 0.0, 50.0, 50.1]
        lag = [9.0 if name in ("bn", "orth") else size] * 4  # the norm of W, which says nothing of sigma
        made = {"change": [size] * 4, "error": [-size] * 4, "norm_h": lag}
        return run([0.0, 0.0, 50.0, 50.0 + size], validation_renewed=calm, **made)

    runs = {name: {seed: varied(name, seed) for seed in range(3)} for name in VARIANTS}
    renewed, spread, correlated, with_map, *_ = over_all(runs).splitlines()
    assert "smaller in 30 of 30 runs: 47.0 points become 0.1" in renewed
    assert "a change of -46.9 [-49.4, -44.4] (by seed, over the variants)" in renewed
    assert spread.endswith("mean over the variants: 1.0 points, with statistics renewed 0.0.")
    assert "the jumps, over the 30 runs of all variants, with: change of h a step +1.00, share outside" in correlated
    assert correlated.endswith("orthonormality error -1.00.")
    assert "over the 24 runs that have a map, with: " in with_map
    assert "largest norm of h +1.00" in with_map
    assert over_all({"bn": runs["bn"]}) == ""  # too few


def test_verdicts_follow_the_interval():
    base = {0: 1.0, 1: 1.0, 2: 1.0}
    assert verdict(difference({0: 2.0, 1: 2.1, 2: 2.2}, base)) == "larger jumps"
    assert verdict(difference({0: 0.2, 1: 0.1, 2: 0.3}, base)) == "smaller jumps"
    assert verdict(difference({0: 0.0, 1: 2.0, 2: 1.1}, base)) == "no difference shown"
    assert verdict(difference({0: 2.0, 1: 2.1}, base)) == "too few seeds"


def test_every_pair_is_of_variants_that_are_measured():
    assert all({pair.changed, pair.base} <= VARIANTS.keys() for pair in PAIRS)


def test_records_have_a_line_for_each_method_with_spectra():
    runs = factory.comparison(("bn+aon:order=4", "bn+aon"), epochs=8)
    base = [run.but(label="BN") for run in runs if run.config.method == "bn+aon:order=4"]
    lines = records_table([*base, *runs[3:], factory.record("bn+orth", epochs=8)]).splitlines()
    assert len(lines) == 4  # the factory's penalty has no spectra
    assert lines[2].startswith("| BN | 3 | ")
    found = {run.label: [] for run in (*base, *runs[3:])}
    for run in (*base, *runs[3:]):
        found[run.label].append(jumps([epoch.val_accuracy for epoch in run.epochs], drops(run.config)))
    gap = sum(found["BN+AON(q=2)"]) / 3 - sum(found["BN"]) / 3
    assert lines[3].startswith(f"| BN+AON(q=2) | 3 | {sum(found['BN+AON(q=2)']) / 3:.1f} | {gap:+.1f} [")


def test_the_page_is_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "run `make pages`"
