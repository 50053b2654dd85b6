"""Metadata of a weights file, validated before use."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aon.lab.data import Dataset
from aon.lab.errors import LabError
from aon.lab.experiment.config import RunConfig, describe

_Numbers = Annotated[list[float], Field(min_length=3, max_length=3)]
_Side = Annotated[int, Field(ge=1, le=65_536)]


class About(BaseModel):
    """The header of a file of weights, enough to rebuild its network and to feed it.

    Attributes:
        config: The settings of the run.
        classes: What the outputs mean, in their order.
        image: Channels, height and width of an image.
        epoch: Epochs done when the weights were written.
        mean: Of the channels of pixels from 0 to 1; None in files of the first format.
        std: Of the same.
    """

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    config: dict[str, Any]
    classes: Annotated[list[str], Field(min_length=1, max_length=1_000_000)]
    image: Annotated[list[_Side], Field(min_length=3, max_length=3)]
    epoch: int = 0
    mean: _Numbers | None = None
    std: _Numbers | None = None


def describing(config: RunConfig, data: Dataset, epoch: int) -> dict[str, Any]:
    """The header for the weights of a run, as plain data.

    Args:
        config: The run.
        data: Its images.
        epoch: Epochs done.
    """
    return About(
        config=config.identity(),
        classes=list(data.classes),
        image=list(data.x_train.shape[1:]),
        epoch=epoch,
        mean=list(data.mean),
        std=list(data.std),
    ).model_dump()


def parse(header: Mapping[str, Any]) -> About:
    """Check a header.

    Args:
        header: As it was found.

    Raises:
        LabError: naming what is not as it should be.
    """
    try:
        return About.model_validate(dict(header))
    except ValidationError as error:
        raise LabError(f"the header of the weights is damaged or not ours: {describe(error)}") from None
