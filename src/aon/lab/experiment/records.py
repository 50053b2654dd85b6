"""Records of runs and descriptions of comparisons, as JSON files that are checked on reading.

Records are the one place where training and reporting meet. A damaged or foreign file gives an error that names it.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, computed_field, model_validator

from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig, describe, make
from aon.lab.system.checksums import BLANK, MARK, check
from aon.lab.system.files import write_text
from aon.lab.system.shown import shortened

RECORD = "record.json"
COMPARISON = "comparison.json"
Status = Literal["running", "done", "failed", "interrupted"]
# Of a run with validation images, the test set is opened for the last epochs and for the best by validation.
REPORTED_EPOCHS = 5
_COMPUTED = frozenset({"best", "last", "last_five"})
# The first format had neither checksum nor fingerprints; it is still read.
FORMAT: Literal[2] = 2
# Fields that hold a time. All else in a record is the same, bit for bit, for one seed on one machine.
TIMES = frozenset({"seconds", "eval_seconds", "started"})


# The beginning of a record; where a checksum vouches for it, no more need be read to know how far a run is.
_HEAD = re.compile(rb'\{\s*"format": ?2,\s*"status": ?"(running|done|failed|interrupted)"')


class _Data(BaseModel):
    # A loss may be infinite; plain JSON has no word for it, so it is written as a string.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class SpectrumRow(_Data):
    """Singular values of one layer's W and h(W) at the end of an epoch."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    name: str
    shape: tuple[int, ...]
    weight_min: float
    weight_median: float
    weight_max: float
    normalised_min: float
    normalised_median: float
    normalised_max: float
    outside: float | None = None
    error: float | None = None
    agreement: bool | float | None = None


class EpochRow(_Data):
    """One epoch: losses, accuracies in percent, times in seconds (`seconds` is the training part alone).

    `val_*` are measured on the validation images, or on the test images where the run has none (`images.validation`).
    `test_*` are known only for runs with validation images, and there for the epochs that tables report: the last
    five, and the best by validation.
    """

    epoch: int
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    penalty: float | None
    seconds: float
    eval_seconds: float
    learning_rate: float
    test_loss: float | None = None
    test_accuracy: float | None = None
    spectra: tuple[SpectrumRow, ...] | None = None


class Images(_Data):
    """How many images were trained on, validated with and tested on; 0 validation images: validated on the test."""

    train: int
    test: int
    validation: int = 0


class Score(_Data):
    """Validation and test accuracy of an epoch, in percent; the same number where there are no validation images."""

    epoch: int
    val_accuracy: float
    test_accuracy: float | None = None


class Environment(_Data):
    """The machine and the versions a run was made with."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    python: str
    torch: str
    aon: str
    platform: str
    cpu: str
    threads: int
    ranks: int = 1
    device: str
    commit: str | None
    started: str


class Fingerprints(_Data):
    """SHA-256 of what a run was given and no setting names: its images and labels, and a user's own network.

    Attributes:
        data: All images, labels and classes of the dataset, before any subset is drawn.
        network: The source file of a user's own network; None for a network of ours.
    """

    data: str
    network: str | None = None


class Record(_Data):
    """A run: its configuration, environment and epochs so far.

    Example:
        >>> Record.model_fields["status"].annotation
        typing.Literal['running', 'done', 'failed', 'interrupted']
    """

    format: Literal[1, 2] = FORMAT
    status: Status
    error: str | None = None
    config: RunConfig
    label: str
    environment: Environment
    parameters: int
    images: Images
    fingerprints: Fingerprints | None = None
    epochs: tuple[EpochRow, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        # Written for people and other programs, but computed again here, so that they cannot disagree.
        return {k: v for k, v in data.items() if k not in _COMPUTED | {MARK}} if isinstance(data, dict) else data

    @computed_field  # type: ignore[prop-decorator]
    @property
    def best(self) -> Score | None:
        """The epoch with the highest validation accuracy; the first of equals."""
        return self._score(max(self.epochs, key=lambda row: row.val_accuracy)) if self.epochs else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def last(self) -> Score | None:
        """The last epoch so far."""
        return self._score(self.epochs[-1]) if self.epochs else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def last_five(self) -> float | None:
        """Mean test accuracy of the last five epochs; None while one of them is unknown."""
        tail = [self._score(row).test_accuracy for row in self.epochs[-REPORTED_EPOCHS:]]
        known = [accuracy for accuracy in tail if accuracy is not None]
        return sum(known) / len(known) if known and len(known) == len(tail) else None

    def _score(self, row: EpochRow) -> Score:
        test = row.test_accuracy if self.images.validation else row.val_accuracy
        return Score(epoch=row.epoch, val_accuracy=row.val_accuracy, test_accuracy=test)

    def but(self, **changes: Any) -> "Record":
        """The same record with some fields changed.

        Args:
            **changes: Fields by name.
        """
        return self.model_copy(update=changes)

    def without_times(self) -> dict[str, Any]:
        """The record as plain data without its times: equal for two runs of one seed on one machine."""
        plain: dict[str, Any] = _without(self.model_dump(mode="json"), TIMES)
        return plain


def _without(data: Any, names: frozenset[str]) -> Any:
    if isinstance(data, dict):
        return {key: _without(value, names) for key, value in data.items() if key not in names}
    return [_without(value, names) for value in data] if isinstance(data, list) else data


class Comparison(_Data):
    """Methods, seeds and settings of a comparison directory.

    Every method is run with every seed under every setting: `vary` maps the name of a setting to its values, and
    `config` holds the settings that are the same for all. `baseline` is the method that the report compares the
    others with; None leaves the choice to the report.
    """

    format: Literal[1, 2] = FORMAT
    name: str
    preset: str | None = None
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    config: dict[str, Any]
    vary: dict[str, tuple[Any, ...]] = {}
    baseline: str | None = None
    fingerprints: Fingerprints | None = None
    command: tuple[str, ...] = ()
    created: str

    @model_validator(mode="before")
    @classmethod
    def _drop_checksum(cls, data: Any) -> Any:
        return {k: v for k, v in data.items() if k != MARK} if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _check_runs(self) -> Self:
        self.runs()
        return self

    def runs(self) -> list[RunConfig]:
        """The configuration of every run, seed by seed, so that a first table is complete early."""
        return [
            make(self.config | setting | {"method": method, "seed": seed})
            for seed in self.seeds
            for setting in combinations(self.vary)
            for method in self.methods
        ]


def combinations(vary: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of the settings that vary; one empty combination if none does.

    Args:
        vary: The values of each setting, by its name.

    Example:
        >>> combinations({"epochs": (1, 2), "width": (0.5,)})
        [{'epochs': 1, 'width': 0.5}, {'epochs': 2, 'width': 0.5}]
    """
    return [dict(zip(vary, values, strict=True)) for values in product(*vary.values())]


_Loaded = TypeVar("_Loaded", Record, Comparison)


def save(record: Record, folder: Path) -> None:
    """Write the record of a run, whole or not at all.

    Args:
        record: What is known of the run.
        folder: The run's folder.
    """
    _write(folder / RECORD, record.but(format=FORMAT))


def load(folder: Path) -> Record:
    """Read the record of a run.

    Args:
        folder: The run's folder.

    Raises:
        LabError: if there is none, or it is damaged or of another format.
    """
    return _read(folder / RECORD, Record)


def status(folder: Path) -> Status | None:
    """How far a run is by its record, without reading all of it; None if there is no record.

    Args:
        folder: The run's folder.

    Raises:
        LabError: if the record is damaged.
    """
    path = folder / RECORD
    if not path.exists():
        return None
    content, carried = _checked(path)
    found = _HEAD.match(content) if carried else None
    return cast(Status, found[1].decode()) if found else load(folder).status


def load_all(out: Path) -> list[Record]:
    """Read the records of a comparison, or of a single run, in the order its comparison lists them.

    Args:
        out: A comparison directory, or a run's folder.

    Raises:
        LabError: if there is no record, or one is damaged.
    """
    found, damaged = load_readable(out)
    if damaged:
        raise LabError(damaged[0])
    return found


def load_readable(out: Path) -> tuple[list[Record], list[str]]:
    """Read the records that can be read, in the order of `load_all`, and say what is wrong with the others.

    Args:
        out: A comparison directory, or a run's folder.

    Returns:
        The records, and an error message for each damaged one.

    Raises:
        LabError: if there is no record that can be read.
    """
    folders = [out] if (out / RECORD).is_file() else [path.parent for path in sorted(out.glob(f"runs/*/{RECORD}"))]
    if not folders:
        raise LabError(f"{out} holds no records: neither {RECORD} nor runs/*/{RECORD}")
    found, damaged = {}, []
    for folder in folders:
        try:
            found[folder.name] = load(folder)
        except LabError as error:
            damaged.append(str(error))
    if not found:
        raise LabError(damaged[0])
    places = _places(out)
    return [found[name] for name in sorted(found, key=lambda name: (places.get(name, len(places)), name))], damaged


def save_comparison(comparison: Comparison, out: Path) -> None:
    """Write the description of a comparison.

    Args:
        comparison: Its description.
        out: The directory.
    """
    _write(out / COMPARISON, comparison.model_copy(update={"format": FORMAT}))


def load_comparison(out: Path) -> Comparison:
    """Read the description of a comparison.

    Args:
        out: The directory.

    Raises:
        LabError: if it is not a comparison directory, or the file is damaged.
    """
    return _read(out / COMPARISON, Comparison)


def _places(out: Path) -> dict[str, int]:
    """Place of each run in the list of its comparison, by the name of its folder."""
    listed = load_comparison(out).runs() if (out / COMPARISON).is_file() else []
    return {run.run_id(): place for place, run in enumerate(listed)}


def _write(path: Path, data: Record | Comparison) -> None:
    text = data.model_dump_json(indent=1).removesuffix("\n}")
    write_text(path, f'{text},\n "{MARK}": "{BLANK}"\n}}\n', sealed=True)


def _read(path: Path, kind: type[_Loaded]) -> _Loaded:
    content, carried = _checked(path)
    try:
        found = kind.model_validate_json(content)
        if found.format > 1 and not carried:
            raise LabError(f"its {MARK} is missing")
    except (ValidationError, LabError, RecursionError) as error:
        reason = describe(error) if isinstance(error, ValidationError) else str(error)
        raise LabError(f"{path} is damaged or not ours: {shortened(reason, 300)}") from error
    return found


def _checked(path: Path) -> tuple[bytes, bool]:
    """The content of a file, and whether it has a checksum, which then fits."""
    try:
        with path.open("rb") as file:
            carried = check(file, path)
            file.seek(0)
            return file.read(), carried
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
