"""Measure how far |h(W)| is above 1 while training takes large steps, by the number of power steps.

    python scripts/measure_lag.py measure    # results/expansions/lag.json, about a minute on a quiet core
    python scripts/measure_lag.py write      # the table of docs/options.md

The kept vector u moves `n_power_iterations` steps for each update of W. Where W moves fast it lags behind, sigma is
under-estimated and |h(W)| is above 1. Here the optimiser's step is large on purpose.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import aon
from aon.lab.data import train_batches
from aon.lab.experiment.config import RunConfig
from aon.lab.system.files import write_text
from aon.lab.training import machine, preparation

ROOT = Path(__file__).resolve().parents[1]
RECORD, PAGE = ROOT / "results" / "expansions" / "lag.json", ROOT / "docs" / "options.md"
BEGIN, END = "<!-- lag: begin (made by scripts/measure_lag.py) -->", "<!-- lag: end -->"
ABOVE, STEPS = 1.1, 60
METHODS = {
    "bn+aon": "1",
    "bn+aon:iterations=2": "2",
    "bn+aon:iterations=5": "5",
    "bn+aon:expansion=minimax": "1, `expansion=\"minimax\"`",
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "network": "vgg16-iternorm", "width": 0.125, "batch_size": 64, "learning_rate": 0.3, "device": "cpu", "threads": 1,
}  # fmt: skip


def measure_run(config: RunConfig, steps: int = STEPS) -> list[list[float]]:
    """The true |h(W)| of every layer, as the forward of each step used it."""
    torch.manual_seed(config.seed)
    data = preparation.load_data(config)
    parts = preparation.assemble(config, data, torch.device("cpu"))
    batches = train_batches(data, config.batch_size, seed=config.seed, epoch=0, augment=config.augment)
    rows = []
    for _, (x, y) in zip(range(steps), batches, strict=False):
        parts.optimiser.zero_grad()
        cross_entropy(parts.model(x.contiguous(memory_format=parts.memory_format)), y).backward()
        # Reading repeats the step of the last forward.
        rows.append([row.normalised_max for row in aon.spectra(parts.model)])
        parts.optimiser.step()
    return rows


def summary(rows: list[list[float]]) -> dict[str, float]:
    """Share of steps in which a layer is above the limit, share of all layers and steps, and the largest norm."""
    norms = [norm for row in rows for norm in row]
    return {
        "steps_above": sum(max(row) > ABOVE for row in rows) / len(rows),
        "layers_above": sum(norm > ABOVE for norm in norms) / len(norms),
        "largest": max(norms),
    }


def measure() -> None:
    """Write the record."""
    torch.set_num_threads(1)
    configs = {method: RunConfig(method=method, **SETTINGS) for method in METHODS}
    found = {method: summary(measure_run(config)) for method, config in configs.items()}
    environment = machine.environment(torch.device("cpu")).model_dump(mode="json")
    record = {"settings": SETTINGS, "steps": STEPS, "above": ABOVE, "environment": environment, "methods": found}
    write_text(RECORD, json.dumps(record, indent=1) + "\n")


def table(record: dict[str, Any]) -> str:
    """The record as a table of Markdown."""
    lines = [
        f"| `n_power_iterations` | steps in which a layer has a norm above {record['above']:g} "
        "| layers and steps above it | largest norm |",
        "|:--|--:|--:|--:|",
    ]
    for method, found in record["methods"].items():
        shares = f"{found['steps_above']:.0%} | {found['layers_above']:.1%} | {found['largest']:.2f}"
        lines.append(f"| {METHODS[method]} | {shares} |")
    return "\n".join(lines)


def write() -> None:
    """Fill the table into its page."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    write_text(PAGE, f"{head}{BEGIN}\n\n{table(record)}\n\n{END}{rest.partition(END)[2]}")


def main(args: list[str]) -> int:
    """Do what the one word says."""
    if args == ["measure"]:
        measure()
    elif args == ["write"]:
        write()
    else:
        sys.stderr.write(f"measure_lag: {' '.join(args) or 'nothing'}: expected measure or write\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
