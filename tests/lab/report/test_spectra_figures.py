"""Singular values and orthonormality as drawn are those of the records."""

import statistics

import matplotlib as mpl
import pytest
from tests.lab import factory

from aon.lab.report import style
from aon.lab.report.spectra_figures import against_orthonormality, by_layer, orthonormality, over_time
from aon.lab.report.summary import summarise_runs


@pytest.fixture(scope="module")
def results():
    return summarise_runs(factory.comparison(epochs=8, validation_size=200))


def aon(results):
    return results.rows[2]


def test_singular_values_by_layer_are_the_last_epochs(results):
    (axes,) = by_layer(results).axes
    last = aon(results).best_run.epochs[-1].spectra
    assert list(axes.get_lines()[1].get_ydata()) == [layer.normalised_median for layer in last]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [layer.name for layer in last]


def test_singular_values_over_time_have_a_line_for_each_layer(results):
    figure = over_time(results)
    for axes, part in zip(figure.axes[:3], ("min", "median", "max"), strict=True):
        lines = axes.get_lines()
        assert len(lines) == factory.LAYERS
        expected = [getattr(epoch.spectra[2], f"normalised_{part}") for epoch in aon(results).best_run.epochs]
        assert list(lines[2].get_ydata()) == expected


def test_a_method_is_named_above_its_line_of_panels_and_the_values_above_each_panel(tmp_path):
    long = summarise_runs(factory.comparison(("bn+aon:order=4:expansion=minimax:lower=0.1",), seeds=[0], epochs=2))
    figure = over_time(long)
    style.save(figure, tmp_path, "x", ["png"])
    titles = [axes.get_title("left") for axes in figure.axes[:3]]
    assert titles == [f"{long.rows[0].method}\nsmallest", "median", "largest"]


def test_the_colour_bar_is_small(tmp_path):
    runs = factory.comparison([f"bn+aon:order={n}" for n in range(8)], seeds=[0], epochs=2)
    figure = over_time(summarise_runs(runs))
    style.save(figure, tmp_path, "x", ["png"])
    bar = figure.axes[-1].get_position()
    width, height = figure.get_size_inches()
    assert bar.height * height < 0.2
    assert bar.width * width < width / 2


def test_singular_values_that_are_nearly_one_look_like_one(tmp_path):
    run = factory.record("bn+aon", epochs=2)
    near = {"normalised_min": 1 - 3e-8, "normalised_median": 1.0, "normalised_max": 1 + 3e-8}
    spectra = tuple(layer.model_copy(update=near) for layer in run.epochs[0].spectra)
    epochs = tuple(epoch.model_copy(update={"spectra": spectra}) for epoch in run.epochs)
    figure = over_time(summarise_runs([run.but(epochs=epochs)]))
    style.save(figure, tmp_path, "x", ["png"])
    axes = figure.axes[0]
    assert axes.get_ylim() == pytest.approx((0.95, 1.05))
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert "1.00" in [tick.get_text() for tick in axes.get_yticklabels()]


def test_one_point_a_run_of_test_accuracy_against_the_median_error(results):
    expected = [
        (statistics.median(layer.error for layer in run.epochs[-1].spectra), run.last.test_accuracy)
        for run in aon(results).runs
    ]
    assert orthonormality(aon(results)) == expected
    axes = against_orthonormality(results).axes[0]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.get_lines()] == expected


def test_runs_that_are_not_done_or_recorded_no_error_make_no_point():
    run = factory.record("bn+aon", epochs=2)
    spectra = tuple(layer.model_copy(update={"error": None}) for layer in run.epochs[-1].spectra)
    blind = run.but(epochs=(*run.epochs[:-1], run.epochs[-1].model_copy(update={"spectra": spectra})))
    assert against_orthonormality(summarise_runs([blind, factory.record("bn+aon", 1, status="failed")])) is None


def test_settings_have_shapes_of_their_own():
    runs = [run for rate in (0.1, 0.2) for run in factory.comparison(("bn+aon",), epochs=2, learning_rate=rate)]
    axes = against_orthonormality(summarise_runs(runs)).axes[0]
    assert {line.get_marker() for line in axes.get_lines()} == {"o", "s"}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["learning rate 0.1", "learning rate 0.2"]


def test_each_data_set_has_a_panel_of_its_own():
    sets = ("cifar10", "cifar100")
    rates = [factory.comparison(("bn+aon",), seeds=[0], epochs=2, dataset="cifar10", learning_rate=0.2)]
    runs = [factory.comparison(("bn+aon",), epochs=2, dataset=name) for name in sets]
    results = summarise_runs([run for own in (*runs, *rates) for run in own])
    first, second = against_orthonormality(results).axes
    assert [axes.get_title("left") for axes in (first, second)] == list(sets)
    assert [len(axes.get_lines()) for axes in (first, second)] == [4, 3]
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["learning rate 0.1", "learning rate 0.2"]
    assert second.get_legend() is None


def test_points_can_be_seen_through(results):
    for line in against_orthonormality(results).axes[0].get_lines():
        assert mpl.colors.to_rgba(line.get_markerfacecolor())[3] < 0.5
