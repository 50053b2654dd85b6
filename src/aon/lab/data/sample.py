"""`cifar10-sample`: 6,000 images of the real CIFAR-10 that come inside the package.

They lie in two lossless WebP mosaics beside this file, in the folder `cifar10_sample`, made by
`scripts/make_sample.py`; the README there says where they come from. `sample.json` gives their checksums,
labels and places in the official files.
"""

import hashlib
import io
import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from aon.lab.data import official
from aon.lab.data.dataset import Dataset
from aon.lab.errors import LabError

NAME = "cifar10-sample"
N_TRAIN, N_TEST = 5000, 1000
COLUMNS = 50  # images in a row of a mosaic


def folder() -> Traversable:
    """Where the sample lies in the installed package."""
    return resources.files("aon.lab.data") / "cifar10_sample"


def load() -> Dataset:
    """The sample, checked against its checksums.

    Raises:
        LabError: if a file of the installed package is missing or altered.

    Example:
        >>> load()
        cifar10-sample: 5000 training and 1000 test images of 32x32, 10 classes
    """
    index = _index()
    x_train, y_train = _part("train", index["train"])
    x_test, y_test = _part("test", index["test"])
    classes = official.CIFAR10.classes
    return Dataset(NAME, x_train, y_train, x_test, y_test, classes, official.MEAN, official.STD)


def to_mosaic(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Lay images (n, 3, h, w) out in rows of 50, as one picture (n/50 * h, 50 * w, 3).

    Example:
        >>> x = np.arange(100 * 3 * 2 * 4, dtype=np.uint8).reshape(100, 3, 2, 4)
        >>> to_mosaic(x).shape
        (4, 200, 3)
        >>> bool((from_mosaic(to_mosaic(x), (2, 4)) == x).all())
        True
    """
    n, c, h, w = images.shape
    rows = images.reshape(n // COLUMNS, COLUMNS, c, h, w)
    return rows.transpose(0, 3, 1, 4, 2).reshape(n // COLUMNS * h, COLUMNS * w, c)


def from_mosaic(picture: NDArray[np.uint8], size: tuple[int, int] = (32, 32)) -> NDArray[np.uint8]:
    """The images (n, 3, h, w) that `to_mosaic` laid out."""
    h, w = size
    rows = picture.reshape(-1, h, picture.shape[1] // w, w, 3)
    return np.ascontiguousarray(rows.transpose(0, 2, 4, 1, 3).reshape(-1, 3, h, w))


def _index() -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((folder() / "sample.json").read_bytes())
    except (OSError, ValueError) as error:
        raise LabError(f"{NAME}: sample.json of the installed package cannot be read; reinstall aon") from error
    return index


def _part(part: str, index: dict[str, Any]) -> tuple[Tensor, Tensor]:
    try:
        content = (folder() / f"{part}.webp").read_bytes()
    except OSError as error:
        raise LabError(f"{NAME}: {part}.webp is missing from the installed package; reinstall aon") from error
    if hashlib.sha256(content).hexdigest() != index["sha256"]:
        raise LabError(f"{NAME}: {part}.webp differs from its checksum; reinstall aon")
    images = from_mosaic(np.asarray(Image.open(io.BytesIO(content), formats=("WEBP",)).convert("RGB")))
    return torch.from_numpy(images), torch.tensor(index["labels"], dtype=torch.int64)
