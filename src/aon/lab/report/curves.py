"""Figures of loss and accuracy over the epochs. Training is solid and validation dashed, as in the paper."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aon.lab.experiment.records import EpochRow
from aon.lab.report.statistics import mean_and_band
from aon.lab.report.style import (
    GREY,
    LONGEST_WRAPPED,
    Style,
    new_figure,
    plain,
    short_settings,
    styled,
    styles,
    text_width,
    whole_numbers,
    wrapped,
)
from aon.lab.report.summary import Results, Row

Dashes = Literal["-", "--"]
Draw = Callable[[Axes, Row, Style, str, Dashes], None]
PANELS = (("loss", "train_loss", "val_loss"), ("accuracy (%)", "train_accuracy", "val_accuracy"))
MOST_TOGETHER = 6
"""Methods that can be told apart in one panel; more are drawn in several, each with the base."""

SMALL = 7.5  # points, of titles above narrow panels


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
    across = min(3, len(rows))
    titles = _seed_titles(results, rows, inches=6.75 / across - 0.1)
    lines = [titles[i : i + across] for i in range(0, len(titles), across)]
    with styled():
        figure = new_figure(7.4, 0.5 + 2.1 * len(lines) + sum(map(title_height, lines)))
        panels = list(figure.subplots(len(lines), across, squeeze=False, sharex=True, sharey=True).flat)
        for axes, row, title in zip(panels, rows, titles, strict=False):
            _draw_seeds(axes, row, styles(results)[row.method])
            axes.set_title(title, fontsize=SMALL)
        for axes in panels[len(rows) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(rows) - across) : len(rows)]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("epoch")
        figure.supylabel(f"{validation_name(results)} accuracy (%)", fontsize=9)
        figure.suptitle("every run, and their mean", fontsize=9, color=GREY, x=0.01, ha="left")
        return figure


def title_height(titles: Sequence[str]) -> float:
    """Height in inches of the lines that the titles of one line of panels have beyond the first."""
    return 0.16 * max(title.count("\n") for title in titles)


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


def limit(*panels: Axes) -> None:
    """Give panels one scale that no exploding epoch widens, and that begins at 0 or above if no value is below."""
    lines = [np.asarray(line.get_ydata(), dtype=float) for axes in panels for line in axes.get_lines()]
    finite = np.concatenate([np.empty(0), *lines])
    finite = finite[np.isfinite(finite)]
    low, high = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    if finite.size and finite.max() > 3 * (usual := float(np.quantile(finite, 0.97))) > 0:
        high = 1.5 * usual
        low = finite.min() - 0.05 * high
    if finite.size and finite.min() >= 0:
        low = max(low, 0.0)
    for axes in panels:
        axes.set_ylim(low, high)


def method_legend(figure: Figure, results: Results, methods: Sequence[str]) -> None:
    """Name the methods below a figure, and make the figure higher for names that take more than one line."""
    handles = _handles(results, methods)
    width, height = figure.get_size_inches()
    across = _columns([str(handle.get_label()) for handle in handles], width)
    figure.legend(handles=handles, loc="outside lower center", ncols=across)
    figure.set_size_inches(width, height + 0.19 * (-(-len(handles) // across) - 1))


def _handles(results: Results, methods: Sequence[str], inches: float = 6.5, size: float = 9) -> list[Line2D]:
    """A line with the look and the name of each method for a legend, names no wider than this."""
    handles = []
    for name in methods:
        look, label = styles(results)[name], wrapped(plain(name, LONGEST_WRAPPED), inches, size, "normal")
        handles.append(Line2D([], [], color=look.colour, marker=look.marker, markersize=4, label=label))
    return handles


def _columns(names: Sequence[str], inches: float) -> int:
    """Most columns, up to four, in which a legend with these names is not wider than the figure."""
    beside = 0.62  # of a column: line and space
    for columns in range(min(4, len(names)), 1, -1):
        widest = (max(text_width(name, 9) for name in part) for part in np.array_split(names, columns))
        if sum(widest) + beside * columns <= inches:
            return columns
    return 1


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
    lines = [(setting, rows) for setting in results.settings for rows in _together(results.under(setting))]
    is_split = len(lines) > len(results.settings)
    titles = _titles(results)
    with styled():
        height = 0.8 + sum(2.6 + title_height(titles[setting]) for setting, _ in lines)
        figure = new_figure(9.6 if is_split else 7.4, height)
        grid = figure.subplots(len(lines), 2, squeeze=False)
        for panels, (setting, rows) in zip(grid, lines, strict=True):
            _draw_rows(panels, results, rows, titles[setting], draw)
            if is_split:
                _name_beside(panels[-1], results, rows)
        for setting in results.settings:
            for column in grid[[own == setting for own, _ in lines]].T:
                limit(*column)
        if not is_split:
            method_legend(figure, results, results.methods)
        kind_legend(grid[0][0], results)
        figure.suptitle(what, fontsize=9, color=GREY, x=0.01, ha="left")
        return figure


def _together(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of one setting in groups of about the same size that can share a panel, each with the base."""
    base = [row for row in rows if row.is_base]
    others = [row for row in rows if not row.is_base]
    count = -(-len(others) // (MOST_TOGETHER - len(base))) or 1
    return [[*base, *(others[i] for i in part)] for part in np.array_split(range(len(others)), count)]


def _titles(results: Results) -> dict[str, list[str]]:
    """Titles of the panels of each setting."""
    names = short_settings(results.rows)
    return {
        setting: [wrapped(f"{title}, {name}" if name else title, 3.1, 9.5) for title, _, _ in PANELS]
        for setting, name in names.items()
    }


def _draw_rows(
    panels: Sequence[Axes], results: Results, rows: Sequence[Row], titles: Sequence[str], draw: Draw
) -> None:
    for axes, title, (_, train, val) in zip(panels, titles, PANELS, strict=True):
        for row in rows:
            draw(axes, row, styles(results)[row.method], train, "-")
            draw(axes, row, styles(results)[row.method], val, "--")
        axes.set(title=title, xlabel="epoch")
        axes.xaxis.set_major_locator(whole_numbers())


def _name_beside(axes: Axes, results: Results, rows: Sequence[Row]) -> None:
    """Name the methods of a line of panels at its right."""
    handles = _handles(results, [row.method for row in rows], inches=1.8, size=8)
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _draw_mean(axes: Axes, row: Row, style: Style, field: str, dashes: Dashes) -> None:
    x, mean, half = _mean(row, field)
    axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.18, linewidth=0)
    draw_line(axes, x, mean, style, dashes)


def _mean(row: Row, field: str) -> tuple[Any, Any, Any]:
    points = mean_and_band([[getattr(epoch, field) for epoch in run.epochs] for run in row.finished or row.runs])
    mean = np.array([np.nan if point.mean is None else point.mean for point in points])
    return np.arange(1, len(points) + 1), mean, np.array([point.spread or 0.0 for point in points])


def _seed_titles(results: Results, rows: Sequence[Row], inches: float) -> list[str]:
    """Method of each row, and its setting below."""
    settings = short_settings(results.rows)
    parts = ((plain(row.method, LONGEST_WRAPPED), settings[row.setting]) for row in rows)
    return ["\n".join(wrapped(part, inches, SMALL) for part in both if part) for both in parts]


def _draw_seeds(axes: Axes, row: Row, style: Style) -> None:
    for run in row.runs:
        values = [_finite(epoch, "val_accuracy") for epoch in run.epochs]
        marker = "." if len(values) == 1 else None
        axes.plot(
            [epoch.epoch for epoch in run.epochs], values, color=style.colour, alpha=0.35, linewidth=0.8, marker=marker
        )
    x, mean, _ = _mean(row, "val_accuracy")
    draw_line(axes, x, mean, Style(style.colour, ""), "-")
    axes.xaxis.set_major_locator(whole_numbers())


def _finite(epoch: EpochRow, field: str) -> float:
    value = float(getattr(epoch, field))
    return value if np.isfinite(value) else float("nan")
