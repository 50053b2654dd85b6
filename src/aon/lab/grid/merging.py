"""Join comparison directories, such as the shards of a job array, into one."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aon.lab.errors import LabError
from aon.lab.experiment import records
from aon.lab.experiment.config import PLACEMENT, differences, make
from aon.lab.experiment.records import Comparison, Record
from aon.lab.system.locks import LOCK, locked

RUNS = "runs"


@dataclass(frozen=True)
class Merged:
    """What a merge did: folders copied, runs done and runs the comparison consists of."""

    copied: int
    done: int
    runs: int


@dataclass(frozen=True)
class _Found:
    folder: Path
    record: Record


def merge(sources: Sequence[Path], out: Path) -> Merged:
    """Copy the runs of several comparison directories into one; what it already holds stays.

    Of a run that several directories hold, the finished one is taken, or the one that is furthest.

    Args:
        sources: Comparison directories.
        out: The directory to make or to add to.

    Raises:
        LabError: before anything is copied, if the directories do not belong together or hold different results of
            one run; the message names the difference.
    """
    if not sources:
        raise LabError("nothing to merge: give at least one comparison directory")
    places = [out, *sources] if (out / records.COMPARISON).exists() else list(sources)
    comparison = _joined(places)
    chosen = _choose(places, comparison)
    with locked(out, patience=2.0):
        records.save_comparison(comparison, out)
        new = {name: found for name, found in chosen.items() if found.folder != out / RUNS / name}
        for name, found in new.items():
            _copy(found.folder, out / RUNS / name)
    done = sum(found.record.status == "done" for found in chosen.values())
    return Merged(len(new), done, len(comparison.runs()))


def _joined(places: Sequence[Path]) -> Comparison:
    """One comparison with the methods and seeds of all; refused if their settings differ."""
    first, *others = (records.load_comparison(place) for place in places)
    for place, other in zip(places[1:], others, strict=True):
        free = PLACEMENT | first.vary.keys()
        changed = differences(_settings(first), _settings(other))
        changed = [text for text in changed if text.partition(":")[0] not in free]
        if first.vary.keys() != other.vary.keys():
            changed.append(f"vary: {', '.join(first.vary) or 'nothing'} -> {', '.join(other.vary) or 'nothing'}")
        if changed:
            raise LabError(f"{place} does not belong with {places[0]}: other settings ({'; '.join(changed)})")
    both = [first, *others]
    methods = tuple(dict.fromkeys(method for one in both for method in one.methods))
    seeds = tuple(sorted({seed for one in both for seed in one.seeds}))
    vary = {name: tuple(dict.fromkeys(value for one in both for value in one.vary[name])) for name in first.vary}
    return first.model_copy(update={"methods": methods, "seeds": seeds, "vary": vary})


def _settings(comparison: Comparison) -> dict[str, Any]:
    """The shared settings; those that did not exist when the directory was made have their defaults."""
    return make(comparison.config).model_dump(mode="json", exclude={"method", "seed"})


def _choose(places: Sequence[Path], comparison: Comparison) -> dict[str, _Found]:
    """For each run the folder to keep, by its name."""
    known = {run.run_id(): run for run in comparison.runs()}
    chosen: dict[str, _Found] = {}
    for place in places:
        for path in sorted(place.glob(f"{RUNS}/*/{records.RECORD}")):
            found, name = _Found(path.parent, records.load(path.parent)), path.parent.name
            if name not in known:
                raise LabError(f"{found.folder} is no run of the comparison in {place}")
            changed = differences(known[name].identity(), found.record.config.identity())
            if changed:
                raise LabError(f"{found.folder} holds a run with other settings ({'; '.join(changed)})")
            chosen[name] = _better(chosen[name], found) if name in chosen else found
    return chosen


def _better(one: _Found, other: _Found) -> _Found:
    """The one to keep of two attempts at a run; two finished ones must agree."""
    if one.record.status != "done" or other.record.status != "done":
        return max(one, other, key=_advance)
    where = _difference(_result(one.record), _result(other.record))
    if where:
        raise LabError(f"{one.folder} and {other.folder} are different results of one run: {where}")
    return one


def _advance(found: _Found) -> tuple[bool, int]:
    return found.record.status == "done", len(found.record.epochs)


def _result(record: Record) -> dict[str, Any]:
    """What two results of one run must share: all but times and the machine."""
    plain = record.without_times()
    del plain["environment"]
    plain["config"] = {name: value for name, value in plain["config"].items() if name not in PLACEMENT}
    return plain


def _difference(one: Any, other: Any, where: str = "") -> str | None:
    """The first place where two pieces of plain data differ, such as `epochs.0.train_loss: 1.2 and 1.3`."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs: list[tuple[object, Any, Any]] = [(key, one.get(key), other.get(key)) for key in one | other]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(number, *pair) for number, pair in enumerate(zip(one, other, strict=True))]
    else:
        return None if one == other else f"{where}: {str(one)[:60]} and {str(other)[:60]}"
    found = (_difference(a, b, f"{where}.{key}".lstrip(".")) for key, a, b in pairs)
    return next((text for text in found if text), None)


def _copy(source: Path, target: Path) -> None:
    """Copy a run's folder, whole or not at all; an unfinished one in its place goes away."""
    target.parent.mkdir(exist_ok=True)
    beside, old = (target.parent / f".{target.name}.{word}" for word in ("new", "old"))
    try:
        for leftover in (beside, old):
            shutil.rmtree(leftover, ignore_errors=True)
        shutil.copytree(source, beside, ignore=shutil.ignore_patterns(LOCK))
        if target.exists():
            target.rename(old)
        beside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise LabError(f"cannot copy {source} to {target}: {error.strerror or error}") from error
