"""Draw the study's results: docs/figures/study.svg and .png.

    python scripts/draw_study.py [FOLDER]

Test accuracy of the last epoch of every run of the comparisons that hypotheses are about, one point a run, with the
mean of each method and its 95 % interval: the paper's methods, then other weight maps.
"""

import math
import sys
from pathlib import Path
from statistics import fmean, stdev

from matplotlib.axes import Axes
from scipy import stats  # type: ignore[import-untyped]
from scripts.claims import PLACES
from scripts.readme_results import finished
from scripts.study import PLANS, ROOT

from aon.lab.errors import LabError
from aon.lab.methods.grammar import parse
from aon.lab.report.outcomes import PRIMARY
from aon.lab.report.style import COLOURS, GREY, new_figure, save, styled

PAPER = ("bn", "bn+cwn", "iternorm", "bn+orth", "bn+aon:order=0", "bn+aon", "bn+aon:order=4")
OTHERS = (
    "bn+aon:centre=mean",
    "bn+aon:centre=top",
    "bn+aon:expansion=minimax",
    "bn+aon:order=4:expansion=minimax",
    "bn+polar",
)
LINE = 0.22  # inches of a method
KEY = (
    "test accuracy of the last epoch (%); point: a run; line: mean and 95 % interval\n"
    "blue: methods of the paper; orange: other weight maps"
)


def scores(folder: Path) -> dict[str, list[float]]:
    """Test accuracy of the last epoch of each finished run, by method, in the order of the figure.

    Raises:
        LabError: if there is none.
    """
    found: dict[str, list[float]] = {}
    for run in finished(folder):
        if (score := PRIMARY.of(run)) is not None:
            found.setdefault(run.config.method, []).append(score)
    if not found:
        raise LabError(f"{folder} has no finished run")
    return {method: found[method] for method in (*PAPER, *OTHERS) if method in found}


def interval(values: list[float], confidence: float = 0.95) -> float:
    """Half the width of the t-interval of the mean; 0 for a single value.

    Example:
        >>> round(interval([1.0, 2.0, 3.0]), 2), interval([1.0])
        (2.48, 0.0)
    """
    if len(values) < 2:
        return 0.0
    return float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values)))


def draw(axes: Axes, found: dict[str, list[float]], title: str) -> None:
    """A line for each method, the first on top."""
    for place, (method, values) in enumerate(found.items()):
        colour = GREY if method == "bn" else COLOURS[0] if method in PAPER else COLOURS[1]
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
        axes.errorbar(fmean(values), place, xerr=interval(values), fmt="|", color=colour, markersize=11, capsize=0)
    axes.set(title=title, yticks=range(len(found)))
    axes.set_yticklabels([f"{parse(method).label}  (n = {len(values)})" for method, values in found.items()])
    axes.set_ylim(len(found) - 0.5, -0.5)


def main(args: list[str]) -> int:
    """Write the figure; the status is 1 and a line says why if that cannot be done."""
    try:
        found = {title: scores(PLANS / name) for name, title in PLACES.items() if (PLANS / name).is_dir()}
        lines = [len(own) for own in found.values()]
        with styled():
            figure = new_figure(7.2, 0.6 * len(lines) + LINE * sum(lines))
            for axes, (title, own) in zip(figure.subplots(len(lines), height_ratios=lines), found.items(), strict=True):
                draw(axes, own, title)
            figure.supxlabel(KEY, fontsize="small")
        save(figure, Path(args[0]) if args else ROOT / "docs" / "figures", "study", ("png", "svg"))
    except LabError as error:
        sys.stderr.write(f"draw_study: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
