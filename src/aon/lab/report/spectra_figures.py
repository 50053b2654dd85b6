"""Figures of the singular values of h(W), and of accuracy against the orthonormality that was reached."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aon.lab.experiment.records import Record, SpectrumRow
from aon.lab.report.curves import method_legend, title_height
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.style import (
    GREY,
    LONGEST_WRAPPED,
    Style,
    new_figure,
    plain,
    short_settings,
    styled,
    styles,
    whole_numbers,
    wrapped,
)
from aon.lab.report.summary import Results, Row

SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")


def by_layer(results: Results) -> Figure | None:
    """Smallest, median and largest singular value of each layer's h(W), best run at its end."""
    pairs = with_spectra(results)
    if not pairs:
        return None
    titles = _titles(results, pairs, 6.5, 9.5)
    with styled():
        figure = new_figure(7.4, 1.1 + sum(1.35 + title_height([title]) for title in titles))
        panels: list[Axes] = list(figure.subplots(len(pairs), 1, squeeze=False)[:, 0])
        for axes, title, (row, run) in zip(panels, titles, pairs, strict=True):
            _draw_layers(axes, styles(results)[row.method], last_spectra(run))
            axes.set_title(title)
        _name_layers(panels, [[layer.name for layer in last_spectra(run)] for _, run in pairs])
        figure.supylabel("singular values of h(W); of W without a weight map", fontsize=9)
        return figure


def over_time(results: Results) -> Figure | None:
    """The same three singular values over epochs, a line for each layer, first ones dark, last ones light."""
    pairs = with_spectra(results)
    if not pairs:
        return None
    # A title may reach over the next panel, but the layout moves that away from one twice as wide as its own.
    titles = [f"{title}\nsmallest" for title in _titles(results, pairs, 3.9, 8)]
    with styled():
        figure = new_figure(7.4, 1.2 + sum(1.75 + title_height([title]) for title in titles))
        grid = figure.subplots(len(pairs), 3, sharex=True, sharey="row", squeeze=False)
        for line, title, (_, run) in zip(grid, titles, pairs, strict=True):
            _draw_time(line, run)
            for axes, words in zip(line, (title, "median", "largest"), strict=True):
                axes.set_title(words, fontsize=8)
        _draw_bar(figure, grid, max(len(last_spectra(run)) for _, run in pairs))
        for axes in grid[-1]:
            axes.set_xlabel("epoch")
        return figure


def against_orthonormality(results: Results) -> Figure | None:
    """Test accuracy of the last epoch against the orthonormality reached, one point a finished run.

    Each data set has a panel of its own, since accuracies on different data sets are not to be compared.
    Across: median over the layers of the orthonormality error of h(W), 0 for orthonormal rows up to a factor.
    """
    groups: dict[str, list[Row]] = {}
    for row in results.rows:
        if orthonormality(row):
            groups.setdefault(row.runs[0].config.dataset, []).append(row)
    if not groups:
        return None
    with styled():
        figure = new_figure(7.4, 1.6 + 2.6 * len(groups))
        panels: list[Axes] = list(figure.subplots(len(groups), 1, squeeze=False, sharex=True)[:, 0])
        for axes, (dataset, rows) in zip(panels, groups.items(), strict=True):
            _draw_points(axes, rows, styles(results))
            axes.set_title(wrapped(plain(dataset), 6.5, 9.5) if len(groups) > 1 else "")
        panels[-1].set_xlabel("median over the layers of the orthonormality error of h(W)")
        shown = {row.method for rows in groups.values() for row in rows}
        method_legend(figure, results, [method for method in results.methods if method in shown])
        for handle in figure.legends[0].get_lines():
            handle.set(linestyle="none", marker="o", **_open(handle.get_color()))
        return figure


def _draw_points(axes: Axes, rows: Sequence[Row], looks: Mapping[str, Style]) -> None:
    names = short_settings(rows)
    shapes = dict(zip(names, SHAPES * len(names), strict=False))
    for row in rows:
        for x, y in orthonormality(row):
            axes.plot([x], [y], shapes[row.setting], **_open(looks[row.method].colour))
    axes.set_ylabel("test accuracy, last epoch (%)")
    if len(names) > 1:
        handles = [Line2D([], [], linestyle="none", marker=shapes[setting], **_open(GREY)) for setting in names]
        labels = [wrapped(name, 2.2, 7, "normal") for name in names.values()]
        axes.legend(handles, labels, loc="best", fontsize=7)


def _open(colour: Any) -> dict[str, Any]:
    """Markers with a faint inside, so that points on top of each other look darker than one."""
    return {
        "markeredgecolor": mpl.colors.to_rgba(colour, 0.9),
        "markerfacecolor": mpl.colors.to_rgba(colour, 0.25),
        "markersize": 5,
        "markeredgewidth": 0.9,
    }


def orthonormality(row: Row) -> list[tuple[float, float]]:
    """Orthonormality error and test accuracy of each finished run that recorded both."""
    found = []
    for run in row.finished:
        errors = [layer.error for layer in last_spectra(run) if layer.error is not None]
        accuracy = PRIMARY.of(run)
        if errors and accuracy is not None:
            found.append((statistics.median(errors), accuracy))
    return found


def with_spectra(results: Results) -> list[tuple[Row, Record]]:
    """The rows with singular values to show, each with its best run that has them."""
    found = []
    for row in results.rows:
        run = next((run for run in (row.best_run, *row.runs) if run and last_spectra(run)), None)
        if run is not None:
            found.append((row, run))
    return found


def last_spectra(run: Record) -> tuple[SpectrumRow, ...]:
    """The singular values that were recorded last; nothing if none were."""
    return next((epoch.spectra for epoch in reversed(run.epochs) if epoch.spectra), ())


def _titles(results: Results, pairs: Sequence[tuple[Row, Record]], inches: float, size: float) -> list[str]:
    """Method and setting of each row, no wider than this."""
    settings = short_settings(results.rows)
    parts = ((plain(row.method, LONGEST_WRAPPED), settings[row.setting]) for row, _ in pairs)
    return [wrapped(" · ".join(filter(None, both)), inches, size) for both in parts]


def _draw_layers(axes: Axes, style: Style, layers: Sequence[SpectrumRow]) -> None:
    x = np.arange(1, len(layers) + 1)
    low, middle, high = (_values(layers, part) for part in ("min", "median", "max"))
    axes.axhline(1, color="#bbbbbb", linewidth=0.8)
    axes.vlines(x, low, high, color=style.colour, linewidth=3, alpha=0.35)
    axes.plot(x, middle, "o", color=style.colour, markersize=4)
    axes.plot(x, low, "_", x, high, "_", color=style.colour, markersize=7)
    axes.update_datalim([(1, 0)])  # 0 is in the picture, and a margin above the largest value
    axes.autoscale_view()
    axes.set_ylim(bottom=0)


def _name_layers(panels: Sequence[Axes], names: list[list[str]]) -> None:
    """Layer names below each panel, or below the last alone where all have the same."""
    for i, (axes, own) in enumerate(zip(panels, names, strict=True)):
        repeated = i + 1 < len(names) and own == names[i + 1]
        labels = [""] * len(own) if repeated else [plain(name) for name in own]
        axes.set_xticks(range(1, len(own) + 1), labels, rotation=40, ha="right", fontsize=7)


def _draw_time(line: Sequence[Axes], run: Record) -> None:
    depth = len(last_spectra(run))
    epochs = [epoch for epoch in run.epochs if epoch.spectra and len(epoch.spectra) == depth]
    x = [epoch.epoch for epoch in epochs]
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, max(depth, 2)))
    for axes, part in zip(line, ("min", "median", "max"), strict=True):
        values = np.array([_values(epoch.spectra or (), part) for epoch in epochs])
        for layer_values, colour in zip(values.T, colours, strict=False):
            axes.plot(x, layer_values, color=colour, linewidth=1, marker="." if len(x) == 1 else None)
        axes.xaxis.set_major_locator(whole_numbers())
    line[0].set_ylabel("singular value")
    _show_constant_as_constant(line[0])


def _show_constant_as_constant(axes: Axes) -> None:
    """Widen an axis that would magnify rounding errors to a tenth of the values."""
    low, high = axes.get_ylim()
    if high - low < (least := 0.1 * abs(high)):
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)


def _draw_bar(figure: Figure, grid: Any, depth: int) -> None:
    """Name the colours of the layers above the panels."""
    colours = ScalarMappable(Normalize(1, max(depth, 2)), "cividis")
    bar = figure.colorbar(colours, ax=grid, location="top", shrink=0.4, aspect=25, pad=0.01, ticks=whole_numbers())
    bar.set_label("layer, first to last")


def _values(layers: Sequence[SpectrumRow], part: str) -> list[float]:
    return [getattr(layer, f"normalised_{part}") for layer in layers]
