"""The claims of the study, tested on records."""

from scripts.claims import CLAIMS, convergence, findings, table, verdict
from scripts.readme_results import ROOT
from tests.lab import factory

from aon.lab.methods.grammar import parse
from aon.lab.report.statistics import difference, holm
from scripts import claims


def runs(seeds):
    return factory.comparison(seeds=seeds, epochs=3)


def test_every_hypothesis_of_the_plan_is_there_with_methods_that_exist():
    plan = (ROOT / "results" / "study" / "PLAN.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert f"| {claim.number} |" in plan
        assert str(parse(claim.better)) == claim.better
        assert str(parse(claim.base)) == claim.base


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
    assert cells[4].startswith(f"{tested[0].value:+.2f} [")
    assert [lines[name].split("|")[6].strip() for name in ("H1", "H2", "H3")] == [f"{p:.2g}" for p in corrected]
    assert lines["H8"].endswith("| 0 of 5 | - | - | not run yet |")


def test_verdicts_claim_no_more_than_p_allows():
    up, down = difference({0: 2.0, 1: 3.0}, {0: 1.0, 1: 1.5}), difference({0: 1.0, 1: 1.5}, {0: 2.0, 1: 3.0})
    assert verdict(None, None) == "not run yet"
    assert verdict(up, None) == verdict(up, claims.SIGNIFICANT) == "not shown"
    assert verdict(up, 0.01) == "holds"
    assert verdict(down, 0.01) == "the opposite holds"


def test_convergence_is_the_paired_difference_of_the_training_losses():
    found = runs([0, 1])
    losses = {(run.config.method, run.config.seed): run.epochs[-1].train_loss for run in found}
    mean = sum(losses["bn+aon", seed] - losses["bn", seed] for seed in (0, 1)) / 2
    assert convergence(found).startswith(f"{mean:+.3f}")
    assert convergence([]) == "not run yet"


def test_findings_speak_of_the_main_methods_where_two_seeds_do():
    assert findings({"cifar10": runs([0])}) == []
    found = findings({"cifar10": runs([0, 1, 2])})
    assert len(found) == 3
    assert found[0].startswith("In the study (CIFAR-10, 16 convolutions at a quarter of the width")
    assert "3 of 8 seeds) BN+AON(q=2) was " in found[0]
