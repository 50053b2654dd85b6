"""Which commits and processors made the study's runs, and where a comparison crosses them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from scripts.claims import CLAIMS, planned

from aon.lab.experiment.records import Record

Runs = dict[str, list[Record]]


def by_family(runs: Runs) -> Runs:
    """The runs that the hypotheses of each family rest on.

    Args:
        runs: Finished runs by the folder's name.
    """
    found: dict[str, dict[tuple[str, int], Record]] = {}
    for claim in CLAIMS:
        own = found.setdefault(claim.family, {})
        for run in planned(claim, runs):
            if run.config.method in (claim.better, claim.base):
                own[run.config.method, run.config.seed] = run
    return {family: list(own.values()) for family, own in found.items()}


def table(groups: Mapping[str, Sequence[Record]]) -> str:
    """A line for each group of runs that has any.

    Args:
        groups: Runs that are compared with each other, by what they are.
    """
    lines = ["| | runs | commits | processors | seeds with several |", "|:--|--:|:--|:--|--:|"]
    for name, runs in groups.items():
        if runs:
            commits, processors = (Counter(column) for column in zip(*map(_maker, runs), strict=True))
            cells = [name, str(len(runs)), _counted(commits), _counted(processors), _mixed(runs)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _maker(run: Record) -> tuple[str, str]:
    return (run.environment.commit or "unknown")[:7], run.environment.cpu


def _counted(counts: Counter[str]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())


def _mixed(runs: Sequence[Record]) -> str:
    """In how many seeds the runs to be compared were made by several commits or processors."""
    makers: dict[int, set[tuple[str, str]]] = {}
    for run in runs:
        makers.setdefault(run.config.seed, set()).add(_maker(run))
    return f"{sum(len(own) > 1 for own in makers.values())} of {len(makers)}"
