"""Look of all figures, and saving them as files.

The first colours are Okabe and Ito's, which people with any kind of colour vision can tell apart; six more follow, then
the same with markers. The base is grey. The same records and versions give the same bytes.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from aon.lab.errors import LabError
from aon.lab.report.summary import Results
from aon.lab.system.files import replacing

FORMATS = ("png", "svg", "pdf")
GREY = "#5f6368"
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#332288", "#882255", "#6B4C2A", "#8DB600", "#9A7FE0", "#FF8A80"),
)
LONGEST = 40  # characters; a longer name would leave no room for the figure
MARKERS = ("", "o", "s", "^", "D", "v")

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "figure.dpi": 100,
    "savefig.dpi": 200,
    # A label with a dollar sign is a label, not a formula, and could not be parsed as one.
    "text.parse_math": False,
    "svg.hashsalt": "aon",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
# Dates are left out so that drawing the same records again gives the same file.
_METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Style:
    """Colour and marker of one method, the same in every figure and on the page."""

    colour: str
    marker: str


def styles(results: Results) -> dict[str, Style]:
    """A style for each method: the base grey, then the palette, then the palette again with markers."""
    others = [method for method in results.methods if method != results.base]
    found = {method: Style(COLOURS[i % len(COLOURS)], _marker(i)) for i, method in enumerate(others)}
    return {results.base: Style(GREY, ""), **found}


def _marker(place: int) -> str:
    return MARKERS[place // len(COLOURS) % len(MARKERS)]


def save(figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figure in each format; each file is whole or absent.

    Raises:
        LabError: a format is not one of png, svg and pdf, or a file cannot be written.
    """
    for suffix in formats:
        if suffix not in FORMATS:
            raise LabError(f"figures can be {', '.join(FORMATS)}, not {suffix!r}")
    paths = [folder / f"{name}.{suffix}" for suffix in formats]
    with styled(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; that is no reason to trouble the user.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for path, suffix in zip(paths, formats, strict=True):
            with replacing(path) as file:
                figure.savefig(file, format=suffix, metadata=_METADATA[suffix])
            figure.set_layout_engine("none")  # the next format has the same layout; finding it is a third of the time
    return paths


def plain(text: str) -> str:
    """Text that can stand in a figure: short, no control characters, no first `_`, which hides it from a legend.

    Example:
        >>> plain("a" + chr(0) + "b"), plain("_c")
        ('a?b', ' _c')
    """
    shown = "".join(character if character.isprintable() else "?" for character in text)
    shown = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
    return f" {shown}" if shown.startswith("_") else shown


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window and to no global list."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def whole_numbers() -> MaxNLocator:
    """Ticks at round epochs."""
    return MaxNLocator(integer=True, steps=[1, 2, 5, 10])


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save in our look."""
    # Nothing of the user's matplotlibrc reaches our files, and nothing of ours their other figures.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield
