"""Results as plain data for other programs: CSV and JSON, every number in full, missing ones empty or null."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from aon.lab.experiment.records import EpochRow
from aon.lab.report.outcomes import OUTCOMES
from aon.lab.report.statistics import Difference
from aon.lab.report.summary import Results, Row

_TEST = ("value", "low", "high", "n", "p", "corrected", "comparisons", "flip_p", "ahead", "probability", "kind")
_EPOCH = tuple(name for name in EpochRow.model_fields if name != "spectra")


def table_csv(results: Results) -> str:
    """One line for each method and setting."""
    return _csv(_flat(row) for row in results.rows)


def table_json(results: Results) -> str:
    """The same as a list of objects, with the best settings and the records that were skipped."""
    choices = [
        {"method": one.row.method, "setting": one.row.setting, "trials": one.trials, **_test(one.gain)}
        for one in results.choices
    ]
    data = {
        "base": results.base,
        "validation_images": results.validated,
        "rows": [_flat(row) for row in results.rows],
        "best_settings": choices,
        "skipped": list(results.damaged),
    }
    return _json(data)


def matrix_csv(results: Results) -> str:
    """One line for every ordered pair of methods: the first minus the second."""
    return _csv(_pairs(results))


def matrix_json(results: Results) -> str:
    """The same as a list of objects."""
    return _json(list(_pairs(results)))


def curves_csv(results: Results) -> str:
    """One line for each epoch of every run."""
    return _csv(_epochs(results))


def _flat(row: Row) -> dict[str, Any]:
    values: dict[str, Any] = {
        "method": row.method,
        "setting": row.setting,
        "runs": len(row.runs),
        "finished": len(row.finished),
        "seeds": " ".join(str(run.config.seed) for run in row.finished),
    }
    for outcome in OUTCOMES:
        summary = row.accuracy[outcome.key]
        values |= {f"{outcome.key}_mean": summary.mean, f"{outcome.key}_spread": summary.spread}
        values |= {f"{outcome.key}_difference_{name}": value for name, value in _test(row.gain[outcome.key]).items()}
    return values | {
        "validation_mean": row.validation.mean,
        "validation_spread": row.validation.spread,
        "seconds_per_epoch": row.seconds.mean,
        "seconds_spread": row.seconds.spread,
        "ratio": row.ratio,
        "paper_accuracy": getattr(row.published, "accuracy", None),
        "paper_spread": getattr(row.published, "spread", None),
        "paper_ratio": row.published_ratio,
    }


def _test(found: Difference | None) -> dict[str, Any]:
    return {name: getattr(found, name, None) for name in _TEST}


def _pairs(results: Results) -> Iterable[dict[str, Any]]:
    rows = {row.label: row for row in results.rows}
    for (ours, other), found in results.matrix.items():
        names = {"method": rows[ours].method, "against": rows[other].method, "setting": rows[ours].setting}
        yield names | _test(found)


def _epochs(results: Results) -> Iterable[dict[str, Any]]:
    for row in results.rows:
        for run in row.runs:
            name = {"method": row.method, "setting": row.setting, "seed": run.config.seed, "status": run.status}
            for epoch in run.epochs:
                yield name | {field: getattr(epoch, field) for field in _EPOCH}


def _json(data: Any) -> str:
    return json.dumps(_finite(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _csv(lines: Iterable[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for i, line in enumerate(lines):
        if i == 0:
            writer.writerow(line)
        writer.writerow([_field(value) for value in line.values()])
    return out.getvalue()


def _field(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, str):
        return repr(value)
    # A spreadsheet would run a text that starts like a formula.
    return f"'{value}" if value[:1] in {"=", "+", "@", "\t", "\r"} else value
