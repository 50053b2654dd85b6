"""Records -> the paper's table, for a terminal, Markdown, LaTeX and CSV.

As in the paper, methods stand side by side, at most three; more follow in a block below. The highest mean
accuracy is bold. A cell with no data prints `-`.
"""

import csv as csv_module
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aon.lab.cells import NOTHING, lines
from aon.lab.records import Record
from aon.lab.summary import Row, rows

SIDE_BY_SIDE = 3
NOTE = (
    "Validation accuracy: mean ± standard deviation over the runs, of the best and of the last epoch. "
    "Training time: mean of the first 30 epochs. p-values: two-sided t-test, paired by seed where the seeds "
    "are the same, not corrected for several comparisons."
)


def terminal(records: Iterable[Record], order: Sequence[str] = ()) -> Table:
    """The table for a terminal of 80 columns; also of a comparison that still runs.

    Args:
        records: runs in any state; finished ones make the numbers.
        order: methods in the order wanted, as in the configuration.
    """
    found = rows(records, order)
    # Text, not str: a label or a path with brackets must not be read as markup.
    table = Table(title=Text(subject(found)), caption=Text(NOTE), show_header=False)
    table.title_justify = table.caption_justify = "left"
    blocks = _blocks(found)
    for i in range(max((len(block[0]) for block in blocks), default=0)):
        table.add_column(justify="left" if i == 0 else "right")
    for block in blocks:
        for line in block:
            is_head = line is block[0]
            cells = (Text(cell.text, style="bold" if cell.bold or is_head else "") for cell in line)
            table.add_row(*cells, end_section=is_head)
        table.add_section()
    return table


def text(records: Iterable[Record], order: Sequence[str] = ()) -> str:
    """The terminal's table as plain text."""
    console = Console(file=io.StringIO(), width=80, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(terminal(records, order))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def markdown(records: Iterable[Record], order: Sequence[str] = ()) -> str:
    """The table in GitHub's Markdown; blocks follow each other as tables of their own."""
    found = rows(records, order)
    out = [_md(f"{subject(found)}."), ""]
    for head, *body in _blocks(found):
        out += [_md_line(_md(cell.text) for cell in head), _md_line([":--", *["--:"] * (len(head) - 1)])]
        out += [_md_line(_md_cell(cell) for cell in line) for line in body]
        out.append("")
    return "\n".join([*out, _md(NOTE), ""])


def latex(records: Iterable[Record], order: Sequence[str] = ()) -> str:
    """A `table` environment in the paper's form, that needs no package."""
    found = rows(records, order)
    blocks = _blocks(found)
    inside = []
    for block in blocks:
        lines = [" & ".join(_tex_cell(cell) for cell in line) + r" \\" for line in block]
        inside += [r"\hline", lines[0], r"\hline", *lines[1:], r"\hline"]
    return "\n".join(
        [
            r"\begin{table}[h]",
            rf"\caption{{\small {_tex(f'{subject(found)}. {NOTE}')}}}",
            r"\centering",
            rf"\begin{{tabular}}{{l{'r' * max((len(block[0]) - 1 for block in blocks), default=0)}}}",
            *inside,
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def csv(records: Iterable[Record], order: Sequence[str] = ()) -> str:
    """One line for each method, every number in full; `-` where there is none."""
    out = io.StringIO()
    writer = csv_module.writer(out, lineterminator="\n")
    for i, row in enumerate(rows(records, order)):
        values = _flat(row)
        if i == 0:
            writer.writerow(values)
        writer.writerow([NOTHING if value is None else _csv(value) for value in values.values()])
    return out.getvalue()


def subject(table: Sequence[Row]) -> str:
    """What was trained on what."""
    runs = [run for row in table for run in row.runs]
    if not runs:
        return "No runs"
    config, images = runs[0].config, runs[0].images
    width = "" if config.width == 1 else f" (width {config.width:g})"
    return (
        f"{config.network}{width} on {config.dataset}, {images.train:,} training and {images.test:,} "
        f"validation images, {config.epochs} epochs, batch {config.batch_size}"
    )


@dataclass(frozen=True)
class _Cell:
    text: str
    bold: bool = False


def _blocks(table: Sequence[Row]) -> list[list[list[_Cell]]]:
    """The table cut into blocks of a few methods, each a title line and a line for each quantity."""
    if not table:
        return []
    size = math.ceil(len(table) / math.ceil(len(table) / SIDE_BY_SIDE))
    shown = lines(table)
    blocks = []
    for chosen in (table[i : i + size] for i in range(0, len(table), size)):
        head = [_Cell(""), *(_Cell(row.label) for row in chosen)]
        body = [
            [_Cell(line.title), *(_Cell(line.cell(row), line.is_highest(row, table)) for row in chosen)]
            for line in shown
        ]
        blocks.append([head, *body])
    return blocks


def _flat(row: Row) -> dict[str, float | int | str | None]:
    values: dict[str, float | int | str | None] = {
        "method": row.label,
        "runs": len(row.runs),
        "n": len(row.finished),
        "seeds": " ".join(str(run.config.seed) for run in row.finished),
    }
    for name, summary, difference in (("best", row.best, row.best_gain), ("last", row.last, row.last_gain)):
        values |= {f"{name}_mean": summary.mean, f"{name}_spread": summary.spread}
        for part in ("value", "low", "high", "p", "kind"):
            values[f"{name}_difference_{part}"] = getattr(difference, part, None)
    published = row.published
    return values | {
        "seconds_per_epoch": row.seconds.mean,
        "seconds_spread": row.seconds.spread,
        "ratio": row.ratio,
        "paper_accuracy": published.accuracy if published else None,
        "paper_spread": published.spread if published else None,
        "paper_ratio": published.ratio if published else None,
    }


def _csv(value: float | int | str) -> str:
    if not isinstance(value, str):
        return repr(value)
    # A spreadsheet would run a text that starts like a formula.
    return f"'{value}" if value[:1] in {"=", "+", "@", "\t", "\r"} else value


def _md_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md_cell(cell: _Cell) -> str:
    return f"**{_md(cell.text)}**" if cell.bold else _md(cell.text)


def _md(string: str) -> str:
    indented = "&nbsp;" * 2 if string.startswith("  ") else ""
    escaped = re.sub(r"([\\`*_\[\]|~])", r"\\\1", " ".join(string.split()))
    return indented + escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "<": r"$<$",
    ">": r"$>$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _tex_cell(cell: _Cell) -> str:
    return rf"\textbf{{{_tex(cell.text)}}}" if cell.bold else _tex(cell.text)


def _tex(string: str) -> str:
    indented = r"\quad " if string.startswith("  ") else ""
    escaped = "".join(_TEX.get(character, character) for character in " ".join(string.split()))
    return indented + re.sub(r"(?<![\w)])([+-])(?=\d)", r"$\1$", escaped)
