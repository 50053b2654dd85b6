"""Every figure in every state of a comparison."""

import pytest
from tests.lab import factory

from aon.lab.report import style
from aon.lab.report.figures import FIGURES
from aon.lab.report.summary import summarise_runs


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_nothing_to_draw_is_none(draw):
    assert draw(summarise_runs([])) is None
    assert draw(summarise_runs([factory.record("bn", status="failed", done=0)])) is None


@pytest.mark.parametrize("name", FIGURES)
def test_partial_comparisons_are_drawn_as_far_as_they_go(name, tmp_path):
    partial = [
        factory.record("bn", status="running", done=3),
        factory.record("bn+aon", status="failed", done=1),
        factory.record("bn+aon", 1, status="interrupted", done=0),
        factory.record("bn+aon:order=4", status="running", done=2),
    ]
    figure = FIGURES[name](summarise_runs(partial))
    if name == "orthonormality":  # of finished runs only
        assert figure is None
    else:
        assert style.save(figure, tmp_path, "x", ["png"])[0].stat().st_size > 1000
