"""Summarise records once: a row for each method and setting, with its accuracies, differences and times.

Tables, figures, page and verdict all read the same `Results`. Only finished runs count in a mean: a run at epoch 12 of
160 says nothing about epoch 160. The others are counted and named beside it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig
from aon.lab.experiment.records import Record
from aon.lab.methods.grammar import parse
from aon.lab.report import paper
from aon.lab.report.outcomes import OUTCOMES, PRIMARY, Outcome, has_validation
from aon.lab.report.statistics import Difference, Summary, difference, holm, summarise

TIMED_EPOCHS = 30
"""The paper averages the training time over the first 30 epochs."""

STEADY = 0.1
"""Training times are compared if their spread over the runs is below this share of their mean."""

BASELINE = "BN"
"""The method that others are compared with, unless another is named."""

# Settings that say what is to be learnt, by what and for how long; no method is to be preferred for an easier task.
_TASK = {"dataset", "train_size", "validation_size", "test_size", "network", "width", "include_classifier", "epochs"}
# Runs that differ in these alone are one run, done twice.
_NO_RESULT = {"threads", "spectra_every"}
# Runs that differ in these alone are repetitions of each other.
_NOT_COMPARED = {"method", "seed", *_NO_RESULT}


@dataclass(frozen=True)
class Row:
    """One method under one setting.

    Attributes:
        label: Method and setting, as tables name the row.
        method: Label of the method alone.
        setting: The settings that vary between the rows, such as `learning rate 0.05`; empty where none does.
        task: Those of them that are part of the task (data, network, epochs), not of its optimisation.
        runs: Its runs in any state.
        results: Test accuracy of each finished run by seed, for each outcome.
        accuracy: Mean and spread of those, for each outcome.
        gain: Difference to the base of the same setting, for each outcome; None for the base itself.
        validation: Validation accuracy of the last epoch; no mean without validation images.
        seconds: Training time of an epoch.
        ratio: Training time over that of the base; None where times vary too much to be compared.
        published: What the paper printed for it.
        published_ratio: The paper's training time over the one it printed for the base; None if it printed none.
        is_base: Whether the others are compared with it.
    """

    label: str
    method: str
    setting: str
    task: str
    runs: tuple[Record, ...]
    results: Mapping[str, Mapping[int, float]]
    accuracy: Mapping[str, Summary]
    gain: Mapping[str, Difference | None]
    validation: Summary
    seconds: Summary
    ratio: float | None
    published: paper.Published | None
    published_ratio: float | None
    is_base: bool

    @property
    def last(self) -> Summary:
        """Test accuracy of the last epoch, the primary outcome."""
        return self.accuracy[PRIMARY.key]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the method without their options, which its variants share."""
        return tuple(part.name for part in parse(self.runs[0].config.method).parts)

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
        scored = [(run.best.val_accuracy, -i, run) for i, run in enumerate(self.finished or self.runs) if run.best]
        return max(scored, key=lambda entry: entry[:2])[2] if scored else None


@dataclass(frozen=True)
class Choice:
    """A method at its best setting by validation accuracy.

    Attributes:
        row: The method at that setting.
        gain: Difference to the base at the base's best setting; None for the base itself.
        trials: Combinations of setting and variant (same words, other options) of the method that were run on the task.
    """

    row: Row
    gain: Difference | None
    trials: int


@dataclass(frozen=True)
class Results:
    """All that a report shows.

    Attributes:
        rows: Setting by setting; the base first in each.
        base: Label of the method that the others are compared with.
        matrix: Difference at the last epoch of every two rows of the same setting, by their labels; p-values are
            corrected over all pairs of the same task.
        choices: Each method that was run under every setting of a task, at its best one; empty where a task was tried
            with one setting only, or the base was not run under all.
        damaged: What is wrong with records that could not be read.
    """

    rows: tuple[Row, ...]
    base: str
    matrix: Mapping[tuple[str, str], Difference]
    choices: tuple[Choice, ...]
    damaged: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Record]:
        """Every run, row by row."""
        return [run for row in self.rows for run in row.runs]

    @property
    def methods(self) -> list[str]:
        """Labels of the methods, the base first."""
        return list(dict.fromkeys(row.method for row in self.rows))

    @property
    def settings(self) -> list[str]:
        """The settings that were tried; one empty name where nothing varies."""
        return list(dict.fromkeys(row.setting for row in self.rows))

    @property
    def validated(self) -> bool | None:
        """Whether the runs have validation images; None where some have and some have not."""
        return has_validation(self.runs)

    def under(self, setting: str) -> list[Row]:
        """The rows of one setting."""
        return [row for row in self.rows if row.setting == setting]


def summarise_runs(
    records: Iterable[Record], order: Sequence[str] = (), base: str | None = None, damaged: Sequence[str] = ()
) -> Results:
    """Group runs by method and setting and compare them.

    Runs whose settings differ in more than method and seed are never averaged: they make rows of their own, each
    compared with the base of the same setting.

    Args:
        records: Runs in any state.
        order: Methods in the order wanted, as in the configuration.
        base: The method to compare with, such as `bn+orth`; BN if it is there and none is named, else the first.
        damaged: What is wrong with records that could not be read.

    Raises:
        LabError: if there is no run of the method named.
    """
    found = list(records)
    label = _base_label(found, order, base)
    groups: dict[tuple[str, str], list[Record]] = {}
    settings = [" · ".join(parts) for parts in varying(found)]
    tasks = dict(zip(settings, (" · ".join(parts) for parts in varying(found, _TASK)), strict=True))
    for setting, record in _sorted(found, settings, order, label):
        groups.setdefault((record.label, setting), []).append(record)
    rows = [
        _row(method, setting, tasks[setting], runs, groups.get((label, setting), []))
        for (method, setting), runs in groups.items()
    ]
    rows = [replace(row, is_base=True, gain=dict.fromkeys(row.gain)) if row.method == label else row for row in rows]
    return Results(tuple(_corrected(rows)), label, _matrix(rows), tuple(_choices(rows, label)), tuple(damaged))


def run_key(config: RunConfig) -> str:
    """A text that is the same for two configurations of one run: all settings but those that change no result."""
    return config.model_dump_json(exclude=_NO_RESULT)


def seconds_per_epoch(record: Record) -> float | None:
    """Mean training time of the first 30 epochs, evaluation not included."""
    return summarise([row.seconds for row in record.epochs[:TIMED_EPOCHS]]).mean


def _base_label(records: Sequence[Record], order: Sequence[str], base: str | None) -> str:
    places = {method: place for place, method in enumerate(order)}
    labels = {run.config.method: run.label for run in reversed(records)}
    if base is not None:
        if (method := str(parse(base))) not in labels:
            raise LabError(f"base = {base!r}: there is no run of it; there are {', '.join(sorted(labels))}")
        return labels[method]
    if BASELINE in labels.values():
        return BASELINE
    first = min(records, key=lambda run: places.get(run.config.method, len(places)), default=None)
    return first.label if first else ""


def _sorted(
    records: Sequence[Record], settings: Sequence[str], order: Sequence[str], base: str
) -> list[tuple[str, Record]]:
    """Runs with the name of their setting: setting by setting, the base first, then as in `order`."""
    places = {method: place for place, method in enumerate(order)}
    first = {name: place for place, name in reversed(list(enumerate(settings)))}

    def place(entry: tuple[str, Record]) -> tuple[int, bool, int, int]:
        setting, run = entry
        return first[setting], run.label != base, places.get(run.config.method, len(places)), run.config.seed

    return sorted(zip(settings, records, strict=True), key=place)


def varying(records: Sequence[Record], names: Set[str] = RunConfig.model_fields.keys()) -> list[tuple[str, ...]]:
    """For each run, the settings in which the runs differ, such as `("learning rate 0.05", "width 0.5")`.

    Args:
        records: The runs.
        names: The settings to look at.
    """
    data: list[dict[str, Any]] = [
        run.config.model_dump(mode="json", include=set(names) - _NOT_COMPARED) for run in records
    ]
    differing = [name for name in (data[0] if data else ()) if any(one[name] != data[0][name] for one in data)]
    return [tuple(f"{name.replace('_', ' ')} {_plain(name, one[name])}" for name in differing) for one in data]


def _plain(name: str, value: object) -> str:
    """A setting's value as it is typed; all images of a part where no number of them is given."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if value is None:
        return "0" if name == "validation_size" else "all"
    return str(value)


def _row(method: str, setting: str, task: str, runs: list[Record], base: list[Record]) -> Row:
    results = {outcome.key: _by_seed(runs, outcome.of) for outcome in OUTCOMES}
    seconds, base_seconds = _seconds(runs), _seconds(base)
    published = paper.published(runs[0].config, method)
    return Row(
        label=f"{method} · {setting}" if setting else method,
        method=method,
        setting=setting,
        task=task,
        runs=tuple(runs),
        results=results,
        accuracy={key: summarise(list(values.values())) for key, values in results.items()},
        gain={outcome.key: _gain(results, base, outcome) for outcome in OUTCOMES},
        validation=summarise(list(_by_seed(runs, _validation).values())),
        seconds=seconds,
        ratio=_ratio(seconds, base_seconds),
        published=published,
        published_ratio=_published_ratio(published, base),
        is_base=False,
    )


def _gain(results: Mapping[str, Mapping[int, float]], base: list[Record], outcome: Outcome) -> Difference | None:
    return difference(results[outcome.key], _by_seed(base, outcome.of))


def _by_seed(runs: list[Record], of: Callable[[Record], float | None]) -> dict[int, float]:
    known = ((run.config.seed, of(run)) for run in runs if run.status == "done")
    return {seed: value for seed, value in known if value is not None}


def _validation(run: Record) -> float | None:
    return run.last.val_accuracy if run.last and run.images.validation else None


def _seconds(runs: list[Record]) -> Summary:
    times = [seconds_per_epoch(run) for run in runs if run.status == "done"]
    return summarise([time for time in times if time is not None])


def _ratio(seconds: Summary, base: Summary) -> float | None:
    """One time over the other; None where the times of the runs vary, because something else ran beside them."""
    if seconds.mean is None or not base.mean or not (_is_steady(seconds) and _is_steady(base)):
        return None
    return seconds.mean / base.mean


def _published_ratio(published: paper.Published | None, base: list[Record]) -> float | None:
    """The paper's time over the one it printed for the base, so that it can stand beside `_ratio`."""
    below = paper.published(base[0].config, base[0].label) if base else None
    return published.seconds / below.seconds if published and below else None


def _is_steady(seconds: Summary) -> bool:
    return seconds.spread is None or seconds.spread < STEADY * (seconds.mean or 0.0)


def _holm(found: Sequence[Difference | None], tasks: Sequence[str]) -> list[Difference | None]:
    """The same differences with their p-values corrected over all of the same task."""
    corrected = list(found)
    for task in set(tasks):
        places = [i for i, own in enumerate(tasks) if own == task]
        p_values = [one.p if (one := found[i]) else None for i in places]
        tested = sum(p is not None for p in p_values)
        for i, p in zip(places, holm(p_values), strict=True):
            one = found[i]
            corrected[i] = replace(one, corrected=p, comparisons=tested) if one else None
    return corrected


def _corrected(rows: list[Row]) -> list[Row]:
    tasks = [row.task for row in rows]
    for outcome in OUTCOMES:
        gains = _holm([row.gain[outcome.key] for row in rows], tasks)
        rows = [replace(row, gain={**row.gain, outcome.key: gain}) for row, gain in zip(rows, gains, strict=True)]
    return rows


def _matrix(rows: Sequence[Row]) -> dict[tuple[str, str], Difference]:
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :] if a.setting == b.setting]
    corrected = _holm([_primary(a, b) for a, b in pairs], [a.task for a, _ in pairs])
    found: dict[tuple[str, str], Difference] = {}
    for (a, b), gain in zip(pairs, corrected, strict=True):
        back = _primary(b, a)
        if gain and back:
            found[a.label, b.label] = gain
            found[b.label, a.label] = replace(back, corrected=gain.corrected, comparisons=gain.comparisons)
    return found


def _primary(ours: Row, base: Row) -> Difference | None:
    return difference(ours.results[PRIMARY.key], base.results[PRIMARY.key])


def _choices(rows: Sequence[Row], base: str) -> list[Choice]:
    """Each method at the setting with the highest mean validation accuracy, for tasks tried with several settings.

    A method that was not run under every setting of its task had fewer to choose from, and is left out; where that is
    the base, nothing is chosen for the task.
    """
    settings: dict[str, set[str]] = {}
    tried: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        settings.setdefault(row.task, set()).add(row.setting)
        tried.setdefault((row.task, row.method), []).append(row)
    best = {
        (task, method): found
        for (task, method), own in tried.items()
        if 1 < len(settings[task]) == len(own) and (found := best_by_validation(own))
    }
    best = {(task, method): row for (task, method), row in best.items() if (task, base) in best}
    chosen = list(best.values())
    gains = _holm([_to_base(row, best.get((row.task, base))) for row in chosen], [row.task for row in chosen])
    trials = Counter((row.task, row.words) for row in rows)
    return [Choice(row, gain, trials[row.task, row.words]) for row, gain in zip(chosen, gains, strict=True)]


def best_by_validation(rows: Sequence[Row]) -> Row | None:
    """The row with the highest validation accuracy of the last epoch; None if no row has one.

    Means are taken over the seeds that all rows with such an accuracy have, or over a row's own where they share none.

    Args:
        rows: A method under several settings, or several methods under one.
    """
    found = {row.label: scores for row in rows if (scores := _by_seed(list(row.runs), _validation))}
    if not found:
        return None
    common = set.intersection(*(set(scores) for scores in found.values()))
    means = {label: fmean(scores[seed] for seed in common or scores) for label, scores in found.items()}
    return max((row for row in rows if row.label in means), key=lambda row: means[row.label])


def _to_base(row: Row, base: Row | None) -> Difference | None:
    return None if base is None or row.is_base else _primary(row, base)
