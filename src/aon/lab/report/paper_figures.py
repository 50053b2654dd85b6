"""The paper's two figures: best run of each method, training solid, validation dashed."""

import re
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aon.lab.report.curves import Dashes, draw_best, limit, method_legend, validation_name
from aon.lab.report.style import new_figure, short_settings, styled, styles, whole_numbers, wrapped
from aon.lab.report.summary import Results, Row

Panel = tuple[str, str, Dashes]
ORDERS = re.compile(r"bn\+aon(:order=\d+)?")
"""The methods of Figure 1: the paper's map at its orders, nothing else changed."""

COMPARED = ("bn", "bn+orth", "bn+aon")
"""The methods of Figure 2."""

MOST_SETTINGS = 4
BESIDE = 1.9  # inches that a setting's name may take beside its panels


def figure_1(results: Results) -> Figure | None:
    """Effect of the order q: training accuracy in panel (a), validation accuracy in panel (b)."""
    panels: tuple[Panel, ...] = (
        ("training accuracy (%)", "train_accuracy", "-"),
        (f"{validation_name(results)} accuracy (%)", "val_accuracy", "--"),
    )
    chosen = [sorted(filter(_is_order, results.under(setting)), key=_order) for setting in results.settings]
    return _drawn(results, [rows for rows in chosen if len(rows) > 1], panels, width=7.4)


def figure_2(results: Results) -> Figure | None:
    """Convergence, validation loss and validation accuracy; a line of panels for each data set (or other setting).

    The paper speaks of convergence in its panels (a) and (d), so there are three panels a line; that these show the
    loss, not the accuracy, is our reading. Drawn are those of the paper's three methods that every setting has, so that
    two comparisons make one figure; None if these are fewer than two.
    """
    name = validation_name(results)
    panels: tuple[Panel, ...] = (
        ("training loss", "train_loss", "-"),
        (f"{name} loss", "val_loss", "--"),
        (f"{name} accuracy (%)", "val_accuracy", "--"),
    )
    groups = [
        [row for row in results.under(setting) if row.best_run and row.runs[0].config.method in COMPARED]
        for setting in results.settings
    ]
    common = set.intersection(*({row.method for row in rows} for rows in groups)) if groups else set()
    chosen = [[row for row in rows if row.method in common] for rows in groups]
    return _drawn(results, chosen, panels, width=9.0) if len(common) > 1 else None


def _is_order(row: Row) -> bool:
    return row.best_run is not None and bool(ORDERS.fullmatch(row.runs[0].config.method))


def _order(row: Row) -> int:
    """The order q of a method of Figure 1; 2 where it is not said."""
    return int(row.runs[0].config.method.partition("=")[2] or 2)


def _drawn(results: Results, lines: Sequence[Sequence[Row]], panels: Sequence[Panel], width: float) -> Figure | None:
    if not 0 < len(lines) <= MOST_SETTINGS:
        return None
    names = short_settings(results.rows)
    with styled():
        figure = new_figure(width, 0.6 + 2.5 * len(lines))
        grid = figure.subplots(len(lines), len(panels), squeeze=False)
        for i, (line, rows) in enumerate(zip(grid, lines, strict=True)):
            line[0].set_ylabel(_beside(names[rows[0].setting]))
            for j, (axes, panel) in enumerate(zip(line, panels, strict=True)):
                _draw_panel(axes, results, rows, panel, chr(ord("a") + i * len(panels) + j))
        method_legend(figure, results, list(dict.fromkeys(row.method for rows in lines for row in rows)))
        return figure


def _beside(setting: str) -> str:
    """Name of a setting beside its panels; that of a data set alone is its own name."""
    name = setting if " · " in setting else setting.removeprefix("dataset ")
    return wrapped(name, BESIDE, 9, "normal")


def _draw_panel(axes: Axes, results: Results, rows: Sequence[Row], panel: Panel, letter: str) -> None:
    name, field, dashes = panel
    for row in rows:
        draw_best(axes, row, styles(results)[row.method], field, dashes)
    axes.set_title(f"({letter}) {name}", fontsize=8)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(whole_numbers())
    limit(axes)
