"""Load a user's arrays from an `.npz` file: x_train, y_train, x_test, y_test and, optionally, classes.

Images are uint8: (N, H, W, 3) or (N, 3, H, W), or grey, as (N, H, W) or with one channel. Labels are whole
numbers from 0, one for each image; `classes` names them.
"""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aon.lab.data.dataset import Dataset, channel_statistics, check_size
from aon.lab.errors import LabError
from aon.lab.system.shown import shortened

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
LONGEST_CLASS = 1000


def load_npz(path: Path) -> Dataset:
    """The dataset in an `.npz` file; pickled objects in it are refused unread.

    Mean and deviation are those of its training images.

    Args:
        path: The file.

    Raises:
        LabError: if the file cannot be read, an array is missing, or one has the wrong form.
    """
    found = _read(path)
    missing = [name for name in ARRAYS if name not in found]
    if missing:
        raise LabError(f"{path}: {', '.join(missing)} missing; expected the arrays {', '.join(ARRAYS)}")
    x_train, x_test = (_images(found[name], f"{path}: {name}") for name in ("x_train", "x_test"))
    y_train, y_test = (_labels(found[name], f"{path}: {name}") for name in ("y_train", "y_test"))
    classes = _classes(found.get("classes"), y_train, y_test, path)
    mean, std = channel_statistics(x_train)
    return Dataset(str(path), x_train, y_train, x_test, y_test, classes, mean, std)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:  # numpy would leave a damaged file open
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise LabError(f"{path} is a single array; expected an .npz with {', '.join(ARRAYS)}")
            names = [name for name in (*ARRAYS, "classes") if name in archive]
            check_size(sum(_size(archive, name, path) for name in names), path)
            return {name: archive[name] for name in names}
    except LabError:
        raise
    except zipfile.BadZipFile as error:
        raise LabError(f"{path} is not an .npz file, or is damaged: {shortened(str(error), 200)}") from error
    # zipfile, its decompressors and numpy's parser of headers raise a dozen types of errors, some of them undocumented.
    except Exception as error:
        raise LabError(f"cannot read {path}: {shortened(str(error) or type(error).__name__, 200)}") from error


def _size(archive: np.lib.npyio.NpzFile, name: str, path: Path) -> int:
    """Bytes of an array once unpacked; its header is checked against them before numpy makes room for it."""
    assert archive.zip is not None
    entry = next(e for e in archive.zip.infolist() if e.filename in (name, f"{name}.npy"))
    with archive.zip.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = read(file)
        said, there = math.prod(shape) * kind.itemsize, entry.file_size - file.tell()
    if said != there and not kind.hasobject:
        raise LabError(f"{path}: {name} is damaged: its header says {said:,} bytes, {there:,} are there")
    return entry.file_size


def _images(x: NDArray[Any], what: str) -> Tensor:
    """Images of any of the accepted forms, as (N, 3, H, W)."""
    if x.dtype != np.uint8:
        raise LabError(f"{what} is {x.dtype}; expected uint8, pixels from 0 to 255")
    grey = x.ndim == 3
    channels_last = x.ndim == 4 and x.shape[3] in (1, 3)
    channels_first = x.ndim == 4 and x.shape[1] in (1, 3)
    if channels_last == channels_first and not grey:
        raise LabError(f"{what} has shape {x.shape}; expected (N, H, W, 3), (N, 3, H, W) or (N, H, W)")
    if grey:
        x = x[:, None]
    elif channels_last:
        x = x.transpose(0, 3, 1, 2)
    if 0 in x.shape:
        raise LabError(f"{what} has shape {x.shape}: it holds no pixels")
    return torch.from_numpy(np.repeat(x, 3, axis=1) if x.shape[1] == 1 else np.ascontiguousarray(x))


def _labels(y: NDArray[Any], what: str) -> Tensor:
    if y.dtype.kind not in "iu" or y.shape not in ((y.size,), (y.size, 1)):
        raise LabError(f"{what} is {y.dtype} of shape {y.shape}; expected whole numbers of shape (N,)")
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= 2**31):
        raise LabError(f"{what} has labels from {y.min()} to {y.max()}; expected 0 to the number of classes less 1")
    return torch.from_numpy(y.reshape(-1).astype(np.int64))


def _classes(names: NDArray[Any] | None, y_train: Tensor, y_test: Tensor, path: Path) -> tuple[str, ...]:
    """The names of the classes: those given, or the numbers that occur in training."""
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise LabError(f"{path}: classes is {names.dtype} of shape {names.shape}; expected a row of text")
    present = torch.unique(y_train)
    classes = tuple(str(name) for name in (names if names is not None else range(len(present))))
    if names is None and len(present) and int(present[-1]) != len(present) - 1:
        raise LabError(f"{path}: y_train has {len(present)} classes but labels up to {present[-1]}; number them from 0")
    if any(len(name) > LONGEST_CLASS for name in classes):
        raise LabError(f"{path}: a class has a name of more than {LONGEST_CLASS} characters")
    largest = max((int(y.max()) for y in (y_train, y_test) if len(y)), default=0)
    if largest >= len(classes):
        raise LabError(f"{path}: label {largest} is beyond the {len(classes)} classes")
    return classes
