"""Files that are either whole or absent: written beside their place, flushed to the disk, then renamed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from aon.lab.errors import LabError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the name `path` if, and only if, the block ends well.

    Args:
        path: The file to make or replace; its folder must exist.

    Raises:
        LabError: if the folder cannot be written or the disk is full.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp gives 0600, which colleagues could not read
        Path(temporary).replace(path)
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()


def write_text(path: Path, text: str) -> None:
    """Replace a text file, whole or not at all.

    Args:
        path: The file to make or replace.
        text: Its new content.
    """
    with replacing(path) as file:
        file.write(text.encode())
