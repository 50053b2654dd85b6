"""Figures of the singular values of h(W), and of accuracy against the orthonormality that was reached."""

import statistics
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from aon.lab.experiment.records import Record, SpectrumRow
from aon.lab.report.curves import method_legend
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.style import Style, new_figure, plain, styled, styles, whole_numbers
from aon.lab.report.summary import Results, Row

SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")


def by_layer(results: Results) -> Figure | None:
    """Smallest, median and largest singular value of each layer's h(W), best run at its end."""
    pairs = with_spectra(results)
    if not pairs:
        return None
    with styled():
        figure = new_figure(7.4, 1.1 + 1.35 * len(pairs))
        panels: list[Axes] = list(figure.subplots(len(pairs), 1, squeeze=False)[:, 0])
        for axes, (row, run) in zip(panels, pairs, strict=True):
            _draw_layers(axes, row, styles(results)[row.method], last_spectra(run))
        _name_layers(panels, [[layer.name for layer in last_spectra(run)] for _, run in pairs])
        figure.supylabel("singular values of h(W); of W without a weight map", fontsize=9)
        return figure


def over_time(results: Results) -> Figure | None:
    """The same three singular values over epochs, a line for each layer, first ones dark, last ones light."""
    pairs = with_spectra(results)
    if not pairs:
        return None
    with styled():
        figure = new_figure(7.4, 0.75 + 1.9 * len(pairs))
        grid = figure.subplots(len(pairs), 3, sharex=True, sharey="row", squeeze=False)
        for line, (row, run) in zip(grid, pairs, strict=True):
            _draw_time(line, row, run)
        depth = max(len(last_spectra(run)) for _, run in pairs)
        colours = ScalarMappable(Normalize(1, max(depth, 2)), "cividis")
        bar = figure.colorbar(colours, ax=grid, pad=0.01, aspect=30, ticks=whole_numbers())
        bar.set_label("layer, first to last")
        for axes in grid[-1]:
            axes.set_xlabel("epoch")
        return figure


def against_orthonormality(results: Results) -> Figure | None:
    """Test accuracy of the last epoch against the orthonormality reached, one point a finished run.

    Across: median over the layers of the orthonormality error of h(W), 0 for orthonormal rows up to a factor.
    """
    points = [(row, x, y) for row in results.rows for x, y in orthonormality(row)]
    if not points:
        return None
    with styled():
        figure = new_figure(7.4, 4.2)
        axes = figure.subplots()
        shapes = dict(zip(results.settings, SHAPES * len(results.settings), strict=False))
        for row, x, y in points:
            colour = styles(results)[row.method].colour
            axes.plot([x], [y], shapes[row.setting], color=colour, alpha=0.8, markersize=5, markeredgewidth=0)
        axes.set(
            xlabel="median over the layers of the orthonormality error of h(W)", ylabel="test accuracy, last epoch (%)"
        )
        shown = {row.method for row, _, _ in points}
        method_legend(figure, results, [method for method in results.methods if method in shown])
        for handle in figure.legends[0].get_lines():
            handle.set(linestyle="none", marker="o")
        if len(results.settings) > 1:
            handles = [
                axes.plot([], [], shapes[name], color="#5f6368", label=plain(name))[0] for name in results.settings
            ]
            axes.legend(handles=handles, loc="best", fontsize=7)
        return figure


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


def _draw_layers(axes: Axes, row: Row, style: Style, layers: Sequence[SpectrumRow]) -> None:
    x = np.arange(1, len(layers) + 1)
    low, middle, high = (_values(layers, part) for part in ("min", "median", "max"))
    axes.axhline(1, color="#bbbbbb", linewidth=0.8)
    axes.vlines(x, low, high, color=style.colour, linewidth=3, alpha=0.35)
    axes.plot(x, middle, "o", color=style.colour, markersize=4)
    axes.plot(x, low, "_", x, high, "_", color=style.colour, markersize=7)
    axes.set_title(plain(row.label))
    axes.set_ylim(bottom=0)


def _name_layers(panels: Sequence[Axes], names: list[list[str]]) -> None:
    """Layer names below each panel, or below the last alone where all have the same."""
    for i, (axes, own) in enumerate(zip(panels, names, strict=True)):
        repeated = i + 1 < len(names) and own == names[i + 1]
        labels = [""] * len(own) if repeated else [plain(name) for name in own]
        axes.set_xticks(range(1, len(own) + 1), labels, rotation=40, ha="right", fontsize=7)


def _draw_time(line: Sequence[Axes], row: Row, run: Record) -> None:
    depth = len(last_spectra(run))
    epochs = [epoch for epoch in run.epochs if epoch.spectra and len(epoch.spectra) == depth]
    x = [epoch.epoch for epoch in epochs]
    colours = mpl.colormaps["cividis"](np.linspace(0, 1, max(depth, 2)))
    for axes, part in zip(line, ("min", "median", "max"), strict=True):
        values = np.array([_values(epoch.spectra or (), part) for epoch in epochs])
        for layer_values, colour in zip(values.T, colours, strict=False):
            axes.plot(x, layer_values, color=colour, linewidth=1, marker="." if len(x) == 1 else None)
        axes.set_title(f"{plain(row.label)}: {_WORDS[part]}", fontsize=8)
        axes.xaxis.set_major_locator(whole_numbers())
    line[0].set_ylabel("singular value")


_WORDS = {"min": "smallest", "median": "median", "max": "largest"}


def _values(layers: Sequence[SpectrumRow], part: str) -> list[float]:
    return [getattr(layer, f"normalised_{part}") for layer in layers]
