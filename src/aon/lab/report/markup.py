"""Draw tables for a terminal, in Markdown and in LaTeX."""

import io
import re
from collections.abc import Iterable

from rich import box
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from aon.lab.report.summary import Results
from aon.lab.report.tables import (
    Cell,
    Grid,
    accuracy_grid,
    choice_grid,
    difference_grids,
    matrix_grids,
    matrix_note,
    note,
    subject,
)

NOT_SHOWN = ("n", "P(ahead)")
"""Columns of the differences that a terminal has no room for."""


def terminal(results: Results) -> RenderableType:
    """Accuracies, the tests of the primary outcome and the best settings, for a terminal of 80 columns."""
    tables = [_rich(accuracy_grid(results)), *(_rich(grid, *NOT_SHOWN) for grid in difference_grids(results)[:1])]
    if choices := choice_grid(results):
        tables.append(_rich(choices, "runs", "95 % interval"))
    # Text, not str: a label or a path with brackets must not be read as markup.
    notes = [Text(note(results, *NOT_SHOWN)), *(Text(f"Skipped: {reason}") for reason in results.damaged)]
    return Group(Text(f"{subject(results)}."), *tables, *notes)


def text(results: Results) -> str:
    """The terminal's tables as plain text."""
    console = Console(file=io.StringIO(), width=80, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(terminal(results))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def markdown(results: Results) -> str:
    """All tables but the matrix, in GitHub's Markdown."""
    grids = [accuracy_grid(results), *filter(None, [choice_grid(results)]), *difference_grids(results)]
    skipped = [_md(f"Skipped: {reason}") + "\n" for reason in results.damaged]
    return "\n".join([_md(f"{subject(results)}."), "", *map(_md_grid, grids), _md(note(results)), "", *skipped])


def latex(results: Results) -> str:
    """The same tables as `table` environments that need no package."""
    grids = [accuracy_grid(results), *filter(None, [choice_grid(results)]), *difference_grids(results)]
    captions = [f"{subject(results)}. {grids[0].caption}. {note(results)}", *(grid.caption for grid in grids[1:])]
    return "\n".join(_tex_grid(grid, caption) for grid, caption in zip(grids, captions, strict=True))


def markdown_matrix(results: Results) -> str:
    """Differences between all methods in Markdown."""
    return "\n".join(
        [_md(f"{subject(results)}."), "", *map(_md_grid, matrix_grids(results)), _md(matrix_note(results)), ""]
    )


def latex_matrix(results: Results) -> str:
    """Differences between all methods as `table` environments that need no package."""
    grids = matrix_grids(results)
    return "\n".join(_tex_grid(grid, f"{grid.caption}. {matrix_note(results)}") for grid in grids)


def _rich(grid: Grid, *without: str) -> Table:
    table = Table(title=Text(f"\n{grid.caption}"), box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.title_justify, table.title_style = "left", "bold"
    shown = [i for i, name in enumerate(grid.head) if name not in without]
    for i in shown:
        is_text = grid.head[i] in ("method", "best setting")
        width = None if is_text else _width(grid, i)  # names may be folded, numbers never
        justify: JustifyMethod = "left" if is_text else "right"
        table.add_column(Text(grid.head[i]), justify=justify, overflow="fold", min_width=width, max_width=width)
    for line in grid.body:
        table.add_row(*(Text(line[i].text, style="bold" if line[i].bold else "") for i in shown))
    return table


def _width(grid: Grid, column: int) -> int:
    """Width of the longest cell and of the longest word of the title; a cell may be folded before a bracket."""
    cells = (part for line in grid.body for part in re.split(r" (?=\()", line[column].text))
    return max(map(len, [*grid.head[column].split(), *cells]))


def _md_grid(grid: Grid) -> str:
    head = [_md_line(map(_md, grid.head)), _md_line([":--", *["--:"] * (len(grid.head) - 1)])]
    body = [_md_line(map(_md_cell, line)) for line in grid.body]
    return "\n".join([f"**{_md(grid.caption)}**", "", *head, *body, ""])


def _md_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md_cell(cell: Cell) -> str:
    shown = "<br>".join(map(_md, cell.text.split("\n")))
    return f"**{shown}**" if cell.bold else shown


def _md(string: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]|~])", r"\\\1", " ".join(string.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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


def _tex_grid(grid: Grid, caption: str) -> str:
    head = " & ".join(_tex(name) for name in grid.head) + r" \\"
    body = [" & ".join(map(_tex_cell, line)) + r" \\" for line in grid.body]
    return "\n".join(
        [
            r"\begin{table}[h]",
            rf"\caption{{\small {_tex(caption)}}}",
            r"\centering\scriptsize",
            rf"\begin{{tabular}}{{l{'r' * (len(grid.head) - 1)}}}",
            r"\hline",
            head,
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _tex_cell(cell: Cell) -> str:
    lines = [_tex(line) for line in cell.text.split("\n")]
    shown = lines[0] if len(lines) == 1 else r"\shortstack[r]{" + r"\\".join(lines) + "}"
    return rf"\textbf{{{shown}}}" if cell.bold else shown


def _tex(string: str) -> str:
    escaped = "".join(_TEX.get(character, character) for character in " ".join(string.split()))
    return re.sub(r"(?<![\w)])([+-])(?=\d)", r"$\1$", escaped)
