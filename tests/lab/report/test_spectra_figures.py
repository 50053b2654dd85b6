"""Singular values and orthonormality as drawn are those of the records."""

import statistics

import pytest
from tests.lab import factory

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
