"""Figures of loss and accuracy over the epochs. Training is solid and validation dashed, as in the paper."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aon.lab.experiment.records import EpochRow
from aon.lab.report.statistics import mean_and_band
from aon.lab.report.style import GREY, Style, new_figure, plain, styled, styles, whole_numbers
from aon.lab.report.summary import Results, Row

Dashes = Literal["-", "--"]
Draw = Callable[[Axes, Row, Style, str, Dashes], None]
PANELS = (("loss", "train_loss", "val_loss"), ("accuracy (%)", "train_accuracy", "val_accuracy"))


def best_curves(results: Results) -> Figure | None:
    """Loss and accuracy of each method's run with the highest validation accuracy; None without an epoch to draw."""
    return _curves(results, draw_best, "run with the highest validation accuracy of each method")


def mean_curves(results: Results) -> Figure | None:
    """Loss and accuracy, mean of the runs with a band of one standard deviation."""
    return _curves(results, _draw_mean, "mean of the runs, band: ± one standard deviation")


def seed_curves(results: Results) -> Figure | None:
    """Validation accuracy of every run, faint, with the mean of each method; a panel for each method."""
    rows = [row for row in results.rows if any(run.epochs for run in row.runs)]
    if not rows:
        return None
    with styled():
        across = min(3, len(rows))
        down = -(-len(rows) // across)
        figure = new_figure(7.4, 0.5 + 2.1 * down)
        panels = list(figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat)
        for axes, row in zip(panels, rows, strict=False):
            _draw_seeds(axes, row, styles(results)[row.method])
        for axes in panels[len(rows) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(rows) - across) : len(rows)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("epoch")
        figure.supylabel(f"{validation_name(results)} accuracy (%)", fontsize=9)
        figure.suptitle("every run, and their mean", fontsize=9, color=GREY, x=0.01, ha="left")
        return figure


def draw_best(axes: Axes, row: Row, style: Style, field: str, dashes: Dashes) -> None:
    """Draw the run with the highest validation accuracy."""
    if row.best_run is not None:
        epochs = row.best_run.epochs
        draw_line(axes, [epoch.epoch for epoch in epochs], [_finite(epoch, field) for epoch in epochs], style, dashes)


def draw_line(axes: Axes, x: Any, y: Any, style: Style, dashes: Dashes) -> None:
    """Draw a line, with markers at every eighth of it if the method has one."""
    every = max(1, len(x) // 8)
    # A single epoch makes no line; a dot shows that it is there.
    marker = style.marker or ("." if len(x) == 1 else None)
    axes.plot(x, y, dashes, color=style.colour, marker=marker, markevery=every, markersize=4)


def limit(axes: Axes) -> None:
    """Keep one exploding epoch from flattening every curve."""
    lines = [np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()]
    finite = np.concatenate([np.empty(0), *lines])
    finite = finite[np.isfinite(finite)]
    if finite.size and finite.max() > 3 * (usual := float(np.quantile(finite, 0.97))) > 0:
        axes.set_ylim(top=1.5 * usual)


def method_legend(figure: Figure, results: Results, methods: Sequence[str]) -> None:
    """Name the methods below a figure, and make the figure higher for names that take more than one line."""
    looks = styles(results)
    handles = [
        Line2D([], [], color=looks[name].colour, marker=looks[name].marker, markersize=4, label=plain(name))
        for name in methods
    ]
    across = 4 if max(map(len, methods), default=0) < 24 else 3
    figure.legend(handles=handles, loc="outside lower center", ncols=min(across, len(handles)))
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.19 * (-(-len(handles) // across) - 1))


def kind_legend(axes: Axes, results: Results) -> None:
    """Name the solid and the dashed lines."""
    kinds: tuple[tuple[str, Dashes], ...] = (("training", "-"), (validation_name(results), "--"))
    handles = [Line2D([], [], color=GREY, linestyle=dashes, label=name) for name, dashes in kinds]
    axes.legend(handles=handles, loc="upper right")


def validation_name(results: Results) -> str:
    """What validation is measured on: images of its own, or the test images as in the paper."""
    return "validation (test images)" if results.validated is False else "validation"


def _curves(results: Results, draw: Draw, what: str) -> Figure | None:
    if not any(run.epochs for run in results.runs):
        return None
    with styled():
        figure = new_figure(7.4, 0.8 + 2.6 * len(results.settings))
        grid = figure.subplots(len(results.settings), 2, squeeze=False)
        for line, setting in zip(grid, results.settings, strict=True):
            _draw_setting(line, results, setting, draw)
        method_legend(figure, results, results.methods)
        kind_legend(grid[0][0], results)
        figure.suptitle(what, fontsize=9, color=GREY, x=0.01, ha="left")
        return figure


def _draw_setting(line: Sequence[Axes], results: Results, setting: str, draw: Draw) -> None:
    for axes, (title, train, val) in zip(line, PANELS, strict=True):
        for row in results.under(setting):
            draw(axes, row, styles(results)[row.method], train, "-")
            draw(axes, row, styles(results)[row.method], val, "--")
        axes.set(title=f"{title}, {plain(setting)}" if setting else title, xlabel="epoch")
        axes.xaxis.set_major_locator(whole_numbers())
        limit(axes)


def _draw_mean(axes: Axes, row: Row, style: Style, field: str, dashes: Dashes) -> None:
    x, mean, half = _mean(row, field)
    axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.18, linewidth=0)
    draw_line(axes, x, mean, style, dashes)


def _mean(row: Row, field: str) -> tuple[Any, Any, Any]:
    points = mean_and_band([[getattr(epoch, field) for epoch in run.epochs] for run in row.finished or row.runs])
    mean = np.array([np.nan if point.mean is None else point.mean for point in points])
    return np.arange(1, len(points) + 1), mean, np.array([point.spread or 0.0 for point in points])


def _draw_seeds(axes: Axes, row: Row, style: Style) -> None:
    for run in row.runs:
        values = [_finite(epoch, "val_accuracy") for epoch in run.epochs]
        marker = "." if len(values) == 1 else None
        axes.plot(
            [epoch.epoch for epoch in run.epochs], values, color=style.colour, alpha=0.35, linewidth=0.8, marker=marker
        )
    x, mean, _ = _mean(row, "val_accuracy")
    draw_line(axes, x, mean, Style(style.colour, ""), "-")
    axes.set_title(plain(row.label), fontsize=8)
    axes.xaxis.set_major_locator(whole_numbers())


def _finite(epoch: EpochRow, field: str) -> float:
    value = float(getattr(epoch, field))
    return value if np.isfinite(value) else float("nan")
