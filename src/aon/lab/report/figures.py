"""All figures of a report by the name of their file; each draws `Results`, or gives None where it has no data."""

from collections.abc import Callable

from matplotlib.figure import Figure

from aon.lab.report import curves, paper_figures, spectra_figures
from aon.lab.report.summary import Results

FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "curves-best": curves.best_curves,
    "curves-mean": curves.mean_curves,
    "curves-seeds": curves.seed_curves,
    "paper-figure-1": paper_figures.figure_1,
    "paper-figure-2": paper_figures.figure_2,
    "spectra-by-layer": spectra_figures.by_layer,
    "spectra-over-time": spectra_figures.over_time,
    "orthonormality": spectra_figures.against_orthonormality,
}
