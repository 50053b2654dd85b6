"""Download a file of known md5: resume after a break, check, then rename."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from io import FileIO
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from aon.lab.errors import LabError

# What is being done, how far it is, how far it goes (None: not known). Numbers are bytes.
Progress = Callable[[str, int, int | None], None]

CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}  # HTTP status codes worth another try
UNSATISFIABLE = 416  # "there is nothing beyond what you have"


class DownloadError(LabError):
    """The site could not be reached, broke off again and again, or sent something else than was expected."""


def quiet(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""


def download(
    url: str, target: Path, md5: str, *, progress: Progress = quiet, patience: int = 3, pause: float = 1.0
) -> None:
    """Get `url` into the file `target`.

    What has arrived lies in `target`.part, and stays there if the download is interrupted: the next call asks
    for the rest. A server that cannot send a part of a file sends all of it again. A whole file with another
    md5 is thrown away and asked for once more, since a stale part may be the cause.

    Args:
        url: An http or https address.
        target: The file to make; its folder must exist.
        md5: What the content must have.
        progress: Called with the file's name, the bytes so far and the bytes in all.
        patience: How often in a row to try without getting any further.
        pause: Seconds before the second try; doubled for each further one.

    Raises:
        DownloadError: if the download failed.
        LabError: if it cannot be written.
    """
    if not url.startswith(("http://", "https://")):
        raise LabError(f"cannot download {url!r}: expected an http or https address")
    part = target.with_name(target.name + ".part")
    failures, furthest, mismatches = 0, size(part), 0
    while True:
        problem = _attempt(url, part, progress)
        if problem is None:
            found = md5_of(part)
            if found == md5:
                _place(part, target)
                return
            part.unlink()
            mismatches += 1
            problem = f"its md5 is {found}, expected {md5}"
        failures = 1 if size(part) > furthest else failures + 1
        furthest = max(furthest, size(part))
        if failures >= patience or mismatches > 1:
            raise DownloadError(f"cannot download {url}: {problem}")
        time.sleep(pause * 2 ** (failures - 1))


def md5_of(path: Path) -> str:
    """The md5 of a file's content, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def size(path: Path) -> int:
    """The length of a file; 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def _place(part: Path, target: Path) -> None:
    """Give a complete part its name, once it is on the disk."""
    with _writing(target):
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(target)


def _attempt(url: str, part: Path, progress: Progress) -> str | None:
    """Ask for what is missing; return what went wrong if asking again may help, None if `part` is complete."""
    have = size(part)
    headers = {"User-Agent": "aon", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:
            return _receive(response, part, have, progress)
    except HTTPError as error:
        error.close()
        if error.code == UNSATISFIABLE and have:
            return None  # the part is whole already, or too long: its md5 will tell
        if error.code not in TEMPORARY:
            raise DownloadError(f"cannot download {url}: the server answers {error.code} {error.reason}") from error
        return f"the server answers {error.code} {error.reason}"
    except URLError as error:
        return str(error.reason)
    except (HTTPException, OSError) as error:
        return f"the connection broke ({error or type(error).__name__})"


def _receive(response: HTTPResponse, part: Path, have: int, progress: Progress) -> str | None:
    """Write what the server sends behind what is there; the result is as for `_attempt`."""
    if response.status == 206:
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if start is None or int(start[1]) != have:
            part.unlink()
            return "the server sent another part of the file than was asked for"
    else:
        have = 0
    length = response.headers.get("Content-Length")
    total = have + int(length) if length and length.isdigit() else None
    with _writing(part):
        unbuffered = FileIO(part, "ab" if have else "wb")
    with unbuffered as file:
        done = _copy(response, file, have, lambda n: progress(part.stem, n, total))
    return None if total is None or done == total else f"the connection broke after {done} of {total} bytes"


def _copy(response: HTTPResponse, file: FileIO, done: int, report: Callable[[int], None]) -> int:
    """Copy to the end, or to where the connection breaks; return the length of the file."""
    report(done)
    while chunk := response.read1(CHUNK):  # not read: what came before a break must not be lost
        with _writing(file.name):
            done += _write(file, chunk)
        report(done)
    return done


def _write(file: FileIO, chunk: bytes) -> int:
    """Write all of a chunk: an unbuffered file may take less at a time."""
    left = memoryview(chunk)
    while left:
        left = left[file.write(left) :]
    return len(chunk)


@contextmanager
def _writing(path: str | Path) -> Iterator[None]:
    """Tell a fault of the disk from one of the network: both are OSError."""
    try:
        yield
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror or error}") from error
