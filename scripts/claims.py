"""Test the hypotheses of results/study/PLAN.md on the records that exist."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.statistics import Difference, difference, holm

SIGNIFICANT = 0.05  # of the corrected p-value, as the plan has it


class Claim(NamedTuple):
    """One method said to be above another.

    Attributes:
        number: As in the plan.
        family: Hypotheses whose p-values are corrected together.
        folder: The comparison, below results/study.
        better: The method said to be above.
        base: The other one.
        paper: What the paper reports for the two, in percent; None for maps that it does not have.
        seeds: How many the plan asks for.
    """

    number: str
    family: str
    folder: str
    better: str
    base: str
    paper: tuple[float, float] | None
    seeds: int


SIZE = "16 convolutions at a quarter of the width, 10,000 images, 30 epochs"
_DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
_C10, _C100 = "cifar10", "cifar100"
_MAPS = ("bn+aon:centre=top", "bn+aon:expansion=minimax", "bn+aon:order=4:expansion=minimax", "bn+aon:centre=mean")
CLAIMS = (
    Claim("H1", "CIFAR-10, main", _C10, "bn+aon", "bn", (93.51, 92.22), 8),
    Claim("H2", "CIFAR-10, main", _C10, "bn+orth", "bn", (93.09, 92.22), 8),
    Claim("H3", "CIFAR-10, main", _C10, "bn+aon", "bn+orth", (93.51, 93.09), 8),
    Claim("H4", "CIFAR-10, others", _C10, "bn+cwn", "bn", (92.68, 92.22), 5),
    Claim("H5", "CIFAR-10, others", _C10, "iternorm", "bn", (92.66, 92.22), 5),
    Claim("H6", "CIFAR-10, others", _C10, "bn+aon", "bn+aon:order=0", (93.51, 92.28), 5),
    Claim("H7", "CIFAR-10, others", _C10, "bn+aon", "bn+aon:order=4", (93.51, 93.21), 5),
    Claim("H8", "CIFAR-100", _C100, "bn+aon", "bn", (72.10, 67.20), 5),
    Claim("H9", "CIFAR-100", _C100, "bn+orth", "bn", (70.92, 67.20), 5),
    Claim("H10", "CIFAR-100", _C100, "bn+aon", "bn+orth", (72.10, 70.92), 5),
    *(Claim("H11", "maps, CIFAR-10", _C10, method, "bn+aon", None, 5) for method in _MAPS),
    Claim("H11", "maps, CIFAR-10", _C10, "bn+polar", "bn+aon", None, 3),
)


def verdict(found: Difference | None, corrected: float | None) -> str:
    """What may be said of a claim."""
    if found is None:
        return "not run yet"
    if corrected is None or corrected >= SIGNIFICANT:
        return "not shown"
    return "holds" if found.value > 0 else "the opposite holds"


def table(runs: dict[str, list[Record]]) -> str:
    """A line for each claim, from the finished runs of each comparison.

    Args:
        runs: By the folder's name.
    """
    tested = [(claim, _tested(claim.better, claim.base, runs.get(claim.folder, []), _accuracy)) for claim in CLAIMS]
    corrected = _corrected(tested)
    lines = [
        "| | claim | the paper | here [95 % interval] | seeds | p | p, sign flips | |",
        "|:--|:--|--:|--:|--:|--:|--:|:--|",
    ]
    for (claim, found), p in zip(tested, corrected, strict=True):
        names = [parse(method).label for method in (claim.better, claim.base)]
        cells = [claim.number, f"{claim.family}: {names[0]} above {names[1]}", _paper(claim), *_numbers(found, p)]
        cells.insert(4, f"{found.n if found else 0} of {claim.seeds}")
        lines.append(f"| {' | '.join([*cells, verdict(found, p)])} |")
    return "\n".join(lines)


def findings(runs: dict[str, list[Record]]) -> list[str]:
    """A sentence for each claim about BN, the penalty and AON that at least two seeds speak to."""
    tested = [(claim, _tested(claim.better, claim.base, runs.get(claim.folder, []), _accuracy)) for claim in CLAIMS]
    return [
        _sentence(claim, found, p)
        for (claim, found), p in zip(tested, _corrected(tested), strict=True)
        if found and p is not None and {claim.better, claim.base} <= {"bn", "bn+orth", "bn+aon"}
    ]


def _sentence(claim: Claim, found: Difference, p: float) -> str:
    better, base = (parse(method).label for method in (claim.better, claim.base))
    where = f"the study ({_DATA[claim.folder]}, {SIZE}, {found.n} of {claim.seeds} seeds)"
    side = "above" if found.value >= 0 else "below"
    word = "significant" if p < SIGNIFICANT else "not significant"
    numbers = f"95 % interval {found.low:+.2f} to {found.high:+.2f}, p = {p:.2g}"
    return f"In {where} {better} was {abs(found.value):.2f} points {side} {base}: {word} ({numbers})."


def convergence(runs: Iterable[Record]) -> str:
    """Training loss of AON's last epoch less BN's: the paper says that AON converges more slowly in training."""
    found = _tested("bn+aon", "bn", runs, _loss)
    if found is None:
        return "not run yet"
    interval = f" [{found.low:+.3f}, {found.high:+.3f}]" if found.low is not None else ""
    return f"{found.value:+.3f}{interval}, n = {found.n}" + (f", p = {found.p:.2g}" if found.p is not None else "")


def _accuracy(run: Record) -> float | None:
    return run.last.test_accuracy if run.last else None


def _loss(run: Record) -> float | None:
    return run.epochs[-1].train_loss if run.epochs else None


def _tested(better: str, base: str, runs: Iterable[Record], of: Callable[[Record], float | None]) -> Difference | None:
    """The difference of two methods over the seeds that both have."""
    scores: dict[str, dict[int, float]] = {better: {}, base: {}}
    for run in runs:
        value = of(run)
        if run.config.method in scores and value is not None:
            scores[run.config.method][run.config.seed] = value
    return difference(scores[better], scores[base]) if scores[better].keys() & scores[base].keys() else None


def _corrected(tested: list[tuple[Claim, Difference | None]]) -> list[float | None]:
    """p-values after Holm's correction within each family."""
    values: list[float | None] = [None] * len(tested)
    for family in dict.fromkeys(claim.family for claim, _ in tested):
        places = [place for place, (claim, _) in enumerate(tested) if claim.family == family]
        found = [tested[place][1] for place in places]
        for place, p in zip(places, holm([one.p if one else None for one in found]), strict=True):
            values[place] = p
    return values


def _paper(claim: Claim) -> str:
    if claim.paper is None:
        return "-"
    better, base = claim.paper
    return f"{better:.2f} - {base:.2f} = {better - base:+.2f}"


def _numbers(found: Difference | None, corrected: float | None) -> list[str]:
    if found is None:
        return ["-", "-", "-"]
    interval = f" [{found.low:+.2f}, {found.high:+.2f}]" if found.low is not None and found.high is not None else ""
    flips = f"{found.flip_p:.2g}" if found.flip_p is not None else "-"
    return [f"{found.value:+.2f}{interval}", f"{corrected:.2g}" if corrected is not None else "-", flips]
