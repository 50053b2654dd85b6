"""Which datasets are on disk, and whether their files are the official ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aon.lab.data import cifar, sample
from aon.lab.data.catalogue import check, default_root, load
from aon.lab.data.download import md5_of
from aon.lab.data.official import OFFICIAL, Layout, Official
from aon.lab.errors import LabError

State = Literal["good", "present", "incomplete", "damaged", "absent"]


@dataclass(frozen=True)
class Status:
    """State of one dataset.

    `state` is good (every file checked), present (there, but not checked), incomplete (files missing), damaged
    (a file is not the official one) or absent. `where` is the folder or file, None if it is absent. `detail` is
    one line for people: the layout, the first fault, or how to get the dataset.
    """

    name: str
    state: State
    where: str | None
    detail: str
    n_train: int | None = None
    n_test: int | None = None

    @property
    def usable(self) -> bool:
        """Whether loading it can be expected to work."""
        return self.state in ("good", "present")


def available(root: Path | None = None) -> list[Status]:
    """Every named dataset and its state; files are not read.

    Args:
        root: The folder that holds datasets; None means AON_DATA or ~/.cache/aon.

    Example:
        >>> [(status.name, status.state) for status in available(Path("/nowhere"))]
        [('cifar10-sample', 'present'), ('cifar10', 'absent'), ('cifar100', 'absent')]
    """
    whole = [_found(source, root or default_root()) for source in OFFICIAL.values()]
    return [_sample("present"), *whole]


def verify(name: str, root: Path | None = None) -> Status:
    """Check a dataset file by file; a user's own data are read once through.

    Args:
        name: As for `load`.
        root: As for `load`.

    Raises:
        LabError: if there is no dataset of that name.

    Example:
        >>> verify("cifar10-sample").state
        'good'
    """
    if name in OFFICIAL:
        status = _found(OFFICIAL[name], root or default_root())
        return _checked(OFFICIAL[name], root or default_root()) if status.state == "present" else status
    check(name, root)
    try:
        data = load(name, root)
    except LabError as error:
        return Status(name, "damaged", name, str(error))
    if name == sample.NAME:
        return _sample("good")
    return Status(name, "good", name, str(data), len(data.y_train), len(data.y_test))


def _sample(state: State) -> Status:
    detail = "comes with the package"
    return Status(sample.NAME, state, str(sample.folder()), detail, sample.N_TRAIN, sample.N_TEST)


def _found(source: Official, root: Path) -> Status:
    """Present, incomplete or absent."""
    found = cifar.find(source, root)
    if found is not None:
        layout, folder = found
        return Status(source.name, "present", str(folder), _words(layout), source.n_train, source.n_test)
    for layout in source.layouts:
        for folder in cifar.places(layout, source.name, root):
            missing = [name for name in layout.files if not (folder / name).is_file()]
            if len(missing) < len(layout.files):
                detail = f"{', '.join(missing)} missing; get it with: aon data fetch {source.name}"
                return Status(source.name, "incomplete", str(folder), detail)
    return Status(source.name, "absent", None, f"get it with: aon data fetch {source.name}")


def _checked(source: Official, root: Path) -> Status:
    """Good or damaged, by the md5 of every file."""
    layout, folder = cifar.require(source, root)
    for name, md5 in layout.files.items():
        try:
            found = md5_of(folder / name)
        except OSError as error:
            return Status(source.name, "damaged", str(folder), f"cannot read {name}: {error.strerror}")
        if found != md5:
            detail = f"{name} has md5 {found}, the official file {md5}"
            return Status(source.name, "damaged", str(folder), detail)
    detail = f"{_words(layout)}, {len(layout.files)} files with the official md5"
    return Status(source.name, "good", str(folder), detail, source.n_train, source.n_test)


def _words(layout: Layout) -> str:
    return "official binary files" if layout.kind == "binary" else "official Python files, as torchvision keeps them"
