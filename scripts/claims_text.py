"""Tables and sentences on the hypotheses of results/study/PLAN.md."""

from collections.abc import Sequence
from statistics import fmean

from scripts.claims import (
    CLAIMS,
    PLACES,
    VERDICTS,
    Claim,
    Finding,
    between,
    difference_of,
    eligible,
    joint_verdict,
    judge,
    lost,
    name,
    paired,
    planned,
    with_repeated,
)

from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report.cells import NOTHING, gain_with_interval, p_equals, p_value
from aon.lab.report.outcomes import BEST, LAST_FIVE, PRIMARY
from aon.lab.report.statistics import Difference, difference

SIZE = "16 convolutions at a quarter of the width, 10,000 images, 30 epochs"
MAIN = CLAIMS[0]  # of the first family, on CIFAR-10


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
        others = [gain_with_interval(difference_of(claim, runs, of)) for of in (BEST.of, LAST_FIVE.of)]
        what = f"{claim.family}: {names[0]} above {names[1]}"
        cells = [claim.number, what, _paper(claim), _ours(claim, runs), seeds, *p_values]
        lines.append(f"| {' | '.join([*cells, test.verdict, *others])} |")
    return "\n".join(lines)


def sensitivity(runs: dict[str, list[Record]], again: Sequence[Record]) -> str:
    """Hypotheses that rest on runs of the lost commit, without the seeds of those runs, and with the runs repeated.

    Args:
        runs: By the folder's name.
        again: Runs of the same settings, made again.
    """
    first = runs.get(MAIN.folder, [])
    gone = lost(first)
    if not gone:
        return "No run of the study is of an unknown commit."
    seeds = sorted({seed for _, seed in gone})
    left_out = [run for run in first if run.config.seed not in seeds]
    columns = {"all seeds": first, f"without seed{'s' * (len(seeds) > 1)} {' and '.join(map(str, seeds))}": left_out}
    if gone <= {name(run) for run in again}:
        columns[f"with the lost runs repeated ({len(gone)})"] = with_repeated(first, again)
    lines = [f"| | {' | '.join(columns)} |", "|:--|" + "--:|" * len(columns)]
    found = [judge({MAIN.folder: own}) for own in columns.values()]
    for tests in zip(*found, strict=True):
        if _rests_on(claim := tests[0].claim, gone):
            cells = [f"{gain_with_interval(test.found)}, {_n_and_p(test)}" for test in tests]
            names = " above ".join(parse(method).label for method in (claim.better, claim.base))
            lines.append(f"| {claim.number}: {names} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _rests_on(claim: Claim, gone: set[tuple[str, int]]) -> bool:
    """Whether one of the runs is of a method that the claim of the main setting is about, and of its seeds."""
    seeds = range(claim.first, claim.first + claim.seeds)
    return claim.folder == MAIN.folder and any(
        method in (claim.better, claim.base) and seed in seeds for method, seed in gone
    )


def _n_and_p(test: Finding) -> str:
    return f"n = {test.found.n if test.found else 0}" + (f", p {p_equals(test.p)}" if test.p is not None else "")


def changed_verdicts(runs: dict[str, list[Record]], again: Sequence[Record]) -> str:
    """The hypotheses whose verdict would be another with the lost runs repeated; nothing if there are none.

    Args:
        runs: By the folder's name.
        again: Runs of the same settings, made again.
    """
    first = runs.get(MAIN.folder, [])
    gone = lost(first)
    if not gone or not gone <= {name(run) for run in again}:
        return ""
    findings = [_by_number({MAIN.folder: some}) for some in (first, with_repeated(first, again))]
    changed = []
    for before, after in zip(*findings, strict=True):
        old, new = joint_verdict(before), joint_verdict(after)
        if old != new:
            claim = before[0].claim
            better = parse(claim.better).label if len(before) == 1 else "one of our maps"
            what = f"{claim.number} ({better} above {parse(claim.base).label})"
            changed.append(f'the verdict on {what} would be "{new}"; with the original runs it is "{old}"')
    if not changed:
        return ""
    return (
        f"In the study {len(gone)} runs are of a commit that is no longer in the repository. With these runs repeated, "
        f"{'; '.join(changed)}."
    )


def stricter(runs: dict[str, list[Record]]) -> str:
    """What would hold if all p-values were corrected together, and how far the verdict on H11 rests on Polar.

    Args:
        runs: By the folder's name.
    """
    would_hold = list(dict.fromkeys(one.claim.number for one in judge(runs, at_once=True) if one.verdict == "holds"))
    lines = [
        "The families are those of the plan. Corrected over all "
        f"{len(CLAIMS)} comparisons of the table at once, {', '.join(would_hold) or 'nothing'} would hold."
    ]
    few = [one.claim for one in judge(runs) if one not in eligible([one])]
    left = [claim for claim in CLAIMS if claim not in few]
    for claim in few:
        p_values = [one.p for one in judge(runs, left) if one.claim.family == claim.family and one.p is not None]
        if p_values:
            lines.append(
                f"{parse(claim.better).label}, with too few seeds for a verdict, counts in the correction of "
                f"{claim.number}; without it the smallest p there would be {p_value(min(p_values))}."
            )
    return " ".join(lines)


def conclusion(runs: dict[str, list[Record]]) -> str:
    """The hypotheses by verdict, a list for each that some have, then the numbers of those that have none yet."""
    by_number = {own[0].claim.number: own for own in _by_number(runs)}
    verdicts = {number: joint_verdict(found) for number, found in by_number.items()}
    parts = []
    for verdict in VERDICTS:
        if own := [f"- {_named(by_number[number])}" for number, one in verdicts.items() if one == verdict]:
            parts += [f"**{verdict.capitalize()}**", "\n".join(own)]
    if waiting := [number for number, one in verdicts.items() if one is None]:
        parts.append(f"**No verdict yet**: {', '.join(waiting)}")
    return "\n\n".join(parts)


def _named(findings: Sequence[Finding]) -> str:
    """What a hypothesis says, its number and what was found; of several, those that hold, or the range of all."""
    first = findings[0].claim
    if shown := [finding for finding in findings if len(findings) == 1 or finding.verdict == "holds"]:
        better = " and ".join(parse(one.claim.better).label for one in shown)
        found = " and ".join(gain_with_interval(one.found) for one in shown)
    else:
        values = [one.found.value for one in eligible(findings) if one.found]
        better, found = f"one of {len(values)} maps", f"{min(values):+.2f} to {max(values):+.2f}"
    return f"{better} above {parse(first.base).label} on {PLACES[first.folder]}: {found} ({first.number})"


def findings(runs: dict[str, list[Record]]) -> list[str]:
    """A sentence for each hypothesis that has run at all; that on several maps needs a verdict.

    Args:
        runs: By the folder's name.
    """
    found: list[str] = []
    for own in _by_number(runs):
        if len(own) > 1:
            found += [_of_maps(own)] if joint_verdict(own) else []
        elif own[0].found:
            found.append(_sentence(own[0], _place(own[0], first=not found)))
    return found


def _by_number(runs: dict[str, list[Record]]) -> list[list[Finding]]:
    """The findings of each hypothesis; one that says one of several things has several."""
    by_number: dict[str, list[Finding]] = {}
    for finding in judge(runs):
        by_number.setdefault(finding.claim.number, []).append(finding)
    return list(by_number.values())


def _of_maps(maps: Sequence[Finding]) -> str:
    """A sentence on the maps of our own against the paper's."""
    base, values = parse(maps[0].claim.base).label, [one.found.value for one in eligible(maps) if one.found]
    holding = [parse(one.claim.better).label for one in maps if one.verdict == "holds"]
    said = f"significant for {', '.join(holding)}" if holding else "not significant"
    spread = f"{min(values):+.2f} to {max(values):+.2f} points"
    return f"In the study (our own maps, {PLACES[maps[0].claim.folder]}) differences to {base} were {spread}: {said}."


def _place(finding: Finding, *, first: bool) -> str:
    """The setting and the seeds; the sizes in the first sentence only."""
    where, n = PLACES[finding.claim.folder], finding.found.n if finding.found else 0
    seeds = f"{n} of {finding.claim.seeds} seeds{'' if finding.complete else ' so far'}"
    return f"In the study ({', '.join([where, *([SIZE] if first else []), seeds])})"


def _sentence(finding: Finding, where: str) -> str:
    claim, found, p = finding
    assert found
    better, base = (parse(method).label for method in (claim.better, claim.base))
    points = f"{abs(found.value):.2f} points {'above' if found.value >= 0 else 'below'}"
    word = "significant" if finding.verdict in ("holds", "the opposite holds") else "not significant"
    said = word if finding.complete else "no verdict before all have run"
    numbers = (
        f" (95 % interval {found.low:+.2f} to {found.high:+.2f}, p {p_equals(p)} after Holm's correction)"
        if p is not None
        else ""
    )
    return f"{where} {better} was {points} {base}: {said}{numbers}."


def convergence(runs: Sequence[Record]) -> str:
    """In how many epochs the mean training loss of AON is lower than that of BN and of the penalty, and by how much."""
    parts = []
    for base in ("bn", "bn+orth"):
        found = between("bn+aon", base, runs, _loss)
        if found is not None:
            ours, theirs = (_mean_losses(runs, method) for method in ("bn+aon", base))
            lower = sum(own < other for own, other in zip(ours, theirs, strict=True))
            parts.append(
                f"lower than {parse(base).label}'s in {lower} of {len(ours)} epochs, {described(found, digits=4)}"
            )
    return "; ".join(parts) or described(None)


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


def _paper(claim: Claim) -> str:
    if claim.paper is None:
        return NOTHING
    better, base = claim.paper
    return f"{better:.2f} - {base:.2f} = {better - base:+.2f}"


def _ours(claim: Claim, runs: dict[str, list[Record]]) -> str:
    """The two means over the seeds of both methods, and their difference with its interval."""
    better, base = paired(claim.better, claim.base, planned(claim, runs), PRIMARY.of)
    if not better:
        return NOTHING
    means = f"{fmean(better.values()):.2f} - {fmean(base.values()):.2f}"
    return f"{means} = {gain_with_interval(difference(better, base))}"
