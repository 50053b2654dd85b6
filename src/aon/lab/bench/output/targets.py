"""Targets of the benchmarks, and the table that sets the measured values beside them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aon.lab.bench.cases.accumulate import SHARED
from aon.lab.bench.cases.step import PLAIN_STEP
from aon.lab.bench.cases.train import ENGINE
from aon.lab.bench.peers import PLAIN, ours
from aon.lab.bench.record import BenchRecord, Case
from aon.lab.bench.rounds import Ratio, ratio

NOTHING = "-"
VGG = {"network": "vgg16-iternorm", "width": 1.0, "device": "cpu"}
SPECTRAL = ("torch-spectral-norm", "torch-spectral-norm-hook")
Find = Callable[[Case], tuple[Ratio, str] | None]


@dataclass(frozen=True)
class Target:
    """A number that a benchmark should reach.

    Attributes:
        measure: What is measured.
        bound: The value to reach.
        bench: The benchmark that measures it.
        settings: Settings that its record must have.
        find: Returns the number from the record's first case with a note, or None if it is not there.
        command: The command that measures it.
        comparison: The paper's number, if it has one.
        at_least: Whether the bound is a lower bound.
    """

    measure: str
    bound: float
    bench: str
    settings: dict[str, Any]
    find: Find
    command: str
    comparison: str = ""
    at_least: bool = False

    def is_met(self, value: Ratio) -> bool:
        """Whether the median reaches the bound."""
        return value.median >= self.bound if self.at_least else value.median <= self.bound

    def fits(self, record: BenchRecord) -> bool:
        """Whether the record has these settings; those of before there was a choice have torch's order of memory."""
        given = {"channels_last": False, **record.settings}
        return all(given.get(key) == value for key, value in self.settings.items())

    def newest(self, records: Iterable[BenchRecord]) -> tuple[Ratio, str, BenchRecord] | None:
        """The number from the newest record with these settings; records come oldest first."""
        result = None
        for record in records:
            if record.bench == self.bench and self.fits(record) and _is_usual(record):
                found = self.find(record.cases[0])
                result = (*found, record) if found else result
        return result


def _is_usual(record: BenchRecord) -> bool:
    """Whether it was measured by wall clock, with freed memory kept by the process as in training."""
    memory, clock = record.environment.get("memory", "kept"), record.settings.get("clock", "wall")
    return (memory, clock) == ("kept", "wall")


def over(name: str, *bases: str) -> Find:
    """The ratio of a variant to another one; of several, the one with the largest ratio."""

    def find(case: Case) -> tuple[Ratio, str] | None:
        return _worst(case, name, bases)

    return find


def over_orthogonalisers(case: Case) -> tuple[Ratio, str] | None:
    """The largest ratio of AON of order 2 to a peer that orthogonalises."""
    others = [v.name for v in case.variants if v.facts.get("orthogonalises") and not v.name.startswith("aon")]
    return _worst(case, ours(2), others)


def _worst(case: Case, name: str, bases: Iterable[str]) -> tuple[Ratio, str] | None:
    own = case.variant(name)
    found = []
    for other in (case.variant(base) for base in bases):
        value = ratio(list(own.repeats), list(other.repeats)) if own and other else None
        if other and value:
            found.append((value, f"worst: {other.name}" if len(list(bases)) > 1 else ""))
    return max(found, key=lambda pair: pair[0].median, default=None)


def beyond(name: str) -> Find:
    """The extra peak memory of a variant, in units of the normalised weights."""

    def find(case: Case) -> tuple[Ratio, str] | None:
        variant = case.variant(name)
        if variant is None or "units" not in variant.facts:
            return None
        value = float(variant.facts["units"])
        return Ratio(value, value, value, 1), ""

    return find


def _step(batch: int, network: str = "vgg16-iternorm") -> dict[str, Any]:
    return {**VGG, "network": network, "batch": batch, "compiled": False, "channels_last": False}


# The network of `make compare`, as it is trained there: one thread for each of its processes.
QUICK = {**_step(64), "width": 0.125, "channels_last": True}
QUICK_STEP = "aon bench step --width 0.125 --batch 64 --channels-last --threads 1"
RESNET_STEP = "aon bench step --network resnet20 --batch 128"


TARGETS: tuple[Target, ...] = (
    Target(
        "step, 16-conv VGG, batch 256, order 2, over BN", 1.10, "step", _step(256), over("bn+aon", "bn"),
        "aon bench step --batch 256", "1.58, on a GPU",
    ),
    Target(
        "the same, batch 128", 1.20, "step", _step(128), over("bn+aon", "bn"),
        "aon bench step --batch 128",
    ),
    Target(
        "the same, batch 32", 1.60, "step", _step(32), over("bn+aon", "bn"),
        "aon bench step --batch 32",
    ),
    Target(
        "order 4 over order 2, same step, batch 256", 1.05, "step", _step(256), over("bn+aon:order=4", "bn+aon"),
        "aon bench step --batch 256", "1.20",
    ),
    Target(
        "step, resnet20, batch 128, over BN", 1.06, "step", _step(128, "resnet20"), over("bn+aon", "bn"), RESNET_STEP,
    ),
    Target(
        "the same, over plain autograd", 1.0, "step", _step(128, "resnet20"), over("bn+aon", PLAIN_STEP), RESNET_STEP,
    ),
    Target(
        "step, network of `make compare`, over BN", 1.15, "step", QUICK, over("bn+aon", "bn"), QUICK_STEP,
    ),
    Target(
        "the same, over plain autograd", 1.0, "step", QUICK, over("bn+aon", PLAIN_STEP), QUICK_STEP,
    ),
    Target(
        "map alone, 16-conv VGG, over plain autograd", 0.7, "map", VGG, over(ours(2), PLAIN), "aon bench map",
    ),
    Target(
        "map of order 0 over torch's spectral_norm", 1.0, "map", VGG, over(ours(0), *SPECTRAL), "aon bench map",
    ),
    Target(
        "map of order 2 over every peer that orthogonalises", 0.1, "map", VGG, over_orthogonalisers,
        "aon bench map",
    ),
    Target(
        "evaluation, normalised over plain", 1.02, "eval", VGG, over("normalised", "plain"),
        "aon bench eval",
    ),
    Target(
        "4 micro-batches of 32, over BN doing the same", 1.30, "accumulate", {**VGG, "batch": 32, "micro_batches": 4},
        over("bn+aon" + SHARED, "bn"), "aon bench accumulate",
    ),
    Target(
        "extra peak memory, in bytes of the normalised weights", 1.2, "memory", {**VGG, "batch": 256},
        beyond("bn+aon"), "aon bench memory",
    ),
    Target(
        "`aon train` over the bare loop, images a second", 0.97, "train", {"network": "vgg16-iternorm", "width": 1.0},
        over(ENGINE, "bare loop"), "aon bench train", at_least=True,
    ),
)  # fmt: skip


def targets_table(records: Sequence[BenchRecord]) -> str:
    """The targets beside what was measured, in Markdown."""
    lines = ["| measure | target | measured | met | the paper | command |", "|:--|--:|--:|:--|:--|:--|"]
    for target in TARGETS:
        sign, found = ("≥" if target.at_least else "≤"), target.newest(records)
        measured, met = NOTHING, NOTHING
        if found:
            measured, met = _written(*found[:2]), "yes" if target.is_met(found[0]) else "**no**"
        bound, paper = f"{sign} {target.bound:g}", target.comparison or NOTHING
        lines.append(f"| {target.measure} | {bound} | {measured} | {met} | {paper} | `{target.command}` |")
    return "\n".join(lines)


def _written(value: Ratio, note: str) -> str:
    """A ratio with quartiles and number of rounds.

    Example:
        >>> _written(Ratio(1.08, 1.07, 1.1, 11), "")
        '1.080 [1.070, 1.100], n = 11'
    """
    spread = f" [{value.low:.3f}, {value.high:.3f}], n = {value.n}" if value.n > 1 else ""
    return f"{value.median:.3f}{spread}" + (f" ({note})" if note else "")
