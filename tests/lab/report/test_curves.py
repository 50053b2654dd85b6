"""The curves hold the records' numbers: lines are read back from the axes and compared."""

import math
import warnings

import numpy as np
import pytest
from tests.lab import factory

from aon.lab.report import style
from aon.lab.report.curves import MOST_TOGETHER, best_curves, mean_curves, seed_curves
from aon.lab.report.summary import summarise_runs

FIELDS = [(0, "-", "train_loss"), (0, "--", "val_loss"), (1, "-", "train_accuracy"), (1, "--", "val_accuracy")]


@pytest.fixture(scope="module")
def results():
    return summarise_runs(factory.comparison(epochs=8))


def curve(axes, colour, dashes):
    (line,) = (line for line in axes.get_lines() if (line.get_color(), line.get_linestyle()) == (colour, dashes))
    return np.asarray(line.get_ydata())


@pytest.mark.parametrize(("panel", "dashes", "field"), FIELDS)
def test_best_run_of_each_method_training_solid_validation_dashed(results, panel, dashes, field):
    axes = best_curves(results).axes[panel]
    for row in results.rows:
        expected = [getattr(epoch, field) for epoch in row.best_run.epochs]
        assert curve(axes, style.styles(results)[row.method].colour, dashes) == pytest.approx(expected)


def test_mean_and_band_over_seeds(results):
    axes = mean_curves(results).axes[1]
    runs = [[epoch.val_accuracy for epoch in run.epochs] for run in results.rows[0].runs]
    assert curve(axes, style.GREY, "--") == pytest.approx(np.mean(runs, axis=0))
    band = axes.collections[1].get_paths()[0].vertices[:, 1]
    mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1)
    assert (band.min(), band.max()) == pytest.approx(((mean - spread).min(), (mean + spread).max()))


def test_legend_names_every_method_and_both_kinds(results):
    figure = best_curves(results)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == results.methods
    kinds = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert kinds == ["training", "validation (test images)"]
    validated = best_curves(summarise_runs(factory.comparison(epochs=2, validation_size=50)))
    assert [text.get_text() for text in validated.axes[0].get_legend().get_texts()] == ["training", "validation"]


def test_each_setting_has_its_own_panels_and_a_method_one_colour():
    runs = [run for rate in (0.1, 0.2) for run in factory.comparison(epochs=3, learning_rate=rate)]
    figure = best_curves(summarise_runs(runs))
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"{what}, learning rate {rate}" for rate in (0.1, 0.2) for what in ("loss", "accuracy (%)")
    ]
    first, second = ({line.get_color() for line in figure.axes[i].get_lines()} for i in (0, 2))
    assert first == second
    assert len(first) == 3


def test_every_seed_is_drawn_faint_with_the_mean(results):
    figure = seed_curves(results)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title("left") for axes in panels] == [row.label for row in results.rows]
    for axes, row in zip(panels, results.rows, strict=True):
        *faint, mean = axes.get_lines()
        assert [line.get_alpha() for line in faint] == [0.35] * 3
        values = [[epoch.val_accuracy for epoch in run.epochs] for run in row.runs]
        assert [list(line.get_ydata()) for line in faint] == values
        assert list(mean.get_ydata()) == pytest.approx(np.mean(values, axis=0))


def test_twelve_methods_are_split_over_lines_of_panels_each_with_the_base():
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 12))]
    results = summarise_runs(factory.comparison(methods, seeds=[0], epochs=3, spectra=False))
    figure = mean_curves(results)
    right = figure.axes[1::2]
    named = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in right]
    assert [names[0] for names in named] == ["BN"] * 3
    assert [name for names in named for name in names[1:]] == results.methods[1:]
    looks = style.styles(results)
    for axes, names in zip(right, named, strict=True):
        assert len(names) <= MOST_TOGETHER
        assert {line.get_color() for line in axes.get_lines()} == {looks[name].colour for name in names}
    assert len({axes.get_ylim() for axes in right}) == 1
    assert figure.legends == []


def test_six_methods_share_their_panels():
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, MOST_TOGETHER))]
    figure = mean_curves(summarise_runs(factory.comparison(methods, seeds=[0], epochs=3, spectra=False)))
    assert len(figure.axes) == 2
    assert len(figure.legends[0].get_texts()) == MOST_TOGETHER


@pytest.mark.parametrize("length", [20, 60])
def test_the_legend_is_not_wider_than_the_figure(length, tmp_path):
    runs = [factory.record("bn", label="M" * length + str(n), done=2, spectra=False) for n in range(5)]
    figure = mean_curves(summarise_runs(runs))
    style.save(figure, tmp_path, "x", ["png"])
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_many_methods_leave_room_for_the_panels(tmp_path):
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 23))]
    figure = mean_curves(summarise_runs(factory.comparison(methods, seeds=[0], epochs=3, spectra=False)))
    style.save(figure, tmp_path, "x", ["png"])
    inches = [axes.get_position().height * figure.get_size_inches()[1] for axes in figure.axes]
    assert min(inches) > 1.5


def test_a_loss_that_explodes_neither_warns_nor_flattens_the_rest(tmp_path):
    run = factory.record("bn+aon", epochs=40)
    losses = {3: 1e9, 4: math.inf, 5: math.nan}
    wild = run.but(
        epochs=tuple(row.model_copy(update={"val_loss": losses.get(row.epoch, row.val_loss)}) for row in run.epochs)
    )
    for draw in (best_curves, mean_curves):
        figure = draw(summarise_runs([wild]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            style.save(figure, tmp_path, "x", ["png"])
        assert figure.axes[0].get_ylim()[1] < 20
        assert figure.axes[0].get_ylim()[0] >= 0


def with_first_loss(run, loss):
    return run.but(epochs=(run.epochs[0].model_copy(update={"val_loss": loss}), *run.epochs[1:]))


def test_no_band_leads_the_axis_of_the_loss_below_zero():
    runs = [with_first_loss(run, loss) for run, loss in zip(factory.comparison(("bn",)), (1, 2, 8), strict=True)]
    axes = mean_curves(summarise_runs(runs)).axes[0]
    assert axes.collections[1].get_paths()[0].vertices[:, 1].min() < 0
    assert axes.get_ylim()[0] >= 0
