"""One process at a time in a folder; the lock is the operating system's, so it ends with the process."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aon.lab.errors import LabError

LOCK = ".lock"


@contextmanager
def locked(folder: Path, patience: float = 10.0) -> Iterator[None]:
    """Hold a folder for this process.

    Args:
        folder: The folder; made if it is missing.
        patience: Seconds to wait for a process that is just ending.

    Raises:
        LabError: if another process holds it, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise LabError(f"cannot write {folder}: {error.strerror}") from error
    try:
        end = time.monotonic() + patience
        while not _take(handle):
            if time.monotonic() > end:
                raise LabError(f"{folder} is in use by another aon process; wait for it or choose another --out")
            time.sleep(0.1)
        yield
    finally:
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _take(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
