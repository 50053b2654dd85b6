"""Figures of benchmark records: ratios as bars with quartiles, costs over sizes as lines."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from aon.lab.bench.cases.step import PLAIN_STEP
from aon.lab.bench.output.show import amount, short
from aon.lab.bench.peers import PLAIN, REFERENCE
from aon.lab.bench.record import BenchRecord, Case, Unit, Variant
from aon.lab.errors import LabError
from aon.lab.report.style import COLOURS, GREY, new_figure, plain, save, styled

FORMATS = ("png", "svg")
MANY = 5  # with more bars than this they are sorted
FAR = 20.0  # ratios that lie further apart than this are drawn on a logarithmic axis

_NUMBER = FuncFormatter(lambda value, _: f"{value:g}")


def draw(record: BenchRecord, folder: Path, name: str) -> list[Path]:
    """Draw a record as PNG and SVG.

    Args:
        record: What was measured.
        folder: Where the files go; it must exist.
        name: Their name without ending.

    Raises:
        LabError: if nothing in the record can be drawn.
    """
    with styled():
        return save(figure(record), folder, name, FORMATS)


def figure(record: BenchRecord) -> Figure:
    """The figure of a record: lines for `scale`, bars for everything else."""
    cases = [case for case in record.cases if any(variant.ratio for variant in case.variants)]
    if not cases:
        raise LabError(f"the record of bench {record.bench} has nothing that could be drawn")
    return _lines(cases) if record.bench == "scale" else _bars(cases, record.unit)


def _bars(cases: Sequence[Case], unit: Unit) -> Figure:
    heights = [0.7 + 0.24 * len(case.variants) for case in cases]
    canvas = new_figure(7.4, sum(heights) + 0.3)
    panels = canvas.subplots(len(cases), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, case in zip(panels, cases, strict=True):
        _draw_bars(axes, case, unit)
    return canvas


def _draw_bars(axes: Axes, case: Case, unit: Unit) -> None:
    shown = [(variant, variant.ratio) for variant in case.variants if variant.ratio]
    if len(shown) > MANY:
        shown.sort(key=lambda pair: pair[1].median)
    middles = [row.median for _, row in shown]
    spread = [[row.median - row.low for _, row in shown], [row.high - row.median for _, row in shown]]
    colours = [_colour(variant, case) for variant, _ in shown]
    axes.barh(range(len(shown)), middles, xerr=spread, color=colours, height=0.7, error_kw={"linewidth": 1})
    axes.axvline(1, color=GREY, linewidth=0.8, zorder=0.5)
    if min(middles) > 0 and max(middles) / min(middles) > FAR:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_NUMBER)
    for place, (variant, row) in enumerate(shown):
        axes.annotate(
            _label(variant, row.median, unit), (row.high, place), (4, 0), textcoords="offset points",
            va="center", fontsize=7.5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8},
        )  # fmt: skip
    axes.set_yticks(range(len(shown)), [plain(variant.name) for variant, _ in shown])
    axes.invert_yaxis()
    axes.margins(x=0.22)
    axes.grid(visible=False, axis="y")
    axes.set_title(_title(case.name, 70))
    axes.set_xlabel(f"ratio to {plain(case.base)} (median of rounds, quartiles)")


def _label(variant: Variant, ratio: float, unit: Unit) -> str:
    """The text beside a bar."""
    text = f"{short(ratio)}  ({amount(variant.median, unit)})"
    return f"{text}  +{variant.facts['units']:.2f} weights" if variant.facts.get("units") else text


def _title(text: str, width: int) -> str:
    """A title in printable characters, in as many lines as it needs."""
    return fill("".join(character if character.isprintable() else "?" for character in text), width)


def _colour(variant: Variant, case: Case) -> str:
    """The base grey, ours blue, others orange; the plain ways to write AON are others."""
    if variant.name == case.base and not variant.name.startswith("aon"):
        return GREY
    is_ours = "aon" in variant.name or variant.name in ("normalised", "folded")
    is_ours &= variant.name not in (PLAIN, REFERENCE, PLAIN_STEP)
    return COLOURS[0] if is_ours else COLOURS[1]


def _lines(cases: Sequence[Case]) -> Figure:
    rows = (len(cases) + 1) // 2
    canvas = new_figure(7.4, 0.4 + 2.6 * rows)
    panels = list(canvas.subplots(rows, 2, squeeze=False).flat)
    for axes, case in zip(panels, cases, strict=False):
        _draw_line(axes, case)
    for axes in panels[len(cases) :]:
        axes.set_visible(False)
    return canvas


def _draw_line(axes: Axes, case: Case) -> None:
    """Measured cost, and the count of operations moved to go through its first point."""
    known = [(variant.facts, variant.median) for variant in case.variants if variant.median and variant.median > 0]
    sizes, medians = [facts["size"] for facts, _ in known], [median for _, median in known]
    axes.plot(sizes, medians, "o-", color=COLOURS[0], markersize=4, label=f"measured, slope {_slope(case, 'slope')}")
    if known:
        first = medians[0] / known[0][0]["flops"]
        counted = [first * facts["flops"] for facts, _ in known]
        label = f"operations, slope {_slope(case, 'flops_slope')}"
        axes.plot(sizes, counted, "--", color=GREY, label=label)
    axes.set(xscale="log", yscale="log", ylabel="seconds")
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
    marked = {f"{median:.2g}": median for median in medians}  # two that read the same share one mark
    axes.set_yticks(list(marked.values()), list(marked))
    axes.minorticks_off()
    axes.set_title(_title(case.name, 36))
    axes.legend(fontsize=7.5)


def _slope(case: Case, key: str) -> str:
    value = case.facts.get(key)
    return "-" if value is None else f"{value:.2f}"
