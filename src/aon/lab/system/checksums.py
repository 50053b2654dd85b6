"""Write checksums into files, and check them before any of the content is used.

A file that carries one has the word `checksum` and then 64 hexadecimal digits: the SHA-256 of the whole file, counted
with zeros in the place of the digits. So a JSON record, a safetensors header and the comment of a torch archive can
all hold it and stay what they are, and no bit of the file is left out.
"""

import hashlib
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from aon.lab.errors import LabError

MARK = "checksum"
BLANK = "0" * 64
# Between word and digits: the punctuation of JSON, perhaps quoted inside another JSON.
_CARRIED = re.compile(MARK.encode() + rb'[\\": ]{1,8}([0-9a-f]{64})')
_REACH = len(MARK) + 8 + 64


def seal(file: BinaryIO) -> None:
    """Put the checksum into a file that was written with `BLANK` in its place.

    Args:
        file: Open for reading and writing.

    Raises:
        ValueError: if the file has no place for a checksum.
    """
    file.flush()
    with _mapped(file) as content:
        place = _place(content)
        if place is None:
            raise ValueError("no place for a checksum")
        digest = _digest(content, place)
    file.seek(place)
    file.write(digest.encode())
    file.seek(0, 2)


def check(file: BinaryIO, path: Path) -> bool:
    """Compare a file with its checksum.

    Args:
        file: Open for reading.
        path: Its name, for the error.

    Returns:
        Whether it carries a checksum at all.

    Raises:
        LabError: if it carries one and differs from it.
    """
    with _mapped(file) as content:
        place = _place(content)
        if place is None:
            return False
        if content[place : place + len(BLANK)] != _digest(content, place).encode():
            raise LabError(f"{path} is damaged: it differs from its checksum")
        return True


@contextmanager
def _mapped(file: BinaryIO) -> "Iterator[mmap.mmap | bytes]":
    if file.seek(0, 2) == 0:  # an empty file cannot be mapped
        yield b""
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content


def _place(content: "mmap.mmap | bytes") -> int | None:
    """Where the digits of the last checksum begin."""
    at = content.rfind(MARK.encode())
    found = _CARRIED.match(content[at : at + _REACH]) if at >= 0 else None
    return at + found.start(1) if found else None


def _digest(content: "mmap.mmap | bytes", place: int) -> str:
    digest = hashlib.sha256()
    with memoryview(content) as view:
        digest.update(view[:place])
        digest.update(BLANK.encode())
        digest.update(view[place + len(BLANK) :])
    return digest.hexdigest()
