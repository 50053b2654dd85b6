"""What the page of the quick comparison says of the study."""

import json

from aon.lab.experiment.records import Comparison
from aon.lab.report import study


def plan(preset):
    return Comparison(name="it", preset=preset, methods=("bn",), seeds=(0,), config={}, created="2026-11-16T00:00:00")


def test_only_the_quick_comparison_tells_what_the_study_found(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    path.write_text(json.dumps({"findings": ["In the study a was above b."]}))
    monkeypatch.setattr(study, "FINDINGS", path)
    assert study.findings([plan("quick")]) == ["In the study a was above b."]
    assert study.findings([plan("table2")]) == study.findings([]) == []


def test_the_packaged_findings_are_sentences():
    assert all(sentence.startswith("In the study (") for sentence in study.findings([plan("quick")]))
