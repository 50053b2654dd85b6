"""Presets against the paper."""

from pathlib import Path

import pytest

from aon.lab.errors import LabError
from aon.lab.experiment import presets
from aon.lab.experiment.config import RunConfig, make
from aon.lab.experiment.records import load_all
from aon.lab.methods.grammar import parse

ROOT = Path(__file__).resolve().parents[3]

PAPER = {
    "table1": (("bn+aon:order=0", "bn+aon", "bn+aon:order=4"), "cifar10"),
    "table2": (("bn", "bn+cwn", "iternorm", "bn+orth", "bn+aon"), "cifar10"),
    "table3": (("bn", "bn+orth", "bn+aon"), "cifar100"),
}


@pytest.mark.parametrize("name", PAPER)
def test_tables_are_exactly_the_papers(name):
    preset = presets.get(name)
    methods, dataset = PAPER[name]
    assert tuple(str(parse(method)) for method in preset.methods) == tuple(str(parse(m)) for m in methods)
    assert preset.seeds == 5
    assert make(preset.settings) == RunConfig(dataset=dataset)


@pytest.mark.parametrize("name", PAPER)
def test_the_reduced_form_keeps_methods_and_proportions(name):
    full, small = presets.get(name), presets.get(f"{name}-small")
    assert small.methods == full.methods
    kept = ("dataset", "network", "learning_rate", "momentum", "weight_decay", "milestones", "decay", "augment")
    protocol, reduced = make(full.settings), make(small.settings)
    assert [getattr(reduced, k) for k in kept] == [getattr(protocol, k) for k in kept]
    assert reduced.epochs < protocol.epochs
    assert reduced.width < protocol.width


def test_quick_needs_nothing_that_is_not_in_the_package():
    preset = presets.get(presets.DEFAULT)
    assert make(preset.settings).dataset == "cifar10-sample"
    assert preset.methods == ("bn", "bn+orth", "bn+aon")


def test_every_method_of_quick_fits_its_training_images():
    """By the records in results/quick: docs/reproducing.md says so."""
    preset = presets.get("quick")
    runs = load_all(ROOT / "results" / "quick")
    assert {run.config.method for run in runs} == set(preset.methods)
    assert len(runs) == preset.seeds * len(preset.methods)
    assert {run.config.but(method="bn", seed=0, threads=None) for run in runs} == {
        make(preset.settings).but(method="bn")
    }
    assert min(run.epochs[-1].train_accuracy for run in runs) > 98


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_is_valid(name):
    preset = presets.get(name)
    for method in preset.methods:
        make({**preset.settings, "method": method})


def test_an_unknown_preset_is_refused():
    with pytest.raises(LabError, match="unknown preset 'table4'; did you mean"):
        presets.get("table4")
