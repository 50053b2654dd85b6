"""The measurement of jumps on a tiny run."""

import math

import pytest
import torch
from scripts.measure_jumps import SIZES, VARIANTS, measure_run

from aon.lab.experiment.config import RunConfig
from aon.lab.training import preparation

TINY = {**SIZES, "dataset": "cifar10-sample", "train_size": 200, "validation_size": 40, "test_size": 40, "epochs": 2}


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["bn", "held"])
def test_a_run_is_measured_after_every_epoch(name):
    variant = VARIANTS[name]
    config = RunConfig(**{**TINY, "batch_size": 20}, **variant.settings, seed=1)
    rows = measure_run(config, preparation.load_data(config), variant.held)
    assert len(rows) == 2
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert 0 < rows[-1]["change"] < 1
    assert 0 < rows[-1]["norm_h"] < 2


def test_holding_the_size_keeps_weights_from_growing():
    """The map divides by sigma(W), so that the gradient stands at a right angle to W, and every step makes W larger."""
    config = RunConfig(**{**TINY, "batch_size": 20, "epochs": 1}, **VARIANTS["held"].settings, seed=1)
    free, held = (measure_run(config, preparation.load_data(config), hold)[-1] for hold in (False, True))
    assert held["norm_W"] < free["norm_W"]


def test_every_variant_is_a_run():
    for variant in VARIANTS.values():
        RunConfig(**SIZES, **variant.settings)
