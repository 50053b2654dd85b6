"""The figures hold the records' numbers: lines are read back from the axes and compared."""

import math
import warnings

import numpy as np
import pytest
from tests.lab import factory

from aon.lab import drawing
from aon.lab.figures import FIGURES, best_curves, mean_curves, spectra_by_layer, spectra_over_time
from aon.lab.summary import rows


@pytest.fixture(scope="module")
def records():
    return factory.comparison(epochs=8)


def curve(axes, colour, dashes):
    (line,) = (line for line in axes.get_lines() if (line.get_color(), line.get_linestyle()) == (colour, dashes))
    return np.asarray(line.get_ydata())


@pytest.mark.parametrize(
    ("panel", "dashes", "field"),
    [(0, "-", "train_loss"), (0, "--", "val_loss"), (1, "-", "train_accuracy"), (1, "--", "val_accuracy")],
)
def test_best_run_of_each_method_training_solid_validation_dashed(records, panel, dashes, field):
    axes = best_curves(records).axes[panel]
    table = rows(records)
    for row, style in zip(table, drawing.styles(table), strict=True):
        expected = [getattr(epoch, field) for epoch in row.best_run.epochs]
        assert curve(axes, style.colour, dashes) == pytest.approx(expected)


def test_mean_and_band_over_seeds(records):
    axes = mean_curves(records).axes[1]
    runs = [[epoch.val_accuracy for epoch in run.epochs] for run in records if run.label == "BN"]
    assert curve(axes, drawing.GREY, "--") == pytest.approx(np.mean(runs, axis=0))
    band = axes.collections[1].get_paths()[0].vertices[:, 1]
    low, high = (
        np.mean(runs, axis=0) - np.std(runs, axis=0, ddof=1),
        np.mean(runs, axis=0) + np.std(runs, axis=0, ddof=1),
    )
    assert (band.min(), band.max()) == pytest.approx((low.min(), high.max()))


def test_legend_names_every_method_and_both_kinds(records):
    figure = best_curves(records)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [row.label for row in rows(records)]
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["training", "validation"]


def test_singular_values_by_layer_are_the_last_epochs(records):
    figure = spectra_by_layer(records)
    (axes,) = figure.axes
    last = next(run for run in records if run.label == "BN+AON(q=2)").epochs[-1].spectra
    medians = axes.get_lines()[1].get_ydata()
    assert list(medians) == [layer.normalised_median for layer in last]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [layer.name for layer in last]


def test_singular_values_over_time_have_a_line_for_each_layer(records):
    figure = spectra_over_time(records)
    run = next(run for run in records if run.label == "BN+AON(q=2)")
    for axes, part in zip(figure.axes[:3], ("min", "median", "max"), strict=True):
        lines = axes.get_lines()
        assert len(lines) == factory.LAYERS
        expected = [getattr(epoch.spectra[2], f"normalised_{part}") for epoch in run.epochs]
        assert list(lines[2].get_ydata()) == expected


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_nothing_to_draw_is_none(draw):
    assert draw([], ()) is None
    assert draw([factory.record("bn", status="failed", done=0)], ()) is None


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_partial_comparisons_are_drawn(draw, tmp_path):
    partial = [
        factory.record("bn", status="running", done=3),
        factory.record("bn+aon", status="failed", done=1),
        factory.record("bn+aon", 1, status="interrupted", done=0),
    ]
    assert drawing.save(draw(partial, ()), tmp_path, "x", ["png"])[0].stat().st_size > 1000


def test_a_loss_that_explodes_neither_warns_nor_flattens_the_rest(tmp_path):
    run = factory.record("bn+aon", epochs=40)
    losses = {3: 1e9, 4: math.inf, 5: math.nan}
    wild = run.but(
        epochs=tuple(row.model_copy(update={"val_loss": losses.get(row.epoch, row.val_loss)}) for row in run.epochs)
    )
    for draw in (best_curves, mean_curves):
        figure = draw([wild])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            drawing.save(figure, tmp_path, "x", ["png"])
        assert figure.axes[0].get_ylim()[1] < 20
