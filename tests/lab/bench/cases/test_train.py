"""Speed of whole loops: their data, their order, their record."""

import pytest
import torch

from aon.lab.bench.cases.train import BARE, ENGINE, LOADER, Turns, bench_train, train
from aon.lab.data import train_batches
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.training import machine, preparation

CONFIG = RunConfig(
    method="bn+aon", network="resnet20", width=0.25, train_size=60, test_size=10, batch_size=20, threads=1
)


def test_the_record_of_training():
    found = bench_train(CONFIG, rounds=2, workers=0)
    (case,) = found.cases
    assert found.unit == "images a second"
    assert case.base == BARE
    assert [variant.name for variant in case.variants] == [BARE, ENGINE, LOADER]
    assert [len(variant.repeats) for variant in case.variants] == [2, 2, 2]  # the first turn is not counted
    assert all(speed > 0 for variant in case.variants for speed in variant.repeats)
    assert found.settings["network"] == "resnet20"
    assert found.settings["rounds"] == 2


def test_the_bare_loop_does_what_the_engine_does():
    data = preparation.load_data(CONFIG)
    batches = list(train_batches(data, 20, seed=0, epoch=0))
    cpu = torch.device("cpu")
    with machine.deterministic(cpu, 1, 0):
        bare = preparation.assemble(CONFIG, data, cpu)
    with machine.deterministic(cpu, 1, 0):
        engine = preparation.assemble(CONFIG, data, cpu)
    from aon.lab.training.loop import Totals, train_steps

    totals = Totals.zero(cpu)
    for _ in train_steps(engine, batches, totals):
        pass
    assert train(bare, batches) == pytest.approx(totals.loss.item() / 20, rel=1e-6)
    for a, b in zip(bare.model.parameters(), engine.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_speed_is_images_over_seconds_and_loops_take_turns(monkeypatch):
    turns = Turns(CONFIG, preparation.load_data(CONFIG), torch.device("cpu"), 0)
    assert turns.images == 60
    order = []
    for name, loop in turns.loops.items():
        monkeypatch.setattr(loop, "seconds", lambda _, name=name: order.append(name) or {BARE: 2.0, LOADER: 4.0}[name])

    class Run:
        def __init__(self, *seconds):
            self.epochs = [type("Row", (), {"seconds": each}) for each in seconds]

    turns(Run(99.0))
    turns(Run(99.0, 3.0))
    assert turns.speeds == {BARE: [30.0], ENGINE: [20.0], LOADER: [15.0]}
    assert order == [BARE, LOADER, LOADER, BARE]


@pytest.mark.parametrize(
    ("given", "message"),
    [({"rounds": 0}, "rounds = 0: should be at least 1"), ({"workers": -1}, "workers = -1: should be at least 0")],
)
def test_numbers_without_sense_are_refused(given, message):
    with pytest.raises(LabError, match=message):
        bench_train(CONFIG, **given)
