"""Realistic records without training: curves that rise and settle, spectra that flatten, from the seed."""

import json
import math
import random
from pathlib import Path

from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import (
    Comparison,
    Environment,
    EpochRow,
    Images,
    Record,
    SpectrumRow,
    save,
    save_comparison,
)
from aon.lab.methods.build import parse

# Where a method ends (accuracy in percent), how fast it fits, how long an epoch takes, the spectrum it keeps.
ENDS = {"bn": (70.0, 6.0, 10.0), "bn+orth": (72.5, 8.0, 11.5), "bn+aon": (74.0, 7.0, 12.1)}
LAYERS = 16


def record(method="bn", seed=0, *, status="done", error=None, done=None, label=None, spectra=True, **settings):
    """One run; `done` epochs of `epochs`, all by default."""
    config = RunConfig(**{"method": method, "seed": seed, "epochs": 30, "width": 0.25, "batch_size": 128, **settings})
    done = config.epochs if done is None else done
    draw = random.Random(f"{method}{seed}")
    luck = draw.gauss(0, 0.25) + random.Random(seed).gauss(0, 0.3)
    epochs = tuple(_epoch(method, config, i, draw, luck, spectra) for i in range(done))
    return Record(
        status=status,
        error=error,
        config=config,
        label=parse(method).label if label is None else label,
        environment=environment(),
        parameters=1_254_000,
        images=Images(
            train=config.train_size or 5000, test=config.test_size or 1000, validation=config.validation_size or 0
        ),
        epochs=_tested(epochs, draw) if config.validation_size else epochs,
    )


def _tested(epochs, draw):
    """The epochs of a run with validation images: the test set is opened for the best and for the last five."""
    best = max((row.val_accuracy for row in epochs), default=0.0)
    opened = {row.epoch for row in epochs[-5:]} | {row.epoch for row in epochs if row.val_accuracy == best}
    return tuple(
        row.model_copy(update={"test_accuracy": row.val_accuracy + draw.gauss(-0.5, 0.2), "test_loss": row.val_loss})
        if row.epoch in opened
        else row
        for row in epochs
    )


def environment(**changes):
    plain = {
        "python": "3.11.7",
        "torch": "2.13.0+cpu",
        "aon": "0.1.0",
        "platform": "Linux-6.1-x86_64",
        "cpu": "A Processor @ 2.80GHz",
        "threads": 1,
        "device": "cpu",
        "commit": "0123456789abcdef",
        "started": "2026-11-15T20:00:00+00:00",
    }
    return Environment(**{**plain, **changes})


def comparison(methods=("bn", "bn+orth", "bn+aon"), seeds=(0, 1, 2), **settings):
    """Finished runs of every method and seed."""
    return [record(method, seed, **settings) for method in methods for seed in seeds]


def write(out, records, *, name="a comparison", command=("aon", "compare", "--out", "results/it"), **fields):
    """A comparison directory as `aon compare` leaves it."""
    for run in records:
        folder = Path(out) / "runs" / run.config.run_id()
        folder.mkdir(parents=True, exist_ok=True)
        save(run, folder)
    if records:
        config = json.loads(records[0].config.model_dump_json(exclude={"method", "seed"}))
        methods = tuple(dict.fromkeys(run.config.method for run in records))
        seeds = tuple(sorted({run.config.seed for run in records}))
        whole = Comparison(
            **{
                "name": name,
                "preset": "quick",
                "methods": methods,
                "seeds": seeds,
                "config": config,
                "command": command,
                "created": "2026-11-15T20:00:00+00:00",
                **fields,
            }
        )
        save_comparison(whole, Path(out))
    return Path(out)


def _epoch(method, config, i, draw, luck, spectra):
    end, slowness, seconds = ENDS.get(method, (71.0, 7.0, 15.0))
    rate = config.learning_rate_at(i)
    progress = 1 - math.exp(-(i + 1) / slowness)
    noise = 6.0 * rate * draw.gauss(0, 1) * 5
    train = 10 + (100 - 10) * progress * (0.9 + 0.1 * (1 - rate / config.learning_rate))
    val = 10 + (end + luck - 10) * (1 - math.exp(-(i + 1) / (slowness * 0.7))) + noise * (1 - progress)
    return EpochRow(
        epoch=i + 1,
        train_loss=2.3 * math.exp(-(i + 1) / slowness) + 0.02,
        train_accuracy=min(99.9, train),
        val_loss=2.3 * math.exp(-(i + 1) / slowness) + 0.9 + 0.012 * i - end / 200 + abs(noise) / 30,
        val_accuracy=min(99.0, max(5.0, val)),
        penalty=0.4 * math.exp(-i / 5) if "orth" in method else None,
        seconds=seconds + draw.gauss(0, 0.2),
        eval_seconds=1.5,
        learning_rate=rate,
        spectra=_spectra(method, i, luck) if spectra and "aon" in method else None,
    )


def _spectra(method, epoch, luck):
    rows = []
    for layer in range(LAYERS):
        growth = 0.55 + 0.012 * epoch + 0.01 * layer
        low = 0.32 + 0.3 * math.exp(-epoch / 9) - 0.012 * layer
        rows.append(
            SpectrumRow(
                name=f"features.{3 * layer}",
                shape=(16 * 2 ** min(layer // 4, 3), 144),
                weight_min=0.2 * growth,
                weight_median=0.6 * growth,
                weight_max=1.3 * growth,
                normalised_min=low,
                normalised_median=(low + 1) / 2 + 0.1,
                normalised_max=1.0,
                outside=0.0,
                error=0.1 + 0.02 * layer + 0.02 * abs(luck),
                agreement=0.999,
            )
        )
    return tuple(rows)


def canonical(method):
    """The method as a configuration spells it."""
    return str(parse(method))
