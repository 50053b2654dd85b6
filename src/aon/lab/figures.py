"""Records -> the paper's figures, and what it does not show: spread over seeds, singular values of h(W).

Training is solid and validation dashed, as in the paper.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aon.lab.drawing import GREY, Style, new_figure, plain, styled, styles, whole_numbers
from aon.lab.records import EpochRow, Record, SpectrumRow
from aon.lab.statistics import mean_and_band
from aon.lab.summary import Row, rows

Dashes = Literal["-", "--"]
Draw = Callable[[Axes, Row, Style, str, Dashes], None]
KINDS: tuple[tuple[str, Dashes], ...] = (("training", "-"), ("validation", "--"))
PANELS = (("loss", "train_loss", "val_loss"), ("accuracy (%)", "train_accuracy", "val_accuracy"))


def best_curves(records: Iterable[Record], order: Sequence[str] = ()) -> Figure | None:
    """Loss and accuracy over epochs, the best run of each method; None without an epoch to draw."""
    return _curves(rows(records, order), _draw_best, "best run of each method")


def mean_curves(records: Iterable[Record], order: Sequence[str] = ()) -> Figure | None:
    """Loss and accuracy over epochs, mean of the runs with a band of one standard deviation."""
    return _curves(rows(records, order), _draw_mean, "mean of the runs, band: ± one standard deviation")


def spectra_by_layer(records: Iterable[Record], order: Sequence[str] = ()) -> Figure | None:
    """Smallest, median and largest singular value of each layer's h(W), best run at its end."""
    drawn = with_spectra(rows(records, order))
    if not drawn:
        return None
    with styled():
        figure = new_figure(7.4, 1.1 + 1.35 * len(drawn))
        panels: list[Axes] = list(figure.subplots(len(drawn), 1, squeeze=False)[:, 0])
        for axes, (row, style, run) in zip(panels, drawn, strict=True):
            _draw_layers(axes, row, style, _last_spectra(run)[1])
        _name_layers(panels, [[layer.name for layer in _last_spectra(run)[1]] for _, _, run in drawn])
        figure.supylabel("singular values of h(W); of W without a weight map", fontsize=9)
        return figure


def spectra_over_time(records: Iterable[Record], order: Sequence[str] = ()) -> Figure | None:
    """The same three singular values over epochs, a line for each layer, first ones dark, last ones light."""
    drawn = with_spectra(rows(records, order))
    if not drawn:
        return None
    with styled():
        figure = new_figure(7.4, 0.75 + 1.9 * len(drawn))
        grid = figure.subplots(len(drawn), 3, sharex=True, sharey="row", squeeze=False)
        for line, (row, _, run) in zip(grid, drawn, strict=True):
            _draw_time(line, row, run)
        depth = max(len(_last_spectra(run)[1]) for _, _, run in drawn)
        colours = ScalarMappable(Normalize(1, max(depth, 2)), "cividis")
        bar = figure.colorbar(colours, ax=grid, pad=0.01, aspect=30, ticks=whole_numbers())
        bar.set_label("layer, first to last")
        for axes in grid[-1]:
            axes.set_xlabel("epoch")
        return figure


FIGURES: dict[str, Callable[[Iterable[Record], Sequence[str]], Figure | None]] = {
    "curves-best": best_curves,
    "curves-mean": mean_curves,
    "spectra-by-layer": spectra_by_layer,
    "spectra-over-time": spectra_over_time,
}


def with_spectra(table: Sequence[Row]) -> list[tuple[Row, Style, Record]]:
    """The methods whose best run has singular values to show, with that run."""
    found = []
    for row, style in zip(table, styles(table), strict=True):
        candidates = [row.best_run, *row.runs]
        run = next((run for run in candidates if run and any(epoch.spectra for epoch in run.epochs)), None)
        if run is not None:
            found.append((row, style, run))
    return found


def _last_spectra(run: Record) -> tuple[int, tuple[SpectrumRow, ...]]:
    return next((epoch.epoch, epoch.spectra) for epoch in reversed(run.epochs) if epoch.spectra)


def _curves(table: list[Row], draw: Draw, what: str) -> Figure | None:
    if not any(run.epochs for row in table for run in row.runs):
        return None
    with styled():
        figure = new_figure(7.4, 3.4)
        for axes, (title, train, val) in zip(figure.subplots(1, 2), PANELS, strict=True):
            for row, style in zip(table, styles(table), strict=True):
                draw(axes, row, style, train, "-")
                draw(axes, row, style, val, "--")
            axes.set(title=title, xlabel="epoch")
            axes.xaxis.set_major_locator(whole_numbers())
            _limit(axes)
        _legend(figure, table)
        figure.suptitle(what, fontsize=9, color=GREY, x=0.01, ha="left")
        return figure


def _draw_best(axes: Axes, row: Row, style: Style, field: str, dashes: Dashes) -> None:
    if row.best_run is not None:
        epochs = row.best_run.epochs
        values = [_finite(epoch, field) for epoch in epochs]
        _line(axes, [epoch.epoch for epoch in epochs], values, style, dashes)


def _draw_mean(axes: Axes, row: Row, style: Style, field: str, dashes: Dashes) -> None:
    runs = row.finished or row.runs
    points = mean_and_band([[getattr(epoch, field) for epoch in run.epochs] for run in runs])
    x = np.arange(1, len(points) + 1)
    mean = np.array([np.nan if point.mean is None else point.mean for point in points])
    half = np.array([point.spread or 0.0 for point in points])
    axes.fill_between(x, mean - half, mean + half, color=style.colour, alpha=0.18, linewidth=0)
    _line(axes, x, mean, style, dashes)


def _line(axes: Axes, x: Any, y: Any, style: Style, dashes: Dashes) -> None:
    every = max(1, len(x) // 8)
    # A single epoch makes no line; a dot shows that it is there.
    marker = style.marker or ("." if len(x) == 1 else None)
    axes.plot(x, y, dashes, color=style.colour, marker=marker, markevery=every, markersize=4)


def _limit(axes: Axes) -> None:
    """Keep one exploding epoch from flattening every curve."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
    drawn = drawn[np.isfinite(drawn)]
    if drawn.size and drawn.max() > 3 * (usual := float(np.quantile(drawn, 0.97))) > 0:
        axes.set_ylim(top=1.5 * usual)


def _legend(figure: Figure, table: Sequence[Row]) -> None:
    handles = [
        Line2D([], [], color=style.colour, marker=style.marker, markersize=4, label=plain(row.label))
        for row, style in zip(table, styles(table), strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
    kinds = [Line2D([], [], color=GREY, linestyle=dashes, label=name) for name, dashes in KINDS]
    figure.axes[0].legend(handles=kinds, loc="upper right")


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
    depth = len(_last_spectra(run)[1])
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


def _finite(epoch: EpochRow, field: str) -> float:
    value = float(getattr(epoch, field))
    return value if np.isfinite(value) else float("nan")
