"""Look of all figures, the names in them, and saving them as files.

The first colours are Okabe and Ito's, which people with any kind of colour vision can tell apart; six more follow, then
the same with markers. The base is grey. The same records and versions give the same bytes.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from aon.lab.errors import LabError
from aon.lab.report.summary import Results, Row, varying
from aon.lab.system.files import replacing

FORMATS = ("png", "svg", "pdf")
GREY = "#5f6368"
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#332288", "#882255", "#6B4C2A", "#8DB600", "#9A7FE0", "#FF8A80"),
)
LONGEST = 40  # characters; a longer name would leave no room for the figure
LONGEST_WRAPPED = 80  # of a method or of one setting, where it may take several lines
MARKERS = ("", "o", "s", "^", "D", "v")

Weight = Literal["normal", "bold"]
_FONT = "DejaVu Sans"
_STYLE: dict[str, Any] = {
    "font.family": _FONT,
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
    # A tick reads 1.00000001, not 1e-8 with +1 in a corner.
    "axes.formatter.useoffset": False,
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
    with styled(), _boxes_for_glyphs():
        for path, suffix in zip(paths, formats, strict=True):
            with replacing(path) as file:
                figure.savefig(file, format=suffix, metadata=_METADATA[suffix])
            figure.set_layout_engine("none")  # the next format has the same layout; finding it is a third of the time
    return paths


def plain(text: str, longest: int = LONGEST) -> str:
    """Text that can stand in a figure: short, no control characters, no first `_`, which hides it from a legend.

    Long text loses its middle: paths and settings differ more often at their ends.

    Example:
        >>> plain("a" + chr(0) + "b"), plain("_c"), plain("data/first.npz", longest=9)
        ('a?b', ' _c', 'data….npz')
    """
    shown = "".join(character if character.isprintable() else "?" for character in text)
    if len(shown) > longest:
        shown = f"{shown[: longest // 2]}…{shown[len(shown) - (longest - 1) // 2 :]}"
    return f" {shown}" if shown.startswith("_") else shown


def short_settings(rows: Sequence[Row]) -> dict[str, str]:
    """For each setting of the rows, what distinguishes it from the most usual one, which is named in full.

    The most usual setting is the one that the others differ least from. So `learning rate 0.1 · schedule steps` stands
    beside `learning rate 0.2` and `schedule linear`.
    """
    parts = dict(zip((row.setting for row in rows), varying([row.runs[0] for row in rows]), strict=True))
    every = list(parts.values())
    usual = min(every, key=lambda one: sum(len(_differing(other, one)) for other in every), default=())
    named = {setting: _differing(own, usual) or own for setting, own in parts.items()}
    return {setting: " · ".join(plain(part, LONGEST_WRAPPED) for part in own) for setting, own in named.items()}


def _differing(parts: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for part, other in zip(parts, usual, strict=True) if part != other)


def wrapped(text: str, inches: float, size: float, weight: Weight = "bold") -> str:
    """Text in lines that are no wider than this, broken between settings, else between words, else anywhere.

    Args:
        text: What to write.
        inches: Width of a line.
        size: Of the font, in points.
        weight: Of the font.
    """

    def fits(line: str) -> bool:
        return text_width(line, size, weight) <= inches

    lines = [""]
    for separator, piece in _pieces(text, fits):
        longer = f"{lines[-1]}{separator}{piece}" if lines[-1] else piece
        lines[-1:] = [longer] if fits(longer) else [lines[-1], piece]
    return "\n".join(filter(None, lines))


def _pieces(text: str, fits: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Settings, or the words of one too long for a line, or parts of such a word; each with what goes before it."""
    for setting in text.split(" · "):
        separator = " · "
        for word in [setting] if fits(setting) else setting.split():
            rest = word
            while rest:
                length = next((i for i in range(len(rest), 1, -1) if fits(rest[:i])), 1)
                yield separator, rest[:length]
                separator, rest = "", rest[length:]
            separator = " "


def text_width(text: str, size: float, weight: Weight = "normal") -> float:
    """Width of the widest line of a text in inches."""
    font = FontProperties(family=_FONT, size=size, weight=weight)
    with _boxes_for_glyphs():
        lines = (text_to_path.get_text_width_height_descent(line, font, ismath=False) for line in text.splitlines())
        return float(max((width for width, _, _ in lines), default=0)) / 72  # points in an inch


@contextmanager
def _boxes_for_glyphs() -> Iterator[None]:
    """A name in a script that the font lacks is drawn as boxes; that is no reason to trouble the user."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


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
