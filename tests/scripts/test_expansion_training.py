"""The training part of docs/expansions.md is that of the records, and its figure can be drawn."""

from tests.lab import factory

from aon.lab.experiment.records import save
from scripts import expansion_training as page


def test_the_page_shows_the_records():
    assert page.text() in page.PAGE.read_text()


def test_every_task_has_three_seeds_of_plain_sn_paper_and_minimax():
    for task in page.TASKS:
        runs = page.runs_of(page.RECORDS / task)
        assert {"", "aon:order=0", "aon", "aon:expansion=minimax"} <= runs.keys()
        assert all(len({run.config.seed for run in of_map}) >= 3 for of_map in runs.values())


def test_what_the_page_says_of_the_curves_holds_in_the_records():
    def accuracy(task: str, name: str) -> float:
        runs = page.runs_of(page.RECORDS / task)[name]
        return sum(run.epochs[-1].test_accuracy or 0 for run in runs) / len(runs)

    assert accuracy("mlp", "aon") < 15
    assert accuracy("vit", "aon") < accuracy("vit", "") - 1
    assert all(accuracy(task, "aon:expansion=minimax") >= accuracy(task, "") for task in page.TASKS)


def test_a_line_for_each_map_and_a_panel_for_each_curve(tmp_path):
    for method in ("ln", "ln+aon"):
        for seed in (0, 1):
            made = factory.record(method, seed, epochs=3)
            folder = tmp_path / "runs" / made.config.run_id()
            folder.mkdir(parents=True)
            save(made, folder)
    tasks = {"mlp": page.runs_of(tmp_path)}
    assert [len(axes.get_lines()) for axes in page.draw(tasks).axes] == [2, 2]
    assert [line.split("|")[2].strip() for line in page.table(tasks).splitlines()[2:]] == ["no map", "the paper's AON"]


def test_a_single_value_has_no_spread():
    assert page._spread([1.25], 1) == "1.2"
    assert page._spread([], 1) == "-"
