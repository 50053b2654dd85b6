"""Configuration of a run: frozen and validated; its defaults are the paper's protocol."""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from aon.lab.errors import LabError
from aon.lab.methods.grammar import parse
from aon.lab.system.shown import shortened, shown
from aon.lab.system.suggest import check_known

Precision = Literal["float32", "bf16", "fp16"]
OptimiserName = Literal["sgd", "adam", "amsgrad", "adamw", "rmsprop", "adagrad"]
Initialisation = Literal["torch", "xavier", "he"]
Schedule = Literal["steps", "cosine", "linear", "constant"]
# Far beyond any use, and far below what breaks arithmetic, ranges or memory.
MOST_EPOCHS, MOST_IMAGES = 1_000_000, 1_000_000_000
LONGEST_TEXT = 4096  # as long as a path can be


def _whole(value: object) -> object:
    """Refuse true, false and 3.0 for a whole number, which pydantic would take."""
    if isinstance(value, bool | float):
        raise ValueError("should be a whole number")
    return value


def _real(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _yes_or_no(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError("should be true or false")
    return value


def _none_if_zero(value: object) -> object:
    return None if value in (0, "0") and not isinstance(value, bool) else value


Whole = Annotated[int, BeforeValidator(_whole)]
Real = Annotated[float, BeforeValidator(_real)]
Flag = Annotated[bool, BeforeValidator(_yes_or_no)]
Fraction = Annotated[Real, Field(gt=0, lt=1)]
Epochs = Annotated[Whole, Field(ge=1, le=MOST_EPOCHS)]
Positive = Annotated[Whole, Field(ge=1, le=MOST_IMAGES)]

# Settings of where a run is computed, not what: changing them does not make it another run or comparison.
PLACEMENT = frozenset({"threads", "sync_bn"})
# Settings that have an effect only if another one has a certain value; plans refuse them otherwise.
ONLY_WITH = {"momentum": ("optimiser", "sgd"), "milestones": ("schedule", "steps"), "decay": ("schedule", "steps")}


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
        max_length=LONGEST_TEXT,
        description="cifar10-sample, cifar10, cifar100, an .npz file or a folder",
    )
    train_size: Positive | None = Field(None, description="train on this many images, drawn by seed, class by class")
    validation_size: Annotated[Positive | None, BeforeValidator(_none_if_zero)] = Field(
        None, description="validate on this many other training images; 0: on the test images, as the paper does"
    )
    test_size: Positive | None = Field(None, description="test on this many images")
    network: str = Field(
        "vgg16-iternorm", min_length=1, max_length=LONGEST_TEXT, description="a network or package.module:function"
    )
    width: Real = Field(1.0, gt=0, le=64, description="multiplier of the number of channels")
    initialisation: Initialisation = Field("torch", description="start of the weights: torch, xavier or he")
    include_classifier: Flag = Field(False, description="weight maps and penalties act on the classifier too")
    epochs: Epochs = Field(160, description="passes over the training images")
    batch_size: Positive = Field(256, description="images in a step; the partial batch is dropped")
    optimiser: OptimiserName = Field(
        "sgd", description="sgd, adam, amsgrad, adamw (which is adam unless weight decay is given), rmsprop or adagrad"
    )
    learning_rate: Real = Field(0.1, gt=0, description="largest learning rate")
    momentum: Real = Field(0.9, ge=0, lt=1, description="momentum of SGD; the others have torch's coefficients")
    nesterov: Flag = Field(False, description="Nesterov's form of momentum")
    weight_decay: Real = Field(0.0, ge=0, description="the optimiser's weight decay; 0 unless given, with adamw too")
    schedule: Schedule = Field("steps", description="learning rate: steps, cosine or linear (to zero), constant")
    warm_up: Whole = Field(0, ge=0, le=MOST_EPOCHS, description="epochs in which the learning rate rises from zero")
    milestones: Annotated[tuple[Fraction, ...], BeforeValidator(_numbers)] = Field(
        (0.375, 0.75), description="fractions of the epochs after which the learning rate falls"
    )
    decay: Real = Field(0.5, gt=0, le=1, description="factor of the learning rate at each milestone")
    augment: Flag = Field(True, description="random crops and flips of the training images")
    seed: Whole = Field(0, ge=0, lt=2**31, description="start of every random stream")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 or mps")
    precision: Precision = Field("float32", description="float32, or autocast with bf16 or fp16")
    channels_last: Flag = Field(True, description="keep images and convolutions in channels-last order")
    compile: Flag = Field(False, description="compile the network with torch.compile")
    threads: Positive | None = Field(None, description="CPU threads of a run; chosen by itself if not given")
    sync_bn: Flag = Field(False, description="under torchrun, statistics of the whole batch in every normalisation")
    spectra_every: Whole = Field(
        1, ge=0, le=MOST_EPOCHS, description="epochs between summaries of the spectra; 0 for none"
    )

    @field_validator("method")
    @classmethod
    def _canonical(cls, value: str) -> str:
        return str(parse(value))

    @field_validator("initialisation")
    @classmethod
    def _not_chosen_twice(cls, value: str, info: Any) -> str:
        method = info.data.get("method", "")
        if value != "torch" and method and any(part.name == "selu" for part in parse(method).parts):
            raise ValueError(f"the method {method} already has an initialisation (selu's); give only one of the two")
        return value

    @field_validator("weight_decay")
    @classmethod
    def _not_given_twice(cls, value: float, info: Any) -> float:
        method = info.data.get("method", "")
        if value and method and any(part.name == "wd" for part in parse(method).parts):
            raise ValueError(f"the method {method} already has weight decay (wd); give only one of the two")
        return value

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", value):
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
        if value and (info.data.get("momentum") == 0 or info.data.get("optimiser") != "sgd"):
            raise ValueError("needs the optimiser sgd with a momentum above 0")
        return value

    @field_validator("warm_up")
    @classmethod
    def _ends(cls, value: int, info: Any) -> int:
        if value and value >= info.data.get("epochs", value + 1):
            raise ValueError("should be fewer epochs than there are")
        return value

    def learning_rate_at(self, epoch: float) -> float:
        """Learning rate at an epoch, counted from 0; may be a fraction.

        Args:
            epoch: Epochs already done.
        """
        if epoch < self.warm_up:
            return self.learning_rate * epoch / self.warm_up
        left = 1 - (epoch - self.warm_up) / (self.epochs - self.warm_up)
        if self.schedule == "linear":
            return self.learning_rate * left
        if self.schedule == "cosine":
            return self.learning_rate * (1 - math.cos(math.pi * left)) / 2
        if self.schedule == "constant":
            return self.learning_rate
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
        # Settings at their defaults are left out, so that a run keeps its name when a version adds a setting.
        chosen = self.model_dump(mode="json", exclude=set(PLACEMENT), exclude_defaults=True)
        fingerprint = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]
        # Long methods are cut: file systems allow 255 bytes, and the fingerprint tells them apart.
        slug = re.sub(r"[^a-z0-9.+=_-]", "-", self.method.lower())[:80]
        return f"{slug}-s{self.seed}-{fingerprint}"

    def but(self, **changes: Any) -> "RunConfig":
        """A copy with some settings changed, validated again.

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
        check_known("setting", name, RunConfig.model_fields)
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise LabError(describe(error)) from None


def describe(error: ValidationError) -> str:
    """The first validation error, in one line.

    Args:
        error: What pydantic raised.
    """
    first = error.errors(include_url=False, include_context=True)[0]
    name = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    subject = f"{name} = {shown(first['input'])}: " if name else ""
    return shortened(f"{subject}{message}")


def check_type(name: str, value: object) -> None:
    """Refuse text in a file of settings where a number, true or false belongs; the command line has only text.

    Args:
        name: The setting.
        value: As the file has it.

    Raises:
        LabError: naming the setting, the value and what was expected.
    """
    kinds = {int: "a whole number", float: "a number", bool: "true or false"}
    field = RunConfig.model_fields.get(name)
    kind = next((kind for kind in kinds if field and kind in (field.annotation, *get_args(field.annotation))), None)
    if kind and isinstance(value, str):
        raise LabError(f"{name} = {shown(value)}: should be {kinds[kind]}")


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
    except (ValueError, RecursionError) as error:  # tomllib's own, bad UTF-8, too many digits, too deep
        raise LabError(f"{path} is not valid TOML: {shortened(str(error), 200)}") from error


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
    return [
        f"{name}: {_plain(old.get(name))} -> {_plain(new.get(name))}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _plain(value: object) -> str:
    return shortened(str(value), 100)
