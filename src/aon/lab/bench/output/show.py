"""Benchmark records as tables on the terminal."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from aon.lab.bench.record import BenchRecord, Case, RatioRow, Unit, Variant

NOTHING = "-"


# Columns besides the time: title, and the number that the value is divided by.
FACTS = {
    "flops": ("GFLOP", 1e9),
    "units": ("weights", 1.0),
    "error": ("relative error", 1.0),
    "forward": ("forward", 1.0),
    "backward": ("backward", 1.0),
}


def known_facts(case: Case) -> list[str]:
    """Those that some variant of the case has."""
    return [key for key in FACTS if any(key in variant.facts for variant in case.variants)]


def fact_of(variant: Variant, fact: str) -> str:
    """A fact of a variant in three digits."""
    return f"{variant.facts[fact] / FACTS[fact][1]:.3g}" if fact in variant.facts else NOTHING


def tables(record: BenchRecord) -> Group:
    """One table for each case, then what was not measured."""
    parts: list[Table | Text] = []
    for case in record.cases:
        parts.append(_table(case, record.unit))
        parts += [Text(f"not measured: {name}: {reason}", style="yellow") for name, reason in case.absent.items()]
    return Group(*parts)


def amount(value: float | None, unit: Unit) -> str:
    """A number with its unit, three digits of it.

    Example:
        >>> amount(0.01234, "seconds"), amount(2.5e6, "bytes"), amount(None, "seconds")
        ('12.3 ms', '2.5 MB', '-')
    """
    if value is None:
        return NOTHING
    if unit == "seconds":
        return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    if unit == "bytes":
        return f"{value / 1e9:.3g} GB" if value >= 1e9 else f"{value / 1e6:.3g} MB"
    return f"{value:.4g} images/s" if unit == "images a second" else f"{value:.0f} calls"


def spread(row: RatioRow | None) -> str:
    """A ratio with its quartiles.

    Example:
        >>> spread(RatioRow(median=1.1, low=1.09, high=1.12, n=5))
        '1.100 [1.090, 1.120]'
    """
    return NOTHING if row is None else f"{short(row.median)} [{short(row.low)}, {short(row.high)}]"


def short(ratio: float) -> str:
    """A ratio with the digits that matter.

    Example:
        >>> short(1.0834), short(44.737), short(1243.8)
        ('1.083', '44.7', '1244')
    """
    digits = 3 if abs(ratio) < 10 else 1 if abs(ratio) < 1000 else 0
    return f"{ratio:.{digits}f}"


def _table(case: Case, unit: Unit) -> Table:
    table = Table(title=Text(case.name), title_justify="left")
    for title, justify in (("variant", "left"), ("median", "right"), (f"ratio to {case.base}\n[quartiles]", "right")):
        table.add_column(Text(title), justify=justify, no_wrap=True)  # type: ignore[arg-type]
    facts = known_facts(case)
    for title in ("n", *(FACTS[fact][0] for fact in facts)):
        table.add_column(title, justify="right", no_wrap=True)
    for variant in case.variants:
        extra = [fact_of(variant, fact) for fact in facts]
        n = str(sum(value is not None for value in variant.repeats))
        table.add_row(Text(variant.name), amount(variant.median, unit), spread(variant.ratio), n, *extra)
    if "slope" in case.facts:
        own, counted = (_number(case.facts[key]) for key in ("slope", "flops_slope"))
        table.caption = f"slope {own}; of the count of operations {counted}"
    return table


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"
