"""Load CIFAR-10 and CIFAR-100 from any of their official layouts; every file is checked by md5."""

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aon.lab.data import official
from aon.lab.data.dataset import Dataset
from aon.lab.data.official import Layout, Official
from aon.lab.data.pickles import parse
from aon.lab.errors import LabError

PIXELS = 3 * 32 * 32


def places(layout: Layout, name: str, root: Path) -> list[Path]:
    """The folders where a layout is looked for: under `root`, under `root`/`name`, and `root` itself."""
    below = [root / layout.folder, root / name / layout.folder]
    return [*below, root] if root.name == layout.folder else below


def find(source: Official, root: Path) -> tuple[Layout, Path] | None:
    """The first layout of which every file is there, with its folder; None if there is none.

    Args:
        source: The dataset to look for.
        root: The folder that holds datasets.
    """
    for layout in source.layouts:
        for folder in places(layout, source.name, root):
            if all((folder / name).is_file() for name in layout.files):
                return layout, folder
    return None


def require(source: Official, root: Path) -> tuple[Layout, Path]:
    """As `find`, but a missing dataset is an error that says how to get it."""
    found = find(source, root)
    if found is None:
        folders = " or ".join(layout.folder for layout in source.layouts)
        raise LabError(f"{source.name} is not in {root} (no {folders}); get it with: aon data fetch {source.name}")
    return found


def load(source: Official, root: Path) -> Dataset:
    """The whole dataset, from whichever layout is there.

    Args:
        source: `official.CIFAR10` or `official.CIFAR100`.
        root: The folder that holds datasets.

    Raises:
        LabError: if it is not there, or a file is not the official one.
    """
    layout, folder = require(source, root)
    x_train, y_train = read(layout, folder, layout.train)
    x_test, y_test = read(layout, folder, layout.test)
    return Dataset(source.name, x_train, y_train, x_test, y_test, source.classes, official.MEAN, official.STD)


def read(layout: Layout, folder: Path, files: dict[str, str]) -> tuple[Tensor, Tensor]:
    """Images and labels of some files of a layout, in their order.

    Args:
        layout: How the files are written.
        folder: Where they are.
        files: Their names, each with its md5.
    """
    images, labels = [], []
    for name, md5 in files.items():
        path = folder / name
        content = checked_bytes(path, md5)
        try:
            x, y = decode(layout, content)
        except ValueError as error:
            raise LabError(f"{path}: {error}") from error
        images.append(x)
        labels.append(y)
    x_all, y_all = np.concatenate(images), np.concatenate(labels)
    return torch.from_numpy(x_all.reshape(-1, 3, 32, 32)), torch.from_numpy(y_all.astype(np.int64))


def checked_bytes(path: Path, md5: str) -> bytes:
    """The content of a file, which has this md5.

    Returns the bytes that were checked, without opening the file a second time.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror or error}") from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise LabError(f"{path}: its md5 is {found}, the official file's is {md5}; fetch it again or remove it")
    return content


def decode(layout: Layout, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 3072), channel after channel, and labels (n,), from the content of one file.

    Raises:
        ValueError: if the content is not in the layout's form.
    """
    if layout.kind == "binary":
        return _decode_binary(content, layout.label_bytes)
    return _decode_python(content, layout.label_key)


def encode_binary(labels: NDArray[np.uint8], images: NDArray[np.uint8]) -> bytes:
    """Labels (n, k) and images (n, 3, 32, 32) as official binary records.

    Example:
        >>> len(encode_binary(np.zeros((2, 1), np.uint8), np.zeros((2, 3, 32, 32), np.uint8)))
        6146
    """
    return np.concatenate([labels, images.reshape(len(images), PIXELS)], axis=1).tobytes()


def _decode_binary(content: bytes, label_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    length = label_bytes + PIXELS
    if not content or len(content) % length:
        raise ValueError(f"{len(content)} bytes are not whole records of {length} bytes")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, length)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def _decode_python(content: bytes, label_key: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    value = parse(content)
    if not isinstance(value, dict) or not {"data", label_key} <= value.keys():
        raise ValueError(f"expected a dictionary with data and {label_key}")
    images, labels = value["data"], value[label_key]
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise ValueError(f"expected {label_key} to be a list of numbers from 0 to 255")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (len(labels), PIXELS):
        raise ValueError(f"expected data to be uint8 of shape ({len(labels)}, {PIXELS})")
    return images, np.array(labels, dtype=np.uint8)
