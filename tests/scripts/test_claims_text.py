"""Tables and sentences on the hypotheses of the study."""

import random
import re
from itertools import product

import pytest
from scripts.claims import CLAIMS, LOST_COMMIT, judge
from scripts.claims_text import changed_verdicts, conclusion, convergence, findings, sensitivity, stricter, table
from tests.lab import factory

from aon.lab.report.cells import p_value
from aon.lab.report.statistics import difference, holm


def runs(seeds):
    return factory.comparison(seeds=seeds, epochs=3)


def made_by(run, commit):
    return run.but(environment=run.environment.model_copy(update={"commit": commit}))


def test_runs_of_the_lost_commit_are_left_out_or_replaced():
    first = [made_by(run, "abc") for run in runs(range(100, 106))]
    place = next(i for i, run in enumerate(first) if (run.config.method, run.config.seed) == ("bn", 100))
    lost = [made_by(run, LOST_COMMIT + "0" * 33) if i == place else run for i, run in enumerate(first)]
    header, _, line, *_ = sensitivity({"cifar10": lost}, []).splitlines()
    assert header == "| | all seeds | without seed 100 |"
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[1] == "H1: BN+AON(q=2) above BN"
    for cell, own in ((cells[2], lost), (cells[3], [run for run in lost if run.config.seed != 100])):
        assert cell.startswith(f"{judge({'cifar10': own})[0].found.value:+.2f} [")
    again = lost[place].but(epochs=tuple(row.model_copy(update={"val_accuracy": 1.0}) for row in lost[place].epochs))
    header, _, line, *_ = sensitivity({"cifar10": lost}, [again]).splitlines()
    assert header.endswith("| with the lost runs repeated (1) |")
    replaced = [again if run is lost[place] else run for run in lost]
    assert line.split("|")[4].strip().startswith(f"{judge({'cifar10': replaced})[0].found.value:+.2f} [")
    assert sensitivity({"cifar10": first}, []) == "No run of the study is of an unknown commit."


def test_every_hypothesis_with_a_lost_run_is_recomputed_and_no_other():
    first = [made_by(run, LOST_COMMIT if run.config.method == "bn+aon" else "abc") for run in runs(range(100, 105))]
    lines = sensitivity({"cifar10": first}, []).splitlines()[2:]
    assert [line.split("|")[1].split(":")[0].strip() for line in lines] == ["H1", "H3", "H6", "H7", *["H11"] * 5]


def test_a_verdict_that_hangs_on_lost_runs_is_named():
    made = maps((72.0, 70.0, 70.0, 70.0))
    before = [made_by(run, LOST_COMMIT if run.config.method == "bn+aon" else "abc") for run in made]
    again = [run.but(epochs=(run.epochs[0].model_copy(update={"val_accuracy": 75.0}),)) for run in before[:5]]
    assert {run.config.method for run in again} == {"bn+aon"}
    said = changed_verdicts({"cifar10": before}, again)
    what = "the verdict on H11 (one of our maps above BN+AON(q=2))"
    assert said.endswith(f'{what} would be "not shown"; with the original runs it is "holds".')
    assert changed_verdicts({"cifar10": before}, before[:5]) == ""
    assert changed_verdicts({"cifar10": before}, again[:2]) == ""
    assert changed_verdicts({"cifar10": made}, again) == ""


def test_a_claim_has_its_difference_its_seeds_and_a_p_corrected_within_its_family():
    found = runs(range(4))
    lines = {line.split("|")[1].strip(): line for line in table({"cifar10": found}).splitlines()[2:12]}
    cells = [cell.strip() for cell in lines["H1"].split("|")]
    assert cells[2] == "CIFAR-10, main: BN+AON(q=2) above BN"
    assert cells[3] == "93.51 - 92.22 = +1.29"
    assert cells[5] == "4 of 8"

    def scores(method):
        return {run.config.seed: run.last.test_accuracy for run in found if run.config.method == method}

    bn, orth, aon = map(scores, ("bn", "bn+orth", "bn+aon"))
    tested = [difference(aon, bn), difference(orth, bn), difference(aon, orth)]
    corrected = holm([one.p for one in tested])
    assert f" = {tested[0].value:+.2f} [" in cells[4]
    assert [lines[name].split("|")[6].strip() for name in ("H1", "H2", "H3")] == [p_value(p) for p in corrected]
    assert cells[8] == "incomplete"
    assert lines["H8"].endswith("| 0 of 5 | - | - | not run yet | - | - |")


def test_the_secondary_outcomes_stand_beside_the_primary_one():
    found = factory.comparison(seeds=range(2), epochs=8, validation_size=50)
    cells = [cell.strip() for cell in table({"cifar10": found}).splitlines()[2].split("|")]
    for place, of in ((9, lambda run: run.best.test_accuracy), (10, lambda run: run.last_five)):
        gaps = [
            of(next(run for run in found if (run.config.method, run.config.seed) == ("bn+aon", seed)))
            - of(next(run for run in found if (run.config.method, run.config.seed) == ("bn", seed)))
            for seed in range(2)
        ]
        assert cells[place].startswith(f"{sum(gaps) / 2:+.2f} [")


def test_convergence_is_the_paired_difference_of_the_training_losses():
    found = runs([0, 1])
    losses = {(run.config.method, run.config.seed): run.epochs[-1].train_loss for run in found}
    mean = sum(losses["bn+aon", seed] - losses["bn", seed] for seed in (0, 1)) / 2
    lower = "lower than BN's in 0 of 3 epochs"  # the made curves of AON fall more slowly
    assert convergence(found).startswith(f"{lower}, {mean:+.4f}")
    assert "; lower than BN+orthonormal's in " in convergence(found)
    assert convergence([]) == "not run yet"


def test_the_conclusion_lists_claims_by_verdict():
    parts = conclusion({"cifar10": runs(range(100, 108))}).split("\n\n")
    assert parts[0] == "**Holds**"
    assert re.fullmatch(r"- BN\+AON\(q=2\) above BN\+orthonormal on CIFAR-10: \+\d\.\d\d \[.*\] \(H3\)", parts[1])
    assert parts[2] == "**The opposite holds**"
    assert parts[3].startswith("- BN+AON(q=2) above BN on CIFAR-10: -")
    assert parts[-1] == "**No verdict yet**: " + ", ".join(f"H{number}" for number in range(4, 16))
    assert conclusion({}).startswith("**No verdict yet**: H1, H2,")


def maps(ends, noise=0.1):
    """Five seeds of AON, which ends at 70 %, and of the maps of H11, Polar excepted."""
    methods = [claim.better for claim in CLAIMS if claim.number == "H11" and claim.seeds == 5]
    values = {"bn+aon": 70.0, **dict(zip(methods, ends, strict=True))}
    made = []
    for place, (method, seed) in enumerate(product(values, range(100, 105))):
        run = factory.record(method, seed, epochs=1, spectra=False)
        score = values[method] + noise * random.Random(place).random()
        made.append(run.but(epochs=(run.epochs[0].model_copy(update={"val_accuracy": score}),)))
    return made


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((80.0, 60.0, 70.0, 70.0), "**Holds**\n\n- BN+AON(q=2, centre=top) above BN+AON(q=2) on CIFAR-10: +10.0"),
        ((60.0, 60.0, 60.0, 60.0), "**Not shown**\n\n- one of 4 maps above BN+AON(q=2) on CIFAR-10: -10."),
    ],
)
def test_a_hypothesis_of_several_maps_holds_if_one_does(ends, expected):
    made = maps(ends)
    assert conclusion({"cifar10": made}).startswith(expected)
    said = "significant for BN+AON(q=2, centre=top)." if "Holds" in expected else "not significant."
    last = findings({"cifar10": made})[-1]
    assert last.startswith("In the study (our own maps, CIFAR-10) differences to BN+AON(q=2) were ")
    assert last.endswith(f" points: {said}")


def test_the_report_says_what_a_stricter_correction_leaves_and_what_rests_on_polar():
    assert "nothing would hold" in stricter({})
    made = maps((71.5, 71.5, 71.5, 71.5), noise=2.0)
    polar = factory.comparison(("bn+polar",), seeds=(100, 101), epochs=1)
    found = {"cifar10": [*made, *polar]}
    with_it = min(one.p for one in judge(found) if one.claim.number == "H11" and one.p is not None)
    raw = [one.found.p for one in judge(found) if one.claim.number == "H11" and one.claim.seeds == 5]
    without = min(holm(raw))
    assert without < with_it
    assert stricter(found).endswith(f"without it the smallest p there would be {p_value(without)}.")


def test_a_finding_against_the_claim_is_said_plainly():
    made = runs(range(100, 108))  # after three epochs the made curves of AON are below BN's
    first = findings({"cifar10": made})[0]
    assert re.search(r", 8 of 8 seeds\) BN\+AON\(q=2\) was [0-9.]+ points below BN: significant \(", first)
    assert "| the opposite holds |" in table({"cifar10": made}).splitlines()[2]


def test_findings_speak_of_the_claims_of_the_paper_and_give_no_verdict_before_all_have_run():
    assert findings({}) == []
    assert findings({"cifar10": runs([0])})[0].endswith(": no verdict before all have run.")
    found = findings({"cifar10": runs([0, 1, 2])})
    assert len(found) == 3
    assert found[0].startswith("In the study (CIFAR-10, 16 convolutions at a quarter of the width")
    assert "3 of 8 seeds so far) BN+AON(q=2) was " in found[0]
    assert found[1].startswith("In the study (CIFAR-10, 3 of 8 seeds so far) BN+orthonormal was ")
    assert ": no verdict before all have run (95 % interval " in found[0]
    assert ": significant (" in findings({"cifar10": runs(range(8))})[0]


def test_findings_of_the_follow_up_name_their_setting():
    found = findings({"cifar10": runs([100]), "cifar10-fitted": runs(range(103, 108))})
    assert len(found) == 6
    assert found[3].startswith("In the study (CIFAR-10, 5,000 images fitted, 5 of 5 seeds) BN+AON(q=2) was ")
