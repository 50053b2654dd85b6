"""The tables of a report: accuracies, tests against the base, best settings, and differences between all methods."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aon.lab.experiment.records import Record
from aon.lab.report.cells import (
    DIFFERENCE_COLUMNS,
    accuracy_columns,
    gain,
    interval,
    mean_and_spread,
    p_equals,
    p_value,
    welch,
)
from aon.lab.report.outcomes import OUTCOMES, PRIMARY, explanation, title
from aon.lab.report.statistics import EXACT_PAIRS, SIGNIFICANT, Difference
from aon.lab.report.summary import Choice, Results, Row

FULL_MATRIX = 8
"""A matrix of more methods than this shows differences only."""

_PAIRING = "paired by seed over the seeds that both methods have; (Welch): they share none, so it is Welch's test."
_TRIALS = (
    "trials: how many combinations of setting and variant (same words, other options) of the method were run on the "
    "task. Each variant is shown at its own best setting; more trials favour a method."
)
_COLUMNS = {
    "n": "n: those seeds, or the smaller number of runs (Welch).",
    "p": "p: two-sided t-test.",
    "p (Holm)": "p (Holm): corrected for all comparisons of the table on the same data and network.",
    "p (sign flip)": f"p (sign flip): permutation test, exact for up to {EXACT_PAIRS} pairs.",
    "ahead": "ahead: in how many of those seeds it is higher.",
    "P(ahead)": "P(ahead): probability that it is higher for a new seed, from Student's predictive distribution.",
}


@dataclass(frozen=True)
class Cell:
    """A text, bold or not; a line break separates what stands below each other."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Grid:
    """A table ready to be drawn: a caption, titles of the columns, lines of cells, and the method of each line."""

    caption: str
    methods: tuple[str, ...]
    head: tuple[str, ...]
    body: tuple[tuple[Cell, ...], ...]


def accuracy_grid(results: Results) -> Grid:
    """Test accuracies and training times, a line for each method."""
    columns = accuracy_columns(results)
    body = (
        (Cell(row.label), *(Cell(column.cell(row), column.is_highest(row, results.rows)) for column in columns))
        for row in results.rows
    )
    methods = tuple(row.method for row in results.rows)
    return Grid("Test accuracy (%)", methods, ("method", *(column.title for column in columns)), tuple(body))


def difference_grids(results: Results) -> list[Grid]:
    """Tests against the base, a table for each outcome, the primary one first; none without a second method."""
    found = []
    for outcome in OUTCOMES:
        lines = [(row, row.gain[outcome.key]) for row in results.rows if not row.is_base]
        name = title(outcome, results.validated) + (" (primary outcome)" if outcome is PRIMARY else "")
        if any(gain for _, gain in lines):
            found.append(_tested(f"Difference to {results.base}: test accuracy, {name}", lines))
    return found


def choice_grid(results: Results) -> Grid | None:
    """Each method at its best setting by validation accuracy, with the test accuracy there."""
    if not results.choices:
        return None
    head = ("method", "best setting", "trials", "runs", "validation", "test", "points", "95 % interval")
    body = (tuple(map(Cell, _chosen(choice))) for choice in results.choices)
    caption = (
        "Each method at its best setting by validation accuracy, if it was run under all: accuracies (%) of the last "
        f"epoch, and difference to {results.base} at its best setting"
    )
    methods = tuple(choice.row.method for choice in results.choices)
    return Grid(caption, methods, (*head, "p (Holm)"), tuple(body))


def _chosen(choice: Choice) -> tuple[str, ...]:
    row, found = choice.row, choice.gain
    accuracies = row.count, mean_and_spread(row.validation), mean_and_spread(row.last)
    return (
        row.method,
        row.setting,
        str(choice.trials),
        *accuracies,
        gain(found),
        interval(found),
        p_value(found.corrected if found else None) + welch(found),
    )


def matrix_grids(results: Results) -> list[Grid]:
    """Differences between every two methods at the last epoch, row minus column, a table for each setting."""
    return [
        _matrix(results, setting, rows)
        for setting in results.settings
        if len(rows := [row for row in results.under(setting) if row.last.mean is not None]) > 1
    ]


def note(results: Results, *without: str) -> str:
    """What the numbers of the tables mean.

    Args:
        results: What the tables show.
        *without: Columns of the differences that are not shown.
    """
    sentences = [
        "Test accuracy in percent: mean ± standard deviation over the finished runs. The last epoch is the primary "
        f"outcome. {explanation(results.validated)} Training time: mean of the first 30 epochs, and its ratio to "
        f"{results.base} where the runs of either vary by less than a tenth."
    ]
    if any(row.published for row in results.rows):
        sentences.append(f"paper: time ratio: the paper's time over the one it printed for {results.base}, if any.")
    if results.choices:
        sentences.append(_TRIALS)
    sentences.append(f"Differences are {_PAIRING}")
    return " ".join([*sentences, *(text for name, text in _COLUMNS.items() if name not in without)])


def matrix_note(results: Results) -> str:
    """What a cell of the matrix holds."""
    what = f"the p-value of the t-test after Holm's correction for {_compared(results)}"
    if _is_large(results):
        return (
            f"Row minus column: difference of the test accuracy at the last epoch, bold where {what} is below "
            f"{SIGNIFICANT}; {_PAIRING} Intervals, p-values and n are in differences.csv and differences.json."
        )
    return (
        f"Row minus column: difference of the test accuracy at the last epoch, its 95 % interval, and {what}; "
        f"{_PAIRING} {_COLUMNS['n']}"
    )


def _compared(results: Results) -> str:
    counts = {found.comparisons for found in results.matrix.values()}
    if len(counts) > 1:
        return "all pairs on the same data and network"
    count = max(counts, default=0)
    return f"{count} comparison{'s' * (count != 1)}"


def subject(results: Results) -> str:
    """What was trained on what, in a phrase."""
    runs = results.runs
    if not runs:
        return "No runs"
    return (
        f"{_each(_network(run) for run in runs)} on {_each(run.config.dataset for run in runs)}, "
        f"{_each(map(_images, runs))}, {_each(str(run.config.epochs) for run in runs)} epochs, "
        f"batch {_each(str(run.config.batch_size) for run in runs)}"
    )


def _each(values: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(values))


def _network(run: Record) -> str:
    return run.config.network if run.config.width == 1 else f"{run.config.network} (width {run.config.width:g})"


def _images(run: Record) -> str:
    images = run.images
    if images.validation:
        return f"{images.train:,} training, {images.validation:,} validation and {images.test:,} test images"
    return f"{images.train:,} training and {images.test:,} test images (no validation images)"


def _tested(caption: str, lines: Sequence[tuple[Row, Difference | None]]) -> Grid:
    methods, head = tuple(row.method for row, _ in lines), tuple(column.title for column in DIFFERENCE_COLUMNS)
    body = ((Cell(row.label), *(Cell(column.cell(found)) for column in DIFFERENCE_COLUMNS)) for row, found in lines)
    return Grid(caption, methods, ("method", *head), tuple(body))


def _matrix(results: Results, setting: str, rows: Sequence[Row]) -> Grid:
    methods = tuple(row.method for row in rows)
    names = [f"{i}" for i, _ in enumerate(methods, start=1)] if _is_large(results) else methods
    cell = _short_pair if _is_large(results) else _pair
    body = (
        (Cell(f"{name} {a.method}" if name != a.method else name), *(cell(results, a, b) for b in rows))
        for name, a in zip(names, rows, strict=True)
    )
    where = f" · {setting}" if setting else ""
    return Grid(f"Difference between every two methods{where}", methods, ("", *names), tuple(body))


def _is_large(results: Results) -> bool:
    """Whether a matrix has too many columns for intervals and names."""
    return len(results.methods) > FULL_MATRIX


def _pair(results: Results, ours: Row, other: Row) -> Cell:
    found = results.matrix.get((ours.label, other.label))
    if found is None:
        return Cell("")
    if found.p is None:
        return Cell(f"{gain(found)}\nn {found.n}{welch(found)}")
    return Cell(f"{gain(found)}\n{interval(found)}\np {p_equals(found.corrected)}, n {found.n}{welch(found)}")


def _short_pair(results: Results, ours: Row, other: Row) -> Cell:
    found = results.matrix.get((ours.label, other.label))
    if found is None:
        return Cell("")
    return Cell(f"{gain(found)}{welch(found)}", found.corrected is not None and found.corrected < SIGNIFICANT)
