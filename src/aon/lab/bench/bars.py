"""What the benchmarks must show, and what they did show: a table made from records, so that it cannot drift."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aon.lab.bench.accumulation import SHARED
from aon.lab.bench.peers import PLAIN, ours
from aon.lab.bench.record import BenchRecord, Case
from aon.lab.bench.rounds import Ratio, ratio
from aon.lab.bench.throughput import ENGINE

NOTHING = "-"
VGG = {"network": "vgg16-iternorm", "width": 1.0, "device": "cpu"}
SPECTRAL = ("torch-spectral-norm", "torch-spectral-norm-hook")
Find = Callable[[Case], tuple[Ratio, str] | None]


@dataclass(frozen=True)
class Bar:
    """One thing that must be shown.

    Attributes:
        measure: What is measured.
        bound: What it has to reach.
        bench: The benchmark that measures it.
        settings: What its record has to say about the conditions.
        find: The number in the record's first case, and a word about it; None if it is not there.
        command: What measures it.
        comparison: Numbers of others.
        at_least: Whether the bound is one from below.
        plain_elsewhere: What plain autograd took on the machine that the bound was set on.
    """

    measure: str
    bound: float
    bench: str
    settings: dict[str, Any]
    find: Find
    command: str
    comparison: str = ""
    at_least: bool = False
    plain_elsewhere: float | None = None

    def is_met(self, value: Ratio) -> bool:
        """Whether the median reaches the bound."""
        return value.median >= self.bound if self.at_least else value.median <= self.bound

    def newest(self, records: Iterable[BenchRecord]) -> tuple[Ratio, str, BenchRecord] | None:
        """The number of the last record, of records from old to new, that measures this under its conditions."""
        result = None
        for record in records:
            fits = all(record.settings.get(key) == value for key, value in self.settings.items())
            if record.bench == self.bench and fits and _is_usual(record):
                found = self.find(record.cases[0])
                result = (*found, record) if found else result
        return result


def _is_usual(record: BenchRecord) -> bool:
    """Measured by the clock on the wall, in a process that keeps its memory as training does."""
    memory, clock = record.environment.get("memory", "kept"), record.settings.get("clock", "wall")
    return (memory, clock) == ("kept", "wall")


def over(name: str, *bases: str) -> Find:
    """The ratio of a variant to another; to the one of several that it comes off worst against."""

    def find(case: Case) -> tuple[Ratio, str] | None:
        return _worst(case, name, bases)

    return find


def over_orthogonalisers(case: Case) -> tuple[Ratio, str] | None:
    """The ratio of AON of order 2 to the peer that orthogonalises and that it comes off worst against."""
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
    return {**VGG, "network": network, "batch": batch, "compiled": False}


BARS: tuple[Bar, ...] = (
    Bar(
        "step, 16-conv VGG, batch 256, order 2, over BN", 1.10, "step", _step(256), over("bn+aon", "bn"),
        "aon bench step --batch 256", "paper 1.58 (GPU); plain autograd 1.20; a prototype 1.09-1.15",
        plain_elsewhere=1.20,
    ),
    Bar(
        "the same, batch 128", 1.20, "step", _step(128), over("bn+aon", "bn"),
        "aon bench step --batch 128", "plain autograd 1.41; prototype 1.19-1.24", plain_elsewhere=1.41,
    ),
    Bar(
        "the same, batch 32", 1.60, "step", _step(32), over("bn+aon", "bn"),
        "aon bench step --batch 32", "plain autograd 2.5; prototype 1.65", plain_elsewhere=2.5,
    ),
    Bar(
        "order 4 over order 2, same step, batch 256", 1.05, "step", _step(256), over("bn+aon:order=4", "bn+aon"),
        "aon bench step --batch 256", "paper 1.20",
    ),
    Bar(
        "step, resnet20, batch 128, over BN", 1.15, "step", _step(128, "resnet20"), over("bn+aon", "bn"),
        "aon bench step --network resnet20 --batch 128",
    ),
    Bar(
        "map alone, 16-conv VGG, over plain autograd", 0.7, "map", VGG, over(ours(2), PLAIN), "aon bench map",
    ),
    Bar(
        "map of order 0 over torch's spectral_norm", 1.0, "map", VGG, over(ours(0), *SPECTRAL), "aon bench map",
    ),
    Bar(
        "map of order 2 over every peer that orthogonalises", 0.1, "map", VGG, over_orthogonalisers,
        "aon bench map", "torch cayley 70 times slower",
    ),
    Bar(
        "evaluation, normalised over plain", 1.02, "eval", VGG, over("normalised", "plain"),
        "aon bench eval", "torch's parametrisations recompute each time",
    ),
    Bar(
        "4 micro-batches of 32, over BN doing the same", 1.30, "accumulate", {**VGG, "batch": 32, "micro_batches": 4},
        over("bn+aon" + SHARED, "bn"), "aon bench accumulate", "AON paid four times: about 2.5",
    ),
    Bar(
        "extra peak memory, in bytes of the normalised weights", 1.2, "memory", {**VGG, "batch": 256},
        beyond("bn+aon"), "aon bench memory",
    ),
    Bar(
        "`aon train` over the bare loop, images a second", 0.97, "train", {"network": "vgg16-iternorm", "width": 1.0},
        over(ENGINE, "bare loop"), "aon bench train", at_least=True,
    ),
)  # fmt: skip


def bars_table(records: Sequence[BenchRecord]) -> str:
    """The bars beside what was measured, in Markdown."""
    lines = ["| measure | bar | measured | met | for comparison | command |", "|:--|--:|--:|:--|:--|:--|"]
    for bar in BARS:
        sign, found = ("≥" if bar.at_least else "≤"), bar.newest(records)
        measured, met = (_written(*found[:2]), "yes" if bar.is_met(found[0]) else "**no**") if found else (NOTHING,) * 2
        cells = (bar.measure, f"{sign} {bar.bound:g}", measured, met, bar.comparison or NOTHING, f"`{bar.command}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _written(value: Ratio, note: str) -> str:
    """A ratio with quartiles and number of rounds.

    Example:
        >>> _written(Ratio(1.08, 1.07, 1.1, 11), "")
        '1.080 [1.070, 1.100], n = 11'
    """
    spread = f" [{value.low:.3f}, {value.high:.3f}], n = {value.n}" if value.n > 1 else ""
    return f"{value.median:.3f}{spread}" + (f" ({note})" if note else "")
