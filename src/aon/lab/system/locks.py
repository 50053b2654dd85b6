"""Lock a folder for one process; the operating system releases the lock when the process ends."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aon.lab.errors import LabError, StoppedError

LOCK = ".lock"


@contextmanager
def locked(folder: Path, patience: float = 10.0, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Hold a folder for this process.

    Args:
        folder: The folder; made if it is missing.
        patience: Seconds to wait for a process that is just ending.
        stop: Called from time to time while waiting; if it returns True, the wait ends.

    Raises:
        LabError: if another process holds it, or the folder cannot be made.
        StoppedError: if `stop` returned True while waiting.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A link in the lock's place could point to a file of another's choice.
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise LabError(f"cannot write {folder}: {error.strerror}") from error
    try:
        _await(handle, folder, patience, stop)
        yield
    finally:
        os.close(handle)


def _await(handle: int, folder: Path, patience: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + patience
    while not take(handle):
        if stop():
            raise StoppedError(f"stopped while waiting for another aon process in {folder}")
        if time.monotonic() > end:
            raise LabError(f"{folder} is in use by another aon process; wait for it or choose another --out")
        time.sleep(0.1)


if sys.platform == "win32":
    import msvcrt

    def take(handle: int) -> bool:
        """Lock an open file for this process, if no other has it.

        Args:
            handle: The open file; closing it gives the lock back.
        """
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def take(handle: int) -> bool:
        """Lock an open file for this process, if no other has it.

        Args:
            handle: The open file; closing it gives the lock back.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
