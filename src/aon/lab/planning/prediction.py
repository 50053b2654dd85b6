"""Predict a comparison from measured step times, or from counted operations and a device's speed."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.plans import Plan
from aon.lab.planning.calibration import Pace, calibrate, clock_of
from aon.lab.planning.workloads import Images, Operations, images_of, operations, random_images
from aon.lab.system.checks import check_at_least
from aon.lab.training.preparation import network
from aon.lab.training.run import run

# Numbers that an optimiser keeps for each weight, beside the weight and its gradient.
_KEPT = {"sgd": 1, "rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2, "amsgrad": 3}
_HOUR = 3600.0


@dataclass(frozen=True)
class Device:
    """A device that is not at hand: operations a second that it is expected to do, and what an hour costs."""

    flops: float | None = None
    efficiency: float = 0.3
    price: float | None = None
    count: int = 1

    def check(self) -> None:
        """Refuse numbers that mean nothing.

        Raises:
            LabError: naming the first.
        """
        if self.flops is not None and not 0 < self.flops < inf:
            raise LabError(f"device_flops = {self.flops:g}: should be a number above 0, such as 312e12")
        if not 0 < self.efficiency <= 1:
            raise LabError(f"efficiency = {self.efficiency:g}: should be above 0 and at most 1")
        if self.price is not None and not 0 <= self.price < inf:
            raise LabError(f"price = {self.price:g}: should be a number, 0 or more")
        check_at_least("devices", self.count)


@dataclass(frozen=True)
class Row:
    """What is expected of the runs of one method under one setting."""

    method: str
    setting: dict[str, Any]
    runs: int
    operations: Operations
    pace: Pace | None
    seconds: float
    memory: int

    @property
    def flops(self) -> float:
        """Counted operations a second of a training step."""
        return self.operations.step / self.pace.step if self.pace else 0.0


@dataclass(frozen=True)
class Prediction:
    """What is expected of a comparison."""

    rows: tuple[Row, ...]
    device: Device
    measured: tuple[float, ...] = ()

    @property
    def device_seconds(self) -> float:
        """Seconds of all runs, one after the other."""
        return sum(row.runs * row.seconds for row in self.rows)

    @property
    def seconds(self) -> float:
        """Seconds until the last run ends, several at a time; the longest run goes first."""
        runs = sorted((row.seconds for row in self.rows for _ in range(row.runs)), reverse=True)
        ends = [0.0] * min(self.device.count, len(runs))
        for length in runs:
            ends[ends.index(min(ends))] += length
        return max(ends, default=0.0)

    @property
    def cost(self) -> float | None:
        """The price of all devices until the last run ends."""
        if self.device.price is None:
            return None
        return self.device.price * self.device.count * self.seconds / _HOUR

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a record."""
        totals = {"device_seconds": self.device_seconds, "seconds": self.seconds, "cost": self.cost}
        return {**asdict(self), **totals}


def predict(
    plan: Plan,
    device: Device,
    *,
    root: Path | None = None,
    clock: str = "wall",
    steps: int = 6,
    notify: Callable[[str], None] = lambda _: None,
) -> Prediction:
    """What a comparison will take: measured here, or counted for a device of known speed.

    Args:
        plan: The comparison.
        device: The device and how many of them; without a speed, this machine is measured.
        root: Where datasets are kept; the usual place if not given.
        clock: wall or cpu, for the measurement.
        steps: Steps of a measurement.
        notify: Called with a line for each thing that is measured.

    Raises:
        LabError: on a bad number, or a run that cannot be done here.
    """
    device.check()
    clock_of(clock)
    rows = []
    for config in plan.settings():
        images = images_of(config, root)
        if config.batch_size > images.train:
            raise LabError(f"batch_size = {config.batch_size}: should be at most {images.train}, the training images")
        for method in plan.methods:
            one = config.but(method=method)
            notify(f"{'counting' if device.flops else 'measuring'} {method}")
            rows.append(_row(one, images, plan, device, clock, steps))
    return Prediction(tuple(rows), device)


def _row(config: RunConfig, images: Images, plan: Plan, device: Device, clock: str, steps: int) -> Row:
    counted = operations(config, images)
    pace = None if device.flops else calibrate(config, images, steps=steps, clock=clock)
    seconds = pace.of(config, images) if pace else _counted_seconds(config, images, counted, device)
    setting = {name: getattr(config, name) for name in plan.vary}
    return Row(config.method, setting, len(plan.seeds), counted, pace, seconds, memory(config, images))


def _counted_seconds(config: RunConfig, images: Images, counted: Operations, device: Device) -> float:
    """Training by all operations; evaluation by a third of the network's, for its forward alone."""
    assert device.flops
    judged = (config.validation_size or images.test) / config.batch_size
    epoch = images.train // config.batch_size * counted.step + judged * counted.network / 3
    return config.epochs * epoch / (device.flops * device.efficiency)


def memory(config: RunConfig, images: Images) -> int:
    """Bytes of a training step: weights, gradients, what the optimiser keeps, what backward needs, the images.

    What is saved for backward is a line in the number of images, found from two small batches.

    Args:
        config: The run.
        images: Its data.
    """
    with torch.random.fork_rng(devices=[]):
        model = network(config, images.classes, (3, images.side, images.side)).model
    few, more = (_saved(model, size, images.side) for size in (2, 4))
    slope = (more - few) / 2
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    pictures = 3 * images.side**2 * (images.train + images.test)
    return ceil((2 + _KEPT[config.optimiser]) * weights + few + slope * (config.batch_size - 2) + pictures)


def _saved(model: nn.Module, batch: int, side: int) -> int:
    """Bytes that autograd keeps for the backward of a batch, parameters apart."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    alive = []
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        alive.append(model.train()(torch.zeros(batch, 3, side, side)))
    return sum(kept.values())


def measure(plan: Plan, *, root: Path | None = None, clock: str = "wall") -> float:
    """Do all runs of a comparison in this process, on noise, and time them: what a prediction is held to.

    Args:
        plan: The comparison.
        root: Where datasets are kept; the usual place if not given.
        clock: wall or cpu.
    """
    now, total = clock_of(clock), 0.0
    for config in plan.settings():
        data = random_images(images_of(config, root))
        for method in plan.methods:
            for seed in plan.seeds:
                one = config.but(method=method, seed=seed, train_size=None, test_size=None)
                with tempfile.TemporaryDirectory(prefix="aon-plan-") as folder:
                    began = now()
                    run(one, Path(folder) / "run", source=data)
                    total += now() - began
    return total
