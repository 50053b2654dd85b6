"""How a number of the tables is spelt: the quantities in their order, each a function of a method's row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aon.lab.paper import Published
from aon.lab.statistics import Difference, Summary
from aon.lab.summary import Row

NOTHING = "-"


def number(value: float | None, digits: int = 2) -> str:
    """The number, or `-` where there is none."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def _published(cell: Published | None) -> str:
    return NOTHING if cell is None else f"{cell.accuracy:.2f} ± {cell.spread:.2f}"


@dataclass(frozen=True)
class Line:
    """One quantity of the table: its title, how a method's row spells it, and its mean if the highest wins.

    A title that begins with spaces belongs to the quantity above it.
    """

    title: str
    cell: Callable[[Row], str]
    mean: Callable[[Row], float | None] | None = None

    def is_highest(self, row: Row, table: Sequence[Row]) -> bool:
        """Whether to print this cell bold: the highest mean of several."""
        if self.mean is None or len(table) < 2:
            return False
        known = [mean for mean in map(self.mean, table) if mean is not None]
        return bool(known) and self.mean(row) == max(known)


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
    """Two significant digits; very small ones as a bound.

    Example:
        >>> p_value(0.03141), p_value(3e-7), p_value(None)
        ('0.031', '< 0.0001', '-')
    """
    if p is None:
        return NOTHING
    return "< 0.0001" if p < 0.0001 else f"{p:#.2g}"


def gain(difference: Difference | None) -> str:
    """Points above (+) or below (-) BN."""
    return NOTHING if difference is None else f"{difference.value:+.2f}"


LINES = (
    Line("runs", lambda row: row.count),
    Line("best accuracy (%)", lambda row: mean_and_spread(row.best), lambda row: row.best.mean),
    Line("last accuracy (%)", lambda row: mean_and_spread(row.last), lambda row: row.last.mean),
    Line("best: difference to BN", lambda row: gain(row.best_gain)),
    Line("  95 % interval", lambda row: interval(row.best_gain)),
    Line("  p-value", lambda row: p_value(row.best_gain.p if row.best_gain else None)),
    Line("last: difference to BN", lambda row: gain(row.last_gain)),
    Line("  95 % interval", lambda row: interval(row.last_gain)),
    Line("  p-value", lambda row: p_value(row.last_gain.p if row.last_gain else None)),
    Line("seconds per epoch", lambda row: number(row.seconds.mean)),
    Line("  ratio to BN", lambda row: number(row.ratio)),
)

PAPER_LINES = (
    Line(
        "paper: accuracy (%)",
        lambda row: f"{row.published.accuracy:.2f} ± {row.published.spread:.2f}" if row.published else NOTHING,
    ),
    Line("paper: ratio to BN", lambda row: number(row.published.ratio if row.published else None)),
)


def lines(table: Sequence[Row]) -> tuple[Line, ...]:
    """What to show: the paper's own numbers only where one of them belongs to a run here."""
    return LINES + (PAPER_LINES if any(row.published for row in table) else ())
