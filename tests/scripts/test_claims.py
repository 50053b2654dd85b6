"""The hypotheses of the study, tested on records."""

import re
from collections import Counter

from scripts.claims import CLAIMS, Finding, judge, p_to_bn
from scripts.readme_results import ROOT
from tests.lab import factory

from aon.lab.methods.grammar import parse
from aon.lab.report.statistics import SIGNIFICANT, difference, holm


def runs(seeds):
    return factory.comparison(seeds=seeds, epochs=3)


def test_every_hypothesis_of_the_plan_is_there_with_methods_that_exist():
    plan = (ROOT / "results" / "study" / "PLAN.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\| (H\d+) \|", plan)) == {claim.number for claim in CLAIMS}
    for claim in CLAIMS:
        assert str(parse(claim.better)) == claim.better
        assert str(parse(claim.base)) == claim.base


def test_the_families_are_those_of_the_plan():
    families = Counter(claim.family for claim in CLAIMS)
    first = {"CIFAR-10, main": 3, "CIFAR-10, others": 4, "CIFAR-100": 3, "maps, CIFAR-10": 5}
    assert families == first | {"images fitted": 4}


def test_verdicts_claim_no_more_than_p_and_the_number_of_seeds_allow():
    high, low = {seed: 2.0 + seed for seed in range(5)}, dict.fromkeys(range(5), 1.0)
    up, down = difference(high, low), difference(low, high)
    claim = CLAIMS[0]._replace(seeds=5)
    assert Finding(claim, None, None).verdict == "not run yet"
    assert Finding(claim, up, None).verdict == Finding(claim, up, SIGNIFICANT).verdict == "not shown"
    assert Finding(claim, up, 0.01).verdict == "holds"
    assert Finding(claim, down, 0.01).verdict == "the opposite holds"
    assert Finding(claim._replace(seeds=6), up, 0.01).verdict == "incomplete"
    few = difference({0: 2.0, 1: 3.0, 2: 4.0}, low)
    assert Finding(claim._replace(seeds=3), few, 0.01).verdict == "too few seeds"


def test_a_hypothesis_that_has_not_run_counts_in_the_correction_of_its_family():
    found = [run for run in runs(range(4)) if run.config.method != "bn+orth"]
    first, second, third = judge({"cifar10": found})[:3]
    assert second.p is None
    assert third.p is None
    assert first.p == min(1.0, 3 * first.found.p)
    assert p_to_bn({"cifar10": found}, "cifar10") == {"bn+aon": first.p}
    assert p_to_bn({"cifar10": found}, "cifar100") == {}


def test_seeds_beyond_the_plan_do_not_count_in_a_claim():
    planned = factory.comparison(seeds=range(100, 108), epochs=2)
    more = factory.comparison(seeds=range(100, 110), epochs=2)
    assert judge({"cifar10": more}) == judge({"cifar10": planned})
    follow_up = {"cifar10-fitted": factory.comparison(seeds=range(103, 110), epochs=2)}
    by_number = {one.claim.number: one.found for one in judge(follow_up) if one.found}
    assert {number: found.n for number, found in by_number.items()} == {"H12": 5, "H13": 5, "H14": 5}


def test_corrected_at_once_a_p_value_counts_all_claims():
    found = {"cifar10": runs(range(100, 108))}
    own = judge(found)
    raw = [one.found.p if one.found else 1.0 for one in own]
    at_once = [one.p for one in judge(found, at_once=True) if one.found]
    assert at_once == [p for p, one in zip(holm(raw), own, strict=True) if one.found]
    assert at_once != [one.p for one in own if one.found]
