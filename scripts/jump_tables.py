"""The tables of docs/reproducing.md on why validation accuracy jumps, from the records in results/.

    python scripts/jump_tables.py

Records come from scripts/measure_jumps.py (results/jumps), the study (results/study/cifar10) and results/quick.
"""

import json
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from scripts.accuracy_tables import rank_correlation
from scripts.measure_jumps import RECORDS, ROOT, VARIANTS

from aon.lab.experiment.config import RunConfig, make
from aon.lab.experiment.records import Record, SpectrumRow, load_all
from aon.lab.report.cells import NOTHING, gain_with_interval
from aon.lab.report.statistics import Difference, difference
from aon.lab.system.files import write_text

PAGE = ROOT / "docs" / "reproducing.md"
BEGIN, END = "<!-- jumps: begin (made by scripts/jump_tables.py) -->", "<!-- jumps: end -->"
STUDY, STUDY_100 = ROOT / "results" / "study" / "cifar10", ROOT / "results" / "study" / "cifar100"
QUICK = ROOT / "results" / "quick"
ENOUGH_SEEDS, ENOUGH_RUNS = 3, 20
CAUSES = {
    "change": "change of h a step",
    "norm_h": "largest norm of h",
    "outside": "share outside",
    "error": "orthonormality error",
}
SMALLER, LARGER, NO_DIFFERENCE = "smaller jumps", "larger jumps", "no difference shown"
HIGHER, LOWER = "last validation accuracy higher", "last validation accuracy lower"
COMPARED = ("jumps", "validation", "validation_renewed", "change")
Rows = list[dict[str, float]]


class Pair(NamedTuple):
    """Two variants that differ in one thing."""

    change: str
    changed: str
    base: str


PAIRS = (
    Pair("AON in place of BN", "paper", "bn"),
    Pair("AON: five power iterations a step", "power-5", "paper"),
    Pair("AON: half the learning rate", "half", "paper"),
    Pair("AON: a quarter of the learning rate", "quarter", "paper"),
    Pair("AON: learning rate falling to zero", "linear", "paper"),
    Pair("minimax in place of AON", "minimax", "paper"),
    Pair("minimax: size of W held", "held", "minimax"),
    Pair("minimax in place of AON, both with the learning rate falling to zero", "minimax-linear", "linear"),
    Pair("minimax in place of AON at half the learning rate", "minimax", "half"),
    Pair("penalty in place of AON", "orth", "paper"),
    Pair("minimax in place of BN", "minimax", "bn"),
    Pair("penalty in place of BN", "orth", "bn"),
)


def late(values: list[float]) -> list[float]:
    """The second half of a curve."""
    return values[len(values) // 2 :]


def jumps(values: Sequence[float], drops: Collection[int] = ()) -> float:
    """Mean size of the changes of a curve from one epoch to the next, over its second half.

    Args:
        values: One for each epoch.
        drops: Epochs, counted from 0, that are left out because the learning rate drops in them: accuracy rises there
            for good, which is no jump.
    """
    late_epochs = range(len(values) // 2 + 1, len(values))
    return fmean(abs(values[epoch] - values[epoch - 1]) for epoch in late_epochs if epoch not in drops)


def drops(config: RunConfig) -> set[int]:
    """The epochs, counted from 0, in which a schedule of steps lowers the learning rate."""
    if config.schedule != "steps":
        return set()
    return {math.floor(round(fraction * config.epochs, 9)) for fraction in config.milestones}


def summary(rows: Rows, config: RunConfig) -> dict[str, float]:
    """The numbers of one run that the tables show."""
    left_out = drops(config)
    column = {key: [row[key] for row in rows] for key in rows[0]}
    return {
        "validation": column["validation"][-1],
        "validation_renewed": column["validation_renewed"][-1],
        "jumps": jumps(column["validation"], left_out),
        "jumps_renewed": jumps(column["validation_renewed"], left_out),
        "train_loss": column["train_loss"][-1],
        "change": fmean(late(column["change"])),
        "norm_W": column["norm_W"][-1],
        "norm_h": max(column["norm_h"]),
        "outside": 100 * column["outside"][-1],
        "median_h": column["median_h"][-1],
        "error": column["error"][-1],
    }


def has_map(variant: str) -> bool:
    """Whether a variant computes h(W); in the others it is W itself, which has no sigma that could lag."""
    return "aon" in VARIANTS[variant].settings["method"]


def variants_table(runs: dict[str, dict[int, dict[str, float]]]) -> str:
    """A line for each variant: means over its seeds."""
    lines = [
        "| | seeds | last validation | last, statistics renewed | jumps | jumps, statistics renewed | training loss "
        "| change of h a step | norm of W | largest norm of h | outside | smallest median of h | mean error |",
        "|:--|" + "--:|" * 12,
    ]
    for name, by_seed in runs.items():
        cells = [VARIANTS[name].label, str(len(by_seed)), *_cells(list(by_seed.values()), has_map(name))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(runs: list[dict[str, float]], mapped: bool) -> Iterator[str]:
    for key in ("validation", "validation_renewed"):
        last = [run[key] for run in runs]
        yield f"{fmean(last):.1f}" + (f" ± {stdev(last):.1f}" if len(last) > 1 else "")
    formats = {"jumps": ".1f", "jumps_renewed": ".1f", "train_loss": ".2f", "change": ".4f", "norm_W": ".2f"}
    formats |= {"norm_h": ".2f", "outside": ".0f", "median_h": ".2f", "error": ".2f"}
    for key, form in formats.items():
        if key == "norm_h" and not mapped:
            yield NOTHING
        else:
            yield f"{fmean(run[key] for run in runs):{form}}" + (" %" if key == "outside" else "")


def pairs_table(runs: dict[str, dict[int, dict[str, float]]]) -> str:
    """A line for each change of one thing: differences paired by seed, with 95 % intervals where there are several."""
    lines = [
        "| what is changed | seeds | jumps | last validation | last, statistics renewed | change of h a step | |",
        "|:--|--:|--:|--:|--:|--:|:--|",
    ]
    for change, found in _differences(runs).items():
        cells = [gain_with_interval(found.get(key), 4 if key == "change" else 1) for key in COMPARED]
        jumped = found["jumps"]
        lines.append(f"| {' | '.join([change, str(jumped.n), *cells, verdict(jumped)])} |")
    return "\n".join(lines)


def answers(runs: dict[str, dict[int, dict[str, float]]]) -> str:
    """What makes jumps smaller or larger, and what raises or lowers the last validation accuracy."""
    said: dict[str, list[str]] = {words: [] for words in (SMALLER, LARGER, HIGHER, LOWER)}
    for change, found in _differences(runs).items():
        jumped, scored = found["jumps"], found.get("validation")
        if (words := verdict(jumped)) in said:
            said[words].append(f"{change} ({gain_with_interval(jumped, 1)})")
        if scored and (words := verdict(scored, LOWER, HIGHER)) in (LOWER, HIGHER):
            said[words].append(f"{change} ({gain_with_interval(scored, 1)})")
    return "\n".join(f"- *{words.capitalize()}*: {'; '.join(changes)}." for words, changes in said.items() if changes)


def over_all(runs: dict[str, dict[int, dict[str, float]]]) -> str:
    """What the runs of all variants together say: how often renewed statistics help, and what goes with large jumps."""
    every = [run for by_seed in runs.values() for run in by_seed.values()]
    if len(every) < ENOUGH_RUNS:
        return ""
    column = {key: [run[key] for run in every] for key in every[0]}
    less = sum(run["jumps_renewed"] < run["jumps"] for run in every)
    means = [fmean(column[key]) for key in ("jumps", "jumps_renewed")]
    spreads = [_spread_of_last(runs, key) for key in ("validation", "validation_renewed")]
    lines = [
        f"- With statistics renewed the jumps are smaller in {less} of {len(every)} runs: {means[0]:.1f} points become "
        f"{means[1]:.1f} in the mean, a change of {gain_with_interval(_pooled(runs), 1)} (by seed, over the variants).",
        "- The standard deviation of the last validation accuracy over the seeds, mean over the variants: "
        f"{spreads[0]:.1f} points, with statistics renewed {spreads[1]:.1f}.",
    ]
    mapped = [run for name, by_seed in runs.items() if has_map(name) for run in by_seed.values()]
    for key, words in (("jumps", "the jumps"), ("jumps_renewed", "the jumps with statistics renewed")):
        for some, which in ((every, "of all variants"), (mapped, "that have a map")):
            causes = {cause: name for cause, name in CAUSES.items() if cause != "norm_h" or some is mapped}
            ranked = [f"{name} {_ranked(some, cause, key)}" for cause, name in causes.items()]
            lines.append(
                f"- Rank correlation of {words}, over the {len(some)} runs {which}, with: {', '.join(ranked)}."
            )
    return "\n".join(lines)


def _ranked(runs: Rows, cause: str, key: str) -> str:
    return rank_correlation([run[cause] for run in runs], [run[key] for run in runs])


def _pooled(runs: dict[str, dict[int, dict[str, float]]]) -> Difference | None:
    """What renewed statistics do to the jumps: mean over the variants, paired by seed."""
    seeds = set.intersection(*({*own} for own in runs.values()))
    renewed, plain = (
        {seed: fmean(own[seed][key] for own in runs.values()) for seed in seeds} for key in ("jumps_renewed", "jumps")
    )
    return difference(renewed, plain)


def _spread_of_last(runs: dict[str, dict[int, dict[str, float]]], key: str) -> float:
    several = [by_seed.values() for by_seed in runs.values() if len(by_seed) > 1]
    return fmean(stdev(run[key] for run in own) for own in several)


def _differences(runs: dict[str, dict[int, dict[str, float]]]) -> dict[str, dict[str, Difference]]:
    """For each change of one thing that was measured, the differences of what `COMPARED` names."""
    paper = runs.get("paper", {})
    renewed = {seed: {"jumps": run["jumps_renewed"]} for seed, run in paper.items()}
    rows = [("AON: statistics renewed before validation", renewed, paper)]
    rows += [(pair.change, runs.get(pair.changed, {}), runs.get(pair.base, {})) for pair in PAIRS]
    found: dict[str, dict[str, Difference]] = {}
    for change, ours, base in rows:
        keys = COMPARED if ours is not renewed else ("jumps",)
        own = {key: one for key in keys if (one := _difference(ours, base, key))}
        if own:
            found[change] = own
    return found


def _difference(ours: dict[int, Any], base: dict[int, Any], key: str) -> Difference | None:
    if not ours.keys() & base.keys():
        return None
    return difference({seed: run[key] for seed, run in ours.items()}, {seed: run[key] for seed, run in base.items()})


def verdict(found: Difference, less: str = SMALLER, more: str = LARGER) -> str:
    """What may be said of a difference, by its interval; nothing with fewer than three seeds."""
    if found.n < ENOUGH_SEEDS or found.low is None or found.high is None:
        return "too few seeds"
    if found.low > 0 or found.high < 0:
        return more if found.value > 0 else less
    return NO_DIFFERENCE


def records_table(runs: list[Record]) -> str:
    """The same of runs of the laboratory, as far as their records tell: a line for each method."""
    lines = [
        "| | seeds | jumps | less BN's | less AON's | training loss | norm of W | outside | smallest median of h "
        "| mean error |",
        "|:--|" + "--:|" * 9,
    ]
    by_method: dict[str, dict[int, dict[str, float]]] = {}
    for run in runs:
        if run.status == "done" and any(epoch.spectra for epoch in run.epochs):
            by_method.setdefault(run.label, {})[run.config.seed] = _of_record(run)
    for label, own in by_method.items():
        less = [
            gain_with_interval(_difference(own, by_method.get(base, {}), "jumps") if label != base else None, 1)
            for base in ("BN", "BN+AON(q=2)")
        ]
        cells = [f"{fmean(run[key] for run in own.values()):{form}}" for key, form in _FORMS.items()]
        lines.append(f"| {' | '.join([label, str(len(own)), cells[0], *less, *cells[1:]])} |")
    return "\n".join(lines)


_FORMS = {"jumps": ".1f", "train_loss": ".2f", "norm_W": ".2f", "outside": ".0%", "median_h": ".2f", "error": ".2f"}


def _of_record(run: Record) -> dict[str, float]:
    layers: tuple[SpectrumRow, ...] = next(epoch.spectra for epoch in reversed(run.epochs) if epoch.spectra)
    return {
        "jumps": jumps([epoch.val_accuracy for epoch in run.epochs], drops(run.config)),
        "train_loss": run.epochs[-1].train_loss,
        "norm_W": fmean(layer.weight_max for layer in layers),
        "outside": fmean(layer.outside or 0.0 for layer in layers),
        "median_h": min(layer.normalised_median / layer.normalised_max for layer in layers),
        "error": fmean(layer.error or 0.0 for layer in layers),
    }


def load(folder: Path = RECORDS) -> dict[str, dict[int, dict[str, float]]]:
    """The summary of every record by variant and seed."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for name in VARIANTS:
        for path in sorted(folder.glob(f"{name}-s*.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            config = make(record["settings"])
            found.setdefault(name, {})[config.seed] = summary(record["epochs"], config)
    return found


def page(text: str) -> str:
    """The page with its tables made anew."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    runs = load()
    parts = [
        "The study's runs on CIFAR-10 (learning rate 0.1, halved twice):",
        records_table(load_all(STUDY)),
        "The study's runs on CIFAR-100:",
        records_table(load_all(STUDY_100)),
        "The runs of `quick` (learning rate falling from 0.05 to zero):",
        records_table(load_all(QUICK)),
    ]
    if runs:
        parts += ["The smaller runs:", variants_table(runs)]
        parts += ["Differences between them, paired by seed, with 95 % intervals:", pairs_table(runs), answers(runs)]
        if together := over_all(runs):
            parts += ["All of these runs together:", together]
    else:
        parts.append("The smaller runs have not been made yet.")
    return "\n\n".join([f"{before}{BEGIN}", *filter(None, parts), f"{END}{after}"])


if __name__ == "__main__":
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))
