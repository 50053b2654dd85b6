"""Measure the spectrum of h(W) for usual starts and shapes, and write the tables of docs/expansions.md from it.

    python scripts/measure_spectra.py measure    # results/expansions/spectra.json
    python scripts/measure_spectra.py write      # docs/expansions.md, from that record and from the trainings beside it

Every map is exact (aon.functional.approx_orthonormal, float64), so that the numbers are those of the polynomial alone.
"""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import aon
from aon.functional import approx_orthonormal, orthonormality_error
from aon.lab.system.files import write_text

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "expansions" / "spectra.json"
PAGE = ROOT / "docs" / "expansions.md"
BEGIN, END = "<!-- spectra: begin (made by scripts/measure_spectra.py) -->", "<!-- spectra: end -->"

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
    versions = {"aon": aon.__version__, "torch": torch.__version__, "python": platform.python_version()}
    return {"command": "python scripts/measure_spectra.py measure", "versions": versions, "rows": rows}


def _spectrum(H: Tensor) -> dict[str, float]:
    s = torch.linalg.eigvalsh(H.mT @ H if H.shape[0] > H.shape[1] else H @ H.mT).flip(-1).clamp_min(0).sqrt()
    ratio = s / s[0]
    return {
        "error": float(orthonormality_error(H)),
        "smallest": float(ratio[-1]),
        "median": float(ratio.median()),
    }


def table(record: dict[str, Any]) -> str:
    """The record as a table of Markdown: orthonormality errors, the least of a row in bold."""
    names = list(record["rows"][0]["maps"])
    lines = [f"| weight | start | {' | '.join(names)} |", f"|:--|:--|{'--:|' * len(names)}"]
    for row in record["rows"]:
        errors = [row["maps"][name]["error"] for name in names]
        cells = [f"**{error:.2f}**" if error == min(errors) else f"{error:.2f}" for error in errors]
        lines.append(f"| {row['shape']}, {row['size'][0]} x {row['size'][1]} | {row['start']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write() -> None:
    """Fill the table into its page."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    write_text(PAGE, f"{head}{BEGIN}\n\n{table(record)}\n\n{END}{tail}")


def main(args: list[str]) -> int:
    """Do what the one word says."""
    if args == ["measure"]:
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        write_text(RECORD, json.dumps(measure(), indent=1) + "\n")
    elif args == ["write"]:
        write()
    else:
        sys.stderr.write(f"measure_spectra: {' '.join(args) or 'nothing'}: expected measure or write\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
