"""The study's plans, their order, and the collection of records."""

import html
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scripts.claims import CLAIMS
from scripts.study import (
    AGAIN,
    CORE,
    EXPLORATORY,
    FOLLOW_UP,
    MAPS,
    NOTE,
    PLANS,
    ROOT,
    STEPS,
    TITLES,
    TOGETHER,
    Step,
    best_map,
    collect,
    command,
    main,
    order,
    planned,
    report,
    shrink,
)
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.experiment.plans import plan_comparison
from aon.lab.experiment.records import COMPARISON, load_all
from aon.lab.methods.grammar import parse
from aon.lab.report.style import new_figure, save


def plan(name):
    return plan_comparison({}, PLANS / f"{name}.toml")


def test_every_plan_is_run_and_is_in_the_text():
    files = {path.stem for path in PLANS.glob("*.toml")}
    text = (PLANS / "PLAN.md").read_text(encoding="utf-8")
    assert {step.plan for step in STEPS} == files
    assert all(name in text for name in files)


def test_exploratory_plans_are_run_seed_by_seed_between_the_core_and_the_follow_up():
    steps = list(order())
    assert [step for step, seed in steps if seed is None] == [*CORE, *FOLLOW_UP]
    rounds = [[step for step, seed in steps if seed == one] for one in (100, 101, 102)]
    assert steps[len(CORE) : -len(FOLLOW_UP)] == [(step, 100 + i) for i, own in enumerate(rounds) for step in own]
    assert rounds == [list(EXPLORATORY)] * 2 + [[step for step in EXPLORATORY if step != AGAIN]]


def test_a_step_of_one_seed_is_its_plan_with_that_seed_alone(tmp_path):
    step = next(step for step in EXPLORATORY if step.plan == "cifar10-rates")
    words = command(step, tmp_path, seed=101)
    ours, whole = plan_comparison({}, Path(words[words.index("--config") + 1])), plan(step.plan)
    assert ours == replace(whole, seeds=(101,))
    assert words[words.index("--out") + 1] == str(tmp_path / step.folder)


def test_every_folder_of_results_has_the_command_that_makes_it():
    lines = (ROOT / "results" / "README.md").read_text(encoding="utf-8").splitlines()
    named = [line.split("`")[1] for line in lines if line.startswith("| `")]
    tracked = {"jumps", *(path.name for path in (ROOT / "results").iterdir() if path.is_dir() and any(path.iterdir()))}
    assert sorted(named) == sorted(tracked)


@pytest.mark.parametrize("step", STEPS)
def test_plans_of_one_folder_differ_in_methods_and_seeds_alone(step):
    ours, first = plan(step.plan), plan(next(one.plan for one in STEPS if one.folder == step.folder))
    assert (ours.base, ours.vary) == (first.base, first.vary)
    assert min(ours.seeds) >= 100
    assert ours.base.validation_size == 2000


def test_the_plans_have_the_methods_and_seeds_that_the_claims_need():
    runs = {
        (step.folder, method, seed)
        for step in STEPS
        for method in plan(step.plan).methods
        for seed in plan(step.plan).seeds
    }
    for claim in CLAIMS:
        common = [
            seed
            for folder, method, seed in runs
            if (folder, method) == (claim.folder, claim.better) and (folder, claim.base, seed) in runs
        ]
        assert len(common) == claim.seeds, claim


def maps(folder, seeds):
    methods = plan(MAPS.plan).methods
    runs = factory.comparison(methods, seeds=seeds, epochs=2, validation_size=50)
    return factory.write(folder / MAPS.folder, runs), runs


def test_the_best_map_is_chosen_by_validation_and_only_when_all_have_run(tmp_path):
    folder, runs = maps(tmp_path, range(100, 105))
    means = {}
    for run in runs:
        means[run.config.method] = means.get(run.config.method, 0.0) + run.last.val_accuracy
    best = max(means, key=means.get)
    assert best_map(folder) == best
    words = command(Step("cifar10-vit", "cifar10-vit", best="ln"), tmp_path)
    assert words[words.index("--methods") + 1] == f"ln,ln+orth,ln+aon,{best.replace('bn+', 'ln+')}"
    assert str(parse(best.replace("bn+", "ln+"))) == best.replace("bn+", "ln+")
    _, _ = maps(tmp_path / "few", range(100, 104))
    with pytest.raises(LabError, match="has not all 5 runs of "):
        best_map(tmp_path / "few" / MAPS.folder)


def test_finished_records_are_collected_once_and_nothing_else(tmp_path):
    runs = [*factory.comparison(seeds=[100], epochs=2), factory.record("bn", 101, status="running", done=1, epochs=2)]
    folder = factory.write(tmp_path / "out" / "cifar10", runs)
    (folder / "runs" / runs[0].config.run_id() / "best.safetensors").write_bytes(b"weights")
    found = collect(tmp_path / "out", tmp_path / "kept")
    assert len(found) == 3
    kept = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert sorted({path.name for path in kept}) == [COMPARISON, "record.json"]
    assert {run.config.seed for run in load_all(tmp_path / "kept" / "cifar10")} == {100}
    assert collect(tmp_path / "out", tmp_path / "kept") == []


def test_a_figure_that_is_shrunk_looks_the_same(tmp_path):
    path = tmp_path / "figure.png"
    figure = new_figure(4, 3)
    figure.subplots().plot([1, 3, 2])
    save(figure, tmp_path, "figure", ["png"])
    before, size = np.asarray(Image.open(path).convert("RGB"), dtype=int), path.stat().st_size
    shrink(path)
    after = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    assert path.stat().st_size < size / 2
    assert after[0, 0].tolist() == [255, 255, 255]
    assert np.abs(after - before).mean() < 1


def test_reports_are_made_of_what_there_is(tmp_path):
    base = plan("cifar10-main").base
    settings = base.model_dump(exclude={"method", "seed", "epochs"})
    factory.write(tmp_path / "cifar10", factory.comparison(seeds=[100], epochs=2, **settings))
    report(tmp_path)
    text = html.unescape((tmp_path / "cifar10" / "report.html").read_text(encoding="utf-8"))
    assert "<title>The study on CIFAR-10" in text
    assert NOTE in text
    assert "3 done, 64 not begun" in text  # 24 main, 20 others, 20 of maps, 3 of polar, less three
    assert not any((tmp_path / name).exists() for name in TOGETHER)


def test_the_reports_hold_every_record():
    folders = [path.parent for path in sorted(PLANS.glob(f"*/{COMPARISON}"))]
    assert folders
    tables = {folder: json.loads((folder / "report" / "table.json").read_text(encoding="utf-8")) for folder in folders}
    reported = {folder.name: sum(row["finished"] for row in table["rows"]) for folder, table in tables.items()}
    recorded = {folder.name: len(load_all(folder)) for folder in folders}
    assert reported == recorded, "run `python scripts/study.py report`"


def test_every_folder_of_the_study_has_a_title_and_other_comparisons_have_no_plan(tmp_path):
    assert TITLES.keys() == {step.folder for step in STEPS} | TOGETHER.keys()
    factory.write(tmp_path / "quick", factory.comparison(seeds=[0], epochs=2))
    assert planned(tmp_path / "quick") == []


def test_other_words_are_refused(tmp_path):
    for words in ([], ["go"], ["report", "x"], ["run", "a", "b"]):
        with pytest.raises(SystemExit, match="expected `run "):
            main(words)


def test_collecting_from_nowhere_finds_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "scripts/study.py", "collect", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
