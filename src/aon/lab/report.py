"""A comparison directory -> tables, figures and one page that needs nothing else.

The page carries its style, its script and its data, and a content security policy that names the first two
by their hash: a browser runs nothing else in it and fetches nothing, whatever a record's strings contain.
"""

import base64
import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aon.lab import cells, drawing, figures, paper, tables, verdict
from aon.lab.charts import colours, page_data
from aon.lab.errors import LabError
from aon.lab.files import write_text
from aon.lab.records import COMPARISON, Comparison, Record, load_all, load_comparison
from aon.lab.summary import Row, rows, seconds_per_epoch

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "report.html"
TABLES = {"txt": tables.text, "md": tables.markdown, "tex": tables.latex, "csv": tables.csv}


@dataclass(frozen=True)
class ReportPaths:
    """Where a report lies: the page for people, the tables and the figures."""

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def write(out: Path, *, formats: Sequence[str] = drawing.FORMATS) -> ReportPaths:
    """Write OUT/report.html, and tables and figures under OUT/report, of whatever runs there are.

    Args:
        out: a comparison directory, or the folder of one run; unfinished and failed runs are welcome.
        formats: of the figures: png, svg, pdf.

    Raises:
        LabError: there is no record in `out`, one is damaged, or a file cannot be written.
    """
    records = load_all(out)
    plan = load_comparison(out) if (out / COMPARISON).is_file() else None
    order = plan.methods if plan else ()
    folder = out / "report"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make {folder}: {error.strerror}") from error
    return ReportPaths(
        tables=tuple(_write_tables(folder, records, order)),
        figures=tuple(_write_figures(folder, records, order, formats)),
        page=_write_page(out, records, plan),
    )


def html(records: Sequence[Record], plan: Comparison | None = None) -> str:
    """The page as text.

    Args:
        records: runs in any state.
        plan: what the comparison is for, if it is one.
    """
    loader = FileSystemLoader(TEMPLATES)
    jinja = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    jinja.trim_blocks = jinja.lstrip_blocks = True
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    return jinja.get_template("report.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        **_context(records, plan),
    )


def _write_tables(folder: Path, records: list[Record], order: Sequence[str]) -> Iterable[Path]:
    for suffix, render in TABLES.items():
        write_text(folder / f"table.{suffix}", render(records, order))
        yield folder / f"table.{suffix}"


def _write_figures(folder: Path, records: list[Record], order: Sequence[str], formats: Sequence[str]) -> Iterable[Path]:
    for name, draw in figures.FIGURES.items():
        figure = draw(records, order)
        if figure is not None:
            yield from drawing.save(figure, folder, name, formats)


def _write_page(out: Path, records: list[Record], plan: Comparison | None) -> Path:
    write_text(out / PAGE, html(records, plan))
    return out / PAGE


def _context(records: Sequence[Record], plan: Comparison | None) -> dict[str, Any]:
    order = plan.methods if plan else ()
    table = rows(records, order)
    # A line break between a number and its per cent sign reads badly.
    headline, *remarks = (sentence.replace(" %", "\u00a0%") for sentence in verdict.verdict(table))
    config = records[0].config
    return {
        "title": plan.name if plan else config.run_id(),
        "preset": plan.preset if plan else None,
        "subject": tables.subject(table),
        "status": verdict.status(table),
        "pending": _pending(records, plan),
        "headline": headline,
        "remarks": remarks,
        "table": table,
        "colours": colours(table),
        "cells": cells,
        "lines": cells.lines(table),
        "note": tables.NOTE,
        "published": _published(table),
        "departures": paper.departures(config),
        "runs": _runs(table),
        "seconds_per_epoch": seconds_per_epoch,
        "failed": [run for row in table for run in row.runs if run.status == "failed" or run.error],
        "settings": _distinct([_settings(run) for run in records]),
        "environment": _distinct([_environment(run) for run in records]),
        "command": shlex.join(plan.command) if plan and plan.command else None,
        "data": _script_json(page_data(table)),
        "texts": {name: TABLES[suffix](records, order) for name, suffix in _TEXTS},
    }


_TEXTS = (("Markdown", "md"), ("LaTeX", "tex"), ("CSV", "csv"))


def _pending(records: Sequence[Record], plan: Comparison | None) -> int:
    """Runs that the comparison lists and that have not begun."""
    begun = {run.config.run_id() for run in records}
    return sum(run.run_id() not in begun for run in plan.runs()) if plan else 0


def _published(table: Sequence[Row]) -> list[tuple[str, paper.Published]]:
    """The paper's numbers for its nearest dataset, for methods of ours that it also tried."""
    name = paper.family(table[0].runs[0].config.dataset)
    theirs = paper.TABLES.get(name or "", {})
    ours = {run.label for row in table for run in row.runs}
    return [(label, cell) for label, cell in theirs.items() if label in ours]


def _runs(table: Sequence[Row]) -> list[tuple[Row, str, Record]]:
    pairs = zip(table, colours(table), strict=True)
    return [(row, colour, run) for row, colour in pairs for run in row.runs]


def _settings(record: Record) -> dict[str, Any]:
    data = record.config.model_dump(mode="json", exclude={"method", "seed"})
    return data | {name: data[name] or "all" for name in ("train_size", "test_size")}


def _environment(record: Record) -> dict[str, Any]:
    parameters = f"{record.parameters:,}"
    return record.environment.model_dump(exclude={"started"}) | {"parameters": parameters}


def _distinct(tables: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each name with the values that the runs have for it, nearly always one."""
    names = dict.fromkeys(name for table in tables for name in table)
    return [(name.replace("_", " "), _values([table.get(name) for table in tables])) for name in names]


def _values(values: Sequence[Any]) -> str:
    return "; ".join(dict.fromkeys(_plain(value) for value in values))


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return cells.NOTHING if value is None or value == "" else str(value)


def _script_json(data: dict[str, Any]) -> Markup:
    """JSON that cannot end the script element it stands in, nor open a comment in it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
