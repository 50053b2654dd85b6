"""What the page of the quick comparison says of the study."""

import json

import pytest

from aon.lab.experiment.plans import plan_comparison
from aon.lab.experiment.records import Comparison
from aon.lab.report import study


def plan(preset="quick", vary=None, **settings):
    config = plan_comparison({"preset": preset, **settings}).base.model_dump(mode="json", exclude={"method", "seed"})
    return Comparison(
        name="it",
        preset=preset,
        methods=("bn",),
        seeds=(0,),
        config=config,
        vary=vary or {},
        created="2026-11-16T00:00:00",
    )


@pytest.fixture
def told(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    path.write_text(json.dumps({"findings": ["In the study a was above b."]}))
    monkeypatch.setattr(study, "FINDINGS", path)


@pytest.mark.usefixtures("told")
def test_only_the_quick_comparison_tells_what_the_study_found():
    assert study.findings([plan()]) == study.findings([plan("table2"), plan()]) == ["In the study a was above b."]
    assert study.findings([plan("table2")]) == study.findings([]) == []


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    "changed",
    [
        {"dataset": "mine.npz"},
        {"network": "resnet20"},
        {"width": 0.5},
        {"train_size": 1000},
        {"epochs": 3},
        {"vary": {"width": (0.125, 0.25)}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_comparison_of_something_else_that_started_from_the_quick_one_does_not(changed):
    assert study.findings([plan(**changed)]) == []


@pytest.mark.usefixtures("told")
def test_the_quick_comparison_at_another_learning_rate_still_does():
    assert study.findings([plan(learning_rate=0.1)])


def test_the_packaged_findings_are_sentences():
    found = study.findings([plan()])
    assert found
    assert all(sentence.startswith("In the study ") for sentence in found)
