"""Fixtures: a web server with realistic faults, small datasets in the official layout, the full ones if present."""

import hashlib
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from aon.lab.data import cifar, official, sample
from aon.lab.data.official import Official

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


@dataclass
class Site:
    """A web server on this machine, and what it does wrong."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True  # whether it sends parts of files
    breaks: list[int] = field(default_factory=list)  # bytes after which the next answers break off
    answers: list[int] = field(default_factory=list)  # status codes of the next answers
    shift: int = 0  # how far beyond what was asked for parts begin
    stall: threading.Event | None = None  # wait for it before breaking off
    range_headers: list[str | None] = field(default_factory=list)  # the Range header of each request
    url: str = ""


def handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.range_headers.append(wanted)
            if site.answers and (code := site.answers.pop(0)) != 200:
                self.send_error(code)
                return
            content = site.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and site.ranges else 0
            if start and start >= len(content):
                self.send_error(416)
                return
            self.answer(content, start + site.shift if start else 0, partial=bool(start))

        def answer(self, content: bytes, start: int, *, partial: bool) -> None:
            body = content[start:]
            self.send_response(206 if partial else 200)
            if partial:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # who asked may be gone
                self.wfile.write(body[: site.breaks.pop(0)] if site.breaks else body)
            if site.stall is not None:
                site.stall.wait(60)

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(site)) as server:
        server.daemon_threads = True
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield site
        if site.stall is not None:
            site.stall.set()
        server.shutdown()
        thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def small_records(n: int, label_bytes: int, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, (n, label_bytes), dtype=np.uint8)
    return cifar.encode_binary(labels, random.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8))


@dataclass(frozen=True)
class Small:
    """An official dataset in small: its description, its files, and its archive."""

    source: Official
    files: dict[str, bytes]
    archive: bytes

    def write(self, root: Path) -> Path:
        folder = root / self.source.binary.folder
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder


def archived(files: dict[str, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return buffer.getvalue()


def make_small(source: Official, n: int = 20) -> Small:
    """As the official one, but with `n` images a file and the md5s of these files."""
    layout = source.binary
    files = {name: small_records(n, layout.label_bytes, seed) for seed, name in enumerate(layout.files)}
    archive = archived(
        {f"{layout.folder}/{name}": content for name, content in files.items()} | {"a/readme.html": b"x"}
    )
    small = replace(
        layout,
        train={name: md5(files[name]) for name in layout.train},
        test={name: md5(files[name]) for name in layout.test},
    )
    return Small(replace(source, archive_md5=md5(archive), layouts=(small, *source.layouts[1:])), files, archive)


@pytest.fixture
def small_cifar10(monkeypatch: pytest.MonkeyPatch) -> Small:
    """The laboratory takes this for CIFAR-10."""
    small = make_small(official.CIFAR10)
    monkeypatch.setitem(official.OFFICIAL, "cifar10", small.source)
    return small


@pytest.fixture
def small_cifar100(monkeypatch: pytest.MonkeyPatch) -> Small:
    """The laboratory takes this for CIFAR-100."""
    small = make_small(official.CIFAR100)
    monkeypatch.setitem(official.OFFICIAL, "cifar100", small.source)
    return small


@pytest.fixture
def sample_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the packaged sample that the laboratory reads instead, to be spoilt."""
    copy = tmp_path / "sample"
    copy.mkdir()
    for file in sample.folder().iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(sample, "folder", lambda: copy)
    return copy


@pytest.fixture(scope="session")
def whole_cifar10() -> Path:
    """A folder that holds the whole CIFAR-10."""
    root = Path(os.environ.get("AON_DATA", "/nonexistent"))
    if cifar.find(official.CIFAR10, root) is None:
        pytest.skip("the whole CIFAR-10 is not there: set AON_DATA to a folder that holds cifar-10-batches-bin")
    return root


@pytest.fixture(scope="session")
def whole_cifar100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the whole CIFAR-100: AON_DATA, or made from the mosaics in ../shared/data."""
    root = Path(os.environ.get("AON_DATA", "/nonexistent"))
    if cifar.find(official.CIFAR100, root) is not None:
        return root
    if not (SHARED / "get_cifar.py").exists():
        pytest.skip("the whole CIFAR-100 is not there: set AON_DATA to a folder that holds cifar-100-binary")
    root = tmp_path_factory.mktemp("cifar100")
    subprocess.run([sys.executable, SHARED / "get_cifar.py", root, "cifar100"], check=True, capture_output=True)
    return root
