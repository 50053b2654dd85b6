"""Columns of the results tables and their number formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aon.lab.report.outcomes import OUTCOMES, Outcome, title
from aon.lab.report.statistics import SIGNIFICANT, Difference, Summary
from aon.lab.report.summary import Results, Row

NOTHING, MOST_DIGITS = "-", 8


@dataclass(frozen=True)
class Column:
    """One quantity: its title, its text for a row, and the mean by which the highest is printed bold."""

    title: str
    cell: Callable[[Row], str]
    mean: Callable[[Row], float | None] | None = None

    def is_highest(self, row: Row, rows: Sequence[Row]) -> bool:
        """Whether the row has the highest mean of several rows of its setting."""
        rivals = [other for other in rows if other.setting == row.setting]
        if self.mean is None or len(rivals) < 2:
            return False
        known = [mean for mean in map(self.mean, rivals) if mean is not None]
        return bool(known) and self.mean(row) == max(known)


def number(value: float | None, digits: int = 2) -> str:
    """The number, or `-` where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def mean_and_spread(summary: Summary) -> str:
    """`74.12 ± 0.31`; a single run has no spread.

    Example:
        >>> mean_and_spread(Summary(1, 74.123, None))
        '74.12 ± -'
    """
    if summary.mean is None:
        return NOTHING
    return f"{summary.mean:.2f} ± {number(summary.spread)}"


def interval(difference: Difference | None) -> str:
    """The confidence interval, `+3.10 to +4.90`."""
    if difference is None or difference.low is None or difference.high is None:
        return NOTHING
    return f"{difference.low:+.2f} to {difference.high:+.2f}"


def p_value(p: float | None) -> str:
    """Two significant digits, or as many more as keep it on its side of 0.05; very small ones as a bound.

    Example:
        >>> p_value(0.03141), p_value(0.04996), p_value(3e-7), p_value(None)
        ('0.031', '0.04996', '< 0.0001', '-')
    """
    if p is None:
        return NOTHING
    digits = 2
    while digits < MOST_DIGITS and (float(f"{p:.{digits}g}") < SIGNIFICANT) != (p < SIGNIFICANT):
        digits += 1
    return "< 0.0001" if p < 0.0001 else f"{p:#.{digits}g}"


def p_equals(p: float | None) -> str:
    """A p-value as a sentence has it behind the letter: `= 0.031` or `< 0.0001`."""
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"


def gain(difference: Difference | None) -> str:
    """Points above (+) or below (-)."""
    return NOTHING if difference is None else f"{difference.value:+.2f}"


def gain_with_interval(difference: Difference | None, digits: int = 2) -> str:
    """Points above or below with the confidence interval; a single pair has no interval.

    Example:
        >>> gain_with_interval(Difference(2.22, 0.4, 4.04, 0.047, "paired", 8)), gain_with_interval(None)
        ('+2.22 [+0.40, +4.04]', '-')
    """
    if difference is None:
        return NOTHING
    value = f"{difference.value:+.{digits}f}"
    if difference.low is None or difference.high is None:
        return value
    return f"{value} [{difference.low:+.{digits}f}, {difference.high:+.{digits}f}]"


def welch(difference: Difference | None) -> str:
    """` (Welch)`, to mark a difference of two methods without a common seed; empty where seeds are paired."""
    return " (Welch)" if difference and difference.kind == "welch" else ""


def ahead(difference: Difference | None) -> str:
    """Seeds in which the method is higher, of how many: `7 of 8`."""
    if difference is None or difference.ahead is None:
        return NOTHING
    return f"{difference.ahead} of {difference.n}"


def probability(value: float | None) -> str:
    """Two digits; never 0 or 1, which no data can show.

    Example:
        >>> probability(0.873), probability(0.999), probability(0.0001)
        ('0.87', '> 0.99', '< 0.01')
    """
    if value is None:
        return NOTHING
    return "> 0.99" if value > 0.99 else "< 0.01" if value < 0.01 else f"{value:.2f}"


def accuracy_columns(results: Results) -> list[Column]:
    """Runs, the three test accuracies, training time, and the paper's numbers where they belong to a run here."""
    columns = [Column("runs", lambda row: row.count)]
    columns += [_accuracy(outcome, title(outcome, results.validated)) for outcome in OUTCOMES]
    columns += [
        Column("seconds per epoch", lambda row: number(row.seconds.mean)),
        Column("time ratio", lambda row: number(row.ratio)),
    ]
    return columns + (PAPER_COLUMNS if any(row.published for row in results.rows) else [])


def _accuracy(outcome: Outcome, name: str) -> Column:
    return Column(
        name, lambda row: mean_and_spread(row.accuracy[outcome.key]), lambda row: row.accuracy[outcome.key].mean
    )


PAPER_COLUMNS = [
    Column(
        "paper: accuracy",
        lambda row: f"{row.published.accuracy:.2f} ± {row.published.spread:.2f}" if row.published else NOTHING,
    ),
    Column("paper: time ratio", lambda row: number(row.published_ratio)),
]


@dataclass(frozen=True)
class DifferenceColumn:
    """One quantity of a difference between two methods."""

    title: str
    cell: Callable[[Difference | None], str]


DIFFERENCE_COLUMNS = (
    DifferenceColumn("points", gain),
    DifferenceColumn("95 % interval", interval),
    DifferenceColumn("n", lambda found: str(found.n) if found else NOTHING),
    DifferenceColumn("p", lambda found: p_value(found.p if found else None) + welch(found)),
    DifferenceColumn("p (Holm)", lambda found: p_value(found.corrected if found else None)),
    DifferenceColumn("p (sign flip)", lambda found: p_value(found.flip_p if found else None)),
    DifferenceColumn("ahead", ahead),
    DifferenceColumn("P(ahead)", lambda found: probability(found.probability if found else None)),
)
