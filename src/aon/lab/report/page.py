"""The report as one HTML page that needs nothing else.

The page carries its style, its script and its data, and a content security policy that names the first two
by their hash: a browser runs nothing else in it and fetches nothing, whatever a record's strings contain.
"""

import base64
import hashlib
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aon.lab.experiment.records import Comparison, Record
from aon.lab.report import cells, export, markup, paper, study, tables, verdict
from aon.lab.report.curves import validation_name
from aon.lab.report.outcomes import OUTCOMES, title
from aon.lab.report.page_data import looks, page_data
from aon.lab.report.summary import Results, seconds_per_epoch

TEMPLATES = Path(__file__).parent / "templates"
TEXTS = {"Markdown": markup.markdown, "LaTeX": markup.latex, "CSV": export.table_csv}


def html(results: Results, plans: Sequence[Comparison] = (), notes: Sequence[str] = ()) -> str:
    """The page as text.

    Args:
        results: What to show.
        plans: Descriptions of the comparisons that the runs belong to, if any.
        notes: Sentences to add to those about the result.
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
        **_heading(results, plans, notes),
        **_numbers(results),
        **_description(results.runs, plans),
    )


def _heading(results: Results, plans: Sequence[Comparison], notes: Sequence[str]) -> dict[str, Any]:
    # A line break between a number and its per cent sign reads badly.
    sentences = [*verdict.verdict(results), *study.findings(plans), *notes]
    headline, *remarks = (sentence.replace(" %", "\u00a0%") for sentence in sentences)
    return {
        "title": " and ".join(dict.fromkeys(plan.name for plan in plans)) or results.runs[0].config.run_id(),
        "preset": plans[0].preset if len(plans) == 1 else None,
        "subject": tables.subject(results),
        "status": verdict.status(results),
        "pending": _pending(results.runs, plans),
        "headline": headline,
        "remarks": remarks,
        "damaged": results.damaged,
        "failed": [run for run in results.runs if run.status == "failed" or run.error],
    }


def _numbers(results: Results) -> dict[str, Any]:
    found = looks(results)
    return {
        "base": results.base,
        "rows": results.rows,
        "looks": found,
        "accuracies": tables.accuracy_grid(results),
        "choices": tables.choice_grid(results),
        "differences": tables.difference_grids(results),
        "matrices": tables.matrix_grids(results),
        "note": tables.note(results),
        "matrix_note": tables.matrix_note(results),
        "outcomes": [(outcome, title(outcome, results.validated)) for outcome in OUTCOMES],
        "validation_name": validation_name(results),
        "cells": cells,
        "seconds_per_epoch": seconds_per_epoch,
        "data": _script_json(page_data(results)),
        "texts": {name: render(results) for name, render in TEXTS.items()},
    }


def _description(runs: Sequence[Record], plans: Sequence[Comparison]) -> dict[str, Any]:
    return {
        "commands": [shlex.join(plan.command) for plan in plans if plan.command],
        "departures": list(dict.fromkeys(phrase for run in runs for phrase in paper.departures(run.config))),
        "published": _published(runs),
        "settings": _distinct([_settings(run) for run in runs]),
        "environment": _distinct([_environment(run) for run in runs]),
    }


def _pending(runs: Sequence[Record], plans: Sequence[Comparison]) -> int:
    """Runs that the comparisons list and that have not begun."""
    listed = {run.run_id() for plan in plans for run in plan.runs()}
    return len(listed - {run.config.run_id() for run in runs})


def _published(runs: Sequence[Record]) -> list[tuple[str, str, paper.Published]]:
    """The paper's numbers for its nearest data set, for methods of ours that it also tried."""
    ours = dict.fromkeys((paper.family(run.config.dataset), run.label) for run in runs)
    theirs = ((name, label, cell) for name, table in paper.TABLES.items() for label, cell in table.items())
    return [(name, label, cell) for name, label, cell in theirs if (name, label) in ours]


def _settings(record: Record) -> dict[str, Any]:
    data = record.config.model_dump(mode="json", exclude={"method", "seed"})
    return data | {name: data[name] or "all" for name in ("train_size", "test_size")}


def _environment(record: Record) -> dict[str, Any]:
    parameters = f"{record.parameters:,}"
    return record.environment.model_dump(exclude={"started"}) | {"parameters": parameters}


def _distinct(found: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each name with the values that the runs have for it, nearly always one."""
    names = dict.fromkeys(name for one in found for name in one)
    return [(name.replace("_", " "), _values([one.get(name) for one in found])) for name in names]


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
