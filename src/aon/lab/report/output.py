"""Load comparison directories once and write their tables, figures and page."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aon.lab.errors import LabError
from aon.lab.experiment.records import COMPARISON, Comparison, Record, load_comparison, load_readable
from aon.lab.report import export, markup, style
from aon.lab.report.figures import FIGURES
from aon.lab.report.page import html
from aon.lab.report.summary import Results, run_key, summarise_runs
from aon.lab.system.files import remove_orphans, write_text

PAGE = "report.html"
TABLES: dict[str, Callable[[Results], str]] = {
    "table.txt": markup.text,
    "table.md": markup.markdown,
    "table.tex": markup.latex,
    "table.csv": export.table_csv,
    "table.json": export.table_json,
    "differences.md": markup.markdown_matrix,
    "differences.tex": markup.latex_matrix,
    "differences.csv": export.matrix_csv,
    "differences.json": export.matrix_json,
    "curves.csv": export.curves_csv,
}


@dataclass(frozen=True)
class ReportPaths:
    """Where a report lies: the page for people, the tables and the figures."""

    page: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def load_results(folders: Sequence[Path], base: str | None = None) -> tuple[Results, list[Comparison]]:
    """Read and summarise the runs of some directories.

    A record that cannot be read is left out and named in the results. A run that several directories hold counts once.

    Args:
        folders: Comparison directories, or folders of single runs.
        base: The method to compare with; that of the comparison if not given.

    Returns:
        The results, and the descriptions of the comparisons.

    Raises:
        LabError: a directory holds no record that can be read, two hold different records of one run, or there is no
            run of the method `base`.
    """
    found = [load_comparison(folder) for folder in folders if (folder / COMPARISON).is_file()]
    plans = [plan for place, plan in enumerate(found) if plan not in found[:place]]
    loaded = {folder: load_readable(folder) for folder in folders}
    order = [method for plan in plans for method in plan.methods]
    named = next((plan.baseline for plan in plans if plan.baseline), None)
    runs = _distinct({folder: readable for folder, (readable, _) in loaded.items()})
    chosen = named if any(run.config.method == named for run in runs) else None
    damaged = [message for _, messages in loaded.values() for message in messages]
    return summarise_runs(runs, list(dict.fromkeys(order)), base or chosen, damaged), plans


def _distinct(loaded: Mapping[Path, Sequence[Record]]) -> list[Record]:
    """Every run once, the first of equal records; different records of one run are refused."""
    known: dict[str, tuple[Path, Record]] = {}
    for folder, runs in loaded.items():
        for run in runs:
            first, same = known.setdefault(run_key(run.config), (folder, run))
            if same is not run and _result(same) != _result(run):
                copies = " and ".join(f"{at} ({one.config.run_id()})" for at, one in ((first, same), (folder, run)))
                raise LabError(f"{copies} hold different records of one run; leave one of them out")
    return [run for _, run in known.values()]


def _result(run: Record) -> str:
    """What equal records of a run share: all but times, spectra, the machine and settings that change no result."""
    epochs = tuple(row.model_copy(update={"spectra": None}) for row in run.epochs)
    plain = run.but(epochs=epochs).without_times()
    # As text, since a loss that is NaN does not equal itself.
    return json.dumps({name: value for name, value in plain.items() if name not in ("format", "config", "environment")})


def write(
    results: Results,
    plans: Sequence[Comparison],
    out: Path,
    *,
    formats: Sequence[str] = style.FORMATS,
    notes: Sequence[str] = (),
) -> ReportPaths:
    """Write OUT/report.html, and tables and figures under OUT/report, of whatever runs there are.

    Args:
        results: What to show.
        plans: Descriptions of the comparisons, for the page.
        out: The folder; made if absent.
        formats: Of the figures: png, svg, pdf.
        notes: Sentences for the page, beside those about the result.

    Raises:
        LabError: a file cannot be written.
    """
    folder = out / "report"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"cannot make {folder}: {error.strerror}") from error
    for place in (out, folder):
        remove_orphans(place)
    return ReportPaths(
        tables=tuple(_write_tables(folder, results)),
        figures=tuple(_write_figures(folder, results, formats)),
        page=_write_page(out, results, plans, notes),
    )


def _write_tables(folder: Path, results: Results) -> Iterable[Path]:
    for name, render in TABLES.items():
        write_text(folder / name, render(results))
        yield folder / name


def _write_figures(folder: Path, results: Results, formats: Sequence[str]) -> Iterable[Path]:
    for name, draw in FIGURES.items():
        figure = draw(results)
        if figure is not None:
            yield from style.save(figure, folder, name, formats)
        else:
            _remove(folder, name)


def _remove(folder: Path, name: str) -> None:
    """Remove a figure of an earlier report that this one has no data for."""
    for suffix in style.FORMATS:
        (folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _write_page(out: Path, results: Results, plans: Sequence[Comparison], notes: Sequence[str]) -> Path:
    write_text(out / PAGE, html(results, plans, notes))
    return out / PAGE
