"""Records -> the data of the page's interactive figures: lists and numbers that JSON can hold.

The page draws them with report.js; this file decides what is shown, that one how.
"""

import math
from collections.abc import Sequence
from typing import Any

from aon.lab.drawing import COLOURS, styles
from aon.lab.figures import PANELS, with_spectra
from aon.lab.records import EpochRow, Record
from aon.lab.statistics import mean_and_band
from aon.lab.summary import Row

Data = dict[str, Any]
DIGITS = 5


def page_data(table: Sequence[Row]) -> Data:
    """Everything the page draws."""
    return {
        "methods": [{"label": row.label, "colour": name} for row, name in _with_colours(table)],
        "curves": [_panel(table, title, train, val) for title, train, val in PANELS],
        "runs": [_runs(row) for row in table],
        "spectra": [_spectra(row, run, list(table)) for row, _, run in with_spectra(table)],
    }


def colours(table: Sequence[Row]) -> list[str]:
    """Name of each method's colour in the style sheet: `base`, or the place in the palette."""
    return [
        "base" if row.is_baseline else f"{COLOURS.index(style.colour)}"
        for row, style in zip(table, styles(table), strict=True)
    ]


def _with_colours(table: Sequence[Row]) -> list[tuple[Row, str]]:
    return list(zip(table, colours(table), strict=True))


def _panel(table: Sequence[Row], title: str, train: str, val: str) -> Data:
    series = []
    for i, row in enumerate(table):
        for name, field in (("training", train), ("validation", val)):
            series.append({"method": i, "kind": name, "best": _best(row, field), "mean": _mean(row, field)})
    return {"title": title, "series": series}


def _best(row: Row, field: str) -> Data:
    epochs: tuple[EpochRow, ...] = row.best_run.epochs if row.best_run else ()
    return {
        "seed": row.best_run.config.seed if row.best_run else None,
        "x": [epoch.epoch for epoch in epochs],
        "y": [_number(getattr(epoch, field)) for epoch in epochs],
    }


def _mean(row: Row, field: str) -> Data:
    runs = row.finished or row.runs
    points = mean_and_band([[getattr(epoch, field) for epoch in run.epochs] for run in runs])
    return {
        "n": len(runs),
        "x": list(range(1, len(points) + 1)),
        "y": [_number(point.mean) for point in points],
        "spread": [_number(point.spread) for point in points],
    }


def _runs(row: Row) -> Data:
    points = [
        {"seed": run.config.seed, "best": _number(run.best.val_accuracy), "epoch": run.best.epoch}
        for run in row.finished
        if run.best is not None
    ]
    return {"mean": _number(row.best.mean), "spread": _number(row.best.spread), "points": points}


def _spectra(row: Row, run: Record, table: list[Row]) -> Data:
    seen = [epoch for epoch in run.epochs if epoch.spectra]
    last = seen[-1].spectra or ()
    # A layer's list has a gap where an epoch did not list it; names, not places, tell layers apart.
    tables = [{layer.name: layer for layer in epoch.spectra or ()} for epoch in seen]
    return {
        "method": table.index(row),
        "seed": run.config.seed,
        "epochs": [epoch.epoch for epoch in seen],
        "layers": [
            {"name": layer.name, "shape": " by ".join(map(str, layer.shape))}
            | {part: [_part(at.get(layer.name), part) for at in tables] for part in ("min", "median", "max")}
            for layer in last
        ],
    }


def _part(layer: Any, part: str) -> float | None:
    return None if layer is None else _number(getattr(layer, f"normalised_{part}"))


def _number(value: float | None) -> float | None:
    """Five digits are more than a screen can show; what is not finite is a gap."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")
