"""Load a dataset by name or path."""

import os
import re
from dataclasses import replace
from pathlib import Path

from aon.lab.data import cifar, sample
from aon.lab.data.arrays import load_npz
from aon.lab.data.dataset import Dataset
from aon.lab.data.folders import load_folder
from aon.lab.data.official import OFFICIAL
from aon.lab.errors import LabError
from aon.lab.system.files import exists
from aon.lab.system.shown import shown
from aon.lab.system.suggest import unknown

NAMES = (sample.NAME, *OFFICIAL)


def default_root() -> Path:
    """The folder that holds datasets: the environment variable AON_DATA, or ~/.cache/aon."""
    return Path(os.environ.get("AON_DATA") or "~/.cache/aon").expanduser()


def load(name: str, root: Path | None = None) -> Dataset:
    """A dataset by its name, or a user's own by its path.

    Args:
        name: cifar10-sample, cifar10, cifar100, the path of an .npz file, or the path of a folder of class
            folders, which may end in @SIZE: every image is then scaled to SIZE x SIZE.
        root: The folder that holds datasets; None means AON_DATA or ~/.cache/aon.

    Raises:
        LabError: if there is no such dataset, or its files are damaged.

    Example:
        >>> load("cifar10-sample")
        cifar10-sample: 5000 training and 1000 test images of 32x32, 10 classes
    """
    check(name, root)
    if name == sample.NAME:
        return sample.load()
    if name in OFFICIAL:
        return cifar.load(OFFICIAL[name], root or default_root())
    path, size = _own(name)
    data = load_folder(path, size) if path.is_dir() else load_npz(path)
    return replace(data, name=name)


def check(name: str, root: Path | None = None) -> None:
    """Raise an error if a dataset is missing, without reading it.

    Args:
        name: As for `load`.
        root: As for `load`.

    Raises:
        LabError: if the name is unknown, or no files lie where it points.

    Example:
        >>> check("cifar10-smaple")
        Traceback (most recent call last):
        aon.lab.errors.LabError: unknown dataset 'cifar10-smaple'; did you mean 'cifar10-sample'? (there are: ...
    """
    if name == sample.NAME:
        return
    if name in OFFICIAL:
        cifar.require(OFFICIAL[name], root or default_root())
        return
    path, size = _own(name)
    if not name or not exists(path):
        if path.suffix or len(path.parts) > 1:
            raise LabError(f"unknown dataset {shown(name)}, and no such file or folder exists")
        raise unknown("dataset", name, NAMES, also="an .npz file or a folder of class folders")
    if path.is_file() and (size is not None or path.suffix != ".npz"):
        raise LabError(f"dataset {shown(name)}: expected an .npz file or a folder of class folders")


def _own(name: str) -> tuple[Path, int | None]:
    """The path of a user's own data, and the size that follows it after an @."""
    path = _home(name)
    at_size = re.fullmatch(r"(.+)@([1-9]\d{0,3})", name)
    if at_size is None or exists(path):
        return path, None
    return _home(at_size[1]), int(at_size[2])


def _home(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # a user that does not exist: then it is a name like any other
        return Path(name)
