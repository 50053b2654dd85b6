"""One frozen, validated description of a run; its defaults are the paper's protocol."""

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from aon.lab.errors import LabError
from aon.lab.grammar import parse

Precision = Literal["float32", "bf16", "fp16"]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]

# Where a run is computed, not what: changing these neither makes it another run nor another comparison.
PLACEMENT = frozenset({"threads"})


def _numbers(value: object) -> object:
    """Split `0.375,0.75`, as the command line gives it; anything else passes."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


class RunConfig(BaseModel):
    """Everything that decides what a run computes.

    Example:
        >>> config = RunConfig(method="bn+aon", epochs=160)
        >>> [config.learning_rate_at(epoch) for epoch in (0, 59, 60, 120)]
        [0.1, 0.1, 0.05, 0.025]
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: str = Field("bn+aon", description="what is compared, e.g. bn, bn+orth, bn+aon:order=4")
    dataset: str = Field(
        "cifar10-sample",
        min_length=1,
        description="cifar10-sample, cifar10, cifar100, an .npz file or a folder",
    )
    train_size: Positive | None = Field(None, description="train on this many images, balanced over classes")
    test_size: Positive | None = Field(None, description="validate on this many images")
    network: str = Field("vgg16-iternorm", min_length=1, description="a network or package.module:function")
    width: float = Field(1.0, gt=0, le=64, description="multiplier of the number of channels")
    include_classifier: bool = Field(False, description="weight maps and penalties act on the classifier too")
    epochs: Positive = Field(160, description="passes over the training images")
    batch_size: Positive = Field(256, description="images in a step; the partial batch is dropped")
    learning_rate: float = Field(0.1, gt=0, description="learning rate of the first epoch")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    nesterov: bool = Field(False, description="Nesterov's form of momentum")
    weight_decay: float = Field(0.0, ge=0, description="the optimiser's weight decay")
    milestones: Annotated[tuple[Fraction, ...], BeforeValidator(_numbers)] = Field(
        (0.375, 0.75), description="fractions of the epochs after which the learning rate falls"
    )
    decay: float = Field(0.5, gt=0, le=1, description="factor of the learning rate at each milestone")
    augment: bool = Field(True, description="random crops and flips of the training images")
    seed: int = Field(0, ge=0, lt=2**31, description="start of every random stream")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 or mps")
    precision: Precision = Field("float32", description="float32, or autocast with bf16 or fp16")
    compile: bool = Field(False, description="compile the network with torch.compile")
    threads: Positive | None = Field(None, description="CPU threads of a run; chosen by itself if not given")
    spectra_every: int = Field(1, ge=0, description="epochs between summaries of the spectra; 0 for none")

    @field_validator("method")
    @classmethod
    def _canonical(cls, value: str) -> str:
        return str(parse(value))

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value):
            raise ValueError("should be auto, cpu, cuda, cuda:N or mps")
        return value

    @field_validator("milestones")
    @classmethod
    def _rising(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError("fractions must rise")
        return value

    @field_validator("nesterov")
    @classmethod
    def _has_momentum(cls, value: bool, info: Any) -> bool:
        if value and info.data.get("momentum") == 0:
            raise ValueError("needs a momentum above 0")
        return value

    def learning_rate_at(self, epoch: int) -> float:
        """Learning rate of an epoch counted from 0.

        Args:
            epoch: Epochs already done.
        """
        # Rounded, since 0.55 * 100 is a little more than 55 in binary and would come an epoch late.
        passed = sum(epoch >= round(fraction * self.epochs, 9) for fraction in self.milestones)
        return self.learning_rate * self.decay**passed

    def identity(self) -> dict[str, Any]:
        """The settings that decide the result, as plain data."""
        return self.model_dump(mode="json", exclude=set(PLACEMENT))

    def run_id(self) -> str:
        """Name of the run's folder: method, seed and a fingerprint of all settings.

        Example:
            >>> RunConfig(method="bn", seed=3).run_id()
            'bn-s3-...'
        """
        fingerprint = hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:8]
        # Long methods are cut: file systems allow 255 bytes, and the fingerprint tells them apart.
        slug = re.sub(r"[^a-z0-9.+=_-]", "-", self.method.lower())[:80]
        return f"{slug}-s{self.seed}-{fingerprint}"

    def but(self, **changes: Any) -> "RunConfig":
        """The same description with some settings changed, checked again.

        Args:
            **changes: Settings by name.

        Raises:
            LabError: if a changed value is not allowed.
        """
        return make(self.model_dump() | changes)


def make(values: Mapping[str, Any]) -> RunConfig:
    """Check settings and fill in the paper's protocol for those not given.

    Args:
        values: Settings by name.

    Raises:
        LabError: on an unknown name or a bad value, naming it and what was expected.

    Example:
        >>> make({"epochs": 30}).batch_size
        256
    """
    for name in values:
        check_name(name, RunConfig.model_fields)
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise LabError(describe(error)) from None


def check_name(name: str, known: Mapping[str, object] | frozenset[str]) -> None:
    """Refuse a setting that does not exist, naming the nearest that does.

    Args:
        name: The setting asked for.
        known: Those there are.

    Raises:
        LabError: if the name is not among them.
    """
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise LabError(f"unknown setting {name!r}; {hint}")


def describe(error: ValidationError) -> str:
    """The first complaint of a validation, in one line.

    Args:
        error: What pydantic raised.
    """
    first = error.errors(include_url=False, include_context=True)[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    subject = f"{name} = {first['input']!r}: " if name else ""
    return f"{subject}{message}".replace("\n", " ")


def read_toml(path: Path) -> dict[str, Any]:
    """Settings from a TOML file.

    Args:
        path: The file.

    Raises:
        LabError: if it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LabError(f"{path} is not valid TOML: {error}") from error


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Settings that are not the same in both, each as `name: old -> new`.

    Args:
        old: Settings by name.
        new: Settings by name.

    Example:
        >>> differences({"epochs": 30, "seed": 0}, {"epochs": 160, "seed": 0})
        ['epochs: 30 -> 160']
    """
    names = [*old, *(name for name in new if name not in old)]
    return [f"{name}: {old.get(name)} -> {new.get(name)}" for name in names if old.get(name) != new.get(name)]
