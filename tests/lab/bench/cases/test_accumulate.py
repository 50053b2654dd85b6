"""Updates from micro-batches: the same update with and without sharing the map."""

import pytest
import torch

import aon
from aon.lab.bench.cases.accumulate import SHARED, AccumulatedStep, bench_accumulate
from aon.lab.bench.cases.step import Subject, TrainingStep
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError

TINY = Subject("resnet20", 0.25, 4)


def test_one_micro_batch_is_a_training_step():
    plain, accumulated = TrainingStep(TINY, "bn"), AccumulatedStep(TINY, "bn", 1)
    for _ in range(2):
        plain()
        accumulated()
    for a, b in zip(plain.model.parameters(), accumulated.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_sharing_the_map_gives_the_same_update():
    plain, shared = AccumulatedStep(TINY, "bn+aon", 3), AccumulatedStep(TINY, "bn+aon", 3, aon.accumulate)
    for step in (plain, shared):
        step()
    for (name, a), b in zip(plain.model.named_parameters(), shared.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5), name


def test_forward_is_done_for_each_micro_batch():
    step, calls = AccumulatedStep(TINY, "bn", 3), []
    step.model.register_forward_hook(lambda *_: calls.append(1))
    step()
    assert len(calls) == 3


def test_the_record_of_accumulation():
    found = bench_accumulate(TINY, 2, "bn+aon", Plan(rounds=2, warm_up=1, least=0))
    (case,) = found.cases
    assert case.name == "2 micro-batches to an update, resnet20 at width 0.25, batch 4"
    assert [variant.name for variant in case.variants] == ["bn", "bn+aon", "bn+aon" + SHARED]
    assert found.settings["micro_batches"] == 2


def test_no_micro_batches_are_refused():
    with pytest.raises(LabError, match="micro-batches = 0: should be at least 1"):
        bench_accumulate(TINY, 0, "bn+aon", Plan())
