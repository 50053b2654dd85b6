"""Records -> one row for each method: what every table, sentence and page says about it.

Only finished runs count in a mean: a run at epoch 12 of 160 says nothing about epoch 160. The others are
counted and named beside it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aon.lab import paper
from aon.lab.records import Record, Score
from aon.lab.statistics import Difference, Summary, difference, summarise

TIMED_EPOCHS = 30
"""The paper averages the training time over the first 30 epochs."""

BASELINE = "BN"

Which = Callable[[Record], Score | None]
"""Chooses a record's best or its last epoch."""

# Neither what a run computes nor how: runs that differ in these alone are repetitions of each other.
_NOT_COMPARED = {"method", "seed", "threads", "spectra_every"}


@dataclass(frozen=True)
class Row:
    """One method: its runs, its numbers, its distance to BN and what the paper printed for it."""

    label: str
    runs: tuple[Record, ...]
    best: Summary
    last: Summary
    seconds: Summary
    ratio: float | None
    best_gain: Difference | None
    last_gain: Difference | None
    published: paper.Published | None
    is_baseline: bool

    @property
    def finished(self) -> list[Record]:
        """The runs that count."""
        return [run for run in self.runs if run.status == "done"]

    @property
    def count(self) -> str:
        """Finished runs, and of how many where some are not: `3` or `2 of 3`."""
        done = len(self.finished)
        return str(done) if done == len(self.runs) else f"{done} of {len(self.runs)}"

    @property
    def best_run(self) -> Record | None:
        """The run with the highest validation accuracy, as in the paper's figures; finished if any is."""
        candidates = [run for run in self.finished or self.runs if run.best is not None]
        return max(candidates, key=lambda run: _percent(run.best), default=None)


def rows(records: Iterable[Record], order: Sequence[str] = ()) -> list[Row]:
    """One row for each method, BN first, then in the order of `order` (methods as in the configuration).

    Runs whose settings differ in more than method and seed are never averaged: they make rows of their own,
    with the setting in the label, each compared with the BN of the same settings.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in _sorted(records, order):
        groups.setdefault((record.label, *_settings(record)), []).append(record)
    names = _labels(list(groups))
    bases = {key[1:]: runs for key, runs in groups.items() if key[0] == BASELINE}
    return [_row(names[key], runs, bases.get(key[1:], []), key[0]) for key, runs in groups.items()]


def seconds_per_epoch(record: Record) -> float | None:
    """Mean training time of the first 30 epochs, validation not included."""
    return summarise([row.seconds for row in record.epochs[:TIMED_EPOCHS]]).mean


def _row(name: str, runs: list[Record], base: list[Record], label: str) -> Row:
    seconds, base_seconds = _seconds(runs), _seconds(base)
    is_baseline = label == BASELINE
    comparable = seconds.mean is not None and base_seconds.mean
    return Row(
        label=name,
        runs=tuple(runs),
        best=summarise(list(_by_seed(runs, lambda run: run.best).values())),
        last=summarise(list(_by_seed(runs, lambda run: run.last).values())),
        seconds=seconds,
        ratio=seconds.mean / base_seconds.mean if comparable else None,  # type: ignore[operator]
        best_gain=None if is_baseline else _gain(runs, base, lambda run: run.best),
        last_gain=None if is_baseline else _gain(runs, base, lambda run: run.last),
        published=paper.published(runs[0].config, label),
        is_baseline=is_baseline,
    )


def _gain(runs: list[Record], base: list[Record], score: Which) -> Difference | None:
    return difference(_by_seed(runs, score), _by_seed(base, score))


def _by_seed(runs: list[Record], score: Which) -> dict[int, float]:
    return {run.config.seed: _percent(score(run)) for run in runs if run.status == "done" and score(run)}


def _percent(score: Score | None) -> float:
    return float("-inf") if score is None else score.val_accuracy


def _seconds(runs: list[Record]) -> Summary:
    times = [seconds_per_epoch(run) for run in runs if run.status == "done"]
    return summarise([time for time in times if time is not None])


def _sorted(records: Iterable[Record], order: Sequence[str]) -> list[Record]:
    places = {method: place for place, method in enumerate(order)}

    def place(record: Record) -> tuple[bool, int, int]:
        config = record.config
        return record.label != BASELINE, places.get(config.method, len(places)), config.seed

    return sorted(records, key=place)


def _settings(record: Record) -> tuple[str, ...]:
    data: dict[str, Any] = record.config.model_dump(exclude=_NOT_COMPARED)
    return tuple(f"{name.replace('_', ' ')} {value}" for name, value in data.items())


def _labels(keys: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Labels, with the settings that tell two rows of the same method apart."""
    varying = [i for i in range(1, len(keys[0]) if keys else 0) if len({key[i] for key in keys}) > 1]
    return {key: " · ".join([key[0], *(key[i] for i in varying)]) for key in keys}
