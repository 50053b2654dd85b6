"""Predictions of time, memory and cost."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from aon.lab.errors import LabError
from aon.lab.experiment.plans import plan_comparison
from aon.lab.planning import calibration, large, prediction
from aon.lab.planning.flops import in_step
from aon.lab.planning.prediction import Device, memory, predict
from aon.lab.planning.workloads import Images, images_of, operations, resnet50
from aon.whitening import IterNorm

TINY = {
    "network": "resnet20", "width": 0.25, "train_size": 40, "test_size": 20, "batch_size": 10, "epochs": 2,
    "methods": "bn,bn+aon", "seeds": 3, "threads": 1,
}  # fmt: skip


def planned(**changes):
    """A comparison that is judged on its test images, whatever the preset says."""
    plan = plan_comparison({**TINY, **changes})
    return replace(plan, base=plan.base.but(validation_size=None))


def test_a_counted_prediction_is_operations_over_speed():
    plan = planned()
    device = Device(flops=1e9, efficiency=0.5, price=36.0, count=2)
    found = predict(plan, device)
    bn, aon = found.rows
    images = images_of(plan.base)
    assert images == Images(40, 20, 10)
    assert bn.operations.added == 0
    assert aon.operations.network == bn.operations.network
    assert aon.operations.added > 0
    expected = 2 * (4 * bn.operations.step + 2 * bn.operations.network / 3) / 0.5e9
    assert bn.seconds == pytest.approx(expected)
    assert found.device_seconds == pytest.approx(3 * bn.seconds + 3 * aon.seconds)
    assert found.seconds == pytest.approx(max(2 * aon.seconds + bn.seconds, aon.seconds + 2 * bn.seconds))
    assert found.cost == pytest.approx(36.0 * 2 * found.seconds / 3600)


def test_operations_grow_with_the_batch_but_the_map_does_not():
    config = planned().base.but(method="bn+aon")
    images = images_of(config)
    small, large_ = operations(config, images), operations(config.but(batch_size=40), images)
    assert large_.network == 4 * small.network
    assert large_.added == small.added


@pytest.mark.parametrize("method", ["iternorm", "bn+oni", "bn+polar", "iternorm:groups=2+aon"])
def test_products_of_whitening_and_of_other_maps_are_counted(method):
    """A method with two of them adds what each adds."""
    config = planned().base
    images = images_of(config)
    counted = [operations(config.but(method=part), images).added for part in (method, *method.split("+"))]
    assert counted[0] == sum(counted[1:]) > 0


def test_whitening_is_counted_as_by_hand():
    """X X^T and V X forward, D X^T, V D and dS X backward; 32 small products of Newton's iteration, there and back."""
    d, side, batch = 8, 6, 10
    positions = batch * side * side
    model = nn.Sequential(nn.Conv2d(3, d, 1, bias=False), IterNorm(d))
    convolution = 2 * 2 * 3 * d * positions  # forward, and the gradient of its weight
    whitening = 5 * 2 * d * d * positions + 32 * 2 * d**3 + 2 * d * d  # the last for the gradient of the mean
    assert in_step(lambda: model, (3, side, side), batch) == convolution + whitening


def test_a_measured_prediction_consists_of_what_was_timed():
    plan = planned(methods="bn")
    (row,) = predict(plan, Device(), clock="cpu", steps=3).rows
    pace = row.pace
    assert min(pace.step, pace.evaluation, pace.epoch_end) > 0
    assert row.seconds == pytest.approx(pace.start + 2 * (4 * pace.step + 2 * pace.evaluation + pace.epoch_end))
    assert row.flops == pytest.approx(row.operations.step / pace.step)


def test_memory_grows_with_the_batch_in_a_straight_line():
    config, images = planned().base.but(method="bn"), Images(40, 20, 10)
    sizes = [memory(config.but(batch_size=size), images) for size in (10, 20, 40)]
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), abs=4)
    assert memory(config.but(optimiser="adam"), images) > sizes[0]


def test_the_sizes_of_a_resnet50():
    sizes = resnet50(1)
    assert sum(one.rows * one.columns for one in sizes) == 25_502_912  # torchvision's 25,557,032 less norms and biases
    assert sum(one.rows * one.columns * one.positions for one in sizes) == pytest.approx(4.1e9, rel=0.01)


def test_the_memory_of_a_resnet50_is_that_of_a_real_one():
    """What autograd keeps for two images, and four numbers for each weight."""
    transformers = pytest.importorskip("transformers")
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))
    kept = prediction._saved(model, 2, 224)
    weights = sum(p.numel() for p in model.parameters())
    row = large.imagenet(Device(flops=1e14), batch=2)
    assert row.memory == pytest.approx(kept + 16 * weights, rel=0.1)


def test_large_workloads():
    alone, shared = (large.imagenet(Device(flops=1e14, count=count)) for count in (1, 8))
    assert shared.hours < alone.hours
    assert shared.added > alone.added
    rows = large.transformer(tokens=[1000], ranks=[1, 4])
    assert rows[0].added == rows[0].added_shared
    assert rows[1].added == pytest.approx(4 * rows[1].added_shared)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (Device(flops=0.0), "device_flops = 0: should be a number above 0"),
        (Device(flops=float("inf")), "device_flops = inf: should be a number above 0"),
        (Device(efficiency=0.0), "efficiency = 0: should be above 0"),
        (Device(price=-1.0), "price = -1: should be a number, 0 or more"),
        (Device(price=float("nan")), "price = nan: should be a number, 0 or more"),
        (Device(count=0), "devices = 0: should be at least 1"),
    ],
)
def test_bad_numbers_are_refused(device, message):
    with pytest.raises(LabError, match=message):
        predict(planned(), device)


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(LabError, match="batch_size = 50: should be at most 40, the training images"):
        predict(planned(batch_size=50), Device(flops=1e12))


def test_more_devices_than_runs_are_as_fast_as_the_longest_run():
    found = predict(planned(), Device(flops=1e12, count=10**20))
    assert found.seconds == max(row.seconds for row in found.rows)


def test_bad_clocks_are_refused():
    with pytest.raises(LabError, match="clock = 'sun': should be wall or cpu"):
        calibration.clock_of("sun")
    assert torch.is_grad_enabled()
