"""Data of the page's interactive figures: lists and numbers that JSON can hold. report.js draws them."""

import math
from collections.abc import Sequence
from typing import Any

from aon.lab.experiment.records import EpochRow, Record
from aon.lab.report.curves import PANELS
from aon.lab.report.outcomes import OUTCOMES, PRIMARY, title
from aon.lab.report.spectra_figures import last_spectra, orthonormality, with_spectra
from aon.lab.report.statistics import mean_and_band
from aon.lab.report.style import COLOURS, MARKERS, Style, styles
from aon.lab.report.summary import Results, Row

Data = dict[str, Any]
DIGITS = 5


def page_data(results: Results) -> Data:
    """Everything the page draws."""
    rows = results.rows
    places = {row.label: place for place, row in enumerate(rows)}
    return {
        "methods": [{"label": method, "look": look} for method, look in looks(results).items()],
        "settings": results.settings,
        "rows": [_row(row, results) for row in rows],
        "outcomes": [title(outcome, results.validated) for outcome in OUTCOMES],
        "curves": [_panel(rows, title, train, val) for title, train, val in PANELS],
        "runs": [_runs(row) for row in rows],
        "spectra": [_spectra(places[row.label], run) for row, run in with_spectra(results)],
        "orthonormality": [
            {"row": place, "x": _number(x), "y": _number(y)}
            for place, row in enumerate(rows)
            for x, y in orthonormality(row)
        ],
    }


def looks(results: Results) -> dict[str, str]:
    """Classes of each method's colour and shape in the style sheet, such as `c-3 m-1`; the base is `c-base m-0`."""
    found = styles(results)
    return {method: f"{_colour(found[method])} m-{MARKERS.index(found[method].marker)}" for method in results.methods}


def _colour(style: Style) -> str:
    return f"c-{COLOURS.index(style.colour)}" if style.colour in COLOURS else "c-base"


def _row(row: Row, results: Results) -> Data:
    places = results.methods.index(row.method), results.settings.index(row.setting)
    return {"label": row.label, "method": places[0], "setting": places[1]}


def _panel(rows: Sequence[Row], name: str, train: str, val: str) -> Data:
    series = []
    for i, row in enumerate(rows):
        for kind, field in (("training", train), ("validation", val)):
            series.append({"row": i, "kind": kind, "best": _best(row, field), "mean": _mean(row, field)})
    return {"title": name, "series": series}


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
    """Mean and spread of the primary outcome, and all outcomes of every finished run."""
    points = [
        {"seed": run.config.seed, "values": [_number(outcome.of(run)) for outcome in OUTCOMES]}
        for run in row.finished
        if PRIMARY.of(run) is not None
    ]
    return {"mean": _number(row.last.mean), "spread": _number(row.last.spread), "points": points}


def _spectra(place: int, run: Record) -> Data:
    seen = [epoch for epoch in run.epochs if epoch.spectra]
    # A layer's list has a gap where an epoch did not list it; names, not places, tell layers apart.
    tables = [{layer.name: layer for layer in epoch.spectra or ()} for epoch in seen]
    return {
        "row": place,
        "seed": run.config.seed,
        "epochs": [epoch.epoch for epoch in seen],
        "layers": [
            {"name": layer.name, "shape": " by ".join(map(str, layer.shape))}
            | {part: [_part(at.get(layer.name), part) for at in tables] for part in ("min", "median", "max")}
            for layer in last_spectra(run)
        ],
    }


def _part(layer: Any, part: str) -> float | None:
    return None if layer is None else _number(getattr(layer, f"normalised_{part}"))


def _number(value: float | None) -> float | None:
    """Five digits are more than a screen can show; what is not finite is a gap."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")
