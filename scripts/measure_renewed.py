"""Test accuracy of the study's last weights with the statistics of batch normalisation recomputed for them.

    python scripts/measure_renewed.py measure [RUNS]    finished runs below RUNS (runs/study), into results/renewed
    python scripts/measure_renewed.py write             the table of docs/reproducing.md

`measure` needs CIFAR-10 (AON_DATA) and the weights that runs leave in their folders; it continues where it stopped. The
statistics are means over one epoch of training batches, with crops and flips as in training.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import torch
from scripts.exploratory import gain_of_few, label
from scripts.measure_jumps import accuracy, renew_statistics
from scripts.study import AGAIN, PLANS, ROOT

from aon.lab.data import train_batches
from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import RunConfig, make
from aon.lab.experiment.plans import plan_comparison
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING
from aon.lab.report.statistics import difference
from aon.lab.system.files import write_text
from aon.lab.training import checkpoints, machine, preparation

RENEWED = ROOT / "results" / "renewed"
PAGE = ROOT / "docs" / "reproducing.md"
BEGIN, END = "<!-- renewed: begin (made by scripts/measure_renewed.py) -->", "<!-- renewed: end -->"
NORMALISER = "bn"
TO_ZERO = ("linear", "cosine")
ROUNDING = 0.05  # points; five of 10,000 test images may fall to the other side on another processor


class Renewal(NamedTuple):
    """Test accuracy of a run's last weights: with the statistics it ended with, and with those recomputed.

    Attributes:
        folder: Name of the comparison that the run belongs to.
        config: The run.
        plain: In percent, with the statistics it ended with.
        renewed: In percent, with those recomputed.
    """

    folder: str
    config: RunConfig
    plain: float
    renewed: float

    @property
    def change(self) -> float:
        """What recomputing changes, in points; 0 within rounding."""
        gain = self.renewed - self.plain
        return gain if abs(gain) > ROUNDING else 0.0


def retest(folder: Path, root: Path | None = None) -> Renewal:
    """Test a finished run's last weights twice.

    Args:
        folder: The run's, with its weights.
        root: Where datasets are kept; the usual place if not given.

    Raises:
        LabError: if the weights are missing, or do not give the accuracy that the record has.
    """
    record = records.load(folder)
    config, said = record.config, record.last
    data = preparation.load_data(config, root)
    parts = preparation.assemble(config, data, torch.device("cpu"))
    parts.model.load_state_dict(checkpoints.load_weights(folder / checkpoints.LAST)[0])
    plain = accuracy(parts, data, config.batch_size, "test")
    if said is None or said.test_accuracy is None or abs(plain - said.test_accuracy) > ROUNDING:
        raise LabError(f"{folder}: its weights have {plain:.2f} % where its record says {said and said.test_accuracy}")
    renew_statistics(
        parts, train_batches(data, config.batch_size, seed=config.seed, epoch=config.epochs, augment=config.augment)
    )
    return Renewal(folder.parents[1].name, config, plain, accuracy(parts, data, config.batch_size, "test"))


def measure(runs: Path, out: Path = RENEWED) -> None:
    """Make the records that are not there yet.

    Args:
        runs: A folder of comparisons.
        out: Where the records go, in a folder for each comparison.
    """
    torch.set_num_threads(1)
    for folder in sorted(path.parent for path in runs.rglob(checkpoints.LAST)):
        record = records.load(folder)
        path = out / folder.parents[1].name / f"{folder.name}.json"
        if path.exists() or record.status != "done" or not record.config.method.startswith(NORMALISER):
            continue
        found = retest(folder)
        environment = machine.environment(torch.device("cpu")).model_dump(mode="json")
        row = {"config": found.config.model_dump(mode="json"), "plain": found.plain, "renewed": found.renewed}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(row | {"environment": environment}, indent=1) + "\n")
        print(f"{path.name}: {found.plain:.2f} % -> {found.renewed:.2f} %", flush=True)  # noqa: T201


def load(folder: Path = RENEWED) -> list[Renewal]:
    """Every record."""
    rows = {path: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/*.json"))}
    return [Renewal(path.parent.name, make(row["config"]), row["plain"], row["renewed"]) for path, row in rows.items()]


def table(tested: Sequence[Renewal]) -> str:
    """A line for each setting and method: both accuracies, and both differences to BN, paired by seed.

    Args:
        tested: Runs of any settings.
    """
    lines = [
        "| | | seeds | last epoch | statistics recomputed | less BN | less BN, both recomputed |",
        "|:--|:--|--:|--:|--:|--:|--:|",
    ]
    main = plan_comparison({}, PLANS / "cifar10-main.toml").base
    groups: dict[str, list[Renewal]] = {}
    for one in tested:
        repeated = " (repeated)" if one.folder == AGAIN.folder else ""
        groups.setdefault(label(one.config, main) + repeated, []).append(one)
    for name, own in groups.items():
        lines += [f"| {name} | {' | '.join(cells)} |" for cells in _lines(own)]
    return "\n".join(lines)


def _lines(own: Sequence[Renewal]) -> Iterator[list[str]]:
    """The cells of each method of one setting."""
    plain: dict[str, dict[int, float]] = {one.config.method: {} for one in own}
    renewed: dict[str, dict[int, float]] = {one.config.method: {} for one in own}
    for one in own:
        plain[one.config.method][one.config.seed] = one.plain
        renewed[one.config.method][one.config.seed] = one.renewed
    for method in sorted(plain, key=lambda method: (method != NORMALISER, method)):
        means = [f"{fmean(scores[method].values()):.2f}" for scores in (plain, renewed)]
        yield [parse(method).label, str(len(plain[method])), *means, _less(plain, method), _less(renewed, method)]


def _less(scores: dict[str, dict[int, float]], method: str) -> str:
    """The difference to BN over the seeds of both; none for BN itself."""
    base = scores.get(NORMALISER, {})
    if method == NORMALISER or not scores[method].keys() & base.keys():
        return NOTHING
    return gain_of_few(difference(scores[method], base))


def changes(tested: Sequence[Renewal]) -> str:
    """What recomputed statistics do to the runs whose learning rate falls to zero, and to the others."""
    lines = []
    for words, to_zero in (("does not fall to zero", False), ("falls to zero", True)):
        gains = [one.change for one in tested if (one.config.schedule in TO_ZERO) is to_zero]
        if gains:
            lines.append(f"- Where the learning rate {words}, {_counted(gains)}.")
    lines.append(f"- Changes of {ROUNDING} points and less do not count: another processor's rounding makes as much.")
    return "\n".join(lines)


def _counted(gains: Sequence[float]) -> str:
    """In how many runs accuracy rises and falls, and by how much."""
    if not any(gains):
        return f"it changes none of {len(gains)} runs by more than {ROUNDING} points"
    higher, lower = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    spread = f"from {min(gains):+.2f} to {max(gains):+.2f} points, median {median(gains):+.2f}"
    return f"it raises {higher} and lowers {lower} of {len(gains)} runs: {spread}"


def page(text: str) -> str:
    """The page with its table made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    tested = load()
    return "\n\n".join([f"{before}{BEGIN}", table(tested), changes(tested), f"{END}{after}"])


def main(args: Sequence[str]) -> None:
    """Do what the first word says."""
    try:
        if args[:1] == ["measure"] and len(args) <= 2:
            measure(Path(args[1]) if len(args) == 2 else ROOT / "runs" / "study")
        elif list(args) == ["write"]:
            write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))
        else:
            sys.exit("expected `measure [RUNS]` or `write`")
    except LabError as error:
        sys.exit(f"measure_renewed: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
