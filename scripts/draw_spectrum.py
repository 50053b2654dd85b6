"""Draw singular values before and after the map: docs/figures/spectrum.svg and .png.

    python scripts/draw_spectrum.py [RUN] [FOLDER]

Left: a 3x3 convolution of 64 channels as torch initialises it. Right: every layer of the trained network whose record
is in RUN (by default the first of the study), smallest to largest singular value with the median marked. All values
are divided by the largest one.
"""

import sys
from pathlib import Path

import torch
from matplotlib.axes import Axes

from aon.functional import approx_orthonormal
from aon.lab.errors import LabError
from aon.lab.experiment.records import Record, SpectrumRow, load
from aon.lab.report.style import COLOURS, GREY, new_figure, plain, save, styled, wrapped

ROOT = Path(__file__).resolve().parents[1]
RAW, MAPPED = "raw weight W", "what the layer computes with, h(W)"


def draw_start(axes: Axes) -> None:
    """Singular values of a new convolution, largest first."""
    torch.manual_seed(0)
    W = torch.nn.Conv2d(64, 64, 3).weight.detach().double().flatten(1)
    for matrix, colour, label in ((W, GREY, RAW), (approx_orthonormal(W), COLOURS[0], MAPPED)):
        values = torch.linalg.svdvals(matrix)
        axes.plot(range(1, len(values) + 1), values / values[0], color=colour, label=label, linewidth=2)
    axes.set(title="A new layer, 64 x 576", xlabel="number of the singular value", ylim=(0, 1.05))
    axes.set_ylabel("singular value / largest")
    axes.legend(loc="lower left")


def draw_trained(axes: Axes, rows: tuple[SpectrumRow, ...], title: str) -> None:
    """Range and median of the singular values of each layer."""
    for number, row in enumerate(rows, start=1):
        before = (row.weight_min / row.weight_max, row.weight_median / row.weight_max)
        after = (row.normalised_min / row.normalised_max, row.normalised_median / row.normalised_max)
        for (low, median), colour, shift in ((before, GREY, -0.17), (after, COLOURS[0], 0.17)):
            axes.plot([number + shift] * 2, [low, 1], color=colour, linewidth=3.5, solid_capstyle="butt", alpha=0.35)
            axes.plot([number + shift], [median], "_", color=colour, markersize=6, markeredgewidth=2)
    axes.set(
        title=title,
        xlabel="layer (bar: smallest to largest, mark: median)",
        ylim=(0, 1.05),
        xticks=range(1, len(rows) + 1, 3),
    )


def title(record: Record) -> str:
    """Method and network of a run, and how long it was trained."""
    what = wrapped(f"{plain(record.label)}, {plain(record.config.network)},", 3.5, 9.5)
    return f"{what}\ntrained for {record.epochs[-1].epoch} epochs"


def main(args: list[str]) -> int:
    """Write the figure; the status is 1 and a line says why if that cannot be done."""
    try:
        run = Path(args[0]) if args else min((ROOT / "results" / "study" / "cifar10" / "runs").glob("bn+aon-s*"))
        record = load(run)
        rows = record.epochs[-1].spectra
        if not rows:
            raise LabError(f"{run} has no spectra of its last epoch")
        with styled():
            figure = new_figure(8.2, 3.05)
            left, right = figure.subplots(1, 2, sharey=True)
            draw_start(left)
            draw_trained(right, rows, title(record))
        save(figure, Path(args[1]) if len(args) > 1 else ROOT / "docs" / "figures", "spectrum", ("png", "svg"))
    except (LabError, ValueError) as error:
        sys.stderr.write(f"draw_spectrum: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
