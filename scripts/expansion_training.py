"""Write the training part of docs/expansions.md: curves, accuracies and the cost of a step, from the records.

    python scripts/expansion_training.py

The runs are made by `aon compare --config results/expansions/mlp.toml --out results/expansions/mlp` (and `vit`), the
cost by `aon bench step`; docs/expansions.md has the commands.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from aon.lab.bench.record import load as load_bench
from aon.lab.experiment.records import Record, load_all
from aon.lab.report.statistics import mean_and_band
from aon.lab.report.style import COLOURS, GREY, new_figure, save, styled, whole_numbers
from aon.lab.system.files import write_text

ROOT = Path(__file__).resolve().parents[1]
RECORDS, BENCH = ROOT / "results" / "expansions", ROOT / "results" / "bench"
PAGE, FIGURES = ROOT / "docs" / "expansions.md", ROOT / "docs" / "figures"
BEGIN, END = "<!-- training: begin (made by scripts/expansion_training.py) -->", "<!-- training: end -->"
TASKS = {"mlp": "Deep MLP, He's start", "vit": "Vision transformer, Xavier's start"}
STEPS = ("step-vit-16",)
# Weight maps by their canonical names, and their lines in the figure.
MAPS = {
    "": ("no map", GREY),
    "aon:order=0": ("SN", COLOURS[4]),
    "aon": ("the paper's AON", COLOURS[1]),
    "aon:expansion=minimax": ("minimax", COLOURS[0]),
    "aon:centre=top": ("centre top", COLOURS[2]),
    "aon:order=4:expansion=minimax": ("minimax, q = 4", COLOURS[3]),
}


def map_of(method: str) -> str:
    """The weight map of a method without its normaliser.

    Example:
        >>> map_of("ln+aon:order=0"), map_of("none")
        ('aon:order=0', '')
    """
    return "+".join(part for part in method.split("+") if part not in ("ln", "bn", "none"))


def runs_of(folder: Path) -> dict[str, list[Record]]:
    """Finished runs by weight map, in the order of `MAPS`."""
    done = [run for run in load_all(folder) if run.status == "done"]
    by_map = {name: [run for run in done if map_of(run.config.method) == name] for name in MAPS}
    return {name: runs for name, runs in by_map.items() if runs}


def table(tasks: dict[str, dict[str, list[Record]]]) -> str:
    """Means over the seeds: last training loss, test accuracy, and the least flat layer at the end."""
    lines = [
        "| | weight map | seeds | training loss | validation accuracy (%) | test accuracy (%) | least median of h(W) |",
        "|:--|:--|--:|--:|--:|--:|--:|",
    ]
    for task, maps in tasks.items():
        for name, runs in maps.items():
            last = [run.epochs[-1] for run in runs]
            cells = [
                TASKS[task],
                MAPS[name][0],
                str(len(runs)),
                _spread([epoch.train_loss for epoch in last], 2),
                _spread([epoch.val_accuracy for epoch in last], 1),
                _spread([epoch.test_accuracy for epoch in last if epoch.test_accuracy is not None], 1),
                _mean([_least_median(run) for run in runs if run.epochs[-1].spectra]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(values: Sequence[float], digits: int) -> str:
    if not values:
        return "-"
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.2f}" if values else "-"


def _least_median(run: Record) -> float:
    """The median singular value of h(W) over its largest, in the layer where that is least, after the last epoch."""
    return min(row.normalised_median / row.normalised_max for row in run.epochs[-1].spectra or ())


def costs(names: Sequence[str] = STEPS) -> str:
    """Time of a training step over that without a map, and over that with the paper's: medians over the rounds."""
    lines = ["| step | weight map | time over no map | over the paper's map |", "|:--|:--|--:|--:|"]
    commands = []
    for name in names:
        record = load_bench(BENCH / f"{name}.json")
        (case,) = record.cases
        commands.append(f"`{' '.join(record.command)}`")
        found = {map_of(variant.name): variant.repeats for variant in case.variants}
        for word, repeats in found.items():
            if word:
                over = [f"{_ratio(repeats, found[base]):.2f}" for base in ("", "aon")]
                lines.append(f"| {case.name} | {MAPS[word][0]} | {' | '.join(over)} |")
    return "\n".join([*lines, "", *commands])


def _ratio(seconds: Sequence[float | None], base: Sequence[float | None]) -> float:
    """Median of the ratios, round by round."""
    return median(a / b for a, b in zip(seconds, base, strict=True) if a is not None and b is not None)


def draw(tasks: dict[str, dict[str, list[Record]]]) -> Figure:
    """Training loss and validation accuracy, mean of the seeds with a band of one standard deviation."""
    with styled():
        figure = new_figure(7.6, 2.4 * len(tasks) + 0.6)
        grid = figure.subplots(len(tasks), 2, squeeze=False)
        for (task, maps), (loss, accuracy) in zip(tasks.items(), grid, strict=True):
            for name, runs in maps.items():
                _line(loss, runs, "train_loss", name)
                _line(accuracy, runs, "val_accuracy", name)
            loss.set(title=f"{TASKS[task]}: training loss", xlabel="epoch")
            accuracy.set(title="validation accuracy (%)", xlabel="epoch")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def _line(axes: Axes, runs: list[Record], field: str, name: str) -> None:
    label, colour = MAPS[name]
    points = mean_and_band([[getattr(epoch, field) for epoch in run.epochs] for run in runs])
    mean = [float("nan") if point.mean is None else point.mean for point in points]
    band = [point.spread or 0.0 for point in points]
    x = range(1, len(points) + 1)
    axes.fill_between(
        x,
        [m - b for m, b in zip(mean, band, strict=True)],
        [m + b for m, b in zip(mean, band, strict=True)],
        color=colour,
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(x, mean, color=colour, label=label)
    axes.xaxis.set_major_locator(whole_numbers())


def text() -> str:
    """The generated part of the page."""
    tasks = {task: runs_of(RECORDS / task) for task in TASKS}
    return f"{table(tasks)}\n\n### Cost\n\n{costs()}"


def main() -> int:
    """Draw the figure and fill the tables into the page."""
    save(draw({task: runs_of(RECORDS / task) for task in TASKS}), FIGURES, "expansions-training", ("png", "svg"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    write_text(PAGE, f"{head}{BEGIN}\n\n{text()}\n\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
