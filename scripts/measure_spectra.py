"""Measure the spectrum of h(W) for usual starts and shapes, and write the tables of docs/expansions.md from it.

    python scripts/measure_spectra.py measure    # results/expansions/spectra.json
    python scripts/measure_spectra.py compose    # results/expansions/composition.json
    python scripts/measure_spectra.py write      # docs/expansions.md, from both

Every map is exact (aon.functional.approx_orthonormal, float64), so that the numbers are those of the polynomial alone.
"""

import json
import platform
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import aon
from aon.functional import approx_orthonormal, orthonormality_error
from aon.kernels.minimax import least_deviation
from aon.lab.system.files import write_text

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "expansions" / "spectra.json"
COMPOSED = RECORD.with_name("composition.json")
PAGE = ROOT / "docs" / "expansions.md"
BEGIN, END = "<!-- spectra: begin (made by scripts/measure_spectra.py) -->", "<!-- spectra: end -->"
COMPOSITION = "<!-- composition: begin (made by scripts/measure_spectra.py) -->"
COMPOSITION_END = "<!-- composition: end -->"

SHAPES = {
    "MLP, square": (256, 256),
    "MLP, tall": (1024, 256),
    "3x3 convolution of 64 channels": (64, 576),
    "GPT-2 attention": (768, 768),
    "GPT-2 feed-forward, up": (3072, 768),
    "GPT-2 feed-forward, down": (768, 3072),
    "ViT-Tiny attention": (192, 192),
}
STARTS: dict[str, Callable[[Tensor], object]] = {
    "torch's default": lambda W: nn.init.kaiming_uniform_(W, a=5**0.5),
    "Xavier": nn.init.xavier_normal_,
    "He": lambda W: nn.init.kaiming_normal_(W, nonlinearity="relu"),
    "N(0, 0.02)": lambda W: nn.init.normal_(W, std=0.02),
}
MAPS: dict[str, dict[str, Any]] = {
    "the paper's, q = 2": {},
    "centre mean": {"centre": "mean"},
    "prescale": {"prescale": True},
    "centre top": {"centre": "top"},
    "minimax, q = 2": {"expansion": "minimax"},
    "minimax, q = 4": {"order": 4, "expansion": "minimax"},
}
# One polynomial beside two in a row: all of least deviation for the interval from 0.1 on.
LOWER, LARGEST = 0.1, 256
PRODUCTS = {"minimax, q = 8": 4, "two of q = 2 in a row": 5, "minimax, q = 10": 5}  # of k x k matrices, forward


def measure() -> dict[str, Any]:
    """Orthonormality error and smallest and median singular value over the largest, of W and of each h(W)."""
    rows = []
    for shape_name, shape in SHAPES.items():
        for start_name, start in STARTS.items():
            torch.manual_seed(0)
            W = torch.empty(shape, dtype=torch.float64)
            start(W)
            found = {"W itself": _spectrum(W)}
            found |= {name: _spectrum(approx_orthonormal(W, **options)) for name, options in MAPS.items()}
            rows.append({"shape": shape_name, "size": list(shape), "start": start_name, "maps": found})
    return {"command": "python scripts/measure_spectra.py measure", "versions": _versions(), "rows": rows}


def _versions() -> dict[str, str]:
    return {"aon": aon.__version__, "torch": torch.__version__, "python": platform.python_version()}


def compose() -> dict[str, Any]:
    """The same of one polynomial of high order beside two in a row, for He's start of the smaller shapes."""
    rows = []
    for name, shape in SHAPES.items():
        if min(shape) <= LARGEST:
            torch.manual_seed(0)
            W = torch.empty(shape, dtype=torch.float64)
            STARTS["He"](W)
            rows.append({"shape": name, "size": list(shape), "maps": {k: _spectrum(H) for k, H in _high(W).items()}})
    return {"command": "python scripts/measure_spectra.py compose", "versions": _versions(), "rows": rows}


def _high(W: Tensor) -> dict[str, Tensor]:
    """h(W) by the maps of `PRODUCTS`; the second of two is made for the interval that the first leaves."""
    once = partial(approx_orthonormal, expansion="minimax")
    deviation = least_deviation(2, LOWER).deviation
    left = (1 - deviation) / (1 + deviation)
    single = {f"minimax, q = {order}": once(W, order, lower=LOWER) for order in (8, 10)}
    found = single | {"two of q = 2 in a row": once(once(W, 2, lower=LOWER), 2, lower=left)}
    return {name: found[name] for name in PRODUCTS}


def _spectrum(H: Tensor) -> dict[str, float]:
    s = torch.linalg.eigvalsh(H.mT @ H if H.shape[0] > H.shape[1] else H @ H.mT).flip(-1).clamp_min(0).sqrt()
    ratio = s / s[0]
    return {
        "error": float(orthonormality_error(H)),
        "smallest": float(ratio[-1]),
        "median": float(ratio.median()),
    }


def table(record: dict[str, Any]) -> str:
    """The spectra as a table of Markdown: orthonormality errors, the least of a row in bold."""
    names = list(record["rows"][0]["maps"])
    lines = [f"| weight | start | {' | '.join(names)} |", f"|:--|:--|{'--:|' * len(names)}"]
    for row in record["rows"]:
        errors = [row["maps"][name]["error"] for name in names]
        cells = [f"**{error:.2f}**" if error == min(errors) else f"{error:.2f}" for error in errors]
        lines.append(f"| {row['shape']}, {row['size'][0]} x {row['size'][1]} | {row['start']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def composition(record: dict[str, Any]) -> str:
    """One polynomial beside two in a row, for He's start: error, and smallest and median singular value."""
    lines = ["| weight | map | products of k x k | error | smallest | median |", "|:--|:--|--:|--:|--:|--:|"]
    for row in record["rows"]:
        for name, found in row["maps"].items():
            numbers = f"{PRODUCTS[name]} | {found['error']:.3f} | {found['smallest']:.3f} | {found['median']:.3f}"
            lines.append(f"| {row['shape']}, {row['size'][0]} x {row['size'][1]} | {name} | {numbers} |")
    return "\n".join(lines)


def write() -> None:
    """Fill the tables into their page."""
    spectra, composed = (json.loads(path.read_text(encoding="utf-8")) for path in (RECORD, COMPOSED))
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, made in ((BEGIN, END, table(spectra)), (COMPOSITION, COMPOSITION_END, composition(composed))):
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    write_text(PAGE, text)


def main(args: list[str]) -> int:
    """Do what the one word says."""
    if args == ["measure"]:
        write_text(RECORD, json.dumps(measure(), indent=1) + "\n")
    elif args == ["compose"]:
        write_text(COMPOSED, json.dumps(compose(), indent=1) + "\n")
    elif args == ["write"]:
        write()
    else:
        sys.stderr.write(f"measure_spectra: {' '.join(args) or 'nothing'}: expected measure, compose or write\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
