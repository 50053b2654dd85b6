"""How long comparisons take, and what part of a run is evaluation, from the records of runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median

from aon.lab.experiment.records import EpochRow, Record


def evaluation_share(runs: Sequence[Record]) -> str:
    """The part of a run that evaluation takes: the median over the runs, in words.

    Args:
        runs: Finished runs.
    """
    shares = []
    for run in runs:
        training, evaluation = (sum(column) for column in zip(*map(_seconds, run.epochs), strict=True))
        shares.append(evaluation / (training + evaluation))
    if not shares:
        return "No run has finished yet."
    share = f"{100 * median(shares):.0f} % of the time (median)"
    return f"In the study's {len(shares)} runs on CIFAR-10 evaluation takes {share}."


def walls(comparisons: Mapping[str, Sequence[Record]]) -> str:
    """The time from the first run's start to the last one's end, of each comparison, in words.

    Args:
        comparisons: Finished runs by the folder that they are in.
    """
    found = [
        f"`{folder}`: {len(runs)} runs in {_minutes(runs):.1f} minutes ({runs[0].environment.cpu})"
        for folder, runs in comparisons.items()
        if runs
    ]
    return f"Training and evaluation took: {'; '.join(found)}."


def _minutes(runs: Sequence[Record]) -> float:
    """From the first start to the last end; installing and drawing are not in it."""
    starts = [datetime.fromisoformat(run.environment.started).timestamp() for run in runs]
    ends = [start + sum(map(sum, map(_seconds, run.epochs))) for start, run in zip(starts, runs, strict=True)]
    return (max(ends) - min(starts)) / 60


def _seconds(row: EpochRow) -> tuple[float, float]:
    return row.seconds, row.eval_seconds
