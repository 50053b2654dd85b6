"""Targets against given records: which record counts, which ratio, and whether the target is met."""

import pytest

from aon.lab.bench.cases.accumulate import SHARED
from aon.lab.bench.cases.step import PLAIN_STEP
from aon.lab.bench.output.targets import TARGETS, VGG, beyond, over, over_orthogonalisers, targets_table
from aon.lab.bench.peers import PLAIN
from aon.lab.bench.record import BenchRecord, Case, variant

STEP = {**VGG, "batch": 256, "compiled": False, "clock": "wall"}


def case(facts=None, **repeats):
    base = next(iter(repeats.values()))
    facts = facts or {}
    variants = [variant(name, values, base, facts.get(name)) for name, values in repeats.items()]
    return Case(name="case", base=next(iter(repeats)), variants=tuple(variants))


def made(bench, settings, found, started="2026-01-01"):
    return BenchRecord(bench=bench, settings=settings, environment={"started": started}, unit="seconds", cases=(found,))


def step(aon, **changed):
    found = {"bn": [1.0, 2.0], "bn+aon": aon, "bn+aon:order=4": aon, PLAIN_STEP: [1.2, 2.4]}
    return made("step", STEP | changed, case(**found))


def target(words):
    (found,) = [each for each in TARGETS if words in each.measure]
    return found


def test_the_targets_do_not_move():
    bounds = [each.bound for each in TARGETS]
    assert bounds == [1.10, 1.20, 1.60, 1.05, 1.06, 1.0, 1.15, 1.0, 0.7, 1.0, 0.1, 1.02, 1.30, 1.2, 0.97]
    assert [each.at_least for each in TARGETS] == [False] * 14 + [True]


def test_a_target_is_met_at_its_bound_and_not_beyond():
    first = target("batch 256, order 2")
    value, _, _ = first.newest([step([1.1, 2.2])])
    assert value.median == pytest.approx(1.1)
    assert first.is_met(value)
    assert not first.is_met(first.newest([step([1.12, 2.24])])[0])


def test_the_newest_record_with_the_right_conditions_counts():
    first = target("batch 256, order 2")
    changes = {"batch": 128, "network": "resnet20", "width": 0.5, "compiled": True, "clock": "cpu", "device": "cuda"}
    others = [step([9.0, 9.0], **{key: value}) for key, value in changes.items()]
    old, new = step([1.5, 3.0]), step([1.2, 2.4])
    value, _, record = first.newest([old, new, *others])
    assert record is new
    assert value.median == pytest.approx(1.2)
    assert first.newest(others) is None


def test_order_4_is_divided_by_order_2_within_the_rounds():
    found = case(**{"bn": [1, 1, 1], "bn+aon": [1.0, 2.0, 4.0], "bn+aon:order=4": [1.1, 2.0, 4.2]})
    value, _, _ = target("order 4 over order 2").newest([made("step", STEP, found)])
    assert value.median == pytest.approx(1.05)


def test_the_worst_opponent_counts():
    yes, no = {"orthogonalises": True}, {"orthogonalises": False}
    facts = {"aon": yes, PLAIN: yes, "cayley": yes, "cholesky": yes, "torch-spectral-norm": no}
    found = case(
        facts, **{"aon": [1.0], PLAIN: [0.9], "cayley": [70.0], "cholesky": [2.0], "torch-spectral-norm": [0.1]}
    )
    value, note = over_orthogonalisers(found)
    assert (value.median, note) == (0.5, "worst: cholesky")
    value, note = over("aon", "cayley", "missing")(found)
    assert (round(value.median, 3), note) == (0.014, "worst: cayley")
    assert over("aon", "missing")(found) is None
    assert over("missing", "aon")(found) is None
    assert over_orthogonalisers(case(aon=[1.0])) is None


def test_memory_in_units_of_weights():
    found = case({"bn+aon": {"units": 1.14}}, **{"bn": [10.0], "bn+aon": [12.0]})
    assert beyond("bn+aon")(found)[0].median == 1.14
    assert beyond("bn")(found) is None
    assert beyond("other")(found) is None


def test_every_target_can_be_filled_and_the_table_says_whether_it_is_met():
    maps = {"aon": [1.0], "aon:order=0": [0.2], PLAIN: [2.0], "torch-spectral-norm": [0.1], "svd": [40.0]}
    records = [
        step([1.05, 2.1]),
        step([1.1, 2.2], batch=128),
        step([1.7, 3.4], batch=32),
        step([1.1, 2.2], batch=128, network="resnet20"),
        step([1.1, 2.2], batch=64, width=0.125, channels_last=True),
        made("map", VGG, case({"svd": {"orthogonalises": True}}, **maps)),
        made("eval", VGG, case(plain=[1.0], normalised=[1.01])),
        made("accumulate", {**VGG, "batch": 32, "micro_batches": 4}, case(**{"bn": [1.0], "bn+aon" + SHARED: [1.2]})),
        made("memory", {**VGG, "batch": 256}, case({"bn+aon": {"units": 1.1}}, **{"bn": [1.0], "bn+aon": [1.2]})),
        made("train", {"network": "vgg16-iternorm", "width": 1.0}, case(**{"bare loop": [99.0], "aon train": [98.0]})),
    ]
    lines = targets_table(records).splitlines()[2:]
    assert len(lines) == len(TARGETS)
    assert [line.split(" | ")[3] for line in lines] == [
        "yes", "yes", "**no**", "yes", "**no**", "yes", "yes", "yes",
        "yes", "**no**", "yes", "yes", "yes", "yes", "yes",
    ]  # fmt: skip
    assert "1.050 [1.050, 1.050], n = 2" in lines[0]
    assert "≥ 0.97 | 0.990 | yes" in lines[-1]


def test_what_was_not_measured_prints_a_dash():
    assert all(" | - | - | " in line for line in targets_table([]).splitlines()[2:])
