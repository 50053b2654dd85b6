"""Test the hypotheses of results/study/PLAN.md on the records that exist."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from aon.lab.experiment.records import Record
from aon.lab.report.outcomes import PRIMARY
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
        paper: What the paper reports for the two, in percent; None for maps and settings that it does not have.
        seeds: How many the plan asks for.
        first: The first of them.
    """

    number: str
    family: str
    folder: str
    better: str
    base: str
    paper: tuple[float, float] | None
    seeds: int
    first: int = 100


LOST_COMMIT = "91c2b3e"  # not in this repository's history
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
FITTED = "cifar10-fitted"  # the follow-up: its runs are to fit their training images
_C10, _C100 = "cifar10", "cifar100"
# The comparisons that hypotheses are about: those of the paper's setting, then the follow-up.
PLACES = DATA | {FITTED: "CIFAR-10, 5,000 images fitted"}
_NEW = 103  # the first seed of the follow-up
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
    Claim("H12", "images fitted", FITTED, "bn+aon", "bn", None, 5, _NEW),
    Claim("H13", "images fitted", FITTED, "bn+orth", "bn", None, 5, _NEW),
    Claim("H14", "images fitted", FITTED, "bn+aon", "bn+orth", None, 5, _NEW),
    Claim("H15", "images fitted", FITTED, "bn+aon:expansion=minimax", "bn+aon", None, 5, _NEW),
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


def judge(runs: dict[str, list[Record]], claims: Sequence[Claim] = CLAIMS, *, at_once: bool = False) -> list[Finding]:
    """Every claim on the finished runs of each comparison.

    Args:
        runs: By the folder's name.
        claims: Those of the plan; fewer to see what the others do to the correction.
        at_once: Whether p-values are corrected over all claims, instead of within each family.
    """
    found = [difference_of(claim, runs) for claim in claims]
    families = ["" if at_once else claim.family for claim in claims]
    corrected = _corrected(found, families)
    return [Finding(claim, one, p) for claim, one, p in zip(claims, found, corrected, strict=True)]


def joint_verdict(findings: Sequence[Finding]) -> str | None:
    """The verdict on a hypothesis that says one of several things: it holds if one does, and falls if none does."""
    verdicts = [finding.verdict for finding in eligible(findings)]
    if "holds" in verdicts:
        return "holds"
    if any(verdict not in VERDICTS for verdict in verdicts):
        return None
    return verdicts[0] if len(verdicts) == 1 else "not shown"


def eligible(findings: Sequence[Finding]) -> list[Finding]:
    """Those that the plan gives enough seeds for a verdict; the others only count in the correction."""
    return [finding for finding in findings if finding.claim.seeds >= FEW_SEEDS]


def p_to_bn(runs: dict[str, list[Record]], folder: str) -> dict[str, float]:
    """Corrected p-values of the claims of a folder that compare a method with BN, by the method."""
    chosen = [test for test in judge(runs) if (test.claim.folder, test.claim.base) == (folder, "bn")]
    return {test.claim.better: test.p for test in chosen if test.p is not None}


def difference_of(claim: Claim, runs: dict[str, list[Record]], of: Measure = PRIMARY.of) -> Difference | None:
    """The difference that a claim is about, over the seeds of the plan."""
    return between(claim.better, claim.base, planned(claim, runs), of)


def planned(claim: Claim, runs: dict[str, list[Record]]) -> list[Record]:
    """The runs of the seeds of the plan; more may have run since."""
    return [run for run in runs.get(claim.folder, []) if run.config.seed < claim.first + claim.seeds]


def between(better: str, base: str, runs: Iterable[Record], of: Measure = PRIMARY.of) -> Difference | None:
    """The difference of two methods over the seeds that both have."""
    return difference(*paired(better, base, runs, of))


def paired(better: str, base: str, runs: Iterable[Record], of: Measure) -> tuple[dict[int, float], dict[int, float]]:
    """The scores of two methods by seed, of the seeds that both have."""
    scores: dict[str, dict[int, float]] = {better: {}, base: {}}
    for run in runs:
        value = of(run)
        if run.config.method in scores and value is not None:
            scores[run.config.method][run.config.seed] = value
    both = scores[better].keys() & scores[base].keys()
    ours, theirs = ({seed: scores[method][seed] for seed in sorted(both)} for method in (better, base))
    return ours, theirs


def lost(runs: Iterable[Record]) -> set[tuple[str, int]]:
    """Method and seed of the runs whose source is lost."""
    return {name(run) for run in runs if (run.environment.commit or "").startswith(LOST_COMMIT)}


def with_repeated(runs: Sequence[Record], again: Iterable[Record]) -> list[Record]:
    """The runs, with repetitions in place of those whose source is lost.

    Args:
        runs: Runs of one setting.
        again: Runs of the same setting, made again.
    """
    gone, repeated = lost(runs), {name(run): run for run in again}
    return [repeated.get(name(run), run) if name(run) in gone else run for run in runs]


def name(run: Record) -> tuple[str, int]:
    """What tells the runs of one setting apart."""
    return run.config.method, run.config.seed


def _corrected(found: Sequence[Difference | None], families: Sequence[str]) -> list[float | None]:
    """p-values after Holm's correction within each family, for as many hypotheses as the plan has in it.

    A hypothesis that has no p-value yet counts as one whose p-value is 1: the others are not corrected for less
    because it is missing.
    """
    values: list[float | None] = [None] * len(found)
    for family in set(families):
        places = [place for place, own in enumerate(families) if own == family]
        raw = [one.p if (one := found[place]) else None for place in places]
        corrected = holm([1.0 if p is None else p for p in raw])
        for place, p, own in zip(places, corrected, raw, strict=True):
            values[place] = p if own is not None else None
    return values
