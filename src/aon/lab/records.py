"""What a run leaves behind, and what a comparison consists of: typed, on disk, safely.

Records are the one place where training and reporting meet. They are JSON, checked on reading; a damaged or
foreign file gives an error that names it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, computed_field, model_validator

from aon.lab.config import RunConfig, describe, make
from aon.lab.errors import LabError
from aon.lab.files import write_text

RECORD = "record.json"
COMPARISON = "comparison.json"
Status = Literal["running", "done", "failed", "interrupted"]
# Fields that hold a time. All else in a record is the same, bit for bit, for one seed on one machine.
TIMES = frozenset({"seconds", "eval_seconds", "started"})


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
    """One epoch: losses, accuracies in percent, times in seconds (`seconds` is the training part alone)."""

    epoch: int
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float
    penalty: float | None
    seconds: float
    eval_seconds: float
    learning_rate: float
    spectra: tuple[SpectrumRow, ...] | None = None


class Images(_Data):
    """How many images were trained on and validated with."""

    train: int
    test: int


class Score(_Data):
    """Validation accuracy, in percent, and the epoch it was reached."""

    epoch: int
    val_accuracy: float


class Environment(_Data):
    """The machine and the versions a run was made with."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    python: str
    torch: str
    aon: str
    platform: str
    cpu: str
    threads: int
    device: str
    commit: str | None
    started: str


class Record(_Data):
    """All that is known of a run.

    Example:
        >>> Record.model_fields["status"].annotation
        typing.Literal['running', 'done', 'failed', 'interrupted']
    """

    format: Literal[1] = 1
    status: Status
    error: str | None = None
    config: RunConfig
    label: str
    environment: Environment
    parameters: int
    images: Images
    epochs: tuple[EpochRow, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        # Written for people and other programs, computed again here: the two can never disagree.
        return {k: v for k, v in data.items() if k not in ("best", "last")} if isinstance(data, dict) else data

    @computed_field  # type: ignore[prop-decorator]
    @property
    def best(self) -> Score | None:
        """The epoch with the highest validation accuracy; the first of equals."""
        return max(self._scores(), key=lambda score: score.val_accuracy, default=None)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def last(self) -> Score | None:
        """The last epoch so far."""
        return next(reversed(self._scores()), None)

    def _scores(self) -> list[Score]:
        return [Score(epoch=row.epoch, val_accuracy=row.val_accuracy) for row in self.epochs]

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
    """What a comparison directory is for: methods, seeds and the settings they share."""

    format: Literal[1] = 1
    name: str
    preset: str | None = None
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    config: dict[str, Any]
    command: tuple[str, ...] = ()
    created: str

    @model_validator(mode="after")
    def _check_runs(self) -> Self:
        self.runs()
        return self

    def runs(self) -> list[RunConfig]:
        """The description of every run, seed by seed, so that a first table comes early."""
        return [make(self.config | {"method": method, "seed": seed}) for seed in self.seeds for method in self.methods]


_Loaded = TypeVar("_Loaded", Record, Comparison)


def save(record: Record, folder: Path) -> None:
    """Write the record of a run, whole or not at all.

    Args:
        record: What is known of the run.
        folder: The run's folder.
    """
    write_text(folder / RECORD, record.model_dump_json(indent=1) + "\n")


def load(folder: Path) -> Record:
    """Read the record of a run.

    Args:
        folder: The run's folder.

    Raises:
        LabError: if there is none, or it is damaged or of another format.
    """
    return _read(folder / RECORD, Record)


def load_all(out: Path) -> list[Record]:
    """Read the records of a comparison, or of a single run, in the order its comparison lists them.

    Args:
        out: A comparison directory, or a run's folder.

    Raises:
        LabError: if there is no record, or one is damaged.
    """
    if (out / RECORD).is_file():
        return [load(out)]
    found = {path.parent.name: load(path.parent) for path in sorted(out.glob(f"runs/*/{RECORD}"))}
    if not found:
        raise LabError(f"{out} holds no records: neither {RECORD} nor runs/*/{RECORD}")
    return [found[name] for name in _ordered(out, found)]


def save_comparison(comparison: Comparison, out: Path) -> None:
    """Write what a comparison directory is for.

    Args:
        comparison: Its description.
        out: The directory.
    """
    write_text(out / COMPARISON, comparison.model_dump_json(indent=1) + "\n")


def load_comparison(out: Path) -> Comparison:
    """Read what a comparison directory is for.

    Args:
        out: The directory.

    Raises:
        LabError: if it is not a comparison directory, or the file is damaged.
    """
    return _read(out / COMPARISON, Comparison)


def _ordered(out: Path, names: Iterable[str]) -> list[str]:
    listed = [run.run_id() for run in load_comparison(out).runs()] if (out / COMPARISON).is_file() else []
    return sorted(names, key=lambda name: (listed.index(name) if name in listed else len(listed), name))


def _read(path: Path, kind: type[_Loaded]) -> _Loaded:
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise LabError(f"there is no {path}") from error
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except (ValidationError, LabError) as error:
        reason = describe(error) if isinstance(error, ValidationError) else str(error)
        raise LabError(f"{path} is damaged or not ours: {reason[:300]}") from error
