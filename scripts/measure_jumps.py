"""Why the validation accuracy of AON jumps from epoch to epoch: measure what could cause it, and take each cause away.

    python scripts/measure_jumps.py    # into results/jumps; continues where it stopped

Needs CIFAR-10 (AON_DATA) and takes about a minute and a half a run on a quiet core. `jump_tables.py` makes the tables.
"""

import json
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import aon
from aon.lab.data import Dataset, Part, eval_batches, train_batches
from aon.lab.experiment.config import RunConfig
from aon.lab.system.files import write_text
from aon.lab.training import machine, preparation
from aon.lab.training.allocator import keep_memory
from aon.lab.training.loop import Batches, Parts, Totals, eval_steps, train_steps

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "jumps"
SEEDS = (200, 201, 202)
SIZES: dict[str, Any] = {
    "dataset": "cifar10", "train_size": 5000, "validation_size": 2000, "test_size": 1000, "width": 0.125,
    "batch_size": 128, "epochs": 24, "device": "cpu", "threads": 1,
}  # fmt: skip
# Steps at the end of an epoch over which the change of h(W) is averaged.
LAST_STEPS = 5


class Variant(NamedTuple):
    """One way to train: a line of the table, the settings, whether W is brought back to its first size each step."""

    label: str
    settings: dict[str, Any]
    held: bool = False


_AON, _MINIMAX = "bn+aon", "bn+aon:expansion=minimax"
_FALLING = "learning rate falling linearly to zero"
VARIANTS = {
    "bn": Variant("BN", {"method": "bn"}),
    "paper": Variant("AON", {"method": _AON}),
    "minimax": Variant("minimax", {"method": _MINIMAX}),
    "held": Variant("minimax, size of W held", {"method": _MINIMAX}, held=True),
    "linear": Variant(f"AON, {_FALLING}", {"method": _AON, "schedule": "linear"}),
    "minimax-linear": Variant(f"minimax, {_FALLING}", {"method": _MINIMAX, "schedule": "linear"}),
    "half": Variant("AON, half the learning rate", {"method": _AON, "learning_rate": 0.05}),
    "quarter": Variant("AON, a quarter of it", {"method": _AON, "learning_rate": 0.025}),
    "power-5": Variant("AON, five power iterations a step", {"method": "bn+aon:iterations=5"}),
    "orth": Variant("BN, orthonormal penalty", {"method": "bn+orth"}),
}


def measure_run(config: RunConfig, data: Dataset, held: bool = False) -> list[dict[str, float]]:
    """Train a run and measure it after every epoch."""
    torch.manual_seed(config.seed)
    parts = preparation.assemble(config, data, torch.device("cpu"))
    steps = len(data.x_train) // config.batch_size
    rate = LambdaLR(parts.optimiser, lambda step: config.learning_rate_at(step / steps) / config.learning_rate)
    sizes = {layer: layer.weight.detach().norm() for layer in _layers(parts.model)} if held else {}
    rows = []
    for epoch in range(config.epochs):
        totals, changes = Totals.zero(torch.device("cpu")), []
        batches = train_batches(data, config.batch_size, seed=config.seed, epoch=epoch, augment=config.augment)
        before: list[Tensor] = []
        for _ in train_steps(parts, batches, totals):
            rate.step()
            _resize(sizes)
            if totals.steps >= steps - LAST_STEPS:
                now = _weights(parts.model)
                changes += [float((a - b).norm() / b.norm()) for a, b in zip(now, before, strict=False)]
                before = now
        loss, percent, _ = totals.means()
        row = {"train_loss": loss, "train_accuracy": percent, "change": fmean(changes)}
        rows.append(row | _after_epoch(parts, data, config.batch_size))
    return rows


def _after_epoch(parts: Parts, data: Dataset, batch_size: int) -> dict[str, float]:
    """Validation as it is and with the statistics of batch normalisation taken anew, and what the spectra say."""
    as_it_is = accuracy(parts, data, batch_size)
    kept = {key: value.clone() for key, value in parts.model.state_dict().items()}
    batches = train_batches(data, batch_size, seed=0, epoch=0, augment=False)
    renew_statistics(parts, islice(batches, len(data.x_train) // batch_size // 2))
    renewed = accuracy(parts, data, batch_size)
    parts.model.load_state_dict(kept)
    rows = list(aon.spectra(parts.model, plain=True))[:-1]  # without the classifier
    return {
        "validation": as_it_is,
        "validation_renewed": renewed,
        "norm_h": max(row.normalised_max for row in rows),
        "norm_W": fmean(row.weight_max for row in rows),
        "outside": fmean(row.outside for row in rows),
        "median_h": min(row.normalised_median / row.normalised_max for row in rows),
        "error": fmean(row.error for row in rows),
    }


def _layers(model: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]


@torch.no_grad()
def _resize(sizes: dict[nn.Conv2d, Tensor]) -> None:
    """Bring each weight back to its first size: a map that divides by sigma(W) computes the same."""
    for layer, size in sizes.items():
        layer.weight.mul_(size / layer.weight.norm())


@torch.no_grad()
def _weights(model: nn.Module) -> list[Tensor]:
    """What the convolutions compute with, by the vectors u that they have."""
    model.eval()
    found = [_weight(layer).clone() for layer in _layers(model)]
    model.train()
    return found


def _weight(layer: nn.Conv2d) -> Tensor:
    return aon.normalised_weight(layer) if hasattr(layer, "map") else layer.weight


def accuracy(parts: Parts, data: Dataset, batch_size: int, part: Part = "validation") -> float:
    """Percentage of the images that the model classifies correctly."""
    totals = Totals.zero(torch.device("cpu"))
    for _ in eval_steps(parts, eval_batches(data, batch_size, part), totals):
        pass
    return totals.means()[1]


@torch.no_grad()
def renew_statistics(parts: Parts, batches: Batches) -> None:
    """Running averages of batch normalisation for the weights as they are: means over the batches."""
    norms = [layer for layer in parts.model.modules() if isinstance(layer, nn.BatchNorm2d)]
    parts.model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
        norm.momentum = None
    for x, _ in batches:
        parts.model(x.contiguous(memory_format=parts.memory_format))
    for norm in norms:
        norm.momentum = 0.1


def measure() -> None:
    """Make the records that are not there yet, seed by seed."""
    keep_memory()
    torch.set_num_threads(1)
    RECORDS.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for name, variant in VARIANTS.items():
            path = RECORDS / f"{name}-s{seed}.json"
            if path.exists():
                continue
            config = RunConfig(**SIZES, **variant.settings, seed=seed)
            rows = measure_run(config, preparation.load_data(config), variant.held)
            environment = machine.environment(torch.device("cpu")).model_dump(mode="json")
            record = {"settings": config.model_dump(mode="json"), "held": variant.held, "environment": environment}
            write_text(path, json.dumps(record | {"epochs": rows}, indent=1) + "\n")
            print(f"{path.name}: validation {rows[-1]['validation']:.1f} %", flush=True)  # noqa: T201


if __name__ == "__main__":
    measure()
