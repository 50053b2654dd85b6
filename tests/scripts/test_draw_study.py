"""The README's picture of the study is made from its records; a folder without runs gives a one-line error."""

import pytest
from scripts.draw_study import draw, main, scores
from tests.lab import factory

from aon.lab.errors import LabError
from aon.lab.report.style import new_figure


def test_it_draws_the_records(tmp_path):
    assert main([str(tmp_path)]) == 0
    assert {path.suffix for path in tmp_path.glob("study.*")} == {".png", ".svg"}


def test_methods_stand_in_the_papers_order_with_every_run(tmp_path):
    factory.write(tmp_path, factory.comparison(("bn+polar", "bn+aon", "bn"), seeds=range(4), epochs=2))
    found = scores(tmp_path)
    assert list(found) == ["bn", "bn+aon", "bn+polar"]
    assert [len(values) for values in found.values()] == [4, 4, 4]
    axes = new_figure(4, 2).subplots()
    draw(axes, found, "ours")
    assert [label.get_text() for label in axes.get_yticklabels()][1] == "BN+AON(q=2)  (n = 4)"
    assert axes.get_ylim() == (2.5, -0.5)  # the first on top


def test_a_folder_without_finished_runs_is_refused(tmp_path):
    factory.write(tmp_path, [factory.record("bn", status="running", done=1, epochs=2)])
    with pytest.raises(LabError, match="has no finished run"):
        scores(tmp_path)
