"""Write files atomically: to a temporary name, flushed, then renamed."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from aon.lab.errors import LabError
from aon.lab.system.checksums import seal
from aon.lab.system.locks import take

PREFIX, SUFFIX = ".aon-", ".tmp"


class _Noting(io.FileIO):
    """A file that remembers why a write failed: torch's writer raises an error of its own instead."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            self.error = error
            raise


@contextmanager
def replacing(path: Path, *, sealed: bool = False) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to `path` if the block ends without an error.

    Args:
        path: The file to make or replace; its folder must exist.
        sealed: Whether the content has a place for a checksum, to be filled in.

    Raises:
        LabError: if the folder cannot be written or the disk is full.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{PREFIX}{path.name[:100]}.", suffix=SUFFIX)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from error
    take(handle)  # says that its writer lives, see `remove_orphans`
    raw = _Noting(handle, "r+b")
    try:
        with io.BufferedRandom(raw) as file:
            yield cast(BinaryIO, file)
            if sealed:
                seal(cast(BinaryIO, file))
            file.flush()
            os.fsync(file.fileno())
        # mkstemp gives 0600, which colleagues could not read; a user with a strict umask wants just that.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror or error}") from error
    except RuntimeError as error:
        if raw.error is None:
            raise
        raise LabError(f"cannot write {path}: {raw.error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
        with suppress(OSError):
            raw.close()


def write_text(path: Path, text: str, *, sealed: bool = False) -> None:
    """Replace a text file, whole or not at all.

    Args:
        path: The file to make or replace.
        text: Its new content.
        sealed: Whether the text has a place for a checksum, to be filled in.
    """
    with replacing(path, sealed=sealed) as file:
        file.write(text.encode())


def keep_under(path: Path, name: Path) -> None:
    """Give a file a second name, replacing any file of that name; nothing is copied.

    Args:
        path: The file; it stays where it is, if the file system can give a file two names.
        name: The other name, in the same folder.
    """
    second = path.with_name(f"{PREFIX}{path.name[:100]}.{os.getpid()}{SUFFIX}")
    try:
        second.unlink(missing_ok=True)
        second.hardlink_to(path)
        second.replace(name)
        second.unlink(missing_ok=True)  # where `name` was this very file already, renaming does nothing
    except OSError:
        path.replace(name)


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; False for names that the system does not allow.

    Args:
        path: The file or folder.
    """
    try:
        return path.exists()
    except OSError:
        return False


def remove_orphans(folder: Path) -> list[Path]:
    """Remove temporary files of killed processes; those of live processes stay.

    Args:
        folder: The folder to look in, not below.

    Returns:
        What was removed.
    """
    return [path for path in folder.glob(f"{PREFIX}*{SUFFIX}") if _removed(path)]


def _removed(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        if take(handle):
            path.unlink(missing_ok=True)
            return True
        return False
    finally:
        os.close(handle)


def _umask() -> int:
    # Only by setting it can it be read in every system; Linux tells it in a file.
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
