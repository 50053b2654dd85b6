"""Every figure in every state of a comparison."""

from itertools import combinations

import pytest
from matplotlib.text import Text
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


MAPS = [f"bn+aon:order={order}{rest}" for order in (2, 4) for rest in ("", ":centre=top", ":expansion=minimax")]
CHANGES = ({}, {"learning_rate": 0.05}, {"schedule": "linear"}, {"weight_decay": 5e-4}, {"schedule": "cosine"})
SHOWING_SETTINGS = {
    "curves-best": 2 * len(CHANGES),
    "curves-mean": 2 * len(CHANGES),
    "curves-seeds": 8 + 2 * (len(CHANGES) - 1),
    "spectra-by-layer": 6 + len(CHANGES) - 1,
    "spectra-over-time": 6 + len(CHANGES) - 1 + 2,
    "orthonormality": 0,
}
"""How many different titles each figure has: panels, methods and settings with spectra, `median` and `largest`."""


@pytest.fixture(scope="module")
def settings():
    """Eight methods, most with long names, and two of them under other settings."""
    runs = factory.comparison(["bn", "bn+orth", *MAPS], seeds=[0], epochs=2)
    others = [factory.comparison(["bn", "bn+aon:order=2"], seeds=[0], epochs=2, **change) for change in CHANGES[1:]]
    return summarise_runs([*runs, *(run for own in others for run in own)])


def laid_out(figure):
    with style.styled():
        figure.set_dpi(200)
        figure.draw_without_rendering()
    return figure


def titles(figure):
    """The title of every panel, with the panel."""
    texts = ((axes, text) for axes in figure.axes for text in axes.get_children() if isinstance(text, Text))
    return [(axes, text) for axes, text in texts if text.get_text() and text.get_text() == axes.get_title("left")]


@pytest.mark.parametrize(("name", "count"), SHOWING_SETTINGS.items())
def test_names_of_settings_are_whole_distinct_and_inside_the_figure(name, count, settings):
    figure = laid_out(FIGURES[name](settings))
    above = [text for _, text in titles(figure)]
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    assert len({text.get_text() for text in above}) == count
    for text in (*above, *(text for legend in legends for text in legend.get_texts())):
        box = text.get_window_extent()
        assert "…" not in text.get_text()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("name", ["curves-best", "curves-mean", "curves-seeds", "spectra-by-layer"])
def test_titles_lie_above_their_own_panel_and_not_on_each_other(name, settings):
    figure = laid_out(FIGURES[name](settings))
    placed = [(axes, text.get_window_extent()) for axes, text in titles(figure)]
    assert all(axes.bbox.y1 <= box.y0 and box.x1 <= axes.bbox.x1 for axes, box in placed)
    assert not any(one.overlaps(other) for (_, one), (_, other) in combinations(placed, 2))
    assert not any(box.overlaps(axes.bbox) for _, box in placed for axes, _ in placed)


def test_long_names_leave_the_panels_over_time_side_by_side(settings):
    figure = laid_out(FIGURES["spectra-over-time"](settings))
    first, second, third = (axes.bbox for axes in figure.axes[:3])
    assert second.x0 - first.x1 == pytest.approx(third.x0 - second.x1, abs=2)
    lines = [text.get_text().splitlines() for axes, text in titles(figure)]
    assert [words[-1] for words in lines] == ["smallest", "median", "largest"] * 10
    assert {len(words) for words in lines if words[-1] != "smallest"} == {1}
