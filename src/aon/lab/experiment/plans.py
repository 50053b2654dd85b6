"""Merge preset, TOML file and command line into a plan; later sources win."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aon.lab.errors import LabError
from aon.lab.experiment import presets, records
from aon.lab.experiment.config import ONLY_WITH, PLACEMENT, RunConfig, check_type, make, read_toml
from aon.lab.methods.grammar import parse, parse_list
from aon.lab.methods.variation import OPTION_NAMES, vary_option
from aon.lab.system.shown import shown
from aon.lab.system.suggest import check_known

SETTINGS = frozenset(RunConfig.model_fields)
# A comparison has the settings of its runs, but methods and seeds in the place of method and seed.
COMPARISON = (SETTINGS - {"method", "seed"}) | {"preset", "name", "methods", "seeds", "vary", "base"}
RUN = SETTINGS | {"preset"}
MOST_SEEDS, LONGEST_NAME = 10_000, 1_000


@dataclass(frozen=True)
class Plan:
    """A comparison to run.

    Attributes:
        name: Its title in the report.
        preset: The preset it started from, if any.
        methods: Canonical names.
        seeds: One run of each method for each.
        base: The settings all runs share; its method and seed mean nothing.
        vary: Settings with more than one value: every method is run under every combination.
        baseline: The method that the report compares the others with, if one was named.
        named: Whether the name was given, so that a comparison that is there takes it.
    """

    name: str
    preset: str | None
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    base: RunConfig
    named: bool = False
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    baseline: str | None = None

    def settings(self) -> list[RunConfig]:
        """The settings of the runs, one for each combination of those that vary."""
        return [self.base.but(**setting) for setting in records.combinations(self.vary)]


def plan_run(given: Mapping[str, Any], file: Path | None = None) -> RunConfig:
    """The configuration of one run: the paper's protocol or a preset, then the file, then the command line.

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
    preset = _preset(values)
    config = make({**(presets.get(preset).settings_on(_datasets(values)) if preset else {}), **values})
    _check_effect(values, {}, [config])
    return config


def plan_comparison(given: Mapping[str, Any], file: Path | None = None, out: Path | None = None) -> Plan:
    """A comparison: a preset, then the file, then the command line.

    If the directory already holds a comparison and no preset is given, that comparison is the start, so
    `aon compare --out DIR --seeds 5` adds seeds to it.

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
    held = _held(out)
    start = _start(_preset(values), held, _datasets(values))
    _check_network(start, values, out)
    named, name = "name" in values, values.pop("name", start.name)
    methods = _methods(values.pop("methods", start.methods))
    seeds = _seeds(values.pop("seeds", start.seeds))
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
        raise LabError(f"name = {shown(name)}: should be a word or a sentence of at most {LONGEST_NAME} characters")
    methods, vary = _expanded(methods, _read_vary(values.pop("vary", start.vary)))
    against = values.pop("base", None)
    baseline = start.baseline if against is None else _baseline(against, {*methods, *(held.methods if held else ())})
    base = make({**start.base.model_dump(), **values})
    plan = Plan(name, start.preset, methods, seeds, base, named, _vary(vary, base), baseline)
    _check_effect(values, plan.vary, plan.settings())
    return plan


def _merged(given: Mapping[str, Any], file: Path | None, known: frozenset[str]) -> dict[str, Any]:
    read = read_toml(file) if file else {}
    for name, value in read.items():
        check_known("setting", name, sorted(known))
        check_type(name, value)
    return read | {name: value for name, value in given.items() if value is not None}


def _check_effect(given: Mapping[str, Any], vary: Mapping[str, Any], settings: Sequence[RunConfig]) -> None:
    """Refuse a setting, given or varied, that none of the runs would use."""
    for name, (other, needed) in ONLY_WITH.items():
        value = vary.get(name, given.get(name))
        default = RunConfig.model_fields[name].default
        idle = all(getattr(setting, other) != needed for setting in settings)
        if idle and value is not None and (name in vary or getattr(settings[0], name) != default):
            found = getattr(settings[0], other)
            raise LabError(
                f"{name} = {shown(value)}: has no effect with {other} = {found}; expected with {other} = {needed} only"
            )


def _preset(values: dict[str, Any]) -> str | None:
    preset = values.pop("preset", None)
    if preset is not None and not isinstance(preset, str):
        raise LabError(f"preset = {shown(preset)}: should be the name of a preset, such as quick")
    return preset


def _check_network(start: Plan, values: Mapping[str, Any], out: Path | None) -> None:
    """Refuse to run a user's own network because a directory names it: directories may come from anyone."""
    if out is not None and ":" in start.base.network and "network" not in values:
        raise LabError(
            f"{out} names the network {shown(start.base.network)}, which is not one of ours; "
            "if you trust its code, give it with --network"
        )


def _datasets(values: Mapping[str, Any]) -> list[object]:
    """The datasets that are named, as a setting or as one that varies."""
    varied = _read_vary(values["vary"]).get("dataset", ()) if "vary" in values else ()
    return [*([values["dataset"]] if "dataset" in values else []), *varied]


def _held(out: Path | None) -> records.Comparison | None:
    """The comparison that the directory already holds; None if there is none."""
    return records.load_comparison(out) if out is not None and (out / records.COMPARISON).exists() else None


def _start(preset: str | None, held: records.Comparison | None, datasets: Sequence[object]) -> Plan:
    if preset is None and held is not None:
        base = make(held.config)
        return Plan(held.name, held.preset, held.methods, held.seeds, base, vary=held.vary, baseline=held.baseline)
    name = presets.DEFAULT if preset is None else preset
    chosen = presets.get(name)
    return Plan(name, name, chosen.methods, tuple(range(chosen.seeds)), make(chosen.settings_on(datasets)))


def _methods(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(one, str) for one in names):
        raise LabError(f"methods = {shown(value)}: should be names of methods, such as bn,bn+aon")
    if not names:
        raise LabError("methods: there are none; give at least one, such as bn,bn+aon")
    if not isinstance(value, str) and (joined := next((one for one in names if "," in one), None)):
        raise LabError(f"methods = {shown(value)}: {joined!r} is several; give each method as an entry of its own")
    return tuple(str(method) for method in parse_list(",".join(names)))


def _seeds(value: object) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_SEEDS:
        return tuple(range(value))
    numbers = value if isinstance(value, list | tuple) and len(value) <= MOST_SEEDS else ()
    if not numbers or any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in numbers):
        expected = f"a number of repetitions, at least 1 and at most {MOST_SEEDS}, or a list of seeds"
        raise LabError(f"seeds = {shown(value)}: should be {expected}")
    return tuple(dict.fromkeys(numbers))


def _read_vary(value: object) -> dict[str, Sequence[Any]]:
    """The values of each setting or option that varies, as they were given."""
    given = dict(map(_varied, value)) if isinstance(value, list | tuple) else value
    if not isinstance(given, Mapping):
        raise LabError(f"vary = {value!r}: should be a table of settings, such as learning_rate = [0.05, 0.1]")
    for name, values in given.items():
        check_known("setting or option", name, sorted((SETTINGS - {"method", "seed", *PLACEMENT}) | OPTION_NAMES))
        if not isinstance(values, list | tuple) or not values:
            raise LabError(f"vary.{name} = {values!r}: should be a list of values, such as [0.05, 0.1]")
    return dict(given)


def _expanded(
    methods: tuple[str, ...], vary: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, ...], dict[str, Sequence[Any]]]:
    """The methods at every value of the options that vary, and the settings that do."""
    for name in [name for name in vary if name not in SETTINGS]:
        methods = vary_option(methods, name, vary[name])
    return methods, {name: values for name, values in vary.items() if name in SETTINGS}


def _vary(given: Mapping[str, Sequence[Any]], base: RunConfig) -> dict[str, tuple[Any, ...]]:
    """The values of each setting that varies, checked and without repetitions."""
    checked: dict[str, tuple[Any, ...]] = {}
    for name, values in given.items():
        plain = [base.but(**{name: one}).model_dump(mode="json")[name] for one in values]
        checked[name] = tuple(one for i, one in enumerate(plain) if one not in plain[:i])
    return checked


def _varied(text: object) -> tuple[str, list[str]]:
    """Read `learning_rate=0.05,0.1`, as the command line gives it."""
    name, equals, values = str(text).partition("=")
    if not equals:
        raise LabError(f"vary = {text!r}: should be a setting and its values, such as learning_rate=0.05,0.1")
    return name.strip().replace("-", "_"), [part.strip() for part in values.split(",") if part.strip()]


def _baseline(value: object, methods: Collection[str]) -> str:
    baseline = str(parse(str(value)))
    if baseline not in methods:
        raise LabError(f"base = {str(value)!r}: should be one of the methods, {', '.join(sorted(methods))}")
    return baseline
