"""Evaluation of the same function is timed in three forms."""

import torch

from aon.lab.bench.cases.eval import Evaluation, bench_eval
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.rounds import Plan

TINY = Subject("resnet20", 0.25, 4)


def test_evaluation_is_without_gradients_and_in_evaluation_mode():
    seen = []
    model = TINY.plain()
    model.register_forward_hook(lambda module, _, output: seen.append((module.training, output.requires_grad)))
    x, _ = TINY.data()
    Evaluation(model, x)()
    assert seen == [(False, False)]


def test_the_record_of_evaluation():
    found = bench_eval(TINY, "bn+aon", Plan(rounds=2, warm_up=1, least=0))
    (case,) = found.cases
    assert case.base == "plain"
    assert [variant.name for variant in case.variants] == ["plain", "normalised", "folded", "torch-spectral-norm"]
    assert found.settings["method"] == "bn+aon"


def test_normalised_and_folded_are_the_same_function(monkeypatch):
    runs = {}
    monkeypatch.setattr("aon.lab.bench.cases.eval.measure", lambda given, *_, **__: runs.update(given) or _stop())
    try:
        bench_eval(TINY, "bn+aon", Plan())
    except _StoppedError:
        outputs = {name: run.model(run.x) for name, run in runs.items()}
    assert torch.allclose(outputs["normalised"], outputs["folded"], atol=1e-5)
    assert not torch.allclose(outputs["normalised"], outputs["plain"], atol=1e-3)


class _StoppedError(Exception):
    pass


def _stop():
    raise _StoppedError
