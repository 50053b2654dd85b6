"""Test the hypotheses of results/study/PLAN.md on the records that exist."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING, gain_with_interval, p_equals, p_value
from aon.lab.report.outcomes import BEST, LAST_FIVE, PRIMARY
from aon.lab.report.statistics import SIGNIFICANT, Difference, difference, holm
from aon.lab.report.verdict import FEW_SEEDS

Measure = Callable[[Record], float | None]


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
FIRST_SEED = 100
LOST_COMMIT = "91c2b3e"  # not in this repository's history
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
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


VERDICTS = ("holds", "the opposite holds", "not shown")


class Finding(NamedTuple):
    """A claim with what was found: the difference, and its p-value after Holm's correction within the family."""

    claim: Claim
    found: Difference | None
    p: float | None

    @property
    def complete(self) -> bool:
        """Whether all seeds of the plan are there."""
        return self.found is not None and self.found.n >= self.claim.seeds

    @property
    def verdict(self) -> str:
        """What may be said of the claim: nothing before its runs are complete, nor with fewer seeds than five."""
        if self.found is None:
            return "not run yet"
        if not self.complete:
            return "incomplete"
        if self.found.n < FEW_SEEDS:
            return "too few seeds"
        if self.p is None or self.p >= SIGNIFICANT:
            return "not shown"
        return "holds" if self.found.value > 0 else "the opposite holds"


def judge(runs: dict[str, list[Record]]) -> list[Finding]:
    """Every claim on the finished runs of each comparison.

    Args:
        runs: By the folder's name.
    """
    found = [_difference(claim, runs, PRIMARY.of) for claim in CLAIMS]
    return [Finding(claim, one, p) for claim, one, p in zip(CLAIMS, found, _corrected(found), strict=True)]


def table(runs: dict[str, list[Record]]) -> str:
    """A line for each claim: the primary outcome with its tests, and the two secondary ones."""
    lines = [
        "| | claim | the paper | here [95 % interval] | seeds | p | p, sign flips | | best epoch | last five |",
        "|:--|:--|--:|--:|--:|--:|--:|:--|--:|--:|",
    ]
    for test in judge(runs):
        claim, found = test.claim, test.found
        names = [parse(method).label for method in (claim.better, claim.base)]
        seeds = f"{found.n if found else 0} of {claim.seeds}"
        p_values = [p_value(test.p), p_value(found.flip_p if found else None)]
        others = [gain_with_interval(_difference(claim, runs, of)) for of in (BEST.of, LAST_FIVE.of)]
        what = f"{claim.family}: {names[0]} above {names[1]}"
        cells = [claim.number, what, _paper(claim), _ours(claim, runs), seeds, *p_values]
        lines.append(f"| {' | '.join([*cells, test.verdict, *others])} |")
    return "\n".join(lines)


def sensitivity(runs: dict[str, list[Record]], again: Sequence[Record]) -> str:
    """The main family on CIFAR-10 without the seeds that have runs of the lost commit, and with those runs repeated.

    Args:
        runs: By the folder's name.
        again: Runs of the same settings, made again.
    """
    first, repeated = runs.get(_C10, []), {_run(run): run for run in again}
    lost = {_run(run) for run in first if (run.environment.commit or "").startswith(LOST_COMMIT)}
    if not lost:
        return "No run of the study is of an unknown commit."
    seeds = sorted({seed for _, seed in lost})
    left_out = [run for run in first if run.config.seed not in seeds]
    replaced = [repeated.get(_run(run), run) if _run(run) in lost else run for run in first]
    columns = {"all seeds": first, f"without seed{'s' * (len(seeds) > 1)} {' and '.join(map(str, seeds))}": left_out}
    if lost <= repeated.keys():
        columns[f"with the lost runs repeated ({len(lost)})"] = replaced
    lines = [f"| | {' | '.join(columns)} |", "|:--|" + "--:|" * len(columns)]
    found = [judge({_C10: own}) for own in columns.values()]
    for tests in zip(*found, strict=True):
        if (claim := tests[0].claim).family == CLAIMS[0].family:
            cells = [f"{gain_with_interval(test.found)}, p {p_equals(test.p)}" for test in tests]
            names = " above ".join(parse(method).label for method in (claim.better, claim.base))
            lines.append(f"| {claim.number}: {names} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _run(run: Record) -> tuple[str, int]:
    return run.config.method, run.config.seed


def conclusion(runs: dict[str, list[Record]]) -> str:
    """The hypotheses by verdict, a list for each that some have, then the numbers of those that have none yet."""
    by_number: dict[str, list[Finding]] = {}
    for finding in judge(runs):
        by_number.setdefault(finding.claim.number, []).append(finding)
    verdicts = {number: _together(found) for number, found in by_number.items()}
    parts = []
    for verdict in VERDICTS:
        if own := [f"- {_named(by_number[number])}" for number, one in verdicts.items() if one == verdict]:
            parts += [f"**{verdict.capitalize()}**", "\n".join(own)]
    if waiting := [number for number, one in verdicts.items() if one is None]:
        parts.append(f"**No verdict yet**: {', '.join(waiting)}")
    return "\n\n".join(parts)


def _together(findings: Sequence[Finding]) -> str | None:
    """The verdict on a hypothesis that says one of several things: it holds if one does, and falls if none does."""
    verdicts = [finding.verdict for finding in findings if finding.claim.seeds >= FEW_SEEDS]
    if "holds" in verdicts:
        return "holds"
    if any(verdict not in VERDICTS for verdict in verdicts):
        return None
    return verdicts[0] if len(verdicts) == 1 else "not shown"


def _named(findings: Sequence[Finding]) -> str:
    """What a hypothesis says, its number and what was found; of several, those that hold, or the range of all."""
    number, data, base = findings[0].claim.number, DATA[findings[0].claim.folder], parse(findings[0].claim.base).label
    if shown := [finding for finding in findings if len(findings) == 1 or finding.verdict == "holds"]:
        better = " and ".join(parse(one.claim.better).label for one in shown)
        found = " and ".join(gain_with_interval(one.found) for one in shown)
    else:
        values = [one.found.value for one in findings if one.found]
        better, found = f"one of {len(findings)} maps", f"{min(values):+.2f} to {max(values):+.2f}"
    return f"{better} above {base} on {data}: {found} ({number})"


def findings(runs: dict[str, list[Record]]) -> list[str]:
    """A sentence for each claim of the paper that has run at all, and one for our own maps when they have a verdict.

    Args:
        runs: By the folder's name.
    """
    judged = judge(runs)
    found = [one for one in judged if one.claim.paper and one.found]
    maps = [one for one in judged if one.claim.paper is None]
    together = _together(maps)
    own = [_of_maps(maps)] if together else []
    return [_sentence(one, _place(one, first=one is found[0])) for one in found] + own


def _of_maps(maps: Sequence[Finding]) -> str:
    """A sentence on the maps of our own against the paper's."""
    base, values = parse(maps[0].claim.base).label, [one.found.value for one in maps if one.found]
    holding = [parse(one.claim.better).label for one in maps if one.verdict == "holds"]
    said = f"significant for {', '.join(holding)}" if holding else "not significant"
    spread = f"{min(values):+.2f} to {max(values):+.2f} points"
    return f"In the study (our own maps, {DATA[maps[0].claim.folder]}) differences to {base} were {spread}: {said}."


def p_to_bn(runs: dict[str, list[Record]], folder: str) -> dict[str, float]:
    """Corrected p-values of the claims of a folder that compare a method with BN, by the method."""
    chosen = [test for test in judge(runs) if (test.claim.folder, test.claim.base) == (folder, "bn")]
    return {test.claim.better: test.p for test in chosen if test.p is not None}


def _place(finding: Finding, *, first: bool) -> str:
    """The data and the seeds; the sizes in the first sentence only."""
    data, n = DATA[finding.claim.folder], finding.found.n if finding.found else 0
    seeds = f"{n} of {finding.claim.seeds} seeds{'' if finding.complete else ' so far'}"
    return f"In the study ({', '.join([data, *([SIZE] if first else []), seeds])})"


def _sentence(finding: Finding, where: str) -> str:
    claim, found, p = finding
    assert found
    better, base = (parse(method).label for method in (claim.better, claim.base))
    points = f"{abs(found.value):.2f} points {'above' if found.value >= 0 else 'below'}"
    word = "significant" if finding.verdict in ("holds", "the opposite holds") else "not significant"
    said = word if finding.complete else "no verdict before all have run"
    numbers = f" (95 % interval {found.low:+.2f} to {found.high:+.2f}, p {p_equals(p)})" if p is not None else ""
    return f"{where} {better} was {points} {base}: {said}{numbers}."


def convergence(runs: Sequence[Record]) -> str:
    """In how many epochs the mean training loss of AON is lower than BN's, and by how much in the last."""
    found = between("bn+aon", "bn", runs, _loss)
    if found is None:
        return described(found)
    aon, bn = (_mean_losses(runs, method) for method in ("bn+aon", "bn"))
    lower = sum(ours < base for ours, base in zip(aon, bn, strict=True))
    return f"lower than BN's in {lower} of {len(bn)} epochs; difference in the last {described(found)}"


def _mean_losses(runs: Sequence[Record], method: str) -> list[float]:
    """Mean training loss of each epoch over the finished runs of a method."""
    losses = [[row.train_loss for row in run.epochs] for run in runs if run.config.method == method]
    return [fmean(epoch) for epoch in zip(*losses, strict=True)]


def described(found: Difference | None, digits: int = 3) -> str:
    """A difference with its interval, n and p, in one line."""
    if found is None:
        return "not run yet"
    p = f", p {p_equals(found.p)}" if found.p is not None else ""
    return f"{gain_with_interval(found, digits)}, n = {found.n}{p}"


def _loss(run: Record) -> float | None:
    return run.epochs[-1].train_loss if run.epochs else None


def _difference(claim: Claim, runs: dict[str, list[Record]], of: Measure) -> Difference | None:
    return between(claim.better, claim.base, _planned(claim, runs), of)


def _planned(claim: Claim, runs: dict[str, list[Record]]) -> list[Record]:
    """The runs of the seeds of the plan; more may have run since."""
    return [run for run in runs.get(claim.folder, []) if run.config.seed < FIRST_SEED + claim.seeds]


def between(better: str, base: str, runs: Iterable[Record], of: Measure = PRIMARY.of) -> Difference | None:
    """The difference of two methods over the seeds that both have."""
    return difference(*_common(better, base, runs, of))


def _common(better: str, base: str, runs: Iterable[Record], of: Measure) -> tuple[dict[int, float], dict[int, float]]:
    """The scores of two methods by seed, of the seeds that both have."""
    scores: dict[str, dict[int, float]] = {better: {}, base: {}}
    for run in runs:
        value = of(run)
        if run.config.method in scores and value is not None:
            scores[run.config.method][run.config.seed] = value
    both = scores[better].keys() & scores[base].keys()
    ours, theirs = ({seed: scores[method][seed] for seed in sorted(both)} for method in (better, base))
    return ours, theirs


def _corrected(found: list[Difference | None]) -> list[float | None]:
    """p-values after Holm's correction within each family, for as many hypotheses as the plan has in it.

    A hypothesis that has no p-value yet counts as one whose p-value is 1: the others are not corrected for less
    because it is missing.
    """
    values: list[float | None] = [None] * len(found)
    for family in dict.fromkeys(claim.family for claim in CLAIMS):
        places = [place for place, claim in enumerate(CLAIMS) if claim.family == family]
        raw = [one.p if (one := found[place]) else None for place in places]
        corrected = holm([1.0 if p is None else p for p in raw])
        for place, p, own in zip(places, corrected, raw, strict=True):
            values[place] = p if own is not None else None
    return values


def _paper(claim: Claim) -> str:
    if claim.paper is None:
        return NOTHING
    better, base = claim.paper
    return f"{better:.2f} - {base:.2f} = {better - base:+.2f}"


def _ours(claim: Claim, runs: dict[str, list[Record]]) -> str:
    """The two means over the seeds of both methods, and their difference with its interval."""
    better, base = _common(claim.better, claim.base, _planned(claim, runs), PRIMARY.of)
    if not better:
        return NOTHING
    means = f"{fmean(better.values()):.2f} - {fmean(base.values()):.2f}"
    return f"{means} = {gain_with_interval(difference(better, base))}"
