"""Slopes from given costs; the sizes that are swept and their counts."""

import pytest
import torch

from aon.lab.bench.cases.scale import Sweep, acted_on, bench_scale, commonest, slope
from aon.lab.bench.cases.step import Subject
from aon.lab.bench.rounds import Plan
from aon.lab.errors import LabError

TINY = Subject("resnet20", 0.25, 4)


@pytest.mark.parametrize("power", [0, 0.5, 1, 3])
def test_slope_of_a_power(power):
    assert slope([1, 3, 5], [7 * size**power for size in (1, 3, 5)]) == pytest.approx(power, abs=1e-6)


def test_no_slope_without_positive_costs():
    assert slope([1, 2], [1, None]) is None
    assert slope([1, 2], [1, -0.1]) is None
    assert slope([1], [1]) is None


def test_the_record_of_scaling():
    sweep = Sweep(width=(0.25, 0.5), order=(2, 4), depth=(1, 2), batch=(1, 2))
    found = bench_scale(TINY, sweep, Plan(rounds=2, warm_up=1, least=0))
    width, order, depth, batch = found.cases
    assert [variant.name for variant in width.variants] == ["width=0.25", "width=0.5"]
    assert [variant.name for variant in batch.variants] == ["batch=1", "batch=2"]
    assert width.facts["flops_slope"] == pytest.approx(3, abs=0.2)
    assert depth.facts["flops_slope"] == pytest.approx(1)
    assert order.variants[0].facts["flops"] < order.variants[1].facts["flops"]
    assert [variant.facts["size"] for variant in depth.variants] == [1, 2]
    assert found.settings["sweep"]["width"] == [0.25, 0.5]
    assert found.settings["width"] == 0.25
    assert found.settings["network"] == "resnet20"


def test_the_extra_of_a_batch_is_the_difference_of_two_steps(monkeypatch):
    from aon.lab.bench.cases import scale
    from aon.lab.bench.rounds import Measured

    seconds = {"bn 1": [1.0, 2.0], "bn+aon 1": [1.5, 2.25], "bn 2": [3.0, 3.0], "bn+aon 2": [4.0, None]}
    monkeypatch.setattr(scale, "measure", lambda runs, *_, **__: Measured({name: seconds[name] for name in runs}))
    (case,) = bench_scale(TINY, Sweep((), (), (), (1, 2)), Plan()).cases
    assert [variant.repeats for variant in case.variants] == [(0.5, 0.25), (1.0, None)]


def test_axes_can_be_left_out_and_are_checked():
    assert bench_scale(TINY, Sweep((), (), (), ()), Plan()).cases == ()
    for sizes in ((1,), (1, 1), (0, 1), (-1, 2)):
        with pytest.raises(LabError, match=r"batch = .*expected two or more different sizes above 0, or none"):
            Sweep(batch=sizes)


def test_the_commonest_shape():
    few, many = torch.ones(2, 3), torch.ones(4, 5)
    assert commonest([few, many, many]).shape == (4, 5)


def test_the_layers_that_are_counted_leave_the_classifier_out():
    assert len(acted_on(TINY)) == 19
