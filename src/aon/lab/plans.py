"""What is to be done: a preset, a TOML file and the command line, the later before the earlier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aon.lab import presets, records
from aon.lab.config import RunConfig, check_name, make, read_toml
from aon.lab.errors import LabError
from aon.lab.grammar import parse, parse_list

SETTINGS = frozenset(RunConfig.model_fields)
# A comparison has the settings of its runs, but methods and seeds in the place of method and seed.
COMPARISON = (SETTINGS - {"method", "seed"}) | {"preset", "name", "methods", "seeds"}
RUN = SETTINGS | {"preset"}


@dataclass(frozen=True)
class Plan:
    """A comparison that was asked for.

    Attributes:
        name: What it is called in its report.
        preset: What it started from, if anything.
        methods: Canonical names.
        seeds: One run of each method for each.
        base: The settings all runs share; its method and seed mean nothing.
    """

    name: str
    preset: str | None
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    base: RunConfig


def plan_run(given: Mapping[str, Any], file: Path | None = None) -> RunConfig:
    """One run: the paper's protocol, or a preset, changed by a file and by what was given.

    Args:
        given: Settings from the command line; None means not given.
        file: A TOML file of settings.

    Raises:
        LabError: on a bad name or value.

    Example:
        >>> plan_run({"method": "bn", "epochs": None}).epochs
        160
    """
    values = _merged(given, file, RUN)
    preset = values.pop("preset", None)
    return make({**(presets.get(preset).settings if preset else {}), **values})


def plan_comparison(given: Mapping[str, Any], file: Path | None = None, out: Path | None = None) -> Plan:
    """A comparison: a preset, changed by a file and by what was given.

    A directory that already holds a comparison stands in for the preset, unless one is named: so
    `aon compare --out DIR --seeds 5` adds seeds to what is there.

    Args:
        given: Settings from the command line; None means not given.
        file: A TOML file of settings.
        out: The directory it goes to.

    Raises:
        LabError: on a bad name or value.

    Example:
        >>> plan_comparison({"preset": "table3", "seeds": 2}).seeds
        (0, 1)
    """
    values = _merged(given, file, COMPARISON)
    start = _start(values.pop("preset", None), out)
    name = values.pop("name", start.name)
    methods = _methods(values.pop("methods", start.methods))
    seeds = _seeds(values.pop("seeds", start.seeds))
    if not isinstance(name, str) or not name.strip():
        raise LabError(f"name = {name!r}: should be a word or a sentence")
    base = make({**start.base.model_dump(), **values})
    return Plan(name, start.preset, methods, seeds, base)


def _merged(given: Mapping[str, Any], file: Path | None, known: frozenset[str]) -> dict[str, Any]:
    read = read_toml(file) if file else {}
    for name in read:
        check_name(name, known)
    return read | {name: value for name, value in given.items() if value is not None}


def _start(preset: object, out: Path | None) -> Plan:
    if preset is None and out is not None and (out / records.COMPARISON).exists():
        old = records.load_comparison(out)
        return Plan(old.name, old.preset, old.methods, old.seeds, make(old.config))
    name = presets.DEFAULT if preset is None else str(preset)
    chosen = presets.get(name)
    return Plan(name, name, chosen.methods, tuple(range(chosen.seeds)), make(chosen.settings))


def _methods(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        methods = [str(method) for method in parse_list(value)]
    elif isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        methods = [str(parse(one)) for one in value]
    else:
        raise LabError(f"methods = {value!r}: should be names of methods, such as bn,bn+aon")
    if not methods:
        raise LabError("methods: there are none; give at least one, such as bn,bn+aon")
    return tuple(dict.fromkeys(methods))


def _seeds(value: object) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return tuple(range(value))
    numbers = value if isinstance(value, list | tuple) else ()
    if not numbers or any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in numbers):
        raise LabError(f"seeds = {value!r}: should be a number of repetitions, at least 1, or a list of seeds")
    return tuple(dict.fromkeys(numbers))
