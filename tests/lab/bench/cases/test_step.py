"""The training step that is timed is a real one, and its record names every method."""

import pytest
import torch

from aon.lab.bench.cases.step import PLAIN_STEP, PlainStep, Subject, TrainingStep, bench_step
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError
from aon.model.layers import NormalisedLayer

TINY = Subject("resnet20", 0.25, 4)
QUICK = Plan(rounds=2, warm_up=1, least=0)


def test_a_step_trains_as_a_plain_loop_does():
    step = TrainingStep(TINY, "bn")
    model = TINY.plain()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = TINY.data()
    for _ in range(2):
        step()
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    for ours, plain in zip(step.model.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, plain)


def test_methods_start_from_the_same_weights():
    plain, normalised = TINY.plain(), TINY.prepare("bn+aon").model
    for name, parameter in plain.named_parameters():
        assert torch.equal(parameter, normalised.get_parameter(name))


def test_the_penalty_is_part_of_a_step_and_what_comes_between_epochs_is_not():
    step = TrainingStep(TINY, "bn+orth+svb")
    loss = step.loss(step.x, step.y)
    assert loss > torch.nn.functional.cross_entropy(step.model(step.x), step.y)
    calls = []
    object.__setattr__(step.prepared, "after_epoch", lambda: calls.append(1))
    step()
    assert not calls


def test_the_record_of_a_step():
    found = bench_step(TINY, "bn,bn+aon:order=2,bn+aon:order=4", QUICK)
    assert found.bench == "step"
    assert found.settings["methods"] == ["bn", "bn+aon", "bn+aon:order=4"]
    (case,) = found.cases
    assert case.name == "training step, resnet20 at width 0.25, batch 4"
    assert case.base == "bn"
    assert [len(variant.repeats) for variant in case.variants] == [2, 2, 2]
    assert case.variant("bn").ratio.median == 1.0
    assert case.variant("bn+aon").ratio.n == 2
    assert case.variant("none") is None


def test_the_map_is_in_the_step():
    layers = [m for m in TrainingStep(TINY, "bn+aon").model.modules() if isinstance(m, NormalisedLayer)]
    assert len(layers) == 19


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: Subject(batch=0), "batch = 0: should be at least 1"),
        (lambda: Subject("resnet2"), "resnet2.*resnet20"),
        (lambda: Subject("resnet20", width=-1.0).plain(), "width = -1.0: should be a positive number"),
        (lambda: bench_step(TINY, "bn,bn", QUICK), "given twice"),
        (lambda: bench_step(TINY, "bn+aom", QUICK), "aom.*aon"),
    ],
)
def test_bad_input_is_refused(run, message):
    with pytest.raises(LabError, match=message):
        run()


def test_plain_autograd_computes_what_our_step_does():
    """The same function of the same weights, after u has settled."""
    ours, plain = TrainingStep(TINY, "bn+aon"), PlainStep(TINY, "bn")
    with torch.no_grad():
        for _ in range(60):
            other = plain.model(plain.x)
        torch.testing.assert_close(ours.model(ours.x), other, atol=0.02, rtol=0.02)
    plain()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in plain.model.parameters())


def test_plain_autograd_is_measured_if_asked_for():
    (case,) = bench_step(TINY, "bn,bn+aon", QUICK, plain=True).cases
    assert [variant.name for variant in case.variants] == ["bn", "bn+aon", PLAIN_STEP]
