"""The paper's figures: which panels, which methods, solid and dashed."""

import pytest
from tests.lab import factory

from aon.lab.report.paper_figures import BESIDE, MOST_SETTINGS, figure_1, figure_2
from aon.lab.report.style import styles, text_width
from aon.lab.report.summary import summarise_runs

ORDERS = ("bn+aon:order=0", "bn+aon", "bn+aon:order=4")


def titles(figure):
    return [axes.get_title("left") for axes in figure.axes]


def test_figure_1_has_training_solid_and_validation_dashed_for_every_order():
    results = summarise_runs(factory.comparison(("bn", *ORDERS[::-1], "bn+aon:order=2:centre=mean"), epochs=4))
    figure = figure_1(results)
    assert titles(figure) == ["(a) training accuracy (%)", "(b) validation (test images) accuracy (%)"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["BN+AON(q=0)", "BN+AON(q=2)", "BN+AON(q=4)"]
    rows = {row.method: row for row in results.rows}
    for axes, dashes, field in zip(figure.axes, ("-", "--"), ("train_accuracy", "val_accuracy"), strict=True):
        assert {line.get_linestyle() for line in axes.get_lines()} == {dashes}
        lines = {line.get_color(): list(line.get_ydata()) for line in axes.get_lines()}
        for name in names:
            best = rows[name].best_run
            assert lines[styles(results)[name].colour] == [getattr(epoch, field) for epoch in best.epochs]


def test_figure_1_needs_two_orders():
    assert figure_1(summarise_runs(factory.comparison(epochs=2))) is None


def test_figure_2_has_both_data_sets_and_the_methods_they_share():
    ten = factory.comparison(("bn", "bn+orth", "bn+aon", "iternorm"), epochs=3, dataset="cifar10", validation_size=50)
    hundred = factory.comparison(epochs=3, dataset="cifar100", validation_size=50)
    figure = figure_2(summarise_runs([*ten, *hundred]))
    panels = ("training loss", "validation loss", "validation accuracy (%)")
    letters = iter("abcdef")
    assert titles(figure) == [f"({next(letters)}) {panel}" for _ in range(2) for panel in panels]
    assert [axes.get_ylabel() for axes in figure.axes] == ["cifar10", "", "", "cifar100", "", ""]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["BN", "BN+orthonormal", "BN+AON(q=2)"]
    assert [len(axes.get_lines()) for axes in figure.axes] == [3] * 6
    assert [{line.get_linestyle() for line in axes.get_lines()} for axes in figure.axes] == [
        *([{"-"}] + [{"--"}] * 2) * 2
    ]


def test_figure_2_shows_the_papers_methods_only():
    methods = ("bn", "bn+orth", "bn+aon", *ORDERS[::2], "iternorm", "bn+orth:beta=1", "bn+aon:centre=top", "bn+cwn")
    figure = figure_2(summarise_runs(factory.comparison(methods, seeds=[0], epochs=2)))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["BN", "BN+orthonormal", "BN+AON(q=2)"]
    assert [len(axes.get_lines()) for axes in figure.axes] == [3] * 3
    assert figure_2(summarise_runs(factory.comparison(("bn", "iternorm", "bn+cwn"), epochs=2))) is None


def test_a_long_setting_stands_in_short_lines_beside_its_panels():
    one = factory.comparison(epochs=2, dataset="cifar10", train_size=2000, learning_rate=0.05, batch_size=64)
    other = factory.comparison(epochs=3, dataset="cifar100")
    labels = [figure_2(summarise_runs([*one, *other])).axes[i].get_ylabel() for i in (0, 3)]
    assert labels[0].startswith("dataset cifar10\ntrain size 2000")
    assert labels[1].startswith("dataset cifar100\ntrain size all")
    assert all(text_width(line, 9) <= BESIDE for label in labels for line in label.splitlines())


@pytest.mark.parametrize("draw", [figure_1, figure_2])
def test_too_many_settings_are_not_drawn(draw):
    rates = [0.1 * (i + 1) for i in range(MOST_SETTINGS + 1)]
    runs = [run for rate in rates for run in factory.comparison(ORDERS, seeds=[0], epochs=1, learning_rate=rate)]
    assert draw(summarise_runs(runs)) is None
