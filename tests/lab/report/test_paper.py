"""The paper's numbers, compared with its text where available, and when they are shown beside ours."""

import pytest

from aon.lab.experiment.config import RunConfig
from aon.lab.methods.build import parse
from aon.lab.report.paper import TABLES, departures, family, published

PAPERS_METHODS = {
    "cifar10": ["bn", "bn+cwn", "iternorm", "bn+orth", "bn+aon:order=0", "bn+aon", "bn+aon:order=4"],
    "cifar100": ["bn", "bn+orth", "bn+aon"],
}


@pytest.mark.parametrize("dataset", PAPERS_METHODS)
def test_every_method_of_the_paper_finds_its_number_under_its_label(dataset):
    config = RunConfig(dataset=dataset)
    found = {parse(method).label: published(config, parse(method).label) for method in PAPERS_METHODS[dataset]}
    assert found == TABLES[dataset]


@pytest.mark.parametrize(
    "change",
    [
        {"network": "vgg16"},
        {"width": 0.5},
        {"train_size": 10_000},
        {"test_size": 1000},
        {"include_classifier": True},
        {"dataset": "cifar10-sample"},
        {"dataset": "mine.npz"},
    ],
    ids=lambda change: next(iter(change)) + str(next(iter(change.values()))),
)
def test_another_network_or_other_data_has_no_number_in_the_paper(change):
    assert published(RunConfig(**{"dataset": "cifar10", **change}), "BN") is None


def test_another_method_has_no_number_in_the_paper():
    assert published(RunConfig(dataset="cifar10"), "BN+AON(q=8)") is None
    assert published(RunConfig(dataset="cifar100"), "IterNorm") is None


def test_the_papers_protocol_departs_in_nothing():
    assert departures(RunConfig(dataset="cifar10")) == []
    assert departures(RunConfig(dataset="cifar100", method="bn", seed=7, threads=2)) == []


def test_departures_name_the_setting_and_both_values():
    assert departures(RunConfig(train_size=100, augment=False, milestones=(0.5,))) == [
        "dataset cifar10-sample (paper: cifar10 and cifar100)",
        "train size 100 (paper: all)",
        "milestones 0.5 (paper: 0.375, 0.75)",
        "augment no (paper: yes)",
    ]


def test_family():
    assert [family(name) for name in ("cifar10", "cifar10-sample", "cifar100", "x")] == [
        "cifar10",
        "cifar10",
        "cifar100",
        None,
    ]
